"""Array kernels of long functions as LLVM functions of their own, equal ones written once.

    kernel7:                                   %v9 = call i64 @"dl.kernel0"(ptr %v1, ptr %v2, i64 %p3)
      %v9 = mul i64 %p3, 8                     br label %done8
      ... a loop nest ...               →
      br label %done8                          define internal i64 @"dl.kernel0"(ptr %a0, ptr %a1, i64 %a2) noinline

LLVM's time is more than linear in the length of a function: the vectoriser and the combiner look at all of it again
for each loop (measured: the gradient of 100 array statements took 7.4 s in one function). A region has one entry and
one exit, so what it uses of the function become parameters, and what the function uses of it results. Kernels that
differ only in names are one function: gradients repeat the same few loops. A region that leaves by the error path
stays where it is, and a function with few kernels stays whole, for LLVM to see across them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dlvm_py.backend.cpu.text import FunctionText, ModuleText
from dlvm_py.backend.cpu.values import Label

# functions with more kernels than this are cut up
FEW = 16

NAME = re.compile(r"%[A-Za-z]\w*")
_METADATA = re.compile(r"!\d+")
_DEFINITION = re.compile(r"(%v\d+) = ")
_ALIAS = re.compile(r", !(?:alias\.scope|noalias) !\d+")
_GROUP = "!llvm.access.group"


@dataclass
class Region:
    """Blocks of one kernel and the names that cross its border."""

    labels: list[Label]
    lines: list[str]
    used: list[str]
    defined: set[str]
    results: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Kernel:
    """The text of an outlined function."""

    head: str
    blocks: str

    def __str__(self) -> str:
        return f"{self.head} {{\n{self.blocks}}}\n"


def outline(f: FunctionText) -> None:
    """Move the kernels of `f` out where there are many."""
    if len(f.regions) <= FEW:
        return
    regions = [region_of(f.labels[first:last]) for first, last in f.regions]
    users = users_of(f, f.regions, regions)
    for k, region in enumerate(regions):
        region.results = [name for name in region.used if name in region.defined and users[name] != {k}]
    replaced: dict[int, list[Label]] = {}
    for k, ((first, last), region) in enumerate(zip(f.regions, regions, strict=True)):
        if not leaves(f, region):
            own = {name for name in region.used if users[name] == {k}}
            replaced[first] = [_call(f, region, own)]
            replaced.update((at, []) for at in range(first + 1, last))
    f.labels[:] = [label for at, old in enumerate(f.labels) for label in replaced.get(at, [old])]
    f.regions.clear()


def region_of(labels: list[Label]) -> Region:
    """The region that these blocks are."""
    lines = [str(line) for label in labels for line in (*label.phis, *label.lines)]
    blocks = {f"%{label.name}" for label in labels}
    used = dict.fromkeys(name for line in lines for name in NAME.findall(line) if name not in blocks)
    defined = {found[1] for line in lines if (found := _DEFINITION.match(line))}
    return Region(labels, lines, list(used), defined)


def leaves(f: FunctionText, region: Region) -> bool:
    """Whether the function may return in the region."""
    return any(line.startswith("ret ") for line in region.lines) or not f.exits.isdisjoint(region.used)


def users_of(f: FunctionText, spans: Sequence[tuple[int, int]], regions: list[Region]) -> dict[str, set[int]]:
    """The regions, at the positions `spans`, that mention a name; -1 is the rest of the function.

    The line that reserves memory is no mention of it.
    """
    found: dict[str, set[int]] = {}
    inside = {at for first, last in spans for at in range(first, last)}
    for k, region in enumerate(regions):
        for name in region.used:
            found.setdefault(name, set()).add(k)
    for at, label in enumerate(f.labels):
        if at not in inside:
            for line in map(str, (*label.phis, *label.lines)):
                reserves = label is f.prologue and " = alloca " in line
                for name in NAME.findall(line):
                    if not reserves:
                        found.setdefault(name, set()).add(-1)
    return found


def _call(f: FunctionText, region: Region, own: set[str]) -> Label:
    """The block that replaces a region: a call of its kernel."""
    memory, reserved = reserved_memory(f, region, own)
    f.prologue.lines[:] = [line for line in f.prologue.lines if line.partition(" ")[0] not in memory]
    last = region.labels[-1].lines[-1]  # the branch to the block behind the kernel
    params = [
        name
        for name in region.used
        if name not in region.defined and name not in memory and f"label {name}" != last.removeprefix("br ")
    ]
    types = [f.types[name] for name in params]
    results = [f.types[name] for name in region.results]
    result = "void" if not results else results[0] if len(results) == 1 else "{ " + ", ".join(results) + " }"
    body = body_of(f, region, reserved, result)
    name = kernel_of(f.module, params, types, result, body)
    args = ", ".join(f"{type} {ref}" for type, ref in zip(types, params, strict=True))
    call = f'call {result} @"{name}"({args})'
    lines = [call]
    if len(results) == 1:
        lines = [f"{region.results[0]} = {call}"]
    elif results:
        whole = f.new(result).ref
        parts = [f"{ref} = extractvalue {result} {whole}, {k}" for k, ref in enumerate(region.results)]
        lines = [f"{whole} = {call}", *parts]
    return Label(region.labels[0].name, lines=[*lines, last])


def reserved_memory(f: FunctionText, region: Region, own: set[str]) -> tuple[list[str], list[str]]:
    """The names of `own` that are memory of the frame which the region uses, and the lines that reserve it."""
    reserved = {line.partition(" ")[0]: line for line in f.prologue.lines if " = alloca " in line}
    names = [name for name in region.used if name in own and name in reserved]
    return names, [reserved[name] for name in names]


def body_of(f: FunctionText, region: Region, memory: list[str], result: str) -> list[str]:
    """The lines of the kernel, in the names of the function that it is taken from."""
    found = ["start:", *memory, f"br label %{region.labels[0].name}"]
    for label in region.labels:
        lines = [str(line) for line in (*label.phis, *label.lines)]
        if label is region.labels[-1]:
            lines[-1:] = _returns(f, region, result)
        found += [f"{label.name}:", *(_ALIAS.sub("", line) if _GROUP in line else line for line in lines)]
    return found


def _returns(f: FunctionText, region: Region, result: str) -> list[str]:
    if len(region.results) < 2:
        return [f"ret {result} {''.join(region.results)}".rstrip()]
    lines, whole = [], "poison"
    for k, ref in enumerate(region.results):
        lines.append(f"%r{k} = insertvalue {result} {whole}, {f.types[ref]} {ref}, {k}")
        whole = f"%r{k}"
    return [*lines, f"ret {result} {whole}"]


def kernel_of(module: ModuleText, params: list[str], types: list[str], result: str, body: list[str]) -> str:
    """The name of the kernel with this body: one that is there, if it differs only in names."""
    names = {name: f"%a{k}" for k, name in enumerate(params)}
    labels = {line[:-1]: f"b{k}" for k, line in enumerate(line for line in body if line.endswith(":"))}

    def rename(found: re.Match) -> str:
        name = found[0]
        if name[1:] in labels:
            return "%" + labels[name[1:]]
        return names.setdefault(name, f"%x{len(names)}")

    lines = [f"{labels[line[:-1]]}:" if line.endswith(":") else "  " + NAME.sub(rename, line) for line in body]
    text = "\n".join(lines) + "\n"
    numbers: dict[str, str] = {}
    key = result, tuple(types), _METADATA.sub(lambda m: _content(module, m[0], numbers), text)
    if key not in module.kernels:
        name = module.kernels[key] = f"dl.kernel{len(module.kernels)}"
        head = ", ".join(f"{type} %a{k}" for k, type in enumerate(types))
        module.functions[name] = _Kernel(f'define internal {result} @"{name}"({head}) nounwind noinline', text)
    return module.kernels[key]


def _content(module: ModuleText, number: str, numbers: dict[str, str]) -> str:
    """A metadata node by what it says: distinct nodes by the order in which they come up."""
    if number not in numbers:
        numbers[number] = f"#{len(numbers)}"
        text = module.metadata.nodes[int(number[1:])]
        numbers[number] += _METADATA.sub(lambda m: _content(module, m[0], numbers), text)
    return numbers[number]
