"""An entry block without predecessors, which the passes rely on: a loop back to the entry gets a header of its own.

    'entry(%n: i64):                                'entry_preheader(%n: i64):
        ...                                             branch 'entry(%n: i64)
        conditional %c: bool                =>      'entry(%n: i64):
            then 'entry(%m: i64) else 'end()            ...
                                                        conditional %c: bool then 'entry(%m: i64) else 'end()

DLVM's text may branch to the entry; the front end never does. `undo` is the way back, for printing: it takes the new
block out again where it still does nothing but pass its parameters on. Stages raw and optimizable.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, Builder, Function
from dlvm_py.ir.analysis.uses import uses


def run(function: Function, named: bool = True) -> bool:
    """Give `function` an entry that nothing branches to; whether it lacked one. `named`: its parameters get names."""
    entry = function.entry
    if not any(t.block is entry for block in function.blocks for t in block.targets):
        return False
    block = Block(f"{entry.name}_preheader" if entry.name else "")
    params = [block.add_arg(a.type, a.name if named else "") for a in entry.args]
    function.blocks.insert(0, block)
    Builder(function, block).branch(entry, list(params))
    return True


def undo(function: Function) -> bool:
    """Make the loop header the entry again, if the entry only passes its parameters to it; whether it did."""
    entry = function.entry
    if len(entry.instructions) != 1 or entry.instructions[0].op is not OPS["branch"]:
        return False
    (onward,) = entry.targets
    users = uses(function)
    if onward.block is entry or onward.args != entry.args:
        return False
    if any(set(users[a]) != {entry.instructions[0]} for a in entry.args):
        return False
    function.blocks.remove(entry)
    function.blocks.remove(onward.block)
    function.blocks.insert(0, onward.block)
    return True
