"""A function and its pullback: the two sweeps of a gradient as two functions, the second of which can run many times.

    func @f: (*<_ x f64>, f64) -> f64

    func @f_recorded: (*<_ x f64>, f64) -> (f64, tape …)               the value, and what the reverse sweep needs
    func @f_pullback: (tape …, seeds …) -> (*<_ x f64>, f64)           seeds of the outputs → derivatives

The tape is numbers and arrays, which belong to whoever called the first: nothing of it is written by the second, and no
memory that anybody else can change is part of it. What goes from the one sweep to the other becomes part of the tape:

* a number as it is; an array value in memory of its own;
* memory that the reverse sweep reads: as it is if only this function has seen it, else (arguments, results, views) a
  copy of how the forward sweep leaves it. The reverse sweep writes nothing of the primal's;
* a stack as one array of all that was pushed (`drain`), with the extents of arrays beside it; a pop becomes a step
  down; a stack that a recursive callee pops from is filled again from that array.

Shadows live in the second function alone: places.py. The functions that recursive callees are split into: calls.py.
"""

from __future__ import annotations

from dlvm_py.errors import NotDifferentiable, PassError
from dlvm_py.ir import (
    I64,
    UNDEFINED,
    VOID,
    Block,
    Builder,
    Function,
    Instruction,
    Kind,
    Literal,
    PointerType,
    StackType,
    TensorType,
    Type,
    Value,
    is_array,
    literal,
    scalar,
)
from dlvm_py.ir.analysis import predecessors, reachable_from
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.effects import written_pointer
from dlvm_py.ir.value import BlockArg
from dlvm_py.transforms import ssa_repair
from dlvm_py.transforms.differentiate.arguments import entry_builder, extents
from dlvm_py.transforms.differentiate.calls import bundle, give
from dlvm_py.transforms.differentiate.dead import remove_dead
from dlvm_py.transforms.differentiate.shadows import zeros_like
from dlvm_py.transforms.ssa_repair import Variable, assignment

VALUES = "values"  # the callee of the marker that holds the value until the function is cut


def hold(function: Function, block: Block, values: list[Value]) -> None:
    """Hold what the first function returns, at the end of the exit block of the forward sweep."""
    Builder(function, block).emit("apply", *values, callee=VALUES, result=VOID)


class Cut:
    """Cuts a function with both sweeps between its blocks `exit_` and `first`.

    recorded, pullback: the halves. tape: the types of what the first gives behind the value, and the second takes
    before the seeds.
    """

    def __init__(self, function: Function, exit_: Block, first: Block, seeds: list[Value], name: str) -> None:
        self.tape: list[Type] = []
        self._alias = AliasAnalysis(function)
        later = reachable_from(first)
        jump = exit_.instructions.pop()
        passed: dict[Value, Value] = dict(zip(first.args, jump.targets[0].args, strict=True))
        first.args = []
        self.recorded = Function(f"{name}_recorded", VOID)
        self.recorded.blocks = [b for b in function.blocks if b not in later]
        self.pullback = Function(f"{name}_pullback", function.result)
        self._entry = Block("entry")
        self.pullback.blocks = [self._entry, *(b for b in function.blocks if b in later)]
        self.pullback.substitute(passed)
        marker = next(i for i in exit_.instructions if i.attrs.get("callee") == VALUES)
        exit_.instructions.remove(marker)
        self._shown = frozenset().union(*(self._alias.roots(v) for v in marker.operands))
        self._ahead = Builder(self.recorded, exit_)
        self._b = Builder(self.pullback, self._entry)
        self._later = later
        self._seeds = seeds
        self._given: list[Value] = []
        self._copied: list[Value] = []
        self._taken: list[BlockArg] = []
        self._replaced: dict[Value, Value] = {}
        self._check_writes()
        self._send()
        self._b.branch(first)
        self._define()
        values = list(marker.operands)
        self.recorded.entry.args = [a for a in self.recorded.entry.args if a not in seeds]
        self.recorded.result = bundle([v.type for v in (*values, *self._given)])
        give(self._ahead, [*values, *self._given])
        own = [BlockArg(v.type, self._entry, v.name) for v in seeds]
        self._entry.args = [*self._taken, *own]
        self.pullback.substitute(self._replaced | dict(zip(seeds, own, strict=True)))
        ssa_repair.run(self.pullback)
        remove_dead(self.recorded)
        remove_dead(self.pullback)

    # -- what crosses ----------------------------------------------------------------------------------

    def _crossing(self) -> list[tuple[Value, list[Instruction]]]:
        """The values of the first half that the second uses, and where."""
        found: dict[Value, list[Instruction]] = {}
        for block in self.pullback.blocks:
            for i in block.instructions:
                for o in dict.fromkeys(i.all_operands()):
                    if isinstance(o, BlockArg | Instruction) and o.block not in self._later and o not in self._seeds:
                        found.setdefault(o, []).append(i)
        return list(found.items())

    def _define(self) -> None:
        """What paths that were not taken leave undefined is zero on the tape: nobody asks for it, but it goes there.

        Numbers are returned. An array is copied, of as many elements as its type says; where that says nothing, of
        none.
        """
        work, seen = [v for v in (*self._given, *self._copied) if isinstance(v, BlockArg)], set()
        edges = predecessors(self.recorded)
        while work:
            arg = work.pop()
            shape = getattr(arg.type, "shape", (None,))
            if arg in seen or arg.block is self.recorded.entry or None in shape:
                continue
            seen.add(arg)
            at = arg.block.args.index(arg)
            for source, k in edges[arg.block]:
                passed = source.targets[k].args
                v = passed[at]
                if isinstance(v, BlockArg):
                    work.append(v)
                elif isinstance(v, Literal) and v.value is UNDEFINED:
                    assert source.terminator is not None
                    passed[at] = _zero(Builder(self.recorded).before(source.terminator), arg.type)

    def _check_writes(self) -> None:
        for block in self._later:
            for i in block.instructions:
                pointer = written_pointer(i)
                if pointer is not None and any(
                    not isinstance(r, Instruction) or r.block not in self._later for r in self._alias.roots(pointer)
                ):
                    raise PassError("the reverse sweep writes memory of the primal")

    def _send(self) -> None:
        for value, users in self._crossing():
            if isinstance(value.type, StackType):
                self._send_stack(value, users)
            elif isinstance(value.type, PointerType):
                self._send_memory(value, users)
            elif is_array(value.type):
                memory = self._kept(self._ahead, value)
                self._load_anew(value, users, self._take_array(memory, value.type))
            elif isinstance(value.type, TensorType):
                self._substitute(value, users, self._take(value))
            else:
                raise PassError(f"a {value.type} goes from one sweep to the other")

    def _kept(self, b: Builder, value: Value) -> Value:
        """Memory with an array value, or with what a pointer refers to."""
        base = value
        while isinstance(base, Instruction) and base.op.kind is Kind.INDEX:
            base = base.operands[0]
        self._copied.append(base)
        memory = b.emit("allocateHeap", *extents(b, value), name=value.name, dtype=value.type.dtype.name)  # type: ignore[attr-defined]
        b.emit("store", b.emit("load", value) if isinstance(value.type, PointerType) else value, memory)
        return memory

    def _take(self, value: Value) -> BlockArg:
        """One more part of the tape."""
        t = value.type
        if isinstance(t, PointerType):
            t = PointerType(TensorType((None,) * t.rank, t.dtype), "C")
        self.tape.append(t)
        self._given.append(value)
        self._taken.append(BlockArg(t, self._entry, value.name))
        return self._taken[-1]

    def _take_array(self, memory: Value, wanted: TensorType | PointerType) -> Value:
        """The same for C-contiguous memory: the part, seen with the extents that its type knew."""
        array: Value = self._take(memory)
        if any(n is not None for n in wanted.shape):
            b = self._b
            counts = [b.emit("extent", array, at=k) if n is None else literal(n) for k, n in enumerate(wanted.shape)]
            array = b.emit("shapeCast", array, *counts)
        return array

    def _load_anew(self, value: Value, users: list[Instruction], source: Value) -> None:
        """Read an array value at the start of every block that uses it."""
        blocks: dict[Block, list[Instruction]] = {}
        for i in users:
            assert i.block is not None
            blocks.setdefault(i.block, []).append(i)
        for block, some in blocks.items():
            b = Builder(self.pullback)
            b.block, b.position = block, 0
            self._substitute(value, some, b.emit("load", source, name=value.name))

    @staticmethod
    def _substitute(value: Value, users: list[Instruction], by: Value) -> None:
        for i in users:
            i.substitute({value: by})

    def _send_memory(self, pointer: Value, users: list[Instruction]) -> None:
        """What is asked of memory: its extents as numbers; its elements."""
        numbers: dict[int, BlockArg] = {}
        rest: list[Instruction] = []
        for i in users:
            if i.op.name != "extent":
                rest.append(i)
                continue
            at = i.attrs["at"]
            if at not in numbers:
                numbers[at] = self._take(self._ahead.emit("extent", pointer, name=pointer.name, at=at))
            self._replaced[i] = numbers[at]
            assert i.block is not None
            i.block.instructions.remove(i)
        if not rest:
            return
        t = pointer.type
        assert isinstance(t, PointerType)
        # what lies in Fortran order is kept as the transpose of an array in C order
        turned = self._ahead.emit("transpose", pointer) if t.layout == "F" else pointer
        memory = turned if self._is_own(pointer) and t.layout != "S" else self._kept(self._ahead, turned)
        found = self._take_array(memory, turned.type)  # type: ignore[arg-type]
        if t.layout == "F":
            found = self._b.emit("transpose", found)
        elif t.layout == "S":
            found = self._b.emit("pointerCast", found, to=t)
        self._substitute(pointer, rest, found)

    def _is_own(self, pointer: Value) -> bool:
        """Whether nobody else can see the memory: an allocation of this function that it does not return."""
        roots = self._alias.roots(pointer)
        while isinstance(pointer, Instruction) and pointer.op.kind is Kind.INDEX:
            pointer = pointer.operands[0]
        fresh = isinstance(pointer, Instruction) and pointer.op.name == "allocateHeap"
        return fresh and roots.isdisjoint(self._shown)

    # -- stacks ----------------------------------------------------------------------------------------

    def _send_stack(self, stack: Value, users: list[Instruction]) -> None:
        assert isinstance(stack.type, StackType)
        filled = [i for b in self.recorded.blocks for i in b.instructions if stack in i.operands]
        if not filled:
            # of adjoints: the forward sweep does not know it
            assert isinstance(stack, Instruction) and stack.block is not None
            stack.block.instructions.remove(stack)
            self._entry.instructions.insert(0, stack)
            stack.block = self._entry
            return
        element = stack.type.element
        calls = [i for i in (*users, *filled) if i.op.name == "apply"]
        if not isinstance(element, TensorType) or (element.shape and calls):
            raise NotDifferentiable(
                "vjp of a function that recurses over arrays is not supported",
                calls[0].loc if calls else getattr(stack, "loc", None),
                code="DL610",
            )
        if any(i.op.name == "push" for i in users):
            raise PassError("the reverse sweep pushes to a tape")
        if calls:
            self._refill(stack, users, element)
            return
        sizes = self._record_extents(stack, element, filled)
        tape, at = self._drained(stack)
        lengths = [None if s is None else self._drained(s) for s in sizes]
        for i in users:
            if i.op.name == "pop":
                self._step_down(i, element, tape, at, lengths)
            else:
                assert i.op.name == "destroyStack" and i.block is not None
                i.block.instructions.remove(i)

    def _record_extents(self, stack: Value, element: TensorType, filled: list[Instruction]) -> list[Value | None]:
        """Stacks of the extents that the type does not know, pushed with each array."""
        entry = entry_builder(self.recorded)
        sizes: list[Value | None] = [
            entry.emit("createStack", name=f"{stack.name}_extent", element=scalar(I64)) if n is None else None
            for n in element.shape
        ]
        for i in filled:
            b = Builder(self.recorded)
            if i.op.name == "push":
                b.after(i)
                for k, size in enumerate(sizes):
                    if size is not None:
                        b.emit("push", b.emit("extent", i.operands[0], at=k), size)
        return sizes

    def _drained(self, stack: Value) -> tuple[BlockArg, Variable]:
        """The array of all that was pushed, and the place behind what is left of it."""
        array = self._take(self._ahead.emit("drain", stack, name=stack.name))
        self._ahead.emit("destroyStack", stack)
        at = Variable(scalar(I64), f"{stack.name}_at")
        b = self._b
        b.insert(assignment(at, b.emit("extent", array, at=0)))
        return array, at

    def _step_down(
        self,
        pop: Instruction,
        element: TensorType,
        tape: Value,
        at: Variable,
        lengths: list[tuple[BlockArg, Variable] | None],
    ) -> None:
        """Read what a pop would give."""
        b = Builder(self.pullback).before(pop)
        b.loc = pop.loc
        counts: list[Value] = []
        for n, length in zip(element.shape, lengths, strict=True):
            counts.append(literal(n) if length is None else self._previous(b, *length))
        if not element.shape:
            found = self._previous(b, tape, at)
        else:
            total: Value = literal(1)
            for c in counts:
                total = c if isinstance(total, Literal) and total.value == 1 else b.emit("multiply", total, c)
            place = b.emit("subtract", at, total)
            b.insert(assignment(at, place))
            part = b.emit("section", tape, place, total, literal(1))
            found = b.emit("load", b.emit("shapeCast", part, *counts), name=pop.name)
        assert pop.block is not None
        pop.block.instructions.remove(pop)
        self._replaced[pop] = found

    @staticmethod
    def _previous(b: Builder, tape: Value, at: Variable) -> Value:
        place = b.emit("subtract", at, literal(1))
        b.insert(assignment(at, place))
        return b.emit("load", b.emit("elementPointer", tape, place))

    def _refill(self, stack: Value, users: list[Instruction], element: TensorType) -> None:
        """A stack of the reverse function with what was pushed."""
        array = self._take(self._ahead.emit("drain", stack, name=stack.name))
        self._ahead.emit("destroyStack", stack)
        b = self._b
        new = b.emit("createStack", name=stack.name, element=element)
        n = b.emit("extent", array, at=0)
        head, body, after = (self.pullback.new_block(f"refill_{s}") for s in ("head", "body", "end"))
        b.branch(head, [literal(0)])
        k = head.add_arg(scalar(I64), "k")
        b.at_end(head)
        b.conditional(b.emit("lessThan", k, n), body, [], after)
        b.at_end(body)
        b.emit("push", b.emit("load", b.emit("elementPointer", array, k)), new)
        b.branch(head, [b.emit("add", k, literal(1))])
        b.at_end(after)
        self._substitute(stack, users, new)


def _zero(b: Builder, type: Type) -> Value:
    """The number, or the array or memory whose extents are those of the type, that is zero."""
    if isinstance(type, TensorType):
        number = literal(0, scalar(type.dtype))
        return b.emit("broadcast", number, *map(literal, type.shape)) if type.shape else number  # type: ignore[arg-type]
    assert isinstance(type, PointerType)
    counts = [literal(n) for n in type.shape if n is not None]
    order = -1 if type.layout == "F" else 1
    memory: Value = b.emit("allocateHeap", *counts[::order], dtype=type.dtype.name)
    b.emit("store", zeros_like(b, memory), memory)
    if type.layout == "F":
        return b.emit("transpose", memory)
    return memory if memory.type == type else b.emit("pointerCast", memory, to=type)
