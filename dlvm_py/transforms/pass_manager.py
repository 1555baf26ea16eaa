"""The passes by name, and a runner for lists of them.

A pass is a module of this folder with `run(function) -> bool` (changed). `PASSES` is the table that `dlopt`
offers; its descriptions are the first lines of the modules' docstrings, so there is nothing to keep in step.
Passes that look at several functions (inlining) have a `run` that takes the module and a name, and are told apart by
`on_module`. Differentiation is no entry: it makes a new function, from a request (differentiate/).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dlvm_py.decisions import Decisions
from dlvm_py.deferred import deferred
from dlvm_py.errors import PassError
from dlvm_py.frozen import Frozen
from dlvm_py.ir.function import Function, Module
from dlvm_py.transforms import (
    accumulate_products,
    algebra_simplification,
    alternating_signs,
    assume_extents,
    bufferize,
    carried_scalars,
    cfg_canonicalization,
    cfg_simplification,
    chosen_elements,
    constant_fold,
    constant_propagation,
    cse,
    dce,
    dead_store,
    double_buffers,
    drop_rules,
    element_promotion,
    expression_products,
    extent_checks,
    gather_sums,
    gather_windows,
    growing_products,
    hoist_buffers,
    hoist_products,
    inline,
    inline_stencils,
    interchange_loops,
    interleave_loops,
    kept_copies,
    licm,
    limit_counts,
    linear_algebra_fusion,
    literal_broadcasting_promotion,
    loop_versions,
    lower_shape,
    masked_reductions,
    matrix_multiplication_reordering,
    merge_stores,
    own_entry,
    ownership,
    partial_inline,
    plane_layouts,
    proven_checks,
    raise_loops,
    raise_products,
    redundant_load,
    replay_loops,
    row_grids,
    row_strips,
    share_loops,
    short_rows,
    sibling_fusion,
    simplify_cfg,
    skew_loops,
    skewed_strips,
    sliding_windows,
    stack_promotion,
    temporary_layouts,
    tile_loops,
    unroll_and_jam,
    unroll_loops,
    unwritten_copies,
    value_numbering,
    value_promotion,
    widen_loops,
)

if TYPE_CHECKING:
    from dlvm_py.ir import verifier
else:
    verifier = deferred("dlvm_py.ir.verifier")

# what comes out of a pass that changes the stage; the others keep it
_STAGE_AFTER = {"bufferize": "compute", "ownership": "scheduled"}


class Pass(Frozen):
    """One row: `run(function)`, `run(module, name)` if `on_module`.

    With `noalias_params` where it `asks_alias`, and `decisions` where it `decides`.
    """

    name: str
    abbreviation: str
    run: Callable[..., bool]
    description: str
    on_module: bool = False
    asks_alias: bool = False
    decides: bool = False


def _row(module: ModuleType, abbreviation: str, on_module: bool = False) -> Pass:
    name = module.__name__.rpartition(".")[2]
    description = (module.__doc__ or "").partition("\n")[0].rstrip(".")
    code = module.run.__code__
    takes = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    asks_alias, decides = "noalias_params" in takes, "decisions" in takes
    return Pass(name, abbreviation, module.run, description, on_module, asks_alias, decides)


PASSES: dict[str, Pass] = {
    row.name: row
    for row in (
        _row(drop_rules, "DR", on_module=True),
        _row(inline, "INL", on_module=True),
        _row(kept_copies, "KC", on_module=True),
        _row(partial_inline, "PI", on_module=True),
        _row(extent_checks, "EC"),
        _row(alternating_signs, "ALT"),
        _row(raise_loops, "RL"),
        _row(assume_extents, "AE"),
        _row(raise_products, "RP"),
        _row(simplify_cfg, "SCFG"),
        _row(constant_fold, "CF"),
        _row(unroll_loops, "UL"),
        _row(constant_propagation, "SCCP"),
        _row(cse, "CSE"),
        _row(dce, "DCE"),
        _row(dead_store, "DSE"),
        _row(unwritten_copies, "UC"),
        _row(licm, "LICM"),
        _row(value_numbering, "VN"),
        _row(value_promotion, "VP"),
        _row(carried_scalars, "CS"),
        _row(proven_checks, "PC"),
        _row(merge_stores, "MS"),
        _row(redundant_load, "RLE"),
        _row(algebra_simplification, "AS"),
        _row(literal_broadcasting_promotion, "LBP"),
        _row(matrix_multiplication_reordering, "MMR"),
        _row(linear_algebra_fusion, "LAF"),
        _row(expression_products, "EP"),
        _row(accumulate_products, "GEMM"),
        _row(cfg_simplification, "CFGSimp"),  # DLVM's abbreviations where it had the pass
        _row(cfg_canonicalization, "CFGCan"),
        _row(masked_reductions, "MR"),
        _row(lower_shape, "LS"),
        _row(gather_sums, "GS"),
        _row(gather_windows, "GW"),
        _row(hoist_products, "HP"),
        _row(growing_products, "GP"),
        _row(interchange_loops, "IC"),
        _row(short_rows, "SR"),
        _row(loop_versions, "LV"),
        _row(limit_counts, "LC"),
        _row(widen_loops, "WL"),
        _row(plane_layouts, "PL"),
        _row(bufferize, "BUF"),
        _row(temporary_layouts, "TL"),
        _row(sibling_fusion, "SF"),
        _row(skew_loops, "SK"),
        _row(share_loops, "SL"),
        _row(interleave_loops, "IL"),
        _row(row_strips, "RS"),
        _row(row_grids, "RG"),
        _row(inline_stencils, "IS"),
        _row(sliding_windows, "SW"),
        _row(skewed_strips, "SS"),
        _row(hoist_buffers, "HB"),
        _row(double_buffers, "DB"),
        _row(element_promotion, "ELP"),
        _row(chosen_elements, "CE"),
        _row(stack_promotion, "SP"),
        _row(tile_loops, "TILE"),
        _row(unroll_and_jam, "UJ"),
        _row(ownership, "OWN"),
        _row(replay_loops, "RPL"),
    )
}
# DLVM's long names of passes that are called otherwise here, in its own spelling too
_LONG_NAMES = {
    "CFGSimpliciation": "cfg_simplification",
    "CommonSubexpressionElimination": "cse",
    "DeadCodeElimination": "dce",
    "Inlining": "inline",
    "LoopInvariantCodeMotion": "licm",
    "RedundantLoadElimination": "redundant_load",
}


def _key(name: str) -> str:
    return name.replace("_", "").lower()


_BY_KEY = {
    **{_key(long): PASSES[name] for long, name in _LONG_NAMES.items()},
    **{_key(word): row for row in PASSES.values() for word in (row.name, row.abbreviation)},
}


def find_pass(name: str) -> Pass:
    """The pass of that name, abbreviation, or long name of DLVM; PassError for any other word."""
    found = _BY_KEY.get(_key(name))
    if found is None:
        raise PassError(f"there is no pass {name}; there are {', '.join(PASSES)}")
    return found


def run_pipeline(
    function: Function,
    names: Sequence[str],
    verify: bool = False,
    *,
    module: Module | None = None,
    stage: str = "optimizable",
    noalias_params: bool = True,
    decisions: Decisions | None = None,
) -> bool:
    """Run passes on `function` in order; whether any of them changed it.

    verify: check the function after each pass that changes it, and at the end; VerifierError then names the pass.
    `stage` is the one before.
    module: where the function is from, which the passes on modules need. noalias_params: that different
    pointer parameters do not overlap, for the passes that ask the alias analysis.
    decisions: for the passes that take some.
    """
    changed = own_entry.run(function)
    for k, name in enumerate(names):
        row = find_pass(name)
        asked: dict[str, Any] = {"noalias_params": noalias_params} if row.asks_alias else {}
        if row.decides:
            asked["decisions"] = decisions
        if row.on_module:
            if module is None:
                raise PassError(f"the pass {name} needs the module of @{function.name}")
            changes = row.run(module, function.name, **asked)
        else:
            changes = row.run(function, **asked)
        changed |= changes
        stage = _STAGE_AFTER.get(row.name, stage)
        if verify and (changes or k == len(names) - 1):
            try:
                verifier.verify(function, stage)
            except Exception as e:
                e.add_note(f"after the pass {row.name}")
                raise
    return changed
