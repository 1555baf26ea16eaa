"""Checks of indexing and ordering code: against plain NumPy, and gradients against differences."""

import copy
import linecache

import numpy as np

import dlvm_py as dlvm

ERRORS = (ArithmeticError, LookupError, ValueError, TypeError)


def function(text, name="f", **names):
    """The function that a source text defines, with a source that the compiler can read."""
    file = f"<indexing {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope = {"np": np, **names}
    exec(compile(text, file, "exec"), scope)  # noqa: S102 - a test's own text
    return scope[name]


def leaves(value):
    """The leaves of a result, left to right."""
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (tuple, list)) else [value]


def outcome(fn, args):
    """(leaves of the result or class of the exception, arguments afterwards)."""
    args = copy.deepcopy(args)
    try:
        with np.errstate(all="ignore"):
            return leaves(fn(*args)), args
    except dlvm.CompileError:
        raise  # some are ValueErrors or TypeErrors besides
    except ERRORS as error:
        return type(error), args


def assert_same(got, want, exact=True):
    """Equal leaves: class, dtype, shape, values."""
    if isinstance(want, type) or isinstance(got, type):
        assert got is want, (got, want)
        return
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert isinstance(g, np.ndarray) == isinstance(w, np.ndarray), (type(g), type(w))
        assert np.asarray(g).dtype == np.asarray(w).dtype, (g, w)
        assert np.shape(g) == np.shape(w), (np.shape(g), np.shape(w))
        if exact:
            np.testing.assert_array_equal(g, w)
        else:
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)


def check(fn, *args, exact=True):
    """Compiled code does what NumPy does: results, their classes and dtypes, writes, the class of exceptions."""
    got, after = outcome(dlvm.jit(fn), args)
    want, expected = outcome(fn, args)
    assert_same(got, want, exact)
    assert_same(leaves(list(after)), leaves(list(expected)), exact)


def check_gradient(fn, *args, wrt=0, h=1e-6, second=True):
    """The gradient of a scalar function against central differences along random directions, and once more of it."""
    positions = (wrt,) if isinstance(wrt, int) else wrt
    gradient = dlvm.grad(fn, wrt=positions)
    before = copy.deepcopy(args)
    _check_against_differences(lambda *a: (fn(*a),), gradient, args, positions, h, 2e-6)
    for a, b in zip(args, before, strict=True):
        np.testing.assert_array_equal(a, b)
    _check_forward(fn, gradient, args, positions)
    if second:
        total = lambda *a: tuple(np.sum(np.sin(g)) for g in gradient(*a))  # noqa: E731
        twice = weighted(gradient, positions)
        _check_against_differences(total, twice, args, positions, h, 2e-5)


def _check_forward(fn, gradient, args, positions):
    """Forward mode along a direction gives the gradient's product with it."""
    rng = np.random.default_rng(3)
    along = [rng.standard_normal(np.shape(a)) if k in positions else None for k, a in enumerate(args)]
    _, tangent = dlvm.jvp(fn, args, tuple(along))
    ours = sum(float(np.sum(g * along[k])) for g, k in zip(gradient(*args), positions, strict=True))
    np.testing.assert_allclose(tangent, ours, rtol=1e-11, atol=1e-11)


def weighted(gradient, positions):
    """The gradient of Σ sin(g) over the results g of `gradient`, by reverse mode over reverse mode."""

    def of(*args):
        first = gradient(*args)
        seeds = [np.cos(g) for g in first]
        total = [np.zeros_like(args[k]) for k in positions]
        for k, seed in enumerate(seeds):
            second = dlvm.grad(gradient, wrt=positions, from_=k, seedable=True)
            for t, part in zip(total, second(*args, seed), strict=True):
                t += part
        return tuple(total)

    return of


def _check_against_differences(fn, gradient, args, positions, h, tolerance):
    rng = np.random.default_rng(7)
    found = gradient(*args)
    for _ in range(2):
        along = [rng.standard_normal(np.shape(args[k])) for k in positions]
        ends = []
        for sign in (1, -1):
            moved = copy.deepcopy(list(args))
            for k, d in zip(positions, along, strict=True):
                moved[k] = moved[k] + sign * h * d
            ends.append(sum(float(np.sum(r)) for r in fn(*moved)))
        difference = (ends[0] - ends[1]) / (2 * h)
        ours = sum(float(np.sum(g * d)) for g, d in zip(found, along, strict=True))
        np.testing.assert_allclose(ours, difference, rtol=tolerance, atol=tolerance)
