"""Results of analyses, kept until what they depend on has changed.

    of_graph(DominatorTree, function)       made anew only if blocks or edges are others than they were
    of_module(side_effects, module)         made anew only if anything in any function is

A result is kept with a *snapshot* of all that its analysis reads: the blocks and edges for an analysis of the graph,
everything in the functions for one of a module. It is handed out again only if a snapshot that is taken then is equal.
Nobody has to say that something has changed, so it cannot be forgotten, however the IR is changed: by its methods, or
by hand. (Snapshots hold the objects themselves, so that no other object can take the place of one.) They take time
linear in the graph or the module, a small part of what the analyses take.

A result is shared: who wants to change it (licm adds preheaders to its loops) makes its own. Functions are held weakly.
Threads may ask at once: they may then compute one result twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from dlvm_py.ir.function import Function, Module
from dlvm_py.ir.value import Literal, Value

T = TypeVar("T")
Snapshot = list[object]

_graphs: WeakKeyDictionary[Function, dict[Callable[..., object], tuple[Snapshot, object]]] = WeakKeyDictionary()
_modules: WeakKeyDictionary[Module, dict[Callable[..., object], tuple[Snapshot, object]]] = WeakKeyDictionary()


def of_graph(analysis: Callable[[Function], T], function: Function) -> T:
    """The result of an analysis that reads blocks and edges alone: DominatorTree, PostDominatorTree, LoopForest."""
    return _kept(_graphs.setdefault(function, {}), analysis, function, graph_snapshot(function))


def of_module(analysis: Callable[[Module], T], module: Module) -> T:
    """The result of an analysis of a module."""
    return _kept(_modules.setdefault(module, {}), analysis, module, module_snapshot(module))


def _kept(kept: dict[Any, tuple[Snapshot, object]], analysis: Callable[[Any], T], of: object, now: Snapshot) -> T:
    known = kept.get(analysis)
    if known is not None and known[0] == now:
        return cast("T", known[1])
    result = analysis(of)
    kept[analysis] = now, result
    return result


def graph_snapshot(function: Function) -> Snapshot:
    """Blocks in order, each followed by its successors."""
    found: Snapshot = []
    for block in function.blocks:
        found += (block, None, *block.successors())
    return found


def module_snapshot(module: Module) -> Snapshot:
    """Everything that a program is, but for its names of values and its locations."""
    found: Snapshot = [module.stage, *module.types, *module.variables.values()]
    for name, function in module.functions.items():
        found += (name, function, function.declaration, function.signature, function.result)
        found += (*sorted(function.attributes), *sorted(function.rules.items()))
        for block in function.blocks:
            found.append(block)
            for arg in block.args:
                found += (arg, arg.type)
            for i in block.instructions:
                found += (i, i.op, i.type, _frozen(i.attrs), *map(_shown, i.operands))
                for target in i.targets:
                    found += (target.block, *map(_shown, target.args))
                found.append(None)
    return found


def _shown(v: Value) -> object:
    # the payload of a literal counts; repr tells 0.0 from -0.0 and 1 from True
    return (v, v.type, repr(v.value)) if isinstance(v, Literal) else v


def _frozen(value: Any) -> Hashable:
    """A copy of an attribute that later changes do not reach."""
    if isinstance(value, dict):
        return tuple((k, _frozen(v)) for k, v in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
