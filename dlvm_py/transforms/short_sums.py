"""Loops that shrink a number have a version for numbers that are not negative, and for sums that are not large.

    'loop(%v: i64, %s: i64):                                  'gate(%v0: i64, %s0: i64):
        %more = notEqual %v, 0                                    %natural = greaterThanOrEqual %v0, 0
        conditional %more then 'body() else 'exit()               %fine = and %natural, |%s0| <= 2^62
    'body():                                                      conditional %fine then 'fast(...) else 'loop(...)
        %b = bitAnd %v, 1                                 =>  'fast(%v: i64, %s: i64):
        %t = add %s, %b checked                                   %more = greaterThan %v, 0
        %h = shiftRight %v, 1                                     conditional %more then 'fast_body() else 'joined
        branch 'loop(%h, %t)                                  'fast_body():
                                                                  %t = add %s, %b
                                                                  ...
                                                              'loop(%v: i64, %s: i64):   as it was, to 'joined

`while v: count += v & 1; v >>= 1` makes as many trips as v has bits, if v is not negative; else it never ends, and
looks for signals in each trip. `while b: b &= b - 1; count += 1` always ends, but the count has to be asked about where
it goes on from one number to the next in a loop of unknown length (sums that begin at a literal: bounded_sums.py). In
the fast version LLVM counts the bits by one instruction.

For loops without others inside that are left at their head alone, and in which nothing else may raise. Stage compute,
behind bounded_sums.py, which needs no version, and before it once more, for sums of these sums; once in a pipeline,
since the slow loop is one that could be versioned.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir import I64, Block, BlockArg, Builder, Function, Instruction, TensorType, Value, literal
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.short_loops import shrinking
from dlvm_py.ir.value import integer
from dlvm_py.transforms.loop_versions import all_of, entered_with, second_version, uncheck_copies
from dlvm_py.transforms.ranges import integer_range

_INTEGER = TensorType((), I64)
_SMALL = 2**40  # of what a trip adds
_FAR = 2**62


def run(function: Function) -> bool:
    """Give the loops of `function` that shrink a number a fast version; whether there were any."""
    changed = False
    for loop in LoopForest(function).loops:
        found = None if loop.children else _short(function, loop)
        if found is not None:
            _version(function, loop, found)
            changed = True
    return changed


class _Short(Frozen, eq=False):
    """What a loop shrinks, whether it must not be negative; the sums that it hands on, and what adds to them."""

    number: BlockArg
    is_natural: bool
    sums: dict[BlockArg, Instruction]


def _short(function: Function, loop: Loop) -> _Short | None:
    """How a loop ends soon, where that must be asked ahead."""
    header = loop.header
    if len(loop.latches) != 1 or loop.exiting_block is not header:
        return None
    number = shrinking(loop)
    is_natural = number is None
    number = number or shrinking(loop, natural=True)
    if number is None or number.type != _INTEGER and is_natural:
        return None
    (latch,) = loop.latches
    (passed,) = (t.args for t in latch.targets if t.block is header)
    sums = {a: v for a, v in zip(header.args, passed, strict=True) if _adds(a, v)}
    checked = [i for b in loop.ordered for i in b.instructions if not (i.op.is_terminator or is_pure(i))]
    if any(i not in sums.values() for i in checked):
        return None
    at = [header.args.index(a) for a in sums]
    outer = [(b, k) for b, k in predecessors(function)[header] if not loop.contains(b)]
    are_known = all(integer(b.targets[k].args[n]) is not None for b, k in outer for n in at)
    if not is_natural and are_known:
        return None
    return _Short(number, is_natural, sums)  # type: ignore[arg-type]


def _adds(sum: BlockArg, following: Value) -> bool:
    """Whether a checked sum goes on by a small number."""
    if not isinstance(following, Instruction) or following.op.name != "add" or not following.attrs.get("checked"):
        return False
    a, b = following.operands
    by = b if a is sum else a if b is sum else None
    if by is None or following.type != _INTEGER:
        return False
    low, high = integer_range(by)
    return -_SMALL <= low and high <= _SMALL


def _version(function: Function, loop: Loop, found: _Short) -> None:
    header = loop.header
    mapping: dict[Value, Value] = {}
    gate, fast = second_version(function, loop, mapping)
    passed = entered_with(function, gate)
    uncheck_copies(found.sums.values(), mapping)
    b = Builder(function).at_end(gate)
    b.loc = header.instructions[-1].loc
    parts: list[Value] = []
    if found.is_natural:
        parts.append(b.emit("greaterThanOrEqual", passed[header.args.index(found.number)], literal(0)))
        _ask_for_more(function, fast[0], mapping[found.number])
    for first in dict.fromkeys(passed[header.args.index(a)] for a in found.sums):
        if integer(first) is None:
            parts += [b.emit("lessThanOrEqual", first, literal(_FAR)), b.emit("lessThanOrEqual", literal(-_FAR), first)]
    b.conditional(all_of(b, parts), fast[0], passed, header, list(passed)).attrs["likely"] = True


def _ask_for_more(function: Function, header: Block, number: Value) -> None:
    """Let the head of the fast loop ask whether a number that is not negative is above 0, not whether it differs."""
    end = header.instructions[-1]
    end.operands = [Builder(function).before(end).emit("greaterThan", number, literal(0))]
