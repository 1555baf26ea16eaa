"""Functions of a program, or of a Python file, → the exports that `backend/aot` makes libraries and PTX of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm_py.backend.aot.abi import Export, Parameter, identifier
from dlvm_py.backend.aot.library import shared_names
from dlvm_py.backend.aot.ptx import refuse_imports
from dlvm_py.backend.aot.wrapper import is_plain_text
from dlvm_py.backend.cpu.emit import EmitResult, emit
from dlvm_py.backend.imports import Imports
from dlvm_py.backend.site import Site
from dlvm_py.errors import TypeMismatch
from dlvm_py.ir import VOID, AdjointRequest, Function, FunctionType, Module, PointerType, TensorType, TupleType, Type
from dlvm_py.ir.analysis.calls import written_params
from dlvm_py.ir.interface import ArraySpec, leaves
from dlvm_py.ir.layout import VARIABLES
from dlvm_py.tools.common import Failure
from dlvm_py.tools.native import holds_references, kernel, own_params, scheduled
from dlvm_py.tools.python_file import Typed, program_of
from dlvm_py.transforms import differentiate_module

# constants are written out as text on the way to LLVM
MAX_CONSTANT_BYTES = 1 << 24


class Exporter:
    """Collects the functions of one library (or of one PTX text), whose C names begin with `prefix`_."""

    def __init__(self, prefix: str, for_gpu: bool = False) -> None:
        self.prefix = prefix
        self.for_gpu = for_gpu
        self.imports = Imports()
        self.exports: list[Export] = []
        self._taken = shared_names(prefix)

    def _add(
        self,
        name: str,
        title: str,
        function: Function,
        write: Callable[[Imports], EmitResult],
        parameters: Sequence[Parameter],
    ) -> None:
        imports = Imports() if self.for_gpu else self.imports
        made = write(imports)
        for i in function.instructions():
            if i.op.name in ("draw", "seedGenerator"):
                advice = "pass arrays of random numbers; in programs of the IR there is `random`"
                raise TypeMismatch("a library has no generators of NumPy", i.loc, help=advice)
        for site in made.sites:
            _refuse_text(site)
        if self.for_gpu:
            refuse_imports(function, imports)
        c_name = identifier(f"{self.prefix}_{name}", self._taken)
        results = _leaves(function.result)
        self.exports.append(Export(c_name, title, made.module_text, made.symbol, made.sites, parameters, results))

    def add_function(self, module: Module, name: str) -> None:
        """A function of a program of the IR, whose derivatives are written."""
        type = module.functions[name].type
        _refuse_types(module.functions[name], type)
        lowered = scheduled(module, [name])
        function = lowered.functions[name]
        self._refuse_variables(module, function)
        written = written_params(lowered, name)
        apart = written | _copied(module, name)
        parameters = []
        for k, p in enumerate(own_params(function)):
            assert isinstance(p.type, TensorType | PointerType)
            extents = p.type.shape if isinstance(p.type, PointerType) else ()
            parameters.append(Parameter(p.name or f"argument_{k}", p.type, extents, k in written, k in apart))
        self._add(name, f"@{name}: {type}", function, lambda imports: kernel(lowered, name, imports), parameters)

    def _refuse_variables(self, module: Module, function: Function) -> None:
        """TypeMismatch for variables whose memory would refer to what a call frees when it is over; all, on a GPU."""
        names = {leaf.rpartition(".")[0] for leaf in function.meta.get(VARIABLES, ())}  # type: ignore[attr-defined]
        for name in sorted(names):
            t = module.variables[name].type.pointee  # type: ignore[attr-defined]
            if self.for_gpu:
                what, advice = "a GPU thread does not have", "pass its memory as an argument"
            elif holds_references(module.variables[name]):
                what = "refers to memory of a call"
                advice = "variables of a library hold numbers, and structs and arrays of numbers"
            else:
                continue
            reason = f"@{function.name} uses the variable @{name} of type {t}, which {what}"
            raise TypeMismatch(reason, function.loc, help=advice)

    def add_python(self, typed: Typed) -> None:
        """A compiled function of a Python file."""
        program, options, captured = program_of(typed, "scheduled")
        written = written_params(program.module, program.name)
        unshared = written.union(program.unshared)
        extents = [e for g in typed.given for e in g.extents] + [a.shape for a in captured]
        constants = [*typed.constants, *captured]
        specs = [leaf for g in typed.given for leaf in leaves(g.spec)] + list(program.captured)
        parameters = []
        for k, (p, spec) in enumerate(zip(program.function.params, specs, strict=True)):
            assert isinstance(p.type, TensorType | PointerType)
            constant = constants[k]
            if constant is not None and isinstance(spec, ArraySpec):
                constant = _constant(typed, p.name, constant, k in written)
            elif constant is not None:
                constant = np.asarray(constant, p.type.dtype.numpy)[()]
            parameters.append(Parameter(p.name, p.type, extents[k], k in written, k in unshared, constant))
        shown = ", ".join(f"{p.name}: {p.shown()}" for p in parameters if p.constant is None)
        results = [str(t.pointee if isinstance(t, PointerType) else t) for t in _leaves(program.function.result)]
        gives = results[0] if len(results) == 1 else f"({', '.join(results)})"
        self._add(
            typed.name,
            f"{typed.name}({shown}) -> {gives}",
            program.function,
            lambda imports: emit(program.function, imports, options, program=program.module),
            parameters,
        )


def _copied(module: Module, name: str) -> set[int]:
    """The arrays that a derivative copies at entry, because its primal writes them: they may not overlap either."""
    request = module.functions[name].meta.get(differentiate_module.REQUEST)
    if not isinstance(request, AdjointRequest):
        return set()
    return written_params(module, request.primal) | _copied(module, request.primal)


def _refuse_text(site: Site) -> None:
    """TypeMismatch for a text that only Python can make."""
    if site.stream:
        advice = "return the values, or write them to an array, and print them in C"
        raise TypeMismatch("there is no Python to print in a library", site.loc, help=advice)
    if not is_plain_text(site):
        advice = "show ints, floats and bools by {}: at most four of them, without a format"
        raise TypeMismatch("the text of this error needs Python, which a library does not have", site.loc, help=advice)


def _constant(typed: Typed, name: str, array: Any, is_written: bool) -> Any:
    if is_written:
        raise Failure(
            f"{typed.name} writes the array '{name}', which is no argument of it: a library has no such array\n"
            f"  help: make '{name}' a parameter"
        )
    if array.nbytes > MAX_CONSTANT_BYTES:
        raise Failure(
            f"{typed.name} reads the array '{name}' of {array.nbytes} bytes, and would hold a copy of it\n"
            f"  help: make '{name}' a parameter (up to {MAX_CONSTANT_BYTES} bytes become part of the library)"
        )
    return array


def _refuse_types(function: Function, type: FunctionType) -> None:
    """TypeMismatch for what C cannot give or get."""
    for k, t in enumerate(type.params):
        if not _is_leaf(t):
            raise TypeMismatch(
                f"the parameter {k} of @{function.name} has the type {t}, which has no C form", function.loc,
                help="parameters are scalars, arrays, and pointers to arrays",
            )  # fmt: skip
    for t in type.result.elements if isinstance(type.result, TupleType) else (type.result,):
        if t != VOID and not _is_leaf(t):
            raise TypeMismatch(
                f"@{function.name} returns the type {t}, which has no C form", function.loc,
                help="results are scalars and arrays, or one tuple of these",
            )  # fmt: skip


def _is_leaf(t: Type) -> bool:
    return isinstance(t, TensorType) or (isinstance(t, PointerType) and isinstance(t.pointee, TensorType))


def _leaves(result: Type) -> list[TensorType | PointerType]:
    found = result.elements if isinstance(result, TupleType) else () if result == VOID else (result,)
    assert all(isinstance(t, TensorType | PointerType) for t in found)
    return list(found)  # type: ignore[arg-type]
