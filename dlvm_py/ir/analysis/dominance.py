"""Dominator and post-dominator trees.

Source: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm" (2001). Nodes are numbered in
reverse postorder; immediate dominators are refined by intersecting paths up the tree until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.ir.analysis.cfg import predecessors, reverse_postorder
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.value import BlockArg, Instruction, Value


def _immediate(count: int, incoming: Sequence[Sequence[int]]) -> list[int]:
    """Immediate dominators of nodes 0..count-1 numbered in reverse postorder; the root 0 has itself."""
    idom = [-1] * count
    idom[0] = 0

    def intersect(a: int, b: int) -> int:
        while a != b:
            if a > b:
                a = idom[a]
            else:
                b = idom[b]
        return a

    changed = True
    while changed:
        changed = False
        for node in range(1, count):
            new = -1
            for p in incoming[node]:
                if idom[p] >= 0:
                    new = p if new < 0 else intersect(p, new)
            if idom[node] != new:
                idom[node], changed = new, True
    return idom


def _intervals(idom: Sequence[int]) -> tuple[list[int], list[int]]:
    """Numbers (first, last) of a depth-first walk of the tree: a dominates b iff b's first lies in a's."""
    children: list[list[int]] = [[] for _ in idom]
    for node in range(1, len(idom)):
        children[idom[node]].append(node)
    first, last = [0] * len(idom), [0] * len(idom)
    clock, work = 0, [(0, False)]
    while work:
        node, done = work.pop()
        if done:
            last[node] = clock
            continue
        clock += 1
        first[node] = clock
        work.append((node, True))
        work.extend((child, False) for child in reversed(children[node]))
    return first, last


class DominatorTree:
    """Which blocks lie on every path from the entry to a block. Unreachable blocks are not in the tree.

    `idom` maps each reachable block to its immediate dominator, the entry to None. `children` is the
    tree, in reverse postorder.
    """

    def __init__(self, function: Function) -> None:
        order = reverse_postorder(function)
        self._number = {block: k for k, block in enumerate(order)}
        edges = predecessors(function)
        incoming = [[self._number[p] for p, _ in edges[b] if p in self._number] for b in order]
        idom = _immediate(len(order), incoming)
        self.idom: dict[Block, Block | None] = {b: order[idom[k]] if k else None for k, b in enumerate(order)}
        self.children: dict[Block, list[Block]] = {b: [] for b in order}
        for k in range(1, len(order)):
            self.children[order[idom[k]]].append(order[k])
        self._first, self._last = _intervals(idom)
        self._positions: dict[Block, dict[Instruction, int]] = {}

    def dominates(self, a: Block, b: Block) -> bool:
        """Whether every path to `b` passes `a` (also when they are the same; true where b is unreachable)."""
        if b not in self._number:
            return True
        if a not in self._number:
            return False
        i, j = self._number[a], self._number[b]
        return self._first[i] <= self._first[j] <= self._last[i]

    def instruction_dominates(self, value: Value, user: Instruction) -> bool:
        """Whether `value` is defined wherever `user` runs. Literals always are."""
        if isinstance(value, BlockArg):
            home: Block | None = value.block
        elif isinstance(value, Instruction):
            home = value.block
        else:
            return True
        if home is None or user.block is None:
            return False
        if home is user.block and isinstance(value, Instruction):
            if home not in self._number:
                return True
            return self._position(value) < self._position(user)
        return self.dominates(home, user.block)

    def _position(self, instruction: Instruction) -> int:
        # remembered a block at a time, and counted again where the block has changed since
        block = instruction.block
        assert block is not None
        k = self._positions.get(block, {}).get(instruction, -1)
        if not 0 <= k < len(block.instructions) or block.instructions[k] is not instruction:
            self._positions[block] = {i: n for n, i in enumerate(block.instructions)}
            k = self._positions[block][instruction]
        return k


class PostDominatorTree:
    """Which blocks lie on every path from a block to the end of the function.

    All blocks that return or raise precede one virtual exit. `ipdom` maps each block from which the end
    is reachable to its immediate post-dominator, None for the virtual exit.
    """

    def __init__(self, function: Function) -> None:
        reachable = reverse_postorder(function)
        edges = predecessors(function)
        exits = [b for b in reachable if not b.targets]
        order = _reverse_order(exits, lambda b: [p for p, _ in edges[b]], set(reachable))
        # node 0 is the virtual exit
        self._number = {block: k + 1 for k, block in enumerate(order)}
        incoming: list[list[int]] = [[]] + [
            [self._number[s] for s in b.successors() if s in self._number] + ([] if b.targets else [0]) for b in order
        ]
        ipdom = _immediate(len(order) + 1, incoming)
        self.ipdom: dict[Block, Block | None] = {
            b: order[ipdom[k + 1] - 1] if ipdom[k + 1] else None for k, b in enumerate(order)
        }
        self._first, self._last = _intervals(ipdom)

    def postdominates(self, a: Block, b: Block) -> bool:
        """Whether every path from `b` to the end passes `a` (also when they are the same)."""
        if a not in self._number or b not in self._number:
            return a is b
        i, j = self._number[a], self._number[b]
        return self._first[i] <= self._first[j] <= self._last[i]


def _reverse_order(roots: list[Block], next_of: Callable[[Block], list[Block]], within: set[Block]) -> list[Block]:
    """Reverse postorder from several roots along `next_of`, inside `within`."""
    seen: set[Block] = set()
    postorder: list[Block] = []
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        work = [(root, iter(next_of(root)))]
        while work:
            block, rest = work[-1]
            for following in rest:
                if following in within and following not in seen:
                    seen.add(following)
                    work.append((following, iter(next_of(following))))
                    break
            else:
                postorder.append(block)
                work.pop()
    return postorder[::-1]
