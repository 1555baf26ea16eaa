"""Derivatives of calls whose arguments share memory that the function writes: the memory is one variable."""

import numpy as np
import pytest

import dlvm_py as dlvm

RNG = np.random.default_rng(11)
M = RNG.random(8) + 0.5


def slope(function, memory, views, h=1e-6):
    """The derivative of function(*views(memory)) by each element of the memory, by central differences."""
    found = np.zeros_like(memory)
    for k in np.ndindex(memory.shape):
        there, back = memory.copy(), memory.copy()
        there[k] += h
        back[k] -= h
        found[k] = (function(*views(there)) - function(*views(back))) / (2 * h)
    return found


def close(found, wanted, rtol=1e-6):
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)


def entangled(x, y):
    x[1:] = x[1:] * y * y[0]
    y[0] = np.sin(x[2]) * y[1]
    x[0] += y[2] * x[1]
    return np.sum(x * x) + np.sum(y**3)


GRADIENT = dlvm.value_and_grad(entangled, (0, 1))


SLOW = pytest.mark.slow  # each layout is compiled anew


@pytest.mark.parametrize(
    "views",
    [
        lambda m: (m, m[1:]),
        lambda m: (m[:-1], m[2:]),
        pytest.param(lambda m: (m[::-1], m[-2::-1]), marks=SLOW),
        pytest.param(lambda m: (m[:5], m[5:1:-1]), marks=SLOW),
    ],
    ids=["tail", "shifted", "reversed", "opposite"],
)
def test_both_modes_by_the_memory(views):
    """Each argument has the part of the memory's derivative that it sees; nothing is written."""
    memory, v = M.copy(), RNG.random(8)
    wanted = slope(entangled, memory, views)
    value, gradients = GRADIENT(*views(memory))
    close(value, entangled(*views(memory.copy())), 1e-14)
    for found, seen in zip(gradients, views(wanted), strict=True):
        close(found, seen)
        assert found.flags.c_contiguous
    x, _ = views(memory)
    tx, ty = views(v)
    whole = np.zeros(8)
    for part, moved in zip(views(whole), (tx, ty), strict=True):
        part[...] = moved
    close(dlvm.jvp(entangled, views(memory), (tx, ty))[1], wanted @ whole)
    # one tangent is enough for what both see
    close(dlvm.jvp(entangled, views(memory), (tx, None))[1], views(wanted)[0] @ tx)
    np.testing.assert_array_equal(memory, M)
    # apart, they are two variables again
    apart = GRADIENT(x.copy(), views(memory)[1].copy())[1]
    assert not np.allclose(apart[0], gradients[0])


def in_turns(u, v, n):
    for i in range(n):
        if u[0] > 0.1:
            u[i % 4] = u[i % 4] * v[(i + 1) % 4] + 0.1
        v *= 0.9


@pytest.mark.parametrize("checkpoint", ["auto", pytest.param(1, marks=SLOW)])
def test_the_same_array_twice_in_a_loop(checkpoint):
    """Written in a loop, differentiated from its last contents, with a tape and with a budget."""

    def total(u, v):
        in_turns(u, v, 7)
        return np.sum(u)

    g = dlvm.grad(in_turns, ("u", "v"), from_="u", checkpoint=checkpoint)
    u = M[:4].copy()
    wanted = slope(total, u, lambda m: (m, m))
    for found in g(u, u, 7):
        close(found, wanted)
    np.testing.assert_array_equal(u, M[:4])


def transposed(a, b):
    a[0] *= b[:, 1]
    b[1] += a[2] * b[0]
    return np.sum(a * b * b)


def structured(d, written, read):
    written[0] = 1
    d["x"][read[0]] *= d["y"][2]
    return d["x"] * d["y"]


@pytest.mark.slow
def test_transposes_structures_and_integers():
    """A matrix and its transpose, with what is kept; parts of a dict, shared integers, a seed, single precision."""
    m = M.copy().reshape(2, 4)[:, :2].copy()
    m = np.pad(m, ((0, 1), (0, 1)), mode="edge") + 0.1 * np.arange(9.0).reshape(3, 3)
    views = lambda m: (m, m.T)  # noqa: E731
    wanted = slope(transposed, m, views)
    (_, (of_a, of_b), last), left = dlvm.value_and_grad(transposed, (0, 1), keeping="b")(m, m.T), m.copy()
    transposed(left, left.T)
    close(of_a, wanted)
    close(of_b, wanted.T)
    np.testing.assert_array_equal(last, left.T)

    memory, numbers, seed = M[:5].copy(), np.array([0, 2, 1]), RNG.random(4)
    g = dlvm.grad(structured, seedable=True)

    def whole(x, y):
        indices = numbers.copy()
        return np.sum(structured({"x": x, "y": y}, indices, indices) * seed)

    wanted = slope(whole, memory, lambda m: (m[:4], m[1:]))
    found = g({"x": memory[:4], "y": memory[1:]}, numbers, numbers, seed)
    close(found["x"], wanted[:4])
    close(found["y"], wanted[1:])
    single = memory.astype("f")
    found = g({"x": single[:4], "y": single[1:]}, numbers, numbers, seed.astype("f"))
    assert found["x"].dtype == np.float32
    close(found["x"], wanted[:4], 1e-4)
    # integers alone share memory
    found = g({"x": memory[:4].copy(), "y": memory[1:].copy()}, numbers, numbers, seed)
    close(found["x"], slope(lambda x: whole(x, memory[1:].copy()), memory[:4].copy(), lambda m: (m,)))
    assert numbers.tolist() == [0, 2, 1]


def test_what_stays_refused():
    """Memory that is no one variable, derivatives that have no such version, tangents that contradict each other."""
    m = M.copy()
    grad = dlvm.grad(entangled)
    with pytest.raises(dlvm.ArgumentError, match=r"(?s)DL707.*'y' overlaps itself"):
        grad(m[:4], np.broadcast_to(m[1:2], (3,)))
    for call in (lambda x, y: dlvm.vjp(entangled, x, y), dlvm.grad(grad, 1), dlvm.jacobian(entangled)):
        with pytest.raises(dlvm.ArgumentError, match=r"(?s)DL707.*value_and_grad and jvp.*y.copy\(\)"):
            call(m, m[1:])
    with pytest.raises(dlvm.ArgumentError, match=r"(?s)DL704.*'x' differs"):
        dlvm.jvp(entangled, (m, m[1:]), (m, m[1:] + 1.0))
    with pytest.raises(ValueError, match="shape of its argument"):
        dlvm.jvp(entangled, (m, m[1:]), (m[:-1], None))

    def of_parts(z, r):
        z *= 2.0
        return np.sum(r[0] * np.abs(z) ** 2)

    z = m.view(complex)
    with pytest.raises(dlvm.ArgumentError, match=r"(?s)DL707.*different dtypes"):
        dlvm.grad(of_parts)(z, z.real)
