"""Reductions: to a scalar, along axes into an array, and unbroadcast.

Floating sums and products have an order of their own: the elements, in C order of the index space (in that in which
most leaves lie in memory, where that is another one), are cut into blocks of 1024; a block is combined in vector lanes
(blocks.py), and block results combine pairwise by a binary counter. The bits of the result depend on the extents,
not on strides or on how the tree was computed. Everything else is folded in one accumulator, which is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlvm_py.backend.cpu import blocks
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import fill, loop_order, nest, store_tree, versions
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, V, i64
from dlvm_py.ir import DType, Instruction, PointerType, is_array


def combine(e: FunctionEmitter, by: str, dtype: DType, a: V, b: V, inside: bool = False) -> V:
    """One step of a reduction. `inside` a fold, the float extremes are the intrinsics that LLVM vectorises."""
    if inside and by in ("max", "min") and dtype.kind == "f" and dtype.bits > 16:
        return e.intrinsic(f"llvm.{by}imum.f{dtype.bits}", a.type, a, b)
    return TABLE[by][dtype.kind](e, dtype, {}, a, b)


def reduce_scalar(e: FunctionEmitter, i: Instruction) -> V:
    """The value of a reduce along every axis."""
    value, init = i.operands[0], e.scalar(i.operands[1])
    if not is_array(value.type):
        return combine(e, i.attrs["by"], value.type.dtype, e.scalar(value), init)  # type: ignore[attr-defined]
    with e.region():
        tree = Tree(e, value)
        extents: Sequence[V] = tree_extents(e, value)
        work = e.product(extents)
        if tree.rank > 1 and any(tree.is_linear(p.layout, value.type.shape) for p in tree.loads()[:1]):  # type: ignore[attr-defined]
            tree.linear = True
            extents = [work]
        order = loop_order(extents, [0] if tree.linear else tree.order())
        tree.inner = order[-1]
        result = e.alloca(init.type)

        def write(fast: bool) -> None:
            tree.fast = fast
            e.store(accumulate(e, tree, order, extents, i.attrs["by"], init), result)

        versions(e, tree.conditions(), write)
        x = e.load(init.type, result)
    e.charge(work)
    return x


def accumulate(e: FunctionEmitter, tree: Tree, order: Sequence[int], extents: Sequence[V], by: str, init: V) -> V:
    """The reduction of the tree over the loop axes `order`, other indices fixed, combined with init."""
    dtype = tree.root.type.dtype  # type: ignore[attr-defined]
    if (by in ("add", "multiply") and dtype.is_float) or (by == "add" and dtype.is_complex):
        return combine(e, by, dtype, blocks.reduce(e, tree, order, extents, by), init)
    tree.group = ""

    def fold(depth: int, total: V) -> V:
        if depth == len(order):
            return combine(e, by, dtype, total, tree.element(), inside=True)
        with e.loop(extents[order[depth]], [total]) as loop:
            tree.index[order[depth]] = loop.index
            loop.next = [fold(depth + 1, loop.carried[0])]
        return loop.results[0]

    return fold(0, init)


def store_reduce(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a reduction along some axes to `dest`; the work."""
    value, init = i.operands[0], e.scalar(i.operands[1])
    by, reduced = i.attrs["by"], set(i.attrs["axes"])
    tree = Tree(e, value)
    extents = tree_extents(e, value)
    order = loop_order(extents, tree.order())
    kept = [k for k in range(tree.rank) if k not in reduced]
    outer = [k for k in order if k not in reduced]
    along = [k for k in order if k in reduced]
    strides = strides_of(e, dest)
    tree.inner = order[-1]

    def address() -> V:
        return offset(e, dest.data, [tree.index[k] for k in kept], strides)

    def rows(fast: bool) -> None:
        # the innermost axis is summed: one accumulation for each element of the destination
        tree.fast = fast
        with nest(e, tree.index, outer, extents):
            x = accumulate(e, tree, along, extents, by, init)
            store_element(e, dest.dtype, x, address(), dest.notes)

    def columns(fast: bool) -> None:
        # the innermost axis is kept: whole rows are folded into the destination
        tree.fast = fast
        with nest(e, tree.index, outer[:-1], extents):
            _row(e, tree, outer[-1], extents, address, dest, lambda old, parallel: init)
            with nest(e, tree.index, along, extents):

                def step(old: V, parallel: Parallel) -> V:
                    tree.group = parallel.access
                    return combine(e, by, dest.dtype, old, tree.element())

                _row(e, tree, outer[-1], extents, address, dest, step)

    versions(e, tree.conditions(), rows if order[-1] in reduced else columns)
    return e.product(extents)


def _row(e, tree, axis, extents, address, dest, step) -> None:  # type: ignore[no-untyped-def]
    """One parallel loop along `axis` that replaces elements of the destination by step(old, metadata)."""
    parallel = Parallel(e)
    with nest(e, tree.index, [axis], extents, parallel.loop):
        place = address()
        notes = dest.notes + parallel.access
        old = load_element(e, dest.dtype, place, notes)
        store_element(e, dest.dtype, step(old, parallel), place, notes)


def store_unbroadcast(e: FunctionEmitter, i: Instruction, dest: Pointer, type: PointerType) -> V:
    """Write an unbroadcast: a copy for equal extents, else sums along the axes that dest has not; the work."""
    value = i.operands[0]
    extents = tree_extents(e, value)
    work = e.product(extents)
    pairs = [(m, n) for m, n in zip(extents, dest.extents, strict=True) if m != n]
    if not pairs:
        store_tree(e, value, dest, type.shape)
        return work
    same = e.both(*(e.icmp("eq", m, n) for m, n in pairs))
    with e.either(same) as arms:
        next(arms)
        store_tree(e, value, dest, type.shape)
        next(arms)
        _sum_axes(e, value, extents, dest)
    return work


def _sum_axes(e: FunctionEmitter, value, extents: Sequence[V], dest: Pointer) -> None:  # type: ignore[no-untyped-def]
    tree = Tree(e, value)
    tree.fast = not tree.conditions()
    zero = V(
        scalar_type(dest.dtype), "zeroinitializer" if dest.dtype.is_complex else "0.0" if dest.dtype.is_float else "0"
    )
    fill(e, dest, zero)
    # stride 0 along the axes that are summed: there dest has extent 1
    strides = []
    for k, stride in enumerate(strides_of(e, dest)):
        if extents[k] == dest.extents[k]:
            strides.append(stride)
        else:
            strides.append(e.select(e.icmp("eq", dest.extents[k], ONE), i64(0), stride))
    flat = replace(dest, layout="S", strides=tuple(strides))
    order = list(range(tree.rank))
    last = order[-1]

    def address() -> V:
        return offset(e, flat.data, [tree.index[k] for k in order], strides)

    def by_row() -> None:
        with nest(e, tree.index, order[:-1], extents):
            row = accumulate(e, tree, [last], extents, "add", zero)
            tree.index[last] = i64(0)
            place = address()
            old = load_element(e, dest.dtype, place, dest.notes)
            store_element(e, dest.dtype, combine(e, "add", dest.dtype, old, row), place, dest.notes)

    def by_column() -> None:
        def step(old: V, parallel: Parallel) -> V:
            tree.group = parallel.access
            return combine(e, "add", dest.dtype, old, tree.element())

        with nest(e, tree.index, order[:-1], extents):
            _row(e, tree, last, extents, address, flat, step)

    if extents[last] == dest.extents[last]:
        by_column()
    elif dest.extents[last] == ONE:
        by_row()
    else:
        with e.either(e.icmp("eq", dest.extents[last], extents[last])) as arms:
            next(arms)
            by_column()
            next(arms)
            by_row()
