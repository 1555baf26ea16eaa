"""Adjoints of memory and stack instructions.

    v = load p          p_shadow += v_adj
    store v to p        v_adj += p_shadow; p_shadow = 0
    scatter v to p at i         v_adj += gather p_shadow at i, of the last value for each place; these are 0 then
    scatter v to p at i by add  v_adj += gather p_shadow at i
    v = pop s           push v_adj to s_adj
    push v to s         v_adj += pop s_adj

The stacks of adjoints run in reverse: a value that was popped last is the one whose adjoint comes first.
Pointers on stacks carry no adjoint of their own: their shadows travel beside them (shadows.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm_py.errors import NotDifferentiable
from dlvm_py.ir import OPS, Builder, Instruction, Kind, Literal, Value, is_array, literal, scalar
from dlvm_py.transforms.differentiate.arguments import entry_builder, extents
from dlvm_py.transforms.differentiate.points_to import carries_pointers, is_view_of_windows
from dlvm_py.transforms.differentiate.rules import contributions
from dlvm_py.transforms.differentiate.shadows import filled, zeros_like

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.reverse import Sweep


def load(sweep: Sweep, i: Instruction) -> None:
    """p_shadow += v_adj; of windows, which share elements, each element takes what is for it."""
    seed = sweep.take(i)
    pointer = i.operands[0]
    if seed is not None and sweep.primal.has_shadow(pointer):
        add(sweep, pointer, seed)


def add(sweep: Sweep, pointer: Value, amount: Value) -> None:
    """p_shadow += amount; what is added to a view of windows is added to what it is a view of."""
    while _has_windows(pointer):
        assert isinstance(pointer, Instruction)
        amount, pointer = _of_base(sweep.b, pointer, amount), pointer.operands[0]
    sweep.memory.add(pointer, amount)


def _of_base(b: Builder, view: Instruction, amount: Value) -> Value:
    """What is added to a view, as what is added to the memory that it is a view of."""
    if view.op.name == "pointerCast":
        return amount
    if view.op.name == "elementPointer":
        base, *keys = view.operands
        for _ in keys:
            amount = b.emit("padShape", amount, at=0)
        counts = extents(b, base)
        zero = literal(0.0, scalar(amount.type.dtype))  # type: ignore[attr-defined]
        start = [*keys, *(literal(0) for _ in counts[len(keys) :])]
        return b.emit("embed", amount, zero, *counts, *start, *(literal(1) for _ in counts))
    if view.op.name == "pointerCast":  # the same elements, of which another type says more
        base = view.operands[0]
        is_same = amount.type == base.type.pointee  # type: ignore[attr-defined]
        return amount if is_same else b.emit("broadcast", amount, *extents(b, base))
    found = contributions(b, view, amount, [True] + [False] * (len(view.operands) - 1), False)[0]
    assert found is not None
    return found


def _has_windows(pointer: Value) -> bool:
    """Whether a pointer is a view of windows, or a view of one."""
    while isinstance(pointer, Instruction) and pointer.op.kind is Kind.INDEX:
        if is_view_of_windows(pointer):
            return True
        pointer = pointer.operands[0]
    return False


def store(sweep: Sweep, i: Instruction) -> None:
    """v_adj += p_shadow; p_shadow = 0."""
    value, pointer = i.operands
    if not sweep.primal.has_shadow(pointer):
        return
    if sweep.primal.is_active(value):
        amount = sweep.memory.take(pointer)
        if amount is not None:
            sweep.accumulate(value, amount)
    if initialises(i):
        sweep.memory.forget(pointer)
    else:
        sweep.memory.clear(pointer)


def initialises(store: Instruction) -> bool:
    """Whether a store fills fresh memory before anything else refers to it: nothing reads its shadow later."""
    pointer = store.operands[1]
    if not isinstance(pointer, Instruction) or pointer.op.name != "allocateHeap" or pointer.block is not store.block:
        return False
    assert store.block is not None
    body = store.block.instructions
    between = body[body.index(pointer) + 1 : body.index(store)]
    return not any(pointer in j.operands and j.op.name != "extent" for j in between)


def scatter(sweep: Sweep, i: Instruction) -> None:
    """What the last value for each place leaves there, its adjoint takes; what is added, all of them take."""
    value, pointer, *indices = i.operands
    if not sweep.primal.has_shadow(pointer):
        return
    by = i.attrs.get("by")
    if by not in (None, "add"):
        raise NotDifferentiable(f"scatter by {by} is not differentiated", i.loc, code="DL611")
    b = sweep.b
    sweep.memory.settle(pointer)
    shadow = sweep.shadows.of(pointer)
    if sweep.primal.is_active(value):
        amount = b.emit("gather", b.emit("load", shadow), *indices)
        if by is None and not _are_distinct(indices):
            amount = _of_the_last(b, amount, shadow, indices)
        sweep.accumulate(value, amount)
    if by is None:
        b.emit("scatter", zeros_like(b, value), shadow, *indices)


def _of_the_last(b: Builder, amount: Value, shadow: Value, indices: list[Value]) -> Value:
    """`amount` where no later value goes to the same place, else 0."""
    count = len(indices)
    places = next(i for i in indices if is_array(i.type))
    counts = extents(b, amount)[: places.type.rank]  # type: ignore[attr-defined]
    total = counts[0]
    for n in counts[1:]:
        total = b.emit("multiply", total, n)
    number = b.emit("shapeCast", b.emit("iota", total), *counts)
    # of each place the number of the value that was written last; other places are not read
    last = b.emit("allocateHeap", *extents(b, shadow)[:count], name="last", dtype="i64")
    b.emit("scatter", number, last, *indices)
    stays = b.emit("equal", b.emit("gather", b.emit("load", last), *indices), number)
    while stays.type.rank < amount.type.rank:  # type: ignore[attr-defined]
        stays = b.emit("padShape", stays, at=stays.type.rank)  # type: ignore[attr-defined]
    return b.emit("select", amount, literal(0.0, scalar(amount.type.dtype)), stays)  # type: ignore[attr-defined]


def _are_distinct(indices: list[Value]) -> bool:
    """Whether no place comes twice, since all indices of the true elements of some flags are among them."""
    rows: dict[Value, set[int]] = {}
    for i in indices:
        while isinstance(i, Instruction) and i.op.name == "squeezeShape":
            i = i.operands[0]
        row: Value = literal(0)
        if isinstance(i, Instruction) and i.op.name == "section":
            i, row, *_ = i.operands
        if isinstance(i, Instruction) and i.op.name == "nonzero" and isinstance(row, Literal):
            rows.setdefault(i, set()).add(row.value)  # type: ignore[arg-type]
    return any(len(found) == base.type.rank for base, found in rows.items())  # type: ignore[attr-defined]


def adjoint_stack(sweep: Sweep, stack: Value) -> Value:
    """The stack of the adjoints of what goes through `stack`."""
    found = sweep.adjoint_stacks.get(stack)
    if found is None:
        found = entry_builder(sweep.primal.function).emit(
            "createStack",
            name=f"{stack.name}_adj",
            element=stack.type.element,  # type: ignore[attr-defined]
        )
        sweep.adjoint_stacks[stack] = found
    return found


def pop(sweep: Sweep, i: Instruction) -> None:
    """push v_adj to s_adj."""
    stack = i.operands[0]
    if not sweep.primal.is_active(stack) or carries_pointers(stack):
        return
    seed = sweep.take(i)
    amount = zeros_like(sweep.b, i) if seed is None else _of_type(sweep.b, seed, i)
    sweep.b.emit("push", amount, adjoint_stack(sweep, stack))


def _of_type(b: Builder, seed: Value, like: Value) -> Value:
    """The seed with exactly the type of `like`: adjoint types may know more, or less, of the extents."""
    return seed if seed.type == like.type else filled(b, seed, like)


def push(sweep: Sweep, i: Instruction) -> None:
    """v_adj += pop s_adj."""
    value, stack = i.operands
    if sweep.primal.is_active(stack) and not carries_pointers(stack):
        amount = sweep.b.emit("pop", adjoint_stack(sweep, stack), name=f"{value.name}_adj")
        sweep.accumulate(value, amount)


CONSTRUCTS = {OPS[f.__name__]: f for f in (load, store, scatter, pop, push)}
