"""Stores past the caches: what large kernels write goes to memory without being read first.

    for j in range(first, last):            for each piece of a KiB, which ends at a whole line of the destination:
        out[j] = f(a[j])               =>       for j in piece:  place[j - begin] = f(a[j])
                                                if large:  @dlvm.stream(&out[begin], buffer, n)
                                            if large:  fence

    large = the kernel writes 32 MiB or more;  place = buffer if large else &out[begin], one piece then

A plain store reads the line that it overwrites: three passes over memory for a scaled copy that needs two. LLVM's
vectoriser has no such stores for addresses that are known at run time alone, so it writes to a buffer in the first
cache as it would to the destination, and the runtime (support.ll) carries that over, line by line: the same bytes.

Not for kernels that read what they write, whose lines are in the caches anyway, not for less than the last caches hold,
which who comes next would find there, and only for kernels of one loop: pieces of rows begin anywhere in a line. That
loop serves both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.pointers import Pointer
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import ZERO, V, constant, i64
from dlvm_py.decisions import NEVER
from dlvm_py.ir import Kind
from dlvm_py.ir.analysis.cost import is_function

LEAST = 32 << 20  # bytes: about what last caches hold
PIECE = 1024  # bytes of a buffer
MOST = 2  # destinations
MOST_STEPS = 8  # of an element: beyond, and where functions are computed, memory is not what is waited for
LINE = 64


def is_large(e: FunctionEmitter, tree: Tree, dests: Sequence[Pointer], work: V) -> V | None:
    """Whether what is written is to go past the caches; None where it never is, or is not worth the code."""
    size = sum(p.itemsize for p in dests)
    known = constant(work)
    if not e.module.shares or e.is_long or e.depth > 1 or len(dests) > MOST or tree.has_embeds:
        return None
    if (known is not None and known * size < LEAST >> 3) or any(p.itemsize & (p.itemsize - 1) for p in dests):
        return None
    steps = dict.fromkeys(i for i, _ in tree.nodes())
    if sum(i.op.kind is Kind.ELEMENTWISE for i in steps) > MOST_STEPS or any(map(is_function, steps)):
        return None
    written = {p.header for p in dests}
    if any(p.header in written for p in tree.loads()):
        return None
    least = e.module.decisions.take("streams.least", LEAST, (LEAST >> 3, NEVER))
    return None if known is not None and known * size < least else e.icmp("uge", work, i64(least // size))


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
        parallel = Parallel(e)
        with e.loop(length, note=parallel.loop) as loop:
            tree.index[tree.inner] = e.add(begin, loop.index, "nsw")
            steps = [e.mul(loop.index, i64(p.itemsize), "nsw") for p in dests]
            put(parallel, [e.gep("i8", base, step) for base, step in zip(bases, steps, strict=True)])
        with e.when(large):
            e.module.declare("dlvm.stream", "void", ["ptr", "ptr", "i64"], "nounwind")
            for p, goal, source in zip(dests, goals, buffers, strict=True):
                e.call("@dlvm.stream", "void", [goal, source, e.mul(length, i64(p.itemsize))])
    with e.when(large):
        e.line("fence seq_cst")
