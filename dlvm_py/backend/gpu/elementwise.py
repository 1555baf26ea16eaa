"""Kernels of one element a thread: stores of trees and scalars, fills, reshapes.

A grid-stride loop runs over the elements of the destination in its memory order, so that threads side by side touch
elements side by side. Where destination and leaves are equally contiguous an element's place is its number; else the
number is taken apart into the indices of the axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu.kernels import loop_order, memory_order
from dlvm_py.backend.cpu.pointers import Pointer, offset, store_element, strides_of
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import V, i64
from dlvm_py.backend.gpu.host import HostEmitter
from dlvm_py.backend.gpu.kernel import Kernel, blocks_for
from dlvm_py.ir import Value


def general(k: Kernel, value: Value) -> Tree:
    """A tree that is read with all of its run-time strides and stretches: threads have no loop to be fast in."""
    tree = Tree(k, value)  # type: ignore[arg-type]
    tree.fast = not tree.conditions()
    return tree


def store_tree(h: HostEmitter, value: Value, dest: Pointer, shape: tuple[int | None, ...]) -> None:
    """Write every element of a tree to `dest`, whose type has `shape`."""
    k = Kernel(h)
    to = k.pointer_of(dest)
    tree = Tree(k, value)  # type: ignore[arg-type]
    count = k.product(to.extents)
    extents: Sequence[V] = to.extents
    strides = strides_of(k, to)
    if tree.rank > 1 and tree.is_linear(to.layout, shape):
        tree.linear = True
        extents, strides = [count], (i64(to.itemsize),)
    order = loop_order(extents, [0] if tree.linear else memory_order(to))
    tree.inner = order[-1] if order else 0
    tree.fast = not tree.conditions()
    with k.grid(count) as loop:
        tree.index.update(k.unravel(loop.index, order, extents))
        x = tree.element()
        store_element(k, to.dtype, x, offset(k, to.data, [tree.index[n] for n in range(len(extents))], strides))
    h.launch(k, blocks_for(h, h.product(dest.extents)))


def store_scalar(h: HostEmitter, x: V, dest: Pointer) -> None:
    """Write a scalar of the host to one element."""
    k = Kernel(h)
    to = k.pointer_of(dest)
    value = k.parameter(x)
    with k.grid(i64(1)):
        store_element(k, to.dtype, value, to.data)
    h.launch(k, i64(1), threads=1)


def fill(h: HostEmitter, dest: Pointer, x: V) -> None:
    """Write x to every element of `dest`."""
    k = Kernel(h)
    to = k.pointer_of(dest)
    value = k.parameter(x)
    order = loop_order(to.extents, memory_order(to))
    strides = strides_of(k, to)
    with k.grid(k.product(to.extents)) as loop:
        index = k.unravel(loop.index, order, to.extents)
        store_element(k, to.dtype, value, offset(k, to.data, [index[n] for n in range(to.rank)], strides))
    h.launch(k, blocks_for(h, h.product(dest.extents)))


def store_reshaped(h: HostEmitter, value: Value, dest: Pointer) -> None:
    """Write a tree to a `dest` of another shape, in C order of both."""
    k = Kernel(h)
    to = k.pointer_of(dest)
    tree = general(k, value)
    own = tree_extents(k, value)  # type: ignore[arg-type]
    strides = strides_of(k, to)
    with k.grid(k.product(to.extents)) as loop:
        tree.index.update(k.unravel(loop.index, range(tree.rank), own))
        index = k.unravel(loop.index, range(to.rank), to.extents)
        store_element(k, to.dtype, tree.element(), offset(k, to.data, [index[n] for n in range(to.rank)], strides))
    h.launch(k, blocks_for(h, h.product(dest.extents)))
