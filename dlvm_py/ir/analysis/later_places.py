"""Whether a place that is read may be written later: accesses of one array told apart by when and where they are.

    'rows(%i): ...                          later writes:  in later trips of 'columns: %j' > %j, on axis 1 behind what
    'columns(%j): lessThan %j, %i ...                          is read, which ends at %j - 1
    'body():                                               in later trips of 'rows: %i' > %i, another row
        %row = section (elementPointer %a at %i) at (0) count (%j) step (1)
        load %row                                          no later write meets what was read: it is still there
        store %x to (elementPointer %a at %i, %j)

A write that runs after a read is in the same trips of the outermost loops around both and in a later trip of the next
one, or in the same trip of all of them, further on. For each of these cases one axis must tell the two apart: each
index of one access is below each of the other. What is known for it are the ends of the counters, in the trip of the
read and in that of the write, and which of them is the later one.

Integers are taken for what they mean, as in inequalities.py. Where nothing is known, a place may be written.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm_py.frozen import Frozen
from dlvm_py.ir.analysis.loops import Loop
from dlvm_py.ir.analysis.places import Axis, Linear, Place, linear, place_of, tops
from dlvm_py.ir.function import Block
from dlvm_py.ir.value import BlockArg, Instruction, Literal, Value, integer

_DEPTH = 8
_WORK = 200  # forms that are looked at for one pair of accesses
# factors from here on may take an index around, past 2^64
_FAR = 2**31


class Counter(Frozen):
    """An argument of a loop's header: in a trip it is not below `low` nor above `high`, and steps by 1 or (down) -1."""

    argument: BlockArg
    low: Linear
    high: Linear
    is_down: bool


class LaterPlaces:
    """Asks about the accesses of one function.

    loop_of: the innermost loop of a block; counter_of: how a loop counts, None where it does not.
    """

    def __init__(self, loop_of: Callable[[Block], Loop | None], counter_of: Callable[[Loop], Counter | None]) -> None:
        self._loop_of, self._counter_of = loop_of, counter_of

    def is_apart(self, read: tuple[Block, Value], write: tuple[Block, Value], in_same_trip: bool) -> bool:
        """Whether no write to `write` that runs after a read of `read` meets it; each: a block, a pointer used there.

        in_same_trip: whether the write may come after the read without another trip of a loop that is around both.
        """
        (here, source), (there, target) = read, write
        a, b = place_of(source), place_of(target)
        if a.base is not b.base or not a.axes or not isinstance(a.base, Instruction):
            return False
        around, writing = self._around(here), self._around(there)
        if any(loop.header in (here, there) for loop in (*around, *writing)):
            return False  # a counter is past its end there
        common = [loop for loop in around if loop in writing]
        for k in range(len(common) + in_same_trip):
            made = _Trips(common[:k], common[k] if k < len(common) else None, around, writing, self._loop_of)
            if not made.tell_apart(a, b, self._counter_of):
                return False
        return True

    def _around(self, block: Block) -> list[Loop]:
        """The loops around a block, the outermost first."""
        found: list[Loop] = []
        loop = self._loop_of(block)
        while loop is not None:
            found.insert(0, loop)
            loop = loop.parent
        return found


class _Trips:
    """Trips of a read and of a write: in `same` loops they are the same, in `next` the write's is a later one."""

    def __init__(
        self,
        same: list[Loop],
        next: Loop | None,
        reading: list[Loop],
        writing: list[Loop],
        loop_of: Callable[[Block], Loop | None],
    ) -> None:
        self._same, self._next, self._sides = same, next, (reading, writing)
        self._loop_of = loop_of
        self._copies: tuple[dict[Value, Value], dict[Value, Value]] = {}, {}
        self._lows: dict[Value, list[Linear]] = {}
        self._highs: dict[Value, list[Linear]] = {}
        self._one_of: dict[Value, list[Linear]] = {}  # of a minimum, or a maximum
        self._order: list[Value] = []  # counters, the innermost last
        self._work = _WORK

    def tell_apart(self, read: Place, write: Place, counter_of: Callable[[Loop], Counter | None]) -> bool:
        """Whether an axis tells the places apart."""
        for side, loops in enumerate(self._sides):
            for loop in loops:
                counter = counter_of(loop)
                if counter is not None:
                    self._learn(side, loop, counter)
        return any(
            self._is_below((0, a), (1, b)) or self._is_below((1, b), (0, a))
            for a, b in zip(read.axes, write.axes, strict=True)
        )

    def _learn(self, side: int, loop: Loop, counter: Counter) -> None:
        mine = self._copy(side, counter.argument)
        if mine not in self._order:
            self._order.append(mine)
            self._lows[mine] = [self._of(side, counter.low)]
            self._highs[mine] = [self._of(side, counter.high)]
        if loop is self._next and side == 1:
            earlier = self._copy(0, counter.argument)
            first, last = (mine, earlier) if counter.is_down else (earlier, mine)
            self._lows[last].insert(0, Linear(1, {first: 1}))
            self._highs[first].insert(0, Linear(-1, {last: 1}))

    # -- the integers of both trips ----------------------------------------------------------------------

    def _copy(self, side: int, v: Value) -> Value:
        """What stands for a value in the trip of the read (side 0) or the write (1): itself where it is the same."""
        if not isinstance(v, BlockArg | Instruction):
            return v
        if v not in self._copies[side]:
            loop = self._loop_of(v.block)  # type: ignore[arg-type]
            is_same = loop is None or loop in self._same
            mine = self._copies[side][v] = v if is_same else Value(v.type, v.name)
            if isinstance(v, Instruction) and v.op.name in ("min", "max"):
                ends = [self._of(side, linear(o)) for o in v.operands]
                (self._highs if v.op.name == "min" else self._lows)[mine] = ends
                self._one_of[mine] = ends
        return self._copies[side][v]

    def _of(self, side: int, form: Linear) -> Linear:
        found = Linear(form.constant)
        for v, n in form.terms.items():
            found = found.plus(Linear(0, {self._copy(side, v): n}))
        return found

    def _is_below(self, a: tuple[int, Axis], b: tuple[int, Axis]) -> bool:
        """Whether each index of one access is less than each of the other."""
        (side, low), (other, high) = a, b
        if high.start is None or (high.step < 1 and high.count != 1):
            return False
        least = self._of(other, high.start)
        return any(self._is_natural(least.plus(self._of(side, top), -1).plus(Linear(-1))) for top in tops(low))

    # -- what is known -----------------------------------------------------------------------------------

    def _is_natural(self, form: Linear, depth: int = _DEPTH) -> bool:
        """Whether a form is known not to be negative."""
        self._work -= 1
        if all(n > 0 and _never_negative(v) for v, n in form.terms.items()):
            return form.constant >= 0
        if not depth or self._work < 0 or any(abs(n) >= _FAR for n in form.terms.values()):
            return False
        for v in sorted(form.terms, key=lambda v: -self._order.index(v) if v in self._order else 1):
            n = form.terms[v]
            rest = form.plus(Linear(0, {v: 1}), -n)
            ends = (self._lows if n > 0 else self._highs).get(v)
            if ends is not None:
                if any(self._is_natural(rest.plus(end, n), depth - 1) for end in ends):
                    return True
            elif v in self._one_of:
                return all(self._is_natural(rest.plus(end, n), depth - 1) for end in self._one_of[v])
            elif n < 0 and (found := _most(v, -n)) is not None:
                return self._is_natural(rest.plus(found, -1), depth - 1)
        return False


def _most(v: Value, n: int) -> Linear | None:
    """What n times an integer is at most, where it is a quotient, rounded down, by a divisor of n."""
    if not isinstance(v, Instruction) or v.op.name != "floorDivide":
        return None
    divided, by = v.operands
    divisor = integer(by)
    return linear(divided).times(n // divisor) if divisor is not None and divisor > 0 and n % divisor == 0 else None


def _never_negative(v: Value) -> bool:
    if not isinstance(v, Instruction):
        return False
    return v.op.name == "extent" or (
        v.op.name == "max" and any(isinstance(o, Literal) and int(o.value) >= 0 for o in v.operands)
    )
