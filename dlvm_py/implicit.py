"""Implicit differentiation: solutions of equations, whatever solver finds them.

Where F(x, θ) = 0 determines x, dx = -(∂F/∂x)⁻¹ ∂F/∂θ dθ, and θ_adj = -(∂F/∂θ)ᵀ (∂F/∂x)⁻ᵀ x_adj (the implicit function
theorem; Griewank and Walther 2008, section 15). So the solver itself is not differentiated: its steps are not kept.
The rules below are compiled with the user's functions, as rules.py says; second derivatives are derivatives of the
rules, in which x is the solution again.

The linear systems are solved densely, or (linear_solver=) by products with ∂F/∂x and its transpose alone, which are
forward and reverse derivatives of F. Such a solve has rules of its own, which solve with the same matrix: for
J(x, θ) y = b is dy = J⁻¹ (db - dJ y). So the steps of the linear solver are not differentiated either, in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.api import grad, jacobian
from dlvm_py.dispatch import compiled_function
from dlvm_py.errors import ArgumentError
from dlvm_py.frontend.library.intrinsics import refuse
from dlvm_py.krylov import gmres, neumann
from dlvm_py.options import Options
from dlvm_py.recipe import Primal, tangent
from dlvm_py.rules import WithRules

Solve = Callable[[Any, Any, Any, bool], Any]


def implicit(
    residual: Callable[..., Any] | None = None,
    solver: Callable[..., Any] | None = None,
    *,
    fixed_point: Callable[..., Any] | None = None,
    linear_solver: str = "lu",
    tolerance: float = 1e-10,
    iterations: int = 1000,
    restart: int = 40,
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

    linear_solver: how the linear system of a derivative is solved, whose matrix is the Jacobian of the residual by x:
        "lu" makes it, n by n, and factorises it; "gmres" only multiplies with it (forward derivatives of the residual)
        or its transpose (reverse derivatives), and keeps `restart` + 1 vectors; "neumann", for a fixed_point that is a
        contraction, sums its powers and keeps two. Of a number it is a division.
    tolerance: of "gmres" and "neumann": the residual of the linear system relative to its right side, in the 2-norm.
    iterations: how many products they may take (LinAlgError where that is not enough).

    The derivative of x with respect to each argument follows from the equation: one linear system, in both modes. It is
    as exact as x (and `tolerance`) is. An argument that `residual` does not use (where the search begins) has the
    derivative 0.

    Returns the marked solver (see `custom_adjoint`).
    Raises: ArgumentError DL706 for what is no Python function, DL705 for none or both of residual and fixed_point, and
    for options that do not exist; in compiled code, LinAlgError where the Jacobian is singular, or where the solution
    of the linear system is not found.
    """
    if (residual is None) == (fixed_point is None):
        raise ArgumentError("dlvm.implicit needs either a residual or a fixed_point", code="DL705")
    equation: Any = residual if residual is not None else fixed_point
    if not callable(equation):
        raise ArgumentError(f"dlvm.implicit needs a function, not {type(equation).__name__}", code="DL706")
    zero = _zero_of(equation) if residual is not None else _zero_of_fixed_point(equation)
    if linear_solver not in ("lu", "gmres", "neumann") or (linear_solver == "neumann" and fixed_point is None):
        raise ArgumentError(
            f"linear_solver={linear_solver!r}", code="DL705", help="'lu', 'gmres', or, with fixed_point=, 'neumann'"
        )
    if not (0 < tolerance < 1 and iterations > 0 and restart > 0):
        raise ArgumentError(
            f"tolerance={tolerance!r}, iterations={iterations!r}, restart={restart!r}",
            code="DL705",
            help="a tolerance between 0 and 1, and positive counts",
        )

    def by_gmres(product: Any, right: Any) -> Any:
        return gmres(product, right, tolerance, iterations, restart)

    def by_neumann(product: Any, right: Any) -> Any:
        return neumann(product, right, tolerance, iterations)

    solve = _by_lu(zero)
    if linear_solver != "lu":
        solve = _by_products(zero, by_gmres if linear_solver == "gmres" else by_neumann)

    def mark(f: Callable[..., Any]) -> WithRules:
        marked = WithRules(f, "implicit")
        _give_rules(marked, zero, solve)
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


def _give_rules(marked: WithRules, zero: Any, solve: Solve) -> None:
    pull = grad(zero, wrt=1, seedable=True)
    push = _tangent(zero, (1,))

    @marked.adjoint
    def adjoint(*given: Any) -> Any:
        theta, x, seed = given[:-2], given[-2], given[-1]
        found = pull(x, theta, -solve(x, theta, seed, True))
        return found[0] if len(theta) == 1 else found

    @marked.tangent
    def moved(*given: Any) -> Any:
        count = len(given) // 2
        theta, x, tangents = given[:count], given[count], given[count + 1 :]
        return -solve(x, theta, push(x, theta, tangents), False)


def _tangent(f: Any, wrt: tuple[int, ...]) -> Any:
    """The forward derivative alone: (arguments, tangents of those at `wrt`) -> tangent."""
    return compiled_function(tangent(Primal(f), wrt, with_value=False), Options())


def _by_lu(zero: Any) -> Solve:
    """(x, theta, right, transposed) -> y with J y = right, or Jᵀ y = right; J = ∂zero/∂x has the axes of x twice."""
    slope = jacobian(zero)

    def solve(x: Any, theta: Any, right: Any, transposed: bool) -> Any:
        _check_solution(x)
        matrix = slope(x, theta)
        if np.ndim(x) == 0:
            return right / matrix
        n = x.size
        square = matrix.reshape(n, n)
        if transposed:
            square = square.T
        return np.linalg.solve(square, right.reshape(n)).reshape(x.shape)

    return solve


def _by_products(zero: Any, method: Callable[[Any, Any], Any]) -> Solve:
    """The same by products with J and Jᵀ. method(product, right): a solution among vectors."""
    push, pull = _tangent(zero, (0,)), grad(zero, wrt=0, seedable=True)

    def times(x: Any, theta: Any, v: Any) -> Any:
        return push(x, theta, v)

    def times_transposed(x: Any, theta: Any, v: Any) -> Any:
        return pull(x, theta, v)

    plain, turned = _linear_solve(times, method), _linear_solve(times_transposed, method)
    _give_linear_rules(plain, turned, times)
    _give_linear_rules(turned, plain, times_transposed)

    def solve(x: Any, theta: Any, right: Any, transposed: bool) -> Any:
        _check_solution(x)
        return turned(x, theta, right) if transposed else plain(x, theta, right)

    return solve


def _linear_solve(apply: Any, method: Callable[[Any, Any], Any]) -> WithRules:
    """(x, theta, b) -> y with A y = b, where A v = apply(x, theta, v)."""

    def solution(x: Any, theta: Any, b: Any) -> Any:
        if np.ndim(x) == 0:
            return b / apply(x, theta, x - x + 1.0)
        y = method(lambda v: apply(x, theta, v.reshape(x.shape)).reshape(v.size), b.reshape(x.size))
        return y.reshape(x.shape)

    return WithRules(solution, "implicit")


def _give_linear_rules(solve: WithRules, turned: WithRules, apply: Any) -> None:
    """The rules of y = solve(x, theta, b) = A⁻¹ b, by itself and by turned(x, theta, b) = A⁻ᵀ b."""
    push, pull = _tangent(apply, (0, 1)), grad(apply, wrt=(0, 1), seedable=True)

    @solve.tangent
    def moved(x: Any, theta: Any, b: Any, y: Any, x_tan: Any, theta_tan: Any, b_tan: Any) -> Any:
        # A dy = db - dA y
        return solve(x, theta, b_tan - push(x, theta, y, x_tan, theta_tan))

    @solve.adjoint
    def adjoint(x: Any, theta: Any, b: Any, y: Any, seed: Any) -> Any:
        b_adj = turned(x, theta, seed)
        x_adj, theta_adj = pull(x, theta, y, -b_adj)
        return x_adj, theta_adj, b_adj


def _check_solution(x: Any) -> None:
    if isinstance(x, tuple):
        refuse("dlvm.implicit: the solver returns a tuple", help="return one array of all unknowns")


__all__ = ["implicit"]
