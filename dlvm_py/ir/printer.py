"""Text of the IR: DLVM's canonical printing, with our extensions. `parser.py` reads it back.

Anonymous things print by position: block `'i`, argument `%b^i`, instruction `%b.i`. A name that occurs
twice in a function gets a numeric suffix for printing, so that the text is unambiguous; names that are no plain
identifiers are quoted. The syntax of the ops is the table in `syntax.py`. IR that breaks the rules is printed
too, with `?` where something is missing: the verifier shows it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from dlvm_py.ir.function import AdjointRequest, Declaration, Function, Module
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.syntax import Combiner, Item, form_items, form_text, quote, spell
from dlvm_py.ir.types import I64, VOID, Alias, EnumType, StructType, TensorType, Type, expanded, scalar
from dlvm_py.ir.value import NULL, UNDEFINED, FunctionName, Instruction, Literal, OpName, Target, Value, Variable


def print_module(module: Module, *, locations: bool = False) -> str:
    """The text of a module, with the source location behind each instruction if `locations`."""
    head = f"module {quote(module.name)}\nstage {module.stage}\n"
    parts = [*_type_declarations(module)]
    stored = [(v.name, v.type.pointee) for v in module.variables.values()]  # type: ignore[attr-defined]
    parts += [f"var {_global(name)}: {type}\n" for name, type in stored]
    parts += [print_function(f, locations=locations) for f in module.functions.values()]
    return head + "".join("\n" + part for part in parts)


def _type_declarations(module: Module) -> Iterator[str]:
    """Enums, then structs, then the others."""
    types = module.types.values()
    for enum in (t for t in types if isinstance(t, EnumType)):
        cases = (f"    ?{c}({', '.join(map(str, held))})\n" for c, held in enum.cases.items())
        yield f"enum {enum} {{\n{''.join(cases)}}}\n"
    for record in (t for t in types if isinstance(t, StructType)):
        fields = (f"    #{n}: {t}\n" for n, t in record.fields.items())
        yield f"struct {record} {{\n{''.join(fields)}}}\n"
    for other in types:
        if isinstance(other, Alias):
            yield f"type ${other.name} = {other.target}\n"
        elif not isinstance(other, EnumType | StructType):
            yield f"type {other} = opaque\n"


def _global(name: str) -> str:
    """The name of a function or variable; digits are its position."""
    return f"@{name}" if name.isascii() and name.isdigit() else spell("@", name)


def _declaration(declared: Declaration) -> str:
    if not isinstance(declared, AdjointRequest):
        return "[extern]"
    text = f"[adjoint {_global(declared.primal)}"
    text += f" from {declared.source}" if declared.source is not None else ""
    text += " wrt " + ", ".join(map(str, declared.wrt)) if declared.wrt is not None else ""
    text += " keeping " + ", ".join(map(str, declared.keeping)) if declared.keeping else ""
    return text + (" seedable]" if declared.seedable else "]")


def print_function(function: Function, *, locations: bool = False) -> str:
    """The text of one function, ending in a newline."""
    lines = [f"!{a}" for a in sorted(function.attributes)]
    lines += [f"!{kind} {_global(rule)}" for kind, rule in sorted(function.rules.items())]
    if function.declaration is not None:
        lines.append(_declaration(function.declaration))
    head = f"func {_global(function.name)}: {expanded(function.type)}"
    if function.declaration is not None and not function.blocks:
        return "\n".join([*lines, head]) + "\n"
    names = _names(function)
    lines.append(f"{head} {{")
    for block in function.blocks:
        args = ", ".join(f"{names[a]}: {a.type}" for a in block.args)
        lines.append(f"{names[block]}({args}):")
        for i in block.instructions:
            lines.append("    " + print_instruction(i, names) + (_location(i) if locations else ""))
    return "\n".join([*lines, "}"]) + "\n"


def _names(function: Function) -> dict[object, str]:
    names: dict[object, str] = {}
    used: set[str] = set()
    counts: dict[str, int] = {}

    def unique(sigil: str, hint: str) -> str:
        # the count goes on where the last search for this hint ended: thousands of %x take linear time
        key, name = sigil + hint, hint
        while sigil + name in used:
            n = counts.get(key, 0)
            name, counts[key] = f"{hint}_{n}", n + 1
        used.add(sigil + name)
        return spell(sigil, name)

    for b, block in enumerate(function.blocks):
        names[block] = unique("'", block.name) if block.name else f"'{b}"
        for k, arg in enumerate(block.args):
            names[arg] = unique("%", arg.name) if arg.name else f"%{b}^{k}"
        for k, i in enumerate(block.instructions):
            # a void instruction has no left-hand side that could say its name
            names[i] = unique("%", i.name) if i.name and i.type != VOID else f"%{b}.{k}"
    return names


def _location(i: Instruction) -> str:
    if i.loc is None:
        return ""
    return f" !loc({quote(i.loc.file)}, {i.loc.line}, {i.loc.col}, {i.loc.end_line}, {i.loc.end_col})"


# -- literals ----------------------------------------------------------------------------------------

_QUIET_NAN = 0x7FF8_0000_0000_0000
_NAN_PAYLOAD = 0x000F_FFFF_FFFF_FFFF


def print_literal(value: object, type: Type) -> str:
    """The payload of a literal; `type` decides how a bool or an integer is meant."""
    if value is UNDEFINED or value is NULL:
        return repr(value)
    if isinstance(value, FunctionName):
        return _global(value)
    if hasattr(value, "item"):
        value = value.item()  # a NumPy scalar: its repr is no literal
    kind = type.dtype.kind if isinstance(type, TensorType) else ""
    if kind == "b" and value in (0, 1):
        return "true" if value else "false"
    if kind in ("f", "c") and isinstance(value, int):
        value = float(value)
    if isinstance(value, complex):
        return f"complex({_float(value.real)}, {_float(value.imag)})"
    if isinstance(value, float):
        return _float(value)
    return str(int(value)) if isinstance(value, bool) else repr(value)


def _float(value: float) -> str:
    if value == value:
        return repr(value)
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    sign = "-" if bits >> 63 else ""
    plain = bits & ~(1 << 63) == _QUIET_NAN
    return f"{sign}nan" if plain else f"{sign}nan({bits & _NAN_PAYLOAD})"


# -- instructions ------------------------------------------------------------------------------------


def print_instruction(i: Instruction, names: Mapping[object, str]) -> str:
    """The text of one instruction, without indentation."""
    text = _Writer(i, names).text()
    return text if i.type == VOID else f"{names.get(i, '%?')} = {text}"


class _Writer:
    """Writes one instruction after the form of its op."""

    def __init__(self, i: Instruction, names: Mapping[object, str]) -> None:
        self.i = i
        self.names = names
        self.operands = list(i.operands)  # those that are not written yet
        self.targets = list(i.targets)

    def text(self) -> str:
        """The whole instruction."""
        if constant := self._constant():
            return constant
        form = form_items(self.i.op)
        lists = sum(item.kind == "(%*)" for item in form)
        single = sum(item.kind == "%" for item in form)
        share = max(len(self.operands) - single, 0) // lists if lists else 0
        text = form_text(self.i.op).split()[0]
        for item in form:
            written = self._item(item, share)
            # commas, colons and the operands of a call stand close to what they follow
            called = item.kind == "(%*)" and self.i.op.name in ("apply", "applyValue", "builtin")
            close = called or item.text in (",", ":")
            text += written if close or not written else f" {written}"
        rest = [self._use(v) for v in self.operands] + [self._target(t) for t in self.targets]
        return text + "".join(f", {r}" for r in rest)

    def _constant(self) -> str:
        """A literal that is no tuple, "" for any other instruction."""
        i = self.i
        if i.op is OPS["broadcast"] and isinstance(i.type, TensorType) and None not in i.type.shape:
            number = i.operands[0] if i.operands else None
            if isinstance(number, Literal) and number.value is not UNDEFINED and number.type == scalar(i.type.dtype):
                return f"literal {self._use(number).rpartition(':')[0]}: {i.type}"
        if i.op is OPS["constant"]:
            return f"literal {self._uses(1)}"
        if i.op is OPS["enumCase"]:
            return f"literal ?{i.attrs.get('case')}({', '.join(map(self._use, i.operands))}): {i.type}"
        if i.op is not OPS["aggregate"]:
            return ""
        match i.type:
            case TensorType():
                return f"literal {self._rows(i.operands, i.type)}: {i.type}"
            case StructType():
                pairs = zip(i.type.fields, i.operands, strict=False)
                return f"literal {{{', '.join(f'#{n} = {self._use(v)}' for n, v in pairs)}}}: {i.type}"
        return f"literal [{', '.join(map(self._use, i.operands))}]: {i.type}"

    def _rows(self, values: list[Value], t: TensorType) -> str:
        if t.rank < 2 or not values or values[0].type != scalar(t.dtype):
            return f"<{', '.join(map(self._use, values))}>"
        row = TensorType(t.shape[1:], t.dtype)
        width = max(len(values) // max(t.shape[0] or 1, 1), 1)
        rows = [values[k : k + width] for k in range(0, len(values), width)]
        return f"<{', '.join(f'{self._rows(r, row)}: {row}' for r in rows)}>"

    def _shape(self, count: int) -> str:
        """The shape of a shapeCast or random as the original writes it, if all extents are known: `2 x 3`, `scalar`."""
        extents = self.operands[:count]
        if self.i.op.name not in ("shapeCast", "random") or not all(map(_is_extent, extents)):
            return ""
        self.operands = self.operands[count:]
        return " x ".join(str(v.value) for v in extents) or "scalar"  # type: ignore[attr-defined]

    def _next_key(self) -> str:
        if not self.operands:
            return "?"
        v, *self.operands = self.operands
        return str(v.value) if isinstance(v, Literal) and _is_extent(v) else self._use(v)

    def _item(self, item: Item, share: int) -> str:
        match item.kind:
            case "%":
                return self._uses(1) if self.operands else "?"
            case "%?":
                return self._uses(1)
            case "%&":
                return self._uses(1).partition(":")[0] if self.operands else "?"
            case "%,":
                if self.i.op is OPS["elementPointer"]:
                    path = self.i.attrs.get("path") or ("",) * len(self.operands)
                    return ", ".join(f"#{name}" if name else self._next_key() for name in path)
                return self._uses(len(self.operands))
            case "(%*)":
                return self._shape(share) or f"({self._uses(share)})"
            case "'":
                return self._target(self.targets.pop(0)) if self.targets else "?"
            case "result":
                return str(self.i.type)
            case "attribute" if item.text == "cases":
                pairs = zip(self.i.attrs.get("cases", ()), self.targets, strict=False)
                text = " ".join(f"case ?{c} {self.names.get(t.block, '?')}" for c, t in pairs)
                self.targets = []
                return text
            case "attribute" if item.text == "type?":
                return str(self.i.attrs.get(item.attr) or "")
            case "attribute":
                return _attribute(item.text, self.i.attrs.get(item.attr, "?"))
            case "group":
                value = self.i.attrs.get(item.attr)
                if value is None or value is False:
                    return ""
                return " ".join(filter(None, (self._item(inner, share) for inner in item.items)))
        return item.text

    def _uses(self, count: int) -> str:
        taken, self.operands = self.operands[:count], self.operands[count:]
        return ", ".join(map(self._use, taken))

    def _use(self, v: Value) -> str:
        if isinstance(v, Literal):
            if isinstance(v.value, OpName):
                return v.value
            shown = print_literal(v.value, v.type)
            # the number as the program wrote it; -0 is no number without a fraction
            if v.integral and shown.endswith(".0") and shown != "-0.0":
                shown = shown[:-2]
        else:
            shown = _global(v.name) if isinstance(v, Variable) else self.names.get(v, "%?")
        return f"{shown}: {v.type}"

    def _target(self, t: Target) -> str:
        name = self.names.get(t.block, "'?")
        return f"{name}({', '.join(map(self._use, t.args))})"


def _is_extent(v: Value) -> bool:
    return isinstance(v, Literal) and v.type == scalar(I64) and isinstance(v.value, int) and v.value >= 0


def _attribute(kind: str, value: Any) -> str:
    if isinstance(value, Combiner):
        return f"builtin {quote(value)}"
    match kind:
        case "pairs" if value != "?":
            return ", ".join(f"({a}, {b})" for a, b in value)
        case "ints" if value != "?":
            return ", ".join(map(str, value))
        case "keys":
            keys = value if isinstance(value, tuple | list) else (value,)
            return ", ".join(f"#{k}" if isinstance(k, str) and k != "?" else str(k) for k in keys)
        case "string":
            return quote(str(value))
        case "name":
            return spell("", str(value))
        case "function":
            return _global(str(value))
    return str(value)
