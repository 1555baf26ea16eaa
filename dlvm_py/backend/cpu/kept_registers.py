"""Calls of what is rare, by functions that keep all registers: the usual way does without memory.

    define internal preserve_allcc <4 x double> @rare(double %x) noinline cold

    %r = call preserve_allcc <4 x double> @rare(double %x)
    %y = extractelement <4 x double> %r, i32 0

Only where the module has AVX2 (`ModuleText.permutes`). What such a function gives fills 256 bits. LLVM would clear the
upper halves of all registers (vzeroupper) where it returns less, behind the loads that bring them back, and so what
its caller has there; a result that fills one tells it that they are in use.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.lanes import shuffled
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.values import V, element_of, in_lanes, lanes_of

KEEPS_REGISTERS = "preserve_allcc"
_BITS = 256
_SIZES = {"double": 64, "float": 32, "i32": 32}


def kept_type(f: FunctionText, type: str) -> str:
    """The type in which a function gives a value of `type`, one of a number or a vector."""
    element = element_of(type)
    whole = _BITS // _SIZES[element]
    return in_lanes(element, whole) if f.module.permutes and lanes_of(type) < whole else type


def as_kept(f: FunctionText, v: V) -> V:
    """A value in that type."""
    type, count = kept_type(f, v.type), lanes_of(v.type)
    if type == v.type:
        return v
    if count == 1:
        return f.value(type, f"insertelement {type} poison, {v.type} {v.ref}, i32 0")
    return shuffled(f, v, V(v.type, "poison"), [k % count for k in range(lanes_of(type))])


def call_keeping(f: FunctionText, symbol: str, type: str, args: Sequence[V]) -> V:
    """Call such a function, which gives a value of `type`."""
    returned, keeps = kept_type(f, type), f"{KEEPS_REGISTERS} " if f.module.permutes else ""
    found = f.value(returned, f"call {keeps}{returned} @{symbol}({', '.join(f'{a.type} {a.ref}' for a in args)})")
    if returned == type:
        return found
    if lanes_of(type) == 1:
        return f.value(type, f"extractelement {returned} {found.ref}, i32 0")
    return shuffled(f, found, V(returned, "poison"), range(lanes_of(type)))
