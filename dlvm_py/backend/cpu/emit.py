"""IR at stage scheduled → LLVM IR text: the walk over blocks and instructions.

    @f(%x: *<_ x f64>, %n: i64) -> f64       define i32 @"dl.f"(ptr ctx, ptr, ptr, i64, i64, ptr results)
    block arguments                          phis of the flattened values
    array instructions                       nothing; their tree is written at its root (kernels, reductions, dot)
    check, raise                             a branch to a cold block that fills the error record
    loop header                              two blocks: loops run in strips between polls

A loop header 'h gets an outer block that `poll` comes back to and an inner one for the ordinary back edges. The
inner loop leaves when the fuel is used up, a second exit with a trip count that LLVM knows: it vectorises
the inner loop, and never sees the poll inside it. Where the loop counts, the two are one exit (`strips`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dlvm_py.backend.cpu import calls, cells, draw, loops, memory, random, tell
from dlvm_py.backend.cpu.choices import Choices
from dlvm_py.backend.cpu.contract import flat_types, scalar_type
from dlvm_py.backend.cpu.function import FunctionEmitter, Lowered, Site
from dlvm_py.backend.cpu.outline import outline
from dlvm_py.backend.cpu.plan import plan_of
from dlvm_py.backend.cpu.pointers import Pointer, frozen, load_element, may_stay, store_element, unflatten, view
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.share import split
from dlvm_py.backend.cpu.strips import Cut, Strip, may_be_vectors, strip_of, walks_apart
from dlvm_py.backend.cpu.text import ModuleText, masked_loop, single_loop
from dlvm_py.backend.cpu.unsteady import unsteady
from dlvm_py.backend.cpu.values import ONE, Label, Phi, V, i64
from dlvm_py.backend.imports import Imports
from dlvm_py.deferred import deferred
from dlvm_py.errors import PassError
from dlvm_py.frozen import Frozen, field, replace
from dlvm_py.ir import (
    Block,
    BlockArg,
    Function,
    Instruction,
    Kind,
    Module,
    PointerType,
    StackType,
    Target,
    TensorType,
    Type,
    Value,
    is_array,
    tree_rules,
)
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.calls import callees
from dlvm_py.ir.analysis.cfg import predecessors, reverse_postorder
from dlvm_py.ir.analysis.counted_loops import counted_loop
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.analysis.row_distances import WAVEFRONT
from dlvm_py.ir.layout import VARIABLES
from dlvm_py.ir.tree_rules import accumulated, matrix_product
from dlvm_py.options import Options

if TYPE_CHECKING:
    from dlvm_py.backend.cpu import (
        decompositions,
        factored,
        fourier,
        joined,
        kernels,
        matmul,
        order,
        products,
        reductions,
        scatter,
        stores,
        trees,
        windows,
    )
else:
    # what functions without arrays, or without such operations on them, are compiled without
    _LATER = "decompositions factored fourier joined kernels matmul order products reductions scatter stores"
    decompositions, factored, fourier, joined, kernels, matmul, order, products, reductions, scatter, stores = (
        deferred(f"dlvm_py.backend.cpu.{name}") for name in _LATER.split()
    )
    trees, windows = (deferred(f"dlvm_py.backend.cpu.{name}") for name in ("trees", "windows"))


class EmitResult(Frozen):
    """The LLVM module of one function, its symbol, and the places that can raise.

    level: of LLVM's pipeline; 0: as its length says. slp, gathers: as of Schedule. helpers: of the functions that it
    only declares, because modules share them, those that `code.helper` writes; by their names the LLVM IR of each, for
    a table of imports.
    """

    module: ModuleText
    symbol: str
    sites: list[Site]
    level: int
    slp: bool
    gathers: bool
    helpers: dict[str, Callable[[Imports], str]] = field(default_factory=dict)

    @property
    def module_text(self) -> str:
        """The LLVM IR."""
        return str(self.module)


def emit(
    function: Function,
    imports: Imports,
    options: Options,
    *,
    noalias_params: bool = True,
    program: Module | None = None,
    shares: bool = False,
    masks: bool = False,
    permutes: bool = False,
) -> EmitResult:
    """Lower a function at stage scheduled; PassError on anything that an earlier stage should have removed.

    program: where the functions are that it calls; they become kernels of the same text. Their parameters may
    overlap, and so may those of `function` if it is called itself. shares: leave out what all modules have in common
    (`EmitResult.helpers`). masks, permutes: as in ModuleText.
    """
    module = ModuleText(shares, masks, permutes)
    functions = calls.kernels(function, program)
    called = {name for f in functions for name in callees(f)}
    bound: tuple[str, ...] = () if function.name in called else function.meta.get(VARIABLES, ())  # type: ignore[assignment]
    if not called:
        e = FunctionEmitter(module, imports, function, options, noalias_params, bound=bound)
        Control(e).write()
        slp = not function.meta.get(WAVEFRONT)
        return EmitResult(module, e.name, e.sites, _level([e]), slp, not e.walks_apart, module.helpers)
    sites: list[Site] = []
    emitters = []
    for f in functions:
        apart = noalias_params and f is function and f.name not in called
        its = bound if f is function else ()
        emitters.append(FunctionEmitter(module, imports, f, options, apart, sites, its))
        Control(emitters[-1]).write()
    slp = not any(f.meta.get(WAVEFRONT) for f in functions)
    gathers = not any(e.walks_apart for e in emitters)
    return EmitResult(module, f"dl.{function.name}", sites, _level(emitters), slp, gathers, module.helpers)


def _level(emitters: Sequence[FunctionEmitter]) -> int:
    """The level of LLVM's pipeline that these functions are worth.

    O3 unswitches loops, and takes up to twice as long. Kernels have no tests in their loops; what is left to gain is
    the choice between versions of kernels that stand in loops of loops, where they are short and the choice counts.
    """
    return 0 if any(e.chooses_in_loops for e in emitters) else 2


def _parts(type: Type) -> list[str]:
    """The LLVM types of a block argument."""
    if isinstance(type, StackType):
        return ["ptr"]
    if isinstance(type, TensorType) and not type.shape:
        return [scalar_type(type.dtype)]
    return flat_types(type)


class Control:
    """Blocks, edges and terminators; `instruction` writes what is no terminator."""

    def __init__(
        self, e: FunctionEmitter, instruction: Callable[[FunctionEmitter, Instruction], None] | None = None
    ) -> None:
        self.e = e
        self.instruction = instruction or write_instruction
        self.order = reverse_postorder(e.function)
        self.rank = {block: k for k, block in enumerate(self.order)}
        self.forest = of_graph(LoopForest, e.function)
        self.edges = of_graph(predecessors, e.function)
        self.choices = Choices(self.forest, self.edges)
        self.headers = {t.block for b in self.order for t in b.targets if self.rank[t.block] <= self.rank[b]}
        self.labels = {b: e.label("block") for b in self.order}
        self.outer = {b: e.label("strip") for b in self.order if b in self.headers}
        self.phis: dict[Block, list[Phi]] = {}
        self.outer_phis: dict[Block, list[Phi]] = {}
        self.strips = self._find_strips()
        loops_of = ((self.forest.loop_of(header), strip) for header, strip in self.strips.items())
        e.walks_apart |= any(loop is not None and walks_apart(loop, strip) for loop, strip in loops_of)
        self.cuts: dict[Block, Cut] = {}  # of the heads of strips that look at the fuel
        self.shared: dict[Block, loops.SharedLoop] = {}  # by their headers, the loops that threads share
        self.marks: dict[Block, tuple[int, set[V]]] = {}  # of headers: where they begin, and the phis of their loop

    def _find_strips(self) -> dict[Block, Strip]:
        """The loops that count, by their heads."""
        entering: dict[Block, list[Target]] = {}
        for b in self.order:
            for t in b.targets:
                if self.rank[t.block] > self.rank[b]:
                    entering.setdefault(t.block, []).append(t)
        found: dict[Block, Strip] = {}
        # inner loops come after outer ones in `loops`
        for loop in reversed(self.forest.loops):
            if loop.header is not self.order[0]:
                strip = strip_of(loop, entering[loop.header], _is_kernel, found)
                if strip is not None:
                    found[loop.header] = strip
        return found

    def write(self) -> None:
        """All blocks, definitions before uses."""
        for block in self.order:
            self._make_phis(block)
        first = self.order[0]
        for p, phi in zip(self._entry_values(), self._entrance(first), strict=True):
            phi.add(p, self.e.here)
        self.e.br(self.outer.get(first, self.labels[first]))
        for block in self.order:
            position = len(self.e.labels)
            self._begin(block)
            for kernel in tree_rules.kernels(block.instructions):
                self.e.enter_kernel(plan_of(kernel[0]))
                if len(kernel) > 1 and self._write_kernel(block, kernel):
                    continue
                for i in kernel:
                    self.e.loc = i.loc or self.e.loc
                    if i.op.is_terminator:
                        self._terminate(block, i)
                    elif i.op.name == "parallel":
                        self._share(block, i)
                    elif i.op.name == "replay":
                        self._replay(block, i)
                    elif not self._stops(block, i):
                        self.instruction(self.e, i)
            for shared in self.shared.values():
                shared.take(block, self.e.labels[position:])
        self.e.place_exits()
        loops.take_out(self.e, list(self.shared.values()))
        split(self.e)
        outline(self.e)

    def _write_kernel(self, block: Block, kernel: list[Instruction]) -> bool:
        """Write a kernel of several roots; whether that was done."""
        write_kernel(self.e, kernel)
        return True

    def _entry_values(self) -> list[V]:
        if self.order[0] not in self.headers:
            return []
        return [v for p in self.e.function.params for v in self._flat(p)]

    def _make_phis(self, block: Block) -> None:
        if block is self.order[0] and block not in self.headers:
            self.phis[block] = []
            return
        types = [t for a in block.args for t in _parts(a.type)]
        if block in self.outer:
            self.outer_phis[block] = [self.e.phi(t, self.outer[block]) for t in types]
        self.phis[block] = [self.e.phi(t, self.labels[block]) for t in types]
        values = [p.value for p in self.phis[block]]
        for a in block.args:
            width = len(_parts(a.type))
            self.e.env[a] = self._unflat(a, values[:width])
            values = values[width:]

    def _unflat(self, a: Value, values: list[V]) -> Lowered:
        if isinstance(a.type, PointerType):
            return unflatten(a.type, values, self.e.notes(a))
        return values[0]

    def _flat(self, value: Value) -> list[V]:
        found = self.e.lookup(value)
        if isinstance(found, V):
            return [found]
        return self.e.to_memory_form(found)

    def _entrance(self, block: Block) -> list[Phi]:
        return self.outer_phis.get(block, self.phis[block])

    def _begin(self, block: Block) -> None:
        e = self.e
        if block in self.outer:
            e.place(self.outer[block])
            strip = self.strips.get(block)
            if strip is not None and not strip.is_small:
                at = self._place_of(block, strip.counter)
                shared = self.shared.get(block)
                self.cuts[block] = Cut(e, strip, self.outer_phis[block][at].value, shared and shared.stop)
            e.br(self.labels[block])
            for outer, inner in zip(self.outer_phis[block], self.phis[block], strict=True):
                inner.add(outer.value, self.outer[block])
        e.place(self.labels[block])
        self._tell_loop(block)

    def _tell_loop(self, block: Block) -> None:
        """Tell the emitter of the loops around the block: values that were there before the header are fixed."""
        loop = self.forest.loop_of(block)
        if loop is None:
            self.e.enter_loop(0, lambda v: False)
            self.e.inlines = False
            return
        if block is loop.header:
            self.marks[block] = self.e.mark(), {p.value for b in loop.ordered for p in self.phis[b]}
        mark, phis = self.marks[loop.header]
        self.e.enter_loop(loop.depth, lambda v: v in phis or not self.e.is_before(v, mark))
        self.e.inlines = loop.header in self.strips and may_be_vectors(loop, self.strips[loop.header])

    # -- loops that threads share ----------------------------------------------------------------------

    def _share(self, block: Block, mark: Instruction) -> None:
        """Remember that threads share the loop that the block leads to, where there may be threads."""
        loop = self.forest.loop_of(block.targets[0].block)
        counted = counted_loop(loop, predecessors(self.e.function)) if loop is not None else None
        if self.e.module.shares and "grain" in mark.attrs and counted is not None:
            self.shared[counted.loop.header] = loops.begin(self.e, mark, counted)

    def _replay(self, block: Block, mark: Instruction) -> None:
        """The loop that the block leads to is a static sequence of launches; of which a CPU has none."""

    def _stops(self, block: Block, i: Instruction) -> bool:
        """Write the test of the counter of a loop that threads share, against the end of their part."""
        shared = self.shared.get(block)
        if shared is None or i is not block.instructions[-1].operands[0]:
            return False
        how = "slt" if shared.counted.step == 1 else "eq"
        self.e.env[i] = self.e.icmp(how, self.e.scalar(shared.counted.counter), shared.stop)
        return True

    def _enter_shared(self, source: Block, shared: loops.SharedLoop) -> None:
        """The way around the loop, in the place of which threads are asked, and the way in."""
        e, header = self.e, shared.counted.loop.header
        e.br(shared.choose)
        e.place(shared.choose)
        e.place(shared.behind)
        self._jump(source, next(t for t in header.targets if t.block is shared.counted.exit))
        e.place(shared.enter)
        self._arrive(self._entrance(header), [shared.first], self.outer[header])

    def _leave(self, source: Block, target: Target) -> None:
        """An edge, which may be the one that ends a part of the trips."""
        shared = self.shared.get(source)
        if shared is not None and target.block is shared.counted.exit:
            self.e.br(shared.leave)
        else:
            self._jump(source, target)

    # -- edges -----------------------------------------------------------------------------------------

    def _terminate(self, block: Block, i: Instruction) -> None:
        e = self.e
        match i.op.name:
            case "branch":
                shared = self.shared.get(i.targets[0].block)
                if shared is not None and block not in shared.blocks:
                    self._enter_shared(block, shared)
                else:
                    self._jump(block, i.targets[0])
            case "conditional" if block in self.cuts:
                self._go_on_or_leave(block, i, self.cuts[block])
            case "conditional":
                # a block of its own for each edge: both may lead to one block with different values
                labels = [e.label("edge") for _ in i.targets]
                if i.attrs.get("likely"):
                    e.likely(e.scalar(i.operands[0]), *labels)
                else:
                    note = f", !unpredictable {e.module.metadata.node('')}" if self.choices.begin(block) else ""
                    e.cond_br(e.scalar(i.operands[0]), *labels, note)
                for label, target in zip(labels, i.targets, strict=True):
                    e.place(label)
                    self._leave(block, target)
            case "return":
                self._return(i)
            case "raise":
                tell.fail(e, i, i.operands)
            case _:
                raise PassError(f"unknown terminator {i.op.name}")

    def _jump(self, source: Block, target: Target) -> None:
        e, block = self.e, target.block
        values = [v for k, a in enumerate(target.args) for v in self._passed(source, k, a)]
        if self.rank[block] > self.rank[source]:
            self._arrive(self._entrance(block), values, self.outer.get(block, self.labels[block]))
            return
        if block in self.strips:
            self._arrive(self.phis[block], values, self.labels[block], self._hints(block))
            return
        go_on, empty = e.label("back"), e.label("empty")
        e.likely(e.burn(ONE, exactly=self._counts_exactly(block)), go_on, empty)
        e.place(go_on)
        self._arrive(self.phis[block], values, self.labels[block])
        e.place(empty)
        e.poll()
        self._arrive(self.outer_phis[block], values, self.outer[block])

    def _passed(self, source: Block, k: int, value: Value) -> list[V]:
        """The values of argument `k` of an edge."""
        flat = self._flat(value)
        return [self.e.opaque(v) for v in flat] if self.choices.is_apart(source, k) else flat

    def _place_of(self, block: Block, argument: BlockArg) -> int:
        """Which of the phis of a block a scalar argument of it is."""
        return sum(len(_parts(a.type)) for a in block.args[: block.args.index(argument)])

    def _go_on_or_leave(self, block: Block, i: Instruction, cut: Cut) -> None:
        """The test at the head of a strip."""
        e, leave = self.e, cut.strip.leave
        stay, done, exit, empty = (e.label(name) for name in ("edge", "done", "edge", "empty"))
        e.cond_br(cut.stays(e.scalar(cut.strip.counter)), stay, done)
        e.place(stay)
        self._jump(block, i.targets[1 - leave])
        e.place(done)
        e.likely(cut.done(), exit, empty)
        if cut.strip.is_bounded:
            e.place(empty)
            e.poll()
            e.br(exit)
        e.place(exit)
        self._leave(block, i.targets[leave])
        if cut.strip.is_bounded:
            return
        e.place(empty)
        e.poll()
        self._arrive(self.outer_phis[block], [p.value for p in self.phis[block]], self.outer[block])

    def _counts_exactly(self, header: Block) -> bool:
        """Whether nothing else in the loop burns fuel, so that it comes down to 0 in steps of 1."""
        loop = self.forest.loop_of(header)
        if loop is None or loop.header is not header or loop.children:
            return False
        return not any(_is_kernel(i) for b in self.order if loop.contains(b) for i in b.instructions)

    def _arrive(self, phis: list[Phi], values: list[V], label: Label, note: str = "") -> None:
        for phi, v in zip(phis, values, strict=True):
            phi.add(v, self.e.here)
        self.e.br(label, note)

    def _hints(self, header: Block) -> str:
        """What LLVM is told of the trips of a strip that are whole vectors, or what these have left."""
        attrs = header.instructions[-1].attrs
        if attrs.get("rest"):
            return masked_loop(self.e)
        return single_loop(self.e) if attrs.get("whole") else ""

    def _return(self, i: Instruction) -> None:
        e = self.e
        if e.is_in_calls:
            e.give_fuel()
        values = [v for o in i.operands for v in e.to_memory_form(e.lookup(o))]
        struct = "{ " + ", ".join(v.type for v in values) + " }"
        for k, v in enumerate(values):
            place = e.value("ptr", f"getelementptr inbounds {struct}, ptr {e.results.ref}, i32 0, i32 {k}")
            e.store(v, place)
        e.line("ret i32 0")


def _is_kernel(i: Instruction) -> bool:
    return i.op.kind is Kind.CALL or any(is_array(v.type) for v in i.operands)


# -- instructions --------------------------------------------------------------------------------------


def write_instruction(e: FunctionEmitter, i: Instruction) -> None:
    """The code of one instruction that is no terminator; array values wait for the root of their tree."""
    if is_array(i.type):
        return
    row = _ROWS.get(i.op.name)
    if row is not None:
        found = row(e, i)
    elif i.op.kind is Kind.ELEMENTWISE:
        found = _elementwise(e, i)
    elif i.op.kind is Kind.INDEX and isinstance(i.type, PointerType):
        p = view(e, i.op.name, i.attrs, e.pointer(i.operands[0]), [e.scalar(v) for v in i.operands[1:]], i.type)
        found = replace(p, notes=e.notes(i))
    elif i.op.kind in (Kind.INDEX, Kind.GENERATE):
        found = _scalar_of_tree(e, i)
    else:
        raise PassError(f"{i.op.name} at stage scheduled")
    if found is not None:
        e.env[i] = found


def write_kernel(e: FunctionEmitter, roots: Sequence[Instruction]) -> None:
    """The code of roots that are one loop nest."""
    with e.region():
        if matrix_product(roots[0]) is not None:
            work = products.store_products(e, roots)
        elif any(i.op.name == "reduce" for i in roots):
            results, work = joined.write_joined(e, roots)
            e.env |= {i: x for i, x in zip(roots, results, strict=True) if x is not None}
        else:
            sinks = [stores.Sink(e.pointer(i.operands[1]), i.operands[1].type.shape) for i in roots]  # type: ignore[attr-defined]
            work = stores.store_trees(e, [i.operands[0] for i in roots], sinks)
    e.charge(work)


def _elementwise(e: FunctionEmitter, i: Instruction) -> V:
    dtype = i.operands[0].type.dtype  # type: ignore[attr-defined]
    return TABLE[i.op.name][dtype.kind](e, dtype, i.attrs, *(e.scalar(v) for v in i.operands))


def _scalar_of_tree(e: FunctionEmitter, i: Instruction) -> V:
    """A rank 0 result of an index op or broadcast: the only element of its operand."""
    source = i.operands[0]
    if not is_array(source.type):
        return e.scalar(source)
    tree = trees.Tree(e, source)
    tree.fast = False
    tree.index = dict.fromkeys(range(tree.rank), i64(0))
    return tree.element()


def _load(e: FunctionEmitter, i: Instruction) -> V:
    p = e.pointer(i.operands[0])
    return load_element(e, p.dtype, p.data, p.notes)


def _store(e: FunctionEmitter, i: Instruction) -> None:
    value, dest = i.operands[0], e.pointer(i.operands[1])
    type = i.operands[1].type
    assert isinstance(type, PointerType)
    if not is_array(value.type):
        x = e.scalar(value)
        if may_stay(e, value):
            x = frozen(e, x)
        store_element(e, dest.dtype, x, dest.data, dest.notes)
    elif isinstance(value, Instruction):  # an undefined array is a literal: nothing needs to be written
        product = accumulated(i)
        with e.region():
            if product is not None:
                work = matmul.store_dot(e, product, dest, value.op.name)
            else:
                work = _store_array(e, value, dest, type)
        e.charge(work)


def _store_array(e: FunctionEmitter, value: Instruction, dest: Pointer, type: PointerType) -> V:
    """Write an array value to `dest`; the work that it is."""
    match value.op.name:
        case "reduce":
            return reductions.store_reduce(e, value, dest)
        case "unbroadcast":
            return reductions.store_unbroadcast(e, value, dest, type)
        case "dot":
            return matmul.store_dot(e, value, dest)
        case "solve" | "cholesky" | "choleskyAdjoint" | "determinant" | "factorizes":
            return factored.store_factored(e, value, dest)
        case "eigh" | "eigvalsh" | "eig" | "eigvals" | "svd" | "svdvals" | "qr" | "lstsq":
            return decompositions.store_decomposition(e, value, dest)
        case "overlapAdd":
            return windows.store_overlap(e, value, dest)
        case "scan" | "recurrence":
            return windows.store_scan(e, value, dest)
        case "fourier":
            return fourier.store_fourier(e, value, dest)
        case "scatterAdd":
            return scatter.store_scatter_add(e, value, dest)
        case "sort" | "argsort":
            return order.store_sort(e, value, dest)
        case "searchSorted":
            return order.store_search(e, value, dest)
        case "nonzero":
            return scatter.store_nonzero(e, value, dest)
        case "shapeCast":
            return _store_reshaped(e, value, dest)
    return stores.store_tree(e, value, dest, type.shape)


def _store_reshaped(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    source = i.operands[0]
    if not is_array(source.type):
        store_element(e, dest.dtype, e.scalar(source), dest.data, dest.notes)
        return ONE
    extents = trees.tree_extents(e, source)
    if dest.layout == "C":
        return stores.store_tree(e, source, replace(dest, extents=extents), source.type.shape)  # type: ignore[attr-defined]
    return kernels.store_reshaped(e, trees.Tree(e, source), extents, dest)


def _extent(e: FunctionEmitter, i: Instruction) -> V:
    source = i.operands[0]
    if isinstance(source.type, PointerType):
        return e.pointer(source).extents[i.attrs["at"]]
    return trees.tree_extents(e, source)[i.attrs["at"]]


def _extract(e: FunctionEmitter, i: Instruction) -> Lowered:
    parts = e.lookup(i.operands[0])
    assert isinstance(parts, list)
    return parts[i.attrs["at"]]


_ROWS: dict[str, Callable[[FunctionEmitter, Instruction], Any]] = {
    "load": _load,
    "store": _store,
    "scatter": lambda e, i: scatter.scatter(e, i),
    "reduce": lambda e, i: reductions.reduce_scalar(e, i),
    "dot": lambda e, i: matmul.scalar_dot(e, i),
    "extent": _extent,
    "check": tell.check,
    "unsteady": unsteady,
    "print": tell.print_,
    "draw": draw.draw,
    "seedGenerator": draw.seed,
    "randomCounter": random.take,
    "randomSeed": random.seed,
    "allocateHeap": memory.allocate_heap,
    "allocateStack": memory.allocate_stack,
    "retain": lambda e, i: memory.retain(e, e.pointer(i.operands[0]).header),
    "release": lambda e, i: memory.release(e, e.pointer(i.operands[0]).header),
    "createStack": memory.create_stack,
    "push": memory.push,
    "pop": memory.pop,
    "drain": memory.drain,
    "destroyStack": memory.destroy_stack,
    "apply": calls.apply,
    "makeCell": cells.make_cell,
    "cellTag": cells.cell_tag,
    "cellItem": cells.cell_item,
    "tuple": lambda e, i: [e.lookup(v) for v in i.operands],
    "extract": _extract,
}
