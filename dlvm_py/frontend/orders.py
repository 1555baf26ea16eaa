"""In which order of axes NumPy lays out what it makes of arrays, as far as that is known here.

NumPy's results lie as their operands do (its order "K"); our memory lies in C order unless a pass decides otherwise
(transforms/temporary_layouts.py). The values are the same. What differs is whether `reshape` and `ravel` of a result
are views of it, so that writes show: where NumPy makes a copy, or may make one, so do we, and its writes are refused
where they could tell the difference (numpy_shape.py).
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.values import Array, Sequence, Temp
from dlvm_py.ir import Instruction, Kind, PointerType, TensorType, Value, is_array
from dlvm_py.ir.analysis.places import section_parts
from dlvm_py.ir.ops.memory import ANY_ORDER
from dlvm_py.ir.value import integer


class Order(Enum):
    """Of the axes of an array."""

    ROWS = "C"
    COLUMNS = "F"
    UNKNOWN = "?"


def order_of(e: Emitter, value: Any) -> Order:
    """In which order NumPy's array lies; of what has gaps, the order of its strides. Numbers lie in any."""
    if isinstance(value, Temp):
        return order_made(e, value.tensor)
    return _order(e, value.pointer) if isinstance(value, Array) else Order.ROWS


def order_beside_type(e: Emitter, a: Array) -> Order:
    """The order of NumPy's array where its type says another one; else ROWS."""
    order = order_of(e, a)
    is_said = a.type.layout == "S" or (a.type.layout == "F" and order is Order.COLUMNS)
    return Order.ROWS if is_said else order


def is_noted(e: Emitter, a: Array) -> bool:
    """Whether NumPy's array may lie in another order than ours."""
    return _noted(e, a.pointer) is not None


def lies_in_columns(a: Array, order: Order) -> bool:
    """Whether NumPy's array, of that order, is contiguous in columns: by its type, or as a whole by what is noted."""
    is_whole = isinstance(a.pointer, Instruction) and bool(a.pointer.attrs.get(ANY_ORDER))
    return order is Order.COLUMNS and (is_whole or a.type.layout == "F")


def lies_in_rows(e: Emitter, value: Any) -> bool:
    """Whether what NumPy makes of a value, an argument of a function, can lie in C order only."""
    if isinstance(value, Sequence):
        return all(lies_in_rows(e, v) for v in value.items)
    return order_of(e, value) is Order.ROWS


def _order(e: Emitter, p: Value) -> Order:
    t = p.type
    assert isinstance(t, PointerType)
    noted = _noted(e, p)
    if noted is not None:
        return noted
    if t.rank < 2 or t.layout == "C":
        return Order.ROWS
    if t.layout == "F":
        return Order.COLUMNS
    if isinstance(p, Instruction) and _keeps_order(p):
        return _order(e, p.operands[0])
    return Order.UNKNOWN


def _noted(e: Emitter, p: Value) -> Order | None:
    """The order of what is noted, and of views of it, whose types say nothing of NumPy's; None for all others."""
    if p in e.session.of_unknown_order:
        return Order.UNKNOWN
    if not isinstance(p, Instruction):
        return None
    if p.attrs.get(ANY_ORDER):
        return Order.COLUMNS
    of = _noted(e, p.operands[0]) if p.op.kind is Kind.INDEX else None
    is_kept = of is None or (p.type.rank > 1 and _keeps_order(p))  # type: ignore[attr-defined]
    return of if is_kept else Order.UNKNOWN


def _keeps_order(view: Instruction) -> bool:
    if view.op.name == "section":
        return all((step := integer(v)) is not None and step > 0 for v in section_parts(view)[2])
    return view.op.name in ("elementPointer", "padShape", "squeezeShape")


def order_made(e: Emitter, tensor: Value) -> Order:
    """In which order NumPy lays out the array of an expression."""
    if not isinstance(tensor, Instruction) or tensor.type.rank < 2:  # type: ignore[attr-defined]
        return Order.ROWS
    if tensor.op.name == "load":
        return _order(e, tensor.operands[0])
    if tensor.op.kind is Kind.INDEX and tensor.op.name != "shapeCast":
        of = order_made(e, tensor.operands[0])
        return of if of is Order.ROWS and _keeps_order(tensor) else Order.UNKNOWN
    if tensor.op.kind not in (Kind.ELEMENTWISE, Kind.REDUCTION):
        return Order.ROWS
    found = {order for read in _reads(tensor) if (order := _order_read(e, read, tensor)) is not None}
    if Order.ROWS in found:
        return Order.ROWS  # in each pair of axes that are not in one order in all operands
    return found.pop() if len(found) == 1 else Order.UNKNOWN if found else Order.ROWS


def _reads(tensor: Instruction) -> list[Value]:
    """What an expression is computed of: loads, and what is neither elementwise nor stretched."""
    found: list[Value] = []
    work: list[Value] = [tensor]
    seen: set[Value] = set()
    while work:
        v = work.pop()
        if v in seen:
            continue
        seen.add(v)
        is_inner = isinstance(v, Instruction) and v.op.kind in (Kind.ELEMENTWISE, Kind.REDUCTION)
        if is_inner or isinstance(v, Instruction) and v.op.name == "broadcast":
            work += [o for o in v.operands if is_array(o.type)]  # type: ignore[attr-defined]
        else:
            found.append(v)
    return found


def _order_read(e: Emitter, v: Value, tensor: Instruction) -> Order | None:
    """In which order an operand of an expression lies; None if it has no say.

    Of fewer axes, or with some that are stretched, it has one of the others.
    """
    t, wanted = v.type, tensor.type
    assert isinstance(t, TensorType) and isinstance(wanted, TensorType)
    if not isinstance(v, Instruction):
        return None
    order = order_made(e, v)
    if t.rank >= wanted.rank and (t.rank > wanted.rank or 1 not in t.shape or t.shape == wanted.shape):
        return order
    return None if order is Order.ROWS else Order.UNKNOWN


def note(e: Emitter, made: Any, order: Order) -> Any:
    """What is made, or given, of which it is known that NumPy's has this order; `made` itself."""
    if not isinstance(made, Array) or made.type.layout == "S" or order is Order.ROWS:
        return made
    p = made.pointer
    if order is Order.COLUMNS and isinstance(p, Instruction) and p.op.name == "allocateHeap":
        p.attrs[ANY_ORDER] = True
    else:
        e.session.of_unknown_order.add(p)
    return made
