"""Transposed copies of rows that trips read side by side (transforms/packed_rows.py): the same bits."""

import numpy as np
import pytest

import dlvm_py as dlvm


def nearest(a, x):
    """Each point has a row of `a` that is nearest: the first of several."""
    total, chosen = 0.0, 0
    for i in range(len(x)):
        least = np.inf
        for j in range(len(a)):
            s = 0.0
            for e in range(a.shape[1]):
                s += (x[i, e] - a[j, e]) ** 2
            if s < least:
                least = s
                chosen = (chosen * 7 + j) % 1000
        total += least
    return total + chosen


def shifted(a, x):
    """Rows from the third on, columns from the second on; a vector that the loop around changes."""
    y, z = x[:, 0].copy(), np.zeros(len(x), x.dtype)
    for _ in range(len(x)):
        for j in range(len(a) - 2):
            s = 0.0
            for e in range(a.shape[1] - 1):
                s += a[j + 2, e + 1] * y[e]
            z[j] = s
        y = (y + z) / 8
    return y.max()


def changed(a, x):
    """The loop around writes what its rows are read of: nothing can be copied."""
    total = 0.0
    for t in range(len(x)):
        for j in range(len(a)):
            s = 0.0
            for e in range(a.shape[1]):
                s += a[j, e] * x[t, e]
            total += s
        a[t % len(a), 0] = total
    return total


CASES = ((nearest, "f8"), (nearest, "f4"), (shifted, "f8"), (changed, "f8"))


@pytest.mark.parametrize(("f", "dtype"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_the_same_bits(f, dtype):
    g = dlvm.jit(f, parallel=False)
    rng = np.random.default_rng(3)
    for n, k, w in ((40, 21, 5), (32, 8, 3), (31, 16, 5), (33, 7, 4), (0, 9, 3), (32, 9, 0), (32, 300, 219)):
        if (f is shifted and n < max(k, w)) or (f is not nearest and not w):
            continue
        a, x = rng.standard_normal((k, w)).astype(dtype), rng.standard_normal((n, w)).astype(dtype)
        a[k // 2 :, : w // 2] = [np.nan, -0.0, a[0, :1].sum()][k % 3]
        if f is shifted:
            x = rng.standard_normal((n, 1)).astype(dtype)
        b = a.copy()
        np.testing.assert_array_equal(g(a, x), f(b, x))
        assert a.tobytes() == b.tobytes()
    assert ("transpose" in g.ir(a, x, stage="scheduled")) == (f is not changed)


def test_gradient():
    rng = np.random.default_rng(4)
    a, x = rng.standard_normal((19, 4)), rng.standard_normal((33, 4))
    along = rng.standard_normal(a.shape)
    h = 1e-6
    slope = (nearest(a + h * along, x) - nearest(a - h * along, x)) / (2 * h)
    assert np.sum(dlvm.grad(nearest)(a, x) * along) == pytest.approx(slope, rel=1e-6)
    _, pushed = dlvm.jvp(nearest, (a, x), (along, None))
    assert pushed == pytest.approx(slope, rel=1e-6)
