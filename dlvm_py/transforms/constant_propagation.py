"""Sparse conditional constant propagation: constants through branches and around loops.

    'entry(%n: i64):                                'entry(%n: i64):
        branch 'loop(0: i64, 1: i64)                    branch 'loop(0: i64)
    'loop(%k: i64, %s: i64):                        'loop(%k: i64):
        %more = lessThan %k: i64, %n: i64               %more = lessThan %k: i64, %n: i64
        conditional %more: bool                         conditional %more: bool then 'body() else 'end()
            then 'body() else 'end()                'body():
    'body():                                            %next = add %k: i64, 1: i64
        %one = equal %s: i64, 1: i64        =>          branch 'loop(%next: i64)
        conditional %one: bool                      'end():
            then 'same() else 'other()                  return 1: i64
    'same(): branch 'join(1: i64)
    'other(): branch 'join(2: i64)
    'join(%t: i64):
        %next = add %k: i64, 1: i64
        branch 'loop(%next: i64, %t: i64)
    'end():
        return %s: i64

(Empty blocks are left out on the right: they are simplify_cfg's.)

Every value starts as not seen, becomes a literal, and at last may become varying; edges start as not taken. Only edges
that can be taken carry values into block arguments, and a conditional on a literal takes one edge. So `%s` above is
1 although one block that passes it on passes 2: that block is never reached. Folding constants and removing
dead blocks one after the other never finds that.

What an op gives for literals is constant_fold's to say, with its care for what rounds, traps or overflows. Raw and
later stages; terminates, because values and edges only go up, each at most twice. Linear in uses and edges.

Source: Wegman and Zadeck, "Constant Propagation with Conditional Branches", TOPLAS 13 (1991).
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Block, Function, Instruction, Kind, Literal, Target, Value
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.transforms.constant_fold import literal_result
from dlvm_py.transforms.literals import boolean, is_number, same_value
from dlvm_py.transforms.simplify_cfg import drop_arguments, remove_unreachable
from dlvm_py.transforms.substitution import is_pinned, substitute

_VARYING = None  # in the place of a literal


def run(function: Function) -> bool:
    """Propagate constants in `function`; whether anything changed."""
    return _Propagation(function).run()


class _Propagation:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.users = uses(function)
        self.known: dict[Value, Literal | None] = {p: _VARYING for p in function.params}
        self.edges: set[tuple[Block, int]] = set()  # that can be taken
        self.reached: set[Block] = set()
        self.blocks = [function.entry]
        self.values: list[Value] = []

    def run(self) -> bool:
        """Solve, then rewrite."""
        while self.blocks or self.values:
            if self.blocks:
                block = self.blocks.pop()
                if block not in self.reached:
                    self.reached.add(block)
                    for i in block.instructions:
                        self._visit(i)
            else:
                for user in self.users.get(self.values.pop(), ()):
                    if user.block in self.reached:
                        self._visit(user)
        return self._rewrite()

    # -- the lattice -----------------------------------------------------------------------------------

    def _seen(self, v: Value) -> bool:
        return isinstance(v, Literal) or v in self.known

    def _literal(self, v: Value) -> Literal | None:
        """What a value that was seen is."""
        if isinstance(v, Literal):
            return v if is_number(v) else _VARYING
        return self.known[v]

    def _raise(self, v: Value, found: Literal | None) -> None:
        """Note what a value can be; it goes up only."""
        if v not in self.known:
            self.known[v] = found
        elif self.known[v] is _VARYING or found is not _VARYING and same_value(found, self.known[v]):  # type: ignore[arg-type]
            return
        else:
            self.known[v] = _VARYING
        self.values.append(v)

    def _visit(self, i: Instruction) -> None:
        if i.op.is_terminator:
            self._leave(i)
        elif i.op.kind is not Kind.ELEMENTWISE or is_pinned(i):
            self._raise(i, _VARYING)
        elif all(map(self._seen, i.operands)):
            literals = [self._literal(v) for v in i.operands]
            known = [v for v in literals if v is not _VARYING]
            whole = len(known) == len(literals)
            self._raise(i, literal_result(Instruction(i.op, list(known), i.attrs, type=i.type)) if whole else _VARYING)

    def _leave(self, i: Instruction) -> None:
        """The edges that the end of a block can take, and what they carry."""
        assert i.block is not None
        taken = range(len(i.targets))
        if i.op is OPS["conditional"]:
            (flag,) = i.operands
            if not self._seen(flag):
                return
            literal = self._literal(flag)
            if literal is not _VARYING:
                taken = range(0, 1) if boolean(literal) else range(1, 2)
        for k in taken:
            target = i.targets[k]
            if (i.block, k) not in self.edges:
                self.edges.add((i.block, k))
                self.blocks.append(target.block)
            for arg, passed in zip(target.block.args, target.args, strict=True):
                if i.op is OPS["branchEnum"]:
                    self._raise(arg, _VARYING)
                elif self._seen(passed):
                    self._raise(arg, self._literal(passed))

    # -- the result ------------------------------------------------------------------------------------

    def _rewrite(self) -> bool:
        constants: dict[Value, Value] = {v: found for v, found in self.known.items() if found is not _VARYING}
        changed = bool(constants)
        for block in self.reached:
            end = block.terminator
            taken = [k for k in range(len(block.targets)) if (block, k) in self.edges]
            if end is not None and end.op is OPS["conditional"] and len(taken) == 1:
                target = end.targets[taken[0]]
                end.op, end.operands, end.targets = OPS["branch"], [], [Target(target.block, target.args)]
                changed = True
        changed |= remove_unreachable(self.function)
        for block in self.function.blocks:
            block.instructions = [i for i in block.instructions if i not in constants]
        substitute(self.function.blocks, constants)
        drop_arguments(self.function, {v for v in constants if not isinstance(v, Instruction)})  # type: ignore[misc]
        return changed
