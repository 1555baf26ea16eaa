"""dlc: compiles programs of the IR, and the compiled functions of Python files, to code for other programs.

    dlc model.dl --emit shared                 libmodel.so and model.h, for C
    dlc model.py --function 'f(<_ x f64>, float)' -o f.o
    dlc run model.dl @f 3.0 '<2 x f32>:[1, 2]' x.npy

Declared derivatives are written first (the pass AD), so they can be compiled and run like any function.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dlvm_py.backend.aot.abi import identifier
from dlvm_py.backend.aot.library import Library, compile_library
from dlvm_py.backend.aot.linker import link_shared
from dlvm_py.backend.aot.ptx import ARCHITECTURES, DEFAULT, ptx_text
from dlvm_py.backend.python.program import functions_text
from dlvm_py.ir import print_module
from dlvm_py.tools.aot import Exporter
from dlvm_py.tools.common import STDIN, Failure, Parser, function_named, read_derived, run_tool, write_file
from dlvm_py.tools.python_file import Typed, load_file, program_of, source_of, typed_functions
from dlvm_py.tools.run import run_function

DESCRIPTION = "DLVM compiler: programs of the IR, and compiled functions of Python files, to code for other programs."

HELP = """
input:
  FILE.dl   a program of the IR: all its functions, or those that --function @NAME names.
  FILE.py   a Python file, which is run: what it makes at its top level with @dlvm.jit, and the derivatives of
            functions, dlvm.grad(...), dlvm.hessian(...); or what --function names. The types of the arguments stand
            behind the name, --function 'f(<_ x f64>, float)', or in the annotations of the function:

              float  int  bool  complex      a Python number, with Python's rules
              f32  i64 ...                   a NumPy scalar
              <_ x 3 x f64>                  an array in C order; _ is an extent that is known at the call
              *fortran <_ x _ x f64>         an array in Fortran order
              *strided <_ x _ x f64>         an array with any strides
              (float, <_ x f32>)             a tuple

            A parameter that is left out keeps its default. Arrays and numbers that a function captures become part
            of the library, as they are now.

output (--emit):
  obj       an object file with C functions, and their header (default)
  shared    a shared library with the same functions, and their header; needs a C compiler to link
  header    the header alone
  llvm      the LLVM IR of the object
  asm       its assembly
  ptx       PTX: an entry a function, for one GPU thread; what calls libm, a BLAS or itself is refused
  dl        the program of the IR, optimised; of a Python file, what it was translated to
  python    the functions as plain NumPy Python, docs/source.md; of a Python file, what source() gives

Functions are named PREFIX_NAME and return 0, or 1 after an error, whose message PREFIX_last_error() gives; the header
describes each. docs/aot.md has the whole interface and an example. A program that uses the code links the C library,
the mathematical library (-lm), and where dlc says so a BLAS.

examples:
  dlc model.dl                                   model.o and model.h beside it
  dlc model.dl --emit shared -o build/libnet.so  libnet.so and net.h in build; functions are named net_...
  dlc model.dl --emit llvm -o -                  LLVM IR on standard output
  dlc model.dl --emit asm --function @f          only @f, as assembly
  dlc model.py --emit shared                     every compiled function with annotations, and every derivative
  dlc model.py --function 'f(<_ x f64>, float)' --function 'df(<_ x f64>, float)' --emit shared
  dlc model.dl --emit shared -l openblas         with its own reference to a BLAS
  dlc run model.dl @f 3.0                        run a function: see dlc run --help

exit status: 0, or 1 after an error, which is one `error:` line on standard error and where it is.
"""

SUFFIXES = {"obj": ".o", "shared": ".so", "header": ".h", "llvm": ".ll", "asm": ".s", "ptx": ".ptx", "dl": ".dl",
            "python": ".py"}  # fmt: skip
CPUS = ("native", "generic", "x86-64-v2", "x86-64-v3", "x86-64-v4")


def compile_parser() -> Parser:
    """The command line of `dlc FILE`."""
    p = Parser(
        prog="dlc",
        usage="dlc FILE [options]\n       dlc run FILE FUNCTION [ARGUMENT ...] [options]",
        description=DESCRIPTION,
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    p.add_argument("file", metavar="FILE", help="the program, .dl or .py; - is a .dl program on standard input")
    p.add_argument("-o", "--output", metavar="FILE", help="where to write; - is standard output (default: beside FILE)")
    p.add_argument("--emit", choices=list(SUFFIXES), default="obj", help="what to write, see below")
    p.add_argument("--function", action="append", default=[], metavar="NAME",
                   help="compile only @f of a .dl program, f or 'f(TYPES)' of a .py file; repeatable")  # fmt: skip
    p.add_argument("--prefix", metavar="NAME", help="what the C names begin with (default: from the output's name)")
    p.add_argument("--header", metavar="FILE", help="where the header goes (default: PREFIX.h beside the output)")
    p.add_argument("--cpu", choices=CPUS, default="native",
                   help="the CPU that the code is for (default: native, the one that dlc runs on)")  # fmt: skip
    p.add_argument("--gpu-arch", choices=ARCHITECTURES, default=DEFAULT,
                   help=f"the GPU that PTX is for (default: {DEFAULT})", metavar="sm_NN")  # fmt: skip
    p.add_argument("-l", action="append", default=[], metavar="LIBRARY", dest="libraries",
                   help="link the shared library with this one; repeatable")  # fmt: skip
    p.add_argument("-L", action="append", default=[], metavar="FOLDER", dest="folders",
                   help="where libraries are looked for; repeatable")  # fmt: skip
    return p


def main(arguments: list[str]) -> int:
    """Compile, or run; the exit status."""
    if arguments[:1] == ["run"]:
        return run_function(arguments[1:])
    if not arguments:
        raise Failure("expected arguments: an input file\nusage: dlc FILE [options]")
    return _compile(compile_parser().parse_args(arguments[1:] if arguments[0] == "compile" else arguments))


def _compile(options: argparse.Namespace) -> int:
    exporter = Exporter(_prefix(options), for_gpu=options.emit == "ptx")
    if options.file.endswith(".py"):
        functions = typed_functions(load_file(options.file), options.function)
        if options.emit in ("dl", "python"):
            return _write_program(options, functions)
        for typed in functions:
            exporter.add_python(typed)
    else:
        module = read_derived(options.file)
        words = options.function or [n for n, f in module.functions.items() if f.blocks]
        names = [function_named(module, word) for word in words]
        if not names:
            raise Failure("the program has no function with a body")
        if options.emit == "dl":
            write_file(_output(options), print_module(module))
            return 0
        if options.emit == "python":
            write_file(_output(options), functions_text(module, names))
            return 0
        for name in names:
            exporter.add_function(module, name)
    source = STDIN if options.file == "-" else Path(options.file).name
    if options.emit == "ptx":
        write_file(_output(options), ptx_text(exporter.exports, source, options.gpu_arch))
        return 0
    header = Path(options.header).name if options.header else f"{exporter.prefix}.h"
    return _write(
        options,
        compile_library(exporter.exports, exporter.imports, exporter.prefix, header, source, options.cpu),
        exporter.prefix,
    )


def _write_program(options: argparse.Namespace, functions: list[Typed]) -> int:
    if len(functions) > 1:
        names = ", ".join(f.name for f in functions)
        raise Failure(f"--emit {options.emit} writes the program of one function: choose with --function, of {names}")
    if options.emit == "python":
        write_file(_output(options), source_of(functions[0]))
        return 0
    program, _, _ = program_of(functions[0], "optimizable")
    write_file(_output(options), print_module(program.module))
    return 0


def _output(options: argparse.Namespace) -> str:
    if options.output is not None:
        return str(options.output)
    if options.file == "-":
        return "-"
    path = Path(options.file).with_suffix(SUFFIXES[options.emit])
    if path == Path(options.file):
        raise Failure("the output would replace the input: give -o FILE")
    return str(path.with_name(f"lib{path.name}") if options.emit == "shared" else path)


def _prefix(options: argparse.Namespace) -> str:
    """What C names begin with: libnet.so has net_f."""
    if options.prefix is not None:
        if identifier(options.prefix) != options.prefix:
            raise Failure(f"--prefix {options.prefix} is no C identifier")
        return str(options.prefix)
    output = _output(options)
    path = Path(options.file if output == "-" else output)
    # as the linker's -l reads it
    stem = path.stem.removeprefix("lib") if path.suffix == ".so" else path.stem
    return identifier("dlc" if stem in ("-", "") else stem)


def _write(options: argparse.Namespace, library: Library, prefix: str) -> int:
    output = _output(options)
    if options.emit == "header":
        write_file(output, library.header)
        return 0
    if options.emit in ("llvm", "asm"):
        write_file(output, library.code.llvm if options.emit == "llvm" else library.code.asm())
        return 0
    if output == "-" and (options.emit == "shared" or sys.stdout.isatty()):
        kind = "a shared library" if options.emit == "shared" else "an object file"
        raise Failure(f"{kind} is not written to {'a terminal' if options.emit == 'obj' else 'standard output'}: "
                      "give -o FILE")  # fmt: skip
    if options.emit == "shared":
        arguments = [f"-L{f}" for f in options.folders] + [f"-l{name}" for name in options.libraries]
        link_shared(library.code.object, Path(output), arguments)
    else:
        write_file(output, library.code.object)
    header = options.header or (None if output == "-" else str(Path(output).with_name(f"{prefix}.h")))
    if header is not None:
        write_file(header, library.header)
    if library.blas and not (options.emit == "shared" and options.libraries):
        print(f"note: link a BLAS as well, for {', '.join(library.blas)}", file=sys.stderr)
    return 0


def run() -> None:
    """The console script."""
    sys.exit(run_tool(main, sys.argv[1:]))


if __name__ == "__main__":
    run()
