"""Calls: functions with a rule, methods of arrays, plain Python functions, nested functions."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from types import BuiltinFunctionType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dlvm_py.errors import TypeMismatch, UnknownFunction, UnsupportedSyntax
from dlvm_py.frontend import derivatives, generators, nested, overloads, own_rules, records, sets, tables, vectorize
from dlvm_py.frontend.arrays import materialise
from dlvm_py.frontend.capture import is_ours, is_record_class, plain_function, rules_of
from dlvm_py.frontend.elementwise import operand
from dlvm_py.frontend.emit import Emitter, Unreachable, i64
from dlvm_py.frontend.exceptions import is_caught_here
from dlvm_py.frontend.folds import FOLDS
from dlvm_py.frontend.growing import as_array
from dlvm_py.frontend.instead import advice, is_cached
from dlvm_py.frontend.library import heaps, operator_functions
from dlvm_py.frontend.library_calls import is_library, library_table
from dlvm_py.frontend.mixed import apart
from dlvm_py.frontend.numpy_create import array
from dlvm_py.frontend.numpy_signature import as_numpy_binds, refuse_argument
from dlvm_py.frontend.objects import resolved
from dlvm_py.frontend.partial import partial
from dlvm_py.frontend.python_itertools import ITERTOOLS
from dlvm_py.frontend.signature import NotFirstClass
from dlvm_py.frontend.table import (
    ARRAY_LIKE,
    STATIC_CALLS,
    Handler,
    array_method,
    calls_method,
    is_numpy,
    lookup,
    name_of,
    numpy_help,
    numpys,
    takes_arrays,
)
from dlvm_py.frontend.texts import escaped
from dlvm_py.frontend.undecided import opened
from dlvm_py.frontend.value_types import ArrayType
from dlvm_py.frontend.values import (
    Array,
    Closure,
    Derivative,
    Growing,
    Method,
    Mixed,
    Object,
    Record,
    Scalar,
    Sequence,
    Static,
    Temp,
    Undecided,
    describe,
)
from dlvm_py.frozen import replace as with_fields
from dlvm_py.ir.interface import is_of_random
from dlvm_py.parameters import signature_of

OBJECT_FUNCTIONS: dict[Any, Handler] = {
    dict: tables.dict_, dataclasses.replace: records.replace, functools.partial: partial, set: sets.collected,
    **FOLDS, **ITERTOOLS, **generators.NEXT, **library_table(heaps.FUNCTIONS),
    **library_table(operator_functions.FUNCTIONS),
}  # fmt: skip
_SPECIAL = {abs: "__abs__", len: "__len__", float: "__float__", int: "__int__", bool: "__bool__"}
# our own modules above the front end whose functions are compiled with the user's
_IN_THE_LANGUAGE = ("dlvm_py.implicit", "dlvm_py.krylov")


def invoke(e: Emitter, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The value of function(*args, **kwargs)."""
    if not _is_translated(function):
        if any(isinstance(v, Undecided) for v in (*args, *kwargs.values())):
            args = [opened(e, function, v) for v in args]
            kwargs = {n: opened(e, function, v) for n, v in kwargs.items()}
        if any(isinstance(v, Mixed) for v in (*args, *kwargs.values())):
            return _of_each_type(e, function, args, kwargs)
        kwargs = tables.keyed(e, args, kwargs)
        args = [tables.argument(e, function, v) for v in args]
    match function:
        case Method():
            return _method(e, function, args, kwargs)
        case Closure():
            return _closure(e, function, args, kwargs)
        case Derivative():
            count = len(derivatives.parameters_of(e, function.closure))
            own = _bind_closure(e, function.closure, args[:count], kwargs)
            return derivatives.call_nested(e, function, list(own.values()), args[count:])
        case Static():
            return _known(e, function.value, args, kwargs)
    found = overloads.method(e, function, "__call__")
    if found is None:
        e.error(TypeMismatch, f"{describe(resolved(e, function))} is not callable")
    return invoke(e, Static(found), [function, *args], kwargs)


def _method(e: Emitter, function: Method, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The value of owner.name(*args, **kwargs)."""
    if isinstance(function.rule, FunctionType) and is_users(function.rule):
        return invoke(e, Static(function.rule), [function.owner, *args], kwargs)
    if function.rule is not None:
        return _bound_call(e, function.rule, f".{function.name}", [function.owner, *args], kwargs)
    if isinstance(function.owner, Static):
        return _text_method(e, function, args, kwargs)
    rule = array_method(function.name)
    assert rule is not None
    found = _handled(e, rule, f".{function.name}", [function.owner, *args], kwargs, arrays=True,
                     function=getattr(np.ndarray, function.name))  # fmt: skip
    return _of_number(e, function.owner, found)


def _closure(e: Emitter, function: Closure, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The value of a call of a nested function or a lambda."""
    own = _bind_closure(e, function, args, kwargs)
    if generators.is_generator(function):
        source = with_fields(function.frame.source, node=function.node)
        return generators.call(e, function.name, source, function.frame.function, function.frame, own)
    if not is_caught_here(e) and nested.calls_itself(function):
        for way in (nested.call, e.session.call_with_closures):
            try:
                return way(e, function, own)
            except NotFirstClass:  # in place, then, which ends where it calls itself
                pass
    return e.session.inline(e, function, own)


def _known(e: Emitter, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The value of target(*args, **kwargs), of a function or a class that is known when this is compiled."""
    special = _SPECIAL.get(target) if isinstance(target, type | BuiltinFunctionType) and len(args) == 1 else None
    if special is not None and isinstance(args[0], Object | Record):
        found = overloads.called(e, args[0], special)
        if found is not None:
            return found
    is_known = isinstance(target, type | FunctionType | BuiltinFunctionType) or is_numpy(target)
    rule = OBJECT_FUNCTIONS.get(target) if is_known else None
    if rule is not None:
        return _bound_call(e, rule, name_of(target), args, kwargs)
    if target is np.vectorize:
        return _bound_call(e, vectorize.made, "np.vectorize", args, kwargs)
    if isinstance(target, np.vectorize):
        return invoke(e, vectorize.of_object(e, target), args, kwargs)
    if is_record_class(target):
        return records.construct(e, target, args, kwargs)
    first = resolved(e, args[0]) if args and (target is np.stack or target is np.vstack) else None
    if isinstance(first, Growing) and isinstance(first.item, ArrayType) and len(args) == 1 and not kwargs:
        return as_array(e, first)  # its rows are stacked already
    handler = lookup(target)
    if handler is not None:
        found = _handled(e, handler, name_of(target), args, kwargs, takes_arrays(target), function=numpys(target))
        return _of_number(e, args[0], found) if args and calls_method(target) else found
    if is_library(target):
        return e.session.library(e, target, args, kwargs)
    if any(target is known for known in STATIC_CALLS):
        return _static_call(e, target, args, kwargs)
    if is_of_random(getattr(target, "__self__", None), "RandomState"):
        e.error(
            UnknownFunction,
            f"np.random.{target.__name__} draws from the one hidden stream of the process, which is not supported",
            help="pass a generator as an argument: rng = np.random.default_rng(seed)",
        )
    if is_numpy(target):
        e.error(UnknownFunction, f"{name_of(target)} is not supported", help=numpy_help(target))
    if rules_of(target) is not None:
        return own_rules.call(e, target, bind_function(e, plain_function(target), args, kwargs))
    if is_ours(target) and plain_function(target) is None:
        return derivatives.call(e, target, args, kwargs)
    if own_rules.is_stop(target):
        return own_rules.stop(e, *args, **kwargs)
    if derivatives.is_maker(target):
        return derivatives.make(e, target, args, kwargs)
    if derivatives.is_direct(target):
        return derivatives.call_direct(e, target, args, kwargs)
    module = getattr(target, "__module__", None) or ""
    if module.partition(".")[0] == "dlvm_py" and module not in _IN_THE_LANGUAGE and not is_ours(target):
        e.error(
            UnknownFunction,
            f"dlvm_py's own {name_of(target)} cannot be called in compiled code",
            help="call it outside of the compiled function",
        )
    instead = advice(target)
    if instead is not None:
        name = f"{name_of(target)}, which functools caches," if is_cached(target) else name_of(target)
        e.error(UnknownFunction, f"{name} is not supported in compiled code", help=f"write {instead}")
    plain = plain_function(target)
    if plain is not None and generators.is_generator(plain):
        return e.session.generator(e, plain, bind_function(e, plain, args, kwargs))
    if plain is not None:
        return e.session.call(e, plain, bind_function(e, plain, args, kwargs))
    e.error(
        UnknownFunction,
        f"{name_of(target)} is not supported in compiled code",
        help="call it outside, or write it as a plain Python function of numbers and arrays",
    )


def _of_each_type(e: Emitter, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call with numbers that have one of several types, of which the function is to see one."""
    names, count = list(kwargs), len(args)

    def called(*values: Any) -> Any:
        return invoke(e, function, list(values[:count]), dict(zip(names, values[count:], strict=True)))

    return apart(e, called, *args, *kwargs.values())


def _of_number(e: Emitter, owner: Any, found: Any) -> Any:
    """What a method gives: of one of NumPy's numbers a number, where that of an array has no axes."""
    is_number = isinstance(owner, Scalar) and not owner.weak and not e.is_library
    return operand(e, found, "a number") if is_number and isinstance(found, (Array, Temp)) and not found.rank else found


def _is_translated(function: Any) -> bool:
    """Whether a function is the user's, so that its body says what is done with the arguments."""
    if isinstance(function, Closure):
        return True
    if isinstance(function, Method):
        return isinstance(function.rule, FunctionType) and is_users(function.rule)
    target = function.value if isinstance(function, Static) else None
    return isinstance(target, FunctionType) and not is_numpy(target) and lookup(target) is None


def _text_method(e: Emitter, method: Method, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method of a string that is known, on arguments that are known: called now."""
    known = [_constant_of(e, a) for a in args]
    if kwargs or None in known:
        e.error(UnsupportedSyntax, f"the arguments of `{method.name}` must be constant strings or numbers")
    try:
        found = getattr(method.owner.value, method.name)(*(k[0] for k in known if k is not None))
    except ValueError as error:
        e.emit("raise", exception="ValueError", message=escaped(str(error)))
        raise Unreachable from None
    return e.session.lift(e, found, method.name)


def _constant_of(e: Emitter, value: Any) -> tuple[Any] | None:
    """A one-tuple of the constant that an argument is: a string, a number, a tuple of these; None for others."""
    value = resolved(e, value)
    if isinstance(value, Static):
        return (value.value,)
    if isinstance(value, Scalar):
        return None if value.number is None else (value.number,)
    if isinstance(value, Sequence) and not value.is_list:
        parts = [_constant_of(e, i) for i in value.items]
        return None if None in parts else (tuple(p[0] for p in parts if p is not None),)
    return None


def is_users(function: Any) -> bool:
    """Whether a rule is the user's own function: a method of a dataclass or named tuple."""
    return not function.__module__.startswith("dlvm_py.frontend")


def _handled(
    e: Emitter, handler: Handler, name: str, args: list[Any], kwargs: dict[str, Any], arrays: bool = False,
    function: Any = None,
) -> Any:  # fmt: skip
    """A rule that only reads: lists and dicts as what they hold, growing ones as arrays where NumPy takes them.

    arrays: lists and tuples are arrays too, where the rule means an array. function: NumPy's that the rule implements.
    """

    def read(value: Any) -> Any:
        value = resolved(e, value)
        return as_array(e, value) if "." in name and isinstance(value, Growing) else value

    args, kwargs = [read(a) for a in args], {n: read(v) for n, v in kwargs.items()}
    if function is not None:
        args, kwargs = as_numpy_binds(e, function, _signature(handler), name, args, kwargs)
    bound = _bind(e, handler, name, args, kwargs)
    if arrays:
        for parameter, value in bound.arguments.items():
            if parameter in ARRAY_LIKE and isinstance(value, Sequence):
                bound.arguments[parameter] = array(e, value)
            elif parameter in ("args", "operands") and name.startswith("np."):  # of a ufunc, of einsum
                bound.arguments[parameter] = tuple(array(e, v) if isinstance(v, Sequence) else v for v in value)
        rank = _rank_for_axis(name, bound)
        if rank is not None:
            return _over_axes(e, handler, bound, rank)
    return handler(*bound.args, **bound.kwargs)


def _rank_for_axis(name: str, bound: inspect.BoundArguments) -> int | None:
    """How many axes there are to choose from, if which one is meant is a number that is not known now; else None."""
    axis = bound.arguments.get("axis")
    if not isinstance(axis, Scalar) or axis.number is not None or not axis.dtype.is_integer:
        return None
    values = [i for v in bound.arguments.values() for i in (v.items if isinstance(v, Sequence) else (v,))]
    rank = next((v.rank for v in values if isinstance(v, (Array, Temp)) and v.rank), None)
    return rank + 1 if rank and name in ("np.expand_dims", "np.stack") else rank


def _over_axes(e: Emitter, handler: Handler, bound: inspect.BoundArguments, rank: int) -> Any:
    """A call whose axis is computed: a branch for each axis, with that one as a constant."""
    for name, value in bound.arguments.items():
        bound.arguments[name] = materialise(e, value) if isinstance(value, Temp) else value
    given = e.whole(bound.arguments["axis"].value)
    fine = e.both(e.compare("lessThanOrEqual", i64(-rank), given), e.compare("lessThan", given, i64(rank)))
    e.check(fine, "AxisError", f"axis {{}} is out of bounds for array of dimension {rank}", given)
    place = e.choose(e.compare("lessThan", given, i64(0)), e.add(given, i64(rank)), given)

    def along(axis: int) -> Any:
        bound.arguments["axis"] = Scalar(i64(axis), weak=True)
        return handler(*bound.args, **bound.kwargs)

    def chosen(axis: int) -> Any:
        if axis == rank - 1:
            return along(axis)
        here = e.compare("equal", place, i64(axis))
        return e.frame.choose_value(here, lambda: along(axis), lambda: chosen(axis + 1))

    return chosen(0)


def _bind(e: Emitter, handler: Handler, name: str, args: list[Any], kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """The arguments by the names of a rule's parameters, which are those of the function that it implements."""
    try:
        return _signature(handler).bind(e, *args, **kwargs)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown and name.startswith(("np.", ".")):
            refuse_argument(e, _signature(handler), name, unknown[1])
        e.error(TypeMismatch, f"{name}: {error}")


def _signature(handler: Handler) -> inspect.Signature:
    """The parameters of a rule, found once."""
    known = _signatures.get(handler)
    if known is None:
        known = _signatures[handler] = inspect.signature(handler)
    return known


# rules that are made for one call go with it
_signatures: WeakKeyDictionary[Handler, inspect.Signature] = WeakKeyDictionary()


def _bound_call(e: Emitter, handler: Handler, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    bound = _bind(e, handler, name, args, kwargs)
    return handler(*bound.args, **bound.kwargs)


def _static_call(e: Emitter, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if target is not np.dtype:  # of a number that of its type
        args = [Static(a.dtype.numpy) if isinstance(a, Scalar) else a for a in args]
    values = [a.value if isinstance(a, Static) else None for a in args]
    if kwargs or len(values) != 1 or values[0] is None:
        e.error(UnsupportedSyntax, f"{target.__name__} needs one constant", help=f"np.{target.__name__}(x.dtype)")
    try:
        return Static(target(values[0]))
    except (TypeError, ValueError) as error:
        e.error(TypeMismatch, f"np.{target.__name__}: {error}")


def bind_function(e: Emitter, function: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Parameter names of a plain function to values, defaults filled in."""
    signature = signature_of(function)
    bound = _bound(e, signature, function.__name__, args, kwargs)
    values = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            values[name] = Sequence(tuple(bound.get(name, ())))
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named = bound.get(name, {})
            values[name] = Record(dict, tuple(named), tuple(named.values()))
        elif name in bound:
            values[name] = bound[name]
        else:
            values[name] = e.session.lift(e, parameter.default, name)
    return values


def closure_signature(closure: Closure) -> inspect.Signature:
    """The parameters of a nested function."""
    a = closure.node.args
    kinds = inspect.Parameter
    parameters = [kinds(p.id, kinds.POSITIONAL_ONLY) for p in a.posonlyargs]
    parameters += [kinds(p.id, kinds.POSITIONAL_OR_KEYWORD) for p in a.args]
    first = len(parameters) - len(closure.defaults)
    for k, default in enumerate(closure.defaults):
        parameters[first + k] = parameters[first + k].replace(default=default)
    if a.vararg is not None:
        parameters.append(kinds(a.vararg.id, kinds.VAR_POSITIONAL))
    for p in a.kwonlyargs:
        default = closure.keyword_defaults.get(p.id, kinds.empty)
        parameters.append(kinds(p.id, kinds.KEYWORD_ONLY, default=default))
    if a.kwarg is not None:
        parameters.append(kinds(a.kwarg.id, kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _bind_closure(e: Emitter, closure: Closure, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    a, signature = closure.node.args, closure_signature(closure)
    bound = _bound(e, signature, closure.name, args, kwargs)
    values = {n: bound[n] if n in bound else p.default for n, p in signature.parameters.items()}
    if a.vararg is not None:
        values[a.vararg.id] = Sequence(tuple(bound.get(a.vararg.id, ())))
    if a.kwarg is not None:
        named = bound.get(a.kwarg.id, {})
        values[a.kwarg.id] = Record(dict, tuple(named), tuple(named.values()))
    return values


def _bound(
    e: Emitter, signature: inspect.Signature, name: str, args: list[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        e.error(TypeMismatch, f"{name}(): {error}")
