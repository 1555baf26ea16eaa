"""Calls of NumPy's functions in which one parameter is given by name, or by place, from NumPy's own signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from indexing import function
from numpy_draw import Draw, Text
from numpy_driver import METHOD_FORMS, RULES, Call, compare, leaves, run, source
from numpy_forms import FORMS, NEVER, OPTIONS, OWN, RETURNS_DTYPE

from dlvm_py.frontend.numpy_signature import numpy_signature
from dlvm_py.frontend.table import array_methods, functions, is_numpy
from dlvm_py.tools.numpy_page import function_name

_SEEDS = 40
KNOWN = (
    {name: f for f in functions() if is_numpy(f) and not isinstance(f, type) and (name := function_name(f)) in RULES}
    | {
        f"np.{f.__self__.__name__}.{f.__name__}": f
        for f in functions()
        if isinstance(getattr(f, "__self__", None), np.ufunc)
    }
    | {f"ndarray.{name}": getattr(np.ndarray, name) for name in array_methods()}
)


def _like(d: Draw, kinds: str = "if") -> Any:
    return d.array(kinds, shape=np.shape(d.first), special=False)


def _of(*words: Any) -> Callable[[Draw], Any]:
    return lambda d: Text(repr(d.pick(words)))


# values of parameters that the forms do not draw, or draw at a default: by name, or by function and name
VALUES: dict[str, Callable[[Draw], Any]] = {
    "subok": _of(True, False), "like": _of(None), "device": _of("cpu", None), "order": _of("C", "K", "F"),
    "casting": _of("unsafe", "same_kind"), "keepdims": _of(True), "kind": _of("stable", None),
    "stable": _of(True), "initial": lambda d: d.number(1, 2), "where": lambda d: _like(d, "b"),
    "correction": lambda d: d.number(0, 1), "mean": lambda d: d.number(0.5, 1.5), "sorted": _of(True, False),
    "writeable": _of(False, True), "copy": _of(True, False), "weights": _like, "x": _like, "to_end": _of(1),
    "to_begin": _of(2), "offset": _of(1), "optimize": _of(True, "greedy", False), "ndmax": _of(0), "ndmin": _of(2, 3),
    "hermitian": _of(True), "overwrite_input": _of(False), "assume_unique": _of(True), "axes": lambda d: d.axes(),
    "sorter": lambda d: Text(f"np.argsort(np.zeros({np.shape(d.first)}))"), "fweights": _of(None), "M": _of(4),
}  # fmt: skip
OWN_VALUES: dict[str, Callable[[Draw], Any]] = {
    "np.partition kind": _of("introselect"), "np.argpartition kind": _of("introselect"), "np.isin kind": _of("sort"),
    "np.partition order": _of(None), "np.argpartition order": _of(None), "np.sort order": _of(None),
    "np.argsort order": _of(None), "np.matmul axis": _of(-1), "np.rot90 axes": _of((1, 0)),
    "np.matmul axes": lambda d: Text("[(-2, -1), (-2, -1), (-2, -1)]"),
    "np.vecdot axes": lambda d: Text("[(0,), (0,)]"), "np.matvec axes": lambda d: Text("[(-2, -1), (-1,), (-1,)]"),
    "np.vecmat axes": lambda d: Text("[(-1,), (-2, -1), (-1,)]"), "np.vecmat axis": _of(-1), "np.matvec axis": _of(-1),
    "np.transpose axes": lambda d: Text(tuple(range(d.ndim))[::-1]), "np.asarray copy": _of(True, None),
    "np.asanyarray copy": _of(True, None), "np.average keepdims": _of(True), "np.unwrap discont": _of(4.0),
    **{f"np.{n} assume_unique": _of(False) for n in ("setxor1d", "setdiff1d", "intersect1d")},
    **{f"np.cross {axis}": _of(0) for axis in ("axisa", "axisb", "axisc")}, "np.argsort stable": _of(True),
    "np.diagonal axis1": _of(-2), "np.trace axis1": _of(-2), "np.histogram range": _of((0.0, 4.0)),
    "np.linalg.lstsq rcond": _of(1e-3), "np.linalg.matrix_rank tol": _of(1e-3), "np.polyfit rcond": _of(1e-9),
    "np.polyfit full": _of(True), "np.polyfit cov": _of(True), "np.partition axis": _of(0, -1),
    "np.polynomial.polynomial.polyvalfromroots tensor": _of(False), "np.linalg.tensorinv ind": _of(1, 2),
    "np.cov fweights": lambda d: Text([2] * np.shape(d.first)[-1]),
    "np.cov aweights": lambda d: Text([2.5] * np.shape(d.first)[-1]),
}  # fmt: skip


# what cannot stand beside a parameter: another name of it, or what says the same
INSTEAD = {"min": ("a_min", "a_max"), "max": ("a_min", "a_max"), "stable": ("kind",)}


def parameters(name: str) -> Iterator[tuple[inspect.Parameter, str]]:
    """The parameters of a function, each with the ways in which it can be given."""
    own = numpy_signature(KNOWN[name])
    is_unary = name.endswith(".at") and KNOWN[name].__self__.nin == 1
    for p in own.parameters.values() if own is not None else ():
        if is_unary and p.name == "b":
            continue
        if p.kind is p.POSITIONAL_OR_KEYWORD or (p.kind is p.POSITIONAL_ONLY and p.name != "self"):
            yield p, "place"
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            yield p, "name"


def rule_of(name: str) -> Callable[..., Any]:
    """The rule of a function or of a method, by its name."""
    return array_methods()[name.partition(".")[2]] if name.startswith("ndarray.") else RULES[name]


def _forms_of(name: str) -> str:
    return METHOD_FORMS[name.partition(".")[2]] if name.startswith("ndarray.") else name


def calls(name: str, parameter: inspect.Parameter, way: str) -> Callable[[], Call] | None:
    """Makes a call in which the parameter is given so, and to which NumPy gives a value; None if none is found."""
    for seed in range(_SEEDS):
        call = _call(name, parameter, way, seed)
        if call is not None and run(function(source(call.text, call.args)), call.args)[0] == "value":
            return lambda: _call(name, parameter, way, seed)  # noqa: B023 - returned at once
    return None


def _call(name: str, parameter: inspect.Parameter, way: str, seed: int) -> Call | None:
    own = numpy_signature(KNOWN[name])
    assert own is not None
    d = Draw(seed)
    forms = FORMS[_forms_of(name)]
    given = list(forms[seed % len(forms)](d))
    if d.first is None:
        d.first = next((a for a in leaves(tuple(given)) if isinstance(a, (np.ndarray, np.generic))), np.zeros(()))
    places, named = [], []
    for g in given:
        is_named = isinstance(g, Text) and g.partition("=")[0].isidentifier() and "=" in g
        (named if is_named else places).append(g)
    try:
        bound = own.bind_partial(*places).arguments
    except TypeError:
        return None
    bound |= {g.partition("=")[0]: Text(g.partition("=")[2]) for g in named}
    for word in INSTEAD.get(parameter.name, ()):
        bound.pop(word, None)
    if parameter.name == "where" and name in ("np.max", "np.min", "np.amax", "np.amin", "np.nanmax", "np.nanmin"):
        bound["initial"] = Text("1")  # of these only what begins with a number can leave elements out
    if parameter.name == "out":
        bound.pop("out", None)
    elif parameter.name not in bound:
        value = _value(name, parameter, d)
        if value is NEVER:
            return None
        bound[parameter.name] = value
    writer: list[Any] = []

    def text(item: Any) -> str:
        if isinstance(item, Text) or item is None:
            return str(item)
        if isinstance(item, (list, tuple)):
            return f"[{', '.join(map(text, item))}]"
        writer.append(item)
        return f"x{len(writer) - 1}"

    shown = {word: text(v) if own.parameters[word].kind is not inspect.Parameter.VAR_POSITIONAL else
             ", ".join(map(text, v)) for word, v in bound.items()}  # fmt: skip
    if parameter.name == "out" or (parameter.name == "where" and isinstance(KNOWN[name], np.ufunc)):
        plain = _text(name, own, shown, parameter, way)
        if plain is None:
            return None
        copies = [np.copy(w) if isinstance(w, np.ndarray) else w for w in writer]
        kind, found = run(function(source(plain, writer)), copies)
        results = found if isinstance(found, tuple) else (found,)
        if kind != "value" or not all(isinstance(r, (np.ndarray, np.generic)) for r in results):
            return None
        writer += [np.zeros(np.shape(r), r.dtype) for r in results]
        names = [f"x{k}" for k in range(len(writer) - len(results), len(writer))]
        shown["out"] = f"({', '.join(names)})" if isinstance(found, tuple) else names[0]
    found = _text(name, own, shown, parameter, way)
    return None if found is None else Call(found, writer)


def _value(name: str, p: inspect.Parameter, d: Draw) -> Any:
    """What a parameter is given: not its default, where there is another value."""
    if p.name == "signature":
        types = [t for t in KNOWN[name].types if not set(t) & set("OmMgG")]
        return Text(repr(d.pick(types)))
    chosen = OWN_VALUES.get(f"{name} {p.name}") or OWN_VALUES.get(f"np.{name.partition('.')[2]} {p.name}")
    if chosen is not None:
        return chosen(d)
    for make in (OWN[_forms_of(name)].get(p.name), VALUES.get(p.name), OPTIONS.get(p.name)):
        if make is not None and make is not NEVER:
            value = make(d)
            if make is VALUES.get(p.name) or not (isinstance(value, Text) and value == repr(p.default)):
                return value
    return NEVER


def _text(
    name: str, own: inspect.Signature, shown: dict[str, str], parameter: inspect.Parameter, way: str
) -> str | None:
    """The call as source text, with everything before the parameter by place, or the parameter by name."""
    texts, by_name = [], False
    for word, p in own.parameters.items():
        if p.kind is p.VAR_POSITIONAL:
            texts += [shown[word]] if shown.get(word) else []
        elif p.kind is p.VAR_KEYWORD:
            continue
        elif word == parameter.name and way == "name":
            by_name = True
            texts += [f"{word}={shown[word]}"] if word in shown else []
        elif by_name or p.kind is p.KEYWORD_ONLY or (word == "out" and way == "name"):
            by_name = True
            texts += [f"{word}={shown[word]}"] if word in shown else []
        elif word in shown:
            texts.append(shown[word])
        elif way == "place" and _stands_before(own, word, parameter.name):
            if p.default is p.empty:
                return None
            texts.append(_default(word, p.default))
        else:
            by_name = True
    if name.startswith("ndarray."):
        return f"{texts[0]}.{name.partition('.')[2]}({', '.join(texts[1:])})" if texts else None
    text = f"{name}({', '.join(texts)})"
    return f"np.zeros(1, {text})" if name in RETURNS_DTYPE else text  # a dtype itself is not returned


def _stands_before(own: inspect.Signature, word: str, last: str) -> bool:
    names = list(own.parameters)
    return names.index(word) < names.index(last)


def _default(word: str, default: Any) -> str:
    """A default as source text."""
    if default is np._NoValue:
        return {"keepdims": "False", "where": "True", "initial": "1", "prepend": "0"}.get(word, "None")
    if isinstance(default, type):
        return default.__name__
    return repr(default)


def audited(name: str, execute: Callable[..., Any]) -> Iterator[tuple[str, str, str, str]]:
    """(parameter, way, outcome, what) for each; the outcome is "none" where NumPy takes no call that is tried."""
    for parameter, way in parameters(name):
        make = calls(name, parameter, way)
        if make is None:
            yield parameter.name, way, "none", ""
            continue
        outcome, what = compare(name, make, execute)
        yield parameter.name, way, outcome, what
