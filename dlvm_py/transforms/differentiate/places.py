"""Shadows of a pullback: memory of the reverse function alone, so that each of its runs has its own.

The forward sweep keeps of a shadow only where it will lie, a number; the reverse function makes memory and views.
Pointers that can refer to the same roots form a *class* with one buffer:

    one root that is made once      the shadow looks like the root           %x_shadow = allocateHeap … of its extents
    any other                       its shadows lie one behind the other     %shadows = allocateHeap f64 count (%total)

    forward: 'loop(%u: *<_ x f64>, %u_place: i64, %filled: i64)                for u in a loop: u = u * x
                 %v = allocateHeap f64 count (%n)
                 %filled_next = add %filled, %n
                 branch 'loop(%v, %filled, %filled_next)
    reverse: %u_shadow = section %shadows at (%u_place) count (%n) step (1)

A view has the same view of its base's shadow, as everywhere. What a pointer of several sources refers to (an argument
of a block, an entry of a stack) is told by its place, which travels beside it, and its stride along one axis; of more
axes all sources must be contiguous, in the same order.
"""

from __future__ import annotations

from dlvm_py.errors import NotDifferentiable
from dlvm_py.ir import (
    I64,
    UNDEFINED,
    Block,
    Builder,
    Instruction,
    Kind,
    Literal,
    PointerType,
    StackType,
    Type,
    Value,
    literal,
    scalar,
)
from dlvm_py.transforms import ssa_repair
from dlvm_py.transforms.differentiate.arguments import allocate_like, entry_builder, extents
from dlvm_py.transforms.differentiate.calls import brings_shadow, is_float_array, leaves
from dlvm_py.transforms.differentiate.points_to import carries_pointers
from dlvm_py.transforms.differentiate.primal import Primal
from dlvm_py.transforms.differentiate.shadows import Calls, view_again, zeros_like
from dlvm_py.transforms.ssa_repair import Variable, assignment

_ANY = "any"  # the order of a pointer of which nothing is known yet
_KEEP_ORDER = frozenset({"pointerCast", "padShape", "squeezeShape"})
_FOLLOWED = _KEEP_ORDER | {"shapeCast", "transpose", "section", "elementPointer", "diagonal"}
I64_SCALAR = scalar(I64)


class PlacedShadows:
    """Answers which shadow belongs to a pointer, for the reverse sweep that is being built by the builder of `open`."""

    def __init__(self, primal: Primal, splits: Calls) -> None:
        self._primal = primal
        self._splits = splits
        self._function = primal.function
        self.buffers: dict[Value, Value] = {}  # of a root with a class of its own: C-contiguous memory of its extents
        self._views: dict[Value, Value] = {}
        self._flat: dict[Value, Value] = {}  # of a class (its first root): all its memory, along one axis
        self._totals: dict[Value, Value] = {}
        self._places: dict[Value, Value] = {}
        self._strides: dict[Value, Value] = {}  # in elements, of strided pointers of one axis and several sources
        self._made: dict[tuple[Block, Value], Value] = {}
        pointers = [v for v in self._all_values() if carries_pointers(v) and primal.has_shadow(v)]
        self._class = self._classes(pointers)
        self._order = self._orders(pointers)
        self._hand_over_calls()
        for root in self._class:
            self._lay_out(root)
        self._send_places(pointers)
        for first in self._totals:
            b = Builder(self._function, primal.exit.block)
            self._totals[first] = b.emit("add", self._totals[first], literal(0), name="total")
        ssa_repair.run(self._function)

    def _all_values(self) -> list[Value]:
        inside = (v for b in self._primal.dominators.idom for v in (*b.args, *b.instructions))
        return list(dict.fromkeys((*self._primal.formal, *inside)))

    # -- classes -------------------------------------------------------------------------------------

    def _classes(self, pointers: list[Value]) -> dict[Value, Value]:
        """Of every root the first root of its class, in the order of the program."""
        roots = [v for v in pointers if v in self._primal.points_to.roots(v)]
        first = {r: r for r in roots}
        for v in pointers:
            members = {first[r] for r in self._primal.points_to.roots(v) if r in first}
            if len(members) > 1:
                leader = next(r for r in roots if r in members)
                first = {r: leader if f in members else f for r, f in first.items()}
        return {r: first[r] for r in dict.fromkeys(roots)}

    def _is_alone(self, root: Value) -> bool:
        """Whether its class has no other root, and it is made once, on every path."""
        if sum(first is self._class[root] for first in self._class.values()) > 1 or isinstance(root.type, StackType):
            return False
        if root in self._primal.formal:
            return True
        home: Block = root.block  # type: ignore[attr-defined]
        return self._primal.loop_of(home) is None and self._primal.dominators.dominates(home, self._primal.exit.block)

    def _class_of(self, pointer: Value) -> Value:
        return next(self._class[r] for r in self._class if r in self._primal.points_to.roots(pointer))

    def _hand_over_calls(self) -> None:
        for i in [i for i in self._all_values() if i in self._primal.activity.calls]:
            assert isinstance(i, Instruction)
            if any(brings_shadow(o.type) for o in i.operands) or any(map(is_float_array, leaves(i.type))):
                raise NotDifferentiable(
                    "vjp of a function that recurses over arrays is not supported",
                    i.loc,
                    code="DL610",
                    help="dlvm.grad(f, seedable=True) gives the same derivatives, running f once for each seed",
                )
            self._splits.forward(self._primal, i, self.of)

    # -- places, in the forward sweep ------------------------------------------------------------------

    def _lay_out(self, root: Value) -> None:
        """Give a root its place in the memory of its class."""
        if self._is_alone(root):
            self._places[root] = literal(0)
            return
        if isinstance(root.type, StackType):
            raise NotDifferentiable(
                "vjp of a function that hands lists of arrays to a recursive one is not supported",
                getattr(root, "loc", None),
                code="DL610",
            )
        filled = self._totals.setdefault(self._class[root], Variable(scalar(I64), "filled", default=literal(0)))
        b = self._behind(root)
        self._places[root] = b.emit("add", filled, literal(0), name=f"{root.name}_place")
        b.insert(assignment(filled, b.emit("add", filled, _product(b, extents(b, root)))))  # type: ignore[arg-type]

    def _behind(self, value: Value) -> Builder:
        if value in self._primal.formal:
            return entry_builder(self._function)
        b = Builder(self._function)
        if isinstance(value, Instruction):
            b.after(value).loc = value.loc
        else:
            b.block, b.position = value.block, 0  # type: ignore[attr-defined]
        return b

    def _orders(self, pointers: list[Value]) -> dict[Value, str | None]:
        """How the elements of a shadow lie: "C", "F", "S" for known strides, None for unknown ones."""
        found: dict[Value, str | None] = dict.fromkeys(pointers, _ANY)
        changed = True
        while changed:
            changed = False
            for v in pointers:
                new = self._order_of(v, found)
                changed |= new != found[v]
                found[v] = new
        return found

    def _order_of(self, v: Value, found: dict[Value, str | None]) -> str | None:
        t = v.type.element if isinstance(v.type, StackType) else v.type
        assert isinstance(t, PointerType)
        if v in self._class:
            return "F" if t.layout == "F" else "C"  # memory that stands for one of any strides is contiguous
        if isinstance(v, Instruction) and v.op.kind is Kind.INDEX:
            base = found[v.operands[0]]
            if base in (None, _ANY) or v.op.name not in _FOLLOWED:
                return base if base == _ANY else None
            if t.layout != "S":
                return t.layout
            return base if v.op.name in _KEEP_ORDER else "S"
        orders = {found[s] for s in self._sources(v) if not isinstance(s, Literal)} - {_ANY}
        if not orders or None in orders:
            return None if orders else _ANY
        if t.layout != "S":
            return t.layout
        if len(orders) == 1 and "S" not in orders:
            return orders.pop()
        return "S" if t.rank == 1 else None

    def _sources(self, v: Value) -> list[Value]:
        """What an argument of a block, a popped value or a stack can be."""
        if isinstance(v, Instruction):
            if v.op.name == "pop":
                return [v.operands[0]]
            pushes = (i for i in self._function.instructions() if i.op.name == "push" and i.operands[1] is v)
            return [i.operands[0] for i in pushes]
        at = v.block.args.index(v)  # type: ignore[attr-defined]
        return [p.targets[t].args[at] for p, t in self._primal.edges.get(v.block, ())]  # type: ignore[attr-defined]

    def _send_places(self, pointers: list[Value]) -> None:
        """Let the place of every pointer of several sources travel beside it, with its stride where that can differ."""
        count = {block: len(block.args) for block in self._function.blocks}
        for v in pointers:
            if v in self._places or self._order[v] in (None, _ANY):
                continue
            if isinstance(v, Instruction):
                if v.op.name == "createStack":
                    b, element = self._behind(v), scalar(I64)
                    self._places[v] = b.emit("createStack", name=f"{v.name}_place", element=element)
                    if self._order[v] == "S":
                        self._strides[v] = b.emit("createStack", name=f"{v.name}_stride", element=element)
            elif v not in self._primal.formal:
                t = StackType(scalar(I64)) if isinstance(v.type, StackType) else scalar(I64)
                self._places[v] = v.block.add_arg(t, f"{v.name}_place")  # type: ignore[attr-defined]
                if self._order[v] == "S":
                    self._strides[v] = v.block.add_arg(t, f"{v.name}_stride")  # type: ignore[attr-defined]
        for block in list(self._function.blocks):
            for i in list(block.instructions):
                if i.op.kind is Kind.STACK and i.operands and i.operands[-1] in self._places:
                    self._repeat(i)
        for block in self._function.blocks:
            for target in block.targets:
                for arg, v in zip(target.block.args[: count[target.block]], list(target.args), strict=False):
                    if arg in self._places:
                        target.args.append(self._place(v, self._places[arg].type))
                    if arg in self._strides:
                        target.args.append(self._stride(v, self._strides[arg].type))

    def _repeat(self, i: Instruction) -> None:
        """Do with places and strides what is done with pointers on a stack."""
        stack = i.operands[-1]
        both = [(self._places, self._place, "place")]
        if stack in self._strides:
            both.append((self._strides, self._stride, "stride"))
        for known, of, name in both:
            b = Builder(self._function).after(i)
            if i.op.name == "push":
                value = of(i.operands[0], scalar(I64))
                b.before(i).emit("push", value, known[stack])
            elif i.op.name == "pop":
                known[i] = b.emit("pop", known[stack], name=f"{i.name}_{name}")
            elif i.op.name == "destroyStack":
                b.emit("destroyStack", known[stack])

    def _place(self, v: Value, type: Type = I64_SCALAR) -> Value:
        """Where the first element of the shadow of `v` lies; of a stack, the stack of these."""
        if isinstance(v, Literal):
            return literal(0) if type == I64_SCALAR else Literal(type, UNDEFINED)
        if v not in self._places:
            assert isinstance(v, Instruction) and v.op.kind is Kind.INDEX and self._order[v] is not None
            base = self._place(v.operands[0])
            b = self._behind(v)
            for index, stride in self._starts(v, b):
                base = b.emit("add", base, b.emit("multiply", index, stride))
            self._places[v] = base
        return self._places[v]

    def _stride(self, v: Value, type: Type = I64_SCALAR) -> Value:
        """The stride of a pointer along its one axis, in elements."""
        if isinstance(v, Literal):
            return literal(1) if type == I64_SCALAR else Literal(type, UNDEFINED)
        if v in self._strides:
            return self._strides[v]
        return self._all_strides(v, self._behind(v))[0]

    def _starts(self, view: Instruction, b: Builder) -> list[tuple[Value, Value]]:
        """The indices of its base's element at which a view begins, each with the stride of its axis."""
        if view.op.name not in ("elementPointer", "section", "diagonal"):
            return []
        strides, indices = self._all_strides(view.operands[0], b), list(view.operands[1:])
        if view.op.name == "diagonal":
            return list(zip(indices[:2], strides[-2:], strict=True))
        return list(zip(indices, strides, strict=False))

    def _all_strides(self, v: Value, b: Builder) -> list[Value]:
        """The strides of a pointer in elements, computed by `b`, which stands behind it."""
        t = v.type
        assert isinstance(t, PointerType)
        if v in self._strides:
            return [self._strides[v]]
        if self._order[v] != "S":
            counts = extents(b, v)
            if self._order[v] == "F":
                return [_product(b, counts[:k]) for k in range(t.rank)]
            return [_product(b, counts[k + 1 :]) for k in range(t.rank)]
        assert isinstance(v, Instruction)
        base = self._all_strides(v.operands[0], b)
        match v.op.name:
            case "section":
                steps = v.operands[1 + 2 * len(base) :]
                return [b.emit("multiply", s, step) for s, step in zip(base, steps, strict=True)]
            case "elementPointer":
                return base[len(v.operands) - 1 :]
            case "transpose":
                axes = v.attrs.get("axes")
                return [base[k] for k in (range(len(base))[::-1] if axes is None else axes)]
            case "diagonal":
                return [*base[:-2], b.emit("add", base[-2], base[-1])]
            case "padShape":
                return [*base[: v.attrs["at"]], literal(0), *base[v.attrs["at"] :]]
            case "squeezeShape":
                return [s for k, s in enumerate(base) if k != v.attrs["at"]]
        return base  # pointerCast

    # -- memory, in the reverse sweep ------------------------------------------------------------------

    def open(self, b: Builder) -> None:
        """Make all memory, at the start of the reverse sweep."""
        self._b = b
        for root, first in self._class.items():
            if self._is_alone(root):
                self.buffers[root], self._views[root] = allocate_like(b, root, f"{root.name}_shadow", shadow=True)
                b.emit("store", zeros_like(b, self.buffers[root]), self.buffers[root])
                self._flat[root] = b.emit("shapeCast", self.buffers[root], _product(b, extents(b, self.buffers[root])))
            elif root is first:
                t = root.type
                assert isinstance(t, PointerType)
                flat = b.emit("allocateHeap", self._totals[first], name="shadows", dtype=t.dtype.name, shadow=True)
                b.emit("store", zeros_like(b, flat), flat)
                self._flat[first] = flat

    def of(self, value: Value) -> Value:
        """The shadow of a pointer (itself for NULL and UNDEFINED), in the block that is being built."""
        if isinstance(value, Literal):
            return value
        if value in self._views:
            return self._views[value]
        block = self._b.block
        assert block is not None
        if (block, value) not in self._made:
            self._made[block, value] = self._make(value)
        return self._made[block, value]

    def _make(self, value: Value) -> Value:
        b = self._b
        if isinstance(value, Instruction) and value.op.kind is Kind.INDEX:
            return view_again(b, value, self.of(value.operands[0]), list(value.operands[1:]))
        if value not in self._places:
            raise NotDifferentiable(
                f"vjp cannot follow which view of an array {_named(value)} is: that is decided while the function runs",
                b.loc,
                code="DL611",
                help="copy the view: x.T.copy()",
            )
        t, place = value.type, self._places[value]
        assert isinstance(t, PointerType)
        counts = extents(b, value)
        flat = self._flat[self._class_of(value)]
        step = self._strides.get(value, literal(1))
        found = b.emit("section", flat, place, _product(b, counts), step, name=f"{value.name}_shadow")
        if self._order[value] == "F" and t.rank > 1:
            found = b.emit("transpose", b.emit("shapeCast", found, *counts[::-1]))
        elif value not in self._strides:
            found = b.emit("shapeCast", found, *counts)
        return found if found.type == t else b.emit("pointerCast", found, to=t)


def _product(b: Builder, counts: list[Value]) -> Value:
    total: Value = literal(1)
    for n in counts:
        total = n if isinstance(total, Literal) and total.value == 1 else b.emit("multiply", total, n)
    return total


def _named(value: Value) -> str:
    return f"'{value.name}'" if value.name else "a value"
