"""`source()`: the text of compiled functions and derivatives, read and run.

Laws: the text needs NumPy and SciPy only; called as the callable is, it gives its results, classes, effects on the
arguments and exceptions; every op has a spelling, is a statement, or is refused with a reason.
"""

import copy
import importlib.util
import subprocess
import sys
from pathlib import Path

import language_programs
import numpy as np
import programs
import pytest
from source_executor import run_source
from test_language import assert_same, float_leaves, outcome

import dlvm_py as dlvm
from dlvm_py.backend.python.spelling import REFUSED, SPELLING, STATEMENTS
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


def sampled(cases):
    """Parameters, those that are not run often marked slow."""
    names = [fn.__name__ for fn, _ in cases]
    seen, found = {}, []
    for (fn, make), name in zip(cases, names, strict=True):
        seen[name] = seen.get(name, -1) + 1
        marks = () if name in OFTEN and not seen[name] else (pytest.mark.slow,)
        found.append(pytest.param(fn, make, id=f"{name}-{seen[name]}", marks=marks))
    return found


@pytest.mark.parametrize(("fn", "make"), sampled(CASES))
def test_text_equals_python(fn, make):
    """The text of a function gives what the function gives: value, classes, effects, exceptions."""
    args, reference = make(), make()
    got = outcome(lambda *a: run_source(dlvm.jit(fn), a), args)
    assert_same(got, outcome(fn, reference))
    assert_same(args, reference)


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
    args, reference = make(), make()
    want = gradient(*reference)
    got = run_source(gradient, args)
    assert_same(got, want)
    assert_same(args, make())


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
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(eval(done.stdout), want, rtol=1e-15)


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
