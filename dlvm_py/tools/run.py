"""`dlc run`: a function of a program, or of a Python file, called with what the command line says."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.errors import DLError
from dlvm_py.ir import FunctionType, PointerType, TupleType, Type
from dlvm_py.ir.interpreter import run as interpret
from dlvm_py.ir.objects import Reference
from dlvm_py.ir.types import BoxType
from dlvm_py.tools.common import Failure, Parser, function_named, read_derived
from dlvm_py.tools.native import callable_of
from dlvm_py.tools.python_file import function_of, load_file
from dlvm_py.tools.values import argument, python_argument, shown, type_of

HELP = """
arguments, one for each parameter:
  3.5  -2  true                 a number or a bool; in a .dl program, in the type of the parameter
  2.5:f32                       the same with its type
  '[[1, 2], [3, 4]]'            an array
  '<2 x f32>:[1, 2]'            an array with its type
  x.npy                         an array from a NumPy file
  '{#k = 1, #w = 2.0}'          in a .dl program a struct; '(1, 2.0)' a tuple; '[1, 2]' an array; '?leaf(1.0)' an enum;
                                nested at will. For a pointer or a box: what it refers to
In a Python file 2 is an int, 2.0 a float, 2:f32 an np.float32, '(1.0, 2.0)' a tuple.

What the function returns is printed, one line a value, as `type: value`; what it was given by reference and
has written follows as `argument N: value`. What the program raises is an error.

examples:
  dlc run model.dl @f 3.0
  dlc run model.dl @net '<1 x 2 x f32>:[[1, 2]]' w.npy --out result.npy
  dlc run model.dl @f 3.0 --interpret       by the reference interpreter, without LLVM
  dlc run model.dl @f -- -3.0               -- before an argument that begins with a minus
  dlc run model.py df '[1.0, 2.0]' 0.5      a compiled function or a derivative of a Python file
"""


def run_parser() -> Parser:
    """The command line of `dlc run`."""
    p = Parser(
        prog="dlc run",
        description="Run a function of a program and print what it returns.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("file", metavar="FILE", help="the program, .dl or .py; - is a .dl program on standard input")
    p.add_argument("function", metavar="FUNCTION", help="the function, @f or f")
    p.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="its arguments, see below")
    p.add_argument("--interpret", action="store_true", help="run by the reference interpreter (a .dl program)")
    p.add_argument("--out", metavar="FILE.npy", help="write the (first) result to a NumPy file")
    return p


def run_function(arguments: list[str]) -> int:
    """The command `dlc run ...`; its exit status."""
    options = run_parser().parse_args(_guarded(arguments))
    return _run_python(options) if options.file.endswith(".py") else _run_program(options)


def _guarded(arguments: list[str]) -> list[str]:
    """Negative numbers are arguments and no options, in whatever place."""
    flags = {word for action in run_parser()._actions for word in action.option_strings}
    first = next((k for k, a in enumerate(arguments) if a[:1] == "-" and a != "-" and a not in flags), None)
    if first is None or "--" in arguments or arguments[first][1:2] not in "0123456789.in":
        return arguments
    options = [a for a in arguments[first:] if a in flags and a != "--out"]
    rest = [a for a in arguments[first:] if a not in options]
    return [*options, *arguments[:first], "--", *rest]


def _run_program(options: argparse.Namespace) -> int:
    module = read_derived(options.file)
    name = function_named(module, options.function)
    type = module.functions[name].type
    if len(options.arguments) != len(type.params):
        wanted = ", ".join(map(str, type.params))
        raise Failure(f"@{name} takes {len(type.params)} arguments ({wanted}), not {len(options.arguments)}")
    given = [argument(word, t, k) for k, (word, t) in enumerate(zip(options.arguments, type.params, strict=True))]
    by_reference = [k for k, t in enumerate(type.params) if isinstance(t, PointerType | BoxType)]
    execute = callable_of(module, name) if not options.interpret else lambda *args: interpret(module, name, args)
    result, written = _executed(execute, given, by_reference)
    values = [(v, str(t), shown(v, t)) for v, t in results(result, type)]
    return _report(options, values, [(k, shown(v, type.params[k])) for k, v in written])


def _run_python(options: argparse.Namespace) -> int:
    if options.interpret:
        raise Failure("--interpret is for .dl programs; python runs the functions of a Python file")
    function = function_of(load_file(options.file), options.function.removeprefix("@"))
    given = [python_argument(word, k) for k, word in enumerate(options.arguments)]
    result, written = _executed(function, given, list(range(len(given))))
    values = [(v, type_of(v), shown(v)) for v in _leaves(result)]
    return _report(options, values, [(k, shown(v)) for k, v in written])


def _executed(
    execute: Callable[..., Any], given: list[Any], by_reference: list[int]
) -> tuple[Any, list[tuple[int, Any]]]:
    """The result of a call, and the memory that it has written, by position."""
    before = {k: _state(given[k]) for k in by_reference}
    try:
        result = execute(*given)
    except DLError:
        raise
    except (ArithmeticError, LookupError, ValueError, MemoryError, RuntimeError, TypeError, AssertionError) as e:
        raise Failure(f"the program raised {e.__class__.__name__}: {e}") from None
    return result, [(k, given[k]) for k, old in before.items() if _state(given[k]) != old]


def _state(value: Any) -> Any:
    """What is compared to see whether memory was written; nothing for what cannot be."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return repr(value) if isinstance(value, Reference) else None


def _report(options: argparse.Namespace, values: list[tuple[Any, str, str]], written: list[tuple[int, str]]) -> int:
    for _, t, text in values:
        print(f"{t}: {text}")
    for k, text in written:
        print(f"argument {k}: {text}")
    if options.out:
        if not values:
            raise Failure(f"{options.function} returns nothing to write")
        try:
            np.save(options.out, values[0][0])
        except OSError as e:
            raise Failure(f"cannot write {options.out}: {e.strerror}") from None
    return 0


def results(result: Any, type: FunctionType) -> list[tuple[Any, Type]]:
    """The values that a function has returned, each with its type."""
    if not isinstance(type.result, TupleType):
        return [(result, type.result)]
    return list(zip(result, type.result.elements, strict=True)) if type.result.elements else []


def _leaves(result: Any) -> list[Any]:
    if isinstance(result, tuple):
        return [leaf for item in result for leaf in _leaves(item)]
    return [] if result is None else [result]
