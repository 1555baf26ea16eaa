"""target="gpu": the examples, all of whose functions run on the emulated device, keep the promises that they check."""

import functools
import importlib.util
from pathlib import Path
from types import FunctionType

import pytest

import dlvm_py as dlvm
from dlvm_py.runtime.gpu.device import Device, live

FOLDER = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arguments"), [("poster", []), ("digits", ["--epochs=6"]), ("heat", ["--quick"])])
def test_an_example_on_the_device(name, arguments, monkeypatch, tmp_path):
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
    assert module.main(*[arguments] if arguments else []) == 0
    assert moved and live() == before
