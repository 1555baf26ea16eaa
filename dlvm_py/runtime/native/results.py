"""The second half of a native entry: what the kernel returned, as Python objects.

Arrays go through `@entry.box_array` of `arrays.ll`: the very argument, a view of it, or a new array that takes the
allocation over. All leaves are boxed first, into `boxed`, so that a failure lets those go that are there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

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
    parts = list(_parts(result, _Numbers()))
    count = len(parts)
    boxed = text.slot("boxed", f"[{max(count, 1)} x ptr]")
    text.store(f"[{max(count, 1)} x ptr]", "zeroinitializer", boxed)
    struct, index = result_struct(result), 0
    failed = text.name("unboxed")
    for k, (part, constant) in enumerate(parts):
        if isinstance(part, EitherSpec):
            value = _box_either(text, part, struct, results, index, constant)
        else:
            value = _box_leaf(text, part, struct, results, index)
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


def _parts(spec: Spec, numbers: _Numbers) -> Iterator[tuple[ScalarSpec | ArraySpec | EitherSpec, int]]:
    """What one object each is made of, left to right, and the number of the first constant of one of several kinds."""
    if isinstance(spec, ConstantSpec):
        next(numbers.constant)
    elif isinstance(spec, TupleSpec | RecordSpec):
        for item in spec.items:
            yield from _parts(item, numbers)
    elif isinstance(spec, EitherSpec):
        yield spec, numbers.skip(spec)
    else:
        yield from ((leaf, 0) for leaf in leaves(spec))


def _box_leaf(text: Body, spec: ScalarSpec | ArraySpec, struct: str, results: str, index: int) -> str:
    if isinstance(spec, ScalarSpec):
        return _box_scalar(text, spec, text.member(struct, results, index))
    return _box_array(text, spec, struct, results, index)


def _box_either(text: Body, spec: EitherSpec, struct: str, results: str, index: int, constant: int) -> str:
    """The value of the kind that the place, which comes first, says. constant: the number of the first one in it."""
    place = text.load("place", "i64", text.member(struct, results, index))
    slot, end = text.slot("either", "ptr"), text.name("made")
    index += 1
    for k, item in enumerate(spec.items):
        following = text.name("other")
        if k < len(spec.items) - 1:
            this = text.name("this")
            text.line(f"br i1 {text.let('is', f'icmp eq i64 {place}, {k}')}, label %{this}, label %{following}")
            text.block(this)
        if isinstance(item, ConstantSpec):
            value = _constant(text, constant)
            constant += 1
        else:
            assert isinstance(item, ScalarSpec | ArraySpec), "others are boxed in Python"
            value = _box_leaf(text, item, struct, results, index)
            index += len(flat_types(item.ir_type()))
        text.store("ptr", value, slot)
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

    def skip(self, spec: EitherSpec) -> int:
        """Go beyond the constants in a spec; the number of the first one."""
        first = next(self.constant)
        self.constant = itertools.count(first + sum(isinstance(i, ConstantSpec) for i in spec.items))
        return first


def _constant(text: Body, number: int) -> str:
    value = text.object(f"result.{number}")
    text.line(f"call void @py.Py_IncRef(ptr {value})")
    return value


def _assemble(text: Body, spec: Spec, numbers: _Numbers, boxed: str) -> str:
    """The leaves put together; their references pass into it. Null, with an exception, where a maker fails."""
    if isinstance(spec, ConstantSpec):
        return _constant(text, next(numbers.constant))
    if isinstance(spec, EitherSpec):
        numbers.skip(spec)
    if isinstance(spec, ScalarSpec | ArraySpec | EitherSpec):
        return text.load("leaf", "ptr", text.element("ptr", boxed, next(numbers.leaf)))
    maker = None if isinstance(spec, TupleSpec) else text.object(f"make.{next(numbers.maker)}")
    parts: tuple[Spec, ...] = spec.columns if isinstance(spec, GrowingSpec) else spec.items
    items = text.slot("items", f"[{max(len(parts), 1)} x ptr]")
    for k, item in enumerate(parts):
        text.store("ptr", _assemble(text, item, numbers, boxed), text.element("ptr", items, k))
    value = text.let("tuple", f"call ptr @entry.tuple(ptr {items}, i64 {len(parts)})")
    return value if maker is None else text.let("made", f"call ptr @entry.make(ptr {maker}, ptr {value})")
