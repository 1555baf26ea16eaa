"""Calls of BLAS: products of matrices in its own threads, or in pieces that our threads share.

BLAS is column-major, so that a row-major product is computed as toᵀ = bᵀ aᵀ. Integers are handed over in slots of
64 bits: a BLAS of 32 reads the low half.

OpenBLAS wakes its threads for any product of half a million multiplications (20 µs), waits for them however long they
take to get a core, and lets them look for work for 0.1 s afterwards, in the way of ours and of everybody else's.
Its number of threads belongs to the process, and to the user. So real products are cut into pieces which threads of
ours share (share.py) and which BLAS computes by the thread that calls it:

    up to ALONE multiplications     gemm, which then has one thread in all versions of OpenBLAS
    from BATCH on                   cblas_gemm_batch of one product, which has as many threads as products
    between them                    two halves
    a matrix times its transpose    syrk up to SYRK multiplications, else tiles of our own (symmetric.py)

The borders of pieces follow from the extents and the number of processors, not from the threads that are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.dot import Matrix
from dlvm_py.backend.cpu.pointers import load_element, offset, store_element
from dlvm_py.backend.cpu.share import shared
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import NULL, ONE, TRUE, ZERO, V, float_constant, i64
from dlvm_py.frozen import Frozen, replace
from dlvm_py.ir import DType

LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
NEVER_READ_BETA = 0.0  # with beta = 0 BLAS does not read the destination

ALONE = 524_287  # multiplications: OpenBLAS gives each of its threads 262,144
SYRK = 439_776  # of these gives it each 109,944
BATCH = 1_000_000  # up to here, batches go through kernels that some builds of OpenBLAS cannot find
# what a piece costs before it multiplies is felt in shorter ones; their rows are multiples of those of the kernels
SIDE, MULTIPLE = 64, 16
# the grain of threads, as in share.py: so many multiplications, and what these cost, in tenths of ns for 4 bytes
PRODUCTS, COST = 16, 3
ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112  # of CBLAS


class Operand(Frozen):
    """A matrix that BLAS can read: column-major if `plain`, else row-major, with a leading dimension."""

    matrix: Matrix
    plain: V
    lead: V

    def transposed(self, c: Code) -> Operand:
        """The same memory with its axes exchanged."""
        return replace(self, matrix=self.matrix.transposed, plain=c.op("xor", self.plain, TRUE))


class Blas:
    """Writes calls with a row-major destination `to`, to which the product is written, or added: add = "add"..."""

    def __init__(self, c: Code, dtype: DType, add: str, to: Matrix, lead: V) -> None:
        self.c, self.dtype, self.add, self.to, self.lead = c, dtype, add, to, lead
        self.size = i64(dtype.itemsize)

    def gemv(self, a: Operand, vector: Operand, step: V) -> None:
        """to = a · vector; from element to element of `to` it is `step`."""
        x = a.matrix
        extents = self.c.select(a.plain, x.rows, x.cols), self.c.select(a.plain, x.cols, x.rows)
        factors = self._factors()
        args = [self._letter(a.plain), *extents, factors[0], x.data, a.lead, vector.matrix.data, vector.lead]
        self._call("gemv", [*args, factors[1], self.to.data, step])

    def gemm(self, a: Operand, b: Operand) -> None:
        """to = a b, in threads of BLAS: what is plain must be transposed, and the other way round."""
        self._gemm(a, b, self.to)

    def _gemm(self, a: Operand, b: Operand, to: Matrix) -> None:
        letters = [self._letter(x.transposed(self.c).plain) for x in (b, a)]
        extents = [to.cols, to.rows, a.matrix.cols]
        alpha, beta = self._factors()
        args = [*letters, *extents, alpha, b.matrix.data, b.lead, a.matrix.data, a.lead]
        self._call("gemm", [*args, beta, to.data, self.lead])

    def syrk(self, a: Operand) -> None:
        """to = a aᵀ: BLAS writes the lower triangle, which is its upper one."""
        x = a.matrix
        alpha, beta = self._factors()
        letters = [V("i8", str(ord("U"))), self._letter(a.plain)]
        self._call("syrk", [*letters, x.rows, x.cols, alpha, x.data, a.lead, beta, self.to.data, self.lead])
        self.mirror()

    def mirror(self) -> None:
        """Copy the lower triangle to the upper one, by squares."""
        c, to, square = self.c, self.to, i64(32)
        count = to.rows
        with c.loop(self._pieces(count, square)) as down:
            top = c.mul(down.index, square)
            bottom = c.minimum(count, c.add(top, square))
            with c.loop(self._pieces(bottom, square)) as across:
                left = c.mul(across.index, square)
                with c.loop(c.op("sub nsw", bottom, top)) as i:
                    row = c.add(top, i.index)
                    with c.loop(c.minimum(square, c.op("sub nsw", row, left)), note=plain_loop(c)) as j:
                        column = c.add(left, j.index)
                        below, above = (
                            offset(c, to.data, place, [to.row_step, self.size])
                            for place in ([row, column], [column, row])
                        )
                        store_element(c, self.dtype, load_element(c, self.dtype, below), above)

    # -- by the thread that calls ----------------------------------------------------------------------------

    def has_alone(self) -> V:
        """Whether this BLAS has a product that the calling thread computes alone."""
        return self.c.icmp("ne", self._batch(), NULL)

    def gemm_in_pieces(self, a: Operand, b: Operand) -> None:
        """to = a b, in pieces that our threads share. BLAS must have such products (`has_alone`)."""
        c, to = self.c, self.to
        units = c.op("udiv", c.product([to.rows, to.cols, a.matrix.cols]), i64(PRODUCTS))
        down, across = self._grid()
        height, width = self._length(to.rows, down), self._length(to.cols, across)
        down, across = self._pieces(to.rows, height), self._pieces(to.cols, width)
        with shared(c, c.mul(down, across), units, COST * self.dtype.itemsize // 4, chunk=ONE) as part:
            if part is None:
                self._alone(a, b, to)
                return
            with c.loop(c.op("sub nsw", part[1], part[0])) as loop:
                piece = c.add(part[0], loop.index, "nuw nsw")
                left, rows = self._strip(a, c.op("udiv", piece, across), height)
                right, columns = self._strip(b.transposed(c), c.op("urem", piece, across), width)
                data = offset(c, to.data, [rows, columns], [to.row_step, self.size])
                extents = left.matrix.rows, right.matrix.rows
                self._alone(left, right.transposed(c), replace(to, data=data, rows=extents[0], cols=extents[1]))

    def _processors(self) -> V:
        return self.c.cast("ptrtoint", self.c.import_pointer("limit:processors"), "i64")

    def _grid(self) -> tuple[V, V]:
        """So many pieces below and beside each other as there are processors: a square, or nearly.

        More below each other, which costs less, than beside each other, but where the product is wide, or has too few
        rows to cut.
        """
        c, processors = self.c, self._processors()
        bits = c.op("sub", i64(63), c.intrinsic("llvm.ctlz.i64", "i64", processors, V("i1", "true")))
        across = c.op("shl", ONE, c.op("lshr", bits, ONE))
        down = self._pieces(processors, across)
        rows = self.to.rows
        wide = c.any(c.icmp("sgt", self.to.cols, c.mul(rows, i64(2))), c.icmp("sle", rows, i64(SIDE)))
        return c.select(wide, across, down), c.select(wide, down, across)

    def _length(self, extent: V, count: V) -> V:
        """The length of pieces of an extent: at most `count`, none much shorter than SIDE."""
        c = self.c
        most = self._pieces(extent, i64(SIDE))
        length = self._pieces(extent, c.minimum(count, most))
        return c.op("and", c.add(length, i64(MULTIPLE - 1)), i64(-MULTIPLE))

    def _pieces(self, extent: V, length: V) -> V:
        return self.c.op("udiv", self.c.add(extent, self.c.op("sub", length, ONE)), length)

    def _strip(self, x: Operand, number: V, height: V) -> tuple[Operand, V]:
        """Of pieces of `height` rows one, and its first row."""
        c = self.c
        start = c.mul(number, height, "nuw nsw")
        rows = c.minimum(height, c.op("sub nsw", x.matrix.rows, start))
        return self._rows(x, start, rows), start

    def _rows(self, x: Operand, start: V, count: V) -> Operand:
        data = offset(self.c, x.matrix.data, [start], [x.matrix.row_step])
        return replace(x, matrix=replace(x.matrix, data=data, rows=count))

    def _alone(self, a: Operand, b: Operand, to: Matrix) -> None:
        c = self.c
        work = c.product([to.rows, to.cols, a.matrix.cols])
        with c.either(c.icmp("ugt", work, i64(BATCH))) as arms:
            next(arms)
            self._gemm_batch(a, b, to)
            next(arms)
            half = c.op("lshr", to.rows, c.cast("zext", c.icmp("ugt", work, i64(ALONE)), "i64"))
            with c.loop(c.select(c.icmp("eq", half, to.rows), ONE, i64(2))) as turn:
                start = c.mul(turn.index, half)
                rows = c.select(c.icmp("eq", turn.index, ZERO), half, c.op("sub", to.rows, half))
                data = offset(c, to.data, [start], [to.row_step])
                self._gemm(self._rows(a, start, rows), b, replace(to, data=data, rows=rows))

    def _batch(self) -> V:
        return self.c.import_pointer(f"optional:cblas_{LETTERS[self.dtype.name]}gemm_batch")

    def _gemm_batch(self, a: Operand, b: Operand, to: Matrix) -> None:
        """A batch of one product."""
        c, numbers = self.c, (V("i32", str(PLAIN)), V("i32", str(TRANSPOSED)))
        letters = [c.select(x.plain, numbers[1], numbers[0]) for x in (a, b)]
        alpha, beta = self._factors()
        factors = self._by_reference([alpha, beta])
        data = [self._slot(x) for x in (a.matrix.data, b.matrix.data, to.data)]
        leads = self._by_reference([a.lead, b.lead, self.lead])
        args = [*self._by_reference([*letters, to.rows, to.cols, a.matrix.cols]), factors[0]]
        args += [data[0], leads[0], data[1], leads[1], factors[1], data[2], leads[2]]
        order = V("i32", str(ROW_MAJOR))
        c.call(self._batch().ref, "void", [order, *args, ONE, *self._by_reference([ONE])], "nounwind")

    # -- arguments -------------------------------------------------------------------------------------------

    def _slot(self, v: V) -> V:
        slot = self.c.alloca(v.type, 16)
        self.c.store(v, slot)
        return slot

    def _by_reference(self, values: Sequence[V]) -> list[V]:
        return [v if v.type == "ptr" else self._slot(v) for v in values]

    def _call(self, name: str, values: Sequence[V]) -> None:
        args = self._by_reference(values)
        self.c.call_import(f"blas:{LETTERS[self.dtype.name]}{name}", "void", args, "nounwind")

    def _factor(self, x: float) -> V:
        if not self.dtype.is_complex:
            return float_constant(scalar_type(self.dtype), x)
        part = scalar_type(self.dtype.real)
        return V(f"{{ {part}, {part} }}", f"{{ {part} {float_constant(part, x).ref}, {part} 0.0 }}")

    def _factors(self) -> tuple[V, V]:
        """alpha and beta."""
        alpha = -1.0 if self.add == "subtract" else 1.0
        return self._factor(alpha), self._factor(1.0 if self.add else NEVER_READ_BETA)

    def _letter(self, plain: V) -> V:
        return self.c.select(plain, V("i8", str(ord("N"))), V("i8", str(ord("T"))))
