"""The functions of Python's module `operator`, written with the operators."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


def itemgetter(item: Any, *items: Any) -> Callable[[Any], Any]:
    """operator.itemgetter."""

    def get(obj: Any) -> Any:
        return (obj[item], *[obj[k] for k in items]) if len(items) > 0 else obj[item]

    return get


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    operator.add: lambda a, b: a + b,
    operator.sub: lambda a, b: a - b,
    operator.mul: lambda a, b: a * b,
    operator.truediv: lambda a, b: a / b,
    operator.floordiv: lambda a, b: a // b,
    operator.mod: lambda a, b: a % b,
    operator.pow: lambda a, b: a**b,
    operator.matmul: lambda a, b: a @ b,
    operator.and_: lambda a, b: a & b,
    operator.or_: lambda a, b: a | b,
    operator.xor: lambda a, b: a ^ b,
    operator.lshift: lambda a, b: a << b,
    operator.rshift: lambda a, b: a >> b,
    operator.eq: lambda a, b: a == b,
    operator.ne: lambda a, b: a != b,
    operator.lt: lambda a, b: a < b,
    operator.le: lambda a, b: a <= b,
    operator.gt: lambda a, b: a > b,
    operator.ge: lambda a, b: a >= b,
    operator.neg: lambda a: -a,
    operator.pos: lambda a: +a,
    operator.invert: lambda a: ~a,
    operator.not_: lambda a: not a,
    operator.abs: lambda a: abs(a),
    operator.truth: lambda a: bool(a),
    operator.getitem: lambda a, b: a[b],
    operator.itemgetter: itemgetter,
}
