"""The laws of index ops and extents that constant folding applies: the table VIEWS, by op name.

Index ops are stated in index terms, so they compose: a transpose of a transpose is one transpose, an element
of an element is one element with more keys, a section that takes all is its base. An `extent` moves to what
states it: the operand of the allocation, the count of the section, the array below the expression. So
extents that come from one place become one value, which CSE and the folding of comparisons then see.

The rules have the form of those in identities.py, and the caller drops a value of another type.
"""

from __future__ import annotations

from typing import TypeGuard

from dlvm_py.ir import (
    VOID,
    Block,
    Builder,
    Function,
    Instruction,
    Kind,
    PointerType,
    TensorType,
    Value,
    literal,
)
from dlvm_py.ir.analysis.extents import extent_at
from dlvm_py.ir.analysis.places import section_parts
from dlvm_py.ir.value import integer
from dlvm_py.transforms.identities import Rule, become
from dlvm_py.transforms.literals import splat
from dlvm_py.transforms.substitution import is_extent


def _shape(value: Value) -> tuple[int | None, ...]:
    assert isinstance(value.type, TensorType | PointerType)
    return value.type.shape


def _axes(i: Instruction) -> tuple[int, ...]:
    """The permutation of a transpose: result axis k is operand axis axes[k]."""
    axes = i.attrs.get("axes")
    return tuple(axes) if axes is not None else tuple(range(len(_shape(i))))[::-1]


def _is_number_everywhere(x: Value) -> TypeGuard[Instruction]:
    """Whether all elements of an array are one scalar, whose views are such arrays of their own."""
    return isinstance(x, Instruction) and splat(x) is not x


def _transpose(i: Instruction) -> Value | None:
    (x,) = i.operands
    axes = _axes(i)
    if axes == tuple(range(len(axes))):
        return x
    if _is_number_everywhere(x):
        number, *extents = x.operands
        return become(i, "broadcast", [number, *(extents[a] for a in axes)])
    if isinstance(x, Instruction) and x.op.name == "transpose":
        inner = _axes(x)
        return become(i, "transpose", list(x.operands), axes=tuple(inner[a] for a in axes))
    return None


def _pad_or_squeeze(i: Instruction) -> Value | None:
    (x,) = i.operands
    inverse = "squeezeShape" if i.op.name == "padShape" else "padShape"
    if isinstance(x, Instruction) and x.op.name == inverse and x.attrs["at"] == i.attrs["at"]:
        return x.operands[0]
    if _is_number_everywhere(x) and len(x.operands) > 2:
        number, *extents = x.operands
        if i.op.name == "padShape":
            extents.insert(i.attrs["at"], literal(1))
        else:
            del extents[i.attrs["at"]]
        return become(i, "broadcast", [number, *extents])
    return None


def _shape_cast(i: Instruction) -> Value | None:
    x, *extents = i.operands
    # with at most one extent unknown, equal types leave no other shape for the same number of elements
    if x.type == i.type and _shape(x).count(None) <= 1 and 0 not in _shape(x):
        return x
    if len(extents) == len(_shape(x)) and all(_takes_all(n, x, k) for k, n in enumerate(extents)):
        return x
    if _is_number_everywhere(x):
        return become(i, "broadcast", [x.operands[0], *extents])
    if isinstance(x, Instruction) and x.op.name == "shapeCast":
        return become(i, "shapeCast", [x.operands[0], *extents])
    return None


def _takes_all(count: Value, base: Value, axis: int) -> bool:
    """Whether `count` is the extent of `base` along `axis`."""
    known = _shape(base)[axis]
    return integer(count) == known if known is not None else is_extent(count, base, axis)


def _section(i: Instruction) -> Value | None:
    base = i.operands[0]
    whole = all(
        integer(s) == 0 and integer(t) == 1 and _takes_all(n, base, k)
        for k, (s, n, t) in enumerate(zip(*section_parts(i), strict=True))
    )
    return base if whole else None


def _pointer_cast(i: Instruction) -> Value | None:
    (x,) = i.operands
    if x.type == i.type:
        return x
    if isinstance(x, Instruction) and x.op.name == "pointerCast":
        return become(i, "pointerCast", list(x.operands), to=i.attrs["to"])
    return None


def _element(i: Instruction) -> Value | None:
    """An element of a view, as an element of the view's base, where that takes no new arithmetic."""
    view, *keys = i.operands
    if not isinstance(view, Instruction) or (i.attrs.get("path") and view.op.name != "elementPointer"):
        return None
    base = view.operands[0] if view.op.kind is Kind.INDEX else view
    match view.op.name:
        case "elementPointer":
            paths = [v.attrs.get("path") or ("",) * len(v.operands[1:]) for v in (view, i)]
            path = {"path": (*paths[0], *paths[1])} if any(map(any, paths)) else {}
            return become(i, "elementPointer", [base, *view.operands[1:], *keys], **path)
        case "pointerCast":
            return become(i, "elementPointer", [base, *keys])
        case "transpose" if len(keys) == len(_axes(view)):
            moved = dict(zip(_axes(view), keys, strict=True))
            return become(i, "elementPointer", [base, *(moved[k] for k in range(len(keys)))])
        case "padShape" if len(keys) > view.attrs["at"]:
            # the key of an axis of extent 1 can only be 0
            del keys[view.attrs["at"]]
            return become(i, "elementPointer", [base, *keys]) if keys else base
        case "squeezeShape" if len(keys) >= view.attrs["at"]:
            keys.insert(view.attrs["at"], literal(0))
            return become(i, "elementPointer", [base, *keys])
    return None


def _access(i: Instruction) -> Value | None:
    """Loads and stores do not need a cast that changes what is said of the layout only."""
    *values, p = i.operands
    if not isinstance(p, Instruction) or p.op.name != "pointerCast":
        return None
    (base,) = p.operands
    assert isinstance(p.type, PointerType) and isinstance(base.type, PointerType)
    return become(i, i.op, [*values, base]) if base.type.pointee == p.type.pointee else None


# -- extents -----------------------------------------------------------------------------------------


def _extent(i: Instruction) -> Value | None:
    (x,) = i.operands
    # the walk to the source of an extent builds an instruction where it ends: here on a scratch block
    scratch = Block()
    source = extent_at(Builder(Function("scratch", VOID), scratch), x, i.attrs["at"])
    if not scratch.instructions:
        return source
    (asked,) = scratch.instructions
    (base,) = asked.operands
    return None if base is x else become(i, "extent", [base], at=asked.attrs["at"])


VIEWS: dict[str, Rule] = {
    "transpose": _transpose,
    "padShape": _pad_or_squeeze,
    "squeezeShape": _pad_or_squeeze,
    "shapeCast": _shape_cast,
    "section": _section,
    "pointerCast": _pointer_cast,
    "elementPointer": _element,
    "load": _access,
    "store": _access,
    "extent": _extent,
}
