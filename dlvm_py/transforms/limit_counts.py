"""Index checks of innermost loops become a limit of the count: the loop ends before the iteration that would fail.

    'head(%k: i64):                                       %limit = min %n: i64, %size: i64
        %more = lessThan %k: i64, %n: i64             'head(%k: i64):
        conditional %more then 'body() else 'exit()       %more = lessThan %k: i64, %limit: i64
    'body():                                              conditional %more then 'body() else 'late()
        %fine = lessThan %k: i64, %size: i64      =>  'body():
        check %fine else IndexError "..." (...)           (no check)
        ...                                           'late():
                                                          %rest = lessThan %k: i64, %n: i64
                                                          conditional %rest then 'failing() else 'exit()
                                                      'failing():
                                                          raise IndexError "..." (...)

The counter goes up by a literal to a number that the loop does not change; what the check compares is the counter, or
its sum with a literal, and another such number; or what it asks is known before all loops, and the limit is 0 where it
fails. It stands where every iteration comes by before it has any effect, so that what the iterations before it did is
done, and nothing else, when the exception is raised. Of several checks the first one that fails raises: all of them,
and what else may raise between them, are asked again behind the loop, but the last one, which then is sure to fail. The
last one may be a pair, of a branch whose ways both begin with the same question: behind the loop the branch says which
of them raises, at its own line.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.frozen import Frozen
from dlvm_py.ir import (
    OPS,
    Block,
    BlockArg,
    Builder,
    Function,
    Instruction,
    Target,
    Value,
    literal,
)
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountingHead, counting_head, is_outside, steps
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import may_trap
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.value import integer

_NEAR = 1 << 31


def run(function: Function) -> bool:
    """Take the checks out of the innermost loops of `function`; whether there were any."""
    forest = LoopForest(function)
    edges, dominators = predecessors(function), DominatorTree(function)
    found = False
    for loop in forest.loops:
        count = _upward(loop)
        above = dominators.idom[loop.header]
        if count is None or above is None or len(edges[count.body]) != 1:
            continue
        passed, checks, fork = _first_checks(loop, count, edges)
        if checks or fork:
            limits = checks if fork is None else [*checks, fork.checks[0]]
            sizes = [v for c in limits for v in _asked(c, loop)]
            above = _before_loops(forest, dominators, above, [count.last, *sizes])
            _limit(function, loop, count, above, limits, _Failing(passed, checks, fork))
            edges, found = predecessors(function), True
    return found


def _before_loops(forest: LoopForest, dominators: DominatorTree, above: Block, needed: list[Value]) -> Block:
    """The block before `above`, outside of as many loops as can be, where what is needed is known."""
    homes = [v.block for v in needed if isinstance(v, BlockArg | Instruction) and dominators.dominates(v.block, above)]
    while (other := forest.loop_of(above)) is not None:
        before = dominators.idom[other.header]
        if before is None or not all(dominators.dominates(home, before) for home in homes):  # type: ignore[arg-type]
            break
        above = before
    return above


def _upward(loop: Loop) -> CountingHead | None:
    """How an innermost loop counts, if it does so upwards."""
    head = None if loop.children else counting_head(loop)
    if head is None or head.is_down or not all((by or 0) > 0 for by in steps(loop, head.counter)):
        return None
    return head


def beyond(value: Value, counter: Value) -> int | None:
    """What is added to the counter, where that is a literal; None for every other value."""
    if value is counter:
        return 0
    if not isinstance(value, Instruction) or value.op.name != "add":
        return None
    a, by = value.operands
    number = integer(by)
    return number if a is counter and number is not None and abs(number) <= _NEAR else None


class _Fork(Frozen, eq=False):
    """A branch whose ways both begin with a check of the same index: what they run up to it, and the checks."""

    condition: Value
    passed: tuple[list[Instruction], list[Instruction]]
    checks: tuple[Instruction, Instruction]


class _Failing(Frozen, eq=False):
    """What the iteration that fails runs, the checks that are limits, and the pair of them behind all others."""

    passed: list[Instruction]
    checks: list[Instruction]
    fork: _Fork | None


def _first_checks(
    loop: Loop, count: CountingHead, edges: dict[Block, list[tuple[Block, int]]]
) -> tuple[list[Instruction], list[Instruction], _Fork | None]:
    """What each iteration runs before its first effect: all of it, and the checks that are limits of the count."""
    passed: list[Instruction] = []
    checks: list[Instruction] = []
    is_natural = _begins_at_natural_numbers(loop, count, edges)
    block = count.body
    while True:
        for i in block.instructions:
            if i.op is OPS["check"]:
                # a count that changes from row to row would keep rows from running side by side
                is_fixed = is_natural and is_outside(i.operands[0], loop.outermost)
                if not is_fixed and bound_of(i, loop, count.counter) is None:
                    break
                checks.append(i)
            elif not (i.op.is_pure or i.op is OPS["load"]):
                break
            passed.append(i)
        ways = [t.block for t in i.targets]
        if any(t.args or not loop.contains(t.block) or len(edges[t.block]) != 1 for t in i.targets):
            return passed, checks, None
        if i.op is OPS["conditional"]:
            return passed, checks, _fork(i.operands[0], ways, loop, count)
        if i.op is not OPS["branch"]:
            return passed, checks, None
        (block,) = ways


def _fork(condition: Value, ways: list[Block], loop: Loop, count: CountingHead) -> _Fork | None:
    """The branch, if both ways ask first whether the same index is in range."""
    firsts = [next(i for i in way.instructions if not (i.op.is_pure or i.op is OPS["load"])) for way in ways]
    if not all(i.op is OPS["check"] for i in firsts):
        return None
    bounds = [bound_of(i, loop, count.counter) for i in firsts]
    if bounds[0] is None or bounds[0] != bounds[1]:
        return None
    passed = [w.instructions[: w.instructions.index(i)] for w, i in zip(ways, firsts, strict=True)]
    return _Fork(condition, (passed[0], passed[1]), (firsts[0], firsts[1]))


def _begins_at_natural_numbers(loop: Loop, count: CountingHead, edges: dict[Block, list[tuple[Block, int]]]) -> bool:
    """Whether the counter begins at literals that are not negative."""
    at = loop.header.args.index(count.counter)
    firsts = [integer(b.targets[k].args[at]) for b, k in edges[loop.header] if b not in loop.blocks]
    return all(n is not None and n >= 0 for n in firsts)


def _asked(check: Instruction, loop: Loop) -> Sequence[Value]:
    """The values that a limit is made of, among them the counter."""
    condition = check.operands[0]
    return [condition] if is_outside(condition, loop) else condition.operands  # type: ignore[attr-defined]


def bound_of(check: Instruction, loop: Loop, counter: Value) -> tuple[Value, int] | None:
    """The size that a check asks the counter of a loop to be below, with a number added to it."""
    condition = check.operands[0]
    if not isinstance(condition, Instruction) or condition.op.name != "lessThan":
        return None
    index, size = condition.operands
    added = beyond(index, counter)
    if added is None or not is_outside(size, loop):
        return None
    # only of an extent, or a small number, can another one be subtracted
    number = integer(size)
    small = number is not None and abs(number) < _NEAR
    if added and not small and not (isinstance(size, Instruction) and size.op.name == "extent"):
        return None
    return size, added


def _limit(
    function: Function,
    loop: Loop,
    count: CountingHead,
    above: Block,
    limits: list[Instruction],
    run: _Failing,
) -> None:
    head = loop.header
    end = head.instructions[-1]
    b = Builder(function).before(above.instructions[-1])
    limit = count.last
    for check in limits:
        found = bound_of(check, loop, count.counter)
        if found is None:
            limit = b.emit("select", limit, literal(0), check.operands[0])
            continue
        limit = b.emit("min", limit, end_of(b, found))
    b = Builder(function).before(end)
    b.loc = end.loc
    away = end.targets[1]
    late = function.new_block("late", after=loop.ordered[-1])
    failing = function.new_block("failing", after=late)
    more = b.emit("lessThan", count.counter, limit)
    end.operands, end.targets = [more], [end.targets[0], Target(late, [])]
    b.at_end(late)
    b.conditional(b.emit("lessThan", count.counter, count.last), failing, [], away.block, away.args)
    _raise(function, b.at_end(failing), failing, run)
    for check in [*run.checks, *(run.fork.checks if run.fork else ())]:
        assert check.block is not None
        check.block.instructions.remove(check)


def end_of(b: Builder, bound: tuple[Value, int]) -> Value:
    """What a counter must be below where, with a number added, it must be below a size: `bound_of`'s answer."""
    size, added = bound
    return b.emit("subtract", size, literal(added)) if added else size


def _raise(function: Function, b: Builder, failing: Block, run: _Failing) -> None:
    """The checks again, with what they need of the iteration that fails; the last one raises."""
    copies: dict[Value, Value] = {}
    if run.fork is None:
        last = run.checks[-1]
        _again(b, run.passed[: run.passed.index(last)], last.operands[1:], copies)
        _fail(b, last, copies)
        return
    fork = run.fork
    read = [o for i in (*fork.passed[0], *fork.passed[1], *fork.checks) for o in i.operands]
    _again(b, run.passed, [fork.condition, *read], copies)
    ways = [function.new_block("failing", after=failing) for _ in fork.checks]
    b.conditional(copies.get(fork.condition, fork.condition), ways[0], [], ways[1], [])
    for way, passed, check in zip(ways, fork.passed, fork.checks, strict=True):
        own = dict(copies)
        _again(b.at_end(way), passed, check.operands[1:], own)
        _fail(b, check, own)


def _again(b: Builder, passed: list[Instruction], wanted: Sequence[Value], copies: dict[Value, Value]) -> None:
    """What may raise of what was run before, and what is wanted of it, once more."""
    needed = {*wanted, *(i for i in passed if may_trap(i))}
    for i in reversed(passed):
        if i in needed:
            needed.update(i.operands)
    for i in passed:
        if i in needed:
            b.clone(i, copies)


def _fail(b: Builder, check: Instruction, copies: dict[Value, Value]) -> None:
    operands = [copies.get(o, o) for o in check.operands[1:]]
    b.insert(Instruction(OPS["raise"], operands, dict(check.attrs), loc=check.loc))
