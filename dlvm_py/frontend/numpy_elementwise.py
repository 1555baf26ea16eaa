"""Elementwise functions that are not ufuncs with an op row: where, clip, and compositions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm_py.frontend.deliver import deliver
from dlvm_py.frontend.elementwise import astype, operand, sample, supported, ufunc_call
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.numpy_create import as_casting
from dlvm_py.frontend.numpy_ufunc import forms
from dlvm_py.frontend.operators import positive
from dlvm_py.frontend.values import Scalar, is_none
from dlvm_py.ir import I64, DType, literal


def _weak(value: float) -> Scalar:
    return Scalar(literal(value), weak=True)


def clip(
    e: Emitter, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,  # noqa: A002
    max: Any = None, where: Any = None, casting: Any = None,  # noqa: A002
) -> Any:  # fmt: skip
    """np.clip: a bound may be None."""
    lowest, highest = (other if is_none(bound) else bound for bound, other in ((a_min, min), (a_max, max)))
    a, lowest, highest = _in_loop_of_clip(e, a, lowest, highest)
    is_between = not is_none(lowest) and not is_none(highest)
    for bound, ufunc, op in ((lowest, np.maximum, "atLeast"), (highest, np.minimum, "atMost")):
        if not is_none(bound):
            # of complex numbers equal but for signs of zeros two bounds give the bound, maximum what it has first
            is_first = is_between and operand(e, a, "np.clip").dtype.is_complex
            pair = (bound, a) if is_first else (a, bound)
            a = ufunc_call(e, ufunc, *pair, on_floats=op)
    return deliver(e, "clip", operand(e, a, "np.clip"), out, where, as_casting(e, casting, "same_kind"))


def clip_method(
    e: Emitter, a: Any, min: Any = None, max: Any = None, out: Any = None, *, where: Any = None,  # noqa: A002
    casting: Any = None,
) -> Any:  # fmt: skip
    """x.clip(min, max)."""
    return clip(e, a, min, max, out, where=where, casting=casting)


def _in_loop_of_clip(e: Emitter, *values: Any) -> tuple[Any, ...]:
    """An array and two bounds in the one dtype of NumPy's loop: a bound counts that the array's does not hold."""
    given = [None if is_none(v) else operand(e, v, "np.clip") for v in values]
    if isinstance(given[0], Scalar) and given[0].weak:  # NumPy makes an array of it, bounds stay as they are
        given[0] = Scalar(given[0].value, weak=False)
    if given[0].dtype.is_integer and not (isinstance(given[0], Scalar) and given[0].weak):
        given[1:] = [_within(e, bound, given[0].dtype, upper) for bound, upper in ((given[1], False), (given[2], True))]
    known = [v for v in given if v is not None]
    if len(known) < 3 or isinstance(given[0], Scalar) and all(v.dtype.is_own for v in known):
        return tuple(given)
    dtype = supported(e, np.clip(*map(sample, known)).dtype, "np.clip")
    # Python's numbers stay weak: what does not fit in the dtype is an error
    return tuple(v if isinstance(v, Scalar) and v.weak and v.dtype.is_own else astype(e, v, dtype) for v in given)


def _within(e: Emitter, bound: Any, dtype: DType, upper: bool) -> Any:
    """A bound that is a Python int: one beyond the dtype, on its side, bounds nothing."""
    if not (isinstance(bound, Scalar) and bound.weak and bound.dtype is I64):
        return bound
    low, high = dtype.limits
    if upper:
        return Scalar(e.minimum(bound.value, i64(min(high, 2**63 - 1))), weak=True)
    return Scalar(e.maximum(bound.value, i64(low)), weak=True)


def isinf(e: Emitter, x: Any) -> Any:
    """np.isinf: neither finite nor nan."""
    known = ufunc_call(e, np.logical_or, ufunc_call(e, np.isfinite, x), ufunc_call(e, np.isnan, x))
    return ufunc_call(e, np.logical_not, known)


_COMPOSED: dict[np.ufunc, Any] = {
    np.isinf: isinf,
    np.positive: positive,
    np.fabs: lambda e, x: ufunc_call(e, np.absolute, ufunc_call(e, np.multiply, x, _weak(1.0))),
    np.deg2rad: lambda e, x: ufunc_call(e, np.multiply, x, _weak(math.pi / 180)),
    np.radians: lambda e, x: ufunc_call(e, np.multiply, x, _weak(math.pi / 180)),
    np.rad2deg: lambda e, x: ufunc_call(e, np.multiply, x, _weak(180 / math.pi)),
    np.degrees: lambda e, x: ufunc_call(e, np.multiply, x, _weak(180 / math.pi)),
    np.logical_xor: lambda e, a, b: ufunc_call(
        e, np.not_equal, ufunc_call(e, np.not_equal, a, _weak(0)), ufunc_call(e, np.not_equal, b, _weak(0))
    ),
}
ELEMENTWISE: dict[Any, Any] = {
    np.clip: clip,
    **{ufunc: forms(ufunc, rule) for ufunc, rule in _COMPOSED.items()},
}
ELEMENTWISE_METHODS: dict[str, Any] = {"clip": clip_method}
