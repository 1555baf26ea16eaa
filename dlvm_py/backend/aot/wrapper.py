"""The C function around a kernel, as LLVM IR text: arguments checked, kernel called, results handed over.

define i32 @model_f(ptr x, i64 x_extent0, double a, ptr result, ptr result_extents)

arrays: no negative extent, no null pointer with elements, nothing written that shares memory with another
@"dl.f"(context, data, header, extents, strides, ..., results)      headers and context on the stack
status 1: @library.fail makes the message of the thread, everything is freed
results: first each array gets memory of its own (the kernel's allocation where it is that already, else a
         copy), then all are handed over, so that an error leaves the caller's memory as it was
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter

import numpy as np

from dlvm_py.backend.aot.abi import Export, Parameter, pieces, result_is_static
from dlvm_py.backend.cpu.contract import (
    BORROWED,
    DATA,
    FUEL,
    OPERANDS,
    PYOBJECT,
    REFCOUNT,
    SITE,
    SITE_MEMORY,
    flat_types,
    memory_type,
)
from dlvm_py.backend.cpu.pointers import Pointer, offset, strides_of, unflatten
from dlvm_py.backend.cpu.text import FunctionText, ModuleText, plain_loop
from dlvm_py.backend.cpu.values import NULL, ONE, ZERO, V, i64
from dlvm_py.backend.site import Site
from dlvm_py.ir import PointerType, TensorType

CONTEXT = "{ ptr, ptr, i64, i32, i32, [4 x i64], i64 }"
HEADER = "{ i64, ptr, i64, ptr, ptr, ptr }"
FIRST_FUEL = (1 << 63) - 1  # there are no signals to poll for
SITES, FAIL = "library.sites", "library.fail"


def wrapper_text(export: Export) -> str:
    """The LLVM IR module of the C function of `export`, which calls its kernel and has its table of sites."""
    writer = Wrapper(ModuleText(), export)
    writer.write()
    return f"{writer.f.module}\n{sites_text(writer.sites)}{''.join(writer.constants)}"


@dataclass(slots=True)
class _Array:
    """An array argument: its name for messages, and where it is."""

    parameter: Parameter
    pointer: Pointer
    count: V  # of elements


class Wrapper:
    """Writes one C function; `f` is its text. What is not the same on a GPU are the methods for `aot.ptx`."""

    def __init__(
        self, module: ModuleText, export: Export, result: str = "i32", convention: str = "", more: Sequence[str] = ()
    ) -> None:
        """more: the LLVM types of parameters behind those of the interface."""
        self.export = export
        self.given, self.outs = pieces(export)
        types = [p.llvm for p in (*self.given, *self.outs)]
        self.f = FunctionText(module, export.name, result, [*types, *more], f"{convention}|nounwind")
        self.more = self.f.params[len(types) :]
        self.sites = list(export.sites)
        self.constants: list[str] = []
        self.arrays: list[_Array] = []
        module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])

    def begin(self) -> None:
        """What comes first, with the context there."""

    def fail(self) -> None:
        """Leave with the error that is recorded in the context."""
        f = self.f
        f.module.declare(FAIL, "void", ["ptr", "ptr"])
        f.call(f"@{FAIL}", "void", [self.context, V("ptr", f"@{SITES}")])
        self._leave(1)

    def succeed(self) -> None:
        """Leave without an error."""
        self._leave(0)

    def _leave(self, status: int) -> None:
        self.f.module.declare("dlvm.free_all", "void", ["ptr"])
        self.f.call("@dlvm.free_all", "void", [self.context])
        self.f.line(f"ret i32 {status}")

    def write(self) -> None:
        """The whole function."""
        f = self.f
        self.context = f.alloca(CONTEXT, 16)
        f.store(V(CONTEXT, "zeroinitializer"), self.context)
        f.store(i64(FIRST_FUEL), f.gep("i8", self.context, i64(FUEL)))
        self.begin()
        values = {(p.leaf, p.role, p.axis): v for p, v in zip(self.given, f.params, strict=False)}
        operands = [v for k, p in enumerate(self.export.parameters) for v in self._operands(k, p, values)]
        self._check_apart()
        types = [flat_types(t) for t in self.export.results]
        struct = "{ " + ", ".join(t for leaf in types for t in leaf) + " }"
        memory = f.alloca(struct if self.export.results else "i64", 16)
        f.module.declare(f'"{self.export.symbol}"', "i32", ["ptr", *(v.type for v in operands), "ptr"])
        status = f.call(f'@"{self.export.symbol}"', "i32", [self.context, *operands, memory])
        self._go_on(f.icmp("eq", status, V("i32", "0")))
        flat = [
            f.load(t, f.value("ptr", f"getelementptr inbounds {struct}, ptr {memory.ref}, i32 0, i32 {k}"))
            for k, t in enumerate(t for leaf in types for t in leaf)
        ]
        self._results(flat)
        self.succeed()

    # -- errors --------------------------------------------------------------------------------------

    def _go_on(self, flag: V, site: int | None = None, operands: Sequence[V] = ()) -> None:
        """Continue where `flag` holds, else leave with the error of `site`, or the one in the context."""
        f = self.f
        ok, bad = f.label("ok"), f.label("fail")
        f.likely(flag, ok, bad)
        f.place(bad)
        if site is not None:
            f.store(V("i32", str(site)), f.gep("i8", self.context, i64(SITE)))
        for k, v in enumerate(operands):
            f.store(v, f.gep("i8", self.context, i64(OPERANDS + 8 * k)))
        self.fail()
        f.place(ok)

    def _require(self, flag: V, message: str, operands: Sequence[V] = ()) -> None:
        self.sites.append(Site("ValueError", message, ("i64",) * len(operands), None))
        self._go_on(flag, len(self.sites) - 1, operands)

    # -- arguments -----------------------------------------------------------------------------------

    def _operands(self, k: int, p: Parameter, values: dict[tuple[int, str, int], V]) -> list[V]:
        """The kernel's operands of a parameter."""
        if isinstance(p.type, PointerType):
            return self._array(k, p, values)
        if p.constant is not None:
            return [self._constant_scalar(p)]
        dtype = p.type.dtype
        if dtype.is_complex:
            return [self.f.pack(values[k, "real", 0], values[k, "imag", 0])]
        value = values[k, "value", 0]
        return [self.f.cast("bitcast", value, "half") if dtype.name == "f16" else value]

    def _constant_scalar(self, p: Parameter) -> V:
        """By its bits, so that nothing is rounded on the way."""
        assert p.constant is not None
        dtype = p.type.dtype
        part, count = memory_type(dtype.real), 2 if dtype.is_complex else 1
        slot = self.f.alloca(f"[{count} x {part}]", 16)
        self.f.store(V(f"[{dtype.itemsize} x i8]", _bytes_text(p.constant.tobytes())), slot)
        return self.f.load(memory_type(dtype), slot)

    def _array(self, k: int, p: Parameter, values: dict[tuple[int, str, int], V]) -> list[V]:
        f, t = self.f, p.type
        assert isinstance(t, PointerType)
        if p.constant is not None:
            data, extents, strides = self._constant_array(k, p)
        else:
            data = values[k, "data", 0]
            extents = [i64(n) if n is not None else values[k, "extent", a] for a, n in enumerate(p.extents)]
            strides = [values[k, "stride", a] for a in range(t.rank)] if t.layout == "S" else []
        count = f.product(extents)
        if p.constant is None:
            for axis, n in enumerate(extents):
                if p.extents[axis] is None:
                    what = f"the extent of axis {axis} of the argument '{p.name}' is negative: {{}}"
                    self._require(f.icmp("sge", n, ZERO), what, [n])
            there = f.any(f.icmp("ne", data, NULL), f.icmp("eq", count, ZERO))
            self._require(there, f"the argument '{p.name}' is a null pointer")
        header = f.alloca(HEADER, 16)
        null = V("ptr", "null")
        # any address says that the memory is not ours to hand on
        fields = (i64(BORROWED), data, ZERO, header, null, null)
        for index, v in enumerate(fields):
            f.store(v, f.value("ptr", f"getelementptr inbounds {HEADER}, ptr {header.ref}, i32 0, i32 {index}"))
        flat = [data, header, *extents, *strides]
        self.arrays.append(_Array(p, unflatten(t, flat), count))
        return flat

    def _constant_array(self, k: int, p: Parameter) -> tuple[V, list[V], list[V]]:
        array = p.constant
        assert isinstance(array, np.ndarray) and isinstance(p.type, PointerType)
        order = "F" if p.type.layout == "F" else "C"
        raw = array.tobytes(order)
        name = f"@library.constant.{k}"
        self.constants.append(f"{name} = private constant [{len(raw)} x i8] {_bytes_text(raw)}, align 64\n")
        dense = np.empty(array.shape, array.dtype, order).strides if array.size else array.strides
        strides = [i64(s) for s in dense] if p.type.layout == "S" else []
        return V("ptr", name), [i64(n) for n in array.shape], strides

    # -- overlap -------------------------------------------------------------------------------------

    def _check_apart(self) -> None:
        """No array that is written, or copied at entry because the primal writes it, may share bytes with another."""
        f = self.f
        ranges: dict[int, tuple[V, V]] = {}
        for a, first in enumerate(self.arrays):
            for b, second in enumerate(self.arrays[a + 1 :], a + 1):
                if not (first.parameter.unshared or second.parameter.unshared):
                    continue
                if first.parameter.constant is not None or second.parameter.constant is not None:
                    continue
                for k in (a, b):
                    if k not in ranges:
                        ranges[k] = self._range(self.arrays[k])
                (low_a, high_a), (low_b, high_b) = ranges[a], ranges[b]
                apart = f.any(
                    f.icmp("ule", high_a, low_b), f.icmp("ule", high_b, low_a),
                    f.icmp("eq", first.count, ZERO), f.icmp("eq", second.count, ZERO),
                )  # fmt: skip
                names = (first.parameter.name, second.parameter.name)
                guilty = names[0] if first.parameter.unshared else names[1]
                self._require(
                    apart,
                    f"the arguments '{names[0]}' and '{names[1]}' overlap in memory, and '{guilty}' is written: "
                    "pass a copy of one",
                )

    def _range(self, array: _Array) -> tuple[V, V]:
        """The addresses of the first byte and behind the last one (of an array that has elements)."""
        f, p = self.f, array.pointer
        low = f.cast("ptrtoint", p.data, "i64")
        if p.strides is None:
            return low, f.add(low, f.mul(array.count, i64(p.itemsize)))
        high = f.add(low, i64(p.itemsize))
        for n, stride in zip(p.extents, p.strides, strict=True):
            reach = f.mul(f.add(n, i64(-1)), stride)
            backward = f.icmp("slt", reach, ZERO)
            low = f.add(low, f.select(backward, reach, ZERO))
            high = f.add(high, f.select(backward, ZERO, reach))
        return low, high

    # -- results -------------------------------------------------------------------------------------

    def _results(self, flat: list[V]) -> None:
        values = []
        for t in self.export.results:
            width = len(flat_types(t))
            mine, flat = flat[:width], flat[width:]
            values.append(self._owned(unflatten(t, mine)) if isinstance(t, PointerType) else mine[0])
        params = self.f.params[len(self.given) : len(self.given) + len(self.outs)]
        addresses = dict(zip(((p.leaf, p.role) for p in self.outs), params, strict=True))
        for k, (t, value) in enumerate(zip(self.export.results, values, strict=True)):
            address = addresses[k, "out"]
            extents = addresses.get((k, "out_extents"))
            if isinstance(value, V):
                with self.f.when(self.f.icmp("ne", address, NULL)):
                    self.f.store(value, address)
            else:
                self._hand_over(t, value, address, extents)

    def _owned(self, p: Pointer) -> Pointer:
        """A C-contiguous array with the elements of `p` in an allocation of the context that nothing else uses."""
        f = self.f
        nbytes = f.mul(f.product(p.extents), i64(p.itemsize))
        before = f.label("result")
        f.br(before)
        f.place(before)
        copy, after = f.label("copy"), f.label("owned")
        if p.layout == "C":
            known, look = f.label("known"), f.label("look")
            f.cond_br(f.icmp("eq", p.header, NULL), copy, known)
            f.place(known)
            once = f.icmp("eq", f.load("i64", f.gep("i8", p.header, i64(REFCOUNT))), ONE)
            ours = f.icmp("eq", f.load("ptr", f.gep("i8", p.header, i64(PYOBJECT))), NULL)
            f.cond_br(f.both(once, ours), look, copy)
            f.place(look)
            whole = f.icmp("eq", f.load("ptr", f.gep("i8", p.header, i64(DATA))), p.data)
            f.cond_br(whole, after, copy)
        else:
            look = before
            f.br(copy)
        f.place(copy)
        header = f.call("@dlvm.allocate", "ptr", [self.context, nbytes])
        self._go_on(f.icmp("ne", header, NULL), SITE_MEMORY)
        data = f.load("ptr", f.gep("i8", header, i64(DATA)))
        fresh = Pointer(p.dtype, "C", data, header, p.extents)
        if p.layout == "C":
            self._memcpy(data, p.data, nbytes)
        else:
            self._copy_elements(p, fresh)
        copied = f.here
        f.br(after)
        f.place(after)
        both = []
        for fresh_value, old in ((data, p.data), (header, p.header)):
            phi = f.phi("ptr")
            phi.add(fresh_value, copied)
            if p.layout == "C":
                phi.add(old, look)
            both.append(phi.value)
        return Pointer(p.dtype, "C", both[0], both[1], p.extents)

    def _memcpy(self, to: V, source: V, nbytes: V) -> None:
        self.f.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
        self.f.call("@llvm.memcpy.p0.p0.i64", "void", [to, source, nbytes, V("i1", "false")])

    def _copy_elements(self, source: Pointer, to: Pointer, index: tuple[V, ...] = ()) -> None:
        f = self.f
        if len(index) < source.rank:
            with f.loop(source.extents[len(index)], note=plain_loop(f)) as loop:
                self._copy_elements(source, to, (*index, loop.index))
            return
        places = [offset(f, p.data, index, strides_of(f, p)) for p in (to, source)]
        self._memcpy(places[0], places[1], i64(source.itemsize))

    def _hand_over(self, t: TensorType | PointerType, p: Pointer, address: V, extents: V | None) -> None:
        f = self.f
        if result_is_static(t):
            with f.when(f.icmp("ne", address, NULL)):
                self._memcpy(address, p.data, f.mul(f.product(p.extents), i64(p.itemsize)))
            return
        assert extents is not None
        with f.when(f.icmp("ne", extents, NULL)):
            for axis, n in enumerate(p.extents):
                f.store(n, f.gep("i64", extents, i64(axis)))
        with f.when(f.icmp("ne", address, NULL)):
            f.store(p.data, address)
            # the caller's from here on
            f.store(NULL, f.gep("i8", p.header, i64(DATA)))


# -- tables ----------------------------------------------------------------------------------------------

_KINDS = {"i64": 1, "f64": 2, "bool": 3}


def sites_text(sites: Sequence[Site]) -> str:
    """The table of sites that `runtime/native/library.ll` reads, as constants of a module."""
    strings: dict[str, str] = {}

    def text(value: str) -> str:
        return f"ptr {strings.setdefault(value, f'@library.text.{len(strings)}')}"

    rows, lists = [], []
    for k, site in enumerate(sites):
        parts = [f"{{ ptr, i32, i32 }} {{ {text(t)}, i32 {at}, i32 {kind} }}" for t, at, kind in _parts(site)]
        of = f"[{len(parts)} x {{ ptr, i32, i32 }}]"
        lists.append(f"@library.pieces.{k} = private constant {of} [{', '.join(parts)}]\n")
        rows.append(
            f"{{ ptr, ptr, ptr, i64 }} {{ {text(site.exception)}, {text(place_text(site))}, "
            f"ptr @library.pieces.{k}, i64 {len(parts)} }}"
        )
    table = f"@{SITES} = private constant [{len(rows)} x {{ ptr, ptr, ptr, i64 }}] [{', '.join(rows)}]\n"
    made = []
    for value, name in strings.items():
        raw = value.replace("\0", " ").encode() + b"\0"
        made.append(f"{name} = private unnamed_addr constant [{len(raw)} x i8] {_bytes_text(raw)}\n")
    return "".join([*made, *lists, table])


def is_plain_text(site: Site) -> bool:
    """Whether `library.ll` can make the text of a site as Python would."""
    if not site.operand_kinds:
        return True
    return set(site.operand_kinds) <= _KINDS.keys() and all(
        not spec and conversion is None for _, field, spec, conversion in Formatter().parse(site.message) if field == ""
    )


def place_text(site: Site) -> str:
    """Where a site is, for the end of its message."""
    return f" ({os.path.basename(site.loc.file)}:{site.loc.line}:{site.loc.col + 1})" if site.loc else ""


def _parts(site: Site) -> list[tuple[str, int, int]]:
    """The message in parts: a text, and behind it an operand and its kind (0: none), as str.format would fill it in."""
    if not site.operand_kinds:
        return [(site.message, 0, 0)]
    texts = site.message.replace("{{", "\0").replace("}}", "\1").split("{}")
    plain = [t.replace("\0", "{").replace("\1", "}") for t in texts]
    kinds = site.operand_kinds
    operands = [(k, _KINDS[kinds[k]]) if k < len(kinds) else (0, 0) for k in range(len(plain) - 1)]
    return [(t, k, kind) for t, (k, kind) in zip(plain, [*operands, (0, 0)], strict=True)]


def _bytes_text(raw: bytes) -> str:
    """Bytes as an LLVM string constant."""
    return 'c"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in raw) + '"'
