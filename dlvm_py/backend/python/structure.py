"""From the CFG to `if`, `while`, `for`, `break` and `continue`.

A block with several forward edges into it is written behind the block that dominates it, where the paths to it fall
through; a block with one is written where the edge is. A loop ends at one block, its *follow*; what leaves it for
elsewhere is written inside of it if that ends, or comes to the follow, by itself. Conditions that share a target are
joined by `and` and `or` before.

Source: Ramsey, "Beyond Relooper: recursive translation of unstructured control flow to structured control flow"
(2022), for the placement; Python has no labels, so that what needs them raises Unstructured and is written as a state
machine, `dispatched`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import gast

from dlvm_py.backend.python.elementwise import both
from dlvm_py.backend.python.nodes import (
    If,
    Jump,
    Loop,
    Node,
    Simple,
    Statement,
    assign,
    constant,
    ends,
    is_name,
    lines,
    name,
    negated,
    same,
)
from dlvm_py.errors import Loc
from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import OPS, Block, Function, Instruction, Literal, Target, scalar
from dlvm_py.ir.analysis import DominatorTree, LoopForest, predecessors, reverse_postorder
from dlvm_py.ir.analysis import Loop as Cycle
from dlvm_py.ir.types import BOOL, VOID


class Unstructured(Exception):
    """The control flow needs labels."""


class Edge(Mutable):
    """An edge: where it goes, and what is assigned on it."""

    to: Block
    copies: list[Statement]


class Vertex(Mutable):
    """A block as it is written: its statements, the test of its end if it has two edges, and the edges."""

    body: list[Statement]
    test: Node | None
    edges: list[Edge]
    counted: tuple[Node, Node, int] | None = None  # of a loop's header: `for target in iterable`, the edge that leaves
    loc: Loc | None = None


class Graph(Mutable):
    """The blocks of a function; `blocks` have no instructions but their terminators."""

    entry: Block
    vertices: dict[Block, Vertex] = field(default_factory=dict)


def structured(graph: Graph) -> list[Statement]:
    """The statements of a function; Unstructured if it takes labels."""
    _return_early(graph)
    _join_conditions(graph)
    return _Writer(graph).written()


# -- returns ---------------------------------------------------------------------------------------------------


def _return_early(graph: Graph) -> None:
    """Give every edge to a block that only returns a block of its own: `return x` where x is known."""
    for block, v in list(graph.vertices.items()):
        edges = [e for u in graph.vertices.values() for e in u.edges if e.to is block]
        if v.edges or len(v.body) != 1 or not isinstance(v.body[0], Simple) or len(edges) < 2:
            continue
        for e in edges:
            own = Block(block.name)
            graph.vertices[own] = Vertex(_substituted([*e.copies, copy.deepcopy(v.body[0])]), None, [])
            e.to, e.copies = own, []
        del graph.vertices[block]


def _substituted(body: list[Statement]) -> list[Statement]:
    """`x = value; return f(x)` as `return f(value)`."""
    while len(body) > 1 and isinstance(body[-2], Simple) and isinstance(body[-1], Simple):
        first, last = body[-2].node, body[-1].node
        if not isinstance(first, gast.Assign) or not is_name(first.targets[0]) or not isinstance(last, gast.Return):
            break
        places = [n for n in gast.walk(last) if is_name(n, first.targets[0].id)]
        others = [n for s in body[:-2] if isinstance(s, Simple) for n in gast.walk(s.node)]
        if len(places) > 1 or any(is_name(n, first.targets[0].id) for n in others):
            break
        node = _Replacing(first.targets[0].id, first.value).visit(copy.deepcopy(last))
        body = [*body[:-2], Simple(node, body[-2].loc or body[-1].loc)]
    return body


class _Replacing(gast.NodeTransformer):
    def __init__(self, text: str, value: Node) -> None:
        self.text = text
        self.value = value

    def visit_Name(self, node: Node) -> Node:
        return self.value if node.id == self.text else node

    def visit_Call(self, node: Node) -> Node:
        node = self.generic_visit(node)
        given = node.args[0] if len(node.args) == 1 else None
        # float(1.0)
        if isinstance(given, gast.Constant) and is_name(node.func, type(given.value).__name__):
            return given
        return node


# -- conditions that share a target ------------------------------------------------------------------------


def _join_conditions(graph: Graph) -> None:
    changed = True
    while changed:
        changed = False
        counts: dict[Block, int] = {}
        for v in graph.vertices.values():
            for e in v.edges:
                counts[e.to] = counts.get(e.to, 0) + 1
        for block, v in list(graph.vertices.items()):
            if block in graph.vertices and v.test is not None and v.counted is None:
                while _joined(graph, block, v, counts):
                    changed = True


def _joined(graph: Graph, block: Block, v: Vertex, counts: dict[Block, int]) -> bool:
    """Join the test of a block with that of a successor which does nothing else."""
    assert v.test is not None
    for k, other in ((0, 1), (1, 0)):
        to = v.edges[k].to
        inner = graph.vertices[to]
        if counts[to] != 1 or to is block or inner.body or inner.test is None or inner.counted or v.edges[k].copies:
            continue
        for j in (0, 1):
            if _alike(inner.edges[j], v.edges[other]):
                # what must hold so that the inner's other edge is taken
                first = v.test if k == 0 else negated(v.test)
                second = inner.test if j == 1 else negated(inner.test)
                if k == 0:
                    v.test = both(first, second)
                    v.edges = [inner.edges[1 - j], v.edges[1]]
                else:
                    v.test = gast.BoolOp(gast.Or(), [v.test, negated(second)])
                    v.edges = [v.edges[0], inner.edges[1 - j]]
                counts[v.edges[other].to] -= 1
                del graph.vertices[to]
                return True
    return False


def _alike(a: Edge, b: Edge) -> bool:
    return a.to is b.to and list(lines(a.copies)) == list(lines(b.copies))


# -- the writer ----------------------------------------------------------------------------------------------


def _skeleton(graph: Graph) -> Function:
    """A function of the same control flow, for the analyses."""
    skeleton = Function("", VOID)
    true = Literal(scalar(BOOL), True)
    for block in graph.vertices:
        block.instructions.clear()
        targets = [Target(e.to) for e in graph.vertices[block].edges]
        op = ("return", "branch", "conditional")[len(targets)]
        block.append(Instruction(OPS[op], [true] if len(targets) == 2 else [], {}, targets, VOID))
        skeleton.blocks.append(block)
    skeleton.blocks.remove(graph.entry)
    skeleton.blocks.insert(0, graph.entry)
    return skeleton


class _Writer:
    """Writes the blocks of a graph. `after`: where control goes at the end of what is written."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        skeleton = _skeleton(graph)
        self.dominators = DominatorTree(skeleton)
        self.loops = LoopForest(skeleton)
        order = reverse_postorder(skeleton)
        self.number = {b: k for k, b in enumerate(order)}
        edges = predecessors(skeleton)
        self.forward = {
            b: sum(self.number.get(p, -1) >= 0 and not self._is_back(p, b) for p, _ in edges[b]) for b in order
        }
        self.children: dict[Block, list[Block]] = {b: [] for b in order}
        for b in order:
            parent = self.dominators.idom.get(b)
            if parent is not None:
                self.children[parent].append(b)
        for b in order:
            for s in b.successors():
                if self.number[s] <= self.number[b] and not self.dominators.dominates(s, b):
                    raise Unstructured("a loop with two entries")
        self.heads = {loop.header: loop for loop in self.loops.loops}
        self.elsewhere: set[Block] = set()  # the headers of the loops around, and their follows

    def _is_back(self, block: Block, to: Block) -> bool:
        return self.dominators.dominates(to, block)

    def written(self) -> list[Statement]:
        """The whole function."""
        return self._region(self.graph.entry, None, None)

    def _region(self, b: Block, after: Block | None, around: tuple[Block, Block | None] | None) -> list[Statement]:
        if b in self.heads:
            return self._loop(self.heads[b], after, around)
        return self._chain(b, after, around, lambda then: self.graph.vertices[b].body + self._end(b, then, around))

    def _chain(
        self,
        b: Block,
        after: Block | None,
        around: tuple[Block, Block | None] | None,
        first: Callable[[Block | None], list[Statement]],
    ) -> list[Statement]:
        """What a block begins, then the joins that it dominates."""
        loop = None if around is None else self.heads[around[0]]
        joins = [
            m for m in self.children[b]
            if self.forward[m] > 1 and (loop is None or loop.contains(m) == loop.contains(b))
            and (around is None or m is not around[1])
        ]  # fmt: skip
        joins.sort(key=self.number.__getitem__)
        nexts = [*joins, after]
        out = first(nexts[0])
        for k, m in enumerate(joins):
            out = out + self._region(m, nexts[k + 1], around)
        return out

    def _end(self, b: Block, after: Block | None, around: tuple[Block, Block | None] | None) -> list[Statement]:
        v = self.graph.vertices[b]
        parts = [e.copies + self._jump(e.to, after, around) for e in v.edges]
        if len(parts) < 2:
            return parts[0] if parts else []
        assert v.test is not None
        return conditional(v.test, parts[0], parts[1])

    def _jump(self, to: Block, after: Block | None, around: tuple[Block, Block | None] | None) -> list[Statement]:
        if to is after:
            return []
        if around is not None and to is around[0]:
            return [Jump("continue")]
        if around is not None and to is around[1]:
            return [Jump("break")]
        if self.forward[to] > 1 or to in self.elsewhere:
            raise Unstructured("a jump over what follows, or out of several loops")
        return self._region(to, after, around)

    # -- loops -----------------------------------------------------------------------------------------------

    def _loop(self, loop: Cycle, after: Block | None, around: tuple[Block, Block | None] | None) -> list[Statement]:
        h, v = loop.header, self.graph.vertices[loop.header]
        follow = self._follow(loop, after)
        inside = (h, follow)
        around_us = self.elsewhere
        self.elsewhere = around_us | {h} | ({follow} if follow is not None else set())
        placed = [m for m in self.children[h] if not loop.contains(m) and self.forward[m] > 1]
        if around is not None:
            outer = self.heads[around[0]]
            placed = [m for m in placed if outer.contains(m) == outer.contains(h) and m is not around[1]]
        elsewhere = follow is None or follow is after or (around is not None and follow in around)
        if not elsewhere and follow not in placed:
            assert follow is not None
            if not self.dominators.dominates(h, follow) or self.forward[follow] > 1:
                raise Unstructured("a loop ends in the middle of something else")
            placed.append(follow)
        placed.sort(key=self.number.__getitem__)
        nexts = [*placed, after]
        if placed and follow is not placed[0]:
            raise Unstructured("several places behind a loop")
        leaving = [k for k, e in enumerate(v.edges) if not loop.contains(e.to)]
        if len(v.edges) == 2 and len(leaving) == 1 and not v.body:
            out = self._tested(h, v, leaving[0], inside, around)
        else:
            body = self._chain(h, h, inside, lambda then: v.body + self._end(h, then, inside))
            out = [Loop(constant(True), without_last_continue(body), loc=v.loc)]
        self.elsewhere = around_us
        if follow is not None and elsewhere:
            out = out + self._jump(follow, nexts[0], around)
        for k, m in enumerate(placed):
            out = out + self._region(m, nexts[k + 1], around)
        return out

    def _tested(
        self,
        h: Block,
        v: Vertex,
        leaving: int,
        inside: tuple[Block, Block | None],
        around: tuple[Block, Block | None] | None,
    ) -> list[Statement]:
        """A loop whose header is a test and nothing else: `while test` or `for ... in ...`."""
        stay, leave = v.edges[1 - leaving], v.edges[leaving]
        body = self._chain(h, h, inside, lambda then: stay.copies + self._jump(stay.to, then, inside))
        last = leave.copies + self._jump(leave.to, inside[1], around)
        if v.counted is not None:
            loop = Loop(v.counted[1], without_last_continue(body), target=v.counted[0], loc=v.loc)
        else:
            assert v.test is not None
            loop = Loop(negated(v.test) if leaving == 0 else v.test, without_last_continue(body), loc=v.loc)
        if v.counted is not None and not loop.body:
            return last
        if last and breaks(body):
            loop.orelse = last
            return [loop]
        return [loop, *last]

    def _follow(self, loop: Cycle, after: Block | None) -> Block | None:
        """The block that stands behind a loop."""
        edges = [b.targets[t].block for b, t in loop.exit_edges()]
        exits = sorted(dict.fromkeys(edges), key=self.number.__getitem__)
        if len(exits) <= 1:
            return exits[0] if exits else None
        at_head = [e.block for e in loop.header.targets if e.block in exits]
        leaving = {e: self._leaving(e) for e in exits if self.forward[e] == 1}
        joins = {b for some in leaving.values() for b in some}
        candidates = [after] if after is not None else []
        for candidate in [*candidates, *at_head, *exits, *sorted(joins, key=self.number.__getitem__)]:
            others = [e for e in exits if e is not candidate]
            if all(e in leaving and leaving[e] <= {candidate} for e in others):
                if candidate is not after or candidate in exits or candidate in joins:
                    return candidate
        raise Unstructured("a loop with several ends")

    def _leaving(self, block: Block) -> set[Block]:
        """Where edges go that leave the blocks which a block dominates."""
        inside = {b for b in self.number if self.dominators.dominates(block, b)}
        return {s for b in inside for s in b.successors() if s not in inside}


def without_last_continue(body: list[Statement]) -> list[Statement]:
    """A loop's body without a `continue` at its end."""
    return body[:-1] if body and isinstance(body[-1], Jump) and body[-1].word == "continue" else body


def conditional(test: Node, then: list[Statement], orelse: list[Statement]) -> list[Statement]:
    """An `if`, without the branches that are empty, and without `else` behind what ends."""
    if not then and not orelse:
        return []
    if not then or (ends(orelse) and not ends(then)):
        test, then, orelse = negated(test), orelse, then
    if ends(then):
        return [If(test, then), *orelse]
    flag = _flag(test, then, orelse)
    return [If(test, then, orelse)] if flag is None else [flag]


def _flag(test: Node, then: list[Statement], orelse: list[Statement]) -> Statement | None:
    """`flag = test` where one branch says True, the other one False."""
    if len(then) != 1 or len(orelse) != 1:
        return None
    a, b = (s.node if isinstance(s, Simple) else None for s in (then[0], orelse[0]))
    if not isinstance(a, gast.Assign) or not isinstance(b, gast.Assign) or not same(a.targets[0], b.targets[0]):
        return None
    values = [n.value.value if isinstance(n.value, gast.Constant) else None for n in (a, b)]
    if values == [True, False] and isinstance(values[0], bool):
        return assign(a.targets[0], test)
    return assign(a.targets[0], negated(test)) if values == [False, True] and isinstance(values[0], bool) else None


def breaks(body: list[Statement]) -> bool:
    """Whether a loop with this body may be left by `break`."""
    for s in body:
        match s:
            case Jump(word):
                if word == "break":
                    return True
            case If(_, then, orelse):
                if breaks(then) or breaks(orelse):
                    return True
            case Loop():
                if breaks(s.orelse):
                    return True
    return False


# -- without structure -----------------------------------------------------------------------------------------


def dispatched(graph: Graph, variable: str) -> list[Statement]:
    """A loop over a variable that says which block is next: for what cannot be written without labels."""
    number = {b: k for k, b in enumerate(graph.vertices)}
    chain: list[Statement] = []
    for block, v in reversed(graph.vertices.items()):
        parts = [[*e.copies, assign(name(variable), constant(number[e.to]))] for e in v.edges]
        tail: list[Statement] = []
        if len(parts) == 2:
            assert v.test is not None
            tail = [If(v.test, parts[0], parts[1])]
        elif parts:
            tail = parts[0]
        test = gast.Compare(name(variable), [gast.Eq()], [constant(number[block])])
        chain = [If(test, v.body + tail, chain)]
    return [assign(name(variable), constant(number[graph.entry])), Loop(constant(True), chain)]
