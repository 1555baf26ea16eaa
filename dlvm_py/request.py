"""All that one compilation depends on, and the call that it is for: shared by dispatch and driver."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from dlvm_py.frontend.capture import ABSENT, Captures, class_name, class_text, fingerprint, root_function, rules_of
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    Effects,
    RecordSpec,
    Spec,
    TupleSpec,
    dtype_of_leaf,
    from_json,
    leaves,
    to_json,
)
from dlvm_py.ir.relation import Relation
from dlvm_py.options import Options
from dlvm_py.recipe import Primal, Pullback, Recipe
from dlvm_py.runtime.cache import cache_key
from dlvm_py.runtime.gpu.device import Device, device
from dlvm_py.runtime.native.offsets import MISSING
from dlvm_py.runtime.trees import walk
from dlvm_py.runtime.version import CallSpec, Captured, Guard, Source


class Request(NamedTuple):
    """All that one compilation depends on. `names` and `args`: one a Python parameter."""

    recipe: Recipe
    names: tuple[str, ...]
    args: tuple[Spec, ...]
    captures: Captures
    captured: tuple[Captured, ...]
    options: Options
    noalias: bool
    answers: tuple[tuple[str, bool | None], ...] = ()  # in order, where types depend on values (assumptions.py)
    # nothing is assumed of extents (transforms/assume_extents.py); what does not hold in the calls that it is for
    general: bool = False
    unless: tuple[Relation, ...] = ()
    is_joined: bool = False  # for a library: numbers that are returned have one type on all paths
    shared: tuple[int, ...] = ()  # leaves of the primal's arguments and captured arrays that share memory (together.py)

    def key(self) -> str:
        """The key in the disk cache."""
        return cache_key(
            fingerprint(self.recipe.primal, self.captures),
            self.recipe.key(),
            self.names,
            [_stable(spec) for spec in self.args],
            [to_json(c.spec) for c in self.captured],
            self.options.key(),
            self.options.checks_bounds,
            self.options.replays_loops,
            self.noalias,
            self.shared,
            self.answers,
            self.is_joined,
            self.general,
            [r.to_json() for r in self.unless],
            self.device.name if self.device is not None else "",
        )

    @property
    def device(self) -> Device | None:
        """Where target="gpu" runs. DeviceError where there is none."""
        return device() if self.options.target == "gpu" else None

    @property
    def shadows(self) -> tuple[ArraySpec, ...]:
        """Of the arrays that share memory, those of floats: their shadows are given as well."""
        count = len(self.args) - (self.recipe.added if not isinstance(self.recipe, Primal) else 0)
        plain = [*(leaf for spec in self.args[:count] for leaf in leaves(spec)), *(c.spec for c in self.captured)]
        arrays = [plain[k] for k in self.shared]
        return tuple(a for a in arrays if isinstance(a, ArraySpec) and dtype_of_leaf(a).is_inexact)


def functions_in(spec: Spec) -> list[Any]:
    """The Python functions among the constants of an argument's spec."""
    if isinstance(spec, TupleSpec | RecordSpec):
        return [f for item in spec.items for f in functions_in(item)]
    if isinstance(spec, ConstantSpec) and rules_of(spec.value) is not None:
        return [spec.value]  # which brings its rules along
    found = root_function(spec.value) if isinstance(spec, ConstantSpec) else None
    return [] if found is None else [found]


def _stable(spec: Spec) -> Any:
    """A spec for the key: constants by what they say, functions by their code."""
    if isinstance(spec, TupleSpec):
        return [_stable(item) for item in spec.items]
    if isinstance(spec, RecordSpec):
        return ["record", class_text(spec.kind), spec.names, [_stable(item) for item in spec.items]]
    if isinstance(spec, ConstantSpec):
        function, rules = root_function(spec.value), rules_of(spec.value)
        if rules is not None:
            made_of = (spec.value.__wrapped__, *rules.values())
            return ["with rules", *rules, *(fingerprint(f).hex() for f in made_of)]
        return ["is", repr(spec.value)] if function is None else ["function", fingerprint(function).hex()]
    return to_json(spec)


def classes_of(request: Request) -> list[type]:
    """The user's classes that a request can see, in an order that is the same in every process.

    Records that are made, and exceptions that are raised, are named by their place here in what is cached.
    """
    found = [s.kind for s in walk(request.args) if isinstance(s, RecordSpec)]
    values = [s.value for s in walk(request.args) if isinstance(s, ConstantSpec)]
    found += [v for v in (*values, *request.captures.classes) if isinstance(v, type)]
    return list(dict.fromkeys(found))


def relations_in(facts: dict[str, Any]) -> tuple[Relation, ...]:
    """What the version with these facts assumes."""
    return tuple(map(Relation.from_json, facts["relations"]))


class Unrelated(Exception):
    """What a version would assume does not hold in the call that it is for."""

    def __init__(self, relations: tuple[Relation, ...]) -> None:
        super().__init__(relations)
        self.relations = relations


def call_spec(request: Request, facts: dict[str, Any]) -> CallSpec:
    """How the version of a request is called."""
    parameters = list(request.recipe.signature().parameters.values())
    kinds = [p.kind for p in parameters]
    classes = classes_of(request)
    args, names, captured, guards = request.args, request.names, request.captured, request.captures.guards
    if isinstance(request.recipe, Pullback):
        # what the recorded call was given and has captured is on the tape, as it was then
        args, names, captured, guards = args[-len(kinds) :], names[-len(kinds) :], (), []
    as_called = request.general and not isinstance(request.recipe, Pullback)
    result = from_json(facts["result"], classes)
    return CallSpec(
        args=args,
        param_names=names,
        result=result,
        effects=Effects.from_json(facts["effects"], result),
        captured=captured,
        guards=tuple(Guard(Source(g.holder, g.name), MISSING if g.value is ABSENT else g.value) for g in guards),
        written=tuple(facts["written"]),
        limited=facts["limited"],
        repeatable=facts["repeatable"],
        assumed={int(site): name for site, name in facts["assumed"]},
        answers=dict(request.answers),
        tells=facts["tells"],
        on_device=request.options.target == "gpu",
        relations=request.unless if as_called else relations_in(facts),
        otherwise=as_called and bool(request.unless),
        unshared=tuple(facts["unshared"]),
        free=tuple(facts["free"]),
        may_alias=not request.noalias,
        defaults={p.name: p.default for p in parameters if p.default is not p.empty},
        positional_only=kinds.count(inspect.Parameter.POSITIONAL_ONLY),
        keyword_only=kinds.count(inspect.Parameter.KEYWORD_ONLY),
        classes={class_name(kind): kind for kind in classes},
        shadows=request.shadows,
        variadic=any(k in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD) for k in kinds),
    )
