"""Calls of ufuncs with `out=`, `where=`, `dtype=`; the methods reduce, accumulate and outer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import tensor_of
from dlvm_py.frontend.deliver import deliver
from dlvm_py.frontend.elementwise import UFUNCS, convert, loop_dtypes, operand, ufunc_call
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.library_calls import library
from dlvm_py.frontend.linear import dot, matmul
from dlvm_py.frontend.numpy_create import as_dtype
from dlvm_py.frontend.numpy_reduce import REDUCE, accumulate, cast_to
from dlvm_py.frontend.values import Array, Scalar, Sequence, Static, Temp, is_none
from dlvm_py.ir import F32, DType

Handler = Callable[..., Any]

_REDUCTIONS = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
    np.logical_and: np.all, np.logical_or: np.any,
}  # fmt: skip
_SCANS = {np.add: "add", np.multiply: "multiply", np.maximum: "max", np.minimum: "min"}


def forms(ufunc: np.ufunc, rule: Handler | None = None) -> Handler:
    """The rule of a ufunc: its operands, then what NumPy's ufuncs take by name.

    rule: what computes the result of operands that have the dtypes of NumPy's loop; the ufunc's op if it is left out.
    """

    def call(e: Emitter, *args: Any, out: Any = None, where: Any = None, dtype: Any = None) -> Any:
        if not ufunc.nin <= len(args) <= ufunc.nin + 1:
            e.error(TypeMismatch, f"np.{ufunc.__name__} takes {ufunc.nin} operands, got {len(args)}")
        if len(args) > ufunc.nin:
            if not is_none(out):
                e.error(TypeMismatch, f"np.{ufunc.__name__}: `out` is given twice")
            out = args[-1]
        values = [operand(e, v, f"np.{ufunc.__name__}") for v in args[: ufunc.nin]]
        if not is_none(dtype):
            values = _in_loop(e, ufunc, values, as_dtype(e, dtype))
        result = ufunc_call(e, ufunc, *values) if rule is None else _converted(e, ufunc, rule, values)[0]
        return deliver(e, ufunc.__name__, result, out, where)

    return call


def pair(ufunc: np.ufunc, rule: Handler) -> Handler:
    """The rule of a ufunc with two results, which takes operands alone."""

    def call(e: Emitter, *args: Any) -> Any:
        if len(args) != ufunc.nin:
            e.error(TypeMismatch, f"np.{ufunc.__name__} takes {ufunc.nin} operands, got {len(args)}")
        return Sequence(tuple(_converted(e, ufunc, rule, [operand(e, v, f"np.{ufunc.__name__}") for v in args])))

    return call


def written(ufunc: np.ufunc, function: Any) -> Handler:
    """The rule of a ufunc that a library function implements."""
    rule = library(function)
    return forms(ufunc, rule) if ufunc.nout == 1 else pair(ufunc, rule)


def _converted(e: Emitter, ufunc: np.ufunc, rule: Handler, values: list[Any]) -> list[Any]:
    """The results of `rule` on operands in the dtypes of the loop that NumPy would run."""
    dtypes = loop_dtypes(e, ufunc, values)
    # loops of 16 bits compute in float32 and round once
    loops = [F32 if d.is_narrow else d for d in dtypes[: ufunc.nin]]
    pairs = [convert(e, v, d) for v, d in zip(values, loops, strict=True)]
    found = rule(e, *(Temp(t, x, e.block) if x else Scalar(t, weak=False) for t, x in pairs))
    results = found.items if ufunc.nout > 1 else (found,)
    results = [operand(e, r, f"np.{ufunc.__name__}") for r in results]
    return [cast_to(e, r, d) for r, d in zip(results, dtypes[ufunc.nin :], strict=True)]


def _in_loop(e: Emitter, ufunc: np.ufunc, values: list[Any], dtype: DType) -> list[Any]:
    """The operands in the dtypes of the loop whose result is `dtype`."""
    signature = (*(v.dtype.numpy for v in values), *[None] * ufunc.nout)
    try:
        loops = ufunc.resolve_dtypes(
            signature, signature=(*[None] * ufunc.nin, *[dtype.numpy] * ufunc.nout), casting="same_kind"
        )
    except TypeError as error:
        e.error(TypeMismatch, f"np.{ufunc.__name__} with dtype={dtype.numpy_name}: {error}")
    converted = []
    for value, loop in zip(values, loops, strict=False):
        tensor, extents = convert(e, value, as_dtype(e, Static(loop)))
        converted.append(Temp(tensor, extents, e.block) if extents else Scalar(tensor, weak=False))
    return converted


def dot_into(e: Emitter, a: Any, b: Any, out: Any = None) -> Any:
    """np.dot: of more than two axes, the last of a with the last but one of b."""
    found = dot(e, a, b)
    if isinstance(out, Array) and (out.dtype is not found.dtype or out.pointer.type.layout != "C"):
        e.error(
            TypeMismatch,
            "output array is not acceptable (must have the right datatype, number of dimensions, and be a C-Array)",
            help="out[...] = np.dot(a, b)",
        )
    return deliver(e, "dot", found, out, None)


def matmul_into(e: Emitter, a: Any, b: Any, out: Any = None) -> Any:
    """np.matmul: leading axes broadcast."""
    return deliver(e, "matmul", matmul(e, a, b), out, None)


# -- methods of ufuncs -------------------------------------------------------------------------------

_AXIS_0 = Scalar(i64(0), weak=True)


def _reduce(rule: Handler) -> Handler:
    """ufunc.reduce(array, axis=0, dtype, out, keepdims, initial, where): those of them that the reduction has."""
    names = inspect.signature(rule).parameters

    def reduce(
        e: Emitter, array: Any, axis: Any = _AXIS_0, dtype: Any = None, out: Any = None, keepdims: Any = None,
        initial: Any = None, where: Any = None,
    ) -> Any:  # fmt: skip
        options = {"dtype": dtype, "keepdims": keepdims, "initial": initial, "where": where}
        given = {name: value for name, value in options.items() if not is_none(value)}
        for name in given:
            if name not in names:
                e.error(
                    UnsupportedSyntax, f"this ufunc.reduce with {name}= is not supported",
                    help="use the function of that name, or convert with .astype before",
                )  # fmt: skip
        return rule(e, array, axis=axis, out=out, **given)

    return reduce


def _accumulate(ufunc: np.ufunc, by: str) -> Handler:
    """ufunc.accumulate(array, axis=0, dtype, out)."""

    def accumulate_(e: Emitter, array: Any, axis: Any = _AXIS_0, dtype: Any = None, out: Any = None) -> Any:
        return deliver(e, ufunc.__name__, accumulate(e, array, by, axis, dtype), out, None)

    return accumulate_


def _outer(ufunc: np.ufunc) -> Handler:
    """ufunc.outer(a, b): every element of a with every element of b."""

    def outer(e: Emitter, a: Any, b: Any, out: Any = None, where: Any = None, dtype: Any = None) -> Any:
        a, b = (operand(e, v, f"np.{ufunc.__name__}.outer") for v in (a, b))
        if isinstance(a, (Array, Temp)) and isinstance(b, (Array, Temp)):
            tensor, extents = tensor_of(e, a), a.extents
            for _ in range(b.rank):
                tensor, extents = e.emit("padShape", tensor, at=len(extents)), (*extents, i64(1))
            a = Temp(tensor, extents, e.block)
        return forms(ufunc)(e, a, b, out=out, where=where, dtype=dtype)

    return outer


UFUNC_METHODS: dict[Any, Handler] = {
    **{ufunc.reduce: _reduce(REDUCE[name]) for ufunc, name in _REDUCTIONS.items()},
    **{ufunc.accumulate: _accumulate(ufunc, by) for ufunc, by in _SCANS.items()},
    **{ufunc.outer: _outer(ufunc) for ufunc in UFUNCS if ufunc.nin == 2},
}
