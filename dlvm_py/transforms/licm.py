"""Loop-invariant code motion: what a loop computes again and again moves in front of it.

    'entry(%x: *<_ x f64>, %n: i64, %a: f64):       'entry(%x: ..., %n: i64, %a: f64):
        branch 'head(0: i64)                            %s = sin %a: f64
    'head(%i: i64):                                     branch 'head(0: i64)
        %c = lessThan %i: i64, %n: i64          =>  'head(%i: i64):
        conditional %c then 'body() else 'exit()        %c = lessThan %i: i64, %n: i64
    'body():                                            conditional %c then 'body() else 'exit()
        %e = elementPointer %x at %i: i64           'body():
        %s = sin %a: f64                                %e = elementPointer %x at %i: i64
        store %s: f64 to %e: *f64                       store %s: f64 to %e: *f64
        ...                                             ...

An instruction moves when its operands are made outside the loop and running it in front of the loop, even
if the loop would never have come to it, cannot be noticed:

* nothing whose operand may be UNDEFINED or NULL on some path: there the loop may well do without it;
* pure scalars, and views that fit any pointer (transpose, padShape, squeezeShape, pointerCast). Never
  array values of rank 1 and more, `checked` arithmetic, checks, or integer powers;
* elementPointer, section and shapeCast have preconditions, which a check in the loop may stand for. They
  move only from the part of the header that runs first, up to the first effect: entering the loop at all
  means running that;
* a load of a scalar moves if nothing in the loop may write to it and its pointer is sure to be one to
  memory: an element, an allocation or a parameter, or if the load stands in that first part of the header.

Loops are visited from the inside out, so an instruction can rise through several. A preheader, the block
whose only successor is the header and through which all entering edges go, is made where one is missing
and something moves. Blocks within a loop are visited in reverse postorder, operands before users. A second
run changes nothing. Before bufferisation and ownership.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir import (
    OPS,
    Block,
    BlockArg,
    Function,
    Instruction,
    Kind,
    Literal,
    PointerType,
    Target,
    Value,
    Variable,
    is_scalar,
)
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.effects import is_pure, may_trap, writes_memory, written_pointer
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.transforms.literals import is_number
from dlvm_py.transforms.simplify_cfg import incoming_values

_HAVE_PRECONDITIONS = frozenset({"elementPointer", "section", "shapeCast"})


def run(function: Function, noalias_params: bool = True) -> bool:
    """Hoist loop-invariant instructions of `function`; whether anything changed."""
    facts = _Facts(
        function, AliasAnalysis(function, noalias_params), _maybe_undefined(function), predecessors(function)
    )
    changed = False
    # inner loops come after outer ones in `loops`
    for loop in reversed(LoopForest(function).loops):
        changed |= _LoopMotion(loop, facts).run()
    return changed


class _Facts(Frozen):
    """What is known of the whole function; `edges`, the predecessors, is kept up to date."""

    function: Function
    alias: AliasAnalysis
    absent: set[Value]
    edges: dict[Block, list[tuple[Block, int]]]


class _LoopMotion:
    """The hoisting of one loop."""

    def __init__(self, loop: Loop, facts: _Facts) -> None:
        self.loop = loop
        self.facts = facts
        self.moved: set[Value] = set()
        instructions = [i for block in loop.ordered for i in block.instructions]
        self.writes = [i for i in instructions if writes_memory(i)]

    def run(self) -> bool:
        hoisted: list[Instruction] = []
        for block in self.loop.ordered:
            # what runs whenever the loop is entered: the header up to its first effect
            certain = block is self.loop.header
            kept = []
            for i in block.instructions:
                if self._may_move(i, certain):
                    self.moved.add(i)
                    hoisted.append(i)
                else:
                    kept.append(i)
                    certain = certain and not may_trap(i) and not writes_memory(i) and i.op.kind is not Kind.STACK
            block.instructions = kept
        if not hoisted:
            return False
        preheader = self._preheader()
        end = preheader.instructions.pop()
        for i in [*hoisted, end]:
            preheader.append(i)
        return True

    def _may_move(self, i: Instruction, certain: bool) -> bool:
        if not all(map(self._is_invariant, i.operands)):
            return False
        if not certain and not self.facts.absent.isdisjoint(i.operands):
            return False
        if i.op is OPS["load"]:
            safe = certain or _is_memory(i.operands[0], self.facts.function)
            return is_scalar(i.type) and safe and not any(self._clobbers(w, i.operands[0]) for w in self.writes)
        if not is_pure(i) or not (is_scalar(i.type) or isinstance(i.type, PointerType)):
            return False
        if i.op.name == "power" and i.type.dtype.is_integer:  # type: ignore[attr-defined]
            return False
        return certain or i.op.name not in _HAVE_PRECONDITIONS

    def _is_invariant(self, value: Value) -> bool:
        if isinstance(value, Literal | Variable) or value in self.moved:
            return True
        assert isinstance(value, BlockArg | Instruction)
        return value.block not in self.loop.blocks

    def _clobbers(self, write: Instruction, pointer: Value) -> bool:
        written = written_pointer(write)
        return written is None or self.facts.alias.may_alias(written, pointer)

    def _preheader(self) -> Block:
        header, blocks, edges = self.loop.header, self.facts.function.blocks, self.facts.edges
        entering = [(p, k) for p, k in edges[header] if p not in self.loop.blocks]
        if len(entering) == 1 and len(entering[0][0].targets) == 1:
            return entering[0][0]
        preheader = Block(f"{header.name}_preheader" if header.name else "")
        blocks.insert(blocks.index(header), preheader)
        passed: list[Value] = [preheader.add_arg(a.type, a.name) for a in header.args]
        preheader.append(Instruction(OPS["branch"], [], targets=[Target(header, passed)]))
        for block, index in entering:
            block.targets[index].block = preheader
        edges[header] = [(p, k) for p, k in edges[header] if p in self.loop.blocks] + [(preheader, 0)]
        edges[preheader] = entering
        outer = self.loop.parent
        while outer is not None:
            # its place in reverse postorder is right before the header
            outer.ordered.insert(outer.ordered.index(header), preheader)
            outer.blocks.add(preheader)
            outer = outer.parent
        return preheader


def _maybe_undefined(function: Function) -> set[Value]:
    """The block arguments that are UNDEFINED or NULL on some path."""
    incoming = incoming_values(function)
    found: set[Value] = set()
    changed = True
    while changed:
        changed = False
        for arg, values in incoming.items():
            if arg not in found and any(v in found or _is_absent(v) for v in values):
                found.add(arg)
                changed = True
    return found


def _is_absent(value: Value) -> bool:
    return isinstance(value, Literal) and not is_number(value)


def _is_memory(pointer: Value, function: Function) -> bool:
    """Whether a rank 0 pointer surely refers to an element, and is neither NULL nor UNDEFINED."""
    while isinstance(pointer, Instruction) and pointer.op.name in ("squeezeShape", "padShape", "pointerCast"):
        pointer = pointer.operands[0]
    if isinstance(pointer, Instruction):
        return pointer.op.name in ("elementPointer", "allocateHeap")
    return pointer in function.params
