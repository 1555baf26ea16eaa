"""One activation of a function in the reference interpreter: what each op does to values and to memory.

The values of the program are what ir/interpreter.py says; the state that activations share is its Machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm_py.errors import PassError
from dlvm_py.ir.distributions import DISTRIBUTIONS
from dlvm_py.ir.evaluate import (
    Allocation,
    Pointer,
    conform,
    evaluate,
    literal_value,
    null_pointer,
    poison,
    view_of,
)
from dlvm_py.ir.exceptions import NotAssumed, exception_class, exception_of
from dlvm_py.ir.function import Function
from dlvm_py.ir.objects import Cell, enum_of, fresh, leaf_values, place, read, write
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.ops.aggregates import element, keys_of, replaced
from dlvm_py.ir.ops.cells import NO_CASE
from dlvm_py.ir.ops.gather import scatter_into
from dlvm_py.ir.ops.memory import element_keys
from dlvm_py.ir.ops.objects import EMPTY, OTHER_TYPE, TOO_FEW, TOO_MANY, TRAPPED
from dlvm_py.ir.ops.random import EMPTY_RANGE, bounds_shown, seeded, uniform
from dlvm_py.ir.ops.window import window_at, window_counts
from dlvm_py.ir.text import as_numpy, flavours_of, object_of, print_text, warn_text, warning_class
from dlvm_py.ir.tree_rules import JOINED, is_in_place
from dlvm_py.ir.types import ELEMENTS, VOID, ArrayType, PointerType, StackType, TensorType, Type
from dlvm_py.ir.value import UNDEFINED, Instruction, Literal, OpName, Target, Value, Variable

if TYPE_CHECKING:
    from dlvm_py.ir.interpreter import Machine


class Frame:
    """One activation of a function: the values that it has computed."""

    def __init__(self, machine: Machine, function: Function) -> None:
        self.machine = machine
        self.function = function
        self.values: dict[Value, Any] = {}
        self.tree: dict[Value, Any] = {}  # parts of the tree whose root runs now
        self.kernel: Sequence[Instruction] = ()  # the roots that run now, joined ones together
        self.result: Any = None
        self.payload: Sequence[Any] | None = None  # what the case holds that branchEnum has found

    def run_block(self, instructions: Sequence[Instruction]) -> Target | None:
        """Run a block; the edge that is taken, None after a return."""
        for at, i in enumerate(instructions):
            self.machine.step()
            name = i.op.name
            try:
                if name == "branch":
                    return i.targets[0]
                if name == "conditional":
                    return i.targets[0 if self.get(i.operands[0], True) else 1]
                if name == "branchEnum":
                    case, self.payload = self.get(i.operands[0], True)
                    if case not in i.attrs["cases"]:
                        raise ValueError(NO_CASE.format(i.operands[0].type))
                    return i.targets[i.attrs["cases"].index(case)]
                if name == "return":
                    self.result = self.get(i.operands[0]) if i.operands else None
                    return None
                if self.machine.trees_at_root and not i.attrs.get(JOINED):
                    self._begin_kernel(instructions, at)
                self._run(i)
            except Exception as e:
                if not getattr(e, "__notes__", None):
                    e.add_note(_place(i, self.function))
                raise
        raise PassError("a block has no terminator")

    def get(self, value: Value, defined: bool = False) -> Any:
        """What a value is at this point; with `defined`, PassError for an undefined one."""
        if isinstance(value, Literal):
            found = literal_value(value)
        elif value in self.values:
            found = self.values[value]
        elif isinstance(value, Variable):
            found = self.machine.variables[value]
        elif self.machine.trees_at_root and isinstance(value, Instruction) and _is_tree(value):
            if value not in self.tree:
                self.tree[value] = self._evaluate_tree(value)
            found = self.tree[value]
        else:
            raise PassError(f"{value!r} is read before it is computed")
        if defined and found is UNDEFINED:
            raise PassError(f"an undefined value of type {value.type} is used")
        return found

    def _run(self, i: Instruction) -> None:
        if self.machine.trees_at_root and _is_tree(i):
            return
        result = self._compute(i)
        if i.type != VOID:
            self.values[i] = result

    def _compute(self, i: Instruction) -> Any:
        handler = _HANDLERS.get(i.op.name)
        if handler is not None:
            return handler(self, i)
        operands = [self.get(v, True) for v in i.operands]
        if isinstance(i.type, PointerType):
            if not isinstance(i.operands[0].type.pointee, TensorType):  # type: ignore[attr-defined]
                return self._element(i)
            return view_of(i, operands)
        arrays = [x.view if isinstance(x, Pointer) else x for x in operands]
        return evaluate(i, arrays)

    # -- trees at their roots ------------------------------------------------------------------------

    def _begin_kernel(self, instructions: Sequence[Instruction], at: int) -> None:
        """Evaluate what the roots of the kernel that begins there need, before any of them writes."""
        self.tree.clear()
        joined = takewhile(lambda i: i.attrs.get(JOINED), islice(instructions, at + 1, None))
        self.kernel = [instructions[at], *joined]
        if len(self.kernel) > 1:
            for root in self.kernel:
                self.get(root.operands[0], True)

    def _evaluate_tree(self, i: Instruction) -> Any:
        """Evaluate an array expression now, loads included."""
        if i.op.name == "load":
            return self._load(i)
        operands = [self.get(v, True) for v in i.operands]
        return evaluate(i, [x.view if isinstance(x, Pointer) else x for x in operands])

    def _check_overlap(self, root: Value, to: np.ndarray, in_place: bool = True) -> None:
        """PassError if a load of the tree meets the destination other than at the element being written.

        in_place: the element being written is the one at the root's own place.
        """
        work = [(root, in_place)]
        seen = set(work)
        while work:
            value, aligned = work.pop()
            if not isinstance(value, Instruction) or not _is_tree(value):
                continue
            if value.op.name == "load":
                view = self.pointer(value.operands[0]).view
                if not (aligned and _same_view(view, to)) and np.shares_memory(view, to):
                    raise PassError("a store overlaps what its value reads, at another element")
                continue
            members = [(v, aligned and is_in_place(v, value)) for v in value.operands]
            new = [member for member in members if member not in seen]
            seen.update(new)
            work += new

    # -- memory --------------------------------------------------------------------------------------

    def pointer(self, value: Value) -> Pointer:
        """The live pointer that a value is."""
        p = self.get(value, True)
        if p.owner is not None and p.owner.freed:
            raise PassError(f"{p.owner.origin} is used after it was freed")
        return p

    def _allocate(self, i: Instruction) -> Pointer:
        extents = [int(self.get(v, True)) for v in i.operands]
        if any(n < 0 for n in extents):
            raise PassError(f"an allocation of extents {extents}")
        array = np.empty(extents, ELEMENTS[i.attrs["dtype"]].numpy)
        poison(array)
        owner = Allocation(array, False, f"the allocation in {_place(i, self.function)}")
        self.machine.allocations.append(owner)
        return Pointer(array, owner)

    def _load(self, i: Instruction) -> Any:
        p = self.pointer(i.operands[0])
        if p.owner is None and (not _is_tensor(i.operands[0]) or not p.view.ndim):
            raise PassError("load of a null pointer")
        return read(p.view, i.type)

    def _store(self, i: Instruction) -> None:
        p = self.pointer(i.operands[1])
        if self.machine.trees_at_root:
            for root in self.kernel:
                self._check_overlap(root.operands[0], p.view)
        value = self.get(i.operands[0], True)
        if p.owner is None and (not _is_tensor(i.operands[1]) or not p.view.ndim):
            raise PassError("store to a null pointer")
        if not _is_tensor(i.operands[1]):
            write(p.view, i.operands[0].type, value)
            return
        if np.shape(value) != p.view.shape:
            raise PassError(f"a value of extents {np.shape(value)} is stored to extents {p.view.shape}")
        p.view[...] = value

    def _scatter(self, i: Instruction) -> None:
        p = self.pointer(i.operands[1])
        if self.machine.trees_at_root:
            for v in (i.operands[0], *i.operands[2:]):
                self._check_overlap(v, p.view, in_place=False)
        value, _, *indices = (self.get(v, True) for v in i.operands)
        try:
            scatter_into(p.view, value, indices, i.attrs.get("by"))
        except IndexError as e:
            raise PassError(f"scatter: {e}") from e

    def _new(self, t: Type, i: Instruction, count: int | None = None) -> Pointer:
        """A pointer to fresh memory of a `t`; with a count, where `t` is an array, to the first of its elements."""
        memory = fresh(t)
        owner = Allocation(memory, False, f"the allocation in {_place(i, self.function)}")
        self.machine.allocations.append(owner)
        return Pointer(memory, owner) if count is None else Pointer(place(memory, t, [0]), owner, memory)

    def _allocate_aggregate(self, i: Instruction) -> Pointer:
        t = i.attrs["type"]
        counts = [int(self.get(v, True)) for v in i.operands]
        if any(n < 0 for n in counts):
            raise PassError(f"an allocation of {counts[0]} values")
        return self._new(ArrayType(counts[0], t) if counts else t, i)

    def _allocate_counted(self, i: Instruction) -> Pointer:
        n = int(self.get(i.operands[0], True)) if i.operands else i.attrs["count"]
        if n < 1:
            raise ValueError(TOO_FEW)
        if i.op.name == "allocateStack" and n == 1:
            return self._in_frame(i.attrs["type"], i)
        return self._new(ArrayType(n, i.attrs["type"]), i, n)

    def _in_frame(self, t: Type, i: Instruction) -> Pointer:
        """Memory that nobody counts references to."""
        pointer = self._new(t, i)
        assert pointer.owner is not None
        pointer.owner.borrowed = True
        return pointer

    def _allocate_box(self, i: Instruction) -> Pointer:
        return self._new(i.attrs["type"], i)

    def _project(self, i: Instruction) -> Pointer:
        return self.pointer(i.operands[0])

    def _deallocate(self, i: Instruction) -> None:
        owner = self.pointer(i.operands[0]).owner
        if owner is None or owner.borrowed:
            raise PassError("this memory is not the program's to deallocate")
        owner.freed = True
        poison(owner.array)

    def _copy(self, i: Instruction) -> None:
        source, destination = (self.pointer(v) for v in i.operands[:2])
        t = i.operands[0].type
        pointee = t.pointee if isinstance(t, PointerType) else t.element  # type: ignore[attr-defined]
        n = int(self.get(i.operands[2], True))
        if n == 1:
            write(destination.view, pointee, read(source.view, pointee))
            return
        rows = [source.row, destination.row]
        if any(r is None for r in rows):
            raise PassError(f"{n} values are copied, and how many lie behind the pointers is not known")
        if not 0 <= n <= min(len(getattr(r, "parts", r)) for r in rows):
            raise IndexError(TOO_MANY)
        row = ArrayType(n, pointee)
        for k, value in enumerate([read(place(source.row, row, [k]), pointee) for k in range(n)]):
            write(place(destination.row, row, [k]), pointee, value)

    def _bit_cast(self, i: Instruction) -> Any:
        t = i.type
        if not isinstance(t, PointerType):
            return evaluate(i, [self.get(i.operands[0], True)])
        p = self.pointer(i.operands[0])
        pointee = t.pointee
        source = i.operands[0].type.pointee  # type: ignore[attr-defined]
        if isinstance(pointee, ArrayType) and pointee.element == source:
            if p.row is not None and len(getattr(p.row, "parts", p.row)) == pointee.count:
                return Pointer(p.row, p.owner)
            raise PassError(f"the pointer does not refer to the first of {pointee.count} values")
        if isinstance(source, ArrayType) and source.element == pointee:
            return Pointer(place(p.view, source, [0]), p.owner, p.view)
        shape = np.shape(fresh(pointee))
        return Pointer(p.view.reshape(shape), p.owner)

    def _element(self, i: Instruction) -> Pointer:
        p = self.pointer(i.operands[0])
        if p.owner is None:
            return null_pointer(i.type)
        keys = [k if isinstance(k, str) else int(self.get(k, True)) for k in element_keys(i.operands, i.attrs)]
        return Pointer(place(p.view, i.operands[0].type.pointee, keys), p.owner)  # type: ignore[attr-defined]

    # -- cells -----------------------------------------------------------------------------------------

    def _make_cell(self, i: Instruction) -> Cell:
        items = tuple(self.get(v) for v in i.operands)
        self.machine.in_cells += [x.owner for x in items if isinstance(x, Pointer) and x.owner is not None]
        return Cell(i.attrs["tag"], items)

    def _cell_tag(self, i: Instruction) -> Any:
        cell = self.get(i.operands[0])
        return np.int64(cell.tag if isinstance(cell, Cell) else -1)

    def _cell_item(self, i: Instruction) -> Any:
        cell = self.get(i.operands[0], True)
        if not isinstance(cell, Cell) or len(cell.items) != len(i.attrs["held"].elements):
            raise PassError("the cell has no such items")
        return cell.items[i.attrs["at"]]

    def _leaf(self, i: Instruction) -> Any:
        return leaf_values(self.get(i.operands[0], True), i.operands[0].type)[i.attrs["at"]]

    def _whole_enum(self, i: Instruction) -> Any:
        return enum_of(self.get(i.operands[0], True), i.attrs["type"])

    def _extent(self, i: Instruction) -> Any:
        array = self.get(i.operands[0])
        if array is UNDEFINED:  # what an undefined array says of itself is undefined, like all of it
            return array
        return evaluate(i, [array.view if isinstance(array, Pointer) else array])

    def _retain(self, i: Instruction) -> None:
        if self.get(i.operands[0]) is not UNDEFINED:
            owner = self.pointer(i.operands[0]).owner
            if owner is not None:
                owner.count += 1

    def _release(self, i: Instruction) -> None:
        if self.get(i.operands[0]) is not UNDEFINED:
            owner = self.pointer(i.operands[0]).owner
            if owner is not None:
                owner.release()

    # -- stacks, calls, checks -------------------------------------------------------------------------

    def _create_stack(self, i: Instruction) -> list[Any]:
        self.machine.open_stacks += 1
        return []

    def _push(self, i: Instruction) -> None:
        self.get(i.operands[1], True).append((self.get(i.operands[0]), i.operands[0].type))

    def _pop(self, i: Instruction) -> Any:
        stack = self.get(i.operands[0], True)
        untyped = i.operands[0].type == StackType(None)
        if not stack:
            raise IndexError(EMPTY) if untyped else PassError(EMPTY)
        value, type = stack.pop()
        if untyped and type != i.type:
            raise TypeError(OTHER_TYPE)
        return value

    def _drain(self, i: Instruction) -> Any:
        stack = self.get(i.operands[0], True)
        taken = [np.ravel(value) for value, _ in stack]
        stack.clear()
        return np.concatenate([np.empty(0, i.type.dtype.numpy), *taken])  # type: ignore[attr-defined]

    def _destroy_stack(self, i: Instruction) -> None:
        if self.get(i.operands[0], True):
            raise PassError("a stack is destroyed before it is empty")
        self.machine.open_stacks -= 1

    def _apply(self, i: Instruction) -> Any:
        return self.machine.call_by_name(i.attrs["callee"], [self.get(v) for v in i.operands])

    # -- functions as values -----------------------------------------------------------------------------

    def _apply_value(self, i: Instruction) -> Any:
        function, *args = (self.get(v, k == 0) for k, v in enumerate(i.operands))
        return self.machine.call_by_name(function, args)

    def _combine(self, combiner: str, start: Any, elements: Iterable[Any]) -> Any:
        for x in elements:
            if isinstance(combiner, OpName):
                start = OPS[combiner].evaluate(start, x)  # type: ignore[misc]
            else:
                start = self.machine.call_by_name(combiner, [start, x])
        return start

    def _reduce_by(self, i: Instruction) -> Any:
        x, combiner, init = (self.get(v, True) for v in i.operands)
        axes = sorted(i.attrs["axes"])
        x = np.moveaxis(np.asarray(x), axes, range(len(axes)))
        kept = x.shape[len(axes) :]
        found = np.empty(kept, x.dtype)
        for at in np.ndindex(*kept):
            found[at] = self._combine(combiner, init, x[(..., *at)].ravel())
        return found[()]

    def _scan_by(self, i: Instruction) -> Any:
        x, combiner = (self.get(v, True) for v in i.operands)
        found = np.array(x)
        for axis in i.attrs["axes"]:
            rows = np.moveaxis(found, axis, 0)
            for k in range(1, len(rows)):
                for at in np.ndindex(*rows.shape[1:]):
                    rows[(k, *at)] = self._combine(combiner, rows[(k - 1, *at)], [rows[(k, *at)]])
        return found

    def _reduce_window_by(self, i: Instruction) -> Any:
        x, combiner, init = (self.get(v, True) for v in i.operands)
        x = np.asarray(x)
        found = np.empty(window_counts(x.shape, i.attrs), x.dtype)
        for at in np.ndindex(*found.shape):
            found[at] = self._combine(combiner, init, window_at(x, at, i.attrs).ravel())
        return found

    def _tuple(self, i: Instruction) -> Any:
        return tuple(self.get(v) for v in i.operands)

    def _extract(self, i: Instruction) -> Any:
        source = i.operands[0]
        return element(self.get(source, True), source.type, keys_of(i.attrs))

    def _insert(self, i: Instruction) -> Any:
        value, aggregate = (self.get(v, True) for v in i.operands)
        return replaced(aggregate, i.type, keys_of(i.attrs), value)

    def _aggregate(self, i: Instruction) -> Any:
        return i.op.evaluate(*(self.get(v) for v in i.operands), **i.attrs)  # type: ignore[misc]

    def _random(self, i: Instruction) -> Any:
        *extents, low, high = (self.get(v, True) for v in i.operands)
        assert isinstance(i.type, TensorType)
        name = i.type.dtype.name
        if not low < high:
            raise ValueError(EMPTY_RANGE.format(*(v.item() for v in bounds_shown(low, high, name))))
        shape = tuple(int(n) for n in extents)
        counters = self.machine.take(math.prod(shape)) + np.arange(math.prod(shape))
        return conform(uniform(counters, low, high, name).reshape(shape), i.type)

    def _random_counter(self, i: Instruction) -> Any:
        return self.machine.take(int(self.get(i.operands[0], True)))

    def _random_seed(self, i: Instruction) -> None:
        self.machine.counter = seeded(int(self.get(i.operands[0], True)))

    def _draw(self, i: Instruction) -> Any:
        address, *parameters = (self.get(v, True) for v in i.operands)
        row = DISTRIBUTIONS[i.attrs["distribution"]]
        return ELEMENTS[row.result].numpy.type(row.numpy(self.machine.generators[int(address)], *parameters))

    def _seed_generator(self, i: Instruction) -> Any:
        return self.machine.generator(np.random.default_rng(int(self.get(i.operands[0], True))))

    def _trap(self, i: Instruction) -> None:
        raise RuntimeError(TRAPPED)

    def _check(self, i: Instruction) -> None:
        if self.get(i.operands[0], True):
            return
        if "assuming" in i.attrs:
            raise NotAssumed(i.attrs["message"], i.attrs["assuming"])
        self._fail(i, i.operands[1:])

    def _raise(self, i: Instruction) -> None:
        self._fail(i, i.operands)

    def _fail(self, i: Instruction, operands: Sequence[Value]) -> None:
        name = i.attrs["exception"]
        kind = RuntimeError if "." in name else exception_class(name)  # the user's class is not known here
        if kind is None:
            raise PassError(f"{name} is no exception of Python or NumPy")
        raise exception_of(kind, i.attrs["message"].format(*self._shown(i, operands)))

    def _print(self, i: Instruction) -> None:
        message, shown, category = i.attrs["message"], self._shown(i, i.operands), warning_class(i.attrs["to"])
        if category is None:
            print_text(message, shown, i.attrs["to"], bool(i.attrs.get("flush")))
        else:
            warn_text(message, shown, category, i.loc, bool(i.attrs.get("above")))

    def _shown(self, i: Instruction, operands: Sequence[Value]) -> list[Any]:
        """The operands of a message as Python objects."""
        values = (self.pointer(v).view if isinstance(v.type, PointerType) else self.get(v, True) for v in operands)
        return [object_of(as_numpy(x), f) for x, f in zip(values, flavours_of(operands, i.attrs), strict=True)]


_HANDLERS: dict[str, Callable[[Frame, Instruction], Any]] = {
    "allocateHeap": Frame._allocate,
    "allocateAggregate": Frame._allocate_aggregate,
    "allocateCounted": Frame._allocate_counted,
    "allocateStack": Frame._allocate_counted,
    "allocateBox": Frame._allocate_box,
    "projectBox": Frame._project,
    "deallocate": Frame._deallocate,
    "copy": Frame._copy,
    "bitCast": Frame._bit_cast,
    "trap": Frame._trap,
    "makeCell": Frame._make_cell,
    "cellTag": Frame._cell_tag,
    "cellItem": Frame._cell_item,
    "leaf": Frame._leaf,
    "wholeEnum": Frame._whole_enum,
    "load": Frame._load,
    "store": Frame._store,
    "scatter": Frame._scatter,
    "keepCopy": lambda frame, i: None,  # a mark for a check, without effect
    "keepView": lambda frame, i: None,
    "parallel": lambda frame, i: None,  # one trip after the other is one of the ways
    "replay": lambda frame, i: None,  # how trips are launched, not what they do
    "unsteady": lambda frame, i: np.True_,  # either answer will do: the way that is rarer where programs run
    "extent": Frame._extent,
    "retain": Frame._retain,
    "release": Frame._release,
    "createStack": Frame._create_stack,
    "push": Frame._push,
    "pop": Frame._pop,
    "drain": Frame._drain,
    "destroyStack": Frame._destroy_stack,
    "apply": Frame._apply,
    "applyValue": Frame._apply_value,
    "reduceBy": Frame._reduce_by,
    "scanBy": Frame._scan_by,
    "reduceWindowBy": Frame._reduce_window_by,
    "tuple": Frame._tuple,
    "extract": Frame._extract,
    "insert": Frame._insert,
    "constant": lambda frame, i: frame.get(i.operands[0]),
    "aggregate": Frame._aggregate,
    "enumCase": Frame._aggregate,
    "random": Frame._random,
    "randomCounter": Frame._random_counter,
    "randomSeed": Frame._random_seed,
    "draw": Frame._draw,
    "seedGenerator": Frame._seed_generator,
    "check": Frame._check,
    "print": Frame._print,
    "raise": Frame._raise,
}


def _place(i: Instruction, function: Function) -> str:
    return str(i.loc) if i.loc is not None else f"@{function.name}, at {i.op.name}"


def _is_tensor(pointer: Value) -> bool:
    """Whether a pointer is one to a tensor."""
    return isinstance(pointer.type, PointerType) and isinstance(pointer.type.pointee, TensorType)


def _is_tree(i: Instruction) -> bool:
    """Whether it is an array expression, which the later stages evaluate at its root."""
    return isinstance(i.type, TensorType) and bool(i.type.shape)


def _same_view(a: np.ndarray, b: np.ndarray) -> bool:
    same_start = a.__array_interface__["data"] == b.__array_interface__["data"]
    return same_start and a.shape == b.shape and a.strides == b.strides
