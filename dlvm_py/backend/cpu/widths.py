"""How many elements the vectors of a kernel have, where LLVM's choice would not do.

LLVM takes as many as a register has of the widest type that is read. Of what are bytes in the end, as truths are, these
are a few, and are packed, combined and stored a few at a time:

    m & (v > 0), f64, AVX2     16 elements: 4 compares, 4 times 4 bytes unpacked, combined and packed
    twice as many in a vector  16 elements: 4 compares, packed to 2 times 8 bytes, which are combined
"""

from __future__ import annotations

from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.ir import Kind, TensorType
from dlvm_py.ir.analysis.cost import is_function

REGISTER = 32  # bytes, of AVX2
# steps for an element: more of them need the registers that the second half of a vector takes
FEW = 8


def lanes_of(tree: Tree) -> int | None:
    """Twice a register of the widest elements where all results are bytes, made in few steps; None: LLVM chooses."""
    if tree.e.module.masks or tree.is_rare or any(_size(root.type) != 1 for root in tree.roots):
        return None
    nodes = [i for i, _ in tree.nodes()]
    if any(is_function(i) or i.op.name in ("gather", "embed") or i.type.dtype.is_complex for i in nodes):  # type: ignore[attr-defined]
        return None
    widest = max(_size(i.type) for i in nodes)
    steps = sum(i.op.kind is Kind.ELEMENTWISE for i in nodes)
    return 2 * REGISTER // widest if widest >= 4 and steps <= FEW else None


def _size(type: object) -> int:
    assert isinstance(type, TensorType)
    return type.dtype.itemsize
