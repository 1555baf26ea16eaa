"""Elements in another order: flip, rot90, roll, tile, repeat, moveaxis, rollaxis."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.frontend.library.intrinsics import axes_of, axis_of, refuse, unroll


def along(axis: int, part: Any) -> Any:
    """The index that takes `part` of one axis, and all of the axes before and after it."""
    return (slice(None),) * axis + (part,)


def on_axis(a: Any, axis: Any) -> Any:
    """The array and an axis argument counted from the front; for None its elements in a row, and their axis."""
    if axis is None:
        return np.ravel(a), 0
    return a, axis_of(axis, a.ndim)


def flip(m: Any, axis: Any = None) -> Any:
    """np.flip: a view with axes reversed, all of them for None."""
    m = np.asarray(m)
    for k in axes_of(axis, m.ndim):
        m = m[along(k, slice(None, None, -1))]
    return m if m.ndim else m[()]


def fliplr(m: Any) -> Any:
    """np.fliplr."""
    if m.ndim < 2:
        refuse("np.fliplr needs an array of at least two axes")
    return m[:, ::-1]


def flipud(m: Any) -> Any:
    """np.flipud."""
    return m[::-1]


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """np.moveaxis: a view; `source` and `destination` are ints or tuples of ints."""
    if not isinstance(source, (tuple, list)):
        source = (source,)
    if not isinstance(destination, (tuple, list)):
        destination = (destination,)
    if len(source) != len(destination):
        refuse("np.moveaxis: `source` and `destination` must have one length")
    for s, d in zip(source, destination):  # noqa: B905 - lengths are equal
        axis_of(s, a.ndim)
        axis_of(d, a.ndim)
    order = ()
    for to in unroll(a.ndim):
        chosen = None
        for s, d in zip(source, destination):  # noqa: B905 - lengths are equal
            if axis_of(d, a.ndim) == to:
                chosen = axis_of(s, a.ndim)
        order = order + (chosen,)
    perm = ()
    rest = ()
    for k in unroll(a.ndim):
        taken = False
        for s in source:
            if axis_of(s, a.ndim) == k:
                taken = True
        if not taken:
            rest = rest + (k,)
    used = 0
    for chosen in order:
        if chosen is None:
            perm = perm + (rest[used],)
            used = used + 1
        else:
            perm = perm + (chosen,)
    return np.transpose(a, perm)


def rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Any:
    """np.rot90: a view."""
    first, second = axis_of(axes[0], m.ndim), axis_of(axes[1], m.ndim)
    if first == second:
        refuse("np.rot90: the axes must be different")
    turns = k % 4
    if turns == 1:
        return np.swapaxes(flip(m, second), first, second)
    if turns == 2:
        return flip(m, (first, second))
    if turns == 3:
        return flip(np.swapaxes(m, first, second), second)
    return m


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """np.roll: a copy, moved cyclically; shifts may be computed, axes are constants."""
    if axis is None:
        if isinstance(shift, (tuple, list)):
            total = 0
            for s in shift:
                total = total + s
            shift = total
        return np.reshape(roll(np.ravel(a), shift, 0), a.shape)
    if not isinstance(axis, (tuple, list)):
        axis = (axis,)
    if not isinstance(shift, (tuple, list)):
        shift = (shift,) * len(axis)
    if len(shift) == 1:
        shift = (shift[0],) * len(axis)
    if len(axis) == 1:
        axis = (axis[0],) * len(shift)
    if len(shift) != len(axis):
        refuse("np.roll: `shift` and `axis` must have one length")
    shifts: Any = (0,) * a.ndim
    is_moved: Any = (False,) * a.ndim
    for s, x in zip(shift, axis):  # noqa: B905 - lengths are equal
        k = axis_of(x, a.ndim)
        shifts = shifts[:k] + (shifts[k] + s,) + shifts[k + 1 :]
        is_moved = is_moved[:k] + (True,) + is_moved[k + 1 :]
    # each part of the array is copied once: where it goes to, and where it comes from
    parts: Any = (((), ()),)
    for k in unroll(a.ndim):
        halves: Any = ((slice(None), slice(None)),)
        if is_moved[k]:
            n = a.shape[k]
            cut = n - shifts[k] % max(n, 1)
            halves = ((slice(n - cut, None), slice(None, cut)), (slice(None, n - cut), slice(cut, None)))
        longer: Any = ()
        for to, source in parts:
            for there, here in halves:
                longer = longer + ((to + (there,), source + (here,)),)
        parts = longer
    out = np.empty_like(a)
    for to, source in parts:
        out[to] = a[source]
    return out


FUNCTIONS = {
    np.flip: flip,
    np.fliplr: fliplr,
    np.flipud: flipud,
    np.moveaxis: moveaxis,
    np.rot90: rot90,
    np.roll: roll,
}
METHODS: dict[str, Any] = {}
