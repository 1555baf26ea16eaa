"""Adjoints of value ops, from the derivative form of their rows.

With y = op(x₀, x₁, …) and y_adj: partials give xₖ_adj += y_adj · conj(∂y/∂xₖ), conj for complex numbers (ops with
partials are holomorphic, and the adjoint of z is ∂/∂(re z) + i ∂/∂(im z)). A partial of 1 or −1 needs no product;
an op whose partials can be infinite multiplies by `scaleSeed`, in which a zero seed wins. Other rows give the
adjoints themselves. Here contributions are brought to the shape of their operand: what the op has stretched is
summed. The rules refer to primal values freely; what of it is really used is kept later.

What a stretched divisor gets is divided after it is summed, once for all elements:

    %p = divide %y: <n x f64>, %b: f64              %t = scaleSeed %s: <n x f64>, %y: <n x f64>
    %m = negate %p: <n x f64>                  =>   %u = reduce %t: <n x f64> by add init 0.0: f64 along 0
    %t = scaleSeed %s: <n x f64>, %m: <n x f64>     %r = divide 1.0: f64, %b: f64
    %u = reduce %t: <n x f64> by add ...            %m = negate %r: f64
                                                    %v = scaleSeed %u: f64, %m: f64
"""

from __future__ import annotations

from typing import Any

from dlvm_py.errors import NotDifferentiable
from dlvm_py.ir import OPS, Builder, Expr, Instruction, Literal, PointerType, TensorType, Type, Value, literal, scalar
from dlvm_py.ir.ops.elementwise import conjugate_of
from dlvm_py.transforms.differentiate.arguments import extents


def contributions(b: Builder, i: Instruction, seed: Value, wanted: list[bool], guarded: bool) -> list[Value | None]:
    """The adjoint that each operand of `i` gets from `seed`, in the operand's shape; None for no flow.

    `guarded`: the result may be left out by a `select`, so a zero seed wins over any partial, singular or not
    (np.where(x > 0, np.log(x) * y, 0) must not give y the derivative 0 · NaN).

    Raises: NotDifferentiable DL611 where the row has no rule for this case.
    """
    y, s = b.expr(i), b.expr(seed)
    operands = [b.expr(o) for o in i.operands]
    try:
        raw = _apply(i, s, y, operands, wanted, guarded)
    except NotImplementedError as e:
        raise NotDifferentiable(f"{e} is not supported", i.loc, code="DL611") from e
    return [
        _fit(b, r, o) if want and r is not None else None for r, o, want in zip(raw, i.operands, wanted, strict=True)
    ]


def _apply(
    i: Instruction, s: Expr, y: Expr, operands: list[Expr], wanted: list[bool], guarded: bool
) -> list[Value | None]:
    row = i.op
    if row.partials is not None:
        partials = row.partials(y, *operands)
        guarded = row.singular or guarded
        return [_times(s, p, o, guarded) if w else None for p, o, w in zip(partials, operands, wanted, strict=True)]
    if row.adjoint is None:
        raise NotImplementedError(f"the derivative of {row.name} here")
    return [_value(r) for r in row.adjoint(s, y, *operands, **i.attrs)]


def _times(seed: Expr, partial: Any, operand: Expr, guarded: bool) -> Value | None:
    """seed · conj(partial); summed to the shape of the operand already where this divides by it."""
    if not isinstance(partial, Expr):
        return scaled(seed, partial, guarded)
    number = _divided_by(partial.value, operand.value)
    if number is None or not _is_stretched(operand.value.type, number.type):
        return scaled(seed, conjugate_of(partial), guarded)
    b = seed.builder
    total = scaled(seed, conjugate_of(b.expr(number)), guarded)
    assert total is not None
    return scaled(b.expr(_fit(b, total, operand.value)), conjugate_of(-(1.0 / operand)), guarded)


def _divided_by(partial: Value, operand: Value) -> Value | None:
    """The x of a partial that is -(x / operand)."""
    for name in ("negate", "divide"):
        if not isinstance(partial, Instruction) or partial.op.name != name:
            return None
        quotient, partial = partial, partial.operands[0]
    return partial if quotient.operands[1] is operand else None


def _is_stretched(type: Type, to: Type) -> bool:
    """Whether a number, or an array with an extent that is stated to be 1, has fewer elements than an array."""
    assert isinstance(type, TensorType) and isinstance(to, TensorType)
    if type.rank != to.rank:
        return True
    return any(n == 1 != m for n, m in zip(type.shape, to.shape, strict=True))


def _value(x: Any) -> Value | None:
    return x.value if isinstance(x, Expr) else x


def scaled(seed: Expr, partial: Any, singular: bool) -> Value | None:
    """seed · partial; None where nothing flows."""
    if partial is None:
        return None
    if not isinstance(partial, Expr):
        if partial == 1:
            return seed.value
        return (-seed if partial == -1 else seed * partial).value
    if _is_one(seed.value):
        return partial.value
    return (OPS["scaleSeed"](seed, partial) if singular else seed * partial).value


def _is_one(value: Value) -> bool:
    return isinstance(value, Literal) and value.value == 1


def _fit(b: Builder, contribution: Value, operand: Value) -> Value:
    """Sum or stretch a contribution to the shape of its operand."""
    have, want = contribution.type, operand.type
    if isinstance(want, PointerType):  # of a view
        want = want.pointee
    assert isinstance(have, TensorType) and isinstance(want, TensorType)
    zero = literal(0.0, scalar(have.dtype))
    if have.rank and not want.rank:
        return b.emit("reduce", contribution, zero, by="add", axes=tuple(range(have.rank)))
    if want.rank and not have.rank:
        return b.emit("broadcast", contribution, *extents(b, operand))
    # only what a type states to be 1 has been stretched
    axes = tuple(k for k in range(want.rank) if want.shape[k] == 1 and have.shape[k] != 1)
    if not axes:
        return contribution
    contribution = b.emit("reduce", contribution, zero, by="add", axes=axes)
    for axis in axes:
        contribution = b.emit("padShape", contribution, at=axis)
    return contribution
