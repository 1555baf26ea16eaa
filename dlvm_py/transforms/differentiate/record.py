"""The record of what a gradient keeps, computes again and copies: for the user's eyes (report.py).

Sizes are formulas over the parameters: a number, ("param", k), ("extent", k, axis) of the k-th IR parameter,
("trips", line) for a loop whose number of trips is not known when it begins, ("unknown", line) for an extent that is
only known when it is there, or (op, a, b) with op one of + - * // max min.
"""

from __future__ import annotations

from dlvm_py.errors import Loc
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Block, BlockArg, Builder, Function, Instruction, Literal, PointerType, TensorType, Value
from dlvm_py.ir.analysis import written_pointer
from dlvm_py.ir.analysis.extents import Found, extents_of
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.transforms.differentiate.primal import Primal

Formula = int | tuple[object, ...]

_OPS = {"add": "+", "subtract": "-", "multiply": "*", "floorDivide": "//", "max": "max", "min": "min"}
REFERENCE = 40  # bytes of a reference on a tape, at most


class Entry(Frozen):
    """One decision. kind: "stored", "recomputed", "copied", "segmented" or "taped" (a loop that could not be).

    size: bytes of all that is stored, or of a state of a segmented loop; of that `steps` as well. loop: where the
    segmented loop begins that it belongs to.
    """

    kind: str
    name: str
    loc: Loc | None
    type: str = ""
    size: Formula = 0
    steps: Formula = 0
    loop: Loc | None = None
    why: str = ""


def combine(op: str, a: Formula, b: Formula) -> Formula:
    """The formula `a op b`, without what is neutral."""
    if isinstance(a, int) and isinstance(b, int):
        return evaluate((op, a, b))
    if op == "*" and (a == 0 or b == 0):
        return 0
    if (op in "+-" and b == 0) or (op in ("*", "//") and b == 1):
        return a
    if (op == "+" and a == 0) or (op == "*" and a == 1):
        return b
    if op == "*" and isinstance(b, int):
        a, b = b, a
    if op == "*" and isinstance(a, int) and isinstance(b, tuple) and b[0] == "*" and isinstance(b[1], int):
        return ("*", a * b[1], b[2])
    if op == "*" and isinstance(b, tuple) and b[0] == "*" and isinstance(b[1], int):
        return combine("*", b[1], combine("*", a, b[2]))  # type: ignore[arg-type]
    if op in "+-" and isinstance(b, int) and isinstance(a, tuple) and a[0] in ("+", "-") and isinstance(a[2], int):
        whole = (a[2] if a[0] == "+" else -a[2]) + (b if op == "+" else -b)
        return combine("+", a[1], whole) if whole >= 0 else ("-", a[1], -whole)  # type: ignore[arg-type]
    return ("-", a, -b) if op == "+" and isinstance(b, int) and b < 0 else (op, a, b)


def evaluate(f: Formula) -> int:
    """The number that a formula of numbers is."""
    if not isinstance(f, tuple):
        return f
    op, a, b = f
    return calculate(op, evaluate(a), evaluate(b))  # type: ignore[arg-type]


def calculate(op: str, a: int, b: int) -> int:
    """`a op b`. Means of loops that depend on others need not be whole."""
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // b if b else 0
        case "max":
            return max(a, b)
    return min(a, b)


class Record:
    """Collects the entries of one differentiation."""

    def __init__(self, primal: Primal, segments: list[Loop]) -> None:
        """segments: the loops over segments, which are no loops of the user's."""
        self.entries: list[Entry] = []
        self._primal = primal
        self._function: Function = primal.function
        self._segments = {loop: loc_of(_steps(loop)) for loop in segments}
        self._parameters = {p: k for k, p in enumerate(primal.formal)}
        self._parameters |= {p: k for k, p in enumerate(primal.params)}  # copies of what is written
        self._known: dict[Value, Formula] = {}
        self._extents: dict[tuple[Value, int], Formula] = {}
        self._sources_of_extents: Found = {}
        self._kept: set[Value] = set()
        for formal, value in zip(primal.formal, primal.params, strict=False):
            if value is not formal:
                self._copied(formal, value)

    def keeps_some(self) -> bool:
        """Whether there is anything on a tape, or memory that stays for the reverse sweep."""
        return any(e.kind == "stored" for e in self.entries)

    # -- decisions -------------------------------------------------------------------------------------

    def stored(
        self, value: Value, place: Block | None = None, itemsize: int | None = None, header: Loop | None = None
    ) -> None:
        """`value` goes on the tape at `place`, or (None) stays in memory.

        itemsize: the bytes of a number there, or of a reference to rows that have an entry of their own. header: the
        loop whose header `place` is in, which runs once more than the rest.
        """
        size = self._bytes(value) if itemsize is None else itemsize
        loop = self._primal.loop_of(place) if place is not None else None
        segment = None
        while loop is not None:
            if loop in self._segments:
                segment = self._segments[loop]
            else:
                trips = self.trips(loop)
                size = combine("*", combine("+", trips, 1) if loop is header else trips, size)
            loop = loop.parent
        self._add("stored", value, size, segment)

    def kept(self, value: Value) -> None:
        """The reverse sweep reads an array of the forward sweep, which nobody has to put anywhere."""
        if value not in self._kept:
            self._kept.add(value)
            self.stored(value)

    def recomputed(self, value: Value) -> None:
        """`value` is computed again."""
        self._add("recomputed", value, 0, None)

    def segmented(self, loop: Loop, state: list[Value], why: str = "") -> None:
        """A loop is run again from states that hold `state`, or (why) cannot be."""
        size: Formula = 0
        for v in state:
            size = combine("+", size, self._memory(v) if isinstance(v.type, PointerType) else 8)
        inner = _steps(loop)
        loc = loc_of(inner)
        self.entries.append(Entry("taped" if why else "segmented", "", loc, "", size, self.trips(inner), why=why))

    def _copied(self, formal: Value, copy: Value) -> None:
        for i in self._function.instructions():
            pointer = written_pointer(i)
            if pointer is not None and copy in self._roots(pointer) and i.loc is not None:
                self.entries.append(Entry("copied", formal.name, i.loc, str(formal.type), self._memory(formal)))
                return

    def _roots(self, pointer: Value) -> set[Value]:
        found = set(self._primal.points_to.roots(pointer))
        # a copy may be seen through a view that has the parameter's type
        return found | {p for p in self._primal.params if found & self._primal.points_to.roots(p)}

    def _add(self, kind: str, value: Value, size: Formula, segment: Loc | None) -> None:
        loc = value.loc if isinstance(value, Instruction) else None
        if loc is None and isinstance(value, BlockArg):
            loc = next((i.loc for i in value.block.instructions if i.loc is not None), None)
        is_load = isinstance(value, Instruction) and value.op.name == "load"
        name = value.operands[0].name if is_load else value.name  # type: ignore[attr-defined]
        entry = Entry(kind, name, loc, str(value.type), size, loop=segment)
        if kind == "stored" or entry not in self.entries:
            self.entries.append(entry)

    # -- formulas --------------------------------------------------------------------------------------

    def trips(self, loop: Loop) -> Formula:
        """How many times a loop runs at most."""
        loc = loc_of(loop)
        last = loop.header.instructions[-1]
        test = last.operands[0] if last.op.name == "conditional" else None
        if isinstance(test, Instruction) and test.op.name == "lessThan" and self._counts(test.operands[0], loop):
            return self._formula(test.operands[1])
        return ("trips", loc.line if loc else 0)

    def _counts(self, value: Value, loop: Loop) -> bool:
        """Whether `value` is an argument of the loop that begins with 0 and steps by 1."""
        if not isinstance(value, BlockArg) or value.block is not loop.header:
            return False
        at = value.block.args.index(value)
        start = self._primal.preheader(loop).targets[0].args[at]
        outer = loop.parent
        if outer in self._segments and isinstance(start, BlockArg) and start.block is outer.header:
            start = self._primal.preheader(outer).targets[0].args[outer.header.args.index(start)]
        return isinstance(start, Literal) and start.value == 0

    def _bytes(self, value: Value) -> Formula:
        if not isinstance(value.type, PointerType):
            return self._memory(value)
        # a reference; what the loop has allocated lives as long
        return combine("+", self._memory(value) if isinstance(value, Instruction) else 0, REFERENCE)

    def _memory(self, value: Value) -> Formula:
        t = value.type.pointee if isinstance(value.type, PointerType) else value.type
        if not isinstance(t, TensorType):
            return REFERENCE
        size: Formula = t.dtype.itemsize
        for n in extents_of(self._scratch(), value, self._sources_of_extents):
            size = combine("*", size, self._formula(n))
        return size

    def _scratch(self) -> Builder:
        return Builder(self._function, Block("scratch"))

    def _formula(self, value: Value) -> Formula:
        if value not in self._known:
            self._known[value] = self._decide(value)
        return self._known[value]

    def _decide(self, value: Value) -> Formula:
        if isinstance(value, Literal):
            return value.value if isinstance(value.value, int) else ("unknown", 0)
        if value in self._parameters:
            return ("param", self._parameters[value])
        if isinstance(value, BlockArg):
            loop = self._primal.loop_of(value.block)
            if loop is not None and self._counts(value, loop):
                # where the inner loop depends on the outer one, the mean is that of its trips
                return combine("//", combine("-", self.trips(loop), 1), 2)
        if isinstance(value, Instruction):
            op = _OPS.get(value.op.name)
            if op is not None:
                return combine(op, self._formula(value.operands[0]), self._formula(value.operands[1]))
            if value.op.name == "extent":
                return self._extent(value)
        loc = value.loc if isinstance(value, Instruction) else None
        return ("unknown", loc.line if loc else 0)

    def _extent(self, extent: Instruction) -> Formula:
        """Of a parameter, by structure, or of an array that all paths bring with one extent."""
        base, axis = extent.operands[0], extent.attrs["at"]
        if base in self._parameters:
            return ("extent", self._parameters[base], axis)
        found = extents_of(self._scratch(), base)[axis]
        if isinstance(found, Instruction) and found.op.name == "extent":
            base, axis = found.operands[0], found.attrs["at"]
            if base in self._parameters:
                return ("extent", self._parameters[base], axis)
            return self._passed(base, axis, extent.loc)
        return self._formula(found)

    def _passed(self, base: Value, axis: int, loc: Loc | None) -> Formula:
        """Of an array that blocks pass on: the largest of what comes in from outside, around any loops."""
        unknown: Formula = ("unknown", loc.line if loc else 0)
        key = (base, axis)
        if key not in self._extents:
            self._extents[key] = unknown  # what depends on itself, as by growing in a loop, is not known
            found = [self._formula(v) if isinstance(v, Value) else v for v in self._sources(base, axis, unknown)]
            if found:
                largest = found[0]
                for other in found[1:]:
                    largest = largest if other == largest else combine("max", largest, other)
                self._extents[key] = largest
        return self._extents[key]

    def _sources(self, base: Value, axis: int, unknown: Formula) -> list[Value | Formula]:
        """What the extent of a block argument can be: values, extents of parameters, `unknown`."""
        sources: list[Value | Formula] = []
        seen, work = {(base, axis)}, [(base, axis)]
        while work:
            base, axis = work.pop()
            if not isinstance(base, BlockArg):
                sources.append(unknown)
                continue
            at = base.block.args.index(base)
            for block, target in self._primal.edges.get(base.block, ()):
                flow = block.targets[target].args[at]
                if isinstance(flow, Literal):
                    continue
                extent = extents_of(self._scratch(), flow)[axis]
                if not isinstance(extent, Instruction) or extent.op.name != "extent":
                    sources.append(extent)
                    continue
                of = (extent.operands[0], extent.attrs["at"])
                if of[0] in self._parameters:
                    sources.append(("extent", self._parameters[of[0]], of[1]))
                elif of not in seen:
                    seen.add(of)
                    work.append(of)
        return sources


def _steps(loop: Loop) -> Loop:
    """Of a loop over segments, the loop over steps."""
    return loop.children[0] if loop.children else loop


def loc_of(loop: Loop) -> Loc | None:
    """Where a loop begins."""
    return next((i.loc for i in reversed(loop.header.instructions) if i.loc is not None), None)
