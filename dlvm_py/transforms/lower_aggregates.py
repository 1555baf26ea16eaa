"""Aggregates become what they are made of: tensors, pointers to tensors, cells.

    struct $Pair {                                   func @f: (f64, f64, cell) -> (f64, f64) {
        #a: f64                                      'entry(%p.a: f64, %p.b: f64, %t: cell):
        #b: f64                                          %tag = cellTag %t: cell
    }                                                    %0.1 = equal %tag: i64, 0: i64
    enum $Tree {                                         conditional %0.1: bool then 'leaf_case() else 'ways()
        ?leaf(f64)                                   'leaf_case():
        ?node($Tree, $Tree)                              %1.0 = cellItem %t: cell at 0 of (f64)
    }                                                    branch 'leaf(%1.0: f64)
    func @f: ($Pair, $Tree) -> $Pair {           =>  'leaf(%x: f64):
    'entry(%p: $Pair, %t: $Tree):                        %3.0 = literal (%p.a: f64, %x: f64): (f64, f64)
        branchEnum %t: $Tree                             return %3.0: (f64, f64)
            case ?leaf 'leaf case ?node 'node        'ways():
    'leaf(%x: f64):                                      ...
        %q = insert %x: f64 to %p: $Pair at #b
        return %q: $Pair
    'node(%l: $Tree, %r: $Tree):
        return %p: $Pair
    }

layout.py says which leaves a type has. A value is replaced by its leaves, in parameters, results, block arguments,
calls and literals; memory by one memory a leaf, so that every pointer keeps the type of what it points to, and
alias analysis, differentiation and fusion need to know nothing of structs. Stacks of aggregates become a stack a leaf.
The untyped stack becomes a stack for each type of leaf that the module pushes, and one of the types' numbers, which a
pop compares. A variable of the module becomes parameters, behind the others, of every function that reaches it.

`run(module)` does this to all functions, so that calls fit. Raw and optimizable stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.errors import PassError
from dlvm_py.ir import (
    NULL,
    OPS,
    UNDEFINED,
    VOID,
    ArrayType,
    Block,
    Builder,
    Function,
    FunctionType,
    Instruction,
    Literal,
    Module,
    PointerType,
    StackType,
    TensorType,
    TupleType,
    Type,
    Value,
    Variable,
    is_array,
    literal,
)
from dlvm_py.ir.analysis.calls import callees
from dlvm_py.ir.analysis.cfg import reverse_postorder
from dlvm_py.ir.layout import REFERENCE, VARIABLES, is_plain, item_types, leaf_names, leaves, members, memory_leaves
from dlvm_py.ir.ops.aggregates import keys_of
from dlvm_py.ir.ops.cells import NO_CASE
from dlvm_py.ir.ops.memory import element_keys
from dlvm_py.ir.ops.objects import EMPTY, OBJECTS, OTHER_TYPE, TOO_FEW, TOO_MANY, TRAPPED
from dlvm_py.ir.types import BoxType, EnumType, StructType
from dlvm_py.transforms import own_entry

_SPECIAL = {*OBJECTS, *(OPS[name] for name in ("enumCase", "branchEnum", "leaf", "wholeEnum"))} - {OPS["bits"]}


def run(module: Module) -> bool:
    """Lower all aggregates of `module`, in place; whether there were any."""
    if not any(_has_aggregates(f) for f in module.functions.values()):
        return False
    lowerer = _Lowerer(module)
    for name, function in list(module.functions.items()):
        module.functions[name] = lowerer.function(function)
    return True


def make_entries(module: Module, names: Sequence[str]) -> None:
    """Rename the functions that take variables and are called; of those among `names`, leave one that calls it.

    The back end binds the parameters that are variables to the memory of the module, in functions that nobody calls.
    """
    called = {c for f in module.functions.values() for c in callees(f)}
    bodies: dict[str, str] = {}
    for name, function in list(module.functions.items()):
        if name in called and function.meta.get(VARIABLES):
            del module.functions[name]
            function.name = f"{name}_body"
            bodies[name] = module.add(function).name
    for f in module.functions.values():
        for i in f.instructions():
            if i.op.name == "apply":
                i.attrs["callee"] = bodies.get(i.attrs["callee"], i.attrs["callee"])
    for name in bodies.keys() & set(names):
        module.functions[name] = _entry(name, module.functions[bodies[name]])


def _entry(name: str, body: Function) -> Function:
    """A function that calls another one and does nothing else."""
    entry = Function(name, body.result)
    entry.meta = dict(body.meta)
    block = entry.new_block("entry")
    params: list[Value] = [block.add_arg(p.type, p.name) for p in body.params]
    b = Builder(entry, block)
    call = b.emit("apply", *params, callee=body.name, result=body.result)
    b.ret(*([] if body.result == VOID else [call]))
    return entry


def spilled(b: Builder, value: Value) -> Value:
    """Fresh memory that holds an array value."""
    t = value.type
    assert isinstance(t, TensorType)
    extents = [b.emit("extent", value, at=k) if n is None else literal(n) for k, n in enumerate(t.shape)]
    memory = b.emit("allocateHeap", *extents, dtype=t.dtype.name)
    b.emit("store", value, memory)
    return memory


def _has_aggregates(function: Function) -> bool:
    if not function.blocks:
        return not all(is_plain(p) for p in function.type.params) or not _is_plain_result(function.result)
    for block in function.blocks:
        if not all(is_plain(a.type) for a in block.args):
            return True
        for i in block.instructions:
            if i.op in _SPECIAL or not _is_plain_result(i.type) or _is_in_tuple(i):
                return True
            if any(isinstance(o, Variable) or not _is_plain_result(o.type) for o in i.all_operands()):
                return True
    return not _is_plain_result(function.result)


def _is_in_tuple(i: Instruction) -> bool:
    """Whether an instruction changes an element of a tuple, or looks deeper into it than at an element."""
    if i.op.name == "insert":
        return isinstance(i.type, TupleType)
    return i.op.name == "extract" and isinstance(i.operands[0].type, TupleType) and len(keys_of(i.attrs)) > 1


def _is_plain_result(t: Type) -> bool:
    """Plain, or the flat tuple that a call or a return has."""
    return all(map(is_plain, t.elements)) if isinstance(t, TupleType) else is_plain(t)


Leaves = list[Value]


class _Lowerer:
    """What is known of the whole module: the variables that each function reaches, what untyped stacks hold."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.variables = _reached_variables(module)
        pushed = (i for f in module.functions.values() for i in f.instructions() if i.op.name in ("push", "pop"))
        held = {i.operands[0].type if i.op.name == "push" else i.type for i in pushed if i.operands[-1].type == ANY}
        self.pushed: list[Type] = sorted(held, key=str)
        # one stack for each type of leaf: in a program that pops what it pushed, their order is that of the whole
        self.elements = list(dict.fromkeys(leaf for t in self.pushed for leaf in leaves(t)))

    def leaves(self, t: Type) -> list[Type]:
        """The leaves of a type; of an untyped stack those that this module needs."""
        if t == ANY:
            return [StackType(_NUMBER), *(StackType(e) for e in self.elements)]
        if isinstance(t, TupleType | StructType):
            return [leaf for _, m in members(t) for leaf in self.leaves(m)]
        try:
            return leaves(t)
        except TypeError as e:
            raise PassError(str(e)) from None

    def result(self, t: Type) -> Type:
        """The type of a lowered result."""
        found = self.leaves(t)
        return found[0] if len(found) == 1 and not isinstance(t, TupleType) else TupleType(tuple(found))

    def function(self, function: Function) -> Function:
        """The lowered function."""
        if function.blocks:
            own_entry.run(function)
        hidden = [(v, k) for v in self.variables[function.name] for k in range(len(leaves(v.type)))]
        made = Function(function.name, self.result(function.result))
        made.attributes, made.declaration, made.loc = function.attributes, function.declaration, function.loc
        made.rules = function.rules
        made.meta = {**function.meta, VARIABLES: tuple(f"{v.name}.{k}" for v, k in hidden)}
        if function.blocks:
            _Body(self, function, made, hidden).write()
        elif function.signature is not None:
            params = tuple(leaf for p in function.signature.params for leaf in self.leaves(p))
            made.signature = FunctionType(params, made.result)
        return made


ANY = StackType(None)
_NUMBER = literal(0).type


def _reached_variables(module: Module) -> dict[str, list[Variable]]:
    """For each function the variables that it, or what it calls, uses."""
    found: dict[str, set[Variable]] = {}
    for name, f in module.functions.items():
        found[name] = {o for i in f.instructions() for o in i.all_operands() if isinstance(o, Variable)}
    changed = True
    while changed:
        changed = False
        for name, f in module.functions.items():
            new = found[name].union(*(found.get(c, ()) for c in callees(f)))
            changed |= new != found[name]
            found[name] = new
    return {name: [v for v in module.variables.values() if v in used] for name, used in found.items()}


class _Body:
    """Writes the blocks of one function."""

    def __init__(self, lowerer: _Lowerer, old: Function, new: Function, hidden: list[tuple[Variable, int]]) -> None:
        self.lowerer = lowerer
        self.old, self.new = old, new
        self.b = Builder(new)
        self.env: dict[Value, Leaves] = {}
        self.rows: dict[Value, Leaves] = {}  # of a pointer to the first of several values: pointers to all of them
        self.order = reverse_postorder(old)
        self.blocks: dict[Block, Block] = {}
        for block in self.order:
            made = self.blocks[block] = new.new_block(block.name)
            for a in block.args:
                named = zip(self.lowerer.leaves(a.type), self._names(a), strict=True)
                self.env[a] = [made.add_arg(t, name) for t, name in named]
        for v, k in hidden:
            t, suffix = leaves(v.type)[k], leaf_names(v.type)[k]
            self.env.setdefault(v, []).append(new.entry.add_arg(t, v.name + suffix))

    def _names(self, value: Value) -> list[str]:
        """The names of the leaves of a value."""
        count = len(self.lowerer.leaves(value.type))
        if not value.name or value.type == ANY:
            return [value.name] * count
        return [value.name + suffix for suffix in leaf_names(value.type)]

    def write(self) -> None:
        """All blocks, definitions before uses."""
        for block in self.order:
            self.b.at_end(self.blocks[block])
            for i in block.instructions:
                self.b.loc = i.loc
                self._instruction(i)

    def _instruction(self, i: Instruction) -> None:
        row = _ROWS.get(i.op.name)
        if row is not None:
            found = row(self, i)
        else:
            operands = [v for o in i.operands for v in self.of(o)]
            found = [self.b.insert(Instruction(i.op, operands, dict(i.attrs), name=i.name))]
        if i.type != VOID:
            self.env[i] = found
            for v, name in zip(found, self._names(i), strict=True):
                if isinstance(v, Instruction) and not v.name:
                    v.name = name

    # -- values ----------------------------------------------------------------------------------------

    def of(self, value: Value) -> Leaves:
        """The leaves of a value."""
        if isinstance(value, Literal):
            if is_plain(value.type):
                return [value]
            return [Literal(t, NULL if t == REFERENCE else value.value) for t in self.lowerer.leaves(value.type)]
        return self.env[value]

    def one(self, value: Value) -> Value:
        """The only leaf of a value."""
        (found,) = self.of(value)
        return found

    def _into_memory(self, values: Leaves, t: Type) -> Leaves:
        """What memory of a `t` holds of a value: pointers, and boxes, become cells."""
        match t:
            case TupleType() | StructType():
                found: Leaves = []
                for (_, m), held in zip(members(t), self._split(values, t), strict=True):
                    found += self._into_memory(held, m)
                return found
            case PointerType() | BoxType():
                return [self.b.emit("makeCell", *values, tag=0)]
            case FunctionType() | StackType():
                raise PassError(f"@{self.old.name}: memory cannot hold a {t}")
        return values

    def _out_of_memory(self, values: Leaves, t: Type) -> Leaves:
        """A value of what memory of a `t` held."""
        match t:
            case TupleType() | StructType():
                found: Leaves = []
                for _, m in members(t):
                    count = len(memory_leaves(m))
                    found += self._out_of_memory(values[:count], m)
                    values = values[count:]
                return found
            case PointerType() | BoxType():
                return self._items(values[0], TupleType(tuple(leaves(t))))
        return values

    def _split(self, values: Leaves, t: Type) -> list[Leaves]:
        """The leaves of a struct or tuple, by element."""
        found = []
        for _, m in members(t):
            count = len(self.lowerer.leaves(m))
            found.append(values[:count])
            values = values[count:]
        return found

    def _items(self, cell: Value, held: TupleType) -> Leaves:
        return [self.b.emit("cellItem", cell, at=k, held=held) for k in range(len(held.elements))]

    # -- aggregates as values --------------------------------------------------------------------------

    def constant(self, i: Instruction) -> Leaves:
        (value,) = i.operands
        return [self.b.emit("constant", value, name=i.name)] if is_plain(value.type) else self.of(value)

    def tuple(self, i: Instruction) -> Leaves:
        return [v for o in i.operands for v in self.of(o)]

    def aggregate(self, i: Instruction) -> Leaves:
        t = i.type
        if isinstance(t, TensorType):
            return [self.b.emit("aggregate", *map(self.one, i.operands), type=t, name=i.name)]
        if isinstance(t, StructType):
            return self.tuple(i)
        assert isinstance(t, ArrayType)
        elements = [self._into_memory(self.of(o), t.element) for o in i.operands]
        rows = zip(*elements, strict=True) if elements else [()] * len(leaves(t))
        return [self.b.emit("aggregate", *row, type=leaf) for row, leaf in zip(rows, leaves(t), strict=True)]

    def extract(self, i: Instruction) -> Leaves:
        values, t = self.of(i.operands[0]), i.operands[0].type
        for key in keys_of(i.attrs):
            values, t = self._element(values, t, key)
        return values

    def _element(self, values: Leaves, t: Type, key: int | str) -> tuple[Leaves, Type]:
        if isinstance(t, TensorType):
            v = self.b.emit("extract", values[0], at=key)
            return [v], v.type
        if isinstance(t, ArrayType):
            return self._out_of_memory([self.b.emit("extract", v, at=key) for v in values], t.element), t.element
        place = [name for name, _ in members(t)].index(str(key))
        return self._split(values, t)[place], members(t)[place][1]

    def insert(self, i: Instruction) -> Leaves:
        value, whole = i.operands
        return self._replaced(self.of(whole), whole.type, list(keys_of(i.attrs)), self.of(value))

    def _replaced(self, values: Leaves, t: Type, keys: list[int | str], new: Leaves) -> Leaves:
        """The leaves of a `t` with another element at the end of a path."""
        if not keys:
            return new
        key, rest = keys[0], keys[1:]
        if isinstance(t, TensorType):
            return [self.b.emit("insert", new[0], values[0], at=tuple(keys))]
        if isinstance(t, ArrayType):
            if rest:
                new = self._replaced(self._element(values, t, key)[0], t.element, rest, new)
            new = self._into_memory(new, t.element)
            return [self.b.emit("insert", v, w, at=key) for v, w in zip(new, values, strict=True)]
        place = [name for name, _ in members(t)].index(str(key))
        parts = self._split(values, t)
        parts[place] = self._replaced(parts[place], members(t)[place][1], rest, new)
        return [v for part in parts for v in part]

    # -- enums -----------------------------------------------------------------------------------------

    def enum_case(self, i: Instruction) -> Leaves:
        assert isinstance(i.type, EnumType)
        items = [spilled(self.b, v) if is_array(v.type) else v for o in i.operands for v in self.of(o)]
        return [self.b.emit("makeCell", *items, tag=list(i.type.cases).index(i.attrs["case"]))]

    def branch_enum(self, i: Instruction) -> Leaves:
        t, cell = i.operands[0].type, self.one(i.operands[0])
        assert isinstance(t, EnumType)
        tag = self.b.emit("cellTag", cell, name="tag")
        for case, target in zip(i.attrs["cases"], i.targets, strict=True):
            found = self.new.new_block(f"{target.block.name}_case")
            other = self.new.new_block("cases")
            number = literal(list(t.cases).index(case))
            self.b.conditional(self.b.emit("equal", tag, number), found, [], other)
            self.b.at_end(found)
            held = t.cases[case]
            items = self._items(cell, item_types(held))
            wanted = [leaf for p in held for leaf in leaves(p)]
            values = [self.b.emit("load", v) if is_array(w) else v for v, w in zip(items, wanted, strict=True)]
            self.b.branch(self.blocks[target.block], values)
            self.b.at_end(other)
        self.b.emit("raise", exception="ValueError", message=NO_CASE.format(t))
        return []

    def whole_enum(self, i: Instruction) -> Leaves:
        return self.of(i.operands[0])

    def leaf(self, i: Instruction) -> Leaves:
        return [self.of(i.operands[0])[i.attrs["at"]]]

    # -- memory ----------------------------------------------------------------------------------------

    def _allocated(self, t: Type, *counts: Value) -> Leaves:
        """Memory of so many values; references in it are null at first."""
        found: Leaves = []
        for m in memory_leaves(t):
            if None in m.shape:
                raise PassError(f"@{self.old.name}: memory of {t}, whose extents are not known")
            extents = [*counts, *(literal(n or 0) for n in m.shape)]
            memory = self.b.emit("allocateHeap", *extents, dtype=m.dtype.name)
            if m.dtype is REFERENCE.dtype:
                null: Value = Literal(REFERENCE, NULL)
                self.b.emit("store", self.b.emit("broadcast", null, *extents) if extents else null, memory)
            found.append(memory)
        return found

    def allocate_aggregate(self, i: Instruction) -> Leaves:
        return self._allocated(i.attrs["type"], *map(self.one, i.operands))

    def allocate_counted(self, i: Instruction) -> Leaves:
        count: Value = self.one(i.operands[0]) if i.operands else literal(i.attrs["count"])
        if isinstance(count, Literal) and count.value == 1:
            return self._allocated(i.attrs["type"])
        if not isinstance(count, Literal):
            positive = self.b.emit("greaterThan", count, literal(0))
            self.b.emit("check", positive, exception="ValueError", message=TOO_FEW)
        self.rows[i] = self._allocated(i.attrs["type"], count)
        return [self.b.emit("elementPointer", p, literal(0)) for p in self.rows[i]]

    def allocate_box(self, i: Instruction) -> Leaves:
        return self._allocated(i.attrs["type"])

    def project_box(self, i: Instruction) -> Leaves:
        return self.of(i.operands[0])

    def nothing(self, i: Instruction) -> Leaves:
        """Of references the compiler keeps account."""
        return []

    def load(self, i: Instruction) -> Leaves:
        values: Leaves = [self.b.emit("load", p) for p in self.of(i.operands[0])]
        return self._out_of_memory(values, i.type)

    def store(self, i: Instruction) -> Leaves:
        value, pointer = i.operands
        for v, p in zip(self._into_memory(self.of(value), value.type), self.of(pointer), strict=True):
            if not (isinstance(v, Literal) and v.value is UNDEFINED):
                self.b.emit("store", v, p)
        return []

    def element_pointer(self, i: Instruction) -> Leaves:
        pointers: Leaves = self.of(i.operands[0])
        assert isinstance(i.operands[0].type, PointerType)
        t: Type = i.operands[0].type.pointee
        keys = element_keys(i.operands, i.attrs)
        while keys and isinstance(t, TupleType | StructType):
            key = keys.pop(0)
            name = key if isinstance(key, str) else str(key.value)  # type: ignore[attr-defined]
            for n, m in members(t):
                count = len(memory_leaves(m))
                if n == name:
                    pointers, t = pointers[:count], m
                    break
                pointers = pointers[count:]
        indices: list[Value] = []
        while keys and isinstance(t, ArrayType):
            t = t.element
            indices.append(self.one(keys.pop(0)))  # type: ignore[arg-type]
        if isinstance(t, TensorType):
            indices += [self.one(k) for k in keys]  # type: ignore[arg-type]
            keys = []
        if indices:
            pointers = [self.b.emit("elementPointer", p, *indices) for p in pointers]
        if keys:
            rest = Instruction(i.op, [_Pointers(PointerType(t))], type=i.type)  # type: ignore[arg-type]
            self.env[rest.operands[0]] = pointers
            rest.operands += [k for k in keys if isinstance(k, Value)]
            rest.attrs = {"path": tuple(k if isinstance(k, str) else "" for k in keys)}
            return self.element_pointer(rest)
        return pointers

    def copy(self, i: Instruction) -> Leaves:
        source, destination, count = i.operands
        n = self.one(count)
        if isinstance(n, Literal) and n.value == 1:
            for p, q in zip(self.of(source), self.of(destination), strict=True):
                self.b.emit("store", self.b.emit("load", p), q)
            return []
        if source not in self.rows or destination not in self.rows:
            raise PassError(
                f"@{self.old.name}: how many values lie behind the pointers of this copy is not known here; copy one"
                " *[n x T] to another, with count 1"
            )
        for p, q in zip(self.rows[source], self.rows[destination], strict=True):
            fits: Value = self.b.emit(
                "and",
                self.b.emit("lessThanOrEqual", n, self.b.emit("extent", p, at=0)),
                self.b.emit("lessThanOrEqual", n, self.b.emit("extent", q, at=0)),
            )
            fits = self.b.emit("and", fits, self.b.emit("greaterThanOrEqual", n, literal(0)))
            self.b.emit("check", fits, exception="IndexError", message=TOO_MANY)
            a, b = (self._first(v, n) for v in (p, q))
            self.b.emit("store", self.b.emit("load", a), b)
        return []

    def _first(self, p: Value, n: Value) -> Value:
        """The first n of a row of values."""
        assert isinstance(p.type, PointerType)
        rest: list[Value] = [self.b.emit("extent", p, at=k) for k in range(1, p.type.rank)]
        zeros, ones = [literal(0)] * p.type.rank, [literal(1)] * p.type.rank
        return self.b.emit("section", p, *zeros, n, *rest, *ones)

    def bit_cast(self, i: Instruction) -> Leaves:
        source, t = i.operands[0], i.type
        if isinstance(t, TensorType):
            assert isinstance(source.type, TensorType)
            value = self.one(source)
            if source.type.dtype is not t.dtype:
                value = self.b.emit("bits", value, to=t.dtype.name)
            if source.type.shape != t.shape:
                value = self.b.emit("shapeCast", value, *(literal(n or 0) for n in t.shape))
            return [value]
        assert isinstance(t, PointerType) and isinstance(source.type, PointerType)
        old, new = source.type.pointee, t.pointee
        if isinstance(new, ArrayType) and new.element == old:
            found = self.rows.get(source)
            if found is None or any(p.type.shape[0] != new.count for p in found):  # type: ignore[attr-defined]
                raise PassError(f"@{self.old.name}: that {new.count} values lie behind this pointer is not known here")
            return found
        if isinstance(old, ArrayType) and old.element == new:
            self.rows[i] = self.of(source)
            return [self.b.emit("elementPointer", p, literal(0)) for p in self.of(source)]
        (p,), (wanted,) = self.of(source), memory_leaves(new)
        return [self.b.emit("shapeCast", p, *(literal(n or 0) for n in wanted.shape))]

    # -- stacks ----------------------------------------------------------------------------------------

    def create_stack(self, i: Instruction) -> Leaves:
        found: Leaves = [self.b.emit("createStack", element=t.element) for t in self.lowerer.leaves(i.type)]  # type: ignore[attr-defined]
        if i.type == ANY:
            self.b.emit("push", literal(-1), found[0])
        return found

    def destroy_stack(self, i: Instruction) -> Leaves:
        stacks = self.of(i.operands[0])
        if i.operands[0].type == ANY:
            self.b.emit("pop", stacks[0])
        for s in stacks:
            self.b.emit("destroyStack", s)
        return []

    def push(self, i: Instruction) -> Leaves:
        value, stack = i.operands
        stacks = self._stacks(stack, value.type)
        if stack.type == ANY:
            self.b.emit("push", literal(self.lowerer.pushed.index(value.type)), self.of(stack)[0])
        for v, s in zip(self.of(value), stacks, strict=True):
            self.b.emit("push", v, s)
        return []

    def pop(self, i: Instruction) -> Leaves:
        stack = i.operands[0]
        if stack.type == ANY:
            number = self.b.emit("pop", self.of(stack)[0])
            some = self.b.emit("greaterThanOrEqual", number, literal(0))
            self.b.emit("check", some, exception="IndexError", message=EMPTY)
            right = self.b.emit("equal", number, literal(self.lowerer.pushed.index(i.type)))
            self.b.emit("check", right, exception="TypeError", message=OTHER_TYPE)
        # two leaves of one type lie on one stack: the last comes first
        return [self.b.emit("pop", s) for s in reversed(self._stacks(stack, i.type))][::-1]

    def _stacks(self, stack: Value, t: Type) -> Leaves:
        """The stack for each leaf of what is pushed or popped."""
        found = self.of(stack)
        if stack.type != ANY:
            return found
        return [found[1 + self.lowerer.elements.index(leaf)] for leaf in leaves(t)]

    # -- calls and control -----------------------------------------------------------------------------

    def apply(self, i: Instruction) -> Leaves:
        callee, result = i.attrs["callee"], self.lowerer.result(i.type)
        operands = [v for o in i.operands for v in self.of(o)]
        operands += [v for variable in self.lowerer.variables.get(callee, ()) for v in self.env[variable]]
        call = self.b.emit("apply", *operands, callee=callee, result=result, name=i.name)
        if isinstance(result, TupleType):
            return [self.b.emit("extract", call, at=k) for k in range(len(result.elements))]
        return [call]

    def branch(self, i: Instruction) -> Leaves:
        made = Instruction(i.op, [v for o in i.operands for v in self.of(o)], dict(i.attrs), type=VOID)
        for t in i.targets:
            edge = type(t)(self.blocks[t.block], [v for a in t.args for v in self.of(a)])
            made.targets.append(edge)
        self.b.insert(made)
        return []

    def return_(self, i: Instruction) -> Leaves:
        values = [v for o in i.operands for v in self.of(o)]
        if self.new.result == VOID:
            self.b.ret()
        elif isinstance(self.new.result, TupleType):
            self.b.ret(self.b.emit("tuple", *values))
        else:
            self.b.ret(*values)
        return []

    def trap(self, i: Instruction) -> Leaves:
        self.b.emit("check", literal(False), exception="RuntimeError", message=TRAPPED)
        return []


class _Pointers(Value):
    """A pointer in the middle of a path, whose leaves are known."""


_ROWS: dict[str, Callable[[_Body, Instruction], Leaves]] = {
    "constant": _Body.constant,
    "tuple": _Body.tuple,
    "aggregate": _Body.aggregate,
    "extract": _Body.extract,
    "insert": _Body.insert,
    "enumCase": _Body.enum_case,
    "branchEnum": _Body.branch_enum,
    "wholeEnum": _Body.whole_enum,
    "leaf": _Body.leaf,
    "allocateAggregate": _Body.allocate_aggregate,
    "allocateCounted": _Body.allocate_counted,
    "allocateStack": _Body.allocate_counted,
    "allocateBox": _Body.allocate_box,
    "projectBox": _Body.project_box,
    "retain": _Body.nothing,
    "release": _Body.nothing,
    "deallocate": _Body.nothing,
    "load": _Body.load,
    "store": _Body.store,
    "elementPointer": _Body.element_pointer,
    "copy": _Body.copy,
    "bitCast": _Body.bit_cast,
    "createStack": _Body.create_stack,
    "destroyStack": _Body.destroy_stack,
    "push": _Body.push,
    "pop": _Body.pop,
    "apply": _Body.apply,
    "branch": _Body.branch,
    "conditional": _Body.branch,
    "return": _Body.return_,
    "trap": _Body.trap,
}
