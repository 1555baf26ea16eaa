"""Scalar expansion: what takes long and no trip waits for is computed some hundred trips ahead, as vectors.

    'loop(%k: i64, %s: f64):                        'gate():   conditional (lessThan MANY, (%n - 0)) then ..
        %m = lessThan %k, %n                                       'strips(0, 0.0) else 'loop(0, 0.0)
        conditional %m then 'body() else 'exit()    'strips(%k, %s):
    'body():                                            conditional (lessThan %k, %n) then 'strip() else 'joined(%s)
        %x = load (elementPointer %a at %k)         'strip():  %c = min (%n - %k), 256
        %y = exp %x                             =>  'ahead(%j: i64):
        %t = add %s, %y                                 conditional (lessThan %j, %c) then 'made() else 'rest(%k, %s)
        branch 'loop(%k + 1, %t)                    'made():   %x = load (elementPointer %a at (%k + %j))
                                                        store (exp %x) to (elementPointer %buffer at %j)
                                                        branch 'ahead(%j + 1)
                                                    'rest(%k, %s):
                                                        conditional (lessThan %k, %end) then 'rest_body() ..
                                                            else 'strips(%k, %s)
                                                    'rest_body():
                                                        %y = load (elementPointer %buffer at (%k - %begin))
                                                        branch 'rest(%k + 1, (add %s, %y))
                                                    'loop(%k, %s):   as it was, to 'joined

A loop that hands a float from trip to trip runs one trip after the other: the sum of a function's values, of quotients
or roots, the largest of them, a recurrence that they drive. What is computed in it from the counter and from memory
alone waits for nothing, and LLVM makes vectors of a loop that has nothing else. The order of all additions stays, and
so do the bits.

For innermost loops that count up by one, are left at their head alone, hand on a float, and have no checks, which could
guard what is read ahead (checks_ahead.py, limit_counts.py and loop_versions.py have taken away those that can be). They
write memory by stores alone; what is computed ahead reads none that they write, is met in every trip, and has a
function, a root or a quotient in it (a function, where trips of the loop around can run side by side:
interleave_loops.py makes vectors of the other two across them). The buffers are in the frame, of each thread where
threads share a loop around this one: at most ROOM bytes a loop, FRAME a function. Not in a function that calls: what
calls itself has a frame for each level. Stage compute; once in a pipeline, since the slow loop is such a loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dlvm_py.deferred import deferred
from dlvm_py.frozen import Frozen
from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, Kind, TensorType, Value, literal
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.cost import is_function, is_slow
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counted_loop, is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.types import is_scalar
from dlvm_py.transforms.loop_nests import Loop as NewLoop
from dlvm_py.transforms.loop_nests import at
from dlvm_py.transforms.loop_versions import ends_in_header, entered_with, second_version
from dlvm_py.transforms.substitution import substitute

if TYPE_CHECKING:
    from dlvm_py.transforms import interleave_loops
else:
    # of loops in loops alone
    interleave_loops = deferred("dlvm_py.transforms.interleave_loops")

LARGE = 200  # instructions of a loop
MANY = 7  # trips from which on two loops are less work than one
ROOM, FRAME = 2048, 16384  # bytes
_FLOATS, _MEMORY = "fc", ("load", "store")


def run(function: Function, noalias_params: bool = True) -> bool:
    """Compute ahead what the loops of `function` need not wait for; whether there was any."""
    if not any(map(is_slow, function.instructions())):
        return False
    if any(i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER) for i in function.instructions()):
        return False
    room, changed = FRAME, False
    for loop in LoopForest(function).loops:
        if room < ROOM:
            break
        if loop.children or not any(is_slow(i) for b in loop.ordered for i in b.instructions):
            continue
        counted = counted_loop(loop, predecessors(function))
        if counted is None or not waits(counted):
            continue
        ahead = ahead_of(function, counted, noalias_params)
        if ahead is None or not ends_in_header(function, loop):
            continue
        if any(map(is_function, ahead.computed)) or not _is_interleaved(function, loop, noalias_params):
            _Strips(function, counted, ahead).make()
            room, changed = room - ROOM, True
    return changed


def _is_interleaved(function: Function, loop: Loop, noalias_params: bool) -> bool:
    """Whether trips of the loop around will run side by side, their quotients as vectors."""
    outer = loop.parent
    if outer is None or len(outer.children) != 1:
        return False
    return interleave_loops.nest_of(function, outer, predecessors(function), noalias_params) is not None


class Ahead(Frozen, eq=False):
    """What a loop can compute ahead: the values that its other instructions use, and all that they take, in order."""

    kept: list[Instruction]
    computed: list[Instruction]


def waits(counted: CountedLoop) -> bool:
    """Whether trips of an innermost loop run one after the other, since they hand on floats, in a way known here."""
    loop = counted.loop
    instructions = [i for b in loop.ordered for i in b.instructions]
    if len(instructions) > LARGE or counted.step != 1 or loop.exiting_block is not loop.header:
        return False
    if not all(is_scalar(a.type) for a in loop.header.args):
        return False
    return any(a.type.dtype.kind in _FLOATS for a in loop.header.args)  # type: ignore[attr-defined]


def ahead_of(
    function: Function, counted: CountedLoop, noalias_params: bool, gone: Iterable[Instruction] = ()
) -> Ahead | None:
    """What can be computed ahead of a loop that waits, if any of it takes long. gone: checks it will not have."""
    loop, gone = counted.loop, set(gone)
    instructions = [i for b in loop.ordered for i in b.instructions if i not in gone]
    # sums of integers may overflow in the rest, in their trip
    fine = (is_pure(i) or i.op.is_terminator or i.op.name in _MEMORY or i.attrs.get("checked") for i in instructions)
    if not all(fine):
        return None
    tree, (latch,) = DominatorTree(function), loop.latches
    always = {b for b in loop.ordered if tree.dominates(b, latch)}
    aliases = AliasAnalysis(function, noalias_params)
    stores = [i for i in instructions if i.op is OPS["store"]]
    free: dict[Instruction, bool] = {}  # what waits for no trip: whether it is a number that takes long
    for i in (i for b in loop.ordered if b in always for i in b.instructions):
        if not (is_pure(i) or i.op is OPS["load"]) or i in gone:
            continue
        if i.op is OPS["load"] and any(aliases.may_write(s, i.operands[0]) for s in stores):
            continue
        if all(v in free or v is counted.counter or is_outside(v, loop) for v in i.operands):
            behind = is_slow(i) or any(free.get(v, False) for v in i.operands)  # type: ignore[call-overload]
            free[i] = behind and is_scalar(i.type) and i.type.dtype.kind in "fiu"  # type: ignore[attr-defined]
    used = uses(function)
    kept = [i for i, long in free.items() if long and any(u not in gone and not free.get(u, False) for u in used[i])]
    if not kept:
        return None
    types = [i.type for i in kept]
    if sum(t.dtype.itemsize for t in types) * 2 * MANY > ROOM:  # type: ignore[attr-defined]
        return None
    needed: set[Value] = set()
    work: list[Value] = list(kept)
    while work:
        v = work.pop()
        if v in free and v not in needed:
            needed.add(v)
            work += v.operands  # type: ignore[attr-defined]
    return Ahead(kept, [i for i in free if i in needed])


class _Strips:
    """The gate, the strips, and in each the loop ahead and the rest."""

    def __init__(self, function: Function, counted: CountedLoop, ahead: Ahead) -> None:
        self.function, self.counted, self.ahead = function, counted, ahead
        size = sum(i.type.dtype.itemsize for i in ahead.kept)  # type: ignore[attr-defined]
        self.width = 1 << (ROOM // size).bit_length() - 1

    def make(self) -> None:
        """Build them; the loop stays for few trips."""
        counted, header = self.counted, self.counted.loop.header
        place = header.args.index(counted.counter)
        mapping: dict[Value, Value] = {}
        gate, rest = second_version(self.function, counted.loop, mapping)
        passed = entered_with(self.function, gate)
        leave = next(t for t in header.targets if not counted.loop.contains(t.block))
        b = Builder(self.function).at_end(gate)
        b.loc = header.instructions[-1].loc
        buffers = {
            i: b.emit("allocateStack", type=TensorType((self.width,), i.type.dtype), count=1)  # type: ignore[attr-defined]
            for i in self.ahead.kept
        }
        strips, strip = Block("strips"), Block("strip")
        here = self.function.blocks.index(gate) + 1
        self.function.blocks[here:here] = [strips, strip]
        trips = b.emit("subtract", counted.last, passed[place])
        b.conditional(b.emit("lessThan", literal(MANY), trips), strips, list(passed), header, list(passed))
        args = {a: strips.add_arg(a.type, a.name) for a in header.args}
        begin = args[counted.counter]
        b.at_end(strips)
        b.conditional(
            b.emit("lessThan", begin, counted.last),
            strip,
            [],
            leave.block,
            [args.get(v, v) for v in leave.args],  # type: ignore[call-overload]
        )
        b.at_end(strip)
        count = b.emit("min", b.emit("subtract", counted.last, begin), literal(self.width))
        end = b.emit("add", begin, count)
        self._compute(b, begin, count, buffers)
        b.branch(rest[0], list(args.values()))
        self._take(mapping, rest, strips, begin, end, buffers)

    def _compute(self, b: Builder, begin: Value, count: Value, buffers: dict[Instruction, Value]) -> None:
        """The loop that computes ahead."""
        loop = NewLoop(b, count, names=("ahead", "made", "there"))
        loop.header.instructions[-1].attrs["bounded"] = True
        made: dict[Value, Value] = {self.counted.counter: b.emit("add", begin, loop.index)}
        for i in self.ahead.computed:
            b.clone(i, made)
        for i, buffer in buffers.items():
            b.emit("store", made[i], at(b, buffer, [loop.index]))
        loop.close()

    def _take(
        self,
        mapping: dict[Value, Value],
        rest: list[Block],
        strips: Block,
        begin: Value,
        end: Value,
        buffers: dict[Instruction, Value],
    ) -> None:
        """Let the copy of the loop run to the end of a strip, with what is computed."""
        header, counter = rest[0], mapping[self.counted.counter]
        test = header.instructions.pop()
        body = next(t for t in test.targets if t.block in rest)
        b = Builder(self.function).at_end(header)
        b.loc = test.loc
        more = b.emit("lessThan", counter, end)
        b.conditional(more, body.block, body.args, strips, list(header.args)).attrs["bounded"] = True
        found: dict[Value, Value] = {}
        b = Builder(self.function).before(body.block.instructions[0])
        number = b.emit("subtract", counter, begin)
        for i, buffer in buffers.items():
            found[mapping[i]] = b.emit("load", at(b, buffer, [number]))
        substitute(rest, found)
