"""Array expressions: broadcasting, shapes, linear algebra, reductions, transforms."""

import numpy as np

from corpus.case import case, vector

X = vector(0.7, -1.2, 0.4, 1.9)
A = np.array([[0.9, -0.4, 0.3], [0.2, 1.1, -0.6], [-0.5, 0.8, 1.3]])
M = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


@case(
    (M, vector(0.3, -0.6, 1.2), 0.5),
    about="a row, a matrix and a number: the adjoints of what was stretched are sums",
    gradient=lambda m, v, c: (2 * (m * v + c) * v, np.sum(2 * (m * v + c) * m, axis=0), float(np.sum(2 * (m * v + c)))),
)
def broadcast_sums(m, v, c):
    return np.sum((m * v + c) ** 2)


@case(
    (vector(0.3, -0.6)[:, None], vector(1.0, 2.0, 3.0)[None, :]),
    about="a column times a row, both with an extent of 1",
    gradient=lambda u, v: (u * 2 * np.sum(v**2), v * 2 * np.sum(u**2)),
)
def outer_by_broadcasting(u, v):
    return np.sum((u * v) ** 2)


@case(
    (np.array([[2.0]]), X),
    about="an extent of 1 that stretches at run time, used twice",
    gradient=lambda a, x: (np.array([[np.sum(x * np.cos(a[0, 0] * x))]]) + 4.0, a[0] * np.cos(a[0] * x)),
)
def one_stretches(a, x):
    return np.sum(np.sin(a * x)) + np.sum(a + 0.0 * x)


@case(
    (vector(),),
    about="sums and products of no elements",
    gradient=lambda x: np.zeros(0),
)
def empty_array(x):
    return np.sum(x * x) + np.prod(x) + np.sum(np.exp(x))


@case(
    (X, 0), (X, 2),
    about="slices that may be empty",
    gradient=lambda x, n: np.where(np.arange(4) < n, 2 * x, 0.0),
)  # fmt: skip
def empty_slice(x, n):
    return np.sum(x[:n] ** 2) + np.sum(x[4:])


@case(
    (X,),
    about="one array used in two views that overlap",
    gradient=lambda x: np.append(x[1:], 0.0) + np.insert(x[:-1], 0, 0.0),
)
def overlapping_views(x):
    return np.sum(x[1:] * x[:-1])


@case(
    (np.arange(1.0, 7.0),),
    about="reshape, transpose and ravel in a chain",
    gradient=lambda x: 2 * x * np.array([1.0, 3.0, 5.0, 2.0, 4.0, 6.0]),
)
def reshape_transpose(x):
    return np.sum((x.reshape(2, 3).T.ravel()) ** 2 * np.arange(1.0, 7.0))


@case(
    (A, vector(1.0, -2.0, 0.5)),
    about="solve: both the matrix and the right side",
)
def solve(a, b):
    return np.sum(np.linalg.solve(a, b) ** 2)


@case(
    (A,),
    about="a determinant, by its inverse transposed",
    gradient=lambda a: np.linalg.det(a) * np.linalg.inv(a).T,
)
def determinant(a):
    return np.linalg.det(a)


@case(
    (np.array([[1.0, 2.0], [2.0, 4.0]]),),
    about="the determinant of a singular matrix still has a gradient: its adjugate",
    known="det(A) inv(A).T raises or gives NaN; autograd, PyTorch (old)",
    gradient=lambda a: np.array([[4.0, -2.0], [-2.0, 1.0]]),
)
def determinant_by_hand(a):
    return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]


@case(
    (A,),
    about="log of |det|, and the inverse",
)
def inverse_and_slogdet(a):
    return np.linalg.slogdet(a)[1] + np.sum(np.linalg.inv(a) ** 2)


@case(
    (A, M),
    about="a chain of products with a transpose; A comes twice",
)
def quadratic_form(a, m):
    return np.sum((m @ a @ a.T) * m)


@case(
    (X,),
    about="A.dot(B) as a method",
    known="autograd, documentation: not supported",
    gradient=lambda x: 4 * x * np.sum(x * x),
)
def dot_method(x):
    return x.dot(x) * x.dot(x)


@case(
    (M, vector(0.3, -0.6)),
    about="einsum with a repeated index",
)
def einsum_chain(m, v):
    return np.einsum("ij,ik,i->jk", m, m, v)[0, 2] + np.einsum("ii->", m[:, :2] ** 2)


@case(
    (X,),
    about="variance and standard deviation, whose mean is differentiated too",
    gradient=lambda x: 2 * (x - x.mean()) / 4 + (x - x.mean()) / (4 * x.std()),
)
def variance(x):
    return np.var(x) + np.std(x)


@case(
    (X,),
    about="cumulative sums: the adjoint runs backwards",
    gradient=lambda x: np.cumsum((2 * np.cumsum(x))[::-1])[::-1],
)
def cumulative_sum(x):
    return np.sum(np.cumsum(x) ** 2)


@case(
    (X, 0.5),
    about="concatenate of an array with itself and a part of another",
)
def concatenate_twice(x, c):
    y = np.concatenate((x, c * x[1:3], x))
    return np.sum(y * np.arange(10.0) ** 2 * y)


@case(
    (X,),
    about="stack, roll, flip, tile, repeat",
)
def rearranged(x):
    y = np.stack((np.roll(x, 1), np.flip(x), x))
    return np.sum(np.tile(x, 2) ** 3) + np.sum(np.repeat(x, 2) ** 2) + np.sum(y[0] * y[1] * y[2])


@case(
    (X, 1.5),
    about="complex numbers within a real function: abs(z)**2",
    known="conventions of complex adjoints differ; here everything is real outside",
    gradient=lambda x, w: (2 * x * (1 + w * w), float(2 * w * np.sum(x * x))),
)
def abs_squared(x, w):
    z = x + 1j * w * x
    return np.sum(np.abs(z) ** 2)


@case(
    (X, 0.3),
    about="a phase, real part, conjugate",
)
def phases(x, w):
    z = np.exp(1j * w * x) * (x - 2j)
    return np.sum((z * np.conj(z) * z).real) + np.sum(np.angle(z))


@case(
    (X,),
    about="a Fourier transform within a real function: Parseval",
    gradient=lambda x: 8 * x,
)
def fourier_power(x):
    return np.sum(np.abs(np.fft.fft(x)) ** 2)


@case(
    (vector(1.0, -0.5, 2.0, 0.25, 1.5),),
    about="a real transform of odd length and back, filtered",
)
def fourier_filter(x):
    y = np.fft.rfft(x)
    y = y * vector(1.0, 0.5, 0.25)
    return np.sum(np.fft.irfft(y, 5) ** 3)


@case(
    (np.array([0.5 + 1.0j, -1.0 + 0.25j]),),
    about="a complex argument: df = Re(conj(g) dz)",
    known="JAX gives the conjugate of PyTorch's",
    gradient=lambda z: 2 * z + np.conj(2j * z),
)
def complex_argument(z):
    return np.sum(np.abs(z) ** 2 + (1j * z * z).real)


@case(
    (X, vector(0.5, 1.0, -0.25)),
    about="a convolution",
    gradient=lambda x, k: (np.full(4, 1.25), np.full(3, x.sum())),
)
def convolution(x, k):
    return np.sum(np.convolve(x, k))


@case(
    (vector(0.1, 0.45, 0.8), vector(0.0, 0.5, 1.0), vector(1.0, 3.0, -2.0)),
    about="linear interpolation: in the place, the nodes and the values",
)
def interpolation(x, nodes, values):
    return np.sum(np.interp(x, nodes, values) ** 2)


@case(
    lambda: (np.asfortranarray(np.arange(12.0).reshape(3, 4) / 7.0),),
    about="an argument in Fortran order",
    gradient=lambda a: 2 * a * np.arange(1.0, 13.0).reshape(3, 4),
)
def fortran_order(a):
    return np.sum(a * a * np.arange(1.0, 13.0).reshape(3, 4))


@case(
    lambda: (X.copy()[::2], X.copy()[::-2]),
    about="arguments with strides, one of them negative",
    gradient=lambda x, y: (2 * x * y**3, 3 * x**2 * y**2),
)
def strided_arguments(x, y):
    return np.sum(x**2 * y**3)


@case(
    (M,),
    about="a softmax by rows",
)
def softmax_rows(m):
    e = np.exp(m - np.max(m, axis=1, keepdims=True))
    p = e / np.sum(e, axis=1, keepdims=True)
    return np.sum(p * p) - np.sum(np.log(p))


@case(
    (M, np.array([1, 0, 1])),
    about="rows and columns picked by two index arrays at once",
    gradient=lambda m, k: np.array([[0.0, 2 * m[0, 1], 0.0], [2 * m[1, 0], 0.0, 2 * m[1, 2]]]),
)
def paired_indices(m, k):
    return np.sum(m[k, np.arange(3)] ** 2)
