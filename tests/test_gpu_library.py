"""target="gpu": what libraries compute, beside kernels, in one program."""

import contextlib
import ctypes
import sys
import types

import numpy as np
import pytest
from gpu_programs import LIBRARY, factored, loss, ordered, transformed
from test_gpu import There

import dlvm_py as dlvm
from dlvm_py.backend.gpu import lines
from dlvm_py.runtime.gpu import library
from dlvm_py.runtime.gpu.device import Device, live


@pytest.fixture(autouse=True)
def emulator(monkeypatch):
    monkeypatch.setenv("DLVM_GPU", "emulator")


def _of(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(("function", "make"), LIBRARY)
def test_numbers_are_those_of_numpy(function, make):
    given, plain, before = make(), make(), live()
    got, expected = dlvm.jit(function, target="gpu")(*given), function(*plain)
    for a, b in zip((*got, *given), (*expected, *plain), strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)
        assert np.asarray(a).dtype == np.asarray(b).dtype
    assert live() == before


def test_gradients_go_through_libraries():
    a, b = _of(3, 3) + 3.0 * np.eye(3), _of(3, seed=1)
    got, expected = (dlvm.grad(f, wrt=(0, 1))(a, b) for f in (dlvm.jit(loss, target="gpu"), loss))
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_allclose(x, y, 1e-12)


def test_exceptions_of_a_library_are_those_of_numpy():
    before = live()
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        dlvm.jit(lambda a: np.linalg.solve(a, a), target="gpu")(np.zeros((2, 2)))
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        dlvm.jit(lambda a: np.linalg.eigh(a)[0], target="gpu")(np.full((3, 3), np.nan))
    assert live() == before


# -- CuPy, as far as it is used ----------------------------------------------------------------------------


class Imagined:
    """An array as CuPy's are: in memory of the device, no array for NumPy, answers NumPy's functions by its own."""

    called: list = []

    def __init__(self, shape, dtype, pointer, strides):
        memory = (ctypes.c_char * pointer.nbytes).from_address(pointer.address)
        self.of = np.ndarray(shape, dtype, memory, strides=strides)

    @classmethod
    def around(cls, value):
        """What a function gives, arrays of the device again; a number is an array of rank 0."""
        if isinstance(value, tuple | list):
            return (
                type(value)(map(cls.around, value)) if type(value) in (tuple, list) else tuple(map(cls.around, value))
            )
        found = cls.__new__(cls)
        found.of = np.asarray(value)
        return found

    def __array__(self, *more):
        raise TypeError("no copy to the host that nobody asked for")

    def __array_function__(self, function, given, args, kwargs):
        if function is np.linalg.eig:
            return NotImplemented
        self.called.append(function.__name__)
        return Imagined.around(function(*map(inner, args), **{k: inner(v) for k, v in kwargs.items()}))

    def __getattr__(self, name):
        if name not in ("shape", "dtype", "ndim", "size", "T", "astype", "conj", "all", "flags"):
            raise AttributeError(name)
        found = getattr(self.of, name)
        if callable(found):
            return lambda *args: Imagined.around(found(*args))
        return Imagined.around(found) if name == "T" else found

    def __getitem__(self, key):
        return Imagined.around(self.of[key])

    def __setitem__(self, key, value):
        assert isinstance(value, Imagined)
        self.of[key] = value.of

    def __iadd__(self, value):
        self.of += value.of
        return self

    def __isub__(self, value):
        self.of -= value.of
        return self

    def __bool__(self):
        return bool(self.of)


def inner(value):
    """The array of an Imagined, also in lists."""
    if isinstance(value, list):
        return [inner(v) for v in value]
    return value.of if isinstance(value, Imagined) else value


class Memory:
    """cupy.cuda.MemoryPointer of an address of the emulated device."""

    def __init__(self, memory, offset):
        self.address, self.nbytes = memory[0] + offset - (1 << 62), memory[1] - offset


@pytest.fixture
def cupy(monkeypatch):
    """An imagined CuPy, which reads the emulator's memory; reading by copies fails. The functions that were called."""

    found, extra = types.ModuleType("cupy"), types.ModuleType("cupyx")
    found.ndarray, found.isfinite = Imagined, lambda x: Imagined.around(np.isfinite(x.of))
    found.cuda = types.SimpleNamespace(UnownedMemory=lambda low, size, owner, device: (low, size), MemoryPointer=Memory)
    extra.errstate = lambda linalg: contextlib.nullcontext()
    monkeypatch.setitem(sys.modules, "cupy", found)
    monkeypatch.setitem(sys.modules, "cupyx", extra)
    monkeypatch.setattr(library, "has_cupy", lambda device: True)
    monkeypatch.setattr(Imagined, "called", [])
    return Imagined.called


@pytest.mark.parametrize(("function", "make"), LIBRARY)
def test_with_cupy_nothing_is_copied_to_the_host(function, make, cupy, monkeypatch):
    given, plain, before = make(), make(), live()
    there = [There(a) for a in given]
    compiled = dlvm.jit(function, target="gpu")
    with monkeypatch.context() as patched:
        patched.setattr(Device, "read", lambda *given: pytest.fail("a copy to the host"))
        got = compiled(*there)
    expected = function(*plain)
    for a, b in zip((*got, *there), (*expected, *plain), strict=True):
        np.testing.assert_allclose(a if isinstance(a, float) else a.numpy(), b, 1e-12, 1e-12)
    wanted = {
        ordered: {"sort", "argsort"},
        transformed: {"fft", "ifft"},
        factored: {"eigh", "qr", "solve", "cholesky", "det", "slogdet", "lstsq"},
    }
    assert wanted[function] <= set(cupy)
    del got, there, a
    assert live() == before


def test_what_cupy_finds_no_result_for_is_an_exception_of_numpy(cupy):
    a, before = np.zeros((2, 2)), live()
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        dlvm.jit(lambda a: np.linalg.solve(a, a), target="gpu")(a)
    assert cupy == ["solve"]
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):  # NaN is NumPy's from the beginning
        dlvm.jit(lambda a: np.linalg.eigh(a)[0], target="gpu")(np.full((3, 3), np.nan))
    np.testing.assert_array_equal(dlvm.jit(lambda x: np.sort(x), target="gpu")(np.array([np.nan, 1.0])), [1.0, np.nan])
    dlvm.jit(lambda a: np.linalg.eig(a)[0], target="gpu")(np.eye(2) + 0j)  # which CuPy does not know
    assert cupy == ["solve", "sort"] and live() == before


def products(a, b, c):
    c -= np.dot(a, b)
    return c, np.dot(c, b.T)


@pytest.mark.parametrize("installed", [True, False])
def test_large_products_are_cublas_where_there_is_cupy_else_tiles(installed, cupy, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE", "0")
    monkeypatch.setattr(lines, "LARGE", 10000)
    monkeypatch.setattr(lines, "WIDE", 100)
    monkeypatch.setattr(library, "has_cupy", lambda device: installed)
    f = dlvm.jit(products, target="gpu")
    for n in (70, 3, 1, 0):  # large; for tiles of 64 × 64, and of 16 × 16; nothing at all
        given = [_of(n, 40), _of(40, 67, seed=1), _of(n, 67, seed=2)]
        expected = products(*(x.copy() for x in given))
        for a, b in zip(f(*given), expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-12, 1e-12)
        assert cupy == (["dot"] * 2 if installed else [])
