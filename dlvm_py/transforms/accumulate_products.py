"""Product accumulation: a matrix product that is added to something is added in memory, one gemm with beta = 1.

    %0 = dot %x: ..., %y: ...                           store %c: <_ x _ x f64> to %p: *<_ x _ x f64>
    %1 = add %c: <_ x _ x f64>, %0: <_ x _ x f64>       %0 = dot %x: ..., %y: ...
    store %1: ... to %p: ...                     =>     %2 = load %p: ...
                                                        %1 = add %2: ..., %0: ...
                                                        store %1: ... to %p: ...

A store of `add` or `subtract` of what its destination holds and of a product is that call of BLAS: tree_rules.py
lets such a tree be, fusion.py keeps it, the back end writes it. This pass brings sums with products into the form:

1. `store (c ± x y) to p`, for any c of that shape: c goes to p first, in place where it is made of elements of p;
2. `x y ± u v`, and longer sums, that are not stored: the sum gets its memory at once.

A product of a column and a row, <n x 1> by <1 x m>, is no work for BLAS: it becomes `multiply`, which fuses, so that a
sum of such products (the gradient of a matrix that is multiplied by vectors) is written in one pass.

Not where p may overlap an operand of the product (those elements are still to be read), and not where the product has
other uses. Memory and results are the same but for the rounding of the sum, which is BLAS's as the product's is.
Not for f16 and bf16, whose sums are kept in f32. Stages raw and optimizable, by bufferize.
"""

from __future__ import annotations

from dlvm_py.ir.analysis import AliasAnalysis, uses
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.builder import Builder
from dlvm_py.ir.function import Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import accumulated
from dlvm_py.ir.types import PointerType, TensorType, Type, is_array
from dlvm_py.ir.value import Instruction, Value


def run(function: Function, noalias_params: bool = True) -> bool:
    """Rewrite the sums with products of `function`; whether anything changed."""
    changed = _multiply_outer(function)
    sums = [i for i in function.instructions() if i.op.name in ("add", "subtract") and is_array(i.type)]
    if not any(_is_product(v) for i in sums for v in i.operands):
        return changed
    return _Rewriter(function, noalias_params).run(sums) or changed


def _multiply_outer(function: Function) -> bool:
    """Products of a column and a row become elementwise ones."""
    found = [i for i in function.instructions() if _is_product(i) and _is_outer(*(v.type for v in i.operands))]
    for i in found:
        i.op, i.attrs = OPS["multiply"], {}
    return bool(found)


def _is_outer(x: Type, y: Type) -> bool:
    assert isinstance(x, TensorType) and isinstance(y, TensorType)
    return x.rank == y.rank == 2 and x.shape[1] == y.shape[0] == 1


def _is_product(v: Value) -> bool:
    return isinstance(v, Instruction) and v.op is OPS["dot"] and is_array(v.type)


class _Rewriter:
    def __init__(self, function: Function, noalias_params: bool) -> None:
        self.function = function
        self.aliases = AliasAnalysis(function, noalias_params)
        self.users = uses(function)
        self.mine: dict[Value, Value] = {}  # a load, just made, of memory that nothing else knows

    def run(self, sums: list[Instruction]) -> bool:
        """Each sum once, operands before users."""
        changed = [self._rewrite(i) for i in sums]
        return any(changed)

    def _rewrite(self, i: Instruction) -> bool:
        assert isinstance(i.type, TensorType)
        if i.type.dtype.is_narrow or i.type.dtype.name == "bool" or any(v.type != i.type for v in i.operands):
            return False
        x, y = i.operands
        product, rest = (y, x) if self._is_free(y, i) else (x, y)
        if not self._is_free(product, i):
            return False
        s = self._only_store(i)
        if s is None:
            return self._in_own_memory(i, product, rest)
        if accumulated(s) is not None or not self._is_apart(product, s.operands[1]):
            return False
        self._add_in_place(i, product, rest, s.operands[1], s)
        return True

    def _is_free(self, v: Value, i: Instruction) -> bool:
        """Whether v is a product that is made for this sum alone, in its block."""
        return _is_product(v) and v.block is i.block and self.users[v] == [i]  # type: ignore[attr-defined]

    def _only_store(self, i: Instruction) -> Instruction | None:
        users = self.users[i]
        s = users[0] if len(users) == 1 else None
        return s if s is not None and s.op is OPS["store"] and s.block is i.block else None

    def _is_apart(self, product: Value, pointer: Value) -> bool:
        """Whether no operand of the product is read from the memory of `pointer`."""
        assert isinstance(product, Instruction)
        loads = [v for v in product.operands if isinstance(v, Instruction)]
        while loads:
            v = loads.pop()
            if v.op is OPS["load"] and self.aliases.may_overlap(v.operands[0], pointer):
                return False
            loads += [o for o in v.operands if isinstance(o, Instruction) and is_array(o.type)]
        return True

    def _add_in_place(self, i: Instruction, product: Value, rest: Value, pointer: Value, before: Instruction) -> None:
        """Put the rest into memory right before an instruction, and let `i` there add the product to it."""
        assert i.block is not None
        i.block.instructions.remove(i)
        b = Builder(self.function).before(before)
        b.loc = i.loc
        if rest is i.operands[1] and i.op is OPS["subtract"]:
            i.op, rest = OPS["add"], b.emit("negate", rest)  # x y - c = -c + x y
        if self.mine.get(rest) is not pointer:  # else it is there
            b.emit("store", rest, pointer)
            rest = b.emit("load", pointer)
        i.operands = [rest, product]
        b.insert(i)

    def _in_own_memory(self, i: Instruction, product: Value, rest: Value) -> bool:
        """x y + u v: the first product is made in the memory of the sum."""
        memory = self.mine.get(rest)
        if memory is None and not self._is_free(rest, i):
            return False
        b = Builder(self.function).before(i)
        b.loc = i.loc
        if memory is None:
            memory = b.emit("allocateHeap", *extents_of(b, i), dtype=i.type.dtype.name)  # type: ignore[attr-defined]
            if memory.type != PointerType(i.type):  # type: ignore[arg-type]
                return False  # more is known of the extents than the type of the sum says, which its users rely on
        s = b.after(i).emit("store", i, memory)
        result = b.emit("load", memory, name=i.name)
        self._add_in_place(i, product, rest, memory, s)
        self.mine[result], self.users[result] = memory, self.users[i]
        for user in self.users[i]:
            user.substitute({i: result})
        return True
