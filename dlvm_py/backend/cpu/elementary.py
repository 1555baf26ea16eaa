"""Elementary functions of our own, for f32 and f64: the table of their rules.

Each is one LLVM function without branches, made where it is first used. Inlined into the loops of array kernels, and
into loops of the program whose trips are alike (`may_be_vectors` in strips.py), it vectorises, and what it gives does
not depend on the width, the position or the length. Errors are below 2 ulp (tests measure them against multiple
precision; docs/performance.md lists them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.backend.cpu import coefficients as known
from dlvm_py.backend.cpu import error_functions, exponential, gamma, powers, trigonometric
from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.expression import X
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.values import V
from dlvm_py.ir import DType

_RULES: dict[str, Callable[..., X]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log": exponential.log,
    "log1p": exponential.log1p,
    "log2": exponential.log_in(known.LOG2_E, None),
    "log10": exponential.log_in(known.LOG10_E, known.LOG10_2),
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": exponential.tanh,
    "asinh": exponential.asinh,
    "acosh": exponential.acosh,
    "atanh": exponential.atanh,
    "sin": trigonometric.periodic("sin"),
    "cos": trigonometric.periodic("cos"),
    "tan": trigonometric.periodic("tan"),
    "asin": trigonometric.asin,
    "acos": trigonometric.acos,
    "atan": trigonometric.atan,
    "atan2": trigonometric.atan2,
    "power": powers.power,
    **{f"power.{n}": powers.of_root(n) for n in powers.HALVES},
    "cbrt": powers.cbrt,
    "hypot": powers.hypot,
    "erf": error_functions.erf,
    "erfc": error_functions.erfc,
    "gamma": gamma.gamma,
    "lgamma": gamma.lgamma,
}


def by_rule(name: str) -> Any:
    """The emitter of an elementary function on f32 and f64."""

    def emit(c: Code, dtype: DType, attrs: dict[str, Any], *args: V) -> V:
        return own(c, name, *args)

    return emit


def own(c: Code, name: str, *args: V) -> V:
    """A call of an elementary function, inlined where LLVM may make vectors of it."""
    type = args[0].type
    return c.call(f"@{_function(c, name, type, len(args))}", type, args, "alwaysinline" if c.inlines else "")


def _function(c: Code, name: str, type: str, count: int) -> str:
    symbol = f"dlvm.{name}.{type}"
    if symbol not in c.module.functions:
        attributes = "internal |nounwind willreturn memory(none) inlinehint"
        f = FunctionText(c.module, symbol, type, [type] * count, attributes)
        y = _RULES[name](*(X(f, p) for p in f.params))
        f.line(f"ret {type} {y.v.ref}")
    return symbol
