"""Writes the table of registers into docs/gpu.md: what NVIDIA's assembler says of every kernel of the tests.

    python docs/build_kernels.py

No device is needed; ptxas is, on PATH or from the wheel nvidia-cuda-nvcc. The tests of the GPU are run, slow ones too
(some minutes): each kernel that they compile, of gradients and of the examples too, is assembled as PTX for its
architecture (tests/assembler.py). A row for each family (the line above an entry in `f.ptx()`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import llvmlite.binding as llvm

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from assembler import ARCHITECTURES, Kernels, assembler, version  # noqa: E402

PAGE = ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- docs/build_kernels.py -->", "<!-- end of the table of registers -->"


def table(kernels: Kernels) -> list[str]:
    """The lines between the marks."""
    found = kernels.usage()
    of_llvm = ".".join(map(str, llvm.llvm_version_info))
    lines = [
        f"The {len(found)} different kernels that the tests compile, those of examples and of gradients among them,",
        f"by ptxas {version()} and LLVM {of_llvm}: registers of a thread (least to most), the most bytes of",
        "shared memory of a block, bytes of spills (stores and loads, of all architectures together).",
        "",
        "| family | kernels | " + " | ".join(f"registers, {a}" for a in ARCHITECTURES) + " | shared | spills |",
        "|---|--:|" + "--:|" * (len(ARCHITECTURES) + 2),
    ]
    for family in sorted({family for family, _ in found}):
        own = [usage for of, usage in found if of == family]
        registers = [[usage[a].registers for usage in own] for a in ARCHITECTURES]
        spans = [str(min(r)) if min(r) == max(r) else f"{min(r)} to {max(r)}" for r in registers]
        every = [u for usage in own for u in usage.values()]
        spills = f"{sum(u.stores for u in every)}, {sum(u.loads for u in every)}"
        shared = max(u.shared for u in every)
        lines.append(f"| {family} | {len(own)} | {' | '.join(spans)} | {shared} | {spills} |")
    return lines


def main() -> int:
    """Run the tests, and write the table."""
    if assembler() is None:
        print("there is no ptxas: CUDA's, or that of the wheel nvidia-cuda-nvcc", file=sys.stderr)
        return 2
    tests = sorted(str(path) for path in (ROOT / "tests").glob("test_gpu*.py"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DLVM_CACHE_DIR"] = folder
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "slow or not slow", *tests]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            return 1
        lines = table(Kernels(own_ptx=True))
    page = PAGE.read_text(encoding="utf-8")
    first, last = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:first] + "\n" + "\n".join(lines) + "\n" + page[last:], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
