"""Which functions of which repositories are measured, and where their arguments come from.

A suite is a rule, stated before anything was compiled. It yields (name, function, argument tuples), None for tuples
that `arguments.search` is to find.
The functions are loaded from clones and stay there: nothing of them is part of this repository.
"""

import ast
import contextlib
import copy
import doctest
import importlib
import inspect
import io
import linecache
import re
import sys
import types
import warnings
from pathlib import Path

import numpy as np
from arguments import TooLong, limit
from standins import bare_package, load_file

NUMBERS = (int, float, complex, bool, np.number, np.bool_, type(None))


def own_functions(module):
    """The plain functions that a module defines at its top."""
    members = vars(module).values()
    return [f for f in members if isinstance(f, types.FunctionType) and f.__module__ == module.__name__]


def decorated(path, pattern):
    """Names of functions at the top of a file with a decorator that matches."""
    tree = ast.parse(Path(path).read_text())
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    return [f.name for f in functions if any(re.search(pattern, ast.unparse(d)) for d in f.decorator_list)]


def loaded(path, package=None):
    """The module of a file, None (with a word) where it cannot be loaded here."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return load_file(path, package)
    except Exception as error:
        print(f"# not loaded: {path}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def numpy_benchmarks(folder):
    """numpy-benchmarks: the function that the `#run:` line of each file calls, with the arguments of that line."""
    for path in sorted((folder / "numpy-benchmarks/numpy_benchmarks/benchmarks").glob("*.py")):
        text = path.read_text()
        run, setup = re.search(r"#run: (.*)", text), re.search(r"#setup: (.*)", text)
        module = loaded(path) if run and path.stem != "__init__" else None
        if module is None:
            continue
        space = {}
        exec(setup[1].strip() if setup else "", space)
        name = run[1].partition("(")[0].strip()
        args = eval(run[1].strip(), {**space, name: lambda *args: args})
        yield f"{path.name}:{name}", getattr(module, name), [args]


NUMBA_FILES = """usecases test_mandelbrot test_blackscholes test_looplifting test_array_exprs test_array_methods
    test_array_reductions test_np_functions test_array_manipulation recursion_usecases test_range test_dispatcher
    test_nested_calls test_interproc inlining_usecases test_complex test_mathlib test_cgutils test_copy_propagate
    test_comprehension test_tuples test_indexing test_slices test_iteration test_flow_control test_unpack""".split()


def numba_tests(folder):
    """Numba: every function at the top of chosen files of its tests; arguments are searched by parameter names."""
    for stem in NUMBA_FILES:
        path = folder / f"numba/numba/tests/{stem}.py"
        module = loaded(path) if path.exists() else None
        for function in own_functions(module) if module else ():
            if not function.__name__.startswith(("make_", "_")):
                yield f"{stem}.py:{function.__name__}", function, None


def numba_benchmark(folder):
    """numba-benchmark: the functions that the files' `setup` defines, and those at their top; searched arguments."""
    for path in sorted((folder / "numba-benchmark/benchmarks").glob("bench_*.py")):
        module = loaded(path) if not re.search("cuda|compiling|dispatch", path.name) else None
        if module is None:
            continue
        if callable(getattr(module, "setup", None)):
            with contextlib.suppress(Exception):
                module.setup()
        for function in own_functions(module):
            if function.__name__ != "setup":
                yield f"{path.name}:{function.__name__}", function, None


def poliastro(folder):
    """poliastro: every function under `@jit` in poliastro/core; searched arguments."""
    source = folder / "poliastro/src/poliastro"
    for name in ("poliastro", "poliastro.core", "poliastro._math", "poliastro.core.propagation"):
        bare_package(name, source / "/".join(name.split(".")[1:]))
    for path in sorted((source / "core").rglob("*.py")):
        names = decorated(path, "jit")
        dotted = ".".join(["poliastro", *path.relative_to(source).with_suffix("").parts])
        try:
            module = importlib.import_module(dotted.removesuffix(".__init__")) if names else None
        except Exception as error:
            print(f"# not loaded: {path}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        for name in names:
            yield f"core/{path.name}:{name}", getattr(module, name), None


def quantecon(folder):
    """QuantEcon: every function under `@jit` or `@njit` in the package and in the tests of `optimize`; searched."""
    source = folder / "QuantEcon.py/quantecon"
    for name in ("quantecon", "quantecon.markov", "quantecon.game_theory", "quantecon.game_theory.game_generators"):
        bare_package(name, source / "/".join(name.split(".")[1:]))
    for path in sorted(source.rglob("*.py")):
        names = decorated(path, "jit")
        if not names or ("tests" in path.parts and "optimize" not in path.parts):
            continue
        dotted = ".".join(["quantecon", *path.relative_to(source).with_suffix("").parts])
        try:
            module = importlib.import_module(dotted)
        except Exception as error:
            print(f"# not loaded: {path}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        for name in names:
            if isinstance(getattr(module, name), types.FunctionType):
                yield f"{path.relative_to(source)}:{name}", getattr(module, name), None


def scipy_source(folder):
    """SciPy: every function that Pythran compiles for it, the Rosenbrock family, the functions that the tests of
    optimize, integrate and interpolate define at their top; searched arguments."""
    source = folder / "scipy/scipy"
    for path in sorted(source.rglob("*.py")):
        text = path.read_text()
        exported = re.findall(r"#\s?pythran export (?:capsule )?(\w+)", text)
        module = loaded(path) if exported else None
        for name in dict.fromkeys(exported):
            if module is not None and hasattr(module, name):
                yield f"{path.relative_to(source)}:{name}", getattr(module, name), None
    optimize = importlib.import_module("scipy.optimize")
    for name in ("rosen", "rosen_der", "rosen_hess", "rosen_hess_prod"):
        x = (np.array([0.8, 1.2, -0.7, 1.1]),)
        yield f"optimize:{name}", getattr(optimize, name), [x * 2 if name.endswith("prod") else x]
    for part in ("optimize", "integrate", "interpolate"):
        for path in sorted((source / part / "tests").glob("test_*.py")):
            module = loaded(path, f"scipy.{part}.tests")
            for function in own_functions(module) if module else ():
                if not function.__name__.startswith("test") and inspect.signature(function).parameters:
                    yield f"{part}/tests/{path.name}:{function.__name__}", function, None


def _is_numeric(value):
    if isinstance(value, (list, tuple)):
        return all(map(_is_numeric, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufc"
    return isinstance(value, (*NUMBERS, types.FunctionType))


def recorded(module, most=4):
    """Calls that the doctests of a module make of its functions, outermost ones: function name -> argument tuples."""
    calls = {}

    def recorder(function):
        def call(*args, **kwargs):
            kept = calls.setdefault(function.__name__, [])
            if not kwargs and len(kept) < most:
                with contextlib.suppress(Exception):
                    kept.append(copy.deepcopy(args))
            return function(*args, **kwargs)

        return call

    names = {**vars(module), **{f.__name__: recorder(f) for f in own_functions(module)}}
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder(recurse=True).find(module, extraglobs=names):
        for number, example in enumerate(test.examples):  # functions that are defined there have a source later, too
            place = f"<doctest {test.name}[{number}]>"
            linecache.cache[place] = len(example.source), None, example.source.splitlines(True), place
        with contextlib.suppress(TooLong), limit(5), contextlib.redirect_stdout(io.StringIO()):
            # functions that are defined there read its globals later, too
            runner.run(test, out=lambda _: None, clear_globs=False)
    return calls


ALGORITHMS = "maths physics linear_algebra machine_learning electronics financial matrix geometry fractals".split()


def algorithms(folder):
    """TheAlgorithms: every function in the folders of mathematics, physics and finance whose doctests call it with
    numbers, arrays, lists of them or functions only; the arguments are those of the doctests."""
    sys.path.append(str(folder / "Python"))
    for part in ALGORITHMS:
        for path in sorted((folder / "Python" / part).rglob("*.py")):
            module = None if re.search("image|requests|httpx", path.read_text()) else loaded(path)
            if module is None:
                continue
            calls = recorded(module)
            for function in own_functions(module):
                args = [a for a in calls.get(function.__name__, []) if all(map(_is_numeric, a))]
                if args and not inspect.isgeneratorfunction(function):
                    yield f"{path.relative_to(folder / 'Python')}:{function.__name__}", function, args


IMAGE_MODULES = """color.colorconv metrics.simple_metrics metrics.set_metrics metrics._structural_similarity
    util._invert util.arraycrop filters.thresholding filters._gaussian filters.edges filters._window exposure.exposure
    transform.integral transform._geometric measure.entropy measure._moments measure._polygon morphology.footprints
    restoration.unwrap feature.corner feature.util segmentation._chan_vese""".split()


def scikit_image(folder):
    """scikit-image (installed, as its compiled parts are needed): every function at the top of chosen modules, public
    or not, whose required parameters can be found; searched arguments."""
    for name in IMAGE_MODULES:
        try:
            module = importlib.import_module(f"skimage.{name}")
        except ImportError as error:
            print(f"# not loaded: skimage.{name}: {error}", file=sys.stderr)
            continue
        for function in own_functions(module):
            yield f"{name}:{function.__name__}", function, None


SUITES = {
    "numpy-benchmarks": numpy_benchmarks,
    "numba-benchmark": numba_benchmark,
    "numba-tests": numba_tests,
    "poliastro": poliastro,
    "quantecon": quantecon,
    "scipy": scipy_source,
    "scikit-image": scikit_image,
    "algorithms": algorithms,
}
