"""Quicksort in vectors: parts are halved until they are small, and those are merged (merge_sort.py).

A part goes from one buffer to the other. Of each vector the lanes that are not above a limit come first, by a table of
how they compare, and the whole of it is written to the left end of what is left to fill, and again to the right end:
what stands wrong lies between the ends, where the next vectors come. So nothing branches on what is compared.

The limit is below the pivot, a median of medians of 36 elements or 72. A part knows a bound below which it has nothing:
where that is the pivot, it is the limit as well, and the left side is all equal, and done. Where pivots halve nothing
this is given up after so many elements, and the source, which has been read only, is merged as if nothing had been.
Sources: Bramas, A novel hybrid quicksort algorithm vectorized using AVX-512, IJACSA 8 (2017); Bentley and McIlroy,
Engineering a sort function, SPE 23 (1993), for the pivot.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.lanes import splat
from dlvm_py.backend.cpu.merge_sort import SIGNATURE, SLACK, Merges, extremes, merge_sort
from dlvm_py.backend.cpu.sort_keys import below
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import ONE, ZERO, V, i64

WAITING = 64  # parts that wait at most: of two it is the larger one
LEVELS = 4  # how often all elements may be moved, beyond twice the number of halvings
SAMPLES = 9  # vectors


def quick_sort(e: Code, type: str) -> str:
    """A function as merge_sort's, which it is where vectors are not permuted, or have masks."""
    if e.module.masks or not e.module.permutes:
        return merge_sort(e, type)
    return "@" + helper(e, f"dlvm.sort.{type}", *SIGNATURE, lambda c: _Quicksort(c, type).write())


class _Quicksort:
    """The code of the function for one type of elements, with AVX2.

    The parts that wait are a stack of entries: where the part begins and ends, the bound, the buffer in which it lies.
    """

    def __init__(self, c: Code, type: str) -> None:
        self.c = c
        self.type = type
        self.rows = Merges(c, type)
        self.lanes = self.rows.lanes
        self.small = 4 * self.rows.block  # elements that networks merge
        self.shift = self.lanes.bit_length() - 1
        self.source, self.a, self.b, self.n = c.params
        table = f"dlvm.sort.places.{self.lanes}"
        c.module.constant(table, f'[{8 << self.lanes} x i8] c"{_places(self.lanes)}"')
        self.table = V("ptr", f"@{table}")
        self.entry = ("i64", "i64", type, "ptr")
        self.waiting = c.alloca(f"[{WAITING} x {{ {', '.join(self.entry)} }}]")
        self.scratch = [c.alloca(f"[{self.small + SLACK} x {type}]", 64) for _ in range(3)]

    def write(self) -> None:
        c, n = self.c, self.n
        begins, merges, head, takes, done = (c.label(s) for s in ("begins", "merges", "head", "takes", "done"))
        small, large, halves = (c.label(s) for s in ("small", "large", "halves"))
        c.cond_br(c.icmp("sle", n, i64(self.small)), merges, begins)
        c.place(merges)
        c.line(f"ret ptr {c.call(merge_sort(c, self.type), 'ptr', c.params).ref}")

        c.place(begins)
        self._put(ZERO, ZERO, n, extremes(self.type)[0], self.source)
        halvings = c.op("sub", c.bit_length(n), i64(self.small.bit_length()))
        budget = c.mul(n, c.add(c.op("shl", halvings, ONE), i64(LEVELS)))
        waiting, left = c.phi("i64", head), c.phi("i64", head)

        def go_on(count: V, budget: V) -> None:
            waiting.add(count, c.here)
            left.add(budget, c.here)
            c.br(head)

        go_on(ONE, budget)
        c.place(head)
        c.cond_br(c.icmp("eq", waiting.value, ZERO), done, takes)
        c.place(takes)
        top = c.op("sub", waiting.value, ONE)
        part = [c.load(type, self._at(top, k)) for k, type in enumerate(self.entry)]
        size = c.op("sub", part[1], part[0])
        c.cond_br(c.icmp("sle", size, i64(self.small)), small, large)
        c.place(small)
        self._merge(part[3], part[0], size)
        go_on(top, left.value)
        c.place(large)
        rest = c.op("sub", left.value, size)
        c.cond_br(c.icmp("slt", rest, ZERO), merges, halves)
        c.place(halves)
        go_on(self._halve(top, *part), rest)
        c.place(done)
        c.line(f"ret ptr {self.a.ref}")

    # -- parts that wait -----------------------------------------------------------------------------

    def _at(self, k: V, field: int) -> V:
        entry = f"{{ {', '.join(self.entry)} }}"
        return self.c.gep(entry, self.waiting, k, V("i32", str(field)))

    def _put(self, k: V, *part: V) -> None:
        for field, x in enumerate(part):
            self.c.store(x, self._at(k, field))

    # -- one part ------------------------------------------------------------------------------------

    def _merge(self, here: V, low: V, size: V) -> None:
        """Few elements in order, to a."""
        c = self.c
        source, target = c.gep(self.type, here, low), c.gep(self.type, self.a, low)
        self._copy(source, self.scratch[0], c.op("lshr", c.add(size, i64(self.lanes - 1)), i64(self.shift)))
        found = c.call(merge_sort(c, self.type), "ptr", [*self.scratch, size])
        whole = c.op("lshr", size, i64(self.shift))
        self._copy(found, target, whole)
        done = c.op("shl", whole, i64(self.shift))
        with c.loop(c.op("sub", size, done)) as loop:
            k = c.add(done, loop.index)
            c.store(c.load(self.type, c.gep(self.type, found, k)), c.gep(self.type, target, k))

    def _copy(self, source: V, target: V, rows: V) -> None:
        """So many vectors."""
        with self.c.loop(rows, note=plain_loop(self.c)) as loop:
            k = self.c.mul(loop.index, i64(self.lanes))
            self.rows.store(self.rows.load(self.c.gep(self.type, source, k)), self.c.gep(self.type, target, k))

    def _halve(self, top: V, low: V, high: V, bound: V, here: V) -> V:
        """Put two parts in the place of one, the smaller one on top, or only what is not all equal; how many wait."""
        c = self.c
        there = c.select(c.icmp("eq", here, self.a), self.b, self.a)
        pivot = self._pivot(c.gep(self.type, here, low), c.op("sub", high, low))
        is_bound = c.fcmp("oeq", pivot, bound) if self.rows.is_float else c.icmp("eq", pivot, bound)
        below_it = below(c, pivot) if self.rows.is_float else c.op("sub", pivot, V(self.type, "1"))
        limit = c.select(is_bound, pivot, below_it)
        middle = self._move(here, there, low, c.op("sub", high, low), limit)
        is_longer = c.icmp("sgt", c.op("sub", middle, low), c.op("sub", high, middle))
        with c.either(is_bound) as arms:
            next(arms)
            with c.loop(c.op("sub", middle, low)) as loop:
                c.store(pivot, c.gep(self.type, self.a, c.add(low, loop.index)))
            self._put(top, middle, high, pivot, there)
            next(arms)
            left, right = (low, middle, bound), (middle, high, pivot)
            self._put(top, *(c.select(is_longer, x, y) for x, y in zip(left, right, strict=True)), there)
            self._put(c.add(top, ONE), *(c.select(is_longer, y, x) for x, y in zip(left, right, strict=True)), there)
        return c.add(top, c.select(is_bound, ONE, i64(2)))

    def _pivot(self, start: V, size: V) -> V:
        """A median of medians: of three vectors three times, of these, and of the lanes of the last one."""
        c, lanes = self.c, self.lanes
        step = c.op("udiv", c.op("sub", size, i64(lanes)), i64(SAMPLES - 1))
        rows = [self.rows.load(c.gep(self.type, start, c.mul(step, i64(k)))) for k in range(SAMPLES)]
        while len(rows) > 1:
            rows = [self._median(*rows[k :: len(rows) // 3]) for k in range(len(rows) // 3)]
        row = self.rows.sorted_row(rows[0])
        return c.value(self.type, f"extractelement {row.type} {row.ref}, i64 {lanes // 2}")

    def _median(self, x: V, y: V, z: V) -> V:
        low, high = self.rows.ordered(x, y)
        return self.rows.ordered(low, self.rows.ordered(high, z)[0])[1]

    def _move(self, here: V, there: V, low: V, size: V, limit: V) -> V:
        """here[low:low + size] to the other buffer, what is not above the limit first; where the rest begins.

        Those that are no whole vector come first, so that there is room for two, or for one and nothing else.
        """
        c, lanes = self.c, self.lanes
        source, target = c.gep(self.type, here, low), c.gep(self.type, there, low)
        odd = c.op("and", size, i64(lanes - 1))
        with c.loop(odd, [ZERO, c.op("sub", size, ONE)]) as loop:
            first, last = loop.carried
            x = c.load(self.type, c.gep(self.type, source, loop.index))
            c.store(x, c.gep(self.type, target, first))
            c.store(x, c.gep(self.type, target, last))
            above = c.cast("zext", self._is_above(x, limit), "i64")
            loop.next = [c.op("sub", c.add(first, ONE), above), c.op("sub", last, above)]
        first, last = loop.results
        source, limits = c.gep(self.type, source, odd), splat(c, limit, lanes)
        rounds = c.op("lshr", size, i64(self.shift))
        with c.loop(rounds, [first, c.op("sub", last, i64(lanes - 1))]) as loop:
            first, last = loop.carried
            row = self.rows.load(c.gep(self.type, source, c.mul(loop.index, i64(lanes))))
            bits = c.cast("zext", c.cast("bitcast", self._is_above(row, limits), f"i{lanes}"), "i64")
            places = c.load("<8 x i8>", c.gep("i8", self.table, c.mul(bits, i64(8))), ", align 1")
            words = c.cast("bitcast", row, "<8 x i32>")
            moved = c.intrinsic("llvm.x86.avx2.permd", words.type, words, c.cast("zext", places, words.type))
            moved = c.cast("bitcast", moved, row.type)
            self.rows.store(moved, c.gep(self.type, target, first))
            self.rows.store(moved, c.gep(self.type, target, last))
            above = c.intrinsic("llvm.ctpop.i64", "i64", bits)
            loop.next = [c.op("sub", c.add(first, i64(lanes)), above), c.op("sub", last, above)]
        return c.add(low, loop.results[0])

    def _is_above(self, x: V, limit: V) -> V:
        return self.c.fcmp("ogt", x, limit) if self.rows.is_float else self.c.icmp("sgt", x, limit)


def _places(lanes: int) -> str:
    """For each set of lanes the order of the eight parts of a vector: those of the other lanes first."""
    width = 8 // lanes
    found = []
    for bits in range(1 << lanes):
        order = sorted(range(lanes), key=lambda k: bits >> k & 1)
        found += [f"\\{width * k + j:02x}" for k in order for j in range(width)]
    return "".join(found)
