"""What math asks of all elements of a loop is asked ahead of it; what is raised, and what was done, is the same."""

import math

import numpy as np
import pytest

import dlvm_py as dlvm


def prices(spot, years):
    out = np.empty(spot.size)
    for i in range(spot.size):
        sd = 0.2 * math.sqrt(years[i])
        d = (math.log(spot[i] / 100.0) + 0.07 * years[i]) / sd
        out[i] = spot[i] * math.erf(d) - 100.0 * math.exp(-0.05 * years[i])
    return out


def in_place(x, y):
    """Writes an argument, which shows how far it came."""
    for i in range(3, x.size):
        y[i] = math.log1p(x[i]) + math.asin(x[i] / 4.0)
    return y[3]


def own_memory(x):
    """Reads what it writes."""
    for i in range(1, x.size):
        x[i] = math.sqrt(x[i - 1] + x[i])
    return x


def waves(x):
    out = np.empty(x.size)
    for i in range(x.size):
        out[i] = math.sin(x[i]) * math.cosh(x[i])
    return out


def one_way(x):
    out = np.zeros(x.size)
    for i in range(x.size):
        if x[i] > 0.0:
            out[i] = math.log(x[i])
    return out


def rows(x):
    """A row at a time; what rows before did is done."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = math.exp(x[i, j])
    return x


CALLS = {
    "prices": (prices, lambda r, n: (r.random(n) + 80.0, r.random(n) + 0.1)),
    "in_place": (in_place, lambda r, n: (r.random(n), np.zeros(n))),
    "own_memory": (own_memory, lambda r, n: (r.random(n),)),
    "waves": (waves, lambda r, n: (r.random(n),)),
    "one_way": (one_way, lambda r, n: (r.random(n) - 0.5,)),
    "rows": (rows, lambda r, n: (r.random((4, n)),)),
}


def outcome(function, arguments):
    """What a call gives or raises, and its arguments after it."""
    arguments = [a.copy() for a in arguments]
    try:
        with np.errstate(all="ignore"):
            return function(*arguments), None, arguments
    except (ValueError, OverflowError) as error:
        return None, (type(error), str(error)), arguments


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("n", [4, 15, 16, 17, 40, 203])
def test_as_python(name, n):
    """Values, exceptions and what was written before them, wherever the element lies that is out of range."""
    function, make = CALLS[name]
    compiled = dlvm.jit(function)
    r = np.random.default_rng(n)
    arguments = make(r, n)
    trials = [arguments]
    for bad in (-2.0, 720.0, math.inf, -math.inf, math.nan):
        for argument in range(len(arguments)):
            changed = [a.copy() for a in arguments]
            changed[argument].flat[r.integers(changed[argument].size)] = bad
            trials.append(changed)
    for trial in trials:
        expected, found = outcome(function, trial), outcome(compiled, trial)
        assert found[1] == expected[1]
        if expected[1] is None:
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-13)
        for a, b in zip(found[2], expected[2], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)


def test_the_same_bits():
    """An element of a long loop has the bits that it has in a short one, which asks trip by trip."""
    compiled = dlvm.jit(prices)
    r = np.random.default_rng(1)
    spot, years = r.random(301) * 50 + 80, r.random(301) + 0.1
    whole = compiled(spot, years)
    parts = [compiled(spot[k : k + 7].copy(), years[k : k + 7].copy()) for k in range(0, 301, 7)]
    assert whole.tobytes() == np.concatenate(parts).tobytes()


def test_makes_vectors():
    """That is what it is for."""
    compiled = dlvm.jit(prices)
    compiled(np.full(20, 90.0), np.full(20, 1.0))
    assert " x double>" in compiled.llvm()


@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "sinh", "cosh", "asin", "acos", "sin", "cos", "tan"])
def test_borders(name):
    """Python's functions raise from the same number on."""
    function = getattr(math, name, None)
    if function is None:
        pytest.skip("this Python has no such function")
    compiled = dlvm.jit(lambda x: function(x))
    borders = [709.782712893384, 710.4758600739439, 1024.0, 1.0, -1.0, 0.0, 1e308, math.inf]
    numbers = {s * x for b in borders for x in near(b) for s in (1.0, -1.0)} | {math.nan}
    for x in numbers:
        expected, found = outcome_of(function, x), outcome_of(compiled, x)
        assert type(found) is type(expected), x
        if isinstance(expected, float):
            assert found == pytest.approx(expected, rel=1e-12, nan_ok=True), x


def near(x):
    """Some numbers on both sides, and the number."""
    return [x, *(float(y) for d in (-math.inf, math.inf) for y in steps(x, d))]


def steps(x, direction):
    """The three numbers that come next."""
    with np.errstate(over="ignore"):
        for _ in range(3):
            x = np.nextafter(x, direction)
            yield x


def outcome_of(function, x):
    """The value, or the exception."""
    try:
        return function(x)
    except (ValueError, OverflowError) as error:
        return error
