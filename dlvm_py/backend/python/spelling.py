"""How each op is written as an expression: one entry an op, and the reasons where there is none.

An entry is source with `_0`, `_1`, ... for its operands, or a function of the writer and the instruction. What is a
statement (memory, tapes, calls, checks, control) is written by function.py.

Numbers are *weak* or *strong*. A weak number is one of Python (a float, an int), which takes part in any dtype; a
strong one is NumPy's, of its IR dtype. Numbers of f64, i64, c128 and bool may be either, whatever the program makes
of them; all others are strong. Where Python's operator would do other things with weak numbers than the op says
(1.0 / 0.0, (-8.0) ** 0.5), the NumPy function is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import gast

from dlvm_py.backend.python.extents import Extents, Sum, unclipped
from dlvm_py.backend.python.nodes import (
    Node,
    build,
    call,
    constant,
    index,
    is_name,
    make_tuple,
    negated,
    same,
    slice_of,
)
from dlvm_py.ir import Instruction, Literal, PointerType, TensorType, Value
from dlvm_py.ir.ops.window import PADDINGS
from dlvm_py.ir.types import DType

DEFAULT = ("f64", "i64", "c128", "bool")  # whose weak numbers are these dtypes


class Writer(Protocol):
    """What an entry may ask of the function that is written."""

    extents: Extents

    def of(self, value: Value) -> Node:
        """The expression of a value, by itself."""

    def operand(self, value: Value) -> Node:
        """The same as an operand: a number may be written weak, because another operand has the dtype."""

    def broadcast(self, i: Instruction) -> list[Node]:
        """The operands of an elementwise op, without what NumPy's broadcasting does by itself."""

    def is_weak(self, value: Value) -> bool:
        """Whether a number may be one of Python."""

    def is_inline(self, value: Value, op: str = "") -> bool:
        """Whether a value is written where it is used (and comes from this op)."""

    def is_nonzero(self, value: Value, at: Instruction) -> bool:
        """Whether a divisor is known not to be 0."""

    def fits_integer(self, i: Instruction) -> bool:
        """Whether the number that a cast makes an integer is known to fit."""

    def is_nonempty(self, i: Instruction) -> bool:
        """Whether a reduction is known to reduce something."""

    def number(self, s: Sum) -> Node:
        """A sum as an expression."""

    def helper(self, name: str) -> str:
        """The name of a helper, which the text then has."""


Entry = str | Callable[[Writer, Instruction], Node]


# -- properties ------------------------------------------------------------------------------------------


def dtype(value: Value) -> DType:
    """The element type of a tensor or of memory."""
    assert isinstance(value.type, TensorType | PointerType)
    return value.type.dtype


def is_scalar(value: Value) -> bool:
    """Whether a value is a number."""
    return isinstance(value.type, TensorType) and not value.type.rank


def numpy_dtype(d: DType) -> Node:
    """`np.float32`, and for bool, int64 and float64 as NumPy calls them too."""
    return build(f"np.{'bool_' if d.name == 'bool' else d.numpy_name}")


def literal_of(value: Value) -> object | None:
    """The number that a literal is, also a broadcast one; None for computed values."""
    while isinstance(value, Instruction) and value.op.name == "broadcast":
        value = value.operands[0]
    return value.value if isinstance(value, Literal) else None


def dtype_keyword(d: DType) -> dict[str, Node]:
    """The `dtype=` that makes an array of this type; none for float64."""
    return {} if d.name == "f64" else {"dtype": numpy_dtype(d)}


def reduced_keyword(d: DType) -> dict[str, Node]:
    """The `dtype=` of a sum or product, which NumPy would widen."""
    return {"dtype": numpy_dtype(d)} if d.kind in "iu" and d.bits < 64 else {}


# -- operators -------------------------------------------------------------------------------------------

_SIGNS = {
    "add": gast.Add, "subtract": gast.Sub, "multiply": gast.Mult, "divide": gast.Div, "floorDivide": gast.FloorDiv,
    "modulo": gast.Mod, "power": gast.Pow, "bitAnd": gast.BitAnd, "bitOr": gast.BitOr, "bitXor": gast.BitXor,
    "shiftLeft": gast.LShift, "shiftRight": gast.RShift,
}  # fmt: skip
_COMPARISONS = {
    "equal": gast.Eq, "notEqual": gast.NotEq, "lessThan": gast.Lt, "lessThanOrEqual": gast.LtE,
    "greaterThan": gast.Gt, "greaterThanOrEqual": gast.GtE,
}  # fmt: skip


def is_operator(w: Writer, i: Instruction) -> bool:
    """Whether Python's operator does what the op says, for the numbers that the operands may be."""
    a, b = i.operands
    if i.op.name in ("add", "subtract", "multiply", "bitAnd", "bitOr", "bitXor"):
        return True
    if not is_scalar(i) or not (w.is_weak(a) and w.is_weak(b)):
        return i.op.name != "power" or not dtype(i).is_integer
    number = literal_of(b)
    match i.op.name:
        case "divide" | "floorDivide" | "modulo":
            return bool(number) or w.is_nonzero(b, i)
        case "power":
            return dtype(i).is_integer and isinstance(number, int) and number >= 0
    return isinstance(number, int) and 0 <= number < 64 and i.op.name == "shiftRight"


def _operator(w: Writer, i: Instruction) -> Node:
    op, (a, b) = i.op.name, i.operands
    if op == "divide" and dtype(i).is_integer:
        return call(w.helper("truncated_quotient"), *w.broadcast(i))
    if op == "power" and is_scalar(i) and i.attrs.get("checked") and not is_operator(w, i):
        return call(w.helper("integer_power"), w.of(a), w.of(b))
    if not is_operator(w, i):
        return call(f"np.{i.op.numpy_name}", *w.broadcast(i))
    nodes = w.broadcast(i)
    if i.attrs.get("checked"):
        nodes = [
            n if w.is_weak(v) or isinstance(v, Literal) else call("int", n) for n, v in zip(nodes, (a, b), strict=True)
        ]
    if op in ("add", "subtract"):
        return sum_of(w, nodes[0], nodes[1], op == "subtract")
    return gast.BinOp(nodes[0], _SIGNS[op](), nodes[1])


def sum_of(w: Writer, left: Node, right: Node, minus: bool) -> Node:
    """left ± right, a minus sign in `right` made the other sign: exact, for -x is x with the other sign."""
    turned = _without_sign(right)
    if turned is not None:
        right, minus = turned, not minus
    return gast.BinOp(left, gast.Sub() if minus else gast.Add(), right)


def _without_sign(node: Node) -> Node | None:
    """The x of -x, of (-x) * y and of (-x) / y."""
    if isinstance(node, gast.UnaryOp) and isinstance(node.op, gast.USub):
        return node.operand
    if isinstance(node, gast.BinOp) and isinstance(node.op, gast.Mult | gast.Div):
        left = _without_sign(node.left)
        return None if left is None else gast.BinOp(left, node.op, node.right)
    return None


def _negate(w: Writer, i: Instruction) -> Node:
    node = w.of(i.operands[0])
    if i.attrs.get("checked") and not w.is_weak(i.operands[0]):
        node = call("int", node)
    return gast.UnaryOp(gast.USub(), node)


def _compare(w: Writer, i: Instruction) -> Node:
    left, right = w.broadcast(i)
    if dtype(i.operands[0]).is_complex and i.op.name in _OPPOSITE:  # Python's have no order
        return call(f"np.{i.op.numpy_name}", left, right)
    return gast.Compare(left, [_COMPARISONS[i.op.name]()], [right])


def _and(w: Writer, i: Instruction) -> Node:
    nodes = w.broadcast(i)
    if not is_scalar(i):
        return gast.BinOp(nodes[0], gast.BitAnd(), nodes[1])
    return both(nodes[0], nodes[1])


def both(a: Node, b: Node) -> Node:
    """`a and b`; `0 <= i < n` where that says the same."""
    first = _ascending(a)
    second = _ascending(b)
    if first is not None and second is not None and gast.dump(first.comparators[-1]) == gast.dump(second.left):
        return gast.Compare(first.left, [*first.ops, *second.ops], [*first.comparators, *second.comparators])
    return gast.BoolOp(gast.And(), [a, b])


def _ascending(test: Node) -> Node | None:
    """A comparison by < and <=, turned around if it is one by > and >=."""
    if not isinstance(test, gast.Compare):
        return None
    if all(isinstance(op, gast.Lt | gast.LtE) for op in test.ops):
        return test
    turned = {gast.Gt: gast.Lt, gast.GtE: gast.LtE}
    if len(test.ops) == 1 and type(test.ops[0]) in turned:
        return gast.Compare(test.comparators[0], [turned[type(test.ops[0])]()], [test.left])
    return None


def _or(w: Writer, i: Instruction) -> Node:
    a, b = w.broadcast(i)
    return gast.BoolOp(gast.Or(), [a, b]) if is_scalar(i) else gast.BinOp(a, gast.BitOr(), b)


def _not(w: Writer, i: Instruction) -> Node:
    (x,) = i.operands
    return negation(w, x) if is_scalar(i) else gast.UnaryOp(gast.Invert(), w.of(x))


_OPPOSITE = {
    "lessThan": gast.GtE, "lessThanOrEqual": gast.Gt, "greaterThan": gast.LtE, "greaterThanOrEqual": gast.Lt,
}  # fmt: skip


def negation(w: Writer, test: Value) -> Node:
    """`not test` of a scalar, without the `not` where that is possible: for floats, NaN is neither less nor not."""
    if isinstance(test, Instruction) and w.is_inline(test):
        name_, operands = test.op.name, test.operands
        if name_ == "not":
            return w.of(operands[0])
        if name_ in _OPPOSITE and not dtype(operands[0]).is_inexact:
            left, right = w.broadcast(test)
            return gast.Compare(left, [_OPPOSITE[name_]()], [right])
        if name_ == "or":
            return both(negation(w, operands[0]), negation(w, operands[1]))
        node = w.of(test)
        if name_ == "and" and isinstance(node, gast.BoolOp):
            return gast.BoolOp(gast.Or(), [negation(w, v) for v in operands])
        return negated(node)
    return negated(w.of(test))


def _extreme(word: str) -> Entry:
    def entry(w: Writer, i: Instruction) -> Node:
        nodes = w.broadcast(i)
        # of floats NumPy's differs: NaN wins, and so it may with signed zeros
        plain = is_scalar(i) and dtype(i).name == "i64"
        return call(word if plain else f"np.{word}imum", *nodes)

    return entry


def _absolute(w: Writer, i: Instruction) -> Node:
    node = w.of(i.operands[0])
    if i.attrs.get("checked") and not w.is_weak(i.operands[0]):
        node = call("int", node)
    return call("abs" if is_scalar(i) else "np.abs", node)


def _rounding(function: str) -> Entry:
    def entry(w: Writer, i: Instruction) -> Node:
        node = w.of(i.operands[0])
        if dtype(i).is_integer:
            return node
        return call(f"np.{function}", node)

    return entry


def _round(w: Writer, i: Instruction) -> Node:
    node = w.of(i.operands[0])
    if dtype(i).is_integer:
        return node
    return call(w.helper("round_half_away"), strong(w, i.operands[0], node))


def strong(w: Writer, value: Value, node: Node) -> Node:
    """The expression of a number as NumPy's."""
    return call(f"np.{dtype(value).numpy_name}", node) if is_scalar(value) and w.is_weak(value) else node


def _square(w: Writer, i: Instruction) -> Node:
    node = w.of(i.operands[0])
    if not is_scalar(i):
        return gast.BinOp(node, gast.Pow(), constant(2))
    return gast.BinOp(node, gast.Mult(), node) if is_name(node) else call("np.square", node)


def _special(function: str, exact_dtype: bool = True) -> Entry:
    def entry(w: Writer, i: Instruction) -> Node:
        node = w.of(i.operands[0])
        keys = [constant(i.attrs["order"])] if "order" in i.attrs else []
        if i.op.name == "trigamma":
            keys = [constant(1)]
        found = call(f"special.{function}", *keys, node)
        if dtype(i).name == "f64" or (exact_dtype and dtype(i).name == "f32"):
            return found
        return gast.Call(gast.Attribute(found, "astype", gast.Load()), [numpy_dtype(dtype(i))], [])

    return entry


def _rsqrt(w: Writer, i: Instruction) -> Node:
    return build("1.0 / np.sqrt(_0)", w.of(i.operands[0]))


def _make_complex(w: Writer, i: Instruction) -> Node:
    if is_scalar(i) and dtype(i).name == "c128":
        return call("complex", *map(w.of, i.operands))
    return call(w.helper("make_complex"), *map(w.of, i.operands))


def _select(w: Writer, i: Instruction) -> Node:
    a, b, flag = i.operands
    if is_scalar(i):
        nodes = [w.of(a), w.of(b)]
        return gast.IfExp(w.of(flag), *nodes)
    a_node, b_node, flag_node = w.broadcast(i)
    return call("np.where", flag_node, a_node, b_node)


_PYTHON_TYPES = {"f64": "float", "i64": "int", "c128": "complex", "bool": "bool"}


def makes_weak(w: Writer, i: Instruction) -> bool:
    """Whether a cast is written as the constructor of a Python number."""
    (x,) = i.operands
    source, to = dtype(x), dtype(i)
    if not is_scalar(i) or to.name not in _PYTHON_TYPES:
        return False
    if to.name == "i64":
        return source.kind in "b" or w.fits_integer(i) or (source.kind in "iu" and source.name != "u64")
    return w.is_weak(x) and not (source.is_complex and not to.is_complex)


def _cast(w: Writer, i: Instruction) -> Node:
    (x,) = i.operands
    source, to, node = dtype(x), dtype(i), w.of(x)
    if makes_weak(w, i):
        if to.name == "i64" and isinstance(node, gast.Call) and same(node.func, build("np.trunc")):
            node = node.args[0]
        return call(_PYTHON_TYPES[to.name], node)
    if source.is_complex and not to.is_complex and to.kind != "b":
        node = gast.Attribute(node, "real", gast.Load())
    if not is_scalar(i):
        return gast.Call(gast.Attribute(node, "astype", gast.Load()), [numpy_dtype(to)], [])
    if to.is_inexact or to.kind == "b" or source.kind == "b":
        return gast.Call(numpy_dtype(to), [node], [])
    return call(w.helper("cast"), node, numpy_dtype(to))


# -- index ops and generators ------------------------------------------------------------------------------


def full_slice() -> Node:
    """`:`"""
    return slice_of(None, None)


def section_keys(w: Writer, i: Instruction) -> tuple[list[Node], list[Node] | None]:
    """The subscript of a section, and a second one behind it where the first takes too much."""
    x, *numbers = i.operands
    rank = len(numbers) // 3
    starts, counts, steps = (numbers[k * rank : (k + 1) * rank] for k in range(3))
    keys, behind, needed = [], [], False
    for k in range(rank):
        start, count = w.extents.sum_of(starts[k]), w.extents.sum_of(counts[k])
        key, rest = _slice_node(w, start, count, w.extents.sum_of(steps[k]), w.extents.extent(x, k))
        keys.append(key)
        behind.append(rest or full_slice())
        needed |= rest is not None
    while len(keys) > 1 and _is_full(keys[-1]):
        keys.pop()
    return keys, behind if needed else None


def _is_full(key: Node) -> bool:
    return isinstance(key, gast.Slice) and key.lower is key.upper is key.step is None


def _slice_node(w: Writer, start: Sum, count: Sum, step: Sum, extent: Sum) -> tuple[Node, Node | None]:
    first = None if start.number == 0 else w.number(start)
    if step.number == 1:
        # behind the last element, counted from the end if the count is that of the axis but for a number
        end = start.plus(unclipped(count))
        short = extent.plus(end, -1).number
        if short == 0:
            return slice_of(first, None), None
        if short is not None and short > 0:
            return slice_of(first, constant(-short)), None
        if count.number is not None and start.number is not None:
            return slice_of(first, constant(end.number)), None
        return slice_of(first, w.number(start.plus(count))), None
    if step.number == -1 and start == extent.plus(Sum(-1)) and count == extent:
        return slice_of(None, None, constant(-1)), None
    return slice_of(w.number(start), None, w.number(step)), slice_of(None, w.number(count))


def _section(w: Writer, i: Instruction) -> Node:
    keys, behind = section_keys(w, i)
    node = w.of(i.operands[0])
    if not all(map(_is_full, keys)):
        node = index(node, keys)
    return index(node, behind) if behind else node


def _element_pointer(w: Writer, i: Instruction) -> Node:
    """Memory without its leading axes; that of one element by its place, see `place_of`."""
    x, *keys = i.operands
    nodes = [w.of(k) for k in keys]
    if not i.type.rank:  # type: ignore[attr-defined]
        nodes.append(constant(...))
    return index(w.of(x), nodes)


def place_of(w: Writer, i: Instruction) -> Node:
    """`x[i, j]`: the element that an elementPointer refers to, read or assigned to."""
    x, *keys = i.operands
    return index(w.of(x), [w.of(k) for k in keys])


def _transpose(w: Writer, i: Instruction) -> Node:
    rank = i.type.rank  # type: ignore[attr-defined]
    axes = i.attrs.get("axes")
    node = w.of(i.operands[0])
    if axes is None or tuple(axes) == tuple(range(rank))[::-1]:
        return gast.Attribute(node, "T", gast.Load())
    return gast.Call(gast.Attribute(node, "transpose", gast.Load()), [constant(int(k)) for k in axes], [])


def _pad(w: Writer, i: Instruction) -> Node:
    x, at = i.operands[0], i.attrs["at"]
    if isinstance(x, Instruction) and x.op.name == "reduce" and x.attrs["axes"] == (at,) and w.is_inline(x):
        return reduction(w, x, keep=True)
    node = w.of(x)
    if is_scalar(x):
        return call("np.array", gast.List([node], gast.Load()), **dtype_keyword(dtype(i)))
    return index(node, [*(full_slice() for _ in range(at)), constant(None)])


def _squeeze(w: Writer, i: Instruction) -> Node:
    x, at = i.operands[0], i.attrs["at"]
    if isinstance(x, Instruction) and x.op.name == "section" and w.is_inline(x) and i.type.rank:  # type: ignore[attr-defined]
        keys, behind = section_keys(w, x)
        if behind is None and at < len(keys):
            keys[at] = w.of(x.operands[1 + at])
            return index(w.of(x.operands[0]), keys)
    keys = [*(full_slice() for _ in range(at)), constant(0)]
    if isinstance(i.type, PointerType) and not i.type.rank:
        keys.append(constant(...))
    return index(w.of(x), keys)


def _reshape(w: Writer, i: Instruction) -> Node:
    x, *extents = i.operands
    node = w.of(x)
    if not is_scalar(x) and w.extents.shape(x) == [w.extents.sum_of(n) for n in extents]:
        return node
    if not extents:
        found = gast.Call(gast.Attribute(node, "reshape", gast.Load()), [build("()")], [])
        return found if isinstance(i.type, PointerType) else index(found, [build("()")])
    if is_scalar(x):
        return call("np.full", shape_node(w, i), node, **dtype_keyword(dtype(i)))
    return gast.Call(gast.Attribute(node, "reshape", gast.Load()), [w.of(n) for n in extents], [])


def _numbers(w: Writer, values: Sequence[Value]) -> Node:
    return make_tuple([w.of(v) for v in values])


def _embed(w: Writer, i: Instruction) -> Node:
    x, fill, *numbers = i.operands
    rank = len(numbers) // 3
    parts = [_numbers(w, numbers[k * rank : (k + 1) * rank]) for k in range(3)]
    return call(w.helper("embed"), w.of(x), w.operand(fill), *parts)


def _part_view(w: Writer, i: Instruction) -> Node:
    return gast.Attribute(w.of(i.operands[0]), "imag" if i.attrs["at"] else "real", gast.Load())


def _diagonal(w: Writer, i: Instruction) -> Node:
    x, row, column, count = i.operands
    spans = [
        slice_of(w.number(s), w.number(s.plus(w.extents.sum_of(count)))) for s in map(w.extents.sum_of, (row, column))
    ]
    return build('np.einsum("...ii->...i", _0)', index(w.of(x), [constant(...), *spans]))


def _slice(w: Writer, i: Instruction) -> Node:
    return index(w.of(i.operands[0]), [slice_of(constant(i.attrs["lo"]), constant(i.attrs["hi"] + 1))])


def _reverse(w: Writer, i: Instruction) -> Node:
    x = i.operands[0]
    if not i.attrs["axes"]:
        return w.of(x)
    keys = [
        slice_of(None, None, constant(-1)) if k in i.attrs["axes"] else full_slice()
        for k in range(max(i.attrs["axes"]) + 1)
    ]
    return index(w.of(x), keys)


def _windows(w: Writer, i: Instruction) -> Node:
    x, *numbers = i.operands
    return _grouped(w, "windows", x, numbers, 4)


def _overlap(w: Writer, i: Instruction) -> Node:
    x, *numbers = i.operands
    return _grouped(w, "overlap_add", x, numbers, 3)


def _grouped(w: Writer, helper: str, x: Value, numbers: Sequence[Value], count: int) -> Node:
    each = len(numbers) // count
    parts = [_numbers(w, numbers[k * each : (k + 1) * each]) for k in range(count)]
    return call(w.helper(helper), w.of(x), *parts)


def _extent(w: Writer, i: Instruction) -> Node:
    return w.number(w.extents.extent(i.operands[0], i.attrs["at"]))


def shape_node(w: Writer, value: Value) -> Node:
    """The shape of an array or of memory, as NumPy's functions take it."""
    sums = w.extents.shape(value)
    nodes = [w.number(s) for s in sums]
    owners = {t.of for s in sums for t, _ in s.terms if hasattr(t, "of") and hasattr(t, "at")}
    if len(owners) == 1 and sums:
        (owner,) = owners
        if isinstance(owner, Value) and w.extents.shape(owner) == sums:
            return gast.Attribute(w.of(owner), "shape", gast.Load())
    return nodes[0] if len(nodes) == 1 else make_tuple(nodes)


def _broadcast(w: Writer, i: Instruction) -> Node:
    return call("np.broadcast_to", w.of(i.operands[0]), shape_node(w, i))


def _concatenate(w: Writer, i: Instruction) -> Node:
    parts = gast.List([w.of(v) for v in i.operands], gast.Load())
    return call("np.concatenate", parts, **({"axis": constant(i.attrs["at"])} if i.attrs["at"] else {}))


def _unit_count(w: Writer, i: Instruction) -> Node:
    x = i.operands[0]
    return constant(1) if is_scalar(x) else gast.Attribute(w.of(x), "size", gast.Load())


def _gather(w: Writer, i: Instruction) -> Node:
    x, *indices = i.operands
    return index(w.of(x), [w.of(k) for k in indices])


def _scatter_add(w: Writer, i: Instruction) -> Node:
    x, *numbers = i.operands
    half = len(numbers) // 2
    return call(w.helper("scatter_add"), w.of(x), _numbers(w, numbers[:half]), shape_node(w, i))


# -- reductions --------------------------------------------------------------------------------------------

_REDUCTIONS = {"add": "sum", "multiply": "prod", "max": "max", "min": "min", "and": "all", "or": "any"}
UFUNCS = {
    "add": "np.add", "multiply": "np.multiply", "max": "np.maximum", "min": "np.minimum", "and": "np.logical_and",
    "or": "np.logical_or",
}  # fmt: skip
_NEUTRAL = {"add": 0, "multiply": 1, "and": True, "or": False}


def reduction(w: Writer, i: Instruction, keep: bool = False) -> Node:
    """A `reduce`; with `keep`, of one axis, which stays with the extent 1."""
    x, init = i.operands
    axes, by = tuple(i.attrs["axes"]), i.attrs["by"]
    if not axes:
        return _combined(w, by, w.of(x), init, True)
    rank = x.type.rank  # type: ignore[attr-defined]
    keywords: dict[str, Node] = {}
    if len(axes) < rank or keep:
        keywords["axis"] = constant(axes[0] if len(axes) == 1 else axes)
    if keep:
        keywords["keepdims"] = constant(True)
    if by in ("add", "multiply"):
        keywords |= reduced_keyword(dtype(x))
    if by in ("max", "min") and not w.is_nonempty(i):
        keywords["initial"] = w.operand(init)
    node = w.of(x)
    short = isinstance(node, gast.Name | gast.Subscript | gast.Attribute | gast.Call)
    if short and not (isinstance(node, gast.Call) and not isinstance(node.func, gast.Attribute)):
        method = gast.Attribute(node, _REDUCTIONS[by], gast.Load())
        found = gast.Call(method, [], [gast.keyword(k, v) for k, v in keywords.items()])
    else:
        found = call(f"np.{_REDUCTIONS[by]}", node, **keywords)
    if by in ("max", "min") and "initial" in keywords:
        return found
    if by in ("max", "min") and _is_limit(init):
        return found
    return _combined(w, by, found, init, not i.type.rank)  # type: ignore[attr-defined]


def _is_limit(init: Value) -> bool:
    number = literal_of(init)
    return isinstance(number, float) and number in (float("inf"), float("-inf"))


def _combined(w: Writer, by: str, found: Node, init: Value, as_scalar: bool) -> Node:
    number = literal_of(init)
    if number is not None and by in _NEUTRAL and number == _NEUTRAL[by]:
        return found
    if by in ("add", "multiply"):
        return gast.BinOp(found, gast.Add() if by == "add" else gast.Mult(), w.operand(init))
    return call(UFUNCS[by], found, w.operand(init))


def _unbroadcast(w: Writer, i: Instruction) -> Node:
    shape = [w.number(s) for s in w.extents.shape(i)]
    return call(w.helper("unbroadcast"), w.of(i.operands[0]), make_tuple(shape))


def _dot(w: Writer, i: Instruction) -> Node:
    a, b = i.operands
    column = isinstance(a, Instruction) and a.op.name == "padShape" and a.attrs["at"] == 1 and w.is_inline(a)
    row = isinstance(b, Instruction) and b.op.name == "padShape" and b.attrs["at"] == 0 and w.is_inline(b)
    if column and row and a.type.rank == b.type.rank == 2:  # type: ignore[attr-defined]
        return call("np.outer", w.of(a.operands[0]), w.of(b.operands[0]))  # type: ignore[attr-defined]
    return gast.BinOp(w.of(a), gast.MatMult(), w.of(b))


def _scan(w: Writer, i: Instruction) -> Node:
    by, node = i.attrs["by"], w.of(i.operands[0])
    short = {"add": "np.cumsum", "multiply": "np.cumprod"}
    for axis in i.attrs["axes"]:
        function = short.get(by, f"{UFUNCS[by]}.accumulate")
        keywords = {"axis": constant(axis), **(reduced_keyword(dtype(i)) if by in short else {})}
        node = call(function, node, **keywords)
    return node


def _fourier(w: Writer, i: Instruction) -> Node:
    node, axis = w.of(i.operands[0]), constant(i.attrs["axis"])
    if i.attrs.get("inverse"):
        return call("np.fft.ifft", node, axis=axis, norm=constant("forward"))
    return call("np.fft.fft", node, axis=axis)


def _sorted(function: str) -> Entry:
    def entry(w: Writer, i: Instruction) -> Node:
        return call(function, w.of(i.operands[0]), axis=constant(i.attrs["axis"]), kind=constant("stable"))

    return entry


def _reduce_window(w: Writer, i: Instruction) -> Node:
    x, init = i.operands
    pads = tuple(PADDINGS[i.attrs["padding"]](n) for n in i.attrs["dims"])
    numbers = [constant(tuple(map(int, i.attrs[k]))) for k in ("dims", "strides")]
    combine = build(UFUNCS[i.attrs["by"]])
    return call(w.helper("reduce_windows"), w.of(x), w.of(init), combine, *numbers, constant(pads))


def _decomposition(helper: str, *attributes: str) -> Entry:
    """What NumPy gives as several arrays, and the op as one; the extents of the result are left out."""

    def entry(w: Writer, i: Instruction) -> Node:
        rank = i.type.rank  # type: ignore[attr-defined]
        words = {"upper": "U" if i.attrs.get("upper") else "L", "full": bool(i.attrs.get("full"))}
        more = [constant(words[a] if a in words else i.attrs[a]) for a in attributes]
        function = helper if helper.startswith("np.") else w.helper(helper)
        return call(function, *map(w.of, i.operands[: len(i.operands) - rank]), *more)

    return entry


# -- the table -----------------------------------------------------------------------------------------------

SPELLING: dict[str, Entry] = {
    **dict.fromkeys(_SIGNS, _operator),
    **dict.fromkeys(_COMPARISONS, _compare),
    **{
        op: f"np.{function}(_0)"
        for op, function in {
            "exp": "exp",
            "expm1": "expm1",
            "log": "log",
            "log1p": "log1p",
            "log2": "log2",
            "log10": "log10",
            "sqrt": "sqrt",
            "sin": "sin",
            "cos": "cos",
            "tan": "tan",
            "asin": "arcsin",
            "acos": "arccos",
            "atan": "arctan",
            "sinh": "sinh",
            "cosh": "cosh",
            "tanh": "tanh",
            "asinh": "arcsinh",
            "acosh": "arccosh",
            "atanh": "arctanh",
            "exp2": "exp2",
            "cbrt": "cbrt",
            "sign": "sign",
            "isFinite": "isfinite",
            "isNan": "isnan",
            "conjugate": "conj",
        }.items()
    },
    "atan2": "np.arctan2(_0, _1)",
    "hypot": "np.hypot(_0, _1)",
    "copysign": "np.copysign(_0, _1)",
    "negate": _negate,
    "truncateDivide": lambda w, i: call(w.helper("truncated_quotient"), *w.broadcast(i)),
    "max": _extreme("max"),
    "min": _extreme("min"),
    "atLeast": _extreme("max"),
    "atMost": _extreme("min"),
    "abs": _absolute,
    "square": _square,
    "rsqrt": _rsqrt,
    "erf": _special("erf"),
    "erfc": _special("erfc"),
    "gamma": _special("gamma"),
    "lgamma": _special("gammaln"),
    "digamma": _special("digamma"),
    "trigamma": _special("polygamma", False),
    "polygamma": _special("polygamma", False),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "rint": _rounding("rint"),
    "truncate": _rounding("trunc"),
    "round": _round,
    "realPart": "_0.real",
    "imaginaryPart": "_0.imag",
    "makeComplex": _make_complex,
    "and": _and,
    "or": _or,
    "not": _not,
    "bitNot": "~_0",
    "select": _select,
    "dataTypeCast": _cast,
    "scaleSeed": lambda w, i: call(w.helper("scaled"), *w.broadcast(i)),
    "bits": lambda w, i: call(w.helper("bits"), w.of(i.operands[0]), numpy_dtype(dtype(i))),
    "transpose": _transpose,
    "padShape": _pad,
    "squeezeShape": _squeeze,
    "shapeCast": _reshape,
    "section": _section,
    "embed": _embed,
    "pointerCast": "_0",
    "elementPointer": _element_pointer,
    "partView": _part_view,
    "diagonal": _diagonal,
    "slice": _slice,
    "reverse": _reverse,
    "windows": _windows,
    "overlapAdd": _overlap,
    "reduceWindow": _reduce_window,
    "extent": _extent,
    "iota": "np.arange(_0)",
    "broadcast": _broadcast,
    "unbroadcast": _unbroadcast,
    "concatenate": _concatenate,
    "rank": lambda w, i: constant(i.operands[0].type.rank),  # type: ignore[attr-defined]
    "shape": lambda w, i: call("np.array", shape_node(w, i.operands[0])),
    "unitCount": _unit_count,
    "gather": _gather,
    "scatterAdd": _scatter_add,
    "nonzero": "np.stack(np.nonzero(_0))",
    "reduce": reduction,
    "dot": _dot,
    "scan": _scan,
    "recurrence": lambda w, i: call(w.helper("recurrence"), *map(w.of, i.operands), constant(i.attrs["axis"])),
    "fourier": _fourier,
    "sort": _sorted("np.sort"),
    "argsort": _sorted("np.argsort"),
    "searchSorted": lambda w, i: call("np.searchsorted", *map(w.of, i.operands), constant(i.attrs["side"])),
    "solve": "np.linalg.solve(_0, _1)",
    "cholesky": "np.linalg.cholesky(_0)",
    "determinant": lambda w, i: call(w.helper("determinant"), w.of(i.operands[0])),
    "eigh": _decomposition("eigh", "upper"),
    "eigvalsh": _decomposition("np.linalg.eigvalsh", "upper"),
    "eig": _decomposition("eig"),
    "eigvals": _decomposition("np.linalg.eigvals"),
    "svd": _decomposition("svd", "full"),
    "svdvals": lambda w, i: call("np.linalg.svd", w.of(i.operands[0]), compute_uv=constant(False)),
    "pinv": "np.linalg.pinv(_0, _1)",
    "qr": _decomposition("qr", "mode"),
    "lstsq": _decomposition("lstsq"),
    "constant": "_0",
    "stopGradient": "_0",
}

# what function.py writes as statements
STATEMENTS = frozenset(
    "allocateHeap load store scatter keepCopy createStack push pop destroyStack tuple extract apply check print raise"
    " branch conditional return".split()
)
LOWERED = "lowered before it is written as Python: lower_aggregates, lower_functions and lower_shape do it"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        "allocateAggregate allocateCounted allocateStack allocateBox projectBox deallocate copy bitCast aggregate"
        " enumCase insert makeCell cellTag cellItem leaf wholeEnum branchEnum builtin applyValue reduceBy scanBy"
        " reduceWindowBy convolve".split(),
        LOWERED,
    ),
    **dict.fromkeys(("retain", "release"), "of stage scheduled: Python counts references by itself"),
    **dict.fromkeys(
        ("random", "randomCounter", "randomSeed"),
        "the stream of random numbers is the runtime's: NumPy has none like it",
    ),
    **dict.fromkeys(
        ("draw", "seedGenerator"), "a generator of random numbers is an address in compiled code: pass arrays instead"
    ),
    "drain": "the two functions that vjp makes are not written as Python: those of grad are",
    "trap": "a trap has no place in a text",
}
