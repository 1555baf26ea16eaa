"""Values of one function as expressions of Python: what the entries of the spelling table ask for.

A value that has a variable is a placeholder (`_Place`) until variables have names: function.py puts them in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gast

from dlvm_py.backend.python import tidy
from dlvm_py.backend.python.extents import Axis, Clipped, Extents, Sum
from dlvm_py.backend.python.folding import Plan
from dlvm_py.backend.python.nodes import (
    Node,
    build,
    call,
    constant,
    index,
    name,
)
from dlvm_py.backend.python.rearranging import place_of
from dlvm_py.backend.python.spelling import SPELLING
from dlvm_py.backend.python.strength import Strength
from dlvm_py.backend.python.writer import dtype, dtype_keyword, is_scalar, literal_of
from dlvm_py.frozen import Mutable
from dlvm_py.ir import (
    NULL,
    UNDEFINED,
    Block,
    Function,
    Instruction,
    Literal,
    PointerType,
    TensorType,
    Value,
)
from dlvm_py.ir.analysis import AliasAnalysis, DominatorTree, LoopForest

_PLACE = "_Place"


class Names(Mutable):
    """Of the whole text: functions, and what it brings along."""

    functions: dict[str, str]
    helpers: dict[str, None]
    classes: dict[str, str]  # of the user, by their paths: what they are called here

    def of_class(self, path: str) -> str:
        """The name of a class of the user."""
        return self.classes.setdefault(path, path.rpartition(".")[2])


class Expressions:
    """The expressions of one function's values, by placeholders."""

    def __init__(self, function: Function, names: Names, strong: Iterable[int] = (), *, noalias: bool = True) -> None:
        """strong: the numbers of the parameters that are NumPy scalars. noalias: the caller's arrays do not overlap."""
        self.function = function
        self.names = names
        self._noalias = noalias
        self._strong = {function.params[k] for k in strong}
        self._dominators = DominatorTree(function)
        self._values: dict[str, Value] = {}
        self._place_names: dict[Value, str] = {}
        self.counted: dict[Block, tidy.Counted] = {}
        self._prepare({loop.header: c for loop in LoopForest(function).loops if (c := tidy.counted(function, loop))})

    def _prepare(self, counted: dict[Block, tidy.Counted]) -> None:
        self.counted = counted
        self.extents = Extents({c.variable for c in counted.values()})
        alias = AliasAnalysis(self.function, self._noalias)
        self.plan = Plan(self.function, alias, {c.variable for c in counted.values()})
        self._alias = alias
        self._strength = Strength(self.function, self.plan.order, self._strong)
        self._strength.solve(self)

    # -- what entries of the op table ask --------------------------------------------------------------------

    def of(self, value: Value) -> Node:
        """The expression of a value."""
        if isinstance(value, Literal):
            return self._literal(value)
        if isinstance(value, Instruction) and value in self.plan.inline:
            return self._inline(value)
        return self._place(value)

    def operand(self, value: Value) -> Node:
        """The expression of an operand beside others that have the dtype."""
        number = literal_of(value)
        return constant(number) if number is not None and _is_number(number) else self.of(value)

    def broadcast(self, i: Instruction) -> list[Node]:
        """Operands without what NumPy's broadcasting does by itself."""
        t = i.type
        assert isinstance(t, TensorType)
        operands = list(i.operands)
        whole = [k for k, v in enumerate(operands) if _fills(v, t)]
        nodes = []
        for k, v in enumerate(operands):
            others = [n for n in whole if n != k and not _is_stretched(operands[n])]
            if others:
                v = self._stripped(v)
            # a number beside another operand of this dtype takes part in it
            typed = [o for j, o in enumerate(operands) if j != k and o.type.dtype is v.type.dtype]  # type: ignore[attr-defined]
            beside = any(literal_of(o) is None for o in typed)
            nodes.append(self.operand(v) if is_scalar(v) and beside else self.of(v))
        return nodes

    def _stripped(self, v: Value) -> Value:
        while isinstance(v, Instruction) and v in self.plan.inline:
            if v.op.name == "broadcast" or (
                v.op.name == "padShape" and v.attrs["at"] == 0 and not is_scalar(v.operands[0])
            ):
                v = v.operands[0]
            else:
                break
        return v

    def is_weak(self, value: Value) -> bool:
        """Whether a number may be one of Python."""
        return self._strength.is_weak(value, self)

    def is_inline(self, value: Value, op: str = "") -> bool:
        """Whether a value is written where it is used."""
        return value in self.plan.inline

    def is_nonzero(self, value: Value, at: Instruction) -> bool:
        """Whether a check before has seen that a divisor is not 0."""
        for check in self._checks_before(at):
            test = check.operands[0]
            if isinstance(test, Instruction) and test.op.name == "notEqual" and literal_of(test.operands[1]) == 0:
                if test.operands[0] is value:
                    return True
        return False

    def fits_integer(self, i: Instruction) -> bool:
        """Whether checks before have seen that a float becomes an integer of 64 bits: those of Python's int()."""
        x = i.operands[0]
        while isinstance(x, Instruction) and x.op.name == "truncate":
            x = x.operands[0]
        return any(
            c.attrs["exception"] == "OverflowError" and len(c.operands) == 2 and c.operands[1] is x
            for c in self._checks_before(i)
        )

    def is_nonempty(self, i: Instruction) -> bool:
        """Whether a check before has seen that there is something to reduce: NumPy's own."""
        axes = i.attrs["axes"]
        lengths = [self.extents.extent(i.operands[0], k) for k in axes]
        if all(n.number is not None and n.number > 0 for n in lengths):
            return True
        for check in self._checks_before(i):
            if "zero-size array to reduction" in check.attrs["message"]:
                seen = [self.extents.sum_of(n) for n in self._compared(check.operands[0])]
                if all(n in seen or (n.number or 0) > 0 for n in lengths):
                    return True
        return False

    def _compared(self, test: Value) -> list[Value]:
        if not isinstance(test, Instruction):
            return []
        if test.op.name in ("or", "and"):
            return [v for t in test.operands for v in self._compared(t)]
        return [test.operands[0]] if test.op.name == "greaterThan" else []

    def _checks_before(self, i: Instruction) -> list[Instruction]:
        if not hasattr(self, "_checks"):
            self._checks = [c for c in self.function.instructions() if c.op.name == "check"]
        return [c for c in self._checks if c.block is not None and self._dominators.instruction_dominates(c, i)]

    def number(self, s: Sum) -> Node:
        """A sum as an expression."""
        node: Node | None = None
        for term, factor in sorted(s.terms, key=lambda t: t[1] < 0):
            part = self._term(term)
            if abs(factor) != 1:
                part = gast.BinOp(constant(abs(factor)), gast.Mult(), part)
            if node is None:
                node = part if factor > 0 else gast.UnaryOp(gast.USub(), part)
            else:
                node = gast.BinOp(node, gast.Add() if factor > 0 else gast.Sub(), part)
        if node is None:
            return constant(s.constant)
        if not s.constant:
            return node
        return gast.BinOp(node, gast.Add() if s.constant > 0 else gast.Sub(), constant(abs(s.constant)))

    def _term(self, term: Any) -> Node:
        if isinstance(term, Axis):
            node = self.of(term.of)
            if term.of.type.rank == 1:  # type: ignore[attr-defined]
                return call("len", node)
            return index(gast.Attribute(node, "shape", gast.Load()), [constant(term.at)])
        if isinstance(term, Clipped):
            return call("max", self.number(term.of), constant(0))
        return self.of(term)

    def helper(self, helper: str) -> str:
        """A helper of the text."""
        self.names.helpers[helper] = None
        return helper

    # -- expressions -----------------------------------------------------------------------------------------

    def _place(self, value: Value) -> Node:
        if value not in self._place_names:
            self._place_names[value] = f"{_PLACE}{len(self._place_names)}_"
            self._values[self._place_names[value]] = value
        return name(self._place_names[value])

    def _literal(self, v: Literal) -> Node:
        if v.value is UNDEFINED:
            return constant(None)
        if v.value is NULL:
            assert isinstance(v.type, PointerType)
            return call("np.empty", constant((0,) * v.type.rank), **dtype_keyword(v.type.dtype))
        node = constant(v.value)
        if dtype(v).is_inexact and isinstance(v.value, int) and not isinstance(v.value, bool):
            node = constant(complex(v.value) if dtype(v).is_complex else float(v.value))
        return node if dtype(v).name in ("f64", "i64", "c128", "bool") else call(f"np.{dtype(v).numpy_name}", node)

    def _inline(self, i: Instruction) -> Node:
        if i.op.name == "load":
            return self._loaded(i.operands[0])
        entry = SPELLING[i.op.name]
        if isinstance(entry, str):
            return build(entry, *map(self.of, i.operands))
        return entry(self, i)

    def _loaded(self, pointer: Value) -> Node:
        """What memory holds: the array itself, or an element."""
        if pointer.type.rank:  # type: ignore[attr-defined]
            return self.of(pointer)
        return self._element(pointer)

    def _element(self, pointer: Value) -> Node:
        """The one element of memory of rank 0, to be read or assigned to."""
        if isinstance(pointer, Instruction) and pointer in self.plan.inline and pointer.op.name == "elementPointer":
            return place_of(self, pointer)
        return index(self.of(pointer), [build("()")])

    def kept(self, value: Value) -> Node:
        """The expression of a value that outlives the statement: an array is copied if its memory changes."""
        node = self.of(value)
        if isinstance(value.type, TensorType) and value.type.rank and value in self.plan.inline:
            if self.plan.must_copy(value):
                return copied(node)
        return node


def copied(node: Node) -> Node:
    """A copy of an array."""
    return gast.Call(gast.Attribute(node, "copy", gast.Load()), [], [])


def _fills(v: Value, t: TensorType) -> bool:
    """Whether an operand has the extents of the result."""
    return isinstance(v.type, TensorType) and v.type.rank == t.rank and v.type.shape == t.shape


def _is_stretched(v: Value) -> bool:
    """Whether `_stripped` may leave out what gives an operand its shape, so that others cannot rely on it."""
    return isinstance(v, Instruction) and (v.op.name == "broadcast" or (v.op.name == "padShape" and v.attrs["at"] == 0))


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float | complex)
