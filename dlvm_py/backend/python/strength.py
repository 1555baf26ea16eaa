"""Which numbers may be Python's (weak) and which are NumPy's: see spelling.py."""

from __future__ import annotations

from dlvm_py.backend.python.elementwise import is_operator, makes_weak
from dlvm_py.backend.python.writer import DEFAULT, Writer, dtype, is_scalar
from dlvm_py.ir import Block, Function, Instruction, Literal, Value
from dlvm_py.ir.analysis import predecessors

# whose number is as weak as the operands'
_KEEPING = frozenset(
    "add subtract multiply divide floorDivide modulo power bitAnd bitOr bitXor shiftLeft shiftRight negate abs max min"
    " select realPart imaginaryPart bitNot constant stopGradient".split()
)
_WEAK = frozenset("extent rank unitCount makeComplex equal notEqual lessThan lessThanOrEqual greaterThan and or not"
                  " greaterThanOrEqual apply extract pop".split())  # fmt: skip


class Strength:
    """Whether a number may be weak. Block arguments may if one of the values that are passed to them may."""

    def __init__(self, function: Function, order: list[Block], strong: set[Value]) -> None:
        """strong: the parameters that are NumPy scalars."""
        self._strong = strong
        self._known: dict[Value, bool] = {}
        self._edges = predecessors(function)
        self._order = order

    def solve(self, writer: Writer) -> None:
        """Find the block arguments: strong until something weak reaches them."""
        for arg in (a for b in self._order[1:] for a in b.args):
            self._known[arg] = False
        changed = True
        while changed:
            changed = False
            for b in self._order[1:]:
                for k, arg in enumerate(b.args):
                    if not self._known[arg] and any(
                        self.is_weak(p.targets[t].args[k], writer) for p, t in self._edges[b] if p in self._order
                    ):
                        self._known[arg] = changed = True
            for known in [v for v in self._known if isinstance(v, Instruction)]:
                del self._known[known]

    def is_weak(self, value: Value, writer: Writer) -> bool:
        """Whether a value may be a number of Python."""
        if not is_scalar(value) or dtype(value).name not in DEFAULT:
            return False
        if isinstance(value, Literal):
            return True
        if value not in self._known:
            self._known[value] = self._found(value, writer)
        return self._known[value]

    def _found(self, value: Value, writer: Writer) -> bool:
        if not isinstance(value, Instruction):
            return value not in self._strong
        op = value.op.name
        if op in _WEAK or value.attrs.get("checked"):
            return True
        if op == "dataTypeCast":
            return makes_weak(writer, value)
        if op not in _KEEPING:
            return False
        if op in ("max", "min") and dtype(value).name != "i64":
            return False
        if op in ("divide", "floorDivide", "modulo", "power", "shiftLeft", "shiftRight") and not is_operator(
            writer, value
        ):
            return False
        some = (self.is_weak(v, writer) for v in value.operands[:2])
        return any(some) if op in ("select", "max", "min") else all(some)
