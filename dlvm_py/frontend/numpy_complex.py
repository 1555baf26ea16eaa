"""The parts of complex numbers: real, imag, conj, angle, vdot; as functions, methods and attributes.

The parts of an array are views, as in NumPy: what is written to `z.real` is written to `z`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm_py.frontend.arrays import make_array, materialise, tensor_of
from dlvm_py.frontend.elementwise import operand, parts, truth, ufunc_call
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.linear import dot
from dlvm_py.frontend.numpy_shape import ravel
from dlvm_py.frontend.values import Array, Scalar, Temp
from dlvm_py.ir import BOOL, I64, literal, scalar
from dlvm_py.ir.value import integer

_READ_ONLY = "the imaginary part of a real array is not part of it: NumPy refuses to write to it"


def _part(at: int) -> Any:
    def function(e: Emitter, val: Any) -> Any:
        z = val if isinstance(val, (Array, Temp)) else operand(e, val, ("np.real", "np.imag")[at])
        if isinstance(z, Scalar) and z.weak and z.dtype is BOOL:  # True.real is 1
            z = Scalar(e.cast(z.value, I64), weak=True)
        if not z.dtype.is_complex:
            return z if at == 0 else _zero(e, z)
        if isinstance(z, Array):
            return make_array(e, e.emit("partView", z.pointer, at=at), z.extents, z.copied)
        if isinstance(z, Scalar):
            return Scalar(parts(e, z.value)[at], z.weak)
        return Temp(parts(e, tensor_of(e, z))[at], z.extents, e.block)

    return function


def _zero(e: Emitter, x: Any) -> Any:
    zero = literal(0, scalar(x.dtype))
    if isinstance(x, Scalar):
        return Scalar(zero, x.weak)
    zeros = materialise(e, Temp(e.emit("broadcast", zero, *x.extents), x.extents, e.block))
    return Array(zeros.pointer, zeros.extents, _READ_ONLY)


real, imag = _part(0), _part(1)


def part(e: Emitter, owner: Array, name: str) -> Array:
    """owner.real or owner.imag, a view."""
    return {"real": real, "imag": imag}[name](e, owner)


def conjugate(e: Emitter, x: Any) -> Any:
    """x.conj(): a fresh array, of what is real the array itself; of a Python number, a Python number."""
    z = x if isinstance(x, (Array, Temp)) else operand(e, x, "conj")
    if not z.dtype.is_complex and not (isinstance(z, Scalar) and z.weak):
        return z
    if isinstance(z, Scalar) and z.weak:
        return Scalar(e.pure("conjugate", z.value), weak=True) if z.dtype.is_complex else real(e, z)
    return ufunc_call(e, np.conjugate, z)


def angle(e: Emitter, z: Any, deg: Any = None) -> Any:
    """np.angle: the argument in (-π, π], in degrees if `deg`."""
    z = operand(e, z, "np.angle")
    if z.dtype.is_complex:
        x, y = real(e, z), imag(e, z)
    else:
        x, y = z, Scalar(literal(0), weak=True)
    found = ufunc_call(e, np.arctan2, y, x)
    if deg is None:
        return found
    in_degrees = truth(e, deg.value) if isinstance(deg, Scalar) else literal(bool(getattr(deg, "value", deg)))
    factor = e.choose(in_degrees, literal(180 / math.pi), literal(1.0))
    return found if integer(factor) == 1.0 else ufunc_call(e, np.multiply, found, Scalar(factor, weak=True))


def vdot(e: Emitter, a: Any, b: Any) -> Any:
    """np.vdot: Σ conj(a) b of all elements in C order."""
    a, b = operand(e, a, "np.vdot"), operand(e, b, "np.vdot")
    if isinstance(a, (Array, Temp)) or isinstance(b, (Array, Temp)):
        a, b = (_flat(e, v) for v in (a, b))
    return dot(e, ufunc_call(e, np.conjugate, a) if a.dtype.is_complex else a, b)


def _flat(e: Emitter, value: Any) -> Any:
    """All elements as a vector, of a number too."""
    if isinstance(value, Scalar):
        return Temp(e.emit("broadcast", value.value, i64(1)), (i64(1),), e.block)
    return ravel(e, value)


def is_complex(e: Emitter, x: Any) -> Any:
    """np.iscomplex: where the imaginary part is not 0."""
    z = operand(e, x, "np.iscomplex")
    return ufunc_call(e, np.not_equal, imag(e, z), Scalar(literal(0), weak=True))


def is_real(e: Emitter, x: Any) -> Any:
    """np.isreal: where the imaginary part is 0."""
    z = operand(e, x, "np.isreal")
    found = ufunc_call(e, np.equal, imag(e, z), Scalar(literal(0), weak=True))
    # of one of Python's numbers one of Python's bools: NumPy compares `z.imag`, one of its numbers
    return Scalar(found.value, weak=True) if isinstance(z, Scalar) and z.weak else found


def is_complex_object(e: Emitter, x: Any) -> Any:
    """np.iscomplexobj."""
    return Scalar(literal(operand(e, x, "np.iscomplexobj").dtype.is_complex), weak=True)


def is_real_object(e: Emitter, x: Any) -> Any:
    """np.isrealobj."""
    return Scalar(literal(not operand(e, x, "np.isrealobj").dtype.is_complex), weak=True)


COMPLEX: dict[Any, Any] = {
    np.real: real, np.imag: imag, np.angle: angle, np.vdot: vdot,
    np.iscomplex: is_complex, np.isreal: is_real,
    np.iscomplexobj: is_complex_object, np.isrealobj: is_real_object,
}  # fmt: skip
COMPLEX_METHODS: dict[str, Any] = {"conj": conjugate, "conjugate": conjugate}
