"""Recursive functions that take closures: they are specialised for these, and take what the closures read.

    def adapt(f, a, b): ... adapt(f, a, m) + adapt(f, m, b)      @adapt(%a, %b, %w): ... f(a) is w[0] * a ...
    y = adapt(lambda x: w[0] * x, 0.0, n)                     →    %y = apply @adapt(0.0, %n, %w)

A plain function stands in the place of the recursive one. Its parameters are those that hold no closure, and the names
that the closures read of the functions around them, those of each frame apart: two closures may read two variables of
one name.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from dlvm_py.errors import UnsupportedSyntax
from dlvm_py.frontend import nested, objects
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.frame import Frame
from dlvm_py.frontend.liveness import nonlocal_names
from dlvm_py.frontend.signature import NotFirstClass
from dlvm_py.frontend.values import Closure
from dlvm_py.frozen import Frozen

# versions of one function within each other, for other closures each time
_MAX_NESTING = 4


class Parameter(Frozen):
    """What a parameter of the stand-in holds."""

    name: str


class Function(Frozen):
    """A closure: its tree, the function whose globals and cells it reads, the number of its frame, its defaults."""

    name: str
    node: Any
    function: Any
    frame: int
    defaults: tuple[Any, ...]
    keyword_defaults: tuple[tuple[str, Any], ...]


class Carried(Frozen):
    """A call in terms of parameters and functions: its arguments, what the frames of closures among them hold."""

    target: FunctionType | Function
    arguments: tuple[tuple[str, Any], ...]
    frames: tuple[tuple[tuple[str, Any], ...], ...]


class _Packing:
    """Takes closures apart; the values that are none become parameters."""

    def __init__(self, taken: dict[str, Any]) -> None:
        self.taken = taken
        self.frames: list[Any] = []
        self.held: list[dict[str, Any]] = []

    def pack(self, e: Emitter, name: str, value: Any) -> Any:
        """The value in terms of the stand-in."""
        if not isinstance(value, Closure):
            while name in self.taken:
                name += "_"
            self.taken[name] = objects.settle(e, value)
            return Parameter(name)
        if nonlocal_names(nested.body_of(value)):
            raise NotFirstClass
        number = self._frame(value.frame)
        defaults = tuple(self.pack(e, f"{value.name}_default", d) for d in value.defaults)
        keywords = tuple((n, self.pack(e, n, d)) for n, d in value.keyword_defaults.items())
        for read, frame in nested.surroundings(value).items():
            if read not in self.held[number]:
                self.held[number][read] = None  # a closure may read itself
                self.held[number][read] = self.pack(e, read, frame.read_name(read))
        return Function(value.name, value.node, value.frame.function, number, defaults, keywords)

    def _frame(self, frame: Any) -> int:
        for number, known in enumerate(self.frames):
            if known is frame:
                return number
        self.frames.append(frame)
        self.held.append({})
        return len(self.frames) - 1


def call(e: Emitter, fn: FunctionType | Closure, values: dict[str, Any]) -> Any:
    """A call of a recursive function with closures among its arguments.

    Raises: NotFirstClass where there are none, or something in them cannot cross a call.
    """
    if not any(isinstance(v, Closure) for v in values.values()):
        raise NotFirstClass
    session = e.session
    taken = {n: objects.settle(e, v) for n, v in values.items() if not isinstance(v, Closure)}
    packing = _Packing(taken)
    target = packing.pack(e, fn.name, fn) if isinstance(fn, Closure) else fn
    arguments = tuple((n, packing.pack(e, n, v) if n not in taken else Parameter(n)) for n, v in values.items())
    carried = Carried(target, arguments, tuple(tuple(sorted(held.items())) for held in packing.held))
    key = (carried, tuple(taken))
    stand_in = session.stand_ins.get(key)
    if stand_in is None:
        name = fn.name if isinstance(fn, Closure) else fn.__name__
        if sum(_is_same(target, other) for other in session.carried_in()) >= _MAX_NESTING:
            e.error(
                UnsupportedSyntax,
                f"{name} calls itself with another function each time",
                help="pass on the function that it got, and numbers or arrays that change; or write a loop",
            )
        stand_in = session.stand_ins[key] = nested.stand_in_of(name, list(taken))
        session.carried[stand_in] = (carried, fn, tuple(packing.frames))
    return session.call(e, stand_in, taken)


def _is_same(a: Any, b: Any) -> bool:
    return a.node is b.node if isinstance(a, Function) and isinstance(b, Function) else a is b


def unpacked(e: Emitter, carried: Carried, frames: tuple[Frame, ...], values: dict[str, Any]) -> tuple[Any, Any, Any]:
    """In the callee: the function that is called, its arguments, and the frames that its closures read.

    frames: those where the closures were made.
    """
    around = [Frame(e, f.source, f.name, f.function) for f in frames]

    def unpack(value: Any) -> Any:
        if isinstance(value, Parameter):
            return values[value.name]
        keywords = {n: unpack(v) for n, v in value.keyword_defaults}
        return Closure(value.name, value.node, around[value.frame], tuple(map(unpack, value.defaults)), keywords)

    for frame, held in zip(around, carried.frames, strict=True):
        frame.locals = frozenset(n for n, _ in held)
        frame.bind_parameters({n: unpack(v) for n, v in held if isinstance(v, Parameter)})
        for name, value in held:
            if isinstance(value, Function):
                frame.assign_name(name, unpack(value))
    target = unpack(carried.target) if isinstance(carried.target, Function) else carried.target
    return target, {n: unpack(v) for n, v in carried.arguments}, around
