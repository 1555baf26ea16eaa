"""What `[extern]` functions are known: the functions of C's math library whose meaning is an op of the IR.

    [extern]
    func @sin: (f64) -> f64             the op `sin`; of f32 it is @sinf, as in C

A call of one is the op (transforms/expand_builtins.py), so it needs no linking and has the derivative of the op. Any
other extern function can be declared, called and verified; the interpreter runs it if it is given one from Python,
native code does not link it.
"""

from __future__ import annotations

from dlvm_py.ir.function import Extern, Function
from dlvm_py.ir.op import Op
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.types import F32, F64, FunctionType, scalar

# C's name where it is not the op's
_RENAMED = {"fabs": "abs", "trunc": "truncate", "tgamma": "gamma", "pow": "power"}
_SAME = (
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p sqrt cbrt erf "
    "erfc lgamma floor ceil rint round atan2 hypot copysign"
)
C_MATH: dict[str, str] = _RENAMED | {name: name for name in _SAME.split()}
_TWO_OPERANDS = frozenset(("pow", "atan2", "hypot", "copysign"))


def signature(name: str) -> FunctionType | None:
    """The type that C gives a function of its math library, None for other names."""
    for dtype, plain in ((F64, name), (F32, name.removesuffix("f"))):
        if plain in C_MATH and (dtype is F64 or plain != name):
            return FunctionType((scalar(dtype),) * (2 if plain in _TWO_OPERANDS else 1), scalar(dtype))
    return None


def known(function: Function) -> Op | None:
    """The op that an extern function is, None for a function with a body or an unknown one."""
    if not isinstance(function.declaration, Extern) or function.type != signature(function.name):
        return None
    name = function.name if function.name in C_MATH else function.name.removesuffix("f")
    return OPS[C_MATH[name]]


def why_unknown(function: Function) -> str:
    """Why a call of a function without a body cannot be run, as a sentence."""
    wanted = signature(function.name)
    if wanted is not None and function.type != wanted:
        return f"@{function.name} is declared as {function.type}; C's function of this name is {wanted}"
    return f"@{function.name} is only declared: it has no body, and is no function of C's math library"
