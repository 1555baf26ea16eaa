"""The code of one kernel: a function of a grid of threads, written at the array root that it is for.

    host driver (FunctionEmitter)                kernel
    %v7 = gep %data, ...     %v9 = extent   →    define ptx_kernel void @kernel(ptr %p0, i64 %p1)
    call @dlvm.gpu.launch(ctx, kernel, ...)      one element a thread, at %p0 + ..., for index < %p1

What the kernel uses of the host's values becomes its parameters, each once: scalars, addresses, extents, strides. So
the trees of `backend/cpu/trees.py` and the scalar bodies of `backend/cpu/scalar.py` are written as on the CPU.

Grids and blocks have one axis. A barrier or a shuffle ends a basic block: that is where the emulator cuts (emulate.py).
All threads of a block come to all of its barriers and shuffles, in the same order; the emulator looks that they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.text import CountedLoop, ModuleText
from dlvm_py.backend.cpu.values import NULL, ONE, ZERO, V, constant, i64, parts_of
from dlvm_py.backend.imports import Imports
from dlvm_py.errors import Loc, UnknownFunction
from dlvm_py.frozen import replace
from dlvm_py.ir import Value

NAME = "kernel"
# threads a block, of a warp, and so warps a block
THREADS, WARP = 256, 32
WARPS = THREADS // WARP
BARRIER = "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"
SHUFFLE = "llvm.nvvm.shfl.sync.down.i32"
SPECIAL = "llvm.nvvm.read.ptx.sreg"


def refuse(what: str, loc: Loc | None, help: str | None = None) -> NoReturn:  # noqa: A002 - the word that users read
    """UnknownFunction DL301: the program has something that kernels have no code for."""
    raise UnknownFunction(f"there is no GPU code for {what}", loc, help=help, code="DL301")


class Kernel(Code):
    """The text of one kernel and, in `arguments`, the host's values that it is launched with.

    family: the skeleton that it is made by, for people.
    """

    has_vectors = False

    def __init__(self, host: FunctionEmitter, family: str) -> None:
        super().__init__(ModuleText(), Imports(), NAME, "void", [], "ptx_kernel |nounwind")
        self.host = host
        self.family = family
        self.flags = host.flags
        self.inlines = True
        self.arguments: list[V] = []
        self.shared_bytes = 0
        self._shared: V | None = None
        self._known: dict[V, V] = {}

    def unguessed(self, stride: V) -> V:
        """The stride: nobody makes vectors of what a thread does."""
        return stride

    # -- what it uses of the host ----------------------------------------------------------------------

    def parameter(self, v: V) -> V:
        """A value of the host in the kernel; constants are themselves."""
        if "%" not in v.ref:
            return v
        if v not in self._known:
            self._known[v] = self._parameter(v)
        return self._known[v]

    def _parameter(self, v: V) -> V:
        if v.type.startswith("{"):  # a complex number: its parts
            parts = [self.parameter(self.host.extract(v, k, type)) for k, type in enumerate(parts_of(v.type))]
            return self._first(lambda: self.pack(*parts))
        if v.type == "i1":
            byte = self.parameter(self.host.cast("zext", v, "i8"))
            return self._first(lambda: self.icmp("ne", byte, V("i8", "0")))
        found = V(v.type, f"%p{len(self.params)}")
        self.params.append(found)
        self.types[found.ref] = found.type
        self.arguments.append(v)
        return found

    def _first(self, write) -> V:  # type: ignore[no-untyped-def]
        here, self.here = self.here, self.prologue
        found: V = write()
        self.here = here
        return found

    def scalar(self, value: Value) -> V:
        """The register value of a scalar of the IR."""
        return self.parameter(self.host.scalar(value))

    def pointer(self, value: Value) -> Pointer:
        """The Pointer of a pointer value of the IR."""
        return self.pointer_of(self.host.pointer(value))

    def pointer_of(self, p: Pointer) -> Pointer:
        """A Pointer of the host in the kernel, which knows nothing of the owner."""
        strides = None if p.strides is None else tuple(map(self.parameter, p.strides))
        extents = tuple(map(self.parameter, p.extents))
        return replace(p, data=self.parameter(p.data), header=NULL, extents=extents, strides=strides, notes="")

    def import_pointer(self, name: str) -> V:
        """Nothing external exists on the device."""
        kind, _, symbol = name.partition(":")
        refuse(f"what calls {symbol} of {'BLAS' if kind == 'blas' else 'libm'}", self.host.loc)

    def raise_unless(self, flag: V, exception: str, message: str) -> None:
        """Kernels do not raise: what can fail is checked by the host, or refused."""
        refuse(f"an array operation that can raise {exception} ({message})", self.host.loc)

    # -- threads -----------------------------------------------------------------------------------------

    def special(self, name: str) -> V:
        """A special register as i64: tid, ctaid, ntid, nctaid."""
        return self.cast("zext", self.intrinsic(f"{SPECIAL}.{name}.x", "i32"), "i64")

    def grid_place(self) -> tuple[V, V]:
        """The number of the thread in the launch, and how many there are."""
        first = self.add(self.mul(self.special("ctaid"), self.special("ntid")), self.special("tid"))
        return first, self.mul(self.special("nctaid"), self.special("ntid"))

    @contextmanager
    def grid(self, count: V, carried: Sequence[V] = ()) -> Iterator[CountedLoop]:
        """`for index in range(count)`, the indices spread over all threads of the launch."""
        first, step = self.grid_place()
        with self.strided(first, step, count, carried) as loop:
            yield loop

    @contextmanager
    def block(self, count: V, carried: Sequence[V] = ()) -> Iterator[CountedLoop]:
        """`for index in range(count)`, the indices spread over the threads of the block."""
        with self.strided(self.special("tid"), self.special("ntid"), count, carried) as loop:
            yield loop

    @contextmanager
    def strided(self, first: V, step: V, count: V, carried: Sequence[V] = ()) -> Iterator[CountedLoop]:
        """`for index in range(first, count, step)`, as `loop`."""
        before, body, after = self.here, self.label("body"), self.label("end")
        self.cond_br(self.icmp("slt", first, count), body, after)
        self.place(body)
        index = self.phi("i64")
        index.add(first, before)
        phis = [self.phi(v.type) for v in carried]
        found = CountedLoop(index.value, [p.value for p in phis], list(carried))
        yield found
        # index and step are below 2^62: no memory has more elements
        following = self.op("add nuw nsw", index.value, step)
        index.add(following, self.here)
        for p, v, then in zip(phis, carried, found.next, strict=True):
            p.add(v, before)
            p.add(then, self.here)
        latch = self.here
        self.cond_br(self.icmp("slt", following, count), body, after)
        self.place(after)
        for v, then in zip(carried, found.next, strict=True):
            p = self.phi(v.type)
            p.add(v, before)
            p.add(then, latch)
            found.results.append(p.value)

    def unravel(self, place: V, order: Sequence[int], extents: Sequence[V]) -> dict[int, V]:
        """The index of each axis of `order` (outermost first) at a place in their common order."""
        index: dict[int, V] = {}
        counted = [k for k in order if constant(extents[k]) != 1]
        for k in order:
            if constant(extents[k]) == 1:
                index[k] = ZERO
        for k in reversed(counted):
            if k == counted[0]:
                index[k] = place
            else:
                index[k] = self.op("urem", place, extents[k])
                place = self.op("udiv", place, extents[k])
        return index

    def barrier(self) -> None:
        """All threads of the block come here before one goes on; what they wrote to shared memory is there."""
        self.module.declare("llvm.nvvm.barrier.cta.sync.aligned.all", "void", ["i32"], "convergent nounwind")
        self.line(BARRIER)
        self._cut()

    def _cut(self) -> None:
        phase = self.label("phase")
        self.br(phase)
        self.place(phase)

    def shared_memory(self, type: str, count: int) -> V:
        """Memory that the threads of a block share, not initialised: the same for all who ask for it."""
        size = int(type.lstrip("iu")) // 8 if type[0] == "i" else {"half": 2, "float": 4, "double": 8}[type]
        self.shared_bytes = max(size * count, self.shared_bytes)
        self.module.declarations["shared"] = (
            f'@"{NAME}.shared" = internal addrspace(3) global [{self.shared_bytes} x i8] undef, align 16'
        )
        if self._shared is None:
            text = f'addrspacecast ptr addrspace(3) @"{NAME}.shared" to ptr'
            self._shared = self._first(lambda: self.value("ptr", text))
        return self._shared

    def shuffle_down(self, v: V, delta: int) -> V:
        """The value of the thread `delta` further in the warp; past its end one's own."""
        if v.type.startswith("{"):
            parts = (self.extract(v, k, type) for k, type in enumerate(parts_of(v.type)))
            return self.pack(*(self.shuffle_down(part, delta) for part in parts))
        if v.type in ("half", "float", "double"):
            bits = {"half": "i16", "float": "i32", "double": "i64"}[v.type]
            return self.cast("bitcast", self.shuffle_down(self.cast("bitcast", v, bits), delta), v.type)
        if v.type == "i64":
            low = self.cast("trunc", v, "i32")
            high = self.cast("trunc", self.op("lshr", v, i64(32)), "i32")
            low, high = (self.cast("zext", self.shuffle_down(part, delta), "i64") for part in (low, high))
            return self.op("or", low, self.op("shl", high, i64(32)))
        if v.type != "i32":
            return self.cast("trunc", self.shuffle_down(self.cast("zext", v, "i32"), delta), v.type)
        self.module.declare(SHUFFLE, "i32", ["i32"] * 4, "convergent nounwind")
        args = [V("i32", "-1"), v, V("i32", str(delta)), V("i32", str(WARP - 1))]
        found = self.call(f"@{SHUFFLE}", "i32", args)
        self._cut()
        return found

    # -- the end -------------------------------------------------------------------------------------------

    def finish(self) -> str:
        """The text, complete. Kernels that do the same with other values of the host have the same text."""
        self.line("ret void")
        for name in self.imports.names:
            self.import_pointer(name)
        return str(self.module)


def blocks_for(host: FunctionEmitter, threads: V, most: int = 1 << 16) -> V:
    """How many blocks have at least so many threads: one or more, and not more than `most`."""
    n = constant(threads)
    if n is not None:
        return i64(min(max(-(-n // THREADS), 1), most))
    # ceil without a sum that could overflow
    whole = host.op("lshr", threads, i64(THREADS.bit_length() - 1))
    rest = host.cast("zext", host.icmp("ne", host.op("and", threads, i64(THREADS - 1)), ZERO), "i64")
    return within(host, host.op("add", whole, rest), most)


def within(host: FunctionEmitter, blocks: V, most: int = 1 << 16) -> V:
    """So many blocks, but one or more, and not more than `most`."""
    n = constant(blocks)
    if n is not None:
        return i64(min(max(n, 1), most))
    found = host.minimum(blocks, i64(most))
    return host.select(host.icmp("sgt", found, ZERO), found, ONE)
