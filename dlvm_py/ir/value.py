"""Values of the IR: literals, block arguments and instructions; and the edges of the CFG.

Program structure is plain mutable objects. There are no stored use lists: a pass asks
`ir.analysis.uses` once and rewrites with one substitution at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dlvm_py.errors import Loc
from dlvm_py.ir.op import Op
from dlvm_py.ir.types import Type

if TYPE_CHECKING:
    from dlvm_py.ir.function import Block


class Value:
    """Anything that an operand can be. `name` is a hint for printing, "" for anonymous."""

    __slots__ = ("name", "type")

    def __init__(self, type: Type, name: str = "") -> None:
        self.type = type
        self.name = name


class _Undefined:
    """The payload of an undefined literal."""

    def __repr__(self) -> str:
        return "undefined"


class _Null:
    """The payload of a null pointer literal: no memory, extents 0; release of it does nothing."""

    def __repr__(self) -> str:
        return "null"


class FunctionName(str):
    """The payload of a literal of a function type: the name of the function that it is."""

    __slots__ = ()


class OpName(str):
    """The payload of a literal of a function type: an op of two scalars that is the combiner of a reduction."""

    __slots__ = ()


UNDEFINED = _Undefined()
NULL = _Null()


class Literal(Value):
    """An inline constant: a scalar (bool, int, float, complex), a function by name, UNDEFINED of any type, or NULL.

    `integral`: a number of a float type that is written without a fraction, `1: f32`, as the program did.
    """

    __slots__ = ("integral", "value")

    def __init__(self, type: Type, value: Any, integral: bool = False) -> None:
        super().__init__(type)
        self.value = value
        self.integral = integral

    def __repr__(self) -> str:
        return f"{self.value!r}: {self.type}"


def integer(value: Value) -> int | None:
    """The payload of an integer literal, None for any other value."""
    if isinstance(value, Literal) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return value.value
    return None


def is_same_number(a: Value, b: Value) -> bool:
    """Whether two numbers are one value, or the same literal."""
    return a is b or (isinstance(a, Literal) and isinstance(b, Literal) and a.value == b.value)


class Variable(Value):
    """A variable of the module: a pointer to memory that outlives the calls."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"@{self.name}: {self.type}"


class BlockArg(Value):
    """A formal argument of a block; those of the entry block are the function's parameters."""

    __slots__ = ("block",)

    def __init__(self, type: Type, block: Block, name: str = "") -> None:
        super().__init__(type, name)
        self.block = block

    def __repr__(self) -> str:
        return f"%{self.name or '^'}: {self.type}"


class Target:
    """An edge of the CFG: the block that is branched to and the arguments that are passed."""

    __slots__ = ("args", "block")

    def __init__(self, block: Block, args: list[Value] | None = None) -> None:
        self.block = block
        self.args = args or []


class Instruction(Value):
    """One operation applied to operands; its own result value.

    `attrs` hold compile-time facts (axes, callee, message). `targets` are the successors of a
    terminator: one for branch, two (then, else) for conditional, none for return and raise.
    """

    __slots__ = ("attrs", "block", "loc", "op", "operands", "targets")

    def __init__(
        self,
        op: Op,
        operands: list[Value],
        attrs: dict[str, Any] | None = None,
        targets: list[Target] | None = None,
        type: Type | None = None,
        name: str = "",
        loc: Loc | None = None,
    ) -> None:
        self.op = op
        self.operands = operands
        self.attrs = attrs or {}
        self.targets = targets or []
        self.loc = loc
        self.block: Block | None = None
        super().__init__(type if type is not None else op.result_type(operands, self.attrs), name)

    def all_operands(self) -> list[Value]:
        """Operands and the arguments passed to successors."""
        if not self.targets:
            return self.operands
        return [*self.operands, *(a for t in self.targets for a in t.args)]

    def substitute(self, mapping: dict[Value, Value]) -> None:
        """Replace operands (and successor arguments) that are keys of `mapping`, in place."""
        self.operands = [mapping.get(v, v) for v in self.operands]
        for t in self.targets:
            t.args = [mapping.get(v, v) for v in t.args]

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.type}>"
