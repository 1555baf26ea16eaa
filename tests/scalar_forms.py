"""Random calls of every function of `math`, `cmath` and the built-ins that compiled code may call.

A form is the kinds of the arguments, a letter each; what is drawn of a kind has the values where functions go wrong.
"""

from __future__ import annotations

import builtins
import cmath
import math
import random
from typing import Any

from dlvm_py.frontend import table
from dlvm_py.frontend.folds import FOLDS

_FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, 1e-300, -1e-310, 5e-324, 1e300, -1.7976931348623157e308,
    math.inf, -math.inf, math.nan, 709.9, -745.5, 2.0**53, 2.0**63, -(2.0**63), 2.0**62 + 512, 1e22, math.pi, 170.7,
    1023.5,
)  # fmt: skip
_INTS = (
    0,
    1,
    -1,
    2,
    3,
    -3,
    7,
    10,
    20,
    21,
    -20,
    62,
    63,
    100,
    2**31,
    -(2**31),
    2**53 + 1,
    2**62,
    -(2**62),
    2**63 - 1,
    -(2**63),
)
_PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-300, 1e300, math.inf, -math.inf, math.nan, 700.0, 710.0)


def _float(r: random.Random) -> float:
    return r.choice(_FLOATS) if r.random() < 0.6 else r.uniform(-3.0, 3.0) * 10.0 ** r.choice((0, 0, 0, 2, -3, 17))


def _int(r: random.Random) -> int:
    return r.choice(_INTS) if r.random() < 0.6 else r.randint(-100, 100)


def _complex(r: random.Random) -> complex:
    part = lambda: r.choice(_PARTS) if r.random() < 0.5 else r.uniform(-3.0, 3.0)  # noqa: E731
    return complex(part(), part())


# of a kind: what is drawn of it
KINDS: dict[str, Any] = {
    "f": _float,
    "i": _int,
    "j": lambda r: r.choice([n for n in _INTS if abs(n) < 2**63]),
    "b": lambda r: r.random() < 0.5,
    "r": lambda r: r.choice((_float, _float, _int, KINDS["b"]))(r),
    "z": _complex,
    "w": lambda r: complex(r.uniform(-3.0, 3.0), r.uniform(-3.0, 3.0)),
    "n": lambda r: r.choice((_complex, _complex, _float, _int, KINDS["b"]))(r),
    "k": lambda r: r.choice((0, 1, 2, 3, 5, 10, 20, 21, 30, 61, 62, 66, 67, 70, -1)),
    "e": lambda r: r.choice((0, 1, -1, 5, -60, 1000, -1074, -1100, 2000, -3000, 2**62, -(2**63))),
    "d": lambda r: r.choice((0, 1, 2, 3, 5, 15, 22, 30, -1, -2)),
    "s": lambda r: [_float(r) if r.random() < 0.3 else r.uniform(-1, 1) * 10.0 ** r.randint(-20, 20) for _ in range(5)],
    "p": lambda r: [_float(r) if r.random() < 0.2 else r.uniform(-5, 5) for _ in range(3)],
    "t": lambda r: [r.choice((0, 2**53 + 1, -(2**40), 1)) if r.random() < 0.1 else r.randint(-9, 9) for _ in range(4)],
}
# the forms of each function, kinds of its arguments a word
FORMS: dict[str, str] = {
    **dict.fromkeys(
        "sin cos tan asin acos atan sinh cosh tanh exp expm1 log2 log10 log1p sqrt fabs asinh acosh atanh erf erfc "
        "gamma lgamma cbrt exp2 floor ceil trunc isfinite isnan isinf degrees radians frexp ulp modf".split(),
        "r r r",
    ),
    **dict.fromkeys("pow atan2 copysign fmod isclose nextafter remainder hypot".split(), "rr rr rr ff"),
    "log": "r rr r rr",
    "hypot": "r rr ff rrr fff",
    "gcd": "i ii ii iii", "lcm": "i ii kk iii", "factorial": "k", "comb": "kk ki", "perm": "k kk", "isqrt": "i",
    "dist": "pp", "prod": "s t", "fsum": "s t", "ldexp": "fe fk re",
    **{
        f"cmath.{name}": "n n z z"
        for name in "exp sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh log10 phase isfinite isnan "
        "isinf polar".split()
    },
    "cmath.log": "n z nn zz", "cmath.rect": "ff rr", "cmath.isclose": "nn zz",
    "math.pow": "rr ff ii", "abs": "r z i", "int": "r f", "float": "r", "bool": "r z", "complex": "r rr zz rz",
    "round": "r f rd id fd",
    "divmod": "rr ii ff", "pow": "ff ik fk ww wk kkj jjj",
    "sum": "s t", "min": "ff ii fff iii s t", "max": "ff ii fff iii s t",
    "any": "s t", "all": "s t", "len": "s t", "sorted": "p t",
}  # fmt: skip
# built-ins of the language's structure, which have programs of their own, and of types and texts
STRUCTURE = frozenset(
    "range enumerate zip reversed isinstance type issubclass hasattr callable slice print str repr format tuple list "
    "map filter".split()
)


def functions() -> dict[str, Any]:
    """Every function of the tables that belongs to math, cmath or the built-ins, by the name that it has in a form."""
    found = {}
    for module in (builtins, math, cmath):
        for name, f in vars(module).items():
            if getattr(f, "__module__", None) == module.__name__ and (f in table.functions() or f in FOLDS):
                prefix = module.__name__ + "." if module is cmath or f is math.pow else ""
                found[prefix + name] = f
    return found
