"""Random indices of random arrays, read, written and changed in place: native code does what NumPy does.

Each program is one index expression of a random structure (ints, slices, None, `...`, integer arrays, masks); it runs
on arrays of random extents (0 and 1 among them), layouts and dtypes, with index arrays that are out of range now and
then: values, dtypes, shapes, writes and the classes of exceptions are compared.
"""

import numpy as np
import pytest
from indexing import assert_same, function, leaves, outcome

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

TEMPLATE = """
def f(x, y, v, s, {names}):
    r = x[{index}]
    y[{index}] += x[{index}] * s
    y[{index}] = v
    return r, y[{index}]
"""


class Index:
    """A random index expression for an array of `rank` axes, and arguments for it."""

    def __init__(self, rng, rank):
        self.rng, self.rank = rng, rank
        self.layouts = rng.integers(0, 4, 2)
        self.items, self.makers = [], []  # the text of each entry; what makes the argument of each array
        axis = 0
        self.shape = tuple(rng.choice([2, 3, 4], rank))
        dots = rng.integers(0, rank + 1) if rng.random() < 0.3 else None
        while axis < rank:
            if dots == axis:
                self.items.append("...")
                axis += int(rng.integers(0, rank - axis + 1))
                dots = None
                continue
            left = rank - axis
            kinds = ["int", "slice", "none", "array", "array", "matrix", "mask", *(["mask2"] if left > 1 else [])]
            axis += getattr(self, rng.choice(kinds))(axis)
            if axis < rank and dots is None and rng.random() < 0.1:
                break
        self.text = ", ".join(self.items) or "..."

    def _name(self, maker):
        self.makers.append(maker)
        self.items.append(f"k{len(self.makers) - 1}")

    def int(self, axis):
        self.items.append(str(self.rng.choice([0, 1, -1])))
        return 1

    def slice(self, axis):
        self.items.append(str(self.rng.choice([":", "1:", ":-1", "::-1", "::2", "-2::-1"])))
        return 1

    def none(self, axis):
        self.items.append("None")
        return 0

    def array(self, axis):
        dtype = self.rng.choice(["int64", "int32", "uint8"])
        self._name(lambda rng, shape: places(rng, shape[axis], (3,), dtype))
        return 1

    def matrix(self, axis):
        self._name(lambda rng, shape: places(rng, shape[axis], (2, 1), "int64"))
        return 1

    def mask(self, axis):
        self._name(lambda rng, shape: rng.random(shape[axis]) < 0.5)
        return 1

    def mask2(self, axis):
        self._name(lambda rng, shape: rng.random(shape[axis : axis + 2]) < 0.5)
        return 2


def places(rng, extent, shape, dtype):
    """Indices of an axis, one of them out of range now and then."""
    low = 0 if dtype == "uint8" else -extent
    found = rng.integers(low, max(extent, low + 1), shape)
    if rng.random() < 0.1:
        beyond = [extent, extent + 3] if dtype == "uint8" else [extent, -extent - 1]
        found.flat[rng.integers(found.size)] = rng.choice(beyond)
    return found.astype(dtype)


def in_layout(rng, shape, which):
    """An array of these extents: C, Fortran, strided or reversed."""
    values = rng.standard_normal(shape)
    if which == 1:
        return np.asfortranarray(values)
    if which == 2:
        wide = np.zeros((*shape[:-1], 2 * shape[-1]))
        wide[..., ::2] = values
        return wide[..., ::2]
    return values[::-1] if which == 3 else values


def arguments(rng, index, shape):
    """x, y of one shape; v that fits (or not); a scalar; the index arrays."""
    x, y = (in_layout(rng, shape, which) for which in index.layouts)
    arrays = [make(rng, shape) for make in index.makers]
    scope = {f"k{k}": a for k, a in enumerate(arrays)}
    try:
        wanted = eval(f"x[{index.text}]", scope, {"x": x}).shape  # noqa: S307 - a test's own text
    except IndexError:
        wanted = (3,)
    v = rng.standard_normal(tuple(n if rng.random() < 0.9 else 1 for n in wanted))
    if v.ndim and rng.random() < 0.05:
        v = rng.standard_normal((*v.shape[:-1], v.shape[-1] + 1))
    return (x, y, v, 1.5, *arrays)


def check_structure(seed, runs):
    """One index expression on several arguments."""
    rng = np.random.default_rng(seed)
    index = Index(rng, int(rng.integers(1, 4)))
    names = ", ".join(f"k{k}" for k in range(len(index.makers)))
    fn = function(TEMPLATE.format(names=names, index=index.text))
    compiled = dlvm.jit(fn)
    for run in range(runs):
        shape = index.shape if run % 4 < 2 else tuple(int(n) for n in rng.choice([0, 1, 2, 3], index.rank))
        args = arguments(rng, index, shape)
        try:
            got, after = outcome(compiled, args)
        except dlvm.CompileError as error:
            # what is known not to fit when it is compiled is refused then
            want, _ = outcome(fn, args)
            assert isinstance(want, type), (index.text, error)
            continue
        want, expected = outcome(fn, args)
        try:
            assert_same(got, want)
            assert_same(leaves(list(after)), leaves(list(expected)))
        except AssertionError as error:
            raise AssertionError(f"x[{index.text}], {[np.shape(a) for a in args]}: {error}") from error


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    """The IR verifier runs after every pass."""
    monkeypatch.setenv("DLVM_VERIFY", "1")


@pytest.mark.parametrize("seed", range(12))
def test_random_index(seed):
    """Reads, stores of a scalar and of an array, and updates in place."""
    check_structure(seed, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_random_index_sweep(seed):
    """The same for many structures."""
    check_structure(seed, 8)
