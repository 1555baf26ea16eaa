"""Which allocations a pointer can refer to, through views, block arguments and stacks.

The roots of a pointer are parameters, `allocateHeap` instructions and calls; a value popped from a stack has
the roots of everything that is pushed to it. Parameters are taken to be apart, but for those that are said to share
memory (`shared`) and those of a function that is called by others (`overlapping`: all): of one dtype, they are one
root.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dlvm_py.ir import Function, Instruction, Kind, PointerType, StackType, Value
from dlvm_py.ir.analysis import predecessors, written_pointer

_NONE: frozenset[Value] = frozenset()


class PointsTo:
    """Roots of every pointer of a function; `written` are the roots that a store or a call may write.

    written: which parameters each callee writes (of one that is not there: all).
    """

    def __init__(
        self,
        function: Function,
        written: Mapping[str, set[int]] | None = None,
        overlapping: bool = False,
        shared: Collection[Value] = (),
    ) -> None:
        arrays = [p for p in function.params if carries_pointers(p)]
        together = arrays if overlapping else [p for p in arrays if p in shared]
        self._roots: dict[Value, frozenset[Value]] = {
            p: frozenset(q for q in together if _dtype(q) is _dtype(p)) if p in together else frozenset((p,))
            for p in arrays
        }
        self._results: dict[tuple[Value, object], Value] = {}
        self._edges = predecessors(function)
        changed = True
        while changed:
            changed = False
            for block in function.blocks:
                for k, arg in enumerate(block.args):
                    if isinstance(arg.type, PointerType) and arg not in function.params:
                        flows = [self.roots(p.targets[t].args[k]) for p, t in self._edges[block]]
                        changed |= self._update(arg, flows)
                for i in block.instructions:
                    changed |= self._visit(i)
        self.written: frozenset[Value] = _NONE
        for i in function.instructions():
            written_here = written_pointer(i)
            if written_here is not None:
                self.written |= self.roots(written_here)
            elif i.op.kind is Kind.CALL:
                known = (written or {}).get(i.attrs["callee"], range(len(i.operands)))
                self.written = self.written.union(*(self.roots(i.operands[k]) for k in known))
                self.written = self.written.union(*(self.roots(o) for o in i.operands if isinstance(o.type, StackType)))
        if overlapping:
            # the caller may write them before the reverse sweep runs
            self.written = self.written.union(arrays)

    def roots(self, pointer: Value) -> frozenset[Value]:
        """What `pointer` can refer to; empty for NULL, UNDEFINED and what is no pointer."""
        return self._roots.get(pointer, _NONE)

    def _update(self, value: Value, flows: list[frozenset[Value]]) -> bool:
        old = self.roots(value)
        self._roots[value] = old.union(*flows)
        return self._roots[value] != old

    def _visit(self, i: Instruction) -> bool:
        if i.op.name == "push":
            value, stack = i.operands
            return self._update(stack, [self.roots(value)])
        if i.op.kind is Kind.CALL and any(isinstance(o.type, StackType) and carries_pointers(o) for o in i.operands):
            return self._visit_stacks(i) | self._visit_pointer(i)
        return self._visit_pointer(i)

    def _visit_stacks(self, call: Instruction) -> bool:
        """What a call may push: itself a root, what is handed over, what lies on another stack, its results."""
        changed = False
        for stack in call.operands:
            if isinstance(stack.type, StackType) and carries_pointers(stack):
                alike = [o for o in call.operands if carries_pointers(o) and _dtype(o) is _dtype(stack)]
                given = self._results.get((call, _dtype(stack)), stack)
                changed |= self._update(stack, [frozenset((stack, given)), *map(self.roots, alike)])
        return changed

    def _visit_pointer(self, i: Instruction) -> bool:
        if not isinstance(i.type, PointerType):
            return False
        if i.op.name == "allocateHeap":
            return self._update(i, [frozenset((i,))])
        call = called(i)
        if call is not None:
            # fresh memory, which results of one call may share, or views of what the callee was given
            root = self._results.setdefault((call, _dtype(i)), i)
            handed = [o for o in call.operands if carries_pointers(o) and _dtype(o) is _dtype(i)]
            return self._update(i, [frozenset((root,)), *map(self.roots, handed)])
        # views have their base first; a pop has the stack, which collects the roots of what is pushed
        return self._update(i, [self.roots(i.operands[0])])


def called(value: Value) -> Instruction | None:
    """The call that a value is the result of, or an element of its result."""
    if isinstance(value, Instruction) and value.op.name == "extract":
        value = value.operands[0]
    return value if isinstance(value, Instruction) and value.op.kind is Kind.CALL else None


def _dtype(pointer: Value) -> object:
    t = pointer.type.element if isinstance(pointer.type, StackType) else pointer.type
    assert isinstance(t, PointerType)
    return t.dtype


def is_view_of_windows(i: Instruction) -> bool:
    """Whether an instruction makes a view in which an element of memory stands at several places."""
    return i.op.name == "windows" and isinstance(i.type, PointerType)


def carries_pointers(value: Value) -> bool:
    """Whether `value` is a pointer or a stack of pointers."""
    t = value.type
    return isinstance(t, PointerType) or (isinstance(t, StackType) and isinstance(t.element, PointerType))
