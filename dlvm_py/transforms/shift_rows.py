"""Shifted rows: kernels that read a row of an array at several places load each of its vectors once.

    %u = section %a at (0) count (%n) step (1)              (as before)
    %v = section %a at (1) count (%n) step (1)
    store (add (load %u), (load %v)) to %p            =>    store (add (load %u), (load %v)) to %p shifts

    for j in range(n):                                      last = a[0:8]
        p[j] = a[j] + a[j + 1]                              for j in range(0, n, 8):
                                                      =>        next = a[j + 8 : j + 16]
                                                                p[j : j + 8] = last + (last, next)[1:9]
                                                                last = next

A vector that begins somewhere in a line of the cache lies in two of them, and is read twice: of a sum of three
neighbours that is most of the time, where shuffles of what is in registers cost half of it. `shifts` at the first store
of a kernel: loads at literal distances of one row of one array, at most a vector apart, are shuffled from one stream of
vectors (backend/cpu/shifts.py, on CPUs that have masks). The same operations in the same order: the same bits.

Chosen are stores of arithmetic of f32, or of f64, alone. Not kernels that go by tiles; not in long functions. Rows, or
planes, that are computed together (unroll_and_jam.py) have their vectors in common: what one of them reads in the
middle, and shuffles, another one reads above or below. What is there already stays. Stage scheduled, or compute,
behind unroll_and_jam and tile_loops; a second run finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.frozen import Frozen
from dlvm_py.ir import F32, F64, Function, Instruction, Kind, Literal, PointerType, TensorType, Value, is_array
from dlvm_py.ir.analysis.places import may_lie_side_by_side, seen
from dlvm_py.ir.tree_rules import ARITHMETIC, is_numbered, kernels, stored_tree, tree_values
from dlvm_py.transforms.tile_loops import innermost
from dlvm_py.transforms.unroll_and_jam import LONG

VECTOR = 64  # bytes
VIEWS = frozenset(("broadcast", "transpose", "padShape", "squeezeShape", "embed"))


class _Axis(Frozen):
    """The axis of the loops that an axis of a value follows, with what is taken off its index: a number, and values."""

    loop: int
    less: int = 0
    starts: tuple[Value, ...] = ()


_Axes = tuple[_Axis | None, ...]


def run(function: Function) -> bool:
    """Say which kernels of `function` load rows once that they read at several places; whether there are any."""
    if sum(len(block.instructions) for block in function.blocks) > LONG:
        return False
    changed = False
    for block in function.blocks:
        for kernel in kernels(block.instructions):
            if "shifts" not in kernel[0].attrs and _reads_rows_again(kernel):
                kernel[0].attrs = {**kernel[0].attrs, "shifts": True}
                changed = True
    return changed


def _reads_rows_again(kernel: list[Instruction]) -> bool:
    """Whether a kernel reads a row at several places, and may load it once."""
    trees = [stored_tree(i) for i in kernel]
    if None in trees:
        return False
    to = kernel[0].operands[1]
    if not isinstance(to.type, PointerType) or to.type.dtype not in (F32, F64):
        return False
    steps, dtype, inner = tree_values(*trees), to.type.dtype, innermost(to)
    if inner is None or any(i.op.name not in ARITHMETIC | VIEWS | {"load"} or i.type.dtype != dtype for i in steps):  # type: ignore[attr-defined]
        return False
    if not all(may_lie_side_by_side(i.operands[1], inner) for i in kernel):
        return False
    if "tile" in kernel[0].attrs or is_numbered(kernel):
        return False
    rows: dict[object, set[int]] = {}
    for tree in trees:
        assert tree is not None
        for load, axes in _leaves(tree):
            found = _place(load, axes, inner)
            if found is not None:
                rows.setdefault(found[0], set()).add(found[1])
    lanes = VECTOR // dtype.itemsize
    return any(0 < b - a <= lanes for places in rows.values() for a, b in _pairs(sorted(places)))


def _pairs(places: list[int]) -> Iterator[tuple[int, int]]:
    return zip(places, places[1:], strict=False)


def _leaves(tree: Value) -> Iterator[tuple[Instruction, _Axes]]:
    """The loads of a tree, each with what its axes follow."""
    rank = tree.type.rank  # type: ignore[attr-defined]
    work: list[tuple[Value, _Axes]] = [(tree, tuple(map(_Axis, range(rank))))]
    done = set(work)
    while work:
        value, axes = work.pop()
        if not isinstance(value, Instruction) or not isinstance(value.type, TensorType):
            continue
        if value.op.name == "load":
            yield value, axes
            continue
        for part in _parts(value, axes):
            if part not in done and is_array(part[0].type):
                done.add(part)
                work.append(part)


def _parts(i: Instruction, axes: _Axes) -> list[tuple[Value, _Axes]]:
    """The operands of a step of a tree, each with what its axes follow."""
    source = i.operands[0]
    if i.op.kind is Kind.ELEMENTWISE:
        return [(v, _unstretched(v, axes)) for v in i.operands]
    match i.op.name:
        case "transpose":
            order = i.attrs.get("axes") or range(len(axes))[::-1]
            found = dict(zip(order, axes, strict=True))
            return [(source, tuple(found[k] for k in range(len(axes))))]
        case "padShape":
            return [(source, axes[: i.attrs["at"]] + axes[i.attrs["at"] + 1 :])]
        case "squeezeShape":
            return [(source, (*axes[: i.attrs["at"]], None, *axes[i.attrs["at"] :]))]
        case "embed":
            starts = i.operands[2 + len(axes) : 2 + 2 * len(axes)]
            inside = tuple(None if a is None else _later(a, s) for a, s in zip(axes, starts, strict=True))
            return [(source, inside), (i.operands[1], axes)]
    return [(source, _unstretched(source, axes))]  # broadcast


def _unstretched(v: Value, axes: _Axes) -> _Axes:
    if not isinstance(v.type, TensorType):
        return ()
    return tuple(None if n == 1 else axis for axis, n in zip(axes, v.type.shape, strict=True)) if v.type.shape else ()


def _later(axis: _Axis, start: Value) -> _Axis:
    """An axis of what begins at an index of this one."""
    if isinstance(start, Literal):
        return _Axis(axis.loop, axis.less + int(start.value), axis.starts)  # type: ignore[arg-type]
    return _Axis(axis.loop, axis.less, (*axis.starts, start))


def _place(load: Instruction, axes: _Axes, inner: int) -> tuple[object, int] | None:
    """Which row a load reads, and from which place of it on; None where that is no literal."""
    place, live = seen(load.operands[0])
    at = [k for k, axis in enumerate(axes) if axis is not None and axis.loop == inner]
    if len(at) != 1 or live[at[0]] is None or place.base.type.dtype != load.type.dtype:  # type: ignore[attr-defined]
        return None
    starts = [axis.start for axis in place.axes]
    along, mine = live[at[0]], axes[at[0]]
    assert along is not None and mine is not None
    start = starts[along]
    if place.axes[along].step != 1 or start is None or None in starts:
        return None
    others = tuple(
        (axis.start.constant if k != along else None, frozenset(axis.start.terms.items()), axis.step)  # type: ignore[union-attr]
        for k, axis in enumerate(place.axes)
    )
    through = (*axes[: at[0]], mine.starts, *axes[at[0] + 1 :])
    return (place.base, through, tuple(live), others), start.constant - mine.less
