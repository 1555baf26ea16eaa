"""Functions of each element, and comparisons of whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import refuse, unroll


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:
    """np.isclose: |a - b| <= atol + rtol |b|, or equal."""
    if np.result_type(b).kind in ("b", "i", "u"):
        b = b * 1.0
    near = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
    return near | (np.isnan(a) & np.isnan(b)) if equal_nan else near


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:
    """np.allclose: a Python bool."""
    return bool(np.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: Any, a2: Any, equal_nan: Any = False) -> Any:
    """np.array_equal: equal shapes and elements."""
    if np.ndim(a1) != np.ndim(a2):
        return False
    for k in unroll(np.ndim(a1)):
        if a1.shape[k] != a2.shape[k]:
            return False
    same = a1 == a2
    if equal_nan:
        same = same | (np.isnan(a1) & np.isnan(a2))
    return bool(np.all(same))


def array_equiv(a1: Any, a2: Any) -> Any:
    """np.array_equiv: equal where one is broadcast to the other."""
    rank = max(np.ndim(a1), np.ndim(a2))
    first = (1,) * (rank - np.ndim(a1)) + np.shape(a1)
    second = (1,) * (rank - np.ndim(a2)) + np.shape(a2)
    for k in unroll(rank):
        if first[k] != second[k] and first[k] != 1 and second[k] != 1:
            return False
    return bool(np.all(a1 == a2))


def nan_to_num(x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """np.nan_to_num: numbers in the place of nan and infinities, the largest finite ones unless given."""
    kind = np.result_type(x).kind
    if kind == "c":
        real, imag = nan_to_num(x.real, True, nan, posinf, neginf), nan_to_num(x.imag, True, nan, posinf, neginf)
        if np.ndim(x) == 0:
            return np.result_type(x).type(real + 1j * imag)
        found = x if not copy else np.empty_like(x)
        found.real[...] = real
        found.imag[...] = imag
        return found
    if kind != "f":
        return np.copy(x)[()] if copy else x
    limits = np.finfo(np.result_type(x))
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    found = np.where(np.isnan(x), nan, np.where(x == np.inf, high, np.where(x == -np.inf, low, x)))
    found = found.astype(np.result_type(x))
    if copy or np.ndim(x) == 0:
        return found
    x[...] = found
    return x


def sinc(x: Any) -> Any:
    """np.sinc: sin(πx) / (πx), 1 at 0."""
    x = x * 1.0
    y = np.pi * np.where(x == 0, np.result_type(x).type(1), x)
    return np.where(x == 0, np.result_type(x).type(1), np.sin(y) / y)


def around(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """np.round: to the nearest, ties to even, at a place behind (or, negative, before) the point."""
    if np.result_type(a).kind in ("i", "u"):
        if decimals < 0:
            if out is not None:
                check_cast(np.float64(0), out, "same_kind")  # NumPy divides into it
            whole = (np.rint(a / 10.0**-decimals) * 10.0**-decimals).astype(np.result_type(a))
            return deliver(whole, out)
        if out is None:
            return np.copy(a)[()]
        np.copyto(out, a)
        return out
    if np.result_type(a).kind == "b" and decimals != 0:
        refuse("np.round of bools to decimals is not defined", "convert with .astype(np.float64)")
    if decimals == 0:
        return np.rint(a, out=out)
    if np.result_type(a).kind == "c":
        found = np.empty_like(a)
        found.real = around(np.real(a), decimals)
        found.imag = around(np.imag(a), decimals)
        return deliver(found[()], out)
    if np.result_type(a).name == "bfloat16":
        refuse("np.round of bfloat16 to decimals is not supported", "np.round(x.astype(np.float32), decimals)")
    if decimals > 0:
        return np.divide(np.rint(a * 10.0**decimals), 10.0**decimals, out=out)
    return np.multiply(np.rint(a / 10.0**-decimals), 10.0**-decimals, out=out)


def fix(x: Any, out: Any = None) -> Any:
    """np.fix: towards zero."""
    return np.trunc(x, out=out)


def require_order(x: Any) -> None:
    """A TypeError for complex numbers, whose infinities have no sign."""
    if np.result_type(x).kind == "c":
        refuse(f"This operation is not supported for {np.result_type(x)} values because it would be ambiguous.")


def isneginf(x: Any, out: Any = None) -> Any:
    """np.isneginf."""
    require_order(x)
    return np.equal(x, -np.inf, out=out)


def isposinf(x: Any, out: Any = None) -> Any:
    """np.isposinf."""
    require_order(x)
    return np.equal(x, np.inf, out=out)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """np.select: the first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        refuse("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        refuse("select with an empty condition list is not possible")
    dtype = np.result_type(*choicelist, default)
    found = np.asarray(default).astype(dtype)
    for flag, choice in zip(condlist[::-1], choicelist[::-1]):  # noqa: B905 - of one length
        found = np.where(flag, choice, found)
    return np.asarray(found)


def check_cast(src: Any, dst: Any, casting: str) -> None:
    """NumPy's error for what may not be stored by a rule of casting; Python's numbers take any dtype of their kind."""
    given, wanted = np.result_type(src), np.result_type(dst)
    if not np.can_cast(given, wanted, casting) and np.result_type(src, dst) != wanted:
        refuse(
            f"Cannot cast array data from dtype('{given}') to dtype('{wanted}') according to the rule '{casting}'",
            "convert with .astype",
        )


def deliver(result: Any, out: Any) -> Any:
    """The result, stored in `out` if there is one."""
    if out is None:
        return result
    check_cast(result, out, "same_kind")
    out[...] = result
    return out


def element_of(value: Any, a: Any) -> Any:
    """A number in the dtype of `a`, as an array of it is made: `a[i] = value` takes NumPy's numbers for Python's."""
    if isinstance(value, (tuple, list)) or np.ndim(value) > 0:
        return value
    return np.array(value, dtype=np.result_type(a))


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> Any:
    """np.copyto: stores in `dst` where `where` holds."""
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        refuse("`casting` must be the constant 'no', 'equiv', 'safe', 'same_kind' or 'unsafe'")
    check_cast(src, dst, casting)
    src = element_of(src, dst)
    if where is True:
        dst[...] = src
    else:
        dst[...] = np.where(where, src, dst)


FUNCTIONS = {
    np.isclose: isclose, np.allclose: allclose, np.array_equal: array_equal, np.array_equiv: array_equiv,
    np.nan_to_num: nan_to_num, np.sinc: sinc, np.round: around, np.around: around, np.fix: fix,
    np.isneginf: isneginf, np.isposinf: isposinf, np.select: select, np.copyto: copyto,
}  # fmt: skip
METHODS = {"round": around}
