"""Unfolding: the last levels of a counted recursion above its end are straight code where the function calls itself.

    func @f: (i64) -> f64 {                         func @f: (i64) -> f64 {
    'entry(%n: i64):                                ...
        %c = equal %n: i64, 1: i64                  'more():
        conditional %c: bool                            %m = subtract %n: i64, 1: i64
            then 'last() else 'more()                   %few = equal %m: i64, 3: i64
    ...                                       =>        conditional %few: bool then 'f_3() else 'f_again()
    'more():                                        'f_3():
        %m = subtract %n: i64, 1: i64                   ...                  // what @f(3) computes
        %r = apply @f(%m: i64) -> f64                   branch 'more_after(%v: f64)
        ...                                         'f_again():
                                                        %1 = apply @f(%m: i64) -> f64
                                                        branch 'more_after(%1: f64)

The entry of the function compares a parameter with a literal, and its calls to itself step that parameter by a literal.
The first number whose call does not end at once, but calls for ones that do, is put for the parameter in a copy of the
function, which has the way through the last calls already (partial_inline.py). Loops have few trips then and are
unrolled, their signs are known, and no call is left. So is the number behind it, in a copy that has the first one.
What of them has no call, no loop, and is short, takes the place of the calls for that number, where there are any
left: the second level contains the first. Of a recursion that calls itself as often as the number says, that
are all but a 24th of the calls; and a derivative keeps nothing in them. Raw stage, after clean-ups.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.ir import VOID, Block, BlockArg, Builder, Function, Instruction, Module, is_array, literal
from dlvm_py.ir.analysis.calls import calls
from dlvm_py.ir.analysis.loops import LoopForest
from dlvm_py.ir.op import Kind
from dlvm_py.ir.value import Value, integer
from dlvm_py.transforms import constant_fold, cse, dce, simplify_cfg, unroll_loops
from dlvm_py.transforms.inline import NO_INLINE, Results, clone_blocks, inline_call, replace_results
from dlvm_py.transforms.partial_inline import is_crossed

LEVELS = 2
MOST = 600  # instructions that a level may have in the places of all calls together


def run(module: Module, name: str) -> bool:
    """Unfold the calls of function `name` of `module` to itself; whether there was one that can be."""
    function = module.functions[name]
    own = _own_calls(function)
    if not own or function.rules or NO_INLINE in function.attributes or any(map(is_crossed, own)):
        return False
    counted = _counted(function, own)
    if counted is None:
        return False
    parameter, limit, steps = counted
    shells: dict[int, Function] = {}
    for number in _numbers(function, limit, steps):
        copy = _with(function, {})
        for shell in shells.values():
            _unfold(copy, shell)
        made = _level(copy, parameter, number, MOST // len(own))
        if made is None:
            break
        shells[number] = _shell(function, made, parameter, number)
    for number, shell in shells.items():
        if not all(number - s in shells for s in steps):  # else nobody asks for it
            _unfold(function, shell)
    return bool(shells)


def _own_calls(function: Function) -> list[Instruction]:
    return [c for c in calls(function) if c.attrs["callee"] == function.name]


def _counted(function: Function, own: list[Instruction]) -> tuple[int, int, set[int]] | None:
    """The parameter that counts, by its place, what it is compared with, and by how much calls step it."""
    compared = unroll_loops.compared(function.entry.terminator)
    if compared is None or compared[1] not in function.params:
        return None
    _, parameter, limit = compared
    at = function.params.index(parameter)
    steps = {_step(c.operands[at], parameter) for c in own}
    return None if None in steps else (at, limit, steps)  # type: ignore[return-value]


def _step(argument: Value, parameter: BlockArg) -> int | None:
    """By how much an argument is more than the parameter; None if that is not known, or nothing."""
    if not isinstance(argument, Instruction) or argument.op.name not in ("add", "subtract"):
        return None
    of, by = argument.operands
    number = integer(by) if of is parameter else None
    return -number if number and argument.op.name == "subtract" else number or None


def _numbers(function: Function, limit: int, steps: set[int]) -> Iterator[int]:
    """The first numbers for which the function calls for none but those that end at once, or were given before."""
    compared = unroll_loops.compared(function.entry.terminator)
    assert compared is not None
    callers: set[Block | None] = {c.block for c in _own_calls(function)}
    calls_at = [not _reached(t.block).isdisjoint(callers) for t in function.entry.targets]
    near = range(limit - LEVELS - 1, limit + LEVELS + 2)
    done = {n for n in (*near, *(n + s for n in near for s in steps)) if not calls_at[not _decides(compared, n)]}
    for _ in range(LEVELS):
        found = next((n for n in near if n not in done and all(n + s in done for s in steps)), None)
        if found is None:
            return
        yield found
        done.add(found)


def _decides(compared: tuple[str, BlockArg, int], number: int) -> bool:
    return unroll_loops.DECIDES[compared[0]](number, compared[2])


def _reached(start: Block) -> set[Block | None]:
    seen: set[Block | None] = set()
    pending = [start]
    while pending:
        block = pending.pop()
        if block not in seen:
            seen.add(block)
            pending.extend(block.successors())
    return seen


def _with(function: Function, known: dict[int, Value]) -> Function:
    """A copy of a function in which parameters are what is known of them."""
    copy = Function(function.name, function.result)
    entry = copy.new_block("entry")
    given: dict[Value, Value] = {p: entry.add_arg(p.type, p.name) for p in function.params}
    given.update({function.params[k]: value for k, value in known.items()})
    copy.blocks += clone_blocks(function, given)
    Builder(copy, entry).branch(copy.blocks[1])
    return copy


def _level(function: Function, parameter: int, number: int, most: int) -> Function | None:
    """What the function computes for the number; None if that is long, or has calls or loops."""
    level = _with(function, {parameter: literal(number)})
    constant_fold.run(level)
    simplify_cfg.run(level)
    unroll_loops.run(level, most=most)
    for clean in (constant_fold, simplify_cfg, cse, dce):
        clean.run(level)
    if sum(len(b.instructions) for b in level.blocks) > most or LoopForest(level).loops:
        return None
    return None if any(i.op.kind is Kind.CALL or is_array(i.type) for i in level.instructions()) else level


def _shell(function: Function, level: Function, parameter: int, number: int) -> Function:
    """A function that is `level` for the number, and calls `function` otherwise."""
    shell = Function(function.name, function.result)
    head, again = shell.new_block("entry"), shell.new_block("again")
    params: list[Value] = [head.add_arg(p.type, p.name) for p in function.params]
    shell.blocks[1:1] = clone_blocks(level, dict(zip(level.params, params, strict=True)), f"{number}_")
    builder = Builder(shell, head)
    builder.loc = function.entry.instructions[-1].loc
    builder.conditional(builder.emit("equal", params[parameter], literal(number)), shell.blocks[1], None, again)
    call = builder.at_end(again).emit("apply", *params, callee=function.name, result=function.result)
    builder.ret(*([] if function.result == VOID else [call]))
    return shell


def _unfold(function: Function, shell: Function) -> None:
    """Put the shell in the place of the function's calls to itself."""
    results: Results = {}
    for call in _own_calls(function):
        inline_call(function, call, shell, results)
    replace_results(function, results)
