# ruff: noqa: F722, B008 - the annotations are DLVM's types
"""What tests/test_aot.py compiles to a C library."""

from typing import Annotated

import numpy as np

import dlvm_py as dlvm

WEIGHTS = np.array([0.5, 2.0, -1.0])
SCALE = 3.0


@dlvm.jit
def loss(x: "<_ x f64>", a: float):
    """A scalar of an array and a number, with a captured array and a captured number."""
    return SCALE * np.sum(np.sin(x * a)) + WEIGHTS[1]


dloss = dlvm.grad(loss, wrt=("x", "a"))
valued = dlvm.value_and_grad(loss)
curvature = dlvm.hessian(loss)
product_with = dlvm.hvp(loss)


@dlvm.jit
def heat(u: "<_ x f64>", dt: float, n: int):
    """Writes its argument."""
    for _ in range(n):
        u[1:-1] += dt * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**2)


dheat = dlvm.grad(heat, wrt=("u", "dt"))


@dlvm.jit
def element(x: "<_ x f64>", i: int, y: float):
    """Raises IndexError and ZeroDivisionError."""
    return x[i] + 1.0 / y


@dlvm.jit
def evens(x: Annotated[np.ndarray, "<_ x f64>"]):
    """An array whose extent only the run tells; the annotation as linters like it."""
    return x[::2] + 1


@dlvm.jit
def fibonacci(n: int):
    """Recursive."""
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@dlvm.jit
def down(n: int, x: float):
    """A recursion as deep as it is asked to be."""
    return x if n == 0 else down(n - 1, x) + 1.0


@dlvm.jit
def product(a: "<_ x _ x f64>", b: "<_ x _ x f64>"):
    """A matrix product: by BLAS where it is large."""
    return a @ b


@dlvm.jit
def parts(a: "*strided <_ x _ x f64>", f: "*fortran <2 x _ x f32>", k: np.int16, n=3):
    """Views of arguments, an argument itself, several results, a default."""
    return a.T, a[1:, ::2], f, k, a.shape[0] * n


@dlvm.jit
def axpy(y: "<_ x f64>", x: "<_ x f64>", a: float):
    """Writes one of two arrays."""
    y += a * x


daxpy = dlvm.grad(axpy, wrt="x", from_="y")


def plain(x: float, pair: "(float, <2 x f64>)" = (1.0, np.zeros(2))):
    """No decorator: compiled where it is named."""
    return x * pair[0] + pair[1][0]
