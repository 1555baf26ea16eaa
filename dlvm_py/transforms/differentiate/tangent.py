"""Forward mode differentiation by tangent code generation: beside every active value its tangent.

    func @f: (f64) -> f64 {                  func @f_tangent: (f64, f64) -> f64 {
    'entry(%x: f64):                         'entry(%x: f64, %x_tan: f64):
        %y = sin %x: f64              →          %0 = cos %x: f64
        return %y: f64                           %y_tan = multiply %x_tan: f64, %0: f64
    }                                            return %y_tan: f64
                                             }

The control flow is that of the primal: a tangent is computed right behind its value, goes through the same block
arguments, and lies in memory in the shadow of what its value lies in (shadows.py; here a shadow holds tangents).
Rules come from the op rows: partials, LINEAR, MULTILINEAR, or a rule of their own. What comes out is ordinary
raw IR: it can be differentiated again, in either mode.

A function that is called (recursion) gets one more: `@g_tangent(args, shadows of arrays, tangents of scalars)` gives
the results, then the shadows of those that are arrays, then the tangents of those that are floats.
Source: Griewank, Walther, "Evaluating Derivatives" (2008), section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.errors import NotDifferentiable
from dlvm_py.frozen import Frozen
from dlvm_py.ir import (
    OPS,
    VOID,
    Block,
    BlockArg,
    Builder,
    Function,
    Instruction,
    Kind,
    Literal,
    Module,
    PointerType,
    TensorType,
    TupleType,
    Type,
    Value,
)
from dlvm_py.ir.analysis import DominatorTree, uses
from dlvm_py.ir.analysis.calls import reachable, written_params
from dlvm_py.transforms.differentiate import replacements
from dlvm_py.transforms.differentiate.activity import Activity, carries_derivative, carries_floats
from dlvm_py.transforms.differentiate.adjoint import adjoint
from dlvm_py.transforms.differentiate.arguments import copy_written, entry_builder
from dlvm_py.transforms.differentiate.calls import brings_shadow, bundle, give, is_float_array, known_callee, leaves
from dlvm_py.transforms.differentiate.clone import clone
from dlvm_py.transforms.differentiate.config import Output
from dlvm_py.transforms.differentiate.directions import SINGLE, NoLanes, Single
from dlvm_py.transforms.differentiate.given import Given, body_of
from dlvm_py.transforms.differentiate.normal_form import Exit, drop_unreachable, unify_returns
from dlvm_py.transforms.differentiate.points_to import PointsTo, carries_pointers
from dlvm_py.transforms.differentiate.primal import refuse_dead_end
from dlvm_py.transforms.differentiate.shadows import Shadows


class TangentConfig(Frozen):
    """What is asked of the tangent pass.

    `wrt` are indices of parameters that are float scalars or pointers to floats, each of which gets one more
    parameter, its tangent, at the end. The tangents of `outputs` are returned, then what is in `keeping`.
    """

    wrt: tuple[int, ...]
    outputs: tuple[Output, ...]
    keeping: tuple[Output, ...] = ()
    shared: frozenset[int] = frozenset()  # as in AdjointConfig; their tangents are in the shadows that they bring
    directions: Single = SINGLE  # of `lanes.Lanes`: several at once, each tangent an array with one more axis


def tangent(module: Module, name: str, config: TangentConfig) -> Function:
    """Add the tangent function of `name` to `module`, as `<name>_tangent`, and return it. Arguments are not changed.

    Raises: NotDifferentiable, located, where a derivative flows through something without a rule; NoLanes where the
    directions are several, and this function calls functions, or has rules of the user's.
    """
    primal = body_of(module, name)
    function = clone(primal, f"{name}_tangent")
    replacements.run(function)
    drop_unreachable(function)
    callees = _Callees(module, name)
    callees.given.raise_calls(function)
    if config.directions is not SINGLE and any(i.op.kind is Kind.CALL for i in function.instructions()):
        raise NoLanes
    shared = frozenset(function.params[k] for k in config.shared)
    copied, prologue = copy_written(function, PointsTo(function, callees.written), Exit(function.entry, []), shared)
    prepared = _Prepared(function, callees, copied, config)
    directions = config.directions
    given = [
        function.entry.add_arg(directions.parameter(copied[k].type), f"{primal.params[k].name}_tan") for k in config.wrt
    ]
    tangents = {copied[k]: g for k, g in zip(config.wrt, given, strict=True) if k not in config.shared}
    walk = _Walk(prepared, callees, tangents, prologue, directions)
    brought = walk.shadows.formal
    function.entry.args = [*(p for p in function.params if p not in given + brought), *brought, *given]
    results: list[Value] = []
    if prepared.exit is not None:
        b = Builder(function, prepared.exit.block)
        results = [walk.result(b, prepared.output(o)) for o in config.outputs]
        results += [prepared.output(o) for o in config.keeping]
        give(b, results)
    function.result = bundle([v.type for v in results])
    callees.given.lower(function)
    module.add(function)
    callees.finish()
    return function


class _Prepared:
    """A private copy with one exit (None: it never returns), and what is known of it (see shadows.Prepared)."""

    def __init__(
        self, function: Function, callees: _Callees, params: list[Value], config: TangentConfig | None
    ) -> None:
        self.function = function
        self.params = params
        self.formal = list(function.params)
        self.is_split = config is None
        self.exit = unify_returns(function)
        self.shared = frozenset(function.params[k] for k in config.shared) if config is not None else frozenset()
        self.points_to = PointsTo(function, callees.written, overlapping=self.is_split, shared=self.shared)
        ends = self.exit.leaves if self.exit is not None else []
        if config is None:
            floats = [p for p in self.formal if carries_floats(p.type)]
            arrays = [v for v in (*floats, *ends) if carries_pointers(v) and carries_floats(v.type)]
            handed = [p for p in floats if not isinstance(p.type, TensorType)]
            outputs = [*handed, *(v for v in ends if carries_floats(v.type))]
            self.activity = Activity(function, self.points_to, floats, outputs, arrays)
        else:
            outputs = [self.output(o) for o in config.outputs] if self.exit is not None else []
            inputs = [params[k] for k in config.wrt]
            self.activity = Activity(function, self.points_to, inputs, outputs)
        self.uses = uses(function)
        self.dominators = DominatorTree(function)

    def output(self, output: Output) -> Value:
        """The value of an output at the exit."""
        assert self.exit is not None
        return self.exit.leaves[output.index] if output.kind == "result" else self.params[output.index]

    def is_active(self, value: Value) -> bool:
        """Whether a tensor, scalar or stack has a tangent."""
        return value in self.activity.active

    def has_shadow(self, pointer: Value) -> bool:
        """Whether there is memory for the tangents of what `pointer` refers to."""
        return self.activity.has_shadow(pointer)


class _Walk:
    """Puts the tangents into a prepared function.

    given: those of its parameters. prologue: what is no part of the primal.
    """

    def __init__(
        self,
        prepared: _Prepared,
        callees: _Callees,
        given: dict[Value, Value],
        prologue: set[Instruction],
        directions: Single,
    ) -> None:
        self.prepared = prepared
        self.callees = callees
        self.directions = directions
        self.shadows = Shadows(prepared, callees, self._start(given), directions)
        self._start_copies(given)
        self.tangents: dict[Value, Value] = {v: t for v, t in given.items() if isinstance(v.type, TensorType)}
        self._b = Builder(prepared.function)
        function = prepared.function
        if prepared.is_split:
            for p in prepared.formal:
                if carries_floats(p.type) and not carries_pointers(p):
                    self.tangents[p] = function.entry.add_arg(p.type, f"{p.name}_tan")
        self.variables: dict[Value, Value] = {}  # of arguments of blocks: the memory that their tangent comes in
        count = {block: len(block.args) for block in function.blocks}
        for block in function.blocks[1:]:
            for arg in list(block.args):
                if carries_derivative(arg) and prepared.is_active(arg):
                    self.tangents[arg] = self._enters(block, arg)
        blocks = list(prepared.dominators.idom)
        for block in blocks:
            for i in list(block.instructions):
                if i not in prologue:
                    self._visit(i)
        for block in blocks:
            self._pass_on(block, count)

    def _enters(self, block: Block, arg: BlockArg) -> Value:
        """The tangent of an argument of a block: an argument as well, or what its variable holds."""
        function = self.prepared.function
        variable = self.directions.variable(entry_builder(function), arg)
        if variable is None:
            return block.add_arg(self.directions.type_of(arg.type), f"{arg.name}_tan")
        self.variables[arg] = variable
        b = Builder(function)
        b.block, b.position = block, 0
        return b.emit("load", variable, name=f"{arg.name}_tan")

    def _start(self, given: dict[Value, Value]) -> Callable[[Builder, Value], Value]:
        how = self.directions
        return lambda b, root: how.given(b, given[root], root) if root in given else how.zeros(b, root)

    def _start_copies(self, given: dict[Value, Value]) -> None:
        """Bring tangents to the copies of parameters whose layout makes them views of their memory, no roots."""
        for copy, tangent in given.items():
            if isinstance(copy, Instruction) and copy.op.kind is Kind.INDEX and self.prepared.has_shadow(copy):
                shadow = self.shadows.of(copy)
                b = Builder(self.prepared.function).after(shadow)  # type: ignore[arg-type]
                b.emit("store", self.directions.given(b, tangent, copy), shadow)

    def of(self, b: Builder, value: Value) -> Value:
        """The tangent of a scalar or tensor, zeros where it has none."""
        found = self.tangents.get(value)
        return self.directions.zeros(b, value) if found is None else found

    def result(self, b: Builder, value: Value) -> Value:
        """The tangent of an output: a number, or memory."""
        if not isinstance(value.type, PointerType):
            return self.of(b, value)
        if self.prepared.has_shadow(value):
            return self.shadows.of(value)
        _, memory = self.directions.allocate(b, value, "tangent")
        b.emit("store", self.directions.zeros(b, value), memory)
        return memory

    def _pass_on(self, block: Block, count: dict[Block, int]) -> None:
        if not block.targets:
            return
        end = block.instructions[-1]
        b = Builder(self.prepared.function).before(end)
        stored: dict[Value, Value] = {}
        for target in block.targets:
            for arg, value in zip(target.block.args[: count[target.block]], list(target.args), strict=False):
                if arg not in self.tangents or not isinstance(arg.type, TensorType):
                    continue
                moved = self.directions.fitted(b, self.of(b, value), arg)
                variable = self.variables.get(arg)
                if variable is None:
                    target.args.append(moved)
                elif variable in stored:  # both edges of a conditional lead to this block
                    stored[variable] = b.emit("select", stored[variable], moved, end.operands[0])
                else:
                    stored[variable] = moved
        for variable, moved in stored.items():
            b.emit("store", moved, variable)

    # -- instructions --------------------------------------------------------------------------------

    def _visit(self, i: Instruction) -> None:
        b, p = self._b, self.prepared
        if i.op.is_terminator or i in self.tangents:
            return
        b.after(i).loc = i.loc
        match i.op.name:
            case "load":
                if p.is_active(i) and p.has_shadow(i.operands[0]):
                    self._set(i, b.emit("load", self.shadows.of(i.operands[0])))
            case "store":
                value, pointer = i.operands
                if p.has_shadow(pointer) and not _is_undefined(value):
                    b.emit("store", self.directions.fitted(b, self.of(b, value), value), self.shadows.of(pointer))
            case "scatter":
                value, pointer, *indices = i.operands
                if p.has_shadow(pointer):
                    if i.attrs.get("by") not in (None, "add"):
                        raise NotDifferentiable(
                            f"scatter by {i.attrs['by']} is not differentiated", i.loc, code="DL611"
                        )
                    moved = self.directions.fitted(b, self.of(b, value), value)
                    b.emit("scatter", moved, self.shadows.of(pointer), *indices, **i.attrs)
            case "createStack" | "push" | "pop" | "destroyStack":
                self._stack(i)
            case "apply":
                if i in self.callees.calls:
                    self.callees.complete(self, b.before(i), i)
                elif i in self.callees.given.calls and p.is_active(i):
                    for result, moved in self.callees.given.tangents(b, i, self.tangents.get):
                        self._set(result, moved)
            case _:
                if any(p.activity.is_varied(o) for o in i.operands):
                    refuse_dead_end(i)
                if carries_derivative(i) and p.is_active(i):
                    self._value(i)

    def _set(self, value: Value, found: Value) -> None:
        if isinstance(found, Instruction) and not found.name and getattr(value, "name", ""):
            found.name = f"{value.name}_tan"  # type: ignore[attr-defined]
        self.tangents[value] = found

    def _stack(self, i: Instruction) -> None:
        stack = i if i.op.name == "createStack" else i.operands[-1]
        if carries_pointers(stack) or not (self.prepared.is_active(stack) or stack in self.tangents):
            return
        if i is stack:
            self._set(i, self._b.emit(i.op, element=self.directions.type_of(i.type.element)))  # type: ignore[attr-defined]
        elif i.op.name == "push":
            value = i.operands[0]
            fitted = self.directions.fitted(self._b, self.of(self._b, value), value)
            self._b.emit(i.op, fitted, self.tangents[stack])
        elif i.op.name == "pop":
            self._set(i, self._b.emit(i.op, self.tangents[stack]))
        else:
            self._b.emit(i.op, self.tangents[stack])

    def _value(self, i: Instruction) -> None:
        found = self._by_rule(i)
        if found is not None:
            self._set(i, self.directions.fitted(self._b, found, i))

    def _by_rule(self, i: Instruction) -> Value | None:
        tangents = [self.tangents.get(o) if carries_derivative(o) else None for o in i.operands]
        return self.directions.by_rule(self._b, i, tangents) if any(tangents) else None


def _is_undefined(value: Value) -> bool:
    return isinstance(value, Literal) and not isinstance(value.value, bool | int | float | complex)


class _Callees:
    """The tangent functions of what is called (see shadows.Calls)."""

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.given = Given(module, adjoint)
        self.written = {f.name: written_params(module, f.name) for f in reachable(module, name) if f.blocks}
        self.calls: dict[Value, tuple[list[Value], list[tuple[list[Value], Value]]]] = {}
        self._made: dict[str, Function] = {}
        self._pending: list[Function] = []

    def of(self, name: str) -> Function:
        """The tangent function of `name`, whose body is made later."""
        if name not in self._made:
            primal = self.module.functions[name]
            results = leaves(primal.result)
            function = Function(f"{name}_tangent", VOID)
            while function.name in self.module.functions:
                function.name += "_"
            function.result = bundle([*results, *filter(is_float_array, results), *filter(_is_number, results)])
            self.module.add(function)
            self._made[name] = function
            self._pending.append(primal)
        return self._made[name]

    def forward(self, primal: _Prepared, call: Instruction, shadow: Callable[[Value], Value]) -> dict[Value, Value]:
        """Turn a call into one of the tangent function, without the tangents of scalars; shadows of results."""
        callee = known_callee(self.module, call)
        function = self.of(callee.name)
        given = list(call.operands)
        operands = [*given, *(shadow(o) for o in given if brings_shadow(o.type))]
        attrs = {"callee": function.name, "result": function.result}
        results = leaves(callee.result)
        if not isinstance(function.result, TupleType):
            call.operands, call.attrs = operands, attrs
            self.calls[call] = given, []
            return {}
        b = Builder(primal.function).before(call)
        b.loc = call.loc
        made = b.emit("apply", *operands, **attrs)
        parts: list[Value] = [b.emit("extract", made, at=k) for k in range(len(function.result.elements))]
        stand_for: list[list[Value]] = [[] for _ in results]
        if isinstance(call.type, TupleType):
            for user in primal.uses[call]:
                stand_for[user.attrs["at"]].append(user)
            call.op, call.operands, call.attrs = OPS["tuple"], parts[: len(results)], {}
        else:
            stand_for[0].append(call)
            call.op, call.operands, call.attrs = OPS["extract"], [made], {"at": 0}
        arrays = [values for t, values in zip(results, stand_for, strict=True) if is_float_array(t)]
        numbers = [values for t, values in zip(results, stand_for, strict=True) if _is_number(t)]
        of_arrays = parts[len(results) : len(results) + len(arrays)]
        self.calls[made] = given, list(zip(numbers, parts[len(results) + len(arrays) :], strict=True))
        shadows = {v: part for values, part in zip(arrays, of_arrays, strict=True) for v in values}
        return {v: part for v, part in shadows.items() if primal.has_shadow(v)}

    def complete(self, walk: _Walk, b: Builder, made: Instruction) -> None:
        """Hand over the tangents of the scalars, and take those of the results."""
        given, numbers = self.calls[made]
        for o in given:
            if carries_floats(o.type) and not carries_pointers(o):
                made.operands = [*made.operands, walk.of(b, o)]
        for values, part in numbers:
            walk.tangents.update(dict.fromkeys(values, part))

    def finish(self) -> None:
        """Make all bodies."""
        while self._pending:
            primal = self._pending.pop()
            function = self._made[primal.name]
            body = clone(primal, primal.name)
            replacements.run(body)
            drop_unreachable(body)
            self.given.raise_calls(body)
            prepared = _Prepared(body, self, list(body.params), None)
            walk = _Walk(prepared, self, {}, set(), SINGLE)
            if prepared.exit is not None:
                b = Builder(body, prepared.exit.block)
                ends = prepared.exit.leaves
                arrays = [walk.result(b, v) for v in ends if is_float_array(v.type)]
                give(b, [*ends, *arrays, *(walk.of(b, v) for v in ends if _is_number(v.type))])
            self.given.lower(body)
            function.blocks = body.blocks


def _is_number(t: Type) -> bool:
    return isinstance(t, TensorType) and t.dtype.is_inexact
