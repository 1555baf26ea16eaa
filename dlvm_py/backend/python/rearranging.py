"""How views, generators, shapes and rearrangements of elements are written."""

from __future__ import annotations

from collections.abc import Sequence

import gast

from dlvm_py.backend.python.extents import Sum, unclipped
from dlvm_py.backend.python.nodes import (
    Node,
    build,
    call,
    constant,
    index,
    make_tuple,
    slice_of,
)
from dlvm_py.backend.python.reductions import reduction
from dlvm_py.backend.python.writer import (
    Entry,
    Writer,
    dtype,
    dtype_keyword,
    is_scalar,
)
from dlvm_py.ir import Instruction, PointerType, Value


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


REARRANGING: dict[str, Entry] = {
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
    "extent": _extent,
    "iota": "np.arange(_0)",
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "rank": lambda w, i: constant(i.operands[0].type.rank),  # type: ignore[attr-defined]
    "shape": lambda w, i: call("np.array", shape_node(w, i.operands[0])),
    "unitCount": _unit_count,
    "gather": _gather,
    "scatterAdd": _scatter_add,
}
