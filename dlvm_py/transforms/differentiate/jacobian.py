"""Jacobians: a function that fills them, column by column in forward mode or row by row in reverse mode.

    func @f: (*<_ x f64>) -> *<_ x f64>          func @f_jacobian: (*<_ x f64>) -> *<_ x _ x f64> {
                                                 'entry(%x):
                                                     %y = apply @f_value(%x)             its extents
                                                     %j = allocateHeap f64 count (m, n)
                                            →        for k < n in steps of 8:
                                                         %t = the unit vectors k, ..., k + 7, as columns
                                                         %c = apply @f_tangent(%x, %t)       (m, 8)
                                                         store %c to columns k ... of %j, as many as there are
                                                     return %j

Rows are made so too: a gradient is linear in its seed, and the tangent function of the gradient function along eight
unit seeds gives eight rows, with one forward sweep.

The tangent (or gradient) function is inlined into the loop, where what does not depend on the unit vectors is invariant
and leaves it. A scalar output takes one reverse sweep, a scalar argument one forward sweep. Otherwise `auto` compares
the numbers of columns and of rows when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dlvm_py.errors import NotDifferentiable
from dlvm_py.ir import (
    Builder,
    Function,
    Literal,
    Module,
    PointerType,
    TupleType,
    Type,
    Value,
    literal,
    scalar,
)
from dlvm_py.ir.analysis.calls import reachable, seen_outside
from dlvm_py.transforms.differentiate.adjoint import adjoint
from dlvm_py.transforms.differentiate.arguments import extents
from dlvm_py.transforms.differentiate.calls import bundle, give, leaves
from dlvm_py.transforms.differentiate.config import CAN_RUN_AGAIN, AdjointConfig, Output
from dlvm_py.transforms.differentiate.directions import SINGLE, NoLanes, Single
from dlvm_py.transforms.differentiate.lanes import Lanes
from dlvm_py.transforms.differentiate.outputs import seed_type
from dlvm_py.transforms.differentiate.shadows import filled
from dlvm_py.transforms.differentiate.tangent import TangentConfig, tangent

# what users ask for; "hessian" is forward where there are forward derivatives, else reverse
MODES = ("auto", "forward", "reverse")
# the columns or rows that one sweep makes: one or two vectors for each number of the primal. More are more memory for
# each array of the primal, and fewer sweeps
LANES = 8


def jacobian(
    module: Module,
    name: str,
    wrt: tuple[int, ...],
    outputs: tuple[Output, ...],
    mode: str,
    checkpoint: str | int = "store",
) -> Function:
    """Add the Jacobian function of `name` to `module`, as `<name>_jacobian`, and return it.

    checkpoint: as in AdjointConfig, for each reverse sweep.
    Result: for each output, for each of `wrt`, an array with the axes of the output, then those of the parameter (a
    scalar where there are none). Arguments are not changed. Raises: NotDifferentiable, as the passes that it uses.
    """
    seen = seen_outside(module, name)
    if seen is not None:
        raise NotDifferentiable(
            f"'{seen.op.name}' would happen once a row or column of the Jacobian",
            seen.loc,
            code="DL611",
            help="dlvm.grad, dlvm.vjp and dlvm.jvp run the function once",
        )
    return _Jacobian(module, name, wrt, mode, checkpoint).build(outputs)


class _Jacobian:
    def __init__(self, module: Module, name: str, wrt: tuple[int, ...], mode: str, checkpoint: str | int) -> None:
        self.module, self.primal, self.wrt = module, module.functions[name], wrt
        if mode in ("auto", "hessian") and any(f.rules and "tangent" not in f.rules for f in reachable(module, name)):
            mode = "reverse"  # there is no forward derivative of this function
        self.mode = "forward" if mode == "hessian" else mode
        self.checkpoint = checkpoint
        self.function = Function(f"{name}_jacobian", bundle([]))
        entry = self.function.new_block("entry")
        self.params = [entry.add_arg(p.type, p.name) for p in self.primal.params]
        self.b = Builder(self.function, entry)

    def build(self, outputs: tuple[Output, ...]) -> Function:
        results = [v for o in outputs for v in self._of_output(o)]
        give(self.b, results)
        self.function.result = bundle([v.type for v in results])
        return self.module.add(self.function)

    def _type(self, output: Output) -> Type:
        if output.kind == "param":
            return self.primal.params[output.index].type
        return leaves(self.primal.result)[output.index]

    def _of_output(self, output: Output) -> list[Value]:
        if not isinstance(self._type(output), PointerType):
            return self._call(self._gradient(AdjointConfig(self.wrt, (output,), checkpoint=self.checkpoint)), [])
        arrays = [k for k in self.wrt if isinstance(self.params[k].type, PointerType)]
        reverse = self.mode == "reverse"
        found: dict[int, Value] = {}
        if arrays or reverse:
            found = self._loops(output, self.wrt if reverse else tuple(arrays))
        for k in self.wrt:
            if k not in found:
                found[k] = self._call(self._tangent(output, k), [literal(1.0, self.params[k].type)])[0]
        return [found[k] for k in self.wrt]

    def _gradient(self, config: AdjointConfig) -> Function:
        """The reverse sweep of an output; the Jacobian can be run again where one of these can."""
        made = adjoint(self.module, self.primal.name, config)
        self.function.meta[CAN_RUN_AGAIN] = self.function.meta.get(CAN_RUN_AGAIN) or made.meta.get(CAN_RUN_AGAIN)
        return made

    # -- what is called --------------------------------------------------------------------------------

    def _call(self, callee: Function, more: list[Value]) -> list[Value]:
        made = self.b.emit("apply", *self.params, *more, callee=callee.name, result=callee.result)
        if isinstance(callee.result, TupleType):
            return [self.b.emit("extract", made, at=k) for k in range(len(callee.result.elements))]
        return [made]

    def _tangent(self, output: Output, k: int, directions: Single = SINGLE) -> Function:
        """The tangents of the output from those of parameter k."""
        return tangent(self.module, self.primal.name, TangentConfig((k,), (output,), directions=directions))

    # -- loops -----------------------------------------------------------------------------------------

    def _loops(self, output: Output, wrt: tuple[int, ...]) -> dict[int, Value]:
        """Jacobians of an array output, allocated and filled."""
        b, primal = self.b, self.primal.name
        value = self._call(adjoint(self.module, primal, AdjointConfig((), (), (output,))), [])[0]
        rows = extents(b, value)
        own = {k: extents(b, self.params[k]) if isinstance(self.params[k].type, PointerType) else [] for k in wrt}
        # a derivative has the dtype of the argument, whatever that of the output
        found = {k: b.emit("allocateHeap", *rows, *own[k], dtype=self.params[k].type.dtype.name) for k in wrt}  # type: ignore[attr-defined]
        m = self._product(rows)

        def by_columns() -> None:
            for k in wrt:
                self._fill_columns(output, k, found[k], rows, own[k])

        def by_rows() -> None:
            config = AdjointConfig(wrt, (output,), seedable=True, checkpoint=self.checkpoint)
            self._fill_rows(self._gradient(config), value, rows, [(found[k], own[k]) for k in wrt])

        if self.mode == "auto":
            n = literal(0)
            for k in wrt:
                n = b.emit("add", n, self._product(own[k]))
            self._either(b.emit("lessThanOrEqual", n, m), by_columns, by_rows)
        else:
            (by_columns if self.mode == "forward" else by_rows)()
        return found

    def _fill_columns(self, output: Output, k: int, to: Value, rows: list[Value], own: list[Value]) -> None:
        b, n = self.b, self._product(own)
        matrix = b.emit("shapeCast", to, *rows, n)
        count = _lanes(n)
        try:
            lanes = self._tangent(output, k, _several(count, 2))
        except NoLanes:
            self._fill_one_by_one(self._tangent(output, k), matrix, rows, self.params[k], n)
            return
        zeros, ones = [literal(0)] * len(rows), [literal(1)] * (len(rows) + 1)

        def step(given: Value, first: Value, left: Value) -> None:
            (made,) = self._call(lanes, [given])
            moved = b.emit("section", made, *zeros, literal(0), *extents(b, made)[:-1], left, *ones)
            self._store(b.emit("load", moved), b.emit("section", matrix, *zeros, first, *rows, left, *ones))

        self._sweeps(self.params[k], own, n, count, step)

    def _sweeps(
        self, like: Value, own: list[Value], n: Value, count: int, step: Callable[[Value, Value, Value], None]
    ) -> None:
        """Go through `count` of the n unit vectors of the shape of `like` at a time, as tangents with lanes.

        step(the tangents, the first of them, how many there are)
        """
        b, dtype = self.b, like.type.dtype  # type: ignore[attr-defined]
        memory = b.emit("allocateHeap", *own, literal(count), dtype=dtype.name)
        flat = b.emit("shapeCast", memory, n, literal(count))
        given = b.emit("pointerCast", memory, to=Lanes(count).parameter(like.type))

        def chunk(k: Value) -> None:
            first = b.emit("multiply", k, literal(count))
            numbers = b.emit("add", b.emit("iota", literal(count)), first)
            places = b.emit("padShape", b.emit("iota", n), at=1)
            unit = b.emit("equal", places, b.emit("padShape", numbers, at=0))
            b.emit("store", b.emit("dataTypeCast", unit, to=dtype.name), flat)
            step(given, first, b.emit("min", literal(count), b.emit("subtract", n, first)))

        self._loop(b.emit("floorDivide", b.emit("add", n, literal(count - 1)), literal(count)), chunk)

    def _fill_one_by_one(self, column: Function, matrix: Value, rows: list[Value], param: Value, n: Value) -> None:
        b = self.b
        flat, given = self._unit(param, n)

        def step(k: Value) -> None:
            self._set(flat, k, 1.0)
            moved = b.emit("load", self._call(column, [given])[0])
            zeros, ones = [literal(0)] * len(rows), [literal(1)] * len(rows)
            place = b.emit("section", matrix, *zeros, k, *rows, literal(1), *ones, literal(1))
            self._store(moved, b.emit("squeezeShape", place, at=len(rows)))
            self._set(flat, k, 0.0)

        self._loop(n, step)

    def _fill_rows(
        self, gradient: Function, value: Value, rows: list[Value], to: list[tuple[Value, list[Value]]]
    ) -> None:
        """Several rows a sweep: the gradient is linear in its seed, so that its tangent along a unit seed is a
        row, and its tangent with lanes as many.
        """
        b, m = self.b, self._product(rows)
        matrices = [b.emit("shapeCast", j, m, *own) for j, own in to]
        count = _lanes(m)
        results = tuple(Output("result", k) for k in range(len(to)))
        try:
            config = TangentConfig((len(gradient.params) - 1,), results, directions=_several(count, 4))
            lanes = tangent(self.module, gradient.name, config)
        except NoLanes:
            self._fill_row_by_row(gradient, value, m, matrices)
            return
        # the tangent does not depend on the seed, but for one thing: where that is 0, a partial that is not finite is
        # left out. NaN is not 0
        _, seed = self._filled_like(value, math.nan)

        def step(given: Value, first: Value, left: Value) -> None:
            for part, matrix in zip(self._call(lanes, [seed, given]), matrices, strict=True):
                moved = b.emit("load", part) if isinstance(part.type, PointerType) else part
                rank = moved.type.rank - 1  # type: ignore[attr-defined]
                zeros, ones, own = [literal(0)] * rank, [literal(1)] * (rank + 1), extents(b, matrix)[1:]
                moved = b.emit("section", moved, *zeros, literal(0), *own, left, *ones)
                moved = b.emit("transpose", moved, axes=(rank, *range(rank)))
                place = b.emit("section", matrix, first, *zeros, left, *own, *ones)
                b.emit("store", moved, place)

        self._sweeps(value, rows, m, count, step)

    def _fill_row_by_row(self, gradient: Function, value: Value, m: Value, matrices: list[Value]) -> None:
        b = self.b
        flat, given = self._unit(value, m)

        def step(k: Value) -> None:
            self._set(flat, k, 1.0)
            for part, matrix in zip(self._call(gradient, [given]), matrices, strict=True):
                moved = b.emit("load", part) if isinstance(part.type, PointerType) else part
                b.emit("store", moved, b.emit("elementPointer", matrix, k))
            self._set(flat, k, 0.0)

        self._loop(m, step)

    def _store(self, columns: Value, place: Value) -> None:
        """Write columns, which have the dtype of the output."""
        dtype = place.type.dtype  # type: ignore[attr-defined]
        cast = columns if columns.type.dtype is dtype else self.b.emit("dataTypeCast", columns, to=dtype.name)  # type: ignore[attr-defined]
        self.b.emit("store", cast, place)

    def _unit(self, like: Value, n: Value) -> tuple[Value, Value]:
        """Memory of the shape of `like`, all zero: as a vector, and as a tangent or seed is given."""
        memory, given = self._filled_like(like, 0.0)
        return self.b.emit("shapeCast", memory, n), given

    def _filled_like(self, like: Value, number: float) -> tuple[Value, Value]:
        """Memory of the shape of `like`, and as a tangent or seed is given."""
        b, wanted, dtype = self.b, seed_type(like.type), like.type.dtype  # type: ignore[attr-defined]
        memory = b.emit("allocateHeap", *extents(b, like), dtype=dtype.name)
        b.emit("store", filled(b, literal(number, scalar(dtype)), like), memory)
        return memory, memory if memory.type == wanted else b.emit("pointerCast", memory, to=wanted)

    def _set(self, flat: Value, k: Value, number: float) -> None:
        element = self.b.emit("elementPointer", flat, k)
        self.b.emit("store", literal(number, scalar(flat.type.dtype)), element)  # type: ignore[attr-defined]

    def _product(self, counts: list[Value]) -> Value:
        total: Value = literal(1)
        for n in counts:
            total = self.b.emit("multiply", total, n)
        return total

    # -- control ---------------------------------------------------------------------------------------

    def _loop(self, count: Value, step: Callable[[Value], None]) -> None:
        b, new = self.b, self.function.new_block
        header, body, after = new("loop"), new("body"), new("after")
        k = header.add_arg(count.type, "k")
        b.branch(header, [literal(0)])
        b.at_end(header)
        b.conditional(b.emit("lessThan", k, count), body, [], after)
        b.at_end(body)
        step(k)
        b.branch(header, [b.emit("add", k, literal(1))])
        b.at_end(after)

    def _either(self, flag: Value, then: Callable[[], None], other: Callable[[], None]) -> None:
        b, new = self.b, self.function.new_block
        blocks, after = (new("columns"), new("rows")), new("filled")
        b.conditional(flag, blocks[0], [], blocks[1])
        for block, write in zip(blocks, (then, other), strict=True):
            b.at_end(block)
            write()
            b.branch(after)
        b.at_end(after)


def _lanes(lines: Value) -> int:
    """How many columns or rows are made at once: LANES, or as few as make no more sweeps of a number that is known."""
    if not isinstance(lines, Literal) or not lines.value:
        return LANES
    sweeps = -(-lines.value // LANES)
    return -(-lines.value // sweeps)


def _several(count: int, least: int) -> Lanes:
    """Raises: NoLanes for so few that they do not pay."""
    if count < least:
        raise NoLanes
    return Lanes(count)
