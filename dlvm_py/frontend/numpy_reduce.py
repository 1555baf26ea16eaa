"""Reductions and running reductions: sum, prod, mean, max, min, any, all, cumsum, cumprod."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import fit, temp, tensor_of
from dlvm_py.frontend.deliver import deliver, dtype_of_destination, flags_of
from dlvm_py.frontend.elementwise import apply_op, cast_scalar, operand, stored_scalar, supported, truth, ufunc_call
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.indexing import as_flag
from dlvm_py.frontend.numpy_create import as_dtype
from dlvm_py.frontend.values import Array, Scalar, Sequence, Temp, is_none
from dlvm_py.frozen import Frozen
from dlvm_py.ir import BOOL, F16, F32, F64, DType, Value, dtype_of, literal, scalar


def as_axes(e: Emitter, axis: Any, rank: int) -> tuple[int, ...]:
    """An axis argument (None, an int, a tuple of ints), normalised and sorted."""
    if is_none(axis):
        return tuple(range(rank))
    items = axis.items if isinstance(axis, Sequence) else (axis,)
    return tuple(sorted(as_axis(e, item, rank) for item in items))


def as_axis(e: Emitter, item: Any, rank: int) -> int:
    """One axis, which must be a constant."""
    n = item.number if isinstance(item, Scalar) else None
    if not isinstance(n, int):
        e.error(UnsupportedSyntax, "an axis must be a constant int", help="write axis=0, or one call per case")
    if not -rank <= n < rank:
        e.error(TypeMismatch, f"axis {n} is out of bounds for array of dimension {rank}")
    return n % rank


@cache
def reduction_loop(ufunc: np.ufunc, dtype: np.dtype, out: np.dtype | None, wanted: np.dtype | None) -> np.dtype:
    """The dtype of the loop (d, d) -> d that NumPy's reductions and running reductions run, TypeError without one."""
    asked = {} if wanted is None else {"signature": (wanted, None, None)}
    return ufunc.resolve_dtypes((out, dtype, None), casting="unsafe", reduction=True, **asked)[2]


def _loop_of(e: Emitter, ufunc: np.ufunc, dtype: DType, out: Any) -> DType:
    """The dtype of that loop where none is asked for."""
    found = reduction_loop(ufunc, dtype.numpy, dtype_of_destination(out), None)
    return supported(e, found, f"np.{ufunc.__name__}")


_Identity = Callable[[DType], Any]


class _Form(Frozen):
    """The arguments that all reductions share, as they were given."""

    axis: Any = None
    keepdims: Any = None
    initial: Any = None
    where: Any = None
    out: Any = None


def _reduce(
    e: Emitter,
    name: str,
    a: Any,
    form: _Form,
    by: str,
    identity: Callable[[DType], Any],
    prepare: Callable[[Value], Value],
) -> Any:
    """A reduction of `prepare(a)`: elements that `where` leaves out count as the identity."""
    a = operand(e, a, f"np.{name}")
    if isinstance(a, Array) and a.rank == 0:
        a = Scalar(tensor_of(e, a), weak=False)
    tensor = prepare(tensor_of(e, a))
    extents = () if isinstance(a, Scalar) else a.extents
    dtype = tensor.type.dtype  # type: ignore[attr-defined]
    first = literal(identity(dtype), scalar(dtype))
    if not _everywhere(form.where):
        tensor = _masked(e, name, tensor, extents, form.where, first)
    axes = as_axes(e, form.axis, len(extents))
    begins = by == "multiply" and extents and not is_none(form.initial)  # products overflow: the order is NumPy's
    if begins:
        first = _first_value(e, name, form.initial, dtype)
    if extents:
        tensor = e.emit("reduce", tensor, first, by=by, axes=axes)
    kept = [n for k, n in enumerate(extents) if k not in axes]
    if as_flag(e, form.keepdims, "keepdims"):
        for k in axes:
            tensor = e.emit("padShape", tensor, at=k)
            kept.insert(k, i64(1))
    if not begins and not is_none(form.initial):
        tensor = apply_op(e, by, [tensor, _first_value(e, name, form.initial, dtype)])
    return deliver(e, name, temp(e, tensor, kept), form.out, None)


def _first_value(e: Emitter, name: str, initial: Any, dtype: DType) -> Value:
    """`initial` of a reduction in the dtype of its loop: converted as a number that is stored in an array."""
    value = operand(e, initial, f"`initial` of np.{name}")
    if not isinstance(value, Scalar):
        e.error(TypeMismatch, f"`initial` of np.{name} must be a number")
    # an array without axes is cast, a number goes by way of Python's int
    return cast_scalar(e, value, dtype) if isinstance(initial, Array) else stored_scalar(e, value, dtype)


def _everywhere(where: Any) -> bool:
    return where is None or (isinstance(where, Scalar) and where.number is True)


def _masked(e: Emitter, name: str, tensor: Value, extents: tuple[Value, ...], where: Any, other: Value) -> Value:
    flags = flags_of(e, name, where)
    if not extents:
        e.error(UnsupportedSyntax, f"np.{name} of a number with where= is not supported", help="write an `if`")
    return apply_op(e, "select", [tensor, other, fit(e, flags, extents)])


def _total(name: str, by: str, identity: int) -> Any:
    """np.sum and np.prod: small integers and bools are added as i64 or u64."""
    ufunc = getattr(np, by)

    def reduction(
        e: Emitter, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = None,
        initial: Any = None, where: Any = None,
    ) -> Any:  # fmt: skip
        a = operand(e, a, f"np.{name}")
        form = _Form(axis, keepdims, initial, where, out)
        wanted = as_dtype(e, dtype, _loop_of(e, ufunc, a.dtype, out))
        if wanted is BOOL:
            op = {"add": "or", "multiply": "and"}[by]
            return _reduce(e, name, a, form, op, lambda d: bool(identity), lambda t: truth(e, t))
        return _reduce(e, name, a, form, by, lambda d: identity, lambda t: e.cast(t, wanted))

    return reduction


def mean(
    e: Emitter, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = None, where: Any = None
) -> Any:
    """np.mean: integers in f64, half precision in f32; nan over no elements."""
    a = operand(e, a, "np.mean")

    is_half = is_none(dtype) and a.dtype is F16
    usual = F32 if is_half else _loop_of(e, np.add, a.dtype, out) if a.dtype.is_inexact else F64
    wanted = as_dtype(e, dtype, usual)
    if not wanted.is_inexact:
        e.error(UnsupportedSyntax, f"np.mean in {wanted.numpy_name} is not supported", help="convert the mean")

    def prepare(t: Value) -> Value:
        return e.cast(t, wanted)

    total = _reduce(e, "mean", a, _Form(axis, keepdims, None, where), "add", lambda d: 0, prepare)
    if isinstance(a, Scalar):
        return deliver(e, "mean", total, out, None)
    held = None if is_none(out) else dtype_of(dtype_of_destination(out))
    if held is not None and held.is_inexact:
        total = cast_to(e, total, held)  # NumPy adds up into `out`, and divides there
    count = Scalar(count_of(e, a.extents, axis), weak=False)
    if not _everywhere(where):
        flags = Temp(fit(e, flags_of(e, "mean", where), a.extents), a.extents, e.block)
        count = SUM(e, flags, axis, keepdims=keepdims)
    found = ufunc_call(e, np.divide, total, cast_to(e, count, total.dtype))
    return deliver(e, "mean", cast_to(e, found, F16) if is_half and is_none(out) else found, out, None)


def cast_to(e: Emitter, value: Any, dtype: DType) -> Any:
    """A Scalar or Temp in another dtype."""
    if isinstance(value, Scalar):
        return Scalar(e.cast(value.value, dtype), weak=False)
    return Temp(e.cast(tensor_of(e, value), dtype), value.extents, e.block)


def count_of(e: Emitter, extents: tuple[Value, ...], axis: Any) -> Value:
    """How many elements each result of a reduction is made of."""
    return e.product(tuple(extents[k] for k in as_axes(e, axis, len(extents))))


def _lowest(dtype: DType) -> Any:
    if dtype is BOOL:
        return False
    if dtype.is_complex:
        return complex(-math.inf, -math.inf)
    return -math.inf if dtype.is_float else dtype.limits[0]


def _highest(dtype: DType) -> Any:
    if dtype is BOOL:
        return True
    if dtype.is_complex:
        return complex(math.inf, math.inf)
    return math.inf if dtype.is_float else dtype.limits[1]


def _extreme(name: str, by: str, word: str, identity: _Identity) -> Any:
    on_bool = {"max": "or", "min": "and"}[by]

    def reduction(
        e: Emitter, a: Any, axis: Any = None, out: Any = None, keepdims: Any = None, initial: Any = None,
        where: Any = None,
    ) -> Any:  # fmt: skip
        a = operand(e, a, f"np.{name}")
        if is_none(initial):
            if not _everywhere(where):
                e.error(TypeMismatch, f"reduction operation '{word}' does not have an identity, so to use a where "
                        "mask one has to specify 'initial'", help="give `initial`")  # fmt: skip
            if isinstance(a, Scalar):
                return deliver(e, name, Scalar(a.value, weak=False), out, None)
            _check_not_empty(e, a.extents, as_axes(e, axis, a.rank), word)
        loop = _loop_of(e, getattr(np, word), a.dtype, out)
        op = on_bool if loop is BOOL else by
        return _reduce(e, name, a, _Form(axis, keepdims, initial, where, out), op, identity, lambda t: e.cast(t, loop))

    return reduction


def _check_not_empty(e: Emitter, extents: tuple[Value, ...], axes: tuple[int, ...], word: str) -> None:
    """NumPy refuses to take the extreme of nothing, even where there is no result element."""
    fine: Value = literal(True)
    for k in axes:
        fine = e.both(fine, e.compare("lessThan", i64(0), extents[k]))
    message = f"zero-size array to reduction operation {word} which has no identity"
    e.check(fine, "ValueError", message)


def _test(name: str, by: str, identity: bool) -> Any:
    """np.any and np.all."""

    def reduction(
        e: Emitter, a: Any, axis: Any = None, out: Any = None, keepdims: Any = None, where: Any = None
    ) -> Any:
        form = _Form(axis, keepdims, None, where, out)
        return _reduce(e, name, a, form, by, lambda d: identity, lambda t: truth(e, t))

    return reduction


def _test_method(rule: Any) -> Any:
    """x.any and x.all, whose places are those of the functions that NumPy hides behind them: axis, dtype, out."""

    def method(
        e: Emitter, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = None, *,
        where: Any = None,
    ) -> Any:  # fmt: skip
        if not is_none(dtype) and as_dtype(e, dtype) is not BOOL:
            e.error(UnsupportedSyntax, "x.any and x.all give bools", help="convert the result with .astype")
        return rule(e, a, axis, out, keepdims, where)

    return method


def accumulate(e: Emitter, a: Any, by: str, axis: Any, dtype: Any, out: Any = None) -> Any:
    """A running sum, product or extreme along one axis; of all elements, flattened, for None."""
    a = operand(e, a, "a running reduction")
    if isinstance(a, Scalar):
        a = Temp(e.emit("broadcast", a.value, i64(1)), (i64(1),), e.block)
    tensor, extents = tensor_of(e, a), a.extents
    ufunc = getattr(np, {"max": "maximum", "min": "minimum"}.get(by, by))
    tensor = e.cast(tensor, as_dtype(e, dtype, _loop_of(e, ufunc, a.dtype, out)))
    if is_none(axis):
        extents = (e.product(extents),)
        tensor, axes = e.emit("shapeCast", tensor, *extents) if a.rank != 1 else tensor, (0,)
    else:
        axes = (as_axis(e, axis, a.rank),)
    if tensor.type.dtype is BOOL:  # type: ignore[attr-defined]
        by = {"max": "or", "min": "and", "add": "or", "multiply": "and"}[by]
    return Temp(e.emit("scan", tensor, by=by, axes=axes), extents, e.block)


def _running(name: str, by: str) -> Any:
    """np.cumsum and np.cumprod."""

    def reduction(e: Emitter, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return deliver(e, name, accumulate(e, a, by, axis, dtype, out), out, None)

    return reduction


SUM, PROD = _total("sum", "add", 0), _total("prod", "multiply", 1)
_MAX, _MIN = _extreme("max", "max", "maximum", _lowest), _extreme("min", "min", "minimum", _highest)
_ANY, _ALL = _test("any", "or", False), _test("all", "and", True)
_CUMSUM, _CUMPROD = _running("cumsum", "add"), _running("cumprod", "multiply")
REDUCE: dict[Any, Any] = {
    np.sum: SUM, np.prod: PROD, np.mean: mean, np.max: _MAX, np.min: _MIN, np.any: _ANY, np.all: _ALL,
    np.cumsum: _CUMSUM, np.cumprod: _CUMPROD, np.amax: _MAX, np.amin: _MIN,
}  # fmt: skip
REDUCE_METHODS: dict[str, Any] = {
    "sum": SUM, "prod": PROD, "mean": mean, "max": _MAX, "min": _MIN,
    "any": _test_method(_ANY), "all": _test_method(_ALL),
    "cumsum": _CUMSUM, "cumprod": _CUMPROD,
}  # fmt: skip
