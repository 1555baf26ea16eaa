"""target="gpu": the functions of the examples, and the examples as a whole, on the emulated device."""

import functools
import importlib.util
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
