"""The control flow that the reverse sweep needs, made from any function.

* One exit: all returns lead to one block, which gets no terminator here; `leaves` are the returned values.
* Every loop has one preheader, one latch, and one exit edge. A loop with several exits (break, return
  inside) gets a common tail, to which each way out brings its number; after the tail the number decides:

      'head: … then 'body else 'out          'head: … then 'body else 'x1
      'body: … then 'found else 'latch   →   'x1: branch 'tail(1)      'x2: branch 'tail(2)
                                             'latch: branch 'tail(0)
                                             'tail(%way): %way = 0 then 'again else 'ways

  Otherwise the reversed loop could be entered at two places, and would be no natural loop.
* No critical edges, and no arguments to a block with one predecessor. Hence a block with several
  predecessors is reached by plain branches only, and those alone carry arguments.

Edges to blocks that end in `raise` keep out of this: the reverse sweep never comes from there.
"""

from __future__ import annotations

from dlvm_py.errors import PassError
from dlvm_py.frozen import Mutable
from dlvm_py.ir import Block, Builder, Function, Literal, Target, Value, literal
from dlvm_py.ir.analysis import DominatorTree, LoopForest, predecessors, reverse_postorder
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.types import I64, scalar
from dlvm_py.ir.value import integer
from dlvm_py.transforms import ssa_repair
from dlvm_py.transforms.cfg_canonicalization import join_edges, move_block, result_leaves, returns


class Exit(Mutable):
    """Where the function ends: the exit block, and the leaves of its result, defined there."""

    block: Block
    leaves: list[Value]


def normalize(function: Function) -> Exit | None:
    """Bring `function` to normal form in place. None: it never returns."""
    _fresh_entry(function)
    drop_unreachable(function)
    _refuse_irreducible(function)
    exit_ = unify_returns(function)
    if exit_ is None:
        return None
    _split_critical_edges(function)
    _shape_loops(function)
    while _give_one_exit(function, exit_.block):
        pass
    ssa_repair.run(function)
    _split_critical_edges(function)
    _fold_single_arguments(function, exit_)
    return exit_


def drop_unreachable(function: Function) -> None:
    """Remove the blocks that the entry does not lead to."""
    reachable = set(reverse_postorder(function))
    function.blocks = [b for b in function.blocks if b in reachable]


def _fresh_entry(function: Function) -> None:
    """Give a function whose entry is a loop header an entry of its own."""
    old = function.entry
    if not predecessors(function)[old]:
        return
    new = Block("start")
    function.blocks.insert(0, new)
    passed: list[Value] = [new.add_arg(p.type, p.name) for p in old.args]
    Builder(function, new).branch(old, passed)


def _refuse_irreducible(function: Function) -> None:
    number = {block: k for k, block in enumerate(reverse_postorder(function))}
    dominators = DominatorTree(function)
    for block in function.blocks:
        for following in block.successors():
            if number[following] <= number[block] and not dominators.dominates(following, block):
                raise PassError(f"a loop of @{function.name} is entered at two places: {following!r} is one")


# -- returns ---------------------------------------------------------------------------------------------


def unify_returns(function: Function) -> Exit | None:
    """Take the returns out and lead them to one block. None: there is none."""
    found = returns(function)
    if not found:
        return None
    results = [result_leaves(function, i) for i in found]
    if len(found) == 1:
        block = found[0].block
        assert block is not None
        block.instructions.remove(found[0])
        return Exit(block, results[0])
    block = function.new_block("exit")
    args: list[Value] = [block.add_arg(v.type, v.name) for v in results[0]]
    for i, leaves in zip(found, results, strict=True):
        assert i.block is not None
        i.block.instructions.remove(i)
        Builder(function, i.block).branch(block, leaves).loc = i.loc
    return Exit(block, args)


# -- edges -----------------------------------------------------------------------------------------------


def _split_edge(function: Function, source: Block, index: int, name: str) -> Block:
    """Put a new block on an edge; it takes over the arguments."""
    target = source.targets[index]
    middle = function.new_block(name, after=source)
    Builder(function, middle).branch(target.block, target.args).loc = source.instructions[-1].loc
    source.targets[index].block, source.targets[index].args = middle, []
    return middle


def _split_critical_edges(function: Function) -> None:
    edges = predecessors(function)
    for block in list(function.blocks):
        if len(edges[block]) > 1:
            for source, index in edges[block]:
                if len(source.targets) > 1:
                    _split_edge(function, source, index, "edge")


def _fold_single_arguments(function: Function, exit_: Exit) -> None:
    edges = predecessors(function)
    mapping: dict[Value, Value] = {}
    for block in function.blocks[1:]:
        if len(edges[block]) == 1 and block.args:
            ((source, index),) = edges[block]
            mapping.update(zip(block.args, source.targets[index].args, strict=True))
            block.args, source.targets[index].args = [], []
    function.substitute(mapping)
    for k, leaf in enumerate(exit_.leaves):
        while leaf in mapping:
            leaf = mapping[leaf]
        exit_.leaves[k] = leaf


# -- loops -----------------------------------------------------------------------------------------------


def _shape_loops(function: Function) -> None:
    """One preheader and one latch a loop. Critical edges are split, so each ends in a plain branch."""
    edges = predecessors(function)
    for loop in LoopForest(function).loops:
        outside = [e for e in edges[loop.header] if not loop.contains(e[0])]
        inside = [e for e in edges[loop.header] if loop.contains(e[0])]
        if len(outside) > 1:
            move_block(function, join_edges(function, outside, "preheader"), after=outside[-1][0])
        if len(inside) > 1:
            move_block(function, join_edges(function, inside, "latch"), after=inside[-1][0])


def leaving_edges(function: Function, loop: Loop, exit_block: Block) -> list[tuple[Block, int]]:
    """The edges that leave `loop` and can lead to the function's exit."""
    live = reaching(function, exit_block)
    return [(b, k) for b, k in loop.exit_edges() if b.targets[k].block in live]


def reaching(function: Function, exit_block: Block) -> set[Block]:
    """The blocks from which the exit can be reached."""
    edges = predecessors(function)
    found, work = {exit_block}, [exit_block]
    while work:
        for p, _ in edges[work.pop()]:
            if p not in found:
                found.add(p)
                work.append(p)
    return found


def _give_one_exit(function: Function, exit_block: Block) -> bool:
    """Route the exits of one loop that has several through a common tail; False where there is none."""
    for loop in reversed(LoopForest(function).loops):
        leaving = leaving_edges(function, loop, exit_block)
        if len(leaving) > 1:
            _add_tail(function, loop, leaving)
            return True
    return False


def _add_tail(function: Function, loop: Loop, leaving: list[tuple[Block, int]]) -> None:
    (latch,) = loop.latches
    back = latch.targets[0]
    tail = function.new_block("tail", after=latch)
    way = tail.add_arg(scalar(I64), "way")
    b = Builder(function)
    again = function.new_block("again", after=tail)
    b.at_end(again).branch(back.block, back.args)
    latch.instructions[-1].targets = [Target(tail, [literal(0)])]
    outs = []
    for number, (source, index) in enumerate(leaving, 1):
        beyond = _split_edge(function, source, index, "out")
        inside = _split_edge(function, source, index, "leave")
        inside.instructions[-1].targets = [Target(tail, [literal(number)])]
        outs.append(beyond)
    first = function.new_block("ways", after=again)
    b.at_end(tail)
    stay = b.emit("equal", way, literal(0))
    b.conditional(stay, again, [], first)
    _dispatch(function, b, way, first, outs)


def _dispatch(function: Function, b: Builder, way: Value, at: Block, outs: list[Block]) -> None:
    """Branch from `at` to the k-th of `outs` where `way` is k, counted from 1."""
    for number, out in enumerate(outs[:-1], 1):
        b.at_end(at)
        if number == len(outs) - 1:
            b.conditional(b.emit("equal", way, literal(number)), out, [], outs[-1])
            return
        following = function.new_block("ways", after=at)
        b.conditional(b.emit("equal", way, literal(number)), out, [], following)
        at = following


def passed_literals(edges: list[tuple[Block, int]], position: int) -> list[Literal] | None:
    """The literals that the edges pass for one argument, where all do and they are distinct."""
    values = [p.targets[t].args[position] for p, t in edges]
    numbers = {integer(v) for v in values}
    if None in numbers or len(numbers) != len(values):
        return None
    return [v for v in values if isinstance(v, Literal)]
