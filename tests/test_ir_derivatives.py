"""Derivatives of programs in text: every op that has one, in every dtype and broadcast pattern, beside differences.

Each case is an instruction (or a few) as a function of values; AD writes its seedable adjoint with respect to all
operands that are floats. Held against it: central differences along a random direction, by the interpreter in f64,
which is the dot-product identity ⟨seed, J v⟩ = ⟨Jᵀ seed, v⟩; the adjoint in f32; its own adjoint; native code.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from dlvm_py.ir import OPS, TensorType
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.op import Kind
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify
from dlvm_py.tools.native import callable_of
from dlvm_py.transforms import differentiate_module

H = 1e-6


def function(body, types, result, name="f"):
    """The text of a function of parameters %a, %b, ...; `body` gives %y."""
    params = list(zip("abcdefgh", types, strict=False))
    lines = "\n    ".join(body.split("; "))
    listed = ", ".join(f"%{p}: {t}" for p, t in params)
    head = f"func @{name}: ({', '.join(types)}) -> {result} {{\n'0({listed}):\n"
    return f"{head}    {lines}\n    return %y: {result}\n}}\n"


def result_of(body, types):
    """The type of %y: that of a use with another type is complained of."""
    text = 'module "m"\nstage raw\n\n' + function(body, types, "()")
    try:
        parse_module(text)
    except Exception as e:
        return str(e).split("'%y' is ")[1].split(", not ()")[0]
    raise AssertionError(body)


def program(body, types, twice=False, result=None):
    """The module of a case, its seedable adjoint for the floats, and perhaps the adjoint of the first derivative."""
    result = result or result_of(body, types)
    wrt = [k for k, t in enumerate(types) if "f32" in t or "f64" in t]
    signature = f"({', '.join([*types, result])}) -> ({', '.join(types[k] for k in wrt)})"
    listed = "" if len(wrt) == len(types) else " wrt " + ", ".join(map(str, wrt))
    text = 'module "m"\nstage raw\n\n' + function(body, types, result)
    text += f"\n[adjoint @f{listed} seedable]\nfunc @df: {signature}\n"
    if twice:
        first = types[wrt[0]]
        all_wrt = ", ".join(map(str, [*wrt, len(types)]))
        taken = ", ".join([*types, result, first])
        text += (
            f"\n[adjoint @df from 0 wrt {all_wrt} seedable]\n"
            f"func @ddf: ({taken}) -> ({', '.join([*(types[k] for k in wrt), result])})\n"
        )
    module = parse_module(text)
    verify(module)
    differentiate_module.run(module)
    verify(module)
    return module


def values(module, name, rng, low=0.3, high=1.7):
    """Arguments of a function: floats in a range, integers 1, flags both ways."""
    found = []
    for t in module.functions[name].type.params:
        assert isinstance(t, TensorType)
        shape = [3 if n is None else n for n in t.shape]
        if t.dtype.kind == "f":
            found.append(rng.uniform(low, high, shape).astype(t.dtype.numpy))
        elif t.dtype.kind == "b":
            found.append(rng.random(shape) < 0.5)
        else:
            found.append(np.ones(shape, t.dtype.numpy))
    return [v if np.ndim(v) else v[()] if isinstance(v, np.ndarray) else v for v in found]


def as_list(found):
    """Results as a list."""
    return list(found) if isinstance(found, tuple) else [found]


def inner(xs, ys):
    """⟨x, y⟩ over lists of arrays."""
    return sum(float(np.sum(np.asarray(x, np.float64) * y)) for x, y in zip(xs, ys, strict=True))


def check_adjoint(module, primal, adjoint, args, rng, tol=2e-6):
    """Dot-product identity of an adjoint, its last argument the seed of the first result, with differences."""
    floats = [k for k, a in enumerate(args) if np.asarray(a).dtype.kind == "f"]
    direction = [rng.normal(size=np.shape(args[k])) for k in floats]

    def moved(h):
        shifted = list(args)
        for k, d in zip(floats, direction, strict=True):
            shifted[k] = np.asarray(args[k] + h * d)[()]
        return np.asarray(as_list(run(module, primal, shifted))[0])

    jv = (moved(H) - moved(-H)) / (2 * H)
    seed = np.asarray(rng.normal(size=np.shape(jv)))[()]
    found = as_list(run(module, adjoint, [*args, seed]))
    for k, g in zip(floats, found, strict=True):
        assert np.shape(g) == np.shape(args[k]) and np.asarray(g).dtype == np.asarray(args[k]).dtype
    left, right = inner([seed], [jv]), inner(found, direction)
    assert abs(left - right) <= tol * (1 + abs(left) + inner(map(np.abs, found), map(np.abs, direction))), (left, right)
    return found, seed


def check(body, types, *, twice=True, native=False, low=0.3, high=1.7, tol=2e-6):
    """All that is held against a case."""
    rng = np.random.default_rng(zlib.crc32(body.encode()))
    module = program(body, types, twice=twice)
    args = values(module, "f", rng, low, high)
    found, seed = check_adjoint(module, "f", "df", args, rng, tol)
    if native:
        ours = as_list(callable_of(module, "df")(*args, seed))
        for g, w in zip(ours, found, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12)
    if twice:
        check_adjoint(module, "df", "ddf", [*args, seed], rng, 10 * tol)
    if any("f64" in t for t in types):
        single = program(body.replace("f64", "f32"), [t.replace("f64", "f32") for t in types])
        narrow = [a.astype(np.float32) if np.asarray(a).dtype.kind == "f" else a for a in [*args, seed]]
        for g, w in zip(as_list(run(single, "df", narrow)), found, strict=True):
            assert np.asarray(g).dtype == np.float32
            np.testing.assert_allclose(g, w, rtol=2e-4, atol=2e-4 * (1 + np.max(np.abs(w))))


# -- elementwise ---------------------------------------------------------------------------------------------

RANGES = {"asin": (-0.8, 0.8), "acos": (-0.8, 0.8), "atanh": (-0.8, 0.8), "acosh": (1.3, 2.5), "sign": (0.2, 1)}
SHAPES = {
    1: [["f64"], ["<3 x f64>"], ["<_ x 2 x f64>"]],
    2: [
        ["f64", "f64"], ["<2 x 3 x f64>", "<2 x 3 x f64>"], ["f64", "<2 x 3 x f64>"], ["<2 x 3 x f64>", "f64"],
        ["<2 x 1 x f64>", "<1 x 3 x f64>"], ["<1 x 3 x f64>", "<4 x 3 x f64>"], ["<_ x 1 x f64>", "<_ x 2 x f64>"],
    ],
}  # fmt: skip


def elementwise():
    """(name, number of operands) of the elementwise ops with a derivative, that take floats alone."""
    beside = {"select", "dataTypeCast", "scaleSeed", "polygamma"}
    for name, op in OPS.items():
        if op.kind is Kind.ELEMENTWISE and op.no_derivative is None and name not in beside:
            for count in (1, 2):
                try:
                    t = result_of(f"%y = {name} {', '.join(f'%{p}: f64' for p in 'ab'[:count])}", ["f64"] * count)
                except IndexError:
                    continue
                if t == "f64":
                    yield name, count


ELEMENTWISE = list(elementwise())


def test_the_list_of_elementwise_ops():
    """It is long: what the table says of floats."""
    assert len(ELEMENTWISE) >= 40
    some = {"add", "divide", "power", "max", "atan2", "lgamma", "digamma", "trigamma", "erfc"}
    assert some <= {n for n, _ in ELEMENTWISE}


@pytest.mark.parametrize(("name", "count"), ELEMENTWISE, ids=str)
def test_elementwise(name, count):
    """At ordinary points, in every broadcast pattern; twice for one shape."""
    for k, types in enumerate(SHAPES[count]):
        body = f"%y = {name} " + ", ".join(f"%{p}: {t}" for p, t in zip("ab", types, strict=False))
        low, high = RANGES.get(name, (0.3, 1.7))
        check(body, types, twice=k in (1, 5), low=low, high=high)


# -- the others ----------------------------------------------------------------------------------------------

V3, M23, M45, IMAGE = "<3 x f64>", "<2 x 3 x f64>", "<4 x 5 x f64>", "<2 x 4 x 5 x 6 x f64>"
CASES = [
    # (body, types of %a, %b, ...)
    (f"%y = polygamma %a: {V3} order 2", [V3]),
    (f"%y = dataTypeCast %a: {V3} to f64", [V3]),
    ("%w = dataTypeCast %a: <3 x f64> to f64; %y = multiply %w: <3 x f64>, %b: <3 x f64>", [V3, V3]),
    (f"%c0 = greaterThan %a: {V3}, 1.0: f64; %y = select %a: {V3}, %b: f64 by %c0: <3 x bool>", [V3, "f64"]),
    (f"%y = select %a: f64, %b: {M23} by %c: bool", ["f64", M23, "bool"]),
    (
        "%y = select %a: <2 x 1 x f64>, %b: <1 x 3 x f64> by %c: <2 x 3 x bool>",
        ["<2 x 1 x f64>", "<1 x 3 x f64>", "<2 x 3 x bool>"],
    ),
    (f"%y = scaleSeed %a: {V3}, %b: {V3}", [V3, V3]),
    (f"%y = transpose %a: {M23}", [M23]),
    ("%y = transpose %a: <2 x 3 x 4 x f64> axes 1, 2, 0", ["<2 x 3 x 4 x f64>"]),
    (f"%y = padShape %a: {M23} at 1", [M23]),
    (f"%y = padShape %a: {M23} at 0", [M23]),
    ("%y = padShape %a: f64 at 0", ["f64"]),
    ("%y = squeezeShape %a: <2 x 1 x f64> at 1", ["<2 x 1 x f64>"]),
    (f"%y = shapeCast %a: {M23} to 3 x 2", [M23]),
    (f"%y = shapeCast %a: {M23} to 6", [M23]),
    ("%y = shapeCast %a: <1 x f64> to scalar", ["<1 x f64>"]),
    ("%y = slice %a: <5 x 2 x f64> from 1 upto 3", ["<5 x 2 x f64>"]),
    (f"%y = reverse %a: {M23} along 0", [M23]),
    (f"%y = reverse %a: {M23} along 0, 1", [M23]),
    (f"%y = concatenate %a: {M23}, %b: <4 x 3 x f64>, %a: {M23} along 0", [M23, "<4 x 3 x f64>"]),
    ("%y = concatenate %a: <2 x 1 x f64>, %b: <2 x 2 x f64> along 1", ["<2 x 1 x f64>", "<2 x 2 x f64>"]),
    (
        "%y = section %a: <5 x 4 x f64> at (4: i64, 1: i64) count (2: i64, 2: i64) step (-2: i64, 2: i64)",
        ["<5 x 4 x f64>"],
    ),
    ("%y = embed %a: <2 x f64> in %b: f64 to (5: i64) at (1: i64) step (2: i64)", ["<2 x f64>", "f64"]),
    ("%y = broadcast %a: <1 x 3 x f64> to (4: i64, 3: i64)", ["<1 x 3 x f64>"]),
    ("%y = broadcast %a: f64 to (4: i64, 3: i64)", ["f64"]),
    ("%y = unbroadcast %a: <4 x 3 x f64> to (1: i64, 3: i64)", ["<4 x 3 x f64>"]),
    ("%y = dot %a: <2 x 3 x f64>, %b: <3 x 4 x f64>", ["<2 x 3 x f64>", "<3 x 4 x f64>"]),
    ("%y = dot %a: <3 x f64>, %b: <3 x f64>", [V3, V3]),
    ("%y = dot %a: <2 x 3 x f64>, %b: <3 x f64>", [M23, V3]),
    ("%y = dot %a: <3 x f64>, %b: <3 x 2 x f64>", [V3, "<3 x 2 x f64>"]),
    ("%y = dot %a: <3 x 3 x f64>, %a: <3 x 3 x f64>", ["<3 x 3 x f64>"]),
    *(
        (f"%y = reduce %a: {M23} by {by} init %b: f64 along {axes}", [M23, "f64"])
        for by in ("add", "multiply", "max", "min")
        for axes in ("0", "1", "1, 0")
    ),
    (f'%y = reduce %a: {M23} by builtin "max" init -9.0: f64 along 1', [M23]),
    *((f"%y = scan %a: <2 x 4 x f64> by {by} along 1", ["<2 x 4 x f64>"]) for by in ("add", "multiply", "max", "min")),
    ("%y = scan %a: <2 x 3 x f64> by add along 0, 1", [M23]),
    ("%y = sort %a: <2 x 3 x f64> along 1", [M23]),
    ("%y = recurrence %a: <2 x 4 x f64>, %b: <2 x 4 x f64> along 1", ["<2 x 4 x f64>", "<2 x 4 x f64>"]),
    ("%y = windows %a: <7 x f64> size (2: i64) count (3: i64) step (2: i64) spread (1: i64)", ["<7 x f64>"]),
    ("%y = overlapAdd %a: <2 x 3 x f64> to (7: i64) step (2: i64) spread (1: i64)", [M23]),
    *(
        (f"%y = reduceWindow %a: {M45} by {by} init 0: f64 dims 2, 3 strides {strides} padding {padding}", [M45])
        for by in ("add", "max", "min", "multiply")
        for strides, padding in (("1, 1", "none"), ("2, 1", "half"), ("2, 3", "full"))
        if not (by == "multiply" and padding != "none")
    ),
    *(
        (f"%y = convolve %a: {IMAGE} kernel %b: <4 x {c} x 2 x 3 x f64>{clauses}", [IMAGE, f"<4 x {c} x 2 x 3 x f64>"])
        for c, clauses in (
            (4, ""),
            (4, " strides 2, 1"),
            (4, " padding (1, 2), (0, 1)"),
            (4, " leftDilation 2, 1"),
            (4, " rightDilation 1, 2"),
            (2, " groups 2"),
            (1, " groups 4"),
            (2, " strides 2, 3 padding (1, 1), (2, 0) leftDilation 2, 2 rightDilation 2, 1 groups 2"),
        )
    ),
    (
        "%y = convolve %a: <1 x 2 x 6 x f64> kernel %b: <3 x 2 x 2 x f64> strides 2",
        ["<1 x 2 x 6 x f64>", "<3 x 2 x 2 x f64>"],
    ),
    ("%y = extract 1 from %a: <3 x f64>", [V3]),
    ("%y = extract 1, 2 from %a: <2 x 3 x f64>", [M23]),
    ("%y = insert %a: f64 to %b: <3 x f64> at 1", ["f64", V3]),
    ("%y = insert %a: <3 x f64> to %b: <2 x 3 x f64> at 0", [V3, M23]),
    ("%y = literal <%a: f64, 2.0: f64, %a: f64>: <3 x f64>", ["f64"]),
    ("%y = literal <%a: <2 x f64>, %b: <2 x f64>>: <2 x 2 x f64>", ["<2 x f64>", "<2 x f64>"]),
    ('%y = builtin "softmax"(%a: <2 x 3 x f64>) -> <2 x 3 x f64>', [M23]),
    ('%y = builtin "mean"(%a: <2 x 3 x f64>) -> f64', [M23]),
    ('%y = builtin "max"(%a: <3 x f64>, %b: f64) -> <3 x f64>', [V3, "f64"]),
    ('%y = builtin "min"(%a: <3 x f64>, %b: <3 x f64>) -> <3 x f64>', [V3, V3]),
    # what carries no derivative: the flow ends there, the arguments get zeros
    ("%w = floor %a: <3 x f64>; %y = multiply %w: <3 x f64>, %b: <3 x f64>", [V3, V3]),
    (
        f"%w = random 3 from 0.0: f64 upto %b: f64; %z = subtract %w: {V3}, %w: {V3}; %y = add %z: {V3}, %a: {V3}",
        [V3, "f64"],
    ),
    ("%n = unitCount of %a: <3 x f64>; %m = dataTypeCast %n: i64 to f64; %y = multiply %m: f64, %a: <3 x f64>", [V3]),
    ("%y = multiply %a: <3 x f64>, 2.0: f64", [V3, "f64"]),
]


IDS = [b.split("%y = ")[1].split(":")[0] + f" {k}" for k, (b, _) in enumerate(CASES)]


@pytest.mark.parametrize(("body", "types"), CASES, ids=IDS)
def test_others(body, types):
    """At ordinary points, first and second derivatives."""
    check(body, types, twice=True, tol=5e-6)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_natively():
    """The same adjoints in native code, all of them."""
    for name, count in ELEMENTWISE:
        for types in SHAPES[count]:
            body = f"%y = {name} " + ", ".join(f"%{p}: {t}" for p, t in zip("ab", types, strict=False))
            low, high = RANGES.get(name, (0.3, 1.7))
            check(body, types, native=True, twice=False, low=low, high=high)
    for body, types in CASES:
        check(body, types, native=True, twice=False)


@pytest.mark.parametrize("k", range(0, len(CASES), 9))
def test_a_few_natively(k):
    """Some of the adjoints in native code."""
    body, types = CASES[k]
    check(body, types, native=True, twice=False)


def test_every_op_with_a_derivative_is_here():
    """No row that says how it is differentiated is left out."""
    bodies = " ".join(f"{b} " for b, _ in CASES)
    seen = {name for name in OPS if f" {name} " in bodies} | {n for n, _ in ELEMENTWISE}
    elsewhere = {
        # on complex numbers, memory, functions as values, indices: they have tests of their own
        *("realPart", "imaginaryPart", "conjugate", "makeComplex", "partView", "pointerCast", "gather", "scatterAdd"),
        *("abs", "fourier", "solve", "cholesky", "choleskyAdjoint", "determinant"),
        *("eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "pinv", "qr", "lstsq"),
    }
    beyond = (Kind.MEMORY, Kind.STACK, Kind.CALL)
    rows = {n for n, op in OPS.items() if op.no_derivative is None and op.kind not in beyond}
    assert rows - seen - elsewhere == set()


# -- kinks ---------------------------------------------------------------------------------------------------

KINKS = [
    # (body, types, arguments, seed, what the derivatives are there)
    ("%y = abs %a: f64", ["f64"], [0.0], 1.0, [0.0]),
    ("%y = sign %a: f64", ["f64"], [0.0], 1.0, [0.0]),
    ("%y = sqrt %a: f64", ["f64"], [0.0], 1.0, [np.inf]),
    ("%y = sqrt %a: f64", ["f64"], [0.0], 0.0, [0.0]),
    ("%y = rsqrt %a: f64", ["f64"], [0.0], 0.0, [0.0]),
    ("%y = log %a: f64", ["f64"], [0.0], 0.0, [0.0]),
    ("%y = cbrt %a: f64", ["f64"], [0.0], 0.0, [0.0]),
    ("%y = max %a: f64, %b: f64", ["f64", "f64"], [2.0, 2.0], 1.0, [0.5, 0.5]),
    ("%y = min %a: f64, %b: f64", ["f64", "f64"], [2.0, 2.0], 1.0, [0.5, 0.5]),
    ("%y = max %a: f64, 0.0: f64", ["f64"], [0.0], 1.0, [0.0]),
    ("%y = min %a: f64, 0.0: f64", ["f64"], [0.0], 1.0, [0.0]),
    ("%y = max %a: f64, %a: f64", ["f64"], [2.0], 1.0, [1.0]),
    ("%y = power %a: f64, %b: f64", ["f64", "f64"], [0.0, 2.0], 1.0, [0.0, 0.0]),
    ("%y = power %a: f64, %b: f64", ["f64", "f64"], [0.0, 1.0], 1.0, [1.0, 0.0]),
    ("%y = power %a: f64, %b: f64", ["f64", "f64"], [3.0, 0.0], 1.0, [0.0, np.log(3.0)]),
    ("%y = power %a: f64, 0.0: f64", ["f64"], [0.0], 1.0, [0.0]),
    ("%y = power %a: f64, 3.0: f64", ["f64"], [-2.0], 1.0, [12.0]),
    ("%y = hypot %a: f64, %b: f64", ["f64", "f64"], [0.0, 0.0], 1.0, [0.0, 0.0]),
    ("%z = divide %a: f64, %b: f64; %c0 = greaterThan %b: f64, 0.0: f64; %y = select %z: f64, 0.0: f64 by %c0: bool",
     ["f64", "f64"], [1.0, 0.0], 1.0, [0.0, 0.0]),
    ("%s = sqrt %a: f64; %y = multiply %s: f64, %b: f64", ["f64", "f64"], [0.0, 0.0], 1.0, [0.0, 0.0]),
    ("%l = log %a: f64; %p = multiply %l: f64, %b: f64; %c0 = greaterThan %a: f64, 0.0: f64; "
     "%y = select %p: f64, 0.0: f64 by %c0: bool", ["f64", "f64"], [-1.0, 2.0], 1.0, [0.0, 0.0]),
    ("%y = reduce %a: <3 x f64> by max init -9.0: f64 along 0", ["<3 x f64>"], [[1.0, 2.0, 2.0]], 1.0, [[0, 0.5, 0.5]]),
    ("%y = reduce %a: <3 x f64> by min init 9.0: f64 along 0", ["<3 x f64>"], [[1.0, 1.0, 1.0]], 3.0, [[1, 1, 1]]),
    ("%y = reduce %a: <3 x f64> by max init 5.0: f64 along 0", ["<3 x f64>"], [[1.0, 2.0, 2.0]], 1.0, [[0, 0, 0]]),
    ("%y = reduce %a: <3 x f64> by multiply init 1.0: f64 along 0", ["<3 x f64>"], [[0.0, 2.0, 3.0]], 1.0, [[6, 0, 0]]),
    ("%y = reduce %a: <3 x f64> by multiply init 1.0: f64 along 0", ["<3 x f64>"], [[0.0, 0.0, 3.0]], 1.0, [[0, 0, 0]]),
    ("%y = scan %a: <3 x f64> by multiply along 0", ["<3 x f64>"], [[2.0, 0.0, 3.0]], [1, 1, 1], [[1, 8, 0]]),
    ("%y = scan %a: <3 x f64> by max along 0", ["<3 x f64>"], [[2.0, 2.0, 1.0]], [1, 1, 1], [[2, 1, 0]]),
    ("%y = reduceWindow %a: <3 x f64> by max init -9.0: f64 dims 2 strides 1 padding none", ["<3 x f64>"],
     [[2.0, 2.0, 2.0]], [1, 1], [[0.5, 1, 0.5]]),
    ("%y = reduceWindow %a: <3 x f64> by min init 9.0: f64 dims 2 strides 1 padding none", ["<3 x f64>"],
     [[1.0, 2.0, 1.0]], [1, 1], [[1, 0, 1]]),
    ("%y = atan2 %a: f64, %b: f64", ["f64", "f64"], [0.0, 0.0], 0.0, [0.0, 0.0]),
]  # fmt: skip


@pytest.mark.parametrize("native", [False, True], ids=["interpreter", "native"])
def test_kinks(native):
    """The conventions where there is no derivative, and zeros that must stay zeros; each in f64 and f32."""
    for dtype in ("f64", "f32"):
        parts = []
        for k, (body, types, *_) in enumerate(KINKS):
            body, types = body.replace("f64", dtype), [t.replace("f64", dtype) for t in types]
            result = result_of(body, types)
            parts.append(function(body, types, result, f"f{k}"))
            signature = f"({', '.join([*types, result])}) -> ({', '.join(types)})"
            parts.append(f"[adjoint @f{k} seedable]\nfunc @df{k}: {signature}\n")
        module = parse_module('module "m"\nstage raw\n\n' + "\n".join(parts))
        differentiate_module.run(module)
        verify(module)
        for k, (body, _, args, seed, wanted) in enumerate(KINKS):
            if native and k % 8:
                continue
            given = [np.array(v, np.dtype(f"float{dtype[1:]}"))[()] for v in (*args, seed)]
            found = callable_of(module, f"df{k}")(*given) if native else run(module, f"df{k}", given)
            for g, w in zip(as_list(found), wanted, strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-6, err_msg=body)


def test_products_with_zeros_twice():
    """The second derivative of a product with a zero among the factors: of x y z at x = 0, all that is left."""
    module = program("%y = reduce %a: <3 x f64> by multiply init 1.0: f64 along 0", ["<3 x f64>"], twice=True)
    x = np.array([0.0, 2.0, 3.0])
    hessian = [run(module, "ddf", [x, np.float64(1), e])[0] for e in np.eye(3)]
    np.testing.assert_allclose(hessian, [[0, 3, 2], [3, 0, 0], [2, 0, 0]])
    x = np.array([0.0, 0.0, 3.0])
    hessian = [run(module, "ddf", [x, np.float64(1), e])[0] for e in np.eye(3)]
    np.testing.assert_allclose(hessian, [[0, 3, 0], [3, 0, 0], [0, 0, 0]])


def test_third_derivative_of_lgamma():
    """digamma, trigamma and polygamma of order 2, by AD of AD of AD."""
    text = 'module "m"\nstage raw\n\n' + function("%y = lgamma %a: f64", ["f64"], "f64")
    text += "\n[adjoint @f]\nfunc @d1: (f64) -> (f64)\n\n[adjoint @d1 from 0]\nfunc @d2: (f64) -> (f64)\n"
    text += "\n[adjoint @d2 from 0]\nfunc @d3: (f64) -> (f64)\n\n[adjoint @d3 from 0]\nfunc @d4: (f64) -> (f64)\n"
    module = parse_module(text)
    differentiate_module.run(module)
    verify(module)
    wanted = {"d1": -0.57721566490153286, "d2": np.pi**2 / 6, "d3": -2.4041138063191885, "d4": np.pi**4 / 15}
    for name, value in wanted.items():
        np.testing.assert_allclose(run(module, name, [np.float64(1)])[0], value, rtol=1e-14)
        np.testing.assert_allclose(callable_of(module, name)(np.float64(1))[0], value, rtol=1e-14)


# -- control flow, calls, recursion ----------------------------------------------------------------------------

CONTROL = {
    "several returns": """
func @f: (f64, f64) -> f64 {
'entry(%x: f64, %y: f64):
    %c = lessThan %x: f64, %y: f64
    conditional %c: bool then 'less() else 'more(%x: f64)
'less():
    %r0 = multiply %x: f64, %y: f64
    return %r0: f64
'more(%z: f64):
    %d = greaterThan %z: f64, 1.0: f64
    conditional %d: bool then 'big() else 'small()
'big():
    %r1 = exp %z: f64
    return %r1: f64
'small():
    %r2 = sin %y: f64
    return %r2: f64
}
""",
    "a while loop": """
func @f: (f64, f64) -> f64 {
'entry(%x: f64, %y: f64):
    branch 'head(%x: f64, 1.0: f64)
'head(%s: f64, %p: f64):
    %c = lessThan %s: f64, 20.0: f64
    conditional %c: bool then 'body() else 'end()
'body():
    %t = multiply %s: f64, 1.5: f64
    %u = add %t: f64, %y: f64
    %q = multiply %p: f64, %s: f64
    branch 'head(%u: f64, %q: f64)
'end():
    %r = add %s: f64, %p: f64
    return %r: f64
}
""",
    "arrays in a loop": """
func @f: (<3 x f64>, <3 x 3 x f64>) -> <3 x f64> {
'entry(%x: <3 x f64>, %w: <3 x 3 x f64>):
    branch 'head(%x: <3 x f64>, 0: i64)
'head(%v: <3 x f64>, %k: i64):
    %c = lessThan %k: i64, 3: i64
    conditional %c: bool then 'body() else 'end()
'body():
    %a = dot %w: <3 x 3 x f64>, %v: <3 x f64>
    %b = tanh %a: <3 x f64>
    %n = add %k: i64, 1: i64
    branch 'head(%b: <3 x f64>, %n: i64)
'end():
    return %v: <3 x f64>
}
""",
    "loops in loops": """
func @f: (f64, f64) -> f64 {
'entry(%x: f64, %y: f64):
    branch 'outer(0: i64, %x: f64)
'outer(%i: i64, %s: f64):
    %c = lessThan %i: i64, 3: i64
    conditional %c: bool then 'inner(0: i64, %s: f64) else 'end()
'inner(%j: i64, %t: f64):
    %d = lessThan %j: i64, %i: i64
    conditional %d: bool then 'body() else 'next()
'body():
    %e = greaterThan %t: f64, 2.0: f64
    conditional %e: bool then 'damp() else 'grow()
'damp():
    %r1 = divide %t: f64, %y: f64
    branch 'latch(%r1: f64)
'grow():
    %r2 = multiply %t: f64, %t: f64
    %r3 = add %r2: f64, %y: f64
    branch 'latch(%r3: f64)
'latch(%u: f64):
    %m = add %j: i64, 1: i64
    branch 'inner(%m: i64, %u: f64)
'next():
    %n = add %i: i64, 1: i64
    %r4 = add %t: f64, %x: f64
    branch 'outer(%n: i64, %r4: f64)
'end():
    return %s: f64
}
""",
    "recursion": """
func @f: (f64, f64) -> f64 {
'entry(%x: f64, %y: f64):
    %r = apply @down(%x: f64, %y: f64, 3: i64) -> f64
    return %r: f64
}

func @down: (f64, f64, i64) -> f64 {
'entry(%x: f64, %y: f64, %n: i64):
    %c = equal %n: i64, 0: i64
    conditional %c: bool then 'last() else 'more()
'last():
    %r0 = sin %x: f64
    return %r0: f64
'more():
    %m = subtract %n: i64, 1: i64
    %a = multiply %x: f64, %y: f64
    %b = apply @down(%a: f64, %x: f64, %m: i64) -> f64
    %d = multiply %b: f64, %b: f64
    return %d: f64
}
""",
    "mutual recursion": """
func @f: (f64, f64) -> f64 {
'entry(%x: f64, %y: f64):
    %r = apply @even(%x: f64, %y: f64, 4: i64) -> f64
    return %r: f64
}

func @even: (f64, f64, i64) -> f64 {
'entry(%x: f64, %y: f64, %n: i64):
    %c = equal %n: i64, 0: i64
    conditional %c: bool then 'last() else 'more()
'last():
    %r0 = multiply %x: f64, %y: f64
    return %r0: f64
'more():
    %m = subtract %n: i64, 1: i64
    %a = sin %x: f64
    %b = apply @odd(%a: f64, %y: f64, %m: i64) -> f64
    return %b: f64
}

func @odd: (f64, f64, i64) -> f64 {
'entry(%x: f64, %y: f64, %n: i64):
    %m = subtract %n: i64, 1: i64
    %a = add %x: f64, %y: f64
    %b = apply @even(%a: f64, %x: f64, %m: i64) -> f64
    %d = multiply %b: f64, %y: f64
    return %d: f64
}
""",
    "calls of calls": """
func @f: (<3 x f64>, f64) -> f64 {
'entry(%x: <3 x f64>, %y: f64):
    %a = apply @two(%x: <3 x f64>, %y: f64) -> (<3 x f64>, f64)
    %b = extract 0 from %a: (<3 x f64>, f64)
    %c = extract 1 from %a: (<3 x f64>, f64)
    %d = dot %b: <3 x f64>, %b: <3 x f64>
    %e = multiply %d: f64, %c: f64
    return %e: f64
}

func @two: (<3 x f64>, f64) -> (<3 x f64>, f64) {
'entry(%x: <3 x f64>, %y: f64):
    %a = apply @one(%x: <3 x f64>) -> <3 x f64>
    %b = multiply %a: <3 x f64>, %y: f64
    %c = reduce %b: <3 x f64> by add init 0: f64 along 0
    %r = literal (%b: <3 x f64>, %c: f64): (<3 x f64>, f64)
    return %r: (<3 x f64>, f64)
}

func @one: (<3 x f64>) -> <3 x f64> {
'entry(%x: <3 x f64>):
    %a = square %x: <3 x f64>
    return %a: <3 x f64>
}
""",
    "memory": """
func @f: (f64, f64) -> f64 {
'entry(%x: f64, %y: f64):
    %p = allocateHeap f64 count (2: i64)
    %q = elementPointer %p: *<2 x f64> at 0
    %r = elementPointer %p: *<2 x f64> at 1
    store %x: f64 to %q: *f64
    store %y: f64 to %r: *f64
    %a = load %q: *f64
    %b = multiply %a: f64, %y: f64
    store %b: f64 to %q: *f64
    %v = load %p: *<2 x f64>
    %w = multiply %v: <2 x f64>, %v: <2 x f64>
    %s = reduce %w: <2 x f64> by add init 0: f64 along 0
    return %s: f64
}
""",
    "a stack": """
func @f: (f64, f64) -> f64 {
'entry(%x: f64, %y: f64):
    %s = createStack f64
    push %x: f64 to %s: stack{f64}
    push %y: f64 to %s: stack{f64}
    %a = pop f64 from %s: stack{f64}
    %b = pop f64 from %s: stack{f64}
    destroyStack %s: stack{f64}
    %c = power %b: f64, %a: f64
    return %c: f64
}
""",
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name):
    """Branches, loops, calls, recursion, memory and stacks, first and second derivatives, natively as well."""
    plain = parse_module('module "m"\nstage raw\n' + CONTROL[name]).functions["f"].type
    types, result = [str(t) for t in plain.params], str(plain.result)
    listed = ", ".join(types)
    text = 'module "m"\nstage raw\n' + CONTROL[name]
    text += f"\n[adjoint @f seedable]\nfunc @df: ({listed}, {result}) -> ({listed})\n"
    text += f"\n[adjoint @df from 0 seedable]\nfunc @ddf: ({listed}, {result}, {types[0]}) -> ({listed}, {result})\n"
    text += f"\n[adjoint @f wrt 1 keeping 0 seedable]\nfunc @kept: ({listed}, {result}) -> ({types[1]}, {result})\n"
    module = parse_module(text)
    verify(module)
    differentiate_module.run(module)
    verify(module)
    native = callable_of(module, "df")
    for k in range(3):
        rng = np.random.default_rng(k)
        args = values(module, "f", rng)
        found, seed = check_adjoint(module, "f", "df", args, rng)
        for g, w in zip(as_list(native(*args, seed)), found, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12)
        check_adjoint(module, "df", "ddf", [*args, seed], rng, 1e-4)
        gradient, value = run(module, "kept", [*args, seed])
        np.testing.assert_allclose(gradient, found[1], rtol=1e-12)
        np.testing.assert_allclose(value, run(module, "f", args), rtol=1e-14)
