"""Loops over scalars: what memory, checks and branches are arranged anew for, and what is seen after exceptions."""

import math
import re

import numpy as np
import pytest

import dlvm_py as dlvm


def factor(a):
    for i in range(a.shape[0]):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[j, k]
            a[i, j] /= a[j, j]
        for k in range(i):
            a[i, i] -= a[i, k] * a[i, k]
        a[i, i] = np.sqrt(a[i, i])
    return a


def best_split(table, n):
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


def meets(a, i, n):
    for k in range(n):
        a[i] += a[k]
    return a


def beside(a, b, i, n):
    for k in range(n):
        a[i] += b[k]
    return a


def downwards(a, n):
    for k in range(n, 0, -1):
        a[0] += 2.0 * a[k]
    return a


def fails_late(a, b, n):
    for k in range(n):
        a[0] += 1.0 / b[k] if b[k] != 7.0 else np.zeros(3)[k]
    return a


def never(a, i, n):
    for k in range(n):
        a[i] += k
    return a


def two(a, n):
    for k in range(n):
        a[0] += k
        a[1] *= 1.5
        a[2] = a[0]
    return a


def unsigned(data, poly):
    crc = 0xFFFF
    for b in data:
        for _ in range(8):
            if (crc & 1) ^ (int(b) & 1):
                crc = (crc >> 1) ^ poly
            else:
                crc >>= 1
    return crc


def shortest(path):
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))
    return path


def rows(starts, columns, values, x):
    y = np.empty(starts.size - 1)
    for i in range(starts.size - 1):
        part = slice(starts[i], starts[i + 1])
        y[i] = values[part] @ x[columns[part]]
    return y


def span(a, start, stop):
    s = 0.0
    for k in range(start, stop):
        s += a[k] + a[k - 1]
        a[k] = s
    return s


def near(a, i, j):
    if i >= 0 and j <= len(a) and i < j - 1:
        return a[i] + a[i + 1]
    return a[i]


def folded(a, m):
    s = 1
    for x in a:
        s = s * 3 + x
        if s > m:
            s -= m
    return s


def positive(a):
    s = 0
    for x in a:
        if x > 0:
            s += x
    return s


_A = np.random.default_rng(0).random((7, 7))
CASES = [
    (factor, (_A @ _A.T + 7 * np.eye(7),)),
    (factor, (np.ones((3, 2)),)),  # IndexError in the middle
    (best_split, (np.arange(36, dtype=np.int32).reshape(6, 6) % 7, 6)),
    (best_split, (np.arange(36, dtype=np.int32).reshape(6, 6) % 7, 8)),
    (meets, (np.arange(1.0, 6.0), 2, 5)),
    (meets, (np.arange(1.0, 6.0), 2, 7)),
    (beside, (np.arange(4.0), np.arange(1.0, 4.0), 1, 3)),
    (beside, (np.arange(4.0), np.arange(1.0, 4.0), 1, 5)),
    (downwards, (np.arange(5.0), 4)),
    (fails_late, (np.zeros(2), np.array([1.0, 2.0, 4.0, 7.0, 1.0]), 5)),
    (never, (np.arange(3.0), 9, 0)),
    (never, (np.arange(3.0), 9, 2)),
    (two, (np.arange(1.0, 5.0), 6)),
    (unsigned, (np.arange(40, dtype=np.uint8), 0x8408)),
    (folded, (np.arange(-20, 20, dtype=np.int64), 1000)),
    (shortest, (np.random.default_rng(1).integers(1, 50, (9, 9)).astype(np.int32),)),
    (rows, (np.array([0, 2, 2, 5]), np.array([1, 0, 3, 3, 2]), np.arange(5.0), np.arange(1.0, 5.0))),
    (span, (np.arange(6.0), 1, 6)),
    (span, (np.arange(6.0), -3, 4)),  # negative indices count from the end
    (span, (np.arange(6.0), 3, 9)),
    (span, (np.arange(6.0), 9, 3)),
    (span, (np.arange(6.0), -9, 3)),
    (span, (np.arange(6.0), 2**63 - 3, 2**63 - 1)),
    (near, (np.arange(5.0), 3, 5)),
    (near, (np.arange(5.0), -7, 5)),
    (near, (np.arange(5.0), 5, 3)),
    (near, (np.arange(5.0), np.int64(2**63 - 1), np.int64(-(2**63)))),
]


def run(f, args):
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with np.errstate(all="ignore"):
        try:
            result = f(*args)
        except (IndexError, OverflowError) as error:
            return type(error), args
    return result, args


@pytest.mark.parametrize(("f", "args"), CASES)
def test_as_python(f, args):
    wanted, after = run(f, args)
    found, ours = run(dlvm.jit(f), args)
    if isinstance(wanted, type):
        assert found is wanted
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
    for a, b in zip(ours, after, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_overlapping_arguments():
    """Memory that two arguments share is not kept in a register."""
    a, b = np.arange(1.0, 6.0), np.arange(1.0, 6.0)
    dlvm.jit(beside)(a, a[1:], 2, 4)
    beside(b, b[1:], 2, 4)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("f", "args", "waits"), [
    (unsigned, (np.zeros(9, np.uint8), 0x8408), True),
    (folded, (np.zeros(9, np.int64), 1000), True),
    (positive, (np.zeros(9, np.int64),), False),
])  # fmt: skip
def test_choices_that_wait_for_the_last(f, args, waits):
    """LLVM merges a step with the choice whether to do it, but not where the choice waits for the step before."""
    text = dlvm.jit(f).llvm(*args)
    assert ("llvm.strip.invariant.group" in text) is waits


def against(a, b):
    total = 0.0
    for k in range(1, a.shape[0]):
        total += np.dot(np.flip(a[:k]), b[:k])
    return total


def test_products_with_reversed_vectors():
    """Neighbours are vectors in both directions: a sum of one product after the other waits for each."""
    a, b = np.random.default_rng(2).random((2, 50))
    compiled = dlvm.jit(against)
    np.testing.assert_allclose(compiled(a, b), against(a, b), rtol=1e-13)
    assert "llvm.vector.reduce.fadd" in compiled.llvm(a, b)


def whole(x, counts):
    for k in range(len(x)):
        counts[0] += 1
        counts[1] += int(x[k])
    return counts[1]


@pytest.mark.parametrize("last", [1.75, -0.75, -(2.0**63), 2.0**63, -1.1 * 2.0**63, np.inf, -np.inf, np.nan])
def test_whole_numbers_of_floats(last):
    """One question for what may be converted; what may not raises what Python raises, and what was before is done."""
    x, ours, theirs = np.array([-2.5, 1e15, last]), np.zeros(2, np.int64), np.zeros(2, np.int64)
    compiled = dlvm.jit(whole)
    fits = -(2.0**63) <= last < 2.0**63
    if fits:
        assert compiled(x, ours) == whole(x, theirs)
    else:
        with pytest.raises((ValueError, OverflowError)) as ours_raised:
            compiled(x, ours)
        with pytest.raises((ValueError, OverflowError)) as theirs_raised:
            whole(x, theirs)
        assert ours_raised.type is theirs_raised.type
        assert np.isfinite(last) or str(ours_raised.value) == str(theirs_raised.value)
    np.testing.assert_array_equal(ours, theirs)


def powers_of(out, u, n):
    for k in range(n):
        out[k] = 2.0 * u**k + n ** (u - k)
    return out


def powers_in_turn(out, u, n):
    total = 0.0
    for k in range(n):
        total = (total + 1.5) ** (u - k)
        out[k] = total
    return out


@pytest.mark.parametrize(("f", "is_alike"), [(powers_of, True), (powers_in_turn, False)])
def test_functions_in_loops_whose_trips_are_alike(f, is_alike):
    """LLVM makes vectors of functions: not where a trip waits for the last one."""
    compiled, u = dlvm.jit(f), np.float64(1.01)
    np.testing.assert_allclose(compiled(np.empty(37), u, 37), f(np.empty(37), u, 37), rtol=1e-14)
    text = compiled.llvm(np.empty(37), u, 37)
    assert bool(re.search(r"f(add|mul)[a-z ]* <\d+ x double>", text)) is is_alike


def of_points(points, out, n):
    for k in range(n):
        out[k] = points[k, 0] ** points[k, 1] + points[k, 2] ** points[k, 1]
    return out


def of_points_and_sums(points, out, n):
    for k in range(n):
        out[k] = points[k, 0] + 2 * (n - k) + points[k, 1]
    return out


def of_points_twice(points, out, n):
    for k in range(n):
        out[k] = points[k, 0]
    for k in range(n):
        out[k] += points[k, 2]
    return out


@pytest.mark.parametrize("f", [of_points, of_points_and_sums, of_points_twice])
def test_checks_of_fixed_axes_are_limits(f):
    """What an index asks of an axis that it does not run along is asked before the loop; the first to fail raises."""
    compiled, points = dlvm.jit(f), np.random.default_rng(5).random((5, 3))
    for rows, columns, n in [(5, 3, 5), (4, 3, 5), (4, 2, 5), (5, 1, 5), (0, 2, 5), (5, 0, 0), (4, 0, 5), (5, 3, 6)]:
        given, seen = points[:rows, :columns].copy(), []
        for g in (compiled, f):
            out = np.zeros(5)
            try:
                seen.append((g(given, out, n), ""))
            except IndexError as error:
                seen.append((out, str(error)))
        np.testing.assert_allclose(seen[0][0], seen[1][0], rtol=1e-14)
        assert seen[0][1] == seen[1][1]
    if f is of_points:
        assert "call double @elementary.power.double" not in compiled.llvm(points, np.zeros(5), 5)
    elif f is of_points_and_sums:
        with pytest.raises(OverflowError):  # of an int of 64 bits, before the index of the column is asked
            compiled(points[:, :1].copy(), np.zeros(5), 2**62)


def relaxed(u, f):
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
    return u


def test_rows_of_another_array_are_no_limits():
    """A count that is another one in each row would keep the rows of a sweep from running side by side."""
    u, f = np.random.default_rng(6).random((2, 9, 40))
    compiled = dlvm.jit(relaxed)
    np.testing.assert_array_equal(compiled(u.copy(), f), relaxed(u.copy(), f))
    assert "'skewed" in compiled.ir(u, f, stage="scheduled")


def fixed_element(x, j):
    y = x * 1.0
    for i in range(len(x)):
        y[j] *= np.cos(x[i])
    return np.sum(y)


def fixed_element_behind_a_store(x, j):
    y, z = x * 1.0, x * 1.0
    for i in range(len(x)):
        z[i] = 2.0 * i
        y[j] *= np.cos(x[i])
    return np.sum(y) + np.sum(z)


@pytest.mark.parametrize("function", [fixed_element, fixed_element_behind_a_store])
def test_an_element_that_does_not_exist_is_not_read_before_the_loop(function):
    compiled, x = dlvm.jit(function), np.linspace(0.1, 0.9, 5)
    assert compiled(x, 3) == pytest.approx(function(x, 3), rel=1e-12)
    for call in (compiled, dlvm.grad(compiled)):
        with pytest.raises(IndexError):
            call(x, 10**13)
    with pytest.raises(IndexError):
        compiled(x[:1], 1)
    assert compiled(x[:0], 10**13) == 0.0


def from_the_end(a, b, z):
    """Two indices that may count from the end; of the second one, the axis is another one in each trip."""
    total, near, far = 0.0, z[0], z[1]
    for i in range(len(a)):
        row = b[: int(z[2] + 0.0 * total)]
        total += a[i - near] * row[i - far]
    return total


def sums_from_the_end(a, b, z):
    total, near, far = 0.0, z[0], z[1]
    for i in range(len(a)):
        total += a[i - near] * np.sum(b[i - far :])
    return total


@pytest.mark.parametrize("f", [from_the_end, sums_from_the_end])
def test_an_index_that_is_not_asked_for_before_the_loop_counts_from_the_end(f):
    """The version without checks is for those indices alone that are known to be in range."""
    a, b, compiled = np.arange(8.0), np.arange(40.0) + 1.0, dlvm.jit(f)
    for z in ([0, 1, 20], [0, 0, 20], [1, 0, 20], [0, 3, 20]):
        assert compiled(a, b, np.array(z)) == f(a, b, np.array(z))
    assert "'fast_loop" in compiled.ir(a, b, np.array([0, 1, 20]), stage="compute")


def both_ways(x, y, out):
    """Each way asks for y[i], at its own line."""
    low = high = 0.0
    for i in range(x.shape[0]):
        if x[i] < 0.5:
            low += y[i]
            out[0] = low
        else:
            high += 2 * x[i] * y[i]
    return low, high


@pytest.mark.parametrize("length", [0, 1, 6, 7, 40])
def test_ways_that_ask_alike(length):
    """What both ways ask first is a limit of the count; the way that is taken says which line raises."""
    f = dlvm.jit(both_ways)
    for seed in range(4):
        x, y = np.random.default_rng(seed).random(40), np.arange(float(length))
        ours, theirs = np.zeros(1), np.zeros(1)
        try:
            want, line = both_ways(x, y, theirs), None
        except IndexError as error:
            want, line = str(error), error.__traceback__.tb_next.tb_lineno
        try:
            got, note = f(x, y, ours), ""
        except IndexError as error:
            got, note = str(error), error.__notes__[0]
        assert got == want and ours == theirs
        assert line is None or note.endswith(f":{line}"), (note, line)
    text = f.ir(stage="compute")
    assert "check" not in text and text.count("raise IndexError") == 2


def remainders(x):
    """Sums and differences of remainders and small numbers, from both sides of the divisor."""
    a, b, c, d = 1, 0, 0, 6
    for i in range(len(x)):
        v = int(x[i])
        a = (a + v) % 256
        b = (b + a) % 257
        c = (c - (v & 63)) % 97
        d = (d + v % 7 - 3) % 7
    return a, b, c, d


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64])
def test_remainders_of_what_is_near(dtype):
    """A division is a choice only where once or never the divisor is taken off, or added."""
    for seed in range(5):
        x = np.random.default_rng(seed).integers(-300, 300, 200).astype(dtype)
        for n in (0, 1, 200):
            assert dlvm.jit(remainders)(x[:n]) == remainders(x[:n])


def remainders_by_both(values, p, out):
    """By a number that is the same in all trips, and by one that is not."""
    total = 0
    for i in range(len(values)):
        out[i] = values[i] % p
        total ^= int(values[i]) % int(out[i]) if out[i] != 0 else i
    return total


@pytest.mark.parametrize("p", [-1, 1, 2, -2, 3, -7, 10**12, 2**63 - 1, -(2**63), 1 - 2**63])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8])
def test_remainders_at_the_ends_of_the_range(p, dtype):
    info = np.iinfo(dtype)
    if not info.min <= p <= info.max:
        p = int(dtype(p & info.max)) or 5
    values = np.array([info.min, info.min + 1, -7, -1, 0, 1, 2, 9, info.max - 1, info.max], dtype)
    expected, found = np.empty_like(values), np.empty_like(values)
    assert dlvm.jit(remainders_by_both)(values, p, found) == remainders_by_both(values, p, expected)
    np.testing.assert_array_equal(found, expected)
    assert found.tolist() == [int(v) % p for v in values]


def carried(steps, h):
    """Numbers that a loop hands on, in more of them than calls would keep."""
    x, y, z, w, total = 1.0, 0.5, -1.0, 2.0, 0.0
    for _ in range(steps):
        x, y, z, w = x - h * y, y + h * x, z - h * w, w + h * z
        total += x * y - z * w
    return x, y, z, w, total


def test_what_loops_hand_on_stays_where_they_look_at_their_fuel():
    steps = 3_000_000  # more than the fuel of one poll
    assert dlvm.jit(carried)(steps, 1e-3) == carried(steps, 1e-3)


def beside_rare_ways(xs, h, function):
    """Numbers that share a vector, while a function of another one takes its rare way now and then."""
    x, y, z, w, total = 1.0, 0.5, -1.0, 2.0, 0.0
    for i in range(len(xs)):
        x, y, z, w = x - h * y, y + h * x, z - h * w, w + h * z
        if function == 0:
            total += math.log(xs[i])
        elif function == 1:
            total += math.exp(xs[i])
        elif function == 2:
            total += math.sin(xs[i])
        else:
            total += xs[i] ** 1.5
    return x, y, z, w, total


@pytest.mark.parametrize(("function", "rare"), [(0, 5e-324), (1, -745.0), (2, 1e300), (3, 5e-324)])
def test_rare_ways_leave_all_vectors_alone(function, rare):
    xs = np.ones(50)
    xs[20:22] = rare
    g = dlvm.jit(lambda xs, h: beside_rare_ways(xs, h, function))
    np.testing.assert_allclose(g(xs, 1e-3), beside_rare_ways(xs, 1e-3, function), rtol=1e-14)
