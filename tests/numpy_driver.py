"""Runs random calls of NumPy functions, of tests/numpy_forms.py, in plain Python and compiled, and compares them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from indexing import function
from numpy_draw import Draw, Text, situated
from numpy_forms import FORMS, NEVER, OPTIONS, OUT, OWN, RETURNS_DTYPE
from test_frontend import call

import dlvm_py as dlvm
from dlvm_py.frontend.table import array_methods, functions, is_numpy
from dlvm_py.tools.numpy_page import function_name

RULES: dict[str, Callable[..., Any]] = {}
for known, rule in functions().items():
    if is_numpy(known) and not isinstance(known, type) and known is not np.random.default_rng:
        RULES[function_name(known)] = rule
    elif isinstance(getattr(known, "__self__", None), np.ufunc):
        RULES[f"np.{known.__self__.__name__}.{known.__name__}"] = rule


# NumPy's own AVX-512 loops of these go on from the first element at each step (2.4): what they give is no reference
MISCOUNTED = {
    f"np.{u.__name__}.{m}"
    for u in (np.arctan2, np.power)
    for m in ("reduce", "reduceat")
    if u.reduce([0.4, 2.0, 1.5]) != u(u(0.4, 2.0), 1.5)
}


def is_method_of_ufunc(name: str) -> bool:
    return isinstance(getattr(np, name.split(".")[1], None), np.ufunc) and name.count(".") == 2


def is_ufunc(name: str) -> bool:
    word, _, method = name.removeprefix("np.").partition(".")
    return isinstance(getattr(np, word, None), np.ufunc) and method in ("", "outer")


def interpreted(fn: Callable[..., Any], args: list[Any]) -> Any:
    """fn(*args) by the front end and the reference interpreter."""
    try:
        return call(fn, *args)
    except dlvm.errors.PassError as error:  # of linear algebra that has no result: native code raises NumPy's error
        raise np.linalg.LinAlgError(str(error)) from error


def native(fn: Callable[..., Any], args: list[Any]) -> Any:
    """fn(*args) by native code."""
    return dlvm.jit(fn)(*args)


# a method is called as the function of its name is; those that have none have forms of their own
METHOD_FORMS = {name: f"ndarray.{name}" if f"ndarray.{name}" in FORMS else f"np.{name}" for name in array_methods()}


@dataclass
class Call:
    """A call as source text, with its arguments."""

    text: str
    args: list[Any] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.text}  with  {', '.join(map(shown, self.args))}"


def shown(value: Any) -> str:
    """An argument, with the layout of an array."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    return f"{np.array2string(value, separator=', ', threshold=12)}: {value.dtype} {value.shape} / {value.strides}"


class _Writer:
    """Puts arguments into source text: what is not a constant becomes a parameter."""

    def __init__(self) -> None:
        self.args: list[Any] = []

    def text(self, item: Any) -> str:
        if isinstance(item, Text):
            return str(item)
        if item is None:
            return "None"
        if isinstance(item, list):
            return f"[{', '.join(map(self.text, item))}]"
        self.args.append(item)
        return f"x{len(self.args) - 1}"


def drawn(
    name: str, rule: Callable[..., Any], seed: int, method: bool = False, kind: type[Draw] = Draw, how: str = ""
) -> Call:
    """A random call of one function, the same for the same seed; with an `out` it is made twice, for its shape.

    how: of SITUATIONS, the one that all arrays of the call are in, but for the options'.
    """
    d = kind(seed)
    forms = FORMS[name]
    positional = forms[seed % len(forms)](d)
    if how:
        positional = situated(list(positional), how, [])
        d.first = None
    if d.first is None:
        d.first = next((a for a in leaves(tuple(positional)) if isinstance(a, (np.ndarray, np.generic))), np.zeros(()))
    options: dict[str, Any] = {}
    parameters = list(inspect.signature(rule).parameters.values())[1:]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    taken = {p.name for p in plain[: len(positional)]} if not variadic else {p.name for p in plain}
    own = OWN[name]
    for p in named:
        if p.name in taken or (p.default is p.empty):
            continue
        make = own.get(p.name) or OPTIONS[p.name]  # a KeyError: an option that nothing is drawn for
        if make is not NEVER and d.chance(0.35):
            options[p.name] = make(d)
    if "where" in options and (is_ufunc(name) or name == "np.clip"):
        options["out"] = OUT  # without it the rest is not initialised
    writer = _Writer()
    texts = [writer.text(a) for a in positional]
    wants_out = options.pop("out", None) is OUT
    if name.startswith("np.fft.") and "s" in options:
        wants_out = False  # NumPy transforms within it, where what it reads is another shape: it fails or is wrong
    texts += [f"{k}={writer.text(v)}" for k, v in options.items()]
    if wants_out:
        template = _text(name, texts, method)
        # NumPy itself loses what `where` leaves out, where the dtypes differ or the memory overlaps
        found = run(function(source(template, writer.args)), writer.args)[1]
        several = isinstance(found, tuple)  # of a ufunc with two results: two arrays that do not overlap
        in_order = name in PLAIN_OUT
        is_fixed = several or "where" in options or in_order
        outs = [_out(d, is_fixed, in_order, f) for f in (found if several else (found,))]
        if outs[0] is not None:
            into = [writer.text(out) for out in outs]
            texts.append(f"out=({', '.join(into)})" if several else f"out={into[0]}")
    return Call(_text(name, texts, method), writer.args)


def _text(name: str, texts: list[str], method: bool) -> str:
    if method:
        return f"{texts[0]}.{name.rpartition('.')[2]}({', '.join(texts[1:])})"
    text = f"{name}({', '.join(texts)})"
    return f"np.zeros(1, {text})" if name in RETURNS_DTYPE else text  # a dtype itself is not returned


def source(text: str, args: list[Any]) -> str:
    return f"def f({', '.join(f'x{k}' for k in range(len(args)))}):\n    return {text}\n"


# np.choose writes to a transposed array at wrong places, np.linalg.multi_dot refuses it
PLAIN_OUT = ("np.choose", "np.linalg.multi_dot")


def _out(d: Draw, is_fixed: bool, in_order: bool, found: Any) -> Any:
    """An array for a result: of its dtype or another, fresh, reversed, or the memory of an argument.

    is_fixed: of its dtype, in memory of its own. in_order: in C order.
    """
    if not isinstance(found, (np.ndarray, np.generic)):
        return None
    dtype, shape = found.dtype, found.shape
    if d.chance(0.15) and not is_fixed:
        dtype = np.dtype(d.pick(("float64", "float32", "complex128", "int64")))
    first = d.first
    if (
        isinstance(first, np.ndarray)
        and first.flags.writeable
        and first.shape == shape
        and d.chance(0.4)
        and not is_fixed
    ):
        return first[::-1] if shape and d.chance(0.3) else first
    out = np.zeros(shape, dtype)
    return np.zeros(shape[::-1], dtype).T if d.chance(0.3) and not in_order else out


def run(fn: Callable[..., Any], args: list[Any]) -> tuple[str, Any]:
    """("value", result), ("refused", error) or ("raises", error) of a call."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return "value", fn(*args)
        except dlvm.CompileError as error:
            return "refused", error
        except Exception as error:  # noqa: BLE001 - whatever comes is compared
            return "raises", error


# -- comparing ---------------------------------------------------------------------------------------------

# in units of the precision, of the size of the element or of the largest one (sums and linear algebra)
ULPS, SUMS = 8, 64
LOOSE = ("np.linalg", "np.fft", "np.polyfit", "np.roots", "np.corrcoef", "np.cov", "np.i0", "np.kaiser")

# what may be all rounding: NumPy's products of complex numbers are fused or not, by the machine; of drawn numbers
CANCELS = {"np.cross": 25.0, "np.linalg.cross": 25.0}
# of float32 numbers computed in float32, and divided by a float64
NARROW = {"np.emath.logn": np.float32}


def leaves(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (tuple, list)) else [value]


def narrowest(args: list[Any]) -> float:
    """The precision of the least precise numbers among the arguments, which what goes into an `out` may have."""
    dtypes = [a.dtype for a in leaves(args) if isinstance(a, (np.ndarray, np.generic)) and a.dtype.kind in "fc"]
    return max((float(np.finfo(t).eps) for t in dtypes), default=0.0)


def difference(name: str, got: Any, want: Any, least: float = 0.0) -> str | None:
    """What is wrong with a result, None if nothing is. least: a precision that no more is asked than."""
    ours, theirs = leaves(got), leaves(want)
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for g, w in zip(ours, theirs, strict=True):
        if type(g) is not type(w):
            return f"class {type(g).__name__} instead of {type(w).__name__}: {g!r} instead of {w!r}"
        if isinstance(w, (np.ndarray, np.generic)) and g.dtype != w.dtype:
            return f"dtype {g.dtype} instead of {w.dtype}"
        if np.shape(g) != np.shape(w):
            return f"shape {np.shape(g)} instead of {np.shape(w)}"
        if not close(name, g, w, least):
            return f"{g!r} instead of {w!r}"
    return None


def close(name: str, got: Any, want: Any, least: float = 0.0) -> bool:
    if want is None or isinstance(want, (str, type, np.dtype)):
        return got == want
    got, want = np.asarray(got), np.asarray(want)
    if want.dtype.kind in "biu":
        return bool(np.array_equal(got, want))
    if want.dtype.kind == "c":
        wild = ~(np.isfinite(want) & np.isfinite(got))
        if wild.any():  # which part of a complex number is not finite differs between NumPy's own loops
            is_same = bool(np.array_equal(np.isfinite(got), np.isfinite(want)))
            return is_same and close(name, got[~wild], want[~wild], least)
    with np.errstate(all="ignore"):
        eps = max(np.finfo(NARROW.get(name, want.dtype)).eps, least)
        fine = np.isfinite(want)
        scale = np.max(np.abs(want[fine]), initial=CANCELS.get(name, 0))
        error = np.abs(np.subtract(got, want, dtype=np.result_type(want, np.float64)))[fine]
        bound = eps * (
            ULPS * np.abs(want[fine].astype(np.result_type(want, np.float64)))
            + SUMS * scale * (50 if name.startswith(LOOSE) else 1)
        )
        return bool(
            np.array_equal(got[~fine], want[~fine], equal_nan=True)
            and np.all(error <= bound + np.finfo(want.dtype).tiny)
        )


def is_documented(call: Call, found: str) -> bool:
    """Whether docs/numbers.md has this difference, which depends on values."""
    if call.text.startswith("np.einsum"):
        return "optimize=True" in call.text and found.startswith("class ")
    return ".tolist(" in call.text and found.startswith("OverflowError")


def compare(name: str, make: Callable[[], Call], execute: Callable[..., Any]) -> tuple[str, str]:
    """("same" | "refused" | "wrong", what) of one call, executed by `execute(fn, args)`, against plain Python."""
    mine, plain = make(), make()
    fn = function(source(plain.text, plain.args))
    kind, want = run(fn, plain.args)
    got_kind, got = run(lambda *args: execute(fn, args), mine.args)
    if kind == "value":
        if got_kind == "refused":
            return ("refused" if got.loc else "wrong"), f"{mine!r}: {got.reason}" + ("" if got.help else " [no help]")
        if got_kind == "raises":
            found = f"{type(got).__name__}: {got} instead of {want!r}"
            return ("same", "") if is_documented(plain, found) else ("wrong", f"{make()!r}: {found}")
        # docs/numbers.md: these compute in the precision of their operand, NumPy's in that of `out`
        least = narrowest(plain.args) if "out=" in plain.text and name.startswith(("np.fft.", "np.nan")) else 0.0
        found = difference(name, got, want, least)
        if found is None:
            for g, w in zip(mine.args, plain.args, strict=True):
                found = found or difference(name, g, w, least)
            found = found and "an argument: " + found
        is_same = found is None or is_documented(plain, found)
        return ("same", "") if is_same else ("wrong", f"{make()!r}: {found}")
    if got_kind == "value":
        return "wrong", f"{make()!r}: {got!r} instead of {type(want).__name__}: {want}"
    if got_kind == "raises" and type(got) is not type(want) and not isinstance(got, type(want)):
        return "wrong", f"{make()!r}: {type(got).__name__}: {got} instead of {type(want).__name__}: {want}"
    return "same", ""


def call_of(name: str, seed: int, method: bool = False, how: str = "") -> Callable[[], Call]:
    rule = array_methods()[name.rpartition(".")[2]] if method else RULES[name]
    return lambda: drawn(name, rule, seed, method, how=how)
