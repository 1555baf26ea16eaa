"""Numbers that have another type on some of the paths to a place: s is the int 0 where no iteration has been.

    s = 0                                a number of the joined type, 0.0, and behind a flag the number as it is there:
    for v in x:                          Mixed(%s: f64, strong; others: (%n <= 0: bool, 0: i64, weak))
        s += v
    return s                             the caller gets both, and which of the two it is (interface.EitherSpec)

Flags are made where values meet (joins.py); of a counted loop that leaves one type behind they are its count, so that
nothing is carried. What nobody asks for is dead code. Asked for they are where the type shows: in what is returned,
printed and raised, and in what functions and operators do outside of loops. Inside of loops, beside arrays, in lists
and in the results of derivatives the joined type stands for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dlvm_py.errors import CompileError
from dlvm_py.frontend.emit import Emitter, Unreachable
from dlvm_py.frontend.joined_values import arguments, mixed, others_of
from dlvm_py.frontend.joins import join
from dlvm_py.frontend.value_types import type_of
from dlvm_py.frontend.values import Mixed, Other, Record, Scalar, Sequence, Static
from dlvm_py.ir import Value
from dlvm_py.ir.analysis.effects import effects

_MAX_WAYS = 4  # in which the types of operands go together


def joined(value: Any) -> Any:
    """A value with numbers of one type in it: the joined one."""
    match value:
        case Mixed():
            return value.joined
        case Sequence():
            return Sequence(tuple(map(joined, value.items)), value.is_list)
        case Record():
            return Record(value.kind, value.names, tuple(map(joined, value.items)))
    return value


def passed(e: Emitter, value: Any) -> Any:
    """An argument of a user's function: its types go along, but inside of a loop."""
    return joined(value) if e.frame is not None and e.frame.is_in_loop else value


def apart(e: Emitter, rule: Callable[..., Any], *operands: Any) -> Any:
    """rule(*operands), of each of the types that the operands have; inside of a loop, and beside arrays, of the joined.

    Where nothing of it can raise, all is computed, and the flags choose; else they are branches.
    """
    ways = math.prod(1 + len(others_of(v)) for v in operands if isinstance(v, Scalar))
    plain = all(isinstance(v, Scalar | Static) for v in operands)
    if ways == 1 or ways > _MAX_WAYS or not plain or e.frame is None or e.frame.is_in_loop:
        return rule(*map(joined, operands))
    k, value = next((k, v) for k, v in enumerate(operands) if isinstance(v, Mixed))
    other, rest = value.others[0], mixed(value, value.others[1:])

    def of(number: Scalar) -> Any:
        return apart(e, rule, *operands[:k], number, *operands[k + 1 :])

    found = _both(e, lambda: of(other.scalar), lambda: of(rest))
    if found is None:
        return rule(*map(joined, operands))
    if not found:
        return e.frame.choose_value(other.flag, lambda: of(other.scalar), lambda: of(rest))
    return chosen(e, other.flag, *found)


def _both(e: Emitter, one: Callable[[], Any], two: Callable[[], Any]) -> tuple[Any, ...] | None:
    """The values of two thunks that do nothing but compute numbers; () if they may do more, to memory or to an object.

    None: for one of them there is no such operation, or the results are no numbers.
    """
    block, count, blocks = e.block, len(e.block.instructions), len(e.function.blocks)
    depth = e.facts.push()
    undo, env = e.frame.checkpoint(), dict(e.frame.env)
    found: Any = None
    try:
        found = () if e.tries else (one(), two())
    except Unreachable:
        found = ()
    except CompileError:
        found = None
    moved = e.builder.block is not block or len(e.function.blocks) > blocks
    held = env.keys() != e.frame.env.keys() or any(e.frame.env[n] is not b for n, b in env.items())
    if found and (moved or held or any(effects(i) for i in block.instructions[count:])):
        found = ()
    elif found and not _are_numbers(*found):
        found = None
    if not found:
        undo()
    e.facts.pop(depth)  # what is known of it may be taken back
    return found  # type: ignore[no-any-return]


def _are_numbers(a: Any, b: Any) -> bool:
    """Whether both are numbers, or tuples of as many."""
    if isinstance(a, Sequence) and isinstance(b, Sequence) and not a.is_list:
        return len(a.items) == len(b.items) and all(map(_are_numbers, a.items, b.items))
    return isinstance(a, Scalar) and isinstance(b, Scalar)


def chosen(e: Emitter, flag: Value, a: Any, b: Any) -> Any:
    """a where `flag` holds, else b, of numbers or tuples of numbers."""
    if isinstance(a, Sequence):
        return Sequence(tuple(chosen(e, flag, x, y) for x, y in zip(a.items, b.items, strict=True)))
    t = join(type_of(e, a), type_of(e, b))
    value, *others = (e.choose(flag, x, y) for x, y in zip(arguments(e, a, t), arguments(e, b, t), strict=True))
    kinds = getattr(t, "others", ())
    pairs = zip(others[::2], others[1::2], kinds, strict=True)
    return mixed(Scalar(value, t.weak), [Other(f, Scalar(v, k.weak)) for f, v, k in pairs])
