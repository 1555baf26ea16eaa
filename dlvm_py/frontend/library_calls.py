"""Calls of library functions (frontend/library), and the rules of the compile-time functions that they use."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import temp, tensor_of
from dlvm_py.frontend.decompositions import DECOMPOSITIONS
from dlvm_py.frontend.elementwise import apply_op, astype, operand
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.exceptions import is_caught_here
from dlvm_py.frontend.library import intrinsics
from dlvm_py.frontend.linear import products_of
from dlvm_py.frontend.numpy_create import as_dtype
from dlvm_py.frontend.numpy_reduce import as_axes, as_axis
from dlvm_py.frontend.numpy_signature import Implementing
from dlvm_py.frontend.orders import Order, lies_in_rows, note
from dlvm_py.frontend.undecided import undecided
from dlvm_py.frontend.values import NONE, Array, RandomGenerator, Scalar, Sequence, Static, Temp, describe
from dlvm_py.ir import C128, DTYPES, I64, dtype_of, literal
from dlvm_py.ir.distributions import DISTRIBUTIONS

_PACKAGE = "dlvm_py.frontend.library."


def is_library(function: Any) -> bool:
    """Whether a callable is a function of the library."""
    return isinstance(function, FunctionType) and (function.__module__ or "").startswith(_PACKAGE)


def library(function: Any) -> Callable[..., Any]:
    """The rule of a NumPy function that a library function implements, with the parameters of that one."""

    def call(e: Emitter, *args: Any, **kwargs: Any) -> Any:
        found = e.session.library(e, function, list(args), kwargs)
        if not all(lies_in_rows(e, v) for v in (*args, *kwargs.values())):
            for v in found.items if isinstance(found, Sequence) else (found,):
                if isinstance(v, Array) and v.rank > 1 and not any(v is given for given in args):
                    note(e, v, Order.UNKNOWN)
        # what NumPy leaves as it is, it makes a view of: another object
        return found.whole() if isinstance(found, Array) else found

    call.__doc__ = function.__doc__
    return Implementing(function, call)


def library_table(functions: dict[Any, Any]) -> dict[Any, Callable[..., Any]]:
    """The rules of a table of library functions."""
    return {implemented: library(function) for implemented, function in functions.items()}


def _int(value: Any) -> Scalar:
    return Scalar(i64(value), weak=True)


def _unroll(e: Emitter, *bounds: Any) -> Sequence:
    numbers = [b.number if isinstance(b, Scalar) else None for b in bounds]
    if not all(isinstance(n, int) for n in numbers):
        e.error(UnsupportedSyntax, "an argument that says how many there are must be a constant int")
    return Sequence(tuple(map(_int, range(*numbers))))  # type: ignore[arg-type]


def _refuse(e: Emitter, message: Any, help: Any = None) -> Any:  # noqa: A002 - as in errors.py
    e.error(UnsupportedSyntax, message.value, help=getattr(help, "value", None))


def _is_constant(e: Emitter, value: Any) -> Scalar:
    known = isinstance(value, Static) or (isinstance(value, Scalar) and value.number is not None)
    return Scalar(literal(known), weak=True)


def _is_for_device(e: Emitter) -> Scalar:
    return Scalar(literal(e.options.target == "gpu"), weak=True)


def _assumed(e: Emitter, condition: Any, what: Any, message: Any) -> Scalar:
    answer = e.session.assumptions.holds(e, condition.value, what.value, message.value, is_open=False)
    return Scalar(literal(answer), weak=True)


def _settled(e: Emitter, condition: Any, what: Any, message: Any) -> Any:
    answer = e.session.assumptions.holds(e, condition.value, what.value, message.value, is_open=True)
    return NONE if answer is None else Scalar(literal(answer), weak=True)


def _axis_of(e: Emitter, axis: Any, ndim: Any) -> Scalar:
    return _int(as_axis(e, axis, ndim.number))


def _axes_of(e: Emitter, axis: Any, ndim: Any) -> Sequence:
    return Sequence(tuple(map(_int, as_axes(e, axis, ndim.number))))


def _held(e: Emitter, x: Any) -> Any:
    x = operand(e, x, "a constant")
    if not x.dtype.is_inexact:
        return x
    return temp(e, apply_op(e, "stopGradient", [tensor_of(e, x)]), () if isinstance(x, Scalar) else x.extents)


def _bits_of(e: Emitter, x: Any, dtype: Any) -> Any:
    x = operand(e, x, "the bits of a number")
    tensor = apply_op(e, "bits", [tensor_of(e, x if x.dtype.is_integer else _held(e, x))], to=as_dtype(e, dtype).name)
    return temp(e, tensor, () if isinstance(x, Scalar) else x.extents)


def _complex_of(e: Emitter, a: Any) -> Any:
    a = operand(e, a, "a Fourier transform")
    if not isinstance(a, (Array, Temp)):
        e.error(TypeMismatch, f"a Fourier transform needs an array, not {describe(a)}")
    dtype = a.dtype
    found = dtype_of(np.result_type(dtype.numpy, np.complex64)) if dtype.is_inexact else C128
    assert found is not None
    return a if found is dtype else astype(e, a, found)


def _fourier(e: Emitter, a: Any, axis: Any, inverse: Any) -> Any:
    attrs = {"inverse": True} if inverse.number else {}
    return Temp(e.emit("fourier", tensor_of(e, a), axis=axis.number, **attrs), a.extents, e.block)


def _require_factors(e: Emitter, a: Any, by: str, message: str) -> None:
    """In a `try` that would catch it: the LinAlgError of a matrix, before what would raise it and go by the handler."""
    if is_caught_here(e):
        verdict = e.emit("squeezeShape", e.emit("factorizes", tensor_of(e, a), by=by), at=0)
        fine = e.emit("notEqual", verdict, literal(0, verdict.type))  # type: ignore[arg-type]
        e.check(fine, "LinAlgError", message)


def _solve_one(e: Emitter, a: Any, b: Any) -> Any:
    _require_factors(e, a, "lu", "Singular matrix")
    return temp(e, e.emit("solve", tensor_of(e, a), tensor_of(e, b)), b.extents)


def _cholesky_one(e: Emitter, a: Any) -> Any:
    _require_factors(e, a, "cholesky", "Matrix is not positive definite")
    return temp(e, e.emit("cholesky", tensor_of(e, a)), a.extents)


def _determinant_one(e: Emitter, a: Any) -> Any:
    return temp(e, e.emit("determinant", tensor_of(e, a)), (i64(3),))


def _draw(e: Emitter, distribution: Any, rng: Any, *parameters: Any) -> Any:
    row = DISTRIBUTIONS[distribution.value]
    values = [
        e.cast(operand(e, p, "a draw").value, DTYPES[name]) for p, name in zip(parameters, row.parameters, strict=True)
    ]
    found = e.emit("draw", rng.address, *values, distribution=distribution.value)
    if DTYPES[row.result].is_float:
        return Scalar(found, weak=row.result == "f64")
    return Scalar(e.cast(found, I64), weak=True)


def default_rng(e: Emitter, seed: Any = None) -> Any:
    """np.random.default_rng(seed) with an int, a PCG64 of the call; a generator is returned as it is."""
    if isinstance(seed, RandomGenerator):
        return seed
    if isinstance(seed, Scalar) and seed.dtype.is_integer:
        return RandomGenerator(e.emit("seedGenerator", e.whole(seed.value, "OverflowError")))
    e.error(
        UnsupportedSyntax,
        "np.random.default_rng needs an int here",
        help="make the generator outside, and pass it as an argument",
    )


INTRINSICS: dict[Any, Callable[..., Any]] = {
    intrinsics.unroll: _unroll,
    intrinsics.refuse: _refuse,
    intrinsics.is_constant: _is_constant,
    intrinsics.is_for_device: _is_for_device,
    intrinsics.products_of: products_of,
    intrinsics.assumed: _assumed,
    intrinsics.settled: _settled,
    intrinsics.undecided: undecided,
    intrinsics.axis_of: _axis_of,
    intrinsics.axes_of: _axes_of,
    intrinsics.complex_of: _complex_of,
    intrinsics.bits_of: _bits_of,
    intrinsics.fourier: _fourier,
    intrinsics.held: _held,
    intrinsics.solve_one: _solve_one,
    intrinsics.cholesky_one: _cholesky_one,
    intrinsics.determinant_one: _determinant_one,
    **DECOMPOSITIONS,
    intrinsics.draw: _draw,
}
