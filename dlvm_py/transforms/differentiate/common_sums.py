"""Sums of the same products but for factors that are numbers are one sum, scaled by each of these.

    %p = multiply %seed: <n x f64>, %a: f64         %p = multiply %seed: <n x f64>, %x: <n x f64>
    %q = multiply %p: <n x f64>, %x: <n x f64>      %t = reduce %p: <n x f64> by add init 0.0: f64 along 0
    %r = reduce %q by add init 0.0 along 0     =>   %r = multiply %t: f64, %a: f64
    %y = multiply %x: <n x f64>, %b: f64            %s = multiply %t: f64, %b: f64
    %z = multiply %seed: <n x f64>, %y: <n x f64>
    %s = reduce %z by add init 0.0 along 0

They are the adjoints of %b and %a where the function has `x * b * a`: each number that scales an array gets the sum of
the array's seed times all that it scales. Only sums that the reverse sweep has made, of which it may choose the order,
and only where two become one: each of them has had products as large as those of the other, so a factor that keeps the
terms of a sum in range is left where it is. Not for f16, whose range is that small. On the reverse sweep, when what it
needs of the function is there.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Builder, Function, Instruction, TensorType, Value, is_scalar

# of one product; a longer one is a factor of its own
FACTORS = 8


def run(function: Function, sums: list[Instruction]) -> bool:
    """Share `sums`, reductions of `function` from zero by addition, as far as it has them; whether two were one."""
    if len(sums) < 2:
        return False
    present = set(function.instructions())
    groups: dict[object, list[tuple[Instruction, list[Value], list[Value]]]] = {}
    for i in sums:
        if i not in present:
            continue
        arrays, numbers = factors(i)
        key = (i.block, frozenset((a, arrays.count(a)) for a in arrays), i.type, i.attrs["axes"])
        groups.setdefault(key, []).append((i, arrays, numbers))
    replaced: dict[Value, Value] = {}
    for group in groups.values():
        if len(group) > 1:
            block = group[0][0].block
            assert block is not None
            place = {i: k for k, i in enumerate(block.instructions)}
            _share(function, sorted(group, key=lambda found: place[found[0]]), replaced)
    function.substitute(replaced)
    return bool(replaced)


def factors(i: Instruction) -> tuple[list[Value], list[Value]]:
    """The arrays and the numbers whose product the reduction `i` adds up."""
    arrays, numbers = [], []
    pending = [i.operands[0]]
    whole = pending[0].type
    assert isinstance(whole, TensorType)
    while pending:
        v = pending.pop()
        if (
            isinstance(v, Instruction)
            and v.op is OPS["multiply"]
            and v.block is i.block
            and all(o.type == whole or is_scalar(o.type) and o.type.dtype == whole.dtype for o in v.operands)  # type: ignore[attr-defined]
            and whole.dtype.name != "f16"
            and len(arrays) + len(numbers) + len(pending) < FACTORS
        ):
            pending += reversed(v.operands)
        else:
            (numbers if is_scalar(v.type) else arrays).append(v)
    return arrays, numbers


def _share(
    function: Function, group: list[tuple[Instruction, list[Value], list[Value]]], replaced: dict[Value, Value]
) -> None:
    """Let one sum, made where the first stands, be behind all that `group` has."""
    first, arrays, _ = group[0]
    b = Builder(function).before(first)
    b.loc = first.loc
    product = arrays[0]
    for a in arrays[1:]:
        product = b.emit("multiply", product, a)
    total = b.emit("reduce", product, first.operands[1], by="add", axes=first.attrs["axes"])
    for i, _, numbers in group:
        b = Builder(function).before(i)
        b.loc = i.loc
        scaled: Value = total
        for number in numbers:
            scaled = b.emit("multiply", scaled, number)
        replaced[i] = scaled
