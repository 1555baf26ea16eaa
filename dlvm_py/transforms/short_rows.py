"""Loops over the rows of an array of two, three or four columns have a version that knows how many there are.

    %c = extent %img at 2                           'gate():  %is = equal %c, 3
    %fine = greaterThan %c, 2                                  %rows = shapeCast %img to (%h, %w, 3)
    'loop(%i: i64):                                            conditional %is then 'fast(0) else 'loop(0)
        ...                                         'fast(%i: i64):
        %r = load (elementPointer %img at %i, %j, 0)    ...
        check %fine                                     %r = load (elementPointer %rows at %i, %j, 0)
        %b = load (elementPointer %img at %i, %j, 2)    %b = load (elementPointer %rows at %i, %j, 2)
        ...                                             ...
                                                    'loop(%i: i64):   as it was, to 'joined

The elements img[i, j, c] of successive j lie img.shape[2] apart, a number that is known when the function is called: a
loop along j has to gather them. If it is 3 they are interleaved, and LLVM loads three vectors and sorts them by
shuffles. Colours of pixels and coordinates of points are such arrays. The last index says how many columns there are
likely to be: one more than the largest literal.

Where an innermost loop sums along the columns of two rows, `for d in range(x.shape[1]): s += (x[i, d] - y[k, d]) ** 2`,
nobody says how many there are likely to be: there is a version for points of the plane, and one for those of space. Of
a loop of two or three trips, as often as there are pairs of points, its ends are most of the time; there it has none.

For a loop that is left at its head alone, of at most LARGE instructions, and contiguous arrays that nothing in it
stores to: an outermost one, where an innermost loop that counts reads two columns or more at its counter; or the
outermost one around loops along columns. Stage compute, before checks become limits (limit_counts.py); once in a
pipeline, since the slow loop is one that could be versioned.
"""

from __future__ import annotations

from dlvm_py.ir import OPS, Builder, Function, Instruction, Kind, PointerType, Value, is_scalar, literal
from dlvm_py.ir.analysis.alias import AliasAnalysis
from dlvm_py.ir.analysis.counted_loops import counting_head, is_outside
from dlvm_py.ir.analysis.dominance import DominatorTree
from dlvm_py.ir.analysis.effects import writes_memory, written_pointer
from dlvm_py.ir.analysis.loops import Loop, LoopForest
from dlvm_py.ir.value import integer
from dlvm_py.transforms.literals import boolean
from dlvm_py.transforms.loop_versions import entered_with, second_version
from dlvm_py.transforms.substitution import is_extent, substitute

LARGE = 150
MOST = 4  # columns
POINTS = (2, 3)  # numbers of columns of points


def run(function: Function, noalias_params: bool = True) -> bool:
    """Give the loops of `function` over such rows a second version; whether there were any."""
    forest = LoopForest(function)
    found = [(loop, columns) for loop in forest.top if (columns := _columns(function, loop, noalias_params))]
    others = [loop for loop in forest.top if not any(loop is of for of, _ in found)]
    points = [pair for loop in others for pair in _points(function, loop, noalias_params)]
    for loop, columns in found:
        _version(function, loop, columns)
    for loop, base in points:
        for n in POINTS:
            _version(function, loop, {base: n})
    return bool(found or points)


def _columns(function: Function, loop: Loop, noalias_params: bool) -> dict[Value, int]:
    """The arrays with rows of a few elements, with how many there probably are."""
    if not _is_simple(loop):
        return {}
    read: dict[Value, set[int]] = {}
    for inner in _innermost(loop):
        head = counting_head(inner)
        if head is None:
            continue
        for i in (i for b in inner.ordered for i in b.instructions):
            place = i.operands[0] if i.op is OPS["load"] else None
            if not isinstance(place, Instruction) or place.op is not OPS["elementPointer"] or place.attrs:
                continue
            base, *indices = place.operands
            column = integer(indices[-1])
            if len(indices) > 1 and column is not None and _is_candidate(base, len(indices)):
                if _steps_by_one(indices[-2], head.counter):
                    read.setdefault(base, set()).add(column)
    columns = {base: max(at) + 1 for base, at in read.items() if len(at) > 1 and 0 <= min(at) <= max(at) < MOST}
    if not columns:
        return {}
    return {base: n for base, n in columns.items() if _is_fixed(function, base, loop, noalias_params)}


def _is_simple(loop: Loop) -> bool:
    """Whether a loop is short, left at its head alone, and calls nothing."""
    instructions = [i for b in loop.ordered for i in b.instructions]
    if len(instructions) > LARGE or loop.exiting_block is not loop.header:
        return False
    return not any(i.op.kind in (Kind.CALL, Kind.HIGHER_ORDER) for i in instructions)


def _is_fixed(function: Function, base: Value, loop: Loop, noalias_params: bool) -> bool:
    """Whether an array is there before a loop, which reads its elements one by one, and nothing in it stores to it."""
    instructions = [i for b in loop.ordered for i in b.instructions]
    if not all(_reads_by_elements(i, base) for i in instructions if base in i.all_operands()):
        return False  # a row of its second version would have another type
    alias = AliasAnalysis(function, noalias_params)
    written = [written_pointer(i) for i in instructions if writes_memory(i)]
    is_kept = not any(w is None or alias.may_alias(w, base) for w in written)
    return is_kept and _is_before(base, loop, DominatorTree(function))


def _reads_by_elements(i: Instruction, base: Value) -> bool:
    is_element = i.op is OPS["elementPointer"] and len(i.operands) == 1 + base.type.rank  # type: ignore[attr-defined]
    return i.op is OPS["extent"] or is_element


def _points(function: Function, loop: Loop, noalias_params: bool) -> list[tuple[Loop, Value]]:
    """The loops around loops along the columns of an array, with the array."""
    if not loop.children:
        return []
    bases = dict.fromkeys(base for inner in _innermost(loop) if (base := _counted_along(inner)) is not None)
    if bases and _is_simple(loop):
        base = next((base for base in bases if _is_fixed(function, base, loop, noalias_params)), None)
        if base is not None:
            return [(loop, base)]
    return [pair for child in loop.children for pair in _points(function, child, noalias_params)]


def _counted_along(inner: Loop) -> Value | None:
    """The array of which a loop sums what it makes of a row and of another one, once for each column."""
    head = counting_head(inner)
    if head is None or not isinstance(head.last, Instruction) or head.last.op is not OPS["extent"]:
        return None
    if not any(is_scalar(a.type) and a.type.dtype.kind == "f" for a in inner.header.args):  # type: ignore[attr-defined]
        return None
    base, rows = head.last.operands[0], []
    for i in (i for b in inner.ordered for i in b.instructions if i.op is OPS["load"]):
        place = i.operands[0]
        if not isinstance(place, Instruction) or place.op is not OPS["elementPointer"]:
            return None
        array, *row, column = place.operands
        if not row or column is not head.counter or not all(is_outside(v, inner) for v in row):
            return None
        rows.append(array)
    is_one = base in rows and head.last.attrs["at"] == base.type.rank - 1  # type: ignore[attr-defined]
    return base if len(rows) > 1 and is_one and _is_candidate(base, base.type.rank) else None  # type: ignore[attr-defined]


def _innermost(loop: Loop) -> list[Loop]:
    return [inner for child in loop.children for inner in _innermost(child)] or [loop]


def _is_candidate(base: Value, rank: int) -> bool:
    """Whether an array is contiguous, and its last extent not known."""
    t = base.type
    return isinstance(t, PointerType) and t.layout == "C" and t.rank == rank and t.shape[-1] is None


def _steps_by_one(index: Value, counter: Value) -> bool:
    """Whether an index is the counter, or a sum of it and a number."""
    if index is counter:
        return True
    return isinstance(index, Instruction) and index.op.name == "add" and any(v is counter for v in index.operands)


def _is_before(base: Value, loop: Loop, tree: DominatorTree) -> bool:
    home = getattr(base, "block", None)
    return home is not None and home not in loop.blocks and tree.dominates(home, loop.header)


def _version(function: Function, loop: Loop, columns: dict[Value, int]) -> None:
    mapping: dict[Value, Value] = {}
    outside = [v for b in loop.ordered for i in b.instructions for v in i.all_operands()]
    gate, fast = second_version(function, loop, mapping)
    b = Builder(function).at_end(gate)
    b.loc = loop.header.instructions[-1].loc
    known: dict[Value, Value] = {}
    condition: Value = literal(True)
    for base, n in columns.items():
        rank = base.type.rank  # type: ignore[attr-defined]
        extents = [b.emit("extent", base, at=k) for k in range(rank)]
        condition = b.emit("and", condition, b.emit("equal", extents[-1], literal(n)))
        known[base] = b.emit("shapeCast", base, *extents[:-1], literal(n))
        for v in outside:
            if is_extent(v, base, rank - 1):
                known[mapping.get(v, v)] = literal(n)
            holds = _comparison(v, base, rank - 1, n)
            if holds is not None and getattr(v, "block", None) not in loop.blocks:
                known[v] = literal(holds)
    first = entered_with(function, gate)
    b.conditional(condition, fast[0], first, loop.header, list(first))
    substitute(fast, known)
    for block in fast:
        block.instructions = [i for i in block.instructions if not _holds(i)]


def _holds(i: Instruction) -> bool:
    """Whether an instruction is a check of what is so."""
    return i.op is OPS["check"] and boolean(i.operands[0]) is True


def _comparison(v: Value, base: Value, axis: int, n: int) -> bool | None:
    """What a comparison of an extent with a literal is, if that extent is n."""
    if not isinstance(v, Instruction) or v.op.name not in ("greaterThan", "lessThan", "notEqual"):
        return None
    a, b = v.operands
    if v.op.name == "lessThan":
        a, b = b, a
    number = integer(b)
    if number is None or not is_extent(a, base, axis):
        return None
    return n != number if v.op.name == "notEqual" else n > number
