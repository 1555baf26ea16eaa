"""Array kernels of long functions as LLVM functions of their own, equal ones written once.

    kernel7:                                   %v9 = call i64 @"dl.kernel0"(ptr %v1, ptr %v2, i64 %p3)
      %v9 = mul i64 %p3, 8                     br label %done8
      ... a loop nest ...               →
      br label %done8                          define internal i64 @"dl.kernel0"(ptr %a0, ptr %a1, i64 %a2) noinline

LLVM's time is more than linear in the length of a function: the vectoriser and the combiner look at all of it again
for each loop (measured: the gradient of 100 array statements took 7.4 s in one function). A region has one entry and
one exit, so what it uses of the function become parameters, and what the function uses of it results. Kernels that
differ only in names are one function: gradients repeat the same few loops. A region that may leave by the error path
gives a status before its results, and has the blocks that it leaves by. A function with few kernels stays whole, for
LLVM to see across them.

LLVM makes quick work of what is left (`BRIEFLY`, compile.py), and writes it down as it stands (`optnone`) where there
are very many kernels, and so what chooses between one thread and many: a few hundred scalar instructions around each
kernel, which run once where the kernel has a loop, and a third of the time that LLVM takes for all. If there is a loop
among what is left that calls no kernel, it is somebody's inner loop, and everything is optimised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dlvm_py.backend.cpu.text import FunctionText, ModuleText
from dlvm_py.backend.cpu.values import Label, V
from dlvm_py.frozen import Frozen, Mutable, field

# functions with more kernels than this are cut up
FEW = 16
# and with more than this only the kernels are looked at by LLVM's optimiser
MANY = 64
AS_IT_STANDS = "optnone noinline"
# marks a function for `_go_briefly` in compile.py
BRIEFLY = '"briefly"'

NAME = re.compile(r"%[A-Za-z]\w*")
_METADATA = re.compile(r"!\d+")
_DEFINITION = re.compile(r"^(%v\d+) = ", re.MULTILINE)
_LABEL = re.compile(r"label %(\w+)")
_SCOPES = re.compile(r", !(alias\.scope|noalias) !(\d+)")
CALL = '@"dl.kernel'


class Region(Mutable):
    """Blocks of one kernel and the names that cross its border."""

    labels: list[Label]
    lines: list[str]
    used: list[str]
    defined: set[str]
    results: list[str] = field(default_factory=list)


class _Kernel(Frozen):
    """The text of an outlined function: what stands before its blocks, and they."""

    head: str
    blocks: str

    def __str__(self) -> str:
        return f"{self.head} {{\n{self.blocks}}}\n"


def outline(f: FunctionText) -> None:
    """Move the kernels of `f` out where there are many."""
    if len(f.regions) <= FEW:
        return
    is_huge = len(f.regions) > MANY
    regions = [region_of(f.labels[first:last]) for first, last in f.regions]
    users = users_of(f, f.regions, regions)
    for k, region in enumerate(regions):
        region.results = [name for name in region.used if name in region.defined and users[name] != {k}]
    replaced: dict[int, list[Label]] = {}
    exits = {f"%{label.name}": label for label in f.labels if f"%{label.name}" in f.exits}
    for k, ((first, last), region) in enumerate(zip(f.regions, regions, strict=True)):
        own = {name for name in region.used if users[name] == {k}}
        replaced[first] = _call(f, region, own, [exits[name] for name in region.used if name in exits], is_huge)
        replaced.update((at, []) for at in range(first + 1, last))
    f.labels[:] = [label for at, old in enumerate(f.labels) for label in replaced.get(at, [old])]
    f.regions.clear()
    if all(any(CALL in line for label in loop for line in label.lines) for loop in loops(f.labels)):
        f.attributes += f" {AS_IT_STANDS if is_huge else BRIEFLY}"


def loops(labels: list[Label]) -> Iterator[list[Label]]:
    """The blocks from each loop's first to its last, as they lie in the text: in reverse postorder."""
    at = {label.name: k for k, label in enumerate(labels)}
    for k, label in enumerate(labels):
        for found in _LABEL.findall(label.lines[-1] if label.lines else ""):
            if at.get(found, k + 1) <= k:
                yield labels[at[found] : k + 1]


def region_of(labels: list[Label]) -> Region:
    """The region that these blocks are."""
    lines = [str(line) for label in labels for line in (*label.phis, *label.lines)]
    blocks = {f"%{label.name}" for label in labels}
    text = "\n".join(lines)
    used = dict.fromkeys(name for name in NAME.findall(text) if name not in blocks)
    defined = set(_DEFINITION.findall(text))
    return Region(labels, lines, list(used), defined)


def leaves(f: FunctionText, region: Region) -> bool:
    """Whether the function may return in the region."""
    return any(line.startswith("ret ") for line in region.lines) or not f.exits.isdisjoint(region.used)


def users_of(f: FunctionText, spans: Sequence[tuple[int, int]], regions: list[Region]) -> dict[str, set[int]]:
    """The regions, at the positions `spans`, that mention a name of theirs; -1 is the rest of the function."""
    found: dict[str, set[int]] = {}
    inside = {at for first, last in spans for at in range(first, last)}
    for k, region in enumerate(regions):
        for name in region.used:
            found.setdefault(name, set()).add(k)
    for name in found.keys() & mentioned(label for at, label in enumerate(f.labels) if at not in inside):
        found[name].add(-1)
    return found


def mentioned(labels: Iterable[Label]) -> set[str]:
    """The names in the text of these blocks, found in one go: it is read again for each cut of a long function."""
    return set(NAME.findall("\n".join(str(line) for label in labels for line in (*label.phis, *label.lines))))


def _call(f: FunctionText, region: Region, own: set[str], exits: list[Label], is_huge: bool) -> list[Label]:
    """The blocks that replace a region: a call of its kernel and, where it may leave (by `exits`, too), the way out."""
    status = leaves(f, region)
    if exits:
        *first, behind = region.labels
        whole = region_of([*first, *exits, behind])
        region = Region(whole.labels, whole.lines, whole.used, whole.defined, region.results)
    memory = reserved_memory(f, region, own)
    reserved = [f.reserved.pop(name) for name in memory]
    last = region.labels[-1].lines[-1]  # the branch to the block behind the kernel
    params = [
        name
        for name in region.used
        if name not in region.defined and name not in memory and f"label {name}" != last.removeprefix("br ")
    ]
    types = [f.types[name] for name in params]
    outcome = [f.new("i32")] if status else []
    values = [*outcome, *(V(f.types[name], name) for name in region.results)]
    result = "void" if not values else values[0].type if len(values) == 1 else struct_of(values)
    body = body_of(f, region, reserved, result, status)
    chooses = is_huge and any("@dlvm.share(" in line for line in body) and not any(loops(region.labels))
    name = kernel_of(f.module, params, types, result, body, AS_IT_STANDS if chooses else "noinline")
    args = ", ".join(f"{type} {ref}" for type, ref in zip(types, params, strict=True))
    call = f'call {result} @"{name}"({args})'
    lines = [call]
    if len(values) == 1:
        lines = [f"{values[0].ref} = {call}"]
    elif values:
        whole = f.new(result).ref
        parts = [f"{v.ref} = extractvalue {result} {whole}, {k}" for k, v in enumerate(values)]
        lines = [f"{whole} = {call}", *parts]
    here = Label(region.labels[0].name, lines=lines)
    if not status:
        lines.append(last)
        return [here]
    go_on, left = f.label("go"), f.label("left")
    f.here = here
    f.likely(f.icmp("eq", outcome[0], V("i32", "0")), go_on, left)
    go_on.lines.append(last)
    left.lines.append("ret i32 1")
    return [here, left, go_on]


def struct_of(values: Sequence[V]) -> str:
    """The type of a struct of these values."""
    return "{ " + ", ".join(v.type for v in values) + " }"


def reserved_memory(f: FunctionText, region: Region, own: set[str]) -> list[str]:
    """The names of `own` that are memory of the frame which the region uses."""
    return [name for name in region.used if name in own and name in f.reserved]


def body_of(f: FunctionText, region: Region, memory: list[str], result: str, status: bool = False) -> list[str]:
    """The lines of the kernel, in the names of the function that it is taken from."""
    found = ["start:", *memory, f"br label %{region.labels[0].name}"]
    for label in region.labels:
        lines = [str(line) for line in (*label.phis, *label.lines)]
        if label is region.labels[-1]:
            lines[-1:] = _returns(f, region, result, status)
        elif status and lines[-1].startswith("ret "):
            parts = ["i32 1", *(f"{f.types[ref]} poison" for ref in region.results)]
            lines[-1] = f"ret {result} " + ("1" if len(parts) == 1 else "{ " + ", ".join(parts) + " }")
        found += [f"{label.name}:", *lines]
    return found


def _returns(f: FunctionText, region: Region, result: str, status: bool) -> list[str]:
    values = [V("i32", "0")] * status + [V(f.types[ref], ref) for ref in region.results]
    if len(values) < 2:
        return [f"ret {result} {''.join(v.ref for v in values)}".rstrip()]
    lines, whole = [], "poison"
    for k, v in enumerate(values):
        lines.append(f"%r{k} = insertvalue {result} {whole}, {v.type} {v.ref}, {k}")
        whole = f"%r{k}"
    return [*lines, f"ret {result} {whole}"]


def kernel_of(
    module: ModuleText, params: list[str], types: list[str], result: str, body: list[str], how: str = "noinline"
) -> str:
    """The name of the kernel with this body: one that is there, if it differs only in names."""
    body = _with_scopes_of_its_own(module, body)
    names = {name: f"%a{k}" for k, name in enumerate(params)}
    labels = {line[:-1]: f"b{k}" for k, line in enumerate(line for line in body if line.endswith(":"))}
    renamed = names | {f"%{old}": f"%{new}" for old, new in labels.items()}
    first = len(names) - len(renamed)

    def rename(found: re.Match) -> str:
        name = found[0]
        new = renamed.get(name)
        if new is None:
            new = renamed[name] = f"%x{len(renamed) + first}"
        return new

    lines = [f"{labels[line[:-1]]}:" if line.endswith(":") else "  " + line for line in body]
    text = NAME.sub(rename, "\n".join(lines)) + "\n"
    numbers: dict[str, str] = {}
    key = how, result, tuple(types), _METADATA.sub(lambda m: _content(module, m[0], numbers), text)
    if key not in module.kernels:
        name = module.kernels[key] = f"dl.kernel{len(module.kernels)}"
        head = ", ".join(f"{type} %a{k}" for k, type in enumerate(types))
        module.functions[name] = _Kernel(f'define internal {result} @"{name}"({head}) nounwind {how}', text)
    return module.kernels[key]


def _with_scopes_of_its_own(module: ModuleText, body: list[str]) -> list[str]:
    """A body whose alias scopes are numbered as they come up in it, and say nothing of memory that it does not touch.

    A scope is one of the function that the kernel comes from: with its name the same loop would be another one wherever
    it runs over other arrays. Kernels are never inlined, so that scopes of two of them never meet.
    """
    node, nodes = module.metadata.node, module.metadata.nodes
    text = "\n".join(body)
    touched = dict.fromkeys(s for what, n in _SCOPES.findall(text) if what != "noalias" for s in _listed(nodes[int(n)]))
    if not touched:
        return body
    domain = node('!"kernel"')
    own = {scope: node(f'!"kernel.{k}", {domain}') for k, scope in enumerate(touched)}

    def renamed(found: re.Match) -> str:
        scopes = ", ".join(sorted(own[s] for s in _listed(nodes[int(found[2])]) if s in own))
        return f", !{found[1]} {node(scopes)}" if scopes else ""

    return _SCOPES.sub(renamed, text).split("\n")


def _listed(node: str) -> list[str]:
    """The nodes that a node lists."""
    return _METADATA.findall(node)


def _content(module: ModuleText, number: str, numbers: dict[str, str]) -> str:
    """A metadata node by what it says: distinct nodes by the order in which they come up."""
    if number not in numbers:
        numbers[number] = f"#{len(numbers)}"
        text = module.metadata.nodes[int(number[1:])]
        numbers[number] += _METADATA.sub(lambda m: _content(module, m[0], numbers), text)
    return numbers[number]
