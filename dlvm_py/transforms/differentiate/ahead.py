"""Numbers of a loop that can be computed before it: how often an inner loop runs, the extents of what it makes.

Each answer is a function that emits the number where a builder stands, or None where it is not known there.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.ir import Block, Builder, Instruction, Literal, TensorType, Value
from dlvm_py.ir.analysis.extents import extent_at
from dlvm_py.ir.value import BlockArg
from dlvm_py.transforms.differentiate.primal import Primal

Made = Callable[[Builder], Value]
_ARITHMETIC = frozenset(("add", "subtract", "multiply", "max", "min"))


def number(primal: Primal, value: Value, block: Block) -> Made | None:
    """An i64 value as it will be, at the end of `block`."""
    if _is_there(primal, value, block):
        return lambda b: value
    if not isinstance(value, Instruction):
        return None
    if value.op.name == "extent":
        return extent(primal, value.operands[0], value.attrs["at"], block)
    # what is checked has not passed yet
    if value.op.name not in _ARITHMETIC or value.attrs.get("checked"):
        return None
    if not all(isinstance(v.type, TensorType) and not v.type.shape and v.type.dtype.is_integer for v in value.operands):
        return None
    parts: list[Made] = []
    for o in value.operands:
        part = number(primal, o, block)
        if part is None:
            return None
        parts.append(part)
    op = value.op
    return lambda b: b.emit(op, *(part(b) for part in parts))


def extent(primal: Primal, array: Value, axis: int, block: Block) -> Made | None:
    """The extent of an array or pointer, at the end of `block`."""
    found = _structural(primal, array, axis)
    if isinstance(found, Value):
        return number(primal, found, block)
    base, at = found
    if _is_there(primal, base, block):
        return lambda b: b.emit("extent", base, at=at)
    if not isinstance(base, BlockArg):
        return None
    origin = _common_origin(primal, base, at)
    if origin is None:
        return None
    if isinstance(origin, Value):
        return number(primal, origin, block)
    base, at = origin
    return (lambda b: b.emit("extent", base, at=at)) if _is_there(primal, base, block) else None


def _structural(primal: Primal, array: Value, axis: int) -> Value | tuple[Value, int]:
    """The value that an extent is, or (array, axis) that has it."""
    scratch = Block("scratch")
    found = extent_at(Builder(primal.function, scratch), array, axis)
    if not isinstance(found, Instruction) or found.op.name != "extent":
        return found
    base, at = found.operands[0], found.attrs["at"]
    # what is made with the extent of another array has that one's
    return (base, at) if found.block is scratch else _structural(primal, base, at)


def _common_origin(primal: Primal, arg: BlockArg, axis: int) -> Value | tuple[Value, int] | None:
    """The one extent that all paths bring to an argument, from outside of the loops that carry it."""
    origins: dict[object, Value | tuple[Value, int]] = {}
    seen, work = {(arg, axis)}, [(arg, axis)]
    while work:
        passed, axis = work.pop()
        at = passed.block.args.index(passed)
        for source, target in primal.edges.get(passed.block, ()):
            flow = source.targets[target].args[at]
            if isinstance(flow, Literal):
                continue  # a path that is not taken
            found = _structural(primal, flow, axis)
            if not isinstance(found, Value) and isinstance(found[0], BlockArg) and found[0] not in primal.formal:
                if found not in seen:
                    seen.add(found)  # type: ignore[arg-type]
                    work.append(found)  # type: ignore[arg-type]
            else:
                key = (found.type, found.value) if isinstance(found, Literal) else found
                origins[key] = found
    if len(origins) != 1:
        return None
    (origin,) = origins.values()
    home = origin if isinstance(origin, Value) else origin[0]
    for passed, _ in seen:
        loop = primal.loop_of(passed.block)
        is_carried = loop is not None and loop.header is passed.block
        if is_carried and not isinstance(home, Literal) and loop.contains(home.block):  # type: ignore[union-attr]
            return None  # of an earlier iteration
    return origin


def _is_there(primal: Primal, value: Value, block: Block) -> bool:
    return isinstance(value, Literal) or primal.dominators.dominates(value.block, block)  # type: ignore[attr-defined]
