"""The reference interpreter: Python and NumPy semantics, and that it notices every promise that is broken."""

import numpy as np
import pytest
from irbuild import INDEX, evaluate, new_function, pointer

from dlvm_py.errors import Loc, PassError
from dlvm_py.ir import BOOL, F64, I8, I64, NULL, UNDEFINED, VOID, Literal, TensorType, TupleType, literal, scalar
from dlvm_py.ir.interpreter import run

VECTOR, MATRIX, DOUBLE = pointer(F64, None), pointer(F64, None, None), scalar(F64)
STRIDED = pointer(F64, None, layout="S")
ROW = TensorType((None,), F64)


def ones(n=3):
    """A vector of ones."""
    return np.ones(n)


# -- control flow and calls ------------------------------------------------------------------------------


def test_loop_with_block_arguments():
    """Arguments of an edge are read before any is assigned: (a, b) → (b, a + b) gives Fibonacci's numbers."""
    module, f, b, (n,) = new_function(INDEX, result=INDEX)
    loop, body, end = f.new_block(), f.new_block(), f.new_block()
    k, x, y = (loop.add_arg(INDEX) for _ in range(3))
    b.branch(loop, [literal(0), literal(0), literal(1)])
    b.at_end(loop).conditional(b.emit("lessThan", k, n), body, None, end)
    b.at_end(body).branch(loop, [b.emit("add", k, literal(1)), y, b.emit("add", x, y)])
    b.at_end(end).ret(x)
    assert [run(module, "f", [n]) for n in range(8)] == [0, 1, 1, 2, 3, 5, 8, 13]
    with pytest.raises(PassError, match="step limit"):
        run(module, "f", [1000], max_steps=100)


def test_recursion():
    """apply runs another activation of a function, also of its caller."""
    module, f, b, (n,) = new_function(INDEX, result=INDEX, name="fact")
    more, end = f.new_block(), f.new_block()
    b.conditional(b.emit("lessThan", n, literal(2)), end, None, more)
    b.at_end(end).ret(literal(1))
    rest = b.at_end(more).emit("apply", b.emit("subtract", n, literal(1)), callee="fact", result=INDEX)
    b.ret(b.emit("multiply", n, rest))
    assert run(module, "fact", [10]) == 3628800


def test_results():
    """None for void, a NumPy scalar, an ndarray, a tuple; an array that is an argument is that very object."""
    module, _, b, (p, s) = new_function(VECTOR, DOUBLE, result=TupleType((DOUBLE, VECTOR, INDEX)))
    b.ret(b.emit("tuple", s, p, b.emit("extent", p, at=0)))
    x = ones()
    s, p, n = run(module, "f", [x, 2.5])
    assert type(s) is np.float64 and s == 2.5 and p is x and type(n) is np.int64 and n == 3
    module, _, b, _ = new_function()
    b.ret()
    assert run(module, "f", []) is None


# -- memory ----------------------------------------------------------------------------------------------


def test_load_is_a_snapshot():
    """A value that was loaded does not change with the memory: (a, b) swap through two loads."""
    module, _, b, (p, q) = new_function(VECTOR, VECTOR)
    x, y = b.emit("load", p), b.emit("load", q)
    b.emit("store", y, p)
    b.emit("store", x, q)
    b.ret()
    one, two = np.arange(3.0), np.arange(3.0) + 10
    run(module, "f", [one, two])
    assert list(one) == [10, 11, 12] and list(two) == [0, 1, 2]


def test_overlapping_store_reads_all_first():
    """a[1:] = a[:-1] shifts."""
    module, _, b, (p, n) = new_function(VECTOR, INDEX)
    low, high = (b.emit("section", p, literal(k), n, literal(1)) for k in (0, 1))
    b.emit("store", b.emit("load", low), high)
    b.ret()
    x = np.arange(5.0)
    run(module, "f", [x, 4])
    assert list(x) == [0, 0, 1, 2, 3]


def test_views_write_through():
    """Every index op on a pointer is a view of the same memory."""
    x = np.arange(12.0).reshape(3, 4)
    module, _, b, (p,) = new_function(MATRIX)
    b.emit("store", literal(-1.0), b.emit("elementPointer", p, literal(1), literal(2)))
    flat = b.emit("shapeCast", p, literal(12))
    b.emit("store", literal(-2.0), b.emit("elementPointer", flat, literal(11)))
    turned = b.emit("transpose", p)
    b.emit("store", literal(-3.0), b.emit("elementPointer", turned, literal(3), literal(0)))
    padded = b.emit("squeezeShape", b.emit("padShape", p, at=1), at=1)
    b.emit("store", literal(-4.0), b.emit("elementPointer", padded, literal(2), literal(0)))
    backwards = b.emit("section", p, *map(literal, (2, 3, 2, 2, -2, -3)))
    b.emit("store", literal(-5.0), b.emit("elementPointer", backwards, literal(1), literal(1)))
    b.ret()
    run(module, "f", [x])
    assert (x[1, 2], x[2, 3], x[0, 3], x[2, 0], x[0, 0]) == (-1, -2, -3, -4, -5)


PROGRESSIONS = [(0, 3, 1), (4, 5, -1), (3, 2, -3), (1, 2, 3), (2, 0, 5), (4, 1, 0)]


@pytest.mark.parametrize(("start", "count", "step"), PROGRESSIONS)
def test_sections_are_arithmetic_progressions(start, count, step):
    """section p at s count n step t is the elements s, s + t, ..., s + (n - 1) t."""
    module, _, b, (p,) = new_function(VECTOR, result=STRIDED)
    n = b.emit("section", p, literal(start), literal(count), literal(step))
    b.ret(b.emit("pointerCast", n, to=STRIDED))
    x = np.arange(5.0)
    if step:
        assert list(run(module, "f", [x])) == [start + k * step for k in range(count)]
    else:
        with pytest.raises(PassError):
            run(module, "f", [x])


@pytest.mark.parametrize(("start", "count", "step"), [(0, 6, 1), (-1, 1, 1), (5, 1, 1), (1, 3, -1), (0, -1, 1)])
def test_sections_are_in_range(start, count, step):
    """A section outside of its base is a broken promise, not NumPy's clipping."""
    module, _, b, (p, *r) = new_function(VECTOR, INDEX, INDEX, INDEX)
    b.emit("section", p, *r)
    b.ret()
    with pytest.raises(PassError, match="out of range"):
        run(module, "f", [np.arange(5.0), start, count, step])


def test_fresh_memory_is_poisoned():
    """What was never written reads as NaN, or as a large integer."""
    module, _, b, _ = new_function(result=TupleType((pointer(F64, 2), pointer(I64, 2), pointer(I8, 2))))
    b.ret(b.emit("tuple", *(b.emit("allocateHeap", literal(2), dtype=d) for d in ("f64", "i64", "i8"))))
    floats, wide, narrow = run(module, "f", [])
    assert np.all(np.isnan(floats)) and np.all(wide > 2**60) and np.all(narrow > 64)


def test_null():
    """A null pointer has extents 0; retain and release of it do nothing; it has no element to load."""
    module, _, b, _ = new_function(result=INDEX)
    nothing = Literal(VECTOR, NULL)
    b.emit("retain", nothing)
    b.emit("release", nothing)
    b.emit("release", Literal(VECTOR, UNDEFINED))
    b.ret(b.emit("extent", b.emit("transpose", nothing), at=0))
    assert run(module, "f", [], check_ownership=True) == 0
    module, _, b, _ = new_function(result=DOUBLE)
    b.ret(b.emit("load", Literal(pointer(F64), NULL)))
    with pytest.raises(PassError, match="null"):
        run(module, "f", [])


def test_stacks():
    """A stack is last in, first out; scalars and arrays are pushed by value, pointers by reference."""
    module, _, b, (p,) = new_function(VECTOR, result=TupleType((DOUBLE, DOUBLE)))
    values, memory = b.emit("createStack", element=ROW), b.emit("createStack", element=VECTOR)
    b.emit("push", b.emit("load", p), values)
    b.emit("push", p, memory)
    b.emit("store", b.emit("negate", b.emit("load", p)), p)
    old, new = b.emit("pop", values), b.emit("load", b.emit("pop", memory))
    for stack in (values, memory):
        b.emit("destroyStack", stack)
    b.ret(b.emit("tuple", *(b.emit("reduce", v, literal(0.0), by="add", axes=(0,)) for v in (old, new))))
    assert run(module, "f", [ones()], check_ownership=True) == (3, -3)


def test_misused_stacks():
    """Pop from an empty stack and destruction of a full one are broken promises."""
    for last, message in (("pop", "empty"), ("destroyStack", "before it is empty")):
        module, _, b, _ = new_function()
        stack = b.emit("createStack", element=DOUBLE)
        if last == "destroyStack":
            b.emit("push", literal(1.0), stack)
        b.emit(last, stack)
        b.ret()
        with pytest.raises(PassError, match=message):
            run(module, "f", [])


# -- numbers ---------------------------------------------------------------------------------------------


def test_integers_wrap():
    """Arithmetic of integers wraps around, in every width, without a warning."""
    assert evaluate(lambda x: x + 1, np.int64(2**63 - 1)) == -(2**63)
    assert evaluate(lambda x: x * 2, np.array([100], np.int8))[0] == -56
    assert evaluate(lambda x: -x, np.uint8(1)) == 255


def test_division_by_zero():
    """Integer // and % by 0 give 0, float division gives inf and nan, as NumPy has it."""
    module, _, b, (n,) = new_function(INDEX, result=TupleType((INDEX, INDEX, DOUBLE)))
    b.ret(b.emit("tuple", b.emit("floorDivide", n, literal(0)), b.emit("modulo", n, literal(0)),
                 b.emit("divide", literal(1.0), literal(0.0))))  # fmt: skip
    assert run(module, "f", [7]) == (0, 0, np.inf)


CHECKED = [
    ("add", (2**63 - 1, 1)), ("subtract", (-(2**63), 1)), ("multiply", (2**32, 2**31)), ("negate", (-(2**63),)),
    ("abs", (-(2**63),)),
    ("power", (2, 63)), ("power", (-3, 10**9)), ("power", (10, 2**62)), ("power", (-(2**63), 2**62)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "operands"), CHECKED)
def test_checked_arithmetic_overflows(name, operands):
    """checked raises OverflowError where the exact result does not fit in 64 bits, with the line in a note."""
    module, _, b, values = new_function(*[INDEX] * len(operands), result=INDEX)
    b.loc = Loc("user.py", 3, 8)
    b.ret(b.emit(name, *values, checked=True))
    with pytest.raises(OverflowError, match="integer overflow: the result does not fit in 64 bits") as info:
        run(module, "f", operands)
    assert info.value.__notes__ == ["user.py:3:9"]


@pytest.mark.parametrize(
    ("name", "operands", "result"),
    [("add", (2**63 - 2, 1), 2**63 - 1), ("power", (-2, 63), -(2**63)), ("power", (1, 2**62), 1), ("power", (0, 0), 1),
     ("power", (-1, 2**62 + 1), -1), ("abs", (-5,), 5), ("multiply", (-(2**32), 2**31), -(2**63))],
)  # fmt: skip
def test_checked_arithmetic_is_exact(name, operands, result):
    """checked changes nothing where the exact result fits."""
    module, _, b, values = new_function(*[INDEX] * len(operands), result=INDEX)
    b.ret(b.emit(name, *values, checked=True))
    assert run(module, "f", operands) == result


# -- what the program raises -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["check", "raise"])
def test_exceptions_of_the_program(name):
    """check and raise give the named built-in exception, operands formatted as Python values, line in a note."""
    module, _, b, (n, x) = new_function(INDEX, DOUBLE)
    b.loc = Loc("user.py", 12)
    at = b.emit("lessThan", n, literal(5))
    attrs = {"exception": "IndexError", "message": "index {} of {}: {}"}
    if name == "check":
        b.emit("check", at, n, x, at, **attrs)
        b.ret()
    else:
        b.emit("raise", n, x, at, **attrs)
    with pytest.raises(IndexError, match="index") as info:
        run(module, "f", [9, 0.1])
    assert str(info.value) == "index 9 of 0.1: False"
    assert info.value.__notes__ == ["user.py:12:1"]
    if name == "check":
        run(module, "f", [4, 0.1])


# -- broken promises -----------------------------------------------------------------------------------------


def test_unknown_extents_do_not_broadcast():
    """An extent 1 at run time, where the type does not state it, does not stretch; a stated one does."""
    module, _, b, (p, q) = new_function(VECTOR, VECTOR)
    b.emit("add", b.emit("load", p), b.emit("load", q))
    b.ret()
    run(module, "f", [ones(3), ones(3)])
    with pytest.raises(PassError, match="do not match"):
        run(module, "f", [ones(3), ones(1)])
    with pytest.raises(PassError, match="do not match"):
        run(module, "f", [ones(3), ones(4)])
    module, _, b, (p, q) = new_function(VECTOR, pointer(F64, 1))
    b.emit("add", b.emit("load", p), b.emit("load", q))
    b.ret()
    run(module, "f", [ones(3), ones(1)])


def test_stores_have_equal_extents():
    """A store does not broadcast."""
    module, _, b, (p, q) = new_function(VECTOR, VECTOR)
    b.emit("store", b.emit("load", p), q)
    b.ret()
    with pytest.raises(PassError, match="is stored to"):
        run(module, "f", [ones(1), ones(3)])


def test_layouts_and_extents_are_as_stated():
    """Arguments, and views that say more than is so, are refused."""
    module, _, b, (_,) = new_function(VECTOR)
    b.ret()
    for argument in (np.arange(6.0)[::2], np.zeros((2, 2)), np.zeros(3, np.float32), 1.0):
        with pytest.raises(PassError):
            run(module, "f", [argument])
    module, _, b, (p,) = new_function(pointer(F64, None, 3))
    b.ret()
    with pytest.raises(PassError, match="where the type says"):
        run(module, "f", [np.zeros((2, 4))])
    module, _, b, _ = new_function(INDEX)
    b.ret()
    with pytest.raises(PassError, match="argument 0"):
        run(module, "f", [1.5])
    with pytest.raises(PassError, match="takes 1 arguments"):
        run(module, "f", [])


@pytest.mark.parametrize("keys", [(3,), (-1,)])
def test_element_pointers_are_in_range(keys):
    """An index outside of the extents, negative ones included, is a broken promise."""
    module, _, b, (p, n) = new_function(VECTOR, INDEX)
    b.emit("elementPointer", p, n)
    b.ret()
    with pytest.raises(PassError, match="out of range"):
        run(module, "f", [ones(3), *keys])


def test_reshapes_and_broadcasts_fit():
    """shapeCast keeps the number of elements, and -1 means nothing to it; broadcast stretches 1 only."""
    for name, extents in (("shapeCast", (2, 2)), ("shapeCast", (-1, 3)), ("broadcast", (4,))):
        module, _, b, (p, *n) = new_function(VECTOR, *[INDEX] * len(extents))
        b.emit(name, b.emit("load", p), *n)
        b.ret()
        with pytest.raises(PassError):
            run(module, "f", [ones(3), *extents])


def test_undefined_values_flow_but_are_not_used():
    """An undefined value passes through edges, tuples and stacks, and an undefined array has undefined extents.

    Arithmetic on it and its return are errors.
    """
    nothing = Literal(DOUBLE, UNDEFINED)
    module, f, b, (c,) = new_function(scalar(BOOL), result=DOUBLE)
    end = f.new_block()
    x = end.add_arg(DOUBLE)
    stack, extents = (b.emit("createStack", element=t) for t in (DOUBLE, INDEX))
    b.emit("push", nothing, stack)
    b.emit("extract", b.emit("tuple", nothing, b.emit("pop", stack)), at=1)
    array = b.emit("constant", Literal(VECTOR, UNDEFINED))
    b.emit("push", b.emit("extent", array, at=0), extents)
    b.conditional(c, end, [literal(1.0)], end, [nothing])
    b.at_end(end).ret(b.emit("sin", x))
    assert run(module, "f", [True]) == np.sin(1.0)
    with pytest.raises(PassError, match="undefined"):
        run(module, "f", [False])
    module, _, b, _ = new_function(result=DOUBLE)
    b.ret(nothing)
    with pytest.raises(PassError, match="undefined"):
        run(module, "f", [])


# -- ownership -----------------------------------------------------------------------------------------------


def owner_program(*steps, result=VOID):
    """A program that allocates %a, then retains, releases, loads, stores as told, and returns %a or nothing."""
    module, _, b, (p,) = new_function(VECTOR, result=result)
    a = b.emit("allocateHeap", b.emit("extent", p, at=0), dtype="f64")
    view = b.emit("section", a, literal(0), literal(1), literal(1))
    for step in steps:
        what, _, of = step.partition(" ")
        value = {"a": a, "view": view, "p": p, "": a}[of]
        if what == "store":
            b.emit("store", b.emit("load", p), a)
        else:
            b.emit(what, value)
    b.ret(*([a] if result != VOID else []))
    return module


SOUND_OWNERS = [
    (("release",), VOID),
    (("retain", "release", "store", "release"), VOID),
    (("retain view", "release", "load view", "release view"), VOID),
    (("retain p", "release p", "release"), VOID),
    (("store",), VECTOR),
    (("retain", "store", "release"), VECTOR),
]
BAD_OWNERS = [
    ((), VOID, "not given back"),
    (("retain", "release"), VOID, "not given back"),
    (("retain p", "release"), VOID, "not given back"),
    (("retain",), VECTOR, "not given back"),
    (("release", "release"), VOID, "used after it was freed"),
    (("release p",), VOID, "argument 0 is released too often"),
    (("release", "store"), VOID, "used after it was freed"),
    (("release", "load view"), VOID, "used after it was freed"),
    (("release",), VECTOR, "after it was freed"),
]


@pytest.mark.parametrize(("steps", "result"), SOUND_OWNERS)
def test_balanced_ownership(steps, result):
    """Every reference is given back or returned: no complaint."""
    run(owner_program(*steps, result=result), "f", [ones()], check_ownership=True)


@pytest.mark.parametrize(("steps", "result", "message"), BAD_OWNERS)
def test_unbalanced_ownership(steps, result, message):
    """Leaks, double releases and uses of freed memory are told apart."""
    with pytest.raises(PassError, match=message):
        run(owner_program(*steps, result=result), "f", [ones()], check_ownership=True)


def test_returned_parameters_are_retained():
    """Return passes a reference on, so a parameter that is returned was retained."""
    for retained in (True, False):
        module, _, b, (p,) = new_function(VECTOR, result=VECTOR)
        if retained:
            b.emit("retain", p)
        b.ret(p)
        if retained:
            run(module, "f", [ones()], check_ownership=True)
        else:
            with pytest.raises(PassError, match="argument 0"):
                run(module, "f", [ones()], check_ownership=True)


def test_stacks_are_destroyed():
    """A stack that is left at the end is a leak."""
    module, _, b, _ = new_function()
    b.emit("createStack", element=DOUBLE)
    b.ret()
    run(module, "f", [])
    with pytest.raises(PassError, match="1 stacks"):
        run(module, "f", [], check_ownership=True)


# -- trees at their roots --------------------------------------------------------------------------------------


def test_trees_are_evaluated_at_their_root():
    """With trees_at_root a load is done where its root stands, so that a wrong tree shows."""
    module, _, b, (p, q) = new_function(VECTOR, VECTOR)
    x = b.emit("load", p)
    b.emit("store", b.emit("negate", b.emit("load", p)), p)
    b.emit("store", x, q)
    b.ret()
    for late, expected in ((False, 1), (True, -1)):
        one, two = ones(), ones()
        run(module, "f", [one, two], trees_at_root=late)
        assert list(two) == [expected] * 3 and list(one) == [-1] * 3


def test_trees_do_not_overlap_their_destination():
    """With trees_at_root a load that meets the destination at another element is refused, in place is fine."""
    for offset in (0, 1):
        module, _, b, (p, n) = new_function(VECTOR, INDEX)
        to = b.emit("section", p, literal(0), n, literal(1))
        x = b.emit("load", b.emit("section", p, literal(offset), n, literal(1)))
        b.emit("store", b.emit("sin", x), to)
        b.ret()
        if offset:
            with pytest.raises(PassError, match="overlaps"):
                run(module, "f", [ones(4), 3], trees_at_root=True)
        else:
            run(module, "f", [ones(4), 3], trees_at_root=True)
