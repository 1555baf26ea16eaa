"""Rows of trees that embed arrays in larger ones, as the sums of shifted arrays do that adjoints of stencils are.

    t = embed a in 0 at (0)  +  embed b in 0 at (2)      a and b of extent n - 2

    tested       every element asks for each embedded array whether it is in it
    interior     along the innermost axis, where all of them have elements, nobody asks:  2 <= j < n - 2
    borders      what is left of a row on both sides is tested

A row (the other indices fixed) that lies in all of them takes the interior loop without tests, "all". Any other takes
one that reads a row of theirs instead of those which it is not in, and selects ("rows"): it vectorises as well.
Where an embedded array is empty there is no interior.

    np.stack((x, y), axis=1):   t = embed y in (embed x in ... at (0, 0)) at (0, 1)      <n x 2>

A short row of known length, where it is known which array each of its elements is of, is written out in a loop over the
axis before it: the elements of a step lie side by side, and LLVM makes vectors of them.

    for i in range(n):  t[i, 0] = x[i];  t[i, 1] = y[i]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Axes, Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64
from dlvm_py.ir import Instruction

COLUMNS = 8  # elements of a row that is written out


class Row:
    """The innermost loop of a nest, for a tree in its fast version; None of its axes is stretched.

    Made before the nest: what is the same in all rows is computed there.
    """

    def __init__(self, e: FunctionEmitter, tree: Tree, extent: V) -> None:
        self.e, self.tree, self.extent = e, tree, extent
        self.embeds = [(i, axes) for i, axes in tree.embeds() if not self._is_whole(tree, i, axes)]
        low, high, filled = ZERO, extent, []
        for i, axes in self.embeds:
            for axis, outer, n in zip(tree.embedded(i, axes), axes, tree_extents(e, i.operands[0]), strict=True):
                if axis is None or (axis[0] != tree.inner and axis is not outer):
                    filled.append(e.icmp("sgt", n, ZERO))
                elif axis[0] == tree.inner:
                    first = ZERO
                    for start, count in axis[1]:
                        assert count is not None, "a stretched axis in the fast version"
                        first = _sum(e, first, start)
                        low, high = _larger(e, low, first), _smaller(e, high, _sum(e, first, count))
        self.low = _smaller(e, low, extent)
        high = _larger(e, self.low, high)
        high = e.select(e.both(*filled), high, self.low) if filled else high
        self.width = _difference(e, high, self.low)

    def _is_whole(self, tree: Tree, i: Instruction, axes: Axes) -> bool:
        """Whether what is embedded has an element wherever the result has one."""
        counts = tree_extents(self.e, i.operands[0])
        one_place = (n for axis, n in zip(axes, counts, strict=True) if axis is None)
        return tree.embedded(i, axes) == axes and all(n == ONE for n in one_place)

    def write(
        self, put: Callable[[Parallel], None], by_streams: Callable[[tuple[V, V]], bool] = lambda span: False
    ) -> None:
        """Run `put` at every index of the row; the tree is read there as its `embedding` says by then.

        by_streams: writes the elements of a part of the row where all is inside, by vectors; False: it does not.
        """
        e, tree = self.e, self.tree
        flags = [flag for i, axes in self.embeds for flag in tree.tests(i, axes, but=tree.inner)]
        if flags:
            with e.either(e.both(*flags)) as arms:
                next(arms)
                self._inside(put, by_streams)
                next(arms)
                self._interior("rows", put)
        else:
            self._inside(put, by_streams)
        tree.embedding = "tested"
        if self.width != self.extent:
            with e.loop(e.op("sub", self.extent, self.width)) as loop:
                behind = e.add(loop.index, self.width, "nuw nsw")
                tree.index[tree.inner] = e.select(e.icmp("slt", loop.index, self.low), loop.index, behind)
                put(Parallel(e))

    def _inside(self, put: Callable[[Parallel], None], by_streams: Callable[[tuple[V, V]], bool]) -> None:
        self.tree.embedding = "all"
        if not by_streams((self.low, self.e.add(self.low, self.width))):
            self._interior("all", put)

    def _interior(self, embedding: str, put: Callable[[Parallel], None]) -> None:
        self.tree.embedding = embedding
        parallel = Parallel(self.e)
        with self.e.loop(self.width, note=parallel.loop) as loop:
            self.tree.index[self.tree.inner] = self.e.add(self.low, loop.index, "nuw nsw")
            put(parallel)


def columns(e: FunctionEmitter, tree: Tree, extents: Sequence[V], order: Sequence[int]) -> list[V] | None:
    """The conditions under which rows are written out, "columns"; None where they are not, whatever holds."""
    count = constant(extents[tree.inner])
    if count is None or not 2 <= count <= COLUMNS or len(order) < 2:
        return None
    conditions = []
    for i, axes in tree.embeds():
        counts = zip(tree_extents(e, i.operands[0]), tree_extents(e, i), strict=True)
        for outer, axis, (n, whole) in zip(axes, tree.embedded(i, axes), counts, strict=True):
            if axis is None:
                conditions += [e.icmp("ne", n, ZERO)] if n != ONE else []
            elif axis[0] == tree.inner:
                if any(extent is None or None in (constant(start), constant(extent)) for start, extent in axis[1]):
                    return None
            elif axis is not outer:
                start = axis[1][-1][0]
                if constant(start) not in (None, 0):
                    return None
                conditions += [e.icmp("eq", start, ZERO)] if start != ZERO else []
                conditions += [e.icmp("sge", n, whole)] if n != whole else []
    return conditions


def _sum(e: FunctionEmitter, a: V, b: V) -> V:
    known = constant(a), constant(b)
    return i64(known[0] + known[1]) if None not in known else e.add(a, b)  # type: ignore[operator]


def _difference(e: FunctionEmitter, a: V, b: V) -> V:
    return a if b == ZERO else e.op("sub", a, b)


def _larger(e: FunctionEmitter, a: V, b: V) -> V:
    known = constant(a), constant(b)
    if None not in known:
        return i64(max(known))  # type: ignore[type-var]
    return e.select(e.icmp("slt", a, b), b, a)


def _smaller(e: FunctionEmitter, a: V, b: V) -> V:
    known = constant(a), constant(b)
    if None not in known:
        return i64(min(known))  # type: ignore[type-var]
    return ZERO if ZERO in (a, b) else a if a == b else e.minimum(a, b)
