"""The contract with users at its edges: mistakes, captured values, copies, seeds, processes.

Each test states one clause. Where NumPy or Python has an answer, it is the expected one.
"""

import copy
import enum
import functools
import gc
import inspect
import math
import os
import pickle
import textwrap
import threading
import types

import numpy as np
import pytest
from processes import run_program

import dlvm_py as dlvm


def square_sum(x, a=2.0, n=3):
    return np.sum(x * x * a) + n


def several(x):
    return x * 2.0, np.sum(x * x), 3


def write_both(A, B):
    A[0] = B[1] * 2.0
    B[:] = A * 3.0


def exponent(a, k):
    return a**k


@dlvm.jit
def decorated(x):
    """A docstring."""
    return x * 2.0


X = np.arange(1.0, 4.0)

# -- seeds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4,), (1,), (0,), (2,)])
def test_seed_of_another_length_is_a_value_error(shape):
    """A seed whose extents are not the output's raises; it is never read out of bounds."""
    g = dlvm.grad(lambda x: x * 2.0, seedable=True)
    assert g(X, np.ones(3)).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(ValueError, match=f"axis 0 has extent {shape[0]}, not 3"):
        g(X, np.ones(shape))


def test_seed_of_a_result_of_fixed_shape_is_checked_too():
    """An output whose extents are constants takes a seed of just those, of any strides."""
    g = dlvm.grad(lambda a: np.ones((3, 2)) * a, seedable=True)
    assert g(2.0, np.ones((3, 2))[::-1]) == 6.0
    with pytest.raises(ValueError, match="axis 1 has extent 1, not 2"):
        g(2.0, np.ones((3, 1)))


def test_seed_of_a_second_derivative_is_checked():
    """A seedable gradient of a seedable gradient checks both seeds."""
    g = dlvm.grad(dlvm.grad(lambda x: x * x, seedable=True), wrt=("x", "seed"), seedable=True)
    dx, dseed = g(X, np.ones(3), np.ones(3))
    assert dx.tolist() == [2.0] * 3 and dseed.tolist() == [2.0, 4.0, 6.0]
    for seeds in ((np.ones(3), np.ones(4)), (np.ones(2), np.ones(3))):
        with pytest.raises(ValueError, match="shape of the output"):
            g(X, *seeds)


@pytest.mark.parametrize("seed", [1.0, np.ones((3, 1)), np.ones(3, np.float32), np.ones(3, int), None, "s", (X, X)])
def test_seed_of_another_kind_is_refused(seed):
    """A seed has the kind, the rank and the dtype of what is differentiated."""
    with pytest.raises(dlvm.ArgumentError, match="must look like what is differentiated: an array of dtype float64"):
        dlvm.grad(several, seedable=True)(X, seed)


def test_seed_of_a_number_is_any_real_number():
    """A real number of any class seeds a number; a complex one is refused, not truncated."""
    g = dlvm.grad(several, from_=1, seedable=True)
    for seed in (2, 2.0, np.float32(2), np.int8(2)):
        assert g(X, seed).tolist() == [4.0, 8.0, 12.0]
    with pytest.raises(dlvm.ArgumentError, match="complex128"):
        g(X, 2j)


def test_seed_is_keyword_only_behind_keyword_only_parameters():
    """The seed is the last argument; behind `*` or `*args` it is given by name."""
    g = dlvm.grad(lambda x, *, a=2.0: np.sum(x * a), seedable=True)
    assert str(inspect.signature(g)) == "(x, *, a=2.0, seed)"
    assert g(X, seed=3.0).tolist() == [6.0] * 3
    assert dlvm.grad(lambda x, *r: x * r[0], wrt="r", seedable=True)(2.0, 5.0, seed=3.0) == (6.0,)


# -- wrt, from_, keeping ---------------------------------------------------------------------------------


def test_indices_count_from_the_end_as_in_python():
    """Negative positions mean what they mean for a tuple, in wrt, from_ and keeping."""
    assert dlvm.grad(square_sum, wrt=-2)(X) == 14.0
    assert dlvm.grad(several, from_=-2, keeping=(-2, 0))(X)[1] == 14.0
    with pytest.raises(dlvm.NotDifferentiable, match="integer or bool"):
        dlvm.grad(several, from_=-1)(X)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"wrt": 3}, "wrt=3: the function has 3 parameters"),
        ({"wrt": -4}, "wrt=-4"),
        ({"wrt": "q"}, "wrt='q': the function has no such parameter"),
        ({"wrt": ()}, "wrt is empty"),
        ({"wrt": [0]}, r"wrt=\[0\]: give a parameter's position or name, or a tuple"),
        ({"wrt": True}, "wrt=True"),
        ({"from_": "q"}, "from_='q'"),
        ({"from_": ()}, "from_ is empty"),
        ({"from_": None}, "from_=None"),
        ({"keeping": 1.5}, "keeping=1.5"),
    ],
)
def test_names_that_do_not_exist_are_refused_before_any_call(options, words):
    """A wrong wrt, from_ or keeping is an ArgumentError when the gradient is made."""
    with pytest.raises(dlvm.ArgumentError, match=words):
        dlvm.grad(square_sum, **options)


@pytest.mark.parametrize(
    ("f", "options", "args", "words"),
    [
        (several, {"from_": 5}, (X,), "returns 3 values: there is no number 5"),
        (several, {"keeping": "x"}, (X,), "'x' is no output"),
        (write_both, {}, (X, X), "writes several arguments.*\n.*from_= one of 'A', 'B'"),
        (lambda x: None, {}, (X,), "returns None and writes no argument"),
        (square_sum, {"wrt": "n"}, (X,), "it is a number of dtype int64"),
        (square_sum, {}, (np.arange(3),), r"x.astype\(float\)"),
        (square_sum, {"wrt": ("x", "a")}, (X, "s"), "."),
        (lambda x, w=None: x, {"wrt": "w"}, (1.0,), "it is None, which carries no derivative"),
    ],
)
def test_gradients_that_do_not_exist_are_refused_with_advice(f, options, args, words):
    """What depends on the arguments is refused at the call."""
    with pytest.raises(dlvm.CompileError, match=words):
        dlvm.grad(f, **options)(*args)


def test_integer_leaves_of_a_tuple_argument_give_none():
    """The gradient has the structure of the argument, None where there is no derivative."""

    def f(p, s):
        return p[0] * p[1] * s + np.sum(p[2][0])

    dp, ds = dlvm.grad(f, wrt=("p", "s"))((2.0, 3, (X, 4, None)), 5.0)
    assert dp[:2] == (15.0, None) and dp[2][0].tolist() == [1.0] * 3 and dp[2][1:] == (None, None) and ds == 6.0


def test_derivatives_share_no_memory():
    """Derivatives are arrays of their own: not each other's, not the seed's, not an argument's."""
    a, b = dlvm.grad(lambda x: x * x, wrt=(0, 0))(X)
    assert a.tolist() == b.tolist() and not np.shares_memory(a, b)
    seed = np.ones(3)
    g = dlvm.grad(lambda x: x, seedable=True, keeping=0)
    derivative, kept = g(X, seed)
    assert not np.shares_memory(derivative, seed) and not np.shares_memory(derivative, X) and kept is X


def test_gradient_of_any_layout_is_c_contiguous_and_owned():
    """Strided, reversed, broadcast and read-only arguments get new C-contiguous derivatives."""
    m = np.arange(12.0).reshape(3, 4)
    for x in (m.T, m[::2, ::-2], np.broadcast_to(2.0, (2, 3)), np.asfortranarray(m)):
        g = dlvm.grad(lambda x: np.sum(x * x))(x)
        assert g.flags.c_contiguous and g.flags.owndata and g.flags.writeable
        np.testing.assert_array_equal(g, 2 * x)


def test_gradient_leaves_arguments_and_captured_arrays_untouched():
    """What the function writes, also into captured arrays, its gradient does not."""
    state = np.zeros(3)

    def f(x, y):
        state[:] = x * y
        x *= 2.0
        return np.sum(state * x)

    x, y = X.copy(), X.copy()
    dlvm.grad(f, wrt=(0, 1), keeping="x")(x, y)
    dlvm.grad(f)(x, y)
    np.testing.assert_allclose(dlvm.grad(f)(x, x), 6 * x**2)  # of 2 x³
    assert x.tolist() == X.tolist() == y.tolist() and not state.any()


def test_gradient_of_a_call_that_raises_raises_the_same():
    """Where the types alone decide that the function raises, so does its gradient."""

    def f(x, mode):
        if mode == "sum":
            return np.sum(x)
        x[1] = 7.0
        raise ValueError(f"no such mode, {x[0]}")

    assert dlvm.grad(f)(X, "sum").tolist() == [1.0] * 3
    for g in (dlvm.grad(f), dlvm.value_and_grad(f), dlvm.grad(f, keeping=0), dlvm.grad(dlvm.grad(f))):
        with pytest.raises(ValueError, match="no such mode, 1.0"):
            g(X, "mean")
    assert X.tolist() == [1.0, 2.0, 3.0]


# -- what can be compiled --------------------------------------------------------------------------------


class Model:
    def method(self, x):
        return x

    @dlvm.jit
    def compiled(self, x):
        return x


@pytest.mark.parametrize("make", [dlvm.jit, dlvm.grad, dlvm.value_and_grad])
@pytest.mark.parametrize(
    ("what", "words"),
    [
        (Model().method, "the bound method Model.method"),
        (Model().compiled, "the bound method"),
        (functools.partial(square_sum, a=1.0), "not partial"),
        (staticmethod(square_sum), "below @staticmethod"),
        (np.sin, "not ufunc"),
        (Model, "not type"),
        (None, "not NoneType"),
        ("text", "not str"),
    ],
)
def test_only_python_functions_can_be_compiled(make, what, words):
    """Everything else is refused at once, by what it is."""
    if what is None and make is dlvm.jit:
        pytest.skip("jit() is the decorator with options")
    with pytest.raises(dlvm.ArgumentError, match=words):
        make(what)


def test_gradients_can_be_jitted_with_options():
    """dlvm.jit of a gradient is that gradient."""
    assert dlvm.jit(dlvm.grad(lambda x: x * x))(3.0) == 6.0
    assert dlvm.jit(cache=False)(dlvm.grad(lambda x: x * x))(3.0) == 6.0


def test_wrapper_of_a_compiled_function_is_a_function_of_its_own():
    """functools.wraps copies attributes; what is compiled is still the wrapper's code."""

    @functools.wraps(decorated)
    def wrapper(x, y):
        return decorated(x) * y

    assert dlvm.jit(wrapper)(2.0, y=3.0) == 12.0
    assert dlvm.grad(wrapper, wrt=1)(2.0, 3.0) == 4.0

    @functools.wraps(decorated)
    def scaled(*args, is_scaled=True, **options):
        return decorated(*args) * (options["by"] if is_scaled else 1.0)

    scaled.__signature__ = inspect.signature(lambda x, by: None)
    assert dlvm.jit(lambda x: scaled(x, by=3.0) + scaled(x, is_scaled=False))(2.0) == 16.0
    assert dlvm.jit(scaled)(2.0, by=3.0) == 12.0


def test_derivatives_inside_compiled_code():
    """dlvm.grad, or a gradient, called in compiled code (more in test_derivatives_inside.py)."""
    inner = dlvm.grad(lambda x: x * x)
    for f in (lambda x: inner(x), lambda x: dlvm.grad(decorated)(x)):
        assert dlvm.jit(f)(1.5) == f(1.5)


def test_double_star_parameters_are_dicts():
    """A `**` parameter is a dict of the arguments that no other parameter takes, and has a gradient as one."""

    def f(x, **options):
        return x * options["scale"] + len(options)

    assert dlvm.jit(f)(2.0, scale=3.0, shift=1) == 8.0
    assert dlvm.grad(f, wrt=("x", "options"))(2.0, scale=3.0, shift=1) == (3.0, {"scale": 2.0, "shift": None})


SYNTAX = {
    "with open('f'): pass": "`with`",
    "try:\n  y = x\nexcept MemoryError: pass": "`except MemoryError`",
    "y = [i for i in {int(v) for v in x}]": "the order in which a set is run over",
    "y = {'a': 1.0}\ny[len(x)] = 2.0": "a dict with the key 'a' gets an int as a key",
    "y = {len(x): 1.0}\ny['a'] = 2.0": "in a dict is not supported",
    "y = {1: 2.0}\ny[x[0]] = np.ones(2)": "there is no common type",
    "y = sorted(x, key=str)": "this is a list that grows by a string that is made when it runs\n",
    "y = x.sun()": "arrays have no attribute or method `sun`",
    "y = x.setflags()": "arrays have no supported attribute or method `setflags`",
    "l = [1]; l.popitem()": "`popitem` of a list",
    "y = frozenset(x)": "frozenset",
    "class A: pass": "a class",
    "global Q; Q = 1": "`global`",
    "@np.vectorize\ndef g(v): return v": "as a decorator",
    "y = x[x]": "arrays used as indices",
    "x += 1j": "Cannot cast ufunc 'add'",
    "s = f'{x[0]:{x[1]}}'": "a format must be constant",
    "s = '%d' % x[0]": "%d takes an int",
    "x.shape = (1, 3)": "this array was made elsewhere",
    "y = x * 2\nfor i in range(2):\n  y.shape = (3, 1)": "inside a loop",
    "y = x * 2\nz = (y, 1)\ny.shape = (3, 1)": "another name may stand for",
    "y = np.ones((4, 2))[:, 0]\ny.shape = (2, 2)": "contiguous",
    "y = float(x)": "float needs a number",
    "y = np.random.rand(3)": "np.random.rand",
    "y = x.tobytes()": "tobytes",
    "y = eval('x')": "eval",
    "y = np.summ(x)": "summ",
    "raise": "`raise`",
}


@pytest.mark.parametrize("body", SYNTAX, ids=SYNTAX.values())
def test_refusals_say_what_to_write_instead(body, tmp_path):
    """Whatever is outside the language is refused with the line, a caret and a help text."""
    path = tmp_path / "unsupported.py"
    path.write_text("import numpy as np\ndef f(x):\n" + textwrap.indent(body, "    ") + "\n    return x\n")
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(dlvm.CompileError) as caught:
        dlvm.jit(scope["f"])(X.copy())
    text = str(caught.value)
    assert f"{path}:" in text and "^" in text and "\n  help: " in text and SYNTAX[body] in text


def test_an_expression_too_deep_is_a_located_error(tmp_path):
    """A sum of a thousand terms in one expression is refused at the function's line, not by RecursionError."""
    path = tmp_path / "deep.py"
    path.write_text("def deep(x):\n    return " + " + ".join(f"x * {i}.0" for i in range(1000)) + "\n")
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    gc.collect()
    gc.disable()  # finalisers of what other tests left have no room at the bottom of the stack
    try:
        for make in (dlvm.jit, dlvm.grad):
            with pytest.raises(dlvm.UnsupportedSyntax, match=r"deep.py:1:1.*nested too deeply(?s:.*)help: split it"):
                make(scope["deep"])(1.0)
    finally:
        gc.enable()


def test_functions_with_sixty_parameters_and_unicode_names(tmp_path):
    """The number of parameters and the alphabet of the names do not matter."""
    path = tmp_path / "many.py"
    names = [f"ä{i}" for i in range(60)]
    terms = " + ".join(f"{name} * {i}.0" for i, name in enumerate(names))
    path.write_text(f"def ünï({', '.join(names)}):\n    return {terms}\n", encoding="utf-8")
    scope = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    assert dlvm.jit(scope["ünï"])(*[1.0] * 60) == 1770.0
    assert dlvm.grad(scope["ünï"], wrt=("ä7", "ä59"))(*[1.0] * 60) == (7.0, 59.0)


# -- arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.matrix, np.ma.MaskedArray, np.recarray])
def test_subclasses_of_ndarray_are_refused(kind):
    """Arrays with behaviour of their own are refused, and the message says what to pass."""
    with pytest.raises(dlvm.ArgumentError, match=r"help: pass np.asarray\(x\)"):
        dlvm.jit(square_sum)(X.view(kind))


def test_memory_that_compiled_code_cannot_read_is_refused():
    """Misaligned and byte-swapped arrays are refused with the way out."""
    misaligned = np.frombuffer(bytearray(25), np.float64, 3, offset=1)
    for bad, words in ((misaligned, r"x.copy\(\)"), (X.astype(">f8"), "byte order")):
        with pytest.raises(dlvm.TypeMismatch, match=words):
            dlvm.jit(square_sum)(bad)


def test_read_only_arrays_are_read_but_never_written():
    """A function that writes a read-only argument raises NumPy's error before it writes anything."""

    def f(a, b):
        a[0] = 1.0
        b[0] = 1.0

    a, b = np.zeros(3), np.zeros(3)
    b.flags.writeable = False
    assert dlvm.jit(square_sum)(b) == 3.0
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        dlvm.jit(f)(a, b)
    assert not a.any() and not b.any()


def test_arrays_without_axes_are_references_too():
    """An augmented assignment to a 0-d argument writes it, and returning it returns that object."""

    def f(x, y):
        for _ in range(3):
            x *= y
        return x

    a = np.array(5.0)
    assert dlvm.jit(f)(a, 2.0) is a and a == 40.0
    dx, dy = dlvm.grad(f, wrt=(0, 1))(a, 2.0)
    assert dx == 8.0 and dx.shape == () and dy == 480.0 and a == 40.0
    with pytest.raises(dlvm.TypeMismatch, match="same_kind"):
        dlvm.jit(f)(np.array(2), 0.5)


def test_sizes_that_cannot_be_are_numpys_errors():
    """Negative, huge and overflowing sizes raise; the process lives."""
    zeros = dlvm.jit(lambda n: np.zeros(n))
    with pytest.raises(ValueError, match="negative dimensions"):
        zeros(-1)
    with pytest.raises(MemoryError):
        zeros(10**13)
    with pytest.raises((MemoryError, ValueError)):
        dlvm.jit(lambda n: np.zeros((n, n, n)))(2**40)
    with pytest.raises(ValueError, match="cannot reshape"):
        dlvm.jit(lambda x, n: x.reshape(n, n, n, n))(X, 2**33)
    assert zeros(3).tolist() == [0.0, 0.0, 0.0]


def test_uint64_beyond_63_bits_is_never_a_negative_number():
    """Large unsigned integers as index, bound or int() raise instead of wrapping."""
    large = np.uint64(2**64 - 1)
    with pytest.raises(IndexError):
        dlvm.jit(lambda x, n: x[n])(X, large)
    with pytest.raises(OverflowError):
        dlvm.jit(lambda n: int(n))(large)
    assert dlvm.jit(lambda x, n: x[n])(X, np.uint64(2)) == 3.0


def test_integers_at_the_ends_of_their_range():
    """Sums, indices, slices and ranges are exact up to the 64-bit borders, and raise beyond."""
    low, high = -(2**63) + 0, 2**63 - 1
    assert dlvm.jit(lambda n: (n + 2**62) + 2**62)(-5) == 2**63 - 5
    with pytest.raises(OverflowError):
        dlvm.jit(lambda n: (n + 2**62) + 2**62)(5)
    assert dlvm.jit(lambda x: x[9223372036854775807:])(X).size == 0
    assert dlvm.jit(lambda x: x[-9223372036854775807 - 1 :])(X).size == 3
    with pytest.raises(IndexError, match="index -9223372036854775808 is out of bounds"):
        dlvm.jit(lambda x: x[-9223372036854775807 - 1])(X)

    def steps(a, b, c):
        t = 0
        for _ in range(a, b, c):
            t += 1
        return t

    f = dlvm.jit(steps)
    assert all(f(a, b, c) == steps(a, b, c) for a in (-7, 0, 10) for b in (-9, 0, 11) for c in (-5, -1, 1, 7))
    assert f(high - 5, high, 2) == 3
    with pytest.raises(OverflowError):
        f(low, high, 2**62)


@pytest.mark.parametrize("k", [math.inf, -math.inf, math.nan])
def test_constant_exponents_need_not_be_finite(k):
    """A power with an infinite or NaN constant compiles, and gives Python's answer."""
    for a in (2.0, 0.5, 1.0):
        got, want = dlvm.jit(lambda a: a**k)(a), a**k
        assert got == want or (math.isnan(got) and math.isnan(want))


# -- captured values -------------------------------------------------------------------------------------


def _with_globals(f, **values):
    """A copy of a function whose globals are `values`."""
    scope = {"np": np, **values}
    return types.FunctionType(f.__code__, scope, f.__name__), scope


def _uses_table(x):
    return x * TABLE[0]  # noqa: F821


def test_lists_changed_in_place_are_seen():
    """A captured list is compared by its contents, also inside tuples."""
    table = [2.0, 1.0]
    f, _ = _with_globals(_uses_table, TABLE=table)
    g = dlvm.jit(f)
    assert g(3.0) == 6.0
    table[0] = 5.0
    assert g(3.0) == 15.0
    nested = ((2.0,), [1.0])
    h = dlvm.jit(lambda x: x * nested[1][0])
    assert h(3.0) == 3.0
    nested[1][0] = 7.0
    assert h(3.0) == 21.0


class Mode(enum.Enum):
    PLUS = 1
    MINUS = 2


def _uses_anything(x):
    return (x[PART], MODE is PLUS, x + INFO.eps)  # noqa: F821


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("PART", slice(0, 2), slice(0, 3)), ("MODE", Mode.PLUS, Mode.MINUS), ("INFO", np.finfo("f4"), np.finfo("f8"))],
)
def test_captured_constants_of_every_kind_are_part_of_the_key(name, before, after):
    """Slices, enum members and finfo that change give other code, in memory and in the cache."""
    f, scope = _with_globals(_uses_anything, PART=slice(0, 2), MODE=Mode.PLUS, PLUS=Mode.PLUS, INFO=np.finfo("f4"))
    g = dlvm.jit(f)
    for value in (before, after, before):
        scope[name] = value
        got, want = g(X), f(X)
        assert got[1] == want[1]
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[2], want[2])


def _uses_builtin(x):
    return abs(x)


def test_a_global_may_come_to_hide_a_builtin():
    """A name that meant a built-in is looked up anew when the module defines it."""
    f, scope = _with_globals(_uses_builtin)
    g = dlvm.jit(f)
    assert g(-1.0) == 1.0
    scope["abs"] = lambda x: x * 42.0
    assert g(-1.0) == -42.0
    del scope["abs"]
    assert g(-1.0) == 1.0


def _uses_scale(x):
    return x * SCALE  # noqa: F821


def test_a_captured_name_may_change_its_type():
    """A number, or array, of another class, dtype or rank is another version with NumPy's answer."""
    f, scope = _with_globals(_uses_scale, SCALE=1.0)
    g = dlvm.jit(f)
    values = [2, 2.0, True, np.float32(2), np.int8(3), math.nan, -0.0, 0.0, np.ones(3), np.ones((2, 3), "f4"), 1.5]
    for value in values * 2:
        scope["SCALE"] = value
        got, want = g(X), f(X)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    assert g.stats()["versions"] == len(values)


def test_defaults_are_those_of_the_moment():
    """A default value assigned after the first call is used, and a callee's as well."""

    def f(x, k=2.0):
        return x * k

    outer = dlvm.jit(lambda x: f(x))
    g = dlvm.jit(f)
    assert g(3.0) == outer(3.0) == 6.0
    f.__defaults__ = (5.0,)
    assert g(3.0) == g(3.0) == outer(3.0) == 15.0


def test_settings_in_submodules_are_guarded():
    """package.settings.k is as good as a global."""
    package, settings = types.ModuleType("package"), types.ModuleType("package.settings")
    package.settings, settings.k = settings, 2.0
    f = dlvm.jit(lambda x: x * package.settings.k)
    assert f(3.0) == 6.0
    settings.k = 5.0
    assert f(3.0) == 15.0


def test_captured_values_that_change_during_compilation_and_calls():
    """While another thread changes what is captured, every answer belongs to some moment."""
    f, scope = _with_globals(_uses_both, K=1.0, A=np.ones(3))
    g = dlvm.jit(f)
    stop, wrong = threading.Event(), []

    def change():
        k = 0
        while not stop.is_set():
            k += 1
            scope["K"], scope["A"] = float(k % 2), np.ones(3) if k % 3 else np.ones((2, 2))

    def call():
        try:
            wrong.extend(r for r in (g(1.0) for _ in range(300)) if r not in (3.0, 4.0, 5.0))
        except BaseException as error:  # noqa: BLE001 - reported below
            wrong.append(error)

    changing = threading.Thread(target=change)
    callers = [threading.Thread(target=call) for _ in range(2)]
    changing.start()
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    stop.set()
    changing.join()
    assert not wrong
    scope["K"], scope["A"] = 1.0, np.ones(3)
    assert g(1.0) == 4.0


def _uses_both(x):
    return x * K + np.sum(A)  # noqa: F821


# -- the callable ----------------------------------------------------------------------------------------


def test_callables_copy_and_pickle_as_functions_do():
    """A copy is the very object; a local function cannot be pickled and says so when asked to."""
    assert copy.copy(decorated) is decorated and copy.deepcopy([decorated])[0] is decorated
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    with pytest.raises(pickle.PicklingError, match="top of a module"):
        pickle.dumps(dlvm.jit(lambda x: x))
    g = pickle.loads(pickle.dumps(dlvm.value_and_grad(square_sum, wrt=("x", "a"))))
    assert g(X)[1][1] == 14.0


def test_inspection_needs_types_and_takes_them_as_arguments():
    """ir(), llvm() and asm() work before the first call if they get arguments, and else say so."""
    f = dlvm.jit(lambda x: x + 1.0)
    for show in (f.ir, f.llvm, f.asm):
        with pytest.raises(dlvm.ArgumentError, match="has not been called yet"):
            show()
        assert show(X)
    assert f.stats()["versions"] == 0
    with pytest.raises(dlvm.ArgumentError, match="the stages are raw"):
        f.ir(X, stage="none")


def test_failing_calls_release_everything():
    """Calls that raise, with a tape or without, leave no memory behind."""

    def f(x, n, m):
        y = x
        for i in range(n):
            y = y * 0.9 + x
            y[0] = y[1] * x[2]
            if i == m:
                y[0] = y[10**6]
        return y

    x = np.ones(10_000)
    g = dlvm.grad(f)

    def fail():
        with pytest.raises(IndexError):
            g(x, 20, 15)

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("no /proc")
    for _ in range(20):
        fail()
    before = resident()
    for _ in range(200):
        fail()
    assert resident() - before < 20 * 2**20  # one call's tape is 1.6 MB


# -- processes -------------------------------------------------------------------------------------------


_SMALL = """
    import numpy as np, dlvm_py as dlvm
    f = dlvm.jit(lambda x: x * 2.0 + 1.0)
    print(f(1.0), f.stats()["compiled"])
"""


@pytest.mark.parametrize("folder", ["/proc/none", "/dev/null/x"])
def test_a_cache_folder_that_cannot_be_made_is_no_error(folder, tmp_path):
    """Without a usable cache folder everything is compiled in memory."""
    assert run_program(_SMALL, tmp_path, DLVM_CACHE_DIR=folder).stdout == "3.0 1\n"


def test_the_cache_folder_may_start_with_a_tilde(tmp_path):
    """DLVM_CACHE_DIR=~/... is in the home folder."""
    assert run_program(_SMALL, tmp_path, DLVM_CACHE_DIR="~/cache", HOME=str(tmp_path)).stdout == "3.0 1\n"
    assert list((tmp_path / "cache").glob("*.dlvm"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_during_a_compilation_leaves_a_working_child(tmp_path):
    """A child that is forked while a thread compiles can compile and call."""
    code = """
        import os, signal, sys, threading, time
        import numpy as np, dlvm_py as dlvm
        body = "".join(f"    y = y * 1.0{i} + np.sin(x)\\n" for i in range(60))
        open("big.py", "w").write("import numpy as np\\ndef big(x):\\n    y = x\\n" + body + "    return y\\n")
        sys.path.insert(0, ".")
        import big
        f = dlvm.jit(lambda x: x + 1.0)
        f(1.0)
        t = threading.Thread(target=lambda: dlvm.jit(big.big)(np.ones(3)))
        t.start()
        time.sleep(0.2)
        child = os.fork()
        if not child:
            signal.alarm(30)
            print(f(1.0), dlvm.grad(lambda x: x * x)(3.0), flush=True)
            os._exit(0)
        print(os.waitpid(child, 0)[1], flush=True)
        t.join()
    """
    assert run_program(code, tmp_path, cwd=tmp_path, DLVM_CACHE="0").stdout == "2.0 6.0\n0\n"


def test_a_file_edited_after_import_is_not_compiled(tmp_path):
    """Source that is not that of the running code any more is refused: it would be another program."""
    path = tmp_path / "edited.py"
    text = "def f(x):\n    return x + 2.0\n\nh = lambda x: x * 2.0\n\ndef g(x):\n    return x * 3.0\n"
    changes = {"f": ("+ 2.0", "- 2.0"), "h": ("x * 2.0", "x * 9.0"), "g": ("def f", "# moved\n\ndef f")}
    for k, (name, (old, new)) in enumerate(changes.items()):
        path = tmp_path / f"edited{k}.py"
        path.write_text(text)
        scope = {}
        exec(compile(text, str(path), "exec"), scope)
        assert dlvm.jit(scope["f"])(1.0) == 3.0 and dlvm.jit(scope["h"])(1.0) == 2.0
        path.write_text(text.replace(old, new))
        os.utime(path, (k + 1, k + 1))
        with pytest.raises(dlvm.UnsupportedSyntax, match="the file has changed(?s:.*)load the module again"):
            dlvm.jit(scope[name], cache=False)(np.float32(1.0))


@pytest.mark.parametrize("text", ["def f(x):\n    return x + 2.0", "f = lambda x: x + 2.0"])
def test_what_was_made_by_exec_has_no_source(text):
    scope = {}
    exec(text, scope)
    with pytest.raises(dlvm.UnsupportedSyntax, match="is not available(?s:.*)not through exec"):
        dlvm.jit(scope["f"])(1.0)


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_of_overlapping_written_arguments(order):
    """Where a write through one argument shows in another, the gradient is by their memory; a second one is refused."""

    def f(a, b):
        a[1:] = b[:-1] * 2.0
        return np.sum(b * b)

    g = dlvm.grad(f, wrt="b")
    if order == 2:
        g = dlvm.grad(g, wrt="b")
    x = np.arange(6.0)
    apart = g(x, x.copy())
    # by hand: of m0² + 4 (m0² + … + m4²), and of 5 m0² + 5 m1² + 4 m2²
    for a, b, wanted in ((x, x, [10, 8, 8, 8, 8, 0]), (x[1:], x[:-1], [10, 10, 8, 0, 0])):
        if order == 2:
            with pytest.raises(dlvm.ArgumentError, match="overlap"):
                g(a, b)
        else:
            np.testing.assert_allclose(g(a, b), wanted * b)
    np.testing.assert_array_equal(g(x, x.copy()), apart)


def test_gradient_of_a_captured_array_that_is_written_through_an_argument():
    """A captured array that overlaps a written argument is no exception: the memory is one variable."""
    w = np.arange(4.0)

    def f(a):
        a *= 2.0
        return np.sum(a * w)

    assert dlvm.grad(f)(np.ones(4)).tolist() == (2 * w).tolist()
    np.testing.assert_allclose(dlvm.grad(f)(w), 8 * w)  # of 4 w²
    assert w.tolist() == [0.0, 1.0, 2.0, 3.0]
