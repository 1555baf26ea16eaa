"""Numbers as integers in the same order: NaN behind everything.

A float's bits, with those behind the sign turned over where it is negative, are in its order as an integer. -0.0 comes
right before 0.0, and NaN without its sign behind infinity; where zeros are to be equal, and all NaN, they get one
integer each (`places_alone`), from which the number does not come back.
"""

from __future__ import annotations

import math

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.floating import widened
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.values import V, float_constant
from dlvm_py.ir import DType

NEGATIVE_ZERO = -1  # the key of -0.0; that of 0.0 is 0


def key_type(dtype: DType, places_alone: bool = False) -> str:
    """The integers that keys of this dtype are sorted as; beside their places all have 64 bits."""
    return "i64" if places_alone or dtype.itemsize == 8 else "i32"


def key_of(f: FunctionText, dtype: DType, x: V, places_alone: bool = False) -> V:
    """The key of a register value; places_alone: of numbers that are equal the same one."""
    wide = key_type(dtype, places_alone)
    if dtype.kind == "b":
        return f.cast("zext", x, wide)
    if dtype.kind != "f":
        if x.type == wide:
            return f.op("xor", x, _lowest(wide)) if dtype.kind == "u" else x
        return f.cast("zext" if dtype.kind == "u" else "sext", x, wide)
    bits = f"i{dtype.itemsize * 8}"
    raw = x if x.type == bits else f.cast("bitcast", x, bits)
    number = widened(f, x) if dtype.is_narrow else x
    is_nan = f.fcmp("uno", number, number)
    if places_alone:
        key = _turned(f, raw)
        key = f.select(f.icmp("eq", key, V(bits, str(NEGATIVE_ZERO))), V(bits, "0"), key)
        key = f.select(is_nan, V(bits, str(_infinity(dtype) + 1)), key)
    else:
        key = _turned(f, f.select(is_nan, f.op("and", raw, _but_sign(bits)), raw))
    return key if bits == wide else f.cast("sext", key, wide)


def number_of(f: FunctionText, dtype: DType, key: V) -> V:
    """The register value whose key this is."""
    if dtype.kind == "b":
        return f.icmp("ne", key, V(key.type, "0"))
    bits = f"i{dtype.itemsize * 8}"
    if dtype.kind == "u" and bits == key.type:
        return f.op("xor", key, _lowest(bits))
    if bits != key.type:
        key = f.cast("trunc", key, bits)
    if dtype.kind != "f":
        return key
    raw, type = _turned(f, key), scalar_type(dtype)
    return raw if type == bits else f.cast("bitcast", raw, type)


def below(f: FunctionText, x: V) -> V:
    """The largest number that is less than x: NaN below all of them; of NaN, which is behind all, infinity."""
    bits = "i64" if x.type == "double" else "i32"
    number = f.cast("bitcast", x, bits)
    step = f.select(f.fcmp("olt", x, float_constant(x.type, 0.0)), V(bits, "1"), V(bits, "-1"))
    near = f.cast("bitcast", f.op("add", number, step), x.type)
    smallest = f.cast("bitcast", V(bits, str(1 - 2 ** (int(bits[1:]) - 1))), x.type)  # and negative
    near = f.select(f.fcmp("oeq", x, float_constant(x.type, 0.0)), smallest, near)
    return f.select(f.fcmp("uno", x, x), float_constant(x.type, math.inf), near)


def _turned(f: FunctionText, raw: V) -> V:
    """All bits but the sign turned over where it is set: what undoes itself."""
    sign = f.op("ashr", raw, V(raw.type, str(int(raw.type[1:]) - 1)))
    return f.op("xor", raw, f.op("and", sign, _but_sign(raw.type)))


def _but_sign(bits: str) -> V:
    return V(bits, str(2 ** (int(bits[1:]) - 1) - 1))


def _lowest(bits: str) -> V:
    return V(bits, str(-(2 ** (int(bits[1:]) - 1))))


def _infinity(dtype: DType) -> int:
    """The bits of infinity."""
    if dtype.name == "bf16":
        return 0x7F80
    return {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}[dtype.itemsize]
