"""Derivatives of one's own: custom_adjoint, custom_tangent, implicit, stop_gradient.

A function that is marked runs as it is; in what dlvm_py compiles, it is translated like any other function, and where
derivatives are taken its rules, plain functions in the same language, take the place of what its body would give.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from dlvm_py.dispatch import is_compiled, recipe_of
from dlvm_py.errors import ArgumentError
from dlvm_py.recipe import Primal


class WithRules:
    """A function with derivatives of its own. Calls run it; `adjoint`, `tangent` and `forward` take its rules."""

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        plain: Any = function
        if is_compiled(function) and not isinstance(function, MethodType):
            recipe = recipe_of(function)
            plain = recipe.function if isinstance(recipe, Primal) and recipe.rules_of is None else None
        if not isinstance(plain, FunctionType):
            raise ArgumentError(
                f"dlvm.{what} needs a Python function, not {type(function).__name__}",
                code="DL706",
                help=f"write it above a def: @dlvm.{what}",
            )
        functools.update_wrapper(self, plain)
        self.__dict__["__wrapped_by__"] = function
        self.__dict__["__dlvm_rules__"] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["__wrapped_by__"](*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<function {self.__dict__['__qualname__']} with derivatives of its own>"

    def __reduce__(self) -> str:
        # by reference, as functions are
        return str(self.__dict__["__qualname__"])

    def adjoint(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Make `rule` the adjoint of this function: (arguments..., result, seed) -> adjoints. Use as a decorator.

        seed: the adjoint of the result, in its structure, None for what is no float. Returns the adjoint of each
        argument, in its structure and shape (a tuple where the function has several parameters); None for integers,
        and where there is none. With a `forward` rule, the arguments of `rule` are (kept, seed).
        """
        return self._add("adjoint", rule)

    def tangent(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Make `rule` the tangent of this function: (arguments..., result, tangents...) -> tangent of the result.

        tangents: one for each argument, in its structure, None for integers. The rule is linear in them. Without an
        adjoint rule, reverse mode takes the transpose of this one.
        """
        return self._add("tangent", rule)

    def forward(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Make `rule` what runs in the place of this function in a gradient: (arguments...) -> (result, kept).

        The adjoint rule then has the arguments (kept, seed), whatever `kept` is.
        """
        return self._add("forward", rule)

    def _add(self, kind: str, rule: Any) -> Any:
        if not isinstance(rule, FunctionType):
            raise ArgumentError(
                f"the {kind} rule of {self.__dict__['__name__']} is a {type(rule).__name__}, no Python function",
                code="DL706",
                help=f"write it above a def: @{self.__dict__['__name__']}.{kind}",
            )
        self.__dict__["__dlvm_rules__"][kind] = rule
        return rule


def custom_adjoint(f: Callable[..., Any]) -> WithRules:
    """Mark a function whose reverse derivative is a rule of one's own, not that of its body. A decorator.

    @dlvm.custom_adjoint
    def clipped(x):
        return x

    @clipped.adjoint
    def clipped_adjoint(x, result, seed):
        return np.clip(seed, -1.0, 1.0)

    f: a plain or jitted function. Arrays that it returns count as new ones: an argument that is returned is copied in
    compiled code. It must not write its arguments.

    Returns a callable with the decorators `adjoint`, `tangent` and `forward`, to be used like `f`, alone or in what
    dlvm compiles. Forward mode is the transpose of the rule, which must be linear in the seed for that, or a `tangent`
    rule (else NotDifferentiable DL620).
    """
    return WithRules(f, "custom_adjoint")


def custom_tangent(f: Callable[..., Any]) -> WithRules:
    """Mark a function whose forward derivative is a rule of one's own. A decorator.

    @dlvm.custom_tangent
    def log1pexp(x):
        return np.log(1.0 + np.exp(x))

    @log1pexp.tangent
    def log1pexp_tangent(x, result, t):
        return t / (1.0 + np.exp(-x))

    Reverse mode is its transpose, so that one rule is enough for all derivatives; it must be linear in the tangents
    (else NotDifferentiable DL623). The rest is as for `custom_adjoint`.
    """
    return WithRules(f, "custom_tangent")


def stop_gradient(x: Any) -> Any:
    """The same numbers as `x`, which derivatives take for constants: their derivative is zero, in every order and mode.

    x: a number, an array, or a tuple, list, dict, named tuple or dataclass instance of these. Returns arrays that are
    copies of those in `x`, as `x + 0` would be, in the structure of `x`; in plain Python and in compiled code.
    """
    if isinstance(x, np.ndarray):
        return x.copy()
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(stop_gradient, x))
    if isinstance(x, tuple | list):
        return type(x)(map(stop_gradient, x))
    if isinstance(x, dict):
        return {name: stop_gradient(value) for name, value in x.items()}
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return dataclasses.replace(x, **{f.name: stop_gradient(getattr(x, f.name)) for f in dataclasses.fields(x)})
    return x
