"""A copy of a function whose blocks and values are new objects."""

from __future__ import annotations

from dlvm_py.ir import Block, Function, Instruction, Target, Value


def clone(function: Function, name: str) -> Function:
    """A copy of `function` called `name`; locations and names are kept, attributes are not."""
    copy = Function(name, function.result)
    values: dict[Value, Value] = {}
    blocks: dict[Block, Block] = {}
    for block in function.blocks:
        blocks[block] = copy.new_block(block.name)
        for arg in block.args:
            values[arg] = blocks[block].add_arg(arg.type, arg.name)
        for i in block.instructions:
            # operands follow below: a use may stand before its definition in layout order
            values[i] = blocks[block].append(Instruction(i.op, [], dict(i.attrs), type=i.type, name=i.name, loc=i.loc))
    for block in function.blocks:
        for i in block.instructions:
            new = values[i]
            assert isinstance(new, Instruction)
            new.operands = [values.get(v, v) for v in i.operands]
            new.targets = [Target(blocks[t.block], [values.get(v, v) for v in t.args]) for t in i.targets]
    return copy
