"""Out of SSA: which values share a variable of the text, and what it is called.

Values may share a variable if none is written while another is still to be read. A block argument shares it with what
is passed to it where that is possible, so that `s = s + x` needs no copy; then values of the same name do.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

from dlvm_py.frozen import Mutable, field
from dlvm_py.ir import Block, Value

RESERVED = frozenset(("np", "special", "sys", "warnings", "block"))  # modules, and the variable of structure.dispatched


class Step(Mutable):
    """A statement, or several of one instruction: the variables that it assigns, and those that it reads.

    late: what is read when the first of several statements may have assigned already.
    """

    writes: list[Value]
    reads: set[Value]
    late: set[Value] = field(default_factory=set)


class Flow(Mutable):
    """A block: what is assigned on its edges, its statements, and what its end reads. `edges`: target and pairs of
    a block argument and what the value passed to it reads."""

    args: list[Value]
    steps: list[Step]
    reads: set[Value]
    edges: list[tuple[Block, list[tuple[Value, set[Value], Value | None]]]] = field(default_factory=list)


class Variables:
    """The variable of every value: `name_of`."""

    def __init__(self, order: list[Block], flows: dict[Block, Flow], reserved: Iterable[str]) -> None:
        self._order = order
        self._flows = flows
        self._reserved = set(reserved)
        self._classes: dict[Value, set[Value]] = {}
        self._apart: dict[Value, set[Value]] = {}
        self._names: dict[int, str] = {}
        self._taken: dict[str, list[set[Value]]] = {}
        self._find_interference(self._live_in())

    # -- liveness ------------------------------------------------------------------------------------------

    def _live_in(self) -> dict[Block, set[Value]]:
        live: dict[Block, set[Value]] = {b: set() for b in self._order}
        changed = True
        while changed:
            changed = False
            for b in reversed(self._order):
                found = self._at_end(b, live)
                for step in reversed(self._flows[b].steps):
                    found = (found - set(step.writes)) | step.reads
                found -= set(self._flows[b].args)
                if found != live[b]:
                    live[b], changed = found, True
        return live

    def _at_end(self, block: Block, live: dict[Block, set[Value]]) -> set[Value]:
        flow = self._flows[block]
        found = set(flow.reads)
        for target, pairs in flow.edges:
            found |= live[target]
            for _, reads, _ in pairs:
                found |= reads
        return found

    def _find_interference(self, live: dict[Block, set[Value]]) -> None:
        for b in self._order:
            flow = self._flows[b]
            now = self._at_end(b, live)
            for step in reversed(flow.steps):
                for k, v in enumerate(step.writes):
                    self._set_apart(v, (now | step.late) - {v})
                    self._set_apart(v, set(step.writes[:k]))
                now = (now - set(step.writes)) | step.reads
            for k, a in enumerate(flow.args):
                self._set_apart(a, (now - {a}) | set(flow.args[:k]))

    def _set_apart(self, value: Value, others: set[Value]) -> None:
        self._apart.setdefault(value, set()).update(others)
        for other in others:
            self._apart.setdefault(other, set()).add(value)

    # -- classes ---------------------------------------------------------------------------------------------

    def _class(self, value: Value) -> set[Value]:
        if value not in self._classes:
            self._classes[value] = {value}
        return self._classes[value]

    def _clash(self, a: set[Value], b: set[Value]) -> bool:
        if len(a) > len(b):
            a, b = b, a
        return any(not self._apart.get(v, set()).isdisjoint(b) for v in a)

    def join(self, a: Value, b: Value) -> None:
        """Let two values share a variable if they can."""
        ours, theirs = self._class(a), self._class(b)
        if ours is theirs or self._clash(ours, theirs):
            return
        given = [self._names[id(c)] for c in (ours, theirs) if id(c) in self._names]
        if len(given) == 2:
            return
        if given:
            self._names[id(ours)] = given[0]
            self._taken[given[0]].append(ours)
        ours |= theirs
        for v in theirs:
            self._classes[v] = ours

    def join_edges(self, excluded: set[Value]) -> None:
        """Let block arguments share variables with what is passed to them, the edges of later blocks first."""
        for b in reversed(self._order):
            for _, pairs in self._flows[b].edges:
                for arg, _, source in pairs:
                    if source is not None and not {arg, source} & excluded:
                        self.join(arg, source)

    # -- names -----------------------------------------------------------------------------------------------

    def give(self, value: Value, name: str) -> None:
        """Fix the name of a value's variable: a parameter."""
        found = self._class(value)
        self._names[id(found)] = name
        self._taken.setdefault(name, []).append(found)

    def reserve(self, name: str) -> None:
        """Keep a name from other variables."""
        self._reserved.add(name)

    def name_all(self, values: Iterable[Value], wish: dict[Value, str]) -> None:
        """Name the variables of values, in their order, each as close to its wish as possible."""
        number_of = {v: k for k, v in enumerate(wish)}
        for value in values:
            found = self._class(value)
            if id(found) in self._names:
                continue
            wishes = [wish[v] for v in sorted((v for v in found if v in wish), key=number_of.__getitem__)]
            base = next((w for w in wishes if w), "")
            fresh, base = not base, base or "t"
            number = 0
            name = base
            while not self._is_free(name, found) or (fresh and name in self._taken):
                number += 1
                name = f"{base}{number}" if not base[-1].isdigit() else f"{base}_{number}"
            self._names[id(found)] = name
            self._taken.setdefault(name, []).append(found)

    def _is_free(self, name: str, values: set[Value]) -> bool:
        if name in self._reserved or keyword.iskeyword(name) or hasattr(builtins, name):
            return False
        return not any(self._clash(values, other) for other in self._taken.get(name, ()))

    def name_of(self, value: Value) -> str:
        """The name of a value's variable."""
        return self._names[id(self._class(value))]


def new_name(wanted: str, taken: set[str]) -> str:
    """A name that is not taken, and no word of Python's; it is taken from now on."""
    found, n = wanted, 0
    while found in taken or keyword.iskeyword(found):
        n += 1
        found = f"{wanted}{n}"
    taken.add(found)
    return found


def plain_name(text: str) -> str:
    """A name of the IR as one of Python, "" if none is left.

    Without the number behind it; a shadow is called an adjoint, and what the front end makes of lists and joins by what
    it is.
    """
    text = re.sub(r"^\$object[.\d]*", "items_", text)
    text = re.sub(r"^value[.\d]*", "", text)
    text = re.sub(r"[\W_]+", "_", text).strip("_")
    text = re.sub(r"_?shadow(?=_|\b)", "_adj", text).replace("_adj_adj", "_adj2")
    text = re.sub(r"_\d+$", "", text).lstrip("_")
    if text in ("", "adj"):
        return "adj" if text else ""
    return text if text.isidentifier() else ""
