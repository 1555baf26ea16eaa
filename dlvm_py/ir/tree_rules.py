"""The rules of the stages "compute" and "scheduled": array values live in trees, fit to be run at their root.

Part of the verifier. A *tree* is the array expression under a root: a `store` to an array, a `scatter`, or a
`reduce` or `dot` with a scalar result. A backend evaluates it element by element where the root stands, so

* all of it is in the root's block, of ops that can be evaluated so;
* nothing between a load and the root writes what is loaded;
* a load that may overlap the destination reads, at each place, just the element that is then written.

The last two are judged with parameters that do not overlap: the strictest that holds for every caller.

A store, or a reduction to a number, that is marked `joined` is one kernel with the root right before it: a loop nest
with several roots, that all have the same extents (with a reduction, elements that can be numbered: of rank 1, or
linear). At each place it reads what all of its trees need there before it writes anything, so that what stands before
the first root is what all of them see. No root may write what another reads at another place, or what another writes.

The first root of a kernel says how it runs (`MARKS`): which of its elements are computed together (jam, tile), that
rows which are read at several places are loaded once (shifts), from how many bytes on results go past the caches
(past), how many rows go by whole lines together (lines) and what is fetched ahead of time then (ahead), and the work
from which on threads share it (grain).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dlvm_py.frozen import Frozen
from dlvm_py.grain import GRAIN
from dlvm_py.ir.analysis import AliasAnalysis, uses, written_pointer
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.op import Kind
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.ops.memory import MARKS
from dlvm_py.ir.types import StackType, TensorType, TupleType, Type, is_array
from dlvm_py.ir.value import Instruction, Literal, Value

_INTERIOR = {"transpose", "padShape", "squeezeShape", "broadcast", "gather", "embed"}
_LEAVES = {"load", "iota"}
_OF_ROWS = {"padShape", "squeezeShape", "broadcast", "iota"}
# with an array result: only as the value of a store
UNDER_STORE = {"reduce", "unbroadcast", "dot", "shapeCast", "overlapAdd", "scan", "recurrence"}
UNDER_STORE |= {"scatterAdd", "nonzero", "sort", "argsort", "searchSorted", "fourier"}
_FACTORED = {
    "solve",
    "cholesky",
    "choleskyAdjoint",
    "determinant",
    "factorizes",
    *(name for name, op in OPS.items() if "extents" in op.properties),
}
UNDER_STORE |= _FACTORED
OF_LOADS = {"dot"} | _FACTORED
_ROOTS = {"store", "scatter"}
# products and factorizations: code that all programs have in common (in the back end), with a grain of its own
STANDING = OF_LOADS
JOINED = "joined"
# of rows that are computed by vectors, of which each is loaded once
ARITHMETIC = frozenset(("add", "subtract", "multiply", "divide", "negate"))
_VIEWS = frozenset(("broadcast", "transpose", "padShape", "squeezeShape", "embed", "load"))

Report = Callable[[object, str], None]  # (instruction or block, message)


def check_trees(function: Function, report: Report) -> None:
    """Report every breach of the tree rules in a function that is otherwise sound."""
    if _holds_array(function.result):
        report(function.entry, "an array value is returned")
    for block in function.blocks:
        for arg in block.args:
            if _holds_array(arg.type):
                report(block, f"argument of type {arg.type}: array values do not cross blocks")
    users = uses(function)
    stores = [i for i in function.instructions() if i.op.name == "store"]
    added = {product: s.operands[0] for s in stores if (product := accumulated(s)) is not None}
    alias = AliasAnalysis(function)
    for block in function.blocks:
        for kernel in kernels(block.instructions):
            if len(kernel) > 1 and matrix_product(kernel[0]) is not None:
                added |= _check_products(kernel, alias, report)
    for i in function.instructions():
        if is_array(i.type):
            _check_member(i, users[i], added, report)
        elif _holds_array(i.type):
            report(i, f"a value of type {i.type} holds an array value")
    for block in function.blocks:
        order = {i: k for k, i in enumerate(block.instructions)}
        for kernel in kernels(block.instructions):
            if kernel[0].attrs.get(JOINED):
                report(kernel[0], "nothing stands before it that it can be joined to")
            for i in kernel if is_root(kernel[0]) else ():
                _check_root(i, order, order[kernel[0]], alias, report)
            _check_marks(kernel, report)
            if len(kernel) > 1 and not has_one_order(kernel):
                report(kernel[0], "with a reduction, the elements of one kernel are numbered, or in rows")
            for k, i in enumerate(kernel[1:], 1):
                for other in kernel[:k]:
                    _check_pair(other, i, alias, report)


def _check_marks(kernel: list[Instruction], report: Report) -> None:
    """What a kernel says of how it runs: the first root, of what it is fit for."""
    first, *others = kernel
    for i in others:
        for word in sorted(MARKS & i.attrs.keys()):
            report(i, f"{word}: the first root of a kernel says how it runs, and this is joined to one")
    words = MARKS & first.attrs.keys()
    if not words or not is_root(first):
        return
    trees = [stored_tree(i) for i in kernel]
    for word in sorted(words & {"past", "shifts"}):
        if None in trees:
            report(first, f"{word}: that is for kernels that store elementwise trees, and nothing else")
        elif word == "past" and any(i.op.name == "embed" for i in tree_values(*trees)):
            report(first, "past: what embeds arrays in others does not go past the caches")
        elif word == "shifts" and (other := next((n for t in trees if (n := _no_arithmetic(t))), "")):
            report(first, f"shifts: rows that are loaded once are added, multiplied and the like; {other} is more")
    if is_standing(first) and first.attrs.get("grain", GRAIN) != GRAIN:
        report(first, f"grain {first.attrs['grain']}: all programs share this code, whose grain is {GRAIN}")


def is_standing(root: Instruction) -> bool:
    """Whether the code of a root is one that all programs have in common: a product, a factorization."""
    value = root.operands[0] if root.op.name == "store" else None
    if not isinstance(value, Instruction) or not is_array(value.type):
        return False
    return value.op.name in STANDING or accumulated(root) is not None


def stored_tree(root: Instruction) -> Value | None:
    """The tree whose elements a store writes one by one; None of other roots."""
    value = root.operands[0] if root.op.name == "store" else None
    if not isinstance(value, Instruction) or not is_array(value.type) or accumulated(root) is not None:
        return None
    if value.op.name in ("unbroadcast", "shapeCast"):  # where the extents are the same, or elements are numbered
        value = value.operands[0]
    return value if isinstance(value, Instruction) and value.op.name not in UNDER_STORE else None


def is_numbered(kernel: list[Instruction]) -> bool:
    """Whether the elements of a kernel that stores trees of several axes can be numbered, and be one loop."""
    types = [i.operands[1].type for i in kernel]
    if types[0].rank < 2 or len({t.layout for t in types}) > 1:  # type: ignore[attr-defined]
        return False
    pairs = zip(map(stored_tree, kernel), types, strict=True)
    return all(tree is not None and is_linear(tree, t.layout, t.shape) for tree, t in pairs)  # type: ignore[attr-defined]


def tree_values(*tops: Value | None) -> list[Instruction]:
    """The array values of trees."""
    found: dict[Instruction, None] = {}
    work = list(tops)
    while work:
        v = work.pop()
        if isinstance(v, Instruction) and is_array(v.type) and v not in found:
            found[v] = None
            work += v.operands
    return list(found)


def _no_arithmetic(top: Value | None) -> str:
    """The name of a step of a tree for which its rows cannot be loaded once; "" if there is none."""
    return next((i.op.name for i in tree_values(top) if i.op.name not in ARITHMETIC | _VIEWS), "")


def is_root(i: Instruction) -> bool:
    """Whether an instruction evaluates a tree."""
    return i.op.name in _ROOTS or (i.op.name in ("reduce", "dot") and not is_array(i.type))


def kernels(instructions: Iterable[Instruction]) -> Iterator[list[Instruction]]:
    """The instructions of a block one by one, roots that are joined in one list."""
    kernel: list[Instruction] = []
    for i in instructions:
        if kernel and not (i.attrs.get(JOINED) and _is_like(kernel[0], i)):
            yield kernel
            kernel = []
        kernel.append(i)
    if kernel:
        yield kernel


def _is_like(a: Instruction, b: Instruction) -> bool:
    """Whether two stores can be of one kernel: elementwise trees, or products of a matrix and vectors."""
    if may_be_joined(a):
        return may_be_joined(b)
    return matrix_product(a) is not None and matrix_product(b) is not None


def may_be_joined(i: Instruction) -> bool:
    """Whether an instruction is the store of an elementwise tree, or a reduction of one to a number."""
    value = i.operands[0] if i.op.name in ("store", "reduce") and not is_array(i.type) else None
    if not isinstance(value, Instruction) or not is_array(value.type) or value.op.name in UNDER_STORE:
        return False
    return _is_free(i.attrs["by"], value.type) if i.op.name == "reduce" else accumulated(i) is None  # type: ignore[arg-type]


def has_one_order(kernel: list[Instruction]) -> bool:
    """Whether a kernel has no reductions, or elements that it runs over in the order of each of them alone."""
    values = [i.operands[0] for i in kernel]
    if all(i.op.name != "reduce" for i in kernel) or values[0].type.rank == 1:  # type: ignore[attr-defined]
        return True
    stored = [p.type.layout for i in kernel if (p := written_pointer(i)) is not None]  # type: ignore[attr-defined]
    layouts = {load.operands[0].type.layout for i in kernel for load, _ in loads_of(i)} | set(stored)  # type: ignore[attr-defined]
    if len(layouts) == 1 and all(is_linear(v, next(iter(layouts)), v.type.shape) for v in values):  # type: ignore[attr-defined]
        return True
    return "F" not in stored and all(map(is_in_rows, values))


def is_in_rows(value: Value) -> bool:
    """Whether a kernel of this tree alone runs over its elements row by row: all that it reads lies like that."""
    seen: set[Value] = set()
    work = [value]
    while work:
        v = work.pop()
        if v in seen or not isinstance(v, Instruction) or not is_array(v.type):
            continue
        seen.add(v)
        if v.op.name == "load":
            if v.operands[0].type.layout == "F":  # type: ignore[attr-defined]
                return False
        elif v.op.kind is not Kind.ELEMENTWISE and v.op.name not in _OF_ROWS:
            return False
        else:
            work += v.operands
    return True


def _is_free(by: str, type: TensorType) -> bool:
    """Whether elements may be reduced part by part: the order is that of blocks, or means nothing.

    The largest of unsigned numbers is what checks of indices ask for: nothing that goes with other things.
    """
    if by in ("add", "multiply"):
        return by == "add" or not type.dtype.is_inexact
    return type.dtype.kind in "bi" or type.dtype.is_float


class MatrixProduct(Frozen):
    """What a store makes of a matrix and a vector: the matrix times it (`of_rows`), or it times the matrix."""

    store: Instruction
    dot: Instruction
    matrix: Value  # a pointer; of a transposed one what that is a view of
    vector: Value
    of_rows: bool

    @property
    def how(self) -> str:
        """What is done with the destination: "" if it is written, else "add" or "subtract"."""
        return "" if self.store.operands[0] is self.dot else self.store.operands[0].op.name  # type: ignore[attr-defined]


def matrix_product(i: Instruction) -> MatrixProduct | None:
    """The product of a matrix and a vector of f32 or f64 that a store writes, or adds to its destination."""
    value = i.operands[0] if i.op.name == "store" else None
    if not isinstance(value, Instruction) or not isinstance(value.type, TensorType) or value.type.rank != 1:
        return None
    dot = value if value.op.name == "dot" else accumulated(i)
    if dot is None or value.type.dtype.name not in ("f32", "f64"):
        return None
    x, y = dot.operands
    of_rows = y.type.rank == 1  # type: ignore[attr-defined]
    matrix, vector = (x, y) if of_rows else (y, x)
    pointer = matrix.operands[0]  # type: ignore[attr-defined]
    while isinstance(pointer, Instruction) and pointer.op.name == "transpose" and "axes" not in pointer.attrs:
        pointer, of_rows = pointer.operands[0], not of_rows
    return MatrixProduct(i, dot, pointer, vector, of_rows)


def accumulated(store: Instruction) -> Instruction | None:
    """The product that a store adds to, or subtracts from, what its destination holds (gemm, beta = 1); else None."""
    total = store.operands[0]
    if not isinstance(total, Instruction) or total.op.name not in ("add", "subtract"):
        return None
    here, product = total.operands
    if total.op.name == "add" and not _is_load_of(here, store.operands[1]):
        here, product = product, here
    if not _is_load_of(here, store.operands[1]) or not isinstance(product, Instruction) or product.op.name != "dot":
        return None
    if total.block is not product.block or total.block is not store.block or not is_array(product.type):
        return None
    fits = all(_have_equal_extents(v.type, product.type) for v in (here, total))
    return product if fits and not product.type.dtype.is_narrow else None  # type: ignore[attr-defined]


def _have_equal_extents(a: Type, b: Type) -> bool:
    """Whether arrays that are added have the same shape: no axis is stretched, of which one type may say more."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or (a.dtype, a.rank) != (b.dtype, b.rank):
        return False
    return all(m == n or (None in (m, n) and 1 not in (m, n)) for m, n in zip(a.shape, b.shape, strict=True))


def is_in_place(operand: Value, user: Instruction) -> bool:
    """Whether each element of `user` needs just the element of its operand at the same place, or none."""
    return user.op.kind is Kind.ELEMENTWISE or (user.op.name == "embed" and operand is not user.operands[0])


def index_rank(gather: Instruction) -> int:
    """How many axes the indices of a gather have together; the other axes of its result are those of its rows."""
    source, *indices = gather.operands
    return len(gather.type.shape) - len(source.type.shape) + len(indices)  # type: ignore[attr-defined]


def is_linear(value: Value, layout: str, shape: tuple[int | None, ...]) -> bool:
    """Whether every leaf of a tree is as contiguous as a pointer of that layout and type shape, with equal extents.

    The elements of such a tree can be numbered, and be computed in one loop.
    """
    if layout == "S":
        return False
    if not is_array(value.type):
        return True
    assert isinstance(value, Instruction)
    if value.op.kind is Kind.ELEMENTWISE:
        return all(is_linear(v, layout, shape) for v in value.operands)
    if value.op.name == "broadcast" and not is_array(value.operands[0].type):
        return True
    if value.op.name == "gather":
        complete = index_rank(value) == len(value.type.shape)  # type: ignore[attr-defined]
        return complete and all(is_linear(v, layout, shape) for v in value.operands[1:])
    if value.op.name != "load" or value.operands[0].type.layout != layout:  # type: ignore[attr-defined]
        return False
    return all(m != 1 or n == 1 for m, n in zip(value.type.shape, shape, strict=True))  # type: ignore[attr-defined]


def has_steps_of_one(embed: Instruction) -> bool:
    """Whether what is embedded lies there side by side: trees have no other embeds."""
    rank = len(embed.type.shape)  # type: ignore[attr-defined]
    return all(isinstance(v, Literal) and v.value == 1 for v in embed.operands[2 + 2 * rank :])


def _is_load_of(v: Value, pointer: Value) -> bool:
    return isinstance(v, Instruction) and v.op.name == "load" and v.operands[0] is pointer


def _holds_array(type: Type | None) -> bool:
    if type is None:
        return False
    if isinstance(type, TupleType):
        return any(map(_holds_array, type.elements))
    return _holds_array(type.element) if isinstance(type, StackType) else is_array(type)


def _is_interior(i: Instruction) -> bool:
    return i.op.kind is Kind.ELEMENTWISE or i.op.name in _INTERIOR


def _check_member(i: Instruction, users: list[Instruction], added: dict[Instruction, Value], report: Report) -> None:
    """One array value: made by an op that trees have, used where trees may be used. `added`: products, and the sums."""
    if not _is_interior(i) and i.op.name not in _LEAVES | UNDER_STORE:
        report(i, f"{i.op.name} does not give array values in this stage")
    for user in users:
        if user.block is not i.block:
            report(user, "an array value of another block is used")
        if added.get(i) is user:
            continue
        if i.op.name in UNDER_STORE and user.op.name != "store":
            report(user, f"{i.op.name} stands only directly under a store")
        if not _is_interior(user) and user.op.name not in UNDER_STORE | _ROOTS:
            report(user, f"an array value is an operand of {user.op.name}")
        if user.op.name in OF_LOADS and i.op.name != "load":
            report(user, f"an operand of {user.op.name} is not a load")
        if i.op.name == "embed" and not has_steps_of_one(i):
            report(i, "an embed of a tree has steps of 1")
        if user.op.name in ("gather", "searchSorted") and user.operands[0] is i and i.op.name != "load":
            report(user, f"what {user.op.name} reads from is not a load")


def _check_root(
    root: Instruction, order: dict[Instruction, int], begin: int, alias: AliasAnalysis, report: Report
) -> None:
    """One root of the kernel that begins at a place of the block."""
    destination = written_pointer(root)
    assert root.block is not None
    for load, aligned in loads_of(root):
        if load not in order:
            continue  # reported as a use across blocks
        source = load.operands[0]
        for between in root.block.instructions[order[load] + 1 : begin]:
            if alias.may_write(between, source, in_scope=True):
                report(root, f"{between.op.name} in between may write what the tree loads")
        if destination is not None and alias.may_overlap(source, destination):
            if not (aligned and alias.same_elements(source, destination)):
                report(root, "the destination may overlap what the tree loads, at another element")


def _check_products(kernel: list[Instruction], alias: AliasAnalysis, report: Report) -> dict[Instruction, Value]:
    """Two products of one matrix; gives the first one and the second, if that takes it for its vector."""
    products = [p for p in map(matrix_product, kernel) if p is not None]
    first, second = products[:2]
    same = alias.same_elements(first.matrix, second.matrix)
    if len(products) > 2 or first.of_rows == second.of_rows or not same:
        report(second.store, "products of one kernel are a matrix times a vector, and a vector times that matrix")
    if second.vector is not first.dot:
        return {}
    if not first.of_rows or first.how:
        report(second.store, "a product that another one of its kernel takes is of rows, and stored as it is")
    return {first.dot: second.dot}


def reads_in_time(block: Block, alias: AliasAnalysis) -> bool:
    """Whether the trees of a block find in memory what was there when their loads stood: what `check_trees` asks."""
    breaches: list[str] = []
    order = {i: k for k, i in enumerate(block.instructions)}
    for kernel in kernels(block.instructions):
        for i in kernel if is_root(kernel[0]) else ():
            _check_root(i, order, order[kernel[0]], alias, lambda _, message: breaches.append(message))
    return not breaches


def _check_pair(a: Instruction, b: Instruction, alias: AliasAnalysis, report: Report) -> None:
    """What two roots of one kernel must not do."""
    if a.operands[0].type.rank != b.operands[0].type.rank:  # type: ignore[attr-defined]
        report(b, "the roots of one kernel have the same extents")
    if a in b.operands:
        report(b, "a root of one kernel needs the result of another one")
    p, q = written_pointer(a), written_pointer(b)
    if p is not None and q is not None and alias.may_overlap(p, q):
        report(b, "two stores of one kernel may write the same memory")
    for root, to in ((a, q), (b, p)):
        for load, aligned in loads_of(root):
            source = load.operands[0]
            if to is not None and alias.may_overlap(source, to) and not (aligned and alias.same_elements(source, to)):
                report(b, "a store of the kernel may write what another root reads at another place")


def loads_of(root: Instruction) -> list[tuple[Instruction, bool]]:
    """The loads of a tree; with True where it is read at the very place that the root is at."""
    found = []
    # a scatter reads the value of one place, and may have written another one before
    work: list[tuple[Value, bool]] = [(v, root.op.name != "scatter") for v in root.operands]
    seen = set(work)
    while work:
        value, aligned = work.pop()
        if not isinstance(value, Instruction) or not is_array(value.type):
            continue
        if value.op.name == "load":
            found.append((value, aligned))
            continue
        for operand in value.operands:
            member = operand, aligned and is_in_place(operand, value)
            if member not in seen:
                seen.add(member)
                work.append(member)
    return found
