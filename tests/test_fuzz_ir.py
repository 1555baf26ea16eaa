"""Spoiled and hostile programs of the IR (fuzz_ir.py), in processes of their own: a crash is a result, not the end.

Nothing but ParseError and VerifierError comes out of reading; what verifies runs alike in the interpreter and natively.
"""

from pathlib import Path

import pytest
from fuzz_ir import PIPELINES, read, time_limit, transform
from processes import run_python

from dlvm_py.errors import ParseError
from dlvm_py.ir.parser import parse_module

SCRIPT = Path(__file__).parent / "fuzz_ir.py"
HEAD = b'module "m"\nstage raw\n\n'


def fuzz(*words):
    """Run the script, whose last line says how many programs were sound."""
    return int(run_python(SCRIPT, *words, timeout=None).stdout.split(" texts, ")[1].split(" sound")[0])


def test_reading():
    """1,200 texts: about a fifth of them are still programs."""
    assert fuzz("read", 0, 1200) > 150


def test_running():
    """Passes, derivatives and native code of 60 texts, others with each file in tests/dl."""
    assert fuzz("run", 0, 60) > 5


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("start", range(0, 100_000, 25_000))
def test_reading_at_length(start):
    """100,000 texts."""
    assert fuzz("read", start, 25_000) > 2_500


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_running_at_length():
    """2,000 texts."""
    assert fuzz("run", 0, 2_000) > 250


# -- texts that are meant ill --------------------------------------------------------------------------------


def inside(body, params=b""):
    """A function with these instructions."""
    types = b", ".join(p.split(b": ", 1)[1] for p in params.split(b", ")) if params else b""
    return HEAD + b"func @f: (" + types + b") -> () {\n'0(" + params + b"):\n    " + body + b"\n    return\n}\n"


HUGE = {
    "splat": inside(b"%a = literal 1: <999999999999 x f32>"),
    "elements": inside(b"%a = literal <1: f32>: <999999999999 x f32>"),
    "rows": inside(b"%a = literal <1: f32>: <999999999 x 99999 x f32>"),
    "array": inside(b"%a = literal [1: f32]: [999999999999 x f32]"),
    "cast": inside(b"%a = shapeCast %x: <4 x f32> to 999999999999", b"%x: <4 x f32>"),
    "extract": inside(b"%a = extract 999999999999 from %x: <_ x f32>", b"%x: <_ x f32>"),
    "slice": inside(b"%a = slice %x: <_ x f32> from 0 upto 99999999999999", b"%x: <_ x f32>"),
    "random": inside(b"%a = random 999999999999 from 0: f32 upto 1: f32"),
    "power": inside(b"%a = power 7: i64, 9223372036854775807: i64 checked"),
    "shift": inside(b"%a = shiftLeft 1: i64, 999999999999: i64"),
    "window": inside(
        b"%a = reduceWindow %x: <4 x f32> by add init 0: f32 dims 999999999999 strides 1 padding full", b"%x: <4 x f32>"
    ),
    "padding": inside(
        b"%a = convolve %x: <1 x 1 x 4 x f32> kernel %x: <1 x 1 x 4 x f32> padding (999999999999, 999999999999)",
        b"%x: <1 x 1 x 4 x f32>",
    ),
    "concatenate": inside(
        b"%a = concatenate %x: <9223372036854775807 x f32>, %x: <9223372036854775807 x f32> along 0",
        b"%x: <9223372036854775807 x f32>",
    ),
    "digits": inside(b"%a = add 1: i64, " + b"1" * 100_000 + b": i64"),
    "pointers": HEAD + b"type $A = " + b"*" * 50_000 + b"f32\n",
    "rows of rows": inside(b"%a = literal " + b"<" * 3_000),
    "instructions": inside(b"\n    ".join(b"%%a%d = negate 1: f32" % i for i in range(300))),
    "blocks": HEAD
    + b"func @f: () -> () {\n"
    + b"".join(b"'b%d():\n    branch 'b%d()\n" % (i, i + 1) for i in range(300))
    + b"'b300():\n    return\n}\n",
    "alias of alias": HEAD + b"type $A0 = f32\n"
    + b"".join(b"type $A%d = [2 x $A%d]\n" % (i + 1, i) for i in range(3_000)),
    "alias to come": HEAD
    + b"".join(b"type $A%d = [2 x $A%d]\n" % (i, i + 1) for i in range(3_000)) + b"type $A3000 = f32\n",
    "doubling": HEAD + b"type $A0 = f32\n" + b"".join(b"type $A%d = ($A%d, $A%d)\n" % (i + 1, i, i) for i in range(40)),
    "doubling to come": HEAD
    + b"".join(b"type $A%d = ($A%d, $A%d)\n" % (i, i + 1, i + 1) for i in range(26))
    + b"type $A26 = f32\nvar @v: $A0\n",
    "alias of itself": HEAD + b"type $A = $B\ntype $B = $A\n",
    "struct of itself": HEAD + b"struct $S {\n    #a: $S\n}\n",
    "struct in itself": HEAD + b"struct $S {\n    #a: [1 x $T]\n}\nstruct $T {\n    #b: (f64, $S)\n}\nvar @v: $S\n",
    "doubling structs": HEAD
    + b"struct $S0 {\n    #a: f64\n}\n"
    + b"".join(b"struct $S%d {\n    #a: $S%d\n    #b: $S%d\n}\n" % (i + 1, i, i) for i in range(40))
    + b"var @v: $S40\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_huge_and_deep(name):
    """Astronomical numbers, nesting without end, aliases that double: refused, or sound, in no time and no memory."""
    with time_limit(60):
        if read(HUGE[name]) is not None:
            for names in PIPELINES:
                transform(HUGE[name], Chosen(names))


class Chosen:
    """A random number generator that always chooses the same."""

    def __init__(self, thing):
        self.thing = thing

    def choice(self, _):
        return self.thing


@pytest.mark.parametrize(
    "name", ["pointers", "rows of rows", "alias of alias", "alias to come", "doubling", "doubling structs"]
)
def test_depth_has_a_code(name):
    """What is nested too deep is said so."""
    with pytest.raises(ParseError) as caught:
        parse_module(HUGE[name])
    assert caught.value.code == "DL118"


@pytest.mark.parametrize("at", range(0, 60, 7))
@pytest.mark.parametrize("bytes", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"])
def test_bytes_that_are_not_utf_8(at, bytes):
    """Each is an error at its place."""
    text = HEAD + b"func @f: () -> () {\n'0():\n    return\n}\n"
    with pytest.raises(ParseError) as caught:
        parse_module(text[:at] + bytes + text[at:])
    assert caught.value.code == "DL110"
