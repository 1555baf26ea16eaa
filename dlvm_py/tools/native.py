"""Programs of the IR → kernels, or a function that can be called from here.

    module --lower_values, inline, clean up, bufferize, ownership--> stage scheduled --emit--> LLVM IR of a kernel

Kernels follow the native calling convention of docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.backend.cpu.compile import compile_module
from dlvm_py.backend.cpu.emit import EmitResult, emit
from dlvm_py.backend.imports import Imports
from dlvm_py.driver import CLEAN_UP, TO_COMPUTE, TO_SCHEDULED
from dlvm_py.ir import VOID, Function, Module, PointerType, TensorType, TupleType, Type, print_module
from dlvm_py.ir.analysis.calls import callees, reachable, written_params
from dlvm_py.ir.externs import why_unknown
from dlvm_py.ir.interface import ArraySpec, ConstantSpec, ScalarSpec, Spec, TupleSpec
from dlvm_py.ir.parser import parse_module
from dlvm_py.options import Options
from dlvm_py.runtime import python_entry
from dlvm_py.runtime.native.entry import entry_text
from dlvm_py.runtime.version import CallSpec, Version
from dlvm_py.tools.common import Failure
from dlvm_py.transforms import lower_functions, lower_values, own_entry
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
        # only these: what they do not reach may be beyond the back end
        kept = {f.name for name in names for f in reachable(copy, name)}
        copy.functions = {n: f for n, f in copy.functions.items() if n in kept}
        for f in copy.functions.values():
            if f.blocks:
                own_entry.run(f)
        lower_values.run(copy)
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


def kernel(module: Module, name: str, imports: Imports) -> tuple[Function, EmitResult, set[int]]:
    """The lowered function, its LLVM IR text, and the indices of the arrays that it writes."""
    lowered = scheduled(module, [name])
    for f in reachable(lowered, name):
        for callee in callees(f):
            if not lowered.functions[callee].blocks:
                raise Failure(f"@{f.name} cannot be compiled: {why_unknown(lowered.functions[callee])}")
    function = lowered.functions[name]
    return function, emit(function, imports, Options(), program=lowered), written_params(lowered, name)


def callable_of(module: Module, name: str) -> Any:
    """A Python callable that runs function `name` natively; arrays are ndarrays."""
    original = module.functions[name].type
    imports = Imports()
    function, made, written = kernel(module, name, imports)
    types = [p.type for p in function.params]
    call = CallSpec(
        args=tuple(map(_spec, types)),
        param_names=tuple(f"p{k}" for k in range(len(types))),
        result=_spec(function.result),
        written=tuple(sorted(written)),
    )
    done = compile_module([made.module_text, entry_text(made.symbol, call, imports)], imports)
    version = Version.load(call, done.object, imports.names, tuple(made.sites), name)

    def run(*args: Any) -> Any:
        found = python_entry.run(version, args)
        if isinstance(original.result, TupleType) and original.result.elements:
            return tuple(map(_shaped, found, original.result.elements))
        return _shaped(found, original.result)

    return run


def _shaped(value: Any, t: Type) -> Any:
    """A result in the dtype of its type: the runtime gives Python's own numbers where it can."""
    return np.asarray(value, t.dtype.numpy)[()] if isinstance(t, TensorType) else value


def _spec(t: Type) -> Spec:
    if t == VOID:
        return ConstantSpec(None)
    if isinstance(t, TupleType):
        return TupleSpec(tuple(map(_spec, t.elements)))
    if isinstance(t, PointerType):
        return ArraySpec(t.dtype.name, tuple(n == 1 for n in t.shape), t.layout)
    assert isinstance(t, TensorType)
    return ScalarSpec(t.dtype.name, weak=False)
