"""dtypes: integers, casts, precision, what carries no derivative."""

import numpy as np

from corpus.case import case, vector

X = vector(0.7, -1.2, 0.4, 1.9)


@case(
    (X, 3, np.array([1, 2, 3, 4])),
    about="integers beside floats: no derivative of theirs, and none lost",
    known="Tangent #66: all zeros in silence, #32: KeyError; autograd #482",
    gradient=lambda x, n, k: n * k * 2 * x,
    wrt=(0,),
)
def integer_factors(x, n, k):
    return np.sum(n * k * x**2)


@case(
    (X,),
    about="an integer accumulator becomes a float in the first iteration",
    known="numba and JAX: the carried type is that of before the loop",
    gradient=lambda x: 2 * x,
)
def integer_start(x):
    s = 0
    for v in x:
        s += v * v
    return s


@case(
    (X,),
    about="x.astype(int) is flat, the rest is not",
    gradient=lambda x: x.astype(int).astype(float),
)
def cast_to_int(x):
    return np.sum(x * x.astype(int))


@case(
    (vector(3.7, -2.2, 5.5, 0.4), np.array([2, 0])),
    about="an index that is computed from floats",
    gradient=lambda x, k: np.array([0.0, 0.0, 2 * x[2], 2 * x[3]]),
)
def index_from_float(x, k):
    i = int(x[0]) - 1
    return x[i] * x[i] + x[int(np.floor(x[0]))] ** 2


@case(
    (np.array([0.5, -1.25, 2.0], dtype=np.float32), 3.0),
    about="float32: the gradient has the dtype of its argument",
    gradient=lambda x, c: ((3 * c * x.astype(float) ** 2).astype(np.float32), 6.171875),
)
def single_precision(x, c):
    return np.sum(x**3 * np.float32(1.0)) * c


@case(
    (np.array([0.5, -1.25, 2.0], dtype=np.float32), X[:3]),
    about="a cast to float64 and back: the adjoint is cast the other way",
    gradient=lambda x, y: ((2 * x * y * y).astype(np.float32), 2 * x.astype(float) ** 2 * y),
)
def mixed_precision(x, y):
    z = x.astype(np.float64) * y
    return np.sum(z * z)


@case(
    (X,),
    about="bool arithmetic: a mask as a number",
    gradient=lambda x: np.where(x > 0, 2 * x, 0.0),
)
def mask_as_number(x):
    return np.sum((x > 0) * x * x)


@case(
    (1.5, 7), (-1.5, 7),
    about="integer division and remainder of counters within float code",
    gradient=lambda x, n: 3.0 * x**2 * 1.0 + (n % 3),
)  # fmt: skip
def counter_arithmetic(x, n):
    return x ** (n // 2) + (n % 3) * x


@case(
    (X, 2),
    about="an integer array is filled with values, which are truncated: nothing flows",
    gradient=lambda x, n: n * np.ones(4),
)
def store_into_integers(x, n):
    k = np.zeros(4, dtype=np.int64)
    k[0] = 7
    k[1:] = (x[1:] * 10.0).astype(np.int64)
    return np.sum(x) * n + 0.0 * np.sum(k)


@case(
    (np.array(1.75), 2.0),
    about="an array of rank 0 as the argument",
    gradient=lambda x, c: (np.array(2 * x * c), float(x * x)),
)
def rank_zero(x, c):
    return x * x * c


@case(
    (X,),
    about="a function without any dependence on its argument",
    gradient=lambda x: np.zeros(4),
)
def independent(x):
    return float(len(x)) * 2.5


@case(
    (X,),
    about="zeros_like and ones_like of an active array carry nothing",
    gradient=lambda x: np.full(4, 4.0),
)
def like_of_active(x):
    z = np.zeros_like(x)
    return np.sum(z + x) * np.sum(np.ones_like(x))
