"""Packed rows: what the trips of an interleaved loop read of different rows of an array lies side by side in a copy.

    'each(%i, %total):                              %fits = (%count >= LEAST and %n * %w <= LARGEST)
        conditional (lessThan %i, %count) ..        %t = allocateHeap f64 count (%w or 0, %n or 0)
    ..                                              store (load (transpose (section %a ..))) to %t
    'loop(%j, %s): ..                          =>   'each(%i, %total): ..
    'in(%e, %d): ..                                 'in8(%e, %d0, .., %d7): ..
        %y = load (%a at %j, %e)                        %y0 = load (%t at %e, %j);  %y1 = load (%t at %e, %j + 1);  ..

interleave_loops.py runs the trips of a loop over rows side by side, and each takes an element of its own row: numbers
that are a row apart, one load each. In a transposed copy they are neighbours, and what the trips do with them is done
with vectors (by LLVM, which finds them). The copy is made before the loop around, as far out as nothing writes the
array (as a matrix product packs its panels), where that one has enough trips to pay for it; LARGEST elements
are at home in the caches. Otherwise the copy has no elements, and the loop over several trips is passed by.

The array is of rank 2 and lies in C's order; its row is the interleaved counter plus what the inner loop does not
change, its column moves with the inner one. This is no pass: interleave_loops.py asks for it.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir import OPS, Builder, Function, Instruction, PointerType, TensorType, Value, literal
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.counted_loops import CountedLoop, Edges, counted_loop, is_outside
from dlvm_py.ir.analysis.effects import writes_memory, written_pointer
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.analysis.places import linear
from dlvm_py.ir.function import Block
from dlvm_py.transforms.share_loops import mark_of

LEAST = 32  # trips of the loop around that pay for a copy
LARGEST = 1 << 16  # elements of what is copied


class Packed(Frozen):
    """Transposed copies. copies: by the pointer in the loop, the copy; fits: whether they were made, a bool."""

    copies: dict[Instruction, Value]
    fits: Value

    def pointer(self, b: Builder, to: Instruction, indices: list[Value]) -> Instruction:
        """Where the copy has the element that was at `indices` of the array."""
        return b.emit("elementPointer", self.copies[to], *reversed(indices), name=to.name)


def pack(
    function: Function, rows: CountedLoop, columns: CountedLoop, edges: Edges, steps: list[Instruction], noalias: bool
) -> Packed | None:
    """Copies of the arrays whose rows the trips of `rows` read in `steps`; None where there are none to make."""
    around = rows.loop.parent
    pointers = [i.operands[0] for i in steps if i.op.name == "load"]
    read = [p for p in dict.fromkeys(pointers) if isinstance(p, Instruction) and _is_down_a_column(p, rows, columns)]
    if around is None or not read:
        return None
    counted = counted_loop(around, edges)
    if counted is None or not is_outside(counted.last, around) or not is_outside(counted.first, around):
        return None
    alias = AliasAnalysis(function, noalias)
    arrays = dict.fromkeys(p.operands[0] for p in read if stays(p.operands[0], around, alias))
    if not arrays:
        return None
    bounds = (counted.first, counted.last)
    while (out := around.parent) is not None and all(is_outside(v, out) for v in bounds):
        if not all(stays(a, out, alias) for a in arrays):
            break
        around = out
    b = _in_front(function, around, edges)
    if b is None:
        return None
    low, high = counted.ends
    trips = b.emit("subtract", high, low)
    fits: Value = b.emit("greaterThanOrEqual", trips, literal(LEAST))
    extents = {a: extents_of(b, a) for a in arrays}
    for n, w in extents.values():
        fits = b.emit("and", fits, b.emit("lessThanOrEqual", b.emit("multiply", n, w), literal(LARGEST)))
    copies = {}
    for a, (n, w) in extents.items():
        # none where they do not fit
        counts = b.emit("select", n, literal(0), fits), b.emit("select", w, literal(0), fits)
        copies[a] = transposed(b, a, (literal(0), literal(0)), counts)
    return Packed({p: copies[p.operands[0]] for p in read if p.operands[0] in copies}, fits)


def _is_down_a_column(p: Instruction, rows: CountedLoop, columns: CountedLoop) -> bool:
    """Whether a pointer is at an element whose row is that of the trip and whose column the inner loop moves."""
    if p.op is not OPS["elementPointer"] or p.attrs.get("path"):
        return False
    type = p.operands[0].type
    if not isinstance(type, PointerType) or not isinstance(type.pointee, TensorType) or len(p.operands) != 3:
        return False
    if type.rank != 2 or type.layout != "C":
        return False
    row, column = (linear(v).terms for v in p.operands[1:])
    if row.get(rows.counter) != 1 or columns.counter in row:
        return False
    return columns.counter in column and rows.counter not in column


def stays(array: Value, loop: Loop, alias: AliasAnalysis) -> bool:
    """Whether an array is there before a loop, which does not write it."""
    if not is_outside(array, loop):
        return False
    written = [written_pointer(i) for b in loop.ordered for i in b.instructions if writes_memory(i)]
    return not any(to is None or alias.may_alias(to, array) for to in written)


def _in_front(function: Function, loop: Loop, edges: Edges) -> Builder | None:
    """Where to build what a loop finds made; None where it is entered from several places."""
    entering = [(p, k) for p, k in edges[loop.header] if p not in loop.blocks]
    if len(entering) != 1:
        return None
    ((before, k),) = entering
    end = before.instructions[-1]
    if len(before.targets) == 1:
        b = Builder(function).before(mark_of(before) or end)
    else:
        block, target = Block("pack"), before.targets[k]
        Builder(function, block).branch(target.block, list(target.args))
        target.block, target.args = block, []
        function.blocks.insert(function.blocks.index(loop.header), block)
        b = Builder(function).before(block.instructions[0])
    b.loc = end.loc
    return b


def transposed(b: Builder, array: Value, firsts: tuple[Value, Value], counts: tuple[Value, Value]) -> Value:
    """A transposed copy of a part of an array: so many of its rows and of its columns, from the first ones on."""
    one = literal(1)
    part = b.emit("section", array, *firsts, *counts, one, one)
    assert isinstance(array.type, PointerType)
    made = b.emit("allocateHeap", *reversed(counts), dtype=str(array.type.dtype))
    b.emit("store", b.emit("load", b.emit("transpose", part, axes=(1, 0))), made)
    return made
