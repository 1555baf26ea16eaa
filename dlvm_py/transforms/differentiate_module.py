"""Differentiation: every declared derivative of a module gets its body.

    func @f: (f32, f32) -> f32 {                    [adjoint @f wrt 1 keeping 0]
    'entry(%x: f32, %y: f32):                 +     func @g: (f32, f32) -> (f32, f32)
        %z = multiply %x: f32, %y: f32
        return %z: f32                        =>    func @g: (f32, f32) -> (f32, f32) {
    }                                               'entry(%x: f32, %y: f32):
                                                        %z = multiply %x: f32, %y: f32
                                                        %0.1 = literal (%x: f32, %z: f32): (f32, f32)
                                                        return %0.1: (f32, f32)
                                                    }

Two ways lead to a body. Straight-line code over values (one block, no memory) is differentiated in DLVM's own form,
here: the primal, then the adjoints of its operands from the last instruction to the first; a call becomes a call of
the callee's seedable adjoint, which is declared where there is none. Anything with control flow, memory or stacks
goes through `transforms.differentiate`: calls are inlined, arrays lowered to memory and, in the signature, back.

The stage is optimizable afterwards. Source: Wei, Schwartz, Adve, "DLVM" (2017); DLVM_IR.md, section 4. The rules
are the rows' (differentiate/rules.py), but division, whose adjoint the original emits in another order.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.errors import NotDifferentiable
from dlvm_py.ir import (
    OPS,
    AdjointRequest,
    BlockArg,
    Builder,
    Extern,
    Function,
    FunctionType,
    Instruction,
    Kind,
    Literal,
    Module,
    PointerType,
    StackType,
    TensorType,
    TupleType,
    Type,
    Value,
    is_array,
    scalar,
)
from dlvm_py.ir.analysis.calls import callees, reachable, seen_outside
from dlvm_py.ir.declarations import adjoint_signature, wrt_of
from dlvm_py.ir.layout import is_plain
from dlvm_py.ir.ops.aggregates import keys_of
from dlvm_py.ir.types import I64
from dlvm_py.transforms import (
    dce,
    expand_builtins,
    inline,
    lower_functions,
    lower_values,
    own_entry,
    redundant_load,
    simplify_cfg,
    value_promotion,
)
from dlvm_py.transforms.differentiate import signatures
from dlvm_py.transforms.differentiate.activity import carries_derivative
from dlvm_py.transforms.differentiate.adjoint import adjoint
from dlvm_py.transforms.differentiate.arguments import extents
from dlvm_py.transforms.differentiate.clone import clone
from dlvm_py.transforms.differentiate.primal import refuse_dead_end
from dlvm_py.transforms.differentiate.rules import contributions

REQUEST = "adjoint request"  # in `meta` of a function that was made for one


def run(module: Module) -> bool:
    """Write the body of every declared derivative of `module`; whether there was one."""
    maker = _Maker(module)
    pending = [f for f in module.functions.values() if isinstance(f.declaration, AdjointRequest)]
    changed = bool(pending)
    while pending or maker.declared:
        maker.write(pending.pop(0) if pending else maker.declared.pop(0))
    module.stage = "optimizable" if module.stage == "raw" else module.stage
    return changed


class _Maker:
    """Writes the derivatives of one module. `declared`: those that became necessary on the way."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.declared: list[Function] = []
        self._busy: list[Function] = []

    def write(self, function: Function) -> None:
        """Give `function`, a declared derivative, its body."""
        request = function.declaration
        if not isinstance(request, AdjointRequest):
            return
        primal = self.module.functions[request.primal]
        if isinstance(primal.declaration, AdjointRequest):
            if function in self._busy:
                raise NotDifferentiable(f"@{function.name} is declared to be a derivative of itself", function.loc)
            self._busy.append(function)
            self.write(primal)
            self._busy.pop()
        if isinstance(primal.declaration, Extern):
            raise NotDifferentiable(
                f"@{primal.name} is extern: there is no body to differentiate",
                function.loc,
                code="DL613",
                help=f"give its derivative, as a function @{primal.name}_grad: {self._wanted(primal)}",
            )
        for k in wrt_of(primal, request):
            t = primal.type.params[k]
            if is_plain(t) and not signatures.carries(t):
                raise NotDifferentiable(f"parameter {k} of @{primal.name} is {t}: no derivative", function.loc)
        # the derivative of a call calls the function again, which nobody may see
        seen = seen_outside(self.module, primal.name) is not None
        if is_straight_line(primal) and not seen and not self._has_rules(primal):
            body = _StraightLine(self, function, primal, request).write()
        else:
            body = self._general(function, primal, request)
        function.blocks, function.result = body.blocks, body.result
        function.declaration = function.signature = None
        function.meta[REQUEST] = request

    def _has_rules(self, primal: Function) -> bool:
        """Whether a function, or one that it calls, has derivatives of its own."""
        called = (self.module.functions.get(name) for name in callees(primal))
        return any(f is not None and f.rules for f in (primal, *called))

    def _wanted(self, primal: Function) -> str:
        """The type of the derivative of an extern function that its callers need."""
        source = 0 if isinstance(primal.type.result, TupleType) else None
        return str(adjoint_signature(primal, AdjointRequest(primal.name, source, None, (), True)))

    def _general(self, function: Function, primal: Function, request: AdjointRequest) -> Function:
        """By the pass that knows control flow and memory, on a copy of the module."""
        signature = adjoint_signature(primal, request)
        scratch = Module(self.module.name, self.module.stage)
        for f in reachable(self.module, primal.name):
            if f.blocks or isinstance(f.declaration, Extern):
                copy = scratch.functions[f.name] = clone(f, f.name)
                if f.blocks:
                    own_entry.run(copy)
                copy.attributes, copy.rules = set(f.attributes), dict(f.rules)
                copy.declaration, copy.signature = f.declaration, f.signature
        signatures.refuse_references(list(scratch.functions.values()))
        scratch.variables = self.module.variables
        lower_values.run(scratch)
        lower_functions.check(scratch, primal.name)
        inline.run(scratch, primal.name)
        lowered = scratch.functions[primal.name]
        plan = signatures.plan(primal, lowered, request, signature)
        made = adjoint(scratch, primal.name, plan.config)
        _as_tuple(made)
        for p in made.params[len(lowered.params) :]:
            p.name = _fresh("seed", made.params[: len(lowered.params)])
        lower_values.restore(made, plan.flat)
        if plan.hidden or not signatures.is_flat(signature):
            signatures.restore(made, self.module, signature, plan, len(wrt_of(primal, request)))
        for clean_up in (simplify_cfg, redundant_load, value_promotion, dce):
            clean_up.run(made)
        self._bring_over(function, made, reachable(scratch, made.name))
        return made

    def _bring_over(self, function: Function, made: Function, needed: list[Function]) -> None:
        """Add what `made` calls, but for functions that are here just so: the sweeps of recursive functions."""
        names = {made.name: function.name}
        for f in needed:
            here = self.module.functions.get(f.name)
            is_there = here is not None and (here.blocks or isinstance(here.declaration, Extern))
            if f is made or is_there and here.type == f.type:  # type: ignore[union-attr]
                continue
            old = f.name
            names[old] = self._insert(f, function).name
        for f in needed:
            f.rules = {kind: names.get(rule, rule) for kind, rule in f.rules.items()}
            for i in f.instructions():
                if i.op.kind is Kind.CALL:
                    i.attrs["callee"] = names.get(i.attrs["callee"], i.attrs["callee"])

    def _insert(self, made: Function, after: Function) -> Function:
        """Add a function right behind another one, under a free name."""
        self.module.add(made)
        order = [f for f in self.module.functions.values() if f is not made]
        order.insert(order.index(after) + 1, made)
        self.module.functions = {f.name: f for f in order}
        return made

    def gradient_of(self, callee: Function, source: int | None, after: Function) -> Function:
        """The seedable derivative of a callee for all parameters that have one; declared if there is none."""
        floats = tuple(k for k, t in enumerate(callee.type.params) if isinstance(t, TensorType) and t.dtype.is_float)
        wrt = None if len(floats) == len(callee.type.params) else floats
        request = AdjointRequest(callee.name, source, wrt, (), seedable=True)
        for f in self.module.functions.values():
            if request in (f.meta.get(REQUEST), f.declaration):
                return f
        if isinstance(callee.declaration, Extern):
            given = self.module.functions.get(callee.name + "_grad")
            if given is not None and given.type == adjoint_signature(callee, request):
                given.meta[REQUEST] = request
                return given
        made = Function(callee.name + "_grad", callee.result)
        made.declaration = request
        made.signature = adjoint_signature(callee, request)
        made.result = made.signature.result
        self._insert(made, after)
        self.declared.append(made)
        return made


def _as_tuple(function: Function) -> None:
    """Results of derivatives are tuples, also of one element."""
    if isinstance(function.result, TupleType):
        return
    for i in [i for i in function.instructions() if i.op is OPS["return"]]:
        b = Builder(function).before(i)
        i.operands = [b.emit("tuple", *i.operands)]
    function.result = TupleType((function.result,))


# -- straight-line code ----------------------------------------------------------------------------------

_VALUE_KINDS = {
    Kind.ELEMENTWISE, Kind.INDEX, Kind.GENERATE, Kind.REDUCTION, Kind.CONTRACTION, Kind.AGGREGATE, Kind.CALL,
    Kind.CHECK,
}  # fmt: skip


def is_straight_line(function: Function) -> bool:
    """Whether a function is one block of real values: no branches, memory, stacks, functions that are passed."""
    if len(function.blocks) != 1 or function.entry.terminator is None:
        return False
    *body, last = function.entry.instructions
    values = [*function.params, *body, *(o for i in body for o in i.operands)]
    return (
        last.op is OPS["return"]
        and all(i.op.kind in _VALUE_KINDS for i in body)
        and not any(isinstance(v.type, PointerType | StackType) or _is_complex(v.type) for v in values)
        and not any(isinstance(v.type, FunctionType) for i in body for v in i.operands)
        and all(_is_simple(v.type) for v in values)
        and not any(i.op.name in ("bitCast", "trap") for i in body)
    )


def _is_simple(t: Type) -> bool:
    """A tensor, or a tuple of tensors."""
    return all(map(is_plain, t.elements)) if isinstance(t, TupleType) else is_plain(t)


def _is_complex(t: Type) -> bool:
    return isinstance(t, TensorType) and t.dtype.is_complex


class _StraightLine:
    """The derivative of one block of values."""

    def __init__(self, maker: _Maker, function: Function, primal: Function, request: AdjointRequest) -> None:
        self.maker = maker
        self.declared = function
        self.request = request
        self.f = clone(primal, function.name)
        expand_builtins.run(self.f, maker.module)
        self.wrt = [self.f.params[k] for k in wrt_of(primal, request)]
        self.varied: set[Value] = set(self.wrt)
        self.guarded: set[Value] = set()  # here a zero adjoint must win over a NaN (differentiate/rules.py)
        self.adjoints: dict[Value, Value] = {}
        self.parts: dict[Value, dict[int, Value]] = {}  # adjoints of elements of tuples
        self.b = Builder(self.f)

    def write(self) -> Function:
        """The primal and its adjoint."""
        block = self.f.entry
        last = block.instructions.pop()
        primal = list(block.instructions)
        self._mark(primal)
        self.b.at_end(block)
        results = self._results(last)
        source = results[self.request.source or 0]
        seed = self._seed(source)
        made = set(block.instructions)
        self._add(source, seed)
        for i in reversed(primal):
            self.b.loc = i.loc
            self._instruction(i)
        self.b.loc = None
        derivatives = [self.adjoints.get(p) or self._zero(p) for p in self.wrt]
        self._spell([i for i in block.instructions if i not in made])
        kept = [results[k] for k in self.request.keeping]
        result = self.b.emit("tuple", *(self._spelled(v) for v in derivatives), *kept)
        self.b.ret(result)
        self.f.result = result.type
        return self.f

    def _mark(self, primal: list[Instruction]) -> None:
        """What depends on the parameters that are differentiated for; what a `select` may leave out."""
        for i in primal:
            if any(o in self.varied for o in i.operands):
                refuse_dead_end(i)
                self.varied.add(i)
        for i in reversed(primal):
            if i.op is OPS["select"]:
                self.guarded.update(i.operands[:2])
            elif i in self.guarded:
                self.guarded.update(i.operands)

    def _results(self, last: Instruction) -> list[Value]:
        """The returned value, or the elements of the returned tuple."""
        (value,) = last.operands
        if not isinstance(value.type, TupleType):
            return [value]
        if isinstance(value, Instruction) and value.op is OPS["tuple"]:
            return list(value.operands)
        extracts = [self.b.emit("extract", value, at=k) for k in range(len(value.type.elements))]
        for e in extracts:
            if value in self.varied:
                self.varied.add(e)
        return extracts  # type: ignore[return-value]

    def _seed(self, source: Value) -> Value:
        """The seed: a parameter, or 1 (of an array: an instruction at the start of the block)."""
        t = source.type
        assert isinstance(t, TensorType)
        if self.request.seedable:
            return self.f.entry.add_arg(t, _fresh("seed", [*self.f.params, *self.f.instructions()]))
        if None in t.shape:
            return self.b.emit("broadcast", _number(1, t), *extents(self.b, source))
        return _filled(self.b, 1, t, at_start=True)

    def _zero(self, value: Value) -> Value:
        assert isinstance(value.type, TensorType)
        if None in value.type.shape:
            return self.b.emit("broadcast", _number(0, value.type), *extents(self.b, value))
        return _filled(self.b, 0, value.type)

    # -- the sweep -------------------------------------------------------------------------------------

    def _add(self, value: Value, amount: Value) -> None:
        """The adjoint of `value` grows by `amount`."""
        if value not in self.varied or not carries_derivative(value):
            return
        if isinstance(value, Instruction) and value.op is OPS["extract"] and self._part(value, amount):
            return
        before = self.adjoints.get(value)
        self.adjoints[value] = amount if before is None else self.b.emit("add", before, amount)

    def _part(self, value: Instruction, amount: Value) -> bool:
        """An element of a tuple: of a literal one its operand, of a call one of its results."""
        source, keys = value.operands[0], keys_of(value.attrs)
        if not isinstance(source.type, TupleType) or len(keys) != 1 or not isinstance(source, Instruction):
            return False
        k = int(keys[0])
        if source.op is OPS["tuple"]:
            self._add(source.operands[k], amount)
            return True
        parts = self.parts.setdefault(source, {})
        parts[k] = self.b.emit("add", parts[k], amount) if k in parts else amount
        return True

    def _instruction(self, i: Instruction) -> None:
        if i.op.kind is Kind.CALL:
            if i in self.parts:
                for k, seed in sorted(self.parts[i].items()):
                    self._call(i, k, seed)
            elif i in self.adjoints:
                self._call(i, None, self.adjoints[i])
            return
        seed = self.adjoints.get(i)
        if seed is None:
            return
        if i.op.name in _RULES and not (i.op.name == "divide" and i in self.guarded):
            amounts = _RULES[i.op.name](self, i, seed)
        elif i.op.no_derivative is not None:
            if i.op.kind is Kind.AGGREGATE:
                raise NotDifferentiable(f"{i.op.name} of {i.operands[0].type}: no derivative yet", i.loc, code="DL611")
            return
        else:
            wanted = [o in self.varied and carries_derivative(o) for o in i.operands]
            amounts = contributions(self.b, i, seed, wanted, i in self.guarded)
        for operand, amount in zip(i.operands, amounts, strict=True):
            if amount is not None:
                self._add(operand, amount)

    def _call(self, i: Instruction, source: int | None, seed: Value) -> None:
        """apply @g(args) → apply @g_grad(args, seed), and the element of each argument."""
        callee = self.maker.module.functions[i.attrs["callee"]]
        gradient = self.maker.gradient_of(callee, source, self.declared)
        result = gradient.type.result
        call = self.b.emit("apply", *i.operands, self._spelled(seed), callee=gradient.name, result=result)
        request = gradient.meta.get(REQUEST) or gradient.declaration
        assert isinstance(request, AdjointRequest)
        numbers = wrt_of(callee, request)
        found = [self.b.emit("extract", call, at=at) for at in range(len(numbers))]
        for k, amount in zip(numbers, found, strict=True):
            self._add(i.operands[k], amount)

    # -- rules of its own ------------------------------------------------------------------------------

    def divide(self, i: Instruction, seed: Value) -> list[Value | None]:
        """d(x/y) = seed/y, and -(x/y²)·seed; with a seed of 1 that factor is left out."""
        x, y = i.operands
        wanted = [o in self.varied for o in i.operands]
        one = isinstance(seed, Literal) and seed.value == 1
        dx = self._fitted(i, 0, self.b.emit("divide", seed, y)) if wanted[0] else None
        if not wanted[1]:
            return [dx, None]
        square = self.b.emit("multiply", y, y)
        dy = self.b.emit("negate", self.b.emit("divide", x, square))
        return [dx, self._fitted(i, 1, dy if one else self.b.emit("multiply", seed, dy))]

    def _fitted(self, i: Instruction, k: int, amount: Value) -> Value:
        """Summed to the shape of the operand, as the sum of what `add` would stretch."""
        operand = i.operands[k]
        if operand.type == amount.type:
            return amount
        operands: list[Value] = [operand, operand]
        operands[1 - k] = amount
        like = Instruction(OPS["add"], operands)
        found = contributions(self.b, like, amount, [k == 0, k == 1], False)[k]
        assert found is not None
        return found

    def aggregate(self, i: Instruction, seed: Value) -> list[Value | None]:
        """Each element gets the element of the seed."""
        t = i.type
        assert isinstance(t, TensorType)
        found: list[Value | None] = []
        for number, operand in enumerate(i.operands):
            depth = t.rank - operand.type.rank  # type: ignore[attr-defined]
            path: list[int] = []
            for extent in reversed(t.shape[:depth]):
                number, place = divmod(number, extent or 1)
                path.insert(0, place)
            at = path[0] if len(path) == 1 else tuple(path)
            found.append(self.b.emit("extract", seed, at=at) if operand in self.varied else None)
        return found

    def extract(self, i: Instruction, seed: Value) -> list[Value | None]:
        """The seed in its place among zeros."""
        (source,) = i.operands
        if not is_array(source.type):
            raise NotDifferentiable(f"extract from {source.type}: no derivative yet", i.loc, code="DL611")
        return [self.b.emit("insert", seed, self._zero(source), at=i.attrs["at"])]

    def insert(self, i: Instruction, seed: Value) -> list[Value | None]:
        """The seed without that element, and the element."""
        value, source = i.operands
        if not is_array(source.type):
            raise NotDifferentiable(f"insert into {source.type}: no derivative yet", i.loc, code="DL611")
        at = i.attrs["at"]
        rest = self.b.emit("insert", self._zero(value), seed, at=at)
        return [self.b.emit("extract", seed, at=at), rest]

    # -- spelling ----------------------------------------------------------------------------------------

    def _spell(self, made: list[Instruction]) -> None:
        """As the original writes: whole numbers without a fraction, summed axes from the last to the first."""
        for i in made:
            i.operands = [self._spelled(v) for v in i.operands]
            if i.op is OPS["reduce"] and i.attrs["by"] == "add":
                i.attrs = {**i.attrs, "axes": tuple(sorted(i.attrs["axes"], reverse=True))}

    def _spelled(self, v: Value) -> Value:
        if isinstance(v, Literal) and isinstance(v.value, float) and v.value.is_integer():
            return Literal(v.type, v.value, integral=True)
        return v


_RULES: dict[str, Callable[[_StraightLine, Instruction, Value], list[Value | None]]] = {
    "divide": _StraightLine.divide,
    "aggregate": _StraightLine.aggregate,
    "extract": _StraightLine.extract,
    "insert": _StraightLine.insert,
}


def _number(value: int, t: TensorType) -> Literal:
    return Literal(scalar(t.dtype), float(value), integral=True)


def _filled(b: Builder, value: int, t: TensorType, at_start: bool = False) -> Value:
    """A number of a static shape: a literal, or an instruction `literal value: t`."""
    if not t.shape:
        return _number(value, t)
    operands = [_number(value, t), *(Literal(scalar(I64), n) for n in t.shape)]
    made = Instruction(OPS["broadcast"], operands)
    assert b.block is not None
    if not at_start:
        return b.insert(made)
    made.block = b.block
    b.block.instructions.insert(0, made)
    return made


def _fresh(name: str, taken: list[BlockArg] | list[Value]) -> str:
    """`name`, or with a number where it is taken."""
    names, n, found = {v.name for v in taken}, 0, name
    while found in names:
        found, n = f"{name}_{n}", n + 1
    return found
