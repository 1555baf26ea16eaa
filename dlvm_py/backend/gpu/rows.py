"""Loops over rows of arrays as grids: a trip is a block's, whose threads share the elements of what it computes.

    for i in range(n):                 block b, for trips b, b + blocks, ...:
        e = np.exp(x[i])                   thread t: elements t, t + threads, ... of e, which is the block's own memory
        out[i] = e / e.sum()               barrier; all threads: the sum, of shuffles and shared memory; ...

Scalars, branches and inner loops are done by all threads alike, so that they come to every barrier together; an element
that is written by itself is written by the first. A barrier stands behind everything that writes, and before it where
something may still be read. The order of sums depends on the extents alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dlvm_py.backend.cpu.dot import as_matrix, inner_product
from dlvm_py.backend.cpu.kernels import loop_order, memory_order
from dlvm_py.backend.cpu.memory import release, size_of
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import CountedLoop
from dlvm_py.backend.cpu.trees import tree_extents
from dlvm_py.backend.cpu.values import NULL, ONE, ZERO, Label, V, i64
from dlvm_py.backend.gpu.elementwise import general
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import THREADS, WARP, WARPS, Kernel
from dlvm_py.backend.gpu.reductions import Fold, in_warp, keeps_order, store_partial
from dlvm_py.backend.gpu.trips import TripKernel
from dlvm_py.ir import Instruction, Value, is_array
from dlvm_py.ir.types import ELEMENTS

# rows that are longer are launches of their own, unless there are many: else a few blocks would do all
LONG, MANY = 1 << 14, 256
# blocks of a launch, and the bytes that they may have for themselves
BLOCKS, SPACE = 4096, 1 << 28


class Space:
    """Memory of which each block has its own. base, nbytes: values of the host; the first is given by `launch_rows`."""

    def __init__(self, h: HostEmitter, value: Value) -> None:
        assert isinstance(value, Instruction)
        self.value, self.base = value, h.new("ptr")
        self.extents = tuple(h.scalar(n) for n in value.operands)
        self.nbytes = h.op(
            "and", h.add(size_of(h, ELEMENTS[value.attrs["dtype"]].itemsize, self.extents), i64(63)), i64(-64)
        )


def launch_rows(h: HostEmitter, k: Kernel, trips: V, width: V, spaces: Sequence[Space], most: int = BLOCKS) -> V:
    """Launch the kernel of so many trips, one or more, on arrays of at most `width` elements, as far as is known.

    Returns how many blocks it has, at most `most`.
    """
    blocks, total = h.minimum(trips, i64(most)), ONE
    for space in spaces:
        total = h.add(total, space.nbytes)
    room = h.op("udiv", i64(SPACE), total)
    blocks = h.minimum(blocks, h.select(h.icmp("sgt", room, ZERO), room, ONE))
    headers = [h.allocate(h.mul(space.nbytes, blocks)) for space in spaces]
    for space, header in zip(spaces, headers, strict=True):
        h.line(f"{space.base.ref} = getelementptr i8, ptr {h.data_of(header).ref}, i64 0")
    warps = h.op("and", h.add(h.minimum(width, i64(THREADS)), i64(WARP - 1)), i64(-WARP))
    h.launch(k, blocks, h.cast("trunc", h.select(h.icmp("sgt", warps, ZERO), warps, i64(WARP)), "i32"))
    for header in headers:
        release(h, header)
    return blocks


class RowKernel(TripKernel):
    """A kernel each block of which runs trips. `spaces`: memory that a block has for itself."""

    def __init__(self, host: HostEmitter, family: str, spaces: Sequence[Space]) -> None:
        super().__init__(host, family)
        self.may_read = False  # whether something may be read since the last barrier
        block = self.special("ctaid")
        for s in spaces:
            data = self.gep("i8", self.parameter(s.base), self.mul(block, self.parameter(s.nbytes)))
            extents = tuple(map(self.parameter, s.extents))
            self.env[s.value] = Pointer(ELEMENTS[s.value.attrs["dtype"]], "C", data, NULL, extents)

    @contextmanager
    def trips(self, count: V, carried: Sequence[V] = ()) -> Iterator[CountedLoop]:
        """`for index in range(count)`: the trips of this block."""
        with self.strided(self.special("ctaid"), self.special("nctaid"), count, carried) as loop:
            yield loop
            self.barrier()  # the next trip writes to the same memory

    def leave_partial(self, fold: Fold, total: V, to: Pointer) -> None:
        """Write what this block has added up, which all of its threads know, to its place of the partial results."""
        store_partial(self, fold, total, to)

    def place(self, label: Label) -> Label:
        """Begin a block: where it comes from something may have been read."""
        self.may_read = True
        return super().place(label)

    def barrier(self) -> None:
        """All threads come here before one goes on."""
        super().barrier()
        self.may_read = False

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Code that writes memory, when all is read that was there, and before anything else is."""
        if self.may_read:
            self.barrier()
        yield
        self.barrier()

    def write(self, i: Instruction) -> None:
        """The code of one instruction; array values wait for the root of their tree."""
        if is_array(i.type):
            return
        if i.op.name == "store":
            with self._writing():
                self._store(i)
        elif i.op.name == "reduce" and is_array(i.operands[0].type):
            self.env[i] = self._reduced(i)
        elif i.op.name == "dot":
            self.env[i] = self._product(i)
        else:
            self.may_read |= i.op.name == "load"
            super().write(i)

    # -- to a number -----------------------------------------------------------------------------------

    def _reduced(self, i: Instruction) -> V:
        value = i.operands[0]
        fold, tree = Fold(value.type.dtype, i.attrs["by"]), general(self, value)  # type: ignore[attr-defined]
        extents = tree_extents(self, value)  # type: ignore[arg-type]
        order = loop_order(extents, tree.order())

        def element(place: V) -> V:
            tree.index.update(self.unravel(place, order, extents))
            return fold.widened(self, tree.element())

        total = fold.result(self, self._together(fold, self.product(extents), element))
        return TABLE[fold.by][fold.dtype.kind](self, fold.dtype, {}, total, self.scalar(i.operands[1]))

    def _product(self, i: Instruction) -> V:
        a, b = (self.pointer(v.operands[0]) for v in i.operands)  # type: ignore[attr-defined]
        fold = Fold(a.dtype, "add")
        steps = [strides_of(self, p) for p in (a, b)]

        def element(place: V) -> V:
            terms = (
                load_element(self, p.dtype, offset(self, p.data, [place], s))
                for p, s in zip((a, b), steps, strict=True)
            )
            return TABLE["multiply"][fold.wide.kind](self, fold.wide, {}, *(fold.widened(self, x) for x in terms))

        return fold.result(self, self._together(fold, a.extents[0], element))

    def _together(self, fold: Fold, count: V, element: Callable[[V], V]) -> V:
        """The elements at places below `count` combined, the same value in all threads."""
        if keeps_order(self.host, fold):  # type: ignore[arg-type]
            with self.loop(count, [fold.neutral()]) as loop:
                loop.next = [fold.step(self, loop.carried[0], element(loop.index))]
            return loop.results[0]
        with self.block(count, [fold.neutral()]) as loop:
            loop.next = [fold.step(self, loop.carried[0], element(loop.index))]
        mine = in_warp(self, fold, loop.results[0], WARP)
        shared, size = self.shared_memory("i64", 2 * WARPS), i64(fold.wide.itemsize)
        thread = self.special("tid")
        with self.when(self.icmp("eq", self.op("and", thread, i64(WARP - 1)), ZERO)):
            warp = self.op("lshr", thread, i64(WARP.bit_length() - 1))
            store_element(self, fold.wide, mine, offset(self, shared, [warp], [size]))
        self.barrier()
        warps = self.op("lshr", self.special("ntid"), i64(WARP.bit_length() - 1))
        with self.loop(warps, [fold.neutral()]) as loop:
            other = load_element(self, fold.wide, offset(self, shared, [loop.index], [size]))
            loop.next = [fold.step(self, loop.carried[0], other)]
        self.barrier()  # before the memory is used again
        return loop.results[0]

    # -- to arrays -------------------------------------------------------------------------------------

    def _store(self, i: Instruction) -> None:
        value, to = i.operands[0], self.pointer(i.operands[1])
        if not is_array(value.type):
            with self.when(self.icmp("eq", self.special("tid"), ZERO)):
                store_element(self, to.dtype, self.scalar(value), to.data)
            return
        assert isinstance(value, Instruction)
        by = {"reduce": self._along_axes, "dot": self._products}.get(value.op.name, self._tree)
        element, strides = by(value, to), strides_of(self, to)
        order = loop_order(to.extents, memory_order(to))
        with self.block(self.product(to.extents)) as loop:
            index = self.unravel(loop.index, order, to.extents)
            x = element(index)
            store_element(self, to.dtype, x, offset(self, to.data, [index[n] for n in range(to.rank)], strides))

    def _tree(self, value: Instruction, to: Pointer) -> Callable[[dict[int, V]], V]:
        tree = general(self, value)

        def element(index: dict[int, V]) -> V:
            tree.index.update(index)
            return tree.element()

        return element

    def _along_axes(self, value: Instruction, to: Pointer) -> Callable[[dict[int, V]], V]:
        source, axes = value.operands[0], value.attrs["axes"]
        fold, tree, extents = Fold(to.dtype, value.attrs["by"]), general(self, source), tree_extents(self, source)  # type: ignore[arg-type]
        kept = [n for n in range(len(extents)) if n not in axes]
        init = self.scalar(value.operands[1])

        def follow(left: Sequence[int], total: V) -> V:
            if not left:
                return fold.step(self, total, fold.widened(self, tree.element()))
            with self.loop(extents[left[0]], [total]) as loop:
                tree.index[left[0]] = loop.index
                loop.next = [follow(left[1:], loop.carried[0])]
            return loop.results[0]

        def element(index: dict[int, V]) -> V:
            tree.index.update({n: index[k] for k, n in enumerate(kept)})
            total = fold.result(self, follow(sorted(axes), fold.neutral()))
            return TABLE[fold.by][fold.dtype.kind](self, fold.dtype, {}, total, init)

        return element

    def _products(self, value: Instruction, to: Pointer) -> Callable[[dict[int, V]], V]:
        p, q = (self.pointer(v.operands[0]) for v in value.operands)  # type: ignore[attr-defined]
        a, b = as_matrix(self, p, column=False), as_matrix(self, q, column=True)

        def element(index: dict[int, V]) -> V:
            row = index[0] if p.rank == 2 else ZERO
            col = index[to.rank - 1] if q.rank == 2 else ZERO
            left = offset(self, a.data, [row], [a.row_step]), a.col_step
            right = offset(self, b.data, [col], [b.col_step]), b.row_step
            return inner_product(self, to.dtype, a.cols, left, right)

        return element
