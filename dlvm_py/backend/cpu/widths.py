"""How many elements the vectors of a kernel have, where LLVM's choice would not do.

LLVM takes as many as a register has of the widest type that is read. Of what are bytes in the end, as truths are, these
are a few, and are packed, combined and stored a few at a time:

    m & (v > 0), f64, AVX2     16 elements: 4 compares, 4 times 4 bytes unpacked, combined and packed
    twice as many in a vector  16 elements: 4 compares, packed to 2 times 8 bytes, which are combined

Elementary functions are long chains of steps, one after the other for a vector that LLVM does not interleave with the
next: a vector of two registers is two chains side by side. What is left of a row goes by vectors of one, since rows may
be short.

    exp(x), 20 elements     4, 4, 4, 4, 4   =>   8, 8, 4

AVX-512 has masks for truths, and was not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree
from dlvm_py.backend.cpu.values import ZERO, V, constant, i64
from dlvm_py.ir import DType, Instruction, Kind, TensorType, Value
from dlvm_py.ir.analysis.cost import is_function

REGISTER = 32  # bytes, of AVX2
# steps for an element: more of them need the registers that the second half of a vector takes
FEW = 8
MOST = 8  # functions of an element
# of f32 these wait for a table
_BY_TABLE = frozenset(("log", "log2", "log10", "log1p"))


def in_widths(
    e: FunctionEmitter,
    tree: Tree,
    axis: int,
    span: tuple[V, V],
    put: Callable[[Parallel, V], object],
    masked: bool = False,
) -> None:
    """A loop over elements along the innermost axis; put: writes that at the tree's index, so many behind the first.

    masked: the row ends in a mask.
    """
    first, last = span
    count, done = last if first == ZERO else e.op("sub nsw", last, first), ZERO
    lanes, lanes_of_all = (None, None) if masked else _lanes_of(tree)
    if lanes is not None and (constant(count) is None or int(count.ref) >= lanes):
        done = e.op("and", count, i64(-lanes))
        with e.when(e.icmp("uge", done, i64(lanes))):  # LLVM writes nothing for fewer then
            _loop(e, tree, axis, first, (ZERO, done), put, Parallel(e, lanes=lanes), runs=True)
    _loop(e, tree, axis, first, (done, count), put, Parallel(e, tree.is_rare, masked, lanes_of_all))


def _loop(
    e: FunctionEmitter,
    tree: Tree,
    axis: int,
    first: V,
    span: tuple[V, V],
    put: Callable[[Parallel, V], object],
    parallel: Parallel,
    runs: bool = False,
) -> None:
    begin, end = span
    with e.loop(end if begin == ZERO else e.op("sub nsw", end, begin), note=parallel.loop, runs=runs) as loop:
        place = loop.index if begin == ZERO else e.add(begin, loop.index, "nuw nsw")
        tree.index[axis] = place if first == ZERO else e.add(first, place, "nsw")
        put(parallel, place)


def _lanes_of(tree: Tree) -> tuple[int | None, int | None]:
    """How many elements the vectors have that go first, in a loop of their own, and all others; None: LLVM chooses."""
    if tree.e.module.masks or tree.is_rare or not tree.fast:
        return None, None
    nodes = [i for i, _ in tree.nodes()]
    if any(i.op.name in ("gather", "embed") for i in nodes):
        return None, None
    functions = [i for i in nodes if is_function(i)]
    return (_of_chains(nodes, functions), None) if functions else (None, _of_bytes(tree, nodes))


def _of_chains(nodes: Sequence[Instruction], functions: Sequence[Instruction]) -> int | None:
    """Two registers of what has elementary functions, all of one type."""
    if len(functions) > MOST or any(_dtype(i).kind not in "fb" for i in nodes):
        return None
    size, *others = {_dtype(i).itemsize for i in functions}
    waits = size == 4 and all(i.op.name in _BY_TABLE for i in functions)
    return 2 * REGISTER // size if size >= 4 and not others and not waits else None


def _of_bytes(tree: Tree, nodes: Sequence[Instruction]) -> int | None:
    """Two registers of the widest elements where all results are bytes, made in few steps."""
    if any(_dtype(root).itemsize != 1 for root in tree.roots) or any(_dtype(i).is_complex for i in nodes):
        return None
    widest = max(_dtype(i).itemsize for i in nodes)
    steps = sum(i.op.kind is Kind.ELEMENTWISE for i in nodes)
    return 2 * REGISTER // widest if widest >= 4 and steps <= FEW else None


def _dtype(v: Value) -> DType:
    assert isinstance(v.type, TensorType)
    return v.type.dtype
