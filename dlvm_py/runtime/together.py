"""Calls of derivatives whose arguments share memory that the primal writes: the memory is one variable.

The arrays of a group, which ranges of addresses connect, are copied once and viewed as before, and so are their
shadows: adjoints, zero at first, or tangents. A version for such calls (`CallSpec.shadows`) works in these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm_py.errors import ArgumentError
from dlvm_py.ir.interface import leaves
from dlvm_py.runtime import python_entry
from dlvm_py.runtime.version import CallSpec, Version

Array = np.ndarray[Any, Any]


def groups(spec: CallSpec, found: Sequence[Any]) -> list[list[int]]:
    """The leaves that share memory with one that may not be shared, in groups that are apart from each other."""
    arrays = [k for k, v in enumerate(found) if isinstance(v, np.ndarray) and v.size and k not in spec.free]
    made: list[list[int]] = []
    for k in arrays:
        meets = [g for g in made if any(np.may_share_memory(found[k], found[j]) for j in g)]
        made = [g for g in made if g not in meets]
        made.append(sorted([k, *(j for g in meets for j in g)]))
    return sorted(g for g in made if len(g) > 1 and not set(spec.unshared or ()).isdisjoint(g))


def attempt(
    version: Version, shared: Sequence[int], values: Sequence[Any], tangents: dict[int, int] | None
) -> tuple[bool, Any]:
    """As `python_entry.attempt`, of a version for calls in which the leaves `shared` share memory.

    tangents: of a forward derivative, by leaf the leaf that is its tangent; None for adjoints.
    Raises: ArgumentError DL707 for memory that cannot be one variable, DL704 for tangents that differ in it.
    """
    found = python_entry.matched(version.call, values)
    if found is None:
        return False, None
    together = groups(version.call, found)
    if sorted(k for g in together for k in g) != list(shared):
        return False, None
    names = leaf_names(version.call)
    shadows: dict[int, Array] = {}
    given = list(found)
    for group in together:
        arrays = [found[k] for k in group]
        _check(arrays, [names[k] for k in group])
        copies, own = _views(arrays), _views(arrays)
        for k, array, copy, shadow in zip(group, arrays, copies, own, strict=True):
            copy[...] = array
            given[k], shadows[k] = copy, shadow
        if tangents is not None:
            _fill([k for k in group if k in tangents], found, shadows, tangents, names)
    more = [shadows[k] for k in shared if np.issubdtype(shadows[k].dtype, np.inexact)]
    return True, python_entry.run_leaves(version, [*given, *more])


def leaf_names(spec: CallSpec) -> list[str]:
    """The parameter that each leaf belongs to; the names of captured arrays."""
    names = [n for n, s in zip(spec.param_names, spec.args, strict=True) for _ in leaves(s)]
    return names + [c.source.name for c in spec.captured]


def _check(arrays: list[Array], names: list[str]) -> None:
    """DL707 unless all are arrays of one dtype, element on element, that do not overlap themselves."""
    first, size = arrays[0], arrays[0].itemsize
    why = ""
    for array, name in zip(arrays, names, strict=True):
        steps = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
        reach = 0
        for step, n in steps:
            if step < reach + size:
                why = f"'{name}' overlaps itself"
            reach += step * (n - 1)
        if array.dtype != first.dtype:
            why = f"'{names[0]}' and '{name}' have different dtypes"
        elif (array.ctypes.data - first.ctypes.data) % size or any(step % size for step, _ in steps):
            why = f"elements of '{names[0]}' and '{name}' overlap in part"
    if why:
        raise ArgumentError(
            f"'{names[0]}' and '{names[1]}' share memory that the function writes, and {why}:"
            " derivatives of such calls are not supported",
            code="DL707",
            help=f"pass a copy of one of them: {names[1]}.copy()",
        )


def _views(arrays: list[Array]) -> list[Array]:
    """Zeros that lie to each other as the arrays do."""
    bounds = [np.lib.array_utils.byte_bounds(a) for a in arrays]
    first = min(low for low, _ in bounds)
    memory = np.zeros((max(high for _, high in bounds) - first) // arrays[0].itemsize, arrays[0].dtype)
    return [np.ndarray(a.shape, a.dtype, memory, a.ctypes.data - first, a.strides) for a in arrays]


def _fill(
    moved: list[int], found: Sequence[Any], shadows: dict[int, Array], tangents: dict[int, int], names: list[str]
) -> None:
    """Let shadows hold the tangents, which must agree on how the memory moves."""
    for k in moved:
        if found[tangents[k]].shape != shadows[k].shape:
            raise ValueError("the tangent does not have the shape of its argument")
        shadows[k][...] = found[tangents[k]]
    for k in moved:
        if not np.array_equal(shadows[k], found[tangents[k]], equal_nan=True):
            raise ArgumentError(
                f"the tangent of '{names[k]}' differs from that of another argument where the two share memory",
                code="DL704",
                help="it is how that memory moves: give one of them, and None for the other",
            )
