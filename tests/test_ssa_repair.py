"""SSA repair: uses that lost their dominating definition, and variables with several assignments."""

from irbuild import INDEX, new_function

from dlvm_py.ir import BOOL, F64, literal, scalar
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import ssa_repair
from dlvm_py.transforms.ssa_repair import Variable, assignment

F = scalar(F64)


def test_use_behind_a_join():
    """A value of one arm, used where that arm was taken, comes through the join as an argument."""
    module, f, b, (flag, x) = new_function(scalar(BOOL), F, result=F)
    then, join, again, other = (f.new_block(n) for n in ("then", "join", "again", "other"))
    b.conditional(flag, then, [], join)
    b.at_end(then)
    y = b.emit("sin", x)
    b.branch(join)
    b.at_end(join).conditional(flag, again, [], other)
    b.at_end(again).ret(y)
    b.at_end(other).ret(x)
    assert ssa_repair.run(f)
    verify(module)
    assert len(join.args) == 1
    assert run(module, "f", [False, 0.5]) == 0.5
    assert run(module, "f", [True, 0.0]) == 0.0
    assert not ssa_repair.run(f)


def test_variable_in_a_loop():
    """A variable that is assigned before and in a loop becomes an argument of the header."""
    module, f, b, (n,) = new_function(INDEX, result=F)
    i, s = Variable(INDEX, "i"), Variable(F, "s")
    head, body, out = (f.new_block(name) for name in ("head", "body", "out"))
    b.insert(assignment(i, literal(0)))
    b.insert(assignment(s, literal(1.0)))
    b.branch(head)
    b.at_end(head).conditional(b.emit("lessThan", i, n), body, [], out)
    b.at_end(body)
    b.insert(assignment(s, b.emit("add", s, s)))
    b.insert(assignment(i, b.emit("add", i, literal(1))))
    b.branch(head)
    b.at_end(out).ret(s)
    assert ssa_repair.run(f)
    verify(module)
    assert run(module, "f", [5]) == 32.0


def test_equal_assignments_need_no_argument():
    """A variable that has the same value on every edge is that value; one never assigned is its default."""
    module, f, b, (flag,) = new_function(scalar(BOOL), result=F)
    v, w = Variable(F, "v"), Variable(F, "w", default=literal(7.0))
    then, join = f.new_block("then"), f.new_block("join")
    b.insert(assignment(v, literal(2.0)))
    b.conditional(flag, then, [], join)
    b.at_end(then)
    b.insert(assignment(v, literal(2.0)))
    b.branch(join)
    b.at_end(join)
    b.ret(b.emit("add", v, w))
    assert ssa_repair.run(f)
    verify(module)
    assert not join.args
    assert run(module, "f", [True]) == 9.0


def test_value_of_a_loop_ends_at_its_header():
    """What a path out of a loop needs is not carried around the loop."""
    module, f, b, (n, x) = new_function(INDEX, F, result=F)
    head, body, tail, found, missed = (f.new_block(t) for t in ("head", "body", "tail", "found", "missed"))
    i = head.add_arg(INDEX, "i")
    way = tail.add_arg(scalar(BOOL), "way")
    b.branch(head, [literal(0)])
    b.at_end(head).conditional(b.emit("lessThan", i, n), body, [], tail, [literal(False)])
    b.at_end(body)
    y = b.emit("multiply", x, b.emit("dataTypeCast", i, to="f64"))
    following = b.emit("add", i, literal(1))
    b.conditional(b.emit("greaterThan", y, literal(3.0)), tail, [literal(True)], head, [following])
    b.at_end(tail).conditional(way, found, [], missed)
    b.at_end(found).ret(y)
    b.at_end(missed).ret(x)
    assert ssa_repair.run(f)
    verify(module)
    assert len(head.args) == 1
    assert run(module, "f", [5, 1.0]) == 4.0
    assert run(module, "f", [2, 1.0]) == 1.0
