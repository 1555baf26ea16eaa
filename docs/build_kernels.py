"""Writes the table of registers into docs/gpu.md: what NVIDIA's assembler says of every kernel of the GPU's tests.

    python docs/build_kernels.py

No device is needed; ptxas is, on PATH or from the wheel nvidia-cuda-nvcc. The kernels are those of the programs of
tests/gpu_suite.py and of their gradients, a row for each family (the line above an entry in `f.ptx()`).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from gpu_suite import SUITE  # noqa: E402

import dlvm_py as dlvm  # noqa: E402
from dlvm_py.runtime.cache import Cache  # noqa: E402

PAGE = ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- docs/build_kernels.py -->", "<!-- end of the table of registers -->"
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
_ENTRY = re.compile(
    r"Compiling entry function '(\w+)' for '\w+'\n.*\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads\n.*Used (\d+) registers(?:.*?(\d+) bytes smem)?"
)
_FAMILY = re.compile(r"^// (.*)\n\.visible \.entry (\w+)\(", re.MULTILINE)


class Usage(NamedTuple):
    """What a kernel needs: registers of a thread, and in bytes its stack and spills, and shared memory of a block."""

    family: str
    registers: int
    stack: int
    stores: int
    loads: int
    shared: int


def assembler() -> str | None:
    """NVIDIA's ptxas: CUDA's on the path, or that of the wheel."""
    if found := shutil.which("ptxas"):
        return found
    try:
        files = importlib.metadata.files("nvidia-cuda-nvcc") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(f.locate()) for f in files if f.name == "ptxas"), None)


@functools.cache
def version() -> str:
    """The release of the assembler."""
    ptxas = assembler()
    assert ptxas is not None
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release (\S+),", said)[1]  # type: ignore[index]


def usage(ptx: str, architecture: str) -> dict[str, Usage]:
    """What the assembler says of each entry of a text; RuntimeError with its words where it does not take it.

    Its words are kept in the folder of compiled code, by the text.
    """
    cache, parts = Cache(), ("ptxas", version(), architecture, ptx)
    key = hashlib.sha256(repr(parts).encode()).hexdigest()
    kept = cache.get(key)
    if kept is None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "x.ptx")
            file.write_text(ptx)
            command = [assembler(), "-v", "-arch", architecture, "-o", file.with_suffix(".cubin"), file]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        cache.put(key, {}, done.stderr.encode())
        said = done.stderr
    else:
        said = kept[1].decode()
    families = {entry: family for family, entry in _FAMILY.findall(ptx)}
    found = {
        e: Usage(families[e], *(int(n or 0) for n in (r, *numbers, s))) for e, *numbers, r, s in _ENTRY.findall(said)
    }
    assert found.keys() == families.keys(), said
    return found


@functools.cache
def text(name: str, gradient: bool) -> str:
    """The PTX of a program of the tests, or of its gradient."""
    function, make, wrt = SUITE[name]
    compiled = dlvm.jit(function, target="gpu")
    return (dlvm.grad(compiled, wrt=wrt) if gradient else compiled).ptx(*make())


def everything() -> list[tuple[str, bool]]:
    """Every program, and every gradient."""
    return [(name, gradient) for name, (_, _, wrt) in SUITE.items() for gradient in (False, True)[: 1 + bool(wrt)]]


def measured(programs: Iterable[tuple[str, bool]], architecture: str) -> dict[tuple[str, bool, str], Usage]:
    """The kernels of programs: (name, whether of its gradient, entry)."""
    programs = list(programs)
    texts = [text(*p) for p in programs]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda whole: usage(whole, architecture), texts)
        return {(*p, entry): u for p, uses in zip(programs, found, strict=True) for entry, u in uses.items()}


def table() -> list[str]:
    """The lines between the marks."""
    by = {a: list(measured(everything(), a).values()) for a in ARCHITECTURES}
    families = sorted({u.family for u in by[ARCHITECTURES[0]]})
    count = len(by[ARCHITECTURES[0]])
    of_llvm = ".".join(map(str, llvm.llvm_version_info))
    lines = [
        f"The {count} kernels of the programs of `tests/gpu_suite.py` and of their gradients,",
        f"by ptxas {version()} and LLVM {of_llvm}: registers of a thread (least to most), the most bytes of",
        "shared memory of a block, bytes of spills (stores and loads, of all architectures together).",
        "",
        "| family | kernels | " + " | ".join(f"registers, {a}" for a in ARCHITECTURES) + " | shared | spills |",
        "|---|--:|" + "--:|" * (len(ARCHITECTURES) + 2),
    ]
    for family in families:
        own = {a: [u for u in by[a] if u.family == family] for a in ARCHITECTURES}
        registers = [[u.registers for u in own[a]] for a in ARCHITECTURES]
        spans = [str(min(r)) if min(r) == max(r) else f"{min(r)} to {max(r)}" for r in registers]
        every = [u for uses in own.values() for u in uses]
        spills = f"{sum(u.stores for u in every)}, {sum(u.loads for u in every)}"
        shared = max(u.shared for u in every)
        lines.append(f"| {family} | {len(registers[0])} | {' | '.join(spans)} | {shared} | {spills} |")
    return lines


def main() -> int:
    """Write the table."""
    if assembler() is None:
        print("there is no ptxas: CUDA's, or that of the wheel nvidia-cuda-nvcc", file=sys.stderr)
        return 2
    page = PAGE.read_text(encoding="utf-8")
    first, last = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:first] + "\n" + "\n".join(table()) + "\n" + page[last:], encoding="utf-8")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("DLVM_GPU", "emulator")  # kernels are made without a device
    sys.exit(main())
