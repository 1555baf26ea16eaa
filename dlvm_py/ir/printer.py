"""Text of the IR: DLVM's canonical printing, with our extensions.

Anonymous things print by position: block `'i`, argument `%b^i`, instruction `%b.i`. A name that occurs
twice in a function gets a numeric suffix for printing, so that the text is unambiguous.
"""

from __future__ import annotations

from dlvm_py.ir.function import Function, Module
from dlvm_py.ir.types import VOID
from dlvm_py.ir.value import NULL, UNDEFINED, Instruction, Literal, Target, Value


def print_module(module: Module) -> str:
    """The text of a module."""
    head = f'module "{_escape(module.name)}"\nstage {module.stage}\n'
    return head + "".join("\n" + print_function(f) for f in module.functions.values())


def print_function(function: Function) -> str:
    """The text of one function, ending in a newline."""
    names = _names(function)
    lines = [f"!{a}" for a in sorted(function.attributes)]
    lines.append(f"func @{function.name}: {function.type} {{")
    for block in function.blocks:
        args = ", ".join(f"{names[a]}: {a.type}" for a in block.args)
        lines.append(f"{names[block]}({args}):")
        lines.extend("    " + print_instruction(i, names) for i in block.instructions)
    return "\n".join([*lines, "}"]) + "\n"


def _names(function: Function) -> dict[object, str]:
    names: dict[object, str] = {}
    used: set[str] = set()

    def unique(sigil: str, hint: str) -> str:
        name, n = hint, 0
        while sigil + name in used:
            name, n = f"{hint}_{n}", n + 1
        used.add(sigil + name)
        return sigil + name

    for b, block in enumerate(function.blocks):
        names[block] = unique("'", block.name) if block.name else f"'{b}"
        for k, arg in enumerate(block.args):
            names[arg] = unique("%", arg.name) if arg.name else f"%{b}^{k}"
        for k, instruction in enumerate(block.instructions):
            names[instruction] = unique("%", instruction.name) if instruction.name else f"%{b}.{k}"
    return names


def _escape(text: str) -> str:
    for raw, shown in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(raw, shown)
    return text


def _literal(value: object) -> str:
    if value is UNDEFINED or value is NULL:
        return repr(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def print_instruction(i: Instruction, names: dict[object, str]) -> str:
    """The text of one instruction, without indentation."""

    def name(v: object) -> str:
        return names.get(v, "%?")

    def use(v: Value) -> str:
        return f"{_literal(v.value)}: {v.type}" if isinstance(v, Literal) else f"{name(v)}: {v.type}"

    def uses(vs: list[Value]) -> str:
        return ", ".join(map(use, vs))

    def target(t: Target) -> str:
        return f"{name(t.block)}({uses(t.args)})"

    def bracket(vs: list[Value]) -> str:
        return f"({uses(vs)})"

    o, a = i.operands, i.attrs
    match i.op.name:
        case "branch":
            text = f"branch {target(i.targets[0])}"
        case "conditional":
            text = f"conditional {use(o[0])} then {target(i.targets[0])} else {target(i.targets[1])}"
        case "return":
            text = f"return {uses(o)}".rstrip()
        case "raise":
            text = f'raise {a["exception"]} "{_escape(a["message"])}" {bracket(o)}'
        case "check":
            text = f'check {use(o[0])} else {a["exception"]} "{_escape(a["message"])}" {bracket(o[1:])}'
        case "tuple":
            text = f"literal {bracket(o)}: {i.type}"
        case "extract":
            text = f"extract {a['at']} from {use(o[0])}"
        case "apply":
            text = f"apply @{a['callee']}({uses(o)}) -> {a['result']}"
        case "select":
            text = f"select {use(o[0])}, {use(o[1])} by {use(o[2])}"
        case "dataTypeCast":
            text = f"dataTypeCast {use(o[0])} to {a['to']}"
        case "pointerCast":
            text = f"pointerCast {use(o[0])} to {a['to']}"
        case "reduce":
            along = ", ".join(map(str, a["axes"]))
            text = f"reduce {use(o[0])} by {a['by']} init {use(o[1])} along {along}"
        case "transpose":
            axes = a.get("axes")
            text = f"transpose {use(o[0])}" + (f" axes {', '.join(map(str, axes))}" if axes is not None else "")
        case "padShape" | "squeezeShape":
            text = f"{i.op.name} {use(o[0])} at {a['at']}"
        case "extent":
            text = f"extent {use(o[0])} at {a['at']}"
        case "shapeCast" | "broadcast" | "unbroadcast":
            text = f"{i.op.name} {use(o[0])} to {bracket(o[1:])}"
        case "section":
            n = (len(o) - 1) // 3
            text = f"section {use(o[0])} at {bracket(o[1:1 + n])} count {bracket(o[1 + n:1 + 2 * n])} step {bracket(o[1 + 2 * n:])}"
        case "elementPointer":
            text = f"elementPointer {use(o[0])} at {uses(o[1:])}"
        case "allocateHeap":
            text = f"allocateHeap {a['dtype']} count {bracket(o)}"
        case "store":
            text = f"store {use(o[0])} to {use(o[1])}"
        case "createStack":
            text = f"createStack {a['element']}"
        case "push":
            text = f"push {use(o[0])} to {use(o[1])}"
        case "pop":
            text = f"pop {i.type} from {use(o[0])}"
        case _:
            text = f"{i.op.name} {uses(o)}" + (" checked" if a.get("checked") else "")
    return text if i.type == VOID else f"{name(i)} = {text}"


