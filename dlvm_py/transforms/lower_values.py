"""Arrays as values become arrays in memory: what DLVM's programs pass by value, the pipeline passes by pointer.

    func @f: (<2 x f32>) -> <2 x f32> {             func @f: (*<2 x f32>) -> *<2 x f32> {
    'entry(%x: <2 x f32>):                          'entry(%x: *<2 x f32>):
        %y = exp %x: <2 x f32>              =>          %x_0 = load %x: *<2 x f32>
        return %y: <2 x f32>                            %y = exp %x_0: <2 x f32>
    }                                                   %0.2 = allocateHeap f32 count (2: i64)
                                                        store %y: <2 x f32> to %0.2: *<2 x f32>
                                                        return %0.2: *<2 x f32>
                                                    }

Parameters, results, arguments of blocks and of calls; literals of elements and `extract` and `insert` of tensors go by
way of memory, and `literal 2: f32` is 2. `run(module)` does this to all functions, so that calls fit. `restore`
is the way back for the signature of one function. Raw and optimizable stages; scratch memory goes away again
where redundant_load and dce can see through it.
"""

from __future__ import annotations

from dlvm_py.ir import (
    OPS,
    VOID,
    Builder,
    Function,
    FunctionType,
    Instruction,
    Module,
    PointerType,
    TensorType,
    TupleType,
    Type,
    Value,
    is_array,
    literal,
)
from dlvm_py.ir.ops.aggregates import keys_of
from dlvm_py.transforms import expand_builtins, lower_aggregates, lower_batches, lower_functions
from dlvm_py.transforms.differentiate.demote import demote
from dlvm_py.transforms.lower_aggregates import spilled
from dlvm_py.transforms.substitution import substitute


def run(module: Module) -> bool:
    """Lower the array values of all functions of `module`; whether anything changed."""
    before = [str(f.type) for f in module.functions.values()]
    changed = [lower_functions.run(module), lower_aggregates.run(module)]
    changed += [lower_batches.run(f) for f in module.functions.values()]
    changed += [lower(f, module) for f in module.functions.values()]
    return any(changed) or before != [str(f.type) for f in module.functions.values()]


def lower(function: Function, module: Module) -> bool:
    """Lower one function of a module; the functions that it calls must be lowered too."""
    if not function.blocks:
        if function.signature is not None:
            params = tuple(map(lowered, function.signature.params))
            function.signature = FunctionType(params, lowered(function.signature.result))
            function.result = function.signature.result
        return False
    changed = expand_builtins.run(function, module)
    for i in list(function.instructions()):
        changed |= _LOWER[i.op.name](function, i) if i.op.name in _LOWER else False
    changed |= function.result != lowered(function.result)
    function.result = lowered(function.result)
    crossing = any(is_array(a.type) for block in function.blocks for a in block.args)
    demote(function)
    return changed or crossing


def lowered(t: Type) -> Type:
    """The type of a value where it is passed on."""
    if isinstance(t, TupleType):
        return TupleType(tuple(map(lowered, t.elements)))
    return PointerType(t) if isinstance(t, TensorType) and t.shape else t


def restore(function: Function, type: FunctionType) -> None:
    """Give a lowered function the signature `type`, by values again: stores at entry, loads before returns."""
    b = Builder(function)
    b.block, b.position = function.entry, 0
    mapping: dict[Value, Value] = {}
    stores: set[Value] = set()
    for p, t in zip(function.params, type.params, strict=True):
        if p.type != t:
            pointer, p.type = p.type, t
            memory = spilled(b, p)
            mapping[p] = memory if memory.type == pointer else b.emit("pointerCast", memory, to=pointer)
            assert b.position is not None
            stores.update(function.entry.instructions[: b.position])
    for i in function.instructions():
        if i not in stores:
            i.substitute(mapping)
    for i in [i for i in function.instructions() if i.op is OPS["return"] and i.operands]:
        b.before(i).loc = i.loc
        elements = _elements(b, i.operands[0])
        wanted = type.result.elements if isinstance(type.result, TupleType) else (type.result,)
        elements = [b.emit("load", v) if v.type != t else v for v, t in zip(elements, wanted, strict=True)]
        i.operands = [b.emit("tuple", *elements) if isinstance(type.result, TupleType) else elements[0]]
    function.result = type.result


# -- by op -----------------------------------------------------------------------------------------------


def _replace(function: Function, i: Instruction, value: Value) -> bool:
    """Let `value`, which stands before `i`, take its place."""
    if isinstance(value, Instruction):
        value.name = value.name or i.name
    substitute(function.blocks, {i: value})
    assert i.block is not None
    i.block.instructions.remove(i)
    return True


def _elements(b: Builder, value: Value) -> list[Value]:
    """The elements of a tuple, or the one value."""
    if not isinstance(value.type, TupleType):
        return [value]
    if isinstance(value, Instruction) and value.op is OPS["tuple"]:
        return list(value.operands)
    return [b.emit("extract", value, at=k) for k in range(len(value.type.elements))]


def _return(function: Function, i: Instruction) -> bool:
    if function.result == lowered(function.result) or not i.operands:
        return False
    b = Builder(function).before(i)
    b.loc = i.loc
    values = [spilled(b, v) if is_array(v.type) else v for v in _elements(b, i.operands[0])]
    old = i.operands[0]
    i.operands = [b.emit("tuple", *values) if isinstance(function.result, TupleType) else values[0]]
    if isinstance(old, Instruction) and old.op is OPS["tuple"] and old.block is not None:
        if not any(old in u.all_operands() for u in function.instructions()):
            old.block.instructions.remove(old)
    return True


def _apply(function: Function, i: Instruction) -> bool:
    result = i.type
    arrays = [v for v in i.operands if is_array(v.type)]
    if not arrays and lowered(result) == result:
        return False
    b = Builder(function).before(i)
    b.loc = i.loc
    i.operands = [spilled(b, v) if is_array(v.type) else v for v in i.operands]
    if result in (lowered(result), VOID):
        return True
    call = b.emit("apply", *i.operands, callee=i.attrs["callee"], result=lowered(result))
    if not isinstance(result, TupleType):
        return _replace(function, i, b.emit("load", call))
    values = [b.emit("load", v) if isinstance(v.type, PointerType) else v for v in _elements(b, call)]
    return _replace(function, i, b.emit("tuple", *values))


def _extract(function: Function, i: Instruction) -> bool:
    source, keys = i.operands[0], keys_of(i.attrs)
    b = Builder(function).before(i)
    b.loc = i.loc
    if isinstance(source, Instruction) and source.op is OPS["tuple"]:
        value = source.operands[int(keys[0])]
        if not keys[1:]:
            return _replace(function, i, value)
        i.operands, i.attrs = [value], {"at": keys[1:]}
        return _extract(function, i) or True
    if not is_array(source.type):
        return False
    at = b.emit("elementPointer", spilled(b, source), *(literal(int(k)) for k in keys))
    return _replace(function, i, b.emit("load", at))


def _insert(function: Function, i: Instruction) -> bool:
    value, source = i.operands
    b = Builder(function).before(i)
    b.loc = i.loc
    memory = spilled(b, source)
    b.emit("store", value, b.emit("elementPointer", memory, *(literal(int(k)) for k in keys_of(i.attrs))))
    return _replace(function, i, b.emit("load", memory))


def _aggregate(function: Function, i: Instruction) -> bool:
    t = i.type
    assert isinstance(t, TensorType)
    b = Builder(function).before(i)
    b.loc = i.loc
    memory = b.emit("allocateHeap", *(literal(n or 0) for n in t.shape), dtype=t.dtype.name)
    depth = t.rank - (i.operands[0].type.rank if i.operands else 0)  # type: ignore[attr-defined]
    for number, value in enumerate(i.operands):
        path: list[int] = []
        for extent in reversed(t.shape[:depth]):
            number, place = divmod(number, extent or 1)
            path.insert(0, place)
        b.emit("store", value, b.emit("elementPointer", memory, *map(literal, path)))
    return _replace(function, i, b.emit("load", memory))


def _broadcast(function: Function, i: Instruction) -> bool:
    """A broadcast to rank 0 is its operand."""
    return len(i.operands) == 1 and _replace(function, i, i.operands[0])


def _constant(function: Function, i: Instruction) -> bool:
    return _replace(function, i, i.operands[0])


_LOWER = {
    "constant": _constant,
    "return": _return,
    "apply": _apply,
    "extract": _extract,
    "insert": _insert,
    "aggregate": _aggregate,
    "broadcast": _broadcast,
}
