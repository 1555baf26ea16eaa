"""Alternating signs: what changes its sign in every trip of a counting loop follows from the number of the trip.

    'head(%k: i64, %sign: f64, ...):                  'head(%k: i64, ...):
        ...                                               %odd = bitAnd %k: i64, 1: i64
    'body():                                   =>         %turned = notEqual %odd: i64, 0: i64
        %t = multiply %sign: f64, %x: f64                 %sign = select -1.0: f64, 1.0: f64 by %turned: bool
        %next = negate %sign: f64                         ...
        branch 'head(%k', %next: f64, ...)            'body():
                                                          %t = multiply %sign: f64, %x: f64
                                                          branch 'head(%k', ...)

The counter goes up by 1 from a literal. A reversed loop has its counter, so that a derivative keeps nothing for the
sign, which sums with alternating terms would tape in every trip. The same bits: negation is exact. Stages raw and
optimizable, before a derivative.
"""

from __future__ import annotations

from dlvm_py.ir import BlockArg, Builder, Function, Instruction, Literal, Value, is_scalar, literal
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, Edges, counted_loop
from dlvm_py.ir.analysis.effects import unchecked
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.value import integer
from dlvm_py.transforms.ssa_repair import remove_args
from dlvm_py.transforms.substitution import substitute


def run(function: Function) -> bool:
    """Compute the signs of `function` from counters; whether there was one."""
    if not any(_turned(i) for i in function.instructions()):
        return False
    edges = predecessors(function)
    signs: dict[Value, Value] = {}
    for loop in LoopForest(function).loops:
        count = counted_loop(loop, edges)
        if count is None or count.step != 1 or integer(count.first) is None:
            continue
        for argument in loop.header.args:
            first = _first(argument, count, edges)
            if first is not None:
                signs[argument] = _sign(function, count, first)
    if signs:
        substitute(function.blocks, signs)
        remove_args(function, set(signs))
    return bool(signs)


def _turned(i: Value) -> BlockArg | None:
    """The argument of a block that an instruction negates: a scalar that has a sign."""
    if not isinstance(i, Instruction) or i.op.name not in ("negate", "subtract"):
        return None
    *zero, of = i.operands
    if not isinstance(of, BlockArg) or not is_scalar(of.type):
        return None
    kind = of.type.dtype.kind  # type: ignore[attr-defined]
    if zero:  # as Python's integers are negated; 0.0 - 0.0 is no negation
        return of if kind == "i" and integer(zero[0]) == 0 else None
    return of if kind in "fi" else None


def _first(argument: BlockArg, count: CountedLoop, edges: Edges) -> Value | None:
    """What an argument of the loop's header is before the first trip, if each trip only negates it.

    An integer must be a literal that can be negated; that this does not overflow need not be checked then.
    """
    header = count.loop.header
    at = header.args.index(argument)
    passed = [(count.loop.contains(p), p.targets[k].args[at]) for p, k in edges[header]]
    before = {v for inside, v in passed if not inside}
    following = [v for inside, v in passed if inside]
    if len(before) != 1 or not all(_turned(v) is argument for v in following):
        return None
    first = before.pop()
    if argument.type.dtype.kind == "i":  # type: ignore[attr-defined]
        number = integer(first)
        if number is None or abs(number) >= 1 << 8 * argument.type.dtype.itemsize - 1:  # type: ignore[attr-defined]
            return None
    for i in following:
        assert isinstance(i, Instruction)
        i.attrs = unchecked(i)
    return first


def _sign(function: Function, count: CountedLoop, first: Value) -> Value:
    """The value in the trip of the counter, made at the head of the loop."""
    b = Builder(function).before(count.loop.header.instructions[0])
    number = first.value if isinstance(first, Literal) else None
    turned = literal(-number, first.type) if isinstance(number, int | float) else b.emit("negate", first)
    start = integer(count.first)
    assert start is not None
    odd = b.emit("bitAnd", count.counter, literal(1))
    return b.emit("select", turned, first, b.emit("notEqual", odd, literal(start % 2)))
