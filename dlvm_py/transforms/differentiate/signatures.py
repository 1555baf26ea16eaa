"""The signatures of derivatives of functions of aggregates: from leaves back to the types that were declared.

    func @f_grad: (f64, f64, cell) -> (f64, f64) {       func @f_grad: ($Pair, $Tree) -> ($Pair) {
    'entry(%p.a: f64, %p.b: f64, %t: cell):              'entry(%p: $Pair, %t: $Tree):
        ...                                         =>       %0.0 = extract #a from %p: $Pair
        return %r: (f64, f64)                                %0.1 = extract #b from %p: $Pair
    }                                                        %0.2 = leaf 0 of %t: $Tree
                                                             ...
                                                             %0.9 = literal {#a = ..., #b = ...}: $Pair

The adjoint pass works on lowered functions (lower_aggregates.py), whose parameters and results are leaves. The
derivative for a struct is a struct of derivatives: what carries none, integers and bools, is zero in it. Parameters
that are variables of the module become the variables again.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.errors import NotDifferentiable
from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import (
    OPS,
    AdjointRequest,
    ArrayType,
    BlockArg,
    Builder,
    EnumType,
    Function,
    FunctionType,
    Literal,
    Module,
    PointerType,
    StructType,
    TensorType,
    TupleType,
    Type,
    Value,
    literal,
)
from dlvm_py.ir.declarations import wrt_of
from dlvm_py.ir.layout import VARIABLES, is_plain, leaves, members, parts
from dlvm_py.ir.types import BoxType
from dlvm_py.transforms.differentiate.config import AdjointConfig, Output


class Plan(Mutable):
    """What the leaves of a primal are asked for."""

    config: AdjointConfig
    flat: FunctionType  # the signature of the derivative, in leaves, with the hidden parameters of the primal
    hidden: tuple[str, ...]
    seeds: list[bool] = field(default_factory=list)  # for each leaf of the seed whether it is a parameter


def carries(t: Type) -> bool:
    """Whether a leaf has a derivative."""
    return isinstance(t, TensorType | PointerType) and t.dtype.is_inexact


def plan(primal: Function, lowered: Function, request: AdjointRequest, signature: FunctionType) -> Plan:
    """The request in terms of leaves. primal: as declared. lowered: its lowered form (arrays still values)."""
    starts = _starts(primal.type.params)
    result = primal.type.result
    elements = result.elements if isinstance(result, TupleType) else (result,)
    at = _starts(elements)
    source = request.source or 0
    wrt = [
        starts[k] + j
        for k in wrt_of(primal, request)
        for j, t in enumerate(leaves(primal.type.params[k]))
        if carries(t)
    ]
    seeded = [carries(t) for t in leaves(elements[source])]
    outputs = [Output("result", at[source] + j) for j, is_float in enumerate(seeded) if is_float]
    keeping = [Output("result", at[k] + j) for k in request.keeping for j in range(len(leaves(elements[k])))]
    config = AdjointConfig(tuple(wrt), tuple(outputs), tuple(keeping), request.seedable)
    hidden = lowered.meta.get(VARIABLES, ())
    assert isinstance(hidden, tuple)
    own = [t for p in primal.type.params for t in leaves(p)]
    extra = [p.type for p in lowered.params[len(own) :]]
    seeds = [t for p in signature.params[len(primal.type.params) :] for t in leaves(p) if carries(t)]
    assert isinstance(signature.result, TupleType)
    count = len(wrt_of(primal, request))
    given = [t for e in signature.result.elements[:count] for t in leaves(e) if carries(t)]
    kept = [t for e in signature.result.elements[count:] for t in leaves(e)]
    flat = FunctionType((*own, *extra, *seeds), TupleType((*given, *kept)))
    return Plan(config, flat, hidden, seeded)


def is_flat(type: FunctionType) -> bool:
    """Whether a signature says what it says in leaves already."""
    assert isinstance(type.result, TupleType)
    return all(map(is_plain, (*type.params, *type.result.elements)))


def refuse_references(functions: list[Function]) -> None:
    """NotDifferentiable where memory or enums keep pointers to floats: where their adjoints are is not known."""
    for f in functions:
        for i in f.instructions():
            for v in (i, *i.operands):
                if _keeps_pointers(v.type):
                    raise NotDifferentiable(
                        f"@{f.name}: a {v.type} keeps pointers to numbers, through which derivatives are not followed",
                        i.loc or f.loc,
                        code="DL611",
                        help="keep the numbers themselves, or their indices in an array",
                    )


def _keeps_pointers(t: Type) -> bool:
    """Whether memory, or a value of an enum, that `t` is made of holds pointers to floats."""
    for part in parts(t):
        match part:
            case PointerType() if not isinstance(part.pointee, TensorType):
                inside: list[Type] = [part.pointee]
            case BoxType():
                inside = [part.element]
            case EnumType():
                inside = [p for held in part.cases.values() for p in held]
            case ArrayType():
                inside = [part.element]
            case _:
                continue
        for p in inside:
            for q in parts(p):
                if isinstance(q, PointerType | BoxType) and any(
                    isinstance(r, TensorType) and r.dtype.is_inexact for r in parts(q)
                ):
                    return True
    return False


def _starts(types: tuple[Type, ...]) -> list[int]:
    """The number of the first leaf of each."""
    found, at = [], 0
    for t in types:
        found.append(at)
        at += len(leaves(t))
    return found


# -- the way back ----------------------------------------------------------------------------------------


def restore(function: Function, module: Module, signature: FunctionType, plan_: Plan, wrt: int) -> None:
    """Give a derivative in leaves the declared signature, whose first `wrt` results are derivatives."""
    old = list(function.params)
    entry = function.entry
    entry.args = []
    b = Builder(function)
    b.block, b.position = entry, 0
    mapping: dict[Value, Value] = {}
    made: set[Value] = set()
    count = len(signature.params) - plan_.config.seedable
    for k, t in enumerate(signature.params):
        wanted = [True] * len(leaves(t)) if k < count else plan_.seeds
        if k == count:
            for name in plan_.hidden:
                variable, _, leaf = name.rpartition(".")
                mapping[old.pop(0)] = b.emit("leaf", module.variables[variable], at=int(leaf))
        mine = [old.pop(0) for needed in wanted if needed]
        if is_plain(t):
            entry.args.append(mine[0])
            continue
        name = mine[0].name.partition(".")[0] if mine else ""
        param = BlockArg(t, entry, name)
        entry.args.append(param)
        for j, needed in enumerate(wanted):
            if needed:
                mapping[mine.pop(0)] = _leaf(b, param, j)
    for name in plan_.hidden if count == len(signature.params) else ():
        variable, _, leaf = name.rpartition(".")
        mapping[old.pop(0)] = b.emit("leaf", module.variables[variable], at=int(leaf))
    assert not old
    made.update(entry.instructions[: b.position])
    for i in function.instructions():
        if i not in made:
            i.substitute(mapping)
    assert isinstance(signature.result, TupleType)
    for i in [i for i in function.instructions() if i.op is OPS["return"]]:
        b.before(i).loc = i.loc
        values = _elements(b, i.operands[0])
        results = [_whole(b, values, t, k < wrt) for k, t in enumerate(signature.result.elements)]
        i.operands = [b.emit("tuple", *results)]
    function.result = signature.result
    function.meta.pop(VARIABLES, None)


def _leaf(b: Builder, param: Value, j: int) -> Value:
    """A leaf of a parameter, by names where it has one."""
    path = _path(param.type, j)
    return b.emit("extract", param, at=path) if path else b.emit("leaf", param, at=j)


def _path(t: Type, j: int) -> tuple[int | str, ...]:
    """The keys to leaf j of nested structs and tuples; none where something else is on the way."""
    if isinstance(t, TupleType | StructType):
        for n, (name, m) in enumerate(members(t)):
            count = len(leaves(m))
            if j < count:
                key: int | str = name if isinstance(t, StructType) else n
                if isinstance(m, TensorType):
                    return (key,)
                rest = _path(m, j)
                return (key, *rest) if rest else ()
            j -= count
    return ()


def _elements(b: Builder, value: Value) -> Iterator[Value]:
    assert isinstance(value.type, TupleType)
    return iter([b.emit("extract", value, at=k) for k in range(len(value.type.elements))])


def _whole(b: Builder, values: Iterator[Value], t: Type, is_derivative: bool) -> Value:
    """A value of the leaves that come next; of a derivative, leaves that carry none are zero."""
    match t:
        case StructType():
            return b.emit("aggregate", *(_whole(b, values, m, is_derivative) for _, m in members(t)), type=t)
        case TupleType():
            return b.emit("tuple", *(_whole(b, values, m, is_derivative) for m in t.elements))
        case EnumType():
            return b.emit("wholeEnum", next(values), type=t)
        case ArrayType() if t.count is not None:
            arrays = [_whole(b, values, leaf, is_derivative) for leaf in leaves(t)]
            rows = []
            for k in range(t.count):
                row = iter([b.emit("extract", a, at=k) for a in arrays])
                rows.append(_whole(b, row, t.element, False))
            return b.emit("aggregate", *rows, type=t)
        case TensorType() if is_derivative and not carries(t):
            zero = Literal(TensorType((), t.dtype), False if t.dtype.kind == "b" else 0)
            return b.emit("broadcast", zero, *(literal(n or 0) for n in t.shape)) if t.shape else zero
    return next(values)
