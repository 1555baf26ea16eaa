"""Some terms of a row at once, of which those behind the last one do not count; for few_terms.py and few_indices.py."""

from __future__ import annotations

from collections.abc import Mapping

from dlvm_py.ir import (
    U64,
    Block,
    Builder,
    Function,
    Instruction,
    Value,
    is_array,
    literal,
    scalar,
)
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.uses import uses


class Together:
    """Trees over the first `width` terms of rows that have `count`, of which those are there that do count."""

    def __init__(
        self,
        b: Builder,
        places: Mapping[Value, tuple[Value, Value, Value]],
        count: Value,
        width: int,
        inside: Value | None = None,
    ) -> None:
        self.b, self.places, self.count, self.width = b, places, count, width
        self.inside = b.emit("lessThan", b.emit("iota", literal(width)), count) if inside is None else inside
        self.is_index = False
        self.made: dict[Value, Value] = {}

    def index(self, v: Value) -> Value:
        """The elements of a tree of indices, which are read as 0 behind the last term."""
        self.is_index = True
        return self._elements(v)

    def chosen(self, v: Value, other: Value) -> Value:
        """The elements of a tree, another one behind the last term."""
        return self.b.emit("select", self._elements(v), other, self.inside)

    def reduced(self, v: Value, like: Instruction, init: Value | None = None) -> Value:
        """What elements come to by a reduction like another one."""
        return self.b.emit("reduce", v, like.operands[1] if init is None else init, **like.attrs)

    def _elements(self, v: Value) -> Value:
        if not is_array(v.type):
            return v
        if v not in self.made:
            assert isinstance(v, Instruction)
            b = self.b
            if v.op.name == "gather":
                source = b.emit("load", v.operands[0].operands[0])  # type: ignore[attr-defined]
                self.made[v] = b.emit(
                    "gather", source, Together(b, self.places, self.count, self.width, self.inside).index(v.operands[1])
                )
            elif reads_row(v):
                base, first, _ = self.places[v.operands[0]]
                part = b.emit("section", base, first, literal(self.width), literal(1))
                x = b.emit("load", part)
                none = literal(0, scalar(x.type.dtype))  # type: ignore[attr-defined]
                self.made[v] = b.emit("select", x, none, self.inside) if self.is_index else x
            elif v.op.name == "broadcast":
                self.made[v] = self._elements(v.operands[0])
            else:
                self.made[v] = b.emit(v.op, *map(self._elements, v.operands), **v.attrs)
        return self.made[v]


def reads_row(v: Value) -> bool:
    """Whether it loads a row."""
    return isinstance(v, Instruction) and v.op.name == "load" and v.type.rank == 1  # type: ignore[attr-defined]


def is_within(b: Builder, v: Value, most: Value) -> Value:
    """Whether 0 <= v <= most, by one comparison."""
    u, limit = (b.emit("dataTypeCast", x, to=U64.name) for x in (v, most))
    return b.emit("lessThanOrEqual", u, limit)


def sink(function: Function, block: Block, many: Block) -> None:
    """Move what is needed in `many` alone from `block` to it."""
    used = uses(function)
    for i in reversed(block.instructions[:-1]):
        if is_pure(i) and used[i] and all(u.block is many for u in used[i]):
            block.instructions.remove(i)
            many.instructions.insert(0, i)
            i.block = many
