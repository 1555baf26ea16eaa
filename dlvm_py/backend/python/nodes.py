"""Python syntax: expressions as gast nodes, made from source with places to fill, and statements with comments.

build("np.where(_0, _1, 0.0)", flag, x)      the expression with its places filled
Assign("s", node), If(test, then, orelse)    statements; `lines` gives their text
"""

from __future__ import annotations

import copy
import functools
import json
import string
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import astor
import gast

from dlvm_py.errors import Loc
from dlvm_py.frozen import Mutable, field

Node = Any  # a gast expression

# -- expressions ---------------------------------------------------------------------------------------


@functools.cache
def _parsed(source: str) -> Node:
    return gast.parse(source, mode="eval").body


class _Fill(gast.NodeTransformer):
    def __init__(self, nodes: Sequence[Node]) -> None:
        self.places = {f"_{k}": node for k, node in enumerate(nodes)}

    def visit_Name(self, node: Node) -> Node:
        return self.places.get(node.id, node)


def build(source: str, *nodes: Node) -> Node:
    """The expression `source` with `_0`, `_1`, ... replaced by nodes."""
    return _Fill(nodes).visit(copy.deepcopy(_parsed(source)))


def name(text: str) -> Node:
    """A variable."""
    return gast.Name(text, gast.Load(), None, None)


def constant(value: Any) -> Node:
    """A number, text, True, False, None, Ellipsis, or a tuple of them."""
    if isinstance(value, tuple):
        return make_tuple([constant(v) for v in value])
    if isinstance(value, complex):
        return build("complex(_0, _1)", constant(value.real), constant(value.imag))
    if isinstance(value, str):
        return name(_quoted(value))
    if isinstance(value, float) and value != value:
        return build("np.nan")
    if isinstance(value, int | float) and not isinstance(value, bool) and (value < 0 or str(value)[0] == "-"):
        return gast.UnaryOp(gast.USub(), constant(-value))
    if value == float("inf") and isinstance(value, float):
        return build("np.inf")
    return gast.Constant(value, None)


def make_tuple(nodes: Sequence[Node]) -> Node:
    """A tuple display."""
    return gast.Tuple(list(nodes), gast.Load())


def call(function: str, *args: Node, **keywords: Node) -> Node:
    """A call of a function by its (dotted) name."""
    return gast.Call(build(function), list(args), [gast.keyword(k, v) for k, v in keywords.items()])


def index(node: Node, keys: Sequence[Node]) -> Node:
    """A subscript; one key is written without a tuple."""
    return gast.Subscript(node, keys[0] if len(keys) == 1 else make_tuple(keys), gast.Load())


def slice_of(start: Node | None, stop: Node | None, step: Node | None = None) -> Node:
    """`start:stop:step`, parts that are None left out."""
    return gast.Slice(start, stop, step)


def formatted(template: str, nodes: Sequence[Node]) -> Node:
    """An f-string of a template of `str.format` whose fields, in order, are these expressions."""
    values: list[Node] = []
    rest = iter(nodes)
    for text, field_name, spec, conversion in string.Formatter().parse(template):
        if text:
            values.append(gast.Constant(text, None))
        if field_name is not None:
            node = next(rest)
            if isinstance(node, gast.Constant) and isinstance(node.value, int) and not spec:
                values.append(gast.Constant(str(node.value), None))
                continue
            kind = ord(conversion) if conversion else -1
            values.append(gast.FormattedValue(node, kind, gast.Constant(spec, None) if spec else None))
    if all(isinstance(v, gast.Constant) for v in values):
        return constant("".join(v.value for v in values))
    return gast.JoinedStr(values)


class _Shown(gast.NodeTransformer):
    """What astor would write otherwise: f-strings in three quotes, `return x,`."""

    def visit_Tuple(self, node: Node) -> Node:
        node = self.generic_visit(node)
        if len(node.elts) != 1:
            return node
        only = _on_one_line(node.elts[0])
        return name(f"(({only}),)" if isinstance(node.elts[0], gast.Tuple) else f"({only},)")

    def visit_JoinedStr(self, node: Node) -> Node:
        if any(c in _on_one_line(v.value) for v in node.values if not _is_text(v) for c in '"\\'):
            # Python 3.11 has no quotes within an f-string
            template = "".join(_escaped(v.value) if _is_text(v) else f"{{{_suffix(v)}}}" for v in node.values)
            given = [v.value for v in node.values if not _is_text(v)]
            return gast.Call(gast.Attribute(constant(template), "format", gast.Load()), given, [])
        texts = [
            _quoted(_escaped(v.value))[1:-1] if _is_text(v) else f"{{{_on_one_line(v.value)}{_suffix(v)}}}"
            for v in node.values
        ]
        return name(f'f"{"".join(texts)}"')


def _is_text(node: Node) -> bool:
    return isinstance(node, gast.Constant)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _suffix(field_: Node) -> str:
    conversion = f"!{chr(field_.conversion)}" if field_.conversion > 0 else ""
    return conversion + (f":{field_.format_spec.value}" if field_.format_spec is not None else "")


def _quoted(text: str) -> str:
    """Text in double quotes; a string of JSON is one of Python."""
    return json.dumps(text, ensure_ascii=False)


def is_name(node: Node, text: str | None = None) -> bool:
    """Whether an expression is a variable (of this name)."""
    return isinstance(node, gast.Name) and text in (None, node.id)


def same(a: Node, b: Node) -> bool:
    """Whether two expressions are written alike."""
    return bool(gast.dump(a) == gast.dump(b))


def text_of(node: Node) -> str:
    """An expression, or a simple statement, as text; long ones are wrapped."""
    text: str = astor.to_source(gast.gast_to_ast(_Shown().visit(copy.deepcopy(node))))
    # a bracket that closes what the first line opens stands under it
    shown = (line.lstrip() if line.lstrip()[:1] == ")" else line.rstrip() for line in text.rstrip("\n").split("\n"))
    return "\n".join(shown)


# -- statements ----------------------------------------------------------------------------------------


class Simple(Mutable):
    """A statement without a body: a gast node. `loc`: the place in the user's program that it belongs to."""

    node: Any
    loc: Loc | None = None


class Jump(Mutable):
    """`break`, `continue` or `pass`."""

    word: str


class If(Mutable):
    """A conditional statement."""

    test: Node
    then: list[Statement]
    orelse: list[Statement] = field(default_factory=list)
    loc: Loc | None = None


class Loop(Mutable):
    """`while test` or, with a target, `for target in test`."""

    test: Node
    body: list[Statement]
    orelse: list[Statement] = field(default_factory=list)
    target: Node | None = None
    loc: Loc | None = None


class Comment(Mutable):
    """A line of its own."""

    text: str


Statement = Simple | Jump | If | Loop | Comment


def assign(target: Node, value: Node, loc: Loc | None = None) -> Simple:
    """`target = value`, or `target += value` where the value is a sum of it and something else."""
    return Simple(gast.Assign([target], value, None), loc)


def augmented(target: Node, op: Any, value: Node, loc: Loc | None = None) -> Simple:
    """`target op= value`."""
    return Simple(gast.AugAssign(target, op, value), loc)


def expression(node: Node, loc: Loc | None = None) -> Simple:
    """An expression for its effect."""
    return Simple(gast.Expr(node), loc)


def raising(exception: str, message: Node, loc: Loc | None = None) -> Simple:
    """`raise exception(message)`."""
    return Simple(gast.Raise(call(exception, message), None), loc)


def returning(node: Node | None, loc: Loc | None = None) -> Simple:
    """`return node`."""
    return Simple(gast.Return(node), loc)


_FLIPPED = {gast.Eq: gast.NotEq, gast.NotEq: gast.Eq, gast.Is: gast.IsNot, gast.IsNot: gast.Is}


def negated(test: Node) -> Node:
    """`not test`, in its shortest form that holds for floats, NaN included."""
    if isinstance(test, gast.UnaryOp) and isinstance(test.op, gast.Not):
        return test.operand
    if isinstance(test, gast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _FLIPPED:
        return gast.Compare(test.left, [_FLIPPED[type(test.ops[0])]()], test.comparators)
    return gast.UnaryOp(gast.Not(), test)


def ends(body: Sequence[Statement]) -> bool:
    """Whether control never comes out at the end of a body."""
    last = body[-1] if body else None
    if isinstance(last, Jump):
        return last.word != "pass"
    if isinstance(last, If):
        return ends(last.then) and ends(last.orelse)
    return isinstance(last, Simple) and isinstance(last.node, gast.Return | gast.Raise)


def lines(body: Sequence[Statement], depth: int = 0) -> Iterator[str]:
    """The text of statements, a line at a time."""
    indent = "    " * depth
    for s in body or [Jump("pass")]:
        match s:
            case Simple(node):
                yield from textwrap.indent(text_of(node), indent).split("\n")
            case Jump(word):
                yield indent + word
            case Comment(text):
                yield f"{indent}# {text}"
            case If():
                yield from _if_lines(s, depth, "if")
            case Loop(test, inner, orelse, target):
                head = "while " if target is None else f"for {text_of(target)} in "
                yield f"{indent}{head}{_on_one_line(test)}:"
                yield from lines(inner, depth + 1)
                if orelse:
                    yield f"{indent}else:"
                    yield from lines(orelse, depth + 1)


def _if_lines(s: If, depth: int, word: str) -> Iterator[str]:
    indent = "    " * depth
    yield f"{indent}{word} {_on_one_line(s.test)}:"
    yield from lines(s.then, depth + 1)
    if len(s.orelse) == 1 and isinstance(s.orelse[0], If):
        yield from _if_lines(s.orelse[0], depth, "elif")
    elif s.orelse:
        yield f"{indent}else:"
        yield from lines(s.orelse, depth + 1)


def _on_one_line(node: Node) -> str:
    """An expression on one line; astor breaks lines only inside of brackets."""
    text = text_of(gast.Assign([name("_")], copy.deepcopy(node), None)).removeprefix("_ = ")
    first, *rest = text.split("\n")
    for part in rest:
        first += part.strip() if first[-1] in "([{" else f" {part.strip()}"
    return first
