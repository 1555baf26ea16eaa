"""Arrays without axes and NumPy's numbers: which of the two a result is, and what it shares memory with."""

import numpy as np
import pytest
from indexing import check, check_gradient

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")


def what_gives_what(x):
    return (
        np.where(x > 0, x, 1.5), np.select([x > 0], [x], 0.0), np.copy(x), x.copy(), x.astype(int), x.real, x.imag,
        x.conj(), x.T, x.squeeze(), x.transpose(), x.reshape(()), np.reshape(x, ()), np.squeeze(x), np.transpose(x),
        x.clip(0, 1), np.round(x), x.view(np.int64), np.asarray(x), np.array(x, order="C"), x.ravel()[0],
        x.ravel()[..., 0], x[()], x[...], np.cov(x, bias=True), np.nan_to_num(x), +x, abs(x),
        np.tensordot(x, x, 0), np.dot(x, x), np.squeeze(x[None]), np.where(x > 0, x, 1.5) + 1,
        np.tensordot(x[None], x[None], 1), np.apply_along_axis(np.sum, 0, x[None]), np.sum(x),
        np.interp(x, [0, 1], [0, 1]),
    )  # fmt: skip


@pytest.mark.parametrize("x", [np.array(0.75), np.float64(0.75)], ids=["array", "number"])
def test_what_is_an_array_and_what_a_number(x):
    check(what_gives_what, x)


def of_pythons_numbers(x):
    return (
        np.where(x > 0, x, 1), np.copy(x), np.real(x), np.squeeze(x), np.transpose(x), np.clip(x, 0, 1), np.asarray(x),
        np.round(x), np.select([x > 0], [x]), np.cov(x, bias=True), np.flip(x),
    )  # fmt: skip


def with_another_name(x, c):
    a = np.where(c, x, 2.0)
    b = a
    b += 1
    a[...] = a * 2
    return a, b


def with_a_view(x, c):
    a = np.copy(x) if c else np.where(c, x, 0.5)
    v = a.reshape(1)
    v[0] = 5.0
    w = a[None]
    w *= 3
    return a, v


def copied(x, c):
    a = x.copy()
    a += 1
    b = a.astype(float)
    b += 1
    return a, b, x


def carried_by_a_loop(x, c):
    best = 0.0
    for v in (x, 2 * x, x - 1):
        if c:
            best = np.where(v > best, v, best)
    return best, best + 1


def a_number_on_one_path(x, c):
    y = np.float64(1)
    if c:
        y = np.where(x > 0, x, 0.0)
    return y, y * 2


def into(x, c):
    out, sums = np.zeros(()), np.ones(())
    return np.dot(x, 2.0, out=out), np.add(x, 1, out=sums), out, sums


def highest_in_a_loop(x, c):
    best = x * 0 - 1.5 if c else -1.5
    for k in range(4):
        v = np.sin(x + k)
        best = np.where(v > best, v, best)
    return best, best


def the_last_two(x, c):
    best, before = np.where(c, x, 0.5), np.where(c, 1.0, x)
    for k in range(3):
        if x > k:
            before, best = best, np.where(best > k, best - k, before)
    best += 1
    return best, before


def written_in_the_loop(x, c):
    a = np.where(c, x, 0.0)
    first = a
    for k in range(3):
        if k == 1:
            a[()] = a * 3
        elif c:
            a = np.where(a > k, a, k)
    a += 1
    return first, a


def written_by_another_name(x, c):
    a = np.where(c, x, 0.0)
    b = a
    for k in range(3):
        a = np.where(a > k, a + k, b)
        b = a
    b += 1
    return a, b


def a_view_of_the_last(x, c):
    a = np.where(c, x, 0.0)
    for k in range(3):
        a = np.where(a > k, a * 2, a)
    v = a.reshape(1)
    v[0] += 4
    return a, v[0]


def nothing_or_an_array(x, c):
    found, seen = None, False
    for k in range(3):
        if c and x > k:
            found = np.where(x > 1, k + 0.5, x)
    for k in range(2):
        seen = np.where(c, x > k, False)
    return found, seen


def kept_in_a_list(x, c):
    a, all_of_them = np.where(c, x, 0.0), []
    for k in range(3):
        all_of_them.append(a)
        a = np.where(c, a + k, x)
    return a, all_of_them[2]


def of_other_dtypes(x, c):
    n, z, h = np.where(c, 1, 2), np.where(c, 1j, 2), np.where(c, np.float32(1), np.float32(2))
    for k in range(3):
        n, z, h = np.where(c, n + k, n), np.where(x > k, z * 1j, z), np.where(h < 3, h + h, h)
    return n, z, h


CARRIED = [
    highest_in_a_loop, the_last_two, written_in_the_loop, written_by_another_name, a_view_of_the_last,
    nothing_or_an_array, kept_in_a_list, of_other_dtypes,
]  # fmt: skip
PROGRAMS = [*CARRIED, with_another_name, with_a_view, copied, carried_by_a_loop, a_number_on_one_path, into]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_memory_without_axes(fn):
    compiled = dlvm.jit(fn)
    for c in (True, False):
        got, want = compiled(np.array(3.0), c), fn(np.array(3.0), c)
        for g, w in zip(got, want, strict=True):
            assert type(g) is type(w) and g == w
            assert getattr(g, "dtype", None) == getattr(w, "dtype", None)


def test_loops_carry_numbers():
    """Memory is made where it is returned, and not in each trip."""

    def f(x):
        best = -1.0
        for v in x:
            best = np.where(v > best, v, best)
        return best

    x = np.array([0.5, 2.0, -1.0])
    assert str(dlvm.jit(f).ir(x)).count("allocateHeap") == 1
    got = dlvm.jit(f)(x)
    assert type(got) is np.ndarray and got == 2.0
    assert dlvm.jit(f)(x[:0]) == -1.0 and type(dlvm.jit(f)(x[:0])) is float


def test_pythons_numbers():
    check(of_pythons_numbers, 0.75)


def test_gradients_through_arrays_without_axes():
    def f(x, y):
        a = np.where(x > 1, x * y, y)
        b = a
        b *= x
        best = 0.0
        for k in range(3):
            best = np.where(a * k > best, a * k, best)
        c = np.copy(best)
        c += y**2
        return c.astype(np.float64) * a + np.select([x > 5, x > 2], [x, y], a)

    check_gradient(f, np.array(3.0), np.array(1.25))


@pytest.mark.parametrize("fn", CARRIED[:3], ids=lambda f: f.__name__)
def test_gradients_of_loops_that_carry_arrays_without_axes(fn):
    def f(x):
        a, b = fn(x, True)
        return a * 3 + b * x

    check_gradient(f, np.array(2.75), second=False)


def test_gradient_where_the_loop_begins_with_a_number():
    def f(x):
        best = -0.5
        for v in x:
            best = np.where(v > best, v * best + v * v, best)
        return best * 2

    check_gradient(f, np.array([0.3, -1.0, 1.25, 4.0]), second=False)


def test_round_of_an_array():
    with pytest.raises(dlvm.CompileError, match="__round__"):
        dlvm.jit(lambda x: round(x, 1))(np.array(1.25))


def gathered(x, n):
    found = []
    for k in range(n):
        found.append(np.where(x > k, x, k))
    total = 0.0
    for v in found:
        total += v
    return found, np.array(found), found[-1] if n else None, total, [v * 2 for v in found], len(found)


def in_tuples(x, n):
    found = []
    for k in range(n):
        found.append((k, np.copy(x), [x][0]))
    return found


@pytest.mark.parametrize("fn", [gathered, in_tuples], ids=lambda f: f.__name__)
def test_lists_of_arrays_without_axes(fn):
    for args in ((np.float64(1.5), 3), (np.float64(-1), 0)):
        check(fn, *args)


def test_an_array_that_was_appended_is_not_written():
    def f(x, n):
        y, found = np.where(x > 0, x, 1.0), []
        for _ in range(n):
            found.append(y)
            y += 1
        return found

    with pytest.raises(dlvm.CompileError, match="list"):
        dlvm.jit(f)(1.5, 3)


def test_gradient_through_a_list_of_arrays_without_axes():
    def f(x, n):
        found = []
        for k in range(n):
            found.append(np.where(x > k, x * k, x**2))
        return np.sum(np.array(found)) * found[1]

    check_gradient(f, np.array(1.3), 4, second=False)
