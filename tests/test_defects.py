"""The defects of the original system that its reference lists, each as a test that it is not here.

One entry of the index, one test: hangs, aborts, wrong code, text that could not be read again, what was not checked,
words that were not known, the command line.
"""

import io
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

from dlvm_py.errors import ParseError, VerifierError
from dlvm_py.ir import OPS, print_module
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify
from dlvm_py.tools import dlopt
from dlvm_py.tools.common import run_tool
from dlvm_py.transforms import cfg_canonicalization, cfg_simplification, differentiate_module
from dlvm_py.transforms.pass_manager import PASSES

HEAD = 'module "m"\nstage raw\n\n'


def passes(text, *names):
    """The module after AD and passes of dlopt, verified after each; and what they said."""
    module, said = parse_module(HEAD + text), []
    verify(module)
    runner = dlopt.Runner(module, said.append, verify_after=True, print_after=False)
    runner.differentiate()
    for name in names:
        (row,) = (p for p in PASSES.values() if p.abbreviation == name)
        said.append(f"{name}: {'changed' if runner.run(row) else 'unchanged'}")
        runner.after(name)
    return module, said


def body(module, name="f"):
    """The instructions of a function, one a line."""
    text = print_module(module).split(f"func @{name}: ")[1].split("\n}")[0]
    return [line.strip() for line in text.splitlines()[1:]]


def gradient(text, name, *args):
    """What a derivative gives at some arguments."""
    module, _ = passes(text)
    return run(module, name, [np.asarray(a, np.float64)[()] for a in args])


def wrong(text):
    """The complaint about a program."""
    with pytest.raises((ParseError, VerifierError)) as caught:
        verify(parse_module(HEAD + text))
    return str(caught.value)


def f(instructions, signature="(f64) -> f64", params="%x: f64", name="f"):
    """The text of one function."""
    lines = "\n    ".join(instructions.split("; "))
    return f"func @{name}: {signature} {{\n'0({params}):\n    {lines}\n}}\n"


# -- hangs -----------------------------------------------------------------------------------------------------

TRAPPING = f("trap; return %x: f64", name="g") + "\n" + f("%y = apply @g(%x: f64) -> f64; return %x: f64")


def test_effects_of_callers_and_callees_that_differ():
    """The fixpoint ends, and a call that may trap is no dead code."""
    module, said = passes(TRAPPING, "DCE", "CSE")
    assert said[1:] == ["DCE: unchanged", "CSE: unchanged"]


def test_deep_loops_are_brought_into_shape():
    """Loops nested five deep, without preheaders or single latches."""
    depth = 5
    text = "func @f: (bool) -> () {\n'entry(%c: bool):\n    branch 'h0()\n"
    for k in range(depth):
        inner = f"'h{k + 1}()" if k + 1 < depth else f"'b{k}()"
        text += f"'h{k}():\n    conditional %c: bool then {inner} else 'x{k}()\n"
        text += f"'b{k}():\n    conditional %c: bool then 'h{k}() else 'c{k}()\n'c{k}():\n    branch 'h{k}()\n"
        text += f"'x{k}():\n    " + (f"branch 'b{k - 1}()\n" if k else "return\n")
    module, said = passes(text + "}\n", "CFGCan", "CFGCan")
    assert said[1:] == ["CFGCan: changed", "CFGCan: unchanged"]


# -- aborts ----------------------------------------------------------------------------------------------------


def test_every_operation_has_an_adjoint_or_says_why_not():
    """No row is without one; the reason is a sentence for people."""
    for op in OPS.values():
        assert op.partials is not None or op.adjoint is not None or len(op.no_derivative) > 10


def test_an_argument_that_is_not_used():
    """Its derivative is 0."""
    text = (
        f("return %x: f64", "(f64, f64) -> f64", "%x: f64, %y: f64")
        + "\n[adjoint @f]\nfunc @g: (f64, f64) -> (f64, f64)\n"
    )
    assert gradient(text, "g", 2, 3) == (1, 0)


@pytest.mark.parametrize("name", ["LAF", "SP", "VP", "LICM", "RLE", "CF"])
def test_passes_that_were_stubs(name):
    """They run."""
    text = f(
        "%y = transpose %x: <2 x 2 x f64>; return %y: <2 x 2 x f64>",
        "(<2 x 2 x f64>) -> <2 x 2 x f64>",
        "%x: <2 x 2 x f64>",
    )
    assert passes(text, name)[1][1] == f"{name}: unchanged"


def test_mean():
    """It is a reduction, with a derivative."""
    t = "<4 x f64>"
    text = f(f'%y = builtin "mean"(%x: {t}) -> f64; return %y: f64', f"({t}) -> f64", f"%x: {t}")
    text += f"\n[adjoint @f]\nfunc @g: ({t}) -> ({t})\n"
    np.testing.assert_array_equal(gradient(text, "g", [1, 2, 3, 4])[0], [0.25] * 4)


SQUARE = "<2 x 2 x f64>"


@pytest.mark.parametrize(
    "instructions",
    [
        f"%a = dot %x: {SQUARE}, %x: {SQUARE}; %b = dot %a: {SQUARE}, %a: {SQUARE}; return %b: {SQUARE}",
        f"%a = dot %x: {SQUARE}, %x: {SQUARE}; return %x: {SQUARE}",
        f"%a = dot %x: {SQUARE}, %x: {SQUARE}; %b = add %a: {SQUARE}, %x: {SQUARE}; "
        f"%c = dot %b: {SQUARE}, %x: {SQUARE}; return %c: {SQUARE}",
    ],
    ids=["used twice", "unused", "through a sum"],
)
def test_chains_that_are_none(instructions):
    """MMR leaves what is used twice or not at all, and does not walk through other instructions."""
    text = f(instructions, f"({SQUARE}) -> {SQUARE}", f"%x: {SQUARE}")
    assert passes(text, "MMR")[1][1] == "MMR: unchanged"


def test_arguments_of_blocks_are_removed_with_what_is_passed():
    """Uses are rewritten in dominated blocks, too; the entry stays."""
    text = (
        "func @f: (f64) -> f64 {\n'entry(%x: f64):\n    branch 'a(%x: f64)\n'a(%y: f64):\n    %1.0 = exp %y: f64\n"
        "    branch 'b()\n'b():\n    %2.0 = add %1.0: f64, %y: f64\n    return %2.0: f64\n}\n"
    )
    module, _ = passes(text, "CFGSimp")
    assert body(module) == [
        "'entry(%x: f64):",
        "%0.0 = exp %x: f64",
        "%0.1 = add %0.0: f64, %x: f64",
        "return %0.1: f64",
    ]
    only = parse_module(HEAD + "func @f: () -> () {\n'a():\n    branch 'b()\n'b():\n    branch 'a()\n}\n")
    cfg_simplification.run(only.functions["f"])
    verify(only)
    assert only.functions["f"].blocks


def test_canonical_form_of_functions_without_result_or_exit():
    """No argument is invented for a void function; one that never returns is left alone."""
    void = (
        "func @f: (bool) -> () {\n'entry(%c: bool):\n    conditional %c: bool then 'a() else 'b()\n"
        "'a():\n    return\n'b():\n    return\n}\n"
    )
    module, _ = passes(void, "CFGCan")
    assert body(module)[-2:] == ["'exit():", "return"]
    endless = parse_module(HEAD + "func @f: () -> () {\n'a():\n    branch 'b()\n'b():\n    branch 'b()\n}\n")
    cfg_canonicalization.run(endless.functions["f"])
    verify(endless)


@pytest.mark.parametrize(
    "text",
    [
        "func @f: () -> () {\n'0():\n    %0.0 = exp 1: f64\n}\n",
        "func @f: () -> () {\n'0():\n}\n",
        "func @f: () -> () {\n}\n",
    ],
)
def test_missing_terminators(text):
    """They are reported."""
    assert "terminator" in wrong(text) or "block" in wrong(text)


# -- wrong code ------------------------------------------------------------------------------------------------

BINARY = "(f64, f64) -> f64", "%x: f64, %y: f64"


@pytest.mark.parametrize(("op", "wanted"), [("divide", -2 / 9 * 5), ("power", 5 * 8 * np.log(2))])
def test_the_second_operand(op, wanted):
    """The seed is a factor of its derivative, and that of a power is not that of a quotient."""
    text = f(f"%z = {op} %x: f64, %y: f64; return %z: f64", *BINARY)
    text += "\n[adjoint @f wrt 1 seedable]\nfunc @g: (f64, f64, f64) -> (f64)\n"
    np.testing.assert_allclose(gradient(text, "g", 2, 3, 5)[0], wanted)


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide", "power", "max", "min"])
def test_axes_of_extent_1_are_summed(op):
    """What was stretched is summed: <1 x 3> against <4 x 3>, in every binary op."""
    small, large = "<1 x 3 x f64>", "<4 x 3 x f64>"
    text = f(
        f"%z = {op} %x: {small}, %y: {large}; return %z: {large}",
        f"({small}, {large}) -> {large}",
        f"%x: {small}, %y: {large}",
    )
    text += f"\n[adjoint @f wrt 0]\nfunc @g: ({small}, {large}) -> ({small})\n"
    x, y = np.full((1, 3), 2.0), np.full((4, 3), 3.0)
    one = {"add": 1, "subtract": 1, "multiply": 3, "divide": 1 / 3, "power": 12, "max": 0, "min": 1}[op]
    np.testing.assert_allclose(gradient(text, "g", x, y)[0], np.full((1, 3), 4.0 * one))


@pytest.mark.parametrize(
    ("instructions", "result", "wanted"),
    [
        ("%y = extract 1 from %x: <4 x f64>", "f64", [0, 1, 0, 0]),
        ("%y = slice %x: <4 x f64> from 1 upto 2", "<2 x f64>", [0, 1, 1, 0]),
        ("%y = shapeCast %x: <4 x f64> to 2 x 2", "<2 x 2 x f64>", [1, 1, 1, 1]),
        (
            "%a = extract 2 from %x: <4 x f64>; %y = literal <%a: f64, 1: f64, %a: f64>: <3 x f64>",
            "<3 x f64>",
            [0, 0, 2, 0],
        ),
        ("%y = bitCast %x: <4 x f64> to <4 x f64>", "<4 x f64>", [1, 1, 1, 1]),
    ],
)
def test_adjoints_of_arrangements(instructions, result, wanted):
    """They have the type of the operand, and put each seed in its place."""
    text = f(f"{instructions}; return %y: {result}", f"(<4 x f64>) -> {result}", "%x: <4 x f64>")
    text += "\n[adjoint @f]\nfunc @g: (<4 x f64>) -> (<4 x f64>)\n"
    np.testing.assert_array_equal(gradient(text, "g", [1, 2, 3, 4])[0], wanted)


def test_zeros_have_the_type_of_the_operand():
    """A derivative that is 0 has the shape of its argument, not of the result."""
    t = "<2 x 3 x f64>"
    text = f(
        f"%z = floor %x: {t}; %y = reduce %z: {t} by add init 0: f64 along 0, 1; return %y: f64",
        f"({t}) -> f64",
        f"%x: {t}",
    )
    text += f"\n[adjoint @f]\nfunc @g: ({t}) -> ({t})\n"
    assert gradient(text, "g", np.ones((2, 3)))[0].shape == (2, 3)


def test_a_recursive_primal_calls_itself():
    """Not its derivative: x^3 by recursion."""
    text = (
        "func @f: (f64, i64) -> f64 {\n'0(%x: f64, %n: i64):\n    %c = equal %n: i64, 0: i64\n"
        "    conditional %c: bool then 'a() else 'b()\n'a():\n    return 1.0: f64\n"
        "'b():\n    %m = subtract %n: i64, 1: i64\n"
        "    %y = apply @f(%x: f64, %m: i64) -> f64\n    %z = multiply %x: f64, %y: f64\n    return %z: f64\n}\n"
        "\n[adjoint @f wrt 0 keeping 0]\nfunc @g: (f64, i64) -> (f64, f64)\n"
    )
    module, _ = passes(text)
    assert run(module, "g", [np.float64(2), np.int64(3)]) == (12, 8)


def test_elements_of_tuples_are_kept():
    """keeping names elements of the tuple, in its order."""
    text = f(
        "%a = square %x: f64; %b = exp %x: f64; %t = literal (%a: f64, %b: f64, 7.0: f64): (f64, f64, f64); "
        "return %t: (f64, f64, f64)",
        "(f64) -> (f64, f64, f64)",
    )
    text += "\n[adjoint @f from 0 keeping 2, 1]\nfunc @g: (f64) -> (f64, f64, f64)\n"
    text += "\n[adjoint @f from 2]\nfunc @h: (f64) -> (f64)\n"
    np.testing.assert_allclose(gradient(text, "g", 3), (6, 7, np.exp(3)))
    assert gradient(text, "h", 3) == (0,)  # an element that is a number


def test_simplification_keeps_shapes():
    """A scalar plus an array of zeros is an array; the cosine of one too."""
    t = "<3 x f64>"
    text = f(f"%z = literal 0: {t}; %y = add %x: f64, %z: {t}; return %y: {t}", f"(f64) -> {t}")
    text += "\n" + f(f"%z = literal 0: {t}; %y = cos %z: {t}; return %y: {t}", f"() -> {t}", "", name="g")
    module, _ = passes(text, "AS")
    np.testing.assert_array_equal(run(module, "f", [np.float64(2)]), [2, 2, 2])
    np.testing.assert_array_equal(run(module, "g", []), [1, 1, 1])


def test_live_code_of_stacks_boxes_and_stores():
    """DCE keeps what a store writes to, what a stack holds, and what counts references."""
    text = (
        f("store %x: f64 to %p: *f64; return", "(f64, *f64) -> ()", "%x: f64, %p: *f64")
        + "\n"
        + f(
            "%s = createStack f64; push %x: f64 to %s: stack{f64}; %y = pop f64 from %s: stack{f64}; "
            "destroyStack %s: stack{f64}; return %y: f64",
            name="g",
        )
        + "\n"
        + f(
            "%q = elementPointer %p: *<2 x f64> at 1; store 1.0: f64 to %q: *f64; return",
            "(*<2 x f64>) -> ()",
            "%p: *<2 x f64>",
            name="h",
        )
    )
    assert passes(text, "DCE")[1][1] == "DCE: unchanged"


@pytest.mark.parametrize(
    "instruction",
    [
        "random 2 from 0.0: f64 upto 1.0: f64",
        "allocateHeap f64 count (2: i64)",
        "createStack f64",
        "apply @g(1.0: f64) -> f64",
    ],
)
def test_what_is_done_twice_is_not_one(instruction):
    """CSE leaves equal instructions that have an effect."""
    text = (
        f("trap; return %x: f64", name="g")
        + "\n"
        + f(f"%a = {instruction}; %b = {instruction}; return", "() -> ()", "")
    )
    assert passes(text, "CSE")[1][1] == "CSE: unchanged"


def test_equal_counts_of_different_sorts():
    """rank and unitCount of one value are not one."""
    t = "<3 x f64>"
    text = f(
        f"%a = rank of %x: {t}; %b = unitCount of %x: {t}; %c = add %a: i64, %b: i64; return %c: i64",
        f"({t}) -> i64",
        f"%x: {t}",
    )
    module, said = passes(text, "CSE")
    assert said[1] == "CSE: unchanged" and run(module, "f", [np.ones(3)]) == 4


# -- text that was not readable --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "func @f: (bool) -> () {\n'0(%0^0: bool):\n    conditional %0^0: bool then '1(%0^0: bool) else '2()\n"
        "'1(%1^0: bool):\n    return\n'2():\n    return\n}\n",
        f("%b = allocateBox f64; %p = projectBox %b: box{f64}; store %x: f64 to %p: *f64; return %x: f64"),
        f("%y = add %x: f64, 1e-30: f64; %z = multiply %y: f64, 1.5e+300: f64; return %z: f64"),
        f("%t = literal (undefined: f64, %x: f64): (f64, f64); %y = extract 1 from %t: (f64, f64); return %y: f64"),
        f("%n = rank of %x: <3 x f64>; %s = shape of %x: <3 x f64>; %u = unitCount of %x: <3 x f64>; return",
          "(<3 x f64>) -> ()", "%x: <3 x f64>"),
        "enum $E {\n    ?a($S)\n}\n\nstruct $S {\n    #t: $A\n}\n\ntype $A = <2 x f64>\n\nvar @v: $E\n",
        "struct $S {\n    #a: f64\n}\n\n"
        "func @f: (bool) -> () {\n'0(%c: bool):\n    %s = literal {#a = 1.0: f64}: $S\n    branch 'next()\n"
        "'next():\n    return\n}\n",
    ],
    ids=["anonymous arguments", "boxes", "exponents", "undefined", "counts", "groups", "struct literals"],
)  # fmt: skip
def test_what_is_printed_can_be_read(text):
    """Canonical texts are what they are, and read back."""
    module = parse_module(HEAD + text)
    verify(module)
    assert print_module(module) == HEAD + text


def test_zero_and_null_in_literals():
    """Both may stand for operands."""
    text = f("%t = literal (zero: f64, null: *f64): (f64, *f64); %y = extract 0 from %t: (f64, *f64); return %y: f64")
    module = parse_module(HEAD + text)
    verify(module)
    printed = print_module(module)
    assert "null: *f64" in printed and print_module(parse_module(printed)) == printed
    assert run(module, "f", [np.float64(1)]) == 0


# -- what was not checked ----------------------------------------------------------------------------------------


def test_what_a_branch_passes_is_checked_on_both_sides():
    """The then side too."""
    for targets in ("'a(1: i32) else 'b()", "'b() else 'a(1: i32)"):
        text = (
            f"func @f: (bool) -> () {{\n'0(%c: bool):\n    conditional %c: bool then {targets}\n"
            "'a(%x: f32):\n    return\n'b():\n    return\n}\n"
        )
        assert "is passed (i32)" in wrong(text)


def test_how_much_a_case_holds():
    """A case is given as many values as it holds."""
    for held in ("", "1.0: f64, 2.0: f64", "1: i64"):
        assert "?a" in wrong(
            "enum $E {\n    ?a(f64)\n}\n\n" + f(f"%e = literal ?a({held}): $E; return", "() -> ()", "")
        )


@pytest.mark.parametrize("op", ["log", "sin", "sqrt", "tanh", "erf", "negate", "square"])
def test_booleans_have_no_logarithm(op):
    """Unary operations ask for numbers, transcendental ones for floats."""
    assert "bool" in wrong(f(f"%y = {op} %x: bool; return", "(bool) -> ()", "%x: bool"))
    if op not in ("negate", "square"):
        assert "i32" in wrong(f(f"%y = {op} %x: i32; return", "(i32) -> ()", "%x: i32"))


@pytest.mark.parametrize(
    ("bounds", "sound"), [("0 upto 3", True), ("1 upto 1", True), ("0 upto 4", False), ("2 upto 1", False)]
)
def test_the_range_of_a_slice(bounds, sound):
    """0 ≤ lo ≤ hi < extent, hi included."""
    text = f(f"%y = slice %x: <4 x f64> from {bounds}; return", "(<4 x f64>) -> ()", "%x: <4 x f64>")
    if sound:
        verify(parse_module(HEAD + text))
    else:
        assert "slice" in wrong(text)


def test_the_size_of_a_cast_of_bits():
    """As many bits on both sides."""
    verify(
        parse_module(HEAD + f("%y = bitCast %x: <2 x f64> to <2 x i64>; return", "(<2 x f64>) -> ()", "%x: <2 x f64>"))
    )
    assert "bitCast" in wrong(
        f("%y = bitCast %x: <2 x f64> to <3 x f64>; return", "(<2 x f64>) -> ()", "%x: <2 x f64>")
    )


# -- the command line ----------------------------------------------------------------------------------------------


def test_the_command_line(tmp_path):
    """-o writes without being told; a pass named twice runs twice; the misspelt name is known, and the right one."""
    path, out = tmp_path / "m.dl", tmp_path / "out.dl"
    path.write_text(HEAD + f("%y = exp %x: f64; return %x: f64"))
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(io.StringIO()):
        assert (
            run_tool(
                dlopt.main, [str(path), "-p", "DCE", "CFGSimpliciation", "CFGSimplification", "DCE", "-o", str(out)]
            )
            == 0
        )
    assert said.getvalue().splitlines()[2:] == [
        "DCE: changed",
        "CFGSimp: unchanged",
        "CFGSimp: unchanged",
        "DCE: unchanged",
    ]
    assert "exp" not in out.read_text()
    assert "exp" in path.read_text()


def test_only_literals_that_fill_are_inlined():
    """LBP leaves arrays of different elements, and says unchanged of what it does not touch."""
    t = "<2 x f64>"
    text = f(
        f"%l = literal <1.0: f64, 2.0: f64>: {t}; %y = multiply %l: {t}, %x: f64; "
        f"%z = add %y: {t}, 1.0: f64; return %z: {t}",
        f"(f64) -> {t}",
    )
    text += "\n" + f(f"%l = literal 1: {t}; %y = add %l: {t}, %l: {t}; return %y: {t}", f"() -> {t}", "", name="g")
    module, said = passes(text, "LBP", "LBP")
    assert "%y = multiply %l: <2 x f64>, %x: f64" in body(module)
    assert said[2] == "LBP: unchanged"
    np.testing.assert_array_equal(run(module, "g", []), [2, 2])


def test_multiple_returns_have_one_table_each():
    """The derivative of what is returned where."""
    text = (
        "func @f: (f64) -> f64 {\n'0(%x: f64):\n    %c = lessThan %x: f64, 0.0: f64\n"
        "    conditional %c: bool then 'a() else 'b()\n'a():\n    %n = negate %x: f64\n    return %n: f64\n"
        "'b():\n    %s = square %x: f64\n    return %s: f64\n}\n\n[adjoint @f]\nfunc @g: (f64) -> (f64)\n"
    )
    module, _ = passes(text)
    assert (run(module, "g", [np.float64(-2)]), run(module, "g", [np.float64(3)])) == ((-1,), (6,))
    assert differentiate_module.run(module) is False
