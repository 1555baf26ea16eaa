"""The analyses, against definitions by brute force on random graphs and on programs made for each rule."""

import random

import pytest
from irbuild import INDEX, new_function, pointer

from dlvm_py.ir import BOOL, F64, I64, NULL, OPS, UNDEFINED, Instruction, Literal, StackType, TupleType, literal, scalar
from dlvm_py.ir.analysis import (
    AliasAnalysis,
    DominatorTree,
    LoopForest,
    PostDominatorTree,
    effects,
    is_pure,
    liveness,
    may_trap,
    predecessors,
    reads_memory,
    reverse_postorder,
    uses,
    writes_memory,
)
from dlvm_py.ir.op import TRAP

VECTOR = pointer(F64, None)
FLAG = Literal(scalar(BOOL), True)


def graph(edges):
    """A function with blocks 0..n-1 and the given successors (none: return; one; two)."""
    _, f, b, _ = new_function()
    blocks = [f.entry, *(f.new_block(str(k)) for k in range(1, len(edges)))]
    for block, out in zip(blocks, edges, strict=True):
        b.at_end(block)
        if not out:
            b.ret()
        elif len(out) == 1:
            b.branch(blocks[out[0]])
        else:
            b.conditional(FLAG, blocks[out[0]], None, blocks[out[1]])
    return f, blocks


def random_graph(seed):
    """A random graph of up to 9 blocks; nothing branches to the entry."""
    rng = random.Random(seed)
    n = rng.randint(1, 9)
    return graph([[rng.randint(1, n - 1) for _ in range(rng.randint(0, 2) if n > 1 else 0)] for _ in range(n)])


def reachable(start, avoid=None, forward=True, edges=None):
    """Blocks that can be reached from `start` without entering `avoid`."""
    seen, work = set(), [start]
    while work:
        block = work.pop()
        if block not in seen and block is not avoid:
            seen.add(block)
            work += block.successors() if forward else [p for p, _ in edges[block]]
    return seen


SEEDS = range(60)


# -- the graph -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_predecessors_are_the_edges_turned_round(seed):
    """(p, k) is an incoming edge of b iff target k of p is b, and every block has an entry."""
    f, blocks = random_graph(seed)
    edges = predecessors(f)
    assert list(edges) == blocks
    for b in blocks:
        assert edges[b] == [(p, k) for p in blocks for k, t in enumerate(p.targets) if t.block is b]


@pytest.mark.parametrize("seed", SEEDS)
def test_reverse_postorder_is_topological_without_back_edges(seed):
    """Exactly the reachable blocks, entry first; an edge that goes back in the order lies on a cycle."""
    f, _ = random_graph(seed)
    order = reverse_postorder(f)
    assert set(order) == reachable(f.entry) and len(set(order)) == len(order) and order[0] is f.entry
    for b in order:
        for s in b.successors():
            assert order.index(b) < order.index(s) or b in reachable(s)


def test_long_chains_do_not_recurse():
    """Ten thousand blocks in a row are walked, and have dominators and liveness."""
    n = 10_000
    f, blocks = graph([[k + 1] for k in range(n - 1)] + [[]])
    assert reverse_postorder(f) == blocks
    assert DominatorTree(f).dominates(blocks[1], blocks[-1])
    assert not liveness(f)[0][blocks[5]]


# -- dominance -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_dominance_is_by_definition(seed):
    """a dominates b iff b cannot be reached without a; the immediate dominator is the closest of them."""
    f, blocks = random_graph(seed)
    tree = DominatorTree(f)
    alive = reachable(f.entry)
    assert set(tree.idom) == alive and tree.idom[f.entry] is None
    for b in blocks:
        if b not in alive:
            assert tree.dominates(f.entry, b) and not tree.dominates(b, f.entry)
            continue
        for a in alive:
            assert tree.dominates(a, b) == (a is b or b not in reachable(f.entry, avoid=a))
        strict = [a for a in alive if a is not b and tree.dominates(a, b)]
        assert tree.idom[b] in [a for a in strict if all(tree.dominates(c, a) for c in strict)] or not strict
        assert all(tree.idom[c] is b for c in tree.children[b])
    assert sum(map(len, tree.children.values())) == len(alive) - 1


@pytest.mark.parametrize("seed", SEEDS)
def test_postdominance_is_by_definition(seed):
    """a postdominates b iff no end can be reached from b without a."""
    f, _ = random_graph(seed)
    tree = PostDominatorTree(f)
    alive = reachable(f.entry)
    ends = [b for b in alive if not b.targets]
    for b in alive:
        if not reachable(b) & set(ends):
            assert b not in tree.ipdom and tree.postdominates(b, b)
            continue
        for a in alive & set(tree.ipdom):
            free = reachable(b, avoid=a) if a is not b else set()
            assert tree.postdominates(a, b) == (not free & set(ends))
        above = tree.ipdom[b]
        assert above is None or (above is not b and tree.postdominates(above, b))


def test_dominance_of_values():
    """Literals dominate all, arguments their block and below, instructions what comes after them."""
    _, f, b, (x,) = new_function(scalar(F64))
    first, second = b.emit("sin", x), b.emit("cos", x)
    left, right = f.new_block(), f.new_block()
    b.conditional(FLAG, left, None, right)
    in_left = b.at_end(left).emit("exp", first)
    b.ret()
    in_right = b.at_end(right).emit("exp", first)
    b.ret()
    tree = DominatorTree(f)
    assert tree.instruction_dominates(literal(1.0), first)
    assert tree.instruction_dominates(x, first)
    assert tree.instruction_dominates(first, second) and not tree.instruction_dominates(second, first)
    assert not tree.instruction_dominates(first, first)
    assert tree.instruction_dominates(first, in_left) and not tree.instruction_dominates(in_left, in_right)


def test_dominance_notices_new_instructions():
    """An instruction that is inserted after the tree was made is placed where it stands."""
    _, f, b, (x,) = new_function(scalar(F64))
    first, last = b.emit("sin", x), b.emit("cos", x)
    tree = DominatorTree(f)
    assert tree.instruction_dominates(first, last)
    new = b.before(first).emit("exp", x)
    assert tree.instruction_dominates(new, first) and not tree.instruction_dominates(first, new)
    assert tree.instruction_dominates(first, last)


# -- loops ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_loops_are_by_definition(seed):
    """A loop is a header with what reaches a back edge to it; loops nest or are apart; exits leave."""
    f, _ = random_graph(seed)
    forest, tree, edges = LoopForest(f), DominatorTree(f), predecessors(f)
    alive = set(tree.idom)
    back = {(p, b) for b in alive for p, _ in edges[b] if p in alive and tree.dominates(b, p)}
    assert {loop.header for loop in forest.loops} == {b for _, b in back}
    for loop in forest.loops:
        assert set(loop.latches) == {p for p, b in back if b is loop.header}
        body = {loop.header}
        for latch in loop.latches:
            body |= reachable(latch, avoid=loop.header, forward=False, edges=edges) & alive
        assert loop.blocks == body == set(loop.ordered) and loop.ordered[0] is loop.header
        exits = {(b, k) for b in body for k, t in enumerate(b.targets) if t.block not in body}
        assert set(loop.exit_edges()) == exits
        assert loop.exiting_block is (next(iter(exits))[0] if len(exits) == 1 else None)
        for other in forest.loops:
            assert loop.blocks <= other.blocks or other.blocks <= loop.blocks or not loop.blocks & other.blocks
    for b in alive:
        around = [loop for loop in forest.loops if loop.contains(b)]
        innermost = min(around, key=lambda loop: len(loop.blocks), default=None)
        assert forest.loop_of(b) is innermost
        assert len(around) == (innermost.depth if innermost else 0)
    assert set(forest.top) == {loop for loop in forest.loops if loop.parent is None}


def test_nested_loops():
    """An inner loop is the child of the outer one, of depth 2; a block between them is the outer one's."""
    # 0 → 1 (outer header) → 2 (inner header) → 3 (inner latch) → 2 | 4 (outer latch) → 1 | 5
    f, blocks = graph([[1], [2], [3], [2, 4], [1, 5], []])
    forest = LoopForest(f)
    (outer,) = forest.top
    (inner,) = outer.children
    assert (outer.depth, inner.depth, inner.parent) == (1, 2, outer)
    assert forest.loop_of(blocks[4]) is outer and forest.loop_of(blocks[3]) is inner
    assert inner.exit_edges() == [(blocks[3], 1)] and outer.exit_edges() == [(blocks[4], 1)]
    assert forest.loop_of(blocks[0]) is None and forest.loop_of(blocks[5]) is None


# -- uses, effects, liveness -----------------------------------------------------------------------------


def test_uses_count_each_occurrence():
    """A value used twice by one instruction has it twice; passing it on an edge is a use; literals have none."""
    _, f, b, (x, y) = new_function(scalar(F64), scalar(F64))
    twice = b.emit("add", x, x)
    end = f.new_block("end")
    arg = end.add_arg(scalar(F64))
    jump = b.branch(end, [x])
    b.at_end(end).ret()
    found = uses(f)
    assert found[x] == [twice, twice, jump]
    assert found[y] == found[twice] == found[arg] == []
    assert not any(isinstance(v, Literal) for v in found)


def test_effects():
    """The row's effects, a trap for checked arithmetic; stacks touch no array; pure is none of it."""
    _, f, b, (p, n) = new_function(VECTOR, INDEX)
    stack = b.emit("createStack", element=scalar(I64))
    load, push = b.emit("load", p), b.emit("push", n, stack)
    store = b.emit("store", load, p)
    plain, checked = b.emit("add", n, n), b.emit("add", n, n, checked=True)
    check = b.emit("check", FLAG, exception="ValueError", message="no")
    assert is_pure(plain) and not is_pure(checked)
    assert may_trap(checked) and may_trap(check) and not may_trap(plain)
    assert effects(checked) == {TRAP} and effects(plain) == frozenset()
    assert reads_memory(load) and not reads_memory(store)
    assert writes_memory(store) and not writes_memory(load)
    assert not writes_memory(push) and not is_pure(push) and not is_pure(load) and not is_pure(stack)


@pytest.mark.parametrize("seed", SEEDS)
def test_liveness_is_by_definition(seed):
    """v is live into b iff from the start of b a use of v is reached before its definition."""
    f, blocks = random_graph(seed)
    rng = random.Random(seed)
    values = []
    for block in blocks:
        terminator = block.instructions.pop()
        values.append(block.add_arg(scalar(F64)) if block is not f.entry else block.append(made("sin")))
        for _ in range(rng.randint(0, 2)):
            block.append(Instruction(OPS["exp"], [rng.choice(values)]))
        values.append(block.append(made("sin")))
        block.append(Instruction(OPS["cos"], [rng.choice(values)]))
        block.append(terminator)
    for block in blocks:
        for t in block.targets:
            t.args = [rng.choice(values)]
    live_in, live_out = liveness(f)
    alive = reachable(f.entry)
    for block in blocks:
        if block not in alive:
            assert not live_in[block] and not live_out[block]
            continue
        assert live_in[block] == {v for v in values if _used_from(v, block)}
        assert live_out[block] == {v for v in values if any(_used_from(v, s) for s in block.successors())}


def made(name):
    """An instruction that uses nothing of the function."""
    return Instruction(OPS[name], [literal(1.0)])


def _used_from(value, start):
    """Whether a path from the start of a block meets a use of `value` before its definition."""
    seen, work = set(), [start]
    while work:
        block = work.pop()
        if block in seen:
            continue
        seen.add(block)
        if value in block.args:
            continue
        for i in block.instructions:
            if value in i.all_operands():
                return True
            if i is value:
                break
        else:
            work += block.successors()
    return False


# -- alias ---------------------------------------------------------------------------------------------


def literals(*numbers):
    """i64 literals."""
    return [literal(n) for n in numbers]


def test_roots_look_through_views_and_casts():
    """The roots of a chain of index ops are those of its first pointer; null and undefined have none."""
    _, f, b, (p, n) = new_function(VECTOR, INDEX)
    fresh = b.emit("allocateHeap", n, n, dtype="f64")
    element = b.emit("elementPointer", b.emit("transpose", fresh), n)
    seen = b.emit("pointerCast", b.emit("section", p, n, n, n), to=pointer(F64, None, layout="S"))
    alias = AliasAnalysis(f)
    assert alias.roots(element) == {fresh} and alias.roots(seen) == {p} and alias.roots(p) == {p}
    assert not alias.roots(Literal(VECTOR, NULL)) and not alias.roots(Literal(VECTOR, UNDEFINED))
    assert not alias.may_alias(Literal(VECTOR, NULL), p)


def test_roots_flow_through_block_arguments():
    """A block argument has the roots of all that is passed to it, around loops too."""
    _, f, b, (p, q, n) = new_function(VECTOR, VECTOR, INDEX)
    fresh = b.emit("allocateHeap", n, dtype="f64")
    loop, end = f.new_block("loop"), f.new_block("end")
    u, v = loop.add_arg(VECTOR, "u"), loop.add_arg(VECTOR, "v")
    w = end.add_arg(VECTOR, "w")
    b.branch(loop, [p, fresh])
    b.at_end(loop).conditional(FLAG, loop, [v, u], end, [Literal(VECTOR, NULL)])
    b.at_end(end).ret()
    alias = AliasAnalysis(f)
    assert alias.roots(u) == alias.roots(v) == {p, fresh} and not alias.roots(w)
    assert alias.may_alias(u, p) and alias.may_alias(u, v) and not alias.may_alias(u, q)
    assert not alias.may_alias(w, u)


def test_parameters_and_allocations():
    """Parameters overlap only without noalias; fresh memory meets neither them nor other fresh memory."""
    _, f, b, (p, q, n, k) = new_function(VECTOR, VECTOR, INDEX, pointer(I64, None))
    one, two = (b.emit("allocateHeap", n, dtype="f64") for _ in range(2))
    strict, loose = AliasAnalysis(f), AliasAnalysis(f, noalias_params=False)
    assert not strict.may_alias(p, q) and loose.may_alias(p, q)
    for alias in (strict, loose):
        assert alias.may_alias(p, p) and alias.may_alias(one, one)
        assert not alias.may_alias(one, two) and not alias.may_alias(one, p)
    # one buffer can be two arguments of different dtypes
    assert loose.may_alias(p, k) and not strict.may_alias(p, k)


def test_an_allocation_in_a_loop_is_one_root():
    """Two values that come from different rounds of one allocateHeap may be the same memory."""
    _, f, b, (n,) = new_function(INDEX)
    first = b.emit("allocateHeap", n, dtype="f64")
    loop = f.new_block("loop")
    before = loop.add_arg(VECTOR, "before")
    b.branch(loop, [first])
    fresh = b.at_end(loop).emit("allocateHeap", n, dtype="f64")
    b.branch(loop, [fresh])
    alias = AliasAnalysis(f)
    assert alias.roots(before) == {first, fresh} and alias.may_alias(before, fresh)


def test_pop_is_what_was_pushed_to_that_stack():
    """A pop may alias what was pushed to its stack, through other stacks too, and nothing else."""
    _, f, b, (p, q, n) = new_function(VECTOR, VECTOR, INDEX)
    one, two = (b.emit("createStack", element=VECTOR) for _ in range(2))
    fresh = b.emit("allocateHeap", n, dtype="f64")
    b.emit("push", p, one)
    b.emit("push", fresh, two)
    from_one = b.emit("pop", one)
    b.emit("push", from_one, two)
    from_two = b.emit("pop", two)
    alias = AliasAnalysis(f)
    assert alias.roots(from_one) == {from_one}
    assert alias.may_alias(from_one, p) and not alias.may_alias(from_one, fresh)
    assert alias.may_alias(from_two, p) and alias.may_alias(from_two, fresh) and alias.may_alias(from_two, from_one)
    assert not alias.may_alias(from_two, q)


def test_a_stack_parameter_is_not_understood():
    """What comes from a stack parameter may be anything of its dtype."""
    _, f, b, (p, k, stack) = new_function(VECTOR, pointer(I64, None), StackType(VECTOR))
    popped = b.emit("pop", stack)
    alias = AliasAnalysis(f)
    assert alias.may_alias(popped, p) and not alias.may_alias(popped, k)


def test_a_call_pushes_what_it_holds():
    """A call that holds a stack may move to it its pointers, fresh memory, and what lies on its other stacks."""
    _, f, b, (p, q, r, s) = new_function(VECTOR, VECTOR, VECTOR, VECTOR)
    one, two, three = (b.emit("createStack", element=VECTOR) for _ in range(3))
    b.emit("push", p, one)
    b.emit("push", r, three)
    b.emit("apply", one, two, q, callee="g", result=TupleType(()))
    result = b.emit("apply", two, callee="h", result=VECTOR)
    for stack in (one, two):
        popped = b.emit("pop", stack)
        alias = AliasAnalysis(f)
        assert [alias.may_alias(popped, v) for v in (p, q, r, s, result)] == [True, True, False, False, True]
        assert [alias.may_alias(result, v) for v in (p, q, r, s)] == [True, True, False, False]


def test_a_stack_on_a_stack():
    """A stack that is popped is one that was pushed: what goes in through one comes out through the other."""
    _, f, b, (p, q) = new_function(VECTOR, VECTOR)
    inner, other = (b.emit("createStack", element=VECTOR) for _ in range(2))
    outer = b.emit("createStack", element=StackType(VECTOR))
    b.emit("push", inner, outer)
    again = b.emit("pop", outer)
    b.emit("push", p, again)
    b.emit("push", q, inner)
    popped = [b.emit("pop", stack) for stack in (inner, again, other)]
    alias = AliasAnalysis(f)
    assert [(alias.may_alias(v, p), alias.may_alias(v, q)) for v in popped] == [(True, True)] * 2 + [(False, False)]


def test_a_tape_that_a_call_returns():
    """A stack from a call holds what the call held, or fresh memory."""
    _, f, b, (p, q) = new_function(VECTOR, VECTOR)
    tape = b.emit("apply", p, callee="g", result=StackType(VECTOR))
    tapes = b.emit("createStack", element=StackType(VECTOR))
    b.emit("push", tape, tapes)
    popped = b.emit("pop", b.emit("pop", tapes))
    alias = AliasAnalysis(f)
    assert alias.may_alias(popped, p) and not alias.may_alias(popped, q)


def test_apply_gives_fresh_memory_or_its_arguments():
    """A result of a call may alias the pointers handed to that call, not others, nor other calls' memory."""
    _, f, b, (p, q, n) = new_function(VECTOR, VECTOR, INDEX)
    fresh = b.emit("allocateHeap", n, dtype="f64")
    one = b.emit("apply", p, callee="g", result=VECTOR)
    two = b.emit("apply", n, callee="h", result=TupleType((VECTOR, scalar(F64))))
    of_two = b.emit("extract", two, at=0)
    alias = AliasAnalysis(f)
    assert alias.roots(one) == {one} and alias.roots(of_two) == {two}
    assert alias.may_alias(one, p) and not alias.may_alias(one, q) and not alias.may_alias(one, fresh)
    assert not alias.may_alias(of_two, one) and not alias.may_alias(of_two, p)


def test_tuples_keep_their_elements_apart():
    """extract from a tuple instruction has the roots of that element; through a block argument, of all."""
    _, f, b, (p, q) = new_function(VECTOR, VECTOR)
    pair = b.emit("tuple", p, q)
    end = f.new_block()
    passed = end.add_arg(pair.type)
    b.branch(end, [pair])
    first = b.at_end(end).emit("extract", pair, at=0)
    other = b.emit("extract", passed, at=0)
    alias = AliasAnalysis(f)
    assert alias.roots(first) == {p} and alias.roots(other) == {p, q}


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ((0, 4, 1), (4, 4, 1), True),  # halves
        ((0, 5, 1), (4, 4, 1), False),
        ((0, 4, 2), (1, 4, 2), True),  # even and odd
        ((0, 4, 2), (2, 4, 2), False),
        ((0, None, 2), (1, None, 2), True),  # the steps alone tell
        ((0, None, 2), (1, None, 4), True),
        ((0, None, 2), (1, None, 3), False),
        ((1, None, 1), (0, 1, 1), True),  # of any length, from 1 upwards
        ((1, None, 1), (3, 1, 1), False),
        ((5, None, -1), (6, 3, 1), True),
        ((7, 4, -1), (0, 4, 1), True),
        ((3, 4, -1), (0, 4, 1), False),
        ((None, 4, 1), (4, 4, 1), False),
        ((3, 1, 9), (4, 1, 9), True),
    ],
)
def test_literal_sections_that_do_not_meet(one, other, apart):
    """Sections of one base with literal ranges do not alias where their index sets are disjoint."""
    _, f, b, (p, n) = new_function(VECTOR, INDEX)
    u, v = (b.emit("section", p, *(n if k is None else literal(k) for k in r)) for r in (one, other))
    alias = AliasAnalysis(f)
    assert alias.may_alias(u, v) == alias.may_alias(v, u) == (not apart)


def test_elements_and_rows_that_do_not_meet():
    """Literal indices that differ on a leading axis are apart; a strided base could meet itself."""
    for layout in "CS":
        _, f, b, (p,) = new_function(pointer(F64, None, None, layout=layout))
        row0, row1 = (b.emit("elementPointer", p, literal(k)) for k in (0, 1))
        same = b.emit("elementPointer", p, *literals(0, 3))
        alias = AliasAnalysis(f)
        assert alias.may_alias(row0, row1) == (layout == "S")
        assert alias.may_alias(row0, same)


def test_views_of_a_moving_base_are_not_told_apart():
    """p[0] of one round of a loop and p[1] of another may be one element where p moves."""
    _, f, b, (p, n) = new_function(VECTOR, INDEX)
    loop = f.new_block()
    moving = loop.add_arg(VECTOR)
    b.branch(loop, [p])
    head, neck = (b.at_end(loop).emit("elementPointer", moving, literal(k)) for k in (0, 1))
    b.branch(loop, [b.emit("section", moving, literal(1), n, literal(1))])
    assert AliasAnalysis(f).may_alias(head, neck)


def test_same_elements():
    """The same memory with the same index map: equal index ops on the same bases, casts aside."""
    _, f, b, (p, n, m) = new_function(VECTOR, INDEX, INDEX)
    u, v = (b.emit("section", p, literal(1), n, literal(1)) for _ in range(2))
    w = b.emit("section", p, literal(1), m, literal(1))
    by_extent = [b.emit("section", p, literal(0), b.emit("extent", p, at=0), literal(1)) for _ in range(2)]
    cast = b.emit("pointerCast", u, to=pointer(F64, None, layout="S"))
    allocations = [b.emit("allocateHeap", n, dtype="f64") for _ in range(2)]
    loads = [b.emit("load", b.emit("elementPointer", p, n)) for _ in range(2)]
    alias = AliasAnalysis(f)
    assert alias.same_elements(u, v) and alias.same_elements(u, cast) and alias.same_elements(*by_extent)
    assert not alias.same_elements(u, w) and not alias.same_elements(u, p)
    assert not alias.same_elements(*allocations) and not alias.same_elements(*loads)


def test_written_params():
    """The parameters that stores write, through views and pops, and those that are handed to a call."""
    _, f, b, (p, q, r, s, n) = new_function(VECTOR, VECTOR, VECTOR, VECTOR, INDEX)
    b.emit("store", literal(1.0), b.emit("elementPointer", p, n))
    stack = b.emit("createStack", element=VECTOR)
    b.emit("push", q, stack)
    b.emit("store", literal(1.0), b.emit("elementPointer", b.emit("pop", stack), n))
    b.emit("apply", r, callee="g", result=TupleType(()))
    b.emit("load", s)
    assert AliasAnalysis(f).written_params() == {0, 1, 2}
    assert AliasAnalysis(f, noalias_params=False).written_params() == {0, 1, 2, 3}


def test_new_views_are_understood():
    """A view built after the analysis has the roots of its base."""
    _, f, b, (p, n) = new_function(VECTOR, INDEX)
    alias = AliasAnalysis(f)
    late = b.emit("elementPointer", p, n)
    assert alias.roots(late) == {p} and alias.may_alias(late, p)


def test_calls_write_what_they_are_handed():
    """may_write of a call: its pointers, those in its tuples, and what was pushed to its stacks."""
    _, f, b, (p, q, r, s, n) = new_function(VECTOR, VECTOR, VECTOR, VECTOR, INDEX)
    stack = b.emit("createStack", element=VECTOR)
    b.emit("push", p, stack)
    calls = [b.emit("apply", v, callee="g", result=TupleType(())) for v in (stack, b.emit("tuple", q, n), r, n)]
    alias = AliasAnalysis(f)
    expected = [{p}, {q}, {r}, set()]
    assert [{v for v in (p, q, r, s) if alias.may_write(c, v)} for c in calls] == expected
    assert alias.written_params() == {0, 1, 2}
    store = b.emit("store", literal(1.0), b.emit("elementPointer", s, n))
    assert AliasAnalysis(f).may_write(store, s) and not AliasAnalysis(f).may_write(stack, s)


@pytest.mark.parametrize("layout", ["C", "S"])
def test_rows_of_one_array(layout):
    """Rows, or columns, i and i + 1 are apart at one time, not at any two; rows i and j may be one row."""
    _, f, b, (p, i, j) = new_function(pointer(F64, None, None, layout=layout), INDEX, INDEX)
    n, zero, one = b.emit("extent", p, at=0), literal(0), literal(1)
    after = b.emit("add", b.emit("subtract", i, literal(2)), literal(3))  # i + 1

    def row(k):
        return b.emit("elementPointer", p, k)

    def columns(k, count=1):
        return b.emit("section", p, zero, k, n, literal(count), one, one)

    def column(k):
        return b.emit("squeezeShape", columns(k), at=1)

    apart = [(row(i), row(after)), (column(after), column(i)), (columns(i), column(after))]
    near = [
        (row(i), row(j)),
        (row(i), row(i)),
        (columns(i, 2), columns(after, 2)),
        (row(i), column(after)),
        (p, row(i)),
    ]
    b.ret()
    alias = AliasAnalysis(f)
    for x, y in apart:
        assert alias.may_alias(x, y)
        # elements of a strided parameter may be one another
        assert alias.may_overlap(x, y) is (layout == "S")
    assert all(alias.may_overlap(x, y) for x, y in near)
