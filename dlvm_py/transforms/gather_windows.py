"""Gather windows: what the derivatives of sums over windows add up, place after place, is a sum over windows itself.

    %p = multiply %d: <n x c>, %w: <k x c>, broadcast                %q = multiply (windows of k of %d between zeros),
    %y = reduce %p by add along c: <k x n>                     =>                  (the reverse of %w)
    %x = overlapAdd %y to (%m) step (1) spread (1)                   %x = reduce %q by add along k, c: <m>

(with scaleSeed in the place of the second multiply: zeros that stand for nothing, times infinity, are nothing)

That is the derivative of a convolution in what is convolved. Every element is summed where it lies, in registers, and
written once (a contraction, ir/contractions.py), where `overlapAdd` writes zeros and adds all of %y to them, which is
k times as much as %d. Gathered are windows in steps of one, of products in which one factor goes along the places, and
the other along what is in a window. The second factor is copied in an order in which the last axis of the result is
the last one; the first one is copied between zeros, with the places along the last axis of the result side by side.

Two more things make contractions of what differentiation leaves, and one makes contractions faster:

    unbroadcast %x to (%n, 1), %x: <n x m>      reduce by add along 1, where the other extents are known to be equal
    multiply (broadcast 2.0), %x                a row of twos: what the kernel's vectors go along (a seed of ones)
    the sum along the rows of %w of %x * %w     a copy of %w with the axis last that the kernel's vectors go along

Stage optimizable, before bufferize.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.frozen import Frozen
from dlvm_py.ir.analysis.extents import extent_at, known_extent
from dlvm_py.ir.analysis.places import linear
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.contractions import Contraction, Factor, contraction, factor, summed_product
from dlvm_py.ir.function import Function
from dlvm_py.ir.types import TensorType, is_array, scalar
from dlvm_py.ir.value import Instruction, Literal, Value, integer

# rows from which on a factor is turned
FEW = 4


def run(function: Function) -> bool:
    """Rewrite `function`; whether anything changed."""
    # every one of them: no short circuit
    return any([_replace(function, name, make) for name, make in _STEPS])


def _replace(function: Function, name: str, make) -> bool:  # type: ignore[no-untyped-def]
    found: dict[Value, Value] = {}
    for block in function.blocks:
        for i in [i for i in block.instructions if i.op.name == name]:
            b = Builder(function).before(i)
            b.loc = i.loc
            value = make(b, i)
            if value is not None:
                found[i] = value
    for i in found:
        assert isinstance(i, Instruction) and i.block is not None
        i.block.instructions.remove(i)
    function.substitute(found)
    return bool(found)


# -- sums whose axes are known -------------------------------------------------------------------------


def _sum(b: Builder, i: Instruction) -> Value | None:
    """An unbroadcast as a reduce."""
    x, *to = i.operands
    assert isinstance(x.type, TensorType)
    summed = tuple(k for k, n in enumerate(to) if integer(n) == 1 and x.type.shape[k] != 1)
    if not x.type.dtype.is_float or not summed:
        return None
    if not all(_is_extent(n, x, k) for k, n in enumerate(to) if k not in summed):
        return None
    shape = tuple(1 if k in summed else n for k, n in enumerate(x.type.shape))
    if i.type != TensorType(shape, x.type.dtype) or len(summed) == len(shape):
        return None
    found: Value = b.emit("reduce", x, literal(0.0, scalar(x.type.dtype)), by="add", axes=summed)
    for k in summed:
        found = b.emit("padShape", found, at=k)
    return found


def _is_extent(n: Value, x: Value, axis: int) -> bool:
    """Whether a number is known to be the extent of an array."""
    return _are_equal(n, known_extent(x, axis))


def _are_equal(a: Value | tuple[Value, int], b: Value | tuple[Value, int]) -> bool:
    """Whether two numbers are known to be equal; (an array, one of its axes) is an extent."""
    a, b = (
        known_extent(v.operands[0], v.attrs["at"]) if isinstance(v, Instruction) and v.op.name == "extent" else v
        for v in (a, b)
    )
    return linear(a) == linear(b) if isinstance(a, Value) and isinstance(b, Value) else a == b


# -- a number for a factor -----------------------------------------------------------------------------


def _row(b: Builder, i: Instruction) -> Value | None:
    """A sum of multiples of one number as a contraction with a row of it."""
    product, init = i.operands
    if i.attrs["by"] != "add" or not is_array(i.type) or not isinstance(init, Literal) or init.value != 0:
        return None
    if not isinstance(product, Instruction) or product.op.name != "multiply" or contraction(i) is not None:
        return None
    assert isinstance(product.type, TensorType)
    kept = [k for k, n in enumerate(product.type.shape) if k not in i.attrs["axes"] and n != 1]
    factors = [factor(v) for v in product.operands]
    numbers = [k for k, f in enumerate(factors) if not is_array(f.core.type)]
    if len(numbers) != 1 or len(kept) < 2 or product.type.dtype.name not in ("f32", "f64"):
        return None
    number, other = factors[numbers[0]].core, factors[1 - numbers[0]]
    if other.axes[kept[-1]] is not None or all(other.axes[k] is None for k in kept):
        return None
    rank = product.type.rank
    row = _in_memory(b, b.emit("broadcast", number, extent_at(b, product, kept[-1])))
    placed = _arranged(b, row, [0 if k == kept[-1] else None for k in range(rank)])
    operands = list(product.operands)
    operands[numbers[0]] = b.emit("broadcast", placed, *(extent_at(b, product, k) for k in range(rank)))
    again = b.emit("multiply", *operands)
    return b.emit("reduce", again, init, **i.attrs) if again.type == product.type else None


# -- a factor that lies the other way ------------------------------------------------------------------


def _turned(b: Builder, i: Instruction) -> Value | None:
    """A contraction whose second factor lies along an axis that is summed, with one that lies along the vectors' axis.

    Each of its elements is needed again for every place along `block`.
    """
    c = contraction(i)
    if c is None or not _lies_across(c):
        return None
    core, product = c.second.core, i.operands[0]
    assert isinstance(product, Instruction)
    last = c.second.axes[c.vector]
    order = (*(k for k in range(core.type.rank) if k != last), last)  # type: ignore[attr-defined]
    turned = _in_memory(b, b.emit("transpose", core, axes=order))
    copy = b.emit("transpose", turned, axes=tuple(order.index(k) for k in range(len(order))))
    operands = [_with_core(b, v, core, copy) if _is_made_as(v, c.second) else v for v in product.operands]
    return b.emit("reduce", b.emit(product.op.name, *operands), i.operands[1], **i.attrs)


def _lies_across(c: Contraction) -> bool:
    """Whether elements of the second factor that lie side by side are summed, and those of the vectors lie apart."""
    core, block = c.second.core, c.first.axes[c.block]
    if c.in_all_windows or block is None or _is_single(c.first.core, block):
        return False
    layout = "C"
    if isinstance(core, Instruction) and core.op.name == "load":
        layout = core.operands[0].type.layout  # type: ignore[attr-defined]
    axes = [k for k, n in enumerate(core.type.shape) if n != 1]  # type: ignore[attr-defined]
    inner = {"C": axes[-1], "F": axes[0]}.get(layout)
    return inner in [c.second.axes[k] for k in c.reduced] and c.second.axes[c.vector] != inner


def _is_single(core: Value, axis: int) -> bool:
    """Whether there are so few rows that what they share is not worth a copy."""
    count = core.type.shape[axis]  # type: ignore[attr-defined]
    return count is not None and count < FEW


def _is_made_as(v: Value, f: Factor) -> bool:
    found = factor(v)
    return found.core is f.core and found.axes == f.axes


def _with_core(b: Builder, v: Value, core: Value, other: Value) -> Value:
    """What is made of `core` by views, made of another value."""
    if v is core:
        return other
    assert isinstance(v, Instruction)
    return b.emit(v.op.name, _with_core(b, v.operands[0], core, other), *v.operands[1:], **v.attrs)


def _is_as_long(f: Factor, k: int, product: Value) -> bool:
    """Whether a factor has the extent of the product along an axis of that, if it has the axis."""
    axis = f.axes[k]
    return axis is None or _are_equal(known_extent(f.core, axis), known_extent(product, k))


# -- windows -------------------------------------------------------------------------------------------


class _Window(Frozen):
    """An axis of the result: the axes of the product in a window, and from window to window; what it has of them."""

    size: int | None
    count: int | None

    @property
    def moves(self) -> bool:
        return self.size is not None and self.count is not None

    @property
    def axis(self) -> int | None:
        """The one axis of a window that does not move."""
        return self.count if self.size is None else self.size


def _gathered(b: Builder, i: Instruction) -> Value | None:
    """An overlapAdd as a sum over windows."""
    y, rank = i.operands[0], i.type.rank  # type: ignore[attr-defined]
    to, steps, spreads = (i.operands[1 + k * rank : 1 + (k + 1) * rank] for k in range(3))
    view = factor(y)
    total = view.core
    product = summed_product(total)
    if product is None or not all(_is_as_long(view, k, y) for k in view.stretched):
        return None
    assert isinstance(total, Instruction)
    init = total.operands[1]
    kept = [k for k in range(product.type.rank) if k not in total.attrs["axes"]]  # type: ignore[attr-defined]
    of = [None if k is None else kept[k] for k in view.axes]
    windows = [_Window(of[k], of[rank + k]) for k in range(rank)]
    for k, w in enumerate(windows):
        if w.size is not None and integer(spreads[k]) != 1 or w.count is not None and integer(steps[k]) != 1:
            return None
        if not w.moves and not (integer(to[k]) == 1 if w.axis is None else _is_extent(to[k], product, w.axis)):
            return None
    if not any(w.moves for w in windows):
        # windows of one element are apart
        axes = [view.axes[k] if view.axes[rank + k] is None else view.axes[rank + k] for k in range(rank)]
        found = _arranged(b, total, axes)
        return found if found.type == i.type else None
    factors = [factor(v) for v in product.operands]
    for f in factors:
        if not all(_is_as_long(f, k, product) for k in f.stretched):
            return None
    for moving, fixed in (factors, factors[::-1]) if product.op.name == "multiply" else (factors,):
        if _is_factored(moving, fixed, windows):
            found = _Gathering(b, product, total.attrs["axes"], windows, to).build(moving, fixed, init)
            return found if found.type == i.type else None
    return None


def _is_factored(moving: Factor, fixed: Factor, windows: Sequence[_Window]) -> bool:
    """Whether one factor goes from window to window, if it is more than a number, and the other one in each."""
    if not is_array(fixed.core.type):
        return False
    number = not is_array(moving.core.type)
    return all(
        (number or (moving.axes[w.count] is not None and moving.axes[w.size] is None))  # type: ignore[index]
        and fixed.axes[w.size] is not None  # type: ignore[index]
        and fixed.axes[w.count] is None  # type: ignore[index]
        for w in windows
        if w.moves
    )


class _Gathering:
    """The sum over windows in the place of one overlapAdd.

    Its axes are those of the result, then those that were summed before, then one for each window that moves.
    """

    def __init__(
        self, b: Builder, product: Value, summed: Sequence[int], windows: Sequence[_Window], to: Sequence[Value]
    ) -> None:
        self.b, self.product, self.windows, self.to = b, product, windows, to
        self.summed = sorted(summed)
        self.moving = [k for k, w in enumerate(windows) if w.moves]

    def extent(self, axis: int | None) -> Value:
        """The extent of an axis of the product."""
        assert axis is not None
        return extent_at(self.b, self.product, axis)

    def build(self, moving: Factor, fixed: Factor, init: Value) -> Value:
        """The new sum."""
        rank = len(self.windows)
        extents = [*self.to, *map(self.extent, self.summed), *(self.extent(self.windows[k].size) for k in self.moving)]
        whole = self.b.emit("broadcast", self._moving(moving), *extents)
        # what is not there is 0, whatever it would be multiplied by
        product = self.b.emit("scaleSeed", whole, self._fixed(fixed))
        return self.b.emit("reduce", product, init, by="add", axes=tuple(range(rank, len(extents))))

    def _moving(self, f: Factor) -> Value:
        """The windows of a factor between zeros."""
        b, one, zero = self.b, literal(1), literal(0)
        core, axes = f.core, list(f.axes)
        if not is_array(core.type):
            counts = [self.windows[k].count for k in self.moving]
            core = b.emit("broadcast", core, *map(self.extent, counts))
            axes = [counts.index(k) if k in counts else None for k in range(len(axes))]
        assert isinstance(core.type, TensorType)
        last = self._last_moving()
        if last is not None:
            # what vectors go along lies side by side
            a = axes[last]
            assert a is not None
            order = [k for k in range(core.type.rank) if k != a] + [a]
            core = b.emit("transpose", core, axes=tuple(order))
            axes = [None if k is None else order.index(k) for k in axes]
        assert isinstance(core.type, TensorType)
        own = [extent_at(b, core, a) for a in range(core.type.rank)]
        starts: list[Value] = [zero] * len(own)
        whole, sizes, places_of = list(own), list(own), list[Value]([one] * len(own))
        number: dict[int, int] = {}  # of the axis of the windows' places, for each that moves
        for k in self.moving:
            w = self.windows[k]
            a = axes[w.count]  # type: ignore[index]
            assert a is not None
            size = self.extent(w.size)
            starts[a] = b.emit("max", b.emit("subtract", size, one), zero)
            whole[a] = b.emit("add", b.emit("max", self.to[k], own[a]), starts[a])
            sizes[a], places_of[a] = size, self.to[k]
            number[k] = a
        fill = literal(0.0, scalar(core.type.dtype))
        memory = b.emit("allocateHeap", *whole, dtype=core.type.dtype.name)
        b.emit("store", b.emit("embed", core, fill, *whole, *starts, *[one] * len(own)), memory)
        ones = [one] * (2 * len(own))
        found: Value = b.emit("windows", memory, *sizes, *places_of, *ones)
        for a in reversed(range(len(own))):
            if a not in number.values():
                found = b.emit("squeezeShape", found, at=len(own) + a)
        places = {a: len(own) + n for n, a in enumerate(sorted(number.values()))}
        have: list[int | None] = [
            places[number[k]] if w.moves else None if w.axis is None else axes[w.axis]
            for k, w in enumerate(self.windows)
        ]
        have += [axes[k] for k in self.summed]
        have += [number[k] for k in self.moving]
        return _arranged(b, b.emit("load", found), have)

    def _last_moving(self) -> int | None:
        """The axis of the product along the windows of the innermost axis of the result, if that has any."""
        kept = [w for w, n in zip(self.windows, self.to, strict=True) if integer(n) != 1]
        return kept[-1].count if kept and kept[-1].moves else None

    def _fixed(self, f: Factor) -> Value:
        """The other factor backwards, in memory in which the axes of the result are the last ones."""
        b, rank = self.b, len(self.windows)
        have: list[int | None] = [None if w.moves or w.axis is None else f.axes[w.axis] for w in self.windows]
        have += [f.axes[k] for k in self.summed]
        have += [f.axes[self.windows[k].size] for k in self.moving]  # type: ignore[index]
        backwards = tuple(f.axes[self.windows[k].size] for k in self.moving)  # type: ignore[index]
        order = [a for a in (*have[rank:], *have[:rank]) if a is not None]
        core = _without_ones(b, f.core, order)
        names = sorted(order)
        turned: Value = b.emit("reverse", core, axes=tuple(names.index(a) for a in backwards if a is not None))
        turned = b.emit("transpose", turned, axes=tuple(names.index(a) for a in order))
        return _arranged(b, _in_memory(b, turned), [None if a is None else order.index(a) for a in have])


# -- values --------------------------------------------------------------------------------------------


def _in_memory(b: Builder, x: Value) -> Value:
    """The same value, from memory of its own."""
    assert isinstance(x.type, TensorType)
    extents = [extent_at(b, x, k) for k in range(x.type.rank)]
    memory = b.emit("allocateHeap", *extents, dtype=x.type.dtype.name)
    b.emit("store", x, memory)
    return b.emit("load", memory)


def _without_ones(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """x with these axes, in their order in it; the others are of extent 1."""
    for k in reversed(range(x.type.rank)):  # type: ignore[attr-defined]
        if k not in axes:
            x = b.emit("squeezeShape", x, at=k)
    return x


def _arranged(b: Builder, x: Value, axes: Sequence[int | None]) -> Value:
    """x with its axes in another order; None for one of extent 1. What is left out is of extent 1."""
    order = [a for a in axes if a is not None]
    x, names = _without_ones(b, x, order), sorted(order)
    if order != names:
        x = b.emit("transpose", x, axes=tuple(names.index(a) for a in order))
    for k, a in enumerate(axes):
        if a is None:
            x = b.emit("padShape", x, at=k)
    return x


_STEPS = (("unbroadcast", _sum), ("overlapAdd", _gathered), ("reduce", _row), ("reduce", _turned))
