"""How a tangent looks beside its value, and the rules of the op rows that give it: one direction at a time.

`Single` is the ordinary case, in which a tangent has the type of its value. `lanes.Lanes` carries several at once; what
differs is here: the types, the zeros, the memory, the views and the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.errors import NotDifferentiable
from dlvm_py.ir import Builder, Expr, Instruction, Type, Value, literal, scalar
from dlvm_py.ir.op import LINEAR, MULTILINEAR
from dlvm_py.transforms.differentiate.activity import carries_derivative
from dlvm_py.transforms.differentiate.outputs import of_shape, seed_type
from dlvm_py.transforms.differentiate.rules import scaled
from dlvm_py.transforms.differentiate.shadows import Alike, filled, zeros_like

OF_ANOTHER_SHAPE = "the tangent does not have the shape of its argument"


class NoLanes(Exception):
    """This function has no tangent of several directions: it is differentiated in one after another."""


class Single(Alike):
    """One tangent, of the type of its value."""

    def parameter(self, type: Type) -> Type:
        """The type of the parameter that brings the tangent of one of this type."""
        return seed_type(type)

    def fitted(self, b: Builder, found: Value, like: Value) -> Value:
        """A tangent with exactly the type of that of `like`: a rule may have left out a stretched axis."""
        return found if found.type == like.type else filled(b, found, like)

    def variable(self, b: Builder, arg: Value) -> Value | None:
        """Memory in which the tangent of an argument of a block comes in; None: it is an argument as well."""
        return None

    def given(self, b: Builder, tangent: Value, root: Value) -> Value:
        """The contents of the shadow of a parameter, from the tangent that the caller gave."""
        return b.emit("load", of_shape(b, tangent, root, OF_ANOTHER_SHAPE))

    def by_rule(self, b: Builder, i: Instruction, tangents: list[Value | None]) -> Value | None:
        """The tangent of `i` from those of its operands (None: zero).

        Raises: NotDifferentiable DL611 where the row has no rule for this case.
        """
        row = i.op
        if row.tangent == LINEAR:
            replaced = [
                (zeros_like(b, o) if t is None else t) if carries_derivative(o) else o
                for o, t in zip(i.operands, tangents, strict=True)
            ]
            return b.emit(row, *replaced, **i.attrs)
        if row.tangent == MULTILINEAR:
            parts = [
                b.emit(row, *i.operands[:k], t, *i.operands[k + 1 :], **i.attrs)
                for k, t in enumerate(tangents)
                if t is not None
            ]
            return total(b, parts)
        y, operands = b.expr(i), [b.expr(o) for o in i.operands]
        if row.partials is not None:
            partials = row.partials(y, *operands)
            products = [scaled(b.expr(t), p, row.singular) for t, p in zip(tangents, partials, strict=True) if t]
            return total(b, [p for p in products if p is not None])
        rule = tangent_rule(i)
        return by_function(
            i, lambda: rule([None if t is None else b.expr(t) for t in tangents], y, *operands, **i.attrs)
        )


SINGLE = Single()


def tangent_rule(i: Instruction) -> Callable[..., Any]:
    """The rule of its row, if it is a function. Raises: NotDifferentiable DL611."""
    if i.op.tangent is None or isinstance(i.op.tangent, str):
        raise NotDifferentiable(f"'{i.op.name}' has no tangent rule", i.loc, code="DL611")
    return i.op.tangent


def by_function(i: Instruction, rule: Callable[[], Any]) -> Value:
    """What a rule gives, as a value. Raises: NotDifferentiable DL611 where it has none for this case."""
    try:
        found = rule()
    except NotImplementedError as e:
        raise NotDifferentiable(f"{e} is not supported", i.loc, code="DL611") from e
    return found.value if isinstance(found, Expr) else literal(found, scalar(i.type.dtype))  # type: ignore[attr-defined]


def total(b: Builder, parts: list[Value]) -> Value | None:
    """The sum of tangents; None of none."""
    found: Value | None = None
    for part in parts:
        found = part if found is None else b.emit("add", found, part)
    return found
