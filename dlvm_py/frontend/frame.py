"""One activation of a Python function in the function that is built: names, statements, results.

Statements are translated in order into the current block; what cannot be reached is not translated.
Expressions are in expressions.py, targets of assignments in assignments.py, patterns of match statements in
matching.py, control flow in flow.py.
"""

from __future__ import annotations

import builtins
import contextlib
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
    objects,
    operators,
    records,
    regions,
    tables,
    texts,
)
from dlvm_py.frontend.capture import class_name, imported_module, imported_name, is_ours, plain_function
from dlvm_py.frontend.emit import Emitter, Unreachable
from dlvm_py.frontend.flow import Edge, LoopContext, unbound_message
from dlvm_py.frontend.iterate import iteration_of
from dlvm_py.frontend.library import streams
from dlvm_py.frontend.liveness import body_facts, comprehended
from dlvm_py.frontend.matching import Matching
from dlvm_py.frontend.mixed import mixed
from dlvm_py.frontend.nodes import Consumed, Ended, Generated
from dlvm_py.frontend.set_shape import pointers
from dlvm_py.frontend.source import Source
from dlvm_py.frontend.values import (
    NONE,
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
    Text,
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


class Frame(Matching):
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
        if name not in self.function.__globals__ and name in comprehended(self.source.node):
            self.e.error(
                UnsupportedSyntax,
                f"a function that a comprehension has made reads its `{name}` after its end, where it is the last one",
                help=f"give it as a default, lambda v, {name}={name}: ...",
            )
        return self.e.session.outside(self.e, self.function, name)

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
        """`with np.errstate(...)` changes warnings, of which compiled code has none; `contextlib.suppress` catches."""
        for item in node.items:
            call = item.context_expr
            known = isinstance(call, gast.Call) and self.expression(call.func)
            if isinstance(known, Static) and known.value is contextlib.suppress and len(node.items) == 1:
                exceptions.suppress(self, node)
                return
            if not (isinstance(known, Static) and known.value is np.errstate) or item.optional_vars is not None:
                self.e.error(
                    UnsupportedSyntax,
                    "`with` is not supported, np.errstate and contextlib.suppress (alone) aside",
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
