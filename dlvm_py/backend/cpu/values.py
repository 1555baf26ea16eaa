"""Values and other pieces of textual LLVM IR: typed values, constants, blocks, phis, metadata."""

from __future__ import annotations

import struct
from typing import NamedTuple

from dlvm_py.frozen import Mutable, field


class V(NamedTuple):
    """A value of LLVM IR: its type and how it is written."""

    type: str
    ref: str


def i64(n: int) -> V:
    """An i64 constant."""
    return V("i64", str(n))


ZERO, ONE = i64(0), i64(1)
TRUE, FALSE = V("i1", "true"), V("i1", "false")
NULL = V("ptr", "null")


def parts_of(type: str) -> list[str]:
    """The types of the parts of a struct: of a complex number, those of its two floats."""
    return type.strip("{ }").split(", ")


def lanes_of(type: str) -> int:
    """How many numbers a value of this type has: 1 that of a scalar."""
    return int(type[1:].partition(" ")[0]) if type.startswith("<") else 1


def element_of(type: str) -> str:
    """The type of the numbers of a vector; of a scalar its own."""
    return type[1:-1].partition(" x ")[2] if type.startswith("<") else type


def in_lanes(type: str, lanes: int) -> str:
    """The type of so many numbers, that of a scalar for one."""
    return type if lanes == 1 else f"<{lanes} x {type}>"


def in_all_lanes(v: V, lanes: int) -> V:
    """A vector constant with a constant in all lanes."""
    return v if lanes == 1 else V(in_lanes(v.type, lanes), f"splat ({v.type} {v.ref})")


def numbered_lanes(lanes: int) -> V:
    """A vector constant with the number of each lane."""
    return V(in_lanes("i64", lanes), f"<{', '.join(f'i64 {k}' for k in range(lanes))}>")


def float_constant(type: str, value: float) -> V:
    """A float constant, exact: `half` and `float` values are rounded first; `i16` is the bits of a bfloat."""
    if type == "half":
        try:
            bits = struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            bits = 0x7C00 if value > 0 else 0xFC00
        return V(type, f"0xH{bits:04X}")
    if type == "i16":
        return V(type, str(_bfloat_bits(value)))
    if type == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return V(type, f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")


def _bfloat_bits(value: float) -> int:
    """The nearest bfloat16, by way of float as ml_dtypes: its upper half, rounded to even."""
    bits = int(float_constant("float", value).ref, 16)
    narrow = struct.unpack("<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", bits))[0]))[0]
    if value != value:
        return narrow >> 16 & 0x8000 | 0x7FC0
    return (narrow + 0x7FFF + (narrow >> 16 & 1)) >> 16


class Phi:
    """A phi node whose incoming edges are added while its predecessors are written."""

    def __init__(self, value: V) -> None:
        self.value = value
        self.incoming: list[tuple[V, Label]] = []

    def add(self, value: V, label: Label) -> None:
        """One more incoming edge."""
        assert value.type == self.value.type, (value, self.value)
        self.incoming.append((value, label))

    def __str__(self) -> str:
        edges = ", ".join(f"[ {v.ref}, %{label.name} ]" for v, label in self.incoming)
        return f"{self.value.ref} = phi {self.value.type} {edges}"


class Label(Mutable, eq=False):
    """A basic block; `known` are its values by the text that computes them."""

    name: str
    phis: list[Phi] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    known: dict[str, V] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}:\n" + "".join(f"  {line}\n" for line in (*self.phis, *self.lines))


class Metadata:
    """The numbered metadata nodes of one module."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self._known: dict[str, str] = {}

    def node(self, text: str) -> str:
        """The number of a uniqued node, `text` between its braces."""
        if text not in self._known:
            self._known[text] = self._append(f"!{{{text}}}")
        return self._known[text]

    def distinct(self, text: str = "", itself: bool = False) -> str:
        """The number of a new distinct node; `itself`: its first operand is the node."""
        number = f"!{len(self.nodes)}"
        parts = ", ".join(filter(None, [number if itself else "", text]))
        return self._append(f"distinct !{{{parts}}}")

    def extend(self, note: str, text: str) -> None:
        """One more operand, a node, for the loop whose note this is."""
        k = int(note.rpartition("!")[2])
        self.nodes[k] = f"{self.nodes[k][:-1]}, {self.node(text)}}}"

    def _append(self, text: str) -> str:
        self.nodes.append(text)
        return f"!{len(self.nodes) - 1}"

    def __str__(self) -> str:
        return "".join(f"!{k} = {text}\n" for k, text in enumerate(self.nodes))


def constant(v: V) -> int | None:
    """The number of an i64 constant, None for a computed value."""
    return int(v.ref) if v.ref.lstrip("-").isdigit() else None


def constant_float(v: V) -> float | None:
    """The number of a float constant, None for a computed value."""
    if v.type == "half" or not v.ref.startswith("0x"):
        return None
    return struct.unpack("<d", struct.pack("<Q", int(v.ref, 16)))[0]
