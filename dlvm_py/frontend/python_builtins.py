"""Python's built-in functions and the math module: Python semantics, Python's errors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from types import UnionType
from typing import Any

import gast
import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import operators, python_complex
from dlvm_py.frontend.capture import is_named_tuple
from dlvm_py.frontend.elementwise import REAL_PART, UFUNCS, operand, ufunc_call
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.indexing import as_index
from dlvm_py.frontend.iterate import enumerate_, range_, reversed_, zip_
from dlvm_py.frontend.library import elementwise, hashing, mathematics
from dlvm_py.frontend.operators import weak
from dlvm_py.frontend.values import (
    Array,
    Caught,
    Closure,
    Derivative,
    Growing,
    Iteration,
    KnownSet,
    Method,
    RandomGenerator,
    Record,
    Scalar,
    Sequence,
    SliceKey,
    Static,
    Temp,
    describe,
)
from dlvm_py.ir import F64, I64, Value, literal

_TWO63 = 2.0**63
# CPython's wording, which changes between versions
_DIVMOD = python_complex.message_of(ZeroDivisionError, lambda: divmod(1.0, 0.0))


def _number(e: Emitter, x: Any, what: str) -> Scalar:
    """A real number."""
    x = operand(e, x, what)
    if x.dtype.is_complex:
        e.error(TypeMismatch, f"{what} needs a real number, not {describe(x)}", help=REAL_PART)
    if not isinstance(x, Scalar):
        e.error(
            TypeMismatch,
            f"{what} needs a number, not {describe(x)}",
            help=_array_form(what),
        )
    return x


def _array_form(what: str) -> str:
    """What to write for arrays instead of a function of numbers."""
    name = what.removeprefix("math.")
    if what in ("int", "float", "bool"):
        return f"index an element: {what}(x[0]); or convert the array: x.astype({what})"
    name = {"fabs": "abs", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}.get(name, name)
    return f"np.{name} works on arrays" if getattr(np, name, None) in UFUNCS else "loop over the elements"


def len_(e: Emitter, x: Any) -> Any:
    """len of an array, tuple or range."""
    if isinstance(x, Sequence):
        return weak(i64(len(x.items)))
    if isinstance(x, (Array, Temp)) and x.rank:
        return weak(x.extents[0])
    if isinstance(x, Iteration):
        return weak(x.count)
    if isinstance(x, Growing):
        return weak(x.length)
    if isinstance(x, Record) and (x.kind is dict or is_named_tuple(x.kind)):
        return weak(i64(len(x.items)))
    if isinstance(x, Static) and isinstance(x.value, str):
        return weak(i64(len(x.value)))
    e.error(TypeMismatch, f"{describe(x)} has no len()")


def abs_(e: Emitter, x: Any) -> Any:
    """abs: np.absolute for NumPy values."""
    x = operand(e, x, "abs")
    if not (isinstance(x, Scalar) and x.weak):
        return ufunc_call(e, np.absolute, x)
    if x.dtype.is_complex:
        return weak(python_complex.absolute(e, x.value))
    if x.dtype.is_float:
        return weak(e.pure("abs", x.value))
    value = e.pure("abs", e.cast(x.value, I64), checked=True)
    low, high = e.facts.range_of(e.cast(x.value, I64))
    e.facts.interval.setdefault(value, (0, max(abs(low), abs(high))))
    return weak(value)


def int_(e: Emitter, x: Any = None) -> Any:
    """int(x): truncation; ValueError and OverflowError for what is no 64-bit int."""
    if x is None:
        return weak(i64(0))
    x = _number(e, x, "int")
    if not x.dtype.is_float:
        return weak(e.whole(x.value, "OverflowError"))
    value = e.cast(x.value, F64)
    e.check(e.pure("not", e.pure("isNan", value)), "ValueError", "cannot convert float NaN to integer")
    e.check(e.pure("isFinite", value), "OverflowError", "cannot convert float infinity to integer")
    fits = e.both(e.pure("lessThan", value, literal(_TWO63)), e.pure("greaterThanOrEqual", value, literal(-_TWO63)))
    e.check(fits, "OverflowError", "int({}) does not fit 64 bits", value)
    return weak(e.cast(value, I64))


def float_(e: Emitter, x: Any = None) -> Any:
    """float(x)."""
    if isinstance(x, Static) and isinstance(x.value, str):
        try:
            return weak(literal(float(x.value)))
        except ValueError as error:
            e.error(TypeMismatch, str(error))
    return weak(literal(0.0)) if x is None else weak(e.cast(_number(e, x, "float").value, F64))


def bool_(e: Emitter, x: Any = None) -> Any:
    """bool(x)."""
    return weak(literal(False)) if x is None else weak(operators.condition(e, x))


def round_(e: Emitter, x: Any, ndigits: Any = None) -> Any:
    """round(x) to an int, round(x, n) to a place behind or before the point; halves to even."""
    if isinstance(x, (Array, Temp)):
        e.error(TypeMismatch, "type numpy.ndarray doesn't define __round__ method", help="np.round(x, n), or float(x)")
    if ndigits is not None and not (isinstance(ndigits, Static) and ndigits.value is None):
        return _round_to(e, x, ndigits)
    x = _number(e, x, "round")
    if not x.dtype.is_own:
        e.error(TypeMismatch, "a bfloat16 has no round()", help="round(float(x))")
    return int_(e, Scalar(e.pure("rint", x.value), x.weak) if x.dtype.is_float else x)


def _round_to(e: Emitter, x: Any, ndigits: Any) -> Any:
    if isinstance(x, Scalar) and x.weak:
        x, digits = _number(e, x, "round"), weak(as_index(e, ndigits, "the digits of round"))
        if isinstance(x.number, float) and isinstance(digits.number, int):
            return weak(literal(round(x.number, digits.number)))
        rule = mathematics.round_float if x.dtype.is_float else mathematics.round_int
        return e.session.library(e, rule, [weak(e.cast(x.value, F64 if x.dtype.is_float else I64)), digits], {})
    return e.session.library(e, elementwise.around, [x, ndigits], {})


def slice_(e: Emitter, *bounds: Any) -> Any:
    """slice(stop), slice(start, stop), slice(start, stop, step)."""
    if not 1 <= len(bounds) <= 3:
        e.error(TypeMismatch, f"slice expected 1 to 3 arguments, got {len(bounds)}")
    start, stop, step = (None, *bounds, None) if len(bounds) == 1 else (*bounds, None)[:3]
    return SliceKey(*(_slice_bound(e, b) for b in (start, stop, step)))


def _slice_bound(e: Emitter, bound: Any) -> Scalar | None:
    if bound is None or (isinstance(bound, Static) and bound.value is None):
        return None
    return weak(as_index(e, bound, "a bound of a slice"))


def isinstance_(e: Emitter, x: Any, classes: Any) -> Any:
    """isinstance, decided at compile time."""
    wanted = classes.items if isinstance(classes, Sequence) else (classes,)
    wanted = tuple(p for c in wanted for p in _parts_of_union(c))
    kinds = tuple(c.value for c in wanted if isinstance(c, Static) and isinstance(c.value, type))
    if len(kinds) != len(wanted):
        e.error(UnsupportedSyntax, "isinstance needs a class or a tuple of classes")
    return weak(literal(issubclass(_class_of(x), kinds)))


def _parts_of_union(kind: Any) -> tuple[Any, ...]:
    if isinstance(kind, Static) and isinstance(kind.value, UnionType):
        return tuple(map(Static, kind.value.__args__))
    return (kind,)


def _class_of(x: Any) -> type:
    match x:
        case Scalar():
            if x.weak:
                return {"b": bool, "f": float, "c": complex}.get(x.dtype.kind, int)
            return x.dtype.numpy.type
        case Caught():
            return x.kind
        case Array() | Temp():
            return np.ndarray
        case Sequence():
            return list if x.is_list else tuple
        case Growing():
            return list
        case Record():
            return {hashing.Set: set, hashing.Dict: dict}.get(x.kind, x.kind)
        case Static():
            return set if isinstance(x.value, KnownSet) else type(x.value)
        case SliceKey():
            return slice
        case Closure():
            return type(_class_of)
        case RandomGenerator():
            return np.random.Generator
    return object


def type_(e: Emitter, x: Any) -> Any:
    """type(x), known when the call is compiled."""
    return Static(_class_of(x))


def issubclass_(e: Emitter, kind: Any, classes: Any) -> Any:
    """issubclass of classes that are known."""
    wanted = classes.items if isinstance(classes, Sequence) else (classes,)
    kinds = [k.value for k in (kind, *(p for c in wanted for p in _parts_of_union(c))) if isinstance(k, Static)]
    if len(kinds) <= len(wanted) or not all(isinstance(k, type) for k in kinds):
        e.error(UnsupportedSyntax, "issubclass needs classes", help="pass classes that are known outside")
    return weak(literal(issubclass(kinds[0], tuple(kinds[1:]))))


def hasattr_(e: Emitter, x: Any, name: Any) -> Any:
    """hasattr(x, "name"), decided at compile time by the class of x."""
    if not isinstance(name, Static) or not isinstance(name.value, str):
        e.error(UnsupportedSyntax, "hasattr needs a constant name")
    if isinstance(x, Static):
        return weak(literal(hasattr(x.value, name.value)))
    if isinstance(x, Record) and name.value in x.names and x.kind is not dict:
        return weak(literal(True))
    return weak(literal(hasattr(_class_of(x), name.value)))


def callable_(e: Emitter, value: Any) -> Any:
    """callable(x): functions are, data is not."""
    known = isinstance(value, (Closure, Derivative, Method)) or (isinstance(value, Static) and callable(value.value))
    return weak(literal(known))


def divmod_(e: Emitter, a: Any, b: Any) -> Any:
    """divmod."""
    if all(isinstance(v, Scalar) and v.weak for v in (a, b)) and any(v.dtype.is_float for v in (a, b)):
        e.check(e.pure("notEqual", e.cast(b.value, F64), literal(0.0)), "ZeroDivisionError", _DIVMOD)
    return Sequence((operators.binary(e, gast.FloorDiv, a, b), operators.binary(e, gast.Mod, a, b)))


def pow_(e: Emitter, a: Any, b: Any, mod: Any = None) -> Any:
    """pow(a, b) and, of ints, pow(a, b, mod)."""
    if mod is not None and not (isinstance(mod, Static) and mod.value is None):
        numbers = [weak(as_index(e, v, "an argument of pow with a modulus")) for v in (a, b, mod)]
        return e.session.library(e, mathematics.power_modulo, numbers, {})
    return operators.binary(e, gast.Pow, a, b)


# -- math --------------------------------------------------------------------------------------------


# the largest numbers whose results are finite; of sinh and cosh on both sides
_LARGEST = {
    "exp": 709.782712893384,
    "exp2": 1023.9999999999999,
    "expm1": 709.782712893384,
    "sinh": 710.4758600739439,
    "cosh": 710.4758600739439,
}


def _domain(e: Emitter, op: str, x: Value) -> None:
    """Python's math raises where NumPy gives nan or inf.

    What is asked is asked of the argument where that says it: a loop can ask it of all its elements ahead.
    """
    condition = {
        "sqrt": lambda: e.pure("not", e.pure("lessThan", x, literal(0.0))),
        "log": lambda: e.pure("not", e.pure("lessThanOrEqual", x, literal(0.0))),
        "log2": lambda: e.pure("not", e.pure("lessThanOrEqual", x, literal(0.0))),
        "log10": lambda: e.pure("not", e.pure("lessThanOrEqual", x, literal(0.0))),
        "log1p": lambda: e.pure("not", e.pure("lessThanOrEqual", x, literal(-1.0))),
        "acosh": lambda: e.pure("not", e.pure("lessThan", x, literal(1.0))),
        "atanh": lambda: e.pure("not", e.pure("greaterThanOrEqual", e.pure("abs", x), literal(1.0))),
        "asin": lambda: e.pure("not", e.pure("greaterThan", e.pure("abs", x), literal(1.0))),
        "acos": lambda: e.pure("not", e.pure("greaterThan", e.pure("abs", x), literal(1.0))),
        **dict.fromkeys(("sin", "cos", "tan"), lambda: e.pure("notEqual", e.pure("abs", x), literal(math.inf))),
        "gamma": lambda: e.pure("not", _is_pole(e, x)),
        "lgamma": lambda: e.pure("not", e.both(_is_pole(e, x), e.pure("isFinite", x))),
    }.get(op)
    if condition is not None:
        e.check(condition(), "ValueError", "math domain error")
    if op in _LARGEST:
        size = e.pure("abs", x) if op in ("sinh", "cosh") else x
        fits = e.pure("lessThanOrEqual", size, literal(_LARGEST[op]))
        e.check(e.either(fits, e.pure("not", e.pure("isFinite", x))), "OverflowError", "math range error")


def _is_pole(e: Emitter, x: Value) -> Value:
    """Whether x is 0, a negative integer or -inf."""
    return e.both(e.pure("lessThanOrEqual", x, literal(0.0)), e.pure("equal", x, e.pure("floor", x)))


def _math(op: str) -> Callable[..., Any]:
    def function(e: Emitter, x: Any) -> Any:
        value = e.cast(_number(e, x, f"math.{op}").value, F64)
        _domain(e, op, value)
        result = e.pure(op, value)
        if op in ("gamma", "lgamma"):
            finite = e.either(e.pure("isFinite", result), e.pure("not", e.pure("isFinite", value)))
            e.check(finite, "OverflowError", "math range error")
        return weak(result)

    return function


def _math2(op: str) -> Callable[..., Any]:
    def function(e: Emitter, x: Any, y: Any) -> Any:
        a, b = (e.cast(_number(e, v, f"math.{op}").value, F64) for v in (x, y))
        return weak(e.pure(op, a, b))

    return function


def _log(e: Emitter, x: Any, base: Any = None) -> Any:
    top = _math("log")(e, x)
    return top if base is None else operators.binary(e, gast.Div, top, _math("log")(e, base))


def _to_int(op: str) -> Callable[..., Any]:
    def function(e: Emitter, x: Any) -> Any:
        x = _number(e, x, f"math.{op}")
        return int_(e, weak(e.pure(op, e.cast(x.value, F64))) if x.dtype.is_float else x)

    return function


def _test(op: str, negate: bool = False) -> Callable[..., Any]:
    def function(e: Emitter, x: Any) -> Any:
        value = e.cast(_number(e, x, f"math.{op}").value, F64)
        if negate:  # isinf
            return weak(e.pure("not", e.either(e.pure("isFinite", value), e.pure("isNan", value))))
        return weak(e.pure(op, value))

    return function


MATH: dict[Any, Any] = {
    getattr(math, name): _math(op)
    for name, op in {
        "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh",
        "cosh": "cosh", "tanh": "tanh", "exp": "exp", "expm1": "expm1", "log2": "log2", "log10": "log10",
        "log1p": "log1p", "sqrt": "sqrt", "fabs": "abs", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
        "erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "lgamma", "cbrt": "cbrt", "exp2": "exp2",
    }.items()
    if hasattr(math, name)  # cbrt and exp2 came with Python 3.11
} | {
    math.log: _log, math.atan2: _math2("atan2"),
    math.copysign: _math2("copysign"),
    math.floor: _to_int("floor"), math.ceil: _to_int("ceil"), math.trunc: _to_int("truncate"),
    math.isfinite: _test("isFinite"), math.isnan: _test("isNan"), math.isinf: _test("isInf", negate=True),
}  # fmt: skip

BUILTINS: dict[Any, Any] = {
    builtins.len: len_, builtins.abs: abs_, builtins.int: int_, builtins.float: float_,
    builtins.bool: bool_, builtins.round: round_, builtins.range: range_, builtins.enumerate: enumerate_,
    builtins.zip: zip_, builtins.reversed: reversed_,
    builtins.isinstance: isinstance_, builtins.divmod: divmod_, builtins.pow: pow_,
    builtins.type: type_, builtins.issubclass: issubclass_, builtins.hasattr: hasattr_,
    builtins.callable: callable_, builtins.slice: slice_, builtins.complex: python_complex.make,
}  # fmt: skip
