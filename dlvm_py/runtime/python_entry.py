"""The entry of a version in Python: for arguments that the native entry leaves alone, and for other platforms.

The same protocol as `native.entry`: bind, check, read, call, box. It matches more (subclasses of numbers, constants
that are equal but not identical) and costs microseconds. The kernel is called through `@dlvm.invoke`. Where no
field of an ndarray may be written, a fresh result is copied out of its allocation instead of taking it over.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from dlvm_py.errors import DeviceError, DLError
from dlvm_py.frozen import Frozen, replace
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    EitherSpec,
    GeneratorSpec,
    GrowingSpec,
    ListSpec,
    PlaceSpec,
    RecordSpec,
    ScalarSpec,
    Spec,
    TableSpec,
    TupleSpec,
    dtype_of_leaf,
    is_generator,
    leaves,
)
from dlvm_py.runtime.buffers import taken_before
from dlvm_py.runtime.gpu.arrays import DeviceArray, Owned, exported, named, overlap
from dlvm_py.runtime.gpu.memory import Moved, moved
from dlvm_py.runtime.lent import Places, carry_out, lent
from dlvm_py.runtime.native import offsets
from dlvm_py.runtime.signature import numbers_of, spec_of
from dlvm_py.runtime.trees import Contents, Known, maker, parts_of
from dlvm_py.runtime.undo import Undone, undoing
from dlvm_py.runtime.version import (
    ARGUMENT_REFERENCES,
    DEVICE_FAILED,
    FINISH,
    FIRST_FUEL,
    INVOKE,
    NO_MEMORY,
    SLOT,
    CallSpec,
    Version,
)


class _Header(ctypes.Structure):
    _fields_ = [
        ("references", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("nbytes", ctypes.c_int64),
        ("object", ctypes.c_void_p),
        ("previous", ctypes.c_void_p),
        ("next", ctypes.c_void_p),
    ]


class _Context(ctypes.Structure):
    _fields_ = [
        ("allocations", ctypes.c_void_p),
        ("thread_state", ctypes.c_void_p),
        ("fuel", ctypes.c_int64),
        ("site", ctypes.c_int32),
        ("pad", ctypes.c_int32),
        ("operands", ctypes.c_int64 * 4),
        ("taken", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
        ("recording", ctypes.c_void_p * 4),
        ("take", ctypes.py_object),
        ("give", ctypes.py_object),
    ]


# the functions that are called through ctypes
_INVOKE = ctypes.PYFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)
_FINISH = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_NEW_FROM_DESCR = ctypes.PYFUNCTYPE(
    ctypes.py_object, *[ctypes.py_object] * 2, ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_int, ctypes.c_void_p
)
_SET_BASE_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object)


class BeyondLimit(Exception):
    """A call of a limited version takes more memory than it may: it has been undone."""


# -- matching ------------------------------------------------------------------------------------------


def call(version: Version, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[bool, Any]:
    """(True, result) if the version takes these arguments, (False, None) if not. Raises what the call raises.

    Raises: Undone where something does not hold that the version assumes.
    """
    values = bind(version.call, args, kwargs)
    return (False, None) if values is None else attempt(version, values)


def attempt(
    version: Version, values: Sequence[Any], printed: int = 0, found: list[Any] | None = None
) -> tuple[bool, Any]:
    """As `call`, for one value a parameter. The captured arrays that are checked are those that are used.

    printed: how many texts of this call have been printed before it was undone. found: the leaves, where it is known
    that they match.
    """
    if found is None:
        found = matched(version.call, values)
    if found is None:
        return False, None
    try:
        return True, run_leaves(version, found, values=values, printed=printed)
    except BeyondLimit:
        return False, None


def matched(spec: CallSpec, values: Sequence[Any]) -> list[Any] | None:
    """The leaves of values that a version takes, and captured arrays as they are now; else None."""
    return _matched(spec, values, read_captured(spec))


def read_captured(spec: CallSpec) -> list[Any]:
    """The captured values of a version as they are now: another thread may bind the names anew at any time."""
    return [c.source.read() for c in spec.captured]


def bind(spec: CallSpec, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
    """One value a parameter, defaults filled in; None if the arguments do not fit the parameters."""
    if spec.variadic or len(args) > spec.positional:
        return None
    left = dict(kwargs)
    values = list(args)
    for k in range(len(args), len(spec.args)):
        name = spec.param_names[k]
        if k >= spec.positional_only and name in left:
            values.append(left.pop(name))
        elif name in spec.defaults:
            values.append(spec.defaults[name])
        else:
            return None
    return None if left else values


def matches(spec: CallSpec, values: Sequence[Any], captured: Sequence[Any] | None = None) -> bool:
    """Whether a version takes these values (one a parameter), as things are now with what it captured."""
    return _matched(spec, values, read_captured(spec) if captured is None else captured) is not None


def _matched(spec: CallSpec, values: Sequence[Any], captured: Sequence[Any]) -> list[Any] | None:
    """The leaves of values that a version takes, else None. Each list, dict or instance is looked into once."""
    found: list[Any] = []
    expected = [*spec.args, *(c.spec for c in spec.captured)]
    if not all(_take(s, v, found) for s, v in zip(expected, [*values, *captured], strict=True)):
        return None
    if not all(same_constant(g.source.read(), g.value) for g in spec.guards):
        return None
    if spec.relations and all(r.holds(found) for r in spec.relations) == spec.otherwise:
        return None
    return found if spec.may_alias or _overlapping(spec, found) is None else None


def leaves_of(specs: Sequence[Spec], values: Sequence[Any]) -> list[Any]:
    """The leaves of values that have these specs."""
    found: list[Any] = []
    for spec, value in zip(specs, values, strict=True):
        _take(spec, value, found)
    return found


def _take(spec: Spec, value: Any, found: list[Any]) -> bool:
    """Whether a value fits its spec; its leaves are added to `found`."""
    if isinstance(spec, ConstantSpec):
        return same_constant(value, spec.value)
    if isinstance(spec, TupleSpec | RecordSpec):
        parts = parts_of(spec, value)
        return parts is not None and all(_take(s, v, found) for s, v in zip(spec.items, parts, strict=True))
    if isinstance(spec, ListSpec):
        if type(value) is not list or numbers_of(value) != spec:
            return False
        found.append(np.array(value, dtype_of_leaf(spec.item).numpy))
        return True
    if isinstance(spec, TableSpec):
        return _take_table(spec, value, found)
    found.append(value)
    known = isinstance(value, int | float | complex | np.generic | np.ndarray | DeviceArray)
    if not known and not is_generator(value):
        return False
    try:
        return spec_of(value) == spec
    except (DLError, OverflowError):
        return False


def _take_table(spec: TableSpec, value: Any, found: list[Any]) -> bool:
    try:
        if type(value) is not dict or not value or spec_of(value) != spec:
            return False
    except (DLError, OverflowError):
        return False
    columns = [*(zip(*value, strict=True) if spec.is_tuple else [value]), value.values()]
    found += [np.array(list(c), dtype_of_leaf(s).numpy) for c, s in zip(columns, spec.columns, strict=True)]
    return True


def same_constant(a: Any, b: Any) -> bool:
    """Identity, or equality of the same type; floats by their bits, so that 0.0 is not -0.0, and NaN is NaN."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex):
        return same_constant(a.real, b.real) and same_constant(a.imag, b.imag)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same_constant, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same_constant, a.values(), b.values()))
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return isinstance(a, int | str | bytes | slice | range | np.dtype) and bool(a == b)


def overlapping(spec: CallSpec, values: Sequence[Any], captured: Sequence[Any]) -> tuple[str, str] | None:
    """The names of an array that may not be shared and of another one that may have bytes in common with it, if any."""
    found: list[Any] = []
    for s, v in zip([*spec.args, *(c.spec for c in spec.captured)], [*values, *captured], strict=True):
        _take(s, v, found)
    pair = _overlapping(spec, found)
    if pair is None:
        return None
    names = [n for n, s in zip(spec.param_names, spec.args, strict=True) for _ in leaves(s)]
    names += [c.source.name for c in spec.captured]
    return names[pair[0]], names[pair[1]]


def _overlapping(spec: CallSpec, found: Sequence[Any]) -> tuple[int, int] | None:
    arrays = [k for k, value in enumerate(found) if isinstance(value, np.ndarray | DeviceArray)]
    others = [b for b in arrays if b not in spec.free]
    pairs = ((a, b) for a in spec.unshared for b in others if a != b)  # type: ignore[union-attr]
    return next(((a, b) for a, b in pairs if overlap(found[a], found[b])), None)


# -- the call ------------------------------------------------------------------------------------------


def run(
    version: Version,
    values: Sequence[Any],
    captured: Sequence[Any] | None = None,
    receive: Callable[[Any], Any] | None = None,
    kept: list[Any] | None = None,
) -> Any:
    """Calls the kernel on values that match, one a parameter, and captured arrays that do: `run_leaves`."""
    found: list[Any] = []
    for spec, value in zip(version.call.args, values, strict=True):
        _take(spec, value, found)
    found += read_captured(version.call) if captured is None else captured
    return run_leaves(version, found, receive, kept, values)


def run_leaves(
    version: Version,
    found: Sequence[Any],
    receive: Callable[[Any], Any] | None = None,
    kept: list[Any] | None = None,
    values: Sequence[Any] = (),
    printed: int = 0,
) -> Any:
    """Calls the kernel on leaves that match, those of captured arrays last.

    values: what the leaves are of, one a parameter: for a version that changes lists, dicts or instances of the caller.
    receive: is given the result while the memory of the call is still there, and gives what is returned.
    kept: gets the context, whose memory then stays until `free` is given it.
    printed: as `attempt`.
    Raises: ValueError for a read-only array that the function writes; what the compiled code raises; Undone.
    """
    call = version.call
    for k in call.written:
        if not (found[k].writeable if isinstance(found[k], DeviceArray) else found[k].flags.writeable):
            raise ValueError("assignment destination is read-only")
    places = lent(call, values) if call.effects is not None else {}
    invoked = functools.partial(_invoke, version, found, receive, kept, places)
    if not call.generators and not call.leaves_traces:
        return invoked()
    with _locked(found):
        return undoing(invoked, found, call.written, printed) if call.leaves_traces else invoked()


@contextlib.contextmanager
def _locked(found: Sequence[Any]) -> Iterator[None]:
    """The locks of all bit generators among the leaves, held as NumPy's own methods hold them; in one order."""
    locks = {id(g): g.bit_generator.lock for g in found if is_generator(g)}
    with contextlib.ExitStack() as held:
        for lock in sorted(locks.values(), key=id):
            held.enter_context(lock)
        yield


def _invoke(
    version: Version,
    found: Sequence[Any],
    receive: Callable[[Any], Any] | None,
    kept: list[Any] | None,
    places: Places,
) -> Any:
    if version.device is None:
        return _run_kernel(version, found, receive, kept, places, None)
    with moved(version.device, found) as there:
        try:
            return _run_kernel(version, found, receive, kept, places, there)
        finally:
            for k in version.call.written:
                if isinstance(found[k], np.ndarray):
                    there.bring_back(found[k])


def _run_kernel(
    version: Version,
    found: Sequence[Any],
    receive: Callable[[Any], Any] | None,
    kept: list[Any] | None,
    places: Places,
    there: Moved | None,
) -> Any:
    """The call itself. `there`: the arrays on the device that it runs on."""
    call = version.call
    headers = [_Header() for _ in found]
    data = [_data(v, there) for v in found]
    slots = bytearray(b"".join(map(_parameters, call.leaves, found, data, headers)) or 1)
    results = bytearray(_result_size(call.result) or 1)
    memory = None if version.device is None else version.device.memory
    context = _Context(fuel=FIRST_FUEL, taken=taken_before(memory) if call.limited else 0)
    if there is not None:
        context.stream = there.stream
        if there.device.pool is not None:
            context.take, context.give = there.device.pool.asked
    # with the lock held, and an exception that is set when it returns raised: invoke releases the lock itself
    invoke, finish = _INVOKE(version.code[INVOKE]), _FINISH(version.code[FINISH])
    here = ctypes.addressof(context)
    try:
        if not invoke(here, _address(slots), _address(results)):
            boxing = _Boxing(bytes(results), call.result, found, places, there)
            if call.effects is not None:
                return carry_out(call, version.name, places, boxing.number(call.result), boxing.take, boxing.contents)
            result = boxing.box(call.result)
            return result if receive is None else receive(result)
        if context.site == NO_MEMORY:
            raise BeyondLimit if call.limited else MemoryError
        if context.site == DEVICE_FAILED:
            assert version.device is not None
            raise DeviceError(f"in compiled code of {version.name}: {version.device.reason(context.operands[0])}")
        if context.site in call.assumed:
            raise Undone(context.site)
        raise version.error(context.site, *context.operands)
    finally:
        if kept is None:
            finish(here)
        else:
            kept.append(context)


def free(version: Version, kept: Sequence[Any]) -> None:
    """Free the memory of contexts that `run` has kept."""
    with nullcontext() if version.device is None else version.device.current():
        for context in kept:
            _FINISH(version.code[FINISH])(ctypes.addressof(context))


def _address(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def _data(value: Any, there: Moved | None) -> int:
    """Where the elements of an array are for the kernel; 0 for what is no array."""
    if isinstance(value, DeviceArray):
        return value.data
    if not isinstance(value, np.ndarray):
        return 0
    return value.ctypes.data if there is None else there.address(value)


def _parameters(leaf: ScalarSpec | ArraySpec, value: Any, data: int, header: _Header) -> bytes:
    """The kernel parameters of a leaf, each in a slot; `header` is filled for an array, which is at `data`."""
    if isinstance(leaf, GeneratorSpec):
        address = offsets.capsule_pointer(value.bit_generator.capsule)
        return struct.pack("=Q", address).ljust(SLOT, b"\0")
    if isinstance(leaf, ScalarSpec):
        return np.asarray(value, dtype_of_leaf(leaf).numpy).tobytes().ljust(SLOT, b"\0")
    header.references, header.data, header.object = ARGUMENT_REFERENCES, data, id(value)
    numbers = [data, ctypes.addressof(header), *value.shape]
    if leaf.layout == "S":
        numbers += value.strides
    return b"".join(struct.pack("=q", n).ljust(SLOT, b"\0") for n in numbers)


# -- results -------------------------------------------------------------------------------------------


def _result_size(result: Spec) -> int:
    """An upper bound of the size of the struct of results."""
    return sum(SLOT if isinstance(s, ScalarSpec) else 16 + 16 * s.rank for s in leaves(result))


class _Result(Frozen):
    """An array leaf of the results: where its elements are, and the address of their allocation's header."""

    data: int
    header: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def end(self) -> int:
        """The address behind the last element."""
        if 0 in self.shape:
            return self.data
        last = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True) if step > 0)
        return self.data + last + self.dtype.itemsize


class _Boxing:
    """The results in memory as Python objects."""

    def __init__(
        self, raw: bytes, spec: Spec, arguments: Sequence[Any], places: Places, there: Moved | None = None
    ) -> None:
        self._raw = raw
        self._at = 0
        # the array that owns the data of a header, by the header's address, and where that data was
        self._owners: dict[int, tuple[np.ndarray[Any, Any], int]] = {}
        # arguments by their ids, and how far from what the kernel has seen they are
        arrays = [a for a in arguments if isinstance(a, np.ndarray)]
        self._arguments = {id(a): (a, a.ctypes.data - _data(a, there)) for a in arrays}
        self._there = there
        self._on_device = {id(a): a for a in arguments if isinstance(a, DeviceArray)}
        self._taken: dict[int, Owned] = {}  # memory of the device by its header
        self._copy = ctypes.memmove if there is None else there.read
        read = [self._array(s) if isinstance(s, ArraySpec) else self._scalar(s) for s in leaves(spec)]
        self._ends: dict[int, int] = {}  # how far the results in one allocation reach
        for leaf in read:
            if isinstance(leaf, _Result):
                self._ends[leaf.header] = max(self._ends.get(leaf.header, 0), leaf.end())
        self._leaves = iter(read)
        self._read = read
        self._places = places
        self.contents: Contents = []
        self._known = Known(places, {}, self.contents)

    def number(self, spec: Spec) -> int:
        """Of a result with effects, how the call has ended."""
        assert isinstance(spec, TupleSpec)
        found: int = self._read[len(leaves(spec.items[0]))]
        return found

    def take(self, spec: Spec, is_wanted: bool) -> Any:
        """The next leaves of the struct as a value of `spec`; if it is not wanted they are left out."""
        if is_wanted:
            return self.box(spec)
        for _ in leaves(spec):
            next(self._leaves)
        return None

    def box(self, spec: Spec) -> Any:
        """The next leaves of the struct as a value of `spec`."""
        if isinstance(spec, TupleSpec):
            return tuple(self.box(item) for item in spec.items)
        if isinstance(spec, RecordSpec):
            return maker(spec)(tuple(self.box(item) for item in spec.items))
        if isinstance(spec, GrowingSpec):
            found = maker(spec, self._known)(tuple(self.box(column) for column in spec.columns))
            return found[0] if spec.is_item else found
        if isinstance(spec, EitherSpec):
            place = next(self._leaves)
            found = [self.take(item, k == place) for k, item in enumerate(spec.items)]
            return found[place]
        if isinstance(spec, ConstantSpec):
            return spec.value
        if isinstance(spec, PlaceSpec):
            return self._places[spec.place]
        leaf = next(self._leaves)
        return self._boxed(leaf) if isinstance(leaf, _Result) else leaf

    def _scalar(self, spec: ScalarSpec) -> Any:
        dtype = dtype_of_leaf(spec)
        self._at += -self._at % dtype.real.itemsize
        value = np.frombuffer(self._raw, dtype.numpy, 1, self._at)[0]
        self._at += dtype.itemsize
        return value.item() if spec.weak else value

    def _array(self, spec: ArraySpec) -> _Result:
        self._at += -self._at % 8
        count = 2 + spec.rank * (2 if spec.layout == "S" else 1)
        data, address, *numbers = struct.unpack_from(f"={count}q", self._raw, self._at)
        self._at += 8 * count
        dtype, shape = dtype_of_leaf(spec).numpy, tuple(numbers[: spec.rank])
        strides = tuple(numbers[spec.rank :]) if spec.layout == "S" else _dense(shape, dtype.itemsize, spec.layout)
        return _Result(data, address, dtype, shape, strides)

    def _boxed(self, leaf: _Result) -> Any:
        header = _Header.from_address(leaf.header)
        if header.object:
            if header.object in self._on_device:
                return self._view_there(leaf, self._on_device[header.object])
            owner, away = self._arguments[header.object]
        elif self._there is not None and self._there.stays:
            return self._taken_over(leaf, header, self._there)
        else:
            if leaf.header not in self._owners:
                nbytes = _nbytes(leaf.shape, leaf.dtype)
                whole = leaf.data == header.data and _allocated(nbytes) == header.nbytes
                whole = whole and self._ends[leaf.header] <= leaf.data + nbytes
                dense = next((o for o in "CF" if leaf.strides == _dense(leaf.shape, leaf.dtype.itemsize, o)), None)
                if whole and dense:
                    owner = np.empty(leaf.shape, leaf.dtype, dense)
                else:
                    owner = np.empty(header.nbytes, np.uint8)
                self._copy(owner.ctypes.data, header.data, owner.nbytes)
                self._owners[leaf.header] = owner, header.data
            owner, was = self._owners[leaf.header]
            away = owner.ctypes.data - was
        return _same_or_view(owner, leaf.data + away, leaf.dtype, leaf.shape, leaf.strides)

    def _view_there(self, leaf: _Result, of: DeviceArray) -> Any:
        """A result in the memory of an argument on the device: the user's object, or a view of it."""
        moves = [(a, b) for n, a, b in zip(leaf.shape, leaf.strides, of.strides, strict=False) if n != 1]
        if (leaf.data, leaf.shape, leaf.dtype) == (of.data, of.shape, of.dtype) and all(a == b for a, b in moves):
            return of if of.origin is None else of.origin
        assert self._there is not None
        owner = of.owner, self._there.stream_owner
        made = DeviceArray(leaf.data, leaf.shape, leaf.strides, leaf.dtype, owner, of.writeable)
        return exported(replace(made, stream=named(self._there.stream), read=self._there.reader()))

    def _taken_over(self, leaf: _Result, header: _Header, there: Moved) -> Any:
        """A result of the call's own: its memory is the user's from now on."""
        if leaf.header not in self._taken:
            self._taken[leaf.header] = Owned(there.device, header.data, there.stream, there.stream_owner)
            header.data = None
        made = DeviceArray(leaf.data, leaf.shape, leaf.strides, leaf.dtype, self._taken[leaf.header])
        return exported(replace(made, stream=named(there.stream), read=there.reader()))


def _nbytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return int(np.prod(shape, dtype=object)) * dtype.itemsize


def _allocated(nbytes: int) -> int:
    """The size of an allocation for `nbytes`, as @dlvm.allocate rounds it up."""
    return max(nbytes, 1) + -max(nbytes, 1) % 64


def _dense(shape: tuple[int, ...], itemsize: int, order: str) -> tuple[int, ...]:
    """The strides of an array without gaps."""
    axes = range(len(shape)) if order == "F" else reversed(range(len(shape)))
    strides, step = [0] * len(shape), itemsize
    for axis in axes:
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def _same_or_view(
    owner: np.ndarray[Any, Any], data: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    moves = [(a, b) for n, a, b in zip(shape, strides, owner.strides, strict=False) if n != 1]
    same_place = owner.ctypes.data == data and owner.shape == shape and owner.dtype == dtype
    if same_place and (owner.size == 0 or all(a == b for a, b in moves)):
        return owner
    new = _NEW_FROM_DESCR(offsets.numpy_api(offsets.NEW_FROM_DESCR))
    set_base = _SET_BASE_OBJECT(offsets.numpy_api(offsets.SET_BASE_OBJECT))
    rank = len(shape)
    flags = offsets.WRITEABLE if owner.flags.writeable else 0
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # both functions take a reference over
    extents, steps = (ctypes.c_int64 * max(rank, 1))(*shape), (ctypes.c_int64 * max(rank, 1))(*strides)
    view = new(np.ndarray, dtype, rank, ctypes.addressof(extents), ctypes.addressof(steps), data, flags, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    set_base(view, owner)
    return view
