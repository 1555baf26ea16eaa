"""Memory: elements and slices that are written, read again, shared, overwritten."""

import numpy as np

from corpus.case import case, vector

X = vector(0.7, -1.2, 0.4, 1.9)
Y = vector(1.1, 0.3, -0.8, 0.6)


@case(
    (X, 3),
    about="v[i] = v[i] + x in a loop",
    known="Warp #1697: wrong on local matrices, in silence, and grows with the steps",
    gradient=lambda x, n: 2 * (n + 1) ** 2 * x,
)
def element_plus_assign(x, n):
    v = x.copy()
    for _ in range(n):
        for i in range(len(x)):
            v[i] = v[i] + x[i]
    return np.sum(v * v)


@case(
    (X, Y),
    about="*= on elements: the factor's adjoint needs the value from before the store",
    known='Warp, documentation: "incorrect results", a warning at debug level only',
    gradient=lambda x, y: (2 * x * y**4, 4 * x**2 * y**3),
)
def element_times_assign(x, y):
    v = x.copy()
    for i in range(len(v)):
        v[i] *= y[i]
        v[i] *= y[i]
    return np.sum(v * v)


@case(
    (X, Y),
    about="/= and **= on elements",
    gradient=lambda x, y: (2 * x / y**2, -2 * x**2 / y**3),
)
def element_divide_power_assign(x, y):
    v = x.copy()
    for i in range(len(v)):
        v[i] /= y[i]
        v[i] **= 2
    return np.sum(v)


@case(
    (X,),
    about="an element is overwritten after it was used",
    gradient=lambda x: np.array([2 * x[0], np.exp(x[1]), 0.0, 0.0]),
)
def overwritten_after_use(x):
    v = x.copy()
    a = v[0] * v[0]
    v[0] = np.exp(v[1])
    return a + v[0]


@case(
    (X, 0.5),
    about="the argument itself is overwritten: the gradient is with respect to its value on entry",
    known="autograd, documentation: wrong where an argument that is not differentiated changes",
    gradient=lambda x, c: (2 * x * c**2, float(np.sum(2 * x**2 * c))),
)
def written_argument(x, c):
    x *= c
    return np.sum(x * x)


@case(
    (X,),
    about="all of the argument is overwritten by a constant: nothing of it is left",
    gradient=lambda x: np.zeros(4),
)
def argument_set_to_constant(x):
    x[:] = 2.0
    return np.sum(x * x)


@case(
    (X,),
    about="another name for the same array sees the store",
    gradient=lambda x: np.array([8 * x[0], 2 * x[1], 2 * x[2], 2 * x[3]]),
)
def alias_sees_the_store(x):
    a = x.copy()
    b = a
    b[0] = 2.0 * b[0]
    return np.sum(a * b)


@case(
    (X,),
    about="a view is written through: its base changes",
    gradient=lambda x: np.array([3 * x[0] ** 2, 24 * x[1] ** 2, 24 * x[2] ** 2, 3 * x[3] ** 2]),
)
def view_written_through(x):
    a = x.copy()
    v = a[1:3]
    v *= 2.0
    return np.sum(a**3)


@case(
    (X,),
    about="a reversed view is read and written",
)
def reversed_slice(x):
    a = x.copy()
    r = a[::-1]
    r[1:] += a[1:] * r[:-1]
    return np.sum(a * a[::-1]) + np.sum(r**3)


@case(
    (X,),
    about="a[1:] = a[:-1]: the right side is read before anything is written",
    gradient=lambda x: np.array([2 * x[0] * 5.0, 2 * x[1] * 9.0, 2 * x[2] * 16.0, 0.0]),
)
def overlapping_copy(x):
    a = x.copy()
    a[1:] = a[:-1]
    return np.sum(a**2 * vector(1.0, 4.0, 9.0, 16.0))


@case(
    (X,),
    about="a[1:] += a[:-1] and back: the sum is made from the old values",
)
def overlapping_add(x):
    a = x.copy()
    a[1:] += a[:-1]
    a[:-1] *= a[1:]
    return np.sum(a)


@case(
    (X, 5),
    about="a stencil in place, over time",
    known="JAX #10197 (open): a copy at each step; loops of stores are refused",
)
def stencil_in_place(x, n):
    u = x.copy()
    for _ in range(n):
        u[1:-1] += 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2]) * u[1:-1]
    return np.sum(u**2)


@case(
    (X, np.array([0, 2, 0, 0, 3])),
    about="a gather with repeated indices: the adjoint adds up",
    gradient=lambda x, k: 2 * x * np.bincount(k, minlength=4),
)
def gather_repeated(x, k):
    return np.sum(x[k] ** 2)


@case(
    (X, np.array([1, 1, 2, 1])),
    about="a scatter store with repeated indices: only the last one stays",
    gradient=lambda x, k: np.array([0.0, 0.0, 3 * x[2] ** 2, 3 * x[3] ** 2]),
)
def scatter_last_wins(x, k):
    a = np.zeros(4)
    a[k] = x
    return np.sum(a**3)


@case(
    (X, np.array([1, 1, 2, 1])),
    about="a[k] += x with repeated indices: NumPy keeps only the last",
    gradient=lambda x, k: np.array([0.0, 0.0, 2 * (1 + x[2]), 2 * (1 + x[3])]),
)
def gather_add_last_wins(x, k):
    a = np.ones(4)
    a[k] += x
    return np.sum(a**2)


@case(
    (X, np.array([1, 1, 2, 1])),
    about="np.add.at with repeated indices: all of them add up",
    gradient=lambda x, k: np.array([2 * (x[0] + x[1] + x[3])] * 2 + [2 * x[2]] + [2 * (x[0] + x[1] + x[3])]),
)
def add_at_repeated(x, k):
    a = np.zeros(4)
    np.add.at(a, k, x)
    return np.sum(a**2)


@case(
    (X, Y),
    about="a ufunc with out= overwrites what it reads",
    gradient=lambda x, y: (2 * x * y * y, 2 * x * x * y),
)
def ufunc_out(x, y):
    a = x.copy()
    np.multiply(a, y, out=a)
    np.square(a, out=a)
    return np.sum(a)


@case(
    (X,),
    about="a store under a mask",
    gradient=lambda x: np.where(x < 0.5, 0.0, 2 * x),
)
def mask_store(x):
    a = x.copy()
    a[a < 0.5] = 3.0
    return np.sum(a * a)


@case(
    (X,),
    about="*= on the selection of a mask",
    gradient=lambda x: np.where(x > 0.5, 18 * x, 2 * x),
)
def mask_times_assign(x):
    a = x.copy()
    a[a > 0.5] *= 3.0
    return np.sum(a * a)


@case(
    (X,),
    about="a value recomputed near a branch, whose condition depends on memory that is overwritten behind it",
)
def recomputed_near_branch(x):
    a = x.copy()
    s = 0.0
    for i in range(len(a)):
        t = np.exp(a[i]) * a[i]
        if t > 1.0:
            a[i] = t
            s = s + t * np.sin(t)
        else:
            a[i] = -t
            s = s + t * t
        s = s * np.cos(a[i])
    return s


@case(
    (X,),
    about="an accumulator that the loop reads and writes through different slices of one array",
)
def running_sums_in_place(x):
    a = x.copy()
    for i in range(1, len(a)):
        a[i] = a[i] * a[i - 1] + a[0]
    return a[-1]


@case(
    (X, Y),
    about="two arrays change places in a loop (double buffering)",
)
def double_buffering(x, y):
    u = x.copy()
    v = y.copy()
    for _ in range(3):
        v[1:-1] = u[1:-1] * u[2:] + 0.5 * v[:-2]
        u, v = v, u
    return np.sum(u * v)


@case(
    (np.array([[1.0, 2.0, -0.5], [0.25, -1.5, 3.0]]),),
    about="a transposed view is written through",
    gradient=lambda a: 2 * a * np.array([[1.0, 1.0, 1.0], [16.0, 16.0, 16.0]]),
)
def transposed_store(a):
    b = a.copy()
    b.T[:, 1] *= 4.0
    return np.sum(b * b)


@case(
    (np.arange(1.0, 7.0),),
    about="reshape gives a view: a store to it reaches the base",
    gradient=lambda x: np.where(np.arange(6) < 3, 20 * x, 0.0),
)
def reshape_is_a_view(x):
    a = x.copy()
    m = a.reshape(2, 3)
    m[1] = 3.0 * m[0]
    return np.sum(a * a)


@case(
    (X,),
    about="the right side of an augmented store is an array that the store changes",
    gradient=lambda x: 2 * x * 4,
)
def add_to_itself(x):
    a = x.copy()
    a += a
    return np.sum(a * a)


def _scale(v, c):
    v *= c


@case(
    (X, 1.5),
    about="a called function writes into a part of its caller's array",
    gradient=lambda x, c: (2 * x * np.array([1, c**2, c**2, 1]), float(2 * c * (x[1] ** 2 + x[2] ** 2))),
)
def callee_writes(x, c):
    a = x.copy()
    _scale(a[1:3], c)
    return np.sum(a * a)
