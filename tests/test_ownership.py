"""ownership: every reference is given back once, as early as possible, on every path."""

import numpy as np
import pytest
from array_programs import Generator, outcome
from irbuild import new_function, pointer

from dlvm_py.errors import PassError
from dlvm_py.ir import (
    F64,
    I64,
    NULL,
    UNDEFINED,
    Literal,
    StackType,
    TupleType,
    literal,
    print_function,
    scalar,
)
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import bufferize, ownership
from dlvm_py.transforms.pass_manager import PASSES, find_pass, run_pipeline

VECTOR = pointer(F64, None)
INT = scalar(I64)


def fresh(b, value):
    """A fresh vector of four elements; its type says nothing of the extent."""
    n = b.emit("add", literal(2), literal(2))
    p = b.emit("allocateHeap", n, dtype="f64")
    b.emit("store", b.emit("broadcast", literal(float(value)), n), p)
    return p


def scheduled(module):
    """Place the references, and verify."""
    for f in module.functions.values():
        bufferize.run(f)
        ownership.run(f)
    module.stage = "scheduled"
    verify(module)


def check(module, *args):
    """Schedule, run @f with the ownership checked, and give the result."""
    scheduled(module)
    return run(module, "f", args, check_ownership=True, trees_at_root=True)


def ops(block):
    """The op names of a block."""
    return [i.op.name for i in block.instructions]


def counting(f, name):
    """The instructions of one op in a function."""
    return [i for i in f.instructions() if i.op.name == name]


# -- in a block -------------------------------------------------------------------------------------------


def test_released_at_the_last_use():
    """A buffer is freed right behind the kernel that reads it last: behind the root, not the load."""
    module, f, b, (a,) = new_function(VECTOR)
    p = fresh(b, 1)
    x = b.emit("add", b.emit("load", p), b.emit("load", a))
    b.emit("store", x, a)
    b.emit("store", b.emit("load", a), a)
    b.ret()
    a = np.ones(4)
    check(module, a)
    assert a.tolist() == [2.0] * 4
    assert ops(f.entry)[-8:] == ["load", "load", "add", "store", "release", "load", "store", "return"]


def test_view_keeps_its_owner():
    """The owner of a view lives as long as the view is used; the view has no reference of its own."""
    module, f, b, (a,) = new_function(VECTOR)
    p = fresh(b, 3)
    view = b.emit("transpose", b.emit("section", p, literal(1), literal(2), literal(1)))
    b.emit("store", b.emit("broadcast", literal(0.0), literal(4)), a)
    b.emit("store", b.emit("load", view), b.emit("section", a, literal(0), literal(2), literal(1)))
    b.ret()
    a = np.ones(4)
    check(module, a)
    assert a.tolist() == [3.0, 3.0, 0.0, 0.0]
    (released,) = counting(f, "release")
    assert released.operands == [p] and ops(f.entry)[-2:] == ["release", "return"]


def test_unused_results():
    """What nobody uses is released where it is made."""
    module, f, b, () = new_function()
    p = b.emit("allocateHeap", literal(4), dtype="f64")
    b.ret()
    check(module)
    assert ops(f.entry) == ["allocateHeap", "release", "return"]
    assert f.entry.instructions[1].operands == [p]


@pytest.mark.parametrize("view", [False, True])
def test_returned_parameter(view):
    """A parameter, or a view of one, is retained when it is returned: the very object comes back."""
    module, f, b, (a,) = new_function(VECTOR, result=VECTOR)
    b.ret(b.emit("section", a, literal(0), b.emit("extent", a, at=0), literal(1)) if view else a)
    x = np.arange(4.0)
    result = check(module, x)
    assert result is x or view and result.base is x
    assert len(counting(f, "retain")) == 1


def test_returned_view_of_own_memory():
    """A view of a fresh array takes the array's only reference with it."""
    module, f, b, () = new_function(result=VECTOR)
    p = fresh(b, 5)
    b.ret(b.emit("section", p, literal(1), b.emit("add", literal(1), literal(2)), literal(1)))
    assert check(module).tolist() == [5.0] * 3
    assert not counting(f, "retain") and not counting(f, "release")


def test_one_array_returned_twice():
    """Each element of a tuple takes a reference of its own."""
    module, f, b, () = new_function(result=TupleType((VECTOR, VECTOR)))
    p = fresh(b, 1)
    b.ret(b.emit("tuple", p, p))
    first, second = check(module)
    assert first is second and len(counting(f, "retain")) == 1 and not counting(f, "release")


# -- over edges -------------------------------------------------------------------------------------------


def loop_of(module_parts, start, body, rounds=3):
    """A counted loop that carries pointers; the builder ends up behind it."""
    f, b = module_parts
    header, inside, after = (f.new_block(name) for name in ("loop", "body", "after"))
    b.branch(header, [literal(0), *start])
    i, *carried = (header.add_arg(t) for t in (INT, *(v.type for v in start)))
    b.at_end(header).conditional(b.emit("lessThan", i, literal(rounds)), inside, [], after, [])
    b.at_end(inside)
    passed = body(*carried)
    b.branch(header, [b.emit("add", i, literal(1)), *passed])
    b.at_end(after)
    return carried


def test_swap_moves():
    """`u, v = v, u` in a loop counts nothing: both references are moved on."""
    module, f, b, () = new_function(result=VECTOR)

    def body(u, v):
        b.emit("store", b.emit("add", b.emit("load", u), b.emit("load", v)), v)
        return v, u

    u, v = loop_of((f, b), [fresh(b, 1), fresh(b, 2)], body)
    b.ret(u)
    assert check(module).tolist() == [7.0] * 4
    (released,) = counting(f, "release")
    assert not counting(f, "retain") and released.operands == [v] and released.block.name == "after"


def test_new_array_each_round():
    """`u = u + 1` frees the old array in each round; it lives until the new one is full."""
    module, f, b, () = new_function(result=VECTOR)

    def body(u):
        new = b.emit("allocateHeap", b.emit("extent", u, at=0), dtype="f64")
        b.emit("store", b.emit("add", b.emit("load", u), literal(1.0)), new)
        return (new,)

    (u,) = loop_of((f, b), [fresh(b, 0)], body)
    b.ret(u)
    assert check(module).tolist() == [3.0] * 4
    assert len(counting(f, "allocateHeap")) == 2  # no temporary: the new array cannot be the old one
    (released,) = counting(f, "release")
    assert released.operands == [u] and released.block.name == "body"


def test_parameter_that_becomes_a_variable():
    """`v = a` and then `v = new` in a loop: the parameter is retained on entry, and never freed."""
    module, f, b, (a,) = new_function(VECTOR, result=VECTOR)
    (v,) = loop_of((f, b), [a], lambda v: (fresh(b, 7),))
    b.ret(v)
    assert check(module, np.zeros(4)).tolist() == [7.0] * 4


def test_one_array_for_two_arguments():
    """Passing one array twice takes two references."""
    module, f, b, () = new_function(result=VECTOR)
    p = fresh(b, 1)

    def body(u, v):
        b.emit("store", b.emit("add", b.emit("load", u), literal(1.0)), u)
        return v, v

    u, v = loop_of((f, b), [p, p], body)
    b.ret(v)
    assert check(module).tolist() == [4.0] * 4


def test_undefined_and_null():
    """Arguments that are undefined or null on some path are counted as nothing there."""
    module, f, b, () = new_function(result=VECTOR)
    start = [fresh(b, 1), Literal(VECTOR, UNDEFINED), Literal(VECTOR, NULL)]
    u, v, w = loop_of((f, b), start, lambda u, v, w: (u, u, w))
    b.ret(v)
    assert check(module).tolist() == [1.0] * 4


def diamond(condition):
    """An owner that only one side of a conditional uses; the other side shares its block with a loop."""
    module, f, b, (a, n) = new_function(VECTOR, INT, result=VECTOR)
    p = fresh(b, 9)
    then, join = f.new_block("then"), f.new_block("join")
    b.conditional(b.emit("lessThan", n, literal(0)), then, [], join, [])
    b.at_end(then)
    b.emit("store", b.emit("load", p), a)
    b.branch(join)
    b.at_end(join)
    b.ret(a)
    scheduled(module)
    return f, run(module, "f", [np.zeros(4), np.int64(condition)], check_ownership=True)


@pytest.mark.parametrize("condition", [-1, 1])
def test_dead_on_an_edge(condition):
    """What is dead on one way out of a block is released there; a critical edge gets a block for it."""
    f, result = diamond(condition)
    assert result.tolist() == [9.0 if condition < 0 else 0.0] * 4
    assert len(f.blocks) == 4 and len(counting(f, "release")) == 2


@pytest.mark.parametrize("condition", [-1, 1])
def test_pointer_passed_on_one_side(condition):
    """A conditional moves an owner along one edge and frees it on the other."""
    module, f, b, (n,) = new_function(INT, result=VECTOR)
    p, q = fresh(b, 1), fresh(b, 2)
    join = f.new_block("join")
    v = join.add_arg(VECTOR)
    b.conditional(b.emit("lessThan", n, literal(0)), join, [p], join, [q])
    b.at_end(join)
    b.ret(v)
    assert check(module, np.int64(condition)).tolist() == [1.0 if condition < 0 else 2.0] * 4
    assert not counting(f, "retain") and len(counting(f, "release")) == 2


def test_error_paths_release_nothing():
    """Edges into a block that raises carry no releases: the entry frees what an error leaves."""
    module, f, b, (n,) = new_function(INT, result=VECTOR)
    p = fresh(b, 1)
    bad, good = f.new_block("bad"), f.new_block("good")
    b.conditional(b.emit("lessThan", n, literal(0)), bad, [], good, [])
    b.at_end(bad).emit("raise", n, exception="ValueError", message="negative: {}")
    b.at_end(good).ret(p)
    scheduled(module)
    assert not counting(f, "release")
    assert run(module, "f", [np.int64(1)], check_ownership=True).tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="negative: -1"):
        run(module, "f", [np.int64(-1)])


# -- stacks and calls -------------------------------------------------------------------------------------


def test_arrays_in_a_stack():
    """A push takes a reference, a pop gives one."""
    module, f, b, (a,) = new_function(VECTOR, result=VECTOR)
    stack = b.emit("createStack", element=VECTOR)
    assert stack.type == StackType(VECTOR)
    p = fresh(b, 1)
    for v in (p, a, p, b.emit("pointerCast", p, to=VECTOR)):
        b.emit("push", v, stack)
    popped = [b.emit("pop", stack) for _ in range(4)]
    b.emit("destroyStack", stack)
    b.emit("store", b.emit("add", b.emit("load", popped[1]), b.emit("load", popped[2])), popped[2])
    b.ret(popped[3])
    x = np.full(4, 2.0)
    assert check(module, x).tolist() == [1.0] * 4 and x.tolist() == [3.0] * 4
    assert len(counting(f, "retain")) == 3  # of four pushes, the last one moves p's own reference


def test_results_of_calls():
    """A call gives a reference for each pointer of its result, also for those that are never extracted."""
    module, g, b, (a,) = new_function(VECTOR, result=TupleType((VECTOR, INT, VECTOR)), name="g")
    b.ret(b.emit("tuple", fresh(b, 4), literal(0), a))
    _, f, b, (a,) = new_function(VECTOR, result=VECTOR, module=module)
    for _ in range(2):
        y = b.emit("apply", a, callee="g", result=g.result)
    first = [b.emit("extract", y, at=0) for _ in range(2)]
    b.emit("store", b.emit("add", *(b.emit("load", p) for p in first)), first[0])
    b.ret(first[1])
    assert check(module, np.zeros(4)).tolist() == [8.0] * 4


def test_tuple_made_and_taken_apart():
    """A tuple that is built and only extracted from disappears, with the references that it would take."""
    module, f, b, () = new_function(result=VECTOR)
    pair = b.emit("tuple", fresh(b, 1), fresh(b, 2))
    b.ret(b.emit("extract", pair, at=1))
    assert check(module).tolist() == [2.0] * 4
    assert not counting(f, "tuple")


def test_tuple_argument_is_refused():
    """Nobody builds block arguments that are tuples; ownership says so instead of leaking."""
    module, f, b, () = new_function(result=VECTOR)
    block = f.new_block("next")
    pair = block.add_arg(TupleType((VECTOR,)))
    b.branch(block, [b.emit("tuple", fresh(b, 1))])
    b.at_end(block).ret(b.emit("extract", pair, at=0))
    with pytest.raises(PassError, match="tuple as an argument"):
        ownership.run(f)


def test_scalars_need_nothing():
    """A function without pointers of its own is not changed."""
    module, f, b, (a,) = new_function(VECTOR, result=INT)
    b.ret(b.emit("extent", a, at=0))
    assert not ownership.run(f)


# -- everything at once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("base", range(1000, 1200, 20))
def test_random_programs(base):
    """Random programs keep their results, leak nothing and touch nothing that is freed."""
    for seed in range(base, base + 20):
        texts = []
        for _ in range(2):
            module = Generator(seed).module
            before = outcome(module, seed)
            for f in module.functions.values():
                bufferize.run(f, noalias_params=f.name == "f")  # @f may hand one array to @g twice
                ownership.run(f)
            texts.append(print_function(module.functions["f"]))
        assert texts[0] == texts[1]  # the same text in every run
        verify(module, "scheduled")
        after = outcome(module, seed, check_ownership=True, trees_at_root=True)
        for x, y in zip(before, after, strict=True):
            np.testing.assert_array_equal(x, y)


def test_pipeline():
    """Passes are found by name or abbreviation; the runner verifies the stage that each one gives."""
    module = Generator(3).module
    before = outcome(module, 3)
    for f in module.functions.values():
        assert run_pipeline(f, ["simplify_cfg", "cse", "DCE", "bufferize", "dce", "own"], verify=True)
    after = outcome(module, 3, check_ownership=True, trees_at_root=True)
    for x, y in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, y)
    assert find_pass("licm") is PASSES["licm"] and all(row.description for row in PASSES.values())
    with pytest.raises(PassError, match="there is no pass frobnicate"):
        find_pass("frobnicate")
