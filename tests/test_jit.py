"""The contract of compiled functions with their callers: results, effects, versions, errors, the cache.

Programs are compared with plain Python in value, dtype, shape and side effects (tests/test_programs.py
does so for the corpus); here each test states one clause of the contract.
"""

import gc
import importlib.util
import json
import math
import os
import pickle
import sys
import tempfile
import threading
import weakref

import numpy as np
import pytest
from processes import run_program

import dlvm_py as dlvm
from dlvm_py.backend.cpu.compile import compile_module
from dlvm_py.runtime.native import entry


@dlvm.jit
def scaled_sum(x, a):
    """Docstring of scaled_sum."""
    return np.sum(x * a)


@dlvm.jit
def bump(x):
    x[1:-1] += 1.0


def add_up(x):
    total = 0
    for i in range(len(x)):
        total += x[i]
    return total


def energy(u, dt):
    for _ in range(10):
        u[1:-1] += dt * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**2)


# -- values, dtypes, effects -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
def test_elementwise_equals_numpy(dtype, n):
    """An elementwise expression has NumPy's value, dtype and shape for every dtype and length."""

    def f(x, y):
        return x + y * x

    rng = np.random.default_rng(n)
    x, y = ((rng.random(n) * 5).astype(dtype) for _ in range(2))
    got, want = dlvm.jit(f)(x, y), f(x, y)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("value", [3, -3, 2.5, True, np.float32(1.5), np.int8(7), np.float64(2)])
def test_scalars_keep_flavour_and_dtype(value):
    """A Python scalar comes back as Python's class, a NumPy scalar as its own dtype."""

    def f(a):
        return a + a

    got, want = dlvm.jit(f)(value), f(value)
    assert type(got) is type(want) and got == want


def test_writes_go_into_the_argument():
    """What the function writes into an argument is written, and None is returned."""
    x = np.zeros(5)
    assert bump(x) is None
    np.testing.assert_array_equal(x, [0, 1, 1, 1, 0])


@pytest.mark.parametrize("view", ["x[::2]", "x[::-1]", "m.T", "m[:, 1]", "m[::-1, ::2]", "np.asfortranarray(m)"])
def test_layouts_give_numpys_answer(view):
    """Strided, reversed and Fortran-ordered arguments read and write as in NumPy."""

    def f(a):
        a *= 2.0
        a[1:] += a[:-1]
        return a.sum(), a + 1.0

    def make():
        x, m = np.arange(12.0), np.arange(24.0).reshape(4, 6)
        return eval(view, {"x": x, "m": m, "np": np})

    a, b = make(), make()
    got, want = dlvm.jit(f)(a), f(b)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-14)
    np.testing.assert_array_equal(got[1], want[1])
    np.testing.assert_array_equal(a, b)


def test_overlapping_arguments_behave_as_in_numpy():
    """Arguments that share memory see each other's writes."""

    def f(a, b):
        a[1:] = b[:-1] * 2.0
        return np.sum(b)

    x, y = np.arange(6.0), np.arange(6.0)
    g = dlvm.jit(f)
    assert g(x, x) == f(y, y)
    np.testing.assert_array_equal(x, y)
    assert g(x[1:], x[:-1]) == f(y[1:], y[:-1])
    np.testing.assert_array_equal(x, y)


def test_returned_argument_is_the_object_and_view_has_base():
    """A returned argument is that very object; a returned view of it has it as base."""

    def f(x):
        return x, x[1:]

    x = np.arange(4.0)
    same, view = dlvm.jit(f)(x)
    assert same is x and view.base is x
    view[0] = 9
    assert x[1] == 9


def test_returned_arrays_own_their_memory_and_are_writable():
    """A fresh result is a normal array: owner of its data, writable, resizable, freed by NumPy."""
    r = dlvm.jit(lambda x: x + 1.0)(np.zeros(1000))
    assert r.flags.owndata and r.flags.writeable and r.base is None
    r[0] = 5
    del r
    gc.collect()


# -- versions --------------------------------------------------------------------------------------------


def test_lengths_share_one_version_and_length_one_adds_one():
    """Lengths 0, 2, 7, 1000 share one compilation; length 1 adds one."""
    f = dlvm.jit(add_up)
    for n in (2, 7, 1000, 0):
        assert f(np.ones(n)) == n
    assert f.stats()["versions"] == 1
    assert f(np.ones(1)) == 1
    assert f.stats()["versions"] == 2


def test_captured_scalar_is_guarded():
    """A changed global scalar is seen at the next call."""
    source = "import dlvm_py as dlvm\nK = 2.0\n@dlvm.jit\ndef f(x):\n    return x * K\n"
    module = _module("captured_scalar", source)
    assert module.f(3.0) == 6.0
    module.K = 5.0
    assert module.f(3.0) == 15.0


def test_captured_array_is_read_at_every_call():
    """In-place changes of a captured array are seen."""
    w = np.array([1.0, 2.0])
    f = dlvm.jit(lambda x: np.dot(x, w))
    x = np.array([1.0, 1.0])
    assert f(x) == 3.0
    w[0] = 5.0
    assert f(x) == 7.0


def test_same_lambda_made_again_does_not_recompile():
    """A lambda with the same code and captures is found in the cache."""

    def make(k):
        return dlvm.jit(lambda x: x * k + 0.12345)

    a = make(2.0)
    assert a(1.0) == 2.12345
    b = make(2.0)
    assert b(1.0) == 2.12345
    assert b.stats()["compiled"] == 0


# -- the callable ----------------------------------------------------------------------------------------


def test_wrapper_looks_like_the_function():
    """Name, docstring, signature and __wrapped__ are the function's."""
    assert scaled_sum.__name__ == "scaled_sum" and scaled_sum.__doc__ == "Docstring of scaled_sum."
    assert scaled_sum.__wrapped__.__name__ == "scaled_sum"
    assert scaled_sum(np.ones(3), a=2.0) == 6.0


def test_pickles_by_reference():
    """A decorated module-level function pickles to itself."""
    assert pickle.loads(pickle.dumps(scaled_sum)) is scaled_sum
    g = pickle.loads(pickle.dumps(dlvm.grad(scaled_sum, wrt=1)))
    assert g(np.ones(3), 2.0) == 3.0


def test_works_as_a_method():
    """In a class body the callable binds self as functions do; self is refused with a clear message."""

    class Model:
        @staticmethod
        @dlvm.jit
        def f(x):
            return x + 1.0

    assert Model().f(1.0) == 2.0


def test_weak_references_and_collection():
    """A callable can be weakly referenced and is collected with its cycle."""
    f = dlvm.jit(lambda x: x + 1.0)
    f(1.0)
    f.me = f
    r = weakref.ref(f)
    del f
    gc.collect()
    assert r() is None


def test_threads_run_at_the_same_time_and_agree():
    """Calls from several threads give the same results."""
    results = []
    x = np.linspace(0, 1, 1000)

    def work():
        for _ in range(50):
            results.append(scaled_sum(x, 2.0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(results)) == 1 and len(results) == 200


def test_no_leak_of_references_or_memory():
    """Thousands of calls leave the reference counts of their arguments alone."""
    x = np.ones(100)
    f = dlvm.jit(lambda a: (a, a + 1.0, a[2:]))
    f(x)
    before = sys.getrefcount(x)
    for _ in range(1000):
        f(x)
    assert sys.getrefcount(x) == before


# -- bad input -------------------------------------------------------------------------------------------


def test_wrong_argument_count_is_a_type_error():
    """Too few or too many arguments raise Python's TypeError."""
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        scaled_sum(np.ones(3))
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        scaled_sum(np.ones(3), 1.0, 2.0)


@pytest.mark.parametrize(
    ("bad", "word"),
    [(["a", "b"], "str"), (np.array([object()]), "object"), (np.array(["a"]), "dtype"), ({1, 2}, "set")],
)
def test_arguments_that_cannot_be_compiled_name_the_argument(bad, word):
    """An argument of an unsupported type is refused with its name and type."""
    with pytest.raises(dlvm.CompileError) as e:
        scaled_sum(bad, 1.0)
    assert "'x'" in str(e.value) and word in str(e.value)


def test_shape_mismatch_raises_numpys_error_and_writes_nothing():
    """Shapes that do not fit raise ValueError before anything is written."""

    def f(a, b, out):
        out[:] = a + b

    out = np.zeros(3)
    with pytest.raises(ValueError, match="could not be broadcast together"):
        dlvm.jit(f)(np.ones(3), np.ones(4), out)
    assert not out.any()


def test_index_error_has_numpys_text_and_the_line():
    """An index out of range raises IndexError with NumPy's words and names the line."""

    def f(x, i):
        y = x[0]
        return y + x[i]

    g = dlvm.jit(f)
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 3") as e:
        g(np.ones(3), 7)
    line = f.__code__.co_firstlineno + 2
    assert any(f":{line}" in note for note in e.value.__notes__)
    with pytest.raises(IndexError, match="index -4 is out of bounds for axis 0 with size 3"):
        g(np.ones(3), -4)
    assert g(np.ones(3), -3) == 2.0


def test_user_exceptions_come_out():
    """raise and assert in compiled code raise in Python."""

    def f(x):
        if x < 0:
            raise ValueError("x is negative")
        assert x < 10, "x is large"
        return math.sqrt(x)

    g = dlvm.jit(f)
    assert g(4.0) == 2.0
    with pytest.raises(ValueError, match="x is negative"):
        g(-1.0)
    with pytest.raises(AssertionError, match="x is large"):
        g(11.0)


@pytest.mark.parametrize(("a", "b"), [(1, 0), (1.0, 0.0), (1.0, 0)])
def test_python_division_by_zero_raises(a, b):
    """Python scalars divide as Python's, NumPy scalars as NumPy's."""
    g = dlvm.jit(lambda a, b: a / b)
    with pytest.raises(ZeroDivisionError):
        g(a, b)
    assert g(np.float64(1.0), np.float64(0.0)) == np.inf


def test_python_int_overflow_raises():
    """A Python int that leaves 64 bits raises OverflowError with the line."""
    with pytest.raises(OverflowError):
        dlvm.jit(lambda a: a * a)(2**40)
    with pytest.raises(OverflowError):
        dlvm.jit(lambda a: a + 1)(2**80)


def test_unsupported_syntax_shows_line_and_caret():
    """A construct outside the language is refused with file, line, source and caret."""

    def f(x):
        with open("f") as g:
            return g

    with pytest.raises(dlvm.UnsupportedSyntax) as e:
        dlvm.jit(f)(1.0)
    text = str(e.value)
    assert f"test_jit.py:{f.__code__.co_firstlineno + 1}" in text and "^" in text and "help:" in text


def test_unknown_names_and_functions():
    """An unknown name and an unknown NumPy function are different errors, with suggestions."""

    def f(x):
        return x + undefined_thing  # noqa: F821

    with pytest.raises(dlvm.UnknownName, match="undefined_thing"):
        dlvm.jit(f)(1.0)
    with pytest.raises(dlvm.UnknownFunction, match="loadtxt"):
        dlvm.jit(lambda x: np.loadtxt(x))(1.0)


def test_keyboard_interrupt_ends_a_long_loop(tmp_path):
    """A long loop answers SIGINT by KeyboardInterrupt."""
    code = """
        import os, signal, threading, time
        import dlvm_py as dlvm
        @dlvm.jit
        def spin(n):
            s = 0.0
            for i in range(n):
                s = s * 0.5 + i
            return s
        spin(10)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background inherits SIG_IGN
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.perf_counter()
        try:
            spin(10**13)
        except KeyboardInterrupt:
            print("interrupted", time.perf_counter() - start < 5)
    """
    assert run_program(code, tmp_path).stdout == "interrupted True\n"


# -- the cache -------------------------------------------------------------------------------------------


def test_second_process_loads_without_llvm(tmp_path):
    """A second process runs the kernels of the first without compiling."""
    code = """
        import json, time
        import numpy as np
        import dlvm_py as dlvm
        @dlvm.jit
        def f(x, a):
            for i in range(3):
                x = np.tanh(x * a)
            return np.sum(x)
        g = dlvm.grad(f, wrt=(0, 1))
        x = np.linspace(0, 1, 10)
        t = time.process_time(); v = f(x, 0.5); t = time.process_time() - t
        d = g(x, 0.5)
        print(json.dumps([f.stats(), g.stats(), t, v, d[1]]))
    """
    first = json.loads(run_program(code, tmp_path, DLVM_CACHE_DIR=str(tmp_path / "cache")).stdout)
    second = json.loads(run_program(code, tmp_path, DLVM_CACHE_DIR=str(tmp_path / "cache")).stdout)
    assert first[0]["compiled"] == 1 and first[1]["compiled"] == 1
    assert second[0]["compiled"] == 0 and second[0]["loaded"] == 1
    assert second[1]["compiled"] == 0 and second[1]["loaded"] == 1
    assert first[3:] == second[3:]
    assert second[2] < 0.5  # seconds of processor time: it loads modules, and an object


def test_damaged_cache_files_are_misses(tmp_path):
    """Truncated or altered cache files are ignored, and replaced."""
    code = """
        import dlvm_py as dlvm
        f = dlvm.jit(lambda x: x * 3.0)
        print(f(2.0), f.stats()["compiled"])
    """
    assert run_program(code, tmp_path, DLVM_CACHE_DIR=str(tmp_path / "cache")).stdout.split() == ["6.0", "1"]
    files = [os.path.join(d, n) for d, _, names in os.walk(tmp_path / "cache") for n in names]
    assert files
    for name in files:
        with open(name, "rb") as fh:
            data = fh.read()
        with open(name, "wb") as fh:
            fh.write(data[: len(data) // 2] + b"damage")
    assert run_program(code, tmp_path, DLVM_CACHE_DIR=str(tmp_path / "cache")).stdout.split() == ["6.0", "1"]
    assert run_program(code, tmp_path, DLVM_CACHE_DIR=str(tmp_path / "cache")).stdout.split() == ["6.0", "0"]


def test_object_is_the_same_in_every_process(tmp_path):
    """An object holds no address: two processes, with other address layouts, compile to the same bytes."""
    code = """
        import hashlib
        import numpy as np
        import dlvm_py as dlvm
        from dlvm_py.driver import compile_request
        from dlvm_py.dispatch import dispatcher_of
        w = np.ones(3)
        def f(x, i):
            return np.dot(x, w) + x[i], x * 2.0
        for g in (dlvm.jit(f), dlvm.grad(f)):
            done = compile_request(dispatcher_of(g).request((np.ones(3), 1)))
            print(hashlib.sha256(done.image).hexdigest())
    """
    assert run_program(code, tmp_path).stdout == run_program(code, tmp_path).stdout


def test_an_entry_is_compiled_once(monkeypatch, tmp_path):
    """Functions of equal signatures have one entry, in this process and in the disk cache; other signatures another."""
    made = []

    def compile_counted(*args, **how):
        made.append(args)
        return compile_module(*args, **how)

    monkeypatch.setattr(entry, "compile_module", compile_counted)
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    entry._compiled.cache_clear()
    first = dlvm.jit(lambda a, b, c, n: a + b[n] + c)
    second = dlvm.jit(lambda p, q, r, k: p * q[k] - r)
    args = np.float32(2), np.array([3, 5], np.int16), 7j, 1
    assert (first(*args), second(*args), len(made)) == (7 + 7j, 10 - 7j, 1)
    entry._compiled.cache_clear()
    third = dlvm.jit(lambda a, b, c, n: b[n] - a * c)
    assert third(*args) == 5 - 14j and len(made) == 1
    assert third(*args[:3], np.int8(1)) == 5 - 14j and len(made) == 2


def test_changed_callee_is_a_new_key(tmp_path):
    """A change in a helper in another file gives new code."""
    (tmp_path / "helper_mod.py").write_text("def h(x):\n    return x + 1.0\n")
    code = """
        import dlvm_py as dlvm, helper_mod
        @dlvm.jit
        def f(x):
            return helper_mod.h(x) * 2.0
        print(f(1.0))
    """
    env = {"DLVM_CACHE_DIR": str(tmp_path / "c"), "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    assert run_program(code, tmp_path, **env).stdout.strip() == "4.0"
    (tmp_path / "helper_mod.py").write_text("def h(x):\n    return x + 2.0\n")
    assert run_program(code, tmp_path, **env).stdout.strip() == "6.0"


def test_python_entry_gives_the_same_answers(tmp_path):
    """With the entry that is written in Python the contract holds as well."""
    code = """
        import numpy as np, dlvm_py as dlvm
        f = dlvm.jit(lambda x, a: (x, x * a, np.sum(x), a))
        x = np.arange(3.0)
        r = f(x, 2.0)
        print(r[0] is x, r[1].tolist(), float(r[2]), r[3])
        try:
            dlvm.jit(lambda x, i: x[i])(x, 5)
        except IndexError as e:
            print(e)
    """
    want = run_program(code, tmp_path, DLVM_CACHE_DIR=str(tmp_path / "cache")).stdout
    assert run_program(code, tmp_path, DLVM_CACHE_DIR=str(tmp_path / "cache"), DLVM_ENTRY="python").stdout == want
    assert "True [0.0, 2.0, 4.0] 3.0 2.0" in want


# -- helpers ---------------------------------------------------------------------------------------------


def _module(name, source):
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, name + ".py")
    with open(path, "w") as fh:
        fh.write(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
