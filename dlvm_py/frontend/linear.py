"""Products of matrices and vectors: np.dot, np.matmul and @. More axes are in library/products.py."""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any

import numpy as np

from dlvm_py.errors import ShapeMismatch, TypeMismatch
from dlvm_py.frontend.arrays import Message, check_shapes, temp
from dlvm_py.frontend.elementwise import astype, convert, loop_dtypes, operand, promoted, supported, ufunc_call
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.library import products
from dlvm_py.frontend.values import Array, Scalar, Temp
from dlvm_py.ir import BOOL, I64, DType, Value, literal
from dlvm_py.ir.value import integer

_MATMUL = "matmul: Input operand 1 has a mismatch in its core dimension 0,"


def dot(e: Emitter, a: Any, b: Any) -> Any:
    """np.dot."""
    a, b = operand(e, a, "np.dot"), operand(e, b, "np.dot")
    if isinstance(a, Scalar) or isinstance(b, Scalar):  # of a product of arrays: Python's numbers are not weak
        strong = (Scalar(v.value, weak=False) if isinstance(v, Scalar) else v for v in (a, b))
        return ufunc_call(e, np.multiply, *strong)
    if max(a.rank, b.rank) > 2:
        return e.session.library(e, products.dot, [a, b], {})
    return _product(e, a, b, "np.dot")


def matmul(e: Emitter, a: Any, b: Any) -> Any:
    """np.matmul and `@`."""
    a, b = operand(e, a, "`@`"), operand(e, b, "`@`")
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        e.error(TypeMismatch, "`@` needs arrays: one operand is a scalar", help="use * to scale")
    if not (a.dtype.is_own and b.dtype.is_own):  # ml_dtypes has no product of matrices: NumPy runs the next loop
        a, b = (astype(e, x, d) for x, d in zip((a, b), loop_dtypes(e, np.matmul, [a, b]), strict=False))
    if max(a.rank, b.rank) > 2:
        return e.session.library(e, products.matmul, [a, b], {})
    return _product(e, a, b, "`@`")


def _product(e: Emitter, a: Array | Temp, b: Array | Temp, what: str) -> Any:
    dtype = supported(e, promoted(a, b), what)
    inner, other = a.extents[-1], b.extents[0]
    if not e.facts.same(inner, other):
        if integer(inner) is not None and integer(other) is not None:
            e.error(ShapeMismatch, f"{what}: the inner extents differ, {integer(inner)} and {integer(other)}")
        _check_inner(e, a, b, what)
        e.facts.unify(inner, other)
    return _dot(e, a, b, dtype, (*a.extents[:-1], *b.extents[1:]))


def products_of(e: Emitter, a: Any, b: Any) -> Any:
    """The products of many matrices, whose extents are known to fit (library/intrinsics.py)."""
    return _dot(e, a, b, supported(e, promoted(a, b), "`@`"), (*a.extents[:-1], b.extents[-1]))


def _dot(e: Emitter, a: Array | Temp, b: Array | Temp, dtype: DType, extents: Items[Value]) -> Any:
    loop = I64 if dtype is BOOL else dtype
    (x, _), (y, _) = convert(e, a, loop), convert(e, b, loop)
    found = temp(e, e.emit("dot", x, y), tuple(extents))
    # of bools: whether there is a pair of which both hold
    return ufunc_call(e, np.not_equal, found, Scalar(literal(0), weak=True)) if dtype is BOOL else found


def _check_inner(e: Emitter, a: Array | Temp, b: Array | Temp, what: str) -> None:
    """Check that the contracted extents agree, in the words of the function that was called."""
    inner, other = a.extents[-1], b.extents[0]

    def shapes(m: Message) -> str:
        return f"shapes {m.shape(a.extents)} and {m.shape(b.extents)} not aligned"

    def core(m: Message) -> str:
        sizes = f"(size {m.hole(other)} is different from {m.hole(inner)})"
        return f"{_MATMUL} with gufunc signature (n?,k),(k,m?)->(n?,m?) {sizes}"

    def dimensions(m: Message) -> str:
        return f"{shapes(m)}: {m.hole(inner)} (dim {a.rank - 1}) != {m.hole(other)} (dim 0)"

    check_shapes(e, e.compare("equal", inner, other), *((dimensions, shapes) if what == "np.dot" else (core,)))
