"""Sorting along an axis, and binary search.

One row after the other is copied to scratch memory, sorted there, and written. The sort is a merge sort from the
bottom up: stable, without recursion, with log2 n sweeps over memory whatever the values; the merge has no branch that
depends on them. Source: Knuth, The Art of Computer Programming 3, 5.2.4.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.contract import DATA, memory_type
from dlvm_py.backend.cpu.floating import widened
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import loop_order, nest
from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.text import FunctionText, ModuleText
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, i64
from dlvm_py.ir import I64, DType, Instruction


def store_sort(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a sort or an argsort; the work."""
    tree = Tree(e, i.operands[0])
    tree.fast = not tree.conditions()
    dtype = i.operands[0].type.dtype  # type: ignore[attr-defined]
    extents, axis, ordinal = tree_extents(e, i.operands[0]), i.attrs["axis"], i.op.name == "argsort"
    n = extents[axis]
    size = e.mul(n, i64(dtype.itemsize))
    header = _scratch(e, e.mul(e.add(size, e.mul(n, i64(8)) if ordinal else ZERO), i64(2)))
    # places first, whose alignment is the larger one
    data = e.load("ptr", e.gep("i8", header, i64(DATA)))
    places = [data, e.gep("i64", data, n)] if ordinal else []
    first = e.gep("i64", data, e.mul(n, i64(2))) if ordinal else data
    keys = [first, e.gep("i8", first, size)]
    strides = strides_of(e, dest)
    sorter = _sorter(e.module, dtype, ordinal)
    memory = memory_type(dtype)
    with nest(e, tree.index, [k for k in loop_order(extents, range(len(extents))) if k != axis], extents):
        with e.loop(n) as loop:
            tree.index[axis] = loop.index
            store_element(e, dtype, tree.element(), e.gep(memory, keys[0], loop.index))
            if ordinal:
                e.store(loop.index, e.gep("i64", places[0], loop.index))
        odd = e.icmp("ne", e.call(sorter, "i64", [*keys, *places, n]), ZERO)
        found = places if ordinal else keys
        source = e.select(odd, found[1], found[0])
        with e.loop(n) as loop:
            tree.index[axis] = loop.index
            kept = e.gep("i64" if ordinal else memory, source, loop.index)
            x = load_element(e, dest.dtype, kept)
            store_element(
                e, dest.dtype, x, offset(e, dest.data, [tree.index[k] for k in range(tree.rank)], strides), dest.notes
            )
    release(e, header)
    return e.mul(e.product(extents), i64(16))


def _scratch(e: FunctionEmitter, nbytes: V) -> V:
    """The header of memory that is used here only."""
    e.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
    header = e.call("@dlvm.allocate", "ptr", [e.ctx, nbytes])
    e.require_memory(header)
    return header


def less(f: FunctionText, dtype: DType, a: V, b: V) -> V:
    """a < b in NumPy's order of sorting: NaN is behind everything and equal to NaN."""
    if dtype.kind != "f":
        return f.icmp("slt" if dtype.kind == "i" else "ult", a, b)
    if dtype.is_narrow:
        a, b = widened(f, a), widened(f, b)
    behind = f.both(f.fcmp("uno", b, b), f.fcmp("ord", a, a))
    return f.any(f.fcmp("olt", a, b), behind)


def _sorter(module: ModuleText, dtype: DType, ordinal: bool) -> str:
    """The function that sorts n keys, and the places that go with them: two buffers of each, one to merge from.

    `i64 (ptr keys, ptr keys, [ptr places, ptr places,] i64 n)`: in which of the two buffers the result is, 0 or 1.
    """
    name = f"dlvm.{'argsort' if ordinal else 'sort'}.{dtype.name}"
    if name in module.functions:
        return f"@{name}"
    buffers = 4 if ordinal else 2
    f = FunctionText(module, name, "i64", [*["ptr"] * buffers, "i64"], "internal |nounwind")
    *memory, n = f.params
    # sweeps until runs of 2^k cover n: the bits of n - 1
    bits = f.intrinsic("llvm.ctlz.i64", "i64", f.op("sub", n, ONE), V("i1", "false"))
    sweeps = f.select(f.icmp("sgt", n, ONE), f.op("sub", i64(64), bits), ZERO)
    with f.loop(sweeps, [ONE, *memory]) as sweep:
        width, *now = sweep.carried
        twice = f.op("shl", width, ONE)
        runs = f.op("udiv", f.op("add", n, f.op("sub", twice, ONE)), twice)
        with f.loop(runs) as run:
            low = f.mul(run.index, twice)
            middle = f.minimum(f.add(low, width), n)
            high = f.minimum(f.add(low, twice), n)
            _merge(f, dtype, now[0::2], now[1::2], (low, middle, high))
        swapped = [v for pair in zip(now[1::2], now[0::2], strict=True) for v in pair]
        sweep.next = [twice, *swapped]
    odd = f.op("and", sweeps, ONE)
    f.line(f"ret i64 {odd.ref}")
    return f"@{name}"


def _merge(f: FunctionText, dtype: DType, source: list[V], target: list[V], run: tuple[V, V, V]) -> None:
    """Merge source[low:middle] and source[middle:high] to target[low:high]; of equal ones the left one goes first."""
    low, middle, high = run
    memory = memory_type(dtype)
    last = f.op("sub", high, ONE)
    with f.loop(f.op("sub", high, low), [low, middle]) as loop:
        left, right = loop.carried
        at = [f.minimum(left, last), f.minimum(right, last)]
        a, b = (f.load(memory, f.gep(memory, source[0], k)) for k in at)
        rest = f.any(f.icmp("sge", right, high), f.op("xor", less(f, dtype, b, a), V("i1", "true")))
        is_left = f.both(f.icmp("slt", left, middle), rest)
        place = f.add(low, loop.index)
        f.store(f.select(is_left, a, b), f.gep(memory, target[0], place))
        if len(source) > 1:
            kept = f.select(is_left, at[0], at[1])
            f.store(f.load("i64", f.gep("i64", source[1], kept)), f.gep("i64", target[1], place))
        step = f.cast("zext", is_left, "i64")
        loop.next = [f.add(left, step), f.add(right, f.op("sub", ONE, step))]


def store_search(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a searchSorted: a binary search an element, with as many steps for each; the work."""
    haystack, value = i.operands
    assert isinstance(haystack, Instruction)
    source = e.pointer(haystack.operands[0])
    tree = Tree(e, value)
    tree.fast = not tree.conditions()
    extents = tree_extents(e, value)
    strides = strides_of(e, dest)
    with nest(e, tree.index, range(tree.rank), extents):
        found = place_of(e, source, tree.element(), i.attrs["side"])
        place = offset(e, dest.data, [tree.index[k] for k in range(tree.rank)], strides)
        store_element(e, I64, found, place, dest.notes)
    return e.mul(e.product(extents), i64(16))


def place_of(e: FunctionText, source: Pointer, wanted: V, side: str) -> V:
    """Where in a sorted array an element would be put: before ("left") or behind ("right") those that equal it."""
    (stride,), n = strides_of(e, source), source.extents[0]
    last = e.op("sub", n, ONE)
    bits = e.intrinsic("llvm.ctlz.i64", "i64", n, V("i1", "false"))
    steps = e.op("sub", i64(64), bits)
    with e.loop(steps, [ZERO, n]) as loop:
        low, high = loop.carried
        middle = e.op("lshr", e.add(low, high), ONE)
        # when nothing is left, the last steps look at an element in vain
        x = load_element(e, source.dtype, offset(e, source.data, [e.minimum(middle, last)], [stride]), source.notes)
        before = less(e, source.dtype, x, wanted)
        if side == "right":
            before = e.op("xor", less(e, source.dtype, wanted, x), V("i1", "true"))
        left = e.icmp("slt", low, high)
        up = e.both(left, before)
        loop.next = [e.select(up, e.add(middle, ONE), low), e.select(up, high, e.select(left, middle, high))]
    return loop.results[0]
