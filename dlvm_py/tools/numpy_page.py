"""The page of NumPy functions, from the tables of the front end: docs/build_numpy.py writes it to docs/numpy.md."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial

from dlvm_py.frontend.attributes import ARRAY_ATTRIBUTES
from dlvm_py.frontend.elementwise import ON_COMPLEX, UFUNCS
from dlvm_py.frontend.numpy_signature import refused_parameters
from dlvm_py.frontend.table import (
    WITHOUT_DERIVATIVE,
    array_methods,
    functions,
    is_numpy,
    random_methods,
    subscripted_objects,
)
from dlvm_py.ir import dtype_of, literal, scalar

_INTRODUCTION = """# NumPy in compiled code

What compiled code may call, written by `python docs/build_numpy.py` from the tables of the front end. Results have
NumPy's values, dtypes and shapes; errors are NumPy's, with the line. Axes, dtypes, modes and other words must be
constants: known when the function is compiled, arguments with such defaults included. Arguments are bound as NumPy's
own signatures say, by name or by place. What is not in these tables, or an argument that a table does not name, is
refused with the place of the call: "not taken" has the names of NumPy's for which only the default is taken. So it is
everywhere with `device`, `like` and `subok`. A result without axes is a NumPy scalar
or an array without axes, whichever NumPy gives.

`derivative`: "yes" where derivatives flow from the result to the operands, "no" where the result is integers, bools or
does not change with them.
"""
_FLAGS = """`x.flags` says whether the memory is contiguous in C or in Fortran order, as compiled code has it: what
it makes itself is in C order, also where NumPy keeps the order of an operand (a result of column-major arrays is
column-major, as NumPy's is, when the caller gets it). `x.view(dtype)` is a copy: writing
where NumPy would show the other one is refused.
"""

_OF_CALLS = """`np.fromiter(iter, dtype, count=-1)` takes lists, arrays and generator expressions. What
`np.vectorize(pyfunc, otypes)` makes, inside or outside, is a loop over the elements, each of which comes to the
function as a number of Python; without `otypes` the function says the dtype.
"""
_RANDOM = """## Random numbers

A `np.random.Generator` is passed as an argument, captured, or made of an int inside: `np.random.default_rng(seed)`.
Its numbers, the state behind a call, and the lock of the bit generator are NumPy's, for every bit generator; the
compiled distributions of NumPy itself draw them. A number that was drawn is a constant of a derivative, which draws it
once: what moves and scales it (`loc`, `scale`, `low`, `high`, `mean`, `sigma`) has derivatives, and a derivative that
would flow into another parameter is refused. A Jacobian would draw anew for every row, and is refused. `lognormal`
rounds as the compiler's `exp`. The legacy functions, as `np.random.rand`, draw from one hidden stream, and are refused,
as are a bound of `integers` that is an array, and a result without axes (`size=()`).
"""
_SAMPLES = {"bool": np.bool_, "integers": np.int64, "floats": np.float64, "complex": np.complex128}


def numpy_page() -> str:
    """The text of docs/numpy.md."""
    parts = [_INTRODUCTION, "## Ufuncs\n", *_ufunc_table(), "", "Their methods:\n", *_methods_of_ufuncs(), ""]
    parts += ["## Functions\n", *_function_table(), ""]
    parts.append(_OF_CALLS)
    parts += ["## Arrays\n", _paragraph("Attributes", ARRAY_ATTRIBUTES), _paragraph("Methods", array_methods())]
    parts += [*_methods_without(), _FLAGS]
    parts.append(_RANDOM)
    parts += [*_method_table(), ""]
    parts.append(_paragraph("Written with brackets", {function_name(k): None for k in subscripted_objects()}))
    return "\n".join(parts)


def _methods_without() -> Iterator[str]:
    found = ((name, _not_taken(getattr(np.ndarray, name), rule)) for name, rule in sorted(array_methods().items()))
    yield "Not taken: " + "; ".join(f"by `{name}` {missing}" for name, missing in found if missing) + ".\n"


def _paragraph(title: str, names: Any) -> str:
    return f"{title}: {' '.join(f'`{n}`' for n in sorted(names))}.\n"


# -- ufuncs ------------------------------------------------------------------------------------------


def _ufunc_table() -> Iterator[str]:
    yield "Each takes `out=`, `where=`, `casting=` and `dtype=` (with two results the first two), and no `signature=`;"
    yield "operands broadcast.\n"
    yield "| function | operands | derivative |"
    yield "|---|---|---|"
    for f in sorted(filter(_takes_forms, functions()), key=lambda f: f.__name__):
        yield f"| `np.{f.__name__}` | {', '.join(_operands(f))} | {'yes' if _ufunc_differentiable(f) else 'no'} |"


def _takes_forms(function: Any) -> bool:
    """Whether it is a ufunc that takes all forms: those with axes of their own, or two results, do not."""
    return isinstance(function, np.ufunc) and "where" in inspect.signature(functions()[function]).parameters


def _operands(ufunc: np.ufunc) -> list[str]:
    """Kinds of operands: those of NumPy's loops that can be done."""
    found = []
    for kind, sample in _SAMPLES.items():
        try:
            dtypes = ufunc.resolve_dtypes((*[np.dtype(sample)] * ufunc.nin, *[None] * ufunc.nout))
        except TypeError:
            continue
        if _can_run(ufunc, dtypes):
            found.append(kind)
    return found


def _can_run(ufunc: np.ufunc, dtypes: tuple[np.dtype, ...]) -> bool:
    """Whether a ufunc with an op has it for these dtypes; what is done by hand is done for all of NumPy's loops."""
    row, found = UFUNCS.get(ufunc), [dtype_of(d) for d in dtypes]
    if None in found:
        return False
    if row is None or ufunc in ON_COMPLEX or dtypes[0].kind == "b" or ufunc.__name__.startswith("logical"):
        return True
    try:
        row.result_type([literal(1, scalar(d)) for d in found[: ufunc.nin] if d is not None], {})
    except TypeError:
        return not dtypes[0].kind == "c"  # integers are carried through, or cast
    return True


def _ufunc_differentiable(ufunc: np.ufunc) -> bool:
    row = UFUNCS.get(ufunc)
    return row.no_derivative is None if row is not None else ufunc.__name__ not in WITHOUT_DERIVATIVE


def is_differentiable(name: str) -> bool:
    """Whether the page says that derivatives flow through a function: np.sin, np.add.reduce."""
    word = name.removeprefix("np.").partition(".")[0]
    ufunc = getattr(np, word, None)
    return (
        _ufunc_differentiable(ufunc)
        if isinstance(ufunc, np.ufunc)
        else name.removeprefix("np.") not in (WITHOUT_DERIVATIVE)
    )


def _methods_of_ufuncs() -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for f in functions():
        if isinstance(getattr(f, "__self__", None), np.ufunc):
            found.setdefault(f.__name__, []).append(f.__self__.__name__)
    for method, names in sorted(found.items()):
        yield f"* `{method}` of {', '.join(f'`{n}`' for n in sorted(names))}"


# -- functions ---------------------------------------------------------------------------------------


def _function_table() -> Iterator[str]:
    yield "| function | derivative | not taken | what it does |"
    yield "|---|---|---|---|"
    plain = [f for f in functions() if is_numpy(f) and not isinstance(f, type) and not _takes_forms(f)]
    for name, f in sorted((function_name(f), f) for f in plain):
        rule = functions()[f]
        derivative = "no" if name.removeprefix("np.") in WITHOUT_DERIVATIVE else "yes"
        yield f"| `{name}({_parameters(rule)})` | {derivative} | {_not_taken(f, rule)} | {_summary(name, rule)} |"


# of these nothing but what changes nothing is taken, whatever the function: the introduction says so
_NOWHERE = ("device", "like", "subok")


def _not_taken(function: Any, rule: Callable[..., Any]) -> str:
    """The names of NumPy's parameters that a rule does not have."""
    return " ".join(f"`{p}`" for p in refused_parameters(function, rule) if p not in _NOWHERE)


def _method_table() -> Iterator[str]:
    yield "| method of a Generator | what it does |"
    yield "|---|---|"
    for name, rule in sorted(random_methods().items()):
        parameters = _parameters(rule).removeprefix("rng").removeprefix(", ")
        yield f"| `{name}({parameters})` | {_summary(name, rule)} |"


_SPACES = (
    ("np", np), ("np.fft", np.fft), ("np.linalg", np.linalg), ("np.random", np.random), ("np.emath", np.emath),
    ("np.lib.stride_tricks", np.lib.stride_tricks),
    *((f"np.polynomial.{part.__name__.rpartition('.')[2]}", part)
      for part in (polynomial, chebyshev, legendre, hermite, hermite_e, laguerre)),
)  # fmt: skip


def function_name(function: Any) -> str:
    """A function as it is reached: np.flip, np.fft.fft."""
    for prefix, module in _SPACES:
        for name in (getattr(function, "__name__", ""), *sorted(vars(module))):
            if getattr(module, name, None) is function:
                return f"{prefix}.{name}"
    return str(getattr(function, "__name__", function))


def _parameters(rule: Callable[..., Any]) -> str:
    """The parameters that a rule takes, with the defaults that say something."""
    shown = []
    for p in list(inspect.signature(rule).parameters.values())[1:]:
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty or star else f"={_default(p.default)}"
        shown.append(f"{star}{p.name}{default}")
    return ", ".join(shown)


def _default(value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    return repr(value) if value is None or isinstance(value, (bool, int, float, str, tuple)) else "..."


def _summary(name: str, rule: Callable[..., Any]) -> str:
    """The first line of the rule's docstring, without the name that stands in the table already."""
    text = (inspect.getdoc(rule) or "").partition("\n")[0]
    for start in (f"{name}: ", f"{name} "):
        text = text.removeprefix(start)
    return "" if text in (f"{name}.", name) else text.replace("|", "\\|")
