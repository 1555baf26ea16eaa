"""Plane layouts: of a temporary that is used a plane of its last axis at a time, planes lie together.

    %a = allocateHeap f64 count (%n, %m, %l)             %a = allocateHeap f64 count (%l, %n, %m)
    'loop(%k: i64): ...                                  'loop(%k: i64): ...
    'body():                                             'body():
        %s = section %a at (0, 0, %k)           =>           %p = elementPointer %a at %k
                        count (%n, %m, 1) ...
        %p = squeezeShape %s at 2
        store %x to %p: *strided <_ x _ x f64>               store %x to %p: *<_ x _ x f64>

The elements of `a[:, :, k]` lie a row of `a` apart: each is in another line of the cache, and nothing is a vector.
Nobody else sees how a temporary lies, so its last axis becomes the first one. For memory that the function has made and
keeps to itself, of which all uses are planes at one index, single elements, and stores of one number to all of it. The
order of a sum follows the layout that the type states: where planes are summed, all of them are views of the whole with
its axes as they were, of which no layout is known.

Stage compute, after loops over columns have become kernels (widen_loops.py), which want rows. A second run changes
nothing, since planes are then of the first axis.
"""

from __future__ import annotations

from dlvm_py.decisions import Decisions
from dlvm_py.ir import OPS, Builder, Function, Instruction, Kind, PointerType, TensorType, Value, is_array
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.value import Literal, integer
from dlvm_py.transforms.kernel_versions import is_filled
from dlvm_py.transforms.substitution import substitute

Users = dict[Value, list[Instruction]]


def run(function: Function, decisions: Decisions | None = None) -> bool:
    """Turn temporaries of `function`; whether there were any to turn."""
    memory = [i for i in function.instructions() if i.op is OPS["allocateHeap"] and _rank(i) > 1]
    if not memory:
        return False
    users = uses(function)
    turned = [a for a in memory if _is_used_by_planes(a, users)]
    if turned and not (decisions or Decisions()).take("plane_layouts.planes", 1, (0,)):
        return False
    for array in turned:
        _turn(function, array, users)
    return bool(turned)


def _rank(array: Instruction) -> int:
    type = array.type
    is_rows = isinstance(type, PointerType) and isinstance(type.pointee, TensorType) and type.layout == "C"
    return type.rank if is_rows else 0  # type: ignore[attr-defined]


def _is_used_by_planes(array: Instruction, users: Users) -> bool:
    planes = 0
    for u in users[array]:
        if u.op is OPS["section"] and u.operands[0] is array:
            if not _is_plane(u, users):
                return False
            planes += not isinstance(_parts(u)[0][-1], Literal)
        elif u.op is OPS["elementPointer"] and not u.attrs.get("path") and len(u.operands) == _rank(array) + 1:
            if not all(_is_access(x, u) for x in users[u]):
                return False
        elif u.op is OPS["store"] and u.operands[1] is array:
            if not (isinstance(u.operands[0], Instruction) and is_filled(u.operands[0])):
                return False
        elif u.op is not OPS["extent"]:
            return False
    return planes > 0


def _parts(section: Instruction) -> list[list[Value]]:
    """Starts, counts and steps."""
    rank = (len(section.operands) - 1) // 3
    return [section.operands[1 + k * rank : 1 + (k + 1) * rank] for k in range(3)]


def _is_plane(section: Instruction, users: Users) -> bool:
    """Whether a section is one index of the last axis, and everything that is done with it can be done elsewhere."""
    _, counts, steps = _parts(section)
    last = len(counts) - 1
    if integer(counts[last]) != 1 or integer(steps[last]) != 1 or not users[section]:
        return False
    return all(u.op is OPS["squeezeShape"] and u.attrs["at"] == last and _is_local(u, users) for u in users[section])


def _is_local(p: Instruction, users: Users) -> bool:
    """Whether a pointer is only viewed, loaded from, and stored to."""
    for u in users[p]:
        if u.op.kind is Kind.INDEX and u.op is not OPS["shapeCast"] and u.operands[0] is p:
            if isinstance(u.type, PointerType) and not _is_local(u, users):
                return False
        elif not _is_access(u, p):
            return False
    return True


def _has_sum(p: Instruction, users: Users) -> bool:
    """Whether what is loaded by a pointer, or by views of it, is more than elements of something stored."""
    return any(
        _is_summed(u, users) if u.op is OPS["load"] else isinstance(u.type, PointerType) and _has_sum(u, users)
        for u in users[p]
    )


def _is_access(u: Instruction, p: Value) -> bool:
    return u.op is OPS["load"] or (u.op is OPS["store"] and u.operands[1] is p and u.operands[0] is not p)


def _is_summed(load: Instruction, users: Users) -> bool:
    seen: set[Value] = set()
    work: list[Instruction] = [load]
    while work:
        v = work.pop()
        if v in seen or not is_array(v.type):
            continue
        seen.add(v)
        for u in users[v]:
            if u.op is not OPS["store"] and u.op.kind is not Kind.ELEMENTWISE and u.op is not OPS["broadcast"]:
                return True
            work.append(u)
    return False


def _turn(function: Function, array: Instruction, users: Users) -> None:
    """Make the last axis of an array the first one."""
    b = Builder(function).before(array)
    b.loc = array.loc
    *counts, last = array.operands
    made = b.emit("allocateHeap", last, *counts, name=array.name, **array.attrs)
    is_filled_whole = any(u.op is OPS["store"] for u in users[array])
    sections = [u for u in users[array] if u.op is OPS["section"]]
    is_summed = any(_has_sum(squeezed, users) for u in sections for squeezed in users[u])
    if is_summed or is_filled_whole:
        as_it_was = b.emit("transpose", made, axes=(*range(1, len(counts) + 1), 0))
    replaced: dict[Value, Value] = {}
    for u in users[array]:
        b = Builder(function).before(u)
        b.loc = u.loc
        if u.op is OPS["section"]:
            if is_summed:
                whole = b.emit("section", as_it_was, *u.operands[1:])
                plane = b.emit("squeezeShape", whole, at=len(counts))
            else:
                plane = _plane(b, made, u, counts)
            for squeezed in users[u]:
                replaced[squeezed] = plane
                _view_again(function, squeezed, plane, users, replaced)
        elif u.op is OPS["elementPointer"]:
            *indices, k = u.operands[1:]
            replaced[u] = b.emit("elementPointer", made, k, *indices, name=u.name)
        elif u.op is OPS["extent"]:
            at = u.attrs["at"]
            replaced[u] = b.emit("extent", made, at=at + 1 if at < len(counts) else 0)
        else:
            u.operands[1] = as_it_was
    gone = {*replaced, array, *sections}
    for block in {i.block for i in gone if isinstance(i, Instruction)}:
        assert block is not None
        block.instructions = [i for i in block.instructions if i not in gone]
    substitute(function.blocks, replaced)


def _plane(b: Builder, made: Value, section: Instruction, counts: list[Value]) -> Value:
    starts, lengths, steps = _parts(section)
    is_whole = all(integer(v) == 0 for v in starts[:-1]) and all(integer(v) == 1 for v in steps)
    if is_whole and all(m is n or _is_same(m, n) for m, n in zip(lengths[:-1], counts, strict=True)):
        return b.emit("elementPointer", made, starts[-1], name=section.name)
    turned = [[row[-1], *row[:-1]] for row in (starts, lengths, steps)]
    return b.emit("squeezeShape", b.emit("section", made, *turned[0], *turned[1], *turned[2]), at=0)


def _is_same(m: Value, n: Value) -> bool:
    number = integer(m)
    return number is not None and number == integer(n)


def _view_again(function: Function, old: Instruction, new: Value, users: Users, replaced: dict[Value, Value]) -> None:
    """Make the views of a pointer anew: what lies side by side in them may have changed."""
    for u in users[old]:
        if u.op.kind is Kind.INDEX and isinstance(u.type, PointerType) and u not in replaced:
            b = Builder(function).before(u)
            b.loc = u.loc
            replaced[u] = b.emit(u.op, new, *u.operands[1:], name=u.name, **u.attrs)
            _view_again(function, u, replaced[u], users, replaced)
