"""How values cross a call of an IR function: parameter and result trees, and extents on both sides.

A callee is specialised on the *classes* of the extents of its arguments: which are equal, which are
known not to be 1. Its results say which of their extents are extents of arguments (plus a constant),
so that the caller goes on knowing them.
"""

from __future__ import annotations

from collections.abc import Sequence as Sequence_
from typing import Any

from dlvm_py.frontend.arrays import make_array
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import key
from dlvm_py.frontend.objects import is_mutable
from dlvm_py.frontend.orders import note, order_beside_type
from dlvm_py.frontend.values import (
    Array,
    Either,
    Mixed,
    Object,
    Other,
    RandomGenerator,
    Record,
    Scalar,
    Sequence,
    Static,
)
from dlvm_py.ir import BOOL, U64, Block, Value, literal, scalar
from dlvm_py.ir.value import integer


class NotFirstClass(Exception):  # noqa: N818 - caught by the call, which is then inlined
    """A nested function is among the values, or something with an identity: they cannot cross a call."""


class Extents:
    """Numbers the distinct extents of the arguments of one call."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._ids: dict[object, int] = {}

    def describe(self, e: Emitter, extent: Value) -> tuple[Any, ...]:
        """A hashable description: ("is", n) or ("class", id, never 1)."""
        extent = e.facts.find(extent)
        n = integer(extent)
        if n is not None:
            return ("is", n)
        k = self._ids.setdefault(key(extent), len(self.values))
        if k == len(self.values):
            self.values.append(extent)
        return ("class", k, e.facts.is_never_one(extent))


def abstract(
    e: Emitter,
    value: Any,
    extents: Extents,
    leaves: list[Value],
    running: Sequence_[tuple[Any, ...]] = (),
    constants: bool = True,
) -> tuple[Any, ...]:
    """A hashable tree of an argument; its run-time values are appended to `leaves`.

    running: what the argument is in the calls of the same function that are being translated. A number that
    is another one there (`f(n - 1)`) is no constant of the callee: recursion would go through all of them.
    constants: whether any number is.
    """
    match value:
        case Scalar() if constants and isinstance(value.number, int) and all(t[:3] == _number(value) for t in running):
            return ("number", type(value.number).__name__, value.number, value.value.type, value.weak)
        case Mixed():
            leaves += [value.value, *(v for o in value.others for v in (o.flag, o.scalar.value))]
            kinds = tuple((o.scalar.value.type, o.scalar.weak) for o in value.others)
            return ("mixed", value.value.type, value.weak, kinds)
        case Scalar():
            leaves.append(value.value)
            return ("scalar", value.value.type, value.weak)
        case RandomGenerator():
            leaves.append(value.address)
            return ("generator",)
        case Array():
            leaves.append(value.pointer)
            shape = tuple(extents.describe(e, n) for n in value.extents)
            return ("array", value.pointer.type, shape, (value.copied, order_beside_type(e, value)))
        case Sequence():
            parts = enumerate(value.items)
            same = [t[1] for t in running if t[0] == "sequence" and len(t[1]) == len(value.items)]
            items = (abstract(e, i, extents, leaves, [t[k] for t in same], constants) for k, i in parts)
            return ("sequence", tuple(items), value.is_list)
        case Record():
            same = [t[3] for t in running if t[0] == "record" and t[1:3] == (value.kind, value.names)]
            parts = enumerate(value.items)
            items = (abstract(e, i, extents, leaves, [t[k] for t in same], constants) for k, i in parts)
            return ("record", value.kind, value.names, tuple(items))
        case Object() if value.origin and value.key not in e.frame.env:  # the caller's, which nothing here can change
            same = [t[2] for t in running if t[0] == "fixed"]
            return ("fixed", value.origin, abstract(e, value.contents, extents, leaves, same))
        case Static():
            return ("static", e.session.token(value.value))
    raise NotFirstClass


def _number(value: Scalar) -> tuple[Any, ...]:
    return ("number", type(value.number).__name__, value.number)


def parameter(e: Emitter, tree: tuple[Any, ...], entry: Block, name: str, classes: dict[int, Value]) -> Any:
    """The callee's view of an argument: new parameters of its entry block."""
    match tree:
        case ("number", _, value, type_, is_weak):
            return Scalar(literal(value, type_), is_weak)
        case ("scalar", type_, is_weak):
            return Scalar(entry.add_arg(type_, name), is_weak)
        case ("mixed", type_, is_weak, kinds):
            value, others = entry.add_arg(type_, name), []
            for other, weak in kinds:
                flag = entry.add_arg(scalar(BOOL), f"{name}_is_other")
                others.append(Other(flag, Scalar(entry.add_arg(other, name), weak)))
            return Mixed(value, is_weak, tuple(others))
        case ("generator",):
            return RandomGenerator(entry.add_arg(scalar(U64), name))
        case ("array", type_, extents, (copied, order)):
            pointer = entry.add_arg(type_, name)
            given = [i64(x[1]) if x[0] == "is" else classes.get(x[1]) for x in extents]
            array = note(e, make_array(e, pointer, given, copied), order)
            for x, value in zip(extents, array.extents, strict=True):
                if x[0] == "class":
                    classes.setdefault(x[1], value)
                    if x[2]:
                        e.facts.never_one.add(value)
            return array
        case ("sequence", items, is_list):
            parts = (parameter(e, t, entry, f"{name}.{k}", classes) for k, t in enumerate(items))
            return Sequence(tuple(parts), is_list)
        case ("record", kind, names, items):
            parts = (parameter(e, t, entry, f"{name}.{n}", classes) for n, t in zip(names, items, strict=True))
            return Record(kind, names, tuple(parts))
        case ("fixed", origin, contents):
            return Object(f"$argument.{name}", origin, parameter(e, contents, entry, name, classes))
    return Static(e.session.untoken(tree[1]))


def result_tree(
    e: Emitter,
    value: Any,
    classes: dict[int, Value],
    arguments: list[Value],
    leaves: list[Value],
    constants: bool = True,
) -> Any:
    """A tree of a callee's result; what has to be computed at run time is appended to `leaves`.

    constants: whether numbers that are known now are part of the tree.
    """
    match value:
        case Scalar() if value.number is not None and constants:
            return ("constant", value)
        case Mixed():
            leaves += [value.value, *(v for o in value.others for v in (o.flag, o.scalar.value))]
            return ("mixed", value.weak, tuple(o.scalar.weak for o in value.others))
        case Scalar():
            leaves.append(value.value)
            return ("scalar", value.weak)
        case Array():
            if value.pointer in arguments:  # a returned argument is that very array
                return ("argument", arguments.index(value.pointer))
            leaves.append(value.pointer)
            exported = tuple(_exported(e, n, classes) for n in value.extents)
            return ("array", exported, (value.copied, order_beside_type(e, value)))
        case Sequence():
            items = tuple(result_tree(e, i, classes, arguments, leaves, constants) for i in value.items)
            return ("sequence", items, value.is_list)
        case Record() if not is_mutable(value):
            items = tuple(result_tree(e, i, classes, arguments, leaves, constants) for i in value.items)
            return ("record", items, (value.kind, value.names))
        case Static():
            return ("constant", value)
        case Either():
            leaves.append(value.place)
            kinds = tuple(result_tree(e, v, classes, arguments, leaves, constants) for v in value.values)
            return ("either", kinds, None)
    raise NotFirstClass


def _exported(e: Emitter, extent: Value, classes: dict[int, Value]) -> Any:
    """(class, offset, clamped) of an extent in terms of the arguments' extents, None if it is another."""
    ids = {value: k for k, value in classes.items()}
    for form, clamped in (
        ((extent, 0), False),
        (e.facts.linear.get(extent), False),
        (e.facts.clamped.get(extent), True),
    ):
        if form is not None and form[0] in ids:
            return (ids[form[0]], form[1], clamped)
    return None


def same_result(a: Any, b: Any) -> bool:
    """Whether two trees of results say the same."""
    if a[0] == b[0] == "constant":
        return isinstance(a[1], Static) and isinstance(b[1], Static) and a[1].value is b[1].value
    if a[0] == b[0] and a[0] in ("sequence", "record", "either"):
        return a[2] == b[2] and len(a[1]) == len(b[1]) and all(map(same_result, a[1], b[1]))
    return bool(a == b)


def result_value(e: Emitter, tree: Any, values: list[Value], extents: Extents, arguments: dict[int, Array]) -> Any:
    """The caller's view of a result; consumes `values` in order."""
    match tree:
        case ("constant", value):
            return value
        case ("scalar", is_weak):
            return Scalar(values.pop(0), is_weak)
        case ("mixed", is_weak, kinds):
            value = values.pop(0)
            others = [Other(values.pop(0), Scalar(values.pop(0), k)) for k in kinds]
            return Mixed(value, is_weak, tuple(others))
        case ("argument", k):
            return arguments[k]
        case ("array", exported, (copied, order)):
            known = [None if x is None else _imported(e, x, extents) for x in exported]
            return note(e, make_array(e, values.pop(0), known, copied), order)
        case ("either", trees, _):
            place = values.pop(0)
            e.facts.interval[place] = (0, len(trees) - 1)
            return Either(place, tuple(result_value(e, t, values, extents, arguments) for t in trees))
    items = tuple(result_value(e, t, values, extents, arguments) for t in tree[1])
    return Record(*tree[2], items) if tree[0] == "record" else Sequence(items, tree[2])


def _imported(e: Emitter, form: tuple[int, int, bool], extents: Extents) -> Value:
    base = extents.values[form[0]]
    return e.clamp(base, form[1]) if form[2] else e.offset(base, form[1])
