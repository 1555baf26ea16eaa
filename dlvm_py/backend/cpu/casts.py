"""dataTypeCast: NumPy's astype between any two dtypes.

A float outside the range of an integer dtype gives what NumPy's array loops give on x86-64: conversions to 8, 16
and 32 bits go through i32, to 64 bits through i64, out of range is the smallest number of these, and what is
left is cut. An unsigned number of 32 or 64 bits is converted in two halves. (NumPy's u32 is not of one mind: what
its vector loop leaves over for the end of an array, and f16, goes through i64.)
"""

from __future__ import annotations

from dlvm_py.backend.cpu.code import Code
from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.floating import rounded, widened
from dlvm_py.backend.cpu.values import V, float_constant
from dlvm_py.ir import F32, DType


def cast(c: Code, x: V, source: DType, to: DType) -> V:
    """The value x of dtype `source` as dtype `to`."""
    if source is to:
        return x
    if to.kind == "b":
        return truth(c, x, source)
    if source.is_complex:
        return _from_complex(c, x, source, to)
    if to.is_complex:
        part = cast(c, x, source, to.real)
        return c.pack(part, float_constant(part.type, 0.0))
    if source.is_float:
        return _float_to_float(c, x, to) if to.is_float else _float_to_integer(c, x, to)
    if to.is_float:
        return _integer_to_float(c, x, source, to)
    if to.bits > source.bits or source.kind == "b":
        return c.cast("sext" if source.kind == "i" else "zext", x, scalar_type(to))
    return c.cast("trunc", x, scalar_type(to)) if to.bits < source.bits else x


def truth(c: Code, x: V, source: DType) -> V:
    """Whether x is not zero; NaN is not."""
    if source.is_complex:
        part = scalar_type(source.real)
        return c.any(*(truth(c, c.extract(x, k, part), source.real) for k in (0, 1)))
    if source.is_float:
        if source.is_narrow:
            x = widened(c, x)
        return c.fcmp("une", x, float_constant(x.type, 0.0))
    return c.icmp("ne", x, V(x.type, "0"))


def _from_complex(c: Code, x: V, source: DType, to: DType) -> V:
    part = scalar_type(source.real)
    if not to.is_complex:
        return cast(c, c.extract(x, 0, part), source.real, to)
    return c.pack(*(cast(c, c.extract(x, k, part), source.real, to.real) for k in (0, 1)))


def _integer_to_float(c: Code, x: V, source: DType, to: DType) -> V:
    how = "sitofp" if source.kind == "i" else "uitofp"
    if to.is_narrow:  # NumPy goes through float
        return rounded(c, c.cast(how, x, "float"), scalar_type(to))
    return c.cast(how, x, scalar_type(to))


def _float_to_float(c: Code, x: V, to: DType) -> V:
    width = {"half": 16, "i16": 16, "float": 32, "double": 64}
    if x.type == "i16":
        return widened(c, x) if to.name == "f32" else _float_to_float(c, widened(c, x), to)
    if to.name == "bf16":  # ml_dtypes goes through float
        return rounded(c, _float_to_float(c, x, F32) if x.type != "float" else x, "i16")
    if to.bits > width[x.type]:
        return c.cast("fpext", x, scalar_type(to))
    if x.type == "double" and to.bits == 16:
        return c.cast("fptrunc", _round_to_odd(c, x), "half")
    return c.cast("fptrunc", x, scalar_type(to))


def _round_to_odd(c: Code, x: V) -> V:
    """A double rounded to float so that a second rounding to half gives the correctly rounded half.

    Truncate, and set the last bit if anything was lost (Boldo and Melquiond 2008); LLVM's own conversion
    would call a function of compiler-rt.
    """
    near = c.cast("fptrunc", x, "float")
    back = c.cast("fpext", near, "double")
    lost = c.fcmp("one", back, x)
    bits = c.cast("bitcast", near, "i32")
    fabs = [c.intrinsic("llvm.fabs.f64", "double", v) for v in (back, x)]
    truncated = c.op("sub", bits, c.cast("zext", c.fcmp("ogt", *fabs), "i32"))
    odd = c.op("or", truncated, V("i32", "1"))
    return c.cast("bitcast", c.select(lost, odd, bits), "float")


def _float_to_integer(c: Code, x: V, to: DType) -> V:
    target = scalar_type(to)
    from_half = x.type == "half"
    if from_half or x.type == "i16":
        x = widened(c, x)
    if to.name == "u64" or (to.name == "u32" and not from_half):
        # below half the range as a signed number, else with the half taken off and put back as the sign bit
        border = float_constant(x.type, 2.0 ** (to.bits - 1))
        large = c.fcmp("oge", x, border)
        low = _guarded(c, c.select(large, c.fop("fsub", x, border), x), to.bits)
        return c.select(large, c.op("xor", low, V(target, str(-(2 ** (to.bits - 1))))), low)
    found = _guarded(c, x, 64 if to.bits == 64 or to.name == "u32" else 32)
    return found if found.type == target else c.cast("trunc", found, target)


def _guarded(c: Code, x: V, bits: int) -> V:
    """fptosi, with the smallest number where x is NaN or does not fit."""
    low = -(2.0 ** (bits - 1))
    if bits == 32 and x.type == "double":
        above_low = c.fcmp("ogt", x, float_constant(x.type, low - 1.0))
    else:
        above_low = c.fcmp("oge", x, float_constant(x.type, low))
    fits = c.both(above_low, c.fcmp("olt", x, float_constant(x.type, -low)))
    safe = c.select(fits, x, float_constant(x.type, 0.0))
    return c.select(fits, c.cast("fptosi", safe, f"i{bits}"), V(f"i{bits}", str(-(2 ** (bits - 1)))))
