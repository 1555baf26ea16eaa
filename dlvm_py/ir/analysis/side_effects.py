"""What a call of each function of a module can do besides giving its result, through all that it calls.

    reads, writes     memory that the caller can see: its arrays and stacks, and variables of the module. Memory that a
                      function allocates is its own; what it returns of it is its result
    traps             it may raise
    loops             it may not end: it has a loop, or is recursive

The least solution of the equations of the call graph, by iteration: everything starts as False and only becomes
True, so this ends, for mutual recursion too. A function value that is called may be any function, which does
anything; so does an extern function that is not of C's math library.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.calls import callees, reachable
from dlvm_py.ir.analysis.cfg import reverse_postorder
from dlvm_py.ir.analysis.effects import effects, may_trap, writes_memory
from dlvm_py.ir.externs import known
from dlvm_py.ir.function import Function, Module
from dlvm_py.ir.op import READ, WRITE, Kind
from dlvm_py.ir.types import BoxType, PointerType, StackType
from dlvm_py.ir.value import Instruction, Value

_MEMORY = (PointerType, StackType, BoxType)
_OWN = frozenset(("allocateHeap", "allocateStack", "createStack"))


class SideEffects(Frozen):
    """See the module docstring."""

    reads: bool = False
    writes: bool = False
    traps: bool = False
    loops: bool = False

    def __or__(self, other: SideEffects) -> SideEffects:
        """What either can do."""
        return SideEffects(
            self.reads or other.reads, self.writes or other.writes, self.traps or other.traps, self.loops or other.loops
        )

    @property
    def may_be_left_out(self) -> bool:
        """Whether a call whose result nobody uses does nothing."""
        return not (self.writes or self.traps or self.loops)


EVERYTHING = SideEffects(True, True, True, True)


def side_effects(module: Module) -> dict[str, SideEffects]:
    """The side effects of every function, by name."""
    found = {name: _own(f, module) for name, f in module.functions.items()}
    changed = True
    while changed:
        changed = False
        for name, function in module.functions.items():
            new = found[name]
            for callee in callees(function):
                new |= found.get(callee, EVERYTHING)
            if new != found[name]:
                found[name], changed = new, True
    return found


def _own(function: Function, module: Module) -> SideEffects:
    """What a function does itself, calls aside."""
    if not function.blocks:
        return SideEffects() if known(function) is not None else EVERYTHING
    if any(i.op.kind is Kind.HIGHER_ORDER for i in function.instructions()):
        return EVERYTHING
    own = [i for i in function.instructions() if i.op.kind is not Kind.CALL]
    outside = _Outside(function)
    recursive = any(function.name in callees(f) for f in reachable(module, function.name))
    return SideEffects(
        reads=any(READ in effects(i) and outside.touches(i) for i in own),
        writes=any((writes_memory(i) or _moves(i)) and outside.touches(i) for i in own),
        traps=any(map(may_trap, own)),
        loops=recursive or _has_cycle(function),
    )


class _Outside:
    """Tells what a function can see of its caller's from what it makes."""

    def __init__(self, function: Function) -> None:
        self._alias = AliasAnalysis(function)

    def touches(self, i: Instruction) -> bool:
        """Whether an instruction has its hands on memory that is not made here."""
        return any(self._is_outside(v) for v in (*i.operands, i) if isinstance(v.type, _MEMORY))

    def _is_outside(self, v: Value) -> bool:
        roots = self._alias.roots(v)
        return not roots or not all(isinstance(r, Instruction) and r.op.name in _OWN for r in roots)


def _has_cycle(function: Function) -> bool:
    number = {block: k for k, block in enumerate(reverse_postorder(function))}
    return any(number[s] <= n for block, n in number.items() for s in block.successors())


def _moves(i: Instruction) -> bool:
    """Whether it changes a stack."""
    return i.op.kind is Kind.STACK and WRITE in effects(i)
