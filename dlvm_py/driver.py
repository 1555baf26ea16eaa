"""THE pipeline, top to bottom: translate → inline → clean up → DIFFERENTIATE → clean up → bufferize → ownership → emit.

    request  →  Program at a stage (`lower_to`)  →  Compiled: object file and facts (`compile_request`)

`dispatch` loads this module at the first request that is not in the disk cache.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dlvm_py.backend.cpu import compile as native_compile
from dlvm_py.backend.cpu.compile import compile_parts, has_masks, has_permutes, schedules
from dlvm_py.backend.cpu.emit import EmitResult, emit
from dlvm_py.backend.cpu.parts import Part, cut
from dlvm_py.backend.imports import Imports
from dlvm_py.decisions import Decisions
from dlvm_py.deferred import deferred
from dlvm_py.errors import ArgumentError, InternalError, Loc, UnsupportedSyntax
from dlvm_py.frontend.translate import translate
from dlvm_py.frozen import replace
from dlvm_py.ir import VOID, Module, PointerType, TensorType, TupleType
from dlvm_py.ir.analysis.calls import callees, reachable, seen_outside, written_params
from dlvm_py.ir.function import FREE_LAYOUT
from dlvm_py.ir.interface import ArraySpec, ScalarSpec, Spec, TupleSpec, dtype_of_leaf, leaves, to_json
from dlvm_py.ir.relation import Relation
from dlvm_py.options import environment
from dlvm_py.program import Program
from dlvm_py.recipe import Gradient, Jacobian, Primal, Pullback, Recording, Tangent
from dlvm_py.request import Request, Unrelated, call_spec, classes_of
from dlvm_py.runtime import threads
from dlvm_py.runtime.gpu.device import EMULATOR
from dlvm_py.runtime.native import standing
from dlvm_py.runtime.native.entry import compiled_entry, exported
from dlvm_py.runtime.version import sites_to_json
from dlvm_py.transforms import assume_extents, drop_rules
from dlvm_py.transforms.assume_extents import RELATIONS
from dlvm_py.transforms.differentiate.config import CAN_RUN_AGAIN, RECORD
from dlvm_py.transforms.pass_manager import run_pipeline
from dlvm_py.transforms.preconditions import has_arrays
from dlvm_py.transforms.share_loops import LOOPS

if TYPE_CHECKING:
    from dlvm_py import derivative
    from dlvm_py import report as reports
    from dlvm_py.backend.gpu import emit as gpu
    from dlvm_py.backend.gpu import emulate, ptx
    from dlvm_py.backend.gpu.kernel import Kernel
    from dlvm_py.backend.python import program as python
    from dlvm_py.transforms import partial_inline, raise_loops, raise_products, replay_loops
else:
    # what compiling a function for the CPU does without
    derivative, reports = deferred("dlvm_py.derivative"), deferred("dlvm_py.report")
    gpu, emulate, ptx = (deferred(f"dlvm_py.backend.gpu.{name}") for name in ("emit", "emulate", "ptx"))
    python = deferred("dlvm_py.backend.python.program")
    partial_inline, replay_loops = (
        deferred(f"dlvm_py.transforms.{name}") for name in ("partial_inline", "replay_loops")
    )
    raise_loops, raise_products = (deferred(f"dlvm_py.transforms.{name}") for name in ("raise_loops", "raise_products"))

STAGES = ("raw", "optimizable", "compute", "scheduled")

# exact clean-ups, before differentiation and after it
CLEAN_UP = (
    "simplify_cfg", "constant_fold", "unroll_loops", "cse", "value_numbering", "redundant_load", "value_promotion",
    "carried_scalars", "licm", "cse", "dce", "dead_store", "unwritten_copies", "proven_checks",
    "merge_stores", "constant_fold", "simplify_cfg", "dce",
)  # fmt: skip
# laws of real numbers, which round otherwise
FAST_MATH = (
    "algebra_simplification", "literal_broadcasting_promotion", "matrix_multiplication_reordering",
    "linear_algebra_fusion", "constant_fold", "cse", "dce",
)  # fmt: skip
# the checks of a loop stay in it on a device: those of all trips are asked before the launch (backend/gpu/grids.py)
_GATHERED = ("gather_sums", "redundant_load", "value_promotion", "dead_store", "dce")
TO_COMPUTE_FOR_GPU = (*_GATHERED, "bufferize", "cse", "dce")
TO_COMPUTE = (
    *_GATHERED, "gather_windows", "triangular_products", "dce", "bufferize", "cse", "dce", "temporary_layouts",
    "hoist_products", "growing_products", "interchange_loops", "short_rows", "fixed_counts", "loop_versions",
    "bounded_sums", "short_sums", "bounded_sums", "hoist_checks", "pack_columns", "limit_counts", "checks_ahead", "dce",
    "scalar_expansion", "dce", "widen_loops", "plane_layouts",
)  # fmt: skip
TO_SCHEDULED = (
    "sibling_fusion", "skew_loops", "share_loops", "interleave_loops", "few_terms", "row_strips", "inline_stencils",
    "sliding_windows", "skewed_strips", "hoist_buffers", "double_buffers", "element_promotion", "chosen_elements",
    "split_loops", "quiet_loops", "narrow_integers", "row_ends", "stack_promotion", "tile_loops", "unroll_and_jam",
    "ownership", "shift_rows", "stream_stores", "share_kernels",
)  # fmt: skip
# the frame is memory of the host
TO_SCHEDULED_FOR_GPU = ("hoist_buffers", "row_grids", "simplify_cfg", "sibling_stores", "ownership", "replay_loops")


_DERIVED: dict[type, str] = {  # who in derivative.py makes the program of a recipe
    Gradient: "derive",
    Tangent: "push_forward",
    Jacobian: "all_partials",
    Recording: "record",
    Pullback: "pull_back",
}


def _derived(of: Program, recipe: Any, args: tuple[Spec, ...], **how: Any) -> Program:
    return getattr(derivative, _DERIVED[type(recipe)])(of, recipe, args, **how)  # type: ignore[no-any-return]


# -- from a recipe to IR -------------------------------------------------------------------------------


Holds = Callable[[tuple[Relation, ...]], bool]


def lower(request: Request, derives: bool = False, holds: Holds | None = None) -> Program:
    """The program of a request at stage optimizable: everything inlined, differentiated, cleaned up.

    derives: whether derivatives of it will be taken; functions with rules of their own are not inlined then, and
    extents are assumed to be related. holds: says whether that is so in the call that it is for.
    Raises: Unrelated where it is not.
    """
    recipe = request.recipe
    if isinstance(recipe, Primal):
        program = _translated(request, derives)
        if not derives:
            drop_rules.run(program.module, program.name)
        _run(program, ("inline", "kept_copies"), request, "raw")
        if has_arrays(program.function) and raise_loops.may(program.function):
            _run(program, (*CLEAN_UP, "raise_loops"), request, "raw")
        if _calls(program) and partial_inline.may(program.module, program.name):
            _run(program, (*CLEAN_UP, "partial_inline", *CLEAN_UP, "unfold_recursion"), request, "raw")
        if derives and not request.general:
            program.relations = _related(program, request)
            if program.relations and holds is not None and not holds(program.relations):
                raise Unrelated(program.relations)
    else:
        count = len(request.args) - recipe.added
        # a derivative that is differentiated in reverse tapes everything: what it runs again would be taped as well
        forward = isinstance(recipe, Tangent) or (
            isinstance(recipe, Jacobian) and recipe.mode in ("forward", "hessian")
        )
        plain = request.options if forward else replace(request.options, checkpoint="store")
        of = recipe.of.of if isinstance(recipe, Pullback) else recipe.of
        first, last = (sum(len(leaves(spec)) for spec in request.args[:k]) for k in (count, len(request.args)))
        if isinstance(recipe, Pullback):
            first = last  # nothing is asked of what it is given: tapes

        def moved(relations: tuple[Relation, ...]) -> tuple[Relation, ...]:
            """The same of the derivative, whose own parameters stand before captured arrays."""
            return tuple(r.moved(first, last - first) for r in relations)

        asks = holds and (lambda relations: holds(moved(relations)))
        try:
            inner = lower(request._replace(recipe=of, args=request.args[:count], options=plain, shared=()), True, asks)
        except Unrelated as found:
            raise Unrelated(moved(found.relations)) from None
        tapes = isinstance(recipe, Gradient | Jacobian)
        how: dict[str, Any] = {"checkpoint": request.options.checkpoint} if tapes else {}
        if request.shared:
            how["shared"] = frozenset(request.shared)
        program = _derived(inner, recipe, request.args[count:], **how)
        if forward and inner.function.meta.get(CAN_RUN_AGAIN):
            program.function.meta[CAN_RUN_AGAIN] = True
        if not derives:
            drop_rules.run(program.module, program.name)
        _run(program, ("inline",), request, "raw")
        if inner.relations and not isinstance(recipe, Pullback):
            program.relations = moved(inner.relations)
            assume_extents.apply(program.function, program.relations)
    _run(program, (*CLEAN_UP, "alternating_signs") if derives else CLEAN_UP, request, "raw")
    kept = {f.name for f in reachable(program.module, program.name)}
    program.module.functions = {n: f for n, f in program.module.functions.items() if n in kept}
    program.module.stage = "optimizable"
    return program


def _calls(program: Program) -> set[str]:
    """The names of the functions that a program calls."""
    return {name for f in reachable(program.module, program.name) for name in callees(f)}


def _related(program: Program, request: Request) -> tuple[Relation, ...]:
    """What is assumed of the arguments of a function that is called from outside alone."""
    if program.name in _calls(program):
        return ()
    assume_extents.run(program.function)
    if has_arrays(program.function) and raise_products.may(program.function):
        _run(program, (*CLEAN_UP, "raise_products"), request, "raw")
    return program.function.meta.get(RELATIONS, ())  # type: ignore[return-value]


def lower_to(request: Request, stage: str, holds: Holds | None = None, decisions: Decisions | None = None) -> Program:
    """The program of a request at one of `STAGES`. Of a derivative, raw is what the adjoint pass made.

    holds: as of `lower`. decisions: those that the passes take; None: those of the request's schedule.
    """
    if stage not in STAGES:
        raise ArgumentError(f"stage={stage!r}: the stages are {', '.join(STAGES)}", code="DL708")
    decisions = decisions or Decisions(request.options.schedule.decisions)
    with _depth_limited(request):
        if stage == "raw" and isinstance(request.recipe, Primal):
            return _translated(request)
        program = lower(request, holds=holds)
        if request.options.fastmath:
            _run(program, FAST_MATH, request, program.module.stage)
        compute, scheduled = TO_COMPUTE, TO_SCHEDULED
        if request.options.target == "gpu":
            compute, scheduled = TO_COMPUTE_FOR_GPU, TO_SCHEDULED_FOR_GPU
        left_out = set() if request.options.parallel else {"share_loops", "share_kernels"}
        if not request.options.replays_loops:
            left_out.add("replay_loops")
        if not has_masks():
            left_out.add("row_ends")
        scheduled = tuple(name for name in scheduled if name not in left_out)
        if stage in ("compute", "scheduled") and _may_lay_out(program, request):
            program.function.attributes.add(FREE_LAYOUT)
        for wanted, passes in (("compute", compute), ("scheduled", scheduled)):
            if STAGES.index(stage) >= STAGES.index(wanted):
                _run(program, passes, request, program.module.stage, decisions)
                program.module.stage = wanted
        program.result = _laid_out(program)
        return program


def _may_lay_out(program: Program, request: Request) -> bool:
    """Whether array results may lie as the arrays do that they are computed from, as NumPy's do.

    Not those of derivatives, which are row-major by contract, nor where somebody else has read the types of results.
    """
    if not isinstance(request.recipe, Primal) or request.options.target != "cpu" or request.is_joined:
        return False
    items = program.result.items if isinstance(program.result, TupleSpec) else (program.result,)
    is_called = program.name in _calls(program)
    return program.effects is None and not is_called and all(isinstance(s, ScalarSpec | ArraySpec) for s in items)


def _laid_out(program: Program) -> Spec:
    """The result of a program with the layouts that passes gave it, after which nobody may change them."""
    if FREE_LAYOUT not in program.function.attributes:
        return program.result
    program.function.attributes.remove(FREE_LAYOUT)
    type, spec = program.function.result, program.result
    types = type.elements if isinstance(type, TupleType) else (type,)
    items = spec.items if isinstance(spec, TupleSpec) else (spec,)
    found = tuple(
        replace(s, layout=t.layout) if isinstance(s, ArraySpec) and isinstance(t, PointerType) else s
        for s, t in zip(items, types, strict=True)
    )
    return replace(spec, items=found) if isinstance(spec, TupleSpec) else found[0]


@contextlib.contextmanager
def _depth_limited(request: Request) -> Iterator[None]:
    """Expressions are walked recursively: one that is too deep for Python's stack is the user's to split."""
    try:
        yield
    except RecursionError:
        code = request.recipe.primal.__code__  # type: ignore[attr-defined]
        raise UnsupportedSyntax(
            f"an expression in {code.co_name} is nested too deeply to be compiled",
            Loc(code.co_filename, code.co_firstlineno),
            help="split it over several statements; a chain of many terms counts as deep",
        ) from None


def _translated(request: Request, derives: bool = False) -> Program:
    captured = tuple(c.spec for c in request.captured)
    function = request.recipe.primal
    t = translate(
        function,
        request.args,
        request.captures,
        request.options,
        name=function.__name__,
        captured_specs=captured,
        differentiate=functools.partial(_differentiated, request._replace(noalias=False)),
        rules_of=request.recipe.root.rules_of,
        derives=derives,
        answers=dict(request.answers),
        is_joined=request.is_joined,
    )
    return Program(
        t.module, t.name, request.names, request.args, captured, t.result, effects=t.effects, finals=t.finals
    )


def _differentiated(
    request: Request,
    module: Module,
    name: str,
    recipe: Any,
    args: tuple[Spec, ...],
    captured: tuple[Spec, ...],
    result: Spec,
) -> tuple[str, Spec]:
    """A derivative of a function that is called inside of another one: the function's name, the spec of its result."""

    def made(recipe: Any, args: tuple[Spec, ...]) -> Program:
        if isinstance(recipe, Primal):
            program = Program(module, name, tuple(recipe.signature().parameters), args, captured, result)
        else:
            count = len(args) - recipe.added
            program = _derived(made(recipe.of, args[:count]), recipe, args[count:])
        _run(program, ("inline", *CLEAN_UP), request, "raw")
        return program

    program = made(recipe, args)
    return program.name, program.result


def _run(
    program: Program, passes: tuple[str, ...], request: Request, stage: str, decisions: Decisions | None = None
) -> None:
    """Run passes on the function of the program, and on what it still calls: recursive functions."""
    pending, seen = [program.name], {program.name}
    called = _calls(program)
    while pending:
        name = pending.pop(0)
        function = program.module.functions[name]
        run_pipeline(
            function,
            passes,
            verify=environment("DLVM_VERIFY") == "1",
            module=program.module,
            stage=stage,
            # nobody looks at the arguments of inner calls
            noalias_params=request.noalias and name == program.name and name not in called,
            decisions=decisions,
        )
        new = [n for n in callees(function) if n not in seen]
        seen.update(new)
        pending += new


# -- from IR to text ------------------------------------------------------------------------------------


def source_text(request: Request, name: str) -> str:
    """The program of a request as plain NumPy Python: a function of this name, called as the callable is."""
    recipe = request.recipe
    if isinstance(recipe, Primal):
        # nothing looks at the arguments of the text: they may overlap, as NumPy's may
        request = request._replace(noalias=False)
    # and have any extents
    program = lower_to(request._replace(general=True, unless=()), "optimizable")
    if program.effects is not None:
        code = recipe.primal.__code__  # type: ignore[attr-defined]
        raise UnsupportedSyntax(
            f"{code.co_name} changes a list, dict or instance of its caller: that has no text",
            Loc(code.co_filename, code.co_firstlineno),
            code="DL120",
            help="return the new value",
        )
    with _depth_limited(request):
        return python.python_text(
            program.module,
            program.name,
            python.Interface(
                name,
                recipe.signature(),
                program.args,
                program.result,
                captured=_global_names(request),
                title=_title(recipe),
                comments=not isinstance(recipe, Primal),
                noalias=request.noalias,
            ),
        )


def _global_names(request: Request) -> tuple[tuple[str, Any], ...]:
    """The captured arrays by the names that they have in the text; different arrays have different ones."""
    found: dict[str, Any] = {}
    for c in request.captured:
        name = c.source.name if c.source.name.isidentifier() else "captured"
        while name in found or name in request.names:
            name += "_"
        found[name] = c.source.read()
    return tuple(found.items())


def _title(recipe: Any) -> str:
    """What a derivative is, in words; "" for a function of the user's."""
    if isinstance(recipe, Primal):
        return ""
    of = _title(recipe.of) or f"{recipe.primal.__name__}()"
    names = ", ".join(list(recipe.of.signature().parameters)[k] for k in recipe.wrt)
    what = {Gradient: "The gradient", Tangent: "The tangent", Jacobian: "The Jacobian"}[type(recipe)]
    return f"{what} of {of[0].lower() + of[1:] if of.startswith('The') else of} with respect to {names}"


def report(request: Request, bind: Callable[..., tuple[Any, ...]]) -> reports.Report:
    """Which loops of a request threads share, and of a gradient what it keeps, computes again and copies.

    bind(*args): one value a parameter.
    """
    with _depth_limited(request):
        program = lower_to(request, "scheduled")
    found: list[Any] = program.function.meta.get(RECORD, [])  # type: ignore[assignment]
    parameters = zip(program.parameter_names, program.args, strict=True)
    names = [name for p, spec in parameters for name in reports.leaf_names(p, spec)]
    names += [c.source.name for c in request.captured]

    def read(*args: Any, **kwargs: Any) -> list[Any]:
        values = zip(program.args, bind(*args, **kwargs), strict=True)
        return [v for spec, value in values for v in reports.leaf_values(spec, value)] + [
            c.source.read() for c in request.captured
        ]

    what = {Gradient: "gradient of ", Tangent: "tangent of ", Jacobian: "Jacobian of "}.get(type(request.recipe), "")
    title = f"{what}{request.recipe.primal.__qualname__}()"
    functions = program.module.functions.values()
    loops, launching = (
        tuple(n for f in functions for n in f.meta.get(key, ())) for key in (LOOPS, replay_loops.REPLAYS)
    )  # type: ignore[attr-defined]
    return reports.Report(title, found, request.options.checkpoint, names, read, loops, launching)


# -- from IR to code -----------------------------------------------------------------------------------


class Compiled(NamedTuple):
    """A compiled request: the objects, entry first, and the facts that stand beside them in the cache (JSON values)."""

    image: bytes
    facts: dict[str, Any]
    native: native_compile.Compiled


def _check_result(program: Program) -> None:
    """What the caller is told of the result must be what the kernel writes: its bits are taken as they are."""
    type = program.function.result
    types = type.elements if isinstance(type, TupleType) else () if type is VOID else (type,)
    told = [dtype_of_leaf(leaf) for leaf in leaves(program.result) if isinstance(leaf, ScalarSpec | ArraySpec)]
    made = [t.dtype for t in types if isinstance(t, TensorType | PointerType)]
    if told != made:
        raise InternalError(f"the result of @{program.name} is {made}, and would be taken for {told}")


def compile_request(request: Request, holds: Holds | None = None, readable: bool = True) -> Compiled:
    """Run the whole pipeline for a request; `holds` as of `lower`, `readable` as of `compile_module`."""
    decisions = Decisions(request.options.schedule.decisions)
    program = lower_to(request, "scheduled", holds, decisions)
    count = sum(len(leaves(spec)) for spec in (*program.args, *program.captured))
    written = [i for i in sorted(written_params(program.module, program.name)) if i < count]
    imports = Imports()
    with _depth_limited(request):
        kernel, on_device = _emitted(request, program, imports)
    _check_result(program)
    is_seen = seen_outside(program.module, program.name) is not None
    assumed = [[n, site.assumes] for n, site in enumerate(kernel.sites) if site.assumes]
    facts = {
        "result": to_json(program.result, classes_of(request)),
        "effects": program.effects and program.effects.to_json(),
        "written": written,
        "unshared": sorted({*written, *program.unshared}),
        "free": list(program.free),
        "repeatable": not is_seen and not assumed and program.effects is None,
        "tells": is_seen,
        "assumed": assumed,
        "relations": [r.to_json() for r in program.relations],
        "limited": bool(program.function.meta.get(CAN_RUN_AGAIN)),
        "sites": sites_to_json(kernel.sites),
        "imports": imports.names,
        "decisions": decisions.asked,
    }
    call = call_spec(request, facts)
    entry = compiled_entry(call)
    first, *others = cut(kernel.module)
    parts = [Part(exported(first.text, kernel.symbol), first.exports), *others]
    asked = request.options.schedule
    does = {"slp": asked.slp and kernel.slp, "gathers": asked.gathers and kernel.gathers}
    schedule = replace(asked, level=asked.level or kernel.level, **does)
    done = compile_parts(parts, imports, (kernel.symbol,), schedule, threads.number(), readable)
    facts["shared"] = list(done.shared)
    facts["entry"] = [entry.imports, entry.shared]
    facts["sizes"] = [len(entry.image), *map(len, done.objects)]
    image = b"".join((entry.image, *done.objects))
    standing.provide(kernel.helpers)
    if request.device is None:
        return Compiled(image, facts, done)
    facts["kernels"] = len(on_device)
    return Compiled(image + _image(on_device, request.device.name), facts, done)


def _emitted(request: Request, program: Program, imports: Imports) -> tuple[EmitResult, list[Kernel]]:
    """The LLVM IR of a program, for a GPU that of its host driver, and the kernels."""
    function, options, apart = program.function, request.options, request.noalias
    if request.device is None:
        how: dict[str, Any] = {"shares": True, "masks": has_masks(), "permutes": has_permutes()}
        return emit(function, imports, options, noalias_params=apart, program=program.module, **how), []
    found = gpu.emit(function, imports, options, noalias_params=apart, program=program.module)
    return found.host, found.kernels


def ptx_text(request: Request, architecture: str) -> str:
    """The kernels of a request for target="gpu" as PTX."""
    if request.options.target != "gpu":
        raise ArgumentError("ptx() is of functions for target='gpu'", code="DL709", help="dlvm.jit(f, target='gpu')")
    program = lower_to(request, "scheduled")
    with _depth_limited(request):
        found = gpu.emit(
            program.function, Imports(), request.options, noalias_params=request.noalias, program=program.module
        )
    return ptx.ptx(found.kernels, architecture)


def _image(kernels: list[Kernel], architecture: str) -> bytes:
    """The kernels of a GPU program, as its device loads them: PTX, or code of this machine for the emulator."""
    return emulate.emulated(kernels) if architecture == EMULATOR else ptx.ptx(kernels, architecture).encode()


__all__ = ["STAGES", "Compiled", "compile_request", "lower", "lower_to", "schedules"]
