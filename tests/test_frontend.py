"""The front end: what its IR computes against plain Python, its structure, its joins, its errors, captures."""

import contextlib
import inspect
import math
import textwrap
import warnings
from types import FunctionType

import gast
import numpy as np
import pytest
from programs import PROGRAMS

from dlvm_py.errors import CompileError, ShapeMismatch, TypeMismatch, UnknownFunction, UnknownName, UnsupportedSyntax
from dlvm_py.frontend.capture import capture, fingerprint
from dlvm_py.frontend.source import function_source
from dlvm_py.frontend.translate import translate
from dlvm_py.ir import dtype_of, print_module
from dlvm_py.ir.exceptions import NotAssumed
from dlvm_py.ir.interface import ArraySpec, ConstantSpec, EitherSpec, GrowingSpec, RecordSpec, ScalarSpec, TupleSpec
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify
from dlvm_py.options import Options


def array_spec(a):
    layout = "C" if a.flags.c_contiguous else "F" if a.flags.f_contiguous and a.ndim > 1 else "S"
    return ArraySpec(dtype_of(a.dtype).name, tuple(n == 1 for n in a.shape), layout)


def spec_of(value):
    if isinstance(value, np.ndarray):
        return array_spec(value)
    if isinstance(value, tuple):
        return TupleSpec(tuple(map(spec_of, value)))
    if isinstance(value, np.generic):
        return ScalarSpec(dtype_of(value.dtype).name, weak=False)
    names = {bool: "bool", int: "i64", float: "f64"}
    return ScalarSpec(names[type(value)], weak=True) if type(value) in names else ConstantSpec(value)


def leaves_of(value):
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves_of(item)]
    return [] if isinstance(spec_of(value), ConstantSpec) else [value]


def lower(fn, *args, answers=None):
    captures = capture(fn)
    specs = tuple(array_spec(c.value) for c in captures.arrays)
    specified = tuple(map(spec_of, args))
    return translate(fn, specified, captures, Options(), captured_specs=specs, answers=answers), captures


def rebuilt(spec, leaves):
    """A Python result of the flat results of the IR function."""
    if isinstance(spec, TupleSpec):
        return tuple(rebuilt(s, leaves) for s in spec.items)
    if isinstance(spec, RecordSpec):
        items = [rebuilt(s, leaves) for s in spec.items]
        return spec.kind(**dict(zip(spec.names, items, strict=True))) if spec.names else spec.kind(items)
    if isinstance(spec, ConstantSpec):
        return spec.value
    if isinstance(spec, EitherSpec):
        place = int(leaves.pop(0))
        return [rebuilt(s, leaves) for s in spec.items][place]
    if isinstance(spec, GrowingSpec) and spec.item in ("weak", "scalar"):
        (column,) = (leaves.pop(0) for _ in spec.columns)
        return column.tolist() if spec.item == "weak" else list(column)
    leaf = leaves.pop(0)
    if isinstance(spec, ArraySpec):
        return leaf
    return np.asarray(leaf).item() if spec.weak else np.asarray(leaf)[()]


def call(fn, *args, answers=None):
    """fn(*args) through the front end, the verifier and the interpreter; again where types depend on values."""
    translation, captures = lower(fn, *args, answers=answers)
    verify(translation.module)
    try:
        out = run(translation.module, translation.name, [*leaves_of(args), *(c.value for c in captures.arrays)])
    except NotAssumed as error:
        known = answers or {}
        if error.name in known:
            raise
        return call(fn, *args, answers={**known, error.name: False})
    return rebuilt(translation.result, list(out) if isinstance(out, tuple) else [out])


def assert_same(got, want):
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w)
    elif callable(want) or want is None or isinstance(want, str):
        assert got is want or got == want
    else:
        assert type(got) is type(want)
        assert np.asarray(got).dtype == np.asarray(want).dtype and np.shape(got) == np.shape(want)
        # sums may be taken in another order: a few ulp
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def copied(value):
    if isinstance(value, tuple):
        return tuple(map(copied, value))
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


def check(fn, *args):
    """Same value, type, dtype, shape, side effects, or the same exception, as plain Python."""
    mine, plain = copied(args), copied(args)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later: ~ of a bool
        try:
            want = fn(*plain)
        except Exception as error:  # noqa: BLE001 - whatever Python raises is what we want to see
            with pytest.raises(type(error)) as caught:
                call(fn, *mine)
            # pytest adds what it knows of a failed assertion to the message
            assert str(caught.value) == str(error).partition("\nassert ")[0]
        else:
            assert_same(call(fn, *mine), want)
    assert_same(mine, plain)


@pytest.mark.parametrize("p", PROGRAMS, ids=lambda p: p.name)
def test_programs_compute_what_python_computes(p):
    check(p.fn, *p.make_args())


# -- more semantics, one law a function ------------------------------------------------------------------

A, M = np.arange(1.0, 7.0), np.arange(12.0).reshape(3, 4)
GLOBAL_ARRAY, GLOBAL_NUMBER = np.array([1.0, 2.0, 3.0]), 7


def test_indexing_is_numpys():
    def views(x, m):
        return (
            (m[1], m[:, 2], m[-1, -1], m[::2, 1:], m[None, 1], m[..., 0], m[1:, ::-1], x[::-2], x[-3:], x[:-7:-1]),
            (m.T[1], m[1][2], x[None, :, None], x[5:2], x[-100:100:3], m[0:1], m[:, -2:]),
        )

    check(views, A, M)


@pytest.mark.parametrize("i", [*range(-8, 9)])
def test_slices_clip_and_indices_are_checked(i):
    check(lambda x, i: (x[i : i + 2], x[:i], x[i::-1]), A, i)
    check(lambda x, i: x[i], A, i)
    check(lambda x, k: x[::k], A, i)


def test_scalars_promote_as_nep_50():
    def mixed(a, f, i, d, b):
        return (
            (a + 1, a * f, a / 2, f * i, f * d, i * d, a + b, a // 2, a % 3, a**2, np.exp(f), -a, np.abs(a), f**2),
            (i**2, i / 2, b + 1, b & True, ~b, a * 2.5, f + np.float64(1), a == 3, np.sum(a), np.mean(a), a.max()),
        )

    check(mixed, np.arange(5, dtype=np.int8), np.float32(2), 3, 2.5, True)
    check(lambda a: (a + 200, -a, a * a, np.sum(a), a >= 3, a - 4), np.array([3, 200], dtype=np.uint8))
    check(lambda a: a + 300, np.array([3], dtype=np.uint8))  # OverflowError, as NumPy


def test_python_numbers_keep_pythons_rules():
    check(lambda a, b: (a // b, a % b, a / b, -a // b, 2**-1, a**3), 7, -2)
    for a, b in ((7, 0), (7.5, 0.0), (True, 0)):
        check(lambda a, b: a // b, a, b)
        check(lambda a, b: a % b, a, b)
        check(lambda a, b: a / b, a, b)
    check(lambda a, b: (a / b, a // b, a % b), np.float64(1.0), 0)
    check(lambda x: math.sqrt(x), -1.0)
    check(lambda x: (int(x), float(3), bool(x), round(x), math.floor(x), divmod(7, -2)), 2.5)
    with pytest.raises(OverflowError):
        call(lambda n: n * n * n, 10**7)  # a Python int is 64 bits wide here


def test_reductions():
    def sums(x, m):
        return (
            (np.sum(m, axis=0), m.sum(axis=1, keepdims=True), np.mean(m), m.mean(axis=(0, 1)), np.max(m, axis=1)),
            (m.min(), np.prod(x), np.any(m > 11, axis=0), np.all(m > -1), np.sum(m, axis=-1), np.sum(m, keepdims=True)),
        )

    check(sums, A, M)
    check(lambda x: np.max(x), A[:0])
    check(lambda x: (np.sum(x), np.prod(x)), A[:0])


def test_making_and_reshaping_arrays():
    def made(n, c):
        return (
            (np.zeros(n), np.ones((n, 2)), np.full((2, n), c), np.full(n, 3), np.arange(n), np.arange(2, n * 3, 3)),
            (np.arange(n, 0, -1), np.arange(0.0, 1.0, 0.3), np.linspace(0, 1, n), np.eye(2, n), np.array([1, 2.5, c])),
            (np.array([[1, 2], [3, 4]]), np.zeros(n, np.float32), np.zeros_like(np.arange(n)), np.linspace(0, 1, 1)),
        )

    check(made, 4, 0.5)
    check(lambda n: np.zeros(n), -1)
    check(lambda x, m: (m.reshape(4, 3), m.T.reshape(-1), x.reshape(2, 3).T, m.flatten(), m.swapaxes(0, 1)), A, M)
    check(lambda x, n: x.reshape(n, 2), A, 4)


def test_shapes_are_checked_once_and_in_numpys_words():
    def combine(x, y):
        return (x + y) * (x - y) + y

    for y in (A, A[:4], A[:1], A[:0]):
        check(combine, A, y)
    check(combine, M, M[:2])
    text = print_module(lower(combine, A, A)[0].module)
    assert text.count("check") == 1 and " = broadcast " not in text

    def assign(x, y):
        x[1:] = y

    check(assign, A, A[:5])
    check(assign, A, A)

    def add(x, y):
        x += y

    check(add, A, A[:3])
    check(add, A[:1], A)
    check(lambda a, b: np.dot(a, b), A, A[:3])
    check(lambda a, b: a @ b, M, M)


def test_extents_that_may_be_one_are_stretched_at_run_time():
    def differences(x):
        d = x[1:] - x[:-1]
        return d * x, x * d

    for n in (2, 3):
        check(differences, A[:n])


def test_equal_slices_have_one_extent():
    def stencil(u):
        flux = u[1:] - u[:-1]
        u[1:-1] += flux[1:] - flux[:-1]

    assert "check" not in print_module(lower(stencil, A)[0].module)


def test_bounds_checks_that_are_proven_are_left_out():
    def loops(x):
        s = 0.0
        for i in range(1, len(x) - 1):
            s += x[i - 1] * x[i + 1]
        for i in range(x.shape[0] - 1, -1, -1):
            for j in range(i):
                s -= x[i] * x[j]
        k = 0
        while k < len(x):
            s += x[k]
            k += 1
        return s

    check(loops, A)
    text = print_module(lower(loops, A)[0].module)
    assert "check" not in text


# -- control flow and joins ------------------------------------------------------------------------------


def test_names_that_may_be_unset_raise_when_read():
    def last(n):
        for i in range(n):
            z = i * 2
        return z

    check(last, 0)
    check(last, 3)

    def previous(n):
        for i in range(n):
            if i > 0:
                y = before * 2  # noqa: F821 - set by an earlier iteration
            before = i  # noqa: F841
        return y

    check(previous, 4)
    check(previous, 1)


def test_loops_join_types_that_widen():
    def widen(x, n):
        s, best, u = 0, 0, x
        for i in range(n):
            if x[i] > best:
                best = x[i]
            s += i
            u = u[1:]
        return s, best, u

    check(widen, A, 3)


def test_nested_loops_with_every_exit():
    def tangle(n):
        c = 0
        for i in range(n):
            for j in range(i):
                if j == 2:
                    continue
                for k in range(j, n, 2):
                    if k == 3:
                        break
                    c += i * j + k
                else:
                    c -= 1
            while c > 50:
                c -= 7
                if c == 30:
                    return -c
        return c

    for n in range(8):
        check(tangle, n)


def test_iteration_over_arrays_tuples_enumerate_zip_reversed():
    def iterate(x, m):
        s = 0.0
        for i, (a, b) in enumerate(zip(x, x[::-1], strict=False), 1):
            s += i * a * b
        for row in m:
            row *= 2.0
            s += np.sum(row)
        for v in reversed(x):
            s = s * 0.5 + v
        for item in (x, 2, 0.5):
            s += np.sum(item)
        return s

    check(iterate, A, M)
    check(lambda a, b, c: sum((1 if a else 2, b, c)), True, 2, 0.5)


def test_short_circuits_do_not_evaluate_what_python_does_not():
    check(lambda x, i: 1 if i < len(x) and x[i] > 0.0 else 2, A, 9)
    check(lambda x, i: 1 if 0 <= i < len(x) and x[i] > 2.0 else 2, A, 3)
    check(lambda a, b: (a or b, a and b, not a), 0, 25)
    check(lambda x, f: (x + 1) * (x if f else x * 2) + (x[0] if f else 1.0), A, False)


def test_branches_on_constants_are_decided_at_compile_time():
    def modes(x, option, mode):
        if option is None:
            x = x + 1
        if mode == "double":
            x = x * 2
        elif mode == "other":
            x = undefined_name  # noqa: F821
        return x

    check(modes, 1.0, None, "double")
    assert "conditional" not in print_module(lower(modes, 1.0, None, "double")[0].module)


def test_raise_and_assert_with_messages():
    def picky(n, x):
        if n > 3:
            raise ValueError(f"bad {n} and {x} {{x}}")
        assert n > 1, "small"
        return n

    for n in (5, 1, 2):
        check(picky, n, 0.5)


# -- functions -------------------------------------------------------------------------------------------


def _uses_globals(x):
    return x * GLOBAL_ARRAY + GLOBAL_NUMBER


def _with_defaults(x, *rest, a=2.0, b=(1, 2)):
    return x * a + len(rest) + b[1]


def _apply_twice(f, x):
    return f(f(x))


def _scaled_by(k):
    return lambda x: x * k


def test_calls_closures_defaults_and_captured_arrays():
    check(lambda c: _uses_globals(c) + GLOBAL_ARRAY[0], 3.0)
    check(lambda x: (_with_defaults(x), _with_defaults(x, 1, 2, a=3.0), _with_defaults(x, b=(3, 4))), 1.0)

    def closures(x, c):
        def clamp(y):
            if c > 2:
                return y * c
            return y

        return _apply_twice(clamp, x) + _apply_twice(lambda z: z + c, x) + _scaled_by(c)(x)

    check(closures, A, 3.0)
    translation, captures = lower(_uses_globals, 3.0)
    assert [c.name for c in captures.arrays] == ["GLOBAL_ARRAY"]
    assert [(p.name, p.captured) for p in translation.params] == [("x", False), ("GLOBAL_ARRAY", True)]


def test_a_callee_is_translated_once_a_signature():
    def many(x, y):
        return _apply_twice(_uses_globals, x) + _uses_globals(y) + _uses_globals(2.0) + _uses_globals(3.0)

    functions = lower(many, GLOBAL_ARRAY, GLOBAL_ARRAY)[0].module.functions
    assert len(functions) <= 4  # many, _apply_twice, _uses_globals of an array and of a float


def test_lambdas_on_one_line_are_told_apart():
    pair = (lambda x: x + 1, lambda x: x * 3)
    check(pair[0], 2.0)
    check(pair[1], 2.0)


def test_results_say_what_they_are():
    translation, _ = lower(lambda x, n: (x, n + 1, None, x[0]), A, 3)
    f64 = ArraySpec("f64", (False,), "C")
    wanted = (f64, ScalarSpec("i64", True), ConstantSpec(None), ScalarSpec("f64", False))
    assert translation.result == TupleSpec(wanted)
    translation, _ = lower(lambda p: p[0] * p[1], (A, 2.0))
    assert [p.name for p in translation.params] == ["p[0]", "p[1]"]


# -- captures ----------------------------------------------------------------------------------------------


def test_captures_are_transitive_and_fingerprints_follow_them():
    def make(k):
        def inner(x):
            return _uses_globals(x) * k

        return inner

    captures = capture(make(2.0))
    assert [f.__name__ for f in captures.functions] == ["inner", "_uses_globals"]
    assert {"k", "_uses_globals", "GLOBAL_NUMBER"} <= {c.name for c in captures.guards}
    assert all(c.read() is c.value for c in captures.guards)
    assert fingerprint(make(2.0)) == fingerprint(make(2.0)) != fingerprint(make(3.0))


# -- errors ------------------------------------------------------------------------------------------------


def _recursive(n):
    count = 0

    def inner(k):
        nonlocal count
        count += 1
        return 1 if k < 2 else inner(k - 1)

    return inner(n) + count


def _in_place_cast(a):
    a += 1.5


def _reads_before_it_sets(x):
    z = q  # noqa: F821
    q = 1  # noqa: F841
    return z


def _opens(x):
    with open("f"):
        pass


def _attribute(x):
    x.name = 1


ERRORS = [
    (lambda x: undefined_name + x, (A,), UnknownName, "undefined_name"),  # noqa: F821
    (_reads_before_it_sets, (A,), UnknownName, "cannot access local variable 'q'"),
    (lambda x: np.sim(x), (A,), UnknownFunction, "did you mean `sum` or `sin`"),
    (lambda x: np.array_str(x), (A,), UnknownFunction, "np.array_str is not supported"),
    (lambda x: x.tobytes(), (A,), UnknownFunction, "tobytes"),
    (_opens, (A,), UnsupportedSyntax, "`with`"),
    (lambda x: x[x], (A,), TypeMismatch, "arrays used as indices must be of integer (or boolean) type"),
    (lambda x: x[0.5], (A,), TypeMismatch, "int(...)"),
    (lambda x: float(x[0] * 1j), (A,), TypeMismatch, "needs a real number"),
    (lambda x: np.sum(x, axis=5), (A,), TypeMismatch, "axis 5 is out of bounds"),
    (lambda x: np.zeros(3) + np.zeros(4), (A,), ShapeMismatch, "(3,) and (4,)"),
    (lambda x: 1 if np.zeros(3) + x[0] else 2, (A,), TypeMismatch, "np.any(...)"),
    (_attribute, (A,), UnsupportedSyntax, "an attribute of an array (1-d, float64) cannot be set"),
    (_in_place_cast, (np.arange(3),), TypeMismatch, "Cannot cast ufunc 'add'"),
    (lambda x: x[0, 1], (A,), TypeMismatch, "too many indices"),
    (lambda x: np, (A,), UnsupportedSyntax, "returns the module numpy"),
    (_recursive, (3,), UnsupportedSyntax, "recursion"),
    (lambda x, y: x @ y, (A, 2.0), TypeMismatch, "use * to scale"),
    (lambda x: x.T.reshape(-1).fill(0.0), (M,), UnsupportedSyntax, "may be a copy"),
    (lambda x: x.view(np.int64).fill(0), (M,), UnsupportedSyntax, "under another dtype"),
    (lambda x: x[::2].flags.c_contiguous, (M,), UnsupportedSyntax, "is not known"),
    (lambda x: x.strides, (M,), UnknownFunction, "the strides"),
]


@pytest.mark.parametrize("fn, args, kind, words", ERRORS, ids=[e[3] for e in ERRORS])
def test_refusals_point_into_the_source(fn, args, kind, words):
    with pytest.raises(CompileError) as caught:
        lower(fn, *args)
    assert isinstance(caught.value, kind)
    assert words in str(caught.value)
    first = fn.__code__.co_firstlineno
    assert caught.value.loc.file == __file__ and first <= caught.value.loc.line <= first + 6
    assert "^" in str(caught.value)


def test_the_caret_is_under_the_guilty_expression():
    def guilty(x):
        return x + undefined_thing * 2  # noqa: F821

    with pytest.raises(UnknownName) as caught:
        lower(guilty, A)
    line, carets = str(caught.value).split("\n")[1:3]
    assert line[carets.index("^") : carets.rindex("^") + 1] == "undefined_thing"


def _odd_layouts():
    def tail(x): return x  # fmt: skip # noqa: E704

    def dedented(x):
        text = """
def not_a_function(): (
"""
        y = (
    x,
)  # fmt: skip
        # a comment at the margin

        if text and y:
            return x

        return y

    @(lambda f: f)
    def decorated(
        x,
    ):
        "nothing else"

    return tail, dedented, decorated


def test_the_source_of_a_function_is_what_inspect_finds():
    functions = [f for m in (contextlib, textwrap) for f in vars(m).values() if isinstance(f, FunctionType)]
    for fn in (*functions, *_odd_layouts()):
        lines, first = inspect.getsourcelines(fn.__code__)
        source, indented = function_source(fn), lines[0].startswith(" ")
        expected = gast.parse("".join(["if 1:\n" * indented, *lines])).body[0]
        assert gast.dump(source.node) == gast.dump(expected.body[0] if indented else expected)
        assert source.loc(source.node).line == first + len(source.node.decorator_list)
