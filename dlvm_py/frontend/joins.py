"""Types of values where control flow joins (DESIGN section 4).

Scalars join by promotion, arrays of one dtype and rank by forgetting layout and extents that differ,
tuples and records item by item, compile-time constants only if they are the same object. Lists of different lengths
join to one of computed length, if all their items do. What has no common type becomes a Conflict, which is an error
where the name is read.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any

import numpy as np

from dlvm_py.frontend.facts import key
from dlvm_py.frontend.orders import Order
from dlvm_py.frontend.value_types import (
    ANY,
    ArrayType,
    EitherType,
    GrowingType,
    MixedType,
    OtherType,
    RecordType,
    RefType,
    ScalarType,
    SequenceType,
    alternative,
    kinds_of,
    leaf_types,
    one_type,
    same_object,
    words,
)
from dlvm_py.frontend.values import Conflict, Object, Static
from dlvm_py.ir import BOOL, C128, F64, I64, dtype_of

MAX_KINDS = 4  # of values that a name may have on different paths
MAX_OTHERS = 3  # types that a number may have beside the joined one; with more it is of that on all paths


class TwoRegions(Exception):  # noqa: N818 - not an error: the translation begins anew
    """Lists of two regions (`args`) meet in one place: they have to lie in one."""


def join(a: Any, b: Any) -> Any:
    """The least common type, or a Conflict with a reason."""
    if isinstance(a, Conflict) or isinstance(b, Conflict):
        return a if isinstance(a, Conflict) else b
    match a, b:
        case ScalarType(), ScalarType():
            return _join_scalars(a, b)
        case ArrayType(), ArrayType():
            return _join_arrays(a, b)
        case RefType(), RefType():
            if a.region != b.region:
                raise TwoRegions(a.region, b.region)
            return a
        case (OtherType(value=Object()), RefType()) | (RefType(), OtherType(value=Object())):
            return Conflict("a list of its own on one path and one that lies in a list on another")
        case SequenceType(), SequenceType() if len(a.items) == len(b.items):
            items = tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True))
            clash = next((i for i in items if isinstance(i, Conflict)), None)
            return _join_lists(a, b) or clash or SequenceType(items, a.is_list and b.is_list)
        case SequenceType() | GrowingType(), SequenceType() | GrowingType():
            grown = _join_lists(a, b)
            if grown is not None:
                return grown
        case RecordType(), RecordType() if a.kind is b.kind and a.names == b.names:
            items = tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True))
            clash = next((i for i in items if isinstance(i, Conflict)), None)
            return clash or RecordType(a.kind, a.names, items)
        case OtherType(), OtherType() if same_object(a.value, b.value):
            return a
        case EitherType(), EitherType() if len(a.items) == len(b.items):
            items = tuple(map(join, a.items, b.items))
            if not any(isinstance(i, Conflict) for i in items):
                return EitherType(items)
    if all(isinstance(t, OtherType) and isinstance(t.value, Object) for t in (a, b)):
        return Conflict("one list, dict or instance on one path and another one, with other names too, on another")
    return Conflict(f"{words(a)} on one path and {words(b)} on another")


def join_kinds(a: Any, b: Any) -> Any:
    """As `join`; where there is no common type one that says which of them it is, if the values can be kept apart."""
    both = isinstance(a, SequenceType) and isinstance(b, SequenceType)
    if both and len(a.items) == len(b.items) and a.is_list == b.is_list:
        items = tuple(map(join_kinds, a.items, b.items))
        if not any(isinstance(i, Conflict) for i in items):
            return SequenceType(items, a.is_list)
    joined = join(a, b)
    if not isinstance(joined, Conflict) or isinstance(a, Conflict) or isinstance(b, Conflict):
        return joined
    found: list[Any] = []
    for t in (*_kinds(a), *_kinds(b)):
        place = place_of(found, t)
        if place is None:
            found.append(alternative(t))
        else:
            found[place] = alternative(join(found[place], t))
    return EitherType(tuple(found)) if len(found) <= MAX_KINDS and all(map(_is_kept, found)) else joined


def _kinds(t: Any) -> tuple[Any, ...]:
    return t.items if isinstance(t, EitherType) else (t,)


def place_of(kinds: Items[Any], t: Any) -> int | None:
    """The place of the type that takes values of type `t`; None if none does."""
    return next((k for k, kind in enumerate(kinds) if not isinstance(join(kind, t), Conflict)), None)


def _is_kept(t: Any) -> bool:
    """Whether a value of this type can be kept where there may be another one in its place."""
    match t:
        case ScalarType() | ArrayType():
            return True
        case SequenceType() | RecordType() | EitherType():
            return all(map(_is_kept, t.items))
        case OtherType():
            return isinstance(t.value, Static | Object)
    return False


def _join_lists(a: Any, b: Any) -> Any:
    """The joined type of two lists of which one has a computed length, or whose lengths differ; else None."""
    if any(isinstance(t, SequenceType) and not t.is_list for t in (a, b)):
        return None
    if isinstance(a, SequenceType) and isinstance(b, SequenceType) and len(a.items) == len(b.items):
        return None
    item = None
    for t in (a, b):
        for other in t.items if isinstance(t, SequenceType) else (t.item,):
            item = join_items(item, other)
    return item if isinstance(item, Conflict) else GrowingType(item)


def join_items(a: Any, b: Any) -> Any:
    """The joined type of two items of a growing list (None: no item), or a Conflict."""
    if isinstance(a, Conflict) or isinstance(b, Conflict):
        return a if isinstance(a, Conflict) else b
    if a is None or b is None:
        return _row(a if b is None else b)
    a, b = _row(a), _row(b)
    joined = one_type(join(a, b))
    mixed = isinstance(a, ScalarType) and isinstance(b, ScalarType) and a.weak != b.weak
    # np.array of a list takes a Python float for a float64, an int for an int64
    if mixed and isinstance(joined, ScalarType) and joined.dtype.numpy != np.result_type(a.dtype.numpy, b.dtype.numpy):
        return Conflict(f"a list with {words(a)} and {words(b)}", help="give its items one type")
    return joined


def _row(t: Any) -> Any:
    """The type of an item as it is kept in a buffer; a Conflict for what cannot be kept in one."""
    match t:
        case ArrayType():
            return ArrayType(t.dtype, "C", t.shape, t.extents)
        case SequenceType() if not t.is_list:
            items = tuple(map(_row, t.items))
            return next((i for i in items if isinstance(i, Conflict)), None) or SequenceType(items, False)
        case RecordType():
            items = tuple(map(_row, t.items))
            return next((i for i in items if isinstance(i, Conflict)), None) or RecordType(t.kind, t.names, items)
        case MixedType():
            return one_type(t)
        case ScalarType() | RefType() | Conflict() | None:
            return t
    return Conflict(
        f"a list that grows by {words(t)}",
        help="such a list can hold numbers, arrays of one shape and tuples of these: for rows write an array, "
        "np.zeros((m, n)), or append tuples",
    )


def lists_met(a: Any, b: Any) -> list[tuple[Object, Object]]:
    """(list, region) of the places of two types where one has a list of its own and the other one of a region."""
    match a, b:
        case OtherType(value=Object() as one), RefType():
            return [(one, b.region)]
        case RefType(), OtherType(value=Object() as one):
            return [(one, a.region)]
        case (SequenceType(), SequenceType()) | (RecordType(), RecordType()) if len(a.items) == len(b.items):
            return [found for x, y in zip(a.items, b.items, strict=True) for found in lists_met(x, y)]
    return []


def is_list_of_lists(a: Any, b: Any) -> bool:
    """Whether both are types of lists, of which one holds what has an identity, or a reference to a list."""
    if not all(isinstance(t, GrowingType) or (isinstance(t, SequenceType) and t.is_list) for t in (a, b)):
        return False
    return any(map(_has_objects, (a, b)))


def _has_objects(t: Any) -> bool:
    match t:
        case SequenceType() | RecordType():
            return any(map(_has_objects, t.items))
        case GrowingType():
            return _has_objects(t.item)
    return isinstance(t, RefType) or (isinstance(t, OtherType) and isinstance(t.value, Object))


def _join_scalars(a: ScalarType, b: ScalarType) -> Any:
    if a == b:
        return a
    joined = _promoted(one_type(a), one_type(b))
    if not isinstance(joined, ScalarType):
        return joined
    others = {*kinds_of(a), *kinds_of(b)} - {joined}
    if not 0 < len(others) <= MAX_OTHERS:
        return joined
    return MixedType(joined.dtype, joined.weak, tuple(sorted(others, key=_order)))


def _order(t: ScalarType) -> tuple[str, bool]:
    return t.dtype.name, t.weak


def _promoted(a: ScalarType, b: ScalarType) -> Any:
    if a == b:
        return a
    weak = a.weak and b.weak
    if weak:
        return ScalarType(next((d for d in (C128, F64) if d in (a.dtype, b.dtype)), I64), True)
    sample = [_sample(t) for t in (a, b)]
    dtype = dtype_of(np.result_type(*sample))
    if dtype is None:
        return Conflict(f"{words(a)} on one path and {words(b)} on another")
    return ScalarType(dtype, False)


def _sample(t: ScalarType) -> Any:
    if t.weak and t.dtype is not BOOL:
        return {"i": 0, "f": 0.0, "c": 0j}[t.dtype.kind]
    return t.dtype.numpy


def _join_arrays(a: ArrayType, b: ArrayType) -> Any:
    if a.dtype is not b.dtype or len(a.shape) != len(b.shape):
        return Conflict(f"{words(a)} on one path and {words(b)} on another")
    shape = tuple(m if m == n else None for m, n in zip(a.shape, b.shape, strict=True))
    extents = tuple(map(_join_extent, a.extents, b.extents))
    layout, order = a.layout, a.order if a.order is b.order else Order.UNKNOWN
    if layout != b.layout:
        layout, order = "S", Order.ROWS
    return ArrayType(a.dtype, layout, shape, extents, a.copied or b.copied, order)


def _join_extent(a: Any, b: Any) -> Any:
    if a is ANY or b is ANY:
        return b if a is ANY else a
    return a if a is not None and b is not None and key(a) == key(b) else None


def join_for_caller(a: Any, b: Any) -> Any:
    """As `join`, of what the caller lends: its numbers may not become others on a path that leaves them alone."""
    joined = one_type(join(a, b))
    for t in (a, b):
        if isinstance(joined, GrowingType):
            items = t.items if isinstance(t, SequenceType) else (getattr(t, "item", None),)
            pairs = [
                p for i in items if i is not None for p in zip(leaf_types(i), leaf_types(joined.item), strict=False)
            ]
        else:
            pairs = list(zip(leaf_types(t), leaf_types(joined), strict=False))
        for x, y in pairs:
            if isinstance(x, ScalarType) and isinstance(y, ScalarType) and x != y:
                return Conflict(f"{words(a)} on one path and {words(b)} on another, with {words(x)} and {words(y)}")
    return joined


def fits_for_caller(held: Any, value: Any) -> bool:
    """Whether numbers of one type stay what they are in the place of those of another, for what the caller lends."""
    pairs = zip(leaf_types(held), leaf_types(value), strict=False)
    return all(x == y for x, y in pairs if isinstance(x, ScalarType) and isinstance(y, ScalarType))
