"""A builder of textual LLVM IR: modules, functions, instructions, counted loops.

Textual IR is what the back end hands on (`emit` → text → `compile`). Blocks hold lines; a phi is filled while
its predecessors are written, and rendered at the end. Names are numbers, so the text is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dlvm_py.backend.cpu.contract import BORROWED
from dlvm_py.backend.cpu.values import ONE, ZERO, Label, Metadata, Phi, V, constant, i64, in_lanes, lanes_of
from dlvm_py.frozen import Mutable, field

# LLVM's list of what it must not drop
KEPT = "@llvm.compiler.used"


def without_kept(text: str) -> str:
    """The text of a module for a target without vectors: what only the vectoriser calls may be dropped."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(KEPT))


class ModuleText:
    """One LLVM module: functions by name in the order they were begun, declarations, metadata.

    shares: functions that are the same in all modules are not written but declared, and noted in `helpers` (code.py).
    masks: the CPU that it is for loads and stores vectors under masks as fast as without. permutes: it has AVX2.
    """

    def __init__(self, shares: bool = False, masks: bool = False, permutes: bool = False) -> None:
        self.shares = shares
        self.masks = masks
        self.permutes = permutes
        self.helpers: dict[str, Any] = {}
        self.functions: dict[str, Any] = {}
        self.kernels: dict[tuple, str] = {}  # names of the outlined kernels by what they say (outline.py)
        self.declarations: dict[str, str] = {}
        self._kept: list[str] = []
        self.metadata = Metadata()

    def declare(self, name: str, result: str, params: Sequence[str], attributes: str = "") -> None:
        """Declare an external function, once."""
        self.declarations[name] = f"declare {result} @{name}({', '.join(params)}) {attributes}".rstrip()

    def constant(self, name: str, value: str) -> None:
        """Define a constant of this module, once."""
        self.declarations[name] = f"@{name} = internal constant {value}"

    def keep(self, name: str) -> None:
        """Keep a function that nothing calls yet: LLVM's vectoriser will."""
        self._kept.append(name)

    def variable(self, name: str, nbytes: int) -> None:
        """Define memory that lives as long as the code, zero at first, and its header; one in all linked texts."""
        self.declarations[name] = f'@"{name}" = linkonce_odr global [{nbytes} x i8] zeroinitializer, align 64'
        header = f'i64 {BORROWED}, ptr @"{name}", i64 {nbytes}, ptr null, ptr null, ptr null'
        kind = "{ i64, ptr, i64, ptr, ptr, ptr }"
        self.declarations[f"{name}.header"] = f'@"{name}.header" = linkonce_odr global {kind} {{ {header} }}'

    def __str__(self) -> str:
        return self.text({name: str(f) for name, f in self.functions.items()})

    def text(self, functions: Mapping[str, str], heads: Sequence[str] = ()) -> str:
        """The module with the texts of these functions; heads: declarations of others."""
        parts = ["@dlvm.imports = external global [0 x ptr]\n"]
        parts += [self.declarations[name] + "\n" for name in sorted(self.declarations)]
        kept = [name for name in dict.fromkeys(self._kept) if name in functions or name in self.declarations]
        if kept:
            names = ", ".join(f'ptr @"{name}"' for name in kept)
            parts.append(f'{KEPT} = appending global [{len(kept)} x ptr] [{names}], section "llvm.metadata"\n')
        return "\n".join([*parts, *heads, *functions.values(), str(self.metadata)])


class FunctionText:
    """One function and the place where the next instruction goes.

    `flags` are the fast-math flags given to every floating-point operation (none by default). has_vectors: whether
    kernels are loops, of which LLVM makes vectors.
    """

    has_vectors = True

    def __init__(self, module: ModuleText, name: str, result: str, params: Sequence[str], attributes: str) -> None:
        self.module = module
        self.name = name
        self.result = result
        self.attributes = attributes
        self.params = [V(type, f"%p{k}") for k, type in enumerate(params)]
        self.types = {p.ref: p.type for p in self.params}
        self.regions: list[tuple[int, int]] = []  # the array kernels: positions in `labels`, first and behind the last
        self.shared: list[Any] = []  # ranges that threads share (share.py)
        self.sections: dict[V, tuple[V, Sequence[V], Sequence[V]]] = {}  # data → of what, starts, strides
        self.grain: int | None = None  # the work from which on threads share what is written; None: they do not
        self.exits: set[str] = set()  # references of blocks that leave, which several places share
        self.param_notes: dict[V, str] = {}  # LLVM attributes
        self.row_strides: set[V] = set()  # of contiguous memory, along axes other than the one of neighbours
        self.flags = ""
        self.versions = 0  # calls that have versions for vectors
        self.inlines = False  # whether elementary functions are written out: LLVM may make vectors of what is around
        self._count = 0
        self._labels = 0
        self.reserved: dict[str, str] = {}  # memory of the frame: the lines that reserve it, by its name
        self.prologue = Label("prologue")
        self.labels = [self.prologue]
        self.here = self.place(self.label("start"))
        module.functions[name] = self

    @property
    def head(self) -> str:
        """What stands before the blocks."""
        params = ", ".join(f"{p.type} {self.param_notes.get(p, '')} {p.ref}" for p in self.params)
        before, _, behind = self.attributes.partition("|")
        return f'define {before}{self.result} @"{self.name}"({params}) {behind}'

    def __str__(self) -> str:
        prologue = Label("prologue", lines=[*self.reserved.values(), *self.prologue.lines, "br label %start"])
        blocks = "".join(map(str, [prologue, *self.labels[1:]]))
        return f"{self.head} {{\n{blocks}}}\n"

    def scratches(self) -> Sequence[V]:
        """Memory of the frame in which nothing lasts."""
        return ()

    @property
    def is_brief(self) -> bool:
        """Whether what stands between kernels is written as calls."""
        return False

    # -- blocks --------------------------------------------------------------------------------------

    def label(self, name: str) -> Label:
        """A new basic block that is not placed yet."""
        self._labels += 1
        return Label(name if name == "start" else f"{name}{self._labels}")

    def place(self, label: Label) -> Label:
        """Append `label` to the function and write there from now on."""
        self.labels.append(label)
        self.here = label
        return label

    def br(self, label: Label, note: str = "") -> None:
        """Unconditional branch; `note` is metadata."""
        self.line(f"br label %{label.name}{note}")

    def cond_br(self, flag: V, then: Label, other: Label, note: str = "") -> None:
        """Conditional branch; `note` is metadata."""
        self.line(f"br i1 {flag.ref}, label %{then.name}, label %{other.name}{note}")

    def likely(self, flag: V, then: Label, other: Label) -> None:
        """Conditional branch that nearly always goes to `then`."""
        weights = self.module.metadata.node('!"branch_weights", i32 1048575, i32 1')
        self.cond_br(flag, then, other, f", !prof {weights}")

    def phi(self, type: str, label: Label | None = None) -> Phi:
        """A phi at the head of `label` (default: here)."""
        phi = Phi(self.new(type))
        (label or self.here).phis.append(phi)
        return phi

    @contextmanager
    def region(self) -> Iterator[None]:
        """Code that may become a function of its own: what is written inside is entered and left in one place."""
        first, behind = self.label("kernel"), self.label("done")
        self.br(first)
        self.place(first)
        position = len(self.labels) - 1
        before, self.inlines = self.inlines, True
        yield
        self.inlines = before
        self.br(behind)
        self.regions.append((position, len(self.labels)))
        self.place(behind)

    @contextmanager
    def when(self, flag: V) -> Iterator[None]:
        """Code that runs where `flag` holds, with no value of its own."""
        then, after = self.label("then"), self.label("after")
        self.cond_br(flag, then, after)
        self.place(then)
        yield
        self.br(after)
        self.place(after)

    @contextmanager
    def either(self, flag: V) -> Iterator[Iterator[None]]:
        """Two arms: `with f.either(c) as arms: next(arms); ...; next(arms); ...`."""
        then, other, after = self.label("then"), self.label("else"), self.label("after")
        self.cond_br(flag, then, other)

        def arms() -> Iterator[None]:
            self.place(then)
            yield
            self.br(after)
            self.place(other)
            yield

        yield arms()
        self.br(after)
        self.place(after)

    # -- instructions --------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Append a line with no result."""
        self.here.lines.append(text)

    def new(self, type: str) -> V:
        """A name for a value that is still to be computed."""
        self._count += 1
        v = V(type, f"%v{self._count}")
        self.types[v.ref] = type
        return v

    def mark(self) -> int:
        """A mark between the values that are there and those to come."""
        return self._count

    def go_on_from(self, other: FunctionText) -> None:
        """Name what comes differently from all that another function has, whose blocks come here."""
        self.types, self._count, self._labels = other.types, other._count, other._labels

    def is_before(self, v: V, mark: int) -> bool:
        """Whether a value was there at a mark; parameters always were."""
        return v in self.params or int(v.ref.removeprefix("%v")) <= mark

    def value(self, type: str, text: str) -> V:
        """Append `%new = text`."""
        v = self.new(type)
        self.line(f"{v.ref} = {text}")
        return v

    def pure(self, type: str, text: str) -> V:
        """Append `%new = text`, which follows from its operands alone, unless the block computes it already.

        LLVM would find that too, but not in the memory by which a kernel gets it when it is a function of its own.
        """
        known = self.here.known
        if text not in known:
            known[text] = self.value(type, text)
        return known[text]

    def op(self, name: str, a: V, b: V) -> V:
        """An integer binary instruction, flags in `name` ("add nsw")."""
        assert a.type == b.type, (name, a, b)
        return self.pure(a.type, f"{name} {a.type} {a.ref}, {b.ref}")

    def fop(self, name: str, a: V, b: V, flags: str = "") -> V:
        """A floating binary instruction."""
        assert a.type == b.type, (name, a, b)
        return self.pure(a.type, f"{name} {self.flags}{flags} {a.type} {a.ref}, {b.ref}")

    def fneg(self, a: V) -> V:
        """-a, also of NaN and zero."""
        return self.pure(a.type, f"fneg {self.flags} {a.type} {a.ref}")

    def icmp(self, how: str, a: V, b: V) -> V:
        """Integer or pointer comparison."""
        assert a.type == b.type, (how, a, b)
        return self.pure(_flag(a), f"icmp {how} {a.type} {a.ref}, {b.ref}")

    def fcmp(self, how: str, a: V, b: V) -> V:
        """Floating comparison; never with fast-math flags: they would let it ignore NaN."""
        assert a.type == b.type, (how, a, b)
        return self.pure(_flag(a), f"fcmp {how} {a.type} {a.ref}, {b.ref}")

    def select(self, flag: V, a: V, b: V) -> V:
        """a where flag, else b."""
        assert a.type == b.type and flag.type in ("i1", _flag(a)), (flag, a, b)
        return self.pure(a.type, f"select {flag.type} {flag.ref}, {a.type} {a.ref}, {b.type} {b.ref}")

    def cast(self, how: str, a: V, type: str) -> V:
        """A cast instruction; `a` itself where it has the type."""
        return a if a.type == type else self.pure(type, f"{how} {a.type} {a.ref} to {type}")

    def both(self, *flags: V) -> V:
        """The conjunction of i1 values."""
        found = flags[0]
        for flag in flags[1:]:
            found = self.op("and", found, flag)
        return found

    def any(self, *flags: V) -> V:
        """The disjunction of i1 values."""
        found = flags[0]
        for flag in flags[1:]:
            found = self.op("or", found, flag)
        return found

    def extract(self, aggregate: V, k: int, type: str) -> V:
        """Element k of a struct value."""
        return self.pure(type, f"extractvalue {aggregate.type} {aggregate.ref}, {k}")

    def pack(self, *parts: V) -> V:
        """A struct value of `parts`."""
        type = "{ " + ", ".join(p.type for p in parts) + " }"
        found = V(type, "poison")
        for k, p in enumerate(parts):
            found = self.value(type, f"insertvalue {type} {found.ref}, {p.type} {p.ref}, {k}")
        return found

    def call(self, callee: str, result: str, args: Sequence[V], attributes: str = "") -> V:
        """Call `callee` ("@name" or a pointer's ref)."""
        text = f"call {result} {callee}({', '.join(f'{a.type} {a.ref}' for a in args)}) {attributes}".rstrip()
        if result == "void":
            self.line(text)
            return V("void", "")
        return self.value(result, text)

    def opaque(self, v: V) -> V:
        """An integer as it is, of which LLVM does not know how it is made; no instruction."""
        p = self.value("ptr", f"inttoptr {v.type} {v.ref} to ptr")
        p = self.intrinsic("llvm.strip.invariant.group.p0", "ptr", p)
        return self.value(v.type, f"ptrtoint ptr {p.ref} to {v.type}")

    def intrinsic(self, name: str, result: str, *args: V) -> V:
        """Call an LLVM intrinsic by its full name."""
        self.module.declare(name, result, [a.type for a in args])
        return self.call(f"@{name}", result, args)

    # -- memory --------------------------------------------------------------------------------------

    def alloca(self, type: str, align: int = 8) -> V:
        """Stack memory of the whole call, reserved once in the prologue."""
        v = self.new("ptr")
        self.reserved[v.ref] = f"{v.ref} = alloca {type}, align {align}"
        return v

    def load(self, type: str, pointer: V, note: str = "") -> V:
        """A load; `note` is metadata."""
        return self.value(type, f"load {type}, ptr {pointer.ref}{note}")

    def store(self, value: V, pointer: V, note: str = "") -> None:
        """A store; `note` is metadata."""
        self.line(f"store {value.type} {value.ref}, ptr {pointer.ref}{note}")

    def gep(self, type: str, pointer: V, *indices: V) -> V:
        """An address inside the object that `pointer` points into."""
        keys = ", ".join(f"{k.type} {k.ref}" for k in indices)
        return self.pure("ptr", f"getelementptr inbounds {type}, ptr {pointer.ref}, {keys}")

    # -- i64 arithmetic, folded where constant -----------------------------------------------------------

    def mul(self, a: V, b: V, flags: str = "") -> V:
        """a * b of i64, with the neutral cases folded."""
        known = constant(a), constant(b)
        if 0 in known:
            return ZERO
        if known[0] == 1:
            return b
        if known[1] == 1:
            return a
        if known[0] is not None and known[1] is not None and -(2**63) <= known[0] * known[1] < 2**63:
            return i64(known[0] * known[1])
        return self.op(f"mul {flags}", a, b)

    def add(self, a: V, b: V, flags: str = "") -> V:
        """a + b of i64, with the neutral cases folded."""
        if constant(a) == 0:
            return b
        if constant(b) == 0:
            return a
        return self.op(f"add {flags}", a, b)

    def unguessed(self, stride: V) -> V:
        """A stride of which LLVM does not guess that it is 1.

        A loop whose address steps by a value that it does not know, or by a multiple of it, gets a vector version for
        the case that the value is 1, which no stride in bytes is, and one element at a time for all others. The least
        of the stride and a number that no stride reaches is no such value.
        """
        if constant(stride) is not None:
            return stride
        self.module.declare("llvm.smin.i64", "i64", ["i64", "i64"])
        return self.pure("i64", f"call i64 @llvm.smin.i64(i64 {stride.ref}, i64 {1 << 62})")

    def product(self, factors: Sequence[V]) -> V:
        """The product of i64 values."""
        found = ONE
        for factor in factors:
            found = self.mul(found, factor)
        return found

    def bit_length(self, x: V) -> V:
        """How many bits an i64 takes: 0 for 0, 64 for what is negative."""
        return self.op("sub", i64(64), self.intrinsic("llvm.ctlz.i64", "i64", x, V("i1", "false")))

    def minimum(self, a: V, b: V) -> V:
        """The smaller of two i64."""
        return self.select(self.icmp("slt", a, b), a, b)

    # -- loops ---------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, count: V, carried: Sequence[V] = (), note: str = "", runs: bool = False) -> Iterator[CountedLoop]:
        """`for index in range(count)` with values carried from one iteration to the next.

        Inside, set `loop.next` to the carried values after the iteration; afterwards `loop.results` has the last ones.
        runs: the count is known to be positive.
        """
        before, body, after = self.here, self.label("body"), self.label("end")
        if not runs and (constant(count) is None or constant(count) <= 0):  # type: ignore[operator]
            self.cond_br(self.icmp("sgt", count, ZERO), body, after)
            skips = True
        else:
            self.br(body)
            skips = False
        self.place(body)
        index = self.phi("i64")
        index.add(ZERO, before)
        phis = [self.phi(v.type) for v in carried]
        found = CountedLoop(index.value, [p.value for p in phis], list(carried))
        versions = self.versions
        yield found
        # index < count ≤ 2^63 - 1: the increment cannot wrap
        step = self.op("add nuw nsw", index.value, ONE)
        index.add(step, self.here)
        for p, first, then in zip(phis, carried, found.next, strict=True):
            p.add(first, before)
            p.add(then, self.here)
        latch = self.here
        if not note and constant(count) is None:
            note = rolled_loop(self)
        if note and self.versions > versions:
            # they are long, and have branches, across which several vectors would be spilled
            self.module.metadata.extend(note, _SINGLE)
        self.cond_br(self.icmp("slt", step, count), body, after, note)
        self.place(after)
        found.results = []
        for first, then in zip(carried, found.next, strict=True):
            p = self.phi(first.type)
            if skips:
                p.add(first, before)
            p.add(then, latch)
            found.results.append(p.value)


def _flag(v: V) -> str:
    """The type of comparisons of such values."""
    return in_lanes("i1", lanes_of(v.type))


class CountedLoop(Mutable):
    """The handle of `FunctionText.loop`."""

    index: V
    carried: list[V]
    next: list[V]
    results: list[V] = field(default_factory=list)


_MASKED = '!"llvm.loop.vectorize.predicate.enable", i1 true'
_SINGLE = '!"llvm.loop.interleave.count", i32 1'


class Parallel:
    """The metadata of one innermost loop whose iterations are independent: of its accesses, and of its latch.

    is_rare: it hardly ever runs, and is not worth vectorising. masked: what is left behind the last whole vector is a
    vector with a mask, no scalar loop. lanes: how many elements a vector has, where LLVM's choice would not do.
    """

    def __init__(self, f: FunctionText, is_rare: bool = False, masked: bool = False, lanes: int | None = None) -> None:
        node = f.module.metadata
        if is_rare:
            self.access, self.loop = "", plain_loop(f)
            return
        group = node.distinct()
        self.access = f", !llvm.access.group {group}"
        accesses = node.node(f'!"llvm.loop.parallel_accesses", {group}')
        hints = [accesses, *([node.node(_MASKED)] if masked else [])]
        if lanes is not None:
            hints.append(node.node(f'!"llvm.loop.vectorize.width", i32 {lanes}'))
        self.loop = f", !llvm.loop {node.distinct(', '.join(hints), itself=True)}"


def masked_loop(f: FunctionText) -> str:
    """The metadata of a loop that, where LLVM makes vectors of it, ends in one under a mask."""
    node = f.module.metadata
    return f", !llvm.loop {node.distinct(node.node(_MASKED), itself=True)}"


def single_loop(f: FunctionText) -> str:
    """The metadata of a loop of which LLVM makes one vector a trip."""
    node = f.module.metadata
    return f", !llvm.loop {node.distinct(node.node(_SINGLE), itself=True)}"


def rolled_loop(f: FunctionText) -> str:
    """The metadata of a loop that is not unrolled beyond what vectorising it does.

    LLVM would unroll loops of unknown counts eightfold where the CPU's model allows it: a third of the code and
    of the time to compile it, for nothing that an out-of-order core notices.
    """
    node = f.module.metadata
    hint = node.node('!"llvm.loop.unroll.runtime.disable"')
    return f", !llvm.loop {node.distinct(hint, itself=True)}"


def unrolled_loop(f: FunctionText, times: int) -> str:
    """The metadata of a loop that is unrolled so often."""
    node = f.module.metadata
    hint = node.node(f'!"llvm.loop.unroll.count", i32 {times}')
    return f", !llvm.loop {node.distinct(hint, itself=True)}"


def plain_loop(f: FunctionText) -> str:
    """The metadata of a loop that is not worth code: neither vectorised nor unrolled."""
    node = f.module.metadata
    hints = ", ".join(node.node(h) for h in ('!"llvm.loop.unroll.disable"', '!"llvm.loop.vectorize.enable", i1 false'))
    return f", !llvm.loop {node.distinct(hints, itself=True)}"
