"""How a kernel runs, as it stands in the text: what says nothing that can be done is an error, the rest is done."""

import re

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.errors import ParseError
from dlvm_py.ir import print_module
from dlvm_py.ir.parser import parse_module

PROGRAM = """
module "marks"
stage {stage}

func @f: ({type}, {type}) -> () {{
'entry(%a: {type}, %p: {type}):
    %x = load %a: {type}
    store %x: {value} to %p: {type} {marks}
    return
}}
"""


def program(marks, value="<_ x _ x f64>", stage="compute"):
    return PROGRAM.format(type=f"*{value}", value=value, marks=marks, stage=stage)


@pytest.mark.parametrize(
    ("marks", "value", "message"),
    [
        ("shifts", "<_ x i64>", "shifts: rows of f32 and f64 are loaded once, not those of i64"),
        ("tile 64 along 0 shifts", "<_ x _ x f64>", "a kernel goes by tiles or by rows that are loaded once"),
        ("past 0", "<_ x f64>", "past 0: at least 1 bytes"),
        ("grain 0", "<_ x f64>", "grain 0: at least 1 tenths of nanoseconds"),
        ("past 1 ahead 5", "<_ x f64>", "ahead: what is fetched are rows that go together (jam)"),
        ("past 1 lines 2", "<_ x f64>", "lines: what goes by lines are rows that go together (jam)"),
        ("jam 2 along 0 from 1 past 1 lines 0", "<_ x _ x f64>", "lines 0: at least 1 rows"),
        ("jam 4 along 1 from 8", "<_ x _ x f64>", "jam along 1: of *<_ x _ x f64> that may be 0"),
        ("jam 1 along 0 from 8", "<_ x _ x f64>", "jam 1: at least 2 rows are stored at a time"),
        ("grain 5", "f64", "*f64 is one element: there is nothing to say of how it is stored"),
    ],
)
def test_what_cannot_be_done_is_an_error(marks, value, message):
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_module(program(marks, value), "marks.dl")


MARKS = ["past 64 grain 1", "jam 2 along 0 from 1 past 64 lines 3 ahead 0 grain 1", "tile 2 along 0 past 8"]


@pytest.mark.parametrize("marks", MARKS)
def test_marks_are_printed_and_read(marks):
    text = print_module(parse_module(program(marks), "marks.dl"))
    assert f"%p: *<_ x _ x f64> {marks}\n" in text and print_module(parse_module(text, "marks.dl")) == text


def stencil(a, b):
    b[1:-1, 1:-1] = a[1:-1, 1:-1] + a[2:, 1:-1] - a[:-2, 1:-1] * a[1:-1, 2:] + a[1:-1, :-2]


def test_the_stages_say_what_is_done():
    a = np.ones((4, 4))
    text = dlvm.jit(stencil).ir(a, a.copy(), stage="scheduled")
    assert "jam 4 along 0 from 768 shifts past 33554432 lines 2 ahead 393216 grain 1000000" in text
    alone = dlvm.jit(parallel=False)(stencil).ir(a, a.copy(), stage="scheduled")
    assert "shifts past 33554432 lines 2 ahead 393216" in alone and "grain" not in alone
