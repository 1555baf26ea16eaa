"""Python function and argument specs in, raw IR out: the front end's entry point.

A `Session` translates one function for one signature, and every plain Python function that it calls as
an IR function of its own, specialised on the arguments of the call. Functions defined inside compiled
code are translated in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Items
from types import FunctionType
from typing import Any

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend import either, objects, own_rules, results, table_arguments, tables
from dlvm_py.frontend.callees import Calls
from dlvm_py.frontend.calls import bind_function, invoke
from dlvm_py.frontend.capture import Captures
from dlvm_py.frontend.derivatives import Differentiate
from dlvm_py.frontend.emit import Emitter, Unreachable
from dlvm_py.frontend.entry_arguments import EntryArguments, ParamInfo
from dlvm_py.frontend.exceptions import catch, keep_in_blocks
from dlvm_py.frontend.frame import Frame
from dlvm_py.frontend.joins import TwoRegions
from dlvm_py.frontend.lent import Loan, end
from dlvm_py.frontend.regions import Again, Known
from dlvm_py.frontend.source import Source
from dlvm_py.frontend.table_arguments import TableArgument
from dlvm_py.frontend.values import NONE, Binding, Either
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Function, Module, Value
from dlvm_py.ir.interface import ArraySpec, Effects, GeneratorSpec, Spec
from dlvm_py.options import Options


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


class Session(Calls):
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
        super().__init__(captures, options, specs, name, differentiate, answers, known)
        self.of_unknown_order: set[Value] = set()  # memory that NumPy may lay out otherwise (orders.py)
        self.is_joined = False  # whether a number that is returned has one type on all paths
        self.is_library = False  # whether it is the result of a library, which has one type
        self.lends = lends  # whether the function changes lists, dicts or instances of its caller
        self.table_types: dict[str, Any] = {}  # the types of the keys and values of dicts that are arguments

    # -- the entry function ----------------------------------------------------------------------

    def entry(
        self, fn: FunctionType, args: tuple[Spec, ...], rules_of: Any = None, derives: bool = False
    ) -> Translation:
        """Translate the function that the user calls: of one with rules, a call of it."""
        e, source = self.begin(fn, self.name)
        names = _parameter_names(fn)
        if len(names) != len(args):
            raise ValueError(f"{fn.__name__} has {len(names)} parameters, but {len(args)} specs are given")
        arguments = EntryArguments(e)
        values = {n: arguments.value(n, spec, (k,)) for k, (n, spec) in enumerate(zip(names, args, strict=True))}
        params = arguments.params
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
            self.loan = Loan(arguments.lent, keeps=not derives) if arguments.lent else None
        depth = e.facts.push()
        if rules_of is None:
            result = self.run(e, source, fn, values, _filled(e, source, fn, arguments.tables))
        else:
            result = _own_entry(e, source, fn, rules_of, values)
        if derives and isinstance(result, Either):
            result = either.differentiable(e, result)
        self.is_library = self.is_joined and not derives
        leaves: list[Value] = []
        spec = results.spec_of(e, NONE if result is None else result, leaves)
        effects, finals = None, ()
        if self.loan is not None and derives:
            finals = self._finals(e, values, leaves)
        elif self.loan is not None:
            e.facts.pop(depth)  # what is known where it returns need not be so where it raises
            spec, effects = end(e, self.loan, spec, None if result is None else leaves, results.spec_of)
        if result is not None and effects is None:
            results.give(e, leaves)
        e.function.meta["params"] = tuple(params)
        if self.loan is not None:
            keep_in_blocks(e)
        if derives:
            self.attach()
        self._drop_unused(e.function)
        return Translation(self.module, e.function.name, spec, tuple(params), effects, finals)

    def _finals(self, e: Emitter, values: dict[str, Any], leaves: list[Value]) -> tuple[tuple[int, Spec], ...]:
        """What the parameters whose lists, dicts and instances have changed hold at the end."""
        assert self.loan is not None
        found = []
        for position, value in enumerate(values.values()):
            final = self.loan.final(e, value) if e.frame.alive else None
            if final is not None:
                found.append((position, results.spec_of(e, final, leaves)))
        return tuple(found)

    def attach(self) -> None:
        """Translate the derivative rules of all functions of the module: a derivative is to be taken."""
        own_rules.attach(self)

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

    # -- for modules that stand below those of calls and dicts ------------------------------------

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
        results.give(e, leaves)

    @staticmethod
    def catch(e: Emitter, op: str, operands: Items[Value], attrs: dict[str, Any]) -> bool:
        """Whether a `try` takes what an instruction raises, for the emitter."""
        return catch(e, op, operands, attrs)


def _filled(e: Emitter, source: Source, fn: FunctionType, given: list[TableArgument]) -> dict[str, Binding] | None:
    """What the dicts with numbers as keys hold that are arguments, and the lists in them."""
    if not given:
        return None
    e.frame = Frame(e, source, fn.__name__, fn)
    table_arguments.fill(e, given)
    held, e.frame = e.frame.env, None
    return held


def _own_entry(e: Emitter, source: Source, fn: FunctionType, rules_of: Any, values: dict[str, Any]) -> Any:
    # objects that the arguments are live in the environment of a frame
    e.frame = Frame(e, source, fn.__name__, fn)
    e.frame.bind_parameters(values)
    try:
        return own_rules.call(e, rules_of, values)
    except Unreachable:
        return None


def _parameter_names(fn: FunctionType) -> tuple[str, ...]:
    code = fn.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    # inspect's order: positional, *args, keyword-only, **named
    names, positional = code.co_varnames, code.co_argcount
    has_rest, has_named = bool(code.co_flags & 0x04), bool(code.co_flags & 0x08)
    rest = names[count : count + has_rest]
    named = names[count + has_rest : count + has_rest + has_named]
    return (*names[:positional], *rest, *names[positional:count], *named)
