"""The syntax tree of a Python function, with places in the true file, through gast.

A `def` is parsed from its own lines; an indented one is put under an `if`, so that columns stay those
of the file. A lambda is found in its file by the position that its code object records, so that several
lambdas on one line are told apart.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import warnings
from functools import cache, lru_cache
from types import CodeType, FunctionType
from typing import Any

import gast

from dlvm_py.errors import Loc, UnsupportedSyntax
from dlvm_py.frozen import Frozen


class Source(Frozen):
    """The tree of a function (gast FunctionDef or Lambda) and where its lines are."""

    node: Any
    file: str
    shift: int  # file line = line of the tree + shift
    at: Loc | None = None  # library code: the place of the user's call stands for all of its lines

    def loc(self, node: Any) -> Loc | None:
        """The place of a node, None if it has none; of one that is written elsewhere (splice.py), the place there."""
        written = getattr(node, "written_in", None)
        if written is not None and written is not self:
            found: Loc | None = written.loc(node)
            return found
        if self.at is not None:
            return self.at
        line = getattr(node, "lineno", None)
        if line is None:
            return None
        end = getattr(node, "end_lineno", None) or line
        col, end_col = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None) or 0
        return Loc(self.file, line + self.shift, col, end + self.shift, end_col)


def function_source(fn: FunctionType) -> Source:
    """The source of a plain Python function; UnsupportedSyntax if it is gone or ambiguous."""
    code = fn.__code__
    _check_current(code)
    if code.co_name == "<lambda>":
        return Source(gast.ast_to_gast(_find_lambda(code)), code.co_filename, 0)
    first = code.co_firstlineno
    node, shift = _definition("".join(linecache.getlines(code.co_filename, fn.__globals__)), first)
    if node is None:
        raise _no_source(code)
    if not isinstance(node, gast.FunctionDef) or node.name != code.co_name:
        what = "async functions are" if isinstance(node, gast.AsyncFunctionDef) else "this kind of function is"
        loc = Loc(code.co_filename, code.co_firstlineno)
        raise UnsupportedSyntax(f"{what} not supported", loc, help="write a plain `def`")
    return Source(node, code.co_filename, shift)


@lru_cache(maxsize=512)
def _definition(text: str, first: int) -> tuple[Any, int]:
    """The tree of the statement that begins at a line of a file, None if there is none, and the shift of its lines.

    Trees are read, never changed: who translates the function again, or another one that calls it, has the same one.
    """
    lines = list(io.StringIO(text))[first - 1 :]  # lines as the file has them: no form feed ends one
    indented = bool(lines) and _indent(lines[0]) > 0
    tree = _parse_block(["if 1:\n", *lines] if indented else lines, 2 if indented else 1)
    if tree is None:
        return None, 0
    node = gast.ast_to_gast(tree.body[0].body[0] if indented else tree.body[0])
    return node, first - (2 if indented else 1)


@cache
def library_source(fn: FunctionType) -> Source:
    """The source of a function of frontend/library, parsed once: its file does not change while it is used."""
    return function_source(fn)


def _parse_block(lines: list[str], first: int) -> ast.Module | None:
    """The tree of the statement that begins at a line, with the lines before it; None if there is none.

    It ends before a line that is indented no more. Where such a line is in the middle, of brackets or of a string,
    what stands before it is no whole statement, and does not parse. (`inspect` would tokenize the block, after a search
    through all modules for the one of the file, which takes a tenth of a second.)
    """
    if len(lines) < first:
        return None
    indent = _indent(lines[first - 1])
    for end in range(first, len(lines) + 1):
        line = lines[end] if end < len(lines) else "end of the file"
        if line.strip()[:1] not in ("", "#") and _indent(line) <= indent:
            with contextlib.suppress(SyntaxError):
                return ast.parse("".join(lines[:end]))
    return None


def _indent(line: str) -> int:
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())


def _no_source(code: CodeType) -> UnsupportedSyntax:
    return UnsupportedSyntax(
        f"the source of {code.co_name} is not available",
        Loc(code.co_filename, code.co_firstlineno),
        help="define it in a file (or a notebook cell), not through exec",
    )


# -- is the file still what was loaded? --------------------------------------------------------------


def _check_current(code: CodeType) -> None:
    """Refuse a function whose file was edited after it was loaded: the text would be of another program.

    What has no text at all, as what `exec` made, is for who looks for its source.
    """
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    found = _code_objects(text, code.co_filename)
    if text and found and not any(_same_program(code, c) for c in found.get((code.co_name, code.co_firstlineno), ())):
        raise UnsupportedSyntax(
            f"the source of {code.co_name} is not that of the running program any more: the file has changed",
            Loc(code.co_filename, code.co_firstlineno),
            help="load the module again, or restart the program",
        )


@lru_cache(maxsize=64)
def _code_objects(text: str, file: str) -> dict[tuple[str, int], list[CodeType]]:
    """The code objects of all functions of a file, by name and first line; none if it cannot be compiled."""
    found: dict[tuple[str, int], list[CodeType]] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pending = [compile(text, file, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError):
        return found
    while pending:
        code = pending.pop()
        found.setdefault((code.co_name, code.co_firstlineno), []).append(code)
        pending += _nested(code)
    return found


def _same_program(running: CodeType, source: CodeType) -> bool:
    """Whether running code is compiled from the source. Tools may have added to it (pytest rewrites `assert`)."""
    ours, theirs = _vocabulary(source), _vocabulary(running)
    if not ours <= theirs or (ours == theirs and running.co_code != source.co_code):
        return False
    return all(any(_same_program(r, s) for r in _nested(running)) for s in _nested(source))


def _vocabulary(code: CodeType) -> set[tuple[str, str]]:
    """The names and constants of a code object."""
    names = {("", n) for n in (*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)}
    constants = (c for c in code.co_consts if not isinstance(c, CodeType))
    # sets print in any order
    return names | {
        (type(c).__name__, str(sorted(map(repr, c))) if isinstance(c, frozenset) else repr(c)) for c in constants
    }


def _nested(code: CodeType) -> list[CodeType]:
    return [c for c in code.co_consts if isinstance(c, CodeType)]


def _find_lambda(code: CodeType) -> ast.Lambda:
    try:
        lambdas = _lambdas("".join(linecache.getlines(code.co_filename)))
    except SyntaxError as error:
        raise _no_source(code) from error
    found = [n for n in lambdas if n.lineno == code.co_firstlineno]
    if not found:
        raise _no_source(code)
    if len(found) > 1:
        # the instruction that returns carries the position of the whole body
        places = {(line, col, end, end_col) for line, end, col, end_col in code.co_positions()}
        found = [n for n in found if _span(n.body) in places and _argument_names(n) == _names(code)]
    if len(found) != 1:
        raise UnsupportedSyntax(
            "several lambdas on this line cannot be told apart",
            Loc(code.co_filename, code.co_firstlineno),
            help="put them on lines of their own, or use def",
        )
    return found[0]


@lru_cache(maxsize=16)
def _lambdas(text: str) -> list[ast.Lambda]:
    """All lambdas of a file. SyntaxError where it has none that Python could read."""
    return [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda)]


def _span(node: Any) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _argument_names(node: ast.Lambda) -> tuple[str, ...]:
    a = node.args
    return tuple(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs))


def _names(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
