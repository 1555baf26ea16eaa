"""target="gpu": what a call asks of the device beside its kernels, and where its arguments may hold arrays."""

import ctypes
import gc
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.runtime.gpu.arrays import to_device
from dlvm_py.runtime.gpu.device import Device, device, live

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_SIGNATURES = {
    "cuMemAllocAsync": (_POINTER, _SIZE, _POINTER),
    "cuMemFreeAsync": (_POINTER, _POINTER),
    "cuMemcpyHtoDAsync_v2": (_POINTER, _POINTER, _SIZE, _POINTER),
    "cuMemcpyDtoHAsync_v2": (_POINTER, _POINTER, _SIZE, _POINTER),
    "cuStreamSynchronize": (_POINTER,),
    "cuLaunchKernel": (_POINTER, *[ctypes.c_uint] * 7, _POINTER, _POINTER, _POINTER),
}
STREAM = 0x5EA


class Asked:
    """What the device is asked while a call runs: `counts` of functions, bytes `copied` to the host, `most` arrays.

    streams: those that anything was asked on. The current one is `STREAM`.
    """

    def __init__(self, monkeypatch):
        self.kept, on = [], device()
        self.clear()
        for name, types in _SIGNATURES.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *types)
            noted = kind(self._noting(name, kind(on.imports[f"cuda:{name}"])))
            self.kept.append(noted)
            monkeypatch.setitem(on.imports, f"cuda:{name}", ctypes.cast(noted, _POINTER).value)
            monkeypatch.setitem(on._call, name, noted)
        monkeypatch.setattr(Device, "enter", lambda self: STREAM)

    def clear(self):
        self.counts, self.copied, self.streams, self.now, self.most = Counter(), [], set(), 0, 0

    def _noting(self, name, function):
        def called(*args):
            self.counts[name] += 1
            self.streams.add(args[8] if name == "cuLaunchKernel" else args[-1])
            self.now += {"cuMemAllocAsync": 1, "cuMemFreeAsync": -1}.get(name, 0)
            self.most = max(self.most, self.now)
            if name == "cuMemcpyDtoHAsync_v2":
                self.copied.append(args[2])
            return function(*args)

        return called


@pytest.fixture
def asked(monkeypatch):
    monkeypatch.setenv("DLVM_GPU", "emulator")
    return Asked(monkeypatch)


@pytest.fixture(autouse=True)
def emulator(monkeypatch):
    monkeypatch.setenv("DLVM_GPU", "emulator")


def newton(x):
    y = x + 1.0
    while np.abs(y * y - x).max() > 1e-9:
        y = 0.5 * (y + x / y)
    return y


def test_a_condition_fetches_one_number_and_temporaries_are_given_back(asked):
    compiled, host, rounds = dlvm.jit(newton, target="gpu"), np.linspace(1.0, 2.0, 50), 1
    x = to_device(host)
    compiled(x)
    asked.clear()
    before = live()
    got = compiled(x)
    y = host + 1.0
    while np.abs(y * y - host).max() > 1e-9:
        y, rounds = 0.5 * (y + host / y), rounds + 1
    assert asked.copied == [8] * rounds and not asked.counts["cuMemcpyHtoDAsync_v2"]
    # waiting is for these numbers alone; all is on the current stream
    assert asked.counts["cuStreamSynchronize"] == rounds and asked.streams == {STREAM}
    # the result stays; no round keeps anything
    assert asked.now == 1 and asked.most <= 4 and live() == before + 1
    np.testing.assert_allclose(got.numpy(), y, 1e-14)
    assert got.__cuda_array_interface__["stream"] == STREAM


def loss(u, n):
    for _ in range(n):
        u = np.sin(u) * u
    return np.sum(u)


def test_tapes_are_on_the_device_and_keep_to_the_budget(asked, monkeypatch):
    host, n, most = np.linspace(0.5, 1.5, 800), 200, {}
    x, u, expected = to_device(host), host, np.ones(800)
    for _ in range(n):
        u, expected = np.sin(u) * u, expected * (np.cos(u) * u + np.sin(u))
    # the tape is 1.3 MB, the limit a quarter of the device
    monkeypatch.setattr(device(), "memory", 4 * 2**20)
    for checkpoint in ("auto", 100_000):
        compiled = dlvm.grad(dlvm.jit(loss, target="gpu", checkpoint=checkpoint))
        compiled(x, n)
        asked.clear()
        got = compiled(x, n)
        # of the loss nothing is asked for, and nothing else leaves the device
        assert asked.copied == [] and not asked.counts["cuMemcpyHtoDAsync_v2"]
        most[checkpoint] = asked.most
        np.testing.assert_allclose(got.numpy(), expected, 1e-12)
    # a state is 6.4 kB
    assert most["auto"] < 170 and most[100_000] < 25, most


def left_early(x, n):
    s = x
    t = 0.5
    for i in range(n):
        s = np.sin(s) * x if s[0] > 0.5 else s + x
        t = np.sin(t) * x[i]
        if t > 0.8:
            break
    return np.sum(s * x) * t


def test_pullbacks_keep_what_stacks_held_on_the_device():
    """A recorded call of a loop without a count: tapes that grew are drained into arrays of the device."""
    host, before = np.linspace(0.13, 1.0, 5), live()
    x, compiled = to_device(host), dlvm.jit(left_early, target="gpu")
    for n in (0, 5):
        value, pullback = dlvm.vjp(compiled, x, n)
        assert value == pytest.approx(left_early(host, n), rel=1e-14)
        steps = 1e-6 * np.eye(5)
        slopes = [(left_early(host + h, n) - left_early(host - h, n)) / 2e-6 for h in steps]
        for seed in (2.0, -1.0):
            np.testing.assert_allclose(pullback(seed)[0].numpy(), seed * np.array(slopes), 1e-7)
    del x, pullback
    gc.collect()
    assert live() == before


class Far:
    """An array of somebody else's on the device."""

    def __init__(self, array):
        self.there = to_device(array)

    @property
    def __cuda_array_interface__(self):
        return self.there.__cuda_array_interface__


@dataclass
class Pair:
    a: object
    b: object


class Both(NamedTuple):
    a: object
    b: object


def product(x, y):
    return np.sum(x * y * y)


def of_pair(p):
    return np.sum(p.a * p.b * p.b)


def of_items(p):
    return np.sum(p[0] * p[1] * p[1])


def of_dict(p):
    return np.sum(p["a"] * p["b"] * p["b"])


def of_all(*p):
    return np.sum(p[0] * p[1] * p[1])


_ONES = np.ones(3)
# name: (a call with arrays of the device (d) and of the host (h), what the message says)
MIXED = {
    "second": (lambda j, d, h: j(product)(d, h), "argument 'y' of product"),
    "first": (lambda j, d, h: j(product)(h, d), "argument 'x' of product.* and 'y' is on the device"),
    "keyword": (lambda j, d, h: j(product)(y=h, x=d), "argument 'y' of product"),
    "grad": (lambda j, d, h: dlvm.grad(j(product))(d, h), "argument 'y' of product"),
    "value_and_grad": (lambda j, d, h: dlvm.value_and_grad(j(product))(x=h, y=d), "argument 'x' of product"),
    "jvp": (lambda j, d, h: dlvm.jvp(j(product), (d, d), (d, h)), "argument 'y_tangent' of product"),
    "vjp": (lambda j, d, h: dlvm.vjp(j(product), d, h), "argument 'y' of product"),
    "pullback": (lambda j, d, h: dlvm.vjp(j(np_square), d)[1](h), "argument 'seed' of np_square"),
    "seed": (lambda j, d, h: dlvm.grad(j(np_square), seedable=True)(d, h), "argument 'seed' of np_square"),
    "tuple": (lambda j, d, h: j(of_items)((d, h)), "item 1 of argument 'p' of of_items"),
    "list": (lambda j, d, h: j(of_items)([d, h]), "item 1 of argument 'p' of of_items"),
    "named tuple": (lambda j, d, h: j(of_pair)(Both(h, d)), "the field `a` of argument 'p'.* and the field `b` of"),
    "dataclass": (lambda j, d, h: j(of_pair)(Pair(d, h)), "the field `b` of argument 'p' of of_pair"),
    "dict": (lambda j, d, h: j(of_dict)({"a": d, "b": h}), "the value of 'b' in argument 'p' of of_dict"),
    "variadic": (lambda j, d, h: j(of_all)(d, h), "item 1 of argument 'p' of of_all"),
}


def np_square(x):
    return x * x


@pytest.mark.parametrize("name", MIXED)
def test_mixing_host_and_device_names_what_is_where(name):
    call, words = MIXED[name]
    for target in ("gpu", "cpu")[: 1 if name == "pullback" else 2]:
        with pytest.raises(dlvm.ArgumentError, match=words) as found:
            call(lambda f, target=target: dlvm.jit(f, target=target), Far(_ONES), _ONES)
        assert found.value.code == "DL711"
    del found
    gc.collect()  # what the exception's frames have


def test_structures_may_hold_arrays_of_the_device():
    gc.collect()
    before, d = live(), Far(np.arange(3.0))
    for function, p in [(of_pair, Pair(d, d)), (of_dict, {"a": d, "b": d})]:
        assert dlvm.jit(function)(p) == 9.0
    derived = dlvm.grad(dlvm.jit(of_pair, target="gpu"))(Pair(d, d))
    np.testing.assert_array_equal(derived.b.numpy(), 2.0 * np.arange(3.0) ** 2)
    # what is returned of them is the user's
    assert dlvm.jit(lambda p: p.a)(Pair(d, 1.0)) is d and dlvm.jit(lambda p: p.a)(Pair(d.there, 1.0)) is d.there
    del derived
    gc.collect()
    assert live() == before + 1


def doubled(p):
    p.a = p.a * 2.0
    return np.sum(p.a)


def test_structures_that_are_changed_hold_arrays_of_ours():
    p, q = Pair(to_device(_ONES), 1.0), Pair(Far(_ONES), 1.0)
    assert dlvm.jit(doubled, target="gpu")(p) == 6.0
    np.testing.assert_array_equal(p.a.numpy(), 2.0 * _ONES)
    with pytest.raises(dlvm.ArgumentError, match=r"doubled\(\) changes or returns 'p', which holds arrays"):
        dlvm.jit(doubled, target="gpu")(q)
    assert isinstance(q.a, Far)
