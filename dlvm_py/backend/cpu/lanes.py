"""Operations on vectors of LLVM, of a number of lanes that is a power of two."""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.values import V, element_of, in_lanes


def shuffled(f: FunctionText, a: V, b: V, lanes: Sequence[int]) -> V:
    """A vector of these lanes of a; those of b count on behind."""
    order = ", ".join(f"i32 {k}" for k in lanes)
    type = in_lanes(element_of(a.type), len(lanes))
    return f.value(type, f"shufflevector {a.type} {a.ref}, {b.type} {b.ref}, <{len(lanes)} x i32> <{order}>")


def splat(f: FunctionText, x: V, lanes: int) -> V:
    """A vector with x in all lanes."""
    type = f"<{lanes} x {x.type}>"
    one = f.value(type, f"insertelement {type} poison, {x.type} {x.ref}, i64 0")
    return f.value(type, f"shufflevector {type} {one.ref}, {type} poison, <{lanes} x i32> zeroinitializer")


def in_vector(f: FunctionText, parts: Sequence[V]) -> V:
    """A vector of these numbers."""
    type = f"<{len(parts)} x {parts[0].type}>"
    found = V(type, "poison")
    for k, x in enumerate(parts):
        found = f.value(type, f"insertelement {type} {found.ref}, {x.type} {x.ref}, i64 {k}")
    return found


def transposed(f: FunctionText, rows: Sequence[V]) -> list[V]:
    """The columns of as many rows as each has lanes: halves beside the diagonal change places, then theirs.

    Source: Warren, Hacker's Delight, 7-3, with elements in the place of bits.
    """
    rows, lanes = list(rows), len(rows)
    distance = lanes // 2
    while distance:
        low = [k if not k & distance else lanes + k - distance for k in range(lanes)]
        high = [k + distance if not k & distance else lanes + k for k in range(lanes)]
        for r in (r for r in range(lanes) if not r & distance):
            a, b = rows[r], rows[r + distance]
            rows[r], rows[r + distance] = shuffled(f, a, b, low), shuffled(f, a, b, high)
        distance //= 2
    return rows
