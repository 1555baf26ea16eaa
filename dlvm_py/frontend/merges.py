"""Environments and edges: what names are bound to on a path, and what they are bound to where several paths meet.

A path that leaves the current place is an `Edge`: the block where it leaves and what the live names are
bound to there. `merge` continues building where several edges meet; names whose values differ become
block arguments of the joined type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dlvm_py.errors import Loc
from dlvm_py.frontend import objects, regions
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.facts import key as name_of
from dlvm_py.frontend.joined_values import (
    arguments,
    fresh,
    fresh_place,
    identical_values,
    located,
    note_range,
)
from dlvm_py.frontend.joins import is_list_of_lists, join, join_for_caller, join_kinds, lists_met
from dlvm_py.frontend.source import Source
from dlvm_py.frontend.value_types import (
    EitherType,
    one_type,
    type_of,
)
from dlvm_py.frontend.values import (
    Array,
    Binding,
    Conflict,
    Either,
    Growing,
    Object,
    Record,
    Ref,
    Sequence,
)
from dlvm_py.frozen import Frozen, replace
from dlvm_py.ir import BOOL, Block, Value, literal, scalar

Env = dict[str, Binding]


class Edge(Frozen, eq=False):
    """A path that leaves `block`, which has no terminator yet."""

    block: Block
    env: Env  # extents named as they are known equal at the edge
    raw: Env  # the bindings as they were
    named: tuple[tuple[Value, Value], ...]  # extents of these, and the equal ones that stand for them in `env`


class Merging:
    """The part of a Frame (frame.py) that leaves places and continues where paths meet."""

    e: Emitter
    env: Env
    source: Source
    made: dict[str, int]  # how many objects were made at each place
    inherited: frozenset[str]  # objects of the caller, by their keys
    has_nested: bool
    keeps_all: int  # how many comprehensions are being translated: what an expression holds is in no name

    @property
    def alive(self) -> bool:
        """Whether the current place can be reached."""
        return self.e.builder.block is not None

    def start(self, block: Block) -> None:
        """Continue building in `block`."""
        self.e.builder.at_end(block)

    def stop(self) -> None:
        """Nothing that follows can be reached."""
        self.e.builder.block = None

    def jump(self, names: Iterable[str] | None = None, expected: Env | None = None) -> Edge:
        """Leave the current place with the bindings of `names` (all by default), and what objects they reach hold."""
        wanted = self.env.keys() if names is None else self._reached(names)
        self._follow_moved()
        raw = {n: self.env[n] for n in sorted(wanted) if n in self.env}
        named: list[tuple[Value, Value]] = []
        env = {n: self._settled(b, (expected or {}).get(n), named) for n, b in raw.items()}
        edge = Edge(self.e.block, env, raw, tuple(named))
        self.stop()
        return edge

    def _follow_moved(self) -> None:
        """Let names of lists that have moved into lists refer to where they are: other paths bring such references."""
        env = self.env
        moved = {k: b.value for k, b in env.items() if k.startswith(objects.PREFIX) and isinstance(b.value, Ref)}
        if moved:
            self.env = {n: Binding(objects.renamed(b.value, moved), b.loc, b.is_set) for n, b in env.items()}

    def _reached(self, names: Iterable[str]) -> set[str]:
        """Live names, the translation's own ones, and the keys of the objects that these refer to."""
        own = {n for n in self.env if n.startswith("$") and not n.startswith(objects.PREFIX)}
        if self.has_nested or self.keeps_all:
            return {*names, *own, *(n for n in self.env if n.startswith(objects.PREFIX))}
        visible = {*names, *own}
        return {*visible, *self.inherited, *objects.references(self.env, sorted({*visible, *self.inherited}))}

    def _settled(self, binding: Binding, expected: Binding | None, named: list[tuple[Value, Value]]) -> Binding:
        """The binding with extents named as they are known here: by the header's name if equal to it."""
        value = self._settled_value(binding.value, expected.value if expected else None, named)
        return binding if value is binding.value else Binding(value, binding.loc, binding.is_set)

    def _settled_value(self, value: Any, expected: Any, named: list[tuple[Value, Value]]) -> Any:
        facts = self.e.facts
        if isinstance(value, Array):
            known = expected.extents if isinstance(expected, Array) and expected.rank == value.rank else ()
            extents = [facts.find(n) for n in value.extents]
            for axis, n in enumerate(known):
                if facts.same(n, value.extents[axis]):
                    extents[axis] = n
            named += (pair for pair in zip(value.extents, extents, strict=True) if pair[0] is not pair[1])
            return Array(value.pointer, tuple(extents), value.copied)
        if isinstance(value, Sequence):
            likes = expected.items if isinstance(expected, Sequence) else ()
            padded = [*likes, *[None] * len(value.items)]
            items = [self._settled_value(v, x, named) for v, x in zip(value.items, padded, strict=False)]
            return Sequence(tuple(items), value.is_list)
        if isinstance(value, Record):
            likes = expected.items if isinstance(expected, Record) else ()
            padded = [*likes, *[None] * len(value.items)]
            items = [self._settled_value(v, x, named) for v, x in zip(value.items, padded, strict=False)]
            return Record(value.kind, value.names, tuple(items))
        if isinstance(value, Growing):
            likes = expected.buffers if isinstance(expected, Growing) else ()
            padded = [*likes, *[None] * len(value.buffers)]
            buffers = [self._settled_value(v, x, named) for v, x in zip(value.buffers, padded, strict=False)]
            return replace(value, buffers=tuple(buffers))
        if isinstance(value, Either):
            return Either(value.place, tuple(self._settled_value(v, None, named) for v in value.values))
        return value

    def merge(self, edges: list[Edge], label: str = "join") -> None:
        """Continue where all `edges` meet; nothing is reachable if there are none."""
        if not edges:
            self.stop()
            self.env = {}
            return
        if len(edges) == 1:
            self.start(edges[0].block)
            # bound as they were, where other paths join later on; what is known of extents at the edge is known here
            self.env = dict(edges[0].raw)
            for n, other in edges[0].named:
                self.e.facts.unify(n, other)
            return
        block = self.e.function.new_block(label)
        edges = self._unified(edges)
        names = sorted({n for edge in edges for n in edge.env})
        for name in filter(regions.is_region, names):  # that not all paths have made
            for edge in edges:
                edge.raw.setdefault(name, edge.env.setdefault(name, regions.empty_region(self.e)))
        passed: list[list[Value]] = [[] for _ in edges]
        loc = self.e.loc
        self.start(block)
        places: dict[Any, Value] = {}
        env = {name: self._merged(name, edges, block, passed, places) for name in names}
        for edge, args in zip(edges, passed, strict=True):
            self.start(edge.block)
            self.e.builder.branch(block, args)
        self.start(block)
        self.e.builder.loc = loc
        self.env = env

    def _unified(self, edges: list[Edge]) -> list[Edge]:
        """The edges with one object in the place of several that meet in a name, where nothing else refers to these."""
        names = sorted({n for edge in edges for n in edge.env if not n.startswith(objects.PREFIX)})
        changed: list[dict[str, Object]] = [{} for _ in edges]
        counts: list[dict[str, int]] | None = None
        for name in names:
            present = [k for k, edge in enumerate(edges) if name in edge.env]
            values = [edges[k].env[name].value for k in present]
            for group in objects.differing(values, [edges[k].env for k in present]):
                if counts is None:
                    counts = [objects.references(edge.env, names) for edge in edges]
                held = [(k, o) for k, o in zip(present, group, strict=True) if o is not None]
                alone = all(counts[k][o.key] == 1 and not o.origin and o.key not in self.inherited for k, o in held)
                if alone:
                    joined = Object(self._joined_key([edge.env for edge in edges]))
                    for k, o in held:
                        self.e.session.known.unite(joined.key, o.key)
                        changed[k][o.key] = joined
        if counts is None:
            return edges
        return [
            replace(edge, env=objects.rename(edge.env, keys), raw=objects.rename(edge.raw, keys)) if keys else edge
            for edge, keys in zip(edges, changed, strict=True)
        ]

    def _joined_key(self, envs: list[Env]) -> str:
        loc = self.e.loc
        place = f"{objects.PREFIX}.join.{loc.line}.{loc.col}" if loc else f"{objects.PREFIX}.join"
        count = self.made.get(place, 0)
        while any(f"{place}.{count}" in env for env in envs):
            count += 1
        self.made[place] = count + 1
        return f"{place}.{count}"

    def _merged(
        self, name: str, edges: list[Edge], block: Block, passed: list[list[Value]], places: dict[Any, Value]
    ) -> Binding:
        """What a name is bound to where edges meet. places: arguments of the block, by what the edges pass for them."""
        found = [edge.env.get(name) for edge in edges]
        bindings = [b for b in found if b is not None]
        values = [b.value for b in bindings]
        is_set = self._merged_flag(name, found, block, passed)
        if identical_values(values) and all(found):
            # equalities of extents that one path has checked do not hold on the others: take the raw value
            raw = next(edge.raw[name] for edge in edges if name in edge.raw)
            return Binding(raw.value, raw.loc, is_set)
        joined = type_of(self.e, values[0])
        for value in values[1:]:
            joined = self._joined(name, joined, type_of(self.e, value))
        if isinstance(joined, Conflict):
            return Binding(located(joined, name, bindings), bindings[0].loc, is_set)
        given = [
            self._converted(edge.block, binding.value if binding else None, joined)
            for edge, binding in zip(edges, found, strict=True)
        ]
        self.start(block)
        place = None
        if isinstance(joined, EitherType):  # names of which the same is said share what says it
            said = [args.pop(0) for args in given]
            group = (len(joined.items), *map(name_of, said))
            place = places.get(group)
            if place is None:
                place = places[group] = fresh_place(self.e, joined, block, name.strip("$"))
                for args, one in zip(passed, said, strict=True):
                    args.append(one)
        merged = fresh(self.e, joined, block, name.strip("$"), place)
        for args, more in zip(passed, given, strict=True):
            args.extend(more)
        note_range(self.e, merged, [b.value if b else None for b in found])
        return Binding(merged, bindings[0].loc, is_set)

    def _converted(self, block: Block, value: Any, joined: Any) -> list[Value]:
        """Arguments for an edge, converted at the end of its block (a scope of its own: see facts.py)."""
        self.start(block)
        depth = self.e.facts.push()
        args = arguments(self.e, value, joined)
        self.e.facts.pop(depth)
        return args

    def _joined(self, name: str, a: Any, b: Any) -> Any:
        """The joined type of what a name or an object is on two paths.

        Raises: Again where a list has to hold references to the lists in it, or to lie in a list, from its beginning.
        """
        joined = _rule_of(name)(a, b)
        if isinstance(joined, Conflict) and self.e.session.known.has_several(self._place_of(name)):
            joined = join_kinds(a, b)
        if self.source.at is not None:  # what NumPy gives has one type
            joined = one_type(joined)
        if isinstance(joined, Conflict):
            known = self.e.session.known
            for one, other in lists_met(a, b):
                known.require_region(one.key, other.key)
            if name.startswith(objects.PREFIX) and is_list_of_lists(a, b):
                known.require_references(name)
        return joined

    def _place_of(self, name: str) -> tuple[Any, ...]:
        """What tells a name from that of other functions."""
        node = self.source.node
        return self.source.file, getattr(node, "lineno", 0), getattr(node, "col_offset", 0), name

    def require_several(self, name: str) -> None:
        """A name is read whose values on two paths have no common type: it has values of several kinds from now on.

        Raises: Again, where that is new. NumPy's results have one type.
        """
        if self.source.at is None:
            self.e.session.known.require_several(self._place_of(name))

    def _merged_flag(self, name: str, found: list[Binding | None], block: Block, passed: list[list[Value]]) -> Any:
        if name.startswith(objects.PREFIX):  # what an object holds is read through names alone
            return None
        flags = [literal(False) if b is None else b.is_set for b in found]
        if all(f is None for f in flags):
            return None
        if all(f is flags[0] for f in flags):
            return flags[0]
        for args, flag in zip(passed, flags, strict=True):
            args.append(literal(True) if flag is None else flag)
        return block.add_arg(scalar(BOOL), f"{name}_is_set")

    def raise_if_unset(self, name: str, binding: Binding, loc: Loc | None) -> None:
        """Check a name that is bound on some paths only."""
        if binding.is_set is not None:
            self.e.check(binding.is_set, "UnboundLocalError", unbound_message(name))


def _rule_of(name: str) -> Callable[[Any, Any], Any]:
    """How types of what a name is bound to, or of what an object holds, are joined."""
    return join_for_caller if name.startswith(objects.LENT) else join


def unbound_message(name: str) -> str:
    """CPython's words for a local name without a value."""
    return f"cannot access local variable '{name.partition('.')[0]}' where it is not associated with a value"
