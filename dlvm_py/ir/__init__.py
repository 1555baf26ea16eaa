"""What a program is: types, values, instructions, blocks, functions, modules and the op rows.

Only the types are imported with the package: who calls cached code needs them, and no instructions and ops.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dlvm_py.ir.types import (
    BF16,
    BOOL,
    C64,
    C128,
    CELL,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    OWN_DTYPES,
    U8,
    U16,
    U32,
    U64,
    VOID,
    Alias,
    ArrayType,
    BoxType,
    DType,
    EnumType,
    FunctionType,
    NominalType,
    PointerType,
    StackType,
    StructType,
    TensorType,
    TupleType,
    Type,
    dtype_of,
    is_array,
    is_bfloat16,
    is_scalar,
    scalar,
)

if TYPE_CHECKING:
    from dlvm_py.ir.builder import Builder, Expr, literal
    from dlvm_py.ir.function import AdjointRequest, Block, Extern, Function, Module
    from dlvm_py.ir.op import Kind, Op
    from dlvm_py.ir.ops import OPS
    from dlvm_py.ir.printer import print_function, print_module
    from dlvm_py.ir.value import (
        NULL,
        UNDEFINED,
        BlockArg,
        FunctionName,
        Instruction,
        Literal,
        Target,
        Value,
        Variable,
    )

# what a name is looked for in; all but the types come with the first name that is asked for
_PARTS = ("value", "op", "function", "ops", "builder", "printer")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for part in _PARTS:
            module = import_module(f"{__name__}.{part}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BF16", "BOOL", "C64", "C128", "CELL", "DTYPES", "F16", "F32", "F64", "I8", "I16", "I32", "I64", "NULL",
    "OPS", "OWN_DTYPES", "U8", "U16", "U32", "U64", "UNDEFINED", "VOID",
    "AdjointRequest", "Alias", "ArrayType", "BoxType", "EnumType", "Extern", "NominalType", "StructType", "Variable",
    "Block", "BlockArg", "Builder", "DType", "Expr", "Function", "FunctionName", "FunctionType", "Instruction", "Kind",
    "Literal", "Module", "Op", "PointerType", "StackType", "Target", "TensorType", "TupleType", "Type",
    "Value", "dtype_of", "is_array", "is_bfloat16", "is_scalar", "literal", "print_function", "print_module", "scalar",
]  # fmt: skip
