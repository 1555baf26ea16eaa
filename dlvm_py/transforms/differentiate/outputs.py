"""The two ends of the reverse sweep: the seeds of the outputs, and the results of the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm_py.ir import VOID, Builder, Instruction, PointerType, TensorType, Type, Value, literal, scalar
from dlvm_py.transforms.differentiate import memory
from dlvm_py.transforms.differentiate.activity import carries_derivative
from dlvm_py.transforms.differentiate.arguments import extents
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.shadows import filled, zeros_like

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.reverse import Sweep


def add_seed_params(primal: Primal) -> list[Value]:
    """One more parameter for each output: a scalar, or a pointer of any strides."""
    if not primal.config.seedable:
        return []
    seeds: list[Value] = []
    for k, output in enumerate(primal.config.outputs):
        name = "seed" if len(primal.config.outputs) == 1 else f"seed_{k}"
        seeds.append(primal.function.entry.add_arg(seed_type(primal.output(output).type), name))
    return seeds


def seed_type(output: Type) -> Type:
    """The type of the parameter that seeds an output: of an array, any strides and extents."""
    if isinstance(output, PointerType):
        return PointerType(TensorType((None,) * output.rank, output.dtype), "S" if output.rank else "C")
    return output


def seed_outputs(sweep: Sweep) -> None:
    """Give every output its seed, at the start of the reverse sweep; an output named twice counts twice."""
    primal, b = sweep.primal, sweep.b
    if primal.is_split:
        for leaf, seed in zip([v for v in primal.exit.leaves if carries_derivative(v)], sweep.seeds, strict=True):
            sweep.accumulate(leaf, seed)
        return
    touched: frozenset[Value] = frozenset()
    for k, output in enumerate(primal.config.outputs):
        value = primal.output(output)
        t = value.type
        seed = sweep.seeds[k] if sweep.seeds else None
        if seed is not None and isinstance(t, PointerType):
            seed = of_shape(b, seed, value, "the seed does not have the shape of the output")
        if isinstance(t, TensorType):
            if primal.is_active(value):
                sweep.accumulate(value, seed if seed is not None else literal(1.0, scalar(t.dtype)))
        elif isinstance(t, PointerType) and primal.has_shadow(value):
            shadow = sweep.shadows.of(value)
            amount = b.emit("load", seed) if seed is not None else filled(b, literal(1.0, scalar(t.dtype)), value)
            if primal.may_repeat(value):
                memory.add(sweep, value, amount)
                sweep.memory.settle(value)
                touched |= primal.points_to.roots(value)
                continue
            # shadows are still zero here, unless another output is a view of the same memory
            roots = primal.points_to.roots(value)
            if roots & touched:
                amount = b.emit("add", b.emit("load", shadow), amount)
            b.emit("store", amount, shadow)
            sweep.memory.touch(value)
            touched |= roots


def of_shape(b: Builder, seed: Value, output: Value, complaint: str) -> Value:
    """A view of the seed with the type of the output's shape. What the caller gave may have any: it is checked."""
    given, wanted = extents(b, seed), extents(b, output)
    for axis, (n, m) in enumerate(zip(given, wanted, strict=True)):
        message = f"{complaint}: axis {axis} has extent {{}}, not {{}}"
        b.emit("check", b.emit("equal", n, m), n, m, exception="ValueError", message=message)
    if all(isinstance(m, Instruction) for m in wanted):
        return seed
    counts = [n if isinstance(m, Instruction) else m for n, m in zip(given, wanted, strict=True)]
    return b.emit("section", seed, *[literal(0)] * len(counts), *counts, *[literal(1)] * len(counts))


def finish(sweep: Sweep) -> Type:
    """Emit the results at the end of the reverse sweep: derivatives, then kept outputs. Their type."""
    primal, b = sweep.primal, sweep.b
    b.at_end(sweep.blocks[primal.function.entry])
    b.loc = None
    results = [_derivative(sweep, k) for k in primal.config.wrt]
    results += [primal.output(o) for o in primal.config.keeping]
    if not results:
        b.ret()
        return VOID
    value = results[0] if len(results) == 1 else b.emit("tuple", *results)
    b.ret(value)
    return value.type


def finish_split(sweep: Sweep) -> None:
    """The same for a reverse function: the adjoints of its scalar parameters."""
    primal, b = sweep.primal, sweep.b
    b.at_end(sweep.blocks[primal.function.entry])
    b.loc = None
    results = sweep.scalar_results([p for p in primal.formal if carries_derivative(p)])
    b.ret(*([b.emit("tuple", *results)] if len(results) > 1 else results))


def _derivative(sweep: Sweep, index: int) -> Value:
    """The derivative with respect to a parameter: a scalar, or a C-contiguous array of its own."""
    value, b = sweep.primal.params[index], sweep.b
    if isinstance(value.type, TensorType):
        return sweep.scalar_results([value])[0]
    buffer = None
    if value not in sweep.primal.shared:
        (root,) = sweep.primal.points_to.roots(value)
        buffer = sweep.shadows.buffers.get(root)
    if buffer is None or value.type.layout == "F":  # type: ignore[attr-defined]
        # nothing has reached it, or it is in Fortran order as its parameter, or among other shadows, or the caller's
        has_one = sweep.primal.has_shadow(value)
        held = b.emit("load", sweep.shadows.of(value)) if has_one else zeros_like(b, value)
        buffer = b.emit("allocateHeap", *extents(b, value), dtype=value.type.dtype.name)  # type: ignore[attr-defined]
        b.emit("store", held, buffer)
    return buffer
