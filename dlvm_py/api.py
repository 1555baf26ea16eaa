"""The public functions: jit and the derivatives. Thin: they make recipes and hand them to dispatch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, overload

from dlvm_py.checking.report import CheckReport
from dlvm_py.dispatch import compiled_function, dispatcher_of, is_compiled, options_of, primal_of, recipe_of
from dlvm_py.errors import ArgumentError
from dlvm_py.frontend.capture import rules_of
from dlvm_py.frozen import replace
from dlvm_py.options import Options
from dlvm_py.pullback import Pullback
from dlvm_py.recipe import OutputName, Primal, Recipe, gradient, recording, tangent
from dlvm_py.recipe import jacobian as jacobian_recipe
from dlvm_py.runtime import threads
from dlvm_py.runtime.native import standing
from dlvm_py.sparse import SparseJacobian

Wrt = int | str | tuple[int | str, ...]


@overload
def jit(f: Callable[..., Any], /) -> Any: ...
@overload
def jit(
    f: None = None,
    /,
    *,
    target: str = "cpu",
    parallel: bool = True,
    fastmath: bool = False,
    boundscheck: bool | None = None,
    cache: bool = True,
    checkpoint: str | int = "auto",
    tune: bool = False,
) -> Callable[[Callable[..., Any]], Any]: ...
def jit(
    f: Callable[..., Any] | None = None,
    /,
    *,
    target: str = "cpu",
    parallel: bool = True,
    fastmath: bool = False,
    boundscheck: bool | None = None,
    cache: bool = True,
    checkpoint: str | int = "auto",
    tune: bool = False,
) -> Any:
    """The compiled form of a plain Python function over scalars, ndarrays and tuples of them.

    Compiles at the first call for the types of its arguments (dtype, rank, layout, which extents are 1;
    never lengths), for the functions that it calls as well, and keeps the code on disk. The result
    has the name, signature and docstring of `f`, and `f` as `__wrapped__`. Effects on arguments are
    NumPy's. Use as `@dlvm.jit`, `@dlvm.jit(fastmath=True)` or `dlvm.jit(f)`.

    f: a Python function (or lambda) whose source can be read.
    target: "cpu", or "gpu": arrays are moved to the NVIDIA device for the call and results come back as NumPy arrays;
        docs/gpu.md says what has kernels. DLVM_GPU=emulator runs the same kernels on the CPU, for tests.
    parallel: allow threads.
    fastmath: allow reassociation and the rest of what strict IEEE arithmetic forbids.
    boundscheck: check indices (None: yes, unless DLVM_BOUNDSCHECK=0).
    cache: keep compiled code on disk, and use what is there.
    checkpoint: the memory that gradients and Jacobians may take for what they keep. "store" tapes everything; a number
        of bytes runs loops again, so that each keeps about that much; "recompute" keeps as little as possible, which
        grows with the logarithm of the number of steps; "auto" tapes everything as long as a call takes less than
        DLVM_TAPE MiB (a quarter of the memory there is), and has that for a budget beyond. The gradient has the same
        bits. docs/derivatives.md says which loops.
    tune: measure, at the first call for new types, several ways to generate the code, with the arguments of that call
        and copies of those that it writes, and keep the fastest, on disk as well: options of LLVM, and what the passes
        decide by their cost models in this function (docs/performance.md, "Tuning"). Results have the same bits (with
        fastmath=True those of that call; for other values they may round otherwise). It is fastest for lengths like
        those of that call. Calls that print, draw random numbers or raise are not repeated: they get the usual code.

    Raises, when called: CompileError (with file, line and caret) for what cannot be compiled, DeviceError for
    target="gpu" without a device, and what NumPy or Python would raise for what goes wrong at run time.
    """
    options = Options(target, parallel, fastmath, boundscheck, cache, checkpoint, tune)
    if target not in ("cpu", "gpu"):
        raise ArgumentError(f"target={target!r}: the targets are 'cpu' and 'gpu'", code="DL705")
    if tune and target != "cpu":
        raise ArgumentError("tune=True measures schedules of the CPU, and target='gpu' has none", code="DL705")
    _check_checkpoint(checkpoint)

    def wrap(function: Callable[..., Any]) -> Any:
        recipe, _ = _root(function, "jit")
        return compiled_function(recipe, options)

    return wrap if f is None else wrap(f)


def grad(
    f: Callable[..., Any],
    wrt: Wrt = 0,
    *,
    keeping: OutputName | tuple[OutputName, ...] | None = None,
    seedable: bool = False,
    from_: OutputName | tuple[OutputName, ...] = 0,
    checkpoint: str | int | None = None,
) -> Any:
    """The gradient function of `f`, by reverse-mode adjoint code generation.

    It takes the arguments of `f` (and a seed at the end, if `seedable`) and returns the derivative with
    respect to `wrt`, in the structure of that argument: a new C-contiguous array of its dtype, a
    scalar for a scalar, None for integer leaves of a tuple. Arguments are left untouched.

    f: a plain or jitted function, or a gradient (derivatives nest).
    wrt: position or name of a parameter; a tuple of them gives a tuple.
    keeping: outputs of `f` to return as well, after the derivatives: an index into the result (0 for a
        result that is no tuple) or the name of a written parameter, or a tuple of those.
    seedable: take the seed (adjoint of the output, of its shape and dtype) as one more argument.
    from_: the output that is differentiated: an index into a tuple result, the name of a written
        parameter, or a tuple of those. An array output without seed is seeded with ones.
    checkpoint: the memory that it may take, as `dlvm.jit` has it; None: as `f` was jitted.

    `print(dlvm.grad(f).report(x, ...))` says what it keeps, computes again and copies, and the bytes of that.

    Raises: ArgumentError DL701 for names that do not exist, DL705 for another `checkpoint`; when called, DL702
    for an integer `wrt`, DL703 for an output that must be named; NotDifferentiable with the line for what has no
    derivative.
    """
    recipe, options = _root(f, "grad")
    return compiled_function(gradient(recipe, wrt, keeping, seedable, from_), _checkpointed(options, checkpoint))


def value_and_grad(
    f: Callable[..., Any],
    wrt: Wrt = 0,
    *,
    keeping: OutputName | tuple[OutputName, ...] | None = None,
    seedable: bool = False,
    from_: OutputName | tuple[OutputName, ...] = 0,
    checkpoint: str | int | None = None,
) -> Any:
    """The function (arguments of `f`) -> (value of `f`, gradient as `dlvm.grad(f, wrt)` gives it, what is kept).

    One run of `f` gives both. The value is the whole result, whatever `from_` says. Options and errors are those
    of `dlvm.grad`.
    """
    recipe, options = _root(f, "value_and_grad")
    return compiled_function(
        gradient(recipe, wrt, keeping, seedable, from_, value_first=True), _checkpointed(options, checkpoint)
    )


def jvp(
    f: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    from_: OutputName | tuple[OutputName, ...] | None = None,
) -> tuple[Any, Any]:
    """The value of `f` and its derivative along `tangents`, by forward mode: (f(*primals), ∂f · tangents).

    primals: the arguments, one a parameter.
    tangents: one for each of `primals`, of its shape and dtype (in the structure of the argument); None for an
        argument that does not move, and for integers.
    from_: outputs, as in `grad`, that are the value; None: the whole result.

    Returns the value as `f` gives it (the written argument where it returns None), and the tangent in the same
    structure, None for integer leaves. Arguments are left untouched.

    Raises: ArgumentError DL701 without any tangent, DL702 for a tangent of an integer, DL704 for a
    tangent that does not fit; NotDifferentiable with the line for what has no derivative.
    """
    if len(tangents) != len(primals):
        raise ArgumentError(
            f"{len(primals)} arguments and {len(tangents)} tangents",
            code="DL704",
            help="None for one that does not move",
        )
    wrt = tuple(k for k, t in enumerate(tangents) if t is not None)
    return _tangent_of(f, wrt, from_)(*primals, *(tangents[k] for k in wrt))


def vjp(
    f: Callable[..., Any],
    /,
    *args: Any,
    wrt: Wrt | None = None,
    from_: OutputName | tuple[OutputName, ...] | None = None,
    checkpoint: str | int | None = None,
) -> tuple[Any, Pullback]:
    """The value of `f` and its pullback, by reverse mode: (f(*args), seed -> seed · ∂f).

    Runs `f` once, and keeps what the reverse sweep needs (the *tape*); each call of the pullback runs the reverse sweep
    alone. The arguments are left untouched. What is done to arguments or to the value afterwards does not change what
    the pullback gives.

    wrt: position or name of a parameter, or a tuple of them; None: all of `args`, and None comes back for those that
        hold no floats.
    from_: the outputs that count as the value, as in `jacobian`; None: the whole result (the written argument of a
        function that returns None).
    checkpoint: "store" for a function that is jitted with a budget or "recompute", which a tape that waits for its
        pullbacks cannot keep; None: as `f` was jitted.

    Returns the value, and the pullback: it takes a seed of the shape and dtype of the value, in its structure (None for
    what is no float), and returns the derivatives as a tuple with one for each of `args` (for a single `wrt`: that
    one), each in the structure of the argument.

    Raises: as `grad`; ArgumentError DL702 where no argument is a float, DL704 for a seed that does not fit, DL705 for a
    `checkpoint` that bounds memory.
    """
    _check_taped(f, checkpoint)
    value, tape, reader = _recording_of(f, wrt, len(args), from_)(*args)
    return value, Pullback(getattr(f, "__name__", repr(f)), reader, tape)


def jacobian(
    f: Callable[..., Any],
    wrt: Wrt = 0,
    mode: str = "auto",
    *,
    from_: OutputName | tuple[OutputName, ...] | None = None,
    sparsity: Any = None,
) -> Any:
    """The function that gives all partial derivatives of `f`, as one array with the axes of the output, then of `wrt`.

    f: a plain or jitted function, or a derivative. wrt: position or name of a parameter that is a number or an array; a
        tuple of them gives a tuple.
    mode: "forward" runs `f` with its tangent once for each element of `wrt`, "reverse" with its adjoint once for
        each element of the output; "auto" takes the smaller number.
    from_: outputs, as in `grad`; None: the whole result, in its structure (the written argument of a function that
        returns None).
    sparsity: where the Jacobian can have entries: a scipy.sparse matrix or a boolean array with a row for each element
        of the output (one array or number) and a column for each element of `wrt` (one array), or "auto", which finds
        out. The result is then a scipy.sparse.csr_array; columns (or rows) that do not meet are computed in one pass.

    Raises: as `grad`; ArgumentError DL702 for a `wrt` with parts, and for complex numbers; DL701 for a sparsity pattern
    of another shape, or that lacks entries (one more pass, in a random direction, tells).
    """
    if sparsity is not None:
        return _sparse_jacobian(f, wrt, mode, from_, sparsity)
    recipe, options = _root(f, "jacobian")
    return compiled_function(jacobian_recipe(recipe, wrt, mode, from_), options)


def _sparse_jacobian(f: Callable[..., Any], wrt: Wrt, mode: str, from_: Any, sparsity: Any) -> SparseJacobian:
    recipe, options = _root(f, "jacobian")
    if mode == "auto" and not _is_taped(options.checkpoint):
        mode = "forward"
    checked = jacobian_recipe(recipe, wrt, mode, from_)
    if mode == "reverse":
        _check_taped(f, None)
    if not checked.single:
        raise ArgumentError("a sparse Jacobian is with respect to one parameter", code="DL701")
    (position,) = checked.wrt
    push = compiled_function(tangent(recipe, checked.wrt, from_), options)
    record = compiled_function(recording(recipe, position, 0, from_), options)

    def pull(values: list[Any]) -> tuple[Any, Pullback]:
        value, tape, reader = record(*values)
        return value, Pullback(f.__name__, reader, tape)

    return SparseJacobian(
        f.__name__, recipe.signature(), position, mode, sparsity, lambda values, moved: push(*values, moved), pull
    )


def hessian(f: Callable[..., Any], wrt: Wrt = 0, *, sparsity: Any = None) -> Any:
    """The function that gives the second derivatives of a scalar function: axes of `wrt` twice.

    The Jacobian of the gradient, forward over reverse (reverse over reverse where a function has an
    adjoint rule alone). A tuple of parameters gives a tuple of tuples.
    sparsity: as in `jacobian`: the pattern of the second derivatives of one array, or "auto".
    """
    if sparsity is not None:
        return _sparse_jacobian(grad(f, wrt), wrt, "forward", None, sparsity)
    recipe, options = _root(f, "hessian")
    gradient_of = gradient(recipe, wrt, None, False, 0)
    return compiled_function(jacobian_recipe(gradient_of, wrt, "hessian"), options)


def hvp(f: Callable[..., Any], wrt: int | str = 0) -> Any:
    """The function (arguments of `f`, v) -> second derivative of `f` with respect to `wrt`, times v of its shape.

    The tangent of the gradient: about the work of a few gradients, and no matrix.
    """
    recipe, options = _root(f, "hvp")
    return compiled_function(tangent(gradient(recipe, wrt, None, False, 0), (wrt,), with_value=False), options)


def check(
    f: Callable[..., Any],
    *args: Any,
    wrt: Wrt | None = None,
    tolerance: float = 1e-6,
    seed: int = 0,
    **kwargs: Any,
) -> CheckReport:
    """Tests a function at given arguments: compiled against plain Python, its derivatives against differences.

    Compared are: the result and the written arguments (values, classes, dtypes, shapes) and exceptions with those of
    plain Python; forward mode with reverse mode by the dot-product identity; each derivative by both modes with central
    differences of plain Python, extrapolated, whose estimated error is allowed for. An error names the argument, its
    element, and the first source line whose value or derivative departs. Notes say at which lines gradients stop (casts
    to int, floor, comparisons), and which derivatives stand at a kink, where differences from the two sides differ.

    f: a plain or jitted function. args, kwargs: those of a call; they are left untouched.
    wrt: position or name of a parameter, or a tuple of them; None: every argument that holds floats.
    tolerance: what derivatives may differ by, relative to the larger of 1 and their size.
    seed: of the random directions and weights. Of more than 200 elements 200 are drawn at random.

    Returns a CheckReport: `ok`, `findings`, `assert_ok()`; `print` shows it. It raises nothing of its own but
    ArgumentError for a `wrt` that names nothing or holds no floats.
    """
    recipe, options = _root(f, "check")
    if not isinstance(recipe, Primal):
        raise ArgumentError(
            "dlvm.check needs a function, not a derivative", code="DL706", help="check the function itself"
        )
    values = dispatcher_of(compiled_function(recipe, options)).values(args, kwargs)
    positions = None if wrt is None else gradient(recipe, wrt, None, False, 0).wrt
    return importlib.import_module("dlvm_py.checking.check").check(recipe, options, values, positions, tolerance, seed)


def _tangent_of(
    f: Callable[..., Any], wrt: tuple[int, ...], from_: OutputName | tuple[OutputName, ...] | None = None
) -> Any:
    return _derived(f, "jvp", (wrt, from_), lambda recipe: tangent(recipe, wrt, from_))


def _recording_of(f: Callable[..., Any], wrt: Any, count: int, from_: Any) -> Any:
    return _derived(f, "vjp", (wrt, count, from_), lambda recipe: recording(recipe, wrt, count, from_))


def _seeded_of(f: Callable[..., Any], wrt: Any, from_: Any) -> Any:
    return _derived(f, "seeded", (wrt, from_), lambda recipe: gradient(recipe, wrt, None, True, from_))


def free_buffers() -> int:
    """Free the memory that is kept for the next arrays; how many bytes it was.

    Compiled code keeps what its arrays have freed, and what its results free when Python drops them, up to
    DLVM_BUFFERS MiB (read once a process, 0 keeps nothing; unset: a 16th of the machine's memory, at least 256 MiB),
    because new memory costs time to touch. Arrays that are alive stay as they are. It need not be called for want of
    memory: an allocation that fails frees it first.
    """
    return standing.free_kept()


def set_num_threads(count: int) -> None:
    """Share array kernels among `count` threads from now on, the calling one included.

    At first they are as many as the process may use processors, or DLVM_NUM_THREADS. Results do not depend on it, not
    by a bit; with 1 no thread is made. Kernels with little work always run alone, and BLAS has threads of its own.
    ArgumentError if it is no int from 1 to 1024.
    """
    threads.set_number(count)


def get_num_threads() -> int:
    """How many threads share an array kernel."""
    return threads.number()


# what calls of these in compiled code make
jvp.maker, vjp.maker = _tangent_of, _seeded_of  # type: ignore[attr-defined]


def _derived(f: Callable[..., Any], what: str, key: Any, make: Callable[[Recipe], Recipe]) -> Any:
    """A compiled derivative of `f`, made once and kept on the function."""
    owner, made = getattr(f, "__dict__", {}).get("__dlvm_derived__", (None, {}))
    if owner is not f:  # functools.wraps copies what it finds to other functions
        made = {}
    key = repr(key)
    if (what, key) not in made:
        recipe, options = _root(f, what)
        made[what, key] = compiled_function(make(recipe), options)
        f.__dict__["__dlvm_derived__"] = f, made
    return made[what, key]


def _is_taped(checkpoint: str | int) -> bool:
    return checkpoint in ("auto", "store")


def _check_taped(f: Callable[..., Any], wanted: str | int | None) -> None:
    """DL705 where a tape is kept that must not be."""
    if wanted is not None:
        _check_checkpoint(wanted)
    found = wanted or _root(f, "vjp")[1].checkpoint
    if not _is_taped(found):
        raise ArgumentError(
            f"checkpoint={found!r}: the tape of a pullback is kept whole, so that its memory has no such bound",
            code="DL705",
            help="dlvm.grad(f, seedable=True) runs loops again for each seed; "
            "dlvm.vjp(f, ..., checkpoint='store') keeps all",
        )


def _checkpointed(options: Options, wanted: str | int | None) -> Options:
    if wanted is None:
        return options
    _check_checkpoint(wanted)
    return replace(options, checkpoint=wanted)


def _check_checkpoint(wanted: str | int) -> None:
    is_budget = isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0
    if not is_budget and wanted not in ("auto", "store", "recompute"):
        raise ArgumentError(
            f"checkpoint={wanted!r}",
            code="DL705",
            help="'auto', 'store', 'recompute', or a budget in bytes (an int)",
        )


def _root(f: Callable[..., Any], what: str) -> tuple[Recipe, Options]:
    if is_compiled(f) and not isinstance(f, MethodType):  # which shows the attributes of its function
        return recipe_of(f), options_of(f)
    if isinstance(f, FunctionType):
        return Primal(f), Options()
    if rules_of(f) is not None:
        inner = getattr(f, "__wrapped_by__", None)
        return primal_of(f), options_of(inner) if is_compiled(inner) else Options()
    kind, advice = type(f).__name__, "wrap the call in a def or a lambda"
    if isinstance(f, MethodType):
        kind = f"the bound method {f.__qualname__}"
        advice = "its object cannot be compiled: write a function of the numbers and arrays that it uses"
    elif isinstance(f, staticmethod | classmethod):
        advice = f"put @dlvm.{what} below @{kind}"
    raise ArgumentError(f"dlvm.{what} needs a Python function, not {kind}", code="DL706", help=advice)
