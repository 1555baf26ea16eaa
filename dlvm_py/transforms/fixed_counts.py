"""Loops around loops of a few trips have a version for arrays that are as long as these trips need.

    'rows(%i: i64):                                  'gate():
        %on = lessThan %i, %n                            %long = lessThan 2, %c
        conditional %on then 'axes(0) else 'exit()       conditional %long then 'fast_rows(0) else 'rows(0)
    'axes(%k: i64):                                  'fast_rows(%i: i64): ...
        %more = lessThan %k, 3                       'fast_axes(%k: i64):
        conditional %more then 'body() else 'next()      %more = lessThan %k, 3
    'body():                                     =>      conditional %more then 'fast_body() else 'fast_next()
        %fine = lessThan %k, %c                      'fast_body():
        check %fine else IndexError "..."                %e = elementPointer %p at %i, %k
        %e = elementPointer %p at %i, %k                 ...
        ...                                          'rows(%i: i64):   as it was, to 'joined

`for k in range(3): ... p[i, k]` asks in each trip whether p has that many columns, though the first point says it for
all of them. As a limit of the count (limit_counts.py) the answer made the inner loop one of an unknown length, which
LLVM does not unroll, and a second one around it; without it three trips are straight code.

For an outermost loop, left at its head alone, without calls and of at most LARGE instructions; for checks in it that
ask whether what follows from the counters of inner loops, which go from literals to literals in at most MOST trips, is
less than something that is there before the loop. Stage compute, before checks become limits; once in a pipeline, since
the slow loop is one that could be versioned.
"""

from __future__ import annotations

from dlvm_py.ir import Builder, Function, Instruction, Kind, Value, literal
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, Edges, counted_loop, is_outside
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.types import I64, TensorType
from dlvm_py.ir.value import integer
from dlvm_py.transforms.loop_versions import entered_with, remove_copies, second_version
from dlvm_py.transforms.ranges import Range, range_within

LARGE = 200
MOST = 16  # trips
_INTEGER = TensorType((), I64)


def run(function: Function) -> bool:
    """Give the loops of `function` around such loops a second version; whether there were any."""
    edges = predecessors(function)
    found = [(loop, checks) for loop in LoopForest(function).top if (checks := _checks(loop, edges))]
    for loop, checks in found:
        _version(function, loop, checks)
    return bool(found)


def _checks(loop: Loop, edges: Edges) -> dict[Instruction, tuple[int, Value]]:
    """The checks that hold in all trips if a literal is less than a value that is there before the loop."""
    instructions = [i for b in loop.ordered for i in b.instructions]
    if len(instructions) > LARGE or loop.exiting_block is not loop.header:
        return {}
    if any(i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER) for i in instructions):
        return {}
    counters = {
        counted.counter: ends
        for inner in _inner(loop)
        if (counted := counted_loop(inner, edges)) is not None and (ends := _ends(counted)) is not None
    }
    found: dict[Instruction, tuple[int, Value]] = {}
    for i in instructions if counters else ():
        condition = i.operands[0] if i.op.name == "check" else None
        if not isinstance(condition, Instruction) or condition.op.name != "lessThan":
            continue
        index, size = condition.operands
        if index.type == _INTEGER and not is_outside(index, loop) and is_outside(size, loop):
            most = range_within(index, counters)[1]
            if most < 2**31:
                found[i] = most, size
    return found


def _inner(loop: Loop) -> list[Loop]:
    return [each for child in loop.children for each in (child, *_inner(child))]


def _ends(counted: CountedLoop) -> Range | None:
    """The least and the largest number of the counter of a short loop."""
    first, last = integer(counted.first), integer(counted.last)
    if first is None or last is None or counted.step != 1 or not 0 < last - first <= MOST:
        return None
    return first, last - 1


def _version(function: Function, loop: Loop, checks: dict[Instruction, tuple[int, Value]]) -> None:
    mapping: dict[Value, Value] = {}
    gate, fast = second_version(function, loop, mapping)
    remove_copies(checks, mapping)
    b = Builder(function).at_end(gate)
    b.loc = loop.header.instructions[-1].loc
    needed: dict[Value, int] = {}
    for most, size in checks.values():
        needed[size] = max(most, needed.get(size, most))
    condition: Value | None = None
    for size, most in needed.items():
        is_long = b.emit("lessThan", literal(most), size)
        condition = is_long if condition is None else b.emit("and", condition, is_long)
    assert condition is not None
    first = entered_with(function, gate)
    b.conditional(condition, fast[0], first, loop.header, list(first))
