"""Derivatives that are called inside compiled code: dlvm.grad(f)(x), or a gradient function of the module.

The function at the root is translated for the arguments of the call, like any callee. The driver, which hands its rule
in (`Session.differentiate`), derives the IR of the derivative from it, and the call is an `apply` of that. It can be
differentiated again with the caller.

A function that is defined inside the compiled one gets what it reads of its surroundings as more arguments, behind its
own; names are read when the derivative is called, as Python reads them. So derivatives flow through what it captures:

    x * dlvm.grad(lambda y: x + y)(1.0)    →    apply @lambda_grad(1.0, %x), the derivative of @lambda(%y, %x) by %y

dlvm.jvp is a call of the tangent. dlvm.vjp is a call of the function, and its pullback one of the gradient with a seed,
of copies that are made when vjp is called: here the function runs once for each call of the pullback.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from collections.abc import Sequence as Sequence_
from typing import Any, NoReturn

from dlvm_py.errors import ArgumentError, TypeMismatch, UnknownFunction, UnsupportedSyntax
from dlvm_py.frontend import nested, objects
from dlvm_py.frontend.arrays import make_array
from dlvm_py.frontend.capture import recipe_of
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.signature import Extents, NotFirstClass, abstract
from dlvm_py.frontend.values import (
    NONE,
    Array,
    Closure,
    Derivative,
    Method,
    Record,
    Scalar,
    Sequence,
    Static,
    describe,
    is_none,
)
from dlvm_py.ir import Instruction, Kind, Module, PointerType, TensorType, TupleType, Type, Value
from dlvm_py.ir.analysis import AliasAnalysis, written_pointer
from dlvm_py.ir.analysis.calls import written_params
from dlvm_py.ir.interface import ArraySpec, ConstantSpec, GeneratorSpec, RecordSpec, ScalarSpec, Spec, TupleSpec, leaves

# (module, function, recipe, specs of arguments, of captured arrays, of the result) -> (function, spec of its result)
Differentiate = Callable[[Module, str, Any, tuple[Spec, ...], tuple[Spec, ...], Spec], tuple[str, Spec]]

MAKERS = ("grad", "value_and_grad", "jacobian", "hessian", "hvp")


def is_maker(target: Any) -> bool:
    """Whether a callable is one of dlvm_py's functions that make derivatives."""
    return getattr(target, "__module__", None) == "dlvm_py.api" and getattr(target, "__name__", "") in MAKERS


def make(e: Emitter, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Static | Derivative:
    """dlvm.grad(f, ...) in compiled code: of a function and of constants, when it is compiled."""
    named = {n: _constant(e, target, a) for n, a in kwargs.items()}
    if args and isinstance(args[0], Closure | Derivative):
        first, rest = args[0], tuple(_constant(e, target, a) for a in args[1:])
        closure, makers = (first, ()) if isinstance(first, Closure) else (first.closure, first.makers)
        return Derivative(closure, (*makers, (target, rest, named)))
    return _made(e, target, [_constant(e, target, a) for a in args], named)


def _made(e: Emitter, target: Any, values: list[Any], named: dict[str, Any]) -> Static:
    try:
        return Static(target(*values, **named))
    except (ArgumentError, TypeError) as error:
        e.error(TypeMismatch, getattr(error, "reason", str(error)), help=getattr(error, "help", "") or "")


def _own_wrt(e: Emitter, target: Any, args: tuple[Any, ...], named: dict[str, Any], own: Sequence_[str]) -> Any:
    """The constants of a maker, with `wrt` as numbers of the function's own parameters."""
    bound = inspect.signature(target).bind(None, *args, **named)

    def number(wrt: Any) -> Any:
        if isinstance(wrt, str) and wrt in own:
            return own.index(wrt)
        if isinstance(wrt, int) and -len(own) <= wrt < len(own):
            return wrt % len(own)
        e.error(
            TypeMismatch,
            f"wrt={wrt!r}: the function has no such parameter",
            help=f"its parameters are: {', '.join(own)}",
        )

    wrt = bound.arguments.get("wrt", 0)
    bound.arguments["wrt"] = tuple(map(number, wrt)) if isinstance(wrt, tuple) else number(wrt)
    return bound.args[1:], bound.kwargs


def parameters_of(e: Emitter, closure: Closure) -> list[str]:
    """The names of the parameters of a closure that can be differentiated."""
    a = closure.node.args
    if a.vararg is not None or a.kwarg is not None or a.kwonlyargs:
        e.error(
            UnsupportedSyntax,
            f"a derivative of {describe(closure)}: its parameters must be plain ones",
            help="without *, ** and keyword-only parameters",
        )
    return [p.id for p in (*a.posonlyargs, *a.args)]


def call_nested(e: Emitter, derivative: Derivative, own: list[Any], seeds: list[Any]) -> Any:
    """The value of a derivative of a closure at these values of its parameters."""
    closure = derivative.closure
    names = parameters_of(e, closure)
    values: dict[str, Any] = {}
    functions: dict[str, Closure | Derivative] = {}
    nested.collect(e, closure, values, functions)
    settled = [objects.resolved(e, objects.settle(e, v)) for v in values.values()]
    captured = nested.captured_parameters(names, values)
    stand_in = nested.stand_in_of(closure.name, [*names, *captured])
    e.session.nested[stand_in] = nested.Nested(closure, captured, functions)
    f = stand_in
    for target, args, named in derivative.makers:
        args, named = _own_wrt(e, target, args, named, names)
        f = _made(e, target, [f, *args], named).value
    return call(e, f, [*own, *settled, *seeds], {})


# -- jvp and vjp: derivatives that are called where they are made ------------------------------------------


def is_direct(target: Any) -> bool:
    """Whether a callable is dlvm.jvp or dlvm.vjp."""
    return getattr(target, "__module__", None) == "dlvm_py.api" and getattr(target, "__name__", "") in ("jvp", "vjp")


def call_direct(e: Emitter, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """(value, tangent of the value), or (value, pullback)."""
    try:
        bound = inspect.signature(target).bind(*args, **kwargs).arguments
    except TypeError as error:
        e.error(TypeMismatch, f"dlvm.{target.__name__}: {error}")
    return _jvp(e, target, **bound) if target.__name__ == "jvp" else _vjp(e, target, **bound)


def _derived(e: Emitter, target: Any, f: Any, *constants: Any) -> Any:
    """The function that one of dlvm_py's makes of a function of any kind."""
    if isinstance(f, Closure):
        return Derivative(f, ((target.maker, constants, {}),))
    if isinstance(f, Derivative):
        return Derivative(f.closure, (*f.makers, (target.maker, constants, {})))
    return _made(e, target.maker, [_constant(e, target, f), *constants], {})


def _jvp(e: Emitter, target: Any, f: Any, primals: Any, tangents: Any) -> Any:
    given = [objects.resolved(e, objects.settle(e, v)) for v in (primals, tangents)]
    if not all(isinstance(v, Sequence) for v in given) or len(given[0].items) != len(given[1].items):
        e.error(
            TypeMismatch,
            "dlvm.jvp needs a tuple of arguments, and one of as many tangents",
            help="None for an argument that does not move",
        )
    wrt = tuple(k for k, t in enumerate(given[1].items) if not is_none(t))
    moved = [t for t in given[1].items if not is_none(t)]
    return e.session.invoke(e, _derived(e, target, f, wrt), [*given[0].items, *moved], {})


def _vjp(e: Emitter, target: Any, f: Any, args: tuple[Any, ...] = (), wrt: Any = None, from_: Any = None) -> Any:
    if from_ is not None:
        e.error(UnsupportedSyntax, "dlvm.vjp inside compiled code: `from_` is not supported", help="return that output")
    given = [objects.resolved(e, objects.settle(e, a)) for a in args]
    kept = [_copied(e, a) for a in given]
    handed = [_copied(e, a) for a in kept]
    before = set(e.function.instructions())
    value = objects.resolved(e, objects.settle(e, e.session.invoke(e, f, handed, {})))
    _refuse_parted(e, _arrays(given), _arrays(handed), before)
    if is_none(value) or (isinstance(value, Sequence) and value.is_list) or isinstance(value, Record):
        e.error(
            UnsupportedSyntax,
            f"dlvm.vjp inside compiled code of a function that returns {describe(value)}",
            help="return a number, an array, or a tuple of these",
        )
    outputs = tuple(range(len(value.items))) if isinstance(value, Sequence) else 0
    asked = tuple(k for k, a in enumerate(kept) if _has_floats(a)) if wrt is None else _constant(e, target, wrt)
    gradient = _derived(e, target, f, asked, outputs)

    def pullback(e: Emitter, owner: Any, seed: Any) -> Any:
        found = e.session.invoke(e, gradient, [*owner.items, seed], {})
        if wrt is not None:
            return found
        parts = dict(zip(asked, found.items, strict=True))
        return Sequence(tuple(parts.get(k, NONE) for k in range(len(kept))))

    return Sequence((value, Method(Sequence(tuple(kept)), "pullback", pullback)))


def _refuse_parted(e: Emitter, given: list[Array], handed: list[Array], before: set[Instruction]) -> None:
    """Copies of arrays that may share memory are apart: an error where one of them has been written since."""
    alias = AliasAnalysis(e.function)
    written: set[Value] = set()
    for i in e.function.instructions():
        if i in before:
            continue
        pointer = written_pointer(i)
        found = [] if pointer is None else [pointer]
        if i.op.name == "apply":
            found = [i.operands[k] for k in written_params(e.session.module, i.attrs["callee"])]
        written = written.union(*map(alias.roots, found))
    pairs = list(zip(given, handed, strict=True))
    for mine, copy in pairs:
        if alias.roots(copy.pointer) & written:
            for other, _ in pairs:
                if other is not mine and other.dtype is mine.dtype and _may_share(mine.pointer, other.pointer):
                    _error_sharing(e, "dlvm.vjp")


def _arrays(values: Sequence_[Any]) -> list[Array]:
    found: list[Array] = []
    for v in values:
        if isinstance(v, Array):
            found.append(v)
        elif isinstance(v, Sequence | Record):
            found += _arrays(v.items)
    return found


def _copied(e: Emitter, value: Any) -> Any:
    """A value that nothing else refers to."""
    value = objects.resolved(e, objects.settle(e, value))
    match value:
        case Array():
            return objects.settle(e, e.session.invoke(e, Method(value, "copy"), [], {}))
        case Sequence():
            return Sequence(tuple(_copied(e, i) for i in value.items), value.is_list)
        case Record():
            return Record(value.kind, value.names, tuple(_copied(e, i) for i in value.items))
    return value


def _has_floats(value: Any) -> bool:
    if isinstance(value, Sequence | Record):
        return any(map(_has_floats, value.items))
    return isinstance(value, Scalar | Array) and value.dtype.is_inexact


def _constant(e: Emitter, target: Any, value: Any) -> Any:
    match value:
        case Static():
            return value.value
        case Scalar() if value.number is not None:
            return value.number
        case Sequence(is_list=False):
            return tuple(_constant(e, target, i) for i in value.items)
    what = f"dlvm.{target.__name__}" if target is not None else "a derivative"
    e.error(
        UnsupportedSyntax,
        f"{what} gets {describe(value)}: inside compiled code it needs a function and constants",
        help="pass the function what it needs as arguments",
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
    arrays = [(k, v) for k, v in enumerate(given) if isinstance(v.type, PointerType)]
    for k in written_params(e.session.module, name):
        for other, v in arrays:
            if k == other or k >= len(given) or v.type.dtype is not given[k].type.dtype:  # type: ignore[attr-defined]
                continue
            if _may_share(given[k], v):
                _error_sharing(e, f"{target!r}")


def _may_share(a: Value, b: Value) -> bool:
    a, b = root_of(a), root_of(b)
    return a is b or not (is_fresh(a) or is_fresh(b))


def _error_sharing(e: Emitter, what: str) -> NoReturn:
    e.error(
        UnsupportedSyntax,
        f"{what} differentiates a function that writes one of its arrays, which may share memory",
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
