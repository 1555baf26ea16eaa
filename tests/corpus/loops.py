"""Loops: what they carry, how often they run, and how they are left."""

import numpy as np

from corpus.case import case, vector

X = vector(0.7, -1.2, 0.4, 1.9)


@case(
    (1.3, 3), (1.3, 0),
    about="a variable of before the loop is changed in it and used after it",
    known="Warp #1694, #1740: the adjoint uses its initial value",
    gradient=lambda x, n: (n + 1) * x**n,
)  # fmt: skip
def carried_used_after(x, n):
    y = x
    for _ in range(n):
        y = y * x
    return y


@case(
    (0.8, 4), (0.8, 1),
    about="the value that a loop carries enters a product with its older value",
    known="Taichi #8802: read after write of a carried value, gradient 4.8 times off",
)  # fmt: skip
def carried_read_after_write(x, n):
    a = x
    b = 1.0
    for _ in range(n):
        old = a
        a = np.sin(a) * b + x
        b = old * a
    return a + b


@case(
    (1.1, 3), (1.1, 0),
    about="nested loops whose inner trip count depends on the outer index",
    known="Warp #1293: twice the gradient; Tangent #31",
    gradient=lambda x, n: (n * (n + 1) // 2) * x ** (n * (n + 1) // 2 - 1) if n else 0.0,
)  # fmt: skip
def nested_dynamic(x, n):
    y = 1.0
    for i in range(n):
        for _ in range(i + 1):
            y = y * x
    return y


@case(
    (X, 2), (X, 0),
    about="the inner loop runs as often as data say",
    known="Tangent #31; Warp #1293",
)  # fmt: skip
def trip_count_from_data(x, n):
    s = 0.0
    for i in range(len(x)):
        j = 0
        while j < n and s < 3.0:
            s = s + np.exp(x[i] * (j + 1))
            j += 1
    return s


@case(
    (X,),
    about="continue skips the rest of an iteration",
    known="Warp #1552 (open): wrong gradient; Taichi #7771: refused",
    gradient=lambda x: np.where(x < 0, 0.0, 3 * x**2),
)
def continue_skips(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] < 0:
            continue
        s = s + x[i] ** 3
    return s


@case(
    (X, 1.5), (X, 100.0), (X, 0.1),
    about="break leaves the loop on a value that depends on the input",
    known="Taichi #7771: refused",
)  # fmt: skip
def break_on_value(x, limit):
    s = 0.0
    for i in range(len(x)):
        s = s + x[i] ** 2 * limit
        if s > limit:
            break
    return s * s


@case(
    (X, 0.5), (X, 5.0),
    about="else of a while loop runs only where break did not",
)  # fmt: skip
def while_break_else(x, limit):
    i = 0
    s = limit
    while i < len(x):
        if x[i] * x[i] > 2.0 * limit:
            s = s * x[i]
            break
        s = s + np.sin(x[i])
        i += 1
    else:
        s = s * s
    return s


@case(
    (X, 1.0), (X, 9.0),
    about="return from inside of a nested loop",
    known="Warp, Taichi: refused",
)  # fmt: skip
def early_return_in_loops(x, limit):
    s = 0.0
    for i in range(len(x)):
        for j in range(i + 1):
            s = s + x[i] * x[j]
            if s > limit:
                return s * limit
    return s * s


@case(
    (2.0,), (50.0,),
    about="a while loop to convergence (Newton's square root): the derivative follows the iteration",
    known="JAX #8239, #2139: no reverse mode of while_loop; DaCe: no while",
    gradient=lambda x: 0.5 / np.sqrt(x),
)  # fmt: skip
def newton_to_convergence(x):
    y = x
    while abs(y * y - x) > 1e-13 * x:
        y = 0.5 * (y + x / y)
    return y


@case(
    (X, 0), (vector(), 0),
    about="a loop that runs no time, and an array without elements",
    gradient=lambda x, n: np.zeros(len(x)),
)  # fmt: skip
def zero_trips(x, n):
    s = 0.0
    for i in range(n):
        s = s + x[i]
    return s


@case(
    (0.9, 5, -2), (0.9, 0, -1),
    about="a range with a negative step and a start that is computed",
    known="DaCe: two signs of strides in derivatives",
    gradient=lambda x, n, step: float(sum(i * x ** (i - 1) for i in range(n, 0, step))),
)  # fmt: skip
def negative_step(x, n, step):
    s = 0.0
    for i in range(n, 0, step):
        s = s + x**i
    return s


@case(
    (0.7, 40),
    about="more iterations than a fixed stack of 32 entries holds",
    known="Taichi #8027 (open): a crash at 31 iterations or more",
)
def many_iterations(x, n):
    y = x
    for i in range(n):
        y = np.sin(y) + 0.01 * i * x
    return y


@case(
    (1.2, 0.4),
    about="two carried variables change places",
    gradient=lambda a, b: (10.0 * a * b + 0.0, 5.0 * a * a),
)
def swap_in_loop(a, b):
    for _ in range(5):
        a, b = b, a
    return 5.0 * b * b * a


@case(
    (0.6, 6),
    about="a tuple is rebound from itself (Fibonacci): everything is read before anything is written",
    gradient=lambda x, n: 13.0,
)
def tuple_rebinding(x, n):
    a, b = x, 2.0 * x
    for _ in range(n - 1):
        a, b = b, a + b
    return a


@case(
    (X, 3),
    about="an array variable is rebound to a shorter one at each iteration",
)
def shrinking_array(x, n):
    y = x
    for _ in range(n):
        y = y[1:] * y[:-1]
    return np.sum(y)


@case(
    (X, 3), (X, 4),
    about="the loop's own variable is used after it",
    gradient=lambda x, n: np.where(np.arange(4) == n - 1, 2 * x, 0.0),
)  # fmt: skip
def index_after_loop(x, n):
    i = 0
    for i in range(n):  # noqa: B007
        pass
    return x[i] * x[i]


@case(
    (X,),
    about="iteration over the elements of an array",
    gradient=lambda x: np.cos(x),
)
def for_each_element(x):
    s = 0.0
    for v in x:
        s += np.sin(v)
    return s


@case(
    (np.array([[0.5, -1.0], [2.0, 0.25]]),),
    about="rows of a matrix are views: a store to a row reaches the matrix",
    gradient=lambda a: 9.0 * 2 * a,
)
def rows_are_views(a):
    b = a.copy()
    for row in b:
        row *= 3.0
    return np.sum(b * b)


@case(
    (X, 0.4),
    about="a maximum and its place found by a loop and an if",
    known="Warp #1552 (open): the argument of a maximum",
    gradient=lambda x, c: (np.where(x == x.max(), 2 * x * c, 0.0), float(x.max() ** 2)),
)
def argmax_by_loop(x, c):
    best = x[0]
    at = 0
    for i in range(len(x)):
        if x[i] > best:
            best = x[i]
            at = i
    return best * x[at] * c
