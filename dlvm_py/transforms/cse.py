"""Common subexpression elimination: an equal pure instruction that dominates stands for this one.

    'entry(%x: f64, %y: f64):                       'entry(%x: f64, %y: f64):
        %a = multiply %x: f64, %y: f64                  %a = multiply %x: f64, %y: f64
        %b = multiply %y: f64, %x: f64      =>          %c = add %a: f64, %a: f64
        %c = add %a: f64, %b: f64                       return %c: f64
        return %c: f64

The dominator tree is walked depth first with a stack of scopes: what a block adds is visible in the blocks
that it dominates and gone when the walk leaves it (the scoped table of value numbering; Briggs, Cooper and
Simpson 1997). Operands are replaced before an instruction is looked up, so chains of duplicates collapse in
one walk; a second run changes nothing.

Equal means: the same op, attributes, type, and operands, where literals are compared by type and bits
(`0.0` is not `-0.0`). The operands of commutative ops are ordered first, except of `max` and `min` on
floating point: for two zeros they give the first operand. Which of two NaN payloads a sum keeps is not
counted as a difference.

Pure includes index ops on pointers (the same view of the same array) and `extent`, and also `checked`
arithmetic, because the first of two equal instructions has raised already if the second would. For the same
reason a `check` goes away whose condition a dominating check has seen to hold. Loads are redundant_load.py's.
Tensors of rank 1 and more (and tuples) are shared within a block only, unless asked: no array value crosses a border
that it did not cross before. Any stage.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from dlvm_py.ir import Block, Function, Instruction, Literal, TensorType, TupleType, Value, is_array
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.transforms.literals import literal_key
from dlvm_py.transforms.substitution import rewrite_operands, substitute


def run(function: Function, arrays_cross: bool = False) -> bool:
    """Remove common subexpressions of `function`; whether anything changed.

    arrays_cross: array values and tuples are shared across blocks too, as in DLVM's programs.
    """
    children = of_graph(DominatorTree, function).children
    replaced: dict[Value, Value] = {}
    available: dict[Hashable, Instruction] = {}
    # None stands for leaving the block whose keys are on top of `scopes`
    pending: list[Block | None] = [function.entry]
    scopes: list[list[Hashable]] = []
    while pending:
        block = pending.pop()
        if block is None:
            for key in scopes.pop():
                del available[key]
            continue
        scopes.append(_visit(block, available, replaced, arrays_cross))
        pending.append(None)
        pending.extend(children[block])
    # arguments of branches that go back, which the walk has seen too early
    substitute(function.blocks, replaced)
    return bool(replaced)


def _visit(
    block: Block, available: dict[Hashable, Instruction], replaced: dict[Value, Value], arrays_cross: bool
) -> list[Hashable]:
    """Remove what is available already from `block`; the keys that it makes available."""
    kept = []
    added = []
    for i in (j for each in block.instructions for j in (*rewrite_operands(each, replaced), each)):
        key = _key(i, arrays_cross)
        if key is not None and key in available:
            replaced[i] = available[key]
            continue
        if key is not None:
            available[key] = i
            added.append(key)
        kept.append(i)
    block.instructions = kept
    return added


def _key(i: Instruction, arrays_cross: bool) -> Hashable | None:
    """Equal for instructions that may stand for each other; None for those that never may."""
    if i.op.name == "check":
        return "check", i.attrs.get("assuming"), _operand_key(i.operands[0])
    local = not arrays_cross and (is_array(i.type) or isinstance(i.type, TupleType))
    key = key_of(i, _operand_key)
    return key if key is None or not local else (key, i.block)


def key_of(i: Instruction, of: Callable[[Value], Hashable]) -> Hashable | None:
    """Equal for pure instructions that give the same, where `of` says so of their operands; None for all others."""
    if not i.op.is_pure:
        return None
    operands = [of(v) for v in i.operands]
    if _commutes(i):
        operands.sort(key=hash)
    return i.op, i.type, _frozen(i.attrs), tuple(operands)


def _operand_key(value: Value) -> Hashable:
    return literal_key(value) if isinstance(value, Literal) else value


def _commutes(i: Instruction) -> bool:
    ordered = i.op.name in ("max", "min") and isinstance(i.type, TensorType) and i.type.dtype.is_inexact
    return i.op.commutative and not ordered


def _frozen(attrs: dict[str, Any]) -> Hashable:
    if not attrs:
        return ()
    return tuple(sorted((k, tuple(v) if isinstance(v, list) else v) for k, v in attrs.items() if v is not None))
