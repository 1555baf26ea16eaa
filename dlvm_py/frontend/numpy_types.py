"""Questions about dtypes and shapes, answered when the call is compiled: result_type, can_cast, broadcast_shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import objects
from dlvm_py.frontend.arrays import broadcast_extents
from dlvm_py.frontend.elementwise import promoted
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.numpy_create import as_shape
from dlvm_py.frontend.numpy_signature import Implementing
from dlvm_py.frontend.values import Array, Growing, Record, Scalar, Sequence, Static, Temp, describe
from dlvm_py.ir import literal


def _typed(e: Emitter, value: Any, what: str) -> Any:
    """A dtype where one is given, else the value itself."""
    if isinstance(value, Static):
        try:
            return np.dtype(value.value)
        except TypeError:
            pass
    if not isinstance(value, (Scalar, Array, Temp)):
        e.error(TypeMismatch, f"{what} needs arrays, numbers and dtypes, not {describe(value)}")
    return value


def result_type(e: Emitter, *values: Any) -> Static:
    """np.result_type: the dtype that arrays, numbers and dtypes are promoted to."""
    found = [_typed(e, v, "np.result_type") for v in values]
    dtypes = [v for v in found if isinstance(v, np.dtype)]
    operands = [v for v in found if not isinstance(v, np.dtype)]
    return Static(np.result_type(*dtypes, *([promoted(*operands)] if operands else [])))


def _question(function: Any) -> Any:
    """A function of NumPy that is asked about dtypes when the call is compiled."""

    def rule(e: Emitter, *values: Any, **named: Any) -> Any:
        dtypes: list[Any] = []
        for value in (*values, *named.values()):  # NumPy's signature has put these in order
            if isinstance(value, Static):
                dtypes.append(value.value)
            elif isinstance(value, Sequence) and all(isinstance(item, Static) for item in value.items):
                dtypes.append(tuple(item.value for item in value.items))
            elif isinstance(value, (Array, Temp)) or (isinstance(value, Scalar) and not value.weak):
                dtypes.append(value.dtype.numpy)
            else:
                e.error(TypeMismatch, f"np.{function.__name__} needs dtypes, not {describe(value)}")
        try:
            answer = function(*dtypes)
        except (TypeError, ValueError) as error:
            e.error(TypeMismatch, f"np.{function.__name__}: {error}")
        return Scalar(literal(answer), weak=True) if isinstance(answer, bool) else Static(answer)

    return Implementing(function, rule)


def min_scalar_type(e: Emitter, a: Any) -> Static:
    """np.min_scalar_type: the dtype of an array; of a constant the least one that holds it."""
    if isinstance(a, Scalar) and a.number is not None:
        return Static(np.min_scalar_type(a.number))
    if isinstance(a, Static):
        return Static(np.min_scalar_type(np.dtype(a.value)))
    if not isinstance(a, (Array, Temp)) or not a.rank:
        e.error(
            UnsupportedSyntax, f"np.min_scalar_type of {describe(a)} depends on its value",
            help="ask for the dtype of an array, or of a constant",
        )  # fmt: skip
    return Static(a.dtype.numpy)


def common_type(e: Emitter, *arrays: Any) -> Static:
    """np.common_type: the floating-point type that holds what all arrays hold."""
    for a in arrays:
        if not isinstance(a, (Array, Temp, Scalar)) or isinstance(a, Scalar) and a.weak:
            e.error(TypeMismatch, f"np.common_type needs arrays, not {describe(a)}")
    return Static(np.common_type(*(np.zeros(1, a.dtype.numpy) for a in arrays)))


def iterable(e: Emitter, y: Any) -> Scalar:
    """np.iterable: whether it has items."""
    if isinstance(y, (Array, Temp)):
        return Scalar(literal(y.rank > 0), weak=True)
    held = objects.contents(e, y)
    if isinstance(held, Static):
        return Scalar(literal(bool(np.iterable(held.value))), weak=True)
    return Scalar(literal(isinstance(held, (Sequence, Growing, Record))), weak=True)


def broadcast_shapes(e: Emitter, *shapes: Any) -> Sequence:
    """np.broadcast_shapes, checked at run time where the extents are not known."""
    extents = broadcast_extents(e, [as_shape(e, s) for s in shapes])
    return Sequence(tuple(Scalar(n, weak=True) for n in extents))


TYPES: dict[Any, Any] = {
    np.result_type: result_type,
    np.broadcast_shapes: broadcast_shapes,
    np.min_scalar_type: min_scalar_type,
    np.common_type: common_type,
    np.iterable: iterable,
    **{f: _question(f) for f in (np.can_cast, np.issubdtype, np.promote_types, np.isdtype)},
}
