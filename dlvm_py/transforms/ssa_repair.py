"""SSA repair: every use gets a definition that dominates it, through block arguments.

    'a(): conditional %c then 'b() else 'd()          'a(): conditional %c then 'b() else 'd(undefined)
    'b(): %x = sin %p                           →     'b(): %x = sin %p
          branch 'd()                                       branch 'd(%x)
    'd(): conditional %c then 'e() else 'f()          'd(%x_in): conditional %c then 'e() else 'f()
    'e(): %y = cos %x                                 'e(): %y = cos %x_in

Passes that move control flow (or generate code that runs after the original) may leave a use that its
definition does not dominate, as long as every path on which the use matters has passed the definition; on
the other paths the argument is UNDEFINED. (A value of a loop is undefined again at the loop's header: before
control flow was moved, every path from there to a use passed the definition.)

The same mechanism serves values that are assigned in several places: a `Variable` is an operand that stands
for whatever was last assigned to it, and an `assign` instruction is an assignment. Both exist only inside a
pass: after `run` none is left.

Source: Cytron et al., "Efficiently Computing Static Single Assignment Form" (1991), pruned by liveness.
Cost: linear in program size times the number of repaired values that are live at a place.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm_py.ir import UNDEFINED, VOID, Block, BlockArg, Function, Instruction, Kind, Literal, Op, Type, Value
from dlvm_py.ir.analysis import DominatorTree, LoopForest, predecessors, reverse_postorder
from dlvm_py.ir.op import WRITE


class Variable(Value):
    """A name that is assigned in several places; `default` is its value where it was not yet assigned."""

    __slots__ = ("default",)

    def __init__(self, type: Type, name: str = "", default: Value | None = None) -> None:
        super().__init__(type, name)
        self.default = default if default is not None else Literal(type, UNDEFINED)


ASSIGN = Op(
    "assign",
    Kind.MEMORY,
    lambda operands, attrs: VOID,
    None,
    attrs=("variable",),
    effects=frozenset({WRITE}),
    no_derivative="exists only inside a pass",
)


def assignment(variable: Variable, value: Value) -> Instruction:
    """The instruction that assigns `value` to `variable`, to be placed by the caller."""
    return Instruction(ASSIGN, [value], {"variable": variable})


def run(function: Function) -> bool:
    """Repair `function` in place; whether anything was changed."""
    repair = Repair(function)
    return repair.run()


class Repair:
    """One repair of one function; `added` lists the block arguments that it introduced."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.added: list[BlockArg] = []
        self._order = reverse_postorder(function)
        self._tree = DominatorTree(function)
        self._edges = predecessors(function)

    def run(self) -> bool:
        """Do it; whether anything was changed."""
        self._tracked = self._find_tracked()
        if not self._tracked:
            return False
        self._ended = self._find_ended()
        live_in = self._liveness()
        self._place(live_in)
        self._rename()
        prune(self.function, self.added)
        return True

    # -- what needs repair ---------------------------------------------------------------------------

    def _find_tracked(self) -> set[Value]:
        found: set[Value] = set()
        for block in self._order:
            for i in block.instructions:
                if i.op is ASSIGN:
                    found.add(i.attrs["variable"])
                for o in i.all_operands():
                    if isinstance(o, Variable):
                        found.add(o)
                    elif o not in found and not self._tree.instruction_dominates(o, i):
                        found.add(o)
        return found

    def _find_ended(self) -> dict[Block, set[Value]]:
        """The values that are undefined again at the start of a block, the header of their loop."""
        ended: dict[Block, set[Value]] = {block: set() for block in self._order}
        forest = LoopForest(self.function)
        for value in self._tracked:
            if isinstance(value, BlockArg | Instruction) and value.block is not None:
                loop = forest.loop_of(value.block)
                if loop is not None and not (isinstance(value, BlockArg) and value.block is loop.header):
                    ended[loop.header].add(value)
        return ended

    def _liveness(self) -> dict[Block, set[Value]]:
        exposed: dict[Block, set[Value]] = {}
        self._defined: dict[Block, set[Value]] = {}
        for block in self._order:
            up, down = set(), {a for a in block.args if a in self._tracked} | self._ended[block]
            for i in block.instructions:
                up.update(o for o in i.all_operands() if o in self._tracked and o not in down)
                if i.op is ASSIGN:
                    down.add(i.attrs["variable"])
                elif i in self._tracked:
                    down.add(i)
            exposed[block], self._defined[block] = up, down
        live_in = {block: set(up) for block, up in exposed.items()}
        changed = True
        while changed:
            changed = False
            for block in reversed(self._order):
                live_out = set().union(*(live_in[s] for s in block.successors()))
                new = exposed[block] | (live_out - self._defined[block])
                if len(new) != len(live_in[block]):
                    live_in[block], changed = new, True
        return live_in

    # -- where arguments are needed ------------------------------------------------------------------

    def _frontiers(self) -> dict[Block, set[Block]]:
        frontiers: dict[Block, set[Block]] = {block: set() for block in self._order}
        for block in self._order:
            incoming = [p for p, _ in self._edges[block] if p in frontiers]
            if len(incoming) < 2:
                continue
            for runner in incoming:
                at: Block | None = runner
                while at is not None and at is not self._tree.idom[block]:
                    frontiers[at].add(block)
                    at = self._tree.idom[at]
        return frontiers

    def _place(self, live_in: dict[Block, set[Value]]) -> None:
        frontiers = self._frontiers()
        number = {block: k for k, block in enumerate(self._order)}
        homes: dict[Value, list[Block]] = {}
        for block in self._order:
            for value in self._defined[block]:
                homes.setdefault(value, []).append(block)
        places: dict[Block, list[Value]] = {}
        for value, blocks in homes.items():
            work, seen = list(blocks), set()
            while work:
                for block in frontiers[work.pop()]:
                    if block not in seen and value in live_in[block]:
                        seen.add(block)
                        places.setdefault(block, []).append(value)
                        work.append(block)
        self._args: dict[Block, dict[Value, BlockArg]] = {block: {} for block in self._order}
        # sets have no order of their own; the text of a program must not depend on hashing
        ranks = self._ranks()
        for block in sorted(places, key=number.__getitem__):
            for value in sorted(places[block], key=ranks.__getitem__):
                arg = block.add_arg(value.type, value.name)
                self._args[block][value] = arg
                self.added.append(arg)

    def _ranks(self) -> dict[Value, int]:
        """A number for every tracked value: its first appearance in the program."""
        ranks: dict[Value, int] = {}
        for block in self._order:
            for i in block.instructions:
                for value in (i, *i.all_operands(), i.attrs.get("variable")):
                    if isinstance(value, Value) and value in self._tracked:
                        ranks.setdefault(value, len(ranks))
        return ranks

    # -- renaming ------------------------------------------------------------------------------------

    def _rename(self) -> None:
        self._out: dict[Block, dict[Value, Value]] = {}
        for block in self._order:
            current: dict[Value, Value] = {v: Literal(v.type, UNDEFINED) for v in self._ended[block]}
            current.update((a, a) for a in block.args if a in self._tracked)
            kept = []
            for i in block.instructions:
                needed = {o for o in i.all_operands() if o in self._tracked}
                if needed:
                    i.substitute({o: current[o] if o in current else self._at_start(o, block) for o in needed})
                if i.op is ASSIGN:
                    current[i.attrs["variable"]] = i.operands[0]
                    continue
                if i in self._tracked:
                    current[i] = i
                kept.append(i)
            block.instructions = kept
            self._out[block] = current
        for block in self._order:
            for target in block.targets:
                args = self._args[target.block]
                target.args.extend(self._at_end(value, block) for value in args)

    def _at_start(self, value: Value, block: Block) -> Value:
        arg = self._args[block].get(value)
        if arg is not None:
            return arg
        above = self._tree.idom[block]
        if above is None:
            return value.default if isinstance(value, Variable) else Literal(value.type, UNDEFINED)
        return self._at_end(value, above)

    def _at_end(self, value: Value, block: Block) -> Value:
        at: Block | None = block
        passed = []
        while at is not None and value not in self._out[at] and value not in self._args[at]:
            passed.append(at)
            at = self._tree.idom[at]
        if at is None:
            found = value.default if isinstance(value, Variable) else Literal(value.type, UNDEFINED)
        else:
            found = self._out[at].get(value) or self._args[at][value]
        for b in passed:
            self._out[b][value] = found
        return found


# -- pruning ---------------------------------------------------------------------------------------------


def _key(value: Value) -> object:
    if isinstance(value, Literal):
        return (value.type, type(value.value), repr(value.value))
    return value


def prune(function: Function, candidates: Iterable[BlockArg]) -> dict[Value, Value]:
    """Remove the arguments among `candidates` to which every edge passes one and the same value.

    Returns what each removed argument was replaced by.
    """
    edges = predecessors(function)
    work = [a for a in candidates if edges.get(a.block)]
    replaced: dict[Value, Value] = {}

    def final(value: Value) -> Value:
        while value in replaced:
            value = replaced[value]
        return value

    changed = True
    while changed:
        changed = False
        remaining = []
        for arg in work:
            at = arg.block.args.index(arg)
            incoming = {_key(v): v for v in (final(p.targets[t].args[at]) for p, t in edges[arg.block]) if v is not arg}
            if len(incoming) == 1:
                (replaced[arg],) = incoming.values()
                changed = True
            else:
                remaining.append(arg)
        work = remaining
    if replaced:
        function.substitute(replaced)
        remove_args(function, set(replaced))
    return replaced


def remove_args(function: Function, removed: set[Value]) -> None:
    """Delete formal block arguments together with what is passed to them."""
    for block in function.blocks:
        for target in block.targets:
            formal = target.block.args
            target.args = [v for v, a in zip(target.args, formal, strict=True) if a not in removed]
    for block in function.blocks:
        if any(a in removed for a in block.args):
            block.args = [a for a in block.args if a not in removed]
