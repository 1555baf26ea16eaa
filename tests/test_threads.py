"""Threads: the same bits for any number of them, and of what a process does meanwhile."""

import ctypes
import os
import sys
import threading
import time

import numpy as np
import pytest
from processes import run_program

import dlvm_py as dlvm
from dlvm_py.backend.cpu.compile import compile_module
from dlvm_py.backend.imports import Imports
from dlvm_py.runtime import threads
from dlvm_py.runtime.loader import load
from dlvm_py.runtime.native import standing

RNG = np.random.default_rng(0)


pytestmark = pytest.mark.usefixtures("eager_threads")


def elementwise(a, b, v, k):
    r = np.exp(a) * b + v
    r[1:-1, ::2] += a[1:-1, ::2] * v[::2]
    t = np.where(a.T > 0.5, b.T, -a.T) + a.T**2
    g = a[k] * 2.0
    return r, t, g, np.zeros(a.shape) + v[0], (a < b) & (b < v)


def reductions(a, c, n):
    s = a[1:-1, 1:-1]
    whole = np.sum(a), np.prod(a + 0.5), np.sum(s * s), np.sum(a * a[0]), np.mean(c), np.sum(a.T + 1.0)
    exact = np.max(a), np.min(s), np.sum(n), np.max(n * 2), np.any(a > 2.0), np.all(s > 0.0)
    return whole, exact, np.sum(a, axis=0), np.sum(a, axis=1), np.max(s, axis=0), np.min(s, axis=1), np.sum(n, axis=0)


def three_axes(x):
    y = x[:, 1:, :] - x[:, :-1, :]
    return np.sum(x, axis=0), np.sum(x, axis=1), np.sum(x, axis=2), np.sum(x, axis=(0, 2)), np.sum(y), np.max(y, axis=1)


def loss(a, w, v):
    h = np.tanh(a * w + v)
    d = h[1:] - h[:-1]
    return np.sum(d * d) + np.sum(np.sum(h, axis=0) ** 2) + np.max(h * v)


def small_types(x, y):
    return x * y + x, np.sum(x), np.sum(y), np.sum(x, axis=0), np.max(y, axis=1)


M = RNG.random((700, 500))
CASES = {
    elementwise: (M, RNG.random((700, 500)), RNG.random(500), RNG.integers(0, 700, 800)),
    reductions: (M, M + 1j * M[::-1], RNG.integers(-9, 9, (900, 500))),
    three_axes: (RNG.random((60, 70, 90)),),
    dlvm.grad(loss, wrt=(0, 1, 2)): (M, RNG.random((700, 500)), RNG.random(500)),
    small_types: (RNG.random((1100, 1000)).astype(np.float32), RNG.random((1100, 1000)).astype(np.float16)),
}


def bits(tree):
    if isinstance(tree, tuple):
        return tuple(map(bits, tree))
    return np.asarray(tree).tobytes()


@pytest.mark.parametrize(
    "f", [pytest.param(f, marks=pytest.mark.slow) if f is small_types else f for f in CASES], ids=lambda f: f.__name__
)
def test_results_have_the_same_bits_for_any_number_of_threads(f):
    args = CASES[f]
    shared = dlvm.jit(f)
    dlvm.set_num_threads(1)
    expected = bits(shared(*args))
    assert "@dlvm.share(" in shared.llvm()
    for count in (2, 3, 8):
        dlvm.set_num_threads(count)
        for _ in range(2):
            assert bits(shared(*args)) == expected
    assert 1 <= threads.workers() <= 7
    if f is three_axes:
        assert bits(dlvm.jit(f, parallel=False)(*args)) == expected  # cutting changes nothing either


def test_sums_along_axes_that_may_be_stretched():
    def stretched(x, b, k, j):
        return np.sum(np.tanh(x * b[:k, :j]) ** 2)

    alone, shared = (dlvm.grad(dlvm.jit(stretched, parallel=p), wrt=(0, 1)) for p in (False, True))
    dlvm.set_num_threads(3)
    x, b = RNG.random((900, 400)), RNG.random((900, 400))
    for k, j in ((900, 400), (1, 400), (900, 1), (1, 1)):
        assert bits(shared(x, b, k, j)) == bits(alone(x, b, k, j))
    assert "unbroadcast " in shared.ir(x, b, 1, 1, stage="scheduled")


def test_lengths_around_the_borders_of_blocks_and_groups():
    def total(x):
        return np.sum(x), np.sum(np.sqrt(x)), np.max(x)

    plain, shared = dlvm.jit(total, parallel=False), dlvm.jit(total)
    big = RNG.random(600_000)
    for n in (0, 1, 1023, 1024, 1025, 65536, 65537, 262144, 262145, 524288 - 1, 524288, 524289, 600_000):
        if n:
            assert bits(plain(big[:n])) == bits(shared(big[:n])), n
        else:
            with pytest.raises(ValueError, match="zero-size"):
                shared(big[:0])


def test_small_kernels_of_loops_are_not_cut():
    def rows(a):
        for i in range(a.shape[0]):
            for j in range(i):
                a[i, :j] -= a[j, :j]

    f = dlvm.jit(rows, cache=False)
    f(np.ones((5, 5)))
    assert "@dlvm.share(" not in f.llvm()


def test_the_number_of_threads_is_checked():
    for wrong in (0, -1, 2.0, True, 5000):
        with pytest.raises(dlvm.ArgumentError, match="number of threads"):
            dlvm.set_num_threads(wrong)
    dlvm.set_num_threads(3)
    assert dlvm.get_num_threads() == 3


def test_threads_of_python_call_at_once():
    f = dlvm.jit(reductions)
    args = CASES[reductions]
    expected = bits(f(*args))
    wrong = []

    def call():
        for _ in range(4):
            if bits(f(*args)) != expected:
                wrong.append(1)

    dlvm.set_num_threads(3)
    callers = [threading.Thread(target=call) for _ in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


# adds 1 to the words first to last, of which there are some, behind `start`
ADDS = """loop:
  %k = phi i64 [ %first, %start ], [ %next, %loop ]
  %at = getelementptr i64, ptr %words, i64 %k
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

# a part adds 1 to the words first to last, each by a nested region of one chunk a word
NESTED = (
    """
declare void @dlvm.parallel(ptr, ptr, i64, i64)
define internal void @one(ptr %words, i64 %first, i64 %last) {
start:
  br label %loop
"""
    + ADDS
    + """define internal void @many(ptr %words, i64 %first, i64 %last) {
  %from = getelementptr i64, ptr %words, i64 %first
  %count = sub i64 %last, %first
  call void @dlvm.parallel(ptr @one, ptr %from, i64 %count, i64 1)
  ret void
}
define void @run(ptr %words, i64 %n, i64 %size) {
  call void @dlvm.parallel(ptr @many, ptr %words, i64 %n, i64 %size)
  ret void
}
"""
)


def test_nested_regions_run_alone_and_every_chunk_runs_once():
    imports = Imports()
    done = compile_module([NESTED], imports, ["run"])
    code = load(done.object, imports.names, ["run"], {}, standing.links(done.shared))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code["run"])
    dlvm.set_num_threads(4)
    for n, size in ((0, 1), (1, 1), (7, 3), (1000, 1), (1000, 7), (5, 100)):
        words = np.zeros(n + 1, np.int64)
        for _ in range(50):
            run(words.ctypes.data, n, size)
        assert (words[:n] == 50).all() and words[n] == 0


PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import dlvm_py as dlvm
from dlvm_py.runtime import threads

def scaled(a, n):
    for _ in range(n):
        a = np.cos(a) * 1.5
    return a, np.sum(a)

f = dlvm.jit(scaled)
others = len(os.listdir("/proc/self/task"))  # the main one, and those of NumPy's BLAS
a = np.linspace(0.0, 1.0, 200_000)
expected = f(a, 1)

def agrees():
    found = f(a, 1)
    return found[1] == expected[1] and found[0].tobytes() == expected[0].tobytes()

def in_child(check):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if check() else 1)
    return os.waitpid(pid, 0)[1] == 0

wanted = dlvm.get_num_threads() - 1
threads.set_penalty(0)
assert agrees() and threads.workers() == wanted, threads.workers()
assert len(os.listdir("/proc/self/task")) == others + wanted
# a child has none of the threads, and makes its own; so has the child of another thread, while regions run
assert in_child(lambda: agrees() and threads.workers() == wanted and in_child(agrees))
busy = threading.Thread(target=f, args=(a, 50))
busy.start()
for _ in range(3):
    assert in_child(agrees)
busy.join()
# signals go to the threads of Python alone, and end a loop of shared kernels (in the background SIGINT is ignored)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    f(a, 1_000_000)
except KeyboardInterrupt:
    assert agrees()
    print("interrupted")
assert len(os.listdir("/proc/self/task")) <= others + 1 + wanted  # the timer may not be gone yet
"""


def output(text, count, folder):
    """What a process of its own with so many threads prints. It may fork while threads run, of which Python warns."""
    return run_program(text, folder, DLVM_NUM_THREADS=str(count), PYTHONWARNINGS="ignore").stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
@pytest.mark.parametrize("count", [1, 3])
def test_forks_signals_and_the_end_of_a_process(count, tmp_path):
    assert output(PROGRAM, count, tmp_path) == "interrupted\n"


def test_a_number_in_the_environment_that_is_none_is_an_error(monkeypatch):
    for wrong in ("0", "two", "-1", "9999"):
        monkeypatch.setenv("DLVM_NUM_THREADS", wrong)
        with pytest.raises(dlvm.ArgumentError, match="DLVM_NUM_THREADS"):
            threads._wanted()
    monkeypatch.setenv("DLVM_NUM_THREADS", "5")
    assert threads._wanted() == 5


APART = """
import os, time
import numpy as np
import dlvm_py as dlvm
from dlvm_py.runtime import threads

allowed = os.sched_getaffinity(0)
f = dlvm.jit(lambda a: np.cos(a) * 1.5)
a = np.linspace(0.0, 1.0, 200_000)
threads.set_penalty(0)
before = set(os.listdir("/proc/self/task"))
f(a)
(worker,) = [int(t) for t in set(os.listdir("/proc/self/task")) - before]

def cores():
    time.sleep(0.05)  # it parks, and is woken
    f(a)
    return os.sched_getaffinity(worker)

found = cores()
assert found < allowed and len(found) == len(allowed) - 1 or found == allowed and len(allowed) == 1, found
one = min(allowed)
os.sched_setaffinity(0, {one})
assert cores() == found  # no core is left beside the caller's
os.sched_setaffinity(0, allowed)
assert cores() < allowed or len(allowed) == 1
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks for the processors of a thread")
def test_a_worker_is_not_woken_on_the_core_of_the_caller(tmp_path):
    output(APART, 2, tmp_path)


LOSING = """
import ctypes, os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # a second thread can only cost
import numpy as np
import dlvm_py as dlvm
from dlvm_py.runtime import threads

f = dlvm.jit(lambda a: np.cos(a) * 1.5)
a = np.linspace(0.0, 1.0, 200_000)
pause, credit = (ctypes.c_int64.from_address(threads.state() + at) for at in (240, threads._CREDIT))
f(a)
for _ in range(400):  # what has been won pays, unless this process was away for longer than that
    credit.value, pause.value = 10_000_000, 0
    f(a)
    if not pause.value and credit.value < 10_000_000:
        break
assert not pause.value and 0 <= credit.value < 10_000_000
for _ in range(1000):
    credit.value = 0
    f(a)
    if pause.value:
        print("paused")
        break
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="sets the processors of a process")
def test_what_was_won_pays_for_a_loss(tmp_path):
    assert output(LOSING, 2, tmp_path) == "paused\n"


# a part adds 1 to the words first to last, and to the number of parts before them
COUNTED = (
    """
declare void @dlvm.share(ptr, ptr, i64, i64, i64, i64, i64)
define internal void @one(ptr %words, i64 %first, i64 %last) {
start:
  %before = getelementptr i64, ptr %words, i64 -1
  %parts = atomicrmw add ptr %before, i64 1 monotonic
  %is_some = icmp slt i64 %first, %last
  br i1 %is_some, label %loop, label %done
"""
    + ADDS
    + """define void @run(ptr %words, i64 %n, i64 %multiple, i64 %times) {
start:
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
  call void @dlvm.share(ptr @one, ptr %words, i64 %n, i64 60000, i64 100000, i64 12500, i64 %multiple)
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
)


@pytest.mark.parametrize("count", [2, 4, 12])
def test_brief_kernels_are_shared_by_who_is_awake_and_every_part_runs_once(count):
    imports = Imports()
    done = compile_module([COUNTED], imports, ["run"])
    code = load(done.object, imports.names, ["run"], {}, standing.links(done.shared))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)(code["run"])
    dlvm.set_num_threads(count)
    for n, multiple in ((20_000, 1), (20_000, 64), (20_001, 4), (2, 1), (3, 2), (64, 64), (1, 1)):
        words, times, until = np.zeros(n + 2, np.int64), 0, time.monotonic() + 60
        while True:
            run(words[1:].ctypes.data, n, multiple, 50)
            times += 50
            assert (words[1:-1] == times).all() and words[-1] == 0
            assert words[0] == times or n > multiple
            # a busy machine has no core for a worker for a while
            if words[0] > times or (n, multiple) != (20_000, 1) and times == 500:
                break
            assert time.monotonic() < until, "no kernel was shared"
    dlvm.set_num_threads(1)
    words = np.zeros(102, np.int64)
    run(words[1:].ctypes.data, 100, 1, 500)
    assert (words[1:-1] == 500).all() and words[0] == 500


BRIEF = """
import os, signal, sys, threading
import numpy as np
import dlvm_py as dlvm

if {pinned}:
    os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})  # all threads on one core

def steps(a, n):
    b = a.copy()
    for _ in range(n):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])
    return a, np.sum(a), np.max(b, axis=0)

f = dlvm.jit(steps)
a = np.random.default_rng(0).random((151, 150))

def bits(n):
    found = f(a.copy(), n)
    return [np.asarray(r).tobytes() for r in found]

count = dlvm.get_num_threads()
dlvm.set_num_threads(1)
expected = bits(600)
dlvm.set_num_threads(count)

def agrees():
    return all(bits(600) == expected for _ in range(3))

def in_child(check):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if check() else 1)
    return os.waitpid(pid, 0)[1] == 0

assert agrees()
assert in_child(lambda: agrees() and in_child(agrees))
wrong = []
callers = [threading.Thread(target=lambda: agrees() or wrong.append(1)) for _ in range(3)]
for t in callers:
    t.start()
assert in_child(agrees)
for t in callers:
    t.join()
assert not wrong and agrees()
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    f(a.copy(), 10_000_000)
except KeyboardInterrupt:
    assert agrees()
    print("interrupted")
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="sets the processors of a process")
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("count", [2, 4])
def test_loops_of_brief_kernels_have_the_same_bits_whoever_is_awake(count, pinned, tmp_path):
    assert output(BRIEF.format(pinned=pinned), count, tmp_path) == "interrupted\n"
