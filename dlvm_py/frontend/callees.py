"""Calls of Python functions: each is translated once for the kinds of its arguments, as a function of the module.

What cannot cross a call (functions, objects that change) has the body of the callee translated at the place of the
call; so have the functions of frontend/library, and those that are defined inside compiled code.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any

from dlvm_py.errors import Loc, TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import carried, handed, objects, own_rules
from dlvm_py.frontend.assumptions import Assumptions
from dlvm_py.frontend.calls import bind_function
from dlvm_py.frontend.capture import Captures
from dlvm_py.frontend.derivatives import Differentiate
from dlvm_py.frontend.emit import Emitter, Unreachable
from dlvm_py.frontend.exceptions import is_caught_here
from dlvm_py.frontend.frame import Frame
from dlvm_py.frontend.generators import call as generator
from dlvm_py.frontend.generators import is_generator
from dlvm_py.frontend.lent import Loan
from dlvm_py.frontend.library import hashing
from dlvm_py.frontend.library_calls import is_library
from dlvm_py.frontend.mixed import joined, passed
from dlvm_py.frontend.nested import Nested
from dlvm_py.frontend.outside import Outside, leaf_of
from dlvm_py.frontend.regions import Known
from dlvm_py.frontend.results import give
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
from dlvm_py.frontend.values import NONE, Array, Binding, Closure, Record, Sequence, Suspended
from dlvm_py.frozen import Mutable, replace
from dlvm_py.ir import VOID, Function, Module, TupleType, Type, Value
from dlvm_py.ir.analysis.calls import reachable
from dlvm_py.ir.interface import ArraySpec, GeneratorSpec, Spec
from dlvm_py.options import Options

# of one function within itself: passing functions around nests them, recursion has no end
_MAX_INLINE_DEPTH = 4
# of one function within itself, for other types each time; and how often the type of a result may change
_MAX_NESTING, _MAX_ATTEMPTS = 8, 8


class Callee(Mutable):
    """A translated function: its IR, the tree of its result, the captured arrays that it takes last.

    `type` is the type of its IR result. Of a function that is still being translated these are assumptions;
    `result` None then stands for a call that does not return, `is_used` is whether a call rests on them.
    """

    function: Function
    result: Any
    captured: list[int]
    type: Type
    is_used: bool = False


class Calls(Outside):
    """The functions of one module, and the calls of them."""

    def __init__(
        self,
        captures: Captures,
        options: Options,
        specs: tuple[ArraySpec | GeneratorSpec, ...],
        name: str,
        differentiate: Differentiate | None = None,
        answers: Mapping[str, bool | None] | None = None,
        known: Known | None = None,
    ) -> None:
        super().__init__(captures, specs, known)
        self.options = options
        self.assumptions = Assumptions(answers or {})
        self.loan: Loan | None = None
        self.name = identifier(name)
        self.module = Module(self.name, "raw")
        self._differentiate = differentiate
        self._derived: dict[Any, tuple[str, Spec]] = {}
        self.own: dict[str, own_rules.Own] = {}  # functions with rules, by their names in the module
        self._callees: dict[Any, Callee] = {}
        self._running: dict[Any, Callee] = {}  # by function and arguments, the innermost last
        self._learned: Callee | None = None
        self._inlined: list[Any] = []
        self.nested: dict[FunctionType, Nested] = {}  # functions that stand for closures
        self.stand_ins: dict[Any, FunctionType] = {}  # those of recursive ones, by what they read
        # functions that stand for recursive ones that take closures: the call, the function, the frames of the closures
        self.carried: dict[FunctionType, tuple[carried.Carried, Any, tuple[Frame, ...]]] = {}
        self._sources: dict[Any, Source] = {}
        self._numbers = itertools.count()

    # -- bodies ----------------------------------------------------------------------------------

    def begin(self, fn: FunctionType, name: str, loc: Loc | None = None) -> tuple[Emitter, Source]:
        """A new function of the module for a Python function, and its source; of the library, called at `loc`."""
        source = self._source(fn, loc)
        if is_generator(fn):
            raise UnsupportedSyntax(
                f"{fn.__name__} is a generator: a compiled function returns values",
                source.loc(source.node),
                help="compile the function that loops over it, or return an array",
            )
        function = Function(identifier(name), VOID)
        self.module.add(function)
        # where our library asks for an index, there is one
        options = replace(self.options, boundscheck=False) if is_library(fn) else self.options
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

    # -- calls -----------------------------------------------------------------------------------

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

    def inline(self, e: Emitter, closure: Closure, values: dict[str, Any]) -> Any:
        """Call a nested function: its body is translated here."""
        source = replace(closure.frame.source, node=closure.node)
        settled = {n: objects.settle(e, passed(e, v)) for n, v in values.items()}
        if closure.frame.e is not e:
            raise NotFirstClass
        return self._in_place(e, source, closure.name, closure.frame.function, closure.frame, settled)

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
        callee: Callee,
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
    def apply(e: Emitter, callee: Callee, arguments: list[Value], raises: bool = True) -> list[Value]:
        """Emit a call; the leaves of what it gives. raises: whether a `try` around it has to know."""
        result = callee.type
        emit = e.emit if raises else e.builder.emit
        out = emit("apply", *arguments, callee=callee.function.name, result=result)
        if result == VOID:
            return []
        if isinstance(result, TupleType):
            return [e.emit("extract", out, at=k) for k in range(len(result.elements))]
        return [out]

    # -- the functions that are called ------------------------------------------------------------

    def whole_callee(self, e: Emitter, fn: FunctionType, tree: Any) -> Callee:
        """A function for these arguments whose result is all computed: no constants, no arguments left out."""
        return self._callee(e, fn, tree, whole="whole")

    def own_callee(self, e: Emitter, target: Any, fn: FunctionType, tree: Any) -> Callee:
        """A function with rules for these arguments: its result is all computed, and its arrays are its own."""
        callee = self._callee(e, fn, tree, whole=self.token(target), own=target)
        known = self.own.get(callee.function.name)
        if known is None or known.callee is not callee:
            self.own[callee.function.name] = own_rules.Own(target, tree, callee)
        return callee

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

    def _callee(self, e: Emitter, fn: FunctionType, tree: Any, whole: Any = None, own: Any = None) -> Callee:
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
        callee: Callee | None = None
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
        self, name: Any, fn: FunctionType, tree: Any, assumed: Callee | None, whole: bool, own: Any, loc: Loc | None
    ) -> Callee | None:
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
        guess = Callee(inner.function, None, [], VOID)
        if assumed is not None:
            guess = Callee(inner.function, assumed.result, assumed.captured, assumed.type)
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
            give(inner, leaves)
        captured = sorted(
            self._captured[inner], key=lambda k: inner.function.params.index(leaf_of(self._captured[inner][k]))
        )  # type: ignore[arg-type]
        assert len(inner.function.params) == count + len(captured)
        found = Callee(inner.function, shown, captured, inner.function.result)
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


def _arrays_by_pointer(values: list[Any]) -> dict[Value, Array]:
    found: dict[Value, Array] = {}
    for value in values:
        if isinstance(value, Array):
            found[value.pointer] = value
        elif isinstance(value, Sequence | Record):
            found |= _arrays_by_pointer(list(value.items))
    return found


def identifier(name: str) -> str:
    """A name that the IR takes."""
    return re.sub(r"\W", "_", name).strip("_") or "lambda"
