"""The discrete Fourier transform along one axis, not scaled; its transpose conjugate is the transform the other way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import LINEAR, Kind, Op
from dlvm_py.ir.ops.arrange import checked_axes
from dlvm_py.ir.ops.rules import tensor
from dlvm_py.ir.types import Type
from dlvm_py.ir.value import Value


def _type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t = tensor(operands[0])
    if not t.dtype.is_complex:
        raise TypeError(f"a Fourier transform of {t.dtype}: it takes complex numbers")
    checked_axes(t, (attrs["axis"],))
    return t


def _evaluate(x: Any, axis: int, inverse: bool = False) -> Any:
    if not x.shape[axis]:
        return x
    transform = np.fft.ifft if inverse else np.fft.fft
    return transform(x, axis=axis, norm="forward" if inverse else "backward")


def _adjoint(seed: Any, y: Any, x: Any, axis: int, inverse: bool = False) -> Any:
    return (fourier(seed, axis=axis) if inverse else fourier(seed, axis=axis, inverse=True),)


# fourier x along axis [inverse]: y_k = Σ_j x_j exp(∓2πi jk / n), + where inverse; neither way is divided by n
fourier: Op = Op(
    "fourier",
    Kind.REDUCTION,
    _type,
    _evaluate,
    attrs=("axis", "inverse"),
    adjoint=_adjoint,
    tangent=LINEAR,
    numpy_name="fft.fft, fft.ifft",
)

FOURIER = (fourier,)
