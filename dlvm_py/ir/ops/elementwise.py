"""Elementwise ops: unary, binary, comparison, boolean and bit ops, select and casts.

`partials` are written in terms of the result y and the operands; `select` keeps a branch that is not
taken out of the derivative by structure. Ops whose partials can be infinite or NaN at finite operands
say `singular=True`: the adjoint pass then multiplies by `scaleSeed`, which lets an exact zero seed win.
Conventions at kinks: DESIGN section 6 (abs and sign at 0: 0; ties of min/max: one half each, a constant
operand takes nothing and leaves nothing).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.op import LINEAR, Kind, Op
from dlvm_py.ir.ops import special
from dlvm_py.ir.ops.rules import (
    ANY,
    BOOLEAN,
    FLOATING,
    INTEGRAL,
    NUMERIC,
    broadcast_shapes,
    elementwise_type,
    is_constant,
    tensor,
)
from dlvm_py.ir.types import BOOL, DTYPES, TensorType, Type
from dlvm_py.ir.value import Value

STEP = "constant between jumps"
INTEGER_VALUED = "integer or boolean valued: constant between jumps"


def _op(name: str, kinds: str, evaluate: Callable[..., Any], **form: Any) -> Op:
    result = form.pop("result", None)
    return Op(name, Kind.ELEMENTWISE, elementwise_type(kinds, result), evaluate, **form)


# -- arithmetic ------------------------------------------------------------------------------------
# attr `checked` (i64 only): raise OverflowError where the exact result does not fit, as a Python int

negate = _op("negate", NUMERIC, np.negative, partials=lambda y, x: (-1.0,), attrs=("checked",), numpy_name="negative")
add = _op(
    "add", NUMERIC, np.add, partials=lambda y, a, b: (1.0, 1.0), attrs=("checked",), commutative=True, numpy_name="add"
)
subtract = _op(
    "subtract", NUMERIC, np.subtract, partials=lambda y, a, b: (1.0, -1.0), attrs=("checked",), numpy_name="subtract"
)
multiply = _op(
    "multiply",
    NUMERIC,
    np.multiply,
    partials=lambda y, a, b: (b, a),
    attrs=("checked",),
    commutative=True,
    numpy_name="multiply",
)


def _truncated_quotient(a: Any, b: Any) -> Any:
    # one more than the floor where the quotient is negative and not exact; 0 for the divisor 0, as floor_divide
    return np.floor_divide(a, b) + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)))


# integers are divided as truncateDivide divides them, which is what DLVM's text may ask for; the front end never does
divide = _op(
    "divide",
    NUMERIC,
    lambda a, b: (_truncated_quotient if np.asarray(a).dtype.kind in "iu" else np.divide)(a, b),
    partials=lambda y, a, b: (1.0 / b, -(y / b)),
    singular=True,
    numpy_name="divide",
)
floorDivide = _op("floorDivide", "iuf", np.floor_divide, no_derivative=STEP, numpy_name="floor_divide")
truncateDivide = _op("truncateDivide", INTEGRAL, _truncated_quotient, no_derivative=INTEGER_VALUED)
# x mod y = x - floor(x / y) y
modulo = _op(
    "modulo", "iuf", np.remainder, partials=lambda y, a, b: (1.0, -floor(a / b)), singular=True, numpy_name="remainder"
)


def _power_partials(y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    # d/da a^b = b a^(b-1), exactly 0 where b is 0; d/db a^b = y log a, 0 at a = 0 for b > 0
    da = select(0.0, b * power(a, b - 1.0), equal(b, 0.0))
    if is_constant(b):
        return da, None
    log_a = log(select(1.0, a, equal(a, 0.0)))
    at_zero = select(0.0, y * log(a), greaterThan(b, 0.0))
    return da, select(at_zero, y * log_a, equal(a, 0.0))


power = _op("power", NUMERIC, np.power, partials=_power_partials, singular=True, attrs=("checked",), numpy_name="power")


def _tie_partials(y: Any, a: Any, b: Any, wins: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    dtype = y.type.dtype.name
    if is_constant(a):
        return None, dataTypeCast(wins(b, a), to=dtype)
    if is_constant(b):
        return dataTypeCast(wins(a, b), to=dtype), None
    half = 0.5 * dataTypeCast(equal(a, b), to=dtype)
    return dataTypeCast(wins(a, b), to=dtype) + half, dataTypeCast(wins(b, a), to=dtype) + half


def _bound_partials(y: Any, inside: Any, outside: Any) -> tuple[Any, Any]:
    dtype = y.type.dtype.name
    return dataTypeCast(inside, to=dtype), dataTypeCast(outside, to=dtype)


maximum = _op(
    "max",
    NUMERIC,
    np.maximum,
    partials=lambda y, a, b: _tie_partials(y, a, b, lambda p, q: greaterThan(p, q)),
    commutative=True,
    numpy_name="maximum",
)
minimum = _op(
    "min",
    NUMERIC,
    np.minimum,
    partials=lambda y, a, b: _tie_partials(y, a, b, lambda p, q: lessThan(p, q)),
    commutative=True,
    numpy_name="minimum",
)
# max and min with a bound, as np.clip takes them: on the closed interval the derivative is that of x
atLeast: Op = _op(
    "atLeast",
    "f",
    np.maximum,
    partials=lambda y, x, bound: _bound_partials(y, greaterThanOrEqual(x, bound), lessThan(x, bound)),
)
atMost: Op = _op(
    "atMost",
    "f",
    np.minimum,
    partials=lambda y, x, bound: _bound_partials(y, lessThanOrEqual(x, bound), greaterThan(x, bound)),
)
atan2 = _op(
    "atan2",
    "f",
    np.arctan2,
    partials=lambda y, a, b: (b / (a * a + b * b), -(a / (a * a + b * b))),
    singular=True,
    numpy_name="arctan2",
)
hypot = _op(
    "hypot",
    "f",
    np.hypot,
    partials=lambda y, a, b: (select(0.0, a / y, equal(y, 0.0)), select(0.0, b / y, equal(y, 0.0))),
    singular=True,
    commutative=True,
    numpy_name="hypot",
)

TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)


def rsqrt_of(x: Any) -> Any:
    """1 / √x, for complex x too."""
    return 1.0 / sqrt(x)


def _plus_one(x: Any) -> Any:
    """x + 1.

    On a branch cut the sign of an imaginary zero says on which side of it a complex x is. Adding 1 + 0j makes it
    positive, subtracting keeps it.
    """
    return -(-x - 1.0) if x.type.dtype.is_complex else x + 1.0


def _arcsine_slope(x: Any) -> Any:
    """1 / √(1 - x²), for complex x on their side of the branch cuts: 1 - x² does not know it."""
    return rsqrt_of(-(x - 1.0)) * rsqrt_of(_plus_one(x)) if x.type.dtype.is_complex else rsqrt_of(1.0 - x * x)


# -- transcendental and other unary ----------------------------------------------------------------

exp = _op("exp", FLOATING, np.exp, partials=lambda y, x: (y,), numpy_name="exp")
expm1 = _op("expm1", FLOATING, np.expm1, partials=lambda y, x: (y + 1.0,), numpy_name="expm1")
log = _op("log", FLOATING, np.log, partials=lambda y, x: (1.0 / x,), singular=True, numpy_name="log")
log1p = _op("log1p", FLOATING, np.log1p, partials=lambda y, x: (1.0 / (1.0 + x),), singular=True, numpy_name="log1p")
log2 = _op(
    "log2", FLOATING, np.log2, partials=lambda y, x: (1.0 / (x * math.log(2.0)),), singular=True, numpy_name="log2"
)
log10 = _op(
    "log10", FLOATING, np.log10, partials=lambda y, x: (1.0 / (x * math.log(10.0)),), singular=True, numpy_name="log10"
)
sqrt = _op("sqrt", FLOATING, np.sqrt, partials=lambda y, x: (0.5 / y,), singular=True, numpy_name="sqrt")
rsqrt = _op(
    "rsqrt", "f", lambda x: (1 / np.sqrt(x)).astype(x.dtype), partials=lambda y, x: (-0.5 * y * y * y,), singular=True
)
square = _op("square", NUMERIC, np.square, partials=lambda y, x: (2.0 * x,), numpy_name="square")
sin = _op("sin", FLOATING, np.sin, partials=lambda y, x: (cos(x),), numpy_name="sin")
cos: Op = _op("cos", FLOATING, np.cos, partials=lambda y, x: (-sin(x),), numpy_name="cos")
tan = _op("tan", FLOATING, np.tan, partials=lambda y, x: (1.0 + y * y,), numpy_name="tan")
asin = _op("asin", FLOATING, np.arcsin, partials=lambda y, x: (_arcsine_slope(x),), singular=True, numpy_name="arcsin")
acos = _op("acos", FLOATING, np.arccos, partials=lambda y, x: (-_arcsine_slope(x),), singular=True, numpy_name="arccos")
atan = _op("atan", FLOATING, np.arctan, partials=lambda y, x: (1.0 / (1.0 + x * x),), numpy_name="arctan")
sinh = _op("sinh", FLOATING, np.sinh, partials=lambda y, x: (cosh(x),), numpy_name="sinh")
cosh: Op = _op("cosh", FLOATING, np.cosh, partials=lambda y, x: (sinh(x),), numpy_name="cosh")
tanh = _op("tanh", FLOATING, np.tanh, partials=lambda y, x: (1.0 - y * y,), numpy_name="tanh")
asinh = _op("asinh", FLOATING, np.arcsinh, partials=lambda y, x: (rsqrt_of(_plus_one(x * x)),), numpy_name="arcsinh")
acosh = _op(
    "acosh",
    FLOATING,
    np.arccosh,
    partials=lambda y, x: (rsqrt_of(x - 1.0) * rsqrt_of(_plus_one(x)),),
    singular=True,
    numpy_name="arccosh",
)
atanh = _op(
    "atanh", FLOATING, np.arctanh, partials=lambda y, x: (1.0 / (1.0 - x * x),), singular=True, numpy_name="arctanh"
)
exp2 = _op("exp2", FLOATING, np.exp2, partials=lambda y, x: (y * math.log(2.0),), numpy_name="exp2")
cbrt = _op("cbrt", "f", np.cbrt, partials=lambda y, x: (1.0 / (3.0 * y * y),), singular=True, numpy_name="cbrt")
erf = _op("erf", "f", special.erf, partials=lambda y, x: (TWO_OVER_ROOT_PI * exp(-(x * x)),))
erfc = _op("erfc", "f", special.erfc, partials=lambda y, x: (-TWO_OVER_ROOT_PI * exp(-(x * x)),))
gamma = _op("gamma", "f", special.gamma, partials=lambda y, x: (y * digamma(x),), singular=True)
lgamma = _op("lgamma", "f", special.lgamma, partials=lambda y, x: (digamma(x),), singular=True)
digamma: Op = _op("digamma", "f", special.digamma, partials=lambda y, x: (trigamma(x),), singular=True)
trigamma: Op = _op(
    "trigamma", "f", special.trigamma, partials=lambda y, x: (polygamma(x, order=2),), singular=True
)  # fmt: skip
MAX_ORDER = 30  # of polygamma: n! has to be a float, and so have its powers of π


def _polygamma_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if not 1 <= attrs["order"] <= MAX_ORDER:
        raise TypeError(f"the order {attrs['order']} is not from 1 to {MAX_ORDER}")
    return elementwise_type("f")(operands, attrs)


def _next_polygamma(x: Any, order: int) -> Any:
    if order == MAX_ORDER:
        raise NotImplementedError(f"the derivative of polygamma of order {MAX_ORDER}")
    return polygamma(x, order=order + 1)


# the derivative of this order of digamma
polygamma: Op = Op(
    "polygamma",
    Kind.ELEMENTWISE,
    _polygamma_type,
    special.polygamma,
    attrs=("order",),
    adjoint=lambda seed, y, x, order: (scaleSeed(seed, _next_polygamma(x, order)),),
    tangent=lambda t, y, x, order: scaleSeed(t[0], _next_polygamma(x, order)),
)
absolute = _op("abs", "iuf", np.abs, partials=lambda y, x: (sign(x),), attrs=("checked",), numpy_name="absolute")
sign: Op = _op("sign", "iuf", np.sign, no_derivative=STEP, numpy_name="sign")


def _rounding(name: str, evaluate: Callable[..., Any], numpy_name: str | None = None) -> Op:
    """An op that makes floats whole; integers are."""
    rounded = lambda x: x if np.asarray(x).dtype.kind in "iu" else evaluate(x)  # noqa: E731
    return _op(name, "iuf", rounded, no_derivative=STEP, numpy_name=numpy_name)


floor: Op = _rounding("floor", np.floor, "floor")
ceil = _rounding("ceil", np.ceil, "ceil")
rint = _rounding("rint", np.rint, "rint")
# of two equally near integers the one farther from 0; rint takes the even one
round_ = _rounding("round", special.round_half_away)
# |a| with the sign of b, of -0 too
copysign: Op = _op(
    "copysign", "f", np.copysign, partials=lambda y, a, b: (sign(a) * copysign(1.0, b), None), numpy_name="copysign"
)
truncate = _rounding("truncate", np.trunc, "trunc")

# the same number, which derivatives take for a constant
stop_gradient: Op = _op("stopGradient", "fc", np.positive, no_derivative="held constant by the program")

# -- complex numbers -------------------------------------------------------------------------------
# The adjoint of a complex number z is ∂/∂(re z) + i ∂/∂(im z), so that d(output) = Re(conj(z_adj) dz). A real function
# of complex numbers is written with these ops: |z| is hypot(realPart z, imaginaryPart z).


def _part_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    t = tensor(operands[0])
    if not t.dtype.is_complex:
        raise TypeError(f"not defined for dtype {t.dtype}")
    return t.with_dtype(t.dtype.real)


def _complex_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    a, b = (tensor(v) for v in operands)
    if a.dtype is not b.dtype or a.dtype.complex is None:
        raise TypeError(f"no complex number has the parts {a.dtype} and {b.dtype}")
    return TensorType(broadcast_shapes([a.shape, b.shape]), a.dtype.complex)


def _make_complex(a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    z = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, np.complex64))
    z.real, z.imag = a, b  # a + 1j * b would not keep infinities and signed zeros
    return z[()]


realPart = Op(
    "realPart",
    Kind.ELEMENTWISE,
    _part_type,
    lambda z: np.real(z),
    adjoint=lambda seed, y, z: (makeComplex(seed, 0.0),),
    tangent=LINEAR,
    numpy_name="real",
)
imaginaryPart = Op(
    "imaginaryPart",
    Kind.ELEMENTWISE,
    _part_type,
    lambda z: np.imag(z),
    adjoint=lambda seed, y, z: (makeComplex(0.0, seed),),
    tangent=LINEAR,
    numpy_name="imag",
)
# makeComplex a, b: a + bi, exactly
makeComplex: Op = Op(
    "makeComplex",
    Kind.ELEMENTWISE,
    _complex_type,
    _make_complex,
    adjoint=lambda seed, y, a, b: (realPart(seed), imaginaryPart(seed)),
    tangent=LINEAR,
)
conjugate: Op = _op(
    "conjugate",
    "c",
    np.conjugate,
    adjoint=lambda seed, y, z: (conjugate(seed),),
    tangent=LINEAR,
    numpy_name="conjugate",
)


def conjugate_of(x: Any) -> Any:
    """The complex conjugate of a rule's Expr; real ones are their own."""
    return conjugate(x) if x.type.dtype.is_complex else x


# -- comparison, boolean, bits ---------------------------------------------------------------------


def _compare(name: str, evaluate: Callable[..., Any], commutative: bool = False) -> Op:
    return _op(
        name,
        ANY,
        evaluate,
        result=BOOL,
        no_derivative=INTEGER_VALUED,
        commutative=commutative,
        numpy_name=evaluate.__name__,
    )


equal: Op = _compare("equal", np.equal, True)
notEqual = _compare("notEqual", np.not_equal, True)
lessThan: Op = _compare("lessThan", np.less)
lessThanOrEqual: Op = _compare("lessThanOrEqual", np.less_equal)
greaterThan: Op = _compare("greaterThan", np.greater)
greaterThanOrEqual: Op = _compare("greaterThanOrEqual", np.greater_equal)


def _integer(name: str, kinds: str, evaluate: Callable[..., Any], commutative: bool = False) -> Op:
    return _op(
        name, kinds, evaluate, no_derivative=INTEGER_VALUED, commutative=commutative, numpy_name=evaluate.__name__
    )


logical_and = _integer("and", BOOLEAN, np.logical_and, True)
logical_or = _integer("or", BOOLEAN, np.logical_or, True)
logical_not = _integer("not", BOOLEAN, np.logical_not)
bitAnd = _integer("bitAnd", INTEGRAL, np.bitwise_and, True)
bitOr = _integer("bitOr", INTEGRAL, np.bitwise_or, True)
bitXor = _integer("bitXor", "biu", np.bitwise_xor, True)
bitNot = _integer("bitNot", INTEGRAL, np.invert)
shiftLeft = _integer("shiftLeft", INTEGRAL, np.left_shift)
shiftRight = _integer("shiftRight", INTEGRAL, np.right_shift)
isFinite = _op("isFinite", FLOATING, np.isfinite, result=BOOL, no_derivative=INTEGER_VALUED, numpy_name="isfinite")
isNan = _op("isNan", FLOATING, np.isnan, result=BOOL, no_derivative=INTEGER_VALUED, numpy_name="isnan")

# -- select, casts, the guarded seed ---------------------------------------------------------------


def _select_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    a, b, flag = (tensor(v) for v in operands)
    if a.dtype is not b.dtype:
        raise TypeError(f"dtypes differ: {a.dtype} and {b.dtype}")
    if flag.dtype is not BOOL:
        raise TypeError("the flag must be bool")
    return TensorType(broadcast_shapes([a.shape, b.shape, flag.shape]), a.dtype)


# select a, b by flag: a where flag, else b
select: Op = Op(
    "select",
    Kind.ELEMENTWISE,
    _select_type,
    lambda a, b, flag: np.where(flag, a, b),
    adjoint=lambda seed, y, a, b, flag: (select(seed, 0.0, flag), select(0.0, seed, flag), None),
    tangent=LINEAR,
    numpy_name="where",
)


def _cast_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return tensor(operands[0]).with_dtype(DTYPES[attrs["to"]])


def _cast(x: Any, to: str) -> Any:
    x, dtype = np.asarray(x), DTYPES[to]
    if x.dtype.kind == "c" and dtype.kind not in "bc":
        x = x.real  # as astype does, which would warn
    return x.astype(dtype.numpy)


# NumPy's astype; out-of-range float to int gives what x86-64 NumPy gives (the smallest integer)
dataTypeCast: Op = Op(
    "dataTypeCast",
    Kind.ELEMENTWISE,
    _cast_type,
    _cast,
    attrs=("to",),
    adjoint=lambda seed, y, x, to: (
        (dataTypeCast(seed, to=x.type.dtype.name),) if x.type.dtype.is_inexact and y.type.dtype.is_inexact else (None,)
    ),
    tangent=LINEAR,
)


def _scale_seed(seed: Any, p: Any) -> Any:
    return np.where(~np.isfinite(p) & (seed == 0), np.zeros((), np.asarray(seed).dtype), seed * p)


def _zero_wins(seed: Any, p: Any) -> Any:
    return logical_and(logical_not(isFinite(p)), equal(seed, 0.0))


def _scale_seed_tangent(t: Sequence[Any], y: Any, seed: Any, p: Any) -> Any:
    # a partial that is left out has no tangent either, however it moves: the zero seed wins there too
    along_seed = None if t[0] is None else select(0.0, scaleSeed(t[0], p), _zero_wins(seed, p))
    along_partial = None if t[1] is None else scaleSeed(seed, t[1])
    if along_seed is None or along_partial is None:
        return along_partial if along_seed is None else along_seed
    return along_seed + along_partial


# seed * p, but an exact zero seed wins over a partial that is not finite (DESIGN section 6)
scaleSeed: Op = _op(
    "scaleSeed",
    FLOATING,
    _scale_seed,
    adjoint=lambda s, y, seed, p: (
        select(0.0, scaleSeed(s, conjugate_of(p)), _zero_wins(seed, p)),
        scaleSeed(s, conjugate_of(seed)),
    ),
    tangent=_scale_seed_tangent,
)

ELEMENTWISE = tuple(v for v in list(globals().values()) if isinstance(v, Op))
