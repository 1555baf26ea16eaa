"""What the IR says of how a kernel runs: the marks of its first root (tree_rules.MARKS), as the back end takes them.

store %s to %p jam 4 along 0 from 768 past 33554432 lines 1 ahead 393216 grain 1000000
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm_py.deferred import deferred
from dlvm_py.frozen import Frozen
from dlvm_py.ir import Instruction
from dlvm_py.ir.tree_rules import MARKS

if TYPE_CHECKING:
    from dlvm_py.backend.cpu import jam, tiles
else:
    # what functions without such kernels are compiled without
    jam, tiles = (deferred(f"dlvm_py.backend.cpu.{name}") for name in ("jam", "tiles"))


class Plan(Frozen):
    """How a kernel runs.

    groups: what is computed together: rows, or tiles. shifts: rows that are read at several places are loaded once.
    past: from how many bytes on results go past the caches. lines: by whole lines of so many rows that go together.
    ahead: such rows are fetched when those before them are computed, where they have no more bytes. grain: the work
    from which on threads share it. None: they do not.
    """

    groups: jam.Jam | tiles.Tile | None = None
    shifts: bool = False
    past: int | None = None
    lines: int = 1
    ahead: int | None = None
    grain: int | None = None


_PLAIN = Plan()


def plan_of(root: Instruction) -> Plan:
    """What the first root of a kernel says."""
    attrs = root.attrs
    if not MARKS & attrs.keys():
        return _PLAIN
    groups: jam.Jam | tiles.Tile | None = None
    if "jam" in attrs:
        groups = jam.Jam(attrs["jam"], attrs["along"], attrs["least"])
    elif "tile" in attrs:
        groups = tiles.Tile(attrs["tile"], attrs["along"])
    past, lines, ahead = attrs.get("past"), attrs.get("lines", 1), attrs.get("ahead")
    return Plan(groups, attrs.get("shifts", False), past, lines, ahead, attrs.get("grain"))
