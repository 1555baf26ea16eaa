"""dlc: compiles programs of the IR to an object, LLVM IR or assembly, or runs a function of one.

    dlc model.dl -o model.o                    dlc run model.dl @f 3.0 '<2 x f32>:[1, 2]' x.npy

Declared derivatives are written first (the pass AD), so they can be compiled and run like any function.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dlvm_py.ir import BOOL, FunctionType, Module, PointerType, TensorType, TupleType, Type
from dlvm_py.ir.interpreter import run as interpret
from dlvm_py.ir.parser_module import ModuleReader
from dlvm_py.tools.common import Failure, Parser, read_program, run_tool, write_file
from dlvm_py.tools.native import callable_of, compile_functions
from dlvm_py.transforms import differentiate_module

DESCRIPTION = "DLVM compiler: programs of the IR to native code."

COMPILE_HELP = """
The object holds one function dl.NAME for each function of the program that has a body, by the calling convention
of docs/architecture.md, and the table dlvm.imports, which the loader fills. Code is for the CPU it was compiled on.

examples:
  dlc model.dl                              model.o beside it
  dlc model.dl --emit llvm -o -             LLVM IR on standard output
  dlc model.dl --emit asm --function @f     only @f, as assembly
  dlc run model.dl @f 3.0                   run a function: see dlc run --help

exit status: 0, or 1 after an error, which is one `error:` line on standard error and where it is.
"""

RUN_HELP = """
arguments, one for each parameter:
  3.5  -2  true                 a number or a bool, in the type of the parameter
  2.5:f32                       the same with the type stated, which must be the parameter's
  '[[1, 2], [3, 4]]'            an array
  '<2 x f32>:[1, 2]'            an array with its type
  x.npy                         an array from a NumPy file, of the dtype of the parameter

What the function returns is printed, one line a value, as `type: value`; arrays that it was given by pointer and
has written follow as `argument N: value`. What the program raises is an error.

examples:
  dlc run model.dl @f 3.0
  dlc run model.dl @net '<1 x 2 x f32>:[[1, 2]]' w.npy --out result.npy
  dlc run model.dl @f 3.0 --interpret       by the reference interpreter, without LLVM
  dlc run model.dl @f -- -3.0               -- before an argument that begins with a minus
"""


def compile_parser() -> Parser:
    """The command line of `dlc FILE`."""
    p = Parser(
        prog="dlc",
        usage="dlc FILE [options]\n       dlc run FILE @FUNCTION [ARGUMENT ...] [options]",
        description=DESCRIPTION,
        epilog=COMPILE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("file", metavar="FILE", help="the program, a .dl file; - is standard input")
    p.add_argument("-o", "--output", metavar="FILE", help="where to write; - is standard output (default: beside FILE)")
    p.add_argument("--emit", choices=["obj", "llvm", "asm"], default="obj",
                   help="obj: an object file, .o (default); llvm: LLVM IR, .ll; asm: assembly, .s")  # fmt: skip
    p.add_argument("--function", action="append", metavar="@NAME", help="compile this function only; repeatable")
    return p


def run_parser() -> Parser:
    """The command line of `dlc run`."""
    p = Parser(
        prog="dlc run",
        description="Run a function of a program and print what it returns.",
        epilog=RUN_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("file", metavar="FILE", help="the program, a .dl file; - is standard input")
    p.add_argument("function", metavar="@FUNCTION", help="the function")
    p.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="its arguments, see below")
    p.add_argument("--interpret", action="store_true", help="run by the reference interpreter")
    p.add_argument("--out", metavar="FILE.npy", help="write the (first) result to a NumPy file")
    return p


def main(arguments: list[str]) -> int:
    """Compile, or run; the exit status."""
    if arguments[:1] == ["run"]:
        return _run(run_parser().parse_args(_guarded(arguments[1:])))
    if not arguments:
        raise Failure("expected arguments: an input file\nusage: dlc FILE [options]")
    return _compile(compile_parser().parse_args([a for a in arguments if a != "compile"]))


def _guarded(arguments: list[str]) -> list[str]:
    """Negative numbers are arguments and no options, in whatever place."""
    flags = {word for action in run_parser()._actions for word in action.option_strings}
    first = next((k for k, a in enumerate(arguments) if a[:1] == "-" and a != "-" and a not in flags), None)
    if first is None or "--" in arguments or arguments[first][1:2] not in "0123456789.in":
        return arguments
    options = [a for a in arguments[first:] if a in flags and a != "--out"]
    rest = [a for a in arguments[first:] if a not in options]
    return [*options, *arguments[:first], "--", *rest]


def _read(path: str) -> Module:
    if path != "-" and not Path(path).is_file():
        raise Failure(f"invalid input path: {path}")
    module = read_program(path)
    differentiate_module.run(module)
    return module


def _name(module: Module, word: str) -> str:
    name = word.removeprefix("@")
    if name not in module.functions:
        there = ", ".join(f"@{n}" for n in module.functions) or "none"
        raise Failure(f"there is no function @{name}; there are: {there}")
    if not module.functions[name].blocks:
        raise Failure(f"@{name} is only declared: it has no body")
    return name


def _compile(options: argparse.Namespace) -> int:
    module = _read(options.file)
    words = options.function or [n for n, f in module.functions.items() if f.blocks]
    names = [_name(module, word) for word in words]
    if not names:
        raise Failure("the program has no function with a body")
    done = compile_functions(module, names)
    suffix = {"obj": ".o", "llvm": ".ll", "asm": ".s"}[options.emit]
    output = options.output or ("-" if options.file == "-" else str(Path(options.file).with_suffix(suffix)))
    data = {"obj": lambda: done.object, "llvm": lambda: done.llvm, "asm": done.asm}[options.emit]()
    if options.emit == "obj" and output == "-" and sys.stdout.isatty():
        raise Failure("an object file is not written to a terminal: give -o FILE")
    write_file(output, data)
    return 0


# -- running -------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    module = _read(options.file)
    name = _name(module, options.function)
    type = module.functions[name].type
    if len(options.arguments) != len(type.params):
        wanted = ", ".join(map(str, type.params))
        raise Failure(f"@{name} takes {len(type.params)} arguments ({wanted}), not {len(options.arguments)}")
    given = [argument(word, t, k) for k, (word, t) in enumerate(zip(options.arguments, type.params, strict=True))]
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    execute: Callable[..., Any] = (
        callable_of(module, name) if not options.interpret else (lambda *args: interpret(module, name, args))
    )
    try:
        result = execute(*given)
    except (ArithmeticError, LookupError, ValueError, MemoryError, RuntimeError, TypeError, AssertionError) as e:
        raise Failure(f"the program raised {e.__class__.__name__}: {e}") from None
    values = results(result, type)
    for value, t in values:
        print(f"{t}: {shown(value)}")
    for k, (a, b) in enumerate(zip(given, before, strict=True)):
        if isinstance(a, np.ndarray) and isinstance(type.params[k], PointerType) and a.tobytes() != b.tobytes():
            print(f"argument {k}: {shown(a)}")
    if options.out:
        if not values:
            raise Failure(f"@{name} returns nothing to write")
        np.save(options.out, values[0][0])
    return 0


def results(result: Any, type: FunctionType) -> list[tuple[Any, Type]]:
    """The values that a function has returned, each with its type."""
    if not isinstance(type.result, TupleType):
        return [(result, type.result)]
    return list(zip(result, type.result.elements, strict=True)) if type.result.elements else []


def shown(value: Any) -> str:
    """A value as it could be written in an argument."""
    if isinstance(value, np.ndarray):
        return np.array2string(value, separator=", ", threshold=10**6, max_line_width=100)
    if isinstance(value, np.generic):
        value = value.item() if value.dtype.kind in "biu" else value
    return str(value).lower() if isinstance(value, bool) else str(value)


def argument(word: str, t: Type, k: int) -> Any:
    """The value of an argument of the command line, of type `t`."""
    what = f"argument {k}"
    tensor = t.pointee if isinstance(t, PointerType) else t
    if not isinstance(tensor, TensorType):
        raise Failure(f"{what}: a value of type {t} cannot be given on the command line")
    if word.endswith(".npy"):
        try:
            value = np.load(word, allow_pickle=False)
        except (OSError, ValueError) as e:
            raise Failure(f"{what}: cannot read {word}: {e}") from None
        if value.dtype != tensor.dtype.numpy:
            raise Failure(f"{what}: {word} holds {value.dtype}, and {t} is wanted")
    else:
        value = _written(word, tensor, what)
    fits = value.ndim == tensor.rank and all(n in (None, m) for n, m in zip(tensor.shape, value.shape, strict=True))
    if not fits:
        raise Failure(f"{what}: extents {value.shape} where {t} is wanted")
    if not tensor.rank:
        return value[()]
    layout = t.layout if isinstance(t, PointerType) else "C"
    return np.asfortranarray(value) if layout == "F" else np.ascontiguousarray(value)


def _written(word: str, tensor: TensorType, what: str) -> np.ndarray:
    """An argument that is written out, with its type or without."""
    number = word
    for stated, rest in (word.rpartition(":")[::-2], word.partition(":")[::2]):
        if not stated or not rest or not any(c.isalpha() for c in stated):
            continue
        found = _type(stated, what)
        if found != tensor and not (isinstance(found, TensorType) and _agrees(found, tensor)):
            raise Failure(f"{what}: {found} is given, and {tensor} is wanted")
        number = rest
        break
    try:
        value = ast.literal_eval({"true": "True", "false": "False"}.get(number.strip(), number.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}.get(number.strip())
    if value is None:
        raise Failure(f"{what}: '{number}' is no number, array or .npy file")
    try:
        array = np.asarray(value)
    except ValueError:
        raise Failure(f"{what}: the rows of {number} differ in length") from None
    kinds = {"b": "b", "i": "iu", "u": "iu", "f": "iuf", "c": "iufc"}[tensor.dtype.kind]
    if array.size and array.dtype.kind not in kinds:
        raise Failure(f"{what}: {number} is no {tensor}")
    if tensor.dtype is not BOOL and tensor.dtype.is_integer and array.size:
        limits = np.iinfo(tensor.dtype.numpy)
        if array.min() < limits.min or array.max() > limits.max:
            raise Failure(f"{what}: {number} does not fit {tensor}")
    return array.astype(tensor.dtype.numpy)


def _agrees(found: TensorType, wanted: TensorType) -> bool:
    return (
        found.dtype is wanted.dtype
        and found.rank == wanted.rank
        and all(n in (None, m) for n, m in zip(wanted.shape, found.shape, strict=True))
    )


def _type(text: str, what: str) -> Type:
    reader = ModuleReader(text.strip().removeprefix("*"), what)
    found = reader.type()
    if not reader.at("end"):
        reader.unexpected("the end of the type")
    return found


def run() -> None:
    """The console script."""
    sys.exit(run_tool(main, sys.argv[1:]))


if __name__ == "__main__":
    run()
