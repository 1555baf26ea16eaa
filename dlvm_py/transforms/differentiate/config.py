"""What is asked of the adjoint pass, and what it notes of the gradients that it makes."""

from __future__ import annotations

from typing import NamedTuple

from dlvm_py.frozen import Frozen

# in `meta` of a gradient: whether it keeps something that one with a budget would not, and can be run twice
CAN_RUN_AGAIN = "can be run again"
RECORD = "what a gradient keeps"  # in `meta` of a gradient: the entries


class Output(NamedTuple):
    """An output of the primal: ("result", leaf number) or ("param", parameter index) for a written one."""

    kind: str
    index: int


class AdjointConfig(Frozen):
    """Which derivative, of what, and what else is returned.

    `wrt` are indices of parameters that are float scalars or pointers to floats; `outputs` are seeded (with
    1, or each with one more parameter at the end if `seedable`); `keeping` is returned after the
    derivatives. The gradient is that of the sum over all elements of all outputs, weighted by the seeds.
    checkpoint: "store" tapes everything, "recompute" as little as possible, a number of bytes as much as fits
    (checkpoint.py). "auto" is "store" with a note whether another version could do with less.
    shared: parameters that may lie in the same memory, some of which the primal writes. They are copies already, and
    written; those of floats bring their shadows along, as parameters behind the primal's, which may lie in the same
    memory as well.
    """

    wrt: tuple[int, ...]
    outputs: tuple[Output, ...]
    keeping: tuple[Output, ...] = ()
    seedable: bool = False
    checkpoint: str | int = "store"
    shared: frozenset[int] = frozenset()
