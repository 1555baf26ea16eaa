"""Checkpointing: the reverse sweep of a loop runs it again, a segment at a time, from states that were kept.

The loop has been made two (strip_mine.py): a loop over segments, and the steps of one. Both sweeps are generated as
if all of it were taped. Then the graph is rearranged: the taped loop moves into the reverse sweep, where it runs one
segment, right before the reverse of that segment takes the tape off again. In its old place stands a copy without
tape, and another copy goes forward to where a segment begins:

    forward     P → F: all steps, no tape; counts the steps, and the bytes that a tape of them would have
                  → E …
    reverse     … E': how many steps a segment has, how many states are kept
                R:  k = the last segment that is not reversed yet
                    take the last state that was kept: of segment j ≤ k, and restore memory to it
                    while j < k: run the copy A for d segments, keep the state there, j += d
                O:  run segment k with tape
                O': reverse it; if k = 0 go to P', else k -= 1 and go to R

A *state* is what the loop carries (its block arguments) and the contents of all memory that it reads or writes and
that is written from its start on. Memory that is allocated in the loop and carried to the next step is kept by
reference: nothing writes it any more when it is carried, or the loop is left as it is. Its adjoint memory is made
anew for each segment, and what has been gathered at the start of one segment is added at the end of the one before.

The schedule is treeverse: with c states at hand, l segments, and r the smallest number with β(c, r) = C(c + r, r) ≥ l,
no segment is run more than r + 1 times. Source: Griewank, "Achieving logarithmic growth of temporal and spatial
complexity in reverse automatic differentiation" (1992); Griewank and Walther, Algorithm 799 (2000). The number of
steps is known when the reverse sweep begins, whatever loop it was, so that `while` needs no schedule of its own; the
price is one more run of the loop than with states that are kept already in the first sweep.

What is run again gives the same bits, and adjoints are added in the same order: so do the gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm_py.ir import UNDEFINED, Block, BlockArg, Builder, Instruction, Literal, PointerType, Value
from dlvm_py.ir.analysis import written_pointer
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.transforms.differentiate.arguments import allocate_empty, allocate_like, entry_builder
from dlvm_py.transforms.differentiate.control import Control
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.rearrange import Rearrangement, Segmented, is_inside
from dlvm_py.transforms.differentiate.record import Record
from dlvm_py.transforms.differentiate.shadows import zeros_like
from dlvm_py.transforms.differentiate.strip_mine import StripMined

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.reverse import Sweep


class Checkpoints:
    """The segmented loops of one differentiation."""

    def __init__(self, primal: Primal, mined: list[StripMined]) -> None:
        self._primal = primal
        self._function = primal.function
        by_header = {loop.header: loop for loop in primal.loops()}
        self._found: list[Segmented] = []
        mined_loops = [(m, by_header[m.segment]) for m in mined if m.segment in by_header]
        self.record = Record(primal, [loop for _, loop in mined_loops])
        # those over segments and those over their steps: what they keep belongs to a segment
        self.loops = {by_header[header] for m, _ in mined_loops for header in (m.segment, m.header)}
        for m, loop in mined_loops:
            roots = self._roots(loop)
            if isinstance(roots, str):
                self.record.segmented(loop, [], roots)
            else:
                self._found.append(Segmented(m, loop, roots))
                passed = zip(loop.header.args, self._primal.preheader(loop).targets[0].args, strict=True)
                carried = [v for a, v in passed if not isinstance(a.type, PointerType) or self._is_made_in(a, loop)]
                self.record.segmented(loop, [*roots, *carried])

    def can_segment(self, headers: list[Block]) -> bool:
        """Whether one of these loops could be run again, and there is a tape."""
        by_header = {loop.header: loop for loop in self._primal.loops()}
        found = [by_header[h] for h in headers if h in by_header]
        return any(not isinstance(self._roots(loop), str) for loop in found) and self.record.keeps_some()

    # -- which loops -----------------------------------------------------------------------------------

    def _roots(self, loop: Loop) -> list[Value] | str:
        """The memory that a state of `loop` has to hold; where its states cannot be kept, why."""
        primal, roots = self._primal, self._primal.points_to.roots
        exit_ = primal.exits[loop]
        later = [b for b in _following(exit_) if b not in loop.blocks]
        used: dict[Value, None] = {}
        for i in self._bodies(loop.ordered):
            if i.op.name in ("load", "store", "scatter"):
                used.update(dict.fromkeys(roots(i.operands[0 if i.op.name == "load" else 1])))
        here = [p for i in self._bodies(loop.ordered) if (p := written_pointer(i)) is not None]
        behind = [p for i in self._bodies(later) if (p := written_pointer(i)) is not None]
        written = frozenset().union(*map(roots, here), *map(roots, behind))
        inside = {r for r in used if is_inside(r, loop)}
        held = [r for r in used if r in written and r not in inside]
        entered = primal.preheader(loop)
        for r in held:
            if isinstance(r, BlockArg):
                continue
            if r.op.name != "allocateHeap" or primal.loop_of(r.block) or not self._dominates(r, entered):  # type: ignore
                return "it writes an array that is not made in every run of the function"
        carried = {a for a in loop.header.args if isinstance(a.type, PointerType) and roots(a) & inside}
        if any(self._origins(p, loop) & carried for p in here):
            return "it writes an array that an earlier step has made"
        if any(roots(p) & inside for p in behind):
            return "an array that it has made is written afterwards"
        return held

    def _is_made_in(self, pointer: Value, loop: Loop) -> bool:
        return any(is_inside(r, loop) for r in self._primal.points_to.roots(pointer))

    def _bodies(self, blocks: list[Block]) -> list[Instruction]:
        return [i for block in blocks for i in self._primal.bodies.get(block, ())]

    def _dominates(self, root: Value, block: Block) -> bool:
        return self._primal.dominators.dominates(root.block, block)  # type: ignore[attr-defined]

    def _origins(self, pointer: Value, loop: Loop) -> set[Value]:
        """The pointers that `pointer` is a view of, in one iteration of `loop`: not looking through its header."""
        found: set[Value] = set()
        work, seen = [pointer], {pointer}
        while work:
            p = work.pop()
            flows: list[Value] = []
            if isinstance(p, BlockArg) and p.block is not loop.header and loop.contains(p.block):
                at = p.block.args.index(p)
                flows = [source.targets[t].args[at] for source, t in self._primal.edges[p.block]]
            elif isinstance(p, Instruction) and p.op.name != "allocateHeap" and p.operands:
                flows = [p.operands[0]]
            else:
                found.add(p)
            work += [v for v in flows if v not in seen]
            seen.update(flows)
        return found

    # -- adjoint memory at the end of a loop -------------------------------------------------------------

    def allot(self, sweep: Sweep) -> dict[Value, Value]:
        """Find the adjoint memory that each segment has anew. Whose it is, by it: that tells the extents."""
        for s in self._found:
            s.fresh = {
                shadow: value
                for value, shadow in sweep.shadows.pairs()
                if isinstance(value.type, PointerType)
                and shadow.block in s.loop.blocks  # type: ignore[attr-defined]
                and any(is_inside(r, s.loop) for r in self._primal.points_to.roots(value))
            }
        return {shadow: value for s in self._found for shadow, value in s.fresh.items()}

    def hand_over(self, sweep: Sweep) -> None:
        """Give what is used behind a loop, of memory allocated in it, adjoint memory of its own there."""
        for s in self._found:
            own = {*s.loop.blocks, *(sweep.blocks[b] for b in s.loop.ordered)}
            others = [b for b in self._function.blocks if b not in own]
            used = {o for b in others for i in b.instructions for o in i.all_operands()}
            b = Builder(self._function)
            b.block, b.position = self._primal.exits[s.loop], 0
            for shadow, value in s.fresh.items():
                if shadow in used:
                    for pointer in (value, shadow):
                        self._define(pointer, set())
                    _, behind = allocate_like(b, value, shadow.name)
                    for block in others:
                        for i in block.instructions:
                            i.substitute({shadow: behind})
                    b.emit("store", zeros_like(b, value), behind)
                    s.handed.append((shadow, behind))

    def _define(self, pointer: Value, seen: set[Value]) -> None:
        """Where an edge brings nothing for `pointer`, because only another way out of the loop uses it behind, let it
        bring an array without elements: what is handed over then has extents, and is read and written, on all ways.
        """
        if not isinstance(pointer, BlockArg) or pointer.block is self._function.entry or pointer in seen:
            return
        seen.add(pointer)
        at = pointer.block.args.index(pointer)
        for source, t in self._primal.edges[pointer.block]:
            args = source.targets[t].args
            if isinstance(args[at], Literal) and args[at].value is UNDEFINED:  # type: ignore[attr-defined]
                b = entry_builder(self._function)
                args[at] = allocate_empty(b, pointer.type, pointer.name)
                b.emit("store", zeros_like(b, args[at]), args[at])
            else:
                self._define(args[at], seen)

    # -- the new graph -----------------------------------------------------------------------------------

    def rearrange(self, sweep: Sweep, control: Control) -> list[Value]:
        """Move the taped loops into the reverse sweep, with what is kept for them. The stacks of the states."""
        stacks: list[Value] = []
        for s in self._found:
            if any(i.op.name == "push" for i in s.instructions()):
                stacks += Rearrangement(self._primal, s, sweep, control).run()
        return stacks


def _following(block: Block) -> list[Block]:
    """The blocks that `block` leads to, and itself."""
    found = {block: None}
    for b in (order := [block]):
        for following in b.successors():
            if following not in found:
                found[following] = None
                order.append(following)
    return order
