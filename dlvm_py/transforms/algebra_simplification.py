"""Algebra simplification: DLVM's table of laws, each known to be exact or not.

    %0.0 = power %w: f32, 0.0: f32                      %0.0 = cos 1: f32
    %0.1 = power %0.0: f32, 1.0: f32                    return %0.0: f32
    %0.2 = power %0.1: f32, 2.0: f32            =>
    %0.3 = cos %0.2: f32
    return %0.3: f32

    %a = divide %x: f64, %y: f64                        %0.0 = multiply %x: f64, %a: f64
    %b = divide %z: f64, %a: f64                =>      %0.1 = multiply %y: f64, %z: f64
    %c = divide %a: f64, %b: f64                        %0.2 = divide %0.0: f64, %0.1: f64

RULES is the table, in the order of matching: a pattern, what it becomes, and the kinds of dtype (NumPy's letters)
for which both give the same bits whatever the operands. The others are laws of real numbers: they round
otherwise, and forget NaN, infinities, or the sign of a zero. `run(f, exact_only=True)` leaves them out, and
takes the numbers of a pattern by their bits: `x + -0.0` is x for every float, `x + 0.0` is not.

A pattern is an op with patterns as operands, a variable, or a number, which stands for a scalar literal or for
the broadcast of one. The inner ops of a pattern are matched in the block of the root and only where the node
above is their one user: they go away with it, so nothing is computed twice. No rule applies where the type
would change, nor to `checked` arithmetic, unless nothing is computed any more.

Users are visited before their operands, so a rule is tried at the root of an expression first. A root is
rewritten in place: what it becomes is anonymous and stands where it stood. The sweeps are repeated until one finds
nothing. They end: every rule removes an op, or turns one into cheaper ones (power, then divide, then
multiply) that no rule turns back. Stages raw and optimizable. Linear in the function for each sweep.

Source: DLVM's AlgebraSimplification, without its defects (rules 1 and 10 lost shapes).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dlvm_py.frozen import Frozen
from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, Literal, TensorType, Value, is_array, literal, scalar
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.types import Type
from dlvm_py.transforms.literals import splat
from dlvm_py.transforms.substitution import is_pinned, substitute

# an op's name and the patterns of its operands, a variable, or a number
Pattern = tuple[Any, ...] | str | float
Bindings = dict[str, Value]


class Rule(Frozen):
    """`pattern` equals `result`; to the bit for dtypes of the kinds `exact`. `holds`: a condition on the root.

    `kinds`: of the dtypes for which it is a law at all. Integers, whose quotients are cut off, have few of division.
    """

    number: int
    pattern: tuple[Any, ...]
    result: Pattern
    exact: str = ""
    holds: Callable[[Instruction], bool] | None = None
    kinds: str = "iufc"


def _is_identity(i: Instruction) -> bool:
    """Whether the transpose `i` undoes the transpose below it."""
    (inner,) = i.operands
    assert isinstance(inner, Instruction)
    rank = len(i.type.shape)  # type: ignore[attr-defined]
    reverse = tuple(range(rank))[::-1]
    first, second = (tuple(t.attrs.get("axes") or reverse) for t in (inner, i))
    return all(first[axis] == k for k, axis in enumerate(second))


_EXP, _EXP_MINUS = ("exp", "x"), ("exp", ("negate", "x"))

RULES: tuple[Rule, ...] = (
    Rule(1, ("add", "x", -0.0), "x", "iuf"),  # x + -0 = x also for x = 0
    Rule(1, ("add", -0.0, "x"), "x", "iuf"),
    Rule(1, ("subtract", "x", 0.0), "x", "iuf"),
    Rule(1, ("multiply", "x", 1.0), "x", "iuf"),  # complex products mix the parts: inf * 1 has a NaN
    Rule(1, ("multiply", 1.0, "x"), "x", "iuf"),
    Rule(1, ("divide", "x", 1.0), "x", "iuf"),
    Rule(2, ("multiply", "x", 0.0), 0.0, "iu"),
    Rule(2, ("multiply", 0.0, "x"), 0.0, "iu"),
    Rule(3, ("power", "x", 0.0), 1.0, "iuf"),  # also for NaN, by IEEE 754
    Rule(4, ("power", "x", 1.0), "x", "iu"),
    Rule(5, ("subtract", "x", "x"), 0.0, "iu"),
    Rule(5, ("modulo", "x", "x"), 0.0, "iu"),
    Rule(6, ("divide", "x", "x"), 1.0),
    Rule(7, ("power", "x", -1.0), ("divide", 1.0, "x"), kinds="fc"),
    Rule(8, ("power", "x", 2.0), ("multiply", "x", "x"), "iu"),
    Rule(9, ("divide", ("subtract", _EXP, _EXP_MINUS), 2.0), ("sinh", "x")),
    Rule(9, ("divide", ("add", _EXP, _EXP_MINUS), 2.0), ("cosh", "x")),
    *(Rule(10, (name, 0.0), 0.0, "f") for name in ("sin", "sinh", "tan", "tanh")),
    *(Rule(10, (name, 0.0), 1.0, "f") for name in ("cos", "cosh")),
    Rule(11, ("power", ("exp", "x"), "y"), ("exp", ("multiply", "x", "y"))),
    Rule(12, ("divide", ("exp", "x"), ("exp", "y")), ("exp", ("subtract", "x", "y"))),
    Rule(13, ("divide", "x", ("exp", "y")), ("multiply", "x", ("exp", ("negate", "y")))),
    Rule(14, ("divide", "x", ("power", "y", "z")), ("multiply", "x", ("power", "y", ("negate", "z"))), kinds="fc"),
    Rule(
        15,
        ("divide", ("divide", "x", "y"), ("divide", "z", "a")),
        ("divide", ("multiply", "x", "a"), ("multiply", "y", "z")),
        kinds="fc",
    ),
    Rule(16, ("divide", ("divide", "x", "y"), "z"), ("divide", "x", ("multiply", "y", "z")), kinds="fc"),
    Rule(17, ("divide", "x", ("divide", "y", "z")), ("divide", ("multiply", "x", "z"), "y"), kinds="fc"),
    Rule(18, ("transpose", ("transpose", "x")), "x", "biufc", _is_identity, kinds="biufc"),
)


def _by_op() -> dict[str, tuple[Rule, ...]]:
    found: dict[str, list[Rule]] = {}
    for rule in RULES:
        found.setdefault(rule.pattern[0], []).append(rule)
    return {name: tuple(rules) for name, rules in found.items()}


_BY_OP = _by_op()


def run(function: Function, exact_only: bool = False) -> bool:
    """Apply the laws to `function`, or only those that keep every bit; whether anything changed."""
    changed = False
    while _Sweep(function, exact_only).run():
        changed = True
    return changed


class _Sweep:
    """One walk over the function, users before operands."""

    def __init__(self, function: Function, exact_only: bool) -> None:
        self.function = function
        self.exact_only = exact_only
        self.users = uses(function)
        self.absorbed: set[Instruction] = set()
        self.replaced: dict[Value, Value] = {}

    def run(self) -> bool:
        """Rewrite what matches; whether anything did."""
        changed = False
        for block in self.function.blocks:
            for i in reversed(list(block.instructions)):
                changed |= i not in self.absorbed and i not in self.replaced and self._simplify(i)
            block.instructions = [i for i in block.instructions if i not in self.absorbed]
        substitute(self.function.blocks, self.replaced)
        return changed

    def _simplify(self, i: Instruction) -> bool:
        return not is_pinned(i) and any(self._apply(rule, i) for rule in _BY_OP.get(i.op.name, ()))

    def _apply(self, rule: Rule, i: Instruction) -> bool:
        if _kind(i.type) not in (rule.exact if self.exact_only else rule.kinds):
            return False
        if i.attrs.get("checked") and isinstance(rule.result, tuple):
            return False
        bound: Bindings = {}
        inner: list[Instruction] = []
        if not self._matches(rule.pattern, i, i, bound, inner) or not (rule.holds is None or rule.holds(i)):
            return False
        return self._rewrite(i, rule.result, bound, inner)

    # -- matching ------------------------------------------------------------------------------------

    def _matches(self, p: Pattern, v: Value, root: Instruction, bound: Bindings, inner: list[Instruction]) -> bool:
        """Whether `v` has the form `p`; fills in the variables, and the ops below the root."""
        if isinstance(p, str):
            return bound.setdefault(p, v) is v
        if not isinstance(p, tuple):
            return self._is_number(v, p)
        name, *operands = p
        if not isinstance(v, Instruction) or v.op.name != name or v in self.replaced or v in self.absorbed:
            return False
        if v is not root:
            if v.block is not root.block or len(set(self.users[v])) != 1 or v.attrs.get("checked"):
                return False
            inner.append(v)
        pairs = zip(operands, v.operands, strict=True)
        return all(self._matches(q, operand, root, bound, inner) for q, operand in pairs)

    def _is_number(self, v: Value, wanted: float) -> bool:
        found = splat(v)
        if not isinstance(found, Literal) or not isinstance(found.value, int | float | complex):
            return False
        if found.value != wanted or isinstance(found.value, bool):
            return False
        same_sign = not isinstance(found.value, float) or math.copysign(1, found.value) == math.copysign(1, wanted)
        return same_sign or not self.exact_only

    # -- rewriting -----------------------------------------------------------------------------------

    def _rewrite(self, i: Instruction, result: Pattern, bound: Bindings, inner: list[Instruction]) -> bool:
        """Make `i` what the rule says; False where its type would be another."""
        if isinstance(result, str):
            if bound[result].type != i.type:
                return False
            self.replaced[i] = bound[result]
        elif not isinstance(result, tuple):
            self.replaced[i] = self._constant(result, i)
        elif not self._become(i, result, bound):
            return False
        self.absorbed.update(inner)
        if i in self.replaced:
            self.absorbed.add(i)
        return True

    def _constant(self, number: float, like: Instruction) -> Value:
        """A number of the type of `like`, built right before it."""
        assert isinstance(like.type, TensorType)
        value = _number(number, scalar(like.type.dtype))
        if not is_array(like.type):
            return value
        b = Builder(self.function).before(like)
        b.loc = like.loc
        return b.emit("broadcast", value, *extents_of(b, like))

    def _become(self, i: Instruction, result: tuple[Any, ...], bound: Bindings) -> bool:
        """Build the operands of the result before `i`, and turn `i` into its op."""
        assert isinstance(i.type, TensorType)
        scratch = Builder(self.function, Block())
        scratch.loc = i.loc
        name, *operands = result
        try:
            values = [_build(scratch, p, bound, scalar(i.type.dtype)) for p in operands]
            if OPS[name].result_type(values, {}) != i.type:
                return False
        except TypeError:
            return False  # there is no exp of integers, and so on
        assert i.block is not None and scratch.block is not None
        at = i.block.instructions.index(i)
        for new in scratch.block.instructions:
            new.block = i.block
            self.users[new] = [i]
        i.block.instructions[at:at] = scratch.block.instructions
        i.op, i.operands, i.attrs, i.name = OPS[name], values, {}, ""
        return True


def _kind(type: Type) -> str:
    dtype = getattr(type, "dtype", None)
    return dtype.kind if dtype is not None else "none"


def _number(value: float, t: TensorType) -> Literal:
    """A number of the table; whole ones print without a fraction, as DLVM's."""
    found = literal(value, t)
    found.integral = True
    return found


def _build(b: Builder, p: Pattern, bound: Bindings, number_type: TensorType) -> Value:
    if isinstance(p, str):
        return bound[p]
    if not isinstance(p, tuple):
        return _number(p, number_type)
    return b.emit(p[0], *(_build(b, q, bound, number_type) for q in p[1:]))
