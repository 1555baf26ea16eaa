"""Attributes of values: x.shape, x.T, methods of arrays, names in modules."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnknownFunction
from dlvm_py.frontend import lists, objects, records, sets, tables, undecided
from dlvm_py.frontend.closest import suggestion
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.mixed import joined
from dlvm_py.frontend.numpy_complex import imag, real
from dlvm_py.frontend.numpy_shape import ravel, swapaxes, transpose
from dlvm_py.frontend.numpy_view import flag
from dlvm_py.frontend.table import array_method, array_methods, lookup, numpy_names, random_methods, ufunc_method_help
from dlvm_py.frontend.texts import args_of, formatted, join
from dlvm_py.frontend.values import (
    NONE,
    Array,
    Caught,
    Flags,
    Growing,
    Method,
    Mixed,
    RandomGenerator,
    Record,
    Scalar,
    Sequence,
    SliceKey,
    Static,
    Stream,
    Temp,
    Undecided,
    describe,
)
from dlvm_py.ir import Value
from dlvm_py.ir.text import STREAMS


def _int(value: Value) -> Scalar:
    return Scalar(value, weak=True)


def _extents(value: Any) -> tuple[Value, ...]:
    return () if isinstance(value, Scalar) else value.extents


ARRAY_ATTRIBUTES: dict[str, Callable[[Emitter, Any], Any]] = {
    "shape": lambda e, x: Sequence(tuple(map(_int, _extents(x)))),
    "ndim": lambda e, x: _int(i64(len(_extents(x)))),
    "size": lambda e, x: _int(e.product(_extents(x))),
    "dtype": lambda e, x: Static(x.dtype.numpy),
    "itemsize": lambda e, x: _int(i64(x.dtype.itemsize)),
    "nbytes": lambda e, x: _int(e.multiply(e.product(_extents(x)), i64(x.dtype.itemsize))),
    "T": lambda e, x: x if isinstance(x, Scalar) else transpose(e, x),
    "real": real,
    "imag": imag,
    "flat": lambda e, x: ravel(e, x),
    "flags": lambda e, x: Flags(x),
    "mT": lambda e, x: swapaxes(e, x, _int(i64(-1)), _int(i64(-2))),
}
_OF_NUMBERS = {"real": real, "imag": imag}


def _instead_of(name: str, supported: str) -> str:
    """What to write instead of an attribute that arrays do not have."""
    return suggestion(name, [*ARRAY_ATTRIBUTES, *array_methods()]) or (supported and "call it outside of compiled code")


def attribute(e: Emitter, owner: Any, name: str) -> Any:
    """owner.name."""
    owner = joined(owner) if isinstance(owner, Mixed) else owner
    if isinstance(owner, Undecided):
        how = undecided.attribute(owner, name)
        if not how:
            undecided.refuse(e, owner)
        found = attribute(e, owner.value, name)
        return found if how == "same" else undecided.wrapped(e, found)
    # what takes arrays in the library takes Python's numbers
    if isinstance(owner, (Array, Temp)) or (isinstance(owner, Scalar) and (e.is_library or not owner.weak)):
        found = ARRAY_ATTRIBUTES.get(name)
        if found is not None:
            return found(e, owner)
        if name == "strides":
            e.error(
                UnknownFunction,
                "the strides of arrays are not known when this is compiled",
                help="x.itemsize and x.shape say those of a contiguous array",
            )
        is_there = not isinstance(owner, Scalar) or hasattr(np.float64, name)  # NumPy's scalars lack some of them
        if is_there and array_method(name) is not None:
            return Method(owner, name)
        supported = "supported " if hasattr(np.ndarray, name) else ""
        e.error(
            UnknownFunction,
            f"{'arrays' if is_there else 'NumPy scalars'} have no {supported}attribute or method `{name}`",
            help=_instead_of(name, supported) if is_there else "call the function of NumPy",
        )
    if isinstance(owner, Flags):
        return flag(e, owner, name)
    if isinstance(owner, SliceKey) and name in ("start", "stop", "step"):
        found = getattr(owner, name)
        return NONE if found is None else found
    if isinstance(owner, RandomGenerator):
        found = random_methods().get(name)
        if found is not None:
            return Method(owner, name, found)
        e.error(
            UnknownFunction,
            f"Generators have no supported method `{name}`",
            help=suggestion(name, random_methods()) or "draw outside, and pass the array",
        )
    if sets.held_by(e, owner) is not None and not e.is_library:  # library code sees what it is made of
        return sets.method(e, owner, name)
    if tables.held_by(e, owner) is not None and not e.is_library:
        return tables.method(e, owner, name)
    if isinstance(owner, Static):
        return _static(e, owner.value, name)
    if isinstance(owner, Scalar) and name in _OF_NUMBERS:
        return _OF_NUMBERS[name](e, owner)
    if isinstance(owner, Scalar) and name == "conjugate":
        return Method(owner, name)
    if isinstance(owner, Caught) and name == "args":
        return args_of(e, owner)
    held = objects.contents(e, owner)
    if isinstance(held, Record):
        return records.attribute_of(e, owner, name)
    if isinstance(held, Growing) or (isinstance(held, Sequence) and held.is_list):
        return lists.method(e, owner, name)
    if isinstance(held, Sequence) and name in ("count", "index"):
        return Method(owner, name, lists.METHODS[name])
    e.error(TypeMismatch, f"{describe(held)} has no supported attribute `{name}`")


_TEXT_METHODS = frozenset(
    "capitalize casefold center count endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier "
    "islower isnumeric isspace istitle isupper ljust lower lstrip partition removeprefix removesuffix replace rfind "
    "rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill".split()
)


def _static(e: Emitter, owner: Any, name: str) -> Any:
    if owner is sys and name in STREAMS:
        return Stream(name)
    try:
        value = getattr(owner, name)
    except AttributeError:
        what = f"module {owner.__name__}" if isinstance(owner, ModuleType) else describe(Static(owner))
        known = numpy_names() if owner is np else dir(owner)
        e.error(UnknownFunction, f"{what} has no attribute `{name}`", help=suggestion(name, known))
    if isinstance(owner, ModuleType):
        value = e.session.captures.value_of(owner.__dict__, name, value)
    if isinstance(owner, (ModuleType, np.finfo, np.iinfo, np.dtype)):
        return e.session.lift(e, value, name)
    if isinstance(owner, str) and name == "format":
        return Method(Static(owner), name, formatted)
    if isinstance(owner, str) and name == "join":
        return Method(Static(owner), name, join)
    if isinstance(owner, str) and name in _TEXT_METHODS:
        return Method(Static(owner), name)
    if owner is itertools.chain and name == "from_iterable":
        return Static(value)
    if isinstance(owner, type) and name == "__name__":
        return Static(value)
    if isinstance(owner, np.ufunc) and lookup(value) is not None:
        return Static(value)
    if isinstance(owner, np.ufunc):
        e.error(UnknownFunction, f"np.{owner.__name__}.{name} is not supported", help=ufunc_method_help(owner))
    e.error(
        UnknownFunction,
        f"the attribute `{name}` of {describe(Static(owner))} is not supported",
        help="read it outside, and pass the value as an argument",
    )
