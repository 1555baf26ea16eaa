"""The arguments of the function that the user calls: specs → parameters of the IR function and the front end's values.

A tuple, list, dict or instance is made of the parameters that its leaves are. Lists, dicts and instances that the
function changes are lent (lent.py); dicts with numbers as keys are filled into tables of our own (table_arguments.py).
"""

from __future__ import annotations

from typing import Any

from dlvm_py.frontend import objects, table_arguments
from dlvm_py.frontend.arrays import make_array
from dlvm_py.frontend.elementwise import supported
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.lent import Lent
from dlvm_py.frontend.table_arguments import TableArgument
from dlvm_py.frontend.value_types import ScalarType, SequenceType, leaf_types
from dlvm_py.frontend.values import Array, Growing, Object, RandomGenerator, Record, Scalar, Sequence
from dlvm_py.frozen import Frozen
from dlvm_py.ir import DTYPES, Value
from dlvm_py.ir.interface import (
    ArraySpec,
    GeneratorSpec,
    ListSpec,
    RecordSpec,
    ScalarSpec,
    Spec,
    TableSpec,
    TupleSpec,
)

# where an argument stands: its position among the parameters, then those of what holds it
Path = tuple[int, ...]


class ParamInfo(Frozen):
    """One IR parameter: its source name ("u", "p[0]"), its spec, whether it is a captured array."""

    name: str
    spec: ScalarSpec | ArraySpec
    captured: bool = False


class EntryArguments:
    """The arguments of one function. params: the IR parameters so far; lent, tables: what is such among them."""

    def __init__(self, e: Emitter) -> None:
        self._e, self._session = e, e.session
        self.params: list[ParamInfo] = []
        self.lent: list[Lent] = []
        self.tables: list[TableArgument] = []

    def value(self, name: str, spec: Spec, place: Path) -> Any:
        """The value of an argument, whose parameters come behind those that there are."""
        match spec:
            case GeneratorSpec():
                return RandomGenerator(self._parameter(name, spec))
            case ScalarSpec():
                supported(self._e, DTYPES[spec.dtype].numpy, f"the argument {name}")
                return Scalar(self._parameter(name, spec), spec.weak)
            case ArraySpec():
                supported(self._e, DTYPES[spec.dtype].numpy, f"the argument {name}")
                return self._array(name, spec)
            case TupleSpec():
                parts = (self.value(f"{name}[{k}]", s, (*place, k)) for k, s in enumerate(spec.items))
                return Sequence(tuple(parts))
            case RecordSpec():
                return self._record(name, spec, place)
            case ListSpec(item, leaf=leaf):
                array = self._array(name, leaf)
                held = Growing(ScalarType(DTYPES[item.dtype], item.weak), (array,), array.extents[0])
                return self._object(name, held, place)
            case TableSpec():
                return self._dict(name, spec, place)
        return self._session.lift(self._e, spec.value, name)

    def _dict(self, name: str, spec: TableSpec, place: Path) -> Object:
        arrays = []
        for leaf in spec.columns:
            arrays.append(make_array(self._e, self._parameter(name, leaf)))  # of any length, also of 1
        keys, values = arrays[:-1], arrays[-1]
        parts = tuple(ScalarType(DTYPES[s.dtype], s.weak) for s in spec.keys)
        item = SequenceType(parts, is_list=False) if spec.is_tuple else parts[0]
        value = ScalarType(DTYPES[spec.value.dtype], spec.value.weak)
        count = values.extents[0]
        for array in keys:
            self._e.facts.unify(array.extents[0], count)
        columns = Growing(item, tuple(keys), count), Growing(value, (values,), count)
        return self._table(TableArgument(place, name, Object(table_arguments.key_of(name)), columns))

    def _table(self, given: TableArgument) -> Object:
        self.tables.append(given)
        if given.columns is not None:
            self._session.table_types[given.object.key] = [leaf_types(c.item) for c in given.columns]
        if self._session.lends and self._session.known.is_changed(given.object.key):
            self.lent.append(Lent(given.place, given.name, given.object, given))
        return given.object

    def _record(self, name: str, spec: RecordSpec, place: Path) -> Any:
        if spec.kind is dict and not spec.names and self._session.known.is_dict(table_arguments.key_of(name)):
            return self._table(TableArgument(place, name, Object(table_arguments.key_of(name)), None))
        path = {list: "{}[{}]", dict: "{}[{!r}]"}.get(spec.kind, "{}.{}")
        keys = spec.names or range(len(spec.items))
        parts = [
            self.value(path.format(name, k), s, (*place, n))
            for n, (k, s) in enumerate(zip(keys, spec.items, strict=True))
        ]
        if spec.kind is list:
            held: Any = Sequence(tuple(parts), is_list=True)
        else:
            held = Record(spec.kind, spec.names, tuple(parts))
        return self._object(name, held, place) if objects.is_mutable(held) else held

    def _object(self, name: str, held: Any, place: Path) -> Object:
        """A list, dict or instance of the caller, which can be changed where the function changes such."""
        if self._session.lends:
            lent = Object(f"{objects.LENT}{name}")
            self.lent.append(Lent(place, name, lent, held))
            return lent
        return Object(f"{objects.ARGUMENT}.{name}", f"the argument `{name}`", held)

    def _array(self, name: str, spec: ArraySpec) -> Array:
        array = make_array(self._e, self._parameter(name, spec))
        for one, extent in zip(spec.ones, array.extents, strict=True):
            if not one:
                self._e.facts.never_one.add(extent)
        return array

    def _parameter(self, name: str, spec: GeneratorSpec | ScalarSpec | ArraySpec) -> Value:
        self.params.append(ParamInfo(name, spec))
        return self._e.function.entry.add_arg(spec.ir_type(), name)
