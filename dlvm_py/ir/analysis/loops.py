"""Natural loops and how they nest.

An edge whose head dominates its tail is a back edge; its head is a loop's header, and the loop is what
reaches the back edge without passing the header. Back edges to one header make one loop. Cycles that are
entered at two places (irreducible; the front end builds none) are no loops here.
"""

from __future__ import annotations

from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.cfg import predecessors, reverse_postorder
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.function import Block, Function


class Loop:
    """One natural loop. `ordered` lists its blocks in reverse postorder, the header first."""

    def __init__(self, header: Block, ordered: list[Block], latches: list[Block]) -> None:
        self.header = header
        self.ordered = ordered
        self.blocks = set(ordered)
        self.latches = latches
        self.parent: Loop | None = None
        self.children: list[Loop] = []

    @property
    def depth(self) -> int:
        """How many loops contain its header: 1 for an outermost loop."""
        return 1 if self.parent is None else self.parent.depth + 1

    @property
    def outermost(self) -> Loop:
        """The loop around all that contain this one, which may be itself."""
        return self if self.parent is None else self.parent.outermost

    def contains(self, block: Block) -> bool:
        """Whether `block` is in this loop or in one inside it."""
        return block in self.blocks

    def exit_edges(self) -> list[tuple[Block, int]]:
        """The edges that leave the loop, each as (block inside, index among its targets)."""
        return [(b, k) for b in self.ordered for k, t in enumerate(b.targets) if t.block not in self.blocks]

    @property
    def exiting_block(self) -> Block | None:
        """The block that the loop is left from, where there is one edge only that leaves it."""
        exits = self.exit_edges()
        return exits[0][0] if len(exits) == 1 else None

    def __repr__(self) -> str:
        return f"<loop at {self.header!r}, depth {self.depth}>"


class LoopForest:
    """All loops of a function. `top` are the outermost ones; inner loops come after outer ones in `loops`."""

    def __init__(self, function: Function) -> None:
        order = reverse_postorder(function)
        number = {block: k for k, block in enumerate(order)}
        dominators = of_graph(DominatorTree, function)
        edges = predecessors(function)
        self.loops: list[Loop] = []
        self.top: list[Loop] = []
        self._innermost: dict[Block, Loop] = {}
        # headers in reverse postorder: an outer loop is met before the loops in it
        for header in order:
            at = number[header]
            latches = [p for p, _ in edges[header] if number.get(p, -1) >= at and dominators.dominates(header, p)]
            latches = list(dict.fromkeys(latches))
            if not latches:
                continue
            body = {header}
            work = list(latches)
            while work:
                block = work.pop()
                if block not in body:
                    body.add(block)
                    work.extend(p for p, _ in edges[block] if p in number)
            self._add(Loop(header, sorted(body, key=number.__getitem__), latches))

    def _add(self, loop: Loop) -> None:
        parent = self._innermost.get(loop.header)
        loop.parent = parent
        (self.top if parent is None else parent.children).append(loop)
        self.loops.append(loop)
        for block in loop.ordered:
            self._innermost[block] = loop

    def loop_of(self, block: Block) -> Loop | None:
        """The innermost loop that contains `block`, None outside of loops."""
        return self._innermost.get(block)
