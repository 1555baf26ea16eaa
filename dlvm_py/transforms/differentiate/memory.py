"""Adjoints of memory and stack instructions.

    v = load p          p_shadow += v_adj
    store v to p        v_adj += p_shadow; p_shadow = 0
    v = pop s           push v_adj to s_adj
    push v to s         v_adj += pop s_adj

The stacks of adjoints run in reverse: a value that was popped last is the one whose adjoint comes first.
Pointers on stacks carry no adjoint of their own: their shadows travel beside them (shadows.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm_py.ir import OPS, Builder, Instruction, Value
from dlvm_py.transforms.differentiate.arguments import entry_builder
from dlvm_py.transforms.differentiate.points_to import carries_pointers
from dlvm_py.transforms.differentiate.shadows import filled, zeros_like

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.reverse import Sweep


def load(sweep: Sweep, i: Instruction) -> None:
    """p_shadow += v_adj."""
    seed = sweep.take(i)
    if seed is not None and sweep.primal.has_shadow(i.operands[0]):
        sweep.memory.add(i.operands[0], seed)


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


CONSTRUCTS = {OPS[f.__name__]: f for f in (load, store, pop, push)}
