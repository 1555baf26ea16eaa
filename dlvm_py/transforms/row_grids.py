"""Row grids: kernels over the same rows, with reductions along them, as a loop over rows, which a GPU runs as a grid.

    store (reduce %x by max along 1) to %m            conditional %fits then 'grid() else 'whole()
    store (exp (%x - padShape %m)) to %e              'grid():
    store (reduce %e by add along 1) to %s                %e1 = allocateHeap f64 count (%n: i64)
    store (%e / padShape %s) to %y                        branch 'row(0: i64)
                                                      'row(%k: i64):
                                               =>         conditional (%k < %rows) then 'trip() else 'behind()
                                                      'trip():
                                                          %m1 = reduce (load %x[%k]) by max along 0
                                                          store (exp (load %x[%k] - %m1)) to %e1
                                                          %s1 = reduce (load %e1) by add along 0
                                                          store (load %e1 / %s1) to %y[%k]
                                                          branch 'row(%k + 1)
                                                      'whole():
                                                          the kernels as they were
                                                          branch 'behind()

Softmax, normalisation by mean and deviation, and their adjoints are one launch then, a block of threads a row
(ir/analysis/grids.py, backend/gpu/rows.py): what a kernel writes of a row is in the caches when the next one reads it.
What only these kernels use is a number, or memory of the block.

Groups of kernels are found as `row_strips` finds them, and are as right: rows are apart. Of several axes that the
reductions leave, each is a loop. At run time it is done for ROWS rows or more, of which the longest has from SHORT to
LONG elements: a block has threads for some, and what a device's blocks are at stays in its caches. Else, and where the
loop turns out to be no grid, the kernels run as they were. Sums are those of a block: in another order than those of
the reductions, fixed by the extents as well.

Cost: as row_strips; one look at the loops of the function for each group. Stage compute, behind `hoist_buffers`, which
makes grids of loops.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce as fold

from dlvm_py.ir.analysis.grids import nests
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.builder import literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.types import PointerType, is_array
from dlvm_py.ir.value import Instruction, Value
from dlvm_py.transforms.kernel_versions import is_filled, tree_of
from dlvm_py.transforms.row_strips import Finder, Writer, has_rows

ROWS = 32
SHORT, LONG = 32, 4096


def run(function: Function, noalias_params: bool = True) -> bool:
    """Make loops over rows of the groups of `function`; whether there were any."""
    blocks = [b for b in function.blocks if has_rows(b)]
    if not blocks:
        return False
    changed = False
    of = Independence(function, noalias_params)
    loops = [of.forest.loop_of(header) for header in nests(of)]
    inside = {b for loop in loops if loop is not None for b in loop.blocks}  # of loops that are grids already
    blocks = [b for b in blocks if b not in inside]
    while blocks:
        block = blocks.pop()
        group = Finder(function, block, noalias_params, least=1).group() if has_rows(block) else None
        if group is None:
            continue
        writer = _Writer(function, block, group)
        blocks.append(writer.write())
        writer.keep(noalias_params)
        changed = True
    return changed


class _Writer(Writer):
    """The two versions of a group: the kernels, and a loop over rows."""

    def keep(self, noalias_params: bool) -> None:
        """Leave the choice as it is if the loop is a grid; else take the kernels always."""
        if self.head not in nests(Independence(self.function, noalias_params)):
            choice = self.block.instructions[-1]
            choice.operands = [literal(False)]

    def _tests(self, arrays: Iterable[Value]) -> list[Value]:
        b = self.b
        longest = fold(lambda x, y: b.emit("max", x, y), [self.product(self.row(p)) for p in arrays])
        return [
            b.emit("greaterThanOrEqual", self.product(self.extents), literal(ROWS)),
            b.emit("greaterThanOrEqual", longest, literal(SHORT)),
            b.emit("lessThanOrEqual", longest, literal(LONG)),
        ]

    def _write_loop(self, strips: Block, header: Block, rows: Block, behind: Block) -> None:
        b, function = self.b.at_end(strips), self.function
        self.numbers: dict[Value, Value] = {}  # of private memory that has one for each row
        for p in self.group.private:
            if isinstance(p, Instruction) and p.op is OPS["allocateHeap"] and p.type.rank > self.lead:  # type: ignore[attr-defined]
                self.strips[p] = b.emit("allocateHeap", *p.operands[self.lead :], name=p.name, **p.attrs)
        self.head, heads, ends = header, [header], [behind]
        for _ in range(self.lead - 1):
            ends.append(function.new_block("next", after=rows))
            heads.append(function.new_block("strip", after=heads[-1]))
        b.branch(header, [literal(0)])
        self.indices = [head.add_arg(literal(0).type, "k") for head in heads]
        for k, head in enumerate(heads):
            more = b.at_end(head).emit("lessThan", self.indices[k], self.extents[k])
            is_last = k == self.lead - 1
            b.conditional(more, rows if is_last else heads[k + 1], None if is_last else [literal(0)], ends[k])
        for k, end in enumerate(ends[1:]):
            b.at_end(end).branch(heads[k], [b.emit("add", self.indices[k], literal(1))])
        b.at_end(rows)
        for kernel in self.group.kernels:
            new: dict[Value, Value] = {}
            b.loc = kernel.roots[0].loc
            values = [self._copied(r.operands[0], new) for r in kernel.roots]
            for r, value in zip(kernel.roots, values, strict=True):
                self._keep_value(r, value)
        b.branch(heads[-1], [b.emit("add", self.indices[-1], literal(1))])

    def _keep_value(self, r: Instruction, value: Value) -> None:
        """What a root stores: of private memory with a number for each row the number itself."""
        b, p = self.b, r.operands[1]
        b.loc = r.loc
        base = self.group.base_of(p) or p
        if base in self.group.private and base.type.rank == self.lead:  # type: ignore[attr-defined]
            while is_array(value.type):  # of axes of one element
                value = b.emit("squeezeShape", value, at=0)
            self.numbers[base] = value
            return
        to = self._strip(p)
        if not is_array(value.type) and to.type.rank:  # type: ignore[attr-defined]
            value = b.emit("broadcast", value, *self.row(p))
        b.emit("store", value, to, **r.attrs)

    def _copied(self, v: Value, new: dict[Value, Value]) -> Value:
        """A tree over a row."""
        if not isinstance(v, Instruction) or not is_array(v.type):
            return v
        for x in reversed(tree_of(v)):  # operands first
            if x not in new:
                new[x] = self._of_row(x, new)
        return new[v]

    def _of_row(self, x: Instruction, new: dict[Value, Value]) -> Value:
        if x.op is OPS["load"]:
            p = x.operands[0]
            number = self.numbers.get(self.group.base_of(p) or p)
            return self.b.emit("load", self._strip(p)) if number is None else number
        operands = [new.get(o, o) for o in x.operands]
        attrs = dict(x.attrs)
        if is_filled(x):
            del operands[1 : 1 + self.lead]
            if len(operands) == 1:
                return operands[0]
        elif x.op is OPS["reduce"]:
            if not is_array(operands[0].type):  # a number for each row, along axes of one element
                operands[0] = self.b.emit("broadcast", operands[0], *[literal(1)] * len(attrs["axes"]))
            attrs["axes"] = tuple(a - self.lead for a in attrs["axes"])
        return self.b.emit(x.op, *operands, name=x.name, **attrs)

    def _make_strip(self, p: Value) -> Value:
        """A pointer to the row."""
        assert isinstance(p.type, PointerType)
        if isinstance(p, Instruction) and p.op is OPS["padShape"] and p.attrs["at"] >= self.lead:
            return self.b.emit("padShape", self._strip(p.operands[0]), at=p.attrs["at"] - self.lead)
        return self.b.emit("elementPointer", p, *(self._index(p.type.shape[k], k) for k in range(self.lead)))
