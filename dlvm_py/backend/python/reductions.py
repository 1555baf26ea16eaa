"""How reductions, products, scans, sorts and linear algebra are written."""

from __future__ import annotations

import gast

from dlvm_py.backend.python.nodes import (
    Node,
    build,
    call,
    constant,
    make_tuple,
)
from dlvm_py.backend.python.writer import (
    Entry,
    Writer,
    dtype,
    literal_of,
    reduced_keyword,
)
from dlvm_py.ir import Instruction, Value
from dlvm_py.ir.ops.window import PADDINGS

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


REDUCTIONS: dict[str, Entry] = {
    "nonzero": "np.stack(np.nonzero(_0))",
    "reduce": reduction,
    "unbroadcast": _unbroadcast,
    "reduceWindow": _reduce_window,
    "dot": _dot,
    "scan": _scan,
    "recurrence": lambda w, i: call(w.helper("recurrence"), *map(w.of, i.operands), constant(i.attrs["axis"])),
    "fourier": _fourier,
    "sort": _sorted("np.sort"),
    "argsort": _sorted("np.argsort"),
    "searchSorted": lambda w, i: call("np.searchsorted", *map(w.of, i.operands), constant(i.attrs["side"])),
    "solve": "np.linalg.solve(_0, _1)",
    "cholesky": "np.linalg.cholesky(_0)",
    "choleskyAdjoint": lambda w, i: call(w.helper("cholesky_adjoint"), *map(w.of, i.operands)),
    "factorizes": lambda w, i: call(w.helper("factorizes"), w.of(i.operands[0]), constant(i.attrs["by"])),
    "determinant": lambda w, i: call(w.helper("determinant"), w.of(i.operands[0])),
    "eigh": _decomposition("eigh", "upper"),
    "eigvalsh": _decomposition("np.linalg.eigvalsh", "upper"),
    "eig": _decomposition("eig"),
    "eigvals": _decomposition("eigvals"),
    "svd": _decomposition("svd", "full"),
    "svdvals": lambda w, i: call("np.linalg.svd", w.of(i.operands[0]), compute_uv=constant(False)),
    "pinv": "np.linalg.pinv(_0, _1)",
    "qr": _decomposition("qr", "mode"),
    "lstsq": _decomposition("lstsq"),
    "constant": "_0",
    "stopGradient": "_0",
}
