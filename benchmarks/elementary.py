"""Elementary functions on arrays beside NumPy and Numba: time and largest error, as the table of docs/performance.md.

    DLVM_NUM_THREADS=1 python benchmarks/elementary.py [--points N] [NAME ...]

Times are CPU time of the thread, the best of interleaved repeats on 10,000 numbers, in ns a number; errors are in ulp
of the exact result (mpmath), on numbers of every size for which it is finite and normal. Numba is left out where it is
not installed.
"""

import argparse
import time

import mpmath
import numpy as np

import dlvm_py as dlvm

try:
    import numba
except ImportError:
    numba = None

# name: exact value, low and high end of what is timed, largest power of ten of what is measured
FUNCTIONS = {
    "exp": (mpmath.exp, 0.5, 1.5, 1.8), "exp2": (lambda x: mpmath.mpf(2) ** x, 0.5, 1.5, 1.9),
    "expm1": (mpmath.expm1, 0.5, 1.5, 1.8), "log": (mpmath.log, 0.5, 1.5, 30),
    "log2": (lambda x: mpmath.log(x, 2), 0.5, 1.5, 30), "log10": (mpmath.log10, 0.5, 1.5, 30),
    "log1p": (mpmath.log1p, 0.5, 1.5, 30), "sin": (mpmath.sin, 3.0, 10.0, 30), "cos": (mpmath.cos, 3.0, 10.0, 30),
    "tan": (mpmath.tan, 3.0, 10.0, 30), "arcsin": (mpmath.asin, -0.9, 0.9, 0), "arccos": (mpmath.acos, -0.9, 0.9, 0),
    "arctan": (mpmath.atan, 0.5, 1.5, 30), "sinh": (mpmath.sinh, 0.5, 1.5, 1.8), "cosh": (mpmath.cosh, 0.5, 1.5, 1.8),
    "tanh": (mpmath.tanh, 0.5, 1.5, 1.8), "arcsinh": (mpmath.asinh, 0.5, 1.5, 30),
    "arccosh": (mpmath.acosh, 1.5, 2.5, 30), "arctanh": (mpmath.atanh, -0.9, 0.9, 0),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), 0.5, 1.5, 30),
    "arctan2": (mpmath.atan2, 0.5, 1.5, 18), "hypot": (mpmath.hypot, 0.5, 1.5, 18),
    "power": (mpmath.power, 0.5, 1.5, 0.8),
}  # fmt: skip
TWO = ("arctan2", "hypot", "power")
OF_POSITIVE = ("log", "log2", "log10", "log1p", "arccosh", "power")
REPEATS, CALLS, SIZE = 30, 8, 10_000


def made(name, of):
    """NumPy's function in a function, for a compiler."""
    ufunc = getattr(np, name)
    return of((lambda x, y: ufunc(x, y)) if name in TWO else (lambda x: ufunc(x)))


def times(name, dtype):
    """Best time of ours, NumPy's and Numba's loop in ns a number."""
    rng = np.random.default_rng(1)
    _, low, high, _ = FUNCTIONS[name]
    x = [rng.uniform(low, high, SIZE).astype(dtype) for _ in range(1 + (name in TWO))]
    functions = [made(name, dlvm.jit), getattr(np, name)] + ([made(name, numba.njit)] if numba else [])
    best = [np.inf] * len(functions)
    for _ in range(REPEATS):
        for k, f in enumerate(functions):
            start = time.thread_time()
            for _ in range(CALLS):
                f(*x)
            best[k] = min(best[k], time.thread_time() - start)
    return [1e9 * t / CALLS / SIZE for t in best] + [np.nan] * (3 - len(best))


def error(name, dtype, n):
    """The largest error in ulp."""
    rng = np.random.default_rng(2)
    exact, _, _, power = FUNCTIONS[name]
    x = []
    for _ in range(1 + (name in TWO)):
        signs = 1 if name in OF_POSITIVE and not x else rng.choice([-1, 1], 2 * n)
        sizes = np.concatenate([10.0 ** rng.uniform(-12, power, n), 10.0 ** rng.uniform(-1, min(power, 1), n)])
        x.append((signs * (sizes + (name == "arccosh"))).astype(dtype))
    info, worst = np.finfo(dtype), 0.0
    with mpmath.workprec(300):
        for *a, b in zip(*(v.tolist() for v in x), made(name, dlvm.jit)(*x).tolist(), strict=True):
            if np.isfinite(b) and abs(b) > info.tiny:
                y = exact(*map(mpmath.mpf, a))
                ulp = mpmath.mpf(2) ** (mpmath.floor(mpmath.log(abs(y), 2)) - info.nmant)
                worst = max(worst, float(abs(mpmath.mpf(b) - y) / ulp))
    return worst


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=2000, help="numbers of each kind whose error is measured")
    parser.add_argument("names", nargs="*", default=list(FUNCTIONS), metavar="NAME")
    options = parser.parse_args()
    print("| | dlvm-py f64 | NumPy | Numba | f32 | NumPy | Numba | ulp f64 | f32 |\n|---" + "|---" * 8 + "|")
    for name in options.names:
        cells = [f"{t:.2f}" for dtype in (np.float64, np.float32) for t in times(name, dtype)]
        cells += [f"{error(name, dtype, options.points):.2f}" for dtype in (np.float64, np.float32)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
