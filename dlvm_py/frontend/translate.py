"""Python function and argument specs in, raw IR out: the front end's entry point.

A `Session` translates one function for one signature, and every plain Python function that it calls as
an IR function of its own, specialised on the arguments of the call. Functions defined inside compiled
code are translated in place.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import re
import sys
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Items
from types import FunctionType
from typing import Any

import numpy as np

from dlvm_py.errors import Loc, TypeMismatch, UnknownName, UnsupportedSyntax
from dlvm_py.frontend import carried, either, handed, objects, own_rules, table_arguments, tables
from dlvm_py.frontend.arrays import make_array
from dlvm_py.frontend.assumptions import Assumptions
from dlvm_py.frontend.calls import bind_function, invoke
from dlvm_py.frontend.capture import ABSENT, Captures, field_names, is_hidden_argument, is_record_class
from dlvm_py.frontend.closest import suggestion
from dlvm_py.frontend.derivatives import Differentiate
from dlvm_py.frontend.elementwise import supported
from dlvm_py.frontend.emit import Emitter, Unreachable, i64
from dlvm_py.frontend.exceptions import catch, is_caught_here, keep_in_blocks
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.frame import Frame
from dlvm_py.frontend.generators import call as generator
from dlvm_py.frontend.generators import is_generator
from dlvm_py.frontend.growing import parts_of, section_of
from dlvm_py.frontend.joins import (
    ArrayType,
    RecordType,
    RefType,
    ScalarType,
    SequenceType,
    TwoRegions,
    as_growing,
    leaf_types,
)
from dlvm_py.frontend.lent import Lent, Loan, end
from dlvm_py.frontend.library import hashing
from dlvm_py.frontend.library_calls import is_library
from dlvm_py.frontend.mixed import joined, passed
from dlvm_py.frontend.nested import Nested
from dlvm_py.frontend.partial import partial
from dlvm_py.frontend.regions import Again, Known, as_table
from dlvm_py.frontend.signature import (
    Extents,
    NotFirstClass,
    abstract,
    parameter,
    result_tree,
    result_value,
    same_result,
)
from dlvm_py.frontend.source import Source, function_source, library_source
from dlvm_py.frontend.table_arguments import TableArgument
from dlvm_py.frontend.values import (
    NONE,
    Array,
    Binding,
    Closure,
    Either,
    Growing,
    KnownSet,
    Mixed,
    Object,
    Place,
    RandomGenerator,
    Record,
    Ref,
    Scalar,
    Sequence,
    Static,
    Suspended,
    describe,
)
from dlvm_py.frozen import Frozen, Mutable, replace
from dlvm_py.frozen import replace as with_fields
from dlvm_py.ir import DTYPES, VOID, Function, Module, PointerType, TupleType, Type, Value, literal, scalar
from dlvm_py.ir.analysis.calls import reachable
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    Effects,
    EitherSpec,
    GeneratorSpec,
    GrowingSpec,
    ListSpec,
    Pairs,
    PlaceSpec,
    RecordShape,
    RecordSpec,
    ScalarSpec,
    Spec,
    TableSpec,
    TupleSpec,
)
from dlvm_py.options import Options

# of one function within itself: passing functions around nests them, recursion has no end
_MAX_INLINE_DEPTH = 4
# of one function within itself, for other types each time; and how often the type of a result may change
_MAX_NESTING, _MAX_ATTEMPTS = 8, 8


class ParamInfo(Frozen):
    """One IR parameter: its source name ("u", "p[0]"), its spec, whether it is a captured array."""

    name: str
    spec: ScalarSpec | ArraySpec
    captured: bool = False


class Translation(Frozen):
    """Raw IR of a function and of everything that it calls; `name` is the entry function.

    effects: what it does to the caller's lists, dicts and instances; then `result` is as that says. finals: of a
    function that is to be differentiated, what its parameters that are such hold at the end, by position: more leaves
    of the result, behind those of `result`.
    """

    module: Module
    name: str
    result: Spec
    params: tuple[ParamInfo, ...]
    effects: Effects | None = None
    finals: tuple[tuple[int, Spec], ...] = ()


class _Callee(Mutable):
    """A translated function: its IR, the tree of its result, the captured arrays that it takes last.

    `type` is the type of its IR result. Of a function that is still being translated these are assumptions;
    `result` None then stands for a call that does not return, `is_used` is whether a call rests on them.
    """

    function: Function
    result: Any
    captured: list[int]
    type: Type
    is_used: bool = False


def translate(
    fn: FunctionType,
    args: tuple[Spec, ...],
    captured: Captures,
    options: Options,
    name: str | None = None,
    captured_specs: tuple[ArraySpec | GeneratorSpec, ...] = (),
    differentiate: Differentiate | None = None,
    rules_of: Any = None,
    derives: bool = False,
    answers: Mapping[str, bool | None] | None = None,
    is_joined: bool = False,
) -> Translation:
    """Raw IR of `fn` for arguments of the given specs, one a Python parameter, defaults filled in.

    The IR parameters are the leaves of `args` in order, then one pointer for each of `captured.arrays`,
    of the type that `captured_specs` gives. `differentiate` makes the derivatives that are called
    inside (see derivatives.py). `rules_of`: the callable that gives `fn` derivatives of its own, if there is one; with
    `derives` functions bring their rules along (see own_rules.py). `answers`: where types depend on values (see
    assumptions.py). `is_joined`: a number that is returned has one type on all paths, for a library; so it has where
    `derives`.
    Raises: CompileError that points into the user's source.
    """
    lends, known = False, Known()
    while True:
        session = Session(
            captured, options, captured_specs, name or fn.__name__, differentiate, lends, answers or {}, known
        )
        session.is_joined = is_joined or derives
        try:
            return session.entry(fn, args, rules_of, derives)
        except objects.ChangesCaller:
            assert not lends, "what is lent can be changed"
            lends = True  # once more, with the lists of the caller as things that change
        except TwoRegions as met:
            if not known.unite(*(region.key for region in met.args)):
                raise AssertionError("regions that are one are told apart") from None
        except Again:
            pass  # once more, with what is known of the lists in lists


class Session:
    """The translation of one module."""

    def __init__(
        self,
        captures: Captures,
        options: Options,
        specs: tuple[ArraySpec | GeneratorSpec, ...],
        name: str,
        differentiate: Differentiate | None = None,
        lends: bool = False,
        answers: Mapping[str, bool | None] | None = None,
        known: Known | None = None,
    ) -> None:
        if len(specs) != len(captures.arrays):
            raise ValueError(f"{len(captures.arrays)} captured arrays, but {len(specs)} specs of them")
        self.captures = captures
        self.options = options
        self.specs = specs
        self.of_unknown_order: set[Value] = set()  # memory that NumPy may lay out otherwise (orders.py)
        self.is_joined = False  # whether a number that is returned has one type on all paths
        self.is_library = False  # whether it is the result of a library, which has one type
        self.lends = lends  # whether the function changes lists, dicts or instances of its caller
        self.assumptions = Assumptions(answers or {})
        self.known = known or Known()
        self._lent: list[Lent] = []
        self._tables: list[TableArgument] = []
        self.table_types: dict[str, Any] = {}  # the types of the keys and values of such arguments
        self.loan: Loan | None = None
        self.name = _identifier(name)
        self.module = Module(self.name, "raw")
        self._differentiate = differentiate
        self._derived: dict[Any, tuple[str, Spec]] = {}
        self.own: dict[str, own_rules.Own] = {}  # functions with rules, by their names in the module
        self._callees: dict[Any, _Callee] = {}
        self._running: dict[Any, _Callee] = {}  # by function and arguments, the innermost last
        self._learned: _Callee | None = None
        self._inlined: list[Any] = []
        self.nested: dict[FunctionType, Nested] = {}  # functions that stand for closures
        self.stand_ins: dict[Any, FunctionType] = {}  # those of recursive ones, by what they read
        # functions that stand for recursive ones that take closures: the call, the function, the frames of the closures
        self.carried: dict[FunctionType, tuple[carried.Carried, Any, tuple[Frame, ...]]] = {}
        self._sources: dict[Any, Source] = {}
        self._tokens: dict[int, Any] = {}
        self._equal: dict[Any, Any] = {}
        self._numbers = itertools.count()
        self._captured: dict[Emitter, dict[int, Array | RandomGenerator]] = {}

    # -- the entry function ----------------------------------------------------------------------

    def entry(
        self, fn: FunctionType, args: tuple[Spec, ...], rules_of: Any = None, derives: bool = False
    ) -> Translation:
        """Translate the function that the user calls: of one with rules, a call of it."""
        e, source = self.begin(fn, self.name)
        names = _parameter_names(fn)
        if len(names) != len(args):
            raise ValueError(f"{fn.__name__} has {len(names)} parameters, but {len(args)} specs are given")
        params: list[ParamInfo] = []
        values = {
            n: self._argument(e, n, spec, params, (k,)) for k, (n, spec) in enumerate(zip(names, args, strict=True))
        }
        for k in range(len(self.specs)):
            self.captured_argument(e, k)
            params.append(ParamInfo(self.captures.arrays[k].name, self.specs[k], captured=True))
        if self.lends:
            if rules_of is not None:
                e.error(
                    UnsupportedSyntax,
                    f"{fn.__name__} has derivatives of its own, and changes a list, dict or instance of its caller",
                    help="return the new value",
                )
            self.loan = Loan(self._lent, keeps=not derives) if self._lent else None
        depth = e.facts.push()
        if rules_of is None:
            result = self.run(e, source, fn, values, self._filled(e, source, fn))
        else:
            result = self._own_entry(e, source, fn, rules_of, values)
        if derives and isinstance(result, Either):
            result = either.differentiable(e, result)
        self.is_library = self.is_joined and not derives
        leaves: list[Value] = []
        spec = self._result(e, NONE if result is None else result, leaves)
        effects, finals = None, ()
        if self.loan is not None and derives:
            finals = self._finals(e, values, leaves)
        elif self.loan is not None:
            e.facts.pop(depth)  # what is known where it returns need not be so where it raises
            spec, effects = end(e, self.loan, spec, None if result is None else leaves, self._result)
        if result is not None and effects is None:
            _return(e, leaves)
        e.function.meta["params"] = tuple(params)
        if self.loan is not None:
            keep_in_blocks(e)
        if derives:
            self.attach()
        self._drop_unused(e.function)
        return Translation(self.module, e.function.name, spec, tuple(params), effects, finals)

    def _filled(self, e: Emitter, source: Source, fn: FunctionType) -> dict[str, Binding] | None:
        """What the dicts with numbers as keys hold that are arguments, and the lists in them."""
        if not self._tables:
            return None
        e.frame = Frame(e, source, fn.__name__, fn)
        table_arguments.fill(e, self._tables)
        held, e.frame = e.frame.env, None
        return held

    def _finals(self, e: Emitter, values: dict[str, Any], leaves: list[Value]) -> tuple[tuple[int, Spec], ...]:
        """What the parameters whose lists, dicts and instances have changed hold at the end."""
        assert self.loan is not None
        found = []
        for position, value in enumerate(values.values()):
            final = self.loan.final(e, value) if e.frame.alive else None
            if final is not None:
                found.append((position, self._result(e, final, leaves)))
        return tuple(found)

    @staticmethod
    def _own_entry(e: Emitter, source: Source, fn: FunctionType, rules_of: Any, values: dict[str, Any]) -> Any:
        # objects that the arguments are live in the environment of a frame
        e.frame = Frame(e, source, fn.__name__, fn)
        e.frame.bind_parameters(values)
        try:
            return own_rules.call(e, rules_of, values)
        except Unreachable:
            return None

    def attach(self) -> None:
        """Translate the derivative rules of all functions of the module: a derivative is to be taken."""
        own_rules.attach(self)

    def own_callee(self, e: Emitter, target: Any, fn: FunctionType, tree: Any) -> _Callee:
        """A function with rules for these arguments: its result is all computed, and its arrays are its own."""
        callee = self._callee(e, fn, tree, whole=self.token(target), own=target)
        known = self.own.get(callee.function.name)
        if known is None or known.callee is not callee:
            self.own[callee.function.name] = own_rules.Own(target, tree, callee)
        return callee

    def begin(self, fn: FunctionType, name: str, loc: Loc | None = None) -> tuple[Emitter, Source]:
        """A new function of the module for a Python function, and its source; of the library, called at `loc`."""
        source = self._source(fn, loc)
        if is_generator(fn):
            raise UnsupportedSyntax(
                f"{fn.__name__} is a generator: a compiled function returns values",
                source.loc(source.node),
                help="compile the function that loops over it, or return an array",
            )
        function = Function(_identifier(name), VOID)
        self.module.add(function)
        # where our library asks for an index, there is one
        options = with_fields(self.options, boundscheck=False) if is_library(fn) else self.options
        e = Emitter(function, self, options)
        e.builder.at_end(function.new_block("entry"))
        e.builder.loc = source.loc(source.node)
        self._captured[e] = {}
        return e, source

    def run(
        self, e: Emitter, source: Source, fn: Any, values: dict[str, Any], held: Mapping[str, Binding] | None = None
    ) -> Any:
        """Translate a body for these values of the parameters: what it returns, None where it never does.

        held: what objects among them hold.
        """
        frame = self._frame(e, source, fn, values)
        if held is not None:
            frame.env |= held
            frame.inherited = frozenset(held)
        if e.frame is None and self.loan is not None and e.function is next(iter(self.module.functions.values())):
            self.loan.begin(frame)
        limit = sys.getrecursionlimit()
        try:
            return frame.run()
        except RecursionError as error:
            raise UnsupportedSyntax(
                f"this function is nested too deeply to be compiled (Python's recursion limit is {limit})",
                source.loc(source.node),
                help="split it over several statements or functions",
            ) from error

    def _frame(self, e: Emitter, source: Source, fn: Any, values: dict[str, Any]) -> Frame:
        """The frame of a body, its parameters bound; of a closure, in a frame of what it reads of its surroundings."""
        if fn in self.carried:
            call, _, frames = self.carried[fn]
            target, given, arounds = carried.unpacked(e, call, frames, values)
            if isinstance(target, Closure):
                frame = Frame(e, source, target.name, target.frame.function, target.frame)
            else:
                frame = Frame(e, source, target.__name__, target)
            frame.bind_parameters(given)
            frame.given = frame.given.union(*(around.given for around in arounds))
            return frame
        nested = self.nested.get(fn)
        if nested is None:
            frame = Frame(e, source, fn.__name__, fn)
            frame.bind_parameters(values)
            return frame
        closure, function = nested.closure, nested.closure.frame.function
        around = Frame(e, closure.frame.source, closure.frame.name, function)
        around.locals = frozenset((*nested.captured.values(), *nested.functions))
        around.bind_parameters({nested.captured[n]: v for n, v in values.items() if n in nested.captured})
        for name, held in nested.functions.items():
            if isinstance(held, Closure):
                moved: Any = replace(held, frame=around)
            else:
                moved = replace(held, closure=replace(held.closure, frame=around))
            around.assign_name(name, moved)
        frame = Frame(e, source, closure.name, function, around)
        frame.bind_parameters({n: v for n, v in values.items() if n not in nested.captured})
        frame.given |= around.given
        return frame

    def _argument(self, e: Emitter, name: str, spec: Spec, params: list[ParamInfo], place: tuple[int, ...]) -> Any:
        match spec:
            case GeneratorSpec():
                params.append(ParamInfo(name, spec))
                return RandomGenerator(e.function.entry.add_arg(spec.ir_type(), name))
            case ScalarSpec():
                supported(e, DTYPES[spec.dtype].numpy, f"the argument {name}")
                params.append(ParamInfo(name, spec))
                return Scalar(e.function.entry.add_arg(spec.ir_type(), name), spec.weak)
            case ArraySpec():
                supported(e, DTYPES[spec.dtype].numpy, f"the argument {name}")
                params.append(ParamInfo(name, spec))
                return self._array_parameter(e, name, spec)
            case TupleSpec():
                parts = (self._argument(e, f"{name}[{k}]", s, params, (*place, k)) for k, s in enumerate(spec.items))
                return Sequence(tuple(parts))
            case RecordSpec():
                return self._record_argument(e, name, spec, params, place)
            case ListSpec(item, leaf=leaf):
                params.append(ParamInfo(name, leaf))
                array = self._array_parameter(e, name, leaf)
                held = Growing(ScalarType(DTYPES[item.dtype], item.weak), (array,), array.extents[0])
                return self._object_argument(name, held, place)
            case TableSpec():
                return self._table_argument(e, name, spec, params, place)
        return self.lift(e, spec.value, name)

    def _table_argument(
        self, e: Emitter, name: str, spec: TableSpec, params: list[ParamInfo], place: tuple[int, ...]
    ) -> Object:
        arrays = []
        for leaf in spec.columns:
            params.append(ParamInfo(name, leaf))
            arrays.append(make_array(e, e.function.entry.add_arg(leaf.ir_type(), name)))  # of any length, also of 1
        keys, values = arrays[:-1], arrays[-1]
        parts = tuple(ScalarType(DTYPES[s.dtype], s.weak) for s in spec.keys)
        item = SequenceType(parts, is_list=False) if spec.is_tuple else parts[0]
        value = ScalarType(DTYPES[spec.value.dtype], spec.value.weak)
        count = values.extents[0]
        for array in keys:
            e.facts.unify(array.extents[0], count)
        columns = Growing(item, tuple(keys), count), Growing(value, (values,), count)
        return self._table(TableArgument(place, name, Object(table_arguments.key_of(name)), columns))

    def _table(self, given: TableArgument) -> Object:
        self._tables.append(given)
        if given.columns is not None:
            self.table_types[given.object.key] = [leaf_types(c.item) for c in given.columns]
        if self.lends and self.known.is_changed(given.object.key):
            self._lent.append(Lent(given.place, given.name, given.object, given))
        return given.object

    def _record_argument(
        self, e: Emitter, name: str, spec: RecordSpec, params: list[ParamInfo], place: tuple[int, ...]
    ) -> Any:
        if spec.kind is dict and not spec.names and self.known.is_dict(table_arguments.key_of(name)):
            return self._table(TableArgument(place, name, Object(table_arguments.key_of(name)), None))
        path = {list: "{}[{}]", dict: "{}[{!r}]"}.get(spec.kind, "{}.{}")
        keys = spec.names or range(len(spec.items))
        parts = [
            self._argument(e, path.format(name, k), s, params, (*place, n))
            for n, (k, s) in enumerate(zip(keys, spec.items, strict=True))
        ]
        if spec.kind is list:
            held: Any = Sequence(tuple(parts), is_list=True)
        else:
            held = Record(spec.kind, spec.names, tuple(parts))
        return self._object_argument(name, held, place) if objects.is_mutable(held) else held

    def _object_argument(self, name: str, held: Any, place: tuple[int, ...]) -> Object:
        """A list, dict or instance of the caller, which can be changed where the function changes such."""
        if self.lends:
            lent = Object(f"{objects.LENT}{name}")
            self._lent.append(Lent(place, name, lent, held))
            return lent
        return Object(f"{objects.ARGUMENT}.{name}", f"the argument `{name}`", held)

    def _array_parameter(self, e: Emitter, name: str, spec: ArraySpec) -> Array:
        array = make_array(e, e.function.entry.add_arg(spec.ir_type(), name))
        for one, extent in zip(spec.ones, array.extents, strict=True):
            if not one:
                e.facts.never_one.add(extent)
        return array

    def _result(self, e: Emitter, value: Any, leaves: list[Value]) -> Spec:
        lent = None if self.loan is None else self.loan.place_of(value)
        match value if lent is None else lent:
            case Mixed() if not self.is_joined:
                return _either(e, value, leaves)
            case Scalar():
                leaves.append(value.value)
                return ScalarSpec(value.dtype.name, value.weak)
            case Array():
                leaves.append(value.pointer)
                ones = tuple(n == 1 for n in value.type.shape)
                return ArraySpec(value.dtype.name, ones, value.type.layout)
            case Sequence():
                items = tuple(self._result(e, i, leaves) for i in value.items)
                return RecordSpec(list, (), items) if value.is_list else TupleSpec(items)
            case Record() if value.kind is hashing.Set:
                return RecordSpec(set, ("items",), (self._result(e, value.get("items"), leaves),))
            case Static(value=KnownSet(items=items)):
                made = Sequence(tuple(self.lift(e, v, "an item of a set") for v in items), is_list=True)
                return RecordSpec(set, ("items",), (self._result(e, made, leaves),))
            case Object() if tables.held_by(e, value) is not None:
                return self._result(e, tables.settled(e, value), leaves)
            case Record() if value.kind is hashing.Dict:
                parts = (self._result(e, value.get(n), leaves) for n in ("items", "values"))
                return RecordSpec(Pairs, ("keys", "values"), tuple(parts))
            case Record():
                return RecordSpec(value.kind, value.names, tuple(self._result(e, i, leaves) for i in value.items))
            case Growing():
                return self._growing_result(e, value, leaves)
            case Object() | Ref():
                found = objects.target(e, value)
                if isinstance(found, Ref) and self.loan is not None and self.loan.known(found.region)[1]:
                    alone = as_growing(e, Sequence((found,), is_list=True), RefType(found.region))
                    spec = self._growing_result(e, alone, leaves)
                    return GrowingSpec(spec.columns, spec.item, is_item=True)
                return self._result(e, objects.contents(e, value), leaves)
            case Static(value=Place(place)):
                return PlaceSpec(place)
            case Static() if value.value is None or isinstance(value.value, str):
                return ConstantSpec(value.value)
            case Either():
                return self._either_result(e, value, leaves)
        e.error(
            UnsupportedSyntax,
            f"the caller would get {describe(value)}: what can be returned are numbers, arrays, strings, None, and "
            "tuples, lists, dicts, named tuples and dataclasses of these",
        )

    def _either_result(self, e: Emitter, value: Either, leaves: list[Value]) -> Spec:
        """A value of several kinds as a result: which one it is, and the value as one of each."""
        if self.is_library:
            e.error(
                TypeMismatch,
                f"the result is {describe(value)}, on different paths: a library gives values of one type",
                help="give both paths values of one type",
            )
        place, base, found = value.place, 0, []
        specs: list[Spec] = []
        for k, part in enumerate(value.values):
            inner: list[Value] = []
            spec = self._result(e, part, inner)
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

    def _growing_result(self, e: Emitter, value: Growing, leaves: list[Value]) -> GrowingSpec:
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

    # -- captured values -------------------------------------------------------------------------

    def captured_argument(self, e: Emitter, index: int) -> Array | RandomGenerator:
        """A captured array or generator in the function that `e` builds: a parameter, added when first asked for."""
        known = self._captured[e].get(index)
        if known is not None:
            return known
        builder = e.builder
        block, position, loc = builder.block, builder.position, builder.loc
        spec, entry = self.specs[index], e.function.entry
        pointer = entry.add_arg(spec.ir_type(), self.captures.arrays[index].name)
        if isinstance(spec, GeneratorSpec):
            found = self._captured[e][index] = RandomGenerator(pointer)
            return found
        builder.block, builder.position = entry, 0
        extents = []
        for axis, one in enumerate(spec.ones):
            if one:
                extents.append(None)
                continue
            extent = builder.emit("extent", pointer, at=axis)
            e.facts.interval[extent] = (0, EXTENT_MAX)
            e.facts.never_one.add(extent)
            extents.append(extent)
        builder.block, builder.position, builder.loc = block, position, loc
        array = self._captured[e][index] = make_array(e, pointer, extents)
        return array

    def captured_leaf(self, e: Emitter, index: int) -> Value:
        """The parameter that a captured array or generator is."""
        return _leaf(self.captured_argument(e, index))

    def outside(self, e: Emitter, fn: Any, name: str) -> Any:
        """The value of a name that is not local: a closure cell, a global or a built-in."""
        code = fn.__code__
        if name in code.co_freevars:
            cell = fn.__closure__[code.co_freevars.index(name)]
            try:
                return self.lift(e, self.captures.value_of(cell, name, cell.cell_contents), name)
            except ValueError:
                e.error(UnknownName, f"the variable `{name}` of the enclosing function has no value yet")
        found = self.captures.value_of(fn.__globals__, name, fn.__globals__.get(name, ABSENT))
        if found is not ABSENT:
            return self.lift(e, found, name)
        if hasattr(builtins, name):
            return Static(getattr(builtins, name))
        known = [*code.co_varnames, *code.co_freevars, *fn.__globals__, *dir(builtins)]
        e.error(UnknownName, f"name `{name}` is not defined", help=suggestion(name, known))

    def lift(self, e: Emitter, value: Any, name: str) -> Any:
        """The front end's value of a Python object that is known at compile time."""
        if is_hidden_argument(value):
            index = self.captures.index_of(value)
            if index is None:
                what = "array" if isinstance(value, np.ndarray) else "generator"
                e.error(
                    UnsupportedSyntax,
                    f"the {what} `{name}` is reached in a way that is not supported",
                    help="pass it as an argument",
                )
            if isinstance(value, np.ndarray):
                supported(e, value.dtype, f"the array `{name}`")
            return self.captured_argument(e, index)
        if isinstance(value, np.generic):
            dtype = supported(e, value.dtype, f"`{name}`")
            return Scalar(literal(value.item(), scalar(dtype)), weak=False)
        if isinstance(value, (bool, float, complex)):
            return Scalar(literal(value), weak=True)
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                e.error(TypeMismatch, f"the int `{name}` does not fit 64 bits", help="make it a float")
            return Scalar(literal(int(value)), weak=True)
        if type(value) is tuple:
            return Sequence(tuple(self.lift(e, v, name) for v in value))
        if type(value) in (list, dict) or is_record_class(type(value)):
            return self._lift_object(e, value, name)
        if type(value) is functools.partial:
            func, *args = (self.lift(e, v, name) for v in (value.func, *value.args))
            return partial(e, func, *args, **{n: self.lift(e, v, name) for n, v in value.keywords.items()})
        return Static(value)

    def _lift_object(self, e: Emitter, value: Any, name: str) -> Any:
        """A captured list, dict, named tuple or dataclass instance: compiled code reads it and cannot change it."""
        kind = type(value)
        if kind is list:
            held: Any = Sequence(tuple(self.lift(e, v, name) for v in value), is_list=True)
        elif kind is dict:
            if not all(isinstance(k, str) for k in value):
                return Static(value)
            held = Record(dict, tuple(value), tuple(self.lift(e, v, f"{name}[{k!r}]") for k, v in value.items()))
        else:
            names = field_names(kind)
            held = Record(kind, names, tuple(self.lift(e, getattr(value, n), f"{name}.{n}") for n in names))
        if not objects.is_mutable(held):
            return held
        self._tokens[id(value)] = self.known.outside[f"{objects.GLOBAL}.{id(value)}"] = value
        return Object(f"{objects.GLOBAL}.{id(value)}", f"`{name}`, which is defined outside of the function,", held)

    def constant(self, e: Emitter, key: str) -> Any:
        """The captured list, dict or instance that has a key, None if there is none."""
        return self.lift(e, self.known.outside[key], "a list of lists") if key in self.known.outside else None

    def token(self, value: Any) -> Any:
        """A hashable name of a compile-time object; the same for equal strings and dtypes."""
        if value is None or isinstance(value, (str, np.dtype)):
            return ("value", value)
        self._tokens[id(value)] = value
        return ("id", id(value))

    def one_of(self, value: Any) -> Any:
        """A compile-time object that is equal to this one, the same for all of them: calls compare by identity."""
        return self._equal.setdefault(value, value)

    def untoken(self, token: Any) -> Any:
        """The object of a token."""
        return token[1] if token[0] == "value" else self._tokens[token[1]]

    # -- calls -----------------------------------------------------------------------------------

    @staticmethod
    def invoke(e: Emitter, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """function(*args, **kwargs), for the modules below calls.py."""
        return invoke(e, function, args, kwargs)

    @staticmethod
    def bind(e: Emitter, function: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by the names of parameters, for the modules below calls.py."""
        return bind_function(e, function, args, kwargs)

    @staticmethod
    def item(e: Emitter, owner: Any, key: Any) -> Any:
        """An item of a dict with numbers as keys, for the modules below tables.py."""
        return tables.item(e, owner, key)

    @staticmethod
    def rows(e: Emitter, owner: Any, what: str) -> Any:
        """What runs over such a dict, for the modules below tables.py."""
        return tables.rows(e, owner, what)

    @staticmethod
    def require_dict(e: Emitter, owner: Any, key: Any) -> None:
        """Let a dict be such a one, for the modules below tables.py."""
        tables.require(e, owner, key)

    @staticmethod
    def give(e: Emitter, leaves: list[Value]) -> None:
        """Return these values."""
        _return(e, leaves)

    @staticmethod
    def catch(e: Emitter, op: str, operands: Items[Value], attrs: dict[str, Any]) -> bool:
        """Whether a `try` takes what an instruction raises, for the emitter."""
        return catch(e, op, operands, attrs)

    def call(self, e: Emitter, fn: FunctionType, values: dict[str, Any]) -> Any:
        """Call a plain Python function: an `apply` of its specialisation."""
        settled = {n: objects.settle(e, passed(e, v)) for n, v in values.items()}
        if is_caught_here(e):
            return self._in_place(e, self._source(fn), fn.__name__, fn, None, settled)
        extents, leaves = Extents(), []
        running = [dict(tree) for token, tree, *_ in self._running if token == self.token(fn)]
        try:
            tree = tuple(
                (n, abstract(e, v, extents, leaves, [t[n] for t in running if n in t])) for n, v in settled.items()
            )
            callee = self._callee(e, fn, tree)
        except NotFirstClass:
            if fn in self.nested or fn in self.carried:
                return self._with_contents(e, fn, settled)
            if self._inlined.count(self._source(fn).node):
                for way in (self._with_contents, carried.call):
                    try:
                        return way(e, fn, settled)
                    except NotFirstClass:
                        pass  # in place, then, which ends where it calls itself
            return self._in_place(e, self._source(fn), fn.__name__, fn, None, settled)
        return self._called(e, callee, [objects.resolved(e, v) for v in settled.values()], leaves, extents)

    def generator(self, e: Emitter, fn: FunctionType, values: dict[str, Any]) -> Suspended:
        """Call a generator function: its body begins where something loops over it."""
        return generator(e, fn.__name__, self._source(fn), fn, None, values)

    @staticmethod
    def call_with_closures(e: Emitter, function: Any, values: dict[str, Any]) -> Any:
        """Call a recursive function with closures among its arguments, for the modules below carried.py."""
        return carried.call(e, function, values)

    def carried_in(self) -> list[Any]:
        """The functions that take closures of which a version is being translated."""
        running = (self.carried.get(self.untoken(name[0])) for name in self._running)
        return [found[0].target for found in running if found is not None]

    def next_number(self) -> int:
        """A number that is given once."""
        return next(self._numbers)

    def _with_contents(self, e: Emitter, fn: FunctionType, settled: dict[str, Any]) -> Any:
        """Call a function that calls itself, and changes or gives lists, dicts or instances.

        Raises: NotFirstClass where something in the arguments or in the result cannot cross a call.
        """
        extents, leaves = Extents(), []
        given, found = handed.handed_in(e, settled, widens=True)
        for k, one in enumerate(found):  # what has to be so there has to be so from the beginning
            self.known.unite(handed.key_in(fn, k), one.key)
        tree = tuple((n, abstract(e, v, extents, leaves, constants=False)) for n, v in given.items())
        callee = self._callee(e, fn, tree)
        back = self._called(e, callee, given.values(), leaves, extents)
        if handed.keeps_arrays(back):  # the callee may have appended what it was given
            for array in _arrays_by_pointer(list(settled.values())).values():
                e.emit("keepCopy", array.pointer)
        return handed.taken_back(e, back, found)

    def _called(
        self,
        e: Emitter,
        callee: _Callee,
        held: Iterable[Any],
        leaves: list[Value],
        extents: Extents,
        raises: bool = True,
    ) -> Any:
        """Emit a call; what it gives. held: its arguments, of which `leaves` and `extents` are made."""
        taken = [*leaves, *(self.captured_leaf(e, k) for k in callee.captured)]
        if callee.result is None:
            # it does not return, or so it seems: nothing is known yet but this call
            e.emit("apply", *taken, callee=callee.function.name, result=VOID)
            e.emit("raise", exception="RecursionError", message="maximum recursion depth exceeded")
            raise Unreachable
        values_out = self.apply(e, callee, taken, raises)
        arrays = _arrays_by_pointer([*held, *self._captured[e].values()])
        by_position = {k: arrays[v] for k, v in enumerate(taken) if v in arrays}
        return result_value(e, callee.result, values_out, extents, by_position)

    @staticmethod
    def apply(e: Emitter, callee: _Callee, arguments: list[Value], raises: bool = True) -> list[Value]:
        """Emit a call; the leaves of what it gives. raises: whether a `try` around it has to know."""
        result = callee.type
        emit = e.emit if raises else e.builder.emit
        out = emit("apply", *arguments, callee=callee.function.name, result=result)
        if result == VOID:
            return []
        if isinstance(result, TupleType):
            return [e.emit("extract", out, at=k) for k in range(len(result.elements))]
        return [out]

    def whole_callee(self, e: Emitter, fn: FunctionType, tree: Any) -> _Callee:
        """A function for these arguments whose result is all computed: no constants, no arguments left out."""
        return self._callee(e, fn, tree, whole="whole")

    def is_running_in(self, function: Function) -> bool:
        """Whether a function reaches one that is still being translated."""
        unfinished = {c.function.name for c in self._running.values()}
        return any(f.name in unfinished for f in reachable(self.module, function.name))

    def differentiate(
        self, module: Module, name: str, recipe: Any, args: tuple[Spec, ...], captured: tuple[Spec, ...], result: Spec
    ) -> tuple[str, Spec]:
        """The function of a derivative of `name`, and the spec of its result; made once."""
        assert self._differentiate is not None, "translate was called without a rule for derivatives"
        key = name, recipe.key(), repr(args)
        if key not in self._derived:
            self._derived[key] = self._differentiate(module, name, recipe, args, captured, result)
        return self._derived[key]

    def _callee(self, e: Emitter, fn: FunctionType, tree: Any, whole: Any = None, own: Any = None) -> _Callee:
        # whole: None, or what tells this function whose results are all computed from others of the same body
        name = (self.token(fn), tree, *([whole] if whole else []))
        known = self._callees.get(name) or self._callees.get((*name, self.assumptions.path, str(e.loc)))
        if known is not None:
            if isinstance(known, type):
                raise NotFirstClass
            return known
        running = self._running.get(name)
        if running is not None:
            running.is_used = True
            return running
        if sum(running[0] == name[0] for running in self._running) >= _MAX_NESTING:
            e.error(
                UnsupportedSyntax,
                f"{fn.__name__} calls itself with arguments of ever new types or shapes",
                help="pass the same kinds of values at each call, and arrays of one rank (slices of an argument)",
            )
        callee: _Callee | None = None
        for _ in range(_MAX_ATTEMPTS):
            settled = dict(self._callees), dict(self.module.functions), dict(self._derived)
            before = self.assumptions.count
            with self.assumptions.inside(e.loc):
                found = self._attempt(name, fn, tree, callee, bool(whole), own, e.loc)
            if found is not None:
                # another call of it may get other answers
                here = (self.assumptions.path, str(e.loc)) if self.assumptions.count > before else ()
                self._callees[(*name, *here)] = found
                return found
            # again, with what this attempt has found out about the result; what rests on the old assumption goes
            callee = self._learned
            self._callees, self.module.functions, self._derived = settled
        e.error(
            TypeMismatch,
            f"the type of what {fn.__name__} returns cannot be determined: it changes with every call of itself",
            help="return values of one type on all paths",
        )

    def _attempt(
        self, name: Any, fn: FunctionType, tree: Any, assumed: _Callee | None, whole: bool, own: Any, loc: Loc | None
    ) -> _Callee | None:
        """Translate a function, calls of itself by what is `assumed`; None where that was wrong (see `_learned`)."""
        inner, source = self.begin(fn, fn.__name__, loc)
        classes: dict[int, Value] = {}
        values = {n: parameter(inner, t, inner.function.entry, n, classes) for n, t in tree}
        contents, held = values.pop(handed.CONTENTS, None), None
        if contents is not None:
            values, held = handed.taken_in(inner, fn, values, contents)
        count = len(inner.function.params)
        for k in own_rules.captured_by_rules(self, own) if own is not None else []:
            self.captured_argument(inner, k)
        guess = _Callee(inner.function, None, [], VOID)
        if assumed is not None:
            guess = _Callee(inner.function, assumed.result, assumed.captured, assumed.type)
            for k in assumed.captured:
                self.captured_argument(inner, k)
        self._running[name] = guess
        try:
            result = self.run(inner, source, fn, values, held)
            if held is not None and result is not None:
                result = handed.handed_back(inner, result, held)
            if own is not None and result is not None:
                inner.function.loc = source.loc(source.node)
                result = own_rules.fresh(inner, result)
            leaves: list[Value] = []
            arguments: list[Value] = [] if whole else list(inner.function.params)
            constants = not guess.is_used and not whole and held is None
            result = joined(result) if whole else result
            shown = result_tree(inner, NONE if result is None else result, classes, arguments, leaves, constants)
        except NotFirstClass:
            del self.module.functions[inner.function.name]
            self._callees[name] = NotFirstClass  # type: ignore[assignment]
            raise
        finally:
            del self._running[name]
        if result is not None:
            _return(inner, leaves)
        captured = sorted(
            self._captured[inner], key=lambda k: inner.function.params.index(_leaf(self._captured[inner][k]))
        )  # type: ignore[arg-type]
        assert len(inner.function.params) == count + len(captured)
        found = _Callee(inner.function, shown, captured, inner.function.result)
        if not guess.is_used:
            if result is None and (not whole or any(c.is_used and c.result is None for c in self._running.values())):
                found.result = None
            return found
        if result is None:
            if not any(c.is_used and c.result is None for c in self._running.values()):
                if guess.result is None and not captured:
                    found.result = None  # all that it does is raise, or call itself for ever
                    return found
                raise TypeMismatch(
                    f"the type of what {fn.__name__} returns cannot be determined: on every path it calls itself",
                    source.loc(source.node),
                    help="return a value without such a call on one path",
                )
            found.result = None
            return found
        if guess.result is not None and same_result(shown, guess.result):
            if found.type == guess.type and captured == guess.captured:
                return found
        self._learned = found
        return None

    def library(self, e: Emitter, fn: FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function of frontend/library: its body is translated here, at the place of the call."""
        if fn in hashing.SHARED:
            return self._shared(e, fn, bind_function(e, fn, args, kwargs))
        return self._library(e, fn, bind_function(e, fn, args, kwargs))

    def _library(self, e: Emitter, fn: FunctionType, values: dict[str, Any]) -> Any:
        settled = {n: objects.settle(e, joined(v)) for n, v in values.items()}
        source = replace(library_source(fn), at=e.loc)
        if is_generator(fn):
            return generator(e, fn.__name__.strip("_"), source, fn, None, settled)
        return joined(self._in_place(e, source, fn.__name__, fn, None, settled))

    def _shared(self, e: Emitter, fn: FunctionType, values: dict[str, Any]) -> Any:
        """Call a function that changes objects, and raises nothing: all such calls share its body.

        It is translated in place where what is in the arguments cannot cross a call.
        """
        settled = {n: objects.settle(e, joined(v)) for n, v in values.items()}
        extents, leaves = Extents(), []
        try:
            given, found = handed.handed_in(e, settled)
            tree = tuple((n, abstract(e, v, extents, leaves, constants=False)) for n, v in given.items())
            callee = self._callee(e, fn, tree)
        except NotFirstClass:
            return self._library(e, fn, settled)
        if not any(i.op.name == "keepCopy" for i in callee.function.instructions()):  # which has to be seen here
            callee.function.attributes.add("noinline")
        back = self._called(e, callee, given.values(), leaves, extents, raises=False)
        return joined(handed.taken_back(e, back, found))

    def inline(self, e: Emitter, closure: Closure, values: dict[str, Any]) -> Any:
        """Call a nested function: its body is translated here."""
        source = replace(closure.frame.source, node=closure.node)
        settled = {n: objects.settle(e, passed(e, v)) for n, v in values.items()}
        if closure.frame.e is not e:
            raise NotFirstClass
        return self._in_place(e, source, closure.name, closure.frame.function, closure.frame, settled)

    def _in_place(self, e: Emitter, source: Source, name: str, fn: Any, outer: Any, values: dict[str, Any]) -> Any:
        if self._inlined.count(source.node) >= _MAX_INLINE_DEPTH:
            if any(not t.is_call for t in e.tries):
                e.error(
                    UnsupportedSyntax,
                    f"{name} calls itself: recursion inside of a `try` is not supported",
                    help="catch inside of the function, or call it before the `try`",
                )
            if is_caught_here(e):
                e.error(
                    UnsupportedSyntax,
                    f"{name} calls itself: recursion after a list, dict or instance of the caller was changed is not "
                    "supported",
                    help="change the caller's lists behind it, or return new ones",
                )
            e.error(
                UnsupportedSyntax,
                f"{name} calls itself: recursion of functions that take functions which rebind names, or lists and "
                "dicts that compiled code has made, or that change such things, or `nonlocal` names, around them, is "
                "not supported",
                help="let it take numbers and arrays (or the caller's lists) and return what it finds, or write a loop",
            )
        self._inlined.append(source.node)
        loc = e.loc
        try:
            with self.assumptions.inside(loc):
                frame = Frame(e, source, name, fn, outer)
                frame.bind_parameters(values)
                result = frame.run()
        finally:
            self._inlined.pop()
        e.builder.loc = loc
        if result is None:
            raise Unreachable
        return result

    def _source(self, fn: FunctionType, loc: Loc | None = None) -> Source:
        if fn in self.carried:
            _, target, _ = self.carried[fn]
            if isinstance(target, Closure):
                return Source(target.node, target.frame.source.file, target.frame.source.shift)
            return self._source(target)
        if fn in self.nested:
            closure = self.nested[fn].closure
            return Source(closure.node, closure.frame.source.file, closure.frame.source.shift)
        if is_library(fn):
            return replace(library_source(fn), at=loc)
        code = fn.__code__
        if code not in self._sources:
            flags = {0x80: "a coroutine", 0x200: "an async generator"}
            for flag, what in flags.items():
                if code.co_flags & flag:
                    loc = Loc(code.co_filename, code.co_firstlineno)
                    raise UnsupportedSyntax(
                        f"{fn.__name__} is {what}: that is not supported", loc, help="return an array"
                    )
            self._sources[code] = function_source(fn)
        return self._sources[code]

    def _drop_unused(self, entry: Function) -> None:
        """Remove callees of attempts that were given up (flow.py translates loops again)."""
        used, pending = {entry.name}, [entry]
        while pending:
            for instruction in pending.pop().instructions():
                callee = instruction.attrs.get("callee")
                for name in () if callee is None else (callee, *self.module.functions[callee].rules.values()):
                    if name not in used:
                        used.add(name)
                        pending.append(self.module.functions[name])
        self.module.functions = {n: f for n, f in self.module.functions.items() if n in used}


def _either(e: Emitter, value: Mixed, leaves: list[Value]) -> Spec:
    """A number of several types as a result: which one it has, and the number as one of each."""
    place: Value = i64(len(value.others))
    for k, other in reversed(list(enumerate(value.others))):
        place = e.choose(other.flag, i64(k), place)
    scalars = [*(other.scalar for other in value.others), value.joined]
    leaves += [place, *(s.value for s in scalars)]
    return EitherSpec(tuple(ScalarSpec(s.dtype.name, s.weak) for s in scalars))


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


def _arrays_by_pointer(values: list[Any]) -> dict[Value, Array]:
    found: dict[Value, Array] = {}
    for value in values:
        if isinstance(value, Array):
            found[value.pointer] = value
        elif isinstance(value, Sequence | Record):
            found |= _arrays_by_pointer(list(value.items))
    return found


def _return(e: Emitter, leaves: list[Value]) -> None:
    """`return` of nothing, one value, or a tuple of the leaves."""
    if len(leaves) > 1:
        value = e.emit("tuple", *leaves)
        e.function.result = value.type
        e.builder.ret(value)
    else:
        e.function.result = leaves[0].type if leaves else VOID
        e.builder.ret(*leaves)


def _leaf(captured: Array | RandomGenerator) -> Value:
    return captured.pointer if isinstance(captured, Array) else captured.address


def _parameter_names(fn: FunctionType) -> tuple[str, ...]:
    code = fn.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    # inspect's order: positional, *args, keyword-only, **named
    names, positional = code.co_varnames, code.co_argcount
    has_rest, has_named = bool(code.co_flags & 0x04), bool(code.co_flags & 0x08)
    rest = names[count : count + has_rest]
    named = names[count + has_rest : count + has_rest + has_named]
    return (*names[:positional], *rest, *names[positional:count], *named)


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name).strip("_") or "lambda"
