"""Values as words of a command line: `3.5`, `2:f32`, `'<2 x f32>:[1, 2]'`, `x.npy`."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from dlvm_py.ir import BOOL, PointerType, TensorType, Type, dtype_of
from dlvm_py.ir.parser_module import ModuleReader
from dlvm_py.tools import literals
from dlvm_py.tools.common import Failure


def argument(word: str, t: Type, k: int) -> Any:
    """The value of argument `k`, of type `t`, which `word` says."""
    what = f"argument {k}"
    tensor = t.pointee if isinstance(t, PointerType) else t
    if not isinstance(tensor, TensorType):
        reader = literals.Reader(word, what, lambda text, inner: argument(text, inner, k))
        value = reader.value(t)
        reader.end()
        return value
    if word.endswith(".npy"):
        value = _loaded(word, what)
        if value.dtype != tensor.dtype.numpy:
            raise Failure(f"{what}: {word} holds {value.dtype}, and {t} is wanted")
    else:
        stated, number = _parts(word)
        if stated:
            found = _type(stated, what)
            if found != tensor and not (isinstance(found, TensorType) and _agrees(found, tensor)):
                raise Failure(f"{what}: {found} is given, and {tensor} is wanted")
        value = _of_dtype(_evaluated(number, what), number, tensor, what)
    fits = value.ndim == tensor.rank and all(n in (None, m) for n, m in zip(tensor.shape, value.shape, strict=True))
    if not fits:
        raise Failure(f"{what}: extents {value.shape} where {t} is wanted")
    if not tensor.rank:
        return value[()]
    layout = t.layout if isinstance(t, PointerType) else "C"
    return np.asfortranarray(value) if layout == "F" else np.ascontiguousarray(value)


def python_argument(word: str, k: int) -> Any:
    """The value of argument `k` of a Python function: what `word` says in Python, or what its type makes of it.

    `2.5` is a float, `2.5:f32` an np.float32, `[1.0, 2.0]` and `<2 x f64>:[1, 2]` are arrays, `(1, 2)` a tuple.
    """
    what = f"argument {k}"
    if word.endswith(".npy"):
        return _loaded(word, what)
    stated, number = _parts(word)
    value = _evaluated(number, what)
    if not stated:
        return _array(value, number, what) if isinstance(value, list) else value
    t = _type(stated, what)
    tensor = t.pointee if isinstance(t, PointerType) else t
    if not isinstance(tensor, TensorType):
        raise Failure(f"{what}: a value of type {t} cannot be given on the command line")
    array = _of_dtype(value, number, tensor, what)
    if not _agrees(TensorType(array.shape, tensor.dtype), tensor):
        raise Failure(f"{what}: extents {array.shape} where {t} is wanted")
    return array if tensor.rank else array[()]


def shown(value: Any, t: Type | None = None) -> str:
    """A value as it could be written in an argument; of type `t` where that is known."""
    if t is not None:
        return literals.shown(value, t, shown)
    if isinstance(value, np.ndarray):
        return np.array2string(value, separator=", ", threshold=10**6, max_line_width=100)
    if isinstance(value, np.generic):
        value = value.item() if value.dtype.kind in "biu" else value
    return str(value).lower() if isinstance(value, bool) else str(value)


def type_of(value: Any) -> str:
    """The DLVM type of a number or an array."""
    array = np.asarray(value)
    dtype = dtype_of(array.dtype)
    return str(TensorType(array.shape, dtype)) if dtype is not None else type(value).__name__


def _loaded(word: str, what: str) -> np.ndarray:
    try:
        found = np.load(word, allow_pickle=False)
    except (OSError, ValueError) as e:
        raise Failure(f"{what}: cannot read {word}: {e}") from None
    assert isinstance(found, np.ndarray)
    return found


def _parts(word: str) -> tuple[str, str]:
    """The type that a word states, or "", and its number."""
    for stated, number in (word.rpartition(":")[::-2], word.partition(":")[::2]):
        if stated and number and any(c.isalpha() for c in stated) and stated[0] not in "\"'":
            return stated, number
    return "", word


def _evaluated(number: str, what: str) -> Any:
    text = number.strip()
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}.get(text)
    if value is None:
        raise Failure(f"{what}: '{number}' is no number, array or .npy file")
    return value


def _array(value: Any, number: str, what: str) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:
        raise Failure(f"{what}: the rows of {number} differ in length") from None


def _of_dtype(value: Any, number: str, tensor: TensorType, what: str) -> np.ndarray:
    array = _array(value, number, what)
    kinds = {"b": "b", "i": "iu", "u": "iu", "f": "iuf", "c": "iufc"}[tensor.dtype.kind]
    if array.size and array.dtype.kind not in kinds:
        raise Failure(f"{what}: {number} is no {tensor}")
    if tensor.dtype is not BOOL and tensor.dtype.is_integer and array.size:
        low, high = tensor.dtype.limits
        if array.min() < low or array.max() > high:
            raise Failure(f"{what}: {number} does not fit {tensor}")
    return array.astype(tensor.dtype.numpy)


def _agrees(found: TensorType, wanted: TensorType) -> bool:
    return (
        found.dtype is wanted.dtype
        and found.rank == wanted.rank
        and all(n in (None, m) for n, m in zip(wanted.shape, found.shape, strict=True))
    )


def _type(text: str, what: str) -> Type:
    reader = ModuleReader(text.strip().removeprefix("*"), what)
    found = reader.type()
    if not reader.at("end"):
        reader.unexpected("the end of the type")
    return found
