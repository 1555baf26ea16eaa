"""Calls of ufuncs with `out=`, `where=`, `dtype=`; the methods reduce, accumulate, reduceat, outer and at."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import materialise, require_writable, tensor_of
from dlvm_py.frontend.deliver import deliver, destination, dtype_of_destination
from dlvm_py.frontend.elementwise import COMPARISONS, convert, loop_dtypes, operand, strong, supported, ufunc_call
from dlvm_py.frontend.elementwise import where as where_of
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.library import ufunc_methods
from dlvm_py.frontend.library_calls import library
from dlvm_py.frontend.linear import dot, matmul
from dlvm_py.frontend.numpy_create import as_casting, as_dtype, scalar_of
from dlvm_py.frontend.numpy_reduce import REDUCE, accumulate, cast_to, reduction_loop
from dlvm_py.frontend.values import NONE, Array, Scalar, Sequence, Static, Temp, describe, is_none
from dlvm_py.ir import BOOL, F32, U64, DType, dtype_of, literal, scalar

Handler = Callable[..., Any]

_REDUCTIONS = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
    np.logical_and: np.all, np.logical_or: np.any,
}  # fmt: skip
_OF_BITS = (np.nextafter, np.spacing)
_SCANS = {np.add: "add", np.multiply: "multiply", np.maximum: "max", np.minimum: "min"}


def forms(ufunc: np.ufunc, rule: Handler | None = None) -> Handler:
    """The rule of a ufunc: its operands, then what NumPy's ufuncs take by name.

    rule: what computes the result of operands that have the dtypes of NumPy's loop; the ufunc's op if it is left out.
    """

    def call(e: Emitter, *args: Any, out: Any = None, where: Any = None, casting: Any = None, dtype: Any = None) -> Any:
        if not ufunc.nin <= len(args) <= ufunc.nin + 1:
            e.error(TypeMismatch, f"np.{ufunc.__name__} takes {ufunc.nin} operands, got {len(args)}")
        if len(args) > ufunc.nin:
            if not is_none(out):
                e.error(TypeMismatch, f"np.{ufunc.__name__}: `out` is given twice")
            out = args[-1]
        values = [operand(e, v, f"np.{ufunc.__name__}") for v in args[: ufunc.nin]]
        by = as_casting(e, casting, "same_kind")
        if not is_none(dtype) or by in ("no", "equiv", "safe"):
            wanted = None if is_none(dtype) else as_dtype(e, dtype)
            values = _in_loop(e, ufunc, values, wanted, by)
        if ufunc is np.power and not is_none(where) and values[1].dtype.kind == "i" and not _is_weak(values[1]):
            values[1] = where_of(e, where, values[1], scalar_of(e, values[1].dtype))  # what is left out is not checked
        result = ufunc_call(e, ufunc, *values) if rule is None else _converted(e, ufunc, rule, values)[0]
        return deliver(e, ufunc.__name__, result, out, where, by)

    return call


def _is_weak(value: Any) -> bool:
    return isinstance(value, Scalar) and value.weak


def pair(ufunc: np.ufunc, rule: Handler) -> Handler:
    """The rule of a ufunc with two results: `out` has one array, or None, for each."""

    def call(e: Emitter, *args: Any, out: Any = None, where: Any = None, casting: Any = None, dtype: Any = None) -> Any:
        if not ufunc.nin <= len(args) <= ufunc.nin + ufunc.nout:
            e.error(TypeMismatch, f"np.{ufunc.__name__} takes {ufunc.nin} operands, got {len(args)}")
        into = args[ufunc.nin :]
        if not is_none(out):
            if into:
                e.error(TypeMismatch, f"np.{ufunc.__name__}: `out` is given twice")
            if not isinstance(out, Sequence) or len(out.items) != ufunc.nout:
                e.error(TypeMismatch, f"np.{ufunc.__name__}: `out` must be a tuple of {ufunc.nout} arrays")
            into = out.items
        by = as_casting(e, casting, "same_kind")
        values = [operand(e, v, f"np.{ufunc.__name__}") for v in args[: ufunc.nin]]
        if not is_none(dtype) or by in ("no", "equiv", "safe"):
            values = _in_loop(e, ufunc, values, None if is_none(dtype) else as_dtype(e, dtype), by)
        found = _converted(e, ufunc, rule, values)
        into = (*into, *[NONE] * (ufunc.nout - len(into)))
        # both are computed before one of them is written into what may be an operand
        held = [materialise(e, r) for r in found] if any(not is_none(o) for o in into) else found
        return Sequence(tuple(deliver(e, ufunc.__name__, r, o, where, by) for r, o in zip(held, into, strict=True)))

    return call


def written(ufunc: np.ufunc, function: Any) -> Handler:
    """The rule of a ufunc that a library function implements."""
    rule = library(function)
    return forms(ufunc, rule) if ufunc.nout == 1 else pair(ufunc, rule)


def _converted(e: Emitter, ufunc: np.ufunc, rule: Handler, values: list[Any]) -> list[Any]:
    """The results of `rule` on operands in the dtypes of the loop that NumPy would run."""
    dtypes = loop_dtypes(e, ufunc, values)
    # loops of 16 bits compute in float32 and round once, unless it is the bits that count
    loops = [F32 if d.is_narrow and ufunc not in _OF_BITS else d for d in dtypes[: ufunc.nin]]
    pairs = [convert(e, v, d) for v, d in zip(values, loops, strict=True)]
    found = rule(e, *(Temp(t, x, e.block) if x else Scalar(t, weak=False) for t, x in pairs))
    results = found.items if ufunc.nout > 1 else (found,)
    results = [operand(e, r, f"np.{ufunc.__name__}") for r in results]
    return [cast_to(e, r, d) for r, d in zip(results, dtypes[ufunc.nin :], strict=True)]


def _in_loop(e: Emitter, ufunc: np.ufunc, values: list[Any], dtype: DType | None, casting: str) -> list[Any]:
    """The operands in the dtypes of the loop whose result is `dtype`, to which they are cast by a rule."""
    given = [v.dtype.numpy if not _is_weak(v) else type(v.number or v.dtype.numpy.type(0).item()) for v in values]
    if all(map(_is_weak, values)):
        given = [v.dtype.numpy for v in values]
    asked = {} if dtype is None else {"signature": (*[None] * ufunc.nin, *[dtype.numpy] * ufunc.nout)}
    try:
        loops = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout), casting=casting, **asked)
    except TypeError as error:
        shown = f"casting={casting!r}" if dtype is None else f"dtype={dtype.numpy_name}"
        e.error(TypeMismatch, f"np.{ufunc.__name__} with {shown}: {error}")
    converted = []
    for value, loop in zip(values, loops, strict=False):
        tensor, extents = convert(e, value, as_dtype(e, Static(loop)))
        converted.append(Temp(tensor, extents, e.block) if extents else Scalar(tensor, weak=False))
    return converted


def dot_into(e: Emitter, a: Any, b: Any, out: Any = None) -> Any:
    """np.dot: of more than two axes, the last of a with the last but one of b."""
    found, out = dot(e, a, b), destination(e, out)
    if isinstance(out, Array) and (out.dtype is not found.dtype or out.pointer.type.layout != "C"):
        e.error(
            TypeMismatch,
            "output array is not acceptable (must have the right datatype, number of dimensions, and be a C-Array)",
            help="out[...] = np.dot(a, b)",
        )
    found = deliver(e, "dot", found, out, None)
    return operand(e, found, "np.dot") if isinstance(out, Array) and not out.rank else found  # NumPy gives a number


def matmul_into(e: Emitter, a: Any, b: Any, /, out: Any = None, *, casting: Any = None, dtype: Any = None) -> Any:
    """np.matmul: leading axes broadcast."""
    by = as_casting(e, casting, "same_kind")
    if not is_none(dtype) or by in ("no", "equiv", "safe"):
        values = [operand(e, v, "np.matmul") for v in (a, b)]
        a, b = _in_loop(e, np.matmul, values, None if is_none(dtype) else as_dtype(e, dtype), by)
    return deliver(e, "matmul", matmul(e, a, b), out, None, by)


# -- methods of ufuncs -------------------------------------------------------------------------------

_AXIS_0 = Scalar(i64(0), weak=True)
_TRUE, _FALSE = Scalar(literal(True), weak=True), Scalar(literal(False), weak=True)


def _reduce(ufunc: np.ufunc, rule: Handler) -> Handler:
    """ufunc.reduce(array, axis=0, dtype, out, keepdims, initial, where) by a reduction of NumPy's."""
    names = inspect.signature(rule).parameters

    def reduce(
        e: Emitter, array: Any, axis: Any = _AXIS_0, dtype: Any = None, out: Any = None, keepdims: Any = None,
        initial: Any = None, where: Any = None,
    ) -> Any:  # fmt: skip
        options = {"dtype": dtype, "keepdims": keepdims, "initial": initial, "where": where}
        given = {name: value for name, value in options.items() if not is_none(value)}
        if "dtype" in given and "dtype" not in names:  # the elements are cast before
            array = _array(e, ufunc, "reduce", array)
            wanted = as_dtype(e, given.pop("dtype"))
            if ufunc in (np.maximum, np.minimum):
                array = cast_to(e, array, wanted)
            elif wanted is not BOOL:
                e.error(
                    UnsupportedSyntax, f"np.{ufunc.__name__}.reduce with dtype= is not supported",
                    help="convert the result with .astype",
                )  # fmt: skip
        if "initial" in names or "initial" not in given:
            return rule(e, array, axis=axis, out=out, **given)
        first = given.pop("initial")
        found = rule(e, array, axis=axis, **given)
        return e.session.invoke(e, Static(ufunc), [found, first], {} if is_none(out) else {"out": out})

    return reduce


def _array(e: Emitter, ufunc: np.ufunc, method: str, array: Any) -> Array | Temp:
    array = operand(e, array, f"np.{ufunc.__name__}.{method}")
    if isinstance(array, Scalar):
        e.error(TypeMismatch, f"cannot {method} on a scalar", help="give an array with axes")
    return array


def _loop(e: Emitter, ufunc: np.ufunc, array: Any, dtype: Any, out: Any) -> Static:
    """The dtype of the loop (d, d) -> d that NumPy runs over an array."""
    wanted = None if is_none(dtype) else as_dtype(e, dtype).numpy
    first = dtype_of_destination(out) if wanted is None else None
    try:
        return Static(supported(e, reduction_loop(ufunc, array.dtype.numpy, first, wanted), ufunc.__name__).numpy)
    except TypeError as error:
        e.error(TypeMismatch, str(error), help="convert with .astype")


def _written_reduce(ufunc: np.ufunc) -> Handler:
    """ufunc.reduce of a ufunc that no reduction does."""

    def reduce(
        e: Emitter, array: Any, axis: Any = _AXIS_0, dtype: Any = None, out: Any = None, keepdims: Any = None,
        initial: Any = None, where: Any = None,
    ) -> Any:  # fmt: skip
        array = _array(e, ufunc, "reduce", array)
        loop = _loop(e, ufunc, array, dtype, out)
        found = e.session.library(
            e, ufunc_methods.reduced,
            [Static(ufunc), Static(ufunc.__name__), _identity(ufunc, loop.value), loop, array, axis,
             _FALSE if is_none(keepdims) else keepdims, NONE if is_none(initial) else initial,
             _TRUE if is_none(where) else where],
            {},
        )  # fmt: skip
        return deliver(e, ufunc.__name__, found, out, None)

    return reduce


def _identity(ufunc: np.ufunc, dtype: np.dtype) -> Any:
    """What a reduction begins with, in the dtype of its loop."""
    found = dtype_of(dtype)
    if ufunc.identity is None or found is None:
        return NONE
    return Scalar(literal(np.asarray(ufunc.identity).astype(dtype).item(), scalar(found)), weak=False)


def _accumulate(ufunc: np.ufunc) -> Handler:
    """ufunc.accumulate(array, axis=0, dtype, out)."""

    def accumulate_(e: Emitter, array: Any, axis: Any = _AXIS_0, dtype: Any = None, out: Any = None) -> Any:
        array = _array(e, ufunc, "accumulate", array)
        loop = _loop(e, ufunc, array, dtype, out)
        if ufunc in _SCANS:
            found = accumulate(e, array, _SCANS[ufunc], axis, loop)
        else:
            found = e.session.library(e, ufunc_methods.accumulated, [Static(ufunc), loop, array, axis], {})
        return deliver(e, ufunc.__name__, found, out, None)

    return accumulate_


def _reduceat(ufunc: np.ufunc) -> Handler:
    """ufunc.reduceat(array, indices, axis=0, dtype, out)."""

    def reduceat(e: Emitter, array: Any, indices: Any, axis: Any = _AXIS_0, dtype: Any = None, out: Any = None) -> Any:
        array = _array(e, ufunc, "reduceat", array)
        indices = _array(e, ufunc, "reduceat", indices)
        if indices.rank != 1 or not indices.dtype.is_integer or indices.dtype is U64:
            e.error(
                TypeMismatch, f"np.{ufunc.__name__}.reduceat needs a vector of ints as indices, which fit into int64"
            )
        loop = _loop(e, ufunc, array, dtype, out)
        name = Static(ufunc.__name__)
        args = [Static(ufunc), name, loop, array, indices, axis]
        return deliver(e, ufunc.__name__, e.session.library(e, ufunc_methods.reduced_at, args, {}), out, None)

    return reduceat


def _outer(ufunc: np.ufunc, rule: Handler) -> Handler:
    """ufunc.outer(a, b): every element of a with every element of b."""

    def outer(e: Emitter, a: Any, b: Any, out: Any = None, where: Any = None, dtype: Any = None) -> Any:
        a, b = (strong(operand(e, v, f"np.{ufunc.__name__}.outer")) for v in (a, b))
        if isinstance(a, (Array, Temp)) and isinstance(b, (Array, Temp)):
            tensor, extents = tensor_of(e, a), a.extents
            for _ in range(b.rank):
                tensor, extents = e.emit("padShape", tensor, at=len(extents)), (*extents, i64(1))
            a = Temp(tensor, extents, e.block)
        return rule(e, a, b, out=out, where=where, dtype=dtype)

    return outer


def _at(ufunc: np.ufunc) -> Handler:
    """ufunc.at(a, indices) or ufunc.at(a, indices, b) of a ufunc that no scatter does."""

    def check(e: Emitter, a: Any) -> None:
        if not isinstance(a, Array):
            e.error(TypeMismatch, f"np.{ufunc.__name__}.at needs an array that has a name, not {describe(a)}")
        require_writable(e, a)

    def unary(e: Emitter, a: Any, indices: Any) -> Any:
        check(e, a)
        return e.session.library(e, ufunc_methods.unary_at, [Static(ufunc), a, indices], {})

    def binary(e: Emitter, a: Any, indices: Any, b: Any) -> Any:
        check(e, a)
        return e.session.library(e, ufunc_methods.binary_at, [Static(ufunc), a, indices, b], {})

    return unary if ufunc.nin == 1 else binary


def methods(rules: dict[Any, Handler]) -> dict[Any, Handler]:
    """The rules of the methods of the ufuncs that have rules."""
    known = [f for f in rules if isinstance(f, np.ufunc) and f.nout == 1 and f.signature is None]
    flags = {*COMPARISONS, *(f for f in known if all(t.endswith("?") for t in f.types if "O" not in t))}
    binary = [f for f in known if f.nin == 2]
    folded = [f for f in binary if f not in COMPARISONS and f is not np.ldexp]  # of these a result is an operand
    table: dict[Any, Handler] = {f.outer: _outer(f, rules[f]) for f in binary}
    for f in folded:
        table[f.reduce] = _reduce(f, REDUCE[_REDUCTIONS[f]]) if f in _REDUCTIONS else _written_reduce(f)
        table[f.accumulate], table[f.reduceat] = _accumulate(f), _reduceat(f)
    return {**table, **{f.at: _at(f) for f in known if f not in flags}}
