"""Functions that index with arrays: the `at` methods of ufuncs."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch
from dlvm_py.frontend import advanced, subscripts
from dlvm_py.frontend.arrays import require_writable, store
from dlvm_py.frontend.elementwise import in_place, operand, promoted, ufunc_call
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.numpy_create import scalar_of
from dlvm_py.frontend.values import NONE, Array, describe
from dlvm_py.ir import BOOL

_COMBINED = {
    np.add: "add", np.subtract: "add", np.multiply: "multiply", np.maximum: "max", np.minimum: "min",
}  # fmt: skip
_ON_BOOL = {"add": "or", "multiply": "and", "max": "or", "min": "and"}


def _at(ufunc: np.ufunc) -> Any:
    def at(e: Emitter, a: Any, indices: Any, b: Any) -> Any:
        if not isinstance(a, Array):
            e.error(TypeMismatch, f"np.{ufunc.__name__}.at needs an array that has a name, not {describe(a)}")
        require_writable(e, a)
        b = operand(e, b, f"np.{ufunc.__name__}.at")
        if not np.can_cast(promoted(a, b), a.dtype.numpy, casting="same_kind"):
            e.error(
                TypeMismatch,
                f"np.{ufunc.__name__}.at of {a.dtype.numpy_name} with {describe(b)} loses what does not fit",
                help="convert with .astype",
            )
        place = subscripts.place(e, a, indices)
        if isinstance(place, advanced.Selection):
            by = _COMBINED[ufunc]
            if ufunc is np.subtract:
                b = ufunc_call(e, np.negative, scalar_of(e, a.dtype, b))
            advanced.accumulate(e, place, b, _ON_BOOL[by] if a.dtype is BOOL else by)
        else:
            store(e, in_place(e, ufunc, place, b), place)
        return NONE

    return at


INDEX: dict[Any, Any] = {ufunc.at: _at(ufunc) for ufunc in _COMBINED}
