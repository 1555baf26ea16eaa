"""The tools that are compared, each behind an adapter.

An adapter makes a `Run` of a Problem: `stage` turns fresh arguments into what the tool wants (not timed), `call` runs
until the result is there (timed), `outputs` gives NumPy arrays (not timed): what the kernel returns, then what it
writes; for a gradient, one array for each argument of `wrt`. `Missing` says why a tool has no such Run. What is
differentiated is the sum of all outputs that are floats, or of those that the problem names (`of`).
"""

import hashlib
import importlib
import importlib.util
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.problems import dace_ports, returned


class Missing(Exception):
    """The tool, or its port of this kernel, is not there, or it has no derivatives."""


@dataclass
class Run:
    """A problem under one tool, ready to be called."""

    stage: Callable
    call: Callable
    outputs: Callable


def plain(function, problem, names=None):
    """The Run of a function that takes NumPy arrays and may write into them."""
    names = problem.written if names is None else names

    def outputs(result, args):
        after = dict(zip(problem.arguments, args, strict=True))
        return [np.asarray(v) for v in returned(result) + [after[n] for n in names]]

    return Run(lambda arguments: list(arguments.values()), lambda args: function(*args), outputs)


def module(name):
    """A tool's module; Missing if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Missing(f"{name} is not installed") from error


def port(problem, *names):
    """The first of the ports that there is."""
    for name in names:
        if function := problem.port(name):
            return function
    raise Missing("no port of this kernel")


def numpy(problem, gradient):
    """Python and NumPy themselves."""
    if gradient:
        raise Missing("no derivatives")
    return plain(port(problem, "numpy"), problem)


def dlvm(problem, gradient):
    """dlvm-py, on the NumPy source as it is."""
    tool = module("dlvm_py")
    function = tool.jit(port(problem, "numpy"))
    if not gradient:
        return plain(function, problem)
    of = problem.of
    if of is None:
        results = returned(port(problem, "numpy")(*problem.sample().values()))
        of = (*problem.written, *(k for k, r in enumerate(results) if np.asarray(r).dtype.kind == "f"))
    return plain(tool.grad(function, wrt=problem.wrt, from_=of), problem, ())


def numba(variant):
    """Numba: the source under njit, or the suite's port of that variant."""

    def run(problem, gradient):
        if gradient:
            raise Missing("no derivatives")
        tool = module("numba")
        if variant:
            return plain(port(problem, f"numba_{variant}"), problem)
        if problem.written:  # the ports of a suite bring their own decorators
            raise Missing("no port of this kernel")
        return plain(tool.njit(port(problem, "numba", "numpy"), cache=True), problem)

    return run


def jax(name):
    """JAX, with the port of that name."""
    return lambda problem, gradient: _jax(problem, gradient, name)


def _jax(problem, gradient, name):
    """The port, jitted, in double precision, its arguments on the device before the clock starts."""
    tool = module("jax")
    tool.config.update("jax_enable_x64", True)
    function = port(problem, name)
    arrays = [n for n, v in problem.arguments.items() if isinstance(v, np.ndarray) or n in problem.wrt]

    def whole(values, arguments):
        return function(*(values.get(n, v) for n, v in arguments.items()))

    def total(values):
        parts = tool.tree_util.tree_leaves(whole(values, problem.arguments))
        if problem.of is not None:  # what is written comes last
            last = dict(zip(problem.written[::-1], parts[::-1], strict=False))
            parts = [parts[n] if isinstance(n, int) else last[n] for n in problem.of]
        return sum(p.sum() for p in parts if p.dtype.kind == "f")

    def gradients(values):
        rest = {n: v for n, v in values.items() if n not in problem.wrt}
        return tool.grad(lambda some: total({**rest, **some}))({n: values[n] for n in problem.wrt})

    compiled = tool.jit(gradients if gradient else lambda values: whole(values, problem.arguments))

    def stage(arguments):
        return tool.block_until_ready({n: tool.numpy.asarray(arguments[n]) for n in arrays})

    def outputs(result, _):
        return [np.asarray(v) for v in ([result[n] for n in problem.wrt] if gradient else returned(result))]

    return Run(stage, lambda values: tool.block_until_ready(compiled(values)), outputs)


def jax_dace(problem, gradient):
    """JAX, as the test of DaCe's differentiates the kernel."""
    tool = module("jax")
    tool.config.update("jax_enable_x64", True)
    if not gradient or problem.test is None:
        raise Missing("no test of DaCe's differentiates it")
    derivative = dace_ports.derivative(problem.test, tool)

    def stage(arguments):
        values = [arguments[n] for n in problem.test.parameters]
        return [tool.block_until_ready(tool.numpy.asarray(v)) if isinstance(v, np.ndarray) else v for v in values]

    return Run(
        stage, lambda args: tool.block_until_ready(derivative(*args)), lambda result, _: list(map(np.asarray, result))
    )


def torch(problem, gradient):
    """PyTorch in eager mode; gradients by its tape."""
    tool = module("torch")
    function = port(problem, "torch")
    tool.set_num_threads(len(os.sched_getaffinity(0)))

    def stage(arguments):
        values = {n: tool.as_tensor(v) if isinstance(v, np.ndarray) else v for n, v in arguments.items()}
        if gradient:
            for name in problem.wrt:
                values[name] = tool.as_tensor(values[name]).requires_grad_()
        return values

    def call(values):
        result = function(*values.values())
        if not gradient:
            return result
        return tool.autograd.grad(sum(r.sum() for r in returned(result)), [values[n] for n in problem.wrt])

    return Run(stage, call, lambda result, _: [r.detach().numpy() for r in returned(result)])


def pythran(problem, gradient):
    """Pythran: the source, exported for the arguments' types, compiled ahead of time."""
    if gradient:
        raise Missing("no derivatives")
    tool = module("pythran")
    if problem.pythran:
        function = port(problem, "numpy")
        export = f"#pythran export {function.__name__}({problem.pythran})"
        text = f"import numpy as np\n\n{export}\n{inspect.getsource(function)}"
    else:
        function = port(problem, "pythran")
        text = Path(function.__code__.co_filename).read_text()
    spec = importlib.util.spec_from_file_location("built_kernel", _pythran_library(tool, text))
    built = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(built)
    return plain(getattr(built, function.__name__), problem)


def _pythran_library(tool, text):
    """The path of the compiled library of a source: of an earlier race if they are kept, else of this one's folder."""
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-DUSE_XSIMD"]  # NPBench's
    name = hashlib.sha256("\n".join([tool.__version__, *flags, text]).encode()).hexdigest()[:16]
    folder = Path(os.environ.get("PYTHRAN_LIBRARIES", "."), name)
    library = folder / "built_kernel.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / "built_kernel.py"
        source.write_text(text)
        made = tool.compile_pythranfile(str(source), extra_compile_args=flags)
        Path(made).replace(library)
    return library


def dace(threads):
    """DaCe, with as many threads as all, or with so many in its loops (BLAS has its own)."""

    def run(problem, gradient):
        if threads:
            os.environ["OMP_NUM_THREADS"] = threads  # is read when the first program is loaded
            config = module("dace").Config
            built = config.get("default_build_folder")  # one of its own: both may compile at the same time
            config.set("default_build_folder", value=f"{built}-{threads}")
        return _dace(problem, gradient)

    return run


def _dace(problem, gradient):
    """The suite's port, optimised by DaCe's own heuristics for the CPU."""
    if gradient:
        raise Missing("its derivatives are not measured here")
    tool = module("dace")
    program = port(problem, "dace")
    optimizer = importlib.import_module("dace.transformation.auto.auto_optimize")
    compiled = optimizer.auto_optimize(program.to_sdfg(simplify=True), tool.DeviceType.CPU).compile()
    symbols = {str(s) for s in compiled.sdfg.free_symbols}
    extents = {}
    for name, value in problem.arguments.items():
        if isinstance(value, np.ndarray) and name in compiled.sdfg.arrays:
            for dim, n in zip(compiled.sdfg.arrays[name].shape, value.shape, strict=True):
                extents[str(dim)] = n
    known = {s: extents[s] for s in symbols if s in extents and s not in problem.arguments}

    def call(*args):
        return compiled(**dict(zip(problem.arguments, args, strict=True)), **known)

    return plain(call, problem)


def c(problem, gradient):
    """C by hand, of the kernels that benchmarks/c has."""
    if gradient:
        raise Missing("no derivatives")
    tool = module("harness.native")
    function = tool.compiled(problem.kernel)
    if function is None:
        raise Missing("not written in C")
    arguments = list(problem.fresh().values())
    results = returned(port(problem, "numpy")(*arguments))
    return plain(tool.caller(function, results, arguments), problem)


def tangent(problem, gradient):
    """tangent, the source-to-source tool for plain NumPy."""
    if not gradient:
        raise Missing("it only makes derivatives")
    tool = module("tangent")
    function = port(problem, "numpy")
    places = tuple(list(problem.arguments).index(n) for n in problem.wrt)
    return plain(tool.grad(function, wrt=places), problem, ())


# what a package imports only when it compiles: no part of compile times
COMPILERS = {"dlvm_py": ("dlvm_py.driver", "dlvm_py.derivative")}

PEERS = {  # the name in the tables → (its package, how it runs a problem)
    "dlvm-py": ("dlvm_py", dlvm),
    "NumPy": ("numpy", numpy),
    "Numba": ("numba", numba("")),
    "Numba n": ("numba", numba("n")),
    "Numba np": ("numba", numba("np")),
    "Numba npr": ("numba", numba("npr")),
    "Numba o": ("numba", numba("o")),
    "Numba op": ("numba", numba("op")),
    "Numba opr": ("numba", numba("opr")),
    "JAX": ("jax", jax("jax")),
    "JAX ours": ("jax", jax("jax ours")),
    "JAX-DaCe": ("jax", jax_dace),
    "PyTorch": ("torch", torch),
    "Pythran": ("pythran", pythran),
    "DaCe": ("dace", dace("")),
    "DaCe 1": ("dace", dace("1")),  # short parallel loops take a thousand times as long where a core is busy
    "tangent": ("tangent", tangent),
    "C": ("harness.native", c),
}
