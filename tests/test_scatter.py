"""Scatters of long expressions (`_is_long` in transforms/fusion.py), and in functions of many arrays."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.backend.cpu.compile import has_masks

MANY = 50  # arrays, more than a function has alias scopes for

SOURCE = "def crowded(a, b, i):\n" + "".join(f"    x{k} = a * {k + 1}.0\n" for k in range(MANY))
SOURCE += (
    "    c = np.zeros_like(a)\n    c[i] = np.exp(b) + a[i]\n    return c"
    + "".join(f", x{k}" for k in range(MANY))
    + "\n"
)


@pytest.fixture
def crowded(tmp_path, monkeypatch):
    """A function with a scatter and more arrays than it has alias scopes for."""
    (tmp_path / "crowd.py").write_text("import numpy as np\n" + SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    import crowd

    return crowd.crowded


def test_the_last_value_wins_in_a_function_of_many_arrays(crowded):
    """Values are written in their order, also by vectors."""
    rng = np.random.default_rng(5)
    compiled = dlvm.jit(crowded)
    for n, m in ((1, 0), (1, 9), (3, 50), (40, 40), (100, 37)):
        a, b, i = rng.random(n), rng.random(m), rng.integers(-n, n, m)
        for ours, theirs in zip(compiled(a, b, i), crowded(a, b, i), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-14)
    assert ("llvm.masked.scatter" in compiled.llvm(a, b, i)) is has_masks()


def added(a, b, i):
    np.add.at(a, i, np.exp(b) * b)
    return a


def added_few(a, b, i):
    np.add.at(a, i, b * 2.0)
    return a


def test_functions_are_computed_before_what_adds_them_up():
    """A scatter that adds is no vector; what it adds is one, where that takes long."""
    rng = np.random.default_rng(6)
    for f, loads in ((added, True), (added_few, False)):
        compiled = dlvm.jit(f)
        for n, m in ((1, 0), (1, 9), (5, 70), (40, 40)):
            a, b, i = rng.random(n), rng.random(m), rng.integers(0, n, m)
            np.testing.assert_allclose(compiled(a.copy(), b, i), f(a.copy(), b, i), rtol=1e-14)
        lines = compiled.ir(a, b, i, stage="compute").splitlines()
        value = next(line for line in lines if line.strip().startswith("scatter")).split()[1].rstrip(":")
        made = next(line for line in lines if line.strip().startswith(f"{value} ="))
        assert ("= load" in made) is loads


def picked(x, m):
    x = x * 1.0
    x[m > 0.5] = x[m > 0.5] ** -1.5
    return np.sum(x)


def test_gradient_of_a_power_of_what_a_mask_picks():
    """The derivative is added to places, and what is added has functions."""
    rng = np.random.default_rng(7)
    for n in (0, 1, 7, 60):
        x, m = rng.random(n) + 0.5, rng.random(n)
        expected = np.where(m > 0.5, -1.5 * x**-2.5, 1.0)
        np.testing.assert_allclose(dlvm.grad(picked)(x, m), expected, rtol=1e-13)
