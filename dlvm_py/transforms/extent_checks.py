"""Checks of what the types of a program leave open: that extents agree, and that indices are in range.

    %z = add %x: <_ x f64>, %y: <_ x f64>

becomes

    %n = extent %x: <_ x f64> at 0
    %m = extent %y: <_ x f64> at 0
    %same = equal %n: i64, %m: i64
    check %same: bool else ValueError "add: extents {} and {} of axis 0 differ" (%n: i64, %m: i64)
    %z = add %x: <_ x f64>, %y: <_ x f64>

The front end proves or checks these things itself, with Python's messages. Programs that people write do not: the tools
run this pass on them before native code is made, which would read what lies behind an array. What types state is not
checked again, and what is checked twice the clean-ups find.
"""

from __future__ import annotations

from dlvm_py.ir import Builder, Function, Instruction, Kind, Literal, PointerType, TensorType, Value, literal
from dlvm_py.ir.analysis.extents import extent_at, extents_of


def run(function: Function) -> bool:
    """Insert the checks; whether any was needed."""
    found = False
    for block in function.blocks:
        for i in list(block.instructions):
            checks = _Checks(function, i)
            checks.insert()
            found |= checks.found
    return found


class _Checks:
    """The checks that go in front of one instruction."""

    def __init__(self, function: Function, i: Instruction) -> None:
        self.i = i
        self.b = Builder(function).before(i)
        self.b.loc = i.loc
        self.found = False

    def insert(self) -> None:
        """Emit what the op asks for."""
        i, o = self.i, self.i.operands
        if i.op.kind is Kind.ELEMENTWISE:
            self._together([v for v in o if _rank(v)], stretches=True)
            return
        if "extents" in i.op.properties:
            self._packed(i, *o)
        match i.op.name:
            case "store":
                if _rank(o[0]) and _rank(o[1]):
                    self._together(o)
            case "dot":
                self._products(*o)
            case "recurrence":
                self._together(o)
            case "solve":
                self._axes((o[0], 0), (o[0], 1))
                self._axes((o[0], 0), (o[1], 0))
            case "lstsq":
                self._axes((o[0], 0), (o[1], 0))
            case "choleskyAdjoint":
                self._together(o)
                self._axes((o[0], 0), (o[0], 1))
            case "cholesky" | "determinant" | "factorizes" | "eigh" | "eigvalsh" | "eig" | "eigvals":
                self._axes((o[0], 0), (o[0], 1))
            case "concatenate":
                self._together(o, but=i.attrs["at"])
            case "elementPointer":
                # a path through structs and arrays is checked when it has been lowered to plain memory
                plain = _rank(o[0]) and "path" not in i.attrs
                for axis, index in enumerate(o[1:] if plain else ()):
                    self._index(index, o[0], axis)
            case "section":
                self._section(o[0], o[1:])
            case "gather":
                for axis, index in enumerate(o[1:]):
                    self._index(index, o[0], axis)
            case "scatter":
                for axis, index in enumerate(o[2:]):
                    self._index(index, o[1], axis)

    def _check(self, condition: Value, exception: str, message: str, *shown: Value) -> None:
        if isinstance(condition, Literal):
            return
        self.found = True
        self.b.emit("check", condition, *shown, exception=exception, message=message)

    def _same(self, n: Value, m: Value, axis: int) -> None:
        if n is m or (isinstance(n, Literal) and isinstance(m, Literal)):
            return
        message = f"{self.i.op.name}: extents {{}} and {{}} of axis {axis} differ"
        self._check(self.b.emit("equal", n, m), "ValueError", message, n, m)

    def _together(self, values: list[Value], but: int | None = None, stretches: bool = False) -> None:
        """All have equal extents, on every axis `but` one; where the op `stretches`, those that are 1 by type aside."""
        for axis in range(_rank(values[0]) if values else 0):
            if axis == but:
                continue
            apart = [v for v in values if not (stretches and _shape(v)[axis] == 1)]
            extents = [extent_at(self.b, v, axis) for v in apart] if any(_shape(v)[axis] is None for v in apart) else []
            for m in extents[1:]:
                self._same(extents[0], m, axis)

    def _axes(self, one: tuple[Value, int], other: tuple[Value, int]) -> None:
        self._same(extent_at(self.b, *one), extent_at(self.b, *other), one[1])

    def _packed(self, i: Instruction, *operands: Value) -> None:
        """The extents of a packed result are those that its row declares."""
        b = self.b
        of = [b.expr(n) for v in operands if _rank(v) for n in extents_of(b, v)]
        known = [n.value.value if isinstance(n.value, Literal) else n for n in of]
        wanted = i.op.properties["extents"](known, i.attrs)
        for axis, (want, have) in enumerate(zip(wanted, operands[-len(wanted) :], strict=True)):
            self._same(literal(want) if isinstance(want, int) else want.value, have, axis)

    def _products(self, x: Value, y: Value) -> None:
        self._axes((x, _rank(x) - 1), (y, max(_rank(y) - 2, 0)))
        for axis in range(max(_rank(x), _rank(y)) - 2):
            self._axes((x, axis), (y, axis))

    def _index(self, index: Value, of: Value, axis: int) -> None:
        """0 <= index < extent, for all elements of an index."""
        b, extent = self.b, extent_at(self.b, of, axis)
        if isinstance(index, Literal) and isinstance(extent, Literal):
            return
        low = high = index
        if _rank(index):
            axes = tuple(range(_rank(index)))
            low = b.emit("reduce", index, literal(0), by="min", axes=axes)
            high = b.emit("reduce", index, literal(-1), by="max", axes=axes)
        message = f"{self.i.op.name}: index {{}} is out of range for axis {axis} with extent {{}}"
        self._check(b.emit("lessThanOrEqual", literal(0), low), "IndexError", message, low, extent)
        self._check(b.emit("lessThan", high, extent), "IndexError", message, high, extent)

    def _section(self, base: Value, numbers: list[Value]) -> None:
        """Where there are any, the first and the last of count places are in range."""
        b, rank = self.b, _rank(base)
        extents = extents_of(b, base)
        for axis in range(rank):
            start, count, step = numbers[axis], numbers[rank + axis], numbers[2 * rank + axis]
            extent = extents[axis]
            if count is extent and _is(start, 0) and _is(step, 1):
                continue
            if all(isinstance(v, Literal) for v in (start, count, step, extent)):
                continue
            message = f"section: {{}} places from {{}} in steps of {{}} leave axis {axis} with extent {{}}"
            last = b.emit("add", start, b.emit("multiply", b.emit("subtract", count, literal(1)), step))
            inside = [b.emit("lessThanOrEqual", literal(0), v) for v in (start, last)]
            inside += [b.emit("lessThan", v, extent) for v in (start, last)]
            good = inside[0]
            for flag in inside[1:]:
                good = b.emit("and", good, flag)
            good = b.emit("or", good, b.emit("equal", count, literal(0)))
            self._check(good, "IndexError", message, count, start, step, extent)
            self._check(b.emit("lessThanOrEqual", literal(0), count), "ValueError", "section: a count of {}", count)


def _is(value: Value, number: int) -> bool:
    return isinstance(value, Literal) and value.value == number


def _shape(value: Value) -> tuple[int | None, ...]:
    t = value.type.pointee if isinstance(value.type, PointerType) else value.type
    return t.shape if isinstance(t, TensorType) else ()


def _rank(value: Value) -> int:
    return len(_shape(value))
