"""Layouts of the native calling convention (docs/architecture.md) and the LLVM types of IR types."""

from __future__ import annotations

from dlvm_py.errors import PassError
from dlvm_py.ir import DType, PointerType, TensorType, Type

# byte offsets in the context
ALLOCATIONS, THREAD_STATE, FUEL, SITE, OPERANDS = 0, 8, 16, 24, 32
MAX_OPERANDS = 4
# values of `site` that are no index
SITE_RAISED, SITE_MEMORY = -1, -2
# byte offsets in a header
REFCOUNT, DATA, NBYTES, PYOBJECT = 0, 8, 16, 24
# symbols of the memory of variables of the module begin so; BORROWED references keep it from being freed
VARIABLE = "dl.variable."
BORROWED = 1 << 62

_FLOAT = {16: "half", 32: "float", 64: "double"}


def scalar_type(dtype: DType) -> str:
    """The LLVM type of a value in a register (bool: i1)."""
    if dtype.kind == "b":
        return "i1"
    if dtype.kind == "f":
        # bf16 is carried as its bits: in registers LLVM would make floats of bfloats, and call compiler-rt to go back
        return "i16" if dtype.name == "bf16" else _FLOAT[dtype.bits]
    if dtype.kind == "c":
        part = _FLOAT[dtype.bits // 2]
        return f"{{ {part}, {part} }}"
    return f"i{dtype.bits}"


def memory_type(dtype: DType) -> str:
    """The LLVM type of an element in memory, of a parameter and of a result (bool: i8)."""
    return "i8" if dtype.kind == "b" else scalar_type(dtype)


def flat_types(type: Type) -> list[str]:
    """The LLVM types that a scalar or pointer is flattened to."""
    if isinstance(type, TensorType) and not type.shape:
        return [memory_type(type.dtype)]
    if isinstance(type, PointerType):
        strides = type.rank if type.layout == "S" else 0
        return ["ptr", "ptr"] + ["i64"] * (type.rank + strides)
    raise PassError(f"a value of type {type} has no native form")
