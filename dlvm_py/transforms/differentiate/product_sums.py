"""Sums that the reverse sweep has made over the elements of a matrix in memory are products with it.

    %t = multiply %a: f64, %m: <_ x _ x f64>          %t = multiply %a: f64, %m: <_ x _ x f64>
    %o = dot (padShape %g at 1), (padShape %x at 0)   %0 = transpose %m: <_ x _ x f64>
    %q = dot (transpose %t), %g                       %p = dot %0, %g
    %p = multiply %o, %m                         =>   %q = multiply %p: <_ x f64>, %a: f64
    %s = reduce %p by add init 0.0 along 0, 1         %s = dot %x, %p
    store %r: <_ x _ x f64> to %d                     store %r: <_ x _ x f64> to %d
    %u = multiply %r, (padShape %v at 0)              %w = dot %r, %v
    %w = reduce %u by add init 0.0 along 1

The first are the adjoints of %a and %x in `(a * m) @ x`: %a gets the sum of all elements of %m times those of the
outer product, which is the product that the adjoint of %x asks for, times %x. One pass over the matrix does for both,
and no outer product is added up. For `x @ (a * m)` likewise. The second is the adjoint of a factor that was broadcast,
as in `np.outer`: products of one matrix share a pass over it (sibling_fusion.py), reductions would not.

Only sums whose order the reverse sweep may choose; the second only of matrices that need memory anyway: read from it,
stored, or taken by a product. Those that are computed for one product alone are summed as they are computed
(expression_products.py). Not for f16, whose range is small. After `common_sums`.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Builder, Function, Instruction, TensorType, Value
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.transforms.differentiate.common_sums import Scale, product_of, scaled


def run(function: Function, sums: list[Instruction]) -> bool:
    """Make products of `sums`, reductions of `function` from zero by addition, as far as it has them."""
    if not sums:
        return False
    present = set(function.instructions())
    users = uses(function)
    changed = False
    for i in sums:
        if i not in present or not _is_of_matrix(i):
            continue
        replaced = _total(function, i, users) if len(i.attrs["axes"]) == 2 else _by_vector(function, i, users)
        if replaced:
            function.substitute(replaced)
            users = uses(function)
            changed = True
    return changed


def _is_of_matrix(i: Instruction) -> bool:
    t = i.operands[0].type
    return isinstance(t, TensorType) and t.rank == 2 and t.dtype.is_inexact and t.dtype.name != "f16"


def _by_vector(function: Function, i: Instruction, users: dict[Value, list[Instruction]]) -> dict[Value, Value]:
    """The sum of a matrix times a vector along the axis of that."""
    product = i.operands[0]
    if not isinstance(product, Instruction) or product.op is not OPS["multiply"] or product.block is not i.block:
        return {}
    (along,) = i.attrs["axes"]
    for matrix, factor in (product.operands, product.operands[::-1]):
        if matrix.type != product.type or not _is_in_memory(matrix, product, users):
            continue
        vector = _vector(function, factor, 1 - along)
        if vector is not None and factor.type.shape[along] == matrix.type.shape[along]:  # type: ignore[attr-defined]
            b = Builder(function).before(i)
            b.loc = i.loc
            return {i: b.emit("dot", *((matrix, vector) if along else (vector, matrix)))}
    return {}


def _is_in_memory(matrix: Value, product: Instruction, users: dict[Value, list[Instruction]]) -> bool:
    """Whether a matrix is read from memory, or written there or taken by a product beside what `product` does."""
    if not isinstance(matrix, Instruction):
        return False
    others = [u for u in users[matrix] if u is not product]
    return matrix.op.name == "load" or any(
        u.op.name == "dot" or (u.op.name == "store" and u.operands[0] is matrix) for u in others
    )


def _vector(function: Function, v: Value, at: int) -> Value | None:
    """The vector that `v` is with an axis of one at `at`, as padShape makes it of a value, or a load of a pointer."""
    if not isinstance(v, Instruction) or not isinstance(v.type, TensorType) or v.type.rank != 2:
        return None
    pad = v.operands[0] if v.op.name == "load" else v
    if not isinstance(pad, Instruction) or pad.op.name != "padShape" or pad.attrs["at"] != at:
        return None
    if pad is v:
        return v.operands[0]
    b = Builder(function).before(v)  # where memory holds what `v` finds there
    b.loc = v.loc
    return b.emit("load", pad.operands[0])


def _total(function: Function, i: Instruction, users: dict[Value, list[Instruction]]) -> dict[Value, Value]:
    """The sum of all elements of a matrix times those of an outer product, of which one vector is in a product."""
    added = product_of(i)
    if len(added.arrays) != 2 or added.partials:
        return {}
    for outer, matrix in (added.arrays, added.arrays[::-1]):
        pair = _outer(outer)
        if pair is None or matrix.type != outer.type:
            continue
        column, row = pair
        for vector, other, of_rows in ((column, row, False), (row, column, True)):
            for product in users[vector]:
                scale = _scale(product, matrix, vector, of_rows)
                if product.block is i.block and scale is not None:
                    return _joined(function, i, product, matrix, vector, other, (of_rows, added.scale, scale))
    return {}


def _outer(v: Value) -> tuple[Value, Value] | None:
    """The column and the row whose outer product `v` is."""
    if not isinstance(v, Instruction) or v.op.name != "dot" or v.type.rank != 2:  # type: ignore[attr-defined]
        return None
    x, y = v.operands
    if not all(isinstance(o, Instruction) and o.op.name == "padShape" for o in (x, y)):
        return None
    fits = x.attrs["at"] == 1 and y.attrs["at"] == 0 and x.type.rank == y.type.rank == 2  # type: ignore[attr-defined]
    return (x.operands[0], y.operands[0]) if fits else None  # type: ignore[attr-defined]


def _scale(product: Instruction, matrix: Value, vector: Value, of_rows: bool) -> Scale | None:
    """The numbers by which a matrix is multiplied before its product with a vector; None where `product` is another."""
    if product.op.name != "dot":
        return None
    x, y = product.operands
    m, v = (x, y) if y.type.rank == 1 else (y, x)  # type: ignore[attr-defined]
    along_rows = m is x
    if isinstance(m, Instruction) and m.op.name == "transpose":
        m, along_rows = m.operands[0], not along_rows
    if v is not vector or along_rows is not of_rows:
        return None
    scale: Scale = ()
    while m is not matrix:
        if not isinstance(m, Instruction) or m.op is not OPS["multiply"]:
            return None
        by = [o for o in m.operands if o.type.rank == 0]  # type: ignore[attr-defined]
        if len(by) != 1:
            return None
        scale += (("multiply", by[0]),)
        m = m.operands[1] if m.operands[0] is by[0] else m.operands[0]
    return scale if m.type == matrix.type else None


def _joined(
    function: Function,
    i: Instruction,
    product: Instruction,
    matrix: Value,
    vector: Value,
    other: Value,
    how: tuple[bool, Scale, Scale],
) -> dict[Value, Value]:
    """One product of the matrix and the vector, for the sum `i` and for `product`, before the first of the two."""
    of_rows, of_sum, of_product = how
    block = product.block
    assert block is not None
    b = Builder(function).before(min(i, product, key=block.instructions.index))
    b.loc = product.loc
    made = b.emit("dot", matrix, vector) if of_rows else b.emit("dot", b.emit("transpose", matrix), vector)
    replaced: dict[Value, Value] = {}
    for old, scale in ((product, of_product), (i, of_sum)):
        b = Builder(function).before(old)
        b.loc = old.loc
        replaced[old] = scaled(b, made if old is product else b.emit("dot", other, made), scale)
    return replaced
