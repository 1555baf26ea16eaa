"""What the entries of the spelling table may ask of the function that is written, and of its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dlvm_py.backend.python.extents import Extents, Sum
from dlvm_py.backend.python.nodes import (
    Node,
    build,
)
from dlvm_py.ir import Instruction, Literal, PointerType, TensorType, Value
from dlvm_py.ir.types import DType

DEFAULT = ("f64", "i64", "c128", "bool")  # whose weak numbers are these dtypes


class Writer(Protocol):
    """What an entry may ask of the function that is written."""

    extents: Extents

    def of(self, value: Value) -> Node:
        """The expression of a value, by itself."""

    def operand(self, value: Value) -> Node:
        """The same as an operand: a number may be written weak, because another operand has the dtype."""

    def broadcast(self, i: Instruction) -> list[Node]:
        """The operands of an elementwise op, without what NumPy's broadcasting does by itself."""

    def is_weak(self, value: Value) -> bool:
        """Whether a number may be one of Python."""

    def is_inline(self, value: Value, op: str = "") -> bool:
        """Whether a value is written where it is used (and comes from this op)."""

    def is_nonzero(self, value: Value, at: Instruction) -> bool:
        """Whether a divisor is known not to be 0."""

    def fits_integer(self, i: Instruction) -> bool:
        """Whether the number that a cast makes an integer is known to fit."""

    def is_nonempty(self, i: Instruction) -> bool:
        """Whether a reduction is known to reduce something."""

    def number(self, s: Sum) -> Node:
        """A sum as an expression."""

    def helper(self, name: str) -> str:
        """The name of a helper, which the text then has."""


Entry = str | Callable[[Writer, Instruction], Node]


def dtype(value: Value) -> DType:
    """The element type of a tensor or of memory."""
    assert isinstance(value.type, TensorType | PointerType)
    return value.type.dtype


def is_scalar(value: Value) -> bool:
    """Whether a value is a number."""
    return isinstance(value.type, TensorType) and not value.type.rank


def numpy_dtype(d: DType) -> Node:
    """`np.float32`, and for bool, int64 and float64 as NumPy calls them too."""
    return build(f"np.{'bool_' if d.name == 'bool' else d.numpy_name}")


def literal_of(value: Value) -> object | None:
    """The number that a literal is, also a broadcast one; None for computed values."""
    while isinstance(value, Instruction) and value.op.name == "broadcast":
        value = value.operands[0]
    return value.value if isinstance(value, Literal) else None


def dtype_keyword(d: DType) -> dict[str, Node]:
    """The `dtype=` that makes an array of this type; none for float64."""
    return {} if d.name == "f64" else {"dtype": numpy_dtype(d)}


def reduced_keyword(d: DType) -> dict[str, Node]:
    """The `dtype=` of a sum or product, which NumPy would widen."""
    return {"dtype": numpy_dtype(d)} if d.kind in "iu" and d.bits < 64 else {}
