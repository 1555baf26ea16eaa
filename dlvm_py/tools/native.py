"""Programs of the IR → kernels, or a function that can be called from here.

    module --lower_values, inline, clean up, bufferize, ownership--> stage scheduled --emit--> LLVM IR of a kernel

Kernels follow the native calling convention of docs/architecture.md.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

from dlvm_py.backend.cpu.compile import compile_module
from dlvm_py.backend.cpu.emit import EmitResult, emit
from dlvm_py.backend.imports import Imports
from dlvm_py.driver import CLEAN_UP, TO_COMPUTE, TO_SCHEDULED
from dlvm_py.ir import (
    VOID,
    BlockArg,
    DType,
    Function,
    Module,
    PointerType,
    TensorType,
    TupleType,
    Type,
    Variable,
    print_module,
)
from dlvm_py.ir.analysis.calls import callees, reachable, written_params
from dlvm_py.ir.externs import why_unknown
from dlvm_py.ir.interface import ArraySpec, ConstantSpec, ScalarSpec, Spec, TupleSpec
from dlvm_py.ir.layout import VARIABLES, leaves
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.types import CELL
from dlvm_py.options import Options
from dlvm_py.runtime import python_entry
from dlvm_py.runtime.native import standing
from dlvm_py.runtime.native.entry import compiled_entry, exported
from dlvm_py.runtime.structured import Arguments, assembled
from dlvm_py.runtime.version import CallSpec, Version
from dlvm_py.tools.common import Failure
from dlvm_py.transforms import drop_rules, extent_checks, lower_aggregates, lower_functions, lower_values, own_entry
from dlvm_py.transforms.pass_manager import run_pipeline


def scheduled(module: Module, names: Sequence[str]) -> Module:
    """A copy of `module` (stage raw or optimizable) with these functions, and what they call, at stage scheduled."""
    copy = parse_module(print_module(module, locations=True), module.name)
    if copy.stage == "scheduled":
        return copy
    if copy.stage == "compute":
        passes: tuple[str, ...] = TO_SCHEDULED
    else:
        passes = ("inline", *CLEAN_UP, *TO_COMPUTE, *TO_SCHEDULED)
        for name in names:
            drop_rules.run(copy, name)
        # only these: what they do not reach may be beyond the back end
        kept = {f.name for name in names for f in reachable(copy, name)}
        copy.functions = {n: f for n, f in copy.functions.items() if n in kept}
        for f in copy.functions.values():
            if f.blocks:
                own_entry.run(f)
        lower_values.run(copy)
        for f in copy.functions.values():
            if f.blocks:
                extent_checks.run(f)
        lower_aggregates.make_entries(copy, names)
        for name in names:
            lower_functions.check(copy, name)
    pending, stage = list(names), copy.stage
    done: set[str] = set()
    while pending:
        name = pending.pop(0)
        function = copy.functions[name]
        if name in done or not function.blocks:
            continue
        done.add(name)
        apart = not any(name in callees(f) for f in copy.functions.values())
        run_pipeline(function, passes, module=copy, stage=stage, noalias_params=apart)
        pending += callees(function)
    copy.stage = "scheduled"
    return copy


def kernel(lowered: Module, name: str, imports: Imports, shares: bool = False) -> EmitResult:
    """The LLVM IR text of a function at stage scheduled, with the kernels that it calls. shares: as of `emit`."""
    for f in reachable(lowered, name):
        for callee in callees(f):
            if not lowered.functions[callee].blocks:
                raise Failure(f"@{f.name} cannot be compiled: {why_unknown(lowered.functions[callee])}")
    return emit(lowered.functions[name], imports, Options(), program=lowered, shares=shares)


def own_params(function: Function) -> list[BlockArg]:
    """The parameters of a kernel that are the program's: behind them are variables, which the back end binds."""
    return function.params[: len(function.params) - len(function.meta.get(VARIABLES, ()))]  # type: ignore[arg-type]


def callable_of(module: Module, name: str) -> Any:
    """A Python callable that runs function `name` natively.

    Arrays are ndarrays; structs, tuples, enums and other memory are what runtime/structured.py says. The variables of
    the module live as long as the callable, and so does what they refer to.
    """
    original = module.functions[name].type
    imports = Imports()
    lowered = scheduled(module, [name])
    function, written = lowered.functions[name], written_params(lowered, name)
    made = kernel(lowered, name, imports, shares=True)
    types = [p.type for p in own_params(function)]
    call = CallSpec(
        args=tuple(map(_spec, types)),
        param_names=tuple(f"p{k}" for k in range(len(types))),
        result=_spec(function.result),
        written=tuple(sorted(k for k in written if k < len(types))),
    )
    done = compile_module([exported(made.module_text, made.symbol)], imports, (made.symbol,))
    standing.provide(made.helpers)
    version = Version.load(call, compiled_entry(call), done.object, imports.names, tuple(made.sites), name, done.shared)

    names = {leaf.rpartition(".")[0] for leaf in function.meta.get(VARIABLES, ())}  # type: ignore[attr-defined]
    kept: list[Any] | None = [] if any(holds_references(module.variables[n]) for n in names) else None

    def receive(given: Arguments, result: Any) -> Any:
        given.write_back()
        if original.result == VOID:
            return None
        leaves_ = (result or ()) if isinstance(function.result, TupleType) else (result,)
        return assembled(iter(leaves_), original.result)

    def run(*args: Any) -> Any:
        given = Arguments()
        pairs = enumerate(zip(args, original.params, strict=True))
        values = [leaf for k, (a, t) in pairs for leaf in given.leaves(a, t, f"argument {k}")]
        return python_entry.run(version, values, receive=functools.partial(receive, given), kept=kept)

    if kept is not None:
        weakref.finalize(run, python_entry.free, version, kept)
    return run


def holds_references(variable: Variable) -> bool:
    """Whether memory of a variable refers to cells, which then must outlive the call that made them."""
    return any(p.dtype is CELL for p in leaves(variable.type))  # type: ignore[attr-defined]


def _spec(t: Type) -> Spec:
    if t == VOID:
        return ConstantSpec(None)
    if isinstance(t, TupleType):
        return TupleSpec(tuple(map(_spec, t.elements)))
    if isinstance(t, PointerType):
        return ArraySpec(_dtype(t.dtype), tuple(n == 1 for n in t.shape), t.layout)
    assert isinstance(t, TensorType)
    return ScalarSpec(_dtype(t.dtype), weak=False)


def _dtype(dtype: DType) -> str:
    """The dtype that the runtime knows: a cell is an address."""
    return "u64" if dtype is CELL else dtype.name
