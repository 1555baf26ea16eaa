"""Where a result goes: `out=` and `where=`, which ufuncs and reductions share."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import ShapeMismatch, TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import allocate, fit, materialise, store
from dlvm_py.frontend.elementwise import operand, where
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.values import Array, Scalar, Sequence, Temp, describe, is_none


def deliver(e: Emitter, name: str, result: Any, out: Any, mask: Any, casting: str = "same_kind") -> Any:
    """The result of a function that takes `out=` and `where=`: stored in `out` where `where` holds, by `casting`."""
    out = destination(e, out)
    masked = mask is not None and not (isinstance(mask, Scalar) and mask.number is True)
    if is_none(out) and not masked:
        return result
    if masked:
        flags = flags_of(e, name, mask)
    if is_none(out):
        # what is not computed is not initialised, as in NumPy
        spread = where(e, flags, result, result)
        if isinstance(spread, Scalar):
            e.error(UnsupportedSyntax, f"np.{name} of numbers with where= is not supported", help="write an `if`")
        out = allocate(e, spread.extents, result.dtype)
    if not isinstance(out, Array):
        e.error(TypeMismatch, f"np.{name}: `out` must be an array, not {describe(out)}", help="out=np.zeros_like(x)")
    if not isinstance(result, Scalar) and result.rank > out.rank:
        e.error(
            ShapeMismatch,
            f"np.{name}: non-broadcastable output operand: `out` has {out.rank} axes, the result {result.rank}",
            help="give an array of the result's shape",
        )
    if not np.can_cast(result.dtype.numpy, out.dtype.numpy, casting=casting):  # type: ignore[arg-type]
        e.error(
            TypeMismatch,
            f"Cannot cast ufunc '{name}' output from dtype('{result.dtype.numpy}') "
            f"to dtype('{out.dtype.numpy}') with casting rule '{casting}'",
            help="give an array of the result's dtype",
        )
    tensor = e.cast(fit(e, result, out.extents, in_place=True), out.dtype)
    if masked:
        kept = Temp(tensor, out.extents, e.block)
        tensor = fit(e, where(e, flags, kept, out), out.extents, in_place=True)
    store(e, tensor, out)
    return out


def destination(e: Emitter, out: Any) -> Any:
    """What `out=` names: an array, of a tuple of one its item; memory for an array that is made in the call."""
    if isinstance(out, Sequence) and len(out.items) == 1:
        out = out.items[0]
    return materialise(e, out)


def dtype_of_destination(out: Any) -> np.dtype | None:
    """The dtype of `out=`, None without one."""
    given = out.items[0] if isinstance(out, Sequence) and len(out.items) == 1 else out
    return given.dtype.numpy if isinstance(given, (Array, Temp)) else None


def flags_of(e: Emitter, name: str, mask: Any) -> Any:
    """The operand of `where=`, which must be bool."""
    mask = operand(e, mask, f"`where` of np.{name}")
    if mask.dtype.kind != "b":
        e.error(TypeMismatch, f"`where` of np.{name} must be bool, not {mask.dtype.numpy_name}")
    return mask
