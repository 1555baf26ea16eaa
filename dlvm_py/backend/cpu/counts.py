"""Sums of truth values: neighbours are counted in bytes, as many as a byte can hold.

    reduce (dataTypeCast b: bool to i64) by add      =>      for 128 elements at a time:
                                                                 u8 count = 0
                                                                 for each of them: count += b
                                                                 total += count
                                                             for each that is left: total += b

In one accumulator of 64 bits eight elements fill a vector, and each is widened before it is added.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import V, i64
from dlvm_py.ir import BOOL, Instruction, Kind

STRIP_BITS = 7  # a strip has fewer elements than a byte counts


def are_truths(tree: Tree, by: str) -> bool:
    """Whether a reduction adds up truth values that are in memory, or follow from such."""
    root = tree.root
    if by != "add" or not isinstance(root, Instruction) or root.op.name != "dataTypeCast" or tree.is_rare:
        return False
    if not root.type.dtype.is_integer or root.type.dtype.bits < 16:  # type: ignore[attr-defined]
        return False
    return all(i is root or (i.type.dtype is BOOL and _is_step(i)) for i, _ in tree.nodes())  # type: ignore[attr-defined]


def _is_step(i: Instruction) -> bool:
    return i.op.kind in (Kind.ELEMENTWISE, Kind.INDEX) or i.op.name in ("load", "broadcast")


def count(e: FunctionEmitter, tree: Tree, axis: int, span: tuple[V, V], total: V, note: str) -> V:
    """total + how many elements are true of a span along the innermost loop."""
    first, last = span
    length = e.op("sub nsw", last, first)
    strips = e.op("ashr", length, i64(STRIP_BITS))

    def element(at: V, type: str) -> V:
        tree.index[axis] = at
        return e.cast("trunc", tree.element(), type)

    with e.loop(strips, [total]) as strip:
        begin = e.add(first, e.op("shl nsw", strip.index, i64(STRIP_BITS)), "nsw")
        with e.loop(i64(1 << STRIP_BITS), [V("i8", "0")]) as loop:
            loop.next = [e.op("add", loop.carried[0], element(e.add(begin, loop.index, "nsw"), "i8"))]
        strip.next = [e.op("add", strip.carried[0], e.cast("zext", loop.results[0], total.type))]
    begin = e.add(first, e.op("shl nsw", strips, i64(STRIP_BITS)), "nsw")
    with e.loop(e.op("sub nsw", last, begin), [strip.results[0]], note) as loop:
        loop.next = [e.op("add", loop.carried[0], element(e.add(begin, loop.index, "nsw"), total.type))]
    return loop.results[0]
