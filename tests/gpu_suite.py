"""All programs that devices and the assembler are asked about: those of gpu_programs.py, of loops and of graphs.

As there: name: (function, () -> arguments, the parameters that gradients are taken with respect to).
"""

from gpu_programs import PROGRAMS
from test_gpu_graphs import MADE, STATIC
from test_gpu_loops import CASES, ROWS, SUMS

TRIPS = 25  # of loops that become graphs


def _with_trips(make):
    return lambda: (*make(), TRIPS)


SUITE = {
    **PROGRAMS,
    **{f"loop {name}": (row[0], row[1], ()) for name, row in {**CASES, **ROWS}.items() if "raises" not in name},
    **{f"loop {name}": (function, make, wrt) for name, (function, make, _, wrt) in SUMS.items()},
    **{f"graph {name}": (row[0], _with_trips(row[1]), ()) for name, row in {**STATIC, **MADE}.items()},
}
