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
    monkeypatch.setattr(tuning, "DUEL", 0.0)
    monkeypatch.setattr(tuning, "MOST", 0)


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
        real = tuning._Measured.times
        monkeypatch.setattr(tuning._Measured, "times", lambda *a: {s: seconds[s] for s in real(*a)})
        monkeypatch.setattr(tuning._Measured, "wins", lambda *a: True)

    return set_to


def test_same_bits_and_effects():
    rng = np.random.default_rng(0)
    x, start = rng.standard_normal(1000), rng.standard_normal(1000)
    ours, plain = start.copy(), start.copy()
    f = dlvm.jit(tune=True)(mixed)
    assert f(x, ours) == dlvm.jit(mixed)(x, plain)
    assert np.array_equal(ours, plain)
    assert f.stats()["versions"] == 1


def never(*args):
    raise AssertionError("measured again")


def test_the_fastest_is_taken_and_kept_on_disk(timed, monkeypatch):
    timed({Schedule(): 2.0, SLOWER: 1.0})
    f = dlvm.jit(tune=True)(mixed)
    f(np.ones(3), np.ones(3))
    assert chosen(f) == SLOWER
    monkeypatch.setattr(tuning, "_fastest", never)  # as in another process
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


def jacobi(a, b):
    for _ in range(3):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[2:, 1:-1] + b[:-2, 1:-1] + b[1:-1, 2:] + b[1:-1, :-2])
    return a[1, 1]


ROWS_OF_ONE = Schedule(decisions=(("unroll_and_jam.rows", 1),))


def test_decisions_of_passes_are_measured(timed, monkeypatch):
    asked = []
    monkeypatch.setattr(tuning, "candidates", lambda *a: asked.append(a[2]) or [ROWS_OF_ONE])
    timed({Schedule(): 2.0, ROWS_OF_ONE: 1.0})
    rng = np.random.default_rng(4)
    start = rng.random((6, 1030)), rng.random((6, 1030))
    ours, plain = [[a.copy() for a in start] for _ in range(2)]
    f = dlvm.jit(tune=True)(jacobi)
    assert f(*ours) == jacobi(*plain)
    assert all(map(np.array_equal, ours, plain))
    assert chosen(f) == ROWS_OF_ONE
    assert f.stats()["schedule"] == {"unroll_and_jam.rows": 1} and "schedule" not in dlvm.jit(jacobi).stats()
    assert asked[0]["unroll_and_jam.rows"] == [2, 8, 1]
    assert " jam " not in f.ir(stage="scheduled") and " jam 4 " in dlvm.jit(jacobi).ir(*start, stage="scheduled")


def test_what_decides_nothing_has_only_options_of_llvm():
    def number(x):
        return x * 2.0 + 1.0

    version = dispatcher_of(dlvm.jit(number))
    made = version._make(version.request((1.0,)))
    assert made.facts["decisions"] == {}
    assert tuning.candidates(Schedule(), [SLOWER], {}) == [SLOWER]


def test_one_value_of_each_decision_comes_before_a_second_one(monkeypatch):
    monkeypatch.setattr(tuning, "MOST", 3)
    found = tuning.candidates(Schedule(), [SLOWER], {"a": [1, 2], "b": [3, 4]})
    assert [s.decisions for s in found] == [(("a", 1),), (("b", 3),), (), (("a", 2),)]
    both = tuning.together(Schedule(), [found[3], SLOWER, found[0], found[1]])
    assert both == replace(SLOWER, decisions=(("a", 2), ("b", 3)))


def test_arguments_are_written_once(monkeypatch):
    x, y = np.ones(4), np.ones(4)
    calls = []
    real = tuning._Measured._called

    def watched(self, version):
        found = real(self, version)
        calls.append(y.tolist())
        return found

    monkeypatch.setattr(tuning._Measured, "_called", watched)
    dlvm.jit(tune=True)(mixed)(x, y)
    assert len(calls) > 2 and all(seen == [1.0] * 4 for seen in calls)
    assert y.tolist() == [3.0] * 4


def test_other_bits_are_no_candidate():
    def other(x, y):
        y += 2.0 * x
        return float(np.sum(x * y)) + 1e-9

    args = np.ones(5), np.ones(5)
    found = [dispatcher_of(dlvm.jit(f)) for f in (mixed, other)]
    usual, wrong = (d._make(d.request(args)) for d in found)
    measured = tuning._Measured(usual, list(args))
    assert set(measured.times({Schedule(): usual, SLOWER: wrong})) == {Schedule()}


def test_bits_of_results():
    nan, zeros = np.array([np.nan, 1.0]), np.zeros(2)
    assert tuning.same_bits((nan, [1, {"a": None}]), (nan.copy(), [1, {"a": None}]))
    for other in (-zeros, zeros.astype(np.float32), zeros[:1], [0.0, 0.0]):
        assert not tuning.same_bits(zeros, other)
    assert not tuning.same_bits(1, 1.0) and not tuning.same_bits({"a": 1}, {"b": 1})


@pytest.mark.parametrize("schedule", [Schedule(level=2, unroll=False, vector_bits=256)])
def test_a_schedule_changes_no_bit(schedule):
    f, rng = dlvm.jit(mixed), np.random.default_rng(1)
    x, y = rng.standard_normal(100), rng.standard_normal(100)
    g = dlvm.jit(mixed)
    dispatcher_of(g).options = replace(Options(), schedule=schedule)
    ours, plain = y.copy(), y.copy()
    assert g(x, ours) == f(x, plain)
    assert np.array_equal(ours, plain)
    assert chosen(g) == schedule


@pytest.mark.slow
def test_both_halves_of_a_pullback_are_tuned(monkeypatch):
    """Each has a schedule of its own; the tape between them is what it is without."""
    monkeypatch.setattr(tuning, "MOST", 12)

    def smoothed(x):
        p = np.exp(x - np.max(x, axis=1)[:, None])
        for _ in range(3):
            p[1:-1, 1:-1] = 0.25 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2])
        return np.sum(p * p)

    x = np.random.default_rng(5).random((20, 1100))
    (value, pullback), (usual, of_usual) = (dlvm.vjp(f, x) for f in (dlvm.jit(tune=True)(smoothed), smoothed))
    assert value == usual
    assert tuning.same_bits(pullback(1.0), of_usual(1.0))


# -- every decision, with every value that its pass offers ------------------------------------------------


def chain(x):
    t = x[1:] - x[:-1]
    u = t[1:] - t[:-1]
    return np.sum(u[1:] * u[:-1] * x[3:])


def in_place(u):
    u[1:-1] = 0.5 * (u[2:] + u[:-2])
    return np.sum(u * u)


def stepped(u):
    for _ in range(3):
        un = u.copy()
        u[1:-1, 1:-1] = 0.25 * (un[2:, 1:-1] + un[:-2, 1:-1] + un[1:-1, 2:] + un[1:-1, :-2])
        u[:, 0] = u[:, 1]
    return np.sum(u * u)


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    x[:] = e / np.sum(e, axis=1, keepdims=True)
    return np.sum(x * x)


def columns(a, b, c):
    for j in range(c.shape[1]):
        c[:, j] += a * b[j, 0]
    return np.sum(c * c)


def planes(x):
    t, s = np.zeros(x.shape), 0.0
    for k in range(1, x.shape[2]):
        t[:, :, k] = x[:, :, k] - t[:, :, k - 1]
        s += np.sum(t[:, :, k])
    return s


def sums(a, x):
    total = 0.0
    for i in range(a.shape[0]):
        s = 0.0
        for k in range(len(x)):
            s += a[i, k] * x[k]
        total = total * 0.5 + s
    return total


def stages(x):
    total, t = x * 0.5, x
    for c in (0.5, 0.25, 0.125):
        k = np.empty_like(x)
        k[0] = x[1] * c
        k[1:] = x[1:] * t[:-1]
        t = x + c * k
        total = total + t * k
    return np.sum(total)


def siblings(a, b, c):
    c += a * b
    a -= b * 0.5
    return np.sum(a * c)


def rows_of_work(a, b):
    for i in range(len(a)):
        b[i] = np.sin(a[i]) * i
    return b[1, 1]


def large(a, b):
    b[:] = a * 2.0 + 1.0
    return b[1]


def sweeps(a):
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            a[i, j] = 0.25 * (a[i - 1, j + 1] + a[i + 1, j] + a[i, j - 1] + a[i, j])
    return np.sum(a * a)


def down(a):
    for j in range(a.shape[1]):
        s = 0.0
        for i in range(1, a.shape[0]):
            a[i, j] += 0.5 * a[i - 1, j]
            s += a[i, j]
        a[0, j] = s
    return np.sum(a * a)


PROGRAMS = {
    "unroll_and_jam": (jacobi, (9, 1030), (9, 1030)),
    "inline_stencils": (chain, (70_000,)),
    "double_buffers": (stepped, (50, 60)),
    "sliding_windows": (in_place, (700, 1000)),
    "skewed_strips": (stages, (40_000,)),
    "row_strips": (softmax, (700, 1000)),
    "widen_loops": (columns, (40,), (50, 2), (40, 50)),
    "plane_layouts": (planes, (9, 10, 11)),
    "interleave_loops": (sums, (15, 30), (30,)),
    "interchange_loops": (down, (40, 50)),
    "skew_loops": (sweeps, (23, 40)),
    "sibling_fusion": (siblings, (50, 60), (50, 60), (50, 60)),
    "share_loops": (rows_of_work, (300, 400), (300, 400)),
    "threads": (siblings, (300, 400), (300, 400), (300, 400)),
    "streams": (large, (5_000_000,), (5_000_000,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("make", [dlvm.jit, dlvm.grad])
def test_no_value_of_a_decision_changes_a_bit(name, make):
    """The bits of the usual code, of results and of what is written; those are NumPy's numbers."""
    function, *shapes = PROGRAMS[name]
    rng = np.random.default_rng(7)
    args = [rng.standard_normal(shape) for shape in shapes]

    def called(f):
        mine = [a.copy() for a in args]
        return f(*mine), mine

    usual = make(function)
    want = called(usual)
    if make is dlvm.jit:
        for ours, theirs in zip([want[0], *want[1]], (lambda r: [r[0], *r[1]])(called(function)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)
    d = dispatcher_of(usual)
    decided = d._make(d.request(tuple(args))).facts["decisions"]
    mine = [(n, value) for n, values in decided.items() if n.startswith(name) for value in values]
    assert mine or make is dlvm.grad
    for decision in mine:
        f = make(function)
        dispatcher_of(f).options = replace(Options(), schedule=Schedule(decisions=(decision,)))
        assert tuning.same_bits(called(f), want), decision
