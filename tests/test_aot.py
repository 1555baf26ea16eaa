"""Libraries that dlc makes: called from a C program and through ctypes, compared with the functions in Python."""

import ctypes
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import typing
from ctypes import POINTER, byref, c_double, c_float, c_int16, c_int64, c_void_p
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

from dlvm_py.backend.aot import linker
from dlvm_py.tools import dlc
from dlvm_py.tools.common import Failure, run_tool
from dlvm_py.tools.run import run_parser
from dlvm_py.tools.signature import annotated, read_signature

FOLDER = Path(__file__).parent / "aot"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
DOUBLES = POINTER(c_double)


def run(*words):
    """A tool that must succeed."""
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def failure(capsys, *words):
    """What dlc says to words that it must refuse."""
    assert run_tool(dlc.main, [str(w) for w in words]) == 1
    return capsys.readouterr().err


def pointer(array, kind=c_double):
    """An array as a C argument."""
    return array.ctypes.data_as(POINTER(kind))


def taken(library, found, extents, dtype=np.float64):
    """A copy of a result array, which is freed."""
    shape = tuple(extents)
    count = int(np.prod(shape))
    array = np.frombuffer(ctypes.string_at(found, count * np.dtype(dtype).itemsize), dtype).reshape(shape)
    library.model_free(found)
    return array


@pytest.fixture(scope="module")
def model():
    """The functions in Python."""
    spec = importlib.util.spec_from_file_location("aot_model", FOLDER / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """libmodel.so and model.h of tests/aot/model.py, and the C program linked with them."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("aot")
    run("cc", "-shared", "-fPIC", "-Wl,-soname,libtestblas.so", FOLDER / "blas.c", "-o", made / "libtestblas.so")
    words = [FOLDER / "model.py", "--emit", "shared", "-o", made / "libmodel.so", "-L", made, "-l", "testblas"]
    assert run_tool(dlc.main, list(map(str, words))) == 0
    strict = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    place = ["-I", made, "-L", made, f"-Wl,-rpath,{made},--no-as-needed"]
    run("cc", *strict, FOLDER / "main.c", *place, "-lmodel", "-ltestblas", "-lpthread", "-o", made / "main")
    return made


@pytest.fixture(scope="module")
def library(folder):
    """The library in this process."""
    ctypes.CDLL(str(folder / "libtestblas.so"), mode=os.RTLD_GLOBAL)  # it is nowhere where the loader would look
    found = ctypes.CDLL(str(folder / "libmodel.so"))
    found.model_last_error.restype = found.model_last_exception.restype = ctypes.c_char_p
    found.model_free.argtypes = [c_void_p]
    return found


def test_c_program(folder, model):
    """A C program gets the numbers that Python gets, and errors with their kind, operands and line."""
    lines = dict(line.partition(" ")[::2] for line in run(folder / "main").splitlines())
    x, u = np.array([0.5, -1.5, 2.0]), np.array([0.0, 1.0, 4.0, 1.0, 0.5])

    def numbers(name):
        return np.array([float(word) for word in lines[name].split()])

    np.testing.assert_array_equal(numbers("loss"), model.loss(x, 0.75))
    gradient, slope = model.dloss(x, 0.75)
    np.testing.assert_array_equal(numbers("dloss"), gradient)
    np.testing.assert_array_equal(numbers("slope"), slope)
    # against differences too: Python's gradient is no other program
    h = 1e-6
    differences = [(model.loss(x + h * e, 0.75) - model.loss(x - h * e, 0.75)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(numbers("dloss"), differences, rtol=1e-7)
    np.testing.assert_array_equal(numbers("dheat"), model.dheat(u, 0.125, 3)[0])
    np.testing.assert_array_equal(numbers("u"), u)
    model.heat(u, 0.125, 3)
    np.testing.assert_array_equal(numbers("heat"), u)
    np.testing.assert_array_equal(numbers("evens"), x[::2] + 1)
    line = model.element.__wrapped__.__code__.co_firstlineno + 3
    said = f"IndexError: index 3 is out of bounds for axis 0 with size 3 (model.py:{line}:12)"
    assert lines["IndexError:"] == said
    assert lines["ZeroDivisionError:"] == f"ZeroDivisionError: float division by zero (model.py:{line}:19)"
    assert lines["status"] == "1" and lines["untouched"] == "-1"
    assert (
        lines["leaked"] == "0"
        and lines["threads"] == "0 0"
        and lines["deep"] == "0 1 0"
        and lines["fibonacci"] == "6765"
    )


@needs_cc
def test_the_example_of_the_manual(tmp_path, monkeypatch):
    """What docs/aot.md shows is what happens."""
    page = (FOLDER.parent.parent / "docs" / "aot.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w+\n(.*?)^```", page, re.S | re.M)
    python, c, shown = (next(t for t in blocks if t.startswith(start)) for start in ("# model.py", "/* main.c", "$ cc"))
    (tmp_path / "model.py").write_text(python, encoding="utf-8")
    (tmp_path / "main.c").write_text(c, encoding="utf-8")
    assert run_tool(dlc.main, [str(tmp_path / "model.py"), "--emit", "shared"]) == 0
    command, _, output = shown.partition("\n")
    monkeypatch.chdir(tmp_path)
    assert run("sh", "-c", command.removeprefix("$ ")) == output


def test_header_is_cplusplus(folder, tmp_path):
    """C++ reads the header too, as a reader of the strictest kind."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    file = tmp_path / "main.cc"
    file.write_text('#include "model.h"\n#include "model.h"\nint main() { return model_fibonacci(1, nullptr); }\n')
    run("c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I", folder, "-c", file, "-o", tmp_path / "o")


def test_views_and_several_results(library, model):
    """Results that are arguments or views of them are new memory in C order; known extents, defaults are built in."""
    a, f = np.arange(24.0).reshape(4, 6)[::-1, ::2], np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    arrays = [DOUBLES(), DOUBLES(), POINTER(c_float)()]
    extents = [(c_int64 * 2)() for _ in arrays]
    k, n = c_int16(), c_int64()
    outs = [x for array, e in zip(arrays, extents, strict=True) for x in (byref(array), e)]
    strides = [c_int64(s) for s in a.strides]
    status = library.model_parts(pointer(a), c_int64(4), c_int64(3), *strides, pointer(f, c_float), c_int64(3),
                                 c_int16(-7), *outs, byref(k), byref(n))  # fmt: skip
    assert status == 0
    wanted = model.parts(a, f, np.int16(-7))
    for array, e, w in zip(arrays, extents, wanted, strict=False):
        np.testing.assert_array_equal(taken(library, array, e, w.dtype), w)
    assert (k.value, n.value) == wanted[3:] == (-7, 12)


def test_other_derivatives(library, model):
    """Values with gradients, Hessians, and their products with vectors are functions of the library too."""
    x, v = np.array([0.5, -1.5, 2.0]), np.array([1.0, 0.0, -2.0])
    value, found, extents = c_double(), DOUBLES(), (c_int64 * 1)()
    given = pointer(x), c_int64(3), c_double(0.75)
    assert library.model_valued(*given, byref(value), byref(found), extents) == 0
    wanted = model.valued(x, 0.75)
    assert value.value == wanted[0]
    np.testing.assert_array_equal(taken(library, found, extents), wanted[1])
    square = (c_int64 * 2)()
    assert library.model_curvature(*given, byref(found), square) == 0
    matrix = taken(library, found, square)
    np.testing.assert_allclose(matrix, np.diag(-3 * 0.75**2 * np.sin(0.75 * x)), atol=1e-15)
    assert library.model_product_with(*given, pointer(v), c_int64(3), byref(found), extents) == 0
    np.testing.assert_allclose(taken(library, found, extents), matrix @ v, atol=1e-15)


def test_what_c_can_get_wrong(library):
    """A null pointer, a negative extent, arrays that overlap: errors and no crash."""
    x = np.arange(4.0)
    assert library.model_loss(None, c_int64(3), c_double(1), None) == 1
    assert library.model_last_error() == b"ValueError: the argument 'x' is a null pointer"
    assert library.model_loss(pointer(x), c_int64(-1), c_double(1), None) == 1
    assert library.model_last_error() == b"ValueError: the extent of axis 0 of the argument 'x' is negative: -1"
    for call in (library.model_axpy, lambda *a: library.model_daxpy(*a, None, None)):
        assert call(pointer(x), c_int64(3), pointer(x[1:]), c_int64(3), c_double(1)) == 1
        said = b"ValueError: the arguments 'y' and 'x' overlap in memory, and 'y' is written: pass a copy of one"
        assert library.model_last_error() == said
        assert call(pointer(x), c_int64(2), pointer(x[2:]), c_int64(2), c_double(1)) == 0
        assert call(pointer(x), c_int64(0), pointer(x), c_int64(0), c_double(1)) == 0
    np.testing.assert_array_equal(x, [2, 4, 2, 3])
    assert library.model_axpy(pointer(x), c_int64(2), pointer(x[2:]), c_int64(1), c_double(1)) == 1
    assert library.model_last_exception() == b"ValueError"  # an extent of 1 does not stretch


def test_memory_error(library):
    """What cannot be allocated is a MemoryError; nothing is written."""
    out, extents = DOUBLES(), (c_int64 * 1)(-5)
    x = np.zeros(1)
    assert library.model_evens(pointer(x), c_int64(1 << 58), byref(out), extents) == 1
    assert library.model_last_error() == b"MemoryError: there is not enough memory"
    assert not out and extents[0] == -5


BLAS_MAIN = """#include "model.h"
#include <stdio.h>
#define N 40
int main(void) {
    static double a[N * 3 * N], b[3 * N * N];
    double *c;
    int64_t extents[2];
    for (int i = 0; i < N * 3 * N; i++) a[i] = i % 7 - 3, b[i] = i % 5 - 2;
    if (model_product(a, N, 3 * N, b, 3 * N, N, &c, extents)) return 1;
    double sum = 0;
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) sum += (i + 2 * j + 1) * c[i * N + j];
    printf("%.17g %lld %lld", sum, (long long)extents[0], (long long)extents[1]);
    return 0;
}
"""


def test_blas_by_its_names(folder, tmp_path, capfd):
    """Matrix products call dgemm_ of whatever the program links; an object is enough, and dlc says what it needs."""
    words = [str(FOLDER / "model.py"), "--function", "product", "-o", str(tmp_path / "model.o")]
    assert run_tool(dlc.main, words) == 0
    assert capfd.readouterr().err == "note: link a BLAS as well, for dgemv_, dsyrk_, dgemm_\n"
    main = tmp_path / "main.c"
    main.write_text(BLAS_MAIN, encoding="utf-8")
    run("cc", main, FOLDER / "blas.c", tmp_path / "model.o", "-lm", "-lpthread", "-o", tmp_path / "main")
    i = np.arange(40 * 120)
    a, b = (i % 7 - 3.0).reshape(40, 120), (i % 5 - 2.0).reshape(120, 40)
    weights = np.arange(40)[:, None] + 2 * np.arange(40) + 1
    assert run(tmp_path / "main") == f"{float(np.sum(weights * (a @ b))):.0f} 40 40"


# -- programs of the IR ----------------------------------------------------------------------------------

PROGRAM = """module "kinds"
stage raw

var @total: i64

func @count: (i64) -> () {
'entry(%n: i64):
    %old = load @total: *i64
    %new = add %old: i64, %n: i64
    store %new: i64 to @total: *i64
    return
}

func @counted: () -> i64 {
'entry():
    %n = load @total: *i64
    return %n: i64
}

func @shown: (f64, i64, bool) -> f64 {
'entry(%x: f64, %n: i64, %c: bool):
    check false: bool else ArithmeticError "{}, {{}} and {}, {}" (%x: f64, %n: i64, %c: bool)
    return %x: f64
}

func @bare: () -> () {
'entry():
    raise KeyError "" ()
}

func @matrix: (<2 x 3 x f32>, <3 x f32>) -> (<2 x f32>, f32) {
'entry(%w: <2 x 3 x f32>, %x: <3 x f32>):
    %y = dot %w: <2 x 3 x f32>, %x: <3 x f32>
    %s = reduce %y: <2 x f32> by add init 0: f32 along 0
    %t = literal (%y: <2 x f32>, %s: f32): (<2 x f32>, f32)
    return %t: (<2 x f32>, f32)
}

[adjoint @matrix from 1]
func @matrix_grad: (<2 x 3 x f32>, <3 x f32>) -> (<2 x 3 x f32>, <3 x f32>)

func @turned: (*fortran <2 x _ x i16>) -> *strided <_ x 2 x i16> {
'entry(%a: *fortran <2 x _ x i16>):
    %t = transpose %a: *fortran <2 x _ x i16>
    %p = pointerCast %t: *<_ x 2 x i16> to *strided <_ x 2 x i16>
    return %p: *strided <_ x 2 x i16>
}

func @complex: (c128, <2 x c64>) -> (c128, <2 x c64>) {
'entry(%z: c128, %a: <2 x c64>):
    %y = multiply %z: c128, %z: c128
    %b = multiply %a: <2 x c64>, %a: <2 x c64>
    %t = literal (%y: c128, %b: <2 x c64>): (c128, <2 x c64>)
    return %t: (c128, <2 x c64>)
}

func @half: (f16, u8, bool) -> (f16, u8, bool) {
'entry(%int: f16, %x: u8, %c: bool):
    %y = add %int: f16, %int: f16
    %n = not %c: bool
    %t = literal (%y: f16, %x: u8, %n: bool): (f16, u8, bool)
    return %t: (f16, u8, bool)
}

func @free: (f64) -> f64 {
'entry(%x: f64):
    return %x: f64
}
"""


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """The library of PROGRAM."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("kinds")
    (made / "kinds.dl").write_text(PROGRAM, encoding="utf-8")
    assert run_tool(dlc.main, [str(made / "kinds.dl"), "--emit", "shared"]) == 0
    found = ctypes.CDLL(str(made / "libkinds.so"))
    found.kinds_last_error.restype = ctypes.c_char_p
    return found


@pytest.mark.parametrize(
    "x",
    [0.0, -0.0, 1.0, 0.1, 1 / 3, -2.5, 1e15, 123456789012345.6, 9007199254740993.0, 1e16, 1e22, 1.5e300, 1e-4, 1.25e-5,
     5e-324, 1.7976931348623157e308, 2**53 + 2.0, 0.30000000000000004, np.inf, -np.inf, np.nan, 100.0, 1e-7],
)  # fmt: skip
def test_messages_look_as_in_python(kinds, x):
    """Numbers in a message look as Python's repr shows them; braces and flags as str.format fills them in."""
    n = -(2**63) if x < 0 else 12
    assert kinds.kinds_shown(c_double(x), c_int64(n), ctypes.c_bool(x > 1), None) == 1
    wanted = f"{x}, {{}} and {n}, {x > 1}"
    assert kinds.kinds_last_error().decode() == f"ArithmeticError: {wanted} (kinds.dl:22:5)"
    assert kinds.kinds_bare() == 1 and kinds.kinds_last_error() == b"KeyError (kinds.dl:28:5)"


def test_kinds_of_values(kinds):
    """Arrays of known extents go into memory of the caller; complex numbers are pairs, f16 is its bits."""
    w, x = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, -2, 0.5], np.float32)
    y, s, dw, dx = np.zeros(2, np.float32), c_float(), np.zeros((2, 3), np.float32), np.zeros(3, np.float32)
    assert kinds.kinds_matrix(*(pointer(v, c_float) for v in (w, x, y)), byref(s)) == 0
    np.testing.assert_allclose(y, w @ x)
    assert s.value == pytest.approx(float(np.sum(w @ x)))
    assert kinds.kinds_matrix_grad(*(pointer(v, c_float) for v in (w, x, dw, dx))) == 0
    np.testing.assert_allclose(dw, np.broadcast_to(x, (2, 3)))
    np.testing.assert_allclose(dx, w.sum(axis=0))
    # a result may go where an argument was: it is written when nothing is read any more
    assert kinds.kinds_matrix_grad(*(pointer(v, c_float) for v in (w, x, dw, x))) == 0
    np.testing.assert_array_equal(x, dx)

    z, a = (c_double * 2)(), np.array([1 + 2j, 3j], np.complex64)
    b = np.zeros(2, np.complex64)
    assert kinds.kinds_complex(c_double(1), c_double(-2), pointer(a, c_float), z, pointer(b, c_float)) == 0
    assert complex(*z) == (1 - 2j) ** 2
    np.testing.assert_array_equal(b, a * a)

    bits = ctypes.c_uint16(int(np.float16(1.5).view(np.uint16)))
    h, u, c = ctypes.c_uint16(), ctypes.c_uint8(), ctypes.c_bool()
    assert kinds.kinds_half(bits, ctypes.c_uint8(200), ctypes.c_bool(False), byref(h), byref(u), byref(c)) == 0
    assert np.uint16(h.value).view(np.float16) == 3 and (u.value, c.value) == (200, True)


def test_views_of_an_argument_are_copied(kinds):
    """A transposed Fortran array is the caller's own array in C order: the same elements, other memory."""
    a = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))
    out, extents = POINTER(c_int16)(), (c_int64 * 2)()
    assert kinds.kinds_turned(pointer(a, c_int16), c_int64(3), byref(out), extents) == 0
    np.testing.assert_array_equal(np.ctypeslib.as_array(out, tuple(extents)), a.T)
    assert ctypes.addressof(out.contents) != a.ctypes.data
    kinds.kinds_free.argtypes = [c_void_p]
    kinds.kinds_free(out)


def test_variables(kinds):
    """A variable is one memory for all functions of the library."""
    n = c_int64()
    assert kinds.kinds_count(c_int64(40)) == kinds.kinds_count(c_int64(2)) == kinds.kinds_counted(byref(n)) == 0
    assert n.value == 42


def test_names_do_not_collide(kinds):
    """A function that is called as one of the library's own gets another name; so do C's words."""
    y = c_double()
    assert kinds.kinds_free_(c_double(2), byref(y)) == 0 and y.value == 2
    header = (Path(kinds._name).parent / "kinds.h").read_text(encoding="utf-8")
    assert "int kinds_half(uint16_t int_, uint8_t x, bool c, " in header
    assert " *   z_real, z_imag: c128, real and imaginary part\n" in header


# -- the command line ------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"]], ids=["compile", "run"])
def test_help(words, capsys):
    """The help names every option and every kind of output, and fits 120 columns."""
    assert run_tool(dlc.main, words) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 120
    parser = dlc.compile_parser() if words == ["--help"] else run_parser()
    for action in parser._actions:
        assert all(word in out for word in action.option_strings) and action.help
    if words == ["--help"]:
        described = re.findall(r"^  (\w+) +\S", out[out.index("output (--emit):") :], re.M)
        assert described[: len(dlc.SUFFIXES)] == list(dlc.SUFFIXES)


def test_prefix_and_header(tmp_path, capsys):
    """Names begin with the library's name, or what --prefix says; the header is beside it, or where --header says."""
    file = tmp_path / "p.dl"
    file.write_text(PROGRAM, encoding="utf-8")
    words = [str(file), "--function", "@half", "--cpu", "generic"]
    assert run_tool(dlc.main, [*words, "-o", str(tmp_path / "net-2.o")]) == 0
    assert "int net_2_half(" in (tmp_path / "net_2.h").read_text(encoding="utf-8")
    assert (
        run_tool(dlc.main, [*words, "--prefix", "q", "--header", str(tmp_path / "z.h"), "-o", f"{tmp_path}/a.o"]) == 0
    )
    assert "int q_half(" in (tmp_path / "z.h").read_text(encoding="utf-8") and not (tmp_path / "q.h").exists()
    assert run_tool(dlc.main, [*words, "--emit", "header", "-o", "-"]) == 0
    assert "#ifndef P_H" in capsys.readouterr().out
    assert "--prefix 2x is no C identifier" in failure(capsys, *words, "--prefix", "2x")


def test_signatures(tmp_path, capsys):
    """Types stand behind the name, for a function without annotations or decorator, or other than those."""
    words = [str(FOLDER / "model.py"), "--emit", "header", "-o", "-"]
    types = "loss(<3 x f32>, f32)", "plain(float, (float, <2 x f64>))", "dloss(*strided <_ x f64>, float)"
    assert run_tool(dlc.main, [*words, *(w for t in types for w in ("--function", t))]) == 0
    out = capsys.readouterr().out
    assert "int model_loss(const float *x, float a, double *result);" in out
    assert "int model_plain(double x, double pair_0, const double *pair_1, double *result);" in out
    assert "int model_dloss(const double *x, int64_t x_extent0, int64_t x_stride0, double a, double **result_0," in out
    assert run_tool(dlc.main, [str(FOLDER / "model.py"), "--emit", "dl", "--function", "evens", "-o", "-"]) == 0
    assert "func @evens: (*<_ x f64>) -> *<_ x f64> {" in capsys.readouterr().out


SCOPE = {"np": np, "typing": typing, "Annotated": Annotated, "Vector": Annotated[np.ndarray, "<_ x i32>"]}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("<_ x f64>", "<_ x f64>"),
        ("'<_ x f64>'", "<_ x f64>"),
        ("*fortran <2 x _ x f32>", "*fortran <2 x _ x f32>"),
        (Annotated[np.ndarray, "<_ x i32>"], "<_ x i32>"),
        ("Annotated[np.ndarray, '<_ x i32>']", "<_ x i32>"),
        ("typing.Annotated[np.ndarray, 1, '<_ x i32>']", "<_ x i32>"),
        ("Vector", "<_ x i32>"),
        (np.float32, "f32"),
        ("np.float32", "f32"),
        ("i16", "i16"),
        (float, "float"),
        ("float", "float"),
        (bool, "bool"),
        ("(int, (f32, <3 x f64>))", "(int, (f32, <3 x f64>))"),
    ],
    ids=str,
)
def test_annotations(said, shown):
    """Each spelling of an annotation is the item that it stands for."""
    found = annotated(inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY, annotation=said), "f", SCOPE)
    assert found == read_signature(f"f({shown})")[1][0]


@pytest.mark.parametrize("said", [list, np.ndarray, Annotated[np.ndarray, 3], "Annotated[np.ndarray, 3]", np.str_])
def test_annotations_that_are_none(said):
    """Other annotations say nothing of the types."""
    with pytest.raises(Failure, match="the annotation of 'x' of f is no type of an argument"):
        annotated(inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY, annotation=said), "f", SCOPE)


SIGNATURE_ERRORS = [
    ("loss(<_ x f64>, flot)", "expected the type of an argument: float, int,", "loss(<_ x f64>, flot)", 17),
    ("loss(<_ f64>, float)", "expected 'x' between blanks", "loss(<_ f64>, float)", 9),
    ("loss(<_ x f64>", "expected ',' or ')'", "loss(<_ x f64>", 15),
    ("loss(float) x", "expected the end of the signature", "loss(float) x", 13),
    ("loss(<_ x f64>, *$Point)", "there is no type '$Point'", "loss(<_ x f64>, *$Point)", 18),
    ("loss(*f64, float)", "an argument cannot have the type *f64", "loss(*f64, float)", 6),
]


@pytest.mark.parametrize(("word", "reason", "line", "column"), SIGNATURE_ERRORS, ids=[e[0] for e in SIGNATURE_ERRORS])
def test_bad_signature(capsys, word, reason, line, column):
    """A bad signature is shown with a caret under the guilty word."""
    said = failure(capsys, FOLDER / "model.py", "--function", word, "--emit", "header", "-o", "-")
    assert reason in said and f"--function:1:{column}: error DL1" in said
    assert f"\n    {line}\n    {' ' * (column - 1)}^" in said


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("nothing", "there is no function nothing; compiled functions of the file are: loss, dloss, valued,"),
        ("loss(<_ x f64>)", "loss takes 2 arguments (x, a), and 'loss(<_ x f64>)' gives 1 types"),
        ("heat(<_ x f64>, float, (int, int))", "an argument of range must be an int, not a tuple of 2"),
        ("dloss(<_ x i64>, float)", "cannot differentiate with respect to 'x'"),
    ],
)
def test_function_errors(capsys, word, reason):
    """What is not there, has other parameters, or cannot be compiled for these types, is said."""
    assert reason in failure(capsys, FOLDER / "model.py", "--function", word, "--emit", "header", "-o", "-")


BAD = """import numpy as np
import dlvm_py as dlvm
total = np.zeros(3)
big = np.zeros(3_000_000)
@dlvm.jit
def silent(x): return x + 1
@dlvm.jit
def odd(x: "list"): return x
@dlvm.jit
def typo(x: "<_ x 2 f64>"): return x
@dlvm.jit
def writes(x: float):
    total[0] += x
@dlvm.jit
def reads(x: float): return big[0] + x
"""


def test_python_file_errors(tmp_path, capsys):
    """No types, an annotation that is none, captured arrays that are written or too large, a file that raises."""
    file = tmp_path / "bad.py"
    file.write_text(BAD, encoding="utf-8")
    assert "its parameter 'x' has no annotation\n  help: give them on" in failure(capsys, file)
    assert "the annotation of 'x' of odd is no type of an argument" in failure(capsys, file, "--function", "odd")
    assert "<annotation of x>:1:8: error DL111" in failure(capsys, file, "--function", "typo")
    assert "writes writes the array 'total', which is no argument" in failure(capsys, file, "--function", "writes")
    assert "reads the array 'big' of 24000000 bytes" in failure(capsys, file, "--function", "reads")
    file.write_text("def f():\n    return 1 // 0\n\nf()\n", encoding="utf-8")
    said = failure(capsys, file)
    assert "bad.py cannot be loaded:" in said and "line 2, in f" in said and "ZeroDivisionError" in said
    file.write_text("x = 1\n", encoding="utf-8")
    assert "the file makes no compiled function" in failure(capsys, file)
    assert "invalid input path: nowhere.py" in failure(capsys, "nowhere.py")


def test_types_without_c_form(tmp_path, capsys):
    """Structs and nested tuples are refused at the function."""
    file = tmp_path / "s.dl"
    head = 'module "s"\nstage raw\n\nstruct $P {\n    #x: f32\n}\n\n'
    file.write_text(f"{head}func @f: ($P) -> f32 {{\n'entry(%p: $P):\n    return 1: f32\n}}\n", encoding="utf-8")
    said = failure(capsys, file)
    assert (
        "error: the parameter 0 of @f has the type $P, which has no C form" in said and "s.dl:8:6: error DL400" in said
    )
    file.write_text(f"{head}func @f: ((f32, f32)) -> f32 {{\n'entry(%p: (f32, f32)):\n    return 1: f32\n}}\n")
    assert "has the type (f32, f32), which has no C form" in failure(capsys, file)


def test_no_linker(tmp_path, capsys, monkeypatch):
    """Without a C compiler a shared library is refused, with what to install; an object needs none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    file = tmp_path / "p.dl"
    file.write_text(PROGRAM, encoding="utf-8")
    said = failure(capsys, file, "--emit", "shared", "--function", "@half")
    assert "needs a linker, and there is none" in said and "pip install ziglang" in said
    assert not (tmp_path / "libp.so").exists()
    assert run_tool(dlc.main, [str(file), "--function", "@half"]) == 0 and (tmp_path / "p.o").exists()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert linker.find_linker()[1:] == ["-m", "ziglang", "cc"]
    monkeypatch.setenv("CC", "nocc -m64")
    assert "$CC names nocc, which is not found" in failure(capsys, file, "--emit", "shared", "--function", "@half")


@needs_cc
def test_linker_fails(tmp_path, capsys):
    """What the linker says is shown."""
    file = tmp_path / "p.dl"
    file.write_text(PROGRAM, encoding="utf-8")
    said = failure(capsys, file, "--emit", "shared", "--function", "@half", "-l", "no_such_library_anywhere")
    assert "could not link libp.so" in said and "no_such_library_anywhere" in said
    said = failure(capsys, file, "--emit", "shared", "--function", "@half", "-o", tmp_path / "no" / "libp.so")
    assert "error: cannot write " in said


def test_run_python(capsys):
    """`dlc run` calls functions of a Python file: what they return, what they write, what they raise."""
    file = str(FOLDER / "model.py")
    assert run_tool(dlc.main, ["run", file, "axpy", "[1.0, 2.0]", "<2 x f64>:[3, 4]", "0.5"]) == 0
    assert capsys.readouterr().out == "argument 0: [2.5, 4. ]\n"
    assert run_tool(dlc.main, ["run", file, "dheat", "[0.0, 1.0, 4.0]", "0.125", "1"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("<3 x f64>: [") and out[1].startswith("f64: ")
    assert run_tool(dlc.main, ["run", file, "plain", "2.0:f64", "(3.0, 1.0)"]) == 1
    assert "error: " in capsys.readouterr().err
    said = failure(capsys, "run", file, "element", "[1.0]", "1", "1.0")
    assert said == "error: the program raised IndexError: index 1 is out of bounds for axis 0 with size 1\n"
    assert "--interpret is for .dl programs" in failure(capsys, "run", file, "loss", "--interpret")
