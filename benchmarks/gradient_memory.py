"""Peak memory and time of the gradient of a long in-place loop, under each `checkpoint`, beside JAX if installed.

    python benchmarks/gradient_memory.py [--points 20000] [--steps 10000] [--budget 100e6]

Every way runs in a process of its own; the peak is what its resident memory grows by while the gradient runs. "auto" is
the default with the budget as its limit (DLVM_TAPE).
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np


def diffuse(u, dt, steps):
    """Sum of squares after `steps` in-place steps of u_t = u u_xx."""
    for _ in range(steps):
        u[1:-1] += dt * u[1:-1] * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**2)


def ours(checkpoint, steps):
    """(function, gradient) by dlvm_py."""
    import dlvm_py as dlvm

    f = dlvm.jit(diffuse, checkpoint=checkpoint)
    g = dlvm.grad(f, wrt=("u", "dt"))
    return lambda u, dt: f(u.copy(), dt, steps), lambda u, dt: g(u, dt, steps)


def by_jax(steps):
    """(function, gradient) by JAX: the loop as a scan, the store as an update of a copy."""
    import jax

    jax.config.update("jax_enable_x64", True)

    def f(u, dt):
        def step(u, _):
            return u.at[1:-1].add(dt * u[1:-1] * (u[2:] - 2 * u[1:-1] + u[:-2])), None

        return (jax.lax.scan(step, u, None, length=steps)[0] ** 2).sum()

    f, g = jax.jit(f), jax.jit(jax.grad(f, argnums=(0, 1)))
    return lambda u, dt: float(f(u, dt)), lambda u, dt: [np.asarray(x) for x in g(u, dt)]


def peak():
    """The largest resident memory up to now, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def timed(function, *args):
    """(seconds, result) of a call."""
    start = time.perf_counter()
    result = function(*args)
    return time.perf_counter() - start, result


def measure(way, points, steps):
    """The figures of one way, in this process."""
    checkpoint = way if way in ("auto", "store", "recompute") else float(way) if way != "jax" else None
    checkpoint = int(checkpoint) if isinstance(checkpoint, float) else checkpoint
    function, gradient = by_jax(steps) if way == "jax" else ours(checkpoint, steps)
    u = 1 + 0.1 * np.sin(np.linspace(0, 20, points))
    if way == "jax":  # compiles for each length
        function(u, 0.1)
    else:
        function(u[:50], 0.1), gradient(u[:50], 0.1)
    primal = min(timed(function, u, 0.1)[0] for _ in range(3))
    before = peak()
    first, result = timed(gradient, u, 0.1)
    grown = peak() - before
    seconds = min(first, timed(gradient, u, 0.1)[0])
    return {"way": way, "peak": grown, "primal": primal, "gradient": seconds, "ddt": float(result[1])}


def main():
    """Prints a row for every way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--budget", type=float, default=100e6, help="bytes")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.points, options.steps)))
        return
    ways = ["store", str(options.budget), "auto", "recompute"] + ["jax"] * (importlib.util.find_spec("jax") is not None)
    print(f"{options.points} points, {options.steps} steps")
    print(f"{'checkpoint':<14}{'peak MB':>10}{'function s':>12}{'gradient s':>12}{'ratio':>8}   derivative in dt")
    for way in ways:
        command = [
            sys.executable,
            __file__,
            "--way",
            way,
            "--points",
            str(options.points),
            "--steps",
            str(options.steps),
        ]
        environment = os.environ | {"DLVM_TAPE": repr(options.budget / 2**20)}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        r = json.loads(done.stdout.splitlines()[-1])
        row = f"{r['way']:<14}{r['peak']:>10.1f}{r['primal']:>12.3f}{r['gradient']:>12.3f}"
        print(f"{row}{r['gradient'] / r['primal']:>8.1f}   {r['ddt']:.12g}", flush=True)


if __name__ == "__main__":
    main()
