"""Partial inlining: where recursive functions call one, the way through it that calls nothing is taken in place.

    'loop(...):                                     'loop(...):
        ...                                             ...
        %r = apply @f(%m: i64) -> f64                   branch 'f_entry()
        %s = add %t: f64, %r: f64                   'f_entry():
        ...                                             %c = equal %m: i64, 1: i64
                                                        conditional %c: bool then 'f_last() else 'f_again()
    func @f: (i64) -> f64 {                         'f_last():
    'entry(%n: i64):                          =>        branch 'loop_after(1.0: f64)
        %c = equal %n: i64, 1: i64                  'f_again():
        conditional %c: bool                            %1 = apply @f(%m: i64) -> f64
            then 'last() else 'more()                   branch 'loop_after(%1: f64)
    'last():                                        'loop_after(%r: f64):
        return 1.0: f64                                 %s = add %t: f64, %r: f64
    'more():                                            ...
        ...
    }

Most calls of a recursion end it at once: they are the leaves of its tree. Each then costs a test in its caller, not a
call, and a derivative keeps nothing for it beyond what its one path needs. The entry of the callee must end in a
condition; before it stand scalars, reads and checks only, which a call that goes on does once more; and one side of
it must return without a loop, an array or a call, in few instructions. Callees are not changed. Raw stage, after
clean-ups.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, VOID, Block, Builder, Function, Instruction, Module, Target, is_array
from dlvm_py.ir.analysis.calls import calls, reachable
from dlvm_py.ir.analysis.effects import effects
from dlvm_py.ir.op import READ, TRAP, Kind
from dlvm_py.transforms.inline import (
    NO_INLINE,
    Results,
    clone_region,
    inline_call,
    recursive_functions,
    replace_results,
)

MOST = 40  # instructions that a call may become
MOST_CALLS = 8  # of a function that become so


def may(module: Module, name: str) -> bool:
    """Whether function `name` or one that it reaches is recursive."""
    found = reachable(module, name)
    return any(map(calls, found)) and not recursive_functions(module).isdisjoint(f.name for f in found)


def run(module: Module, name: str) -> bool:
    """Take the short way through the callees in place, in function `name` of `module`; whether there was one."""
    recursive = recursive_functions(module)
    if name not in recursive:
        return False
    function = module.functions[name]
    shells = {callee: _shell(module.functions[callee]) for callee in sorted(recursive)}
    sites = [(c, shell) for c in calls(function) if (shell := shells.get(c.attrs["callee"])) is not None]
    results: Results = {}
    for call, shell in sites[:MOST_CALLS]:
        if not is_crossed(call):
            inline_call(function, call, shell, results)
    replace_results(function, results)
    return bool(results)


def _shell(callee: Function) -> Function | None:
    """A function like `callee`, which calls it where its result does not come at once; None where it never does."""
    end = callee.entry.terminator
    if callee.rules or NO_INLINE in callee.attributes or end is None or end.op is not OPS["conditional"]:
        return None
    if any(not effects(i) <= {READ, TRAP} or i.op.kind in (Kind.CALL, Kind.STACK) for i in callee.entry.instructions):
        return None
    short = [_way(t.block, callee.entry) for t in end.targets]
    if (short[0] is None) == (short[1] is None):
        return None
    way = short[0] or short[1] or []
    region = [callee.entry, *way]
    if sum(len(b.instructions) for b in region) > MOST or any(is_array(i.type) for b in region for i in b.instructions):
        return None
    shell = Function(callee.name, callee.result)
    shell.blocks = clone_region(region, {})
    again = shell.new_block("again")
    builder = Builder(shell, again)
    builder.loc = end.loc
    call = builder.emit("apply", *shell.params, callee=callee.name, result=callee.result)
    builder.ret(*([] if callee.result == VOID else [call]))
    entry_end = shell.entry.terminator
    assert entry_end is not None
    entry_end.targets[1 if short[1] is None else 0] = Target(again, [])
    return shell


def _way(start: Block, entry: Block) -> list[Block] | None:
    """The blocks from `start` on, each behind those before it, if no call and no loop is among them."""
    found: list[Block] = []
    open_: set[Block] = {entry}

    def visit(block: Block) -> bool:
        if block in found:
            return True
        if block in open_ or any(i.op.kind is Kind.CALL for i in block.instructions):
            return False
        open_.add(block)
        done = len(found) < MOST and all(visit(s) for s in block.successors())
        found.append(block)
        return done

    return found[::-1] if visit(start) else None


def is_crossed(call: Instruction) -> bool:
    """Whether an array is made before the call in its block and used behind it: it would need memory."""
    assert call.block is not None
    place = call.block.instructions.index(call)
    made = {i for i in call.block.instructions[:place] if is_array(i.type)}
    return any(v in made for i in call.block.instructions[place:] for v in i.all_operands())
