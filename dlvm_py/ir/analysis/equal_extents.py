"""Which extents of arrays are known to be equal.

    %n = extent %a: *<_ x f64> at 0
    %m = extent %b: *<_ x f64> at 0
    %same = equal %n: i64, %m: i64
    check %same: bool else ValueError "..."            behind this, axis 0 of %a is as long as axis 0 of %b

An extent has a *name*: a number, a value that states it, or a pointer that comes from elsewhere and an axis. Names are
equal where they are the same, or where checks that have been passed hold them equal, one after the other. Valid while
the checks stay in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.extents import extents_of, known_extent
from dlvm_py.ir.builder import Builder
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.value import Instruction, Literal, Value

Extent = Value | tuple[Value | str, int]


class EqualExtents:
    """The facts about one function."""

    def __init__(self, function: Function) -> None:
        self._nowhere = Builder(function).at_end(Block("nowhere"))
        self._dominators = of_graph(DominatorTree, function)
        self._checked: dict[Extent, list[tuple[Extent, Instruction]]] = {}
        for i in function.instructions():
            flag = i.operands[0] if i.op is OPS["check"] else None
            if isinstance(flag, Instruction) and flag.op is OPS["equal"]:
                a, b = map(_name, flag.operands)
                self._checked.setdefault(a, []).append((b, i))
                self._checked.setdefault(b, []).append((a, i))

    def of(self, v: Value) -> list[Extent]:
        """The extents of an array or a pointer by name; what has to be made for that is made nowhere."""
        return [_name(n) for n in extents_of(self._nowhere, v)]

    def are_equal(self, a: Sequence[Extent], b: Sequence[Extent], at: Instruction) -> bool:
        """Whether extents are equal, one by one, where the instruction runs."""
        return len(a) == len(b) and all(self._is_equal(x, y, at) for x, y in zip(a, b, strict=True))

    def _is_equal(self, a: Extent, b: Extent, at: Instruction) -> bool:
        seen, work = {a}, [a]
        while work:
            name = work.pop()
            if name == b:
                return True
            for other, check in self._checked.get(name, ()):
                if other not in seen and self._dominators.instruction_dominates(check, at):
                    seen.add(other)
                    work.append(other)
        return False


def _name(n: Value) -> Extent:
    while isinstance(n, Instruction) and n.op is OPS["extent"]:
        found = known_extent(n.operands[0], n.attrs["at"])  # of memory that is made here: what it is made with
        if isinstance(found, tuple):
            return found
        n = found
    return ("literal", n.value) if isinstance(n, Literal) else n
