"""The lower half of the parser: the token stream, types and literals.

`parser.py` builds on `Reader`. All errors are ParseError, at the guilty token, saying what was expected.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

import numpy as np

from dlvm_py.errors import Loc, ParseError
from dlvm_py.ir.lexer import LITERAL, SYNTAX, TOO_DEEP, UNDEFINED_NAME, Source, Token
from dlvm_py.ir.types import (
    CELL,
    DTYPES,
    ELEMENTS,
    VOID,
    ArrayType,
    BoxType,
    FunctionType,
    NominalType,
    PointerType,
    StackType,
    StructType,
    TensorType,
    TupleType,
    Type,
    called,
    scalar,
)
from dlvm_py.ir.value import NULL, UNDEFINED, Literal

MAX_NESTING = 64  # of types: more is no program, and Python's own stack is finite
MAX_PARTS = 20_000  # of a type whose aliases are written out
_BEING_READ = -1
_LAYOUTS = {"fortran": "F", "strided": "S"}
_KEYWORD_PAYLOADS = {"true": True, "false": False, "undefined": UNDEFINED, "null": NULL, "zero": 0}
_FLOAT_WORDS = {"inf": np.inf, "nan": np.nan}
LITERAL_WORDS = frozenset((*_KEYWORD_PAYLOADS, *_FLOAT_WORDS, "complex"))


class Reader:
    """A cursor over the tokens of one text."""

    def __init__(self, text: str | bytes, filename: str) -> None:
        self.source = Source(text, filename)
        self.tokens = self.source.tokens()
        self.place = 0
        self.nesting = 0
        self.types: dict[str, Type | int] = {}  # of nominal types; of an alias that is not read yet, its place

    # -- tokens ----------------------------------------------------------------------------------

    @property
    def next(self) -> Token:
        """The token at the cursor."""
        return self.tokens[self.place]

    def take(self) -> Token:
        """The token at the cursor, which moves on (never beyond the end)."""
        token = self.tokens[self.place]
        self.place += token.kind != "end"
        return token

    def error(self, reason: str, token: Token, code: str, help: str | None = None) -> ParseError:  # noqa: A002
        """The error for a token."""
        return self.source.error(reason, token.start, token.end, code, help)

    def place_of(self, token: Token) -> Loc:
        """Where a token stands."""
        return self.source.place(token.start, token.end)[0]

    def unexpected(self, expected: str, help: str | None = None) -> NoReturn:  # noqa: A002
        """Raise: something else than the token at the cursor was expected."""
        raise self.error(f"expected {expected}, found {self.next}", self.next, SYNTAX, help)

    def at(self, kind: str) -> bool:
        """Whether the next token is of this kind (a punctuation is its own kind)."""
        return self.next.kind == kind

    def at_word(self, *words: str) -> bool:
        """Whether the next token is one of these words."""
        return self.next.kind == "word" and self.next.text in words

    def expect(self, kind: str, expected: str = "") -> Token:
        """Take a token of this kind."""
        if self.next.kind != kind:
            self.unexpected(expected or f"'{kind}'")
        return self.take()

    def expect_word(self, *words: str) -> str:
        """Take one of these words."""
        if not self.at_word(*words):
            self.unexpected(" or ".join(f"'{w}'" for w in words))
        return self.take().text

    def skip_newlines(self) -> None:
        """Move behind any newlines."""
        while self.at("newline"):
            self.take()

    def end_line(self, expected: str = "a new line") -> None:
        """Take at least one newline; a closing brace and the end of the text end a line too."""
        if not (self.at("newline") or self.at("}") or self.at("end")):
            self.unexpected(expected)
        self.skip_newlines()

    def around_newlines(self, kind: str) -> bool:
        """Take a token of this kind with the newlines around it, if it comes next; else stay."""
        start = self.place
        self.skip_newlines()
        if self.at(kind):
            self.take()
            self.skip_newlines()
            return True
        self.place = start
        return False

    def close(self, kind: str, expected: str) -> None:
        """Take a closing bracket; newlines may stand before it."""
        self.skip_newlines()
        self.expect(kind, expected)

    # -- numbers ---------------------------------------------------------------------------------

    def integer(self, token: Token, low: int = -(2**63), high: int = 2**64 - 1) -> int:
        """The number of an int token, within limits."""
        # Python refuses to convert thousands of digits; twenty hold all that is allowed
        digits = token.text.lstrip("-").lstrip("0") or "0"
        value = int(digits) * (-1 if token.text.startswith("-") else 1) if len(digits) <= 20 else high + 1
        if not low <= value <= high:
            raise self.error(f"the number {token} must be from {low} to {high}", token, LITERAL)
        return value

    def count(self, what: str) -> int:
        """Take a number that is not negative."""
        return self.integer(self.expect("int", what), 0, 2**63 - 1)

    # -- types -----------------------------------------------------------------------------------

    def type(self) -> Type:
        """type = "void" | DTYPE | tensor | pointer | stack | tuple | function."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.error(f"types are nested more than {MAX_NESTING} deep", self.next, TOO_DEEP)
        token = self.next
        found = self._type()
        self.nesting -= 1
        if not self.nesting and is_too_large(found):
            raise self.error("this type is too large when its aliases are written out", token, TOO_DEEP)
        return found

    def _type(self) -> Type:
        token = self.next
        if token.kind == "word" and token.text in ELEMENTS:
            self.take()
            return scalar(ELEMENTS[token.text])
        if self.at_word("void"):
            self.take()
            return VOID
        if self.at_word("stack"):
            self.take()
            if not self.at("{"):
                return StackType(None)
            self.take()
            element = self.type()
            self.expect("}")
            return StackType(element)
        if self.at("<"):
            return self._tensor()
        if self.at("*"):
            return self._pointer()
        if self.at("("):
            return self._tuple_or_function()
        if self.at("["):
            return self._array()
        if self.at("nominal"):
            return self._nominal()
        if self.at_word("box"):
            self.take()
            self.expect("{", "'{' and a type")
            element = self.type()
            self.expect("}")
            return BoxType(element)
        self.unexpected("a type", help=_dtype_help(token))

    def _tensor(self) -> TensorType:
        self.expect("<")
        shape: list[int | None] = []
        while not (self.next.kind == "word" and self.next.text in ELEMENTS):
            if self.at_word("_"):
                self.take()
                shape.append(None)
            else:
                shape.append(self.count("an extent, '_' or a dtype"))
            if not self.at_word("x"):
                self.unexpected("'x' between blanks, and an extent or a dtype", help=_dtype_help(self.next))
            self.take()
        if not shape:
            self.unexpected("an extent: a scalar type is written without brackets")
        dtype = ELEMENTS[self.take().text]
        self.expect(">")
        return TensorType(tuple(shape), dtype)

    def _array(self) -> ArrayType:
        self.expect("[")
        count = None if self.at_word("_") else self.count("the number of elements, or '_'")
        if count is None:
            self.take()
        if not self.at_word("x"):
            self.unexpected("'x' between blanks")
        self.take()
        element = self.type()
        self.close("]", "']'")
        return ArrayType(count, element)

    def _nominal(self) -> Type:
        token = self.take()
        found = self.types.get(token.text[1:])
        if found is None:
            raise self.error(f"there is no type {token}", token, UNDEFINED_NAME)
        if isinstance(found, int):
            # an alias that is declared further down
            if found == _BEING_READ:
                raise self.error(f"the type {token} is made of itself", token, UNDEFINED_NAME)
            self.types[token.text[1:]] = _BEING_READ
            here, self.place = self.place, found
            found = self.types[token.text[1:]] = self.type()
            self.place = here
        name = token.text[1:]
        # a name of another type is an alias, and stays to be seen
        return found if isinstance(found, NominalType) and found.name == name else called(found, name)

    def _pointer(self) -> PointerType:
        star = self.expect("*")
        layout = _LAYOUTS[self.take().text] if self.at_word(*_LAYOUTS) else "C"
        pointee = self.type()
        if not isinstance(pointee, TensorType):
            if layout != "C" or pointee == VOID or isinstance(pointee, StackType | FunctionType):
                raise self.error(f"a pointer must point to a tensor or an aggregate, not to {pointee}", star, SYNTAX)
            return PointerType(pointee)  # type: ignore[arg-type]
        if layout == "F" and pointee.rank < 2:
            raise self.error("the layout fortran begins at rank 2", star, SYNTAX, help="leave the word out")
        return PointerType(pointee, layout)

    def _tuple_or_function(self) -> Type:
        self.expect("(")
        self.skip_newlines()
        elements: list[Type] = []
        if not self.at(")"):
            elements.append(self.type())
            while self.around_newlines(","):
                elements.append(self.type())
        self.close(")", "',' or ')'")
        if self.around_newlines("->"):
            return FunctionType(tuple(elements), self.type())
        return TupleType(tuple(elements))

    def annotation(self) -> Type:
        """Take a colon and a type."""
        self.expect(":", "':' and a type")
        self.skip_newlines()
        return self.type()

    # -- literals --------------------------------------------------------------------------------

    def at_literal(self) -> bool:
        """Whether a literal comes next."""
        return self.next.kind in ("int", "float") or self.at_word(*LITERAL_WORDS)

    def literal(self) -> Literal:
        """literal ":" type; the payload must fit the type."""
        token = self.next
        payload = self._payload()
        type = self.annotation()
        integral = token.kind == "int" and isinstance(type, TensorType) and type.dtype.kind == "f"
        return Literal(type, self._fitted(payload, type, token), integral)

    def _payload(self) -> Any:
        token = self.next
        if token.kind == "int":
            return self.integer(self.take())
        if token.text == "complex":
            self.take()
            self.expect("(")
            real = self._float()
            self.expect(",")
            imaginary = self._float()
            self.expect(")")
            return complex(real, imaginary)
        if token.kind == "word" and token.text in _KEYWORD_PAYLOADS:
            self.take()
            return _KEYWORD_PAYLOADS[token.text]
        return self._float()

    def _float(self) -> float:
        token = self.next
        if token.kind == "int":
            return float(self.integer(self.take()))
        if token.kind == "float" or self.at_word(*_FLOAT_WORDS):
            value = float(self.take().text)
            if value != value and self.at("("):
                value = self._nan(token)
            elif value in (np.inf, -np.inf) and not token.text.endswith("inf"):
                raise self.error(f"the number {token} is too large for f64", token, LITERAL)
            return value
        self.unexpected("a number")

    def _nan(self, word: Token) -> float:
        self.expect("(")
        payload = self.integer(self.expect("int", "the payload of the NaN"), 1, 2**52 - 1)
        self.expect(")")
        sign = 1 << 63 if word.text.startswith("-") else 0
        (value,) = struct.unpack("<d", struct.pack("<Q", sign | 0x7FF << 52 | payload))
        return float(value)

    def _fitted(self, payload: Any, type: Type, token: Token) -> Any:
        """The payload as the class that literals of this type hold."""
        if payload is UNDEFINED and type != VOID:
            return payload
        if payload is NULL and (isinstance(type, PointerType) or type == scalar(CELL)):
            return payload
        if isinstance(type, TensorType) and not type.shape and payload is not UNDEFINED and payload is not NULL:
            kind = type.dtype.kind
            if kind in "fc" and payload.__class__ is int and token.kind == "int":
                return self._fitted(float(token.text), type, token)  # not float(payload): -0 has a sign here
            if token.text == "zero":
                return {"b": False, "f": 0.0, "c": 0j}.get(kind, 0)
            if kind == "b" and isinstance(payload, bool):
                return payload
            if kind in "iu" and payload.__class__ is int:
                low, high = type.dtype.limits
                if low <= payload <= high:
                    return payload
            if kind == "f" and payload.__class__ is float:
                return payload
            if kind == "c" and payload.__class__ in (float, complex):
                return complex(payload)
        raise self.error(f"the literal {token} is no {type}", token, LITERAL)


def is_too_large(t: Type, with_fields: bool = False) -> bool:
    """Whether a type has more parts, or is deeper, than a program can need: aliases of aliases double quickly.

    with_fields: also those of structs, which have no end where a struct holds itself.
    """
    parts = [(t, 0)]
    for count, (part, depth) in enumerate(parts):
        if count > MAX_PARTS or depth > 2 * MAX_NESTING:
            return True
        inner: tuple[Type, ...] = ()
        match part:
            case TupleType():
                inner = part.elements
            case FunctionType():
                inner = (*part.params, part.result)
            case ArrayType():
                inner = (part.element,)
            case BoxType() | StackType() if not with_fields and part.element is not None:
                inner = (part.element,)
            case PointerType() if not with_fields:
                inner = (part.pointee,)
            case StructType() if with_fields:
                inner = tuple(part.fields.values())
        parts.extend((x, depth + 1) for x in inner[: MAX_PARTS + 1])
    return False


def _dtype_help(token: Token) -> str | None:
    return "the dtypes are " + " ".join(DTYPES) if token.kind == "word" else None
