"""The places of keys in order, equal ones as they were: keys and places are sorted as one integer each.

Above the bits of its place stands the key, less the smallest one: exactly where the range of the keys leaves room,
which that of 32 bits always does, otherwise without its last bits. Keys that only differ in these come in the order of
their places; they are neighbours, and few unless keys crowd, so that they are put right one by one. Where that would
move more elements than there are, keys are sorted by their last bits first, then by those before (stably, so that this
is the order of both).
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.merge_sort import SLACK
from dlvm_py.backend.cpu.quick_sort import quick_sort
from dlvm_py.backend.cpu.values import ONE, ZERO, V, i64

BITS = 63  # of what is sorted, which has a sign

BUFFERS = 5  # of n + SLACK integers: the keys, what is packed, the places of a round, and two to sort in


def argsort(e: Code) -> str:
    """`ptr (ptr memory, i64 n)`: the places of the n keys (i64) at `memory`, which has BUFFERS buffers."""
    return "@" + helper(e, "dlvm.argsort", "ptr", ["ptr", "i64"], lambda c: _Argsort(c).write())


class _Argsort:
    def __init__(self, c: Code) -> None:
        self.c = c
        self.n = c.params[1]

    def write(self) -> None:
        c, n = self.c, self.n
        each = c.add(n, i64(SLACK))
        self.keys, self.packed, places, a, b = (c.gep("i64", c.params[0], c.mul(each, i64(k))) for k in range(BUFFERS))
        with c.loop(n, [i64(2**63 - 1), i64(-(2**63))]) as loop:
            key = self._at(self.keys, loop.index)
            low, high = loop.carried
            loop.next = [c.minimum(key, low), c.select(c.icmp("sgt", key, high), key, high)]
        self.least = loop.results[0]
        self.width = c.bit_length(c.op("or", c.op("sub", n, ONE), ONE))  # of a place
        self.mask = c.op("sub", c.op("shl", ONE, self.width), ONE)
        self.room = c.op("sub", i64(BITS), self.width)
        bits = c.bit_length(c.op("sub", loop.results[1], self.least))
        excess = c.op("sub", bits, self.room)
        excess = c.select(c.icmp("sgt", excess, ZERO), excess, ZERO)
        with c.loop(n) as loop:
            self._pack(loop.index, c.op("lshr", self._above(loop.index), excess))
        found = self._sorted(a, b)
        moves = c.alloca("i64")
        c.store(ZERO, moves)
        with c.when(c.icmp("sgt", excess, ZERO)):
            self._put_right(found, moves)
        again, done = c.label("again"), c.label("done")
        c.cond_br(c.icmp("sgt", c.load("i64", moves), n), again, done)
        c.place(again)
        self._by_parts(bits, places, a, b)
        c.line(f"ret ptr {places.ref}")
        c.place(done)
        with c.loop(n) as loop:
            self._keep(found, loop.index, c.op("and", self._at(found, loop.index), self.mask))
        c.line(f"ret ptr {found.ref}")

    def _put_right(self, found: V, moves: V) -> None:
        """Elements in order where only the bits that were left out say which, as long as few are moved."""
        c = self.c
        with c.loop(c.op("sub", self.n, ONE)) as loop:
            k = c.add(loop.index, ONE)
            now, before = self._at(found, k), self._at(found, loop.index)
            few = c.icmp("sle", c.load("i64", moves), self.n)
            with c.when(c.both(few, self._is_as_high(now, before))):
                key, entry = self._key(now), c.here
                head, move, done = c.label("head"), c.label("move"), c.label("put")
                c.br(head)
                c.place(head)
                at = c.phi("i64")
                at.add(k, entry)
                left = c.op("sub", at.value, ONE)
                other = self._at(found, c.select(c.icmp("sgt", at.value, ZERO), left, ZERO))
                is_behind = c.both(
                    c.icmp("sgt", at.value, ZERO), self._is_as_high(now, other), c.icmp("sgt", self._key(other), key)
                )
                c.cond_br(is_behind, move, done)
                c.place(move)
                self._keep(found, at.value, other)
                c.store(c.add(c.load("i64", moves), ONE), moves)
                at.add(left, c.here)
                c.br(head)
                c.place(done)
                self._keep(found, at.value, now)

    def _by_parts(self, bits: V, places: V, a: V, b: V) -> None:
        """The order of all bits of the keys: by so many as there is room for at a time, the last ones first."""
        c, n = self.c, self.n
        with c.loop(n) as loop:
            self._keep(places, loop.index, loop.index)
        part = c.op("sub", c.op("shl", ONE, self.room), ONE)
        rounds = c.op("udiv", c.op("sub", c.add(bits, self.room), ONE), self.room)
        with c.loop(rounds) as sweep:
            shift = c.mul(sweep.index, self.room)
            with c.loop(n) as loop:
                key = c.op("lshr", self._above(self._at(places, loop.index)), shift)
                self._pack(loop.index, c.op("and", key, part))
            found = self._sorted(a, b)
            with c.loop(n) as loop:
                place = c.op("and", self._at(found, loop.index), self.mask)
                self._keep(self.packed, loop.index, self._at(places, place))
            with c.loop(n) as loop:
                self._keep(places, loop.index, self._at(self.packed, loop.index))

    def _sorted(self, a: V, b: V) -> V:
        return self.c.call(quick_sort(self.c, "i64"), "ptr", [self.packed, a, b, self.n])

    def _pack(self, k: V, key: V) -> None:
        self._keep(self.packed, k, self.c.op("or", self.c.op("shl", key, self.width), k))

    def _above(self, place: V) -> V:
        """A key less the smallest one, without a sign."""
        return self.c.op("sub", self._at(self.keys, place), self.least)

    def _is_as_high(self, a: V, b: V) -> V:
        """Whether two elements differ in their places at most, as far as they are packed."""
        return self.c.icmp("ule", self.c.op("xor", a, b), self.mask)

    def _key(self, packed: V) -> V:
        return self._at(self.keys, self.c.op("and", packed, self.mask))

    def _at(self, buffer: V, k: V) -> V:
        return self.c.load("i64", self.c.gep("i64", buffer, k))

    def _keep(self, buffer: V, k: V, value: V) -> None:
        self.c.store(value, self.c.gep("i64", buffer, k))
