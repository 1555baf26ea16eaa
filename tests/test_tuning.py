"""jit(tune=True): the schedule is measured, once; values, effects, exceptions and bits are those of any other call."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py import tuning
from dlvm_py.dispatch import dispatcher_of
from dlvm_py.frozen import replace
from dlvm_py.options import Options, Schedule

SLOWER = Schedule(interleave=False)


@pytest.fixture(autouse=True)
def few(monkeypatch, tmp_path):
    """Two candidates, and a cache of the test's own."""
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("dlvm_py.driver.schedules", lambda: [SLOWER])
    monkeypatch.setattr(tuning, "SECONDS", 0.0)


def mixed(x, y):
    y += 2.0 * x
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i] if x[i] > 0 else 1.0
    return total


def chosen(f):
    """The schedule of the latest version."""
    return dispatcher_of(f).latest.options.schedule


@pytest.fixture
def timed(monkeypatch):
    """Sets the seconds that a schedule seems to take."""

    def set_to(seconds):
        real = tuning._turns
        monkeypatch.setattr(tuning, "_turns", lambda *a: ((s, seconds[s]) for s, _ in real(*a)))

    return set_to


def test_same_bits_and_effects():
    rng = np.random.default_rng(0)
    x, start = rng.standard_normal(1000), rng.standard_normal(1000)
    ours, plain = start.copy(), start.copy()
    f = dlvm.jit(tune=True)(mixed)
    assert f(x, ours) == dlvm.jit(mixed)(x, plain)
    assert np.array_equal(ours, plain)
    assert f.stats()["versions"] == 1


def test_the_fastest_is_taken_and_kept_on_disk(timed):
    timed({Schedule(): 2.0, SLOWER: 1.0})
    f = dlvm.jit(tune=True)(mixed)
    f(np.ones(3), np.ones(3))
    assert chosen(f) == SLOWER
    again = dlvm.jit(tune=True)(mixed)
    again(np.ones(3), np.ones(3))
    assert chosen(again) == SLOWER
    assert (again.stats()["compiled"], again.stats()["loaded"]) == (0, 1)


def test_what_is_hardly_faster_is_noise(timed):
    timed({Schedule(): 1.0, SLOWER: 0.99})
    f = dlvm.jit(tune=True)(mixed)
    f(np.ones(3), np.ones(3))
    assert chosen(f) == Schedule()


def test_gradients_are_tuned_too(timed):
    timed({Schedule(): 2.0, SLOWER: 1.0})
    g = dlvm.grad(dlvm.jit(tune=True)(mixed))
    assert np.array_equal(g(np.ones(3), np.zeros(3)), np.full(3, 4.0))
    assert chosen(g) == SLOWER


def test_what_is_seen_happens_once(capsys):
    def told(x):
        print("here")
        return x + 1.0

    def drawn(rng):
        return rng.random()

    assert dlvm.jit(tune=True)(told)(1.0) == 2.0
    assert capsys.readouterr().out == "here\n"
    assert dlvm.jit(tune=True)(drawn)(np.random.default_rng(3)) == np.random.default_rng(3).random()


def test_an_exception_comes_as_it_would():
    def half(x, k):
        x[0] += 1.0
        return x[k]

    x = np.zeros(2)
    with pytest.raises(IndexError):
        dlvm.jit(tune=True)(half)(x, 5)
    assert x[0] == 1.0


def test_arguments_that_overlap_are_not_tried():
    def shifted(x, y):
        x[:] = y * 2.0

    a = np.arange(6.0)
    want = a.copy()
    shifted(want[1:], want[:-1])
    dlvm.jit(tune=True)(shifted)(a[1:], a[:-1])
    assert np.array_equal(a, want)


@pytest.mark.parametrize("schedule", [Schedule(level=2), Schedule(unroll=False), Schedule(vector_bits=256)])
def test_a_schedule_changes_no_bit(schedule):
    f, rng = dlvm.jit(mixed), np.random.default_rng(1)
    x, y = rng.standard_normal(100), rng.standard_normal(100)
    g = dlvm.jit(mixed)
    dispatcher_of(g).options = replace(Options(), schedule=schedule)
    ours, plain = y.copy(), y.copy()
    assert g(x, ours) == f(x, plain)
    assert np.array_equal(ours, plain)
    assert chosen(g) == schedule
