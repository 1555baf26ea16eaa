"""How each op is written as an expression: one entry an op, and the reasons where there is none.

An entry is source with `_0`, `_1`, ... for its operands, or a function of the writer and the instruction. What is a
statement (memory, tapes, calls, checks, control) is written by statements.py.

Numbers are *weak* or *strong*. A weak number is one of Python (a float, an int), which takes part in any dtype; a
strong one is NumPy's, of its IR dtype. Numbers of f64, i64, c128 and bool may be either, whatever the program makes
of them; all others are strong. Where Python's operator would do other things with weak numbers than the op says
(1.0 / 0.0, (-8.0) ** 0.5), the NumPy function is written.
"""

from __future__ import annotations

from dlvm_py.backend.python.elementwise import ELEMENTWISE
from dlvm_py.backend.python.rearranging import REARRANGING
from dlvm_py.backend.python.reductions import REDUCTIONS
from dlvm_py.backend.python.writer import Entry

SPELLING: dict[str, Entry] = {**ELEMENTWISE, **REARRANGING, **REDUCTIONS}

# what statements.py and function.py write as statements
STATEMENTS = frozenset(
    "allocateHeap load store scatter keepCopy keepView createStack push pop destroyStack tuple extract apply check"
    " print raise branch conditional return".split()
)
LOWERED = "lowered before it is written as Python: lower_aggregates, lower_functions and lower_shape do it"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        "allocateAggregate allocateCounted allocateStack allocateBox projectBox deallocate copy bitCast aggregate"
        " enumCase insert makeCell cellTag cellItem leaf wholeEnum branchEnum builtin applyValue reduceBy scanBy"
        " reduceWindowBy convolve".split(),
        LOWERED,
    ),
    "parallel": "of stage compute: a text says what is computed, not by which threads",
    "unsteady": "of stage compute: a text says what is computed, not which of two ways is the faster one",
    "replay": "of stage scheduled: a text says what is computed, not how a device is asked",
    **dict.fromkeys(("retain", "release"), "of stage scheduled: Python counts references by itself"),
    **dict.fromkeys(
        ("random", "randomCounter", "randomSeed"),
        "the stream of random numbers is the runtime's: NumPy has none like it",
    ),
    **dict.fromkeys(
        ("draw", "seedGenerator"), "a generator of random numbers is an address in compiled code: pass arrays instead"
    ),
    "drain": "the two functions that vjp makes are not written as Python: those of grad are",
    "trap": "a trap has no place in a text",
}
