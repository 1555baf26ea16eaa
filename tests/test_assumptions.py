"""Where NumPy's dtypes depend on values: calls that are undone, and the versions that have them."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.runtime.native.callable import versions

pytestmark = pytest.mark.usefixtures("plain_code")

SLOW = pytest.mark.slow
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
    for order in (1, -1):
        a = np.stack([REAL, COMPLEX])[::order].copy()
        same(compiled(a), stack(a))
    assert compiled.stats()["versions"] == 3


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


def is_stable(w):
    return np.all(w.real < 5.0)


def of_each(matrices):
    found, all_of_them = np.zeros((len(matrices), 2)), np.zeros((len(matrices), 3), complex)
    for k in range(len(matrices)):
        w = np.linalg.eigvals(matrices[k])
        found[k] = np.max(np.abs(w)), is_stable(w)
        all_of_them[k] = w
        for x in w:
            found[k, 1] += x.imag * abs(w[np.argmax(w.real)])
    return found, all_of_them


def test_both_answers_in_one_call():
    """What is the same for real and complex numbers is compiled."""
    matrices = np.stack([REAL, COMPLEX, REAL])
    compiled = dlvm.jit(of_each)
    same(compiled(matrices), of_each(matrices))
    same(compiled(matrices + 0.1), of_each(matrices + 0.1))
    same(compiled(matrices[:2] * 2), of_each(matrices[:2] * 2))
    assert compiled.stats()["versions"] == 3


@dlvm.jit
def shows(matrices, how):
    total = 0.0
    for a in matrices:
        w = np.linalg.eigvals(a)
        total += (
            (w.dtype == float) if how == "dtype" else (w * 2).real[0] if how == "arithmetic" else np.sqrt(w).real[0]
        )
    return total


@pytest.mark.parametrize("how", ["dtype", pytest.param("arithmetic", marks=SLOW), pytest.param("function", marks=SLOW)])
def test_what_would_show_which_answer_it_is(how):
    """An error where it stands."""
    with pytest.raises(dlvm.TypeMismatch, match="real at one time of a call"):
        shows(np.stack([REAL, COMPLEX]), how)


def weighed(a):
    w, v = np.linalg.eig(a)
    return np.sum((v * w).real * REAL)


def test_derivatives_are_of_the_version_that_has_the_call():
    """Against central differences."""
    gradient, t, h = dlvm.grad(weighed), COMPLEX[::-1], 1e-6
    for a in (COMPLEX, REAL):
        along = np.sum(gradient(a) * t)
        assert along == pytest.approx((weighed(a + h * t) - weighed(a - h * t)) / (2 * h), rel=1e-6)


@SLOW
def test_forward_derivatives_and_tapes():
    """So are those of the other ways to ask for them."""
    gradient, t = dlvm.grad(weighed), COMPLEX[::-1]
    for a in (COMPLEX, REAL):
        assert dlvm.jvp(weighed, (a,), (t,))[1] == pytest.approx(np.sum(gradient(a) * t), rel=1e-10)
    _, pullback = dlvm.vjp(weighed, COMPLEX)
    np.testing.assert_allclose(pullback(1.0)[0], gradient(COMPLEX), rtol=1e-9)


@SLOW
def test_other_functions():
    """np.emath, np.roots, np.poly and np.real_if_close."""

    def f(x, p, z):
        return np.emath.sqrt(x), np.emath.arccos(x), np.roots(p), np.poly(z), np.real_if_close(z)

    compiled = dlvm.jit(f)
    for x in (np.array([0.5, 0.25]), np.array([0.5, -1.5])):
        for p in ([1.0, -3.0, 2.0], [0.0, 1.0, 0.0, 1.0, 0.0], [0.0, 0.0], [0.0, 2.0, 0.0]):
            for z in (np.array([1j, -1j]), np.array([1j, 2.0]), np.array([1.0 + 0j])):
                same(compiled(x, np.array(p), z), f(x, np.array(p), z))
