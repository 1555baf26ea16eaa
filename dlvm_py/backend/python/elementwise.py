"""How elementwise ops are written."""

from __future__ import annotations

import gast

from dlvm_py.backend.python.nodes import (
    Node,
    build,
    call,
    constant,
    is_name,
    negated,
    same,
)
from dlvm_py.backend.python.writer import (
    Entry,
    Writer,
    dtype,
    is_scalar,
    literal_of,
    numpy_dtype,
)
from dlvm_py.ir import Instruction, Literal, Value

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


ELEMENTWISE: dict[str, Entry] = {
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
}
