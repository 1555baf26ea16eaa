"""The builder appends typed instructions; `Expr` lets rules and passes write arithmetic with operators."""

from __future__ import annotations

from typing import Any

from dlvm_py.errors import Loc
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Op
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.types import BOOL, C128, F64, I64, PointerType, TensorType, Type, scalar
from dlvm_py.ir.value import Instruction, Literal, Target, Value


def literal(value: bool | int | float | complex, type: Type | None = None) -> Literal:
    """A scalar literal; without a type: bool, i64, f64, c128 by the Python class."""
    if type is None:
        if isinstance(value, bool):
            type = scalar(BOOL)
        elif isinstance(value, int):
            type = scalar(I64)
        else:
            type = scalar(C128 if isinstance(value, complex) else F64)
    assert isinstance(type, TensorType) and not type.shape
    kind = type.dtype.kind
    if kind == "f":
        value = float(value)  # type: ignore[arg-type]
    elif kind == "c":
        value = complex(value)
    elif kind == "b":
        value = bool(value)
    else:
        value = int(value)  # type: ignore[arg-type]
    return Literal(type, value)


class Builder:
    """Appends instructions to a block (or inserts them at a position that advances).

    `loc` is attached to every instruction that is built until it is changed.
    """

    def __init__(self, function: Function, block: Block | None = None) -> None:
        self.function = function
        self.block = block
        self.position: int | None = None  # None: the end of the block
        self.loc: Loc | None = None

    def at_end(self, block: Block) -> Builder:
        """Build at the end of `block` from now on."""
        self.block, self.position = block, None
        return self

    def before(self, instruction: Instruction) -> Builder:
        """Build right before `instruction` from now on."""
        assert instruction.block is not None
        self.block = instruction.block
        self.position = self.block.instructions.index(instruction)
        return self

    def after(self, instruction: Instruction) -> Builder:
        """Build right after `instruction` from now on."""
        self.before(instruction)
        assert self.position is not None
        self.position += 1
        return self

    def insert(self, instruction: Instruction) -> Instruction:
        """Insert a finished instruction at the current place."""
        assert self.block is not None
        if instruction.loc is None:
            instruction.loc = self.loc
        if self.position is None:
            return self.block.append(instruction)
        instruction.block = self.block
        self.block.instructions.insert(self.position, instruction)
        self.position += 1
        return instruction

    def emit(self, op: Op | str, *operands: Value, name: str = "", **attrs: Any) -> Instruction:
        """Append one instruction; the result type is computed from the op's row (TypeError if none fits)."""
        row = OPS[op] if isinstance(op, str) else op
        return self.insert(Instruction(row, list(operands), attrs, name=name))

    def clone(self, instruction: Instruction, mapping: dict[Value, Value]) -> Instruction:
        """Insert a copy that takes its operands by the mapping, which receives it. Types must stay."""
        i = instruction
        operands = [mapping.get(v, v) for v in i.operands]
        mapping[i] = made = self.insert(Instruction(i.op, operands, dict(i.attrs), type=i.type, name=i.name, loc=i.loc))
        return made

    # -- control ---------------------------------------------------------------------------------

    def branch(self, block: Block, args: list[Value] | None = None) -> Instruction:
        """Unconditional branch."""
        return self.insert(Instruction(OPS["branch"], [], targets=[Target(block, list(args or []))]))

    def conditional(
        self,
        condition: Value,
        then: Block,
        then_args: list[Value] | None,
        other: Block,
        other_args: list[Value] | None = None,
    ) -> Instruction:
        """Branch on a scalar bool."""
        targets = [Target(then, list(then_args or [])), Target(other, list(other_args or []))]
        return self.insert(Instruction(OPS["conditional"], [condition], targets=targets))

    def ret(self, *value: Value) -> Instruction:
        """Return one value, or nothing for a void function."""
        return self.emit("return", *value)

    # -- expressions -----------------------------------------------------------------------------

    def expr(self, value: Value) -> Expr:
        """Wrap a value for rules and operators."""
        return Expr(self, value)


class Expr:
    """A value with Python operators that build instructions; numbers become literals of its dtype."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder = builder
        self.value = value

    def emit_op(self, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Expr:
        """Called by Op.__call__: emit `op` on Exprs, Values and numbers."""
        dtype = self._dtype()
        values = []
        for a in args:
            if isinstance(a, Expr):
                values.append(a.value)
            elif isinstance(a, Value):
                values.append(a)
            elif isinstance(a, bool):
                values.append(literal(a))
            elif dtype is BOOL:
                raise TypeError(f"op {op.name}: no dtype for the number {a}")
            else:
                values.append(literal(a, scalar(dtype)))
        return Expr(self.builder, self.builder.emit(op, *values, **attrs))

    def _dtype(self) -> Any:
        t = self.value.type
        if isinstance(t, (TensorType, PointerType)):
            return t.dtype
        raise TypeError(f"no arithmetic on a value of type {t}")

    @property
    def type(self) -> Type:
        """Type of the wrapped value."""
        return self.value.type

    def __add__(self, other: Any) -> Expr:
        return OPS["add"](self, other)

    def __radd__(self, other: Any) -> Expr:
        return OPS["add"](other, self)

    def __sub__(self, other: Any) -> Expr:
        return OPS["subtract"](self, other)

    def __rsub__(self, other: Any) -> Expr:
        return OPS["subtract"](other, self)

    def __mul__(self, other: Any) -> Expr:
        return OPS["multiply"](self, other)

    def __rmul__(self, other: Any) -> Expr:
        return OPS["multiply"](other, self)

    def __truediv__(self, other: Any) -> Expr:
        return OPS["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return OPS["divide"](other, self)

    def __neg__(self) -> Expr:
        return OPS["negate"](self)

    def __gt__(self, other: Any) -> Expr:
        return OPS["greaterThan"](self, other)

    def __lt__(self, other: Any) -> Expr:
        return OPS["lessThan"](self, other)

    def __ge__(self, other: Any) -> Expr:
        return OPS["greaterThanOrEqual"](self, other)

    def __le__(self, other: Any) -> Expr:
        return OPS["lessThanOrEqual"](self, other)

    def eq(self, other: Any) -> Expr:
        """Elementwise equality (== keeps Python's identity meaning)."""
        return OPS["equal"](self, other)
