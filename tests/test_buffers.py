"""The memory that is kept for the next arrays: who gets it, how much is kept, what never happens to it."""

import ctypes
import threading

import numpy as np
import pytest
from processes import run_program

import dlvm_py as dlvm
from dlvm_py.runtime import buffers
from dlvm_py.runtime.native import standing

MiB = 2**20


def handler(name, result, *types):
    """A function of NumPy's handler of our memory."""
    return ctypes.CFUNCTYPE(result, ctypes.c_void_p, *types)(standing.code()[f"dlvm.handler.{name}"])


SIZE, POINTER = ctypes.c_size_t, ctypes.c_void_p
_malloc, _calloc = handler("malloc", POINTER, SIZE), handler("calloc", POINTER, SIZE, SIZE)
_realloc, _free = handler("realloc", POINTER, POINTER, SIZE), handler("free", None, POINTER, SIZE)


@pytest.fixture(autouse=True)
def _empty():
    """Nothing is kept before and after a test, and the limit is the default one."""
    dlvm.free_buffers()
    limit = buffers.state().limit
    yield
    buffers.state().limit = limit
    dlvm.free_buffers()


@dlvm.jit
def plus_one(x):
    return x + 1.0


def test_the_memory_of_a_dropped_result_is_the_next_ones():
    x = np.arange(100_000.0)
    plus_one(x)
    first = plus_one(x)
    place = first.ctypes.data
    second = plus_one(x)
    assert second.ctypes.data != place
    del first
    third = plus_one(2 * x)
    assert third.ctypes.data == place
    np.testing.assert_array_equal(second, x + 1)
    np.testing.assert_array_equal(third, 2 * x + 1)


def test_a_view_keeps_its_memory():
    x = np.arange(5_000.0)
    view = plus_one(x)[10:20]
    others = [plus_one(x) for _ in range(3)]
    np.testing.assert_array_equal(view, np.arange(11.0, 21.0))
    assert not any(np.shares_memory(view, o) for o in others)


def test_a_result_can_be_resized():
    x = np.arange(1_000.0)
    y = plus_one(x)
    for n in (3_000, 900_000, 10, 2_000):
        y.resize(n, refcheck=False)
        y[:] = n
        assert np.all(plus_one(y) == n + 1) and np.all(y == n)
    del y
    assert plus_one(x).ctypes.data % 64 == 0


def test_blocks_are_apart_aligned_and_as_large_as_their_class():
    """Every size around the borders of classes; what is handed out again holds the bytes that it was asked for."""
    sizes = [n + d for e in range(6, 23) for n in (1 << e, 9 << e - 3, 15 << e - 3) for d in (-63, -1, 0, 1, 64)]
    for _ in range(2):  # new memory, then kept memory
        blocks = []
        for number, n in enumerate(sizes):
            p = _malloc(None, n)
            assert p % (64 if n > 1024 else 16) == 0
            ctypes.memset(p, number % 251, n)
            blocks.append((p, n, number % 251))
        assert all(ctypes.string_at(p, n) == bytes([fill]) * n for p, n, fill in blocks[::7])
        ends = sorted((p, p + n) for p, n, _ in blocks)
        assert all(end <= start for (_, end), (start, _) in zip(ends, ends[1:], strict=False))
        for p, n, _ in blocks:
            _free(None, p, n)
        assert sum(sizes) <= buffers.kept_bytes() <= 1.13 * sum(sizes) + 64 * len(sizes)


def test_the_handler_keeps_to_its_contract():
    p = _malloc(None, 100_000)
    ctypes.memset(p, 255, 100_000)
    _free(None, p, 100_000)
    assert _calloc(None, 25_000, 4) == p and not any(ctypes.string_at(p, 100_000))  # cleared, though it was used
    ctypes.memset(p, 7, 100_000)
    p = _realloc(None, p, 300_000)
    assert ctypes.string_at(p, 100_000) == b"\7" * 100_000
    _free(None, p, 300_000)
    _free(None, None, 5_000)
    assert _calloc(None, 2**33, 2**33) is None and _malloc(None, 2**64 - 1) is None
    assert _realloc(None, None, 2**64 - 1) is None
    p = _malloc(None, 0)
    assert p
    _free(None, p, 0)


def test_no_more_is_kept_than_the_limit():
    buffers.state().limit = 4 * MiB
    blocks = [_malloc(None, MiB) for _ in range(6)]
    for p in blocks:
        _free(None, p, MiB)
    assert buffers.kept_bytes() == 4 * MiB
    _free(None, _malloc(None, 5 * MiB), 5 * MiB)
    assert buffers.kept_bytes() == 4 * MiB
    assert dlvm.free_buffers() == 4 * MiB
    assert buffers.kept_bytes() == 0


def test_a_limit_of_zero_keeps_nothing():
    buffers.state().limit = 0
    x = np.arange(5_000.0)
    for _ in range(3):
        np.testing.assert_array_equal(plus_one(x), x + 1)
    assert buffers.kept_bytes() == 0


def test_what_nobody_asks_for_any_more_makes_room():
    """The sizes of a program change: after as many bytes as the limit the old blocks are gone."""
    buffers.state().limit = 4 * MiB
    for p in [_malloc(None, MiB) for _ in range(4)]:
        _free(None, p, MiB)
    for _ in range(12):
        p = _malloc(None, MiB // 2)
        _free(None, p, MiB // 2)
    assert buffers.kept_bytes() == MiB // 2
    assert _malloc(None, MiB // 2) == p
    _free(None, p, MiB // 2)


def test_a_lock_that_is_taken_is_not_waited_for():
    """As in a child that was forked while another thread held it."""
    x = np.arange(5_000.0)
    plus_one(x)
    buffers.state().lock = 1
    try:
        np.testing.assert_array_equal(plus_one(x), x + 1)
        assert dlvm.free_buffers() == 0
    finally:
        buffers.state().lock = 0


def test_threads_never_share_a_block():
    sizes = [2_000, 5_000, 70_000]
    wrong = []

    def work(number):
        rng = np.random.default_rng(number)
        held = []
        for _ in range(300):
            x = np.full(sizes[rng.integers(3)], number + rng.random())
            held.append((plus_one(x), x))
            if len(held) > 4:
                y, was = held.pop(rng.integers(5))
                if not np.array_equal(y, was + 1):
                    wrong.append(number)

    plus_one(np.zeros(3))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_arrays_of_an_error_come_back():
    @dlvm.jit
    def fails(x):
        y = x * 2.0
        z = y + np.sum(y)
        if z[0] > 0:
            raise ValueError("positive")
        return y + z

    x = np.ones(50_000)
    for _ in range(3):
        with pytest.raises(ValueError, match="positive"):
            fails(x)
        kept = dlvm.free_buffers()
        assert kept >= 2 * x.nbytes


_PROGRAM = """
import os
import numpy as np
import dlvm_py as dlvm
from dlvm_py.runtime import buffers

@dlvm.jit
def f(x):
    return x + 1.0

x = np.ones(100_000)
f(x)
del_me = f(x)
del del_me
kept = buffers.kept_bytes()
print(800_000 <= kept <= 900_000)
child = os.fork()
if not child:
    alike = np.array_equal(f(x), x + 1) and buffers.kept_bytes() == kept
    os._exit(0 if alike else 1)
print(os.waitpid(child, 0)[1])
last = f(x)  # is freed when the interpreter is gone
"""


def test_processes(tmp_path):
    """DLVM_BUFFERS bounds what is kept; a forked child goes on with its copy; the end of a process frees results."""
    done = run_program(_PROGRAM, tmp_path, DLVM_BUFFERS="1")
    assert (done.stdout.split(), done.stderr) == (["True", "0"], "")


def test_hoisted_allocations_fail_where_they_stood():
    """A loop that is not entered allocates nothing, however its sizes look; else a bad size fails in its round."""

    @dlvm.jit
    def rounds(count, size, log):
        total = 0.0
        for k in range(count):
            log[0] += 1.0
            work = np.empty(size)
            work[:] = k + 1.0
            total += np.sum(work * work)
        return total

    log = np.zeros(1)
    assert rounds(3, 2, log) == 28.0 and log[0] == 3
    assert rounds(0, -1, log) == 0.0 and rounds(0, 2**60, log) == 0.0
    with pytest.raises(ValueError, match="negative dimensions are not allowed"):
        rounds(3, -1, log)
    assert log[0] == 4


def test_a_small_array_with_gaps_is_a_view():
    """A strided result is not taken for the whole of an allocation of one cache line."""
    real_part = dlvm.jit(lambda c: (np.array([1.0 + 5j, 2.0, 3.0]) * c).real)
    for _ in range(2):  # by the Python entry, by the native one
        assert real_part(2.0).tolist() == [2.0, 4.0, 6.0]
