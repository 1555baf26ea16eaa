"""Long modules as several texts that LLVM compiles at the same time: the same results, from the cache too."""

import re

import numpy as np
import pytest
from processes import run_program, run_python

import dlvm_py as dlvm
from dlvm_py import driver
from dlvm_py.backend.cpu import parts


@pytest.fixture
def tiny_parts(monkeypatch):
    monkeypatch.setattr(parts, "LINES", 40)


def steps(x, y, n):
    for k in range(n):
        x[1:-1] += 0.1 * (x[2:] - 2 * x[1:-1] + x[:-2])
        y = np.sin(y) * np.exp(-x) + y @ np.outer(x, x)
        if np.sum(y) > 1e6:
            raise ValueError(f"diverged in step {k}")
    return np.sum(y * x), np.cumsum(y)


def halves(x):
    if len(x) < 4:
        return np.sum(x**3)
    m = len(x) // 2
    return halves(np.tanh(x[:m])) * 0.5 + halves(np.cos(x[m:]))


def arguments():
    rng = np.random.default_rng(3)
    return rng.random(9), rng.random(9)


def test_a_module_that_is_cut_gives_the_same_bits(tiny_parts):
    x, y = arguments()
    derive = dict(wrt=(0, 1), from_=0)
    cut = dlvm.jit(steps, cache=False), dlvm.grad(dlvm.jit(steps, cache=False), **derive)
    found = cut[0](x.copy(), y, 3), cut[1](x, y, 3)
    assert cut[1].llvm(x, y, 3).count("\ndefine ") > 4  # all parts in one text, which LLVM could parse
    assert cut[1].asm(x, y, 3).count(".ident") <= 4
    parts.LINES = 10**9
    whole = dlvm.jit(steps, cache=False), dlvm.grad(dlvm.jit(steps, cache=False), **derive)
    expected = whole[0](x.copy(), y, 3), whole[1](x, y, 3)
    for got, want in zip(found, expected, strict=True):
        assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))


def test_exceptions_leave_from_every_part(tiny_parts):
    x, y = arguments()
    with pytest.raises(ValueError, match="diverged in step 0"):
        dlvm.jit(steps, cache=False)(x.copy(), 1e9 + y, 3)
    with pytest.raises(ValueError, match="broadcast"):
        dlvm.jit(steps, cache=False)(x, y[1:].copy(), 3)


def test_functions_that_call_themselves_are_cut(tiny_parts):
    x = np.linspace(0.1, 1.0, 23)
    assert np.isclose(dlvm.jit(halves, cache=False)(x), halves(x))
    assert dlvm.check(dlvm.jit(halves, cache=False), x)


def test_parts_come_from_the_disk_cache(tiny_parts, tmp_path, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    x, y = arguments()
    first, again = dlvm.jit(steps), dlvm.jit(steps)
    value, _ = first(x.copy(), y, 2)
    monkeypatch.setattr(driver, "cut", None)  # nothing is compiled again
    assert again(x.copy(), y, 2)[0] == value


def test_every_function_is_in_one_part_and_known_where_it_is_called(monkeypatch):
    kept = []
    monkeypatch.setattr(driver, "cut", lambda module: [kept.append(part.text) or part for part in parts.cut(module)])
    monkeypatch.setattr(parts, "LINES", 40)
    dlvm.jit(steps, cache=False)(*arguments(), 1)
    assert 2 <= len(kept) <= parts.MOST
    defined = [re.findall(r'^define [^@]*@"(dl\.[^"]+)"', part, re.M) for part in kept]
    assert len(set(sum(defined, []))) == len(sum(defined, []))
    for part, mine in zip(kept, defined, strict=True):
        declared = set(re.findall(r'^declare [^@]*@"(dl\.[^"]+)"', part, re.M))
        assert set(re.findall(r'@"(dl\.[^"]+)"', part)) <= declared | set(mine)


def test_the_parts_are_the_same_in_every_process():
    """Sets of names go by the hashes of texts, which each process begins elsewhere."""
    found = set()
    for seed in "12":
        done = run_python("-c", CUT, PYTHONHASHSEED=seed)
        assert done.stdout.count("---") == 2
        found.add(done.stdout)
    assert len(found) == 1


CUT = """
from dlvm_py.backend.cpu.outline import FunctionText, ModuleText, kernel_of
from dlvm_py.backend.cpu import parts
from dlvm_py.backend.cpu.parts import cut

parts.LINES = 3000
module = ModuleText()
f = FunctionText(module, "dl.f", "void", [], "|nounwind")
for k in range(20):
    body = ["start:", *[f"fence seq_cst ; {k}"] * 500, "ret void"]
    f.call(f'@"{kernel_of(module, [], [], "void", body)}"', "void", [])
f.line("ret void")
module.functions["dl.f"] = f
print(*(part.text for part in cut(module)), sep="---")
"""


@pytest.mark.slow
def test_compiling_while_the_interpreter_ends(tmp_path):
    done = run_program(LATE, tmp_path)
    assert (done.stdout, done.stderr) == ("6.0\n", "")


LATE = """
import atexit
import numpy as np
import dlvm_py as dlvm
from dlvm_py.backend.cpu import parts

parts.LINES = 10

@dlvm.jit(cache=False)
def f(x):
    return np.sum(np.cumsum(x) * np.sort(x))

atexit.register(lambda: print(f(np.ones(3))))
"""
