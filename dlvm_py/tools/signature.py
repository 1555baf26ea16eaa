"""`f(<_ x f64>, float)`: which function of a Python file, for which argument types. Its text, read with carets.

    signature = NAME [ "(" [ item { "," item } ] ")" ]
    item      = "float" | "int" | "bool" | "complex"      Python's numbers, with their rules
              | DTYPE                                     a NumPy scalar: f32, i64, ...
              | [ "*" [ "fortran" | "strided" ] ] tensor  an array: <_ x f64>, *strided <_ x 3 x f32>
              | "(" item { "," item } [ "," ] ")"         a tuple

An annotation of a parameter is an item too: as text, as a class (`float`, `np.float32`), or, for the peace of
linters, as a note: `Annotated[np.ndarray, "<_ x f64>"]`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_origin

import numpy as np

from dlvm_py.ir import DTYPES, PointerType, TensorType, dtype_of
from dlvm_py.ir.interface import ArraySpec, ScalarSpec, Spec, TupleSpec
from dlvm_py.ir.lexer import LITERAL
from dlvm_py.ir.parser_module import ModuleReader
from dlvm_py.tools.common import Failure

PYTHON_NUMBERS = {"float": "f64", "int": "i64", "bool": "bool", "complex": "c128"}
_KINDS = "float, int, bool, complex, a dtype such as f32, an array such as <_ x f64>, or a tuple of these"


@dataclass(frozen=True, slots=True)
class Given:
    """The type of one argument: its spec and, a leaf, the extents that are known (none for a scalar)."""

    spec: Spec
    extents: tuple[tuple[int | None, ...], ...]


class _Reader(ModuleReader):
    """Reads signatures."""

    def item(self) -> Given:
        """The type of one argument."""
        token = self.next
        if token.kind == "word" and token.text in PYTHON_NUMBERS:
            self.take()
            return Given(ScalarSpec(PYTHON_NUMBERS[token.text], weak=True), ((),))
        if self.at("("):
            return self._tuple()
        if not (self.at("<") or self.at("*") or (token.kind == "word" and token.text in DTYPES)):
            self.unexpected(f"the type of an argument: {_KINDS}")
        found = self.type()
        if isinstance(found, TensorType) and not found.shape:
            return Given(ScalarSpec(found.dtype.name, weak=False), ((),))
        tensor = found.pointee if isinstance(found, PointerType) else found
        if not isinstance(tensor, TensorType) or not tensor.shape:
            raise self.error(f"an argument cannot have the type {found}", token, LITERAL, f"it is one of: {_KINDS}")
        layout = found.layout if isinstance(found, PointerType) else "C"
        return Given(ArraySpec(tensor.dtype.name, tuple(n == 1 for n in tensor.shape), layout), (tensor.shape,))

    def _tuple(self) -> Given:
        self.expect("(")
        items: list[Given] = []
        while not self.at(")"):
            items.append(self.item())
            if not self.at(")"):
                self.expect(",", "',' or ')'")
        self.take()
        return Given(TupleSpec(tuple(i.spec for i in items)), tuple(e for i in items for e in i.extents))

    def end(self) -> None:
        """Nothing more."""
        if not self.at("end"):
            self.unexpected("the end of the signature")


def read_signature(text: str) -> tuple[str, list[Given] | None]:
    """The function's name and the types of its arguments, None where only a name is given.

    Raises: ParseError, with a caret under the guilty word.
    """
    reader = _Reader(text, "--function")
    name = reader.expect("word", "the name of a function").text
    if reader.at("end"):
        return name, None
    reader.expect("(", "'(' and the types of the arguments")
    items: list[Given] = []
    while not reader.at(")"):
        items.append(reader.item())
        if not reader.at(")"):
            reader.expect(",", "',' or ')'")
    reader.take()
    reader.end()
    return name, items


def annotated(parameter: inspect.Parameter, of: str, names: Mapping[str, Any]) -> Given:
    """The type that the annotation of a parameter of the function `of` says; `names` are its globals.

    Raises: ParseError for text that is no type; Failure where nothing is said.
    """
    said = parameter.annotation
    if said is parameter.empty:
        raise Failure(
            f"the types of the arguments of {of} are not known: its parameter '{parameter.name}' has no annotation\n"
            f"  help: give them on the command line, --function '{of}(float, <_ x f64>)', or in the source: "
            f'{parameter.name}: Annotated[np.ndarray, "<_ x f64>"]'
        )
    text = _as_text(said, names)
    if text is None:
        raise Failure(f"the annotation of '{parameter.name}' of {of} is no type of an argument: {said!r}\n"
                      f"  help: it is one of: {_KINDS}")  # fmt: skip
    reader = _Reader(text, f"<annotation of {parameter.name}>")
    found = reader.item()
    reader.end()
    return found


def _as_text(said: Any, names: Mapping[str, Any]) -> str | None:
    """The item that an annotation stands for."""
    if isinstance(said, str):
        try:
            # under `from __future__ import annotations` it is the text of an expression
            value = eval(said, dict(names))
        except Exception:  # an item is no Python
            return said
        said = value if isinstance(value, type) or get_origin(value) is Annotated else str(value)
    if isinstance(said, str):
        return said
    if get_origin(said) is Annotated:
        return next((m for m in said.__metadata__ if isinstance(m, str)), None)
    return _of_class(said)


def _of_class(said: Any) -> str | None:
    if said in (float, int, bool, complex):
        return str(said.__name__)
    if isinstance(said, type) and issubclass(said, np.generic):
        dtype = dtype_of(said)
        return dtype.name if dtype is not None else None
    return None
