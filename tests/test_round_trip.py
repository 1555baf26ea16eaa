"""parse(print(m)) is m: random modules of every sort of thing, the files of the manual, programs at every stage."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_modules import differences, random_module

from dlvm_py.ir import OPS, print_module
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify

FILES = sorted((Path(__file__).parent / "dl").rglob("*.dl"))


def check(module):
    """The text reads back to an equal module, and prints the same; without locations it loses only them."""
    text = print_module(module, locations=True)
    again = parse_module(text, "again.dl")
    assert differences(module, again) == []
    assert print_module(again, locations=True) == text
    bare = print_module(module)
    assert print_module(parse_module(bare)) == bare


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32))
@example(276909)  # had a tuple stored by rows and by tiles
def test_random_modules(seed):
    """Types, variables, declarations, names of any characters, literals to the bit, locations, all rows."""
    module = random_module(seed, 2, 15)
    verify(module)
    check(module)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 20_000, 5_000))
def test_more_random_modules(start):
    """20,000 of them."""
    for seed in range(start, start + 5_000):
        check(random_module(seed, 2, 12))


def test_the_random_modules_have_all_kinds_of_ops():
    """Nearly all: the others need operands that chance does not make; test_parser.test_every_op has them."""
    seen = Counter(
        i.op.name for seed in range(240) for f in random_module(seed).functions.values() for i in f.instructions()
    )
    assert len(seen) >= len(OPS) - 32
    assert all(seen[name] for name in ("store", "push", "aggregate", "select", "reduce"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_manual(file):
    """Each file of tests/dl that is a program."""
    text = file.read_text(encoding="utf-8")
    if "RUN: not dlopt %s" not in text:
        check(parse_module(text, str(file)))
