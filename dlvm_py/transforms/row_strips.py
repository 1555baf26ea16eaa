"""Row strips: kernels over the same rows, with reductions along them, run on a strip of rows after the other.

    store (reduce %x by max along 1) to %m            conditional %is_large then 'strips() else 'whole()
    store (exp (%x - padShape %m)) to %e              'strips():
    store (reduce %e by add along 1) to %s                parallel %trips cost %c if true private (%m1, %e1)
    store (%e / padShape %s) to %y                        branch 'strip(0: i64)
                                                      'strip(%k: i64):
                                               =>         conditional (%k < %trips) then 'rows() else 'behind()
                                                      'rows():
                                                          %x1 = section %x at (%start, 0) count (%length, %n) ...
                                                          store (reduce %x1 by max along 1) to %m1
                                                          store (exp (%x1 - padShape %m1)) to %e1
                                                          ...                (the others, too)
                                                          branch 'strip(%k + 1)
                                                      'whole():
                                                          the kernels as they were
                                                          branch 'behind()

What one kernel writes of a strip is in the nearest caches when the next one reads it: softmax, normalisation by mean
and deviation, and their adjoints pass over memory once, and what only these kernels use has memory for a strip. So does
a product of a tall matrix and a small one with what follows: a bias, an activation, a sum over its columns. Threads
share the strips, not each kernel.

A *group* is a run of kernels of one block, of elementwise trees, of reductions of such, and of products of matrices, of
which the left one is cut. Their first axes, those before the first that is reduced, have the same extents
(ir/analysis/equal_extents.py); of several the last is cut into strips, of the others a strip has one index. It may be
cut if

* what a kernel writes another one reads or writes at the same row only: what may share memory is the same elements;
* no array is column-major: its rows do not lie together; another shape of an array has rows of the same elements;
* what a product has on its right is written by none of them;
* what stands between the kernels is of scalars, views and fresh memory, and can run before them; checks too, if until
  then only memory has been written that is gone when they fail.

It pays if two kernels read or write the same large array and at least one reduces, or is a product; at run time, if
all of it is more than LARGE bytes, and neither a row nor what products have on their right more than STRIP, of which a
strip has as many rows as fit. Else the kernels run as they were. Keeps every bit of reductions: a row is reduced as
before (backend/cpu/reductions.py), whatever rows are beside it; the order of a product's sums is nobody's promise.

Cost: linear in the kernels of a block with such a reduction, times those of a group (at most MANY).
Stage compute, behind share_loops, for whose `parallel` this loop is known to be fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from functools import reduce as fold

from dlvm_py.decisions import Decisions
from dlvm_py.frozen import Mutable
from dlvm_py.ir.analysis import AliasAnalysis, uses
from dlvm_py.ir.analysis.cost import element_cost
from dlvm_py.ir.analysis.equal_extents import EqualExtents, Extent
from dlvm_py.ir.analysis.extents import extent_at
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import is_root, kernels
from dlvm_py.ir.types import PointerType, TensorType, is_array
from dlvm_py.ir.value import Instruction, Value, integer
from dlvm_py.transforms.kernel_versions import cut_out, elementwise, over_rows, passes, section_of_rows, tree_of
from dlvm_py.transforms.share_loops import share

# bytes: of all rows, from which on strips pay (several times the cache that a core has for itself), and of a strip: a
# quarter of that cache
LARGE, STRIP = 1 << 22, 1 << 17
LEAST = 1 << 13  # bytes of a strip that are worth a round of the loop
MULTIPLICATIONS = 524_287  # of a strip's product: BLAS would share more among threads of its own
MANY = 24  # kernels of a group


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Cut the groups of `function` into strips; whether there were any."""
    decisions, changed = decisions or Decisions(), False
    blocks = list(function.blocks)
    while blocks:
        block = blocks.pop()
        if has_rows(block):
            finder = Finder(function, block, noalias_params, takes_products=True)
            group = finder.group()
            size = _size_of_strips(group, decisions) if group is not None else 0
            if group is not None and size:
                blocks.append(Writer(function, block, group, size).write())
                changed = True
    return changed


def _size_of_strips(group: Group, decisions: Decisions) -> int:
    """The bytes of a strip; 0: its kernels run as they are. The order of a product's sums may depend on it."""
    if any(k.whole for k in group.kernels):
        return STRIP
    return decisions.take("row_strips.bytes", STRIP, (0, STRIP >> 2, STRIP << 2))


def has_rows(block: Block) -> bool:
    """Whether there may be a group in a block."""
    found = [i for i in block.instructions if i.op is OPS["store"]]
    return len(found) > 1 and any(_reduced(i) or _product(i) for i in found)


def _reduced(i: Instruction) -> Instruction | None:
    """The reduction that a store writes, if it leaves the first axis; or None."""
    value = i.operands[0] if i.op is OPS["store"] else None
    if not isinstance(value, Instruction) or value.op is not OPS["reduce"] or not is_array(value.type):
        return None
    return value if min(value.attrs["axes"], default=0) > 0 else None


def _is_along_last(reduction: Instruction) -> bool:
    """Whether the axes that a reduction leaves are the first ones."""
    left, rank = reduction.type.rank, reduction.operands[0].type.rank  # type: ignore[attr-defined]
    return sorted(reduction.attrs["axes"]) == list(range(left, rank))


def _product(i: Instruction) -> Instruction | None:
    """The product of two matrices that a store writes, or None."""
    value = i.operands[0] if i.op is OPS["store"] else None
    if not isinstance(value, Instruction) or value.op is not OPS["dot"]:
        return None
    is_plain = all(isinstance(v, Instruction) and v.op is OPS["load"] and v.type.rank == 2 for v in value.operands)  # type: ignore[attr-defined]
    return value if is_plain else None


class _Kernel(Mutable):
    """Roots of one kernel: stores. extents: of what they write, kept: so many first axes are those of its rows.

    loads: of rows; whole: what all rows read all of, the right side of a product. left: how many axes are before the
    first that it reduces, 0 if it reduces none.
    """

    roots: list[Instruction]
    loads: list[Instruction]
    extents: list[Extent]
    kept: int
    whole: list[Value]
    left: int

    @property
    def pointers(self) -> Iterator[Value]:
        """What it reads, then what it writes."""
        yield from (v.operands[0] for v in self.loads)
        yield from self.written

    @property
    def written(self) -> list[Value]:
        return [r.operands[1] for r in self.roots]


class Group(Mutable):
    """Kernels that strips run. lead: how many first axes they share. private: memory that nothing else knows.

    casts: other shapes of arrays, of the same rows.
    """

    kernels: list[_Kernel]
    lead: int
    private: set[Value]
    casts: set[Value]

    def base_of(self, p: Value) -> Value | None:
        """The array that a pointer is a view of, with the same rows."""
        return base_of(p, self.lead, self.casts)


class Finder:
    """The first group of a block. least: bytes of all rows that are worth it.

    takes_products: whether products of matrices are of a group, and reductions along other axes than the last ones.
    """

    def __init__(
        self, function: Function, block: Block, noalias_params: bool, least: int = LARGE, takes_products: bool = False
    ) -> None:
        self.block, self.least, self.takes_products = block, least, takes_products
        self.casts: set[Value] = set()
        self.facts, self.aliases = EqualExtents(function), AliasAnalysis(function, noalias_params)
        self.users = uses(function)

    def group(self) -> Group | None:
        """Kernels that may be cut and are worth it."""
        found: list[_Kernel] = []
        lead = 0  # 0: no reduction yet
        for instructions in kernels(self.block.instructions):
            first = instructions[0]
            if not is_root(first):
                written = (p for k in found for p in k.written)
                if is_array(first.type) or not found or passes(self.aliases, written, first):
                    continue
            elif (kernel := self._kernel(instructions)) is not None and len(found) < MANY:
                common = self._common(found, lead, kernel) if found else 0
                if common and self._keeps_rows(found, kernel, common):
                    found, lead = [*found, kernel], lead or kernel.left
                    continue
                if (group := self._worth(found, lead)) is not None:
                    return group
                found, lead = [kernel], kernel.left
                continue
            if (group := self._worth(found, lead)) is not None:
                return group
            found, lead = [], 0
        return self._worth(found, lead)

    def _kernel(self, roots: list[Instruction]) -> _Kernel | None:
        """What is known of a kernel, if it goes over rows that are apart."""
        loads: list[Instruction] = []
        whole: list[Value] = []
        left: list[int] = []
        for r in roots:
            if r.op is not OPS["store"] or not is_array(r.operands[0].type):
                return None
            if (product := _product(r)) is not None:
                if not self.takes_products or len(roots) > 1:
                    return None
                rows, right = product.operands
                loads.append(rows)  # type: ignore[arg-type]
                whole.append(right.operands[0])  # type: ignore[attr-defined]
                left.append(1)
                continue
            top = r.operands[0]
            if (reduced := _reduced(r)) is not None:
                if not self.takes_products and not _is_along_last(reduced):
                    return None
                top = reduced.operands[0]
                left.append(min(reduced.attrs["axes"]))
            members = elementwise(top)
            if members is None:
                return None
            loads += [v for v in members if v.op is OPS["load"]]
        for p in (*(v.operands[0] for v in loads), *(r.operands[1] for r in roots)):
            self._look_for_casts(p)
        kept = min([_rank_left(r) for r in roots] + left)
        kernel = _Kernel(roots, loads, self.facts.of(roots[0].operands[1]), kept, whole, min(left, default=0))
        # column-major rows do not lie together: a strip of them would be a piece of each column
        return kernel if kept and all(p.type.layout != "F" for p in kernel.pointers) else None  # type: ignore[attr-defined]

    def _look_for_casts(self, p: Value) -> None:
        """Note other shapes of arrays that have the same rows."""
        while isinstance(p, Instruction) and p.op in (OPS["padShape"], OPS["shapeCast"]):
            q = p.operands[0]
            if p.op is OPS["shapeCast"] and self.takes_products:
                firsts = self.facts.of(p)[:1], self.facts.of(q)[:1]
                if firsts[0] and self.facts.are_equal(*firsts, p):
                    self.casts.add(p)
            p = q

    def _base_of(self, p: Value, lead: int) -> Value | None:
        return base_of(p, lead, self.casts)

    def _common(self, found: list[_Kernel], lead: int, kernel: _Kernel) -> int:
        """How many first axes the kernel shares with those before it; 0: it is of no group with them."""
        left = kernel.left
        if lead and left and left < lead:
            return 0
        common = lead or left or 1
        if any(k.kept < common for k in (*found, kernel)):
            return 0
        same = all(self.facts.are_equal(k.extents[:common], kernel.extents[:common], kernel.roots[0]) for k in found)
        return common if same else 0

    def _keeps_rows(self, found: list[_Kernel], kernel: _Kernel, lead: int) -> bool:
        """Whether a kernel may run on some rows before those of the group run on the next ones."""
        for other in found:
            for one, whole in ((kernel, other.whole), (other, kernel.whole)):
                if any(self.aliases.may_overlap(p, q) for p in whole for q in one.written):
                    return False
            for mine, theirs in ((kernel.written, list(other.pointers)), (list(kernel.pointers), other.written)):
                for p in mine:
                    for q in theirs:
                        if self.aliases.may_overlap(p, q) and not self._are_same_rows(p, q, lead):
                            return False
        return True

    def _are_same_rows(self, p: Value, q: Value, lead: int) -> bool:
        a, b = self._base_of(p, lead), self._base_of(q, lead)
        return a is not None and b is not None and self.aliases.same_elements(a, b) and self.aliases.is_distinct(a)

    def _worth(self, found: list[_Kernel], lead: int) -> Group | None:
        if not lead or len(found) < 2:
            return None
        size = _size_of(found, lead)
        if size is not None and size < self.least:
            return None
        seen: dict[Value, int] = {}
        for kernel in found:
            for base in {self._base_of(p, lead) or p for p in kernel.pointers if varies(p, lead)}:
                seen[base] = seen.get(base, 0) + 1
        if max(seen.values(), default=0) < 2:
            return None
        members = {x for k in found for x in (*k.roots, *k.loads)}
        made = {self._base_of(p, lead) for k in found for p in k.written}
        private = {v for v in made if isinstance(v, Instruction) and self._is_private(v, lead, members)}
        return Group(found, lead, private, self.casts if lead == 1 else set())

    def _is_private(self, v: Instruction, lead: int, members: set[Instruction]) -> bool:
        if v.op is not OPS["allocateHeap"] and not self._is_view_of_rows(v, lead):
            return False
        return v.block is self.block and all(
            u in members or (self._is_view_of_rows(u, lead) and self._is_private(u, lead, members))
            for u in self.users[v]
        )

    def _is_view_of_rows(self, v: Instruction, lead: int) -> bool:
        return (v.op is OPS["padShape"] and v.attrs["at"] >= lead) or (lead == 1 and v in self.casts)


def _rank_left(r: Instruction) -> int:
    return r.operands[1].type.rank  # type: ignore[attr-defined,no-any-return]


def base_of(p: Value, lead: int, casts: Set[Value]) -> Value | None:
    """What axes behind the first ones have been added to, or, if that is one, what another shape has been given."""
    while isinstance(p, Instruction) and (p.op is OPS["padShape"] or (lead == 1 and p in casts)):
        if p.op is OPS["padShape"] and p.attrs["at"] < lead:
            return None
        p = p.operands[0]
    return p


def varies(p: Value, lead: int) -> bool:
    """Whether a pointer has rows of its own, of more than one element."""
    shape = p.type.shape  # type: ignore[attr-defined]
    return len(shape) > lead and 1 not in shape[:lead] and any(n != 1 for n in shape[lead:])


def _size_of(found: list[_Kernel], lead: int) -> int | None:
    """The bytes of all of it, where the extents are known."""
    total = 0
    for p in {p for k in found for p in k.pointers if p.type.rank > lead}:  # type: ignore[attr-defined]
        shape, dtype = p.type.shape, p.type.dtype  # type: ignore[attr-defined]
        if None in shape:
            return None
        total += fold(lambda a, b: a * b, shape, dtype.itemsize)
    return total


class Writer:
    """The two versions of a group, in new blocks behind its block."""

    def __init__(self, function: Function, block: Block, group: Group, size: int = STRIP) -> None:
        self.size = size
        self.function, self.block, self.group = function, block, group
        self.lead = group.lead
        self.b = Builder(function).at_end(block)
        self.strips: dict[Value, Value] = {}  # a pointer → that to the rows of a strip

    def write(self) -> Block:
        """Cut the block; the block that what stood behind the group is in."""
        roots = [r for k in self.group.kernels for r in k.roots]
        names = ("strips", "strip", "rows", "whole", "")
        strips, header, rows, whole, behind = cut_out(self.function, self.block, roots, self.group.private, names)
        self._write_choice(strips, whole)
        self._write_loop(strips, header, rows, behind)
        return behind

    def _write_choice(self, strips: Block, whole: Block) -> None:
        b, lead, some = self.b, self.lead, self.group.kernels[0].roots[0]
        b.loc = some.loc
        self.extents = self.extents_of(some.operands[1], lead)
        pointers = [p for k in self.group.kernels for p in k.pointers]
        arrays = dict.fromkeys(self.group.base_of(p) or p for p in pointers if varies(p, lead))
        b.conditional(fold(lambda x, y: b.emit("and", x, y), self._tests(arrays)), strips, None, whole)

    def _tests(self, arrays: Iterable[Value]) -> list[Value]:
        """What must hold for the loop to pay, of the arrays that have rows."""
        b = self.b
        sizes = [self.product([*self.row(p), literal(p.type.dtype.itemsize)]) for p in arrays]  # type: ignore[attr-defined]
        size = fold(lambda x, y: b.emit("add", x, y), sizes)
        fit = b.emit("floorDivide", literal(self.size), b.emit("max", size, literal(1)))
        fit = b.emit("min", fit, self.extents[-1])
        right = {p: self.product(self.extents_of(p, 2)) for k in self.group.kernels for p in k.whole}
        for each in right.values():
            most = b.emit("floorDivide", literal(MULTIPLICATIONS), b.emit("max", each, literal(1)))
            fit = b.emit("min", fit, most)
        self.rows = b.emit("max", fit, literal(1))
        total = b.emit("multiply", self.product(self.extents), size)
        whole = [b.emit("multiply", n, literal(p.type.dtype.itemsize)) for p, n in right.items()]  # type: ignore[attr-defined]
        return [
            *(b.emit("lessThanOrEqual", n, literal(STRIP)) for n in whole),
            b.emit("greaterThanOrEqual", total, literal(LARGE)),
            b.emit("lessThanOrEqual", size, literal(self.size)),
            b.emit("greaterThanOrEqual", b.emit("multiply", self.rows, size), literal(LEAST)),
        ]

    def extents_of(self, p: Value, count: int) -> list[Value]:
        """The first extents of an array."""
        return [extent_at(self.b, p, k) for k in range(count)]

    def row(self, p: Value) -> list[Value]:
        """The extents of a row of an array."""
        return [extent_at(self.b, p, k) for k in range(self.lead, p.type.rank)]  # type: ignore[attr-defined]

    def product(self, factors: Sequence[Value]) -> Value:
        """That of one or more numbers."""
        return fold(lambda x, y: self.b.emit("multiply", x, y), factors)

    def _write_loop(self, strips: Block, header: Block, rows: Block, behind: Block) -> None:
        b = self.b.at_end(strips)
        up = b.emit("subtract", b.emit("add", self.extents[-1], self.rows), literal(1))
        cuts = b.emit("floorDivide", up, self.rows)
        trips = self.product([*self.extents[:-1], cuts])
        share(b, self.block, trips, self._cost_of_all)
        b.branch(header, [literal(0)])
        k = header.add_arg(literal(0).type, "k")
        b.at_end(header).conditional(b.emit("lessThan", k, trips), rows, None, behind)
        b.at_end(rows)
        *self.indices, strip = self._indices(k, cuts)
        self.start = b.emit("multiply", strip, self.rows)
        self.length = b.emit("min", self.rows, b.emit("subtract", self.extents[-1], self.start))
        for kernel in self.group.kernels:
            new: dict[Value, Value] = {}
            b.loc = kernel.roots[0].loc
            # stores of one kernel stand side by side
            stored = [(self._copied(r.operands[0], new), self._strip(r.operands[1])) for r in kernel.roots]
            for r, (value, to) in zip(kernel.roots, stored, strict=True):
                b.loc = r.loc
                b.emit("store", value, to, **r.attrs)
        b.branch(header, [b.emit("add", k, literal(1))])

    def _cost_of_all(self) -> Value:
        costs = [self._cost(r) for k in self.group.kernels for r in k.roots]
        return self.b.emit("multiply", self.product(self.extents), fold(lambda x, y: self.b.emit("add", x, y), costs))

    def _cost(self, r: Instruction) -> Value:
        """Of one row."""
        if (dot := _product(r)) is not None:
            rows = dot.operands[0].operands[0]  # type: ignore[attr-defined]
            return self.product([*self.row(rows), *self.row(r.operands[1])])
        reduced = _reduced(r)
        value = reduced.operands[0] if reduced is not None else r.operands[0]
        assert isinstance(value.type, TensorType)
        widest = next((v for v in _tree(r) if v.op is OPS["load"] and _is_whole(v, value)), None)
        extents = self.row(widest.operands[0] if widest is not None and reduced is not None else r.operands[1])
        return self.product([literal(max(1, element_cost(value))), *extents])

    def _indices(self, k: Value, cuts: Value) -> list[Value]:
        """The first indices of a strip, and its number along the axis that is cut."""
        b, found = self.b, []
        for n in (cuts, *self.extents[-2:0:-1])[: self.lead - 1]:
            rest = b.emit("floorDivide", k, n)
            found.append(b.emit("subtract", k, b.emit("multiply", rest, n)))
            k = rest
        return [k, *found[::-1]]

    def _copied(self, v: Value, new: dict[Value, Value]) -> Value:
        """A tree over a strip."""
        if not isinstance(v, Instruction) or not is_array(v.type):
            return v
        if v.op is OPS["dot"]:
            rows, right = (x.operands[0] for x in v.operands)  # type: ignore[attr-defined]
            factors = (self.b.emit("load", p) for p in (self._strip(rows), right))
            return self.b.emit("dot", *factors, name=v.name)
        return over_rows(self.b, v, self._strip, self.length, new, self.lead)

    def _strip(self, p: Value) -> Value:
        """A pointer to the rows of the strip."""
        if p not in self.strips:
            self.strips[p] = self._make_strip(p)
        return self.strips[p]

    def _make_strip(self, p: Value) -> Value:
        b, lead = self.b, self.lead
        if p in self.group.casts and isinstance(p, Instruction):
            return b.emit("shapeCast", self._strip(p.operands[0]), self.length, *p.operands[2:], **p.attrs)
        if p in self.group.private and isinstance(p, Instruction):
            whole = b.emit("allocateHeap", self.rows, *p.operands[lead:], name=p.name, **p.attrs)
            return self._section(whole, literal(0))
        if isinstance(p, Instruction) and p.op is OPS["padShape"] and self.group.base_of(p) in self.group.private:
            return b.emit("padShape", self._strip(p.operands[0]), at=p.attrs["at"] - lead + 1)
        shape = p.type.shape  # type: ignore[attr-defined]
        assert isinstance(p.type, PointerType)
        if lead > 1:
            p = b.emit("elementPointer", p, *(self._index(shape[k], k) for k in range(lead - 1)))
        is_stretched = shape[lead - 1] == 1 and integer(self.extents[-1]) != 1
        return p if is_stretched else self._section(p, self.start)

    def _index(self, extent: int | None, k: int) -> Value:
        return literal(0) if extent == 1 else self.indices[k]

    def _section(self, p: Value, start: Value) -> Value:
        return section_of_rows(self.b, p, start, self.length)


def _is_whole(load: Instruction, value: Value) -> bool:
    """Whether a load has all extents of a tree: none is stretched."""
    mine, all_ = load.type.shape, value.type.shape  # type: ignore[attr-defined]
    return all(m != 1 or n == 1 for m, n in zip(mine, all_, strict=True))


def _tree(root: Instruction) -> list[Instruction]:
    """The array values under a root."""
    return tree_of(root.operands[0])
