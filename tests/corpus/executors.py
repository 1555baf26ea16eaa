"""What runs a program of the corpus: each executor runs any function that dlvm-py derives from it.

    compiled = reverse(case)
    EXECUTORS["interpreter"](compiled, args)  ->  the float leaves of its result, as one vector

One more executor is one more row of EXECUTORS: all tests of the corpus go through it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
from source_executor import function_of

import dlvm_py as dlvm
from corpus.case import Case, float_leaves
from dlvm_py.dispatch import compiled_function, dispatcher_of
from dlvm_py.ir import interpreter
from dlvm_py.options import Options
from dlvm_py.recipe import Primal, gradient, tangent

# -- what is derived of a program, compiled once for all tests -----------------------------------------


@cache
def reverse(case: Case) -> Any:
    """(arguments) -> (value, gradient)."""
    return dlvm.value_and_grad(case.fn, wrt=case.wrt)


@cache
def forward(case: Case) -> Any:
    """(arguments, tangents of wrt) -> (value, tangent): what dlvm.jvp calls."""
    return compiled_function(tangent(Primal(case.fn), case.wrt), Options())


@cache
def forward_over_reverse(case: Case) -> Any:
    """(arguments, direction) -> second derivative times direction: the tangent of the gradient."""
    of = gradient(Primal(case.fn), case.wrt, None, False, 0)
    return compiled_function(tangent(of, case.wrt, with_value=False), Options())


@cache
def reverse_over_reverse(case: Case) -> Any:
    """(arguments, seed) -> seed times second derivative: the gradient of the gradient."""
    of = gradient(Primal(case.fn), case.wrt, None, False, 0)
    return compiled_function(gradient(of, case.wrt, None, True, tuple(range(len(case.wrt)))), Options())


# -- executors -------------------------------------------------------------------------------------------


def flatten(value: Any) -> np.ndarray:
    """All float leaves of a value, as one vector."""
    return np.concatenate([np.zeros(0), *(np.ravel(np.asarray(leaf)) for leaf in float_leaves(value))])


def native(compiled: Any, args: tuple[Any, ...]) -> np.ndarray:
    """Machine code, as users run it."""
    return flatten(compiled(*args))


def interpreted(compiled: Any, args: tuple[Any, ...]) -> np.ndarray:
    """The reference interpreter, on the IR at stage optimizable."""
    program = _program(compiled, _specs(compiled, args), args)
    return flatten(interpreter.run(program.module, program.name, _leaves(args)))


def _specs(compiled: Any, args: tuple[Any, ...]) -> str:
    return repr(dispatcher_of(compiled).request(args).args)


def _once_for_specs(make: Callable[[Any, tuple[Any, ...]], Any]) -> Callable[[Any, str, tuple[Any, ...]], Any]:
    """What is made for arguments of these specs, made once; what is compiled lives as long as the caches above."""
    made: dict[tuple[int, str], Any] = {}

    def get(compiled: Any, specs: str, args: tuple[Any, ...]) -> Any:
        if (id(compiled), specs) not in made:
            made[id(compiled), specs] = make(compiled, args)
        return made[id(compiled), specs]

    return get


_program = _once_for_specs(lambda compiled, args: compiled.program(*args))
_text = _once_for_specs(function_of)


def sourced(compiled: Any, args: tuple[Any, ...]) -> np.ndarray:
    """The text of `source()`, run by Python."""
    return flatten(_text(compiled, _specs(compiled, args), args)(*copy.deepcopy(args)))


EXECUTORS: dict[str, Callable[[Any, tuple[Any, ...]], np.ndarray]] = {
    "native": native, "interpreter": interpreted, "source": sourced,
}  # fmt: skip


def _leaves(value: Any) -> list[Any]:
    """The numbers and arrays of arguments, in order: the parameters of the IR."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    if isinstance(value, dict):
        return _leaves(list(value.values()))
    if is_dataclass(value):
        return _leaves([getattr(value, f.name) for f in fields(value)])
    return [] if value is None else [value]


# -- directions ------------------------------------------------------------------------------------------


def like(value: Any, fill: Callable[[Any], Any]) -> Any:
    """The same structure with `fill(leaf)` in place of each float leaf, and None for others."""
    if isinstance(value, tuple | list):
        return type(value)(like(item, fill) for item in value)
    if isinstance(value, dict):
        return {k: like(item, fill) for k, item in value.items()}
    if is_dataclass(value):
        return type(value)(*(like(getattr(value, f.name), fill) for f in fields(value)))
    return fill(value) if float_leaves(value) else None


def direction(case: Case, args: tuple[Any, ...], seed: int = 0) -> tuple[Any, ...]:
    """A random direction: one value for each of `wrt`, in its structure."""
    rng = np.random.default_rng(seed)

    def fill(leaf: Any) -> Any:
        found = rng.uniform(0.3, 1.0, np.shape(leaf)) * rng.choice([-1.0, 1.0], np.shape(leaf))
        if np.iscomplexobj(leaf):
            found = found + 1j * rng.uniform(-1.0, 1.0, np.shape(leaf))
        return np.array(found, leaf.dtype) if isinstance(leaf, np.ndarray) else type(leaf)(found)

    return tuple(like(args[k], fill) for k in case.wrt)


def moved(case: Case, args: tuple[Any, ...], along: tuple[Any, ...], t: float) -> tuple[Any, ...]:
    """Fresh arguments, moved by t along a direction; single precision becomes double, for differences."""
    values = list(copy.deepcopy(args))
    for k, d in zip(case.wrt, along, strict=True):
        steps = iter(float_leaves(d))
        values[k] = _add(values[k], steps, t)
    return tuple(values)


def _add(value: Any, steps: Any, t: float) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_add(item, steps, t) for item in value)
    if isinstance(value, dict):
        return {k: _add(item, steps, t) for k, item in value.items()}
    if is_dataclass(value):
        return type(value)(*(_add(getattr(value, f.name), steps, t) for f in fields(value)))
    if not float_leaves(value):
        return value
    step = np.asarray(next(steps))
    return value + t * (step.astype(np.float64) if step.dtype == np.float32 else step)


def inner(g: np.ndarray, v: np.ndarray) -> float:
    """Re(conj(g) · v): the change along v for a gradient g."""
    return float(np.real(np.vdot(g, v)))
