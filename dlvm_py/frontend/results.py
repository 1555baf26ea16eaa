"""What a function gives its caller: the spec of a value, and the IR values that it is made of.

`(x, [i, j])` is `TupleSpec((ArraySpec, RecordSpec(list, ...)))` of the values x, i, j.
"""

from __future__ import annotations

from typing import Any

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import objects, tables
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.growing import parts_of, section_of
from dlvm_py.frontend.joined_values import as_growing
from dlvm_py.frontend.library import hashing
from dlvm_py.frontend.regions import as_table
from dlvm_py.frontend.value_types import ArrayType, RecordType, RefType, ScalarType, SequenceType, leaf_types
from dlvm_py.frontend.values import (
    Array,
    Either,
    Growing,
    KnownSet,
    Mixed,
    Object,
    Place,
    Record,
    Ref,
    Scalar,
    Sequence,
    Static,
    describe,
)
from dlvm_py.ir import VOID, PointerType, Value
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    EitherSpec,
    GrowingSpec,
    Pairs,
    PlaceSpec,
    RecordShape,
    RecordSpec,
    ScalarSpec,
    Spec,
    TupleSpec,
)


def spec_of(e: Emitter, value: Any, leaves: list[Value]) -> Spec:
    """The spec of a value that is returned; what it is made of comes behind `leaves`."""
    lent = None if e.session.loan is None else e.session.loan.place_of(value)
    match value if lent is None else lent:
        case Mixed() if not e.session.is_joined:
            return _number(e, value, leaves)
        case Scalar():
            leaves.append(value.value)
            return ScalarSpec(value.dtype.name, value.weak)
        case Array():
            leaves.append(value.pointer)
            ones = tuple(n == 1 for n in value.type.shape)
            return ArraySpec(value.dtype.name, ones, value.type.layout)
        case Sequence():
            items = tuple(spec_of(e, i, leaves) for i in value.items)
            return RecordSpec(list, (), items) if value.is_list else TupleSpec(items)
        case Record() if value.kind is hashing.Set:
            return RecordSpec(set, ("items",), (spec_of(e, value.get("items"), leaves),))
        case Static(value=KnownSet(items=items)):
            made = Sequence(tuple(e.session.lift(e, v, "an item of a set") for v in items), is_list=True)
            return RecordSpec(set, ("items",), (spec_of(e, made, leaves),))
        case Object() if tables.held_by(e, value) is not None:
            return spec_of(e, tables.settled(e, value), leaves)
        case Record() if value.kind is hashing.Dict:
            parts = (spec_of(e, value.get(n), leaves) for n in ("items", "values"))
            return RecordSpec(Pairs, ("keys", "values"), tuple(parts))
        case Record():
            return RecordSpec(value.kind, value.names, tuple(spec_of(e, i, leaves) for i in value.items))
        case Growing():
            return _growing(e, value, leaves)
        case Object() | Ref():
            found = objects.target(e, value)
            if isinstance(found, Ref) and e.session.loan is not None and e.session.loan.known(found.region)[1]:
                alone = as_growing(e, Sequence((found,), is_list=True), RefType(found.region))
                spec = _growing(e, alone, leaves)
                return GrowingSpec(spec.columns, spec.item, is_item=True)
            return spec_of(e, objects.contents(e, value), leaves)
        case Static(value=Place(place)):
            return PlaceSpec(place)
        case Static() if value.value is None or isinstance(value.value, str):
            return ConstantSpec(value.value)
        case Either():
            return _of_kinds(e, value, leaves)
    e.error(
        UnsupportedSyntax,
        f"the caller would get {describe(value)}: what can be returned are numbers, arrays, strings, None, and "
        "tuples, lists, dicts, named tuples and dataclasses of these",
    )


def _number(e: Emitter, value: Mixed, leaves: list[Value]) -> Spec:
    """A number of several types as a result: which one it has, and the number as one of each."""
    place: Value = i64(len(value.others))
    for k, other in reversed(list(enumerate(value.others))):
        place = e.choose(other.flag, i64(k), place)
    scalars = [*(other.scalar for other in value.others), value.joined]
    leaves += [place, *(s.value for s in scalars)]
    return EitherSpec(tuple(ScalarSpec(s.dtype.name, s.weak) for s in scalars))


def _of_kinds(e: Emitter, value: Either, leaves: list[Value]) -> Spec:
    """A value of several kinds as a result: which one it is, and the value as one of each."""
    if e.session.is_library:
        e.error(
            TypeMismatch,
            f"the result is {describe(value)}, on different paths: a library gives values of one type",
            help="give both paths values of one type",
        )
    place, base, found = value.place, 0, []
    specs: list[Spec] = []
    for k, part in enumerate(value.values):
        inner: list[Value] = []
        spec = spec_of(e, part, inner)
        here = e.compare("equal", value.place, i64(k))
        if isinstance(spec, EitherSpec):  # a number of several types: its place counts from the first of them on
            place = e.choose(here, e.offset(inner.pop(0), base), place)
            specs += spec.items
        else:
            place = e.choose(here, i64(base), place)
            specs.append(spec)
        found += inner
        base = len(specs)
    leaves += [place, *found]
    return EitherSpec(tuple(specs))


def _growing(e: Emitter, value: Growing, leaves: list[Value]) -> GrowingSpec:
    """A list of computed length is returned as arrays, which the call takes apart."""
    specs: list[ArraySpec] = []

    def show(held: Growing, columns: slice) -> None:
        for buffer in held.buffers[columns]:
            rows = section_of(e, buffer, i64(0), held.length, i64(1))
            leaves.append(rows)
            assert isinstance(rows.type, PointerType)
            specs.append(ArraySpec(buffer.dtype.name, tuple(n == 1 for n in rows.type.shape), rows.type.layout))

    def write(held: Growing) -> None:
        for k, leaf in enumerate(leaf_types(held.item)):
            show(held, slice(k, k + 1))
            if isinstance(leaf, RefType):  # behind the numbers of lists the region that has them
                table, data = parts_of(e, leaf.region)
                show(as_table(e, table), slice(0, 2))
                write(data)

    write(value)
    return GrowingSpec(tuple(specs), _item_shape(e, value.item))


def _item_shape(e: Emitter, item: Any) -> Any:
    """How an item of a growing list is made of its leaves: see GrowingSpec."""
    match item:
        case RefType():
            loan = e.session.loan
            known, name = ((), "") if loan is None else loan.known(item.region)
            return RecordShape(list, (_item_shape(e, parts_of(e, item.region)[1].item),), known, name)
        case ScalarType():
            return "weak" if item.weak else "scalar"
        case ArrayType():
            return "array"
        case RecordType():
            return RecordShape(item.kind, tuple(_item_shape(e, i) for i in item.items))
        case SequenceType():
            return RecordShape(tuple, tuple(_item_shape(e, i) for i in item.items))
    return RecordShape(tuple, ())


def give(e: Emitter, leaves: list[Value]) -> None:
    """`return` of nothing, one value, or a tuple of the leaves."""
    if len(leaves) > 1:
        value = e.emit("tuple", *leaves)
        e.function.result = value.type
        e.builder.ret(value)
    else:
        e.function.result = leaves[0].type if leaves else VOID
        e.builder.ret(*leaves)
