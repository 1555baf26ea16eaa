"""The syntax tree of a Python function, with places in the true file, through gast.

A `def` is parsed from its own lines; an indented one is put under an `if`, so that columns stay those
of the file. A lambda is found in its file by the position that its code object records, so that several
lambdas on one line are told apart.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import gast

from dlvm_py.errors import Loc, UnsupportedSyntax


@dataclass(frozen=True, slots=True)
class Source:
    """The tree of a function (gast FunctionDef or Lambda) and where its lines are."""

    node: Any
    file: str
    shift: int  # file line = line of the tree + shift

    def loc(self, node: Any) -> Loc | None:
        """The place of a node, None if it has none."""
        line = getattr(node, "lineno", None)
        if line is None:
            return None
        end = getattr(node, "end_lineno", None) or line
        col, end_col = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None) or 0
        return Loc(self.file, line + self.shift, col, end + self.shift, end_col)


def function_source(fn: FunctionType) -> Source:
    """The source of a plain Python function; UnsupportedSyntax if it is gone or ambiguous."""
    code = fn.__code__
    if code.co_name == "<lambda>":
        return Source(gast.ast_to_gast(_find_lambda(code)), code.co_filename, 0)
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError) as error:
        raise _no_source(code) from error
    text = "".join(lines)
    indented = text[:1] in (" ", "\t")
    try:
        tree = gast.parse("if 1:\n" + text if indented else text)
    except SyntaxError as error:
        raise _no_source(code) from error
    node = tree.body[0].body[0] if indented else tree.body[0]
    if not isinstance(node, gast.FunctionDef) or node.name != code.co_name:
        what = "async functions are" if isinstance(node, gast.AsyncFunctionDef) else "this kind of function is"
        loc = Loc(code.co_filename, code.co_firstlineno)
        raise UnsupportedSyntax(f"{what} not supported", loc, help="write a plain `def`")
    return Source(node, code.co_filename, first - (2 if indented else 1))


def _no_source(code: CodeType) -> UnsupportedSyntax:
    return UnsupportedSyntax(
        f"the source of {code.co_name} is not available",
        Loc(code.co_filename, code.co_firstlineno),
        help="define it in a file (or a notebook cell), not through exec",
    )


def _find_lambda(code: CodeType) -> ast.Lambda:
    text = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise _no_source(code) from error
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
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


def _span(node: Any) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _argument_names(node: ast.Lambda) -> tuple[str, ...]:
    a = node.args
    return tuple(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs))


def _names(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
