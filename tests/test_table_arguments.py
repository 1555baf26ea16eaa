"""Dicts with numbers, or tuples of numbers, as keys among the arguments: values, changes, derivatives."""

import copy
import math

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

WEIGHTS = {3: 0.5, 1: 2.0, 7: -1.0}


def reads(d, k):
    total = 0.0
    for key, value in d.items():
        total += key * value
    return d[k] * total, d.get(k + 1, -1.0), k in d, len(d), list(d), d


def changes(d, k, x):
    """Before it may raise, on one of two paths, through another name, and behind a deletion."""
    if k in d:
        d[k] *= x
    else:
        d[k] = x
    if x < 0.0:
        raise ValueError(f"{k} of {len(d)}")
    other = d
    del other[1]
    other[1] = x
    return d.pop(3, 0.0)


def counts(found, xs):
    for x in xs:
        found[x] = found.get(x, 0) + 1


def at_two_places(p, k):
    p[1][k, k] = p[0][k]
    return p[1][1, 2]


def _outcome(f, args):
    args = copy.deepcopy(args)
    try:
        return f(*args), args
    except (KeyError, ValueError) as error:
        return type(error), error.args, args


@pytest.mark.parametrize(
    ("f", "calls"),
    [
        (reads, [(WEIGHTS, 3), (WEIGHTS, 2), ({1: 2.0}, 1), ({k: 0.5 * k for k in range(900)}, 777)]),
        (reads, [({1.5: 2.0, 2.0: 1.0}, 2), ({np.int64(4): np.float32(1.5)}, 4)]),
        (changes, [(WEIGHTS, 7, 2.0), (WEIGHTS, 5, 2.0), (WEIGHTS, 7, -2.0), ({3: 1.0}, 4, 2.0)]),
        (counts, [({}, [4, 2, 4]), ({2: 7, 5: 1}, [4, 2, 4])]),
        (at_two_places, [([WEIGHTS, {(1, 2): 3.0}], 3), ([WEIGHTS, {(2, 1): 3.0}], 3), ([WEIGHTS, {(1, 2): 1.0}], 4)]),
    ],
)
def test_dicts_of_the_caller(f, calls):
    compiled = dlvm.jit(f)
    for args in calls:
        assert repr(_outcome(compiled, args)) == repr(_outcome(f, args))


def test_one_version_takes_all_sets_of_keys():
    def item(d, k):
        return d[k]

    compiled = dlvm.jit(item)
    for n in range(1, 5):
        assert compiled({2 * k: k + 0.5 for k in range(n)}, 2 * n - 2) == n - 0.5
    assert compiled.stats()["versions"] == 1


def weighted(d, keys, x):
    total = d[3] * x
    for k in keys:
        d[k] = d[k] * math.sin(x * d[k])
        total += d[k]
    return total


def test_the_derivative_is_a_dict_with_the_same_keys():
    keys, x = [1, 3, 1], 1.5
    by_dict, by_x = dlvm.grad(weighted, wrt=("d", "x"))(dict(WEIGHTS), keys, x)
    assert list(by_dict) == list(WEIGHTS) and all(type(v) is float for v in by_dict.values())

    def difference(step):
        values = []
        for sign in (1, -1):
            moved, y = step(sign * 1e-6)
            values.append(weighted(moved, keys, y))
        return (values[0] - values[1]) / 2e-6

    for k, found in by_dict.items():
        assert found == pytest.approx(difference(lambda h, k=k: (WEIGHTS | {k: WEIGHTS[k] + h}, x)), rel=1e-7, abs=1e-9)
    assert by_x == pytest.approx(difference(lambda h: (dict(WEIGHTS), x + h)), rel=1e-7)
    moved = dlvm.grad(lambda p: p[0] * p[1][1, 2] ** 2)((2.0, {(2, 1): 1.0, (1, 2): 3.0}))
    assert moved == (9.0, {(2, 1): 0.0, (1, 2): 12.0})
    with pytest.raises(dlvm.NotDifferentiable, match="vjp does not give its derivative"):
        dlvm.vjp(weighted, dict(WEIGHTS), keys, x)


@pytest.mark.parametrize(
    ("d", "why"),
    [
        ({1: 2, 3: 1.0}, r"values are of several types \(int, float\)"),
        ({1: 2.0, "a": 1.0}, r"keys are of several types \(int, str\)"),
        ({1: np.ones(2)}, "values are no numbers"),
        ({(1, 2): 1.0, (1,): 1.0}, "tuples of different lengths"),
        ({1j: 1.0}, "complex, or NaN"),
    ],
)
def test_what_is_no_table_is_refused(d, why):
    with pytest.raises(dlvm.ArgumentError, match="argument 'd' .* is a dict whose .*" + why):
        dlvm.jit(reads)(d, 1)


def test_items_of_other_types_are_refused():
    def put(d, k, v):
        d[k] = v

    for k, v, what in ((1.5, 1.0, "key"), (3, 1, "value")):
        with pytest.raises(dlvm.UnsupportedSyntax, match=f"a {what} of another type than those that it has"):
            dlvm.jit(put)(dict(WEIGHTS), k, v)


def test_one_dict_at_two_places_that_changes_is_refused():
    def moves(a, b):
        a[3] = b[1]

    shared = dict(WEIGHTS)
    with pytest.raises(dlvm.ArgumentError, match="one dict is given as 'a' and 'b'"):
        dlvm.jit(moves)(shared, shared)
    assert shared == WEIGHTS
