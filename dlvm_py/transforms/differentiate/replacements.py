"""Running choices: of a number that the trips of a loop replace, and nothing else, the last replacement alone matters.

    'loop(%k, %least):                               'loop(%k, %least, %found: bool, %at: i64):
        %m = lessThan %k, %n                             %m = lessThan %k, %n
        conditional %m then 'body() else 'exit()         conditional %m then 'body() else 'chosen()
    'body():                                         'body():
        %v = ... (of %k)                                 %v = ... (of %k)
        %c = lessThan %v, %least                 =>      %c = lessThan %v, %least
        conditional %c then 'next(%v)                    conditional %c then 'next(%v, true, %k)
                       else 'next(%least)                               else 'next(%least, %found, %at)
    'next(%w):                                       'next(%w, %found_0, %at_0):
        branch 'loop(%k + 1, %w)                         branch 'loop(%k + 1, %w, %found_0, %at_0)
    'exit():                                         'chosen(): conditional %found then 'again() else 'exit(%first)
        ... %least ...                               'again():  %v_0 = ... (of %at);  branch 'exit(%v_0)
                                                     'exit(%least_0): ... %least_0 ...

This is how a minimum, a best candidate or a nearest neighbour is written as a loop. With the choice as data (which trip
it was) the loop carries no derivative: its decisions are not recorded, and nothing goes back through all of its trips,
where the adjoint was zero but for one. What the one trip computed is computed again behind the loop, of the same
operands: the same bits. What compares what was chosen goes on with the value from the loop.

A float that a loop carries is taken out of it if

* the loop is left at its head alone, and what it passes on is what it was or, at one place (of the loop or of a loop in
  it), a new value, which does not depend on what is carried but for integers and bools: those are carried from that
  trip on beside it;
* within the loop it is compared at most;
* what the new value needs can be computed again: pure steps and loads of memory that the loop does not write.

For every function that is differentiated, in either mode, on the copy that is made of it.
"""

from __future__ import annotations

from dlvm_py.ir import Block, BlockArg, Builder, Function, Instruction, Target, TensorType, Value, literal
from dlvm_py.ir.analysis import LoopForest, predecessors, uses
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.counted_loops import is_outside
from dlvm_py.ir.analysis.effects import is_pure, writes_memory, written_pointer
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.types import BOOL, scalar
from dlvm_py.transforms.differentiate.activity import carries_derivative, differentiable_operands
from dlvm_py.transforms.inline import clone_region
from dlvm_py.transforms.ssa_repair import remove_args

_LARGE = 200  # instructions that are computed again


def run(function: Function) -> bool:
    """Take what loops of `function` choose out of them; whether there was any."""
    changed = False
    done: set[Value] = set()
    while (choice := _first(function, done)) is not None:
        done.update((choice.carried, *choice.carriers))
        choice.take_out()
        changed = True
    return changed


def _first(function: Function, done: set[Value]) -> _Choice | None:
    """A choice that has not been taken out yet, outer loops first."""
    forest = LoopForest(function)
    if not any(_may_be_chosen(a) and a not in done for loop in forest.loops for a in loop.header.args):
        return None
    edges, users = predecessors(function), uses(function)
    for loop in forest.loops:
        for arg in loop.header.args:
            if _may_be_chosen(arg) and arg not in done:
                try:
                    return _Choice(function, forest, edges, users, loop, arg)
                except _No:
                    continue
    return None


def _may_be_chosen(arg: BlockArg) -> bool:
    return carries_derivative(arg) and isinstance(arg.type, TensorType) and not arg.type.shape


class _No(Exception):
    """It is no choice, or cannot be made again."""


class _Choice:
    """What one argument of the header of a loop carries.

    carriers: it, and what it is within the loop. place: the end of the block, or the select, that replaces it by `new`.
    chain: the loop and those in it around that place. again: the blocks that lead there, in the trip that it was.
    """

    def __init__(
        self,
        function: Function,
        forest: LoopForest,
        edges: dict[Block, list[tuple[Block, int]]],
        users: dict[Value, list[Instruction]],
        loop: Loop,
        carried: BlockArg,
    ) -> None:
        self.function, self.loop, self.carried, self.edges = function, loop, carried, edges
        self.first = self._before_and_exit()
        self.carriers: dict[Value, None] = {}
        self.place: Instruction | None = None
        self.new: Value = carried
        for block in loop.latches:
            for t in block.targets:
                if t.block is loop.header:
                    self._expand(t.args[loop.header.args.index(carried)], block.instructions[-1])
        if self.place is None:
            raise _No
        self._check_users(users)
        self.chain = self._chain(forest)
        self.again = self._region()
        self.needed = self._needed()
        self._check_memory(function)

    # -- what it is ------------------------------------------------------------------------------------

    def _before_and_exit(self) -> Value:
        """What is carried into the first trip."""
        header, at = self.loop.header, self.loop.header.args.index(self.carried)
        if self.loop.exiting_block is not header:
            raise _No
        firsts = {p.targets[k].args[at]: None for p, k in self.edges[header] if not self.loop.contains(p)}
        if len(firsts) != 1:
            raise _No
        return next(iter(firsts))

    def _expand(self, value: Value, at: Instruction) -> None:
        """Look through what passes on what was carried; `at` is the instruction that passes the value."""
        if value is self.carried or value in self.carriers:
            return
        if self._passes_on(value, set()):
            self.carriers[value] = None
            if isinstance(value, BlockArg):
                k = value.block.args.index(value)
                for p, t in self.edges[value.block]:
                    self._expand(p.targets[t].args[k], p.instructions[-1])
            else:
                assert isinstance(value, Instruction)
                for v in value.operands[:2]:
                    self._expand(v, value)
            return
        if self.place is not None or is_outside(value, self.loop):
            raise _No
        self.place, self.new = at, value

    def _passes_on(self, value: Value, seen: set[Value]) -> bool:
        """Whether a value is, on one way at least, what was carried."""
        if value is self.carried:
            return True
        if value in seen or is_outside(value, self.loop):
            return False
        seen.add(value)
        if isinstance(value, BlockArg):
            k = value.block.args.index(value)
            return any(self._passes_on(p.targets[t].args[k], seen) for p, t in self.edges[value.block])
        if isinstance(value, Instruction) and value.op.name == "select" and value.type == self.carried.type:
            return any(self._passes_on(v, seen) for v in value.operands[:2])
        return False

    def _check_users(self, users: dict[Value, list[Instruction]]) -> None:
        """Within the loop it is compared, or passed on to what carries it; behind it a derivative may flow."""
        for v in (self.carried, *self.carriers):
            for user in users.get(v, ()):
                if user.block in self.loop.blocks and not self._is_harmless(user):
                    raise _No
        behind = [u for u in users.get(self.carried, ()) if u.block not in self.loop.blocks]
        header = self.loop.header
        left = any(self.carried in t.args for t in header.targets if t.block not in self.loop.blocks)
        if not left and all(_compares(u) for u in behind):
            raise _No
        for v in (self.carried, *self.carriers):
            for block in self.loop.ordered:
                for t in block.targets:
                    for a, formal in zip(t.args, t.block.args, strict=True):
                        inside = t.block in self.loop.blocks
                        if a is v and inside and formal is not self.carried and formal not in self.carriers:
                            raise _No

    def _is_harmless(self, user: Instruction) -> bool:
        return user in self.carriers or _compares(user) or bool(user.targets) and user.op.name != "return"

    # -- the trip that it was --------------------------------------------------------------------------

    def _chain(self, forest: LoopForest) -> list[Loop]:
        assert self.place is not None and self.place.block is not None
        loop = forest.loop_of(self.place.block)
        found: list[Loop] = []
        while loop is not None and loop is not self.loop:
            found.append(loop)
            loop = loop.parent
        return [self.loop, *reversed(found)]

    def _returns(self, block: Block, target: Block) -> bool:
        """Whether an edge begins another trip of a loop of the chain."""
        return any(target is loop.header and loop.contains(block) for loop in self.chain)

    def _region(self) -> list[Block]:
        """The blocks on the ways to the place within one trip of each loop of the chain, the header first."""
        assert self.place is not None and self.place.block is not None
        found = {self.place.block}
        work = [self.place.block]
        while work:
            block = work.pop()
            if block is self.loop.header:
                continue
            for p, _ in self.edges[block]:
                if p not in found and p in self.loop.blocks and not self._returns(p, block):
                    found.add(p)
                    work.append(p)
        return [b for b in self.loop.ordered if b in found]

    def _goes_on(self, block: Block) -> list[Target]:
        """The edges of a block that stay among those that are run again."""
        assert self.place is not None
        if block is self.place.block:
            return []
        return [t for t in block.targets if t.block in self.again and not self._returns(block, t.block)]

    def _needed(self) -> dict[Value, None]:
        """What the new value depends on; the arguments of the chain's headers among it are what is recorded."""
        region = set(self.again)
        heads = {loop.header for loop in self.chain}
        work = [self.new]
        work += [b.instructions[-1].operands[0] for b in self.again if len(self._goes_on(b)) > 1]
        found: dict[Value, None] = {}
        while work:
            value = work.pop()
            if value in found or is_outside(value, self.loop):
                continue
            found[value] = None
            if value is self.carried or value in self.carriers or len(found) > _LARGE:
                raise _No
            if isinstance(value, BlockArg):
                if value.block in heads:
                    if not isinstance(value.type, TensorType) or value.type.shape or carries_derivative(value):
                        raise _No
                    continue
                k = value.block.args.index(value)
                work += [p.targets[t].args[k] for p, t in self.edges[value.block] if p in region]
            else:
                assert isinstance(value, Instruction)
                if not (is_pure(value) or value.op.name == "load"):
                    raise _No
                work += value.operands
        return found

    def _check_memory(self, function: Function) -> None:
        loads = [i.operands[0] for i in self.needed if isinstance(i, Instruction) and i.op.name == "load"]
        writers = [i for b in self.loop.ordered for i in b.instructions if writes_memory(i)]
        if not loads or not writers:
            return
        alias = AliasAnalysis(function, noalias_params=False)
        for i in writers:
            to = written_pointer(i)
            if to is None or any(alias.may_alias(to, p) for p in loads):
                raise _No

    # -- taking it out ---------------------------------------------------------------------------------

    def take_out(self) -> None:
        """Record which trip it was, and compute behind the loop what that trip computed."""
        header = self.loop.header
        index = next(k for k, t in enumerate(header.targets) if t.block not in self.loop.blocks)
        heads = {loop.header for loop in self.chain}
        recorded = [v for v in self.needed if isinstance(v, BlockArg) and v.block in heads]
        found, *at = self._record(recorded)
        b = Builder(self.function)
        b.loc = self.place.loc if self.place is not None else None
        chosen = self.function.new_block("chosen", after=self.loop.ordered[-1])
        copies, value = self._copy(dict(zip(recorded, at, strict=True)))
        for block in reversed(copies):
            self.function.blocks.insert(self.function.blocks.index(chosen) + 1, block)
        behind = self.function.new_block("behind", after=copies[-1])
        result = behind.add_arg(self.carried.type, self.carried.name)
        b.at_end(chosen).conditional(found, copies[0], [], behind, [self.first])
        self._place_of(copies).branch(behind, [value])
        out = header.targets[index]
        header.targets[index] = Target(chosen)
        b.at_end(behind).branch(out.block, [result if v is self.carried else v for v in out.args])
        kept = {*self.loop.blocks, *copies, chosen, behind}
        for block in self.function.blocks:
            if block not in kept:
                for i in block.instructions:
                    if not _compares(i):
                        i.substitute({self.carried: result})

    def _record(self, recorded: list[BlockArg]) -> list[Value]:
        """Carry beside it whether it was replaced, and the recorded values of the trip in which it was."""
        types = [scalar(BOOL), *(v.type for v in recorded)]
        now: list[Value] = [literal(True), *recorded]
        names = ["found", *(v.name for v in recorded)]
        beside: dict[Value, list[Value]] = {}
        for v in (self.carried, *self.carriers):
            if isinstance(v, BlockArg):
                beside[v] = [v.block.add_arg(t, name) for t, name in zip(types, names, strict=True)]
        selects = [v for v in self.carriers if isinstance(v, Instruction)]

        def of(value: Value) -> list[Value]:
            if value is self.new and value not in beside:
                return now
            if value not in beside:
                assert isinstance(value, Instruction) and value in selects
                x, y, condition = value.operands
                b = Builder(self.function).after(value)
                pairs = zip(of(x), of(y), strict=True)
                beside[value] = [b.emit("select", p, q, condition) for p, q in pairs]
            return beside[value]

        for v in selects:
            of(v)
        first: list[Value] = [literal(False), *(literal(0, t) for t in types[1:])]  # type: ignore[arg-type]
        for v in (self.carried, *self.carriers):
            if isinstance(v, BlockArg):
                k = v.block.args.index(v)
                for p, t in self.edges[v.block]:
                    inside = p in self.loop.blocks
                    p.targets[t].args += of(p.targets[t].args[k]) if inside else first
        return beside[self.carried]

    def _copy(self, recorded: dict[Value, Value]) -> tuple[list[Block], Value]:
        """The blocks of the trip, without what the new value does not need and where else they might go."""
        assert self.place is not None
        ends = {b: self._goes_on(b) for b in self.again}
        mapping: dict[Value, Value] = {}
        copies = clone_region(self.again, mapping, "again_")
        copy_of = dict(zip(self.again, copies, strict=True))
        needed = {mapping[v] for v in self.needed}
        for block, copy in copy_of.items():
            last = copy.instructions[-1]
            copy.instructions = [i for i in copy.instructions[:-1] if i in needed]
            if block is self.place.block:
                continue
            if len(ends[block]) > 1:
                copy.append(last)
                continue
            (target,) = ends[block]
            Builder(self.function, copy).branch(copy_of[target.block], [mapping.get(v, v) for v in target.args])
        heads = {copy_of[loop.header] for loop in self.chain}
        dropped: set[Value] = {a for copy in copies for a in copy.args if a not in needed or copy in heads}
        part = Function("part", self.function.result)
        part.blocks = copies
        remove_args(part, dropped)
        fixed = {mapping[v]: at for v, at in recorded.items()}
        part.substitute(fixed)
        value = mapping[self.new]
        return copies, fixed.get(value, value)

    def _place_of(self, copies: list[Block]) -> Builder:
        assert self.place is not None and self.place.block is not None
        return Builder(self.function, copies[self.again.index(self.place.block)])


def _compares(i: Instruction) -> bool:
    """Whether no derivative flows through `i`, and nothing but its result comes of it."""
    return is_pure(i) and not i.targets and not carries_derivative(i) and not differentiable_operands(i)
