"""DLVM's passes for linear algebra and for the shape of the graph: each law on a small program.

What is exact must keep every bit in the interpreter, the others the value to rounding; every pass must give
valid IR, and find nothing the second time. The worked examples of the passes' docstrings are among the cases.
"""

import numpy as np
import pytest
from irbuild import new_function, pointer

import dlvm_py as dlvm
from dlvm_py.errors import PassError
from dlvm_py.ir import BOOL, F32, F64, I32, I64, VOID, TupleType, literal, print_function, scalar
from dlvm_py.ir.analysis import LoopForest, predecessors
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import algebra_simplification as algebra
from dlvm_py.transforms import cfg_canonicalization, linear_algebra_fusion, matrix_multiplication_reordering
from dlvm_py.transforms import literal_broadcasting_promotion as promotion
from dlvm_py.transforms.pass_manager import PASSES, find_pass

REAL, INT, FLAG = scalar(F64), scalar(I64), scalar(BOOL)
SPECIAL = [0.0, -0.0, 1.0, -2.5, 1e-40, 1e38, np.inf, -np.inf, np.nan]


def body(f):
    """The instructions as text, one a line, without the blocks' labels."""
    return [line.strip() for line in print_function(f).splitlines() if line.startswith("    ")]


def ops(f):
    """The op names in layout order."""
    return [i.op.name for i in f.instructions()]


def settle(transform, f, **options):
    """Run a pass that must change something; the IR is valid after it, and the second run finds nothing."""
    assert transform.run(f, **options)
    verify(f)
    text = print_function(f)
    assert not transform.run(f, **options) and print_function(f) == text


# -- algebra simplification --------------------------------------------------------------------------


def expression(pattern, type):
    """(module, function) whose result is a pattern of the table; its variables are the parameters."""
    names = sorted(variables(pattern))
    module, f, b, values = new_function(*[type] * len(names), result=type)
    known = dict(zip(names, values, strict=True))

    def build(p):
        if isinstance(p, str):
            return known[p]
        return b.emit(p[0], *map(build, p[1:])) if isinstance(p, tuple) else literal(p, type)

    b.ret(build(pattern))
    return module, f


def variables(pattern):
    """The names of the variables in a pattern."""
    if isinstance(pattern, str):
        return {pattern}
    return set().union(*map(variables, pattern[1:])) if isinstance(pattern, tuple) else set()


SCALAR_RULES = [rule for rule in algebra.RULES if rule.pattern[0] != "transpose"]
IDS = [f"{rule.number}: {rule.pattern}" for rule in SCALAR_RULES]


@pytest.mark.parametrize("rule", SCALAR_RULES, ids=IDS)
def test_every_law_holds_to_rounding(rule):
    """Each rule of the table fires on its own pattern, and the value stays."""
    for type, dtype in ((REAL, np.float64), (scalar(F32), np.float32)):
        module, f = expression(rule.pattern, type)
        arguments = [dtype(v) for v in (0.7, 1.3, 0.4, 2.1)[: len(f.params)]]
        before = run(module, "f", arguments)
        settle(algebra, f)
        np.testing.assert_allclose(run(module, "f", arguments), before, rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("rule", SCALAR_RULES, ids=IDS)
@pytest.mark.parametrize("type", [REAL, scalar(F32), INT, scalar(I32)], ids=str)
def test_exact_laws_keep_every_bit(rule, type):
    """With exact_only, whatever fires gives the same bits for zeros, infinities, NaN and the largest integers."""
    integers = type.dtype.is_integer
    low, high = (-(2**63), 2**63 - 1) if type is INT else (-(2**31), 2**31 - 1)
    values = [0, 1, -1, 7, high, low] if integers else SPECIAL
    try:
        module, f = expression(rule.pattern, type)
    except TypeError:
        return  # integers have no sines
    if integers and (rule.number == 14 or rule.pattern[0] == "power" and rule.pattern[2] == -1.0):
        return  # raises
    before = [run(module, "f", [type.dtype.numpy.type(v)] * len(f.params)) for v in values]
    assert algebra.run(f, exact_only=True) == (type.dtype.kind in rule.exact)
    verify(f)
    after = [run(module, "f", [type.dtype.numpy.type(v)] * len(f.params)) for v in values]
    for x, y in zip(before, after, strict=True):
        assert x.tobytes() == y.tobytes() or (np.isnan(x) and np.isnan(y))


def test_zero_is_not_minus_zero():
    """x + 0.0 is x for real numbers, but not for x = -0.0: exact_only leaves it."""
    for zero, exact in ((0.0, False), (-0.0, True)):
        _, f = expression(("add", "x", zero), REAL)
        assert algebra.run(f, exact_only=True) == exact
        _, f = expression(("add", "x", zero), REAL)
        settle(algebra, f)
        assert body(f) == ["return %p0: f64"]


def test_powers_collapse_under_a_function():
    """cos(((w^0)^1)^2) becomes cos 1, which nothing folds; new instructions have no names."""
    w = scalar(F32)
    _, f, b, (x,) = new_function(w, result=w)
    value = x
    for n in (0.0, 1.0, 2.0):
        value = b.emit("power", value, literal(n, w), name=f"power{n:.0f}")
    b.ret(b.emit("cos", value))
    settle(algebra, f)
    assert body(f) == ["%0.0 = cos 1: f32", "return %0.0: f32"]


def test_quotients_of_quotients():
    """(x / y) / (z / a) = (x a) / (y z), with a name lost; x / (y / z) = (x z) / y."""
    _, f, b, (x, y, z, a) = new_function(REAL, REAL, REAL, REAL, result=REAL)
    b.ret(b.emit("divide", b.emit("divide", x, y), b.emit("divide", z, a), name="quotient"))
    settle(algebra, f)
    assert body(f)[:3] == [
        "%0.0 = multiply %p0: f64, %p3: f64",
        "%0.1 = multiply %p1: f64, %p2: f64",
        "%0.2 = divide %0.0: f64, %0.1: f64",
    ]
    _, f, b, (x, y, z) = new_function(REAL, REAL, REAL, result=REAL)
    b.ret(b.emit("divide", x, b.emit("divide", y, z)))
    settle(algebra, f)
    assert ops(f) == ["multiply", "divide", "return"]


def test_a_chain_of_integers_vanishes():
    """x+0, 0+x, -0, ·1, 1· on integers leave the parameter; (x-x)·x is 0, and all of it is exact."""
    _, f, b, (x,) = new_function(INT, result=INT)
    zero, one = literal(0), literal(1)
    v = b.emit("subtract", b.emit("add", zero, b.emit("add", x, zero)), zero)
    v = b.emit("multiply", one, b.emit("multiply", v, one))
    nothing = b.emit("multiply", b.emit("subtract", x, x), x)
    b.ret(b.emit("add", v, nothing))
    settle(algebra, f, exact_only=True)
    assert body(f) == ["return %p0: i64"]


def test_a_product_that_is_used_twice_is_kept():
    """An inner op with two users is no part of a pattern: it would be computed twice."""
    _, f, b, (x, y) = new_function(REAL, REAL, result=REAL)
    e = b.emit("exp", x)
    b.ret(b.emit("add", b.emit("power", e, y), e))
    assert not algebra.run(f)


def test_checked_arithmetic_still_raises():
    """A checked power is not replaced by an unchecked product; a sum with 0 cannot overflow and goes."""
    _, f, b, (x,) = new_function(INT, result=INT)
    b.ret(b.emit("power", x, literal(2), checked=True))
    assert not algebra.run(f)
    _, f, b, (x,) = new_function(INT, result=INT)
    b.ret(b.emit("add", x, literal(0), checked=True))
    settle(algebra, f)


def test_shapes_are_kept():
    """A zero matrix added to a scalar is a matrix; x · 0 of unknown extents is a zero array of x's extents."""
    module, f, b, (x, p) = new_function(REAL, pointer(F64, 2, 3))
    zeros = b.emit("broadcast", literal(0.0), literal(2), literal(3))
    b.emit("store", b.emit("add", x, zeros), p)
    b.ret()
    assert not algebra.run(f)
    module, f, b, (p, q) = new_function(pointer(F64, None, 3), pointer(F64, None, 3))
    b.emit("store", b.emit("multiply", b.emit("load", p), literal(0.0)), q)
    b.ret()
    settle(algebra, f)
    assert "multiply" not in ops(f)
    out = np.ones((2, 3))
    run(module, "f", [np.full((2, 3), 5.0), out])
    assert not out.any()


def test_transposes_cancel():
    """Two transposes cancel where the permutations do, and only there."""
    for axes, gone in (((1, 2, 0), True), ((2, 0, 1), False)):
        module, f, b, (p, q) = new_function(pointer(F64, 2, 2, 2), pointer(F64, 2, 2, 2))
        once = b.emit("transpose", b.emit("load", p), axes=(2, 0, 1))
        b.emit("store", b.emit("transpose", once, axes=axes), q)
        b.ret()
        x, out = np.arange(8.0).reshape(2, 2, 2), np.empty((2, 2, 2))
        assert algebra.run(f, exact_only=True) == gone
        run(module, "f", [x, out])
        np.testing.assert_array_equal(out, x.transpose(2, 0, 1).transpose(axes))


# -- literal broadcasting promotion ------------------------------------------------------------------


def test_broadcast_literals_are_stretched_by_their_users():
    """On either side of arithmetic and comparisons; the broadcast stays; a reduction's array does not change."""
    module, f, b, (p, q) = new_function(pointer(F64, 2, 3), pointer(F64, 2, 3), result=REAL)
    two = b.emit("broadcast", literal(2.0), literal(2), literal(3), name="two")
    v = b.emit("multiply", two, b.emit("load", p))
    b.emit("store", b.emit("subtract", v, two), q)
    b.ret(b.emit("reduce", two, literal(0.0), by="add", axes=(0, 1)))
    out, again = np.empty((2, 3)), np.empty((2, 3))
    x = np.arange(6.0).reshape(2, 3)
    before = run(module, "f", [x, out])
    settle(promotion, f)
    assert run(module, "f", [x, again]) == before and again.tobytes() == out.tobytes()
    text = "\n".join(body(f))
    assert "multiply 2.0: f64, " in text and ", 2.0: f64" in text and "reduce %two" in text


def test_a_broadcast_that_gives_the_shape_stays():
    """Two literals, or a stretched operand: the type of the result is the broadcast's."""
    _, f, b, (p,) = new_function(pointer(F64, 2, 1))
    twos = [b.emit("broadcast", literal(2.0), literal(2), literal(n)) for n in (3, 3)]
    wide = b.emit("add", b.emit("load", p), twos[0])
    b.emit("add", wide, b.emit("multiply", *twos))
    b.ret()
    promotion.run(f)
    verify(f)
    assert [i for i in f.instructions() if i.op.name == "add"][0].operands[1] is twos[0]
    assert not promotion.run(f)


# -- matrix chains -----------------------------------------------------------------------------------


def chain(shapes, dtype=F64, use_inner=False, between=None):
    """(module, function): the product of matrices of these shapes, from left to right, stored to the last parameter."""
    types = [pointer(dtype, *s) for s in shapes]
    module, f, b, (*factors, out) = new_function(*types, pointer(dtype, shapes[0][0], shapes[-1][1]))
    first, *rest = [b.emit("load", p) for p in factors]
    for k, x in enumerate(rest):
        first = b.emit("dot", first, x, name=f"d{k}")
        if between and k == 0:
            first = b.emit(between, first)
    b.emit("store", first, out)
    b.ret()
    return module, f


def products(module, shapes, dtype=np.float64):
    """The chain's value on small integers, which every order computes exactly."""
    rng = np.random.default_rng(0)
    out = np.empty((shapes[0][0], shapes[-1][1]), dtype)
    run(module, "f", [*(rng.integers(-3, 4, s).astype(dtype) for s in shapes), out])
    return out


CORMEN = [(30, 35), (35, 15), (15, 5), (5, 10), (10, 20), (20, 25)]


def test_the_chain_of_the_textbook():
    """((M1 (M2 M3)) ((M4 M5) M6)): the topmost product keeps its name, the others are made before it."""
    module, f = chain(CORMEN)
    before = products(module, CORMEN)
    settle(matrix_multiplication_reordering, f)
    np.testing.assert_array_equal(products(module, CORMEN), before)
    dots = [i for i in f.instructions() if i.op.name == "dot"]
    assert [str(i.type) for i in dots] == [
        "<35 x 5 x f64>", "<30 x 5 x f64>", "<5 x 20 x f64>", "<5 x 25 x f64>", "<30 x 25 x f64>",
    ]  # fmt: skip
    assert [i.name for i in dots] == ["", "", "", "", "d4"]


def test_integer_chains_are_exact():
    """Products of integers wrap: every order gives the same bits."""
    shapes = [(4, 1), (1, 4), (4, 2)]
    module, f = chain(shapes, I64)
    before = products(module, shapes, np.int64)
    settle(matrix_multiplication_reordering, f)
    np.testing.assert_array_equal(products(module, shapes, np.int64), before)


def test_chains_that_are_left_alone():
    """The best order already; one product; an elementwise op in between; an unknown extent."""
    assert not matrix_multiplication_reordering.run(chain([(2, 50), (50, 3), (3, 100)])[1])
    assert not matrix_multiplication_reordering.run(chain([(9, 2), (2, 9)])[1])
    assert not matrix_multiplication_reordering.run(chain([(100, 2), (2, 50), (50, 3)], between="exp")[1])
    assert not matrix_multiplication_reordering.run(chain([(100, None), (None, 50), (50, 3)])[1])


def test_a_product_that_is_used_twice_is_an_operand():
    """(A B) used by two products is computed once, as before."""
    module, f, b, (p, q, r, out) = new_function(*(pointer(F64, *s) for s in ((90, 2), (2, 50), (50, 3), (90, 3))))
    ab = b.emit("dot", b.emit("load", p), b.emit("load", q))
    products_ = [b.emit("dot", ab, b.emit("load", r)) for _ in range(2)]
    b.emit("store", b.emit("add", *products_), out)
    b.ret()
    assert not matrix_multiplication_reordering.run(f)


# -- linear algebra fusion ---------------------------------------------------------------------------


def fused(build, ranks=(2, 2, 2), n=3, types=None):
    """The ops after fusing what `build(b, x, y, z, a)` gives, whose value must stay to rounding."""
    types = types or [pointer(F64, *[None] * r) for r in ranks]
    module, f, b, (*arrays, a, out) = new_function(*types, REAL, pointer(F64, None, None))
    value = build(b, *(b.emit("load", p) for p in arrays), a)
    f.params[-1].type = pointer(F64, *value.type.shape)
    b.emit("store", value, f.params[-1])
    b.ret()
    verify(f)
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal([m or n for m in t.shape]) for t in types]
    before, after = (np.empty([n if m is None else m for m in value.type.shape]) for _ in range(2))
    run(module, "f", [*inputs, 0.75, before])
    settle(linear_algebra_fusion, f)
    run(module, "f", [*inputs, 0.75, after])
    np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-12)
    return [name for name in ops(f) if name not in ("load", "store", "return")]


def test_scalings_leave_the_operands_of_products():
    """(a x) y = a (x y), on either side, for signs and for vectors too."""
    dot = lambda b, x, y: b.emit("dot", x, y)  # noqa: E731
    assert fused(lambda b, x, y, z, a: dot(b, b.emit("multiply", a, x), y)) == ["dot", "multiply"]
    assert fused(lambda b, x, y, z, a: dot(b, x, b.emit("multiply", y, a))) == ["dot", "multiply"]
    assert fused(lambda b, x, y, z, a: dot(b, x, b.emit("negate", y))) == ["dot", "negate"]
    both = lambda b, x, y, z, a: dot(b, b.emit("multiply", a, x), b.emit("multiply", a, y))  # noqa: E731
    assert fused(both) == ["dot", "multiply", "multiply"]


def test_a_scaling_stays_where_the_result_is_larger():
    """An outer product has more elements than its factors."""
    types = [pointer(F64, *s) for s in ((9, 1), (1, 9), (9, 9))]
    module, f, b, (p, q, r, a) = new_function(*types, REAL)
    b.emit("store", b.emit("dot", b.emit("multiply", a, b.emit("load", p)), b.emit("load", q)), r)
    b.ret()
    assert not linear_algebra_fusion.run(f)


def test_the_transpose_of_a_product():
    """(x y)ᵀ = yᵀ xᵀ, through two levels."""
    one = lambda b, x, y, z, a: b.emit("transpose", b.emit("dot", x, y))  # noqa: E731
    assert fused(one) == ["transpose", "transpose", "dot"]
    two = lambda b, x, y, z, a: b.emit("transpose", b.emit("dot", b.emit("dot", x, y), z))  # noqa: E731
    assert fused(two) == ["transpose", "transpose", "transpose", "dot", "dot"]


@pytest.mark.parametrize("op", ["add", "subtract"])
def test_a_common_factor(op):
    """x y + x z = x (y + z), x z + y z = (x + y) z: one product fewer; none where the factor differs."""
    left = lambda b, x, y, z, a: b.emit(op, b.emit("dot", x, y), b.emit("dot", x, z))  # noqa: E731
    right = lambda b, x, y, z, a: b.emit(op, b.emit("dot", x, z), b.emit("dot", y, z))  # noqa: E731
    assert fused(left) == fused(right) == [op, "dot"]
    with pytest.raises(AssertionError):
        fused(lambda b, x, y, z, a: b.emit(op, b.emit("dot", x, y), b.emit("dot", y, z)))


def test_products_that_are_used_twice_stay():
    """What has another user is needed as it is."""
    _, f, b, (p, q, a) = new_function(pointer(F64, None, None), pointer(F64, None, None), REAL)
    x = b.emit("load", p)
    scaled = b.emit("multiply", a, x)
    b.emit("store", b.emit("add", b.emit("dot", scaled, x), scaled), q)
    b.ret()
    assert not linear_algebra_fusion.run(f)


# -- control flow ------------------------------------------------------------------------------------


def function(text):
    """The one function of a module's text."""
    module = parse_module(f'module "m"\nstage raw\n\n{text}')
    (f,) = module.functions.values()
    verify(module)
    return module, f


def labels(f):
    """The lines that open blocks."""
    return [line for line in print_function(f).splitlines() if line.startswith("'")]


THREE_WAYS = """
func @f: (i64) -> i64 {
'entry(%x: i64):
    %0.0 = lessThan %x: i64, 0: i64
    conditional %0.0: bool then 'neg() else 'pos()
'neg():
    return 0: i64
'pos():
    %2.0 = greaterThan %x: i64, 9: i64
    conditional %2.0: bool then 'big() else 'small()
'big():
    return 9: i64
'small():
    return %x: i64
}
"""


def test_one_exit_and_a_merge_point_for_the_inner_fork():
    """The example of the docstring, to the letter."""
    module, f = function(THREE_WAYS)
    settle(cfg_canonicalization, f)
    assert labels(f)[4:] == ["'small():", "'pos_join(%5^0: i64):", "'exit(%exit_value: i64):"]
    assert body(f)[2:] == [
        "branch 'exit(0: i64)",
        "%2.0 = greaterThan %x: i64, 9: i64",
        "conditional %2.0: bool then 'big() else 'small()",
        "branch 'pos_join(9: i64)",
        "branch 'pos_join(%x: i64)",
        "branch 'exit(%5^0: i64)",
        "return %exit_value: i64",
    ]
    assert [run(module, "f", [x]) for x in (-3, 5, 12)] == [0, 5, 9]


def test_void_and_tuples_have_one_exit_too():
    """Nothing is passed for a function without result, an argument an element for a tuple."""
    for result in (VOID, TupleType((INT, REAL))):
        module, f, b, (c, x) = new_function(FLAG, REAL, result=result)
        arms = [f.new_block(n) for n in "ab"]
        b.conditional(c, arms[0], [], arms[1], [])
        for k, arm in enumerate(arms):
            b.at_end(arm)
            b.ret(*([] if result is VOID else [b.emit("tuple", literal(k), x)]))
        settle(cfg_canonicalization, f)
        assert ops(f).count("return") == 1 and len(f.blocks[-1].args) == len(result.elements)
        expected = [None, None] if result is VOID else [(0, 2.5), (1, 2.5)]
        assert [run(module, "f", [flag, 2.5]) for flag in (True, False)] == expected


def nest(depth):
    """A function of `depth` nested loops whose headers are entered straight from conditionals; counts to n^depth."""
    module, f, b, (n, c) = new_function(INT, FLAG, result=INT)
    done = f.new_block("done")
    headers, bodies, ends = ([f.new_block(f"{what}{k}") for k in range(depth)] for what in ("head", "body", "end"))
    for h in headers:
        h.add_arg(INT, "i"), h.add_arg(INT, "count")
    result = done.add_arg(INT, "result")
    zero, one = literal(0), literal(1)
    b.conditional(c, headers[0], [zero, zero], done, [zero])
    for k, (h, inside, end) in enumerate(zip(headers, bodies, ends, strict=True)):
        i, count = h.args
        after = end.add_arg(INT, "after")
        out = ends[k - 1] if k else done
        b.at_end(h).conditional(b.emit("lessThan", i, n), inside, [], out, [count])
        b.at_end(inside)
        if k + 1 < depth:
            b.conditional(c, headers[k + 1], [zero, count], end, [count])
        else:
            # two latches: odd and even
            odd = b.emit("equal", b.emit("modulo", i, literal(2)), one)
            b.conditional(odd, end, [b.emit("add", count, one)], h, [b.emit("add", i, one), b.emit("add", count, one)])
        b.at_end(end)
        b.branch(h, [b.emit("add", i, one), after])
    b.at_end(done).ret(result)
    return module, f


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_loops_of_any_depth(depth):
    """Each loop has a preheader, one latch, and exits of its own; the original did not end at depth three."""
    module, f = nest(depth)
    verify(f)
    expected = run(module, "f", [3, True])
    settle(cfg_canonicalization, f)
    assert run(module, "f", [3, True]) == expected == 3**depth and run(module, "f", [3, False]) == 0
    edges = predecessors(f)
    names = [b.name for b in f.blocks]
    assert len(LoopForest(f).loops) == depth
    for loop in LoopForest(f).loops:
        outside = [p for p, _ in edges[loop.header] if not loop.contains(p)]
        assert [len(p.targets) for p in outside] == [1] and outside[0].name == f"{loop.header.name}_preheader"
        assert names.index(outside[0].name) == f.blocks.index(loop.header) - 1
        assert len(loop.latches) == 1
        for block, k in loop.exit_edges():
            assert all(loop.contains(p) for p, _ in edges[block.targets[k].block])
    assert "latch" in names and "exit" in names


def test_deep_conditionals():
    """Conditionals nested five deep, all arms to one block: a merge point a level."""
    module, f, b, flags = new_function(*[FLAG] * 5, result=INT)
    done = f.new_block("done")
    result = done.add_arg(INT)
    for k, flag in enumerate(flags):
        arms = [f.new_block(f"{side}{k}") for side in ("left", "right")]
        b.conditional(flag, arms[0], [], arms[1], [])
        b.at_end(arms[0]).branch(done, [literal(k)])
        b.at_end(arms[1])
    b.branch(done, [literal(5)])
    b.at_end(done).ret(result)
    settle(cfg_canonicalization, f)
    assert sum(block.name.endswith("_join") for block in f.blocks) == 4
    for k in range(6):
        assert run(module, "f", [j == k for j in range(5)]) == k


# -- in the pipeline ---------------------------------------------------------------------------------


def test_fastmath_runs_them():
    """dlvm.jit applies laws that round only where fastmath is asked for; also behind a derivative."""

    def f(x, w):
        return np.sum(((2.0 * x) @ w) * (x @ (-w))) / np.exp(x[0, 0])

    x, w = np.random.default_rng(2).uniform(-1, 1, (2, 4, 4))
    exact, fast = dlvm.jit(f), dlvm.jit(f, fastmath=True)
    np.testing.assert_allclose(fast(x, w), f(x, w), rtol=1e-12)
    np.testing.assert_allclose(exact(x, w), f(x, w), rtol=1e-12)
    assert "divide" in exact.ir() and "divide" not in fast.ir()
    gradients = [dlvm.grad(g, wrt="x")(x, w) for g in (exact, fast)]
    np.testing.assert_allclose(*gradients, rtol=1e-10)


# -- names -------------------------------------------------------------------------------------------


def test_passes_are_found_by_the_originals_names():
    """Abbreviations and long names of DLVM, its misspelling too, in any case."""
    names = {
        "AS": "algebra_simplification", "AlgebraSimplification": "algebra_simplification",
        "LBP": "literal_broadcasting_promotion", "MMR": "matrix_multiplication_reordering",
        "MatrixMultiplicationReordering": "matrix_multiplication_reordering",
        "CFGCan": "cfg_canonicalization", "CFGCanonicalization": "cfg_canonicalization",
        "CFGSimp": "cfg_simplification", "CFGSimpliciation": "cfg_simplification",
        "CFGSimplification": "cfg_simplification", "SCFG": "simplify_cfg",
        "CSE": "cse", "CommonSubexpressionElimination": "cse", "DeadCodeElimination": "dce", "VP": "value_promotion",
    }  # fmt: skip
    for name, expected in names.items():
        assert find_pass(name) is PASSES[expected]
    with pytest.raises(PassError, match="there is no pass frob"):
        find_pass("frob")
