"""The language table: every program of language_programs.py compiled, against plain Python and against differences."""

import contextlib
import copy
import dataclasses
import io
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from language_programs import PROGRAMS, State

import dlvm_py as dlvm
from dlvm_py.frontend.language import CONSTRUCTS
from dlvm_py.ir import interpreter

pytestmark = pytest.mark.usefixtures("plain_code")


def outcome(fn, args):
    """("value", result) or ("raises", class, message) of a call, and what it printed and warned of, and where."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        try:
            with np.errstate(all="ignore"):
                found = ("value", fn(*args))
        except dlvm.DLError:
            raise
        except Exception as error:
            found = ("raises", type(error), str(error))
    told = [(w.category, str(w.message), w.filename, w.lineno) for w in warned]
    return (*found, out.getvalue(), err.getvalue(), told)


def assert_same(got, want):
    """Equal classes, structure, dtypes, shapes, and values up to rounding."""
    assert type(got) is type(want), (type(got), type(want))
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w)
    elif isinstance(want, dict):
        assert_same(list(got), list(want))
        assert_same(list(got.values()), list(want.values()))
    elif isinstance(want, set):
        assert_same(sorted(got), sorted(want))
    elif dataclasses.is_dataclass(want):
        for f in dataclasses.fields(want):
            assert_same(getattr(got, f.name), getattr(want, f.name))
    elif isinstance(want, np.random.Generator):
        assert got.bit_generator.state == want.bit_generator.state
    elif want is None or isinstance(want, (str, type)) or callable(want):
        assert got == want
    else:
        if isinstance(want, (np.ndarray, np.generic)):
            assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("program", PROGRAMS, ids=[f"{p.construct}-{p.name}" for p in PROGRAMS])
def test_compiled_equals_python(program):
    """Value, classes, effects on the arguments, exceptions and their messages are Python's."""
    f = dlvm.jit(program.fn)
    for make in program.cases:
        args, reference = make(), make()
        assert_same(outcome(f, args), outcome(program.fn, reference))
        assert_same(args, reference)


# -- gradients ---------------------------------------------------------------------------------------------


def float_leaves(value, path=()):
    """(path, leaf) of the float numbers and arrays in a value."""
    if isinstance(value, (tuple, list)):
        return [leaf for k, item in enumerate(value) for leaf in float_leaves(item, (*path, k))]
    if isinstance(value, dict):
        return [leaf for k, item in value.items() for leaf in float_leaves(item, (*path, k))]
    if dataclasses.is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value)]
        return [leaf for n in fields for leaf in float_leaves(getattr(value, n), (*path, n))]
    is_float = isinstance(value, (float, np.floating)) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")
    return [(path, value)] if is_float else []


def at(value, path):
    """What stands at a path in a value."""
    for step in path:
        value = getattr(value, step) if isinstance(step, str) and not isinstance(value, dict) else value[step]
    return value


def replaced(value, path, new):
    """A copy of a value with something else at a path."""
    if not path:
        return new
    inner = replaced(at(value, path[:1]), path[1:], new)
    if isinstance(value, dict):
        return {**value, path[0]: inner}
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **{path[0]: inner})
    items = [inner if k == path[0] else item for k, item in enumerate(value)]
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def total(fn, args):
    """The sum of the float outputs that a gradient without `from_` differentiates."""
    result = fn(*copy.deepcopy(args))
    return sum(float(np.sum(leaf)) for _, leaf in float_leaves(result[0] if isinstance(result, tuple) else result))


def gradients(fn, wrt, args):
    """By the compiled function where it takes structures or captures; of numbers and arrays in the interpreter."""
    function = dlvm.grad(fn, wrt=wrt)
    if not all(isinstance(a, (int, float, np.ndarray)) for a in args):
        return function(*args)
    program = function.program(*args, stage="optimizable")
    if len(program.module.functions[program.name].params) != len(args):
        return function(*args)
    got = interpreter.run(program.module, program.name, list(args))
    return got if isinstance(got, tuple) else (got,)


DIFFERENTIABLE = [p for p in PROGRAMS if p.grad]


@pytest.mark.filterwarnings("ignore:step", "ignore:nothing to do")
@pytest.mark.parametrize("program", DIFFERENTIABLE, ids=[f"{p.construct}-{p.name}" for p in DIFFERENTIABLE])
def test_gradient_equals_differences(program):
    """The gradient has the structure of the arguments and equals central differences; arguments are left alone."""
    args = program.cases[0]()
    before = copy.deepcopy(args)
    wrt = tuple(k for k, a in enumerate(args) if float_leaves(a))
    got = gradients(program.fn, wrt, args)
    assert_same(args, before)
    h = 1e-6
    for k, g in zip(wrt, got, strict=True):
        for path, leaf in float_leaves(args[k]):
            found = at(g, path)
            assert np.shape(found) == np.shape(leaf)
            for index in np.ndindex(*np.shape(leaf)):
                up, down = np.array(leaf, float), np.array(leaf, float)
                up[index] += h
                down[index] -= h
                moved = []
                for new in (up, down):
                    value = replaced(args[k], path, new if isinstance(leaf, np.ndarray) else type(leaf)(new))
                    moved.append(total(program.fn, (*args[:k], value, *args[k + 1 :])))
                want = (moved[0] - moved[1]) / (2 * h)
                np.testing.assert_allclose(np.asarray(found)[index], want, rtol=1e-5, atol=1e-6)


# -- structures at the entry ---------------------------------------------------------------------------------


def test_gradients_have_the_structure_of_the_argument():
    """None for integer leaves; lists, dicts and dataclasses come back as themselves."""
    g = dlvm.grad(lambda s, d: np.sum(s.u) * s.t * d["a"][0], wrt=(0, 1))
    ds, dd = g(State(np.ones(2), 2.0, 3), {"a": [4.0, 1], "b": (1, 2)})
    assert type(ds) is State and ds.n is None and ds.t == 8.0
    np.testing.assert_array_equal(ds.u, [8.0, 8.0])
    assert dd == {"a": [4.0, None], "b": (None, None)}


def test_lists_do_not_recompile_for_new_values_and_do_for_new_structures():
    """A version is for a structure of classes; the values are read at each call."""
    f = dlvm.jit(lambda d: d["a"] * len(d["b"]))
    assert f({"a": 2.0, "b": [1, 2]}) == 4.0 and f({"a": 3.0, "b": [1, 5]}) == 6.0
    assert f.stats()["versions"] == 1
    assert f({"a": 2.0, "b": [1]}) == 2.0 and f({"b": [1], "a": 2.0}) == 2.0
    assert f.stats()["versions"] == 3


def counted(d, xs):
    """Reads everything that it is given."""
    return d["x"] * xs[0], [xs[1], d["x"]], {"n": xs}


def test_references_of_structured_calls_balance():
    """Neither arguments nor results leak, whether the version matches or not."""

    f, x, y = dlvm.jit(counted), np.ones(3), np.ones(2)
    d, xs = {"x": x}, [2.0, y]
    f(d, xs)
    before = [sys.getrefcount(v) for v in (x, y, d, xs)]
    for _ in range(50):
        f(d, xs)
        f({"x": x}, [2.0, y])
        f({"x": y}, [1, x])
    assert [sys.getrefcount(v) for v in (x, y, d, xs)] == before


# -- what is refused -------------------------------------------------------------------------------------------


def mixes_items_of_the_caller(xs, n):
    for k in range(n):
        xs.append(0.5 * k)


def sets_on_one_path(d, c):
    if c > 0:
        d["a"] = 0.5


def sets_at_a_computed_place(xs, k):
    xs[k] = 0.5


def sorts_mixed_items(xs):
    xs.sort()


def recursion_after_a_change(xs, n):
    xs.append(1.0)
    return halves(xs[0], n)


def halves(x, n):
    return x if n == 0 else halves(x / 2.0, n - 1)


def changes_a_global(x):
    CONSTANTS.append(x)


CONSTANTS = [1.0]


def appended_then_written(u, n):
    history = []
    for _ in range(n):
        history.append(u)
        u[0] += 1.0
    return np.array(history)


def writes_an_item(n):
    rows = []
    for _ in range(n):
        rows.append(np.ones(2))
    rows[0][0] = 5.0
    return np.array(rows)


def catches_memory(n):
    try:
        return 1 / n
    except (ValueError, MemoryError):
        return 0.0


@pytest.mark.parametrize(
    ("fn", "args", "words"),
    [
        (mixes_items_of_the_caller, ([1], 2), "with an int and a float"),
        (sets_on_one_path, ({"a": 1}, 0), "with an int and a float"),
        (sets_at_a_computed_place, ([1, 2], 0), "a float in a list of the caller"),
        (sorts_mixed_items, ([3, 1.5, 2],), "a float in a list of the caller"),
        (recursion_after_a_change, ([1.0], 9), "after a list, dict or instance of the caller was changed"),
        (changes_a_global, (1.0,), "it is a constant of the compiled function"),
        (appended_then_written, (np.ones(2), 3), "append a copy"),
        (writes_an_item, (3,), "keeps copies"),
        (catches_memory, (1,), "passes by all handlers"),
    ],
)
def test_what_would_need_references_is_refused(fn, args, words):
    """Where a copy could be told from Python's reference: an error there."""
    with pytest.raises(dlvm.CompileError) as caught:
        dlvm.jit(fn)(*args)
    text = str(caught.value)
    assert words in text and "test_language.py:" in text and "^" in text


def refers_to_a_global(xs):
    xs.append(CONSTANTS[0])
    return xs


def test_objects_of_the_caller_are_the_very_objects():
    """What a call changes, or leaves alone, is what it was given; derivatives change nothing."""
    inner, u = [2.0], np.ones(2)
    xs = [1.0, inner, u, (1, "a")]

    def f(xs):
        xs.append(3.0)
        xs[0] *= 2.0
        return xs, xs[1]

    kept, (got, second) = xs[3], dlvm.jit(f)(xs)
    assert got is xs and second is inner and xs[1] is inner and xs[2] is u and xs[3] is kept
    assert xs[0] == 2.0 and xs[4] == 3.0 and inner == [2.0]
    given = [1.5, 2.0]
    assert dlvm.grad(lambda v, y: v.append(v[0] * y), wrt=(0, 1), from_="v")(given, 3.0) == ([4.0, 1.0], 1.5)
    assert dlvm.value_and_grad(lambda v: v.append(v[0] * v[1]) or v[2])(given) == (3.0, [2.0, 1.5])
    assert dlvm.jvp(lambda v: v.append(v[0] * v[1]) or v[2], (given,), ([1.0, 0.0],)) == (3.0, 2.0)
    value, pullback = dlvm.vjp(lambda v: v.append(v[0] * v[1]) or v, given)
    assert value == [1.5, 2.0, 3.0] and pullback([0.0, 1.0, 2.0]) == ([4.0, 4.0],) and given == [1.5, 2.0]


def test_objects_that_are_given_twice():
    """One list in two places, or as a global, would have to change in both: an error, before anything has happened."""
    xs = [1.0]
    with pytest.raises(dlvm.ArgumentError, match="DL710.*'xs' and 'ys'"):
        dlvm.jit(lambda xs, ys: xs.append(1.0) or len(ys[0]))(xs, [xs])
    with pytest.raises(dlvm.ArgumentError, match="DL710.*'CONSTANTS'"):
        dlvm.jit(refers_to_a_global)(CONSTANTS)
    assert xs == [1.0] == CONSTANTS and dlvm.jit(refers_to_a_global)(xs) == [1.0, 1.0]


# -- the table ---------------------------------------------------------------------------------------------------


def test_an_operation_on_sets_is_compiled_once():
    @dlvm.jit
    def f(n):
        s, t = {n}, set()
        for k in range(n):
            s.add(2 * k)
            t.add(k)
        s.add(7)
        t.discard(3)
        s.add(n + 2)
        return len(s - t)

    names = [line.split()[1] for line in str(f.ir(5, stage="raw")).splitlines() if line.startswith("func @add")]
    assert len(names) <= 2  # of an empty set, and of one of ints
    assert f(5) == len({5, 0, 2, 4, 6, 8, 7} - {0, 1, 2, 4})


def test_every_supported_construct_has_a_program():
    """docs/language.md promises nothing that is not tried here, and nothing tried here is missing there."""
    assert {p.construct for p in PROGRAMS} == {c.name for c in CONSTRUCTS if c.is_supported}


REFUSED = [c for c in CONSTRUCTS if not c.is_supported]


@pytest.mark.parametrize("construct", REFUSED, ids=[c.name for c in REFUSED])
def test_refused_constructs_are_refused_with_advice(construct, tmp_path):
    """The example of each refused construct raises at its line, with a caret and a help line."""
    path = tmp_path / "refused.py"
    body = "\n".join("    " + line for line in construct.example.splitlines())
    path.write_text(f"import numpy as np\ndef f(x, n):\n{body}\n    return x\n")
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(dlvm.CompileError) as caught:
        dlvm.jit(scope["f"])(np.ones(3), 2)
    text = str(caught.value)
    assert f"{path}:" in text and "^" in text and "help: " in text


def test_the_page_is_fresh():
    """docs/language.md is what docs/build_language.py makes of the table."""
    docs = Path(__file__).parent.parent / "docs"
    page = runpy.run_path(str(docs / "build_language.py"))["build"]()
    assert (docs / "language.md").read_text(encoding="utf-8") == page
