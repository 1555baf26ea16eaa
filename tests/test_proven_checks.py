"""Checks that loops show never to fail are gone, and nothing else: values and errors are those of plain Python."""

import math

import numpy as np
import pytest
from signals import interrupted
from test_people_programs import PROGRAMS

import dlvm_py as dlvm
from dlvm_py.ir import I64, OPS, Block, BlockArg, Instruction, TensorType, literal
from dlvm_py.transforms.ranges import float_range, integer_range


def _insertion_sort(x):
    a = x.copy()
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


def _selection_sort(x):
    a = x.copy()
    n = len(a)
    for i in range(n):
        k = i
        for j in range(i + 1, n):
            if a[j] < a[k]:
                k = j
        t = a[i]
        a[i] = a[k]
        a[k] = t
    return a


def _heap_sort(x):
    a = x.copy()
    n = len(a)
    for end in range(n, 1, -1):
        for start in range(end // 2 - 1, -1, -1):
            root = start
            while 2 * root + 1 < end:
                child = 2 * root + 1
                if child + 1 < end and a[child] < a[child + 1]:
                    child += 1
                if a[root] < a[child]:
                    a[root], a[child] = a[child], a[root]
                root = child
        a[0], a[end - 1] = a[end - 1], a[0]
    return a


def _search(a, q):
    out = np.empty(len(q), dtype=np.int64)
    for k in range(len(q)):
        lo = 0
        hi = len(a)
        while lo < hi:
            mid = (lo + hi) // 2
            if a[mid] < q[k]:
                lo = mid + 1
            else:
                hi = mid
        out[k] = lo
    return out


def _run_lengths(x):
    values = np.empty_like(x)
    counts = np.empty_like(x)
    k = 0
    i = 0
    while i < len(x):
        j = i
        while j < len(x) and x[j] == x[i]:
            j += 1
        values[k] = x[i]
        counts[k] = j - i
        k += 1
        i = j
    return values[:k], counts[:k]


def _ring(x):
    n = len(x)
    out = np.empty(n)
    for i in range(n):
        out[i] = x[(i + 1) % n] - 2 * x[(i - 1) % n] + x[(i + 2) % n] + x[i % n] - x[(i - 2) % n]
    return out


def _torus(g):
    h, w = g.shape
    out = np.zeros((h, w), dtype=np.int64)
    for i in range(h):
        for j in range(w):
            n = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if di != 0 or dj != 0:
                        n += g[(i + di) % h, (j + dj) % w]
            out[i, j] = n
    return out


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 64])
def test_values_are_those_of_python(n):
    """Sorts, searches and neighbours in rings, at all small sizes."""
    rng = np.random.default_rng(n)
    x, k = rng.random(n), rng.integers(0, 3, n)
    for f, args in (
        (_insertion_sort, (x,)),
        (_selection_sort, (x,)),
        (_heap_sort, (x,)),
        (_search, (np.sort(x), rng.random(5))),
        (_run_lengths, (k,)),
        (_ring, (x,)),
        (_torus, (rng.integers(0, 9, (n, max(n - 1, 0))),)),
        (_torus, (rng.integers(0, 9, (max(n - 1, 0), n)),)),
    ):
        np.testing.assert_array_equal(dlvm.jit(f)(*args), f(*args))


@pytest.mark.parametrize("f", [_insertion_sort, _selection_sort, _search, _run_lengths])
def test_nothing_is_asked_that_is_sure(f):
    """No check of an index, and no remainder, is left in the loops."""
    x = np.arange(5.0) if f is not _run_lengths else np.arange(5)
    text = dlvm.jit(f).ir(*((x, x) if f is _search else (x,)))
    checks = text.count("check ")
    # how many runs there are is not known to be at most how many numbers there are
    assert checks == (1 if f is _run_lengths else 0), text
    assert "checked" not in text


def test_remainders_in_a_ring_are_selects():
    """(i + 1) % n and (i - 1) % n divide nothing; (i + 2) % n does, since n may be 1."""
    text = dlvm.jit(_ring).ir(np.arange(5.0))
    assert text.count("modulo") == 2


def _step_too_far(x, start):
    s = 0.0
    j = start
    while j >= 0:
        s += x[j]
        j -= 1
    return s


def _jump(x, by):
    s = 0.0
    j = 0
    while j < len(x):
        s += x[j]
        j += by
    return s


def _leaves_below(x, n):
    s = 0.0
    j = n
    while j < len(x):
        s += x[j]
        j += 1
    return s


def _either(x, a, b):
    s = 0.0
    j = a
    while j != b and j < 4:
        s += x[j]
        j += 1
    return s


def _two_that_change_places(x, p, q):
    s = 0.0
    for _ in range(4):
        s += x[p] - 2 * x[q]
        p, q = q + 1, p
    return s


def _near_wrap(k, x):
    # NumPy's integers wrap: k + 1 < n says nothing about k
    i = k[0]
    if i + 1 < len(x):
        return x[i]
    return 0.0


@pytest.mark.parametrize(
    ("f", "calls"),
    [
        (_step_too_far, [(3,), (4,), (5,), (-1,), (-7,)]),
        (_jump, [(1,), (2,), (7,), (2**62,), (2**63 - 1,)]),
        (_leaves_below, [(0,), (-1,), (-5,), (-6,), (9,)]),
        (_either, [(0, 3), (-5, 3), (-6, 3), (3, 0)]),
        (_two_that_change_places, [(0, 1), (4, 0), (0, 4), (3, 3), (-5, 0), (-6, 0), (2, 2)]),
    ],
)
def test_what_may_fail_still_does(f, calls):
    """The same value, or the same exception with the same text."""
    x = np.arange(5.0)
    compiled = dlvm.jit(f)
    for args in calls:
        try:
            expected = f(x, *args)
        except IndexError as error:
            with pytest.raises(IndexError, match=str(error)):
                compiled(x, *args)
        else:
            if -(2**63) <= sum(args) < 2**62 or f is not _jump:
                assert compiled(x, *args) == expected
            else:
                # Python's integers have no end, ours 64 bits
                try:
                    assert compiled(x, *args) == expected
                except OverflowError:
                    pass


def test_a_sum_that_wraps_bounds_nothing():
    """The largest i64 plus 1 is the smallest: the index itself is far outside."""
    k = np.array([2**63 - 1])
    with np.errstate(over="ignore"), pytest.raises(IndexError):
        _near_wrap(k, np.arange(5.0))
    with pytest.raises(IndexError):
        dlvm.jit(_near_wrap)(k, np.arange(5.0))


def _energy(x):
    n = len(x)
    s = 0.0
    for i in range(n):
        d = x[(i + 1) % n] - x[(i - 1) % n]
        s += d * d * x[i]
    return s


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_gradients_in_a_ring(n):
    """Reverse mode beside central differences."""
    x = np.random.default_rng(n).random(n)
    found = dlvm.grad(_energy)(x)
    eye = np.eye(n) * 1e-6
    expected = [(_energy(x + e) - _energy(x - e)) / 2e-6 for e in eye]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def _lengths(x):
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = math.sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1] + x[i, 0] ** 2 / 3)
    return out


def _roots(x):
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = math.sqrt(x[i, 0] * x[i, 1])
    return out


def test_sums_of_squares_are_not_below_zero():
    """Of NaN and inf as well; of a product of two numbers it is asked."""
    x = np.array([[1.0, -2.0], [-0.0, 0.0], [np.inf, 1.0], [np.nan, 1.0], [1e100, 1e-300]])
    compiled = dlvm.jit(_lengths)
    np.testing.assert_array_equal(compiled(x), _lengths(x))
    assert "math domain" not in compiled.ir(x)
    with pytest.raises(ValueError, match="math domain"):
        dlvm.jit(_roots)(x)


def _inside(x, y, radius):
    c = 0
    for i in range(len(x)):
        if x[i] * x[i] + y[i] * y[i] < radius:
            c += 1
    return c


def _from_far(x, c):
    for i in range(len(x)):
        if x[i] > 0.5:
            c += 1
    return c


def test_counts_that_begin_at_a_literal_do_not_overflow():
    """No more is counted than there are trips; a count that is given may be the largest integer."""
    x, y = np.random.default_rng(1).random((2, 100))
    compiled = dlvm.jit(_inside)
    assert compiled(x, y, 1.0) == _inside(x, y, 1.0)
    assert "checked" not in compiled.ir(x, y, 1.0)
    with pytest.raises(OverflowError):
        dlvm.jit(_from_far)(x, 2**63 - 2)
    assert dlvm.jit(_from_far)(x * 0, 2**63 - 1) == 2**63 - 1


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 3), (5, 4), (17, 33)])
def test_windows_of_literal_sizes(shape):
    """Loops in which small ones lie take the fuel of one loop."""
    g = np.random.default_rng(0).integers(0, 2, shape).astype(bool)

    def erode(b):
        h, w = b.shape
        out = np.zeros((h, w), dtype=np.bool_)
        for i in range(1, h - 1):
            for j in range(1, w - 1):
                v = True
                for a in range(-1, 2):
                    for c in range(-1, 2):
                        v = v and b[i + a, j + c]
                out[i, j] = v
        return out

    np.testing.assert_array_equal(dlvm.jit(erode)(g), erode(g))


def _first_of_four(a, key):
    """Rows whose first key stands at different places, or nowhere: the inner loop is left in its midst."""
    total = 0
    for i in range(a.shape[0]):
        for k in range(4):
            if a[i, k] == key:
                total += k + 1
                break
    return total


def _halves(x, times):
    """Two loops that take fuel, in one of two trips; with many of them, or with a negative x, it does not end."""
    steps = 0
    for _ in range(times):
        for odd in range(2):
            v = x + odd
            while v != 0:
                v >>= 1
                steps += 1
    return steps


def test_small_loops_take_no_fuel_where_they_are_left_or_hold_others():
    a = np.random.default_rng(1).integers(0, 6, (50, 4))
    first, halves = dlvm.jit(_first_of_four, parallel=False), dlvm.jit(_halves)
    assert [first(a, key) for key in range(7)] == [_first_of_four(a, key) for key in range(7)]
    assert halves(1000, 3) == _halves(1000, 3)
    # only the loop over rows looks at its fuel, in two versions; of the halves the outer one and two innermost ones
    assert first.llvm(a, 1).count(" call i32 @dlvm.poll(") == 2
    assert halves.llvm(1000, 3).count(" call i32 @dlvm.poll(") == 3
    with pytest.raises(IndexError):
        first(a[:, :3], 7)


@pytest.mark.parametrize("arguments", [(-1000, 1), (3, 10**15)])
def test_signals_reach_loops_in_and_around_small_ones(arguments):
    halves = dlvm.jit(_halves)
    halves(1, 1)
    with interrupted():
        halves(*arguments)


def _correlate(x, k):
    h, w = x.shape
    p, q = k.shape
    out = np.zeros((h - p + 1, w - q + 1))
    for i in range(h - p + 1):
        for j in range(w - q + 1):
            s = 0.0
            for a in range(p):
                for b in range(q):
                    s += x[i + a, j + b] * k[a, b]
            out[i, j] = s
    return out


def _one_window_too_many(x, w):
    out = np.zeros(len(x))
    for i in range(len(x) - w + 2):
        for j in range(w):
            out[i] += x[i + j]
    return out


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (3, 2), (5, 7), (9, 8)])
def test_windows_of_all_sizes(size):
    """Indices that are sums of two counters, of which one ends where the other leaves room."""
    x = np.random.default_rng(0).random(size)
    compiled = dlvm.jit(_correlate)
    for p, q in ((1, 1), (2, 3), (3, 1), size):
        if p <= size[0] + 1 and q <= size[1] + 1:
            k = np.random.default_rng(p).random((p, q))
            np.testing.assert_array_equal(compiled(x, k), _correlate(x, k))
    assert "IndexError" not in compiled.ir(x, np.ones((1, 1)))


def test_a_window_too_far_is_an_error():
    """One place more than there is room for."""
    x = np.arange(6.0)
    for w in (1, 2, 6):
        with pytest.raises(IndexError) as theirs:
            _one_window_too_many(x, w)
        with pytest.raises(IndexError, match=str(theirs.value)):
            dlvm.jit(_one_window_too_many)(x, w)


def _hash(x, h):
    out = np.empty(len(x), dtype=np.int64)
    for i in range(len(x)):
        h = (h * 6364136223846793005 + i * 1442695040888963407) & 0xFFFFFFFFFFFF
        out[i] = (h ^ (h >> 17)) * 2654435761 % 4294967296 - 5
    return out


def _used_whole_as_well(a, b):
    c = a * b
    return (c & 255) + (1 if c < 0 else 0)


def test_low_bits_are_exact():
    """Python's integers have no end: of a product that has left 64 bits the low ones are right."""
    x = np.zeros(50)
    compiled = dlvm.jit(_hash)
    for h in (1, 2**62, -(2**63)):
        np.testing.assert_array_equal(compiled(x, h), _hash(x, h))
    assert dlvm.jit(_used_whole_as_well)(3, -5) == _used_whole_as_well(3, -5)
    with pytest.raises(OverflowError):
        dlvm.jit(_used_whole_as_well)(2**62, 3)


def _is_prime(n):
    if n < 2:
        return False
    for d in range(2, int(math.sqrt(n)) + 1):
        if n % d == 0:
            return False
    return True


def _bytes(x):
    """Floats of small integers, by all that keeps them finite."""
    out = np.zeros(x.size, np.int64)
    for i in range(x.size):
        a, b = float(int(x[i])), float(int(x[i]) + 3)
        low, high = min(a, 40.5), max(-a, -b)
        out[i] = int(math.sqrt(a) * 3.5 - a / b) + 1000 * int(abs(high - low)) + math.floor(a / 7.0) - math.ceil(high)
    return out


def _roots_of_differences(x, y):
    total = 0
    for i in range(x.size):
        total += int(math.sqrt(int(x[i]) - int(y[i])))
    return total


def _quotients(x, y):
    total = 0
    for i in range(x.size):
        total += int(float(int(x[i])) / float(int(y[i])))
    return total


def test_floats_of_integers_are_numbers():
    """What int(math.sqrt(n)) asks is sure where n is a square, or was compared."""
    numbers = np.arange(256).astype(np.uint8)
    for f, args in ((PROGRAMS["pythagorean"].function, (60,)), (_bytes, (numbers,))):
        compiled = dlvm.jit(f)
        np.testing.assert_array_equal(compiled(*args), f(*args))
        text = compiled.ir(*args)
        assert "check " not in text, text
    compiled = dlvm.jit(_is_prime)
    assert [compiled(n) for n in range(-3, 200)] == [_is_prime(n) for n in range(-3, 200)]
    assert compiled(2**40 + 15) == _is_prime(2**40 + 15)


def test_floats_of_integers_that_need_not_be_numbers():
    """A root of what may be negative, and a quotient of what may be 0, are asked about as before."""
    x, y = np.array([9, 4, 3], np.uint8), np.array([5, 4, 2], np.uint8)
    for f, bad, error in ((_roots_of_differences, [9, 9, 9], ValueError), (_quotients, [1, 0, 2], ZeroDivisionError)):
        compiled = dlvm.jit(f)
        assert compiled(x, y) == f(x, y)
        worse = np.array(bad, np.uint8)
        with pytest.raises(error) as expected:
            f(x[::-1].copy(), worse)
        with pytest.raises(error, match=str(expected.value)):
            compiled(x[::-1].copy(), worse)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "min", "max", "sqrt", "rint", "truncate"])
def test_ranges_of_floats_hold(name):
    """Whatever the integers are, the float lies where its range says."""
    rng = np.random.default_rng(len(name))
    one, two = _small(5, 200), _small(-3, 90)
    operands = [two] if name in ("rint", "truncate") else [one] if name == "sqrt" else [two, one]
    made = [Instruction(OPS["dataTypeCast"], [v], {"to": "f64"}) for v in operands]
    found = float_range(Instruction(OPS[name], made))
    assert found is not None
    low, high = found
    for _ in range(300):
        drawn = [float(rng.integers(*integer_range(v), endpoint=True)) for v in operands]
        assert low <= float(OPS[name](*drawn)) <= high


def _small(low, high):
    """An integer between two others."""
    n = BlockArg(TensorType((), I64), Block("entry"), "n")
    least = Instruction(OPS["max"], [n, literal(low)])
    return Instruction(OPS["min"], [least, literal(high)])
