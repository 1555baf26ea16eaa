"""Reductions to a scalar, scalar products, and what all reductions share. The order depends on the extents alone.

    to a scalar      two launches: each block folds its share of the elements and combines its threads into a partial
                     result; one block folds the partial results
    in a block       shuffles within the warps, shared memory between them
    in order         by one thread, products of floats: a part of one may overflow, or vanish, where the whole does
                     not. Unless `fastmath` allows it

Sums of f16 and bf16 are kept in f32, as on the CPU. Threads without elements hold what the combiner leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.casts import cast
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.kernels import loop_order
from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import unrolled_loop
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, float_constant, i64
from dlvm_py.backend.gpu.elementwise import CHEAP
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import WARP, WARPS, Kernel, blocks_for
from dlvm_py.ir import F32, DType, Instruction, Value, is_array
from dlvm_py.ir.analysis.cost import element_cost
from dlvm_py.ir.ops.combiners import identity_of

# the family of these kernels
TO_NUMBER = "reduction to a number"
# partial results of a reduction to a scalar, and the elements that are worth a thread
PARTIALS, PER_THREAD = 1024, 4
# elements that a thread loads before it combines them
AT_ONCE = 4


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


def keeps_order(h: HostEmitter, fold: Fold) -> bool:
    """Whether elements must be combined one by one."""
    return fold.by == "multiply" and fold.dtype.is_inexact and not h.fastmath


def block_memory(k: Kernel, fold: Fold) -> V:
    """The shared memory that `in_block` needs."""
    return k.shared_memory("i64", WARPS * max(fold.wide.itemsize // 8, 1))


def in_block(k: Kernel, fold: Fold, total: V, shared: V) -> tuple[V, V]:
    """The values of the threads combined: of a warp, in its first thread, and of the block, in thread 0."""
    total = in_warp(k, fold, total, WARP)
    return total, of_warps(k, fold, total, shared)


def of_warps(k: Kernel, fold: Fold, total: V, shared: V) -> V:
    """The values of the first threads of the warps combined, in thread 0."""
    thread = k.special("tid")
    itemsize = fold.wide.itemsize
    with k.when(k.icmp("eq", k.op("and", thread, i64(WARP - 1)), ZERO)):
        warp = k.op("lshr", thread, i64(WARP.bit_length() - 1))
        store_element(k, fold.wide, total, offset(k, shared, [warp], [i64(itemsize)]))
    k.barrier()
    is_first = k.icmp("slt", thread, i64(WARPS))
    place = k.select(is_first, thread, ZERO)
    other = load_element(k, fold.wide, offset(k, shared, [place], [i64(itemsize)]))
    # before the memory is used again
    k.barrier()
    return in_warp(k, fold, k.select(is_first, other, fold.neutral()), WARPS)


def overlapped(k: Kernel, value: Value) -> str:
    """The note of a counted loop over elements: where they are cheap it is unrolled, so that their loads overlap."""
    return unrolled_loop(k, AT_ONCE) if element_cost(value) <= CHEAP else ""


def in_warp(k: Kernel, fold: Fold, total: V, count: int) -> V:
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

    fold = Fold(dtype, by)
    if keeps_order(h, fold):
        return _in_order(h, k, fold, count, init, element, overlapped(k, value))
    x = _in_two_stages(h, k, fold, count, h.product(tree_extents(h, value)), element, overlapped(k, value))
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

    note = unrolled_loop(k, AT_ONCE)
    return _in_two_stages(h, k, fold, inside[0].extents[0], a.extents[0], element, note, is_wide=True)


def _in_order(h: HostEmitter, k: Kernel, fold: Fold, count: V, init: V, element: Callable[[V], V], note: str) -> V:
    """The elements at places below `count` combined one by one, from `init` on, fetched."""
    header, cell = h.cell(fold.dtype)
    to, first = k.pointer_of(cell), fold.widened(k, k.parameter(init))
    with k.loop(count, [first], note) as loop:
        loop.next = [fold.step(k, loop.carried[0], fold.widened(k, element(loop.index)))]
    store_element(k, fold.dtype, fold.result(k, loop.results[0]), to.data)
    h.launch(k, ONE, threads=1)
    y = h.fetch(fold.dtype, cell.data)
    release(h, header)
    return y


def _in_two_stages(
    h: HostEmitter,
    k: Kernel,
    fold: Fold,
    count: V,
    work: V,
    element: Callable[[V], V],
    note: str,
    is_wide: bool = False,
) -> V:
    """The elements at places below `count` (for the host `work`) combined, fetched. `k`: the first kernel."""
    blocks = blocks_for(h, h.op("sdiv", work, i64(PER_THREAD)), PARTIALS)
    header = h.allocate(i64(PARTIALS * fold.wide.itemsize))
    partials = Pointer(fold.wide, "C", h.data_of(header), header, (i64(PARTIALS),))
    to = k.pointer_of(partials)
    first, step = k.grid_place()
    rest = k.op("sub", k.add(count, step), k.add(first, ONE))
    with k.loop(k.op("udiv", rest, step), [fold.neutral()], note) as loop:
        x = element(k.add(first, k.mul(loop.index, step)))
        loop.next = [fold.step(k, loop.carried[0], x if is_wide else fold.widened(k, x))]
    _, total = in_block(k, fold, loop.results[0], block_memory(k, fold))
    store_partial(k, fold, total, to)
    h.launch(k, blocks)
    y = fold_partials(h, fold, partials, blocks)
    release(h, header)
    return y


def store_partial(k: Kernel, fold: Fold, total: V, to: Pointer) -> None:
    """Write a value, as thread 0 has it, to the place of its block."""
    with k.when(k.icmp("eq", k.special("tid"), ZERO)):
        store_element(k, fold.wide, total, offset(k, to.data, [k.special("ctaid")], [i64(to.itemsize)]))


def fold_partials(h: HostEmitter, fold: Fold, partials: Pointer, blocks: V) -> V:
    """The partial results of so many blocks combined, fetched."""
    k = Kernel(h, TO_NUMBER)
    to, found = k.pointer_of(partials), k.parameter(blocks)
    with k.block(found, [fold.neutral()]) as loop:
        x = load_element(k, fold.wide, offset(k, to.data, [loop.index], [i64(to.itemsize)]))
        loop.next = [fold.step(k, loop.carried[0], x)]
    _, total = in_block(k, fold, loop.results[0], block_memory(k, fold))  # behind a barrier: all have read
    with k.when(k.icmp("eq", k.special("tid"), ZERO)):
        store_element(k, fold.dtype, fold.result(k, total), to.data)
    h.launch(k, ONE)
    return h.fetch(fold.dtype, partials.data)
