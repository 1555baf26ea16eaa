"""CFG canonicalization: one exit, a merge point for every nested conditional, loops in a standard shape.

    'entry(%x: i32):                                     'entry(%x: i32):            // unchanged
        %0.0 = lessThan %x: i32, 0: i32                  'neg():
        conditional %0.0: bool then 'neg() else 'pos()       branch 'exit(0: i32)
    'neg():                                              'pos():                     // unchanged
        return 0: i32                                    'big():
    'pos():                                                  branch 'pos_join(9: i32)
        %2.0 = greaterThan %x: i32, 9: i32       =>      'small():
        conditional %2.0: bool then 'big() else 'small()     branch 'pos_join(%x: i32)
    'big():                                              'pos_join(%5^0: i32):
        return 9: i32                                        branch 'exit(%5^0: i32)
    'small():                                            'exit(%exit_value: i32):
        return %x: i32                                       return %exit_value: i32

Three steps, the second and third until they find nothing:

1. If several blocks return, one block `exit` does in their place; `%exit_value` is the result (an argument an
   element for a tuple, none for a function without result). Blocks that raise stay as they are.
2. A block s that forks, below a block p with the same immediate post-dominator d, gets a merge point of its own:
   the edges to d from the blocks that s dominates go through a new block `<s>_join` before d.
3. A loop whose header is the entry gets a new entry (own_entry.py). Loops, innermost first: entering edges that do not
   come from one block with one successor go through `<header>_preheader`, before the header; several back edges go
   through `latch`, after the last of them; exits that blocks outside of the loop lead to as well are reached through
   a new block `exit` before them.

All of it is one operation, `join_edges`: a new block on some of the edges to a block, with anonymous arguments
that it passes on. It keeps dominance, because it adds no path. Each step removes what it looks for and makes no
new instance of it, so the steps end, and a second run changes nothing. The graph is analysed again after every new
block: quadratic in the number of blocks at worst. Any stage before ownership.

Source: DLVM's CFGCanonicalization, which did not end for loops nested three deep. The reverse sweep of
differentiate/ needs more (differentiate/normal_form.py), and uses the same operation.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, VOID, Block, Builder, Function, Instruction, TupleType, Value
from dlvm_py.ir.analysis import DominatorTree, LoopForest, PostDominatorTree, predecessors, reverse_postorder
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.transforms import own_entry

Edge = tuple[Block, int]  # a block and the index of one of its targets


def run(function: Function) -> bool:
    """Bring the control flow graph of `function` into canonical form; whether anything changed."""
    changed = own_entry.run(function, named=False)
    changed |= _unify_returns(function)
    while _add_join(function) or _shape_loop(function):
        changed = True
    return changed


# -- what normal_form uses too -----------------------------------------------------------------------


def join_edges(function: Function, edges: list[Edge], name: str) -> Block:
    """Make one new block, at the end of the layout, the way that `edges`, all to one block, take."""
    source, index = edges[0]
    target = source.targets[index].block
    middle = function.new_block(name)
    passed: list[Value] = [middle.add_arg(a.type) for a in target.args]
    Builder(function, middle).branch(target, passed)
    for source, index in edges:
        source.targets[index].block = middle
    return middle


def move_block(function: Function, block: Block, *, before: Block | None = None, after: Block | None = None) -> None:
    """Change the place of `block` in the layout."""
    function.blocks.remove(block)
    at = function.blocks.index(before) if before is not None else len(function.blocks)
    function.blocks.insert(function.blocks.index(after) + 1 if after is not None else at, block)


def result_leaves(function: Function, i: Instruction) -> list[Value]:
    """What the return `i` gives back: no value, one, or the elements of a tuple."""
    if not i.operands or i.operands[0].type == VOID:
        return []
    (value,) = i.operands
    if not isinstance(value.type, TupleType):
        return [value]
    if isinstance(value, Instruction) and value.op is OPS["tuple"]:
        return list(value.operands)
    b = Builder(function).before(i)
    return [b.emit("extract", value, at=k) for k in range(len(value.type.elements))]


def returns(function: Function) -> list[Instruction]:
    """All returns, in layout order."""
    return [i for i in function.instructions() if i.op is OPS["return"]]


# -- 1. one exit -------------------------------------------------------------------------------------


def _unify_returns(function: Function) -> bool:
    found = returns(function)
    if len(found) < 2:
        return False
    results = [result_leaves(function, i) for i in found]
    block = function.new_block("exit")
    args: list[Value] = [block.add_arg(v.type, "exit_value") for v in results[0]]
    b = Builder(function)
    for i, leaves in zip(found, results, strict=True):
        assert i.block is not None
        i.block.instructions.remove(i)
        b.at_end(i.block).branch(block, leaves).loc = i.loc
    b.at_end(block)
    if isinstance(function.result, TupleType) and args:
        args = [b.emit("tuple", *args)]
    b.ret(*args)
    return True


# -- 2. joins ----------------------------------------------------------------------------------------


def _add_join(function: Function) -> bool:
    """Give the first fork that lacks one its merge point."""
    dominators, post = DominatorTree(function), PostDominatorTree(function)
    edges = predecessors(function)
    for p in _breadth_first(function):
        for s in dict.fromkeys(p.successors()):
            meeting = post.ipdom.get(s)
            if len(set(s.successors())) < 2 or meeting is None or post.ipdom.get(p) is not meeting or s is p:
                continue
            ours = [e for e in edges[meeting] if dominators.dominates(s, e[0])]
            if len(ours) < 2 or len(ours) == len(edges[meeting]) or dominators.dominates(meeting, s):
                continue
            join = join_edges(function, ours, f"{s.name}_join" if s.name else "")
            move_block(function, join, before=meeting)
            return True
    return False


def _breadth_first(function: Function) -> list[Block]:
    found = {function.entry: None}
    for block in (order := [function.entry]):
        for s in block.successors():
            if s not in found:
                found[s] = None
                order.append(s)
    return order


# -- 3. loops ----------------------------------------------------------------------------------------


def _shape_loop(function: Function) -> bool:
    """Mend the first thing that is missing in an innermost loop that lacks something."""
    edges = predecessors(function)
    reachable = set(reverse_postorder(function))
    edges = {block: [e for e in found if e[0] in reachable] for block, found in edges.items()}
    return any(
        _add_preheader(function, loop, edges) or _add_latch(function, loop, edges) or _add_exit(function, loop, edges)
        for loop in reversed(LoopForest(function).loops)
    )


def _add_preheader(function: Function, loop: Loop, edges: dict[Block, list[Edge]]) -> bool:
    header = loop.header
    outside = [e for e in edges[header] if not loop.contains(e[0])]
    if not outside or len(outside) == 1 and len(outside[0][0].targets) == 1:
        return False
    block = join_edges(function, outside, f"{header.name}_preheader" if header.name else "")
    move_block(function, block, before=header)
    return True


def _add_latch(function: Function, loop: Loop, edges: dict[Block, list[Edge]]) -> bool:
    if len(loop.latches) < 2:
        return False
    last = max(loop.latches, key=function.blocks.index)
    back = [e for e in edges[loop.header] if loop.contains(e[0])]
    move_block(function, join_edges(function, back, "latch"), after=last)
    return True


def _add_exit(function: Function, loop: Loop, edges: dict[Block, list[Edge]]) -> bool:
    for block, index in loop.exit_edges():
        target = block.targets[index].block
        if all(loop.contains(p) for p, _ in edges[target]):
            continue
        ours = [e for e in edges[target] if loop.contains(e[0])]
        move_block(function, join_edges(function, ours, "exit"), before=target)
        return True
    return False
