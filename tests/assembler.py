"""Every GPU kernel that the tests compile goes through NVIDIA's assembler: its words about each are kept.

    gpu.emit(...)        each kernel's LLVM IR is written to a folder beside the disk cache of the run, by its hash
    end of a session     what nobody has assembled yet becomes PTX, many kernels a text, and goes through ptxas for each
                         of ARCHITECTURES; where it refuses one, or one spills, the session has failed (conftest.py)

The folder is that of this state of the compiler. Worker processes share it; a lock on a kernel's file says who has it.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.metadata
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from dlvm_py.backend.gpu import emit as gpu
from dlvm_py.backend.gpu.ptx import ptx_of, symbol
from dlvm_py.runtime.cache import Cache, environment_key

ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
# kernels of one text: starting ptxas costs what assembling ten of them does
TOGETHER = 40
_ENTRY = re.compile(
    r"Compiling entry function '(\w+)' for '\w+'\n.*\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads\n.*Used (\d+) registers(?:.*?(\d+) bytes smem)?"
)


class Usage(NamedTuple):
    """What a kernel needs: registers of a thread, and in bytes its stack and spills, and shared memory of a block."""

    registers: int
    stack: int
    stores: int
    loads: int
    shared: int

    @property
    def is_good(self) -> bool:
        """Whether a block of 256 threads can run it, with nothing of a thread in memory."""
        return self.registers <= 255 and not (self.stack or self.stores or self.loads)


def assembler() -> str | None:
    """NVIDIA's ptxas: CUDA's on the path, or that of the wheel."""
    if found := shutil.which("ptxas"):
        return found
    try:
        files = importlib.metadata.files("nvidia-cuda-nvcc") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(f.locate()) for f in files if f.name == "ptxas"), None)


def version() -> str:
    """The release of the assembler."""
    ptxas = assembler()
    assert ptxas is not None
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release (\S+),", said)[1]  # type: ignore[index]


def assembled(ptx: str, architecture: str) -> dict[str, Usage]:
    """What the assembler says of each entry of a text; RuntimeError with its words where it does not take it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "x.ptx")
        file.write_text(ptx, encoding="utf-8")
        command = [assembler(), "-v", "-arch", architecture, "-o", file.with_suffix(".cubin"), file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    found = {e: Usage(*(int(n or 0) for n in (r, *numbers, s))) for e, *numbers, r, s in _ENTRY.findall(done.stderr)}
    assert found.keys() == set(re.findall(r"^\.visible \.entry (\w+)\(", ptx, re.MULTILINE)), done.stderr
    return found


class Kernels:
    """The kernels of a session, in a folder: `HASH.ll` is one, under a line with its family, `HASH.json` its usage.

    own_ptx: PTX is made for each architecture; else it is that of the first one, which all devices can run.
    """

    def __init__(self, own_ptx: bool = False) -> None:
        self.folder = Path(Cache().folder, "assembled", environment_key())
        self.pairs = [(a if own_ptx else ARCHITECTURES[0], a) for a in ARCHITECTURES]

    def collect(self) -> Callable[[], None]:
        """Keep what is compiled from now on; what ends that."""
        emit = gpu.emit

        def collecting(*args, **options):  # type: ignore[no-untyped-def]
            program = emit(*args, **options)
            for kernel in program.kernels:
                self._keep(f"; {kernel.family}\n{kernel.module}")
            return program

        gpu.emit = collecting
        return functools.partial(setattr, gpu, "emit", emit)

    def _keep(self, text: str) -> None:
        path = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.ll"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            mine = path.with_suffix(f".{os.getpid()}")
            mine.write_text(text, encoding="utf-8")
            mine.replace(path)

    def assemble(self) -> dict[str, str]:
        """Assemble what nobody has yet: by their texts' paths, what is wrong with kernels."""
        wrong: dict[str, str] = {}
        paths = iter([p for p in sorted(self.folder.glob("*.ll")) if self._wanted(p)])
        while batch := list(itertools.islice(filter(None, map(self._taken, paths)), TOGETHER)):
            wrong |= self._batch([path for path, _ in batch])
            for _, file in batch:
                os.close(file)
        return wrong

    def usage(self) -> list[tuple[str, dict[str, Usage]]]:
        """All kernels that were assembled: the family, and the usage by architecture."""
        found = []
        for path in sorted(self.folder.glob("*.json")):
            kept = json.loads(path.read_text(encoding="utf-8"))
            of = {arch: Usage(*kept[f"{ptx} {arch}"]) for ptx, arch in self.pairs}
            found.append((_family(path.with_suffix(".ll").read_text(encoding="utf-8")), of))
        return found

    def _wanted(self, path: Path) -> list[tuple[str, str]]:
        """What of a kernel nobody has assembled yet."""
        done = path.with_suffix(".json")
        kept = json.loads(done.read_text(encoding="utf-8")) if done.exists() else {}
        return [pair for pair in self.pairs if " ".join(pair) not in kept]

    def _taken(self, path: Path) -> tuple[Path, int] | None:
        """A kernel's file, locked; None if another process has it, or has had it."""
        file = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._wanted(path):
                return path, file
        except OSError:
            pass
        os.close(file)
        return None

    def _batch(self, paths: Sequence[Path]) -> dict[str, str]:
        texts = {p: p.read_text(encoding="utf-8") for p in paths}
        wrong, uses = {}, {p: {} for p in paths}  # type: ignore[var-annotated]
        with ThreadPoolExecutor(len(self.pairs)) as pool:
            made = {ptx: _ptx(list(texts.values()), ptx) for ptx in {ptx for ptx, _ in self.pairs}}
            runs = {(ptx, arch): pool.submit(assembled, made[ptx], arch) for ptx, arch in self.pairs}
        for (ptx, arch), run in runs.items():
            try:
                found = {p: u for p, u in zip(paths, _in_order(run.result()), strict=True)}
            except RuntimeError as refused:
                if len(paths) == 1:
                    wrong[str(paths[0])] = f"{arch}: {refused}"
                    continue
                return {k: v for p in paths for k, v in self._batch([p]).items()}
            for p, use in found.items():
                uses[p][f"{ptx} {arch}"] = use
                if not use.is_good:
                    wrong[str(p)] = f"{arch}: {_family(texts[p])}: {use}"
        for p in paths:
            if str(p) not in wrong:
                done = p.with_suffix(".json")
                kept = json.loads(done.read_text(encoding="utf-8")) if done.exists() else {}
                done.write_text(json.dumps(kept | uses[p]), encoding="utf-8")
        return wrong


def _family(text: str) -> str:
    return text[2 : text.index("\n")]


def _ptx(texts: Sequence[str], architecture: str) -> str:
    return ptx_of([(_family(text), text) for text in texts], architecture)


def _in_order(found: dict[str, Usage]) -> list[Usage]:
    return [found[symbol(n)] for n in range(len(found))]
