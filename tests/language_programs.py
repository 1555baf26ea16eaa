"""The language table as programs: one or more for every construct of docs/language.md that is supported.

Each runs in plain Python and compiled, with the same arguments; test_language.py compares values, classes, dtypes,
shapes, effects on the arguments, what is printed, exceptions and their messages, and gradients against differences.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import heapq
import itertools
import math
import operator
import sys
import warnings
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

WEIGHTS = np.array([0.5, -1.0, 2.0, 0.25])
STEPS = 3
SETTINGS = {"gain": 1.5, "order": 2}
TABLE = [0.5, 1.5, 2.5]


@dataclass(frozen=True)
class Program:
    """A function, the construct that it is an example of, and sets of arguments, fresh at every call."""

    construct: str
    fn: Callable
    cases: tuple[Callable[[], tuple], ...]
    grad: bool

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.fn.__name__


PROGRAMS: list[Program] = []


def language(construct: str, *cases: Callable[[], tuple], grad: bool = False) -> Callable:
    """Add the decorated function to PROGRAMS; `grad`: its gradient is compared with differences too."""

    def add(fn: Callable) -> Callable:
        PROGRAMS.append(Program(construct, fn, cases or (lambda: (),), grad))
        return fn

    return add


def vec(n: int, seed: int = 0) -> np.ndarray:
    """n floats in [0.2, 1.7)."""
    return np.random.default_rng(seed).uniform(0.2, 1.7, n)


def mat(m: int, n: int, seed: int = 0) -> np.ndarray:
    """An (m, n) array of floats in [-1, 1)."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (m, n))


# -- loops -------------------------------------------------------------------------------------------


@language("for: range", lambda: (5, 1), lambda: (5, 2), lambda: (5, -1), lambda: (0, 3), lambda: (3, 0))
def range_any_step(n, step):
    total = 0
    for i in range(n, -n, -1):
        total = total * 3 + i
    for i in range(-n, n, step):
        total += i
    return total


@language("for: array", lambda: (mat(3, 4),), grad=True)
def over_an_array(a):
    s = 0.0
    for row in a:
        for x in row:
            s += x * x
    return s


@language("for: tuple", lambda: (vec(3), 2.0), grad=True)
def over_a_tuple(x, y):
    s = 0.0
    for item in (x, y, 3):
        s = s + np.sum(item)
    return s


@language("for: enumerate, zip, reversed", lambda: (vec(4), vec(4, 1)), grad=True)
def enumerate_zip_reversed(x, y):
    s = 0.0
    for i, (a, b) in enumerate(zip(x, reversed(y), strict=True), start=1):
        s += i * a * b
    for i in reversed(range(1, 4)):
        s = s * 0.5 + i
    return s


@language("for: itertools", lambda: (mat(2, 3),), grad=True)
def over_products(x):
    total = 0.0
    for i, j in itertools.product(range(x.shape[0]), range(x.shape[1])):
        total += x[i, j] ** 2 * (i + 2 * j)
    for row, w, k in itertools.product(x, (2.0, 0.5), range(2)):
        total = total * 0.9 + w * row[k]
    return total


@language("for: itertools", lambda: (vec(3), 2))
def over_selections(x, n):
    pairs = [x[i] * x[j] for i, j in itertools.combinations_with_replacement(range(3), 2)]
    for i, j, k in itertools.product(range(2), repeat=3):
        n = n * 3 + i + j - k
    for p in itertools.permutations([1, 2, 4]):
        n = (n * 2 + p[0] * p[1]) % 1000
    for a, b in itertools.combinations((1, 2, 4), 2):
        n += a * b
    for y in itertools.chain((1, 2), [3.5]):
        n = n + y
    return pairs, n, list(itertools.permutations((1, 2)))


@language("for: zip of different lengths", lambda: (vec(4), vec(2)))
def zip_shortest(x, y):
    out = []
    for a, b, k in zip(x, y, range(9), strict=False):
        out.append(a * b + k)
    return out


@language("while", lambda: (0.3,), lambda: (7.0,), grad=True)
def while_loop(x):
    n = 0
    while x < 5.0:
        x = x * 1.7 + 0.1
        n += 1
    return x, n


@language("break, continue, else", lambda: (7,), lambda: (30,), lambda: (0,))
def loop_exits(n):
    found = -1
    for i in range(n):
        if i % 2:
            continue
        if i * i > 100:
            found = i
            break
    else:
        found = -2
    k = 0
    while True:
        k += 1
        if k > 4:
            break
    else:
        k = -1
    return found, k


@language("early return", lambda: (vec(5), 1.0), lambda: (vec(5), 9.0), grad=True)
def early_return(x, limit):
    for i in range(len(x)):
        if x[i] > limit:
            return x[i] * 2.0
    return np.sum(x)


# -- branches and conditions ----------------------------------------------------------------------------


@language("if, elif, else", lambda: (0.2,), lambda: (1.2,), lambda: (3.3,), grad=True)
def branches(x):
    if x < 0.5:
        y = x * x
    elif x < 2:
        y = 3.0 * x
    else:
        y = math.sin(x)
    return y


@language("conditional expressions", lambda: (0.2, 1), lambda: (1.2, 0), grad=True)
def conditional_expression(x, n):
    return (x * 2.0 if n else x * x) + (1.0 if x > 1 else 0.0)


@language("chained comparisons", lambda: (1, 2, 3), lambda: (3, 2, 1), lambda: (1, 1, 1))
def chained(a, b, c):
    return a < b < c, a <= b == c, (a < b) == (b < c), a != b != c


@language("and, or, not", lambda: (vec(3), 1), lambda: (vec(3), 5), lambda: (vec(3), 0))
def short_circuit(x, i):
    ok = i < 3 and bool(x[i] > 0.1)
    other = i or 7
    return ok, other, not i, i and int(10 * x[i if i < 3 else 0]), i >= 3 or bool(x[i] < 0)


@language("match on constants", lambda: (0, "a"), lambda: (1, "b"), lambda: (7, "c"))
def match_constants(n, mode):
    match n:
        case 0:
            r = 10
        case 1 | 2:
            r = 20
        case k if k > 5:
            r = k * 3
        case _:
            r = -1
    match mode:
        case "a":
            return r
        case "b":
            return r + 1
    return r + 2


@language("walrus", lambda: (vec(5),), grad=True)
def walrus(x):
    s = 0.0
    if (n := len(x)) > 3:
        s += n
    while (y := s * 0.5) > 1.0:
        s -= y * 0.3
    return s + x[0] * y


@language("pass, docstrings, annotations", lambda: (1.5,), grad=True)
def annotated(x: float, n: int = 2) -> float:
    """A docstring."""
    y: float = x * n
    z: int  # noqa: F842
    if y > 1:
        pass
    "a string that nobody reads"
    ...
    return y


PRIMES, MODES = frozenset((2, 3, 5, 7.5)), frozenset(("fast", "exact"))


@language("membership", lambda: (3, 7.5, "fast"), lambda: (4, 1.0, "slow"))
def members_of_sets(n, x, mode):
    inside = n in {1, 2, 3}, x not in {0.5, n, 7.5}, mode in {"fast", "slow"}, 1 < n in {3, 4}
    return inside, n in PRIMES, x in PRIMES, mode in MODES, (n, 1) in {(3, 1), (4, 2)}


@language("membership", lambda: (2,), lambda: (5,))
def membership(n):
    return n in (1, 2, 3), n not in [4, 5], "gain" in SETTINGS, n in range(3), n in range(9, 2, -2)


# -- assignment ------------------------------------------------------------------------------------------


@language("augmented assignment", lambda: (mat(3, 3), 2.0), grad=True)
def augmented(a, c):
    b = a
    b *= c
    a[1] += a[0]
    a[0, 1:] -= c
    a[2, 2] **= 2
    c /= 4.0
    n = 7
    n //= 2
    n %= 2
    return a * c + n


@language("tuples and lists stored in arrays", lambda: (vec(3), 3), grad=True)
def stored_tuples(x, n):
    a, whole = np.zeros((n, 3)), np.zeros(n, np.int64)
    b = np.zeros((2, 3))
    for i in range(n):
        a[i] = x[i], 2 * x[i], i
    whole[:2] = [1.7, -2.5]
    a[:, 1:] = [[5.0, x[1]]]
    b[...] = [x, (1, 2, x[0])]
    a[[0, 2]] = (7.0, 8.0, x[0])
    b[b > 1.5] = [9.0]
    return a, b, whole


@language("tuples and lists stored in arrays", lambda: (vec(3), 2), lambda: (vec(3), 1))
def stored_numbers_that_do_not_fit(x, k):
    a = np.zeros(3, np.int64)
    a[:k] = [1.0, np.nan * x[0]]
    return a


@language("unpacking", lambda: (vec(5), (1.0, 2.0)), grad=True)
def unpacking(x, pair):
    a, *rest, b = x[0], x[1], x[2], x[3]
    (c, d), e = pair, 4.0
    [f, g] = rest
    h, *_ = (*pair, e)
    p = q = c * d
    p, q = q + 1.0, p
    return a * b + c * d + f * g + h + p * q


@language("unpacking", lambda: (vec(2), mat(3, 2)), lambda: (vec(3), mat(3, 2)), grad=False)
def unpack_array(x, m):
    a, b = x
    r, s, t = m
    return a * b + r + s * t


@language("unpacking", lambda: (vec(5), 4), lambda: (vec(2), 2), lambda: (vec(1), 2), lambda: (vec(3), 1), grad=True)
def unpacking_of_computed_length(x, n):
    a, *b = x
    *c, d, e = x * 2.0 + a
    f, *g = range(n)
    grown = [v * v for v in x if v > 0.0]
    h, *i, j = grown + [1.0]
    for k, v in enumerate(b):
        a = a + (k + 1) * v
    b.append(x[0])
    return a + d * e + h * j + f, b, c, g, i


@language("del", lambda: (vec(3),), grad=True)
def deletes(x):
    y = x * 2.0
    z = np.sum(y)
    del y
    y = z * z
    return y


@language("global constants", lambda: (vec(4),), grad=True)
def global_reads(x):
    global STEPS, WEIGHTS
    s = 0.0
    for k in range(STEPS):
        s += np.sum(x * WEIGHTS) * TABLE[k] * SETTINGS["gain"]
    return s ** SETTINGS["order"]


# -- functions ---------------------------------------------------------------------------------------------


def helper_defaults(x, power=2, *more, scale=1.0, **named):
    total = x**power * scale
    for m in more:
        total = total + m
    for key in named:
        total = total * named[key]
    return total + len(named)


@language("default, keyword and variadic arguments", lambda: (1.5, 2.5), grad=True)
def calls_helper(x, y):
    extra = {"u": 2.0, "v": x}
    pair = (3, y)
    return (
        helper_defaults(x)
        + helper_defaults(x, 3, y, 1.0, scale=y)
        + helper_defaults(x, *pair, u=y)
        + helper_defaults(x, **extra)
        + helper_defaults(y, **{**extra, "scale": 3.0})
    )


@language("variadic parameters", lambda: (1.0, 2.0, 3.0), lambda: ())
def star_parameters(*xs):
    s = 0.0
    for x in xs:
        s += x
    return s, len(xs)


@language("nested functions, closures", lambda: (vec(4), 0.5), grad=True)
def nested(x, c):
    gain = 2.0

    def inner(y, k=3):
        return gain * y * c + k

    gain = 3.0
    square = lambda v: v * v  # noqa: E731

    def apply_twice(f, v):
        return f(f(v))

    return apply_twice(square, inner(np.sum(x))) + inner(c, k=1)


def make_polynomial(a, b):
    def polynomial(x):
        return a * x * x + b

    return polynomial


@language("closures that are returned", lambda: (1.2, 0.4), grad=True)
def returned_closure(x, a):
    p, q = make_polynomial(a, 2.0), make_polynomial(3.0, a)
    return p(x) + q(p(x))


@language("functions passed as arguments", lambda: (math.sin, helper_defaults, 1.1), grad=False)
def takes_functions(f, g, x):
    return f(x) + g(x)


@language("recursion", lambda: (6, 1.1), grad=True)
def recursion(n, x):
    if n <= 1:
        return x
    return x * recursion(n - 1, x) + 0.1


def is_even(n, x):
    return x if n == 0 else is_odd(n - 1, x * 1.1)


def is_odd(n, x):
    return -x if n == 0 else is_even(n - 1, x + 0.5)


@language("mutual recursion", lambda: (6, 1.1), lambda: (7, 1.1), grad=True)
def mutual_recursion(n, x):
    return is_even(n, x)


def _halved(f, a, b, n):
    if n == 0:
        return f((a + b) / 2) * (b - a)
    return _halved(f, a, (a + b) / 2, n - 1) + _halved(f, (a + b) / 2, b, n - 1)


@language("recursion of functions that take functions", lambda: (vec(2), 1.5, 2), lambda: (vec(2), 0.5, 0), grad=True)
def recursion_with_a_function(x, c, n):
    return _halved(lambda t: x[0] * t + c * x[1], 0.0, c, n)


@language("recursion of nested functions", lambda: (vec(7), 1.5, 2), lambda: (vec(2), 0.5, 0), grad=True)
def nested_recursion(x, c, n):
    out = np.zeros(len(x))

    def visit(i, depth=1.0):
        if i >= len(x):
            return 0.0
        out[i] = x[i] * depth * c
        return float(out[i]) + visit(2 * i + 1, depth + 1) * c + visit(2 * i + 2, depth + 1)

    def even(k, a):
        return a * c if k == 0 else odd(k - 1, a)

    def odd(k, b):
        return -c if k == 0 else even(k - 1, b * 2.0) + float(x[k])

    fib = lambda c: c if c < 2 else fib(c - 1) + fib(c - 2)  # noqa: E731 - its own c
    return visit(0), out, even(n, c), fib(n)


def adaptive(f, a, b, tolerance):
    """The integral of f by Simpson's rule, halved where it is not exact enough."""

    def simpson(a, fa, b, fb):
        m = 0.5 * (a + b)
        fm = f(m)
        return m, fm, (b - a) / 6 * (fa + 4 * fm + fb)

    def refine(a, fa, b, fb, eps, whole, m, fm):
        lm, flm, left = simpson(a, fa, m, fm)
        rm, frm, right = simpson(m, fm, b, fb)
        if abs(left + right - whole) <= 15 * eps:
            return left + right
        return refine(a, fa, m, fm, eps / 2, left, lm, flm) + refine(m, fm, b, fb, eps / 2, right, rm, frm)

    fa, fb = f(a), f(b)
    m, fm, whole = simpson(a, fa, b, fb)
    return refine(a, fa, b, fb, tolerance, whole, m, fm)


@language("recursion of nested functions", lambda: (2.0, 1.5), grad=True)
def integral(a, b):
    return adaptive(lambda t: math.exp(-t * t) * a, 0.0, b, 1e-6)


# -- raise and assert ----------------------------------------------------------------------------------------


class SolverError(ValueError):
    """An exception of the user's own."""


@language("raise", lambda: (0,), lambda: (1,), lambda: (2,), lambda: (3,), lambda: (4,), lambda: (5,))
def raises(n):
    buffer = np.zeros(100)
    buffer[0] = n
    if n == 0:
        raise ValueError(f"n is {n}, and half is {n / 2:.3f}")
    if n == 1:
        raise SolverError("no convergence")
    if n == 2:
        raise RuntimeError
    if n == 3:
        raise KeyError("name")
    if n == 4:
        raise ArithmeticError(f"{n:>5d}|{n * 1.5:8.2e}|{n!r}|{n == 4}|{{}}")
    return buffer[0]


@language("assert", lambda: (vec(3), 1.0), lambda: (vec(3), -1.0), lambda: (vec(0), 1.0), lambda: (vec(3), 99.0))
def asserts(x, c):
    assert len(x) > 0
    assert c > 0, f"c must be positive, got {c}"
    assert np.sum(x) < 50 and c < 50, f"too large: {x[0]:.2f} {c}"
    return c


@language("f-strings", lambda: (3, 1.25))
def f_strings(n, x):
    name = f"run{STEPS}"
    if n == 3:
        raise ValueError(f"{name}: {n=} {x:10.4f} {(n, x)} {'text'!r:>8}")
    return x


@language("f-strings", lambda: (np.array([1.5, 2.5]), 3), lambda: (np.array([1.5, 2.5], np.float32), 0))
def texts(x, n):
    shown = f"{x!r:>30}|" + str(x[0]) + "," + repr(x[0])
    x[0] = 7
    if n:
        raise ValueError(f"{shown} {x} {n} {n:03d} {x[1]} {x[1]:.2e} {[x[0], n]}")
    assert not x[0], shown
    return x


@language("f-strings", lambda: (1.0 / 3, 255, vec(2)), lambda: (np.float32(0.1), np.int16(-7), [1.5, 2]))
def older_formats(x, n, v):
    whole, real = "%d|%5d|%-5d|%05d|%+d|%x|%#X|%%|%s|%r", "%f|%.3f|%8.2e|%-9.3g|%+.1f|%08.3f|% g|%10s|%-8s|%.4s"
    a = whole % (n, n, n, n, n, n, n, x, v)
    b = real % (x, x, x, x, n, x, x, x, n, v[0])
    fields, plain = "{1!r:>9} {0:.3f} {name:>5d}", "{} {}"
    c = fields.format(x, n, name=n) + plain.format(v, "{n}")
    if n:
        raise ValueError(a + b + c)
    return x


@language("print", lambda: (vec(3), 2, 0.1), lambda: (vec(4).astype(np.float16), 1, np.complex64(1j)), grad=True)
def prints(x, n, c):
    print("start", x, n, c, sep=", ", end=";\n")
    s = x[0] * 1
    for i in range(n):
        s = s * x[i + 1]
        print(f"{i:>3d}: {s} {s!r}", x[i] > 1, file=sys.stderr)
    growing = [i * 0.5 for i in x]
    print((x[0], n), [x, None], {"gain": c}, Pair(x[0], n), State(x, c), x + 1, x[::2], growing, flush=True)
    print()
    return s


@language("warnings", lambda: (vec(3), 2), lambda: (vec(3), 0), grad=True)
def warns(x, n):
    s = x[0]
    for i in range(n):
        s = s * x[i + 1]
        warnings.warn(f"step {i}: {s}", RuntimeWarning)  # noqa: B028 - the level is 1
    if n == 0:
        warnings.warn("nothing to do", stacklevel=2)
    return s


def power(x, n, scale=1.0):
    return scale * x**n


cubed = functools.partial(power, n=3, scale=0.5)


@language("partial functions", lambda: (vec(3),), grad=True)
def partials(x):
    of_first = functools.partial(power, x[0])
    return cubed(x) + of_first(2) + of_first(n=3, scale=2.0) + cubed(x, scale=x[1])


@language("random generators", lambda: (vec(3), np.random.default_rng(5)))
def draws(x, rng):
    noise = rng.normal(x[0], 0.1, size=3)
    if rng.integers(2) == 0:
        noise[1] = x[1] * rng.random()
    return (x * noise)[rng.permutation(3)], np.random.default_rng(7).random()


# -- try ---------------------------------------------------------------------------------------------------


@language("try, except, else", lambda: (vec(4), 1, 2), lambda: (vec(4), 9, 2), lambda: (vec(4), -2, 0), grad=True)
def clauses(x, i, n):
    total = float(np.sum(x * x))
    try:
        total += float(x[i])
        total += 10 // n
    except (IndexError, ValueError) as e:
        print("no", e)
        total = -total
    except ZeroDivisionError:
        total = total * 100  # what was assigned before stays
    else:
        total += 1000
    return total


@language("try, except, else", lambda: (vec(6), 3), lambda: (vec(3), 5), lambda: (np.full(4, 0.5), 9), grad=True)
def in_loops(x, n):
    total, k = 0.0, 0
    while True:
        try:
            if x[k] < 0.4:
                k += 1
                continue
            total += float(x[k]) / (k - n)
        except ZeroDivisionError:
            total += 1.0
        except IndexError as e:
            print(e)
            break
        k += 1
    try:
        for j in range(2 * n):
            total += float(x[j] * x[j])
    except IndexError:
        pass
    return total, j


def checked(values, k, place):
    """Raises what its arguments say."""
    if k < 0:
        raise KeyError("negative")
    if k > 5:
        raise SolverError(f"{k} is too large at {place}")
    return float(values[k]) * 2


@language("try, except, else", lambda: (vec(4), 1), lambda: (vec(4), -1), lambda: (vec(4), 4), lambda: (vec(4), 7))
def raised_in_calls(x, k):
    out, seen = [], {"at": 0.5}
    try:
        out.append(checked(x, k, "first"))
        seen["at"] = 1.5
        out.append(checked(x, k + 2, "second"))
        seen["at"] = 2.5
    except LookupError:
        out.append(-5.0)
    except ValueError as e:
        print(f"[{e}]")
    return out, seen["at"]


@language("try, except, else", lambda: (vec(4), vec(4)), lambda: (vec(4), vec(3)), lambda: (vec(4), vec(1)))
def around_arrays(x, y):
    try:
        z = np.exp(x) * 2 + y
        assert np.sum(z) > 0, "no"
    except:  # noqa: E722
        z = x - 1
    return z


@language("finally", lambda: (vec(4), 0), lambda: (vec(4), 1), lambda: (vec(4), 2), lambda: (vec(4), 9), grad=True)
def cleaned_up(x, i):
    for k in range(3):
        try:
            x[0] = x[0] * 2.0
            if k == i:
                break
            if i == 2:
                continue
            if k == 1:
                return float(x[i] + x[1])
        finally:
            x[1] += x[0]
    return float(x[2] + x[1])


@language("finally", lambda: (vec(4), vec(4), 2), lambda: (vec(4), vec(4), 3))
def augmented_only_there(x, y, k):
    s = 1.0
    try:
        s *= 1.0 / (k - 2)
    except ZeroDivisionError:
        y = y * 2.0
    else:
        y = x
    finally:
        y += 1.0
    return s


REGULAR, SINGULAR = np.array([[2.0, 0.5], [0.5, 1.5]]), np.array([[1.0, 2.0], [2.0, 4.0]])


@language(
    "try around linear algebra",
    lambda: (REGULAR.copy(), vec(2), []),
    lambda: (SINGULAR.copy(), vec(2), [np.float64(1.0)]),
    lambda: (-REGULAR, vec(2), []),
    lambda: (np.full((2, 2), np.nan), vec(2), []),
    grad=True,
)
def solves_or_not(a, b, log):
    try:
        x = np.linalg.solve(a, b)
        log.append(x[0])
        total = np.sum(np.linalg.cholesky(a) @ x)
    except np.linalg.LinAlgError as e:
        log.append(np.float64(2.0))
        print(f"{e}", repr(e))
        return b[0] * 2.0
    finally:
        print(len(log))
    return total + np.linalg.inv(a * x[0])[0, 1]


@language(
    "try around linear algebra", lambda: (np.stack([REGULAR, SINGULAR, -REGULAR]),), lambda: (REGULAR[None] + 1j,)
)
def inverses_of_many(stack):
    try:
        return np.linalg.inv(stack), True
    except (ZeroDivisionError, ValueError, np.linalg.LinAlgError):
        return stack, False


@language("raise again", lambda: (0, 2.5), lambda: (1, -1.0), lambda: (2, 0.5), lambda: (3, 0.5))
def exceptions_that_say_what_they_are(n, x):
    try:
        if n == 1:
            raise ValueError(f"it's {x} and {n:3d}")
        if n == 2:
            raise IndexError("plain")
        return 1 // n
    except (ZeroDivisionError, ValueError) as e:
        print(str(e), repr(e), f"{e!r}", type(e).__name__, isinstance(e, ArithmeticError))
        raise RuntimeError(f"bad: {e}") from e
    except LookupError as e:
        print(f"{type(e).__name__}: {e}")
        return -1


@language("raise again", lambda: (vec(4), 1), lambda: (vec(4), 2), lambda: (vec(4), 9))
def raised_again(x, i):
    try:
        try:
            x[i] = 7.0
            x[i + 2] = 8.0
        except IndexError as e:
            x[0] = 99.0
            if i < 4:
                raise ValueError(f"bad: {e}") from None
            raise
        finally:
            x[1] = -1.0
    except ValueError as e:
        x[2] = -2.0
        raise e
    return x


@language("try, except, else", lambda: (1.5,), lambda: (math.nan,), lambda: (math.inf,))
def bound_on_some_paths(v):
    try:
        n = int(v)
    except ValueError:
        pass
    return n


@language("None or a value", lambda: (vec(4), 1.0), lambda: (vec(4), 9.0), lambda: (vec(0), 0.0))
def finds_or_not(x, limit):
    def first_above(y):
        for i in range(len(y)):
            if y[i] > limit:
                return i

    k, best, place = first_above(x), None, None
    for i, v in enumerate(x):
        if best is None or v > best:
            best, place = v, i
    if place is not None:
        place += 10
    after = 0.0 if k is None else x[k] * 2.0
    assert k is None or isinstance(k, int), "an index"
    return k, best, place, after, first_above(x) is None, (first_above(x), None if place is None else [place, best])


@language("values of several kinds", lambda: (mat(2, 3), 2), lambda: (mat(0, 3), 0), lambda: (mat(2, 3), 1), grad=True)
def changes_its_kind(a, n):
    total, scale = 0.0, 1.0
    for row in a:
        total = total + row * scale
        scale = 0.5 * total if n > 1 else scale
    if n > 2:
        total[0] = 1.0
    return total


@language("sets", lambda: (np.array([3, 1, 3, 7]), 1), lambda: (np.arange(90) % 37 * 2**32, 5))
def sets_of_ints(a, n):
    seen, out = set(), []
    for v in a:
        if v not in seen:
            seen.add(v)
            out.append(v)
    u = seen - {7, n}
    order = [v for v in {9, 3, 5}] + list(set(range(3)) - {1})
    return sorted(u), len(seen), u <= seen, isinstance(u, set), out, order


@language("sets", lambda: (np.array([0.5, -0.0, 0.0, 1e300, 0.5, np.inf]),))
def sets_of_floats_and_tuples(x):
    floats, pairs = set(x), {(1, 2)}
    for i in range(len(x)):
        pairs.add((i % 2, i % 3))
    pairs.discard((1, 1))
    return sorted(floats), len(pairs), (1, 1) in pairs, {2.0, 3.0} == {3.0, 2.0}


@language("sets", lambda: (vec(4), 9), lambda: (vec(4), 2), grad=True)
def sets_in_tries(x, n):
    a, b = set(), {0.5}
    total = 0.0
    for k in range(n):
        a.add(k * 0.5)
        if len(a) > len(b):
            a, b = b, a
    try:
        a.remove(3.0)
        total += len(a)
    except KeyError:
        total -= x[1]
    for k in sorted(a | b):
        total += k * x[0] * x[len(a & b)]
    return total


@language("dicts with computed keys", lambda: ([3, 1, 3, 7], 3), lambda: ([], 2), lambda: ([5, 4, 4, 8], 9))
def counts_of_ints(items, n):
    counts, first = {}, {}
    for k, v in enumerate(items):
        counts[v] = counts.get(v, 0) + 1
        first.setdefault(v, k)
    squares = {(k, k % 2): k * 0.5 for k in range(n)}
    squares.update({(1, 1): 9.0, (9, 9): 1.5})
    most = max(counts, key=counts.get) if counts else None
    rows = [k * v for k, v in counts.items()] + list(counts) + sorted(first.values())
    try:
        found = counts[n]
        del counts[n]
        counts[n] = -found
    except KeyError:
        found = len(counts)
    left = {k: v for k, v in squares.items() if k[0] != 1}
    return counts, first, squares, most, rows, found, n in counts, left.pop((0, 0)), left, squares[n - 1, 0]


@language("dicts with computed keys", lambda: (vec(5), 3), lambda: (vec(4), 2), grad=True)
def sums_by_key(x, n):
    sums, rows = {}, {}
    for i in range(len(x)):
        sums[i % n] = sums.get(i % n, 0.0) + x[i] * x[i]
        if i % 2 not in rows:
            rows[i % 2] = np.zeros(len(x))
        rows[i % 2] += x * x[i]
    total = sum(sums.values())
    for k in sums:
        total += k * sums[k] ** 2
    return total + np.sum(rows[0] * rows[1]), max(sums.values())


@language(
    "dicts with computed keys as arguments",
    lambda: ({7: -1.0, 1: 2.0}, [1, 6, 1], 2.0),
    lambda: ({1: 2.0}, [1], 2.0),
    lambda: ({3: 1.0}, [2], 2.0),
    grad=True,
)
def changes_dict_with_computed_keys(d, keys, x):
    total = 0.0
    for k in keys:
        if k in d:
            d[k] *= math.sin(x * d[k])
        else:
            d[k] = x
        total += d[k] * d.get(k + 1, x)
    other = d
    del other[1]
    other[1] = x
    return total, len(d)


def fibonacci_like(k, x, memo):
    if k in memo:
        return memo[k]
    memo[k] = x[k] if k < 2 else fibonacci_like(k - 1, x, memo) * x[2] + fibonacci_like(k - 2, x, memo)
    return memo[k]


@language("recursion that changes lists and dicts", lambda: (vec(3), 6), lambda: (vec(3), 1), grad=True)
def memoized(x, n):
    memo, path = {}, []

    def climb(k):
        path.append(k)
        return x[0] if k == 0 else x[1] * climb(k - 2 if k > 1 else 0)

    return fibonacci_like(n, x, memo) + climb(n), float(len(memo)), len(path) * x[0]


def quicksorted(items):
    if len(items) < 2:
        return items
    pivot = items[0]
    low, high = [v for v in items[1:] if v < pivot], [v for v in items[1:] if v >= pivot]
    return quicksorted(low) + [pivot] + quicksorted(high)


@language("recursion that changes lists and dicts", lambda: (vec(7), 3), lambda: (vec(0), 0))
def recursive_lists(x, n):
    moves, seen = [], set()

    def hanoi(k, a, b, c):
        if k:
            hanoi(k - 1, a, c, b)
            moves.append((a, c))
            hanoi(k - 1, b, a, c)

    def visit(k):
        if k in seen or k > 20:
            return 0
        seen.add(k)
        return 1 + visit(2 * k + 1) + visit(3 * k)

    hanoi(n, 0, 1, 2)
    return quicksorted([float(v) for v in x]), moves, visit(n), sorted(seen), seen


@language("values of several kinds", lambda: (vec(3), 2), lambda: (vec(3), 1), lambda: (vec(3), 0))
def several_kinds(x, n):
    f = math.sin if n > 1 else math.cos
    v = np.array([1, 2, 2])
    for k in range(n):
        v = v / np.sqrt(v.dot(v)) + k
    a, b = [float(x[0])], [float(x[1]), 3.0]
    one = a if n > 1 else b
    one.append(f(x[2]))
    while len(one) < 4:
        one += [0.5]
    found = {"sum": sum(one)} if n else {"none": "at all"}
    return v, a, b, found, n > 1 and x > 1.0, x if n == 1 else None if n else "empty"


# -- lists -------------------------------------------------------------------------------------------------


@language("list comprehensions", lambda: (vec(4), 3), grad=True)
def comprehensions(x, n):
    squares = [v * v for v in x]
    table = np.array([i * x[0] for i in range(n)])
    odd = [v for v in x if v > 0.5]
    pairs = [a * b for a in x for b in (1.0, 2.0)]
    static = [k + 1.0 for k in (x[0], x[1])]
    return np.sum(np.array(squares)) + np.sum(table) + sum(odd) + sum(pairs) + static[1]


@language("list comprehensions", lambda: (vec(4), 3))
def comprehension_results(x, n):
    return [v * v for v in x], [i for i in range(n)], [float(v) for v in x if v > 0.5], [(k, k + 1) for k in (1, 2)]


@language("generator expressions", lambda: (vec(4), 3), lambda: (vec(4), 0), grad=True)
def generators(x, n):
    s = sum(v * v for v in x) + sum(i * x[0] for i in range(n))
    big = max(v * 2.0 for v in x) + min(v for v in x)
    return s + big


def steps(u, dt, n):
    """Euler's steps of u' = -sin(u)."""
    for k in range(n):
        u = u - dt * np.sin(u)
        yield k * dt, u


def told(n, out):
    """Numbers, and a list of what has been done with them."""
    out.append(-1)
    try:
        for k in range(n):
            out.append(k)
            yield k
            out.append(10 * k)
    finally:
        out.append(-2)


@language("generator functions", lambda: (vec(3), 6), lambda: (vec(3), 2), grad=True)
def loops_over_a_generator(x, n):
    total = 0.0
    for i, (t, u) in enumerate(steps(x, 0.1, n), 1):
        if i == 2:
            continue
        if t > 0.35:
            break
        total += t * np.sum(u)
    else:
        total *= 2.0
    return total


@language("generator functions", lambda: (4, 2), lambda: (4, 9), lambda: (0, 0))
def generators_run_as_far_as_they_are_read(n, m):
    out = []
    for k in told(n, out):
        if k == m:
            break
    else:
        out.append(100)
    found = any(k == m for k in told(n, out)), m in told(n, out), next(told(n, out), -7)
    for k, v in zip(range(m), told(n, out), strict=False):
        out.append(k * v)
    for v in itertools.islice(told(n, out), 1, 3):
        out.append(v)
    return out, found


@language("generator functions", lambda: (4, 2), lambda: (4, 3), lambda: (4, 9))
def ways_out_of_generators(n, m):
    out = []

    def search():
        for k in told(n, out):
            if k == m:
                return k
        return -1

    def guarded():
        try:
            yield from told(n, out)
            yield 6 // (m - 3)
        except ZeroDivisionError:  # of its own code, not of the loop's
            yield 77

    found = search()
    try:
        for v in guarded():
            out.append(12 // (v - 2))
    except ZeroDivisionError as e:
        out.append(len(str(e)))
    return out, found


@language("generator functions", lambda: (vec(4), 3), grad=True)
def generators_of_generators(x, n):
    total = 0.0

    def scaled(items, c=2.0, *more):
        nonlocal total
        for v in items:
            total += v
            yield v * c + len(more)

    first, *rest = scaled((u + 1.0 for u in x if u > 0.3), n, 1, 2)
    doubled = (v * total for v in scaled(x))
    return first * sum(rest) + sum(doubled) + max(scaled(scaled(x)), key=lambda v: v % 1.0)


@language("for: itertools", lambda: (vec(5), 7), lambda: (vec(5), 0), grad=True)
def over_streams(x, n):
    total = 0.0
    for a, b in itertools.pairwise(x):
        total = total * 0.9 + a * b
    for k, v in zip(range(n), itertools.cycle(x), strict=False):
        total += k * v
    sums = itertools.takewhile(lambda s: s < 3.0, itertools.accumulate(x))
    return total + sum(itertools.chain(x, sums)) + sum(v for v in itertools.islice(x, 1, None, 2))


@language("generator expressions", lambda: (vec(4), 0.1), lambda: (vec(4), 5.0))
def any_all_generators(x, c):
    return any(v > c for v in x), all(v > c for v in x), any(x > c), all([c > 1, x[0] > c])


@language("lists that grow", lambda: (vec(4), 5), lambda: (vec(4), 0), grad=True)
def growing_list(x, n):
    out = []
    for i in range(n):
        out.append(x[i % 4] * i)
        out.append(1.0)
    s = 0.0
    for v in out:
        s += v * v
    if len(out) > 2:
        s += out[-1] * out[2]
    a = np.array(out + [x[0]])
    return s + np.sum(a * a)


@language("lists that grow", lambda: (0.5, 6), lambda: (0.5, 0), grad=True)
def trajectory(y, n):
    ts, ys = [0.0], [y]
    t = 0.0
    while len(ts) <= n:
        y = y + 0.1 * math.sin(y)
        t += 0.1
        ts.append(t)
        ys.append(y)
    return np.array(ys), np.asarray(ts)


@language("lists that grow: rows", lambda: (vec(3), 4), lambda: (vec(3), 0), grad=True)
def trajectory_of_rows(u, n):
    history = [u]
    for _ in range(n):
        u = u + 0.1 * np.sin(u)
        history.append(u)
    return np.array(history)


@language("lists that grow: rows", lambda: (vec(3), 4), grad=True)
def rows_in_place(u, n):
    history = []
    for _ in range(n):
        u[1:] += 0.1 * u[:-1]
        history.append(u.copy())
    last = history[-1]
    total = 0.0
    for row in history:
        total += np.sum(row * last)
    return np.stack(history), total


@language("lists of lists that grow", lambda: (vec(3), 3), grad=True)
def table_of_sums(x, n):
    table = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            table[i][j] = x[i] * x[j] + table[i - 1][j]
    return np.array(table), sum(table[n - 1])


@language("list methods", lambda: (vec(4), 4), lambda: (vec(4), 0), grad=False)
def list_methods(x, n):
    stack = [x[0]]
    for i in range(n):
        stack.append(x[i])
        if i % 2:
            stack.pop()
    stack.extend(x)
    stack[0] = x[1] + 5.0
    stack += [x[2], x[3]]
    top = stack.pop()
    fixed = [1, 2, 3]
    fixed.append(4)
    fixed.insert(0, 9)
    fixed.reverse()
    fixed[1] = 7
    alias = fixed
    alias.append(5)
    return stack, top, len(stack), fixed, len(fixed), sum(fixed), max(fixed), min(stack)


@language("list methods", lambda: (5,), lambda: (0,))
def work_list(n):
    work, total = [0.0], 0.0
    while work:
        v = work.pop()
        total += v
        if total < n:
            work.append(v + 1.0)
        if v == 2.0:
            work.append(0.5)
    empty = {}
    return total, not work, bool(empty), isinstance(work, list), isinstance(empty, dict), 1 if [0] else 2


@language("list methods", lambda: (3,), lambda: (0,))
def pops_from_empty(n):
    items = []
    for i in range(n):
        items.append(i)
    for _ in range(2):
        items.pop()
    return items


@language("lists: run-time index", lambda: (vec(3), 1), lambda: (vec(3), -1), lambda: (vec(3), 7))
def list_indexed(x, i):
    values = [x[0], 2.0 * x[1], x[2]]
    values[0] = values[i] + 1.0
    names = (10, 20, 30)
    return values[i], names[i], values


@language("lists of arrays", lambda: (mat(3, 3), mat(3, 3, 1), vec(3)), grad=True)
def layers(w1, w2, x):
    weights = [w1, w2]
    biases = [x * 0.5, np.ones(3)]
    for w, b in zip(weights, biases, strict=True):
        x = np.tanh(w @ x + b)
    for k in range(len(weights)):
        x = x + weights[k] @ x
    weights[0] = weights[1]
    return x + weights[0][0]


@language("list arguments", lambda: ([vec(3), vec(3, 1)], [1.0, 2.0]), grad=True)
def list_arguments(arrays, factors):
    total = 0.0
    for a, f in zip(arrays, factors, strict=False):
        total += np.sum(a * a) * f
    return total


@language(
    "lists of the caller that change",
    lambda: ([1.5, 2.0], 3.0, 4),
    lambda: ([], 2.5, 3),
    lambda: ([1.5], -1.0, 0),
    lambda: ([2.0], 0.0, 2),
    grad=True,
)
def grown_for_the_caller(xs, y, n):
    for k in range(n):
        xs.append(y * y + k)
        if 1.0 / y > 1e9:
            raise ValueError("not reached: 1 / 0 comes first")
    if n == 0:
        xs[0] = xs[0] * y
        raise ValueError(f"{len(xs)} items, {y}")
    return sum(xs) * y


def squared_onto(items, v):
    items.append(v * v)
    if v > 10:
        raise OverflowError(f"{v:.1f} is large")


@language(
    "lists of the caller that change",
    lambda: ([[1.0], [2, 3.5], None, ("ab", [4.0])], 2.0),
    lambda: ([[1.0], [0, 3.5], None, ("ab", [])], 30.0),
)
def changes_nested_lists(rows, y):
    first, again = rows[0], rows
    squared_onto(first, y - 1.0)
    rows[1][0] += 4
    again.append([y, rows[1]])
    rows.insert(0, y)
    del rows[2]
    rows[3][1].append(y)
    squared_onto(rows[1], y)
    rows.reverse()
    return rows[1], len(again)


@language("lists of the caller that change", lambda: ([3.0, 1.5], 0), lambda: ([3.5, 1.0], 2), lambda: ([1.0], 5))
def rearranged_for_the_caller(xs, k):
    try:
        xs.sort(reverse=True)
        xs += [10.0 // (k - 2)]
        xs[k] += k
    except ZeroDivisionError:
        xs.append(-1.0)
        return xs
    finally:
        xs.extend((0.5, 1.0 * k))
    xs.pop(0)
    return xs


@language("list results", lambda: (vec(3), 2))
def list_results(x, n):
    return [x * 2.0, x[0]], [n, [n + 1, 2.5]], [[1.0 * k for k in range(n)], []]


# -- dicts, named tuples, dataclasses ------------------------------------------------------------------------


@language(
    "dicts of the caller that change",
    lambda: ({"a": 1.5, "u": vec(2), "mode": "x", "in": {"n": 1}}, 2.0),
    lambda: ({"a": 0.0, "u": vec(2), "mode": "x", "in": {"n": 4}}, 2.0),
    grad=True,
)
def changes_dicts(d, y):
    d["b"] = d["a"] * y
    d["in"]["n"] += 1
    for k in range(3):
        d["a"] += d["b"] * k
    d["u"][0] *= y
    d["c"] = d["u"] * (1.0 / d["a"])
    d.pop("mode")
    return d["a"] * d["c"][0]


class Particle(NamedTuple):
    position: np.ndarray
    mass: float = 1.0


Pair = namedtuple("Pair", "first second")


@dataclass
class State:
    u: np.ndarray
    t: float = 0.0
    n: int = 0

    def energy(self):
        return np.sum(self.u**2) * 0.5

    @property
    def half(self):
        return self.t * 0.5


@dataclass(frozen=True)
class Model:
    weights: dict
    layers: tuple
    rate: float = 0.1


@dataclass
class Checked:
    value: float
    twice: float = field(default=0.0)

    def __post_init__(self):
        if self.value < 0:
            raise ValueError(f"negative: {self.value}")
        self.twice = 2.0 * self.value


@language("dicts", lambda: (vec(3), 2.0), grad=True)
def dicts(x, c):
    d = {"x": x, "c": c}
    d["y"] = d["x"] * d["c"]
    d["c"] += 1.0
    same = d
    same["z"] = 4.0
    s = 0.0
    for key, value in d.items():
        s = s + np.sum(value) * len(key)
    for key in d:
        s = s + np.sum(d[key]) * 0.5
    return s + len(d) + d.get("missing", 3.0) + sum(np.sum(v) for v in d.values())


@language("dicts", lambda: ({"a": 1.5, "b": vec(3), "k": 4},), grad=False)
def dict_arguments(p):
    q = {name: value * 2 for name, value in p.items()}
    q["b"] = q["b"] + p["a"]
    return q, {"nested": {"k": p["k"], "list": [p["a"], 1]}}, "a" in p, p["b"]


@language("dicts", lambda: ({"w": mat(2, 3), "b": vec(2)}, vec(3)), grad=True)
def dict_parameters(params, x):
    return np.sum(np.tanh(params["w"] @ x + params["b"]))


@language("dicts", lambda: (1,), lambda: (0,))
def missing_key(n):
    d = {"a": 1}
    if n:
        return d["b"]
    return d["a"]


@language("dicts in loops", lambda: (vec(3), 3), grad=True)
def dict_in_loop(x, n):
    state = {"u": x, "t": 0.0, "n": 0}
    for k in range(n):
        state["u"] = state["u"] * 0.9 + state["t"]
        state["t"] += 0.1
        state["n"] += 1
        if k == 1:
            state = {"u": state["u"] * 2.0, "t": state["t"], "n": state["n"]}
    return state["u"] * state["n"] + state["t"]


def advance(state, dt):
    state.u = state.u + dt * np.cos(state.u)
    state.t += dt
    state.n += 1
    return state


@language("named tuples", lambda: (Particle(vec(3), 2.0), Pair(1, 2.5)), grad=True)
def named_tuples(p, q):
    moved = Particle(p.position * p.mass, mass=q.second)
    position, mass = moved
    other = moved._replace(mass=3.0)
    third = Particle(position)
    return np.sum(position) * mass + other.mass * p[1] + third.mass + q.first


@language("named tuples", lambda: (Particle(vec(3), 2.0),))
def named_tuple_results(p):
    return p, Particle(p.position * 2.0, 1), Pair(first=[1.0], second={"k": p.mass})


@language("dataclasses", lambda: (vec(3), 3), grad=True)
def dataclasses_(x, n):
    s = State(x, t=0.5)
    for _ in range(n):
        advance(s, 0.1)
    alias = s
    alias.t *= 2.0
    return s.energy() + s.t * s.n + s.half


@language("dataclasses", lambda: (State(vec(3), 0.25, 2), Model({"w": vec(2)}, (1.5, vec(2, 1)))), grad=True)
def dataclass_arguments(s, m):
    total = np.sum(s.u) * s.t + m.rate * np.sum(m.weights["w"] * m.layers[1])
    return total * m.layers[0] * s.n


@language("dataclasses", lambda: (vec(3), 1.0), lambda: (vec(3), -1.0))
def dataclass_results(x, c):
    checked = Checked(c)
    return State(x * 2.0, n=3), checked, Model({"a": x}, (1,)), [State(x, checked.twice)]


@language(
    "instances of the caller that change",
    lambda: (State(vec(3), 0.5, 2), 0.25),
    lambda: (State(vec(3), 0.5, -1), 0.25),
    grad=True,
)
def advances_a_state(s, dt):
    for _ in range(3):
        s.t += dt
        s.u = s.u + dt * np.sin(s.u)
        s.u[0] += s.t
    assert s.n > 0, f"{s.n} at {s.t}"
    s.n += 1
    return np.sum(s.u) * s.t


@language("dataclasses in loops", lambda: (State(vec(3), 0.5, 1), 3), lambda: (State(vec(3), 0.5, 1), 0), grad=True)
def record_bound_anew(s, n):
    for _ in range(n):
        moved = replace(s, u=s.u * 1.5 + s.t, n=s.n + 1)
        s = moved
    grid = [[0.0] * 2 for _ in range(3)]
    grid[1][0] = s.t
    return np.sum(s.u) * s.n + grid[1][0] + grid[0][0]


@language("dataclasses in branches", lambda: (vec(3), 1), lambda: (vec(3), 0), grad=True)
def record_in_branches(x, n):
    s = State(x)
    if n:
        s.t = 2.0
    else:
        s = State(x * 3.0, 1.0)
    return np.sum(s.u) * s.t


# -- math and built-ins ----------------------------------------------------------------------------------------


@language("math", lambda: (0.7, 1.3), grad=True)
def math_functions(x, y):
    a = math.sin(x) + math.exp(y) * math.log(x + 2.0) + math.hypot(x, y) + math.atan2(x, y)
    b = math.degrees(x) + math.radians(y) + math.fmod(7.3, y) + math.pow(x, y) + math.tau * math.e * math.pi
    return a + b + math.dist((x, y), (1.0, 2.0)) + math.prod([x, y, 2.0])


@language("math", lambda: (3e200, -4e200, 1.0), lambda: (2.5e-200, 1e-200, 0.0), lambda: (math.inf, math.nan, -0.0))
def math_lengths(x, y, z):
    whole = math.modf(x), math.modf(-7.25), math.modf(z)
    return math.hypot(x, y, z), math.hypot(z), math.hypot(), math.dist((x, 0.0, z), (0.0, y, z)), whole


@language("math", lambda: (12, 18, 5), lambda: (0, 7, 0))
def math_integers(a, b, n):
    return (
        math.gcd(a, b), math.factorial(n), math.comb(6, 2), math.isqrt(a), math.floor(a / 7), math.ceil(a / 7),
        math.trunc(-a / 7), math.isclose(a, b), math.inf > a, math.isnan(math.nan), math.copysign(3, -a),
        math.lcm(a, b),
    )  # fmt: skip


@language("builtins", lambda: (vec(4), -2.5, 7), grad=False)
def builtin_functions(x, y, n):
    lowest = min(y, n, 3)
    return (
        abs(y), min(x), max(y, 1.0), lowest, sum(x), len(x), round(y), round(2.567, 2), divmod(n, 3), divmod(y, 2.0),
        pow(n, 2), int(y), float(n), bool(n), any(x > 1), all(x > 0), isinstance(y, float), isinstance(n, (int, str)),
        max((1, 5, 3)), sum([1, 2], 10), tuple(i for i in (1, 2)), list(range(3)), sorted((3, 1, 2)),
    )  # fmt: skip


@language("map", lambda: (vec(3),), grad=True)
def maps(x):
    s = 0.0
    for v in map(lambda a, b: a * b, x, (1.0, 2.0, 3.0)):
        s += v
    return s


@language("with np.errstate", lambda: (vec(3),), grad=True)
def errstate(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        y = 1.0 / x
    return np.sum(y)


@language(
    "with contextlib.suppress",
    lambda: ({1: 2.0, 4: -3.0}, [1, 2, 4], 1.5),
    lambda: ({1: 2.0}, [1, 0], 1.5),
    lambda: ({1: 2.0}, [1, -1], 1.5),
    grad=True,
)
def suppresses(d, keys, x):
    total = 0.0
    for k in keys:
        last = -1
        with contextlib.suppress(KeyError, ZeroDivisionError):
            total += x / k
            last = k
            if k < 0:
                raise ValueError(f"{k}")
            total += d[k] * x
            last += 1
        total += last * x
    return total


@language("strings", lambda: ("euler", 1.5), lambda: ("rk" + "2", 1.5))
def string_modes(method, x):
    if method == "euler":
        return x
    if method.startswith("rk") and method.upper() == "RK2":
        return x * 2.0
    raise ValueError(f"unknown method {method!r}")


# -- import inside functions -----------------------------------------------------------------------------------


@language("import in a function", lambda: (vec(4), 1), lambda: (vec(4), 3), grad=True)
def imports_inside(x, n):
    from math import pi
    from math import sin as sine

    import numpy.linalg

    if n > 2:
        import a_module_that_is_not_there

        return a_module_that_is_not_there.f(x)
    return numpy.linalg.norm(x) * sine(pi / 5) + x[0]


@language("lists: run-time index", lambda: ([1, 4, 2, 10], 2), lambda: ([1, 4, 2, 10], 9), lambda: ([1.5, 2.5], 1))
def slices_of_lists(items, k):
    head, total = items[:k], 0
    for v in head:
        total = total + v
    return sum(items[:k]), len(items[k:]), items[1:k:2], items[::-1], total


@language("lists: run-time index", lambda: ([1.0, 4.0, 2.5], 2), grad=True)
def sum_of_a_slice(items, k):
    return sum(v * v for v in items[:k])


# -- lists again, and numbers --------------------------------------------------------------------------------


@language("list methods", lambda: (3, [1.5, 0.5, 2.5]), lambda: (0, [1.5, 0.5, 2.5]), lambda: (-2, [1.5, 0.5, 2.5]))
def lists_times_numbers(n, items):
    a, b, c = [0] * n, [1.5, 2.5] * n, (n + 1) * [True]
    for i in range(n):
        a[i] += i
    changed = list(items)
    changed[1:2] = [9.0, 8.0]
    changed[:0] = [4.0]
    return a, b, c, sum(c), changed


@language("list methods", lambda: (1.0, 0, 0.0), lambda: (2.0, 3, 3.0), lambda: (2.0, 3, 4.0))
def counted_and_found(a, b, c):
    some = [v * v for v in range(b)]
    some.append(4)
    items = [a, 2.0, c]
    items.remove(2.0)
    return (a, b, c).count(0), [a, b, c].count(c), some.count(4), some.index(4), (c, a, b).index(b), items


@language("list methods", lambda: (4, 2), lambda: (4, 7))
def removed(n, v):
    some = [k for k in range(n)]
    some.remove(v)
    return some


@language("sorted", lambda: ([3, 1, 2, 5], 6), lambda: ([3.5, 1.0, 2.25, 5.0], 4))
def sorted_lists(items, n):
    squares = [v * v for v in range(n)]
    squares.sort(reverse=True)
    pairs = sorted([(v % 2, v * 1.5) for v in squares], key=lambda p: p[0], reverse=True)
    near = sorted(items, key=lambda v: abs(v - 2))
    return sorted(items), sorted(items, reverse=True), near, squares, sorted(v % 3 for v in squares), pairs


@language("sorted", lambda: ([3.5, 1.0, 2.25],), grad=True)
def weighted_order(items):
    low, middle, high = sorted(items)
    squares = sorted([v * v for v in items], key=lambda v: -v)
    return low + 2 * middle + 3 * high + squares[0] * squares[1]


@language("functools.reduce", lambda: (vec(3), [2, 3]), lambda: (vec(1), [1]), lambda: (vec(0), []), grad=False)
def reduced(x, items):
    twice = functools.reduce(lambda a, b: a * 2 + b, items, 10)
    pairs = min((v % 2, -v) for v in [3, 1, 2]), max([(1, twice), (1, 3)])
    first = min((v, k) for k, v in enumerate(x)) if len(x) else None
    return twice, pairs, first, functools.reduce(lambda a, b: a * 2 + b, x)


@language("decorators on nested functions", lambda: (vec(3), 2.0), grad=True)
def decorated(x, c):
    def twice(f):
        @functools.wraps(f)
        def both(*args):
            return f(f(*args))

        return both

    @twice
    def step(v):
        return v * c + 1

    return np.sum(step(x) * x)


@language(
    "match on structure", lambda: ((1, 2, 3),), lambda: ((1, [2, 3]),), lambda: (2.5,), lambda: (Particle(1.0, 2.0),),
    lambda: (4,), lambda: ((5,),),
)  # fmt: skip
def matched(t):
    match t:
        case int(n):
            return n + 1
        case float() as f:
            return f * 2
        case Particle(x, mass=2.0):
            return x
        case (1, 2, *rest):
            return len(rest) + rest[0]
        case (a, [b, c]) if b < c:
            return a + b * 10 + c * 100
    return None


@language("walrus", lambda: (vec(4),), lambda: (vec(0),))
def walrus_in_comprehensions(x):
    last = -1.0
    found = any((last := v) > 0.5 for v in x)
    squares = [y for v in x if (y := v * v) > 0.1]
    return found, last, squares, y


@language("sorted", lambda: (np.array([3, 1, 2, 3, 1]), 2.5), lambda: (np.zeros(0, int), 1.0))
def sorted_tuples(x, a):
    items = [(v % 2, v * a) for v in x]
    places = sorted([(v, -k) for k, v in enumerate(x)], reverse=True)
    few = sorted([(a, 2), (2.5, 3), (a, 1)], key=lambda t: (t[1] % 2, t[0]))
    items.sort(key=lambda t: ((t[1], t[0]), 1))
    return items, places, few, sorted(items)


@language("sorted", lambda: ([5, 3, 8, 1, 9, 2, 7, 4, 6, 0, 11, 15, 13, 12, 14],))
def many_sorted(items):
    return sorted(items), sorted(items, key=lambda v: -v)


@language(
    "round", lambda: (2.675, 2, 1250), lambda: (-0.125, 1, 1350), lambda: (1234.5, -2, -1250), lambda: (0.5, 0, 7)
)
def rounded(x, n, k):
    return round(x, n), round(x, 2), round(k, -2), round(k, 3), round(np.float64(x), 1), round(x)


KINDS = {bool: (0, 1), (1, "a"): 3.5}


@language("builtins", lambda: (3.0, 5), lambda: (2.0, -1))
def other_builtins(x, n):
    return KINDS[bool][1] + x, KINDS[1, "a"], isinstance(x, int | float), tuple(range(3)), pow(3, n, 7), "f" in "fb"


# -- nonlocal, and what is known of values ---------------------------------------------------------------------


@language("nonlocal", lambda: (vec(5), 5), lambda: (-vec(5), 3), grad=True)
def rebinds_outside(x, n):
    total, calls, best = 0.0, 0, None
    rows = np.zeros(2)

    def step(v):
        nonlocal total, calls, best, rows
        total += v * v
        calls += 1
        best = v if best is None else max(best, v)
        rows = rows + v

    step(x[0])
    for i in range(n):
        if x[i] > 0.5:
            step(x[i])
    while calls < 7:
        step(0.5)
    return total + best + rows[1] * calls


@language("nonlocal", lambda: (1,), lambda: (3,))
def rebinds_from_within(n):
    y = 1.0

    def g():
        nonlocal y

        def h():
            nonlocal y
            y = y * 2.5

        h()
        y = y + 1

    if n > 2:
        g()
    else:
        y = 7.0
        g()
    return y


def counter_from(start):
    def move(by):
        nonlocal start
        start = start + by
        return start

    return move


@language("nonlocal", lambda: (1.5,), grad=True)
def two_counters(x):
    a, b = counter_from(x), counter_from(2 * x)
    a(1.0)
    b(5.0)
    return a(2.0) * b(0.0)


@language("builtins", lambda: (vec(3), 2), lambda: (vec(3), 3))
def classes_of_values(x, k):
    a = np.zeros((4, 4))
    a[range(0, 4, 2), range(1, 4, 2)] = k
    known = (
        type(x) is np.ndarray,
        type(k)(2.7),
        hasattr(x, "shape"),
        hasattr(k, "shape"),
        issubclass(float, (int, float)),
    )
    return a, x[range(k)], known


@language("if, elif, else", lambda: (np.array([3.0]),), lambda: (np.array([1.0, 2.0]),), lambda: (np.array([]),))
def arrays_of_one_element(x):
    if x > 2:
        return x * 2
    return x + 1


@language("if, elif, else", lambda: (5, True), lambda: (4, False))
def is_on_bools(n, flag):
    sieve = [True] * (n + 1)
    for i in range(0, n + 1, 2):
        sieve[i] = False
    odd = []
    for i in range(n + 1):
        if sieve[i] is True:
            odd.append(i)
    match flag:
        case True:
            odd.append(-1)
        case False:
            odd.append(-2)
    return odd, flag is True, flag is not False, (n > 4) is flag, np.bool_(flag) is True, flag is None, n is True


# -- exact functions of math -----------------------------------------------------------------------------------


@language("math", lambda: (0.7, 1.3), lambda: (1e16, 3.0), lambda: (-2.5, 0.0), grad=True)
def exact_math(x, y):
    m, e = math.frexp(x * y)
    parts = [x, 1e16, y, -1e16, x * y, -x]
    total = math.fsum(parts) + math.fsum(p * p for p in (x, y)) + math.prod(p + 1.0 for p in parts[:1])
    return total + m + math.ldexp(x, 2) + math.nextafter(y, 4.0) + math.ulp(x) + math.remainder(x, 0.3 + y / y), e


@language(
    "list arguments",
    lambda: ([k % 7 + 0.5 for k in range(300)], 3),
    lambda: ([k % 2 == 0 for k in range(257)], 300),
)
def reads_a_long_list(xs, k):
    return xs[k], sum(xs), max(xs), xs[1:4], np.array(xs).mean(), len(xs)


@language(
    "lists of the caller that change",
    lambda: ({"x": [k % 7 + 0.5 for k in range(300)]}, 3),
    lambda: ({"x": [k % 7 + 0.5 for k in range(301)]}, 299),
)
def changes_a_long_list(state, k):
    xs = state["x"]
    for i in range(len(xs) - k):
        xs[i] = xs[i + k] * 2.0
    xs.sort()
    xs.insert(k, xs.pop())
    xs += [xs[-1], 0.5]
    xs.reverse()
    xs[2 * k] = -1.0
    return xs is state["x"], xs[k]


@language(
    "lists of lists of the caller that change",
    lambda: ([[4.0, 3.0], [2.0, 4.0]], 1),
    lambda: ([[4.0, 3.0], [2.0]], 0),
    lambda: ([[4.0, 3.0], [2.0, 5.0]], 2),
    grad=True,
)
def changed_at_computed_places(rows, k):
    for i in range(len(rows)):
        for j in range(len(rows)):
            rows[i][j] = rows[i][j] / rows[k][0]
    kept = rows.pop(k)
    kept.append(0.5 * rows[0][0])
    rows.append([kept[0] * 2.0])
    rows[-1].extend(kept)
    return kept[1] * rows[1][0]


@language("lists of lists of the caller that change", lambda: ({"rows": [[1, 2], [3, 4]], "n": 0}, 1))
def changed_within_a_dict(state, n):
    for k in range(n + 1):
        state["rows"][k].insert(k, 7)
        state["rows"].append(state["rows"][0])
    state["n"] = n
    return state["rows"][n].pop(n - 1)


# -- recursion with lists of the caller ------------------------------------------------------------------------


def largest_between(items, left, right):
    if left == right:
        return items[left]
    middle = (left + right) // 2
    a, b = largest_between(items, left, middle), largest_between(items, middle + 1, right)
    return a if a >= b else b


@language("recursion", lambda: ([3.5, 1.0, 4.0, 2.5],), lambda: ([1.5, 0.5],), grad=True)
def recursion_over_a_list(items):
    return largest_between(items, 0, len(items) - 1) ** 2


def applied(weights, x, k):
    return x if k == 0 else applied(weights, np.tanh(weights[k % len(weights)] @ x), k - 1)


@language("recursion", lambda: ([mat(2, 2), mat(2, 2, 1)], vec(2)), grad=True)
def recursion_over_weights(weights, x):
    return np.sum(applied(weights, x, 3))


@language("for: enumerate, zip, reversed", lambda: (mat(2, 3), (2, 2)), grad=True)
def all_indices(x, shape):
    total = 0.0
    for i, j in np.ndindex(x.shape):
        total += x[i, j] * (i + 2 * j)
    for (i, j), v in np.ndenumerate(x):
        total += v * v * (i - j)
    for index in np.ndindex(shape):
        total += x[index]
    for k in np.ndindex(3):
        total += k[0]
    return total


@language("min, max", lambda: (np.array([3.0, -4.2, 1.5, 4.0, -1.6]), 2.7), lambda: (vec(0), 2.2), grad=True)
def extremes_by_a_key(x, b):
    best = min((v for v in x if v > 1.6), default=np.float64(-1.0)) + max([b, -2.5, 1.0], key=abs)
    best += max(b, -b, 0.5, key=lambda v: -v) * min([], default=b) * max((), key=abs, default=3)
    if len(x) > 0:
        items = [v * b for v in x]
        k, v = max(enumerate(items), key=lambda t: abs(t[1]))
        best += v * k + 2 * min(x, key=lambda v: v * v) + max(range(len(x)), key=lambda i: x[i])
        best += np.sum(max(np.outer(x, x), key=np.sum))
        best *= min(x, key=np.sin)
    ties = max((-2, 2, 1), key=abs), min(range(len(x) + 3), key=lambda i: abs(2 * i - 3))
    return best, max(x, key=None, default=np.float64(7.0)), ties


def between(a, b, c=1.0, *, scale=1.0):
    return (a * b + c) * scale


@language(
    "arguments from arrays",
    *(lambda n=n, m=m: (vec(n), m) for n, m in ((3, 2), (3, 3), (5, 9), (2, 1), (0, 1), (4, 4))),
    grad=True,
)
def arguments_of_computed_number(x, m):
    def product(a, b):
        return a * b

    items = [v * v for v in x[1:m]]
    total = between(x[0], *items) if m > 2 else product(*x[:m])
    return total + between(*x[:2]) + between(*(2.0 * v for v in x[:m]), scale=3.0)


@language("arguments from arrays", lambda: (vec(3), 1), lambda: (vec(3), 2))
def arguments_before_effects(x, n):
    def cleared():
        x[:] = 0.0
        return 1.0

    return between(*x[:2], cleared()), between(*x[:1], c=2.0, b=3.0) if n > 1 else between(*x, c=2.0)


# LLVM makes a switch of these
@language("assert", lambda: (vec(3),), lambda: (vec(1),), lambda: (vec(0),))
def asserts_that_cover_all_lengths(x):
    n = len(x[:2])
    assert n != 0, "none"
    assert n != 1, "one"
    return x[0] if n == 2 else 0.0


@language("filter", lambda: (np.array([3.0, -4.2, 1.5, -1.6]),), lambda: (vec(3) + 0.3,), grad=True)
def filtered(x):
    total = sum(filter(lambda v: v > 0.0, x)) ** 2 + min(filter(lambda v: v > 2, x), default=np.float64(1.0))
    kept = [v * 2 for v in filter(None, x)]
    return total + sum(kept), list(filter(None, (1, 0, 2))), any(filter(np.sin, x))


@language("ranges as sequences", lambda: (3,), lambda: (0,), lambda: (-6,), lambda: (5,))
def items_of_ranges(n):
    r, steps = range(2, 12, 2), range(n, 0, -1)
    return r[-1], len(steps), steps[0] if n > 0 else -1, r[n]


@language("comparison of tuples and lists", *(lambda v=v: (v, 2.0) for v in (1.0, 2.0, 3.0, np.nan)))
def tuples_in_order(x, y):
    both = (x, 1) < (y, 2), (x, 3) >= (y, 2), (x, 2) > (y, 2), [x, y] <= [y, x], (1, (x, 2)) < (1, (y, 3))
    return both, (x, 1) < (x, 2), (x,) == (x,), (1, 2) < (1, 2, 3), [y] > [], (x, y) != (y, x)


@language("loops over lists that they change", lambda: (5, vec(8)), lambda: (0, vec(2)))
def queues(n, x):
    queue, total = [1], 0.0
    for k in queue:  # a breadth-first search
        if 2 * k < 4 * n:
            queue.append(2 * k)
    for i, v in enumerate(queue):
        total += i * v
        if len(queue) > 6:
            queue.pop()
    weights = [1.0, 2.0]
    for w, v in zip(weights, x, strict=False):
        total += w * v
        weights.append(w * 0.5)
    for k in list(queue):
        queue.append(k)
    return queue, total, weights


@language("heapq, bisect", lambda: (mat(5, 5, 3) + 0.6, np.array([5, 3, 8, 1, 9, 2])))
def shortest_paths(w, a):
    best = [math.inf] * len(w)
    best[0] = 0.0
    heap = [(0.0, 0)]
    while heap:
        d, u = heapq.heappop(heap)
        if d > best[u]:
            continue
        for v in range(len(w)):
            if w[u, v] > 0.0 and d + w[u, v] < best[v]:
                best[v] = float(d + w[u, v])
                heapq.heappush(heap, (best[v], v))
    keys, ordered = list(a), []
    heapq.heapify(keys)
    for v in a:
        bisect.insort(ordered, v)
    least = heapq.heapreplace(keys, a[0] * 2), heapq.heappushpop(keys, a[1])
    places = bisect.bisect_left(ordered, 5), bisect.bisect(ordered, 5), bisect.bisect_left(w[0], 0.7, hi=2)
    return best, keys, ordered, least, places, heapq.nlargest(2, a)


@language("operator", lambda: (vec(4),), grad=True)
def operator_functions(x):
    pairs = [(v, k) for k, v in enumerate(x)]
    smallest = min(pairs, key=operator.itemgetter(0))
    products = list(itertools.accumulate(x, operator.mul))
    return functools.reduce(operator.add, x) * smallest[0] - operator.neg(products[-1]) + operator.pow(x[0], 2)


@dataclass(frozen=True)
class Vector:
    x: float
    y: float

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, other):
        return self._dot(other) if isinstance(other, Vector) else Vector(self.x * other, self.y * other)

    def _dot(self, other):
        return self.x * other.x + self.y * other.y

    def __rmul__(self, other):
        return self * other

    def __radd__(self, other):
        return self if other == 0 else NotImplemented

    def __neg__(self):
        return Vector(-self.x, -self.y)

    def __abs__(self):
        return math.hypot(self.x, self.y)

    def __call__(self, t, k=1):
        return self.x * t + self.y * k

    def __getitem__(self, place):
        return self.x if place == 0 else self.y

    def __len__(self):
        return 2

    def __contains__(self, value):
        return value == self.x


@dataclass
class Counted:
    value: float
    count: int = 0

    def __iadd__(self, other):
        self.value += other
        self.count += 1
        return self

    def __setitem__(self, place, value):
        if place == 0:
            self.value = value

    def __lt__(self, other):
        return self.value < other.value

    def __eq__(self, other):
        return self.value == other.value

    def __bool__(self):
        return self.count < 3


@language("operators of classes", lambda: (0.7, 4), lambda: (1.3, 0), grad=True)
def an_orbit(a, n):
    p, v = Vector(a, 1.0), Vector(0.5, -a)
    for _ in range(n):
        v = v + 0.1 * (-p * (1.0 / (abs(p) ** 3 + 0.1)))
        p += v * 0.1
    total = sum([p, v])
    return total * p + p(2.0) + v(1.0, k=3) + p[0] * len(p) + (1.0 if 7.0 in p else 2.0)


@language("operators of classes", lambda: (0.7,), lambda: (5.0,))
def instances_that_change(a):
    first, second = Counted(a), Counted(2.0)
    same = first
    while first:
        first += a
    first[0] = first.value * 2.0
    flags = first < second, first > second, first == second, first != second, not second, same is first
    return first, flags, 1 if second and a > 1.0 else 2


@language("strings", lambda: (1.5, "ab"), lambda: (0.5, "Zaab"))
def letters(x, name):
    total = 0.0
    for k, c in enumerate("abc"):
        if c in name:
            total += x * k
        elif not name.lower().startswith("z"):
            total -= x
    signs = [-1.0 if c.isupper() else 1.0 for c in name]
    for c, v in zip("+-", (x, 2.0), strict=True):
        total = total + v if c == "+" else total - v
    return total, signs, name * 2, name.title(), name.partition("a"), name.count("a"), name.zfill(5)
