"""Reductions to a scalar that threads share: the elements, in their order, are cut into groups.

A group is a power of two of blocks of 1024 elements (blocks.py), so that its sum is a node of the tree in which block
results combine; there are at most 64. Groups follow from the extents and the cost of an element alone. The results of
groups lie in memory of the frame until one thread combines them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.values import ZERO, V, i64
from dlvm_py.frozen import Frozen
from dlvm_py.grain import CHUNK

BLOCK_BITS = 10
MOST_BITS = 6

Span = tuple[V, V]  # the numbers of the first element and of the one behind the last


class Groups(Frozen):
    """How the elements are cut. `complete` is the number of groups with all their blocks; one more may follow."""

    elements: V
    bits: V  # of the number of elements in a group
    count: V
    complete: V

    def span(self, e: FunctionEmitter, k: V) -> Span:
        """The elements of group k."""
        first = e.op("shl nuw nsw", k, self.bits)
        return first, e.minimum(e.add(first, e.op("shl nuw nsw", i64(1), self.bits), "nuw nsw"), self.elements)


def cut(e: FunctionEmitter, elements: V, cost: int) -> Groups:
    """Groups of elements that cost so much each."""
    least = max(0, -(-CHUNK // (cost << BLOCK_BITS)) - 1).bit_length() + BLOCK_BITS
    last = e.op("sub", elements, i64(1))
    bits = e.op("sub", e.bit_length(last), i64(MOST_BITS))
    bits = e.select(e.icmp("sgt", bits, i64(least)), bits, i64(least))
    # of no elements the last number is -1, and its width 64
    bits = e.minimum(bits, i64(62))
    up = e.op("sub", e.op("shl", i64(1), bits), i64(1))
    count = e.op("lshr", e.add(elements, up), bits)
    blocks = e.op("lshr", e.add(elements, i64((1 << BLOCK_BITS) - 1)), i64(BLOCK_BITS))
    return Groups(elements, bits, count, e.op("lshr", blocks, e.op("sub", bits, i64(BLOCK_BITS))))


def rows_of(
    e: FunctionEmitter, index: dict[int, V], order: Sequence[int], extents: Sequence[V], span: Span
) -> Iterator[Span]:
    """The parts of rows along the innermost axis of `order` that elements of a span lie in; sets the other indices.

    Gives one pair of indices along that axis, once: the code that follows is the body of the loop over the rows.
    """
    *outer, inner = order
    first, last = span
    length = extents[inner]
    outer = [k for k in outer if extents[k].ref != "1"]
    index.update({k: ZERO for k in order})
    if not outer:
        yield first, last
        return
    begin = e.op("udiv", first, length)
    end = e.op("udiv", e.add(last, e.op("sub", length, i64(1))), length)
    with e.loop(e.op("sub", end, begin)) as loop:
        row = e.add(begin, loop.index, "nuw nsw")
        start = e.mul(row, length, "nuw nsw")
        rest = row
        for k in reversed(outer[1:]):
            index[k] = e.op("urem", rest, extents[k])
            rest = e.op("udiv", rest, extents[k])
        index[outer[0]] = rest
        low = e.op("sub nsw", first, start)
        low = e.select(e.icmp("sgt", low, ZERO), low, ZERO)
        yield low, e.minimum(e.op("sub nsw", last, start), length)
