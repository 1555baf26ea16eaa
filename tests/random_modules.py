"""Random modules for the text alone: every sort of declaration, type, literal, name and op, in no sensible program.

    module = random_module(seed)          verifies at stage raw
    differences(a, b)                     where two modules are not alike, structurally; [] if they are

Each instruction is an op row with operands and attributes that its type rule takes: they are drawn until it does, from
what was made before and from parameters of many types. So a new row needs nothing here to be tried.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from typing import Any

from dlvm_py.errors import Loc
from dlvm_py.ir import (
    BOOL,
    C128,
    DTYPES,
    F64,
    I64,
    NULL,
    OPS,
    UNDEFINED,
    VOID,
    AdjointRequest,
    Alias,
    ArrayType,
    Builder,
    EnumType,
    Extern,
    Function,
    FunctionType,
    Instruction,
    Literal,
    Module,
    NominalType,
    PointerType,
    StackType,
    StructType,
    Target,
    TensorType,
    TupleType,
    Type,
    Value,
    Variable,
    literal,
    scalar,
)
from dlvm_py.ir.op import Kind
from dlvm_py.ir.syntax import form_items
from dlvm_py.ir.types import BoxType
from dlvm_py.ir.value import FunctionName, OpName

# what every function is given
_COMMON = (
    scalar(F64), scalar(I64), scalar(BOOL), TensorType((2, 3), F64), PointerType(TensorType((None,), F64)),
    TensorType((None,), I64), StackType(scalar(F64)), PointerType(TensorType((3,), C128)),
)  # fmt: skip
NAMES = (
    "",
    "",
    "x",
    "y",
    "naïve",
    "a b",
    "0",
    "0.1",
    'quote"d',
    "exp",
    "true",
    "é.ß",
    "\t",
    "_",
    "i64",
    "x_0",
    "\u2028",
)
FLOATS = (0.0, -0.0, 1.0, -1.5, 1e-300, 5e-324, 1e22, 0.1, math.inf, -math.inf, math.nan, math.pi, 2.0**60)
WORDS = {
    "by": ("add", "multiply", "max", "min", "and", "or"),
    "padding": ("none", "half", "full"),
    "side": ("left", "right"),
    "exception": ("ValueError", "ZeroDivisionError"),
    "intrinsic": ("softmax", "mean", "max", "min"),
}


def random_module(seed: int, functions: int = 3, instructions: int = 25) -> Module:
    """A module that verifies; the same for the same seed."""
    return _Generator(random.Random(seed), functions, instructions).module


class _Generator:
    def __init__(self, rng: random.Random, functions: int, instructions: int) -> None:
        self.rng = rng
        self.instructions = instructions
        self.module = Module(rng.choice(("m", 'a "module"', "_\n")))
        self._types()
        for k in range(rng.randrange(3)):
            name = rng.choice((f"v{k}", str(k), f"v {k}"))
            self.module.variables[name] = Variable(PointerType(self._type(2, held=True)), name)
        for k in range(functions):
            self._function(k)

    # -- types -------------------------------------------------------------------------------------------

    def _types(self) -> None:
        rng, types = self.rng, self.module.types
        record, tree = StructType("Record"), EnumType("Tree")
        types["Tree"] = tree
        tree.cases.update({"leaf": (scalar(F64),), "none": (), "node": (tree, scalar(I64))})
        record.fields.update({"a": self._type(1, held=True), "b": scalar(F64), "c": tree})
        types["Record"] = record
        if rng.random() < 0.5:
            types["Hidden"] = NominalType("Hidden")
        if rng.random() < 0.5:
            types["Row"] = Alias("Row", TensorType((2, 3), F64))

    def _tensor(self) -> TensorType:
        rng = self.rng
        dtype = rng.choice((F64, F64, F64, I64, BOOL, *DTYPES.values()))
        return TensorType(
            tuple(rng.choice((1, 2, 3, 3, None)) for _ in range(rng.choice((0, 0, 1, 1, 2, 2, 3)))), dtype
        )

    def _type(self, depth: int, held: bool = False) -> Type:
        """`held`: of a value that memory can hold."""
        rng = self.rng
        match rng.randrange(9) if depth else 0:
            case 1:
                return ArrayType(rng.randrange(1, 4), self._type(depth - 1, True))
            case 2:
                return TupleType(tuple(self._type(depth - 1, held) for _ in range(rng.randrange(1, 4))))
            case 3:
                return self.module.types["Tree"]
            case 4 if "Record" in self.module.types:
                return self.module.types["Record"]
            case 5 if not held:
                tensor = self._tensor()
                layouts = ("C", "S", "F") if tensor.rank > 1 else ("C", "S") if tensor.rank else ("C",)
                return PointerType(tensor, rng.choice(layouts))
            case 6 if not held:
                return BoxType(self._type(depth - 1, True))
            case 7 if not held:
                return StackType(self._type(depth - 1))
        return self._tensor()

    # -- functions ---------------------------------------------------------------------------------------

    def _name(self) -> str:
        return self.rng.choice(NAMES)

    def _function(self, k: int) -> None:
        rng, module = self.rng, self.module
        params = [self._type(2) for _ in range(rng.randrange(4))]
        name = rng.choice((f"f{k}", f"f.{k}", f"<f {k}>", str(len(module.variables) + len(module.functions))))
        if rng.random() < 0.15:
            f = Function(name, self._tensor())
            f.declaration, f.signature = Extern(), FunctionType(tuple(params), f.result)
            module.add(f)
            return
        primals = [f for f in module.functions.values() if f.blocks and _has_derivative(f)]
        if primals and rng.random() < 0.5:
            module.add(_derivative(rng, rng.choice(primals), name))
            return
        result = rng.choice((VOID, scalar(F64), scalar(F64), TupleType((scalar(F64), scalar(I64)))))
        f = Function(name, result)
        f.attributes = set(rng.sample(("inline", "noinline"), rng.randrange(2)))
        module.add(f)
        entry = f.new_block(self._name())
        for t in (*params, *_COMMON):
            entry.add_arg(t, self._name())
        _Body(self, f).fill()


def _has_derivative(f: Function) -> bool:
    return f.result == scalar(F64) and any(p.type == scalar(F64) for p in f.params)


def _derivative(rng: random.Random, primal: Function, name: str) -> Function:
    wrt = tuple(k for k, p in enumerate(primal.params) if p.type == scalar(F64))
    keeping, seedable = ((0,), ())[rng.randrange(2)], rng.random() < 0.5
    f = Function(name, TupleType((scalar(F64),) * (len(wrt) + len(keeping))))
    f.declaration = AdjointRequest(primal.name, None, wrt, keeping, seedable)
    taken = [p.type for p in primal.params] + [scalar(F64)] * seedable
    f.signature = FunctionType(tuple(taken), f.result)
    return f


class _Body:
    """The blocks of one function: a straight line of instructions, then branches."""

    def __init__(self, generator: _Generator, f: Function) -> None:
        self.g = generator
        self.rng = generator.rng
        self.f = f
        self.pool: list[Value] = [*f.params, *generator.module.variables.values()]

    def fill(self) -> None:
        rng, f = self.rng, self.f
        b = Builder(f, f.entry)
        for _ in range(self.g.instructions):
            self._instruction(b)
        ends = [f.new_block(self.g._name()) for _ in range(rng.randrange(1, 4))]
        for block in ends:
            for _ in range(rng.randrange(3)):
                block.add_arg(rng.choice(self.pool).type, self.g._name())
        flag = next(v for v in self.pool if v.type == scalar(BOOL))
        self._leave(f.entry, ends, flag)
        for block in ends:
            b.at_end(block)
            self._instruction(b)
            if block is not ends[-1] and rng.random() < 0.5:
                self._leave(block, ends, flag)
            elif rng.random() < 0.2:
                self._place(b.emit("raise", literal(1), exception="ValueError", message='{} \\ "of" {{}}\n'))
            else:
                self._return(b)

    def _leave(self, block: Any, ends: list[Any], flag: Value) -> None:
        targets = [
            Target(t, [self._of(a.type) for a in t.args]) for t in self.rng.choices(ends, k=self.rng.randrange(1, 3))
        ]
        op = OPS["branch" if len(targets) == 1 else "conditional"]
        self._place(block.append(Instruction(op, [] if len(targets) == 1 else [flag], targets=targets, type=VOID)))

    def _return(self, b: Builder) -> None:
        t = self.f.result
        if t == VOID:
            self._place(b.ret())
        elif isinstance(t, TupleType):
            self._place(b.ret(b.emit("tuple", *(self._of(e) for e in t.elements))))
        else:
            self._place(b.ret(self._of(t)))

    def _place(self, i: Instruction) -> None:
        if self.rng.random() < 0.2:
            line = self.rng.randrange(1, 1000)
            i.loc = Loc(self.rng.choice(("a.py", 'ü "b".py')), line, self.rng.randrange(80), line, 80)

    def _of(self, t: Type) -> Value:
        """A value of a type that dominates everything: made in the entry, or a literal."""
        there = [v for v in self.pool if v.type == t]
        if there and self.rng.random() < 0.7:
            return self.rng.choice(there)
        return self._literal(t) if isinstance(t, TensorType) and not t.shape else Literal(t, UNDEFINED)

    def _literal(self, t: Type) -> Literal:
        rng = self.rng
        if isinstance(t, PointerType) and rng.random() < 0.5:
            return Literal(t, NULL)
        if not isinstance(t, TensorType) or t.shape or rng.random() < 0.05:
            return Literal(t, UNDEFINED)
        match t.dtype.kind:
            case "r":  # references, which are made by memory alone
                return Literal(t, UNDEFINED)
            case "b":
                return Literal(t, rng.random() < 0.5)
            case "f":
                value = rng.choice((*FLOATS, rng.uniform(-9, 9), float(rng.randrange(9))))
                return Literal(t, value, _is_plain(value) and rng.random() < 0.5)
            case "c":
                return Literal(t, complex(rng.choice(FLOATS), rng.choice(FLOATS)))
        limit = 2 ** (t.dtype.bits - 1)
        low, high = (0, 2 * limit - 1) if t.dtype.kind == "u" else (-limit, limit - 1)
        return Literal(t, rng.choice((low, high, 0, 1, rng.randrange(low, high))))

    # -- instructions ------------------------------------------------------------------------------------

    def _instruction(self, b: Builder) -> None:
        """One that some row takes; after many tries without one, none."""
        rng = self.rng
        for _ in range(60):
            op = rng.choice(_ROWS)
            operands = self._operands(op)
            attrs = self._attributes(op, operands)
            if attrs is None:
                continue
            try:
                t = op.result_type(operands, attrs)
            except (TypeError, ValueError, LookupError, AttributeError):
                continue
            i = Instruction(op, operands, attrs, type=t, name=self.g._name() if t != VOID else "")
            if not _is_sound(i, b):
                continue
            b.insert(i)
            self._place(i)
            if t != VOID and b.block is self.f.entry:
                self.pool.append(i)
            return

    def _operands(self, op: Any) -> list[Value]:
        rng = self.rng
        found: list[Value] = []
        for item in form_items(op):
            match item.kind:
                case "%" | "%&":
                    found.append(self._operand() if op.name != "constant" else Literal(self.g._type(1), UNDEFINED))
                case "%?" | "%,":
                    found.extend(self._operand() for _ in range(rng.randrange(1, 3)))
        if op.name in ("store", "scatter", "push"):
            kind = StackType if op.name == "push" else PointerType
            places = [v for v in self.pool if isinstance(v.type, kind)]
            if places:
                found[1] = place = rng.choice(places)
                found[0] = self._of(place.type.element if kind is StackType else place.type.pointee)  # type: ignore[attr-defined]
        if op.name in ("reduceBy", "scanBy", "reduceWindowBy"):
            found[0] = self._of(TensorType((2, 3), F64))
            t = scalar(F64)
            found[1] = Literal(FunctionType((t, t), t), OpName(rng.choice(("subtract", "divide", "power"))))
        lists = sum(item.kind == "(%*)" for item in form_items(op))
        share = rng.choice((0, 1, 1, 2, 2, 3)) if lists else 0
        wanted = {"tuple": None, "aggregate": None, "enumCase": None, "apply": None, "builtin": None, "check": None}
        for _ in range(lists * share):
            number = op.name not in wanted and rng.random() < 0.9
            found.append(literal(rng.randrange(4)) if number else self._operand())
        return found

    def _operand(self) -> Value:
        rng = self.rng
        v = rng.choice(self.pool)
        if rng.random() < 0.3 and isinstance(v.type, TensorType):
            return self._literal(scalar(v.type.dtype))
        functions = [f for f in self.g.module.functions.values() if f.type != VOID]
        if functions and rng.random() < 0.05:
            f = rng.choice(functions)
            return Literal(f.type, FunctionName(f.name))
        return v

    def _attributes(self, op: Any, operands: list[Value]) -> dict[str, Any] | None:
        rng, found = self.rng, {}
        for item in _flat(form_items(op), rng):
            if item.kind != "attribute" or item.attr in found:
                if item.kind == "flag":
                    found[item.attr] = True
                continue
            match item.text:
                case "int":
                    found[item.attr] = rng.randrange(4)
                case "ints":
                    found[item.attr] = tuple(rng.randrange(3) for _ in range(rng.randrange(4)))
                case "pairs":
                    found[item.attr] = tuple((rng.randrange(3), rng.randrange(3)) for _ in range(rng.randrange(1, 3)))
                case "keys":
                    found[item.attr] = rng.choice((0, 1, (0, 1), ("a",), ("b",), ("c",), ("a", 0)))
                case "dtype":
                    found[item.attr] = rng.choice(list(DTYPES))
                case "type" | "type?":
                    found[item.attr] = self._type_for(op, operands)
                case "string" if item.attr == "message":
                    found[item.attr] = "{} " * (len(operands) - 1)
                case "string" | "name" | "word":
                    cases = tuple(self.g.module.types["Tree"].cases)
                    found[item.attr] = rng.choice({**WORDS, "case": cases}.get(item.attr, ("other",)))
                case "function":
                    callees = [
                        f for f in self.g.module.functions.values() if [p.type for p in operands] == list(f.type.params)
                    ]
                    if not callees:
                        return None
                    f = rng.choice(callees)
                    found[item.attr], found["result"] = f.name, f.type.result
        if op.name == "createStack":
            found["element"] = self._type_for(op, operands)
        return found

    def _type_for(self, op: Any, operands: list[Value]) -> Type:
        if op.name == "enumCase":
            return self.g.module.types["Tree"]
        if op.name == "builtin" and operands:
            return self.rng.choice((operands[0].type, scalar(F64)))
        if op.name == "aggregate" and operands and self.rng.random() < 0.8:
            return ArrayType(len(operands), operands[0].type)
        return self.g._type(1, held=True)


def _is_plain(value: float) -> bool:
    """Whether a number can be written without a fraction."""
    return value.is_integer() and abs(value) < 1e15 and math.copysign(1, value) > 0


def _flat(items: Any, rng: random.Random) -> Iterator[Any]:
    """The items of a form, those of optional groups sometimes."""
    for item in items:
        if item.kind != "group":
            yield item
        elif rng.random() < 0.5:
            inner = list(_flat(item.items, rng))
            yield from inner
            if not any(x.kind == "attribute" for x in inner):
                yield type(item)("flag", item.text, item.attr)


_ROWS = [op for op in OPS.values() if op.kind is not Kind.CONTROL and op.name not in ("retain", "release")]


def _is_sound(i: Instruction, b: Builder) -> bool:
    """Whether the verifier takes it, too: what type rules do not see."""
    t = i.type
    if i.op.name == "allocateAggregate" and isinstance(i.attrs["type"], TensorType):
        return False  # written as allocateHeap, and the same
    if i.attrs.get("checked") and t != scalar(I64) and not (isinstance(t, TensorType) and t.dtype is I64):
        return False
    if i.op.name in ("pop", "destroyStack") and isinstance(i.operands[0], Instruction):
        return False  # the verifier follows the stacks of the function itself; those of callers may hold anything
    if i.op.name == "check":
        shown = (scalar(I64), scalar(F64), scalar(BOOL))
        return all(v.type in shown for v in i.operands[1:])
    return all(not isinstance(v, Literal) or v.type != VOID for v in i.operands)


# -- comparison ----------------------------------------------------------------------------------------------------


def differences(a: Module, b: Module) -> list[str]:
    """Where two modules are not alike."""
    found = []
    for what in ("name", "stage"):
        if getattr(a, what) != getattr(b, what):
            found.append(f"{what}: {getattr(a, what)!r}, {getattr(b, what)!r}")
    if {n: _declared(t) for n, t in a.types.items()} != {n: _declared(t) for n, t in b.types.items()}:
        found.append(f"types: {a.types}, {b.types}")
    if [(n, v.type) for n, v in a.variables.items()] != [(n, v.type) for n, v in b.variables.items()]:
        found.append("variables")
    if list(a.functions) != list(b.functions):
        return [*found, f"functions {list(a.functions)}, {list(b.functions)}"]
    for name, f in a.functions.items():
        found += [f"@{name}: {d}" for d in _function_differences(f, b.functions[name])]
    return found


def _declared(t: Any) -> Any:
    fields = dict(t.fields) if isinstance(t, StructType) else dict(t.cases) if isinstance(t, EnumType) else None
    return type(t), t.name, fields, getattr(t, "target", None)


def _function_differences(f: Function, g: Function) -> Iterator[str]:
    for what in ("name", "result", "attributes", "declaration", "type"):
        if getattr(f, what) != getattr(g, what):
            yield f"{what}: {getattr(f, what)}, {getattr(g, what)}"
    if len(f.blocks) != len(g.blocks):
        yield "blocks"
        return
    numbers: list[dict[Any, Any]] = [{}, {}]
    for h, number in zip((f, g), numbers, strict=True):
        for n, block in enumerate(h.blocks):
            number[block] = n
            number.update({v: (n, k) for k, v in enumerate([*block.args, *block.instructions])})
    for p, q in zip(f.blocks, g.blocks, strict=True):
        if [a.type for a in p.args] != [a.type for a in q.args] or len(p.instructions) != len(q.instructions):
            yield f"block {numbers[0][p]}"
            return
        for i, j in zip(p.instructions, q.instructions, strict=True):
            told = [_told(x, number) for x, number in ((i, numbers[0]), (j, numbers[1]))]
            if told[0] != told[1]:
                yield f"{told[0]}\n    {told[1]}"


def _told(i: Instruction, number: dict[Any, Any]) -> Any:
    attrs = {k: tuple(v) if isinstance(v, list) else v for k, v in i.attrs.items() if v is not False}
    targets = [(number[t.block], [_value(v, number) for v in t.args]) for t in i.targets]
    return i.op.name, i.type, attrs, [_value(v, number) for v in i.operands], targets, i.loc


def _value(v: Value, number: dict[Any, Any]) -> Any:
    if isinstance(v, Literal):
        shown = struct.pack("<d", v.value) if isinstance(v.value, float) else repr(v.value)
        return "literal", v.type, shown, v.integral
    return ("variable", v.name, v.type) if isinstance(v, Variable) else (number[v], v.type)
