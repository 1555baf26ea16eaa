"""The callables: versions that are installed, the way to the next one, and the methods that users see.

`Dispatcher` is the slow path behind one callable: it runs when no installed version fits the arguments, finds
the version in the disk cache or has it compiled, installs it, and makes the call.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import inspect
import itertools
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dlvm_py.deferred import deferred
from dlvm_py.errors import ArgumentError, CompileError, InternalError
from dlvm_py.frontend.capture import capture, plain_function, rules_of
from dlvm_py.frozen import field_names, replace
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    GeneratorSpec,
    RecordSpec,
    Spec,
    TupleSpec,
    dtype_of_leaf,
    leaves,
)
from dlvm_py.ir.relation import Relation
from dlvm_py.options import Options, environment
from dlvm_py.recipe import Derivative, Gradient, Jacobian, Primal, Pullback, Recipe, Recording, Tangent
from dlvm_py.request import Request, Unrelated, call_spec, functions_in, relations_in
from dlvm_py.runtime import python_entry, together
from dlvm_py.runtime.buffers import tape_limit
from dlvm_py.runtime.cache import Cache
from dlvm_py.runtime.gpu.arrays import is_on_device, on_device
from dlvm_py.runtime.native import callable as native
from dlvm_py.runtime.signature import binder, spec_of
from dlvm_py.runtime.trees import walk
from dlvm_py.runtime.undo import Undone
from dlvm_py.runtime.version import Captured, Entry, Source, Version, sites_from_json
from dlvm_py.tuning import tuned

if TYPE_CHECKING:
    from dlvm_py import driver
    from dlvm_py.ir import printer
    from dlvm_py.program import Program
else:
    # with the front end, the passes and the back end: a process whose kernels all come from the disk cache has none
    driver, printer = deferred("dlvm_py.driver"), deferred("dlvm_py.ir.printer")


Answers = dict[str, bool | None]  # where types depend on values (frontend/assumptions.py)
_ATTEMPTS = 100  # at a call, while another thread changes what the function captures

# One thread compiles at a time (LLVM has a lock of its own), and a fork waits for it: the child's copy is free.
_COMPILING = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_COMPILING.acquire, after_in_parent=_COMPILING.release, after_in_child=_COMPILING.release
    )


@contextlib.contextmanager
def _collecting_later() -> Iterator[None]:
    """Python's cycle collector rests.

    While the compiler is loaded and compiles, objects are made by the hundred thousand and hardly one becomes garbage;
    each of the collector's rounds looks at all that there are.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@functools.cache
def _load_compiler() -> None:
    """Import it; what it is made of stays, and need not be looked at as what is young."""
    with _collecting_later():
        driver.compile_request  # noqa: B018
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # all that there is is old now


class Dispatcher:
    """The compiled versions of one recipe, and the way to the next one."""

    def __init__(self, recipe: Recipe, options: Options) -> None:
        self.recipe = recipe
        self.options = options
        self.counts = {"compiled": 0, "loaded": 0, "compile_s": 0.0, "load_s": 0.0}
        self.latest: Request | None = None
        self._callable: Any = None
        self._defaults: Any = None
        self._together: tuple[tuple[Version, tuple[int, ...]], ...] = ()  # for leaves that share memory

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The Python signature of a call."""
        return self.recipe.signature()

    def values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """One value a parameter, the defaults as they are now."""
        primal = self.recipe.primal
        defaults = primal.__defaults__, primal.__kwdefaults__  # type: ignore[attr-defined]
        if defaults != self._defaults:
            for known in ("signature", "bind"):
                self.__dict__.pop(known, None)
            self._defaults = defaults
        return self.bind(*args, **kwargs)

    @functools.cached_property
    def bind(self) -> Callable[..., tuple[Any, ...]]:
        """Arguments → one value a parameter; Python's TypeError for wrong ones."""
        return binder(self.signature, self.recipe.primal.__name__)

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that no installed version took: make the version that takes it, and run it."""
        values, copied = self.values(args, kwargs), ()
        if any(map(is_on_device, values)):
            if self.options.target != "gpu":
                return self._elsewhere(*args, **kwargs)
            values, copied = on_device(tuple(self.signature.parameters), values, self.recipe.primal.__name__)
        beyond, answers, spare, printed = False, None, None, 0
        settled: set[str] = set()
        for _ in range(_ATTEMPTS):
            version = None
            try:
                for version, shared in self._together:
                    if answers is None or version.call.answers == answers:
                        handled, result = self._attempt_together(version, shared, values)
                        if handled:
                            return result
                version, found = self._installed(function, values, beyond, answers)
                if version is None:
                    version = self.version(function, values, beyond, answers)
                if version is None:
                    continue
                if copied and version.call.effects is not None:
                    raise ArgumentError(
                        f"{self.recipe.primal.__name__}() changes or returns '{copied[0]}', which holds arrays on the"
                        " device that are not its own",
                        code="DL711",
                        help="pass the arrays as arguments of their own, or in tuples",
                    )
                handled, result = python_entry.attempt(version, values, printed, found)
            except Undone as undone:
                assert version is not None
                name = version.call.assumed[undone.site]
                answers, printed = self._other_answers(version, name, name in settled), undone.printed
                if name in settled:
                    # at the other places it is likely to be so as well, and that must not show either
                    spare, answers = answers, dict.fromkeys(sorted(version.call.assumed.values()), None) | answers
                settled.add(name)
                continue
            except CompileError:
                if spare is None or spare == answers:
                    raise
                answers, spare = spare, None
                continue
            if handled:
                if answers is not None and not beyond:
                    native.add_version(function, version)  # the next call is likely to be like this one
                return result
            # a limited version that takes these values, and has not taken the call
            beyond = beyond or (version.call.limited and python_entry.matches(version.call, values))
        raise InternalError(
            f"no version of {self.recipe.primal.__name__}() takes the arguments it was compiled for"
            " (or another thread changes what it captures all the time)"
        )

    @staticmethod
    def _other_answers(version: Version, name: str, both: bool) -> Answers:
        """Those of a version, but for the one at the place `name`: None where both come out. True is left out."""
        found = {**version.call.answers, name: None if both else not version.call.answers.get(name, True)}
        return {n: found[n] for n in sorted(found) if not found[n]}

    @functools.cached_property
    def _elsewhere(self) -> Any:
        """The callable for arrays that are on a device."""
        return compiled_function(self.recipe, replace(self.options, target="gpu", tune=False))

    def request(self, values: tuple[Any, ...], noalias: bool = True) -> Request:
        """The compilation that these argument values ask for."""
        names = tuple(self.signature.parameters)
        of = f"of {self.recipe.primal.__name__}()"
        return self.request_for(
            tuple(spec_of(value, f"argument '{name}' {of}") for name, value in zip(names, values, strict=True)), noalias
        )

    def request_for(self, args: tuple[Spec, ...], noalias: bool = True) -> Request:
        """The compilation for arguments of these specs, one a parameter."""
        names = tuple(self.signature.parameters)
        kinds = (s.kind for s in walk(args) if isinstance(s, RecordSpec))
        root = self.recipe.root
        functions = (f for spec in args for f in functions_in(spec))
        captures = capture(root.primal, also=(*functions, *kinds, *filter(None, [root.rules_of])))
        captured = []
        for c in captures.arrays:
            spec = spec_of(c.value, f"the captured array '{c.name}'")
            assert isinstance(spec, ArraySpec | GeneratorSpec)
            captured.append(Captured(Source(c.holder, c.name), spec))
        names = tuple(self.signature.parameters)
        return Request(self.recipe, names, args, captures, tuple(captured), self.options, noalias)

    def version(
        self,
        function: Any,
        values: tuple[Any, ...],
        beyond: bool = False,
        answers: Answers | None = None,
    ) -> Version | None:
        """A version for these values, made if none is installed. None: there is one more in `_together`.

        beyond: the one for calls that take more memory than a limited version may, which runs loops again.
        answers: the one for these answers, where types depend on values; None: any.
        """
        with _COMPILING:
            found, _ = self._installed(function, values, beyond, answers)
            if found is not None:
                return found
            request = self.request(values)
            if answers is not None:
                request = request._replace(answers=tuple(answers.items()))
            if self.options.tune:
                request = tuned(
                    request, values, lambda r: self._make_for(r, values), lambda: driver.schedules(), self._disk()
                )
            if beyond:
                limit = tape_limit(request.device.memory if request.device is not None else None)
                request = request._replace(options=replace(request.options, checkpoint=limit))
            version = self._make_for(request, values)
            captured = [c.value for c in request.captures.arrays] if version.call.captured else []
            shared = python_entry.overlapping(version.call, values, captured)
            is_derivative = not isinstance(self.recipe, Primal)
            if shared is not None and is_derivative and any(map(is_on_device, values)):
                written, other = shared
                raise ArgumentError(
                    f"'{written}' and '{other}' overlap in memory of the device, and {self.recipe.primal.__name__}()"
                    f" writes '{written}'",
                    code="DL707",
                    help=f"pass a copy of one of them: {other}.copy()",
                )
            if shared is not None and is_derivative:
                self._make_together(request, version, values, shared)
                return None
            if shared is not None:
                # written arguments that share memory with others: a version that expects it
                version = self._make(request._replace(noalias=False))
            native.add_version(function, version, last=beyond)
            return version

    def _make_together(
        self, request: Request, version: Version, values: tuple[Any, ...], names: tuple[str, str]
    ) -> None:
        """Make the version of a derivative for a call in which what the primal writes shares memory (together.py).

        Raises: ArgumentError DL707 for derivatives that have none.
        """
        if not isinstance(self.recipe, Gradient | Tangent) or not isinstance(self.recipe.of, Primal):
            written, other = names
            raise ArgumentError(
                f"'{written}' and '{other}' overlap in memory, and {self.recipe.primal.__name__}() writes '{written}':"
                " of the derivatives of such calls, dlvm.grad, value_and_grad and jvp of a function are supported",
                code="DL707",
                help=f"pass a copy of one of them: {other}.copy()",
            )
        found = python_entry.matched(replace(version.call, may_alias=True), values)
        assert found is not None
        shared = [k for group in together.groups(version.call, found) for k in group]
        plain = sum(len(leaves(spec)) for spec in version.call.args[: len(request.args) - self.recipe.added])
        added = sum(len(leaves(spec)) for spec in version.call.args) - plain
        of_primal = tuple(sorted(k if k < plain else k - added for k in shared))
        # the call is not repeated with a budget
        options = replace(self.options, checkpoint="store") if self.options.checkpoint == "auto" else self.options
        made = self._make(request._replace(noalias=False, general=True, shared=of_primal, options=options))
        self._together = ((made, tuple(sorted(shared))), *self._together)

    def _attempt_together(self, version: Version, shared: tuple[int, ...], values: tuple[Any, ...]) -> tuple[bool, Any]:
        tangents = None
        if isinstance(self.recipe, Tangent):
            specs = version.call.args
            numbers = list(itertools.accumulate((len(leaves(s)) for s in specs), initial=0))
            moved = [
                numbers[k] + n
                for k in self.recipe.wrt
                for n, leaf in enumerate(leaves(specs[k]))
                if dtype_of_leaf(leaf).is_inexact
            ]
            tangents = dict(zip(moved, itertools.count(numbers[len(specs) - self.recipe.added])))
        return together.attempt(version, shared, values, tangents)

    @staticmethod
    def _installed(
        function: Any, values: tuple[Any, ...], beyond: bool, answers: Answers | None
    ) -> tuple[Version | None, list[Any] | None]:
        """The installed version that takes these values, and their leaves; None where there is none."""
        for version in native.versions(function):
            if beyond and version.call.limited or answers is not None and version.call.answers != answers:
                continue
            leaves = python_entry.matched(version.call, values)
            if leaves is not None:
                return version, leaves
        return None, None

    def _make_for(self, request: Request, values: tuple[Any, ...]) -> Version:
        """The version of a request that takes values of these extents."""
        return self._fitting(request, values, self._make)

    def lowered(self, args: tuple[Any, ...], kwargs: dict[str, Any], what: str, make: Callable[..., Any]) -> Any:
        """make(request, holds) for what is `asked`, as a call would have it."""
        request = self.asked(args, kwargs, what)
        return self._fitting(request, self.values(args, kwargs), make) if args or kwargs else make(request, None)

    def _fitting(self, request: Request, values: tuple[Any, ...], make: Callable[..., Any]) -> Any:
        """make(request, holds), or where that raises Unrelated, of the request for calls in which these do not hold."""

        def holds(relations: tuple[Relation, ...]) -> bool:
            captured = request.captures.arrays if request.captured else []
            specs = [*request.args, *(c.spec for c in request.captured)]
            found = python_entry.leaves_of(specs, [*values, *(c.value for c in captured)])
            return all(r.holds(found) for r in relations)

        try:
            # what a pullback is given are tapes
            return make(request, None if isinstance(self.recipe, Pullback) else holds)
        except Unrelated as found:
            return make(request._replace(general=True, unless=found.relations), None)

    def _make(self, request: Request, holds: Callable[[tuple[Relation, ...]], bool] | None = None) -> Version:
        """The version of a request. Raises: Unrelated where what it assumes of extents does not hold."""
        self.latest = request
        disk = self._disk()
        key = request.key() if disk is not None else ""
        start = time.perf_counter()
        found = disk.get(key) if disk is not None else None
        if found is not None:
            facts, image = found
            relations = relations_in(facts)
            if relations and holds is not None and not holds(relations):
                raise Unrelated(relations)
            with contextlib.suppress(LookupError, KeyError, ValueError, TypeError):
                if not image:
                    raise LookupError("only the relations are known")
                version = self._load(request, facts, image)
                self.counts["loaded"] += 1
                self.counts["load_s"] += time.perf_counter() - start
                return version
        start = time.perf_counter()
        try:
            _load_compiler()
            with _collecting_later():
                done = driver.compile_request(request, holds, readable=False)
        except Unrelated as found:
            if disk is not None:
                disk.put(key, {"relations": [r.to_json() for r in found.relations]}, b"")
            raise
        version = self._load(request, done.facts, done.image)
        self.counts["compiled"] += 1
        self.counts["compile_s"] += time.perf_counter() - start
        if disk is not None:
            disk.put(key, done.facts, done.image)
        return version

    def _disk(self) -> Cache | None:
        """The disk cache, if it is on."""
        return Cache() if self.options.cache and environment("DLVM_CACHE") != "0" else None

    def _load(self, request: Request, facts: dict[str, Any], image: bytes) -> Version:
        call = call_spec(request, facts)
        if isinstance(self.recipe, Recording) and isinstance(call.result, TupleSpec):
            # each version gives, with its tapes, what makes the functions that read them
            value, tape, digest = call.result.items
            assert isinstance(digest, ConstantSpec)
            reader = TapeReader(request, self.recipe, digest.value)
            call = replace(call, result=TupleSpec((value, tape, ConstantSpec(reader))))
        name = self.recipe.primal.__name__
        digest = hash(image)
        # behind the objects of the host, the kernels of a GPU program
        ends = [0, *itertools.accumulate(facts["sizes"])]
        entry, first, *parts = (image[begin:end] for begin, end in itertools.pairwise(ends))
        return Version.load(
            call,
            Entry(entry, *facts["entry"]),
            first,
            facts["imports"],
            sites_from_json(facts["sites"]),
            name,
            facts["shared"],
            request.device,
            (image[ends[-1] :], facts.get("kernels", 0)),
            parts,
            digest=digest,
            decisions=facts.get("decisions", {}),
        )

    def asked(self, args: tuple[Any, ...], kwargs: dict[str, Any], what: str) -> Request:
        """The request of given arguments, or without any, that of the latest call."""
        if args or kwargs:
            return self.request(self.values(args, kwargs))
        if not self.signature.parameters:
            return self.request(())
        if self.latest is None:
            raise ArgumentError(
                f"{what} needs argument types: the function has not been called yet",
                code="DL708",
                help=f"call it once, or pass arguments: f.{what}(x, ...)",
            )
        return self.latest


class TapeReader:
    """What belongs to the tapes of one version of a recording: the pullback function for them, made when it is needed.

    The version may be gone by then, and what it has captured be changed: the request says how things were.
    """

    def __init__(self, request: Request, recipe: Recording, digest: str) -> None:
        self._dispatcher = _TapeDispatcher(request, Pullback(recipe, digest))

    @functools.cached_property
    def function(self) -> Any:
        """(tape, seed) -> derivatives."""
        return _callable(self._dispatcher)


class _TapeDispatcher(Dispatcher):
    """The versions of a pullback: one for each structure of seeds."""

    def __init__(self, recorded: Request, recipe: Pullback) -> None:
        super().__init__(recipe, recorded.options)
        self._recorded = recorded

    def request_for(self, args: tuple[Spec, ...], noalias: bool = True) -> Request:
        """The compilation for a tape and a seed of these specs."""
        names = tuple(self.signature.parameters)
        return self._recorded._replace(
            recipe=self.recipe, names=(*self._recorded.names, *names), args=(*self._recorded.args, *args)
        )


def compiled_function(recipe: Recipe, options: Options) -> Any:
    """A new callable for a recipe."""
    return _callable(Dispatcher(recipe, options))


def _callable(dispatcher: Dispatcher) -> Any:
    """The callable of a dispatcher."""
    recipe = dispatcher.recipe
    # the fallback reaches the callable through its dispatcher: one cycle, which the collector knows
    function = native.make(lambda *args, **kwargs: dispatcher.call(dispatcher._callable, args, kwargs))
    dispatcher._callable = function
    _install_methods()
    primal = recipe.primal
    functools.update_wrapper(function, primal)
    function.__dict__["__dlvm__"] = dispatcher
    if isinstance(recipe, Derivative):
        function.__dict__["__signature__"] = dispatcher.signature
        del function.__dict__["__wrapped__"]
    return function


def is_compiled(f: object) -> bool:
    """Whether `f` is a callable that `compiled_function` made."""
    # not by its __dict__: functools.wraps copies that to other functions
    return type(f) is native.function_type()


def dispatcher_of(f: Any) -> Dispatcher:
    """The dispatcher behind a callable."""
    found: Dispatcher = f.__dict__["__dlvm__"]
    return found


def recipe_of(f: Any) -> Recipe:
    """The recipe of a callable."""
    return dispatcher_of(f).recipe


def primal_of(f: Any) -> Primal:
    """The recipe of a Python function, or of one that is marked to have derivatives of its own (rules.py)."""
    return Primal(f) if rules_of(f) is None else Primal(plain_function(f), f)  # type: ignore[arg-type]


def options_of(f: Any) -> Options:
    """The options of a callable."""
    return dispatcher_of(f).options


# -- methods of the callable ---------------------------------------------------------------------------


def _ir(self: Any, *args: Any, stage: str = "optimizable", **kwargs: Any) -> str:
    """The IR text at a stage: raw, optimizable, compute or scheduled.

    For the types of the given arguments; without any, for those of the latest version.
    """
    text: str = dispatcher_of(self).lowered(
        args, kwargs, "ir", lambda r, holds: printer.print_module(driver.lower_to(r, stage, holds).module)
    )
    return text


def _program(self: Any, *args: Any, stage: str = "optimizable", **kwargs: Any) -> Program:
    """The IR itself at a stage, as `ir` shows it; of a number that has several types on its paths the joined one."""
    program: Program = dispatcher_of(self).lowered(
        args, kwargs, "ir", lambda r, holds: driver.lower_to(r._replace(is_joined=True), stage, holds)
    )
    return program


def _llvm(self: Any, *args: Any, **kwargs: Any) -> str:
    """The optimised LLVM IR of the version for the given arguments (or of the latest)."""
    text: str = dispatcher_of(self).lowered(args, kwargs, "llvm", driver.compile_request).native.llvm
    return text


def _asm(self: Any, *args: Any, **kwargs: Any) -> str:
    """The machine code, as assembly, of the version for the given arguments (or of the latest)."""
    text: str = dispatcher_of(self).lowered(args, kwargs, "asm", driver.compile_request).native.asm()
    return text


def _ptx(self: Any, *args: Any, architecture: str = "sm_75", **kwargs: Any) -> str:
    """The kernels of the version for the given arguments (or of the latest) as PTX; needs no device.

    Raises: ArgumentError DL709 for functions that are not for target="gpu".
    """
    text: str = driver.ptx_text(dispatcher_of(self).asked(args, kwargs, "ptx"), architecture)
    return text


def _source(self: Any, *args: Any, **kwargs: Any) -> str:
    """The version for the given arguments (or the latest) as the text of plain NumPy Python.

    Needs NumPy, and SciPy for special functions, but not dlvm-py. A derivative has the user's lines as comments.
    Raises: UnsupportedSyntax DL120 where an op has no spelling in NumPy.
    """
    dispatcher = dispatcher_of(self)
    text: str = driver.source_text(dispatcher.asked(args, kwargs, "source"), text_name(dispatcher.recipe))
    return text


def text_name(recipe: Recipe) -> str:
    """The name of the function in its text: `f`, `f_grad`, `f_grad_jacobian`; a lambda's is `f`."""
    if isinstance(recipe, Derivative):
        kind = {Gradient: "grad", Tangent: "tangent", Jacobian: "jacobian"}[type(recipe)]
        return f"{text_name(recipe.of)}_{kind}"
    found: str = recipe.primal.__name__
    return found if found.isidentifier() else "f"


def _report(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Which loops threads share, and why not; of a gradient what it stores, computes again and copies, and the bytes.

    For the types of the given arguments; without any, for those of the latest version. `print(g.report())` is text;
    `g.report().bytes(x, ...)` predicts the bytes for arguments. docs/threads.md and docs/derivatives.md explain it.
    """
    dispatcher = dispatcher_of(self)
    request = dispatcher.asked(args, kwargs, "report")
    return driver.report(request, lambda *a, **k: dispatcher.values(a, k))


def _stats(self: Any) -> dict[str, Any]:
    """What was made for this callable in this process.

    versions: installed now. compiled, loaded: made by LLVM, read from the disk cache. compile_s, load_s: seconds. With
    tune=True also schedule: what is otherwise than usual in the version that was made last.
    """
    d = dispatcher_of(self)
    found: dict[str, Any] = {"versions": len(native.versions(self)), **d.counts}
    if d.options.tune and d.latest is not None:
        found["schedule"] = d.latest.options.schedule.changes()
    return found


def _repr(self: Any) -> str:
    recipe = recipe_of(self)
    what = ""
    while isinstance(recipe, Derivative):
        what += f"{type(recipe).__name__.lower()} of "
        recipe = recipe.of
    return f"<{what}compiled function {recipe.primal.__qualname__}>"


def _reduce(self: Any) -> Any:
    """Pickled by what was compiled: the primal function's module and name, the recipe, the options."""
    recipe = recipe_of(self)
    chain = []
    while isinstance(recipe, Derivative):
        chain.append((type(recipe).__name__, tuple(getattr(recipe, name) for name in field_names(type(recipe))[1:])))
        recipe = recipe.of
    function = recipe.primal
    if "<" in function.__qualname__:
        raise pickle.PicklingError(
            f"{self!r} cannot be pickled: only functions at the top of a module can be found again"
        )
    return _rebuild, (function.__module__, function.__qualname__, tuple(chain), options_of(self))


def _rebuild(module: str, qualname: str, chain: tuple[Any, ...], options: Options) -> Any:
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    if is_compiled(found):
        if _reduce(found)[1][2] == chain:
            return found
        found = recipe_of(found).root
    recipe: Recipe = found if isinstance(found, Primal) else primal_of(found)
    kinds: dict[str, Callable[..., Recipe]] = {"Gradient": Gradient, "Tangent": Tangent, "Jacobian": Jacobian}
    for kind, values in reversed(chain):
        recipe = kinds[kind](recipe, *values)
    return compiled_function(recipe, options)


_METHODS: dict[str, Any] = {
    "ir": _ir,
    "program": _program,
    "llvm": _llvm,
    "asm": _asm,
    "ptx": _ptx,
    "report": _report,
    "source": _source,
    "stats": _stats,
    "__repr__": _repr,
    "__reduce__": _reduce,
    # as functions: a copy is the very object
    "__copy__": lambda self: self,
    "__deepcopy__": lambda self, memo: self,
}


@functools.cache
def _install_methods() -> None:
    """Give the type of callables its Python methods, once."""
    cls = native.function_type()
    for name, method in _METHODS.items():
        if not name.startswith("__"):
            method.__name__ = method.__qualname__ = name
        setattr(cls, name, method)
