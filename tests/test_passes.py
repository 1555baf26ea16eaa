"""Passes on values and memory, each law on a small function: what stands in the IR before and after.

Passes on control flow are in test_passes_flow.py, random programs in test_passes_random.py.
"""

import numpy as np
import pytest
from irbuild import new_function, pointer

from dlvm_py.ir import (
    BOOL,
    F64,
    I64,
    PointerType,
    TupleType,
    literal,
    print_function,
    scalar,
)
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import cse, dce, redundant_load, value_promotion

FLOAT, INT, FLAG = scalar(F64), scalar(I64), scalar(BOOL)
NAN = float("nan")


def body(f):
    """The instructions of a function as text, one a line, without the signature and the closing brace."""
    return [line.strip() for line in print_function(f).splitlines()[1:-1] if line.startswith("    ")]


def ops(f):
    """The op names of all instructions, in layout order."""
    return [i.op.name for i in f.instructions()]


def returned(f):
    """The value that the last instruction returns."""
    return list(f.instructions())[-1].operands[0]


def apply_pass(transform, f):
    """Run a pass that must change something, keep the IR valid and find nothing more the second time."""
    assert transform.run(f)
    verify(f)
    assert not transform.run(f)


# -- common subexpressions ---------------------------------------------------------------------------


def test_cse_orders_commutative_operands():
    """x * y and y * x are one; max of floats is not commutative (of two zeros it gives the first)."""
    _, f, b, (x, y) = new_function(FLOAT, FLOAT, result=TupleType((FLOAT, FLOAT, FLOAT, FLOAT)))
    values = [b.emit(op, *p) for op in ("multiply", "max") for p in ((x, y), (y, x))]
    b.ret(b.emit("tuple", *values))
    apply_pass(cse, f)
    first, second, third, fourth = returned(f).operands
    assert first is second and third is not fourth


def test_cse_compares_literals_by_bits():
    """0.0 and -0.0 differ, a NaN is itself."""
    _, f, b, (x,) = new_function(FLOAT, result=TupleType((FLOAT, FLOAT, FLOAT, FLOAT)))
    values = [b.emit("add", x, literal(c)) for c in (0.0, -0.0, NAN, NAN)]
    b.ret(b.emit("tuple", *values))
    apply_pass(cse, f)
    zero, minus_zero, nan, other_nan = returned(f).operands
    assert zero is not minus_zero and nan is other_nan


def test_cse_looks_up_the_dominator_tree():
    """The arms of a branch see what stands before it, not each other; checks count once."""
    _, f, b, (x, c) = new_function(FLOAT, FLAG, result=FLOAT)
    arms = [f.new_block("a"), f.new_block("b")]
    before = b.emit("sin", x)
    b.emit("check", c, exception="ValueError", message="no")
    b.conditional(c, arms[0], [], arms[1], [])
    results = []
    for arm in arms:
        b.at_end(arm)
        b.emit("check", c, exception="KeyError", message="never")
        results.append(b.emit("add", b.emit("sin", x), b.emit("cos", x)))
        b.ret(results[-1])
    apply_pass(cse, f)
    assert all(r.operands[0] is before for r in results)
    assert results[0].operands[1] is not results[1].operands[1]
    assert ops(f).count("check") == 1


def test_cse_leaves_loads_and_allocations():
    """Reading twice and allocating twice are not one."""
    _, f, b, (p,) = new_function(pointer(F64), result=FLOAT)
    made = [b.emit("allocateHeap", literal(2), dtype="f64") for _ in range(2)]
    loaded = b.emit("add", b.emit("load", p), b.emit("load", p))
    b.ret(loaded)
    assert not cse.run(f) and len(made) == 2


# -- redundant loads ---------------------------------------------------------------------------------


def two_loads(write, noalias_params=True):
    """Loads x[i], runs `write(b, x, y, i, j)`, loads x[i] again: whether the second load is redundant."""
    vector = pointer(F64, None)
    _, f, b, (x, y, i, j) = new_function(vector, vector, INT, INT, result=FLOAT)
    first = b.emit("load", b.emit("elementPointer", x, i))
    write(b, x, y, i, j)
    second = b.emit("load", b.emit("elementPointer", x, i))
    b.ret(b.emit("subtract", first, second))
    redundant_load.run(f, noalias_params)
    verify(f)
    return returned(f).operands[0] is returned(f).operands[1]


def test_loads_are_forwarded_past_what_cannot_write_there():
    """Another array and another literal index do not matter; the same array at a computed index does."""
    one = literal(1.0)
    assert two_loads(lambda b, x, y, i, j: None)
    assert two_loads(lambda b, x, y, i, j: b.emit("store", one, b.emit("elementPointer", y, j)))
    assert not two_loads(lambda b, x, y, i, j: b.emit("store", one, b.emit("elementPointer", x, j)))
    store_to_y = lambda b, x, y, i, j: b.emit("store", one, b.emit("elementPointer", y, j))  # noqa: E731
    assert not two_loads(store_to_y, noalias_params=False)


def test_stored_scalars_are_forwarded():
    """A load right after a store to the same element gives the stored scalar, also one block further."""
    _, f, b, (x, i, v) = new_function(pointer(F64, None), INT, FLOAT, result=FLOAT)
    b.emit("store", v, b.emit("elementPointer", x, i))
    after = f.new_block("after")
    b.branch(after)
    b.at_end(after)
    b.ret(b.emit("load", b.emit("elementPointer", x, i)))
    apply_pass(redundant_load, f)
    assert returned(f) is v


def test_a_join_forgets():
    """After a join nothing is known: one of the arms has stored."""
    _, f, b, (p, c, v) = new_function(pointer(F64), FLAG, FLOAT, result=FLOAT)
    arm, join = f.new_block("arm"), f.new_block("join")
    first = b.emit("load", p)
    b.conditional(c, arm, [], join, [])
    b.at_end(arm).emit("store", v, p)
    b.branch(join)
    b.at_end(join)
    b.ret(b.emit("add", first, b.emit("load", p)))
    assert not redundant_load.run(f)


def test_whole_array_loads_are_shared_within_a_block():
    """Two loads of an array with no write in between are one; a store to it in between keeps both."""
    for writes in (False, True):
        _, f, b, (x,) = new_function(pointer(F64, None), result=FLOAT)
        first = b.emit("load", x)
        if writes:
            b.emit("store", first, x)
        second = b.emit("load", x)
        total = b.emit("add", first, second)
        b.ret(b.emit("reduce", total, literal(0.0), by="add", axes=(0,)))
        assert redundant_load.run(f) is not writes
        assert (total.operands[0] is total.operands[1]) is not writes


def test_views_of_filled_memory_are_the_number():
    """A load by a view of what one number fills is that number; not after a write to the memory by another view."""
    for writes in (False, True):
        _, f, b, (n, v) = new_function(INT, FLOAT, result=FLOAT)
        m = b.emit("allocateHeap", n, literal(2), dtype="f64")
        b.emit("store", b.emit("broadcast", literal(0.5), n, literal(2)), m)
        if writes:
            b.emit("store", v, b.emit("elementPointer", b.emit("transpose", m), literal(1), literal(0)))
        row = b.emit("load", b.emit("shapeCast", m, b.emit("multiply", n, literal(2))))
        element = b.emit("load", b.emit("elementPointer", m, literal(0), literal(0)))
        b.ret(b.emit("add", element, b.emit("reduce", row, literal(0.0), by="add", axes=(0,))))
        assert redundant_load.run(f) is not writes
        verify(f)
        assert ops(f).count("load") == 2 * writes


# -- dead code ---------------------------------------------------------------------------------------


def test_dce_sweeps_values_and_block_arguments():
    """What nothing uses goes, with the block arguments that carry it; checks stay."""
    _, f, b, (x, c) = new_function(FLOAT, FLAG, result=FLOAT)
    join = f.new_block("join")
    kept, _ = join.add_arg(FLOAT, "r"), join.add_arg(FLOAT, "unused")
    b.emit("check", c, exception="ValueError", message="no")
    b.emit("add", literal(1), literal(2), checked=True)
    b.branch(join, [x, b.emit("exp", x)])
    b.at_end(join).ret(kept)
    apply_pass(dce, f)
    assert body(f) == [
        'check %p1: bool else ValueError "no" ()',
        "%0.1 = add 1: i64, 2: i64 checked",
        "branch 'join(%p0: f64)",
        "return %r: f64",
    ]


def test_dce_removes_arrays_that_are_only_written():
    """A local array without a reader disappears, through views and block arguments; a parameter does not."""
    _, f, b, (x,) = new_function(pointer(F64, 3), result=FLOAT)
    m = b.emit("allocateHeap", literal(3), dtype="f64")
    b.emit("store", b.emit("load", x), m)
    after = f.new_block("after")
    u = after.add_arg(PointerType(m.type.pointee), "u")
    b.branch(after, [m])
    b.at_end(after).emit("store", literal(1.0), b.emit("elementPointer", u, literal(0)))
    b.emit("store", literal(2.0), b.emit("elementPointer", x, literal(0)))
    b.ret(literal(0.0))
    apply_pass(dce, f)
    assert ops(f) == ["branch", "elementPointer", "store", "return"]


@pytest.mark.parametrize("used", [False, True])
def test_dce_removes_tapes_as_a_whole(used):
    """One live pop keeps every push and pop of its tape; without one the tape disappears."""
    _, f, b, (x,) = new_function(FLOAT, result=FLOAT)
    stack = b.emit("createStack", element=FLOAT)
    for _ in range(2):
        b.emit("push", x, stack)
    popped = [b.emit("pop", stack) for _ in range(2)]
    b.emit("destroyStack", stack)
    b.ret(popped[1] if used else x)
    assert dce.run(f) is not used
    verify(f)
    assert len(ops(f)) == (7 if used else 1)


# -- value promotion ---------------------------------------------------------------------------------


def temporary(b, x):
    """A fresh array that holds 2 x, written once."""
    m = b.emit("allocateHeap", b.emit("extent", x, at=0), dtype="f64")
    b.emit("store", b.emit("multiply", b.emit("load", x), literal(2.0)), m)
    return m


def test_single_store_memory_becomes_a_value():
    """Loads of a temporary in the block of its store are the stored value; the memory goes."""
    _, f, b, (x,) = new_function(pointer(F64, None), result=FLOAT)
    m = temporary(b, x)
    b.ret(b.emit("reduce", b.emit("load", m), literal(0.0), by="add", axes=(0,)))
    apply_pass(value_promotion, f)
    assert ops(f) == ["extent", "load", "multiply", "reduce", "return"]


def test_views_of_a_promoted_value():
    """A load of the padded temporary is the padded value."""
    module, f, b, (x,) = new_function(pointer(F64, None), result=pointer(F64, 1, None))
    padded = b.emit("load", b.emit("padShape", temporary(b, x), at=0))
    result = b.emit("allocateHeap", literal(1), b.emit("extent", x, at=0), dtype="f64")
    b.emit("store", padded, result)
    b.ret(result)
    apply_pass(value_promotion, f)
    assert ops(f).count("allocateHeap") == 1
    np.testing.assert_array_equal(run(module, "f", [np.arange(3.0)]), [[0, 2, 4]])


@pytest.mark.parametrize("reason", ["written again", "returned", "written through a view"])
def test_memory_that_is_written_or_escapes_stays(reason):
    """A second store, a store through a view, or an escape: the array remains an array."""
    _, f, b, (x,) = new_function(pointer(F64, None), result=pointer(F64, None))
    m = temporary(b, x)
    if reason == "written again":
        b.emit("store", b.emit("load", x), m)
    elif reason == "written through a view":
        b.emit("store", literal(0.0), b.emit("elementPointer", m, literal(0)))
    value = b.emit("load", m)
    b.emit("store", value, x)
    b.ret(m if reason == "returned" else x)
    assert not value_promotion.run(f)


def test_scalar_memory_is_promoted_across_blocks():
    """A rank 0 cell that is stored once is the stored scalar wherever the store dominates."""
    _, f, b, (v,) = new_function(FLOAT, result=FLOAT)
    cell = b.emit("allocateHeap", dtype="f64")
    b.emit("store", v, cell)
    after = f.new_block("after")
    b.branch(after)
    b.at_end(after).ret(b.emit("load", cell))
    apply_pass(value_promotion, f)
    assert body(f) == ["branch 'after()", "return %p0: f64"]
