"""target="gpu": the kernels of every program on the emulated device, their numbers against NumPy's and the CPU's.

Hardware is not needed, and not used: `make gpu-check` is for a machine that has it. Every kernel is assembled by
NVIDIA's assembler where there is one.
"""

import ctypes
import gc
import importlib
import re
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from gpu_programs import PROGRAMS, _of, chain
from processes import run_python

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import gpu as gpu_check
import gpu_compare

import dlvm_py as dlvm
from dlvm_py.backend.cpu.text import ModuleText
from dlvm_py.backend.cpu.values import V, i64
from dlvm_py.backend.gpu.emulate import OFFSET, emulated
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import Kernel
from dlvm_py.backend.imports import Imports
from dlvm_py.ir import VOID, Builder, Function, interpreter
from dlvm_py.options import Options, environment
from dlvm_py.runtime.gpu.arrays import _Tensor
from dlvm_py.runtime.gpu.device import device, live
from dlvm_py.runtime.loader import load


@pytest.fixture(autouse=True)
def emulator(monkeypatch):
    monkeypatch.setenv("DLVM_GPU", "emulator")


def same(got, expected, exact=False):
    """Whether results are alike: structure, dtype, shape, and numbers up to the order of sums."""
    if isinstance(expected, tuple):
        assert isinstance(got, tuple) and len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
        return
    assert type(got) is type(expected)
    if isinstance(expected, np.ndarray | np.generic):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        tolerance = {2: 2e-3, 4: 1e-5}.get(np.dtype(got.dtype.type(0).real.dtype).itemsize, 1e-12)
        np.testing.assert_allclose(got, expected, tolerance, tolerance)
    else:
        assert got == pytest.approx(expected, rel=1e-12)


COMPILED = {name: dlvm.jit(function, target="gpu") for name, (function, _, _) in PROGRAMS.items()}
GRADIENTS = {name: dlvm.grad(COMPILED[name], wrt=wrt) for name, (_, _, wrt) in PROGRAMS.items() if wrt}


# of "products", whose kernels they launch, of "attention", of the functions of the examples, and of test_gpu_loops.py
LIKE_OTHERS = {"products_infinite", "products_integers", "softmax", "mlp", "priced"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LIKE_OTHERS else n for n in PROGRAMS])
def test_values_and_effects_are_those_of_numpy(name):
    function, make, _ = PROGRAMS[name]
    given, expected = make(), make()
    before = live()
    with np.errstate(invalid="ignore"):
        wanted = function(*expected)
    same(COMPILED[name](*given), wanted)
    same(given, expected)
    assert live() == before


# of others, of the functions of the examples, or of test_gpu_loops.py
SIBLINGS = {
    "chain_strided", "chain_f32", "broadcasts", "recurrence", "softmax", "transposed", "mlp", "attention", "bodies",
    "newton", "stencil", "priced",
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SIBLINGS else n for n in GRADIENTS])
def test_gradients_are_those_of_the_interpreter(name):
    make, gradient, before = PROGRAMS[name][1], GRADIENTS[name], live()
    got = gradient(*make())
    program = gradient.program(*make(), stage="optimizable")
    expected = interpreter.run(program.module, program.name, list(make()))
    for a, b in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(a, b, 1e-5 if np.asarray(a).dtype == np.float32 else 1e-12, 1e-12)
    assert live() == before


def test_kernels_are_loops_over_a_grid_and_nothing_is_contracted():
    whole = COMPILED["chain"].ptx(*PROGRAMS["chain"][1]())
    assert whole.count(".entry") == 1 and "%nctaid.x" in whole
    assert "fma.rn.f64" in whole  # in the exponential, as it is written
    assert not re.search(r"\b(mul|add|sub)\.f64", whole)  # without .rn the assembler may contract


@pytest.mark.parametrize(("dtype", "access"), [("f8", "v2.b64"), ("f4", "v4.b32"), ("i1", "v4.b32")])
def test_threads_take_what_16_bytes_hold_where_all_is_aligned(dtype, access):
    def axpy(x, y):
        return x * 2 + y

    f = dlvm.jit(axpy, target="gpu")
    for n in (0, 1, 16, 1003):
        x = np.arange(n + 1).astype(dtype)
        for part in (x[:-1], x[1:]):  # beside the first, with which it overlaps, x[1:] is not aligned to 16 bytes
            same(f(part, x[1:]), axpy(part, x[1:]))
    whole = f.ptx(x, x)
    assert f"ld.global.{access}" in whole and f"st.global.{access}" in whole


def test_leaves_across_come_through_shared_memory_where_extents_are_worth_it():
    """33 elements a row of a tile: the threads of a warp never meet in a bank of shared memory."""

    def across(x, y):
        return x.T * 2.0 + y, x + x

    f = dlvm.jit(across, target="gpu")
    for shape in ((32, 32), (70, 33), (5, 100), (33, 31), (0, 50)):
        x = _of(shape)
        same(f(x, x.T.copy()), across(x, x.T.copy()))
    whole = f.ptx(x, x)
    assert whole.count("// transpose\n") == 1 and whole.count("// elementwise\n") == 2
    assert f".b8 kernel_0_$_shared[{32 * 33 * 8}]" in whole
    # along known short axes there are none
    assert "// transpose\n" not in dlvm.jit(lambda x: x.reshape(-1, 3).T * 2.0, target="gpu").ptx(_of(30))


def flipped(z, x):
    z[...] = x[::-1]
    return np.sum(z * x[:, ::-1], axis=0)


@pytest.mark.parametrize("shape", [(3, 5), (40, 50)])
def test_strided_leaves_across_destinations_of_any_order(shape):
    """Leaves have the strides along the destination's innermost axis that they have, not those of the last one."""
    f = dlvm.jit(flipped, target="gpu")
    for to in (np.ascontiguousarray, np.asfortranarray):
        for of in (np.ascontiguousarray, np.asfortranarray):
            z, x = to(np.zeros(shape)), of(_of(shape))
            expected = flipped(z.copy(order="K"), x)
            same(f(z, x), expected)
            same(z, x[::-1].copy())


def test_reductions_read_side_by_side_whichever_axis_is_kept():
    """Rows a thread, a warp, a block, and in parts; columns likewise; the same numbers whatever the layout is."""
    f = dlvm.jit(lambda x: (x.sum(axis=0), x.max(axis=1)), target="gpu")
    for shape in ((3, 20000), (20000, 3), (600, 40), (40, 600), (1, 33), (0, 5)):
        for x in (_of(shape), np.asfortranarray(_of(shape))):
            before = live()
            same(f(x), (x.sum(axis=0), x.max(axis=1)))
            assert live() == before
    # a thread a result, several, and what combines parts
    assert f.ptx(_of((3, 4))).count("// reduction along axes\n") == 6


@pytest.mark.parametrize("shape", [(17000, 32), (16400, 64), (16400, 65), (600, 33), (3, 4000)])
def test_rows_are_summed_by_some_threads_a_warp_or_a_block(shape):
    """Which of them depends on the extents; bools are counted and complex numbers added alike."""
    x = _of(shape)
    same(
        dlvm.jit(lambda x: (x.sum(axis=1), x.max(axis=1), np.mean(x, axis=1)), target="gpu")(x),
        (
            x.sum(axis=1),
            x.max(axis=1),
            np.mean(x, axis=1),
        ),
    )
    same(dlvm.jit(lambda x: np.sum(x + 1j, axis=1), target="gpu")(x), np.sum(x + 1j, axis=1))
    same(dlvm.jit(lambda x: (x > 2.5).any(axis=1), target="gpu")(x), (x > 2.5).any(axis=1))


def derived(x, y):
    return np.sum(np.exp(-x) * np.sin(y) + x * y[::-1])


def twice_written(x, y, out):
    """Each kernel reads what the one before wrote, and one what it writes itself."""
    out[:] = np.exp(x)
    y += out
    x *= out
    out[:, 1:] = x[:, 1:] * y[:, 1:]
    return y * 2.0


def test_derivatives_of_one_tree_are_one_kernel():
    g = dlvm.grad(dlvm.jit(chain, target="gpu"), wrt=(0, 1))
    x, y = _of(1001), _of(1001, seed=1)
    text = g.ptx(x, y)
    assert text.count(".entry") == 1
    for wide in (x, y), (x[::2], y[::2]), (x.reshape(7, 143), np.asfortranarray(y.reshape(7, 143))):
        for got, expected in zip(g(*wide), dlvm.grad(chain, wrt=(0, 1))(*wide), strict=True):
            np.testing.assert_allclose(got, expected, 1e-13, 1e-13)
    h = dlvm.grad(dlvm.jit(derived, target="gpu"), wrt=(0, 1))
    for got, expected in zip(h(x, y), dlvm.grad(derived, wrt=(0, 1))(x, y), strict=True):
        np.testing.assert_allclose(got, expected, 1e-13, 1e-13)
    for f in (np.ascontiguousarray, np.asfortranarray):
        given, expected = ([f(_of((5, 6), seed=k)) for k in range(3)] for _ in range(2))
        same(dlvm.jit(twice_written, target="gpu")(*given), twice_written(*expected))
        same(tuple(given), tuple(expected))


def test_products_of_floats_are_made_in_order():
    """Each thread's share of these would be 0 or infinite; the product of them all is 1."""

    def all_products(x, out):
        for i in range(out.shape[0]):
            out[i] = np.prod(x[i] * 1.0)
        return np.prod(x), np.prod(x, axis=1), np.prod(x.T * 2.0, axis=0, initial=0.5)

    x = np.tile([1e-3, 1e3], (3, 4096))
    f, before = dlvm.jit(all_products, target="gpu"), live()
    given, plain = (x, np.zeros(3)), (x, np.zeros(3))
    x[0, ::2] = 0.5
    x[0, 1::2] = 2.0
    with np.errstate(all="ignore"):
        same((f(*given), given), (all_products(*plain), plain))
    assert live() == before
    assert "shfl.sync" not in f.ptx(*given)
    assert "shfl.sync" in dlvm.jit(lambda x: np.prod(x), target="gpu", fastmath=True).ptx(x)


def test_scans_of_long_lines_go_by_blocks():
    """Chunks of a line, tiles of a chunk; products of floats, which may overflow in another order, stay in order."""

    def scans(x):
        return np.cumsum(x, axis=1), np.maximum.accumulate(x, axis=0), np.cumprod(x, axis=1)

    f = dlvm.jit(scans, target="gpu")
    for shape in ((2, 9000), (3, 512), (5, 511), (600, 2), (0, 4), (4, 0)):
        x, before = _of(shape), live()
        same(f(x), scans(x))
        assert live() == before
    huge = np.repeat([0.0, 1e200], [1000, 1000])
    same(f(huge[None])[2], np.zeros((1, 2000)))
    whole = f.ptx(x)
    assert whole.count("// scan by blocks\n") == 6 and whole.count("// scan\n") == 3
    numbers = np.arange(10000, dtype=np.int32)
    same(dlvm.jit(lambda x: np.cumsum(x), target="gpu")(numbers), np.cumsum(numbers))


def test_scatters_keep_the_order_unless_it_may_be_lost():
    function, make, _ = PROGRAMS["histogram"]
    exact, any_order = (dlvm.jit(function, target="gpu", fastmath=f) for f in (False, True))
    assert np.array_equal(exact(*make()), function(*make()))
    same(any_order(*make()), function(*make()))
    atomic = r"(red|atom)\.\S*global\S*\.add"
    assert re.search(atomic, any_order.ptx(*make())) and not re.search(atomic, exact.ptx(*make()))
    assert re.search(atomic, COMPILED["counted"].ptx(*PROGRAMS["counted"][1]()))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_remainders_are_exact(dtype):
    """The device has no libm: fmod is our own; every bit is NumPy's."""
    info, rng = np.finfo(dtype), np.random.default_rng(0)
    special = [0.0, 1.0, 5.3, np.inf, np.nan, info.max, info.tiny, 1.5 * info.tiny, 3 * info.smallest_subnormal]
    x, y = (v.ravel() for v in np.meshgrid([*special, *(-v for v in special)], special))
    whole = np.dtype(f"i{info.dtype.itemsize}")
    bits = rng.integers(np.iinfo(whole).min, np.iinfo(whole).max, (2, 4000), whole)
    x, y = (np.concatenate([a.astype(dtype), b.view(dtype)]) for a, b in ((x, bits[0]), (y, bits[1])))
    got = dlvm.jit(lambda x, y: np.fmod(x, y), target="gpu")(x, y)
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    np.testing.assert_array_equal(got, expected)
    known = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got)[known], np.signbit(expected)[known])


@pytest.mark.slow
def test_all_kinds_of_derivatives():
    def loop(x, n):
        s = x
        for _ in range(n):
            s = np.sin(s) * x if s[0] > 0.0 else s + x
        return np.sum(s * x)

    def deep(x, n):
        return np.sum(x) if n == 0 else deep(np.sin(x), n - 1) + np.sum(x)

    x, before = np.linspace(0.1, 1.0, 5), live()
    for function, derive in [
        (lambda x: np.tanh(x) * np.sum(x * x), lambda f: dlvm.jacobian(f)(x)),
        (lambda x: np.sum(np.sin(x) * x), lambda f: dlvm.hessian(f)(x)),
        (loop, lambda f: dlvm.value_and_grad(f)(x, 6)),
        (loop, lambda f: dlvm.grad(f, checkpoint="recompute")(x, 20)),
        (deep, lambda f: dlvm.grad(f)(x, 3)),
        (np_tanh, lambda f: dlvm.jvp(f, (x,), (x,))),
        (np_tanh, lambda f: dlvm.vjp(f, x)[1](x)),
        (loop, lambda f: dlvm.vjp(f, x, 5)[1](2.0)[0]),
    ]:
        same(derive(dlvm.jit(function, target="gpu")), derive(function))
    assert live() == before


def np_tanh(x):
    return np.tanh(x) * x


# -- what goes wrong ---------------------------------------------------------------------------------------


def test_without_a_driver_the_error_says_what_is_missing(monkeypatch):
    monkeypatch.delenv("DLVM_GPU")
    if shutil.which("nvidia-smi"):
        pytest.skip("there may be a device")
    with pytest.raises(dlvm.DeviceError, match=r"no NVIDIA driver.*pip install dlvm-py\[cuda\].*DLVM_GPU=emulator"):
        dlvm.jit(PROGRAMS["chain"][0], target="gpu")(np.ones(3), np.ones(3))
    monkeypatch.setenv("DLVM_GPU", "simulator")
    with pytest.raises(dlvm.DeviceError, match="DLVM_GPU='simulator'"):
        dlvm.jit(PROGRAMS["chain"][0], target="gpu")(np.ones(3), np.ones(3))


def test_other_targets_are_refused():
    with pytest.raises(TypeError, match="'cpu' and 'gpu'"):
        dlvm.jit(PROGRAMS["chain"][0], target="tpu")
    with pytest.raises(TypeError, match="target='gpu'"):
        dlvm.jit(PROGRAMS["chain"][0]).ptx(np.ones(3), np.ones(3))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: np.exp(1j * x), "what calls cexp of libm"),
        (lambda x: print(x), "a text that shows arrays"),
    ],
)
def test_what_has_no_kernel_is_refused_with_its_line(function, words):
    with pytest.raises(dlvm.UnknownFunction, match=words) as found:
        dlvm.jit(function, target="gpu")(np.eye(3))
    assert found.value.code == "DL301" and found.value.loc.line == function.__code__.co_firstlineno


def test_errors_leave_the_effects_before_them_and_no_memory():
    def f(x, k):
        x[0] = 5.0
        y = x * 2.0
        return y[k]

    x, before = np.zeros(4), live()
    with pytest.raises(IndexError):
        dlvm.jit(f, target="gpu")(x, 7)
    assert x[0] == 5.0 and live() == before
    with pytest.raises(ValueError, match="read-only"):
        y = np.zeros(4)
        y.flags.writeable = False
        dlvm.jit(f, target="gpu")(y, 1)
    assert live() == before


@pytest.mark.parametrize(
    ("name", "status", "error", "words"),
    [
        ("cuLaunchKernel", 700, dlvm.DeviceError, r"outside of its memory \(CUDA error 700\)"),
        ("cuMemAllocAsync", 2, MemoryError, None),
        ("cuMemcpyDtoHAsync_v2", 719, dlvm.DeviceError, r"a kernel failed \(CUDA error 719\)"),
    ],
)
def test_what_the_driver_reports_is_an_exception(name, status, error, words, monkeypatch):
    on, before = device(), live()
    failing = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: status)
    monkeypatch.setitem(on.imports, f"cuda:{name}", ctypes.cast(failing, ctypes.c_void_p).value)
    f = dlvm.jit(lambda x: np.sum(x * 2.0), target="gpu")
    with pytest.raises(error, match=words):
        f(np.ones(3))
    assert live() == before


def test_arguments_that_share_memory_share_it_on_the_device():
    def f(x, y):
        x[1:] += y
        return x[::2]

    base, expected = np.arange(9.0), np.arange(9.0)
    r = dlvm.jit(f, target="gpu")(base[1:], base[:-2])
    e = f(expected[1:], expected[:-2])
    same((r, base), (e, expected))
    assert r.base is not None and np.shares_memory(r, base)


def test_what_is_written_is_written_at_its_places_only():
    """Elements between those of a strided argument are not touched, even if somebody changes them meanwhile."""

    def f(x):
        x *= 2.0

    base = np.arange(10.0)
    dlvm.jit(f, target="gpu")(base[::-3])
    assert base.tolist() == [0.0, 1, 2, 6, 4, 5, 12, 7, 8, 18]


def test_results_that_are_arguments_are_those_objects():
    x = np.ones(3)
    assert dlvm.jit(lambda x: x, target="gpu")(x) is x


def test_a_second_process_needs_no_compiler(tmp_path, monkeypatch):
    # a function that no cache has seen; what all kernels share may well be there
    (tmp_path / "fresh.py").write_text(f"def f(x):\n    return x * {np.random.default_rng().random()!r}\n")
    program = """
import sys, numpy as np, dlvm_py as dlvm, fresh
f = dlvm.jit(fresh.f, target="gpu")
f(np.ones(3))
print(f.stats()["compiled"], "dlvm_py.driver" in sys.modules)
"""
    runs = [run_python("-c", program, DLVM_CACHE="1", PYTHONPATH=str(tmp_path)) for _ in range(2)]
    assert [r.stdout.strip() for r in runs] == ["1 True", "0 False"]
    # its kernel here too, where kernels are kept for the assembler
    monkeypatch.syspath_prepend(tmp_path)
    assert "// elementwise\n" in dlvm.jit(importlib.import_module("fresh").f, target="gpu").ptx(np.ones(3))


class Peer:
    """A peer of the table, which has no function of the first row, and fails at the second."""

    name = "Imagined"

    def __init__(self):
        self.array = np.asarray

    def function(self, row):
        return None if row.name == "sum" else [].index

    def wait(self, result):
        raise AssertionError(result)


class Missing:
    """A peer that is not installed."""

    name = "Missing"

    def __init__(self):
        raise ImportError("not here")


@pytest.mark.parametrize("all_rows", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_check_of_the_hardware_goes_through_on_the_emulator(all_rows, capsys, monkeypatch):
    monkeypatch.setattr(gpu_check, "RUNS", 1)
    monkeypatch.setattr(gpu_check, "SECONDS", 0.0)
    monkeypatch.setattr(gpu_compare, "SUITE", {"chain": PROGRAMS["chain"]})
    if not all_rows:
        some = gpu_check.rows(quick=True)[:4]
        monkeypatch.setattr(gpu_check, "rows", lambda quick: [some[0], some[3]])
    monkeypatch.setattr(gpu_check, "PEERS", (Peer, Missing))
    monkeypatch.setenv("DLVM_CACHE", environment("DLVM_CACHE"))
    assert gpu_check.main(["--quick"]) == 0
    said = capsys.readouterr()
    lines = [line for line in said.out.splitlines() if line.startswith("| ") and line.endswith(" |")]
    assert len(lines) == 2 + len(gpu_check.rows(True)) and {line.count("|") for line in lines} == {7}
    assert lines[2].startswith("| sum |") and lines[2].endswith("|  |") and lines[3].endswith("| fails |")
    assert "2 x + y by Imagined: " in said.err and "without Missing: not here" in said.err
    # a row of our own that fails, and one when the minutes are over: all others are shown
    row = gpu_check.rows(quick=True)[0]
    bad = [row._replace(name="bad", function=lambda x: unknown(x)), row]  # noqa: F821 - that is what is bad
    monkeypatch.setattr(gpu_check, "rows", lambda quick: bad)
    assert gpu_check.main(["--quick"]) == 1
    said = capsys.readouterr()
    assert "\n| bad | fails |" in said.out and re.search(r"\n\| sum \| \d", said.out)
    assert "without a time: bad\n" in said.err
    monkeypatch.setattr(gpu_check, "rows", lambda quick: bad[1:])
    monkeypatch.setattr(gpu_check, "timed", lambda *args: gpu_check.until(0).__enter__())
    assert gpu_check.main(["--quick"]) == 1
    assert "without a time: sum\n" in capsys.readouterr().err
    with pytest.raises(gpu_check.OutOfTime), gpu_check.until(time.perf_counter() + 0.01):
        time.sleep(9)
    assert gpu_check.main(["--quick", "--minutes", "0"]) == 1
    assert "chain (OutOfTime: the minutes are over)" in capsys.readouterr().err
    monkeypatch.setattr(gpu_compare, "alike", lambda got, expected: False)
    assert gpu_check.main(["--quick"]) == 1
    assert "  chain (other numbers)\n  gradient of chain (other numbers)\n" in capsys.readouterr().err
    monkeypatch.delenv("DLVM_GPU")
    if not shutil.which("nvidia-smi"):
        assert gpu_check.main([]) == 2
        assert "make gpu-check needs a machine with an NVIDIA GPU" in capsys.readouterr().err


def test_a_process_that_ends_takes_one_program_along(tmp_path, monkeypatch, capsys):
    tasks = [("chain", gpu_compare.HOST), ("softmax", gpu_compare.HOST)]
    assert gpu_compare.apart(tasks, time.perf_counter() + 100) == []
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys\n"
        "tasks = json.load(sys.stdin)['tasks']\n"
        "answers = {'good': [], 'bad': ['bad by NumPy (CUDA error 700)'], 'end': None}\n"
        "for name, way in tasks:\n"
        "    if answers[name] is None: os.abort()\n"
        "    print(json.dumps(answers[name]), flush=True)\n"
        "    if answers[name]: break\n"
    )
    monkeypatch.setattr(gpu_compare, "PROCESS", [sys.executable, str(program)])
    tasks = [(name, "NumPy") for name in ("good", "bad", "good", "end", "good", "end")]
    ended = "end by NumPy (its process ended with status -6)"
    assert gpu_compare.apart(tasks, time.perf_counter() + 100) == ["bad by NumPy (CUDA error 700)", ended, ended]
    assert capsys.readouterr().out == "." * 6
    assert gpu_compare.apart(tasks[:1], 0) == ["good by NumPy (OutOfTime: the minutes are over)"]


# -- the emulator ----------------------------------------------------------------------------------------


def test_the_emulator_finds_threads_that_are_not_at_the_same_barrier():
    # a kernel in which only some threads come to the barrier
    kernel = _kernel()
    with kernel.when(kernel.icmp("slt", kernel.special("tid"), i64(3))):
        kernel.barrier()
    assert _launch(kernel, 64) == 719


def test_the_emulator_runs_all_threads_to_a_barrier_before_one_goes_on():
    kernel = _kernel()
    data = kernel.parameter(V("ptr", "%data"))
    thread = kernel.special("tid")
    shared = kernel.shared_memory("i64", 64)
    kernel.store(thread, kernel.gep("i64", shared, thread))
    kernel.barrier()
    other = kernel.load("i64", kernel.gep("i64", shared, kernel.op("xor", thread, i64(63))))
    kernel.store(kernel.add(other, kernel.shuffle_down(other, 1)), kernel.gep("i64", data, thread))
    found = (ctypes.c_int64 * 64)()
    assert _launch(kernel, 64, ctypes.addressof(found) + OFFSET) == 0
    inside = [63 - t + (63 - t if t % 32 == 31 else 62 - t) for t in range(64)]
    assert list(found) == inside


def test_a_launch_has_no_more_parameters_than_a_driver_takes():
    kernel = _kernel()
    for n in range(513):
        kernel.parameter(V("i64", f"%n{n}"))
    with pytest.raises(dlvm.UnknownFunction, match="no GPU code for an array expression of more than 512 operands"):
        kernel.host.launch(kernel, i64(1))


def _kernel():
    function = Function("host", VOID)
    Builder(function, function.new_block("entry")).ret()
    return Kernel(HostEmitter(ModuleText(), Imports(), function, Options(), True, {}), "a test")


def _launch(kernel, threads, *values):
    kernel.finish()
    code = load(emulated([kernel]), [], ["emulated.0"])
    cells = [ctypes.c_int64(v) for v in values]
    table = (ctypes.c_void_p * max(len(cells), 1))(*map(ctypes.addressof, cells))
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)(code["emulated.0"])(
        table, 1, threads
    )


# -- arrays that are on the device ---------------------------------------------------------------------


class There:
    """An array that somebody else has put on the device: `__cuda_array_interface__`."""

    def __init__(self, array, **more):
        self.host = array
        self.device = device()
        self.address = self.device.allocate(array.nbytes, 0)
        flat = np.lib.stride_tricks.as_strided(array, (array.size,), (array.itemsize,))
        self.device.write(self.address, flat.ctypes.data, array.nbytes, 0)
        self.more = more

    @property
    def __cuda_array_interface__(self):
        known = {"shape": self.host.shape, "typestr": self.host.dtype.str, "strides": self.host.strides, "version": 3}
        return known | {"data": (self.address, False)} | self.more

    def numpy(self):
        """The elements on the device now."""
        found = np.empty_like(self.host)
        self.device.read(found.ctypes.data, self.address, found.nbytes, 0)
        return found

    def __del__(self):
        self.device.free(self.address, 0)


class Tensor:
    """The same by DLPack."""

    def __init__(self, array):
        self.there = There(array)
        kinds = {"f": 2, "i": 0, "b": 6, "V": 4}
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = (ctypes.c_int64 * array.ndim)(*(n // array.itemsize for n in array.strides))
        code = kinds[array.dtype.kind], array.itemsize * 8, 1
        self.tensor = _Tensor(self.there.address, 2, 0, array.ndim, *code, self.shape, self.strides, 0)

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream):
        assert stream == 1
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def both(x, y, c):
    x += 1.0
    return x, x.T, (x * y).sum(axis=0) + c


@pytest.mark.parametrize("kind", [There, Tensor])
@pytest.mark.parametrize("target", ["gpu", "cpu"])
def test_arrays_of_the_device_are_used_where_they_are(kind, target):
    before = live()
    x, y = _of((3, 4)), np.asfortranarray(_of((3, 4), seed=1))
    given = kind(x), kind(y)
    expected = both(x.copy(), y, 2.0)
    got = dlvm.jit(both, target=target)(*given, 2.0)
    assert got[0] is given[0]
    same((got[1].numpy(), got[2].numpy()), expected[1:])
    there = given[0] if kind is There else given[0].there
    same(there.numpy(), expected[0])
    # a result is an argument like any other
    same(dlvm.grad(lambda z: np.sum(z**2), wrt=0)(got[2]).numpy(), 2 * expected[2])
    del given, got, there
    gc.collect()
    assert live() == before


class OfTorch(Tensor):
    """As PyTorch's tensors, which have both protocols: bfloat16 is "<V2" in one of them."""

    @property
    def __cuda_array_interface__(self):
        return self.there.__cuda_array_interface__


class OfJax(Tensor):
    """As JAX's arrays, which refuse one protocol for bfloat16."""

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("UNIMPLEMENTED: not supported for BF16 buffers.")


def test_bfloat16_of_the_device_is_what_dlpack_says_it_is():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    f, x = dlvm.jit(lambda x: x * x + x), np.linspace(-2.0, 2.0, 7).astype(ml_dtypes.bfloat16)
    for kind in (Tensor, OfTorch, OfJax):
        got = f(kind(x)).numpy()
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got.astype(float), (x * x + x).astype(float))
    with pytest.raises(dlvm.TypeMismatch, match=r"argument 'x' of .* has dtype \|V2, two bytes .*\n.*DLPack"):
        f(There(x))


def test_arrays_of_host_and_device_do_not_mix():
    with pytest.raises(
        dlvm.ArgumentError, match=r"argument 'y' of both\(\) is a NumPy array, and 'x' is on the device"
    ):
        dlvm.jit(both, target="gpu")(There(np.ones((3, 4))), np.ones((3, 4)), 2.0)
    same(dlvm.jit(lambda x: x[0] + x[1], target="gpu")((There(np.ones(3)), 2.0)).numpy(), np.full(3, 3.0))


def test_what_arrays_of_the_device_say_is_checked():
    f = dlvm.jit(chain_in_place, target="gpu")
    whole = There(np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        f(There(np.ones(3), data=(whole.address, True)))
    with pytest.raises(TypeError, match="mask"):
        f(There(np.ones(3), mask=whole))
    with pytest.raises(TypeError, match="not aligned"):
        f(There(np.ones(3), data=(whole.address + 4, False)))
    with pytest.raises(TypeError, match=">f8"):
        f(There(np.ones(3).astype(">f8")))
    second = Tensor(np.ones(3))
    second.__class__ = type("Second", (Tensor,), {"__dlpack_device__": lambda self: (2, 1)})
    with pytest.raises(TypeError, match=r"argument 'x' of chain_in_place\(\) is on device 1"):
        f(second)


def chain_in_place(x):
    x *= 2.0
    return x


def test_arrays_of_the_device_that_overlap_are_seen():
    def f(x, y):
        x[1:] += y[:-1]

    base, expected = np.arange(8.0), np.arange(8.0)
    whole = There(base)
    dlvm.jit(f, target="gpu")(whole, There(base, data=(whole.address, False)))
    f(expected, expected)
    same(whole.numpy(), expected)
    with pytest.raises(dlvm.ArgumentError, match="'x' and 'y' overlap in memory of the device"):
        dlvm.grad(dlvm.jit(f, target="gpu"), wrt="y", from_="x")(whole, There(base, data=(whole.address, False)))
