"""Arrangements, windows and scans: what they mean, in loops, and natively what the interpreter gives."""

import numpy as np
import pytest
from irbuild import new_function, parameter_type, pointer
from native import Native
from test_ops import ADJOINT_CASES

from dlvm_py.ir import DTYPES, F64, I64, OPS, Expr, PointerType, literal, scalar
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.ops.random import seeded, uniform
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import bufferize, cse, dce, lower_shape, ownership

RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.standard_normal(shape)


# -- meaning -------------------------------------------------------------------------------------------------


def convolution(x, kernel, strides, padding, left, right, groups):
    """The definition, one element after the other."""
    rank = x.ndim - 2
    base = [(n - 1) * d + 1 + sum(p) for n, d, p in zip(x.shape[2:], left, padding, strict=True)]
    count = [
        max((b - (w - 1) * r - 1) // s + 1, 0)
        for b, w, r, s in zip(base, kernel.shape[2:], right, strides, strict=True)
    ]
    each = kernel.shape[0] // groups
    out = np.zeros((x.shape[0], each * groups, *count))
    for n, o, *at in np.ndindex(*out.shape):
        for i, *w in np.ndindex(*kernel.shape[1:]):
            place = [a * s + k * r - p[0] for a, s, k, r, p in zip(at, strides, w, right, padding, strict=True)]
            on_grid = all(k % d == 0 and 0 <= k // d < m for k, d, m in zip(place, left, x.shape[2:], strict=True))
            if on_grid:
                channel = o // each * kernel.shape[1] + i
                value = x[(n, channel, *(k // d for k, d in zip(place, left, strict=True)))]
                out[(n, o, *at)] += kernel[(o, i, *w)] * value
    assert rank == len(count)
    return out


# shapes of input and kernel, and the clauses; the sizes are those of DLVM's own test file, and small ones
CONVOLUTIONS = [
    ((1, 1, 5, 5), (1, 1, 3, 3), {}, (3, 3)),
    ((2, 3, 8, 9), (4, 3, 3, 3), {}, (6, 7)),
    ((1, 2, 32, 48), (1, 2, 3, 3), {"padding": ((1, 1), (2, 2))}, (32, 50)),
    ((1, 1, 32, 48), (1, 1, 3, 3), {"strides": (2, 4), "padding": ((1, 1), (2, 2))}, (16, 13)),
    ((1, 1, 32, 48), (1, 1, 3, 3), {"strides": (2, 4), "padding": ((1, 1), (2, 2)), "rightDilation": (2, 6)}, (15, 10)),
    ((2, 8, 6, 6), (8, 1, 3, 3), {"groups": 8}, (4, 4)),
    ((2, 6, 6, 6), (8, 1, 3, 3), {"groups": 6}, (4, 4)),
    ((2, 10, 6, 6), (8, 2, 3, 3), {"groups": 4}, (4, 4)),
    ((2, 2, 5), (3, 2, 2), {"leftDilation": (3,), "padding": ((0, 2),)}, (14,)),
    ((1, 2, 3, 4, 3), (2, 2, 2, 2, 2), {"padding": ((1, 0), (0, 0), (1, 1)), "strides": (1, 2, 3)}, (3, 2, 2)),
    ((1, 1, 2, 2), (1, 1, 3, 3), {}, (0, 0)),
]


@pytest.mark.parametrize(("shape", "window", "clauses", "spatial"), CONVOLUTIONS)
def test_convolve(shape, window, clauses, spatial):
    """convolve is the sum over channels and window of its definition, for every form of its clauses."""
    x, kernel, rank = normal(*shape), normal(*window), len(shape) - 2
    filled = {"strides": (1,) * rank, "padding": ((0, 0),) * rank, "leftDilation": (1,) * rank}
    filled |= {"rightDilation": (1,) * rank, "groups": 1, **clauses}
    expected = convolution(x, kernel, *filled.values())
    found = OPS["convolve"].evaluate(x, kernel, **clauses)
    assert found.shape[2:] == spatial
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    check_native("convolve", [x, kernel], [], clauses, known=True)


@pytest.mark.parametrize(
    ("shape", "dims", "strides", "padding", "expected"),
    [((4, 6), (2, 3), (1, 1), "none", (3, 4)), ((4, 6), (2, 3), (2, 3), "none", (2, 2)),
     ((5, 7), (2, 3), (2, 3), "none", (2, 2)), ((5, 7), (2, 3), (1, 1), "half", (5, 7)),
     ((5, 7), (2, 3), (2, 3), "half", (3, 3)), ((4,), (3,), (1,), "full", (6,)), ((2,), (3,), (1,), "none", (0,)),
     ((3,), (2,), (2,), "full", (2,)), ((2, 3, 4), (1, 2, 2), (1, 1, 3), "half", (2, 3, 2))],
)  # fmt: skip
@pytest.mark.parametrize(("by", "init"), [("add", 0.5), ("max", -np.inf), ("min", 0.1), ("multiply", 2.0)])
def test_reduce_window(shape, dims, strides, padding, expected, by, init):
    """Each window is NumPy's reduction of what it sees of the array; the numbers of windows are DLVM's."""
    x = normal(*shape)
    front = [{"none": 0, "half": (w - 1) // 2, "full": w - 1}[padding] for w in dims]
    attrs = {"by": by, "dims": dims, "strides": strides, "padding": padding}
    found = OPS["reduceWindow"].evaluate(x, init, **attrs)
    assert found.shape == expected
    ufunc = {"add": np.add, "max": np.maximum, "min": np.minimum, "multiply": np.multiply}[by]
    for at in np.ndindex(*expected):
        seen = init
        for place in np.ndindex(*dims):
            k = tuple(a * s + p - f for a, s, p, f in zip(at, strides, place, front, strict=True))
            if all(0 <= i < n for i, n in zip(k, shape, strict=True)):
                seen = ufunc(seen, x[k])
        np.testing.assert_allclose(found[at], seen, rtol=1e-12)
    if by in ("add", "max"):
        check_native("reduceWindow", [x], [init], attrs, known=by == "max")


SCANS = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("by", SCANS)
@pytest.mark.parametrize(
    ("shape", "axes"), [((7,), (0,)), ((3, 5), (0,)), ((3, 5), (1,)), ((2, 3, 4), (2, 0)), ((3,), ()), ((0, 2), (0,))]
)
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_scan(by, shape, axes, dtype):
    """scan is accumulate, along one axis after the other, in its own dtype."""
    x = (normal(*shape) * 3).astype(dtype)
    expected = x.copy()
    for axis in axes:
        for k in range(1, shape[axis]):
            now, before = ([slice(None)] * axis + [j] for j in (k, k - 1))
            expected[tuple(now)] = SCANS[by](expected[tuple(before)], expected[tuple(now)])
    found = OPS["scan"].evaluate(x, by=by, axes=axes)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)
    check_native("scan", [x], [], {"by": by, "axes": axes})


@pytest.mark.parametrize(("shape", "axis"), [((6,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4), 1), ((0,), 0)])
def test_recurrence(shape, axis):
    """y is a times the y before, plus b."""
    a, b = np.moveaxis(normal(*shape), axis, 0), np.moveaxis(normal(*shape), axis, 0)
    y = b.copy()
    for k in range(1, len(y)):
        y[k] = a[k] * y[k - 1] + b[k]
    a, b, y = (np.moveaxis(v, 0, axis) for v in (a, b, y))
    np.testing.assert_allclose(OPS["recurrence"].evaluate(a, b, axis=axis), y, rtol=1e-12)
    check_native("recurrence", [a, b], [], {"axis": axis})


def test_scan_of_flags():
    """Scans by `and` and `or` are all and any of the prefixes."""
    x = np.array([True, True, False, True])
    for by, expected in (("and", [True, True, False, False]), ("or", [True] * 4)):
        np.testing.assert_array_equal(OPS["scan"].evaluate(x, by=by, axes=(0,)), expected)
        check_native("scan", [x], [], {"by": by, "axes": (0,)})


ARRANGEMENTS = [
    ("slice", [normal(5, 2)], [], {"lo": 1, "hi": 3}, lambda x: x[1:4]),
    ("slice", [normal(3)], [], {"lo": 2, "hi": 2}, lambda x: x[2:]),
    ("reverse", [normal(3, 4)], [], {"axes": (1,)}, lambda x: x[:, ::-1]),
    ("reverse", [normal(3, 4)], [], {"axes": (1, 0)}, lambda x: x[::-1, ::-1]),
    ("reverse", [normal(3)], [], {"axes": ()}, lambda x: x),
    ("concatenate", [normal(2, 3), normal(1, 3), normal(4, 3)], [], {"at": 0}, lambda *x: np.concatenate(x)),
    ("concatenate", [normal(2, 3), normal(2, 0), normal(2, 4)], [], {"at": 1}, lambda *x: np.concatenate(x, 1)),
    ("concatenate", [np.arange(3)], [], {"at": 0}, lambda x: x),
    ("section", [normal(5, 6)], [4, 1, 3, 2, -2, 3], {}, lambda x: x[::-2, 1:6:3]),
    ("embed", [normal(2, 2)], [7.0, 5, 6, 1, 0, 2, 3], {}, None),
    ("windows", [normal(6)], [3, 2, 2, 1], {}, lambda x: np.stack([x[k : k + 3 : 2] for k in range(3)])),
    ("overlapAdd", [normal(3, 2)], [6, 2, 1], {}, lambda y: np.bincount([0, 2, 1, 3, 2, 4], y.ravel(), 6)),
    ("overlapAdd", [np.arange(6).reshape(3, 2)], [5, 2, 1], {}, None),
    ("shape", [normal(2, 3, 4)], [], {}, np.shape),
    ("rank", [normal(2, 3, 4)], [], {}, np.ndim),
    ("unitCount", [normal(2, 3, 4)], [], {}, np.size),
]


@pytest.mark.parametrize(("name", "x", "rest", "attrs", "numpy"), ARRANGEMENTS)
@pytest.mark.parametrize("known", [False, True])
def test_arrangements(name, x, rest, attrs, numpy, known):
    """Ops that move elements are NumPy's indexing, and natively what the interpreter gives."""
    if numpy is not None:
        np.testing.assert_allclose(OPS[name].evaluate(*x, *rest, **attrs), numpy(*x))
    check_native(name, x, rest, attrs, known=known)


def test_embed():
    """embed is an array full of the fill, with x at a section of it."""
    x, expected = normal(2, 2), np.full((5, 6), 7.0)
    expected[1:4:2, 4::-3] = x
    np.testing.assert_array_equal(OPS["embed"].evaluate(x, 7.0, 5, 6, 1, 4, 2, -3), expected)


def test_random_is_a_stream():
    """Random numbers lie in [lo, hi), follow the seed, and each instruction takes new ones, needed or not."""
    module, f, b, (n,) = new_function(scalar(I64), result=pointer(F64, None))
    b.emit("random", n, literal(2.0), literal(3.0))
    whole = b.emit("random", literal(2), n, literal(-2), literal(2))
    x = b.emit("random", n, literal(2.0), literal(3.0))
    memory = b.emit("allocateHeap", n, dtype="f64")
    b.emit("store", x, memory)
    b.ret(memory)
    verify(module)
    first, again, other = (run(module, "f", [np.int64(50)], seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.all((first >= 2) & (first < 3)) and not np.array_equal(first, other)
    # 150 numbers were taken before these
    counters = seeded(1) + np.arange(150, 200, dtype=np.uint64)
    np.testing.assert_array_equal(first, uniform(counters, np.float64(2), np.float64(3), "f64"))
    assert whole.type.rank == 2
    for clean_up in (cse, dce):
        clean_up.run(f)
        assert [i.op.name for i in f.instructions()].count("random") == 3


def test_random_numbers_are_uniform():
    """Means, variances and counts of each dtype are those of a uniform distribution; neighbouring seeds differ."""
    counters = seeded(3) + np.arange(60_000, dtype=np.uint64)
    for name in ("f16", "f32", "f64"):
        dtype = DTYPES[name].numpy.type
        x = uniform(counters, dtype(-1), dtype(3), name)
        assert x.dtype == dtype and np.all((x >= -1) & (x < 3))
        wide = x.astype(np.float64)
        assert abs(wide.mean() - 1) < 0.02 and abs(wide.var() - 16 / 12) < 0.02
        assert abs(np.corrcoef(wide[1:], wide[:-1])[0, 1]) < 0.02
    for name in ("i8", "u64", "i64"):
        dtype = DTYPES[name].numpy.type
        counts = np.bincount(uniform(counters, dtype(2), dtype(12), name).astype(int), minlength=12)
        assert counts[:2].sum() == 0 and np.all(abs(counts[2:] - 6000) < 400)
    assert len({int(seeded(s)) for s in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [("slice", [(3,)], {"lo": 0, "hi": 3}), ("slice", [(3,)], {"lo": 2, "hi": 1}), ("slice", [()], {"lo": 0, "hi": 0}),
     ("reverse", [(3, 2)], {"axes": (1, 1)}), ("concatenate", [(3, 2), (3, 3)], {"at": 0}),
     ("concatenate", [(3,), (3, 3)], {"at": 0}), ("scan", [(3,)], {"by": "and", "axes": (0,)}),
     ("scan", [(3,)], {"by": "add", "axes": (1,)}), ("convolve", [(1, 2, 5), (1, 3, 2)], {}),
     ("convolve", [(1, 4, 5), (2, 1, 2)], {"groups": 2}), ("convolve", [(1, 1, 5), (1, 1, 2)], {"strides": (0,)}),
     ("convolve", [(1, 1, 5), (1, 1, 2)], {"padding": ((-1, 0),)}), ("convolve", [(1, 1), (1, 1)], {}),
     ("convolve", [(1, 1, 5), (1, 1, 2)], {"strides": (1, 1)}), ("convolve", [(1, 1, 5), (1, 1, 2)], {"groups": 2}),
     ("reduceWindow", [(3,), ()], {"by": "add", "dims": (0,), "strides": (1,), "padding": "none"}),
     ("reduceWindow", [(3,), ()], {"by": "add", "dims": (1,), "strides": (1,), "padding": "same"}),
     ("reduceWindow", [(3,), ()], {"by": "or", "dims": (1,), "strides": (1,), "padding": "none"})],
)  # fmt: skip
def test_types_that_do_not_fit(name, shapes, attrs):
    """Ranges, axes, extents and groups that make no sense have no type."""
    _, _, b, params = new_function(*(pointer(F64, *s) if s else scalar(F64) for s in shapes))
    operands = [b.emit("load", p) if isinstance(p.type, PointerType) else p for p in params]
    with pytest.raises(TypeError):
        b.emit(name, *operands, **attrs)


# -- natively ------------------------------------------------------------------------------------------------


def native_and_interpreted(build, arguments, known=False):
    """The results of a rule on Exprs, compiled and in the interpreter at each stage."""

    def program():
        module, f, b, params = new_function(*(parameter_type(a, known) for a in arguments))
        values = [b.emit("load", p) if isinstance(p.type, PointerType) else p for p in params]
        results = [r.value for r in build(*(Expr(b, v) for v in values)) if r is not None]
        outs = []
        for r in results:
            t = r.type if r.type.shape else None
            outs.append(f.entry.add_arg(pointer(r.type.dtype, *t.shape) if t else pointer(r.type.dtype, 1)))
            b.emit("store", r, outs[-1] if t else b.emit("elementPointer", outs[-1], literal(0)))
        b.ret()
        verify(module)
        return module, f, outs

    def targets(values):
        return [np.full(np.shape(v) or (1,), 77, np.asarray(v).dtype) for v in values]

    return program, targets


def check_native(name, x, rest, attrs, known=False):
    """An op on its own: interpreter at every stage and native code give what `evaluate` gives."""
    numbers = [literal(r, scalar(parameter_type(x[0]).dtype)) if isinstance(r, float) else literal(r) for r in rest]
    expected = [OPS[name].evaluate(*x, *rest, **attrs)]
    check_rule(lambda *e: [OPS[name](*e, *numbers, **attrs)], x, expected, known)


def check_rule(build, arguments, expected, known):
    program, targets = native_and_interpreted(build, arguments, known)
    arguments = [np.ascontiguousarray(a) if np.ndim(a) else a for a in arguments]
    for stages in (0, 1, 2, 3):
        module, f, _ = program()
        if stages:
            bufferize.run(f)
            module.stage = "compute"
        if stages > 1:
            ownership.run(f)
            module.stage = "scheduled"
        verify(module)
        outs = targets(expected)
        if stages < 3:
            run(module, "f", [*arguments, *outs], trees_at_root=stages > 0, check_ownership=stages > 1)
        else:
            Native(f)(*arguments, *outs)
        for out, e in zip(outs, expected, strict=True):
            np.testing.assert_allclose(out, np.reshape(e, out.shape), rtol=1e-10, atol=1e-10)


LOWERED = {
    "section",
    "embed",
    "slice",
    "reverse",
    "concatenate",
    "windows",
    "overlapAdd",
    "reduceWindow",
    "convolve",
    "scan",
    "recurrence",
}


@pytest.mark.parametrize(
    ("name", "attrs", "x", "rest"),
    [c for c in ADJOINT_CASES if c[0] in LOWERED or (c[0] == "reduce" and c[1]["by"] == "multiply")],
)
def test_adjoints_natively(name, attrs, x, rest):
    """What an adjoint rule emits gives natively what it gives in the interpreter."""
    op = OPS[name]
    numbers = [literal(c) for c in rest]
    y = np.asarray(op.evaluate(*x, *rest, **attrs))
    seed = np.random.default_rng(1).standard_normal(y.shape)

    def rule(s, *e):
        operands = [*e, *(Expr(s.builder, n) for n in numbers)]
        return op.adjoint(s, op(*operands, **attrs), *operands, **attrs)

    known = name == "convolve"
    program, _ = native_and_interpreted(rule, [seed, *x], known)
    module, f, outs = program()
    given = [np.ascontiguousarray(a) if np.ndim(a) else a for a in (seed, *x)]
    shapes = [np.shape(a) or (1,) for a in x]
    expected = [np.zeros(s) for s in shapes]
    run(module, "f", [*given, *expected])
    bufferize.run(f)
    ownership.run(f)
    module.stage = "scheduled"
    verify(module)
    found = [np.zeros(s) for s in shapes]
    Native(f)(*given, *found)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    assert len(outs) == len(x)


def test_windows_are_not_copied():
    """A pooling layer is one kernel: its windows are a view of the operand."""
    _, f, b, (p, q) = new_function(pointer(F64, 8, 8), pointer(F64, 4, 4))
    x = b.emit("load", p)
    y = b.emit("reduceWindow", x, literal(0.0), by="add", dims=(2, 2), strides=(2, 2), padding="none")
    b.emit("store", y, q)
    b.ret()
    bufferize.run(f)
    names = [i.op.name for i in f.instructions()]
    assert names == ["windows", "load", "reduce", "store", "return"]


def test_lower_shape_leaves_the_rest_alone():
    """A function without arrangements is as it was; a second run changes nothing."""
    _, f, b, (p, q) = new_function(pointer(F64, None), pointer(F64, None))
    b.emit("store", b.emit("exp", b.emit("load", p)), q)
    b.ret()
    assert not lower_shape.run(f)
    _, f, b, (p, q) = new_function(pointer(F64, None), pointer(F64, None))
    b.emit("store", b.emit("reverse", b.emit("load", p), axes=(0,)), q)
    b.ret()
    assert lower_shape.run(f)
    assert not lower_shape.run(f)
