"""What `import dlvm_py`, and a process whose code is all in the disk cache, load: not the compiler.

Counted are modules, not seconds: a module too many shows on any machine.
"""

import json

import pytest
from processes import run_program

from dlvm_py.frozen import Frozen, Mutable, as_dict, field, replace
from dlvm_py.transforms.pass_manager import PASSES

PROGRAM = """
import json, sys
import numpy as np
import dataclasses, inspect
before = set(sys.modules)
import dlvm_py as dlvm

def f(x):
    total = 0.0
    for v in x:
        total += np.sin(v) if v > 0 else v
    return total

stages = {"import": set(sys.modules) - before}
g, x = dlvm.jit(f), np.linspace(-1.0, 1.0, 5)
grad = dlvm.grad(g)
g(x), grad(x)
stages["call"] = set(sys.modules) - before
counts = [h.stats()["compiled"] for h in (g, grad)]
print(json.dumps([{k: sorted(v) for k, v in stages.items()}, counts]))
"""

COMPILER = (
    "dlvm_py.driver", "dlvm_py.derivative", "dlvm_py.report", "dlvm_py.transforms", "dlvm_py.backend.cpu",
    "dlvm_py.ir.op", "dlvm_py.ir.ops", "dlvm_py.ir.value", "dlvm_py.ir.function", "dlvm_py.ir.builder",
    "dlvm_py.ir.printer", "dlvm_py.ir.parser", "dlvm_py.frontend.translate", "dlvm_py.frontend.table", "gast",
)  # fmt: skip
LATER = (
    "llvmlite",
    "hashlib",
    "json",
    "platformdirs",
    "subprocess",
    "tempfile",
    "pathlib",
    "numpy.random",
    "sysconfig",
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The modules that each stage has loaded beside NumPy's, in a process that finds its code in the cache.

    "compile" are those of a process that compiles it.
    """
    folder = tmp_path_factory.mktemp("imports")
    for wanted in ([1, 1], [0, 0]):
        done = run_program(PROGRAM, folder, DLVM_CACHE_DIR=str(folder / "cache"), DLVM_CACHE="1")
        stages, compiled = json.loads(done.stdout)
        assert compiled == wanted
        if wanted[0]:
            compiling = stages["call"]
    return {**stages, "compile": compiling}


def of(modules, names):
    """The modules that are, or lie in, one of these."""
    return [m for m in modules if any(m == n or m.startswith(n + ".") for n in names)]


def test_import_loads_neither_compiler_nor_llvm(loaded):
    """NumPy and the types of arguments, and what this table does not name."""
    assert of(loaded["import"], (*COMPILER, *LATER)) == []
    assert len(of(loaded["import"], ["dlvm_py"])) < 60


def test_cached_calls_load_no_compiler(loaded):
    """The first call and the first gradient need what links object files, and no more of the compiler."""
    assert of(loaded["call"], COMPILER) == []
    assert of(loaded["call"], ["dlvm_py"]) == of(loaded["import"], ["dlvm_py"])
    assert of(loaded["call"], ["numpy.random", "subprocess", "sysconfig"]) == []
    assert of(loaded["call"], ["llvmlite.binding"])


def test_compiling_loads_only_the_parts_of_numpy_that_are_called(loaded):
    """What NumPy imports when it is asked for, and the rules for its functions."""
    parts = ["numpy.random", "numpy.fft", "numpy.polynomial"]
    rules = ["dlvm_py.frontend.library.fourier", "dlvm_py.frontend.library.series"]
    assert of(loaded["compile"], ["dlvm_py.frontend.table"])
    assert of(loaded["compile"], [*parts, *rules]) == []


WAITED_FOR = """
import json, sys
import numpy as np
import dlvm_py as dlvm
from dlvm_py.runtime.native import standing

def f(x, n):
    for _ in range(n):
        x = np.sin(x) if x > 0.5 else x * x
    return x

dlvm.grad(f, wrt="x")(0.7, 10)
parts = [sorted(standing._parts)]
modules = [m for m in sys.modules if m.startswith("dlvm_py")]
g = dlvm.jit(lambda a: a * 2.0)
assert g(np.ones(3)).tolist() == [2.0] * 3
print(json.dumps([*parts, sorted(standing._parts), modules]))
"""
ARRAYS = ("kernels", "reductions", "matmul", "fourier", "decompositions", "trees")
OF_ARRAYS = ("fusion", "kernel_versions", *(name for name, row in PASSES.items() if row.needs is not None))


def test_what_has_no_arrays_waits_for_nothing_that_arrays_need(tmp_path):
    """In a process without a disk cache: parts of the runtime that are compiled, modules that are imported."""
    done = run_program(WAITED_FOR, tmp_path, DLVM_CACHE="0", DLVM_VERIFY="0")
    scalars, arrays, modules = json.loads(done.stdout)
    assert scalars == ["entry", "runtime"]
    assert {"arrays", "threads"} <= set(arrays)
    assert "tapes" not in arrays
    assert of(modules, [f"dlvm_py.backend.cpu.{name}" for name in ARRAYS]) == []
    assert of(modules, ["dlvm_py.transforms.differentiate.jacobian", "dlvm_py.ir.verifier", "dlvm_py.ir.printer"]) == []
    assert of(modules, [f"dlvm_py.transforms.{name}" for name in OF_ARRAYS]) == []
    assert of(modules, ["dlvm_py.frontend.library_tables"]) == []


class Point(Frozen):
    """A record of every kind of field."""

    x: int
    y: float = 2.0
    tags: list = field(default_factory=list)
    note: str = field(default="", compare=False, kw_only=True)


class Named(Point, eq=False):
    """One more field, and identity."""

    name: str = "n"


def test_frozen_records():
    """Fields, defaults, equality, match and errors as data classes have them."""
    p = Point(1, note="a")
    assert (p.x, p.y, p.tags, p.note) == (1, 2.0, [], "a") and p.tags is not Point(1).tags
    assert p == Point(x=1) and p != Point(2) and p != (1, 2.0, []) and repr(p) == "Point(x=1, y=2.0, tags=[])"
    assert hash(Point(1, tags=())) == hash(Point(1, 2.0, ()))
    assert as_dict(replace(p, y=3.0)) == {"x": 1, "y": 3.0, "tags": [], "note": "a"}
    assert Named(1) != Named(1) and Named(1, name="m").name == "m" and Named.__slots__ == ("name",)
    match p:
        case Point(1, y):
            assert y == 2.0
    for change in (lambda: setattr(p, "x", 2), lambda: delattr(p, "x")):
        with pytest.raises(AttributeError, match="immutable"):
            change()
    for wrong in (lambda: Point(), lambda: Point(1, x=1), lambda: Point(1, 2, 3, 4), lambda: Point(1, z=1)):
        with pytest.raises(TypeError, match="Point"):
            wrong()


class Tally(Mutable):
    """A record that changes."""

    name: str
    seen: list = field(default_factory=list)
    total: int = 0

    def __post_init__(self):
        self.total = len(self.seen)


def test_mutable_records():
    """They change, compare by fields and have no hash; what a new one needs beside its fields is done at its end."""
    t, same = Tally("a", [1, 2]), Tally(name="a", seen=[1, 2])
    assert t == same and t.total == 2 and Tally("b").seen is not Tally("b").seen
    t.name = "c"
    assert t != same and repr(t) == "Tally(name='c', seen=[1, 2], total=2)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(t)
    with pytest.raises(AttributeError):
        t.other = 1


def test_records_that_cannot_be():
    """A constructor of a class's own, which its instances would not get, and a field that could never be left out."""
    with pytest.raises(TypeError, match="__post_init__"):
        type(Tally)("Own", (Mutable,), {"__init__": lambda self: None})
    late = type(Tally)("Late", (Tally,), {"__annotations__": {"size": "int"}})
    with pytest.raises(TypeError, match="Late: a field without a default"):
        late("a", [], 0, 1)
