"""Writes dlvm_py/backend/cpu/coefficients.py, the constants of the elementary functions, all computed here.

    python docs/build_coefficients.py

Polynomials are minimax approximations by Remez' exchange in multiple precision: the weighted error alternates between
degree + 2 points of equal size. Source: Cheney, "Introduction to Approximation Theory" (1966), chapter 3; Muller,
"Elementary Functions" (2016), chapter 3. Needs mpmath, takes half a minute.
"""

import pathlib
import struct
from collections.abc import Callable

import mpmath as mp

OUT = pathlib.Path(__file__).parents[1] / "dlvm_py" / "backend" / "cpu" / "coefficients.py"
mp.mp.prec = 300
Real = Callable[[mp.mpf], mp.mpf]


def minimax(f: Real, low: mp.mpf, high: mp.mpf, degree: int, weight: Real) -> tuple[list[mp.mpf], mp.mpf]:
    """The polynomial of this degree (lowest power first) with the least maximum of |p - f| weight, and that maximum."""
    n = degree + 2
    middle, half = (low + high) / 2, (high - low) / 2
    points = [middle - half * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / n) for k in range(n)]
    grid = [middle - half * mp.cos(mp.pi * k / (24 * n)) for k in range(24 * n + 1)]
    grid[0], grid[-1] = low, high
    values = [(f(x), weight(x)) for x in grid]
    for _ in range(12):
        rows = [[x**k for k in range(degree + 1)] + [(-1) ** j / weight(x)] for j, x in enumerate(points)]
        *terms, level = mp.lu_solve(mp.matrix(rows), mp.matrix([f(x) for x in points]))
        errors = [(mp.polyval(terms[::-1], x) - y) * w for x, (y, w) in zip(grid, values, strict=True)]
        # the largest error of every run of one sign, and of these runs the n neighbours that matter
        peaks: list[int] = []
        for k, e in enumerate(errors):
            if not peaks or errors[peaks[-1]] * e < 0:
                peaks.append(k)
            elif abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = k
        while len(peaks) > n:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        worst = max(map(abs, errors))
        if len(peaks) < n or worst <= abs(level) * mp.mpf("1.02"):
            break
        points = [grid[k] for k in peaks]
    return list(terms), worst


def single(x: mp.mpf) -> float:
    """The nearest f32."""
    return struct.unpack("<f", struct.pack("<f", float(x)))[0]


ROUND = {"double": float, "float": single}


def parts(x: mp.mpf, type: str, n: int) -> tuple[float, ...]:
    """x as an unevaluated sum of n floats, the largest first."""
    found = []
    for _ in range(n):
        found.append(ROUND[type](x))
        x -= mp.mpf(found[-1])
    return tuple(found)


def short(x: mp.mpf, bits: int, type: str) -> tuple[float, ...]:
    """x as a sum of two floats, the first of `bits` bits."""
    unit = mp.mpf(2) ** (mp.floor(mp.log(abs(x), 2)) + 1 - bits)
    high = mp.nint(x / unit) * unit
    return ROUND[type](high), ROUND[type](x - high)


one = lambda x: mp.mpf(1)  # noqa: E731


def after(f: Real, first: Real, power: int) -> Real:
    """z -> (f(√z) - first(√z)) / √z^power, by its limit at 0."""

    def found(z: mp.mpf) -> mp.mpf:
        z = max(z, mp.mpf(2) ** -60)
        with mp.workprec(900):
            x = mp.sqrt(z)
            return (f(x) - first(x)) / x**power

    return found


def exp_tail(r: mp.mpf) -> mp.mpf:
    """(e^r - 1 - r) / r²."""
    with mp.workprec(900):
        return (mp.expm1(r) - r) / r**2 if abs(r) > mp.mpf(2) ** -60 else mp.mpf(1) / 2 + r / 6


def exp2_tail(r: mp.mpf) -> mp.mpf:
    """(2^r - 1) / r."""
    with mp.workprec(900):
        return mp.expm1(r * mp.log(2)) / r if abs(r) > mp.mpf(2) ** -60 else mp.log(2)


def scaled_erfc(t: mp.mpf) -> mp.mpf:
    """(1 + 2x) exp(x²) erfc(x) of t = (x - 4) / (x + 4)."""
    with mp.workprec(2000):
        x = 4 * (1 + t) / (1 - t)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def beside_two(t: mp.mpf) -> mp.mpf:
    """(log Γ(2 + t) - ψ(2) t) / t²."""
    with mp.workprec(500):
        t = t if abs(t) > mp.mpf(2) ** -60 else mp.mpf(2) ** -60
        return (mp.loggamma(2 + t) - mp.psi(0, 2) * t) / t**2


def stirling(w: mp.mpf) -> mp.mpf:
    """z (log Γ(z) - (z - 1/2) log z + z - log √2π) of 1 / z²."""
    with mp.workprec(900):
        z = 1 / mp.sqrt(max(w, mp.mpf(2) ** -80))
        return z * (mp.loggamma(z) - (z - mp.mpf(1) / 2) * mp.log(z) + z - mp.log(2 * mp.pi) / 2)


LN2, PI = mp.log(2), mp.pi
ROOT = mp.sqrt(mp.mpf(1) / 2)
S2 = ((ROOT - 1) / (ROOT + 1)) ** 2  # of s = (m - 1) / (m + 1), m from √½ to √2
QUARTER = (PI / 4 * mp.mpf("1.001")) ** 2
EIGHTH = mp.tan(PI / 8) ** 2 * mp.mpf("1.001")


def log_tail(r: mp.mpf) -> mp.mpf:
    """(log(1 + r) - r + r²/2) / r³."""
    with mp.workprec(900):
        return (mp.log1p(r) - r + r**2 / 2) / r**3 if abs(r) > mp.mpf(2) ** -60 else mp.mpf(1) / 3 - r / 4


# name: (what it is, f, low, high, weight, degree for f64, degree for f32; None: f32 has no use for it)
POLYNOMIALS: dict[str, tuple[str, Real, mp.mpf, mp.mpf, Real, int | None, int | None]] = {
    "EXP": ("(e^r - 1 - r) / r²", exp_tail, -LN2 / 2 * 1.001, LN2 / 2 * 1.001, one, 10, 5),
    "EXP2": ("(2^r - 1) / r", exp2_tail, -mp.mpf("0.5005"), mp.mpf("0.5005"), one, 10, 5),
    "EXP_SHORT": ("(e^r - 1 - r) / r², |r| <= log 2 / 16", exp_tail, -LN2 / 16 * 1.001, LN2 / 16 * 1.001, one, 5, None),
    "EXP2_SHORT": ("(2^r - 1) / r, |r| <= 1/16", exp2_tail, -mp.mpf("0.0626"), mp.mpf("0.0626"), one, 6, None),
    "TANH": ("(tanh x - x) / x³ of x², x < 0.55", after(mp.tanh, lambda x: x, 3), mp.mpf(0), mp.mpf("0.3026"), one,
             None, 4),
    "LOG_TAIL": ("(2 atanh s - 2 s - 2/3 s³) / s⁵ of s²",
                 after(lambda s: 2 * mp.atanh(s), lambda s: 2 * s + 2 * s**3 / 3, 5), mp.mpf(0), S2, one, 7, 2),
    "LOG1P": ("(log(1 + r) - r + r²/2) / r³, |r| <= 1/32", log_tail, -mp.mpf("0.03128"), mp.mpf("0.03128"),
              one, 7, 2),
    "LOG1P_LONG": ("the same to more digits", log_tail, -mp.mpf("0.03128"), mp.mpf("0.03128"), one, 8, 3),
    "TAN": ("(tan r - r) / r³ of r²", after(mp.tan, lambda r: r, 3), mp.mpf(0), QUARTER, one, None, 6),
    "SIN": ("(sin r - r) / r³ of r²", after(mp.sin, lambda r: r, 3), mp.mpf(0), QUARTER, one, 5, 2),
    "COS": ("(cos r - 1 + r²/2) / r⁴ of r²", after(mp.cos, lambda r: 1 - r * r / 2, 4), mp.mpf(0), QUARTER, one, 5, 2),
    "ATAN": ("(atan t - t) / t³ of t²", after(mp.atan, lambda t: t, 3), mp.mpf(0), EIGHTH, one, 11, 4),
    "ASIN": ("(asin t - t) / t³ of t²", after(mp.asin, lambda t: t, 3), mp.mpf(0), mp.mpf(1) / 4, one, 12, 4),
    "ERF": ("(erf x - 2/√π x) / x³ of x², x < 1", after(mp.erf, lambda x: 2 / mp.sqrt(PI) * x, 3), mp.mpf(0),
            mp.mpf("1.001"), one, 11, 5),
    "ERFC": ("(1 + 2x) e^(x²) erfc x of (x - 4) / (x + 4)", scaled_erfc, mp.mpf(-1), mp.mpf("0.76"), one, 22, 12),
    "ERFC_SLOPE": ("the derivative of that", lambda t: mp.diff(scaled_erfc, t), mp.mpf(-1), mp.mpf("0.76"), one, 4, 4),
    "SINH": ("(sinh x - x) / x³ of x², x < 1", after(mp.sinh, lambda x: x, 3), mp.mpf(0), mp.mpf("1.001"), one, 7, 3),
    "CBRT": ("m^(-1/3), m from 1 to 2", lambda m: m ** (-mp.mpf(1) / 3), mp.mpf(1), mp.mpf(2), one, 5, 4),
    "LGAMMA": ("(log Γ(2 + t) - ψ(2) t) / t², |t| <= 1/2", beside_two, -mp.mpf(1) / 2, mp.mpf(1) / 2, one, 17, None),
    "STIRLING": ("z (log Γ(z) - (z - 1/2) log z + z - log √2π) of 1/z², z >= 6", stirling, mp.mpf(0), mp.mpf(1) / 36,
                 one, 8, None),
}  # fmt: skip

PARTS: dict[str, tuple[str, mp.mpf, int]] = {
    "LN2": ("log 2", LN2, 2),
    "LOG2_E": ("log2 e", 1 / LN2, 2),
    "LOG10_E": ("log10 e", 1 / mp.log(10), 2),
    "HALF_PI": ("π/2", PI / 2, 3),
    "QUARTER_PI": ("π/4", PI / 4, 2),
    "PI": ("π", PI, 2),
    "TWO_OVER_PI": ("2/π", 2 / PI, 1),
    "TWO_OVER_ROOT_PI": ("2/√π", 2 / mp.sqrt(PI), 2),
    "TWO_THIRDS": ("2/3", mp.mpf(2) / 3, 2),
    "PSI_2": ("ψ(2)", mp.psi(0, 2), 2),
    "HALF_LOG_2_PI": ("log √2π", mp.log(2 * PI) / 2, 2),
}
# the first part times an exponent is exact
SHORT = {"LN2_SHORT": ("log 2", LN2), "LOG10_2": ("log10 2", mp.log10(2))}
SHORT_BITS = {"double": 42, "float": 16}
# tables for the sixteen intervals of [1, 2): near 1 / m, and its logarithms as the first parts of SHORT times exponents
# and more are exact sums with, and what they lack
INTERVALS = 16
EIGHTHS = 8
LOGARITHMS = {"LOG_TABLE": ("-log", mp.log), "LOG2_TABLE": ("-log2", lambda x: mp.log(x, 2)),
              "LOG10_TABLE": ("-log10", mp.log10)}  # fmt: skip
REDUCTION_BITS = 1232

HEAD = '''"""Constants of the elementary functions, by LLVM's type; made by docs/build_coefficients.py, do not edit.

Polynomials: the lowest power first; the comment is what they approximate and the largest error, absolute.
Sums: a number as an unevaluated sum of floats, the largest first.
"""
'''


def listed(values: tuple[float, ...], name: str) -> str:
    """One entry of a table, in lines of at most 120 characters."""
    text, line = "", f'    "{name}": ('
    for x in values:
        piece = f"{x!r}, "
        if len(line) + len(piece) > 118:
            text += line.rstrip() + "\n"
            line = "        "
        line += piece
    return text + line.rstrip(" ") + "),\n"


def inverses(type: str) -> tuple[float, ...]:
    """1 / m in the middle of each interval, which is an end of what has the same leading digits."""
    return tuple(ROUND[type](1 / (1 + mp.mpf(k) / INTERVALS)) for k in range(INTERVALS))


def logarithms(type: str, log: Real) -> tuple[list[float], list[float]]:
    """-log of them, in units of what is exact beside exponents, and the rest."""
    exact = [-log(mp.mpf(c)) for c in inverses(type)]
    unit = mp.mpf(2) ** -SHORT_BITS[type]
    high = [ROUND[type](mp.nint(x / unit) * unit) for x in exact]
    return high, [ROUND[type](x - mp.mpf(h)) for x, h in zip(exact, high, strict=True)]


def main() -> None:
    """Write the module."""
    lines = [HEAD]
    for name, (what, f, low, high, weight, *degrees) in POLYNOMIALS.items():
        rows, errors = "", []
        for type, degree in zip(ROUND, degrees, strict=True):
            if degree is None:
                continue
            terms, error = minimax(f, low, high, degree, weight)
            errors.append(mp.nstr(error, 2))
            rows += listed(tuple(map(ROUND[type], terms)), type)
        print(name, *errors)
        lines.append(f"# {what}: {' and '.join(errors)}\n{name} = {{\n{rows}}}  # fmt: skip\n")
    for name, (what, x, n) in PARTS.items():
        rows = "".join(listed(parts(x, type, n), type) for type in ROUND)
        lines.append(f"{name} = {{  # {what}\n{rows}}}\n")
    for name, (what, x) in SHORT.items():
        rows = "".join(listed(short(x, SHORT_BITS[type], type), type) for type in ROUND)
        lines.append(f"{name} = {{  # {what}; the first part is short\n{rows}}}\n")
    rows = "".join(listed(inverses(type), type) for type in ROUND)
    lines.append(f"# 1 / (1 + k/{INTERVALS})\nINVERSE_TABLE = {{\n{rows}}}  # fmt: skip\n")
    eighths = tuple(float(mp.mpf(2) ** (mp.mpf(k) / EIGHTHS)) for k in range(EIGHTHS))
    lines.append(f"# 2^(k/{EIGHTHS})\nEXP2_TABLE = {{\n{listed(eighths, 'double')}}}  # fmt: skip\n")
    scales = {0: mp.mpf(1), 1: mp.cbrt(mp.mpf(1) / 2), INTERVALS - 1: mp.cbrt(2)}
    rows = "".join(listed(tuple(ROUND[t](scales.get(k, mp.mpf(0))) for k in range(INTERVALS)), t) for t in ROUND)
    lines.append(f"# 2^(-j/3) at j modulo {INTERVALS}, j from -1 to 1\nCBRT_SCALE = {{\n{rows}}}  # fmt: skip\n")
    for name, (what, log) in LOGARITHMS.items():
        for k, (suffix, which) in enumerate((("", "in short"), ("_LOW", "what that lacks"))):
            rows = "".join(listed(tuple(logarithms(type, log)[k]), type) for type in ROUND)
            lines.append(f"# {what} of these, {which}\n{name}{suffix} = {{\n{rows}}}  # fmt: skip\n")
    with mp.workprec(REDUCTION_BITS + 100):
        digits = f"{int(mp.floor(2 / PI * mp.mpf(2) ** REDUCTION_BITS)):X}"
    pieces = [digits[k : k + 100] for k in range(0, len(digits), 100)]
    body = "".join(f'    "{p}"\n' for p in pieces)
    lines.append(f"# 2/π · 2^{REDUCTION_BITS}, rounded down, hexadecimal\nTWO_OVER_PI_BITS = {REDUCTION_BITS}\n")
    lines.append(f"TWO_OVER_PI_DIGITS = (\n{body})\n")
    OUT.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
