"""A Python file as the input of a tool: its compiled functions, and their programs for given argument types."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from dlvm_py.api import jit
from dlvm_py.dispatch import dispatcher_of, is_compiled, text_name
from dlvm_py.driver import lower_to, source_text
from dlvm_py.ir.interface import ConstantSpec, leaves
from dlvm_py.options import Options
from dlvm_py.program import Program
from dlvm_py.runtime.signature import spec_of
from dlvm_py.tools.common import Failure
from dlvm_py.tools.signature import Given, annotated, read_signature


@dataclass(frozen=True, slots=True)
class Typed:
    """A compiled function, by its name in the file, with the types of its arguments.

    constants: a leaf, the value that the library holds itself (the default of a parameter that is not given), or None.
    """

    name: str
    function: Any
    given: tuple[Given, ...]
    constants: tuple[Any, ...]


def load_file(path: str) -> ModuleType:
    """The module that a Python file is. Failure, with its traceback, if that raises."""
    file = Path(path)
    if not file.is_file():
        raise Failure(f"invalid input path: {path}")
    name = file.stem if file.stem not in sys.modules else f"dlc_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        del sys.modules[name]
        assert e.__traceback__ is not None
        # from the file on: what lies before is how it was loaded
        frames = [f for f in traceback.extract_tb(e.__traceback__) if "importlib" not in f.filename][1:]
        lines = "".join(traceback.format_list(frames) + traceback.format_exception_only(e)).rstrip()
        raise Failure(f"{path} cannot be loaded:\n{lines}") from None
    finally:
        sys.path.remove(str(file.resolve().parent))
    return module


def compiled_names(module: ModuleType) -> list[str]:
    """The names of the compiled functions and derivatives that the file makes; of one with two names, the first."""
    found: dict[int, str] = {}
    for name, value in vars(module).items():
        if is_compiled(value) and dispatcher_of(value).recipe.primal.__module__ == module.__name__:
            found.setdefault(id(value), name)
    return list(found.values())


def function_of(module: ModuleType, name: str) -> Any:
    """The compiled function of that name; a plain Python function is compiled as dlvm.jit does."""
    found = vars(module).get(name)
    if is_compiled(found):
        return found
    if isinstance(found, FunctionType):
        return jit(found)
    there = ", ".join(compiled_names(module)) or "none"
    raise Failure(f"there is no function {name}; compiled functions of the file are: {there}")


def typed_functions(module: ModuleType, words: list[str]) -> list[Typed]:
    """The functions that the words ask for, `f` or `f(TYPES)`; without words, all compiled ones of the file."""
    if not words:
        words = compiled_names(module)
        if not words:
            raise Failure("the file makes no compiled function at its top level: decorate one with @dlvm.jit")
    return [_typed(module, word) for word in words]


def _typed(module: ModuleType, word: str) -> Typed:
    name, items = read_signature(word)
    function = function_of(module, name)
    parameters = list(dispatcher_of(function).signature.parameters.values())
    if items is None:
        scope = dispatcher_of(function).recipe.primal.__globals__
        given = [annotated(p, name, scope) for p in parameters if p.annotation is not p.empty or p.default is p.empty]
        left = [p for p in parameters if p.annotation is p.empty and p.default is not p.empty]
    else:
        given, left = items, parameters[len(items) :]
        missing = [p.name for p in left if p.default is p.empty]
        if len(given) > len(parameters) or missing:
            takes = ", ".join(p.name for p in parameters)
            raise Failure(f"{name} takes {len(parameters)} arguments ({takes}), and '{word}' gives {len(given)} types")
    constants: list[Any] = [None for g in given for _ in leaves(g.spec)]
    for p in left:
        spec = spec_of(p.default, f"the default of '{p.name}'")
        given.append(Given(spec, tuple(() for _ in leaves(spec))))
        constants += [np.asarray(v)[()] for v in _flat(p.default)] if leaves(spec) else []
    return Typed(name, function, tuple(given), tuple(constants))


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in _flat(item)]
    return [] if isinstance(spec_of(value), ConstantSpec) else [value]


def source_of(typed: Typed) -> str:
    """What `source()` gives for a function and its types."""
    dispatcher = dispatcher_of(typed.function)
    request = dispatcher.request_for(tuple(g.spec for g in typed.given))
    return source_text(request, text_name(dispatcher.recipe))


def program_of(typed: Typed, stage: str) -> tuple[Program, Options, list[Any]]:
    """The program of a function at a stage, its options, and the values of the arrays that it captures."""
    dispatcher = dispatcher_of(typed.function)
    request = dispatcher.request_for(tuple(g.spec for g in typed.given))
    # nothing looks at the extents that a library is called with, and its results have one type each
    program = lower_to(request._replace(general=True, is_joined=True), stage)
    return program, request.options, [c.value for c in request.captures.arrays]
