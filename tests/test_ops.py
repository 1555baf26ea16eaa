"""The op rows: types, NumPy semantics, and every derivative form against differences and inner products.

Rules are emitted through `Expr` and run by the interpreter, so a rule is tested as the compiler uses it.
"""

import numpy as np
import pytest
from irbuild import evaluate

from dlvm_py.ir import DTYPES, I64, OPS, OWN_DTYPES, Expr, Literal, TensorType, literal, scalar
from dlvm_py.ir.op import Kind, Op, table

# Where the operands of a row are ordinary: no kink, no pole, no jump within the step of the differences.
# A row that is not named here is sampled in (0.3, 0.9), which every function of one operand in use accepts.
DOMAINS = {
    "modulo": ((2.2, 2.4), (0.9, 1.0)),
    "exp": ((-3, 3),), "sin": ((-9, 9),), "cos": ((-9, 9),), "tanh": ((-3, 3),), "atan": ((-5, 5),),
    "sinh": ((-3, 3),), "cosh": ((-3, 3),), "abs": ((-3, -0.5),), "square": ((-3, 3),), "expm1": ((-3, 3),),
    "power": ((0.5, 2), (-2, 2)), "divide": ((-2, 2), (0.5, 2)), "multiply": ((-2, 2), (-2, 2)),
    "atan2": ((-2, -0.5), (-2, -0.5)), "hypot": ((-2, 2), (0.5, 2)), "scaleSeed": ((-2, 2), (-2, 2)),
    "log": ((0.1, 9),), "sqrt": ((0.1, 9),), "rsqrt": ((0.1, 9),), "log1p": ((-0.9, 3),),
    "asin": ((-0.9, 0.9),), "acos": ((-0.9, 0.9),), "tan": ((-1.2, 1.2),), "asinh": ((-3, 3),), "acosh": ((1.2, 4),),
    "atanh": ((-0.9, 0.9),), "exp2": ((-3, 3),), "cbrt": ((0.3, 3),), "erf": ((-2, 2),), "erfc": ((-2, 2),),
    "gamma": ((0.3, 4),), "lgamma": ((0.3, 9),), "digamma": ((0.3, 9),), "copysign": ((-2, -0.5), (0.5, 2)),
}  # fmt: skip
ARITY = {name: op.evaluate.nin if isinstance(op.evaluate, np.ufunc) else 1 for name, op in OPS.items()}
ARITY["divide"] = 2
ARITY |= {"truncateDivide": 2, "scaleSeed": 2, "select": 3, "makeComplex": 2}


OWN = [d.name for d in OWN_DTYPES]  # bf16 is in test_bfloat16.py


def accepts(op, dtype):
    """Whether the type rule of an elementwise row accepts operands of one dtype."""
    operands = [Literal(TensorType((2, 3), DTYPES[dtype]), 0)] * ARITY[op.name]
    try:
        return op.result_type(operands, {"to": dtype, "order": 2}) is not None
    except TypeError:
        return False


WITH_PARTIALS = [name for name, op in OPS.items() if op.partials is not None]
PATTERNS = {1: [((3, 2),), ((),)], 2: [((3, 2), (3, 2)), ((3, 2), ()), ((), (4,)), ((3, 1), (1, 2)), ((), ())]}
SEED = 7


def samples(name, shapes, dtype=np.float64):
    """Ordinary operands of a row."""
    rng = np.random.default_rng(SEED)
    domains = DOMAINS.get(name, ((0.3, 0.9),) * len(shapes))
    values = [rng.uniform(low, high, shape) for (low, high), shape in zip(domains, shapes, strict=True)]
    if np.dtype(dtype).kind == "c":
        values = [v + 1j * rng.uniform(0.1, 0.4, v.shape) for v in values]
    return [np.asarray(v).astype(dtype) for v in values]


def directions(values):
    """A direction at each operand."""
    rng = np.random.default_rng(SEED + 1)
    turns = [1 + 0.5j if v.dtype.kind == "c" else 1 for v in values]
    return [np.asarray(rng.standard_normal(v.shape) * t, v.dtype) for v, t in zip(values, turns, strict=True)]


def differences(f, x, v, step=1e-6):
    """The derivative of f along v by central differences: error about step² + eps/step."""
    ahead, behind = (f(*(a + s * step * d for a, d in zip(x, v, strict=True))) for s in (1, -1))
    return (np.asarray(ahead) - behind) / (2 * step)


def unbroadcast(value, shape):
    """The sum of `value` over the axes along which something of `shape` was stretched."""
    value = np.asarray(value)
    if not shape:
        return value.sum()
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and value.shape[k] != 1)
    return value.sum(axis=axes, keepdims=True)


def inner(a, b):
    """The real inner product of two lists of values."""
    return sum(float(np.sum(np.conj(p) * q).real) for p, q in zip(a, b, strict=True) if p is not None)


def partials_of(op, *x):
    """The partials that a row's rule emits, as NumPy values."""
    return evaluate(lambda *e: op.partials(op(*e), *e), *x)


# -- partials ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_PARTIALS)
def test_partials_are_the_derivative(name):
    """Σ ∂y/∂xᵢ · vᵢ = (f(x + hv) - f(x - hv)) / 2h at ordinary points, for every broadcast pattern."""
    op = OPS[name]
    for shapes in PATTERNS[ARITY[name]]:
        x = samples(name, shapes)
        v = directions(x)
        tangent = sum(p * d for p, d in zip(partials_of(op, *x), v, strict=True) if p is not None)
        np.testing.assert_allclose(tangent, differences(op.evaluate, x, v), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", [n for n in WITH_PARTIALS if accepts(OPS[n], "c128")])
def test_partials_of_complex_operands(name):
    """Where a row accepts complex dtypes its partials are complex derivatives: dy = Σ ∂y/∂xᵢ · vᵢ."""
    op = OPS[name]
    x = samples(name, PATTERNS[ARITY[name]][0], np.complex128)
    v = directions(x)
    tangent = sum(p * d for p, d in zip(partials_of(op, *x), v, strict=True))
    np.testing.assert_allclose(tangent, differences(op.evaluate, x, v), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", WITH_PARTIALS)
def test_tangent_and_adjoint_are_transposes(name):
    """⟨w, J v⟩ = ⟨Jᵀ w, v⟩ with the seed multiplied in as the adjoint pass does, for every broadcast pattern."""
    op = OPS[name]
    times = OPS["scaleSeed"] if op.singular else OPS["multiply"]
    for shapes in PATTERNS[ARITY[name]]:
        x = samples(name, shapes)
        v = directions(x)
        (w,) = directions([np.asarray(op.evaluate(*x))])
        w = np.broadcast_to(w, np.broadcast_shapes(*shapes)).copy()

        def adjoint(seed, *e):
            found = [0.0 if p is None else p for p in op.partials(op(*e), *e)]
            one = [p if isinstance(p, Expr) else Expr(seed.builder, literal(p)) for p in found]
            return [times(seed, p) for p in one]

        x_adj = [unbroadcast(a, s) for a, s in zip(evaluate(adjoint, w, *x), shapes, strict=True)]
        expected = inner([w], [differences(op.evaluate, x, v)])
        np.testing.assert_allclose(inner(x_adj, v), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, d) for n in WITH_PARTIALS for d in ("f16", "f32", "c64") if accepts(OPS[n], d)]
)
def test_partials_keep_the_dtype(name, dtype):
    """Partials of a narrow dtype have that dtype and the value of the wide one, within its precision."""
    op = OPS[name]
    x = samples(name, PATTERNS[ARITY[name]][0], DTYPES[dtype].numpy)
    wide = np.complex128 if dtype == "c64" else np.float64
    exact = partials_of(op, *(a.astype(wide) for a in x))
    eps = np.finfo(DTYPES[dtype].numpy).eps
    for p, q in zip(partials_of(op, *x), exact, strict=True):
        if p is not None and not isinstance(p, float):
            assert p.dtype == DTYPES[dtype].numpy
            # a handful of roundings, and cancellation at the edge of the sampled domains
            np.testing.assert_allclose(p, q, rtol=200 * eps, atol=20 * eps)


# -- adjoint and linear rules ---------------------------------------------------------------------------

rng = np.random.default_rng(SEED)
A, B, U, V = rng.standard_normal((3, 4)), rng.standard_normal((4, 2)), rng.standard_normal(4), rng.standard_normal(4)
CUBE, ROW, FLAGS = rng.standard_normal((2, 3, 4)), rng.standard_normal((1, 4)), rng.random((3, 4)) < 0.5
PLACES = np.array([2, 0, 2, 1, 2])
IMAGES = rng.standard_normal((2, 4, 5, 4))
SQUARE = np.random.default_rng(SEED).standard_normal((4, 4)) + 3 * np.eye(4)

# (row, attributes, operands that carry derivatives, operands that do not)
ADJOINT_CASES = [
    ("polygamma", {"order": 1}, [B], []),
    ("polygamma", {"order": 4}, [B], []),
    ("transpose", {}, [A], []),
    ("transpose", {"axes": (1, 2, 0)}, [CUBE], []),
    ("padShape", {"at": 1}, [A], []),
    ("squeezeShape", {"at": 0}, [ROW], []),
    ("shapeCast", {}, [A], [2, 6]),
    ("shapeCast", {}, [A], [12]),
    ("reduce", {"by": "add", "axes": (0,)}, [A], [0.0]),
    ("reduce", {"by": "add", "axes": (0, 2)}, [CUBE], [0.0]),
    ("reduce", {"by": "add", "axes": (0, 1)}, [A], [0.0]),
    ("reduce", {"by": "max", "axes": (1,)}, [A], [-np.inf]),
    ("reduce", {"by": "min", "axes": (0, 2)}, [CUBE], [np.inf]),
    ("reduce", {"by": "multiply", "axes": (1,)}, [A], [2.0]),
    ("reduce", {"by": "multiply", "axes": (0, 2)}, [CUBE, np.float64(0.7)], []),
    ("reduce", {"by": "multiply", "axes": (1,)}, [np.where(FLAGS, A, 0)], [1.0]),
    ("reduce", {"by": "multiply", "axes": (0,)}, [A * (A != A[1])], [1.0]),
    ("reduce", {"by": "add", "axes": (1,)}, [A, np.float64(0.7)], []),
    ("reduce", {"by": "max", "axes": (0,)}, [A, np.float64(0.1)], []),
    ("broadcast", {}, [ROW], [3, 4]),
    ("broadcast", {}, [np.float64(1.5)], [3, 4]),
    ("broadcast", {}, [A], [3, 4]),
    ("unbroadcast", {}, [A], [1, 4]),
    ("unbroadcast", {}, [A], [3, 4]),
    ("dot", {}, [A, B], []),
    ("dot", {}, [A, U], []),
    ("dot", {}, [U, B], []),
    ("dot", {}, [U, V], []),
    ("section", {}, [A], [0, 3, 2, 2, 2, -1]),
    ("embed", {}, [A], [0.0, 5, 9, 1, 7, 1, -2]),
    ("embed", {}, [A, np.float64(0.3)], [5, 9, 1, 7, 1, -2]),
    ("slice", {"lo": 1, "hi": 2}, [A], []),
    ("reverse", {"axes": (1,)}, [A], []),
    ("reverse", {"axes": (2, 0)}, [CUBE], []),
    ("concatenate", {"at": 0}, [A, B.T, ROW], []),
    ("concatenate", {"at": 1}, [A, A[:, :1].copy()], []),
    ("windows", {}, [A], [2, 2, 2, 2, 1, 2, 1, 1]),
    ("windows", {}, [U], [2, 1, 1, 3]),
    ("overlapAdd", {}, [rng.standard_normal((2, 2, 2, 2))], [3, 4, 1, 2, 1, 1]),
    *(
        ("reduceWindow", {"by": by, "dims": (2, 3), "strides": strides, "padding": padding}, [A], [init])
        for by, init in (("add", 0.0), ("max", -np.inf), ("min", np.inf), ("multiply", 2.0))
        for padding, strides in (("none", (1, 1)), ("half", (2, 1)), ("full", (1, 2)))
    ),
    ("reduceWindow", {"by": "add", "dims": (2,), "strides": (1,), "padding": "full"}, [U, np.float64(0.7)], []),
    ("convolve", {}, [IMAGES, rng.standard_normal((3, 4, 2, 3))], []),
    ("convolve", {"strides": (2, 1), "padding": ((1, 0), (2, 1))}, [IMAGES, rng.standard_normal((3, 4, 2, 3))], []),
    ("convolve", {"leftDilation": (2, 3), "rightDilation": (1, 2)}, [IMAGES, rng.standard_normal((3, 4, 2, 2))], []),
    ("convolve", {"groups": 2, "padding": ((2, 2), (0, 1))}, [IMAGES, rng.standard_normal((4, 2, 2, 2))], []),
    ("convolve", {"groups": 3, "strides": (3, 2)}, [IMAGES, rng.standard_normal((5, 1, 2, 2))], []),
    ("convolve", {"strides": (2,), "padding": ((1, 1),)}, [CUBE, rng.standard_normal((2, 3, 2))], []),
    ("scan", {"by": "add", "axes": (1,)}, [A], []),
    ("scan", {"by": "add", "axes": (0, 2)}, [CUBE], []),
    *(("scan", {"by": by, "axes": (0, 2)}, [CUBE], []) for by in ("multiply", "max", "min")),
    ("scan", {"by": "multiply", "axes": (1,)}, [A * FLAGS], []),
    ("scan", {"by": "max", "axes": (1,)}, [A], []),
    ("recurrence", {"axis": 0}, [A, A + 1], []),
    ("recurrence", {"axis": 2}, [CUBE, CUBE - 1], []),
    ("solve", {}, [SQUARE, B], []),
    ("cholesky", {}, [SQUARE @ SQUARE.T], []),
    ("choleskyAdjoint", {}, [np.tril(SQUARE) + 4 * np.eye(4), SQUARE.T.copy()], []),
    ("determinant", {}, [SQUARE], []),
    ("eigh", {}, [SQUARE], [5, 4]),
    ("eigh", {"upper": True}, [SQUARE], [5, 4]),
    ("eigvalsh", {}, [SQUARE], [4]),
    ("eigvalsh", {"upper": True}, [SQUARE], [4]),
    ("svd", {}, [A], [8, 3]),
    ("svd", {}, [A.T.copy()], [8, 3]),
    ("svd", {"full": True}, [SQUARE], [9, 4]),
    ("svdvals", {}, [A], [3]),
    *(("qr", {"mode": "reduced"}, [x], [7, 3]) for x in (A, A.T.copy())),
    *(("qr", {"mode": "complete"}, [x], [x.shape[1] + 3, 3]) for x in (A, A[:, :3].copy())),
    ("qr", {"mode": "r"}, [A.T.copy()], [3, 3]),
    *(("pinv", {}, [x], [1e-15]) for x in (A, A.T.copy(), SQUARE)),
    ("lstsq", {}, [A.T.copy(), SQUARE[:, :2].copy()], [1e-15, 12]),
    ("gather", {}, [A], [PLACES]),
    ("gather", {}, [A], [PLACES, PLACES[::-1].copy()]),
    ("gather", {}, [CUBE], [np.array([[0], [1]]), np.array([[2, 0, 2]])]),
    ("scatterAdd", {}, [rng.standard_normal(5)], [PLACES, 4]),
    ("scatterAdd", {}, [rng.standard_normal((5, 2))], [PLACES, 4]),
    ("sort", {"axis": 0}, [A], []),
    ("sort", {"axis": 1}, [CUBE], []),
    ("sort", {"axis": 0}, [U], []),
    ("select", {}, [A, A[::-1].copy()], [FLAGS]),
    ("select", {}, [A, np.float64(2)], [FLAGS]),
    ("select", {}, [ROW, A], [np.bool_(True)]),
    ("scaleSeed", {}, [A, A[::-1].copy()], []),
    ("scaleSeed", {}, [ROW, A], []),
    ("dataTypeCast", {"to": "f64"}, [A], []),
    ("dataTypeCast", {"to": "c128"}, [A], []),
    ("makeComplex", {}, [A, ROW], []),
    ("makeComplex", {}, [np.float64(2), A], []),
]
COMPLEX_ONLY = [
    ("eig", {}, [SQUARE + 1j * SQUARE[::-1]], [5, 4]),
    ("eigvals", {}, [SQUARE + 1j * SQUARE[::-1]], [4]),
    ("pinv", {}, [A + 1j * A[::-1]], [1e-15]),
    ("lstsq", {}, [(A + 1j * A[::-1]).T.copy(), SQUARE[:, :2] * 1j], [1e-15, 12]),
    *((name, {}, [A + 1j * A[::-1]], []) for name in ("realPart", "imaginaryPart", "conjugate")),
    ("fourier", {"axis": 1}, [A + 1j * A[::-1]], []),
    ("fourier", {"axis": 0, "inverse": True}, [A + 1j * A[::-1]], []),
]


def as_complex(case):
    """The same case on complex operands."""
    name, attrs, x, rest = case
    turned = [
        np.asarray(a) * (1 + 0.3j) + 0.2j * np.asarray(a)[::-1].copy() if np.ndim(a) else a * (0.5 + 1j) for a in x
    ]
    return name, attrs, turned, [complex(c) if type(c) is float else c for c in rest]


COMPLEX_CASES = COMPLEX_ONLY + [
    as_complex(case)
    for case in ADJOINT_CASES
    if case[1].get("by") not in ("max", "min")
    and case[0] not in ("makeComplex", "polygamma", "sort", "cholesky", "choleskyAdjoint", "pinv", "lstsq")
]


@pytest.mark.parametrize(("name", "attrs", "x", "rest"), ADJOINT_CASES + COMPLEX_CASES)
def test_adjoint_rule_is_the_transpose_of_the_derivative(name, attrs, x, rest):
    """⟨w, J v⟩ = ⟨adjoint(w), v⟩ with J v by central differences."""
    op = OPS[name]
    numbers = [literal(c) for c in rest if type(c) in (int, float, complex)]
    arrays = [c for c in rest if type(c) not in (int, float, complex)]
    y = np.asarray(op.evaluate(*x, *rest, **attrs))
    v = directions([np.asarray(a) for a in x])
    (w,) = directions([y])

    def rule(seed, *e):
        operands = [*e, *(Expr(seed.builder, n) for n in numbers)]
        return op.adjoint(seed, op(*operands, **attrs), *operands, **attrs)

    # the type of a convolution asks for the extents of the kernel
    x_adj = evaluate(rule, w, *x, *arrays, known=name == "convolve")
    assert len(x_adj) == len(x) + len(rest)
    assert all(a is None for a in x_adj[len(x) :])
    ours = [unbroadcast(a, np.shape(b)) for a, b in zip(x_adj, x, strict=False)]
    jv = differences(lambda *a: op.evaluate(*a, *rest, **attrs), x, v)
    np.testing.assert_allclose(inner(ours, v), inner([w], [jv]), rtol=1e-6, atol=1e-8)


TANGENT_CASES = [case for case in ADJOINT_CASES + COMPLEX_CASES if callable(OPS[case[0]].tangent)]


@pytest.mark.parametrize(("name", "attrs", "x", "rest"), TANGENT_CASES)
def test_tangent_rule_is_the_derivative(name, attrs, x, rest):
    """tangent(v) = J v by central differences, where a row states the rule."""
    op = OPS[name]
    constants = [literal(c) for c in rest]
    v = directions([np.asarray(a) for a in x])

    def rule(*e):
        operands = [*e[len(x) :], *(Expr(e[0].builder, n) for n in constants)]
        tangents = [*e[: len(x)], *(None for _ in constants)]
        return op.tangent(tangents, op(*operands, **attrs), *operands, **attrs)

    jv = differences(lambda *a: op.evaluate(*a, *rest, **attrs), x, v)
    np.testing.assert_allclose(evaluate(rule, *v, *x), jv, rtol=1e-5, atol=1e-7)


def test_every_adjoint_rule_has_a_case():
    """A row with an adjoint or linear rule of its own is in the cases above."""
    rows = {name for name, op in OPS.items() if op.adjoint is not None}
    assert rows <= {case[0] for case in ADJOINT_CASES + COMPLEX_CASES}


# -- kinks (DESIGN section 6) ------------------------------------------------------------------------------

ZERO, ONE, TWO = np.float64(0), np.float64(1), np.float64(2)


def partials_with_literal(op, x, constant, place):
    """Partials of a binary row with a compile-time constant operand."""

    def rule(e):
        c = Expr(e.builder, literal(constant))
        operands = (e, c) if place else (c, e)
        return op.partials(op(*operands), *operands)

    return evaluate(rule, x)


def guarded(name, seed, *x):
    """The adjoints of a singular row, seed times partial by scaleSeed."""
    op = OPS[name]
    return evaluate(lambda s, *e: [OPS["scaleSeed"](s, p) for p in op.partials(op(*e), *e)], seed, *x)


def test_abs_at_zero():
    """The derivative of |x| at 0 is 0."""
    assert partials_of(OPS["abs"], ZERO)[0] == 0


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share(name):
    """At a tie max and min give each operand one half; apart from ties the winner takes all."""
    assert partials_of(OPS[name], ONE, ONE) == [0.5, 0.5]
    assert partials_of(OPS[name], ONE, TWO) == ([0, 1] if name == "max" else [1, 0])


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_constant_takes_nothing_of_a_tie(name, place):
    """A compile-time constant has no partial, and at the tie leaves none to the other: relu(0) = 0."""
    constant, variable = partials_with_literal(OPS[name], ZERO, 0.0, place)[:: 1 if place == 0 else -1]
    assert constant is None
    assert variable == 0
    x = np.float64(1 if name == "max" else -1)
    assert partials_with_literal(OPS[name], x, 0.0, place)[1 - place] == 1


@pytest.mark.parametrize("by", ["max", "min"])
def test_reduction_shares_among_ties(by):
    """The seed of max and min along an axis is shared evenly by the elements that attain it."""
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    if by == "min":
        x = -x
    init = literal(-np.inf if by == "max" else np.inf)
    op = OPS["reduce"]

    def rule(seed, e):
        start = Expr(e.builder, init)
        return op.adjoint(seed, op(e, start, by=by, axes=(1,)), e, start, by=by, axes=(1,))[0]

    np.testing.assert_array_equal(evaluate(rule, np.array([6.0, 6.0]), x), [[0, 3, 3], [2, 2, 2]])


@pytest.mark.parametrize(
    ("name", "x"),
    [("sqrt", [ZERO]), ("log", [ZERO]), ("rsqrt", [ZERO]), ("asin", [ONE]), ("acos", [-ONE]), ("divide", [ONE, ZERO]),
     ("log1p", [-ONE]), ("log2", [ZERO]), ("log10", [ZERO]), ("power", [ZERO, np.float64(-1)]), ("hypot", [ZERO, ZERO]),
     ("atan2", [ZERO, ZERO]), ("modulo", [ONE, ZERO]), ("acosh", [ONE]), ("atanh", [ONE]), ("cbrt", [ZERO]),
     ("gamma", [ZERO]), ("lgamma", [ZERO]), ("digamma", [ZERO])],
)  # fmt: skip
def test_a_zero_seed_wins_where_the_partial_is_not_finite(name, x):
    """0 · (inf or nan) is 0 in the adjoint of a singular row; a seed that is not 0 is not guarded."""
    assert OPS[name].singular
    assert guarded(name, ZERO, *x) == [0.0] * len(x)
    assert any(not np.isfinite(a) for a in guarded(name, ONE, *x)) or name in ("hypot",)


@pytest.mark.parametrize("name", WITH_PARTIALS)
def test_rows_with_infinite_partials_say_singular(name):
    """At zeros, ones and minus ones every partial of a row that is not singular is finite."""
    op = OPS[name]
    if not op.singular:
        points = [np.array(v) for v in np.meshgrid(*[[0.0, 1.0, -1.0, 0.5]] * ARITY[name])]
        assert all(np.all(np.isfinite(p)) for p in partials_of(op, *points) if p is not None)


def test_scale_seed_is_right_to_second_order():
    """The derivative of scaleSeed in the seed is p wherever p is finite, also at seed 0, and else 0."""
    op = OPS["scaleSeed"]
    seed, p = np.array([0.0, 0.0, 2.0]), np.array([3.0, np.inf, 3.0])
    to_seed, to_p = evaluate(lambda s, a, b: op.adjoint(s, op(a, b), a, b), np.ones(3), seed, p)
    np.testing.assert_array_equal(to_seed, [3, 0, 3])
    np.testing.assert_array_equal(to_p, [0, 0, 2])
    # forward mode: where a zero seed wins over the partial, it wins over how the partial moves
    move = np.array([np.nan, np.inf, 0.5])
    moved = evaluate(lambda t, u, a, b: op.tangent([t, u], op(a, b), a, b), np.ones(3), move, seed, p)
    np.testing.assert_array_equal(moved, [3, 0, 4])


def test_scale_seed_guards_only_where_both_hold():
    """select(not finite(p) and seed == 0, 0, seed * p)."""
    seed, p = np.array([0.0, 1.0, 0.0, np.nan, -0.0]), np.array([np.inf, np.inf, 2.0, 2.0, np.nan])
    np.testing.assert_array_equal(evaluate(OPS["scaleSeed"], seed, p), [0, np.inf, 0, np.nan, 0])


@pytest.mark.parametrize(
    ("a", "b", "da", "db"),
    [(0.0, 2.0, 0.0, 0.0), (0.0, 1.0, 1.0, 0.0), (0.0, 0.0, 0.0, -np.inf), (3.0, 0.0, 0.0, np.log(3.0)),
     (-2.0, 3.0, 12.0, np.nan), (2.0, 3.0, 12.0, 8 * np.log(2.0))],
)  # fmt: skip
def test_power_at_the_border(a, b, da, db):
    """∂a^b/∂a is b·a^(b-1), exactly 0 at b = 0; ∂a^b/∂b is a^b·log a, and 0 at a = 0 for b > 0."""
    np.testing.assert_allclose(partials_of(OPS["power"], np.float64(a), np.float64(b)), [da, db], rtol=1e-14)


def test_power_of_a_negative_base_by_a_constant():
    """A constant exponent has no partial, so that x**2 has no NaN at negative x."""
    partials = partials_with_literal(OPS["power"], np.float64(-3), 2.0, 1)
    assert partials == [-6.0, None]


def test_select_does_not_leak():
    """A NaN or infinite seed goes to the branch that was taken; the other gets an exact 0."""
    op = OPS["select"]
    flag = np.array([True, False, True])

    def rule(seed, a, b, c):
        return op.adjoint(seed, op(a, b, c), a, b, c)[:2]

    a, b = evaluate(rule, np.array([np.nan, np.inf, 1.0]), np.zeros(3), np.zeros(3), flag)
    np.testing.assert_array_equal(a, [np.nan, 0, 1])
    np.testing.assert_array_equal(b, [0, np.inf, 0])


def test_casts_to_integers_carry_nothing():
    """The adjoint of a cast from or to an integer or bool dtype is None."""
    op = OPS["dataTypeCast"]
    for start, to in (("f64", "i64"), ("i64", "f64"), ("bool", "f32"), ("f32", "bool")):
        x = np.ones(3, DTYPES[start].numpy)
        found = evaluate(lambda e, to=to: [*op.adjoint(e, op(e, to=to), e, to=to), op(e, to=to)], x)  # noqa: B023
        assert found[0] is None


# -- NumPy semantics ---------------------------------------------------------------------------------------

ELEMENTWISE = [name for name, op in OPS.items() if op.kind is Kind.ELEMENTWISE]
UFUNCS = [n for n in ELEMENTWISE if isinstance(OPS[n].evaluate, np.ufunc)]
NUMPY_ROWS = [(n, d) for n in UFUNCS for d in OWN if accepts(OPS[n], d)]
INTEGERS = np.array([0, 1, 2, 3, 5, 7, 100, 127])


def operands_of(dtype, count):
    """All pairs of interesting values of a dtype."""
    kind = np.dtype(dtype).kind
    values = {"b": np.array([False, True]), "u": INTEGERS, "i": np.array([*INTEGERS, *-INTEGERS])}.get(kind)
    if values is None:
        values = np.array([0.0, -0.0, 0.5, 1.0, -1.0, 2.5, -3.25, np.inf, -np.inf, np.nan])
    if kind == "c":
        values = np.array([0, 1, -1j, 0.5 + 2j, -2 - 1j])
    grid = np.meshgrid(*[values.astype(dtype)] * count)
    return [np.ascontiguousarray(g) for g in grid]


@pytest.mark.parametrize(("name", "dtype"), NUMPY_ROWS)
def test_rows_are_numpy(name, dtype):
    """A row that names a NumPy function gives its values and, but for its widening of bools, its dtype."""
    op = OPS[name]
    x = operands_of(DTYPES[dtype].numpy, ARITY[name])
    if name == "power" and DTYPES[dtype].is_integer:
        x[1] = np.abs(x[1])  # NumPy refuses negative integer powers
    with np.errstate(all="ignore"):
        expected = op.evaluate(*x)
    found = evaluate(op, *x)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    # and on scalars
    last = [a.flat[-1] for a in x]
    np.testing.assert_array_equal(evaluate(op, *last), expected.flat[-1])


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_numpy_semantics_have_the_dtype_of_the_type_rule(name):
    """`evaluate` alone, without the interpreter's cast, gives the dtype that the type rule states."""
    op = OPS[name]
    for dtype in filter(lambda d: accepts(op, d), OWN):
        operands = [np.ones((2, 3), DTYPES[dtype].numpy) for _ in range(ARITY[name])]
        if name == "select":
            operands[2] = np.ones((2, 3), bool)
        attrs = {"polygamma": {"order": 2}, **dict.fromkeys(("dataTypeCast", "bits"), {"to": dtype})}.get(name, {})
        values = [Literal(TensorType((2, 3), DTYPES[str(d)]), 0) for d in [dtype] * ARITY[name]]
        if name == "select":
            values[2] = Literal(TensorType((2, 3), DTYPES["bool"]), 0)
        stated = op.result_type(values, attrs)
        with np.errstate(all="ignore"):  # atanh at 1
            assert np.asarray(op.evaluate(*operands, **attrs)).dtype == stated.dtype.numpy, dtype


@pytest.mark.parametrize("start", OWN)
@pytest.mark.parametrize("to", OWN)
def test_casts_are_astype(start, to):
    """dataTypeCast is astype (complex to real drops the imaginary part)."""
    x = operands_of(DTYPES[start].numpy, 1)[0]
    if DTYPES[to].kind in "iu":
        x = x[np.isfinite(x)]
        x = x[x.real >= 0] if DTYPES[to].kind == "u" and DTYPES[start].kind in "fc" else x
    part = x.real if DTYPES[start].kind == "c" and DTYPES[to].kind not in "cb" else x
    with np.errstate(all="ignore"):
        expected = part.astype(DTYPES[to].numpy)
    found = evaluate(lambda e: OPS["dataTypeCast"](e, to=to), x)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_truncated_division():
    """truncateDivide rounds towards zero, and gives 0 where the divisor is 0, as NumPy's integers do."""
    a, b = np.array([7, -7, 7, -7, 5, -(2**63), -(2**63)]), np.array([2, 2, -2, -2, 0, 1, 2])
    np.testing.assert_array_equal(evaluate(OPS["truncateDivide"], a, b), [3, -3, -3, 3, 0, -(2**63), -(2**62)])


@pytest.mark.parametrize("dtype", [d for d in OWN if d != "bool"])
def test_sums_keep_the_dtype(dtype):
    """A reduction wraps in its own dtype; NumPy's widening of small integers is the front end's business."""
    x = np.full((3, 100), 3, DTYPES[dtype].numpy)
    init = Literal(scalar(DTYPES[dtype]), {"f": 0.0, "c": 0j}.get(DTYPES[dtype].kind, 0))
    found = evaluate(lambda e: OPS["reduce"](e, init, by="add", axes=(1,)), x)
    np.testing.assert_array_equal(found, x.sum(axis=1, dtype=x.dtype))
    assert found.dtype == x.dtype


@pytest.mark.parametrize(
    ("by", "init", "numpy"),
    [("add", 2.5, np.sum), ("multiply", 2.5, np.prod), ("max", -1.0, np.max), ("min", 9.0, np.min)],
)
def test_reductions_include_the_initial_value(by, init, numpy):
    """reduce x by op init v is NumPy's reduction with initial=v, also over no axes and over no elements."""
    x = np.arange(1.0, 7.0).reshape(2, 3)
    for axes in ((0,), (1,), (0, 1)):
        found = evaluate(lambda e, axes=axes: OPS["reduce"](e, init, by=by, axes=axes), x)
        np.testing.assert_allclose(found, numpy(x, axis=axes, initial=init), rtol=1e-15)
    none = evaluate(lambda e: OPS["reduce"](e, init, by=by, axes=()), x)
    np.testing.assert_array_equal(none, numpy([x, np.full_like(x, init)], axis=0))
    assert evaluate(lambda e: OPS["reduce"](e, init, by=by, axes=(0,)), np.zeros(0)) == init


@pytest.mark.parametrize(("by", "numpy"), [("and", np.all), ("or", np.any)])
def test_boolean_reductions(by, numpy):
    """Reductions by `and` and `or` are all and any."""
    x = np.array([[True, False], [True, True], [False, False]])
    found = evaluate(lambda e: OPS["reduce"](e, by == "and", by=by, axes=(1,)), x)
    np.testing.assert_array_equal(found, numpy(x, axis=1))


def test_iota_and_extent():
    """iota n is arange; extent is the shape, as i64."""
    assert evaluate(lambda e: OPS["extent"](e, at=1), np.zeros((2, 5))) == 5
    found = evaluate(lambda e: OPS["iota"](e), np.int64(4))
    assert found.dtype == np.int64 and list(found) == [0, 1, 2, 3]


# -- the rows as data --------------------------------------------------------------------------------------


def test_a_row_needs_exactly_one_derivative_form():
    """A row with no derivative form, or with two, cannot be declared; nor can a name be taken twice."""
    for form in ({}, {"no_derivative": "why", "partials": lambda y, x: (1.0,)}):
        with pytest.raises(TypeError, match="exactly one derivative form"):
            Op("toy", Kind.ELEMENTWISE, lambda o, a: None, None, **form)
    with pytest.raises(TypeError, match="declared twice"):
        table([OPS["add"]], [OPS["add"]])


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.commutative])
def test_commutative_rows(name):
    """A row that says commutative gives the same for swapped operands."""
    op = OPS[name]
    for dtype in (d for d in OWN if accepts(op, d)):
        a, b = operands_of(DTYPES[dtype].numpy, 2)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(op.evaluate(a, b), op.evaluate(b, a))


@pytest.mark.parametrize("name", OPS)
def test_a_result_that_is_not_i64_is_not_checked(name):
    """The overflow check is for the exact arithmetic of Python ints: rows that have it accept i64."""
    if "checked" in OPS[name].attrs:
        assert accepts(OPS[name], I64.name)
