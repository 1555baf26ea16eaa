"""Functions of the math module that are made of others: written in the language that we compile."""

from __future__ import annotations

import math
from typing import Any


def degrees(x: Any) -> Any:
    """math.degrees."""
    return float(x) * (180.0 / math.pi)


def radians(x: Any) -> Any:
    """math.radians."""
    return float(x) * (math.pi / 180.0)


def gcd(*integers: int) -> int:
    """math.gcd."""
    result = 0
    for n in integers:
        a, b = abs(result), abs(n)
        while b != 0:
            a, b = b, a % b
        result = a
    return result


def lcm(*integers: int) -> int:
    """math.lcm."""
    result = 1
    for n in integers:
        if n == 0:
            return 0
        result = abs(n) // gcd(result, n) * result
    return result


def factorial(n: int) -> int:
    """math.factorial; OverflowError from 21 on."""
    if n < 0:
        raise ValueError("factorial() not defined for negative values")
    result = 1
    for k in range(2, n + 1):
        result *= k
    return result


def comb(n: int, k: int) -> int:
    """math.comb."""
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    if k > n:
        return 0
    k = min(k, n - k)
    result = 1
    for i in range(1, k + 1):
        result = result * (n - k + i) // i
    return result


def perm(n: int, k: int) -> int:
    """math.perm with two arguments."""
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    result = 1 if k <= n else 0
    for i in range(k if k <= n else 0):
        result *= n - i
    return result


def isqrt(n: int) -> int:
    """math.isqrt."""
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative")
    root = int(math.sqrt(n))
    while root * root > n:
        root -= 1
    while root < 3037000499 and (root + 1) * (root + 1) <= n:
        root += 1
    return root


def fmod(x: Any, y: Any) -> Any:
    """math.fmod: the remainder with the sign of x."""
    x, y = float(x), float(y)
    if y == 0.0 or math.isinf(x):
        raise ValueError("math domain error")
    if math.isinf(y):
        return x
    rest = abs(x) % abs(y)
    return math.copysign(rest, x)


def isclose(a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> bool:
    """math.isclose."""
    if rel_tol < 0.0 or abs_tol < 0.0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    difference = abs(float(a) - float(b))
    return difference <= max(rel_tol * max(abs(a), abs(b)), abs_tol)


def dist(p: Any, q: Any) -> Any:
    """math.dist."""
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    total = 0.0
    for a, b in zip(p, q, strict=True):
        total += (float(a) - b) * (float(a) - b)
    return math.sqrt(total)


def prod(iterable: Any, *, start: Any = 1) -> Any:
    """math.prod."""
    total = start
    for x in iterable:
        total = total * x
    return total


FUNCTIONS = {
    math.degrees: degrees, math.radians: radians, math.gcd: gcd, math.lcm: lcm, math.factorial: factorial,
    math.comb: comb, math.perm: perm, math.isqrt: isqrt, math.fmod: fmod, math.isclose: isclose, math.dist: dist,
    math.prod: prod,
}  # fmt: skip
METHODS: dict[str, Any] = {}
