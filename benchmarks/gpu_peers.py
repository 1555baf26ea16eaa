"""The peers of `benchmarks/gpu.py`: the functions of gpu_rows.py by CuPy, JAX and torch.compile, where they are there.

The source is the same, with another module under the name `np`; only what changes arrays in place is spelled anew for
JAX. A peer is what `PEERS` makes: `name`, `array` (of the host, to the device), `function` (of a row; None where it has
none) and `wait`. Making one raises where it, or its device, is missing.
"""

import os
import types

import numpy as np
from gpu_rows import RATE, stencil


def rebound(function, module):
    """A function with another module for NumPy."""
    return types.FunctionType(function.__code__, {**function.__globals__, "np": module}, function.__name__)


class CuPy:
    """CuPy, without compilation: values only."""

    name = "CuPy"

    def __init__(self):
        import cupy

        cupy.cuda.runtime.getDeviceCount()
        self.cupy = cupy
        self.array = cupy.asarray

    def function(self, row):
        """The function of a row."""
        return rebound(row.function, self.cupy) if row.kind == "value" else None

    def wait(self, result):
        """Until all is done."""
        self.cupy.cuda.get_current_stream().synchronize()


class Jax:
    """jax.jit, in double precision."""

    name = "JAX"

    def __init__(self, anywhere=False):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax

        jax.config.update("jax_enable_x64", True)
        if jax.default_backend() != "gpu" and not anywhere:
            raise RuntimeError("JAX has no GPU")
        self.jax = jax
        self.array = jax.numpy.asarray

    def function(self, row):
        """The function of a row, compiled."""
        jax, np_ = self.jax, self.jax.numpy
        if row.function is stencil:

            def step(_, u):
                inner = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1]
                return u.at[1:-1, 1:-1].add(0.1 * inner)

            return jax.jit(lambda u, steps: jax.lax.fori_loop(0, steps, step, u))
        f = rebound(row.function, np_)
        if row.kind == "value":
            return jax.jit(f)
        gradient = jax.grad(lambda *args: np_.sum(f(*args)), argnums=row.wrt)
        if row.kind == "gradient":
            return jax.jit(gradient)
        return jax.jit(lambda *args: tuple(args[k] - RATE * g for k, g in zip(row.wrt, gradient(*args), strict=True)))

    def wait(self, result):
        """Until all is done."""
        self.jax.block_until_ready(result)


class Torch:
    """torch.compile, in double precision."""

    name = "torch.compile"

    def __init__(self, anywhere=False):
        import torch

        if not torch.cuda.is_available() and not anywhere:
            raise RuntimeError("PyTorch has no GPU")
        self.torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.numpy = types.SimpleNamespace(
            sum=lambda x, axis=None, keepdims=False: x.sum() if axis is None else x.sum(axis, keepdims),
            max=lambda x, axis, keepdims=False: torch.amax(x, axis, keepdims),
            mean=torch.mean,
            dot=torch.matmul,
            transpose=lambda x: x.T,
            exp=torch.exp,
            log=torch.log,
            sin=torch.sin,
            tanh=torch.tanh,
        )

    def array(self, x):
        """An array of the host on the device."""
        return self.torch.asarray(np.ascontiguousarray(x), device=self.device)

    def function(self, row):
        """The function of a row, compiled."""
        torch, f = self.torch, rebound(row.function, self.numpy)
        if row.function is stencil:  # one step: a hundred of them would be compiled for minutes
            one = torch.compile(lambda u: f(u, 1))

            def steps(u, count):
                for _ in range(count):
                    one(u)

            return steps
        if row.kind == "value":
            return torch.compile(f)
        gradient = torch.func.grad(lambda *args: f(*args).sum(), argnums=row.wrt)
        if row.kind == "gradient":
            return torch.compile(gradient)
        return torch.compile(
            lambda *args: tuple(args[k] - RATE * g for k, g in zip(row.wrt, gradient(*args), strict=True))
        )

    def wait(self, result):
        """Until all is done."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()


PEERS = (CuPy, Jax, Torch)
