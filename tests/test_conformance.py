"""DLVM's text and tool, point by point, where a file of tests/dl/conformance cannot say it.

Tokens, types that stand alone, operands that parse though their types are wrong, printing, analyses of control flow,
passes that find nothing the second time, and what dlopt prints where.
"""

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from dlvm_py.errors import ParseError, VerifierError
from dlvm_py.ir import print_module
from dlvm_py.ir.analysis import LoopForest
from dlvm_py.ir.lexer import Source
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify
from dlvm_py.tools import dlopt
from dlvm_py.tools.common import run_tool

HEAD = 'module "m"\nstage raw\n\n'


def tokens(text):
    """Kinds and texts of the tokens of a text, without the end."""
    return [(t.kind, t.text) for t in Source(text, "t.dl").tokens()][:-1]


def spelled(type):
    """How a type prints that is written in a variable."""
    module = parse_module(f"{HEAD}var @v: {type}\n")
    verify(module)
    (line,) = (line for line in print_module(module).splitlines() if line.startswith("var"))
    return line.removeprefix("var @v: ")


def function(text, signature="() -> ()", params=""):
    """The text of a module with one function of these instructions."""
    return f"{HEAD}func @f: {signature} {{\n'entry({params}):\n    {text}\n}}\n"


def tool(*words):
    """Exit status, standard output and standard error of dlopt."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run_tool(dlopt.main, [str(w) for w in words])
    return status, out.getvalue(), err.getvalue()


# -- tokens ------------------------------------------------------------------------------------------------


def test_a_dotted_name_a_comment_and_two_lines():
    """The comment is no token; each end of a line is one."""
    text = "func @net.layer1.grad: // a comment: (f32)\n\n"
    newline = ("newline", "\n")
    assert tokens(text) == [("word", "func"), ("global", "@net.layer1.grad"), (":", ":"), newline, newline]


def test_carriage_returns_are_lines():
    """\\r\\n is two tokens, as \\n\\n is."""
    assert [k for k, _ in tokens("module\r\nstage\r")] == ["word", "newline", "newline", "word", "newline"]


@pytest.mark.parametrize(
    "text, kinds",
    [
        ("%0.1 %0^1 %x @0 @f.g 'b '3", ["local", "local", "local", "global", "global", "block", "block"]),
        ("$T #x ?c !inline", ["nominal", "key", "case", "attribute"]),
        ("-5 5 -1.5 1e+22 2.5e-3", ["int", "int", "float", "float", "float"]),
        ("(,)->[:]{=}<*>", list("(,)") + ["->"] + list("[:]{=}<*>")),
        ("2 x 3x", None),
        ("f32//c", ["word"]),
        ("1.", None),
        (".5", None),
        ("x784", ["word"]),
        ("1 x784", ["int", "word"]),
        ("%x^y", None),
        ("@a/b", None),
        ("`", None),
    ],
)
def test_tokens(text, kinds):
    """What is a token and what is not."""
    if kinds is None:
        with pytest.raises(ParseError):
            tokens(text)
    else:
        assert [k for k, _ in tokens(text)] == kinds


@pytest.mark.parametrize("word", ["rank", "shape", "unitCount"])
def test_counts_are_read(word):
    """These three the original prints and cannot read."""
    result = "<2 x i64>" if word == "shape" else "i64"
    text = function(
        f"%n = {word} of %x: <2 x 3 x f32>\n    return %n: {result}",
        f"(<2 x 3 x f32>) -> {result}",
        "%x: <2 x 3 x f32>",
    )
    module = parse_module(text)
    verify(module)
    assert print_module(module) == text


@pytest.mark.parametrize("text", [r'"a\"b\\c\n\t\r"', '"plain"'])
def test_strings(text):
    """The escapes of a string come back as they were."""
    module = parse_module(f"module {text}\nstage raw\n")
    assert print_module(module).splitlines()[0] == f"module {text}"
    assert module.name == text[1:-1].replace(r"\"", '"').replace(r"\n", "\n").replace(r"\t", "\t").replace(
        r"\r", "\r"
    ).replace(r"\\", "\\")


# -- types and operands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type",
    [
        "f32", "[1 x f32]", "*<4 x 3 x 10 x i64>", "[1 x <4 x 3 x i8>]", "(i8, <4 x 3 x bool>)", "box{f32}",
        "[4 x [3 x <3 x i32>]]", "(f32)", "*f32", "[2 x (f32, i64)]", "box{<2 x f32>}", "*[2 x f32]",
    ],
)  # fmt: skip
def test_types_that_stand_alone(type):
    """Each parses, and prints as it is written."""
    assert spelled(type) == type


@pytest.mark.parametrize("type", ["<0 x f32>", "<2 x f33>", "<f32>", "<2 x x f32>", "[x f32]", "(f32", "*"])
def test_types_that_are_none(type):
    """What is no type is an error at its place."""
    if type == "<0 x f32>":
        assert spelled(type) == type  # arrays without elements are NumPy's, though not DLVM's
        return
    with pytest.raises(ParseError):
        spelled(type)


@pytest.mark.parametrize(
    "use",
    [
        "1 : [1 x f32]",
        "100.0 : (i8, <4 x 3 x bool>)",
        "{#a = 1: i32}: f32",
        "1 : // the type is on the next line\n    [1 x f32]",
    ],
)
def test_operands_of_the_wrong_type(use):
    """The grammar has no fault; the type is what is complained of."""
    with pytest.raises((ParseError, VerifierError)) as caught:
        verify(parse_module(function(f"%x = literal {use}\n    return")))
    said = str(caught.value)
    assert "literal" in said and "expected" not in said, said


def test_a_type_on_the_next_line():
    """After the colon of a type, with a comment between."""
    text = function("%y = negate %x : // of x\n\n   f32\n    return", "(f32) -> ()", "%x: f32")
    assert "%y = negate %x: f32" in print_module(parse_module(text))


def test_a_struct_literal_with_undefined():
    """Operands of a literal may be literals of any type."""
    text = (
        HEAD
        + "struct $Box {\n    #foo: i32\n    #bar: [2 x f32]\n}\n\n"
        + "func @f: () -> () {\n'entry():\n"
        + "    %0.0 = literal {#foo = 1: i32, #bar = undefined: [2 x f32]}: $Box\n    return\n}\n"
    )
    module = parse_module(text)
    verify(module)
    assert print_module(module) == text


def test_what_is_printed_of_the_smallest():
    """A variable, a function without result, `return` alone; one line between declarations, one at the end."""
    text = HEAD + "var @one: i32\n\nfunc @f: () -> () {\n'0():\n    return\n}\n"
    assert print_module(parse_module(text)) == text


def test_the_order_of_groups():
    """Enums, structs, aliases, variables, functions, whatever the order of the text; a signature is without aliases."""
    shuffled = (
        HEAD
        + "type $R = <2 x f32>\n\nstruct $S {\n    #e: $E\n    #r: $R\n}\n\nenum $E {\n    ?a($R)\n    ?b()\n}\n\n"
        + "func @f: ($R) -> $R {\n'0(%x: $R):\n    return %x: $R\n}\n\nvar @v: $S\n"
    )
    printed = print_module(parse_module(shuffled))
    order = [printed.index(word) for word in ("enum $E", "struct $S", "type $R", "var @v", "func @f")]
    assert order == sorted(order)
    assert "func @f: (<2 x f32>) -> <2 x f32> {" in printed
    assert print_module(parse_module(printed)) == printed


# -- names and positions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, code",
    [
        (function("%0.1 = negate %x: f32\n    return", "(f32) -> ()", "%x: f32"), "DL114"),
        (function("%x = negate %x: f32\n    return", "(f32) -> ()", "%x: f32"), "DL113"),
        (function("%y = negate %z: f32\n    return"), "DL112"),
        (function("%y = return"), "DL111"),
        (function("%0.0 = return"), "DL111"),
        (function("branch '1()"), "DL112"),
        (HEAD + "func @1: () -> () {\n'0():\n    return\n}\n", "DL114"),
        (HEAD + "func @f: () -> () {\n'1():\n    return\n}\n", "DL114"),
        (HEAD + "var @1: f32\n", "DL114"),
        (HEAD + "func @f: () -> ()\n", "DL111"),
        (HEAD + "[extern]\nfunc @f: () -> () {\n'0():\n    return\n}\n", "DL111"),
        (HEAD + "[extern] func @f: () -> ()\n", "DL111"),
        (HEAD + "[extern]\n!inline\nfunc @f: () -> ()\n", "DL111"),
        (HEAD + "!fast\nfunc @f: () -> ()\n", "DL111"),
        (HEAD + "[adjoint @g]\nfunc @f: (f32) -> (f32)\n", "DL112"),
    ],
)
def test_faults_of_names(text, code):
    """Positions must be true, names new, uses defined, results there; a function has a body or a declaration."""
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert caught.value.code == code


def test_a_named_thing_is_not_referred_to_by_its_position():
    """%0.0 is undefined where instruction 0 has a name."""
    with pytest.raises(ParseError, match="%0.0"):
        parse_module(function("%y = negate %x: f32\n    return %0.0: f32", "(f32) -> f32", "%x: f32"))


def test_void_instructions_count():
    """A store has a number that nobody can say."""
    text = function(
        "store %x: f32 to %p: *f32\n    %0.1 = negate %x: f32\n    return", "(f32, *f32) -> ()", "%x: f32, %p: *f32"
    )
    assert print_module(parse_module(text)) == text


def test_a_left_hand_side_may_be_left_out():
    """It is then printed with its position."""
    text = function("negate %x: f32\n    return %0.0: f32", "(f32) -> f32", "%x: f32")
    assert "    %0.0 = negate %x: f32\n" in print_module(parse_module(text))


@pytest.mark.parametrize("name, sound", [("my module", True), ("1st", False), ("", False), ("_x", True), ("é", True)])
def test_names_of_modules(name, sound):
    """They begin as an identifier does."""
    module = parse_module(f'module "{name}"\nstage raw\n')
    if sound:
        verify(module)
    else:
        with pytest.raises(VerifierError):
            verify(module)


# -- loops -------------------------------------------------------------------------------------------------


def loops(text):
    """The loops of the one function of a text, outer ones first: header, blocks, header of the parent."""
    (f,) = parse_module(text).functions.values()
    found = sorted(LoopForest(f).loops, key=lambda loop: loop.depth)
    return [(x.header.name, {b.name for b in x.blocks}, x.parent and x.parent.header.name) for x in found]


def test_a_loop_to_the_entry():
    """Euclid's algorithm: the entry is the header."""
    text = HEAD + (
        "func @gcd: (i64, i64) -> i64 {\n'entry(%a: i64, %b: i64):\n    %c = equal %b: i64, 0: i64\n"
        "    conditional %c: bool then 'then() else 'else()\n'then():\n    return %a: i64\n"
        "'else():\n    %r = modulo %a: i64, %b: i64\n    branch 'entry(%b: i64, %r: i64)\n}\n"
    )
    assert loops(text) == [("entry", {"entry", "else"}, None)]


def test_a_loop_in_a_loop():
    """The inner one is known to the outer one."""
    text = HEAD + (
        "func @f: (bool) -> () {\n'entry(%c: bool):\n    branch 'outer()\n"
        "'outer():\n    conditional %c: bool then 'inner() else 'end()\n"
        "'inner():\n    conditional %c: bool then 'inner_body() else 'outer_body()\n"
        "'inner_body():\n    branch 'inner()\n'outer_body():\n    branch 'outer()\n'end():\n    return\n}\n"
    )
    outer = {"outer", "inner", "inner_body", "outer_body"}
    assert loops(text) == [("outer", outer, None), ("inner", {"inner", "inner_body"}, "outer")]


# -- passes twice ------------------------------------------------------------------------------------------

MIXED = function(
    "%a = add %x: i32, 0: i32\n    %b = multiply %a: i32, %x: i32\n    %c = multiply %x: i32, %x: i32\n"
    "    %d = exp 1: f32\n    %e = add %b: i32, %c: i32\n    return %e: i32",
    "(i32) -> i32",
    "%x: i32",
)


@pytest.mark.parametrize("name", ["AS", "DCE", "CSE", "CFGSimp", "CFGCan", "LBP", "MMR"])
def test_a_second_run_finds_nothing(name, tmp_path):
    """Each pass says unchanged when it is named again; and both times it runs."""
    path = tmp_path / "m.dl"
    path.write_text(MIXED)
    status, out, _ = tool(path, "-p", name, name)
    assert status == 0
    said = [line for line in out.splitlines() if line.startswith(f"{name}: ")]
    assert said == [f"{name}: {'changed' if name in ('AS', 'DCE') else 'unchanged'}", f"{name}: unchanged"]


# -- the tool ----------------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program in the working directory, and its printed form."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.dl").write_text(MIXED)
    (tmp_path / "b.dl").write_text(MIXED)
    return tmp_path


PRINTED = MIXED.replace("stage raw", "stage optimizable")


def test_what_is_printed(program):
    """The file, each pass, an empty line, the module, an empty line; nothing on standard error."""
    expected = f"Source file: ./a.dl\nAD: unchanged\nLBP: unchanged\n\n{PRINTED}\n"
    assert tool("a.dl", "--passes", "LiteralBroadcastingPromotion", "--print-ir") == (0, expected, "")
    assert tool("a.dl", "-p", "LBP") == (0, expected, "")
    assert tool("a.dl", "--print-ir=true", "-p", "LBP") == (0, expected, "")
    assert tool("--print-ir", "a.dl", "--passes=LBP") == (0, expected, "")


def test_several_inputs(program):
    """One after the other, each with its own passes."""
    one = f"AD: unchanged\n\n{PRINTED}\n"
    assert tool("a.dl", "b.dl") == (0, f"Source file: ./a.dl\n{one}Source file: ./b.dl\n{one}", "")


def test_a_path_elsewhere_is_absolute(program, monkeypatch):
    """Relative below the working directory, absolute elsewhere."""
    (program / "sub").mkdir()
    monkeypatch.chdir(program / "sub")
    assert tool("../a.dl")[1].startswith(f"Source file: {program.resolve() / 'a.dl'}\n")


def test_outputs(program):
    """One for each input; without one the input is written over, where printing is turned off."""
    assert tool("a.dl", "b.dl", "-o", "x.dl", "y.dl", "--print-ir=false")[0] == 0
    assert (program / "x.dl").read_text() == (program / "y.dl").read_text() == PRINTED
    assert (program / "a.dl").read_text() == MIXED
    assert tool("a.dl", "--print-ir=false") == (0, "Source file: ./a.dl\nAD: unchanged\n", "")
    assert (program / "a.dl").read_text() == PRINTED


def test_differentiation_is_no_choice(program):
    """Asking for AD is noted and changes nothing."""
    status, out, err = tool("a.dl", "-p", "AD", "Differentiation", "CSE")
    assert status == 0 and out.count("AD:") == 1
    note = "note: 'AD' flag is redundant, differentiation pass is mandatory\n"
    assert err.startswith(note) and err.replace(note, "") == ""


@pytest.mark.parametrize(
    "words, message",
    [
        ((), "expected arguments: input files"),
        (("nowhere.dl",), "invalid input path: nowhere.dl"),
        (("a.dl", "-o", "x", "y"), "number of inputs and outputs do not match"),
        (("a.dl", "--x"), "unknown option --x; use --help to list available options"),
        (("a.dl", "-p", "X"), "unknown value 'X' for argument --passes; use --help to print usage"),
        (("a.dl", "--passes"), "option --passes requires a value; use --help to print usage"),
        (("a.dl", "--print-ir=maybe"), "unknown value 'maybe' for argument --print-ir; use --help to print usage"),
    ],
)
def test_errors_of_the_command_line(program, words, message):
    """One line on standard error, and status 1."""
    status, out, err = tool(*words)
    assert (status, err.splitlines()[0]) == (1, f"error: {message}")


@pytest.mark.parametrize("flag", ["--help", "-h", "-help"])
def test_help(flag, program):
    """The usage, on standard output."""
    status, out, err = tool(flag)
    assert status == 0 and err == ""
    assert "DLVM IR optimizer" in out and "<inputs> [options]" in out


def test_the_first_error_stops(program):
    """The files before it are done."""
    (program / "bad.dl").write_text("module")
    status, out, err = tool("a.dl", "bad.dl", "b.dl")
    assert status == 1
    assert out == f"Source file: ./a.dl\nAD: unchanged\n\n{PRINTED}\nSource file: ./bad.dl\n"
    assert err.startswith("error: ")


def test_order_of_options(program):
    """Passes may be asked for in parts; inputs come first."""
    out = tool("a.dl", "--print-ir", "-p", "DCE", "-p", "CSE")[1]
    assert [line.split(":")[0] for line in out.splitlines()[:4]] == ["Source file", "AD", "DCE", "CSE"]
