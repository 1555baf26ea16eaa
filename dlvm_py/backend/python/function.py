"""One function of the text: instructions to statements, with the variables' names filled in at the end.

Statements are made with a placeholder for every value (`_Place`); what they read is what stands in them. Then values
get variables, placeholders become names, and the blocks are put in order by structure.py.
"""

from __future__ import annotations

import copy
import keyword
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

import gast

from dlvm_py.backend.python import structure, tidy
from dlvm_py.backend.python.extents import Axis, Clipped, Extents, Sum, unclipped
from dlvm_py.backend.python.folding import Plan
from dlvm_py.backend.python.nodes import (
    If,
    Node,
    Simple,
    Statement,
    assign,
    augmented,
    build,
    call,
    constant,
    expression,
    formatted,
    index,
    is_name,
    make_tuple,
    name,
    raising,
    returning,
    same,
)
from dlvm_py.backend.python.spelling import (
    LOWERED,
    REFUSED,
    SPELLING,
    UFUNCS,
    dtype,
    dtype_keyword,
    is_scalar,
    literal_of,
    negation,
    numpy_dtype,
    place_of,
    shape_node,
)
from dlvm_py.backend.python.strength import Strength
from dlvm_py.backend.python.variables import RESERVED, Flow, Step, Variables, plain_name
from dlvm_py.errors import Loc, UnsupportedSyntax
from dlvm_py.ir import (
    BF16,
    NULL,
    OWN_DTYPES,
    UNDEFINED,
    Block,
    BlockArg,
    Function,
    Instruction,
    Kind,
    Literal,
    PointerType,
    StackType,
    TensorType,
    TupleType,
    Type,
    Value,
    Variable,
)
from dlvm_py.ir.analysis import AliasAnalysis, DominatorTree, LoopForest
from dlvm_py.ir.exceptions import exception_class
from dlvm_py.ir.ops.aggregates import keys_of
from dlvm_py.ir.text import NUMBERS, NUMPY, PYTHON, ROWS, flavours_of

_PLACE = "_Place"
_NUMPY = {"numpy.linalg": "np.linalg", "numpy.exceptions": "np.exceptions"}  # modules of exceptions


# of every block: what its statements assign, and they; its test; what is passed on its edges; the head of a `for`
_Made = dict[Block, list[tuple[list[Value], list[Statement]]]]
_Tests = dict[Block, Node | None]
_Edges = dict[Block, list[list[tuple[BlockArg, Node, Loc | None]]]]
_Heads = dict[Block, tuple[Node, Node]]


@dataclass(slots=True)
class Names:
    """Of the whole text: functions, and what it brings along."""

    functions: dict[str, str]
    helpers: dict[str, None]
    classes: dict[str, str]  # of the user, by their paths: what they are called here

    def of_class(self, path: str) -> str:
        """The name of a class of the user."""
        return self.classes.setdefault(path, path.rpartition(".")[2])


class FunctionWriter:
    """Writes one function: `parameters` and `body`."""

    def __init__(
        self,
        function: Function,
        names: Names,
        parameters: Sequence[str] | None = None,
        strong: Iterable[int] = (),
        *,
        globals_: Iterable[str] = (),
        noalias: bool = True,
    ) -> None:
        """parameters: their names, of the IR's if not given. strong: the numbers of those that are NumPy scalars.
        globals_: the names that are of the text, not of the function."""
        _check(function)
        tidy.run(function)
        self.function = function
        self.names = names
        self._given = parameters
        self._globals = set(globals_)
        self._noalias = noalias
        self._strong = {function.params[k] for k in strong}
        self._dominators = DominatorTree(function)
        self._values: dict[str, Value] = {}
        self._place_names: dict[Value, str] = {}
        self.counted: dict[Block, tidy.Counted] = {}
        self._prepare({loop.header: c for loop in LoopForest(function).loops if (c := tidy.counted(function, loop))})

    def _prepare(self, counted: dict[Block, tidy.Counted]) -> None:
        self.counted = counted
        self.extents = Extents({c.variable for c in counted.values()})
        alias = AliasAnalysis(self.function, self._noalias)
        self.plan = Plan(self.function, alias, {c.variable for c in counted.values()})
        self._alias = alias
        self._strength = Strength(self.function, self.plan.order, self._strong)
        self._strength.solve(self)

    # -- what entries of the op table ask --------------------------------------------------------------------

    def of(self, value: Value) -> Node:
        """The expression of a value."""
        if isinstance(value, Literal):
            return self._literal(value)
        if isinstance(value, Instruction) and value in self.plan.inline:
            return self._inline(value)
        return self._place(value)

    def operand(self, value: Value) -> Node:
        """The expression of an operand beside others that have the dtype."""
        number = literal_of(value)
        return constant(number) if number is not None and _is_number(number) else self.of(value)

    def broadcast(self, i: Instruction) -> list[Node]:
        """Operands without what NumPy's broadcasting does by itself."""
        t = i.type
        assert isinstance(t, TensorType)
        operands = list(i.operands)
        whole = [k for k, v in enumerate(operands) if _fills(v, t)]
        nodes = []
        for k, v in enumerate(operands):
            others = [n for n in whole if n != k and not _is_stretched(operands[n])]
            if others:
                v = self._stripped(v)
            # a number beside another operand of this dtype takes part in it
            typed = [o for j, o in enumerate(operands) if j != k and o.type.dtype is v.type.dtype]  # type: ignore[attr-defined]
            beside = any(literal_of(o) is None for o in typed)
            nodes.append(self.operand(v) if is_scalar(v) and beside else self.of(v))
        return nodes

    def _stripped(self, v: Value) -> Value:
        while isinstance(v, Instruction) and v in self.plan.inline:
            if v.op.name == "broadcast" or (
                v.op.name == "padShape" and v.attrs["at"] == 0 and not is_scalar(v.operands[0])
            ):
                v = v.operands[0]
            else:
                break
        return v

    def is_weak(self, value: Value) -> bool:
        """Whether a number may be one of Python."""
        return self._strength.is_weak(value, self)

    def is_inline(self, value: Value, op: str = "") -> bool:
        """Whether a value is written where it is used."""
        return value in self.plan.inline

    def is_nonzero(self, value: Value, at: Instruction) -> bool:
        """Whether a check before has seen that a divisor is not 0."""
        for check in self._checks_before(at):
            test = check.operands[0]
            if isinstance(test, Instruction) and test.op.name == "notEqual" and literal_of(test.operands[1]) == 0:
                if test.operands[0] is value:
                    return True
        return False

    def fits_integer(self, i: Instruction) -> bool:
        """Whether checks before have seen that a float becomes an integer of 64 bits: those of Python's int()."""
        x = i.operands[0]
        while isinstance(x, Instruction) and x.op.name == "truncate":
            x = x.operands[0]
        return any(
            c.attrs["exception"] == "OverflowError" and len(c.operands) == 2 and c.operands[1] is x
            for c in self._checks_before(i)
        )

    def is_nonempty(self, i: Instruction) -> bool:
        """Whether a check before has seen that there is something to reduce: NumPy's own."""
        axes = i.attrs["axes"]
        lengths = [self.extents.extent(i.operands[0], k) for k in axes]
        if all(n.number is not None and n.number > 0 for n in lengths):
            return True
        for check in self._checks_before(i):
            if "zero-size array to reduction" in check.attrs["message"]:
                seen = [self.extents.sum_of(n) for n in self._compared(check.operands[0])]
                if all(n in seen or (n.number or 0) > 0 for n in lengths):
                    return True
        return False

    def _compared(self, test: Value) -> list[Value]:
        if not isinstance(test, Instruction):
            return []
        if test.op.name in ("or", "and"):
            return [v for t in test.operands for v in self._compared(t)]
        return [test.operands[0]] if test.op.name == "greaterThan" else []

    def _checks_before(self, i: Instruction) -> list[Instruction]:
        if not hasattr(self, "_checks"):
            self._checks = [c for c in self.function.instructions() if c.op.name == "check"]
        return [c for c in self._checks if c.block is not None and self._dominators.instruction_dominates(c, i)]

    def number(self, s: Sum) -> Node:
        """A sum as an expression."""
        node: Node | None = None
        for term, factor in sorted(s.terms, key=lambda t: t[1] < 0):
            part = self._term(term)
            if abs(factor) != 1:
                part = gast.BinOp(constant(abs(factor)), gast.Mult(), part)
            if node is None:
                node = part if factor > 0 else gast.UnaryOp(gast.USub(), part)
            else:
                node = gast.BinOp(node, gast.Add() if factor > 0 else gast.Sub(), part)
        if node is None:
            return constant(s.constant)
        if not s.constant:
            return node
        return gast.BinOp(node, gast.Add() if s.constant > 0 else gast.Sub(), constant(abs(s.constant)))

    def _term(self, term: Any) -> Node:
        if isinstance(term, Axis):
            node = self.of(term.of)
            if term.of.type.rank == 1:  # type: ignore[attr-defined]
                return call("len", node)
            return index(gast.Attribute(node, "shape", gast.Load()), [constant(term.at)])
        if isinstance(term, Clipped):
            return call("max", self.number(term.of), constant(0))
        return self.of(term)

    def helper(self, helper: str) -> str:
        """A helper of the text."""
        self.names.helpers[helper] = None
        return helper

    # -- expressions -----------------------------------------------------------------------------------------

    def _place(self, value: Value) -> Node:
        if value not in self._place_names:
            self._place_names[value] = f"{_PLACE}{len(self._place_names)}_"
            self._values[self._place_names[value]] = value
        return name(self._place_names[value])

    def _literal(self, v: Literal) -> Node:
        if v.value is UNDEFINED:
            return constant(None)
        if v.value is NULL:
            assert isinstance(v.type, PointerType)
            return call("np.empty", constant((0,) * v.type.rank), **dtype_keyword(v.type.dtype))
        node = constant(v.value)
        if dtype(v).is_inexact and isinstance(v.value, int) and not isinstance(v.value, bool):
            node = constant(complex(v.value) if dtype(v).is_complex else float(v.value))
        return node if dtype(v).name in ("f64", "i64", "c128", "bool") else call(f"np.{dtype(v).numpy_name}", node)

    def _inline(self, i: Instruction) -> Node:
        if i.op.name == "load":
            return self._loaded(i.operands[0])
        entry = SPELLING[i.op.name]
        if isinstance(entry, str):
            return build(entry, *map(self.of, i.operands))
        return entry(self, i)

    def _loaded(self, pointer: Value) -> Node:
        """What memory holds: the array itself, or an element."""
        if pointer.type.rank:  # type: ignore[attr-defined]
            return self.of(pointer)
        return self._element(pointer)

    def _element(self, pointer: Value) -> Node:
        """The one element of memory of rank 0, to be read or assigned to."""
        if isinstance(pointer, Instruction) and pointer in self.plan.inline and pointer.op.name == "elementPointer":
            return place_of(self, pointer)
        return index(self.of(pointer), [build("()")])

    def kept(self, value: Value) -> Node:
        """The expression of a value that outlives the statement: an array is copied if its memory changes."""
        node = self.of(value)
        if isinstance(value.type, TensorType) and value.type.rank and value in self.plan.inline:
            if self.plan.must_copy(value):
                return _copied(node)
        return node

    # -- statements ------------------------------------------------------------------------------------------

    def _statement(self, i: Instruction) -> tuple[list[Value], list[Statement]]:
        """What an instruction assigns, and its statements."""
        loc = i.loc
        match i.op.name:
            case "store":
                return self._store(i, loc)
            case "scatter":
                value, to, *indices = i.operands
                keys = [self.of(k) for k in indices]
                if i.attrs.get("by") is None:
                    return [], [assign(index(self.of(to), keys), self.of(value), loc)]
                places = keys[0] if len(keys) == 1 else make_tuple(keys)
                return [], [expression(call(f"{UFUNCS[i.attrs['by']]}.at", self.of(to), places, self.of(value)), loc)]
            case "allocateHeap":
                node = call("np.empty", self._shape(i), **dtype_keyword(dtype(i)))
                return [i], [assign(self._place(i), node, loc)]
            case "createStack":
                return [i], [assign(self._place(i), gast.List([], gast.Load()), loc)]
            case "push":
                value, stack = i.operands
                return [], [expression(build("_0.append(_1)", self.of(stack), self.kept(value)), loc)]
            case "print":
                return [], [expression(self._print(i), loc)]
            case "pop":
                return [i], [assign(self._place(i), build("_0.pop()", self.of(i.operands[0])), loc)]
            case "apply":
                return self._call(i, loc)
            case "check":
                test, *shown = i.operands
                node = self._message(i, shown)
                return [], [If(negation(self, test), [raising(self._exception(i), node)], loc=loc)]
        if i.op.kind is Kind.CONTROL:
            return [], self._finish(i, loc)
        return [i], [assign(self._place(i), self._assigned(i), loc)]

    def _assigned(self, i: Instruction) -> Node:
        if i.op.name == "tuple":
            return make_tuple([self.kept(v) for v in i.operands])
        if i.op.name == "extract":
            node = self.of(i.operands[0])
            for key in keys_of(i.attrs):
                node = index(node, [constant(key)])
            return node
        node = self._inline(i)
        return _copied(node) if i in self.plan.copied else node

    def _exception(self, i: Instruction) -> str:
        kind: str = i.attrs["exception"]
        if "." in kind:
            return self.names.of_class(kind)
        found = exception_class(kind)
        return kind if found is None or found.__module__ == "builtins" else f"{_NUMPY[found.__module__]}.{kind}"

    def _print(self, i: Instruction) -> Node:
        message = i.attrs["message"]
        keywords = {} if message.endswith("\n") else {"end": constant("")}
        if i.attrs["to"] != "stdout":
            keywords["file"] = build(f"sys.{i.attrs['to']}")
        if i.attrs.get("flush"):
            keywords["flush"] = constant(True)
        return call("print", self._message(i, i.operands, message.removesuffix("\n")), **keywords)

    def _message(self, i: Instruction, operands: Sequence[Value], template: str | None = None) -> Node:
        """The text of a message, its operands as the Python objects that they are to the program."""
        template = i.attrs["message"] if template is None else template
        conversions = [conversion for _, field, _, conversion in Formatter().parse(template) if field is not None]
        nodes = []
        for v, flavour, conversion in zip(operands, flavours_of(operands, i.attrs), conversions, strict=True):
            node = self.of(v)
            if flavour == NUMBERS:
                node = build("_0.tolist()", node)
            elif flavour == ROWS:
                node = call("list", node)
            elif conversion is not None and flavour == PYTHON:  # `!r` of NumPy's numbers says so
                node = call({"b": "bool", "i": "int", "f": "float", "c": "complex"}[dtype(v).kind], node)
            elif conversion is not None and flavour == NUMPY and self.is_weak(v):
                node = gast.Call(numpy_dtype(dtype(v)), [node], [])
            nodes.append(node)
        return formatted(template, nodes)

    def _shape(self, allocation: Instruction) -> Node:
        return shape_node(self, allocation)

    def _store(self, i: Instruction, loc: Loc | None) -> tuple[list[Value], list[Statement]]:
        value, to = i.operands
        if i in self.plan.filled:
            allocation = self.plan.filled[i]
            node = self._first_contents(allocation, value)
            if node is not None:
                return [allocation], [assign(self._place(allocation), node, loc)]
            empty = assign(
                self._place(allocation), call("np.empty", self._shape(allocation), **dtype_keyword(dtype(to))), loc
            )
            return [allocation], [empty, self._assign_to(allocation, value, loc)]
        return [], [self._assign_to(to, value, loc)]

    def _assign_to(self, to: Value, value: Value, loc: Loc | None) -> Statement:
        target = self._element(to) if not to.type.rank else self.of(to)  # type: ignore[attr-defined]
        bare = is_name(target)
        if isinstance(value, Instruction) and value in self.plan.inline:
            change = self._change(to, value)
            if change is not None:
                if not isinstance(target, gast.Name | gast.Subscript):
                    target = index(target, [constant(...)])
                return augmented(target, *change, loc)
            while value.op.name == "broadcast" and value in self.plan.inline and isinstance(value.operands[0], Value):
                inner = value.operands[0]
                if not (is_scalar(inner) or inner.type.rank == value.type.rank):  # type: ignore[attr-defined]
                    break
                value = inner
                if not isinstance(value, Instruction):
                    break
        if bare or not isinstance(target, gast.Subscript):
            target = index(target, [gast.Slice(None, None, None) if to.type.rank == 1 else constant(...)])  # type: ignore[attr-defined]
        node = self.operand(value) if is_scalar(value) else self.of(value)
        return assign(target, node, loc)

    def _change(self, to: Value, value: Instruction) -> tuple[Any, Node] | None:
        """The operator and the other operand of a store that changes what is there: `u += v`."""
        signs = {"add": gast.Add, "subtract": gast.Sub, "multiply": gast.Mult, "divide": gast.Div}
        if (
            value.op.name not in signs
            or value.attrs.get("checked")
            or (dtype(value).is_integer and value.op.name == "divide")
        ):
            return None
        a, b = value.operands
        sides = [(a, b, 0), (b, a, 1)] if value.op.name in ("add", "multiply") else [(a, b, 0)]
        for ours, _, at in sides:
            if not (isinstance(ours, Instruction) and ours.op.name == "load" and ours in self.plan.inline):
                continue
            if not self._alias.same_elements(ours.operands[0], to):
                continue
            node = self.broadcast(value)[1 - at]
            sign = signs[value.op.name]
            if value.op.name in ("add", "subtract"):
                turned = _turned(node)
                if turned is not None:
                    node, sign = turned, gast.Sub if sign is gast.Add else gast.Add
            return sign(), node
        return None

    def _first_contents(self, allocation: Instruction, value: Value) -> Node | None:
        """A new array with this value, None if NumPy might make one of another memory order."""
        t = allocation.type
        assert isinstance(t, PointerType)
        inner = value
        while isinstance(inner, Instruction) and inner in self.plan.inline and inner.op.name == "broadcast":
            inner = inner.operands[0]
        keyword = dtype_keyword(t.dtype)
        if is_scalar(inner) and not is_scalar(value):
            number = literal_of(inner)
            shape = self._shape(allocation)
            if number == 0 and not (isinstance(number, float) and str(number)[0] == "-"):
                owner = self._model(shape, t)
                return call("np.zeros_like", owner) if owner is not None else call("np.zeros", shape, **keyword)
            if number == 1:
                owner = self._model(shape, t)
                return call("np.ones_like", owner) if owner is not None else call("np.ones", shape, **keyword)
            return call("np.full", shape, self.operand(inner), **keyword)
        if inner is not value or not isinstance(value.type, TensorType):
            return None
        if not isinstance(value, Instruction) or value not in self.plan.inline:
            return _copied(self.of(value))
        if self.plan.is_view(value):
            return _copied(self.of(value))
        return self.of(value) if self._is_in_order(value) else None

    def _model(self, shape: Node, t: PointerType) -> Node | None:
        """The array whose `zeros_like` has this shape, dtype and memory order."""
        if not (isinstance(shape, gast.Attribute) and is_name(shape.value)):
            if isinstance(shape, gast.Call) and is_name(shape.func, "len") and is_name(shape.args[0]):
                shape = gast.Attribute(shape.args[0], "shape", gast.Load())
            else:
                return None
        owner = self._values.get(shape.value.id)
        if owner is None or not isinstance(owner.type, PointerType) or owner.type.layout != "C":
            return None
        return shape.value if owner.type.dtype is t.dtype and owner.type.rank == t.rank else None

    def _is_in_order(self, value: Value) -> bool:
        """Whether NumPy gives an expression new memory in C order."""
        t = value.type
        if not isinstance(t, TensorType) or t.rank < 2:
            return True
        if isinstance(value, Instruction) and value.op.name == "load":
            return value.operands[0].type.layout == "C"  # type: ignore[attr-defined]
        if not isinstance(value, Instruction):
            return isinstance(value, Literal)
        if value.op.name in ("padShape", "broadcast", "dataTypeCast", "reduce") or value.op.kind.name == "ELEMENTWISE":
            return all(map(self._is_in_order, value.operands))
        return value.op.name in ("dot", "embed", "scatterAdd")

    def _call(self, i: Instruction, loc: Loc | None) -> tuple[list[Value], list[Statement]]:
        node = call(self.names.functions[i.attrs["callee"]], *(self.kept(v) for v in i.operands))
        parts = [u for u in self.plan.uses[i] if self.plan.is_part(u)]
        if not isinstance(i.type, TupleType):
            if not self.plan.points(i):
                return [], [expression(node, loc)]
            return [i], [assign(self._place(i), node, loc)]
        count = len(i.type.elements)
        if not count or not self.plan.uses[i]:
            return [], [expression(node, loc)]
        if len(parts) < len(self.plan.uses[i]):
            return [i], [assign(self._place(i), node, loc)]
        found = {keys_of(u.attrs)[0]: u for u in parts if self.plan.points(u)}
        target = make_tuple([self._place(found[k]) if k in found else name("_") for k in range(count)])
        return list(found.values()), [assign(target, node, loc)]

    def _finish(self, i: Instruction, loc: Loc | None) -> list[Statement]:
        if i.op.name == "raise":
            return [raising(self._exception(i), self._message(i, i.operands), loc)]
        if i.op.name != "return":
            return []
        leaves = self._returned(i)
        return [returning(self.result_node(i, leaves), loc)]

    def _returned(self, i: Instruction) -> list[Value]:
        if not i.operands:
            return []
        value = i.operands[0]
        if isinstance(value, Instruction) and value.op.name == "tuple":
            return list(value.operands)
        return [value]

    def result_node(self, i: Instruction, leaves: list[Value]) -> Node | None:
        """What a return gives: the leaves. The main function of a text has its own."""
        nodes = [self.kept(v) for v in leaves]
        if not nodes:
            return None
        return nodes[0] if len(nodes) == 1 else make_tuple(nodes)

    # -- the whole -------------------------------------------------------------------------------------------

    def body(self) -> list[Statement]:
        """The statements of the function."""
        try:
            return structure.structured(self._graph())
        except structure.Unstructured:
            self._prepare({})
            return structure.dispatched(self._graph(), "block")

    def parameters(self) -> list[str]:
        """The names of the parameters; after `body`."""
        return [self._variables.name_of(p) for p in self.function.params]

    def _graph(self) -> structure.Graph:
        made: _Made = {}
        tests: _Tests = {}
        edges: _Edges = {}
        for block in self.plan.order:
            end = block.terminator
            assert end is not None
            made[block] = [self._statement(i) for i in self.plan.statements(block)]
            if not end.targets:
                made[block].append(self._statement(end))
            tests[block] = self.of(end.operands[0]) if end.op.name == "conditional" else None
            edges[block] = [
                [(a, self.kept(v), v.loc if isinstance(v, Instruction) else None) for a, v in self._passed(t)]
                for t in end.targets
            ]
        heads = {b: self._head(c) for b, c in self.counted.items()}
        self._drop_unread(made, tests, edges, heads)
        self._name(made, tests, edges, heads)
        blocks = {b: Block(b.name) for b in self.plan.order}
        graph = structure.Graph(blocks[self.plan.order[0]])
        for b in self.plan.order:
            end = b.terminator
            assert end is not None
            body = [self._filled(s, writes) for writes, some in made[b] for s in some]
            outgoing = [
                structure.Edge(blocks[t.block], self._copies(pairs))
                for t, pairs in zip(end.targets, edges[b], strict=True)
            ]
            head = heads.get(b)
            counted = None if head is None else (self._named(head[0]), self._named(head[1]), self.counted[b].exit)
            test = tests[b]
            if len(outgoing) == 2 and outgoing[0].to is outgoing[1].to:
                outgoing = self._one_edge(outgoing, test)
                test = None
            graph.vertices[blocks[b]] = structure.Vertex(
                body, None if test is None or head is not None else self._named(test), outgoing, counted, end.loc
            )
        return graph

    def _drop_unread(self, made: _Made, tests: _Tests, edges: _Edges, heads: _Heads) -> None:
        """Drop assignments that nothing reads: what they say is said otherwise where it is needed."""
        counts: Counter[Value] = Counter()
        for b in self.plan.order:
            for _, some in made[b]:
                for s in some:
                    counts.update(self._statement_reads(s))
            if b not in self.counted and tests[b] is not None:
                counts.update(self._reads(tests[b]))
            for pairs in edges[b]:
                for _, node, _ in pairs:
                    counts.update(self._reads(node))
        for head in heads.values():
            counts.update(self._reads(head[1]))
        changed = True
        while changed:
            changed = False
            for b in self.plan.order:
                for entry in list(made[b]):
                    writes, some = entry
                    pure = all(isinstance(v, Instruction) and _is_droppable(v) for v in writes)
                    # an assignment reads its own target once
                    if writes and pure and all(counts[v] <= 1 for v in writes):
                        made[b].remove(entry)
                        for s in some:
                            counts.subtract(self._statement_reads(s))
                        changed = True

    def _one_edge(self, outgoing: list[structure.Edge], test: Node | None) -> list[structure.Edge]:
        """Two edges to one block as one, on which the test decides what is assigned."""
        assert test is not None
        both = structure.conditional(self._named(test), outgoing[0].copies, outgoing[1].copies)
        return [structure.Edge(outgoing[0].to, both)]

    def _passed(self, target: Any) -> list[tuple[BlockArg, Value]]:
        c = self.counted.get(target.block)
        return [(a, v) for a, v in zip(target.block.args, target.args, strict=True) if c is None or a is not c.argument]

    def _head(self, c: tidy.Counted) -> tuple[Node, Node]:
        stop = self.number(unclipped(self.extents.sum_of(c.stop)))
        used = any(self._is_read(c, u) for u in self.plan.uses[c.variable])
        target = self._place(c.variable) if used else name("_")
        if c.down:
            within = call("range", stop)
            return target, call("reversed", within) if used else within
        assert c.start is not None
        if literal_of(c.start) == 0:
            return target, call("range", stop)
        return target, call("range", self.of(c.start), self.number(self.extents.sum_of(c.stop)))

    def _is_read(self, c: tidy.Counted, user: Instruction) -> bool:
        """Whether a user of the counter does more than to count."""
        if user.targets and user not in self.plan.inline:
            return user.operands.count(c.variable) > 0 or any(
                v is c.variable and a is not c.argument
                for t in user.targets
                for a, v in zip(t.block.args, t.args, strict=True)
            )
        if user.op.name == "lessThan" and user.block is c.argument.block:
            return False
        return user.op.name != "add" or c.down or not self._only_counts(c, user)

    def _only_counts(self, c: tidy.Counted, step: Instruction) -> bool:
        return all(
            user.targets
            and step not in user.operands
            and all(
                a is c.argument for t in user.targets for a, v in zip(t.block.args, t.args, strict=True) if v is step
            )
            for user in self.plan.uses[step]
        )

    # -- names -----------------------------------------------------------------------------------------------

    def _reads(self, node: Any) -> set[Value]:
        return {self._values[n.id] for n in gast.walk(node) if isinstance(n, gast.Name) and n.id in self._values}

    def _statement_reads(self, s: Statement) -> set[Value]:
        match s:
            case Simple(node):
                return self._reads(node)
            case If(test, then, orelse):
                return self._reads(test).union(*map(self._statement_reads, [*then, *orelse]))
        return set()

    def _name(self, made: _Made, tests: _Tests, edges: _Edges, heads: _Heads) -> None:
        flows: dict[Block, Flow] = {}
        for b in self.plan.order:
            steps = [
                Step(writes, set().union(*map(self._statement_reads, some)) - set(writes)) for writes, some in made[b]
            ]
            test = tests[b]
            c = self.counted.get(b)
            reads = self._reads(test) if test is not None and c is None else set()
            args: list[Value] = [a for a in b.args if c is None or a is not c.argument]
            if c is not None:
                args.append(c.variable)
                reads |= self._reads(heads[b][1])
            end = b.terminator
            assert end is not None
            flow = Flow(args, steps, reads - {v for v in reads if c is not None and v is c.variable})
            for t, pairs in zip(end.targets, edges[b], strict=True):
                flow.edges.append(
                    (
                        t.block,
                        [(a, self._reads(n), self._values.get(n.id) if is_name(n) else None) for a, n, _ in pairs],
                    )
                )
            flows[b] = flow
        v = self._variables = Variables(
            self.plan.order,
            flows,
            {*RESERVED, *self.names.functions.values(), *self.names.helpers},
        )
        alone: set[Value] = {c.variable for c in self.counted.values()}
        taken = {*RESERVED, *self.names.functions.values()}
        for k, p in enumerate(self.function.params):
            given = self._given[k] if self._given is not None else _new_name(plain_name(p.name) or "x", taken)
            v.give(p, given)
            if given in self._globals:
                alone.add(p)
                v.reserve(given)
        v.join_edges(alone)
        values = [p for p in self.function.params]
        wish: dict[Value, str] = {}
        for b in self.plan.order:
            for value in [*flows[b].args, *(w for s in flows[b].steps for w in s.writes)]:
                values.append(value)
                wish[value] = self._wish(value)
        v.name_all(values, wish)

    def _wish(self, value: Value) -> str:
        found = plain_name(value.name)
        if isinstance(value, Instruction) and value.op.name == "createStack":
            pushed = {plain_name(u.operands[0].name) for u in self.plan.uses[value] if u.op.name == "push"}
            return f"{pushed.pop()}_tape" if len(pushed) == 1 and pushed != {""} else "tape"
        if not found and isinstance(value, Instruction) and value.op.name == "load" and is_scalar(value):
            root = value.operands[0]
            while isinstance(root, Instruction) and root in self.plan.inline:
                root = root.operands[0]
            return f"{plain_name(root.name)}_i" if plain_name(root.name) else ""
        if isinstance(value, BlockArg) and found == "trip":
            return "rounds"
        for c in self.counted.values():
            if value is c.variable:
                return found if found and found not in ("trip",) and len(found) < 12 else "k"
        return found

    def _named(self, node: Any) -> Any:
        return _Naming(self).visit(copy.deepcopy(node))

    def _filled(self, s: Statement, writes: Sequence[Value] = ()) -> Statement:
        match s:
            case Simple(node, loc):
                named = self._named(node)
                if isinstance(named, gast.Assign) and len(writes) == 1 and is_scalar(writes[0]):
                    return _updated(named.targets[0], named.value, loc)
                return Simple(named, loc)
            case If(test, then, orelse, loc):
                return If(self._named(test), [*map(self._filled, then)], [*map(self._filled, orelse)], loc)
        return s

    def _copies(self, pairs: list[tuple[BlockArg, Node, Loc | None]]) -> list[Statement]:
        """Assignments that all read before any writes, in an order without temporaries where there is one."""
        todo = []
        for arg, node, loc in pairs:
            target, value = name(self._variables.name_of(arg)), self._named(node)
            if not same(target, value):
                todo.append((target, value, is_scalar(arg), loc))
        out: list[Statement] = []
        while todo:
            ready = [t for t in todo if not any(_mentions(o[1], t[0].id) for o in todo if o is not t)]
            if not ready:
                targets, values = [t[0] for t in todo], [t[1] for t in todo]
                out.append(assign(make_tuple(targets), make_tuple(values)))
                break
            target, value, number, loc = ready[0]
            todo.remove(ready[0])
            out.append(_updated(target, value, loc) if number else assign(target, value, loc))
        return out


def _check(function: Function) -> None:
    """UnsupportedSyntax for what an earlier pass lowers: what is no number, array, memory of these or tape."""
    values: list[Value] = [a for b in function.blocks for a in b.args]
    for i in function.instructions():
        if i.op.name in REFUSED:
            raise _refusal(i)
        values += [i, *i.all_operands()]
    for v in values:
        if isinstance(v, Variable) or not _is_plain(v.type):
            what = f"the variable @{v.name}" if isinstance(v, Variable) else f"a value of type {v.type}"
            reason = "NumPy has no bfloat16" if getattr(v.type, "dtype", None) is BF16 else LOWERED
            raise UnsupportedSyntax(f"{what} is not written as Python: {reason}", function.loc, code="DL120")


def _is_plain(t: Type) -> bool:
    match t:
        case TensorType():
            return t.dtype in OWN_DTYPES
        case PointerType():
            return isinstance(t.pointee, TensorType) and _is_plain(t.pointee)
        case StackType():
            return t.element is not None and _is_plain(t.element)
        case TupleType():
            return all(map(_is_plain, t.elements))
    return False


def _refusal(i: Instruction) -> UnsupportedSyntax:
    reason = REFUSED.get(i.op.name, "it has no spelling")
    return UnsupportedSyntax(f"'{i.op.name}' is not written as Python: {reason}", i.loc, code="DL120")


class _Naming(gast.NodeTransformer):
    """Placeholders to names."""

    def __init__(self, writer: FunctionWriter) -> None:
        self.writer = writer

    def visit_Name(self, node: Node) -> Node:
        value = self.writer._values.get(node.id)
        return node if value is None else name(self.writer._variables.name_of(value))


def _new_name(wanted: str, taken: set[str]) -> str:
    """A name that is not taken; it is from now on."""
    found, n = wanted, 0
    while found in taken or keyword.iskeyword(found):
        n += 1
        found = f"{wanted}{n}"
    taken.add(found)
    return found


def _is_droppable(i: Instruction) -> bool:
    if i.op.name == "extract" and isinstance(i.operands[0], Instruction) and i.operands[0].op.name == "apply":
        return False  # it is assigned by the call
    return i.op.is_pure or i.op.name in ("load", "createStack", "tuple", "extract", "allocateHeap")


def _mentions(node: Node, text: str) -> bool:
    return any(is_name(n, text) for n in gast.walk(node))


def _updated(target: Node, value: Node, loc: Loc | None) -> Statement:
    """`s = s + x` as `s += x`, of numbers."""
    if isinstance(value, gast.BinOp) and same(value.left, target):
        return augmented(target, value.op, value.right, loc)
    return assign(target, value, loc)


def _turned(node: Node) -> Node | None:
    return node.operand if isinstance(node, gast.UnaryOp) and isinstance(node.op, gast.USub) else None


def _copied(node: Node) -> Node:
    return gast.Call(gast.Attribute(node, "copy", gast.Load()), [], [])


def _fills(v: Value, t: TensorType) -> bool:
    """Whether an operand has the extents of the result."""
    return isinstance(v.type, TensorType) and v.type.rank == t.rank and v.type.shape == t.shape


def _is_stretched(v: Value) -> bool:
    """Whether `_stripped` may leave out what gives an operand its shape, so that others cannot rely on it."""
    return isinstance(v, Instruction) and (v.op.name == "broadcast" or (v.op.name == "padShape" and v.attrs["at"] == 0))


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float | complex)


__all__ = ["FunctionWriter", "Names"]
