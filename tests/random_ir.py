"""Random raw IR: well-formed functions with loops, branches, calls, views, stores and tapes, and their arguments.

    program = random_program(seed)
    outcome = observe(program.module, "main", program.arguments())

`observe` gives everything that a caller can see: the results, the final contents of the array arguments, or
the exception with what had been written before it. Two runs of a program, before and after a pass, must give
equal outcomes. NaNs count as equal whatever their payload; zeros do not whatever their sign.

The generator knows the concrete shape of every pointer, so indices are in range and extents fit, as the IR
asks; the types say `_` for parameters and what the ops derive for the rest. Array values never leave their
block. Only scalars and pointers cross borders.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlvm_py.ir import (
    BOOL,
    F64,
    I64,
    Block,
    Builder,
    Function,
    Module,
    PointerType,
    TensorType,
    TupleType,
    Value,
    literal,
    print_module,
    scalar,
)
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.interpreter import run

N, M = 4, 3
VECTOR, MATRIX = TensorType((None,), F64), TensorType((None, None), F64)
FLOAT_LITERALS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, float("nan"), float("inf"))
COMPARISONS = ("lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual", "equal", "notEqual")

Shape = tuple[int, ...]


@dataclass
class Scope:
    """What can be used at a place: scalars by kind, indices with their exclusive bound, arrays by shape."""

    floats: list[Value] = field(default_factory=list)
    ints: list[Value] = field(default_factory=list)
    bools: list[Value] = field(default_factory=list)
    indices: list[tuple[Value, int]] = field(default_factory=list)
    arrays: list[tuple[Value, Shape]] = field(default_factory=list)

    def inner(self) -> Scope:
        """A copy for a nested region."""
        return Scope(*(list(getattr(self, name)) for name in self.__dataclass_fields__))


@dataclass
class Program:
    """A module with a function `main`, and the seed that makes its arguments."""

    module: Module
    seed: int

    def arguments(self) -> list[Any]:
        """Fresh arguments of `main`: always the same values."""
        rng = np.random.default_rng(self.seed)
        strided = rng.normal(size=(2 * N, 2 * M))[::2, ::-2]
        arrays = [rng.normal(size=N), rng.normal(size=N), rng.normal(size=(N, M)), strided]
        return [*arrays, float(rng.normal()), int(rng.integers(0, M)), bool(rng.integers(0, 2))]

    def __str__(self) -> str:
        return print_module(self.module)


def random_program(seed: int, size: int = 12) -> Program:
    """A random module; `main` has about `size` statements at each level and calls two helpers."""
    rng = random.Random(seed)
    module = Module("random")
    for k in range(2):
        _Generator(rng, module, f"helper{k}", size // 3 + 1).function()
    _Generator(rng, module, "main", size).function()
    return Program(module, seed)


def observe(module: Module, name: str, arguments: list[Any]) -> tuple[Any, ...]:
    """All that a call shows: ("returns" or the exception's class, its value or text, the array arguments)."""
    try:
        result = run(module, name, arguments, max_steps=100_000)
        seen: tuple[Any, ...] = ("returns", _image(result))
    except (ArithmeticError, ValueError, IndexError) as e:
        seen = (type(e).__name__, str(e))
    return *seen, *(_image(a) for a in arguments)


def _image(value: Any) -> Any:
    """A value as plain data that compares by bits, NaN aside."""
    if isinstance(value, tuple):
        return tuple(map(_image, value))
    array = np.array(value, order="C")
    if array.dtype.kind == "f":
        array[np.isnan(array)] = np.nan
    return array.dtype.name, array.shape, array.tobytes()


class _Generator:
    """Builds one function; `scope` is what the statement that is being built may use."""

    def __init__(self, rng: random.Random, module: Module, name: str, size: int) -> None:
        self.rng = rng
        self.module = module
        self.callees = list(module.functions.values())
        self.size = size
        self.f = Function(name, TupleType((scalar(F64), scalar(I64), PointerType(VECTOR))))
        self.b = Builder(self.f)
        self.scope = Scope()

    def function(self) -> Function:
        """Build the function and add it to the module."""
        entry = self.f.new_block("entry")
        for name, type, shape in (
            ("x", PointerType(VECTOR), (N,)),
            ("y", PointerType(VECTOR), (N,)),
            ("a", PointerType(MATRIX), (N, M)),
            ("b", PointerType(MATRIX, "S"), (N, M)),
        ):
            self.scope.arrays.append((entry.add_arg(type, name), shape))
        self.scope.floats.append(entry.add_arg(scalar(F64), "s"))
        index = entry.add_arg(scalar(I64), "k")
        self.scope.indices.append((index, M))
        self.scope.ints.append(index)
        self.scope.bools.append(entry.add_arg(scalar(BOOL), "flag"))
        self.b.at_end(entry)
        self.statements(self.size, depth=0)
        vector = self.fresh((N,), static=False)
        result = self.emit("tuple", self.float(), self.int(), vector)
        self.b.ret(result)
        return self.module.add(self.f)

    # -- pieces --------------------------------------------------------------------------------------

    def emit(self, op: str, *operands: Value, **attrs: Any) -> Any:
        return self.b.emit(op, *operands, **attrs)

    def float(self) -> Value:
        if self.rng.random() < 0.2:
            return literal(self.rng.choice(FLOAT_LITERALS))
        return self.rng.choice(self.scope.floats)

    def int(self) -> Value:
        if self.rng.random() < 0.3:
            return literal(self.rng.choice((-1, 0, 1, 2, 5, 2**62)))
        return self.rng.choice(self.scope.ints)

    def bool(self) -> Value:
        if self.rng.random() < 0.15:
            return literal(self.rng.random() < 0.5)
        return self.rng.choice(self.scope.bools)

    def index(self, extent: int) -> Value:
        fitting = [v for v, bound in self.scope.indices if bound <= extent]
        if fitting and self.rng.random() < 0.6:
            return self.rng.choice(fitting)
        return literal(self.rng.randrange(extent))

    def array(self, shape: Shape | None = None) -> tuple[Value, Shape]:
        fitting = [a for a in self.scope.arrays if shape is None or a[1] == shape]
        if fitting and shape is not None or self.rng.random() < 0.95:
            return self.rng.choice(fitting) if fitting else (self.fresh(shape or (N,)), shape or (N,))
        made = shape or self.rng.choice([(N,), (M,), (N, M), (M, M), (1, N), ()])
        return self.fresh(made), made

    def fresh(self, shape: Shape, static: bool = True) -> Value:
        """A new array, written once."""
        extents: list[Value] = [literal(n) for n in shape]
        if shape and (not static or self.rng.random() < 0.5):
            # computed extents: `_` in the type
            n = self.emit("extent", self.scope.arrays[0][0], at=0)
            extents = [n if given == N else literal(given) for given in shape]
        memory = self.emit("allocateHeap", *extents, dtype="f64")
        if shape:
            value = self.expression(shape, 2)
            if not value.type.shape:
                value = self.emit("broadcast", value, *extents)
        else:
            value = self.float()
        self.emit("store", value, memory)
        self.scope.arrays.append((memory, shape))
        return memory

    def expression(self, shape: Shape, depth: int) -> Value:
        """An array value of `shape` (or a scalar, which fits all)."""
        kind = self.rng.random()
        fitting = [p for p, s in self.scope.arrays if s == shape]
        if not depth or kind < 0.3:
            if fitting and self.rng.random() < 0.8:
                return self.emit("load", self.rng.choice(fitting))
            return self.float()
        if kind < 0.4 and len(shape) == 2:
            inner = self.expression(shape[::-1], depth - 1)
            return self.emit("transpose", inner) if inner.type.shape else inner
        if kind < 0.55:
            return self.emit(self.rng.choice(("negate", "sin", "abs", "square")), self.expression(shape, depth - 1))
        op = self.rng.choice(("add", "subtract", "multiply", "max", "min"))
        return self.emit(op, self.expression(shape, depth - 1), self.expression(shape, depth - 1))

    # -- statements ----------------------------------------------------------------------------------

    def statements(self, count: int, depth: int) -> None:
        simple = [
            (6, self.float_statement),
            (4, self.int_statement),
            (3, self.bool_statement),
            (4, self.view_statement),
            (4, self.element_load),
            (4, self.element_store),
            (3, self.array_store),
            (3, lambda: self.array()),
            (2, lambda: self.fresh(self.rng.choice([(N,), (N, M), (M, N), ()]))),
            (2, self.reduction),
            (1, self.check),
            (1, self.tape),
        ]
        if self.callees:
            simple.append((1, self.call))
        nested = [(2, self.branch), (2, self.loop)] if depth < 3 else []
        weights, choices = zip(*simple, *nested, strict=True)
        for _ in range(count):
            statement = self.rng.choices(choices, weights)[0]
            if statement in (self.branch, self.loop):
                statement(depth)
            else:
                statement()

    def float_statement(self) -> None:
        op = self.rng.choice(("add", "subtract", "multiply", "divide", "max", "min", "sin", "negate", "select", "int"))
        if op == "select":
            value = self.emit(op, self.float(), self.float(), self.bool())
        elif op == "int":
            value = self.emit("dataTypeCast", self.int(), to="f64")
        elif op in ("sin", "negate"):
            value = self.emit(op, self.float())
        else:
            value = self.emit(op, self.float(), self.float())
        self.scope.floats.append(value)

    def int_statement(self) -> None:
        op = self.rng.choice(("add", "subtract", "multiply", "max", "min", "bitAnd", "bitXor", "modulo", "checked"))
        if op == "modulo":
            bound = self.rng.choice((1, M, N))
            value = self.emit(op, self.int(), literal(bound))
            self.scope.indices.append((value, bound))
        elif op == "checked":
            value = self.emit(self.rng.choice(("add", "subtract")), self.int(), self.int(), checked=True)
        else:
            value = self.emit(op, self.int(), self.int())
        self.scope.ints.append(value)

    def bool_statement(self) -> None:
        kind = self.rng.random()
        if kind < 0.3:
            value = self.emit(self.rng.choice(COMPARISONS), self.float(), self.float())
        elif kind < 0.7:
            value = self.emit(self.rng.choice(COMPARISONS), self.int(), self.int())
        elif kind < 0.85:
            value = self.emit(self.rng.choice(("and", "or")), self.bool(), self.bool())
        else:
            value = self.emit("not", self.bool())
        self.scope.bools.append(value)

    def view_statement(self) -> None:
        p, shape = self.array()
        assert isinstance(p.type, PointerType)
        kind = self.rng.choice(("section", "transpose", "element", "pad", "squeeze", "cast", "reshape"))
        if kind == "section" and shape:
            view, shape = self.section(p, shape)
        elif kind == "transpose":
            view, shape = self.emit("transpose", p), shape[::-1]
        elif kind == "element" and shape:
            keys = self.rng.randint(1, len(shape))
            view = self.emit("elementPointer", p, *(self.index(n) for n in shape[:keys]))
            shape = shape[keys:]
        elif kind == "pad" and len(shape) < 3:
            at = self.rng.randint(0, len(shape))
            view, shape = self.emit("padShape", p, at=at), (*shape[:at], 1, *shape[at:])
        elif kind == "squeeze" and 1 in p.type.shape:
            at = p.type.shape.index(1)
            view, shape = self.emit("squeezeShape", p, at=at), (*shape[:at], *shape[at + 1 :])
        elif kind == "reshape" and p.type.layout == "C" and shape:
            size = int(np.prod(shape))
            view, shape = self.emit("shapeCast", p, literal(size)), (size,)
        else:
            to = PointerType(TensorType((None,) * len(shape), F64), p.type.layout)
            view = self.emit("pointerCast", p, to=to)
        if 0 not in shape:
            self.scope.arrays.append((view, shape))

    def section(self, p: Value, shape: Shape) -> tuple[Value, Shape]:
        starts, counts, steps = [], [], []
        result = []
        for axis, n in enumerate(shape):
            if self.rng.random() < 0.5:
                starts.append(literal(0))
                counts.append(self.emit("extent", p, at=axis))
                steps.append(literal(1))
                result.append(n)
                continue
            start = self.rng.randrange(n)
            step = self.rng.choice((1, 2, -1))
            most = (n - 1 - start) // step + 1 if step > 0 else start + 1
            count = self.rng.randint(1, most)
            starts.append(literal(start))
            counts.append(literal(count))
            steps.append(literal(step))
            result.append(count)
        return self.emit("section", p, *starts, *counts, *steps), tuple(result)

    def element(self) -> Value:
        p, shape = self.array()
        return self.emit("elementPointer", p, *(self.index(n) for n in shape)) if shape else p

    def element_load(self) -> None:
        self.scope.floats.append(self.emit("load", self.element()))

    def element_store(self) -> None:
        self.emit("store", self.float(), self.element())

    def array_store(self) -> None:
        p, shape = self.array()
        value = self.expression(shape, 2) if shape else self.float()
        assert isinstance(p.type, PointerType)
        if shape and not value.type.shape:
            value = self.emit("broadcast", value, *extents_of(self.b, p))
        if self.storable(value, p):
            self.emit("store", value, p)

    def storable(self, value: Value, p: Value) -> bool:
        return all(m is None or n is None or m == n for m, n in zip(value.type.shape, p.type.shape, strict=True))

    def reduction(self) -> None:
        p, shape = self.array()
        value = self.expression(shape, 2) if shape else None
        if value is None or not value.type.shape:
            return
        self.scope.floats.append(self.emit("reduce", value, literal(0.0), by="add", axes=tuple(range(len(shape)))))

    def check(self) -> None:
        bound = self.rng.choice((2, 100, 2**62))
        held = self.emit("lessThanOrEqual", self.int(), literal(bound))
        self.emit("check", held, exception="ValueError", message="too large")

    def tape(self) -> None:
        stack = self.emit("createStack", element=scalar(F64))
        count = self.rng.randint(1, 3)
        for _ in range(count):
            self.emit("push", self.float(), stack)
        popped = [self.emit("pop", stack) for _ in range(count)]
        if self.rng.random() < 0.7:
            self.scope.floats.extend(popped)
        self.emit("destroyStack", stack)

    def call(self) -> None:
        callee = self.rng.choice(self.callees)
        operands: list[Value] = []
        kinds = {scalar(F64): self.float, scalar(BOOL): self.bool, scalar(I64): lambda: self.index(M)}
        # the parameters of the caller have the types of the callee's
        own = dict(zip((p.type for p in callee.params), self.f.params, strict=True))
        for p in callee.params:
            operands.append(kinds[p.type]() if p.type in kinds else own[p.type])
        called = self.emit("apply", *operands, callee=callee.name, result=callee.result)
        self.scope.floats.append(self.emit("extract", called, at=0))
        self.scope.ints.append(self.emit("extract", called, at=1))
        self.scope.arrays.append((self.emit("extract", called, at=2), (N,)))

    # -- control -------------------------------------------------------------------------------------

    def branch(self, depth: int) -> None:
        outer = self.scope
        condition = self.bool()
        arms = [self.f.new_block("then"), self.f.new_block("else")]
        after = Block("join")
        self.b.conditional(condition, arms[0], [], arms[1], [])
        joined = self.rng.randint(0, 2)
        for arm in arms:
            self.scope = outer.inner()
            self.b.at_end(arm)
            self.statements(self.rng.randint(0, 3), depth + 1)
            self.b.branch(after, [*(self.float() for _ in range(joined)), self.int()])
        self.f.blocks.append(after)
        self.scope = outer
        self.b.at_end(after)
        outer.floats.extend(after.add_arg(scalar(F64)) for _ in range(joined))
        outer.ints.append(after.add_arg(scalar(I64)))

    def loop(self, depth: int) -> None:
        """for i in range(trip), with carried floats, two carried arrays that may be swapped, and a break."""
        outer = self.scope
        trip = self.rng.randint(0, 3)
        header, body, after = self.f.new_block("head"), Block("body"), Block("after")
        carried = self.rng.randint(0, 2)
        shape = self.rng.choice([(N,), (N, M)])
        pair = [p for p, s in outer.arrays if s == shape and isinstance(p, Value)][:2]
        pair = pair if len(pair) == 2 and pair[0].type == pair[1].type else []
        self.b.branch(header, [literal(0), *(self.float() for _ in range(carried)), *pair])
        i = header.add_arg(scalar(I64), "i")
        floats = [header.add_arg(scalar(F64), "c") for _ in range(carried)]
        arrays = [header.add_arg(p.type, "u") for p in pair]
        self.b.at_end(header)
        more = self.emit("lessThan", i, literal(trip))
        self.b.conditional(more, body, [], after, [])
        self.f.blocks.append(body)
        self.scope = outer.inner()
        self.b.at_end(body)
        self.scope.indices.append((i, max(trip, 1)))
        self.scope.ints.append(i)
        self.scope.floats.extend(floats)
        self.scope.arrays.extend((a, shape) for a in arrays)
        self.statements(self.rng.randint(1, 4), depth + 1)
        if self.rng.random() < 0.3:
            going_on = self.f.new_block("on")
            self.b.conditional(self.bool(), going_on, [], after, [])
            self.b.at_end(going_on)
        step = self.emit("add", i, literal(1))
        swapped = arrays[::-1] if self.rng.random() < 0.5 else arrays
        kept = [c if self.rng.random() < 0.3 else self.float() for c in floats]
        self.b.branch(header, [step, *kept, *swapped])
        self.f.blocks.append(after)
        self.scope = outer
        self.b.at_end(after)
        outer.floats.extend(floats)
        outer.arrays.extend((a, shape) for a in arrays)
        outer.ints.append(i)
