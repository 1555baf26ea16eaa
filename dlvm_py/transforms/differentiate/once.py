"""Numbers that several blocks of a trip keep go on the tape once, where all of their reverse blocks find them.

    'body(): … %x …                                     'body(): … %x …
         push %x to %tape                                    conditional %c then 'a() else 'b()
         conditional %c then 'a() else 'b()             'a(): … %x …
    'a(): … %x …                                             branch 'end()
         push %x to %tape_0                        =>   'b(): branch 'end()
         branch 'end()                                  'end(): push %x to %tape
    'b(): branch 'end()                                      branch 'loop(…)
    'end(): branch 'loop(…)

The reverse of 'end comes first: what it takes from the tape is there in the reverse of every block that always goes on
to 'end in the same trip. It is the last block that runs as often as one of those that keep the number: it is kept no
more often than it was. For blocks whose innermost loop is the same one, which contains the definition. What has a row
in a dense tape is there once anyway (dense.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dlvm_py.ir import Block, Value, is_scalar
from dlvm_py.ir.analysis import DominatorTree
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.transforms.differentiate.primal import Primal


class Once:
    """Says where numbers are kept. reverse: the reverse block of each block, all of them in place.

    place_of(value, block): where `value` is kept for the reverse of `block`; None: it needs no place in a loop.
    """

    def __init__(
        self, primal: Primal, reverse: Mapping[Block, Block], place_of: Callable[[Value, Block], Block | None]
    ) -> None:
        self._primal, self._reverse, self._place_of = primal, reverse, place_of
        self._dominators: DominatorTree | None = None  # made when it is asked for: most functions keep nothing
        self._number = {block: k for k, block in enumerate(primal.order)}
        self._alike: dict[Loop | None, list[Block]] = {}  # by the innermost loop
        for block in primal.order:
            self._alike.setdefault(primal.loop_of(block), []).append(block)
        self._ends: dict[Block, Block] = {}
        self._chosen: dict[tuple[Value, Block], Block] = {}

    def place(self, value: Value, place: Block) -> Block:
        """Where to keep `value` instead of `place`."""
        return self._chosen.get((value, place), place)

    def shared(self, block: Block, kept: Mapping[Block, Iterable[Value]]) -> set[Value]:
        """The numbers that other blocks keep and that can be kept for `block` as well, at one place."""
        found: set[Value] = set()
        loop = self._primal.loop_of(block)
        if loop is None:
            return found
        for other in self._alike[loop]:
            values = kept.get(other)
            if other is block or not values:
                continue
            if self._is_behind(self._end(block), other) or self._is_behind(self._end(other), block):
                found.update(v for v in values if is_scalar(v.type) and self._is_of_trip(v, block, other))
        return found

    def choose(self, kept: Mapping[Block, Iterable[Value]]) -> None:
        """Find the places of numbers that several blocks keep."""
        places: dict[Value, dict[Block, None]] = {}
        for block, values in kept.items():
            for v in values:
                place = self._place_of(v, block) if is_scalar(v.type) else None
                if place is not None:
                    places.setdefault(v, {})[place] = None
        for value, blocks in places.items():
            left = list(blocks)
            while len(left) > 1:
                of_each = [(end, [b for b in left if self._is_behind(end, b)]) for end in map(self._end, left)]
                end, covered = max(of_each, key=lambda found: len(found[1]))
                if len(covered) > 1:
                    self._chosen.update({(value, b): end for b in covered})
                left = [b for b in left if b not in covered]

    def _is_of_trip(self, value: Value, *blocks: Block) -> bool:
        """Whether a value is defined in the trip in which these blocks run, before all of them."""
        home: Block = value.block  # type: ignore[attr-defined]
        loop = self._primal.loop_of(blocks[0])
        inside = loop is not None and loop.contains(home)
        return inside and all(self._primal.dominators.dominates(home, b) for b in blocks)

    def _is_behind(self, end: Block, block: Block) -> bool:
        """Whether each trip that runs `block` runs `end` after it: its reverse finds what that of `end` took."""
        if self._primal.loop_of(end) is not self._primal.loop_of(block) or self._number[end] < self._number[block]:
            return False  # what comes before it in a trip comes after it by the next trip only
        if self._dominators is None:
            self._dominators = DominatorTree(self._primal.function)
        return self._dominators.dominates(self._reverse[end], self._reverse[block])

    def _end(self, block: Block) -> Block:
        """The last block of the trip that runs if and only if `block` does."""
        if block not in self._ends:
            dominates = self._primal.dominators.dominates
            around = self._alike[self._primal.loop_of(block)]
            alike = [b for b in around if dominates(block, b) and self._is_behind(b, block)]
            self._ends[block] = alike[-1]
        return self._ends[block]
