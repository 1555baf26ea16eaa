"""Allocation, reference counts, loads and stores of elements, and stacks (tapes).

A stack is `{ ptr header, ptr data, i64 used, i64 capacity }` in the function's frame, in bytes: its address
does not escape, so that LLVM keeps the fields in registers. Its buffer is an allocation of the context, grown by
@dlvm.stack_grow to twice its size. Each entry is the native form of its type, on 8-byte places. Beside it stands
`{ ptr header, i64 filled, i64 room }`, its chunk, where memory for arrays that are made to be pushed is cut from one
(chunks.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.contract import BORROWED, DATA, NBYTES, PYOBJECT, REFCOUNT, flat_types
from dlvm_py.backend.cpu.function import FunctionEmitter, Lowered
from dlvm_py.backend.cpu.pointers import Pointer, unflatten
from dlvm_py.backend.cpu.values import FALSE, NULL, ONE, ZERO, V, constant, i64
from dlvm_py.errors import PassError
from dlvm_py.ir import Instruction, PointerType, StackType, TensorType, Type, Value
from dlvm_py.ir.types import ELEMENTS

# how many extents @dlvm.new takes
FACTORS = 4
NEGATIVE = "negative dimensions are not allowed"
STACK = "{ ptr, ptr, i64, i64 }"
HEADER_FIELD, DATA_FIELD, USED_FIELD, CAPACITY_FIELD = 0, 8, 16, 24
CHUNK = "{ ptr, i64, i64 }"


def allocate_heap(e: FunctionEmitter, i: Instruction) -> Pointer:
    """A fresh C-contiguous array."""
    extents = tuple(e.scalar(v) for v in i.operands)
    unknown = [n for n in extents if constant(n) is None]
    dtype = ELEMENTS[i.attrs["dtype"]]
    by_extents = unknown and e.is_brief and len(extents) <= FACTORS
    if i in e.chunked:
        chunk = e.chunks[e.chunked[i]]
        if by_extents:
            data = _by_extents(e, "dlvm.new_cut", [chunk], dtype.itemsize, extents)
        else:
            data = _cut(e, chunk, size_of(e, dtype.itemsize, extents))
        return Pointer(dtype, "C", data, e.load("ptr", chunk), extents, None, e.notes(i))
    if by_extents:
        header = _by_extents(e, "dlvm.new", [], dtype.itemsize, extents)
    else:
        header = _allocated(e, size_of(e, dtype.itemsize, extents))
    data = e.load("ptr", e.gep("i8", header, i64(DATA)))
    return Pointer(dtype, "C", data, header, extents, None, e.notes(i))


def _by_extents(e: FunctionEmitter, name: str, of: list[V], itemsize: int, extents: Sequence[V]) -> V:
    """A fresh array by one call that finds everything that can be wrong: its header, or its data in a chunk."""
    site = V("i32", str(e.site("ValueError", NEGATIVE)))
    args = [e.ctx, *of, site, i64(itemsize), *extents, *[ONE] * (FACTORS - len(extents))]
    e.module.declare(name, "ptr", [v.type for v in args], "nounwind")
    found = e.call(f"@{name}", "ptr", args)
    e.go_on_if(e.icmp("ne", found, NULL))
    return found


def size_of(e: FunctionEmitter, itemsize: int, extents: Sequence[V]) -> V:
    """The bytes of an array; ValueError for a negative extent."""
    unknown = [n for n in extents if constant(n) is None]
    if unknown:
        negative = e.any(*(e.icmp("slt", n, ZERO) for n in unknown))
        e.raise_unless(e.op("xor", negative, V("i1", "true")), "ValueError", NEGATIVE)
    size, lost = i64(itemsize), FALSE
    for n in extents:
        if constant(n) == 1:
            continue
        pair = e.intrinsic("llvm.umul.with.overflow.i64", "{ i64, i1 }", size, n)
        size, lost = e.extract(pair, 0, "i64"), e.op("or", lost, e.extract(pair, 1, "i1"))
    # the largest size is more than any memory: allocation fails, also where the product does not fit
    return e.select(e.op("or", lost, e.icmp("slt", size, ZERO)), i64(2**63 - 1), size)


def _cut(e: FunctionEmitter, chunk: V, size: V) -> V:
    """Memory for an array that will be pushed, behind what the chunk of the stack has given."""
    e.module.declare("dlvm.cut", "ptr", ["ptr", "ptr", "i64"])
    data = e.call("@dlvm.cut", "ptr", [e.ctx, chunk, size])
    e.require_memory(data)
    return data


def allocate_stack(e: FunctionEmitter, i: Instruction) -> Pointer:
    """A C-contiguous array of known extents in the frame, whose header says that others own it."""
    assert isinstance(i.type, PointerType)
    dtype, shape = i.type.dtype, [n or 0 for n in i.type.shape]
    nbytes = math.prod(shape) * dtype.itemsize
    data, header = e.alloca(f"[{nbytes} x i8]", 64), e.alloca("{ i64, ptr, i64, ptr, ptr, ptr }", 16)
    fields = {REFCOUNT: i64(BORROWED), DATA: data, NBYTES: i64(nbytes), PYOBJECT: NULL}
    for offset, value in fields.items():
        e.store(value, e.gep("i8", header, i64(offset)))
    return Pointer(dtype, "C", data, header, tuple(map(i64, shape)), None, e.notes(i))


def retain(e: FunctionEmitter, header: V) -> None:
    """One more reference."""
    name = "dlvm.keep" if e.is_brief else "dlvm.retain"
    e.module.declare(name, "void", ["ptr"], "nounwind")
    e.call(f"@{name}", "void", [header])


def release(e: FunctionEmitter, header: V) -> None:
    """One reference less."""
    name = "dlvm.drop" if e.is_brief else "dlvm.release"
    e.module.declare(name, "void", ["ptr", "ptr"], "nounwind")
    e.call(f"@{name}", "void", [e.ctx, header])


# bytes that are pushed or popped at a time: a stack that grows has more room than that
_MOST = 2048

# -- stacks ------------------------------------------------------------------------------------------


def entry_size(type: Type) -> int:
    """Bytes of one entry: packed for a scalar, else 8 for each part."""
    if isinstance(type, TensorType) and not type.shape:
        return type.dtype.itemsize
    return 8 * len(flat_types(type))


def _stack(e: FunctionEmitter, stack: Value) -> tuple[V, Type]:
    assert isinstance(stack.type, StackType)
    return e.scalar(stack), stack.type.element


def _field(e: FunctionEmitter, stack: V, offset: int) -> V:
    return e.gep("i8", stack, i64(offset))


def create_stack(e: FunctionEmitter, i: Instruction) -> V:
    """An empty stack. The frame has one for each createStack instruction."""
    stack = e.alloca(STACK, 8)
    clear(e, stack)
    if i in e.chunked.values():
        e.chunks[i] = e.alloca(CHUNK, 8)
        _clear_chunk(e, e.chunks[i])
    return stack


def clear(e: FunctionEmitter, stack: V) -> None:
    """Make it empty and without a buffer."""
    for offset, value in ((HEADER_FIELD, NULL), (DATA_FIELD, NULL), (USED_FIELD, ZERO), (CAPACITY_FIELD, ZERO)):
        e.store(value, _field(e, stack, offset))


def _clear_chunk(e: FunctionEmitter, chunk: V) -> None:
    for offset, value in ((0, NULL), (8, ZERO), (16, ZERO)):
        e.store(value, e.gep("i8", chunk, i64(offset)))


def push(e: FunctionEmitter, i: Instruction) -> None:
    """Append an entry, growing the buffer where it is full."""
    stack, type = _stack(e, i.operands[1])
    if e.is_long and isinstance(type, PointerType):
        e.module.declare("dlvm.push_place", "ptr", ["ptr", "ptr", "i64"], "nounwind")
        place = e.call("@dlvm.push_place", "ptr", [e.ctx, stack, i64(entry_size(type))])
        e.require_memory(place)
        _store_entry(e, i, place)
        return
    if i not in e.entries:
        _reserve(e, stack, _run(i), entry_size(type))
    _store_entry(e, i, e.entries.pop(i))


def _run(i: Instruction) -> list[Instruction]:
    """An instruction, and those right behind it that push to the same stack, or pop from it."""
    assert i.block is not None
    instructions, stack = i.block.instructions, i.operands[-1]
    end = first = instructions.index(i)
    most = max(_MOST // entry_size(stack.type.element), 1)  # type: ignore[attr-defined]
    while end - first < most and instructions[end].op is i.op and instructions[end].operands[-1] is stack:
        end += 1
    return instructions[first:end]


def _reserve(e: FunctionEmitter, stack: V, pushes: list[Instruction], size: int) -> None:
    """Room for the entries of pushes, one test for all of them."""
    used = e.load("i64", _field(e, stack, USED_FIELD))
    capacity = e.load("i64", _field(e, stack, CAPACITY_FIELD))
    after = e.op("add nuw nsw", used, i64(size * len(pushes)))
    fits, grow = e.label("fits"), e.label("grow")
    e.likely(e.icmp("sle", after, capacity), fits, grow)
    e.place(grow)
    e.module.declare("dlvm.stack_grow", "ptr", ["ptr", "ptr"])
    header = e.call("@dlvm.stack_grow", "ptr", [e.ctx, e.load("ptr", _field(e, stack, HEADER_FIELD))])
    e.require_memory(header)
    e.store(header, _field(e, stack, HEADER_FIELD))
    e.store(e.load("ptr", e.gep("i8", header, i64(DATA))), _field(e, stack, DATA_FIELD))
    e.store(e.load("i64", e.gep("i8", header, i64(NBYTES))), _field(e, stack, CAPACITY_FIELD))
    e.br(fits)
    e.place(fits)
    e.store(after, _field(e, stack, USED_FIELD))
    place = e.gep("i8", e.load("ptr", _field(e, stack, DATA_FIELD)), used)
    e.entries.update((each, e.gep("i8", place, i64(size * k))) for k, each in enumerate(pushes))


def _store_entry(e: FunctionEmitter, i: Instruction, place: V) -> None:
    for k, v in enumerate(e.to_memory_form(e.lookup(i.operands[0]))):
        e.store(v, e.gep("i8", place, i64(8 * k)), e.notes(i.operands[1]))


def pop(e: FunctionEmitter, i: Instruction) -> Lowered:
    """Take the last entry off; the program pops no more than it pushed."""
    stack, type = _stack(e, i.operands[0])
    if i not in e.entries:
        pops, size = _run(i), entry_size(type)
        used = e.op("sub nuw nsw", e.load("i64", _field(e, stack, USED_FIELD)), i64(size * len(pops)))
        e.store(used, _field(e, stack, USED_FIELD))
        least = e.gep("i8", e.load("ptr", _field(e, stack, DATA_FIELD)), used)
        e.entries.update((each, e.gep("i8", least, i64(size * k))) for k, each in enumerate(reversed(pops)))
        if isinstance(type, PointerType) and type.shape and e.module.shares:
            for each in pops:
                _fetch_below(e, e.entries[each], used, i64(size * len(pops)))
    place = e.entries.pop(i)
    notes = e.notes(i.operands[0])
    values = [e.load(t, e.gep("i8", place, i64(8 * k)), notes) for k, t in enumerate(flat_types(type))]
    return e.from_memory_form(type, values, e.notes(i) if isinstance(type, PointerType) else "")


def _fetch_below(e: FunctionEmitter, place: V, left: V, span: V) -> None:
    """The array that the next trip will take off, so many bytes below an entry: the CPU is told to fetch it."""
    reads = "nounwind memory(argmem: read, inaccessiblemem: readwrite)"
    e.module.declare("dlvm.fetch_below", "void", ["ptr", "i64", "i64"], reads)
    e.call("@dlvm.fetch_below", "void", [place, left, span])


def drain(e: FunctionEmitter, i: Instruction) -> Pointer:
    """The entries as an array. Those of scalars are one already: the array takes the buffer over."""
    stack, type = _stack(e, i.operands[0])
    assert isinstance(i.type, PointerType)
    dtype, itemsize = i.type.dtype, i64(i.type.dtype.itemsize)
    if isinstance(type, PointerType):
        return drain_arrays(e, i, functools.partial(_allocated, e), functools.partial(_copy, e))
    used = e.load("i64", _field(e, stack, USED_FIELD))
    header, empty, full = e.alloca("ptr", 8), e.label("empty"), e.label("full")
    e.store(e.load("ptr", _field(e, stack, HEADER_FIELD)), header)
    e.likely(e.icmp("ne", e.load("ptr", header), NULL), full, empty)
    e.place(empty)
    e.store(_allocated(e, ZERO), header)
    e.br(full)
    e.place(full)
    clear(e, stack)
    found = e.load("ptr", header)
    data = e.load("ptr", e.gep("i8", found, i64(DATA)))
    return Pointer(dtype, "C", data, found, (e.op("udiv exact", used, itemsize),), None, e.notes(i))


def drain_numbers(
    e: FunctionEmitter, i: Instruction, allocate: Callable[[V], V], copy: Callable[[V, V, V], None]
) -> Pointer:
    """The entries of a stack of scalars in memory of `allocate`, by copy(to, from, nbytes); the stack is empty then."""
    stack, _ = _stack(e, i.operands[0])
    assert isinstance(i.type, PointerType)
    used = e.load("i64", _field(e, stack, USED_FIELD))
    header = allocate(used)
    data = e.load("ptr", e.gep("i8", header, i64(DATA)))
    with e.when(e.icmp("ne", used, ZERO)):
        copy(data, e.load("ptr", _field(e, stack, DATA_FIELD)), used)
    _free(e, i.operands[0], stack)
    count = e.op("udiv exact", used, i64(i.type.dtype.itemsize))
    return Pointer(i.type.dtype, "C", data, header, (count,), None, e.notes(i))


def drain_arrays(
    e: FunctionEmitter, i: Instruction, allocate: Callable[[V], V], copy: Callable[[V, V, V], None]
) -> Pointer:
    """The elements of the arrays of a stack one behind the other, as `drain_numbers`; the arrays are released."""
    stack, type = _stack(e, i.operands[0])
    assert isinstance(type, PointerType)
    used = e.load("i64", _field(e, stack, USED_FIELD))
    itemsize = i64(type.dtype.itemsize)
    size = i64(entry_size(type))
    count = e.op("udiv", used, size)
    entries = e.load("ptr", _field(e, stack, DATA_FIELD))
    total = e.alloca("i64", 8)
    e.store(ZERO, total)

    def entry_at(index: V) -> tuple[V, V, V]:
        """The header, the data, and the number of bytes of an entry."""
        place = e.gep("i8", entries, e.mul(index, size, "nuw nsw"))
        array = unflatten(type, [e.load(t, e.gep("i8", place, i64(8 * k))) for k, t in enumerate(flat_types(type))])
        nbytes = itemsize
        for n in array.extents:
            nbytes = e.mul(nbytes, n)
        return array.header, array.data, nbytes

    with e.loop(count) as loop:
        _, _, nbytes = entry_at(loop.index)
        e.store(e.add(e.load("i64", total), nbytes), total)
    whole = e.load("i64", total)
    header = allocate(whole)
    data = e.load("ptr", e.gep("i8", header, i64(DATA)))
    e.store(ZERO, total)
    with e.loop(count) as loop:
        owner, source, nbytes = entry_at(loop.index)
        at = e.load("i64", total)
        copy(e.gep("i8", data, at), source, nbytes)
        release(e, owner)
        e.store(e.add(at, nbytes), total)
    _free(e, i.operands[0], stack)
    return Pointer(type.dtype, "C", data, header, (e.op("udiv exact", whole, itemsize),), None, e.notes(i))


def _copy(e: FunctionEmitter, to: V, source: V, nbytes: V) -> None:
    e.intrinsic("llvm.memcpy.p0.p0.i64", "void", to, source, nbytes, FALSE)


def _allocated(e: FunctionEmitter, nbytes: V) -> V:
    """The header of fresh memory; MemoryError where there is none."""
    e.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
    header = e.call("@dlvm.allocate", "ptr", [e.ctx, nbytes])
    e.require_memory(header)
    return header


def destroy_stack(e: FunctionEmitter, i: Instruction) -> None:
    """Release the entries that are left and free the buffer."""
    stack, type = _stack(e, i.operands[0])
    if isinstance(type, PointerType):
        _release_entries(e, stack, entry_size(type))
    elif not isinstance(type, TensorType) or type.shape:
        raise PassError(f"a stack of {type} at stage scheduled")
    _free(e, i.operands[0], stack)


def _release_entries(e: FunctionEmitter, stack: V, size: int) -> None:
    if e.is_brief:
        e.module.declare("dlvm.release_entries", "void", ["ptr", "ptr", "i64"], "nounwind")
        e.call("@dlvm.release_entries", "void", [e.ctx, stack, i64(size)])
        return
    count = e.op("udiv", e.load("i64", _field(e, stack, USED_FIELD)), i64(size))
    data = e.load("ptr", _field(e, stack, DATA_FIELD))
    with e.loop(count) as loop:
        entry = e.gep("i8", data, e.mul(loop.index, i64(size), "nuw nsw"))
        release(e, e.load("ptr", e.gep("i8", entry, i64(8))))


def _free(e: FunctionEmitter, value: Value, stack: V) -> None:
    """Give up the buffer and the chunk."""
    release(e, e.load("ptr", _field(e, stack, HEADER_FIELD)))
    clear(e, stack)
    if value in e.chunks:
        release(e, e.load("ptr", e.chunks[value]))
        _clear_chunk(e, e.chunks[value])
