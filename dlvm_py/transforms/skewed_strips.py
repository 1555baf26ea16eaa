"""Skewed strips: a chain of kernels over vectors, which read one another shifted, runs strip by strip.

    %t = allocateHeap f64 count (%n)                 conditional %pays then 'strips() else 'whole()
    store (.. load %y) to %t                         'strip(%lo: i64):
    %t0 = section %t at (0) count (%m) step (1)          conditional (%lo < %n + 1) then 'part() else 'behind()
    %t2 = section %t at (2) count (%m) step (1)      'part():        (each part clipped to the elements there are)
    %k1 = section %k at (1) count (%m) step (1)  =>      store (.. load %y[%lo, %lo + 512)) to %w[2, 514)
    store (load %t0 + load %t2) to %k1                   store (load %w[0, 512) + load %w[2, 514)) to
    ..                                                         %k1[%lo - 2, %lo + 510)
                                                         store (load %w[512, 514)) to %w[0, 2)
                                                         branch 'strip(%lo + 512)
                                                     'whole():
                                                         the kernels as they were
                                                         branch 'behind()

The stages of a Runge-Kutta step, and their adjoints, pass over memory once each: what one writes has left the nearest
cache when the next one reads it. In strips it is there. A kernel that reads what another one writes further on lags
behind by as many elements (its *skew*), and so does one that writes what another one still has to read. Memory that
only the chain knows is a *window* of a strip and the elements before it that are still read (%w); a single element that
is read behind the chain is written to the memory itself by its strip. Every element has the steps that it had, and none
is computed twice: the same bits.

A chain is of stores of elementwise trees of rank 1 in one block, and of vectors embedded in longer ones. It may be cut
if what two of them share, and one writes, are places of one array at a literal distance. Scalar steps, single elements
and fresh memory in between run before the chain, or behind it, where that changes nothing.

It pays if arrays are used by two kernels or more on average, and at run time for vectors that do not fit into the
nearest cache, until threads share the kernels, which they cannot where they run in strips.

Cost: quadratic in the kernels of a chain (at most MANY). Stage compute, behind inline_stencils, which makes one kernel
of those that it can, and before hoist_buffers. A second run changes nothing: in a strip, no literals part the places.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce as fold

from dlvm_py.decisions import Decisions
from dlvm_py.frozen import Mutable
from dlvm_py.grain import GRAIN
from dlvm_py.ir.analysis import AliasAnalysis, uses
from dlvm_py.ir.analysis.cost import element_cost
from dlvm_py.ir.analysis.effects import is_pure, may_trap
from dlvm_py.ir.analysis.extents import extent_at
from dlvm_py.ir.analysis.places import Linear, linear
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import is_root, kernels
from dlvm_py.ir.types import TensorType, is_array
from dlvm_py.ir.value import Instruction, Value, integer
from dlvm_py.transforms.kernel_versions import cut_out, is_filled, passes, section_of_rows, tree_of
from dlvm_py.transforms.sibling_fusion import members
from dlvm_py.transforms.unroll_and_jam import LONG

STRIP, SHORT = 512, 128  # elements: at most, and at least
NEAREST = 3 << 13  # bytes of a strip of all arrays that stay in the nearest cache
LARGE = 1 << 15  # bytes of all arrays, from which on strips pay
CARRIED = 64  # elements of a window that the next strip needs, too
FEW, MANY = 4, 40  # kernels of a chain
REUSE = 2  # kernels that use an array, on average
GRAINS = 4  # the work of a kernel until which threads gain less than strips


def run(function: Function, noalias_params: bool = True, decisions: Decisions | None = None) -> bool:
    """Cut the chains of `function` into strips; whether there were any."""
    blocks = [b for b in function.blocks if _has_chain(b)]
    if not blocks or sum(len(b.instructions) for b in function.blocks) > LONG:
        return False
    decisions, changed = decisions or Decisions(), False
    for block in blocks:
        chain = _Finder(function, block, AliasAnalysis(function, noalias_params)).chain()
        usual = 0 if chain is None else _usual(chain)
        size = usual and decisions.take("skewed_strips.elements", usual, (2 * usual, 0))
        if chain is not None and size:
            _Writer(function, block, chain, size).write()
            changed = True
    return changed


def _has_chain(block: Block) -> bool:
    """Whether there may be a chain: stores of vectors, of which some are to sections or from them."""
    stored = [i for i in block.instructions if i.op is OPS["store"] and _is_vector(i.operands[0])]
    return len(stored) >= FEW and any(i.op is OPS["section"] for i in block.instructions)


def _is_vector(v: Value) -> bool:
    return isinstance(v.type, TensorType) and v.type.rank == 1


class _Access(Mutable):
    """Of one kernel: at index j of its first root, the element j + at of a base. at: None if that is not a literal."""

    pointer: Value
    base: Value
    at: int | None
    writes: bool


class _Kernel(Mutable):
    """Roots that are one kernel. first: which index of what its first root writes it begins with. skew: its lag."""

    roots: list[Instruction]
    accesses: list[_Access]
    first: int
    skew: int = 0


class _Elements(Mutable):
    """Of an array: the stores of single elements before the kernels, by their index; which are loaded behind them."""

    stored: dict[int, Instruction]
    loaded: dict[int, None]


class _Chain(Mutable):
    """Kernels. late: what has to run behind them, though it stands between.

    private: memory that only these kernels use, but for single elements.
    """

    kernels: list[_Kernel]
    late: list[Instruction]
    private: dict[Value, _Elements]


def _element_bytes(chain: _Chain) -> int:
    """The bytes of an element of each array."""
    sizes = {a.base: a.pointer.type.dtype.itemsize for k in chain.kernels for a in k.accesses}  # type: ignore[attr-defined]
    return sum(sizes.values())


def _usual(chain: _Chain) -> int:
    """Elements of a strip of which all arrays' are in the nearest cache."""
    size = STRIP
    while size > SHORT and size * _element_bytes(chain) > NEAREST:
        size //= 2
    return size


class _Window(Mutable):
    """Memory for what a strip from %lo on needs of an array: elements from %lo + first on, `more` than a strip has.

    loaded: the elements that are loaded behind the chain, by their index, and by the end of which strip each is done.
    """

    memory: Value
    first: int
    more: int
    stored: dict[int, Instruction]
    loaded: dict[int, int]


class _Finder:
    """The first chain of a block."""

    def __init__(self, function: Function, block: Block, aliases: AliasAnalysis) -> None:
        self.block, self.aliases, self.users = block, aliases, uses(function)
        self._begin()

    def _begin(self) -> None:
        self.found: list[_Kernel] = []
        self.late: dict[Instruction, None] = {}

    def chain(self) -> _Chain | None:
        """Kernels that may be cut and are worth it."""
        for instructions in kernels(self.block.instructions):
            first = instructions[0]
            if is_array(first.type):
                continue
            kernel = _kernel(instructions) if is_root(first) and not _is_single(first) else None
            if kernel is not None:
                if len(self.found) < MANY and self._joins(kernel):
                    self.found.append(kernel)
                    continue
            elif not self.found or all(self._is_between(i) for i in instructions):
                continue
            if (chain := self._worth()) is not None:
                return chain
            self._begin()
            if kernel is not None:
                self.found.append(kernel)
        return self._worth()

    # -- what stands between the kernels -------------------------------------------------------------------

    def _is_between(self, i: Instruction) -> bool:
        """Whether an instruction may run before the kernels found so far, or behind them all (it is late then)."""
        is_access = _is_single(i)
        if not self.late.keys() & set(i.operands) and not self._meets(i, self.late):
            if is_access:
                if not any(self._conflict(i, a.pointer, a.writes) for k in self.found for a in k.accesses):
                    return True
            elif passes(self.aliases, [a.pointer for k in self.found for a in k.accesses if a.writes], i):
                return True
        is_step = is_pure(i) and not may_trap(i) and not any(is_array(v.type) for v in (i, *i.operands))
        if is_access or is_step:
            self.late[i] = None
        return is_access or is_step

    def _meets(self, i: Instruction, others: dict[Instruction, None]) -> bool:
        if not _is_single(i):
            return False
        return any(_is_single(o) and self._conflict(i, _pointer(o), o.op is OPS["store"]) for o in others)

    def _conflict(self, i: Instruction, pointer: Value, writes: bool) -> bool:
        """Whether the order of the load or store of an element and of another access matters."""
        return (writes or i.op is OPS["store"]) and self.aliases.may_overlap(_pointer(i), pointer)

    # -- the kernels -----------------------------------------------------------------------------------------

    def _joins(self, kernel: _Kernel) -> bool:
        """Whether a kernel may be of the chain; its skew is found with that."""
        if any(o in self.late for i in kernel.roots for v in (*tree_of(i.operands[0]), i) for o in v.operands):
            return False
        for i in filter(_is_single, self.late):
            if any(self._conflict(i, a.pointer, a.writes) for a in kernel.accesses):
                return False
        skew = 0
        for other in self.found:
            for a in other.accesses:
                for b in kernel.accesses:
                    if not (a.writes or b.writes):
                        continue
                    if a.base is not b.base:
                        if self.aliases.may_overlap(a.pointer, b.pointer):
                            return False
                        continue
                    if a.at is None or b.at is None or not self.aliases.is_distinct(a.base):
                        return False
                    here, there = b.at - kernel.first, a.at - other.first
                    skew = max(skew, other.skew + here - there)
        kernel.skew = skew
        return skew < min(STRIP, SHORT)

    def _worth(self) -> _Chain | None:
        if len(self.found) < FEW:
            return None
        used = [dict.fromkeys(a.base for a in k.accesses) for k in self.found]
        arrays = dict.fromkeys(base for bases in used for base in bases)  # in the order of the program
        if sum(map(len, used)) < REUSE * len(arrays):
            return None
        last = self.block.instructions.index(self.found[-1].roots[-1])
        late = [i for i in self.late if self.block.instructions.index(i) < last]
        made = {v: self._elements_of(v) for v in arrays if isinstance(v, Instruction) and v.op is OPS["allocateHeap"]}
        return _Chain(self.found, late, {v: found for v, found in made.items() if found is not None})

    def _elements_of(self, array: Instruction) -> _Elements | None:
        """The single elements of memory that only the chain uses otherwise; None if more is done with it."""
        roots = [r for k in self.found for r in k.roots]
        position = {i: k for k, i in enumerate(self.block.instructions)}
        last = position[roots[-1]]
        ours = {*roots, *(v for r in roots for v in tree_of(r.operands[0]) if v.op is OPS["load"])}
        found = _Elements({}, {})
        accesses = (a for k in self.found for a in k.accesses if a.base is array)
        if array.block is not self.block or any(a.at is None for a in accesses):
            return None
        work: list[Instruction] = [array]
        while work:
            p = work.pop()
            for u in self.users[p]:
                if u.op is OPS["section"] and integer(u.operands[3]) == 1:
                    work.append(u)
                elif u.op is OPS["elementPointer"] and p is array and (at := integer(u.operands[1])) is not None:
                    for x in self.users[u]:
                        if not _is_single(x) or _pointer(x) is not u or x.block is not self.block:
                            return None
                        is_behind = x in self.late or position[x] > last
                        if is_behind is (x.op is OPS["store"]) or (not is_behind and at in found.stored):
                            return None
                        if is_behind:
                            found.loaded[at] = None
                        else:
                            found.stored[at] = x
                elif u not in ours and u.op is not OPS["extent"]:
                    return None
        return found


def _is_single(i: Instruction) -> bool:
    """Whether an instruction loads or stores one element, or a number."""
    return (i.op is OPS["load"] and not is_array(i.type)) or (i.op is OPS["store"] and not is_array(i.operands[0].type))


def _pointer(i: Instruction) -> Value:
    return i.operands[1 if i.op is OPS["store"] else 0]


def _kernel(roots: list[Instruction]) -> _Kernel | None:
    """What is known of a kernel of elementwise trees of vectors; None for another one."""
    accesses: list[_Access] = []
    for i in roots:
        if i.op is not OPS["store"] or not _is_vector(i.operands[0]) or i.operands[1].type.shape == (1,):  # type: ignore[attr-defined]
            return None
        accesses.append(_access(i.operands[1], Linear(0), True))
        if not _read(i.operands[0], Linear(0), accesses):
            return None
    first = accesses[0].at
    return None if first is None else _Kernel(roots, accesses, first)


def _access(p: Value, at: Linear, writes: bool) -> _Access:
    """Where a kernel looks by a pointer whose first element is for its index -at."""
    base, start = _base_of(p)
    at = at.plus(start)
    return _Access(p, base, None if at.terms else at.constant, writes)


def _base_of(p: Value) -> tuple[Value, Linear]:
    """What a pointer is a section of, and where it begins."""
    at = Linear(0)
    while isinstance(p, Instruction) and p.op is OPS["section"] and integer(p.operands[3]) == 1:
        at = at.plus(linear(p.operands[1]))
        p = p.operands[0]
    return p, at


def _part(b: Builder, p: Value, start: int, length: int) -> Value:
    return b.emit("section", p, literal(start), literal(length), literal(1))


def _read(top: Value, at: Linear, accesses: list[_Access]) -> bool:
    """Note what a tree reads whose first element is for the index -at; whether it may be cut."""
    if not is_array(top.type):
        return True
    if not isinstance(top, Instruction) or not _is_vector(top) or may_trap(top) or top.type.shape == (1,):  # type: ignore[attr-defined]
        return False
    if top.op is OPS["load"]:
        accesses.append(_access(top.operands[0], at, False))
        return True
    if top.op is OPS["embed"]:
        x, fill, _, start, step = top.operands
        if integer(step) != 1 or not any(v.op is OPS["load"] for v in tree_of(x)):
            return False
        return _read(x, at.plus(linear(start), -1), accesses) and _read(fill, at, accesses)
    is_step = top.op.kind is Kind.ELEMENTWISE or top.op is OPS["broadcast"]
    return is_step and all(_read(o, at, accesses) for o in top.operands)


class _Writer:
    """The two versions of a chain, in new blocks behind its block."""

    def __init__(self, function: Function, block: Block, chain: _Chain, size: int) -> None:
        self.function, self.block, self.chain, self.size = function, block, chain, size
        self.b = Builder(function).at_end(block)
        self.windows: dict[Value, _Window] = {}
        # one pointer for one place: what is read and written in place is seen to be that
        self.sections: dict[tuple[Value, Value, Value], Value] = {}

    def write(self) -> None:
        """Cut the block."""
        roots = [r for k in self.chain.kernels for r in k.roots]
        body, late = self.block.instructions, set(self.chain.late)
        end = body.index(roots[-1]) + 1
        self.block.instructions = [i for i in body[:end] if i not in late] + self.chain.late + body[end:]
        names = ("strips", "strip", "part", "whole", "")
        strips, header, part, whole, behind = cut_out(self.function, self.block, roots, (), names)
        b = self.b
        b.loc = roots[0].loc
        self.counts = [extent_at(b, k.roots[0].operands[1], 0) for k in self.chain.kernels]
        tests = list(self._tests())
        self.least = min(k.first for k in self.chain.kernels)
        self._make_windows(strips)
        b.conditional(fold(lambda x, y: b.emit("and", x, y), tests), strips, None, whole)
        b.at_end(strips)
        for window in self.windows.values():
            for at, store in window.stored.items():
                to = b.emit("elementPointer", window.memory, literal(at - self.least - window.first))
                b.emit("store", store.operands[0], to)
        begins = [literal(k.first + k.skew) for k in self.chain.kernels]
        ends = [b.emit("add", n, at) for n, at in zip(self.counts, begins, strict=True)]
        ends += [literal(at - w.first + 1) for w in self.windows.values() for at in w.loaded]
        end_of_all = fold(lambda x, y: b.emit("max", x, y), dict.fromkeys(ends))
        b.branch(header, [literal(self.least)])
        self.lo = lo = header.add_arg(literal(0).type, "lo")
        b.at_end(header).conditional(b.emit("lessThan", lo, end_of_all), part, None, behind)
        b.at_end(part)
        for k, n in zip(self.chain.kernels, self.counts, strict=True):
            self._write_part(k, n, lo)
        for base, window in self.windows.items():
            for at, strip in window.loaded.items():
                self._keep(base, at, window, strip)
        for window in self.windows.values():
            if window.more:
                kept, length = b.emit("load", _part(b, window.memory, self.size, window.more)), window.more
                b.emit("store", kept, _part(b, window.memory, 0, length))
        b.branch(header, [b.emit("add", lo, literal(self.size))])

    def _make_windows(self, strips: Block) -> None:
        """Memory for what a strip needs of the arrays that nobody else knows."""
        seen: dict[Value, list[int]] = {}
        for k in self.chain.kernels:
            for a in k.accesses:
                if a.base in self.chain.private:
                    assert a.at is not None
                    seen.setdefault(a.base, []).append(a.at - k.first - k.skew)
        for base, elements in self.chain.private.items():
            first, more = min(seen[base]), max(seen[base]) - min(seen[base])
            reached = range(self.least + first, self.least + first + self.size + more)
            if more <= CARRIED and all(at in reached for at in elements.stored):
                memory = self.b.emit("allocateHeap", literal(self.size + more), dtype=str(base.type.dtype))  # type: ignore[attr-defined]
                # all that is done to an element is done by the strip in which the window leaves it behind
                loaded = {at: (at - first - self.least) // self.size for at in elements.loaded}
                self.windows[base] = _Window(memory, first, more, elements.stored, loaded)

    def _keep(self, base: Value, at: int, window: _Window, strip: int) -> None:
        """Write an element that is loaded behind the chain to its array, at the end of the strip that has it."""
        b, lo = self.b, self.least + strip * self.size
        place = b.emit("elementPointer", base, literal(at))
        here = b.emit("elementPointer", window.memory, literal(at - lo - window.first))
        is_there = b.emit("equal", self.lo, literal(lo))
        b.emit("store", b.emit("select", b.emit("load", here), b.emit("load", place), is_there), place)

    def _section(self, p: Value, start: Value, length: Value) -> Value:
        """A part of a vector, or of its window."""
        if (p, start, length) not in self.sections:
            self.sections[p, start, length] = self._new_section(p, start, length)
        return self.sections[p, start, length]

    def _new_section(self, p: Value, start: Value, length: Value) -> Value:
        base, at = _base_of(p)
        window = self.windows.get(base)
        if window is None:
            return section_of_rows(self.b, p, start, length)
        b = self.b
        start = b.emit("add", b.emit("subtract", start, self.lo), literal(at.constant - window.first))
        return section_of_rows(b, window.memory, start, length)

    def _tests(self) -> Iterator[Value]:
        """What must hold for strips to be right, and to pay."""
        b = self.b
        for k, n in zip(self.chain.kernels, self.counts, strict=True):
            for r in k.roots:
                yield from self._are_as_long(r.operands[1], n)
                yield from self._fits(r.operands[0], n)
        longest = fold(lambda x, y: b.emit("max", x, y), dict.fromkeys(self.counts))
        bytes = b.emit("multiply", longest, literal(_element_bytes(self.chain)))
        yield b.emit("greaterThanOrEqual", bytes, literal(LARGE))
        most = max(sum(element_cost(r.operands[0]) for r in k.roots) for k in self.chain.kernels)
        yield b.emit("lessThanOrEqual", longest, literal(int(GRAINS * GRAIN // max(1, most))))

    def _fits(self, top: Value, n: Value) -> Iterator[Value]:
        """Tests that nothing in a tree is stretched to n elements."""
        for v in members(top, but_embedded=True):
            if v.op is OPS["load"]:
                yield from self._are_as_long(v.operands[0], n)
            elif v.op is OPS["broadcast"]:
                yield from self._are_equal(v.operands[1], n)
            elif v.op is OPS["embed"]:
                yield from self._fits(v.operands[0], self._length(v.operands[0]))

    def _are_as_long(self, p: Value, n: Value) -> Iterator[Value]:
        """A test that a vector has n elements, unless it surely has."""
        yield from self._are_equal(extent_at(self.b, p, 0), n)

    def _are_equal(self, m: Value, n: Value) -> Iterator[Value]:
        if m is not n and (integer(m) is None or integer(m) != integer(n)):
            yield self.b.emit("equal", m, n)

    def _length(self, x: Value) -> Value:
        """The extent of a tree that is embedded."""
        return extent_at(self.b, next(v for v in members(x, but_embedded=True) if v.op is OPS["load"]).operands[0], 0)

    def _write_part(self, kernel: _Kernel, count: Value, lo: Value) -> None:
        """A kernel over its elements of a strip."""
        b = self.b
        b.loc = kernel.roots[0].loc
        back = kernel.first + kernel.skew
        start, length = self._clip(b.emit("subtract", lo, literal(back)), literal(self.size), count)
        new: dict[Value, Value] = {}
        # stores of one kernel stand side by side
        stored = [(self._cut(r.operands[0], start, length, new), r.operands[1]) for r in kernel.roots]
        parts = [(value, self._section(p, start, length)) for value, p in stored]
        for r, (value, to) in zip(kernel.roots, parts, strict=True):
            b.loc = r.loc
            b.emit("store", value, to, **r.attrs)

    def _clip(self, start: Value, length: Value, count: Value) -> tuple[Value, Value]:
        """What is in [0, count) of so many elements: the first one, and how many."""
        b = self.b
        end = b.emit("min", b.emit("add", start, length), count)
        first = b.emit("min", b.emit("max", start, literal(0)), count)
        return first, b.emit("max", b.emit("subtract", end, first), literal(0))

    def _cut(self, top: Value, start: Value, length: Value, new: dict[Value, Value]) -> Value:
        """A tree over some of its elements. new: what is made already, of these."""
        if not isinstance(top, Instruction) or not is_array(top.type):
            return top
        if top not in new:
            new[top] = self._made(top, start, length, new)
        return new[top]

    def _made(self, v: Instruction, start: Value, length: Value, new: dict[Value, Value]) -> Value:
        b = self.b
        if v.op is OPS["load"]:
            return b.emit("load", self._section(v.operands[0], start, length))
        if v.op is OPS["broadcast"]:
            of = v.operands[0]
            return b.emit("broadcast", of, length) if is_filled(v) else self._cut(of, start, length, new)
        if v.op is OPS["embed"]:
            x, fill, _, at, step = v.operands
            first, count = self._clip(b.emit("subtract", start, at), length, self._length(x))
            inner = self._cut(x, first, count, {})
            place = b.emit("min", b.emit("max", b.emit("subtract", at, start), literal(0)), length)
            return b.emit("embed", inner, self._cut(fill, start, length, new), length, place, step, name=v.name)
        return b.emit(v.op, *(self._cut(o, start, length, new) for o in v.operands), name=v.name, **v.attrs)
