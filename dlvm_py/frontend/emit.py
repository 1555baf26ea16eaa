"""The emitter: instructions with folding and scoped value numbering, index arithmetic, checks, casts.

Everything of the front end that builds IR goes through one `Emitter`, which belongs to one IR
function. Scalar instructions without effects are numbered: asking twice for the same extent, sum or
comparison gives the same value as long as the first dominates (see facts.py).
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from dlvm_py.errors import CompileError, Loc, TypeMismatch
from dlvm_py.frontend.facts import EXTENT_MAX, I64_MAX, I64_MIN, Facts, key
from dlvm_py.ir import (
    BOOL,
    I64,
    OPS,
    U64,
    Block,
    Builder,
    DType,
    Function,
    Instruction,
    Literal,
    TensorType,
    Value,
    literal,
    scalar,
)
from dlvm_py.ir.op import TRAP
from dlvm_py.ir.value import integer
from dlvm_py.options import Options


class Unreachable(Exception):  # noqa: N818 - not an error: control leaves the expression being translated
    """Raised by the translation when the code that follows in this expression cannot run."""


def i64(n: int) -> Literal:
    """An i64 literal."""
    return literal(int(n), scalar(I64))


class Emitter:
    """Builds one IR function. `session` is the translation of the whole module (translate.py)."""

    def __init__(self, function: Function, session: Any, options: Options) -> None:
        self.function = function
        self.session = session
        self.options = options
        self.builder = Builder(function)
        self.facts = Facts()
        self.masks: dict[Value, Any] = {}  # masks to where they are true (advanced.py)
        self.tries: list[Any] = []  # the `try` statements whose bodies are translated (exceptions.py)
        self.frame: Any = None  # the activation that is translated (frame.py): it knows what names are bound to

    @property
    def block(self) -> Block:
        """The block that is built."""
        assert self.builder.block is not None
        return self.builder.block

    @property
    def loc(self) -> Loc | None:
        """The source place of what is built."""
        return self.builder.loc

    @property
    def is_library(self) -> bool:
        """Whether what is translated is a function of the library, not the user's."""
        return self.frame is not None and self.frame.source.at is not None

    def error(self, kind: type[CompileError], reason: str, help: str | None = None) -> NoReturn:  # noqa: A002
        """Raise a located compile error at the current place."""
        raise kind(reason, self.loc, help=help)

    # -- instructions ----------------------------------------------------------------------------

    def emit(self, op: str, *operands: Value, **attrs: Any) -> Value:
        """Append one instruction; a type rule that fails becomes a located error."""
        if self.tries and TRAP in OPS[op].effects and self.session.catch(self, op, operands, attrs):
            return literal(True)  # an edge to a handler stands in its place
        try:
            return self.builder.emit(op, *operands, **attrs)
        except TypeError as error:
            raise TypeMismatch(f"{op}: {error}", self.loc) from error

    def pure(self, op: str, *operands: Value, **attrs: Any) -> Value:
        """A scalar instruction without effects: folded if its operands are literals, else numbered."""
        if not attrs.get("checked"):
            attrs.pop("checked", None)
        folded = None if attrs.get("checked") else self._fold(op, operands, attrs)
        if folded is not None:
            return folded
        if OPS[op].commutative and isinstance(operands[0], Literal):
            operands = (operands[1], operands[0])
        name = (op, *map(key, operands), *sorted(attrs.items()))
        known = self.facts.lookup(name)
        if known is None:
            known = self.emit(op, *operands, **attrs)
            self.facts.age(known)
            self.facts.remember(name, known)
        return known

    def _fold(self, op: str, operands: tuple[Value, ...], attrs: dict[str, Any]) -> Value | None:
        row = OPS[op]
        if row.evaluate is None or not all(isinstance(v, Literal) for v in operands):
            return None
        with np.errstate(all="ignore"):
            values = [np.dtype(v.type.dtype.numpy).type(v.value) for v in operands]  # type: ignore[attr-defined]
            try:
                result = row.evaluate(*values, **attrs)
            except (OverflowError, ValueError):  # a cast of what does not fit, behind a check that fails
                return None
        result_type = row.result_type(operands, attrs)
        if not isinstance(result_type, TensorType) or result_type.shape:
            return None
        return literal(result.item() if hasattr(result, "item") else result, result_type)

    def cast(self, value: Value, dtype: DType) -> Value:
        """`value` (scalar or tensor) converted to `dtype` as NumPy's astype does."""
        assert isinstance(value.type, TensorType)
        if value.type.dtype is dtype:
            return value
        if value.type.shape:
            return self.emit("dataTypeCast", value, to=dtype.name)
        if value.type.dtype is BOOL and dtype.kind in "iuf":
            cast = self.pure("dataTypeCast", value, to=dtype.name)
            if dtype is I64:
                self.facts.interval.setdefault(cast, (0, 1))
            return cast
        return self.pure("dataTypeCast", value, to=dtype.name)

    def whole(self, value: Value, exception: str = "IndexError") -> Value:
        """An integer as i64; a large one of u64 raises instead of turning negative."""
        if value.type.dtype is U64:  # type: ignore[attr-defined]
            fits = self.pure("lessThan", value, literal(2**63, scalar(U64)))
            self.check(fits, exception, "a uint64 of 2**63 or more does not fit 64 bits with a sign")
        return self.cast(value, I64)

    # -- control ---------------------------------------------------------------------------------

    def check(self, condition: Value, exception: str, message: str, *operands: Value, **how: str) -> None:
        """Raise `exception` at run time unless `condition` holds; known conditions emit nothing. how: ir/text.py."""
        if isinstance(condition, Literal) and condition.value:
            return
        name = ("checked", key(condition))
        if self.facts.lookup(name):
            return
        self.emit("check", condition, *operands, exception=exception, message=message, **how)
        self.facts.remember(name, True)
        self.facts.assume(condition)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """A comparison of two i64 scalars, folded where their ranges decide it."""
        (alow, ahigh), (blow, bhigh) = self.facts.range_of(a), self.facts.range_of(b)
        if op == "lessThan":
            if ahigh < blow or self.facts.proves_below(a, b):
                return literal(True)
            if alow >= bhigh:
                return literal(False)
        elif op == "lessThanOrEqual":
            if ahigh <= blow:
                return literal(True)
            if alow > bhigh:
                return literal(False)
        elif op == "equal":
            if self.facts.same(a, b):
                return literal(True)
            if ahigh < blow or bhigh < alow:
                return literal(False)
        return self.pure(op, a, b)

    def both(self, a: Value, b: Value) -> Value:
        """Logical and, with known operands dropped."""
        if isinstance(a, Literal):
            return b if a.value else a
        if isinstance(b, Literal):
            return a if b.value else b
        return self.pure("and", a, b)

    def either(self, a: Value, b: Value) -> Value:
        """Logical or, with known operands dropped."""
        if isinstance(a, Literal):
            return a if a.value else b
        if isinstance(b, Literal):
            return b if b.value else a
        return self.pure("or", a, b)

    def choose(self, flag: Value, a: Value, b: Value) -> Value:
        """a where flag, else b; known flags choose now."""
        if isinstance(flag, Literal):
            return a if flag.value else b
        if key(a) == key(b):
            return a
        chosen = self.pure("select", a, b, flag)
        if a.type == scalar(I64) and chosen not in self.facts.interval:
            (alow, ahigh), (blow, bhigh) = self.facts.range_of(a), self.facts.range_of(b)
            self.facts.interval[chosen] = (min(alow, blow), max(ahigh, bhigh))
        return chosen

    # -- arithmetic of indices: exact by the caller's knowledge, never checked ----------------------

    def offset(self, value: Value, amount: int) -> Value:
        """value + amount, in the canonical form base + offset."""
        base, total = self.facts.split(value)
        return self.linear_form(base, total + amount)

    def linear_form(self, base: Value | None, amount: int, checked: bool = False) -> Value:
        """base + amount; `checked`: raises OverflowError where it does not fit."""
        wrapped = (amount - I64_MIN) % 2**64 + I64_MIN
        if checked and amount != wrapped:
            if base is not None:  # in two steps, of which the first fits if the sum does
                first = I64_MAX if amount > 0 else I64_MIN
                return self.linear_form(self.linear_form(base, first, True), amount - first, True)
            self.check(literal(False), "OverflowError", "integer overflow: the result does not fit in 64 bits")
        amount = wrapped
        if base is None:
            return i64(amount)
        if amount == 0:
            return base
        low, high = self.facts.range_of(base)
        fits = I64_MIN <= low + amount and high + amount <= I64_MAX
        known = self.facts.lookup(("linear", base, amount))
        if known is not None and (fits or not checked or known.attrs.get("checked")):
            return known
        op, size = ("add", amount) if amount > 0 or amount == I64_MIN else ("subtract", -amount)
        value = self.pure(op, base, i64(size), checked=checked and not fits)
        self.facts.remember(("linear", base, amount), value)
        self.facts.linear[value] = (base, amount)
        self.facts.interval[value] = (max(low + amount, I64_MIN), min(high + amount, I64_MAX))
        return value

    def clamp(self, value: Value, amount: int) -> Value:
        """max(value + amount, 0), amount <= 0: the extent that slicing leaves, in canonical form."""
        facts = self.facts
        value = facts.find(value)
        if amount == 0 and facts.is_nonnegative(value):
            return value
        base, total = facts.clamped.get(value) or facts.split(value)
        total += amount
        if base is None:
            return i64(max(total, 0))
        if facts.range_of(base)[0] + total >= 0 or (total >= 0 and facts.is_nonnegative(base)):
            return self.linear_form(base, total)
        exact = facts.lookup(("linear", base, total)) if total else base
        if exact is not None and facts.is_nonnegative(exact):
            return exact
        clamped = self.pure("max", self.linear_form(base, total), i64(0))
        facts.remember(("clamped", base, total), clamped)
        facts.clamped[clamped] = (base, total)
        facts.interval[clamped] = (0, max(min(facts.range_of(base)[1] + total, EXTENT_MAX), 0))
        return facts.find(clamped)

    def know_nonnegative(self, value: Value) -> None:
        """State that value >= 0 from here on (a check has passed)."""
        self.facts.remember(("nonnegative", key(value)), True)
        base, total = self.facts.split(value)
        clamped = self.facts.lookup(("clamped", base, total))
        if clamped is not None:
            self.facts.unify(clamped, value)

    def minimum(self, a: Value, b: Value) -> Value:
        """The smaller of two i64."""
        if self._known_le(a, b):
            return a
        if self._known_le(b, a):
            return b
        value = self.pure("min", a, b)
        (alow, ahigh), (blow, bhigh) = self.facts.range_of(a), self.facts.range_of(b)
        self.facts.interval.setdefault(value, (min(alow, blow), min(ahigh, bhigh)))
        self.facts.below.setdefault(value, []).extend((v, 1) for v in (a, b) if integer(v) is None)
        return value

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger of two i64."""
        if self._known_le(a, b):
            return b
        if self._known_le(b, a):
            return a
        value = self.pure("max", a, b)
        (alow, ahigh), (blow, bhigh) = self.facts.range_of(a), self.facts.range_of(b)
        self.facts.interval.setdefault(value, (max(alow, blow), max(ahigh, bhigh)))
        return value

    def _known_le(self, a: Value, b: Value) -> bool:
        (_, ahigh), (blow, _) = self.facts.range_of(a), self.facts.range_of(b)
        return ahigh <= blow or self.facts.same(a, b) or self.facts.proves_below(a, b)

    def add(self, a: Value, b: Value, checked: bool = False) -> Value:
        """a + b of i64."""
        (abase, aoff), (bbase, boff) = self.facts.split(a), self.facts.split(b)
        if abase is None or bbase is None:
            return self.linear_form(abase if bbase is None else bbase, aoff + boff, checked)
        return self._arithmetic("add", a, b, checked)

    def subtract(self, a: Value, b: Value, checked: bool = False) -> Value:
        """a - b of i64."""
        if isinstance(a, Instruction) and a.op.name == "add" and any(v is b for v in a.operands):
            return a.operands[1 if a.operands[0] is b else 0]
        (abase, aoff), (bbase, boff) = self.facts.split(a), self.facts.split(b)
        if bbase is None or abase is bbase:
            return self.linear_form(abase if bbase is None else None, aoff - boff, checked)
        return self._arithmetic("subtract", a, b, checked)

    def multiply(self, a: Value, b: Value, checked: bool = False) -> Value:
        """a * b of i64."""
        if integer(a) is not None and integer(b) is not None and not checked:
            return i64(integer(a) * integer(b))  # type: ignore[operator]
        for x, y in ((a, b), (b, a)):
            if integer(x) == 1:
                return y
        return self._arithmetic("multiply", a, b, checked)

    def _arithmetic(self, op: str, a: Value, b: Value, checked: bool) -> Value:
        x, y = self.facts.range_of(a), self.facts.range_of(b)
        if op == "add":
            low, high = x[0] + y[0], x[1] + y[1]
        elif op == "subtract":
            low, high = x[0] - y[1], x[1] - y[0]
        else:
            corners = [p * q for p in x for q in y]
            low, high = min(corners), max(corners)
        fits = I64_MIN <= low and high <= I64_MAX
        if fits and low == high:
            return i64(low)
        value = self.pure(op, a, b, checked=checked and not fits)
        self.facts.interval.setdefault(value, (max(low, I64_MIN), min(high, I64_MAX)))
        return value

    def product(self, factors: tuple[Value, ...]) -> Value:
        """The product of extents: the number of elements, which an allocation has bounded."""
        total: Value = i64(1)
        for n in factors:
            total = self.multiply(total, n)
            if integer(total) is None:
                low, high = self.facts.range_of(total)
                self.facts.interval[total] = (max(low, 0), min(high, EXTENT_MAX))
        return total
