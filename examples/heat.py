"""A simulation differentiated: where does a heated rod conduct badly?

A rod is heated at one end and kept cold at the other until its temperature settles. The simulation writes
the temperatures in place, slice by slice, and leaves its loop by `break` when as much heat leaves as comes
in, so how long it runs depends on the data. From the settled temperatures alone, gradient descent through
the simulation recovers how well the rod conducts at each place.

    python examples/heat.py [--iterations N] [--quick]
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np

import dlvm_py as dlvm

PICTURE = Path(__file__).resolve().parent / "out" / "heat.png"
POINTS = 24
POWER = 0.02  # heat that comes in at the last point in a step
TOLERANCE = 1e-4 * POWER  # the rod has settled when in and out differ by less
MAX_STEPS = 20_000


def settle(u, k, power, tolerance, max_steps):
    """Lets the temperatures `u` settle, in place; gives the number of steps that it took.

    Explicit Euler steps of u_t = (k u_x)_x on a unit grid, with unit time step; stable for k <= 1/2.
    The first point keeps its temperature, the last is heated.  Shapes: u (n,), k (n - 1,) between the points.
    """
    steps = 0
    for _ in range(max_steps):
        flux = k * (u[1:] - u[:-1])
        u[1:-1] += flux[1:] - flux[:-1]
        u[-1] += power - flux[-1]
        steps += 1
        if np.abs(power - flux[0]) < tolerance:
            break
    return steps


def conductivity(theta):
    """Maps any real numbers into (0, 1/2), where the simulation is stable."""
    return 0.5 / (1.0 + np.exp(-theta))


def misfit(theta, u, measured, power, tolerance, max_steps):
    """Squared distance between the slopes of the settled and of the measured temperatures.

    A slope answers to the conductivity at its own place, a temperature to all between it and the cold end:
    in slopes the descent is well conditioned.
    """
    settle(u, conductivity(theta), power, tolerance, max_steps)
    off = u - measured
    return np.sum((off[1:] - off[:-1]) ** 2)


def make_experiment():
    """The rod as it is: its conductivity (n - 1,) and its settled temperatures (n,)."""
    at = (np.arange(POINTS - 1) + 0.5) / (POINTS - 1)
    k = 0.4 - 0.28 * np.exp(-(((at - 0.66) / 0.1) ** 2)) - 0.1 * np.exp(-(((at - 0.25) / 0.12) ** 2))
    measured = np.zeros(POINTS)
    settle(measured, k, POWER, TOLERANCE, MAX_STEPS)  # plain Python: the data owe the compiler nothing
    return k, measured


def descend(gradient, theta, iterations, rate=0.15, memory=(0.9, 0.99)):
    """Adam (Kingma and Ba 2015) in plain NumPy; the rate falls to zero over the run.  Gives theta, losses."""
    mean, square = np.zeros_like(theta), np.zeros_like(theta)
    losses = []
    for i in range(1, iterations + 1):
        loss, g = gradient(theta)
        losses.append(loss)
        mean = memory[0] * mean + (1.0 - memory[0]) * g
        square = memory[1] * square + (1.0 - memory[1]) * g * g
        unbiased = mean / (1.0 - memory[0] ** i), square / (1.0 - memory[1] ** i)
        fall = 0.5 * (1.0 + np.cos(np.pi * i / iterations))
        theta = theta - rate * fall * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-12)
    return theta, losses


def draw(k_true, k_found, losses, measured):
    """Writes the picture: the misfit, the temperatures, and the conductivity found and true."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    left.semilogy(losses)
    left.set(title="misfit", xlabel="iteration")
    middle.plot(measured, "o-", markersize=3)
    middle.set(title="measured temperature", xlabel="point")
    right.plot(k_true, label="true", linewidth=4, alpha=0.4)
    right.plot(k_found, "k.-", label="recovered")
    right.axhline(0.25, linestyle=":", color="gray", label="first guess")
    right.set(title="conductivity", xlabel="between points", ylim=(0.0, 0.5))
    right.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)
    print(f"picture: {PICTURE}")


def main(arguments=None):
    """Recovers the conductivity and says how well.  Exit status 1 if it is off by more than 5 %."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=200, help="gradient steps (default 200)")
    parser.add_argument("--quick", action="store_true", help="at most 80 gradient steps")
    options = parser.parse_args(arguments)
    iterations = min(options.iterations, 80) if options.quick else options.iterations

    k_true, measured = make_experiment()
    cold = np.zeros(POINTS)
    value_and_grad = dlvm.value_and_grad(misfit, wrt="theta")

    def gradient(theta):
        # `misfit` writes its argument u; a gradient call works on a copy, so `cold` stays cold.
        return value_and_grad(theta, cold, measured, POWER, TOLERANCE, MAX_STEPS)

    theta = np.zeros(POINTS - 1)
    start = time.perf_counter()
    gradient(theta)
    first_s = time.perf_counter() - start

    start = time.perf_counter()
    theta, losses = descend(gradient, theta, iterations)
    gradient_s = (time.perf_counter() - start) / iterations

    k_found = conductivity(theta)
    simulate = dlvm.jit(settle)
    u = cold.copy()
    steps = simulate(u, k_found, POWER, TOLERANCE, MAX_STEPS)
    start = time.perf_counter()
    settle(cold.copy(), k_found, POWER, TOLERANCE, MAX_STEPS)
    numpy_s = time.perf_counter() - start

    error = np.linalg.norm(k_found - k_true) / np.linalg.norm(k_true)
    before = np.linalg.norm(conductivity(np.zeros(POINTS - 1)) - k_true) / np.linalg.norm(k_true)
    print(f"conductivity           relative error {error:.2%} (first guess: {before:.0%})")
    print(f"settled temperature    off by at most {np.max(np.abs(u - measured)):.1e} after {steps} steps")
    print(f"misfit                 {losses[0]:.1e} -> {losses[-1]:.1e} in {iterations} iterations")
    print(f"one gradient           {gradient_s * 1e3:.1f} ms (first call {first_s * 1e3:.0f} ms)")
    print(f"one simulation alone   {numpy_s * 1e3:.1f} ms in plain NumPy")
    stats = value_and_grad.stats()
    print(f"kernels                {stats['compiled']} compiled, {stats['loaded']} from the disk cache")
    draw(k_true, k_found, losses, measured)
    return 0 if error < 0.05 else 1


if __name__ == "__main__":
    raise SystemExit(main())
