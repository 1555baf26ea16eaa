"""Checkpointed gradients: the bits of the gradient that tapes everything, in bounded memory."""

import numpy as np
import pytest
from processes import run_program

import dlvm_py as dlvm
from dlvm_py.ir import interpreter

U = np.linspace(0.1, 1.0, 9)


def scalar_state(x, y, n):
    for i in range(n):
        x = np.sin(x) * 1.01 + y * x * i
    return x


def leaves_in_the_middle(x, n):
    total = 0.0
    while True:
        x = np.sin(x) * 1.01
        total += x * x
        if total > n:
            break
        if x > 0.9:
            x = x * x
            continue
        x += 0.01
    else:
        total = 7.0
    return x + total


def in_place(u, dt, n):
    for _ in range(n):
        u[1:-1] += dt * (u[2:] - 2 * u[1:-1] + u[:-2]) * u[1:-1]
    return np.sum(u**2)


def fresh_arrays(u, dt, n):
    v = u.copy()
    t = 0.0
    while t < n:
        w = 2 * u - v
        w[1:-1] += dt * (u[2:] - 2 * u[1:-1] + u[:-2]) * u[1:-1]
        v = u
        u = w
        t += 1.0
    return np.sum(u**2) + np.sum(v * u)


def swapped_buffers(u, dt, n):
    v = np.zeros_like(u)
    for _ in range(n):
        for j in range(1, len(u) - 1):
            v[j] = u[j - 1] + dt * u[j + 1] * u[j]
        u, v = v, u
    return u[1] * u[2] + v[2]


def several_loops(u, dt, n):
    k = u * dt
    if dt > 0:
        for i in range(n):
            k[i % 3] *= np.cos(k[1]) * u[i % 9]
    for _ in range(n):
        k = k + 0.1 * np.sin(k) * dt
        if k[0] > 0.5:
            k[0] = k[0] * 0.5
    k[2] = 3.0 * k[1]
    return np.sum(k * u)


def written_when_it_is_carried(u, dt, n):
    v = u
    for _ in range(n):
        v += dt  # what the step before has made
        v = v * 0.9
    return np.sum(v * v)


PROGRAMS = [
    (scalar_state, (0.3, 0.2, 20), (0, 1)),
    (leaves_in_the_middle, (0.3, 9.0), 0),
    (in_place, (U, 0.1, 20), (0, 1)),
    (fresh_arrays, (U, 0.1, 11), (0, 1)),
    (swapped_buffers, (U, 0.1, 13), (0, 1)),
    pytest.param(several_loops, (U, 0.7, 12), (0, 1), marks=pytest.mark.slow),
    (written_when_it_is_carried, (U.copy(), 0.1, 5), (0, 1)),
]


TAPED = dlvm.grad(dlvm.jit(checkpoint="store")(scalar_state), (0, 1))


def same_bits(a, b):
    if isinstance(a, tuple):
        return all(map(same_bits, a, b))
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("function, args, wrt", PROGRAMS, ids=lambda v: getattr(v, "__name__", None))
def test_the_bits_are_those_of_the_tape(function, args, wrt):
    """A budget of one byte: a segment of one step, and few states. No trip, one trip, many."""
    taped, again = (dlvm.value_and_grad(dlvm.jit(checkpoint=c)(function), wrt) for c in ("store", 1))
    for n in (args[-1], 0, 1, 2):
        expected = taped(*args[:-1], n)
        assert same_bits(again(*args[:-1], n), expected)
    is_segmented = "'resume" in again.ir()
    assert is_segmented == (function is not written_when_it_is_carried)


@pytest.mark.parametrize("budget", ["recompute", 2000])
def test_any_budget_gives_the_same(budget):
    again = dlvm.grad(scalar_state, (0, 1), checkpoint=budget)
    for n in (0, 16, 40_000):
        assert same_bits(again(0.3, 0.2, n), TAPED(0.3, 0.2, n))


def limit_to(monkeypatch, nbytes):
    """Let gradients by default take so many bytes; versions that are loaded from now on know."""
    monkeypatch.setenv("DLVM_TAPE", repr(nbytes / 2**20))


def test_by_default_loops_run_again_where_a_tape_would_not_fit(monkeypatch):
    """The version with a tape is left when it takes too much; it has the next call that fits."""
    limit_to(monkeypatch, 2000)
    auto = dlvm.grad(scalar_state, (0, 1))
    for n, versions in ((0, 1), (40_000, 2), (0, 2), (16, 2), (30_000, 2)):
        assert same_bits(auto(0.3, 0.2, n), TAPED(0.3, 0.2, n))
        assert auto.stats()["versions"] == versions
    assert "'resume" in auto.ir()


def test_by_default_an_attempt_is_undone(monkeypatch):
    """A limit of one byte: arguments and results of the second attempt are those of the only one."""
    limit_to(monkeypatch, 1)
    for function, versions in ((in_place, 2), (written_when_it_is_carried, 1)):
        taped, auto = (dlvm.value_and_grad(dlvm.jit(checkpoint=c)(function), (0, 1)) for c in ("store", "auto"))
        for n in (3, 6):
            u = U.copy()
            assert same_bits(auto(u, 0.1, n), taped(u, 0.1, n))
            assert same_bits(u, U)
        assert auto.stats()["versions"] == versions


def test_what_cannot_be_undone_keeps_its_tape(monkeypatch):
    """Numbers are drawn once, whatever the limit."""
    limit_to(monkeypatch, 1)

    def walk(x, rng, n):
        for _ in range(n):
            x = x * np.cos(x) + rng.random()
        return x

    auto = dlvm.grad(walk)
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    found = auto(0.3, rng, 5)
    moved = [walk(0.3 + h, np.random.default_rng(3), 5) for h in (1e-6, -1e-6)]
    assert found == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-6)
    same.random(5)
    assert rng.random() == same.random()
    assert auto.stats()["versions"] == 1


def test_what_is_returned_is_what_the_primal_left():
    again = dlvm.grad(dlvm.jit(checkpoint=1)(in_place), keeping=("u", 0))
    expected = U.copy()
    value = in_place(expected, 0.1, 6)
    _, u, kept = again(U, 0.1, 6)
    np.testing.assert_allclose(u, expected, rtol=1e-14)
    np.testing.assert_allclose(kept, value, rtol=1e-14)


def test_errors_of_the_loop_are_raised_in_the_first_sweep():
    def loop(x, n):
        for i in range(n):
            if i == 7:
                raise ValueError(f"step {i}")
            x = x * x * 0.9
        return x

    g = dlvm.grad(dlvm.jit(checkpoint=1)(loop))
    assert same_bits(g(0.7, 7), dlvm.grad(loop)(0.7, 7))
    with pytest.raises(ValueError, match="step 7"):
        g(0.7, 9)


def test_what_is_printed_is_printed_once(capsys, monkeypatch):
    limit_to(monkeypatch, 1)

    def loop(x, n):
        for i in range(n):
            print("step", i)
            x = x * x * 0.9
        return x

    assert same_bits(dlvm.grad(dlvm.jit(checkpoint=1)(loop))(0.7, 3), dlvm.grad(loop)(0.7, 3))
    assert capsys.readouterr().out == "step 0\nstep 1\nstep 2\n" * 2


def test_what_else_takes_a_budget():
    """hvp runs the loop of its gradient again, with the same bits; a pullback cannot, and says so."""
    taped, again = (dlvm.hvp(dlvm.jit(checkpoint=c)(scalar_state)) for c in ("store", 1))
    assert same_bits(again(0.3, 0.2, 9, 1.0), taped(0.3, 0.2, 9, 1.0))
    assert "resume" in again.ir() and "resume" not in taped.ir()
    f = dlvm.jit(checkpoint=1)(scalar_state)
    with pytest.raises(dlvm.ArgumentError, match=r"(?s)DL705.*seedable=True"):
        dlvm.vjp(f, 0.3, 0.2, 9)
    with pytest.raises(dlvm.ArgumentError, match=r"(?s)DL705"):
        dlvm.jacobian(f, mode="reverse", sparsity="auto")
    with pytest.raises(dlvm.ArgumentError, match=r"(?s)DL705"):
        dlvm.vjp(scalar_state, 0.3, 0.2, 9, checkpoint="recompute")
    value, pullback = dlvm.vjp(f, 0.3, 0.2, 9, checkpoint="store")
    assert value == f(0.3, 0.2, 9)
    np.testing.assert_allclose(pullback(1.0)[:2], TAPED(0.3, 0.2, 9), rtol=1e-14)


@pytest.mark.slow
def test_jacobians_and_hessians_take_a_budget(monkeypatch):
    """The same bits by a budget, and by default beyond the limit."""

    def columns(u, dt, n):
        in_place(u, dt, n)
        return u * u

    limit_to(monkeypatch, 100)
    for derivative, f in ((dlvm.jacobian, columns), (dlvm.hessian, in_place)):
        options = {"mode": "reverse"} if f is columns else {}
        made = [derivative(dlvm.jit(checkpoint=c)(f), **options) for c in ("store", 1, "auto")]
        found = [d(U, 0.1, 5) for d in made]
        assert all(same_bits(v, found[0]) for v in found)
        assert ["resume" in d.ir() for d in made] == [False, True, True]


def test_second_derivatives_are_right_as_well():
    twice = [dlvm.grad(dlvm.grad(dlvm.jit(checkpoint=c)(leaves_in_the_middle))) for c in ("store", 1)]
    assert same_bits(twice[1](0.3, 9.0), twice[0](0.3, 9.0))


@pytest.mark.parametrize("wrong", ["all", 0, -3, True, 1.5])
def test_what_checkpoint_takes(wrong):
    with pytest.raises(dlvm.CompileError, match="DL705"):
        dlvm.jit(checkpoint=wrong)
    with pytest.raises(dlvm.CompileError, match="DL705"):
        dlvm.grad(in_place, checkpoint=wrong)


MEMORY = """
import numpy as np
import dlvm_py as dlvm
from dlvm_py.ir import interpreter

def loop(u, dt, n):
    for _ in range(n):
        u[1:-1] += dt * (u[2:] - 2 * u[1:-1] + u[:-2]) * u[1:-1]
    return np.sum(u ** 2)

def peak():
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

def forget():  # the peak of compiling
    open("/proc/self/clear_refs", "w").write("5")

u = np.linspace(0, 1, 20_000)
for checkpoint in ("recompute", 20_000_000, "auto"):
    g = dlvm.grad(dlvm.jit(checkpoint=checkpoint)(loop))
    g(u, 1e-7, 2)
    forget()
    before = peak()
    g(u, 1e-7, 4_000)
    print(peak() - before)
"""


def test_memory_stays_within_the_budget(tmp_path):
    """4,000 steps on 160 kB, of which a tape would hold 1.3 GB. By default the budget is what DLVM_TAPE says."""
    done = run_program(MEMORY, tmp_path, timeout=300, DLVM_TAPE=repr(20_000_000 / 2**20))
    few, budget, auto = map(float, done.stdout.split())
    assert few < 30  # some 130 arrays: twice the root of the steps
    assert budget < 60
    assert auto < 60


def returned_from_inside(u, n):
    for _ in range(n):
        w = np.cos(u) * u
        if u[0] > 3.0:
            return np.sum(w * w)
        u = w * 1.5
    return np.sum(u * u)


def element_returned_from_inside(u, n):
    c = 0
    while c < n:
        w = np.cos(u)
        c += 1
        if w[0] > 0.99:
            return w[0] * u[-1]
        u = u + 0.1 * w
    return np.sum(u)


def two_ways_out(u, n):
    for _ in range(n):
        w = np.sin(u)
        if w[0] < 0.05:
            return np.sum(w)
        v = w[::-1] * u
        if v[0] < 0.5:
            break
        u = v + w
    else:
        return u[0] * u[-1]
    return np.sum(u * u)


@pytest.mark.parametrize("function", [returned_from_inside, element_returned_from_inside, two_ways_out])
@pytest.mark.parametrize("extent", [1, 4])
def test_an_array_that_only_one_way_out_has_made(function, extent):
    """What is handed over behind the loop is there on every way, also where a type states the extent."""
    taped, again = (dlvm.grad(function, checkpoint=c) for c in ("store", 1))
    programs = [g.program(np.ones(extent), 2) for g in (taped, again)]
    for start in (0.01, 0.6, 1.3, 4.0):
        for n in (0, 1, 3):
            u = np.linspace(start, start + 0.2, extent)
            expected, found = (interpreter.run(p.module, p.name, [u.copy(), n]) for p in programs)
            assert same_bits(found, expected)
            if function is returned_from_inside:
                np.testing.assert_allclose(again(u, n), expected, rtol=1e-13)
