"""Arrays of which planes are used (transforms/plane_layouts.py): the same elements wherever they lie."""

import random

import numpy as np
import pytest
from random_python import load

import dlvm_py as dlvm
from dlvm_py.transforms.pass_manager import run_pipeline


def sweeps(x):
    """A recurrence along the last axis and back."""
    n, m, q = x.shape
    c = np.empty((n, m, q))
    d = np.zeros((n, m, q))
    c[:, :, 0] = 0.5 * x[:, :, 0]
    for k in range(1, q):
        c[:, :, k] = 0.25 * x[:, :, k] + 0.5 * c[:, :, k - 1]
        d[1:, :, k] = c[1:, :, k] - c[:-1, :, k - 1]
    for k in range(q - 2, -1, -1):
        x[:, :, k] = d[:, :, k] + 0.5 * x[:, :, k + 1] * c[0, 0, k]
    return x[0, 0, 0]


def columns(x):
    """A matrix by columns, of which some rows and single elements."""
    n, m, q = x.shape
    p = np.full((n, q), 0.5)
    for k in range(1, q):
        p[1:, k] = p[1:, k - 1] * x[1:, 0, k] + p[: n - 1, k]
        p[0, k] = p[n - 1, k - 1]
    for k in range(q):
        x[:, 0, k] = p[:, k]
    return p[n - 1, q - 1]


def is_returned(x):
    t = np.zeros(x.shape)
    for k in range(1, x.shape[2]):
        t[:, :, k] = x[:, :, k] - t[:, :, k - 1]
    return t


def is_summed(x):
    t, s = np.zeros(x.shape), 0.0
    for k in range(1, x.shape[2]):
        t[:, :, k] = x[:, :, k] - t[:, :, k - 1]
        s += np.sum(t[:, :, k])
    return s


def is_used_whole(x):
    t = np.zeros(x.shape)
    for k in range(1, x.shape[2]):
        t[:, :, k] = x[:, :, k] - t[:, :, k - 1]
    x[:] = t * 2.0
    return x[0, 0, 0]


def is_used_along_its_rows(x):
    t = np.zeros(x.shape)
    for k in range(1, x.shape[2]):
        t[:, :, k] = x[:, :, k] - t[:, :, k - 1]
        t[0, 0, 1:] = t[0, 0, :-1] * 0.5
    return t[0, 0, x.shape[2] - 1]


def is_returned_once_written(x):
    t = np.zeros(x.shape)
    for k in range(1, x.shape[2]):
        t[:, :, k] = 0.5 * x[:, :, k]
    return t


def few_planes_are_read(x):
    s = x[:, :, 0]
    for k in range(3):
        s = s + x[:, :, k] * x[:, :, k + 1]
    return np.sum(s)


TURNED = (sweeps, columns, is_summed, is_returned)
STAY = (is_used_whole, is_used_along_its_rows, is_returned_once_written, few_planes_are_read)


def agree(function, x, rtol=0.0):
    mine, theirs = x.copy(), x.copy()
    found, expected = dlvm.jit(function)(mine), function(theirs)
    np.testing.assert_allclose(found, expected, rtol=rtol or 1e-14)
    np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=0)


@pytest.mark.parametrize("function", TURNED + STAY)
def test_the_same_elements(function):
    for shape in ((4, 5, 6), (33, 2, 40), (3, 3, 4)):
        agree(function, np.random.default_rng(1).uniform(0.1, 0.9, shape))


@pytest.mark.parametrize("function", TURNED + STAY)
def test_what_is_turned(function):
    program = dlvm.jit(function).program(np.ones((4, 5, 6)), stage="optimizable")
    run_pipeline(program.function, ("bufferize", "cse", "dce"), verify=True)
    assert run_pipeline(program.function, ("plane_layouts",), verify=True, stage="compute") == (function in TURNED)
    assert not run_pipeline(program.function, ("plane_layouts",), verify=True, stage="compute")


def test_gradients():
    x = np.random.default_rng(2).uniform(0.1, 0.9, (4, 3, 5))
    along = np.random.default_rng(3).standard_normal(x.shape)
    for function in TURNED:
        gradient = dlvm.grad(dlvm.jit(function))(x)
        ends = [np.sum(function(x + h * along)) for h in (1e-6, -1e-6)]
        assert np.sum(gradient * along) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


def drawn(seed):
    """A function of two temporaries, their planes, and whatever else may be done with them."""
    r = random.Random(seed)
    rank = r.choice((2, 3))
    shape = "(n, m, q)" if rank == 3 else "(n, q)"
    make = r.choice(("np.zeros", "np.ones"))
    lines = ["import numpy as np", "", "", "def main(x, y, z):", "    n, m, q = x.shape", "    s = 0.0"]
    lines += [f"    t = {make}({shape})", f"    u = np.full({shape}, 0.25)"]

    def plane(name, k):
        rows = r.choice((":", ":", "1:", ":-1", "::2", "::-1")) if r.random() < 0.3 else ":"
        return f"{name}[{rows}, {':, ' if rank == 3 else ''}{k}]", rows

    for _ in range(r.randint(1, 3)):
        start, stop, step = r.choice((("1", "q - 1", "1"), ("q - 2", "0", "-1"), ("1", "q - 1", "2")))
        lines.append(f"    for k in range({start}, {stop}, {step}):")
        for _ in range(r.randint(1, 3)):
            (to, rows), name = plane(r.choice("tu"), r.choice(("k", "k", "k - 1"))), r.choice("tuxzz")
            k = r.choice(("k", "k - 1", "k + 1", "0", "-1"))
            middle = ":, " if rank == 3 else ("0, " if name in "xz" else "")
            lines.append(f"        {to} = 0.5 * {name}[{rows}, {middle}{k}] + {r.choice(('0.1', 'y', to))} * 0.5")
            if r.random() < 0.15:
                lines.append(f"        s += {r.choice('tu')}[{'1, ' * (rank - 1)}k]")
            if r.random() < 0.15:
                lines.append(f"        s += np.sum({plane(r.choice('tu'), 'k')[0]})")
            if r.random() < 0.1:
                lines.append(f"        {r.choice('tu')}[{'0, ' * (rank - 1)}k] = s * 0.5")
    odd = r.random()
    if odd < 0.1:
        lines.append("    s += np.sum(t)")
    elif odd < 0.2:
        lines.append("    u = u + t")
    elif odd < 0.3:
        lines.append("    t[0] = 0.5")
    rest = "[:, :, " if rank == 3 else "[:, "
    lines.append("    for k in range(q):")
    lines.append(f"        x[:, {':' if rank == 3 else '1'}, k] = t{rest}k] + u{rest}q - 1 - k]")
    lines.append(f"    return s{r.choice(('', ', t', ', u, t', ', z[:, 0, 1:]'))}")
    return "\n".join(lines) + "\n"


def check(seed):
    function = load(drawn(seed), f"planes_{seed}")
    for shape in ((4, 3, 7), (5, 5, 5)):
        x = np.random.default_rng(seed).uniform(0.1, 0.9, shape)
        mine, theirs = x.copy(), x.copy()
        z = np.random.default_rng(seed + 1).uniform(0.1, 0.9, shape)
        found, expected = dlvm.jit(function)(mine, 0.3, z), function(theirs, 0.3, z)
        for a, b in zip(*((f if isinstance(f, tuple) else (f,)) for f in (found, expected)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=drawn(seed))
        np.testing.assert_allclose(mine, theirs, rtol=1e-14, err_msg=drawn(seed))


def test_drawn():
    for seed in range(8):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 400, 50))
def test_more_drawn(first):
    for seed in range(first, first + 50):
        check(seed)
