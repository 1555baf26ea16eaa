"""A program: IR for given types of arguments, and how its values look from Python. It is what the pipeline carries."""

from __future__ import annotations

from dlvm_py.frozen import Mutable
from dlvm_py.ir import Function, Module
from dlvm_py.ir.interface import Effects, Spec
from dlvm_py.ir.relation import Relation


class Program(Mutable):
    """IR for given argument specs: the module, the function's name, and how its values look from Python.

    The IR parameters are the leaves of `args` in order, then one pointer per captured array. `unshared` are those that
    may not share memory with another one although this function does not write them: a derivative copies each array
    that its primal writes, and a copy no longer sees what is written through the other.
    `relations`: what is assumed of the parameters.
    """

    module: Module
    name: str
    parameter_names: tuple[str, ...]
    args: tuple[Spec, ...]
    captured: tuple[Spec, ...]
    result: Spec
    unshared: tuple[int, ...] = ()
    free: tuple[int, ...] = ()
    effects: Effects | None = None
    finals: tuple[tuple[int, Spec], ...] = ()
    relations: tuple[Relation, ...] = ()

    @property
    def function(self) -> Function:
        """The IR function."""
        return self.module.functions[self.name]
