"""Products with expressions: a computed matrix or vector times a vector is summed as it is computed, not from memory.

    %t = multiply %a: f64, %x: <_ x _ x f64>            %t = multiply %a: f64, %x: <_ x _ x f64>
    %y = dot %t: <_ x _ x f64>, %v: <_ x f64>     =>    %0 = padShape %v: <_ x f64> at 0
                                                        %1 = multiply %t: <_ x _ x f64>, %0: <1 x _ x f64>
                                                        %y = reduce %1: ... by add init 0.0 along 1

BLAS wants a matrix in memory. For a product with a vector, which takes each element once, writing the matrix there and
reading it again is most of the work; as a reduction the product is one kernel with what computes the matrix. The
terms are the same; their sum has `reduce`'s order, not BLAS's.

The matrix must be made by an elementwise op in the block of the product, perhaps transposed, for this product alone:
one that is in memory anyway goes to BLAS. Of two vectors (`values @ x[columns]`, rows of a sparse matrix) either may be
computed or gathered so. Not for f16, whose products are summed in f32. The op and its result type
stay as they were, so a second run changes nothing. Stages raw and optimizable, by bufferize.

A product of matrices of which one is a single number has equal rows, or equal columns: sums of the other one. The
gradient of `np.sum(a @ b)` consists of such products, since its seed is ones:

    %s = broadcast 1.0: f64 to (%n, %k)                 %0 = reduce %y: <_ x _ x f64> by add init 0.0 along 0
    %c = dot %s: <_ x _ x f64>, %y: <_ x _ x f64>   =>  %1 = padShape %0: <_ x f64> at 0
                                                        %c = broadcast %1: <1 x _ x f64> to (%n, %m)
"""

from __future__ import annotations

from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.types import TensorType, scalar
from dlvm_py.ir.value import Instruction, Literal, Value
from dlvm_py.transforms.literals import splat


def run(function: Function) -> bool:
    """Rewrite the products of `function` that have such a matrix; whether anything changed."""
    dots = [i for i in function.instructions() if i.op is OPS["dot"]]
    changed = any([_sum_with_one_number(function, i) for i in dots if _is_of_matrices(i)])
    products = [i for i in dots if i.op is OPS["dot"] and _is_summed(i)]
    if not products:
        return changed
    users = uses(function)
    for i in products:
        x, y = i.operands
        if i.type.rank == 0:  # type: ignore[attr-defined]
            if _is_computed_for(x, i, users) or _is_computed_for(y, i, users):
                _sum(function, i, x, y, 0)
                changed = True
        elif x.type.rank == 2 and _is_computed_for(x, i, users):  # type: ignore[attr-defined]
            _sum(function, i, x, y, 1)
            changed = True
        elif y.type.rank == 2 and _is_computed_for(y, i, users):  # type: ignore[attr-defined]
            _sum(function, i, y, x, 0)
            changed = True
    return changed


def _is_summed(i: Instruction) -> bool:
    """Whether a product has one sum for each element of at most a vector, in its own dtype."""
    t = i.type
    return isinstance(t, TensorType) and t.rank <= 1 and t.dtype.is_inexact and t.dtype.name != "f16"


def _is_of_matrices(i: Instruction) -> bool:
    """Whether a product is one of two matrices that is summed in its own dtype."""
    types = (i.type, *(v.type for v in i.operands))
    return all(
        isinstance(t, TensorType) and t.rank == 2 and t.dtype.is_inexact and not t.dtype.is_narrow for t in types
    )


def _sum_with_one_number(function: Function, i: Instruction) -> bool:
    """Let `i`, a product of matrices, be sums of one where all of the other is one number; whether it is."""
    x, y = i.operands
    for one, other, along in ((x, y, 0), (y, x, 1)):
        number = splat(one)
        if number is one:
            continue
        b = Builder(function).before(i)
        b.loc = i.loc
        is_one = isinstance(number, Literal) and number.value == 1
        terms = other if is_one else b.emit("multiply", number, other)
        zero = literal(0, scalar(i.type.dtype))  # type: ignore[attr-defined]
        sums = b.emit("reduce", terms, zero, by="add", axes=(along,))
        counts = [extents_of(b, other)[1 - along]]
        counts.insert(along, one.operands[1 + along])  # type: ignore[attr-defined]
        again = b.emit("broadcast", b.emit("padShape", sums, at=along), *counts)
        b.block.instructions.remove(again)  # type: ignore[union-attr]
        if again.type == i.type:
            i.op, i.operands, i.attrs = again.op, again.operands, again.attrs
            return True
    return False


def _is_computed_for(matrix: Value, user: Instruction, users: dict[Value, list[Instruction]]) -> bool:
    """Whether `matrix` is computed elementwise, or gathered if it is a vector, in the block of its one user."""
    while isinstance(matrix, Instruction) and matrix.block is user.block and users[matrix] == [user]:
        if matrix.op.name != "transpose":
            gathers = matrix.op.name == "gather" and matrix.type.rank == 1  # type: ignore[attr-defined]
            return matrix.op.kind is Kind.ELEMENTWISE or gathers
        matrix, user = matrix.operands[0], matrix
    return False


def _sum(function: Function, i: Instruction, matrix: Value, vector: Value, along: int) -> None:
    """Let `i`, a product of a vector with a matrix (along which axis it is summed) or a vector, be a reduction."""
    b = Builder(function).before(i)
    b.loc = i.loc
    if matrix.type.rank == 2:  # type: ignore[attr-defined]
        vector = b.emit("padShape", vector, at=1 - along)
    terms = b.emit("multiply", matrix, vector)
    zero = literal(0, scalar(i.type.dtype))  # type: ignore[attr-defined]
    total = b.emit("reduce", terms, zero, by="add", axes=(along,))
    i.op, i.operands, i.attrs = total.op, total.operands, total.attrs
    b.block.instructions.remove(total)  # type: ignore[union-attr]
