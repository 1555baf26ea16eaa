"""What the elementary functions are written with: float values with Python's operators, polynomials, exact sums.

A condition is a comparison and a `where`; `rarely` and, of single numbers, `either` branch. Floating point is strict,
with fma where it is written. A *pair* (high, low) is an unevaluated sum of two floats. Source of the exact sums and
products: Dekker (1971), Knuth (TAOCP 2, 4.2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dlvm_py.backend.cpu.kept_registers import KEEPS_REGISTERS, as_kept, call_keeping, kept_type
from dlvm_py.backend.cpu.lanes import shuffled
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.values import V, element_of, float_constant, in_all_lanes, in_lanes, lanes_of
from dlvm_py.frozen import Frozen

Pair = tuple["X", "X"]


class Form(Frozen):
    """A float format: LLVM's types, bits of the mantissa, bias of the exponent, and bounds."""

    type: str
    whole: str
    bits: int
    bias: int
    overflow: float  # e^x is infinite from here on
    underflow: float  # e^x is 0 from here on
    tiny: float  # the smallest normal number

    @property
    def magic(self) -> float:
        """Adding it rounds to an integer, which then stands in the last bits."""
        return 1.5 * 2.0**self.bits


FORMS = {
    "double": Form("double", "i64", 52, 1023, 710.0, -746.0, 2.2250738585072014e-308),
    "float": Form("float", "i32", 23, 127, 89.0, -104.0, 1.1754943508222875e-38),
}


class X:
    """A float value, or a vector of them, in the making: Python's operators emit instructions."""

    def __init__(self, f: FunctionText, v: V) -> None:
        self.f, self.v = f, v

    @property
    def kind(self) -> str:
        """The type of a number."""
        return element_of(self.v.type)

    @property
    def lanes(self) -> int:
        """How many numbers: 1 of a scalar."""
        return lanes_of(self.v.type)

    @property
    def form(self) -> Form:
        """The format."""
        return FORMS[self.kind]

    def of(self, x: float | X) -> X:
        """A constant of the same format."""
        return x if isinstance(x, X) else X(self.f, in_all_lanes(float_constant(self.kind, x), self.lanes))

    def from_bits(self, bits: V) -> X:
        """The number with this pattern."""
        return X(self.f, self.f.cast("bitcast", bits, self.v.type))

    def _op(self, name: str, a: float | X, b: float | X) -> X:
        return X(self.f, self.f.fop(name, self.of(a).v, self.of(b).v))

    def __add__(self, other: float | X) -> X:
        return self._op("fadd", self, other)

    def __sub__(self, other: float | X) -> X:
        return self._op("fsub", self, other)

    def __rsub__(self, other: float) -> X:
        return self._op("fsub", other, self)

    def __mul__(self, other: float | X) -> X:
        return self._op("fmul", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: float | X) -> X:
        return self._op("fdiv", self, other)

    def __rtruediv__(self, other: float) -> X:
        return self._op("fdiv", other, self)

    def __neg__(self) -> X:
        return X(self.f, self.f.fneg(self.v))

    def __abs__(self) -> X:
        return self._intrinsic("fabs")

    def _intrinsic(self, name: str, *more: float | X) -> X:
        number = "f64" if self.kind == "double" else "f32"
        type = number if self.lanes == 1 else f"v{self.lanes}{number}"
        args = [self.v, *(self.of(x).v for x in more)]
        return X(self.f, self.f.intrinsic(f"llvm.{name}.{type}", self.v.type, *args))

    def fma(self, b: float | X, c: float | X) -> X:
        """self * b + c, rounded once."""
        return self._intrinsic("fma", b, c)

    def sqrt(self) -> X:
        """The square root."""
        return self._intrinsic("sqrt")

    def rint(self) -> X:
        """The nearest integer."""
        return self._intrinsic("rint")

    def floor(self) -> X:
        """The largest integer that is not above."""
        return self._intrinsic("floor")

    def sign_of(self, other: X) -> X:
        """|self| with the sign of `other`."""
        return self._intrinsic("copysign", other)

    def compare(self, how: str, other: float | X) -> V:
        """An ordered comparison (or "uno")."""
        return self.f.fcmp(how, self.v, self.of(other).v)

    def where(self, flag: V, other: float | X) -> X:
        """self where the flag holds, else `other`."""
        return X(self.f, self.f.select(flag, self.v, self.of(other).v))

    def unless(self, flag: V, other: float | X) -> X:
        """`other` where the flag holds, else self."""
        return X(self.f, self.f.select(flag, self.of(other).v, self.v))

    def bits(self) -> V:
        """The pattern as an integer."""
        return self.f.cast("bitcast", self.v, in_lanes(self.form.whole, self.lanes))

    def is_negative(self) -> V:
        """Whether the sign bit is set, that of -0 too."""
        return self.f.icmp("slt", self.bits(), whole(self, 0))

    def is_nan(self) -> V:
        """Whether it is NaN."""
        return self.compare("uno", self)

    def to(self, kind: str) -> X:
        """The same number in another format, rounded if that is narrower."""
        if kind == self.kind:
            return self
        how = "fpext" if kind == "double" else "fptrunc"
        return X(self.f, self.f.cast(how, self.v, in_lanes(kind, self.lanes)))

    def rarely(self, flag: V, name: str, rule: Callable[..., X], *args: X) -> X:
        """self, but rule(args) where the flag holds: a function of its own, called where any lane wants it."""
        f = self.f
        rare, usual = f.label("rare"), f.label("usual")
        if self.lanes == 1:
            none = f.op("xor", flag, V("i1", "true"))
        else:
            flags = f"i{self.lanes}"
            none = f.icmp("eq", f.cast("bitcast", flag, flags), V(flags, "0"))
        before = f.here
        f.likely(none, usual, rare)
        f.place(rare)
        symbol = f"elementary.rare.{name}.{self.kind}.x{self.lanes}"
        if symbol not in f.module.functions:
            attributes = f"internal {KEEPS_REGISTERS if f.module.permutes else ''} |noinline cold nounwind"
            returned = kept_type(f, self.v.type)
            g = FunctionText(f.module, symbol, returned, [a.v.type for a in args], attributes)
            g.line(f"ret {returned} {as_kept(g, rule(*(X(g, p) for p in g.params)).v).ref}")
        found = X(f, call_keeping(f, symbol, self.v.type, [a.v for a in args])).where(flag, self)
        f.br(usual)
        f.place(usual)
        phi = f.phi(self.v.type)
        phi.add(self.v, before)
        phi.add(found.v, rare)
        return X(f, phi.value)

    def is_outside(self, low: float, high: float) -> V:
        """Whether it is not in [low, high), of which low is not negative; by patterns, and so true of NaN."""
        f, first, last = self.f, self.of(low).bits(), self.of(high).bits()
        return f.icmp("uge", f.op("sub", self.bits(), first), f.op("sub", last, first))

    def of_table(self, name: str, table: Mapping[str, Sequence[float]], index: V) -> X:
        """The number of a table of 16, or of 8 doubles, at an index modulo that; in registers if vectors have room."""
        f, kind, lanes = self.f, self.kind, self.lanes
        numbers = [float_constant(kind, x) for x in table[kind]]
        if lanes > 1 and f.module.masks:
            return X(f, _permuted(f, numbers, index, lanes))
        if f.module.permutes and len(numbers) == 8 and lanes in (4, 8):
            return X(f, _permuted_in_fours(f, numbers, index, lanes))
        symbol = f"elementary.table.{name}.{kind}"
        f.module.constant(symbol, f"[{len(numbers)} x {kind}] [{', '.join(f'{n.type} {n.ref}' for n in numbers)}]")
        index = f.op("and", index, whole(self, len(numbers) - 1))
        if lanes == 1:
            return X(f, f.load(kind, f.gep(kind, V("ptr", f"@{symbol}"), index), ", !invariant.load !{}"))
        found = V(self.v.type, "poison")
        for k in range(lanes):
            at = f.pure(self.form.whole, f"extractelement {index.type} {index.ref}, i64 {k}")
            x = f.load(kind, f.gep(kind, V("ptr", f"@{symbol}"), at), ", !invariant.load !{}")
            found = f.value(self.v.type, f"insertelement {self.v.type} {found.ref}, {kind} {x.ref}, i64 {k}")
        return X(f, found)


def _permuted(f: FunctionText, numbers: Sequence[V], index: V, lanes: int) -> V:
    """Numbers of a table at vectors of indices: whole registers of AVX-512 and parts of them."""
    kind, n = numbers[0].type, 8 if numbers[0].type == "double" else 16
    if lanes > n:
        parts = [_permuted(f, numbers, shuffled(f, index, index, range(k, k + n)), n) for k in range(0, lanes, n)]
        return _joined(f, parts)
    register = in_lanes(kind, n)
    halves = [_listed(numbers[k : k + n]) for k in range(0, len(numbers), n)]
    if lanes != n:
        index = shuffled(f, index, index, [k % lanes for k in range(n)])
    if kind == "double" and len(halves) == 1:
        found = f.intrinsic("llvm.x86.avx512.permvar.df.512", register, halves[0], index)
    elif kind == "double":
        found = f.intrinsic("llvm.x86.avx512.vpermi2var.pd.512", register, halves[0], index, halves[1])
    else:
        found = f.intrinsic("llvm.x86.avx512.permvar.sf.512", register, halves[0], index)
    return found if lanes == n else shuffled(f, found, found, range(lanes))


def _permuted_in_fours(f: FunctionText, numbers: Sequence[V], index: V, lanes: int) -> V:
    """Eight doubles at vectors of indices: two registers of AVX2, of which each is permuted as pairs of floats."""
    if lanes > 4:
        cuts = [shuffled(f, index, index, range(k, k + 4)) for k in range(0, lanes, 4)]
        return _joined(f, [_permuted_in_fours(f, numbers, cut, 4) for cut in cuts])
    # double k is the floats 2k and 2k + 1
    halves = f.cast("bitcast", index, "<8 x i32>")
    halves = shuffled(f, halves, halves, [0, 0, 2, 2, 4, 4, 6, 6])
    twice = f.op("add", halves, halves)
    places = f.op("add", twice, V("<8 x i32>", f"<{', '.join(['i32 0, i32 1'] * 4)}>"))
    floats, found = "<8 x float>", []
    for four in (numbers[:4], numbers[4:]):
        part = f.intrinsic("llvm.x86.avx2.permps", floats, f.cast("bitcast", _listed(four), floats), places)
        found.append(f.cast("bitcast", part, "<4 x double>"))
    is_low = f.icmp("sge", f.op("shl", index, in_all_lanes(V("i64", "61"), 4)), in_all_lanes(V("i64", "0"), 4))
    return f.select(is_low, *found)


def _listed(numbers: Sequence[V]) -> V:
    """A vector of constants."""
    text = ", ".join(f"{x.type} {x.ref}" for x in numbers)
    return V(in_lanes(numbers[0].type, len(numbers)), f"<{text}>")


def _joined(f: FunctionText, parts: list[V]) -> V:
    """Vectors one behind the other, of which there are a power of two."""
    while len(parts) > 1:
        both = range(2 * lanes_of(parts[0].type))
        parts = [shuffled(f, a, b, both) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def whole(x: X, n: int) -> V:
    """An integer constant as wide as the pattern of x."""
    return in_all_lanes(V(x.form.whole, str(n)), x.lanes)


def polynomial(x: X, terms: Sequence[float]) -> X:
    """Σ terms[k] x^k: one chain, or for many terms the even and the odd ones beside each other."""
    return polynomial_in_halves(x, terms) if len(terms) > 8 else polynomial_of(x, terms)


def polynomial_in_halves(x: X, terms: Sequence[float]) -> X:
    """Σ terms[k] x^k, the even and the odd ones beside each other: half of Horner's wait for x, by one product more."""
    square = x * x
    return polynomial_of(square, terms[1::2]).fma(x, polynomial_of(square, terms[::2]))


def polynomial_of(x: X, terms: Sequence[float]) -> X:
    """Σ terms[k] x^k by Horner's rule."""
    total = x.of(terms[-1])
    for term in terms[-2::-1]:
        total = total.fma(x, term)
    return total


def polynomial_in_pairs(x: X, terms: Sequence[float]) -> X:
    """Σ terms[k] x^k by Estrin's rule: pairs of terms, pairs of those, ...: the shortest wait for x."""
    sums = [x.of(c) for c in terms]
    while True:
        pairs = zip(sums[1::2], sums[::2], strict=False)
        sums = [high.fma(x, low) for high, low in pairs] + (sums[-1:] if len(sums) % 2 else [])
        if len(sums) == 1:
            return sums[0]
        x = x * x


def either(f: FunctionText, flag: V, yes: Callable[[], X], no: Callable[[], X]) -> X:
    """yes() where the flag holds, else no(), behind a branch: nothing waits for the one that is not wanted."""
    labels, after = (f.label("yes"), f.label("no")), f.label("after")
    f.cond_br(flag, *labels)
    ends = []
    for label, rule in zip(labels, (yes, no), strict=True):
        f.place(label)
        ends.append((rule().v, f.here))
        f.br(after)
    f.place(after)
    phi = f.phi(ends[0][0].type)
    for v, label in ends:
        phi.add(v, label)
    return X(f, phi.value)


def two_sum(a: X, b: X) -> Pair:
    """a + b and what rounding it has lost."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def sum_of(a: X | float, b: X) -> Pair:
    """a + b and what rounding it has lost, where |a| >= |b| or a = 0."""
    total = a + b
    return total, b.of(a) - total + b


def product_of(a: X, b: X | float) -> Pair:
    """a b and what rounding it has lost."""
    product = a * b
    return product, a.fma(b, -product)


def power_of_two(x: X, n: V) -> X:
    """2^n in the format of x, n an integer of a normal exponent."""
    f, form = x.f, x.form
    biased = f.op("add", n, whole(x, form.bias))
    shifted = f.op("shl", biased, whole(x, form.bits))
    return x.from_bits(shifted)


def nearest(x: X, factor: float, parts: int = 1) -> tuple[V, X]:
    """The number n nearest to x · factor, in units of 1 / parts as an integer, and as a float; |n| is small."""
    magic = x.form.magic / parts
    shifted = x.fma(factor, magic)
    return x.f.op("sub", shifted.bits(), x.of(magic).bits()), shifted - magic


def split(x: X, base: tuple[float, float, float], parts: int = 1) -> tuple[V, X, X]:
    """(n as of `nearest`, n as a float, x - n · log base), with base = (1 / log, log high, log low); |n| is small."""
    n, number = nearest(x, base[0], parts)
    r = (-number).fma(base[1], x)
    return n, number, (-number).fma(base[2], r) if base[2] else r


def clamped(x: X, low: float, high: float) -> X:
    """x within bounds; NaN stays."""
    x = x.unless(x.compare("olt", low), low)
    return x.unless(x.compare("ogt", high), high)


def halved(x: X, n: V, times: int = 1) -> V:
    """n / 2^times, rounded down, of integers of 32 bits as wide as x: AVX2 has no such shift of 64 bits."""
    f = x.f
    if x.kind == "float" or x.lanes == 1 or f.module.masks:
        return f.op("ashr", n, whole(x, times))
    pairs = f.cast("bitcast", n, in_lanes("i32", 2 * x.lanes))
    return f.cast("bitcast", f.op("ashr", pairs, in_all_lanes(V("i32", str(times)), 2 * x.lanes)), n.type)


def raised(y: X, n: V) -> X:
    """y · 2^n by adding to the exponent, where all of these are normal numbers."""
    f = y.f
    return y.from_bits(f.op("add", y.bits(), f.op("shl", n, whole(y, y.form.bits))))


def scaled(y: X, n: V, number: X | None = None) -> X:
    """y · 2^n, n an integer; number: n as a float, or what is less than 1 above it.

    In two steps, so that neither factor overflows before the product does. AVX-512 has one instruction for it.
    """
    if number is not None and scales(y):
        return _scaled_at_once(y, number)
    half = halved(y, n)
    return y * power_of_two(y, half) * power_of_two(y, y.f.op("sub", n, half))


def scaled_sum(a: X, b: X, n: V, number: X) -> X:
    """(a + a b) · 2^n, rounded once if normal, a near 1 and b small; n, number: as of `scaled`."""
    if scales(a):
        return _scaled_at_once(b.fma(a, a), number)
    half = halved(a, n)
    part = raised(a, half)
    return b.fma(part, part) * power_of_two(a, a.f.op("sub", n, half))


def scales(y: X) -> bool:
    """Whether there is one instruction that scales such a vector."""
    size = y.lanes * (64 if y.kind == "double" else 32)
    return y.f.module.masks and y.lanes > 1 and size in (128, 256, 512)


def _scaled_at_once(y: X, number: X) -> X:
    f, size = y.f, y.lanes * (64 if y.kind == "double" else 32)
    mask = V(f"i{max(y.lanes, 8)}", "-1")
    rounding = [V("i32", "4")] if size == 512 else []  # as usual
    name = f"llvm.x86.avx512.mask.scalef.p{'d' if y.kind == 'double' else 's'}.{size}"
    return X(f, f.intrinsic(name, y.v.type, y.v, number.v, y.v, mask, *rounding))
