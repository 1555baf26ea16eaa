"""Python arguments → specs: binding as Python binds, and what each value is to the compiler."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    EllipsisType,
    FunctionType,
    GenericAlias,
    MethodType,
    ModuleType,
)
from typing import Any, NoReturn

import numpy as np

from dlvm_py.errors import ArgumentError, TypeMismatch
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    GeneratorSpec,
    ListSpec,
    RecordSpec,
    ScalarSpec,
    Spec,
    TableSpec,
    TupleSpec,
    dtype_of_leaf,
    is_generator,
)
from dlvm_py.ir.types import dtype_of
from dlvm_py.runtime.gpu.arrays import DeviceArray, is_on_device
from dlvm_py.runtime.trees import field_names, record_kind

_MAX_ITEMS = 256  # of a list
_I64_MIN, _I64_MAX = -(1 << 63), (1 << 63) - 1
_CONSTANTS = (
    str, bytes, type(None), EllipsisType, slice, range, type, enum.Enum, np.dtype, np.ufunc,
    ModuleType, FunctionType, BuiltinFunctionType, MethodType, GenericAlias,
)  # fmt: skip


# -- binding -------------------------------------------------------------------------------------------


def binder(signature: inspect.Signature, name: str) -> Callable[..., tuple[Any, ...]]:
    """A Python function with `signature` that gives its arguments, one a parameter, defaults filled in.

    Wrong arguments raise the TypeError that Python itself raises for a function `name`.
    """
    parts: list[str] = []
    parameters = list(signature.parameters.values())
    kinds = [p.kind for p in parameters]
    for k, p in enumerate(parameters):
        if p.kind is p.KEYWORD_ONLY and p.VAR_POSITIONAL not in kinds and (not k or kinds[k - 1] is not p.kind):
            parts.append("*")
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(star + p.name + ("=None" if p.default is not p.empty else ""))
        if p.kind is p.POSITIONAL_ONLY and (k + 1 == len(kinds) or kinds[k + 1] is not p.kind):
            parts.append("/")
    names = "".join(f"{p.name}, " for p in parameters)
    scope: dict[str, Any] = {}
    exec(f"def bind({', '.join(parts)}): return ({names})", scope)
    bind = scope["bind"]
    given = [p for p in parameters if p.default is not p.empty]
    bind.__defaults__ = tuple(p.default for p in given if p.kind is not p.KEYWORD_ONLY) or None
    bind.__kwdefaults__ = {p.name: p.default for p in given if p.kind is p.KEYWORD_ONLY} or None
    bind.__name__ = bind.__qualname__ = name
    return bind


# -- specs ---------------------------------------------------------------------------------------------


def spec_of(value: Any, what: str = "the argument") -> Spec:
    """The spec of a Python value; `what` names it in messages ("argument 'x'").

    Raises: TypeMismatch for dtypes outside the language, ArgumentError for other objects that cannot be passed,
    OverflowError for a Python int of more than 64 bits.
    """
    if isinstance(value, np.ndarray):
        return _array_spec(value, what)
    if isinstance(value, DeviceArray):
        return _device_spec(value, what)
    if isinstance(value, np.generic):
        return ScalarSpec(_dtype_name(value.dtype, what), weak=False)
    if is_generator(value):
        return GeneratorSpec()
    if isinstance(value, bool):
        return ScalarSpec("bool", weak=True)
    if isinstance(value, _CONSTANTS) or _is_compiled(value):
        return ConstantSpec(value)
    if isinstance(value, int):
        if not _I64_MIN <= value <= _I64_MAX:
            raise OverflowError(f"{what}: Python int {value} does not fit in 64 bits")
        return ScalarSpec("i64", weak=True)
    if isinstance(value, float):
        return ScalarSpec("f64", weak=True)
    if isinstance(value, complex):
        return ScalarSpec("c128", weak=True)
    if type(value) is tuple:
        return TupleSpec(tuple(spec_of(item, f"item {k} of {what}") for k, item in enumerate(value)))
    kind = record_kind(value)
    if kind is not None:
        return _record_spec(kind, value, what)
    raise _refusal(value, what)


def numbers_of(value: list[Any]) -> ListSpec | None:
    """The spec of a list that is passed as an array: a long one, of numbers of one type. None for any other."""
    if len(value) <= _MAX_ITEMS or type(value[0]) not in (bool, int, float, complex):
        return None
    kind = type(value[0])
    if not all(type(item) is kind for item in value):
        return None
    found = spec_of(max(value, key=abs) if kind is int else value[0], "an item of a list")
    assert isinstance(found, ScalarSpec)
    return ListSpec(found)


def table_of(value: dict[Any, Any], what: str = "the argument") -> TableSpec:
    """The spec of a dict whose keys are no strings.

    Raises: ArgumentError where they are not real numbers of one type, or tuples of such, or the values not numbers of
    one type; OverflowError for a Python int of more than 64 bits.
    """
    is_tuple = type(next(iter(value))) is tuple
    keys = list(value)
    if is_tuple:
        lengths = {len(k) if type(k) is tuple else -1 for k in keys}
        if len(lengths) > 1 or lengths == {0}:
            _refuse_table(what, "keys are tuples of different lengths")
        columns = list(zip(*keys, strict=True))
    else:
        columns = [tuple(keys)]
    specs = tuple(_column_spec(column, what, "keys") for column in columns)
    if any(dtype_of_leaf(s).is_complex or any(k != k for k in c) for s, c in zip(specs, columns, strict=True)):
        _refuse_table(what, "keys are complex, or NaN")
    return TableSpec(specs, is_tuple, _column_spec(tuple(value.values()), what, "values"))


def _column_spec(column: tuple[Any, ...], what: str, part: str) -> ScalarSpec:
    kinds = list(dict.fromkeys(map(type, column)))
    if len(kinds) > 1:
        _refuse_table(what, f"{part} are of several types ({', '.join(k.__name__ for k in kinds)})")
    if kinds[0] not in (bool, int, float, complex) and not issubclass(kinds[0], np.generic):
        _refuse_table(what, f"{part} are no numbers ({kinds[0].__name__})")
    found = spec_of(max(column, key=abs) if kinds[0] is int else column[0], f"one of the {part} of {what}")
    assert isinstance(found, ScalarSpec)
    return found


def _refuse_table(what: str, why: str) -> NoReturn:
    raise ArgumentError(
        f"{what} is a dict whose {why}",
        help="let keys be strings; or real numbers of one type, or tuples of them, and the values numbers of one type",
    )


def _record_spec(kind: type, value: Any, what: str) -> RecordSpec | ListSpec | TableSpec:
    names = field_names(value)
    if kind is dict and not all(isinstance(name, str) for name in names):
        return table_of(value, what)
    if kind is list:
        if any(isinstance(item, str) for item in value):
            raise ArgumentError(f"{what} is a list of strings", help="text is not numeric data")
        numbers = numbers_of(value)
        if numbers is not None:
            return numbers
        if len(value) > _MAX_ITEMS:
            advice = "pass np.array(...), or Python's numbers of one type: others are compiled for each length"
            raise ArgumentError(f"{what} is a list of {len(value)} items", help=advice)
    shown = {list: "item {} of {}", dict: "the value of {!r} in {}"}.get(kind, "the field `{}` of {}")
    try:
        parts = list(value.values() if kind is dict else value if not names else (getattr(value, n) for n in names))
    except AttributeError as error:
        raise ArgumentError(f"{what} lacks a field: {error}") from None
    keys = names or range(len(parts))
    specs = (spec_of(part, shown.format(key, what)) for key, part in zip(keys, parts, strict=True))
    return RecordSpec(kind, names, tuple(specs))


def _is_compiled(value: Any) -> bool:
    return callable(value) and type(value).__module__.partition(".")[0] == "dlvm_py"


def _refusal(value: Any, what: str) -> ArgumentError:
    kind = type(value)
    shown = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    advice = (
        "arguments are numbers, NumPy scalars and arrays, tuples, lists, dicts, named tuples and dataclasses of these, "
        "random Generators, strings, None and functions"
    )
    if is_on_device(value):
        advice = "pass arrays of a device as arguments of their own, or in tuples"
    if isinstance(value, np.random.RandomState):
        advice = "pass a generator: np.random.default_rng(seed)"
    return ArgumentError(f"{what} has the type {shown}, which compiled code cannot use", help=advice)


def _dtype_name(dtype: np.dtype[Any], what: str) -> str:
    found = dtype_of(dtype) if dtype.names is None and dtype.subdtype is None else None
    if found is not None:
        return found.name
    if dtype == np.dtype(object):
        raise TypeMismatch(
            f"{what} has dtype object: its elements are arbitrary Python objects",
            help="convert it to a numeric dtype: x.astype(float)",
        )
    if not dtype.isnative:
        raise TypeMismatch(
            f"{what} has dtype {dtype.str}, whose byte order is not this machine's",
            help="x.astype(x.dtype.newbyteorder('=')) gives the same values in native byte order",
        )
    if dtype == np.dtype("V2"):
        raise TypeMismatch(
            f"{what} has dtype {dtype}, two bytes that may be anything",
            help="bfloat16 is that of ml_dtypes: x.view(ml_dtypes.bfloat16); arrays on a device say so by DLPack",
        )
    raise TypeMismatch(
        f"{what} has dtype {dtype}, which is not supported",
        help="the dtypes are bool, int8 to int64, uint8 to uint64, float16 to float64, complex64 and complex128, and "
        "the bfloat16 of ml_dtypes",
    )


def _array_spec(value: np.ndarray[Any, Any], what: str) -> ArraySpec:
    if type(value) is not np.ndarray and not isinstance(value, np.memmap):
        raise ArgumentError(
            f"{what} is a {type(value).__qualname__}, a subclass of ndarray with behaviour of its own",
            help="pass np.asarray(x)",
        )
    dtype = _dtype_name(value.dtype, what)
    flags = value.flags
    if not flags.aligned:
        raise TypeMismatch(f"{what} is not aligned in memory for its dtype {value.dtype}", help="pass x.copy()")
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "S"
    return ArraySpec(dtype, tuple(n == 1 for n in value.shape), layout)


def _device_spec(value: DeviceArray, what: str) -> ArraySpec:
    dtype = _dtype_name(value.dtype, what)
    if value.size and any(n % value.dtype.alignment for n in (value.data, *value.strides)):
        raise TypeMismatch(f"{what} is not aligned in memory for its dtype {value.dtype}", help="pass a copy")
    return ArraySpec(dtype, tuple(n == 1 for n in value.shape), value.layout())
