"""Loop raising: a nest of loops that stores one reduction a trip becomes that reduction over the whole nest.

    'loop(%i: i64):                                     %v = windows %x size (1, %w) count (%n, %m) step.. spread..
        conditional (lessThan %i, %n) then 'head() ..   %l = load (squeezeShape %v at 0): <w x n x m>, transposed
    'head(): branch 'inner(0)                           %w2 = load %w, padShape at 0 and 1
    'inner(%j: i64):                              =>    %p = multiply %l: <n x m x w>, %w2: <1 x 1 x w>
        conditional (lessThan %j, %m) then 'body() ..   %s = reduce %p by add init 0.0 along 2
    'body():                                            store %s: <n x m> to %y: *<n x m>
        %s = section %x at (%i, %j) count (1, %w)
        %p = multiply (load %s), (load %w)
        %r = reduce %p by add init 0.0 along ..
        store %r to (elementPointer %y at %i, %j)
        branch 'inner(%j + 1)

This is how a convolution or a pooling is written with NumPy, for each place of the result one sum over a window. The
whole is one kernel (of products: a contraction, backend/cpu/contractions.py), and its adjoints are contractions, too,
where those of the loops would be scattered sums and zeros, trip after trip.

A nest is raised if

* its loops count upwards by one, between numbers that are there before the outermost one, and are left at their heads;
* there is one store in it, of a reduction, or of elementwise steps on one and on what is the same in all trips, and
  every trip stores other elements: each counter picks the index of one axis, in steps that are known numbers;
* everything that it reads lies in windows: an axis starts at a known multiple of one counter, and what does not change;
  no minimum that cuts a slice off is ever taken (ir/analysis/inequalities.py), and nothing that is stored is read;
* what it checks is the same in every trip, so that the first one raises, or none; it stands before the store.

Keeps every element. Sums of one element are in the order of the whole kernel. Stage raw, before extents are assumed to
agree (assume_extents.py), which then sees the checks; a nest with anything else in it stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.frozen import Frozen
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.cfg import predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, Edges, counted_loop, is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.inequalities import Inequalities
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.analysis.places import Linear
from dlvm_py.ir.analysis.uses import uses
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.types import BOOL, I64, PointerType, TensorType
from dlvm_py.ir.value import Instruction, Literal, Target, Value, integer

_INTEGER = TensorType((), I64)
_PLAIN = frozenset({"load", "store", "check", "branch", "conditional"})
_DEEP = 24


class _No(Exception):
    """The nest stays as it is."""


class Along(Frozen):
    """An axis of what a nest computes that a loop runs along, by its number in the nest."""

    loop: int


# axes of a value in the order that is wanted: its own by their numbers, those of loops, None for one of extent 1
_Order = tuple[int | Along | None, ...]


def may(function: Function) -> bool:
    """Whether a loop has a reduction of an array in it, which is all that is raised."""
    if not any(i.op.name == "reduce" for i in function.instructions()):
        return False
    forest = LoopForest(function)
    return any(i.op.name == "reduce" for loop in forest.loops for b in loop.ordered for i in b.instructions)


def run(function: Function, noalias_params: bool = True) -> bool:
    """Raise the nests of `function`; whether there were any."""
    changed = False
    while may(function) and _raise_one(function, noalias_params):
        changed = True
    return changed


def _raise_one(function: Function, noalias_params: bool) -> bool:
    edges = predecessors(function)
    alias = AliasAnalysis(function, noalias_params)
    for innermost in LoopForest(function).loops:
        if innermost.children or not any(i.op.name == "reduce" for b in innermost.ordered for i in b.instructions):
            continue
        chain = [innermost]
        while chain[0].parent is not None and len(chain[0].parent.children) == 1:
            chain.insert(0, chain[0].parent)
        while chain:
            try:
                _Nest(function, chain, edges, alias).raise_()
                return True
            except _No:
                chain = chain[1:]
    return False


class _Nest:
    """One nest of loops, the outermost first."""

    def __init__(self, function: Function, chain: list[Loop], edges: Edges, alias: AliasAnalysis) -> None:
        self.function, self.alias, self.whole, self.edges = function, alias, chain[0], edges
        found = [counted_loop(loop, edges) for loop in chain]
        self.loops = [c for c in found if c is not None and self._is_plain(c)]
        if len(self.loops) < len(chain):
            raise _No
        outside = [(p, k) for p, k in edges[self.whole.header] if not self.whole.contains(p)]
        if len(outside) != 1 or outside[0][0].instructions[-1].op.name != "branch":
            raise _No
        self.before = outside[0][0]
        self.numbers = {c.counter: k for k, c in enumerate(self.loops)}
        self.store = self._only_store()
        self.known = Inequalities(self.loops, self._passed())
        self.b = Builder(function, Block("scratch"))
        self.b.loc = self.store.loc
        self._made: dict[tuple[Value, _Order], Value] = {}
        self._again: dict[Value, Value] = {}
        self.counts = [self._count(c) for c in self.loops]

    def _is_plain(self, c: CountedLoop) -> bool:
        ends = is_outside(c.first, self.whole) and is_outside(c.last, self.whole)
        return c.step == 1 and ends and len(c.loop.header.args) == 1 and c.loop.exiting_block is c.loop.header

    def _only_store(self) -> Instruction:
        stores = []
        headers = {c.loop.header for c in self.loops}
        for block in self.whole.ordered:
            for i in block.instructions:
                if i.op.name not in _PLAIN and not is_pure(i):
                    raise _No
                if i.op.name == "conditional" and block not in headers:
                    raise _No
                if i.op.name == "store":
                    stores.append(i)
        if len(stores) != 1 or stores[0].block not in self.loops[-1].loop.blocks:
            raise _No
        inside = self.whole.blocks
        users = uses(self.function)
        for block in self.whole.ordered:
            for v in (*block.args, *block.instructions):
                if any(u.block not in inside for u in users.get(v, ())):
                    raise _No
        return stores[0]

    def _passed(self) -> list[Value]:
        """Conditions of checks that stand before the nest on every way."""
        tree = DominatorTree(self.function)
        block: Block | None = self.before
        found = []
        while block is not None:
            found += [i.operands[0] for i in block.instructions if i.op.name == "check"]
            block = tree.idom[block]
        return found

    def _count(self, c: CountedLoop) -> Value:
        """The number of trips of a loop."""
        last = c.last
        trips = self.known.form(last).plus(self.known.form(c.first), -1)
        before = Inequalities((), self._passed())
        if not before.is_natural(trips):
            number = last if integer(c.first) == 0 else self.b.emit("subtract", last, c.first)
            return self.b.emit("max", number, literal(0))
        return last if integer(c.first) == 0 else self.value(trips)

    # -- the whole -------------------------------------------------------------------------------------

    def raise_(self) -> None:
        """Put the reduction of the whole nest in its place."""
        value, to = self.store.operands
        place = _View(self, to)
        if not self._reduces(value):
            raise _No
        order = self._order_of(place)
        for block in self.whole.ordered:
            for i in block.instructions:
                if i.op.name == "check":
                    self._check(i)
        pointer = self._destination(place)
        self.b.loc = self.store.loc
        lifted = self.lift(value, order, place.base)
        if lifted.type != pointer.type.pointee:  # type: ignore[attr-defined]
            raise _No
        self.b.emit("store", lifted, pointer)
        self._replace()

    def _replace(self) -> None:
        outer = self.loops[0]
        ((_, way),) = outer.loop.exit_edges()
        target = outer.loop.header.instructions[-1].targets[way]
        jump = self.before.instructions.pop()
        assert self.b.block is not None
        for i in self.b.block.instructions:
            self.before.append(i)
        jump.targets = [Target(target.block, list(target.args))]
        self.before.append(jump)
        self.function.blocks = [b for b in self.function.blocks if b not in self.whole.blocks]

    def _reduces(self, value: Value) -> bool:
        """Whether a value is one reduction, perhaps with elementwise steps behind it on what all trips share.

        What else a trip reads it would read from memory that the next trips have passed over since.
        """
        found, work = 0, [value]
        while work:
            v = work.pop()
            if not isinstance(v, Instruction) or is_outside(v, self.whole):
                continue
            if v.op.name == "reduce":
                found += 1
            elif v.op.name == "load":
                if not is_outside(v.operands[0], self.whole):
                    return False
            elif v.op.kind is Kind.ELEMENTWISE or v.op.name in ("padShape", "broadcast"):
                work += v.operands
            else:
                return False
        return found == 1

    def _order_of(self, place: _View) -> _Order:
        """The axes of what is stored, as the destination has them."""
        order: list[int | Along | None] = []
        taken = set()
        for b, start in enumerate(place.starts):
            (loop, step), _ = self.split(start)
            axis = place.axis_on(b)
            if loop is not None:
                if axis is not None or loop in taken or step < 1:
                    raise _No
                taken.add(loop)
                order.append(Along(loop))
            elif axis is not None:
                order.append(axis)
        if len(taken) < len(self.loops) or any(axis is None for axis in place.axes):
            raise _No
        return tuple(order)

    def _destination(self, place: _View) -> Value:
        starts, counts, steps, single = [], [], [], []
        for b, start in enumerate(place.starts):
            (loop, step), rest = self.split(start)
            axis = place.axes[k] if (k := place.axis_on(b)) is not None else None
            starts.append(self.value(rest))
            counts.append(self.counts[loop] if loop is not None else literal(1) if axis is None else axis.count)
            steps.append(literal(step) if loop is not None else literal(1) if axis is None else axis.step)
            single.append(loop is None and axis is None)
        return self._section(place.base, starts, counts, steps, single)

    def _section(
        self,
        base: Value,
        starts: Sequence[Value],
        counts: Sequence[Value],
        steps: Sequence[Value],
        single: Sequence[bool],
    ) -> Value:
        """A part of `base`, without the axes that are `single` places; `base` itself if that is all of it."""
        wholes = [
            integer(s) == 0 and integer(t) == 1 and self.known.form(c) == self.known.extent(base, k)
            for k, (s, c, t) in enumerate(zip(starts, counts, steps, strict=True))
        ]
        found = base
        if not all(wholes) or any(single):
            found = self.b.emit("section", base, *starts, *counts, *steps)
        for k in reversed(range(len(single))):
            if single[k]:
                found = self.b.emit("squeezeShape", found, at=k)
        return found

    # -- checks ----------------------------------------------------------------------------------------

    def _check(self, i: Instruction) -> None:
        condition = self.always(i.operands[0])
        if condition is True:
            return
        around = [k for k, c in enumerate(self.loops) if i.block in c.loop.blocks]
        if condition is False:
            raise _No
        if i.block is self.store.block and i.block.instructions.index(i) > i.block.instructions.index(self.store):
            raise _No
        self.b.loc = i.loc
        for k in around:
            never = self.b.emit("equal", self.counts[k], literal(0))
            condition = self.b.emit("or", condition, never)
        shown = [self.same(v) for v in i.operands[1:]]
        self.b.emit("check", condition, *shown, **i.attrs)

    def always(self, v: Value) -> Value | bool:
        """A condition that is the same in all trips, before the nest; a bool where it is decided."""
        if isinstance(v, Literal) and isinstance(v.value, bool):
            return v.value
        if is_outside(v, self.whole):
            return v
        if not isinstance(v, Instruction):
            raise _No
        name, operands = v.op.name, v.operands
        if name in ("and", "or"):
            a, b = map(self.always, operands)
            for x, other in ((a, b), (b, a)):
                if isinstance(x, bool):
                    return other if x is (name == "and") else x
            assert isinstance(a, Value) and isinstance(b, Value)
            return self.b.emit(name, a, b)
        if name == "not":
            a = self.always(operands[0])
            return not a if isinstance(a, bool) else self.b.emit("not", a)
        if operands and operands[0].type == _INTEGER and v.type == TensorType((), BOOL):
            a, b = map(self.known.form, operands)
            apart = a.plus(b, -1)
            one = Linear(1)
            more = self.known.is_natural(apart.plus(one, -1))
            less = self.known.is_natural(apart.times(-1).plus(one, -1))
            at_least = more or self.known.is_natural(apart)
            at_most = less or self.known.is_natural(apart.times(-1))
            known = {
                "equal": (at_least and at_most, more or less), "notEqual": (more or less, at_least and at_most),
                "lessThan": (less, at_least), "greaterThanOrEqual": (at_least, less),
                "greaterThan": (more, at_most), "lessThanOrEqual": (at_most, more),
            }.get(name)  # fmt: skip
            if known is None:
                raise _No
            if any(known):
                return known[0]
            return self.b.emit(name, self.value(a), self.value(b))
        raise _No

    def same(self, v: Value) -> Value:
        """What is the same in all trips, before the nest."""
        if is_outside(v, self.whole):
            return v
        if v.type == _INTEGER:
            return self.value(self.known.form(v))
        if not isinstance(v, Instruction) or v.type != TensorType((), v.type.dtype) or not is_pure(v):  # type: ignore[attr-defined]
            raise _No
        if v not in self._again:
            self._again[v] = self.b.emit(v.op.name, *map(self.same, v.operands), **v.attrs)
        return self._again[v]

    # -- integers --------------------------------------------------------------------------------------

    def value(self, f: Linear) -> Value:
        """A form that does not change in the nest, before it."""
        if not f.terms:
            return literal(f.constant)
        total: Value | None = None
        for atom, n in f.terms.items():
            v = self._before(atom)
            term: Value = v if abs(n) == 1 else self.b.emit("multiply", v, literal(abs(n)))
            if total is None:
                total = term if n > 0 else self.b.emit("negate", term)
            else:
                total = self.b.emit("add" if n > 0 else "subtract", total, term)
        assert total is not None
        return self.b.emit("add", total, literal(f.constant)) if f.constant else total

    def _before(self, v: Value) -> Value:
        """A value from outside, or the extent of one."""
        if is_outside(v, self.whole):
            return v
        found = (
            known_extent(v.operands[0], v.attrs["at"]) if isinstance(v, Instruction) and v.op.name == "extent" else v
        )
        if isinstance(found, Value) or not is_outside(found[0], self.whole):
            raise _No
        return self.b.emit("extent", found[0], at=found[1])

    def split(self, f: Linear) -> tuple[tuple[int | None, int], Linear]:
        """((the loop whose counter a form grows with, by how much), where it starts)."""
        moving = [(self.numbers[v], n) for v, n in f.terms.items() if v in self.numbers]
        if len(moving) > 1:
            raise _No
        if not moving:
            return (None, 0), f
        ((loop, step),) = moving
        first = self.known.form(self.loops[loop].first)
        rest = f.plus(Linear(0, {self.loops[loop].counter: 1}), -step).plus(first, step)
        return (loop, step), rest

    # -- values ----------------------------------------------------------------------------------------

    def lift(self, v: Value, order: _Order, written: Value, depth: int = 0) -> Value:
        """A value of one trip for all trips, with its axes in this order.

        written: the memory that the nest writes.
        """
        assert isinstance(v.type, TensorType)
        if is_outside(v, self.whole):
            return v if not v.type.shape else self._arranged(v, tuple(range(v.type.rank)), order)
        if depth > _DEEP or not isinstance(v, Instruction):
            raise _No
        key = v, order
        if key not in self._made:
            self._made[key] = self._lift(v, order, written, depth + 1)
        return self._made[key]

    def _lift(self, v: Instruction, order: _Order, written: Value, depth: int) -> Value:
        name = v.op.name
        self.b.loc = v.loc
        if name == "load":
            return self._loaded(v, order, written)
        if v.op.kind is Kind.ELEMENTWISE:
            if v.attrs.get("checked"):
                raise _No
            parts = [self.lift(x, order if _rank(x) else _without_axes(order), written, depth) for x in v.operands]
            self.b.loc = v.loc
            return self.b.emit(name, *parts, **v.attrs)
        x = v.operands[0]
        at = v.attrs.get("at")
        if name == "padShape":
            return self.lift(x, _mapped(order, lambda k: None if k == at else k - (k > at)), written, depth)
        if name == "squeezeShape":
            return self.lift(x, _mapped(order, lambda k: k + (k >= at)), written, depth)
        if name == "transpose":
            axes = v.attrs.get("axes") or tuple(range(_rank(v)))[::-1]
            return self.lift(x, _mapped(order, lambda k: axes[k]), written, depth)
        if name == "broadcast":
            part = self.lift(x, order if _rank(x) else _without_axes(order), written, depth)
            extents = [self._extent_of(v, k) for k in order]
            self.b.loc = v.loc
            return self.b.emit("broadcast", part, *extents)
        if name == "reduce":
            return self._reduced(v, order, written, depth)
        raise _No

    def _extent_of(self, broadcast: Instruction, entry: int | Along | None) -> Value:
        if entry is None:
            return literal(1)
        if isinstance(entry, Along):
            return self.counts[entry.loop]
        return self.same(broadcast.operands[1 + entry])

    def _reduced(self, v: Instruction, order: _Order, written: Value, depth: int) -> Value:
        x, init = v.operands
        axes: tuple[int, ...] = v.attrs["axes"]
        if not is_outside(init, self.whole) or not axes:
            raise _No
        kept = [k for k in range(_rank(x)) if k not in axes]
        inner = list(_mapped(order, lambda k: kept[k]))
        at = len(inner)
        while at and isinstance(entry := inner[at - 1], int) and entry > max(axes):
            at -= 1
        inner[at:at] = sorted(axes)
        part = self.lift(x, tuple(inner), written, depth)
        self.b.loc = v.loc
        return self.b.emit("reduce", part, init, **{**v.attrs, "axes": tuple(range(at, at + len(axes)))})

    def _loaded(self, load: Instruction, order: _Order, written: Value) -> Value:
        view = _View(self, load.operands[0])
        if self.alias.may_overlap(view.base, written):
            raise _No
        self.b.loc = load.loc
        pointer, have = view.lifted()
        return self.b.emit("load", self._arranged(pointer, have, order))

    def _arranged(self, x: Value, have: _Order, order: _Order) -> Value:
        """x, whose axes are `have`, with its axes in this order, of extent 1 where it has none."""
        for k in reversed(range(len(have))):
            if have[k] not in order and x.type.shape[k] == 1:  # type: ignore[attr-defined]
                x, have = self.b.emit("squeezeShape", x, at=k), have[:k] + have[k + 1 :]
        there = [entry for entry in order if entry is not None and entry in have]
        if len(there) != len(have):
            raise _No
        axes = tuple(have.index(entry) for entry in there)
        if axes != tuple(range(len(axes))):
            x = self.b.emit("transpose", x, axes=axes)
        for k, entry in enumerate(order):
            if entry is None or entry not in have:
                x = self.b.emit("padShape", x, at=k)
        return x


class _Axis(Frozen):
    """An axis of a view: the axis of the base that it runs along, in what steps, and how far."""

    base: int
    step: Value
    count: Value


class _View:
    """What a pointer of one trip looks at: memory from outside, and along each axis of that where it starts."""

    def __init__(self, nest: _Nest, pointer: Value) -> None:
        self.nest = nest
        self.base = pointer
        self.starts: list[Linear] = []
        self.axes: list[_Axis | None] = []  # None: an axis of extent 1 of its own
        steps = []
        while not is_outside(self.base, nest.whole):
            i = self.base
            if not isinstance(i, Instruction) or i.op.kind is not Kind.INDEX:
                raise _No
            steps.append(i)
            self.base = i.operands[0]
        type = self.base.type
        if not isinstance(type, PointerType) or not isinstance(type.pointee, TensorType):
            raise _No
        self.starts = [Linear(0)] * type.rank
        self.axes = [_Axis(k, literal(1), self._extent(k)) for k in range(type.rank)]
        for i in reversed(steps):
            self._step(i)

    def _extent(self, k: int) -> Value:
        n = self.base.type.shape[k]  # type: ignore[attr-defined]
        found = self.nest.known.extent(self.base, k)
        if n is not None or found is None:
            return literal(n) if n is not None else self.nest.b.emit("extent", self.base, at=k)
        return self.nest.value(found)

    def _step(self, i: Instruction) -> None:
        nest, name, rank = self.nest, i.op.name, len(self.axes)
        if name == "squeezeShape":
            del self.axes[i.attrs["at"]]
        elif name == "padShape":
            self.axes.insert(i.attrs["at"], None)
        elif name == "transpose":
            order = i.attrs.get("axes") or tuple(range(rank))[::-1]
            self.axes = [self.axes[k] for k in order]
        elif name == "elementPointer" and not i.attrs.get("path"):
            keys = i.operands[1:]
            for axis, key in zip(self.axes, keys, strict=False):
                self._move(axis, key)
            del self.axes[: len(keys)]
        elif name == "section":
            starts, counts, steps = (i.operands[1 + k * rank : 1 + (k + 1) * rank] for k in range(3))
            for k, axis in enumerate(self.axes):
                self._move(axis, starts[k])
                if axis is not None:
                    step = nest.known.form(steps[k])
                    if step.terms or step.constant < 1 or integer(axis.step) is None:
                        raise _No
                    total = literal(step.constant * int(axis.step.value))  # type: ignore[attr-defined]
                    self.axes[k] = _Axis(axis.base, total, nest.same(counts[k]))
                elif nest.known.form(counts[k]) != Linear(1):
                    raise _No
        else:
            raise _No

    def _move(self, axis: _Axis | None, start: Value) -> None:
        form = self.nest.known.form(start)
        if axis is None:
            if form.terms or form.constant:
                raise _No
            return
        step = integer(axis.step)
        if step is None:
            raise _No
        self.starts[axis.base] = self.starts[axis.base].plus(form, step)

    def axis_on(self, base: int) -> int | None:
        """The axis of the view that runs along an axis of the base."""
        return next((k for k, axis in enumerate(self.axes) if axis is not None and axis.base == base), None)

    def lifted(self) -> tuple[Value, _Order]:
        """(the view of all trips, its axes)."""
        nest, b = self.nest, self.nest.b
        parts = [nest.split(start) for start in self.starts]
        if any(loop is not None and step < 1 for (loop, step), _ in parts):
            raise _No
        on = [self.axis_on(k) for k in range(len(parts))]
        own = [self.axes[k] if k is not None else None for k in on]
        starts = [nest.value(rest) for _, rest in parts]
        if not any(loop is not None and axis is not None for ((loop, _), _), axis in zip(parts, own, strict=True)):
            counts, steps, have = [], [], list[int | Along]()
            for ((loop, step), _), k, axis in zip(parts, on, own, strict=True):
                counts.append(nest.counts[loop] if loop is not None else axis.count if axis else literal(1))
                steps.append(literal(step) if loop is not None else axis.step if axis else literal(1))
                have += [Along(loop)] if loop is not None else [k] if k is not None else []
            single = [loop is None and axis is None for ((loop, _), _), axis in zip(parts, own, strict=True)]
            return nest._section(self.base, starts, counts, steps, single), tuple(have)
        base = self._from(starts)
        sizes = [axis.count if axis else literal(1) for axis in own]
        counts = [nest.counts[loop] if loop is not None else literal(1) for (loop, _), _ in parts]
        steps = [literal(step if loop is not None else 1) for (loop, step), _ in parts]
        spreads = [axis.step if axis else literal(1) for axis in own]
        pointer: Value = b.emit("windows", base, *sizes, *counts, *steps, *spreads)
        entries: list[int | Along | None] = [*on, *(Along(n) if n is not None else None for (n, _), _ in parts)]
        for k in reversed(range(len(entries))):
            if entries[k] is None:
                pointer = b.emit("squeezeShape", pointer, at=k)
        return pointer, tuple(entry for entry in entries if entry is not None)

    def _from(self, starts: Sequence[Value]) -> Value:
        """The base from where the first windows start."""
        if all(integer(s) == 0 for s in starts):
            return self.base
        b = self.nest.b
        counts = []
        for k, s in enumerate(starts):
            rest = b.emit("subtract", self._extent(k), s)
            counts.append(b.emit("max", rest, literal(0)))
        return b.emit("section", self.base, *starts, *counts, *[literal(1)] * len(counts))


def _rank(v: Value) -> int:
    return v.type.rank  # type: ignore[attr-defined, no-any-return]


def _mapped(order: _Order, of: object) -> _Order:
    return tuple(of(entry) if isinstance(entry, int) else entry for entry in order)  # type: ignore[operator]


def _without_axes(order: _Order) -> _Order:
    """The order for a number among arrays."""
    return tuple(entry if isinstance(entry, Along) else None for entry in order)
