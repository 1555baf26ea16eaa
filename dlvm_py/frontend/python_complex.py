"""Python's complex numbers: arithmetic that raises, complex(...), and the module cmath."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from dlvm_py.errors import TypeMismatch
from dlvm_py.frontend.elementwise import modulus, operand, parts
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.values import Scalar, Sequence, Static, describe
from dlvm_py.ir import C128, F64, Value, literal


def message_of(kind: type[ArithmeticError], action: Callable[[], object]) -> str:
    """The text of the exception that an action raises."""
    try:
        action()
    except kind as error:
        return str(error)
    raise AssertionError("the probe was expected to raise")


_ZERO, _LARGE = complex(0.0), complex(1.5e308, 1.5e308)
# CPython's wording, which changes between versions
_DIVISION = message_of(ZeroDivisionError, lambda: 1j / _ZERO)
_POWER_OF_ZERO = message_of(ZeroDivisionError, lambda: _ZERO**-1j)
_POWER_OVERFLOW = message_of(OverflowError, lambda: _LARGE**2.5)
_ABS_OVERFLOW = message_of(OverflowError, lambda: abs(_LARGE))
_PLAIN = {"+": "add", "-": "subtract", "*": "multiply"}


def binary(e: Emitter, symbol: str, x: Value, y: Value) -> Value:
    """x op y of Python complex numbers, with Python's errors."""
    if symbol in _PLAIN:
        return e.pure(_PLAIN[symbol], x, y)
    zero = literal(0j)
    if symbol == "/":
        e.check(e.pure("notEqual", y, zero), "ZeroDivisionError", _DIVISION)
        return e.pure("divide", x, y)
    if symbol != "**":
        e.error(TypeMismatch, f"`{symbol}` is not defined for complex numbers", help="use z.real, z.imag or abs(z)")
    real, imaginary = parts(e, y)
    positive = e.both(
        e.pure("greaterThanOrEqual", real, literal(0.0)), e.pure("equal", imaginary, literal(0.0))
    )  # 0 ** 0 is 1, 0 to a positive power 0
    e.check(e.either(e.pure("notEqual", x, zero), positive), "ZeroDivisionError", _POWER_OF_ZERO)
    result = e.pure("power", x, y)
    e.check(e.pure("not", _has_infinity(e, result)), "OverflowError", _POWER_OVERFLOW)
    return result


def _finite(e: Emitter, result: Value, message: str, *operands: Value) -> None:
    """OverflowError where finite operands have given what is not finite."""
    fine = e.pure("isFinite", result)
    for v in operands:
        fine = e.either(fine, e.pure("not", e.pure("isFinite", v)))
    e.check(fine, "OverflowError", message)


def _is_infinite(e: Emitter, x: Value) -> Value:
    return e.pure("equal", e.pure("abs", x), literal(math.inf))


def _has_infinity(e: Emitter, z: Value) -> Value:
    return e.either(*(_is_infinite(e, p) for p in parts(e, z)))


def absolute(e: Emitter, z: Value) -> Value:
    """abs(z)."""
    size = modulus(e, z)
    _finite(e, size, _ABS_OVERFLOW, z)
    return size


def make(e: Emitter, real: Any = None, imag: Any = None) -> Any:
    """complex(real, imag), complex("1+2j")."""
    if isinstance(real, Static) and isinstance(real.value, str):
        try:
            return Scalar(literal(complex(real.value)), weak=True)
        except ValueError as error:
            e.error(TypeMismatch, str(error))
    x, y = (None if v is None else number(e, v, "complex") for v in (real, imag))
    if x is None and y is None:
        return Scalar(literal(0j), weak=True)
    if x is not None and y is None:
        return Scalar(e.cast(x.value, C128), weak=True)
    a = literal(0.0) if x is None else x.value
    assert y is not None
    if y.dtype.is_complex or (x is not None and x.dtype.is_complex):  # x + y i
        (xr, xi), (yr, yi) = (parts(e, e.cast(v, C128)) for v in (a, y.value))
        # a part that is not there is not added: it would change the sign of a zero
        real_part = e.pure("subtract", xr, yi) if y.dtype.is_complex else xr
        made = e.pure("makeComplex", real_part, e.pure("add", xi, yr) if x is not None and x.dtype.is_complex else yr)
    else:
        made = e.pure("makeComplex", e.cast(a, F64), e.cast(y.value, F64))
    return Scalar(made, weak=True)


def number(e: Emitter, x: Any, what: str) -> Scalar:
    """A scalar argument of a function of Python numbers."""
    x = operand(e, x, what)
    if not isinstance(x, Scalar):
        e.error(TypeMismatch, f"{what} needs a number, not {describe(x)}", help="the function of np works on arrays")
    return x


# -- cmath -------------------------------------------------------------------------------------------


def _not_nan(e: Emitter, x: Value) -> Value:
    return e.pure("not", e.pure("isNan", x))


def _finite_or_plus(e: Emitter, x: Value) -> Value:
    return e.either(e.pure("isFinite", x), e.pure("equal", x, literal(math.inf)))


# where one part is infinite, the function has no direction if the other part is such
_DOMAIN: dict[str, Callable[[Emitter, Value], Value]] = {
    "exp": _finite_or_plus, "sinh": _not_nan, "cosh": _not_nan, "sin": _not_nan, "cos": _not_nan,
    "tanh": lambda e, x: e.pure("isFinite", x), "tan": lambda e, x: e.pure("isFinite", x),
}  # fmt: skip


def _function(op: str) -> Callable[..., Any]:
    def function(e: Emitter, z: Any) -> Any:
        value = e.cast(number(e, z, f"cmath.{op}").value, C128)
        if op in ("log", "log10"):
            e.check(e.pure("notEqual", value, literal(0j)), "ValueError", "math domain error")
        if op == "atanh":
            for pole in (1 + 0j, -1 + 0j):
                e.check(e.pure("notEqual", value, literal(pole)), "ValueError", "math domain error")
        if op == "atan":
            for pole in (1j, -1j):
                e.check(e.pure("notEqual", value, literal(pole)), "ValueError", "math domain error")
        if op in _DOMAIN:
            real, imaginary = parts(e, value)
            flag = e.both(_is_infinite(e, imaginary), _DOMAIN[op](e, real))
            if op in ("sin", "cos", "tan"):  # those of i z
                flag = e.both(_is_infinite(e, real), _DOMAIN[op](e, imaginary))
            e.check(e.pure("not", flag), "ValueError", "math domain error")
        result = e.pure(op, value)
        if op in ("exp", "sinh", "cosh", "sin", "cos"):
            _finite(e, result, "math range error", value)
        return Scalar(result, weak=True)

    return function


def _log(e: Emitter, z: Any, base: Any = None) -> Any:
    if base is None:
        return _function("log")(e, z)
    # with a base, Python raises for that alone
    top = Scalar(e.pure("log", e.cast(number(e, z, "cmath.log").value, C128)), weak=True)
    bottom = _function("log")(e, base).value
    e.check(e.pure("notEqual", bottom, literal(0j)), "ValueError", "math domain error")
    return Scalar(binary(e, "/", top.value, bottom), weak=True)


def _phase(e: Emitter, z: Any) -> Any:
    real, imaginary = parts(e, e.cast(number(e, z, "cmath.phase").value, C128))
    return Scalar(e.pure("atan2", imaginary, real), weak=True)


def _rect(e: Emitter, r: Any, phi: Any) -> Any:
    size, angle = (e.cast(number(e, v, "cmath.rect").value, F64) for v in (r, phi))
    turning = e.both(e.pure("notEqual", size, literal(0.0)), _not_nan(e, size))
    e.check(e.pure("not", e.both(_is_infinite(e, angle), turning)), "ValueError", "math domain error")
    nothing = e.both(e.pure("equal", size, literal(0.0)), e.pure("not", e.pure("isFinite", angle)))
    real, imaginary = (e.choose(nothing, size, e.pure("multiply", size, e.pure(op, angle))) for op in ("cos", "sin"))
    # an infinite number on the real axis stays on it
    level = e.both(_is_infinite(e, size), e.pure("equal", angle, literal(0.0)))
    imaginary = e.choose(level, e.pure("multiply", e.pure("copysign", literal(1.0), size), angle), imaginary)
    return Scalar(e.pure("makeComplex", real, imaginary), weak=True)


def _polar(e: Emitter, z: Any) -> Any:
    value = e.cast(number(e, z, "cmath.polar").value, C128)
    return Sequence((Scalar(absolute(e, value), weak=True), _phase(e, z)))


def _test(op: str) -> Callable[..., Any]:
    def function(e: Emitter, z: Any) -> Any:
        value = e.cast(number(e, z, f"cmath.{op}").value, C128)
        return Scalar(e.pure(op, value), weak=True)

    return function


def _isinf(e: Emitter, z: Any) -> Any:
    return Scalar(_has_infinity(e, e.cast(number(e, z, "cmath.isinf").value, C128)), weak=True)


CMATH: dict[Any, Any] = {
    getattr(cmath, name): _function(name)
    for name in (
        "exp", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
        "log10",
    )
} | {
    cmath.log: _log, cmath.phase: _phase, cmath.rect: _rect, cmath.polar: _polar,
    cmath.isfinite: _test("isFinite"), cmath.isnan: _test("isNan"), cmath.isinf: _isinf,
}  # fmt: skip
