"""Sorting along an axis, and binary search.

One row after the other becomes integers in the same order in scratch memory (sort_keys.py), which are sorted in vectors
(vector_sort.py), and is written. Sorts are stable: what is equal has one key, and for the places of keys these decide
(argsort.py); of sorted values only zeros can be told apart by their signs, and are put as they came.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dlvm_py.backend.cpu.argsort import BUFFERS as PLACES_BUFFERS
from dlvm_py.backend.cpu.argsort import argsort
from dlvm_py.backend.cpu.code import Code, helper
from dlvm_py.backend.cpu.contract import DATA
from dlvm_py.backend.cpu.floating import widened
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import loop_order, nest
from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.sort_keys import NEGATIVE_ZERO, key_of, key_type, number_of
from dlvm_py.backend.cpu.text import FunctionText
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, float_constant, i64
from dlvm_py.backend.cpu.vector_sort import BUFFERS, SLACK, vector_sort
from dlvm_py.ir import I64, DType, Instruction


def store_sort(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a sort or an argsort; the work."""
    tree = Tree(e, i.operands[0])
    tree.fast = not tree.conditions()
    dtype = i.operands[0].type.dtype  # type: ignore[attr-defined]
    extents, axis, ordinal = tree_extents(e, i.operands[0]), i.attrs["axis"], i.op.name == "argsort"
    n, key = extents[axis], key_type(dtype, ordinal)
    each, count = e.add(n, i64(SLACK)), PLACES_BUFFERS if ordinal else BUFFERS
    header = _scratch(e, e.mul(each, i64(count * int(key[1:]) // 8)))
    memory = e.load("ptr", e.gep("i8", header, i64(DATA)))
    strides = strides_of(e, dest)
    with nest(e, tree.index, [k for k in loop_order(extents, range(len(extents))) if k != axis], extents):
        with e.loop(n) as loop:
            tree.index[axis] = loop.index
            e.store(key_of(e, dtype, tree.element(), ordinal), e.gep(key, memory, loop.index))
        if ordinal:
            source = e.call(argsort(e), "ptr", [memory, n])
        else:
            buffers = [e.gep(key, memory, e.mul(each, i64(k))) for k in range(BUFFERS)]
            source = e.call(vector_sort(e, key), "ptr", [*buffers, n])
            if dtype.kind == "f":
                e.call("@" + _zeros(e, key), "void", [memory, source, n])
        with e.loop(n) as loop:
            tree.index[axis] = loop.index
            kept = e.load(key, e.gep(key, source, loop.index))
            x = kept if ordinal else number_of(e, dtype, kept)
            store_element(
                e, dest.dtype, x, offset(e, dest.data, [tree.index[k] for k in range(tree.rank)], strides), dest.notes
            )
    release(e, header)
    return e.mul(e.product(extents), i64(16))


def _zeros(e: FunctionEmitter, key: str) -> str:
    """A function that puts zeros of both signs, which are equal, in the order of the source: `(source, sorted, n)`."""

    def write(c: Code) -> None:
        source, target, n = c.params
        with c.loop(n, [ZERO, ZERO]) as loop:
            x = c.load(key, c.gep(key, source, loop.index))
            below, negative = loop.carried
            loop.next = [
                c.add(v, c.cast("zext", c.icmp(how, x, V(key, str(NEGATIVE_ZERO))), "i64"))
                for v, how in ((below, "slt"), (negative, "eq"))
            ]
        below, negative = loop.results
        with c.when(c.icmp("sgt", negative, ZERO)), c.loop(n, [below]) as loop:
            x = c.load(key, c.gep(key, source, loop.index))
            (at,) = loop.carried
            is_zero = c.any(c.icmp("eq", x, V(key, str(NEGATIVE_ZERO))), c.icmp("eq", x, V(key, "0")))
            with c.when(is_zero):
                c.store(x, c.gep(key, target, at))
            loop.next = [c.add(at, c.cast("zext", is_zero, "i64"))]
        c.line("ret void")

    return helper(e, f"dlvm.sort.zeros.{key}", "void", ["ptr", "ptr", "i64"], write)


def _scratch(e: FunctionEmitter, nbytes: V) -> V:
    """The header of memory that is used here only."""
    e.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
    header = e.call("@dlvm.allocate", "ptr", [e.ctx, nbytes])
    e.require_memory(header)
    return header


def store_search(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a searchSorted: a binary search an element, with as many steps for each; the work."""
    haystack, value = i.operands
    assert isinstance(haystack, Instruction)
    source = e.pointer(haystack.operands[0])
    tree = Tree(e, value)
    tree.fast = not tree.conditions()
    extents = tree_extents(e, value)
    strides = strides_of(e, dest)
    with nest(e, tree.index, range(tree.rank), extents):
        found = place_of(e, source, tree.element(), i.attrs["side"])
        place = offset(e, dest.data, [tree.index[k] for k in range(tree.rank)], strides)
        store_element(e, I64, found, place, dest.notes)
    return e.mul(e.product(extents), i64(16))


def place_of(e: FunctionText, source: Pointer, wanted: V, side: str) -> V:
    """Where in a sorted array an element would be put: before ("left") or behind ("right") those that equal it.

    It is in [low, low + length], and the lengths are the same whatever is found: n, n / 2, ... 1.
    """
    (stride,), n = strides_of(e, source), source.extents[0]
    is_before = _before(e, source.dtype, wanted, side)
    with e.loop(e.bit_length(n), [ZERO, n]) as loop:
        low, length = loop.carried
        half = e.op("lshr", e.add(length, ONE), ONE)
        above = e.add(low, half, "nuw nsw")
        at = offset(e, source.data, [e.op("sub nuw nsw", above, ONE)], [stride])
        before = is_before(load_element(e, source.dtype, at, source.notes))
        loop.next = [e.select(before, above, low), e.op("lshr", length, ONE)]
    (found, _) = loop.results
    if side == "right" and source.dtype.kind == "f":
        found = e.select(_is_nan(e, source.dtype, wanted), n, found)
    return found


def _before(e: FunctionText, dtype: DType, wanted: V, side: str) -> Callable[[V], V]:
    """Whether an element is before the place of `wanted`, but for NaN that is to be put behind all."""
    if dtype.kind != "f":
        how = ("s" if dtype.kind == "i" else "u") + ("lt" if side == "left" else "le")
        return lambda x: e.icmp(how, x, wanted)
    y = widened(e, wanted) if dtype.is_narrow else wanted

    def element(x: V) -> V:
        return widened(e, x) if dtype.is_narrow else x

    if side == "right":
        return lambda x: e.fcmp("ole", element(x), y)
    # all numbers are before the first NaN
    largest = e.select(e.fcmp("uno", y, y), float_constant(y.type, math.inf), float_constant(y.type, math.nan))
    return lambda x: e.any(e.fcmp("olt", element(x), y), e.fcmp("ole", element(x), largest))


def _is_nan(e: FunctionText, dtype: DType, x: V) -> V:
    y = widened(e, x) if dtype.is_narrow else x
    return e.fcmp("uno", y, y)
