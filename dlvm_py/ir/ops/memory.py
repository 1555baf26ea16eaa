"""Memory, ownership, stacks (tapes), aggregates, calls, checks and control flow.

A pointer refers to a strided tensor. `allocateHeap` makes a fresh C-contiguous one whose elements are
not initialised; the reference count of an allocation is kept by `retain` and `release`, which the
ownership pass places. Loads and stores move whole tensors or, on a rank 0 pointer, one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlvm_py.ir.op import ALLOCATE, IO, READ, TRAP, WRITE, Kind, Op
from dlvm_py.ir.ops.aggregates import element_type, keys_of, path_type
from dlvm_py.ir.ops.rules import check_number, pointer, static_extent
from dlvm_py.ir.ops.shape import indices_are_i64
from dlvm_py.ir.text import STREAMS, flavours_of, warning_class
from dlvm_py.ir.types import (
    BOOL,
    ELEMENTS,
    F32,
    F64,
    I64,
    VOID,
    ArrayType,
    BoxType,
    PointerType,
    StackType,
    TensorType,
    TupleType,
    Type,
    scalar,
)
from dlvm_py.ir.value import Value

BY_ADJOINT_PASS = "differentiated by a construct of its own, in transforms/differentiate"


def _memory(name: str, rule: Any, effects: set[str], attrs: tuple[str, ...] = (), kind: Kind = Kind.MEMORY) -> Op:
    return Op(name, kind, rule, None, attrs=attrs, effects=frozenset(effects), no_derivative=BY_ADJOINT_PASS)


def _allocate_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    indices_are_i64(operands)
    return PointerType(TensorType(tuple(static_extent(n) for n in operands), ELEMENTS[attrs["dtype"]]))


def _load_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return pointer(operands[0]).pointee


def _same_extents(a: TensorType, b: TensorType) -> bool:
    return a.rank == b.rank and all(m is None or n is None or m == n for m, n in zip(a.shape, b.shape, strict=True))


def _store_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    value, destination = operands
    to = pointer(destination, "destination").pointee
    if not isinstance(to, TensorType) and to == value.type:
        if MARKS & attrs.keys():
            raise TypeError(f"{to} has no rows that are stored at a time")
        return VOID  # a struct, an enum, ...
    if not isinstance(value.type, TensorType) or value.type.dtype is not to.dtype or not _same_extents(value.type, to):
        raise TypeError(f"{value.type} cannot be stored to {destination.type}")
    if MARKS & attrs.keys() and isinstance(destination.type, PointerType):
        _check_marks(destination.type, attrs)
    return VOID


# how the kernel runs that a store, or a reduction, is the first root of
MARKS = frozenset(("jam", "tile", "shifts", "past", "lines", "ahead", "grain"))


_NUMBERS = (
    ("past", 1, "bytes"),
    ("lines", 1, "rows"),
    ("ahead", 0, "bytes"),
    ("grain", 1, "tenths of nanoseconds"),
)


def _check_marks(to: PointerType, attrs: dict[str, Any]) -> None:
    """That what is said of a kernel can be done with it."""
    if not to.rank:
        raise TypeError(f"{to} is one element: there is nothing to say of how it is stored")
    if {"jam", "tile"} & attrs.keys():
        _check_groups(to, attrs)
    if attrs.get("shifts") and to.dtype not in (F32, F64):
        raise TypeError(f"shifts: rows of f32 and f64 are loaded once, not those of {to.dtype}")
    if attrs.get("shifts") and "tile" in attrs:
        raise TypeError("a kernel goes by tiles or by rows that are loaded once (shifts), not by both")
    for word, what in (("lines", "what goes by lines"), ("ahead", "what is fetched")):
        if word in attrs and not {"past", "jam"} <= attrs.keys():
            raise TypeError(f"{word}: {what} are rows that go together (jam) past the caches (past)")
    for word, least, what in _NUMBERS:
        check_number(word, attrs, least, what)


def _check_groups(to: PointerType, attrs: dict[str, Any]) -> None:
    """That several indices of an axis can be stored at a time: it is not the one whose elements lie side by side."""
    word = "jam" if "jam" in attrs else "tile"
    axes = range(to.rank)[1:] if to.layout == "F" else range(to.rank)[:-1]
    if attrs["along"] not in axes:
        raise TypeError(f"{word} along {attrs['along']}: of {to} that may be {', '.join(map(str, axes)) or 'no axis'}")
    if attrs[word] < 2:
        raise TypeError(
            f"{word} {attrs[word]}: at least 2 {'rows' if word == 'jam' else 'of a side'} are stored at a time"
        )
    if word == "jam" and "tile" in attrs:
        raise TypeError("a kernel goes by rows (jam) or by tiles, not by both")


def element_keys(operands: Sequence[Value], attrs: dict[str, Any]) -> list[str | Value]:
    """The keys of an elementPointer in order: names of fields, and indices."""
    indices = list(operands[1:])
    path = attrs.get("path") or ("",) * len(indices)
    if sum(not name for name in path) != len(indices):
        raise TypeError(f"{len(indices)} indices for the path {path}")
    return [name or indices.pop(0) for name in path]


def _element_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    p, *keys = operands
    t = pointer(p)
    indices_are_i64(keys)
    if not isinstance(t.pointee, TensorType) or attrs.get("path"):
        return _path_type(t, element_keys(operands, attrs))
    if not 0 < len(keys) <= t.rank:
        raise TypeError(f"{len(keys)} indices for rank {t.rank}")
    rest = t.shape[len(keys) :]
    layout = "C" if not rest or t.layout == "C" else "S"
    return PointerType(TensorType(rest, t.dtype), layout)


def _path_type(t: PointerType, keys: list[str | Value]) -> Type:
    """Through structs, tuples and arrays, at last the axes of a tensor."""
    at: Type = t.pointee
    for key in keys:
        if isinstance(key, str):
            at = element_type(at, key)
        elif isinstance(at, ArrayType):
            index = static_extent(key)
            at = at.element if index is None else element_type(at, index)
        elif isinstance(at, TensorType) and at.shape:
            at = TensorType(at.shape[1:], at.dtype)
        else:
            place = static_extent(key)
            if place is None:
                raise TypeError(f"an element of {at} is named by a number, not by a value")
            at = element_type(at, place)
    return PointerType(at)  # type: ignore[arg-type]


def _void_of_pointer(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if not isinstance(operands[0].type, BoxType):
        pointer(operands[0])
    return VOID


ANY_ORDER = "anyorder"
SHADOW = "shadow"
# allocateHeap of dtype (extents...): fresh, not initialised; MemoryError where it fails
# (anyorder: of an array expression, whose result NumPy lays out as its operands; see temporary_layouts.py;
# shadow: of derivatives, whose zeros have no sign that a program gives; see redundant_load.py)
allocateHeap = _memory("allocateHeap", _allocate_type, {ALLOCATE}, ("dtype", ANY_ORDER, SHADOW))
load = _memory("load", _load_type, {READ})
# store v to p: same shape; all of v is read before any element is written
# (joined: one kernel with the store before it, all reads before all writes at each place; see tree_rules.py)
# (jam: a schedule, so many indices of the axis `along` at a time where the innermost loop has `least` trips or more;
# the first store of a kernel says it, and the other MARKS; see transforms/unroll_and_jam.py, tile_loops.py,
# shift_rows.py, stream_stores.py, share_kernels.py)
store = _memory(
    "store",
    _store_type,
    {WRITE},
    ("jam", "tile", "along", "least", "shifts", "past", "lines", "ahead", "grain", "joined"),
)
# elementPointer p at (i...): leading axes are indexed away; indices are in range
# (of aggregates: `path` has the names of fields, and "" for each index, where there are names)
elementPointer = _memory("elementPointer", _element_type, set(), ("path",), kind=Kind.INDEX)
# keepCopy p: a list keeps a copy of this array where Python has a reference; gone after transforms/kept_copies.py
keepCopy = _memory("keepCopy", _void_of_pointer, {READ, TRAP})
# keepView p in q: the array q holds a copy of what it should be a view of, elements of p; gone after kept_copies.py
keepView = _memory("keepView", _void_of_pointer, {READ, TRAP})
retain = _memory("retain", _void_of_pointer, {WRITE})
release = _memory("release", _void_of_pointer, {WRITE})


def _stack(value: Value) -> StackType:
    if not isinstance(value.type, StackType):
        raise TypeError(f"{value.type} is no stack")
    return value.type


def _push_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    value, stack = operands
    if _stack(stack).element not in (None, value.type):
        raise TypeError(f"{value.type} pushed to a {stack.type}")
    return VOID


createStack = _memory(
    "createStack", lambda operands, attrs: StackType(attrs.get("element")), {ALLOCATE}, ("element",), Kind.STACK
)
push = _memory("push", _push_type, {WRITE}, kind=Kind.STACK)
# of a stack without a type, `type` says what is popped
pop = _memory(
    "pop", lambda operands, attrs: _stack(operands[0]).element or attrs["type"], {WRITE}, ("type",), kind=Kind.STACK
)


def _drain_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    element = _stack(operands[0]).element
    if isinstance(element, PointerType) and element.layout == "C":
        element = element.pointee  # stage compute: the memory of an array
    if not isinstance(element, TensorType):
        raise TypeError(f"the entries of a {operands[0].type} are no numbers or arrays")
    return PointerType(TensorType((None,), element.dtype))


# drain s: the elements of all entries, first pushed first, each in C order, as one fresh array; s is empty then
drain = _memory("drain", _drain_type, {ALLOCATE, WRITE}, kind=Kind.STACK)
destroyStack = _memory("destroyStack", lambda operands, attrs: (_stack(operands[0]), VOID)[1], {WRITE}, kind=Kind.STACK)

# -- aggregates --------------------------------------------------------------------------------------


def _extract_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    return path_type(operands[0].type, keys_of(attrs))


# printed as DLVM's `literal (a, b): (A, B)`
make_tuple = Op(
    "tuple",
    Kind.AGGREGATE,
    lambda operands, attrs: TupleType(tuple(v.type for v in operands)),
    lambda *xs: tuple(xs),
    no_derivative=BY_ADJOINT_PASS,
)
extract = Op(
    "extract", Kind.AGGREGATE, _extract_type, lambda t, at: t[at], attrs=("at",), no_derivative=BY_ADJOINT_PASS
)

# -- calls, checks, control --------------------------------------------------------------------------

# apply @callee(args) -> result; attr `result` is the callee's result type
apply = _memory(
    "apply", lambda operands, attrs: attrs["result"], {READ, WRITE, TRAP, ALLOCATE}, ("callee", "result"), Kind.CALL
)


def _check_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if operands[0].type != scalar(BOOL):
        raise TypeError("the condition of check must be a scalar bool")
    flavours_of(operands[1:], attrs)
    return VOID


def _text_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    flavours_of(operands, attrs)
    return VOID


def _print_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if attrs["to"] not in STREAMS and warning_class(attrs["to"]) is None:
        raise TypeError(f"print goes to {', '.join(STREAMS)} or a category of warnings, not to {attrs['to']}")
    return _text_type(operands, attrs)


# check c else Kind "message with {}" (operands): raises a Python exception with the operands formatted
# into the message (ir/text.py), unless c holds. `assuming`: the name of what the front end has taken for granted where
# types depend on values (frontend/assumptions.py); a call where it does not hold is undone and made by another version
check = _memory("check", _check_type, {TRAP}, ("exception", "message", "assuming", "flavours"), Kind.CHECK)


def _parallel_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if [v.type for v in operands[:3]] != [scalar(I64), scalar(F64), scalar(BOOL)]:
        raise TypeError("parallel takes a number of trips (i64), what they cost (f64), and a bool")
    for v in operands[3:]:
        pointer(v)
    check_number("grain", attrs, 1, "tenths of nanoseconds")
    return VOID


# parallel n cost c if safe private (p...): the trips of the loop that the block leads to are independent; the memory p
# is each trip's own (transforms/share_loops.py). grain: the cost from which on threads share it (share_kernels.py)
parallel = _memory("parallel", _parallel_type, set(), ("grain",), kind=Kind.CHECK)


def _replay_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if [v.type for v in operands] != [scalar(I64)]:
        raise TypeError("replay takes a number of trips (i64)")
    if attrs["after"] < 0 or attrs["period"] < 1:
        raise TypeError("replay is after no trip or some, and its period is one or more")
    return VOID


# replay n after a period p: the loop that the block leads to has n trips, of which each, from number a on, launches
# what the one p before it did, on the same memory with the same numbers (transforms/replay_loops.py)
replay = _memory("replay", _replay_type, set(), ("after", "period"), Kind.CHECK)


def _unsteady_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if [v.type for v in operands] != [scalar(I64)]:
        raise TypeError("unsteady takes a number (i64)")
    check_number("most", attrs, 1, "a number")
    return scalar(BOOL)


# unsteady n most m: whether the numbers that came here were small, m or less, and changed so often that a loop of as
# many trips ends where no processor expects it. A guess, for a choice between two ways to the same result
# (transforms/few_terms.py): either answer will do
unsteady = _memory("unsteady", _unsteady_type, set(), ("most",), kind=Kind.CHECK)
# print "text with {}" to stdout (operands): the text is written to Python's sys.stdout (sys.stderr) of that moment;
# to RuntimeWarning (any category): it is a warning, of this place or (`above`) of where compiled code was called
print_ = _memory("print", _print_type, {TRAP, READ, IO}, ("message", "to", "flush", "above", "flavours"), Kind.CHECK)


def _control(name: str, rule: Any, attrs: tuple[str, ...] = (), effects: set[str] | None = None) -> Op:
    return _memory(name, rule, effects or set(), attrs, Kind.CONTROL)


def _condition_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    if len(operands) != 1 or operands[0].type != scalar(BOOL):
        raise TypeError("the condition must be a scalar bool")
    return VOID


branch = _control("branch", lambda operands, attrs: VOID)
# unordered: what the loop that it is the head of sums, in a trip or in all of them, may be summed in any order
conditional = _control("conditional", _condition_type, ("unordered", "likely", "bounded", "whole", "rest"))
return_ = _control("return", lambda operands, attrs: VOID)
# raise Kind "message with {}" (operands): as a check that always fails
raise_ = _control("raise", _text_type, ("exception", "message", "flavours"), {TRAP})

MEMORY = (
    allocateHeap, load, store, elementPointer, keepCopy, keepView, retain, release, createStack, push, pop,
    drain, destroyStack,
)  # fmt: skip
FLOW = (make_tuple, extract, apply, check, print_, parallel, replay, unsteady, branch, conditional, return_, raise_)
