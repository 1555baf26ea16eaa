"""How a call looks from Python: specs of arguments and results, as plain data with a JSON form.

A *spec* is the part of an argument that a compiled version is specialised on. Leaves (scalars and
arrays) become IR parameters in order; tuples are flattened; constants become no parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlvm_py.ir.types import DTYPES, DType, PointerType, TensorType, Type, scalar


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A scalar: `weak` for Python's bool/int/float, else a NumPy scalar of that dtype."""

    dtype: str
    weak: bool

    def ir_type(self) -> Type:
        """The IR parameter type."""
        return scalar(DTYPES[self.dtype])


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An ndarray: dtype, layout ("C", "F", "S") and, an axis, whether its extent is 1.

    As an argument, an axis that is not `ones` has an extent that is not 1 (but may be 0).
    As a result, `ones` says nothing.
    """

    dtype: str
    ones: tuple[bool, ...]
    layout: str = "C"

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.ones)

    def ir_type(self) -> Type:
        """The IR parameter type: a pointer to a strided tensor."""
        shape = tuple(1 if one else None for one in self.ones)
        return PointerType(TensorType(shape, DTYPES[self.dtype]), self.layout)


@dataclass(frozen=True, slots=True)
class TupleSpec:
    """A tuple of specs."""

    items: tuple[Spec, ...]


@dataclass(frozen=True, slots=True)
class ConstantSpec:
    """A compile-time constant that is no number: None, a string, a function, a dtype.

    `value` is the object itself; it is compared by identity, then by ==. In JSON only its repr stands.
    """

    value: Any


Spec = ScalarSpec | ArraySpec | TupleSpec | ConstantSpec


def leaves(spec: Spec) -> list[ScalarSpec | ArraySpec]:
    """The scalars and arrays of a spec, left to right: one IR value each."""
    if isinstance(spec, TupleSpec):
        return [leaf for item in spec.items for leaf in leaves(item)]
    return [] if isinstance(spec, ConstantSpec) else [spec]


def to_json(spec: Spec) -> Any:
    """A JSON value of a spec. Only the constant None survives the round trip."""
    match spec:
        case ScalarSpec(dtype, weak):
            return ["scalar", dtype, weak]
        case ArraySpec(dtype, ones, layout):
            return ["array", dtype, list(ones), layout]
        case TupleSpec(items):
            return ["tuple", [to_json(i) for i in items]]
        case ConstantSpec(value):
            return ["constant", repr(value)]
    raise TypeError(f"no spec: {spec!r}")


def from_json(data: Any) -> Spec:
    """The spec of a JSON value (results of functions: constants other than None are refused)."""
    match data:
        case ["scalar", dtype, weak]:
            return ScalarSpec(dtype, weak)
        case ["array", dtype, ones, layout]:
            return ArraySpec(dtype, tuple(ones), layout)
        case ["tuple", items]:
            return TupleSpec(tuple(from_json(i) for i in items))
        case ["constant", "None"]:
            return ConstantSpec(None)
    raise ValueError(f"no spec: {data!r}")


def dtype_of_leaf(spec: ScalarSpec | ArraySpec) -> DType:
    """The element type of a leaf."""
    return DTYPES[spec.dtype]
