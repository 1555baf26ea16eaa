"""Functions as values: calls of them, and combinations of elements by a function.

A function is named by a literal, `@f: (f32) -> f32`; a value of a function type is a parameter, or what a
branch passes. These ops need a caller, so they have no value semantics of their own: the interpreter runs them, and
transforms/lower_functions.py makes calls of known functions and loops of them, before derivatives and native code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlvm_py.ir.op import ALLOCATE, READ, TRAP, WRITE, Kind, Op
from dlvm_py.ir.ops.arrange import checked_axes
from dlvm_py.ir.ops.rules import tensor
from dlvm_py.ir.ops.window import window_type
from dlvm_py.ir.types import FunctionType, TensorType, Type, scalar
from dlvm_py.ir.value import Value

LOWERED = "lowered before differentiation, by transforms/lower_functions.py"
EFFECTS = frozenset({READ, WRITE, TRAP, ALLOCATE})  # of a call


def _call_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    function, *given = operands
    if not isinstance(function.type, FunctionType):
        raise TypeError(f"{function.type} is no function")
    passed = FunctionType(tuple(v.type for v in given), attrs["result"])
    if passed != function.type:
        raise TypeError(f"a {function.type} is called as {passed}")
    return attrs["result"]


def _check_combiner(combiner: Value, x: TensorType) -> None:
    element = scalar(x.dtype)
    wanted = FunctionType((element, element), element)
    if combiner.type != wanted:
        raise TypeError(f"{x} is combined by a {wanted}, not by a {combiner.type}")


def _reduce_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, combiner, init = operands
    t, axes = tensor(x), attrs["axes"]
    _check_combiner(combiner, t)
    checked_axes(t, axes)
    if init.type != scalar(t.dtype):
        raise TypeError(f"init must be a {t.dtype} scalar, not {init.type}")
    return TensorType(tuple(n for k, n in enumerate(t.shape) if k not in axes), t.dtype)


def _scan_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t = tensor(operands[0])
    _check_combiner(operands[1], t)
    checked_axes(t, attrs["axes"])
    return t


def _reduce_window_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    x, combiner, init = operands
    t = tensor(x)
    _check_combiner(combiner, t)
    if init.type != scalar(t.dtype):
        raise TypeError(f"init must be a {t.dtype} scalar, not {init.type}")
    return window_type(t, attrs)


def _op(name: str, rule: Any, *attrs: str) -> Op:
    return Op(name, Kind.HIGHER_ORDER, rule, None, attrs=attrs, effects=EFFECTS, no_derivative=LOWERED)


# apply %f(args) -> result
applyValue = _op("applyValue", _call_type, "result")
# reduce x by f init v along axes: r = v, then r = f(r, x) for all x in C order of the reduced axes
reduceBy = _op("reduceBy", _reduce_type, "axes")
# scan x by f along axes: y(0) = x(0), y(k) = f(y(k-1), x(k)), along one axis after the other
scanBy = _op("scanBy", _scan_type, "axes")
# reduceWindow x by f init v ...: as reduceBy for each window, without what lies outside of x
reduceWindowBy = _op("reduceWindowBy", _reduce_window_type, "dims", "strides", "padding")

FUNCTIONS = (applyValue, reduceBy, scanBy, reduceWindowBy)
# ops that may combine too, from the first element to the last; the others are associative, and words of `reduce`
FOLDS = frozenset("subtract divide truncateDivide floorDivide modulo power atan2 hypot bitAnd bitOr bitXor".split())
COMBINATIONS = {"reduce": reduceBy, "scan": scanBy, "reduceWindow": reduceWindowBy}
