"""Where NumPy's dtypes depend on values: calls that are undone, and the versions that have them."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.runtime.native.callable import versions

REAL = np.array([[2.0, 1.0, 0.3], [0.5, 3.0, 0.2], [0.1, 0.2, 5.0]])
COMPLEX = np.array([[0.0, 1.0, 0.2], [-1.0, 0.5, 0.1], [0.3, 0.2, 2.0]])


def same(got, want):
    """Equal dtypes and shapes, and values to rounding, of tuples of arrays."""
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-13)


@dlvm.jit
def eig(a):
    return np.linalg.eig(a)


def test_the_version_of_the_last_call_is_the_first():
    """A call of the other kind takes both versions, the next one of that kind one."""
    for a in (REAL, COMPLEX, COMPLEX * 2, REAL, np.zeros((0, 0))):
        same(eig(a), np.linalg.eig(a))
        assert type(eig(a)) is type(np.linalg.eig(a))
        is_complex = a[:1, :1].sum() == 0 and a.size > 0
        assert bool(versions(eig)[0].call.answers) == is_complex
    assert eig.stats()["versions"] == 2
    with pytest.raises(np.linalg.LinAlgError, match="infs or NaNs"):
        eig(REAL * np.nan)


def stack(a):
    return np.linalg.eigvals(a), np.linalg.eigvals(a[:1])


def test_places_are_apart():
    """Each call, of helpers too, has its own answer; that of a stack is one for all of it."""
    compiled = dlvm.jit(stack)
    for a in (np.stack([REAL, COMPLEX]), np.stack([COMPLEX, REAL]).astype(np.float32)):
        for got, want in zip(compiled(a), stack(a), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5)


def helper(a):
    return np.linalg.eigvals(a)


def leaves_traces(a, out, rng, log):
    out += 1
    print("before", out[0])
    x = rng.random()
    found = helper(REAL).dtype == np.float64, helper(a)
    print("found", found[1].dtype == np.float64)
    out[:1] += rng.random()
    log.append(x)
    return found


def test_what_an_undone_call_has_done_is_put_back(capsys):
    """Arrays, generators and lists of the caller; a text is printed once."""
    compiled, seen = dlvm.jit(leaves_traces), []
    for f in (leaves_traces, compiled):
        out, rng, logs = np.zeros(2), np.random.default_rng(1), [[], [], [], []]
        results = [f(a, out, rng, log) for a, log in zip((REAL, COMPLEX, COMPLEX, REAL), logs, strict=True)]
        traces = out, np.array(logs), np.array(rng.random())
        seen.append(([r[1] for r in results], traces, capsys.readouterr().out))
        assert all(r[0] for r in results)
    same(seen[1][0], seen[0][0])
    assert all(np.array_equal(a, b) for a, b in zip(seen[0][1], seen[1][1], strict=True))
    assert seen[0][2] == seen[1][2] and seen[0][2].count("before") == 4
    assert compiled.stats()["versions"] == 2


@dlvm.jit
def largest(matrices):
    found = np.zeros(len(matrices))
    for k in range(len(matrices)):
        found[k] = np.max(np.sqrt(np.linalg.eigvals(matrices[k])).real)
    return found


def test_both_answers_in_one_call():
    """There is no version for that: an error that says what to write, with the line."""
    with pytest.raises(TypeError, match=r"a\.astype\(complex\)") as raised:
        largest(np.stack([REAL, COMPLEX]))
    assert f"{__file__}:{largest.__wrapped__.__code__.co_firstlineno + 4}" in raised.value.__notes__[0]
    np.testing.assert_allclose(largest(REAL[None]), np.sqrt(np.max(np.linalg.eigvals(REAL))))


def weighed(a):
    w, v = np.linalg.eig(a)
    return np.sum(np.abs(w) ** 2 * np.array([1.0, 2.0, 3.0])) + np.sum((v * w).real * REAL)


def test_derivatives_are_of_the_version_that_has_the_call():
    """Both modes, and a tape; against central differences."""
    gradient, t, h = dlvm.grad(weighed), COMPLEX[::-1], 1e-6
    for a in (COMPLEX, REAL):
        along = np.sum(gradient(a) * t)
        assert along == pytest.approx((weighed(a + h * t) - weighed(a - h * t)) / (2 * h), rel=1e-7)
        assert dlvm.jvp(weighed, (a,), (t,))[1] == pytest.approx(along, rel=1e-10)
    value, pullback = dlvm.vjp(weighed, COMPLEX)
    np.testing.assert_allclose(pullback(1.0)[0], gradient(COMPLEX), rtol=1e-9)


@pytest.mark.slow
def test_other_functions():
    """np.emath, np.roots, np.poly and np.real_if_close."""

    def f(x, p, z):
        return np.emath.sqrt(x), np.emath.arccos(x), np.roots(p), np.poly(z), np.real_if_close(z)

    compiled = dlvm.jit(f)
    for x in (np.array([0.5, 0.25]), np.array([0.5, -1.5])):
        for p in ([1.0, -3.0, 2.0], [0.0, 1.0, 0.0, 1.0, 0.0], [0.0, 0.0], [0.0, 2.0, 0.0]):
            for z in (np.array([1j, -1j]), np.array([1j, 2.0]), np.array([1.0 + 0j])):
                same(compiled(x, np.array(p), z), f(x, np.array(p), z))
