"""The discipline of stacks, where the graph decides it: what is pushed, popped and destroyed along every path.

Part of the verifier. For a typed stack that a function creates and keeps to itself, the number of entries is followed
through the graph. (DLVM's untyped ones raise when they are asked in vain.) It is known at a place if all paths there
agree; where they do not (a loop that pushes), nothing is said. Reported is what goes wrong whenever it is reached, if
it is reached whenever the stack is created (or drained, or destroyed): a pop of an empty stack, the destruction of one
that holds something, any use of one that is destroyed. Behind a branch nothing is said. It may be one that no run
takes: where a pass finds that a branch of the forward sweep is never taken, its push goes, and the pop stays behind a
condition that was kept on another tape. A stack that is never destroyed is memory until the outermost call ends.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.ir.analysis.cfg import reverse_postorder
from dlvm_py.ir.analysis.dominance import PostDominatorTree
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.types import StackType
from dlvm_py.ir.value import Instruction

Report = Callable[[object, str], None]  # (instruction or block, message)

DESTROYED = -1
_UNKNOWN = None
_DECIDING = frozenset(("createStack", "drain", "destroyStack"))  # whatever was there before
_OWN_USES = frozenset(("push", "pop", "drain", "destroyStack"))
State = dict[Instruction, int | None]  # the entries of each stack; missing: not created yet
Steps = dict[Block, list[tuple[Instruction, Instruction]]]  # what changes a stack, and which, in order


def check_stacks(function: Function, report: Report) -> None:
    """Report every breach of the discipline that is sure to happen where it is reached."""
    users: dict[Instruction, list[Instruction]] = {i: [] for i in function.instructions() if i.op.name == "createStack"}
    if not users:
        return
    for i in function.instructions():
        for v in i.all_operands():
            if v in users:
                users[v].append(i)
    private = {s for s, of in users.items() if s.type != StackType(None) and all(_is_own_use(u, s) for u in of)}
    if not private:
        return
    steps: Steps = {}
    for block in function.blocks:
        worked_on = ((i, i if i.op.name == "createStack" else _worked_on(i)) for i in block.instructions)
        steps[block] = [(i, stack) for i, stack in worked_on if stack in private]
    breaches: list[tuple[Instruction, Instruction, str]] = []
    for block, state in _solve(function, steps).items():
        now = dict(state)
        for i, stack in steps[block]:
            if i is not stack and (message := _breach(i, now.get(stack, _UNKNOWN))) is not None:
                breaches.append((i, stack, message))
            _step(i, stack, now)
    if not breaches:
        return
    ends = PostDominatorTree(function)
    for i, stack, message in breaches:
        if any(_leads_to(u, i, ends) for u in (stack, *users[stack]) if u.op.name in _DECIDING):
            report(i, message)


def _leads_to(first: Instruction, i: Instruction, ends: PostDominatorTree) -> bool:
    """Whether `i` runs, later, whenever `first` does and the function comes to its end."""
    assert first.block is not None and i.block is not None
    if first.block is i.block:
        return first.block.instructions.index(first) < i.block.instructions.index(i)
    return ends.postdominates(i.block, first.block)


def _is_own_use(user: Instruction, stack: Instruction) -> bool:
    """Whether it is the stack that is worked on, not a value that is handed on."""
    return user.op.name in _OWN_USES and not (user.op.name == "push" and user.operands[0] is stack)


def _solve(function: Function, steps: Steps) -> dict[Block, State]:
    """What is known at the start of each block. (Blocks without a step share what they hand on.)"""
    order = reverse_postorder(function)
    entering: dict[Block, State] = {function.entry: {}}
    changed = True
    while changed:
        changed = False
        for block in order:
            if block not in entering:
                continue
            state = entering[block]
            if steps[block]:
                state = dict(state)
                for i, stack in steps[block]:
                    _step(i, stack, state)
            for following in block.successors():
                before = entering.get(following)
                if before is None:
                    entering[following], changed = state, True
                elif before is not state and (joined := _join(before, state)) != before:
                    entering[following], changed = joined, True
    return entering


def _join(a: State, b: State) -> State:
    """What both paths say; what was not created on one of them is not in scope behind."""
    return {s: a[s] if s in b and a[s] == b[s] else _UNKNOWN for s in a}


def _step(i: Instruction, stack: Instruction, state: State) -> None:
    entries = state.get(stack, _UNKNOWN)
    if i is stack:
        state[stack] = 0
    elif i.op.name == "destroyStack":
        state[stack] = DESTROYED
    elif i.op.name == "drain" and entries != DESTROYED:
        state[stack] = 0
    elif entries is not _UNKNOWN and entries != DESTROYED:
        state[stack] = max(entries + (1 if i.op.name == "push" else -1), 0)


def _worked_on(i: Instruction) -> Instruction | None:
    """The createStack whose stack an instruction pushes to, takes from or destroys."""
    if i.op.name not in _OWN_USES:
        return None
    stack = i.operands[1 if i.op.name == "push" else 0]
    return stack if isinstance(stack, Instruction) and stack.op.name == "createStack" else None


def _breach(i: Instruction, entries: int | None) -> str | None:
    """What is wrong with an instruction that works on a stack of so many entries."""
    if entries == DESTROYED:
        return "the stack is destroyed already"
    if entries == 0 and i.op.name == "pop":
        return "pop from a stack that is empty here"
    if entries and i.op.name == "destroyStack":
        return f"the stack holds {entries} {'entry' if entries == 1 else 'entries'} here"
    return None
