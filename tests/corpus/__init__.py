"""The wrong-gradient corpus: minimal programs, one for each way in which tools are known to give wrong derivatives.

    from corpus import CASES

A program is plain NumPy code with points to try it on, so that any tool can be given the same text (peers.py). It
returns one float. What is expected is a closed form, or, where the program is smooth, differences (expected.py).
"""

from corpus import arrays, control, kinks, loops, memory, types  # noqa: F401 - they fill CASES
from corpus.case import CASES, Case

__all__ = ["CASES", "Case"]
