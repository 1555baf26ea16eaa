"""Extents and indices as sums: which slice `u[1:-1]` a section is, and whose shape an allocation has.

A `Sum` is a constant plus multiples of *terms*; a term is an axis of memory that is not the view of another
(`Axis`), `max(s, 0)` of a sum (`Clipped`), or a value about which nothing is known. Equal sums are equal numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm_py.frozen import Frozen
from dlvm_py.ir import Instruction, Literal, PointerType, TensorType, Value
from dlvm_py.ir.value import integer


class Axis(Frozen):
    """The extent of an axis of a parameter, a block argument, or what else is no view."""

    of: Value
    at: int


class Sum(Frozen):
    """`constant` + Σ factor · term. `terms` in the order in which they were met."""

    constant: int
    terms: tuple[tuple[Term, int], ...] = ()

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """This sum + factor · other."""
        found = dict(self.terms)
        for term, n in other.terms:
            found[term] = found.get(term, 0) + factor * n
        return Sum(self.constant + factor * other.constant, tuple((t, n) for t, n in found.items() if n))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and self.constant == other.constant and dict(self.terms) == dict(other.terms)

    def __hash__(self) -> int:
        return hash((self.constant, frozenset(self.terms)))

    @property
    def number(self) -> int | None:
        """Its value if it is a constant."""
        return None if self.terms else self.constant


class Clipped(Frozen):
    """max(sum, 0)."""

    of: Sum


Term = Axis | Clipped | Value


class Extents:
    """The sums that i64 values and extents of one function are; found once each."""

    def __init__(self, known: Iterable[Value] = ()) -> None:
        """known: values that are not looked into."""
        self._sums: dict[Value, Sum] = {v: Sum(0, ((v, 1),)) for v in known}

    def sum_of(self, value: Value) -> Sum:
        """An i64 value as a sum."""
        if isinstance(value, Literal):
            number = integer(value)
            return Sum(0, ((value, 1),)) if number is None else Sum(number)
        if value not in self._sums:
            self._sums[value] = self._found(value)
        return self._sums[value]

    def _found(self, value: Value) -> Sum:
        itself = Sum(0, ((value, 1),))
        if not isinstance(value, Instruction):
            return itself
        match value.op.name:
            case "add":
                return self.sum_of(value.operands[0]).plus(self.sum_of(value.operands[1]))
            case "subtract":
                return self.sum_of(value.operands[0]).plus(self.sum_of(value.operands[1]), -1)
            case "negate":
                return Sum(0).plus(self.sum_of(value.operands[0]), -1)
            case "extent":
                return self.extent(value.operands[0], value.attrs["at"])
            case "max":
                a, b = map(self.sum_of, value.operands)
                if Sum(0) in (a, b):
                    return _clipped(a if b == Sum(0) else b)
        return itself

    def extent(self, value: Value, axis: int) -> Sum:
        """The extent of an axis of an array or of memory."""
        stated = value.type.shape[axis]  # type: ignore[attr-defined]
        if stated is not None:
            return Sum(stated)
        if not isinstance(value, Instruction):
            return Sum(0, ((Axis(value, axis), 1),))
        x = value.operands[0] if value.operands else None
        rank = value.type.rank  # type: ignore[attr-defined]
        match value.op.name:
            case "allocateHeap":
                return self.sum_of(value.operands[axis])
            case "section":
                return self.sum_of(value.operands[1 + rank + axis])
            case "broadcast" | "shapeCast" | "unbroadcast":
                return self.sum_of(value.operands[1 + axis])
            case "embed":
                return self.sum_of(value.operands[2 + axis])
            case "pointerCast" | "load" | "partView":
                return self.extent(x, axis)  # type: ignore[arg-type]
            case "elementPointer" if "path" not in value.attrs:
                return self.extent(x, axis + len(value.operands) - 1)  # type: ignore[arg-type]
            case "transpose":
                axes = value.attrs.get("axes") or tuple(range(rank))[::-1]
                return self.extent(x, axes[axis])  # type: ignore[arg-type]
            case "padShape":
                return self.extent(x, axis - (axis > value.attrs["at"]))  # type: ignore[arg-type]
            case "squeezeShape":
                return self.extent(x, axis + (axis >= value.attrs["at"]))  # type: ignore[arg-type]
            case "iota":
                return self.sum_of(value.operands[0])
            case "scan" | "recurrence" | "fourier" | "sort" | "argsort" | "reverse" | "cholesky" | "choleskyAdjoint":
                return self.extent(x, axis)  # type: ignore[arg-type]
            case "overlapAdd":
                return self.sum_of(value.operands[1 + axis])
            case "eigh" | "eigvalsh" | "eig" | "eigvals" | "svd" | "svdvals" | "qr" | "lstsq":
                return self.sum_of(value.operands[len(value.operands) - rank + axis])
            case "pinv":
                return self.extent(x, 1 - axis)  # type: ignore[arg-type]
            case "solve":
                return self.extent(value.operands[1], axis)
            case "scatterAdd":
                return self._of_scatter(value, axis)
            case "gather":
                return self._of_gather(value, axis)
            case "dot" if rank > 2:
                return self.extent(value.operands[1 if axis == rank - 1 else 0], axis)  # type: ignore[arg-type]
            case "dot" if rank == 2 or axis == 0:
                side = 0 if axis == 0 and value.operands[0].type.rank == 2 else 1  # type: ignore[attr-defined]
                return self.extent(value.operands[side], axis if side == 0 else value.operands[1].type.rank - 1)  # type: ignore[attr-defined]
            case "reduce":
                kept = [k for k in range(rank + len(value.attrs["axes"])) if k not in value.attrs["axes"]]
                return self.extent(x, kept[axis])  # type: ignore[arg-type]
        if value.op.kind.name == "ELEMENTWISE":
            for v in value.operands:
                if isinstance(v.type, TensorType) and v.type.rank == rank and v.type.shape[axis] is None:
                    return self.extent(v, axis)
        return Sum(0, ((Axis(value, axis), 1),))

    def _of_scatter(self, value: Instruction, axis: int) -> Sum:
        x, *numbers = value.operands
        half = len(numbers) // 2
        if axis < half:
            return self.sum_of(numbers[half + axis])
        rank = value.type.rank  # type: ignore[attr-defined]
        return self.extent(x, axis + x.type.rank - rank)  # type: ignore[attr-defined]

    def _of_gather(self, value: Instruction, axis: int) -> Sum:
        x, *indices = value.operands
        rank = max(i.type.rank for i in indices)  # type: ignore[attr-defined]
        if axis >= rank:
            return self.extent(x, axis - rank + len(indices))
        for i in indices:
            if i.type.rank == rank and i.type.shape[axis] is None:  # type: ignore[attr-defined]
                return self.extent(i, axis)
        return Sum(0, ((Axis(value, axis), 1),))

    def shape(self, value: Value) -> list[Sum]:
        """The extents of an array or of memory."""
        assert isinstance(value.type, TensorType | PointerType)
        return [self.extent(value, k) for k in range(value.type.rank)]

    def is_not_negative(self, value: Sum) -> bool:
        """Whether a sum is known to be 0 or more."""
        return value.constant >= 0 and all(n > 0 and isinstance(t, Axis | Clipped) for t, n in value.terms)


def _clipped(of: Sum) -> Sum:
    if of.number is not None:
        return Sum(max(of.number, 0))
    if of.constant >= 0 and all(n > 0 and isinstance(t, Axis | Clipped) for t, n in of.terms):
        return of
    return Sum(0, ((Clipped(of), 1),))


def unclipped(value: Sum) -> Sum:
    """The s of max(s, 0), else the sum itself."""
    if not value.constant and len(value.terms) == 1:
        (term, factor) = value.terms[0]
        if isinstance(term, Clipped) and factor == 1:
            return term.of
    return value
