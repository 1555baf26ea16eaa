"""docs/ops.md: every op of the IR, read off its row; what the other instructions mean is said in docs/ir.md."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from dlvm_py.backend.aot.ptx import imports_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.ir import BOOL, DTYPES, F64, VOID, BlockArg, DType, Function, Kind, Op, TensorType, scalar
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.syntax import form_items, form_text

HEAD = """# Operations

Made by docs/build_ops.py from the op rows in `dlvm_py/ir/ops`. How instructions are written is in docs/ir.md;
`dlopt --explain OP` shows one row and where it is declared.

Types. Operands of an elementwise op have one dtype, and shapes that broadcast: a scalar with every shape, else equal
ranks and on each axis equal extents or a stated 1. Effects of an op keep it where it is: `read` and `write` memory,
`allocate` it, `trap` (it may raise). An op without effects is moved, merged and dropped freely.

Derivatives. A row has local partials, from which both modes follow, or an adjoint of its own (s is the adjoint of the
result y; each operand's share is given), or the reason why there is none. *Guarded* partials can be infinite or NaN at
finite operands: a seed that is exactly zero wins over them.

Executors. Every op runs in the reference interpreter. The CPU's back end has code for the elementwise ops as the
table says, and for the others, itself or after the passes that lower them (tests/dl marks what only the interpreter
runs by EVAL-INTERPRETER). A GPU thread (`dlc --emit ptx`, docs/aot.md) has the same code, but for what calls a
library: the last column.
"""

_KINDS = {"b": "bool", "i": "i", "u": "u", "f": "f", "c": "c"}
_NAMES = {
    "b": "bool", "iu": "integers", "f": "floats", "fc": "floats, complex", "c": "complex", "iuf": "integers, floats",
    "iufc": "integers, floats, complex", "biufc": "all", "biu": "bool, integers",
}  # fmt: skip
_SECTIONS = {
    Kind.INDEX: "Index ops",
    Kind.GENERATE: "Generators",
    Kind.REDUCTION: "Reductions",
    Kind.CONTRACTION: "Contractions",
    Kind.HIGHER_ORDER: "Functions as operands",
    Kind.MEMORY: "Memory",
    Kind.STACK: "Stacks",
    Kind.AGGREGATE: "Aggregates",
    Kind.CALL: "Calls",
    Kind.CHECK: "Checks",
    Kind.CONTROL: "Control flow",
}


def ops_page(ir_page: str) -> str:
    """The page. ir_page: the text of docs/ir.md, whose tables say what each form means."""
    meanings = _meanings(ir_page)
    rows = [_elementwise_row(op) for op in OPS.values() if op.kind is Kind.ELEMENTWISE]
    parts = [HEAD, "\n## Elementwise\n\n", _table("instruction|NumPy|dtypes|result|derivative|CPU|GPU thread", rows)]
    for kind, title in _SECTIONS.items():
        rows = [_row(op, meanings) for op in OPS.values() if op.kind is kind]
        parts += [f"\n## {title}\n\n", _table("instruction|meaning|NumPy|effects|derivative", rows)]
    return "".join(parts)


def _meanings(ir_page: str) -> dict[str, str]:
    """What the tables of docs/ir.md say of a form."""
    rows = re.findall(r"^\| `([^`|]+)` \| (.*) \|$", ir_page, re.M)
    return {form: said for form, said in rows}


def _table(head: str, rows: list[list[str]]) -> str:
    names = head.split("|")
    lines = [names, ["---"] * len(names), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _row(op: Op, meanings: dict[str, str]) -> list[str]:
    form = form_text(op)
    return [_code(form), meanings.get(form, ""), _numpy(op), ", ".join(sorted(op.effects)), derivative(op)]


def _numpy(op: Op) -> str:
    return _code(op.numpy_name or "")


def _elementwise_row(op: Op) -> list[str]:
    accepted = {d: r for d in DTYPES.values() if (r := _result(op, d)) is not None}
    kinds = "".join(k for k in _KINDS if any(d.kind == k for d in accepted))
    native = "".join(k for k in _KINDS if k in TABLE.get(op.name, {}))
    libraries = {d: imports_of(op, _operands(op, d), _attributes(op)) for d in accepted if d.kind in native}
    without = "".join(k for k in kinds if k in native and not any(n for d, n in libraries.items() if d.kind == k))
    return [
        _code(form_text(op)),
        _numpy(op),
        _NAMES[kinds],
        _result_words(op, accepted),
        derivative(op) + ("; `checked` may trap" if "checked" in op.attrs else ""),
        "yes" if kinds == native else _NAMES.get(native, "no"),
        "yes" if without == kinds else _NAMES.get(without, "no"),
    ]


# -- types ---------------------------------------------------------------------------------------------


def arity(op: Op) -> int:
    """How many operands an elementwise op has."""
    return sum(item.kind == "%" for item in form_items(op))


def _attributes(op: Op) -> dict[str, Any]:
    known = {"to": "f64", "order": 1}
    return {name: known[name] for name in op.attrs if name in known}


def _operands(op: Op, dtype: DType) -> list[TensorType]:
    """The types of scalar operands of `dtype`."""
    types = [scalar(dtype)] * arity(op)
    return [*types[:-1], scalar(BOOL)] if op.name == "select" else types


def _result(op: Op, dtype: DType) -> DType | None:
    """The dtype of the result for scalars of `dtype`; None if the type rule refuses them."""
    entry = Function("f", VOID).new_block("entry")
    try:
        found = op.result_type([BlockArg(t, entry) for t in _operands(op, dtype)], _attributes(op))
    except TypeError:
        return None
    assert isinstance(found, TensorType)
    return found.dtype


def _result_words(op: Op, accepted: dict[DType, DType]) -> str:
    if "to" in op.attrs:
        return "`to`"
    if all(r is d for d, r in accepted.items()):
        return "same"
    if set(accepted.values()) == {BOOL}:
        return "bool"
    return ", ".join(f"{d} → {r}" for d, r in accepted.items())


# -- derivatives ---------------------------------------------------------------------------------------


class Symbol:
    """An operand of a derivative rule that writes down what the rule does with it."""

    def __init__(self, text: str, level: int = 9) -> None:
        self.text = text
        self.level = level  # 9 a name or call, 2 a product, 1 a sum
        self.type = scalar(F64)

    def emit_op(self, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Symbol:
        """A call of an op."""
        words = [_shown(a) for a in args] + [f"{k}={v}" for k, v in attrs.items()]
        return Symbol(f"{op.name}({', '.join(words)})")

    def _binary(self, sign: str, level: int, other: Any, turned: bool = False) -> Symbol:
        a, b = (_symbol(other), self) if turned else (self, _symbol(other))
        return Symbol(f"{a._within(level)} {sign} {b._within(level + 1)}", level)

    def _within(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"

    def __add__(self, other: Any) -> Symbol:
        return self._binary("+", 1, other)

    def __radd__(self, other: Any) -> Symbol:
        return self._binary("+", 1, other, True)

    def __sub__(self, other: Any) -> Symbol:
        return self._binary("-", 1, other)

    def __rsub__(self, other: Any) -> Symbol:
        return self._binary("-", 1, other, True)

    def __mul__(self, other: Any) -> Symbol:
        return self._binary("*", 2, other)

    def __rmul__(self, other: Any) -> Symbol:
        return self._binary("*", 2, other, True)

    def __truediv__(self, other: Any) -> Symbol:
        return self._binary("/", 2, other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self._binary("/", 2, other, True)

    def __neg__(self) -> Symbol:
        return Symbol(f"-{self._within(3)}", 2)


def _symbol(x: Any) -> Symbol:
    return x if isinstance(x, Symbol) else Symbol(_shown(x))


def _shown(x: Any) -> str:
    if isinstance(x, Symbol):
        return x.text
    return f"{x:g}" if isinstance(x, int | float | np.floating) else str(x)


def derivative(op: Op) -> str:
    """The rule in a few words: for an elementwise op what it computes."""
    if op.no_derivative is not None:
        elsewhere = op.no_derivative.startswith(("differentiated", "lowered", "expanded"))
        return op.no_derivative if elsewhere else f"none: {op.no_derivative}"
    rule, guarded = op.partials or op.adjoint, " (guarded)" if op.singular else ""
    if op.kind is not Kind.ELEMENTWISE:
        return ("partials" if op.partials is not None else "adjoint") + guarded
    names = ["x"] if arity(op) == 1 else list("abc"[: arity(op)])
    operands = [Symbol(n) for n in names]
    y, seed = Symbol("y"), Symbol("s")
    assert rule is not None
    found = rule(y, *operands) if op.partials is not None else rule(seed, y, *operands, **_attributes(op))
    what = "∂/∂" if op.partials is not None else "to "
    parts = [f"{what}{n}: `{_shown(f)}`" for n, f in zip(names, found, strict=True) if f is not None]
    return ", ".join(parts) + guarded
