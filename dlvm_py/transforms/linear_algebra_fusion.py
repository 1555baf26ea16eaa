"""Linear algebra fusion: transposes, signs and scalings are brought where a matrix product takes them for nothing.

    %u = multiply %a: f64, %x: <_ x _ x f64>            %p = dot %x: ..., %y: ...
    %p = dot %u: ..., %y: ...                           %q = dot %y: ..., %z: ...
    %v = negate %z: ...                          =>     %r = multiply %a: f64, %p: ...
    %q = dot %y: ..., %v: ...                           %s = negate %q: ...
    %t = transpose %w: (dot of %x and %y)               %0 = transpose %y ...  %1 = transpose %x ...
                                                        %t = dot %0: ..., %1: ...

An operand of a product must be in memory, plain or transposed: what is computed there needs a buffer, and a
kernel that fills it. So

1. (a x) y = a (x y) and x (a y) = a (x y) for a scalar a, and the same for `negate`: the scaling of the result is
   fused into whatever reads it. Not where the types say that the result is larger than the operand;
2. (x y)ᵀ = yᵀ xᵀ for matrices: a transposed operand is a view, which the backend hands to BLAS as such;
3. x y + x z = x (y + z) and x z + y z = (x + y) z: one product fewer; also for differences;
4. a (b (x y)) = (a b) (x y) for scalars a and b.

The op that is rewritten must be the only user of the ops that it absorbs, in one block. Rules 1 and 2 move an op from
the operands of a product to its result or the other way round, never back; 3 and 4 remove a product or
an array op: so the sweeps end, and a second run changes nothing. All but the second round otherwise in floating
point (the order of a sum is BLAS's own either way), so this is for fastmath. Stages raw and optimizable.

A product that is added to memory, `p += x y`, is one call of gemm with beta = 1: accumulate_products.py.
Source: DLVM's LinearAlgebraFusion, which was announced and never written.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Builder, Function, Instruction, TensorType, Value, is_array, is_scalar
from dlvm_py.ir.analysis.uses import uses


def run(function: Function) -> bool:
    """Fuse into the matrix products of `function`; whether anything changed."""
    changed = False
    while _Sweep(function).run():
        changed = True
    return changed


class _Sweep:
    """One walk over the function, users before operands."""

    def __init__(self, function: Function) -> None:
        self.builder = Builder(function)
        self.function = function
        self.users = uses(function)
        self.absorbed: set[Value] = set()

    def run(self) -> bool:
        """Rewrite what matches, each instruction at most once; whether anything did."""
        changed = False
        for block in self.function.blocks:
            for i in reversed(list(block.instructions)):
                if i not in self.absorbed:
                    changed |= self._rewrite(i)
            block.instructions = [i for i in block.instructions if i not in self.absorbed]
        return changed

    def _rewrite(self, i: Instruction) -> bool:
        match i.op.name:
            case "dot":
                return self._scaled_operand(i, 0) or self._scaled_operand(i, 1)
            case "transpose":
                return self._transposed_product(i)
            case "add" | "subtract":
                return self._common_factor(i)
            case "multiply":
                return self._two_scalings(i)
        return False

    def _inner(self, v: Value, user: Instruction, *names: str) -> Instruction | None:
        """`v` if it is one of these ops, in the user's block and for this one use."""
        if not isinstance(v, Instruction) or v.op.name not in names or v.block is not user.block:
            return None
        return v if self.users.get(v) == [user] and v not in self.absorbed else None

    def _become(self, i: Instruction, op: str, operands: list[Value], *absorbed: Instruction) -> bool:
        i.op, i.operands, i.attrs = OPS[op], operands, {}
        self.absorbed.update(absorbed)
        return True

    # -- the rules -----------------------------------------------------------------------------------

    def _scaled_operand(self, i: Instruction, position: int) -> bool:
        scaled = self._inner(i.operands[position], i, "multiply", "negate")
        if scaled is None or not is_array(i.type) or _is_larger(i, scaled):
            return False
        arrays = [v for v in scaled.operands if is_array(v.type)]
        scalars = [v for v in scaled.operands if is_scalar(v.type)]
        if len(arrays) != 1 or arrays[0].type != scaled.type:
            return False
        operands = list(i.operands)
        operands[position] = arrays[0]
        # (a x) y = a (x y)
        product = self._before(i).emit("dot", *operands)
        return self._become(i, scaled.op.name, [*scalars, product], scaled)

    def _transposed_product(self, i: Instruction) -> bool:
        product = self._inner(i.operands[0], i, "dot")
        if product is None or i.attrs.get("axes") not in (None, (1, 0)):
            return False
        x, y = product.operands
        if not all(isinstance(v.type, TensorType) and v.type.rank == 2 for v in (x, y)):
            return False
        # (x y)ᵀ = yᵀ xᵀ
        b = self._before(i)
        return self._become(i, "dot", [b.emit("transpose", y), b.emit("transpose", x)], product)

    def _common_factor(self, i: Instruction) -> bool:
        first, second = (self._inner(v, i, "dot") for v in i.operands)
        if first is None or second is None or first is second or not is_array(i.type):
            return False
        (x, y), (u, v) = first.operands, second.operands
        b = self._before(i)
        if x is u and y.type == v.type:
            # x y + x v = x (y + v)
            return self._become(i, "dot", [x, b.emit(i.op, y, v)], first, second)
        if y is v and x.type == u.type:
            return self._become(i, "dot", [b.emit(i.op, x, u), y], first, second)
        return False

    def _two_scalings(self, i: Instruction) -> bool:
        for position in (0, 1):
            a, rest = i.operands[position], i.operands[1 - position]
            inner = self._inner(rest, i, "multiply")
            if inner is None or not is_scalar(a.type) or not is_array(i.type) or inner.type != i.type:
                continue
            for b, product in (inner.operands, inner.operands[::-1]):
                if is_scalar(b.type) and self._inner(product, inner, "dot"):
                    # a (b p) = (a b) p
                    both = self._before(i).emit("multiply", a, b)
                    return self._become(i, "multiply", [both, product], inner)
        return False

    def _before(self, i: Instruction) -> Builder:
        self.builder.loc = i.loc
        return self.builder.before(i)


def _is_larger(result: Instruction, operand: Instruction) -> bool:
    """Whether the types say that `result` has more elements than `operand`."""
    counts = []
    for v in (result, operand):
        n = 1
        for extent in v.type.shape:  # type: ignore[attr-defined]
            if extent is None:
                return False
            n *= extent
        counts.append(n)
    return counts[0] > counts[1]
