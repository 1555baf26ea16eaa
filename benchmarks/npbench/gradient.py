"""Checks and measures the gradient of one kernel of a clone of NPBench, in a process of its own; run.py starts it.

    python benchmarks/npbench/gradient.py CLONE KERNEL PRESET OUT.json [--repeats N] [--seconds S]

Differentiated is the sum of all outputs that are floats (what the function returns, and the arguments that it
writes: `from_`), with respect to every argument that holds floats, of the clone's unmodified function. It is right
when, along random directions, it agrees with central differences of NumPy's own run of it, and with forward mode.
"""

import contextlib
import resource
import types
from statistics import median

import numpy as np
from kernel import main, noting_compilation, timed_call, timings
from suite import changed, fresh, load, returned

import dlvm_py as dlvm


def is_float(value):
    """Whether a value has a derivative: a float, or an array of floats."""
    return isinstance(value, float | np.floating) or isinstance(value, np.ndarray) and value.dtype.kind == "f"


def is_complex(value):
    """Whether a value is complex."""
    return np.iscomplexobj(value)


def outputs(function, info, data):
    """(every output that is a float, by its name for `from_`; whether one is complex)."""
    results, written = changed(function, info, data)
    named = {**dict(enumerate(results)), **written}
    return {n: v for n, v in named.items() if is_float(v)}, any(map(is_complex, named.values()))


def total(function, info, args, names):
    """The sum of the outputs that are differentiated, added up in extended precision."""
    results = returned(function(*args))
    parts = [results[n] if isinstance(n, int) else args[info["input_args"].index(n)] for n in names]
    return float(sum(np.sum(p, dtype=np.longdouble) for p in parts))


@contextlib.contextmanager
def in_double(function, data):
    """The data in double precision, while the function's module takes np.float32 to be np.float64 as well.

    Differences of single precision are mostly rounding.
    """
    numpy = function.__globals__["np"]
    function.__globals__["np"] = types.SimpleNamespace(**{**vars(numpy), "float32": np.float64})
    try:
        yield {n: np.asarray(v, np.float64) if is_single(v) else v for n, v in data.items()}
    finally:
        function.__globals__["np"] = numpy


def is_single(value):
    """Whether a value is an array of single precision."""
    return isinstance(value, np.ndarray) and value.dtype == np.float32


def difference(function, info, data, names, along):
    """The derivative along a direction by central differences, extrapolated, and how far off it may be.

    None where the function is not smooth on that way: the quotients do not settle.
    """

    def quotient(step):
        values = []
        for s in (step, -step):
            args = fresh(info, data)
            moved = [a + s * along[n] if n in along else a for n, a in zip(info["input_args"], args, strict=True)]
            values.append(total(function, info, moved, names))
        return (values[0] - values[1]) / (2 * step)

    step = 1e-4
    for _ in range(4):  # steps that leave the domain are too long
        with contextlib.suppress(np.linalg.LinAlgError):
            wide, narrow = quotient(step), quotient(step / 2)
            if np.isfinite(wide):
                doubt = abs(narrow - wide)
                return None if doubt > 1e-2 * max(abs(narrow), abs(wide)) else (4 * narrow - wide) / 3, doubt
        step /= 30
    return None, np.inf


def directions(data, wrt, rng):
    """One random direction for all arguments together, and one for each, as large as what is moved."""
    whole = {n: rng.standard_normal(np.shape(data[n])) * (np.abs(data[n]) + 1e-3 * np.max(np.abs(data[n]), initial=0))
             for n in wrt}  # fmt: skip
    return [whole] + ([{n: d} for n, d in whole.items()] if len(wrt) > 1 else [])


def timed(function, info, data, options):
    """Median seconds of a call; the first one, which may compile, is not among them."""
    timed_call(function, info, data)
    first, _ = timed_call(function, info, data)
    return median(timings(function, info, data, first, options.repeats, options.seconds))


def measure(options, record):
    """Differentiate, compare, time; what happens goes to the record."""
    info, function, data = load(options.clone, options.kernel, options.preset)
    record.note(status="stopped: NumPy")
    found, has_complex = outputs(function, info, data)
    names = tuple(found)
    wrt = tuple(n for n in info["input_args"] if is_float(data[n]))
    if not names or not wrt:
        complex_in = any(is_complex(data[n]) for n in info["input_args"])
        reason = "complex" if has_complex or complex_in else "integers or booleans"
        side = "inputs" if names else "outputs"
        record.note(status="no gradient", reason=f"no floats among the {side}, which are {reason}")
        return
    record.note(status="stopped: the first call", of=[str(n) for n in names], wrt=list(wrt))
    try:
        with noting_compilation(record):
            compiled = dlvm.jit(function, cache=False)
            gradient = dlvm.grad(compiled, wrt=wrt, from_=names)
            result = gradient(*fresh(info, data))
    except dlvm.CompileError as error:
        record.note(status="no gradient" if isinstance(error, dlvm.NotDifferentiable) else "does not compile",
                    reason=str(error))  # fmt: skip
        return
    except Exception as error:
        record.note(status="raises", reason=f"{type(error).__name__}: {error}")
        return
    record.note(status="stopped: differences")
    worst, forward, rough = 0.0, 0.0, []
    whole = float(sum(np.sum(np.abs(v)) for v in found.values()))
    for along in directions(data, wrt, np.random.default_rng(0)):
        parts = [g * along[n] for n, g in zip(wrt, result, strict=True) if n in along]
        ours = sum(np.sum(p, dtype=np.longdouble) for p in parts)
        # terms may cancel, in the derivative (of a softmax's sum it is 0) and in the output
        size = max(float(sum(np.sum(np.abs(p)) for p in parts)), 1e-3 * whole, 1e-300)
        with in_double(function, data) as double:
            expected, doubt = difference(function, info, double, names, along)
        if expected is None:
            rough.append("all" if len(along) == len(wrt) else next(iter(along)))
        else:
            off = max(0.0, abs(ours - expected) - doubt) / max(abs(expected), size)
            worst = float(max(worst, off)) if np.isfinite(off) else np.inf
        if len(along) == len(wrt):
            tangent = _forward(function, info, data, names, along)
            forward = float(abs(ours - tangent) / max(abs(tangent), size))
    record.note(off_differences=worst, off_forward=forward, rough=rough)
    single = any(is_single(data[n]) for n in wrt)
    is_right = worst < (1e-3 if single else 1e-4) and forward < (1e-2 if single else 1e-7)
    record.note(status="validated" if is_right else "does not validate")
    if not is_right:
        record.note(reason=f"off by {worst:.2g} from differences, by {forward:.2g} from forward mode")
        return
    record.note(primal_s=timed(compiled, info, data, options))
    record.note(dlvm_s=timed(gradient, info, data, options))
    record.note(peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _forward(function, info, data, names, along):
    """The derivative of the sum of the outputs along a direction, by forward mode."""
    args = fresh(info, data)
    tangents = []
    for n in info["input_args"]:
        t = along.get(n)
        tangents.append(t if t is None else t.astype(data[n].dtype) if np.ndim(t) else type(data[n])(t))
    _, tangent = dlvm.jvp(function, tuple(args), tuple(tangents), from_=names)
    return float(sum(np.sum(t, dtype=np.longdouble) for t in tangent))


if __name__ == "__main__":
    main(__doc__.splitlines()[0], measure, "stopped: NumPy")
