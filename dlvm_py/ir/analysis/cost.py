"""What an element of a tree, or a scalar, costs, in tenths of nanoseconds: the model behind the grain of threads.

Coarse on purpose: memory that streams through the caches, vectorised arithmetic, and the few ops that take much more. A
tree that costs less than it says runs on threads a little too early, which the threads themselves notice (threads.ll).
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import TensorType, is_array
from dlvm_py.ir.value import Instruction, Value

# of 8 bytes of memory; of an element read at a computed place
STREAM, GATHER = 2, 10
# of an instruction with scalars, one of several that a core has under way; and of those that take longer
SCALAR, MEMORY = 2, {"load": 4, "store": 4, "allocateHeap": 400}
_MEDIUM = dict.fromkeys(("divide", "sqrt", "rsqrt", "floorDivide", "truncateDivide", "modulo"), 8)
_LONG = dict.fromkeys(
    ("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tanh", "cbrt", "erf"), 20
)
_LONGER = dict.fromkeys(
    ("tan", "sinh", "cosh", "asinh", "acosh", "atanh", "asin", "acos", "atan", "atan2", "hypot", "erfc"), 40
)
_LONGEST = dict.fromkeys(("power", "gamma", "lgamma", "digamma", "trigamma", "polygamma"), 80)
_OPS = _MEDIUM | _LONG | _LONGER | _LONGEST


def is_function(i: Instruction) -> bool:
    """Whether an operation is a function of many steps, whose coefficients fill registers."""
    return _OPS.get(i.op.name, 1) >= _LONG["exp"]


def is_slow(i: Instruction) -> bool:
    """Whether an operation takes longer, even as a vector, than to read its operands at places that lie apart."""
    return i.op.name in _OPS


def element_cost(root: Value, held: Callable[[Instruction], Value | None] = lambda load: None) -> int:
    """The cost of computing one element of a tree, and of storing it.

    held: says of a load what expression stands for it, where there is one; None where memory is read.
    """
    assert isinstance(root.type, TensorType)
    total, seen, todo = _moved(root.type), set(), [root]
    while todo:
        value = todo.pop()
        if value in seen or not isinstance(value, Instruction) or not is_array(value.type):
            continue
        seen.add(value)
        if value.op.name == "load":
            stored = held(value)
            if stored is not None:
                todo.append(stored)
                continue
            total += _moved(value.type)  # type: ignore[arg-type]
            continue
        total += step_cost(value)
        todo.extend(value.operands)
    return total


def step_cost(i: Instruction) -> int:
    """The cost of one step of a tree, for an element that it computes."""
    if i.op.kind is Kind.ELEMENTWISE:
        return _OPS.get(i.op.name, 1) * (2 if i.type.dtype.is_complex else 1)  # type: ignore[attr-defined]
    return GATHER if i.op.name == "gather" else 0


def scalar_cost(i: Instruction) -> int:
    """The cost of an instruction with scalars."""
    if i.op.kind is Kind.ELEMENTWISE:
        return SCALAR * _OPS.get(i.op.name, 1)
    return MEMORY.get(i.op.name, SCALAR)


def _moved(type: TensorType) -> int:
    return max(1, STREAM * type.dtype.itemsize // 8)
