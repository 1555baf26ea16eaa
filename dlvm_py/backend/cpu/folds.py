"""Folds: reductions in an order that is free, or that of the elements, whose state a loop carries.

    total' = combine(total, x)                                    most of them: one value

    best'      = x > best ? x : best         (nnan nsz)           the largest of floats (of the smallest: or, <):
    unordered' = unordered or x is NaN                            instructions of which LLVM makes vectors of several
    signs'     = signs and bits of x                              accumulators, four where `llvm.maximum` is six
    => init max (unordered ? NaN : best = 0 and signs < 0 ? -0 : best)

`best` orders neither zeros nor NaN: what the two others say stands above it. Of the smallest 0 is -0 where any sign is
set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.floating import INTEGERS, fc
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.values import FALSE, V
from dlvm_py.frozen import Frozen
from dlvm_py.ir import DType


def combine(c: Code, by: str, dtype: DType, a: V, b: V, inside: bool = False) -> V:
    """One step of a reduction. `inside` a row, the float extremes are the intrinsics that LLVM vectorises.

    Of max(a, c ? x : -inf) LLVM would make c ? max(a, x) : a, which it does not: a frozen choice stays what it is.
    The new element comes first: the sign that orders zeros is taken of the first operand, and does not wait for `a`.
    """
    if inside and by in ("max", "min") and dtype.kind == "f" and dtype.bits > 16:
        return c.intrinsic(f"llvm.{by}imum.f{dtype.bits}", a.type, c.value(b.type, f"freeze {b.type} {b.ref}"), a)
    return TABLE[by][dtype.kind](c, dtype, {}, a, b)


class Fold(Frozen):
    """What a loop carries before the first element, after one more, and what that comes to in the end."""

    begin: Sequence[V]
    step: Callable[[Sequence[V], V], list[V]]
    end: Callable[[Sequence[V]], V]


def fold_of(c: Code, by: str, dtype: DType, init: V, is_brief: bool = False) -> Fold:
    """How the elements are folded. is_brief: they are few, or nobody waits for them."""
    if by in ("max", "min") and dtype.kind == "f" and dtype.bits > 16 and not is_brief:
        return _extreme(c, by, dtype, init)
    return Fold(
        [init], lambda carried, x: [combine(c, by, dtype, carried[0], x, inside=True)], lambda carried: carried[0]
    )


def _extreme(c: Code, by: str, dtype: DType, init: V) -> Fold:
    """The largest or the smallest of f32 or f64, in three accumulators."""
    is_max, whole = by == "max", INTEGERS[init.type]

    def step(carried: Sequence[V], x: V) -> list[V]:
        best, unordered, signs = carried
        wins = c.value("i1", f"fcmp nnan nsz o{'gt' if is_max else 'lt'} {x.type} {x.ref}, {best.ref}")
        return [
            c.value(x.type, f"select nnan nsz i1 {wins.ref}, {x.type} {x.ref}, {x.type} {best.ref}"),
            c.any(unordered, c.fcmp("uno", x, x)),
            c.op("and" if is_max else "or", signs, c.cast("bitcast", x, whole)),
        ]

    def end(carried: Sequence[V]) -> V:
        best, unordered, signs = carried
        zero = c.select(c.icmp("slt", signs, V(whole, "0")), fc(best, -0.0), fc(best, 0.0))
        found = c.select(c.fcmp("oeq", best, fc(best, 0.0)), zero, best)
        return combine(c, by, dtype, init, c.select(unordered, fc(best, math.nan), found), inside=True)

    least = fc(init, -math.inf if is_max else math.inf)
    return Fold([least, FALSE, V(whole, "-1" if is_max else "0")], step, end)
