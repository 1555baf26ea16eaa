"""The whole text: imports, helpers, the functions that are called, and the function that a user calls.

python_text(module, name)                  functions of leaves: what dlopt shows
python_text(module, name, interface=...)   called as the callable is: with its names, structures and classes
"""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Iterator, Sequence
from typing import Any

import gast
import numpy as np

from dlvm_py.backend.python.function import FunctionWriter, Names
from dlvm_py.backend.python.helpers import source_of
from dlvm_py.backend.python.nodes import (
    Comment,
    If,
    Jump,
    Loop,
    Node,
    Statement,
    assign,
    build,
    call,
    constant,
    expression,
    index,
    lines,
    make_tuple,
    name,
    returning,
)
from dlvm_py.backend.python.variables import RESERVED, new_name, plain_name
from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Function, Instruction, Module, Value
from dlvm_py.ir.analysis.calls import reachable
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    EitherSpec,
    GrowingSpec,
    ListSpec,
    Pairs,
    RecordShape,
    RecordSpec,
    ScalarSpec,
    Spec,
    TableSpec,
    TupleSpec,
    dtype_of_leaf,
    leaves,
)

SHOWN = 64  # elements of a captured array that are written into the text


class Interface(Frozen):
    """How the function looks from Python.

    `captured` are the arrays that it refers to by name; `file` is the user's: its lines stand as comments over what
    was made of them, with `comments`.
    """

    name: str
    signature: inspect.Signature
    args: tuple[Spec, ...]
    result: Spec
    captured: tuple[tuple[str, Any], ...] = ()
    title: str = ""
    comments: bool = False
    noalias: bool = True


def python_text(module: Module, name: str, interface: Interface) -> str:
    """The text of a function of a module at stage optimizable, and of those that it calls. The module is used up.

    Raises: UnsupportedSyntax DL120 for an op, or a result, that is not written as Python.
    """
    functions = reachable(module, name)
    called = {i.attrs["callee"] for f in functions for i in f.instructions() if i.op.name == "apply"}
    # a recursive function is called by its leaves
    inner = name in called and not _is_direct(interface)
    taken = {*RESERVED, interface.name}
    names = Names({}, {}, {})
    for f in functions:
        own = f.name == name and not inner
        names.functions[f.name] = interface.name if own else new_name(plain_name(f.name) or "f", taken)
    parts = [_of_leaves(f, names) for f in functions if f.name != name or inner]
    parts.append(_Main(module.functions[name], names, interface).text(names.functions[name] if inner else ""))
    return _assembled(parts, names, [_captured(n, a) for n, a in interface.captured])


def functions_text(module: Module, wanted: Sequence[str]) -> str:
    """The text of functions of a module of IR, and of those that they call: parameters and results are leaves.

    Raises: UnsupportedSyntax DL120 for an op, or a result, that is not written as Python.
    """
    functions = list(dict.fromkeys(f for name in wanted for f in reachable(module, name)))
    taken = set(RESERVED)
    names = Names({f.name: new_name(plain_name(f.name) or "f", taken) for f in functions}, {}, {})
    return _assembled([_of_leaves(f, names) for f in functions], names, [])


def _is_direct(interface: Interface) -> bool:
    flat = all(isinstance(a, ScalarSpec | ArraySpec) for a in interface.args)
    result = interface.result
    items = result.items if isinstance(result, TupleSpec) else (result,)
    return flat and not interface.captured and all(isinstance(r, ScalarSpec | ArraySpec) for r in items)


def _of_leaves(f: Function, names: Names) -> list[str]:
    if not f.blocks:
        raise UnsupportedSyntax(f"@{f.name} is declared without a body that could be written", f.loc, code="DL120")
    writer = FunctionWriter(f, names)
    body = writer.body()
    head = f"def {names.functions[f.name]}({', '.join(writer.parameters())}):"
    return [head, *lines(body, 1)]


def _assembled(parts: list[list[str]], names: Names, arrays: list[str]) -> str:
    text = [["import numpy as np"]]
    body = "\n".join(line for part in parts for line in part)
    needed = [source_of(h) for h in names.helpers]
    modules = [f"import {name}" for name in ("sys", "warnings") if re.search(rf"\b{name}\.", body)]
    if modules:
        text[0] = [*modules, "", *text[0]]
    if re.search(r"\bspecial\.", body):
        text[0].append("from scipy import special")
    text[0] += [_import_of(path) for path in names.classes]
    blocks = [
        text[0],
        *([arrays] if arrays else []),
        *([h.split("\n")] for h in []),
        *(h.split("\n") for h in needed),
        *parts,
    ]
    return "\n\n\n".join("\n".join(block) for block in blocks) + "\n"


def _import_of(path: str) -> str:
    """The line that makes a class of the user known."""
    module, _, called = path.rpartition(".")
    if "<locals>" in path or module == "__main__":
        return f"# {called}: a class of yours, to be put into this namespace"
    return f"from {module} import {called}"


def _captured(name: str, array: Any) -> str:
    if array.size > SHOWN:
        return f"# {name}: an array of shape {array.shape} and dtype {array.dtype}, to be put into this namespace"
    listed = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"{name} = np.array({listed}, dtype=np.{np.dtype(array.dtype).name})"


# -- the function that is called -----------------------------------------------------------------------------


class _Main(FunctionWriter):
    """The function that a user calls: arguments are taken apart, results put together."""

    def __init__(self, function: Function, names: Names, interface: Interface) -> None:
        self.interface = interface
        self._flat: list[str] = []
        self._opening: list[tuple[Node, Node]] = []
        self._parameter_names = list(interface.signature.parameters)
        flat: list[str] = []
        strong: list[int] = []
        taken = set(self._parameter_names)
        for parameter, spec in zip(self._parameter_names, interface.args, strict=True):
            self._open(name(parameter), parameter, spec, flat, strong, taken)
        flat += [c for c, _ in interface.captured]
        super().__init__(
            function, names, flat, strong, globals_=[c for c, _ in interface.captured], noalias=interface.noalias
        )

    def _open(self, node: Node, text: str, spec: Spec, flat: list[str], strong: list[int], taken: set[str]) -> None:
        """Take an argument apart, down to its leaves."""
        if isinstance(spec, ScalarSpec | ArraySpec):
            if isinstance(spec, ScalarSpec) and not spec.weak:
                strong.append(len(flat))
            if not isinstance(node, gast.Name):
                text = new_name(plain_name(text) or "x", taken)
                self._opening.append((name(text), node))
            flat.append(text)
            return
        if isinstance(spec, ListSpec):
            text = new_name(plain_name(text) or "x", taken)
            self._opening.append((name(text), build(f"np.array(_0, np.{dtype_of_leaf(spec.item).numpy_name})", node)))
            flat.append(text)
            return
        if isinstance(spec, TableSpec):
            keys = [build(f"[k[{n}] for k in _0]", node) for n in range(len(spec.keys))] if spec.is_tuple else None
            columns = [*(keys or [call("list", node)]), build("list(_0.values())", node)]
            for column, leaf in zip(columns, spec.columns, strict=True):
                part = new_name(plain_name(text) or "x", taken)
                self._opening.append((name(part), build(f"np.array(_0, np.{dtype_of_leaf(leaf).numpy_name})", column)))
                flat.append(part)
            return
        if isinstance(spec, ConstantSpec | GrowingSpec):
            return
        for k, item in enumerate(spec.items):
            if isinstance(spec, RecordSpec) and spec.kind is dict:
                part, called = index(node, [constant(spec.names[k])]), spec.names[k]
            elif isinstance(spec, RecordSpec) and spec.names:
                part, called = gast.Attribute(node, spec.names[k], gast.Load()), f"{text}_{spec.names[k]}"
            else:
                part, called = index(node, [constant(k)]), f"{text}_{k}"
            self._open(part, called, item, flat, strong, taken)

    def text(self, inner: str = "") -> list[str]:
        """The lines of the function; one that only calls `inner`, which takes and returns leaves, if that is given."""
        body: list[Statement] = self._calling(inner) if inner else self.body()
        if self.interface.comments:
            body = _Commenter().commented(body)
        opening: list[Statement] = [assign(target, node) for target, node in self._opening]
        head = f"def {self.interface.name}({_signature(self.interface.signature)}):"
        title = [f'    """{self.interface.title}."""'] if self.interface.title else []
        return [head, *title, *lines(opening + body, 1)]

    def _calling(self, inner: str) -> list[Statement]:
        found = call(inner, *map(name, self._flat))
        count = len(leaves(self.interface.result))
        if count == 1:
            return [returning(self._result(self.interface.result, iter([(found, True)])))]
        parts = [name(f"{inner}_{k}") for k in range(count)]
        return [
            assign(make_tuple(parts), found) if parts else expression(found),
            returning(self._result(self.interface.result, iter([(p, True) for p in parts]))),
        ]

    def result_node(self, i: Instruction, leaves_: list[Value]) -> Node | None:
        """What a return gives, in the structure and the classes of the callable's result."""
        result = self.interface.result
        if isinstance(result, ConstantSpec) and result.value is None:
            return None
        return self._result(result, ((self.kept(v), self.is_weak(v)) for v in leaves_))

    def _result(self, spec: Spec, values: Iterator[tuple[Node, bool]]) -> Node:
        """A result of leaves: their expressions, and whether a number may be weak."""
        match spec:
            case ScalarSpec():
                return _scalar(spec, *next(values))
            case ArraySpec():
                return next(values)[0]
            case TupleSpec(items):
                return make_tuple([self._result(i, values) for i in items])
            case RecordSpec(kind, keys, items):
                return self._record(kind, keys, [self._result(i, values) for i in items])
            case EitherSpec(items):
                kind = next(values)[0]
                *nodes, found = (self._result(i, values) for i in items)
                for k, node in reversed(list(enumerate(nodes))):
                    found = gast.IfExp(build("_0 == _1", kind, constant(k)), node, found)
                return found
            case GrowingSpec(columns, item):
                return self._rows(item, iter([next(values)[0] for _ in columns]))
        return constant(spec.value) if isinstance(spec.value, str | None) else name(repr(spec.value))

    def _record(self, kind: type, keys: Sequence[str], nodes: list[Node]) -> Node:
        if kind is list:
            return gast.List(nodes, gast.Load())
        if kind is set:
            return call("set", *nodes)
        if kind is Pairs:
            return call("dict", call("zip", *nodes))
        if kind is dict:
            return gast.Dict([constant(k) for k in keys], nodes)
        path = f"{kind.__module__}.{kind.__qualname__}"
        return gast.Call(name(self.names.of_class(path)), nodes, [])

    def _rows(self, item: Any, columns: Iterator[Node]) -> Node:
        if isinstance(item, RecordShape) and item.kind is list:
            raise UnsupportedSyntax(
                "a result that is a list of lists of computed length cannot be written as Python",
                None,
                code="DL120",
                help="return np.array of it",
            )
        if isinstance(item, RecordShape):
            fields = [self._rows(i, columns) for i in item.items]
            zipped = call("zip", *fields)
            if item.kind is tuple:
                return call("list", zipped)
            path = f"{item.kind.__module__}.{item.kind.__qualname__}"
            return build("[_0(*row) for row in _1]", name(self.names.of_class(path)), zipped)
        column = next(columns)
        if item == "weak":
            return build("_0.tolist()", column)
        return build("[np.array(row) for row in _0]", column) if item == "array" else call("list", column)


def _scalar(spec: ScalarSpec, node: Node, may_be_weak: bool) -> Node:
    """A number in its class."""
    d = dtype_of_leaf(spec)
    if spec.weak:
        word = {"b": "bool", "i": "int", "f": "float", "c": "complex"}[d.kind]
        return node if isinstance(node, gast.Constant) else call(word, node)
    return call(f"np.{'bool_' if d.name == 'bool' else d.numpy_name}", node) if may_be_weak else node


def _signature(signature: inspect.Signature) -> str:
    """The parameters as they are written: without annotations, with the defaults that are numbers, texts or None."""
    parameters = []
    for p in signature.parameters.values():
        default = p.default
        if default is not p.empty and not isinstance(default, int | float | str | bool | complex | None):
            default = p.empty
        parameters.append(p.replace(annotation=p.empty, default=default))
    seen_default = False
    for p in parameters:
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            if seen_default and p.default is p.empty:
                parameters = [q.replace(default=q.empty) if q.kind != q.KEYWORD_ONLY else q for q in parameters]
                break
            seen_default |= p.default is not p.empty
    return str(inspect.Signature(parameters))[1:-1]


class _Commenter:
    """Puts the lines of the user's program over what was made of them."""

    def __init__(self) -> None:
        self.last: tuple[str, int] | None = None

    def commented(self, body: list[Statement]) -> list[Statement]:
        """The statements with comments between."""
        out: list[Statement] = []
        for s in body:
            loc = None if isinstance(s, Jump | Comment) else s.loc
            if loc is not None and (loc.file, loc.line) != self.last:
                self.last = loc.file, loc.line
                text = linecache.getline(loc.file, loc.line).strip()
                if text and not _says(s, text):
                    out.append(Comment(text))
            out.append(s)
            if isinstance(s, If):
                s.then, s.orelse = self.commented(s.then), self.commented(s.orelse)
            elif isinstance(s, Loop):
                s.body, s.orelse = self.commented(s.body), self.commented(s.orelse)
        return out


def _says(s: Statement, text: str) -> bool:
    """Whether a statement begins as a line of the user does."""
    return next(lines([s])).replace(" ", "") == text.replace(" ", "")


__all__ = ["Interface", "functions_text", "python_text"]
