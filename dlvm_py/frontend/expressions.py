"""Expressions: one method a kind of node, dispatched on the class of the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gast
import numpy as np

from dlvm_py.errors import TypeMismatch, UnsupportedSyntax
from dlvm_py.frontend import either, folds, lists, objects, operators, overloads, records, sets, tables, unpacked
from dlvm_py.frontend.arrays import materialise, tensor_of
from dlvm_py.frontend.attributes import attribute
from dlvm_py.frontend.comprehensions import Comprehensions
from dlvm_py.frontend.emit import Unreachable
from dlvm_py.frontend.growing import as_array
from dlvm_py.frontend.source import Source
from dlvm_py.frontend.table import subscripted
from dlvm_py.frontend.texts import Writer, escaped, of_object, snapshot
from dlvm_py.frontend.values import (
    Array,
    Binding,
    Conflict,
    Either,
    Generator,
    Growing,
    Iteration,
    Object,
    Record,
    Scalar,
    Sequence,
    SliceKey,
    Static,
    Temp,
    Text,
    describe,
    is_none,
)
from dlvm_py.ir import BOOL, U64, Literal, Value, literal, scalar

_VALUE = "$value"
_REFUSED = {
    gast.Yield: ("`yield` inside of an expression", "give it a line of its own: y = yield x"),
    gast.YieldFrom: ("the value of `yield from`", "let `yield from x` be a line of its own"),
    gast.Await: ("`await`", "await it outside, and pass the value in"),
}
# what does something with its operands, of which each has one kind
_WITH_OPERANDS = (
    gast.BinOp, gast.UnaryOp, gast.Compare, gast.BoolOp, gast.IfExp, gast.Call, gast.Subscript, gast.Attribute,
    gast.JoinedStr,
)  # fmt: skip


class Expressions(Comprehensions):
    """The expression part of a Frame."""

    source: Source
    decided: dict[Any, Any]  # operands that have been evaluated, and are not again
    operands: list[tuple[int, dict[Any, Any]]]  # of the expressions around this one, each with how deep it stands

    @contextmanager
    def at(self, node: Any) -> Iterator[None]:
        """Build with the location of `node`."""
        before = self.e.builder.loc
        self.e.builder.loc = self.source.loc(node) or before
        yield
        self.e.builder.loc = before

    def expression(self, node: Any) -> Any:
        """The value of an expression."""
        if node in self.decided:
            return self.decided[node]
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        with self.at(node):
            if handler is None or type(node) in _REFUSED:
                what, hint = _REFUSED.get(type(node), (f"`{type(node).__name__}`", None))
                self.e.error(UnsupportedSyntax, f"{what} is not supported", help=hint)
            if not self.e.session.known.knows_several:
                return handler(node)
            value = self._with_operands(node, handler) if type(node) in _WITH_OPERANDS else handler(node)
        if self.operands and self.operands[-1][0] == self.branching:
            held = self.operands[-1][1]
            if isinstance(value, Either):
                raise either.Met(node, value, held)
            held[node] = value
        return value

    def _with_operands(self, node: Any, handler: Callable[[Any], Any]) -> Any:
        """The value of an expression; of each kind where an operand has several."""
        held: dict[Any, Any] = {}
        self.operands.append((self.branching, held))
        try:
            return handler(node)
        except either.Met as met:
            if met.held is not held:
                raise
            found = met
        finally:
            self.operands.pop()
        before = self.decided

        def of(k: int) -> Any:
            self.decided = {**before, **held, found.node: found.value.values[k]}
            try:
                return self.expression(node)
            finally:
                self.decided = before

        return either.chosen(self, found.value, of)

    def value(self, node: Any) -> Any:
        """The value of an expression for rules that only read: lists and dicts as what they hold."""
        return objects.resolved(self.e, self.expression(node))

    def _constant(self, node: Any) -> Any:
        if isinstance(node.value, int) and not isinstance(node.value, bool) and abs(node.value) >= 2**63:
            self.e.error(UnsupportedSyntax, "this int does not fit 64 bits", help="write it as a float")
        return operators.constant(node.value)

    def beside(self, node: Any, other: Any) -> Any:
        """The value of an operand: beside uint64 an int may have 64 bits without a sign."""
        is_unsigned = isinstance(other, Scalar | Array | Temp) and other.dtype is U64
        return _unsigned(node) if is_unsigned and _is_unsigned(node) else self.expression(node)

    def _name(self, node: Any) -> Any:
        return self.read_name(node.id)  # type: ignore[attr-defined]

    def _tuple(self, node: Any) -> Any:
        return Sequence(tuple(self._elements(node.elts)))

    def _list(self, node: Any) -> Any:
        return Sequence(tuple(self._elements(node.elts)), is_list=True)

    def _elements(self, nodes: list[Any]) -> list[Any]:
        items: list[Any] = []
        for node in nodes:
            if isinstance(node, gast.Starred):
                items.extend(self._starred(node))
            else:
                items.append(materialise(self.e, self.expression(node)))
        return items

    def _set(self, node: Any) -> Any:
        return sets.displayed(self.e, self._elements(node.elts))

    def _setcomp(self, node: Any) -> Any:
        def run(action: Callable[[Any], None]) -> None:
            self.comprehend(node, lambda: action(self.expression(node.elt)))

        return sets.comprehended(self.e, run)

    def _binop(self, node: Any) -> Any:
        given = self._sides(node.left, node.right)
        if any(isinstance(v, Object | Record) for v in given):
            found = overloads.binary(self.e, type(node.op), *given)
            if found is not None:
                return found
        if any(sets.held_by(self.e, v) is not None for v in given):
            return sets.binary(self.e, type(node.op), *given)
        sides = [objects.contents(self.e, v) for v in given]
        shares = isinstance(node.op, gast.Add | gast.Mult) and any(map(lists.is_list, sides))
        left, right = map(self._shared if shares else lambda v: objects.resolved(self.e, v), sides)
        if isinstance(node.op, gast.Add) and (isinstance(left, Growing) or isinstance(right, Growing)):
            if all(isinstance(v, Growing | Sequence) for v in (left, right)):
                return lists.joined(self.e, left, right)
        if isinstance(node.op, gast.Mult):
            items, times = (left, right) if lists.is_list(left) else (right, left)
            if lists.is_list(items) and lists.is_computed_int(times):
                return lists.repeated(self.e, items, times)
        if isinstance(node.op, gast.BitOr) and isinstance(left, Record) and isinstance(right, Record):
            return records.merged(self.e, left, right)
        return operators.binary(self.e, type(node.op), left, right)

    def _shared(self, held: Any) -> Any:
        """The contents of a list whose items will be another list's too: what can be changed keeps its identity."""
        if not isinstance(held, Sequence):
            return held
        return Sequence(tuple(objects.settle(self.e, i) for i in held.items), held.is_list)

    def _unaryop(self, node: Any) -> Any:
        operand = self.expression(node.operand)
        found = overloads.unary(self.e, type(node.op), operand)
        return operators.unary(self.e, type(node.op), self._truth(operand)) if found is None else found

    def _truth(self, value: Any) -> Any:
        """A value for what asks whether it is true: of an instance what its `__bool__` or `__len__` says."""
        for name in ("__bool__", "__len__"):
            found = overloads.called(self.e, value, name)
            if found is not None:
                return found
        return objects.resolved(self.e, value)

    def _namedexpr(self, node: Any) -> Any:
        value = objects.settle(self.e, self.expression(node.value))
        self.assign_name(node.target.id, value)  # type: ignore[attr-defined]
        return value

    def _lambda(self, node: Any) -> Any:
        return self.define(node)  # type: ignore[attr-defined]

    def _attribute(self, node: Any) -> Any:
        return attribute(self.e, self.expression(node.value), node.attr)

    # -- conditions ------------------------------------------------------------------------------

    def _sides(self, left: Any, right: Any) -> list[Any]:
        if _is_unsigned(left):
            other = self.expression(right)
            return [self.beside(left, other), other]
        first = self.expression(left)
        return [first, self.beside(right, first)]

    def _compare(self, node: Any) -> Any:
        if len(node.ops) == 1:
            kind, right = type(node.ops[0]), node.comparators[0]
            if isinstance(right, gast.Set):
                return self._one_comparison(kind, self.expression(node.left), self._looked_into(right, kind))
            return self._one_comparison(kind, *self._sides(node.left, right))
        return self._chain(self.expression(node.left), node.ops, node.comparators)

    def _looked_into(self, node: Any, kind: type) -> Any:
        """The right side of a comparison: a set that is only looked into is as good as a tuple."""
        if isinstance(node, gast.Set) and kind in (gast.In, gast.NotIn):
            return self.expression(gast.copy_location(gast.Tuple(elts=node.elts, ctx=gast.Load()), node))
        return self.expression(node)

    def _one_comparison(self, kind: type, left: Any, right: Any) -> Any:
        if kind in (gast.Is, gast.IsNot):
            return operators.compare(self.e, kind, left, right)
        if isinstance(left, Object | Record) or isinstance(right, Object | Record):
            found = overloads.compare(self.e, kind, left, right)
            if found is None and kind in (gast.In, gast.NotIn):
                found = overloads.called(self.e, right, "__contains__", left)
                if found is not None:
                    found = operators.weak(operators.condition(self.e, self._truth(found)))
                    return found if kind is gast.In else operators.unary(self.e, gast.Not, found)
            if found is not None:
                return found
        if kind in (gast.In, gast.NotIn):
            if isinstance(sets.held_by(self.e, right), Record) or tables.held_by(self.e, right) is not None:
                where = sets if tables.held_by(self.e, right) is None else tables
                found = where.contains(self.e, left, right)
                return found if kind is gast.In else operators.unary(self.e, gast.Not, found)
            right = records.iterated(objects.resolved(self.e, sets.iterated(self.e, right)))
        elif any(sets.held_by(self.e, v) is not None for v in (left, right)):
            return sets.compare(self.e, kind, left, right)
        if kind in (gast.In, gast.NotIn) and isinstance(right, Iteration | Growing | Generator):
            found = folds.contains(self.e, left, right)
            return found if kind is gast.In else operators.unary(self.e, gast.Not, found)
        return operators.compare(self.e, kind, *(objects.resolved(self.e, v) for v in (left, right)))

    def _chain(self, left: Any, ops: list[Any], comparators: list[Any]) -> Any:
        right = self._looked_into(comparators[0], type(ops[0]))
        first = self._one_comparison(type(ops[0]), left, right)
        if len(ops) == 1:
            return first
        return self._short_circuit(first, lambda: self._chain(right, ops[1:], comparators[1:]), comparators[1:], True)

    def _boolop(self, node: Any) -> Any:
        stop_on_false = isinstance(node.op, gast.And)
        return self._bool_chain(node.values, stop_on_false)

    def _bool_chain(self, nodes: list[Any], stop_on_false: bool) -> Any:
        first = self.expression(nodes[0])
        if len(nodes) == 1:
            return first
        return self._short_circuit(first, lambda: self._bool_chain(nodes[1:], stop_on_false), nodes[1:], stop_on_false)

    def _short_circuit(self, first: Any, rest: Any, nodes: list[Any], stop_on_false: bool) -> Any:
        """`first and rest` (stop_on_false) or `first or rest`; without branches if the rest is simple."""
        flag = operators.condition(self.e, self._truth(first))
        if isinstance(flag, Literal):
            return rest() if flag.value == stop_on_false else first
        if all(map(self._is_simple_condition, nodes)) and _is_bool(first):
            second = rest()
            if _is_bool(second) and isinstance(second, Scalar):
                join = self.e.both if stop_on_false else self.e.either
                return Scalar(join(flag, second.value), first.weak and second.weak)
            rest = lambda: second  # noqa: E731 - evaluated already, without effects
        keep = lambda: first  # noqa: E731
        return self.choose_value(flag, rest, keep) if stop_on_false else self.choose_value(flag, keep, rest)

    def _is_simple_condition(self, node: Any) -> bool:
        """Comparisons of names and constants: nothing that can fail, or cost, if evaluated always."""
        simple = (gast.Compare, gast.BoolOp, gast.UnaryOp, gast.Name, gast.Constant, gast.cmpop, gast.boolop)
        for n in gast.walk(node):
            if isinstance(n, gast.Name):
                binding = self.env.get(n.id)
                if binding is None or binding.is_set is not None or not isinstance(binding.value, Scalar | Static):
                    return False
            elif isinstance(n, gast.UnaryOp):
                if not isinstance(n.op, gast.Not):
                    return False
            elif not isinstance(n, (*simple, gast.expr_context, gast.unaryop)):
                return False
        return True

    def choose_value(self, flag: Value, then: Any, other: Any) -> Any:
        """The value of one of two thunks, each evaluated on its side of a branch."""

        def bind(thunk: Any) -> None:
            self.env[_VALUE] = Binding(materialise(self.e, thunk()), self.e.loc)

        self.branches(flag, lambda: bind(then), lambda: bind(other))
        if not self.alive:
            raise Unreachable
        value = self.env.pop(_VALUE).value
        if isinstance(value, Conflict):
            self.require_several(_VALUE)
            self.e.error(TypeMismatch, value.said_of("this"), help=value.help)
        return value

    def _ifexp(self, node: Any) -> Any:
        flag = operators.condition(self.e, self._truth(self.expression(node.test)))
        if isinstance(flag, Literal):
            return self.expression(node.body if flag.value else node.orelse)
        return self.choose_value(flag, lambda: self.expression(node.body), lambda: self.expression(node.orelse))

    # -- subscripts ------------------------------------------------------------------------------

    def _subscript(self, node: Any) -> Any:
        base = self.expression(node.value)
        grid = subscripted(base)
        if grid is not None:
            return grid(self.e, self.index(node.slice, of_grid=True))
        index = self.index(node.slice)
        found = overloads.called(self.e, base, "__getitem__", index)
        return lists.read(self.e, base, index) if found is None else found

    def index(self, node: Any, of_grid: bool = False) -> Any:
        """The value of an index: as an expression, with slices; those of np.mgrid may have float bounds."""
        if isinstance(node, gast.Slice):
            parts = [self._slice_part(p, of_grid) for p in (node.lower, node.upper, node.step)]
            return SliceKey(*parts)
        if isinstance(node, gast.Tuple):
            return Sequence(tuple(self.index(n, of_grid) for n in node.elts))
        value = self.value(node)
        if isinstance(value, Iteration):  # x[range(n)]
            value = objects.resolved(self.e, lists.list_(self.e, value))
        return as_array(self.e, value) if isinstance(value, Growing) else value

    def _slice_part(self, node: Any, of_grid: bool) -> Scalar | None:
        if node is None:
            return None
        value = self.expression(node)
        if isinstance(value, Static) and value.value is None:
            return None
        if isinstance(value, Array) and not value.rank:
            value = Scalar(tensor_of(self.e, value), weak=False)
        is_int = isinstance(value, Scalar) and (value.dtype.is_integer or value.dtype is BOOL)
        if not is_int and not (of_grid and isinstance(value, Scalar)):
            with self.at(node):
                self.e.error(
                    TypeMismatch,
                    f"slice indices must be ints or None, not {describe(value)}",
                    help="convert with int(...)",
                )
        return value

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, node: Any) -> Any:
        function = self.expression(node.func)
        if isinstance(function, Static) and function.value is np.uint64 and len(node.args) == 1 and not node.keywords:
            if _is_unsigned(node.args[0]):
                return _unsigned(node.args[0])
        args = self._arguments(node.args, bool(node.keywords))
        kwargs = {}
        for keyword in node.keywords:
            value = self.expression(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
                continue
            held = objects.contents(self.e, value)
            if not isinstance(held, Record) or held.kind is not dict:
                self.e.error(UnsupportedSyntax, f"`**` needs a dict, not {describe(held)}")
            kwargs |= dict(zip(held.names, held.items, strict=True))
        return unpacked.call(self.e, function, args, kwargs)

    def _arguments(self, nodes: list[Any], has_keywords: bool) -> list[Any]:
        args: list[Any] = []
        for node in nodes:
            if isinstance(node, gast.Starred):
                value = records.iterated(objects.contents(self.e, self.expression(node.value)))
                if isinstance(value, Generator | Iteration):
                    value = objects.contents(self.e, folds.list_(self.e, value))
                is_last = node is nodes[-1] and not has_keywords
                args.extend(
                    value.items
                    if isinstance(value, Sequence)
                    else unpacked.spread(self.e, materialise(self.e, value), is_last)
                )
            else:
                args.append(self.expression(node))
        return args

    def _starred(self, node: Any) -> tuple[Any, ...]:
        """The items of `*value`."""
        value = records.iterated(objects.contents(self.e, self.expression(node.value)))
        if isinstance(value, Generator):
            value = objects.contents(self.e, folds.list_(self.e, value))
        if not isinstance(value, Sequence):
            self.e.error(
                UnsupportedSyntax,
                f"`*` needs a tuple, or a list of constant length, not {describe(value)}",
                help="pass the array or list itself",
            )
        return value.items

    def _dict(self, node: Any) -> Any:
        record = Record(dict, (), ())
        if node.keys and None not in node.keys:
            keys = [self.expression(k) for k in node.keys[:1]]
            if not tables.is_name(keys[0]):
                values = [objects.settle(self.e, self.expression(node.values[0]))]
                for key, value in zip(node.keys[1:], node.values[1:], strict=True):
                    keys.append(self.expression(key))
                    values.append(objects.settle(self.e, self.expression(value)))
                return tables.displayed(self.e, keys, values)
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                held = objects.contents(self.e, self.expression(value))
                if not isinstance(held, Record) or held.kind is not dict:
                    self.e.error(UnsupportedSyntax, f"`**` needs a dict, not {describe(held)}")
                record = records.merged(self.e, record, held)
            else:
                name = self.expression(key)
                record = records.entry(self.e, record, name, materialise(self.e, self.expression(value)))
        return record

    def message(self, node: Any) -> Text:
        """An exception's message."""
        with self.at(node):
            value = self._written(node).text if isinstance(node, gast.JoinedStr) else self.expression(node)
            if isinstance(value, Static) and isinstance(value.value, str):
                return Text(escaped(value.value), ())
            if isinstance(value, Text):
                return value
            if isinstance(value, Scalar) or is_none(value):
                return of_object(self.e, value)
            self.e.error(UnsupportedSyntax, "a message must be a constant or an f-string")

    def _joinedstr(self, node: Any) -> Any:
        return snapshot(self.e, self._written(node).text)

    def _written(self, node: Any) -> Writer:
        """The text of an f-string."""
        writer = Writer(self.e)
        for part in node.values:
            if isinstance(part, gast.Constant):
                writer.add(str(part.value))
                continue
            with self.at(part.value):
                writer.show(objects.resolved(self.e, self.expression(part.value)), self._format(part))
        return writer

    def _format(self, part: Any) -> str:
        """What stands behind the expression in a replacement field: "!r", ":.3f"."""
        conversion = "" if part.conversion in (-1, None) else "!" + chr(part.conversion)
        if part.format_spec is None:
            return conversion
        spec = self._written(part.format_spec).text
        if not isinstance(spec, Static):
            self.e.error(UnsupportedSyntax, "a format must be constant", help="write {x:10.3f}")
        return f"{conversion}:{spec.value}" if spec.value else conversion


def _is_bool(value: Any) -> bool:
    return isinstance(value, Scalar) and value.dtype is BOOL


def _is_unsigned(node: Any) -> bool:
    """Whether a constant is an int that fits 64 bits without a sign alone."""
    return isinstance(node, gast.Constant) and type(node.value) is int and 2**63 <= node.value < 2**64


def _unsigned(node: Any) -> Scalar:
    return Scalar(literal(node.value, scalar(U64)), weak=False)
