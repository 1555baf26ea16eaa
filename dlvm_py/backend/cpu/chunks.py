"""Which arrays are allocated in the chunks of a tape: those that are made to be pushed.

    %b = allocateHeap f64 count (%n); store … to %b; … push %b to %tape

An array that its own block pushes lives as long as its entry. Memory for such arrays is cut from a chunk of the stack,
one behind the other: no allocation, and no header, an array. The chunk is owned by its arrays and, until it is full, by
the stack. Not so for an array that can be seen from outside, whose memory is handed over as a whole.
"""

from __future__ import annotations

from dlvm_py.ir import Function, Instruction, Kind, PointerType, Value
from dlvm_py.ir.analysis import AliasAnalysis, uses

_OWN = frozenset(("push", "pop", "drain", "destroyStack"))
_ESCAPES = frozenset(("return", "raise", "tuple", "aggregate", "enumCase", "insert", "makeCell"))


def chunked(function: Function, alias: AliasAnalysis) -> dict[Value, Value]:
    """The stack in whose chunks each of these `allocateHeap` lies."""
    pushes = [i for i in function.instructions() if i.op.name == "push" and isinstance(i.operands[0].type, PointerType)]
    if not pushes:
        return {}
    escaped = _escaped(function, alias)
    users = uses(function)
    found: dict[Value, Value] = {}
    for push in pushes:
        array, stack = push.operands
        is_made_here = isinstance(array, Instruction) and array.op.name == "allocateHeap" and array.block is push.block
        if is_made_here and array not in escaped and array not in found and _is_kept(stack, users, escaped):
            found[array] = stack
    return found


def _is_kept(stack: Value, users: dict[Value, list[Instruction]], escaped: set[Value]) -> bool:
    """Whether the function has made a stack for itself, and nothing that it pops is seen from outside."""
    if not isinstance(stack, Instruction) or stack.op.name != "createStack":
        return False
    return all(u.op.name in _OWN and u not in escaped for u in users[stack])


def _escaped(function: Function, alias: AliasAnalysis) -> set[Value]:
    """The roots of what leaves the function, or goes to another one."""
    found: set[Value] = set()
    for i in function.instructions():
        if i.op.name in _ESCAPES or i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER):
            found = found.union(*map(alias.roots, i.operands))
        elif i.op.name == "store" and isinstance(i.operands[0].type, PointerType):
            found |= alias.roots(i.operands[0])
    return found
