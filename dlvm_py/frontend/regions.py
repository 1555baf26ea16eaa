"""Lists in lists: a region holds the lists, and what refers to one holds its number.

    rows.append([a, b])        region of rows:  table   start length capacity     of each of its lists
    rows[i][j] = x                              data    the items of all of them, one behind the other
                               rows:            the numbers of lists in the region

So lists are shared as in Python (`b = rows[i]` is a number too), and all that is compiled and differentiated are loads
and stores of ordinary memory. A list that becomes longer than its place moves to the end of the data, with twice the
place; table and data are growing lists themselves. A region is what the object of that name holds, a tuple of the two,
and flows like it: where the rows of one list take the place of another's behind an iteration, so does the region.

Which lists must be numbers is found while translating: a list of lists begins as its items, until a computed index, or
a loop that appends, needs it to be a growing one (`Known`). Then the translation begins anew, and it is one from the
start. So it does where lists of two regions meet: from then on these are one.
"""

from __future__ import annotations

import itertools
from typing import Any

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.growing import parts_of, rows_of, section_of
from dlvm_py.frontend.joined_values import allocate_buffer, as_growing, leaf_values, store_item
from dlvm_py.frontend.joins import join_items
from dlvm_py.frontend.value_types import ScalarType, SequenceType, leaf_types, regions_in, same_type, type_of
from dlvm_py.frontend.values import Array, Binding, Conflict, Growing, Object, Record, Ref, Scalar, Sequence
from dlvm_py.ir import I64, Value

_NUMBER = ScalarType(I64, True)
_ROW = SequenceType((_NUMBER, _NUMBER, _NUMBER), False)
_FIRST_CAPACITY = 4
_OWN = "$object"  # of the keys of what the function has made
_MARK = ".lists."  # of the keys of regions


class Again(Exception):  # noqa: N818 - not an error: the translation begins anew
    """Something new is known of the lists in lists."""


class Known:
    """What the attempts to translate a function have found out about its lists, by the keys of their objects."""

    def __init__(self) -> None:
        self._one: dict[str, str] = {}  # towards the name of a class of regions, or of objects, that are one
        self._referring: set[str] = set()
        self._moved: dict[str, str] = {}
        self._constants: dict[str, list[str]] = {}
        self._tables: set[str] = set()
        self._dicts: set[str] = set()
        self._changed: set[str] = set()
        self._several: set[tuple[Any, ...]] = set()
        self.outside: dict[str, Any] = {}  # what objects from outside are, in Python

    def find(self, key: str) -> str:
        """The key that stands for all that are one with this."""
        while key in self._one:
            key = self._one[key]
        return key

    def unite(self, a: str, b: str) -> bool:
        """Two keys are one from now on; whether that is new."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        first, last = sorted((a, b))
        self._one[last] = first
        if last in self._referring:
            self._referring.add(first)
        if last in self._moved:
            self._moved.setdefault(first, self._moved[last])
        return True

    def is_table(self, site: str) -> bool:
        """Whether the set that is displayed at a place of the source is changed later on (sets.py)."""
        return site in self._tables

    def require_table(self, site: str) -> None:
        """It is changed: begins anew."""
        self._tables.add(site)
        raise Again

    def is_dict(self, key: str) -> bool:
        """Whether the dict gets keys that are no constant strings (tables.py)."""
        return self.find(key) in map(self.find, self._dicts)

    def require_dict(self, key: str) -> None:
        """It gets such a key: begins anew if that is new."""
        if not self.is_dict(key):
            self._dicts.add(key)
            raise Again

    def is_changed(self, key: str) -> bool:
        """Whether a dict of the caller whose keys are numbers is changed (table_arguments.py)."""
        return key in self._changed

    def note_changed(self, key: str) -> None:
        """It is."""
        self._changed.add(key)

    @property
    def knows_several(self) -> bool:
        """Whether there are names with values of several kinds."""
        return bool(self._several)

    def has_several(self, name: tuple[Any, ...]) -> bool:
        """Whether a name of a function may have values of several kinds at once (either.py)."""
        return name in self._several

    def require_several(self, name: tuple[Any, ...]) -> None:
        """A name is read that has such values: begins anew if that is new."""
        if name not in self._several:
            self._several.add(name)
            raise Again

    def refers(self, key: str) -> bool:
        """Whether the list is made as one that holds numbers of lists."""
        return self.find(key) in self._referring

    def constants(self, function: str) -> list[str]:
        """The lists of lists from outside that hold references where a function of the module begins."""
        return self._constants.get(function, [])

    def require_constant(self, function: str, key: str) -> None:
        """A list of lists from outside must be such a one: begins anew if that is new."""
        if key not in self.constants(function):
            self._constants.setdefault(function, []).append(key)
            raise Again

    def require_references(self, key: str) -> None:
        """The list must be such a one: begins anew if that is new."""
        if not self.refers(key):
            self._referring.add(self.find(key))
            raise Again

    def region_for(self, key: str) -> str | None:
        """The region in which a list has to lie from the beginning."""
        return self._moved.get(self.find(key))

    def require_region(self, key: str, region: str) -> None:
        """A list meets one of a region: begins anew if that is new."""
        if self.region_for(key) is None:
            self._moved[self.find(key)] = region
            raise Again


# -- the lists of a region ---------------------------------------------------------------------------------------


def region_of(e: Emitter, owner: str, position: int = 0) -> Object:
    """The region of the lists in a list, which may be empty still. position: of the list in each item."""
    region = Object(e.session.known.find(f"{owner}{_MARK}{position}"))
    return open_region(e, region)


def open_region(e: Emitter, region: Object) -> Object:
    """The region, made if there is none yet."""
    if region.key not in e.frame.env:
        e.frame.env[region.key] = empty_region(e)
    return region


def empty_region(e: Emitter) -> Binding:
    """What a region without lists holds."""
    nothing = Growing(None, (), i64(0))
    return Binding(Sequence((nothing, nothing)), e.loc)


def is_region(key: str) -> bool:
    """Whether this is the key of a region."""
    return _MARK in key


def _put(e: Emitter, region: Object, table: Growing, data: Growing) -> None:
    e.frame.env[region.key] = Binding(Sequence((table, data)), e.loc)


def taken_in(e: Emitter, owner: str, item: Any, value: Any) -> Any:
    """An item for a growing list, with the lists in it as references: they move to a region that the list refers to.

    owner: the key of the list; item: the type of its items so far. Other names for a list that moves follow it there.
    """
    regions, positions = regions_in(item), itertools.count()

    def visit(v: Any) -> Any:
        if isinstance(v, Sequence) and not v.is_list:
            return Sequence(tuple(map(visit, v.items)))
        if isinstance(v, Record):
            return Record(v.kind, v.names, tuple(map(visit, v.items)))
        if isinstance(v, Ref):
            next(positions)
        if not isinstance(v, Object):
            return v
        held = _contents(e, v)
        if isinstance(held, Ref):
            next(positions)
            return held
        if not _is_list(held) or (v.origin and owner.startswith(_OWN)):
            return v
        k = next(positions)
        region = regions[k] if k < len(regions) else region_of(e, owner, k)
        moved = entered(e, region, held)
        e.frame.env[v.key] = Binding(moved, e.loc)
        return moved

    return visit(value)


def _contents(e: Emitter, value: Object) -> Any:
    binding = e.frame.env.get(value.key)
    return value.contents if binding is None else binding.value


def _is_list(held: Any) -> bool:
    return isinstance(held, Growing) or (isinstance(held, Sequence) and held.is_list)


def refer_constants(e: Emitter, values: list[Any]) -> None:
    """Give the lists of lists from outside that need it references, where a function begins.

    values: those of the parameters.
    """
    found = {o.key: o for o in _within(values)}
    for key in e.session.known.constants(e.function.name):
        owner = found.get(key) or e.session.constant(e, key)
        if owner is None:  # the caller's, which is a constant no longer
            continue
        e.frame.env[key] = Binding(referring(e, key, owner.contents), e.loc)
    if e.session.loan is not None and e.session.loan.is_of(e.frame):
        for key in sorted(e.frame.inherited):
            held = e.frame.env[key].value
            if e.session.known.refers(key) and isinstance(held, Sequence):
                e.frame.env[key] = Binding(referring(e, key, held), e.loc)
        e.session.loan.note_moved(e.frame.env)


def _within(values: list[Any]) -> list[Object]:
    """The lists, dicts and instances of the caller in some values."""
    found: list[Object] = []
    for value in values:
        if isinstance(value, Object) and value.origin:
            found += [value, *_within([value.contents])]
        elif isinstance(value, Sequence | Record):
            found += _within(list(value.items))
    return found


def holds_lists(e: Emitter, held: Any) -> bool:
    """Whether a list of constant length has lists among its items, or in tuples of them."""
    if isinstance(held, Sequence):
        return any(
            isinstance(i, Ref)
            or (isinstance(i, Object) and _is_list(_contents(e, i)))
            or (isinstance(i, Sequence) and holds_lists(e, i))
            for i in held.items
        )
    return False


def referring(e: Emitter, owner: str, held: Sequence) -> Sequence | Growing:
    """A list of constant length as one that grows, the lists in it as references; itself if that cannot be."""
    item, items = None, []
    for value in held.items:
        found = taken_in(e, owner, item, value)
        item = join_items(item, type_of(e, found))
        if isinstance(item, Conflict):
            return held
        items.append(found)
    return as_growing(e, Sequence(tuple(items), is_list=True), item)


def entered(e: Emitter, region: Object, held: Sequence | Growing) -> Ref:
    """A new list of a region, with these contents."""
    open_region(e, region)
    if isinstance(held, Sequence):
        found = referring(e, region.key, held)
        if isinstance(found, Sequence):
            e.error(TypeMismatch, "the items of this list in a list have no common type", help="use a tuple, or arrays")
        held = found
    widen(e, region, held.item)
    table, data = parts_of(e, region)
    start, capacity = data.length, held.length
    data = _grown(e, data, capacity)
    _copy(e, held, data, start)
    row = Sequence(tuple(Scalar(v, True) for v in (start, held.length, capacity)))
    number = table.length
    table = _with_row(e, table, row)
    _put(e, region, table, data)
    return Ref(region, number)


def as_table(e: Emitter, table: Growing) -> Growing:
    """The table of a region, which has none as long as it has no lists, with its columns."""
    return as_growing(e, table, _ROW)


def _with_row(e: Emitter, table: Growing, row: Sequence) -> Growing:
    table = _grown(e, as_table(e, table), i64(1))
    for buffer, value in zip(table.buffers, row.items, strict=True):
        store_item(e, buffer, e.offset(table.length, -1), value)
    return table


def widen(e: Emitter, region: Object, item: Any) -> None:
    """Let the lists of a region take items of a type too."""
    table, data = parts_of(e, region)
    joined = join_items(data.item, item)
    if isinstance(joined, Conflict):
        e.error(TypeMismatch, f"this is {joined.reason}: the lists in a list have items of one type", help="use tuples")
    if region in _reached(e, regions_in(joined)):
        e.error(UnsupportedSyntax, "a list that holds itself is not supported")
    if data.item is None or not same_type(joined, data.item):
        _put(e, region, table, as_growing(e, data, joined))


def _reached(e: Emitter, regions: list[Object]) -> list[Object]:
    found: list[Object] = []
    pending = list(regions)
    while pending:
        region = pending.pop()
        if region not in found:
            found.append(region)
            if region.key in e.frame.env:
                pending += regions_in(parts_of(e, region)[1].item)
    return found


def _grown(e: Emitter, data: Growing, more: Value) -> Growing:
    """The list with `more` items at its end that nobody has written."""
    if not data.buffers:  # of lists that are all empty
        return Growing(data.item, (), e.add(data.length, more))
    length = e.add(data.length, more)
    e.know_nonnegative(length)
    capacity = data.buffers[0].extents[0]
    shapes = [b.extents[1:] for b in data.buffers]
    types = leaf_types(data.item)

    def double() -> Any:
        room = e.maximum(length, e.maximum(e.pure("multiply", capacity, i64(2)), i64(_FIRST_CAPACITY)))
        fresh = [allocate_buffer(e, room, row, t) for row, t in zip(shapes, types, strict=True)]
        for old, new in zip(data.buffers, fresh, strict=True):
            kept = section_of(e, new, i64(0), data.length, i64(1))
            e.emit("store", rows_of(e, Array(old.pointer, new.extents), i64(0), data.length, i64(1)), kept)
        return Sequence(tuple(fresh))

    full = e.compare("lessThan", capacity, length)
    chosen = e.frame.choose_value(full, double, lambda: Sequence(data.buffers)).items
    return Growing(data.item, tuple(chosen), length)


def _copy(e: Emitter, source: Growing, data: Growing, start: Value) -> None:
    """Write the items of a list to a place of the data."""
    if source.item is None:  # without items
        return
    for old, new in zip(source.buffers, data.buffers, strict=True):
        items = rows_of(e, old, i64(0), source.length, i64(1))
        place = section_of(e, new, start, source.length, i64(1))
        e.emit("store", e.cast(items, new.dtype), place)


def _set_row(e: Emitter, table: Growing, number: Value, *row: Value) -> None:
    for buffer, value in zip(table.buffers, row, strict=True):
        e.emit("store", value, e.emit("elementPointer", buffer.pointer, number))


def _row(e: Emitter, table: Growing, number: Value) -> tuple[Value, Value, Value]:
    found = [e.emit("load", e.emit("elementPointer", b.pointer, number)) for b in table.buffers]
    for value in found:
        e.facts.interval[value] = (0, EXTENT_MAX)
    start, length, capacity = found
    return start, length, capacity


def append(e: Emitter, ref: Ref, value: Any) -> None:
    """One item more at the end of a list of a region. The lists in it are references already."""
    widen(e, ref.region, type_of(e, value))
    table, data = parts_of(e, ref.region)
    start, length, capacity = _row(e, table, ref.number)

    def moved() -> Any:
        is_last = e.compare("equal", e.add(start, capacity), data.length)
        room = e.maximum(e.pure("multiply", capacity, i64(2)), i64(_FIRST_CAPACITY))
        place = e.choose(is_last, start, data.length)
        more = e.choose(is_last, e.subtract(room, capacity), room)
        longer = _grown(e, data, more)
        view = Growing(data.item, tuple(_part(e, b, start, length) for b in longer.buffers), length)
        _copy(e, view, longer, place)
        _set_row(e, table, ref.number, place, length, room)
        return Sequence((*longer.buffers, Scalar(longer.length, True), Scalar(place, True)))

    def stays() -> Any:
        return Sequence((*data.buffers, Scalar(data.length, True), Scalar(start, True)))

    *buffers, used, place = e.frame.choose_value(e.compare("equal", length, capacity), moved, stays).items
    for value_ in (used.value, place.value):
        e.facts.interval[value_] = (0, EXTENT_MAX)
    data = Growing(data.item, tuple(buffers), used.value)
    at = e.add(place.value, length)
    for buffer, leaf in zip(data.buffers, leaf_values(value), strict=True):
        store_item(e, buffer, at, leaf)
    e.emit("store", e.offset(length, 1), e.emit("elementPointer", table.buffers[1].pointer, ref.number))
    _put(e, ref.region, table, data)


def _part(e: Emitter, buffer: Array, start: Value, count: Value) -> Array:
    return Array(section_of(e, buffer, start, count, i64(1)), (count, *buffer.extents[1:]))


def assign(e: Emitter, ref: Ref, held: Sequence | Growing) -> None:
    """Let a list of a region hold something else: in its place if that is enough."""
    if isinstance(held, Sequence):
        found = referring(e, ref.region.key, held)
        if isinstance(found, Sequence):
            e.error(TypeMismatch, "the items have no common type", help="use a tuple, or arrays")
        held = found
    table, data = parts_of(e, ref.region)
    if held.home is not None and held.home.number is ref.number and held.home.region == ref.region:
        e.emit("store", held.length, e.emit("elementPointer", table.buffers[1].pointer, ref.number))
        return
    widen(e, ref.region, held.item)
    table, data = parts_of(e, ref.region)
    start, _, capacity = _row(e, table, ref.number)
    fits = e.compare("lessThanOrEqual", held.length, capacity)
    place = e.choose(fits, start, data.length)
    data = _grown(e, data, e.choose(fits, i64(0), held.length))
    _copy(e, held, data, place)
    _set_row(e, table, ref.number, place, held.length, e.choose(fits, capacity, held.length))
    _put(e, ref.region, table, data)
