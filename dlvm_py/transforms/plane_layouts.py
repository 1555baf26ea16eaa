"""Plane layouts: of an array that is used a plane of its last axis at a time, planes lie together.

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
order of a sum follows the layouts that the types of most of its arrays state. So where planes are summed, in a function
where something lies in another order than C's, all of them are views of the whole with its axes as they were, of which
no layout is known.

How arguments and results lie, callers see. They are turned as a whole, arguments that nothing writes at the entry,
results before they are returned, and their planes are those of the temporary:

    'entry(%x: *<_ x _ x _ x f64>):             'entry(%x: *<_ x _ x _ x f64>):
                                        =>          %t = allocateHeap f64 count (%l, %n, %m)
                                                    %v = transpose %x ... axes 2, 0, 1
                                                    store (load %v) to %t

That costs as much as one or two passes by planes. So loops that run through all planes must look at them at least
ACCESSES times, as the counts of their trips tell, which are made of extents.

Stage compute, after loops over columns have become kernels (widen_loops.py), which want rows. A second run changes
nothing, since planes are then of the first axis.
"""

from __future__ import annotations

from dlvm_py.decisions import Decisions
from dlvm_py.ir import OPS, Builder, Function, Instruction, Kind, PointerType, TensorType, Value, is_array
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import Edges, counted_loop
from dlvm_py.ir.analysis.extents import extents_of, known_extent
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.analysis.places import section_parts
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.function import Block
from dlvm_py.ir.value import Literal, integer
from dlvm_py.transforms.kernel_versions import is_filled
from dlvm_py.transforms.substitution import substitute

Users = dict[Value, list[Instruction]]

ACCESSES = 2  # loads and stores of planes, from which on an array that the caller sees is turned


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Turn arrays of `function`; whether there were any to turn."""
    memory = [i for i in function.instructions() if i.op is OPS["allocateHeap"] and _rank(i) > 1]
    given = [p for p in function.params if _rank(p) > 1]
    if not memory and not given:
        return False
    users = uses(function)
    memory = [a for a in memory if _is_used_by_planes(a, users)]
    given = [p for p in given if any(_is_plane_of(u, p, users) for u in users.get(p, ()))]
    if not memory and not given:
        return False
    loops = _Loops(function)
    memory = [a for a in memory if not _returns(a, users) or loops.accesses(a, users) >= ACCESSES]
    given = [p for p in given if loops.accesses(p, users) >= ACCESSES]
    if given:
        written = AliasAnalysis(function, noalias_params).written_params()
        given = [p for p in given if function.params.index(p) not in written]
    if not (memory or given) or not (decisions or Decisions()).take("plane_layouts.planes", 1, (0,)):
        return False
    turner = _Turner(function, users)
    for array in memory:
        turner.turn(array, _returns(array, users))
    for argument in given:
        turner.turn_argument(argument)
    return True


class _Loops:
    """The loops of a function, and which of them run through all planes of something."""

    def __init__(self, function: Function) -> None:
        self.forest = LoopForest(function)
        self.edges: Edges = predecessors(function)

    def accesses(self, array: Value, users: Users) -> int:
        """How often planes of an array are loaded and stored, each by an index that runs through all of them."""
        planes = [u for u in users[array] if _is_plane_of(u, array, users) and self._is_run_through(u)]
        return sum(_accesses(squeezed, users) for u in planes for squeezed in users[u])

    def _is_run_through(self, section: Instruction) -> bool:
        index, block = section_parts(section)[0][-1], section.block
        assert isinstance(block, Block)
        loop = self.forest.loop_of(block)
        while loop is not None:
            counted = counted_loop(loop, self.edges)
            if counted is not None and _has_term(index, counted.counter):
                return _is_made_of_extents(counted.last if counted.step == 1 else counted.first)
            loop = loop.parent
        return False


def _has_term(index: Value, counter: Value) -> bool:
    if index is counter:
        return True
    is_sum = isinstance(index, Instruction) and index.op.name in ("add", "subtract")
    return is_sum and any(_has_term(v, counter) for v in index.operands)  # type: ignore[attr-defined]


def _is_made_of_extents(count: Value) -> bool:
    """Whether a count is an extent but for a few: a literal is none."""
    if not isinstance(count, Instruction):
        return False
    match count.op.name:
        case "extent":
            return True
        case "max":
            return any(map(_is_made_of_extents, count.operands))
        case "min":
            return all(map(_is_made_of_extents, count.operands))
        case "add" | "subtract":
            extents = [v for v in count.operands if not isinstance(v, Literal)]
            return bool(extents) and all(map(_is_made_of_extents, extents))
    return False


def _accesses(pointer: Instruction, users: Users) -> int:
    """How many loads and stores there are by a pointer and by views of it."""
    found = 0
    for u in users.get(pointer, ()):
        if u.op.kind is not Kind.INDEX:
            found += 1
        elif isinstance(u.type, PointerType):
            found += _accesses(u, users)
    return found


def _returns(array: Instruction, users: Users) -> list[Instruction]:
    """What hands an array to the caller: returns, and the tuples that they return."""
    return [u for u in users[array] if _is_return(u, users)]


def _is_return(u: Instruction, users: Users) -> bool:
    if u.op is OPS["tuple"]:
        return all(r.op is OPS["return"] and r.block is u.block for r in users[u])
    return u.op is OPS["return"]


def _rank(array: Value) -> int:
    type = array.type
    is_rows = isinstance(type, PointerType) and isinstance(type.pointee, TensorType) and type.layout == "C"
    return type.rank if is_rows else 0  # type: ignore[attr-defined]


def _is_used_by_planes(array: Instruction, users: Users) -> bool:
    planes = 0
    for u in users[array]:
        if u.op is OPS["section"] and u.operands[0] is array:
            if not _is_plane(u, users):
                return False
            planes += not isinstance(section_parts(u)[0][-1], Literal)
        elif u.op is OPS["elementPointer"] and not u.attrs.get("path") and len(u.operands) == _rank(array) + 1:
            if not all(_is_access(x, u) for x in users[u]):
                return False
        elif u.op is OPS["store"] and u.operands[1] is array:
            if not (isinstance(u.operands[0], Instruction) and is_filled(u.operands[0])):
                return False
        elif u.op is not OPS["extent"] and not _is_return(u, users):
            return False
    return planes > 0


def _is_plane_of(u: Instruction, array: Value, users: Users) -> bool:
    return u.op is OPS["section"] and u.operands[0] is array and _is_plane(u, users)


def _is_plane(section: Instruction, users: Users) -> bool:
    """Whether a section is one index of the last axis, and everything that is done with it can be done elsewhere."""
    _, counts, steps = section_parts(section)
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


class _Turner:
    """Turns arrays of a function, one after the other."""

    def __init__(self, function: Function, users: Users) -> None:
        self.function = function
        self.users = users
        # whether the elements of anything are looked at in another order than C's
        self.has_other_orders = any(
            _layout(i.operands[0]) == "F" if i.op is OPS["load"] else i.op is OPS["transpose"] and is_array(i.type)
            for i in function.instructions()
        )

    def turn(self, array: Instruction, returns: list[Instruction]) -> None:
        """Make the last axis of an array the first one; of one that is returned, of what it gets in the end."""
        b = Builder(self.function).before(array)
        b.loc = array.loc
        *counts, last = array.operands
        made = b.emit("allocateHeap", last, *counts, name=array.name, **array.attrs)
        as_it_was = b.emit("transpose", made, axes=(*range(1, _rank(array)), 0))
        sections = [u for u in self.users[array] if u.op is OPS["section"]]
        replaced = self._planes(array, sections, made, as_it_was)
        for u in dict.fromkeys(self.users[array]):  # a tuple may hold it twice
            b = Builder(self.function).before(u)
            b.loc = u.loc
            if u.op is OPS["elementPointer"]:
                *indices, k = u.operands[1:]
                replaced[u] = b.emit("elementPointer", made, k, *indices, name=u.name)
            elif u.op is OPS["extent"]:
                at = u.attrs["at"]
                replaced[u] = b.emit("extent", made, at=at + 1 if at < len(counts) else 0)
            elif u.op is OPS["store"]:
                filled = u.operands[0]
                assert isinstance(filled, Instruction)
                u.operands = [b.emit("broadcast", filled.operands[0], last, *counts), made]
            elif u in returns:
                b.emit("store", b.emit("load", as_it_was), array)
        self._replace(replaced, sections if returns else [array, *sections])

    def turn_argument(self, array: Value) -> None:
        """Let the planes of an argument be those of a copy."""
        b = Builder(self.function).before(self.function.entry.instructions[0])
        *counts, last = extents_of(b, array)
        made = b.emit("allocateHeap", last, *counts, dtype=str(array.type.dtype))  # type: ignore[attr-defined]
        rank = len(counts)
        b.emit("store", b.emit("load", b.emit("transpose", array, axes=(rank, *range(rank)))), made)
        as_it_was = b.emit("transpose", made, axes=(*range(1, rank + 1), 0))
        sections = [u for u in self.users[array] if _is_plane_of(u, array, self.users)]
        self._replace(self._planes(array, sections, made, as_it_was), sections)

    def _planes(self, array: Value, sections: list[Instruction], made: Value, as_it_was: Value) -> dict[Value, Value]:
        """Planes of what is turned in the place of sections of an array; what replaces what."""
        is_summed = any(_has_sum(squeezed, self.users) for u in sections for squeezed in self.users[u])
        replaced: dict[Value, Value] = {}
        for u in sections:
            b = Builder(self.function).before(u)
            b.loc = u.loc
            if is_summed and self.has_other_orders:
                plane = b.emit("squeezeShape", b.emit("section", as_it_was, *u.operands[1:]), at=_rank(array) - 1)
            else:
                plane = _plane(b, array, made, u)
            for squeezed in self.users[u]:
                replaced[squeezed] = plane
                _view_again(self.function, squeezed, plane, self.users, replaced)
        return replaced

    def _replace(self, replaced: dict[Value, Value], unused: list[Instruction]) -> None:
        gone = {*replaced, *unused}
        for block in {i.block for i in gone if isinstance(i, Instruction)}:
            assert block is not None
            block.instructions = [i for i in block.instructions if i not in gone]
        substitute(self.function.blocks, replaced)


def _layout(pointer: Value) -> str:
    assert isinstance(pointer.type, PointerType)
    return pointer.type.layout


def _plane(b: Builder, array: Value, made: Value, section: Instruction) -> Value:
    starts, lengths, steps = section_parts(section)
    is_whole = all(integer(v) == 0 for v in starts[:-1]) and all(integer(v) == 1 for v in steps)
    if is_whole and all(_is_extent(n, array, axis) for axis, n in enumerate(lengths[:-1])):
        return b.emit("elementPointer", made, starts[-1], name=section.name)
    turned = [[row[-1], *row[:-1]] for row in (starts, lengths, steps)]
    return b.emit("squeezeShape", b.emit("section", made, *turned[0], *turned[1], *turned[2]), at=0)


def _is_extent(count: Value, array: Value, axis: int) -> bool:
    """Whether a count is known to be an extent of an array."""
    found = known_extent(array, axis)
    if isinstance(found, Value):
        number = integer(count)
        return count is found or (number is not None and number == integer(found))
    is_asked = isinstance(count, Instruction) and count.op is OPS["extent"] and count.operands[0] is found[0]
    return is_asked and count.attrs["at"] == found[1]  # type: ignore[attr-defined]


def _view_again(function: Function, old: Instruction, new: Value, users: Users, replaced: dict[Value, Value]) -> None:
    """Make the views of a pointer anew: what lies side by side in them may have changed."""
    for u in users[old]:
        if u.op.kind is Kind.INDEX and isinstance(u.type, PointerType) and u not in replaced:
            b = Builder(function).before(u)
            b.loc = u.loc
            replaced[u] = b.emit(u.op, new, *u.operands[1:], name=u.name, **u.attrs)
            _view_again(function, u, replaced[u], users, replaced)
