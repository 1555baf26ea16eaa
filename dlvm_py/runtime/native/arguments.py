"""The first half of a native entry: the arguments bound, checked against their specs, and read.

A value that does not fit its spec leads to the block `nomatch`. What is read are kernel operands ("i64 %n.7"),
a list a leaf; that of an array has a placeholder for its header, and the ndarray itself at the end.
Memory is read of exact built-in types only, through the layouts that `offsets` has checked. Arguments are
borrowed from the caller, who holds them during the call; captured arrays are not, so they are owned here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from dlvm_py.backend.cpu.contract import flat_types
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    GeneratorSpec,
    RecordSpec,
    ScalarSpec,
    Spec,
    dtype_of_leaf,
    leaves,
)
from dlvm_py.runtime import trees
from dlvm_py.runtime.native import offsets
from dlvm_py.runtime.native.body import Body
from dlvm_py.runtime.native.offsets import Boxed, NDArray, PyObject, PyTuple, field
from dlvm_py.runtime.version import CallSpec, Source

_POSITIONAL_MASK = (1 << 63) - 1  # the top bit of nargsf is PY_VECTORCALL_ARGUMENTS_OFFSET
HEADER = "ptr null"  # in the place of an array's header, which exists from the call on


def read_arguments(text: Body, call: CallSpec) -> list[list[str]]:
    """Binds and checks the arguments and guards: per leaf its kernel operands; for an array the object last."""
    count = len(call.param_names)
    bound = text.slot("bound", f"[{max(count, 1)} x ptr]")
    nargs = text.let("nargs", f"and i64 %nargsf, {_POSITIONAL_MASK}")
    no_keywords = text.let("plain", "icmp eq ptr %kwnames, null")
    all_given = text.let("all", f"icmp eq i64 {nargs}, {count if count == call.positional else -1}")
    plain = text.let("plain", f"and i1 {no_keywords}, {all_given}")
    text.line(f"br i1 {plain}, label %read, label %bind, !prof !0")
    text.block("bind")
    names, defaults = text.object("param_names"), text.object("defaults")
    fits = text.let(
        "fits",
        f"call i1 @entry.bind(ptr %args, i64 {nargs}, ptr %kwnames, ptr {names}, ptr {defaults}, "
        f"i64 {call.positional_only}, i64 {call.positional}, ptr {bound})",
    )
    text.line(f"br i1 {fits}, label %read, label %nomatch")
    text.block("read")
    given = text.let("given", f"phi ptr [ %args, %start ], [ {bound}, %bind ]")
    values: list[list[str]] = []
    constants = itertools.count()
    for k, spec in enumerate(call.args):
        values += _read(text, spec, text.load("arg", "ptr", text.element("ptr", given, k)), constants, call, values)
    for k, guard in enumerate(call.guards):
        _check_guard(text, k, guard.source, guard.absent)
    return values


def _read(
    text: Body, spec: Spec, value: str, constants: Iterator[int], call: CallSpec, before: list[list[str]]
) -> list[list[str]]:
    if isinstance(spec, ConstantSpec):
        expected = text.object(f"constant.{next(constants)}")
        text.require(text.let("same", f"call i1 @entry.same_constant(ptr {value}, ptr {expected})"))
        return []
    if isinstance(spec, GeneratorSpec):
        return [_read_generator(text, value)]
    if isinstance(spec, ScalarSpec):
        return [[_read_scalar(text, spec, value)]]
    if isinstance(spec, ArraySpec):
        return [_read_array(text, spec, value, len(before) in call.written)]
    if isinstance(spec, RecordSpec):
        parts = _record_parts(text, spec, value, call)
    else:
        _require_type(text, value, "tuple")
        parts = _tuple_parts(text, value, len(spec.items))
    found: list[list[str]] = []
    for item, element in zip(spec.items, parts, strict=True):
        found += _read(text, item, element, constants, call, before + found)
    return found


def _tuple_parts(text: Body, value: str, count: int) -> list[str]:
    size = text.load("size", "i64", text.member("%tuple", value, field(PyTuple, "size")))
    text.require(text.let("same", f"icmp eq i64 {size}, {count}"))
    items = text.member("%tuple", value, field(PyTuple, "items"))
    return [text.load("item", "ptr", text.element("ptr", items, k)) for k in range(count)]


def _record_parts(text: Body, spec: RecordSpec, value: str, call: CallSpec) -> list[str]:
    """What a list, dict, named tuple or instance holds. Another thread may change all but a tuple: owned here."""
    number = next(k for k, s in enumerate(records_in(call.args)) if s is spec)
    _require_type(text, value, f"class.{number}")
    count = len(spec.items)
    if issubclass(spec.kind, tuple):
        return _tuple_parts(text, value, count)
    names = [text.object(f"field.{number}.{k}") for k in range(len(spec.names))]
    if spec.kind in (list, dict):
        size = text.let("size", f"call i64 @py.{'PyList' if spec.kind is list else 'PyDict'}_Size(ptr {value})")
        text.require(text.let("same", f"icmp eq i64 {size}, {count}"))
    if spec.kind is list:
        parts = [text.let("item", f"call ptr @py.PyList_GetItem(ptr {value}, i64 {k})") for k in range(count)]
        return [_own(text, part, new=False) for part in parts]
    if spec.kind is dict:
        parts = []
        place = text.slot("place", "i64")
        text.store("i64", "0", place)
        key, item = text.slot("key", "ptr"), text.slot("item", "ptr")
        for name in names:
            more = text.let("more", f"call i32 @py.PyDict_Next(ptr {value}, ptr {place}, ptr {key}, ptr {item})")
            text.require(text.let("more", f"icmp ne i32 {more}, 0"))
            found = text.load("key", "ptr", key)
            text.require(text.let("same", f"call i1 @entry.same_constant(ptr {found}, ptr {name})"))
            parts.append(_own(text, text.load("item", "ptr", item), new=False))
        return parts
    found = [text.let("field", f"call ptr @entry.fetch.attribute(ptr {value}, ptr {name})") for name in names]
    parts = [_own(text, part, new=True) for part in found]
    for part in parts:
        text.require(text.let("found", f"icmp ne ptr {part}, null"))
    return parts


def records_in(specs: Iterable[Spec]) -> list[RecordSpec]:
    """The records of argument specs, as `CallSpec.objects` numbers them."""
    return [s for s in trees.walk(specs) if isinstance(s, RecordSpec)]


def owned_parts(specs: Iterable[Spec]) -> int:
    """How many objects the entry owns while it reads arguments of these specs."""
    return sum(len(s.items) for s in records_in(specs) if not issubclass(s.kind, tuple))


def _own(text: Body, value: str, new: bool) -> str:
    """A reference that is given back at the end of the call."""
    if not new:
        text.line(f"call void @py.Py_IncRef(ptr {value})")
    text.store("ptr", value, text.element("ptr", "%captured", text.owned))
    text.owned += 1
    return value


def _require_type(text: Body, value: str, name: str) -> None:
    found = text.load("type", "ptr", text.member("%object", value, field(PyObject, "type")))
    text.require(text.let("exact", f"icmp eq ptr {found}, {text.object(name)}"))


def _read_scalar(text: Body, spec: ScalarSpec, value: str) -> str:
    dtype = dtype_of_leaf(spec)
    if spec.weak and spec.dtype == "bool":
        true = text.let("true", f"icmp eq ptr {value}, {text.object('True')}")
        false = text.let("false", f"icmp eq ptr {value}, {text.object('False')}")
        text.require(text.let("bool", f"or i1 {true}, {false}"))
        return "i8 " + text.let("b", f"zext i1 {true} to i8")
    if spec.weak and spec.dtype == "i64":
        _require_type(text, value, "int")
        overflow = text.slot("overflow", "i32")
        number = text.let("n", f"call i64 @py.PyLong_AsLongLongAndOverflow(ptr {value}, ptr {overflow})")
        text.require(text.let("fits", f"icmp eq i32 {text.load('overflow', 'i32', overflow)}, 0"))
        return f"i64 {number}"
    weak_types = {"f64": "float", "c128": "complex"}
    _require_type(text, value, weak_types[spec.dtype] if spec.weak else f"scalar.{dtype.numpy_name}")
    (type,) = flat_types(spec.ir_type())
    bits = text.member("%boxed", value, field(Boxed, "bits"))
    return f"{type} " + text.let("x", f"load {type}, ptr {bits}, align 8")


def _read_generator(text: Body, value: str) -> list[str]:
    """The address of the C interface of a generator of random numbers; the call holds its lock."""
    _require_type(text, value, "generator")

    def fetch(owner: str, name: str) -> str:
        found = text.let(name, f"call ptr @entry.fetch.attribute(ptr {owner}, ptr {text.object(f'generator.{name}')})")
        _own(text, found, new=True)
        text.require(text.let("found", f"icmp ne ptr {found}, null"))
        return found

    bits = fetch(value, "bit_generator")
    address = text.let("bitgen", f"call ptr @entry.bitgen(ptr {fetch(bits, 'capsule')})")
    text.require(text.let("found", f"icmp ne ptr {address}, null"))
    text.lock = fetch(bits, "lock")
    return [f"i64 {text.let('address', f'ptrtoint ptr {address} to i64')}"]


# what the entry owns of a generator
GENERATOR_PARTS = 3


def layout_flags(spec: ArraySpec, written: bool) -> tuple[int, int]:
    """(mask, value): what the flags of a matching array are. An array in both orders counts as "C"."""
    mask = value = offsets.ALIGNED | (offsets.WRITEABLE if written else 0)
    if spec.layout == "C":
        return mask | offsets.C_CONTIGUOUS, value | offsets.C_CONTIGUOUS
    both = offsets.C_CONTIGUOUS | offsets.F_CONTIGUOUS
    return mask | both, value | (offsets.F_CONTIGUOUS if spec.layout == "F" else 0)


def type_numbers(spec: ArraySpec) -> tuple[int, int]:
    """NumPy's number of a dtype and the other one that means the same (`long`, `long long`), or the same twice.

    -1, which nothing has, for a dtype of another package: its number is another one in every process.
    """
    if not dtype_of_leaf(spec).is_own:
        return -1, -1
    dtype = dtype_of_leaf(spec).numpy
    others = [t.num for t in map(np.dtype, "lLqQ") if t == dtype and t.num != dtype.num]
    return dtype.num, (others or [dtype.num])[0]


def _read_array(text: Body, spec: ArraySpec, value: str, written: bool) -> list[str]:
    def member(name: str) -> str:
        structure = dict(NDArray._fields_)[name]
        return text.load(name, offsets.llvm_type(structure), text.member("%ndarray", value, field(NDArray, name)))

    _require_type(text, value, "ndarray")
    descr = member("descr")
    own = text.let("own", f"icmp eq ptr {descr}, {text.object(f'descr.{dtype_of_leaf(spec).numpy_name}')}")
    slow, on = text.name("slow"), text.name("on")
    text.line(f"br i1 {own}, label %{on}, label %{slow}, !prof !0")
    text.block(slow)
    number, alias = type_numbers(spec)
    same = text.let("same", f"call i1 @entry.same_dtype(ptr {descr}, i32 {number}, i32 {alias})")
    text.line(f"br i1 {same}, label %{on}, label %nomatch")
    text.block(on)
    text.require(text.let("rank", f"icmp eq i32 {member('nd')}, {spec.rank}"))
    mask, flags = layout_flags(spec, written)
    masked = text.let("flags", f"and i32 {member('flags')}, {mask}")
    text.require(text.let("layout", f"icmp eq i32 {masked}, {flags}"))
    operands = [f"ptr {member('data')}", HEADER]
    if spec.rank:
        shape = member("dimensions")
        for axis, one in enumerate(spec.ones):
            extent = text.load("extent", "i64", text.element("i64", shape, axis))
            text.require(text.let("ones", f"icmp {'eq' if one else 'ne'} i64 {extent}, 1"))
            operands.append(f"i64 {extent}")
    if spec.layout == "S":
        strides = member("strides")
        operands += ["i64 " + text.load("stride", "i64", text.element("i64", strides, k)) for k in range(spec.rank)]
    return [*operands, value]


# -- captured values -----------------------------------------------------------------------------------


def _fetch(text: Body, source: Source, key: str) -> str:
    name = text.object(f"{key}.name")
    return text.let("value", f"call ptr @entry.fetch.{source.kind}(ptr {text.object(key)}, ptr {name})")


def _check_guard(text: Body, k: int, source: Source, absent: bool) -> None:
    """The value stays where it was found while it is compared, so its reference is given back at once."""
    value = _fetch(text, source, f"guard.{k}")
    if absent:
        same = text.let("same", f"icmp eq ptr {value}, null")
    else:
        same = text.let("same", f"call i1 @entry.same_constant(ptr {value}, ptr {text.object(f'guard.{k}.value')})")
    text.line(f"call void @py.Py_DecRef(ptr {value})")
    text.require(same)


def read_captured(text: Body, call: CallSpec) -> list[list[str]]:
    """Fetches and checks the captured arrays, owned in the stack slot `%captured`: operands as of arguments."""
    values = []
    first = len([leaf for spec in call.args for leaf in leaves(spec)])
    for k, captured in enumerate(call.captured):
        value = _fetch(text, captured.source, f"captured.{k}")
        _own(text, value, new=True)
        text.require(text.let("found", f"icmp ne ptr {value}, null"))
        if isinstance(captured.spec, GeneratorSpec):
            values.append(_read_generator(text, value))
        else:
            values.append(_read_array(text, captured.spec, value, first + k in call.written))
    return values


def check_overlap(text: Body, call: CallSpec, values: list[list[str]]) -> None:
    """A version that counts on it gets no array that is written (or copied) and shares bytes with another one."""
    arrays = [k for k, leaf in enumerate(call.leaves) if isinstance(leaf, ArraySpec)]
    arrays = [k for k in arrays if k not in call.free]
    unshared = [k for k in arrays if k in call.unshared]
    if call.may_alias or not unshared or len(arrays) < 2:
        return
    ranges = {}
    for k in arrays:
        ranges[k] = text.slot("range", "[2 x i64]")
        itemsize = dtype_of_leaf(call.leaves[k]).itemsize
        text.line(f"call void @entry.range(ptr {values[k][-1]}, i64 {itemsize}, ptr {ranges[k]})")
    for a, b in {(min(a, b), max(a, b)): None for a in unshared for b in arrays if a != b}:
        overlap = text.let("overlap", f"call i1 @entry.overlap(ptr {ranges[a]}, ptr {ranges[b]})")
        text.require(text.let("apart", f"xor i1 {overlap}, true"))


def check_relations(text: Body, call: CallSpec, values: list[list[str]]) -> None:
    """A version with relations gets no call in which one does not hold; one for `otherwise` gets only these."""
    if not call.relations:
        return
    truth = "true"
    for relation in call.relations:
        total = str(relation.constant)
        for (leaf, axis), coefficient in relation.terms:
            number = values[leaf][0 if axis < 0 else 2 + axis].removeprefix("i64 ")
            part = text.let("part", f"mul i64 {number}, {coefficient}")
            total = text.let("total", f"add i64 {total}, {part}")
        one = text.let("holds", f"icmp {'eq' if relation.is_zero else 'sge'} i64 {total}, 0")
        truth = text.let("all", f"and i1 {truth}, {one}")
    text.require(text.let("not", f"xor i1 {truth}, true") if call.otherwise else truth)
