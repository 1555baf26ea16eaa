"""The one table of options of dlvm.jit and of the environment variables.

At the bottom of the import graph.
"""

from __future__ import annotations

import os
from typing import Any

from dlvm_py.decisions import Taken
from dlvm_py.frozen import Frozen, field_names


class Schedule(Frozen):
    """How code is generated: what changes times, and never results. The defaults are the cost model's choices.

    The first six are LLVM's. decisions: those of our passes that are taken otherwise than usual (decisions.py).
    """

    level: int = 0  # of LLVM's pipeline, 1 to 3; 0: by the length of the module
    interleave: bool = True  # several vectors a trip of a loop
    unroll: bool = True  # loops of known, short counts
    slp: bool = True  # vectors of what stands side by side in a block
    gathers: bool = True  # vectors of elements that lie apart are gathered; else each is put in by itself, or none is
    vector_bits: int = 0  # at most that wide, 256 or 512, where the CPU has both; 0: LLVM's choice for the CPU
    decisions: Taken = ()

    def changes(self) -> dict[str, Any]:
        """What is otherwise than usual: options of LLVM, and decisions, by their names."""
        mine = {name: getattr(self, name) for name in field_names(type(self)) if name != "decisions"}
        return {n: v for n, v in mine.items() if v != getattr(Schedule(), n)} | dict(self.decisions)

    @staticmethod
    def from_json(values: dict[str, Any]) -> Schedule:
        """That of `as_dict`, as JSON gives it back."""
        return Schedule(**{**values, "decisions": tuple((name, value) for name, value in values["decisions"])})


class Options(Frozen):
    """What dlvm.jit(...) takes, and the schedule. The defaults are the documented behaviour."""

    target: str = "cpu"
    parallel: bool = True
    fastmath: bool = False
    boundscheck: bool | None = None  # None: DLVM_BOUNDSCHECK, else True
    cache: bool = True
    checkpoint: str | int = "auto"
    tune: bool = False
    schedule: Schedule = Schedule()

    def key(self) -> tuple[tuple[str, object], ...]:
        """The options that change generated code, for the cache key."""
        names = (name for name in field_names(type(self)) if name not in ("cache", "tune"))
        return tuple((name, getattr(self, name)) for name in names)

    @property
    def checks_bounds(self) -> bool:
        """Whether indices are checked."""
        return environment("DLVM_BOUNDSCHECK") != "0" if self.boundscheck is None else self.boundscheck

    @property
    def replays_loops(self) -> bool:
        """Whether loops that launch the same kernels in each trip are recorded and replayed as CUDA graphs."""
        return self.target == "gpu" and environment("DLVM_GPU_GRAPHS") != "0"


# name -> (default, meaning)
ENVIRONMENT: dict[str, tuple[str, str]] = {
    "DLVM_CACHE_DIR": ("", "folder of the disk cache; empty: the user's cache folder"),
    "DLVM_CACHE_SIZE": ("512", "size bound of the disk cache in MiB"),
    "DLVM_CACHE": ("1", "0 turns the disk cache off"),
    "DLVM_BUFFERS": (
        "",
        "MiB of freed memory that are kept for the next arrays, 0 for none; empty: a 16th of the memory, at least 256",
    ),
    "DLVM_NUM_THREADS": ("", "threads that share array kernels; empty: the processors that the process may use"),
    "DLVM_TAPE": (
        "",
        "MiB that a gradient may take before it runs loops again; empty: a quarter of the memory there is",
    ),
    "DLVM_BOUNDSCHECK": ("1", "0 leaves index checks out where boundscheck=None"),
    "DLVM_ENTRY": ("native", "python forces the entry that is written in Python"),
    "DLVM_GPU": ("", "emulator runs what is compiled with target='gpu' on the CPU; empty: the first NVIDIA device"),
    "DLVM_GPU_GRAPHS": ("1", "0 launches every kernel by itself, where loops would be replayed as CUDA graphs"),
    "DLVM_VERIFY": ("0", "1 runs the IR verifier after every pass that changes something"),
}


def environment(name: str) -> str:
    """The value of one of our environment variables, or its default."""
    return os.environ.get(name, ENVIRONMENT[name][0])
