"""Kept results are what a fresh analysis gives, whatever was done to the IR; and side effects, by definition."""

import random
import re
import weakref

import pytest
from random_ir import random_program

from dlvm_py.ir import I64, OPS, Block, Builder, Extern, Instruction, Literal, Target, literal, print_module, scalar
from dlvm_py.ir.analysis import DominatorTree, LoopForest, PostDominatorTree, SideEffects, side_effects
from dlvm_py.ir.analysis.cache import of_graph, of_module
from dlvm_py.ir.parser import parse_module
from dlvm_py.transforms import dead_calls
from dlvm_py.transforms.pass_manager import PASSES

GRAPH = {
    DominatorTree: lambda a: a.idom,
    PostDominatorTree: lambda a: a.ipdom,
    LoopForest: lambda a: [(loop.header, loop.ordered, loop.latches, loop.depth) for loop in a.loops],
}


def compare(module):
    """Each kept result against a fresh one."""
    for f in module.functions.values():
        for analysis, content in GRAPH.items():
            assert content(of_graph(analysis, f)) == content(analysis(f))
    assert of_module(side_effects, module) == side_effects(module)


# -- every way to change a function --------------------------------------------------------------------


def add_block(f, r):
    block = f.new_block(after=r.choice(f.blocks)) if r.random() < 0.5 else f.new_block("new")
    Builder(f, block).branch(block)


def retarget(f, r):
    targets = [t for b in f.blocks for t in b.targets if not t.block.args]
    if targets:
        r.choice(targets).block = r.choice([b for b in f.blocks[1:] if not b.args] or f.blocks[1:] or f.blocks)


def new_target(f, r):
    ends = [b.terminator for b in f.blocks if b.targets]
    if ends:
        end = r.choice(ends)
        k = r.randrange(len(end.targets))
        end.targets[k] = Target(end.targets[k].block, list(end.targets[k].args))


def fold_conditional(f, r):
    for b in f.blocks:
        end = b.terminator
        if end is not None and end.op is OPS["conditional"]:
            end.op, end.operands, end.targets = OPS["branch"], [], end.targets[:1]
            return


def replace_terminator(f, r):
    block = r.choice(f.blocks[1:] or f.blocks)
    block.instructions[-1:] = []
    block.append(Instruction(OPS["raise"], [], {"exception": "ValueError", "message": ""}))


def drop_block(f, r):
    targeted = {t.block for b in f.blocks for t in b.targets}
    free = [b for b in f.blocks[1:] if b not in targeted]
    if free:
        f.blocks.remove(r.choice(free))


def reorder(f, r):
    f.blocks[1:] = r.sample(f.blocks[1:], len(f.blocks) - 1)


def insert_instruction(f, r):
    b = Builder(f).before(r.choice(f.blocks).instructions[-1])
    b.emit("add", literal(1), literal(2), **({"checked": True} if r.random() < 0.5 else {}))


def remove_instruction(f, r):
    block = r.choice(f.blocks)
    if len(block.instructions) > 1:
        block.instructions.pop(0)


def change_op(f, r):
    for i in f.instructions():
        if i.op is OPS["check"]:
            i.op, i.operands, i.attrs = OPS["add"], [literal(1), literal(2)], {}
            i.type = scalar(I64)
            return


def change_attribute(f, r):
    for i in f.instructions():
        if i.op is OPS["add"] and i.type == scalar(I64):
            i.attrs["checked"] = not i.attrs.get("checked")
            return


def change_literal(f, r):
    for i in f.instructions():
        for v in i.operands:
            if isinstance(v, Literal) and v.value == 2:
                v.value = 3
                return


def substitute(f, r):
    values = [i for i in f.instructions() if i.type == scalar(I64)]
    if values:
        f.substitute({r.choice(values): literal(5)})


def add_argument(f, r):
    if len(f.blocks) > 1:
        block = r.choice(f.blocks[1:])
        block.add_arg(scalar(I64), "more")
        for b in f.blocks:
            for t in b.targets:
                if t.block is block:
                    t.args.append(literal(0))


WAYS = [add_block, retarget, new_target, fold_conditional, replace_terminator, drop_block, reorder, insert_instruction,
        remove_instruction, change_op, change_attribute, change_literal, substitute, add_argument]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_each_change_is_seen(way):
    """After each change the kept results are the fresh ones."""
    for seed in range(6):
        r, module = random.Random(seed), random_program(seed).module
        compare(module)
        for _ in range(3):
            way(module.functions["main"], r)
            compare(module)


def test_changes_one_after_the_other():
    """Also in any order, and to and fro: a state that comes back gets its own results."""
    for seed in range(8):
        r, module = random.Random(seed), random_program(seed).module
        for _ in range(12):
            f = r.choice(list(module.functions.values()))
            blocks, bodies = list(f.blocks), [list(b.instructions) for b in f.blocks]
            r.choice(WAYS)(f, r)
            compare(module)
            if r.random() < 0.2:  # undo what can be undone by lists
                f.blocks = blocks
                for b, body in zip(blocks, bodies, strict=True):
                    b.instructions = body
                compare(module)


def test_after_passes():
    """And after every pass that changes functions."""
    names = [n for n, row in PASSES.items() if n not in ("bufferize", "ownership", "stack_promotion")]
    for seed in range(4):
        module = random_program(seed).module
        for name in random.Random(seed).sample(names, len(names)):
            row = PASSES[name]
            for f in list(module.functions.values()):
                row.run(module, f.name) if row.on_module else row.run(f)
            compare(module)


def test_results_are_kept():
    """Without a change it is the same object; functions are not held."""
    module = random_program(1).module
    f = module.functions["main"]
    tree = of_graph(DominatorTree, f)
    assert of_graph(DominatorTree, f) is tree
    insert_instruction(f, random.Random(0))
    assert of_graph(DominatorTree, f) is tree  # no block or edge is another
    f.blocks.append(Block())
    Builder(f, f.blocks[-1]).branch(f.blocks[-1])
    assert of_graph(DominatorTree, f) is not tree
    found = of_module(side_effects, module)
    assert of_module(side_effects, module) is found
    gone = weakref.ref(f)
    del module, f, tree
    assert gone() is None


# -- side effects --------------------------------------------------------------------------------------

PROGRAM = """module "effects"
stage raw

var @counter: i64

[extern]
func @sin: (f64) -> f64

[extern]
func @foreign: (f64) -> f64

func @pure: (f64) -> f64 {
'entry(%x: f64):
    %m = allocateHeap f64 count ()
    store %x: f64 to %m: *f64
    %y = load %m: *f64
    %z = apply @sin(%y: f64) -> f64
    return %z: f64
}

func @reads: (*<_ x f64>) -> f64 {
'entry(%p: *<_ x f64>):
    %v = load %p: *<_ x f64>
    %s = reduce %v: <_ x f64> by add init 0: f64 along 0
    return %s: f64
}

func @writes: (*f64) -> () {
'entry(%p: *f64):
    store 1: f64 to %p: *f64
    return
}

func @counts: () -> () {
'entry():
    store 1: i64 to @counter: *i64
    return
}

func @pushes: (stack{f64}) -> () {
'entry(%s: stack{f64}):
    push 1: f64 to %s: stack{f64}
    return
}

func @checks: (i64) -> i64 {
'entry(%n: i64):
    %m = add %n: i64, 1: i64 checked
    return %m: i64
}

func @loops: () -> () {
'entry():
    branch 'loop()
'loop():
    branch 'loop()
}

func @even: (i64) -> bool {
'entry(%n: i64):
    %zero = equal %n: i64, 0: i64
    conditional %zero: bool then 'yes() else 'more()
'yes():
    return true: bool
'more():
    %m = subtract %n: i64, 1: i64
    %r = apply @odd(%m: i64) -> bool
    return %r: bool
}

func @odd: (i64) -> bool {
'entry(%n: i64):
    %r = apply @even(%n: i64) -> bool
    %s = not %r: bool
    return %s: bool
}

func @calls_writes: (*f64) -> () {
'entry(%p: *f64):
    apply @writes(%p: *f64) -> ()
    return
}

func @calls_foreign: (f64) -> f64 {
'entry(%x: f64):
    %y = apply @foreign(%x: f64) -> f64
    return %y: f64
}

func @calls_value: ((f64) -> f64) -> f64 {
'entry(%f: (f64) -> f64):
    %y = apply %f(1: f64) -> f64
    return %y: f64
}
"""
EVERYTHING = SideEffects(True, True, True, True)
EXPECTED = {
    "sin": SideEffects(), "foreign": EVERYTHING, "pure": SideEffects(), "reads": SideEffects(reads=True),
    "writes": SideEffects(writes=True), "counts": SideEffects(writes=True), "pushes": SideEffects(writes=True),
    "checks": SideEffects(traps=True), "loops": SideEffects(loops=True), "even": SideEffects(loops=True),
    "odd": SideEffects(loops=True), "calls_writes": SideEffects(writes=True), "calls_foreign": EVERYTHING,
    "calls_value": EVERYTHING,
}  # fmt: skip


def test_side_effects():
    """Each by its definition, through calls and recursion."""
    found = side_effects(parse_module(PROGRAM))
    assert {n: e for n, e in found.items() if e != EXPECTED[n]} == {}
    assert set(found) == set(EXPECTED)


def test_a_call_that_is_left_out():
    """Dead calls go where their callees do nothing."""
    calls = [("pure", "f64", "1: f64"), ("checks", "i64", "1: i64"), ("even", "bool", "4: i64"), ("counts", "()", "")]
    body = "".join(f"    apply @{n}({a}) -> {r}\n" for n, r, a in calls)
    module = parse_module(f"{PROGRAM}\nfunc @main: () -> () {{\n'entry():\n{body}    return\n}}\n")
    assert [n for n, e in EXPECTED.items() if e.may_be_left_out] == ["sin", "pure", "reads"]
    dead_calls.run(module, "main")
    assert re.findall(r"apply @(\w+)", print_module(module).split("@main")[1]) == ["checks", "even", "counts"]


def test_extern_functions_are_no_pure_ones():
    """What is elsewhere may do anything."""
    module = parse_module(PROGRAM)
    assert isinstance(module.functions["foreign"].declaration, Extern)
    assert not side_effects(module)["foreign"].may_be_left_out
