"""What a compiled function reads from around it: captured arrays, which are hidden parameters, and constants."""

from __future__ import annotations

import builtins
import functools
from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnknownName, UnsupportedSyntax
from dlvm_py.frontend import objects
from dlvm_py.frontend.arrays import make_array
from dlvm_py.frontend.capture import ABSENT, Captures, field_names, is_hidden_argument, is_record_class
from dlvm_py.frontend.closest import suggestion
from dlvm_py.frontend.elementwise import supported
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.partial import partial
from dlvm_py.frontend.regions import Known
from dlvm_py.frontend.values import Array, Object, RandomGenerator, Record, Scalar, Sequence, Static
from dlvm_py.ir import Value, literal, scalar
from dlvm_py.ir.interface import ArraySpec, GeneratorSpec


class Outside:
    """What the functions of one module find outside of themselves."""

    def __init__(
        self, captures: Captures, specs: tuple[ArraySpec | GeneratorSpec, ...], known: Known | None = None
    ) -> None:
        if len(specs) != len(captures.arrays):
            raise ValueError(f"{len(captures.arrays)} captured arrays, but {len(specs)} specs of them")
        self.captures = captures
        self.specs = specs
        self.known = known or Known()
        self._tokens: dict[int, Any] = {}
        self._equal: dict[Any, Any] = {}
        self._captured: dict[Emitter, dict[int, Array | RandomGenerator]] = {}

    def captured_argument(self, e: Emitter, index: int) -> Array | RandomGenerator:
        """A captured array or generator in the function that `e` builds: a parameter, added when first asked for."""
        known = self._captured[e].get(index)
        if known is not None:
            return known
        builder = e.builder
        block, position, loc = builder.block, builder.position, builder.loc
        spec, entry = self.specs[index], e.function.entry
        pointer = entry.add_arg(spec.ir_type(), self.captures.arrays[index].name)
        if isinstance(spec, GeneratorSpec):
            found = self._captured[e][index] = RandomGenerator(pointer)
            return found
        builder.block, builder.position = entry, 0
        extents = []
        for axis, one in enumerate(spec.ones):
            if one:
                extents.append(None)
                continue
            extent = builder.emit("extent", pointer, at=axis)
            e.facts.interval[extent] = (0, EXTENT_MAX)
            e.facts.never_one.add(extent)
            extents.append(extent)
        builder.block, builder.position, builder.loc = block, position, loc
        array = self._captured[e][index] = make_array(e, pointer, extents)
        return array

    def captured_leaf(self, e: Emitter, index: int) -> Value:
        """The parameter that a captured array or generator is."""
        return leaf_of(self.captured_argument(e, index))

    def outside(self, e: Emitter, fn: Any, name: str) -> Any:
        """The value of a name that is not local: a closure cell, a global or a built-in."""
        code = fn.__code__
        if name in code.co_freevars:
            cell = fn.__closure__[code.co_freevars.index(name)]
            try:
                return self.lift(e, self.captures.value_of(cell, name, cell.cell_contents), name)
            except ValueError:
                e.error(UnknownName, f"the variable `{name}` of the enclosing function has no value yet")
        found = self.captures.value_of(fn.__globals__, name, fn.__globals__.get(name, ABSENT))
        if found is not ABSENT:
            return self.lift(e, found, name)
        if hasattr(builtins, name):
            return Static(getattr(builtins, name))
        known = [*code.co_varnames, *code.co_freevars, *fn.__globals__, *dir(builtins)]
        e.error(UnknownName, f"name `{name}` is not defined", help=suggestion(name, known))

    def lift(self, e: Emitter, value: Any, name: str) -> Any:
        """The front end's value of a Python object that is known at compile time."""
        if is_hidden_argument(value):
            index = self.captures.index_of(value)
            if index is None:
                what = "array" if isinstance(value, np.ndarray) else "generator"
                e.error(
                    UnsupportedSyntax,
                    f"the {what} `{name}` is reached in a way that is not supported",
                    help="pass it as an argument",
                )
            if isinstance(value, np.ndarray):
                supported(e, value.dtype, f"the array `{name}`")
            return self.captured_argument(e, index)
        if isinstance(value, np.generic):
            dtype = supported(e, value.dtype, f"`{name}`")
            return Scalar(literal(value.item(), scalar(dtype)), weak=False)
        if isinstance(value, (bool, float, complex)):
            return Scalar(literal(value), weak=True)
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                e.error(TypeMismatch, f"the int `{name}` does not fit 64 bits", help="make it a float")
            return Scalar(literal(int(value)), weak=True)
        if type(value) is tuple:
            return Sequence(tuple(self.lift(e, v, name) for v in value))
        if type(value) in (list, dict) or is_record_class(type(value)):
            return self._lift_object(e, value, name)
        if type(value) is functools.partial:
            func, *args = (self.lift(e, v, name) for v in (value.func, *value.args))
            return partial(e, func, *args, **{n: self.lift(e, v, name) for n, v in value.keywords.items()})
        return Static(value)

    def _lift_object(self, e: Emitter, value: Any, name: str) -> Any:
        """A captured list, dict, named tuple or dataclass instance: compiled code reads it and cannot change it."""
        kind = type(value)
        if kind is list:
            held: Any = Sequence(tuple(self.lift(e, v, name) for v in value), is_list=True)
        elif kind is dict:
            if not all(isinstance(k, str) for k in value):
                return Static(value)
            held = Record(dict, tuple(value), tuple(self.lift(e, v, f"{name}[{k!r}]") for k, v in value.items()))
        else:
            names = field_names(kind)
            held = Record(kind, names, tuple(self.lift(e, getattr(value, n), f"{name}.{n}") for n in names))
        if not objects.is_mutable(held):
            return held
        self._tokens[id(value)] = self.known.outside[f"{objects.GLOBAL}.{id(value)}"] = value
        return Object(f"{objects.GLOBAL}.{id(value)}", f"`{name}`, which is defined outside of the function,", held)

    def constant(self, e: Emitter, key: str) -> Any:
        """The captured list, dict or instance that has a key, None if there is none."""
        return self.lift(e, self.known.outside[key], "a list of lists") if key in self.known.outside else None

    def token(self, value: Any) -> Any:
        """A hashable name of a compile-time object; the same for equal strings and dtypes."""
        if value is None or isinstance(value, (str, np.dtype)):
            return ("value", value)
        self._tokens[id(value)] = value
        return ("id", id(value))

    def one_of(self, value: Any) -> Any:
        """A compile-time object that is equal to this one, the same for all of them: calls compare by identity."""
        return self._equal.setdefault(value, value)

    def untoken(self, token: Any) -> Any:
        """The object of a token."""
        return token[1] if token[0] == "value" else self._tokens[token[1]]


def leaf_of(captured: Array | RandomGenerator) -> Value:
    """The parameter that a captured array or generator is."""
    return captured.pointer if isinstance(captured, Array) else captured.address
