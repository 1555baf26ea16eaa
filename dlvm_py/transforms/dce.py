"""Dead code elimination by mark and sweep, for values, block arguments, memory and tapes.

    'entry(%x: f64, %n: i64):                       'entry(%x: f64, %n: i64):
        %m = allocateHeap f64 count (%n: i64)           branch 'b(%x: f64)
        %e = exp %x: f64                            'b(%r: f64):
        %v = broadcast %e: f64 to (%n: i64)  =>         return %r: f64
        store %v: <_ x f64> to %m: *<_ x f64>
        branch 'b(%x: f64, %e: f64)
    'b(%r: f64, %unused: f64):
        return %r: f64

What is live, to a fixed point:

* terminators, checks, checked arithmetic, calls, retain and release, always; not what a branch passes on;
* the operands of live instructions, and what the branches pass to a live block argument;
* a store into memory that is live. Parameters, and whatever a pop or a call returns, are. An allocation is
  live when a live instruction has a pointer to it for another purpose than storing to it: a load, a call, a
  push, a return, a live block argument. So an array that is only filled disappears with what fills it;
* of a tape that is live because one of its pops is, or because it is passed on, every push, pop and destroy:
  each moves the ones after it. A tape whose pops are all dead disappears as a whole. A stack that is no
  `createStack` of this function is live.

Everything else is swept in one pass. A removed allocation could have raised MemoryError; nothing else
changes. Allocations count by the roots of the alias analysis, which sees through views and block arguments.
Any stage. A second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.ir import OPS, BlockArg, Function, Instruction, Kind, Value
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cfg import bound_blocks
from dlvm_py.ir.analysis.effects import may_trap, writes_memory, written_pointer
from dlvm_py.transforms.simplify_cfg import drop_arguments, incoming_values


def is_root(i: Instruction) -> bool:
    """Whether `i` has an effect of its own, whatever becomes of its result."""
    return i.op.is_terminator or _moves_stack(i) or may_trap(i) or writes_memory(i)


def run(function: Function, keep_arguments: bool = False, counts: Callable[[Instruction], bool] = is_root) -> bool:
    """Remove the dead code of `function`, its block arguments unless they are to be kept; whether anything changed.

    counts: which instructions are live whatever becomes of their results.
    """
    live = _mark(function, keep_arguments, counts)
    # the arguments of these blocks are what the cases of an enum hold
    bound = bound_blocks(function)
    dead_args = {a for block in function.blocks[1:] if block not in bound for a in block.args if a not in live}
    changed = bool(dead_args)
    drop_arguments(function, dead_args)
    for block in function.blocks:
        kept = [i for i in block.instructions if i in live]
        changed |= len(kept) < len(block.instructions)
        block.instructions = kept
    return changed


def _mark(function: Function, keep_arguments: bool, counts: Callable[[Instruction], bool]) -> set[Value]:
    owners = _owners(function)
    dependents: dict[Value, list[Instruction]] = {}
    for i, roots in owners.items():
        for root in roots:
            dependents.setdefault(root, []).append(i)
    incoming = incoming_values(function)
    live: set[Value] = set()
    pending: list[Value] = [i for i in function.instructions() if counts(i) and i not in owners]
    if keep_arguments:
        pending += incoming
    while pending:
        value = pending.pop()
        if value in live:
            continue
        live.add(value)
        pending.extend(dependents.get(value, ()))
        if isinstance(value, Instruction):
            pending.extend(value.operands)
        elif isinstance(value, BlockArg):
            pending.extend(incoming.get(value, ()))
    return live


def _owners(function: Function) -> dict[Instruction, frozenset[Value]]:
    """For each store, scatter and stack operation that touches nothing from outside: its allocations, its tapes."""
    touching = [i for i in function.instructions() if written_pointer(i) is not None or _moves_stack(i)]
    if not touching:
        return {}
    alias = AliasAnalysis(function)
    owners = {}
    for i in touching:
        roots = alias.roots(i.operands[1 if len(i.operands) > 1 else 0])
        if roots and all(map(_is_made_here, roots)):
            owners[i] = roots
    return owners


def _moves_stack(i: Instruction) -> bool:
    return i.op.kind is Kind.STACK and i.op is not OPS["createStack"]


def _is_made_here(root: Value) -> bool:
    return isinstance(root, Instruction) and root.op.name in ("allocateHeap", "allocateStack", "createStack")
