"""Loops that choose an index by the element there (chosen_elements.py), and small sums that fit (ranges.py)."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.ir.parser import parse_function
from dlvm_py.transforms import chosen_elements


def least(a):
    """Where the least number is."""
    m = 0
    for j in range(1, len(a)):
        if a[j] < a[m]:
            m = j
    return m


def last_of_largest(a):
    """The last of the largest, by another comparison, and how often it was replaced."""
    m = 0
    n = 0
    for j in range(len(a)):
        if a[j] >= a[m]:
            m = j
            n += 1
    return m, n


def corner(a):
    """Row and column of the least number of a matrix."""
    p, q = 0, 0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] < a[p, q]:
                p = i
                q = j
    return p, q


def from_a_place(a, m):
    """A search that begins anywhere, which may be out of range."""
    for j in range(len(a)):
        if a[j] < a[m]:
            m = j
    return m


def sorts(a):
    """Selection sort: what is searched is written between the searches."""
    for i in range(len(a)):
        m = i
        for j in range(i + 1, len(a)):
            if a[j] < a[m]:
                m = j
        a[i], a[m] = a[m], a[i]
    return a


def lowers(a):
    """The element that is looked at may be written in the trip."""
    m = 0
    for j in range(len(a)):
        if a[j] < a[m]:
            m = j
        a[j] += 2
    return m, a


def two_searches(a, b):
    """Two indices, and a way on which neither is asked for."""
    low = 0
    high = 0
    for j in range(len(a)):
        if b[j]:
            if a[j] < a[low]:
                low = j
            if a[j] > a[high]:
                high = j
    return low, high


def assert_as_python(fn, make):
    """Compiled code returns and writes what Python does."""
    ours, theirs = make(), make()
    got, want = dlvm.jit(fn)(*ours), fn(*theirs)
    got, want = (r if isinstance(r, tuple) else (r,) for r in (got, want))
    for g, w in zip((*got, *ours), (*want, *theirs), strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("fn", [least, last_of_largest, sorts, lowers])
@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
def test_searches(fn, dtype):
    """Of numbers of all kinds, of one, and backwards."""
    numbers = np.random.default_rng(3).integers(0, 9, 40).astype(dtype)
    for part in (slice(None), slice(0, 1), slice(None, None, -1), slice(5, 9), slice(None, None, 3)):
        assert_as_python(fn, lambda part=part: (numbers.copy()[part],))


def test_numbers_that_are_none():
    """Comparisons with NaN are false, on either side; zeros of either sign are equal."""
    for numbers in ([np.nan, 1.0, 0.5], [2.0, np.nan, 1.0, np.nan], [0.0, -0.0, 0.0], [np.inf, -np.inf]):
        for fn in (least, last_of_largest, sorts):
            assert_as_python(fn, lambda numbers=numbers: (np.array(numbers),))


def test_no_trip():
    """No element is read where there is none."""
    f = dlvm.jit(least)
    assert f(np.empty(0)) == 0
    assert dlvm.jit(corner)(np.empty((0, 4))) == (0, 0)
    assert dlvm.jit(corner)(np.empty((4, 0))) == (0, 0)
    assert dlvm.jit(from_a_place)(np.empty(0), 77) == 77


def test_corner():
    """Two indices that are chosen together, in a loop in a loop."""
    a = np.random.default_rng(0).integers(0, 50, (7, 9)).astype(np.float64)
    for matrix in (a, a.T, a[::-1, ::2], np.asfortranarray(a), a[:1, :1]):
        assert_as_python(corner, lambda matrix=matrix: (matrix.copy(),))


def test_two_searches():
    """Ways on which an element is not asked for hand it on."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=30), rng.random(30) < 0.5
    assert_as_python(two_searches, lambda: (a, b))
    assert_as_python(two_searches, lambda: (a, np.zeros(30, bool)))


def test_out_of_range():
    """The place where a search begins is asked for as before; negative ones count from the end."""
    f = dlvm.jit(from_a_place)
    a = np.array([3.0, 1.0, 2.0])
    assert f(a, -1) == 1
    assert f(np.array([3.0, 5.0, 2.0]), -1) == -1
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        f(a, 3)


def test_shared_memory():
    """What is searched may be memory that another argument writes, where the caller says so."""

    def search(a, b):
        m = 0
        for j in range(len(a)):
            if a[j] < a[m]:
                m = j
            b[j] = 9.0
        return m

    a, c = np.array([3.0, 1.0, 2.0, 0.5]), np.array([3.0, 1.0, 2.0, 0.5])
    assert dlvm.jit(search)(a, a) == search(c, c)
    assert np.array_equal(a, c)


def test_gradient_of_the_least():
    """A derivative goes to the element that is chosen."""

    def lowest(a):
        m = 0
        for j in range(1, len(a)):
            if a[j] < a[m]:
                m = j
        return a[m] ** 2

    np.testing.assert_array_equal(dlvm.grad(lowest)(np.array([3.0, 1.5, 2.0])), [0.0, 3.0, 0.0])


def test_sums_of_pixels_fit():
    """Sums of many small numbers, and their sizes, need no look at overflow; those that may leave 64 bits do."""

    def edges(img):
        total = 0
        for i in range(1, img.shape[0] - 1):
            a, b, c, d = int(img[i - 1]), int(img[i]), int(img[i + 1]), int(img[0])
            v = abs(a + 2 * b + c - d - 2 * a - 2 * c + 7 * b - 3 * d)
            total ^= v
        return total

    img = np.random.default_rng(0).integers(0, 256, 50).astype(np.uint8)
    f = dlvm.jit(edges)
    assert f(img) == edges(img)
    assert "checked" not in str(f.ir(img, stage="optimizable"))

    def far(x):
        return abs(int(x[0]) + 2 * int(x[1]) - 1)

    for dtype in (np.int32, np.int64):
        x = np.array([np.iinfo(dtype).min, np.iinfo(dtype).min], dtype)
        if dtype is np.int64:
            with pytest.raises(OverflowError):
                dlvm.jit(far)(x)
        else:
            assert dlvm.jit(far)(x) == far(x)


def test_nothing_is_loaded_before_what_may_raise():
    """The head of a loop in the loop loads the element behind a check: before the loop it may be out of range."""
    f = parse_function("""
func @f: (*<_ x f64>, *<_ x f64>, i64, i64) -> i64 {
'entry(%a: *<_ x f64>, %b: *<_ x f64>, %first: i64, %n: i64):
    %size = extent %a: *<_ x f64> at 0
    branch 'loop(0: i64, %first: i64)
'loop(%j: i64, %m: i64):
    %more = lessThan %j: i64, %n: i64
    conditional %more: bool then 'body() else 'exit()
'body():
    %fine = lessThan %m: i64, %size: i64
    check %fine: bool else IndexError "out of bounds" ()
    branch 'inner(0: i64)
'inner(%q: i64):
    %p = elementPointer %a: *<_ x f64> at %m: i64
    %x = load %p: *f64
    %again = lessThan %q: i64, 1: i64
    conditional %again: bool then 'step() else 'next()
'step():
    %q1 = add %q: i64, 1: i64
    branch 'inner(%q1: i64)
'next():
    %r = elementPointer %a: *<_ x f64> at %j: i64
    %y = load %r: *f64
    %less = lessThan %y: f64, %x: f64
    conditional %less: bool then 'join(%j: i64) else 'join(%m: i64)
'join(%chosen: i64):
    %j1 = add %j: i64, 1: i64
    branch 'loop(%j1: i64, %chosen: i64)
'exit():
    return %m: i64
}
""")
    assert not chosen_elements.run(f)
