"""Sorting along an axis, and binary search.

One row after the other becomes integers in the same order in scratch memory (sort_keys.py), which are sorted in vectors
(quick_sort.py), and is written. Without AVX-512 f64 stay what they are, with infinity for NaN, which are counted: of
these there is a smaller and a larger one in an instruction each, of integers of 64 bits there is not. Sorts are stable:
what is equal has one key, and for the places of keys these decide (argsort.py); of sorted values only zeros can be told
apart by their signs, and are put as they came.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.argsort import BUFFERS as PLACES_BUFFERS
from dlvm_py.backend.cpu.argsort import argsort
from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import DATA
from dlvm_py.backend.cpu.counting_sort import counting_sort
from dlvm_py.backend.cpu.floating import widened
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import loop_order, nest
from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.merge_sort import BUFFERS, SLACK, bits_of, extremes
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.quick_sort import quick_sort
from dlvm_py.backend.cpu.skinny import steps
from dlvm_py.backend.cpu.sort_keys import NEGATIVE_ZERO, below, key_of, key_type, number_of
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, float_constant, i64
from dlvm_py.ir import I64, DType, Instruction

SEARCHES = 4  # of one array, next to one another


def store_sort(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a sort or an argsort; the work."""
    tree = Tree(e, i.operands[0])
    tree.fast = not tree.conditions()
    dtype = i.operands[0].type.dtype  # type: ignore[attr-defined]
    extents, axis, ordinal = tree_extents(e, i.operands[0]), i.attrs["axis"], i.op.name == "argsort"
    has_zeros = dtype.kind == "f" and not ordinal  # of two signs
    is_plain = has_zeros and dtype.name == "f64" and not e.module.masks
    n, key = extents[axis], "double" if is_plain else key_type(dtype, ordinal)
    each, count = e.add(n, i64(SLACK)), PLACES_BUFFERS if ordinal else BUFFERS
    header = _scratch(e, e.mul(each, i64(count * bits_of(key) // 8)))
    memory = e.load("ptr", e.gep("i8", header, i64(DATA)))
    strides = strides_of(e, dest)
    with nest(e, tree.index, [k for k in loop_order(extents, range(len(extents))) if k != axis], extents):
        with e.loop(n, [ZERO] * (is_plain + has_zeros)) as loop:
            tree.index[axis] = loop.index
            x, flags = tree.element(), []
            if is_plain:
                flags = [_is_nan(e, dtype, x)]
                x = e.select(flags[0], extremes(key)[1], x)
            else:
                x = key_of(e, dtype, x, ordinal)
            if has_zeros:
                flags.append(_is_negative_zero(e, x))
            e.store(x, e.gep(key, memory, loop.index))
            loop.next = [e.add(k, e.cast("zext", f, "i64")) for k, f in zip(loop.carried, flags, strict=True)]
        counts = loop.results
        if ordinal:
            source = e.call(argsort(e), "ptr", [memory, n])
        else:
            buffers = [e.gep(key, memory, e.mul(each, i64(k))) for k in range(BUFFERS)]
            sort = counting_sort if dtype.kind in "iu" else quick_sort
            source = e.call(sort(e, key), "ptr", [*buffers, n])
        if has_zeros:
            with e.when(e.icmp("sgt", counts[-1], ZERO)):
                e.call("@" + _zeros(e, key), "void", [memory, source, n])
        with e.loop(n) as loop:
            tree.index[axis] = loop.index
            x = e.load(key, e.gep(key, source, loop.index))
            if is_plain:
                is_number = e.icmp("slt", loop.index, e.op("sub", n, counts[0]))
                x = e.select(is_number, x, float_constant(key, math.nan))
            elif not ordinal:
                x = number_of(e, dtype, x)
            store_element(
                e, dest.dtype, x, offset(e, dest.data, [tree.index[k] for k in range(tree.rank)], strides), dest.notes
            )
    release(e, header)
    return e.mul(e.product(extents), i64(16))


def _is_negative_zero(f: FunctionText, x: V) -> V:
    """Of a number, or of a key, of which those of zeros are -1 and 0."""
    if x.type != "double":
        return f.icmp("eq", x, V(x.type, str(NEGATIVE_ZERO)))
    return f.icmp("eq", f.cast("bitcast", x, "i64"), extremes("i64")[0])


def _zeros(e: Code, key: str) -> str:
    """A function that puts zeros of both signs, which are equal, in the order of the source: `(source, sorted, n)`."""
    zero = float_constant(key, 0.0) if key == "double" else V(key, "0")

    def write(c: Code) -> None:
        source, target, n = c.params

        def compared(how: str, x: V, y: V) -> V:
            return c.fcmp(f"o{how}", x, y) if key == "double" else c.icmp(f"s{how}" if how == "lt" else how, x, y)

        with c.loop(n, [ZERO]) as loop:
            x = c.load(key, c.gep(key, source, loop.index))
            is_less = c.both(compared("lt", x, zero), c.op("xor", _is_negative_zero(c, x), V("i1", "true")))
            loop.next = [c.add(loop.carried[0], c.cast("zext", is_less, "i64"))]
        with c.loop(n, loop.results) as loop:
            x = c.load(key, c.gep(key, source, loop.index))
            (start,) = loop.carried
            is_zero = c.any(compared("eq", x, zero), _is_negative_zero(c, x))
            with c.when(is_zero):
                c.store(x, c.gep(key, target, start))
            loop.next = [c.add(start, c.cast("zext", is_zero, "i64"))]
        c.line("ret void")

    return helper(e, f"dlvm.sort.zeros.{key}", "void", ["ptr", "ptr", "i64"], write)


def _scratch(e: FunctionEmitter, nbytes: V) -> V:
    """The header of memory that is used here only."""
    e.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
    header = e.call("@dlvm.allocate", "ptr", [e.ctx, nbytes])
    e.require_memory(header)
    return header


def store_search(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a searchSorted: binary searches of as many steps each, some next to one another; the work.

    What one waits for (its comparisons, its misses of the caches) the others do not.
    """
    haystack, value = i.operands
    assert isinstance(haystack, Instruction)
    source = e.pointer(haystack.operands[0])
    tree = Tree(e, value)
    tree.fast = not tree.conditions()
    extents = tree_extents(e, value)
    strides = strides_of(e, dest)

    def search(first: V | None, count: int) -> None:
        wanted, places = [], []
        for k in range(count):
            if first is not None:
                tree.index[tree.rank - 1] = e.add(first, i64(k))
            wanted.append(tree.element())
            places.append(offset(e, dest.data, [tree.index[axis] for axis in range(tree.rank)], strides))
        for found, place in zip(places_of(e, source, wanted, i.attrs["side"]), places, strict=True):
            store_element(e, I64, found, place, dest.notes)

    with nest(e, tree.index, range(tree.rank - 1), extents):
        if tree.rank:
            steps(e, extents[-1], SEARCHES, search)
        else:
            search(None, 1)
    return e.mul(e.product(extents), i64(16))


def places_of(e: FunctionText, source: Pointer, wanted: Sequence[V], side: str) -> list[V]:
    """Where in a sorted array elements would be put: before ("left") or behind ("right") those that equal them.

    Each is in [low, low + length], and the lengths are the same whatever is found: n, n / 2, ... 1.
    """
    (stride,), n = strides_of(e, source), source.extents[0]
    limits = [_before(e, source.dtype, x, side) for x in wanted]
    note = f", !unpredictable {e.module.metadata.node('')}"  # a branch would be guessed wrong at every second step
    with e.loop(e.bit_length(n), [n, *[ZERO] * len(wanted)]) as loop:
        length, *lows = loop.carried
        half = e.op("lshr", e.add(length, ONE), ONE)
        middle = offset(e, source.data, [e.op("sub nsw", half, ONE)], [stride])
        xs = [load_element(e, source.dtype, offset(e, middle, [low], [stride]), source.notes) for low in lows]
        loop.next = [e.op("lshr", length, ONE)]
        for low, x, is_before in zip(lows, xs, limits, strict=True):
            above = e.add(low, half, "nuw nsw")
            text = f"select i1 {is_before(x).ref}, i64 {above.ref}, i64 {low.ref}{note}"
            loop.next.append(e.value("i64", text))
    found = loop.results[1:]
    if side == "right" and source.dtype.kind == "f":
        found = [e.select(_is_nan(e, source.dtype, x), n, at) for x, at in zip(wanted, found, strict=True)]
    return found


def _before(e: FunctionText, dtype: DType, wanted: V, side: str) -> Callable[[V], V]:
    """Whether an element is before the place of `wanted`, but for NaN that is to be put behind all."""
    if dtype.kind != "f":
        how = ("s" if dtype.kind == "i" else "u") + ("lt" if side == "left" else "le")
        return lambda x: e.icmp(how, x, wanted)
    limit = widened(e, wanted) if dtype.is_narrow else wanted
    if side == "left":
        limit = below(e, limit)
    return lambda x: e.fcmp("ole", widened(e, x) if dtype.is_narrow else x, limit)


def _is_nan(e: FunctionText, dtype: DType, x: V) -> V:
    y = widened(e, x) if dtype.is_narrow else x
    return e.fcmp("uno", y, y)
