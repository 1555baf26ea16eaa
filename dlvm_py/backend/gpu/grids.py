"""Loops whose trips are independent as kernels: a trip a thread, its inner loops and branches in the thread.

    for i in range(n):                          ready = n > 0, and no trip fails a check
        s = 0.0                                 if ready: launch one kernel, thread i of which is trip i
        for j in range(n):              =>      else: the loop as it stands, trip by trip from the host
            s += f(x[i], x[j])
        out[i] = s

Which loops, `ir/analysis/grids.py` says. That no check fails is made sure before the launch, for all trips at once:

    by corners      comparisons of numbers that change by equal steps with each counter hold in all trips if they hold
                    at the corners of the counters' ranges. They are asked there, with every overflow looked at
    by inquiry      the rest by a kernel that does of each trip what its checks and branches need, and nothing else. No
                    trip may write what they read

    sums             each thread, or block, adds up those of its trips, beginning with nothing; what they have is folded
                     as a reduction is, and added to what the loop begins with

Where a check fails the host runs the loop, so that effects and exceptions come in the program's order. The same where
there is nothing to run, more than a grid can count, or a sum of Python's ints that may leave 64 bits. Loops over rows
are a block a trip (rows.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from dlvm_py.backend.cpu.emit import Control
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.values import NULL, ONE, TRUE, ZERO, V, constant, i64
from dlvm_py.backend.gpu.elementwise import store_scalar, store_trees
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import blocks_for
from dlvm_py.backend.gpu.reductions import PARTIALS, Fold, fold_partials
from dlvm_py.backend.gpu.replays import Replay
from dlvm_py.backend.gpu.rows import LONG, MANY, RowKernel, Space, launch_rows
from dlvm_py.backend.gpu.trips import Trip, TripKernel
from dlvm_py.errors import UnknownFunction
from dlvm_py.ir import I64, Block, BlockArg, DType, Instruction, PointerType, Target, Value
from dlvm_py.ir.analysis.counted_loops import CountedLoop, is_outside
from dlvm_py.ir.analysis.grids import Nest, nests
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop

# comparisons that hold between two places where they hold at both, and what says that they do not hold
_HALVES = {
    "lessThan": ("slt", "sge"),
    "lessThanOrEqual": ("sle", "sgt"),
    "greaterThan": ("sgt", "sle"),
    "greaterThanOrEqual": ("sge", "slt"),
}
# corners grow with the power of the counters
_COUNTERS = 3


# -- before the launch ----------------------------------------------------------------------------------


class _Unknown(Exception):
    """What a check asks is not known before the launch."""


class _Ahead:
    """The checks of a nest, asked on the host before the launch. `lost`: flags of overflows."""

    def __init__(self, h: HostEmitter, of: Independence, nest: Nest) -> None:
        self.h, self.of, self.outer = h, of, nest.loops[0].loop
        self.lost: list[V] = []

    def arithmetic(self, name: str, a: V, b: V) -> V:
        """sadd, ssub or smul of two i64; `lost` where it overflows."""
        pair = self.h.intrinsic(f"llvm.{name}.with.overflow.i64", "{ i64, i1 }", a, b)
        self.lost.append(self.h.extract(pair, 1, "i1"))
        return self.h.extract(pair, 0, "i64")

    def count(self, c: CountedLoop) -> V:
        """How many trips a loop of the grid makes; it may be negative."""
        first = self.h.scalar(c.first)
        if c.step < 0:
            return first
        last = self.h.scalar(c.last)
        return last if constant(first) == 0 else self.arithmetic("ssub", last, first)

    def ends(self, c: CountedLoop) -> tuple[V, V]:
        """The smallest and the largest number of a counter, in all trips."""
        if c.step < 0:
            return ONE, self.extreme(c.first, "sgt")
        return self.extreme(c.first, "slt"), self.arithmetic("ssub", self.extreme(c.last, "sgt"), ONE)

    def extreme(self, value: Value, how: str) -> V:
        """The smallest ("slt") or largest ("sgt") that an integer is."""
        corners = list(self.corners([value]))
        found = corners[0][0]
        for (x,) in corners[1:]:
            found = self.h.select(self.h.icmp(how, x, found), x, found)
        return found

    def corners(self, values: Sequence[Value]) -> Iterator[list[V]]:
        """What some integers are at each corner of the ranges of the counters that they depend on."""
        counters = list(dict.fromkeys(c for v in values for c in self.counters(v)))
        if len(counters) > _COUNTERS:
            raise _Unknown
        for corner in itertools.product(*(self.ends(c) for c in counters)):
            known = {c.counter: x for c, x in zip(counters, corner, strict=True)}
            yield [self.at(v, known) for v in values]

    def counters(self, value: Value) -> list[CountedLoop]:
        """The counters that an integer is a sum of products of, each at most once in a product."""
        if is_outside(value, self.outer):
            return []
        if isinstance(value, BlockArg):
            inner = self.of.counted.get(value.block)
            if inner is None or inner.counter is not value:
                raise _Unknown
            return [inner]
        assert isinstance(value, Instruction)
        if value.type.dtype.name != "i64" or value.op.name not in ("add", "subtract", "multiply"):  # type: ignore[attr-defined]
            raise _Unknown
        a, b = map(self.counters, value.operands)
        if value.op.name == "multiply" and set(map(id, a)) & set(map(id, b)):
            raise _Unknown
        return list(dict.fromkeys([*a, *b]))

    def at(self, value: Value, known: dict[BlockArg, V]) -> V:
        """An integer with its counters known."""
        if is_outside(value, self.outer):
            return self.h.scalar(value)
        if isinstance(value, BlockArg):
            return known[value]
        assert isinstance(value, Instruction)
        a, b = (self.at(v, known) for v in value.operands)
        return self.arithmetic({"add": "sadd", "subtract": "ssub", "multiply": "smul"}[value.op.name], a, b)

    def holds(self, condition: Value, wanted: bool = True) -> V:
        """A flag that is only set if a condition is `wanted` in all trips."""
        if is_outside(condition, self.outer):
            flag = self.h.scalar(condition)
            return flag if wanted else self.h.op("xor", flag, TRUE)
        if not isinstance(condition, Instruction):
            raise _Unknown
        name, operands = condition.op.name, condition.operands
        if name == "not":
            return self.holds(operands[0], not wanted)
        if name == ("and" if wanted else "or"):
            return self.h.both(*(self.holds(v, wanted) for v in operands))
        if name not in _HALVES or operands[0].type.dtype.name != "i64":  # type: ignore[attr-defined]
            raise _Unknown
        how = _HALVES[name][not wanted]
        return self.h.both(*(self.h.icmp(how, a, b) for a, b in self.corners(operands)))


class Partials:
    """The partial results of one sum, a place each block: memory that there is when `allocate` is written."""

    def __init__(self, h: HostEmitter, dtype: DType) -> None:
        self.h, self.fold, self.header = h, Fold(dtype, "add"), NULL
        self.pointer = Pointer(dtype, "C", h.new("ptr"), NULL, (i64(PARTIALS),))

    def allocate(self) -> None:
        """Write the allocation."""
        self.header = self.h.allocate(i64(PARTIALS * self.fold.dtype.itemsize))
        self.h.line(f"{self.pointer.data.ref} = getelementptr i8, ptr {self.h.data_of(self.header).ref}, i64 0")

    def folded(self, blocks: V) -> V:
        """The sum of those of so many blocks, fetched; the memory is given back."""
        found = fold_partials(self.h, self.fold, self.pointer, blocks)
        release(self.h, self.header)
        return found


def needed(of: Independence, loop: Loop) -> set[Value] | None:
    """What checks and branches of a trip are computed of; None if a trip may write what they read."""
    passed: dict[Value, list[Value]] = {}
    work: list[Value] = []
    written: list[Value] = []
    for block in loop.ordered:
        for t in block.targets:
            if t.block is not loop.header and t.block in loop.blocks:
                for a, v in zip(t.block.args, t.args, strict=True):
                    passed.setdefault(a, []).append(v)
        for i in block.instructions:
            if i.op.name in ("check", "conditional"):
                work.append(i.operands[0])
            elif i.op.name == "store":
                written.append(i.operands[1])
    found: set[Value] = set()
    while work:
        v = work.pop()
        if is_outside(v, loop) or v in found:
            continue
        found.add(v)
        if isinstance(v, Instruction):
            if v.op.name == "load" and any(of.alias.may_alias(v.operands[0], p) for p in written):
                return None
            work += v.operands
        else:
            work += passed.get(v, ())
    return found


class GridControl(Control):
    """Blocks and edges of a host driver: at the entry of a nest its launch, beside the loop."""

    def __init__(
        self, h: HostEmitter, instruction: Callable[[FunctionEmitter, Instruction], None], noalias_params: bool
    ) -> None:
        super().__init__(h, instruction)
        self.h = h
        self.independence = Independence(h.function, noalias_params)
        self.nests = nests(self.independence)
        self.replays: dict[Block, Replay] = {}  # by their headers

    def _write_kernel(self, block: Block, kernel: list[Instruction]) -> bool:
        """Stores that are joined, outside of loops."""
        if self.forest.loop_of(block) is not None or any(i.op.name != "store" for i in kernel):
            return False
        self.h.loc = kernel[0].loc or self.h.loc
        types = [i.operands[1].type for i in kernel]
        store_trees(
            self.h,
            [i.operands[0] for i in kernel],
            [self.h.pointer(i.operands[1]) for i in kernel],
            [type.shape for type in types],  # type: ignore[attr-defined]
        )
        return True

    def _replay(self, block: Block, mark: Instruction) -> None:
        header = block.targets[0].block
        loop = self.forest.loop_of(header)
        counted = self.independence.counted[header]
        if loop is not None and counted is not None and header not in self.strips:
            self.replays[header] = Replay(self.h, mark, counted)

    def _leave(self, source: Block, target: Target) -> None:
        replay = self.replays.get(source)
        if replay is not None and target.block is replay.counted.exit:
            replay.leave()
        super()._leave(source, target)

    def _begin(self, block: Block) -> None:
        super()._begin(block)
        replay = self.replays.get(block)
        if replay is not None:
            # go on behind the trips that were replayed; what else the loop carries is where it was
            passed = [p.value for p in self.phis[block]]
            passed[self._place_of(block, replay.counted.counter)] = replay.write()
            self._arrive(self.outer_phis[block], passed, self.outer[block])
            self.h.place(replay.go_on)

    def _jump(self, source: Block, target: Target) -> None:
        nest = self.nests.get(target.block)
        if nest is not None and self.rank[target.block] > self.rank[source]:
            self._launch(nest, target)
        super()._jump(source, target)

    def _launch(self, nest: Nest, target: Target) -> None:
        """Write the launch of a nest, and the jump to its head as after the last trip; go on where there is none."""
        h, outer, loc = self.h, nest.loops[0], self.h.loc
        ahead, asked = _Ahead(h, self.independence, nest), None
        try:
            counts = [ahead.count(c) for c in nest.loops]
            total = counts[0]
            for n in counts[1:]:
                total = ahead.arithmetic("smul", total, n)
            header = outer.loop.header
            entering = {a: v for a, v in zip(header.args, target.args, strict=True) if a is not outer.counter}
            begins = [h.scalar(entering[a]) for a, _, _ in nest.sums]
            flags = [h.icmp("sgt", n, ZERO) for n in counts]
            for begin, (_, _, s) in zip(begins, nest.sums, strict=True):
                if s.most is not None:
                    flags += self._stays_small(begin, s.most, total)
            try:
                flags += [ahead.holds(check.operands[0]) for check in nest.checks]
            except _Unknown:
                asked = needed(self.independence, outer.loop)
                if asked is None:
                    return
            if nest.rows and asked is not None:
                return  # an inquiry is one thread's
            spaces = [Space(h, v) for v in nest.private]
            partials = [Partials(h, s.dtype) for _, _, s in nest.sums]
            kernel = self._kernel(nest, counts, total, spaces=spaces, partials=partials)
        except UnknownFunction:  # of libm: the host's loop says so
            return
        finally:
            h.loc = loc
        host = h.label("host")

        def go_on_if(flag: V, name: str) -> None:
            label = h.label(name)
            h.cond_br(flag, label, host)
            h.place(label)

        go_on_if(h.both(*flags, *(h.op("xor", lost, TRUE) for lost in ahead.lost)), "grid")
        if asked is not None:
            cell, found = h.cell(I64)
            store_scalar(h, ZERO, found)
            h.launch(self._kernel(nest, counts, total, (asked, found)), blocks_for(h, total))
            failed = h.fetch(I64, found.data)
            release(h, cell)
            go_on_if(h.icmp("eq", failed, ZERO), "checked")
        if nest.rows:
            width = self._width(nest)
            go_on_if(h.any(h.icmp("sle", width, i64(LONG)), h.icmp("sge", total, i64(MANY))), "rows")
        for p in partials:
            p.allocate()
        most = {"most": PARTIALS} if partials else {}
        if nest.rows:
            blocks = launch_rows(h, kernel, total, width, spaces, **most)
        else:
            blocks = blocks_for(h, total, **most)
            h.launch(kernel, blocks)
        # at its head a loop that has ended has the counter where it stopped
        ends = {outer.counter: h.scalar(outer.last)}
        for begin, p, (a, _, s) in zip(begins, partials, nest.sums, strict=True):
            ends[a] = TABLE["add"][s.dtype.kind](h, s.dtype, {}, begin, p.folded(blocks))
        self._arrive(self._entrance(header), [ends[a] for a in header.args], self.outer[header])
        h.place(host)

    def _stays_small(self, begin: V, most: int, trips: V) -> list[V]:
        """Flags that say, if all are set, that no sum that grows by `most` a trip leaves 64 bits."""
        h, bound = self.h, i64(1 << 61)
        return [
            h.icmp("slt", begin, bound),
            h.icmp("sgt", begin, i64(-(1 << 61))),
            h.icmp("sle", trips, i64((1 << 61) // max(most, 1))),
        ]

    def _width(self, nest: Nest) -> V:
        """How many elements the largest array has that a trip works on, as far as that is known before it."""
        h, found = self.h, ZERO
        loop = nest.loops[0].loop
        pointers: dict[Value, None] = dict.fromkeys(
            v for b in loop.ordered for i in b.instructions for v in i.operands if isinstance(v.type, PointerType)
        )
        for p in pointers:
            at = 0
            base = p
            while isinstance(base, Instruction) and base.op.name == "elementPointer" and not is_outside(base, loop):
                at += len(base.operands) - 1
                base = base.operands[0]
            if is_outside(base, loop) and (base is not p or p in nest.private):
                n = h.product(h.pointer(base).extents[at:])
                found = h.select(h.icmp("sgt", n, found), n, found)
        return found

    def _kernel(
        self,
        nest: Nest,
        counts: Sequence[V],
        total: V,
        inquiry: tuple[set[Value], Pointer] | None = None,
        spaces: Sequence[Space] = (),
        partials: Sequence[Partials] = (),
    ) -> TripKernel:
        """The kernel of the trips of a nest, or their inquiry."""
        h = self.h
        if nest.rows:
            k: TripKernel = RowKernel(h, "loop over rows as a grid", spaces)
        else:
            k = TripKernel(h, "loop as a grid" if inquiry is None else "checks of a loop")
        if inquiry is not None:
            inquiry = inquiry[0], k.pointer_of(inquiry[1])
        inside = [k.parameter(n) for n in counts]
        firsts = [k.parameter(h.scalar(c.first)) for c in nest.loops]
        places = [k.pointer_of(p.pointer) for p in partials]
        with k.trips(k.parameter(total), [p.fold.neutral() for p in partials]) as loop:
            index = k.unravel(loop.index, range(len(counts)), inside)
            numbers = [
                k.op("sub" if c.step < 0 else "add", first, index[n])
                for n, (c, first) in enumerate(zip(nest.loops, firsts, strict=True))
            ]
            trip = Trip(k, nest, numbers, inquiry, loop.carried)
            trip.write()
            loop.next = trip.totals
        for p, sum, to in zip(partials, loop.results, places, strict=True):
            k.leave_partial(p.fold, sum, to)
        return k
