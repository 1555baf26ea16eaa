"""One activation of a Python function in the function that is built: names, statements, results.

Statements are translated in order into the current block; what cannot be reached is not translated.
Expressions are in expressions.py, control flow in flow.py.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from typing import Any

import gast
import numpy as np

from dlvm_py.errors import Loc, TypeMismatch, UnknownName, UnsupportedSyntax
from dlvm_py.frontend import (
    either,
    exceptions,
    generators,
    lists,
    numpy_complex,
    objects,
    operators,
    overloads,
    records,
    regions,
    sets,
    subscripts,
    tables,
    texts,
)
from dlvm_py.frontend.advanced import Selection, gathered
from dlvm_py.frontend.advanced import write as write_selected
from dlvm_py.frontend.arrays import fit, store, tensor_of
from dlvm_py.frontend.attributes import attribute
from dlvm_py.frontend.capture import class_name, imported_module, imported_name, is_ours, plain_function
from dlvm_py.frontend.elementwise import in_place
from dlvm_py.frontend.emit import Emitter, Unreachable
from dlvm_py.frontend.expressions import Expressions
from dlvm_py.frontend.flow import Edge, LoopContext, unbound_message
from dlvm_py.frontend.growing import as_array
from dlvm_py.frontend.iterate import iteration_of
from dlvm_py.frontend.library import streams
from dlvm_py.frontend.liveness import body_facts, writes
from dlvm_py.frontend.mixed import mixed
from dlvm_py.frontend.nodes import Consumed, Ended, Generated
from dlvm_py.frontend.set_shape import pointers, set_shape
from dlvm_py.frontend.source import Source
from dlvm_py.frontend.values import (
    NONE,
    Array,
    Binding,
    Caught,
    Closure,
    Conflict,
    Either,
    Generator,
    Growing,
    Iteration,
    Method,
    Mixed,
    Object,
    Record,
    Ref,
    Scalar,
    Sequence,
    SliceKey,
    Static,
    Temp,
    Text,
    Undecided,
    describe,
    is_none,
)
from dlvm_py.ir import Literal, literal
from dlvm_py.ir.exceptions import exception_class

RESULT = "$result"
_MAX_UNROLLED = 1000
_EXCEPTIONS = {c for c in vars(builtins).values() if isinstance(c, type) and issubclass(c, Exception)}
_LAZY = (enumerate, zip, map, filter)  # they look into what they are given when their items are taken
# parts of messages whose evaluation does nothing
_SIMPLE = (gast.JoinedStr, gast.FormattedValue, gast.Constant, gast.Name, gast.Attribute, gast.expr_context)
_REFUSED = {
    gast.ClassDef: ("a class inside a compiled function", "define it outside"),
    gast.AsyncFunctionDef: ("`async def`", "write a plain `def`"),
    gast.AsyncFor: ("`async for`", "await outside, and pass the values in"),
    gast.AsyncWith: ("`async with`", "await outside, and pass the values in"),
}


class Frame(Expressions):
    """Translates one function body with given arguments."""

    def __init__(self, e: Emitter, source: Source, name: str, function: Any, outer: Frame | None = None) -> None:
        self.e = e
        self.source = source
        self.name = name
        self.function = function  # the Python function whose globals and cells are read
        self.is_within_loop = e.frame is not None and e.frame.is_in_loop  # where it is called
        self.outer = outer  # the frame in which a nested function is defined
        body = body_facts(source.node)
        self.body, self.has_nested, self.live = body.statements, body.has_nested, body.live
        self.locals, self.nonlocals, self.cells = body.locals, body.nonlocals, body.cells
        self.env: dict[str, Binding] = {}
        self.given: frozenset[Any] = frozenset()  # the pointers of the arguments
        self.loops: list[LoopContext] = []
        self.returns: list[Edge] = []
        self.learned: dict[tuple[Any, str], Any] = {}
        self.unset: set[tuple[Any, str]] = set()
        self.apart: set[tuple[Any, str]] = set()
        self.made: dict[str, int] = {}
        self.inherited: frozenset[str] = frozenset()
        self.keeps_all = 0
        self.branching, self.ways = 0, 1
        self.decided: dict[Any, Any] = {}
        self.operands: list[tuple[int, dict[Any, Any]]] = []
        self.caught: list[Caught] = []  # what the handlers that are being translated have
        self.finals: list[Any] = []  # the `finally` that a way out has to pass (exceptions.py)
        self.shadowed: frozenset[str] = frozenset()  # targets of the comprehensions that are being translated
        self.counters: dict[tuple[Any, str], tuple[int, int]] = {}
        self.around = () if e.frame is None else e.frame.nest  # the loops where it is called
        self.spliced: dict[Any, tuple[Generated, int]] = {}  # the bodies of generators, by what consumes them
        self.scopes: dict[str, generators.Scope] = {}  # where these look up names, by their numbers
        self.consumers: dict[Generated, generators.Consumer] = {}
        self.folded = frozenset()
        self.lengthened: set[Any] = set()  # loops that make lists longer or shorter that they run over

    # -- running ---------------------------------------------------------------------------------

    def bind_parameters(self, values: dict[str, Any]) -> None:
        """Bind the parameters."""
        loc = self.source.loc(self.source.node)
        held = {} if self.e.frame is None else self.e.frame.env
        self.env = {n: b for n, b in held.items() if n.startswith(objects.PREFIX)}
        self.inherited = frozenset(self.env)
        self.env |= {n: b for n, b in held.items() if n.startswith((objects.ARGUMENT, objects.GLOBAL))}
        self.env |= {n: Binding(v, loc) for n, v in values.items() if n not in self.cells}
        for name in sorted(self.cells & frozenset(values)):
            self._fill_cell(self.env, name, Binding(values[name], loc))
        self.given = pointers(list(values.values()))

    @property
    def is_in_loop(self) -> bool:
        """Whether what is translated now stands in a loop."""
        return self.is_within_loop or bool(self.loops)

    @property
    def nest(self) -> tuple[LoopContext, ...]:
        """The loops around what is translated now, with those where the function is called."""
        return (*self.around, *(c for c in self.loops if c.repeats))

    def run(self) -> Any:
        """Translate the body; returns the result where all `return`s meet, None if none is reached.

        What objects hold then is handed to the calling frame.
        """
        caller, self.e.frame = self.e.frame, self
        try:
            if caller is None:
                regions.refer_constants(self.e, [b.value for b in self.env.values()])
            return self._run()
        finally:
            if caller is not None:  # the outermost stays, for the result
                self.e.frame = caller
                caller.env |= {n: b for n, b in self.env.items() if n.startswith(objects.PREFIX)}

    def _run(self) -> Any:
        depth, last = self.e.facts.push(), self.body[-1]
        self.execute(self.body[:-1])
        early = bool(self.returns)
        self.execute([last])
        straight = not early and (self.alive or isinstance(last, gast.Return))
        if self.alive:
            self._return(NONE, self.source.loc(self.source.node))
        # the code before one return does not dominate the others
        self.e.facts.pop(depth, keep=straight and len(self.returns) == 1)
        if not self.returns:
            return None
        self.merge(self.returns, "return")
        result = self.env[RESULT].value
        self.e.builder.loc = self.env[RESULT].loc
        if isinstance(result, Conflict):
            self.require_several(RESULT)
            self._conflict(result, "the result")
        return result

    def execute(self, body: list[Any]) -> None:
        """Translate statements until one does not go on."""
        for node in body:
            if not self.alive:
                return
            depth = len(self.e.facts.scopes)
            self.e.builder.loc = self.source.loc(node)
            try:
                self._of_each_kind(node)
            except Unreachable:
                self.stop()
            self.e.facts.pop(depth)

    def _of_each_kind(self, node: Any) -> None:
        """Translate one statement: once for each kind of value that a name which it reads may have (either.py)."""
        if self.e.session.known.knows_several:
            several = [n for n, b in self.env.items() if isinstance(b.value, Either)]
            name = next(iter(either.reads(node, several)), None) if several else None
            if name is not None:
                either.of_each(self, self.env[name].value, lambda _: self._of_each_kind(node))
                return
        self.statement(node)

    def statement(self, node: Any) -> None:
        """Translate one statement."""
        match node:
            case gast.Expr(value=gast.Constant()) | gast.Pass():
                return
            case gast.Expr(value=gast.Call(func=gast.Name(id=name))) if name.partition(".")[0] == "print":
                self._of_each_type(node, lambda: self.expression(node.value))
            case gast.Expr():
                self.expression(node.value)
            case gast.Assign():
                value = self.expression(node.value)
                if len(node.targets) > 1 or not isinstance(node.targets[0], gast.Subscript):
                    value = self._settle(value)  # what is stored right away needs no memory of its own
                for target in node.targets:
                    self.assign(target, value)
            case gast.AnnAssign():
                if node.value is not None:
                    self.assign(node.target, self._settle(self.expression(node.value)))
            case gast.AugAssign():
                self._augmented(node)
            case gast.If():
                self._if(node)
            case gast.While():
                self._while(node)
            case gast.For():
                self._for(node)
            case gast.Try():
                exceptions.translate(self, node)
            case gast.Break():
                exceptions.leave(self, self.loops[-1].leaves or len(self.loops))
                if self.alive:
                    self.loops[-1].breaks.append(self.jump(self.loops[-1].after))
            case gast.Continue():
                exceptions.leave(self, len(self.loops))
                if self.alive:
                    self.loops[-1].continues.append(self.jump(self.loops[-1].header, self.loops[-1].expected))
            case gast.Return():
                value = NONE if node.value is None else self._settle(self.expression(node.value))
                value = exceptions.leave(self, 0, value)
                if self.alive:
                    self._return(value, self.source.loc(node))
            case gast.FunctionDef():
                self.assign_name(node.name, self.define(node))
            case gast.Assert():
                self._assert(node)
            case gast.Global():
                self._global(node)
            case gast.Nonlocal():
                pass  # __init__ has read it
            case gast.Import() | gast.ImportFrom():
                self._import(node)
            case gast.Delete():
                for target in node.targets:
                    self._delete(target)
            case gast.With():
                self._with(node)
            case gast.Match():
                self._match(node)
            case gast.Raise():
                self._of_each_type(node, lambda: self._raise(node))
            case Consumed():
                generators.consumed(self, node)
            case Ended():
                generators.ended(self, node)
            case _:
                what, hint = _REFUSED.get(type(node), (f"`{type(node).__name__}`", None))
                self.e.error(UnsupportedSyntax, f"{what} is not supported", help=hint)

    def _of_each_type(self, node: Any, action: Callable[[], Any]) -> None:
        """Translate what shows numbers, with each of the types that those have which it names."""
        names = (n.id for n in gast.walk(node) if isinstance(n, gast.Name))
        name = next((n for n in names if n in self.env and isinstance(self.env[n].value, Mixed)), None)
        if name is None:
            action()
            return
        binding = self.env[name]
        value = binding.value

        def of(number: Scalar) -> None:
            self.env[name] = here = Binding(number, binding.loc, binding.is_set)
            self._of_each_type(node, action)
            if self.alive and self.env[name] is here:
                self.env[name] = binding

        other, rest = value.others[0], mixed(value, value.others[1:])
        self.branches(other.flag, lambda: of(other.scalar), lambda: of(rest))

    def _settle(self, value: Any) -> Any:
        return objects.settle(self.e, value)

    def _return(self, value: Any, loc: Loc | None) -> None:
        # a nested function that is returned goes on reading this frame's names
        kept = frozenset(self.env) if self.has_nested else frozenset()
        self.env = {**self.env, RESULT: Binding(value, loc)}
        self.returns.append(self.jump({*kept, RESULT}))

    # -- names -----------------------------------------------------------------------------------

    def _import(self, node: Any) -> None:
        """`import` binds modules and what they hold now, as constants; a failing one raises where it stands."""
        level = getattr(node, "level", None) or 0
        for alias in node.names:
            try:
                if isinstance(node, gast.ImportFrom):
                    module = imported_module(self.function, node.module or "", level)
                    found = self.e.session.captures.value_of(
                        module.__dict__, alias.name, imported_name(module, alias.name)
                    )
                else:
                    found = imported_module(self.function, alias.name, 0)
            except ImportError as error:
                kind = type(error) if type(error) in _EXCEPTIONS else ImportError
                message = str(error).replace("{", "{{").replace("}", "}}")
                self.e.emit("raise", exception=kind.__name__, message=message)
                raise Unreachable from None
            name = alias.asname or alias.name
            if isinstance(node, gast.Import) and not alias.asname:
                name = alias.name.partition(".")[0]
                found = sys.modules[name]
            self.assign_name(name, self.e.session.lift(self.e, found, name))

    def assign_name(self, name: str, value: Any) -> None:
        """Bind a local name, or one of an enclosing function that is declared `nonlocal`."""
        binding = Binding(value, self.e.loc)
        if name in self.cells:
            self._fill_cell(self.env, name, binding)
        elif name in self.nonlocals:
            owner, own = self._owner_of(name)
            if own not in owner.env:
                self.e.error(
                    UnsupportedSyntax,
                    f"`{own}` has no value yet in {owner.name}, where it belongs to",
                    help=f"give it one before {self.name} is called",
                )
            self.env[owner.env[own].value.key] = binding
        else:
            self.env[name] = binding

    def _fill_cell(self, env: dict[str, Binding], name: str, binding: Binding) -> None:
        """Bind a name that nested functions rebind: the object stays, what it holds is new."""
        held, count = env.get(name), 0
        if held is not None and isinstance(held.value, Conflict):
            held = None  # two paths made an object each: whoever looks it up from here on finds a new one
        if held is None or held.is_set is not None:
            while held is None and f"{objects.PREFIX}.cell.{name}.{count}" in env:
                count += 1
            cell = Object(f"{objects.PREFIX}.cell.{name}.{count}") if held is None else held.value
            env[name] = held = Binding(cell, binding.loc)
        env[held.value.key] = binding

    def _owner_of(self, name: str) -> tuple[Frame, str]:
        """The frame of the function that a `nonlocal` name belongs to, and its name there."""
        own, _, number = name.partition(".")
        owner = self.outer
        if number and number in self.scopes:
            name, owner = own, self.scopes[number].outer
        while owner is not None and name not in owner.cells:
            owner = owner.outer
        assert owner is not None  # Python's compiler has looked
        return owner, name

    def read_name(self, name: str) -> Any:
        """The value of a name as Python resolves it: local, enclosing function, global, built-in."""
        if name in self.locals or name in self.shadowed:
            return self._read_local(name)
        own, _, number = name.partition(".")
        if number and number in self.scopes:  # of a generator
            scope = self.scopes[number]
            if scope.outer is not None:
                return scope.outer.read_name(own)
            return self.e.session.outside(self.e, scope.function, own)
        if self.outer is not None:
            return self.outer.read_name(name)
        if name not in self.function.__globals__ and name in self._comprehended():
            self.e.error(
                UnsupportedSyntax,
                f"a function that a comprehension has made reads its `{name}` after its end, where it is the last one",
                help=f"give it as a default, lambda v, {name}={name}: ...",
            )
        return self.e.session.outside(self.e, self.function, name)

    def _comprehended(self) -> frozenset[str]:
        """The names that comprehensions of this function bind."""
        found = (g.target for n in gast.walk(self.source.node) for g in getattr(n, "generators", ()))
        return writes(list(found))

    def _read_local(self, name: str) -> Any:
        binding = self.env.get(name)
        if binding is None:
            # an earlier iteration may have set it
            if name not in self.shadowed and any(name in c.assigned for c in self.loops):
                self.e.emit("raise", exception="UnboundLocalError", message=unbound_message(name))
                raise Unreachable
            self.e.error(UnknownName, unbound_message(name), help="assign it on every path before it is read")
        if isinstance(binding.value, Conflict):
            self.require_several(name)
            self._conflict(binding.value, f"`{name.partition('.')[0]}`")
        self.raise_if_unset(name, binding, self.e.loc)
        if name in self.cells:
            held = self.e.frame.env[binding.value.key].value
            if isinstance(held, Conflict):
                self.require_several(binding.value.key)
                self._conflict(held, f"`{name}`")
            return held
        return binding.value

    def _conflict(self, conflict: Conflict, what: str) -> None:
        places = " and ".join(f"line {p.line}" for p in conflict.places if p is not None)
        verb = "returned" if what == "the result" else "assigned"
        where = f" ({verb} in {places})" if places else ""
        hint = (
            "give both paths values of one type"
            if what == "the result"
            else "use two names, or give both paths values of one type"
        )
        self.e.error(
            TypeMismatch,
            conflict.said_of(what, where),
            help=conflict.help or hint,
        )

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
            value = self.expression(node.value)
            result = self._augmented_value(old, kind, value)
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
        subscripts.assign(self.e, place, operators.binary(self.e, kind, old, self.expression(node.value)))

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

    # -- control flow ----------------------------------------------------------------------------

    def _if(self, node: Any) -> None:
        with self.at(node.test):
            condition = operators.condition(self.e, self._truth(self.expression(node.test)))
        if isinstance(condition, Literal):
            self.execute(node.body if condition.value else node.orelse)
            return
        self.branches(
            condition, lambda: self.execute(node.body), lambda: self.execute(node.orelse), self.live.after[node]
        )

    def _while(self, node: Any) -> None:
        def test() -> Any:
            self.e.builder.loc = self.source.loc(node.test)
            return operators.condition(self.e, self._truth(self.expression(node.test)))

        self.loop(node, test, None, lambda _: None, lambda: self.execute(node.body), lambda: self.execute(node.orelse))

    def _for(self, node: Any) -> None:
        if node in self.lengthened:
            generators.loop(self, node, self._current(node))
            return
        with self.at(node.iter):
            given = self.expression(node.iter)
            if isinstance(given, Generator):
                generators.loop(self, node, given)
                return
            source = tables.iterated(self.e, given)
        over = self._lists_of(node, source)
        if not over:
            self._loop_over(node, given, source, over)
            return
        depth = self.e.facts.push()
        undo = self.checkpoint()
        if self._loop_over(node, given, source, over):
            self.e.facts.pop(depth, keep=True)
            return
        undo()
        self.e.facts.pop(depth)
        self.lengthened.add(node)
        self._for(node)

    def _lists_of(self, node: Any, source: Any) -> list[Object]:
        """The lists that a loop looks into at each turn: what it runs over, or what `enumerate` and the like do."""
        found = [source]
        if isinstance(node.iter, gast.Call) and isinstance(node.iter.func, gast.Name):
            function = self.expression(node.iter.func)
            if not (isinstance(function, Static) and any(function.value is f for f in _LAZY)):
                return []
            if any(k.arg == "strict" and getattr(k.value, "value", None) is True for k in node.iter.keywords):
                return []  # which has looked at the lengths
            names = [a.id for a in node.iter.args if isinstance(a, gast.Name)]
            found = [self.env[n].value for n in names if n in self.env]
        return [v for v in found if isinstance(v, Object) and lists.is_list(objects.contents(self.e, v))]

    def _current(self, node: Any) -> Any:
        """What a loop runs over that makes these lists longer or shorter: what they have at each turn."""

        def looked_into(value: Any) -> Any:
            is_list = isinstance(value, Object) and lists.is_list(objects.contents(self.e, value))
            return self.e.session.library(self.e, streams.current, [value], {}) if is_list else value

        with self.at(node.iter):
            if isinstance(node.iter, gast.Call):
                if not all(k.arg for k in node.iter.keywords):
                    self._refuse_changed(node)
                named = {k.arg: self.expression(k.value) for k in node.iter.keywords}
                function = self.expression(node.iter.func)
                given = [self.expression(a) for a in node.iter.args]
                pairs = zip(node.iter.args, given, strict=True)
                values = [looked_into(v) if isinstance(a, gast.Name) else v for a, v in pairs]
                return self.e.session.invoke(self.e, function, values, named)
            found = looked_into(self.expression(node.iter))
            if not isinstance(found, Generator):
                self._refuse_changed(node)
            return found

    def _loop_over(self, node: Any, given: Any, source: Any, over: list[Object]) -> bool:
        """A loop over what a value has where it begins; False if it makes one of these lists longer or shorter."""
        items = records.iterated(objects.contents(self.e, source))
        if isinstance(items, Sequence):
            return self._unrolled(node, source, items, over)
        with self.at(node.iter):
            if not isinstance(items, Iteration | Growing):
                items = self._settle(items)
            iteration = iteration_of(self.e, items)

        def bind(item: Any) -> None:
            self.e.builder.loc = self.source.loc(node.target)
            self.assign(node.target, self._settle(item))

        before = tables.size(self.e, given)

        def after() -> None:
            if before is not None:
                tables.check_size(self.e, given, before)
            self.execute(node.orelse)

        self.loop(node, None, iteration, bind, lambda: self.execute(node.body), after)
        return not any((node, o.key) in self.learned for o in over)

    def _refuse_changed(self, node: Any) -> None:
        with self.at(node.iter):
            self.e.error(
                UnsupportedSyntax,
                "the loop makes the list or dict longer or shorter that it runs over",
                help="loop over a copy: for x in list(items)",
            )

    def _unrolled(self, node: Any, source: Any, items: Sequence, over: list[Object]) -> bool:
        """A loop over a tuple: its items may have different types, so each gets a copy of the body.

        The items of a list or dict are those that it holds when their turn comes, as in Python. False where it makes
        one of the lists that it looks into longer or shorter.
        """
        lengths = [self._count_of(o) for o in over]
        if len(items.items) > _MAX_UNROLLED:
            self.e.error(
                UnsupportedSyntax, f"a loop over {len(items.items)} items of a tuple is too long", help="use an array"
            )
        after = self.live.after[node]
        context = LoopContext(after, self.live.header[node] | after, frozenset(), repeats=False)
        self.loops.append(context)
        held = f"$over.{len(self.loops)}"
        self.env[held] = Binding(source)  # what it reaches stays alive
        for k in range(len(items.items)):
            depth = self.e.facts.push()
            now = records.iterated(objects.contents(self.e, source))
            self.e.builder.loc = self.source.loc(node.target)
            self.assign(node.target, self._settle(now.items[k]))
            self.execute(node.body)
            if self.alive:
                context.continues.append(self.jump(context.header))
            self.e.facts.pop(depth)
            self.merge(context.continues, "next")
            context.continues.clear()
            if not self.alive:
                break
            if [self._count_of(o) for o in over] != lengths:
                return False
            now = records.iterated(objects.contents(self.e, source))
            if not isinstance(now, Sequence) or len(now.items) != len(items.items):
                self._refuse_changed(node)
        self.loops.pop()
        self.env.pop(held, None)
        depth = self.e.facts.push()
        if self.alive:
            self.execute(node.orelse)
        if self.alive:
            context.breaks.append(self.jump(context.after))
        self.e.facts.pop(depth)
        self.merge(context.breaks, "after")
        self.env.pop(held, None)
        return True

    def _count_of(self, owner: Object) -> int | None:
        """How many items a list has, None where that is computed."""
        held = objects.contents(self.e, owner)
        return len(held.items) if isinstance(held, Sequence) else None

    # -- statements with little to do --------------------------------------------------------------

    def _global(self, node: Any) -> None:
        """`global` names that are read are those of the module anyway."""
        for name in node.names:
            if name in self.locals:
                reason = f"`global` {name} is assigned: compiled code reads globals"
                self.e.error(UnsupportedSyntax, reason, help="return the value")

    def _delete(self, target: Any) -> None:
        if isinstance(target, gast.Name):
            if target.id in self.cells or target.id in self.nonlocals:
                self.e.error(UnsupportedSyntax, "`del` of a name that nested functions rebind is not supported")
            binding = self.env.get(target.id)
            self.read_name(target.id)
            if binding is not None:  # it goes on being there, unset, so that loops and branches know what it was
                self.env[target.id] = Binding(binding.value, self.e.loc, literal(False))
            return
        if isinstance(target, gast.Subscript):
            base, index = self.expression(target.value), self.index(target.slice)
            held = objects.contents(self.e, base)
            with self.at(target):
                if isinstance(base, Object) and tables.is_table(held):
                    tables.delete_item(self.e, base, index)
                    return
                if isinstance(held, Record) and isinstance(base, Object):
                    records.delete_item(self.e, base, index)
                    return
                if isinstance(base, Object | Ref) and not isinstance(index, SliceKey):
                    lists.delete_item(self.e, base, index)
                    return
        with self.at(target):
            self.e.error(UnsupportedSyntax, "this cannot be deleted", help="del name, del d['key'], del items[k]")

    def _with(self, node: Any) -> None:
        """`with np.errstate(...)` changes warnings, of which compiled code has none."""
        for item in node.items:
            call = item.context_expr
            known = isinstance(call, gast.Call) and self.expression(call.func)
            if not (isinstance(known, Static) and known.value is np.errstate) or item.optional_vars is not None:
                self.e.error(
                    UnsupportedSyntax,
                    "`with` is not supported, np.errstate aside",
                    help="do this outside the compiled function, and pass it the values",
                )
            for keyword in call.keywords:
                action = self.expression(keyword.value)
                if isinstance(action, Static) and action.value in ("raise", "call", "print", "log"):
                    with self.at(keyword.value):
                        self.e.error(
                            UnsupportedSyntax,
                            f"np.errstate with {action.value!r} is not supported: compiled code watches no flags",
                            help="test with np.isfinite, and raise",
                        )
        self.execute(node.body)

    def _match(self, node: Any) -> None:
        subject = self.value(node.subject)
        self._cases(node, subject, node.cases)

    def _cases(self, node: Any, subject: Any, cases: list[Any]) -> None:
        """The first case that matches, as a chain of branches."""
        if not cases:
            return
        case, rest = cases[0], cases[1:]
        with self.at(case.pattern):
            flag = self._matches(case.pattern, subject)

        def guarded() -> None:
            if case.guard is None:
                self.execute(case.body)
                return
            holds = operators.condition(self.e, self.value(case.guard))
            self._either(node, holds, lambda: self.execute(case.body), lambda: self._cases(node, subject, rest))

        self._either(node, flag, guarded, lambda: self._cases(node, subject, rest))

    def _either(self, node: Any, flag: Any, then: Any, other: Any) -> None:
        if isinstance(flag, Literal):
            (then if flag.value else other)()
        else:
            self.branches(flag, then, other, self.live.after[node])

    def _matches(self, pattern: Any, subject: Any) -> Any:
        """Whether a subject matches a pattern of constants; binds the names of the pattern."""
        match pattern:
            case gast.MatchValue():
                value = self.value(pattern.value)
                return operators.condition(self.e, operators.compare(self.e, gast.Eq, subject, value))
            case gast.MatchSingleton():
                return operators.is_same(self.e, subject, operators.constant(pattern.value))
            case gast.MatchOr():
                flag: Any = literal(False)
                for alternative in pattern.patterns:
                    flag = self.e.either(flag, self._matches(alternative, subject))
                return flag
            case gast.MatchStar():
                if pattern.name is not None:
                    self.assign_name(pattern.name, subject)
                return literal(True)
            case gast.MatchAs():
                flag = literal(True) if pattern.pattern is None else self._matches(pattern.pattern, subject)
                if pattern.name is not None:
                    self.assign_name(pattern.name, subject)
                return flag
            case gast.MatchSequence():
                return self._matches_items(pattern.patterns, subject)
            case gast.MatchClass():
                return self._matches_class(pattern, subject)
        self.e.error(UnsupportedSyntax, "this pattern is not supported", help="match constants, or use if/elif")

    def _matches_items(self, patterns: list[Any], subject: Any) -> Any:
        """Whether the items of a tuple or list of constant length match, one by one."""
        held = records.iterated(objects.contents(self.e, subject))
        stars = [k for k, p in enumerate(patterns) if isinstance(p, gast.MatchStar)]
        if not isinstance(held, Sequence):
            if isinstance(held, Growing | Array | Temp | Iteration):
                what = f"a pattern of items of {describe(held)} is not supported"
                self.e.error(UnsupportedSyntax, what, help="compare its length, and read its items")
            return literal(False)
        count = len(held.items)
        if count < len(patterns) - len(stars) or (not stars and count != len(patterns)):
            return literal(False)
        items: list[Any] = list(held.items)
        if stars:
            first, last = stars[0], count - (len(patterns) - stars[0] - 1)
            middle = self._settle(Sequence(tuple(items[first:last]), is_list=True))
            items = [*items[:first], middle, *items[last:]]
        return self._match_all(list(zip(patterns, items, strict=True)))

    def _matches_class(self, pattern: Any, subject: Any) -> Any:
        """Whether a subject is an instance of a class, and its attributes match."""
        kind = self.expression(pattern.cls)
        flag = self.e.session.invoke(self.e, Static(isinstance), [subject, kind], {})
        if not isinstance(flag.value, Literal):
            self.e.error(UnsupportedSyntax, "this class is not known when compiling", help="use if/elif")
        if not flag.value.value:
            return literal(False)
        own = kind.value in (bool, float, int, list, dict, str, tuple)
        names = getattr(kind.value, "__match_args__", ())[: len(pattern.patterns)]
        if own and len(pattern.patterns) == 1:
            return self._matches(pattern.patterns[0], subject)
        pairs = [*zip(pattern.patterns, names, strict=True), *zip(pattern.kwd_patterns, pattern.kwd_attrs, strict=True)]
        return self._match_all([(p, attribute(self.e, subject, n)) for p, n in pairs])

    def _match_all(self, pairs: list[tuple[Any, Any]]) -> Any:
        flag: Any = literal(True)
        for pattern, item in pairs:
            flag = self.e.both(flag, self._matches(pattern, item))
            if isinstance(flag, Literal) and not flag.value:
                return flag
        return flag

    # -- raising ---------------------------------------------------------------------------------

    def _assert(self, node: Any) -> None:
        condition = operators.condition(self.e, self.value(node.test))
        if isinstance(condition, Literal) and condition.value:
            return
        is_plain = node.msg is None or (self._is_simple(node.msg) and not self._shows_types(node.msg))
        if is_plain:
            text = Text("", ()) if node.msg is None else self.message(node.msg)
            if isinstance(condition, Literal):
                texts.fail(self.e, "AssertionError", text)
                self.stop()
            else:
                texts.check(self.e, condition, "AssertionError", text)
            return

        def fail() -> None:
            self._of_each_type(node.msg, lambda: self._fail("AssertionError", node.msg))

        if isinstance(condition, Literal):
            fail()
        else:
            self.branches(condition, lambda: None, fail, self.live.after[node])

    def _fail(self, name: str, message: Any) -> None:
        texts.fail(self.e, name, self.message(message))
        self.stop()

    def _shows_types(self, node: Any) -> bool:
        """Whether a message names numbers of several types."""
        found = (self.env.get(n.id) for n in gast.walk(node) if isinstance(n, gast.Name))
        return any(b is not None and isinstance(b.value, Mixed) for b in found)

    @staticmethod
    def _is_simple(node: Any) -> bool:
        """Whether evaluating a message ahead of the check cannot fail or have effects."""
        return all(isinstance(n, _SIMPLE) for n in gast.walk(node))

    def _raise(self, node: Any) -> None:
        if node.exc is None and self.caught:
            exceptions.raise_again(self, self.caught[-1])
            return
        cause = NONE if node.cause is None else self.expression(node.cause)
        if node.exc is None or not (isinstance(cause, Caught) or is_none(cause)):
            self.e.error(
                UnsupportedSyntax,
                "`raise` needs an exception, and behind `from` the one that was caught, or None",
                help='raise ValueError("...") from e',
            )
        call = node.exc if isinstance(node.exc, gast.Call) else None
        kind = self.expression(call.func if call else node.exc)
        if isinstance(kind, Caught) and call is None:
            exceptions.raise_again(self, kind)
            return
        found = kind.value if isinstance(kind, Static) and isinstance(kind.value, type) else None
        captured = self.e.session.captures.classes
        is_known = found in _EXCEPTIONS or (found is not None and exception_class(found.__name__) is found)
        if found is None or not (is_known or (issubclass(found, Exception) and found in captured)):
            self.e.error(
                UnsupportedSyntax,
                "only built-in exceptions and classes at the top of a module can be raised",
                help='raise ValueError("...")',
            )
        text = Text("", ())
        if call is not None and call.args:
            if len(call.args) > 1 or call.keywords:
                self.e.error(UnsupportedSyntax, "an exception takes one message", help='raise ValueError("...")')
            text = self.message(call.args[0])
        texts.fail(self.e, class_name(found), text)
        self.stop()

    def define(self, node: Any) -> Any:
        """The value of a nested def or lambda."""
        a = node.args
        defaults = tuple(self._settle(self.expression(d)) for d in a.defaults)
        keyword = {
            p.id: self._settle(self.expression(d))
            for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)
            if d is not None
        }
        made: Any = Closure(getattr(node, "name", "lambda"), node, self, defaults, keyword)
        for decorator in reversed(getattr(node, "decorator_list", [])):
            with self.at(decorator):
                made = self._decorated(decorator, made)
        return made

    def _decorated(self, decorator: Any, made: Any) -> Any:
        """What a decorator makes of a function: it is called. functools.wraps only changes what that says of itself."""
        if isinstance(decorator, gast.Call):
            of = self.expression(decorator.func)
            if isinstance(of, Static) and of.value is functools.wraps:
                return made
        found = self.expression(decorator)
        if isinstance(found, Static) and is_ours(found.value):
            return made
        is_plain = isinstance(found, Static) and plain_function(found.value) is not None
        if not is_plain and not isinstance(found, Closure | Method):
            self.e.error(
                UnsupportedSyntax,
                f"{describe(found)} as a decorator of a nested function is not supported",
                help="leave it out: what a compiled function calls is compiled with it",
            )
        return self.e.session.invoke(self.e, found, [made], {})
