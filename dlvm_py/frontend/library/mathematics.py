"""Functions of the math module that are made of others: written in the language that we compile."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import held


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
        a, b = result, n
        while b != 0:
            a, b = b, a % b
        result = a
    return abs(result)


def lcm(*integers: int) -> int:
    """math.lcm."""
    for n in integers:
        if n == 0:
            return 0
    result = 1
    for n in integers:
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
    for i in range(1, k + 1):  # divided before it is multiplied: no factor is larger than the result
        common = gcd(n - k + i, i)
        result = result // (i // common) * ((n - k + i) // common)
    return result


def perm(n: int, k: Any = None) -> int:
    """math.perm."""
    if k is None:
        return factorial(n)
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


def power(x: Any, y: Any) -> float:
    """math.pow."""
    x, y = float(x), float(y)
    if math.isfinite(x) and math.isfinite(y):
        if (x < 0.0 and y != np.floor(y)) or (x == 0.0 and y < 0.0):
            raise ValueError("math domain error")
        found = float(np.float64(x) ** np.float64(y))
        if math.isinf(found):
            raise OverflowError("math range error")
        return found
    return float(np.float64(x) ** np.float64(y))


def fmod(x: Any, y: Any) -> Any:
    """math.fmod: the remainder with the sign of x."""
    x, y = float(x), float(y)
    if math.isnan(x) or math.isnan(y):
        return x + y
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
    a, b = float(a), float(b)
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    difference = abs(a - b)
    return bool(difference <= max(rel_tol * max(abs(a), abs(b)), abs_tol))


def complex_isclose(a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> bool:
    """cmath.isclose."""
    if rel_tol < 0.0 or abs_tol < 0.0:
        raise ValueError("tolerances must be non-negative")
    a, b = complex(a), complex(b)
    if a == b:
        return True
    if cmath.isinf(a) or cmath.isinf(b):
        return False
    difference = abs(a - b)
    return bool(difference <= max(rel_tol * max(abs(a), abs(b)), abs_tol))


def dist(p: Any, q: Any) -> Any:
    """math.dist."""
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    apart = ()
    for a, b in zip(p, q, strict=True):
        apart = apart + (float(a) - float(b),)
    return hypot(*apart)


def hypot(*coordinates: Any) -> Any:
    """math.hypot: of squares that are scaled, so that they neither overflow nor vanish."""
    if len(coordinates) == 2:
        return float(np.hypot(float(coordinates[0]), float(coordinates[1])))
    largest = 0.0
    for c in coordinates:
        if abs(float(c)) > largest:
            largest = abs(float(c))
    if math.isinf(largest):
        return largest
    scale = largest if largest > 0.0 else 1.0
    total = 0.0
    for c in coordinates:
        total += (float(c) / scale) * (float(c) / scale)
    return scale * math.sqrt(total)


def modf(x: Any) -> Any:
    """math.modf."""
    x = float(x)
    whole = float(np.trunc(x))
    return math.copysign(0.0 if math.isinf(x) else x - whole, x), whole


def power_of_two(n: int) -> float:
    """2^n exactly, for -1074 <= n <= 1023."""
    result, factor, left = 1.0, 2.0 if n > 0 else 0.5, abs(n)
    while left > 0:
        if left % 2 == 1:
            result = result * factor
        factor = factor * factor
        left = left // 2
    return result


def exponent_of(x: float) -> int:
    """The e with 2^(e - 1) <= |x| < 2^e, of a finite x that is not 0."""
    size = abs(x)
    e = 0
    if size < 1e-300:
        size, e = size * 18446744073709551616.0, -64
    guess = math.floor(math.log2(size)) + 1  # off by one at most
    e = e + guess
    rest = size * power_of_two(-guess)
    if rest >= 1.0:
        e = e + 1
    elif rest < 0.5:
        e = e - 1
    return e


def frexp(x: Any) -> Any:
    """math.frexp."""
    x = float(x)
    if x == 0.0 or not math.isfinite(x):
        return x, 0
    e = exponent_of(x)
    if e < -1000:
        return (x * power_of_two(100)) * power_of_two(-e - 100), e
    return x * power_of_two(-e), e


def ldexp(x: Any, i: int) -> float:
    """math.ldexp: rounded once, also where the result has less than 53 bits."""
    x = float(x)
    if x == 0.0 or not math.isfinite(x):
        return x
    m, e = frexp(x)
    e = e + min(max(i, -5000), 5000)
    if e > 1024:
        raise OverflowError("math range error")
    if e < -1074:
        return math.copysign(0.0, x)
    return m * 2.0 * power_of_two(e - 1) if e > 0 else m * power_of_two(e)


def ulp(x: Any) -> float:
    """math.ulp."""
    x = abs(float(x))
    if not math.isfinite(x):
        return x
    if x == 0.0:
        return 5e-324
    return power_of_two(max(exponent_of(x) - 53, -1074))


def nextafter(x: Any, y: Any) -> float:
    """math.nextafter."""
    x, y = float(x), float(y)
    if math.isnan(x) or math.isnan(y):
        return x + y
    if x == y:
        return math.copysign(x, y)
    if x == 0.0:
        return math.copysign(5e-324, y)
    if math.isinf(x):
        return math.copysign(1.7976931348623157e308, x)
    step = ulp(x)
    if (y > x) == (x > 0.0):
        return x + math.copysign(step, x)
    if frexp(abs(x))[0] == 0.5 and step > 5e-324:  # below a power of two floats are twice as near
        step = step / 2
    return x - math.copysign(step, x)


def remainder(x: Any, y: Any) -> float:
    """math.remainder: x minus the nearest multiple of y, of two the even one."""
    x, y = float(x), float(y)
    if math.isnan(x) or math.isnan(y):
        return x if math.isnan(x) else y
    if math.isinf(x) or y == 0.0:
        raise ValueError("math domain error")
    if math.isinf(y):
        return x
    size, period = abs(x), abs(y)
    rest = fmod(size, period)
    missing = period - rest
    if rest < missing:
        found = rest
    elif rest > missing:
        found = -missing
    else:
        found = rest - 2.0 * fmod(0.5 * (size - rest), period)
    return math.copysign(1.0, x) * found


def fsum(seq: Any) -> float:
    """math.fsum; its derivative is that of a sum."""
    total = 0.0
    for v in seq:
        total = total + float(v)
    exact = exact_sum(held(np.array([float(v) for v in seq])))
    return exact + (total - float(held(total))) if math.isfinite(total) else exact


def exact_sum(values: Any) -> float:
    """The sum of an array rounded once: parts that do not overlap hold all of it (Shewchuk 1997)."""
    parts = np.zeros(64)  # 40 would be enough for all exponents
    count, special, infinite = 0, 0.0, 0.0
    for k in range(len(values)):
        value = float(values[k])
        x = value
        kept = 0
        for j in range(count):
            y = float(parts[j])
            if abs(x) < abs(y):
                x, y = y, x
            high = x + y
            low = y - (high - x)
            if low != 0.0:
                parts[kept] = low
                kept += 1
            x = high
        count = kept
        if not math.isfinite(x):
            if math.isfinite(value):
                raise OverflowError("intermediate overflow in fsum")
            if math.isinf(value):
                infinite += value
            special += value
            count = 0
        elif x != 0.0:
            parts[count] = x
            count += 1
    if special != 0.0:  # not a number, or infinite
        if math.isnan(infinite):
            raise ValueError("-inf + inf in fsum")
        return special
    if count == 0:
        return 0.0
    count -= 1
    high, low = float(parts[count]), 0.0
    while count > 0 and low == 0.0:
        count -= 1
        x, y = high, float(parts[count])
        high = x + y
        low = y - (high - x)
    if count > 0 and low * parts[count - 1] > 0.0:  # a half that the rest makes more than a half
        y = low * 2.0
        x = high + y
        if y == x - high:
            high = x
    return high


_SPLITTER = 134217729.0  # 2^27 + 1


def product_error(a: float, b: float, product: float) -> float:
    """a b - product exactly, for a product that was rounded and does not overflow (Dekker 1971)."""
    t = _SPLITTER * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = _SPLITTER * b
    b_high = t - (t - b)
    b_low = b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def round_float(x: float, ndigits: int) -> float:
    """round(x, ndigits) of a float: the float nearest to the rounded decimal, halves of the exact value to even.

    x 10^n is rounded to p, off by e, which is known exactly. p is a half only if x 10^n is one or next to one, and then
    e says which; up to 2^53 the integer r and 10^n are floats, so that r / 10^n is rounded once. From there on the
    decimal is nearer to x than to any other float.
    """
    if not math.isfinite(x) or x == 0.0:
        return x
    if ndigits < 0:
        return round_to_power(x, -ndigits)
    if ndigits > 22:
        if abs(x) < 1e-6:
            raise ValueError("round() of so small a number to more than 22 digits is not supported")
        return x
    scale = 10.0**ndigits
    if abs(x) >= 9007199254740992.0 / scale:
        return x
    p = x * scale
    nearest = float(np.rint(p))
    if abs(p - nearest) == 0.5:
        rest = product_error(x, scale, p)
        if rest > 0.0:
            nearest = math.floor(p) + 1.0
        elif rest < 0.0:
            nearest = math.ceil(p) - 1.0
    return math.copysign(nearest / scale, x)


def round_to_power(x: float, digits: int) -> float:
    """A float rounded to a multiple of 10^digits, halves to even."""
    if digits > 22:
        if abs(x) >= 1e22:
            raise ValueError("round() of so large a number to so few digits is not supported")
        return math.copysign(0.0, x)
    if abs(x) >= 9007199254740992.0:
        raise ValueError("round() of a float from 2**53 on to negative digits is not supported")
    scale = 10.0**digits
    size = abs(x)
    rest = fmod(size, scale)  # exact, as the difference is
    below = size - rest
    if rest > scale / 2 or (rest == scale / 2 and fmod(below / scale, 2.0) == 1.0):
        below += scale
    return math.copysign(below, x)


def round_int(n: int, ndigits: int) -> int:
    """round(n, ndigits) of an int: unchanged, or to a multiple of a power of ten, halves to even."""
    if ndigits >= 0:
        return n
    if ndigits < -18:
        return 0
    scale = 1
    for _ in range(-ndigits):
        scale *= 10
    below, rest = n // scale, n % scale
    if rest > scale - rest or (rest == scale - rest and below % 2 == 1):
        below += 1
    return below * scale


def times_modulo(a: int, b: int, m: int) -> int:
    """a b modulo m without overflow, for 0 <= a, b < m."""
    if m <= 3037000499:
        return a * b % m
    total = 0
    while b > 0:
        if b % 2 == 1:
            total = total - (m - a) if total >= m - a else total + a
        a = a - (m - a) if a >= m - a else a + a
        b //= 2
    return total


def power_modulo(base: int, exponent: int, m: int) -> int:
    """pow(base, exponent, m) of ints; for a negative exponent of the inverse, if there is one."""
    if m == 0:
        raise ValueError("pow() 3rd argument cannot be 0")
    size = abs(m)
    a = base % size
    if exponent < 0:
        old, now, s, t = a, size, 1, 0
        while now != 0:
            q = old // now
            old, now, s, t = now, old - q * now, t, s - q * t
        if old != 1:
            raise ValueError("base is not invertible for the given modulus")
        a, exponent = s % size, -exponent
    result = 1 % size
    while exponent > 0:
        if exponent % 2 == 1:
            result = times_modulo(result, a, size)
        a = times_modulo(a, a, size)
        exponent //= 2
    return result + m if m < 0 and result > 0 else result


FUNCTIONS = {
    math.degrees: degrees, math.radians: radians, math.gcd: gcd, math.lcm: lcm, math.factorial: factorial,
    math.comb: comb, math.perm: perm, math.isqrt: isqrt, math.fmod: fmod, math.isclose: isclose, math.dist: dist,
    math.hypot: hypot, math.modf: modf, cmath.isclose: complex_isclose,
    math.pow: power, math.frexp: frexp, math.ldexp: ldexp, math.ulp: ulp, math.nextafter: nextafter,
    math.remainder: remainder,
}  # fmt: skip
METHODS: dict[str, Any] = {}
