"""Arrays and array expressions: loads, memory for expressions, and NumPy's broadcasting rule.

An unknown extent does not broadcast in the IR, so combining operands means: prove or check that their
extents agree, and put a `broadcast` in front of an operand whose extent may turn out to be 1.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import Any

from dlvm_py.errors import ShapeMismatch, TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.facts import EXTENT_MAX
from dlvm_py.frontend.orders import Order, note, order_made, order_of
from dlvm_py.frontend.values import Array, Scalar, Temp, describe
from dlvm_py.ir import DType, Instruction, PointerType, TensorType, Value, literal
from dlvm_py.ir.value import integer

Extents = tuple[Value, ...]

COPIED = "this array may be a copy where NumPy makes a view: writing to it is not supported"


def make_array(e: Emitter, pointer: Value, extents: Items[Value | None] | None = None, copied: str = "") -> Array:
    """The Array of a pointer; extents that are not given are literals of the type or `extent` ops."""
    assert isinstance(pointer.type, PointerType)
    found = []
    for axis, static in enumerate(pointer.type.shape):
        given = extents[axis] if extents is not None else None
        if static is not None:
            given = i64(static)
        elif given is None:
            given = e.pure("extent", pointer, at=axis)
            e.facts.interval[given] = (0, EXTENT_MAX)
        found.append(given)
    return Array(pointer, tuple(found), copied)


def tensor_of(e: Emitter, value: Array | Temp | Scalar) -> Value:
    """The SSA value of an operand, usable in the current block.

    A Temp of another block is given memory where it was computed: tensor values of the front end do
    not cross block borders.
    """
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Array):
        return e.emit("load", value.pointer)
    if value.block is e.block:
        return value.tensor
    block, position, loc = e.block, e.builder.position, e.builder.loc
    if isinstance(value.tensor, Instruction):
        e.builder.after(value.tensor)
    else:
        e.builder.at_end(value.block)
    memory = e.builder.emit("allocateHeap", *value.extents, dtype=value.dtype.name)
    e.builder.emit("store", value.tensor, memory)
    e.builder.block, e.builder.position, e.builder.loc = block, position, loc
    return e.emit("load", memory)


def temp(e: Emitter, tensor: Value, extents: Items[Value]) -> Any:
    """Wrap a result: a Temp, or a NumPy scalar where the rank is 0."""
    if not extents:
        return Scalar(tensor, weak=False)
    return Temp(tensor, tuple(extents), e.block)


def arrayed(e: Emitter, value: Any) -> Any:
    """What NumPy gives as an array also where it has no axes: of a number an array expression without axes."""
    return Temp(value.value, (), e.block) if isinstance(value, Scalar) else value


def allocate(e: Emitter, extents: Items[Value], dtype: DType) -> Array:
    """Fresh memory, not initialised."""
    return make_array(e, e.emit("allocateHeap", *extents, dtype=dtype.name), list(extents))


def materialise(e: Emitter, value: Any, order: Order | None = None) -> Any:
    """Memory for a Temp, which NumPy lays out in an order, or as its operands; everything else as it is.

    What should be a view is marked: writes to what it sees would have to show (transforms/kept_copies.py).
    """
    if not isinstance(value, Temp):
        return value
    tensor = tensor_of(e, value)
    array = note(e, allocate(e, value.extents, value.dtype), order_made(e, tensor) if order is None else order)
    e.emit("store", tensor, array.pointer)
    if value.seen is None:
        return array
    e.emit("keepView", value.seen.pointer, array.pointer)
    return Array(array.pointer, array.extents, COPIED)


def made_as_it_lies(e: Emitter, a: Any, made: Any) -> Any:
    """What NumPy makes beside array a, with as many axes, in the order of a: a copy, or one that is like it."""
    order = order_of(e, a)
    if order is Order.ROWS or a.rank < 2 or not isinstance(made, (Array, Temp)) or made.rank != a.rank:
        return made
    return note(e, made, order) if isinstance(made, Array) else materialise(e, made, order)


# what the error record of the native calling convention holds; more costs a call of Python where it fails
_MAX_SHOWN = 4


class Message:
    """An error message under construction: known numbers are written out, others become operands."""

    def __init__(self) -> None:
        self.operands: list[Value] = []

    def hole(self, value: Value) -> str:
        """The place of an i64 in the text."""
        n = integer(value)
        if n is not None:
            return str(n)
        self.operands.append(value)
        return "{}"

    def shape(self, extents: Items[Value]) -> str:
        """A shape as NumPy prints it: (3,), (3,4)."""
        holes = ",".join(map(self.hole, extents))
        return f"({holes},)" if len(extents) == 1 else f"({holes})"


def check_shapes(e: Emitter, condition: Value, *texts: Callable[[Message], str], exception: str = "ValueError") -> None:
    """Raise an exception unless `condition`, with the first text whose numbers the error record can hold."""
    for text in texts:
        message = Message()
        shown = text(message)
        if len(message.operands) <= _MAX_SHOWN:
            break
    e.check(condition, exception, shown, *message.operands)


def broadcast_to(e: Emitter, tensor: Value, extents: Items[Value]) -> Value:
    """The tensor stretched to `extents` (checked before)."""
    return e.emit("broadcast", tensor, *extents)


_OPERANDS = ("ValueError", "operands could not be broadcast together")


def combine(e: Emitter, operands: Items[Any], clash: tuple[str, str] = _OPERANDS) -> tuple[list[Value], Extents]:
    """Tensors of the operands, aligned for one elementwise op, and the extents of its result.

    Operands are Scalars, Arrays, Temps, or (tensor, extents) pairs. clash: what is raised where they do not fit, and
    what it says.
    """
    pairs = [_pair(e, o) for o in operands]
    rank = max((len(x) for _, x in pairs), default=0)
    aligned: list[tuple[Value, Extents]] = []
    for tensor, extents in pairs:
        if extents:
            for _ in range(rank - len(extents)):
                tensor, extents = e.emit("padShape", tensor, at=0), (i64(1), *extents)
        aligned.append((tensor, extents))
    result = broadcast_extents(e, [x for _, x in pairs if x], clash)
    tensors = [_stretched(e, t, x, result) if x else t for t, x in aligned]
    return tensors, result


def broadcast_extents(e: Emitter, shapes: Items[Extents], clash: tuple[str, str] = _OPERANDS) -> Extents:
    """The shape that shapes broadcast to, checked at run time where they are not known to."""
    rank = max(map(len, shapes), default=0)
    padded = [(*[i64(1)] * (rank - len(x)), *x) for x in shapes]
    result = []
    for axis in range(rank):
        extent = padded[0][axis]
        for shape, wide in zip(shapes[1:], padded[1:], strict=True):
            extent = _common_extent(e, extent, wide[axis], shapes[0], shape, clash)
        result.append(extent)
    return tuple(result)


def _pair(e: Emitter, operand: Any) -> tuple[Value, Extents]:
    if isinstance(operand, tuple):
        return operand
    return tensor_of(e, operand), () if isinstance(operand, Scalar) else operand.extents


def _stretched(e: Emitter, tensor: Value, extents: Items[Value], result: Items[Value]) -> Value:
    """`tensor` with a `broadcast` if its type does not already say that it fits."""
    assert isinstance(tensor.type, TensorType)
    for static, have, want in zip(tensor.type.shape, extents, result, strict=True):
        if static != 1 and not e.facts.same(have, want):
            return broadcast_to(e, tensor, result)
    return tensor


def _common_extent(e: Emitter, a: Value, b: Value, shape_a: Extents, shape_b: Extents, clash: tuple[str, str]) -> Value:
    """The broadcast extent of two axes, checked at run time where it is not known to exist."""
    facts = e.facts
    a, b = facts.find(a), facts.find(b)
    if facts.same(a, b) or integer(b) == 1:
        return a
    if integer(a) == 1:
        return b
    exception, wrong = clash
    if integer(a) is not None and integer(b) is not None:
        shapes = f"{_shown(shape_a)} and {_shown(shape_b)}"
        e.error(ShapeMismatch, f"{wrong} with shapes {shapes}")
    known = facts.lookup(("fits", a, b))
    if known is not None:
        return known
    texts = (
        lambda m: f"{wrong} with shapes {m.shape(shape_a)} {m.shape(shape_b)} ",
        lambda m: f"{wrong}: an axis has extents {m.hole(a)} and {m.hole(b)}",
    )
    equal, one = e.compare("equal", a, b), i64(1)
    never_a, never_b = facts.is_never_one(a), facts.is_never_one(b)
    if never_a and never_b:
        check_shapes(e, equal, *texts, exception=exception)
        facts.unify(a, b)
        return facts.find(a)
    fits = equal
    for never, extent in ((never_a, a), (never_b, b)):
        if not never:
            fits = e.either(fits, e.compare("equal", extent, one))
    check_shapes(e, fits, *texts, exception=exception)
    if never_a:
        result = a
    elif never_b:
        result = b
    else:
        result = e.choose(e.compare("equal", a, one), b, a)
    facts.remember(("fits", a, b), result)
    return result


def _shown(extents: Items[Value]) -> str:
    numbers = [str(integer(n)) if integer(n) is not None else "?" for n in extents]
    return "(" + ",".join(numbers) + ("," if len(numbers) == 1 else "") + ")"


def fit(e: Emitter, value: Any, extents: Items[Value], in_place: bool = False) -> Value:
    """The tensor of `value` broadcast to a destination of the given extents, as `a[...] = value` does.

    `in_place`: the wording of augmented assignment, where NumPy speaks of operands.
    """
    tensor, have = _pair(e, value)
    if not have:
        return broadcast_to(e, tensor, extents) if extents else tensor
    shape = have
    while len(have) > len(extents) and integer(have[0]) == 1:
        assert isinstance(tensor.type, TensorType)
        if tensor.type.shape[0] != 1:
            tensor = e.emit("shapeCast", tensor, *have[1:])
        else:
            tensor = e.emit("squeezeShape", tensor, at=0)
        have = have[1:]
    if len(have) > len(extents):
        e.error(
            ShapeMismatch,
            f"an array of {len(shape)} axes does not fit into one of {len(extents)}",
            help="index or reduce the right side first",
        )
    for _ in range(len(extents) - len(have)):
        tensor, have = e.emit("padShape", tensor, at=0), (i64(1), *have)
    stretch = False
    for n, want in zip(have, extents, strict=True):
        if e.facts.same(n, want):
            continue
        if integer(n) == 1:
            stretch = True
            continue
        stretch |= _check_fits(e, n, want, shape, extents, in_place)
    return broadcast_to(e, tensor, extents) if stretch else tensor


def _check_fits(e: Emitter, n: Value, want: Value, shape: Extents, to: Items[Value], in_place: bool) -> bool:
    """Check that extent n goes into `want`; returns whether it may have to be stretched."""
    if integer(n) is not None and integer(want) is not None:
        e.error(ShapeMismatch, f"could not broadcast input array from shape {_shown(shape)} into shape {_shown(to)}")
    if in_place:
        start = "operands could not be broadcast together with shapes "
        texts = (
            lambda m: f"{start}{m.shape(to)} {m.shape(shape)} {m.shape(to)} ",
            lambda m: f"{start}{m.shape(to)} {m.shape(shape)} ",
            lambda m: f"operands could not be broadcast together: an axis has extents {m.hole(want)} and {m.hole(n)}",
        )
    else:
        texts = (
            lambda m: f"could not broadcast input array from shape {m.shape(shape)} into shape {m.shape(to)}",
            lambda m: f"could not broadcast input array: extent {m.hole(n)} does not fit into {m.hole(want)}",
        )
    stretches = not e.facts.is_never_one(n)
    fine = e.compare("equal", n, want)
    if stretches:
        fine = e.either(fine, e.compare("equal", n, i64(1)))
    if in_place and not e.facts.is_never_one(want):
        check_shapes(
            e,
            e.either(fine, e.pure("notEqual", want, i64(1))),
            lambda m: (
                f"non-broadcastable output operand with shape {m.shape(to)} "
                f"doesn't match the broadcast shape {m.shape(shape)}"
            ),
            lambda m: "non-broadcastable output operand: its shape is smaller than the broadcast shape",
        )
    check_shapes(e, fine, *texts)
    if not stretches:
        e.facts.unify(n, want)
    return stretches


def require_writable(e: Emitter, array: Array) -> None:
    """Refuse arrays that may be copies where NumPy has a view."""
    if array.copied:
        e.error(
            UnsupportedSyntax, array.copied, help="write to the array before it is reshaped, or copy it with .copy()"
        )


def store(e: Emitter, tensor: Value, array: Array) -> None:
    """Store a tensor of the array's shape, refusing arrays that may be copies of NumPy's views."""
    require_writable(e, array)
    e.emit("store", tensor, array.pointer)


def require_array(e: Emitter, value: Any, what: str) -> Array | Temp:
    """The value if it is an array or an array expression, a number as one without axes; else a located error."""
    if isinstance(value, (Array, Temp)):
        return value
    if isinstance(value, Scalar):
        held = allocate(e, (), value.dtype)
        e.emit("store", value.value, held.pointer)
        return held
    e.error(TypeMismatch, f"{what} needs an array, not {describe(value)}")


def filled(e: Emitter, extents: Items[Value], number_: Any, dtype: DType) -> Temp:
    """An array expression with one value everywhere."""
    value = number_ if isinstance(number_, Value) else literal(number_, TensorType((), dtype))
    return Temp(broadcast_to(e, value, extents), tuple(extents), e.block)
