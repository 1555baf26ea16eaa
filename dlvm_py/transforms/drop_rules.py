"""What is there for derivatives alone goes, once the last one has been taken: rules of functions.

    !adjoint @f_adjoint                             func @f: (f64) -> f64 {
    func @f: (f64) -> f64 {                   =>    ...
    ...

From here on a call of `@f` is one like any other, which is inlined. Raw and optimizable stages.
"""

from __future__ import annotations

from dlvm_py.ir import Module
from dlvm_py.ir.analysis.calls import reachable


def run(module: Module, name: str) -> bool:
    """Drop the rules of function `name` of `module` and of what it reaches; whether there were any."""
    changed = False
    for function in reachable(module, name):
        changed |= bool(function.rules)
        function.rules = {}
    return changed
