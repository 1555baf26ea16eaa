"""The kernels of a GPU program as PTX: one module, an entry `kernel_N` each, under a line that names its family."""

from __future__ import annotations

import re
from collections.abc import Sequence

import llvmlite.binding as llvm

from dlvm_py.backend.cpu.compile import link, optimise, parse, target_lines
from dlvm_py.backend.cpu.text import without_kept
from dlvm_py.backend.gpu.kernel import NAME, Kernel

_ENTRY = re.compile(r"^(\.visible \.entry kernel_(\d+)\()", re.MULTILINE)


def machine(architecture: str) -> llvm.TargetMachine:
    """LLVM's code generator for devices of an architecture ("sm_80"); later ones run its PTX too."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    return target.create_target_machine(cpu=architecture, opt=3)


def symbol(number: int) -> str:
    """The entry of a kernel by its number."""
    return f"kernel_{number}"


def ptx(kernels: Sequence[Kernel], architecture: str) -> str:
    """The PTX text of the kernels."""
    return ptx_of([(k.family, str(k.module)) for k in kernels], architecture)


def ptx_of(kernels: Sequence[tuple[str, str]], architecture: str) -> str:
    """The PTX text of kernels: of each its family, and its LLVM IR."""
    to = machine(architecture)
    head = target_lines(to)
    texts = [without_kept(text).replace(f'@"{NAME}', f'@"{symbol(n)}') for n, (_, text) in enumerate(kernels)]
    modules = [link([parse(text, head)], [symbol(n)]) for n, text in enumerate(texts)]
    for module in modules:  # each alone: what is done to it does not depend on what it is beside
        optimise(module, to)
    whole = link([parse("", head), *modules], [symbol(n) for n in range(len(kernels))])
    return _ENTRY.sub(lambda m: f"// {kernels[int(m[2])][0]}\n{m[1]}", to.emit_assembly(whole))
