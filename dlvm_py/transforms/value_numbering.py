"""Value numbering: what two paths compute alike is computed once, joins and arrays included.

        conditional %c then 'a() else 'b(0.0)           conditional %c then 'a() else 'b(0.0)
    'a():                                           'a():
        %v = load %x: *<_ x f64>                        %v = load %x: *<_ x f64>
        %s = reduce %v: <_ x f64> by max ...            %s = reduce %v: <_ x f64> by max ...
        branch 'b(%s: f64)                              branch 'b(%s: f64)
    'b(%p: f64):                                    'b(%p: f64):
        ...                                             ...
        conditional %c then 'd() else 'e(0.0)   =>      branch 'f()
    'd():                                           'f():
        %w = load %x: *<_ x f64>                        %q = add %p: f64, %p: f64
        %t = reduce %w: <_ x f64> by max ...
        branch 'e(%t: f64)
    'e(%r: f64):
        %q = add %p: f64, %r: f64

Two calls of a function of the library, or of the user's, that were written in place come with their branches and their
temporaries; cse sees neither that two joins give the same nor that two arrays hold the same. Here every value has a
number (value numbering; Alpern, Wegman and Zadeck 1988, Click 1995), and values of one number are equal wherever both
are in scope:

* pure instructions have the number of their op, type, attributes and the numbers of their operands (cse's keys);
* the argument of a join behind a conditional has that of the condition's number and of what the two sides pass; so
  the sides need not dominate anything. Of any join to which all edges pass one number, it is that one. Where the same
  condition has decided again, its number is that of what the one side passed: a derivative's branch, which knows the
  angle by such an argument, finds its cosine in another;
* what is loaded from a parameter that nothing writes, or from an array that is written once, as a whole, before, has
  the number of the place, and of the stored value where all of it is loaded;
* an array that is written once, where it is made, has the number of what it holds;
* all else has a number of its own: arguments of loops, of other joins, results of calls.

Then a scalar goes for one of its number that dominates it, and an array for such an array. Of two arrays in different
blocks that would both melt into the expressions that read them (value_promotion.py) the second stays, unless computing
it costs more than keeping the first. A condition that a conditional or a check has decided on the way is true or
false; so the second call has no branches left, and its kernels are of one block with those of the first.

The dominator tree is walked as in cse. Before value_promotion. Clears up what it has made dead, and looks again until
nothing is found. A second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count

from dlvm_py.frozen import Frozen, Mutable, field
from dlvm_py.ir import OPS, Block, BlockArg, Function, Instruction, Kind, Literal, Value, is_array, is_scalar, literal
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.cfg import bound_blocks, predecessors
from dlvm_py.ir.analysis.cost import STREAM, element_cost
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.transforms import dce, simplify_cfg
from dlvm_py.transforms.cse import key_of
from dlvm_py.transforms.literals import literal_key
from dlvm_py.transforms.substitution import substitute
from dlvm_py.transforms.value_promotion import family_of, single_store, uncast

# what an element must cost to be kept instead of computed again: a store and a load of it, and their misses
_WORTH_KEEPING = 8 * STREAM


def run(function: Function, noalias_params: bool = True) -> bool:
    """Unite what is equal in `function`; whether anything changed."""
    # within a block cse finds as much
    if len(function.blocks) == 1:
        return False
    changed = False
    while _Numbering(function, noalias_params).finds():
        dce.run(function)
        simplify_cfg.run(function)
        changed = True
    return changed


class _Once(Frozen):
    """An array that is written once, as a whole: by which store, and whether it is all in its expressions."""

    store: Instruction
    melts: bool


class _Scope(Mutable):
    """What a block of the dominator tree has made known, to be forgotten when the walk leaves it."""

    leaders: list[int] = field(default_factory=list)
    decided: list[int] = field(default_factory=list)
    refined: list[tuple[BlockArg, int]] = field(default_factory=list)  # arguments of joins, and their numbers before


class _Numbering:
    def __init__(self, function: Function, noalias_params: bool) -> None:
        self.function = function
        self.dominators = of_graph(DominatorTree, function)
        self.edges = predecessors(function)
        self.bound = bound_blocks(function)
        self.once = _written_once(function)
        self.fixed = self._fixed(noalias_params)
        self.unused = count()
        self.numbers: dict[Value, int] = {}
        self.table: dict[Hashable, int] = {}
        self.leaders: dict[int, list[Value]] = {}
        self.decided: dict[int, bool] = {}
        # the number of a condition → scalar arguments of joins behind it, each with what its two sides pass
        self.joins: dict[int, list[tuple[BlockArg, int, int]]] = {}
        self.replaced: dict[Value, Value] = {}
        self.dropped: set[Instruction] = set()
        self.changed = False

    def _fixed(self, noalias_params: bool) -> set[Value]:
        """The parameters whose memory stays as it is."""
        alias = AliasAnalysis(self.function, noalias_params)
        if alias.is_shared:
            return set()
        written = alias.written_params()
        return {p for k, p in enumerate(self.function.params) if k not in written}

    def finds(self) -> bool:
        """Walk the dominator tree, and put the equal for the equal; whether anything changed."""
        children = self.dominators.children
        # None stands for leaving the block whose scope is on top
        pending: list[Block | None] = [self.function.entry]
        scopes: list[_Scope] = []
        while pending:
            block = pending.pop()
            if block is None:
                scope = scopes.pop()
                for number in scope.leaders:
                    self.leaders[number].pop()
                for number in scope.decided:
                    del self.decided[number]
                self.numbers.update(scope.refined)
                continue
            scopes.append(_Scope())
            self._visit(block, scopes[-1])
            pending.append(None)
            # in reverse postorder: what leads to a join comes before it
            pending.extend(reversed(children[block]))
        for block in self.function.blocks:
            if any(i in self.dropped for i in block.instructions):
                block.instructions = [i for i in block.instructions if i not in self.dropped]
        substitute(self.function.blocks, self.replaced)
        return self.changed or bool(self.replaced)

    # -- a block -----------------------------------------------------------------------------------

    def _visit(self, block: Block, scope: _Scope) -> None:
        side = self._side(block)
        if side is not None and side[0] not in self.decided:
            self.decided[side[0]] = side[1]
            scope.decided.append(side[0])
            self._refine(block, *side, scope)
        for k, arg in enumerate(block.args):
            self._enter(arg, self._join_key(block, k), scope)
        for i in block.instructions:
            if i.op is OPS["check"]:
                self._check(i, scope)
            elif i.op is OPS["conditional"]:
                self._conditional(i)
            elif i.op is OPS["store"]:
                self._stored(i, scope)
            elif i.op is OPS["allocateHeap"]:
                self._allocated(i)
            elif not i.op.is_terminator:
                self._enter(i, self._key(i), scope)

    def _side(self, block: Block) -> tuple[int, bool] | None:
        """The number of a condition and what it was, where it was that on all ways to a block."""
        edges = self.edges[block]
        if len(edges) != 1:
            return None
        end = edges[0][0].terminator
        if end is None or end.op is not OPS["conditional"]:
            return None
        return self._number(end.operands[0]), edges[0][1] == 0

    def _refine(self, block: Block, condition: int, holds: bool, scope: _Scope) -> None:
        """Behind a condition, the arguments of joins that it decided are what its one side passed."""
        for arg, *numbers in self.joins.get(condition, ()):
            if self.dominators.dominates(arg.block, block):
                scope.refined.append((arg, self.numbers[arg]))
                number = self.numbers[arg] = numbers[not holds]
                if self._leader(number) is None:
                    self._lead(arg, number, scope)

    def _check(self, i: Instruction, scope: _Scope) -> None:
        condition = self._number(i.operands[0])
        if i.attrs.get("assuming") is not None:
            return
        if self.decided.get(condition):
            self.dropped.add(i)
            self.changed = True
        elif condition not in self.decided:
            self.decided[condition] = True
            scope.decided.append(condition)

    def _conditional(self, i: Instruction) -> None:
        known = self.decided.get(self._number(i.operands[0]))
        if known is not None and not isinstance(i.operands[0], Literal):
            i.operands = [literal(known)]
            self.changed = True

    # -- numbers -----------------------------------------------------------------------------------

    def _number(self, value: Value) -> int:
        if isinstance(value, Literal):
            return self._of_key(("literal", literal_key(value)))
        found = self.numbers.get(value)
        if found is None:
            found = self.numbers[value] = next(self.unused)
        return found

    def _of_key(self, key: Hashable) -> int:
        found = self.table.get(key)
        if found is None:
            found = self.table[key] = next(self.unused)
        return found

    def _enter(self, value: Value, key: Hashable | None, scope: _Scope) -> None:
        """Number a value; a scalar goes for one of its number that is known already."""
        if key is None:
            self._number(value)
            return
        number = self.numbers[value] = key if isinstance(key, int) else self._of_key(key)
        if not is_scalar(value.type):
            return
        leader = self._leader(number)
        if leader is None:
            self._lead(value, number, scope)
        elif leader.type == value.type:
            self.replaced[value] = leader
            if isinstance(value, Instruction):
                self.dropped.add(value)

    def _lead(self, value: Value, number: int, scope: _Scope) -> None:
        self.leaders.setdefault(number, []).append(value)
        scope.leaders.append(number)

    def _leader(self, number: int) -> Value | None:
        known = self.leaders.get(number)
        return known[-1] if known else None

    def _join_key(self, block: Block, k: int) -> Hashable | None:
        edges = self.edges[block]
        if block is self.function.entry or block in self.bound:
            return None
        passed = [p.targets[t].args[k] for p, t in edges]
        if not all(isinstance(v, Literal) or v in self.numbers for v in passed):
            return None  # the head of a loop
        numbers = [self._number(v) for v in passed]
        if len(set(numbers)) == 1:
            return numbers[0]
        above = self.dominators.idom.get(block)
        end = above.terminator if above is not None else None
        if len(edges) != 2 or end is None or end.op is not OPS["conditional"]:
            return None
        sides = [self._way(end, *edge) for edge in edges]
        if sorted(map(repr, sides)) != ["0", "1"]:
            return None
        first, second = numbers if sides[0] == 0 else numbers[::-1]
        condition, arg = self._number(end.operands[0]), block.args[k]
        if is_scalar(arg.type):
            self.joins.setdefault(condition, []).append((arg, first, second))
        return "join", condition, arg.type, first, second

    def _way(self, end: Instruction, leaving: Block, index: int) -> int | None:
        """Which target of a conditional all ways to an edge take; None where that is not one."""
        if leaving is end.block:
            return index
        for k, target in enumerate(end.targets):
            if len(self.edges[target.block]) == 1 and self.dominators.dominates(target.block, leaving):
                return k
        return None

    def _key(self, i: Instruction) -> Hashable | None:
        if i.op is not OPS["load"]:
            return key_of(i, self._number)
        (pointer,) = i.operands
        base = pointer
        while isinstance(base, Instruction) and base.op.kind is Kind.INDEX:
            base = base.operands[0]
        once = self.once.get(base)
        if once is not None and self.dominators.instruction_dominates(once.store, i):
            stored = once.store.operands[0]
            if uncast(pointer) is base and stored.type == i.type:
                return self._number(stored)
            return "load", i.type, self._number(pointer)
        return ("load", i.type, self._number(pointer)) if base in self.fixed else None

    # -- arrays ------------------------------------------------------------------------------------

    def _allocated(self, i: Instruction) -> None:
        once = self.once.get(i)
        if once is None or once.store.block is not i.block or once.store.operands[0] not in self.numbers:
            self._number(i)
            return
        value = once.store.operands[0]
        number = self.numbers[i] = self._of_key(("array", i.type, *map(self._number, i.operands), self._number(value)))
        leader = self._leader(number)
        if isinstance(leader, Instruction) and self._pays(leader, i):
            self.replaced[i] = leader
            self.dropped.update((i, once.store))

    def _stored(self, store: Instruction, scope: _Scope) -> None:
        """From here on an array may go for another one that holds the same."""
        array = uncast(store.operands[1])
        once = self.once.get(array)
        if once is not None and once.store is store and array not in self.replaced and array.block is store.block:
            self._lead(array, self._number(array), scope)

    def _pays(self, first: Instruction, second: Instruction) -> bool:
        if first.block is second.block or not (self.once[first].melts and self.once[second].melts):
            return True
        return element_cost(self.once[second].store.operands[0], self._held) >= _WORTH_KEEPING

    def _held(self, load: Instruction) -> Value | None:
        """What a load finds in an array that melts into the expressions that read it."""
        once = self.once.get(uncast(load.operands[0]))
        return once.store.operands[0] if once is not None and once.melts else None


def _written_once(function: Function) -> dict[Value, _Once]:
    users = uses(function)
    found: dict[Value, _Once] = {}
    for i in function.instructions():
        if i.op is not OPS["allocateHeap"]:
            continue
        family = family_of(i, users)
        store = single_store(i, family)
        if store is not None and is_array(store.operands[0].type):
            loads = [j for j in family if j.op is OPS["load"]]
            melts = all(j.block is store.block and uncast(j.operands[0]) is i for j in loads)
            found[i] = _Once(store, melts)
    return found
