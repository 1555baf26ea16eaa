"""Control flow and structure: branches, recursion, closures, tuples, lists, dicts, dataclasses."""

from dataclasses import dataclass

import numpy as np

from corpus.case import case, vector

X = vector(0.7, -1.2, 0.4, 1.9)


@case(
    (2.0, 3), (2.0, -3),
    about="a variable that only one branch sets",
    known="numba: 0 in silence where it is not set",
    gradient=lambda x, n: 2 * x if n > 0 else 1.0,
)  # fmt: skip
def set_in_one_branch(x, n):
    if n > 0:
        y = x * x
    r = x
    if n > 0:
        r = y
    return r


@case(
    (1.5, 1), (1.5, 0),
    about="both branches assign, in the opposite order, what each other reads",
    known="Tangent #82: if and else exchanged",
    gradient=lambda x, n: 3 * x**2 * np.cos(x**3) if n else 3 * np.sin(x) ** 2 * np.cos(x),
)  # fmt: skip
def swapped_branches(x, n):
    if n > 0:
        a = x**3
        b = np.sin(a)
    else:
        b = np.sin(x)
        b = b**3
    return b


@case(
    (0.8,), (-0.8,), (2.5,),
    about="branches in a loop that overwrite what the condition reads",
)  # fmt: skip
def branch_in_loop(x):
    y = x
    s = 0.0
    for i in range(4):
        if y > 1.0:
            y = y * 0.5
            s = s + y * y
        elif y < 0.0:
            y = np.exp(y)
        else:
            y = y * (2.0 + 0.1 * i)
            s = s - y * x
    return s * y


@case(
    (1.5, 2),
    about="and, or with a short circuit: the second part is evaluated only if needed",
    gradient=lambda x, n: 1.0 / x,
)
def short_circuit(x, n):
    if n == 0 or (x > 0.0 and np.log(x) > -1.0):
        return np.log(x)
    return x * x


@case(
    (0.6,), (-0.6,),
    about="a conditional expression within an expression",
    gradient=lambda x: 2 * x + 3 * x * x if x > 0 else np.cos(x) * (1 + x) + np.sin(x),
)  # fmt: skip
def conditional_expression(x):
    return (x * x if x > 0.0 else np.sin(x)) * (1.0 + x)


def _power(x, n):
    if n == 0:
        return 1.0
    if n % 2 == 1:
        return x * _power(x, n - 1)
    half = _power(x, n // 2)
    return half * half


@case(
    (1.3, 5), (1.3, 0),
    about="recursion (a power by squaring)",
    known="Enzyme #1809 (open); Warp, Taichi: refused",
    gradient=lambda x, n: n * x ** max(n - 1, 0) if n else 0.0,
)  # fmt: skip
def recursion(x, n):
    return _power(x, n)


def _even(x, n):
    return x if n == 0 else x * _odd(x, n - 1)


def _odd(x, n):
    return 1.0 if n == 0 else x + _even(x, n - 1)


@case(
    (0.9, 4), (0.9, 3),
    about="mutual recursion",
)  # fmt: skip
def mutual_recursion(x, n):
    return _even(x, n)


def _halves(v):
    if len(v) == 1:
        return v[0] * v[0]
    m = len(v) // 2
    left = _halves(v[:m])
    v[m:] *= 1.0 + left
    return left + _halves(v[m:])


@case(
    (X,),
    about="recursion on views of an array that it writes",
)
def recursion_on_views(x):
    return _halves(x.copy())


@case(
    (X, 0.5),
    about="a closure reads variables of its function",
    known="Tangent #77: nested functions refused",
    gradient=lambda x, c: (3 * c * x**2, float(np.sum(x**3))),
)
def closure(x, c):
    def cube(v):
        return c * v**3

    return np.sum(cube(x))


def _twice(f, x):
    return f(f(x))


@case(
    (0.7, 1.3),
    about="a function as an argument that captures a differentiated value",
    gradient=lambda x, c: (
        c * c * np.cos(x) * np.cos(c * np.sin(x)),
        np.sin(c * np.sin(x)) + c * np.sin(x) * np.cos(c * np.sin(x)),
    ),
)
def function_argument(x, c):
    return _twice(lambda v: c * np.sin(v), x)


@case(
    (X,),
    about="a list that grows by append becomes an array",
    known="lists of traced values are refused or unrolled elsewhere",
    gradient=lambda x: np.where(x > 0.5, 3 * x**2, 0.0),
)
def list_append(x):
    found = []
    for v in x:
        if v > 0.5:
            found.append(v * v * v)
    return np.sum(np.array(found))


@case(
    (X, 3),
    about="a history of states in a list",
)
def list_of_states(x, n):
    history = [x]
    for _ in range(n):
        history.append(np.sin(history[-1]) * x)
    s = 0.0
    for h in history:
        s += np.sum(h * h)
    return s


@case(
    ((0.5, (X, 2.0)),),
    about="a nested tuple as the argument: the gradient has its structure",
    gradient=lambda p: (float(p[1][1] * np.sum(p[1][0])), (p[0] * p[1][1] * np.ones(4), float(p[0] * np.sum(p[1][0])))),
)
def nested_tuple(p):
    a, (x, c) = p
    return a * np.sum(x) * c


@case(
    ({"w": X, "b": 0.25, "n": 3},),
    about="a dict as the argument, with an integer in it",
    gradient=lambda p: {"w": 3 * p["w"] ** 2 * p["b"], "b": float(np.sum(p["w"] ** 3)), "n": None},
)
def dict_argument(p):
    return np.sum(p["w"] ** p["n"]) * p["b"]


@dataclass
class Body:
    """A state with an array and a number."""

    position: np.ndarray
    mass: float


@case(
    (Body(X, 2.0),),
    about="fields of a dataclass, read, changed and read again",
    gradient=lambda b: Body(2 * b.position * b.mass**3, float(3 * b.mass**2 * np.sum(b.position**2))),
)
def dataclass_fields(b):
    c = Body(b.position * b.mass, b.mass)
    c.mass = c.mass * np.sum(c.position * c.position)
    return c.mass


@case(
    (0.85,),
    about="a result that is not differentiated feeds an integer that decides",
    gradient=lambda x: 3 * x**2,
)
def decided_by_cast(x):
    n = int(10.0 * x) % 5
    y = 1.0
    for _ in range(n):
        y = y * x
    return y


@case(
    (2.0,),
    about="a raise in the branch that is not taken",
    gradient=lambda x: 0.5 / np.sqrt(x),
)
def raise_not_taken(x):
    if x < 0.0:
        raise ValueError("negative")
    return np.sqrt(x)


@case(
    (X, 0.25),
    about="the same function called with different arguments, once with an argument twice",
)
def shared_callee(x, c):
    def mix(u, v):
        return np.sum(u * u * v)

    return mix(x, x) * c + mix(x, np.cos(x)) * mix(c * x, x)


@case(
    (1.7,),
    about="a variable shadowed, deleted and set again",
    gradient=lambda x: 2 * x,
)
def set_again(x):
    y = np.exp(x)
    del y
    y = x
    x = y * 3.0  # noqa: F841
    x = 2.0
    return y * y
