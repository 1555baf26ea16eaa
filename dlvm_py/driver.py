"""THE pipeline, top to bottom: capture → translate → passes → differentiate → passes → emit → load → call.

`Dispatcher` is the slow path behind one callable: it runs when no compiled version fits the arguments, finds
or makes the version (from the disk cache if it can), installs it, and makes the call.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple


from dlvm_py.backend.cpu.compile import compile_module
from dlvm_py.backend.cpu.emit import emit
from dlvm_py.backend.imports import Imports
from dlvm_py.derivative import Program, derive
from dlvm_py.errors import ArgumentError, InternalError
from dlvm_py.frontend.capture import Captures, capture, fingerprint, plain_function
from dlvm_py.frontend.translate import translate
from dlvm_py.ir import print_module
from dlvm_py.ir.analysis import AliasAnalysis
from dlvm_py.ir.interface import ArraySpec, ConstantSpec, Spec, TupleSpec, from_json, leaves, to_json
from dlvm_py.options import Options, environment
from dlvm_py.recipe import Gradient, Primal, Recipe
from dlvm_py.runtime import python_entry
from dlvm_py.runtime.cache import Cache, cache_key
from dlvm_py.runtime.native import callable as native
from dlvm_py.runtime.native.entry import entry_text
from dlvm_py.runtime.signature import binder, spec_of
from dlvm_py.runtime.version import (
    CallSpec,
    Captured,
    Guard,
    Source,
    Version,
    sites_from_json,
    sites_to_json,
)
from dlvm_py.transforms.pass_manager import run_pipeline

STAGES = ("raw", "optimizable", "compute", "scheduled")

# exact clean-ups, before differentiation and after it
CLEAN_UP = (
    "simplify_cfg", "constant_fold", "cse", "redundant_load", "value_promotion", "licm", "cse", "dce",
    "constant_fold", "simplify_cfg", "dce",
)  # fmt: skip
TO_COMPUTE = ("bufferize", "cse", "dce")
TO_SCHEDULED = ("ownership",)


# -- from a recipe to IR -------------------------------------------------------------------------------


def lower(request: Request) -> Program:
    """The program of a request at stage optimizable: everything inlined, differentiated, cleaned up."""
    recipe = request.recipe
    if isinstance(recipe, Primal):
        program = _translated(request)
        _run(program, ("inline",), request, "raw")
    else:
        if not request.noalias:
            raise ArgumentError(
                "the gradient of a call whose arguments overlap in memory, and are written, is not supported yet",
                code="DL707",
                help="pass copies: x.copy()",
            )
        count = len(request.args) - recipe.seedable
        inner = lower(request._replace(recipe=recipe.of, args=request.args[:count]))
        program = derive(inner, recipe, request.args[count:])
    _run(program, CLEAN_UP, request, "raw")
    program.module.stage = "optimizable"
    return program


def lower_to(request: Request, stage: str) -> Program:
    """The program of a request at one of `STAGES`. Of a derivative, raw is what the adjoint pass made."""
    if stage not in STAGES:
        raise ArgumentError(f"stage={stage!r}: the stages are {', '.join(STAGES)}", code="DL708")
    if stage == "raw" and isinstance(request.recipe, Primal):
        return _translated(request)
    program = lower(request)
    for wanted, passes in (("compute", TO_COMPUTE), ("scheduled", TO_SCHEDULED)):
        if STAGES.index(stage) >= STAGES.index(wanted):
            _run(program, passes, request, program.module.stage)
            program.module.stage = wanted
    return program


def _translated(request: Request) -> Program:
    captured = tuple(c.spec for c in request.captured)
    function = request.recipe.primal
    t = translate(
        function, request.args, request.captures, request.options, name=function.__name__, captured_specs=captured
    )
    return Program(t.module, t.name, request.names, request.args, captured, t.result)


def _run(program: Program, passes: tuple[str, ...], request: Request, stage: str) -> None:
    run_pipeline(
        program.function,
        passes,
        verify=environment("DLVM_VERIFY") == "1",
        module=program.module,
        stage=stage,
        noalias_params=request.noalias,
    )


# -- from IR to code -----------------------------------------------------------------------------------


class Request(NamedTuple):
    """All that one compilation depends on. `names` and `args`: one a Python parameter."""

    recipe: Recipe
    names: tuple[str, ...]
    args: tuple[Spec, ...]
    captures: Captures
    captured: tuple[Captured, ...]
    options: Options
    noalias: bool

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
            self.noalias,
        )


def _functions(spec: Spec) -> list[Any]:
    """The Python functions among the constants of an argument's spec."""
    if isinstance(spec, TupleSpec):
        return [f for item in spec.items for f in _functions(item)]
    found = plain_function(spec.value) if isinstance(spec, ConstantSpec) else None
    return [] if found is None else [found]


def _stable(spec: Spec) -> Any:
    """A spec for the key: constants by what they say, functions by their code."""
    if isinstance(spec, TupleSpec):
        return [_stable(item) for item in spec.items]
    if isinstance(spec, ConstantSpec):
        function = plain_function(spec.value)
        return ["is", repr(spec.value)] if function is None else ["function", fingerprint(function).hex()]
    return to_json(spec)


class Compiled(NamedTuple):
    """A compiled request: the object file and the facts that stand beside it in the cache (JSON values)."""

    image: bytes
    facts: dict[str, Any]
    llvm: str = ""
    asm: Callable[[], str] | None = None


def compile_request(request: Request) -> Compiled:
    """Run the whole pipeline for a request."""
    program = lower_to(request, "scheduled")
    count = sum(len(leaves(spec)) for spec in (*program.args, *program.captured))
    written = [i for i in sorted(AliasAnalysis(program.function).written_params()) if i < count]
    imports = Imports()
    kernel = emit(program.function, imports, request.options, noalias_params=request.noalias)
    facts = {
        "result": to_json(program.result),
        "written": written,
        "sites": sites_to_json(kernel.sites),
        "imports": imports.names,
    }
    call = call_spec(request, facts)
    texts = [kernel.module_text, entry_text(kernel.symbol, call, imports)]
    done = compile_module(texts, imports)
    return Compiled(done.object, facts, done.llvm, done.asm)


def call_spec(request: Request, facts: dict[str, Any]) -> CallSpec:
    """How the version of a request is called."""
    parameters = list(request.recipe.signature().parameters.values())
    kinds = [p.kind for p in parameters]
    return CallSpec(
        args=request.args,
        param_names=request.names,
        result=from_json(facts["result"]),
        captured=request.captured,
        guards=tuple(Guard(Source(g.holder, g.name), g.value) for g in request.captures.guards),
        written=tuple(facts["written"]),
        may_alias=not request.noalias,
        defaults={p.name: p.default for p in parameters if p.default is not p.empty},
        positional_only=kinds.count(inspect.Parameter.POSITIONAL_ONLY),
        keyword_only=kinds.count(inspect.Parameter.KEYWORD_ONLY),
        variadic=any(k in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD) for k in kinds),
    )


# -- the slow path -------------------------------------------------------------------------------------


class Dispatcher:
    """The compiled versions of one recipe, and the way to the next one."""

    def __init__(self, recipe: Recipe, options: Options) -> None:
        self.recipe = recipe
        self.options = options
        self.lock = threading.RLock()
        self.counts = {"compiled": 0, "loaded": 0, "compile_s": 0.0, "load_s": 0.0}
        self.latest: Request | None = None
        self._callable: Any = None

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The Python signature of a call."""
        return self.recipe.signature()

    @functools.cached_property
    def bind(self) -> Callable[..., tuple[Any, ...]]:
        """Arguments → one value a parameter; Python's TypeError for wrong ones."""
        return binder(self.signature, self.recipe.primal.__name__)

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that no installed version took: make the version that takes it, and run it."""
        values = self.bind(*args, **kwargs)
        version = self.version(function, values)
        return python_entry.run(version, values)

    def request(self, values: tuple[Any, ...], noalias: bool = True) -> Request:
        """The compilation that these argument values ask for."""
        names = tuple(self.signature.parameters)
        args = tuple(spec_of(value, f"argument '{name}'") for name, value in zip(names, values, strict=True))
        captures = capture(self.recipe.primal, also=tuple(f for spec in args for f in _functions(spec)))
        captured = []
        for c in captures.arrays:
            spec = spec_of(c.value, f"the captured array '{c.name}'")
            assert isinstance(spec, ArraySpec)
            captured.append(Captured(Source(c.holder, c.name), spec))
        return Request(self.recipe, names, args, captures, tuple(captured), self.options, noalias)

    def version(self, function: Any, values: tuple[Any, ...]) -> Version:
        """The installed version for these values, made if there is none."""
        with self.lock:
            for version in native.versions(function):
                if python_entry.matches(version.call, values):
                    return version
            request = self.request(values)
            version = self._make(request)
            if not python_entry.matches(version.call, values):
                # written arguments that share memory with others: a version that expects it
                version = self._make(request._replace(noalias=False))
                if not python_entry.matches(version.call, values):
                    raise InternalError("a version was compiled that does not take the arguments it was compiled for")
            native.add_version(function, version)
            return version

    def _make(self, request: Request) -> Version:
        self.latest = request
        uses_cache = self.options.cache and environment("DLVM_CACHE") != "0"
        key = request.key() if uses_cache else ""
        disk = Cache() if uses_cache else None
        start = time.perf_counter()
        found = disk.get(key) if disk is not None else None
        if found is not None:
            facts, image = found
            with contextlib.suppress(LookupError, KeyError, ValueError, TypeError):
                version = self._load(request, facts, image)
                self.counts["loaded"] += 1
                self.counts["load_s"] += time.perf_counter() - start
                return version
        start = time.perf_counter()
        done = compile_request(request)
        version = self._load(request, done.facts, done.image)
        self.counts["compiled"] += 1
        self.counts["compile_s"] += time.perf_counter() - start
        if disk is not None:
            disk.put(key, done.facts, done.image)
        return version

    def _load(self, request: Request, facts: dict[str, Any], image: bytes) -> Version:
        call = call_spec(request, facts)
        name = self.recipe.primal.__name__
        return Version.load(call, image, facts["imports"], sites_from_json(facts["sites"]), name)

    def asked(self, args: tuple[Any, ...], kwargs: dict[str, Any], what: str) -> Request:
        """The request of given arguments, or without any, that of the latest call."""
        if args or kwargs:
            return self.request(self.bind(*args, **kwargs))
        if not self.signature.parameters:
            return self.request(())
        if self.latest is None:
            raise ArgumentError(
                f"{what} needs argument types: the function has not been called yet",
                code="DL708",
                help=f"call it once, or pass arguments: f.{what}(x, ...)",
            )
        return self.latest


def compiled_function(recipe: Recipe, options: Options) -> Any:
    """A new callable for a recipe."""
    dispatcher = Dispatcher(recipe, options)
    # the fallback reaches the callable through its dispatcher: one cycle, which the collector knows
    function = native.make(lambda *args, **kwargs: dispatcher.call(dispatcher._callable, args, kwargs))
    dispatcher._callable = function
    _install_methods()
    primal = recipe.primal
    functools.update_wrapper(function, primal)
    function.__dict__["__dlvm__"] = dispatcher
    if isinstance(recipe, Gradient):
        function.__dict__["__signature__"] = dispatcher.signature
        del function.__dict__["__wrapped__"]
    return function


def is_compiled(f: object) -> bool:
    """Whether `f` is a callable that `compiled_function` made."""
    return isinstance(getattr(f, "__dict__", {}).get("__dlvm__"), Dispatcher)


def dispatcher_of(f: Any) -> Dispatcher:
    """The dispatcher behind a callable."""
    found: Dispatcher = f.__dict__["__dlvm__"]
    return found


def recipe_of(f: Any) -> Recipe:
    """The recipe of a callable."""
    return dispatcher_of(f).recipe


def options_of(f: Any) -> Options:
    """The options of a callable."""
    return dispatcher_of(f).options


# -- methods of the callable ---------------------------------------------------------------------------


def _ir(self: Any, *args: Any, stage: str = "optimizable", **kwargs: Any) -> str:
    """The IR text at a stage: raw, optimizable, compute or scheduled.

    For the types of the given arguments; without any, for those of the latest version.
    """
    return print_module(_program(self, *args, stage=stage, **kwargs).module)


def _program(self: Any, *args: Any, stage: str = "optimizable", **kwargs: Any) -> Program:
    """The IR itself at a stage, as `ir` shows it."""
    return lower_to(dispatcher_of(self).asked(args, kwargs, "ir"), stage)


def _llvm(self: Any, *args: Any, **kwargs: Any) -> str:
    """The optimised LLVM IR of the version for the given arguments (or of the latest)."""
    return compile_request(dispatcher_of(self).asked(args, kwargs, "llvm")).llvm


def _asm(self: Any, *args: Any, **kwargs: Any) -> str:
    """The machine code, as assembly, of the version for the given arguments (or of the latest)."""
    text = compile_request(dispatcher_of(self).asked(args, kwargs, "asm")).asm
    return text() if text is not None else ""


def _stats(self: Any) -> dict[str, Any]:
    """What was made for this callable in this process.

    versions: installed now. compiled, loaded: made by LLVM, read from the disk cache. compile_s, load_s: seconds.
    """
    return {"versions": len(native.versions(self)), **dispatcher_of(self).counts}


def _repr(self: Any) -> str:
    recipe = recipe_of(self)
    depth = 0
    while isinstance(recipe, Gradient):
        recipe, depth = recipe.of, depth + 1
    return f"<{'gradient of ' * depth}compiled function {recipe.primal.__qualname__}>"


def _reduce(self: Any) -> Any:
    """Pickled by what was compiled: the primal function's module and name, the recipe, the options."""
    recipe = recipe_of(self)
    chain = []
    while isinstance(recipe, Gradient):
        chain.append((recipe.wrt, recipe.single, recipe.sources, recipe.keeping, recipe.seedable, recipe.value_first))
        recipe = recipe.of
    function = recipe.primal
    return _rebuild, (function.__module__, function.__qualname__, tuple(chain), options_of(self))


def _rebuild(module: str, qualname: str, chain: tuple[Any, ...], options: Options) -> Any:
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    if not chain and is_compiled(found):
        return found
    recipe: Recipe = Primal(found.__wrapped__ if is_compiled(found) else found)
    for fields in reversed(chain):
        recipe = Gradient(recipe, *fields)
    return compiled_function(recipe, options)


_METHODS: dict[str, Any] = {
    "ir": _ir,
    "program": _program,
    "llvm": _llvm,
    "asm": _asm,
    "stats": _stats,
    "__repr__": _repr,
    "__reduce__": _reduce,
}


@functools.cache
def _install_methods() -> None:
    """Give the type of callables its Python methods, once."""
    cls = native.function_type()
    for name, method in _METHODS.items():
        if not name.startswith("__"):
            method.__name__ = method.__qualname__ = name
        setattr(cls, name, method)


