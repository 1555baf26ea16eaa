"""One activation of a Python function in the function that is built: its statements and results.

Statements are translated in order into the current block; what cannot be reached is not translated.
A Frame inherits its parts in a row, each of which uses those before it: control flow (merges.py, flow.py),
expressions (comprehensions.py, expressions.py), targets of assignments (assignments.py), patterns of match
statements (matching.py), names (names.py), what raises (raising.py), `for` (for_loops.py).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import gast
import numpy as np

from dlvm_py.errors import Loc, UnsupportedSyntax
from dlvm_py.frontend import (
    either,
    exceptions,
    generators,
    objects,
    operators,
    regions,
)
from dlvm_py.frontend.capture import is_ours, plain_function
from dlvm_py.frontend.emit import Emitter, Unreachable
from dlvm_py.frontend.flow import LoopContext
from dlvm_py.frontend.for_loops import ForLoops
from dlvm_py.frontend.liveness import body_facts
from dlvm_py.frontend.merges import Edge
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
    Method,
    Mixed,
    Scalar,
    Static,
    describe,
)
from dlvm_py.ir import Literal

RESULT = "$result"
_REFUSED = {
    gast.ClassDef: ("a class inside a compiled function", "define it outside"),
    gast.AsyncFunctionDef: ("`async def`", "write a plain `def`"),
    gast.AsyncFor: ("`async for`", "await outside, and pass the values in"),
    gast.AsyncWith: ("`async with`", "await outside, and pass the values in"),
}


class Frame(ForLoops):
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

    # -- statements with little to do --------------------------------------------------------------

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

    # -- nested functions ------------------------------------------------------------------------

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
