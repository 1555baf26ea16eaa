"""Sums of the same products but for factors that are numbers are one sum, scaled by each of these.

    %p = multiply %seed: <n x f64>, %a: f64         %p = multiply %seed: <n x f64>, %x: <n x f64>
    %q = multiply %p: <n x f64>, %x: <n x f64>      %t = reduce %p: <n x f64> by add init 0.0: f64 along 0
    %r = reduce %q by add init 0.0 along 0     =>   %r = multiply %t: f64, %a: f64
    %y = multiply %x: <n x f64>, %b: f64            %s = multiply %t: f64, %b: f64
    %z = multiply %seed: <n x f64>, %y: <n x f64>
    %s = reduce %z by add init 0.0 along 0

They are the adjoints of %b and %a where the function has `x * b * a`: each number that scales an array gets the sum of
the array's seed times all that it scales. Signs, numbers that divide, and those that scale a seed, are such factors.
And a sum of sums whose products others add up already is made of those:

    %u = multiply %x: <n x f64>, %b: f64            %r = (reduce (multiply %seed, %x))
    %v = add %u: <n x f64>, %y: <n x f64>           %t = (reduce (multiply %seed, %y))
    %w = divide %v: <n x f64>, %c: f64         =>   %0 = multiply %r: f64, %b: f64
    %r = reduce (multiply %seed, %x) ...            %1 = add %0: f64, %t: f64
    %t = reduce (multiply %seed, %y) ...            %s = divide %1: f64, %c: f64
    %s = reduce (multiply %seed, %w) ...

Only sums that the reverse sweep has made, of which it may choose the order, and only where two become one: each of them
has had products as large as those of the other, so a factor that keeps the terms of a sum in range is left where it is.
Not for f16, whose range is that small. On the reverse sweep, when what it needs of the function is there.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir import Builder, Function, Instruction, Literal, TensorType, Value, is_scalar, literal

# of one product; a longer one is a factor of its own
FACTORS = 8
# sums in sums that are looked into
DEPTH = 4
# what a total is scaled by, one after the other: an op, and its number if it takes one
Scale = tuple[tuple[str, Value | None], ...]


# arrays, and how often each is a factor
Key = frozenset[tuple[Value, int]]


class Product(Frozen):
    """Arrays, the numbers that scale their product, and those of the arrays before which an exact zero wins."""

    arrays: tuple[Value, ...]
    scale: Scale
    partials: frozenset[Value] = frozenset()

    @property
    def key(self) -> Key:
        """The arrays, in any order."""
        return frozenset((a, self.arrays.count(a)) for a in self.arrays)

    def times(self, other: Product) -> Product:
        """The product of both."""
        return Product(self.arrays + other.arrays, self.scale + other.scale, self.partials | other.partials)

    def scaled(self, op: str, by: Value | None = None) -> Product:
        """The product, scaled once more."""
        return Product(self.arrays, (*self.scale, (op, by)), self.partials)

    def as_partial(self) -> Product:
        """What scales a seed: zeros of that win."""
        names = {"multiply": "scaleSeed", "divide": "divideSeed"}
        scale = tuple((names.get(op, op), by) for op, by in self.scale)
        return Product(self.arrays, scale, frozenset(self.arrays))


def run(function: Function, sums: list[Instruction]) -> bool:
    """Share `sums`, reductions of `function` from zero by addition, as far as it has them; whether two were one."""
    if len(sums) < 2:
        return False
    present = set(function.instructions())
    groups: dict[object, list[Instruction]] = {}
    for i in sums:
        if i in present:
            groups.setdefault((i.block, i.operands[0].type, i.type, i.attrs["axes"]), []).append(i)
    replaced: dict[Value, Value] = {}
    for group in groups.values():
        if len(group) > 1:
            _share(function, group, replaced)
    function.substitute(replaced)
    return bool(replaced)


def product_of(i: Instruction) -> Product:
    """The product that the reduction `i` adds up."""
    return _product(i.operands[0], i)


def scaled(b: Builder, total: Value, scale: Scale) -> Value:
    """A total, scaled."""
    for op, by in scale:
        if by is None:
            total = b.emit(op, total)
        elif op == "divideSeed":
            total = b.emit("scaleSeed", total, b.emit("divide", literal(1.0, by.type), by))
        else:
            total = b.emit(op, total, by)
    return total


def _product(v: Value, of: Instruction, size: int = 0) -> Product:
    """The arrays and the numbers that `v` is the product of; `size`: how many factors there are beside it."""
    whole = of.operands[0].type
    assert isinstance(whole, TensorType)
    alone = Product((v,), ())
    if not isinstance(v, Instruction) or v.type != whole or whole.dtype.name == "f16":
        return alone
    if size >= FACTORS or not all(o.type == whole or _is_number(o, whole) for o in v.operands):
        return alone
    match v.op.name:
        case "multiply" | "scaleSeed":
            x, y = map(_spread, v.operands)
            is_seed = v.op.name == "scaleSeed"
            if is_scalar(x.type) and is_scalar(y.type):
                return alone
            if is_scalar(y.type):
                return _product(x, of, size).scaled(v.op.name, y)
            if is_scalar(x.type):
                if is_seed and not (isinstance(x, Literal) and x.value):
                    return alone
                rest = _product(y, of, size)
                return rest if isinstance(x, Literal) and x.value == 1 else rest.scaled("multiply", x)
            first = _product(x, of, size + 1)
            second = _product(y, of, size + len(first.arrays))
            return first.times(second.as_partial() if is_seed else second)
        case "divide" if _is_number(v.operands[1], whole):
            return _product(v.operands[0], of, size).scaled("divide", v.operands[1])
        case "negate":
            return _product(v.operands[0], of, size).scaled("negate")
    return alone


def _spread(v: Value) -> Value:
    """The number that all elements of an array are, if it is made of one."""
    is_spread = isinstance(v, Instruction) and v.op.name == "broadcast" and is_scalar(v.operands[0].type)
    return v.operands[0] if is_spread else v  # type: ignore[attr-defined]


def _is_number(v: Value, whole: TensorType) -> bool:
    return is_scalar(v.type) and v.type.dtype == whole.dtype  # type: ignore[attr-defined]


def _share(function: Function, group: list[Instruction], replaced: dict[Value, Value]) -> None:
    """Let the sums of a block be made of as few as possible."""
    block = group[0].block
    assert block is not None
    place = {i: k for k, i in enumerate(block.instructions)}
    group = sorted(group, key=place.__getitem__)
    terms: dict[Instruction, list[Product]] = {i: [product_of(i)] for i in group}
    keys = [products[0].key for products in terms.values()]
    for i in group:
        others = set(keys)
        if keys.count(terms[i][0].key) == 1:
            others.discard(terms[i][0].key)
            split = _split(terms[i][0], others, i, DEPTH)
            if split is not None:
                keys.remove(terms[i][0].key)
                terms[i] = split
    users: dict[Key, list[tuple[Instruction, Product]]] = {}
    for i, products in terms.items():
        for p in products:
            users.setdefault(p.key, []).append((i, p))
    totals = {key: _total(function, found) for key, found in users.items() if len(found) > 1}
    for i, products in terms.items():
        if not all(p.key in totals for p in products):
            continue
        b = Builder(function).before(i)
        b.loc = i.loc
        value: Value | None = None
        for p in products:
            term = scaled(b, totals[p.key], p.scale)
            value = term if value is None else b.emit("add", value, term)
        assert value is not None
        replaced[i] = value


def _split(p: Product, known: set[Key], of: Instruction, depth: int) -> list[Product] | None:
    """The products, all of them `known`, that `p` is a sum of; None: it is not."""
    if p.key in known:
        return [p]
    if not depth:
        return None
    for at, v in enumerate(p.arrays):
        is_sum = isinstance(v, Instruction) and v.op.name in ("add", "subtract")
        if not is_sum or not all(o.type == v.type for o in v.operands):  # type: ignore[attr-defined]
            continue
        others = p.arrays[:at] + p.arrays[at + 1 :]
        rest = Product(others, p.scale, p.partials & frozenset(others))
        found: list[Product] = []
        for o in v.operands:  # type: ignore[attr-defined]
            part = _product(o, of, len(rest.arrays))
            if v in p.partials:
                part = part.as_partial()
            if o is v.operands[1] and v.op.name == "subtract":  # type: ignore[attr-defined]
                part = part.scaled("negate")
            more = _split(rest.times(part), known, of, depth - 1)
            if more is None:
                break
            found += more
        else:
            return found
    return None


def _total(function: Function, users: list[tuple[Instruction, Product]]) -> Value:
    """One sum of a product, before the first that is made of it."""
    first, product = users[0]
    partials = frozenset().union(*(p.partials for _, p in users))
    b = Builder(function).before(first)
    b.loc = first.loc
    arrays = sorted(product.arrays, key=partials.__contains__)
    value = arrays[0]
    for a in arrays[1:]:
        value = b.emit("scaleSeed" if a in partials else "multiply", value, a)
    return b.emit("reduce", value, first.operands[1], by="add", axes=first.attrs["axes"])
