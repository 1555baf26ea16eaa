"""Loops of the program whose trips threads share: a range of trips becomes a function of its own.

    parallel %n cost %c if %safe private (%b)    choose:  store what the loop uses to %captures
        grain 1000000
    branch 'loop(0: i64)                                  br i1 (%c >= 1000000 and %safe), label %many, label %alone
    'loop(%k: i64): ...                      =>  alone:   call i32 @"dl.f.loop1"(ctx, ptr %captures, i64 0, i64 %n)
    'exit():                                     many:    call i32 @dlvm.share_trips(ptr @"dl.f.chunk1", %captures, ...)
                                                 behind:  br label %exit

    i32 @"dl.f.loop1"(ctx, captures, first, last)     the trips from first to last: the loop as it was
    void @"dl.f.chunk1"(captures, first, last)        the same with a context of its own, and its own copy of %b

One function is called in both cases, so that the loop is compiled once. What leaves it by the error path returns 1. A
chunk has a context of its own on its stack: what a trip allocates is linked into that, and freed with it; its fuel runs
out by itself. What happens then, and who is told of an exception, is in runtime/native/trips.ll: of all trips that
raise the first one counts, the exception of a signal handler before all. Array kernels in the loop that threads would
share run alone while the threads are at the loop (`@dlvm.parallel` finds them busy).
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.contract import DATA, FUEL, NBYTES, SITE, SITE_MEMORY
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.outline import NAME, Region, mentioned, outline, region_of
from dlvm_py.backend.cpu.share import CHEAP, MOST_CHUNKS, split
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.values import NULL, ONE, ZERO, Label, V, float_constant, i64
from dlvm_py.frozen import Mutable, field
from dlvm_py.grain import CHUNK
from dlvm_py.ir import Block, Instruction
from dlvm_py.ir.analysis.counted_loops import CountedLoop

# { lowest, context, owner, lock }, and a context with what is behind it, as trips.ll has them
RECORD, CONTEXT = "[4 x i64]", "[12 x i64]"


class SharedLoop(Mutable):
    """One loop that threads share, while its function is written.

    first, stop: the numbers that the counter begins with and stops at in a part of the trips. choose, behind: blocks of
    the function around it; enter, leave: of the function that it becomes. blocks: of the loop, and those that raise.
    """

    mark: Instruction
    counted: CountedLoop
    blocks: set[Block]
    first: V
    stop: V
    choose: Label
    behind: Label
    enter: Label
    leave: Label
    labels: list[Label] = field(default_factory=list)

    def take(self, block: Block, labels: Sequence[Label]) -> None:
        """Note what has been written of a block, if it is one of the loop."""
        if block in self.blocks:
            self.labels += labels


def begin(e: FunctionEmitter, mark: Instruction, counted: CountedLoop) -> SharedLoop:
    """A loop whose `parallel` has come up."""
    raising = {
        t.block
        for b, k in counted.loop.exit_edges()
        for t in (b.targets[k],)
        if t.block is not counted.exit and t.block.instructions[-1].op.name == "raise"
    }
    names = ("choose", "behind", "enter", "leave")
    return SharedLoop(
        mark, counted, counted.loop.blocks | raising, e.new("i64"), e.new("i64"), *(e.label(n) for n in names)
    )


def take_out(e: FunctionEmitter, loops: Sequence[SharedLoop]) -> None:
    """Make functions of the loops, and write the choice of one thread or many in their place."""
    regions = [region_of([loop.enter, *loop.labels]) for loop in loops]
    inside = {id(label) for loop in loops for label in (loop.enter, *loop.labels)}
    marks = [(s, e.labels[s.begin], s.end - s.begin) for s in e.shared]
    spans = [(e.labels[first], last - first) for first, last in e.regions]
    e.labels[:] = [label for label in e.labels if id(label) not in inside]
    definitions = {line.partition(" = ")[0]: line for label in e.labels for line in label.lines if " = " in line}
    outer = mentioned(e.labels)
    users = [set(r.used) for r in regions]
    bodies = []
    for k, (loop, region) in enumerate(zip(loops, regions, strict=True)):
        others = outer.union(*(u for j, u in enumerate(users) if j != k))
        bodies.append(_Body(e, loop, region, others, definitions))
    for body in bodies:
        body.write(k=len(e.module.functions), marks=marks, spans=spans)
    place = {id(label): k for k, label in enumerate(e.labels)}
    e.shared[:] = [_moved(s, place[id(first)], n) for s, first, n in marks if id(first) in place]
    e.regions[:] = [(place[id(first)], place[id(first)] + n) for first, n in spans if id(first) in place]


def _moved(share, begin: int, count: int):  # type: ignore[no-untyped-def]
    share.begin, share.end = begin, begin + count
    return share


class _Trips(FunctionText):
    """The function of a range of trips."""

    def __init__(self, e: FunctionEmitter, name: str, params: list[V]) -> None:
        super().__init__(e.module, name, "i32", [p.type for p in params], "internal |nounwind noinline")
        self.params = params
        self.go_on_from(e)
        self.flags = e.flags
        self.exits = set(e.exits)
        self._nothing_lasts = e.scratches()

    def scratches(self) -> Sequence[V]:
        return self._nothing_lasts


class _Body:
    def __init__(
        self, e: FunctionEmitter, loop: SharedLoop, region: Region, others: set[str], definitions: dict[str, str]
    ) -> None:
        self.e, self.loop, self.region = e, loop, region
        self.definitions = definitions
        own = {name for name in region.used if name not in others} | {v.ref for v in (*e.scratches(), *e.lasting())}
        own.add(e.fuel.ref)
        self.memory = {name: e.reserved[name] for name in (*region.used, e.fuel.ref) if name in own & e.reserved.keys()}
        blocks = {f"%{label.name}" for label in (loop.leave, *self._exits())}
        apart = region.defined | self.memory.keys() | blocks | {e.ctx.ref, loop.first.ref, loop.stop.ref}
        # parts of kernels that threads may share are named by those (share.py)
        apart |= {v.ref for s in e.shared for v in (s.first, s.last)}
        self.begin = e.scalar(loop.counted.first)
        captured = [name for name in region.used if name not in apart]
        private = [e.pointer(v) for v in loop.mark.operands[3:]]
        captured += [p.header.ref for p in private if p.data.ref in captured]
        if self.begin.ref.startswith("%"):
            captured.append(self.begin.ref)
        self.captured, self.again = self._computed_again(dict.fromkeys(captured))
        self.struct = "{ ptr, " + ", ".join(e.types[name] for name in self.captured) + " }"
        if not self.captured:
            self.struct = "{ ptr }"

    def _exits(self) -> list[Label]:
        return [label for label in self.e.labels if f"%{label.name}" in self.e.exits]

    def _computed_again(self, wanted: dict[str, None]) -> tuple[list[str], list[str]]:
        """What to capture so that strides and conditions are computed in the function, and the lines for these."""
        again: dict[str, str] = {}
        order: list[str] = []

        def need(name: str) -> bool:
            line = self.definitions.get(name)
            if name in again:
                return True
            if line is None or line.partition(" = ")[2].partition(" ")[0] not in CHEAP - {"getelementptr"}:
                return False
            again[name] = line
            for operand in NAME.findall(line.partition(" = ")[2]):
                if not need(operand):
                    wanted.setdefault(operand)
            order.append(name)
            return True

        for name in list(wanted):
            if need(name):
                del wanted[name]
        return [name for name in wanted if name not in again], [again[name] for name in order]

    def write(self, k: int, marks: list, spans: list) -> None:
        """The two functions, and the choice."""
        e, loop = self.e, self.loop
        captures, first, last = V("ptr", e.new("ptr").ref), e.new("i64"), e.new("i64")
        name = f"{e.name}.loop{k}"
        f = _Trips(e, name, [e.ctx, captures, first, last])
        f.reserved.update(self.memory)
        for at, captured in enumerate(self.captured):
            f.line(f"{captured} = load {e.types[captured]}, ptr {self._field(f, captures, at + 1).ref}")
        f.here.lines += self.again
        for v, by in ((loop.first, first), (loop.stop, last)):
            f.line(f"{v.ref} = {'add' if loop.counted.step == 1 else 'sub'} i64 {self.begin.ref}, {by.ref}")
        fresh = f.load("i64", f.gep("i8", e.ctx, i64(FUEL)))
        f.store(f.select(f.icmp("sgt", fresh, ONE), fresh, ONE), e.fuel)
        f.br(loop.enter)
        f.labels += [loop.enter, *loop.labels]
        f.place(loop.leave)
        f.store(f.load("i64", e.fuel), f.gep("i8", e.ctx, i64(FUEL)))
        f.line("ret i32 0")
        place = {id(label): at for at, label in enumerate(f.labels)}
        f.shared += [_moved(s, place[id(label)], n) for s, label, n in marks if id(label) in place]
        f.regions += [(place[id(label)], place[id(label)] + n) for label, n in spans if id(label) in place]
        f.labels += [
            Label(label.name, lines=list(label.lines))
            for label in self._exits()
            if f"%{label.name}" in self.region.used
        ]
        self._choice(name, self._chunk(name, k), V("i1", "true" if f.shared else "false"))
        split(f)
        outline(f)

    def _field(self, f: FunctionText, base: V, at: int) -> V:
        return f.value("ptr", f"getelementptr inbounds {self.struct}, ptr {base.ref}, i32 0, i32 {at}")

    def _chunk(self, name: str, k: int) -> str:
        """The function of one chunk: the trips with a context, and memory, of its own."""
        chunk = f"{self.e.name}.chunk{k}"
        f = FunctionText(self.e.module, chunk, "void", ["ptr", "i64", "i64"], "internal |nounwind noinline")
        captures, first, last = f.params
        context, mine = f.alloca(CONTEXT, 16), f.alloca(self.struct, 16)
        record = f.load("ptr", captures)
        f.module.declare("dlvm.begin_trips", "i32", ["ptr", "ptr", "i64"], "nounwind")
        f.module.declare("dlvm.end_trips", "void", ["ptr", "i32"], "nounwind")
        f.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
        go_on, run, none, end = (f.label(n) for n in ("begin", "run", "none", "end"))
        status = f.call("@dlvm.begin_trips", "i32", [context, record, first])
        done = f.label("done")
        f.cond_br(f.icmp("eq", status, V("i32", "0")), go_on, done)
        f.place(go_on)
        whole = f.load(self.struct, captures)
        f.store(whole, mine)
        for data, header in self._private():
            nbytes = f.load("i64", f.gep("i8", f.load("ptr", self._field(f, captures, header)), i64(NBYTES)))
            fresh = f.call("@dlvm.allocate", "ptr", [context, nbytes])
            some = f.label("some")
            f.likely(f.icmp("ne", fresh, NULL), some, none)
            f.place(some)
            f.store(fresh, self._field(f, mine, header))
            if data is not None:
                f.store(f.load("ptr", f.gep("i8", fresh, i64(DATA))), self._field(f, mine, data))
        f.br(run)
        f.place(run)
        status = f.call(f'@"{name}"', "i32", [context, mine, first, last])
        f.br(end)
        f.place(none)
        f.store(V("i32", str(SITE_MEMORY)), f.gep("i8", context, i64(SITE)))
        f.br(end)
        f.place(end)
        final = f.phi("i32")
        final.add(status, run)
        final.add(V("i32", "1"), none)
        f.call("@dlvm.end_trips", "void", [context, final.value])
        f.br(done)
        f.place(done)
        f.line("ret void")
        return chunk

    def _private(self) -> list[tuple[int | None, int]]:
        """The fields of memory of which each chunk has its own: of its data, where that is used, and its header."""
        found = []
        at = {name: k + 1 for k, name in enumerate(self.captured)}
        for v in self.loop.mark.operands[3:]:
            p = self.e.pointer(v)
            if p.header.ref in at:
                found.append((at.get(p.data.ref), at[p.header.ref]))
        return found

    def _choice(self, name: str, chunk: str, has_kernels: V) -> None:
        """Write at `choose`: run the trips alone, or share them. has_kernels: that threads could share as well."""
        e, loop = self.e, self.loop
        before, at = e.here, e.labels.index(loop.choose) + 1
        new = [e.label(n) for n in ("alone", "many", "resume", "failed")]
        alone, many, resume, failed = new
        e.here = loop.choose
        trips, cost, safe = (e.scalar(v) for v in loop.mark.operands[:3])
        mine, record = e.alloca(self.struct, 16), e.alloca(RECORD, 16)
        e.store(record, self._field(e, mine, 0))
        for k, captured in enumerate(self.captured):
            e.store(V(e.types[captured], captured), self._field(e, mine, k + 1))
        e.give_fuel()
        pays = e.fcmp("oge", cost, float_constant("double", loop.mark.attrs["grain"]))
        e.cond_br(e.both(pays, safe, e.icmp("sgt", trips, ONE)), many, alone)
        e.here = alone
        status = e.call(f'@"{name}"', "i32", [e.ctx, mine, ZERO, trips])
        e.likely(e.icmp("eq", status, V("i32", "0")), resume, failed)
        e.here = many
        pieces = e.fop("fdiv", cost, float_constant("double", CHUNK))
        most = float_constant("double", MOST_CHUNKS)
        pieces = e.cast("fptosi", e.select(e.fcmp("olt", pieces, most), pieces, most), "i64")
        # the cost is at least that of two chunks, so that there are some
        size = e.op("udiv", e.add(trips, e.op("sub", pieces, ONE)), pieces)
        e.module.declare("dlvm.share_trips", "i32", ["ptr", "ptr", "ptr", "ptr", "i64", "i64", "i1"], "nounwind")
        status = e.call(
            "@dlvm.share_trips", "i32", [V("ptr", f'@"{chunk}"'), mine, record, e.ctx, trips, size, has_kernels]
        )
        e.likely(e.icmp("eq", status, V("i32", "0")), resume, failed)
        e.here = failed
        e.line("ret i32 1")
        e.here = resume
        # the counter as the loop leaves it
        how = "add" if loop.counted.step == 1 else "sub"
        e.line(f"{e.scalar(loop.counted.counter).ref} = {how} i64 {self.begin.ref}, {trips.ref}")
        e.take_fuel()
        e.br(loop.behind)
        e.labels[at:at] = new
        e.here = before
