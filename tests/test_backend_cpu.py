"""The CPU back end: kernels, control flow, memory and the object file, from scheduled IR built by hand."""

import functools
import itertools
import subprocess

import numpy as np
import pytest
from array_programs import Generator, arguments
from irbuild import new_function, pointer
from native import Failed, Native
from random_ir import random_program

import dlvm_py as dlvm
from dlvm_py.backend.cpu.compile import compile_plainly
from dlvm_py.backend.cpu.emit import emit
from dlvm_py.backend.imports import Imports
from dlvm_py.errors import PassError
from dlvm_py.ir import (
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I64,
    UNDEFINED,
    VOID,
    Literal,
    TupleType,
    literal,
    scalar,
)
from dlvm_py.ir.interpreter import run
from dlvm_py.options import Options
from dlvm_py.transforms import bufferize, inline, ownership

RNG = np.random.default_rng(7)


# -- kernels -------------------------------------------------------------------------------------------


def views(shape, dtype=np.float64):
    """Arrays of one shape with all kinds of strides."""
    x = (RNG.normal(size=shape) * 10).astype(dtype)
    yield "C", x
    if x.ndim > 1:
        yield "F", np.asfortranarray(x)
    wide = (RNG.normal(size=tuple(2 * n + 1 for n in shape)) * 10).astype(dtype)
    yield "S", wide[tuple(slice(1, None, 2) for _ in shape)]
    yield "S", x[tuple(slice(None, None, -1) for _ in shape)]
    yield "S", np.broadcast_to(x.flat[0], shape) if x.size else x
    yield "S", x


@functools.cache
def scaled_difference(rank, *layouts):
    """r = p * q - p of arrays in three layouts."""
    _, f, b, (p, q, r) = new_function(*(pointer(F64, *(None,) * rank, layout=k) for k in layouts))
    x, y = b.emit("load", p), b.emit("load", q)
    b.emit("store", b.emit("subtract", b.emit("multiply", x, y), x), r)
    b.ret()
    return Native(f)


@pytest.mark.parametrize("shape", [(0,), (1,), (5,), (1000,), (3, 4), (7, 0), (17, 33), (3, 4, 5)])
def test_store_every_layout(shape):
    for (la, a), (lb, b_), lo in itertools.product(views(shape), views(shape), ["C", "S"] + ["F"] * (len(shape) > 1)):
        out = {"C": np.zeros(shape), "F": np.zeros(shape, order="F"), "S": np.zeros((*shape, 2))[..., 0]}[lo]
        scaled_difference(len(shape), la, lb, lo)(a, b_, out)
        np.testing.assert_array_equal(out, a * b_ - a)


def test_broadcast_transpose_iota():
    _, f, b, (p, q, n, m, r) = new_function(
        pointer(F64, None, None), pointer(F64, None), scalar(I64), scalar(I64), pointer(F64, None, None)
    )
    x = b.emit("transpose", b.emit("load", p))
    row = b.emit("broadcast", b.emit("padShape", b.emit("load", q), at=0), n, m)
    count = b.emit("dataTypeCast", b.emit("iota", m), to="f64")
    count = b.emit("broadcast", b.emit("padShape", count, at=0), n, m)
    stretched = b.emit("broadcast", x, n, m)
    b.emit("store", b.emit("add", b.emit("multiply", stretched, row), count), r)
    b.ret()
    kernel = Native(f)
    for rows, cols, a_shape, q_shape in [
        (3, 5, (5, 3), 5),
        (3, 5, (5, 1), 1),
        (3, 5, (1, 3), 5),
        (1, 1, (1, 1), 1),
        (0, 4, (4, 0), 4),
    ]:
        a, v, out = RNG.normal(size=a_shape), RNG.normal(size=q_shape), np.zeros((rows, cols))
        kernel(a, v, rows, cols, out)
        np.testing.assert_array_equal(out, np.broadcast_to(a.T, (rows, cols)) * v + np.arange(cols))


def test_reshape_store():
    for layout in "CS":
        _, f, b, (p, n, m, r) = new_function(
            pointer(F64, None, None), scalar(I64), scalar(I64), pointer(F64, None, None, layout=layout)
        )
        b.emit("store", b.emit("shapeCast", b.emit("negate", b.emit("load", p)), n, m), r)
        b.ret()
        x, out = RNG.normal(size=(4, 6)), np.zeros((3, 8)) if layout == "C" else np.zeros((3, 16))[:, ::2]
        Native(f)(x, 3, 8, out)
        np.testing.assert_array_equal(out, -x.reshape(3, 8))


REDUCERS = {
    "add": np.add,
    "multiply": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
}
INITS = {"add": 0, "multiply": 1, "and": True, "or": False}


def init_of(by, dtype):
    if by in INITS:
        return INITS[by]
    if dtype.kind == "f":
        return -np.inf if by == "max" else np.inf
    return int(np.iinfo(dtype.numpy).min if by == "max" else np.iinfo(dtype.numpy).max)


@functools.cache
def reduction(dtype, by, layout, rank, axes):
    """Of an array of that rank and layout along some axes; what is kept is stored, else returned."""
    kept = rank - len(axes)
    outs = [pointer(dtype, *(None,) * kept)] if kept else []
    result = VOID if kept else scalar(dtype)
    _, f, b, params = new_function(pointer(dtype, *(None,) * rank, layout=layout), *outs, result=result)
    y = b.emit("reduce", b.emit("load", params[0]), literal(init_of(by, dtype), scalar(dtype)), by=by, axes=axes)
    if kept:
        b.emit("store", y, params[1])
    b.ret(*([] if kept else [y]))
    return Native(f)


@pytest.mark.parametrize("layout", ["C", "F", "S"])
@pytest.mark.parametrize("by", list(REDUCERS))
@pytest.mark.parametrize("dtype", [BOOL, I8, I64, F16, F32, F64], ids=str)
def test_reduce(dtype, by, layout):
    if (dtype is BOOL) != (by in ("and", "or")):
        return
    init = init_of(by, dtype)
    one = [((n,), (0,)) for n in (0, 1, 31, 5000)]
    two = [((40, 70), (0, 1)), ((40, 70), (0,)), ((40, 70), (1,)), ((0, 3), (0,)), ((3, 0), (1,)), ((3, 2000), (1,))]
    cases = one + two + [((6, 5, 4), axes) for axes in ((1,), (0, 2), (0, 1))]
    thorough = dtype is F64 and by == "add" or dtype is I64 and by == "max"
    for shape, axes in cases if thorough else [cases[3], cases[-1]]:
        if layout == "F" and len(shape) < 2:
            continue
        x = (
            RNG.integers(0, 2, shape).astype(bool)
            if dtype is BOOL
            else (RNG.normal(size=shape) * 3).astype(dtype.numpy)
        )
        if by == "multiply" and dtype.kind == "f":
            x = (1 + RNG.normal(size=shape) * 1e-2).astype(dtype.numpy)
        x = {"C": x, "F": np.asfortranarray(x), "S": np.repeat(x, 2, -1)[..., ::2]}[layout]
        kept = tuple(n for k, n in enumerate(shape) if k not in axes)
        out = np.zeros(kept, dtype.numpy)
        got = reduction(dtype, by, layout, len(shape), axes)(x, *([out] if kept else []))
        wide = np.float64 if dtype.kind == "f" else dtype.numpy
        want = REDUCERS[by].reduce(x.astype(wide), axis=axes, initial=init, dtype=wide)
        np.testing.assert_allclose(
            out if kept else got,
            want,
            rtol={"f16": 2e-2, "f32": 2e-5}.get(dtype.name, 1e-12),
            atol=0.5 if dtype is F16 else 1e-4,
        )


def _again(a, lengths):
    out = np.zeros(a.shape[0], a.dtype)
    for i in range(a.shape[0]):
        out[i] = np.sum(a[i, : lengths[i]] * a.dtype.type(1.5))
    return out


def _alone(x):
    return np.sum(x * x.dtype.type(1.5))


SLOWLY = [pytest.param(dtype, marks=pytest.mark.slow) for dtype in (np.float16, np.complex64)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, *SLOWLY])
def test_short_rows_have_the_bits_of_sums_alone(dtype):
    """Rows that are summed one after the other, in a loop, and by a sum along an axis of any length."""
    rng = np.random.default_rng(0)
    a = (rng.normal(size=(140, 70)) * 10.0 ** rng.integers(-3, 4, (140, 70))).astype(dtype)
    a[:, 0] = -0.0
    lengths = np.arange(140) % 71
    alone, rows = dlvm.jit(_alone), dlvm.jit(lambda x: np.sum(x * x.dtype.type(1.5), axis=1))
    expected = [alone(np.ascontiguousarray(a[i, :n])) for i, n in enumerate(lengths)]
    assert dlvm.jit(_again)(a, lengths).tobytes() == np.array(expected, dtype).tobytes()
    for n in (1, 2, 31, 32, 33, 63, 64, 65):
        part = np.ascontiguousarray(a[:, :n])
        assert rows(part).tobytes() == np.array([alone(x) for x in part], dtype).tobytes(), n


def test_sums_have_the_same_bits_in_every_layout_and_are_accurate():
    kernels = {}
    for layout in "CS":
        _, f, b, (p,) = new_function(pointer(F64, None, layout=layout), result=scalar(F64))
        b.ret(b.emit("reduce", b.emit("load", p), literal(0.0), by="add", axes=(0,)))
        kernels[layout] = Native(f)
    _, f, b, (p,) = new_function(pointer(F64, None), result=scalar(F64))
    b.ret(b.emit("reduce", b.emit("multiply", b.emit("load", p), literal(1.0)), literal(0.0), by="add", axes=(0,)))
    kernels["tree"] = Native(f)
    for n in (1, 7, 32, 1023, 1024, 1025, 4097, 100_003):
        x = RNG.normal(size=n) * 10.0 ** RNG.integers(-8, 8, n)
        strided = np.repeat(x, 3)[::3]
        sums = {kernels["C"](x), kernels["S"](x), kernels["S"](strided), kernels["tree"](x)}
        assert len(sums) == 1
        exact = float(np.sum(x.astype(np.longdouble)))
        assert abs(sums.pop() - exact) <= 1e-14 * float(np.abs(x).sum())
    assert np.isnan(kernels["C"](np.array([1.0, np.nan, 2.0])))


def test_max_propagates_nan():
    _, f, b, (p,) = new_function(pointer(F64, None), result=scalar(F64))
    b.ret(b.emit("reduce", b.emit("load", p), literal(-np.inf), by="max", axes=(0,)))
    kernel = Native(f)
    x = RNG.normal(size=100)
    assert kernel(x) == x.max()
    x[37] = np.nan
    assert np.isnan(kernel(x))


@pytest.mark.parametrize("shape", [(4, 6), (1, 6), (4, 1), (3, 0), (2000, 3)])
def test_unbroadcast(shape):
    _, f, b, (p, n, m, r) = new_function(pointer(F64, None, None), scalar(I64), scalar(I64), pointer(F64, None, None))
    b.emit("store", b.emit("unbroadcast", b.emit("square", b.emit("load", p)), n, m), r)
    b.ret()
    kernel = Native(f)
    x = RNG.normal(size=shape)
    for wanted in itertools.product(*({n, 1} for n in shape)):
        out = np.full(wanted, 7.0)
        kernel(x, *wanted, out)
        axes = tuple(k for k in (0, 1) if wanted[k] == 1 and shape[k] != 1)
        np.testing.assert_allclose(out, (x * x).sum(axis=axes, keepdims=True) if axes else x * x, rtol=1e-13)


# -- products --------------------------------------------------------------------------------------------


def matrix(shape, how, dtype):
    x = (RNG.normal(size=shape) * 4).astype(dtype)
    if how == "C" or x.ndim == 1 and how == "F":
        return x
    if how == "F":
        return np.asfortranarray(x)
    if how == "gaps":
        return np.repeat(x if x.ndim == 1 else np.repeat(x, 2, -1), 2, 0)[(slice(None, None, 2),) * x.ndim]
    if how == "reversed":
        return x[(slice(None, None, -1),) * x.ndim]
    if how == "rows":  # unit inner stride, a longer leading dimension
        return np.concatenate([x, x], axis=-1)[..., : shape[-1]]
    return np.broadcast_to(x[:1], shape)


HOW = ["C", "F", "gaps", "reversed", "rows", "zero"]


DOTS = [((2, 2), F64), ((2, 1), F32), ((1, 2), F64), ((1, 1), F32), ((2, 2), F16), ((1, 2), I64), ((2, 1), I64)]
OTHER_DOTS = [((r, s), t) for r in (2, 1) for s in (2, 1) for t in (F64, F32, F16, I64) if ((r, s), t) not in DOTS]


@pytest.mark.parametrize(("ranks", "dtype"), [*DOTS, *(pytest.param(*c, marks=pytest.mark.slow) for c in OTHER_DOTS)])
def test_dot(ranks, dtype):
    def build(layouts):
        types = [pointer(dtype, *(None,) * r, layout=k) for r, k in zip(ranks, layouts, strict=False)]
        out_rank = sum(ranks) - 2
        out = [pointer(dtype, *(None,) * out_rank, layout=layouts[-1])] if out_rank else []
        _, f, b, params = new_function(*types, *out, result=VOID if out else scalar(dtype))
        y = b.emit("dot", *(b.emit("load", p) for p in params[:2]))
        if out:
            b.emit("store", y, params[2])
        b.ret(*([] if out else [y]))
        return Native(f)

    strided, plain = build("SSS"), build("CCC")
    sizes = [(0, 3, 2), (3, 0, 2), (1, 1, 1), (2, 3, 4), (40, 30, 50), (1, 300, 80), (80, 300, 1), (60, 1, 70)]
    for m, k, n in sizes:
        shapes = (m, k)[-ranks[0] :], (k, n)[: ranks[1]]
        for how_a, how_b in itertools.product(HOW, HOW):
            if dtype not in (F64,) and (how_a != "C" and how_b != "C"):
                continue
            a, b = matrix(shapes[0], how_a, dtype.numpy), matrix(shapes[1], how_b, dtype.numpy)
            want = np.dot(a.astype(np.float64), b.astype(np.float64)) if dtype.kind == "f" else np.dot(a, b)
            outs = [None] if not want.ndim else [
                np.full(want.shape, 9, dtype.numpy), np.full(want.shape, 9, dtype.numpy, order="F"),
                np.full((*want.shape, 2), 9, dtype.numpy)[..., 0]]  # fmt: skip
            for out in outs:
                kernels = [strided]
                if a.flags.c_contiguous and b.flags.c_contiguous and (out is None or out.flags.c_contiguous):
                    kernels.append(plain)
                for kernel in kernels:
                    got = kernel(a, b, *([] if out is None else [out]))
                    got = got if out is None else out
                    tolerance = {"f64": 1e-11, "f32": 1e-3, "f16": 2.0}.get(dtype.name, 0)
                    np.testing.assert_allclose(got, want, rtol=2e-3 if dtype is F16 else 1e-5, atol=tolerance)


# -- control flow, memory ----------------------------------------------------------------------------------


def counting_loop(b, f, n, init, body):
    """for i in range(n): x = body(i, x); the block after it has x."""
    head, inner, after = f.new_block("head"), f.new_block("inner"), f.new_block("after")
    i, x = head.add_arg(scalar(I64)), head.add_arg(init.type)
    b.branch(head, [literal(0), init])
    b.at_end(head)
    b.conditional(b.emit("lessThan", i, n), inner, [], after, [])
    b.at_end(inner)
    y = body(i, x)
    b.branch(head, [b.emit("add", i, literal(1)), y])
    b.at_end(after)
    return x


def test_loops_and_stacks():
    m, f, b, (p, n) = new_function(pointer(F64, None), scalar(I64), result=scalar(F64))
    tape = b.emit("createStack", element=scalar(F64))

    def forward(i, x):
        b.emit("push", x, tape)
        return b.emit("add", b.emit("multiply", x, literal(0.5)), b.emit("load", b.emit("elementPointer", p, i)))

    def backward(i, x):
        return b.emit("add", x, b.emit("pop", tape))

    last = counting_loop(b, f, n, literal(1.0), forward)
    total = counting_loop(b, f, n, last, backward)
    b.emit("destroyStack", tape)
    b.ret(total)
    kernel = Native(f)
    for size in (0, 1, 10, 5000):
        x = RNG.normal(size=size)
        assert kernel(x, size) == run(m, "f", [x, size])
        assert kernel(x, size, fuel=3) == run(m, "f", [x, size])
    assert kernel.allocations() == 0


def test_stacks_of_pointers_and_reference_counts():
    for keep in (False, True):  # leftovers are released by destroyStack
        _, f, b, (n,) = new_function(scalar(I64), result=scalar(F64))
        tape = b.emit("createStack", element=pointer(F64, None))

        def body(i, x, b=b, n=n, tape=tape):
            a = b.emit("allocateHeap", n, dtype="f64")
            b.emit("store", b.emit("broadcast", b.emit("dataTypeCast", i, to="f64"), n), a)
            b.emit("retain", a)
            b.emit("push", a, tape)
            b.emit("release", a)
            return x

        start = counting_loop(b, f, n, literal(0.0), body)

        def back(i, x, b=b, tape=tape):
            a = b.emit("pop", tape)
            y = b.emit("reduce", b.emit("load", a), literal(0.0), by="add", axes=(0,))
            b.emit("release", a)
            return b.emit("add", b.emit("multiply", x, literal(0.5)), y)

        total = start if keep else counting_loop(b, f, n, start, back)
        b.emit("destroyStack", tape)
        b.ret(total)
        kernel = Native(f)
        want = 0.0
        for i in reversed(range(40)):
            want = want * 0.5 + 40.0 * i
        assert kernel(40) == (0.0 if keep else want)
        assert kernel.allocations() == 0


def test_swap_in_a_loop():
    """Pointers as block arguments: u, v = v, u + v."""
    m, f, b, (n,) = new_function(scalar(I64), result=TupleType((pointer(F64, 3), scalar(I64), scalar(BOOL))))
    three = literal(3)
    u, v = (b.emit("allocateHeap", three, dtype="f64") for _ in range(2))
    for p, x in ((u, 0.0), (v, 1.0)):
        b.emit("store", b.emit("broadcast", literal(x), three), p)
    head, inner, after = f.new_block(), f.new_block(), f.new_block()
    i, a, c = head.add_arg(scalar(I64)), head.add_arg(u.type), head.add_arg(u.type)
    b.branch(head, [literal(0), u, v])
    b.at_end(head)
    b.conditional(b.emit("lessThan", i, n), inner, [], after, [])
    b.at_end(inner)
    new = b.emit("allocateHeap", three, dtype="f64")
    b.emit("store", b.emit("add", b.emit("load", a), b.emit("load", c)), new)
    b.emit("release", a)
    b.branch(head, [b.emit("add", i, literal(1)), c, new])
    b.at_end(after)
    b.emit("release", c)
    b.ret(b.emit("tuple", a, i, b.emit("equal", i, n)))
    array, count, flag = Native(f)(30)
    assert (array == 832040.0).all() and count == 30 and flag == 1
    want = run(m, "f", [30], check_ownership=True)
    np.testing.assert_array_equal(array, want[0])


def test_checks_record_site_and_operands():
    m, f, b, (i, x) = new_function(scalar(I64), scalar(F64), result=scalar(I64))
    small = b.emit("lessThan", i, literal(5))
    b.emit("check", small, i, x, small, exception="IndexError", message="index {} of {} ({})")
    b.emit("check", b.emit("greaterThan", i, literal(0)), exception="ValueError", message="not positive")
    other = f.new_block()
    fine = f.new_block()
    b.conditional(b.emit("equal", i, literal(3)), other, [], fine, [])
    b.at_end(other)
    b.emit("raise", i, exception="KeyError", message="three: {}")
    b.at_end(fine)
    b.ret(i)
    kernel = Native(f)
    assert kernel(2, 1.5) == 2
    for args, record in [
        ((7, -1.5), ("IndexError", "index 7 of -1.5 (False)")),
        ((0, 0.0), ("ValueError", "not positive")),
        ((3, 0.0), ("KeyError", "three: 3")),
    ]:
        with pytest.raises(Failed) as error:
            kernel(*args)
        assert error.value.record == record


def test_allocation_failures():
    _, f, b, (n, k) = new_function(scalar(I64), scalar(I64), result=scalar(I64))
    a = b.emit("allocateHeap", n, k, dtype="f64")
    size = b.emit("extent", a, at=0)
    b.emit("release", a)
    b.ret(size)
    kernel = Native(f)
    assert kernel(3, 4) == 3 and kernel(0, 4) == 0
    with pytest.raises(Failed) as error:
        kernel(3, -1)
    assert error.value.record == ("ValueError", "negative dimensions are not allowed")
    for n, k in [(2**62, 1), (2**40, 2**40), (2**31, 2**31)]:
        with pytest.raises(Failed) as error:
            kernel(n, k)
        assert error.value.site == -2


def test_poll_runs_signal_handlers():
    _, f, b, (n,) = new_function(scalar(I64), result=scalar(I64))
    b.ret(counting_loop(b, f, n, literal(0), lambda i, x: b.emit("bitXor", b.emit("multiply", x, literal(3)), i)))

    def interrupted(names):
        # any function of CPython without arguments whose result is not 0 stands for a handler that raised
        return ["py:PyThreadState_GetDict" if name == "py:PyErr_CheckSignals" else name for name in names]

    assert Native(f)(10_000_000, fuel=1) == run_loop(10_000_000)
    kernel = Native(f, imports_change=interrupted)
    with pytest.raises(Failed) as error:
        kernel(10_000_000, fuel=1000)
    assert error.value.site == -1


def run_loop(n):
    x = 0
    for i in range(n):
        x = (x * 3 & 0xFFFFFFFFFFFFFFFF) ^ i
    return x - (x >> 63 << 64)


def test_undefined_pointers_are_null():
    _, f, b, () = new_function(result=scalar(I64))
    p = Literal(pointer(F64, None), UNDEFINED)
    b.emit("release", p)
    b.ret(b.emit("extent", p, at=0))
    assert Native(f)() == 0


def test_sections_and_element_pointers():
    m, f, b, (p, s, n, t, r) = new_function(
        pointer(F64, None, None), scalar(I64), scalar(I64), scalar(I64), pointer(F64, None, None, layout="S")
    )
    zero, one = literal(0), literal(1)
    rows, cols = b.emit("extent", p, at=0), b.emit("extent", p, at=1)
    view = b.emit("section", p, zero, s, rows, n, one, t)
    row = b.emit("elementPointer", view, zero)
    b.emit("store", b.emit("negate", b.emit("load", row)), row)
    b.emit("store", b.emit("load", view), r)
    b.ret()
    kernel = Native(f)
    assert cols is not None
    for start, count, step in [(0, 4, 1), (6, 4, -2), (1, 3, 2), (7, 0, 1)]:
        x = RNG.normal(size=(3, 7))
        y, out, want = x.copy(), np.zeros((3, count)), np.zeros((3, count))
        kernel(x, start, count, step, out)
        run(m, "f", [y, start, count, step, want])
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(out, want)


def test_apply_is_refused():
    _, f, b, (x,) = new_function(scalar(F64), result=scalar(F64))
    b.ret(b.emit("apply", x, callee="g", result=scalar(F64)))
    with pytest.raises(PassError, match="apply"):
        emit(f, Imports(), Options())


def natively(module, name, args):
    """Results and arguments after a native call of an IR function at stage optimizable, or its exception's name."""
    inline.run(module, name)
    f = module.functions[name]
    bufferize.run(f, noalias_params=False)
    ownership.run(f)
    kernel = Native(f, noalias_params=False)
    try:
        result = kernel(*args)
        assert kernel.allocations() == 0
    except Failed as error:
        result = (error.record[0],)
    return [*result, *args]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    """Whole functions, with loops, views, tapes and early returns, against the interpreter."""
    for make in (lambda: Generator(seed).module, lambda: random_program(seed).module):
        name = "main" if "main" in make().functions else "f"
        draw = random_program(seed).arguments if name == "main" else lambda: arguments(seed)
        args = draw()
        try:
            with np.errstate(all="ignore"):
                want = [*run(make(), name, args), *args]
        except (ArithmeticError, ValueError, IndexError) as error:
            want = [type(error).__name__, *args]
        got = natively(make(), name, draw())
        assert len(got) == len(want)
        for x, y in zip(got, want, strict=True):
            if isinstance(y, str):
                assert x == y
            else:
                np.testing.assert_allclose(np.asarray(x, np.asarray(y).dtype), y, rtol=1e-9, atol=1e-12)


# -- the object --------------------------------------------------------------------------------------------


def fused():
    _, f, b, (p, q, r) = new_function(pointer(F64, None), pointer(F64, None), pointer(F64, None))
    x, y = b.emit("load", p), b.emit("load", q)
    b.emit("store", b.emit("add", b.emit("multiply", x, y), x), r)
    b.ret()
    return Native(f)


def test_vectorises_and_is_deterministic():
    kernel = fused()
    assert "x double>" in kernel.compiled.llvm
    assert "fmul fast" not in kernel.compiled.llvm
    again = fused()
    assert again.compiled.object == kernel.compiled.object and again.emitted.module_text == kernel.emitted.module_text
    assert "ymm" in kernel.compiled.asm() or "xmm" in kernel.compiled.asm()


def test_scalar_loops_vectorise_between_polls():
    """The strip-mined loop: the poll does not stand in the way of the vectoriser."""
    _, f, b, (p, q, n) = new_function(pointer(F64, None), pointer(F64, None), scalar(I64))

    def body(i, x):
        y = b.emit("load", b.emit("elementPointer", p, i))
        b.emit("store", b.emit("multiply", y, y), b.emit("elementPointer", q, i))
        return x

    counting_loop(b, f, n, literal(0), body)
    b.ret()
    kernel = Native(f)
    assert "fmul <" in kernel.compiled.llvm
    for fuel in (1, 7, 1 << 20):
        x, out = RNG.normal(size=10_001), np.zeros(10_001)
        kernel(x, out, 10_001, fuel=fuel)
        np.testing.assert_array_equal(out, x * x)


def test_overlapping_parameters():
    """noalias_params=False: a loop over two arguments that are one array reads what it has written."""
    for apart in (False, True):
        _, f, b, (p, q, n) = new_function(pointer(F64, None), pointer(F64, None), scalar(I64))

        def body(i, x, b=b, p=p, q=q):
            y = b.emit("add", b.emit("load", b.emit("elementPointer", p, i)), literal(1.0))
            b.emit("store", y, b.emit("elementPointer", q, b.emit("add", i, literal(1))))
            return x

        counting_loop(b, f, n, literal(0), body)
        b.ret()
        kernel = Native(f, noalias_params=apart)
        x, y = np.zeros(1001), np.zeros(1001)
        kernel(x, y, 1000)
        assert (y[1:] == 1).all()
        if not apart:
            kernel(x, x, 1000)
            np.testing.assert_array_equal(x, np.arange(1001.0))


def test_fastmath():
    _, f, b, (p,) = new_function(pointer(F64, None), result=scalar(F64))
    x = b.emit("load", p)
    b.ret(b.emit("reduce", b.emit("divide", b.emit("negate", x), x), literal(0.0), by="add", axes=(0,)))
    kernel = Native(f, Options(fastmath=True))
    assert "fdiv fast" in kernel.emitted.module_text
    assert kernel(np.ones(100)) == -100.0


def test_inner_functions_and_what_a_string_says_of_them():
    """A function that nobody sees gets another linkage, the text of a message does not."""
    text = """
@said = internal constant [15 x i8] c"define internal"
define internal i8 @inner() {
  %first = load i8, ptr @said
  ret i8 %first
}
define i8 @outer() {
  %first = call i8 @inner()
  ret i8 %first
}
"""
    assert len(compile_plainly([text], Imports(), ["outer"]).objects) == 2


def test_undefined_symbols(tmp_path):
    """What an object leaves undefined: shared functions, and what LLVM calls for copies and fills of memory."""
    _, f, b, (p, q) = new_function(pointer(F64, None), pointer(F64, None))
    b.emit("store", b.emit("load", p), q)
    for name in ("exp", "floor", "tanh"):
        b.emit("store", b.emit(name, b.emit("load", q)), q)
    b.emit("store", b.emit("modulo", b.emit("load", q), b.emit("load", p)), q)
    n = b.emit("extent", q, at=0)
    b.emit("store", b.emit("broadcast", literal(0.0), n), q)
    b.ret()
    path = tmp_path / "kernel.o"
    compiled = Native(f).compiled
    path.write_bytes(compiled.object)
    try:
        listed = subprocess.run(["nm", "-u", path], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("no nm")
    assert set(listed.split()) - {"U", *compiled.shared} <= {"memcpy", "memmove", "memset"}


@pytest.mark.parametrize("dtype", (np.float64, np.float32, np.int64, np.int16))
def test_truths_of_wider_numbers_at_all_lengths(dtype):
    def inside(m, v, w):
        return m & (v > 0), (v * v + w * w < 30) | ~m, v.astype(np.uint8), np.isfinite(w) ^ m

    compiled, rng = dlvm.jit(inside), np.random.default_rng(3)
    for length in (*range(40), 63, 64, 65, 200):
        for first in (0, 1, 3):
            v, w = (rng.integers(-9, 9, length + first).astype(dtype)[first:] for _ in "vw")
            if v.dtype.kind == "f":
                w[::5], v[1::7] = np.nan, 200
            m = rng.random(length + first)[first:] > 0.5
            v = np.abs(v)  # what a byte holds: others are nobody's to say
            for found, wanted in zip(compiled(m, v, w), inside(m, v, w), strict=True):
                np.testing.assert_array_equal(found, wanted, strict=True)
