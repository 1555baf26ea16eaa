"""Loops over the bits of numbers: values, overflows and loops that never end are those of plain Python."""

import numpy as np
import pytest
from signals import interrupted

import dlvm_py as dlvm


def hamming(a, b):
    total = 0
    for i in range(a.shape[0]):
        v = int(a[i]) ^ int(b[i])
        c = 0
        while v:
            c += v & 1
            v >>= 1
        total += c
    return total


def cleared(cells, first):
    """Counts from `first` on, which may be near the end of 64 bits."""
    total = first
    for k in range(cells):
        b = np.uint64(0xF0F0) << np.uint64(k)
        while b:
            b &= b - np.uint64(1)
            total += 1
    return total


def digits(x, first):
    total = first
    for i in range(x.size):
        v = int(x[i])
        while v != 0:
            total += v % 10
            v //= 10
    return total


def length(x):
    n = 0
    while x != 0:
        x >>= 1
        n += 1
    return n


def test_bits_are_counted():
    """As Python counts them, for the numbers of any sign that a xor can have."""
    r = np.random.default_rng(0)
    a, b = r.integers(0, 2**62, 50), r.integers(0, 2**62, 50)
    assert dlvm.jit(hamming)(a, b) == hamming(a, b)
    assert dlvm.jit(hamming)(a[:0], b[:0]) == 0
    compiled = dlvm.jit(length)
    assert [compiled(n) for n in (0, 1, 2, 3, 2**40, 2**63 - 1)] == [0, 1, 2, 2, 41, 63]
    for cells in (0, 1, 5, 60):
        assert dlvm.jit(cleared)(cells, 3) == cleared(cells, 3)
    x = r.integers(0, 10**15, 30)
    assert dlvm.jit(digits)(x, -7) == digits(x, -7)


@pytest.mark.parametrize("room", [0, 7, 8, 9, 100])
def test_sums_overflow_where_they_did(room):
    """Near the end of 64 bits the sum is asked in each trip."""
    compiled = dlvm.jit(cleared)
    expected = cleared(1, 2**63 - 1 - room)
    if expected < 2**63:
        assert compiled(1, 2**63 - 1 - room) == expected
    else:
        with pytest.raises(OverflowError):
            compiled(1, 2**63 - 1 - room)
    assert compiled(2, -(2**63)) == cleared(2, -(2**63))


def test_bits_by_one_instruction():
    """LLVM knows a loop that clears bits, once nothing else is asked in it."""
    compiled = dlvm.jit(cleared)
    compiled(3, 1)
    assert "llvm.ctpop" in compiled.llvm()


def test_a_loop_that_never_ends_can_be_left():
    """A negative number is never halved to 0; a signal ends the loop, as in Python."""
    compiled = dlvm.jit(length)
    assert compiled(1) == 1
    with interrupted():
        compiled(-5)
