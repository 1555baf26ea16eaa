"""Rows of kernels that say `shifts` (transforms/shift_rows.py): each vector is loaded once.

    for j in range(n):                              last = a[0:8]
        b[j] = (a[j] + a[j + 1]) + a[j + 2]         for j in range(0, n - 13, 8):
                                             =>         next = a[j + 8:j + 16]
                                                        both = last, next
                                                        b[j:j + 8] = (last + both[1:9]) + both[2:10]
                                                        last = next
                                                    (what is left, fewer than 16: the kernel's own loop, under a mask)

A vector that begins somewhere in a line of the cache lies in two of them, and is read twice: of a sum of three
neighbours that is most of the time, where shuffles of what is in registers cost half of it. Loads at literal distances
of one row of one array, at most a vector apart, are a *stream*. The same operations in the same order: the same bits.

Rows that are computed together (jam.py) have streams in common: what is read above or below of one is in the middle of
another, and is shuffled from the same vectors. Of four rows of five points six are loaded once, instead of twenty.

For arithmetic of f32 and f64, on CPUs that have masks (whose vectors are lines). What goes past the caches waits for
memory, which this does not change; but rows of planes do go so there, on all CPUs, with their ends apart (streams.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.lanes import shuffled, splat
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Axes, Tree
from dlvm_py.backend.cpu.values import ZERO, V, constant, i64
from dlvm_py.frozen import Frozen
from dlvm_py.ir import F32, F64, Instruction, Value, is_array
from dlvm_py.ir.analysis.places import seen

LINE = 64  # bytes
ARITHMETIC = frozenset(("add", "subtract", "multiply", "divide", "negate"))
VIEWS = frozenset(("broadcast", "transpose", "padShape", "squeezeShape", "embed"))
Leaf = tuple[Instruction, Axes, int]  # with the number of the row, of those that are computed together


class Together(Frozen):
    """So many indices of an axis, from a first one on, whose rows are computed together."""

    axis: int
    rows: int
    start: V

    def pick(self, e: FunctionEmitter, tree: Tree, row: int) -> None:
        """Give the tree the index of one of them."""
        tree.index[self.axis] = e.add(self.start, i64(row), "nuw nsw")


class Stream(Frozen):
    """Leaves that read one row of an array, each so many elements behind the first; span: the last one's."""

    first: Leaf
    behind: dict[Leaf, int]
    span: int

    @property
    def last(self) -> Leaf:
        """The leaf that reads farthest behind."""
        return max(self.behind, key=self.behind.__getitem__)


def streams_of(
    e: FunctionEmitter, tree: Tree, dests: Sequence[Pointer], axis: int | None = None, together: int = 1
) -> list[Stream]:
    """The streams of a tree in its fast version, whose rows are dense; empty where that has none, or does more.

    axis, together: of so many rows along an axis, which have the streams that several of them read in common.
    What is embedded is read as where all of it has elements (`tree.embedding` is "all").
    """
    if not is_arithmetic(tree, dests):
        return []
    rows: dict[object, dict[Leaf, int]] = {}
    for load, axes in tree.leaves():
        for row in range(together):
            found = _place(tree, (load, axes, row), axis)
            if found is not None:
                rows.setdefault(found[0], {})[load, axes, row] = found[1]
    return [stream for row in rows.values() for stream in _cut(row, LINE // dests[0].itemsize)]


def is_arithmetic(tree: Tree, dests: Sequence[Pointer]) -> bool:
    """Whether a tree in its fast version is arithmetic of f32 or f64 alone, and its rows are dense."""
    dtype = dests[0].dtype
    if tree.linear or dtype not in (F32, F64):
        return False
    if any(p.dtype != dtype for p in (*dests, *tree.loads())) or not tree.is_dense():
        return False
    names = ARITHMETIC | VIEWS | {"load"}
    return all(i.op.name in names and i.type.dtype == dtype for i, _ in tree.nodes())  # type: ignore[attr-defined]


def _place(tree: Tree, leaf: Leaf, together: int | None) -> tuple[object, int] | None:
    """Which row a leaf reads, and from which place of it on; None where that is no literal.

    together: the axis of the rows that are computed together.
    """
    load, axes, row = leaf
    inner = [k for k, axis in enumerate(axes) if axis is not None and axis[0] == tree.inner]
    place, live = seen(load.operands[0])
    if len(inner) != 1 or live[inner[0]] is None or place.base.type.dtype != load.type.dtype:  # type: ignore[attr-defined]
        return None
    along = live[inner[0]]
    starts = [axis.start for axis in place.axes]
    start = starts[along]  # type: ignore[index]
    if place.axes[along].step != 1 or start is None or None in starts:  # type: ignore[index]
        return None
    apart, own = _moved(axes, live, row, together)
    others = tuple(
        (
            axis.start.constant + (axis.step * row if k == apart else 0) if k != along else None,
            frozenset(axis.start.terms.items()),
            axis.step,
        )  # type: ignore[union-attr]
        for k, axis in enumerate(place.axes)
    )
    at, open_starts = start.constant, []
    for by, extent in axes[inner[0]][1]:  # type: ignore[index]
        if extent is None or constant(by) is None:
            open_starts.append((by, extent))
        else:
            at -= constant(by)  # type: ignore[operator]
    through = (*axes[: inner[0]], tuple(open_starts), *axes[inner[0] + 1 :])
    return (place.base, through, tuple(live), others, own), at


def _moved(axes: Axes, live: Sequence[int | None], row: int, together: int | None) -> tuple[int | None, int]:
    """The axis of the base along which one row of several that are computed together is so many indices further on.

    And the number of the row, where it is not known how rows lie to each other.
    """
    follows = [k for k, axis in enumerate(axes) if axis is not None and axis[0] == together]
    if not follows:
        return None, 0
    axis = axes[follows[0]]
    if len(follows) > 1 or live[follows[0]] is None or axis is None or axis[1]:
        return None, row
    return live[follows[0]], 0


def _cut(row: dict[Leaf, int], lanes: int) -> list[Stream]:
    """The streams of the leaves of one row."""
    found: list[Stream] = []
    todo = sorted(row, key=lambda leaf: row[leaf])
    while todo:
        first = todo[0]
        near = [leaf for leaf in todo if row[leaf] - row[first] <= lanes]
        todo = todo[len(near) :]
        behind = {leaf: row[leaf] - row[first] for leaf in near}
        if max(behind.values()):
            found.append(Stream(first, behind, max(behind.values())))
    return found


def write_row(
    e: FunctionEmitter,
    tree: Tree,
    dests: Sequence[Pointer],
    streams: Sequence[Stream],
    span: tuple[V, V],
    address: Callable[[int], V],
    put: Callable[[Parallel], None],
    together: Together | None = None,
) -> None:
    """Write the elements of a row, or of several together, from a first to a last one; the other axes have their index.

    address: of the element of a destination at the tree's index. put: writes the element at that index.
    """
    first, last = span
    rows = range(1 if together is None else together.rows)
    lanes = LINE // dests[0].itemsize
    reach = lanes - min(s.span for s in streams)  # elements that the loads of the last trip want behind its own
    room = e.op("sub nsw", e.op("sub nsw", last, first), i64(reach))
    times = e.select(e.icmp("sgt", room, ZERO), e.op("sdiv", room, i64(lanes)), ZERO)
    with e.when(e.icmp("sgt", times, ZERO)):
        vectors = Vectors(e, tree, streams, lanes, together)
        tree.index[tree.inner] = first
        with e.loop(times, [vectors.load(s.first) for s in streams], runs=True) as loop:
            index = e.add(first, e.mul(loop.index, i64(lanes), "nuw nsw"), "nuw nsw")
            tree.index[tree.inner] = e.add(index, i64(lanes), "nuw nsw")
            loop.next = [vectors.load(s.first) for s in streams]
            tree.index[tree.inner] = index
            vectors.take(loop.carried, loop.next)
            values = [vectors.elements(row) for row in rows]
            for row in rows:
                vectors.pick(row)
                for k, (p, x) in enumerate(zip(dests, values[row], strict=True)):
                    e.store(x, address(k), f", align {p.itemsize}{p.notes}")
    done = e.add(first, e.mul(times, i64(lanes), "nuw nsw"), "nuw nsw")
    parallel = Parallel(e, masked=True)
    with e.loop(e.op("sub nsw", last, done), note=parallel.loop) as rest:
        tree.index[tree.inner] = e.add(done, rest.index, "nuw nsw")
        for row in rows:
            if together is not None:
                together.pick(e, tree, row)
            put(parallel)


class Vectors:
    """Vectors of the elements of a tree from its index on, of each row of those that are computed together."""

    def __init__(
        self, e: FunctionEmitter, tree: Tree, streams: Sequence[Stream], lanes: int, together: Together | None
    ) -> None:
        self.e, self.tree, self.streams, self.lanes, self.together = e, tree, streams, lanes, together
        self._row = 0
        self._memo: dict[tuple[Value, Axes, int], V] = {}

    def pick(self, row: int) -> None:
        """Go on with one of the rows."""
        self._row = row
        if self.together is not None:
            self.together.pick(self.e, self.tree, row)

    def load(self, leaf: Leaf) -> V:
        """A vector from memory."""
        self.pick(leaf[2])
        p = self.e.pointer(leaf[0].operands[0])
        type = f"<{self.lanes} x {scalar_type(p.dtype)}>"
        return self.e.load(type, self.tree.address(*leaf[:2]), f", align {p.itemsize}{p.notes}")

    def before(self, stream: Stream) -> V:
        """A vector that ends with what the first leaf reads before the last one's element: what `take` needs of it."""
        self.pick(stream.first[2])
        p = self.e.pointer(stream.first[0].operands[0])
        type = f"<{stream.span} x {scalar_type(p.dtype)}>"
        found = self.e.load(type, self.tree.address(*stream.first[:2]), f", align {p.itemsize}{p.notes}")
        return shuffled(self.e, found, found, [0] * (self.lanes - stream.span) + list(range(stream.span)))

    def take(self, last: Sequence[V], next: Sequence[V], ends: bool = False) -> None:
        """Have what streams have loaded, a vector and the next one, of the first leaf; ends: of the last one."""
        self._memo.clear()
        for stream, a, b in zip(self.streams, last, next, strict=True):
            skipped = self.lanes - stream.span if ends else 0
            for leaf, behind in stream.behind.items():
                start = skipped + behind
                whole = start in (0, self.lanes)
                order = range(start, start + self.lanes)
                self._memo[leaf] = (b if start else a) if whole else shuffled(self.e, a, b, order)

    def elements(self, row: int) -> list[V]:
        """Those of all roots in a row."""
        self.pick(row)
        return [self._read(root, self.tree.root_axes) for root in self.tree.roots]

    def _read(self, value: Value, axes: Axes) -> V:
        if not is_array(value.type):
            return splat(self.e, self.e.scalar(value), self.lanes)
        assert isinstance(value, Instruction)
        key = value, axes, self._row
        if key not in self._memo:
            self._memo[key] = self._compute(value, axes)
        return self._memo[key]

    def _compute(self, i: Instruction, axes: Axes) -> V:
        if i.op.name == "load":
            if any(axis is not None and axis[0] == self.tree.inner for axis in axes):
                return self.load((i, axes, self._row))
            p = self.e.pointer(i.operands[0])
            one = self.e.load(scalar_type(p.dtype), self.tree.address(i, axes), p.notes)
            return splat(self.e, one, self.lanes)
        parts = [self._read(v, a) for v, a in self.tree.children(i, axes)]
        if i.op.name in VIEWS:
            return parts[0]
        dtype = i.operands[0].type.dtype  # type: ignore[attr-defined]
        return TABLE[i.op.name][dtype.kind](self.e, dtype, i.attrs, *parts)
