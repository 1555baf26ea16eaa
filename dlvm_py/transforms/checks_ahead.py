"""Checks ahead: what a loop asks of the numbers that it reads is asked of all of them first, and then no trip asks.

    'loop(%k: i64):                                    'gate():  %long = lessThan MANY, %n
        %more = lessThan %k, %n                            conditional %long then 'asking(0, true) else 'loop(0)
        conditional %more then 'body() else 'exit()    'asking(%k: i64, %fine: bool):
    'body():                                               %more = lessThan %k, %n
        %x = load (elementPointer %a at %k)                conditional %more then 'asked() else 'chosen()
        check (not (lessThan %x, 0)) else ValueError       'asked():
        store (sqrt %x) to (elementPointer %b at %k)  =>       %y = load (elementPointer %a at %k)
        ...                                                    branch 'asking(%next, (and %fine, not (lessThan %y, 0)))
                                                       'chosen():  conditional %fine then 'fast(0) else 'loop(0)
                                                       'fast(%k: i64): ...
                                                           store (sqrt (load ...)) to (elementPointer %b at %k)
                                                       'loop(%k: i64):   as it was, to 'joined

`math.sqrt`, `math.log`, `math.exp` raise where NumPy's give NaN or infinity. A check of an element is no limit of the
count (limit_counts.py): in the loop it kept LLVM from making vectors of all that is computed. Asking is a loop of
comparisons, of which it does. Where an answer is no, the loop runs as before, and raises in the right trip.

For innermost loops that count up by one, are left at their head alone, write memory by stores alone, hand on no float
(or what takes long in them waits for none: scalar_expansion.py), and take several times as long as asking does: where
what is asked about is itself a sine, it would be made twice.
All their checks are met in every trip, and some read an array along the counter, so that no more is asked than it has.
They compare floats, of which no index can hang on, computed from the counter, from what was there before the loop, and
from memory that the loop does not write; or they say what the counter is below, behind a check of floats (before it,
they are limits of the count), which is asked at the gate. Any other check would have to hold before memory is read.
Stage compute, behind all that removes checks otherwise; once in a pipeline, since the slow loop could be versioned.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, TensorType, Value, is_scalar, literal
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.cost import is_slow, step_cost
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counted_loop, is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.types import BOOL
from dlvm_py.ir.value import integer
from dlvm_py.transforms import scalar_expansion
from dlvm_py.transforms.limit_counts import beyond, bound_of, end_of
from dlvm_py.transforms.loop_versions import ends_in_header, entered_with, remove_copies, second_version

LARGE = 200
MANY = 15  # trips from which on a loop of vectors pays for being asked about
SHARE = 3  # times as much as asking a trip must cost
_JOINING = ("and", "or", "not")


def run(function: Function, noalias_params: bool = True) -> bool:
    """Ask ahead in the loops of `function` where that can be done; whether there were any."""
    if not any(map(_is_of_numbers, function.instructions())):
        return False
    changed = False
    for loop in LoopForest(function).loops:
        counted = _plain(function, loop)
        if counted is None:
            continue
        asked = _asked(function, counted, noalias_params)
        if asked is not None and _makes_vectors(function, counted, asked, noalias_params):
            _ask(function, counted, asked)
            changed = True
    return changed


class _Asked(Frozen, eq=False):
    """What a loop asks in its trips: checks of floats, and what these are computed from, in order; and of the counter.

    limits: the latter, with what the counter must be below, and what is added to it.
    """

    numbers: list[Instruction]
    computed: list[Instruction]
    limits: dict[Instruction, tuple[Value, int]]


def _plain(function: Function, loop: Loop) -> CountedLoop | None:
    """How an innermost loop counts, if it is one that LLVM makes vectors of once no trip asks."""
    instructions = [i for b in loop.ordered for i in b.instructions]
    if loop.children or len(instructions) > LARGE or not any(map(is_slow, instructions)):
        return None
    counted = counted_loop(loop, predecessors(function))
    if counted is None or counted.step != 1 or loop.exiting_block is not loop.header:
        return None
    if not all(is_scalar(a.type) for a in loop.header.args):
        return None
    fine = (i.op.is_terminator or is_pure(i) or i.op.name in ("load", "store", "check") for i in instructions)
    return counted if all(fine) else None


def _asked(function: Function, counted: CountedLoop, noalias_params: bool) -> _Asked | None:
    """What can be asked ahead, if that is all that a loop asks, and pays."""
    loop = counted.loop
    instructions = [i for b in loop.ordered for i in b.instructions]
    checks = [i for i in instructions if i.op is OPS["check"]]
    numbers = [c for c in checks if _is_of_numbers(c)]
    bounds = {c: bound_of(c, loop, counted.counter) for c in checks if c not in numbers}
    limits = {c: bound for c, bound in bounds.items() if bound is not None}
    tree, (latch,) = DominatorTree(function), loop.latches
    always = {b for b in loop.ordered if tree.dominates(b, latch)}
    if not numbers or len(limits) < len(bounds) or any(c.block not in always for c in checks):
        return None
    aliases = AliasAnalysis(function, noalias_params)
    stores = [i for i in instructions if i.op is OPS["store"]]
    needed: set[Value] = set()
    work = [c.operands[0] for c in numbers]
    while work:
        v = work.pop()
        if v in needed or v is counted.counter or is_outside(v, loop):
            continue
        if not isinstance(v, Instruction) or v.block not in always or _is_integer_of_float(v):
            return None
        is_read = v.op is OPS["load"] and not any(aliases.may_write(s, v.operands[0]) for s in stores)
        if not is_read and not is_pure(v):
            return None
        needed.add(v)
        work += v.operands
    computed = [i for i in instructions if i in needed]
    if not any(i.op is OPS["load"] and _is_at_counter(i.operands[0], counted) for i in computed):
        return None
    pays = SHARE * sum(map(step_cost, computed)) <= sum(map(step_cost, instructions))
    return _Asked(numbers, computed, limits) if pays else None


def _makes_vectors(function: Function, counted: CountedLoop, asked: _Asked, noalias_params: bool) -> bool:
    """Whether LLVM makes vectors of what takes long in a loop that asks nothing."""
    if not scalar_expansion.waits(counted):
        return True
    ahead = scalar_expansion.ahead_of(function, counted, noalias_params, [*asked.numbers, *asked.limits])
    return ahead is not None and ends_in_header(function, counted.loop)


def _is_at_counter(pointer: Value, counted: CountedLoop) -> bool:
    """Whether a pointer is to an element at the counter, with a literal added: an array bounds how many are asked."""
    if not isinstance(pointer, Instruction) or pointer.op.name != "elementPointer":
        return False
    return any(beyond(v, counted.counter) is not None for v in pointer.operands[1:])


def _is_of_numbers(check: Instruction) -> bool:
    """Whether an instruction is a check that compares floats, and nothing else."""
    return check.op is OPS["check"] and _compares_floats(check.operands[0])


def _compares_floats(condition: Value) -> bool:
    if not isinstance(condition, Instruction) or not condition.operands:
        return False
    if condition.op.name in _JOINING:
        return all(map(_compares_floats, condition.operands))
    types = [v.type for v in condition.operands]
    return all(isinstance(t, TensorType) and not t.shape and t.dtype.kind == "f" for t in types)


def _is_integer_of_float(i: Instruction) -> bool:
    """Whether a float becomes an integer, which need not be one of its numbers before it is asked."""
    return i.op.name == "dataTypeCast" and i.type.dtype.kind in "iu" and i.operands[0].type.dtype.kind == "f"  # type: ignore[attr-defined]


def _ask(function: Function, counted: CountedLoop, asked: _Asked) -> None:
    """The gate, the loop that asks, the choice, and the loop without checks."""
    header, last = counted.loop.header, counted.last
    mapping: dict[Value, Value] = {}
    gate, fast = second_version(function, counted.loop, mapping)
    remove_copies([*asked.numbers, *asked.limits], mapping)
    passed = entered_with(function, gate)
    first = passed[header.args.index(counted.counter)]
    asking, trip, chosen = (Block(name) for name in ("asking", "asked", "chosen"))
    at = function.blocks.index(gate) + 1
    function.blocks[at:at] = [asking, trip, chosen]
    b = Builder(function).at_end(gate)
    b.loc = header.instructions[-1].loc
    trips = last if integer(first) == 0 else b.emit("subtract", last, first)
    pays = b.emit("lessThan", literal(MANY), trips)
    for bound in dict.fromkeys(asked.limits.values()):
        pays = b.emit("and", pays, b.emit("lessThanOrEqual", last, end_of(b, bound)))
    b.conditional(pays, asking, [first, literal(True)], header, list(passed))
    counter = asking.add_arg(counted.counter.type, counted.counter.name)
    fine = asking.add_arg(TensorType((), BOOL), "fine")
    b.at_end(asking).conditional(b.emit("lessThan", counter, last), trip, [], chosen, [])
    copies: dict[Value, Value] = {counted.counter: counter}
    b.at_end(trip)
    for i in asked.computed:
        b.clone(i, copies)
    answer: Value = fine
    for condition in dict.fromkeys(c.operands[0] for c in asked.numbers):
        answer = b.emit("and", answer, copies.get(condition, condition))
    b.branch(asking, [b.emit("add", counter, literal(1)), answer])
    b.at_end(chosen).conditional(fine, fast[0], passed, header, list(passed)).attrs["likely"] = True
