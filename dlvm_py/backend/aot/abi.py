"""The C side of a kernel: names and C types of what a caller gives and gets (docs/aot.md says it to users).

    @f: (*<_ x f64>, f64) -> *<_ x f64>
    int model_f(const double *x, int64_t x_extent0, double a, double **result, int64_t result_extents[1])

An `Export` is one function of a library. Its parameters and results are leaves (scalars and pointers), in the order
of the kernel. `declaration` gives the pieces in order, each with its C type and its LLVM type: the header prints
the first, the wrapper is defined with the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dlvm_py.backend.cpu.contract import memory_type
from dlvm_py.backend.site import Site
from dlvm_py.ir import DType, PointerType, TensorType

# f16 and bf16 travel as their bits: C has no type for them that every compiler knows
_C_TYPES = {
    "bool": "bool", "f16": "uint16_t", "bf16": "uint16_t", "f32": "float", "f64": "double", "c64": "float",
    "c128": "double",
    **{f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)}, **{f"u{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
}  # fmt: skip
_RESERVED = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl complex const
    const_cast constexpr continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum
    errno explicit export extern false float for friend goto I if imaginary inline int long mutable namespace new
    noexcept not not_eq NULL nullptr operator or or_eq private protected public register reinterpret_cast requires
    restrict return short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor
    xor_eq int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t""".split()
)


def c_type(dtype: DType) -> str:
    """The C type of an element; of a complex one, that of its parts."""
    return _C_TYPES[dtype.name]


def identifier(text: str, taken: set[str] | None = None) -> str:
    """A C and C++ identifier made of `text` that is not `taken`, to which it is added."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "x"
    name = f"n{name}" if name[0].isdigit() else name
    while name in _RESERVED or (taken is not None and name in taken):
        name += "_"
    if taken is not None:
        taken.add(name)
    return name


@dataclass(frozen=True, eq=False)
class Parameter:
    """One leaf of what a kernel takes.

    type: of the kernel: a scalar or a pointer. extents: of an array, those that are known; the caller gives the
    others. unshared: the array may not share memory with another one. constant: the value is part of the
    library, and the caller gives nothing.
    """

    name: str
    type: TensorType | PointerType
    extents: tuple[int | None, ...] = ()
    written: bool = False
    unshared: bool = False
    constant: np.ndarray | np.generic | None = None

    def shown(self) -> str:
        """The DLVM type with the extents that are known."""
        if isinstance(self.type, PointerType):
            pointee = TensorType(self.extents, self.type.dtype)
            return str(PointerType(pointee, self.type.layout)).removeprefix("*")
        return str(self.type)


@dataclass(frozen=True, eq=False)
class Export:
    """One function of a library: its kernel (`symbol`, defined in `text`, raising at `sites`) and its C side.

    name: of the C function. title: what the header says that it is.
    """

    name: str
    title: str
    text: str
    symbol: str
    sites: Sequence[Site]
    parameters: Sequence[Parameter]
    results: Sequence[TensorType | PointerType]


class Piece(NamedTuple):
    """One parameter of the C function: `leaf` is its Parameter's or result's position, `role` what it is of that.

    Roles of parameters: value, real, imag, data, extent, stride; of results: out, out_extents.
    """

    declared: str
    llvm: str
    leaf: int
    role: str
    axis: int = 0


def result_is_static(t: TensorType | PointerType) -> bool:
    """Whether a result goes into memory of the caller: a scalar, or an array of known extents."""
    return isinstance(t, TensorType) or None not in t.shape


def pieces(export: Export) -> tuple[list[Piece], list[Piece]]:
    """The parameters of the C function: of arguments, then of results."""
    taken: set[str] = set()
    given: list[Piece] = []
    for k, p in enumerate(export.parameters):
        if p.constant is None:
            given += _argument(k, p, identifier(p.name, taken), taken)
    results: list[Piece] = []
    for k, t in enumerate(export.results):
        name = identifier("result" if len(export.results) == 1 else f"result_{k}", taken)
        c = c_type(t.dtype)
        if result_is_static(t):
            results.append(Piece(f"{c} *{name}", "ptr", k, "out"))
        else:
            extents = identifier(f"{name}_extents", taken)
            results.append(Piece(f"{c} **{name}", "ptr", k, "out"))
            results.append(Piece(f"int64_t {extents}[{t.rank}]", "ptr", k, "out_extents"))
    return given, results


def _argument(k: int, p: Parameter, name: str, taken: set[str]) -> Iterable[Piece]:
    t, c = p.type, c_type(p.type.dtype)
    if isinstance(t, PointerType):
        yield Piece(f"{'' if p.written else 'const '}{c} *{name}", "ptr", k, "data")
        for axis in (axis for axis, n in enumerate(p.extents) if n is None):
            yield Piece(f"int64_t {identifier(f'{name}_extent{axis}', taken)}", "i64", k, "extent", axis)
        if t.layout == "S":
            for axis in range(t.rank):
                yield Piece(f"int64_t {identifier(f'{name}_stride{axis}', taken)}", "i64", k, "stride", axis)
    elif t.dtype.is_complex:
        part = memory_type(t.dtype.real)
        yield Piece(f"{c} {identifier(f'{name}_real', taken)}", part, k, "real")
        yield Piece(f"{c} {identifier(f'{name}_imag', taken)}", part, k, "imag")
    else:
        # the bits of an f16 come in an integer register, as those of a bf16 are anyway
        yield Piece(f"{c} {name}", "i16" if t.dtype.name == "f16" else memory_type(t.dtype), k, "value")
