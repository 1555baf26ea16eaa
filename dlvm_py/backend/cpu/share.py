"""Array kernels that threads share: a range of their outermost loop becomes a function of its own.

    with shared(e, count, ...):                share7:  store the values that it uses to %captures
      a loop nest whose outermost loop                  br i1 (work < grain), label %alone, label %many
      goes from `first` to `last`        →     alone:   call void @"dl.kernel0"(ptr %captures, i64 0, i64 %count)
                                               many:    call void @dlvm.share(ptr @"dl.kernel0", ptr %captures,
                                                                              i64 %count, i64 %work, ...)

@dlvm.share (runtime/native/threads.ll) finds the size of the chunks. The same function runs in both cases, so that
the kernel is compiled once and small arrays pay one comparison and a call, with what it uses in memory. Outside of
the loops of the program @dlvm.share makes the choice as well: LLVM has three blocks less to look at. What it writes
does not depend on where it is cut: elements are independent, and reductions are cut at borders of their own fixed
tree (groups.py). The size of a chunk follows from the extents and the cost of an element alone. Memory that only the
kernel uses, and scratch memory, lies in the frame of the function: each thread has its own. What may raise stays
where it is, and runs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dlvm_py.backend.cpu.outline import NAME, body_of, kernel_of, leaves, region_of, reserved_memory, users_of
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.values import ONE, ZERO, Label, V, constant, i64
from dlvm_py.frozen import Mutable
from dlvm_py.grain import BRIEF, CHUNK

MOST_CHUNKS = 256  # as in threads.ll

# instructions that a kernel rather repeats than reads their result
CHEAP = frozenset(("add", "sub", "mul", "and", "or", "xor", "icmp", "select", "zext", "getelementptr"))


class Share(Mutable):
    """One shared range: its blocks are those of `labels` from position `begin` to `end`, without it."""

    first: V
    last: V
    count: V
    work: V  # elements
    cost: int  # of one of them
    grain: int  # the work from which on threads share it
    multiple: V  # of which chunks are sizes
    is_brief: bool  # whether the choice is left to the runtime
    chunk: V | None  # of how many, where the work of one does not say it
    begin: int = 0
    end: int = 0


def may_share(f: FunctionText, work: V, cost: int, wanted: bool = True) -> bool:
    """Whether a range with so much work may be cut: what the compiler knows of it."""
    known = constant(work)
    return wanted and f.grain is not None and (known is None or known * cost >= f.grain // BRIEF)


@contextmanager
def shared(
    f: FunctionText, count: V, work: V, cost: int, multiple: V = ONE, wanted: bool = True, chunk: V | None = None
) -> Iterator[tuple[V, V] | None]:
    """Code that does the part of range(count) from a first to a last index, None: all of it.

    Parts run at the same time, in any order. work: how many elements all of them have, of `cost` tenths of a
    nanosecond each. multiple: a power of two. wanted: whether threads may pay at all.
    chunk: how much of `count` is done at a time; by the work, if it is not given.
    """
    if not may_share(f, work, cost, wanted) or f.grain is None or constant(count) == 1:
        yield None
        return
    share = Share(f.new("i64"), f.new("i64"), count, work, cost, f.grain, multiple, f.is_brief, chunk)
    begin, behind = f.label("share"), f.label("shared")
    f.br(begin)
    f.place(begin)
    share.begin = len(f.labels) - 1
    yield share.first, share.last
    f.br(behind)
    share.end = len(f.labels)
    f.shared.append(share)
    f.place(behind)


def split(f: FunctionText) -> None:
    """Move the shared ranges of `f` out, and write the choice of one thread or many in their place."""
    spans = [(s.begin, s.end) for s in f.shared]
    regions = [region_of(f.labels[begin:end]) for begin, end in spans]
    users = users_of(f, spans, regions)
    scratch = {v.ref for v in f.scratches()}
    for k in reversed(range(len(spans))):
        share, region = f.shared[k], regions[k]
        escapes = any(users[name] != {k} for name in region.used if name in region.defined)
        if escapes or leaves(f, region):
            whole = [f"{share.first.ref} = add i64 0, 0", f"{share.last.ref} = add i64 {share.count.ref}, 0"]
            region.labels[0].lines[:0] = whole
            continue
        own = {name for name in region.used if users[name] == {k}} | scratch
        replaced = _choice(f, share, region, own)
        f.labels[share.begin : share.end] = replaced
        gone = share.end - share.begin - len(replaced)
        f.regions[:] = [
            (begin - gone * (begin >= share.end), end - gone * (end >= share.end)) for begin, end in f.regions
        ]
    f.shared.clear()


def _choice(f: FunctionText, share: Share, region, own: set[str]) -> list[Label]:  # type: ignore[no-untyped-def]
    """The blocks that replace a shared range."""
    memory = reserved_memory(f, region, own)
    lines = [f.reserved[name] for name in memory]
    last = region.labels[-1].lines[-1]  # the branch to the block behind
    inner = {share.first.ref, share.last.ref}
    known = region.defined | inner
    captured = [
        name
        for name in region.used
        if name not in known and name not in memory and f"label {name}" != last.removeprefix("br ")
    ]
    captured, again = _computed_again(f, share, captured)
    types = [f.types[name] for name in captured]
    struct = "{ " + ", ".join(types) + " }"
    captures = f.new("ptr")
    loads = []
    for k, (name, type) in enumerate(zip(captured, types, strict=True)):
        place = f.new("ptr")
        loads.append(_field(place, struct, captures, k))
        loads.append(f"{name} = load {type}, ptr {place.ref}")
    params = [captures, share.first, share.last]
    body = body_of(f, region, [*lines, *loads, *again], "void")
    kernel = kernel_of(f.module, [p.ref for p in params], [p.type for p in params], "void", body)
    f.here = choice = Label(region.labels[0].name)
    mine = f.alloca(struct, 16)
    for k, name in enumerate(captured):
        place = f.new("ptr")
        f.line(_field(place, struct, mine, k))
        f.store(V(f.types[name], name), place)
    grain, chunk = i64(-(-share.grain // share.cost)), i64(max(1, CHUNK // share.cost))
    args = [V("ptr", f'@"{kernel}"'), mine, share.count, share.work, grain, chunk, share.multiple]
    name = "dlvm.share"
    if share.chunk is not None:
        time = f.mul(f.op("udiv", share.work, chunk), i64(CHUNK // 10))
        name, args = "dlvm.share_pieces", [*args[:3], share.chunk, time]
    f.module.declare(name, "void", [v.type for v in args], "nounwind")
    new = []
    if not share.is_brief or share.chunk is not None:
        alone, many = new = [f.label("alone"), f.label("many")]
        least = grain if share.chunk is not None else i64(max(1, (constant(grain) or 0) // BRIEF))
        f.cond_br(f.icmp("ult", share.work, least), alone, many)
        f.here = alone
        f.call(f'@"{kernel}"', "void", [mine, ZERO, share.count])
        f.line(last)
        f.here = many
    f.call(f"@{name}", "void", args)
    f.line(last)
    return [choice, *new]


def _computed_again(f: FunctionText, share: Share, captured: list[str]) -> tuple[list[str], list[str]]:
    """What to capture so that the strides and conditions of the kernel are computed in it, and the lines for these.

    LLVM then sees how they follow from the extents, as it does where the kernel stays in its function.
    """
    start = max((begin for begin, end in f.regions if begin <= share.begin < end), default=share.begin)
    wanted, again = dict.fromkeys(captured), []
    for label in reversed(f.labels[start : share.begin]):
        for line in reversed(label.lines):
            name, _, text = line.partition(" = ")
            if name in wanted and text.partition(" ")[0] in CHEAP:
                again.append(line)
                del wanted[name]
                wanted |= dict.fromkeys(NAME.findall(text))
    return list(wanted), again[::-1]


def _field(place: V, struct: str, base: V, k: int) -> str:
    return f"{place.ref} = getelementptr inbounds {struct}, ptr {base.ref}, i32 0, i32 {k}"
