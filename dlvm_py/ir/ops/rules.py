"""Type rules shared by the op families, and what derivative rules may ask of their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dlvm_py.ir.types import BOOL, DType, PointerType, TensorType, Type
from dlvm_py.ir.value import Literal, Value

NUMERIC, FLOATING, BOOLEAN, INTEGRAL, ANY = "iufc", "fc", "b", "iu", "biufc"


def tensor(value: Value, what: str = "operand") -> TensorType:
    """The tensor type of a value; TypeError for anything else."""
    if not isinstance(value.type, TensorType):
        raise TypeError(f"{what} must be a tensor, not {value.type}")
    return value.type


def pointer(value: Value, what: str = "operand") -> PointerType:
    """The pointer type of a value; TypeError for anything else."""
    if not isinstance(value.type, PointerType):
        raise TypeError(f"{what} must be a pointer, not {value.type}")
    return value.type


def broadcast_shapes(shapes: Sequence[tuple[int | None, ...]]) -> tuple[int | None, ...]:
    """DLVM's broadcast: a scalar fits all; else equal ranks, and on each axis equal extents or a static 1.

    An unknown extent equals its partner at run time (the builder of the IR has checked it).
    """
    result: tuple[int | None, ...] = ()
    for shape in shapes:
        if not shape:
            continue
        if not result:
            result = shape
            continue
        if len(shape) != len(result):
            raise TypeError(f"ranks differ: {len(result)} and {len(shape)}")
        merged: list[int | None] = []
        for a, b in zip(result, shape, strict=True):
            if a == 1:
                merged.append(b)
            elif b == 1 or b is None or a == b:
                merged.append(a)
            elif a is None:
                merged.append(b)
            else:
                raise TypeError(f"extents {a} and {b} do not broadcast")
        result = tuple(merged)
    return result


def elementwise_type(kinds: str, result: DType | None = None) -> Callable[..., Type]:
    """Rule: all operands of one dtype with a kind in `kinds`; broadcast shape; dtype `result` or theirs."""

    def rule(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
        types = [tensor(v) for v in operands]
        dtype = types[0].dtype
        for t in types:
            if t.dtype is not dtype:
                raise TypeError(f"dtypes differ: {dtype} and {t.dtype}")
        if dtype.kind not in kinds:
            raise TypeError(f"not defined for dtype {dtype}")
        return TensorType(broadcast_shapes([t.shape for t in types]), result or dtype)

    return rule


def static_extent(value: Value) -> int | None:
    """The extent that an i64 operand states: the number of a literal, None for a computed value and for no extent."""
    number = value.value if isinstance(value, Literal) else None
    return int(number) if isinstance(number, int) and number >= 0 else None


def is_constant(x: object) -> bool:
    """Whether a rule's operand is a compile-time constant of the program text."""
    return isinstance(getattr(x, "value", None), Literal)


def boolean(shape: tuple[int | None, ...]) -> TensorType:
    """A bool tensor of `shape`."""
    return TensorType(shape, BOOL)


def check_number(word: str, attrs: dict[str, Any], least: int, what: str) -> None:
    """That a number of a schedule, where there is one, is one."""
    if attrs.get(word, least) < least:
        raise TypeError(f"{word} {attrs[word]}: at least {least} {what}")
