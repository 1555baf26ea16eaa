"""Analyses of the IR: pure functions of one Function, valid until the function is changed. (cache.py keeps results.)"""

from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cfg import bound_blocks, predecessors, reachable_from, reverse_postorder
from dlvm_py.ir.analysis.dominance import DominatorTree, PostDominatorTree
from dlvm_py.ir.analysis.effects import effects, is_pure, may_trap, reads_memory, writes_memory, written_pointer
from dlvm_py.ir.analysis.liveness import liveness
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.side_effects import SideEffects, side_effects
from dlvm_py.ir.analysis.uses import uses

__all__ = [
    "AliasAnalysis", "DominatorTree", "Loop", "LoopForest", "PostDominatorTree", "SideEffects", "bound_blocks",
    "effects", "is_pure", "liveness", "may_trap", "predecessors", "reachable_from", "reads_memory", "reverse_postorder",
    "side_effects", "uses", "writes_memory", "written_pointer",
]  # fmt: skip
