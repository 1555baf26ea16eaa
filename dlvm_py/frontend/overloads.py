"""Operators of the user's classes: a dataclass or named tuple says what `a + b`, `a[k]`, `a(x)` are by its methods."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import gast

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import objects, operators
from dlvm_py.frontend.capture import is_written_by_user
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.values import Array, Object, Record, Scalar, Static, Temp, describe

_BINARY = {
    gast.Add: "add", gast.Sub: "sub", gast.Mult: "mul", gast.Div: "truediv", gast.FloorDiv: "floordiv",
    gast.Mod: "mod", gast.Pow: "pow", gast.MatMult: "matmul", gast.BitAnd: "and", gast.BitOr: "or",
    gast.BitXor: "xor", gast.LShift: "lshift", gast.RShift: "rshift",
}  # fmt: skip
_UNARY = {gast.USub: "__neg__", gast.UAdd: "__pos__", gast.Invert: "__invert__"}
_COMPARISONS = {
    gast.Eq: ("__eq__", "__eq__"), gast.NotEq: ("__ne__", "__ne__"), gast.Lt: ("__lt__", "__gt__"),
    gast.LtE: ("__le__", "__ge__"), gast.Gt: ("__gt__", "__lt__"), gast.GtE: ("__ge__", "__le__"),
}  # fmt: skip
_SYMBOLS = {gast.Lt: "<", gast.LtE: "<=", gast.Gt: ">", gast.GtE: ">="}


def class_of(e: Emitter, value: Any) -> type | None:
    """The class of the user that a value is an instance of."""
    if not isinstance(value, Object | Record):
        return None
    held = objects.contents(e, value)
    return held.kind if isinstance(held, Record) and held.kind.__module__ != "builtins" else None


def method(e: Emitter, value: Any, name: str) -> FunctionType | None:
    """A special method that the user has written for the class of a value."""
    kind = class_of(e, value)
    found = None if kind is None else inspect.getattr_static(kind, name, None)
    return found if isinstance(found, FunctionType) and is_written_by_user(found) else None


def called(e: Emitter, value: Any, name: str, *args: Any) -> Any:
    """What a special method gives; None if there is none, or where it gives NotImplemented."""
    function = method(e, value, name)
    if function is None:
        return None
    found = e.session.invoke(e, Static(function), [value, *args], {})
    return None if isinstance(found, Static) and found.value is NotImplemented else found


def _handed_on(e: Emitter, value: Any, other: Any) -> Any:
    """A left operand as the reflected method of `other` gets it: NumPy hands its numbers on as Python's.

    What NumPy takes apart itself is refused: an array, and beside its numbers an instance that looks like a sequence.
    """
    is_number = isinstance(value, Scalar) and not value.weak
    kind = class_of(e, other)
    looks_like_one = kind is not None and (issubclass(kind, tuple) or hasattr(kind, "__len__"))
    if isinstance(value, Array | Temp) or (is_number and looks_like_one):
        e.error(
            UnsupportedSyntax,
            f"NumPy takes {describe(objects.contents(e, other))} beside {describe(value)} apart, item by item",
            help="put it on the left, or make the number Python's: float(x)",
        )
    return Scalar(value.value, True) if is_number else value


def _either(e: Emitter, a: Any, name: str, b: Any, reflected: str) -> Any:
    """a.name(b), or else b.reflected(a); that comes first where b is of a class derived from that of a."""
    one, other = class_of(e, a), class_of(e, b)
    is_derived = one is not None and other is not None and one is not other and issubclass(other, one)
    if is_derived and method(e, b, reflected) is not method(e, a, reflected):
        found = called(e, b, reflected, a)
        return called(e, a, name, b) if found is None else found
    found = called(e, a, name, b)
    if found is None and (one is not other or not reflected.startswith("__r")):
        found = None if method(e, b, reflected) is None else called(e, b, reflected, _handed_on(e, a, b))
    return found


def binary(e: Emitter, kind: type, a: Any, b: Any) -> Any:
    """a op b; None if neither class says what that is."""
    name = _BINARY[kind]
    return _either(e, a, f"__{name}__", b, f"__r{name}__")


def augmented(e: Emitter, kind: type, a: Any, b: Any) -> Any:
    """What `a op= b` binds; None if the class does not say."""
    found = called(e, a, f"__i{_BINARY[kind]}__", b)
    return binary(e, kind, a, b) if found is None else found


def unary(e: Emitter, kind: type, a: Any) -> Any:
    """-a, +a, ~a; None if the class does not say."""
    return called(e, a, _UNARY[kind]) if kind in _UNARY else None


def compare(e: Emitter, kind: type, a: Any, b: Any) -> Any:
    """a op b for a comparison; None if neither class says what that is."""
    if kind not in _COMPARISONS or (class_of(e, a) is None and class_of(e, b) is None):
        return None
    name, reflected = _COMPARISONS[kind]
    found = _either(e, a, name, b, reflected)
    if found is None and kind is gast.NotEq:
        equal = _either(e, a, "__eq__", b, "__eq__")
        return None if equal is None else operators.unary(e, gast.Not, objects.resolved(e, equal))
    if found is None and kind in _SYMBOLS and any(method(e, v, n) for v, n in ((a, name), (b, reflected))):
        one, other = (describe(objects.contents(e, v)) for v in (a, b))
        e.error(TypeMismatch, f"`{_SYMBOLS[kind]}` is not supported between {one} and {other}")
    return found
