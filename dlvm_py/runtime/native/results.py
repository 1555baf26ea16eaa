"""The second half of a native entry: what the kernel returned, as Python objects.

Arrays go through `@entry.box_array` of `entry.ll`: the very argument, a view of it, or a new array that takes the
allocation over. All leaves are boxed first, into `boxed`, so that a failure lets those go that are there.
"""

from __future__ import annotations

import itertools

from dlvm_py.backend.cpu.contract import flat_types
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    EitherSpec,
    GrowingSpec,
    RecordSpec,
    ScalarSpec,
    Spec,
    TupleSpec,
    dtype_of_leaf,
    leaves,
)
from dlvm_py.runtime.native.arguments import type_numbers
from dlvm_py.runtime.native.body import Body
from dlvm_py.runtime.trees import walk

_ORDER = {"C": 1, "F": 2, "S": 0}  # NumPy's flags; 0: by strides
_WEAK = {
    "f64": ("py.PyFloat_FromDouble", "double"),
    "i64": ("py.PyLong_FromLongLong", "i64"),
}


def result_struct(result: Spec) -> str:
    """The LLVM struct of the flattened result leaves."""
    return "{ " + ", ".join(t for leaf in leaves(result) for t in flat_types(leaf.ir_type())) + " }"


def box_results(text: Body, result: Spec, results: str, on_failure: str) -> str:
    """The object of the result in memory at `results`, null or a branch to `on_failure` with an exception set."""
    parts = _parts(result)
    count = len(parts)
    boxed = text.slot("boxed", f"[{max(count, 1)} x ptr]")
    text.store(f"[{max(count, 1)} x ptr]", "zeroinitializer", boxed)
    struct, index = result_struct(result), 0
    failed = text.name("unboxed")
    for k, part in enumerate(parts):
        if isinstance(part, EitherSpec):
            value = _box_either(text, part, [text.member(struct, results, index + n) for n in range(len(part.leaves))])
        elif isinstance(part, ScalarSpec):
            value = _box_scalar(text, part, text.member(struct, results, index))
        else:
            value = _box_array(text, part, struct, results, index)
        index += sum(len(flat_types(leaf.ir_type())) for leaf in leaves(part))
        text.branch(text.let("made", f"icmp ne ptr {value}, null"), otherwise=failed)
        text.store("ptr", value, text.element("ptr", boxed, k))
    value = _assemble(text, result, _Numbers(), boxed)
    if any(isinstance(s, RecordSpec | GrowingSpec) for s in walk((result,))):
        text.branch(text.let("made", f"icmp ne ptr {value}, null"), otherwise=on_failure)
    end = text.name("boxed")
    text.line(f"br label %{end}")
    text.block(failed)
    text.line(f"call void @entry.drop(ptr {boxed}, i64 {count})")
    text.line(f"br label %{on_failure}")
    text.block(end)
    return value


def _parts(spec: Spec) -> list[ScalarSpec | ArraySpec | EitherSpec]:
    """What one object each is made of, left to right."""
    if isinstance(spec, TupleSpec | RecordSpec):
        return [part for item in spec.items for part in _parts(item)]
    return [spec] if isinstance(spec, EitherSpec) else list(leaves(spec))


def _box_either(text: Body, spec: EitherSpec, members: list[str]) -> str:
    """The number of the type that the place in the first member says."""
    place = text.load("place", "i64", members[0])
    slot, end = text.slot("either", "ptr"), text.name("made")
    for k, (item, member) in enumerate(zip(spec.items, members[1:], strict=True)):
        following = text.name("other")
        if k < len(spec.items) - 1:
            this = text.name("this")
            text.line(f"br i1 {text.let('is', f'icmp eq i64 {place}, {k}')}, label %{this}, label %{following}")
            text.block(this)
        text.store("ptr", _box_scalar(text, item, member), slot)
        text.line(f"br label %{end}")
        if k < len(spec.items) - 1:
            text.block(following)
    text.block(end)
    return text.load("either", "ptr", slot)


def _box_scalar(text: Body, spec: ScalarSpec, pointer: str) -> str:
    dtype = dtype_of_leaf(spec)
    if not spec.weak:
        descr = text.object(f"descr.{dtype.numpy_name}")
        return text.let("scalar", f"call ptr @np.PyArray_Scalar(ptr {pointer}, ptr {descr}, ptr null)")
    if spec.dtype == "bool":
        bit = text.let("bit", f"zext i8 {text.load('b', 'i8', pointer)} to i64")
        return text.let("bool", f"call ptr @py.PyBool_FromLong(i64 {bit})")
    if spec.dtype == "c128":
        parts = [f"double {text.load('part', 'double', text.element('double', pointer, k))}" for k in range(2)]
        return text.let("complex", f"call ptr @py.PyComplex_FromDoubles({', '.join(parts)})")
    function, type = _WEAK[spec.dtype]
    return text.let("number", f"call ptr @{function}({type} {text.load('x', type, pointer)})")


def _box_array(text: Body, spec: ArraySpec, struct: str, results: str, index: int) -> str:
    dtype = dtype_of_leaf(spec)

    def part(k: int) -> str:
        return text.load("part", "ptr", text.member(struct, results, index + k))

    # extents, and for "S" strides, stand in a row in the struct
    shape = text.member(struct, results, index + 2) if spec.rank else "null"
    strides = text.member(struct, results, index + 2 + spec.rank) if spec.rank and spec.layout == "S" else "null"
    order = _ORDER[spec.layout] if spec.rank else 1
    descr = text.object(f"descr.{dtype.numpy_name}")
    return text.let(
        "array",
        f"call ptr @entry.box_array(ptr {part(0)}, ptr {part(1)}, ptr {descr}, i32 {type_numbers(spec)[0]}, "
        f"i32 {spec.rank}, ptr {shape}, ptr {strides}, i32 {order}, i64 {dtype.itemsize})",
    )


class _Numbers:
    """Counters of the leaves, constants and makers of a result, in the order of its specs."""

    def __init__(self) -> None:
        self.leaf, self.constant, self.maker = itertools.count(), itertools.count(), itertools.count()


def _assemble(text: Body, spec: Spec, numbers: _Numbers, boxed: str) -> str:
    """The leaves put together; their references pass into it. Null, with an exception, where a maker fails."""
    if isinstance(spec, ConstantSpec):
        value = text.object(f"result.{next(numbers.constant)}")
        text.line(f"call void @py.Py_IncRef(ptr {value})")
        return value
    if isinstance(spec, ScalarSpec | ArraySpec | EitherSpec):
        return text.load("leaf", "ptr", text.element("ptr", boxed, next(numbers.leaf)))
    maker = None if isinstance(spec, TupleSpec) else text.object(f"make.{next(numbers.maker)}")
    parts: tuple[Spec, ...] = spec.columns if isinstance(spec, GrowingSpec) else spec.items
    items = text.slot("items", f"[{max(len(parts), 1)} x ptr]")
    for k, item in enumerate(parts):
        text.store("ptr", _assemble(text, item, numbers, boxed), text.element("ptr", items, k))
    value = text.let("tuple", f"call ptr @entry.tuple(ptr {items}, i64 {len(parts)})")
    return value if maker is None else text.let("made", f"call ptr @entry.make(ptr {maker}, ptr {value})")
