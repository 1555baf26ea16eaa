"""Substitution that keeps every type: what passes use to replace values once they know better ones.

    %n = ...                                     substitute %n by 3:
    %m = allocateHeap f64 count (%n: i64)            %r = allocateHeap f64 count (3: i64)
    %b = broadcast %s: f64 to (%n: i64)      =>      %m = pointerCast %r: *<3 x f64> to *<_ x f64>
                                                     %c = add 3: i64, 0: i64
                                                     %b = broadcast %s: f64 to (%c: i64)

The type of an instruction follows from its operands, and a few ops read more from a literal than from a
computed value: the extents of an allocation, the layout of a section. The users of the result rely on the
type that they know. So a pointer that would come to say more is made under its new type and cast back; later
element accesses look through the cast. An array value cannot be cast: there the literal is *pinned*, written as
a sum with zero, which constant folding leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm_py.ir import I64, OPS, Block, Instruction, Literal, PointerType, Type, Value, literal, scalar
from dlvm_py.ir.analysis.places import section_parts
from dlvm_py.ir.function import resolve_chains

# the ops whose result type depends on the operands beyond their types
_SHAPED_BY_OPERANDS = frozenset(
    {"allocateHeap", "broadcast", "unbroadcast", "shapeCast", "section", "iota", "embed", "windows", "overlapAdd"}
    | {"scatterAdd", "nonzero", "diagonal"}
    | {name for name, op in OPS.items() if "extents" in op.properties}
)


def substitute(blocks: Iterable[Block], mapping: dict[Value, Value]) -> None:
    """Replace the uses of the keys of `mapping` in `blocks`; chains in the mapping are followed.

    A section that takes an axis whole by the `extent` of its own base keeps that count (see takes_whole).
    """
    if not mapping:
        return
    resolved = resolve_chains(mapping)
    blocks = list(blocks)
    old: dict[Instruction, list[Value]] = {}
    for i in (i for block in blocks for i in block.instructions):
        operands = i.operands
        if _replace(i, resolved):
            old[i] = operands
    # types are looked at when all operands are in place: the blocks need not be in order
    for block in blocks:
        if any(i in old for i in block.instructions):
            block.instructions = [
                j for i in block.instructions for j in (*(_keep_type(i, old[i]) if i in old else ()), i)
            ]


def rewrite_operands(i: Instruction, mapping: dict[Value, Value]) -> list[Instruction]:
    """Replace the operands of one instruction; what must be inserted before it to keep its type.

    For passes that visit definitions before uses. Chains in the mapping are not followed.
    """
    before = i.operands
    return _keep_type(i, before) if _replace(i, mapping) else []


def takes_whole(user: Instruction, count: Value) -> bool:
    """Whether `user` is a section that `count`, the extent of its base, tells to take an axis whole.

    That this section keeps the layout of its base is read off the count, so it is not replaced there.
    """
    if user.op is not OPS["section"]:
        return False
    counts = section_parts(user)[1]
    return any(v is count and is_extent(v, user.operands[0], k) for k, v in enumerate(counts))


def is_extent(count: Value, base: Value, axis: int) -> bool:
    """Whether `count` is an instruction that asks for the extent of `base` along `axis`."""
    if not isinstance(count, Instruction) or count.op is not OPS["extent"]:
        return False
    return count.operands[0] is base and count.attrs["at"] == axis


def is_pinned(i: Instruction) -> bool:
    """Whether `i` is a literal that must not become one again."""
    a, b = i.operands if i.op is OPS["add"] else (None, None)
    zero = isinstance(b, Literal) and b.type == scalar(I64) and b.value == 0
    return zero and isinstance(a, Literal)


def _replace(i: Instruction, mapping: dict[Value, Value]) -> bool:
    """Put new operands in place; whether operands of an op that reads more from them have changed."""
    for t in i.targets:
        t.args = [mapping.get(v, v) for v in t.args]
    if mapping.keys().isdisjoint(i.operands):
        return False
    i.operands = [v if v not in mapping or _is_held(i, v, mapping[v]) else mapping[v] for v in i.operands]
    return i.op.name in _SHAPED_BY_OPERANDS


def _is_held(user: Instruction, old: Value, new: Value) -> bool:
    return takes_whole(user, old) and not (isinstance(new, Instruction) and new.op is OPS["extent"])


def _keep_type(i: Instruction, before: list[Value]) -> list[Instruction]:
    """What must stand before `i`, whose operands were `before`, for it to have the type that it had."""
    found = _result_type(i)
    if found == i.type:
        return []
    asked: list[Instruction] = []
    if i.op is OPS["section"] and isinstance(found, PointerType):
        asked = _ask_whole(i)
        if _result_type(i) == i.type:
            return asked
    if isinstance(found, PointerType):
        refined = _placed(Instruction(i.op, i.operands, i.attrs, name=i.name, loc=i.loc), i)
        i.op, i.operands, i.attrs, i.name = OPS["pointerCast"], [refined], {"to": i.type}, ""
        return [*asked, refined]
    pinned = []
    for k, (old, new) in enumerate(zip(before, i.operands, strict=True)):
        if isinstance(new, Literal) and new is not old and new.type == scalar(I64):  # an extent, not what is filled in
            pin = _placed(Instruction(OPS["add"], [new, literal(0)], loc=i.loc), i)
            i.operands[k] = pin
            pinned.append(pin)
    return pinned


def _ask_whole(i: Instruction) -> list[Instruction]:
    """Count a contiguous section by the extents of its new base, where the layout that it had says so.

    Its type was right before: of layout C, all axes but the first are whole; of layout F, all are.
    """
    base, rank = i.operands[0], (len(i.operands) - 1) // 3
    assert isinstance(i.type, PointerType) and isinstance(base.type, PointerType)
    first = {"C": 1, "F": 0}.get(i.type.layout, rank)
    asked = []
    for k in range(first, rank):
        if base.type.shape[k] is None and not is_extent(i.operands[1 + rank + k], base, k):
            extent = _placed(Instruction(OPS["extent"], [base], {"at": k}, loc=i.loc), i)
            i.operands[1 + rank + k] = extent
            asked.append(extent)
    return asked


def _result_type(i: Instruction) -> Type | None:
    try:
        return i.op.result_type(i.operands, i.attrs)  # type: ignore[no-any-return]
    except TypeError:
        # literals that contradict each other, in code that never runs
        return None


def _placed(new: Instruction, beside: Instruction) -> Instruction:
    new.block = beside.block
    return new
