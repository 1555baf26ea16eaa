"""Loop nests of stores at computed places: scatter, scatterAdd, and nonzero, which writes the places.

They run in C order of the values, one after the other: where two values go to one place, the order is what decides.
Along a row (the axes behind the indices) no place comes twice, and the innermost loop is parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.contract import scalar_type
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.kernels import fill, nest
from dlvm_py.backend.cpu.lanes import splat
from dlvm_py.backend.cpu.pointers import Pointer, load_element, offset, store_element, strides_of
from dlvm_py.backend.cpu.scalar import TABLE
from dlvm_py.backend.cpu.text import Parallel
from dlvm_py.backend.cpu.trees import Tree, tree_extents
from dlvm_py.backend.cpu.values import ONE, ZERO, V, constant, i64, in_lanes
from dlvm_py.ir import Instruction, Value, is_array

BITS = 64  # truth values that are looked at together
MANY = 10  # of them, from which on as many places are written for each eight
_TABLE = "dlvm.places"


def scatter(e: FunctionEmitter, i: Instruction) -> None:
    """Write a scatter."""
    value, destination, *indices = i.operands
    with e.region():
        work = _scatter(e, value, e.pointer(destination), indices, i.attrs.get("by"))
    e.charge(work)


def store_scatter_add(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write a scatterAdd: zeros, and then every value added at its place; the work."""
    fill(e, dest, V(scalar_type(dest.dtype), "zeroinitializer"))
    return _scatter(e, i.operands[0], dest, i.operands[1 : 1 + len(i.operands) // 2], "add")


def _tree(e: FunctionEmitter, value: Value) -> Tree:
    tree = Tree(e, value)
    tree.fast = not tree.conditions()
    return tree


def scatter_trees(
    e: FunctionEmitter, value: Value, dest: Pointer, indices: Sequence[Value]
) -> tuple[Tree, int, dict[Value, Tree]]:
    """The values of a scatter; how many of their axes those of the indices are; the indices, read at the same place."""
    tree = _tree(e, value)
    trees = {v: _tree(e, v) for v in indices if is_array(v.type)}
    for v, other in trees.items():
        other.index = tree.index
        other.root_axes = tree.unstretched(v, other.root_axes)
    return tree, tree.rank - dest.rank + len(indices), trees


def _scatter(e: FunctionEmitter, value: Value, dest: Pointer, indices: Sequence[Value], by: str | None) -> V:
    tree, rank, trees = scatter_trees(e, value, dest, indices)
    extents = tree_extents(e, value)
    strides = strides_of(e, dest)
    row = list(range(rank, tree.rank))
    stored, read = e.notes_of_one(dest.notes)
    tree.group = read
    for other in trees.values():
        other.group = read

    def write(base: V, notes: str) -> None:
        place = offset(e, base, [tree.index[k] for k in row], strides[len(indices) :])
        x = tree.element()
        if by is not None:
            x = TABLE[by][dest.dtype.kind](e, dest.dtype, {}, load_element(e, dest.dtype, place, notes), x)
        store_element(e, dest.dtype, x, place, notes)

    with nest(e, tree.index, range(rank), extents):
        places = [trees[v].element() if v in trees else e.scalar(v) for v in indices]
        base = offset(e, dest.data, places, strides[: len(indices)])
        if not row:
            write(base, stored)
        else:
            with nest(e, tree.index, row[:-1], extents):
                parallel = Parallel(e)
                tree.group = read + parallel.access
                with nest(e, tree.index, row[-1:], extents, parallel.loop):
                    write(base, stored + parallel.access)
    return e.product(extents)


def store_nonzero(e: FunctionEmitter, i: Instruction, dest: Pointer) -> V:
    """Write the indices of the true elements of a tree, one row of `dest` an axis; the work.

    64 elements of a row at a time become the bits of one number, and there is a step for each bit that is set, or, of
    many, for each eight bits:

        for 64 elements at a time:  bits = those that are true
                                    if many are, and there is room for 64 places more:
                                        for each byte:  write eight places, those of its bits first
                                    else
                                        while bits != 0:  write the place of the lowest;  clear it
        for each that is left:      write its place, to where nobody reads if it is not true

    A branch for each element could not be foretold, and LLVM may make one of a choice. What is written behind the
    places of a byte is written over by the next ones.
    """
    tree = _tree(e, i.operands[0])
    extents = tree_extents(e, i.operands[0])
    strides = strides_of(e, dest)
    nowhere = e.alloca("i64")
    inner = tree.rank - 1

    def write(found: V, flag: V | None = None) -> None:
        for k in range(tree.rank):
            place = offset(e, dest.data, [i64(k), found], strides)
            store_element(e, dest.dtype, tree.index[k], place if flag is None else e.select(flag, place, nowhere), "")

    def each(first: V, found: V) -> V:
        with e.loop(e.op("sub nsw", extents[inner], first), [found]) as loop:
            tree.index[inner] = e.add(first, loop.index, "nsw")
            flag = tree.element()
            write(loop.carried[0], flag)
            loop.next = [e.add(loop.carried[0], e.cast("zext", flag, "i64"), "nuw nsw")]
        return loop.results[0]

    def some(bits: V, first: V, found: V, put: Callable[[V, V], None]) -> V:
        if strides[1] != i64(dest.itemsize):
            return _each_bit(e, bits, found, put)
        after = e.alloca("i64")
        has_room = e.icmp("sle", e.add(found, i64(BITS), "nsw"), dest.extents[1])
        is_dense = e.icmp("sge", e.intrinsic("llvm.ctpop.i64", "i64", bits), i64(MANY))
        with e.either(e.both(has_room, is_dense)) as arms:
            next(arms)
            e.store(_each_byte(e, tree, bits, first, found, dest, strides), after)
            next(arms)
            e.store(_each_bit(e, bits, found, put), after)
        return e.load("i64", after)

    def row(found: V) -> V:
        length = constant(extents[inner])
        if length is not None and length < BITS:
            return each(ZERO, found)
        blocks = e.op("ashr", extents[inner], i64(BITS.bit_length() - 1))
        with e.loop(blocks, [found]) as loop:
            first = e.mul(loop.index, i64(BITS), "nuw nsw")
            bits = _bits(e, tree, first)

            def put(bit: V, found: V) -> None:
                tree.index[inner] = e.add(first, bit, "nuw nsw")
                write(found)

            loop.next = [some(bits, first, loop.carried[0], put)]
        return each(e.mul(blocks, i64(BITS), "nuw nsw"), loop.results[0])

    def walk(axis: int, found: V) -> V:
        if axis == inner:
            return row(found)
        with e.loop(extents[axis], [found]) as loop:
            tree.index[axis] = loop.index
            loop.next = [walk(axis + 1, loop.carried[0])]
        return loop.results[0]

    walk(0, ZERO)
    return e.product(extents)


def _bits(e: FunctionEmitter, tree: Tree, first: V) -> V:
    """The truth values of a row from `first` on as the bits of a number, the first the lowest."""
    flags = e.scratch(f"[{BITS} x i8]", BITS)
    parallel = Parallel(e)
    tree.group = parallel.access
    with e.loop(i64(BITS), note=parallel.loop) as loop:
        tree.index[tree.rank - 1] = e.add(first, loop.index, "nuw nsw")
        e.store(e.cast("zext", tree.element(), "i8"), e.gep("i8", flags, loop.index), parallel.access)
    tree.group = ""
    type = f"<{BITS} x i8>"
    found = e.value(f"<{BITS} x i1>", f"icmp ne {type} {e.load(type, flags).ref}, zeroinitializer")
    return e.cast("bitcast", found, f"i{BITS}")


def _each_byte(e: FunctionEmitter, tree: Tree, bits: V, first: V, count: V, dest: Pointer, strides: Sequence[V]) -> V:
    """Eight places for each byte of the bits of a row from `first` on, those of its bits first; the count after."""
    e.module.constant(_TABLE, f'[{8 << 8} x i8] c"{_table()}"')
    few, wide = in_lanes("i8", 8), in_lanes("i64", 8)
    with e.loop(i64(BITS // 8), [count]) as loop:
        done, found = e.op("shl nuw nsw", loop.index, i64(3)), loop.carried[0]
        byte = e.op("and", e.op("lshr", bits, done), i64(255))
        entry = e.gep("i8", V("ptr", f"@{_TABLE}"), e.op("shl nuw nsw", byte, i64(3)))
        places = e.cast("zext", e.load(few, entry, ", align 1"), wide)
        for k in range(tree.rank):
            index = splat(e, tree.index[k] if k < tree.rank - 1 else e.add(first, done, "nuw nsw"), 8)
            if k == tree.rank - 1:
                index = e.op("add nuw nsw", index, places)
            e.store(index, offset(e, dest.data, [i64(k), found], strides), ", align 8")
        loop.next = [e.add(found, e.intrinsic("llvm.ctpop.i64", "i64", byte), "nuw nsw")]
    return loop.results[0]


def _table() -> str:
    """For each byte the places of its bits that are set, then those of the others."""
    return "".join(f"\\{k:02x}" for byte in range(256) for k in sorted(range(8), key=lambda k: not byte >> k & 1))


def _each_bit(e: FunctionEmitter, bits: V, count: V, put: Callable[[V, V], None]) -> V:
    """put(the number of a bit, how many were before) for each bit that is set, from the lowest on; the count after."""
    zero, before, body, after = V(bits.type, "0"), e.here, e.label("bit"), e.label("bits")
    e.cond_br(e.icmp("ne", bits, zero), body, after)
    e.place(body)
    left, seen = e.phi(bits.type), e.phi("i64")
    put(e.intrinsic("llvm.cttz.i64", "i64", left.value, V("i1", "true")), seen.value)
    following = e.add(seen.value, ONE, "nuw nsw")
    cleared = e.op("and", left.value, e.op("add", left.value, V(bits.type, "-1")))
    left.add(bits, before)
    left.add(cleared, e.here)
    seen.add(count, before)
    seen.add(following, e.here)
    e.cond_br(e.icmp("ne", cleared, zero), body, after)
    found = e.phi("i64", after)
    found.add(count, before)
    found.add(following, e.here)
    e.place(after)
    return found.value
