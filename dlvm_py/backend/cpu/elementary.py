"""Elementary functions of our own, for f32 and f64: the table of their rules.

Each is one text (its rule) from which LLVM functions of a number and of vectors are written. A module only declares
what it calls:

    %y = call double @elementary.log.double(double %x) "vector-function-abi-variant"="...(elementary.log.double.x8)"

LLVM's vectoriser puts the version for 8 numbers in the place of 8 calls, in array kernels and in loops of the program
whose trips are alike (`may_be_vectors` in strips.py). When it is done, `definitions` of what is called are linked and
inlined (`optimise` in compile.py). So a rule may say for vectors what no vectoriser makes of code for a number: tables
in registers, and branches that are taken where any lane wants it. What it gives does not depend on the width, the
position or the length. Errors are below 2 ulp (tests measure them against multiple precision; docs/performance.md
lists them).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from dlvm_py.backend.cpu import error_functions, exponential, gamma, powers, remainders, trigonometric
from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.expression import X
from dlvm_py.backend.cpu.text import FunctionText, ModuleText
from dlvm_py.backend.cpu.values import V, in_lanes
from dlvm_py.ir import DType

PREFIX = "elementary."
# of the vectors that there are versions for
WIDTHS = {"double": (2, 4, 8), "float": (2, 4, 8, 16)}
_PURE = "nounwind willreturn memory(none)"
_SHORT = 140  # instructions of a function that is inlined wherever it is called: a call keeps no register
_NAME = re.compile(r"elementary\.(?P<name>[\w.-]+)\.(?P<type>double|float)(?:\.x(?P<lanes>\d+))?")
_CALLED = re.compile(r"call [^@\n]*@(elementary\.[\w.-]+)\((?P<args>[^)\n]*)\)")
_ALIKE = frozenset(("sin", "cos", "tan"))  # they reduce their arguments
_OF_TWO = frozenset(("atan2", "power", "hypot", "fmod"))

_RULES: dict[str, Callable[..., X]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log": exponential.log,
    "log1p": exponential.log1p,
    "log2": exponential.log2,
    "log10": exponential.log10,
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
    "fmod": remainders.fmod,
    "erf": error_functions.erf,
    "erfc": error_functions.erfc,
    "gamma": gamma.gamma,
    "lgamma": gamma.lgamma,
}
# of single numbers, with the same bits
_WAITING_LESS = _RULES | {name: trigonometric.waiting_less(name) for name in sorted(_ALIKE)}


def by_rule(name: str) -> Any:
    """The emitter of an elementary function on f32 and f64."""

    def emit(c: Code, dtype: DType, attrs: dict[str, Any], *args: V) -> V:
        return own(c, name, *args)

    return emit


def own(c: Code, name: str, *args: V) -> V:
    """A call of an elementary function, for vectors too where LLVM may make some of it."""
    type = args[0].type
    symbol = f"{PREFIX}{name}.{type}"
    types = [type] * len(args)
    c.module.declare(symbol, type, types, _PURE)
    versions = []
    for n in WIDTHS[type] if c.inlines else ():
        vector = in_lanes(type, n)
        c.module.declare(f"{symbol}.x{n}", vector, [vector] * len(args), _PURE)
        c.module.keep(f"{symbol}.x{n}")
        versions.append(f"_ZGV_LLVM_N{n}{'v' * len(args)}_{symbol}({symbol}.x{n})")
    c.versions += bool(versions)
    attributes = f'alwaysinline "vector-function-abi-variant"="{",".join(versions)}"' if versions else ""
    return c.call(f"@{symbol}", type, args, attributes)


def names_in(text: str) -> frozenset[str]:
    """The elementary functions that an LLVM IR text calls."""
    return frozenset(m[1] for m in _CALLED.finditer(text))


def has_terms(symbol: str) -> bool:
    """Whether a function's values are computed by way of what others of the same number need as well."""
    found = _NAME.fullmatch(symbol)
    return found is not None and found["name"] in _ALIKE


def is_of_vectors(symbol: str) -> bool:
    """Whether a function is one of vectors."""
    found = _NAME.fullmatch(symbol)
    return found is not None and found["lanes"] is not None


def have_terms_in_common(text: str) -> bool:
    """Whether an LLVM IR text, of one function, calls two that compute something alike of the same number."""
    called: dict[str, str] = {}
    of_numbers = (m for m in _CALLED.finditer(text) if has_terms(m[1]) and not is_of_vectors(m[1]))
    return any(called.setdefault(m["args"], m[1]) != m[1] for m in of_numbers)


@functools.lru_cache(256)
def definitions(names: frozenset[str], masks: bool = False, permutes: bool = False, waits_less: bool = False) -> str:
    """The LLVM IR of a module with these functions.

    masks, permutes: as of `ModuleText`. waits_less: whether what has a shorter way for some numbers branches to it.
    """
    module = ModuleText(masks=masks, permutes=permutes)
    for symbol in sorted(names):
        found = _NAME.fullmatch(symbol)
        assert found is not None, symbol
        name, type, lanes = found["name"], found["type"], int(found["lanes"] or 1)
        whole = in_lanes(type, lanes)
        f = FunctionText(module, symbol, whole, [whole] * (2 if name in _OF_TWO else 1), "")
        rules = _WAITING_LESS if waits_less and lanes == 1 else _RULES
        y = rules[name](*(X(f, p) for p in f.params))
        f.line(f"ret {whole} {y.v.ref}")
        is_short = sum(len(label.lines) for label in f.labels) <= _SHORT
        f.attributes = f"linkonce_odr |nounwind {'alwaysinline' if lanes > 1 or is_short else ''}"
    return str(module)
