"""What a Python expression stands for while it is translated.

`Scalar` and `Array` are bound to names; `Temp` (an array value without memory) lives inside one
expression only; `Sequence` is a tuple, or what a list holds; `Record` a named tuple, or what a dict or dataclass
instance holds; `Growing` what a list of computed length holds. What can be changed in place has an identity, an
`Object`, whose contents stand in the environment like a name's (objects.py). `Static` is a Python object that is
known now: None, a string, a dtype, a module, a function, a slice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.errors import Loc
from dlvm_py.frozen import Frozen, field
from dlvm_py.ir import Block, DType, Literal, PointerType, TensorType, Value


class Scalar(Frozen, eq=False):
    """A number or bool. `weak`: Python's own type (bool, int, float, complex), else a NumPy scalar."""

    value: Value
    weak: bool

    @property
    def dtype(self) -> DType:
        """Element type."""
        assert isinstance(self.value.type, TensorType)
        return self.value.type.dtype

    @property
    def number(self) -> Any:
        """The Python value where it is known now, else None."""
        return self.value.value if isinstance(self.value, Literal) else None


class Other(Frozen, eq=False):
    """What a number is where `flag` holds: of another type than the joined one. Elsewhere `scalar` says nothing."""

    flag: Value
    scalar: Scalar


class Mixed(Scalar, eq=False):
    """A number that has another type on some of the paths to here, of which at most one flag holds (mixed.py)."""

    others: tuple[Other, ...]

    @property
    def joined(self) -> Scalar:
        """The number as one of the joined type on all paths."""
        return Scalar(self.value, self.weak)


class Either(Frozen, eq=False):
    """A value of another kind on some of the paths to here: `place` says which of `values` it is (either.py)."""

    place: Value
    values: tuple[Any, ...]


class Array(Frozen, eq=False):
    """A reference to memory: pointer and one i64 value an axis.

    `copied` is "" or says why this may be a copy where NumPy has a view (writing is then refused).
    """

    pointer: Value
    extents: tuple[Value, ...]
    copied: str = ""

    def whole(self) -> Array:
        """A view of all of it: another object, with the same memory."""
        return Array(self.pointer, self.extents, self.copied)

    @property
    def type(self) -> PointerType:
        """The pointer's type."""
        assert isinstance(self.pointer.type, PointerType)
        return self.pointer.type

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.type.dtype

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.extents)


class Temp(Frozen, eq=False):
    """An array expression: a tensor value of `block`, without memory of its own.

    seen: the array that NumPy's would be a view of.
    """

    tensor: Value
    extents: tuple[Value, ...]
    block: Block
    seen: Array | None = None

    @property
    def dtype(self) -> DType:
        """Element type."""
        assert isinstance(self.tensor.type, TensorType)
        return self.tensor.type.dtype

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.extents)


class Flags(Frozen, eq=False):
    """x.flags: how an array lies in memory."""

    array: Array | Temp | Scalar


class Undecided(Frozen, eq=False):
    """Complex numbers that NumPy gives as real ones at other times of the same call (undecided.py)."""

    value: Array | Scalar


class Sequence(Frozen, eq=False):
    """A tuple, or a list that is used as one."""

    items: tuple[Any, ...]
    is_list: bool = False


class Record(Frozen, eq=False):
    """Named values: of a named tuple or dataclass (`kind` is its class), or the items of a dict (`kind` is dict)."""

    kind: type
    names: tuple[str, ...]
    items: tuple[Any, ...]

    def get(self, name: str) -> Any:
        """The value of a name, None if there is none."""
        return self.items[self.names.index(name)] if name in self.names else None

    def replaced(self, name: str, value: Any) -> Record:
        """The record with one value changed, or added at the end."""
        if name not in self.names:
            return Record(self.kind, (*self.names, name), (*self.items, value))
        items = (value if n == name else v for n, v in zip(self.names, self.items, strict=True))
        return Record(self.kind, self.names, tuple(items))


class Growing(Frozen, eq=False):
    """What a list holds whose length is known at run time only: the first `length` rows of each buffer.

    `item` is the type of an item (value_types.py): each scalar, array or list in it has a buffer, of one axis more. The
    buffers have one capacity, their first extent. `home`: the list of a region that they are a view of (regions.py).
    """

    item: Any
    buffers: tuple[Array, ...]
    length: Value
    home: Ref | None = None


class Object(Frozen):
    """The identity of a list, dict or dataclass instance; its contents stand in the environment under `key`.

    `origin` is "" or says whose it is ("the argument `x`"): it cannot be changed then, and holds `contents` for good.
    """

    key: str
    origin: str = ""
    contents: Any = field(default=None, compare=False)


class Ref(Frozen, eq=False):
    """A list in a list: the region that has it, and its number there, an i64 (regions.py)."""

    region: Object
    number: Value


class Static(Frozen, eq=False):
    """A Python object that is known at compile time."""

    value: Any


class KnownSet(Frozen, eq=False):
    """A set whose items are known now: a set of Python's, which nothing changes. `site`: where it was made."""

    items: set[Any]
    site: str


class Place(Frozen):
    """What stands at a place of the caller's arguments, untouched (lent.py); the value of a Static."""

    place: tuple[int, ...]


class Text(Frozen, eq=False):
    """A string with values in it that are known at run time: a format string, and operands with their flavours."""

    message: str
    operands: tuple[tuple[Value, str], ...]


class Caught(Frozen):
    """An exception that a handler has: its class, what IR calls that, and its text."""

    kind: type
    name: str
    text: Text


class RandomGenerator(Frozen):
    """A `numpy.random.Generator`: the address of its bit generator's C interface, a u64."""

    address: Value


class Stream(Frozen):
    """`sys.stdout` or `sys.stderr`: what that is when something is printed."""

    name: str


class SliceKey(Frozen, eq=False):
    """start:stop:step inside an index; each a Scalar or None."""

    start: Scalar | None
    stop: Scalar | None
    step: Scalar | None


class Method(Frozen, eq=False):
    """A method looked up on a value: `x.sum`. `rule`: what runs it, None for a method of arrays."""

    owner: Any
    name: str
    rule: Any = None


class View(Frozen, eq=False):
    """d.keys(), d.values(), d.items() (`what`) of a dict, which shows what the dict holds when it is read."""

    owner: Any
    what: str


class Closure(Frozen, eq=False):
    """A function defined inside the compiled one: its tree, and the frame whose names it reads."""

    name: str
    node: Any
    frame: Any
    defaults: tuple[Any, ...]
    keyword_defaults: dict[str, Any]


class Derivative(Frozen, eq=False):
    """A derivative of a function defined inside the compiled one: `makers` are applied to it in order.

    A maker is one of dlvm_py's functions with the constants that it gets behind the function, by position and by name.
    """

    closure: Closure
    makers: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...]


class Iteration(Frozen, eq=False):
    """Something that a `for` can run over: how many items, and the item at a counter. `is_range`: it has an index."""

    count: Value
    item: Callable[[Value], Any]
    is_range: bool = False


class Generator(Frozen, eq=False):
    """A generator expression: `run(action, goes_on)` translates it, with an action on each item.

    Or a generator whose body has not begun (generators.py).
    """

    run: Callable[..., None]
    suspended: Callable[[], Suspended] | None = None


class Suspended(Generator, eq=False):
    """A call of a generator function: its name, body and source, where it looks up names that are not its own.

    The arguments stand in the environment of `frame` under `key`, until something loops over it; `nest`: the loops
    around the call.
    """

    name: str = ""
    body: tuple[Any, ...] = ()
    parameters: tuple[str, ...] = ()
    source: Any = None
    function: Any = None
    outer: Any = None
    frame: Any = None
    key: str = ""
    nest: tuple[Any, ...] = ()


class Conflict(Frozen):
    """A name whose values on two paths have no common type, or a list that cannot hold its items: an error if read.

    help: what to write instead, where "one type on both paths" is not the answer.
    """

    reason: str
    places: tuple[Loc | None, ...] = ()
    help: str | None = None

    def said_of(self, what: str, where: str = "") -> str:
        """The message of the error: `what` is the name or thing that is read, `where` the places that assigned it."""
        end = "" if self.help is not None else ": there is no common type"
        return f"{what} is {self.reason}{where}{end}"


class Binding(Frozen, eq=False):
    """What a name is bound to. `is_set`: None if it surely is, else a bool computed at run time."""

    value: Any
    loc: Loc | None = None
    is_set: Value | None = None


NONE = Static(None)


def is_none(value: Any) -> bool:
    """Whether an argument is left out or None."""
    return value is None or (isinstance(value, Static) and value.value is None)


def describe(value: Any) -> str:
    """What a value is, in the user's words."""
    match value:
        case Scalar():
            if value.weak:
                return {"b": "a bool", "i": "an int", "f": "a float", "c": "a complex"}[value.dtype.kind]
            return f"a NumPy {value.dtype.numpy_name}"
        case Caught():
            return "an exception"
        case Either():
            return " or ".join(map(describe, value.values))
        case Array() | Temp():
            return f"an array ({value.rank}-d, {value.dtype.numpy_name})"
        case Flags():
            return "the flags of an array"
        case Undecided():
            return "numbers that are real at one time of a call and complex at another"
        case Sequence():
            return f"a {'list' if value.is_list else 'tuple'} of {len(value.items)}"
        case Record():
            return "a dict" if value.kind is dict else f"a {value.kind.__name__}"
        case Growing() | Ref():
            return "a list that grows"
        case Object():
            return "a list, dict or dataclass instance" if value.contents is None else describe(value.contents)
        case Static(value=KnownSet()):
            return "a set"
        case Static():
            return "None" if value.value is None else f"the {type(value.value).__name__} {_short(value.value)}"
        case Text():
            return "a string that is made when it runs"
        case RandomGenerator():
            return "a random Generator"
        case Stream():
            return f"sys.{value.name}"
        case Closure():
            return f"the function {value.name}"
        case Derivative():
            return f"a derivative of the function {value.closure.name}"
        case View():
            return f"the {value.what} of a dict"
        case Method():
            return f"the method {value.name}"
        case SliceKey():
            return "a slice"
        case Iteration():
            return "an iterator"
        case Suspended():
            return f"the generator {value.name}"
        case Generator():
            return "a generator expression"
    return f"a {type(value).__name__}"


def _short(value: object) -> str:
    name = getattr(value, "__name__", None)
    text = name if isinstance(name, str) else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
