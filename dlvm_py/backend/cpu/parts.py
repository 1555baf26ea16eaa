"""A long module as several texts, which LLVM compiles at the same time.

    define i32 @"dl.f"(...)  calls kernel0, kernel1        part 0    define i32 @"dl.f"(...)
    define internal void @"dl.kernel0"(...)           →              declare void @"dl.kernel1"(...)
    define internal void @"dl.kernel1"(...)                          define internal void @"dl.kernel0"(...)
                                                           part 1    define void @"dl.kernel1"(...)

LLVM is two thirds of the time that a long gradient takes to compile, and its kernels, which are never inlined, know
nothing of one another. The texts follow from the program alone, not from how many threads compile them. What is
lost is what LLVM finds out of all calls of a kernel together; modules of one part lose nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dlvm_py.backend.cpu.outline import AS_IT_STANDS, BRIEFLY
from dlvm_py.backend.cpu.text import ModuleText
from dlvm_py.frozen import Frozen

# lines of a part, a quarter of a second of LLVM's time, and the most parts
LINES = 1250
MOST = 4
# how much of a line's time one costs that LLVM leaves as it stands, or makes quick work of
QUICK_COST = 0.2

_OURS = re.compile(r'@"(dl\.[^"]+)"')
_GLOBAL = re.compile(r"= \w+ global ")


class Part(Frozen):
    """The text of one part, and the functions in it that other parts call."""

    text: str
    exports: tuple[str, ...] = ()


def cut(module: ModuleText) -> list[Part]:
    """The parts of a module; the first has what is no kernel. One, where it is short or has memory of its own."""
    written = {name: str(f) for name, f in module.functions.items()}
    texts = {name: text for name, text in written.items() if name.startswith("dl.")}
    helpers = {name: text for name, text in written.items() if name not in texts}
    weights = {name: _weight(text) for name, text in texts.items()}
    count = min(MOST, int(sum(weights.values()) / LINES))
    if count < 2 or any(_GLOBAL.search(d) for d in module.declarations.values()):
        return [Part(module.text(written))]
    users: dict[str, set[str]] = {name: set() for name in texts}
    for name, text in texts.items():
        for used in _OURS.findall(text):
            if used != name and used in users:
                users[used].add(name)
    kernels = dict.fromkeys(module.kernels.values())
    bins: list[list[str]] = [[name for name in texts if name not in kernels], *([] for _ in range(count - 1))]
    loads = [sum(weights[n] for n in names) for names in bins]
    for group in sorted(_groups(kernels, users), key=lambda g: -sum(weights[n] for n in g)):
        lightest = min(range(count), key=loads.__getitem__)
        bins[lightest] += group
        loads[lightest] += sum(weights[n] for n in group)
    parts = []
    for names in bins:
        mine = set(names)
        exports = tuple(name for name in names if not users[name] <= mine)
        bodies = {n: texts[n].replace("define internal ", "define ", 1) if n in exports else texts[n] for n in names}
        heads = [_declaration(module.functions[name].head) for name in texts if name not in mine]
        parts.append(Part(module.text(bodies | _called(bodies.values(), helpers), heads), exports))
    return parts


def _called(bodies: Iterable[str], helpers: Mapping[str, str]) -> dict[str, str]:
    """The helpers that these texts mention, and those that they mention in turn."""
    found: dict[str, str] = {}
    work = list(bodies)
    while work:
        text = work.pop()
        more = {name: helper for name, helper in helpers.items() if name not in found and name in text}
        found |= more
        work += more.values()
    return found


def _declaration(head: str) -> str:
    return f"{head.replace('define internal', 'declare').replace('define', 'declare')}\n"


def _weight(text: str) -> float:
    """The lines of a function, as LLVM's time goes."""
    head = text.partition("\n")[0]
    return text.count("\n") * (QUICK_COST if AS_IT_STANDS in head or BRIEFLY in head else 1.0)


def _groups(kernels: Iterable[str], users: dict[str, set[str]]) -> list[list[str]]:
    """The kernels, those together of which one has the other as its only user: the body of what threads share."""
    group = {name: [name] for name in kernels}
    for name in list(group):
        if len(users[name]) == 1 and (user := next(iter(users[name]))) in group and group[user] is not group[name]:
            both = group[user] + group[name]
            group.update(dict.fromkeys(both, both))
    return list({id(g): g for g in group.values()}.values())
