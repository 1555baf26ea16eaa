"""Assignments to every kind of target: names, parts of arrays, items, attributes, what is unpacked; `op=`."""

from __future__ import annotations

from typing import Any

import gast

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import (
    lists,
    numpy_complex,
    objects,
    operators,
    overloads,
    records,
    sets,
    subscripts,
    tables,
)
from dlvm_py.frontend.advanced import Selection, gathered
from dlvm_py.frontend.advanced import write as write_selected
from dlvm_py.frontend.arrays import fit, store, tensor_of
from dlvm_py.frontend.attributes import attribute
from dlvm_py.frontend.elementwise import in_place
from dlvm_py.frontend.expressions import Expressions
from dlvm_py.frontend.growing import as_array
from dlvm_py.frontend.iterate import iteration_of
from dlvm_py.frontend.set_shape import set_shape
from dlvm_py.frontend.values import (
    Array,
    Generator,
    Growing,
    Iteration,
    Object,
    Record,
    Ref,
    Scalar,
    Sequence,
    Temp,
    Undecided,
    describe,
)
from dlvm_py.ir import literal


class Assignments(Expressions):
    """The part of a Frame that writes."""

    def assign(self, target: Any, value: Any) -> None:
        """target = value for every kind of target."""
        match target:
            case gast.Name():
                self.assign_name(target.id, value)
            case gast.Tuple() | gast.List():
                self._unpack(target, value)
            case gast.Subscript():
                base = self.expression(target.value)
                index = self.index(target.slice)
                with self.at(target):
                    self._store_item(base, index, value)
            case gast.Attribute():
                owner = self.expression(target.value)
                self._set_attribute(target, owner, value)
            case _:
                self.e.error(UnsupportedSyntax, "this cannot be assigned to")

    def _set_attribute(self, target: Any, owner: Any, value: Any) -> None:
        """owner.name = value: of a dataclass instance, or the parts and the shape of an array."""
        with self.at(target):
            if isinstance(owner, Object):
                records.set_attribute(self.e, owner, target.attr, value)
            elif target.attr in ("real", "imag"):
                subscripts.assign(self.e, self._part(owner, target.attr), objects.resolved(self.e, value))
            elif target.attr == "shape" and isinstance(owner, (Array, Temp)):
                if self.loops:
                    self.e.error(
                        UnsupportedSyntax,
                        "assigning to `shape` inside a loop is not supported",
                        help="write x = x.reshape(...)",
                    )
                set_shape(self.e, self.env, self.given, owner, objects.resolved(self.e, value))
            else:
                records.set_attribute(self.e, owner, target.attr, value)

    def _part(self, base: Any, name: str) -> Array:
        """The view that `base.real` or `base.imag` is, to write to."""
        if not isinstance(base, Array):
            self.e.error(UnsupportedSyntax, f"the part `{name}` of {describe(base)} cannot be assigned to")
        return numpy_complex.part(self.e, base, name)

    def _store_item(self, base: Any, index: Any, value: Any) -> None:
        held = objects.contents(self.e, base)
        if overloads.method(self.e, base, "__setitem__") is not None:
            overloads.called(self.e, base, "__setitem__", index, value)
        elif isinstance(base, Object) and tables.is_table(held):
            tables.set_item(self.e, base, index, value)
        elif isinstance(base, Object) and isinstance(held, Record):
            records.set_item(self.e, base, index, value)
        elif isinstance(base, Object | Ref):
            lists.set_item(self.e, base, index, value)
        else:
            value = objects.resolved(self.e, value)
            if isinstance(value, Undecided) and isinstance(base, Array) and base.dtype.is_complex:
                value = value.value
            subscripts.write(self.e, base, index, as_array(self.e, value) if isinstance(value, Growing) else value)

    def _unpack(self, target: Any, value: Any) -> None:
        starred = [k for k, t in enumerate(target.elts) if isinstance(t, gast.Starred)]
        value = records.iterated(objects.contents(self.e, tables.iterated(self.e, value)))
        if isinstance(value, Generator):
            value = self._taken(value, None if starred else len(target.elts) + 1)
        if isinstance(value, Sequence):
            items = list(value.items)
        else:
            items = self._items(value, len(target.elts), starred[0] if starred else None, target)
        if starred and isinstance(value, Sequence):
            k, rest = starred[0], len(items) - len(target.elts) + 1
            if rest < 0:
                self.e.error(
                    TypeMismatch,
                    f"not enough values to unpack (expected at least {len(target.elts) - 1}, got {len(items)})",
                )
            middle = self._settle(Sequence(tuple(items[k : k + rest]), is_list=True))
            items = [*items[:k], middle, *items[k + rest :]]
        if len(items) != len(target.elts):
            few = "not enough" if len(items) < len(target.elts) else "too many"
            self.e.error(TypeMismatch, f"{few} values to unpack (expected {len(target.elts)}, got {len(items)})")
        for t, item in zip(target.elts, [self._settle(i) for i in items], strict=True):
            self.assign(t.value if isinstance(t, gast.Starred) else t, item)

    def _taken(self, value: Generator, most: int | None) -> Any:
        """The items of a generator, or so many of them that there are too many."""
        made = objects.new(self.e, Sequence((), is_list=True))

        def goes_on() -> Any:
            held = objects.contents(self.e, made)
            if isinstance(held, Sequence):
                return literal(most is None or len(held.items) < most)
            return self.e.compare("lessThan", held.length, operators.i64(most))

        value.run(lambda item: lists.append(self.e, made, item), None if most is None else goes_on)
        return objects.contents(self.e, made)

    def _items(self, value: Any, count: int, starred: int | None, target: Any) -> list[Any]:
        """What `count` names get of something whose length is known at run time; the starred one gets a list."""
        e = self.e
        with self.at(target):
            if not ((isinstance(value, Array) and value.rank) or isinstance(value, Growing | Iteration)):
                e.error(TypeMismatch, f"cannot unpack {describe(value)}")
            found = iteration_of(e, value)
            if starred is None:
                self._check_count(found.count, count)
                return [found.item(operators.i64(k)) for k in range(count)]
            fixed = operators.i64(count - 1)
            enough = e.pure("not", e.compare("lessThan", found.count, fixed))
            few = f"not enough values to unpack (expected at least {count - 1}, got {{}})"
            e.check(enough, "ValueError", few, found.count)
            first = [found.item(operators.i64(k)) for k in range(starred)]
            rest = e.maximum(e.subtract(found.count, fixed), operators.i64(0))
            middle = self.collected(Iteration(rest, lambda k: found.item(e.offset(k, starred))))
            last = [found.item(e.offset(found.count, k - count)) for k in range(starred + 1, count)]
            return [*first, self._settle(middle), *last]

    def _check_count(self, length: Any, count: int) -> None:
        """Raise Python's ValueError unless there are as many values as names."""
        wanted = operators.i64(count)
        many, few = f"too many values to unpack (expected {count}", f"not enough values to unpack (expected {count}"
        enough = self.e.pure("not", self.e.compare("lessThan", length, wanted))
        self.e.check(enough, "ValueError", f"{few}, got {{}})", length)
        self.e.check(self.e.compare("equal", length, wanted), "ValueError", f"{many})")

    def _augmented(self, node: Any) -> None:
        target, kind = node.target, type(node.op)
        if isinstance(target, gast.Name):
            old = self.read_name(target.id)
            result = self._augmented_value(old, kind, self.beside(node.value, old))
            if result is not old:
                self.assign_name(target.id, result)
            return
        if isinstance(target, gast.Attribute):
            owner = self.expression(target.value)
            with self.at(target):
                old = attribute(self.e, owner, target.attr)
            if isinstance(owner, (Array, Temp)) and target.attr in ("real", "imag"):
                old = self._part(owner, target.attr)
            result = self._augmented_value(old, kind, self.expression(node.value))
            if result is not old or not isinstance(owner, (Object, Array)):
                self._set_attribute(target, owner, result)
            return
        base, index = self.expression(target.value), self.index(target.slice)
        if not isinstance(base, Array):
            with self.at(target):
                old = overloads.called(self.e, base, "__getitem__", index)
                old = lists.read(self.e, base, index) if old is None else old
            if isinstance(old, Array) and tables.held_by(self.e, base) is not None:
                left, right = tensor_of(self.e, old), objects.resolved(self.e, self.expression(node.value))
                old = Temp(left, old.extents, self.e.block)
                result = self._settle(operators.binary(self.e, kind, old, right))
            else:
                result = self._augmented_value(old, kind, self.expression(node.value))
            if result is not old:
                with self.at(target):
                    self._store_item(base, index, result)
            return
        with self.at(target):
            place = subscripts.place(self.e, base, index)
        if isinstance(place, Selection):
            # NumPy changes a copy, taken before the right side runs, and stores it back
            self._update(place, gathered(self.e, place), kind, self.expression(node.value))
            return
        if place.rank:
            self._in_place(place, kind, self.expression(node.value))
            return
        old = Scalar(self.e.emit("load", place.pointer), weak=False)
        subscripts.assign(self.e, place, operators.binary(self.e, kind, old, self.beside(node.value, old)))

    def _update(self, place: Selection, old: Temp, kind: type, value: Any) -> None:
        """place op= value, where arrays index the place."""
        if kind not in operators.BINARY or not isinstance(value, (Scalar, Array, Temp)):
            self.e.error(TypeMismatch, f"no such operation in place on a selection with {describe(value)}")
        changed = in_place(self.e, operators.BINARY[kind][1], old, value)
        write_selected(self.e, place, Temp(changed, old.extents, self.e.block))

    def _augmented_value(self, old: Any, kind: type, value: Any) -> Any:
        """What `old op= value` leaves in the place of `old`: itself, changed, if it is an array or a list."""
        if isinstance(old, Array):
            self._in_place(old, kind, objects.resolved(self.e, value))
            return old
        if sets.augmented(self.e, old, kind, value):
            return old
        if isinstance(old, Object | Record) or isinstance(value, Object | Record):
            found = overloads.augmented(self.e, kind, old, value)
            if found is not None:
                return self._settle(found)
        if isinstance(old, Object | Ref) and lists.augmented(self.e, old, kind, value):
            return old
        left, right = objects.resolved(self.e, old), objects.resolved(self.e, value)
        return self._settle(operators.binary(self.e, kind, left, right))

    def _in_place(self, target: Array, kind: type, value: Any) -> None:
        """target op= value, written into the array."""
        e = self.e
        if kind is gast.MatMult:
            store(e, e.cast(fit(e, operators.binary(e, kind, target, value), target.extents), target.dtype), target)
            return
        if kind not in operators.BINARY or not isinstance(value, (Scalar, Array, Temp)):
            e.error(TypeMismatch, f"no such operation in place on an array with {describe(value)}")
        store(e, in_place(e, operators.BINARY[kind][1], target, value), target)
