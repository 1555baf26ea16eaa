"""Random nests of loops (random_nests.py): native code against plain NumPy, gradients against differences.

Passes take loops of many trips, and large arrays, where that pays. Here what pays is little (`EAGER`), so that small
programs come by all of them: each shape of nests says which passes it has to reach. Of `exact` programs every bit is
NumPy's, of the value, and of what is in the arguments afterwards, also where the program has raised.
"""

import contextlib
import importlib
import random
from unittest.mock import patch

import numpy as np
import pytest
from nest_writer import ARRAYS
from plain_code import translated_only
from random_nests import LAYOUTS, SHAPES, make_args, random_nest

import dlvm_py as dlvm
from dlvm_py.errors import CompileError
from dlvm_py.transforms import pass_manager

pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # plain NumPy code gives them

# what the passes' thresholds are here; the strips have odd ends
EAGER = {
    "backend.cpu.loops": {"CHUNK": 100}, "backend.cpu.share": {"CHUNK": 100},
    "transforms.share_kernels": {"GRAIN": 400, "LEAST": 25}, "ir.tree_rules": {"GRAIN": 400},
    "transforms.double_buffers": {"LEAST": 16}, "transforms.growing_products": {"STRIP": 4, "ROWS": 4},
    "transforms.hoist_products": {"ENOUGH": 2, "STRIP": 4}, "transforms.inline_stencils": {"LARGE": 64},
    "transforms.interchange_loops": {"_LEAST": 2, "WIDE": 5, "NARROW": 3, "_LINES": 3},
    "transforms.raise_products": {"STRIP": 4, "SHORT": 3},
    "transforms.row_strips": {"LARGE": 64, "STRIP": 256, "LEAST": 16},
    "transforms.triangular_products": {"ENOUGH": 2, "SHORT": 3},
    "transforms.skewed_strips": {"STRIP": 24, "LARGE": 16, "CARRIED": 8, "REUSE": 1, "GRAINS": 10**9},
    "transforms.tile_loops": {"SIDE": 4, "LEAST": 2}, "transforms.unroll_and_jam": {"WIDE": 4},
}  # fmt: skip
# of one half of the programs: loops are shared, and chains of kernels are windows, instead of something else
OTHERS = {
    "transforms.share_loops": {"GRAIN": 1},
    "transforms.sliding_windows": {"LARGE": 64, "STRIP": 256, "BAND": 2, "STRIPS": 2},
}
REACHED = {
    "loop": {"limit_counts", "loop_versions", "share_loops"},
    "swept": {"skew_loops"},
    "in_time": {"double_buffers", "hoist_buffers"},
    "chain": {"skewed_strips", "sliding_windows"},
    "down": {"interchange_loops"},
    "kernel": {"widen_loops", "tile_loops"},
    "growing": {"growing_products", "hoist_products"},
    "triangles": {"raise_products", "triangular_products"},
}
SIZES = ((5, 7), (7, 5), (6, 6), (17, 30), (30, 17), (3, 2), (2, 3), (1, 1), (0, 0), (0, 3), (3, 0))
# a few programs that reach them
FIRST = {
    "loop": (2, 5, 7), "swept": (0, 2, 3), "in_time": (3, 4, 9), "chain": (0, 2, 6), "down": (4, 5, 6),
    "kernel": (5, 6, 9), "growing": (0, 1, 3),
    "triangles": (1, 6, 9),
}  # fmt: skip
RAISED = (ArithmeticError, LookupError, ValueError)


@pytest.fixture(autouse=True)
def two_threads(eager_threads):
    """Loops are shared, by two threads unless a check says otherwise."""
    dlvm.set_num_threads(2)


@contextlib.contextmanager
def eager(seed):
    """Passes that find everything worth their while; the set of those that have changed something."""
    reached = set()

    run_pass = pass_manager.run_pass

    def noting(row, function, *args):
        has_all = row.needs is None or row.needs(function)
        changes = run_pass(row, function, *args)
        assert has_all or not changes, f"{row.name} found something without what it needs"
        if changes:
            reached.add(row.name)
        return changes

    with contextlib.ExitStack() as stack:
        for name, values in (EAGER | OTHERS if seed % 2 else EAGER).items():
            stack.enter_context(patch.multiple(importlib.import_module(f"dlvm_py.{name}"), **values))
        stack.enter_context(patch.object(pass_manager, "run_pass", noting))
        stack.enter_context(patch.object(pass_manager, "may_find", lambda *_: True))
        stack.enter_context(translated_only())
        yield reached


def outcome(fn, args):
    """The value, or the class of the exception."""
    try:
        with np.errstate(all="ignore"):
            return fn(*args)
    except CompileError:
        raise
    except RAISED as error:
        return type(error)


def assert_same(got, want, exact, what):
    """Equal numbers, to the bit where that is said, but for which NaN it is; or one class of exception."""
    if isinstance(want, type) or isinstance(got, type):
        assert got is want, what
    elif exact:
        np.testing.assert_array_equal(got, want, err_msg=what)
        np.testing.assert_array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(want) & ~np.isnan(want), what)
    elif np.all(np.abs(want) < 1e50):  # of larger numbers, the order of a sum decides what is infinite
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9, err_msg=what)


def check_values(program, seed, calls):
    """Calls with arguments of several sizes, two layouts, few and many trips, by one thread and by two."""
    r, compiled = random.Random(seed), dlvm.jit(program.fn, cache=False)
    layouts = ("C", r.choice(LAYOUTS))
    for _ in range(calls):
        n, m = r.choice(SIZES[:7]) if r.random() < 0.8 else r.choice(SIZES)
        k, q = r.choice((2, 3, 0, 1, -1, n - 1, m, n + 1)), r.choice((1, 2, 0, 3, n, m - 1, -2))
        how = {"n": n, "m": m, "k": k, "q": q, "layout": r.choice(layouts), "seed": r.randrange(1000)}
        dlvm.set_num_threads(r.choice((1, 2)))
        ours, theirs = make_args(**how), make_args(**how)
        want = outcome(program.fn, theirs)
        assert_same(outcome(compiled, ours), want, program.exact, f"{how}\n{program.source}")
        for name, x, y in zip(ARRAYS, ours, theirs, strict=False):
            assert_same(x, y, program.exact, f"{name} after {how}\n{program.source}")


def check_gradient(program, seed):
    """The gradient along a direction is forward mode's, and that of differences; no argument is written."""
    r, wrt = random.Random(seed), (*ARRAYS, "s")
    n, m = r.choice(SIZES[:6])
    how = {"n": n, "m": m, "k": r.choice((2, 3, 0, n - 1)), "q": r.choice((1, 2, 0)), "seed": r.randrange(1000)}
    how["layout"] = r.choice(LAYOUTS[:3])
    what, args = f"{how}\n{program.source}", make_args(**how)
    want = outcome(program.loss, make_args(**how))
    got = outcome(dlvm.grad(dlvm.jit(program.loss, cache=False), wrt=wrt), args)
    for x, y in zip(args, make_args(**how), strict=True):
        np.testing.assert_array_equal(x, y, err_msg=what)
    if isinstance(want, type) or isinstance(got, type):
        assert got is want, what
        return
    if not abs(want) < 1e8 or not all(np.all(np.isfinite(g)) for g in got):
        return  # there is nothing to compare with
    rng = np.random.default_rng(seed)
    direction = [rng.standard_normal(np.shape(g)) for g in got]
    terms = [g * d for g, d in zip(got, direction, strict=True)]
    along, scale = sum(float(np.sum(t)) for t in terms), 1.0 + sum(float(np.sum(np.abs(t))) for t in terms)
    tangents = (*direction[:-1], None, None, None, float(direction[-1]))
    _, moved = dlvm.jvp(program.loss, make_args(**how), tangents)
    if np.isfinite(moved):
        assert abs(float(moved) - along) < 1e-7 * scale, what

    def difference(h):
        ends = []
        for sign in (1, -1):
            there = make_args(**how)
            for x, d in zip(there, direction[:-1], strict=False):
                x += sign * h * d
            ends.append(outcome(program.loss, (*there[:-1], there[-1] + sign * h * float(direction[-1]))))
        return np.nan if any(isinstance(end, type) for end in ends) else (ends[0] - ends[1]) / (2 * h)

    coarse, fine = difference(1e-5), difference(3e-6)
    if abs(coarse - fine) < 1e-5 * scale:  # no kink in between
        assert abs(along - fine) < 2e-4 * scale, what


def check_all(shape, seeds, calls):
    """Some programs, and the gradients of every third; the passes that they have reached."""
    reached = set()
    for seed in seeds:
        program = random_nest(seed, shape)
        with eager(seed) as found:
            check_values(program, seed, calls)
            if seed % 3 == 0:
                check_gradient(program, seed)
        reached |= found
    return reached


@pytest.mark.parametrize("shape", SHAPES)
def test_random_nests(shape):
    """A few programs of each shape, which reach what it is for."""
    reached = check_all(shape, FIRST[shape], 6)
    assert reached >= REACHED[shape]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(30))
@pytest.mark.parametrize("shape", ["", *SHAPES])
def test_random_nests_slow(shape, chunk):
    """Ten programs; the shapes together where none is said."""
    check_all(shape, range(1000 + 10 * chunk, 1010 + 10 * chunk), 10)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_random_nests_as_they_are(shape):
    """As users have them, in sizes on both sides of what passes ask for: wide, tall, and large enough to be shared."""
    for seed in range(5000, 5010):
        program = random_nest(seed, shape)
        compiled = dlvm.jit(program.fn, cache=False)
        for n, m in ((40, 40), (70, 130), (1600, 18), (18, 2100)):
            if n * m > 10_000 and shape in ("loop", "growing", "triangles"):
                continue  # plain Python takes minutes
            ours, theirs = make_args(n, m, seed=seed), make_args(n, m, seed=seed)
            assert_same(outcome(compiled, ours), outcome(program.fn, theirs), program.exact, program.source)
            for x, y in zip(ours[:7], theirs[:7], strict=True):
                assert_same(x, y, program.exact, program.source)
