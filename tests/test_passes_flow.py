"""Passes on control flow: inlining, simplification of the graph, loop-invariant code motion."""

import numpy as np
import pytest
from irbuild import new_function, pointer

from dlvm_py.ir import BOOL, F64, I64, UNDEFINED, Literal, TupleType, literal, print_function, scalar
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import inline, licm, simplify_cfg

FLOAT, INT, FLAG = scalar(F64), scalar(I64), scalar(BOOL)


def lines(f):
    """The text of a function without its signature: blocks and instructions, one a line."""
    return [line.strip() for line in print_function(f).splitlines()[1:-1]]


def simplified(f):
    """Run simplify_cfg, which must change something, once; the text."""
    assert simplify_cfg.run(f)
    verify(f)
    assert not simplify_cfg.run(f)
    return lines(f)


def counted_loop(f, b, trip, carried=()):
    """Start `for i in range(trip)`: (i, carried block arguments, header, body, block after the loop)."""
    header, body, after = f.new_block("head"), f.new_block("body"), f.new_block("after")
    b.branch(header, [literal(0), *carried])
    i = header.add_arg(INT, "i")
    args = [header.add_arg(v.type, f"c{k}") for k, v in enumerate(carried)]
    b.at_end(header).conditional(b.emit("lessThan", i, trip), body, [], after, [])
    b.at_end(body)
    return i, args, header, body, after


# -- simplify_cfg ------------------------------------------------------------------------------------


def test_literal_condition_and_unreachable_arm():
    """A conditional on a literal is a branch; the other arm and the join's argument go."""
    _, f, b, (x,) = new_function(FLOAT, result=FLOAT)
    then, other, join = f.new_block("then"), f.new_block("other"), f.new_block("join")
    r = join.add_arg(FLOAT, "r")
    b.conditional(literal(True), then, [], other, [])
    b.at_end(then).branch(join, [b.emit("exp", x)])
    b.at_end(other).branch(join, [literal(0.0)])
    b.at_end(join).ret(r)
    assert simplified(f) == ["'entry(%p0: f64):", "%0.0 = exp %p0: f64", "return %0.0: f64"]


def test_empty_diamond_vanishes():
    """Two empty arms that pass the same values: forwarded, made one, merged."""
    _, f, b, (x, c) = new_function(FLOAT, FLAG, result=FLOAT)
    then, other, join = f.new_block("then"), f.new_block("other"), f.new_block("join")
    r = join.add_arg(FLOAT, "r")
    b.conditional(c, then, [], other, [])
    b.at_end(then).branch(join, [x])
    b.at_end(other).branch(join, [x])
    b.at_end(join).ret(r)
    assert simplified(f) == ["'entry(%p0: f64, %p1: bool):", "return %p0: f64"]


def test_chains_substitute_in_all_blocks():
    """The arguments of a swallowed block are replaced in blocks that it dominates, too."""
    _, f, b, (x, c) = new_function(FLOAT, FLAG, result=FLOAT)
    middle, then, other = f.new_block("middle"), f.new_block("then"), f.new_block("other")
    y = middle.add_arg(FLOAT, "y")
    b.branch(middle, [x])
    b.at_end(middle).conditional(c, then, [], other, [])
    b.at_end(then).ret(y)
    b.at_end(other).ret(b.emit("exp", y))
    assert simplified(f) == [
        "'entry(%p0: f64, %p1: bool):",
        "conditional %p1: bool then 'then() else 'other()",
        "'then():",
        "return %p0: f64",
        "'other():",
        "%2.0 = exp %p0: f64",
        "return %2.0: f64",
    ]


def test_loop_invariant_arguments_collapse():
    """A web of arguments in two nested loops that only hands one value around is that value."""
    module, f, b, (x, n) = new_function(FLOAT, INT, result=FLOAT)
    i, (outer,), head, _, after = counted_loop(f, b, n, [x])
    j, (inner,), inner_head, _, inner_after = counted_loop(f, b, n, [outer])
    b.branch(inner_head, [b.emit("add", j, literal(1)), inner])
    b.at_end(inner_after).branch(head, [b.emit("add", i, literal(1)), inner])
    b.at_end(after).ret(outer)
    text = simplified(f)
    assert "return %p0: f64" in text
    assert [len(block.args) for block in f.blocks if block is not f.entry and block.args] == [1, 1]
    assert run(module, "f", [2.5, 3]) == 2.5


def test_swapped_arguments_stay():
    """u, v = v, u in a loop: the two arguments are different values."""
    module, f, b, (x, y, n) = new_function(FLOAT, FLOAT, INT, result=FLOAT)
    i, (u, v), head, _, after = counted_loop(f, b, n, [x, y])
    b.branch(head, [b.emit("add", i, literal(1)), v, u])
    b.at_end(after).ret(u)
    simplify_cfg.run(f)
    verify(f)
    assert [run(module, "f", [1.0, 2.0, k]) for k in range(3)] == [1.0, 2.0, 1.0]


def test_equal_literals_are_one_value_and_zeros_are_two():
    """A join of 1.0 and 1.0 is a literal; of 0.0 and -0.0 it stays an argument."""
    for other, same in ((1.0, True), (-1.0, False)):
        _, f, b, (c,) = new_function(FLAG, result=FLOAT)
        join = f.new_block("join")
        r = join.add_arg(FLOAT, "r")
        zero = literal(1.0) if same else literal(0.0)
        b.conditional(c, join, [zero], join, [literal(0.0 * other) if not same else literal(other)])
        b.at_end(join).ret(r)
        assert simplify_cfg.run(f) is same


def test_shared_latch_is_kept():
    """Two paths back to a header meet in one empty block: the loop keeps its single back edge."""
    _, f, b, (n, c) = new_function(INT, FLAG, result=INT)
    i, _, head, _, after = counted_loop(f, b, n)
    left, right, latch = f.new_block("left"), f.new_block("right"), f.new_block("latch")
    step = latch.add_arg(INT, "step")
    b.conditional(c, left, [], right, [])
    b.at_end(left).branch(latch, [b.emit("add", i, literal(1))])
    b.at_end(right).branch(latch, [b.emit("add", i, literal(2))])
    b.at_end(latch).branch(head, [step])
    b.at_end(after).ret(i)
    simplify_cfg.run(f)
    verify(f)
    (loop,) = LoopForest(f).loops
    assert loop.latches == [latch]


def test_entry_keeps_no_predecessors():
    """A loop whose header is reached from an empty entry does not become the entry."""
    _, f, b, (n,) = new_function(INT, result=INT)
    i, _, head, _, after = counted_loop(f, b, n)
    b.branch(head, [b.emit("add", i, literal(1))])
    b.at_end(after).ret(i)
    simplify_cfg.run(f)
    assert f.entry.name == "entry" and f.blocks[1] is head


def test_type_of_extents_survives_a_constant_argument():
    """An argument that is the literal 2 on every path: what it sizes keeps its type."""
    module, f, b, (c,) = new_function(FLAG, result=pointer(F64, None))
    join = f.new_block("join")
    n = join.add_arg(INT, "n")
    b.conditional(c, join, [literal(2)], join, [literal(2)])
    b.at_end(join)
    m = b.emit("allocateHeap", n, dtype="f64")
    b.emit("store", b.emit("broadcast", literal(1.0), n), m)
    b.ret(m)
    simplified(f)
    np.testing.assert_array_equal(run(module, "f", [True]), [1.0, 1.0])


# -- inlining ----------------------------------------------------------------------------------------


def absolute(module, name="absolute"):
    """A callee with two returns: (|x|, x < 0)."""
    _, f, b, (x,) = new_function(FLOAT, result=TupleType((FLOAT, FLAG)), name=name, module=module)
    negative, positive = f.new_block("negative"), f.new_block("positive")
    b.conditional(b.emit("lessThan", x, literal(0.0)), negative, [], positive, [])
    b.at_end(negative).ret(b.emit("tuple", b.emit("negate", x), literal(True)))
    b.at_end(positive).ret(b.emit("tuple", x, literal(False)))
    return f


def call(b, callee, *operands):
    """Emit a call."""
    return b.emit("apply", *operands, callee=callee.name, result=callee.result)


def test_results_become_arguments_of_the_continuation():
    """Each return branches to the continuation with its leaves; extracts disappear."""
    module, f, b, (x,) = new_function(FLOAT, result=FLOAT)
    r = call(b, absolute(module), x)
    b.ret(b.emit("select", b.emit("extract", r, at=0), literal(5.0), b.emit("extract", r, at=1)))
    assert inline.run(module, "f")
    verify(f)
    assert not inline.run(module, "f")
    behind = f.blocks[-1]
    assert [arg.type for arg in behind.args] == [FLOAT, FLAG]
    assert [i.op.name for i in behind.instructions] == ["select", "return"]
    assert [run(module, "f", [v]) for v in (-2.0, 3.0)] == [2.0, 5.0]


def test_straight_line_callees_are_spliced():
    """A callee of one block adds no block; calls in it are inlined, too; the callees stay as they are."""
    module, f, b, (x,) = new_function(FLOAT, result=FLOAT)
    _, g, gb, (y,) = new_function(FLOAT, result=FLOAT, name="g", module=module)
    gb.ret(gb.emit("add", y, literal(1.0)))
    _, h, hb, (z,) = new_function(FLOAT, result=FLOAT, name="h", module=module)
    hb.ret(hb.emit("multiply", call(hb, g, z), literal(2.0)))
    b.ret(call(b, h, x))
    assert inline.run(module, "f")
    verify(module)
    assert [i.op.name for i in f.instructions()] == ["add", "multiply", "return"]
    assert [i.op.name for i in h.instructions()] == ["apply", "multiply", "return"]


def test_recursion_is_left_alone():
    """Functions that can reach themselves are not inlined, nor are those that say noinline."""
    module, f, b, (x,) = new_function(FLOAT, result=FLOAT)
    functions = [new_function(FLOAT, result=FLOAT, name=name, module=module) for name in ("odd", "even", "kept")]
    (_, odd, ob, (y,)), (_, even, eb, (z,)), (_, kept, kb, (w,)) = functions
    ob.ret(call(ob, even, y))
    eb.ret(call(eb, odd, z))
    kb.ret(w)
    kept.attributes.add("noinline")
    b.ret(b.emit("add", call(b, odd, x), call(b, kept, x)))
    assert not inline.run(module, "f")


def test_array_values_around_a_call_get_memory():
    """load x + call(): the loaded snapshot survives the call in memory, whatever the call writes."""
    vector = pointer(F64, None)
    module, f, b, (x, y) = new_function(vector, FLOAT, result=vector)
    _, g, gb, (p, v) = new_function(vector, FLOAT, result=FLOAT, name="g", module=module)
    then, after = g.new_block("then"), g.new_block("after")
    gb.conditional(gb.emit("lessThan", v, literal(0.0)), then, [], after, [])
    gb.at_end(then).emit("store", literal(9.0), gb.emit("elementPointer", p, literal(0)))
    gb.branch(after)
    gb.at_end(after).ret(v)
    total = b.emit("add", b.emit("load", x), call(b, g, x, y))
    m = b.emit("allocateHeap", b.emit("extent", x, at=0), dtype="f64")
    b.emit("store", total, m)
    b.ret(m)
    assert inline.run(module, "f")
    verify(f)
    array = np.array([1.0, 2.0])
    np.testing.assert_array_equal(run(module, "f", [array, -1.0]), [0.0, 1.0])
    np.testing.assert_array_equal(array, [9.0, 2.0])


def test_callees_that_only_raise():
    """What stands behind the call of a function that never returns is unreachable and removed."""
    module, f, b, (x,) = new_function(FLOAT, result=FLOAT)
    _, g, gb, _ = new_function(result=FLOAT, name="g", module=module)
    gb.emit("raise", exception="ValueError", message="always")
    b.ret(b.emit("add", call(b, g), x))
    assert inline.run(module, "f")
    verify(f)
    with pytest.raises(ValueError, match="always"):
        run(module, "f", [1.0])


# -- loop-invariant code motion ----------------------------------------------------------------------


def blocks_of(f, op):
    """The names of the blocks that hold instructions `op`."""
    return [i.block.name for i in f.instructions() if i.op.name == op]


def finish_loop(b, i, head, after, result):
    b.branch(head, [b.emit("add", i, literal(1))])
    b.at_end(after).ret(result)


def test_invariant_scalars_leave_nested_loops():
    """An invariant of two loops rises to the entry, through both preheaders."""
    module, f, b, (x, p, n) = new_function(pointer(F64, None), FLOAT, INT, result=INT)
    i, _, head, _, after = counted_loop(f, b, n)
    j, _, inner_head, _, inner_after = counted_loop(f, b, n)
    b.emit("store", b.emit("sin", p), b.emit("elementPointer", x, j))
    finish_loop(b, j, inner_head, inner_after, literal(0))
    inner_after.instructions.pop()
    b.at_end(inner_after)
    finish_loop(b, i, head, after, i)
    assert licm.run(f)
    verify(f)
    assert not licm.run(f)
    assert blocks_of(f, "sin") == ["entry"]
    assert blocks_of(f, "elementPointer") == ["body"]


def test_what_may_fail_or_is_guarded_stays():
    """Checked sums, checks, element views behind a check, array values, and loads of written memory stay."""
    _, f, b, (x, k, n) = new_function(pointer(F64, None), INT, INT, result=INT)
    i, _, head, _, after = counted_loop(f, b, n)
    b.emit("add", k, literal(1), checked=True)
    held = b.emit("lessThan", k, b.emit("extent", x, at=0))
    b.emit("check", held, exception="IndexError", message="out")
    element = b.emit("elementPointer", x, k)
    b.emit("store", b.emit("load", b.emit("elementPointer", x, i)), element)
    b.emit("reduce", b.emit("load", x), literal(0.0), by="add", axes=(0,))
    finish_loop(b, i, head, after, i)
    assert licm.run(f)
    verify(f)
    assert blocks_of(f, "lessThan") == ["entry", "head"]
    for op in ("check", "elementPointer", "load", "reduce"):
        assert set(blocks_of(f, op)) == {"body"}


@pytest.mark.parametrize(("written", "noalias", "moves"), [(0, True, False), (1, True, True), (1, False, False)])
def test_loads_move_over_stores_to_other_memory(written, noalias, moves):
    """A load of an element that is known before the loop moves if nothing in the loop writes there."""
    vector = pointer(F64, None)
    _, f, b, (x, y, n) = new_function(vector, vector, INT, result=INT)
    element = b.emit("elementPointer", x, literal(0))
    i, _, head, _, after = counted_loop(f, b, n)
    b.emit("store", b.emit("load", element), b.emit("elementPointer", (x, y)[written], i))
    finish_loop(b, i, head, after, i)
    assert licm.run(f, noalias_params=noalias) is moves
    verify(f)
    assert blocks_of(f, "load") == ["entry" if moves else "body"]


def test_a_preheader_is_made_for_two_entering_edges():
    """Where two paths enter a loop, a preheader with the header's arguments takes what is hoisted."""
    module, f, b, (p, n, c) = new_function(FLOAT, INT, FLAG, result=FLOAT)
    head, body, after = (f.new_block(name) for name in ("head", "body", "after"))
    i, s = head.add_arg(INT, "i"), head.add_arg(FLOAT, "s")
    b.conditional(c, head, [literal(0), p], head, [literal(1), literal(1.0)])
    b.at_end(head).conditional(b.emit("lessThan", i, n), body, [], after, [])
    b.at_end(body)
    b.branch(head, [b.emit("add", i, literal(1)), b.emit("add", s, b.emit("sin", p))])
    b.at_end(after).ret(s)
    before = [run(module, "f", [0.3, 4, flag]) for flag in (False, True)]
    assert licm.run(f)
    verify(f)
    assert blocks_of(f, "sin") == ["head_preheader"]
    assert [run(module, "f", [0.3, 4, flag]) for flag in (False, True)] == before


def test_values_that_may_be_undefined_do_not_move():
    """An argument that has no value on some path is used only where the program uses it."""
    _, f, b, (c, n, v) = new_function(FLAG, INT, FLOAT, result=INT)
    join, guarded, after_guard = f.new_block("join"), f.new_block("guarded"), f.new_block("after_guard")
    x = join.add_arg(FLOAT, "x")
    b.conditional(c, join, [v], join, [Literal(FLOAT, UNDEFINED)])
    b.at_end(join)
    i, _, head, _, after = counted_loop(f, b, n)
    b.conditional(c, guarded, [], after_guard, [])
    b.at_end(guarded)
    b.emit("sin", x)
    b.branch(after_guard)
    b.at_end(after_guard)
    finish_loop(b, i, head, after, i)
    assert not licm.run(f)
