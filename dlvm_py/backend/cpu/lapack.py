"""What calls of SciPy's LAPACK share: memory, copies to and from column-major matrices, arguments by reference.

LAPACK works in place on column-major matrices, so the operands are copied into one block of memory, and the result
is copied out of it. A function that does this gives a status: OK; NO_MEMORY where there is none for that; FAILED where
LAPACK says so (a matrix that has no such factorisation, an iteration that did not converge).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.blas import LETTERS
from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.contract import DATA, scalar_type
from dlvm_py.backend.cpu.dot import Matrix
from dlvm_py.backend.cpu.pointers import load_element, offset, store_element
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import plain_loop
from dlvm_py.backend.cpu.values import NULL, ONE, V, float_constant, i64
from dlvm_py.ir import DType

OK, NO_MEMORY, FAILED = (V("i32", str(n)) for n in range(3))


class Routine:
    """Writes one function that calls LAPACK; `self.c` is its code, whose first parameter is the context."""

    def __init__(self, c: Code, dtype: DType) -> None:
        self.c, self.dtype = c, dtype
        self.real = dtype.real
        self.ctx = c.params[0]
        self.size, self.real_size = i64(dtype.itemsize), i64(self.real.itemsize)
        self.headers: list[V] = []

    # -- numbers ---------------------------------------------------------------------------------------

    def op(self, name: str, *values: V) -> V:
        """An elementwise op on elements."""
        return TABLE[name][self.dtype.kind](self.c, self.dtype, {}, *values)

    def number(self, x: float) -> V:
        """A number as an element."""
        type = scalar_type(self.dtype)
        if not self.dtype.is_complex:
            return float_constant(type, x)
        part = scalar_type(self.real)
        return V(type, f"{{ {part} {float_constant(part, x).ref}, {part} {float_constant(part, 0.0).ref} }}")

    def element(self, x: V) -> V:
        """A real number as an element."""
        return self.c.pack(x, float_constant(x.type, 0.0)) if self.dtype.is_complex else x

    def int(self, n: V) -> V:
        """An extent as LAPACK takes it."""
        return self.c.cast("trunc", n, "i32")

    def larger(self, a: V, b: V) -> V:
        """The larger of two extents."""
        return self.c.select(self.c.icmp("sgt", a, b), a, b)

    def lead(self, rows: V) -> V:
        """The leading dimension of a matrix with these rows."""
        return self.int(self.larger(rows, ONE))

    def letter(self, text: str) -> V:
        """A word of LAPACK, by reference."""
        place = self.c.alloca("i8")
        self.c.store(V("i8", str(ord(text))), place)
        return place

    # -- memory ----------------------------------------------------------------------------------------

    def memory(self, nbytes: V) -> V:
        """So many bytes until the end; leaves with NO_MEMORY where there are none."""
        c = self.c
        c.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
        header = c.call("@dlvm.allocate", "ptr", [self.ctx, c.add(nbytes, i64(8))])
        failed, go_on = c.label("failed"), c.label("go")
        c.likely(c.icmp("ne", header, NULL), go_on, failed)
        c.place(failed)
        c.line(f"ret i32 {NO_MEMORY.ref}")
        c.place(go_on)
        self.headers.append(header)
        return c.load("ptr", c.gep("i8", header, i64(DATA)))

    def block(self, *nbytes: V) -> list[V]:
        """Memory for several things, one behind the other."""
        whole = i64(0)
        for n in nbytes:
            whole = self.c.add(whole, n)
        places = [self.memory(whole)]
        for n in nbytes[:-1]:
            places.append(self.c.gep("i8", places[-1], n))
        return places

    def elements(self, *counts: V) -> V:
        """The bytes of so many elements."""
        return self.c.mul(self.c.product(counts), self.size)

    def reals(self, *counts: V) -> V:
        """The bytes of so many real numbers."""
        return self.c.mul(self.c.product(counts), self.real_size)

    def columns(self, data: V, rows: V, cols: V) -> Matrix:
        """A column-major matrix."""
        return Matrix(data, rows, cols, self.size, self.c.mul(rows, self.size))

    def load(self, x: Matrix, i: V, j: V) -> V:
        """An element."""
        return load_element(self.c, self.dtype, offset(self.c, x.data, [i, j], [x.row_step, x.col_step]))

    def store(self, x: Matrix, i: V, j: V, value: V) -> None:
        """Write an element."""
        store_element(self.c, self.dtype, value, offset(self.c, x.data, [i, j], [x.row_step, x.col_step]))

    def copy(self, source: Matrix, to: Matrix) -> None:
        """As much of a matrix as `to` has."""
        c = self.c
        with c.loop(to.cols) as j, c.loop(to.rows, note=plain_loop(c)) as i:
            self.store(to, i.index, j.index, self.load(source, i.index, j.index))

    def fill(self, to: Matrix, value: V) -> None:
        """The same element everywhere."""
        c = self.c
        with c.loop(to.cols) as j, c.loop(to.rows, note=plain_loop(c)) as i:
            self.store(to, i.index, j.index, value)

    # -- calls -----------------------------------------------------------------------------------------

    def call(self, name: str, values: Sequence[V]) -> V:
        """Call LAPACK, all arguments by reference; `info`, where 0 is success."""
        slots = self._by_reference([*values, V("i32", "0")])
        self.c.call_import(f"lapack:{LETTERS[self.dtype.name]}{name}", "void", slots, "nounwind")
        return self.c.load("i32", slots[-1])

    def blas(self, name: str, values: Sequence[V]) -> None:
        """Call BLAS, all arguments by reference, integers in 64 bits."""
        self.c.call_import(f"blas:{LETTERS[self.dtype.name]}{name}", "void", self._by_reference(values), "nounwind")

    def _by_reference(self, values: Sequence[V]) -> list[V]:
        slots = []
        for v in values:
            if v.type != "ptr":
                slot = self.c.alloca(v.type, 16)
                self.c.store(v, slot)
                v = slot
            slots.append(v)
        return slots

    def call_with_work(self, name: str, values: Callable[[Workspace], Sequence[V]], **fixed: V) -> V:
        """Ask LAPACK how much working memory it wants, and call it with that; `fixed`: counts that it does not say."""
        c = self.c
        asked = Workspace(*(c.alloca("[2 x double]", 16) for _ in range(3)), *[V("i32", "-1")] * 3)
        self.call(name, values(asked))
        real = scalar_type(self.real)
        counts = [c.cast("fptosi", c.load(real, p), "i64") for p in (asked.work, asked.rwork)]
        counts.append(c.cast("sext", c.load("i32", asked.iwork), "i64"))
        if not self.dtype.is_complex:
            counts[1] = i64(0)
        counts = [fixed.get(k, n) for k, n in zip(("work", "rwork", "iwork"), counts, strict=True)]
        places = self.block(self.elements(counts[0]), self.reals(counts[1]), c.mul(counts[2], i64(4)))
        return self.call(name, values(Workspace(*places, *map(self.int, counts))))

    def end(self, info: V = OK) -> None:
        """Release the memory; the status."""
        c = self.c
        c.module.declare("dlvm.release", "void", ["ptr", "ptr"])
        for header in self.headers:
            c.call("@dlvm.release", "void", [self.ctx, header])
        c.line(f"ret i32 {self.status(info).ref}")

    def status(self, info: V) -> V:
        """The status that LAPACK's `info` means."""
        return self.c.select(self.c.icmp("eq", info, OK), OK, FAILED)


class Workspace:
    """The working memory of one call: of elements, of real numbers, of ints; and the counts."""

    def __init__(self, work: V, rwork: V, iwork: V, count: V, real_count: V, int_count: V) -> None:
        self.work, self.rwork, self.iwork = work, rwork, iwork
        self.count, self.real_count, self.int_count = count, real_count, int_count
