"""Constant folding: every law on a small function, where it holds and where it does not."""

import numpy as np
import pytest
from irbuild import new_function, pointer

from dlvm_py.ir import BOOL, F32, F64, I8, I32, I64, Literal, TupleType, literal, print_function, scalar
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import constant_fold, dce

FLOAT, INT, FLAG = scalar(F64), scalar(I64), scalar(BOOL)
NAN = float("nan")


def body(f):
    """The instructions of a function as text, one a line, without the signature and the closing brace."""
    return [line.strip() for line in print_function(f).splitlines()[1:-1] if line.startswith("    ")]


def returned(f):
    """The value that the last instruction returns."""
    return list(f.instructions())[-1].operands[0]


def fold(f):
    """Fold, which must change something, keep the IR valid and find nothing more the second time."""
    assert constant_fold.run(f)
    verify(f)
    assert not constant_fold.run(f)


def folded(type, op, *operands, **attrs):
    """What `op` on the given literals (numbers) becomes: the payload, or None where it stays."""
    _, f, b, _ = new_function(result=FLOAT)
    b.ret(b.emit(op, *(literal(x, type) for x in operands), **attrs))
    f.result = returned(f).type
    changed = constant_fold.run(f)
    value = returned(f)
    assert changed == isinstance(value, Literal)
    return value.value if changed else None


@pytest.mark.parametrize(
    ("type", "op", "operands", "expected"),
    [
        (FLOAT, "multiply", (0.1, 3.0), 0.1 * 3.0),
        (FLOAT, "divide", (1.0, 0.0), float("inf")),
        (FLOAT, "add", (-0.0, -0.0), -0.0),
        (scalar(F32), "add", (0.1, 0.2), float(np.float32(0.1) + np.float32(0.2))),
        (scalar(I8), "add", (100, 100), -56),
        (INT, "floorDivide", (-7, 2), -4),
        (INT, "modulo", (-7, 3), 2),
        (INT, "power", (3, 4), 81),
        (INT, "max", (3, 4), 4),
        (FLOAT, "lessThan", (NAN, 1.0), False),
        (FLAG, "and", (True, False), False),
        # left alone: no value that holds everywhere
        (FLOAT, "exp", (1.0,), None),
        (FLOAT, "power", (2.0, 0.5), None),
        (INT, "floorDivide", (1, 0), None),
        (INT, "power", (2, -1), None),
        (INT, "shiftLeft", (1, 64), None),
    ],
)
def test_literals_are_evaluated_in_their_dtype(type, op, operands, expected):
    """An op on literals becomes NumPy's result of that dtype, if the result is fixed to the bit."""
    assert repr(folded(type, op, *operands)) == repr(expected)


def test_checked_arithmetic_overflows_at_run_time():
    """A checked op folds when the exact result fits, and is left to raise when it does not."""
    assert folded(INT, "multiply", 2**31, 2**31, checked=True) == 2**62
    assert folded(INT, "multiply", 2**32, 2**31, checked=True) is None
    assert folded(INT, "negate", -(2**63), checked=True) is None


def test_casts_out_of_range_are_not_folded():
    """Casting a float that an integer dtype does not hold is left to the target."""
    assert folded(FLOAT, "dataTypeCast", 2.9, to="i32") == 2
    assert folded(FLOAT, "dataTypeCast", NAN, to="i32") is None
    assert folded(FLOAT, "dataTypeCast", 1e10, to="i32") is None


@pytest.mark.parametrize(
    ("op", "right", "holds"),
    [
        ("multiply", 1.0, True),
        ("divide", 1.0, True),
        ("subtract", 0.0, True),
        ("add", -0.0, True),
        ("add", 0.0, False),  # -0.0 + 0.0 is 0.0
        ("subtract", -0.0, False),
        ("multiply", 0.0, False),  # NaN, infinities, signs
    ],
)
def test_floating_point_identities_are_exact(op, right, holds):
    """x op c is x only where that is so for every x, zeros and NaN included."""
    _, f, b, (x,) = new_function(FLOAT, result=FLOAT)
    b.ret(b.emit(op, x, literal(right)))
    assert constant_fold.run(f) == holds
    assert (returned(f) is x) == holds


def integer_rule(build):
    """The function of two integers x, y that `build(b, x, y)` makes, folded; and its parameters."""
    _, f, b, (x, y) = new_function(INT, INT, result=INT)
    value = build(b, x, y)
    f.result = value.type
    b.ret(value)
    constant_fold.run(f)
    verify(f)
    return returned(f), x, y


def test_integer_sums_are_regrouped():
    """Integers wrap, so sums with literals combine and differences cancel."""
    value, x, _ = integer_rule(lambda b, x, y: b.emit("subtract", b.emit("add", x, literal(5)), literal(3)))
    assert value.op.name == "add" and value.operands[0] is x and value.operands[1].value == 2
    value, x, y = integer_rule(lambda b, x, y: b.emit("subtract", b.emit("add", x, y), x))
    assert value is y
    value, x, y = integer_rule(lambda b, x, y: b.emit("subtract", b.emit("add", x, y, checked=True), y))
    assert value is x


def test_checked_sums_are_not_regrouped():
    """(x + 5) - 3 overflows where x + 2 does not; the difference cannot, so it loses its check."""
    value, x, _ = integer_rule(
        lambda b, x, y: b.emit("subtract", b.emit("add", x, literal(5), checked=True), literal(3), checked=True)
    )
    total, minus_three = value.operands
    assert total.attrs["checked"] and "checked" not in value.attrs
    assert total.operands[0] is x and minus_three.value == -3


def test_nested_extrema_of_integers():
    """max and min absorb each other and combine their literals."""
    value, x, y = integer_rule(lambda b, x, y: b.emit("max", x, b.emit("min", x, y)))
    assert value is x
    value, x, _ = integer_rule(lambda b, x, y: b.emit("max", b.emit("max", x, literal(2)), literal(5)))
    assert value.operands == [x, value.operands[1]] and value.operands[1].value == 5
    value, *_ = integer_rule(lambda b, x, y: b.emit("max", b.emit("min", x, literal(2)), literal(5)))
    assert value.value == 5


def test_extents_are_not_negative():
    """max(n, 0) of an extent is the extent, and a check that it is not negative disappears."""
    _, f, b, (p,) = new_function(pointer(F64, None), result=INT)
    n = b.emit("extent", p, at=0)
    clipped = b.emit("max", n, literal(0))
    b.emit("check", b.emit("lessThanOrEqual", literal(0), clipped), exception="ValueError", message="no")
    b.ret(b.emit("add", b.emit("min", clipped, literal(7)), literal(1), checked=True))
    fold(f)
    dce.run(f)
    assert body(f) == [
        "%0.0 = extent %p0: *<_ x f64> at 0",
        "%0.1 = min %0.0: i64, 7: i64",
        "%0.2 = add %0.1: i64, 1: i64",  # at most 8: the overflow check is gone
        "return %0.2: i64",
    ]


def test_boolean_and_select_laws():
    """Double negation, inverse comparisons, selects of equal arms and of flags."""
    result = TupleType((FLAG, FLAG, FLAG, FLOAT, FLAG, FLAG))
    _, f, b, (x, y, i, c) = new_function(FLOAT, FLOAT, INT, FLAG, result=result)
    not_less = b.emit("not", b.emit("lessThan", x, y))
    not_below = b.emit("not", b.emit("lessThan", i, literal(3)))
    twice = b.emit("not", b.emit("not", c))
    same = b.emit("select", x, x, c)
    flag = b.emit("select", literal(True), literal(False), c)
    inverse = b.emit("select", literal(False), literal(True), c)
    b.ret(b.emit("tuple", not_less, not_below, twice, same, flag, inverse))
    fold(f)
    values = returned(f).operands
    assert values[0].op.name == "not"  # with NaN not (x < y) is not x >= y
    assert values[1].op.name == "greaterThanOrEqual"
    assert values[2:5] == [c, x, c]
    assert values[5].op.name == "not"


def test_truth_values_are_compared_with_zero():
    """What a flag is as a number differs from 0 where the flag is true, in arrays as well."""
    _, f, b, (c, d) = new_function(FLAG, pointer(BOOL, 2), result=TupleType((FLAG, FLAG, FLAG)))
    differs = b.emit("notEqual", b.emit("dataTypeCast", c, to="i64"), literal(0))
    is_zero = b.emit("equal", b.emit("dataTypeCast", c, to="f64"), literal(0.0))
    is_one = b.emit("equal", b.emit("dataTypeCast", c, to="i64"), literal(1))
    number = b.emit("dataTypeCast", b.emit("load", d), to="i64")
    b.emit("store", b.emit("notEqual", number, literal(0)), d)
    b.ret(b.emit("tuple", differs, is_zero, is_one))
    fold(f)
    first, second, third = returned(f).operands
    assert first is c and second.op.name == "not" and second.operands[0] is c and third.op.name == "equal"
    assert [i.operands[0].op.name for i in f.blocks[0].instructions if i.op.name == "store"] == ["load"]


def test_casts_compose_where_nothing_is_lost():
    """bool -> i64 -> f64 is bool -> f64; i64 -> f64 -> i64 rounds and stays."""
    _, f, b, (c, k, h) = new_function(FLAG, INT, scalar(I32), result=TupleType((FLOAT, INT, scalar(I32))))
    widened = b.emit("dataTypeCast", b.emit("dataTypeCast", c, to="i64"), to="f64")
    rounded = b.emit("dataTypeCast", b.emit("dataTypeCast", k, to="f64"), to="i64")
    back = b.emit("dataTypeCast", b.emit("dataTypeCast", h, to="f64"), to="i32")
    b.ret(b.emit("tuple", widened, rounded, back))
    fold(f)
    first, second, third = returned(f).operands
    assert first.operands[0] is c and second.operands[0] is not k and third is h


def test_views_compose():
    """Transposes cancel, whole sections are their base, elements are taken from the base."""
    _, f, b, (a, i, j) = new_function(pointer(F64, None, None), INT, INT, result=FLOAT)
    t = b.emit("transpose", a)
    n, m = (b.emit("extent", t, at=k) for k in (0, 1))
    zero, one = literal(0), literal(1)
    whole = b.emit("section", t, zero, zero, n, m, one, one)
    row = b.emit("elementPointer", b.emit("padShape", whole, at=0), zero, j)
    b.ret(b.emit("load", b.emit("elementPointer", row, i)))
    constant_fold.run(f)
    verify(f)
    dce.run(f)
    assert body(f) == [
        "%0.0 = elementPointer %p0: *<_ x _ x f64> at %p1: i64, %p2: i64",
        "%0.1 = load %0.0: *f64",
        "return %0.1: f64",
    ]


def test_extents_move_to_their_source():
    """The extent of an expression over a fresh array is what the array was allocated with."""
    _, f, b, (n,) = new_function(INT, result=INT)
    m = b.emit("allocateHeap", n, literal(3), dtype="f64")
    value = b.emit("transpose", b.emit("negate", b.emit("load", m)))
    b.ret(b.emit("add", b.emit("extent", value, at=0), b.emit("extent", value, at=1)))
    fold(f)
    dce.run(f)
    assert body(f) == ["%0.0 = add 3: i64, %p0: i64", "return %0.0: i64"]


def test_a_section_keeps_the_extent_that_tells_its_layout():
    """Rows of an allocation are C-contiguous because they are taken whole; that must stay readable."""
    module, f, b, (n,) = new_function(INT, result=pointer(F64, 1, None))
    m = b.emit("allocateHeap", literal(2), n, dtype="f64")
    width = b.emit("extent", m, at=1)
    b.emit("store", b.emit("broadcast", literal(1.5), literal(2), width), m)
    zero, one = literal(0), literal(1)
    b.ret(b.emit("section", m, one, zero, one, width, one, one))
    assert returned(f).type.layout == "C"
    fold(f)
    assert returned(f).type.layout == "C"
    np.testing.assert_array_equal(run(module, "f", [3]), np.full((1, 3), 1.5))


def test_substitution_keeps_types():
    """A literal extent would refine types: pointers are cast back, array values get a pinned literal."""
    module, f, b, (p,) = new_function(pointer(F64, 3), result=pointer(F64, None))
    n = b.emit("add", literal(1), b.emit("extent", p, at=0))
    m = b.emit("allocateHeap", n, dtype="f64")
    b.emit("store", b.emit("broadcast", literal(1.0), n), m)
    b.ret(m)
    fold(f)
    assert body(f) == [
        "%0.0 = allocateHeap f64 count (4: i64)",
        "%0.1 = pointerCast %0.0: *<4 x f64> to *<_ x f64>",
        "%0.2 = add 4: i64, 0: i64",
        "%0.3 = broadcast 1.0: f64 to (%0.2: i64)",
        "store %0.3: <_ x f64> to %0.1: *<_ x f64>",
        "return %0.1: *<_ x f64>",
    ]
    np.testing.assert_array_equal(run(module, "f", [np.zeros(3)]), np.ones(4))
