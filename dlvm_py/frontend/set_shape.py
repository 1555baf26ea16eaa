"""`x.shape = value`: the array itself changes, so every name of it does.

That is done by binding the names anew, which needs to know them all: the array must have been made here, on a
straight path. Everything else is refused.
"""

from __future__ import annotations

from typing import Any

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.numpy_shape import reshape
from dlvm_py.frontend.values import Array, Binding, Object, Record, Sequence, describe
from dlvm_py.frozen import replace
from dlvm_py.ir import BlockArg

_HELP = "write x = x.reshape(...)"


def set_shape(e: Emitter, env: dict[str, Binding], given: frozenset[Any], array: Any, shape: Any) -> None:
    """Give an array another shape in place: `env` is changed. given: the pointers of the frame's arguments."""
    if not isinstance(array, Array) or not array.rank:
        e.error(UnsupportedSyntax, f"the shape of {describe(array)} cannot be assigned to", help=_HELP)
    names = [n for n, b in env.items() if isinstance(b.value, Array) and b.value.pointer is array.pointer]
    if not names or array.pointer in given or isinstance(array.pointer, BlockArg):
        reason = "this array was made elsewhere, where it would change its shape too: assigning to `shape`"
        e.error(UnsupportedSyntax, f"{reason} is not supported", help=_HELP)
    if array.type.layout != "C":
        e.error(UnsupportedSyntax, "assigning to `shape` needs an array that is contiguous in memory", help=_HELP)
    if any(_may_be(b.value, array, given) for n, b in env.items() if n not in names):
        e.error(UnsupportedSyntax, "another name may stand for this array: its shape cannot be assigned to", help=_HELP)
    changed = reshape(e, array, shape)
    for name in names:
        env[name] = replace(env[name], value=changed)


def _may_be(value: Any, array: Array, given: frozenset[Any]) -> bool:
    """Whether a value is or holds the array, or may: what comes from a join may be any of those that were joined."""
    if isinstance(value, Object):
        return _may_be(value.contents, array, given)
    if isinstance(value, Sequence | Record):
        return any(_may_be(v, array, given) for v in value.items)
    if not isinstance(value, Array) or value.dtype is not array.dtype or value.pointer in given:
        return False
    return value.pointer is array.pointer or isinstance(value.pointer, BlockArg)


def pointers(values: list[Any]) -> frozenset[Any]:
    """The pointers of all arrays among values."""
    found: set[Any] = set()
    for value in values:
        if isinstance(value, Object):
            found |= pointers([value.contents])
        elif isinstance(value, Sequence | Record):
            found |= pointers(list(value.items))
        elif isinstance(value, Array):
            found.add(value.pointer)
    return frozenset(found)
