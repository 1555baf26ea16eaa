"""The calls of single_calls.py, one a line, and the operands that their names stand for.

A line that is a statement writes into `out` (a vector) or `into` (a square), which is its result then.
"""

from math import isqrt

import numpy as np
from single_call_forms import FORMS

CALLS = {
    "elementwise": """
        x + y
        x - y
        x * y
        x / y
        x // y
        x % y
        x + 1.0
        2.0 * x + y
        x * y + x / y - 3.0
        -v
        abs(v)
        x ** 2
        x ** 3
        x ** 0.5
        x ** y
        np.sqrt(x)
        np.cbrt(v)
        np.square(v)
        np.reciprocal(x)
        np.exp(x)
        np.exp2(x)
        np.expm1(x)
        np.log(x)
        np.log2(x)
        np.log10(x)
        np.log1p(x)
        np.sin(v)
        np.cos(v)
        np.tan(v)
        np.arcsin(0.5 * x)
        np.arccos(0.5 * x)
        np.arctan(v)
        np.arctan2(v, x)
        np.hypot(x, y)
        np.sinh(v)
        np.cosh(v)
        np.tanh(v)
        np.arcsinh(v)
        np.arccosh(x + 1.0)
        np.arctanh(0.5 * x)
        np.sinc(v)
        np.logaddexp(x, y)
        np.floor(v)
        np.ceil(v)
        np.trunc(v)
        np.rint(v)
        np.round(v, 2)
        np.sign(v)
        np.signbit(v)
        np.copysign(x, v)
        np.nextafter(x, y)
        np.spacing(x)
        np.maximum(x, y)
        np.minimum(x, y)
        np.fmax(x, y)
        np.fmin(x, y)
        np.fmod(v, x)
        np.remainder(v, x)
        np.clip(v, -0.5, 0.5)
        np.heaviside(v, 0.5)
        np.isnan(v)
        np.isfinite(v)
        np.nan_to_num(v)
        np.deg2rad(v)
        np.rad2deg(v)
        np.ldexp(x, k)
        np.frexp(x)
        np.modf(v)
        np.divmod(v, x)
        np.float_power(x, y)
        np.fabs(v)
        np.positive(v)
    """,
    "comparisons": """
        x < y
        x <= 1.0
        x == y
        x != y
        np.isclose(x, y)
        np.allclose(x, x)
        np.array_equal(x, x)
        np.logical_and(m, x > 1.0)
        m & (v > 0)
        ~m
        np.logical_xor(m, v > 0)
        np.where(m, x, y)
        np.where(v > 0, v, 0.0)
        np.select([v > 1, v > 0], [x, y], 0.0)
        np.choose(k % 2, [x, y])
        np.any(v > 100)
        np.all(v < 100)
        np.count_nonzero(m)
        np.count_nonzero(v)
    """,
    "reductions": """
        np.sum(x)
        np.prod(x)
        np.mean(x)
        np.var(x)
        np.std(x)
        np.max(x)
        np.min(x)
        np.ptp(x)
        np.argmax(x)
        np.argmin(x)
        np.median(x)
        np.percentile(x, 30)
        np.quantile(x, [0.1, 0.5, 0.9])
        np.average(x, weights=y)
        np.nansum(x)
        np.nanmean(x)
        np.nanmax(x)
        np.nanstd(x)
        np.nanargmax(x)
        np.linalg.norm(x)
        np.sum(x * y)
        np.sum(x[m])
        np.sum(a)
        np.sum(a, axis=0)
        np.sum(a, axis=1)
        np.mean(a, axis=0)
        np.mean(a, axis=1)
        np.max(a, axis=0)
        np.max(a, axis=1)
        np.min(a, axis=0)
        np.argmax(a, axis=0)
        np.argmax(a, axis=1)
        np.std(a, axis=0)
        np.std(a, axis=1)
        np.prod(a, axis=0)
        np.prod(a, axis=1)
        np.any(a > 1.5, axis=0)
        np.all(a > 0.1, axis=1)
        np.median(a, axis=0)
        np.median(a, axis=1)
        np.sum(f, axis=0)
        np.sum(f, axis=1)
        np.sum(a.T, axis=0)
        np.max(a.T, axis=1)
        np.sum(c, axis=0)
        np.sum(c, axis=1)
        np.max(c, axis=1)
        np.argmax(c, axis=1)
        np.sum(d, axis=0)
        np.sum(d, axis=1)
        np.sum(d, axis=2)
        np.sum(d, axis=(0, 1))
        np.sum(d, axis=(0, 2))
        np.max(d, axis=(1, 2))
        np.mean(d, axis=1)
        np.linalg.norm(a, axis=1)
        np.linalg.norm(c, axis=1)
        np.sum(a, axis=0, keepdims=True)
        a - np.mean(a, axis=0)
        a - np.mean(a, axis=1, keepdims=True)
        a / np.sum(a, axis=1, keepdims=True)
        np.sum(s)
        np.max(s)
        np.trapezoid(y, x)
    """,
    "cumulative": """
        np.cumsum(x)
        np.cumprod(x)
        np.cumsum(a, axis=0)
        np.cumsum(a, axis=1)
        np.cumprod(a, axis=0)
        np.maximum.accumulate(x)
        np.minimum.accumulate(a, axis=0)
        np.nancumsum(x)
        np.diff(x)
        np.diff(x, 2)
        np.diff(a, axis=0)
        np.diff(a, axis=1)
        np.ediff1d(x)
        np.gradient(x)
        np.gradient(a)
        np.gradient(a, axis=0)
        np.convolve(x, w5)
        np.convolve(x, w5, "same")
        np.correlate(x, w5)
    """,
    "order": """
        np.sort(x)
        np.argsort(x)
        np.argsort(x, kind="stable")
        np.sort(a, axis=0)
        np.sort(a, axis=1)
        np.sort(i)
        np.partition(x, 10)[10]
        x[np.argpartition(x, 10)[10]]
        np.lexsort((x, y))
        np.unique(i)
        np.unique(x)
        np.unique(i, return_counts=True)
        np.unique(i, return_inverse=True)
        np.searchsorted(o, x)
        np.searchsorted(o, x, side="right")
        np.digitize(x, edges)
        np.histogram(x, 50)
        np.histogram(x, edges)
        np.histogram2d(x, y, 20)
        np.bincount(i)
        np.bincount(i, weights=x)
        np.interp(x, o, y)
        np.interp(x, edges, edges)
        np.isin(i, few)
        np.intersect1d(i, few)
        np.union1d(i, few)
        np.setdiff1d(i, few)
        np.flatnonzero(m)
        np.nonzero(m)
        np.nonzero(a > 1)
        np.argwhere(a > 1)
        np.where(m)
        np.extract(m, x)
        np.compress(m, x)
    """,
    "joins": """
        np.concatenate((x, y))
        np.concatenate((a, b))
        np.concatenate((a, b), axis=1)
        np.concatenate((c, c), axis=1)
        np.concatenate((x, x[:10], y))
        np.stack((x, y))
        np.stack((x, y), axis=1)
        np.stack((x, y, x), axis=-1)
        np.stack((a, b))
        np.stack((a, b), axis=1)
        np.stack((a, b), axis=-1)
        np.vstack((x, y))
        np.vstack((a, b))
        np.hstack((x, y))
        np.hstack((a, b))
        np.dstack((a, b))
        np.dstack((a, b, a))
        np.column_stack((x, y))
        np.column_stack((a, x[:a.shape[0]]))
        np.block([[a, b], [b, a]])
        np.append(x, 1.0)
        np.append(a, b, axis=0)
        np.insert(x, 5, 1.0)
        np.delete(x, 5)
        np.tile(x, 2)
        np.tile(a, (2, 2))
        np.tile(x, (4, 1))
        np.repeat(x, 2)
        np.repeat(x, 8)
        np.repeat(a, 2, axis=0)
        np.repeat(a, 2, axis=1)
        np.pad(x, 2)
        np.pad(x, 2, mode="edge")
        np.pad(a, 2)
        np.pad(a, ((1, 1), (0, 0)))
        np.pad(a, 2, mode="edge")
        np.pad(a, 2, mode="reflect")
        np.pad(a, 2, mode="wrap")
        np.roll(x, 5)
        np.roll(a, 3, axis=0)
        np.roll(a, 3, axis=1)
        np.roll(a, (3, 5), axis=(0, 1))
        np.roll(a, 7)
        np.flip(x)
        np.flip(x).copy()
        np.flip(a, 0).copy()
        np.flip(a, 1).copy()
        np.rot90(a).copy()
        np.rot90(a, 2).copy()
        np.split(x, 2)
        np.array_split(a, 3)
        np.resize(x, 2 * len(x))
        np.fft.fftshift(x)
        np.fft.fftshift(a)
        np.fft.ifftshift(a, axes=1)
        np.broadcast_to(x[:a.shape[1]], a.shape).copy()
        np.broadcast_to(x[:a.shape[0], None], a.shape).copy()
        np.meshgrid(x[:a.shape[0]], y[:a.shape[0]])
        np.outer(x[:a.shape[0]], y[:a.shape[0]])
        np.add.outer(x[:a.shape[0]], y[:a.shape[0]])
        np.tri(a.shape[0])
        np.tril(a)
        np.triu(a)
        np.diag(x[:a.shape[0]])
        np.eye(a.shape[0])
        np.vander(x, 4)
    """,
    "creation": """
        np.zeros(len(x))
        np.ones(len(x))
        np.full(len(x), 3.0)
        np.zeros_like(a)
        np.ones_like(a)
        np.arange(len(x))
        np.arange(0.0, 1.0 * len(x))
        np.linspace(0.0, 1.0, len(x))
        np.logspace(0.0, 1.0, len(x))
        np.geomspace(1.0, 2.0, len(x))
        np.indices(a.shape)
        x.copy()
        a.copy()
        np.array(a)
        np.fromfunction(lambda i, j: i + j, a.shape)
    """,
    "gathers": """
        x[p]
        x[few]
        np.take(x, p)
        np.take(x, p, mode="clip")
        a[q]
        a[:, q]
        a[q, q]
        a[q][:, q]
        a[np.ix_(q, q)]
        a[q, 1:-1]
        a[q[:, None], q]
        np.take(a, q, axis=0)
        np.take(a, q, axis=1)
        c[pc]
        c[:, few4]
        d[qd]
        d[:, qd]
        d[:, :, qd]
        z[p]
        i[p]
        m[p]
        x[m]
        a[am]
        a[am[0]]
        a[:, am[0]]
        c[mc]
        np.take_along_axis(a, order, axis=0)
        np.take_along_axis(a, order, axis=1)
        a.diagonal().copy()
        np.diag(a).copy()
        a[np.arange(len(a)), q]
        x[::2].copy()
        x[::-1].copy()
        a[1:-1, 1:-1].copy()
        a[::2, ::2].copy()
        a[:, 0].copy()
        a[:, ::-1].copy()
    """,
    "scatters": """
        out[:] = x
        out[::2] = half
        out[::-1] = x
        out[p] = x
        out[p] += x
        out[few] = 1.0
        out[m] = 0.0
        out[m] *= 0.5
        out[m] = x[m]
        into[q] = a
        into[:, q] = a
        into[q] += a
        into[q, q] = 1.0
        into[am] = 0.0
        into[1:-1, 1:-1] = a[1:-1, 1:-1]
        into[:] = a.T
        into[:] = x[:into.shape[1]]
        into[:, 0] = x[:into.shape[0]]
        np.add.at(out, p, x)
        np.subtract.at(out, i % len(out), x)
        np.maximum.at(out, p, x)
        np.add.at(into, q, a)
        np.put(out, p, x)
        np.putmask(out, m, x)
        np.copyto(out, x, where=m)
        np.place(out, m, few * 1.0)
        np.fill_diagonal(into, 2.0)
        out += x
        out *= 0.99
        np.add(x, y, out=out)
        np.multiply(x, y, out=out)
        np.exp(x, out=out)
    """,
    "transposes": """
        a.T.copy()
        np.ascontiguousarray(a.T)
        np.asfortranarray(a)
        a.T + b.T
        a + b.T
        a.T * 2.0
        np.exp(a.T)
        f + h
        f + a
        f * 2.0
        np.sqrt(f)
        np.where(f > 1, f, h)
        f.copy()
        f.ravel()
        a.T.ravel()
        a.T.reshape(-1)
        a.reshape(-1, 1) + 0.0
        np.transpose(d, (2, 1, 0)).copy()
        np.transpose(d, (1, 0, 2)).copy()
        np.transpose(d, (0, 2, 1)).copy()
        np.swapaxes(d, 0, 1) + d
        np.moveaxis(d, 0, -1).copy()
        np.transpose(d, (2, 1, 0)) * 2.0
        a + x[:a.shape[1]]
        a + x[:a.shape[0], None]
        f + x[:a.shape[1]]
        x[:a.shape[0], None] * y[:a.shape[1]]
        d + a[:d.shape[1], :d.shape[2]]
        c * w4
        c - c[0]
        c[:, 0] * c[:, 1]
        s + w
        s * 2.0 + w
        np.exp(s)
        np.sqrt(s)
        np.maximum(s, w)
        x[::-1] + y
        a[:, ::2] + b[:, ::2]
        a[::2] + b[::2]
        a[1:-1, 1:-1] + a[:-2, 1:-1]
        np.where(s > w, s, w)
    """,
    "linear algebra": """
        x @ y
        np.dot(x, y)
        np.vdot(x, y)
        np.inner(x, y)
        a @ x[:a.shape[1]]
        x[:a.shape[0]] @ a
        a.T @ x[:a.shape[0]]
        g @ g
        g @ g.T
        g.T @ g
        np.dot(g, g.T)
        c.T @ c
        c @ m4
        a @ t4
        d @ d
        np.matmul(d, d)
        np.linalg.solve(g, g)
        np.linalg.solve(g, g[0])
        np.linalg.inv(g)
        np.linalg.det(g)
        np.linalg.slogdet(g)
        np.linalg.cholesky(spd)
        np.linalg.qr(g)
        np.linalg.svd(g)
        np.linalg.eigh(spd)
        np.linalg.eigvalsh(spd)
        np.linalg.lstsq(g, g[0])
        np.linalg.pinv(g)
        np.linalg.matrix_power(g, 3)
        np.linalg.matrix_rank(g)
        np.linalg.norm(g)
        np.linalg.norm(g, 1)
        np.linalg.solve(many, many[:, :, :1])
        np.linalg.inv(many)
        np.linalg.det(many)
        np.trace(a)
        np.kron(g[:12, :12], g[:12, :12])
        np.cross(c[:, :3], c[:, 1:])
        np.einsum("ij->ji", a)
        np.einsum("ij->i", a)
        np.einsum("ij->j", a)
        np.einsum("ii", a)
        np.einsum("ij,j->i", a, x[:a.shape[1]])
        np.einsum("ij,jk->ik", g, g)
        np.einsum("ij,ij->i", a, b)
        np.einsum("ij,ij->", a, b)
        np.einsum("i,j->ij", x[:a.shape[0]], y[:a.shape[1]])
        np.einsum("bij,bjk->bik", d, d)
        np.einsum("bij,bj->bi", d, d[0])
        np.tensordot(g, g, 1)
        np.tensordot(d, d, ((1, 2), (1, 2)))
        np.cov(t4.T)
        np.corrcoef(t4.T)
        np.polyval(w5, x)
        np.polyfit(x, y, 3)
    """,
    "Fourier": """
        np.fft.fft(x)
        np.fft.ifft(z)
        np.fft.fft(z)
        np.fft.rfft(x)
        np.fft.irfft(z)
        np.fft.fft2(a)
        np.fft.rfft2(a)
        np.fft.fft(a, axis=0)
        np.fft.fft(a, axis=1)
        np.fft.fftfreq(len(x))
        np.abs(z)
        np.angle(z)
        z * z
        z / z
        z.real * z.imag
        np.conj(z)
        np.exp(z)
        x + 1j * y
        np.sum(z)
    """,
    "integers": """
        i + j
        i * j
        i // j
        i % j
        i ** 2
        i & j
        i | j
        i ^ j
        i << 2
        i >> 2
        ~i
        abs(i)
        i // 7
        i % 7
        i == j
        np.minimum(i, j)
        np.gcd(i, j)
        np.sum(i)
        np.max(i)
        np.argmax(i)
        np.cumsum(i)
        i / j
        k + k
        k * k
        k // 7
        k % 7
        np.sum(k)
        np.max(k)
        u + u
        u // 3
        np.sum(u)
        np.max(u)
        np.argmax(u)
        np.bitwise_count(i)
    """,
    "casts": """
        x.astype(np.float32)
        x.astype(np.int64)
        x.astype(np.int32)
        x.astype(bool)
        x.astype(np.complex128)
        x.astype(np.float16)
        i.astype(np.float64)
        i.astype(np.int32)
        i.astype(np.uint8)
        k.astype(np.float64)
        k.astype(np.float32)
        u.astype(np.float64)
        u.astype(np.int64)
        m.astype(np.float64)
        m.astype(np.int64)
        z.real.copy()
        a.T.astype(np.float32)
        i + x
        k * x
        u * 0.5
        m * x
    """,
    "forms": FORMS,
}
WRITTEN = ("out", "into")


def calls():
    """(kind, text) of each call."""
    return [(kind, line.strip()) for kind, text in CALLS.items() for line in text.strip().splitlines()]


def operands(n, dtype):
    """{name: array}: vectors of n elements, matrices and cubes of about as many, the same at every call."""
    rng = np.random.default_rng(n)
    r, e, short = isqrt(n), round(n ** (1 / 3)), n // 4

    def floats(*shape):
        return rng.uniform(0.2, 1.7, shape).astype(dtype)

    x, a, g = floats(n), floats(r, r), floats(min(r, 200), min(r, 200))
    g += len(g) * np.eye(len(g), dtype=dtype)
    found = {
        "x": x, "y": floats(n), "v": rng.normal(size=n).astype(dtype), "o": np.sort(floats(n)),
        "s": floats(2 * n)[::2], "w": floats(2 * n)[::2], "half": floats((n + 1) // 2), "out": floats(n),
        "a": a, "b": floats(r, r), "f": np.asfortranarray(floats(r, r)), "h": np.asfortranarray(floats(r, r)),
        "into": floats(r, r), "c": floats(short, 4), "d": floats(e, e, e), "t4": floats(r, 4),
        "g": g, "spd": g @ g.T, "many": floats(n // 16, 4, 4) + 4 * np.eye(4, dtype=dtype),
        "m4": floats(4, 4), "w4": floats(4), "w5": floats(5), "edges": np.linspace(0.2, 1.7, 51).astype(dtype),
        "p": rng.permutation(n), "pc": rng.permutation(short), "q": rng.permutation(r), "qd": rng.permutation(e),
        "few": np.arange(10) * 3, "few4": np.array([2, 0, 3, 1]), "order": np.argsort(a, axis=0),
        "na": np.where(rng.random((r, r)) < 0.1, np.nan, a).astype(dtype),
        "m": rng.random(n) < 0.5, "mc": rng.random(short) < 0.5, "am": rng.random((r, r)) < 0.5,
        "i": rng.integers(0, 1000, n), "j": rng.integers(1, 1000, n),
        "k": rng.integers(0, 30, n).astype(np.int32), "u": rng.integers(0, 100, n).astype(np.uint8),
        "z": (x + 1j * floats(n)).astype(np.result_type(dtype, np.complex64)),
    }  # fmt: skip
    return found
