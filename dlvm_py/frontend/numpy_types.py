"""Questions about dtypes and shapes, answered when the call is compiled: result_type, can_cast, broadcast_shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch
from dlvm_py.frontend.arrays import broadcast_extents
from dlvm_py.frontend.elementwise import promoted
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.numpy_create import as_shape
from dlvm_py.frontend.values import Array, Scalar, Sequence, Static, Temp, describe
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

    def rule(e: Emitter, *values: Any) -> Any:
        dtypes = []
        for value in values:
            if isinstance(value, Static):
                dtypes.append(value.value)
            elif isinstance(value, (Array, Temp)) or (isinstance(value, Scalar) and not value.weak):
                dtypes.append(value.dtype.numpy)
            else:
                e.error(TypeMismatch, f"np.{function.__name__} needs dtypes, not {describe(value)}")
        try:
            answer = function(*dtypes)
        except TypeError as error:
            e.error(TypeMismatch, f"np.{function.__name__}: {error}")
        return Scalar(literal(answer), weak=True) if isinstance(answer, bool) else Static(answer)

    return rule


def broadcast_shapes(e: Emitter, *shapes: Any) -> Sequence:
    """np.broadcast_shapes, checked at run time where the extents are not known."""
    extents = broadcast_extents(e, [as_shape(e, s) for s in shapes])
    return Sequence(tuple(Scalar(n, weak=True) for n in extents))


TYPES: dict[Any, Any] = {
    np.result_type: result_type,
    np.broadcast_shapes: broadcast_shapes,
    **{f: _question(f) for f in (np.can_cast, np.issubdtype, np.promote_types, np.isdtype)},
}
