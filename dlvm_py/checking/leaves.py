"""The float leaves of arguments and results: their names, their values as one real vector, and how to move them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from dlvm_py.runtime.trees import field_names, record_kind

_WIDE = {"f": np.float64, "c": np.complex128}


def parts(value: Any) -> list[tuple[str, Any]] | None:
    """What a value with structure holds, each with how Python would write the access; None for a leaf."""
    if record_kind(value) is None and not isinstance(value, tuple):
        return None
    names = field_names(value) if type(value) is not tuple else ()
    if not names:
        return [(f"[{k}]", item) for k, item in enumerate(value)]
    if isinstance(value, dict):
        return [(f"[{name!r}]", value[name]) for name in names]
    return [(f".{name}", getattr(value, name)) for name in names]


def is_float(leaf: Any) -> bool:
    """Whether a leaf is a number or an array that a derivative can flow through."""
    return isinstance(leaf, float | complex | np.inexact) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc")


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All numbers and arrays in a value, with their names, left to right."""
    found = parts(value)
    if found is None:
        yield name, value
        return
    for access, item in found:
        yield from leaves(item, name + access)


def float_leaves(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """Those that a derivative can flow through."""
    return [(n, leaf) for n, leaf in leaves(value, name) if is_float(leaf)]


def vector(value: Any) -> np.ndarray:
    """The float leaves of a value as one real vector; a complex number is its real part, then its imaginary part."""
    return np.concatenate([np.zeros(0), *(_real(leaf) for _, leaf in float_leaves(value))])


def _real(leaf: Any) -> np.ndarray:
    a = np.ravel(np.asarray(leaf))
    if a.dtype.kind == "c":
        return np.ascontiguousarray(a.astype(np.complex128)).view(np.float64)
    return a.astype(np.float64)


def moved(value: Any, by: np.ndarray, wide: bool = True) -> Any:
    """A fresh copy of a value whose float leaves are moved by a vector like `vector(value)`.

    wide: single precision becomes double, so that differences see the function and not its rounding.
    """
    made, rest = _moved(value, by, wide)
    assert len(rest) == 0
    return made


def like(value: Any, entries: np.ndarray) -> Any:
    """A value with the structure and dtypes of another, of these entries; None for what is no float."""
    made, rest = _moved(value, entries, False, keep=False)
    assert len(rest) == 0
    return made


def _moved(value: Any, by: np.ndarray, wide: bool, keep: bool = True) -> tuple[Any, np.ndarray]:
    found = parts(value)
    if found is None:
        return _leaf(value, by, wide, keep)
    items = []
    for _, item in found:
        made, by = _moved(item, by, wide, keep)
        items.append(made)
    return rebuilt(value, items), by


def _leaf(leaf: Any, by: np.ndarray, wide: bool, keep: bool) -> tuple[Any, np.ndarray]:
    if not is_float(leaf):
        return (copy.deepcopy(leaf) if keep else None), by
    array = np.asarray(leaf)
    count = array.size * (2 if array.dtype.kind == "c" else 1)
    step = by[:count].view(np.complex128) if array.dtype.kind == "c" else by[:count]
    step = step.reshape(array.shape)
    dtype = _WIDE[array.dtype.kind] if wide else array.dtype
    # in place, so that strides stay: what is compiled depends on them
    made = np.empty_like(array, dtype=dtype)
    made[...] = array.astype(dtype) + step if keep else step
    if isinstance(leaf, np.ndarray):
        return made, by[count:]
    kind = type(leaf) if isinstance(leaf, float | complex) and not isinstance(leaf, np.inexact) else made.dtype.type
    return kind(made[()]), by[count:]


def rebuilt(value: Any, items: list[Any]) -> Any:
    """A value of the class of another one, of other items."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(items)
    names = field_names(value)
    if kind is dict:
        return dict(zip(names, items, strict=True))
    if isinstance(value, tuple):
        return tuple.__new__(kind, items)
    made = object.__new__(kind)
    for name, item in zip(names, items, strict=True):
        object.__setattr__(made, name, item)
    return made


def element_names(value: Any, name: str) -> list[str]:
    """What each entry of `vector(value)` is, as Python would write it: x, x[3], p.mass, z[0].imag."""
    found = []
    for text, leaf in float_leaves(value, name):
        array = np.asarray(leaf)
        for index in np.ndindex(*array.shape):
            at = text + (f"[{', '.join(map(str, index))}]" if index else "")
            found += [f"{at}.real", f"{at}.imag"] if array.dtype.kind == "c" else [at]
    return found
