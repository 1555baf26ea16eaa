"""Calls of NumPy's functions and methods by NumPy's own signatures: what a position means, which names there are.

A rule takes some of the parameters of its function, by their names. Every call is bound as NumPy would bind it; what
asks for what is done anyway (`subok=False`, `like=None`, a default) is left out, and a parameter that the rule does
not have is refused by its name, however it was given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.closest import suggestion
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.values import Scalar, Sequence, Static

_ANY = object()
_EMITTER = inspect.Parameter("e", inspect.Parameter.POSITIONAL_ONLY)
# values of parameters that change nothing here: there is one device, there are no subclasses, all orders are found by
# one sort; what is made is in C order
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "device": (None, "cpu"), "like": (None,), "subok": (True, False), "writeable": (False,), "sorted": (True,),
    "kind": (None, "introselect", "sort", "table"), "order": (None, "K", "C", "A"),
}  # fmt: skip
# of these NumPy's C code takes other names or places than the signature that it shows
_OTHERWISE = (np.arange, np.empty_like, np.ndarray.all, np.ndarray.any, np.ndarray.choose, np.ndarray.dot)
_INSTEAD = {
    "device": "arrays of compiled code are on one device: leave it out",
    "like": "compiled code makes NumPy's arrays: leave it out",
    "writeable": "copy the view, and write to the copy",
    "order": "results are in C order: np.array(x, order='F') makes a copy in the other one",
    "signature": "say dtype=, or convert the operands with .astype",
}


@cache
def numpy_signature(function: Any) -> inspect.Signature | None:
    """The signature of a function or method of NumPy's, or of the library; None where it has none to show."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


class Implementing:
    """A rule that takes its operands as it gets them, with the parameters of the function that it implements.

    They are read when a call asks for them: of most functions none does, and reading those of all took a tenth of the
    time that the compiler takes to load.
    """

    def __init__(self, function: Any, rule: Callable[..., Any]) -> None:
        self._function, self._rule = function, rule
        self.__doc__ = rule.__doc__

    def __call__(self, e: Emitter, *args: Any, **kwargs: Any) -> Any:
        """The call as IR."""
        return self._rule(e, *args, **kwargs)

    @cached_property
    def __signature__(self) -> inspect.Signature | None:
        own = numpy_signature(self._function)
        return own and own.replace(parameters=[_EMITTER, *own.parameters.values()])


def is_neutral(parameter: inspect.Parameter, value: Any) -> bool:
    """Whether an argument asks for what is done without it."""
    known = _constant(value)
    if known is _ANY:
        return False
    chosen = (*NEUTRAL.get(parameter.name, ()), parameter.default)
    return any(type(known) is type(c) and known == c for c in chosen)


def _constant(value: Any) -> Any:
    if isinstance(value, Static):
        return value.value
    if isinstance(value, Scalar):
        return _ANY if value.number is None else value.number
    if isinstance(value, Sequence) and not value.items:
        return ()
    return _ANY


def refused_parameters(function: Any, rule: Callable[..., Any]) -> list[str]:
    """Names of the parameters of a NumPy function that its rule does not have, whatever their values."""
    own, taken = numpy_signature(function), inspect.signature(rule).parameters
    if own is None:
        return []
    ours = len([p for p in taken.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]) - 1
    variadic = any(p.kind is p.VAR_POSITIONAL for p in taken.values())
    found = []
    for place, p in enumerate(own.parameters.values()):
        by_name = p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in taken
        by_place = p.kind is p.POSITIONAL_ONLY and place >= ours and not variadic
        if by_name or by_place:
            found.append(p.name)
    return found


def as_numpy_binds(
    e: Emitter, function: Any, rule: inspect.Signature, name: str, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call of a NumPy function as its rule takes them."""
    own = numpy_signature(function)
    if own is None or function in _OTHERWISE or isinstance(function, np.ufunc) or _hides_places(own, len(args)):
        return args, _of_the_rule(e, own, rule, name, kwargs)
    for word in kwargs:
        known = own.parameters.get(word)
        if known is None and not any(p.kind is p.VAR_KEYWORD for p in own.parameters.values()):
            refuse_argument(e, rule, name, word, exists=False)
    try:
        bound = own.bind(*args, **kwargs).arguments
    except TypeError as error:
        e.error(TypeMismatch, f"{name}: {error}")
    placed: list[Any] = []
    named: dict[str, Any] = {}
    has_more = any(p.kind is p.VAR_POSITIONAL and bound.get(n) for n, p in own.parameters.items())
    before_more = has_more
    for word, parameter in own.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            placed += bound.get(word, ())
            before_more = False
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= bound.get(word, {})
        elif word in bound:
            if parameter.kind is parameter.POSITIONAL_ONLY or before_more:
                placed.append(bound[word])
            else:
                named[word] = bound[word]
    return placed, _of_the_rule(e, own, rule, name, named)


def _hides_places(own: inspect.Signature, count: int) -> bool:
    """Whether more places are given than a signature with `**kwargs`, as x.sum's, shows: its function has them."""
    kinds = [p.kind for p in own.parameters.values()]
    parameter = inspect.Parameter
    if parameter.VAR_KEYWORD not in kinds or parameter.VAR_POSITIONAL in kinds:
        return False
    return count > len([k for k in kinds if k in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)])


def _of_the_rule(
    e: Emitter, own: inspect.Signature | None, rule: inspect.Signature, name: str, named: dict[str, Any]
) -> dict[str, Any]:
    """The named arguments without those that say nothing; others that the rule does not have are refused."""
    takes_all = any(p.kind is p.VAR_KEYWORD for p in rule.parameters.values())
    found = {}
    for word, value in named.items():
        parameter = own.parameters.get(word) if own is not None else None
        if word in rule.parameters or (takes_all and parameter is None):
            found[word] = value
        elif parameter is None or not is_neutral(parameter, value):
            hidden = own is None or any(p.kind is p.VAR_KEYWORD for p in own.parameters.values())
            refuse_argument(e, rule, name, word, exists=hidden or parameter is not None)
    return found


def refuse_argument(e: Emitter, rule: inspect.Signature, name: str, word: str, exists: bool = True) -> None:
    """The error for an argument that a rule does not have, and NumPy perhaps has."""
    known = [p for p in list(rule.parameters)[1:] if p not in ("args", "options")]
    hint = f"supported are {', '.join(known)}" if known else "docs/numpy.md lists what is supported"
    if not exists:
        e.error(TypeMismatch, f"{name} has no argument `{word}`", help=suggestion(word, known) or hint)
    e.error(UnsupportedSyntax, f"{name}: the argument `{word}` is not supported", help=_INSTEAD.get(word, hint))
