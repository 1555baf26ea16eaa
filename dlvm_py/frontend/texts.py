"""Strings with values in them: f-strings, str(), repr(), and what consumes them: print, raise, assert.

A value is shown as Python shows the very object (ir/text.py). What is known now is written out; what is not becomes an
operand of the text, a number or an array in memory, and the text is made when it is needed.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import warnings
from collections.abc import Sequence as Sequence_
from string import Formatter
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.arrays import allocate, materialise
from dlvm_py.frontend.capture import class_name, is_named_tuple
from dlvm_py.frontend.emit import Emitter, Unreachable, i64
from dlvm_py.frontend.growing import section_of
from dlvm_py.frontend.library import hashing
from dlvm_py.frontend.objects import resolved
from dlvm_py.frontend.value_types import ArrayType, ScalarType
from dlvm_py.frontend.values import (
    NONE,
    Array,
    Caught,
    Growing,
    Record,
    Scalar,
    Sequence,
    Static,
    Stream,
    Temp,
    Text,
    describe,
    is_none,
)
from dlvm_py.ir import DTYPES, F64, I64, Value
from dlvm_py.ir.exceptions import OF_KEY, exception_class, exception_of
from dlvm_py.ir.text import ARRAY, NUMBERS, NUMPY, PYTHON, ROWS, attributes

_ALIKE = [DTYPES[n] for n in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "f64")]
_PLAIN = (str, bytes, bool, int, float, complex, type(None), type(Ellipsis), np.dtype)


def escaped(text: str) -> str:
    """A text as it stands in a format string."""
    return text.replace("{", "{{").replace("}", "}}")


class Writer:
    """Collects a text, and its operands."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.operands: list[tuple[Value, str]] = []
        self.message = ""

    def add(self, text: str) -> None:
        """Characters as they are."""
        self.message += escaped(text)

    def show(self, value: Any, form: str = "") -> None:
        """A value as a replacement field shows it; `form` is what stands behind it in the braces: "!r", ":.3f"."""
        self.message += self._shown(value, form)

    @property
    def text(self) -> Any:
        """What was collected: a Text, or a constant where there are no operands."""
        return Text(self.message, tuple(self.operands)) if self.operands else Static(self.message.format())

    def _operand(self, value: Value, flavour: str, form: str) -> str:
        self.operands.append((value, flavour))
        return f"{{{form}}}"

    def _shown(self, value: Any, form: str) -> str:
        match value:
            case Scalar():
                return self._scalar(value, form)
            case Array() | Temp():
                return self._operand(materialise(self.e, value).pointer, ARRAY, form)
            case Text() if not form or form == "!s":
                self.operands += value.operands
                return value.message
            case Caught() if (shown := _caught(value, form)) is not None:
                self.operands += value.text.operands
                return shown
            case Static() if isinstance(value.value, _PLAIN) or isinstance(value.value, type):
                try:
                    return escaped(f"{{{form}}}".format(value.value))
                except (ValueError, TypeError) as error:
                    self.e.error(TypeMismatch, str(error))
            case Growing():
                return self._growing(value, form)
            case Record() if value.kind is hashing.Set:
                self.e.error(UnsupportedSyntax, "a text would show the order of a set", help="show sorted(s)")
            case Record() if value.kind is hashing.Dict:
                self.e.error(
                    UnsupportedSyntax, "a dict with computed keys cannot be shown in a text", help="show its items"
                )
            case Sequence() | Record() if form in ("", "!r", "!s", "!a"):
                return self._sequence(value) if isinstance(value, Sequence) else self._record(value)
        what = f"{describe(value)} cannot be shown" + (f" as {{{form}}}" if form else " in a text")
        self.e.error(UnsupportedSyntax, what, help="show the numbers in it")

    def _scalar(self, value: Scalar, form: str) -> str:
        numpy = value.dtype.numpy.type
        if value.number is not None:
            try:
                return escaped(f"{{{form}}}".format(value.number if value.weak else numpy(value.number)))
            except (ValueError, TypeError) as error:
                self.e.error(TypeMismatch, str(error))
        if value.weak:
            return self._operand(value.value, PYTHON, "" if form == "!s" else form)
        # by str and format these NumPy scalars look as Python's numbers, of which the error record can hold a few
        if not form.startswith(("!r", "!a")) and value.dtype in _ALIKE:
            number = value.value if value.dtype is F64 else self.e.cast(value.value, I64)
            return self._operand(number, PYTHON, "" if form == "!s" else form)
        return self._operand(value.value, NUMPY, form)

    def _inside(self, value: Any) -> str:
        return self._shown(value, "!r")

    def _sequence(self, value: Sequence) -> str:
        shown = ", ".join(map(self._inside, value.items))
        comma = "," if len(value.items) == 1 and not value.is_list else ""
        return f"[{shown}]" if value.is_list else f"({shown}{comma})"

    def _record(self, value: Record) -> str:
        kind = value.kind
        if kind is dict:
            pairs = zip(value.names, value.items, strict=True)
            return "{{" + ", ".join(f"{escaped(repr(n))}: {self._inside(v)}" for n, v in pairs) + "}}"
        if not _is_shown_as_made(kind):
            self.e.error(UnsupportedSyntax, f"a {kind.__name__} has a text of its own", help="show its fields")
        names = value.names
        if not is_named_tuple(kind):
            names = tuple(f.name for f in dataclasses.fields(kind) if f.repr)
        name = kind.__name__ if is_named_tuple(kind) else kind.__qualname__
        return f"{escaped(name)}(" + ", ".join(f"{n}={self._inside(value.get(n))}" for n in names) + ")"

    def _growing(self, value: Growing, form: str) -> str:
        if form not in ("", "!r", "!s", "!a"):
            self.e.error(UnsupportedSyntax, f"a list cannot be shown as {{{form}}}", help="show its items")
        flavour = ROWS
        if isinstance(value.item, ScalarType):
            flavour = NUMBERS if value.item.weak else ROWS
        elif not isinstance(value.item, ArrayType):
            self.e.error(UnsupportedSyntax, "a list of tuples that grows cannot be shown", help="show its items")
        rows = section_of(self.e, value.buffers[0], i64(0), value.length, i64(1))
        return self._operand(rows, flavour, form)


@dataclasses.dataclass
class _Plain:
    """What `dataclass` makes."""


# one code object each for all the classes that are made so
_MADE = (_Plain.__repr__.__code__, collections.namedtuple("_Pair", "a").__repr__.__code__)


def _is_shown_as_made(kind: type) -> bool:
    """Whether a dataclass or named tuple is shown by the methods that were made with it, not by the user's own."""
    code = getattr(kind.__repr__, "__code__", None)
    plain = kind.__str__ is object.__str__ and kind.__format__ is object.__format__
    return plain and any(code is made for made in _MADE)


def snapshot(e: Emitter, text: Any) -> Any:
    """A text that later changes of the arrays in it do not touch."""
    if not isinstance(text, Text) or all(flavour in (PYTHON, NUMPY) for _, flavour in text.operands):
        return text
    return Text(text.message, tuple((_copied(e, v, f), f) for v, f in text.operands))


def _copied(e: Emitter, value: Value, flavour: str) -> Value:
    if flavour in (PYTHON, NUMPY):
        return value
    extents = tuple(e.emit("extent", value, at=k) for k in range(value.type.rank))  # type: ignore[attr-defined]
    array = allocate(e, extents, value.type.dtype)  # type: ignore[attr-defined]
    e.emit("store", e.emit("load", value), array.pointer)
    return array.pointer


def operands_of(shown: Sequence_[tuple[Value, str]]) -> tuple[list[Value], str]:
    """The operands of an instruction that shows these, and their flavours."""
    return [v for v, _ in shown], "".join(flavour for _, flavour in shown)


def fail(e: Emitter, exception: str, text: Text) -> None:
    """Raise an exception with a text."""
    operands, flavours = operands_of(text.operands)
    e.emit("raise", *operands, exception=exception, message=text.message, **attributes(operands, flavours))


def check(e: Emitter, condition: Value, exception: str, text: Text) -> None:
    """Raise an exception with a text unless a condition holds."""
    operands, flavours = operands_of(text.operands)
    e.check(condition, exception, text.message, *operands, **attributes(operands, flavours))


def of_object(e: Emitter, value: Any) -> Text:
    """What stands for the argument of an exception that is no string: its repr, behind a mark."""
    writer = Writer(e)
    writer.show(value, "!r")
    return Text(OF_KEY + writer.message, tuple(writer.operands))


def args_of(e: Emitter, exception: Caught) -> Sequence:
    """The `args` of an exception: its text, or the number that it was raised with."""
    message, operands = exception.text.message, exception.text.operands
    if not message.startswith(OF_KEY):
        if not message:  # there may be an empty text, or none
            e.error(UnsupportedSyntax, "the arguments of an exception without a text", help="give it a text")
        return Sequence((exception.text if operands else Static(message.format()),))
    if message == OF_KEY + "{!r}":
        ((value, flavour),) = operands
        return Sequence((Scalar(value, flavour == PYTHON),))
    if not operands:
        found = exception_of(ValueError, message.format()).args
        return Sequence(tuple(e.session.lift(e, v, "an argument of an exception") for v in found))
    e.error(UnsupportedSyntax, "the argument of an exception that is a tuple", help="look at the key itself")


def check_key(e: Emitter, condition: Value | None, key: Any) -> None:
    """Raise the KeyError of a key unless a condition holds (None: in any case): what it says is the key, no string."""
    text = of_object(e, resolved(e, key))
    if condition is None:
        fail(e, "KeyError", text)
        raise Unreachable
    check(e, condition, "KeyError", text)


def joined(e: Emitter, a: Any, b: Any) -> Any:
    """a + b of strings, of which one is made when it runs."""
    for x in (a, b):
        if not isinstance(x, Text) and not (isinstance(x, Static) and isinstance(x.value, str)):
            e.error(TypeMismatch, f"{describe(x)} cannot be added to a string", help="write str(x), or an f-string")
    writer = Writer(e)
    writer.show(a, "!s")
    writer.show(b, "!s")
    return writer.text


# -- functions -----------------------------------------------------------------------------------------------


def _constant(e: Emitter, value: Any, name: str, default: str) -> str:
    if is_none(value):
        return default
    if isinstance(value, Static) and isinstance(value.value, str):
        return value.value
    e.error(UnsupportedSyntax, f"`{name}` of print must be a constant string, not {describe(value)}")


def print_(e: Emitter, *values: Any, sep: Any = None, end: Any = None, file: Any = None, flush: Any = None) -> Any:
    """print(...): to what sys.stdout or sys.stderr is when it runs."""
    between, last = _constant(e, sep, "sep", " "), _constant(e, end, "end", "\n")
    to = Stream("stdout") if is_none(file) else file
    if not isinstance(to, Stream):
        e.error(UnsupportedSyntax, "`file` of print must be sys.stdout or sys.stderr", help="return the values")
    is_flushed = False if is_none(flush) else getattr(flush, "number", None)
    if is_flushed is None:
        e.error(UnsupportedSyntax, "`flush` of print must be a constant")
    writer = Writer(e)
    for k, value in enumerate(values):
        writer.add(between if k else "")
        writer.show(value, "!s")
    writer.add(last)
    operands, flavours = operands_of(writer.operands)
    more = {"flush": True} if is_flushed else {}
    e.emit("print", *operands, message=writer.message, to=to.name, **more, **attributes(operands, flavours))
    return NONE


def warn(e: Emitter, message: Any, category: Any = None, stacklevel: Any = None, source: Any = None) -> Any:
    """warnings.warn(...): what is done is said by the filters when it runs. The level 1 is the statement's place, all
    others are that of the call of compiled code."""
    kind = UserWarning if is_none(category) else getattr(category, "value", None)
    level = 1 if stacklevel is None else getattr(stacklevel, "number", None)
    if level is None:
        e.error(UnsupportedSyntax, "`stacklevel` of a warning must be a constant")
    if isinstance(message, Caught) or not (isinstance(kind, type) and issubclass(kind, Warning)):
        e.error(UnsupportedSyntax, "a warning needs a text and a category", help='warnings.warn("...", RuntimeWarning)')
    if exception_class(kind.__name__) is not kind and kind not in e.session.captures.classes:
        help_ = "use a class at the top of a module, or RuntimeWarning"
        e.error(UnsupportedSyntax, f"warnings of the category {kind.__name__} are not supported", help=help_)
    writer = Writer(e)
    writer.show(message, "!s")
    operands, flavours = operands_of(writer.operands)
    more = {"above": True} if level > 1 else {}
    to = class_name(kind)
    e.emit("print", *operands, message=writer.message, to=to, **more, **attributes(operands, flavours))
    return NONE


def _caught(exception: Caught, form: str) -> str | None:
    """The message that shows an exception; None where that is not known."""
    message = exception.text.message
    shown = None if form not in ("", "!s", "!r") else message
    if message.startswith(OF_KEY):
        shown = message[len(OF_KEY) :]
        if form != "!r" and not issubclass(exception.kind, KeyError):  # str of its argument
            shown = {"{!r}": "{}"}.get(shown, None if exception.text.operands or "np." in shown else shown)
    elif form == "!r" or issubclass(exception.kind, KeyError):
        shown = _quoted(message) if _has_plain_text(exception) else None
    return f"{escaped(exception.kind.__name__)}({shown})" if form == "!r" and shown is not None else shown


def _has_plain_text(exception: Caught) -> bool:
    """Whether the repr of an exception is its class and its text in quotes, and numbers are all that is in that."""
    text = exception.text
    numbers = all(flavour in (PYTHON, NUMPY) for _, flavour in text.operands)
    return numbers and bool(text.message)


def _quoted(message: str) -> str:
    """The message whose text is the repr of a message's text: numbers in it need no care."""
    parts = list(Formatter().parse(message))
    quote = repr("".join(text for text, *_ in parts))[0]
    other = "'" if quote == '"' else '"'
    found = ""
    for text, name, spec, conversion in parts:
        found += escaped(repr(text + other)[1:-2])  # with the other quote at its end it gets these quotes
        if name is not None:
            found += f"{{{name}{f'!{conversion}' if conversion else ''}{f':{spec}' if spec else ''}}}"
    return f"{quote}{found}{quote}"


def _as_text(form: str) -> Any:
    def function(e: Emitter, value: Any = None) -> Any:
        writer = Writer(e)
        if value is not None:
            writer.show(value, form)
        return snapshot(e, writer.text)

    return function


def format_(e: Emitter, value: Any, spec: Any = None) -> Any:
    """format(value, spec) with a constant spec."""
    spec = Static("") if spec is None else spec
    if not (isinstance(spec, Static) and isinstance(spec.value, str)):
        e.error(UnsupportedSyntax, "a format must be a constant string")
    return _as_text(f":{spec.value}" if spec.value else "")(e, value)


def formatted(e: Emitter, template: Static, *args: Any, **kwargs: Any) -> Any:
    """template.format(...), with fields that are numbered or named."""
    writer = Writer(e)
    count = 0
    for text, name, spec, conversion in Formatter().parse(template.value):
        writer.add(text)
        if name is None:
            continue
        if "{" in (spec or ""):
            e.error(UnsupportedSyntax, "a format must be constant", help="write {:10.3f}")
        if not name:
            name, count = str(count), count + 1
        known = args[int(name)] if name.isdigit() and int(name) < len(args) else kwargs.get(name)
        if known is None:
            e.error(
                TypeMismatch, f"there is no argument for the field {{{name}}}", help="number the fields, or name them"
            )
        form = (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        writer.show(resolved(e, known), form)
    return snapshot(e, writer.text)


def join(e: Emitter, separator: Static, items: Any) -> Any:
    """separator.join(items), of a list or tuple of strings whose length is known."""
    held = resolved(e, items)
    if not isinstance(held, Sequence):
        e.error(UnsupportedSyntax, f"`join` needs a list or tuple of strings, not {describe(held)}")
    writer = Writer(e)
    for k, item in enumerate(held.items):
        if not isinstance(item, Text) and not (isinstance(item, Static) and isinstance(item.value, str)):
            e.error(TypeMismatch, f"`join` needs strings, not {describe(item)}", help="write str(x), or an f-string")
        writer.add(separator.value if k else "")
        writer.show(item, "!s")
    return snapshot(e, writer.text)


_FIELD = re.compile(r"%(\(\w+\))?([-+ 0#]*)(\d*)(\.\d+)?[hlL]?(.)", re.DOTALL)


def percent(e: Emitter, template: str, values: Any) -> Any:
    """template % values."""
    values = resolved(e, values)
    left = list(values.items) if isinstance(values, Sequence) and not values.is_list else [values]
    writer = Writer(e)
    at = 0
    for found in _FIELD.finditer(template):
        writer.add(template[at : found.start()])
        at = found.end()
        if found[5] == "%":
            writer.add("%")
            continue
        if found[1]:
            e.error(UnsupportedSyntax, f"the field {found[0]} is not supported", help="write an f-string")
        if not left:
            e.error(TypeMismatch, "not enough arguments for format string")
        writer.show(left[0], _form_of(e, found, left.pop(0)))
    if left:
        e.error(TypeMismatch, "not all arguments converted during string formatting")
    writer.add(template[at:])
    return snapshot(e, writer.text)


def _form_of(e: Emitter, found: re.Match[str], value: Any) -> str:
    """What a field of % is in a replacement field: "%-8.3f" is ":<8.3f"."""
    _, flags, width, precision, kind = found.groups(default="")
    side = "<" if "-" in flags else ">"
    if kind in "sra":
        return f"!{kind}" + (f":{side if width else ''}{width}{precision}" if width or precision else "")
    numeric = isinstance(value, Scalar) and not value.dtype.is_complex
    is_whole = numeric and not value.dtype.is_float
    if not (kind in "eEfFgG" and numeric) and not (kind in "diuxXo" and is_whole and not precision):
        what = f"{describe(value)} cannot be shown by {found[0]}"
        e.error(TypeMismatch, what, help="%d takes an int: int(x); %g a number; %s anything")
    sign = "+" if "+" in flags else " " if " " in flags else ""
    zeros = "0" if "0" in flags and "-" not in flags else ""
    other = "#" if "#" in flags else ""
    align = side if width and not zeros else ""
    return f":{align}{sign}{other}{zeros}{width}{precision}{'d' if kind in 'iu' else kind}"


TEXTS: dict[Any, Any] = {
    print: print_, warnings.warn: warn, str: _as_text("!s"), repr: _as_text("!r"), format: format_,
}  # fmt: skip
