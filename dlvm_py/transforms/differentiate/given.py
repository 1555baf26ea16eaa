"""Calls of functions with derivatives of their own (ir/derivative_rules.py): what their rules say takes the place.

While a function is differentiated, such a call works on values, whatever its function takes and gives:

    %y = apply @f(%p: *<_ x f64>) -> *<_ x f64>   →   %v = load %p
                                                      %t = apply @f(%v: <_ x f64>) -> (<_ x f64>)       by value
                                                      %w = extract 0 from %t
                                                      %y = allocateHeap f64 count (%n); store %w to %y

So it is an op among others: activity flows from its operands to its results, which are arrays of their own; shadows
and the tape see loads and stores; and its adjoint is one more such call, of the rule, in the reverse sweep:

    %v_adj += apply @f_adjoint(%v, %w, %w_adj)

What a rule does not use it is not given, so nothing is kept for it. When all is done (`Given.lower`), operands lie in
memory again. The calls of rules are calls like others; that of `@f` stays one of a function with rules, so that the
derivative can be differentiated again.

A function that has a tangent rule alone is differentiated in reverse by the transpose of it: the tangent is linear in
the tangents of the arguments, and the adjoint of a linear function is its transpose, whatever the point. That the rule
is linear is checked: its adjoint then does not read the tangents. The other way round it is the same: a function that
has an adjoint rule alone is differentiated forward by the transpose of that, for which the rule must be linear in the
seeds. One that is not (a clipped gradient) is no derivative of any function, and has no forward derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dlvm_py.errors import NotDifferentiable
from dlvm_py.ir import (
    VOID,
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
    is_array,
    literal,
    scalar,
)
from dlvm_py.ir.analysis import uses, writes_memory
from dlvm_py.ir.analysis.calls import written_params
from dlvm_py.ir.derivative_rules import is_float, results_of
from dlvm_py.transforms import constant_fold, cse, dce, redundant_load, simplify_cfg, value_promotion
from dlvm_py.transforms.differentiate.activity import BY_VALUE
from dlvm_py.transforms.differentiate.arguments import extents
from dlvm_py.transforms.differentiate.clone import clone
from dlvm_py.transforms.differentiate.config import AdjointConfig, Output
from dlvm_py.transforms.differentiate.shadows import filled, zeros_like
from dlvm_py.transforms.substitution import substitute

if TYPE_CHECKING:
    from dlvm_py.transforms.differentiate.reverse import Sweep

_CLEAN_UP = (simplify_cfg, constant_fold, cse, redundant_load, value_promotion, cse, dce, constant_fold, cse, dce)
Adjoint = Callable[[Module, str, AdjointConfig], Function]


def body_of(module: Module, name: str) -> Function:
    """What to differentiate for the function `name`: itself, or a call of it where it has rules of its own."""
    function = module.functions[name]
    if not function.rules:
        return function
    wrapper = Function(name, function.result)
    entry = wrapper.new_block("entry")
    given = [entry.add_arg(p.type, p.name) for p in function.params]
    b = Builder(wrapper, entry)
    b.loc = function.loc
    made = b.emit("apply", *given, callee=name, result=function.result)
    b.ret(made)
    return wrapper


class Given:
    """The calls of one differentiation whose functions have rules; `calls` are those by value, with their results."""

    def __init__(self, module: Module, adjoint: Adjoint) -> None:
        self.module = module
        self._adjoint = adjoint
        self.calls: dict[Value, list[Value]] = {}
        self._trimmed: dict[str, tuple[Function, list[int]]] = {}
        self._transposed: dict[str, Function] = {}

    # -- before ----------------------------------------------------------------------------------------

    def raise_calls(self, function: Function) -> None:
        """Let the calls in `function` whose callees have rules work on values."""
        for i in list(function.instructions()):
            callee = self.module.functions.get(i.attrs["callee"]) if i.op.name == "apply" else None
            if callee is not None and callee.rules:
                self._raise(function, i, callee)

    def _raise(self, function: Function, call: Instruction, callee: Function) -> None:
        if self._written(callee):
            raise NotDifferentiable(
                f"'{callee.name}', which has derivatives of its own, writes an array that it is given",
                call.loc,
                code="DL621",
                help="return a new array",
            )
        b = Builder(function).before(call)
        b.loc = call.loc
        operands = [b.emit("load", o) if isinstance(o.type, PointerType) else o for o in call.operands]
        made, values = self._call(b, callee, operands)
        self.calls[made] = values
        given: list[Value] = []
        for value, t in zip(values, results_of(callee.type.result), strict=True):
            given.append(_stored(b, value, t) if isinstance(t, PointerType) else value)
        _replace(function, call, given)

    def _call(self, b: Builder, callee: Function, operands: list[Value]) -> tuple[Instruction, list[Value]]:
        """A call by value, and its results."""
        types = [t.pointee if isinstance(t, PointerType) else t for t in results_of(callee.type.result)]
        made = b.emit("apply", *operands, callee=callee.name, result=TupleType(tuple(types)))  # type: ignore[arg-type]
        made.attrs[BY_VALUE] = True
        return made, [b.emit("extract", made, at=k) for k in range(len(types))]

    # -- reverse mode ----------------------------------------------------------------------------------

    def reverse(self, sweep: Sweep, call: Value) -> None:
        """The adjoint of a call: that of its results, by the rule, for its operands."""
        assert isinstance(call, Instruction)
        b, results = sweep.b, self.calls[call]
        found = [sweep.take(r) if is_float(r.type) else None for r in results]
        if not any(found):
            return
        seeds = [
            zeros_like(b, r) if s is None else of_type(b, s, r)
            for r, s in zip(results, found, strict=True)
            if is_float(r.type)
        ]
        callee = self.module.functions[call.attrs["callee"]]
        floats = [o for o in call.operands if is_float(o.type)]
        if "adjoint" in callee.rules:
            rule = self.module.functions[callee.rules["adjoint"]]
            operands = [*self._residuals(sweep.primal.function, call, callee), *seeds]
        else:
            tangent = self.module.functions[callee.rules["tangent"]]
            count = len(tangent.params) - len(call.operands) - len(results)
            rule = self._transpose(tangent, count, "tangent")
            # in the place of the tangents, of which the extents alone are used
            operands = [*call.operands, *results, *floats[:count], *seeds]
        kept, wanted = self._trim(rule)
        _, amounts = self._call(b, kept, [operands[k] for k in wanted])
        for o in floats[len(amounts) :]:
            if sweep.primal.is_active(o):
                self._refuse_captured(call, callee)
        flag = self._any_seed(b, seeds) if any(r in sweep.primal.activity.guarded for r in results) else None
        for o, amount in zip(floats, amounts, strict=False):
            fitted = self._fitted(b, rule, amount, o, "its argument")
            sweep.accumulate(o, fitted if flag is None else b.emit("select", fitted, zeros_like(b, o), flag))

    @staticmethod
    def _any_seed(b: Builder, seeds: list[Value]) -> Value | None:
        """Whether a number among the seeds is not zero; None if there are arrays, whose elements are apart.

        What a `select` may leave out has then the adjoint zero, whatever the rule makes of 0 · NaN (rules.py).
        """
        if any(is_array(s.type) for s in seeds):
            return None
        flag: Value | None = None
        for s in seeds:
            new = b.emit("notEqual", s, literal(0.0, scalar(s.type.dtype)))  # type: ignore[attr-defined]
            flag = new if flag is None else b.emit("or", flag, new)
        return flag

    def _residuals(self, function: Function, call: Instruction, callee: Function) -> list[Value]:
        """What the adjoint rule gets before the seeds: arguments and results, or what a forward rule keeps.

        function: where the call is, which becomes one of the forward rule.
        """
        results = self.calls[call]
        if "forward" not in callee.rules:
            return [*call.operands, *results]
        forward = self.module.functions[callee.rules["forward"]]
        types = [t.pointee if isinstance(t, PointerType) else t for t in results_of(forward.type.result)]
        whole = TupleType(tuple(types))  # type: ignore[arg-type]
        call.attrs = {**call.attrs, "callee": forward.name, "result": whole}
        call.type = whole
        b = Builder(function).after(call)
        b.loc = call.loc
        return [b.emit("extract", call, at=k) for k in range(len(results), len(types))]

    def _transpose(self, rule: Function, count: int, kind: str) -> Function:
        """The adjoint of a rule with respect to its last `count` parameters, in which it must be linear.

        kind: "tangent" or "adjoint". Raises: NotDifferentiable DL623, DL620 for a rule that is not linear.
        """
        if rule.name not in self._transposed:
            first = len(rule.params) - count
            outputs = tuple(Output("result", k) for k in range(len(results_of(rule.result))))
            config = AdjointConfig(tuple(range(first, first + count)), outputs, seedable=True)
            made = self._adjoint(self.module, rule.name, config)
            for clean_up in _CLEAN_UP:
                clean_up.run(made)
            # what the rule computes for its own result has no part in the transpose, whether it could raise or not
            dce.run(made, counts=self._counts)
            used = uses(made)
            for p in made.params[first : first + count]:
                if any(user.op.name != "extent" for user in used[p]):
                    raise _not_linear(rule, p.name, kind)
            self._transposed[rule.name] = made
        return self._transposed[rule.name]

    def _counts(self, i: Instruction) -> bool:
        """Whether an instruction of a transpose counts where its result does not."""
        if i.op.kind is Kind.CALL:
            callee = self.module.functions.get(i.attrs["callee"])
            return callee is None or not callee.rules
        return dce.is_root(i) and (i.type == VOID or i.op.kind is Kind.STACK or writes_memory(i))

    def _trim(self, rule: Function) -> tuple[Function, list[int]]:
        """A rule without the parameters that it does not use, and the numbers of those that it does."""
        if rule.name not in self._trimmed:
            used = uses(rule)
            wanted = [k for k, p in enumerate(rule.params) if used[p]]
            if len(wanted) < len(rule.params):
                name, result = rule.name, rule
                rule = self.module.add(clone(result, f"{name}_used"))
                rule.entry.args = [rule.params[k] for k in wanted]
                self._trimmed[name] = rule, wanted
            self._trimmed[rule.name] = rule, list(range(len(wanted)))
            return rule, wanted
        return self._trimmed[rule.name]

    @staticmethod
    def _fitted(b: Builder, rule: Function, amount: Value, like: Value, what: str) -> Value:
        """What a rule gives, checked to have the shape that it must have."""
        outside, b.loc = b.loc, rule.loc
        for axis, (n, m) in enumerate(zip(extents(b, amount), extents(b, like), strict=True)):
            if not (isinstance(n, Literal) and isinstance(m, Literal) and n.value == m.value):
                message = (
                    f"the rule {rule.name} gives another shape than that of {what}: axis {axis} has {{}}, not {{}}"
                )
                b.emit("check", b.emit("equal", n, m), n, m, exception="ValueError", message=message)
        b.loc = outside
        return of_type(b, amount, like)

    @staticmethod
    def _refuse_captured(call: Instruction, callee: Function) -> None:
        raise NotDifferentiable(
            f"a derivative flows into an array that '{callee.name}' reads and that is none of its arguments: "
            "its rule has no derivative for it",
            call.loc,
            code="DL622",
            help="make it an argument",
        )

    # -- forward mode ----------------------------------------------------------------------------------

    def tangents(
        self, b: Builder, call: Instruction, tangent_of: Callable[[Value], Value | None]
    ) -> list[tuple[Value, Value]]:
        """(result, its tangent) of a call, by the rule; the builder stands anywhere.

        tangent_of: that of an operand, None for zero.
        """
        floats = [o for o in call.operands if is_float(o.type)]
        found = [tangent_of(o) for o in floats]
        if not any(found):
            return []
        callee = self.module.functions[call.attrs["callee"]]
        results = self.calls[call]
        of = [r for r in results if is_float(r.type)]
        if "tangent" in callee.rules:
            rule = self.module.functions[callee.rules["tangent"]]
            given = [*call.operands, *results]
            count = len(rule.params) - len(given)
        else:
            adjoint = self.module.functions[callee.rules["adjoint"]]
            if not adjoint.blocks:
                raise NotDifferentiable(
                    f"'{callee.name}' has an adjoint rule alone, which is extern: there is no forward derivative of it",
                    call.loc,
                    code="DL620",
                    help="give a tangent rule as well, or differentiate in reverse",
                )
            rule = self._transpose(adjoint, len(of), "adjoint")
            # in the place of the seeds, of which the extents alone are used
            given = [*self._residuals(b.function, call, callee), *of]
            count = len(rule.params) - len(given)
        if any(found[count:]):
            self._refuse_captured(call, callee)
        b.after(results[-1]).loc = call.loc  # type: ignore[arg-type]
        moved = [
            zeros_like(b, o) if t is None else of_type(b, t, o)
            for o, t in zip(floats[:count], found[:count], strict=True)
        ]
        operands = [*given, *moved]
        kept, wanted = self._trim(rule)
        _, amounts = self._call(b, kept, [operands[k] for k in wanted])
        return [(r, self._fitted(b, rule, amount, r, "the result")) for r, amount in zip(of, amounts, strict=True)]

    def _written(self, callee: Function) -> set[int]:
        """The parameters that a function writes; an extern one with rules is taken to write none."""
        return written_params(self.module, callee.name) if callee.blocks else set()

    # -- behind ----------------------------------------------------------------------------------------

    def lower(self, function: Function) -> None:
        """Let the calls by value in `function` take and give what their callees do."""
        for i in [i for i in function.instructions() if BY_VALUE in i.attrs]:
            callee = self.module.functions[i.attrs["callee"]]
            b = Builder(function).before(i)
            b.loc = i.loc
            writes = self._written(callee)
            operands = [
                self._passed(b, i, v, t, k in writes)
                for k, (v, t) in enumerate(zip(i.operands, callee.type.params, strict=True))
            ]
            made = b.emit("apply", *operands, callee=callee.name, result=callee.type.result)
            found: list[Value] = [made]
            if isinstance(callee.type.result, TupleType):
                found = [b.emit("extract", made, at=k) for k in range(len(callee.type.result.elements))]
            found = [b.emit("load", v) if isinstance(v.type, PointerType) else v for v in found]
            _replace(function, i, found)

    def _passed(self, b: Builder, call: Instruction, value: Value, wanted: Type, is_written: bool) -> Value:
        """What to hand over for an operand: where an array has just been read, that place, else a copy."""
        if not isinstance(wanted, PointerType):
            return value
        if not is_written and isinstance(value, Instruction) and value.op.name == "load" and value.block is call.block:
            pointer, body = value.operands[0], call.block.instructions  # type: ignore[union-attr]
            between = body[body.index(value) : body.index(call)]
            if pointer.type == wanted and not any(writes_memory(i) for i in between):
                return pointer
        return _stored(b, value, wanted)


def _not_linear(rule: Function, name: str, kind: str) -> NotDifferentiable:
    """A rule that has no transpose."""
    if kind == "tangent":
        return NotDifferentiable(
            f"the tangent rule '{rule.name}' is not linear in the tangent '{name}': "
            "it has no transpose, which reverse mode needs",
            rule.loc,
            code="DL623",
            help="give an adjoint rule as well: @f.adjoint",
        )
    return NotDifferentiable(
        f"the adjoint rule '{rule.name}' is not linear in the seed '{name}': "
        "it has no transpose, which forward mode needs",
        rule.loc,
        code="DL620",
        help="give a tangent rule as well (@f.tangent), or differentiate in reverse: "
        "dlvm.grad, dlvm.jacobian(f, mode='reverse')",
    )


def _stored(b: Builder, value: Value, wanted: PointerType | None = None) -> Value:
    """Fresh memory that holds an array value, as a pointer of the wanted type."""
    assert isinstance(value.type, TensorType)
    stated = wanted.shape if wanted is not None else value.type.shape
    own = extents(b, value)
    counts = [n if m is None else literal(m) for n, m in zip(own, stated, strict=True)]
    fortran = wanted is not None and wanted.layout == "F"
    buffer = b.emit("allocateHeap", *(counts[::-1] if fortran else counts), dtype=value.type.dtype.name)
    memory: Value = b.emit("transpose", buffer) if fortran else buffer
    assert isinstance(memory.type, PointerType)
    if memory.type.pointee != value.type:
        value = b.emit("broadcast", value, *counts)
    b.emit("store", value, memory)
    return memory if wanted is None or memory.type == wanted else b.emit("pointerCast", memory, to=wanted)


def of_type(b: Builder, found: Value, like: Value) -> Value:
    """A value with exactly the type of another one of its shape: types may say more, or less, of the extents."""
    return found if found.type == like.type else filled(b, found, like)


def _replace(function: Function, call: Instruction, leaves: list[Value]) -> None:
    """Put values in the place of the elements of what a call gives, or of what it gives itself."""
    mapping: dict[Value, Value] = {}
    whole = False
    for user in function.instructions():
        if call in user.all_operands():
            if user.op.name == "extract" and isinstance(call.type, TupleType) and isinstance(user.attrs["at"], int):
                mapping[user] = leaves[user.attrs["at"]]
            else:
                whole = True
    if whole:
        b = Builder(function).before(call)
        mapping[call] = b.emit("tuple", *leaves) if isinstance(call.type, TupleType) else leaves[0]
    gone = {call, *(v for v in mapping if v is not call)}
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i not in gone]
    substitute(function.blocks, mapping)
