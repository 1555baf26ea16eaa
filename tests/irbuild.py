"""Small IR programs for tests: typed parameters, and derivative rules run through the interpreter."""

import numpy as np

from dlvm_py.ir import (
    I64,
    VOID,
    Builder,
    Expr,
    Function,
    Instruction,
    Literal,
    Module,
    PointerType,
    TensorType,
    TupleType,
    dtype_of,
    scalar,
)
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify

INDEX = scalar(I64)


def pointer(dtype, *shape, layout="C"):
    """The type of a pointer; None for an unknown extent."""
    return PointerType(TensorType(shape, dtype), layout)


def new_function(*params, result=VOID, name="f", module=None):
    """(module, function, builder at the end of the entry block, parameters)."""
    module = module or Module("test")
    f = module.add(Function(name, result))
    entry = f.new_block("entry")
    values = [entry.add_arg(t, f"p{k}") for k, t in enumerate(params)]
    return module, f, Builder(f, entry), values


def parameter_type(argument, known=False):
    """The parameter type of a NumPy argument: unknown extents, except those that are 1; or all known."""
    array = np.asarray(argument)
    dtype = dtype_of(array.dtype)
    if not array.ndim:
        return scalar(dtype)
    shape = tuple(n if known or n == 1 else None for n in array.shape)
    return PointerType(TensorType(shape, dtype), "C" if array.flags.c_contiguous else "S")


def evaluate(rule, *arguments, known=False):
    """Run `rule`, written on Exprs, as an IR program: its results as NumPy values.

    Arrays are loaded from memory and array results stored to fresh memory; their extents are `known` or not. A
    result that is None or a plain number, as rules may give, stands for itself.
    """
    module, f, b, params = new_function(*(parameter_type(a, known) for a in arguments))
    values = [b.emit("load", p) if isinstance(p.type, PointerType) else p for p in params]
    results = rule(*(Expr(b, v) for v in values))
    alone = not isinstance(results, tuple | list)
    results = [results] if alone else list(results)
    returned = [_stored(b, _value(r)) for r in results if isinstance(r, Expr | Instruction | Literal)]
    if not returned:
        return results[0] if alone else results
    f.result = TupleType(tuple(v.type for v in returned))
    b.ret(b.emit("tuple", *returned))
    verify(module)
    found = iter(run(module, "f", [np.asarray(a) for a in arguments]))
    out = [next(found) if isinstance(r, Expr | Instruction | Literal) else r for r in results]
    return out[0] if alone else out


def _value(result):
    return result.value if isinstance(result, Expr) else result


def _stored(b, value):
    if not value.type.shape:
        return value
    shape = enumerate(value.type.shape)
    extents = [Literal(INDEX, n) if n is not None else b.emit("extent", value, at=k) for k, n in shape]
    memory = b.emit("allocateHeap", *extents, dtype=value.type.dtype.name)
    b.emit("store", value, memory)
    return memory
