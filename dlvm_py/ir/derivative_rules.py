"""Functions with derivatives of their own: what their rules look like.

    !adjoint @f_adjoint
    !tangent @f_tangent
    func @f: (A0, ..., An) -> (R0, ..., Rm) { ... }

A call of `@f` is kept until derivatives have been taken; they are then what the rules say, not those of the body.

    @f_adjoint: (A0, ..., An, R0, ..., Rm, seeds) -> adjoints       seeds: one for each float among the results
    @f_tangent: (A0, ..., An, R0, ..., Rm, tangents) -> tangents    one for each float among the parameters; results

With `!forward @f_forward` the call becomes one of `@f_forward: (A0, ..., An) -> (R0, ..., Rm, residuals)` where it is
differentiated in reverse, and the adjoint rule is `@f_adjoint: (residuals, seeds) -> adjoints`.

Arrays are taken by value here: whether a type is a tensor or a pointer, and which layout it has, makes no difference;
dtype, rank and stated extents do. A rule that gives no adjoints of (takes no tangents for) the last float parameters
holds them constant; a derivative that flows into one of these is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.ir.function import Function, Module
from dlvm_py.ir.types import VOID, PointerType, TensorType, TupleType, Type


def results_of(type: Type) -> list[Type]:
    """The types of the results of a function, one by one."""
    if isinstance(type, TupleType):
        return list(type.elements)
    return [] if type == VOID else [type]


def is_float(type: Type) -> bool:
    """Whether a number or array of this type carries derivatives."""
    return isinstance(type, TensorType | PointerType) and type.dtype.is_inexact


def problems(function: Function, module: Module) -> list[str]:
    """What is wrong with the rules of `function`."""
    params, results = list(function.type.params), results_of(function.type.result)
    for t in (*params, *results):
        if not isinstance(t, TensorType) and not (isinstance(t, PointerType) and isinstance(t.pointee, TensorType)):
            return [f"a function with rules of its own takes and gives numbers and arrays, not {t}"]
    found: list[str] = []
    rules: dict[str, Function] = {}
    for kind, name in function.rules.items():
        rule = module.functions.get(name)
        if rule is None:
            found.append(f"its {kind} rule @{name} is not there")
        elif rule is function:
            found.append(f"it is its own {kind} rule")
        else:
            rules[kind] = rule
    if "forward" in function.rules and "adjoint" not in function.rules:
        found.append("a forward rule is for an adjoint rule, which is not there")
    if found:
        return found
    seeds = [t for t in results if is_float(t)]
    floats = [t for t in params if is_float(t)]
    given = [*params, *results]
    if "forward" in rules:
        forward = rules["forward"]
        made = results_of(forward.type.result)
        found += _compare(forward, "parameters", params, forward.type.params)
        found += _compare(forward, "first results", results, made[: len(results)])
        given = made[len(results) :]
    if "adjoint" in rules:
        rule = rules["adjoint"]
        adjoints = results_of(rule.type.result)
        found += _compare(rule, "parameters", [*given, *seeds], rule.type.params)
        found += _compare(rule, "results", floats[: max(len(adjoints), 1)], adjoints)
    if "tangent" in rules:
        rule = rules["tangent"]
        count = len(rule.type.params) - len(params) - len(results)
        wanted = [*params, *results, *floats[: max(count, 1)]]
        found += _compare(rule, "parameters", wanted, rule.type.params)
        found += _compare(rule, "results", seeds, results_of(rule.type.result))
    return found


def _compare(rule: Function, what: str, wanted: Sequence[Type], found: Sequence[Type]) -> list[str]:
    if len(wanted) == len(found) and all(map(_alike, wanted, found)):
        return []
    shown = "({})".format(", ".join(map(str, wanted)))
    return [f"the {what} of its rule @{rule.name} are {shown}, not ({', '.join(map(str, found))})"]


def _alike(a: Type, b: Type) -> bool:
    """Whether values of the two types are the same kind of number or array."""
    if not isinstance(a, TensorType | PointerType) or not isinstance(b, TensorType | PointerType):
        return False
    if a.dtype is not b.dtype or len(a.shape) != len(b.shape):
        return False
    return all(m is None or n is None or m == n for m, n in zip(a.shape, b.shape, strict=True))
