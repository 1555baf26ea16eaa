"""Kernels before the columns of a row, which may run with them: an element of each in the column of its number.

    'row():                                             'body():
        %t = allocateHeap f64 count (%m)                    %x = load (%above at %k)
        store (add (load %above) (load %right)) to %t       %y = load (%right at %k)
        store (load %t) to %here                            %z = add %x, %y
        branch 'columns(0)                          =>      store %z to (%here at %k)
    'body():    (column %k, of as many as %here has)        ...
        ...

A sweep along a row often takes what does not depend on its own columns first, as one expression
(`a[i, 1:-1] += a[i - 1, 1:-1] + ..`, then a loop). All of that comes before the first column, and reads all of the row
above: rows could only follow each other. An element of it needs but a few elements of that row.

Kernels here are trees of one axis, of few operations, which are rounded the same for an element and for a vector.
Element e of a kernel then comes behind what comes after the kernel in the columns before e, elements of kernels among
it: they must not meet there (`may_follow`). Arrays that such kernels make for each other alone are values. That there
are as many elements as columns is for who asks to say before (skew_loops.py). Elements cost more than vectors do: what
the columns gain by running side by side is worth some twenty steps.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm_py.ir import OPS, Block, Builder, Instruction, Kind, PointerType, TensorType, Value, is_scalar
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.row_distances import Access, RowDistances
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.function import Function
from dlvm_py.ir.value import integer

_EXACT = frozenset(
    {"add", "subtract", "multiply", "divide", "negate", "abs", "sqrt", "square", "min", "max", "select"}
    | {"lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual", "equal", "notEqual", "and", "or", "not"}
)


_STEPS = 24  # instructions of the kernels of a row


class RowKernels:
    """The kernels of the blocks before the columns: `instructions`, all of them, in order.

    is_fit: whether all of them are such kernels, of the same extent (`count`, a value; None where there are none).
    """

    def __init__(self, function: Function, way: list[Block]) -> None:
        found = [i for b in way for i in b.instructions]
        self.instructions = [i for i in found if i.op.name == "allocateHeap" or _is_array(i)]
        self.count: Value | None = None
        self.temporaries: set[Value] = set()
        self.is_fit = True
        if self.instructions:
            apart = any(i.op.name in ("load", "store") for i in found if i not in self.instructions)
            self.is_fit = not apart and len(self.instructions) <= _STEPS and self._are_kernels(uses(function))

    def _are_kernels(self, users: dict[Value, list[Instruction]]) -> bool:
        ours, counts = set(self.instructions), list[Value]()
        for i in self.instructions:
            name = i.op.name
            if name == "allocateHeap":
                first, *others = users[i] or [i]
                if len(i.operands) != 1 or not set(users[i]) <= ours or first.op.name != "store":
                    return False
                if any(u.op.name != "load" for u in others):
                    return False
                self.temporaries.add(i)
                counts.append(i.operands[0])
            elif name == "store":
                if i.operands[1] not in self.temporaries:
                    extent = known_extent(i.operands[1], 0)
                    if not isinstance(extent, Value):
                        return False
                    counts.append(extent)
            elif not (name in ("load", "broadcast") or (i.op.kind is Kind.ELEMENTWISE and name in _EXACT)):
                return False
            if any(not _is_row(v) for v in (i, *i.operands) if not is_scalar(v.type)) or not set(users[i]) <= ours:
                return False
        self.count = counts[0] if counts else None
        return bool(counts) and all(v is counts[0] or _is_number(v, counts[0]) for v in counts)

    def accesses(self, distances: RowDistances) -> list[Access | None]:
        """What an element reads and writes, in order; None where it is not known."""
        touching = [i for i in self.instructions if i.op.name in ("load", "store")]
        return [
            distances.of_element(i.operands[-1], i.op.name == "store")
            for i in touching
            if i.operands[-1] not in self.temporaries
        ]

    @staticmethod
    def may_follow(mine: list[Access], others: Iterable[Access], distances: RowDistances) -> bool:
        """Whether no element meets what came after its kernel, in kernels or `others`, in a column before it."""
        behind = list(others)
        for a in reversed(mine):
            if any(distances.may_be_ahead(a, b) for b in behind if a.writes or b.writes):
                return False
            behind.append(a)
        return True

    def emit(self, b: Builder, values: dict[Value, Value], at: Value) -> None:
        """Build the elements of all kernels at a place; values: what else there is in this row."""
        made: dict[Value, Value] = {}

        def of(v: Value) -> Value:
            return made.get(v, values.get(v, v))

        for i in self.instructions:
            if i.op.name == "allocateHeap":
                continue
            if i.op.name not in ("load", "store"):
                operands = [of(v) for v in i.operands]
                made[i] = operands[0] if i.op.name == "broadcast" else b.emit(i.op, *operands, **i.attrs)
            elif i.operands[-1] in self.temporaries:
                source, to = (i.operands[0], i.operands[1]) if i.op.name == "store" else (i.operands[0], i)
                made[to] = of(source)
            else:
                place = b.emit("elementPointer", of(i.operands[-1]), at)
                made[i] = b.emit(i.op, *map(of, i.operands[:-1]), place)


def _is_array(i: Instruction) -> bool:
    """Whether an instruction works on elements of arrays."""
    stored = i.op is OPS["store"] and not is_scalar(i.operands[0].type)
    return stored or (isinstance(i.type, TensorType) and not is_scalar(i.type))


def _is_row(v: Value) -> bool:
    """Whether a value is a row, a pointer to one, or nothing."""
    return not isinstance(v.type, TensorType | PointerType) or (len(v.type.shape) == 1 and v.type.shape[0] != 1)


def _is_number(a: Value, b: Value) -> bool:
    return integer(a) is not None and integer(a) == integer(b)
