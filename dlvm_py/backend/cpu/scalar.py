"""The code of every elementwise op on scalars: one table, op name → dtype kind → emitter.

An emitter is called as emit(code, dtype, attrs, *operands), `dtype` being that of the first operand, and
writes straight-line code with strict floating point. A test compares the table with the rows of OPS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.backend.cpu import complexes, elementary, floating, integer, special
from dlvm_py.backend.cpu.casts import cast
from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.values import V
from dlvm_py.ir import DTYPES, DType

Emitter = Callable[..., V]


def _row(
    *, b: Emitter | None = None, iu: Emitter | None = None, f: Emitter | None = None, c: Emitter | None = None
) -> dict[str, Emitter]:
    wide = floating.narrow(f) if f is not None else None
    return {k: e for k, e in zip("biufc", (b, iu, iu, wide, c), strict=True) if e is not None}


def _own(name: str, c: Emitter | None = None) -> dict[str, Emitter]:
    return _row(f=elementary.by_rule(name), c=c or complexes.by_libm(f"c{name}"))


def _comparison(name: str, strict: str = "") -> dict[str, Emitter]:
    on_integers = integer.compare(f"s{name}", f"u{name}")
    return _row(
        b=on_integers,
        iu=on_integers,
        f=floating.compare(f"o{name}"),
        c=complexes.compare(f"o{strict or name}", f"o{name}"),
    )


def _bits(name: str, b: bool = False) -> dict[str, Emitter]:
    return _row(b=integer.bits(name) if b else None, iu=integer.bits(name))


def _select(c: Code, dtype: DType, attrs: dict[str, Any], a: V, b: V, flag: V) -> V:
    return c.select(flag, a, b)


def _cast(c: Code, dtype: DType, attrs: dict[str, Any], x: V) -> V:
    return cast(c, x, dtype, DTYPES[attrs["to"]])


def _reinterpret(c: Code, dtype: DType, attrs: dict[str, Any], x: V) -> V:
    to = scalar_type(DTYPES[attrs["to"]])
    return x if to == x.type else c.cast("bitcast", x, to)


_f = floating
TABLE: dict[str, dict[str, Emitter]] = {
    "bits": dict.fromkeys("iuf", _reinterpret),
    "negate": _row(iu=integer.negate, f=_f.negate, c=complexes.negate),
    "add": _row(iu=integer.add, f=_f.instruction("fadd"), c=complexes.partwise("fadd")),
    "subtract": _row(iu=integer.subtract, f=_f.instruction("fsub"), c=complexes.partwise("fsub")),
    "multiply": _row(iu=integer.multiply, f=_f.instruction("fmul"), c=complexes.multiply),
    "divide": _row(iu=integer.truncate_divide, f=_f.instruction("fdiv"), c=complexes.divide),
    "floorDivide": _row(iu=integer.floor_divide, f=_f.floor_divide),
    "truncateDivide": _row(iu=integer.truncate_divide),
    "modulo": _row(iu=integer.modulo, f=_f.modulo),
    "power": _row(iu=integer.power, f=_f.power, c=complexes.power),
    "max": _row(iu=integer.maximum, c=complexes.maximum) | {"f": _f.maximum},
    "min": _row(iu=integer.minimum, c=complexes.minimum) | {"f": _f.minimum},
    "atLeast": {"f": _f.maximum},
    "atMost": {"f": _f.minimum},
    "atan2": _row(f=elementary.by_rule("atan2")),
    "hypot": _row(f=elementary.by_rule("hypot")),
    "exp": _own("exp"),
    "expm1": _own("expm1", complexes.expm1),
    "log": _own("log"),
    "log1p": _own("log1p", complexes.log1p),
    "log2": _own("log2", complexes.log2),
    "log10": _own("log10", complexes.log10),
    "sqrt": _row(f=_f.by_intrinsic("sqrt"), c=complexes.by_libm("csqrt")),
    "rsqrt": _row(f=_f.rsqrt),
    "square": _row(iu=integer.square, f=_f.square, c=complexes.square),
    "sin": _own("sin"),
    "cos": _own("cos"),
    "tan": _own("tan"),
    "asin": _own("asin"),
    "acos": _own("acos"),
    "atan": _own("atan"),
    "sinh": _own("sinh"),
    "cosh": _own("cosh"),
    "tanh": _own("tanh"),
    "asinh": _own("asinh"),
    "acosh": _own("acosh"),
    "atanh": _own("atanh"),
    "exp2": _own("exp2", complexes.exp2),
    "cbrt": _row(f=elementary.by_rule("cbrt")),
    "erf": _row(f=elementary.by_rule("erf")),
    "erfc": _row(f=elementary.by_rule("erfc")),
    "gamma": _row(f=elementary.by_rule("gamma")),
    "lgamma": _row(f=elementary.by_rule("lgamma")),
    "digamma": _row(f=special.digamma),
    "trigamma": _row(f=special.trigamma),
    "polygamma": _row(f=special.polygamma),
    "abs": _row(iu=integer.absolute, f=_f.by_intrinsic("fabs")),
    "sign": _row(iu=integer.sign) | {"f": _f.sign},
    "floor": _row(iu=integer.same, f=_f.by_intrinsic("floor")),
    "ceil": _row(iu=integer.same, f=_f.by_intrinsic("ceil")),
    "rint": _row(iu=integer.same, f=_f.by_intrinsic("rint")),
    "round": _row(iu=integer.same, f=_f.by_intrinsic("round")),
    "copysign": _row(f=_f.by_intrinsic("copysign")),
    "truncate": _row(iu=integer.same, f=_f.by_intrinsic("trunc")),
    "equal": _row(
        b=integer.compare("eq", "eq"), iu=integer.compare("eq", "eq"), f=_f.compare("oeq"), c=complexes.equal
    ),
    "notEqual": _row(
        b=integer.compare("ne", "ne"), iu=integer.compare("ne", "ne"), f=_f.compare("une"), c=complexes.not_equal
    ),
    "lessThan": _comparison("lt"),
    "lessThanOrEqual": _comparison("le", "lt"),
    "greaterThan": _comparison("gt"),
    "greaterThanOrEqual": _comparison("ge", "gt"),
    "and": _row(b=integer.bits("and")),
    "or": _row(b=integer.bits("or")),
    "not": _row(b=integer.bit_not),
    "bitAnd": _bits("and"),
    "bitOr": _bits("or"),
    "bitXor": _bits("xor", b=True),
    "bitNot": _row(iu=integer.bit_not),
    "shiftLeft": _row(iu=integer.shift_left),
    "shiftRight": _row(iu=integer.shift_right),
    "isFinite": _row(f=_f.is_finite, c=complexes.finite),
    "isNan": _row(f=_f.is_nan, c=complexes.is_nan),
    "realPart": _row(c=complexes.part(0)),
    "imaginaryPart": _row(c=complexes.part(1)),
    "makeComplex": _row(f=complexes.make),
    "conjugate": _row(c=complexes.conjugate),
    "select": dict.fromkeys("biufc", _select),
    "dataTypeCast": dict.fromkeys("biufc", _cast),
    "stopGradient": _row(f=integer.same, c=integer.same),
    "scaleSeed": _row(f=_f.scale_seed, c=complexes.scale_seed),
}
