"""Contractions: sums of products of two factors, each of which goes along some of the axes only.

    %p = multiply (broadcast %a to (n, m, k)), (padShape %b at 0)        the axes of %p:   0  1  2
    %s = reduce %p by add init 0.0 along 2                               of the factor %a  0  -  1
                                                                         of the factor %b  -  0  1

A matrix product is one, a convolution (%a is a view of windows), and what the derivatives of these are. Every element
of a factor is needed again for each place along the axes that it does not have: it is worth memory (fusion.py), and a
kernel that keeps it in a register (backend/cpu/contractions.py).

A sum over windows of an array, times an array that all windows have (an image of one channel, filtered), is one too:
neither factor lacks what the other one has alone, but an element of the first array is in many windows.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen
from dlvm_py.ir.types import TensorType, is_array
from dlvm_py.ir.value import Instruction, Literal, Value

OUTER, REDUCED = 3, 4  # so many axes a kernel has, beside `block` and `vector`


class Factor(Frozen):
    """A factor: what the product has broadcast, and for each axis of the product that of the factor, if it has it."""

    core: Value
    axes: tuple[int | None, ...]
    stretched: frozenset[int]  # axes of the product along which an extent may turn out to be 1 and be stretched


class Contraction(Frozen):
    """The kept axes in the order of the result: `outer` ones, `block` and `vector`.

    Of the innermost one, `vector`, the first factor has nothing. Of `block` one factor has nothing: the second one,
    or the first one, which then has none of the kept axes (`in_all_windows`). partial: of a sum of `scaleSeed` the
    factor that must be finite for that to be a product.
    """

    first: Factor
    second: Factor
    outer: tuple[int, ...]
    block: int
    vector: int
    reduced: tuple[int, ...]
    partial: Value | None

    @property
    def in_all_windows(self) -> bool:
        """Whether the second factor is windows, and the first one the same in all of them."""
        return self.first.axes[self.block] is None


def contraction(i: Instruction) -> Contraction | None:
    """What a reduce is as a contraction of real floats, if it is one; its innermost kept axis is the vector's.

    Axes that are known to be of extent 1 are none.
    """
    product = summed_product(i)
    if product is None or not is_array(i.type):
        return None
    a, b = map(factor, product.operands)
    partial = b.core if product.op.name == "scaleSeed" else None
    if a.core is b.core and a.axes == b.axes:
        return None
    assert isinstance(product.type, TensorType)
    axes = [k for k, n in enumerate(product.type.shape) if n != 1]
    reduced = tuple(k for k in axes if k in i.attrs["axes"])
    outer = [k for k in axes if k not in reduced]
    if len(outer) not in range(2, OUTER + 3) or len(reduced) > REDUCED:
        return None
    vector = outer.pop()
    if a.axes[vector] is not None:
        a, b = b, a
    if a.axes[vector] is not None or b.axes[vector] is None:
        return None
    blocks = [k for k in outer if b.axes[k] is None and a.axes[k] is not None]
    if not blocks and is_array(a.core.type) and not any(a.axes[k] is not None for k in outer) and _is_windows(b.core):
        blocks = outer[-1:]
    if not blocks:
        return None
    outer.remove(blocks[-1])
    return Contraction(a, b, tuple(outer), blocks[-1], vector, reduced, partial)


def _is_windows(v: Value) -> bool:
    """Whether a value is a view of windows, as it lies in memory."""
    names = ("load", "transpose", "padShape", "squeezeShape")
    while isinstance(v, Instruction) and v.op.name in names:
        v = v.operands[0]
    return isinstance(v, Instruction) and v.op.name == "windows"


def summed_product(v: Value) -> Instruction | None:
    """The product of real floats, or `scaleSeed`, that a value is the sum of along some axes, and nothing else."""
    if not isinstance(v, Instruction) or v.op.name != "reduce" or v.attrs["by"] != "add":
        return None
    product, init = v.operands
    if not isinstance(init, Literal) or init.value != 0 or v.type.dtype.name not in ("f32", "f64"):  # type: ignore[attr-defined]
        return None
    return product if isinstance(product, Instruction) and product.op.name in ("multiply", "scaleSeed") else None


def factor(v: Value) -> Factor:
    """What is stretched and rearranged to an operand of a product."""
    assert isinstance(v.type, TensorType)
    rank = v.type.rank
    axes = _without_ones(v, tuple(range(rank)))
    stretched: frozenset[int] = frozenset()
    while isinstance(v, Instruction) and v.op.name in ("padShape", "squeezeShape", "transpose", "broadcast"):
        source = v.operands[0]
        if v.op.name == "padShape":
            at: int = v.attrs["at"]
            axes = tuple(None if k in (None, at) else k - (k > at) for k in axes)
        elif v.op.name == "squeezeShape":
            at = v.attrs["at"]
            axes = tuple(None if k is None else k + (k >= at) for k in axes)
        elif v.op.name == "transpose":
            order = v.attrs.get("axes") or tuple(range(v.type.rank))[::-1]
            axes = tuple(None if k is None else order[k] for k in axes)
        elif is_array(source.type):
            axes = _without_ones(source, axes)
            stretched |= {n for n, k in enumerate(axes) if k is not None}
        else:
            axes = (None,) * rank
        v = source
        axes = _without_ones(v, axes)
    return Factor(v, axes, stretched)


def _without_ones(v: Value, axes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    shape = v.type.shape  # type: ignore[attr-defined]
    return tuple(None if k is None or shape[k] == 1 else k for k in axes)
