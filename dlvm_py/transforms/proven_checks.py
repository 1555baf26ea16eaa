"""Checks and choices that always come out one way, by what bounds the integers that they ask about.

    'head(%j: i64):                                            'head(%j: i64):
        %c = greaterThanOrEqual %j: i64, 0: i64                    %c = greaterThanOrEqual %j: i64, 0: i64
        conditional %c then 'body() else 'exit()                   conditional %c then 'body() else 'exit()
    'body():                                                   'body():
        %low = lessThan %j: i64, 0: i64
        %far = add %j: i64, %n: i64
        %at = select %far: i64, %j: i64 by %low: bool     =>
        %fine = lessThan %at: i64, %n: i64
        check %fine: bool else IndexError "..." (...)
        %e = elementPointer %x: *<_ x f64> at %at: i64             %e = elementPointer %x: *<_ x f64> at %j: i64
        %next = subtract %j: i64, 1: i64 checked                   %next = subtract %j: i64, 1: i64

The front end proves what follows from the statement and from comparisons around it. Here loops are known: %j begins
below %n and only falls (ir/analysis/bounds.py). So

* a check of what is sure to hold is gone, and so is a part of a conjunction;
* a check that a float is not below 0 is gone where it cannot be: `math.sqrt(x * x + y * y)`; so is what is asked of
  a float that is made of integers, if it always is so: that `int(math.sqrt(n))` has an integer to give (ranges.py);
* a select is the operand that is always taken;
* arithmetic whose result fits its dtype is not `checked`; nor is that of which only low bits are used, as in
  `(1664525 * x + 12345) & 0xFFFFFFFF`: they are those of the exact result, whether it fits or not;
* `modulo` of a number below the divisor, and not negative, is that number. Where it is at most once the divisor away
  from that, as (i + 1) % n and (i - 1) % n are, it is a select in the place of a division:

    %r = modulo %i1: i64, %n: i64         =>    %less = subtract %i1: i64, %n: i64
                                                %over = greaterThanOrEqual %i1: i64, %n: i64
                                                %r = select %less: i64, %i1: i64 by %over: bool

Integers are i64 scalars. Stages raw and optimizable.
"""

from __future__ import annotations

from dlvm_py.ir import F64, I64, OPS, Block, Function, Instruction, TensorType, Value, is_scalar, literal
from dlvm_py.ir.analysis.bounds import Bounds, Place
from dlvm_py.ir.analysis.cfg import reverse_postorder
from dlvm_py.ir.analysis.effects import unchecked
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.value import Literal, integer
from dlvm_py.transforms.ranges import decided
from dlvm_py.transforms.substitution import substitute

_INTEGER, _FLOAT = TensorType((), I64), TensorType((), F64)
_DEPTH = 6
_ARITHMETIC = frozenset(("add", "subtract", "multiply"))


def run(function: Function) -> bool:
    """Take out of `function` what is proven; whether anything was."""
    changed = _uncheck_low_bits(function)
    while any(_is_candidate(i) for i in function.instructions()) and _Sweep(function).run():
        changed = True
    return changed


def _uncheck_low_bits(function: Function) -> bool:
    """Let sums and products wrap of which nothing but low bits is used; whether there were any.

    Before all proofs, which take what is checked for exact.
    """
    checked = [i for i in function.instructions() if i.op.name in _ARITHMETIC and _is_checked(i)]
    if not checked:
        return False
    users = uses(function)
    wraps: set[Value] = set()
    # users stand behind what they use, but for block arguments, which are no users of this kind
    for i in reversed(checked):
        if users[i] and all(_keeps_low_bits(u, wraps) for u in users[i]):
            wraps.add(i)
            i.attrs = unchecked(i)
    return bool(wraps)


def _is_checked(i: Instruction) -> bool:
    return bool(i.attrs.get("checked")) and i.type == _INTEGER


def _keeps_low_bits(user: Instruction, wraps: set[Value]) -> bool:
    """Whether a user's result depends on the low bits of its operands alone."""
    if user in wraps:
        return True
    n = integer(user.operands[1]) if user.op.name in ("bitAnd", "modulo") else None
    if n is None or user.type != _INTEGER:
        return False
    return n >= 0 if user.op.name == "bitAnd" else n > 0 and n & (n - 1) == 0


def _is_candidate(i: Instruction) -> bool:
    name = i.op.name
    if name == "check" or name == "select" and i.type == _INTEGER:
        return not isinstance(i.operands[-1 if name == "select" else 0], Literal)
    if name in _ARITHMETIC:
        return _is_checked(i)
    return name == "modulo" and i.type == _INTEGER and integer(i.operands[0]) is None


class _Sweep:
    """One walk over all blocks of a function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.bounds = Bounds(function)
        self.replaced: dict[Value, Value] = {}
        self.changed = False

    def run(self) -> bool:
        """Change what can be changed; whether anything was."""
        kept: dict[Block, list[Instruction]] = {}
        for block in reverse_postorder(self.function):
            kept[block] = rest = []
            for k, i in enumerate(block.instructions):
                rest += self._kept(i, Place(block, k))
        # the proofs are about the function as it was
        for block, rest in kept.items():
            block.instructions = []
            for i in rest:
                block.append(i)
        substitute(self.function.blocks, self.replaced)
        return self.changed or bool(self.replaced)

    def _kept(self, i: Instruction, at: Place) -> list[Instruction]:
        """What an instruction becomes."""
        if not _is_candidate(i):
            return [i]
        name = i.op.name
        if name == "check":
            return self._check(i, at)
        if name == "select":
            taken = self._decided(i.operands[2], at)
            if taken is not None:
                self.replaced[i] = i.operands[0 if taken else 1]
                return []
        elif name == "modulo":
            return self._modulo(i, at)
        elif self.bounds.is_exact(i, at):
            i.attrs = unchecked(i)
            self.changed = True
        return [i]

    def _check(self, i: Instruction, at: Place) -> list[Instruction]:
        condition = self._rest(i.operands[0], at)
        if condition is None:
            self.changed = True
            return []
        if condition is not i.operands[0]:
            i.operands = [condition, *i.operands[1:]]
            self.changed = True
        return [i]

    def _rest(self, condition: Value, at: Place) -> Value | None:
        """What of a condition is not proven."""
        if isinstance(condition, Instruction) and condition.op.name == "and":
            a, b = (self._rest(o, at) for o in condition.operands)
            if a is None or b is None:
                return b if a is None else a
            return condition
        return None if self._decided(condition, at) else condition

    def _decided(self, condition: Value, at: Place) -> bool | None:
        """What a comparison is sure to be, where its operands are what they have become; None if that is not known."""
        if not isinstance(condition, Instruction):
            return None
        if condition.op.name == "not":
            holds = self._decided(condition.operands[0], at)
            return None if holds is None else not holds
        if condition.op.name == "lessThan" and _is_zero(condition.operands[1]):
            if _is_never_below_zero(condition.operands[0]):
                return False
        if condition.operands and condition.operands[0].type == _FLOAT:
            return decided(condition, {})
        operands = []
        for o in condition.operands:
            now = self.replaced.get(o, o)
            operands.append(o if isinstance(now, Instruction) and now.block is None else now)
        return self.bounds.compares(condition.op.name, operands, at)

    def _modulo(self, i: Instruction, at: Place) -> list[Instruction]:
        a, n = i.operands
        holds = self.bounds.holds
        number = integer(n)
        # of a power of two it is its low bits
        if number is not None and number & (number - 1) == 0 or not holds(None, n, -1, at):
            return [i]
        low, high = holds(None, a, 0, at), holds(a, n, -1, at)
        if low and high:
            self.replaced[i] = a
            return []
        made: list[Instruction] = []

        def emit(name: str, *operands: Value) -> Instruction:
            made.append(Instruction(OPS[name], list(operands), loc=i.loc))
            return made[-1]

        value = a
        if not low:
            if not self._is_near(a, n, at):
                return [i]
            value = emit("select", emit("add", a, n), a, emit("lessThan", a, literal(0)))
        if not high:
            if not self._is_less_than_twice(a, n, at):
                return [i]
            value = emit("select", emit("subtract", value, n), value, emit("greaterThanOrEqual", value, n))
        self.replaced[i] = value
        return made

    def _is_near(self, a: Value, n: Value, at: Place) -> bool:
        """Whether a + n is not negative."""
        if (number := integer(n)) is not None:
            return self.bounds.holds(None, a, number, at)
        return any(self.bounds.holds(None, a, c, at) and self.bounds.holds(None, n, -c, at) for c in (1, 2))

    def _is_less_than_twice(self, a: Value, n: Value, at: Place) -> bool:
        """Whether a < 2 n: it is at most n, or n + 1 ..., where n is that large."""
        if (number := integer(n)) is not None:
            return self.bounds.holds(a, None, 2 * number - 1, at)
        return any(self.bounds.holds(a, n, c, at) and self.bounds.holds(None, n, -c - 1, at) for c in (0, 1))


def _is_zero(v: Value) -> bool:
    return isinstance(v, Literal) and isinstance(v.value, float) and v.value == 0


def _is_never_below_zero(v: Value, depth: int = _DEPTH) -> bool:
    """Whether a float scalar is 0 (of either sign), positive or not a number, as what makes it says."""
    if isinstance(v, Literal):
        return isinstance(v.value, float) and not v.value < 0
    if not depth or not isinstance(v, Instruction) or not is_scalar(v.type) or v.type.dtype.kind != "f":  # type: ignore[attr-defined]
        return False
    name = v.op.name
    if name in ("abs", "sqrt", "exp", "square"):
        return True
    if name == "power":
        by = v.operands[1]
        return isinstance(by, Literal) and by.value in (2, 4)
    if name == "multiply" and v.operands[0] is v.operands[1]:
        return True
    if name == "divide":
        # 1 / -0.0 is below 0
        by = v.operands[1]
        return isinstance(by, Literal) and by.value > 0 and _is_never_below_zero(v.operands[0], depth - 1)
    operands = v.operands[:2] if name == "select" else v.operands
    return name in ("add", "multiply", "min", "max", "select") and all(
        _is_never_below_zero(o, depth - 1) for o in operands
    )
