"""dlopt and dlc beyond tests/dl: standard input, files, installed commands, and that no input ends in a traceback."""

import io
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from irbuild import evaluate
from processes import run_python

from dlvm_py.ir import OPS, Kind
from dlvm_py.tools import dlc, dlopt
from dlvm_py.tools.common import run_tool
from dlvm_py.tools.explain import passes_page
from dlvm_py.tools.ops_page import arity, derivative, ops_page

ROOT = Path(__file__).parent.parent
PROGRAM = """module "m"
stage raw

func @f: (<2 x f64>) -> f64 {
'entry(%x: <2 x f64>):
    %y = dot %x: <2 x f64>, %x: <2 x f64>
    return %y: f64
}

[adjoint @f keeping 0]
func @g: (<2 x f64>) -> (<2 x f64>, f64)
"""


class Bytes(io.StringIO):
    """Standard input with the bytes beneath."""

    @property
    def buffer(self):
        return io.BytesIO(self.getvalue().encode())


@pytest.fixture
def program(tmp_path):
    """A program in a file."""
    path = tmp_path / "m.dl"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_passes_page_is_fresh():
    """docs/passes.md is what docs/build_passes.py writes."""
    assert (ROOT / "docs" / "passes.md").read_text(encoding="utf-8") == passes_page()


def test_ops_page_is_fresh():
    """docs/ops.md is what docs/build_ops.py writes: after a change of a row, or of docs/ir.md, run that."""
    page = ops_page((ROOT / "docs" / "ir.md").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "ops.md").read_text(encoding="utf-8") == page


# `and` and `not` of the rule of scaleSeed are no names in Python
FORMULAS = [op for op in OPS.values() if op.kind is Kind.ELEMENTWISE and op.partials and op.name != "scaleSeed"]


@pytest.mark.parametrize("op", FORMULAS, ids=lambda op: op.name)
def test_formulas_of_derivatives(op):
    """The formulas that docs/ops.md shows compute what the rules compute."""
    names = ["x"] if arity(op) == 1 else ["a", "b"]
    values = dict(zip(names, np.array([0.375, 0.75]), strict=False)) if op.name != "acosh" else {"x": np.float64(1.5)}
    values["y"] = op.evaluate(*values.values())
    scope = values | {o.name: o for o in OPS.values()} | {"f64": "f64"}

    # the rule on an IR program that the interpreter runs
    def rule(*operands):
        y = op(*operands)
        return [p if p is not None else 0.0 for p in op.partials(y, *operands)]

    wanted = evaluate(rule, *(values[n] for n in names))
    shown = dict(re.findall(r"∂/∂(\w): `([^`]*)`", derivative(op)))
    assert shown
    for name, w in zip(names, wanted, strict=True):
        found = eval(shown[name], {"__builtins__": {}}, scope) if name in shown else 0.0
        np.testing.assert_allclose(found, w, rtol=1e-5)


def test_standard_input(monkeypatch, capsys):
    """`-` is standard input."""
    monkeypatch.setattr(sys, "stdin", Bytes(PROGRAM))
    assert run_tool(dlopt.main, ["-"]) == 0
    out = capsys.readouterr().out
    assert out.startswith('Source file: <stdin>\nAD: changed\n\nmodule "m"\nstage optimizable\n')
    assert out.endswith("}\n\n")


def test_output_replaces_the_input(program, capsys):
    """Without -o and with --print-ir=false, the input file is written over; a second run changes nothing."""
    assert run_tool(dlopt.main, [str(program), "--print-ir=false", "-p", "DCE"]) == 0
    assert capsys.readouterr().out == f"Source file: {program}\nAD: changed\nDCE: unchanged\n"
    text = program.read_text(encoding="utf-8")
    assert "stage optimizable" in text and "[adjoint" not in text
    assert run_tool(dlopt.main, [str(program), "--print-ir=false"]) == 0
    assert program.read_text(encoding="utf-8") == text


def test_npy_arguments(program, tmp_path, capsys):
    """Arrays come from .npy files, and the first result goes to one."""
    np.save(tmp_path / "x.npy", np.array([3.0, 4.0]))
    words = ["run", str(program), "@g", str(tmp_path / "x.npy"), "--out", str(tmp_path / "y.npy")]
    assert run_tool(dlc.main, words) == 0
    assert capsys.readouterr().out == "<2 x f64>: [6., 8.]\nf64: 25.0\n"
    assert np.load(tmp_path / "y.npy").tolist() == [6, 8]
    np.save(tmp_path / "x.npy", np.array([3, 4]))
    assert run_tool(dlc.main, ["run", str(program), "@g", str(tmp_path / "x.npy")]) == 1
    assert "holds int64, and <2 x f64> is wanted" in capsys.readouterr().err


def test_as_a_command(program):
    """`python -m dlvm_py.tools.dlopt` is the command; a program with an error is exit status 1 and one message."""
    done = run_python("-m", "dlvm_py.tools.dlopt", program, "-p", "DCE")
    assert done.stdout.startswith("Source file: ") and not done.stderr
    program.write_text(PROGRAM.replace("dot %x", "dot %z"), encoding="utf-8")
    done = run_python("-m", "dlvm_py.tools.dlopt", program, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: there is no value '%z'\n{program}:6:14: error DL112")


def test_mutated_programs_end_in_messages(tmp_path, capsys):
    """Whatever is done to the text of a program, the tools end with status 0 or 1."""
    texts = [f.read_text(encoding="utf-8") for f in sorted((ROOT / "tests" / "dl").rglob("*.dl"))]
    r = random.Random(7)
    path = tmp_path / "mutated.dl"
    for _ in range(150):
        text = r.choice(texts)
        for _ in range(r.randrange(1, 4)):
            at, other = r.randrange(len(text)), r.choice(texts)
            start = r.randrange(len(other))
            text = text[:at] + other[start : start + r.randrange(12)] + text[at + r.randrange(12) :]
        path.write_text(text, encoding="utf-8")
        status = run_tool(dlopt.main, [str(path), "-p", "AS", "CSE", "DCE", "CFGSimp", "INL"])
        assert status in (0, 1)
    capsys.readouterr()
