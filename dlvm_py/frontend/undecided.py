"""Numbers that are real at one time of a call and complex at another one: eigenvalues of matrices in a loop.

No version is for both, so these are complex, and only what comes out the same for real numbers may be done with them:
taking their parts and absolute values, and items, and putting them into complex arrays. Everything else, which would
show the dtype, is an error where it stands.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from dlvm_py.errors import TypeMismatch
from dlvm_py.frontend.arrays import materialise
from dlvm_py.frontend.capture import is_record_class
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.values import Array, Scalar, Static, Undecided, describe, is_none

# what is the same of a real number and of the complex one that is equal to it
_FUNCTIONS = (
    abs, len, np.abs, np.real, np.imag, np.angle, np.isreal, np.iscomplex, np.isfinite, np.isnan, np.isinf, np.shape,
    np.ndim, np.size,
)  # fmt: skip
_ATTRIBUTES = ("real", "imag", "shape", "ndim", "size")
_VIEWS = ("T", "mT", "flat")
_ITERATORS = (zip, enumerate)


def undecided(e: Emitter, x: Any, answer: Any) -> Any:
    """Complex numbers; where the answer to whether they are real is None, nothing may show that they are complex."""
    return wrapped(e, x) if is_none(answer) else x


def wrapped(e: Emitter, x: Any) -> Any:
    """Complex numbers whose dtype must not show."""
    x = materialise(e, x)
    return Undecided(x) if isinstance(x, (Array, Scalar)) and x.dtype.is_complex else x


def opened(e: Emitter, function: Any, value: Any) -> Any:
    """An argument of a function: the complex numbers themselves where the result is the same for real ones."""
    if not isinstance(value, Undecided):
        return value
    target = function.value if isinstance(function, Static) else None
    if any(target is f for f in _FUNCTIONS):
        return value.value
    if is_record_class(target) or any(target is f for f in _ITERATORS):
        return value
    refuse(e, value)


def attribute(owner: Undecided, name: str) -> str:
    """How an attribute is got: "same" from the complex numbers, "view" likewise, to be wrapped; "" is refused."""
    return "same" if name in _ATTRIBUTES else "view" if name in _VIEWS else ""


def refuse(e: Emitter, value: Undecided) -> NoReturn:
    """The error of what would show the dtype."""
    e.error(
        TypeMismatch,
        f"this would show the dtype of {describe(value)}",
        help="pass a.astype(complex), of which the results are always complex, or use the parts: w.real, abs(w)",
    )
