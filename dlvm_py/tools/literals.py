"""Values of aggregates as words of a command line, in the notation of the literals of the IR.

{#k = 1, #w = 2.0}                          a struct; also in the order of the fields without their names
(1, 2.0)  [1, 2]                            a tuple, an array
?leaf(1.0)  ?node(?leaf(1.0), ?none())      an enum
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dlvm_py.ir import EnumType, PointerType, StructType, TensorType, TupleType, Type
from dlvm_py.ir.layout import members
from dlvm_py.ir.objects import Reference
from dlvm_py.ir.types import ArrayType, BoxType
from dlvm_py.tools.common import Failure

_TOKEN = re.compile(r"\s*([?#]\w+|[{}()\[\],=]|[^\s{}()\[\],=]+)")
_CLOSING = {"{": "}", "(": ")", "[": "]"}


def shown(value: Any, t: Type, number: Callable[[Any], str]) -> str:
    """A value as it could be written in an argument; `number` shows numbers and arrays."""
    match t:
        case StructType():
            pairs = zip(members(t), value, strict=True)
            return "{" + ", ".join(f"#{name} = {shown(v, m, number)}" for (name, m), v in pairs) + "}"
        case TupleType():
            return "(" + ", ".join(shown(v, m, number) for v, (_, m) in zip(value, members(t), strict=True)) + ")"
        case ArrayType():
            return "[" + ", ".join(shown(v, t.element, number) for v in value) + "]"
        case EnumType():
            case, held = value
            return f"?{case}({', '.join(shown(v, p, number) for v, p in zip(held, t.cases[case], strict=True))})"
    if isinstance(value, Reference):
        pointee = t.pointee if isinstance(t, PointerType) else t.element  # type: ignore[attr-defined]
        return shown(value.value, pointee, number)
    return number(value)


class Reader:
    """Reads the value of an aggregate from a word."""

    def __init__(self, word: str, what: str, tensor: Callable[[str, TensorType], Any]) -> None:
        self.word = word
        self.what = what
        self.tensor = tensor  # what reads a number or an array
        self.tokens = _TOKEN.findall(word)
        self.place = 0

    def next(self) -> str:
        """The token at the cursor; nothing at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, wanted: str, t: Type) -> None:
        """Take one token, which must be this one."""
        if self.next() != wanted:
            found = f"'{self.next()}'" if self.next() else "the end"
            raise Failure(f"{self.what}: '{wanted}' is expected in a value of type {t}, and {found} is found")
        self.place += 1

    def end(self) -> None:
        """Nothing may be left."""
        if self.next():
            raise Failure(f"{self.what}: '{self.next()}' stands behind the value")

    def value(self, t: Type) -> Any:
        """The value of a type that comes next."""
        match t:
            case StructType():
                return self._struct(t)
            case TupleType():
                return self._listed("(", [m for _, m in members(t)], t)
            case ArrayType():
                return self._listed("[", [t.element] * (t.count or 0), t)
            case EnumType():
                case = self.next()
                if case[:1] != "?" or case[1:] not in t.cases:
                    cases = ", ".join(f"?{c}" for c in t.cases)
                    raise Failure(f"{self.what}: a case of {t} is expected, {cases}, and '{case}' is found")
                self.place += 1
                return case[1:], self._listed("(", list(t.cases[case[1:]]), t)
            case PointerType() | BoxType():
                return Reference(self.value(t.pointee if isinstance(t, PointerType) else t.element))
            case TensorType():
                return self.tensor(self._text(t), t)
        raise Failure(f"{self.what}: a value of type {t} cannot be given on the command line")

    def _struct(self, t: StructType) -> tuple[Any, ...]:
        self.take("{", t)
        found = []
        for k, (name, m) in enumerate(members(t)):
            if k:
                self.take(",", t)
            if self.next()[:1] == "#":
                self.take(f"#{name}", t)
                self.take("=", t)
            found.append(self.value(m))
        self.take("}", t)
        return tuple(found)

    def _listed(self, opening: str, types: list[Type], t: Type) -> tuple[Any, ...]:
        self.take(opening, t)
        found = []
        for k, m in enumerate(types):
            if k:
                self.take(",", t)
            found.append(self.value(m))
        self.take(_CLOSING[opening], t)
        return tuple(found)

    def _text(self, t: TensorType) -> str:
        """The tokens of a number, or of an array in brackets."""
        start, depth = self.place, 0
        while self.place < len(self.tokens):
            depth += (self.next() == "[") - (self.next() == "]")
            self.place += 1
            if depth <= 0:
                break
        return " ".join(self.tokens[start : self.place])
