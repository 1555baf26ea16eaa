"""Instructions of one function as statements of Python, in placeholders for their values."""

from __future__ import annotations

from collections.abc import Sequence
from string import Formatter
from typing import Any

import gast

from dlvm_py.backend.python.elementwise import negation
from dlvm_py.backend.python.expressions import Expressions, copied
from dlvm_py.backend.python.nodes import (
    If,
    Node,
    Statement,
    assign,
    augmented,
    build,
    call,
    constant,
    expression,
    formatted,
    index,
    is_name,
    make_tuple,
    name,
    raising,
    returning,
)
from dlvm_py.backend.python.rearranging import shape_node
from dlvm_py.backend.python.reductions import UFUNCS
from dlvm_py.backend.python.writer import dtype, dtype_keyword, is_scalar, literal_of, numpy_dtype
from dlvm_py.errors import Loc
from dlvm_py.ir import (
    Instruction,
    Kind,
    Literal,
    PointerType,
    TensorType,
    TupleType,
    Value,
)
from dlvm_py.ir.exceptions import OF_KEY, exception_class
from dlvm_py.ir.ops.aggregates import keys_of
from dlvm_py.ir.text import NUMBERS, NUMPY, PYTHON, ROWS, STREAMS, flavours_of

_NUMPY = {"numpy.linalg": "np.linalg", "numpy.exceptions": "np.exceptions"}  # modules of exceptions


class Statements(Expressions):
    """The statements of one function."""

    def _statement(self, i: Instruction) -> tuple[list[Value], list[Statement]]:
        """What an instruction assigns, and its statements."""
        loc = i.loc
        match i.op.name:
            case "store":
                return self._store(i, loc)
            case "scatter":
                value, to, *indices = i.operands
                keys = [self.of(k) for k in indices]
                if i.attrs.get("by") is None:
                    return [], [assign(index(self.of(to), keys), self.of(value), loc)]
                places = keys[0] if len(keys) == 1 else make_tuple(keys)
                return [], [expression(call(f"{UFUNCS[i.attrs['by']]}.at", self.of(to), places, self.of(value)), loc)]
            case "allocateHeap":
                node = call("np.empty", self._shape(i), **dtype_keyword(dtype(i)))
                return [i], [assign(self._place(i), node, loc)]
            case "createStack":
                return [i], [assign(self._place(i), gast.List([], gast.Load()), loc)]
            case "push":
                value, stack = i.operands
                return [], [expression(build("_0.append(_1)", self.of(stack), self.kept(value)), loc)]
            case "print":
                return [], [expression(self._print(i), loc)]
            case "pop":
                return [i], [assign(self._place(i), build("_0.pop()", self.of(i.operands[0])), loc)]
            case "apply":
                return self._call(i, loc)
            case "check":
                test, *shown = i.operands
                node = self._complaint(i, shown)
                return [], [If(negation(self, test), [raising(self._class(i.attrs["exception"]), node)], loc=loc)]
        if i.op.kind is Kind.CONTROL:
            return [], self._finish(i, loc)
        return [i], [assign(self._place(i), self._assigned(i), loc)]

    def _assigned(self, i: Instruction) -> Node:
        if i.op.name == "tuple":
            return make_tuple([self.kept(v) for v in i.operands])
        if i.op.name == "extract":
            node = self.of(i.operands[0])
            for key in keys_of(i.attrs):
                node = index(node, [constant(key)])
            return node
        node = self._inline(i)
        return copied(node) if i in self.plan.copied else node

    def _class(self, kind: str) -> str:
        """How the class of an exception or a warning is written."""
        if "." in kind:
            return self.names.of_class(kind)
        found = exception_class(kind)
        return kind if found is None or found.__module__ == "builtins" else f"{_NUMPY[found.__module__]}.{kind}"

    def _print(self, i: Instruction) -> Node:
        message, to = i.attrs["message"], i.attrs["to"]
        if to not in STREAMS:
            keywords = {"stacklevel": constant(2)} if i.attrs.get("above") else {}
            return call("warnings.warn", self._message(i, i.operands), build(self._class(to)), **keywords)
        keywords = {} if message.endswith("\n") else {"end": constant("")}
        if to != "stdout":
            keywords["file"] = build(f"sys.{to}")
        if i.attrs.get("flush"):
            keywords["flush"] = constant(True)
        return call("print", self._message(i, i.operands, message.removesuffix("\n")), **keywords)

    def _complaint(self, i: Instruction, operands: Sequence[Value]) -> Node:
        """What an exception is made with: a text, or a number."""
        message = i.attrs["message"]
        if not message.startswith(OF_KEY):
            return self._message(i, operands)
        return call("eval", self._message(i, operands, message[len(OF_KEY) :]))

    def _message(self, i: Instruction, operands: Sequence[Value], template: str | None = None) -> Node:
        """The text of a message, its operands as the Python objects that they are to the program."""
        template = i.attrs["message"] if template is None else template
        conversions = [conversion for _, field, _, conversion in Formatter().parse(template) if field is not None]
        nodes = []
        for v, flavour, conversion in zip(operands, flavours_of(operands, i.attrs), conversions, strict=True):
            node = self.of(v)
            if flavour == NUMBERS:
                node = build("_0.tolist()", node)
            elif flavour == ROWS:
                node = call("list", node)
            elif conversion is not None and flavour == PYTHON:  # `!r` of NumPy's numbers says so
                node = call({"b": "bool", "i": "int", "f": "float", "c": "complex"}[dtype(v).kind], node)
            elif conversion is not None and flavour == NUMPY and self.is_weak(v):
                node = gast.Call(numpy_dtype(dtype(v)), [node], [])
            nodes.append(node)
        return formatted(template, nodes)

    def _shape(self, allocation: Instruction) -> Node:
        return shape_node(self, allocation)

    def _store(self, i: Instruction, loc: Loc | None) -> tuple[list[Value], list[Statement]]:
        value, to = i.operands
        if i in self.plan.filled:
            allocation = self.plan.filled[i]
            node = self._first_contents(allocation, value)
            if node is not None:
                return [allocation], [assign(self._place(allocation), node, loc)]
            empty = assign(
                self._place(allocation), call("np.empty", self._shape(allocation), **dtype_keyword(dtype(to))), loc
            )
            return [allocation], [empty, self._assign_to(allocation, value, loc)]
        return [], [self._assign_to(to, value, loc)]

    def _assign_to(self, to: Value, value: Value, loc: Loc | None) -> Statement:
        target = self._element(to) if not to.type.rank else self.of(to)  # type: ignore[attr-defined]
        bare = is_name(target)
        if isinstance(value, Instruction) and value in self.plan.inline:
            change = self._change(to, value)
            if change is not None:
                if not isinstance(target, gast.Name | gast.Subscript):
                    target = index(target, [constant(...)])
                return augmented(target, *change, loc)
            while value.op.name == "broadcast" and value in self.plan.inline and isinstance(value.operands[0], Value):
                inner = value.operands[0]
                if not (is_scalar(inner) or inner.type.rank == value.type.rank):  # type: ignore[attr-defined]
                    break
                value = inner
                if not isinstance(value, Instruction):
                    break
        if bare or not isinstance(target, gast.Subscript):
            target = index(target, [gast.Slice(None, None, None) if to.type.rank == 1 else constant(...)])  # type: ignore[attr-defined]
        node = self.operand(value) if is_scalar(value) else self.of(value)
        return assign(target, node, loc)

    def _change(self, to: Value, value: Instruction) -> tuple[Any, Node] | None:
        """The operator and the other operand of a store that changes what is there: `u += v`."""
        signs = {"add": gast.Add, "subtract": gast.Sub, "multiply": gast.Mult, "divide": gast.Div}
        if (
            value.op.name not in signs
            or value.attrs.get("checked")
            or (dtype(value).is_integer and value.op.name == "divide")
        ):
            return None
        a, b = value.operands
        sides = [(a, b, 0), (b, a, 1)] if value.op.name in ("add", "multiply") else [(a, b, 0)]
        for ours, _, at in sides:
            if not (isinstance(ours, Instruction) and ours.op.name == "load" and ours in self.plan.inline):
                continue
            if not self._alias.same_elements(ours.operands[0], to):
                continue
            node = self.broadcast(value)[1 - at]
            sign = signs[value.op.name]
            if value.op.name in ("add", "subtract"):
                turned = _turned(node)
                if turned is not None:
                    node, sign = turned, gast.Sub if sign is gast.Add else gast.Add
            return sign(), node
        return None

    def _first_contents(self, allocation: Instruction, value: Value) -> Node | None:
        """A new array with this value, None if NumPy might make one of another memory order."""
        t = allocation.type
        assert isinstance(t, PointerType)
        inner = value
        while isinstance(inner, Instruction) and inner in self.plan.inline and inner.op.name == "broadcast":
            inner = inner.operands[0]
        keyword = dtype_keyword(t.dtype)
        if is_scalar(inner) and not is_scalar(value):
            number = literal_of(inner)
            shape = self._shape(allocation)
            if number == 0 and not (isinstance(number, float) and str(number)[0] == "-"):
                owner = self._model(shape, t)
                return call("np.zeros_like", owner) if owner is not None else call("np.zeros", shape, **keyword)
            if number == 1:
                owner = self._model(shape, t)
                return call("np.ones_like", owner) if owner is not None else call("np.ones", shape, **keyword)
            return call("np.full", shape, self.operand(inner), **keyword)
        if inner is not value or not isinstance(value.type, TensorType):
            return None
        if not isinstance(value, Instruction) or value not in self.plan.inline:
            return copied(self.of(value))
        if self.plan.is_view(value):
            return copied(self.of(value))
        return self.of(value) if self._is_in_order(value) else None

    def _model(self, shape: Node, t: PointerType) -> Node | None:
        """The array whose `zeros_like` has this shape, dtype and memory order."""
        if not (isinstance(shape, gast.Attribute) and is_name(shape.value)):
            if isinstance(shape, gast.Call) and is_name(shape.func, "len") and is_name(shape.args[0]):
                shape = gast.Attribute(shape.args[0], "shape", gast.Load())
            else:
                return None
        owner = self._values.get(shape.value.id)
        if owner is None or not isinstance(owner.type, PointerType) or owner.type.layout != "C":
            return None
        return shape.value if owner.type.dtype is t.dtype and owner.type.rank == t.rank else None

    def _is_in_order(self, value: Value) -> bool:
        """Whether NumPy gives an expression new memory in C order."""
        t = value.type
        if not isinstance(t, TensorType) or t.rank < 2:
            return True
        if isinstance(value, Instruction) and value.op.name == "load":
            return value.operands[0].type.layout == "C"  # type: ignore[attr-defined]
        if not isinstance(value, Instruction):
            return isinstance(value, Literal)
        if value.op.name in ("padShape", "broadcast", "dataTypeCast", "reduce") or value.op.kind.name == "ELEMENTWISE":
            return all(map(self._is_in_order, value.operands))
        return value.op.name in ("dot", "embed", "scatterAdd")

    def _call(self, i: Instruction, loc: Loc | None) -> tuple[list[Value], list[Statement]]:
        node = call(self.names.functions[i.attrs["callee"]], *(self.kept(v) for v in i.operands))
        parts = [u for u in self.plan.uses[i] if self.plan.is_part(u)]
        if not isinstance(i.type, TupleType):
            if not self.plan.points(i):
                return [], [expression(node, loc)]
            return [i], [assign(self._place(i), node, loc)]
        count = len(i.type.elements)
        if not count or not self.plan.uses[i]:
            return [], [expression(node, loc)]
        if len(parts) < len(self.plan.uses[i]):
            return [i], [assign(self._place(i), node, loc)]
        found = {keys_of(u.attrs)[0]: u for u in parts if self.plan.points(u)}
        target = make_tuple([self._place(found[k]) if k in found else name("_") for k in range(count)])
        return list(found.values()), [assign(target, node, loc)]

    def _finish(self, i: Instruction, loc: Loc | None) -> list[Statement]:
        if i.op.name == "raise":
            return [raising(self._class(i.attrs["exception"]), self._complaint(i, i.operands), loc)]
        if i.op.name != "return":
            return []
        leaves = self._returned(i)
        return [returning(self.result_node(i, leaves), loc)]

    def _returned(self, i: Instruction) -> list[Value]:
        if not i.operands:
            return []
        value = i.operands[0]
        if isinstance(value, Instruction) and value.op.name == "tuple":
            return list(value.operands)
        return [value]

    def result_node(self, i: Instruction, leaves: list[Value]) -> Node | None:
        """What a return gives: the leaves. The main function of a text has its own."""
        nodes = [self.kept(v) for v in leaves]
        if not nodes:
            return None
        return nodes[0] if len(nodes) == 1 else make_tuple(nodes)


def _turned(node: Node) -> Node | None:
    return node.operand if isinstance(node, gast.UnaryOp) and isinstance(node.op, gast.USub) else None
