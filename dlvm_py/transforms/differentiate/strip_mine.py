"""Loops that a gradient may run again in segments become two: segments, and the steps of one segment.

    'a(): branch 'loop(%x)                            'a():              branch 'segment(%x)
    'loop(%y): … then 'body() else 'out()             'segment(%z):      branch 'loop(%z, 0)
    'body(): …                                 →      'loop(%y, %step):  … then 'body() else 'out()
             branch 'loop(%w)                         'body():           … branch 'stepped(%w)
                                                      'stepped(%v):      %done = add %step, 1
                                                                         %full = %done >= %length
                                                                         conditional %full then 'segment(%v)
                                                                                           else 'loop(%v, %done)

How many steps a segment has, `length`, is left open here: an instruction that checkpoint.py replaces. Until then a
segment has no end, and the program computes what it did.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir import Block, BlockArg, Builder, Function, Instruction, Kind, Value, literal
from dlvm_py.ir.analysis import LoopForest, predecessors
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.op import TRAP
from dlvm_py.transforms.differentiate.arguments import entry_builder

_UNBOUNDED = 2**63 - 1
_MEMORY = frozenset(("load", "store", "scatter", "allocateHeap", "check", "branch", "conditional"))
_ELSEWHERE = (Kind.CALL, Kind.HIGHER_ORDER, Kind.STACK, Kind.AGGREGATE, Kind.CONTROL, Kind.MEMORY)


class StripMined(Frozen):
    """A loop that was strip-mined: the headers of both, the number of the step in its segment, and `length`."""

    segment: Block
    header: Block
    step: BlockArg
    length: Instruction


def strip_mine(function: Function) -> list[StripMined]:
    """Strip-mine the outermost loops of `function` whose effects are on arrays alone, in place."""
    return [_split(function, loop) for loop in plain_loops(function)]


def plain_loops(function: Function) -> list[Loop]:
    """The outermost loops whose effects are on arrays alone."""
    return [loop for loop in LoopForest(function).top if all(map(_is_plain, _body(loop)))]


def _body(loop: Loop) -> list[Instruction]:
    return [i for block in loop.ordered for i in block.instructions]


def _is_plain(i: Instruction) -> bool:
    """Whether running `i` again, from the same values and memory, does the same and no more (draws do not)."""
    if i.op.name in _MEMORY:
        return True
    if i.op.kind in _ELSEWHERE or not i.op.effects <= {TRAP}:
        return False
    return i.op.kind is not Kind.GENERATE or not i.op.effects


def _split(function: Function, loop: Loop) -> StripMined:
    header = loop.header
    edges = predecessors(function)[header]
    segment = function.new_block("segment", after=header)
    function.blocks.remove(segment)
    function.blocks.insert(function.blocks.index(header), segment)
    stepped = function.new_block("stepped", after=loop.latches[-1])
    length = entry_builder(function).emit("add", literal(_UNBOUNDED), literal(0), name="length")
    passed: list[Value] = [segment.add_arg(a.type, a.name) for a in header.args]
    carried: list[Value] = [stepped.add_arg(a.type, a.name) for a in header.args]
    for source, index in edges:
        source.targets[index].block = stepped if loop.contains(source) else segment
    step = header.add_arg(literal(0).type, "step")
    Builder(function, segment).branch(header, [*passed, literal(0)])
    b = Builder(function, stepped)
    done = b.emit("add", step, literal(1), name="step")
    full = b.emit("greaterThanOrEqual", done, length)
    b.conditional(full, segment, carried, header, [*carried, done])
    return StripMined(segment, header, step, length)
