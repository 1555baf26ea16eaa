"""PTX for one thread: what has code for it is assembled, what has none is refused; entries run here as CPU code."""

import ctypes
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from assembler import ARCHITECTURES, assembler
from assembler import assembled as assembler_says

from dlvm_py.backend.aot.ptx import Entry, ptx_text
from dlvm_py.backend.cpu.compile import assemble, link, parse, support_text
from dlvm_py.backend.cpu.text import ModuleText
from dlvm_py.backend.imports import Imports
from dlvm_py.errors import TypeMismatch, UnknownFunction, VerifierError
from dlvm_py.ir import BOOL, DTYPES, OPS, VOID, Builder, Function, Kind, Module, scalar
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify
from dlvm_py.runtime.loader import load
from dlvm_py.tools import dlc
from dlvm_py.tools.aot import Exporter
from dlvm_py.tools.common import run_tool
from dlvm_py.transforms import differentiate_module

# a loop with a tape (its gradient allocates), a store, a check, an array by value
PROGRAM = """module "device"
stage raw

func @sum: (*<_ x f64>, i64) -> f64 {
'entry(%x: *<_ x f64>, %n: i64):
    branch 'head(0: i64, 1.0: f64)
'head(%i: i64, %s: f64):
    %more = lessThan %i: i64, %n: i64
    conditional %more: bool then 'body() else 'end()
'body():
    %size = extent %x: *<_ x f64> at 0
    %inside = lessThan %i: i64, %size: i64
    check %inside: bool else IndexError "index {} is out of bounds, the size is {}" (%i: i64, %size: i64)
    %at = elementPointer %x: *<_ x f64> at %i: i64
    %v = load %at: *f64
    %p = multiply %s: f64, %v: f64
    %t = add %p: f64, %v: f64
    %j = add %i: i64, 1: i64
    branch 'head(%j: i64, %t: f64)
'end():
    return %s: f64
}

[adjoint @sum wrt 0 keeping 0]
func @sum_grad: (*<_ x f64>, i64) -> (*<_ x f64>, f64)

func @twice: (<2 x 3 x f32>) -> <3 x f32> {
'entry(%x: <2 x 3 x f32>):
    %y = add %x: <2 x 3 x f32>, %x: <2 x 3 x f32>
    %s = reduce %y: <2 x 3 x f32> by add init 0: f32 along 0
    return %s: <3 x f32>
}

func @scale: (*<_ x f64>, f64) -> () {
'entry(%x: *<_ x f64>, %a: f64):
    %v = load %x: *<_ x f64>
    %w = multiply %v: <_ x f64>, %a: f64
    store %w: <_ x f64> to %x: *<_ x f64>
    return
}
"""


def exporter(text=PROGRAM):
    """The exports of a program for a GPU."""
    module = parse_module(text, "device.dl", locate=True)
    differentiate_module.run(module)
    found = Exporter("device", for_gpu=True)
    for name, function in module.functions.items():
        if function.blocks:
            found.add_function(module, name)
    return found


def assembled(text):
    """ptxas accepts the text, for each of ARCHITECTURES that runs it."""
    if assembler() is None:
        pytest.skip("no ptxas")
    made_for = re.search(r"^\.target (sm_\d+)$", text, re.MULTILINE)[1]
    with ThreadPoolExecutor(len(ARCHITECTURES)) as pool:
        for found in pool.map(lambda to: assembler_says(text, to), ARCHITECTURES[ARCHITECTURES.index(made_for) :]):
            assert found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_program(architecture):
    """Loops, tapes, checks and array kernels are assembled; comments say what an entry takes and its errors."""
    text = ptx_text(exporter().exports, "device.dl", architecture)
    assert f"\n.target {architecture}\n" in text
    for name in ("sum", "sum_grad", "twice", "scale"):
        assert f".visible .entry device_{name}(" in text
    assert (
        "// device_scale(double *x, int64_t x_extent0, double a, void *arena, int64_t arena_bytes, int64_t status[5])"
        in text
    )
    assert "// status 1: IndexError: index {} is out of bounds, the size is {} (device.dl:13:5)" in text
    assembled(text)


def test_command(tmp_path, capsys):
    """`dlc --emit ptx` writes beside the program."""
    (tmp_path / "device.dl").write_text(PROGRAM, encoding="utf-8")
    words = [str(tmp_path / "device.dl"), "--emit", "ptx", "--gpu-arch", "sm_80", "--function", "@scale"]
    assert run_tool(dlc.main, words) == 0
    text = (tmp_path / "device.ptx").read_text(encoding="utf-8")
    assert text.startswith("// Made by dlc from device.dl for sm_80") and text.count(".visible .entry") == 1
    assert run_tool(dlc.main, [*words[:3], "--gpu-arch", "sm_7"]) == 1
    assert "argument --gpu-arch: invalid choice: 'sm_7'" in capsys.readouterr().err


def refusal(text):
    """What is said of a program without GPU code."""
    with pytest.raises(UnknownFunction) as caught:
        exporter(text)
    assert caught.value.code == "DL301"
    return str(caught.value)


HEAD = 'module "m"\nstage raw\n\n'


@pytest.mark.parametrize(
    ("body", "place", "what"),
    [
        ("(c64) -> c64 {\n'e(%x: c64):\n    %y = tanh %x: c64\n    return %y: c64\n}\n",
         "6:10", "tanh, which calls ctanh of libm"),
        ("(<_ x _ x f64>, <_ x _ x f64>) -> <_ x _ x f64> {\n'e(%x: <_ x _ x f64>, %z: <_ x _ x f64>):\n"
         "    %y = dot %x: <_ x _ x f64>, %z: <_ x _ x f64>\n    return %y: <_ x _ x f64>\n}\n", "6:10", "of BLAS"),
        ("(i64) -> i64 {\n'e(%n: i64):\n    %y = apply @f(%n: i64) -> i64\n    return %y: i64\n}\n", "6:10",
         "calls of functions (@f is recursive)"),
    ],
)  # fmt: skip
def test_refusals(body, place, what):
    """What calls a library, or itself, is named with its line."""
    said = refusal(f"{HEAD}func @f: {body}")
    assert f"device.dl:{place}: error DL301: there is no GPU code for " in said and what in said


def test_variables():
    """What outlives a call is refused."""
    body = "var @v: i64\n\nfunc @f: () -> i64 {\n'e():\n    %x = load @v: *i64\n    return %x: i64\n}\n"
    with pytest.raises(TypeMismatch, match="@f uses the variable @v of type i64, which a GPU thread does not have"):
        exporter(HEAD + body)


# -- entries as CPU code ---------------------------------------------------------------------------------


class HostEntry(Entry):
    """An entry that the CPU runs: it is one thread anyway."""

    convention = ""

    def one_thread(self):
        pass


@pytest.fixture(scope="module")
def entries():
    """The loaded entries of PROGRAM, by name."""
    exports = exporter().exports
    imports = Imports()
    modules = [link([parse(e.text), parse(HostEntry(ModuleText(), e).text())], [e.name]) for e in exports]
    whole = link([*modules, parse(support_text(imports, "device.ll"))], [e.name for e in exports])
    assert not imports.names
    names = [e.name for e in exports]
    code = load(assemble(whole).object, [], names)

    def call(name, *args, arena=1 << 20):
        memory, status = np.zeros(arena // 8 + 8), np.full(5, 77, np.int64)
        flat = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
        types = [ctypes.c_double if isinstance(a, float) else ctypes.c_void_p for a in flat]
        kinds = [*types, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        function = ctypes.CFUNCTYPE(None, *kinds)(code[f"device_{name}"])
        function(*flat, memory.ctypes.data, arena, status.ctypes.data)
        assert not memory[arena // 8 :].any(), "beyond the arena"
        return memory, status

    call.code = code
    return call


def reference(x, n):
    """@sum and its gradient in Python."""
    s, values = 1.0, []
    for v in x[:n]:
        values.append(s)
        s = s * v + v
    gradient, adjoint = np.zeros_like(x), 1.0
    for k in reversed(range(n)):
        gradient[k] = adjoint * (values[k] + 1)
        adjoint *= x[k]
    return s, gradient


@pytest.mark.parametrize("n", [0, 1, 5, 200, 3000])
def test_gradient_with_a_tape(entries, n):
    """The tape grows in the arena; the gradient is new memory there."""
    x = 1 + np.random.default_rng(n).normal(size=n + 2) / 50
    gradient, extents, value = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1)
    memory, status = entries("sum_grad", x, n + 2, n, gradient, extents, value)
    assert status[0] == 0 and extents[0] == n + 2
    start = (gradient[0] - memory.ctypes.data) // 8
    wanted = reference(x, n)
    np.testing.assert_allclose(value[0], wanted[0], rtol=1e-13)
    np.testing.assert_allclose(memory[start : start + n + 2], wanted[1], rtol=1e-12)


@pytest.mark.parametrize("arena", [0, 64, 1024, 4096])
def test_small_arena(entries, arena):
    """An arena that is too small is status -1, and no byte beyond it is touched."""
    x = np.ones(3000)
    out = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1)
    _, status = entries("sum_grad", x, 3000, 3000, *out, arena=arena)
    assert status[0] == -1 and not out[0][0]


def test_errors_and_results(entries):
    """Status is the number of the error, with its operands; arrays of known extents go to the caller's memory."""
    x, value = np.array([2.0, 3.0]), np.zeros(1)
    _, status = entries("sum", x, 2, 3, value)
    assert status[:3].tolist() == [1, 2, 2] and value[0] == 0
    _, status = entries("sum", x, 2, 2, value)
    assert status[0] == 0 and value[0] == reference(x, 2)[0]
    _, status = entries("scale", x, 2, 0.5)
    assert status[0] == 0 and x.tolist() == [1.0, 1.5]
    matrix, sums = np.arange(6, dtype=np.float32), np.zeros(3, np.float32)
    _, status = entries("twice", matrix, sums)
    assert status[0] == 0 and sums.tolist() == [6, 10, 14]


# -- every op --------------------------------------------------------------------------------------------


def one_op(op, dtype, count):
    """A module with a function that applies an elementwise op, or None where it does not take such operands."""
    function = Function(f"{op.name}_{dtype}", VOID)
    b = Builder(function, function.new_block("entry"))
    operands = [function.entry.add_arg(scalar(dtype), f"x{k}") for k in range(count)]
    if op.name == "select":
        operands.append(function.entry.add_arg(scalar(BOOL), "c"))
    try:
        value = b.emit(op.name, *operands, **{k: v for k, v in (("to", "f32"), ("order", 2)) if k in op.attrs})
    except (TypeError, ValueError):
        return None
    b.ret(value)
    function.result = value.type
    module = Module("one")
    module.add(function)
    try:
        verify(module)
    except VerifierError:
        return None
    return module


SOME = ("bool", "i32", "f32", "f64", "c64")


@pytest.mark.parametrize("dtypes", [SOME, pytest.param(tuple(DTYPES), marks=pytest.mark.slow)], ids=["some", "all"])
def test_every_elementwise_op(dtypes):
    """Each op either has code that ptxas accepts, or is refused by its name; integer arithmetic is never refused."""
    found, refused = Exporter("op", for_gpu=True), set()
    for op in (op for op in OPS.values() if op.kind is Kind.ELEMENTWISE):
        made = [(DTYPES[d], one_op(op, DTYPES[d], n)) for d in dtypes for n in (1, 2, 3)]
        made = [(d, m) for d, m in made if m is not None]
        assert made, op.name
        for dtype, module in made:
            name = next(iter(module.functions))
            try:
                found.add_function(module, name)
            except UnknownFunction as e:
                assert f"no GPU code for {op.name}, which calls " in str(e) and dtype.is_inexact, str(e)
                refused.add(op.name)
    assert {"tanh"} <= refused and not {"modulo", "atan2", "hypot", "erf", "gamma", "lgamma"} & refused
    assert not {"add", "multiply", "divide", "square", "select", "max", "dataTypeCast"} & refused
    assembled(ptx_text(found.exports, "ops"))
