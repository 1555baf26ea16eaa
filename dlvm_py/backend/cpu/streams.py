"""Stores past the caches, where the IR says so (transforms/stream_stores.py): `past 33554432 lines 2 ahead 393216`.

What large kernels write goes to memory without being read first.

    for j in range(first, last):            for each piece of 4 KiB, which ends at a whole line of the destination:
        out[j] = f(a[j])               =>       for j in piece:  place[j - begin] = f(a[j])
                                                if large:  @dlvm.stream(&out[begin], buffer, n)
                                            if large:  fence

    large = the kernel writes 33554432 bytes or more;  place = buffer if large else &out[begin], one piece then

A plain store reads the line that it overwrites: three passes over memory for a scaled copy that needs two. LLVM's
vectoriser has no such stores for addresses that are known at run time alone, so it writes to a buffer in the first
cache as it would to the destination, and the runtime (stream.ll) carries that over, line by line: the same bytes.

Rows begin anywhere in a line. Where some are computed together (jam.py) each is written by its own whole lines:

    for i in range(first, last - 1, 2):       the first lines of the two rows begin at their elements h0 and h1
        for n in range(lines):                (past the caches: of a row four lines at a time)
            for k in range(8):  line0[k] = element (i, h0 + 8 n + k);  line1[k] = element (i + 1, h1 + 8 n + k)
            store the two lines, past the caches if large
        the elements before and behind these lines of each row

The lines are in registers when LLVM is done. In the caches it is faster than the plain loop too: no store touches two
lines. Past the caches four lines of a row are written one behind the other, then four of the next, since memory is slow
to turn from one row to the next. One code does that for all rows: the CPU guesses from an instruction's last addresses
what it will read, and what it fetched for rows that are computed side by side by instructions of their own kept memory
busy in vain (GB/s of a copy's 57, rows of 5,590: 25; by one code 36, and 45 where it is told what to fetch in a loop of
its own before). Rows are streams that begin anew every few KiB, before the CPU has seen where each goes on, and the
arithmetic of a line leaves it no room to look far ahead. So it is told (`fetch`), line by line, what the next rows will
read of each array where that lies farthest ahead, since the rest is in a cache by then; and of the rows that are
written the line at their ends, which is no whole one: without, each of these is waited for, as stores become visible in
order.

Planes past the caches are written one after the other, row by row, in blocks of their rows:

    for block in range(blocks):               a block of a plane has about BLOCK bytes: three planes stay in a cache
        for i in range(planes):
            for j in rows of the block:
                for n in range(lines):        next = the line that a[i, j, k + 1] has, for all k of line n
                    line = f(next, [last, next] for what is before it, ...);  store line;  last = next

A line is a vector where all is arithmetic (shifts.py), and what is read at several places of a row is loaded once,
where it lies farthest behind. Not to save loads: a load waits for a store of the last lines that has the same last 12
bits of its address, until memory takes that. Where what is read and what is written begin at the same place of a page,
as large arrays do (runtime/native/pool.ll), a[i, j, k - 1] lies in the line that was written just before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.jam import Jam
from dlvm_py.backend.cpu.plan import Plan
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.shifts import Vectors, is_arithmetic, streams_of
from dlvm_py.backend.cpu.text import FunctionText, Parallel, plain_loop
from dlvm_py.backend.cpu.trees import Axes, Tree
from dlvm_py.backend.cpu.values import ONE, TRUE, ZERO, V, constant, i64
from dlvm_py.backend.cpu.widths import in_widths
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Instruction, Literal, Value
from dlvm_py.ir.analysis.places import section_parts

PIECE = 4096  # bytes of a buffer, a power of two
LINE = 64
GROUP = 4  # lines of each row that are written one behind the other, past the caches
LONGER = 2048  # bytes: how far rows are fetched ahead that are longer than what the IR says
BLOCK = 768 << 10  # bytes of a plane that are written at a time: three such are in the last cache
SOON = 256  # bytes: how far what comes from there is fetched ahead


def is_large(e: FunctionEmitter, plan: Plan, dests: Sequence[Pointer], work: V) -> V | None:
    """Whether what is written is to go past the caches; None where it never is: libraries have no such stores."""
    size, known = sum(p.itemsize for p in dests), constant(work)
    if plan.past is None or not e.module.shares or (known is not None and known * size < plan.past):
        return None
    return e.icmp("uge", work, i64(plan.past // size))


def write_pieces(
    e: FunctionEmitter,
    tree: Tree,
    dests: Sequence[Pointer],
    span: tuple[V, V],
    large: V,
    address: Callable[[int], V],
    put: Callable[[Parallel, Sequence[V]], None],
) -> None:
    """Write the elements along the innermost axis, from a first to a last one, a piece after the other.

    address: of the element of destination k at the tree's index. put: writes the elements of all roots at that index to
    addresses. Behind it, who is told that this is done sees what was written: such stores keep no order of their own.
    """
    first, last = span
    each = PIECE // max(p.itemsize for p in dests)
    buffer = e.scratch(f"[{PIECE * len(dests)} x i8]", LINE)
    tree.index[tree.inner] = first
    beside = e.op("and", e.cast("ptrtoint", address(0), "i64"), i64(LINE - 1))
    skew = e.select(large, e.op("lshr", beside, i64(dests[0].itemsize.bit_length() - 1)), ZERO)
    origin = e.op("sub nsw", first, skew)
    up = e.add(e.op("sub nsw", last, origin), i64(each - 1))
    count = e.select(large, e.op("lshr", up, i64(each.bit_length() - 1)), i64(1))
    with e.loop(count) as pieces:
        whole = e.add(origin, e.mul(pieces.index, i64(each)))
        begin = e.select(e.icmp("slt", whole, first), first, whole)
        end = e.select(large, e.minimum(e.add(whole, i64(each)), last), last)
        length = e.op("sub nsw", end, begin)
        tree.index[tree.inner] = begin
        goals = [address(k) for k in range(len(dests))]
        buffers = [e.gep("i8", buffer, i64(k * PIECE)) for k in range(len(dests))]
        bases = [e.select(large, b, goal) for b, goal in zip(buffers, goals, strict=True)]

        def put_at(parallel: Parallel, place: V, bases: Sequence[V] = bases) -> None:
            steps = [e.mul(place, i64(p.itemsize), "nsw") for p in dests]
            put(parallel, [e.gep("i8", base, step) for base, step in zip(bases, steps, strict=True)])

        in_widths(e, tree, tree.inner, (begin, end), put_at)
        with e.when(large):
            e.module.declare("dlvm.stream", "void", ["ptr", "ptr", "i64"], "nounwind")
            for p, goal, source in zip(dests, goals, buffers, strict=True):
                e.call("@dlvm.stream", "void", [goal, source, e.mul(length, i64(p.itemsize))])
    fence(e, large)


def fence(e: FunctionEmitter, large: V) -> None:
    """Behind it, who is told that this is done sees what was written: such stores keep no order of their own."""
    with e.when(large):
        e.line("fence seq_cst")


def fetch(e: FunctionText, place: V, writes: bool = False, is_near: bool = True) -> None:
    """Tell the CPU that a line will be read, or written.

    In the first cache, though it may be needed only when it has left that again: then it is in the second one. Or in
    the second one alone, if it is not near.
    """
    e.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32 immarg", "i32 immarg", "i32 immarg"])
    how = [V("i32", str(n)) for n in (int(writes), 3 if is_near else 2, 1)]  # from 0, needed once, to 3, in all caches
    e.call("@llvm.prefetch.p0", "void", [place, *how])


def _distance(e: FunctionEmitter, tree: Tree, jam: Jam, leaf: tuple[Instruction, Axes], most: int) -> V:
    """How many bytes before it is read the CPU is told to fetch a line: when the rows before it are computed."""
    if not most:
        return i64(LONGER)
    stride = tree.steps(leaf[0])[jam.axis]
    rows = e.mul(stride, i64(jam.rows))
    return e.select(e.icmp("ule", rows, i64(most)), rows, i64(LONGER))


def _first_read(tree: Tree) -> list[tuple[Instruction, Axes]]:
    """Of each array that is read as sections at literal places, the one that lies farthest ahead in memory."""
    found: dict[Value, tuple[list[int], Instruction, Axes]] = {}
    for leaf, axes in tree.leaves():
        section = leaf.operands[0] if leaf.op.name == "load" and axes == tree.root_axes else None
        if not isinstance(section, Instruction) or section.op.name != "section":
            continue
        starts = section_parts(section)[0]
        base, place = section.operands[0], [s.value for s in starts if isinstance(s, Literal)]
        if len(place) == len(starts) and (base not in found or place > found[base][0]):
            found[base] = place, leaf, axes
    return [(leaf, axes) for _, leaf, axes in found.values()]


def go_by_lines(e: FunctionEmitter, dest: Pointer, begin: V, strides: Sequence[V], width: V, jam: Jam) -> V:
    """Whether rows that begin at multiples of strides from an address are wide enough, and lie at whole elements."""
    beside = e.cast("ptrtoint", begin, "i64")
    for stride in strides:
        beside = e.op("or", beside, stride)
    is_whole = e.icmp("eq", e.op("and", beside, i64(dest.itemsize - 1)), ZERO)
    return e.both(is_whole, e.icmp("sge", width, i64(max(jam.least, 2 * LINE))))


class Rows(Frozen):
    """The rows of a destination from a first to a last one, of so many elements, at multiples of so many bytes."""

    dest: Pointer
    stride: V
    width: V
    first: V
    last: V


def write_lines(
    e: FunctionEmitter,
    tree: Tree,
    rows: Rows,
    jam: Jam,
    large: V,
    most: int | None,
    address: Callable[[int], V],
    put: Callable[[Parallel, Sequence[V]], None],
    covers: bool = False,
) -> V:
    """Write some rows at a time, line by line, if they are wide and lie at whole elements; the first that is left.

    jam: how many rows, of which width. most: bytes of rows that are fetched when those before are computed; None: none
    are fetched. address, put: as in `write_pieces`. `fence` belongs behind it. covers: that and
    enough rows are given, and none is left: the last ones overlap those before, with the same elements.
    """
    first = rows.first
    lines = _Lines(e, tree, rows, jam, large, most, address, put)
    count = e.op("sub nuw nsw", rows.last, first)
    if covers:
        times = e.op("udiv", e.add(count, i64(jam.rows - 1)), i64(jam.rows))
    else:
        takes = go_by_lines(e, rows.dest, lines.place(first, ZERO), [rows.stride], rows.width, jam)
        times = e.select(takes, e.op("udiv", count, i64(jam.rows)), ZERO)
    with e.loop(times) as block:
        start = e.add(first, e.mul(block.index, i64(jam.rows)))
        if covers and jam.rows > 1:
            start = e.minimum(start, e.op("sub nsw", rows.last, i64(jam.rows)))
        lines.write([e.add(start, i64(k)) for k in range(jam.rows)])
    return e.add(first, e.mul(times, i64(jam.rows)))


def blocks(e: FunctionEmitter, dest: Pointer, height: V, width: V, least: int) -> tuple[V, V]:
    """Into how many blocks the rows of a plane are cut, and how many rows each has, at least so many."""
    size = e.mul(e.mul(height, width), i64(dest.itemsize))
    parts = e.op("udiv", e.add(size, i64(BLOCK // 2)), i64(BLOCK))
    parts = e.select(e.icmp("ugt", parts, ONE), parts, ONE)
    each = e.op("udiv", e.op("sub", e.add(height, parts), ONE), parts)
    each = e.select(e.icmp("ugt", each, i64(least)), each, i64(least))
    return e.op("udiv", e.op("sub", e.add(height, each), ONE), each), each


class _Lines:
    """What writes some rows together by whole lines."""

    def __init__(
        self,
        e: FunctionEmitter,
        tree: Tree,
        rows: Rows,
        jam: Jam,
        large: V,
        most: int | None,
        address: Callable[[int], V],
        put: Callable[[Parallel, Sequence[V]], None],
    ) -> None:
        self.e, self.tree, self.rows, self.jam = e, tree, rows, jam
        self.large, self.address, self.put = large, address, put
        self.begins = tree.sections()
        self.per = LINE // rows.dest.itemsize  # elements of a line
        self.count = e.op("udiv", e.op("sub", rows.width, i64(self.per - 1)), i64(self.per))
        self.vectors = None
        if jam.rows == 1 and large == TRUE and not tree.has_embeds and is_arithmetic(tree, [rows.dest]):
            self.vectors = Vectors(e, tree, streams_of(e, tree, [rows.dest]), self.per, None)
        read = _first_read(tree) if most is not None else []
        self.ahead = [(leaf, _distance(e, tree, jam, leaf, most or 0)) for leaf in read]
        if self.vectors is None:
            buffer = e.scratch(f"[{LINE * jam.rows} x i8]", LINE)
            self.slots = [e.gep("i8", buffer, i64(k * LINE)) for k in range(jam.rows)]

    def _go_to(self, row: V, column: V) -> None:
        self.tree.index[self.jam.axis], self.tree.index[self.tree.inner] = row, column

    def place(self, row: V, column: V) -> V:
        """The address of an element; the tree's index is there."""
        self._go_to(row, column)
        return self.address(0)

    def before(self, row: V) -> V:
        """How many elements a row has before its first whole line."""
        e = self.e
        up = e.op("and", e.op("sub", ZERO, e.cast("ptrtoint", self.place(row, ZERO), "i64")), i64(LINE - 1))
        return e.op("lshr", up, i64(self.rows.dest.itemsize.bit_length() - 1))

    def write(self, together: Sequence[V]) -> None:
        """Write these rows."""
        e, self.tree.begins = self.e, self.begins
        begins = [self.before(row) for row in together]
        for row in together:
            fetch(e, self.place(e.add(row, i64(self.jam.rows)), ZERO), True)
        if self.vectors is not None:
            self._vectors(self.vectors, together[0], begins[0])
        else:
            self._lines(together, begins)
        self._ends(together[0])
        self.tree.begins = {}

    def _vectors(self, vectors: Vectors, row: V, begin: V) -> None:
        """Write the lines of one row, each a vector."""
        e = self.e
        begin = e.opaque(begin)  # of which LLVM would compute the remainder by a line again in each trip
        self.place(row, begin)
        with e.loop(self.count, [vectors.before(s) for s in vectors.streams]) as line:
            self.place(row, e.add(begin, e.mul(line.index, i64(self.per))))
            self._fetch()
            line.next = [vectors.load(s.last) for s in vectors.streams]
            vectors.take(line.carried, line.next, ends=True)
            e.store(vectors.elements(0)[0], self.address(0), ", align 64, !nontemporal !{i32 1}")

    def _lines(self, together: Sequence[V], begins: Sequence[V]) -> None:
        """Write the lines of some rows, element by element: past the caches in groups, then those that are left."""
        e = self.e

        def places(line: V) -> list[tuple[V, V]]:
            first = e.mul(line, i64(self.per))
            return [(row, e.add(begin, first)) for row, begin in zip(together, begins, strict=True)]

        grouped = e.op("and", e.select(self.large, self.count, ZERO), i64(-GROUP))
        with e.loop(e.op("lshr", grouped, i64(GROUP.bit_length() - 1))) as group:
            self._group(together[0], e.mul(group.index, i64(GROUP)))
        with e.loop(e.op("sub", self.count, grouped)) as line:
            self._line(places(e.add(grouped, line.index)))

    def _fetch(self) -> None:
        """Tell the CPU what will be read, of what is read at the tree's index."""
        e = self.e
        for leaf, far in self.ahead:
            place = self.tree.address(*leaf)
            fetch(e, e.value("ptr", f"getelementptr i8, ptr {place.ref}, i64 {far.ref}"))
            if self.vectors is not None:
                fetch(e, e.value("ptr", f"getelementptr i8, ptr {place.ref}, i64 {SOON}"))

    def _compute(self, places: Sequence[tuple[V, V]]) -> list[V]:
        """Compute a line of each row, from its column on: whole lines."""
        e, size = self.e, self.rows.dest.itemsize
        parallel = Parallel(e)
        with e.loop(i64(self.per), note=parallel.loop, runs=True) as loop:
            for (row, column), slot in zip(places, self.slots, strict=False):
                self._go_to(row, e.add(column, loop.index, "nsw"))
                self.put(parallel, [e.gep("i8", slot, e.mul(loop.index, i64(size)))])
        return [e.load("<16 x i32>", slot, ", align 64") for slot in self.slots[: len(places)]]

    def _group(self, start: V, first: V) -> None:
        """Write a group of lines of each row past the caches, from a line of it on, by one code for all of them."""
        e = self.e
        with e.loop(i64(self.jam.rows), note=plain_loop(e), runs=True) as each:
            row = e.add(start, each.index)
            column = e.add(self.before(row), e.mul(first, i64(self.per)))
            with e.loop(i64(GROUP), note=plain_loop(e), runs=True) as line:
                self._go_to(row, e.add(column, e.mul(line.index, i64(self.per))))
                self._fetch()
            with e.loop(i64(GROUP), note=plain_loop(e), runs=True) as line:
                here = e.add(column, e.mul(line.index, i64(self.per)))
                (whole,) = self._compute([(row, here)])
                e.store(whole, self.place(row, here), ", align 64, !nontemporal !{i32 1}")

    def _line(self, places: Sequence[tuple[V, V]]) -> None:
        """Write a line of each row, from its column on."""
        e = self.e
        for row, column in places:
            self._go_to(row, column)
            self._fetch()
        found = self._compute(places)
        goals = [self.place(row, column) for row, column in places]
        with e.either(self.large) as arms:
            next(arms)
            for whole, goal in zip(found, goals, strict=True):
                e.store(whole, goal, ", align 64, !nontemporal !{i32 1}")
            next(arms)
            # by halves: LLVM makes one plain store of stores in both arms that differ in metadata alone
            for whole, goal in zip(found, goals, strict=True):
                for half in range(2):
                    lanes = ", ".join(f"i32 {8 * half + k}" for k in range(8))
                    text = f"shufflevector <16 x i32> {whole.ref}, <16 x i32> poison, <8 x i32> <{lanes}>"
                    e.store(e.value("<8 x i32>", text), e.gep("i8", goal, i64(32 * half)), ", align 32")

    def _ends(self, start: V) -> None:
        """Write the elements before and behind the whole lines of rows from one on."""
        e = self.e
        with e.loop(i64(2 * self.jam.rows), note=plain_loop(e)) as end:
            row = e.add(start, e.op("lshr", end.index, ONE))
            is_tail = e.icmp("ne", e.op("and", end.index, ONE), ZERO)
            head = self.before(row)
            begin = e.select(is_tail, e.add(head, e.mul(self.count, i64(self.per))), ZERO)
            rest = Parallel(e, True)
            with e.loop(e.op("sub", e.select(is_tail, self.rows.width, head), begin), note=rest.loop) as loop:
                self.place(row, e.add(begin, loop.index))
                self.put(rest, [])
