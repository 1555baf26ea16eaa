"""Reductions: to a scalar, along axes into an array, and unbroadcast.

Floating sums have an order of their own: the elements, in C order of the index space (in that in which
most leaves lie in memory, where that is another one), are cut into blocks of 1024; a block is combined in vector lanes
(blocks.py), and block results combine pairwise by a binary counter. The bits of the result depend on the extents,
not on strides or on how the tree was computed. Everything else is folded in one accumulator: that is exact, or, of
floating products, what NumPy does. Products of parts may overflow where those in order do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu import blocks, counts, together
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.contractions import fits, is_finite, store_contraction
from dlvm_py.backend.cpu.floating import rounded, widened
from dlvm_py.backend.cpu.folds import combine, fold_of
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.groups import MOST_BITS, Span, cut, rows_of
from dlvm_py.backend.cpu.kernels import fill, loop_order, nest, shared_axis, shared_nest, versions
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.share import may_share, shared
from dlvm_py.backend.cpu.stores import store_tree
from dlvm_py.backend.cpu.text import Parallel, plain_loop
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64
from dlvm_py.frozen import replace
from dlvm_py.ir import F32, DType, Instruction, Literal, PointerType, TensorType, Value, is_array
from dlvm_py.ir.analysis.cost import element_cost
from dlvm_py.ir.ops.combiners import identity_of

# elements of a row, known before it runs, that registers can hold
SHORT = 16


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
        by, free = i.attrs["by"], _may_be_grouped(i.attrs["by"], value.type.dtype)  # type: ignore[attr-defined]
        if free and may_share(e, work, element_cost(value), pays(e, value, extents)):
            x = _accumulate_shared(e, tree, order, extents, by, init)
        else:
            result = e.alloca(init.type)

            def write(fast: bool) -> None:
                e.store(accumulate(e, tree, order, extents, by, init), result)

            versions(e, tree, write)
            x = e.load(init.type, result)
    e.charge(work)
    return x


def _may_be_grouped(by: str, dtype: DType) -> bool:
    """Whether groups of elements may be reduced apart: in the tree of blocks, or because the order is free.

    The largest of unsigned numbers is what checks of index arrays ask for, often, and not worth the code.
    """
    if by == "max" and dtype.kind == "u":
        return False
    return is_by_blocks(by, dtype) or dtype.kind in "biu" or (by in ("max", "min") and dtype.is_float)


def pays(e: FunctionEmitter, value: Value, extents: Sequence[V]) -> bool:
    """Whether threads may pay for a reduction: not where rows, perhaps short ones, are reduced again and again."""
    if len(value.type.shape) > 1:  # type: ignore[attr-defined]
        return True
    return e.depth == 0 or (e.depth == 1 and all(map(e.is_fixed, extents)))


def _accumulate_shared(
    e: FunctionEmitter, tree: Tree, order: Sequence[int], extents: Sequence[V], by: str, init: V
) -> V:
    """As `accumulate`, of groups that threads share; with the same bits."""
    dtype = tree.root.type.dtype  # type: ignore[attr-defined]
    cost = element_cost(tree.root)
    groups = cut(e, e.product(extents), cost)
    by_blocks = is_by_blocks(by, dtype)
    type, parts = blocks.lanes(dtype) if by_blocks else (scalar_type(dtype), 1)
    row = (1 << MOST_BITS) + 1
    kept = e.kept(f"[{parts * row} x {type}]", 64)
    partials = [e.gep(type, kept, i64(k * row)) for k in range(parts)]
    with shared(e, groups.count, groups.elements, cost) as part:
        first, last = part or (ZERO, groups.count)

        def write(fast: bool) -> None:
            with e.loop(e.op("sub nuw nsw", last, first)) as loop:
                k = e.add(first, loop.index, "nuw nsw")
                to = [e.gep(type, p, k) for p in partials]
                if by_blocks:
                    blocks.reduce_group(e, tree, order, extents, groups.span(e, k), to)
                else:
                    _fold_group(e, tree, order, extents, by, groups.span(e, k), to[0])

        versions(e, tree, write)
    if by_blocks:
        return combine(e, by, dtype, blocks.reduce_groups(e, dtype, groups, partials), init)
    with e.loop(groups.count, [init], plain_loop(e)) as loop:
        x = e.load(type, e.gep(type, partials[0], loop.index))
        loop.next = [combine(e, by, dtype, loop.carried[0], x)]
    return loop.results[0]


def _fold_group(
    e: FunctionEmitter, tree: Tree, order: Sequence[int], extents: Sequence[V], by: str, span: Span, to: V
) -> None:
    """Write the reduction of the elements of a span, by an operation whose order is free, to `to`."""
    dtype = tree.root.type.dtype  # type: ignore[attr-defined]
    tree.group = ""
    total = e.alloca(scalar_type(dtype))
    e.store(e.scalar(Literal(TensorType((), dtype), identity_of(by, dtype))), total)
    for first, last in rows_of(e, tree.index, order, extents, span):
        if counts.are_truths(tree, by):
            found = counts.count(e, tree, order[-1], (first, last), e.load(scalar_type(dtype), total), folded(e, tree))
            e.store(found, total)
            continue
        before = e.load(scalar_type(dtype), total)
        if is_by_strips(tree, by, dtype):
            e.store(_folded_strips(e, tree, by, order[-1], (first, last), before), total)
            continue
        fold = fold_of(e, by, dtype, before, tree.is_rare)
        with e.loop(e.op("sub nsw", last, first), fold.begin, folded(e, tree)) as loop:
            tree.index[order[-1]] = e.add(first, loop.index, "nuw nsw")
            loop.next = fold.step(loop.carried, tree.element())
        e.store(fold.end(loop.results), total)
    e.store(e.load(scalar_type(dtype), total), to)


def is_by_strips(tree: Tree, by: str, dtype: DType) -> bool:
    """Whether elements are brought together before they are folded.

    LLVM folds in vectors what lies side by side. Of elements that lie apart it makes vectors where they are copied, and
    of a long chain from one element to the next, as that of an extreme, where it is read in a loop of its own.
    """
    is_vector = dtype.kind in "iu" or (dtype.kind == "f" and dtype.bits > 16)
    return by in ("max", "min") and is_vector and not tree.fast and not tree.is_rare


def _folded_strips(e: FunctionEmitter, tree: Tree, by: str, axis: int, span: tuple[V, V], init: V) -> V:
    """The fold of a span of an axis, whose elements are copied to a buffer first, some at a time."""
    first, last = span
    dtype = tree.root.type.dtype  # type: ignore[attr-defined]
    size, most = i64(dtype.itemsize), i64(blocks.BLOCK)
    buffer = e.scratch(f"[{blocks.BLOCK} x {init.type}]", 64)
    length = e.op("sub nsw", last, first)
    strips = e.op("ashr", e.add(length, i64(blocks.BLOCK - 1)), i64(blocks.BLOCK.bit_length() - 1))
    group = tree.group
    with e.loop(strips, [init]) as outer:
        done = e.mul(outer.index, most, "nuw nsw")
        piece = e.minimum(e.op("sub nsw", length, done), most)
        start = e.add(first, done, "nuw nsw")
        parallel = Parallel(e)
        tree.group = parallel.access
        with e.loop(piece, note=parallel.loop) as copied:
            tree.index[axis] = e.add(start, copied.index, "nuw nsw")
            e.store(tree.element(), offset(e, buffer, [copied.index], [size]), parallel.access)
        fold = fold_of(e, by, dtype, outer.carried[0])
        with e.loop(piece, fold.begin) as loop:
            loop.next = fold.step(loop.carried, e.load(init.type, offset(e, buffer, [loop.index], [size])))
        outer.next = [fold.end(loop.results)]
    tree.group = group
    return outer.results[0]


def is_by_blocks(by: str, dtype: DType) -> bool:
    """Whether the order of a reduction matters, and is that of blocks.py."""
    return by == "add" and dtype.is_inexact


def accumulate(e: FunctionEmitter, tree: Tree, order: Sequence[int], extents: Sequence[V], by: str, init: V) -> V:
    """The reduction of the tree over the loop axes `order`, other indices fixed, combined with init."""
    dtype = tree.root.type.dtype  # type: ignore[attr-defined]
    if together.fits(tree, order, extents, by):
        return together.reduced(e, tree, by, int(extents[order[-1]].ref), init)
    if is_by_blocks(by, dtype):
        return combine(e, by, dtype, blocks.reduce(e, tree, order, extents), init)
    tree.group = ""
    note = folded(e, tree)
    is_wide = by == "multiply" and dtype.is_narrow  # in float32 until the end, as in NumPy
    truths = counts.are_truths(tree, by)
    length = constant(extents[order[-1]])
    is_brief = tree.is_rare or (length is not None and length <= SHORT)
    if not is_brief and is_by_strips(tree, by, dtype):
        return _accumulate_strips(e, tree, order, extents, by, init)
    fold = fold_of(e, by, F32 if is_wide else dtype, widened(e, init) if is_wide else init, is_brief)

    def folded_along(depth: int, carried: Sequence[V]) -> list[V]:
        if truths and depth == len(order) - 1:
            return [counts.count(e, tree, order[depth], (ZERO, extents[order[depth]]), carried[0], note)]
        if depth == len(order):
            x = tree.element()
            return fold.step(carried, widened(e, x) if is_wide else x)
        with e.loop(extents[order[depth]], carried, note) as loop:
            tree.index[order[depth]] = loop.index
            loop.next = folded_along(depth + 1, loop.carried)
        return loop.results

    found = fold.end(folded_along(0, fold.begin))
    return rounded(e, found, scalar_type(dtype)) if is_wide else found


def _accumulate_strips(
    e: FunctionEmitter, tree: Tree, order: Sequence[int], extents: Sequence[V], by: str, init: V
) -> V:
    """As `accumulate`, by strips of the innermost axis."""
    if len(order) == 1:
        return _folded_strips(e, tree, by, order[0], (ZERO, extents[order[0]]), init)
    with e.loop(extents[order[0]], [init], plain_loop(e)) as loop:
        tree.index[order[0]] = loop.index
        loop.next = [_accumulate_strips(e, tree, order[1:], extents, by, loop.carried[0])]
    return loop.results[0]


def merged(tree: Tree, axes: Sequence[int], extents: Sequence[V]) -> list[V]:
    """The extents, with axes that all leaves have one behind the other in memory as one: the others have 1 each.

    The elements come in the order in which they did, so that sums have the bits that they had.
    """
    e, found = tree.e, list(extents)
    for outer, inner in zip(axes[:-1], axes[1:], strict=True):
        if all(tree.is_adjacent(leaf, places, outer, inner) for leaf, places in tree.leaves()):
            found[outer], found[inner] = ONE, e.product([found[outer], found[inner]])
    return found


def folded(e: FunctionEmitter, tree: Tree) -> str:
    """The metadata of a loop with one accumulator."""
    return plain_loop(e) if tree.is_rare else ""


def store_reduce(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a reduction along some axes to `dest`; the work."""
    products = fits(i)
    if products is None:
        return _store_reduce(e, i, dest)
    if products.partial is None:
        return store_contraction(e, i, products, dest)
    with e.either(is_finite(e, products.partial)) as arms:
        next(arms)
        store_contraction(e, i, products, dest)
        next(arms)
        _store_reduce(e, i, dest)
    return e.op("ashr", e.product(tree_extents(e, i.operands[0])), i64(3))


def _store_reduce(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
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
    work, cost = e.product(extents), element_cost(value)

    def address() -> V:
        return offset(e, dest.data, [tree.index[k] for k in kept], strides)

    def rows(fast: bool) -> None:
        # the innermost axis is summed: one accumulation for each element of the destination
        lengths = merged(tree, along, extents)
        with nest(e, tree.index, outer, extents, part=part):
            x = accumulate(e, tree, along, lengths, by, init)
            store_element(e, dest.dtype, x, address(), dest.notes)

    def columns(fast: bool) -> None:
        # the innermost axis is kept: whole rows are folded into the destination
        of_rows = part if shared_axis(outer, extents) != outer[-1] else None
        of_row = None if of_rows is not None else part
        with nest(e, tree.index, outer[:-1], extents, part=of_rows):
            _row(e, tree, outer[-1], extents, address, dest, lambda old, parallel: init, of_row)
            with nest(e, tree.index, along, extents):

                def step(old: V, parallel: Parallel) -> V:
                    tree.group = parallel.access
                    return combine(e, by, dest.dtype, old, tree.element(), inside=True)

                _row(e, tree, outer[-1], extents, address, dest, step, of_row)

    def short_columns(fast: bool) -> None:
        # as columns, but a row is so short that it is folded in registers: memory of the frame, until LLVM unrolls
        last = outer[-1]
        type, length = scalar_type(dest.dtype), int(extents[last].ref)
        row = e.alloca(f"[{length} x {type}]")

        def place() -> V:
            return e.gep(type, row, tree.index[last])

        with nest(e, tree.index, outer[:-1], extents, part=part):
            with nest(e, tree.index, [last], extents):
                e.store(init, place())
            tree.group = ""
            with nest(e, tree.index, along, extents), nest(e, tree.index, [last], extents):
                e.store(combine(e, by, dest.dtype, e.load(type, place()), tree.element(), inside=True), place())
            with nest(e, tree.index, [last], extents):
                store_element(e, dest.dtype, e.load(type, place()), address(), dest.notes)

    def choose() -> Callable[[bool], None]:
        if order[-1] in reduced:
            return rows
        length = extents[outer[-1]].ref
        is_short = length.isdigit() and int(length) <= SHORT and len(outer) > 1
        return short_columns if is_short and shared_axis(outer, extents) != outer[-1] else columns

    with shared_nest(e, outer, extents, tree.rank, cost, work) as part:
        versions(e, tree, choose())
    return work


def _row(e, tree, axis, extents, address, dest, step, part=None) -> None:  # type: ignore[no-untyped-def]
    """One parallel loop along (a part of) `axis` that replaces elements of the destination by step(old, metadata)."""
    parallel = Parallel(e, tree.is_rare)
    with nest(e, tree.index, [axis], extents, parallel.loop, part):
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
    last, outermost = order[-1], shared_axis(order, extents)
    work, cost = e.product(extents), element_cost(value)

    def is_kept(axis: int | None) -> bool:
        return axis is not None and extents[axis] == dest.extents[axis]

    def address() -> V:
        return offset(e, flat.data, [tree.index[k] for k in order], strides)

    def by_row() -> None:
        with nest(e, tree.index, order[:-1], extents, part=part):
            row = accumulate(e, tree, [last], extents, "add", zero)
            tree.index[last] = i64(0)
            place = address()
            old = load_element(e, dest.dtype, place, dest.notes)
            store_element(e, dest.dtype, combine(e, "add", dest.dtype, old, row), place, dest.notes)

    def by_column() -> None:
        def step(old: V, parallel: Parallel) -> V:
            tree.group = parallel.access
            return combine(e, "add", dest.dtype, old, tree.element())

        with nest(e, tree.index, order[:-1], extents, part=None if of_columns else part):
            _row(e, tree, last, extents, address, flat, step, part if of_columns else None)

    # threads share an axis that is not summed: the outermost one, else the innermost one
    of_columns = is_kept(last) and (outermost == last or not is_kept(outermost))
    shared_axes = [last] if of_columns else order if is_kept(outermost) else []
    with shared_nest(e, shared_axes, extents, tree.rank, cost, work) as part:
        if is_kept(last):
            by_column()
        elif dest.extents[last] == ONE:
            by_row()
        else:
            with e.either(e.icmp("eq", dest.extents[last], extents[last])) as arms:
                next(arms)
                by_column()
                next(arms)
                by_row()
