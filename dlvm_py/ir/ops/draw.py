"""Numbers drawn from NumPy's bit generators: their own streams, bit for bit.

A generator is the address of a `bitgen_t` of NumPy's C interface, a u64: five words, the state and the functions
next_uint64, next_uint32, next_double and next_raw of it. `draw` gives the next number of a distribution, by NumPy's own
compiled code (`libnpyrandom`, which every NumPy has for those who link to it), or by the functions of the `bitgen_t`
itself. The interpreter draws by the methods of the `Generator`.

Drawing changes the state, which everybody sees: it happens as often as the program says, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.ir.distributions import DISTRIBUTIONS
from dlvm_py.ir.op import IO, TRAP, Kind, Op
from dlvm_py.ir.types import DTYPES, I64, U64, Type, scalar
from dlvm_py.ir.value import Value

WHY = "a number that is drawn does not change with what it is drawn by"


def _draw_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    generator, *parameters = operands
    row = DISTRIBUTIONS.get(attrs["distribution"])
    if row is None:
        raise TypeError(f"there is no distribution {attrs['distribution']}")
    wanted = [scalar(DTYPES[name]) for name in row.parameters]
    if generator.type != scalar(U64) or [v.type for v in parameters] != wanted:
        given = ", ".join(str(v.type) for v in operands)
        raise TypeError(f"{attrs['distribution']} is drawn by a u64 and {len(wanted)} parameters, not by ({given})")
    return scalar(DTYPES[row.result])


def _seed_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    (seed,) = operands
    if seed.type != scalar(I64):
        raise TypeError(f"a generator is seeded by an i64, not by {seed.type}")
    return scalar(U64)


# draw d from %g (parameters): the next number of a distribution
draw = Op(
    "draw", Kind.CHECK, _draw_type, None, attrs=("distribution",), effects=frozenset({TRAP, IO}), no_derivative=WHY
)  # fmt: skip
# seedGenerator s: a new PCG64, as np.random.default_rng(s); it lives until the call from outside is over
seedGenerator = Op(
    "seedGenerator", Kind.CHECK, _seed_type, None, effects=frozenset({TRAP, IO}), no_derivative=WHY
)  # fmt: skip

DRAWS = (draw, seedGenerator)


def address_of(generator: np.random.Generator) -> np.uint64:
    """What a generator is in compiled code."""
    return np.uint64(generator.bit_generator.ctypes.bit_generator.value)
