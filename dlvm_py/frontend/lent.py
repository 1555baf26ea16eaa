"""What the caller lends: lists, dicts and instances among the arguments that the function changes, as Python would.

    def f(xs, y):                          results: what is returned, a number that says how the call ended, and
        xs.append(y)                       what xs holds then; the runtime puts it into the caller's list, and
        if y < 0:                          returns or raises (runtime/lent.py)
            raise ValueError(f"{y}")

Inside, such an object is like any other: its contents flow like a name's. A place that may raise while some object
holds something else than at the call becomes a way out that brings the contents along, as for a `try` around the whole
function; each way out says what it has changed, in a *variant* of its own where it has not the structure of another.
What still is what the caller has given is not written again: as `Place`, it stays the very object.

The translation begins without all this, and begins anew when it meets the first change (objects.ChangesCaller). Of a
function that is differentiated nothing is written to the caller: what the parameters hold at the end are more results.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import Any

from dlvm_py.errors import Loc, UnsupportedSyntax
from dlvm_py.frontend import objects, tables
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.exceptions import Clause, Raised, Try
from dlvm_py.frontend.growing import copied, item_at
from dlvm_py.frontend.joined_values import identical_values
from dlvm_py.frontend.table_arguments import TableArgument
from dlvm_py.frontend.value_types import ArrayType, RefType, ScalarType, leaf_types
from dlvm_py.frontend.values import (
    Binding,
    Conflict,
    Growing,
    Object,
    Place,
    Record,
    Ref,
    Scalar,
    Sequence,
    Static,
    describe,
)
from dlvm_py.frozen import Frozen, Mutable
from dlvm_py.ir import NULL, Block, Literal, PointerType, TensorType, Type, Value, literal
from dlvm_py.ir.interface import ArraySpec, Effects, Raise, ScalarSpec, Spec, TupleSpec
from dlvm_py.ir.value import integer

_MAX_LEAVES = 4096  # of all variants

Assemble = Callable[[Emitter, Any, list[Value]], Spec]  # the spec of a value, whose leaves are added


class Lent(Frozen):
    """An object of the caller: where it stands among the arguments, what it is called, what it holds at the call."""

    place: tuple[int, ...]
    name: str
    object: Object
    held: Any  # of a dict with numbers as keys its TableArgument


class Loan:
    """The objects that the caller of the entry function lends, and the ways out of it."""

    def __init__(self, lent: Items[Lent], keeps: bool) -> None:
        # keeps: whether the caller's objects are changed (else: what they hold is only computed, for a derivative)
        self.lent = {one.object.key: one for one in lent}
        self._places = {one.object.key: Static(Place(one.place)) for one in lent}
        self._keeps = keeps
        self._frame: Any = None
        self._known: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
        self.statement: Try | None = None

    def begin(self, frame: Any) -> None:
        """Give the frame of the entry function what is lent."""
        for key, one in self.lent.items():
            if isinstance(one.held, TableArgument):  # which fills it
                continue
            # what is in memory is changed there: a copy tells what has been changed from what the caller has given
            held = copied(frame.e, one.held) if isinstance(one.held, Growing) else one.held
            frame.env[key] = Binding(held, frame.e.loc)
        frame.inherited |= frozenset(self.lent)
        self._frame = frame
        if self._keeps:
            self.statement = Try(frame, [Clause((BaseException,), frozenset())], self.has_changed, is_call=True)
            frame.e.tries.append(self.statement)

    def is_of(self, frame: Any) -> bool:
        """Whether a frame is that of the entry function."""
        return frame is self._frame

    def note_moved(self, env: objects.Env) -> None:
        """Note which of the caller's lists lie in lists that hold references, and with which numbers."""
        for key, one in self.lent.items():
            held = env[key].value
            if isinstance(held, Ref):
                count = integer(held.number)
                assert count is not None, "the lists of the caller are the first ones of a region"
                self._known.setdefault(held.region.key, []).append((count, one.place))

    def known(self, region: Object) -> tuple[tuple[tuple[int, tuple[int, ...]], ...], str]:
        """The numbers and places of the caller's lists that lie in a region, and what tells that from others."""
        return (tuple(self._known.get(region.key, ())), region.key) if self._keeps else ((), "")

    def has_changed(self, e: Emitter) -> bool:
        """Whether some object holds something else here than at the call."""
        env = e.frame.env
        return any(not identical_values([one.held, env[key].value]) for key, one in self.lent.items() if key in env)

    def raised(self) -> list[Raised]:
        """The places that raise when something has been changed."""
        return [] if self.statement is None else self.statement.clauses[0].raised

    def place_of(self, value: Any) -> Static | None:
        """What stands for an object of the caller in a result, None for anything else."""
        return self._places.get(value.key) if isinstance(value, Object) and self._keeps else None

    # -- what the objects hold ---------------------------------------------------------------------------------

    def changes(self, e: Emitter, env: objects.Env, assemble: Assemble) -> _Exit:
        """The end of the current block as a way out: what has been changed there."""
        places, specs, values = [], [], []
        for key, one in self.lent.items():
            if isinstance(one.held, TableArgument):  # memory is changed in place: it is as good as changed
                places.append(one.place)
                specs.append(assemble(e, objects.resolved(e, tables.settled(e, one.object)), values))
                continue
            before, now = self._tree(e, one, env, one.held), self._tree(e, one, env, env[key].value)
            if isinstance(now, Ref):  # it is written with the list that it lies in
                _refuse_other_items(e, one, before, objects.contents(e, now))
                continue
            if identical_values([before, now]):
                continue
            if isinstance(now, Growing):
                _refuse_other_items(e, one, before, now)
            places.append(one.place)
            specs.append(assemble(e, _kept(now, before, one.place), values))
        return _Exit(e.block, tuple(places), tuple(specs), values)

    def _tree(self, e: Emitter, one: Lent, env: objects.Env, value: Any) -> Any:
        """Contents with all that is in them; in the place of an object of the caller what says which."""
        match value:
            case Object() if value.key in self._places:
                return self._places[value.key]
            case Object():
                binding = env.get(value.key)
                return self._tree(e, one, env, value.contents if binding is None else binding.value)
            case Sequence():
                return Sequence(tuple(self._tree(e, one, env, i) for i in value.items), value.is_list)
            case Record():
                return Record(value.kind, value.names, tuple(self._tree(e, one, env, i) for i in value.items))
            case Conflict():
                reason = f"the argument `{one.name}` holds {value.reason}"
                places = " and ".join(f"line {p.line}" for p in value.places if p is not None)
                e.error(
                    UnsupportedSyntax, reason + (f" ({places})" if places else ""), help="use one type on all paths"
                )
        return value

    def final(self, e: Emitter, value: Any) -> Any:
        """A parameter's value as it is at the end, for a derivative; None where nothing in it has been changed."""
        env = e.frame.env
        reached = objects.references({**env, "": Binding(value)}, [""])
        for k in reached:
            if k in self.lent and isinstance(self.lent[k].held, TableArgument):
                tables.settled(e, self.lent[k].object)
        if all(identical_values([self.lent[k].held, env[k].value]) for k in reached if k in self.lent):
            return None
        return objects.resolved(e, value)


def _kept(now: Any, before: Any, place: tuple[int, ...]) -> Any:
    """Contents, with what has not been changed as the places where the caller has it."""
    if isinstance(now, Sequence) and isinstance(before, Sequence):
        pairs = [(k, k) for k in range(min(len(now.items), len(before.items)))]
    elif isinstance(now, Record) and isinstance(before, Record):
        pairs = [(k, before.names.index(n)) for k, n in enumerate(now.names) if n in before.names]
    else:
        return now
    items = list(now.items)
    for k, old in pairs:
        if identical_values([before.items[old], items[k]]):
            items[k] = Static(Place((*place, old)))
        elif not isinstance(before.items[old], Static):
            items[k] = _kept(items[k], before.items[old], (*place, old))
    return (
        Sequence(tuple(items), now.is_list) if isinstance(now, Sequence) else Record(now.kind, now.names, tuple(items))
    )


def _refuse_other_items(e: Emitter, one: Lent, before: Any, now: Growing) -> None:
    """A list of computed length has items of one type: the caller's own may not be made others, nor copies."""
    have = leaf_types(now.item)
    if isinstance(before, Growing) and have != leaf_types(before.item):
        before = Sequence((item_at(e, before, i64(0)),), is_list=True)
    if isinstance(now.item, RefType) and all(_is_place(i) for i in getattr(before, "items", ())):
        return
    for item in before.items if isinstance(before, Sequence) else ():
        plain = isinstance(item, Scalar) and have == [ScalarType(item.dtype, item.weak)]
        if not plain and not _is_tuple_of(item, have):
            why = (
                "arrays in a list that grows are copies"
                if any(isinstance(t, ArrayType) for t in have)
                else (f"it holds {describe(item)} from the call, and other items that a loop or a branch brings")
            )
            e.error(
                UnsupportedSyntax,
                f"the list that is the argument `{one.name}` cannot be changed so: {why}",
                help="give all items one type, return a new list, or use an array",
            )


def _is_place(item: Any) -> bool:
    return isinstance(item, Static) and isinstance(item.value, Place)


def _is_tuple_of(item: Any, have: list[Any]) -> bool:
    if not isinstance(item, Sequence | Record):
        return False
    parts = [*_scalars(item)]
    return [ScalarType(p.dtype, p.weak) if isinstance(p, Scalar) else None for p in parts] == have


def _scalars(value: Any) -> list[Any]:
    if isinstance(value, Sequence | Record):
        return [leaf for i in value.items for leaf in _scalars(i)]
    return [value]


# -- the ways out ------------------------------------------------------------------------------------------------


class _Exit(Mutable):
    """A way out: its block, what has been changed there and to what, the operands of a message, what raises."""

    block: Block
    places: tuple[tuple[int, ...], ...]
    specs: tuple[Spec, ...]
    values: list[Value]
    raised: Raised | None = None


def end(e: Emitter, loan: Loan, result: Spec, returned: list[Value] | None, assemble: Assemble) -> tuple[Spec, Effects]:
    """Write the ways out of the entry function; what it gives as the runtime takes it.

    returned: the leaves of the result at the current place; None if no path returns.
    """
    frame = e.frame
    exits = [] if returned is None else [loan.changes(e, frame.env, assemble)]
    for one in loan.raised():
        depth = e.facts.push()
        frame.merge([one.edge])
        e.builder.loc = one.loc
        found = loan.changes(e, frame.env, assemble)
        e.facts.pop(depth)
        found.raised = one
        exits.append(found)
    kinds = list(dict.fromkeys((x.places, x.specs) for x in exits))
    types = {(x.places, x.specs): [_plain(v.type) for v in x.values] for x in exits}
    slots = _Slots()
    shown = [[] if x.raised is None else slots.take([v for v, _ in x.raised.exception.text.operands]) for x in exits]
    count = len(slots.types) + sum(map(len, types.values()))
    if count > _MAX_LEAVES:
        e.error(
            UnsupportedSyntax,
            f"{count} values would have to be written to the caller's lists and dicts, on {len(exits)} ways out",
            help="use arrays, or change the lists in a loop",
        )
    first = _types_of(returned or [])
    raises: list[Raise] = []
    for x, numbers in zip(exits, shown, strict=True):
        frame.start(x.block)
        number = 0
        operands = slots.empty()
        if x.raised is not None:
            text = x.raised.exception.text
            flavours = [flavour for _, flavour in text.operands]
            for n, (value, _) in zip(numbers, text.operands, strict=True):
                operands[n] = _as(e, value, slots.types[n])
            loc = x.raised.loc
            where = None if loc is None else tuple(getattr(loc, n) for n in Loc.__slots__)
            variant = kinds.index((x.places, x.specs))
            name = x.raised.exception.name
            raises.append(Raise(name, text.message, tuple(zip(numbers, flavours, strict=True)), variant, where))
            number = len(raises)
        values = [*(returned if number == 0 and returned is not None else map(_nothing, first)), i64(number), *operands]
        for kind in kinds:
            mine = kind == (x.places, x.specs)
            values += (
                [_as(e, v, t) for v, t in zip(x.values, types[kind], strict=True)]
                if mine
                else map(_nothing, types[kind])
            )
        e.session.give(e, values)
    frame.stop()
    written = kinds.index((exits[0].places, exits[0].specs)) if returned is not None else 0
    spec = TupleSpec(
        (result, ScalarSpec("i64", True), TupleSpec(tuple(slots.specs)), *(TupleSpec(specs) for _, specs in kinds))
    )
    return spec, Effects(tuple(slots.specs), tuple(places for places, _ in kinds), written, tuple(raises))


class _Slots:
    """Places in the result for the operands of messages, which the ways out share."""

    def __init__(self) -> None:
        self.types: list[Type] = []
        self.specs: list[Spec] = []

    def take(self, operands: list[Value]) -> list[int]:
        """The numbers of free places, one an operand."""
        found: list[int] = []
        for v in operands:
            wanted = _plain(v.type)
            free = (n for n, t in enumerate(self.types) if t == wanted and n not in found)
            n = next(free, len(self.types))
            if n == len(self.types):
                self.types.append(wanted)
                self.specs.append(_leaf_spec(wanted))
            found.append(n)
        return found

    def empty(self) -> list[Value]:
        """Nothing, in all places."""
        return list(map(_nothing, self.types))


def _types_of(values: list[Value]) -> list[Type]:
    return [v.type for v in values]


def _plain(t: Type) -> Type:
    """The type of a leaf in the result: of an array, without the extents that are known."""
    if not isinstance(t, PointerType):
        return t
    shape = tuple(1 if n == 1 else None for n in t.shape)
    return PointerType(TensorType(shape, t.dtype), t.layout)


def _leaf_spec(t: Type) -> Spec:
    if isinstance(t, PointerType):
        return ArraySpec(t.dtype.name, tuple(n == 1 for n in t.shape), t.layout)
    assert isinstance(t, TensorType)
    return ScalarSpec(t.dtype.name, False)


def _as(e: Emitter, value: Value, t: Type) -> Value:
    return value if value.type == t else e.emit("pointerCast", value, to=t)


def _nothing(t: Type) -> Value:
    if isinstance(t, PointerType):
        return Literal(t, NULL)
    assert isinstance(t, TensorType)
    return literal(0, t)
