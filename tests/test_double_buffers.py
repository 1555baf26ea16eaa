"""Loops that copy an array and update it from the copy: the two change places."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.transforms.double_buffers import LEAST


def cavity(u, v, p, trips, at):
    for _ in range(trips):
        un, vn = u.copy(), v.copy()
        p[1:-1, 1:-1] = 0.5 * (u[1:-1, 2:] - v[2:, 1:-1])
        u[1:-1, 1:-1] = un[1:-1, 1:-1] + 0.125 * (un[2:, 1:-1] - un[:-2, 1:-1] * vn[1:-1, 2:]) - p[1:-1, 1:-1]
        v[1:-1, 1:-1] = vn[1:-1, 1:-1] + 0.125 * (vn[1:-1, 2:] - un[1:-1, :-2] * vn[1:-1, :-2])
        u[1:-1, -1] = un[1:-1, 0] - 0.5 * un[1:-1, -2]
        u[:, 0] = u[:, 1]  # reads the first row and the last one of the step before
        u[0] = 0.5
        v[at] = 1.0
        v[-1] = v[-2]


def steady(u, few):
    u = u * 1.0
    change, steps = 1.0, 0
    while change > few:
        un = u.copy()
        u[2:-1] = 0.5 * un[1:-2] + 0.25 * un[:-3] + 0.25 * un[3:]
        u[:1] = u[1:2] * 0.5
        change = np.sum(np.abs(un - u))
        steps += 1
    return u, steps


def parts(z):
    for _ in range(3):
        zn = z.copy()
        z[1:-1] = 0.5 * (zn[2:] + zn[:-2])
        z.real[0] = 0.25


def overlapping(u, w):
    for _ in range(3):
        un = u.copy()
        u[1:-1] = un[2:] - 0.5 * un[:-2] + w[1:-1]
        u[0] = w[1]


def read_behind(u, w):
    un = u
    for _ in range(3):
        un = u.copy()
        u[1:-1] = un[2:] - 0.5 * un[:-2]
    w[:] = un


def exchanges(compiled, *args):
    return str(compiled.ir(*args, stage="scheduled")).count("'turn")


def same(function, compiled, *args):
    ours, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    found, expected = compiled(*ours), function(*theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)
    return found, expected


def test_steps_of_two_arrays():
    compiled = dlvm.jit(cavity)
    rng = np.random.default_rng(1)
    shapes = [(40, 40), (3, 400), (2, 600), (5, 5)]
    assert 8 * 40 * 40 >= LEAST > 8 * 5 * 5
    for shape in shapes:
        u, v, p = rng.standard_normal((3, *shape))
        for trips in (0, 1, 2, 5):
            same(cavity, compiled, u, v, p, trips, -2)
    assert exchanges(compiled, u, v, p, 2, 0) == 2 * 2  # a block and a branch to it, of each array


def test_what_an_exception_leaves():
    compiled = dlvm.jit(cavity)
    ours = np.random.default_rng(2).standard_normal((3, 40, 40))
    theirs = ours.copy()
    for function, arrays in (compiled, ours), (cavity, theirs):
        with pytest.raises(IndexError):
            function(*arrays, 4, 40)
    np.testing.assert_array_equal(ours, theirs)


def test_a_loop_until_little_changes():
    compiled = dlvm.jit(steady)
    u = np.random.default_rng(3).standard_normal((60, 70))
    assert exchanges(compiled, u, 1.0) == 2
    for few in (2000.0, 40.0, 30.0, 20.0):
        (found, steps), (expected, many) = same(steady, compiled, u, few)
        np.testing.assert_array_equal(found, expected)
        assert steps == many


def test_real_parts_are_not_all_of_a_row():
    compiled = dlvm.jit(parts)
    rng = np.random.default_rng(4)
    z = rng.standard_normal((30, 40)) + 1j * rng.standard_normal((30, 40))
    assert exchanges(compiled, z) == 2
    same(parts, compiled, z)


def test_what_is_not_exchanged():
    rng = np.random.default_rng(5)
    ours = rng.standard_normal((50, 50))
    theirs = ours.copy()
    compiled = dlvm.jit(overlapping)
    for function, a in (compiled, ours), (overlapping, theirs):
        function(a[:-3], a[3:])
    np.testing.assert_array_equal(ours, theirs)
    compiled = dlvm.jit(read_behind)
    u, w = rng.standard_normal((2, 50, 50))
    same(read_behind, compiled, u, w)
    assert not exchanges(compiled, u, w)


def test_arrays_that_a_program_exchanges_are_read_in_place():
    def turns(u, v, trips):
        for _ in range(trips):
            v[1:-1] = 0.5 * (u[2:] + u[:-2])
            v[:, -1] = v[:, -2]
            u, v = v, u
        return u[2, 3]

    u, v = np.random.default_rng(6).standard_normal((2, 30, 40))
    compiled = dlvm.jit(turns)
    found, expected = same(turns, compiled, u, v, 3)
    assert found == expected
    assert "allocateHeap" not in str(compiled.ir(u, v, 3, stage="scheduled"))
    compiled(v, v, 3)  # one array: other code


def test_gradients():
    def last(u, w, trips):
        u = u + 0.0
        for _ in range(trips):
            un = u.copy()
            w[1:-1, 1:-1] = 0.5 * un[2:, 1:-1] - 0.25 * un[1:-1, :-2]  # nobody needs it: the kernel has other stores
            inside = w[1:-1, 1:-1]
            u[1:-1, 1:-1] = 0.5 * np.sin(un[1:-1, 1:-1]) + np.where(inside > 0.0, inside, 0.5 * inside)
            u[0] = u[1]
        return np.sum(u * u)

    u, v, w = np.random.default_rng(7).standard_normal((3, 40, 30))
    gradient = dlvm.grad(last, wrt="u")
    found = np.sum(gradient(u.copy(), w, 3) * v)
    up, down = (last(u + h * v, w.copy(), 3) for h in (1e-6, -1e-6))
    np.testing.assert_allclose(found, (up - down) / 2e-6, rtol=1e-5)
    assert exchanges(gradient, u, w, 3)
