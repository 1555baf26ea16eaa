"""Versions of kernels: a run of kernels is cut out of its block, which then chooses between them and another form.

    ...                                        ...                                 'whole():
    %t = allocateHeap f64 count (%n: i64)      (the choice of who calls this)          %t = allocateHeap ...
    store (...) to %t                                                                  store (...) to %t
    %c = extent %x at 0                  =>    %c = extent %x at 0                     store (... load %t) to %y
    store (... load %t) to %y                                                          branch 'behind()
    ...                                                                            'behind():
                                                                                       ...

What stands between the kernels stays before them, so it has to be able to run there (`passes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dlvm_py.ir.analysis import AliasAnalysis
from dlvm_py.ir.analysis.effects import is_pure, may_trap
from dlvm_py.ir.analysis.places import section_parts
from dlvm_py.ir.builder import Builder, literal
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.tree_rules import kernels
from dlvm_py.ir.types import is_array
from dlvm_py.ir.value import Instruction, Value, integer
from dlvm_py.transforms.sibling_fusion import drop_dead_trees


def cut_out(
    function: Function, block: Block, roots: Sequence[Instruction], private: Iterable[Value], names: Sequence[str]
) -> list[Block]:
    """New blocks of these names behind a block that is left open: the last two have the kernels, and what follows.

    roots: of all the kernels, in order. private: memory of the block that is made with the kernels, and by nothing else
    but views known.
    """
    body = block.instructions
    end = body.index(roots[-1]) + 1
    apart, made = set(roots), set(private)
    for i in body[:end]:
        if i in made or any(v in made for v in i.operands if not is_array(i.type)):
            apart.add(i)
            made.add(i)
    moved, rest = [i for i in body[:end] if i in apart], body[end:]
    block.instructions = [i for i in body[:end] if i not in apart]
    blocks, after = [], block
    for name in names:
        after = function.new_block(name, after=after)
        blocks.append(after)
    *_, whole, behind = blocks
    _write_with_trees(Builder(function, whole), moved)
    _write_with_trees(Builder(function, behind), rest)
    drop_dead_trees(block)
    Builder(function, whole).branch(behind)
    return blocks


def _write_with_trees(b: Builder, instructions: list[Instruction]) -> None:
    """Instructions in a new block, with the trees that kernels share with those of another block made anew."""
    there = set(instructions)
    for kernel in kernels(instructions):
        members = dict.fromkeys(x for i in kernel for o in i.operands for x in reversed(tree_of(o)))
        if not is_array(kernel[0].type) and not there.issuperset(members):
            new: dict[Value, Value] = {}
            for x in members:
                b.clone(x, new)
            for i in kernel:
                i.operands = [new.get(o, o) for o in i.operands]
        for i in kernel:
            b.insert(i)
    assert b.block is not None
    drop_dead_trees(b.block)


def passes(aliases: AliasAnalysis, written: Iterable[Value], i: Instruction) -> bool:
    """Whether an instruction may run before kernels that write to these pointers."""
    if any(is_array(v.type) for v in i.operands):
        return i.op is OPS["extent"]
    if i.op is OPS["check"]:
        roots = {root for p in written for root in aliases.roots(p)}
        return all(isinstance(root, Instruction) and root.op is OPS["allocateHeap"] for root in roots)
    return i.op is OPS["allocateHeap"] or (is_pure(i) and not may_trap(i))


def elementwise(top: Value, may_stretch: bool = False) -> list[Instruction] | None:
    """The array values of a tree of elementwise steps and loads, users first; None for another one.

    may_stretch: whether axes may be stretched to extents.
    """
    found: dict[Instruction, None] = {}
    work = [top]
    while work:
        v = work.pop()
        if not is_array(v.type) or v in found:
            continue
        if not isinstance(v, Instruction) or may_trap(v) or v.type.rank != top.type.rank:  # type: ignore[attr-defined]
            return None
        found[v] = None
        if v.op.kind is Kind.ELEMENTWISE or (may_stretch and v.op is OPS["broadcast"]):
            work += v.operands
        elif v.op is not OPS["load"] and not is_filled(v):
            return None
    return list(found)


def is_filled(v: Instruction) -> bool:
    """Whether an array is one number everywhere."""
    return v.op is OPS["broadcast"] and not is_array(v.operands[0].type)


def tree_of(top: Value) -> list[Instruction]:
    """The array values of a tree, users before operands."""
    order: list[Instruction] = []
    done: set[Value] = set()
    work: list[tuple[Value, bool]] = [(top, False)]
    while work:
        v, is_left = work.pop()
        if not isinstance(v, Instruction) or not is_array(v.type):
            continue
        if is_left:
            order.append(v)
        elif v not in done:
            done.add(v)
            work.append((v, True))
            work += [(o, False) for o in v.operands]
    return order[::-1]


def over_rows(
    b: Builder, top: Value, rows: Callable[[Value], Value], length: Value, new: dict[Value, Value], lead: int = 1
) -> Value:
    """A tree over some rows of its arrays, which `rows` gives. new: what is made already.

    No array in it may have one row only at run time that is stretched, but for those whose types say so.
    lead: of so many first axes, one is left, of this length.
    """
    if not isinstance(top, Instruction) or not is_array(top.type):
        return top
    for x in reversed(tree_of(top)):  # operands first
        if x in new:
            continue
        if x.op is OPS["load"]:
            new[x] = b.emit("load", rows(x.operands[0]))
            continue
        operands = [new.get(o, o) for o in x.operands]
        attrs = dict(x.attrs)
        if x.op is OPS["broadcast"] and (is_filled(x) or integer(operands[1]) != 1):
            operands[1 : 1 + lead] = [length]
        elif x.op is OPS["reduce"]:
            attrs["axes"] = tuple(a - lead + 1 for a in attrs["axes"])
        new[x] = b.emit(x.op, *operands, name=x.name, **attrs)
    return new[top]


def section_of_rows(b: Builder, p: Value, start: Value, count: Value) -> Value:
    """Some rows of an array, and all of each: what is contiguous stays so."""
    if isinstance(p, Instruction) and p.op is OPS["section"]:
        starts, counts, steps = section_parts(p)
        if integer(steps[0]) == 1:
            start = start if integer(starts[0]) == 0 else b.emit("add", starts[0], start)
            return b.emit("section", p.operands[0], start, *starts[1:], count, *counts[1:], *steps)
    rest = [literal(n) if n is not None else b.emit("extent", p, at=k) for k, n in enumerate(p.type.shape) if k]  # type: ignore[attr-defined]
    zeros, ones = [literal(0)] * len(rest), [literal(1)] * (len(rest) + 1)
    return b.emit("section", p, start, *zeros, count, *rest, *ones)
