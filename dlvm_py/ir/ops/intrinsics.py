"""`builtin "name"(operands) -> type`: functions that are no ops, by name. A row of the table is all there is to add.

A row has the rule of its type, and its meaning in terms of ops, on Exprs (transforms/expand_builtins.py writes them) or
on NumPy arrays (the interpreter). So derivatives and native code need nothing more. `min` and `max` are also
combiners of a reduction, `reduce %x by builtin "max" ...`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dlvm_py.ir.op import Kind, Op
from dlvm_py.ir.ops.arrange import unitCount
from dlvm_py.ir.ops.elementwise import dataTypeCast, exp, maximum, minimum, subtract
from dlvm_py.ir.ops.reduce import reduce, restore_axes
from dlvm_py.ir.types import TensorType, Type, scalar
from dlvm_py.ir.value import Value


class Intrinsic(NamedTuple):
    """`type_of(operands)`; `build(*Exprs)`, the result as an Expr; `evaluate(*arrays)`."""

    type_of: Callable[[Sequence[Value]], Type]
    build: Callable[..., Any]
    evaluate: Callable[..., Any]


def _one_float(operands: Sequence[Value]) -> TensorType:
    t = operands[0].type if len(operands) == 1 else None
    if not isinstance(t, TensorType) or not t.dtype.is_float:
        raise TypeError("it takes one tensor of floats")
    return t


def _softmax(x: Any) -> Any:
    axes = (x.type.rank - 1,)
    shifted = exp(subtract(x, restore_axes(reduce(x, -np.inf, by="max", axes=axes), x, axes)))
    return shifted / restore_axes(reduce(shifted, 0.0, by="add", axes=axes), x, axes)


def _softmax_value(x: Any) -> Any:
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


def _softmax_type(operands: Sequence[Value]) -> Type:
    t = _one_float(operands)
    if not t.rank:
        raise TypeError("softmax takes a tensor of rank 1 or more")
    return t


def _mean(x: Any) -> Any:
    total = reduce(x, 0.0, by="add", axes=tuple(range(x.type.rank)))
    return total / dataTypeCast(unitCount(x), to=x.type.dtype.name)


INTRINSICS = {
    # along the last axis
    "softmax": Intrinsic(_softmax_type, _softmax, _softmax_value),
    "mean": Intrinsic(lambda operands: scalar(_one_float(operands).dtype), _mean, np.mean),
    "max": Intrinsic(lambda operands: maximum.result_type(operands, {}), lambda x, y: maximum(x, y), np.maximum),
    "min": Intrinsic(lambda operands: minimum.result_type(operands, {}), lambda x, y: minimum(x, y), np.minimum),
}


def _type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    row = INTRINSICS.get(attrs["intrinsic"])
    if row is None:
        raise TypeError(f'there is no builtin "{attrs["intrinsic"]}"; there are {", ".join(INTRINSICS)}')
    found = row.type_of(operands)
    if attrs.get("result", found) != found:
        raise TypeError(f'"{attrs["intrinsic"]}" gives {found}, not {attrs["result"]}')
    return found


builtin = Op(
    "builtin",
    Kind.AGGREGATE,
    _type,
    lambda *xs, intrinsic, result: np.asarray(INTRINSICS[intrinsic].evaluate(*xs), result.dtype.numpy)[()],
    attrs=("intrinsic", "result"),
    no_derivative="expanded before differentiation, by transforms/expand_builtins.py",
)
