"""Which values of a loop the reverse sweep computes again from others, so that the tape is smallest.

What the reverse of a block needs depends, through cheap arithmetic, on other values of the forward sweep: on some that
are at hand anyway, and at last on values that cannot be computed again (loads of memory that changes, block arguments,
results of expensive ops). A cheapest set of values that all these dependences pass goes on the tape, and what lies
behind it is computed again: a minimum cut, weighted by bytes.

    %a = load %p                         push %a                         %a_kept = pop
    %b = multiply %dt, %a        →                                       %b_again = multiply %dt, %a_kept
    … the reverse needs %a and %b                                        …

The reverse never computes again what is expensive: calls of elementary functions, products, reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from dlvm_py.ir import Block, Instruction, TensorType, Value, is_scalar
from dlvm_py.transforms.differentiate.min_cut import minimum_cut
from dlvm_py.transforms.differentiate.primal import Primal

CHEAP = frozenset((
    "add", "subtract", "multiply", "divide", "negate", "square", "abs", "sign", "sqrt", "max", "min",
    "floor", "ceil", "rint", "truncate", "copysign",
))  # fmt: skip
COMPARISONS = frozenset(("equal", "notEqual", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"))
_UNKNOWN_EXTENT = 1000  # for weights only: an array is more than a scalar, a matrix more than a row
_ONCE = 1000  # how much less a value weighs that is kept once for a whole inner loop
_LARGEST = 400  # values; of what is larger all is kept


def again(
    primal: Primal,
    block: Block,
    needed: Iterable[Value],
    leaves: Callable[[Value], list[Value]],
    is_move: Callable[[Value], bool],
    read_from: Callable[[Value], list[Value] | None],
    kept_elsewhere: Collection[Value] = (),
) -> tuple[set[Value], set[Value]]:
    """The values to compute again in the reverse of `block`, which needs `needed` of the forward sweep; those to keep.

    leaves(v): the values that must be there, so that v is: none where it is at hand, v itself where it is to be kept or
    computed again. is_move(v): whether v only moves elements, or loads what is in memory still. read_from(v): of a load
    what holds the elements, and the numbers that say where, if they can be read from there again. kept_elsewhere: what
    another block keeps, so that this one can use it.
    """
    wanted = list(dict.fromkeys(leaf for v in needed for leaf in leaves(v)))
    weights: dict[Value, int] = {}
    edges: list[tuple[Value, Value]] = []
    sources: list[Value] = []
    work = list(wanted)
    while work:
        v = work.pop()
        if v in weights:
            continue
        weights[v] = 1 if v in kept_elsewhere else _weight(primal, v, block)
        before = _before(v, leaves, is_move, read_from)
        if before is not None:
            edges += ((leaf, v) for leaf in before)
            work += before
        else:
            sources.append(v)
        if len(weights) > _LARGEST:
            return set(), set(wanted)
    cut = minimum_cut(weights, edges, sources, wanted)
    # from what is wanted back to the cut
    found: set[Value] = set()
    behind: dict[Value, list[Value]] = {}
    for leaf, v in edges:
        behind.setdefault(v, []).append(leaf)
    work = wanted
    while work:
        v = work.pop()
        if v not in found and v not in cut:
            found.add(v)
            work += behind.get(v, ())
    return found, cut


def _before(
    value: Value,
    leaves: Callable[[Value], list[Value]],
    is_move: Callable[[Value], bool],
    read_from: Callable[[Value], list[Value] | None],
) -> list[Value] | None:
    """What a value is computed from again, None where it is not."""
    read = read_from(value)
    if read is not None:
        return list(dict.fromkeys(leaf for v in read for leaf in leaves(v)))
    if not isinstance(value, Instruction) or not (value.op.is_pure or is_move(value)):
        return None
    compares = value.op.name in COMPARISONS and is_scalar(value.type)
    if not (compares or value.op.name in CHEAP or is_move(value)):
        return None
    before = list(dict.fromkeys(leaf for o in value.operands for leaf in leaves(o)))
    # what decides has the bits that decided: under fastmath arithmetic may round otherwise another time
    if compares and any(isinstance(v, Instruction) and v.op.name in CHEAP for v in before):
        return None
    return before


def _weight(primal: Primal, value: Value, block: Block) -> int:
    """The bytes of a value, in the mean over the runs of `block`; at least 1."""
    t = value.type
    if not isinstance(t, TensorType):
        return 16
    size = t.dtype.itemsize * 8
    for n in t.shape:
        size *= _UNKNOWN_EXTENT if n is None else max(n, 1)
    loop = primal.loop_of(block)
    if loop is not None and not loop.contains(value.block):  # type: ignore[attr-defined]
        size //= _ONCE
    return max(size, 1)
