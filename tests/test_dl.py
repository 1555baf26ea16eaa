"""The programs in tests/dl: the manual of the IR, its passes and its tools. The first line of each says what it shows.

    // RUN: dlopt %s -p DCE | filecheck %s        the output must have what the CHECK lines say
    // RUN: not dlopt %s 2>&1 | filecheck %s      exit status 1
    // EVAL: @f(3.0, [1, 2]) == 6.0               by the reference interpreter and by native code
    // EVAL: @f(0) raises ZeroDivisionError
    // EVAL-INTERPRETER: @f(1) == 2               by the interpreter alone: the back end does not have it yet

Expected values are Python's; f32 results are compared to 1e-5, f64 to 1e-12.
"""

import ast
import contextlib
import functools
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from filecheck.matcher import Matcher
from filecheck.options import Options

from dlvm_py.ir import ArrayType, EnumType, PointerType, StructType, TensorType, TupleType, print_module
from dlvm_py.ir.interpreter import run as interpret
from dlvm_py.ir.layout import members
from dlvm_py.ir.objects import Reference
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify
from dlvm_py.tools import dlc, dlopt
from dlvm_py.tools.common import run_tool
from dlvm_py.tools.explain import pass_list
from dlvm_py.tools.native import callable_of
from dlvm_py.transforms import differentiate_module

pytestmark = pytest.mark.usefixtures("plain_code")

FOLDER = Path(__file__).parent / "dl"
FILES = sorted(FOLDER.rglob("*.dl"))
TOOLS = {"dlopt": dlopt.main, "dlc": dlc.main}
RUNS = [(f, line) for f in FILES for line in re.findall(r"// RUN: (.*)", f.read_text(encoding="utf-8"))]
EVAL = re.compile(r"// EVAL(-INTERPRETER)?: @([\w.]+)\((.*)\) (==|raises) (.*)")
EVALS = [(f, found) for f in FILES for found in EVAL.findall(f.read_text(encoding="utf-8"))]


def shown(value):
    """The name of a test case."""
    return str(value.relative_to(FOLDER)) if isinstance(value, Path) else None


def execute(words):
    """Exit status, standard output and standard error of a tool."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run_tool(TOOLS[words[0]], words[1:])
        out.flush()
    return status, out.buffer.getvalue().decode(), err.getvalue()


@pytest.mark.parametrize(("file", "line"), RUNS, ids=shown)
def test_run(file, line, tmp_path, monkeypatch):
    """A tool's output is what the CHECK lines of the file say."""
    command, _, check = line.replace("%s", file.name).replace("%t", str(tmp_path / "out")).partition(" | ")
    monkeypatch.chdir(file.parent)
    words = shlex.split(command)
    wanted = 1 if words[0] == "not" else 0
    words = words[wanted:]
    both = "2>&1" in words
    status, out, err = execute([w for w in words if w != "2>&1"])
    assert status == wanted, err
    if not check:
        return
    received = tmp_path / "received"
    received.write_text(err + out if both else out, encoding="utf-8")
    prefix = next(iter(re.findall(r"--check-prefix[= ](\S+)", check)), "CHECK")
    options = Options(str(file), str(received), check_prefixes=[prefix])
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        failed = Matcher.from_opts(options).run()
    assert not failed, said.getvalue() + "\n" + received.read_text(encoding="utf-8")


def given(value, t):
    """An argument of an EVAL line as a fresh value of its type."""
    tensor = t.pointee if isinstance(t, PointerType) else t
    if not isinstance(tensor, TensorType):
        return Reference(value) if isinstance(t, PointerType) else value
    array = np.array(value, tensor.dtype.numpy)
    return array if tensor.rank else array[()]


def compare(found, wanted, t):
    """Equal, but for the rounding of its dtype."""
    if isinstance(t, TupleType | StructType):
        types = [m for _, m in members(t)]
        found = found if isinstance(found, tuple) else (found,) if types else ()
        assert len(found) == len(wanted) == len(types)
        for f, w, e in zip(found, wanted, types, strict=True):
            compare(f, w, e)
        return
    if isinstance(t, EnumType):
        assert found[0] == wanted[0]
        compare(found[1], wanted[1], TupleType(t.cases[found[0]]))
        return
    if isinstance(t, ArrayType):
        assert isinstance(found, tuple)
        compare(found, wanted, TupleType((t.element,) * t.count))
        return
    if isinstance(found, Reference):
        compare(found.value, wanted, t.pointee)
        return
    dtype = (t.pointee if isinstance(t, PointerType) else t).dtype if isinstance(t, TensorType | PointerType) else None
    tolerance = {"f16": 1e-2, "f32": 1e-5, "f64": 1e-12}.get(getattr(dtype, "name", ""), 0)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@functools.lru_cache(maxsize=2)
def program(file):
    """The program of a file, with its derivatives, which its EVAL lines share: executors copy what they change."""
    module = parse_module(file.read_text(encoding="utf-8"), str(file))
    differentiate_module.run(module)
    verify(module)
    return module


@functools.lru_cache(maxsize=16)
def compiled(file, name):
    """Native code of a function of a file, compiled once for its EVAL lines."""
    return callable_of(program(file), name)


@pytest.mark.parametrize(("file", "case"), EVALS, ids=lambda v: shown(v) or f"@{v[1]}({v[2]})")
def test_eval(file, case):
    """A function gives, or raises, what the EVAL line says: in the interpreter, in native code."""
    only_interpreter, name, arguments, relation, expected = case
    module = program(file)
    type = module.functions[name].type
    values = ast.literal_eval(f"({arguments},)") if arguments else ()
    executors = [lambda *a: interpret(module, name, a)]
    if not only_interpreter:
        # what a callable leaves in variables its next call would find
        executors.append(callable_of(module, name) if module.variables else compiled(file, name))
    for run in executors:
        args = [given(v, t) for v, t in zip(values, type.params, strict=True)]
        if relation == "raises":
            with pytest.raises(Exception) as caught:  # noqa: B017 - the name is compared
                run(*args)
            assert caught.type.__name__ == expected.strip()
        else:
            compare(run(*args), ast.literal_eval(expected), type.result)


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_first_line_is_a_sentence(file):
    """Each file begins with a comment of one sentence, and does something."""
    text = file.read_text(encoding="utf-8")
    assert re.match(r"// [A-Za-z`].*\.\n", text), text[:80]
    assert "// RUN: " in text or "// EVAL" in text


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_round_trip(file):
    """What the printer writes, the parser reads as the same program. (Not where reading it must fail.)"""
    text = file.read_text(encoding="utf-8")
    if "RUN: not" in text:
        return
    module = parse_module(text, str(file))
    verify(module)
    printed = print_module(module)
    assert print_module(parse_module(printed)) == printed


PASS_NAMES = [line.split()[:2] for line in pass_list().splitlines()]


@pytest.mark.parametrize(("abbreviation", "name"), PASS_NAMES, ids=lambda v: v)
def test_every_pass_has_three_files(abbreviation, name):
    """Each pass that `dlopt --list-passes` lists is at work in three files or more, one behaviour each."""
    folder = FOLDER / "adjoint" if abbreviation == "AD" else FOLDER / "transforms" / name
    texts = [f.read_text(encoding="utf-8") for f in sorted(folder.glob("*.dl"))]
    # AD always runs
    runs = [t for t in texts if abbreviation == "AD" or re.search(rf"RUN: .*\b{abbreviation}\b", t)]
    assert len(runs) >= 3
    assert len({t.partition("\n")[0] for t in texts}) == len(texts)
