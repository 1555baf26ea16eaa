"""Reverse mode differentiation by adjoint code generation: the adjoint of a function is a function.

    func @f: (f64) -> f64 {                  func @f_grad: (f64) -> f64 {
    'entry(%x: f64):                         'entry(%x: f64):
        %y = sin %x: f64              →          %0 = cos %x: f64
        return %y: f64                           return %0: f64
    }                                        }

Stands between the exact clean-ups of the raw stage, which run before and after it. Calls have been inlined,
but for recursive ones: calls.py. What comes out is ordinary raw IR with
real control flow: it can be printed, verified, run, optimised, and differentiated again by this pass.

The phases, each a file:

    clone, normal_form    a private copy with one exit, loops of one entry and one exit edge
    replacements          what a loop chooses is computed again from the trip that it was
    joined_factors        products with what branches chose are made in the branches
    own_transposes        products of a matrix and its transpose have one factor
    demote, arguments     arrays across blocks in memory; copies of the arguments that are written
    points_to, activity   which values and allocations carry derivatives
    shadows, control      the forward sweep: adjoint memory, the record of the path taken
    places, pullback      the two sweeps as two functions, the second with shadows of its own
    calls, lasting, handed_down    forward and reverse functions of what is called
    given                 calls of functions that have rules of their own
    reverse               the reverse sweep: rules (value ops), memory (loads, stores, stacks), outputs
    keep, remat, once     primal values for the reverse sweep: direct, computed again, or taped
    counted, ahead, dense tapes of counted loops: arrays with a row a trip
    temporaries, handed_on         adjoint memory that is made in the reverse sweep
    strip_mine, checkpoint, rearrange   loops that the reverse sweep runs again, a segment at a time
    common_sums           sums that differ in factors alone are one
    product_sums          sums over the elements of a matrix in memory are products with it
    ssa_repair, tidy      variables become block arguments; zeros and dead code go

In this package `x_adj` is the adjoint of `x`, `x_shadow` the adjoint memory of the pointer `x`.
Source: Griewank, Walther, "Evaluating Derivatives" (2008), chapters 3, 4 and 6; activity and to-be-recorded
analysis after Hascoët, Naumann, Pascual (2005); the IR side follows DLVM (Wei, Schwartz, Adve 2017).
"""

from __future__ import annotations

import functools
from collections.abc import Collection

from dlvm_py.frozen import replace
from dlvm_py.ir import VOID, Builder, Function, Module, PointerType, TensorType, TupleType, Type, Value
from dlvm_py.ir.analysis.calls import seen_outside
from dlvm_py.ir.relation import Relation
from dlvm_py.transforms import assume_extents, ssa_repair
from dlvm_py.transforms.differentiate import common_sums, joined_factors, own_transposes, product_sums, replacements
from dlvm_py.transforms.differentiate.activity import carries_derivative
from dlvm_py.transforms.differentiate.arguments import copy_written
from dlvm_py.transforms.differentiate.calls import Split, Splits, cut, has_adjoint_stack, mark_results, never_returns
from dlvm_py.transforms.differentiate.checkpoint import Checkpoints
from dlvm_py.transforms.differentiate.clone import clone
from dlvm_py.transforms.differentiate.config import CAN_RUN_AGAIN, RECORD, AdjointConfig, Output
from dlvm_py.transforms.differentiate.control import Control
from dlvm_py.transforms.differentiate.dead import remove_dead
from dlvm_py.transforms.differentiate.given import Given, body_of
from dlvm_py.transforms.differentiate.keep import Keeper
from dlvm_py.transforms.differentiate.normal_form import Exit, normalize
from dlvm_py.transforms.differentiate.outputs import add_seed_params, finish, finish_split, seed_type
from dlvm_py.transforms.differentiate.places import PlacedShadows
from dlvm_py.transforms.differentiate.points_to import PointsTo
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.pullback import Cut, hold
from dlvm_py.transforms.differentiate.reverse import Sweep
from dlvm_py.transforms.differentiate.shadows import Shadows
from dlvm_py.transforms.differentiate.strip_mine import plain_loops, strip_mine
from dlvm_py.transforms.differentiate.tidy import join, tidy


def adjoint(module: Module, name: str, config: AdjointConfig) -> Function:
    """Add the gradient of the function `name` to `module`, as `<name>_grad`, and return it.

    Parameters: the primal's, then the seeds. Result: the derivatives in the order of `wrt` (scalars, or
    fresh C-contiguous arrays), then the kept outputs. Arguments are not changed.
    Raises: NotDifferentiable, located, where a derivative flows through something without a rule.
    """
    primal_function = body_of(module, name)
    for k in config.wrt:
        t = primal_function.params[k].type
        assert isinstance(t, TensorType | PointerType) and t.dtype.is_inexact, f"parameter {k} is {t}"
    function = clone(primal_function, f"{name}_grad")
    replacements.run(function)
    joined_factors.run(function)
    own_transposes.run(function)
    mined = [] if config.checkpoint in ("auto", "store") else strip_mine(function)
    # what everybody sees happen, or moves a stream of random numbers, cannot be undone
    is_undone = config.checkpoint == "auto" and seen_outside(module, name) is None
    plain = [loop.header for loop in plain_loops(function)] if is_undone else []
    given = Given(module, adjoint)
    given.raise_calls(function)
    exit_ = normalize(function)
    if exit_ is None:
        given.lower(function)
        _never_returns(function, primal_function, config)
        return module.add(function)
    splits = Splits(module, name)
    relations = _relations(primal_function)
    primal = Primal(function, exit_, config, splits.written, has_windows=splits.has_windows, relations=relations)
    checkpoints = Checkpoints(primal, mined)
    shadows = Shadows(primal, splits)
    control = Control(primal)
    seeds = add_seed_params(primal)
    sweep = Sweep(primal, shadows, control, seeds, splits, given)
    function.result = finish(sweep)
    _complete(primal, sweep, control, checkpoints)
    function.meta[RECORD] = checkpoints.record.entries
    function.meta[CAN_RUN_AGAIN] = checkpoints.can_segment(plain)
    join(function, exit_.block, sweep.blocks[exit_.block])
    module.add(function)
    splits.finish(primal, functools.partial(_split, given))
    return function


def recorded(module: Module, name: str, config: AdjointConfig) -> Cut:
    """Add `<name>_recorded` and `<name>_pullback` to `module`: the two sweeps, each a function (pullback.py).

    The first has the primal's parameters and returns the kept outputs, then the tape; the second takes the tape and the
    seeds and returns the derivatives. The function must be able to return. Raises: as `adjoint`.
    """
    function = clone(body_of(module, name), f"{name}_grad")
    replacements.run(function)
    joined_factors.run(function)
    own_transposes.run(function)
    given = Given(module, adjoint)
    given.raise_calls(function)
    exit_ = normalize(function)
    assert exit_ is not None, f"@{name} never returns"
    splits = Splits(module, name)
    primal = Primal(
        function,
        exit_,
        replace(config, keeping=()),
        splits.written,
        is_detached=True,
        has_windows=splits.has_windows,
        relations=_relations(module.functions[name]),
    )
    shadows = PlacedShadows(primal, splits)
    control = Control(primal)
    seeds = add_seed_params(primal)
    sweep = Sweep(primal, shadows, control, seeds, splits, given)
    function.result = finish(sweep)
    hold(function, exit_.block, [primal.output(o) for o in config.keeping])
    _complete(primal, sweep, control, Checkpoints(primal, []))
    splits.finish(primal, functools.partial(_split, given))
    halves = Cut(function, exit_.block, sweep.blocks[exit_.block], seeds, name)
    module.add(halves.recorded)
    module.add(halves.pullback)
    return halves


def _relations(function: Function) -> Collection[Relation]:
    """What is assumed of the extents of the parameters of a function."""
    return function.meta.get(assume_extents.RELATIONS, ())  # type: ignore[return-value]


def _complete(primal: Primal, sweep: Sweep, control: Control, checkpoints: Checkpoints) -> None:
    """Join the two sweeps and bring what the second needs of the first there."""
    function, exit_ = primal.function, primal.exit
    Builder(function, exit_.block).branch(sweep.blocks[exit_.block])
    # what is dead must not be kept for
    remove_dead(function, checkpoints.allot(sweep))
    checkpoints.hand_over(sweep)
    keeper = Keeper(primal, sweep, control, checkpoints)
    keeper.run()
    states = checkpoints.rearrange(sweep, control)
    handed = primal.adjoint_stacks.values()
    adjoints = [s for s in sweep.adjoint_stacks.values() if s not in handed]
    _destroy(function, sweep, [*keeper.stacks, *states, *adjoints])
    ssa_repair.run(function)
    common_sums.run(function, sweep.reductions)
    product_sums.run(function, sweep.reductions)
    tidy(function, sweep.sums)
    sweep.given.lower(function)


def _split(given: Given, splits: Splits, split: Split) -> None:
    """Make the bodies of the halves of a function (calls.py)."""
    function = clone(split.primal, split.primal.name)
    replacements.run(function)
    joined_factors.run(function)
    own_transposes.run(function)
    given.raise_calls(function)
    exit_ = normalize(function)
    if exit_ is None:
        never_returns(split)
        return
    primal = Primal(
        function, exit_, None, splits.written, has_windows=splits.has_windows, lasting=splits.lasting[split.primal.name]
    )
    shadows = Shadows(primal, splits)
    control = Control(primal)
    floats = [leaf for leaf in exit_.leaves if carries_derivative(leaf)]
    seeds: list[Value] = [function.entry.add_arg(leaf.type, "seed") for leaf in floats]
    for p in primal.formal:
        if has_adjoint_stack(p.type):
            primal.adjoint_stacks[p] = function.entry.add_arg(p.type, f"{p.name}_adj")
    sweep = Sweep(primal, shadows, control, seeds, splits, given)
    finish_split(sweep)
    mark_results(primal, shadows)
    _complete(primal, sweep, control, Checkpoints(primal, []))
    cut(primal, sweep, shadows, seeds, split)


def _destroy(function: Function, sweep: Sweep, stacks: list[Value]) -> None:
    last = sweep.blocks[function.entry].instructions[-1]
    b = Builder(function).before(last)
    for stack in stacks:
        b.emit("destroyStack", stack)


def _never_returns(function: Function, primal: Function, config: AdjointConfig) -> None:
    """A function that always raises (or loops for ever) has itself as gradient, but for the result type.

    What it writes on its way goes into copies of the arguments, as in any gradient.
    """
    copy_written(function, PointsTo(function), Exit(function.entry, []))
    results = primal.result.elements if isinstance(primal.result, TupleType) else (primal.result,)

    def kind(o: Output) -> Type:
        return results[o.index] if o.kind == "result" else primal.params[o.index].type

    wanted: list[Type] = []
    for k in config.wrt:
        t = primal.params[k].type
        wanted.append(PointerType(t.pointee) if isinstance(t, PointerType) else t)
    wanted += [kind(o) for o in config.keeping]
    function.result = VOID if not wanted else wanted[0] if len(wanted) == 1 else TupleType(tuple(wanted))
    if config.seedable:
        for o in config.outputs:
            function.entry.add_arg(seed_type(kind(o)), "seed")
