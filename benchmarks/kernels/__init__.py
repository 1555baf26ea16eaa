"""Kernels of our own that the benchmarks time under every peer.

A module holds one kernel in plain NumPy style, `kernel`, which dlvm-py, NumPy, Numba, Pythran and tangent take as it
is, and ports for those that need another shape of program: `jax`, `torch`, `numba`. A port takes the same arguments
and returns the same values. What a module defines:

    SIZES       size by name: the keyword arguments of `arguments`; "S" is for a quick look, "M" is larger
    GROWTH      sizes for the figure of time against size, upwards: [(units of work, keyword arguments), ...]; left out
                by most
    UNIT        what the unit of work is; an element, if it is left out
    arguments   a dict of the kernel's arguments by parameter name, fresh
    WRT         the parameters to differentiate with respect to; () for a kernel of integers. What is differentiated is
                the sum of what the kernel returns.
    PYTHRAN     the types of the parameters, as Pythran's export wants them; left out where it does not compile
"""
