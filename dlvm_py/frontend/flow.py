"""Control flow: branches, and loops with block arguments.

A loop header is built before its body is known, so its types are a guess: the types on entry, joined
with what earlier attempts learned. If a back edge brings a wider type, all blocks of the attempt are
dropped, the wider type is remembered for that loop, and the loop is translated again. Types only widen,
and what an inner loop has learned is kept, so the number of attempts is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dlvm_py.frontend import objects, regions
from dlvm_py.frontend.emit import Emitter, Unreachable, i64
from dlvm_py.frontend.facts import I64_MAX
from dlvm_py.frontend.facts import key as name_of
from dlvm_py.frontend.joined_values import (
    arguments,
    fresh,
    identical_values,
    located,
    mixed,
    others_of,
)
from dlvm_py.frontend.liveness import Each, Liveness, rebinds, writes
from dlvm_py.frontend.merges import Edge, Env, Merging
from dlvm_py.frontend.value_types import (
    EitherType,
    ScalarType,
    definite,
    lesson,
    one_type,
    regions_in,
    same_type,
    type_of,
)
from dlvm_py.frontend.values import (
    Array,
    Binding,
    Conflict,
    Iteration,
    Mixed,
    Object,
    Other,
    Record,
    Scalar,
    Sequence,
)
from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import BOOL, I64, Block, Value, literal, scalar

_COUNTER_STEP, _COUNTER_START, _COUNTER_END = 16, 2**40, 2**62


class LoopContext(Mutable, eq=False):
    """Where `break` and `continue` go, and the names that live there."""

    after: frozenset[str]
    header: frozenset[str]
    assigned: frozenset[str]
    expected: Env = field(default_factory=dict)  # bindings of the carried names in the header
    entry: dict[str, Value] = field(default_factory=dict)  # their values before the loop, where they are scalars
    first: dict[str, Scalar] = field(default_factory=dict)  # those whose type is not that in the header
    is_first: Value | None = None  # of a loop without a counter that has such: whether no iteration has ended
    beside: dict[str, str] = field(default_factory=dict)  # names whose kind is said by the place of another name
    held: Env = field(default_factory=dict)  # what objects hold in the header
    single: frozenset[str] = frozenset()  # objects that one name alone refers to when the loop is entered
    breaks: list[Edge] = field(default_factory=list)
    continues: list[Edge] = field(default_factory=list)
    leaves: int = 0  # the first of the loops that `break` ends, counted from 1; 0 where it is this one
    repeats: bool = True  # False where the body is there once for each time that it runs


class Flow(Merging):
    """The part of a Frame (frame.py) that translates branches and loops."""

    live: Liveness
    loops: list[LoopContext]
    returns: list[Edge]
    learned: dict[tuple[Any, str], Any]
    counters: dict[tuple[Any, str], tuple[int, int]]
    apart: set[tuple[Any, str]]  # names of several kinds that a loop tells apart from others
    unset: set[tuple[Any, str]]  # names that an iteration may leave without a value
    branching: int  # how many branches and loops of this frame what is translated stands in
    folded: frozenset[str]  # names that are bound anew by what is done with the items of generators

    # -- branches --------------------------------------------------------------------------------

    def branches(
        self,
        condition: Value,
        then: Callable[[], None],
        other: Callable[[], None],
        names: Iterable[str] | None = None,
    ) -> None:
        """Run two pieces of translation on the two sides of a run-time condition, and merge."""
        then_block, other_block = self.e.function.new_block("then"), self.e.function.new_block("else")
        self.e.builder.conditional(condition, then_block, None, other_block)
        env, edges, loc = self.env, [], self.e.loc
        for block, action in ((then_block, then), (other_block, other)):
            self.start(block)
            self.env = dict(env)
            depth = self.e.facts.push()
            if block is then_block:
                self.e.facts.remember(("checked", condition), True)
            self.e.facts.assume(condition, block is then_block)
            self.branching += 1
            try:
                action()
            except Unreachable:
                self.stop()
            finally:
                self.branching -= 1
            self.e.builder.loc = loc
            if self.alive:
                edges.append(self.jump(names))
            self.e.facts.pop(depth)
        self.merge(edges)

    # -- loops -----------------------------------------------------------------------------------

    def loop(
        self,
        node: Any,
        test: Callable[[], Value] | None,
        iteration: Iteration | None,
        bind: Callable[[Any], None],
        body: Callable[[], None],
        orelse: Callable[[], None],
    ) -> None:
        """A `while` (test) or counted `for` (iteration); translated until its types are stable."""
        depth = self.e.facts.push()
        self.branching += 1
        try:
            while True:
                undo = self.checkpoint()
                if self._attempt(node, test, iteration, bind, body, orelse):
                    break
                undo()
        finally:
            self.branching -= 1
        self.e.facts.pop(depth)

    def checkpoint(self) -> Callable[[], None]:
        """What takes back all that is translated from here on; called where a scope of facts has just been opened."""
        e, block, env, loc = self.e, self.e.block, dict(self.env), self.e.loc
        count, last = len(e.function.blocks), block.instructions[-1] if block.instructions else None
        lists: list[list[Any]] = [self.returns, *(x for c in self.loops for x in (c.breaks, c.continues))]
        lists += [c.raised for statement in e.tries for c in statement.clauses]
        lengths, contexts, depth = [len(x) for x in lists], len(self.loops), len(e.facts.scopes)
        made, kept = dict(self.made), self.keeps_all

        def undo() -> None:
            del e.function.blocks[count:]
            del block.instructions[block.instructions.index(last) + 1 if last else 0 :]
            for items, length in zip(lists, lengths, strict=True):
                del items[length:]
            del self.loops[contexts:]
            e.facts.pop(depth)
            e.facts.scopes[-1].clear()  # the scope that `loop` opened: its values are gone
            self.start(block)
            self.env, e.builder.loc = dict(env), loc
            self.made, self.keeps_all = dict(made), kept

        return undo

    def _attempt(self, node: Any, test: Any, iteration: Any, bind: Any, body: Any, orelse: Any) -> bool:
        e = self.e
        if isinstance(node, Each):  # inside of an expression: all names are live
            every = frozenset(n for n in self.env if not n.startswith(objects.PREFIX))
            context = LoopContext(every | node.kept, every | node.assigned, node.assigned)
        else:
            names = (self.live.after[node], self.live.header[node], writes([node]))
            context = LoopContext(*(n | self.folded for n in names) if self.folded else names)
        header = e.function.new_block("loop")
        counter = header.add_arg(scalar(I64), "k") if iteration else None
        types = self._enter(node, context, header, counter)
        e.facts.push()
        exits = []
        if counter is not None:
            condition: Value = e.emit("lessThan", counter, iteration.count)
        else:
            condition = test()
        always = getattr(condition, "value", None) is True
        if not always:
            inside, outside = e.function.new_block("body"), e.function.new_block("exit")
            e.builder.conditional(condition, inside, None, outside)
            exits.append((outside, dict(self.env)))
            self.start(inside)
        inner = e.facts.push()
        e.facts.remember(("checked", condition), True)  # the body runs only where the condition holds
        e.facts.assume(condition)
        self.loops.append(context)
        if counter is not None:
            self._know_counter(counter, iteration.count)
            if context.first:
                self._bind_first(context, e.compare("equal", counter, i64(0)))
            bind(iteration.item(counter))
        body()
        if self.alive:
            context.continues.append(self.jump(context.header, context.expected))
        self.loops.pop()
        e.facts.pop(inner)  # the body's end does not dominate the latch (continue) or the exits (no iteration)
        if not self._close(node, context, header, counter, types):
            return False
        edges = list(context.breaks)
        for block, env in exits:
            self.start(block)
            self.env = env
            depth = e.facts.push()
            if iteration is not None and context.first:
                self._bind_first(context, e.compare("lessThanOrEqual", iteration.count, i64(0)))
            orelse()
            if self.alive:
                edges.append(self.jump(context.after))
            e.facts.pop(depth)
        self.merge(edges, "after")
        return True

    def _enter(self, node: Any, context: LoopContext, header: Block, counter: Value | None) -> dict[str, Any]:
        """Branch to the header with the entry values; bind the carried names to its arguments."""
        e = self.e
        self._follow_moved()
        for (place, _), t in self.learned.items():
            for region in regions_in(t) if place == node else ():
                regions.open_region(e, region)
        rebound = node.assigned if isinstance(node, Each) else rebinds([node]) | self.folded
        self._stand_in(sorted(context.assigned & context.header & rebound))
        types: dict[str, Any] = {}
        env, args, flags = dict(self.env), [i64(0)] if counter is not None else [], {}
        places: dict[Any, str] = {}
        depth = e.facts.push()
        held = sorted(n for n in self.env if n.startswith(objects.PREFIX))
        references = objects.references(self.env, sorted(self._reached(context.header) - set(held)))
        context.single = frozenset(k for k, n in references.items() if n == 1 and k not in self.inherited)
        # an object is carried if an earlier attempt has found that an iteration changes it
        changed = [n for n in held if (node, n) in self.learned]
        for name in [*sorted(context.assigned & context.header), *changed]:
            binding = self.env.get(name)
            if name not in rebound and name not in changed and binding and binding.is_set is None:
                if isinstance(binding.value, Array):  # only written in place
                    continue
            t = self.learned.get((node, name))
            if binding is not None:
                entry = type_of(e, binding.value)
                t = entry if t is None else self._joined(name, entry, t)
            t = types[name] = one_type(definite(t))
            if t is None:
                continue
            if binding is not None and isinstance(binding.value, Scalar):
                context.entry[name] = binding.value.value
                if isinstance(t, ScalarType) and self.source.at is None and type_of(e, binding.value) != t:
                    context.first[name] = binding.value
            if not isinstance(t, Conflict):
                passed = arguments(e, binding.value if binding else None, t)
                if isinstance(t, EitherType) and (node, name) not in self.apart:
                    first = places.setdefault((len(t.items), name_of(passed[0])), name)
                    if first != name:
                        context.beside[name] = first
                        passed.pop(0)
                args.extend(passed)
            if binding is None or binding.is_set is not None or (node, name) in self.unset:
                flags[name] = literal(False) if binding is None else _flag(binding)
                args.append(flags[name])
        e.facts.pop(depth)
        if context.first and counter is None:
            args.append(literal(True))
        e.builder.branch(header, args)
        self.start(header)
        for name, t in types.items():
            if t is None:
                continue
            binding = self.env.get(name)
            if isinstance(t, Conflict):
                value = located(t, name, [binding] if binding else [])
            else:
                beside = context.beside.get(name)
                value = fresh(e, t, header, name, None if beside is None else env[beside].value.place)
            is_set = header.add_arg(scalar(BOOL), f"{name}_is_set") if name in flags else None
            env[name] = Binding(value, binding.loc if binding else None, is_set)
            context.expected[name] = env[name]
            if (node, name) in self.counters and is_set is None and isinstance(value, Scalar) and value.dtype is I64:
                e.facts.interval[value.value] = self.counters[node, name]
        if context.first and counter is None:
            context.is_first = header.add_arg(scalar(BOOL), "is_first")
        self.env = env
        if context.is_first is not None:
            self._bind_first(context, context.is_first)
        context.held = {n: env[n] for n in held}
        return types

    def _bind_first(self, context: LoopContext, flag: Value) -> None:
        """Let names have the types from before the loop where `flag` holds: where no iteration has ended.

        s = 0                            s is 0.0 in the header, and the int 0 where no iteration has been, which the
        for v in x: s += v               counter says in the body and the count behind the loop: nothing is carried
        """
        e = self.e
        for name, value in context.first.items():
            binding, other = self.env[name], flag
            own = others_of(value)
            found = [Other(e.both(flag, o.flag), o.scalar) for o in own]
            for o in own:
                other = e.both(other, e.pure("not", o.flag))
            found.append(Other(other, Scalar(value.value, value.weak)))
            here = binding.value
            found = [o for o in found if (o.scalar.dtype, o.scalar.weak) != (here.dtype, here.weak)]
            self.env[name] = Binding(mixed(here, found), binding.loc, binding.is_set)

    def _stand_in(self, names: list[str]) -> None:
        """Give names that a loop binds anew an object of their own, where they begin with one of the caller's.

        It cannot be changed either: it may be the caller's still.
        """
        for name in names:
            binding = self.env.get(name)
            if binding is not None and isinstance(binding.value, Object) and binding.value.origin:
                old = binding.value
                if not old.key.startswith(objects.PREFIX):
                    new = Object(self._joined_key([self.env]), old.origin)
                    self.env[new.key] = Binding(old.contents, binding.loc)
                    self.env[name] = Binding(new, binding.loc, binding.is_set)

    def _know_counter(self, counter: Value, count: Value) -> None:
        """Facts of the counter inside the body, where 0 <= counter < count."""
        facts = self.e.facts
        facts.interval[counter] = (0, min(facts.range_of(count)[1], I64_MAX) - 1)
        facts.below[counter] = [(count, 0)]
        for known in (facts.linear.get(count), facts.clamped.get(count)):
            if known is not None:
                facts.below[counter].append(known)

    def _close(
        self, node: Any, context: LoopContext, header: Block, counter: Value | None, types: dict[str, Any]
    ) -> bool:
        """The back edge. False if it brings wider types than the header has: they are learned."""
        depth = self.e.facts.push()  # what an iteration has found does not hold where there was none
        closed = self._close_here(node, context, header, counter, types)
        self.e.facts.pop(depth)
        return closed

    def _close_here(
        self, node: Any, context: LoopContext, header: Block, counter: Value | None, types: dict[str, Any]
    ) -> bool:
        e = self.e
        self.merge(context.continues, "latch")
        if not self.alive:
            return True
        for name in types:
            if (binding := self.env.get(name)) is not None:
                self.env[name] = self._settled(binding, context.expected.get(name), [])
        self._rename_back(context, types)
        stable = self._learn_changed(node, context, types)
        for name, t in types.items():
            binding = self.env.get(name)
            if binding is None:
                continue
            back = one_type(type_of_settled(e, binding.value))
            joined = back if t is None else one_type(self._joined(name, t, back))
            if isinstance(joined, Conflict):
                joined = located(joined, name, [b for b in (context.expected.get(name), binding) if b])
            if t is None or not same_type(joined, t):
                self.learned[node, name] = lesson(joined)
                stable = False
            elif binding.is_set is not None and context.expected[name].is_set is None and name not in context.held:
                self.unset.add((node, name))
                stable = False
        if not stable or self._found_counter(node, context):
            return False
        args = [] if counter is None else [e.offset(counter, 1)]
        places: dict[str, Value] = {}
        for name, t in types.items():
            if t is None:
                continue
            binding = self.env.get(name)
            if not isinstance(t, Conflict):
                passed = arguments(e, binding.value if binding else None, t)
                if isinstance(t, EitherType):
                    places[name] = passed[0]
                    if name in context.beside:
                        passed.pop(0)
                args.extend(passed)
            if context.expected[name].is_set is not None:
                args.append(literal(False) if binding is None else _flag(binding))
        if context.is_first is not None:
            args.append(literal(False))
        apart = {(node, n) for n, first in context.beside.items() if name_of(places[n]) != name_of(places[first])}
        if apart:
            self.apart |= apart
            return False
        e.builder.branch(header, args)
        return True

    def _rename_back(self, context: LoopContext, types: dict[str, Any]) -> None:
        """Let objects that the iteration has made take the place of those that their names had at its begin."""
        wanted: dict[str, Object] = {}
        for name in types:
            if name in self.env and name in context.expected and name not in context.held:
                values = [context.expected[name].value, self.env[name].value]
                for old, new in objects.differing(values, [context.held, self.env]):
                    if old is not None and new is not None:
                        wanted.setdefault(new.key, old)
        if not wanted:
            return
        counts = objects.references(self.env, [n for n in self.env if not n.startswith(objects.PREFIX)])
        for key, old in list(wanted.items()):
            free = old.key not in counts or old.key in wanted
            if not (free and counts[key] == 1 and old.key in context.single):
                return
        for key, old in wanted.items():
            self.e.session.known.unite(key, old.key)
        self.env = objects.rename(self.env, wanted)

    def _learn_changed(self, node: Any, context: LoopContext, types: dict[str, Any]) -> bool:
        """Whether all objects that the iteration has changed are carried already; else they are from now on."""
        e, stable = self.e, True
        for key, before in context.held.items():
            binding = self.env.get(key)
            if key in types or binding is None or identical_values([before.value, binding.value]):
                continue
            joined = self._joined(key, type_of(e, before.value), type_of_settled(e, binding.value))
            if isinstance(joined, Conflict):
                joined = located(joined, key, [before, binding])
            self.learned[node, key] = lesson(joined)
            stable = False
        return stable

    def _found_counter(self, node: Any, context: LoopContext) -> bool:
        """Whether a name turned out to be a counter, so that the next attempt can do without its checks.

        A counter starts at a small int and moves by the same small step in every iteration: 2^58 iterations
        would take it out of range, which is nine years at one a nanosecond.
        """
        found = False
        for name, entered in context.expected.items():
            old, binding = entered.value, self.env.get(name)
            if (node, name) in self.counters or binding is None or not isinstance(binding.value, Scalar):
                continue
            if not isinstance(old, Scalar) or not old.weak or old.dtype is not I64 or isinstance(old, Mixed):
                continue
            base, step = self.e.facts.split(binding.value.value)
            low, high = self.e.facts.range_of(context.entry.get(name, old.value))
            if (
                base is old.value
                and 0 < abs(step) <= _COUNTER_STEP
                and -_COUNTER_START <= low
                and high <= _COUNTER_START
            ):
                self.counters[node, name] = (low, _COUNTER_END) if step > 0 else (-_COUNTER_END, high)
                found = True
        return found


def type_of_settled(e: Emitter, value: Any) -> Any:
    """The type of a value whose extents `jump` has named already."""
    t = type_of(e, value)
    if isinstance(value, Array):
        return type(t)(t.dtype, t.layout, t.shape, value.extents, t.copied, t.order)
    if isinstance(value, Sequence):
        return type(t)(tuple(type_of_settled(e, i) for i in value.items), t.is_list)
    if isinstance(value, Record):
        return type(t)(t.kind, t.names, tuple(type_of_settled(e, i) for i in value.items))
    return t


def _flag(binding: Binding) -> Value:
    return literal(True) if binding.is_set is None else binding.is_set
