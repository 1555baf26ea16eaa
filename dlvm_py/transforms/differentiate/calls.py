"""Calls that derivatives flow through: the two sweeps of the callee become two functions.

    func @g: (f64, *<_ x f64>) -> f64

    func @g_forward: (f64, *<_ x f64>, *<_ x f64>, stack …) -> f64     the call itself; keeps what is needed
    func @g_reverse: (f64, stack …) -> f64                             adjoint of the result → of the scalars

The caller's forward sweep calls the first in the place of the call, its reverse sweep the second:

    %y = apply @g(%x, %p)       →    %y = apply @g_forward(%x, %p, %p_shadow, %tape …)
                                     %x_adj += apply @g_reverse(%y_adj, %tape …)

* Every parameter and result of a float type is taken to be active, so one pair serves all calls of `g`, and its
  signature is known before its body: recursion, direct or mutual, needs nothing more.
* Arrays that are handed over bring their shadows along; for a result the forward function gives its shadow
  as well, behind the results. The reverse function adds to shadows and clears them in place, so that views,
  arguments that overlap, and arrays that are written come out right. It gets pointers to them by the tape.
* Tapes, one stack an element type, belong to the outermost caller. Each forward function pushes what its reverse
  needs: within the body as keep.py decides, and at the end whatever else is used across the border, but what the
  callers know in their reverse sweeps too (handed_down.py). All pops come in the reverse order of all pushes, whatever
  the depth; cost and memory are linear in the calls.
* What lies in memory may be changed by the caller before the reverse sweep. So a split function keeps the elements
  that it has read, in memory of their own, and does not read an argument again, but for those that nobody writes
  (lasting.py).
* A stack of floats that is handed over (in a second derivative: it is such a tape) has its adjoint stack handed
  to the reverse function; a stack of arrays has a stack of their shadows beside it.

Source: the split mode of tape-based reverse mode, Griewank and Walther (2008), section 6.1; DLVM has
seedable adjoints for calls, which run the callee again at every level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dlvm_py.errors import NotDifferentiable, PassError
from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import (
    OPS,
    VOID,
    Block,
    Builder,
    Function,
    Instruction,
    Module,
    PointerType,
    StackType,
    TensorType,
    TupleType,
    Type,
    Value,
    literal,
    scalar,
)
from dlvm_py.ir.analysis import reachable_from
from dlvm_py.ir.analysis.calls import calls, reachable, written_params
from dlvm_py.ir.value import BlockArg
from dlvm_py.transforms.differentiate import handed_down
from dlvm_py.transforms.differentiate.arguments import allocate_like, entry_builder
from dlvm_py.transforms.differentiate.clone import clone
from dlvm_py.transforms.differentiate.handed_down import Crossing
from dlvm_py.transforms.differentiate.lasting import lasting
from dlvm_py.transforms.differentiate.memory import adjoint_stack
from dlvm_py.transforms.differentiate.points_to import is_view_of_windows
from dlvm_py.transforms.differentiate.shadows import zeros_like

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.primal import Primal
    from dlvm_py.transforms.differentiate.reverse import Sweep
    from dlvm_py.transforms.differentiate.shadows import Shadows

_RESULTS = "results"  # the callee of the marker that holds the results until the function is cut


def leaves(result: Type) -> list[Type]:
    """The types of the results, one by one."""
    if isinstance(result, TupleType):
        return list(result.elements)
    return [] if result == VOID else [result]


def bundle(types: list[Type]) -> Type:
    """The type of several results."""
    return TupleType(tuple(types)) if len(types) > 1 else types[0] if types else VOID


def known_callee(module: Module, call: Instruction) -> Function:
    """The function that is called. Raises: NotDifferentiable DL610 where there is no body to differentiate."""
    callee = module.functions.get(call.attrs["callee"])
    if callee is None or not callee.blocks:
        raise NotDifferentiable(
            f"the function '{call.attrs['callee']}' is not known here", call.loc, code="DL610", help="define it"
        )
    return callee


def give(b: Builder, values: list[Value]) -> None:
    """Return nothing, one value, or a tuple of them."""
    b.ret(*([b.emit("tuple", *values)] if len(values) > 1 else values))


def _is_float_scalar(t: Type) -> bool:
    return isinstance(t, TensorType) and not t.shape and t.dtype.is_inexact


def is_float_array(t: Type) -> bool:
    """Whether values of this type are arrays of floats in memory."""
    return isinstance(t, PointerType) and t.dtype.is_inexact


def brings_shadow(t: Type) -> bool:
    """Whether a parameter brings its shadow along: arrays of floats, and stacks of them."""
    return is_float_array(t.element if isinstance(t, StackType) else t)


def has_adjoint_stack(t: Type) -> bool:
    """Whether a parameter is a stack of floats, which the reverse function takes the adjoint stack of."""
    return isinstance(t, StackType) and _is_float_scalar(t.element)


class Split(Mutable):
    """A function and its two halves. `tapes`: the element types of the stacks that each takes last."""

    primal: Function
    forward: Function
    reverse: Function
    tapes: set[Type] = field(default_factory=set)
    crossing: list[Crossing] = field(default_factory=list)

    @property
    def with_shadow(self) -> list[int]:
        """Which parameters bring their shadows along; the shadows come behind all parameters, in this order."""
        return [k for k, p in enumerate(self.primal.params) if brings_shadow(p.type)]

    def forget_unused_tapes(self) -> None:
        """Leave out the stacks that neither half uses any more."""
        self.tapes = set()
        for f in (self.forward, self.reverse):
            own: dict[Type, Value] = f.meta.get("tapes", {})  # type: ignore[assignment]
            used = {o for i in f.instructions() for o in i.all_operands()}
            f.entry.args = [a for a in f.entry.args if a in used or a not in own.values()]
            f.meta["tapes"] = {t: v for t, v in own.items() if v in used}
            self.tapes.update(f.meta["tapes"])  # type: ignore[call-overload]


class Splits:
    """The split functions that one differentiation needs."""

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        functions = [f for f in reachable(module, name) if f.blocks]
        self.written = {f.name: written_params(module, f.name) for f in functions}
        self.lasting: dict[str, set[int]] = {}
        self.has_windows = any(is_view_of_windows(i) for f in functions for i in f.instructions())
        self.calls: dict[Value, Split] = {}  # the values that stand for calls of the primal
        self._elements: dict[Value, list[list[Value]]] = {}  # of these: the scalar results, by result
        self._operands: dict[Value, list[Value]] = {}
        self._splits: dict[str, Split] = {}
        self._pending: list[Split] = []
        self._pairs: list[tuple[Instruction, Instruction]] = []  # calls of the forward and of the reverse function
        self._made: dict[Value, Instruction] = {}

    def of(self, name: str) -> Split:
        """The split of function `name`, whose bodies are made later."""
        if name not in self._splits:
            primal = self.module.functions[name]
            forward = Function(f"{name}_forward", VOID)
            results = leaves(primal.result)
            forward.result = bundle([*results, *filter(is_float_array, results)])
            reverse = Function(f"{name}_reverse", bundle([p.type for p in primal.params if _is_float_scalar(p.type)]))
            self.module.add(forward)
            self.module.add(reverse)
            self._splits[name] = Split(primal, forward, reverse)
            self._pending.append(self._splits[name])
        return self._splits[name]

    # -- callers -------------------------------------------------------------------------------------

    def forward(self, primal: Primal, call: Instruction, shadow: Callable[[Value], Value]) -> dict[Value, Value]:
        """Turn a call of the primal into one of the forward function; the shadows of its array results."""
        callee = known_callee(self.module, call)
        split = self.of(callee.name)
        results = leaves(call.type)
        users = primal.uses[call]
        uses: list[list[Value]] = [[] for _ in results]
        if isinstance(call.type, TupleType):
            for user in users:
                if user.op.name != "extract":
                    raise PassError(f"the result of @{split.primal.name} is used as a tuple")
                uses[user.attrs["at"]].append(user)
        elif results:
            uses[0].append(call)
        self.calls[call], self._operands[call] = split, list(call.operands)
        self._elements[call] = [values if _is_float_scalar(t) else [] for t, values in zip(results, uses, strict=True)]
        handed = [shadow(o) for o in call.operands if brings_shadow(o.type)]
        operands = [*call.operands, *handed]
        attrs = {"callee": split.forward.name, "result": split.forward.result}
        b = Builder(primal.function)
        if isinstance(call.type, TupleType) or not any(map(is_float_array, results)):
            call.operands, call.attrs, call.type, made = operands, attrs, split.forward.result, call
            b.after(call).loc = call.loc
        else:
            # one array becomes two: what was the call is now the first of them
            b.before(call).loc = call.loc
            made = b.emit("apply", *operands, **attrs)
            call.op, call.operands, call.attrs = OPS["extract"], [made], {"at": 0}
        self._made[call] = made
        shadows: dict[Value, Value] = {}
        at = len(results)
        for t, values in zip(results, uses, strict=True):
            if is_float_array(t):
                result_shadow = b.emit("extract", made, at=at)
                shadows.update(dict.fromkeys(values, result_shadow))
                at += 1
        return {v: s for v, s in shadows.items() if primal.has_shadow(v)}

    def reverse(self, sweep: Sweep, call: Instruction) -> None:
        """The adjoint of a call: the reverse function, given what has been gathered for the results."""
        split, b = self.calls[call], sweep.b
        seeds: list[Value] = []
        for t, values in zip(leaves(split.primal.result), self._elements[call], strict=True):
            if not _is_float_scalar(t):
                continue
            total: Value | None = None
            for v in values:
                seed = sweep.take(v)
                if seed is not None:
                    total = seed if total is None else b.emit("add", total, seed)
            seeds.append(total if total is not None else literal(0.0, scalar(t.dtype)))  # type: ignore[attr-defined]
        sweep.memory.flush()
        stacks = [adjoint_stack(sweep, o) for o in self._operands[call] if has_adjoint_stack(o.type)]
        result = split.reverse.result
        made = b.emit("apply", *seeds, *stacks, callee=split.reverse.name, result=result)
        self._pairs.append((self._made[call], made))
        operands = [o for o in self._operands[call] if _is_float_scalar(o.type)]
        for k, operand in enumerate(operands):
            amount = b.emit("extract", made, at=k) if isinstance(result, TupleType) else made
            sweep.accumulate(operand, amount)

    # -- the end ---------------------------------------------------------------------------------------

    def finish(self, primal: Primal, build: Callable[[Splits, Split], None]) -> None:
        """Make all bodies, then hand the tapes from the function of `primal` down to all that need them."""
        if not self._splits and not self._pending:
            return
        function = primal.function
        sites = [(split.primal.name, self._operands[call]) for call, split in self.calls.items()]
        below = {f.name: f for name, _ in sites for f in reachable(self.module, name) if f.blocks}
        self.lasting = lasting(primal, sites, list(below.values()), self.written)
        while self._pending:
            build(self, self._pending.pop())
        if not primal.is_detached:
            handed_down.run(function, list(self._splits.values()), self._pairs)
        by_name = {f.name: s for s in self._splits.values() for f in (s.forward, s.reverse)}
        changed = True
        while changed:
            changed = False
            for split in self._splits.values():
                for f in (split.forward, split.reverse):
                    new = split.tapes.union(*(by_name[n].tapes for n in _callee_names(f) if n in by_name))
                    changed |= new != split.tapes
                    split.tapes = new
        for split in self._splits.values():
            for f in (split.forward, split.reverse):
                own: dict[Type, Value] = f.meta.pop("tapes", {})  # type: ignore[assignment]
                f.entry.args = [a for a in f.entry.args if a not in own.values()]
                for t in _in_order(split.tapes):
                    if t not in own:
                        own[t] = BlockArg(StackType(t), f.entry, "tape")
                    f.entry.args.append(own[t])  # type: ignore[arg-type]
                _hand_over(f, by_name, own)
        needed = set().union(*(by_name[n].tapes for n in _callee_names(function) if n in by_name))
        b = entry_builder(function)
        tapes: dict[Type, Value] = {t: b.emit("createStack", name="tape", element=t) for t in _in_order(needed)}
        _hand_over(function, by_name, tapes)
        for end in [i for i in function.instructions() if i.op.name == "return"]:
            b.before(end)
            for tape in tapes.values():
                b.emit("destroyStack", tape)


def _callee_names(function: Function) -> list[str]:
    return [i.attrs["callee"] for i in calls(function)]


def _in_order(types: set[Type]) -> list[Type]:
    return sorted(types, key=str)


def _hand_over(function: Function, by_name: dict[str, Split], tapes: dict[Type, Value]) -> None:
    for i in calls(function):
        split = by_name.get(i.attrs["callee"])
        if split is not None:
            i.operands = [*i.operands, *(tapes[t] for t in _in_order(split.tapes))]


# -- a function that is cut in two ---------------------------------------------------------------------


def mark_results(primal: Primal, shadows: Shadows) -> None:
    """Hold what the forward function gives, at the end of its exit block."""
    b = Builder(primal.function, primal.exit.block)
    given = list(primal.exit.leaves)
    for leaf in primal.exit.leaves:
        if is_float_array(leaf.type):
            if primal.has_shadow(leaf):
                given.append(shadows.of(leaf))
            else:
                _, empty = allocate_like(b, leaf, "shadow")
                b.emit("store", zeros_like(b, leaf), empty)
                given.append(empty)
    b.emit("apply", *given, callee=_RESULTS, result=VOID)


def cut(primal: Primal, sweep: Sweep, shadows: Shadows, seeds: list[Value], split: Split) -> None:
    """Make the halves of `split` of a function with both sweeps, the second behind the exit block."""
    function, reverse = primal.function, split.reverse
    exit_, first = primal.exit.block, sweep.blocks[primal.exit.block]
    later = reachable_from(first)
    adjoint_stacks = [primal.adjoint_stacks[p] for p in primal.formal if p in primal.adjoint_stacks]
    # the reverse function
    entry = Block("entry")
    mapping: dict[Value, Value] = {}
    for v in (*seeds, *adjoint_stacks):
        mapping[v] = entry.add_arg(v.type, v.name)
    jump = exit_.instructions.pop()
    entry_map: dict[Value, Value] = dict(zip(first.args, jump.targets[0].args, strict=True))
    first.args = []
    reverse.blocks = [entry, *(b for b in function.blocks if b in later)]
    function.blocks = [b for b in function.blocks if b not in later]
    reverse.substitute(entry_map)
    crossing: dict[Value, None] = {}
    moved: list[Instruction] = []
    tapes: dict[Type, Value] = {}
    for i in reverse.instructions():
        for o in i.all_operands():
            if o in mapping or not isinstance(o, BlockArg | Instruction) or o.block in later:
                continue
            if isinstance(o.type, StackType):
                if o in primal.tapes.values():
                    t = o.type.element
                    mapping[o] = tapes.setdefault(t, BlockArg(o.type, entry, "tape"))
                elif isinstance(o, Instruction) and o not in moved:
                    moved.append(o)  # a stack of adjoints: the forward sweep does not know it
                continue
            crossing[o] = None
    b = Builder(reverse, entry)
    for i in moved:
        assert i.block is not None
        i.block.instructions.remove(i)
        entry.append(i)
    b.at_end(entry)
    ahead = Builder(function, exit_)
    marker = exit_.instructions.pop()
    assert marker.attrs.get("callee") == _RESULTS
    pushes = {o: ahead.emit("push", o, primal.tape(o.type)) for o in crossing}
    for o in reversed(crossing):
        tape = tapes.setdefault(o.type, BlockArg(StackType(o.type), entry, "tape"))
        mapping[o] = popped = b.emit("pop", tape, name=o.name)
        split.crossing.append(Crossing(o, pushes[o], popped))
    b.branch(first)
    entry.args += tapes.values()  # type: ignore[arg-type]
    reverse.substitute(mapping)
    reverse.meta["tapes"] = tapes
    # the forward function
    give(ahead, marker.operands)
    gone = {*seeds, *adjoint_stacks}
    function.entry.args = [a for a in function.entry.args if a not in gone]
    split.forward.blocks = function.blocks
    split.forward.meta["tapes"] = dict(primal.tapes)
    split.tapes = {*primal.tapes, *tapes}


def never_returns(split: Split) -> None:
    """Both halves of a function that always raises, or calls itself for ever."""
    body = clone(split.primal, split.primal.name)
    for p in list(body.params):
        if brings_shadow(p.type):
            body.entry.add_arg(p.type, f"{p.name}_shadow")
    split.forward.blocks = body.blocks
    entry = split.reverse.new_block("entry")
    for t in leaves(split.primal.result):
        if _is_float_scalar(t):
            entry.add_arg(t, "seed")
    for p in split.primal.params:
        if has_adjoint_stack(p.type):
            entry.add_arg(p.type, f"{p.name}_adj")
    message = f"the reverse sweep of {split.primal.name} was reached, which never returns"
    Builder(split.reverse, entry).emit("raise", exception="RuntimeError", message=message)
