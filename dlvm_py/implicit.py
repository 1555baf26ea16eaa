"""Implicit differentiation: solutions of equations, whatever solver finds them.

Where F(x, θ) = 0 determines x, dx = -(∂F/∂x)⁻¹ ∂F/∂θ dθ, and θ_adj = -(∂F/∂θ)ᵀ (∂F/∂x)⁻ᵀ x_adj (the implicit function
theorem; Griewank and Walther 2008, section 15). So the solver itself is not differentiated: its steps are not kept.
The rules below are compiled with the user's functions, as rules.py says; second derivatives are derivatives of the
rules, in which x is the solution again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.api import grad, jacobian
from dlvm_py.dispatch import compiled_function
from dlvm_py.errors import ArgumentError
from dlvm_py.frontend.library.intrinsics import refuse
from dlvm_py.options import Options
from dlvm_py.recipe import Primal, tangent
from dlvm_py.rules import WithRules


def implicit(
    residual: Callable[..., Any] | None = None,
    solver: Callable[..., Any] | None = None,
    *,
    fixed_point: Callable[..., Any] | None = None,
) -> Any:
    """Mark a solver: the derivatives of what it returns are those of the solution of an equation. A decorator.

    def equation(x, a):
        return x * x - a

    @dlvm.implicit(equation)
    def root(a):
        x = a
        while abs(x * x - a) > 1e-14 * a:
            x = 0.5 * (x + a / x)
        return x

    residual: a function of the solution and the arguments of the solver, zero at the solution, in the shape of it.
    fixed_point: in the place of `residual`, a function g with x = g(x, arguments...).
    solver: the function to mark; without it, a decorator. It returns a number or a real array x (n of its elements are
        unknowns). What it does is free, also what could not be differentiated.

    The derivative of x with respect to each argument follows from the equation: one linear system with the n by n
    Jacobian of the residual by x, dense, solved by LU in both modes (a division for a number). It is as exact as x is.
    An argument that `residual` does not use (where the search begins) has the derivative 0.

    Returns the marked solver (see `custom_adjoint`).
    Raises: ArgumentError DL706 for what is no Python function, DL705 for none or both of residual and fixed_point; in
    compiled code, LinAlgError where the Jacobian is singular.
    """
    if (residual is None) == (fixed_point is None):
        raise ArgumentError("dlvm.implicit needs either a residual or a fixed_point", code="DL705")
    equation: Any = residual if residual is not None else fixed_point
    if not callable(equation):
        raise ArgumentError(f"dlvm.implicit needs a function, not {type(equation).__name__}", code="DL706")
    zero = _zero_of(equation) if residual is not None else _zero_of_fixed_point(equation)

    def mark(f: Callable[..., Any]) -> WithRules:
        marked = WithRules(f, "implicit")
        _give_rules(marked, zero)
        return marked

    return mark if solver is None else mark(solver)


def _zero_of(residual: Any) -> Any:
    def zero(x: Any, theta: Any) -> Any:
        return residual(x, *theta)

    return zero


def _zero_of_fixed_point(g: Any) -> Any:
    def zero(x: Any, theta: Any) -> Any:
        return x - g(x, *theta)

    return zero


def _give_rules(marked: WithRules, zero: Any) -> None:
    slope = jacobian(zero)
    pull = grad(zero, wrt=1, seedable=True)
    push = compiled_function(tangent(Primal(zero), (1,), with_value=False), Options())

    @marked.adjoint
    def adjoint(*given: Any) -> Any:
        theta, x, seed = given[:-2], given[-2], given[-1]
        found = pull(x, theta, -_solved(slope, x, theta, seed, True))
        return found[0] if len(theta) == 1 else found

    @marked.tangent
    def moved(*given: Any) -> Any:
        count = len(given) // 2
        theta, x, tangents = given[:count], given[count], given[count + 1 :]
        return -_solved(slope, x, theta, push(x, theta, tangents), False)


def _solved(slope: Any, x: Any, theta: Any, right: Any, transposed: bool) -> Any:
    """The solution y of J y = right, or of Jᵀ y = right, where J = slope(x, theta) has the axes of x twice."""
    if isinstance(x, tuple):
        refuse("dlvm.implicit: the solver returns a tuple", help="return one array of all unknowns")
    matrix = slope(x, theta)
    if np.ndim(x) == 0:
        return right / matrix
    n = x.size
    square = matrix.reshape(n, n)
    if transposed:
        square = square.T
    return np.linalg.solve(square, right.reshape(n)).reshape(x.shape)


__all__ = ["implicit"]
