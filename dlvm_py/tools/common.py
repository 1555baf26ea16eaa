"""What the command line tools share: reading programs, and errors as the user sees them.

A `Failure` is the user's: it becomes one `error:` line on stderr and the exit status 1. So do the errors of the
compiler that have a place in the user's text. Anything else is a bug of ours, and keeps its traceback.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from dlvm_py.errors import CompileError, DLError, VerifierError
from dlvm_py.ir import Module
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import differentiate_module

STDIN = "<stdin>"


class Failure(Exception):
    """What the user must hear, in one sentence."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours."""

    def error(self, message: str) -> NoReturn:
        """Errors end in exit status 1, as everything does that the user can repair."""
        raise Failure(message)


def read_program(path: str) -> Module:
    """The verified module of a file, or of standard input for `-`."""
    if path == "-":
        module = parse_module(sys.stdin.buffer.read(), STDIN, locate=True)
    else:
        try:
            data = Path(path).read_bytes()
        except OSError as e:
            raise Failure(f"invalid input path: {path}" + (f" ({e.strerror})" if Path(path).exists() else "")) from None
        module = parse_module(data, path, locate=True)
    verify(module)
    return module


def read_derived(path: str) -> Module:
    """`read_program`, with the bodies of all declared derivatives."""
    module = read_program(path)
    differentiate_module.run(module)
    return module


def function_named(module: Module, word: str) -> str:
    """The name of a function with a body, which the user has written with or without its @."""
    name = word.removeprefix("@")
    if name not in module.functions:
        there = ", ".join(f"@{n}" for n in module.functions) or "none"
        raise Failure(f"there is no function @{name}; there are: {there}")
    if not module.functions[name].blocks:
        raise Failure(f"@{name} is only declared: it has no body")
    return name


def write_file(path: str, data: bytes | str) -> None:
    """Write a result; `-` is standard output."""
    raw = data.encode() if isinstance(data, str) else data
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
        return
    try:
        Path(path).write_bytes(raw)
    except OSError as e:
        raise Failure(f"cannot write {path}: {e.strerror}") from None


def run_tool(main: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a tool; its exit status. Errors of the user go to stderr, without a traceback."""
    try:
        return main(arguments)
    except Failure as e:
        message = str(e)
    except VerifierError as e:
        note = "".join(f" ({n})" for n in getattr(e, "__notes__", ()))
        message = f"the program breaks the rules of the IR{note}\n{e}"
    except CompileError as e:
        # what is wrong, then where: the location, the line and a caret
        message = f"{e.reason}\n{e}" if e.loc is not None else e.reason + (f"\n  help: {e.help}" if e.help else "")
    except DLError as e:
        message = str(e)
    except SystemExit as e:  # argparse, after --help
        return int(e.code or 0)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130
    _complain(f"error: {message}")
    return 1


def _complain(message: str) -> None:
    sys.stdout.flush()
    if sys.stderr.isatty() and message.startswith("error: "):
        message = "\x1b[1;31merror:\x1b[0m " + message.removeprefix("error: ")
    print(message, file=sys.stderr)
