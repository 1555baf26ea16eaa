"""Several tangents at once (vector mode): a tangent is an array whose last axis has a lane for each direction.

    %y = multiply %x: f64, %c: f64              %y_tan = multiply %x_tan: <8 x f64>, %c: f64
    %v = sin %u: <_ x f64>                 →    %0 = cos %u: <_ x f64>
                                                %1 = padShape %0: <_ x f64> at 1
                                                %v_tan = multiply %u_tan: <_ x 8 x f64>, %1: <_ x 1 x f64>
    %e = elementPointer %a: *<_ x f64> at %k    %e_shadow = elementPointer %a_shadow: *<_ x 8 x f64> at %k

The primal, its control flow and the partials are there once for all lanes. The lanes are the last axis, so that

* those of an element lie side by side: what is done to an element is done to a vector of them;
* an index op, a gather, a sum over axes, which count axes from the front, are the same op with one more axis;
* a product with a matrix is one product with a wider one.

An op whose rule is none of these is applied lane by lane. A number that comes into a block is a variable in memory: its
lanes are stored to it on the edges, and loaded at the start of the block.
Source: Griewank, Walther, "Evaluating Derivatives" (2008), section 3.1, "vector mode".
"""

from __future__ import annotations

from typing import Any

from dlvm_py.errors import InternalError
from dlvm_py.ir import (
    Builder,
    Expr,
    Instruction,
    Kind,
    Literal,
    PointerType,
    StackType,
    TensorType,
    Type,
    Value,
    literal,
    scalar,
)
from dlvm_py.ir.op import LINEAR
from dlvm_py.transforms.differentiate.activity import carries_derivative
from dlvm_py.transforms.differentiate.arguments import extents
from dlvm_py.transforms.differentiate.directions import (
    OF_ANOTHER_SHAPE,
    NoLanes,
    Single,
    by_function,
    tangent_rule,
    total,
)
from dlvm_py.transforms.differentiate.outputs import of_shape
from dlvm_py.transforms.differentiate.rules import scaled
from dlvm_py.transforms.differentiate.shadows import is_whole

# the same op, with the same attributes, on the tangent of its first operand
_SAME = frozenset(("slice", "reverse", "gather", "scatterAdd"))


# multiplications for a row of a tangent, up to which sums of them are faster than a product of matrices
_FEW = 64


def _is_narrow(y: Value) -> bool:
    """Whether a product of a tangent with y is made of sums: with a vector, or a matrix that is known to be small."""
    shape = y.type.shape  # type: ignore[attr-defined]
    return len(shape) == 1 or (None not in shape and shape[0] * shape[1] <= _FEW)


class Lanes(Single):
    """`count` tangents side by side."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._one = Single()

    # -- what stands beside a value ----------------------------------------------------------------------

    def type_of(self, type: Type) -> Type:
        """With one more axis; C-contiguous where the value's memory is, else of any strides."""
        if isinstance(type, TensorType):
            return TensorType((*type.shape, self.count), type.dtype)
        if isinstance(type, PointerType) and isinstance(type.pointee, TensorType):
            return PointerType(self.type_of(type.pointee), "C" if type.layout == "C" else "S")
        if isinstance(type, StackType) and type.element is not None:
            return StackType(self.type_of(type.element))
        raise NoLanes

    def parameter(self, type: Type) -> Type:
        """A pointer of any strides: of a number too, whose lanes are an array."""
        t = self.type_of(type)
        assert isinstance(t, TensorType | PointerType)
        return PointerType(TensorType((*(None for _ in t.shape[:-1]), self.count), t.dtype), "S")

    def zeros(self, b: Builder, like: Value) -> Value:
        """Zeros in all lanes."""
        return self._stretched(b, literal(0.0, scalar(like.type.dtype)), like)  # type: ignore[attr-defined]

    def fitted(self, b: Builder, found: Value, like: Value) -> Value:
        """A tangent with exactly the type of that of `like`."""
        if found.type == self.type_of(like.type):
            return found
        return self._stretched(b, self._aligned(b, found, like.type.rank), like)  # type: ignore[attr-defined]

    def allocate(self, b: Builder, pointer: Value, name: str) -> tuple[Value, Value]:
        """Memory with the extents of `pointer` and the lanes."""
        buffer = b.emit("allocateHeap", *self._extents(b, pointer), name=name, dtype=pointer.type.dtype.name)  # type: ignore[attr-defined]
        return buffer, self._seen_as(b, buffer, self.type_of(pointer.type))

    def variable(self, b: Builder, arg: Value) -> Value | None:
        """Memory for the lanes of a number, so that a loop that carries it allocates nothing."""
        t = arg.type
        if not isinstance(t, TensorType) or t.rank:
            return None
        return b.emit("allocateHeap", literal(self.count), dtype=t.dtype.name)

    def given(self, b: Builder, tangent: Value, root: Value) -> Value:
        """The contents of the shadow of a parameter."""
        lane_free = b.emit("squeezeShape", self._lane_view(b, tangent, 0, 1), at=root.type.rank)  # type: ignore[attr-defined]
        of_shape(b, lane_free, root, OF_ANOTHER_SHAPE)
        n = self._extents(b, root)
        return b.emit("load", b.emit("section", tangent, *[literal(0)] * len(n), *n, *[literal(1)] * len(n)))

    def _extents(self, b: Builder, like: Value) -> list[Value]:
        return [*extents(b, like), literal(self.count)]

    def _stretched(self, b: Builder, value: Value, like: Value) -> Value:
        return b.emit("broadcast", value, *self._extents(b, like))

    def _aligned(self, b: Builder, tangent: Value, rank: int) -> Value:
        """The tangent of an operand for a result of `rank` axes: of a number, it is stretched along all of them."""
        if tangent.type.rank == 1:  # type: ignore[attr-defined]
            for _ in range(rank):
                tangent = b.emit("padShape", tangent, at=0)
        return tangent

    def _beside(self, b: Builder, value: Value) -> Value:
        """A primal value as an operand beside tangents; a number that was stretched stands for itself."""
        if isinstance(value, Instruction) and value.op.name == "broadcast" and not value.operands[0].type.rank:  # type: ignore[attr-defined]
            return value.operands[0]
        rank = value.type.rank  # type: ignore[attr-defined]
        return b.emit("padShape", value, at=rank) if rank else value

    def _seen_as(self, b: Builder, pointer: Value, type: Type) -> Value:
        if pointer.type == type:
            return pointer
        if type.layout not in (pointer.type.layout, "S"):  # type: ignore[attr-defined]
            raise NoLanes  # contiguous without the lanes only
        return b.emit("pointerCast", pointer, to=type)

    def _lane_view(self, b: Builder, pointer: Value, lane: int, count: int) -> Value:
        n = extents(b, pointer)
        starts = [*[literal(0)] * (len(n) - 1), literal(lane)]
        return b.emit("section", pointer, *starts, *n[:-1], literal(count), *[literal(1)] * len(n))

    # -- index ops ---------------------------------------------------------------------------------------

    def view(self, b: Builder, view: Instruction, base: Value) -> Value:
        """The index op on the shadow, or the tangent, of its base: the lanes are taken whole."""
        found = self._indexed(b, view, base)
        return self._seen_as(b, found, self.type_of(view.type)) if isinstance(view.type, PointerType) else found

    def _indexed(self, b: Builder, view: Instruction, base: Value) -> Value:
        of, *operands = view.operands
        rank, name = of.type.rank, view.op.name  # type: ignore[attr-defined]
        lanes, zero, one = literal(self.count), literal(0), literal(1)
        match name:
            case "transpose":
                axes = view.attrs.get("axes")
                axes = tuple(range(rank))[::-1] if axes is None else tuple(axes)
                return b.emit("transpose", base, axes=(*axes, rank))
            case "section":
                starts, counts, steps = (operands[k * rank : (k + 1) * rank] for k in range(3))
                if isinstance(of.type, PointerType):
                    counts = [b.emit("extent", base, at=k) if is_whole(view, k) else n for k, n in enumerate(counts)]
                return b.emit("section", base, *starts, zero, *counts, lanes, *steps, one)
            case "windows":
                size, count, step, spread = (operands[k * rank : (k + 1) * rank] for k in range(4))
                found = b.emit("windows", base, *size, one, *count, lanes, *step, one, *spread, one)
                return b.emit("squeezeShape", found, at=rank)
            case "shapeCast":
                if isinstance(base.type, PointerType) and base.type.layout != "C":
                    raise NoLanes
                return b.emit("shapeCast", base, *operands, lanes)
            case "pointerCast":
                return base
            case "diagonal":  # of the last two axes
                ahead = tuple(range(rank - 2))
                base = b.emit("transpose", base, axes=(*ahead, rank, rank - 2, rank - 1))
                found = b.emit("diagonal", base, *operands)
                return b.emit("transpose", found, axes=(*ahead, rank - 1, rank - 2))
            case "elementPointer" if not view.attrs.get("path"):
                return b.emit("elementPointer", base, *operands)
            case "padShape" | "squeezeShape" | "partView":
                return b.emit(view.op, base, **view.attrs)
        raise NoLanes

    # -- rules -------------------------------------------------------------------------------------------

    def by_rule(self, b: Builder, i: Instruction, tangents: list[Value | None]) -> Value | None:
        """The tangent of `i` from those of its operands (None: zero). Raises: as in `Single`."""
        if i.op.kind is Kind.ELEMENTWISE:
            return self._elementwise(b, i, tangents)
        found = self._structural(b, i, tangents)
        return self._lane_by_lane(b, i, tangents) if found is None else found

    def _elementwise(self, b: Builder, i: Instruction, tangents: list[Value | None]) -> Value | None:
        row, rank = i.op, i.type.rank  # type: ignore[attr-defined]
        aligned = [None if t is None else self._aligned(b, t, rank) for t in tangents]
        if row.partials is not None:
            partials = row.partials(b.expr(i), *(b.expr(o) for o in i.operands))
            products = [
                scaled(b.expr(t), self._partial(b, p), row.singular)
                for t, p in zip(aligned, partials, strict=True)
                if t is not None
            ]
            return total(b, [p for p in products if p is not None])
        if row.tangent == LINEAR:
            replaced = [
                (self._aligned(b, self.zeros(b, o), rank) if t is None else t)
                if carries_derivative(o)
                else self._beside(b, o)
                for o, t in zip(i.operands, aligned, strict=True)
            ]
            return b.emit(row, *replaced, **i.attrs)
        rule, y = tangent_rule(i), b.expr(self._beside(b, i))
        operands = [b.expr(self._beside(b, o)) for o in i.operands]
        moved = [None if t is None else b.expr(t) for t in aligned]
        return by_function(i, lambda: rule(moved, y, *operands, **i.attrs))

    def _partial(self, b: Builder, partial: Any) -> Any:
        """A local partial as a factor of a tangent."""
        if not isinstance(partial, Expr):
            return partial
        found = self._beside(b, partial.value)
        return found.value if isinstance(found, Literal) else b.expr(found)

    def _structural(self, b: Builder, i: Instruction, tangents: list[Value | None]) -> Value | None:
        """The tangent by the same op on arrays with one more axis; None where that is not how it moves."""
        row, rank = i.op, i.type.rank  # type: ignore[attr-defined]
        t, *others = tangents
        if row.name == "concatenate":
            parts = [self.zeros(b, o) if t is None else t for o, t in zip(i.operands, tangents, strict=True)]
            return b.emit(row, *parts, **i.attrs)
        if row.name == "dot":
            return self._dot(b, i, tangents)
        if t is None or any(other is not None for other in others):
            return None
        operands = i.operands[1:]
        if row.name in _SAME:
            return b.emit(row, t, *operands, **i.attrs)
        if row.name in ("broadcast", "unbroadcast"):
            return b.emit(row, self._aligned(b, t, rank), *operands, literal(self.count))
        if row.name == "embed":
            fill, n, starts, steps = operands[0], *(operands[1 + k * rank : 1 + (k + 1) * rank] for k in range(3))
            zero = literal(0.0, fill.type)
            ends = literal(self.count), literal(0), literal(1)
            parts = [v for some, end in zip((n, starts, steps), ends, strict=True) for v in (*some, end)]
            return b.emit(row, t, zero, *parts)
        if row.name == "reduce" and i.attrs["by"] == "add":
            return b.emit(row, t, literal(0.0, operands[0].type), **i.attrs)
        if row.kind is Kind.INDEX:
            return self._indexed(b, i, t)
        return None

    def _dot(self, b: Builder, i: Instruction, tangents: list[Value | None]) -> Value | None:
        x, y = i.operands
        of_x, of_y = tangents
        if x.type.rank > 2:  # type: ignore[attr-defined]
            return None
        parts = []
        if of_y is not None:
            parts.append(self._times(b, x, of_y))
        if of_x is not None and x.type.rank == 2 and _is_narrow(y):  # type: ignore[attr-defined]
            parts.append(self._sum_product(b, of_x, y))
        elif of_x is not None:
            # (x y)ᵀ = yᵀ xᵀ
            matrix = y.type.rank == 2  # type: ignore[attr-defined]
            left = b.emit("transpose", y) if matrix else y
            turned = x.type.rank == 2  # type: ignore[attr-defined]
            right = b.emit("transpose", of_x, axes=(1, 0, 2)) if turned else of_x
            found = self._times(b, left, right)
            parts.append(b.emit("transpose", found, axes=(1, 0, 2)) if matrix and turned else found)
        return total(b, parts)

    def _sum_product(self, b: Builder, lanes: Value, y: Value) -> Value:
        """The product of the tangent of a matrix with a vector or a small matrix: sums over rows, all lanes at once.

        What `dot` asks for are two transposes of the tangent, which take longer than so few multiplications.
        """
        zero = literal(0.0, scalar(y.type.dtype))  # type: ignore[attr-defined]
        if y.type.rank == 2:  # type: ignore[attr-defined]
            lanes, y = b.emit("padShape", lanes, at=2), b.emit("padShape", y, at=2)  # rows, inner, columns, lanes
        else:
            y = b.emit("padShape", y, at=1)
        terms = b.emit("multiply", lanes, b.emit("padShape", y, at=0))
        return b.emit("reduce", terms, zero, by="add", axes=(1,))

    def _times(self, b: Builder, x: Value, lanes: Value) -> Value:
        """The product of x, a matrix or a vector, with the tangent of another one: all of its columns at once."""
        n = extents(b, lanes)
        if len(n) == 2:
            return b.emit("dot", x, lanes)
        wide = b.emit("shapeCast", lanes, n[0], b.emit("multiply", n[1], n[2]))
        ahead = extents(b, x)[:-1]
        return b.emit("shapeCast", b.emit("dot", x, wide), *ahead, *n[1:])

    def _lane_by_lane(self, b: Builder, i: Instruction, tangents: list[Value | None]) -> Value:
        rank = i.type.rank  # type: ignore[attr-defined]
        parts = []
        for lane in range(self.count):
            found = self._one.by_rule(b, i, [None if t is None else self._lane(b, t, lane) for t in tangents])
            if found is None:
                raise InternalError(f"{i.op.name} has a tangent in no lane")
            parts.append(b.emit("padShape", self._one.fitted(b, found, i), at=rank))
        return b.emit("concatenate", *parts, at=rank)

    def _lane(self, b: Builder, tangent: Value, lane: int) -> Value:
        rank = tangent.type.rank - 1  # type: ignore[attr-defined]
        part = self._lane_view(b, tangent, lane, 1)
        if rank:
            return b.emit("squeezeShape", part, at=rank)
        return b.emit("reduce", part, literal(0.0, scalar(tangent.type.dtype)), by="add", axes=(0,))  # type: ignore[attr-defined]
