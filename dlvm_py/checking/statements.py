"""A function cut off behind one of its statements: what the search for the line to blame compares.

Every statement that gives a name a value, writes into what a name refers to, or returns, is a *site* of that name.
`recording` runs the whole function in plain Python and hands over the value at each passage of each site; `cut` is the
function that returns the value at a given passage of one site, which is compiled and differentiated like any other.
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import linecache
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

RECORD, COUNT, AT = "__dlvm_record", "__dlvm_count", "__dlvm_at"
_NUMBER = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Site:
    """One statement and one name; `line` is that of the file."""

    index: int
    line: int
    name: str


class Statements:
    """The sites of a function. Raises OSError, TypeError or SyntaxError where the source cannot be had."""

    def __init__(self, function: FunctionType) -> None:
        lines, first = inspect.getsourcelines(function.__code__)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        if not isinstance(tree, ast.FunctionDef) or tree.name != function.__name__:
            raise TypeError("a function without statements")
        if tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs:
            raise TypeError("a function whose parameters have no places")
        tree.decorator_list = []
        self.function = function
        self.tree = tree
        self.shift = first - 1
        self.sites: list[Site] = []
        self._rewritten(lambda site: [])

    def recording(self, record: Callable[[int, Any], None]) -> Callable[..., Any]:
        """The function, which calls record(site, value) at each passage."""
        tree = self._rewritten(lambda site: _statements(f"{RECORD}({site.index}, {site.name})"))
        return self._function(tree, {RECORD: record})

    def cut(self, site: Site) -> Callable[..., Any]:
        """The function with one more parameter, n: its result is the value at the n-th passage of a site."""
        text = f"{COUNT} += 1\nif {COUNT} == {AT}: return {site.name}"
        tree = self._rewritten(lambda s: _statements(text) if s.index == site.index else [], whole=False)
        tree.args.args.append(ast.arg(AT))
        tree.args.defaults.clear()
        start = 1 if ast.get_docstring(tree, clean=False) is not None else 0
        tree.body[start:start] = _statements(f"{COUNT} = 0")
        tree.body += _statements("raise RuntimeError('not reached')")
        return self._function(tree, {})

    # -- the tree ------------------------------------------------------------------------------------

    def _rewritten(self, added: Callable[[Site], list[ast.stmt]], whole: bool = True) -> ast.FunctionDef:
        """A copy with statements added at each site; returns become raises unless it is to be `whole`."""
        tree = copy.deepcopy(self.tree)
        counter = itertools.count()
        sites: list[Site] = []

        def visit(body: list[ast.stmt]) -> list[ast.stmt]:
            done: list[ast.stmt] = []
            for s in body:
                for field in ("body", "orelse", "finalbody"):
                    if isinstance(getattr(s, field, None), list) and not _is_scope(s):
                        setattr(s, field, visit(getattr(s, field)))
                for case in getattr(s, "cases", ()):
                    case.body = visit(case.body)
                if isinstance(s, ast.For):
                    s.body = [n for name in _names(s.target) for n in here(s, name)] + s.body
                if isinstance(s, ast.Return) and s.value is not None:
                    done += here(s, "__dlvm_result", value=s.value)
                    done.append(s if whole else _raise())
                    continue
                done.append(s if whole or not isinstance(s, ast.Return) else _raise())
                done += [n for name in _written(s) for n in here(s, name)]
            return done

        def here(s: ast.stmt, name: str, value: ast.expr | None = None) -> list[ast.stmt]:
            site = Site(next(counter), s.lineno + self.shift, name)
            sites.append(site)
            new = added(site)
            if value is not None:
                if new:
                    new = [*_statements(f"{name} = 0"), *new]
                    assert isinstance(new[0], ast.Assign)
                    new[0].value = copy.deepcopy(value)
                    if whole and isinstance(s, ast.Return):
                        s.value = ast.Name(name, ast.Load())  # evaluated once
            return new

        tree.body = visit(tree.body)
        if not self.sites:
            self.sites = sites
        return tree

    def _function(self, tree: ast.FunctionDef, names: dict[str, Any]) -> Callable[..., Any]:
        """The function of a tree, with the globals, closure and defaults of the original one."""
        f = self.function
        free = f.__code__.co_freevars
        module = ast.Module([tree], [])
        if free:  # an outer function whose locals they are
            outer = ast.parse(f"def outer():\n    {' = '.join(free)} = None").body[0]
            assert isinstance(outer, ast.FunctionDef)
            outer.body.append(tree)
            module = ast.Module([outer], [])
        text = ast.unparse(ast.fix_missing_locations(module)) + "\n"
        # the front end reads source by way of linecache
        file = f"<dlvm.check {f.__name__} {next(_NUMBER)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        code = _find(compile(text, file, "exec", dont_inherit=True), tree.name)
        cells = dict(zip(free, f.__closure__ or (), strict=True))
        return FunctionType(
            code, {**f.__globals__, **names}, f.__name__, None, tuple(cells[n] for n in code.co_freevars)
        )


def _find(code: CodeType, name: str) -> CodeType:
    for c in code.co_consts:
        if isinstance(c, CodeType):
            if c.co_name == name:
                return c
            if c.co_name == "outer":
                return _find(c, name)
    raise LookupError(name)


def _statements(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def _raise() -> ast.stmt:
    return _statements("raise RuntimeError('not reached')")[0]


def _is_scope(s: ast.stmt) -> bool:
    return isinstance(s, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)


def _names(target: ast.expr) -> Iterator[str]:
    """The names that an assignment to `target` gives a value, or whose contents it changes."""
    match target:
        case ast.Name(name):
            yield name
        case ast.Tuple(items) | ast.List(items):
            for item in items:
                yield from _names(item)
        case ast.Starred(value) | ast.Subscript(value) | ast.Attribute(value):
            yield from _names(value)


def _written(s: ast.stmt) -> list[str]:
    """The names that a simple statement may have changed."""
    found: list[str] = []
    match s:
        case ast.Assign(targets):
            found = [n for t in targets for n in _names(t)]
        case ast.AugAssign(target) | ast.AnnAssign(target, _, ast.expr()):
            found = list(_names(target))
        case ast.Expr(ast.Call(function, arguments, keywords)):
            callee = [function.value] if isinstance(function, ast.Attribute) else []
            for a in (*callee, *arguments, *(k.value for k in keywords)):
                found += _names(a)
    return list(dict.fromkeys(found))
