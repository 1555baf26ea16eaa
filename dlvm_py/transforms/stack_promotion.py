"""Stack promotion: small memory that does not outlive its call lies in the frame of the function.

    %m = allocateHeap f64 count (2: i64, 2: i64)        %m = allocateStack <2 x 2 x f64> count 1
    store %x: <2 x 2 x f64> to %m: *<2 x 2 x f64>  =>   store %x: <2 x 2 x f64> to %m: *<2 x 2 x f64>
    %e = elementPointer %m: *<2 x 2 x f64> at %k        %e = elementPointer %m: *<2 x 2 x f64> at %k
    %y = load %e: *f64                                  %y = load %e: *f64
    return %y: f64                                      return %y: f64

An allocation is promoted if

* its size is known, at most SMALL bytes, and FRAME bytes for all of a function together;
* it runs at most once a call: its block is on no cycle of the graph;
* no pointer to it escapes: none is returned, pushed to a stack, put in a tuple, or handed to a call. Views and
  arguments of blocks are followed.

Not in a function that calls: what calls itself has one frame for each level, and the machine stack is small.
A promoted allocation is owned by nobody, like a parameter; it cannot fail, and is neither counted nor freed. Stages
raw, optimizable and compute; the pipeline runs it on stage compute, where buffers are allocations too.
"""

from __future__ import annotations

import math

from dlvm_py.ir import DTYPES, OPS, Block, Function, Instruction, Kind, PointerType, TensorType, Value
from dlvm_py.ir.analysis import AliasAnalysis, reverse_postorder

SMALL, FRAME = 2048, 8192  # bytes
_ESCAPES = frozenset(("return", "raise", "push", "tuple", "aggregate", "enumCase", "insert", "makeCell"))


def run(function: Function) -> bool:
    """Promote the allocations of `function`; whether there were any to promote."""
    found = [i for i in function.instructions() if i.op is OPS["allocateHeap"] and 0 < _size(i) <= SMALL]
    if not found or any(i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER) for i in function.instructions()):
        return False
    cyclic = _blocks_on_cycles(function)
    escaped = _escaped(function)
    room, changed = FRAME, False
    for i in found:
        if i.block in cyclic or i in escaped or _size(i) > room:
            continue
        room -= _size(i)
        assert isinstance(i.type, PointerType)
        i.op, i.operands, i.attrs = OPS["allocateStack"], [], {"type": i.type.pointee, "count": 1}
        changed = True
    return changed


def _size(i: Instruction) -> int:
    """The bytes of an allocation, 0 where they are not known or there are none."""
    t = i.type
    if not isinstance(t, PointerType) or not isinstance(t.pointee, TensorType) or t.dtype.name not in DTYPES:
        return 0
    return 0 if None in t.shape else math.prod(n or 0 for n in t.shape) * t.dtype.itemsize


def _escaped(function: Function) -> set[Value]:
    """The allocations that something may refer to when the call has ended."""
    alias = AliasAnalysis(function)
    out: set[Value] = set()
    for i in function.instructions():
        if i.op.name in _ESCAPES or i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER):
            out |= {root for v in i.operands for root in alias.roots(v)}
        elif i.op is OPS["store"] and isinstance(i.operands[0].type, PointerType):
            out |= alias.roots(i.operands[0])
    return out


def _blocks_on_cycles(function: Function) -> set[Block]:
    """The blocks that can run more than once."""
    order = reverse_postorder(function)
    ahead: dict[Block, set[Block]] = {b: set() for b in order}  # what can be reached by one edge or more
    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            new = set().union(*({s} | ahead[s] for s in block.successors()))
            if new != ahead[block]:
                ahead[block], changed = new, True
    return {b for b in order if b in ahead[b]}
