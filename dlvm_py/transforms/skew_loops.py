"""Skewed loops: four rows of a recurrence run side by side, each as many columns behind the one before as it must be.

    'rows(%i):                                      'groups(%g):  %0 = 4 * %g, %1 = %0 + 1, ..   (rows of the group)
        lessThan %i, %n ...                             row %0 runs 6 columns, row %1 runs 4, row %2 runs 2
    'columns(%k):                                   'together(%e, %p0, .., %p3):
        lessThan %k, %m                                 %q0 = (add (load %a at %0, %e + 8), %p0) / 3
        then 'body() else 'rows(%i + 1)        =>       store %q0 to (%a at %0 + 1, %e + 7)
    'body():                                            %q1 = (add (load %a at %1, %e + 6), %p1) / 3
        %x = load (%a at %i, %k + 2)                    store %q1 to (%a at %1 + 1, %e + 5)
        %p = load (%a at %i + 1, %k)                    ... rows %2, %3
        %q = (add %x, %p) / 3                           branch 'together(%e + 1, %q0, %q1, %q2, %q3)
        store %q to (%a at %i + 1, %k + 1)              row %1 runs its last 2 columns, row %2 4, row %3 6
        branch 'columns(%k + 1)                     'rows: as it was, for the rows that are left

Each column of a recurrence (a sweep of Gauss-Seidel or SOR, a filter along rows, a table of dynamic programming) waits
for the column before it. Rows that do not depend on each other have four such chains under way at a time. If a row
reads what the row before it writes, up to two columns ahead, say, it may run three columns behind that row, at the same
time (row_distances.py): a wavefront. Every operation has the operands that it had: the same bits.

The nest: an outer loop that carries nothing but its counter, and in it one loop whose ends are the same in all rows,
left at its head, which stores elements, and is a recurrence: it carries floats, or reads what it has written one or two
trips ago. Kernels before that loop run with its columns (row_kernels.py). Nothing but elements of arrays from outside
is read and written in a row. What a trip may raise must not happen in rows that are not its turn yet: conditions before
the loop say that nothing raises (loop_bounds.py), and that rows are long enough; else all rows run one after the other.
What a row reads one trip after it wrote it is handed on as a value: with the stores of other rows in between, LLVM
would load it again, and the chain go through memory. What it reads of the row before was stored a few steps ago: LLVM
is kept from reading two such elements at once (`WAVEFRONT`), which the CPU does not before both are in the cache.

The loop of groups counts, so that threads share it where rows are apart; this pass stands before share_loops.py. Stage
compute, once in a pipeline: what is left is such a nest. Cost: none for functions without such a loop.
"""

from __future__ import annotations

from dlvm_py.decisions import Decisions
from dlvm_py.frozen import Frozen
from dlvm_py.ir import OPS, Block, Builder, Function, Instruction, Kind, TensorType, Value, is_scalar, literal
from dlvm_py.ir.analysis.alias import SHARED
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counted_loop, is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure, may_trap, unchecked
from dlvm_py.ir.analysis.independence import Independence
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.row_distances import WAVEFRONT, RowDistances
from dlvm_py.transforms.cfg_canonicalization import join_edges, move_block
from dlvm_py.transforms.inline import clone_region
from dlvm_py.transforms.loop_bounds import LoopBounds
from dlvm_py.transforms.loop_nests import Loop as NewLoop
from dlvm_py.transforms.loop_nests import made_again
from dlvm_py.transforms.row_kernels import RowKernels
from dlvm_py.transforms.substitution import substitute

ROWS = 4
_BODY = 60  # instructions of a column
_ASIDE = 60  # and of a row around them
_FAR = 8  # columns that a row may be behind
_NEAR = (1, 2)  # trips after which a chain has to be waited for


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Skew the nests of `function` that are recurrences along rows; whether there were any."""
    if function.meta.get(SHARED):
        return False
    changed = False
    for header in [loop.header for loop in LoopForest(function).loops if _may_fit(loop)]:
        found = Independence(function, noalias_params)
        (loop,) = (loop for loop in found.forest.loops if loop.header is header)
        rows = _Rows(function, found, loop)
        count = (decisions or Decisions()).take("skew_loops.rows", ROWS, (2, 8, 1)) if rows.is_fit() else 1
        skew = rows.skew(count) if count > 1 else None
        changed |= skew is not None and rows.make(count, skew)
    return changed


def _may_fit(loop: Loop) -> bool:
    """Whether a loop looks like such a nest."""
    if len(loop.children) != 1 or len(loop.header.args) != 1 or loop.children[0].children:
        return False
    names = [i.op.name for b in loop.children[0].ordered for i in b.instructions]
    return "store" in names and "load" in names and len(names) <= _BODY


class _Kept(Frozen):
    """A load that reads what a store of the trip before wrote."""

    load: Instruction
    store: Instruction


class _Row(Frozen):
    """One of the rows of a group: what the values of the nest are in it, and what goes from column to column."""

    values: dict[Value, Value]
    carried: list[Value]


class _Rows:
    """A loop and the one in it. way: the blocks from its head to the inner one. tail: those behind the inner one."""

    def __init__(self, function: Function, found: Independence, loop: Loop) -> None:
        self.function, self.found, self.loop = function, found, loop
        self.edges = predecessors(function)
        self.outer, self.inner = (counted_loop(each, self.edges) for each in (loop, loop.children[0]))

    # -- whether -----------------------------------------------------------------------------------------

    def is_fit(self) -> bool:
        """Whether it is a nest of rows and columns, and a recurrence."""
        if self.outer is None or self.inner is None:
            return False
        inner = self.inner.loop
        if not all(is_outside(v, self.loop) for v in (self.inner.first, self.inner.last)):
            return False
        self.way: list[Block] = []
        block = self.outer.body
        while block is not inner.header and len(self.edges[block]) == len(block.targets) == 1 and not block.args:
            self.way.append(block)
            block = block.targets[0].block
        if block is not inner.header:
            return False
        known = {self.loop.header, *self.way, *inner.blocks}
        self.tail = [b for b in self.loop.ordered if b not in known]
        self.columns = [b for b in inner.ordered if b is not inner.header]
        leaves = [(b, b.targets[k].block) for each in (self.loop, inner) for b, k in each.exit_edges()]
        if any(b not in (self.loop.header, inner.header) and not self._raises(to) for b, to in leaves):
            return False
        if any(len(b.instructions) != 2 for b in (self.loop.header, inner.header)) or len(inner.latches) != 1:
            return False
        aside = [i for b in (*self.way, *self.tail) for i in b.instructions]
        body = [i for b in self.columns for i in b.instructions]
        self.kernels = RowKernels(self.function, self.way)
        kernels = set(self.kernels.instructions)
        if not self.kernels.is_fit or len(aside) > _ASIDE:
            return False
        if not all(_is_step(i) for i in (*aside, *body) if i not in kernels):
            return False
        self.distances = RowDistances(self.outer, self.inner, self.found.alias)
        touching = [i for i in (*aside, *body) if i.op.name in ("load", "store") and i not in kernels]
        of_columns, of_kernels = [self.distances.of(i) for i in touching], self.kernels.accesses(self.distances)
        self.of = {i: a for i, a in zip(touching, of_columns, strict=True) if a is not None}
        self.of_kernels = [a for a in of_kernels if a is not None]
        if len(self.of) < len(of_columns) or len(self.of_kernels) < len(of_kernels):
            return False
        of_body = [a for a in self.of.values() if a.moves]
        return RowKernels.may_follow(self.of_kernels, of_body, self.distances) and self._is_recurrence()

    def _raises(self, block: Block) -> bool:
        return block not in self.loop.blocks and block.instructions[-1].op.name == "raise"

    def _is_recurrence(self) -> bool:
        """Whether a column waits for the one before it; finds what is handed on."""
        assert self.inner is not None
        inside = [i for i in self.of if i.block in self.inner.loop.blocks]
        loads = [i for i in inside if i.op.name == "load"]
        stores = [i for i in inside if i.op.name == "store"]
        near = [(r, w) for r in loads for w in stores if self.distances.handed_on(self.of[w], self.of[r]) in _NEAR]
        floats = [a for a in self.inner.loop.header.args if is_scalar(a.type) and a.type.dtype.kind == "f"]  # type: ignore[attr-defined]
        self.kept: list[_Kept] = []
        dominators = of_graph(DominatorTree, self.function)
        (latch,) = self.inner.loop.latches
        for load in loads:
            read = self.of[load]
            if any(a.writes and self.distances.may_meet(a, read, (0,)) for a in self.of_kernels):
                continue
            writers = [w for w in stores if self.distances.may_meet(self.of[w], read, (0, 1))]
            last = writers[-1] if writers else None
            if last is None or any(w.block is not last.block or w.operands[1] is not last.operands[1] for w in writers):
                continue
            always = all(dominators.dominates(i.block, latch) for i in (load, last))  # type: ignore[arg-type]
            if always and self.distances.handed_on(self.of[last], read) == 1 and self._is_of_counter(load.operands[0]):
                self.kept.append(_Kept(load, last))
        return bool(near or (floats and stores))

    def _is_of_counter(self, v: Value) -> bool:
        """Whether a pointer can be made before the columns."""
        assert self.inner is not None
        if v is self.inner.counter or is_outside(v, self.inner.loop):
            return True
        return isinstance(v, Instruction) and is_pure(v) and all(map(self._is_of_counter, v.operands))

    def skew(self, rows: int) -> int | None:
        """By how many columns each row is behind the one before it; None where that would not do."""
        apart = self.found.of(self.loop).independent
        found = 0 if apart else self.distances.skew([*self.of_kernels, *self.of.values()], rows)
        return found if found is not None and found <= _FAR else None

    # -- making it ---------------------------------------------------------------------------------------

    def make(self, rows: int, skew: int) -> bool:
        """Put the loop of groups before the nest; False where what may raise cannot be said beforehand."""
        assert self.outer is not None and self.inner is not None
        scratch = Function("", self.function.result)
        if not self._never_raises(LoopBounds(Builder(scratch, scratch.new_block()), self.found, self.loop)):
            return False
        header = self.loop.header
        entering = [(p, k) for p, k in self.edges[header] if p not in self.loop.blocks]
        before = join_edges(self.function, entering, "skewed")
        move_block(self.function, before, before=header)
        b = self.b = Builder(self.function).before(before.instructions[-1])
        b.loc = header.instructions[-1].loc
        bounds = LoopBounds(b, self.found, self.loop)
        self._never_raises(bounds)
        columns = self._trips(self.inner)
        fine = b.emit("and", bounds.condition(), b.emit("lessThanOrEqual", literal(max(1, skew * (rows - 1))), columns))
        if self.kernels.count is not None:
            fine = b.emit("and", fine, b.emit("equal", self.kernels.count, columns))
        groups = b.emit("floorDivide", b.emit("max", self._trips(self.outer), literal(0)), literal(rows))
        count = b.emit("select", groups, literal(0), fine)
        before.instructions.pop()
        b.at_end(before)

        loop = NewLoop(b, count, names=("groups", "group", "left"))
        first = b.emit("multiply", loop.index, literal(rows))
        lanes = [self._enter(b.emit("add", first, literal(t))) for t in range(rows)]
        lead = skew * (rows - 1)
        if skew:
            self.function.meta[WAVEFRONT] = True
        for t, row in enumerate(lanes):
            self._load_kept(row)
            if lead > skew * t:
                self._run([row], 0, literal(0), literal(lead - skew * t))
        self._run(lanes, skew, literal(lead), b.emit("subtract", columns, literal(lead)))
        for t, row in enumerate(lanes):
            if skew * t:
                self._run([row], 0, b.emit("subtract", columns, literal(skew * t)), literal(skew * t))
        for row in lanes:
            self._leave(row)
        loop.close()
        done = b.emit("multiply", count, literal(rows * self.outer.step))
        b.branch(header, [b.emit("add", self.outer.first, done)])
        return True

    def _never_raises(self, bounds: LoopBounds) -> bool:
        """Whether conditions before the nest can say that nothing in it raises."""
        inside = [i for b in (*self.way, *self.columns, *self.tail) for i in b.instructions if may_trap(i)]
        raising = [b for b in dict.fromkeys(t.block for p in self.loop.ordered for t in p.targets) if self._raises(b)]
        behind = [b.instructions[-1] for b in raising]
        if any(len(self.edges[b]) != 1 for b in raising):
            return False
        return all([bounds.never_fails(i) for i in (*inside, *behind)])

    def _trips(self, counted: CountedLoop) -> Value:
        low, high = counted.ends
        return self.b.emit("subtract", high, low)

    def _counter(self, counted: CountedLoop, trip: Value) -> Value:
        """The counter of a loop in one of its trips."""
        return self.b.emit("add" if counted.step == 1 else "subtract", counted.first, trip)

    def _copies(
        self, region: list[Block], values: dict[Value, Value], entry: Block | None = None
    ) -> dict[Block, Block]:
        """A copy of some blocks, behind the open one, in which nothing raises."""
        made = clone_region(region, values, "row_", entry)
        at = self.function.blocks.index(self.b.block) + 1  # type: ignore[arg-type]
        self.function.blocks[at:at] = made
        for block in made:
            block.instructions = [i for i in block.instructions if i.op is not OPS["check"]]
            for i in block.instructions:
                i.attrs = unchecked(i)
            stays = [t for t in block.targets if not self._raises(t.block)]
            if len(stays) < len(block.targets):
                (target,) = stays
                block.instructions.pop()
                block.append(Instruction(OPS["branch"], [], targets=[target]))
        return dict(zip(region, made, strict=True))

    def _enter(self, trip: Value) -> _Row:
        """Begin a row: what stands before its columns."""
        assert self.outer is not None and self.inner is not None
        b, inner = self.b, self.inner.loop.header
        values: dict[Value, Value] = {self.outer.counter: self._counter(self.outer, trip)}
        (entry,) = (t for block in (*self.way, self.loop.header) for t in block.targets if t.block is inner)
        if self.way:
            copies = self._copies(self.way, values, self.way[0])
            kernels = {values[i] for i in self.kernels.instructions}
            for block in copies.values():
                block.instructions = [i for i in block.instructions if i not in kernels]
            b.branch(copies[self.way[0]], [])
            b.at_end(copies[self.way[-1]])
            b.block.instructions.pop()  # type: ignore[union-attr]
        return _Row(values, [values.get(v, v) for a, v in zip(inner.args, entry.args, strict=True) if self._is_own(a)])

    def _is_own(self, arg: Value) -> bool:
        """Whether an argument of the inner loop's head is more than its counter."""
        assert self.inner is not None
        return arg is not self.inner.counter

    def _load_kept(self, row: _Row) -> None:
        """What the first column of a row reads is there before it."""
        assert self.inner is not None
        values = {**row.values, self.inner.counter: self.inner.first}
        pointers = (made_again(self.b, k.load.operands[0], self.inner.loop, values) for k in self.kept)
        row.carried.extend(self.b.emit("load", p) for p in pointers)

    def _run(self, rows: list[_Row], skew: int, first: Value, count: Value) -> None:
        """A loop of so many columns of rows, the first row from the trip `first` on; they go on behind it."""
        assert self.inner is not None
        b, sizes = self.b, [len(row.carried) for row in rows]
        loop = NewLoop(b, count, [v for row in rows for v in row.carried], names=("together", "columns", "on"))
        trip = b.emit("add", loop.index, first)
        args, passed = list(loop.carried), list[Value]()
        for t, row in enumerate(rows):
            row.carried[:] = [args.pop(0) for _ in range(sizes[t])]
            passed += self._column(row, b.emit("subtract", trip, literal(skew * t)) if skew * t else trip)
        loop.close(*passed)

    def _column(self, row: _Row, trip: Value) -> list[Value]:
        """One column of a row; what it hands on to the next one."""
        assert self.inner is not None
        own = [a for a in self.inner.loop.header.args if self._is_own(a)]
        values = {**row.values, **dict(zip(own, row.carried, strict=False))}
        values[self.inner.counter] = self._counter(self.inner, trip)
        self.kernels.emit(self.b, row.values, trip)
        (entry,) = (t for t in self.inner.loop.header.targets if t.block is self.inner.body)
        values.update((a, values.get(v, v)) for a, v in zip(entry.block.args, entry.args, strict=True))
        copies = self._copies(self.columns, values, entry.block)
        self.b.branch(copies[entry.block], [])
        (latch,) = self.inner.loop.latches
        self.b.at_end(copies[latch])
        (back,) = copies[latch].instructions.pop().targets
        known = {values[k.load]: v for k, v in zip(self.kept, row.carried[len(own) :], strict=True)}
        for block in copies.values():
            block.instructions = [i for i in block.instructions if i not in known]
        substitute(copies.values(), known)
        passed = [v for a, v in zip(back.block.args, back.args, strict=True) if self._is_own(a)]
        passed += [values.get(k.store.operands[0], k.store.operands[0]) for k in self.kept]
        return [known.get(v, v) for v in passed]

    def _leave(self, row: _Row) -> None:
        """End a row: what stands behind its columns."""
        assert self.inner is not None
        header = self.inner.loop.header
        own = [a for a in header.args if self._is_own(a)]
        values = {**row.values, **dict(zip(own, row.carried, strict=False)), self.inner.counter: self.inner.last}
        (out,) = (t for t in header.targets if t.block not in self.inner.loop.blocks)
        if out.block is self.loop.header:
            return
        following = self.function.new_block("next", after=self.b.block)
        copies = self._copies(self.tail, values)
        self.b.branch(copies[out.block], [values.get(v, v) for v in out.args])
        for block in copies.values():
            for target in block.targets:
                if target.block is self.loop.header:
                    target.block, target.args = following, []
        self.b.at_end(following)


def _is_step(i: Instruction) -> bool:
    """Whether an instruction is a step of scalars or pointers, or reads or writes one element, or leads on."""
    if i.op.name in ("load", "store"):
        return is_scalar(i.operands[0].type if i.op.name == "store" else i.type)
    if i.op.kind in (Kind.CHECK, Kind.CONTROL):
        return i.op.name in ("check", "branch", "conditional")
    return i.op.is_pure and not (isinstance(i.type, TensorType) and i.type.shape)
