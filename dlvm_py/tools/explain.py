"""`dlopt --explain OP` and `--list-passes`: what the tables say, for people."""

from __future__ import annotations

import inspect
from pathlib import Path

import dlvm_py
from dlvm_py.ir.op import Op
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.syntax import form_text, op_of_mnemonic
from dlvm_py.tools.common import Failure
from dlvm_py.transforms import differentiate_module
from dlvm_py.transforms.pass_manager import PASSES

AD = "differentiate_module"


def pass_list() -> str:
    """One line a pass: abbreviation, name, what it does. AD first."""
    doc = (differentiate_module.__doc__ or "").partition("\n")[0].rstrip(".")
    rows = [("AD", AD, doc), *((p.abbreviation, p.name, p.description) for p in PASSES.values())]
    width = max(len(name) for _, name, _ in rows)
    return "".join(f"{short:8} {name:{width}}  {text}\n" for short, name, text in rows)


PASSES_HEAD = """# Passes

Made by docs/build_passes.py from the docstrings of `dlvm_py/transforms`. `dlopt -p` takes the abbreviation, the name,
or DLVM's long name (`DeadCodeElimination`); `dlopt --list-passes` shows the table. AD comes first, always. Programs
that show each pass at work are in tests/dl/transforms.

| abbreviation | name | |
|---|---|---|
"""


def passes_page() -> str:
    """docs/passes.md: the table, then what each pass does, with the IR before and after."""
    modules = {AD: differentiate_module} | {name: row.module for name, row in PASSES.items()}
    short = {AD: "AD"} | {name: row.abbreviation for name, row in PASSES.items()}
    docs = {name: inspect.getdoc(module) or "" for name, module in modules.items()}
    first = {name: doc.partition("\n")[0].rstrip(".") for name, doc in docs.items()}
    table = "".join(f"| `{short[name]}` | `{name}` | {first[name]} |\n" for name in modules)
    parts = [f"\n## {short[name]}: {name}\n\n{doc.strip()}\n" for name, doc in docs.items()]
    return PASSES_HEAD + table + "".join(parts)


def explain(word: str) -> str:
    """The row of an op: syntax, kind, effects, derivative, and where it is declared."""
    op = OPS.get(word) or op_of_mnemonic(word)
    if op is None:
        raise Failure(f"there is no instruction '{word}'")
    lines = [op.name, f"  syntax      {form_text(op)}", f"  kind        {op.kind.value}"]
    if op.numpy_name:
        lines.append(f"  NumPy       {op.numpy_name}")
    lines.append(f"  effects     {', '.join(sorted(op.effects)) or 'none'}")
    lines.append(f"  derivative  {_derivative(op)}")
    if op.doc:
        lines.append(f"  {op.doc}")
    lines.append(f"  declared    {_place(op)}")
    return "\n".join(lines) + "\n"


def _derivative(op: Op) -> str:
    if op.no_derivative is not None:
        return op.no_derivative
    form = "partials" if op.partials is not None else "adjoint"
    return f"by its {form}" + (", guarded: they can be infinite" if op.singular else "")


def _place(op: Op) -> str:
    """file:line of the row: found by its name in the family files."""
    folder = Path(inspect.getfile(dlvm_py)).parent / "ir" / "ops"
    for file in sorted(folder.glob("*.py")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if f'"{op.name}"' in line or line.startswith((f"{op.name} =", f"{op.name}_ =")):
                return f"dlvm_py/ir/ops/{file.name}:{number}"
    return "dlvm_py/ir/ops"
