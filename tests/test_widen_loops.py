"""Loops over columns that become one kernel over all of them (transforms/widen_loops.py): the same bits and effects."""

import random

import numpy as np
import pytest
from random_python import load

import dlvm_py as dlvm
from dlvm_py.ir.parser import parse_function
from dlvm_py.transforms.pass_manager import run_pipeline


def update(a, b, v, w):
    """A column of each trip, by a factor of its own."""
    for j in range(a.shape[1]):
        a[1:, j] += v[1:] * w[j]


def two_statements(a, b, v, w):
    """The second reads what the first has written in the same trip."""
    for j in range(a.shape[1]):
        a[:, j] = b[:, j] * w[j]
        w[j] = w[j] + 1.0
        b[:, j] = a[:, j] + w[j]


def of_a_matrix(a, b, v, w):
    """From rows of another matrix, with a view of the columns in reverse."""
    for j in range(1, a.shape[1]):
        a[::-1, j] = np.sqrt(b[:, j - 1]) - v


def fortran(a, b, v, w):
    """The rows of a transposed matrix are columns."""
    c = b.T
    for j in range(c.shape[0]):
        c[j, :] = c[j, :] * w[j] + v


def constant(a, b, v, w):
    """The same number for all, a bool and an integer too."""
    for j in range(a.shape[1]):
        a[:, j] = 3 > (v * 2)
        b[:, j] = 7


def wider(a, b, v, w):
    """Beyond the last column of the other one: NumPy's exception, and what it has written before."""
    for j in range(a.shape[1]):
        a[:, j] = b[:, j + 1] * 2


def carried(a, b, v, w):
    """A trip reads the column of the trip before."""
    for j in range(1, a.shape[1]):
        a[:, j] += a[:, j - 1] * w[j]


def along_rows(a, b, v, w):
    """Rows: nothing to be gained."""
    for i in range(a.shape[0]):
        a[i, :] += w * v[i]


def with_its_number(a, b, v, w):
    """The number of a trip is a value."""
    for j in range(a.shape[1]):
        a[:, j] = v * j


def read_before_it_is_written(a, b, v, w):
    """A factor that the trip itself overwrites."""
    for j in range(a.shape[1]):
        a[:, j] *= a[0, j]


def made_once(a, b, v, w):
    """A function of a number, for a column."""
    for j in range(a.shape[1]):
        a[:, j] += b[:, j] * np.exp(w[j])


def arguments(m=6, n=9):
    rng = np.random.default_rng(3)
    return rng.random((m, n)), rng.random((m, n)), rng.random(m), rng.random(n)


def triangle(c, a, b, alpha):
    """The lower triangle of a product, row by row: the reverse sweep of a row adds to columns, and sums them."""
    for i in range(c.shape[0]):
        for k in range(a.shape[1]):
            c[i, : i + 1] += a[: i + 1, k] * alpha * b[i, k] + b[: i + 1, k] * np.sin(a[i, k])


def is_widened(compiled, *args):
    """Whether the pass does anything."""
    program = compiled.program(*(args or arguments()), stage="optimizable")
    run_pipeline(program.function, ("bufferize", "dce", "loop_versions", "limit_counts", "dce"), verify=True)
    return run_pipeline(program.function, ("widen_loops",), verify=True, stage="compute")


def agree(function, args):
    """Whether NumPy and the compiled function write and raise the same."""
    ours, theirs = [a.copy() for a in args], [a.copy() for a in args]
    raised = [None, None]
    for k, (call, given) in enumerate(((function, theirs), (dlvm.jit(function), ours))):
        try:
            call(*given)
        except (IndexError, ValueError) as error:
            raised[k] = type(error)
    assert raised[0] is raised[1]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)


@pytest.mark.parametrize(
    "function",
    [
        update, two_statements, of_a_matrix, fortran, constant, wider, carried, along_rows, with_its_number,
        read_before_it_is_written, made_once,
    ],
)  # fmt: skip
def test_same_bits_and_effects(function):
    for shape in ((6, 9), (1, 1), (3, 0), (0, 4)):
        agree(function, arguments(*shape))


@pytest.mark.parametrize("function", [update, of_a_matrix, fortran, constant, wider, made_once])
def test_a_loop_over_columns_is_a_kernel(function):
    assert is_widened(dlvm.jit(function))


@pytest.mark.parametrize("function", [carried, along_rows, with_its_number, read_before_it_is_written])
def test_what_stays_a_loop(function):
    assert not is_widened(dlvm.jit(function))


def test_reverse_sweeps():
    rng = np.random.default_rng(4)
    args = rng.random((5, 5)), rng.random((5, 7)), rng.random((5, 7)), 1.5
    assert is_widened(dlvm.grad(triangle, wrt=("c", "a", "b", "alpha"), from_="c"), *args)
    dlvm.check(triangle, *args).assert_ok()


SUMS_DOWN = """
func @f: (*<_ x _ x f64>, *<_ x f64>) -> f64 {{
'entry(%a: *<_ x _ x f64>, %w: *<_ x f64>):
    %n = extent %w: *<_ x f64> at 0
    %h = extent %a: *<_ x _ x f64> at 0
    branch 'loop(%n: i64, 0.0: f64)
'loop(%k: i64, %s: f64):
    %done = equal %k: i64, 0: i64
    conditional %done: bool then 'end() else 'body(){mark}
'body():
    %j = subtract %k: i64, 1: i64
    %c = section %a: *<_ x _ x f64> at (0: i64, %j: i64) count (%h: i64, 1: i64) step (1: i64, 1: i64)
    %p = squeezeShape %c: *strided <_ x 1 x f64> at 1
    %e = elementPointer %w: *<_ x f64> at %j: i64
    %x = load %e: *f64
    %v = load %p: *strided <_ x f64>
    %u = multiply %v: <_ x f64>, %x: f64
    store %u: <_ x f64> to %p: *strided <_ x f64>
    %t = add %s: f64, %x: f64
    branch 'loop(%j: i64, %t: f64)
'end():
    return %s: f64
}}
"""


@pytest.mark.parametrize("mark", ["", " unordered"])
def test_only_sums_of_reverse_sweeps_have_no_order(mark):
    """A program may count down as well; its additions are made in the order in which it makes them."""
    function = parse_function(SUMS_DOWN.format(mark=mark))
    assert run_pipeline(function, ("widen_loops",), verify=True, stage="compute") == bool(mark)


def drawn(seed):
    """A function of loops over columns, or nearly."""
    r = random.Random(seed)
    lines = ["import numpy as np", "", "", "def main(a, b, v, w, k):"]
    first, last = r.choice(("", "1, ", "k, ")), r.choice(("n", "n - 1", "k + 2"))
    lines += ["    n = a.shape[1]", f"    for j in range({first}{last}):"]

    def rows():
        return r.choice((":", ":", "1:", ":k", "::2", "::-1"))

    def column():
        return r.choice(("j", "j", "j", "j", "j + 1", "n - 1 - j", "k", "j - 1"))

    for _ in range(r.randint(1, 3)):
        part = rows()
        vector = {":": "v", "1:": "v[1:]", ":k": "v[:k]", "::2": "v[::2]", "::-1": "v[::-1]"}[part]
        source = r.choice((f"b[{part}, {column()}]", f"a[{part}, {column()}]", vector, f"np.sin({vector})"))
        factor = r.choice(("w[j]", "w[k]", "2.5", f"a[k, {column()}]", f"b[0, {column()}]", "np.exp(-w[j] * w[j])"))
        target = r.choice("aab")
        lines.append(f"        {target}[{part}, {column()}] {r.choice(('=', '+=', '*='))} {source} * {factor}")
        if r.random() < 0.3:
            lines.append(f"        w[j] = w[j] * {factor}")
    return "\n".join(lines) + "\n"


def check_drawn(seed):
    function = load(drawn(seed), f"columns_{seed}")
    rng = np.random.default_rng(seed)
    for m, n, k in ((5, 8, 2), (4, 70, 3)):
        args = (rng.random((m, n)), rng.random((m, n)), rng.random(m), rng.random(n))
        compiled, ours, theirs = dlvm.jit(function), [x.copy() for x in args], [x.copy() for x in args]
        raised = []
        for call, given in ((function, theirs), (compiled, ours)):
            try:
                call(*given, k)
            except (IndexError, ValueError) as error:
                raised.append(type(error))
        assert len(set(raised)) == len(raised) - 1 if raised else True, drawn(seed)
        for found, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-13, err_msg=drawn(seed))


def test_drawn_loops():
    for seed in range(8):
        check_drawn(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 500, 50))
def test_more_drawn_loops(first):
    for seed in range(first, first + 50):
        check_drawn(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(600, 680, 20))
def test_gradients_of_drawn_loops(first):
    for seed in range(first, first + 20):
        args = arguments(5, 8)
        dlvm.check(load(drawn(seed), f"columns_{seed}"), *args, 2).assert_ok()
