"""What a function does, in the user's words: `f.report()`.

Of a gradient what it keeps, computes again and copies, and the bytes that it takes; of all which loops threads share,
and which a GPU replays.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dlvm_py.errors import ArgumentError, Loc
from dlvm_py.frozen import Frozen
from dlvm_py.ir.interface import GrowingSpec, RecordSpec, Spec, TupleSpec, leaves
from dlvm_py.runtime.trees import parts_of
from dlvm_py.transforms.differentiate.rearrange import LITTLE
from dlvm_py.transforms.differentiate.record import Entry, calculate
from dlvm_py.transforms.share_loops import LoopNote


class Line(Frozen):
    """One thing that a gradient does to a value.

    name: of the variable, or the text of the expression. file, line: where it comes from (0: not known). type: as in
    the IR. formula: of its bytes, all steps together, in terms of the arguments.
    """

    name: str
    file: str
    line: int
    type: str
    formula: str

    def __str__(self) -> str:
        return _row(self.file, self.line, self.name, self.formula)


class LoopLine(Frozen):
    """Whether threads share a loop that is written in Python.

    text, file, line: of the loop. reason: why they do not; "" where they do. at: the line that the reason is about (0:
    none in the loop).
    """

    text: str
    file: str
    line: int
    reason: str
    at: int

    def __str__(self) -> str:
        about = f" (line {self.at})" if self.at else ""
        return _row(self.file, self.line, self.text, self.reason + about)


def _row(file: str, line: int, what: str, said: str) -> str:
    where = f"{Path(file).name}:{line}" if line else ""
    return f"{where:<16} {what:<36} {said}".rstrip()


class Report:
    """What a function does with its loops, and a gradient with values of the forward sweep.

    shared, alone: the loops that threads share, if there is enough work, and the others, with the reason. A loop of a
    gradient stands there once for each sweep, if there is a difference. replayed, launched: on a GPU, the loops that
    are CUDA graphs, and the others that launch kernels.

    stored: kept for the reverse sweep, on the tape or as an array that stays. recomputed: computed again there.
    copied: arguments that the function writes. segmented: loops that are run again (checkpoint=). left: loops that
    checkpoint= asked for and that are taped all the same, with the reason.
    """

    def __init__(
        self,
        title: str,
        entries: list[Entry],
        checkpoint: str | int,
        leaves: list[str],
        read: Callable[..., list[Any]],
        loops: tuple[LoopNote, ...] = (),
        launching: tuple[LoopNote, ...] = (),
    ) -> None:
        """leaves: the names of the IR parameters. read(*args): their values."""
        lines = tuple(dict.fromkeys(map(_loop_line, loops)))
        self.shared = tuple(line for line in lines if not line.reason)
        self.alone = tuple(line for line in lines if line.reason)
        lines = tuple(dict.fromkeys(map(_loop_line, launching)))
        self.replayed = tuple(line for line in lines if not line.reason)
        self.launched = tuple(line for line in lines if line.reason)
        self.title = title
        self.checkpoint = checkpoint
        self._entries = entries
        self._leaves = leaves
        self._read = read
        self.stored = self._lines("stored")
        self.recomputed = self._lines("recomputed")
        self.copied = self._lines("copied")
        self.segmented = self._lines("segmented")
        self.left = self._lines("taped")

    def _lines(self, kind: str) -> tuple[Line, ...]:
        return tuple(self._line(e) for e in self._entries if e.kind == kind)

    def _line(self, e: Entry) -> Line:
        name = _title(e)
        what = e.why or (self._text(e.size) + " bytes" if e.size else "")
        if e.kind == "segmented":
            name, what = _text_at(e.loc, whole=True), f"{what} a state" if what else "a few numbers a state"
        elif e.kind == "taped":
            name = _text_at(e.loc, whole=True)
        return Line(name, e.loc.file if e.loc else "", e.loc.line if e.loc else 0, e.type, what)

    # -- sizes -----------------------------------------------------------------------------------------

    @property
    def formula(self) -> str:
        """The bytes of all that is stored, in terms of the arguments, if no loop is run again."""
        parts = [self._text(e.size) for e in self._entries if e.kind == "stored" and e.size]
        return " + ".join(dict.fromkeys(_counted(parts))) or "0"

    def bytes(self, *args: Any, trips: dict[int, int] | None = None, **kwargs: Any) -> int:
        """The bytes that are stored for these arguments, at most: the tape, and the states of loops that are run again.

        trips: by the line where it begins, how often a loop runs at each entry that is not known from the arguments
        (`while`). Blocks of memory are rounded up by the system; what the adjoints themselves take is not in it.

        Raises: ArgumentError DL709 for a loop or an extent that is not known from the arguments.
        """
        known = self._read(*args, **kwargs)
        value = lambda f: _value(f, known, trips or {})  # noqa: E731
        total = 0
        segments: dict[Loc | None, int] = {}
        for e in self._entries:
            if e.kind == "stored":
                size = max(value(e.size), 0)  # formulas are of loops that run: of range(n) for an n below 0 none does
                if any(s.kind == "segmented" and s.loc == e.loop for s in self._entries):
                    segments[e.loop] = segments.get(e.loop, 0) + size
                else:
                    total += size
        for s in self._entries:
            if s.kind == "segmented" and s.loc in segments:
                total += _in_segments(segments[s.loc], value(s.steps), value(s.size), self.checkpoint)
        return total

    def _text(self, f: Any) -> str:
        return _shown(f, self._leaves)

    # -- text ------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(self._paragraphs())

    def _paragraphs(self) -> Iterator[str]:
        yield self.title
        if self._entries:
            yield f"bytes: {self.formula}" + (" if no loop were run again" if self.segmented else "")
        for title, lines in (
            ("stored for the reverse sweep", self.stored),
            ("computed again in the reverse sweep", self.recomputed),
            ("arguments that are copied, because the function writes them", self.copied),
            (f"loops that are run again (checkpoint={self.checkpoint!r})", self.segmented),
            (f"loops that are taped in spite of checkpoint={self.checkpoint!r}", self.left),
        ):
            if lines:
                yield f"{title}:"
                yield from (f"  {line}" for line in lines)
        for title, loops in (
            ("loops that threads share, where there is enough work", self.shared),
            ("loops that one thread runs", self.alone),
            ("loops that are recorded and replayed as CUDA graphs, where they run often enough", self.replayed),
            ("loops that launch kernel by kernel", self.launched),
        ):
            if loops:
                yield f"{title}:"
                yield from (f"  {line}" for line in loops)

    def __repr__(self) -> str:
        return str(self)


def _loop_line(note: LoopNote) -> LoopLine:
    loc, about = note.loc, note.about
    at = about.line if about is not None and (loc is None or about.line != loc.line) else 0
    return LoopLine(_text_at(loc, whole=True), loc.file if loc else "", loc.line if loc else 0, note.reason, at)


_OURS = {"trip": "how often the loop ran", "came_from": "the branch that was taken", "way": "the way out of the loop"}


def _title(e: Entry) -> str:
    """What a value is called: by the user's name, by the text of its expression, or by what it serves."""
    if e.name.endswith("_shadow"):
        return f"adjoint of {e.name.removesuffix('_shadow') or _text_at(e.loc) or 'a temporary'}"
    if e.name == "tape" or e.name.endswith("_tape"):
        return f"where {e.name.removesuffix('tape').removesuffix('_') or _text_at(e.loc) or 'a temporary'} is kept"
    return _OURS.get(e.name) or e.name or _text_at(e.loc) or "a temporary"


def _counted(parts: list[str]) -> list[str]:
    """Equal terms as one: 3 * (term)."""
    return [p if parts.count(p) == 1 else f"{parts.count(p)} * ({p})" for p in parts]


def _text_at(loc: Loc | None, whole: bool = False) -> str:
    """The text of an expression, or (whole) its line."""
    if loc is None:
        return ""
    line = linecache.getline(loc.file, loc.line).rstrip("\n")
    if whole or loc.end_line not in (0, loc.line):
        return line.strip()
    return line.encode()[loc.col : loc.end_col].decode(errors="ignore").strip() or line.strip()


def _shown(f: Any, leaves: list[str]) -> str:
    """A formula as a Python expression; what is not known beforehand in words."""
    if isinstance(f, int):
        return str(f)
    match f[0]:
        case "param":
            return leaves[f[1]]
        case "extent":
            return f"{leaves[f[1]]}.shape[{f[2]}]"
        case "trips":
            return f"trips(line {f[1]})"
        case "unknown":
            return f"size(line {f[1]})"
        case "max" | "min":
            return f"{f[0]}({_shown(f[1], leaves)}, {_shown(f[2], leaves)})"
    sums = ("+", "-") if f[0] in ("*", "//") else ()
    parts = [_shown(p, leaves) for p in f[1:]]
    parts = [f"({p})" if isinstance(q, tuple) and q[0] in sums else p for p, q in zip(parts, f[1:], strict=True)]
    return f" {f[0]} ".join(parts)


def _value(f: Any, known: list[Any], trips: dict[int, int]) -> int:
    if isinstance(f, int):
        return f
    match f[0]:
        case "param":
            return int(known[f[1]])
        case "extent":
            return int(known[f[1]].shape[f[2]])
        case "trips":
            if f[1] in trips:
                return trips[f[1]]
            raise ArgumentError(
                f"how often the loop at line {f[1]} runs is not known from the arguments",
                code="DL709",
                help=f"report.bytes(..., trips={{{f[1]}: 1000}})",
            )
        case "unknown":
            raise ArgumentError(f"an array of line {f[1]} has a size that is only known at run time", code="DL709")
    a, b = (_value(p, known, trips) for p in f[1:])
    return calculate(f[0], a, b)


def _in_segments(tape: int, steps: int, state: int, checkpoint: str | int) -> int:
    """The bytes of a loop that is run again: of the tape of one segment, and of the states that are kept."""
    runs = steps + 1
    step = max(tape // runs, 1)
    if isinstance(checkpoint, int):
        length = checkpoint // 2 // step
    else:
        length = (state + LITTLE) // step
    length = min(max(length, 1), runs)
    last = steps // length
    few = (last + 1).bit_length()
    if isinstance(checkpoint, int):
        few = max(few, (checkpoint - length * step) // max(state, 1))
    return length * step + (1 + min(few, last)) * state


# -- arguments ---------------------------------------------------------------------------------------------


def leaf_names(name: str, spec: Spec) -> list[str]:
    """What the IR parameters of an argument are, as a user would write them."""
    if isinstance(spec, TupleSpec | RecordSpec):
        found = []
        for k, item in enumerate(spec.items):
            found += leaf_names(name + _step(spec, k), item)
        return found
    return [name for _ in leaves(spec)]


def _step(spec: TupleSpec | RecordSpec, k: int) -> str:
    if isinstance(spec, TupleSpec) or not spec.names:
        return f"[{k}]"
    return f"[{spec.names[k]!r}]" if spec.kind is dict else f".{spec.names[k]}"


def leaf_values(spec: Spec, value: Any) -> list[Any]:
    """The values of the IR parameters of an argument. Raises: ArgumentError DL700 for one that does not fit."""
    if isinstance(spec, TupleSpec | RecordSpec):
        parts = parts_of(spec, value)
        if parts is None:
            raise ArgumentError("the arguments do not have the structure that the report is for", code="DL700")
        return [v for item, part in zip(spec.items, parts, strict=True) for v in leaf_values(item, part)]
    if isinstance(spec, GrowingSpec):
        return [value for _ in spec.columns]
    return [value for _ in leaves(spec)]
