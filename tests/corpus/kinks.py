"""Kinks, ties, masks and singular places. The conventions are those of docs/derivatives.md."""

import numpy as np

from corpus.case import SINGULAR, case, vector

X = vector(0.7, -1.2, 0.4, 1.9)


def no_curvature(*args):
    """Zeros like the direction, which is the last argument."""
    direction = args[-1]
    found = tuple(np.zeros_like(d) if isinstance(d, np.ndarray) else 0.0 for d in direction)
    return found if len(found) > 1 else found[0]


@case(
    (vector(4.0, 0.0, -1.0),),
    about="np.where keeps the root's infinite slope at 0, and NaN below, out",
    known="JAX #1052, #5798 (the FAQ's double where), PyTorch, autograd: NaN",
    gradient=lambda x: np.array([0.25, 0.0, 0.0]),
    kink=True,
    second=lambda x, v: np.array([-v[0][0] / 32.0, 0.0, 0.0]),
)
def where_sqrt(x):
    return np.sum(np.where(x > 0.0, np.sqrt(x), 0.0))


@case(
    (vector(0.5, 0.0, -0.25),),
    about="sin(x)/x, with the quotient masked at 0",
    known="JAX #347, #2630; autograd: NaN",
    gradient=lambda x: np.array([(a * np.cos(a) - np.sin(a)) / a**2 if a else 0.0 for a in x]),
    kink=True,
    second=lambda x, v: (
        v[0] * np.array([((2 - a * a) * np.sin(a) - 2 * a * np.cos(a)) / a**3 if a else 0.0 for a in x])
    ),
)
def where_quotient(x):
    return np.sum(np.where(x == 0.0, 1.0, np.sin(x) / x))


@case(
    (vector(2.0, 0.0, -3.0),),
    about="log(0) and log of a negative number, masked",
    known="JAX #1052, PyTorch, autograd: NaN",
    gradient=lambda x: np.array([np.log(2.0) + 1.0, 0.0, 0.0]),
    kink=True,
    second=lambda x, v: np.array([v[0][0] / 2.0, 0.0, 0.0]),
)
def where_log(x):
    return np.sum(np.where(x > 0.0, x * np.log(x), 0.0))


@case(
    (vector(2.0, 0.0, -3.0),),
    about="the same with the mask as an index: log is evaluated where it is defined only",
    gradient=lambda x: np.array([0.5, 0.0, 0.0]),
    kink=True,
    second=lambda x, v: np.array([-v[0][0] / 4.0, 0.0, 0.0]),
)
def masked_log_store(x):
    out = np.zeros(3)
    m = x > 0.0
    out[m] = np.log(x[m])
    return np.sum(out)


@case(
    (vector(1000.0, 1.0, -1.0),),
    about="exp overflows in the side of np.where that is not taken",
    known="JAX #1052: inf * 0",
    gradient=lambda x: np.array([1.0, 1.0 / (1.0 + np.exp(-1.0)), 1.0 / (1.0 + np.e)]),
)
def where_overflow(x):
    return np.sum(np.where(x > 30.0, x, np.log1p(np.exp(x))))


@case(
    (4.0, 0.0),
    about="a zero factor does not hide the mixed second derivative",
    known="a blanket 0 * anything = 0 gives 0",
    gradient=lambda x, y: (0.5 * y / np.sqrt(x), np.sqrt(x)),
)
def root_times_zero(x, y):
    return np.sqrt(x) * y


@case(
    (vector(0.0, -2.0, 3.0),),
    about="abs at 0: 0",
    known="JAX #37820: 1",
    gradient=np.sign,
    kink=True,
    second=no_curvature,
)
def abs_at_zero(x):
    return np.sum(np.abs(x))


@case(
    (vector(0.0, 0.0, 0.0),),
    about="the norm at 0: 0",
    known="JAX #3058, autograd #151, #482: NaN",
    gradient=lambda x: np.zeros(3),
    kink=True,
    second=SINGULAR,
)
def norm_at_zero(x):
    return np.linalg.norm(x)


@case(
    (0.0, 0.0),
    about="hypot at the origin: 0",
    gradient=lambda x, y: (0.0, 0.0),
    kink=True,
    second=SINGULAR,
)
def hypot_at_zero(x, y):
    return np.hypot(x, y)


@case(
    (vector(2.0, 1.0, -1.0), vector(2.0, 3.0, -1.0)),
    about="np.maximum at a tie of two variables: one half each",
    gradient=lambda x, y: (np.array([0.5, 0.0, 0.5]), np.array([0.5, 1.0, 0.5])),
    kink=True,
    second=no_curvature,
)
def maximum_tie(x, y):
    return np.sum(np.maximum(x, y))


@case(
    (vector(0.0, 2.0, -1.0),),
    about="np.maximum(x, 0) at 0: the constant takes nothing, and leaves nothing",
    known="JAX #37821: 0.5 at a tie with a constant",
    gradient=lambda x: np.array([0.0, 1.0, 0.0]),
    kink=True,
    second=no_curvature,
)
def relu_at_zero(x):
    return np.sum(np.maximum(x, 0.0))


@case(
    (0.0,), (2.0,), (-2.0,),
    about="a written if follows the branch that is taken",
    gradient=lambda x: 3.0 if x > 0.0 else -2.0,
    kink=True,
    second=no_curvature,
)  # fmt: skip
def branch_at_kink(x):
    if x > 0.0:  # noqa: SIM108
        y = 3.0 * x
    else:
        y = -2.0 * x
    return y


@case(
    (vector(1.0, 3.0, 3.0, 2.0, 3.0),),
    about="the maximum of an array shares among ties",
    gradient=lambda x: np.array([0.0, 1.0, 1.0, 0.0, 1.0]) / 3.0,
    kink=True,
    second=no_curvature,
)
def max_reduction_ties(x):
    return np.max(x)


@case(
    (np.array([[1.0, 4.0, 4.0], [5.0, 2.0, 0.0]]),),
    about="the minimum along an axis, with a tie in one row",
    gradient=lambda x: np.array([[-1.0, 0.5, 0.5], [1.0, 0.0, -1.0]]),
    kink=True,
    second=no_curvature,
)
def range_of_rows_ties(x):
    return np.sum(np.max(x, axis=1) - np.min(x, axis=1))


@case(
    (vector(3.0, 1.0, 2.0, 5.0),),
    about="sort: each element has the weight of its place",
    gradient=lambda x: np.array([9.0, 1.0, 4.0, 16.0]),
)
def sort_weighted(x):
    return np.sum(np.sort(x) * vector(1.0, 4.0, 9.0, 16.0))


@case(
    (vector(2.0, 1.0, 2.0, 0.0),),
    about="sort with a tie: the order is stable",
    gradient=lambda x: np.array([4.0, 1.0, 8.0, -1.0]),
    kink=True,
    second=no_curvature,
)
def sort_tie(x):
    return np.sum(np.sort(x) * vector(-1.0, 1.0, 4.0, 8.0))


@case(
    (vector(-1.0, 0.0, 0.5, 1.0, 2.0),),
    about="clip: 1 on the closed interval, 0 outside",
    known="jnp.clip: 0.5 at the border; autograd: 0",
    gradient=lambda x: np.array([0.0, 1.0, 1.0, 1.0, 0.0]),
    kink=True,
    second=no_curvature,
)
def clip_at_border(x):
    return np.sum(np.clip(x, 0.0, 1.0))


@case(
    (vector(0.0, 1.5, -2.0),),
    about="x**2 and x**3 at 0",
    known="a rule through log gives NaN",
    gradient=lambda x: 2 * x + 3 * x**2,
)
def integer_powers_at_zero(x):
    return np.sum(x**2 + x**3)


@case(
    (vector(0.0, 1.5, -2.0), 3), (vector(0.0, 1.5, -2.0), 1), (vector(0.0, 1.5, -2.0), 0),
    about="x**n at 0 and below with an integer n of run time",
    known="a rule through log gives NaN",
    gradient=lambda x, n: n * x ** max(n - 1, 0),
)  # fmt: skip
def run_time_power(x, n):
    return np.sum(x**n)


@case(
    (vector(0.0, 2.0),),
    about="x**0.0 is 1, with slope 0, also at 0",
    known="0 * 0**-1 = NaN",
    gradient=lambda x: np.zeros(2),
)
def power_zero(x):
    return np.sum(x**0.0)


@case(
    (0.0, 2.0),
    about="0**y: d/dx = y 0**(y-1), d/dy = 0 for y > 0",
    known="0 * log(0) = NaN",
    gradient=lambda x, y: (0.0, 0.0),
    kink=True,
    second=SINGULAR,
)
def zero_to_the_y(x, y):
    return x**y


@case(
    (vector(2.0, 0.0, 3.0), 4.0),
    about="a product with one zero: its element has the product of the others",
    known="y / x gives NaN",
    gradient=lambda x, c: (np.array([0.0, 24.0, 0.0]), 0.0),
)
def prod_one_zero(x, c):
    return np.prod(x) * c


@case(
    (vector(2.0, 0.0, 0.0),),
    about="a product with two zeros has slope 0 and a second derivative",
    known="y / x gives NaN",
    gradient=lambda x: np.array([x[1] * x[2], x[0] * x[2], x[0] * x[1]]),
)
def prod_two_zeros(x):
    return np.prod(x)


@case(
    (vector(2.0, 0.0, 3.0, 0.0, 5.0),),
    about="cumulative products with zeros",
    known="a rule with a quotient gives NaN; autograd #244, #257: no cumprod",
    gradient=lambda x: np.array([1.0, 2.0 * (1 + 3.0), 0.0, 0.0, 0.0]),
)
def cumprod_zeros(x):
    return np.sum(np.cumprod(x))


@case(
    (vector(1.3, -0.7, 2.8),),
    about="floor, ceil, round, sign and // are flat: their derivative is 0, the rest is there",
    gradient=lambda x: np.floor(x) + np.ceil(x) + np.round(x) + np.sign(x) + x // 0.5,
)
def flat_steps(x):
    return np.sum(x * np.floor(x) + x * np.ceil(x) + x * np.round(x) + x * np.sign(x) + x * (x // 0.5))


@case(
    (vector(1.25, -0.6, 2.9), vector(0.5, 0.7, -0.8)),
    about="the remainder: 1 in the dividend, -floor(x / y) in the divisor",
    gradient=lambda x, y: (np.ones(3), -np.floor(x / y)),
)
def remainder(x, y):
    return np.sum(x % y)


@case(
    (vector(-800.0, 0.0, 800.0),),
    about="log(sum(exp)) with the maximum taken off, which is differentiated through",
    gradient=lambda x: np.array([0.0, 0.0, 1.0]),
)
def log_sum_exp(x):
    m = np.max(x)
    return np.log(np.sum(np.exp(x - m))) + m


@case(
    (vector(3.0, 3.0, 3.0),),
    about="np.logaddexp of equal arguments",
    gradient=lambda x: np.full(3, 1.0),
)
def logaddexp_of_equals(x):
    return np.sum(np.logaddexp(x, x))


@case(
    (vector(1.0, -2.0, 0.5),),
    about="a comparison and an argmax choose, and have no derivative of their own",
    gradient=lambda x: np.array([2.0 * x[0] + 1.0, 0.0, 2.0 * x[2] + 1.0]),
)
def chosen_by_comparison(x):
    flags = (x > 0.0).astype(float)
    return np.sum(flags * x * x) + np.sum(x[x > 0.0])


@case(
    (vector(1.0, -2.0, 2.5, 0.5), vector(1.0, 2.0, 3.0, 4.0)),
    about="an element that is picked by argmax of another expression",
    gradient=lambda x, w: (np.array([0.0, -8.0, 0.0, 0.0]), np.array([0.0, 4.0, 0.0, 0.0])),
)
def picked_by_argmax(x, w):
    k = np.argmax(w * np.abs(x) * (x < 2.0))
    return x[k] * x[k] * w[k]


@case(
    (vector(-1.0, 0.0, 2.0),),
    about="minimum of a maximum with constants on both borders",
    gradient=lambda x: np.array([0.0, 0.0, 0.0]),
    kink=True,
    second=no_curvature,
)
def hard_tanh(x):
    return np.sum(np.minimum(np.maximum(x, 0.0), 2.0))


@case(
    (vector(1.0, 0.0, 4.0),),
    about="a root at 0 has an infinite slope, and says so",
    gradient=lambda x: np.array([0.5, np.inf, 0.25]),
    kink=True,
    second=SINGULAR,
)
def sqrt_at_zero(x):
    return np.sum(np.sqrt(x))


@case(
    (vector(0.0, 1.0),),
    about="an angle where the line to it is vertical: y / x would divide by 0",
    known="arctan(y / x) gives NaN",
    gradient=lambda x: np.array([-x[1], x[0]]) / (x[0] ** 2 + x[1] ** 2),
)
def angle_at_the_pole(x):
    return np.arctan2(x[1], x[0])
