"""Texts with values in them: what messages of exceptions, and `print`, show, and how.

A message is a format string as `str.format` takes it, with one field an operand in order: "x is {:.3f}, {!r}". What an
operand is to Python says a *flavour*, one letter an operand:

    p    Python's own number: bool, int, float, complex
    n    a NumPy scalar of the operand's dtype
    a    an ndarray, of a pointer
    l    a list of Python's numbers, of a pointer to an array with one axis
    m    a list of the rows of an array: NumPy scalars, or arrays

Where nothing is said, a pointer is an array, a scalar bool, i64, f64 or c128 Python's number, and any other scalar a
NumPy scalar. The interpreter and the runtime make the text by the same two functions, so that it is what Python
prints: by `str.format` of the very objects.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm_py.ir.exceptions import exception_class
from dlvm_py.ir.types import CELL, PointerType, TensorType, Type

if TYPE_CHECKING:
    from dlvm_py.errors import Loc
    from dlvm_py.ir.value import Value

PYTHON, NUMPY, ARRAY, NUMBERS, ROWS = "p", "n", "a", "l", "m"
STREAMS = ("stdout", "stderr")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PYTHON = ("bool", "i64", "f64", "c128")


def usual(type: Type) -> str:
    """The flavour of an operand of this type where nothing is said. TypeError for what cannot be shown."""
    tensor = type.pointee if isinstance(type, PointerType) else type
    if not isinstance(tensor, TensorType) or tensor.dtype is CELL or (tensor.shape and tensor is type):
        raise TypeError(f"a text shows numbers and arrays in memory, not {type}")
    if isinstance(type, PointerType):
        return ARRAY
    return PYTHON if tensor.dtype.name in _PYTHON else NUMPY


def flavours_of(operands: Sequence[Value], attrs: dict[str, Any]) -> str:
    """The flavours of the operands of an instruction. TypeError where one does not fit its operand."""
    usual_ = "".join(usual(v.type) for v in operands)
    said: str = attrs.get("flavours") or usual_
    if len(said) != len(operands):
        raise TypeError(f"{len(said)} flavours for {len(operands)} operands")
    for letter, other, v in zip(said, usual_, operands, strict=True):
        if letter not in _possible(other, v.type):
            raise TypeError(f"{v.type} cannot be shown as '{letter}'")
    return said


def _possible(usual_: str, type: Type) -> str:
    if usual_ != ARRAY:
        return NUMPY + usual_
    rank = type.rank  # type: ignore[attr-defined]
    return ARRAY + (NUMBERS if rank == 1 else "") + (ROWS if rank else "")


def attributes(operands: Sequence[Value], flavours: str) -> dict[str, str]:
    """The attribute that says the flavours, where something must be said."""
    return {} if flavours == "".join(usual(v.type) for v in operands) else {"flavours": flavours}


def object_of(value: Any, flavour: str) -> Any:
    """The Python object that an operand is: `value` is a NumPy scalar, or an ndarray."""
    if flavour in (PYTHON, NUMBERS):
        return value.tolist()
    return list(value) if flavour == ROWS else value


def fields(message: str) -> list[str]:
    """What stands in the braces of a message, "" for a field that takes the next operand. ValueError: no format."""
    parts = Formatter().parse(message)
    return [
        field if conversion in (None, "r", "s", "a") and "{" not in (spec or "") else "nested"
        for _, field, spec, conversion in parts
        if field is not None
    ]


def print_text(message: str, values: Iterable[Any], stream: str, flush: bool) -> None:
    """Print a message with these objects in it to what is the stream of that name now; as `print`, not to None."""
    text = message.format(*values)
    to = getattr(sys, stream) or sys.stdout
    if to is not None:
        to.write(text)
        if flush:
            to.flush()


def warning_class(name: str) -> type[Warning] | None:
    """The category of warnings of Python or NumPy of this name; of a class of the user, module.Class, UserWarning."""
    found = UserWarning if "." in name else exception_class(name)
    return found if found is not None and issubclass(found, Warning) else None


def warn_text(message: str, values: Iterable[Any], category: type[Warning], loc: Loc | None, is_above: bool) -> None:
    """Warn with a message with these objects in it, at a place of the program; is_above: where compiled code is called.

    As `warnings.warn`: the filters of that moment decide, and it may raise the warning.
    """
    space: Any = None
    if is_above:
        frame = sys._getframe(1)
        while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
            frame = frame.f_back
        file, line, space = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
    else:
        file, line = (loc.file, loc.line) if loc else ("<unknown>", 0)
        modules = [m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == file]
        space = vars(modules[0]) if modules else {}
    registry = space.setdefault("__warningregistry__", {})
    name = space.get("__name__") or "<unknown>"
    warnings.warn_explicit(message.format(*values), category, file, line, name, registry)


def as_numpy(value: Any) -> Any:
    """A value of the interpreter, a NumPy scalar or array, as `object_of` takes it."""
    return value if isinstance(value, np.ndarray | np.generic) else np.asarray(value)[()]
