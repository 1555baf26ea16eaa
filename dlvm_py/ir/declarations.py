"""What an `[adjoint]` declaration asks for: the type rule of derivatives. Source: DLVM_IR.md, section 4.1.

Of f: (A0, ..., An) -> R the derivative is (A0, ..., An [, seed]) -> (A_wrt..., kept...): always a tuple, the
derivatives first, then the kept elements of the result. The seed, of the type of what is differentiated, is the last
parameter. If R is a tuple, `from i` says which element is meant.
"""

from __future__ import annotations

from dlvm_py.ir.function import AdjointRequest, Function
from dlvm_py.ir.layout import is_plain, parts
from dlvm_py.ir.types import (
    ArrayType,
    EnumType,
    FunctionType,
    PointerType,
    StructType,
    TensorType,
    TupleType,
    Type,
)


def adjoint_signature(primal: Function, request: AdjointRequest) -> FunctionType:
    """The type of the requested derivative; TypeError where the request does not fit the primal."""
    params, result = primal.type.params, primal.type.result
    if isinstance(result, TupleType):
        if request.source is None:
            raise TypeError(f"@{primal.name} gives a tuple, {result}: say which element, with 'from'")
        elements = result.elements
    else:
        if request.source is not None:
            raise TypeError(f"@{primal.name} gives {result}, no tuple: 'from' has no meaning")
        elements = (result,)
    source = _at(elements, request.source or 0, f"element of the result of @{primal.name}")
    _differentiable(source, f"the result of @{primal.name}")
    if len(set(request.keeping)) != len(request.keeping):
        raise TypeError("'keeping' names an element twice")
    kept = [_at(elements, k, f"element of the result of @{primal.name}") for k in request.keeping]
    derivatives = []
    for k in wrt_of(primal, request):
        t = _at(params, k, f"parameter of @{primal.name}")
        _differentiable(t, f"parameter {k} of @{primal.name}")
        derivatives.append(PointerType(t.pointee) if isinstance(t, PointerType) else t)
    seeds = (_seed(source),) if request.seedable else ()
    return FunctionType((*params, *seeds), TupleType((*derivatives, *kept)))


def wrt_of(primal: Function, request: AdjointRequest) -> tuple[int, ...]:
    """The parameters that are differentiated for."""
    return tuple(range(len(primal.type.params))) if request.wrt is None else request.wrt


def _at(types: tuple[Type, ...], k: int, what: str) -> Type:
    if not 0 <= k < len(types):
        raise TypeError(f"there is no {what} with the number {k}: there are {len(types)}")
    return types[k]


def _differentiable(t: Type, what: str) -> None:
    """TypeError for what has no derivative: bools, enums, and aggregates of nothing but such, or with pointers."""
    if is_plain(t):
        if not isinstance(t, TensorType | PointerType) or t.dtype.kind == "b":
            raise TypeError(f"{what} is {t}, which has no derivative")
        return
    for part in parts(t):
        if isinstance(part, EnumType):
            raise TypeError(f"{what} is {t}: an enum has no derivative; leave it out of 'wrt'")
        if not isinstance(part, TensorType | TupleType | StructType | ArrayType):
            raise TypeError(f"{what} is {t}, which has no derivative")
    if not any(isinstance(part, TensorType) and part.dtype.is_inexact for part in parts(t)):
        raise TypeError(f"{what} is {t}, which has no derivative")


def _seed(t: Type) -> Type:
    return PointerType(t.pointee, "S" if t.rank else "C") if isinstance(t, PointerType) else t
