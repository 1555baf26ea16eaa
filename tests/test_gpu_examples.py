"""target="gpu": the functions of the examples, and the examples as a whole, on the emulated device."""

import copy
import functools
import importlib.util
import linecache
import re
import textwrap
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from test_parser_examples import CASES, cases

import dlvm_py as dlvm
from dlvm_py.ir import interpreter
from dlvm_py.runtime.gpu.device import Device, live

FOLDER = Path(__file__).parent.parent / "examples"
ON_GPU = cases(functools.partial(dlvm.jit, target="gpu"))


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, tuple) else [value]


# what the derivatives compute as well
LONGER = {0, 6}


@pytest.mark.parametrize(
    "k", [pytest.param(k, marks=pytest.mark.slow) if k in LONGER else k for k in range(len(CASES))]
)
def test_functions_of_the_examples_and_their_derivatives(k, monkeypatch):
    """Results and written arguments are those of the CPU's program, done by the interpreter."""
    monkeypatch.setenv("DLVM_GPU", "emulator")
    (on_gpu, _), (on_cpu, given) = ON_GPU[k], CASES[k]
    calls = [[a.copy() if isinstance(a, np.ndarray) else a for a in given] for _ in range(2)]
    before, program = live(), on_cpu.program(*given, stage="optimizable")
    got, expected = on_gpu(*calls[0]), interpreter.run(program.module, program.name, calls[1])
    for a, b in zip(flat((got, *calls[0])), flat((expected, *calls[1])), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, 1e-12, 1e-14)
    assert live() == before


# what makes them short
ARGUMENTS = {"digits": ["--epochs=6"], "heat": ["--quick"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_an_example_on_the_device(name, monkeypatch, tmp_path):
    monkeypatch.setenv("DLVM_GPU", "emulator")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    on_gpu, moved = functools.partial(dlvm.jit, target="gpu"), []

    def made_on_gpu(derive):
        # a compiled function brings its target along
        return lambda f, **options: derive(on_gpu(f) if isinstance(f, FunctionType) else f, **options)

    for derive in (dlvm.grad, dlvm.value_and_grad):
        monkeypatch.setattr(dlvm, derive.__name__, made_on_gpu(derive))
    monkeypatch.setattr(dlvm, "jit", on_gpu)
    allocate = Device.allocate
    monkeypatch.setattr(Device, "allocate", lambda self, *args: moved.append(args) or allocate(self, *args))
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PICTURE", tmp_path / "picture.png", raising=False)
    before = live()
    assert module.main(*filter(None, [ARGUMENTS.get(name)])) == 0
    assert moved and live() == before


PAGE = Path(__file__).parent.parent / "docs" / "gpu.md"
WHOLE, *FRAGMENTS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
PARTS = np.linspace(0.5, 1.5, 40)
# of each: what its names are, what it changes or computes, and what its comment says that it becomes
MEANT = [
    ({"n": 5, "p": PARTS, "m": PARTS, "a": np.zeros(5)}, "a", "loop as a grid"),
    ({"n": 3, "x": PARTS.reshape(4, 10), "out": np.zeros((4, 10))}, "out", "loop over rows as a grid"),
    (
        {"n": 4, "m": 9, "s0": 1.0, "sigma": 0.3, "z": PARTS.reshape(4, 10), "total": 0.0, "strike": 0.9},
        "total",
        "grid",
    ),
    ({"steps": 20, "dt": 0.1, "u": PARTS, "v": PARTS.copy()}, "u, v", "replay"),
]
# of which test_gpu_loops.py has more
LOOPS = [
    pytest.param(code, meant, id=meant[2], marks=pytest.mark.slow if "grid" in meant[2] else ())
    for code, meant in zip(FRAGMENTS, MEANT, strict=True)
]


def _of_page(code, tmp_path):
    # compiled functions need their source in a file
    path = tmp_path / "page.py"
    path.write_text(code, encoding="utf-8")
    linecache.checkcache(str(path))
    scope = {"np": np, "dlvm": dlvm, "u": PARTS.copy()}
    exec(compile(code, str(path), "exec"), scope)
    return scope


@pytest.mark.slow
def test_the_function_of_the_page(monkeypatch, tmp_path):
    monkeypatch.setenv("DLVM_GPU", "emulator")
    code = WHOLE.replace("dlvm.grad(step)", "found = dlvm.grad(step)")
    on_gpu, on_cpu = (_of_page(text, tmp_path)["found"] for text in (code, code.replace('(target="gpu")', "")))
    np.testing.assert_allclose(on_gpu, on_cpu, 1e-12)


@pytest.mark.parametrize(("code", "meant"), LOOPS)
def test_the_loops_of_the_page_are_what_it_says(code, meant, monkeypatch, tmp_path):
    monkeypatch.setenv("DLVM_GPU", "emulator")
    names, made, kind = meant
    body = textwrap.indent(f"{code}return {made}", "    ")
    f = _of_page(f"def f({', '.join(names)}):\n{body}", tmp_path)["f"]
    compiled = dlvm.jit(f, target="gpu")
    got, expected = (g(*(copy.copy(v) for v in names.values())) for g in (compiled, f))
    np.testing.assert_allclose(got, expected, 1e-12)
    said = compiled.ir(stage="scheduled") if kind == "replay" else compiled.ptx(*names.values())
    assert re.search(kind, said)
