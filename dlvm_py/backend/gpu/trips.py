"""One trip of a loop as the code of a thread: its blocks, branches and inner loops, in a kernel.

A `TripKernel` has IR values of its own; those from before the loop are parameters, as in every kernel. An inquiry does
of a trip what its checks and branches need, and nothing else (grids.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.emit import write_instruction
from dlvm_py.backend.cpu.function import Lowered
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import CountedLoop
from dlvm_py.backend.cpu.values import ONE, Label, Phi, V
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import Kernel
from dlvm_py.backend.gpu.reductions import Fold, block_memory, in_block, store_partial
from dlvm_py.ir import Block, Instruction, PointerType, Target, Value
from dlvm_py.ir.analysis.grids import Nest


class TripKernel(Kernel):
    """A kernel with IR values of its own, in `env`, beside those of the host."""

    def __init__(self, host: HostEmitter, family: str) -> None:
        super().__init__(host, family)
        self.env: dict[Value, Lowered] = {}

    @contextmanager
    def trips(self, count: V, carried: Sequence[V] = ()) -> Iterator[CountedLoop]:
        """`for index in range(count)`: the trips of this thread."""
        with self.grid(count, carried) as loop:
            yield loop

    def leave_partial(self, fold: Fold, total: V, to: Pointer) -> None:
        """Write what the threads of this block have added up to its place of the partial results."""
        _, total = in_block(self, fold, total, block_memory(self, fold))
        store_partial(self, fold, total, to)

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

    def write(self, i: Instruction) -> None:
        """The code of one instruction that is no terminator, and no check."""
        write_instruction(self, i)  # type: ignore[arg-type]

    def notes(self, value: Value) -> str:
        """Nothing is known of the memory of other pointers."""
        return ""


class Trip:
    """The code of one trip. `numbers`: the counters of the grid.

    inquiry: None, or what an inquiry computes and the place where it writes that a check fails. carried: the sums of
    the nest when the trip begins; `totals`: when it ends.
    """

    def __init__(
        self,
        k: TripKernel,
        nest: Nest,
        numbers: Sequence[V],
        inquiry: tuple[set[Value], Pointer] | None = None,
        carried: Sequence[V] = (),
    ) -> None:
        self.k, self.nest, self.inquiry = k, nest, inquiry
        self.inner = nest.loops[-1].loop
        self.end = k.label("end")
        for c, x in zip(nest.loops, numbers, strict=True):
            k.env[c.counter] = x
        self.adds = {i for _, _, s in nest.sums for i in s.adds}
        self.ends: list[Phi] = []
        self.places = [self.inner.header.args.index(a) for _, a, _ in nest.sums] if carried else []
        for at, x in zip(self.places, carried, strict=True):
            k.env[self.inner.header.args[at]] = x
            self.ends.append(k.phi(x.type, self.end))
        self.labels: dict[Block, Label] = {b: k.label("block") for b in self.inner.ordered[1:]}
        self.phis: dict[Block, list[Phi]] = {}

    @property
    def totals(self) -> list[V]:
        """The sums of the nest when the trip has ended."""
        return [phi.value for phi in self.ends]

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
            elif i in self.adds and self._is_needed(i):  # never checked: what could leave 64 bits has no launch
                kind, dtype = i.type.dtype.kind, i.type.dtype  # type: ignore[attr-defined]
                self.k.env[i] = TABLE[i.op.name][kind](self.k, dtype, {}, *map(self.k.scalar, i.operands))
            elif not i.op.is_terminator and self._is_needed(i):
                self.k.write(i)

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
            for at, phi in zip(self.places, self.ends, strict=True):
                phi.add(self.k.scalar(target.args[at]), self.k.here)
            self.k.br(self.end)
            return
        values = [v for a, v in zip(target.block.args, target.args, strict=True) if self._is_needed(a)]
        for phi, v in zip(self.phis[target.block], values, strict=True):
            phi.add(self.k.scalar(v), self.k.here)
        self.k.br(self.labels[target.block])
