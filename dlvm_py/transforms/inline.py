"""Inlining: the calls in a function become the bodies of the functions that they call.

    func @f: (f64) -> (f64, f64) {                  func @f: (f64) -> (f64, f64) {
    'entry(%x: f64):                                'entry(%x: f64):
        %r = apply @g(%x: f64) -> (f64, bool)           branch 'g_entry()
        %y = extract 0 from %r: (f64, bool)         'g_entry():
        %p = extract 1 from %r: (f64, bool)             %c = lessThan %x: f64, 0.0: f64
        ...                                             conditional %c: bool then 'g_a() else 'g_b()
    }                                               'g_a():
    func @g: (f64) -> (f64, bool) {                     %n = negate %x: f64
    'entry(%x: f64):                          =>        branch 'entry_after(%n: f64, true: bool)
        %c = lessThan %x: f64, 0.0: f64             'g_b():
        conditional %c: bool then 'a() else 'b()        branch 'entry_after(%x: f64, false: bool)
    'a():                                           'entry_after(%y: f64, %p: bool):
        %n = negate %x: f64                             ...
        %t = literal (%n: f64, true: bool)          }
        return %t: (f64, bool)
    ...

A call ends its block; what stood behind it becomes the *continuation*, whose arguments are the leaves of the
result. A body of a single block is spliced in without new blocks. Calls in an inlined body are looked at
again, until only calls are left that lead back to the function they stand in (recursion, direct or mutual),
that go to another module, or whose callee says `noinline` or has derivatives of its own (drop_rules.py). Callees
are not changed.

Array values do not cross borders of blocks. One that is made before the call and used behind it (`load` of a
left operand, then the call on the right) gets memory: it is stored before the call and loaded in the
continuation. The instructions of the body keep their own locations. Raw stage; simplify_cfg tidies up.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.ir import (
    OPS,
    VOID,
    Block,
    Builder,
    Function,
    Instruction,
    Literal,
    Module,
    PointerType,
    Target,
    TensorType,
    TupleType,
    Type,
    Value,
    is_array,
)
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.ops.aggregates import keys_of
from dlvm_py.transforms.simplify_cfg import remove_unreachable
from dlvm_py.transforms.substitution import substitute

NO_INLINE = "noinline"

# an inlined call: the block in which its result is there, and the leaves of the result
Results = dict[Instruction, tuple[Block, list[Value]]]


def run(module: Module, name: str) -> bool:
    """Inline the calls in function `name` of `module`; whether anything changed."""
    function = module.functions[name]
    recursive = recursive_functions(module)
    results: Results = {}
    pending = list(function.blocks)
    while pending:
        block = pending.pop()
        call = next((i for i in block.instructions if _is_inlinable(i, module, recursive)), None)
        if call is None:
            continue
        pending.extend(inline_call(function, call, module.functions[call.attrs["callee"]], results))
    if results:
        replace_results(function, results)
        # behind a callee that only raises
        remove_unreachable(function)
    return bool(results)


def clone_blocks(callee: Function, mapping: dict[Value, Value], prefix: str = "") -> list[Block]:
    """A copy of the blocks of `callee`; its parameters must be in `mapping`, which receives all its values.

    The copy of the entry has no arguments: what the parameters are mapped to takes their place.
    """
    return clone_region(callee.blocks, mapping, prefix, callee.entry)


def clone_region(
    region: Sequence[Block], mapping: dict[Value, Value], prefix: str = "", entry: Block | None = None
) -> list[Block]:
    """A copy of some blocks of a function, which goes on where they do; `mapping` receives its values.

    The copy of `entry` has no arguments: `mapping` says what takes their place.
    """
    blocks = {block: Block(prefix + block.name) for block in region}
    for block, copy in blocks.items():
        if block is not entry:
            mapping.update({arg: copy.add_arg(arg.type, arg.name) for arg in block.args})
    for block, copy in blocks.items():
        for i in block.instructions:
            targets = [Target(blocks.get(t.block, t.block), list(t.args)) for t in i.targets]
            mapping[i] = copy.append(Instruction(i.op, list(i.operands), dict(i.attrs), targets, i.type, i.name, i.loc))
    # operands last: a use may stand before its definition in layout order
    substitute(blocks.values(), mapping)
    return list(blocks.values())


def _is_inlinable(i: Instruction, module: Module, recursive: set[str]) -> bool:
    if i.op is not OPS["apply"]:
        return False
    callee = module.functions.get(i.attrs["callee"])
    if callee is None or not callee.blocks:
        return False
    return callee.name not in recursive and NO_INLINE not in callee.attributes and not callee.rules


def recursive_functions(module: Module) -> set[str]:
    """The functions that can call themselves, directly or through others."""
    calls = {
        f.name: {i.attrs["callee"] for i in f.instructions() if i.op is OPS["apply"]} & module.functions.keys()
        for f in module.functions.values()
    }
    recursive = set()
    for name in calls:
        reached: set[str] = set()
        pending = list(calls[name])
        while pending:
            callee = pending.pop()
            if callee not in reached:
                reached.add(callee)
                pending.extend(calls[callee])
        if name in reached:
            recursive.add(name)
    return recursive


def inline_call(function: Function, call: Instruction, callee: Function, results: Results) -> list[Block]:
    """Put the body of `callee` in the place of one call; the blocks that are left to look through.

    What the call gave is entered into `results`; its users are left to replace_results.
    """
    block = call.block
    assert block is not None
    place = block.instructions.index(call)
    head, tail = block.instructions[:place], block.instructions[place + 1 :]
    builder = Builder(function, block)
    builder.loc = call.loc
    block.instructions = head
    mapping: dict[Value, Value] = {
        p: _as_type(builder, v, p.type) for p, v in zip(callee.params, call.operands, strict=True)
    }
    body = clone_blocks(callee, mapping, prefix=f"{callee.name}_")
    entry_end = body[0].terminator
    leaves: list[Value]
    if len(body) == 1 and entry_end is not None and entry_end.op is OPS["return"]:
        for i in body[0].instructions[:-1]:
            block.append(i)
        leaves = _leaves(builder, entry_end, callee.result)
        continuation, behind = block, [block]
    else:
        reloaded = _spill(builder, head, tail)
        continuation = Block(f"{block.name}_after" if block.name else "")
        at = function.blocks.index(block) + 1
        function.blocks[at:at] = [*body, continuation]
        leaves = [*(continuation.add_arg(t) for t in _leaf_types(callee.result))]
        for copy in body:
            _return_to(continuation, builder.at_end(copy), callee.result)
        builder.at_end(block).branch(body[0])
        builder.at_end(continuation)
        behind = [*body, continuation]
        mapping = {v: builder.emit("load", memory) for v, memory in reloaded.items()}
        for i in tail:
            i.substitute(mapping)
    for i in tail:
        continuation.append(i)
    results[call] = continuation, leaves
    return behind


def _as_type(builder: Builder, value: Value, type: Type) -> Value:
    """`value`, cast where the parameter or result that it becomes says less about its layout or extents."""
    if value.type == type or not isinstance(type, PointerType) or isinstance(value, Literal):
        return value
    return builder.emit("pointerCast", value, to=type)


def _leaf_types(result: Type) -> tuple[Type, ...]:
    return result.elements if isinstance(result, TupleType) else (result,)


def _leaves(builder: Builder, end: Instruction, result: Type) -> list[Value]:
    """The values that a return gives, the elements of a tuple one by one."""
    if not end.operands or result == VOID:
        return []
    (value,) = end.operands
    if not isinstance(result, TupleType):
        return [_as_type(builder, value, result)]
    if isinstance(value, Instruction) and value.op is OPS["tuple"]:
        elements = value.operands
    else:
        elements = [builder.emit("extract", value, at=k) for k in range(len(result.elements))]
    return [_as_type(builder, v, t) for v, t in zip(elements, result.elements, strict=True)]


def _return_to(continuation: Block, builder: Builder, result: Type) -> None:
    """Turn the return at the end of the builder's block, if there is one, into a branch."""
    block = builder.block
    assert block is not None
    end = block.terminator
    if end is None or end.op is not OPS["return"]:
        return
    block.instructions.pop()
    builder.branch(continuation, _leaves(builder, end, result))


def _spill(builder: Builder, head: list[Instruction], tail: list[Instruction]) -> dict[Value, Instruction]:
    """Store the array values that are made in `head` and used in `tail`; the memory of each."""
    made = {i for i in head if is_array(i.type)}
    memory: dict[Value, Instruction] = {}
    for value in (v for i in tail for v in i.operands):
        if value not in made or value in memory:
            continue
        assert isinstance(value.type, TensorType)
        extents = extents_of(builder, value)
        memory[value] = builder.emit("allocateHeap", *extents, dtype=value.type.dtype.name)
        builder.emit("store", value, memory[value])
    return memory


def replace_results(function: Function, results: Results) -> None:
    """Put the leaves of the results in the place of the values of the calls, once for all calls."""
    replaced: dict[Value, Value] = {
        call: leaves[0] for call, (_, leaves) in results.items() if not isinstance(call.type, TupleType)
    }
    whole: dict[Instruction, set[Instruction]] = {}
    for i in function.instructions():
        for v in i.all_operands():
            if not isinstance(v, Instruction) or v not in results or v in replaced:
                continue
            if i.op is OPS["extract"]:
                first, *rest = keys_of(i.attrs)
                leaf = results[v][1][first]  # type: ignore[index]
                if rest:  # an element of the leaf
                    i.operands, i.attrs = [leaf], {"at": tuple(rest) if len(rest) > 1 else rest[0]}
                else:
                    replaced[i] = leaf
            else:
                whole.setdefault(v, set()).add(i)
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i not in replaced]
    for call, users in whole.items():
        # a tuple that is passed on is made again, behind the leaves
        block, leaves = results[call]
        made = Instruction(OPS["tuple"], leaves, loc=call.loc)
        made.block = block
        last = len(block.instructions) - 1
        place = next((k for k, i in enumerate(block.instructions) if i in users), last)
        block.instructions.insert(place, made)
        replaced[call] = made
    substitute(function.blocks, replaced)
