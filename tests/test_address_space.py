"""Code is linked wherever the process has room for it, as where a GPU's driver has reserved most of its addresses."""

import sys

import pytest
from processes import run_program

PROGRAM = """
import ctypes
import sys

import numpy as np

import dlvm_py as dlvm

PAGE, APART = 4096, 4 << 30
RESERVED = 0x2 | 0x20 | 0x4000  # private, anonymous, without memory behind it
INSTEAD = 0x100000  # where it is asked for, or not at all

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_uint64
libc.mmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t]


def reserve(nbytes, at=0):
    return libc.mmap(at, nbytes, 0, RESERVED | (INSTEAD if at else 0), -1, 0)


def fragment():
    '''Leave holes of 1 page and of 32 pages, in turn, which are farther apart than what an instruction can name.'''
    with open("/proc/self/maps") as lines:
        taken = [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in lines]
    for (_, end), (start, _) in zip(taken, taken[1:]):
        if end < start and start - end < 1 << 40:
            reserve(start - end, end)
    for k in range(80):
        libc.munmap(reserve(APART) + APART // 2, PAGE * (32 if k % 2 else 1))
    last, found = reserve(20 * PAGE), reserve(20 * PAGE)
    while abs(last - found) < APART:  # what is left between others is used up
        last, found = found, reserve(20 * PAGE)


@dlvm.jit
def mixed(a, b, rng):
    c = np.empty_like(b)
    for i in range(len(b)):
        c[i] = b[i] % 0.3 + np.exp(a[i, 0])
    return np.sum(np.tanh(a @ c)), np.sort(c), np.where(c > 1.0, c, -c).astype(np.float32), rng.standard_gamma(2.0)


@dlvm.jit
def loss(a, b):
    return np.sum(np.tanh(a @ b) ** 2)


def close(got, expected):
    assert all(np.allclose(p, q, 1e-6) for p, q in zip(got, expected, strict=True)), (got, expected)


dlvm.jit(lambda x: x + 1.0)(1.0)  # the linker is there, and the modules that it needs
fragment()
a = np.random.default_rng(0).random((40, 40))
b = a[0].copy()
close(mixed(a, b, np.random.default_rng(1)), mixed.__wrapped__(a, b, np.random.default_rng(1)))
t = np.tanh(a @ b)
s = 2.0 * t * (1.0 - t * t)
close(dlvm.grad(loss, wrt=(0, 1))(a, b), (s[:, None] * b[None, :], s @ a))
close([dlvm.jit(lambda x: np.cumsum(np.sqrt(x)), parallel=True)(np.ones(1 << 16))[-1:]], [[1 << 16]])
print("done")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what is reserved is read from /proc")
def test_where_what_is_free_is_far_apart(tmp_path):
    assert run_program(PROGRAM, tmp_path).stdout == "done\n"
