"""Derivatives that are called inside compiled code: dlvm.grad(f)(x), or a gradient function of the module.

The function at the root is translated for the arguments of the call, like any callee. The driver, which hands its rule
in (`Session.differentiate`), derives the IR of the derivative from it, and the call is an `apply` of that. It can be
differentiated again with the caller.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from dlvm_py.errors import ArgumentError, TypeMismatch, UnknownFunction, UnsupportedSyntax
from dlvm_py.frontend import objects
from dlvm_py.frontend.arrays import make_array
from dlvm_py.frontend.capture import recipe_of
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.signature import Extents, NotFirstClass, abstract
from dlvm_py.frontend.values import Array, Record, Scalar, Sequence, Static, describe
from dlvm_py.ir import Instruction, Kind, Module, PointerType, TensorType, TupleType, Type, Value
from dlvm_py.ir.analysis.calls import written_params
from dlvm_py.ir.interface import ArraySpec, ConstantSpec, GeneratorSpec, RecordSpec, ScalarSpec, Spec, TupleSpec, leaves

# (module, function, recipe, specs of arguments, of captured arrays, of the result) -> (function, spec of its result)
Differentiate = Callable[[Module, str, Any, tuple[Spec, ...], tuple[Spec, ...], Spec], tuple[str, Spec]]

MAKERS = ("grad", "value_and_grad", "jacobian", "hessian", "hvp")


def is_maker(target: Any) -> bool:
    """Whether a callable is one of dlvm_py's functions that make derivatives."""
    return getattr(target, "__module__", None) == "dlvm_py.api" and getattr(target, "__name__", "") in MAKERS


def make(e: Emitter, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Static:
    """dlvm.grad(f, ...) in compiled code: of a function and of constants, when it is compiled."""
    values = [_constant(e, target, a) for a in args]
    named = {n: _constant(e, target, a) for n, a in kwargs.items()}
    try:
        return Static(target(*values, **named))
    except (ArgumentError, TypeError) as error:
        e.error(TypeMismatch, getattr(error, "reason", str(error)), help=getattr(error, "help", "") or "")


def _constant(e: Emitter, target: Any, value: Any) -> Any:
    match value:
        case Static():
            return value.value
        case Scalar() if value.number is not None:
            return value.number
        case Sequence(is_list=False):
            return tuple(_constant(e, target, i) for i in value.items)
    e.error(
        UnsupportedSyntax,
        f"dlvm.{target.__name__} gets {describe(value)}: inside compiled code it needs a function and constants",
        help="define the function at the top of the module, and pass it what it needs as arguments",
    )


def call(e: Emitter, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The value of a derivative at these arguments."""
    recipe = recipe_of(target)
    signature = recipe.signature()
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        e.error(TypeMismatch, f"{target!r}: {error}")
    values = [_argument(e, bound, p) for p in signature.parameters.values()]
    root, added = recipe, 0
    while hasattr(root, "of"):
        root, added = root.of, added + root.added
    names = list(root.signature().parameters)
    session, extents, given = e.session, Extents(), []
    try:
        trees = [abstract(e, v, extents, given) for v in values]
        inner = tuple(zip(names, trees[: len(names)], strict=True))
        if root.rules_of is None:
            callee = session.whole_callee(e, root.primal, inner)
        else:
            callee = session.own_callee(e, root.rules_of, root.primal, inner)
    except NotFirstClass:
        e.error(
            UnsupportedSyntax,
            f"{target!r} gets a value that cannot be handed to a derivative",
            help="pass numbers, arrays and tuples of them",
        )
    function = callee.function
    if callee.result is None or session.is_running_in(function):
        e.error(UnsupportedSyntax, f"{target!r} is called by the function that it differentiates")
    specs = tuple(spec_of_tree(t) for t in trees)
    captured = tuple(session.specs[k] for k in callee.captured)
    _refuse_sharing(e, target, function.name, given[: sum(len(leaves(s)) for s in specs[: len(names)])])
    results = function.result.elements if isinstance(function.result, TupleType) else (function.result,)
    spec = _result_spec(callee.result, list(results))
    session.attach()
    name, result = session.differentiate(session.module, function.name, recipe, specs, captured, spec)
    made = session.module.functions[name]
    taken = [*given, *(session.captured_leaf(e, k) for k in callee.captured)]
    passed = [_as(e, v, p.type) for v, p in zip(taken, made.params, strict=True)]
    out = e.emit("apply", *passed, callee=name, result=made.result)
    parts: list[Value] = [out]
    if isinstance(made.result, TupleType):
        parts = [e.emit("extract", out, at=k) for k in range(len(made.result.elements))]
    return _value(e, result, parts, _likes(recipe, values))


def _argument(e: Emitter, bound: dict[str, Any], parameter: inspect.Parameter) -> Any:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        value: Any = Sequence(tuple(bound.get(parameter.name, ())))
    elif parameter.name in bound:
        value = bound[parameter.name]
    else:
        value = e.session.lift(e, parameter.default, parameter.name)
    return objects.resolved(e, objects.settle(e, value))


def _refuse_sharing(e: Emitter, target: Any, name: str, given: list[Value]) -> None:
    """A derivative copies each array that its function writes: two names of one memory would come apart."""
    arrays = [(k, root_of(v), v) for k, v in enumerate(given) if isinstance(v.type, PointerType)]
    for k in written_params(e.session.module, name):
        for other, root, v in arrays:
            if k == other or k >= len(given) or v.type.dtype is not given[k].type.dtype:  # type: ignore[attr-defined]
                continue
            mine = root_of(given[k])
            if mine is root or not (is_fresh(mine) or is_fresh(root)):
                e.error(
                    UnsupportedSyntax,
                    f"{target!r} differentiates a function that writes one of its arrays, which may share memory",
                    help="pass a copy: x.copy()",
                )


def root_of(pointer: Value) -> Value:
    """What a pointer is a view of."""
    while isinstance(pointer, Instruction) and pointer.op.kind is Kind.INDEX:
        pointer = pointer.operands[0]
    return pointer


def is_fresh(root: Value) -> bool:
    """Whether it is memory that is allocated here."""
    return isinstance(root, Instruction) and root.op.name == "allocateHeap"


def _as(e: Emitter, value: Value, type: Type) -> Value:
    if value.type == type:
        return value
    return e.emit("pointerCast", value, to=type) if isinstance(type, PointerType) else e.cast(value, type.dtype)  # type: ignore[attr-defined]


# -- specs -----------------------------------------------------------------------------------------------


def spec_of_tree(tree: tuple[Any, ...]) -> Spec:
    """The spec of an argument from its tree (signature.abstract). A number that the callee knows is no leaf."""
    match tree:
        case ("scalar", type_, weak):
            return ScalarSpec(type_.dtype.name, weak)
        case ("generator",):
            return GeneratorSpec()
        case ("array", type_, *_):
            return _array_spec(type_)
        case ("sequence", items, is_list):
            parts = tuple(map(spec_of_tree, items))
            return RecordSpec(list, (), parts) if is_list else TupleSpec(parts)
        case ("record", kind, names, items):
            return RecordSpec(kind, names, tuple(map(spec_of_tree, items)))
    return ConstantSpec(None)


def _array_spec(type: PointerType) -> ArraySpec:
    return ArraySpec(type.dtype.name, tuple(n == 1 for n in type.shape), type.layout)


def _result_spec(tree: Any, types: list[Type]) -> Spec:
    """The spec of a callee's result; consumes the types of its leaves."""
    match tree:
        case ("scalar", weak):
            t = types.pop(0)
            assert isinstance(t, TensorType)
            return ScalarSpec(t.dtype.name, weak)
        case ("array", *_):
            t = types.pop(0)
            assert isinstance(t, PointerType)
            return _array_spec(t)
        case ("sequence", items, is_list):
            parts = tuple(_result_spec(i, types) for i in items)
            return RecordSpec(list, (), parts) if is_list else TupleSpec(parts)
        case ("record", items, (kind, names)):
            return RecordSpec(kind, names, tuple(_result_spec(i, types) for i in items))
    return ConstantSpec(None)


# -- results ---------------------------------------------------------------------------------------------


def _likes(recipe: Any, values: list[Any]) -> Any:
    """The arguments that the parts of the result look like: a derivative has the extents of its argument."""
    if not hasattr(recipe, "keeping"):
        return None
    derivatives = [values[k] for k in recipe.wrt]
    gradients = derivatives[0] if recipe.single else Sequence(tuple(derivatives))
    if recipe.value_first:
        return Sequence((None, gradients, *[None] * len(recipe.keeping)))
    return Sequence((*derivatives, *[None] * len(recipe.keeping))) if recipe.keeping else gradients


def _value(e: Emitter, spec: Spec, parts: list[Value], like: Any) -> Any:
    """The value of a result; consumes its leaves."""
    match spec:
        case ScalarSpec(_, weak):
            return Scalar(parts.pop(0), weak)
        case ArraySpec():
            known = like.extents if isinstance(like, Array) and like.rank == spec.rank else None
            return make_array(e, parts.pop(0), known)
        case TupleSpec(items) | RecordSpec(_, _, items):
            likes = (
                like.items
                if isinstance(like, Sequence | Record) and len(like.items) == len(items)
                else [None] * len(items)
            )
            found = tuple(_value(e, i, parts, x) for i, x in zip(items, likes, strict=True))
            if isinstance(spec, RecordSpec) and spec.kind is not list:
                return objects.new(e, Record(spec.kind, spec.names, found))
            return Sequence(found, isinstance(spec, RecordSpec))
        case ConstantSpec(value):
            return Static(value)
    e.error(UnknownFunction, "a derivative gives a list of computed length here: that is not supported")
    raise AssertionError
