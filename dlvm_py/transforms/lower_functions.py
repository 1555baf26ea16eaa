"""Functions as values become calls of functions that are known, and combinations by a function become loops.

    func @twice: ((f64) -> f64, f64) -> f64 {           func @twice_sin: (f64) -> f64 {
    'entry(%f: (f64) -> f64, %x: f64):                  'entry(%x: f64):
        %y = apply %f(%x: f64) -> f64                       %y = apply @sin(%x: f64) -> f64
        ...                                                 ...
    }                                           =>      }
        %r = apply @twice(@sin: (f64) -> f64,               %r = apply @twice_sin(%x: f64) -> f64
            %x: f64) -> f64

        %s = reduce %a: <4 x f64> by @f: ...                branch 'loop(0: i64, 0.0: f64)
            init 0.0: f64 along 0                       'loop(%k: i64, %s: f64): ... then 'body() else 'after()
                                                        'body():
                                                            %e = load (elementPointer of the array at %k)
                                                            %n = apply @f(%s: f64, %e: f64) -> f64
                                                            branch 'loop(%k + 1, %n: f64)

Three steps, until nothing changes:

1. an argument of a block to which all branches pass the same function is that function;
2. a call that passes a function gets a copy of the callee for it, one for each combination of functions, so that a
   recursive callee needs one copy too;
3. `apply %f` of a known function is a call of it.

Then every `reduce`, `scan` and `reduceWindow` by a known function becomes loops over memory. The array is stored before
them, so it may cross blocks. What is left has a function that only a run decides: `check` says so. On a whole module:
raw and optimizable stages, before arrays are lowered to memory and before derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.errors import PassError
from dlvm_py.ir import (
    OPS,
    Builder,
    Expr,
    Function,
    FunctionName,
    FunctionType,
    Instruction,
    Kind,
    Literal,
    Module,
    Type,
    Value,
    literal,
)
from dlvm_py.ir.analysis import uses
from dlvm_py.ir.analysis.calls import reachable
from dlvm_py.ir.ops.aggregates import keys_of
from dlvm_py.ir.ops.arrange import indices
from dlvm_py.ir.ops.window import PADDINGS, window_counts
from dlvm_py.ir.value import OpName
from dlvm_py.transforms.differentiate.clone import clone
from dlvm_py.transforms.loop_nests import at, close, expand, nest, stored
from dlvm_py.transforms.simplify_cfg import drop_arguments, incoming_values


def run(module: Module) -> bool:
    """Lower the function values of `module`; whether anything changed."""
    copies: dict[tuple[str, tuple[str | None, ...]], str] = {}
    changed = False
    pending = [f for f in module.functions.values() if f.blocks]
    while pending:
        function = pending.pop(0)
        while _constant_arguments(function) | _specialise(module, function, copies, pending) | _direct(function):
            changed = True
        changed |= _combinations(function)
    return changed


def check(module: Module, name: str) -> None:
    """PassError if a function value is left in what function `name` reaches."""
    for f in reachable(module, name):
        for block in f.blocks:
            for v in (*block.args, *block.instructions):
                kind = v.op.kind if isinstance(v, Instruction) else None
                if kind is Kind.HIGHER_ORDER or _holds_function(v.type):
                    what = f"{v.op.name}, " if isinstance(v, Instruction) else ""
                    raise PassError(
                        f"@{f.name}: {what}a value of type {v.type}: native code and derivatives need functions that "
                        "are known from the text of the program: pass them by name, as in apply @g(@f: (f32) -> f32)"
                    )


def _holds_function(t: Type) -> bool:
    elements = getattr(t, "elements", ())
    return isinstance(t, FunctionType) or any(map(_holds_function, elements))


def _is_bundle(i: Instruction) -> bool:
    return i.op is OPS["tuple"] and _holds_function(i.type)


def _named(value: Value) -> FunctionName | None:
    """The function that a value is known to be."""
    return value.value if isinstance(value, Literal) and isinstance(value.value, FunctionName) else None


# -- which function it is ----------------------------------------------------------------------------------


def _constant_arguments(function: Function) -> bool:
    """Arguments of blocks that are one function on every edge, and elements of tuples."""
    incoming = incoming_values(function)
    found: dict[Value, Value] = {}
    for block in function.blocks[1:]:
        for arg in block.args:
            values = [v for v in incoming.get(arg, ()) if v is not arg]
            names = {_named(v) for v in values}
            if isinstance(arg.type, FunctionType) and len(names) == 1 and None not in names:
                found[arg] = values[0]
    for i in function.instructions():
        source = i.operands[0] if i.op is OPS["extract"] and isinstance(i.attrs["at"], int) else None
        if isinstance(source, Instruction) and source.op is OPS["tuple"] and isinstance(i.type, FunctionType):
            element: Value = source
            for key in keys_of(i.attrs):
                if not isinstance(element, Instruction) or element.op is not OPS["tuple"]:
                    break
                element = element.operands[int(key)]
            else:
                found[i] = element
    if not found:
        return False
    function.substitute(found)
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i not in found]
    users = uses(function)
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if users[i] or not _is_bundle(i)]
    drop_arguments(function, {a for a in found if not isinstance(a, Instruction)})  # type: ignore[misc]
    return True


def _specialise(
    module: Module,
    function: Function,
    copies: dict[tuple[str, tuple[str | None, ...]], str],
    pending: list[Function],
) -> bool:
    """Calls that pass known functions call copies of their callees made for these."""
    changed = False
    for i in function.instructions():
        callee = module.functions.get(i.attrs["callee"]) if i.op is OPS["apply"] else None
        if callee is None or not callee.blocks:
            continue
        names = tuple(map(_named, i.operands))
        if not any(names):
            continue
        key = (callee.name, names)
        if key not in copies:
            copy = clone(callee, "_".join([callee.name, *filter(None, names)]))
            copy.attributes = set(callee.attributes)
            known = {p: v for p, v, n in zip(copy.params, i.operands, names, strict=True) if n is not None}
            copy.substitute(dict(known))
            copy.entry.args = [p for p in copy.params if p not in known]
            copies[key] = module.add(copy).name
            pending.append(copy)
        i.attrs = {**i.attrs, "callee": copies[key]}
        i.operands = [v for v, n in zip(i.operands, names, strict=True) if n is None]
        changed = True
    return changed


def _direct(function: Function) -> bool:
    """`apply %f` of a known function becomes a call."""
    changed = False
    for i in function.instructions():
        name = _named(i.operands[0]) if i.op is OPS["applyValue"] else None
        if name is not None:
            i.op, i.operands, i.attrs = OPS["apply"], i.operands[1:], {**i.attrs, "callee": str(name)}
            changed = True
    return changed


# -- loops -------------------------------------------------------------------------------------------------


def _combinations(function: Function) -> bool:
    """Loops in the place of reductions and scans by a known function."""
    found = [i for i in function.instructions() if i.op.name in _LOWER and isinstance(i.operands[1], Literal)]
    return expand(function, found, lambda b, i: _LOWER[i.op.name](b, i))


def _call(b: Builder, i: Instruction, last: Value, x: Value) -> Value:
    combiner = i.operands[1]
    assert isinstance(combiner, Literal) and isinstance(combiner.type, FunctionType)
    if isinstance(combiner.value, OpName):
        return b.emit(combiner.value, last, x)
    return b.emit("apply", last, x, callee=str(combiner.value), result=combiner.type.result)


def _reduce(b: Builder, i: Instruction) -> Value:
    x, _, init = i.operands
    memory, extents = stored(b, x)
    axes = sorted(i.attrs["axes"])
    kept = [k for k in range(len(extents)) if k not in axes]
    result = _result(b, i, [extents[k] for k in kept])
    outer = nest(b, [extents[k] for k in kept])
    inner = nest(b, [extents[k] for k in axes], [init])
    place = dict(zip((*kept, *axes), (loop.index for loop in (*outer, *inner)), strict=True))
    last = inner[-1].carried[0] if inner else init
    element = b.emit("load", at(b, memory, [place[k] for k in range(len(extents))]))
    (total,) = close(inner, _call(b, i, last, element))
    if result is None:
        return total
    b.emit("store", total, at(b, result, [loop.index for loop in outer]))
    close(outer)
    return b.emit("load", result)


def _result(b: Builder, i: Instruction, extents: list[Value]) -> Value | None:
    """Memory for an array result; None for a scalar one."""
    return b.emit("allocateHeap", *extents, dtype=i.type.dtype.name) if extents else None  # type: ignore[attr-defined]


def _scan(b: Builder, i: Instruction) -> Value:
    memory, extents = stored(b, i.operands[0])
    for axis in i.attrs["axes"]:
        others = [k for k in range(len(extents)) if k != axis]
        outer = nest(b, [extents[k] for k in others])
        (inner,) = nest(b, [b.emit("subtract", extents[axis], literal(1))])
        place = dict(zip((*others, axis), (loop.index for loop in (*outer, inner)), strict=True))
        last = at(b, memory, [place[k] for k in range(len(extents))])
        place[axis] = b.emit("add", inner.index, literal(1))
        here = at(b, memory, [place[k] for k in range(len(extents))])
        b.emit("store", _call(b, i, b.emit("load", last), b.emit("load", here)), here)
        close([*outer, inner])
    return b.emit("load", memory)


def _reduce_window(b: Builder, i: Instruction) -> Value:
    x, _, init = i.operands
    memory, extents = stored(b, x)
    counts = [
        v.value if isinstance(v, Expr) else v
        for v in indices(*window_counts([_number(b, n) for n in extents], i.attrs))
    ]
    result = _result(b, i, counts)
    assert result is not None
    outer = nest(b, counts)
    inner = nest(b, [literal(n) for n in i.attrs["dims"]], [init])
    places = []
    inside: Value | None = None
    for o, w, n, step, size in zip(outer, inner, extents, i.attrs["strides"], i.attrs["dims"], strict=True):
        low, _ = PADDINGS[i.attrs["padding"]](size)
        first = b.emit("subtract", b.emit("multiply", o.index, literal(step)), literal(low))
        places.append(b.emit("add", first, w.index))
        for flag in (b.emit("lessThanOrEqual", literal(0), places[-1]), b.emit("lessThan", places[-1], n)):
            inside = flag if inside is None else b.emit("and", inside, flag)
    assert inside is not None and b.block is not None
    last = inner[-1].carried[0]
    taken = b.function.new_block("inside", after=b.block)
    join = b.function.new_block("combined", after=taken)
    total = join.add_arg(last.type)
    b.conditional(inside, taken, [], join, [last])
    b.at_end(taken)
    b.branch(join, [_call(b, i, last, b.emit("load", at(b, memory, places)))])
    b.at_end(join)
    (found,) = close(inner, total)
    b.emit("store", found, at(b, result, [loop.index for loop in outer]))
    close(outer)
    return b.emit("load", result)


def _number(b: Builder, n: Value) -> Any:
    """An extent as a number if it is one, else as an expression."""
    return n.value if isinstance(n, Literal) else b.expr(n)


_LOWER: dict[str, Callable[[Builder, Instruction], Value]] = {
    "reduceBy": _reduce,
    "scanBy": _scan,
    "reduceWindowBy": _reduce_window,
}
