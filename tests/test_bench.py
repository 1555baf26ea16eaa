"""The benchmark harness: what it says about a race, and one short race."""

import ast
import importlib
import inspect
import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
bench = importlib.import_module("bench")
single_calls = importlib.import_module("single_calls")
peers = importlib.import_module("harness.peers")
problems = importlib.import_module("harness.problems")
race = importlib.import_module("harness.race")
table = importlib.import_module("harness.table")


def tools(**times):
    return {name.replace("_", " "): {"time_s": t} if t else {"error": "fails"} for name, t in times.items()}


def test_variants_of_a_tool_count_as_its_best():
    found = table.merged(tools(Numba=None, Numba_n=3.0, Numba_np=2.0, JAX=4.0) | {"Numba o": {}})
    assert found["Numba"] == {"time_s": 2.0, "variant": "np"} and set(found) == {"Numba", "JAX"}


def test_losses_come_first():
    rows = [("won", {"dlvm-py": {"time_s": 1.0}, "NumPy": {"time_s": 4.0}, "JAX": {"time_s": 2.0}}),
            ("lost", {"dlvm-py": {"time_s": 2.0}, "NumPy": {"time_s": 4.0}, "JAX": {"time_s": 1.0}}),
            ("alone", {"dlvm-py": {"time_s": 1.0}, "NumPy": {"error": "its outputs differ"}})]  # fmt: skip
    lines = table.table(rows)
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| lost", "| won", "| alone"]
    assert "**0.50**" in lines[2] and "differs" in lines[4]
    said = table.summary(rows)
    assert said[0] == "Slower than the fastest peer on 1 of 2: lost (2.00x JAX's time)."
    assert said[1] == "Fastest peer's time over ours: geometric mean 1.00."


def test_a_section_is_replaced_and_the_rest_kept(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    table.write_section(page, "a", ["one"])
    table.write_section(page, "b", ["two"])
    table.write_section(page, "a", ["three"])
    text = page.read_text()
    assert text.startswith("# Page\n") and "one" not in text and text.index("three") < text.index("two")


def test_every_kernel_can_be_loaded():
    assert len(problems.own_kernels()) >= 10
    for name in problems.own_kernels():
        problem = problems.load(problems.Case("own", name, "S"))
        assert set(problem.wrt) <= set(problem.arguments)
        for port in filter(None, map(problem.port, ("numpy", "numba", "jax", "torch"))):
            assert list(inspect.signature(port).parameters) == list(problem.arguments), name


@pytest.mark.parametrize("mode", ["function", "gradient"])
def test_a_race(mode, tmp_path):
    case = problems.Case("own", "recurrence", "20", json.dumps({"steps": 20}))
    setting = race.Setting(threads=1, seconds=0.02, turns=2, together=mode == "gradient")
    found = race.race(
        case, mode, ["dlvm-py", "NumPy", "tangent"], setting, "NumPy" if mode == "function" else "dlvm-py"
    )
    ours = found["dlvm-py"]
    assert "error" not in ours and ours["time_s"] > 0 and ours["calls"] >= 2
    assert "compile_s" not in ours if setting.together else ours["compile_s"] > 0
    assert ("time_s" in found["NumPy"]) == (mode == "function")
    assert "time_s" not in found["tangent"] or mode == "gradient"


def test_wrong_outputs_leave_the_race(tmp_path):
    np.savez(tmp_path / "right.npz", np.ones(3))
    np.savez(tmp_path / "wrong.npz", np.array([1.0, 1.0, 1.1]))

    class Entrant:
        runs, record = True, None
        peer = "wrong"

        def leave(self, why):
            self.record = why

    entrant = Entrant()
    race._compare([entrant], "right", tmp_path)
    assert entrant.record == "its outputs differ from those of right"
    entrant.record = None
    race._compare([entrant], "right", tmp_path, [1e9])
    assert entrant.record is None  # a tenth is rounding where a million would be no wonder


def test_what_a_gradient_is_compared_with():
    def kernel(x, zero, out):
        out[:] = 8 * x
        return x.sum() + zero.sum()

    arguments = {"x": np.full(3, 2.0), "zero": np.zeros(3), "out": np.zeros(3)}
    problem = problems.Problem("k", arguments, lambda _: kernel, ("out",), ("x", "zero"))
    assert problems.gradient_sizes(problem) == [8.0, 0.0]


def test_ports_name_each_kernel_and_its_arguments():
    source = Path(bench.__file__).with_name("npbench") / "jax_ports.py"
    ports = [n for n in ast.parse(source.read_text()).body if isinstance(n, ast.FunctionDef) and n.name[0] != "_"]
    names = [p.name for p in ports]
    assert names == sorted(names) and len(names) > 20
    for port in ports:
        given = [a.arg for a in port.args.args]
        read = {n.id for n in ast.walk(port) if isinstance(n, ast.Name)}
        assert port.args.defaults == [] and ast.get_docstring(port), port.name
        assert any(isinstance(n, ast.Return) and n.value for n in port.body) and read & set(given), port.name


TEST_OF_DACE = """
import dace

TWICE = 2.0
SIZES = dace.symbols("N")

@dace.program
def kernel(n: dace.int32, A: dace.float64[5], b: dace.float64[5]):
    ...

def scaled(jnp, n, A):
    return TWICE * n * jnp.exp(A)

def kernel_jax(jnp, lax, n, A, b):
    return jnp.sum(scaled(jnp, n, A) * b)

def run(device: dace.DeviceType):
    @dace.program
    def summed(n: dace.int32, A: dace.float64[5], b: dace.float64[5]):
        first, second = kernel(n, A, b)
        return np.sum(second)

    jax_kernel = lambda n, A, b: kernel_jax(jnp, lax, n, A, b)
    jax_grad = jax.jit(jax.grad(jax_kernel, argnums=1), static_argnums=(0,))
"""


def test_what_dace_differentiates_is_read_from_its_test(tmp_path):
    """Its port runs without DaCe."""

    class Jax:
        numpy, lax = np, None

        @staticmethod
        def jit(function, static_argnums):
            return lambda *args: (static_argnums, function(*args))

        @staticmethod
        def grad(function, argnums):
            return lambda *args: (argnums, function(*args))

    folder = tmp_path / "tests" / "npbench" / "polybench"
    folder.mkdir(parents=True)
    (folder / "some_test.py").write_text(TEST_OF_DACE)
    test = problems.dace_ports.read(tmp_path, "some")
    assert (test.parameters, test.wrt, test.of) == (["n", "A", "b"], ("A",), (1,))
    static, (wrt, value) = problems.dace_ports.derivative(test, Jax)(2, np.ones(5), np.ones(5))
    assert (static, wrt) == ((0,), [1]) and np.isclose(value, 20 * np.e)
    (folder / "other_test.py").write_text("def kernel(A):\n    return A\n")
    assert problems.dace_ports.read(tmp_path, "other") is problems.dace_ports.read(tmp_path, "third") is None


def test_libraries_of_pythran_are_kept(tmp_path, monkeypatch):
    """A second race with --caches finds them, another source does not."""
    made = []

    class Pythran:
        __version__ = "0"

        @staticmethod
        def compile_pythranfile(path, extra_compile_args):
            made.append(path)
            library = Path(path).with_suffix(".cpython.so")
            library.write_text(Path(path).read_text())
            return str(library)

    for name, value in race.kept(tmp_path).items():
        monkeypatch.setenv(name, value)
    first, second, other = [peers._pythran_library(Pythran, text) for text in ("a = 1", "a = 1", "a = 2")]
    assert first == second != other and first.is_relative_to(tmp_path) and len(made) == 2
    assert first.read_text() == "a = 1" and other.read_text() == "a = 2"


@pytest.mark.parametrize("others", [[], ["--together", "--warm"]])
def test_kept_caches_leave_no_compile_times(others, capsys):
    with pytest.raises(SystemExit):
        bench.options_of(["--caches", "kept", *others])
    assert "--together" in capsys.readouterr().err


def test_a_chaotic_place_is_no_other_output():
    """One of many elements may be off by more than rounding; one of few may not, nor an integer, nor a NaN."""
    expected = np.linspace(1.0, 2.0, 100_000)
    found = expected.copy()
    found[77] += 1e-5
    assert race.close(found, expected, 0.0, 1e-7)
    assert not race.close(found[70:90], expected[70:90], 0.0, 1e-7)
    assert race.close(found[70:90], expected[70:90], 0.0, 1e-7, norm=1e-3)
    found[77] = np.nan
    assert not race.close(found, expected, 0.0, 1e-7)
    counts = np.arange(100_000)
    assert not race.close(counts + (counts == 5), counts, 0.0, 1e-12)


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        bench.options_of(["--peers", "Fortran"])
    assert "unknown: Fortran" in capsys.readouterr().err


def test_single_calls(tmp_path):
    """A call with a result and a statement that writes are checked, timed, and written where they were asked for."""
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text("# Page\n")
    asked = ["--only", "np.flip(a, 1)", "--only", "out[p] = x", "--sizes", "50,200", "--seconds", "0.01"]
    results = single_calls.main([*asked, "--json", str(figures), "--write", str(page)])
    assert [r["case"]["kernel"] for r in results] == ["np.flip(a, 1).copy()", "out[p] = x"] * 2
    assert all(table.ratio(r["tools"], "NumPy") > 0 for r in results)
    assert json.loads(figures.read_text())["results"] == results
    assert "* 200: NumPy's time over ours" in page.read_text()


def test_calls_are_compared():
    """Values, types, shapes and the number of results; what differs or does not compile is no figure."""
    ones = np.ones(3)
    assert single_calls.differs((ones, None), (ones, None)) == ""
    assert "int64" in single_calls.differs([np.ones(3, int)], [ones]) and "(2,)" in single_calls.differs(ones[:2], ones)
    assert single_calls.differs((ones, ones), ones) and single_calls.differs(ones, ones + [0, 0, 1e-3])
    failed = {"case": {"kernel": "f(x)", "size": "9"}, "tools": {"dlvm-py": {"error": "no\nmore"}, "NumPy": {}}}
    lost = {"case": {"kernel": "x | y", "size": "9"}, "tools": tools(**{"dlvm-py": 2.0, "NumPy": 1.0})}
    lines = table.by_size([failed, lost], "NumPy")
    assert "* `f(x)`: no" in lines and lines[-1] == "| `x \\| y` | **0.50** |"


def test_names_of_single_calls_are_operands():
    known = {"np", "len", "abs", "bool", *single_calls.operands(64, np.dtype(float))}
    for _, text in single_calls.calls():
        _, names = single_calls.function_of(text)
        read = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        assert names and (read <= known or "lambda" in text), text
