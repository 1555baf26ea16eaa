"""np.linalg: eigenvalues, singular values, QR, least squares; the leading axes count matrices.

As NumPy's, all of them compute in double precision, and give results in the precision of what they were given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import (
    eig_one,
    eigh_one,
    eigvals_one,
    eigvalsh_one,
    is_constant,
    lstsq_one,
    pinv_one,
    qr_one,
    refuse,
    settled,
    svd_one,
    svdvals_one,
    triangle_one,
    undecided,
)
from dlvm_py.frontend.library.linear_algebra import (
    as_both,
    as_given,
    check_matrices,
    check_square,
    in_double,
    matrices_of,
)

EighResult: Any = type(np.linalg.eigh(np.eye(1)))  # NumPy's named tuples
EigResult: Any = type(np.linalg.eig(np.eye(1)))
SVDResult: Any = type(np.linalg.svd(np.eye(1)))
QRResult: Any = type(np.linalg.qr(np.eye(1)))


# -- eigenvalues -------------------------------------------------------------------------------------


def is_upper(uplo: Any) -> Any:
    """Whether UPLO asks for the upper triangle."""
    if uplo not in ("L", "l", "U", "u"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo in ("U", "u")


def eigh(a: Any, UPLO: Any = "L") -> Any:  # noqa: N803 - NumPy's name
    """np.linalg.eigh."""
    upper = is_upper(UPLO)
    check_square(a)
    x = in_double(a)
    if x.ndim == 2:
        w, v = eigh_one(x, upper)
        return EighResult(as_given(w, a), as_given(v, a))
    xs = matrices_of(x)
    ws = np.empty(xs.shape[:-1])
    vs = np.empty(xs.shape, dtype=x.dtype)
    for i in range(xs.shape[0]):
        ws[i], vs[i] = eigh_one(xs[i], upper)
    return EighResult(as_given(np.reshape(ws, x.shape[:-1]), a), as_given(np.reshape(vs, x.shape), a))


def eigvalsh(a: Any, UPLO: Any = "L") -> Any:  # noqa: N803
    """np.linalg.eigvalsh."""
    upper = is_upper(UPLO)
    check_square(a)
    x = in_double(a)
    if x.ndim == 2:
        return as_given(eigvalsh_one(x, upper), a)
    xs = matrices_of(x)
    ws = np.empty(xs.shape[:-1])
    for i in range(xs.shape[0]):
        ws[i] = eigvalsh_one(xs[i], upper)
    return as_given(np.reshape(ws, x.shape[:-1]), a)


def check_general(a: Any) -> None:
    """What np.linalg.eig and eigvals ask of their operand."""
    check_square(a)
    if not np.all(np.isfinite(a)):
        raise np.linalg.LinAlgError("Array must not contain infs or NaNs")


def are_real(w: Any, a: Any) -> Any:
    """Whether eigenvalues of `a` are given as real numbers: NumPy's answer depends on what they are. None: on when."""
    if np.result_type(a).kind == "c":
        return False
    return settled(
        np.all(w.imag == 0),
        "all is real",
        "whether the eigenvalues of a real matrix are real or complex numbers changes while this runs: "
        "pass a.astype(complex), which always has complex ones",
    )


def eig(a: Any) -> Any:
    """np.linalg.eig: of real matrices the results are real where all eigenvalues are."""
    check_general(a)
    x = in_double(a)
    if x.ndim == 2:
        w, v = eig_one(x)
    else:
        xs = matrices_of(x)
        ws = np.empty(xs.shape[:-1], dtype=np.complex128)
        vs = np.empty(xs.shape, dtype=np.complex128)
        for i in range(xs.shape[0]):
            ws[i], vs[i] = eig_one(xs[i])
        w, v = np.reshape(ws, x.shape[:-1]), np.reshape(vs, x.shape)
    real = are_real(w, a)
    if real:
        return EigResult(as_given(w.real, a), as_given(v.real, a))
    return EigResult(undecided(as_given(w, a), real), undecided(as_given(v, a), real))


def values_of(a: Any) -> Any:
    """The eigenvalues of matrices, and whether they are given as real numbers, as `are_real`."""
    check_general(a)
    x = in_double(a)
    if x.ndim == 2:
        w = eigvals_one(x)
    else:
        xs = matrices_of(x)
        ws = np.empty(xs.shape[:-1], dtype=np.complex128)
        for i in range(xs.shape[0]):
            ws[i] = eigvals_one(xs[i])
        w = np.reshape(ws, x.shape[:-1])
    real = are_real(w, a)
    if real:
        return as_given(w.real, a), real
    return as_given(w, a), real


def eigvals(a: Any) -> Any:
    """np.linalg.eigvals: of real matrices real where all eigenvalues are."""
    w, real = values_of(a)
    return undecided(w, real)


# -- singular values ---------------------------------------------------------------------------------


def svd(a: Any, full_matrices: Any = True, compute_uv: Any = True, hermitian: Any = False) -> Any:
    """np.linalg.svd; which arrays it gives, and how large, is decided by constants."""
    if not (is_constant(full_matrices) and is_constant(compute_uv) and is_constant(hermitian)):
        refuse("np.linalg.svd: full_matrices, compute_uv and hermitian must be constants")
    if hermitian:
        return hermitian_svd(a, compute_uv)
    if not compute_uv:
        return svdvals(a)
    check_matrices(a)
    x = in_double(a)
    if x.ndim == 2:
        u, s, vh = svd_one(x, full_matrices)
        return SVDResult(as_given(u, a), as_given(s, a), as_given(vh, a))
    m, n = x.shape[-2], x.shape[-1]
    k = min(m, n)
    xs = matrices_of(x)
    left, right = (m, n) if full_matrices else (k, k)
    us = np.empty((xs.shape[0], m, left), dtype=x.dtype)
    ss = np.empty((xs.shape[0], k))
    vs = np.empty((xs.shape[0], right, n), dtype=x.dtype)
    for i in range(xs.shape[0]):
        us[i], ss[i], vs[i] = svd_one(xs[i], full_matrices)
    leading = x.shape[:-2]
    return SVDResult(
        as_given(np.reshape(us, leading + us.shape[1:]), a),
        as_given(np.reshape(ss, leading + ss.shape[1:]), a),
        as_given(np.reshape(vs, leading + vs.shape[1:]), a),
    )


def hermitian_svd(a: Any, compute_uv: Any) -> Any:
    """The singular value decomposition of Hermitian matrices, by eigenvalues."""
    if not compute_uv:
        return np.sort(np.abs(eigvalsh(a)))[..., ::-1]
    w, v = eigh(a)
    order = np.argsort(np.abs(w))[..., ::-1]
    sign = np.take_along_axis(np.copysign(1.0, w), order, axis=-1).astype(w.dtype)
    s = np.take_along_axis(np.abs(w), order, axis=-1)
    u = np.take_along_axis(v, order[..., np.newaxis, :], axis=-1)
    return SVDResult(u, s, np.conj(np.swapaxes(u * sign[..., np.newaxis, :], -1, -2)))


def svdvals(x: Any, /) -> Any:
    """np.linalg.svdvals."""
    check_matrices(x)
    a = in_double(x)
    if a.ndim == 2:
        return as_given(svdvals_one(a), x)
    xs = matrices_of(a)
    ss = np.empty((xs.shape[0], min(a.shape[-2], a.shape[-1])))
    for i in range(xs.shape[0]):
        ss[i] = svdvals_one(xs[i])
    return as_given(np.reshape(ss, a.shape[:-2] + ss.shape[1:]), x)


def matrix_rank(A: Any, tol: Any = None, hermitian: Any = False, *, rtol: Any = None) -> Any:  # noqa: N803
    """np.linalg.matrix_rank; `tol` and `rtol` are numbers."""
    if tol is not None and rtol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    if np.ndim(A) < 2:
        return int(np.any(np.asarray(A) != 0))
    s = svd(A, compute_uv=False, hermitian=hermitian)
    if tol is not None:
        return np.count_nonzero(s > tol, axis=-1)
    if rtol is None:
        rtol = max(A.shape[-2], A.shape[-1]) * np.finfo(s.dtype).eps
    return np.count_nonzero(s > np.max(s, axis=-1, keepdims=True, initial=0) * rtol, axis=-1)


def pinv(a: Any, rcond: Any = None, hermitian: Any = False, *, rtol: Any = np._NoValue) -> Any:
    """np.linalg.pinv; the cutoff is a number. Its derivative is that at constant rank."""
    cutoff: Any = 1e-15
    check_matrices(a)
    if rcond is not None:
        if rtol is not np._NoValue:
            raise ValueError("`rtol` and `rcond` can't be both set.")
        cutoff = rcond
    elif rtol is None:
        cutoff = max(a.shape[-2], a.shape[-1]) * np.finfo(np.result_type(a)).eps
    elif rtol is not np._NoValue:
        cutoff = rtol
    if np.ndim(cutoff) > 0:
        refuse("np.linalg.pinv with one cutoff a matrix is not supported", "loop over the leading axis")
    x = in_double(a)
    if not is_constant(hermitian):
        refuse("np.linalg.pinv: hermitian must be a constant")
    if hermitian:
        check_square(a)
        below = np.tril(x, -1)
        x = below + np.conj(np.swapaxes(below, -1, -2)) + np.where(np.eye(x.shape[-1]) == 1, x.real, 0)
    if x.ndim == 2:
        return as_given(pinv_one(x, np.float64(cutoff)), a)
    xs = matrices_of(x)
    out = np.empty((xs.shape[0], xs.shape[2], xs.shape[1]), dtype=x.dtype)
    for i in range(xs.shape[0]):
        out[i] = pinv_one(xs[i], np.float64(cutoff))
    return as_given(np.reshape(out, x.shape[:-2] + out.shape[1:]), a)


# -- QR and least squares ----------------------------------------------------------------------------


def qr(a: Any, mode: Any = "reduced") -> Any:
    """np.linalg.qr in the modes "reduced", "complete" and "r"."""
    if mode not in ("reduced", "complete", "r"):
        if mode == "raw":
            refuse("np.linalg.qr with mode='raw' is not supported", "modes that are: 'reduced', 'complete', 'r'")
        raise ValueError(f"Unrecognized mode '{mode}'")
    check_matrices(a)
    x = in_double(a)
    m, n = x.shape[-2], x.shape[-1]
    leading = x.shape[:-2]
    if mode == "r":
        if x.ndim == 2:
            return as_given(triangle_one(x), a)
        xs = matrices_of(x)
        rs = np.empty((xs.shape[0], min(m, n), n), dtype=x.dtype)
        for i in range(xs.shape[0]):
            rs[i] = triangle_one(xs[i])
        return as_given(np.reshape(rs, leading + rs.shape[1:]), a)
    if x.ndim == 2:
        q, r = qr_one(x, mode)
        return QRResult(as_given(q, a), as_given(r, a))
    xs = matrices_of(x)
    columns = m if mode == "complete" else min(m, n)
    qs = np.empty((xs.shape[0], m, columns), dtype=x.dtype)
    rs = np.empty((xs.shape[0], columns, n), dtype=x.dtype)
    for i in range(xs.shape[0]):
        qs[i], rs[i] = qr_one(xs[i], mode)
    return QRResult(
        as_given(np.reshape(qs, leading + qs.shape[1:]), a), as_given(np.reshape(rs, leading + rs.shape[1:]), a)
    )


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """np.linalg.lstsq: the solution, the sums of squares that remain, the rank, the singular values."""
    a, b = np.asarray(a), np.asarray(b)
    if b.ndim == 1:
        x, squares, rank, s = lstsq(a, b[:, np.newaxis], rcond)
        return x[:, 0].copy(), squares, rank, s
    if a.ndim != 2:
        raise np.linalg.LinAlgError(f"{a.ndim}-dimensional array given. Array must be two-dimensional")
    if b.ndim != 2:
        raise np.linalg.LinAlgError(f"{b.ndim}-dimensional array given. Array must be two-dimensional")
    m, n, p = a.shape[0], a.shape[1], b.shape[1]
    if m != b.shape[0]:
        raise np.linalg.LinAlgError("Incompatible dimensions")
    cutoff: Any = np.finfo(np.float64).eps * max(m, n) if rcond is None else rcond
    dtype = np.result_type(a, b, np.float64)
    left, right = a.astype(dtype), b.astype(dtype)
    x, squares, found, s = lstsq_one(left, right, np.float64(cutoff))
    rank = np.int32(found)
    count = p if rank == n and m > n else 0
    return as_both(x, a, b), as_both(squares[:count].copy(), a, b), rank, as_both(s, a, b)


FUNCTIONS: dict[Any, Any] = {
    np.linalg.eigh: eigh,
    np.linalg.eigvalsh: eigvalsh,
    np.linalg.eig: eig,
    np.linalg.eigvals: eigvals,
    np.linalg.svd: svd,
    np.linalg.svdvals: svdvals,
    np.linalg.matrix_rank: matrix_rank,
    np.linalg.pinv: pinv,
    np.linalg.qr: qr,
    np.linalg.lstsq: lstsq,
}
METHODS: dict[str, Any] = {}
