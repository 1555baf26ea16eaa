"""`source()`: the text of compiled functions and derivatives, read and run.

Laws: the text needs NumPy and SciPy only; called as the callable is, it gives its results, classes, effects on the
arguments and exceptions; every op has a spelling, is a statement, or is refused with a reason.
"""

import copy
import importlib.util
import inspect
from pathlib import Path

import array_programs
import language_programs
import numpy as np
import numpy_calls
import programs
import pytest
import random_python
import test_programs
import test_random_python
from processes import run_python
from source_executor import run_source
from test_language import assert_same, float_leaves, outcome

import dlvm_py as dlvm
from dlvm_py.backend.python.program import functions_text
from dlvm_py.backend.python.spelling import REFUSED, SPELLING, STATEMENTS
from dlvm_py.ir import (
    BOOL,
    OWN_DTYPES,
    VOID,
    Builder,
    Function,
    Kind,
    Literal,
    Module,
    PointerType,
    TensorType,
    interpreter,
    scalar,
)
from dlvm_py.ir.ops import OPS

ROOT = Path(__file__).resolve().parent.parent

# -- the page, which is the golden text ----------------------------------------------------------------------


def test_page_is_fresh():
    """The texts of docs/source.md are what `source` gives, to the letter."""
    spec = importlib.util.spec_from_file_location("build_source", ROOT / "docs" / "build_source.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    page = build.PAGE.read_text(encoding="utf-8")
    assert len(build.EXAMPLE.findall(page)) == 8
    assert build.written(page) == page


def test_tangents_and_seeds_are_carried_under_the_names_of_their_parameters():
    """A loop that carries a tangent or a part of a seed begins with what the parameter holds."""

    def f(a, b):
        for _ in range(5):
            a, b = b, a
        return 5.0 * b * b * a

    second = dlvm.grad(dlvm.grad(f, wrt=(0, 1)), wrt=(0, 1), seedable=True, from_=(0, 1))
    product = dlvm.hvp(f, wrt=1)
    for g, args in ((second, (1.2, 0.4, (0.3, -0.7))), (product, (1.2, 0.4, 0.3))):
        np.testing.assert_allclose(run_source(g, args), g(*args), rtol=1e-12)


def test_two_operands_of_one_row_keep_their_axis():
    """Neither operand of a sum relies on the other for an axis that both get by broadcasting."""

    def f(m, v):
        return np.sum((m * v + 1.0) ** 2)

    g = dlvm.grad(dlvm.grad(f, wrt=(0, 1)), wrt=1, seedable=True, from_=(0, 1))
    m, v = np.arange(6.0).reshape(2, 3), np.array([0.3, -0.6, 1.2])
    args = (m, v, (np.cos(m), np.sin(v)))
    np.testing.assert_allclose(run_source(g, args), g(*args), rtol=1e-12)


# -- run against plain Python and native derivatives ---------------------------------------------------------

CASES = [
    (p.fn, make)
    for some in (programs.PROGRAMS, language_programs.PROGRAMS)
    for p in some
    for make in (p.cases if hasattr(p, "cases") else [p.make_args])
]
OFTEN = {
    "early_return_nested", "while_loop", "loop_exits", "log_softmax", "poster", "in_place_stencil", "over_a_tuple",
    "dataclass_results", "raises", "list_of_arrays", "recursion", "asserts", "dicts", "integer_division",
    "transposed_stores", "match_constants",
}  # fmt: skip


RANDOM = {"draws"}  # programs that take random numbers, which are refused


def sampled(cases):
    """Parameters, those that are not run often marked slow."""
    names = [fn.__name__ for fn, _ in cases]
    seen, found = {}, []
    for (fn, make), name in zip(cases, names, strict=True):
        seen[name] = seen.get(name, -1) + 1
        marks = () if name in OFTEN and not seen[name] else (pytest.mark.slow,)
        found.append(pytest.param(fn, make, id=f"{name}-{seen[name]}", marks=marks))
    return found


def outcome_of_text(f, args):
    """The outcome of the text, which has lines of its own: of a warning what it says."""
    *found, warned = outcome(lambda *a: run_source(f, a), args)
    return (*found, [w[:2] for w in warned])


@pytest.mark.parametrize(("fn", "make"), sampled(CASES))
def test_text_equals_python(fn, make):
    """The text of a function gives what the function gives: value, classes, effects, exceptions."""
    args = make()
    reference = copy.deepcopy(args)
    if fn.__name__ in RANDOM:
        with pytest.raises(dlvm.CompileError, match="generator of random numbers"):
            dlvm.jit(fn).source(*args)
        return
    try:
        got = outcome_of_text(dlvm.jit(fn), args)
    except dlvm.UnsupportedSyntax as error:
        assert "changes a list, dict or instance of its caller: that has no text" in str(error)
        return
    *want, warned = outcome(fn, reference)
    assert_same(got, (*want, [w[:2] for w in warned]))
    assert_same(args, reference)


def test_names_of_parts():
    """The parts of a structure have names of their own, also where other variables are called like it."""

    def f(items, n):
        first = items[0]
        for _ in range(n):
            first = first * items[1]
        items = [first, items[0]]
        return items

    args = ([2.0, 3.0], 2)
    assert run_source(dlvm.jit(f), args) == f(*args)


def gradient_of(fn, args):
    """The gradient with respect to all parameters that hold floats, None if there is none."""
    wrt = tuple(k for k, a in enumerate(args) if float_leaves((a,)))
    return dlvm.grad(fn, wrt=wrt) if wrt else None


DIFFERENTIABLE = [
    (p.fn, make)
    for some in (programs.PROGRAMS, language_programs.PROGRAMS)
    for p in some
    if getattr(p, "grad", False) or getattr(p, "differentiable", False)
    for make in (p.cases if hasattr(p, "cases") else [p.make_args])
]


@pytest.mark.parametrize(("fn", "make"), sampled(DIFFERENTIABLE))
def test_gradient_text_equals_native(fn, make):
    """The text of a gradient gives the native numbers, in the same structure, and leaves the arguments alone."""
    gradient = gradient_of(fn, make())
    if gradient is None:
        pytest.skip("no floats")
    args = make()
    before = copy.deepcopy(args)
    *want, warned = outcome(gradient, make())
    assert_same(outcome_of_text(gradient, args), (*want, [w[:2] for w in warned]))
    assert_same(args, before)


@pytest.mark.parametrize("kind", ["jvp", "jacobian", "hessian", "value_and_grad", "seeded"])
def test_other_derivatives(kind):
    """Tangents, Jacobians, Hessians, kept values and seeds."""

    def f(x, c):
        y = x * c
        for i in range(1, len(x)):
            y[i] += np.sin(y[i - 1])
        return y

    def total(x, c):
        return np.sum(f(x, c) ** 2)

    x = np.linspace(0.2, 1.0, 4)
    made = {
        "jvp": lambda: (dlvm.grad(total, wrt=(0, 1)), (x, 0.7)),
        "jacobian": lambda: (dlvm.jacobian(f), (x, 0.7)),
        "hessian": lambda: (dlvm.hessian(total), (x, 0.7)),
        "value_and_grad": lambda: (dlvm.value_and_grad(total), (x, 0.7)),
        "seeded": lambda: (dlvm.grad(f, seedable=True), (x, 0.7, np.arange(4.0))),
    }
    g, args = made[kind]()
    want = g(*args)
    assert_same(run_source(g, copy.deepcopy(args)), want)


# -- on its own ------------------------------------------------------------------------------------------------


def test_runs_without_the_package(tmp_path):
    """In a process that cannot import dlvm_py, the text gives the native numbers to the last digit here."""

    def f(x, n):
        for _ in range(n):
            x[1:] += 0.5 * x[:-1] * x[1:]
        return x[-1] * x[0]

    g = dlvm.grad(f)
    x = np.linspace(0.1, 1.0, 5)
    want = g(x, 3)
    (tmp_path / "text.py").write_text(g.source(), encoding="utf-8")
    program = (
        "import sys; sys.modules['dlvm_py'] = None\n"
        "import numpy as np, text\n"
        "print(text.f_grad(np.linspace(0.1, 1.0, 5), 3).tolist())"
    )
    np.testing.assert_allclose(eval(run_python("-c", program, cwd=tmp_path).stdout), want, rtol=1e-15)


# -- the table ---------------------------------------------------------------------------------------------------


def test_every_op_is_written_or_refused():
    """Each op row is in one of the three tables, and in one only."""
    tables = [set(SPELLING), set(STATEMENTS), set(REFUSED)]
    assert set(OPS) == set().union(*tables)
    assert sum(map(len, tables)) == len(OPS)


def test_what_is_refused_says_so():
    """An error names the op and the reason."""
    with pytest.raises(dlvm.DLError, match="needs argument types"):
        dlvm.jit(lambda x: x).source()


# -- ops, one at a time -------------------------------------------------------------------------------------------

SAMPLES = {
    "b": [True, False, True],
    "i": [-3, -1, 0, 2, 7],
    "u": [0, 1, 2, 7, 250],
    "f": [-2.5, -0.5, 0.0, -0.0, 0.3, 1.0, np.inf, np.nan],
    "c": [0, 1 + 2j, -0.5j, -3 + 0.25j],
}
WITH_POLES = ("gamma", "lgamma", "digamma", "trigamma", "polygamma")  # where SciPy's values are other ones
CAST_TO = ("bool", "u8", "i64", "u64", "f32", "c128")
TOLERANCE = {"f16": 2e-3, "f32": 2e-6, "c64": 2e-6}


def samples(dtype):
    """Numbers of a dtype, corners among them."""
    with np.errstate(all="ignore"):
        return np.array(SAMPLES[dtype.kind]).astype(dtype.numpy)


def operand_count(op):
    """How many operands an elementwise op takes, by its NumPy semantics."""
    if isinstance(op.evaluate, np.ufunc):
        return op.evaluate.nin
    parameters = inspect.signature(op.evaluate).parameters.values()
    return sum(p.default is p.empty and p.name not in op.attrs for p in parameters)


def elementwise_cases():
    """Every elementwise op on every dtype that it takes: (op, dtypes of the operands, attributes)."""
    for op in OPS.values():
        if op.kind is not Kind.ELEMENTWISE or op.name == "bits":
            continue
        attrs = {"dataTypeCast": [{"to": t} for t in CAST_TO], "polygamma": [{"order": 2}]}.get(op.name, [{}])
        for dtype in OWN_DTYPES:
            for at in attrs:
                for types in ([dtype], [dtype] * 2, [dtype, dtype, BOOL]):
                    if len(types) != operand_count(op):
                        continue
                    try:
                        op.result_type([Literal(scalar(t), samples(t)[0].item()) for t in types], at)
                    except (TypeError, ValueError):
                        continue
                    yield op, types, at
                    break


def function_of(op, types, at, shape):
    """A module whose @f is one op, on arrays in memory or on numbers."""
    module = Module("ops", "optimizable")
    f = module.add(Function("f", VOID))
    b = Builder(f, f.new_block("entry"))
    if shape == "array":
        pointers = [b.block.add_arg(PointerType(TensorType((None,), t)), "x") for t in types]
        value = b.emit(op.name, *(b.emit("load", p) for p in pointers), **at)
        to = b.emit("allocateHeap", b.emit("extent", pointers[0], at=0), dtype=value.type.dtype.name)
        b.emit("store", value, to)
        b.ret(to)
    else:
        value = to = b.emit(op.name, *(b.block.add_arg(scalar(t), "x") for t in types), **at)
        b.ret(value)
    f.result = to.type
    return module


@pytest.mark.parametrize("shape", ["array", "strong", "weak"])
def test_elementwise_ops(shape):
    """Written on arrays, NumPy's numbers and Python's, each op gives what the interpreter gives, -0.0 and NaN too."""
    for op, types, at in elementwise_cases():
        if shape == "weak" and types[0].name not in ("f64", "i64", "c128", "bool"):
            continue
        module = function_of(op, types, at, shape)
        columns = [x.ravel() for x in np.meshgrid(*map(samples, types), indexing="ij")]
        if op.name in WITH_POLES:
            columns = [x[x > 0] for x in columns]
        calls = [columns] if shape == "array" else list(zip(*columns, strict=True))[:: max(len(columns[0]) // 12, 1)]
        wanted = []
        for args in calls:
            try:
                wanted.append(interpreter.run(module, "f", list(args)))
            except (ValueError, ArithmeticError):
                wanted.append(None)  # the program's own error
        namespace = {}
        exec(functions_text(module, ["f"]), namespace)
        for args, want in zip(calls, wanted, strict=True):
            if want is None:
                continue
            with np.errstate(all="ignore"):
                got = namespace["f"](*([x.item() for x in args] if shape == "weak" else args))
            what = (op.name, at, args, got, want)
            if shape != "weak":
                assert np.asarray(got).dtype == np.asarray(want).dtype, what
            tolerance = TOLERANCE.get(types[0].name, 1e-13)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=0, err_msg=str(what))
            if np.asarray(want).dtype.kind == "f":
                assert np.all((np.signbit(got) == np.signbit(want)) | np.isnan(want)), what


# -- random programs ----------------------------------------------------------------------------------------------


OFTEN_SEEDS = (*range(9), 162, 173, 181)  # the last ones call for the effects alone


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=() if s in OFTEN_SEEDS else pytest.mark.slow) for s in range(300)]
)
def test_random_array_programs(seed):
    """Views, stores that overlap loads, swaps, tapes, calls, early returns: what the interpreter gives, exactly."""
    module = array_programs.Generator(seed).module
    want = array_programs.outcome(module, seed)
    namespace = {}
    exec(functions_text(module, ["f"]), namespace)
    args = array_programs.arguments(seed)
    try:
        with np.errstate(all="ignore"):
            result = namespace["f"](*args)
    except ValueError as error:
        assert str(error) == "no"
        result = ("raised",)
    for got, w in zip((*result, *args), want, strict=True):
        np.testing.assert_array_equal(got, w)


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # plain NumPy code gives them
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_functions(seed):
    """Random Python functions, their values and gradients: the text against plain Python and the interpreter."""
    program = random_python.random_program(seed)
    for n in (5, 1, 0):
        f, args, reference = dlvm.jit(program.fn), random_python.make_args(n), random_python.make_args(n)
        got = test_random_python.outcome(lambda *a, f=f: run_source(f, a), args)
        test_random_python.assert_same(got, test_random_python.outcome(program.fn, reference))
        g, args = dlvm.grad(program.fn, wrt=(0, 1, 2, 3, 4)), random_python.make_args(n)
        p = g.program(*args, stage="optimizable")
        run = lambda *a, p=p: interpreter.run(p.module, p.name, list(a))  # noqa: E731
        want = test_random_python.outcome(run, random_python.make_args(n))
        got = test_random_python.outcome(lambda *a, g=g: run_source(g, a), args)
        test_random_python.assert_same(got, want)


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize(
    "family", [pytest.param(f, id=f.fn.__name__, marks=pytest.mark.slow) for f in numpy_calls.FAMILIES]
)
def test_numpy_calls(family):
    """Families of NumPy functions."""
    args, reference = family.make_args(), family.make_args()
    got, want = run_source(dlvm.jit(family.fn), args), family.fn(*reference)
    test_programs.assert_same(got, want)
    test_programs.assert_same(args, reference)


def test_an_array_made_of_the_one_that_it_replaces_has_another_name():
    """`np.empty` comes before what is stored: it does not take the name of what is still read."""

    def f(z):
        return np.sort(np.stack((z, 1j * z)), axis=0)  # with a NaN the places are put in order once more

    z = np.array([1.0, np.nan, 0.5]) + 1j
    np.testing.assert_array_equal(run_source(dlvm.jit(f), (z,)), f(z))
