"""Row ends: windows of bytes run in whole vectors first, and what a row has left is one vector more, under a mask.

                                                        %left = bitAnd (subtract %n, 0), 63
                                                        %end = subtract %n, %left
    'loop(%j: i64):                                 'loop(%j: i64):
        %more = lessThan %j, %n                         %more = lessThan %j, %end
        conditional %more then 'body() else 'exit()     conditional %more then 'body() else 'rest_loop(%j) whole
    'body():                                        'body():
        %x = load (elementPointer %a at %i, %j)   =>    ...
        %j1 = add %j, 1                             'rest_loop(%j: i64):
        %y = load (elementPointer %a at %i, %j1)        %more = lessThan %j, %n
        ...                                             conditional %more then 'rest_body() else 'exit() rest
        branch 'loop(%j1)                           'rest_body():
                                                        ...

Where a trip loads what the one before it has loaded, LLVM hands it on in a register, and has no smaller vectors for the
trips that whole ones leave: of rows of bytes, of which a vector has 64, up to 63 trips ran one by one, longer than the
whole rest of the row. A vector under a mask for all of the row takes twice as long as one without, so that it is for
the end alone.

For innermost loops that count up by 1 from a literal, are left at their head alone, ask for nothing, and load and store
numbers of up to SMALL bits, two of them side by side. On CPUs whose masks cost nothing alone: the driver leaves it out
for others. Stage scheduled; a second run finds nothing.
"""

from __future__ import annotations

from dlvm_py.ir import I64, OPS, Builder, Function, Instruction, PointerType, Target, TensorType, Value, literal
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counted_loop, is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.places import Linear, linear
from dlvm_py.ir.value import integer
from dlvm_py.transforms.inline import clone_region
from dlvm_py.transforms.share_loops import mark_of
from dlvm_py.transforms.substitution import substitute

SMALL = 16  # bits of an element
LANES = 64
LARGE = 150  # instructions of a trip
_INTEGER = TensorType((), I64)


def run(function: Function) -> bool:
    """Give such loops of `function` an end of their own; whether there were any."""
    changed = False
    for loop in LoopForest(function).loops:
        counted = None if loop.children else counted_loop(loop, predecessors(function))
        if counted is not None and _is_simple(function, counted) and _has_neighbours(counted):
            _split(function, counted)
            changed = True
    return changed


def _is_simple(function: Function, counted: CountedLoop) -> bool:
    """Whether a loop that counts up is one that LLVM may make vectors of."""
    loop, first = counted.loop, integer(counted.first)
    end = loop.header.instructions[-1]
    if counted.step != 1 or first is None or first < 0 or integer(counted.last) is not None:
        return False
    if end.attrs.get("whole") or end.attrs.get("rest") or loop.exiting_block is not loop.header:
        return False
    if any(mark_of(b) is not None for b, _ in predecessors(function)[loop.header] if not loop.contains(b)):
        return False
    if any(a.type != _INTEGER for a in loop.header.args):
        return False
    instructions = [i for b in loop.ordered for i in b.instructions]
    return len(instructions) <= LARGE and all(
        i.op.is_terminator or (is_pure(i) or i.op.name in ("load", "store")) and not i.attrs.get("checked")
        for i in instructions
    )


def _has_neighbours(counted: CountedLoop) -> bool:
    """Whether all that is loaded and stored lies along the counter, and a trip loads two numbers side by side."""
    places: list[tuple[list[Value], Linear]] = []
    for i in (i for b in counted.loop.ordered for i in b.instructions if i.op.name in ("load", "store")):
        pointer = i.operands[-1]
        if is_outside(pointer, counted.loop):
            continue
        found = _place(pointer, counted)
        if found is None:
            return False
        if i.op is OPS["load"]:
            places.append(found)
    one = Linear(1)
    return any(outer == other and a == b.plus(one) for outer, a in places for other, b in places)


def _place(pointer: Value, counted: CountedLoop) -> tuple[list[Value], Linear] | None:
    """Where an element of a row lies: the array and the row, and its place there."""
    if not isinstance(pointer, Instruction) or pointer.op.name != "elementPointer" or pointer.attrs.get("path"):
        return None
    array, *indices = pointer.operands
    whole = array.type
    if not isinstance(whole, PointerType) or whole.layout == "S" or len(indices) != whole.rank:
        return None
    if not isinstance(whole.pointee, TensorType) or whole.pointee.dtype.bits > SMALL:
        return None
    at = linear(indices[-1])
    along = at.terms.get(counted.counter) == 1 and all(
        v is counted.counter or is_outside(v, counted.loop) for v in at.terms
    )
    return ([array, *indices[:-1]], at) if along and _are_outside(indices[:-1], counted.loop) else None


def _are_outside(values: list[Value], loop: Loop) -> bool:
    return all(is_outside(v, loop) for v in values)


def _split(function: Function, counted: CountedLoop) -> None:
    loop, header = counted.loop, counted.loop.header
    end = header.instructions[-1]
    mapping: dict[Value, Value] = {}
    rest = clone_region(loop.ordered, mapping, "rest_")
    substitute([b for b in function.blocks if b not in loop.blocks], mapping)
    at = function.blocks.index(loop.ordered[-1]) + 1
    function.blocks[at:at] = rest
    end.targets = [t if loop.contains(t.block) else Target(rest[0], list(header.args)) for t in end.targets]
    end.attrs["whole"] = True
    rest[0].instructions[-1].attrs["rest"] = True
    above = DominatorTree(function).idom[header]
    assert above is not None
    b = Builder(function).before(above.instructions[-1])
    most = b.emit("max", counted.last, counted.first)
    left = b.emit("bitAnd", b.emit("subtract", most, counted.first), literal(LANES - 1))
    whole = b.emit("subtract", most, left)
    end.operands = [Builder(function).before(end).emit("lessThan", counted.counter, whole)]
