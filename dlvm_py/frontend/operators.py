"""Python's operators on values: Python's own arithmetic for weak scalars, NumPy's for everything else.

Weak ints are i64 whose overflow raises OverflowError unless their range is known; division by zero
raises; messages are those of the Python that runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any

import gast
import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import python_complex
from dlvm_py.frontend.arrays import tensor_of
from dlvm_py.frontend.elementwise import operand, truth, ufunc_call
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import I64_MIN
from dlvm_py.frontend.library import hashing
from dlvm_py.frontend.linear import matmul
from dlvm_py.frontend.mixed import apart
from dlvm_py.frontend.numpy_create import array
from dlvm_py.frontend.texts import joined, percent
from dlvm_py.frontend.values import (
    NONE,
    Array,
    Growing,
    Iteration,
    KnownSet,
    Mixed,
    Record,
    Scalar,
    Sequence,
    Static,
    Temp,
    Text,
    describe,
)
from dlvm_py.ir import BOOL, C128, F64, I64, Instruction, Literal, Value, literal
from dlvm_py.ir.value import integer


def _message_of(action: Callable[[], object]) -> str:
    try:
        action()
    except ArithmeticError as error:
        return str(error)
    raise AssertionError("the probe was expected to raise")


_ZERO_INT, _ZERO_FLOAT = operator.sub(1, 1), operator.sub(1.0, 1.0)
ZERO_DIVISION = {  # CPython's wording, which changes between versions
    (op, kind): _message_of(lambda op=op, zero=zero: op(zero + 1, zero))
    for op in (operator.truediv, operator.floordiv, operator.mod)
    for kind, zero in (("i", _ZERO_INT), ("f", _ZERO_FLOAT))
}
ZERO_POWER = _message_of(lambda: _ZERO_FLOAT**-1.0)
POWER_OVERFLOW = _message_of(lambda: (_ZERO_FLOAT + 1e300) ** 3.0)

BINARY: dict[type, tuple[str, Any, Callable[[Any, Any], Any]]] = {
    gast.Add: ("+", np.add, operator.add),
    gast.Sub: ("-", np.subtract, operator.sub),
    gast.Mult: ("*", np.multiply, operator.mul),
    gast.Div: ("/", np.divide, operator.truediv),
    gast.FloorDiv: ("//", np.floor_divide, operator.floordiv),
    gast.Mod: ("%", np.remainder, operator.mod),
    gast.Pow: ("**", np.power, operator.pow),
    gast.LShift: ("<<", np.left_shift, operator.lshift),
    gast.RShift: (">>", np.right_shift, operator.rshift),
    gast.BitAnd: ("&", np.bitwise_and, operator.and_),
    gast.BitOr: ("|", np.bitwise_or, operator.or_),
    gast.BitXor: ("^", np.bitwise_xor, operator.xor),
}
COMPARE: dict[type, tuple[Any, str, Callable[[Any, Any], Any]]] = {
    gast.Eq: (np.equal, "equal", operator.eq),
    gast.NotEq: (np.not_equal, "notEqual", operator.ne),
    gast.Lt: (np.less, "lessThan", operator.lt),
    gast.LtE: (np.less_equal, "lessThanOrEqual", operator.le),
    gast.Gt: (np.greater, "greaterThan", operator.gt),
    gast.GtE: (np.greater_equal, "greaterThanOrEqual", operator.ge),
}
_INTEGER_OPS = {operator.and_: "bitAnd", operator.or_: "bitOr", operator.xor: "bitXor"}
_SHIFTS = (operator.lshift, operator.rshift)
_MAX_UNROLLED_POWER = 64


def weak(value: Value) -> Scalar:
    """A Python scalar."""
    return Scalar(value, weak=True)


def constant(value: Any) -> Any:
    """The front end's value of a Python constant."""
    if isinstance(value, (bool, int, float, complex)):
        return weak(literal(value))
    if isinstance(value, tuple):
        return Sequence(tuple(map(constant, value)))
    return Static(value)


def binary(e: Emitter, kind: type, a: Any, b: Any) -> Any:
    """`a op b` for an operator class of the syntax tree."""
    if isinstance(a, Mixed) or isinstance(b, Mixed):
        return apart(e, lambda x, y: binary(e, kind, x, y), a, b)
    if kind is gast.MatMult:
        return matmul(e, _beside_array(e, a), _beside_array(e, b)) if _is_array(a) or _is_array(b) else matmul(e, a, b)
    symbol, ufunc, python = BINARY[kind]
    if kind is gast.Mod and isinstance(a, Static) and isinstance(a.value, str):
        return percent(e, a.value, b)
    if isinstance(a, Sequence) or isinstance(b, Sequence):
        if not any(_makes_array(v, kind) for v in (a, b)):
            return _sequence_binary(e, kind, a, b)
        a, b = _beside_array(e, a), _beside_array(e, b)
    if isinstance(a, Static) and isinstance(b, Static) and isinstance(a.value, str):
        return Static(python(a.value, b.value))
    if kind is gast.Mult and any(isinstance(v, Static) and isinstance(v.value, str) for v in (a, b)):
        text, times = (a, b) if isinstance(a, Static) else (b, a)
        if isinstance(times, Scalar) and isinstance(times.number, int):
            return Static(text.value * times.number)
    if kind is gast.BitOr and isinstance(a, Static) and isinstance(b, Static):
        if all(isinstance(v.value, (type, UnionType, NoneType)) for v in (a, b)):
            return Static(python(a.value, b.value))
    if kind is gast.Add and (isinstance(a, Text) or isinstance(b, Text)):
        return joined(e, a, b)
    a, b = operand(e, a, f"`{symbol}`"), operand(e, b, f"`{symbol}`")
    if isinstance(a, Scalar) and isinstance(b, Scalar) and a.weak and b.weak:
        return _weak_binary(e, python, a, b)
    if kind is gast.Pow and _is_array(a) and a.dtype is BOOL and isinstance(b, Scalar) and b.weak and _is_two(b.number):
        return ufunc_call(e, np.square, a)  # of int8, as `**` does it; np.power does not
    return ufunc_call(e, ufunc, a, b)


def _is_two(number: Any) -> bool:
    return isinstance(number, int) and number == 2


def _is_array(value: Any) -> bool:
    return isinstance(value, (Array, Temp))


def _makes_array(value: Any, kind: type) -> bool:
    """Whether beside this operand a list is an array; NumPy's numbers times a list repeat it, as Python's do."""
    return _is_array(value) or (isinstance(value, Scalar) and not value.weak and kind is not gast.Mult)


def _beside_array(e: Emitter, value: Any) -> Any:
    """An operand as NumPy takes it beside an array: lists and tuples become arrays."""
    return array(e, value) if isinstance(value, Sequence) else value


def _sequence_binary(e: Emitter, kind: type, a: Any, b: Any) -> Any:
    if kind is gast.Add and isinstance(a, Sequence) and isinstance(b, Sequence):
        return Sequence(a.items + b.items, a.is_list)
    if kind is gast.Mult:
        items, times = (a, b) if isinstance(a, Sequence) else (b, a)
        if isinstance(times, Scalar) and isinstance(times.number, int):
            return Sequence(items.items * times.number, items.is_list)
    e.error(TypeMismatch, f"no such operation on {describe(a)} and {describe(b)}", help="use arrays for arithmetic")


def _fold(e: Emitter, python: Callable[[Any, Any], Any], a: Scalar, b: Scalar) -> Scalar | None:
    if a.number is None or b.number is None:
        return None
    if python in (operator.pow, operator.lshift) and isinstance(b.number, int) and b.number > _MAX_UNROLLED_POWER:
        if isinstance(a.number, int) and abs(a.number) > 1 or python is operator.lshift:
            return None  # an int of astronomical size
    try:
        result = python(a.number, b.number)
    except (ArithmeticError, ValueError, TypeError):
        return None
    if isinstance(result, int) and not -(2**63) <= result < 2**63:
        return None
    return weak(literal(result))


def _weak_binary(e: Emitter, python: Callable[[Any, Any], Any], a: Scalar, b: Scalar) -> Scalar:
    folded = _fold(e, python, a, b)
    if folded is not None:
        return folded
    if a.dtype is BOOL and b.dtype is BOOL and python in _INTEGER_OPS:
        return weak(
            e.pure({"bitAnd": "and", "bitOr": "or", "bitXor": "notEqual"}[_INTEGER_OPS[python]], a.value, b.value)
        )
    if a.dtype.is_complex or b.dtype.is_complex:
        symbol = next(s for s, _, p in BINARY.values() if p is python)
        return weak(python_complex.binary(e, symbol, e.cast(a.value, C128), e.cast(b.value, C128)))
    if a.dtype.is_float or b.dtype.is_float or python is operator.truediv:
        if python in _INTEGER_OPS or python in _SHIFTS:
            e.error(TypeMismatch, "bit operations need ints, not floats")
        return weak(_float_binary(e, python, e.cast(a.value, F64), e.cast(b.value, F64), a, b))
    return _int_binary(e, python, e.cast(a.value, I64), e.cast(b.value, I64), b)


def _float_binary(e: Emitter, python: Any, x: Value, y: Value, a: Scalar, b: Scalar) -> Value:
    ops = {operator.add: "add", operator.sub: "subtract", operator.mul: "multiply"}
    if python in ops:
        return e.pure(ops[python], x, y)
    zero = literal(0.0)
    if python is operator.pow:
        return _float_power(e, x, y, b)
    kind = "f" if a.dtype.is_float or b.dtype.is_float else "i"
    e.check(e.pure("notEqual", y, zero), "ZeroDivisionError", ZERO_DIVISION[python, kind])
    return e.pure({operator.truediv: "divide", operator.floordiv: "floorDivide", operator.mod: "modulo"}[python], x, y)


def _float_power(e: Emitter, x: Value, y: Value, exponent: Scalar) -> Value:
    n = exponent.number
    if n is not None and float(n) in (0.0, 1.0, 2.0):
        return literal(1.0) if n == 0 else x if n == 1 else e.pure("multiply", x, x)
    zero = literal(0.0)
    is_integer = not exponent.dtype.is_float
    if n is None or n < 0:
        below = e.pure("lessThan", y, zero)
        if not is_integer:
            below = e.both(below, e.pure("isFinite", y))
        e.check(e.either(e.pure("notEqual", x, zero), e.pure("not", below)), "ZeroDivisionError", ZERO_POWER)
    if not is_integer and (n is None or not float(n).is_integer()):
        whole = e.pure("equal", y, e.pure("rint", y))
        fine = e.either(e.pure("not", e.pure("lessThan", x, zero)), whole)
        message = "a negative number to a fractional power is complex: write the base as a complex number"
        e.check(fine, "ValueError", message)
    found = e.pure("power", x, y)
    if n is None or not 0.0 < float(n) <= 1.0:
        given = e.pure("isFinite", x)
        if not is_integer:
            given = e.both(given, e.pure("isFinite", y))
        e.check(e.either(e.pure("isFinite", found), e.pure("not", given)), "OverflowError", POWER_OVERFLOW)
    return found


def _int_binary(e: Emitter, python: Any, x: Value, y: Value, b: Scalar) -> Scalar:
    if python is operator.add:
        return weak(e.add(x, y, checked=True))
    if python is operator.sub:
        return weak(e.subtract(x, y, checked=True))
    if python is operator.mul:
        return weak(e.multiply(x, y, checked=True))
    if python in _INTEGER_OPS:
        return weak(e.pure(_INTEGER_OPS[python], x, y))
    if python in _SHIFTS:
        return weak(_int_shift(e, python, x, y))
    if python is operator.pow:
        return _int_power(e, x, y, b)
    return weak(_int_division(e, python, x, y))


def _int_shift(e: Emitter, python: Any, x: Value, y: Value) -> Value:
    e.check(e.compare("lessThanOrEqual", i64(0), y), "ValueError", "negative shift count")
    value = e.pure("shiftLeft" if python is operator.lshift else "shiftRight", x, y)
    (low, high), (few, many) = e.facts.range_of(x), e.facts.range_of(y)
    if python is operator.rshift:
        few, many = max(few, 0), min(max(many, 0), 64)
        ends = [n >> k for n in (low, high) for k in (min(few, 64), many)]
        e.facts.interval.setdefault(value, (min(ends), max(ends)))
        return value
    if 0 <= few and many <= 63 and I64_MIN <= low << many and high << many < 2**63:
        e.facts.interval.setdefault(value, (min(low << few, low << many), max(high << few, high << many)))
        return value
    # bits were lost where shifting back does not give x again
    fine = e.pure("equal", e.pure("shiftRight", value, y), x)
    e.check(fine, "OverflowError", "integer overflow: the result of << does not fit in 64 bits")
    return value


def _int_division(e: Emitter, python: Any, x: Value, y: Value) -> Value:
    low, high = e.facts.range_of(y)
    if low <= 0 <= high:
        e.check(e.pure("notEqual", y, i64(0)), "ZeroDivisionError", ZERO_DIVISION[python, "i"])
    if python is operator.floordiv and low <= -1 <= high and e.facts.range_of(x)[0] == I64_MIN:
        fine = e.either(e.pure("notEqual", y, i64(-1)), e.pure("notEqual", x, i64(I64_MIN)))
        e.check(fine, "OverflowError", "Python int too large: the result of // does not fit 64 bits")
    divided = python is operator.floordiv
    value = e.pure("floorDivide" if divided else "modulo", x, y)
    if low > 0:
        xlow, xhigh = e.facts.range_of(x)
        bounds = (min(xlow // low, xlow // high), max(xhigh // low, xhigh // high)) if divided else (0, high - 1)
        e.facts.interval.setdefault(value, bounds)
    return value


def _int_power(e: Emitter, x: Value, y: Value, exponent: Scalar) -> Scalar:
    n = integer(y)
    if n is None or n > _MAX_UNROLLED_POWER:
        message = "a negative power of an int is a float: write the base as a float"
        e.check(e.compare("lessThanOrEqual", i64(0), y), "ValueError", message)
        return weak(e.pure("power", x, y, checked=True))
    if n < 0:
        return weak(_float_power(e, e.cast(x, F64), e.cast(y, F64), exponent))
    result: Value = i64(1)
    while n:  # binary powers: x^13 = x · x^4 · x^8
        if n & 1:
            result = e.multiply(result, x, checked=True)
        n >>= 1
        if n:
            x = e.multiply(x, x, checked=True)
    return weak(result)


def unary(e: Emitter, kind: type, a: Any) -> Any:
    """`-a`, `+a`, `~a`, `not a`."""
    if isinstance(a, Mixed):
        return apart(e, lambda x: unary(e, kind, x), a)
    if kind is gast.Not:
        flag = condition(e, a)
        return weak(literal(not flag.value) if isinstance(flag, Literal) else e.pure("not", flag))
    a = operand(e, a, {gast.USub: "unary `-`", gast.UAdd: "unary `+`"}.get(kind, "`~`"))
    python = isinstance(a, Scalar) and a.weak
    if kind is gast.UAdd:
        if python:
            return weak(e.cast(a.value, I64)) if a.dtype is BOOL else a
        return positive(e, a)
    if kind is gast.USub:
        if not python:
            return ufunc_call(e, np.negative, a)
        if a.dtype.is_inexact:
            return weak(e.pure("negate", a.value))
        return weak(e.subtract(i64(0), e.cast(a.value, I64), checked=True))
    if python:
        if a.dtype.is_inexact:
            e.error(TypeMismatch, f"`~` needs an int or a bool, not {describe(a)}")
        return weak(e.pure("bitNot", e.cast(a.value, I64)))
    return ufunc_call(e, np.invert, a)


def positive(e: Emitter, a: Any) -> Any:
    """np.positive and `+a`: a copy."""
    a = operand(e, a, "np.positive")
    if a.dtype is BOOL:
        e.error(TypeMismatch, "np.positive is not defined for bool", help="convert with .astype(np.int64)")
    if isinstance(a, Scalar):
        return Scalar(a.value, weak=False)
    return Temp(tensor_of(e, a), a.extents, e.block)


def compare(e: Emitter, kind: type, a: Any, b: Any) -> Any:
    """One comparison `a op b`."""
    if isinstance(a, Mixed) or isinstance(b, Mixed):
        return apart(e, lambda x, y: compare(e, kind, x, y), a, b)
    if kind in (gast.Is, gast.IsNot):
        same = weak(is_same(e, a, b))
        return same if kind is gast.Is else unary(e, gast.Not, same)
    if kind in (gast.In, gast.NotIn):
        return _contains(e, a, b, kind is gast.In)
    ufunc, op, python = COMPARE[kind]
    if isinstance(a, Text) or isinstance(b, Text):
        e.error(
            UnsupportedSyntax,
            "a string that is made when it runs cannot be compared",
            help="compare the numbers that it shows",
        )
    if isinstance(a, Static) or isinstance(b, Static):
        if isinstance(a, Static) and isinstance(b, Static):
            return weak(literal(bool(python(a.value, b.value))))
        if kind in (gast.Eq, gast.NotEq):
            return weak(literal(kind is gast.NotEq))
    if isinstance(a, Sequence) and isinstance(b, Sequence) and kind in (gast.Eq, gast.NotEq):
        return _equal_sequences(e, a, b, kind is gast.Eq)
    if isinstance(a, Sequence) and isinstance(b, Sequence) and a.is_list == b.is_list:
        return _ordered_sequences(e, kind, a, b)
    if isinstance(a, Sequence) or isinstance(b, Sequence):
        other = b if isinstance(a, Sequence) else a
        if isinstance(other, Scalar) and other.weak and kind in (gast.Eq, gast.NotEq):
            return weak(literal(kind is gast.NotEq))
        if _is_array(other) or (isinstance(other, Scalar) and not other.weak):
            a, b = _beside_array(e, a), _beside_array(e, b)
    a, b = operand(e, a, "a comparison"), operand(e, b, "a comparison")
    if not (isinstance(a, Scalar) and isinstance(b, Scalar) and a.weak and b.weak):
        return ufunc_call(e, ufunc, a, b)
    folded = _fold(e, python, a, b)
    if folded is not None:
        return folded
    if a.dtype.is_complex or b.dtype.is_complex:
        if kind not in (gast.Eq, gast.NotEq):
            e.error(TypeMismatch, "complex numbers have no order", help="compare z.real, z.imag or abs(z)")
        return weak(e.pure(op, e.cast(a.value, C128), e.cast(b.value, C128)))
    if a.dtype.is_float or b.dtype.is_float:
        return weak(e.pure(op, e.cast(a.value, F64), e.cast(b.value, F64)))
    return weak(e.compare(op, e.cast(a.value, I64), e.cast(b.value, I64)))


def is_same(e: Emitter, a: Any, b: Any) -> Value:
    """`a is b`: computed for Python's bools, of which there are two; of other numbers Python does not say."""
    if isinstance(a, Scalar) and isinstance(b, Scalar) and a is not b and a.weak and b.weak:
        if a.dtype is BOOL and b.dtype is BOOL:
            return e.pure("equal", a.value, b.value)
        if a.dtype is b.dtype:
            e.error(
                UnsupportedSyntax,
                "whether two numbers are one object depends on Python's memory: `is` between numbers is not supported",
                help="compare with ==",
            )
    if isinstance(a, Array) and isinstance(b, Array):
        return literal(_are_one(e, a, b))
    return literal(identical(a, b))


def _are_one(e: Emitter, a: Array, b: Array) -> bool:
    """Whether two arrays are one object. What two paths bring, a call gives, or a caller hands over, may be any.

    So may a view of all of an array, which is an object of its own and has the same pointer.
    """
    if a is b:
        return True
    one, two = _uncast(a.pointer), _uncast(b.pointer)
    made = [isinstance(p, Instruction) and p.op.name not in ("apply", "extract") for p in (one, two)]
    given = [p in e.function.params for p in (one, two)]
    if one is not two and (all(made) or (any(made) and any(given))):
        return False
    e.error(
        UnsupportedSyntax,
        "whether these two arrays are one object is known only when it runs: `is` between them is not supported",
        help="keep a bool that says which one it is, or use np.shares_memory outside",
    )


def _uncast(pointer: Value) -> Value:
    while isinstance(pointer, Instruction) and pointer.op.name == "pointerCast":
        pointer = pointer.operands[0]
    return pointer


def identical(a: Any, b: Any) -> bool:
    """Whether `a is b`, as far as it is known at compile time: None, functions, arrays by reference."""
    if isinstance(a, Static) and isinstance(b, Static):
        return a.value is b.value
    if isinstance(a, Array) and isinstance(b, Array):
        return a.pointer is b.pointer
    if isinstance(a, Scalar) and isinstance(b, Scalar) and isinstance(a.number, bool) and isinstance(b.number, bool):
        return a.number == b.number
    return a is b


def _contains(e: Emitter, item: Any, items: Any, wanted: bool) -> Scalar:
    if isinstance(items, Static) and isinstance(item, Static) and isinstance(items.value, (str, dict)):
        return weak(literal((item.value in items.value) == wanted))
    if isinstance(items, Static) and isinstance(items.value, frozenset):
        if isinstance(item, Static):
            return weak(literal((item.value in items.value) == wanted))
        numbers = sorted((v for v in items.value if isinstance(v, int | float | complex)), key=repr)
        items = Sequence(tuple(e.session.lift(e, v, "an item of the frozenset") for v in numbers))
    if isinstance(items, Static) and isinstance(items.value, set):
        e.error(UnsupportedSyntax, "a set may change between calls", help="make it a frozenset or a tuple")
    if _is_array(items):
        equal = ufunc_call(e, np.equal, operand(e, items, "`in`"), operand(e, item, "`in`"))
        flag = e.emit("reduce", tensor_of(e, equal), literal(False), by="or", axes=tuple(range(equal.rank)))
        return weak(flag) if wanted else unary(e, gast.Not, weak(flag))
    if not isinstance(items, Sequence):
        e.error(UnsupportedSyntax, f"`in` on {describe(items)} is not supported", help="compare with each value")
    found: Value = literal(False)
    for other in items.items:
        found = e.either(found, condition(e, compare(e, gast.Eq, item, other)))
    return weak(found) if wanted else unary(e, gast.Not, weak(found))


def _equal_sequences(e: Emitter, a: Sequence, b: Sequence, wanted: bool) -> Scalar:
    equal: Value = literal(len(a.items) == len(b.items))
    for x, y in zip(a.items, b.items, strict=False):
        equal = e.both(equal, _same_item(e, x, y))
    return weak(equal) if wanted else unary(e, gast.Not, weak(equal))


def _same_item(e: Emitter, x: Any, y: Any) -> Value:
    """Whether items of tuples or lists are one object, which a NaN can be, or equal."""
    if x is y:
        return literal(True)
    numbers = [v.number for v in (x, y) if isinstance(v, Scalar)]
    if len(numbers) == 2 and all(isinstance(n, float) and n != n for n in numbers):
        e.error(UnsupportedSyntax, "whether two constant NaN are one object is not known here", help="use math.isnan")
    return condition(e, compare(e, gast.Eq, x, y))


def _ordered_sequences(e: Emitter, kind: type, a: Sequence, b: Sequence) -> Scalar:
    """How the first items that differ compare, and the lengths if none does."""
    found: Value = literal(bool(COMPARE[kind][2](len(a.items), len(b.items))))
    is_weak = True
    for x, y in reversed(tuple(zip(a.items, b.items, strict=False))):
        here = compare(e, kind, x, y)
        found = e.choose(_same_item(e, x, y), found, condition(e, here))
        is_weak &= isinstance(here, Scalar) and here.weak
    return Scalar(found, weak=is_weak)


def condition(e: Emitter, value: Any) -> Value:
    """The truth of a value as a bool; a literal where it is known."""
    match value:
        case Scalar():
            return truth(e, value.value)
        case Sequence():
            return literal(bool(value.items))
        case Growing():
            return e.compare("lessThan", i64(0), value.length)
        case Iteration():
            return e.compare("lessThan", i64(0), value.count)
        case Record() if value.kind is hashing.Set:
            return condition(e, value.get("items"))
        case Record() if value.kind is hashing.Dict:
            return condition(e, value.get("count"))
        case Static(value=KnownSet()):
            return literal(bool(value.value.items))
        case Record():
            is_container = issubclass(value.kind, dict | tuple)
            if not is_container and {"__bool__", "__len__"} & set(dir(value.kind)):
                e.error(UnsupportedSyntax, f"the truth of {describe(value)} is not supported", help="compare a field")
            return literal(bool(value.items) or not is_container)
        case Static():
            return literal(bool(value.value))
        case Array() | Temp():
            return _truth_of_array(e, value)
    return literal(value is not NONE)


def _truth_of_array(e: Emitter, value: Array | Temp) -> Value:
    """The truth of the only element; NumPy's ValueError for an array of another size."""
    if value.rank == 0:
        return condition(e, operand(e, value, "a condition"))
    sizes = [integer(n) for n in value.extents]
    if any(n is not None and n != 1 for n in sizes):
        e.error(
            TypeMismatch,
            "the truth value of an array with more than one element is ambiguous",
            help="use np.any(...) or np.all(...)",
        )
    if any(n is None for n in sizes):
        size = e.product(value.extents)
        empty = (
            "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty."
        )
        many = "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
        e.check(e.compare("lessThan", i64(0), size), "ValueError", empty)
        e.check(e.compare("lessThanOrEqual", size, i64(1)), "ValueError", many)
    flags = truth(e, tensor_of(e, value))
    return e.emit("reduce", flags, literal(False), by="or", axes=tuple(range(value.rank)))
