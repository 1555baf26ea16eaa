"""What a callable computes: a user's function, or a derivative of another recipe.

A recipe is plain data. `driver.lower` turns it into IR for given argument specs; the cache key is made
from it. Derivatives nest: `grad(grad(f))` is a Gradient of a Gradient of a Primal.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from dlvm_py.errors import ArgumentError
from dlvm_py.frozen import Frozen
from dlvm_py.parameters import signature_of


class Primal(Frozen):
    """The user's own function; `rules_of` is the callable that gives it derivatives of its own (rules.py), if any."""

    function: Callable[..., Any]
    rules_of: Any = None

    def signature(self) -> inspect.Signature:
        """The Python signature of a call."""
        return signature_of(self.function)

    @property
    def primal(self) -> Callable[..., Any]:
        """The function at the root."""
        return self.function

    @property
    def root(self) -> Primal:
        """The recipe at the root."""
        return self

    def key(self) -> str:
        """The part of the cache key beside the function itself."""
        return "primal" if self.rules_of is None else "primal with rules"


# which output: an element of the result (a path of tuple indices), or a parameter's name
OutputName = int | str


class _Derived(Frozen):
    """What all derivatives share. Without a definition of their own they take what `of` takes."""

    of: Recipe

    def signature(self) -> inspect.Signature:
        """The signature of a call."""
        return self.of.signature()

    @property
    def added(self) -> int:
        """How many parameters it has behind those of `of`."""
        return 0

    @property
    def primal(self) -> Callable[..., Any]:
        """The function at the root."""
        return self.of.primal

    @property
    def root(self) -> Primal:
        """The recipe at the root."""
        return self.of.root


class Gradient(_Derived):
    """The reverse-mode derivative of `of`.

    `wrt` are parameter positions; `single` says that one was asked for without a tuple. `sources` is None
    for the default output (element 0 of a tuple, the result, or the one written argument). The
    result is derivatives, then kept outputs; with `value_first` it is (value, derivatives).
    """

    of: Recipe
    wrt: tuple[int, ...]
    single: bool
    sources: tuple[OutputName, ...] | None
    keeping: tuple[OutputName, ...]
    seedable: bool
    value_first: bool = False

    def signature(self) -> inspect.Signature:
        """The signature of `of`, with a last parameter `seed` if seedable."""
        signature = self.of.signature()
        if not self.seedable:
            return signature
        return _extended(signature, [("seed", inspect.Parameter.empty)])

    @property
    def added(self) -> int:
        """How many parameters it has behind those of `of`."""
        return int(self.seedable)

    def key(self) -> str:
        """The part of the cache key beside the function itself."""
        what = (self.wrt, self.single, self.sources, self.keeping, self.seedable, self.value_first)
        return f"gradient{what!r} of {self.of.key()}"


class Tangent(_Derived):
    """The forward-mode derivative of `of` along tangents of the parameters at `wrt`.

    The parameters are those of `of`, then one tangent for each of `wrt`; the result is (value, tangent of the
    value). `sources`: the outputs that count as the value; None: the whole result, or the one written argument.
    """

    of: Recipe
    wrt: tuple[int, ...]
    sources: tuple[OutputName, ...] | None = None
    with_value: bool = True

    def signature(self) -> inspect.Signature:
        """The signature of `of`, then a parameter `x_tangent` for each parameter `x` of `wrt`."""
        signature = self.of.signature()
        parameters = list(signature.parameters.values())
        # a tangent is what its parameter is
        return _extended(signature, [(f"{parameters[k].name}_tangent", parameters[k].annotation) for k in self.wrt])

    @property
    def added(self) -> int:
        """How many parameters it has behind those of `of`."""
        return len(self.wrt)

    def key(self) -> str:
        """The part of the cache key beside the function itself."""
        return f"tangent{(self.wrt, self.sources, self.with_value)!r} of {self.of.key()}"


class Jacobian(_Derived):
    """All partial derivatives of `of`: of each output with respect to each parameter at `wrt`.

    `single`, `sources` are those of a Gradient, but that None is the whole result. The result has the structure of the
    output, each leaf of it that of `wrt`, with the axes of the output and then those of the parameter.
    """

    of: Recipe
    wrt: tuple[int, ...]
    single: bool
    sources: tuple[OutputName, ...] | None
    mode: str

    def key(self) -> str:
        """The part of the cache key beside the function itself."""
        return f"jacobian{(self.wrt, self.single, self.sources, self.mode)!r} of {self.of.key()}"


class Recording(_Derived):
    """The first half of a vjp of `of`: (value, tape, what belongs to the tape).

    `wrt`, `single`, `sources` are those of a Tangent and a Gradient. `every`: parameters of `wrt` that hold no floats
    have None for a derivative; else each must hold some.
    """

    of: Recipe
    wrt: tuple[int, ...]
    single: bool
    every: bool
    sources: tuple[OutputName, ...] | None

    def key(self) -> str:
        """The part of the cache key beside the function itself."""
        return f"recording{(self.wrt, self.single, self.every, self.sources)!r} of {self.of.key()}"


class Pullback(_Derived):
    """The second half of a vjp: (tape, seed in the structure of the value) -> derivatives.

    A request for it has the arguments of the recorded call first, which say what the code is; they are not passed.
    `digest` tells the code of the first half apart from any other.
    """

    of: Recording
    digest: str

    def signature(self) -> inspect.Signature:
        """The signature of the call."""
        kind = inspect.Parameter.POSITIONAL_ONLY
        return inspect.Signature([inspect.Parameter(name, kind) for name in ("tape", "seed")])

    @property
    def added(self) -> int:
        """How many parameters it has behind those of the recorded call: all that it takes."""
        return 2

    def key(self) -> str:
        """The part of the cache key beside the function itself."""
        return f"pullback {self.digest} of {self.of.key()}"


Derivative = Gradient | Tangent | Jacobian | Recording | Pullback
Recipe = Primal | Derivative


def _extended(signature: inspect.Signature, added: list[tuple[str, Any]]) -> inspect.Signature:
    """A signature with more parameters at the end, by name and annotation, which have no default."""
    for name, annotation in added:
        parameters = list(signature.parameters.values())
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        new = inspect.Parameter(_fresh(name, signature), kind, annotation=annotation)
        if parameters and parameters[-1].kind not in (new.kind, inspect.Parameter.POSITIONAL_ONLY):
            # nothing positional can stand behind *args or a keyword-only parameter
            parameters.append(new.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        else:
            # what comes before a parameter without a default cannot have one either
            parameters = [*(p.replace(default=inspect.Parameter.empty) for p in parameters), new]
        signature = signature.replace(parameters=parameters)
    return signature


def _fresh(name: str, signature: inspect.Signature) -> str:
    while name in signature.parameters:
        name += "_"
    return name


def gradient(
    of: Recipe,
    wrt: int | str | tuple[int | str, ...],
    keeping: OutputName | tuple[OutputName, ...] | None,
    seedable: bool,
    from_: OutputName | tuple[OutputName, ...],
    value_first: bool = False,
) -> Gradient:
    """A checked Gradient recipe.

    Raises: ArgumentError DL701 for a `wrt`, `from_` or `keeping` that names nothing.
    """
    names = list(of.signature().parameters)
    single = not isinstance(wrt, tuple)
    asked = (wrt,) if not isinstance(wrt, tuple) else wrt
    if not asked:
        raise ArgumentError("wrt is empty: name at least one parameter", code="DL701")
    positions = tuple(_position(w, names) for w in asked)
    sources = _outputs(from_, names, "from_")
    if not sources:
        raise ArgumentError("from_ is empty: name at least one output", code="DL701")
    kept = () if keeping is None else _outputs(keeping, names, "keeping")
    # a plain 0 is the default output, which may be the one written argument; in a tuple it is the result
    default = sources == (0,) and not isinstance(from_, tuple)
    return Gradient(of, positions, single, None if default else sources, kept, bool(seedable), value_first)


def tangent(
    of: Recipe,
    wrt: tuple[int | str, ...],
    from_: OutputName | tuple[OutputName, ...] | None = None,
    with_value: bool = True,
) -> Tangent:
    """A checked Tangent recipe.

    Raises: ArgumentError DL701 for a `wrt` or `from_` that names nothing.
    """
    names = list(of.signature().parameters)
    if not wrt:
        raise ArgumentError("no argument has a tangent: give at least one", code="DL701")
    sources = None if from_ is None else _outputs(from_, names, "from_")
    return Tangent(of, tuple(_position(w, names) for w in wrt), sources, with_value)


def recording(
    of: Recipe,
    wrt: int | str | tuple[int | str, ...] | None,
    count: int,
    from_: OutputName | tuple[OutputName, ...] | None = None,
) -> Recording:
    """A checked Recording recipe; without `wrt` the first `count` parameters.

    Raises: ArgumentError DL701 for a `wrt` or `from_` that names nothing.
    """
    parameters = of.signature().parameters
    names = list(parameters)
    sources = None if from_ is None else _outputs(from_, names, "from_")
    if wrt is None:
        # the arguments of *args are one tuple, and nothing behind it is given by position
        kinds = [p.kind for p in parameters.values()]
        last = inspect.Parameter.VAR_POSITIONAL
        count = min(count, kinds.index(last) + 1 if last in kinds else len(names))
        return Recording(of, tuple(range(count)), False, True, sources)
    asked = wrt if isinstance(wrt, tuple) else (wrt,)
    if not asked:
        raise ArgumentError("wrt is empty: name at least one parameter", code="DL701")
    return Recording(of, tuple(_position(w, names) for w in asked), not isinstance(wrt, tuple), False, sources)


def jacobian(
    of: Recipe,
    wrt: int | str | tuple[int | str, ...],
    mode: str,
    from_: OutputName | tuple[OutputName, ...] | None = None,
) -> Jacobian:
    """A checked Jacobian recipe.

    Raises: ArgumentError DL701 for a `wrt` or `from_` that names nothing, or an unknown mode.
    """
    if mode not in ("auto", "forward", "reverse", "hessian"):
        raise ArgumentError(f"mode={mode!r}: the modes are 'auto', 'forward' and 'reverse'", code="DL701")
    names = list(of.signature().parameters)
    asked = wrt if isinstance(wrt, tuple) else (wrt,)
    if not asked:
        raise ArgumentError("wrt is empty: name at least one parameter", code="DL701")
    sources = None if from_ is None else _outputs(from_, names, "from_")
    return Jacobian(of, tuple(_position(w, names) for w in asked), not isinstance(wrt, tuple), sources, mode)


def _position(wrt: object, names: list[str]) -> int:
    listing = ", ".join(names)
    if isinstance(wrt, str):
        if wrt not in names:
            raise ArgumentError(
                f"wrt={wrt!r}: the function has no such parameter", code="DL701", help=f"its parameters are: {listing}"
            )
        return names.index(wrt)
    if isinstance(wrt, bool) or not hasattr(wrt, "__index__"):
        raise ArgumentError(
            f"wrt={wrt!r}: give a parameter's position or name, or a tuple of them",
            code="DL701",
            help=f"its parameters are: {listing}",
        )
    wrt = operator.index(wrt)
    if not -len(names) <= wrt < len(names):
        raise ArgumentError(
            f"wrt={wrt}: the function has {len(names)} parameter{'s' * (len(names) != 1)}",
            code="DL701",
            help=f"its parameters are: {listing}",
        )
    return wrt % len(names)


def _outputs(given: object, names: list[str], what: str) -> tuple[OutputName, ...]:
    asked = given if isinstance(given, tuple) else (given,)
    found: list[OutputName] = []
    for a in asked:
        if isinstance(a, str):
            if a not in names:
                raise ArgumentError(
                    f"{what}={a!r}: the function has no such parameter",
                    code="DL701",
                    help=f"give an element of the result by index, or one of: {', '.join(names)}",
                )
            found.append(a)
        elif isinstance(a, bool) or not hasattr(a, "__index__"):
            raise ArgumentError(
                f"{what}={a!r}: give an index into the result or the name of a written parameter, or a tuple of them",
                code="DL701",
            )
        else:
            found.append(operator.index(a))
    return tuple(found)
