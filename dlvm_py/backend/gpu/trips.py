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

Where a check fails the host runs the loop, so that effects and exceptions come in the program's order. The same where
there is nothing to run, or more than a grid can count.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.emit import Control, write_instruction
from dlvm_py.backend.cpu.function import FunctionEmitter, Lowered
from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.values import ONE, TRUE, ZERO, Label, Phi, V, constant
from dlvm_py.backend.gpu.elementwise import store_scalar
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import Kernel, blocks_for
from dlvm_py.backend.gpu.replays import Replay
from dlvm_py.errors import UnknownFunction
from dlvm_py.ir import I64, Block, BlockArg, Instruction, PointerType, Target, Value
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


# -- the kernel -----------------------------------------------------------------------------------------


class TripKernel(Kernel):
    """A kernel with IR values of its own, in `env`, beside those of the host."""

    def __init__(self, host: HostEmitter, family: str) -> None:
        super().__init__(host, family)
        self.env: dict[Value, Lowered] = {}

    def lookup(self, value: Value) -> Lowered:
        """The lowered form of an IR value."""
        return self.pointer(value) if isinstance(value.type, PointerType) else self.scalar(value)

    def scalar(self, value: Value) -> V:
        """The register value of a scalar."""
        found = self.env.get(value)
        return found if isinstance(found, V) else super().scalar(value)

    def pointer(self, value: Value) -> Pointer:
        """The Pointer of a pointer value."""
        found = self.env.get(value)
        return found if isinstance(found, Pointer) else super().pointer(value)

    def notes(self, value: Value) -> str:
        """Nothing is known of the memory of other pointers."""
        return ""


class _Trip:
    """The code of one trip. `numbers`: the counters of the grid.

    inquiry: None, or what an inquiry computes and the place where it writes that a check fails.
    """

    def __init__(
        self, k: TripKernel, nest: Nest, numbers: Sequence[V], inquiry: tuple[set[Value], Pointer] | None = None
    ) -> None:
        self.k, self.nest, self.inquiry = k, nest, inquiry
        self.inner = nest.loops[-1].loop
        self.end = k.label("end")
        for c, x in zip(nest.loops, numbers, strict=True):
            k.env[c.counter] = x
        self.labels: dict[Block, Label] = {b: k.label("block") for b in self.inner.ordered[1:]}
        self.phis: dict[Block, list[Phi]] = {}

    def write(self) -> None:
        """All blocks, definitions before uses."""
        for block in self._before():
            self._instructions(block)
        for block, label in self.labels.items():
            self.phis[block] = []
            for a in filter(self._is_needed, block.args):
                phi = self.k.phi(scalar_type(a.type.dtype), label)  # type: ignore[attr-defined]
                self.phis[block].append(phi)
                self.k.env[a] = phi.value
        head = self.inner.header.instructions[-1]
        self._jump(next(t for t in head.targets if t.block is self.nest.loops[-1].body))
        for block, label in self.labels.items():
            self.k.place(label)
            self._instructions(block)
            last = block.instructions[-1]
            if last.op.name == "branch":
                self._jump(last.targets[0])
                continue
            edges = [self.k.label("edge") for _ in last.targets]
            self.k.cond_br(self.k.scalar(last.operands[0]), *edges)
            for edge, target in zip(edges, last.targets, strict=True):
                self.k.place(edge)
                self._jump(target)
        self.k.place(self.end)

    def _before(self) -> Iterator[Block]:
        """The blocks from the first head to the last one, which each trip passes."""
        for outer, inner in itertools.pairwise(self.nest.loops):
            block = outer.loop.header
            target = next(t for t in block.instructions[-1].targets if t.block is outer.body)
            while block is not inner.loop.header:
                yield block
                block = target.block
                if block is not inner.loop.header:
                    for a, v in zip(block.args, target.args, strict=True):
                        if self._is_needed(a):
                            self.k.env[a] = self.k.lookup(v)
                    (target,) = block.targets
        yield self.inner.header

    def _instructions(self, block: Block) -> None:
        for i in block.instructions:
            self.k.host.loc = i.loc or self.k.host.loc
            if i.op.name == "check":
                self._check(i)
            elif not i.op.is_terminator and self._is_needed(i):
                write_instruction(self.k, i)  # type: ignore[arg-type]

    def _is_needed(self, v: Value) -> bool:
        return self.inquiry is None or v in self.inquiry[0]

    def _check(self, i: Instruction) -> None:
        """What an inquiry is for: a trip that fails says so, and ends."""
        if self.inquiry is None:
            return
        k, found = self.k, self.inquiry[1]
        fine, fails = k.label("fine"), k.label("fails")
        k.cond_br(k.scalar(i.operands[0]), fine, fails)
        k.place(fails)
        k.store(ONE, found.data)
        k.br(self.end)
        k.place(fine)

    def _jump(self, target: Target) -> None:
        if target.block is self.inner.header:
            self.k.br(self.end)
            return
        values = [v for a, v in zip(target.block.args, target.args, strict=True) if self._is_needed(a)]
        for phi, v in zip(self.phis[target.block], values, strict=True):
            phi.add(self.k.scalar(v), self.k.here)
        self.k.br(self.labels[target.block])


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

    def _replay(self, block: Block, mark: Instruction) -> None:
        header = block.targets[0].block
        loop = self.forest.loop_of(header)
        counted = self.independence.counted[header]
        if loop is not None and counted is not None and header not in self.strips:
            self.replays[header] = Replay(self.h, mark, counted)

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
            self._launch(source, nest)
        super()._jump(source, target)

    def _launch(self, source: Block, nest: Nest) -> None:
        """Write the launch of a nest and the jump behind it, and go on where there is none."""
        h, outer, loc = self.h, nest.loops[0], self.h.loc
        ahead, asked = _Ahead(h, self.independence, nest), None
        try:
            counts = [ahead.count(c) for c in nest.loops]
            total = counts[0]
            for n in counts[1:]:
                total = ahead.arithmetic("smul", total, n)
            flags = [h.icmp("sgt", n, ZERO) for n in counts]
            try:
                flags += [ahead.holds(check.operands[0]) for check in nest.checks]
            except _Unknown:
                asked = needed(self.independence, outer.loop)
                if asked is None:
                    return
            kernel = self._kernel(nest, counts, total)
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
            header, found = h.cell(I64)
            store_scalar(h, ZERO, found)
            h.launch(self._kernel(nest, counts, total, (asked, found)), blocks_for(h, total))
            failed = h.fetch(I64, found.data)
            release(h, header)
            go_on_if(h.icmp("eq", failed, ZERO), "checked")
        h.launch(kernel, blocks_for(h, total))
        # behind a loop its counter is where it stopped
        before = h.env.get(outer.counter)
        h.env[outer.counter] = h.scalar(outer.last)
        leave = next(t for t in outer.loop.header.instructions[-1].targets if t.block is outer.exit)
        self._jump(source, leave)
        if before is not None:
            h.env[outer.counter] = before
        h.place(host)

    def _kernel(
        self, nest: Nest, counts: Sequence[V], total: V, inquiry: tuple[set[Value], Pointer] | None = None
    ) -> TripKernel:
        """The kernel of the trips of a nest, or their inquiry."""
        h = self.h
        k = TripKernel(h, "loop as a grid" if inquiry is None else "checks of a loop")
        if inquiry is not None:
            inquiry = inquiry[0], k.pointer_of(inquiry[1])
        inside = [k.parameter(n) for n in counts]
        firsts = [k.parameter(h.scalar(c.first)) for c in nest.loops]
        with k.grid(k.parameter(total)) as loop:
            index = k.unravel(loop.index, range(len(counts)), inside)
            numbers = [
                k.op("sub" if c.step < 0 else "add", first, index[n])
                for n, (c, first) in enumerate(zip(nest.loops, firsts, strict=True))
            ]
            _Trip(k, nest, numbers, inquiry).write()
        return k
