"""The passes by name, and a runner for lists of them.

A pass is a module of this folder with `run(function) -> bool` (changed), which is imported when it is first run.
`PASSES` is the table that `dlopt` offers; its descriptions are the first lines of the modules' docstrings, so there is
nothing to keep in step.
Passes that look at several functions (inlining) have a `run` that takes the module and a name, and are told apart by
`on_module`. Differentiation is no entry: it makes a new function, from a request (differentiate/).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dlvm_py.decisions import Decisions
from dlvm_py.deferred import deferred
from dlvm_py.errors import PassError
from dlvm_py.frozen import Frozen
from dlvm_py.ir.function import Function, Module
from dlvm_py.transforms import own_entry
from dlvm_py.transforms.preconditions import has_arrays, has_nests, has_planes, has_shared_work

if TYPE_CHECKING:
    from dlvm_py.ir import verifier
else:
    verifier = deferred("dlvm_py.ir.verifier")

# what comes out of a pass that changes the stage; the others keep it
_STAGE_AFTER = {"bufferize": "compute", "ownership": "scheduled"}


class Pass(Frozen):
    """One row: `run(function)`, `run(module, name)` if `on_module`.

    With `noalias_params` where it `asks_alias`, and `decisions` where it `decides`. needs: what a function must have
    for the pass to find something in it.
    """

    name: str
    abbreviation: str
    on_module: bool = False
    needs: Callable[[Function], bool] | None = None

    @property
    def module(self) -> ModuleType:
        """The pass, imported when it is first asked for."""
        return import_module(f"{__package__}.{self.name}")

    @property
    def run(self) -> Callable[..., bool]:
        """Runs it; whether it changed anything."""
        return self.module.run  # type: ignore[no-any-return]

    @property
    def description(self) -> str:
        """The first line of the docstring."""
        return (self.module.__doc__ or "").partition("\n")[0].rstrip(".")

    @property
    def asks_alias(self) -> bool:
        """Whether it takes what is known of parameters."""
        return "noalias_params" in _takes(self.module)

    @property
    def decides(self) -> bool:
        """Whether it takes decisions."""
        return "decisions" in _takes(self.module)


@functools.cache
def _takes(module: ModuleType) -> tuple[str, ...]:
    code = module.run.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]  # type: ignore[no-any-return]


PASSES: dict[str, Pass] = {
    row.name: row
    for row in (
        Pass("drop_rules", "DR", on_module=True),
        Pass("inline", "INL", on_module=True),
        Pass("kept_copies", "KC", on_module=True),
        Pass("partial_inline", "PI", on_module=True),
        Pass("unfold_recursion", "UR", on_module=True),
        Pass("extent_checks", "EC"),
        Pass("alternating_signs", "ALT"),
        Pass("raise_loops", "RL", needs=has_arrays),
        Pass("assume_extents", "AE"),
        Pass("raise_products", "RP", needs=has_arrays),
        Pass("simplify_cfg", "SCFG"),
        Pass("constant_fold", "CF"),
        Pass("unroll_loops", "UL"),
        Pass("constant_propagation", "SCCP"),
        Pass("cse", "CSE"),
        Pass("dce", "DCE"),
        Pass("dead_store", "DSE"),
        Pass("unwritten_copies", "UC"),
        Pass("licm", "LICM"),
        Pass("value_numbering", "VN"),
        Pass("value_promotion", "VP"),
        Pass("carried_scalars", "CS"),
        Pass("proven_checks", "PC"),
        Pass("merge_stores", "MS"),
        Pass("redundant_load", "RLE"),
        Pass("algebra_simplification", "AS"),
        Pass("literal_broadcasting_promotion", "LBP"),
        Pass("matrix_multiplication_reordering", "MMR"),
        Pass("linear_algebra_fusion", "LAF"),
        Pass("expression_products", "EP"),
        Pass("accumulate_products", "GEMM"),
        Pass("cfg_simplification", "CFGSimp"),  # DLVM's abbreviations where it had the pass
        Pass("cfg_canonicalization", "CFGCan"),
        Pass("masked_reductions", "MR"),
        Pass("lower_shape", "LS"),
        Pass("gather_sums", "GS", needs=has_arrays),
        Pass("gather_windows", "GW", needs=has_arrays),
        Pass("triangular_products", "TP", needs=has_arrays),
        Pass("hoist_products", "HP", needs=has_arrays),
        Pass("growing_products", "GP", needs=has_arrays),
        Pass("interchange_loops", "IC", needs=has_nests),
        Pass("short_rows", "SR", needs=has_planes),
        Pass("fixed_counts", "FC", needs=has_nests),
        Pass("loop_versions", "LV"),
        Pass("short_sums", "SHS"),
        Pass("bounded_sums", "BS"),
        Pass("hoist_checks", "HC"),
        Pass("pack_columns", "PKC", needs=has_nests),
        Pass("limit_counts", "LC"),
        Pass("checks_ahead", "CA"),
        Pass("scalar_expansion", "SX"),
        Pass("widen_loops", "WL", needs=has_arrays),
        Pass("plane_layouts", "PL", needs=has_planes),
        Pass("bufferize", "BUF"),
        Pass("temporary_layouts", "TL", needs=has_arrays),
        Pass("sibling_fusion", "SF", needs=has_arrays),
        Pass("sibling_stores", "SST", needs=has_arrays),
        Pass("skew_loops", "SK", needs=has_nests),
        Pass("share_loops", "SL"),
        Pass("interleave_loops", "IL", needs=has_nests),
        Pass("few_terms", "FT", needs=has_arrays),
        Pass("row_strips", "RS", needs=has_arrays),
        Pass("row_grids", "RG"),
        Pass("inline_stencils", "IS", needs=has_arrays),
        Pass("sliding_windows", "SW", needs=has_arrays),
        Pass("skewed_strips", "SS", needs=has_arrays),
        Pass("hoist_buffers", "HB"),
        Pass("double_buffers", "DB", needs=has_arrays),
        Pass("element_promotion", "ELP"),
        Pass("chosen_elements", "CE"),
        Pass("split_loops", "SPL"),
        Pass("quiet_loops", "QL"),
        Pass("narrow_integers", "NI"),
        Pass("row_ends", "RE"),
        Pass("stack_promotion", "SP"),
        Pass("tile_loops", "TILE", needs=has_arrays),
        Pass("unroll_and_jam", "UJ", needs=has_arrays),
        Pass("ownership", "OWN"),
        Pass("shift_rows", "SH", needs=has_arrays),
        Pass("stream_stores", "STR", needs=has_arrays),
        Pass("share_kernels", "SHK", needs=has_shared_work),
        Pass("replay_loops", "RPL"),
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


def may_find(row: Pass, function: Function, found: dict[Callable[[Function], bool], bool]) -> bool:
    """Whether a function has what a pass needs. found: the answers so far."""
    if row.needs is None:
        return True
    if row.needs not in found:
        found[row.needs] = row.needs(function)
    return found[row.needs]


def run_pass(
    row: Pass, function: Function, module: Module | None, noalias_params: bool, decisions: Decisions | None
) -> bool:
    """Run one; whether it changed anything. The rest as of `run_pipeline`."""
    asked: dict[str, Any] = {"noalias_params": noalias_params} if row.asks_alias else {}
    if row.decides:
        asked["decisions"] = decisions
    if not row.on_module:
        return row.run(function, **asked)
    if module is None:
        raise PassError(f"the pass {row.name} needs the module of @{function.name}")
    return row.run(module, function.name, **asked)


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
    found: dict[Callable[[Function], bool], bool] = {}  # what the passes need, since the last change
    for k, name in enumerate(names):
        row = find_pass(name)
        changes = may_find(row, function, found) and run_pass(row, function, module, noalias_params, decisions)
        if changes:
            changed = True
            found.clear()
        stage = _STAGE_AFTER.get(row.name, stage)
        if verify and (changes or k == len(names) - 1):
            try:
                verifier.verify(function, stage)
            except Exception as e:
                e.add_note(f"after the pass {row.name}")
                raise
    return changed
