"""Lowering of arrangements and windows to views, stores, reduce and dot: what bufferize and the back ends know.

    slice, reverse                  section
    concatenate, embed by steps     memory, a store to the section that each part is, a load
    reduceWindow                    reduce of windows of the operand embedded in identities
    convolve                        dot of the kernel and the windows of the input, as matrices (ops/convolve.py)
    scan along several axes         one scan an axis
    rank, shape, unitCount          extents
    random                          arithmetic on the counter of the stream
    pinv                            its svd, and a product

bufferize begins with this, so that windows and sections become views of memory: no window is copied for a reduction,
and for a convolution once. Stage optimizable → optimizable. Types stay. A composition may itself use ops that
are lowered: the instructions that it emits are visited in turn; each step emits simpler ones, so this ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.errors import PassError
from dlvm_py.ir.builder import Builder, Expr, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.ops.arrange import indices, places, reverse_section, sizes, slice_section
from dlvm_py.ir.ops.convolve import expand_convolve
from dlvm_py.ir.ops.random import EMPTY_RANGE, bounds_shown, uniform
from dlvm_py.ir.ops.svd import expand_pinv
from dlvm_py.ir.ops.window import expand_reduce_window
from dlvm_py.ir.tree_rules import has_steps_of_one
from dlvm_py.ir.value import Instruction, Literal, Value


def run(function: Function) -> bool:
    """Lower `function`; whether anything changed."""
    if not any(i.op.name in _LOWER for i in function.instructions()):
        return False
    found: dict[Value, Value] = {}
    for block in function.blocks:
        old, block.instructions = block.instructions, []
        for i in old:
            _visit(function, block, i, found)
    function.substitute(found)
    return True


def _visit(function: Function, block: Block, i: Instruction, found: dict[Value, Value]) -> None:
    lower = _LOWER.get(i.op.name)
    if lower is None or _is_simple(i):
        block.append(i)
        return
    b = Builder(function, Block("scratch"))
    b.loc = i.loc
    result = lower(b, i, [b.expr(v) for v in i.operands])
    value = result.value if isinstance(result, Expr) else result
    if value.type != i.type:
        raise PassError(f"lower_shape made {value.type} of {i.op.name}, whose type is {i.type}")
    value.name = value.name or i.name
    found[i] = value
    assert b.block is not None
    for new in b.block.instructions:
        _visit(function, block, new, found)


def _is_simple(i: Instruction) -> bool:
    """Whether i is of a kind that the stages below know, unlike others of its op."""
    return len(i.attrs["axes"]) == 1 if i.op.name == "scan" else i.op.name == "embed" and has_steps_of_one(i)


# -- memory ------------------------------------------------------------------------------------------


def _values(operands: list[Any]) -> list[Value]:
    return [v.value if isinstance(v, Expr) else v for v in operands]


def _allocate(b: Builder, i: Instruction, extents: list[Any]) -> Value:
    """Memory for the result of i; the extents that its type states are literals."""
    known = [m if n is None else n for n, m in zip(i.type.shape, extents, strict=True)]  # type: ignore[attr-defined]
    return b.emit("allocateHeap", *_values(indices(*known)), dtype=i.type.dtype.name)  # type: ignore[attr-defined]


def _concatenate(b: Builder, i: Instruction, parts: list[Expr]) -> Value:
    at = i.attrs["at"]
    extents = sizes(parts[0])
    for part in parts[1:]:
        extents[at] = extents[at] + sizes(part)[at]
    memory = _allocate(b, i, extents)
    for part, place in zip(parts, places(parts, at), strict=True):
        b.emit("store", part.value, b.emit("section", memory, *_values(place)))
    return b.emit("load", memory)


def _embed(b: Builder, i: Instruction, operands: list[Expr]) -> Value:
    x, fill, *rest = operands
    rank = x.type.rank  # type: ignore[attr-defined]
    extents = _values(rest[:rank])
    memory = b.emit("allocateHeap", *extents, dtype=x.type.dtype.name)  # type: ignore[attr-defined]
    b.emit("store", b.emit("broadcast", fill.value, *extents), memory)
    place = [*rest[rank : 2 * rank], *indices(*sizes(x)), *rest[2 * rank :]]
    b.emit("store", x.value, b.emit("section", memory, *_values(place)))
    return b.emit("load", memory)


def _shape(b: Builder, i: Instruction, operands: list[Expr]) -> Value:
    (x,) = operands
    memory = _allocate(b, i, [x.type.rank])  # type: ignore[attr-defined]
    for k, n in enumerate(_values(indices(*sizes(x)))):
        b.emit("store", n, b.emit("elementPointer", memory, literal(k)))
    return b.emit("load", memory)


# -- compositions ------------------------------------------------------------------------------------


def _unit_count(b: Builder, i: Instruction, operands: list[Expr]) -> Any:
    total = 1
    for n in sizes(operands[0]):
        total = n * total
    return indices(total)[0]


def _scan(b: Builder, i: Instruction, operands: list[Expr]) -> Any:
    found = operands[0]
    for axis in i.attrs["axes"]:
        found = i.op(found, by=i.attrs["by"], axes=(axis,))
    return found


def _random(b: Builder, i: Instruction, operands: list[Expr]) -> Any:
    *extents, low, high = operands
    name = i.type.dtype.name  # type: ignore[attr-defined]
    shown = _values(bounds_shown(low, high, name))
    b.emit("check", (low < high).value, *shown, exception="ValueError", message=EMPTY_RANGE)
    count = literal(1)
    for n in _values(extents):
        # a count that wraps is that of no memory
        count = n if isinstance(count, Literal) and count.value == 1 else b.emit("multiply", count, n)
    start = b.expr(b.emit("randomCounter", count))
    if not extents:
        return uniform(start, low, high, name)
    flat = uniform(b.expr(b.emit("iota", count)) + start, low, high, name)
    return flat if len(extents) == 1 else b.emit("shapeCast", flat.value, *_values(extents))


_LOWER: dict[str, Callable[[Builder, Instruction, list[Expr]], Any]] = {
    "slice": lambda b, i, operands: slice_section(*operands, **i.attrs),
    "reverse": lambda b, i, operands: reverse_section(*operands, **i.attrs),
    "concatenate": _concatenate,
    "embed": _embed,
    "rank": lambda b, i, operands: literal(operands[0].type.rank),  # type: ignore[attr-defined]
    "shape": _shape,
    "unitCount": _unit_count,
    "reduceWindow": lambda b, i, operands: expand_reduce_window(*operands, **i.attrs),
    "convolve": lambda b, i, operands: expand_convolve(*operands, **i.attrs),
    "scan": _scan,
    "random": _random,
    "pinv": lambda b, i, operands: expand_pinv(*operands),
}
