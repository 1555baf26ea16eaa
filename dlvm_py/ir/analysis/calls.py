"""Who calls whom, and which arguments a call writes."""

from __future__ import annotations

from dlvm_py.ir.analysis.alias import AliasAnalysis, is_opaque
from dlvm_py.ir.analysis.effects import written_pointer
from dlvm_py.ir.function import Function, Module
from dlvm_py.ir.op import IO, Kind
from dlvm_py.ir.types import PointerType, StackType, TupleType
from dlvm_py.ir.value import FunctionName, Instruction, Literal, Value


def calls(function: Function) -> list[Instruction]:
    """The calls in `function`, in layout order."""
    return [i for i in function.instructions() if i.op.kind is Kind.CALL]


def callees(function: Function) -> list[str]:
    """The names of the functions that `function` calls, each once."""
    return list(dict.fromkeys(i.attrs["callee"] for i in calls(function)))


def named(function: Function) -> list[str]:
    """The names of the functions that `function` names as values, each once."""
    literals = (v for i in function.instructions() for v in i.all_operands() if isinstance(v, Literal))
    return list(dict.fromkeys(str(v.value) for v in literals if isinstance(v.value, FunctionName)))


def reachable(module: Module, name: str) -> list[Function]:
    """The function `name`, then every one of the module that it can reach: by calls, as a value, as a rule of one."""
    found = {name: module.functions[name]}
    work = [module.functions[name]]
    while work:
        function = work.pop(0)
        for callee in (*callees(function), *named(function), *function.rules.values()):
            if callee not in found and callee in module.functions:
                found[callee] = module.functions[callee]
                work.append(found[callee])
    return list(found.values())


def seen_outside(module: Module, name: str) -> Instruction | None:
    """An instruction of `name`, or of what it reaches, that everybody sees happen each time (op.IO), or None."""
    return next((i for f in reachable(module, name) for i in f.instructions() if IO in i.op.effects), None)


def written_params(module: Module, name: str) -> set[int]:
    """Indices of the pointer parameters of function `name` that it writes, itself or through what it calls."""
    return written_by_all(module, name)[name]


def written_by_all(module: Module, name: str) -> dict[str, set[int]]:
    """`written_params` of `name` and of all that it reaches: the least solution, found by iteration.

    Parameters are taken to be apart: where they overlap the caller knows it, of the arguments that are written.
    """
    functions = [f for f in reachable(module, name) if f.blocks or f.name == name]
    if len(functions) == 1 and not callees(functions[0]):
        return {name: AliasAnalysis(functions[0]).written_params()}
    alias = {f.name: AliasAnalysis(f) for f in functions}
    written: dict[str, set[int]] = {f.name: set() for f in functions}
    changed = True
    while changed:
        changed = False
        for f in functions:
            new = {k for k, p in enumerate(f.params) if isinstance(p.type, PointerType)}
            new = {k for k in new if any(_writes(i, f.params[k], alias[f.name], written) for i in f.instructions())}
            if new != written[f.name]:
                written[f.name], changed = new, True
    return written


def _writes(i: Instruction, pointer: Value, alias: AliasAnalysis, written: dict[str, set[int]]) -> bool:
    if written_pointer(i) is not None:
        return alias.may_write(i, pointer)
    if i.op.kind is not Kind.CALL:
        return False
    known = written.get(i.attrs["callee"])
    if known is None or any(isinstance(o.type, StackType | TupleType) or is_opaque(o.type) for o in i.operands):
        return alias.may_write(i, pointer)
    return any(alias.may_alias(i.operands[k], pointer) for k in known)
