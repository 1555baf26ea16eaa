"""vjp: the value and a pullback that runs the reverse sweep alone, as often as wanted.

Laws: seed · (∂f · direction) by central differences of plain Python equals pullback(seed) · direction; whatever is done
to arguments, value and captures after the call changes nothing; the two halves of random programs give what the
gradient function of the whole gives.
"""

import copy
import gc
import pickle
import threading
import weakref
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
from programs import few_numbers
from random_ir import random_program

import dlvm_py as dlvm
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import inline
from dlvm_py.transforms.differentiate.adjoint import adjoint, recorded
from dlvm_py.transforms.differentiate.config import AdjointConfig, Output

pytestmark = pytest.mark.usefixtures("plain_code")

RNG = np.random.default_rng(0)


# -- programs: memory that is made, joined, viewed and listed while the function runs ----------------------


def swapped_buffers(u, n):
    u = u.copy()
    v = np.zeros(u.size)
    for _ in range(n):
        v[1:-1] = np.sin(u[:-2]) * u[2:] + v[1:-1]
        u, v = v, u
    return u * v


def views_chosen_at_run_time(x, n):
    y = x[1:]
    s = 0.0
    for i in range(n):
        y = x[::2] if i % 2 else y[::-1]
        s = s + np.sum(y**2) * (i + 1)
        y[0] = s * 0.01
    return s


def rows_and_columns(a, n):
    r, s = a[0], 0.0
    for i in range(n):
        r = r * 1.5 if i == 2 else a[:, i % 2]
        s += np.sum(np.sin(r) * r)
    return s


def memory_of_one_branch(x, flag):
    t = np.zeros(3)
    if flag:
        t = x * x
        t[1:] += t[1:] * x[1:]
    else:
        t[:] = x
    return t * x


def lists_of_arrays(x, n):
    a = [np.sin(x * i) for i in range(n)]
    s = x
    for r in a:
        s = s * r + r
    return s


def shrinking(x, limit):
    s = 0.0
    while x.size > limit:
        x = x[1:] * x[:-1]
        s += np.sum(x)
    return s


def recursion(x, n):
    return x if n <= 0 else np.sin(x) * recursion(x * 0.9, n - 1) + x


def strided_and_complex(x, n):
    z = np.exp(1j * x[::2]) * x[1::2]
    return np.abs(z + n) ** 2


CASES = [
    (swapped_buffers, lambda: (RNG.random(6), 5)),
    (views_chosen_at_run_time, lambda: (RNG.random(7), 5)),
    (rows_and_columns, lambda: (RNG.random((3, 3)), 4)),
    (memory_of_one_branch, lambda: (RNG.random(3), True)),
    (memory_of_one_branch, lambda: (RNG.random(3), False)),
    (lists_of_arrays, lambda: (RNG.random(4), 3)),
    (shrinking, lambda: (RNG.random(5), 1)),
    (recursion, lambda: (0.7, 4)),
    (strided_and_complex, lambda: (RNG.random(12)[::-1], 1)),
]


def slope(f, args, seed, direction, h=1e-6):
    """seed · ∂f · direction with respect to the first argument, by central differences of plain Python."""
    up, down = (f(*copy.deepcopy([args[0] + t * direction, *args[1:]])) for t in (h, -h))
    return float(np.sum(seed * (up - down))) / (2 * h)


@pytest.mark.parametrize(("f", "make_args"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_seed_times_jacobian(f, make_args):
    args = make_args()
    before = copy.deepcopy(args)
    value, pullback = dlvm.vjp(f, *args)
    np.testing.assert_array_equal(args[0], before[0])
    seeds = [RNG.normal(size=np.shape(value)) if np.ndim(value) else float(RNG.normal()) for _ in range(2)]
    found = [pullback(seed) for seed in seeds]
    direction = RNG.normal(size=np.shape(args[0]))
    for seed, (d, none) in zip(seeds, found, strict=True):
        assert none is None
        assert np.sum(d * direction) == pytest.approx(slope(f, before, seed, direction), rel=1e-6, abs=1e-8)
    for array in (args[0], value):
        if isinstance(array, np.ndarray):
            array[...] = np.nan
    for seed, (d, _) in zip(seeds, found, strict=True):
        np.testing.assert_array_equal(pullback(seed)[0], d)


# -- the contract -------------------------------------------------------------------------------------------


def layer(x, w, n):
    h = np.tanh(x @ w)
    return h * n, np.sum(h), n


def test_several_outputs_and_every_argument():
    x, w = RNG.random((4, 3)), RNG.random((3, 2))
    value, pullback = dlvm.vjp(layer, x, w, 2)
    for got, want in zip(value, layer(x, w, 2), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
    seed = RNG.random((4, 2)), 0.5, None
    dx, dw, dn = pullback(seed)
    s = (2 * seed[0] + 0.5) * (1 - np.tanh(x @ w) ** 2)
    np.testing.assert_allclose(dx, s @ w.T, rtol=1e-13)
    np.testing.assert_allclose(dw, x.T @ s, rtol=1e-13)
    assert dn is None
    assert dx.flags.c_contiguous
    assert dx.flags.owndata
    _, of_w = dlvm.vjp(layer, x, w, 2, wrt="w", from_=0)
    np.testing.assert_allclose(of_w(seed[0]), x.T @ (2 * seed[0] * (1 - np.tanh(x @ w) ** 2)), rtol=1e-13)


def test_the_primal_runs_once(capfd):
    def spoken(x):
        y = x
        for k in range(3):
            print("step", k)
            y = np.exp(y * 0.1) * x
        return y

    _, pullback = dlvm.vjp(spoken, 2.0)
    said = capfd.readouterr().out
    assert said == "step 0\nstep 1\nstep 2\n"
    want = (spoken(2.0 + 1e-6) - spoken(2.0 - 1e-6)) / 2e-6
    capfd.readouterr()
    for k in range(10):
        assert pullback(float(k))[0] == pytest.approx(k * want, rel=1e-8)
    assert capfd.readouterr().out == ""
    assert pullback.stats()["versions"] == 1
    assert " exp " not in pullback.ir()


@dataclass
class State:
    u: np.ndarray
    t: float


Pair = namedtuple("Pair", "a b")


def test_structure_of_arguments_and_value():
    def f(s, d):
        return {"p": Pair(s.u * s.t, d["k"]), "q": np.sum(s.u) * d["x"][0]}

    state, table = State(RNG.random(3), 2.0), {"k": 3, "x": (1.5, [0.5])}
    value, pullback = dlvm.vjp(f, state, table)
    assert value["q"] == pytest.approx(np.sum(state.u) * 1.5)
    ds, dd = pullback({"p": Pair(np.ones(3), None), "q": 2.0})
    assert type(ds) is State
    np.testing.assert_allclose(ds.u, 2.0 + 2.0 * 1.5)
    assert ds.t == pytest.approx(np.sum(state.u))
    assert dd["k"] is None
    assert dd["x"] == (pytest.approx(2 * np.sum(state.u)), [0.0])


def test_written_arguments():
    def double(x, y):
        x *= y
        y[1:] += x[:-1]

    x, y = RNG.random(3), RNG.random(3)
    (value_x, value_y), pullback = dlvm.vjp(double, x, y, from_=("x", "y"))
    np.testing.assert_allclose(value_x, x * y)
    np.testing.assert_allclose(value_y, y + np.append(0.0, (x * y)[:-1]))
    dx, dy = pullback((np.ones(3), np.array([1.0, 2.0, 3.0])))
    carried = np.array([3.0, 4.0, 1.0])  # 1 for x itself, and what y gets of it
    np.testing.assert_allclose(dx, carried * y)
    np.testing.assert_allclose(dy, carried * x + [1.0, 2.0, 3.0])


GAIN = 2.0
WEIGHTS = np.array([1.0, 2.0, 3.0])


def captured(x):
    return x * x * WEIGHTS * GAIN


def test_captures_are_those_of_the_call(monkeypatch):
    x = RNG.random(3)
    _, pullback = dlvm.vjp(captured, x)
    want = 2 * x * WEIGHTS * GAIN
    monkeypatch.setitem(globals(), "GAIN", 5.0)
    WEIGHTS[0] = 9.0
    np.testing.assert_allclose(pullback(np.ones(3))[0], want)
    _, changed = dlvm.vjp(captured, x)
    np.testing.assert_allclose(changed(np.ones(3))[0], 2 * x * WEIGHTS * 5.0)
    np.testing.assert_allclose(pullback(np.ones(3))[0], want)
    WEIGHTS[0] = 1.0


def test_threads_share_a_pullback_and_its_tape_goes_with_it():
    x = RNG.random(50)
    value, pullback = dlvm.vjp(swapped_buffers, x, 20)
    seeds = RNG.normal(size=(4, 50))
    want = [pullback(s)[0] for s in seeds]
    wrong = []

    def work(call, k):
        for _ in range(50):
            if not np.array_equal(call(seeds[k])[0], want[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(pullback, k)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    threads.clear()
    kept = [weakref.ref(part) for part in pullback._tape if isinstance(part, np.ndarray)]
    assert kept
    assert pullback.nbytes > 0
    del pullback
    gc.collect()
    assert all(k() is None for k in kept)


def test_second_derivatives():
    def cubic(x, c):
        return np.sum(x**3) * c

    x, v = RNG.random(3), RNG.random(3)
    gradient, pullback = dlvm.vjp(dlvm.grad(cubic), x, 2.0)
    np.testing.assert_allclose(gradient, 6 * x**2)
    dx, dc = pullback(v)
    np.testing.assert_allclose(dx, 12 * x * v)
    assert dc == pytest.approx(np.sum(3 * x**2 * v))


def made():
    return lambda x: np.cos(x) * x


def test_code_is_made_once_and_comes_from_disk():
    for k in range(2):
        _, pullback = dlvm.vjp(made(), 3.0)
        assert pullback(1.0)[0] == pytest.approx(np.cos(3.0) - 3.0 * np.sin(3.0))
        assert pullback.stats()["loaded"] == k


def recursive_sum(x):
    return 0.0 if x.size == 0 else x[0] ** 2 + recursive_sum(x[1:])


def test_refusals():
    x = np.ones(3)
    _, pullback = dlvm.vjp(captured, x)
    for seed in (1.0, None, np.ones((3, 1)), np.ones(3, np.float32), (x,)):
        with pytest.raises(dlvm.ArgumentError, match="the seed must look like the value") as error:
            pullback(seed)
        assert error.value.code == "DL704"
    with pytest.raises(ValueError, match="axis 0 has extent 4, not 3"):
        pullback(np.ones(4))
    with pytest.raises(pickle.PicklingError, match="call dlvm.vjp again"):
        pickle.dumps(pullback)
    with pytest.raises(dlvm.ArgumentError, match="no argument of 'captured' is a float"):
        dlvm.vjp(captured, 3)
    with pytest.raises(dlvm.ArgumentError, match="carries no derivative"):
        dlvm.vjp(layer, x.reshape(1, 3), x.reshape(3, 1), 2, wrt="n")
    with pytest.raises(dlvm.NotDifferentiable, match="recurses over arrays") as refused:
        dlvm.vjp(recursive_sum, x)
    assert refused.value.code == "DL610"


# -- arguments that overlap ----------------------------------------------------------------------------------


def product(a, b):
    return np.sum(a * b**2)


def scaled_in_place(a, b):
    a *= 2.0
    return np.sum(a * b)


def test_arguments_that_overlap():
    """What is only read may be shared, by the same code; each parameter has the derivative by its own values."""
    x = RNG.random(6)
    g = dlvm.grad(product, (0, 1))
    for a, b in [(x[:3], x[3:]), (x, x), (x[:-1], x[1:]), (x[::2], x[1::2])]:
        for found in (g(a, b), dlvm.vjp(product, a, b)[1](1.0)):
            np.testing.assert_allclose(found[0], b**2, rtol=1e-14)
            np.testing.assert_allclose(found[1], 2 * a * b, rtol=1e-14)
    assert g.stats()["versions"] == 2  # contiguous, strided
    for a, b in [(x, x), (x[:-1], x[1:])]:
        with pytest.raises(dlvm.ArgumentError, match=r"'a' and 'b' overlap .* scaled_in_place\(\) writes 'a'") as error:
            dlvm.vjp(scaled_in_place, a, b)
        assert error.value.code == "DL707"
    np.testing.assert_allclose(dlvm.grad(scaled_in_place)(x[:3], x[3:]), 2 * x[3:])


def few_numbers_of_a_loop(x, a):
    total = 0.0
    if a > 0.0:
        u = np.zeros(3)
        u[1:] = x[1] * a
        for i in range(len(x)):
            u[1] = np.sin(u[0] * x[i])
            u[0] = u[2] * u[1]
        total = np.sum(u * u * np.sin(u))
    return total + a * a


def small_product(x, a):
    total = 0.0
    if a > 0.0:
        u = np.ones((2, 3)) * x[0]
        total = np.sum(np.sin(u.T) @ (u * u))
    return total + a * a


@pytest.mark.parametrize("f", [few_numbers, few_numbers_of_a_loop, small_product])
def test_arrays_of_fixed_extents_on_a_path_that_was_not_taken(f):
    """The tape has room for them; what is copied there is not read from nowhere."""
    x = np.array([0.3, 0.4, 0.2])
    for a in (-0.8, 0.8):
        value, pull = dlvm.vjp(dlvm.jit(f), x, a, wrt=(0, 1))
        assert value == pytest.approx(f(x, a), rel=1e-12)
        for got, want in zip(pull(1.0), dlvm.grad(dlvm.jit(f), wrt=(0, 1))(x, a), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


# -- both halves of random programs --------------------------------------------------------------------------


WRT = (0, 1, 2, 3, 4)
OUTPUTS = (Output("result", 0), Output("result", 2), Output("param", 0), Output("param", 3))


@pytest.mark.parametrize("seed", range(25))
def test_halves_of_random_programs(seed):
    """The pullback on the tape gives, twice, what the gradient function gives."""
    program = random_program(seed, 10)
    module, args = program.module, program.arguments()
    inline.run(module, "main")
    whole = adjoint(module, "main", AdjointConfig(WRT, OUTPUTS, OUTPUTS, seedable=True))
    halves = recorded(module, "main", AdjointConfig(WRT, OUTPUTS, OUTPUTS, seedable=True))
    verify(module)
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        try:
            found = run(module, halves.recorded.name, copy.deepcopy(args))
        except (ArithmeticError, ValueError):
            pytest.skip("the program raises")
        values, tape = found[: len(OUTPUTS)], found[len(OUTPUTS) :]
        seeds = [rng.normal(size=np.shape(v)) if np.ndim(v) else np.float64(rng.normal()) for v in values]
        want = run(module, whole.name, [*copy.deepcopy(args), *seeds])
        for got, kept in zip(values, want[len(WRT) :], strict=True):
            np.testing.assert_array_equal(got, kept)
        for _ in range(2):
            for got, d in zip(run(module, halves.pullback.name, [*tape, *seeds]), want, strict=False):
                np.testing.assert_allclose(got, d, rtol=1e-12, atol=1e-300)
