"""Masked reductions: what a mask picks is reduced where it lies, without being picked.

    %at = nonzero %m: <_ x bool> count %n: i64
    %i = squeezeShape %at: <1 x _ x i64> at 0
    %x = gather %a: <_ x f64> at (%i: <_ x i64>)           %0 = square %a: <_ x f64>
    %y = square %x: <_ x f64>                        =>    %1 = select %0: <_ x f64>, -0.0: f64 by %m: <_ x bool>
    %s = reduce %y by add init 0.0: f64 along 0            %s = reduce %1 by add init 0.0: f64 along 0

`a[mask].sum()` writes the places of the true elements, and reads the elements from there one by one. The reduction of
all elements, with the neutral one wherever the mask is false, is one pass that vectorises.

For masks whose picked elements go to such reductions alone, through a few cheap steps that cannot fail: elements
that are not picked take them too. Only where mask and array are known to have equal extents, as they are behind the
check of a boolean index. A float sum has `reduce`'s order over all elements instead of that over the picked ones.
`nonzero` is left to be dropped. Stages raw and optimizable, by bufferize; a second run finds nothing.
"""

from __future__ import annotations

import math

from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.equal_extents import EqualExtents
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.ops.combiners import identity_of
from dlvm_py.ir.types import TensorType, is_array, scalar
from dlvm_py.ir.value import Instruction, Literal, Value

# steps that cost no more than reading an element
CHEAP = frozenset(
    {
        "add", "subtract", "multiply", "divide", "negate", "square", "abs", "max", "min", "dataTypeCast", "select",
        "equal", "notEqual", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual", "and", "or", "not",
    }
)  # fmt: skip
REDUCTIONS = frozenset({"add", "multiply", "max", "min"})

_Users = dict[Value, list[Instruction]]


def run(function: Function) -> bool:
    """Rewrite the reductions of `function` that only masks pick for; whether there were any."""
    masks = [i for i in function.instructions() if i.op is OPS["nonzero"]]
    if not masks:
        return False
    users = uses(function)
    found = [(places, _reductions(places, users)) for places in masks]
    if not any(reductions for _, reductions in found):
        return False
    extents = EqualExtents(function)
    changed = False
    for places, reductions in found:
        if reductions and _agree(extents, places, reductions):
            for i in reductions:
                _reduce_all(function, i, places)
            changed = True
    return changed


def _reductions(places: Instruction, users: _Users) -> list[Instruction]:
    """The reductions that take all that is picked at `places`; none if anything else takes some of it."""
    found: list[Instruction] = []
    rows: set[Value] = {places}  # the places themselves, which only say where to read
    picked: set[Value] = set()
    work: list[Instruction] = [places]
    while work:
        v = work.pop()
        for u in users[v]:
            if u in rows or u in picked or u.op is OPS["extent"]:
                continue
            if v in picked and _is_reduction(u, v):
                found.append(u)
                continue
            if u.block is not places.block:
                return []
            if v in rows and _is_row(u, places):
                rows.add(u)
            elif (v in rows and _is_picked(u, places)) or (v in picked and _is_step(u)):
                picked.add(u)
            else:
                return []
            work.append(u)
    operands = [x for v in picked if _is_step(v) for x in v.operands]  # type: ignore[arg-type, attr-defined]
    fits = all(x in picked or not is_array(x.type) or _repeated(x) is not None for x in operands)
    return list(dict.fromkeys(found)) if fits and all(i.block is places.block for i in found) else []


def _is_reduction(i: Instruction, v: Value) -> bool:
    """Whether i reduces v, of real numbers, to one."""
    if i.op is not OPS["reduce"] or i.operands[0] is not v or i.attrs["by"] not in REDUCTIONS:
        return False
    return i.type.rank == 0 and i.type.dtype.kind not in "bc"  # type: ignore[attr-defined]


def _is_row(i: Instruction, places: Instruction) -> bool:
    """Whether i is a row of `places`, or on the way to one."""
    if i.op is OPS["section"]:
        source, row, first, height, width, _, step = i.operands
        whole = _is_number(first, 0) and _is_number(height, 1) and width is places.operands[1] and _is_number(step, 1)
        return source is places and isinstance(row, Literal) and whole
    return i.op is OPS["squeezeShape"] and (i.operands[0] is places or _is_section(i.operands[0]))


def _is_section(v: Value) -> bool:
    return isinstance(v, Instruction) and v.op is OPS["section"]


def _is_number(v: Value, n: int) -> bool:
    return isinstance(v, Literal) and v.value == n


def _row_of(v: Value, places: Instruction) -> int | None:
    """Which row of `places` an index of a gather is; None if it is none."""
    if not isinstance(v, Instruction) or v.op is not OPS["squeezeShape"]:
        return None
    source = v.operands[0]
    if source is places:
        return 0
    if _is_section(source) and _is_row(source, places):  # type: ignore[arg-type]
        return source.operands[1].value  # type: ignore[attr-defined]
    return None


def _is_picked(i: Instruction, places: Instruction) -> bool:
    """Whether i is what the mask picks from an array of its own rank."""
    if i.op is not OPS["gather"]:
        return False
    source, *indices = i.operands
    rank = places.operands[0].type.rank  # type: ignore[attr-defined]
    return source.type.rank == rank and [_row_of(v, places) for v in indices] == list(range(rank))  # type: ignore[attr-defined]


def _is_step(i: Instruction) -> bool:
    return i.op.name in CHEAP and is_array(i.type) and i.type.rank == 1 and is_pure(i)  # type: ignore[attr-defined]


def _repeated(v: Value) -> Value | None:
    """The number that v repeats, if it does."""
    if isinstance(v, Instruction) and v.op is OPS["broadcast"] and not is_array(v.operands[0].type):
        return v.operands[0]
    return None


def _agree(extents: EqualExtents, places: Instruction, reductions: list[Instruction]) -> bool:
    """Whether every array that is picked from at `places` has the extents of the mask, where it is reduced."""
    sources = {i.operands[0] for i in _gathers(places, reductions)}
    mask = extents.of(places.operands[0])
    first = min(reductions, key=places.block.instructions.index)  # type: ignore[union-attr]
    return all(extents.are_equal(extents.of(x), mask, first) for x in sources)


def _gathers(places: Instruction, reductions: list[Instruction]) -> list[Instruction]:
    """The gathers under some reductions."""
    found: dict[Instruction, None] = {}
    work: list[Value] = [i.operands[0] for i in reductions]
    while work:
        v = work.pop()
        if isinstance(v, Instruction) and v.op is OPS["gather"]:
            found[v] = None
        elif isinstance(v, Instruction) and _is_step(v):
            work.extend(v.operands)
    return list(found)


def _reduce_all(function: Function, i: Instruction, places: Instruction) -> None:
    """Let the reduction i take all elements, the neutral one where the mask is false."""
    b = Builder(function).before(i)
    b.loc = i.loc
    made: dict[Value, Value] = {}

    def whole(v: Value) -> Value:
        """What v is of all elements."""
        if not is_array(v.type):
            return v
        if v not in made:
            assert isinstance(v, Instruction)
            if v.op is OPS["gather"]:
                made[v] = v.operands[0]
            elif (number := _repeated(v)) is not None:
                made[v] = number
            else:
                made[v] = b.emit(v.op, *map(whole, v.operands), name=v.name, **v.attrs)
        return made[v]

    terms = whole(i.operands[0])
    assert isinstance(terms.type, TensorType)
    neutral = identity_of(i.attrs["by"], terms.type.dtype)
    if i.attrs["by"] == "add" and terms.type.dtype.is_float:
        neutral = math.copysign(0.0, -1.0)  # -0.0 + x is x, also for -0.0
    i.operands[0] = b.emit("select", terms, literal(neutral, scalar(terms.type.dtype)), places.operands[0])
    i.attrs = {**i.attrs, "axes": tuple(range(terms.type.rank))}
