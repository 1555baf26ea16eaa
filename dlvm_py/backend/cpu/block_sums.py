"""The functions that floating sums call at the end of each block and of all (blocks.py): every module has the same.

    dlvm.blocks.add.T(levels, count, from, n)           add a block, n contiguous numbers, to a counter of `count`
    dlvm.blocks.total.T(levels, count, from, n) → T     the same, where n is not 0, and what all blocks come to then
    dlvm.blocks.groups.T(levels, partials, complete, count) → T     what the results of groups (groups.py) come to

They are compiled once and linked (`code.helper`). A sum had 60 lines of LLVM IR in the function around it, and of a
kernel of four sums two thirds were such lines; its elements are the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.pointers import offset
from dlvm_py.backend.cpu.text import FunctionText, rolled_loop
from dlvm_py.backend.cpu.values import ONE, ZERO, V, float_constant, i64

LANE_BYTES, VECTORS = 64, 4
NEUTRAL = -0.0  # -0.0 + x is x for every x, also for -0.0


def size_of(type: str) -> int:
    """The bytes of a number."""
    return 8 if type == "double" else 4


def at_once(type: str) -> int:
    """How many elements the vectors of a block take at once."""
    return LANE_BYTES // size_of(type) * VECTORS


def neutral(type: str) -> V:
    """The value that changes nothing."""
    return float_constant(type, NEUTRAL)


def add_block(e: Code, type: str, levels: V, count: V, start: V, n: V) -> None:
    """Add the sum of `n` numbers from the address `start`, at most a block, to a counter that holds `count`."""

    def write(c: Code) -> None:
        levels, count, start, n = c.params
        _push(c, type, levels, count, _lanes(c, type, start, n))
        c.line("ret void")

    name = helper(e, f"dlvm.blocks.add.{type}", "void", ["ptr", "i64", "ptr", "i64"], write)
    e.call(f"@{name}", "void", [levels, count, start, n])


def total(e: Code, type: str, levels: V, count: V, start: V, n: V) -> V:
    """What a counter that holds `count` comes to, with a last block of `n` numbers from `start` if there are any."""

    def write(c: Code) -> None:
        levels, count, start, n = c.params
        before, rest, end = c.here, c.label("rest"), c.label("end")
        c.cond_br(c.icmp("sgt", n, ZERO), rest, end)
        c.place(rest)
        _push(c, type, levels, count, _lanes(c, type, start, n))
        more, last = c.add(count, ONE), c.here
        c.br(end)
        c.place(end)
        blocks = c.phi("i64")
        blocks.add(count, before)
        blocks.add(more, last)
        found = _finish(c, type, levels, blocks.value, neutral(type))
        c.line(f"ret {type} {found.ref}")

    name = helper(e, f"dlvm.blocks.total.{type}", type, ["ptr", "i64", "ptr", "i64"], write)
    return e.call(f"@{name}", type, [levels, count, start, n])


def total_of_groups(e: Code, type: str, levels: V, partials: V, complete: V, count: V) -> V:
    """What the results of `count` groups come to, of which the first `complete` have all their blocks.

    A group of 2^k blocks leaves behind what the counter holds at level k after these blocks, and the last one, if it
    has fewer, what the levels below hold in the end.
    """

    def write(c: Code) -> None:
        levels, partials, complete, count = c.params

        def partial(at: V) -> V:
            return c.load(type, offset(c, partials, [at], [i64(size_of(type))]))

        with c.loop(complete) as loop:
            _push(c, type, levels, loop.index, partial(loop.index))
        some = c.icmp("ne", count, complete)
        below = c.select(some, partial(c.select(some, complete, ZERO)), neutral(type))
        c.line(f"ret {type} {_finish(c, type, levels, complete, below).ref}")

    name = helper(e, f"dlvm.blocks.groups.{type}", type, ["ptr", "ptr", "i64", "i64"], write)
    return e.call(f"@{name}", type, [levels, partials, complete, count])


def _push(c: FunctionText, type: str, levels: V, count: V, x: V) -> None:
    """Add the result of a block to a counter that holds `count`."""
    place, carry = _climb(
        c, type, levels, count, x, lambda rest: c.cast("trunc", rest, "i1"), lambda taken, below, rest: taken
    )
    c.store(carry, place)


def _finish(c: FunctionText, type: str, levels: V, count: V, below: V) -> V:
    """What a counter that holds `count` comes to, from its lowest level upwards, beginning with `below`."""
    return _climb(
        c,
        type,
        levels,
        count,
        below,
        lambda rest: c.icmp("ne", rest, ZERO),
        lambda taken, below, rest: c.select(c.cast("trunc", rest, "i1"), taken, below),
    )[1]


def _climb(
    c: FunctionText,
    type: str,
    levels: V,
    count: V,
    x: V,
    goes_on: Callable[[V], V],
    chosen: Callable[[V, V, V], V],
) -> tuple[V, V]:
    """From the lowest level of a counter upwards: the place of the level at which it ends, and what x is by then.

    goes_on: asks the rest of the count, whose lowest bit is that of the level. chosen: of x with the level's number, x
    without it, and that rest.
    """
    head, body, done = c.label("head"), c.label("level"), c.label("done")
    before = c.here
    c.br(head)
    c.place(head)
    level, rest, found = c.phi("i64"), c.phi("i64"), c.phi(type)
    for phi, first in ((level, ZERO), (rest, count), (found, x)):
        phi.add(first, before)
    place = offset(c, levels, [level.value], [i64(size_of(type))])
    c.cond_br(goes_on(rest.value), body, done)
    c.place(body)
    taken = c.fop("fadd", c.load(type, place), found.value)
    found.add(chosen(taken, found.value, rest.value), c.here)
    level.add(c.op("add nuw nsw", level.value, ONE), c.here)
    rest.add(c.op("lshr", rest.value, ONE), c.here)
    c.br(head, rolled_loop(c))
    c.place(done)
    return place, found.value


def _lanes(c: FunctionText, type: str, start: V, n: V) -> V:
    """The sum of n contiguous elements, at most a block."""
    size = size_of(type)
    width, step = LANE_BYTES // size, at_once(type)
    vector, zero = f"<{width} x {type}>", neutral(type)
    first = V(vector, "<" + ", ".join([f"{type} {zero.ref}"] * width) + ">")
    with c.loop(c.op("udiv", n, i64(step)), [first] * VECTORS) as loop:
        base = c.mul(loop.index, i64(step), "nuw nsw")
        for k in range(VECTORS):
            place = c.gep(type, start, c.add(base, i64(k * width), "nuw nsw"))
            x = c.value(vector, f"load {vector}, ptr {place.ref}, align {size}")
            loop.next[k] = c.fop("fadd", loop.carried[k], x)
    while len(loop.results) > 1:
        loop.results = [c.fop("fadd", a, b) for a, b in zip(loop.results[::2], loop.results[1::2], strict=True)]
    reduce = f"llvm.vector.reduce.fadd.v{width}f{size * 8}"
    c.module.declare(reduce, type, [type, vector])
    lanes = c.value(type, f"call reassoc {type} @{reduce}({type} {zero.ref}, {vector} {loop.results[0].ref})")
    done = c.op("sub", n, c.op("urem", n, i64(step)))
    with c.loop(c.op("sub", n, done), [zero]) as rest:
        x = c.load(type, c.gep(type, start, c.add(done, rest.index, "nuw nsw")))
        rest.next = [c.fop("fadd", rest.carried[0], x)]
    return c.fop("fadd", lanes, rest.results[0])
