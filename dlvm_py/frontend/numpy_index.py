"""Functions that index with arrays, or find where to: the `at` methods of ufuncs, nonzero, argwhere, where."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch
from dlvm_py.frontend import advanced, subscripts
from dlvm_py.frontend.arrays import arrayed, require_array, require_writable, store, tensor_of
from dlvm_py.frontend.elementwise import in_place, loop_dtypes, operand, strong, truth, ufunc_call, where
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.library import ufunc_methods
from dlvm_py.frontend.numpy_create import scalar_of
from dlvm_py.frontend.values import NONE, Array, Scalar, Sequence, Static, Temp, describe
from dlvm_py.ir import BOOL, F64, DType

_COMBINED = {
    np.add: "add", np.subtract: "add", np.multiply: "multiply", np.maximum: "max", np.minimum: "min",
}  # fmt: skip
_ON_BOOL = {"add": "or", "multiply": "and", "max": "or", "min": "and"}


def _at(ufunc: np.ufunc) -> Any:
    """ufunc.at(a, indices, b) as a scatter, where its loop is that of `a`; else one application after the other."""

    def at(e: Emitter, a: Any, indices: Any, b: Any) -> Any:
        if not isinstance(a, Array):
            e.error(TypeMismatch, f"np.{ufunc.__name__}.at needs an array that has a name, not {describe(a)}")
        require_writable(e, a)
        b = strong(operand(e, b, f"np.{ufunc.__name__}.at"))  # NumPy makes an array of it
        if not _in_own_loop(ufunc, a.dtype, b, loop_dtypes(e, ufunc, [a, b])[0]):
            return e.session.library(e, ufunc_methods.binary_at, [Static(ufunc), a, indices, b], {})
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


def _in_own_loop(ufunc: np.ufunc, own: DType, b: Any, loop: DType) -> bool:
    """Whether computing in the dtype of the array gives what computing in NumPy's loop and casting back gives."""
    if loop is own:
        return True
    n = b.number if isinstance(b, Scalar) else None
    extreme = ufunc in (np.maximum, np.minimum)
    if loop.is_integer and own.is_integer:  # rings: what is cut off does not come back
        return not extreme or (isinstance(n, int) and int(np.int64(n).astype(own.numpy)) == n)
    if extreme and loop.is_float and own.is_float:  # rounding keeps the order
        return True
    if n is None or isinstance(n, complex) or not (loop is F64 and own.is_float):
        return False
    # a sum or product of two narrow numbers is rounded twice to the same: F64 has more than twice their bits
    with np.errstate(over="ignore"):
        return bool(own.numpy.type(n) == n)


def _flags(e: Emitter, a: Any, what: str) -> Temp:
    a = require_array(e, a, what)
    if not a.rank:
        e.error(TypeMismatch, f"{what} needs an array with axes")
    return Temp(truth(e, tensor_of(e, a)), a.extents, e.block)


def nonzero(e: Emitter, a: Any) -> Any:
    """np.nonzero: the indices of the elements that are not zero, one array an axis."""
    found = advanced.true_places(e, _flags(e, a, "np.nonzero"))
    return Sequence(tuple(Temp(row, (found.count,), e.block) for row in found.rows))


def argwhere(e: Emitter, a: Any) -> Any:
    """np.argwhere: the indices of the elements that are not zero, one row an element."""
    flags = _flags(e, a, "np.argwhere")
    found = advanced.true_places(e, flags)
    return Temp(e.emit("transpose", found.table), (found.count, i64(flags.rank)), e.block)


def where_(e: Emitter, condition: Any, x: Any = None, y: Any = None) -> Any:
    """np.where(condition, x, y), or np.where(condition), which is np.nonzero; the library computes with numbers."""
    if x is None and y is None:
        return nonzero(e, condition)
    if x is None or y is None:
        e.error(TypeMismatch, "either both or neither of x and y should be given")
    found = where(e, condition, x, y)
    return found if e.is_library else arrayed(e, found)


def index_of(e: Emitter, index: Any) -> Any:
    """np.s_[...]: the index itself."""
    return index


def indices_of(e: Emitter, index: Any) -> Any:
    """np.index_exp[...]: the index as a tuple."""
    return index if isinstance(index, Sequence) else Sequence((index,))


INDEX: dict[Any, Any] = {
    **{ufunc.at: _at(ufunc) for ufunc in _COMBINED},
    np.nonzero: nonzero, np.argwhere: argwhere, np.where: where_,
}  # fmt: skip
INDEX_METHODS: dict[str, Any] = {"nonzero": nonzero}
