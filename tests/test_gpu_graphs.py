"""target="gpu": loops that launch the same in every trip are CUDA graphs, which launch what the trips would have."""

import ctypes

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.ir.analysis.turns import Carried
from dlvm_py.runtime.gpu.device import device, live

_POINTER, _NUMBER, _SIZE = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
_SIGNATURES = {
    "cuLaunchKernel": (_POINTER, *[_NUMBER] * 7, _POINTER, _POINTER, _POINTER),
    "cuGraphCreate": (_POINTER, _NUMBER),
    "cuGraphAddKernelNode": (_POINTER, _POINTER, _POINTER, _SIZE, _POINTER),
    "cuGraphInstantiateWithFlags": (_POINTER, _POINTER, ctypes.c_uint64),
    "cuGraphLaunch": (_POINTER, _POINTER),
}


class _Node(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS."""

    _fields_ = [
        ("kernel", _POINTER),
        ("grid", _NUMBER * 3),
        ("block", _NUMBER * 3),
        ("shared", _NUMBER),
        ("parameters", _POINTER),
        ("extra", _POINTER),
    ]


class Driver:
    """What the device is asked: `launched`, each launch as (kernel, blocks, threads, parameters), also of graphs.

    graphs: how many launches each graph has that was launched. refuses: functions that fail, with a status.
    """

    def __init__(self, monkeypatch):
        self.launched, self.graphs, self.nodes, self.refuses = [], [], {}, {}
        self.kept = []
        on = device()
        for name, types in _SIGNATURES.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *types)
            function = kind(self._noting(name, kind(on.imports[f"cuda:{name}"])))
            self.kept.append(function)
            monkeypatch.setitem(on.imports, f"cuda:{name}", ctypes.cast(function, _POINTER).value)

    def _noting(self, name, function):
        note = getattr(self, name)

        def called(*args):
            if name in self.refuses:
                return self.refuses[name]
            status = function(*args)
            assert status == 0
            note(*args)
            return status

        return called

    @staticmethod
    def _launch(kernel, blocks, threads, table):
        count = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int, ctypes.c_int)(kernel)(None, 0, 0)
        addresses = (ctypes.c_void_p * count).from_address(table)
        return kernel, blocks, threads, *(ctypes.c_int64.from_address(a).value for a in addresses)

    def cuLaunchKernel(self, kernel, blocks, y, z, threads, *rest):
        self.launched.append(self._launch(kernel, blocks, threads, rest[4]))

    def cuGraphCreate(self, slot, flags):
        self.nodes[_POINTER.from_address(slot).value] = []

    def cuGraphAddKernelNode(self, slot, graph, edges, count, node):
        n = _Node.from_address(node)
        assert (*n.grid[1:], *n.block[1:], n.shared, n.extra) == (1, 1, 1, 1, 0, None)
        self.nodes[graph].append(self._launch(n.kernel, n.grid[0], n.block[0], n.parameters))

    def cuGraphInstantiateWithFlags(self, slot, graph, flags):
        self.nodes[_POINTER.from_address(slot).value] = list(self.nodes[graph])

    def cuGraphLaunch(self, ready, stream):
        self.launched += self.nodes[ready]
        self.graphs.append(len(self.nodes[ready]))


@pytest.fixture
def driver(monkeypatch):
    monkeypatch.setenv("DLVM_GPU", "emulator")
    return Driver(monkeypatch)


def heat(u, dt, n):
    for _ in range(n):
        u[1:-1] += dt * (u[2:] - 2 * u[1:-1] + u[:-2])


def swapped(u, v, dt, n):
    for _ in range(n):
        v[1:-1] = u[1:-1] + dt * (u[2:] - u[:-2])
        u, v = v, u
    return u


def three(u, v, w, n):
    for _ in range(n):
        w[1:] = u[1:] + 0.5 * v[:-1]
        u, v, w = v, w, u
    return u, v


def columns(p, n):
    for _ in range(n):
        for j in range(1, p.shape[1]):
            p[:, j] += 0.5 * p[:, j - 1]


def rows(a, n):
    for _ in range(n):
        for i in range(a.shape[0]):
            e = np.exp(a[i] - a[i].max())
            a[i] = e / e.sum()


def elements(a, b, n):
    for _ in range(n):
        for i in range(1, a.shape[0] - 1):
            b[i] = 0.3 * (a[i - 1] + a[i] + a[i + 1])
        for i in range(1, a.shape[0] - 1):
            a[i] = b[i]


def downwards(u, n):
    return np.sum(swapped(u, u * 2.0, 0.1, n) ** 2)


def parity(u, n, k):
    for _ in range(n):
        if k > 2:
            u += 1.0
        else:
            u -= 1.0
        u[0] = 7.0


def counting(u, n):
    for k in range(n):
        u += k


def settling(u, n):
    for _ in range(n):
        u *= 0.5
        if u[0] < 0.1:
            u += 1.0


def made(u, n):
    for _ in range(n):
        u = np.sqrt(u + 2.0)
    return u


def damped(u, n):
    for _ in range(n):
        new = u.copy()
        new[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = new
    return np.sum(u)


def wave(p, u, n):
    for _ in range(n):
        new = 2.0 * u - p
        new[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        p, u = u, new
    return p, u


def pair(x, n):
    a, b = np.zeros(x.shape), x * 2.0
    for _ in range(n):
        a, b = a + 0.1 * b, b - 0.1 * a
    return a, b


def grown(u, n):
    v = np.zeros(3)
    for k in range(n):
        v = u[:3] * 1.5
        if k == 2:
            u[0] = 2.0
    return v


def carried(u, n):
    t = 0.25
    for _ in range(n):
        u += t
        t *= 0.5


def _of(*shape):
    return np.random.default_rng(0).random(shape) + 1.0


# name: (function, () -> arguments but the number of trips, how many launches each graph has)
STATIC = {
    "heat": (heat, lambda: (_of(9), 0.1), 2),
    "swapped": (swapped, lambda: (_of(9), _of(9), 0.1), 2),
    "three": (three, lambda: (_of(9), _of(9), _of(9)), 3),
    "columns": (columns, lambda: (_of(3, 5),), 4),
    "elements": (elements, lambda: (_of(9), _of(9)), 2),
    "rows": (rows, lambda: (_of(3, 4),), 1),  # with a workspace
}
# the same of arrays that each trip makes anew, with the first trip that others repeat and the trips of a graph
MADE = {
    "made": (made, lambda: (_of(5),), 2, (2, 2)),
    "damped": (damped, lambda: (_of(9),), 2, (2, 2)),
    "wave": (wave, lambda: (_of(9), _of(9)), 3, (3, 3)),
    "pair": (pair, lambda: (_of(5),), 4, (2, 2)),
}
DIRECT = {
    "counting": (counting, "changes from trip to trip"),
    "settling": (settling, "a number that is on the device is fetched"),
    "grown": (grown, "changes from trip to trip"),
    "carried": (carried, "each trip makes `t` anew"),
}


def _check(function, make, n, compiled):
    given, plain, before = make(), make(), live()
    got, expected = compiled(*given, n), function(*plain, n)
    for a, b in zip((got, *given), (expected, *plain), strict=True):
        if a is not None:
            np.testing.assert_allclose(a, b, 1e-13)
    assert live() == before


def _relative(launches):
    """Launches with the addresses of the device as their order of appearance."""
    known = {}
    return [
        tuple(known.setdefault(v, len(known)) if abs(v) > 1 << 40 and v < 1 << 63 else v for v in launch)
        for launch in launches
    ]


LONGER = {"three", "columns", "elements"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONGER else n for n in STATIC])
def test_a_graph_launches_what_the_trips_would(name, driver, monkeypatch):
    function, make, size = STATIC[name]
    compiled = dlvm.jit(function, target="gpu")
    period = {"swapped": 2, "three": 3}.get(name, 1)
    monkeypatch.setenv("DLVM_GPU_GRAPHS", "0")
    direct = dlvm.jit(function, target="gpu")
    _check(function, make, 1, direct)
    monkeypatch.delenv("DLVM_GPU_GRAPHS")
    assert not driver.graphs
    for n in (0, 8 * period, 9 * period, 9 * period + 1, 25):
        driver.launched.clear()
        driver.graphs.clear()
        _check(function, make, n, compiled)
        replayed, driver.launched[:] = _relative(driver.launched), []
        assert driver.graphs == ([size] * ((n - period) // period) if n >= 9 * period else [])
        _check(function, make, n, direct)
        # other code of the same kernels: which of the two versions' kernels it is does not matter
        assert replayed == _relative(driver.launched)
    (line,) = [line for line in compiled.report(*make(), n).replayed if "_ in range(n)" in line.text]
    assert line.file == __file__
    assert "replay" not in direct.ir(*make(), n, stage="optimizable")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in ("damped", "pair") else n for n in MADE]
)
def test_arrays_that_each_trip_makes_anew_take_turns(name, driver):
    function, make, size, (after, period) = MADE[name]
    compiled = dlvm.jit(function, target="gpu")
    for n in (0, 1, 3, after + 9 * period - 1, after + 9 * period, after + 9 * period + 1, 40):
        driver.graphs.clear()
        given, plain, before = make(), make(), live()
        got, expected = compiled(*given, n), function(*plain, n)
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, expected)), strict=True):
            np.testing.assert_allclose(a, b, 1e-12)
        assert got is given[0] or n or name != "made"
        for a, b in zip(given, plain, strict=True):
            np.testing.assert_array_equal(a, b)
        times = (n - after - period) // period
        assert driver.graphs == ([size] * times if n >= after + 9 * period else []) and live() == before


def test_what_is_recorded_is_replayed_if_the_memory_is_where_it_was(driver, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE", "0")
    monkeypatch.setattr(Carried, "turns", lambda self: (2, 1))  # there are two arrays
    _check(made, lambda: (_of(5),), 30, dlvm.jit(made, target="gpu"))
    assert not driver.graphs and len(driver.launched) == 30


@pytest.mark.parametrize("name", DIRECT)
def test_what_changes_from_trip_to_trip_is_launched(name, driver):
    function, reason = DIRECT[name]
    compiled = dlvm.jit(function, target="gpu")
    _check(function, lambda: (_of(5),), 30, compiled)
    assert not driver.graphs and len(driver.launched) >= 30
    report = compiled.report(_of(5), 30)
    assert not report.replayed and reason in report.launched[0].reason


def test_branches_that_are_the_same_in_all_trips_are_part_of_the_graph(driver):
    compiled = dlvm.jit(parity, target="gpu")
    for k in (1, 3):
        given, plain = _of(4), _of(4)
        compiled(given, 30, k)
        parity(plain, 30, k)
        np.testing.assert_array_equal(given, plain)
    assert driver.graphs == [2] * 58


def test_gradients_are_graphs_in_both_sweeps(driver):
    got = dlvm.grad(dlvm.jit(lambda u, n: _linear(u, n), target="gpu"))(_of(9), 30)
    np.testing.assert_allclose(got, dlvm.grad(_linear)(_of(9), 30), 1e-12)
    assert len(driver.graphs) == 58


def _linear(u, n):
    heat(u, 0.1, n)
    return np.sum(u * u)


def test_a_driver_that_refuses_gets_launches(driver):
    compiled = dlvm.jit(heat, target="gpu")
    for name in ("cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiateWithFlags"):
        driver.refuses, driver.launched = {name: 801}, []  # CUDA_ERROR_NOT_SUPPORTED
        _check(heat, lambda: (_of(9), 0.1), 30, compiled)
        assert not driver.graphs and len(driver.launched) == 60
    # a launch that fails is no matter of recording
    driver.refuses, before = {"cuGraphLaunch": 719}, live()
    with pytest.raises(dlvm.DeviceError, match=r"CUDA error 719"):
        compiled(_of(9), 0.1, 30)
    assert live() == before


def test_a_trip_of_too_many_launches_is_not_recorded_but_the_loop_in_it(driver):
    def nested(u, n, m):
        for _ in range(n):
            u[0] = 1.0
            for _ in range(m):
                u *= 0.999

    compiled, given, plain, before = dlvm.jit(nested, target="gpu"), _of(3), _of(3), live()
    compiled(given, 9, 4200)
    nested(plain, 9, 4200)
    np.testing.assert_allclose(given, plain, 1e-12)
    # the first trip is recorded until it is too long
    assert driver.graphs == [1] * (8 * 4199) and live() == before
