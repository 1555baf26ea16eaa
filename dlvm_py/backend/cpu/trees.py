"""Trees of array expressions, read element by element at the indices of a loop nest.

A tree value is read through a tuple of *axes*, one for each of its axes: None for index 0, or a loop axis with
what is done to its index, in order: it is multiplied with run-time flags (1, or 0 where the axis is stretched), and the
start of an embedded array is taken off. Index ops permute the tuple, elementwise ops hand it on, loads turn it into an
address. Within one element every value of the tree is computed once for each tuple that it is read through.

What is embedded is read where it lies and nowhere else. `embedding` says what the nest around knows of that: nothing,
so that each element asks ("tested"); along the innermost axis all is inside, and rows that are not read another row and
do not use it ("rows"); or everything is inside ("all"); or everything is along all axes but the innermost one, whose
index is known ("columns"). See borders.py.

Two versions of a nest exist where run-time facts matter: the *fast* one assumes that strided leaves have
unit stride along the innermost loop and that no unknown extent is stretched; `conditions` says when. A column of
contiguous memory is read with its stride in both. Extents of 1 that
are not known to be 1 are rare: where nothing else is open the other version is for them alone, and `is_rare`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.backend.cpu import by_number
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.pointers import Pointer, frozen, is_open, load_element, offset, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64
from dlvm_py.errors import PassError
from dlvm_py.ir import Instruction, Kind, TensorType, Value, is_array
from dlvm_py.ir.analysis.cost import is_slow
from dlvm_py.ir.tree_rules import index_rank, is_linear

Axis = tuple[int, tuple[tuple[V, V | None], ...]]  # loop axis; then in order (flag, None) or (start, extent)
Axes = tuple[Axis | None, ...]


def permutation(i: Instruction) -> tuple[int, ...]:
    """The axes of a transpose: result axis k is operand axis permutation[k]."""
    axes = i.attrs.get("axes")
    rank = len(i.operands[0].type.shape)  # type: ignore[attr-defined]
    return tuple(range(rank))[::-1] if axes is None else tuple(axes)


def tree_extents(e: FunctionEmitter, value: Value) -> tuple[V, ...]:
    """The extents of a tree value at run time."""
    t = value.type
    assert isinstance(t, TensorType)
    return tuple(tree_extent(e, value, k) for k in range(len(t.shape)))


def tree_extent(e: FunctionEmitter, value: Value, axis: int) -> V:
    """One of them. Only that axis is followed up: a tree is walked once for each of its root's."""
    n = value.type.shape[axis]  # type: ignore[attr-defined]
    if n is not None:
        return i64(n)
    if not isinstance(value, Instruction):
        raise PassError(f"array value {value!r} at stage scheduled")
    o = value.operands
    if "extents" in value.op.properties:
        return e.scalar(o[axis - len(value.type.shape)])  # type: ignore[attr-defined]
    match value.op.name:
        case "load":
            return e.pointer(o[0]).extents[axis]
        case "transpose":
            return tree_extent(e, o[0], permutation(value)[axis])
        case "padShape":
            return tree_extent(e, o[0], axis - (axis > value.attrs["at"]))
        case "squeezeShape":
            return tree_extent(e, o[0], axis + (axis >= value.attrs["at"]))
        case "broadcast" | "unbroadcast" | "shapeCast" | "overlapAdd":
            return e.scalar(o[1 + axis])
        case "embed":
            return e.scalar(o[2 + axis])
        case "gather":
            rank = index_rank(value)
            if axis >= rank:
                return tree_extent(e, o[0], axis - rank + len(o) - 1)
            source = next(v for v in o[1:] if is_array(v.type) and v.type.shape[axis] is None)  # type: ignore[attr-defined]
            return tree_extent(e, source, axis)
        case "scatterAdd":
            count = len(o) // 2
            if axis < count:
                return e.scalar(o[1 + count + axis])
            return tree_extent(e, o[0], axis + len(o[0].type.shape) - len(value.type.shape))  # type: ignore[attr-defined]
        case "nonzero":
            return e.scalar(o[1])
        case "searchSorted":
            return tree_extent(e, o[1], axis)
        case "scan" | "recurrence" | "fourier" | "sort" | "argsort":
            return tree_extent(e, o[0], axis)
        case "solve":
            return tree_extent(e, o[1], axis)
        case "cholesky" | "choleskyAdjoint":
            return tree_extent(e, o[0], axis)
        case "iota":
            return e.scalar(o[0])
        case "reduce":
            kept = [k for k in range(len(o[0].type.shape)) if k not in value.attrs["axes"]]  # type: ignore[attr-defined]
            return tree_extent(e, o[0], kept[axis])
        case "dot":
            rows = len(o[0].type.shape) - 1  # type: ignore[attr-defined]
            return tree_extent(e, o[0], 0) if axis < rows else tree_extent(e, o[1], 1)
    if value.op.kind is not Kind.ELEMENTWISE:
        raise PassError(f"{value.op.name} stands inside a tree")
    # the type says `_`: so does some operand, and those that do have equal extents
    source = next(v for v in o if is_array(v.type) and v.type.shape[axis] is None)  # type: ignore[attr-defined]
    return tree_extent(e, source, axis)


class Tree:
    """One tree and the loop axes that its root is indexed by (root axis k is loop axis k).

    others: the roots of trees over the same loop axes, with which it shares what is equal (`elements`).
    """

    def __init__(self, e: FunctionEmitter, root: Value, *others: Value) -> None:
        self.e = e
        self.root = root
        self.roots = root, *others
        self.rank = len(root.type.shape)  # type: ignore[attr-defined]
        self.index: dict[int, V] = {}
        self.fast = True
        self.inner = self.rank - 1
        self.linear = False
        self.group = ""  # metadata of every access
        self.embedding = "tested"
        self.has_embeds = False
        self.is_rare = False  # whether what is written is a version that hardly ever runs
        self.begins: dict[V, V] = {}  # of the data of sections, where these begin, for LLVM to see that it is one array
        self.updated: frozenset[V] = frozenset()  # data of which an element is replaced by itself or another one
        self.places: dict[tuple[Instruction, Axes], V] = {}  # where elements of loads are that lie elsewhere by now
        self._stretch: dict[tuple[Value, int], tuple[V, V]] = {}
        self._known: dict[tuple[V, V], tuple[V, V]] = {}
        self._ones: set[tuple[Value, int]] = set()  # axes of broadcasts along which there is one element
        self._strides: dict[Value, tuple[V, ...]] = {}
        self._is_slow: bool | None = None
        self._memo: dict[tuple[Value, Axes], V] = {}
        self.root_axes: Axes = tuple((k, ()) for k in range(self.rank))
        for value in self.roots:
            self._prepare(value)

    def _prepare(self, value: Value) -> None:
        """Compute before the loops what they need of every leaf: strides and stretch flags."""
        if not is_array(value.type) or not isinstance(value, Instruction):
            return
        if value.op.name == "load":
            p = self.e.pointer(value.operands[0])
            self._strides[value] = strides_of(self.e, p)
            return
        if value.op.name == "broadcast" and is_array(value.operands[0].type):
            self._prepare_broadcast(value)
        self.has_embeds |= value.op.name == "embed"
        for v in value.operands:
            self._prepare(v)

    def _prepare_broadcast(self, value: Instruction) -> None:
        source = value.operands[0]
        wanted = tree_extents(self.e, value)
        have = tree_extents(self.e, source)
        for k, (m, n) in enumerate(zip(have, wanted, strict=True)):
            if m == ONE:
                self._ones.add((value, k))  # its type need not say so
            elif m != n:
                if (m, n) not in self._known:
                    flag = self.e.cast("zext", self.e.icmp("ne", m, ONE), "i64")
                    self._known[m, n] = flag, self.e.icmp("eq", m, n)
                self._stretch[value, k] = self._known[m, n]

    # -- structure -----------------------------------------------------------------------------------

    def children(self, i: Instruction, axes: Axes) -> list[tuple[Value, Axes]]:
        """The operands of a node, each with the axes that it is read through."""
        name = i.op.name
        if i.op.kind is Kind.ELEMENTWISE:
            return [(v, self.unstretched(v, axes)) for v in i.operands]
        source = i.operands[0]
        if name == "transpose":
            found: list[Axis | None] = [None] * len(axes)
            for axis, k in zip(axes, permutation(i), strict=True):
                found[k] = axis
            return [(source, tuple(found))]
        if name == "padShape":
            return [(source, axes[: i.attrs["at"]] + axes[i.attrs["at"] + 1 :])]
        if name == "squeezeShape":
            return [(source, (*axes[: i.attrs["at"]], None, *axes[i.attrs["at"] :]))]
        if name == "broadcast":
            if not is_array(source.type):
                return [(source, ())]
            stretched = tuple(self._stretched(i, k, axis) for k, axis in enumerate(axes))
            return [(source, self.unstretched(source, stretched))]
        if name == "embed":
            return [(source, self.embedded(i, axes)), (i.operands[1], axes if is_array(i.operands[1].type) else ())]
        if name == "gather":
            rank = index_rank(i)
            row: Axes = (*[None] * (len(i.operands) - 1), *axes[rank:])
            return [(source, row), *((v, self.unstretched(v, axes[:rank])) for v in i.operands[1:])]
        if name in ("load", "iota"):
            return []
        raise PassError(f"{name} stands inside a tree")

    @staticmethod
    def unstretched(v: Value, axes: Axes) -> Axes:
        """The axes that v is read through as an operand whose extents of 1 are stretched."""
        if not is_array(v.type):
            return ()
        return tuple(None if n == 1 else axis for axis, n in zip(axes, v.type.shape, strict=True))  # type: ignore[attr-defined]

    def _stretched(self, i: Instruction, k: int, axis: Axis | None) -> Axis | None:
        if (i, k) in self._ones:
            return None
        if axis is None or (i, k) not in self._stretch or self.fast:
            return axis
        steps = axis[1]
        if steps and steps[-1][1] is None:
            steps = steps[:-1]  # of an axis that is stretched in turn: what is not 1 here is not 1 further up
        return axis[0], (*steps, (self._stretch[i, k][0], None))

    def embedded(self, i: Instruction, axes: Axes) -> Axes:
        """The axes that what an embed embeds is read through; an axis that is whole stays as it is."""
        rank, have, whole = len(axes), tree_extents(self.e, i.operands[0]), tree_extents(self.e, i)
        starts = [self.e.scalar(v) for v in i.operands[2 + rank : 2 + 2 * rank]]
        return tuple(
            axis if axis is None or (start == ZERO and n == m) else (axis[0], (*axis[1], (start, n)))
            for axis, start, n, m in zip(axes, starts, have, whole, strict=True)
        )

    def embeds(self) -> list[tuple[Instruction, Axes]]:
        """The embeds with the axes that they are read through, each before those below it."""
        return [(i, axes) for i, axes in self.nodes() if i.op.name == "embed"]

    def leaves(self) -> Iterator[tuple[Instruction, Axes]]:
        """The array loads and iotas with their axes."""
        return ((i, axes) for i, axes in self.nodes() if i.op.name in ("load", "iota"))

    def nodes(self) -> Iterator[tuple[Instruction, Axes]]:
        """All array values with their axes."""
        todo: list[tuple[Value, Axes]] = [(root, self.root_axes) for root in self.roots]
        seen = set()
        while todo:
            value, axes = todo.pop()
            if not is_array(value.type) or (value, axes) in seen:
                continue
            seen.add((value, axes))
            assert isinstance(value, Instruction)
            yield value, axes
            todo.extend(self.children(value, axes))

    def loads(self) -> list[Pointer]:
        """The pointers of the array loads."""
        return [self.e.pointer(i.operands[0]) for i, _ in self.leaves() if i.op.name == "load"]

    def is_linear(self, layout: str, shape: tuple[int | None, ...]) -> bool:
        """Whether every leaf is as contiguous as a pointer of that layout and type shape, with equal extents."""
        return all(is_linear(root, layout, shape) for root in self.roots)

    def steps(self, leaf: Instruction) -> tuple[V, ...]:
        """The strides of a load."""
        return self._strides[leaf]

    def order(self) -> list[int]:
        """The loop axes, the one that most of the largest leaves run along in memory innermost; C order if in doubt."""
        found: dict[tuple[int, ...], int] = {}
        for leaf, axes in self.leaves():
            loops = [axis[0] for axis in axes if axis is not None]
            if leaf.op.name == "load" and len(loops) == self.rank and len(set(loops)) == self.rank > 1:
                layout = self.e.pointer(leaf.operands[0]).layout
                if layout != "S":
                    way = tuple(loops if layout == "C" else loops[::-1])
                    found[way] = found.get(way, 0) + 1
        plain = tuple(range(self.rank))
        return list(max(found, key=lambda way: (found[way], way == plain), default=plain))

    def conditions(self) -> list[V]:
        """What the fast version assumes, as flags computed before the loops."""
        return [*self.stretch_conditions(), *self.stride_conditions()]

    def stretch_conditions(self) -> list[V]:
        """That no unknown extent is stretched."""
        return [equal for _, equal in self._known.values()]

    def stride_conditions(self) -> list[V]:
        """That strided leaves have unit stride along the innermost loop."""
        found: dict[V, V] = {}
        if not self.linear:
            for leaf, axes in self.leaves():
                if leaf.op.name == "load" and (k := self._open_axis(leaf, axes)) is not None:
                    stride, size = self._strides[leaf][k], i64(self.e.pointer(leaf.operands[0]).itemsize)
                    if stride not in found:
                        found[stride] = self.e.icmp("eq", stride, size)
        return list(found.values())

    def is_adjacent(self, leaf: Instruction, axes: Axes, outer: int, inner: int) -> bool:
        """Whether a leaf has each row along `inner` right behind the one before along `outer`, or the same for all."""
        loops = (outer, inner)
        follows = {axis[0]: (k, axis[1]) for k, axis in enumerate(axes) if axis is not None and axis[0] in loops}
        if not follows or leaf.op.name != "load":
            return not follows
        (row, row_steps), (place, steps) = (follows.get(k, (-1, ())) for k in loops)
        layout = self.e.pointer(leaf.operands[0]).layout
        before = {"C": place - 1, "F": place + 1}.get(layout)
        return len(follows) == 2 and not (row_steps or steps) and row == before

    def is_dense(self) -> bool:
        """Whether all that is read are neighbours along the innermost loop, or one element, in the fast version."""
        return all(
            leaf.op.name == "load"
            and all(
                axis is None or axis[0] != self.inner or step == i64(self.e.pointer(leaf.operands[0]).itemsize)
                for axis, step in zip(axes, self._steps(leaf, axes), strict=True)
            )
            for leaf, axes in self.leaves()
        )

    def _open_axis(self, leaf: Instruction, axes: Axes) -> int | None:
        """The axis of a strided leaf that alone follows the innermost loop, if its stride may be that of neighbours."""
        if leaf.operands[0].type.layout != "S":  # type: ignore[attr-defined]
            return None
        follows = [k for k, axis in enumerate(axes) if axis is not None and axis[0] == self.inner]
        if len(follows) != 1:
            return None
        size = i64(self.e.pointer(leaf.operands[0]).itemsize)
        return follows[0] if is_open(self.e, self._strides[leaf][follows[0]], size) else None

    # -- elements ------------------------------------------------------------------------------------

    def element(self) -> V:
        """The root's element at the current `index`."""
        return self.elements()[0]

    def elements(self) -> list[V]:
        """Those of all roots, in order."""
        self._memo.clear()
        return [self._read(root, self.root_axes) for root in self.roots]

    def element_of(self, value: Value, axes: Axes) -> V:
        """The element of a node, read through `axes`, at the current `index`."""
        self._memo.clear()
        return self._read(value, axes)

    def _read(self, value: Value, axes: Axes) -> V:
        if not is_array(value.type):
            return self.e.scalar(value)
        key = value, axes
        if key not in self._memo:
            assert isinstance(value, Instruction)
            self._memo[key] = self._compute(value, axes)
        return self._memo[key]

    def _compute(self, i: Instruction, axes: Axes) -> V:
        if i.op.name == "load":
            return self._load(i, axes)
        if i.op.name == "iota":
            return self._position(axes[0])
        if i.op.name == "gather":
            return self._gathered(i, axes)
        if i.op.name == "embed":
            return self._embedded(i, axes)
        parts = [self._read(v, a) for v, a in self.children(i, axes)]
        if i.op.kind is not Kind.ELEMENTWISE:
            return parts[0]
        dtype = i.operands[0].type.dtype  # type: ignore[attr-defined]
        divided = by_number.TABLE.get(i.op.name)
        if divided is not None and not is_array(i.operands[1].type) and by_number.pays(self.e, dtype, parts[1]):
            return divided(self.e, dtype, *parts)
        return TABLE[i.op.name][dtype.kind](self.e, dtype, i.attrs, *parts)

    def _position(self, axis: Axis | None) -> V:
        if axis is None:
            return ZERO
        position = self.index[axis[0]]
        for by, extent in axis[1]:
            if extent is None:
                position = self.e.mul(position, by, "nsw")
                continue
            position = self.e.op("sub", position, by)
            if self.embedding == "rows" and axis[0] != self.inner:
                position = self.e.select(self.e.icmp("ult", position, extent), position, ZERO)
        return position

    def tests(self, i: Instruction, axes: Axes, but: int | None = None) -> list[V]:
        """Whether the current index lies in what is embedded, axis by axis; `but` for one loop axis."""
        found = []
        for outer, axis, n in zip(axes, self.embedded(i, axes), tree_extents(self.e, i.operands[0]), strict=True):
            if axis is None:
                # one place, of an axis whose extent is 1
                if n != ONE:
                    found.append(self.e.icmp("ne", n, ZERO))
            elif axis is not outer and axis[0] != but:
                place = self.e.op("sub", self._position(outer), axis[1][-1][0])
                found.append(self.e.icmp("ult", place, n))
        return found

    def is_inside(self, axes: Axes) -> bool:
        """Whether the index along the innermost axis, a literal, is in what is embedded and read through `axes`."""
        for axis in axes:
            if axis is not None and axis[0] == self.inner:
                place = constant(self.index[self.inner])
                for start, extent in axis[1]:
                    assert place is not None and extent is not None
                    place -= constant(start) or 0
                    if not 0 <= place < (constant(extent) or 0):
                        return False
        return True

    def _embedded(self, i: Instruction, axes: Axes) -> V:
        e, ((x, inner), (fill, outer)) = self.e, self.children(i, axes)
        if self.embedding == "all":
            return self._read(x, inner)
        if self.embedding == "columns":
            return self._read(x, inner) if self.is_inside(inner) else self._read(fill, outer)
        tests = self.tests(i, axes, but=self.inner if self.embedding == "rows" else None)
        if not tests:
            return self._read(x, inner)
        if self.embedding == "rows":
            return e.select(e.both(*tests), self._read(x, inner), self._read(fill, outer))
        memo = dict(self._memo)
        values, ends = [], []
        with e.either(e.both(*tests)) as arms:
            for part in ((x, inner), (fill, outer)):
                next(arms)
                # what is computed in an arm is not there behind it
                self._memo = dict(memo)
                values.append(self._read(*part))
                ends.append(e.here)
        self._memo = memo
        phi = e.phi(values[0].type)
        for v, end in zip(values, ends, strict=True):
            phi.add(v, end)
        return phi.value

    def _load(self, i: Instruction, axes: Axes) -> V:
        e, p = self.e, self.e.pointer(i.operands[0])
        if (i, axes) in self.places:
            return load_element(e, p.dtype, self.places[i, axes], self.group)
        x = load_element(e, p.dtype, self.address(i, axes), p.notes + self.group)
        return frozen(e, x) if p.data in self.updated else x

    def _gathered(self, i: Instruction, axes: Axes) -> V:
        (source, row), *indices = self.children(i, axes)
        assert isinstance(source, Instruction)
        e, p = self.e, self.e.pointer(source.operands[0])
        places = [self._read(v, a) for v, a in indices]
        places += [self._position(axis) for axis in row[len(indices) :]]
        return load_element(e, p.dtype, offset(e, p.data, places, self._steps(source, row)), p.notes + self.group)

    def address(self, i: Instruction, axes: Axes) -> V:
        """The address that a load reads at the current index."""
        e, p = self.e, self.e.pointer(i.operands[0])
        if self.linear:
            return offset(e, p.data, [self.index[0]], [i64(p.itemsize)])
        steps = [
            self.inner_step(step) if axis is not None and axis[0] == self.inner else step
            for axis, step in zip(axes, self._steps(i, axes), strict=True)
        ]
        return offset(e, self.begins.get(p.data, p.data), [self._position(axis) for axis in axes], steps)

    def sections(self) -> dict[V, V]:
        """`begins`, computed here, where no section is empty."""
        e = self.e
        found = dict.fromkeys(e.pointer(load.operands[0]).data for load, _ in self.leaves())
        return {data: offset(e, *e.sections[data]) for data in found if data in e.sections}

    @property
    def is_slow(self) -> bool:
        """Whether an element takes longer than the loads that it needs."""
        if self._is_slow is None:
            self._is_slow = any(is_slow(i) for i, _ in self.nodes())
        return self._is_slow

    def inner_step(self, stride: V) -> V:
        """The stride of the innermost loop, along which LLVM makes vectors of elements apart where that pays."""
        return self.e.unguessed(stride) if self.is_slow else stride

    def _steps(self, i: Instruction, axes: Axes) -> list[V]:
        """The strides of a load, in the fast version with what its conditions say."""
        strides = list(self._strides[i])
        k = self._open_axis(i, axes) if self.fast else None
        if k is not None:
            strides[k] = i64(self.e.pointer(i.operands[0]).itemsize)
        return strides

    def is_unit_load(self) -> bool:
        """Whether the root is a load with elements side by side along the innermost axis."""
        if not isinstance(self.root, Instruction) or self.root.op.name != "load":
            return False
        size = i64(self.e.pointer(self.root.operands[0]).itemsize)
        by_condition = self.fast and self._open_axis(self.root, self.root_axes) is not None
        return self.linear or by_condition or self._strides[self.root][self.inner] == size

    def root_address(self) -> V:
        """The address of a root load at the current index."""
        assert isinstance(self.root, Instruction)
        return self.address(self.root, self.root_axes)
