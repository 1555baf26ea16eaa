"""One function of the text: instructions to statements, with the variables' names filled in at the end.

Statements are made with a placeholder for every value (`_Place`); what they read is what stands in them. Then values
get variables, placeholders become names, and the blocks are put in order by structure.py.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import gast

from dlvm_py.backend.python import structure, tidy
from dlvm_py.backend.python.expressions import Names
from dlvm_py.backend.python.extents import unclipped
from dlvm_py.backend.python.nodes import (
    If,
    Node,
    Simple,
    Statement,
    assign,
    augmented,
    call,
    is_name,
    make_tuple,
    name,
    same,
)
from dlvm_py.backend.python.spelling import LOWERED, REFUSED
from dlvm_py.backend.python.statements import Statements
from dlvm_py.backend.python.variables import RESERVED, Flow, Step, Variables, new_name, plain_name
from dlvm_py.backend.python.writer import is_scalar, literal_of
from dlvm_py.errors import Loc, UnsupportedSyntax
from dlvm_py.ir import (
    BF16,
    OWN_DTYPES,
    Block,
    BlockArg,
    Function,
    Instruction,
    PointerType,
    StackType,
    TensorType,
    TupleType,
    Type,
    Value,
    Variable,
)

# of every block: what its statements assign, and they; its test; what is passed on its edges; the head of a `for`
_Made = dict[Block, list[tuple[list[Value], list[Statement]]]]
_Tests = dict[Block, Node | None]
_Edges = dict[Block, list[list[tuple[BlockArg, Node, Loc | None]]]]
_Heads = dict[Block, tuple[Node, Node]]


class FunctionWriter(Statements):
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
        self._given = parameters
        self._globals = set(globals_)
        super().__init__(function, names, strong, noalias=noalias)

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

    def _step(self, writes: list[Value], some: list[Statement]) -> Step:
        reads = [self._statement_reads(s) - set(writes) for s in some]
        return Step(writes, set().union(*reads), set().union(*reads[1:]))

    def _name(self, made: _Made, tests: _Tests, edges: _Edges, heads: _Heads) -> None:
        flows: dict[Block, Flow] = {}
        for b in self.plan.order:
            steps = [self._step(writes, some) for writes, some in made[b]]
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
            given = self._given[k] if self._given is not None else new_name(plain_name(p.name) or "x", taken)
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


__all__ = ["FunctionWriter", "Names"]
