"""What the reverse sweep reads again, or finds kept already: arguments that last, numbers of a trip, joined factors."""

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

A = np.array([0.7, -1.3, 1.9, 0.4, -0.6, 1.1])


def differences(f, x, *rest, h=1e-6):
    """Central differences of a scalar function of an array or a number."""
    x = np.asarray(x, float)
    found = np.empty(x.shape)
    for k in np.ndindex(x.shape):
        ends = []
        for step in (h, -h):
            moved = x.copy()
            moved[k] += step
            ends.append(f(moved if x.shape else float(moved), *rest))
        found[k] = (ends[0] - ends[1]) / (2 * h)
    return found


def check(f, x, *rest):
    """The gradient in the first argument against differences of the plain function."""
    gradient = dlvm.grad(f, wrt=0)
    given = np.copy(x) if isinstance(x, np.ndarray) else x
    found = gradient(given, *rest)
    np.testing.assert_array_equal(given, x)
    np.testing.assert_allclose(found, differences(f, x, *rest), rtol=1e-6, atol=1e-8)


def pushes(f, x, dtype):
    """How many instructions of the gradient put numbers of a dtype on a tape."""
    text = dlvm.grad(f, wrt=0).ir(x)
    return sum(line.split("to")[0].strip().endswith(dtype) for line in text.splitlines() if " push " in line)


# -- arguments that last ---------------------------------------------------------------------------------


def chosen(a, k):
    """A product of elements, the next one chosen by the last."""
    if k == 0:
        return a[0]
    return a[k] * chosen(a, k - 1 if a[k] > 0 else k // 2)


def of_itself(a):
    return chosen(a, len(a) - 1)


def of_part(a):
    return chosen(a[1:], len(a) - 2)


def of_local(a):
    b = a * a
    found = chosen(b, 3)
    b[:] = 100.0
    return found + b[0]


def written_behind(a):
    found = chosen(a, 5)
    a[:] = 5.0
    return found * a[1]


def in_a_loop(a):
    total = 0.0
    for i in range(3):
        total += chosen(a[i:], 2)
    return total


def swapping(a, b, k):
    """Reads one array and writes the other one, in turns."""
    if k == 0:
        return a[0] * b[0]
    x = a[k]
    b[k - 1] = b[k - 1] * x
    return x * swapping(b, a, k - 1)


def of_swapped(a):
    return swapping(a, np.ones(6), 5)


def both(a, b, k):
    """Writes b, which callers may give as a."""
    if k == 0:
        return a[0]
    x = a[k]
    b[k - 1] *= 2.0
    return x * a[k - 1] * both(a, b, k - 1)


def of_one_twice(a):
    c = a.copy()
    return both(c, c, 4)


def of_argument_twice(a):
    return both(a, a, 4)


def deeper(a, k):
    b = a + 1.0
    found = chosen(b, k) if k < 3 else deeper(a, k - 1)
    b[0] = 3.0
    return found * a[k] * b[0]


def of_both_kinds(a):
    return deeper(a, 4) + chosen(a, 3)


@pytest.mark.parametrize("f", [
    of_itself, of_local, in_a_loop, of_swapped, of_argument_twice, *(
        pytest.param(f, marks=pytest.mark.slow) for f in (of_part, written_behind, of_one_twice, of_both_kinds)
    ),
])  # fmt: skip
def test_what_a_recursion_reads(f):
    """Whatever becomes of the memory: what the function was given, views, memory that is written before and behind."""
    check(f, A)


def test_elements_that_last_are_on_no_tape():
    """They are read again; where they are written behind the call they are kept."""
    assert pushes(of_itself, A, "f64") < pushes(of_local, A, "f64")


# -- numbers of a trip -------------------------------------------------------------------------------------


def several_blocks(x):
    """s is needed in a branch, ahead of it and behind it."""
    y = x
    while y < 9.0:
        s = np.sin(y)
        z = s * y
        if y > 2.0:
            z = z * s + 1.0
        y = y + z * s * s + 1.5
    return y


def left_in_the_middle(x):
    y = x
    while True:
        s = np.cos(y)
        y = y * s + 2.0
        if y > 6.0:
            break
        if s > 0.1:
            y = y + s * s * y
        y = y * 1.25 + s * s
    return y * s


def carried(x):
    """What the head of the loop has is another number in the next trip."""
    y, z = x, 1.0
    while y * z < 20.0:
        y, z = z * y + 1.0, np.sin(y) * np.sin(y) + z
        if z > 2.0:
            y = y * z * z
    return y * z


def nested(x):
    y = x
    while y < 30.0:
        s = np.exp(-y)
        k = 0
        while k < y:
            y = y + s * s * y / (k + 1.0)
            k += 3
        if y > 4.0:
            y = y * (1.0 + s * s)
        y = y * 1.5 + s * s
    return y


@pytest.mark.parametrize("f", [several_blocks, left_in_the_middle, carried, nested])
def test_blocks_of_a_trip(f):
    """The derivative, whichever blocks the trips run."""
    gradient = dlvm.grad(f)
    for x in (0.4, 2.9):
        np.testing.assert_allclose(gradient(x), differences(f, x), rtol=1e-6, atol=1e-8)


def test_a_number_of_a_trip_is_kept_once():
    """y, s and z are all that the reverse needs of a trip, for three blocks of it."""
    assert pushes(several_blocks, 0.4, "f64") <= 3


# -- factors from branches -----------------------------------------------------------------------------------


def factor_of_branches(a, x):
    total = 0.0
    k = 0
    while k < len(a):
        c = np.sin(x * total)
        w = a[k] if c > 0.0 else 1.0
        total += c * w + 0.3
        k += 1
    return total


def factors_that_meet(a, x):
    total = x
    for k in range(len(a)):
        if k % 3 == 0:
            w, v = a[k], x
        elif k % 3 == 1:
            w, v = 2.0, total
        else:
            w, v = x, a[0]
        total = total + total * w + v * x
    return total


@pytest.mark.parametrize("f", [factor_of_branches, factors_that_meet])
def test_factors_from_branches(f):
    """In both arguments, and in forward mode."""
    check(f, A, 0.3)
    check(lambda x: f(A, x), 0.3)
    value, tangent = dlvm.jvp(f, (A, 0.3), (A[::-1].copy(), 0.7))
    assert value == pytest.approx(f(A, 0.3), rel=1e-14)
    np.testing.assert_allclose(tangent, differences(lambda t: f(A + t * A[::-1], 0.3 + t * 0.7), 0.0), rtol=1e-6)


def test_seeds_of_ones_reach_products_through_views():
    """The derivatives of a sum of products of reshaped arrays are sums, as those of the product itself."""

    def kernel(a, c):
        rows, columns = a.shape[:2]
        a[:] = np.reshape(np.reshape(a, (rows, columns, 1, a.shape[2])) @ c, a.shape)
        return np.sum(a)

    rng = np.random.default_rng(2)
    a, c = rng.standard_normal((4, 3, 5)), rng.standard_normal((5, 5))
    g = dlvm.grad(kernel, wrt=("a", "c"))
    of_a, of_c = g(a.copy(), c)
    np.testing.assert_allclose(of_a, np.broadcast_to(c.sum(axis=1), a.shape), rtol=1e-12)
    np.testing.assert_allclose(of_c, np.broadcast_to(a.sum(axis=(0, 1))[:, None], c.shape), rtol=1e-12)
    assert " dot " not in g.ir(a, c, stage="scheduled")
