"""What tests/assembler.py does with kernels: each once, and what the assembler refuses, or must spill, is an error."""

import re
from pathlib import Path

import numpy as np
import pytest
from assembler import ARCHITECTURES, Kernels, Usage, assembler

import dlvm_py as dlvm

ROOT = Path(__file__).resolve().parent.parent
HEAD = 'define ptx_kernel void @"kernel"(ptr %p0) nounwind {'
GOOD = f"; a test\n{HEAD}\n  store i64 1, ptr %p0\n  ret void\n}}\n"
REFUSED = f'; a test\n{HEAD}\n  call void asm sideeffect "no.such.instruction;", ""()\n  ret void\n}}\n'
# what must be in memory
STACK = f"""; a test
{HEAD}
  %room = alloca [4 x i64]
  %at = load volatile i64, ptr %p0
  %x = getelementptr i64, ptr %room, i64 %at
  store volatile i64 1, ptr %x
  ret void
}}
"""


@pytest.fixture
def kernels(monkeypatch, tmp_path):
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    return Kernels()


@pytest.mark.skipif(assembler() is None, reason="there is no ptxas")
def test_what_is_refused_or_spills_is_said_and_the_rest_is_kept(kernels, monkeypatch):
    for text in (GOOD, REFUSED, STACK):
        kernels._keep(text)
    wrong = kernels.assemble()
    words = sorted(wrong.values())
    assert len(words) == 2 and "stack=32" in words[0] and "Unknown modifier '.such'" in words[1]
    ((family, usage),) = kernels.usage()
    assert family == "a test" and list(usage) == list(ARCHITECTURES) and usage["sm_75"].is_good
    # what is done is not done again, what is wrong stays wrong
    monkeypatch.setattr(Kernels, "_batch", lambda self, paths: dict.fromkeys(map(str, paths), "again"))
    assert kernels.assemble() == dict.fromkeys(wrong, "again")


def test_kernels_are_kept_once_whatever_makes_them(kernels, monkeypatch):
    monkeypatch.setenv("DLVM_GPU", "emulator")
    end, x = kernels.collect(), np.ones(3)
    try:
        for make in (lambda: lambda x: x * 2.0, lambda: lambda y: y * 2.0):
            assert "// elementwise\n" in dlvm.jit(make(), target="gpu").ptx(x)
    finally:
        end()
    assert len(list(kernels.folder.glob("*.ll"))) == 1
    dlvm.jit(lambda x: x * 3.0, target="gpu").ptx(x)
    assert len(list(kernels.folder.glob("*.ll"))) == 1


def test_usage_that_is_not_good():
    assert Usage(255, 0, 0, 0, 4096).is_good
    assert not any(Usage(*u).is_good for u in [(256, 0, 0, 0, 0), (9, 8, 0, 0, 0), (9, 0, 4, 0, 0), (9, 0, 0, 4, 0)])


def test_the_table_of_registers_has_every_family():
    """Every kind of kernel that there is in the sources is one that the tests compile."""
    table = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8").partition("<!-- docs/build_kernels.py -->")[2]
    rows = set(re.findall(r"^\| (.+?) \| \d", table, re.MULTILINE))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "dlvm_py" / "backend" / "gpu").glob("*.py")]
    made = re.findall(r"Kernel\((?:self\.)?h(?:ost)?, ([^)]*)\)", "".join(sources))
    families = {name for words in made for name in re.findall(r'"([^"]+)"', words)}
    for words in re.findall(r"^(?:FAMILY|TO_NUMBER).* = (.*)$", "".join(sources), re.MULTILINE):
        families |= set(re.findall(r'"([^"]+)"', words))
    assert len(families) > 10 and families == rows, "python docs/build_kernels.py"
