"""docs/numpy.md says what the tables of the front end say."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from indexing import function
from test_frontend import call as interpreter_call

import dlvm_py as dlvm
from dlvm_py.frontend.numpy_signature import numpy_signature
from dlvm_py.frontend.table import WITHOUT_DERIVATIVE, array_methods, functions, name_of, numpys, random_methods
from dlvm_py.tools.numpy_page import numpy_page

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="older NumPy has fewer functions")
def test_page_is_fresh():
    """docs/numpy.md is what docs/build_numpy.py writes."""
    assert (ROOT / "docs" / "numpy.md").read_text(encoding="utf-8") == numpy_page()


def test_names_without_derivative_are_functions():
    """Every name of the table is one of NumPy's."""
    assert not [name for name in WITHOUT_DERIVATIVE if not callable(getattr(np, name, None))]


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: np.sum(x, order=1), r"np.sum has no argument `order`(.|\n)*supported are a, axis"),
        (lambda x: np.array_repr(x), r"np.array_repr is not supported"),
        (lambda x: np.cumsun(x), r"did you mean `cumsum`"),
        (lambda x: np.polynomial.chebyshev.chebmul(x, x), r"did you mean `np.polynomial.chebyshev.cheb\w+`"),
        (lambda x: np.nditer(x), r"np.nditer is not supported(.|\n)*np.ndindex"),
        (lambda x: np.less.at(x, [0], 1), r"np.less.at is not supported(.|\n)*np.less has `outer` here"),
        (lambda x: x.reshape(3, order="K"), r"'C' or 'F'"),
    ],
)
def test_what_is_not_there_is_said(fn, message):
    """A function or argument that is missing is named, with what is there."""
    with pytest.raises(dlvm.CompileError) as raised:
        dlvm.jit(fn)(np.ones(3))
    said = [line for line in str(raised.value).splitlines() if "error" in line or "help:" in line]
    assert re.search(message, "\n".join(line for line in said if "lambda" not in line))  # not in the line of the source


def own_signatures():
    """Functions and methods of NumPy with their rules, and the names of its parameters that may be given by name."""
    known_functions = [(name_of(f), f, rule) for f, rule in functions().items() if numpys(f) is not None]
    methods = [(f".{name}", getattr(np.ndarray, name), rule) for name, rule in array_methods().items()]
    drawn = [(f"Generator.{name}", getattr(np.random.Generator, name), rule) for name, rule in random_methods().items()]
    for name, known, rule in known_functions + methods + drawn:
        own = numpy_signature(known)
        if own is not None and not isinstance(known, np.ufunc):
            yield name, own, rule


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="older NumPy does not show all signatures")
def test_parameters_are_numpys():
    """What a rule takes by name has NumPy's name, and what NumPy takes by place stands in NumPy's order."""
    wrong = []
    for name, own, rule in own_signatures():
        theirs = list(own.parameters.values())
        ours = list(inspect.signature(rule).parameters.values())[1:]
        by_name = {p.name for p in theirs if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        hidden = any(p.kind is p.VAR_KEYWORD for p in theirs)
        without = len([p for p in theirs if p.kind is p.POSITIONAL_ONLY])
        places = [p for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for p in [p for p in ours if p not in places[:without] and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]:
            if p.name not in {*by_name, "rng"} and not hidden and (name, p.name) not in OTHER_NAMES:
                wrong.append(f"{name}: {p.name}")
        order = [p.name for p in theirs if p.kind is p.POSITIONAL_OR_KEYWORD]
        shared = [p.name for p in places if p.name in order]
        if shared != [n for n in order if n in shared]:
            wrong.append(f"{name}: {shared} in another order")
        has_kinds = {p.name: p.kind for p in theirs}
        if name.startswith("Generator."):  # bound by the rule's own signature
            wrong += [f"{name}: {p.name}" for p in ours[1:] if has_kinds.get(p.name) is not p.kind]
    assert not wrong


# names that NumPy's C code takes although its signature does not show them, and places that lists may take
OTHER_NAMES = {
    ("np.arange", "start"), (".dot", "b"), ("np.einsum", "subscripts"), ("np.einsum", "dtype"),
    ("np.einsum", "order"), ("np.einsum", "casting"), (".transpose", "axes"), (".reshape", "shape"),
    (".any", "dtype"), (".all", "dtype"),
}  # fmt: skip


PLACES = [
    ("np.reshape(x, (6, 2), 'F')", 12), ("x.astype(np.int8, 'C', 'unsafe', True, False)", 12),
    ("np.sum(x, 0, None, None, True)", 12), ("x.sum(0, None, None, True, 2.0)", 12),
    ("np.can_cast(from_=x.dtype, to=np.int8, casting='unsafe')", 12), ("x.max(0, None, True, 5.0)", 12),
    ("np.zeros((2, 2), np.int8, 'F', device='cpu', like=None)", 12), ("np.add(x, x, subok=False, order='K')", 12),
    ("np.partition(x, 1, 1, 'introselect', None)", 12), ("np.isin(x, [1.0], False, True, kind='sort')", 12),
]  # fmt: skip


@pytest.mark.parametrize(("text", "n"), PLACES, ids=[t for t, _ in PLACES])
def test_places_are_numpys(text, n):
    """What stands at a place is the parameter that it is for NumPy; what says nothing may be said."""
    fn = function(f"def f(x):\n    return {text}\n")
    x = np.linspace(-2.0, 3.0, n).reshape(3, 4)
    want, got = fn(x), interpreter_call(fn, x)
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert np.asarray(got).dtype == np.asarray(want).dtype


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: np.inner(a=x, b=x), "positional"),
        (lambda x: x.clip(a_min=1), "the argument `a_min` is not supported"),
        (lambda x: np.sum(x, axes=0), "np.sum has no argument `axes`(.|\n)*did you mean `axis`"),
        (lambda x: np.pad(x, 2, "edge", constant_values=3), "unsupported keyword arguments for mode 'edge'"),
        (lambda x: np.unique(x, sorted=False), "the argument `sorted` is not supported"),
        (lambda x: np.add(x, x, order="F"), "the argument `order` is not supported"),
        (lambda x: np.zeros(3, like=x), "the argument `like` is not supported(.|\n)*leave it out"),
        (lambda x: np.add(x, x, dtype=np.float32, casting="safe"), "casting rule|casting"),
        (lambda x: x.astype(np.int8, casting="safe"), "according to the rule 'safe'"),
    ],
)
def test_arguments_that_are_not_taken(fn, message):
    """An argument that would be ignored is refused by its name, at the call."""
    with pytest.raises(dlvm.CompileError, match=message) as raised:
        dlvm.jit(fn)(np.ones(3))
    assert raised.value.loc.file == __file__
