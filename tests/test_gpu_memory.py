"""target="gpu" with CuPy: memory is that of CuPy's current allocator, which is imagined here."""

import ctypes
import gc
import sys
import threading
import types

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.runtime.gpu.arrays import to_device
from dlvm_py.runtime.gpu.cupy_memory import CupyMemory
from dlvm_py.runtime.gpu.device import Device, device, live


class Memory:
    """cupy.cuda.MemoryPointer: memory of the emulated device, given back when nothing refers to it."""

    def __init__(self, pool, nbytes):
        self.pool, self.nbytes, self.ptr = pool, nbytes, pool.raw(nbytes)
        pool.now += nbytes

    def __del__(self):
        self.pool.now -= self.nbytes
        self.pool.raw_free(self.ptr)


class Pool:
    """cupy.cuda with an allocator of the user's: `now` bytes are taken, of `limit`; failing: what `alloc` raises."""

    def __init__(self, raw, raw_free):
        self.raw, self.raw_free, self.now, self.sizes, self.limit, self.failing = raw, raw_free, 0, [], 1 << 30, None

    def alloc(self, nbytes):
        if self.failing is not None:
            raise self.failing
        if self.now + nbytes > self.limit:
            raise MemoryError("Out of memory allocating, by CuPy")
        self.sizes.append(nbytes)
        return Memory(self, nbytes)


@pytest.fixture
def pool(monkeypatch):
    """The imagined CuPy's pool. The driver, asked by compiled code, has no memory."""
    monkeypatch.setenv("DLVM_GPU", "emulator")
    on = device()
    raw, raw_free, refused = on._call["cuMemAllocAsync"], on._call["cuMemFreeAsync"], []

    def take(nbytes):
        found = ctypes.c_void_p()
        assert raw(ctypes.addressof(found), nbytes, 0) == 0
        return found.value

    gc.collect()
    cupy, before = types.ModuleType("cupy"), live()
    cupy.cuda = Pool(take, lambda address: raw_free(address, 0))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(Device, "pool", CupyMemory())
    kind = type(raw)
    never = kind(lambda *args: refused.append(args) or 1)
    for name in ("cuMemAllocAsync", "cuMemFreeAsync"):
        monkeypatch.setitem(on._call, name, never)
    monkeypatch.setitem(on.imports, "cuda:cuMemAllocAsync", ctypes.cast(never, ctypes.c_void_p).value)
    monkeypatch.setitem(on.imports, "cuda:cuMemFreeAsync", ctypes.cast(never, ctypes.c_void_p).value)
    yield cupy.cuda
    gc.collect()
    assert not refused and cupy.cuda.now == 0 and live() == before


def newton(x, n):
    y = x + 1.0
    for _ in range(n):
        y = 0.5 * (y + x / y)
    return y, np.sum(np.sort(y))


def test_arguments_temporaries_and_results_are_of_cupys_allocator(pool):
    f, x = dlvm.jit(newton, target="gpu"), np.linspace(1.0, 2.0, 500)
    expected = newton(x, 9)
    for given in (x, to_device(x)):
        y, total = f(given, 9)
        np.testing.assert_allclose(y if given is x else y.numpy(), expected[0], 1e-13)
        assert float(total) == pytest.approx(float(expected[1]), rel=1e-12)
    assert pool.sizes.count(4032) >= 3 and pool.now > 0  # 500 elements, rounded up to 64 bytes


def test_tapes_are_and_pullbacks_keep_them(pool):
    def loss(x, n):
        for _ in range(n):
            x = np.sin(x) * x
        return np.sum(x)

    x = np.linspace(0.5, 1.5, 50)
    value, pullback = dlvm.vjp(dlvm.jit(loss, target="gpu"), to_device(x), 5)
    assert pool.now > 512
    np.testing.assert_allclose(pullback(1.0)[0].numpy(), dlvm.grad(loss)(x, 5), 1e-12)
    assert value == pytest.approx(loss(x, 5))


def test_where_it_has_no_room_the_call_raises_memory_error(pool):
    f, x = dlvm.jit(newton, target="gpu"), to_device(np.linspace(1.0, 2.0, 500))
    f(x, 3)
    gc.collect()
    pool.limit = pool.now + 5000
    with pytest.raises(MemoryError):
        f(x, 3)
    gc.collect()
    assert pool.now <= 5000


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_it_raises_comes_to_the_caller(pool, error):
    f, x = dlvm.jit(newton, target="gpu"), to_device(np.linspace(1.0, 2.0, 500))
    f(x, 3)
    gc.collect()
    before, pool.failing = pool.now, error
    with pytest.raises(error):
        f(x, 3)
    pool.failing = None
    gc.collect()
    assert pool.now == before


def test_threads_that_run_beside_may_allocate_meanwhile(pool):
    f, x, found = dlvm.jit(newton, target="gpu"), np.linspace(1.0, 2.0, 500), []
    f(x, 3)
    threads = [threading.Thread(target=lambda: found.append(f(x, 200)[1])) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 3 and len(set(found)) == 1
