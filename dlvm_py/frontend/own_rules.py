"""Calls of functions with derivatives of their own (dlvm.custom_adjoint and its kin), and their rules.

The function becomes an IR function like any callee, whose results are all computed and arrays of their own. It is
called; where derivatives are taken, `attach` translates the rules for the types of the call as functions of the module
and names them in `Function.rules`; ir/derivative_rules.py says what they take and give. Arrays come to a rule
C-contiguous. A structure of arguments is taken apart in the order of its leaves; integers have no seed, tangent or
adjoint, and None in the place of one.
"""

from __future__ import annotations

from typing import Any

from dlvm_py.errors import NotDifferentiable, TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import objects
from dlvm_py.frontend.arrays import allocate, make_array, temp, tensor_of
from dlvm_py.frontend.capture import ABSENT, RULES, capture, plain_function, rules_of
from dlvm_py.frontend.derivatives import is_fresh, root_of
from dlvm_py.frontend.emit import Emitter, Unreachable
from dlvm_py.frontend.orders import Order
from dlvm_py.frontend.signature import Extents, NotFirstClass, abstract, parameter, result_tree, result_value
from dlvm_py.frontend.values import NONE, Array, Growing, Record, Scalar, Sequence, Temp, describe, is_none
from dlvm_py.frozen import Mutable
from dlvm_py.ir import NULL, VOID, Literal, PointerType, TupleType, Type, Value, literal, scalar
from dlvm_py.ir.analysis.calls import written_params
from dlvm_py.ir.derivative_rules import results_of


class Own(Mutable):
    """A translated function with rules: what it was made from, and whether its rules are translated."""

    target: Any
    trees: tuple[tuple[str, Any], ...]
    callee: Any
    is_attached: bool = False


def call(e: Emitter, target: Any, values: dict[str, Any]) -> Any:
    """The value of a call; `values` are the arguments by the names of the parameters."""
    session, plain = e.session, plain_function(target)
    assert plain is not None
    settled = {n: objects.resolved(e, objects.settle(e, v)) for n, v in values.items()}
    extents, given = Extents(), []
    try:
        trees = tuple((n, abstract(e, v, extents, given)) for n, v in settled.items())
        callee = session.own_callee(e, target, plain, trees)
    except NotFirstClass:
        e.error(
            UnsupportedSyntax,
            f"{plain.__name__}, which has derivatives of its own, takes or gives a value that is not supported",
            help="numbers, arrays, and tuples, lists and named tuples of them",
        )
    if callee.result is None:
        e.emit("apply", *given, callee=callee.function.name, result=VOID)
        e.emit("raise", exception="RecursionError", message="maximum recursion depth exceeded")
        raise Unreachable
    taken = [*given, *(session.captured_leaf(e, k) for k in callee.captured)]
    return result_value(e, callee.result, session.apply(e, callee, taken), extents, {})


def captured_by_rules(session: Any, target: Any) -> list[int]:
    """The captured arrays, by number, that the rules of a function read: the function takes them with its own."""
    found: dict[int, None] = {}
    for rule in rules_of(target).values():
        for captured in capture(rule).arrays:
            k = session.captures.index_of(captured.value)
            if k is not None:
                found[k] = None
    return list(found)


def fresh(e: Emitter, value: Any, seen: set[Value] | None = None) -> Any:
    """A result in which every array is one of its own: arguments, views of them, and repetitions are copied."""
    seen = set() if seen is None else seen
    match value:
        case Array():
            root = root_of(value.pointer)
            if is_fresh(root) and root not in seen:
                seen.add(root)
                return value
            copy = allocate(e, value.extents, value.dtype)
            e.emit("store", e.emit("load", value.pointer), copy.pointer)
            return copy
        case Sequence():
            return Sequence(tuple(fresh(e, i, seen) for i in value.items), value.is_list)
        case Record():
            return Record(value.kind, value.names, tuple(fresh(e, i, seen) for i in value.items))
    return value


def is_stop(target: Any) -> bool:
    """Whether a callable is dlvm.stop_gradient."""
    return getattr(target, "__module__", None) == "dlvm_py.rules" and getattr(target, "__name__", "") == "stop_gradient"


def stop(e: Emitter, x: Any) -> Any:
    """dlvm.stop_gradient: the same numbers, in new arrays, without a derivative."""
    x = objects.resolved(e, x)
    match x:
        case Scalar() if x.dtype.is_inexact:
            return Scalar(e.pure("stopGradient", x.value), x.weak)
        case Array() | Temp():
            tensor = tensor_of(e, x)
            return temp(e, e.emit("stopGradient", tensor) if x.dtype.is_inexact else tensor, x.extents)
        case Sequence():
            return Sequence(tuple(stop(e, i) for i in x.items), x.is_list)
        case Record():
            return Record(x.kind, x.names, tuple(stop(e, i) for i in x.items))
        case Growing():
            e.error(UnsupportedSyntax, "stop_gradient takes no list of computed length", help="pass np.array(x)")
    return x


# -- rules -----------------------------------------------------------------------------------------------


def attach(session: Any) -> None:
    """Translate the rules of all functions of the module that have some."""
    pending = True
    while pending:
        pending = [
            own
            for name, own in session.own.items()
            if not own.is_attached and session.module.functions.get(name) is own.callee.function
        ]
        for own in pending:
            own.is_attached = True
            _attach(session, own)


def _attach(session: Any, own: Own) -> None:
    function, plain = own.callee.function, plain_function(own.target)
    assert plain is not None
    rules = rules_of(own.target)
    found = {kind: session.captures.value_of(rules, kind, rules.get(kind, ABSENT)) for kind in RULES}
    found = {kind: rule for kind, rule in found.items() if rule is not ABSENT}
    if not found or (set(found) == {"forward"}):
        raise NotDifferentiable(
            f"'{plain.__name__}' is marked to have derivatives of its own, and has no rule for them",
            function.loc,
            code="DL624",
            help=f"define it: @{plain.__name__}.adjoint or @{plain.__name__}.tangent",
        )
    if written_params(session.module, function.name):
        raise NotDifferentiable(
            f"'{plain.__name__}', which has derivatives of its own, writes an array that it is given",
            function.loc,
            code="DL621",
            help="return a new array",
        )
    kept = _Rule(session, own, found["forward"], "forward").forward() if "forward" in found else None
    for kind in ("adjoint", "tangent"):
        if kind in found:
            rule = _Rule(session, own, found[kind], kind)
            (rule.adjoint if kind == "adjoint" else rule.tangent)(kept)


class _Rule:
    """The translation of one rule of a function."""

    def __init__(self, session: Any, own: Own, rule: Any, kind: str) -> None:
        self.session, self.own, self.rule = session, own, rule
        self.e, self.source = session.begin(rule, rule.__name__)
        self.e.function.loc = self.source.loc(self.source.node)
        own.callee.function.rules[kind] = self.e.function.name
        self._classes: dict[int, Value] = {}

    # -- what a rule is given ----------------------------------------------------------------------------

    def _arguments(self) -> list[Any]:
        """The function's arguments, one a parameter; those behind *args one by one."""
        e, entry = self.e, self.e.function.entry
        values = [parameter(e, _contiguous(t), entry, n, self._classes) for n, t in self.own.trees]
        for k in self.own.callee.captured:
            self.session.captured_argument(e, k)
        return self._spread(values)

    def _spread(self, values: list[Any]) -> list[Any]:
        code = plain_function(self.own.target).__code__  # type: ignore[union-attr]
        count = code.co_argcount
        if not code.co_flags & 0x04:  # no *args
            return values
        return [*values[:count], *values[count].items, *values[count + 1 :]]

    def _result(self) -> Any:
        """The function's result, as new parameters."""
        types = results_of(self.own.callee.type)
        given = [self.e.function.entry.add_arg(_by_value(t), "result") for t in types]
        extents = Extents()
        extents.values = [self._classes[k] for k in range(len(self._classes))]
        return result_value(self.e, self.own.callee.result, given, extents, {})

    def _like(self, value: Any, name: str) -> Any:
        """Seeds or tangents of a value: new parameters for its floats, None for what is none."""
        entry = self.e.function.entry
        match value:
            case Scalar() if value.dtype.is_inexact:
                return Scalar(entry.add_arg(scalar(value.dtype), name), value.weak)
            case Array() if value.dtype.is_inexact:
                pointer = entry.add_arg(PointerType(value.type.pointee), name)
                return make_array(self.e, pointer, list(value.extents))
            case Sequence():
                return Sequence(tuple(self._like(i, name) for i in value.items), value.is_list)
            case Record():
                return Record(value.kind, value.names, tuple(self._like(i, name) for i in value.items))
        return NONE

    def _run(self, given: list[Any]) -> Any:
        """What the rule returns; None where it never does."""
        values = self.session.bind(self.e, self.rule, given, {})
        found = self.session.run(self.e, self.source, self.rule, values)
        if found is not None:
            self.e.builder.loc = self.source.loc(self.source.node)
            found = objects.resolved(self.e, found)
        return found

    # -- the rules ---------------------------------------------------------------------------------------

    def forward(self) -> tuple[Any, list[Type]]:
        """(result, residuals) of the arguments; the tree and the types of the residuals."""
        arguments = self._arguments()
        found = self._run(arguments)
        if not isinstance(found, Sequence) or len(found.items) != 2:
            self._refuse("returns a pair: the result of the function, and what its adjoint rule needs", found)
        result, residuals = found.items
        result = objects.settle(self.e, fresh(self.e, result))
        leaves: list[Value] = []
        tree = result_tree(self.e, result, self._classes, [], leaves, constants=False)
        own = self.own.callee
        if not _same_kind(tree, own.result) or [_by_value(v.type) for v in leaves] != [
            _by_value(t) for t in results_of(own.type)
        ]:
            self._refuse("gives another result than the function", result)
        count = len(leaves)
        shown = result_tree(self.e, objects.settle(self.e, residuals), {}, [], leaves, constants=False)
        self.e.function.result = TupleType(tuple(v.type for v in leaves))  # type: ignore[arg-type]
        self.e.builder.ret(self.e.emit("tuple", *leaves))
        return shown, [v.type for v in leaves[count:]]

    def adjoint(self, kept: tuple[Any, list[Type]] | None) -> None:
        """The adjoints of the arguments, of these, the result and the seed; or of residuals and the seed."""
        if kept is None:
            like = self._arguments()
            result = self._result()
            given = [*like, result, self._like(result, "seed")]
        else:
            tree, types = kept
            entry = self.e.function.entry
            residuals = [entry.add_arg(_by_value(t), "kept") for t in types]
            seeded = _shape_of_result(self.own.callee.result, results_of(self.own.callee.type))
            given = [result_value(self.e, tree, list(residuals), Extents(), {}), self._like(seeded, "seed")]
            like = self._spread([_shape(t) for _, t in self.own.trees])
        found = self._run(given)
        if found is None:
            self._never([v for x in like for v in _float_types(x)])
            return
        items = [found] if len(like) == 1 else list(found.items) if isinstance(found, Sequence) else []
        if len(like) == 1 and isinstance(found, Sequence) and not isinstance(like[0], Sequence | Record):
            items = list(found.items)
        if len(items) != len(like):
            self._refuse(f"returns {len(like)} adjoints, one for each argument of the function", found)
        self._return(like, items, "argument")

    def tangent(self, _: Any) -> None:
        """The tangent of the result, of the arguments, the result and a tangent for each argument."""
        arguments = self._arguments()
        result = self._result()
        found = self._run([*arguments, result, *(self._like(a, "tangent") for a in arguments)])
        if found is None:
            self._never(_float_types(result))
            return
        self._return([result], [found], "result")

    # -- what a rule gives -------------------------------------------------------------------------------

    def _never(self, types: list[Type]) -> None:
        self.e.function.result = TupleType(tuple(types)) if len(types) != 1 else types[0]  # type: ignore[arg-type]

    def _return(self, like: list[Any], found: list[Any], what: str) -> None:
        leaves: list[Value] = []
        for k, (wanted, value) in enumerate(zip(like, found, strict=True)):
            self._leaves(wanted, value, leaves, what if what == "result" else f"argument {k}")
        self.session.give(self.e, leaves)

    def _leaves(self, like: Any, found: Any, leaves: list[Value], what: str) -> None:
        """The floats of what a rule gives for a value."""
        e = self.e
        if isinstance(like, Sequence | Record):
            items = (NONE,) * len(like.items) if is_none(found) else getattr(found, "items", None)
            if items is None or len(items) != len(like.items):
                self._refuse(f"returns for {what} something in its structure: {describe(like)}", found)
            for part, value in zip(like.items, items, strict=True):
                self._leaves(part, value, leaves, what)
            return
        if not isinstance(like, Scalar | Array) or not like.dtype.is_inexact:
            if not is_none(found):
                self._refuse(f"returns None for {what}, which carries no derivative", found)
            return
        if isinstance(found, Scalar | Array | Temp) and found.dtype.is_complex and not like.dtype.is_complex:
            self._refuse(f"returns real numbers for {what}", found)
        if isinstance(like, Scalar):
            if is_none(found):
                leaves.append(literal(0.0, scalar(like.dtype)))
            elif isinstance(found, Scalar) or (isinstance(found, Array | Temp) and not found.rank):
                leaves.append(e.cast(tensor_of(e, found), like.dtype))
            else:
                self._refuse(f"returns a number for {what}", found)
            return
        if is_none(found):
            if None in like.extents:
                self._refuse(f"returns an array for {what}: np.zeros_like", found)
            found = Temp(e.emit("broadcast", literal(0.0, scalar(like.dtype)), *like.extents), like.extents, e.block)
        if not isinstance(found, Array | Temp) or found.rank != like.rank:
            self._refuse(f"returns for {what} {describe(like)}", found)
        if isinstance(found, Temp) or found.dtype is not like.dtype:
            memory = allocate(e, found.extents, like.dtype)
            e.emit("store", e.cast(tensor_of(e, found), like.dtype), memory.pointer)
            found = memory
        leaves.append(found.pointer)

    def _refuse(self, wanted: str, found: Any) -> None:
        """TypeMismatch DL401 at the rule."""
        raise TypeMismatch(
            f"the rule {self.rule.__name__} {wanted}; it gives {'nothing' if found is None else describe(found)}",
            self.source.loc(self.source.node),
            code="DL401",
        )


def _by_value(t: Type) -> Type:
    return PointerType(t.pointee) if isinstance(t, PointerType) else t


def _contiguous(tree: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tree of an argument whose arrays are C-contiguous."""
    match tree:
        case ("array", type_, extents, _):
            return ("array", PointerType(type_.pointee), extents, ("", Order.ROWS))
        case ("sequence", items, is_list):
            return ("sequence", tuple(map(_contiguous, items)), is_list)
        case ("record", kind, names, items):
            return ("record", kind, names, tuple(map(_contiguous, items)))
    return tree


def _shape(tree: tuple[Any, ...]) -> Any:
    """What an argument looks like, for a rule that does not get it: an array without extents."""
    match tree:
        case ("scalar", type_, weak):
            return Scalar(literal(0, type_), weak)
        case ("array", type_, *_):
            return Array(Literal(type_, NULL), (None,) * type_.rank)  # type: ignore[arg-type]
        case ("sequence", items, is_list):
            return Sequence(tuple(map(_shape, items)), is_list)
        case ("record", kind, names, items):
            return Record(kind, names, tuple(map(_shape, items)))
    return NONE


def _shape_of_result(tree: Any, types: list[Type]) -> Any:
    """The same of a result; consumes the types of its leaves."""
    match tree:
        case ("scalar", weak):
            return _shape(("scalar", types.pop(0), weak))
        case ("array", *_):
            return _shape(("array", types.pop(0)))
        case ("sequence", items, is_list):
            return Sequence(tuple(_shape_of_result(t, types) for t in items), is_list)
        case ("record", items, (kind, names)):
            return Record(kind, names, tuple(_shape_of_result(t, types) for t in items))
    return NONE


def _same_kind(a: Any, b: Any) -> bool:
    """Whether two results have one structure, whatever is known of their extents."""
    if a[0] in ("sequence", "record") and a[0] == b[0]:
        return a[2] == b[2] and len(a[1]) == len(b[1]) and all(map(_same_kind, a[1], b[1]))
    return bool(a[0] == b[0])


def _float_types(like: Any) -> list[Type]:
    if isinstance(like, Sequence | Record):
        return [t for i in like.items for t in _float_types(i)]
    if isinstance(like, Scalar | Array) and like.dtype.is_inexact:
        return [scalar(like.dtype) if isinstance(like, Scalar) else _by_value(like.type)]
    return []
