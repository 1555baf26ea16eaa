"""Programs of aggregates: every pass keeps what they compute; memory that is handed in is written; variables last."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from random_aggregates import program

from dlvm_py.ir import print_module
from dlvm_py.ir.evaluate import Pointer
from dlvm_py.ir.interpreter import run as interpret
from dlvm_py.ir.objects import Cell, Reference, fresh, leaf_values
from dlvm_py.ir.objects import given as arg
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify
from dlvm_py.tools.dlopt import Runner
from dlvm_py.tools.native import callable_of, scheduled
from dlvm_py.transforms import differentiate_module
from dlvm_py.transforms.pass_manager import PASSES

pytestmark = pytest.mark.usefixtures("plain_code")

FOLDER = Path(__file__).parent / "dl"
PROGRAMS = [
    FOLDER / "run" / f"{name}.dl"
    for name in ("enums", "structs", "trees", "memory", "variables", "untyped_stack", "trap_and_bits")
] + [
    pytest.param(FOLDER / "adjoint" / "tree_regressor.dl", marks=pytest.mark.slow, id="tree_regressor"),
    FOLDER / "adjoint" / "structs.dl",
]
LATER = ("bufferize", "ownership")
EVAL = re.compile(r"// EVAL: @([\w.]+)\((.*)\) (==|raises) (.*)")


def given(value, t):
    """An argument of an EVAL line."""
    if hasattr(t, "pointee"):
        return Reference(value)
    return np.array(value, t.dtype.numpy) if getattr(t, "shape", ()) else value


def outcome(module, name, arguments):
    """The text of what a function gives, or raises."""
    values = ast.literal_eval(f"({arguments},)") if arguments else ()
    args = [given(v, t) for v, t in zip(values, module.functions[name].type.params, strict=True)]
    try:
        return repr(interpret(module, name, args)), repr(args)
    except (ValueError, TypeError, IndexError, RuntimeError) as e:
        return type(e).__name__, repr(args)


def differentiated(text):
    """A program as it is written, with the bodies of its derivatives, and what runs passes on it."""
    runner = Runner(parse_module(text), lambda line: None, verify_after=True, print_after=False)
    runner.differentiate()
    return runner


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_every_pass_keeps_the_meaning(path):
    """Each pass that changes a program alone, and then all of them in a row, on programs as they are written."""
    text = path.read_text(encoding="utf-8")
    before = parse_module(text)
    differentiate_module.run(before)
    cases = EVAL.findall(text)
    wanted = [outcome(before, name, arguments) for name, arguments, _, _ in cases]
    names = [name for name in PASSES if name not in LATER]
    runner = differentiated(text)
    written = print_module(runner.module)
    for chosen in (*([name] for name in names), names):
        for name in chosen:
            if runner.run(PASSES[name]):
                runner.after(name)
        found = print_module(runner.module)
        if found == written:
            continue
        verify(runner.module)
        assert [outcome(runner.module, name, arguments) for name, arguments, _, _ in cases] == wanted, chosen
        assert print_module(parse_module(found)) == found
        runner = differentiated(text)


def test_memory_is_handed_in():
    """A pointer to a struct is a Reference, which has afterwards what the function left, in both executors."""
    module = parse_module((FOLDER / "run" / "memory.dl").read_text(encoding="utf-8"))
    for execute in (lambda *a: interpret(module, "update", a), callable_of(module, "update")):
        memory = Reference({"x": 1.0, "points": [(1, 2.0), {"k": 3, "w": 4.0}]})
        assert execute(memory, 1) is None
        assert memory.value == (1.0, ((1, 2.0), (9, 4.0)))


def test_variables_last_as_long_as_the_callable():
    """What a call leaves in a variable the next one finds, enums too; each callable has variables of its own."""
    text = """
module "m"
stage raw

enum $List {
    ?end()
    ?cons(f64, <2 x f64>, $List)
}

var @n: i64
var @list: $List

func @next: (f64) -> $List {
'entry(%x: f64):
    %n = load @n: *i64
    %first = equal %n: i64, 0: i64
    %more = add %n: i64, 1: i64
    store %more: i64 to @n: *i64
    conditional %first: bool then 'new() else 'old()
'new():
    %end = literal ?end(): $List
    branch 'on(%end: $List)
'old():
    %before = load @list: *$List
    branch 'on(%before: $List)
'on(%rest: $List):
    %v = literal <%x: f64, 1: f64>: <2 x f64>
    %l = literal ?cons(%x: f64, %v: <2 x f64>, %rest: $List): $List
    store %l: $List to @list: *$List
    return %l: $List
}
"""
    module = parse_module(text)
    verify(module)
    f = callable_of(module, "next")
    for k in range(80):
        found = f(float(k))
    for k in reversed(range(80)):
        case, (x, v, found) = found
        assert case == "cons" and x == k and v.tolist() == [k, 1.0]
    assert found == ("end", ())
    assert callable_of(module, "next")(2.0)[1][2] == ("end", ())


ARGUMENTS = (
    (0.25, 3, np.array([1.0, -2.0])),
    ("pair", (("some", (1.5, (2.0, -1, np.array([0.0, 4.0])))), ("none", ()))),
    -0.75,
    2,
)


def flat(value):
    """The numbers of a value, and the names of cases."""
    if isinstance(value, tuple):
        return [x for v in value for x in flat(v)]
    return [value] if isinstance(value, str) else np.ravel(value).tolist()


@pytest.mark.parametrize("base", range(0, 24, 3))
def test_random_programs(base):
    """Random programs give the same in the interpreter, as they are and after all passes, and in native code."""
    for seed in range(base, base + 3):
        text = program(seed)
        module = parse_module(text)
        verify(module)
        wanted = flat(interpret(module, "f", ARGUMENTS))
        assert flat(callable_of(module, "f")(*ARGUMENTS)) == wanted, seed
        runner = Runner(module, lambda line: None, verify_after=True, print_after=False)
        for name in PASSES:
            if name not in LATER and runner.run(PASSES[name]):
                runner.after(name)
        verify(module)
        assert flat(interpret(module, "f", ARGUMENTS)) == wanted, seed


@pytest.mark.parametrize("seed", range(40, 48))
def test_random_programs_scheduled(seed):
    """At the last stage the interpreter gives the same leaves, and every reference is given back or held by a cell."""
    module = parse_module(program(seed))
    wanted = interpret(module, "f", ARGUMENTS)
    lowered = scheduled(module, ["f"])
    verify(lowered)
    function = lowered.functions["f"]
    types = module.functions["f"].type
    args = [x for a, t in zip(ARGUMENTS, types.params, strict=True) for x in leaf_values(arg(a, t, "argument"), t)]
    args += [fresh(p.type.pointee, zero=True) for p in function.params[len(args) :]]
    found = interpret(lowered, "f", args, check_ownership=True, trees_at_root=True)
    for x, y in zip(found, leaf_values(arg(wanted, types.result, "result"), types.result), strict=True):
        assert flat(seen(x)) == flat(seen(y)), seed


def seen(leaf):
    """A leaf as nested tuples: a cell is its tag and its items."""
    if isinstance(leaf, Cell):
        return (leaf.tag, *map(seen, leaf.items))
    return leaf.view if isinstance(leaf, Pointer) else leaf


@pytest.mark.slow
@pytest.mark.parametrize("base", range(100, 400, 20))
def test_many_random_programs(base):
    """More of them, without the passes."""
    for seed in range(base, base + 20):
        module = parse_module(program(seed))
        assert flat(callable_of(module, "f")(*ARGUMENTS)) == flat(interpret(module, "f", ARGUMENTS)), seed
