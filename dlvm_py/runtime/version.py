"""A compiled version: what it takes (`CallSpec`), its loaded code, and the exceptions of its error sites.

A version holds everything that its code points to. The table of a callable holds its versions, and each running
call holds the table, so code is freed when the last of both is gone.
"""

from __future__ import annotations

import ast
import functools
import struct
import sys
from collections.abc import Mapping, Sequence
from types import CellType
from typing import Any, NamedTuple

import numpy as np

from dlvm_py.backend.site import Site
from dlvm_py.errors import InternalError, Loc
from dlvm_py.frozen import Frozen, field
from dlvm_py.ir.exceptions import exception_class, exception_of
from dlvm_py.ir.interface import (
    ArraySpec,
    ConstantSpec,
    Effects,
    EitherSpec,
    GeneratorSpec,
    ListSpec,
    RecordSpec,
    ScalarSpec,
    Spec,
    TableSpec,
    leaves,
)
from dlvm_py.ir.relation import Relation
from dlvm_py.ir.text import print_text, warn_text, warning_class
from dlvm_py.ir.types import DTYPES
from dlvm_py.runtime import told, trees, undo
from dlvm_py.runtime.gpu.device import Device
from dlvm_py.runtime.gpu.library import run_library
from dlvm_py.runtime.loader import LoadedCode, load
from dlvm_py.runtime.native import standing
from dlvm_py.runtime.native.offsets import MISSING

# symbols of an object; `native.entry` says what they are
ENTRY, INVOKE, FINISH = "dlvm.entry", "dlvm.invoke", "dlvm.finish"
# what these call, and their imports table
KERNEL, ENTRY_IMPORTS = "version.kernel", "dlvm.entry.imports"
SLOT = 16  # bytes of a kernel parameter in the memory that dlvm.invoke reads
FIRST_FUEL = 1_000_000  # work until the first poll, in the units of the calling convention
ARGUMENT_REFERENCES = 1 << 62
NO_MEMORY = -2  # the site of a call that could not allocate
DEVICE_FAILED = -3  # the site of a call whose launch or copy the driver refused
UNDONE = 2  # what an entry gives whose call has been undone, as something that was assumed does not hold
TAKEN_BEFORE = "limit:taken"  # the import of a limited version: at what its count of bytes begins


class Source(Frozen):
    """Where a captured value is read at every call.

    `holder` is a dict (globals, builtins, a module's), a closure's cell, or an object with the attribute `name`.
    """

    holder: Any
    name: str

    @property
    def kind(self) -> str:
        """How it is read: "dict", "cell" or "attribute"."""
        if isinstance(self.holder, dict):
            return "dict"
        return "cell" if isinstance(self.holder, CellType) else "attribute"

    def read(self) -> Any:
        """The value now, or MISSING."""
        if isinstance(self.holder, dict):
            return self.holder.get(self.name, MISSING)
        if isinstance(self.holder, CellType):
            try:
                return self.holder.cell_contents
            except ValueError:
                return MISSING
        return getattr(self.holder, self.name, MISSING)


class Captured(Frozen):
    """An array, or a generator of random numbers, that is a hidden argument."""

    source: Source
    spec: ArraySpec | GeneratorSpec


class Guard(Frozen):
    """A captured constant: the version holds while `source` has `value` (MISSING: while it has none)."""

    source: Source
    value: Any

    @property
    def absent(self) -> bool:
        """Whether the name must not be there (a global that would hide a builtin)."""
        return self.value is MISSING


class CallSpec(Frozen):
    """How a version is called from Python.

    args, param_names: one a parameter, in the order of the signature; the first `positional_only` have no
    keyword, the last `keyword_only` no position; `defaults` by name. `variadic`: has *args or **kwargs, so that
    only the slow path can bind. result: of the kernel. captured: arrays read at each call, the kernel's last
    parameters. guards: constants compared at each call. written: indices in `leaves` of arrays that the kernel
    writes. unshared: indices of arrays that may not share memory with another one (all that are written, and what a
    derivative copies because its primal writes it), unless may_alias: compiled for arrays that overlap.
    free: indices of arrays that may share memory with any (seeds and tangents: read at entry, and nothing is written).
    shadows: of the arrays that share memory in the calls that this version is for (together.py), the shadows, which are
    the kernel's last parameters.
    repeatable: a call does nothing that everybody sees each time (print, draw random numbers), and may be made again.
    effects: what it does to the caller's lists, dicts and instances, where that has brought more into `result`.
    on_device: arrays are on a GPU while it runs.
    assumed: by the numbers of sites, what is assumed there (frontend/assumptions.py): a call in which it does not hold
    is undone (undo.py), and is not of this version. answers: what it was compiled for, where that is not the usual one.
    tells: whether it prints, or draws random numbers.
    relations: what has to hold of the leaves, all of it (transforms/assume_extents.py), or with `otherwise`, not all.
    limited: a call that takes more memory than `buffers.tape_limit` says, or than there is, is undone, and is not of
    this version.
    """

    __slots__ = ("__dict__",)  # for the cached properties

    args: tuple[Spec, ...]
    param_names: tuple[str, ...]
    result: Spec
    captured: tuple[Captured, ...] = ()
    guards: tuple[Guard, ...] = ()
    written: tuple[int, ...] = ()
    unshared: tuple[int, ...] | None = None
    free: tuple[int, ...] = ()
    may_alias: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    positional_only: int = 0
    keyword_only: int = 0
    variadic: bool = False
    limited: bool = False
    repeatable: bool = False
    assumed: Mapping[int, str] = field(default_factory=dict)
    answers: Mapping[str, bool | None] = field(default_factory=dict)
    tells: bool = False
    shadows: tuple[ArraySpec, ...] = ()
    effects: Effects | None = None
    on_device: bool = False
    relations: tuple[Relation, ...] = ()
    otherwise: bool = False
    classes: Mapping[str, type] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert len(self.args) == len(self.param_names)
        if self.unshared is None:
            object.__setattr__(self, "unshared", self.written)
        assert all(isinstance(self.leaves[k], ArraySpec) for k in {*self.written, *self.unshared})

    @functools.cached_property
    def leaves(self) -> list[ScalarSpec | ArraySpec]:
        """The kernel's parameters: leaves of the arguments, then captured arrays, then shadows."""
        return [leaf for spec in self.args for leaf in leaves(spec)] + [*(c.spec for c in self.captured), *self.shadows]

    @property
    def positional(self) -> int:
        """How many parameters can be given by position."""
        return len(self.args) - self.keyword_only

    @functools.cached_property
    def generators(self) -> int:
        """How many generators of random numbers it takes, or captured."""
        return sum(isinstance(leaf, GeneratorSpec) for leaf in self.leaves)

    @property
    def by_python(self) -> bool:
        """Whether only the Python entry takes its calls.

        They are variadic, have several locks, shared memory, effects or a device, take lists or dicts as arrays, give
        structures on some paths and others on others, or leave traces that must be undone.
        """
        by_calls = (
            any(isinstance(s, ListSpec | TableSpec) for s in trees.walk(self.args))
            or self.variadic
            or self.generators > 1
            or bool(self.shadows)
            or self.effects is not None
            or any(isinstance(s, EitherSpec) and not s.is_flat for s in trees.walk((self.result,)))
        )
        return by_calls or self.on_device or self.leaves_traces

    @property
    def leaves_traces(self) -> bool:
        """Whether a call that is undone may have written, printed or drawn something by then."""
        return bool(self.assumed) and (bool(self.written) or self.tells)

    def objects(self) -> dict[str, Any]:
        """The Python objects that the native entry refers to, by the names of its `obj:` imports."""
        found: dict[str, Any] = {
            "param_names": tuple(map(sys.intern, self.param_names)),
            "defaults": tuple(self.defaults.get(name, MISSING) for name in self.param_names),
        }
        if self.generators:
            found["generator"] = np.random.Generator
            names = ("bit_generator", "capsule", "lock", "acquire", "release")
            found |= {f"generator.{name}": sys.intern(name) for name in names}
        for k, spec in enumerate(constants(self.args)):
            found[f"constant.{k}"] = spec.value
        for k, record in enumerate(s for s in trees.walk(self.args) if isinstance(s, RecordSpec)):
            found[f"class.{k}"] = record.kind
            found |= {f"field.{k}.{n}": sys.intern(name) for n, name in enumerate(record.names)}
        for k, make in enumerate(trees.makers(self.result)):
            found[f"make.{k}"] = make
        for k, value in enumerate(trees.result_constants(self.result)):
            found[f"result.{k}"] = value
        for k, captured in enumerate(self.captured):
            _add_source(found, f"captured.{k}", captured.source)
        for k, guard in enumerate(self.guards):
            _add_source(found, f"guard.{k}", guard.source)
            found[f"guard.{k}.value"] = guard.value
        return found


def _add_source(objects: dict[str, Any], key: str, source: Source) -> None:
    objects[key] = source.holder
    objects[f"{key}.name"] = sys.intern(source.name)


def constants(specs: Sequence[Spec]) -> list[ConstantSpec]:
    """The constants of argument specs, left to right, tuples included."""
    return [spec for spec in trees.walk(specs) if isinstance(spec, ConstantSpec)]


class Entry(NamedTuple):
    """The object file of an entry, the names of its imports table, and the standing functions that it calls."""

    image: bytes
    imports: Sequence[str]
    shared: Sequence[str]


class Version(Frozen, eq=False):
    """A loaded version. `facts` is whatever the driver keeps with it (IR text, statistics). device: where it runs."""

    call: CallSpec
    code: LoadedCode
    sites: tuple[Site, ...]
    name: str
    facts: dict[str, Any] = field(default_factory=dict)
    device: Device | None = None

    @staticmethod
    def load(
        call: CallSpec,
        entry: Entry,
        image: bytes,
        imports: Sequence[str],
        sites: Sequence[Site],
        name: str,
        shared: Sequence[str] = (),
        device: Device | None = None,
        kernels: tuple[bytes, int] = (b"", 0),
        parts: Sequence[bytes] = (),
        **facts: Any,
    ) -> Version:
        """Links the object file `image`, which exports `KERNEL`, with its entry, `native.entry.compiled_entry(call)`.

        `name` is the function's in tracebacks; `shared` the standing functions that the object calls. `kernels`: the
        image of those that it launches on `device`, and their number. `parts`: further objects of the same module.
        Raises LookupError if the object does not fit this process.
        """
        sites = tuple(sites)
        # not a bound method: version → code → method → version would be a cycle
        objects = call.objects() | {
            "on_error": functools.partial(site_error, sites, name, classes=call.classes),
            "tell": functools.partial(_told, sites, name, call.classes, device),
            "None": None,
        }
        given: dict[str, int] = {}
        if device is not None:
            handles, facts["module"] = device.kernels(*kernels)
            given = device.imports | {f"kernel:{n}": handle for n, handle in enumerate(handles)}
        links = standing.links({*shared, *entry.shared})
        beside = [(entry.image, entry.imports, ENTRY_IMPORTS), *((part, (), "") for part in parts)]
        code = load(image, imports, (ENTRY, INVOKE, FINISH), objects, links, given, beside)
        return Version(call, code, sites, name, facts, device)

    def error(self, site: int, *operands: int) -> BaseException:
        """The exception of an error site."""
        return site_error(self.sites, self.name, site, *operands, classes=self.call.classes)


# -- errors --------------------------------------------------------------------------------------------


def sites_to_json(sites: Sequence[Site]) -> list[Any]:
    """A site table as JSON."""
    return [
        [
            s.exception, s.message, list(s.operand_kinds), s.loc and [getattr(s.loc, n) for n in Loc.__slots__],
            s.stream, s.flush, s.assumes, s.above,
        ]
        for s in sites
    ]  # fmt: skip


def sites_from_json(data: list[Any]) -> tuple[Site, ...]:
    """The site table of its JSON form."""
    return tuple(Site(e, m, tuple(kinds), Loc(*loc) if loc else None, *of) for e, m, kinds, loc, *of in data)


def site_error(
    sites: Sequence[Site], function: str, index: int, *operands: int, classes: Mapping[str, type] | None = None
) -> BaseException:
    """The exception of a site, with the line in a note and as the innermost entry of its traceback.

    `operands` are bit patterns as signed 64-bit integers; `classes` the user's exceptions, by `class_name`.
    """
    if not 0 <= index < len(sites):
        return InternalError(f"compiled code of {function} failed at site {index}, which does not exist")
    site = sites[index]
    values = [_operand(kind, bits) for kind, bits in zip(site.operand_kinds, operands, strict=False)]
    return error_of(site, values, function, classes)


def error_of(site: Site, values: Sequence[Any], function: str, classes: Mapping[str, type] | None) -> BaseException:
    """The exception of a site, with these objects in its message."""
    message = site.message.format(*values)
    kind = (classes or {}).get(site.exception) or exception_class(site.exception) or RuntimeError
    return _raised_at(kind, message, site.loc, function) if site.loc else exception_of(kind, message)


def _told(
    sites: Sequence[Site],
    function: str,
    classes: Mapping[str, type],
    device: Device | None,
    index: int,
    address: int,
) -> BaseException | None:
    """What compiled code calls as `tell`, with what is at `address`: prints, warns, seeds, or gives an exception.

    Of a GPU program also what libraries do.
    """
    site = sites[index]
    if site.stream == "library":
        assert device is not None
        return run_library(device, site.message, site.operand_kinds, address)
    if site.stream == "seed":
        return told.seed(address)
    values = told.operands(site.operand_kinds, address)
    if not site.stream:
        return error_of(site, values, function, classes)
    if undo.is_left_out():
        return None
    try:
        category = classes.get(site.stream) or warning_class(site.stream)
        if category is None:
            print_text(site.message, values, site.stream, site.flush)
        else:
            warn_text(site.message, values, category, site.loc, site.above)
    except Exception as error:
        if site.loc:
            error.add_note(f"in compiled code of {function}, {site.loc.file}:{site.loc.line}")
        raise
    return None


def _operand(kind: str, bits: int) -> Any:
    """The value of a bit pattern; `kind` is a dtype's name or its letter (b, i, u, f: 64 bits)."""
    dtype = DTYPES.get(kind) or DTYPES[{"b": "bool", "i": "i64", "u": "u64", "f": "f64"}.get(kind, "i64")]
    raw = struct.pack("<q", bits)[: dtype.itemsize]
    value = np.frombuffer(raw, dtype.numpy.newbyteorder("<"))[0]
    return value if kind == "f32" else value.item()  # which shows as few digits as tell it apart


def _raised_at(kind: type[BaseException], message: str, loc: Loc, function: str) -> BaseException:
    """A new exception, as if raised at `loc`: code of one statement with that position is run.

    No variable may hold the exception at the end. The frame of the statement refers to this one, and the
    exception's traceback to that, so that it would be a cycle.
    """
    end = loc.end_line or loc.line
    position = {"lineno": loc.line, "col_offset": loc.col, "end_lineno": end, "end_col_offset": loc.end_col or loc.col}
    name = ast.Name("error", ast.Load(), **position)
    code = compile(ast.Module([ast.Raise(exc=name, cause=None, **position)], []), loc.file, "exec")
    scope = {"error": exception_of(kind, message)}
    try:
        exec(code.replace(co_name=function, co_qualname=function), scope)
    except kind as raised:
        del scope["error"]
        raised.__traceback__ = raised.__traceback__ and raised.__traceback__.tb_next
        raised.add_note(f"in compiled code of {function}, {loc.file}:{loc.line}")
        return raised
    raise AssertionError("a raise statement went on")
