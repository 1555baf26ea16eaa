"""From how much work on threads are worth their wake-up: numbers on which passes, back end and runtime agree.

Work is in tenths of nanoseconds, as ir/analysis/cost.py has it. A kernel is *brief* from GRAIN / BRIEF on, where
threads that are awake are worth their help (runtime/native/brief.ll). At the bottom of the import graph.
"""

from __future__ import annotations

GRAIN = 1_000_000  # of a kernel or a loop that threads share
CHUNK = 125_000  # of what a thread takes at a time
BRIEF_BITS = 2
BRIEF = 1 << BRIEF_BITS
