"""Reductions: to a scalar, along axes, unbroadcast, scalar products. The order depends on the extents alone.

    to a scalar      two launches: each block folds its share of the elements and combines its threads into a partial
                     result; one block folds the partial results
    along axes       many results: a thread each, its elements in order; few: a block each
    in a block       shuffles within the warps, shared memory between them

Sums of f16 and bf16 are kept in f32, as on the CPU. Threads without elements hold what the combiner leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.casts import cast
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.kernels import loop_order, memory_order
from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, float_constant, i64
from dlvm_py.backend.gpu.elementwise import general, store_tree
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import WARP, WARPS, Kernel, blocks_for
from dlvm_py.ir import F32, DType, Instruction, PointerType, Value, is_array
from dlvm_py.ir.ops.combiners import identity_of

# families of kernels
TO_NUMBER, ALONG_AXES = "reduction to a number", "reduction along axes"
# partial results of a reduction to a scalar, and the elements that are worth a thread
PARTIALS, PER_THREAD = 1024, 4
# results from which on each is one thread's
MANY = 4096


class Fold:
    """How the elements of one reduction are combined: the dtype of the accumulator, its first value, a step."""

    def __init__(self, dtype: DType, by: str) -> None:
        self.by = by
        self.dtype = dtype
        self.wide = F32 if dtype.is_narrow and by in ("add", "multiply") else dtype

    def neutral(self) -> V:
        """What combining leaves out; -0.0 of float sums, which leaves -0.0 alone."""
        type, by = scalar_type(self.wide), self.by
        if self.wide.kind == "b":
            return V(type, "true" if identity_of(by, self.wide) else "false")
        if self.wide.kind in "iu":
            return V(type, str(identity_of(by, self.wide)))
        number = -0.0 if by == "add" else float(identity_of(by, self.wide.real))
        if self.wide.kind == "f":
            return float_constant(type, number)
        part, imaginary = scalar_type(self.wide.real), 0.0 if by == "multiply" else number
        parts = [float_constant(part, x).ref for x in (number, imaginary)]
        return V(type, f"{{ {part} {parts[0]}, {part} {parts[1]} }}")

    def step(self, k: Kernel, total: V, x: V) -> V:
        """total with one more accumulated value."""
        return TABLE[self.by][self.wide.kind](k, self.wide, {}, total, x)

    def widened(self, k: Kernel, x: V) -> V:
        """An element as an accumulated value."""
        return cast(k, x, self.dtype, self.wide)

    def result(self, k: Kernel, total: V) -> V:
        """An accumulated value as an element."""
        return cast(k, total, self.wide, self.dtype)


def in_block(k: Kernel, fold: Fold, total: V) -> V:
    """The values of all threads of the block combined; what thread 0 holds counts."""
    total = _in_warp(k, fold, total, WARP)
    thread = k.special("tid")
    itemsize = fold.wide.itemsize
    shared = k.shared_memory("i64", WARPS * max(itemsize // 8, 1))
    with k.when(k.icmp("eq", k.op("and", thread, i64(WARP - 1)), ZERO)):
        warp = k.op("lshr", thread, i64(WARP.bit_length() - 1))
        store_element(k, fold.wide, total, offset(k, shared, [warp], [i64(itemsize)]))
    k.barrier()
    is_first = k.icmp("slt", thread, i64(WARPS))
    place = k.select(is_first, thread, ZERO)
    other = load_element(k, fold.wide, offset(k, shared, [place], [i64(itemsize)]))
    # before the memory is used again
    k.barrier()
    return _in_warp(k, fold, k.select(is_first, other, fold.neutral()), WARPS)


def _in_warp(k: Kernel, fold: Fold, total: V, count: int) -> V:
    """The values of `count` threads side by side combined, in the first of them."""
    delta = count // 2
    while delta:
        total = fold.step(k, total, k.shuffle_down(total, delta))
        delta //= 2
    return total


# -- to a scalar -----------------------------------------------------------------------------------------


def reduce_scalar(h: HostEmitter, i: Instruction) -> V:
    """The value of a reduce along every axis."""
    value, init = i.operands[0], h.scalar(i.operands[1])
    dtype, by = value.type.dtype, i.attrs["by"]  # type: ignore[attr-defined]
    if not is_array(value.type):
        return TABLE[by][dtype.kind](h, dtype, {}, h.scalar(value), init)
    k = Kernel(h, TO_NUMBER)
    tree = Tree(k, value)  # type: ignore[arg-type]
    extents: Sequence[V] = tree_extents(k, value)  # type: ignore[arg-type]
    count = k.product(extents)
    if tree.rank > 1 and any(tree.is_linear(p.layout, value.type.shape) for p in tree.loads()[:1]):  # type: ignore[attr-defined]
        tree.linear = True
        extents = [count]
    order = loop_order(extents, [0] if tree.linear else tree.order())
    tree.inner = order[-1]
    tree.fast = not tree.conditions()

    def element(place: V) -> V:
        tree.index.update(k.unravel(place, order, extents))
        return tree.element()

    x = _in_two_stages(h, k, Fold(dtype, by), count, h.product(tree_extents(h, value)), element)
    return TABLE[by][dtype.kind](h, dtype, {}, x, init)


def scalar_dot(h: HostEmitter, i: Instruction) -> V:
    """The product of two vectors."""
    a, b = (h.pointer(v.operands[0]) for v in i.operands)  # type: ignore[attr-defined]
    k = Kernel(h, TO_NUMBER)
    fold = Fold(a.dtype, "add")
    inside = [k.pointer_of(p) for p in (a, b)]
    steps = [strides_of(k, p) for p in inside]

    def element(place: V) -> V:
        loaded = (load_element(k, p.dtype, offset(k, p.data, [place], s)) for p, s in zip(inside, steps, strict=True))
        return TABLE["multiply"][fold.wide.kind](k, fold.wide, {}, *(fold.widened(k, x) for x in loaded))

    return _in_two_stages(h, k, fold, inside[0].extents[0], a.extents[0], element, is_wide=True)


def _in_two_stages(
    h: HostEmitter, k: Kernel, fold: Fold, count: V, work: V, element: Callable[[V], V], is_wide: bool = False
) -> V:
    """The elements at places below `count` (for the host `work`) combined, fetched. `k`: the first kernel."""
    blocks = blocks_for(h, h.op("sdiv", work, i64(PER_THREAD)), PARTIALS)
    header = h.allocate(i64(PARTIALS * fold.wide.itemsize))
    partials = Pointer(fold.wide, "C", h.data_of(header), header, (i64(PARTIALS),))
    to = k.pointer_of(partials)
    with k.grid(count, [fold.neutral()]) as loop:
        x = element(loop.index)
        loop.next = [fold.step(k, loop.carried[0], x if is_wide else fold.widened(k, x))]
    total = in_block(k, fold, loop.results[0])
    with k.when(k.icmp("eq", k.special("tid"), ZERO)):
        store_element(k, fold.wide, total, offset(k, to.data, [k.special("ctaid")], [i64(to.itemsize)]))
    h.launch(k, blocks)
    k = Kernel(h, TO_NUMBER)
    to, found = k.pointer_of(partials), k.parameter(blocks)
    with k.block(found, [fold.neutral()]) as loop:
        x = load_element(k, fold.wide, offset(k, to.data, [loop.index], [i64(to.itemsize)]))
        loop.next = [fold.step(k, loop.carried[0], x)]
    total = in_block(k, fold, loop.results[0])  # behind a barrier: all have read
    with k.when(k.icmp("eq", k.special("tid"), ZERO)):
        store_element(k, fold.dtype, fold.result(k, total), to.data)
    h.launch(k, ONE)
    y = h.fetch(fold.dtype, partials.data)
    release(h, header)
    return y


# -- along axes ------------------------------------------------------------------------------------------


def store_reduce(h: HostEmitter, i: Instruction, dest: Pointer) -> None:
    """Write a reduction along some axes to `dest`."""
    value, init = i.operands[0], h.scalar(i.operands[1])
    reduced = set(i.attrs["axes"])

    def write(by_block: bool) -> None:
        k = Kernel(h, ALONG_AXES)
        extents = tree_extents(k, value)  # type: ignore[arg-type]
        kept = [n for n in range(len(extents)) if n not in reduced]
        along = {n: extents[n] for n in range(len(extents)) if n in reduced}
        _reduce(h, k, value, dest, Fold(dest.dtype, i.attrs["by"]), kept, along, k.parameter(init), by_block)

    _by_count(h, dest, write)


def store_unbroadcast(h: HostEmitter, i: Instruction, dest: Pointer, type: PointerType) -> None:
    """Write an unbroadcast: a copy for equal extents, else sums along the axes that dest has not."""
    value = i.operands[0]
    pairs = [(m, n) for m, n in zip(tree_extents(h, value), dest.extents, strict=True) if m != n]
    if not pairs:
        store_tree(h, value, dest, type.shape)
        return

    def write(by_block: bool) -> None:
        k = Kernel(h, ALONG_AXES)
        extents, mine = tree_extents(k, value), k.pointer_of(dest).extents  # type: ignore[arg-type]
        along = {
            n: k.select(k.icmp("eq", a, b), ONE, a)
            for n, (a, b) in enumerate(zip(extents, mine, strict=True))
            if a != b
        }
        fold = Fold(dest.dtype, "add")
        _reduce(h, k, value, dest, fold, list(range(dest.rank)), along, None, by_block)

    same = h.both(*(h.icmp("eq", m, n) for m, n in pairs))
    with h.either(same) as arms:
        next(arms)
        store_tree(h, value, dest, type.shape)
        next(arms)
        _by_count(h, dest, write)


def _by_count(h: HostEmitter, dest: Pointer, write: Callable[[bool], None]) -> None:
    """Launch the kernel of a thread a result where there are many, else that of a block a result."""
    results = h.product(dest.extents)
    if constant(results) is not None:
        write(constant(results) < MANY)  # type: ignore[operator]
        return
    with h.either(h.icmp("slt", results, i64(MANY))) as arms:
        next(arms)
        write(True)
        next(arms)
        write(False)


def _reduce(
    h: HostEmitter,
    k: Kernel,
    value: Value,
    dest: Pointer,
    fold: Fold,
    kept: Sequence[int],
    along: dict[int, V],
    init: V | None,
    by_block: bool,
) -> None:
    """The elements of a tree folded into `dest`.

    kept: the axis of the tree that each axis of dest is. along: how far each axis is followed for one result; one of
    both begins at the index of dest, which is 0 where it is followed.
    """
    to = k.pointer_of(dest)
    strides, tree = strides_of(k, to), general(k, value)
    results = k.product(to.extents)
    order = loop_order(to.extents, memory_order(to))
    neutral = fold.neutral()

    def place(index: V) -> tuple[V, dict[int, V]]:
        own = k.unravel(index, order, to.extents)
        first = dict.fromkeys(range(tree.rank), ZERO) | {n: own[axis] for axis, n in enumerate(kept)}
        return offset(k, to.data, [own[axis] for axis in range(to.rank)], strides), first

    def element(first: dict[int, V], moved: dict[int, V]) -> V:
        tree.index.update({n: k.add(first[n], moved.get(n, ZERO)) for n in first})
        return fold.widened(k, tree.element())

    def store(total: V, address: V) -> None:
        x = fold.result(k, total)
        if init is not None:
            x = TABLE[fold.by][fold.dtype.kind](k, fold.dtype, {}, x, init)
        store_element(k, to.dtype, x, address)

    def follow(axes: list[int], first: dict[int, V], moved: dict[int, V], total: V) -> V:
        if not axes:
            return fold.step(k, total, element(first, moved))
        with k.loop(along[axes[0]], [total]) as loop:
            loop.next = [follow(axes[1:], first, {**moved, axes[0]: loop.index}, loop.carried[0])]
        return loop.results[0]

    def by_threads() -> None:
        with k.grid(results) as loop:
            address, first = place(loop.index)
            store(follow(list(along), first, {}, neutral), address)

    def by_blocks() -> None:
        together = k.product(list(along.values()))
        axes = [n for n in along if constant(along[n]) != 1]
        with k.strided(k.special("ctaid"), k.special("nctaid"), results) as mine:
            address, first = place(mine.index)
            with k.block(together, [neutral]) as loop:
                moved = k.unravel(loop.index, axes, [along.get(n, ONE) for n in range(tree.rank)])
                loop.next = [fold.step(k, loop.carried[0], element(first, moved))]
            total = in_block(k, fold, loop.results[0])
            with k.when(k.icmp("eq", k.special("tid"), ZERO)):
                store(total, address)

    count = h.product(dest.extents)
    if by_block:
        by_blocks()
        h.launch(k, h.select(h.icmp("sgt", count, ZERO), h.minimum(count, i64(MANY)), ONE))
    else:
        by_threads()
        h.launch(k, blocks_for(h, count))
