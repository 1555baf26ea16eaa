"""Random Python functions (random_python.py): native code against plain Python, gradients against three references.

Laws: native code gives Python's values, dtypes, shapes, writes and exception types; the native gradient equals
the reference interpreter on the gradient's IR, central differences of plain Python, and forward mode along a random
direction, and writes nothing. The IR is verified after every pass.
"""

import copy

import numpy as np
import pytest
from random_python import make_args, random_program

import dlvm_py as dlvm
from dlvm_py.dispatch import dispatcher_of
from dlvm_py.ir import interpreter

pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # plain NumPy code gives them
WRT = (0, 1, 2, 3, 4)  # x, y, m, a, b


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    """The IR verifier runs after every pass."""
    monkeypatch.setenv("DLVM_VERIFY", "1")


def flat(value):
    """The leaves of a result, left to right."""
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (tuple, list)) else [value]


def outcome(fn, args):
    """What a caller sees: the leaves of the result, or the class of the exception."""
    try:
        with np.errstate(all="ignore"):
            return flat(fn(*args))
    except (ArithmeticError, LookupError, ValueError) as error:
        return type(error)


def assert_same(got, want, what=""):
    """Equal leaves: shape, dtype, values up to rounding; nan and inf are values."""
    if isinstance(want, type) or isinstance(got, type):
        assert got is want, (what, got, want)
        return
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert np.shape(g) == np.shape(w) and np.asarray(g).dtype == np.asarray(w).dtype, what
        assert isinstance(g, np.ndarray) == isinstance(w, np.ndarray)
        np.testing.assert_allclose(g, w, rtol=1e-8, atol=1e-10, err_msg=what)


def check_values(compiled, fn, args):
    """Native code behaves as plain Python, with its writes (also those before an exception)."""
    reference = copy.deepcopy(args)
    assert_same(outcome(compiled, args), outcome(fn, reference), "result")
    assert_same(list(args[:3]), list(reference[:3]), "written arguments")


def scalar_of(fn):
    """The sum of the first output of `fn`, as a function of fresh copies; None where it raises."""

    def total(args):
        found = outcome(fn, copy.deepcopy(args))
        return None if isinstance(found, type) else float(np.sum(found[0]))

    return total


def directional(total, args, direction, h):
    """A central difference of `total` along a direction in all float arguments."""
    ends = []
    for sign in (1, -1):
        moved = [np.asarray(v) + sign * h * d for v, d in zip(args, direction, strict=False)]
        ends.append(total((*(v if v.ndim else float(v) for v in moved), *args[len(WRT) :])))
    return np.nan if None in ends else (ends[0] - ends[1]) / (2 * h)


TOO_STEEP = 1e100


def assert_near_differences(got, total, args, h=1e-5, tolerance=2e-5):
    """Derivatives along random directions agree with differences, where two step sizes agree (no kink, no chaos)."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        direction = [rng.choice([-1.0, 0.5, 1.0], np.shape(args[k])) for k in WRT]
        coarse, fine = (directional(total, args, direction, step) for step in (h, h / 3))
        scale = 1.0 + abs(fine)
        along = sum(float(np.sum(g * d)) for g, d in zip(got, direction, strict=True))
        # differences do not see the sine of a number so large that each step takes it around many times
        if abs(coarse - fine) < tolerance * scale and abs(along) < TOO_STEEP * scale:
            assert abs(along - fine) < 10 * tolerance * scale, (along, fine)


def check_forward_mode(fn, args, got):
    """The tangent of the first output along a random direction is the gradient times that direction."""
    before = copy.deepcopy(args)
    rng = np.random.default_rng(1)
    direction = [rng.standard_normal(np.shape(args[k])) for k in WRT]
    tangents = (*(d if d.ndim else float(d) for d in map(np.asarray, direction)), None)
    with np.errstate(all="ignore"):
        value, moved = dlvm.jvp(fn, args, tangents)
    assert_same(list(args), list(before), "arguments of the tangent")
    if not np.all(np.isfinite(flat(value)[0])):
        return  # there is no derivative: forward mode and reverse mode may say NaN elsewhere
    terms = [g * d for g, d in zip(got, direction, strict=True)]
    size = 1.0 + sum(float(np.sum(np.abs(t))) for t in terms)
    np.testing.assert_allclose(
        float(np.sum(flat(moved)[0])), sum(float(np.sum(t)) for t in terms), rtol=1e-9, atol=1e-10 * size
    )


def check_gradient(fn, args, compiled=None, stage="optimizable"):
    """The native gradient equals the interpreter's, differences and forward mode, and changes nothing."""
    before = copy.deepcopy(args)
    compiled = compiled or dlvm.grad(fn, wrt=WRT)
    got = outcome(compiled, args)
    assert_same(list(args), list(before), "arguments of the gradient")
    want = outcome(fn, copy.deepcopy(args))
    if isinstance(want, type):
        assert got is want
        return
    program = compiled.program(*args, stage=stage)
    again = interpreter.run(program.module, program.name, list(copy.deepcopy(args)))
    assert_same(got, flat(again), "interpreter")
    assert not dispatcher_of(compiled).request(args).captured
    assert_near_differences(got, scalar_of(fn), args)
    check_forward_mode(fn, args, got)


def check_second(fn, args):
    """The gradient of the sum of a gradient equals differences of that gradient."""
    first = dlvm.grad(fn, wrt=0)
    if isinstance(outcome(first, copy.deepcopy(args)), type):
        return
    second = dlvm.grad(first, wrt=WRT)
    got = outcome(second, args)
    assert_near_differences(got, scalar_of(first), args, h=1e-4, tolerance=1e-4)


def as_layouts(args, which):
    """The same arrays in another layout: 1 strided, 2 reversed, 3 Fortran-ordered, 4 read from a broadcast copy."""
    x, y, m, *rest = args
    if which == 1:
        wide = np.zeros((len(x), 2, 2))
        wide[:, 0, 0], wide[:, 1, 1] = x, y
        tall = np.zeros((2 * m.shape[0], 2 * m.shape[1]))
        tall[::2, 1::2] = m
        return (wide[:, 0, 0], wide[:, 1, 1], tall[::2, 1::2], *rest)
    if which == 2:
        return (x[::-1].copy()[::-1], y[::-1].copy()[::-1], m[::-1, ::-1].copy()[::-1, ::-1], *rest)
    return (x, y, np.asfortranarray(m), *rest)


def overlapping(args, which):
    """Arguments that share memory."""
    x, y, m, *rest = args
    if which == 0:
        return (x, x, m, *rest)
    if which == 1:
        long = np.concatenate([x, y[:1]])
        return (long[:-1], long[1:], m, *rest)
    return (m[:, 0], m[:, 1][::-1], m, *rest)


def check_layouts(fn, n=5):
    """Every layout, and arguments that overlap, behave as in NumPy."""
    compiled = dlvm.jit(fn)
    for which in (1, 2, 3):
        got, want = as_layouts(make_args(n), which), as_layouts(make_args(n), which)
        assert_same(outcome(compiled, got), outcome(fn, want), f"layout {which}")
        assert_same(list(got[:3]), list(want[:3]), f"layout {which}: written arguments")
    for which in (0, 1, 2):
        got, want = overlapping(make_args(n), which), overlapping(make_args(n), which)
        assert_same(outcome(compiled, got), outcome(fn, want), f"overlap {which}")
        assert_same(list(got[:3]), list(want[:3]), f"overlap {which}: written arguments")


def check_all(fn, sizes=(5, 2, 0), ks=(2,)):
    """Values for several lengths, then the gradient for each."""
    compiled = dlvm.jit(fn)
    for k in ks:
        for n in sizes:
            check_values(compiled, fn, make_args(n, k))
    gradient = dlvm.grad(fn, wrt=WRT)
    for n in sizes:
        check_gradient(fn, make_args(n, ks[0]), gradient)


def mostly_slow(first, *others):
    """One seed for every run, others for the long ones: test_random_wide.py has hundreds of small programs."""
    return [first, *(pytest.param(seed, marks=pytest.mark.slow) for seed in others)]


@pytest.mark.parametrize("seed", mostly_slow(3, 0, 1, 2))
def test_random_program(seed):
    """Values and gradients of a random program of any size, for several lengths."""
    check_all(random_program(seed).fn)


@pytest.mark.parametrize("seed", mostly_slow(101, 100))
def test_random_second_derivative(seed):
    """The gradient of the gradient of a small random program."""
    check_second(random_program(seed, size=4).fn, make_args(4))


@pytest.mark.parametrize("seed", [200])
def test_random_layouts(seed):
    """Layouts and overlapping arguments of a small random program."""
    check_layouts(random_program(seed, size=5).fn)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_random_program_slow(seed):
    """As test_random_program, with length 1 and other trip counts."""
    check_all(random_program(seed).fn, sizes=(5, 2, 1, 0), ks=(2, 0, 3))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2060))
def test_random_second_derivative_slow(seed):
    """As test_random_second_derivative, and layouts."""
    check_second(random_program(seed, size=6).fn, make_args(4))
    check_layouts(random_program(seed, size=6).fn)
