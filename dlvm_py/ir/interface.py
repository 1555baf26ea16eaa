"""How a call looks from Python: specs of arguments and results, as plain data with a JSON form.

A *spec* is the part of an argument that a compiled version is specialised on. Leaves (scalars and
arrays) become IR parameters in order; tuples, lists, dicts, named tuples and dataclass instances are flattened;
constants become no parameter.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.frozen import Frozen
from dlvm_py.ir.types import DTYPES, DType, PointerType, TensorType, Type, scalar


class ScalarSpec(Frozen):
    """A scalar: `weak` for Python's bool/int/float, else a NumPy scalar of that dtype."""

    dtype: str
    weak: bool

    def ir_type(self) -> Type:
        """The IR parameter type."""
        return scalar(DTYPES[self.dtype])


class GeneratorSpec(ScalarSpec):
    """A `numpy.random.Generator`: the address of its bit generator's C interface, `bitgen_t`."""

    dtype: str = "u64"
    weak: bool = False


def is_generator(value: object) -> bool:
    """Whether a value is a `numpy.random.Generator`."""
    return is_of_random(value, "Generator")


def is_of_random(value: object, name: str) -> bool:
    """Whether a value is of the class of this name of `numpy.random`, which is imported where there is such a value."""
    random = sys.modules.get("numpy.random")
    return random is not None and type(value) is getattr(random, name)


class ArraySpec(Frozen):
    """An ndarray: dtype, layout ("C", "F", "S") and, an axis, whether its extent is 1.

    As an argument, an axis that is not `ones` has an extent that is not 1 (but may be 0).
    As a result, `ones` says nothing.
    """

    dtype: str
    ones: tuple[bool, ...]
    layout: str = "C"

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.ones)

    def ir_type(self) -> Type:
        """The IR parameter type: a pointer to a strided tensor."""
        shape = tuple(1 if one else None for one in self.ones)
        return PointerType(TensorType(shape, DTYPES[self.dtype]), self.layout)


class TupleSpec(Frozen):
    """A tuple of specs."""

    items: tuple[Spec, ...]


class Pairs:
    """The class of a RecordSpec that stands for a dict, as a result: a list of its keys, and one of its values."""


class RecordSpec(Frozen):
    """A list, a dict with string keys, a named tuple or a dataclass instance: the specs of what it holds, in order.

    `kind` is its class (list, dict, or the user's); a list has no names.
    """

    kind: type
    names: tuple[str, ...]
    items: tuple[Spec, ...]


class ListSpec(Frozen):
    """As an argument, a list of numbers of one type that is too long for a version of its own length: an array."""

    item: ScalarSpec

    @property
    def kind(self) -> type:
        """Its class."""
        return list

    @property
    def leaf(self) -> ArraySpec:
        """The array."""
        return ArraySpec(self.item.dtype, (False,))


class TableSpec(Frozen):
    """As an argument, a dict whose keys are numbers of one type, or tuples of such: a column a part of the keys.

    Its columns may have one item: `ones` says nothing of them. `is_tuple`: whether the keys are tuples, of as many
    parts as there are `keys`.
    """

    keys: tuple[ScalarSpec, ...]
    is_tuple: bool
    value: ScalarSpec

    @property
    def kind(self) -> type:
        """Its class."""
        return dict

    @property
    def columns(self) -> tuple[ArraySpec, ...]:
        """The arrays: the parts of the keys, then the values."""
        return tuple(ArraySpec(s.dtype, (False,)) for s in (*self.keys, self.value))


class RecordShape(Frozen):
    """How a tuple, named tuple or list in a growing list is made: see GrowingSpec.

    known: of a list in a growing list, the places of the caller's lists (see PlaceSpec), by the numbers that they have.
    region: what tells the numbers from those of other lists, where lists of one number are one object.
    """

    kind: type
    items: tuple[Any, ...]
    known: tuple[tuple[int, tuple[int, ...]], ...] = ()
    region: str = ""


class GrowingSpec(Frozen):
    """A list of computed length, as a result: one array a column, with the items along its first axis.

    `item` says how an item is made of the columns: "weak" (a Python number), "scalar" (a NumPy scalar), "array", or a
    RecordShape of these. One of `list` has three columns, and then those of the items of all lists, one behind the
    other: the numbers of the lists that are the items; a list, the place of its first item, and its length.
    is_item: the only item stands for the list.
    """

    columns: tuple[ArraySpec, ...]
    item: Any
    is_item: bool = False

    @property
    def is_of_caller(self) -> bool:
        """Whether lists of the caller may be in it."""
        return _is_of_caller(self.item)


def _is_of_caller(item: Any) -> bool:
    return isinstance(item, RecordShape) and (bool(item.region) or any(map(_is_of_caller, item.items)))


class ConstantSpec(Frozen):
    """A compile-time constant that is no number: None, a string, a function, a dtype.

    `value` is the object itself; it is compared by identity, then by ==. In JSON only its repr stands.
    """

    value: Any


class PlaceSpec(Frozen):
    """As a part of what a call gives: the very object that stands at a place of its arguments.

    `place`: the number of the parameter, then, a level, the number of the item.
    """

    place: tuple[int, ...]


class EitherSpec(Frozen):
    """As a part of what a call gives, a value that has one of several types: behind its place among `items`, all."""

    items: tuple[Spec, ...]

    @property
    def leaves(self) -> list[ScalarSpec | ArraySpec]:
        """The place, and the value as one of each type, of which the others say nothing."""
        return [ScalarSpec("i64", True), *(leaf for item in self.items for leaf in leaves(item))]

    @property
    def is_flat(self) -> bool:
        """Whether each of them is one object without parts."""
        return all(isinstance(item, ScalarSpec | ArraySpec | ConstantSpec) for item in self.items)


Spec = (
    ScalarSpec | ArraySpec | TupleSpec | RecordSpec | GrowingSpec | ConstantSpec | PlaceSpec | EitherSpec | ListSpec
    | TableSpec
)  # fmt: skip


class Raise(Frozen):
    """A place that raises after the caller's lists, dicts or instances may have been changed.

    operands: of the message, (number among `Effects.operands`, flavour of ir/text.py); variant: what has been changed.
    """

    exception: str
    message: str
    operands: tuple[tuple[int, str], ...]
    variant: int
    loc: tuple[Any, ...] | None


class Effects(Frozen):
    """What a call does to lists, dicts and instances of its caller: see frontend/lent.py.

    The result of the kernel is a TupleSpec of what is returned, an int (0: returned as variant `returned`, k + 1:
    `raises[k]` happened), the operands of messages, and then, a variant, what each changed object holds then.
    """

    operands: tuple[Spec, ...]
    variants: tuple[tuple[tuple[int, ...], ...], ...]  # the places of what each one changes
    returned: int
    raises: tuple[Raise, ...]

    def to_json(self) -> Any:
        """A JSON value; the specs stand in the kernel's result."""
        raises = [[r.exception, r.message, r.operands, r.variant, r.loc] for r in self.raises]
        return [self.variants, self.returned, raises]

    @staticmethod
    def from_json(data: Any, result: Spec) -> Effects | None:
        """The effects of a JSON value and of the kernel's result."""
        if data is None:
            return None
        assert isinstance(result, TupleSpec) and isinstance(result.items[2], TupleSpec)
        variants, returned, raises = data
        found = (
            Raise(e, m, tuple((n, f) for n, f in operands), variant, tuple(loc) if loc else None)
            for e, m, operands, variant, loc in raises
        )
        places = tuple(tuple(tuple(place) for place in variant) for variant in variants)
        return Effects(result.items[2].items, places, returned, tuple(found))


def leaves(spec: Spec) -> list[ScalarSpec | ArraySpec]:
    """The scalars and arrays of a spec, left to right: one IR value each."""
    if isinstance(spec, TupleSpec | RecordSpec):
        return [leaf for item in spec.items for leaf in leaves(item)]
    if isinstance(spec, GrowingSpec | TableSpec):
        return list(spec.columns)
    if isinstance(spec, EitherSpec):
        return spec.leaves
    if isinstance(spec, ListSpec):
        return [spec.leaf]
    return [] if isinstance(spec, ConstantSpec | PlaceSpec) else [spec]


def to_json(spec: Spec, classes: Sequence[type] = ()) -> Any:
    """A JSON value of a spec; a class by its place in `classes`. Of constants None and strings survive the round trip.

    Raises: ValueError for a class that is not among `classes`.
    """
    match spec:
        case GeneratorSpec():
            return ["generator"]
        case ScalarSpec(dtype, weak):
            return ["scalar", dtype, weak]
        case ArraySpec(dtype, ones, layout):
            return ["array", dtype, list(ones), layout]
        case TupleSpec(items):
            return ["tuple", [to_json(i, classes) for i in items]]
        case RecordSpec(kind, names, items):
            return ["record", _class_number(kind, classes), list(names), [to_json(i, classes) for i in items]]
        case GrowingSpec(columns, item, is_item):
            return ["growing", [to_json(c) for c in columns], _shape_to_json(item, classes), is_item]
        case ListSpec(item):
            return ["list", to_json(item)]
        case TableSpec(keys, is_tuple, value):
            return ["table", [to_json(k) for k in keys], is_tuple, to_json(value)]
        case EitherSpec(items):
            return ["either", [to_json(i, classes) for i in items]]
        case PlaceSpec(place):
            return ["place", list(place)]
        case ConstantSpec(str() as text):
            return ["text", text]
        case ConstantSpec(value):
            return ["constant", repr(value)]
    raise TypeError(f"no spec: {spec!r}")


# classes that are known by their names: Python's, and the named tuples that NumPy returns
_NAMED = (np.linalg.slogdet, np.linalg.eigh, np.linalg.eig, np.linalg.svd, np.linalg.qr)
_NEWER = tuple(getattr(np, n) for n in ("unique_counts", "unique_inverse", "unique_all") if hasattr(np, n))
_BUILT_IN = (list, dict, tuple, set, Pairs, *(type(f(np.ones((1, 1)))) for f in (*_NAMED, *_NEWER)))


def _class_number(kind: type, classes: Sequence[type]) -> int | str:
    return kind.__name__ if kind in _BUILT_IN else list(classes).index(kind)


def _class_of(number: int | str, classes: Sequence[type]) -> type:
    return next(c for c in _BUILT_IN if c.__name__ == number) if isinstance(number, str) else classes[number]


def _shape_to_json(item: Any, classes: Sequence[type]) -> Any:
    if isinstance(item, str):
        return item
    return [
        _class_number(item.kind, classes),
        [_shape_to_json(i, classes) for i in item.items],
        item.known,
        item.region,
    ]


def _shape_from_json(data: Any, classes: Sequence[type]) -> Any:
    if isinstance(data, str):
        return data
    number, items, known, region = data
    places = tuple((k, tuple(place)) for k, place in known)
    return RecordShape(_class_of(number, classes), tuple(_shape_from_json(i, classes) for i in items), places, region)


def from_json(data: Any, classes: Sequence[type] = ()) -> Spec:
    """The spec of a JSON value (results of functions: constants other than None and strings are refused)."""
    match data:
        case ["generator"]:
            return GeneratorSpec()
        case ["scalar", dtype, weak]:
            return ScalarSpec(dtype, weak)
        case ["array", dtype, ones, layout]:
            return ArraySpec(dtype, tuple(ones), layout)
        case ["tuple", items]:
            return TupleSpec(tuple(from_json(i, classes) for i in items))
        case ["record", number, names, items]:
            kind = _class_of(number, classes)
            return RecordSpec(kind, tuple(names), tuple(from_json(i, classes) for i in items))
        case ["growing", columns, item, is_item]:
            arrays = tuple(c for c in map(from_json, columns) if isinstance(c, ArraySpec))
            return GrowingSpec(arrays, _shape_from_json(item, classes), is_item)
        case ["either", items]:
            return EitherSpec(tuple(from_json(i, classes) for i in items))
        case ["place", place]:
            return PlaceSpec(tuple(place))
        case ["text", text]:
            return ConstantSpec(text)
        case ["constant", "None"]:
            return ConstantSpec(None)
    raise ValueError(f"no spec: {data!r}")


def dtype_of_leaf(spec: ScalarSpec | ArraySpec) -> DType:
    """The element type of a leaf."""
    return DTYPES[spec.dtype]
