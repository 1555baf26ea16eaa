"""Matrix multiplication reordering: a chain of products in the order that takes the fewest multiplications.

    // %a: <100 x 2>, %b: <2 x 50>, %c: <50 x 3>
    %0.0 = dot %a: ..., %b: ...                         %0.0 = dot %b: ..., %c: ...
    %r = dot %0.0: ..., %c: ...                 =>      %r = dot %a: ..., %0.0: ...

A chain is a product of matrices together with those of its operands that are products of matrices in the same
block and have no other use, and so on; everything else is an operand of the chain, an elementwise op of a product
too. All extents must be known. The order is the classical optimum: for every part i..j of the chain

    cost(i, j) = min over i ≤ k < j of  cost(i, k) + cost(k + 1, j) + rows(i) · cols(k) · cols(j)

with ties to the smaller k. A chain that costs no more as it stands is left alone, so a second run changes
nothing. The topmost product is rewritten in place and keeps its name; the others are made anew before it.

Products of integers wrap, and are the same in every order; floating point rounds otherwise, so this is for
fastmath. Cubic in the length of a chain, linear in the function.

Source: DLVM's MatrixMultiplicationReordering (which walked through any op); the optimum: Cormen et al.,
"Introduction to Algorithms", section 15.2.
"""

from __future__ import annotations

from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import OPS, Builder, Function, Instruction, TensorType, Value
from dlvm_py.ir.analysis.uses import uses


def run(function: Function) -> bool:
    """Reorder the matrix chains of `function`; whether anything changed."""
    users = uses(function)
    seen: set[Instruction] = set()
    changed = False
    for block in function.blocks:
        for i in reversed(list(block.instructions)):  # the top of a chain before its parts
            if i not in seen and _is_product(i):
                chain = _Chain(i, users)
                seen.update(chain.products)
                changed |= chain.reorder(function)
    return changed


def _is_product(v: Value) -> bool:
    """Whether `v` is a product of two matrices of known extents."""
    if not isinstance(v, Instruction) or v.op is not OPS["dot"]:
        return False
    types = [x.type for x in v.operands]
    return all(isinstance(t, TensorType) and t.rank == 2 and None not in t.shape for t in types)


def _cost(x: Value, y: Value) -> int:
    """Multiplications of one product."""
    rows, inner = x.type.shape  # type: ignore[attr-defined]
    return rows * inner * y.type.shape[1]  # type: ignore[attr-defined, no-any-return]


class _Chain(Mutable):
    """The product `top`, the products below it that it absorbs, and the operands from left to right."""

    top: Instruction
    users: dict[Value, list[Instruction]]
    products: list[Instruction] = field(default_factory=list)
    operands: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        work: list[Value] = [self.top]
        while work:
            v = work.pop()
            if v is self.top or self._is_inner(v):
                assert isinstance(v, Instruction)
                self.products.append(v)
                work.extend(reversed(v.operands))
            else:
                self.operands.append(v)

    def _is_inner(self, v: Value) -> bool:
        return _is_product(v) and v.block is self.top.block and len(self.users[v]) == 1  # type: ignore[attr-defined]

    def reorder(self, function: Function) -> bool:
        """Rebuild the chain in the best order if that is better."""
        cost, split = self._optimum()
        if cost >= sum(_cost(*p.operands) for p in self.products):
            return False
        last = len(self.operands) - 1
        b = Builder(function).before(self.top)
        b.loc = self.top.loc

        def build(i: int, j: int) -> Value:
            if i == j:
                return self.operands[i]
            left, right = build(i, split[i, j]), build(split[i, j] + 1, j)
            return b.emit("dot", left, right)

        middle = split[0, last]
        self.top.operands = [build(0, middle), build(middle + 1, last)]
        old = set(self.products) - {self.top}
        assert self.top.block is not None
        self.top.block.instructions = [i for i in self.top.block.instructions if i not in old]
        return True

    def _optimum(self) -> tuple[int, dict[tuple[int, int], int]]:
        """The least cost, and for each part i..j the last operand of its left factor."""
        n = len(self.operands)
        rows = [v.type.shape[0] for v in self.operands]  # type: ignore[attr-defined]
        cols = [v.type.shape[1] for v in self.operands]  # type: ignore[attr-defined]
        cost = {(i, i): 0 for i in range(n)}
        split: dict[tuple[int, int], int] = {}
        for length in range(1, n):
            for i in range(n - length):
                j = i + length
                costs = [cost[i, k] + cost[k + 1, j] + rows[i] * cols[k] * cols[j] for k in range(i, j)]
                cost[i, j] = min(costs)
                split[i, j] = i + costs.index(cost[i, j])
        return cost[0, n - 1], split
