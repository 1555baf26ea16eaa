"""Sorting integers of which many are equal: how often each comes is counted, and it is written so often.

That the largest is near the smallest is asked first; integers that lie farther apart are sorted in vectors. Four tables
are counted side by side, so that equal neighbours do not wait for one another.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.merge_sort import SIGNATURE
from dlvm_py.backend.cpu.quick_sort import quick_sort
from dlvm_py.backend.cpu.values import ONE, ZERO, V, i64

TABLES = 4
MOST = 1 << 14  # different integers: beyond, the tables fill the second cache


def counting_sort(e: Code, type: str) -> str:
    """A function as quick_sort's: `ptr (ptr source, ptr a, ptr b, i64 n)`, where they are in order."""
    return "@" + helper(e, f"dlvm.sort.counted.{type}", *SIGNATURE, lambda c: _write(c, type))


def _write(c: Code, type: str) -> None:
    source, a, b, n = c.params
    largest = 2 ** (int(type[1:]) - 1) - 1
    with c.loop(n, [V(type, str(largest)), V(type, str(-largest - 1))]) as loop:
        x = c.load(type, c.gep(type, source, loop.index))
        loop.next = [
            c.intrinsic(f"llvm.{name}.{type}", type, x, kept)
            for name, kept in zip(("smin", "smax"), loop.carried, strict=True)
        ]
    least, most = (c.cast("sext", x, "i64") for x in loop.results)
    span = c.op("sub", most, least)  # without a sign; the tables, which lie in `b`, have an entry more
    room = c.op("udiv", c.mul(n, i64(int(type[1:]))), i64(TABLES * 64))
    fits = c.both(c.icmp("ult", span, i64(MOST)), c.icmp("ult", span, room))
    counts, sorts = c.label("counts"), c.label("sorts")
    c.cond_br(fits, counts, sorts)
    c.place(sorts)
    c.line(f"ret ptr {c.call(quick_sort(c, type), 'ptr', [source, a, b, n]).ref}")
    c.place(counts)
    length = c.add(span, ONE)
    with c.loop(c.mul(length, i64(TABLES))) as loop:
        c.store(ZERO, c.gep("i64", b, loop.index))
    tables = [c.gep("i64", b, c.mul(length, i64(k))) for k in range(TABLES)]

    def count(index: V, table: V) -> None:
        x = c.load(type, c.gep(type, source, index))
        place = c.gep("i64", table, c.op("sub", c.cast("sext", x, "i64"), least))
        c.store(c.add(c.load("i64", place), ONE), place)

    rounds = c.op("udiv", n, i64(TABLES))
    with c.loop(rounds) as loop:
        for k, table in enumerate(tables):
            count(c.add(c.mul(loop.index, i64(TABLES)), i64(k)), table)
    done = c.mul(rounds, i64(TABLES))
    with c.loop(c.op("sub", n, done)) as loop:
        count(c.add(done, loop.index), tables[0])
    with c.loop(length, [ZERO]) as loop:
        (start,) = loop.carried
        found = ZERO
        for table in tables:
            found = c.add(found, c.load("i64", c.gep("i64", table, loop.index)))
        x = c.cast("trunc", c.add(loop.index, least), type)
        with c.loop(found) as copies:
            c.store(x, c.gep(type, a, c.add(start, copies.index)))
        loop.next = [c.add(start, found)]
    c.line(f"ret ptr {a.ref}")
