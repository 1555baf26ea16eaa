"""Kept copies: arrays that a list keeps copies of are not written afterwards; the marks are removed.

A list of computed length holds copies of the arrays that are appended to it, where Python holds references
(frontend/lists.py). The front end marks each such array:

    keepCopy %u: *<_ x f64>          =>        (nothing)
    %row = load %u: *<_ x f64>                 %row = load %u: *<_ x f64>
    store %row ... to %place ...               store %row ... to %place ...

A write that may reach the array after its mark would have to be seen in the list: UnsupportedSyntax, at the write. A
path that comes through the allocation of the array again makes another array, so it ends there. Raw stage, after
inlining; a call that is left writes what its callee may write.
"""

from __future__ import annotations

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.ir import Block, Function, Instruction, Module, Value
from dlvm_py.ir.analysis import AliasAnalysis, written_pointer
from dlvm_py.ir.analysis.calls import written_by_all
from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import PointerType


def run(module: Module, name: str) -> bool:
    """Check and remove the marks of function `name` of `module`; whether there were any."""
    function = module.functions[name]
    marks = [i for i in function.instructions() if i.op.name == "keepCopy"]
    if not marks:
        return False
    alias = AliasAnalysis(function, noalias_params=False)
    written = written_by_all(module, name)
    writes = [i for i in function.instructions() if written_pointer(i) is not None or i.op.kind is Kind.CALL]
    for mark in marks:
        roots = alias.roots(mark.operands[0])
        fresh = roots & _own_result(mark.operands[0], module)
        roots = fresh or roots
        for root in sorted(roots, key=_order(function)):
            found = _written_after(mark, root, [w for w in writes if _reaches(w, root, alias, written, bool(fresh))])
            if found is not None:
                where = f" (line {mark.loc.line})" if mark.loc else ""
                raise UnsupportedSyntax(
                    f"this writes to an array that a list keeps{where}, which would have to see the change",
                    found.loc,
                    help="append a copy: x.append(a.copy())",
                )
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i.op.name != "keepCopy"]
    return True


def _own_result(pointer: Value, module: Module) -> set[Value]:
    """The result that a pointer refers to of a call, and this, if it is an array of its own: the function has rules."""
    while isinstance(pointer, Instruction) and pointer.op.kind is Kind.INDEX:
        pointer = pointer.operands[0]
    call = pointer
    if isinstance(call, Instruction) and call.op.name == "extract":
        call = call.operands[0]
    if not isinstance(call, Instruction) or call.op.name != "apply":
        return set()
    callee = module.functions.get(call.attrs["callee"])
    return {pointer, call} if callee is not None and callee.rules else set()


def _order(function: Function):  # type: ignore[no-untyped-def]
    places = {v: k for k, v in enumerate([*function.params, *function.instructions()])}
    return lambda value: places.get(value, -1)


def _reaches(write: Instruction, root: Value, alias: AliasAnalysis, written: dict[str, set[int]], fresh: bool) -> bool:
    """Whether a store, scatter or call may write the memory of a root, which may be an array of its own."""
    pointer = written_pointer(write)
    if pointer is not None:
        targets = [pointer]
    else:
        known = written.get(write.attrs.get("callee", ""), range(len(write.operands)))
        targets = [write.operands[k] for k in known]
    pointers = [t for t in targets if isinstance(t.type, PointerType)]
    return any(root in alias.roots(p) or (not fresh and alias.may_alias(p, root)) for p in pointers)


def _written_after(mark: Instruction, root: Value, writes: list[Instruction]) -> Instruction | None:
    """The first of `writes` that is reached from the mark without passing the definition of the root."""
    if not writes:
        return None
    wanted = set(writes)
    assert mark.block is not None
    pending: list[tuple[Block, int]] = [(mark.block, mark.block.instructions.index(mark) + 1)]
    seen: set[Block] = set()
    while pending:
        block, start = pending.pop()
        for i in block.instructions[start:]:
            if i is root:
                break
            if i in wanted:
                return i
        else:
            for successor in block.successors():
                if successor not in seen:
                    seen.add(successor)
                    pending.append((successor, 0))
    return None
