"""Kept copies: arrays that something keeps a copy of, instead of a reference, are not written afterwards; the marks go.

A list of computed length holds copies of the arrays that are appended to it, where Python holds references
(frontend/lists.py); what np.broadcast_to gives is a view, what x.reshape gives may be one, and here it is an array of
its own. The front end marks both:

    keepCopy %u: *<_ x f64>                              =>    (nothing)
    %row = load %u: *<_ x f64>                                 %row = load %u: *<_ x f64>
    store %row ... to %place ...                               store %row ... to %place ...
    keepView %u: *<_ x f64> in %b: *<_ x _ x f64>              (nothing)

A write that may reach the array after its mark would have to be seen in the list, and in the view if that is used
behind the write: UnsupportedSyntax, at the write. A path that comes through the allocation of the array again makes
another array, so it ends there. Raw stage, after inlining; a call that is left writes what its callee may write.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.ir import Block, Function, Instruction, Module, Value
from dlvm_py.ir.analysis import AliasAnalysis, written_pointer
from dlvm_py.ir.analysis.calls import written_by_all
from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import PointerType

_MARKS = ("keepCopy", "keepView")


def run(module: Module, name: str, noalias_params: bool = False) -> bool:
    """Check and remove the marks of function `name` of `module`; whether there were any.

    noalias_params: array parameters do not overlap; lists are strict all the same.
    """
    function = module.functions[name]
    marks = [i for i in function.instructions() if i.op.name in _MARKS]
    if not marks:
        return False
    written = written_by_all(module, name)
    writes = [i for i in function.instructions() if written_pointer(i) is not None or i.op.kind is Kind.CALL]
    kinds = {mark.op.name for mark in marks}
    aliases = {kind: AliasAnalysis(function, noalias_params and kind == "keepView") for kind in kinds}
    for mark in marks:
        alias = aliases[mark.op.name]
        roots = alias.roots(mark.operands[0])
        fresh = roots & _own_result(mark.operands[0], module)
        roots = fresh or roots
        for root in sorted(roots, key=_order(function)):
            reaching = {w for w in writes if _reaches(w, root, alias, written, bool(fresh))}
            if mark.op.name == "keepCopy":
                _check_list(mark, root, reaching)
            else:
                _check_view(function, mark, root, reaching, alias, _shown(mark, marks, alias))
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i.op.name not in _MARKS]
    return True


def _check_list(mark: Instruction, root: Value, writes: set[Instruction]) -> None:
    for found in _reached(mark, writes, {root}):
        where = f" (line {mark.loc.line})" if mark.loc else ""
        raise UnsupportedSyntax(
            f"this writes to an array that a list keeps{where}, which would have to see the change",
            found.loc,
            help="append a copy: x.append(a.copy())",
        )


def _shown(mark: Instruction, marks: list[Instruction], alias: AliasAnalysis) -> frozenset[Value]:
    """The memory that stands for a view, and for views of that."""
    made, size = alias.roots(mark.operands[1]), 0
    while len(made) > size:
        size = len(made)
        for other in marks:
            if other.op.name == "keepView" and not made.isdisjoint(alias.roots(other.operands[0])):
                made |= alias.roots(other.operands[1])
    return made


def _check_view(
    function: Function,
    mark: Instruction,
    root: Value,
    writes: set[Instruction],
    alias: AliasAnalysis,
    made: frozenset[Value],
) -> None:
    uses = {i for i in function.instructions() if i.op.name not in (*_MARKS, "release") and _looks(i, made, alias)}
    own = alias.roots(mark.operands[1])
    for found in _reached(mark, writes, {root, *own}):
        if found in uses or any(True for _ in _reached(found, uses, set(own))):
            where = f" (line {mark.loc.line})" if mark.loc else ""
            raise UnsupportedSyntax(
                f"this writes to an array of which NumPy may have a view{where}: here it is a copy and used afterwards",
                found.loc,
                help="make it a copy for NumPy too: b = np.broadcast_to(a, shape).copy(), or a.reshape(shape).copy()",
            )


def _looks(i: Instruction, roots: frozenset[Value], alias: AliasAnalysis) -> bool:
    """Whether an instruction may look at memory, or hand it on."""
    if i.op.kind is Kind.INDEX:
        return False
    values = [*i.operands, *(v for t in i.targets for v in t.args)]
    return any(isinstance(v.type, PointerType) and not roots.isdisjoint(alias.roots(v)) for v in values)


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


def _reached(start: Instruction, wanted: set[Instruction], ends: set[Value]) -> Iterator[Instruction]:
    """Those of `wanted` that are reached from behind an instruction without passing one of `ends`."""
    if not wanted:
        return
    assert start.block is not None
    pending: list[tuple[Block, int]] = [(start.block, start.block.instructions.index(start) + 1)]
    seen: set[Block] = set()
    while pending:
        block, first = pending.pop()
        for i in block.instructions[first:]:
            if i in ends:
                break
            if i in wanted:
                yield i
        else:
            for successor in block.successors():
                if successor not in seen:
                    seen.add(successor)
                    pending.append((successor, 0))
