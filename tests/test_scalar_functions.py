"""Functions of math, cmath and the built-ins: random calls compared with Python in value, class, exception and text."""

import cmath
import math
import random

import pytest
from indexing import function
from scalar_forms import FORMS, KINDS, STRUCTURE, functions
from test_frontend import rebuilt, run

import dlvm_py as dlvm
from dlvm_py.frontend.capture import capture
from dlvm_py.frontend.translate import translate
from dlvm_py.options import Options
from dlvm_py.runtime.signature import spec_of

pytestmark = pytest.mark.usefixtures("plain_code")

FUNCTIONS = functions()
CALLS, MANY = 8, 300  # of each form
ULPS = 4
# of these the last digits are the platform's; near a zero of the function, relative to what cancels
LOOSE = {"gamma": 64, "lgamma": 64, "erfc": 64, "pow": 200}


def source(name, count):
    module = getattr(FUNCTIONS[name], "__module__")  # noqa: B009 - of a built-in function
    short = name.rpartition(".")[2]
    text = short if module == "builtins" else f"{module}.{short}"
    names = ", ".join(f"x{k}" for k in range(count))
    return f"def f({names}):\n    return {text}({names})\n"


def outcome(fn, args):
    """("value", result) or (class of the exception, its text); an int of more than 64 bits is an OverflowError."""
    try:
        found = fn(*args)
    except dlvm.CompileError as error:
        return "refused", str(error)
    except Exception as error:  # noqa: BLE001 - whatever comes is compared
        return type(error), str(error)
    parts = found if isinstance(found, (tuple, list)) else (found,)
    if any(type(p) is int and not -(2**63) <= p < 2**63 for p in parts):
        return OverflowError, None
    return "value", found


def same(name, got, want):
    """Whether two results are the same: class, sign of zero, and value up to a few last digits."""
    if type(got) is not type(want):
        return False
    if isinstance(want, (tuple, list)):
        return len(got) == len(want) and all(same(name, g, w) for g, w in zip(got, want, strict=True))
    if isinstance(want, complex):
        if math.isfinite(want.real) and math.isfinite(want.imag):
            return abs(got - want) <= LOOSE.get(name, 4 * ULPS) * math.ulp(max(abs(want.real), abs(want.imag)))
        if want != want:  # C leaves open what stands beside the NaN, but for what is infinite
            return got != got and (math.inf in (abs(want.real), abs(want.imag))) == (
                math.inf in (abs(got.real), abs(got.imag))
            )
        return same(name, got.real, want.real) and same(name, got.imag, want.imag)
    if not isinstance(want, float) or not math.isfinite(want) or not math.isfinite(got):
        return got == want or (want != want and got != got)
    # lgamma has its zeros between large terms: CPython's own and the platform's differ by digits of these
    size = max(abs(want), 1.0) if name == "lgamma" else want
    near = abs(got - want) <= LOOSE.get(name, ULPS) * math.ulp(size)
    return near and math.copysign(1.0, got) == math.copysign(1.0, want)


def is_refused(got):
    """Whether a call has been refused when it ran, in words that say so: docs/numbers.md."""
    return got[0] is ValueError and got[1].endswith(
        ("is not supported", "write the base as a complex number", "write the base as a float")
    )


class Interpreted:
    """A function by the front end and the interpreter, translated once for each combination of classes."""

    def __init__(self, fn):
        self.fn, self.known = fn, {}

    def __call__(self, *args):
        key = tuple((type(a), len(a) if isinstance(a, list) else 0) for a in args)
        if key not in self.known:
            self.known[key] = translate(self.fn, tuple(map(spec_of, args)), capture(self.fn), Options())
        translation = self.known[key]
        leaves = [leaf for a in args for leaf in (a if isinstance(a, list) else [a])]
        out = run(translation.module, translation.name, leaves)
        return rebuilt(translation.result, list(out) if isinstance(out, tuple) else [out])


def wrong(name, executor, count, seed):
    """The calls of a function that differ from Python's."""
    found, r = [], random.Random(seed)
    for form in dict.fromkeys(FORMS[name].split()):
        fn = function(source(name, len(form)), math=math, cmath=cmath)
        compiled = executor(fn)
        for _ in range(count):
            args = [KINDS[kind](r) for kind in form]
            want, got = outcome(fn, args), outcome(compiled, args)
            if want[0] == "value" == got[0]:
                fine = same(name, got[1], want[1])
            else:
                fine = (got[0] == want[0] and want[1] in (None, got[1])) or is_refused(got)
            if not fine:
                found.append(f"{name}({', '.join(map(repr, args))}): {got} instead of {want}")
    return found


def test_every_function_has_a_form():
    """A row of the tables that nothing calls here is a promise that nobody has tried."""
    assert set(FUNCTIONS) == set(FORMS) | STRUCTURE


@pytest.mark.parametrize("name", sorted(FORMS))
def test_calls_are_pythons(name):
    """By the interpreter: what is tried is what the front end makes of a call."""
    assert wrong(name, Interpreted, CALLS, sum(map(ord, name))) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FORMS))
def test_many_calls_are_pythons(name):
    assert wrong(name, Interpreted, MANY, 1) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FORMS))
def test_native_calls_are_pythons(name):
    assert wrong(name, dlvm.jit, CALLS, 2) == []
