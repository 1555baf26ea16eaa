"""Assume extents: extents that checks want to be equal are equal, and slices are not cut off.

    %n = extent %x: *<_ x f64> at 0                     %n = extent %x: *<_ x f64> at 0
    %m = extent %y: *<_ x f64> at 0                     %k = add %n: i64, -2: i64
    %0 = add %n: i64, -2: i64                           %s = section %x: *<_ x f64> at (1) count (%k: i64) step (1)
    %k = max %0: i64, 0: i64                            %v = load %s: *strided <_ x f64>
    %s = section %x: *<_ x f64> at (1) count (%k) ...   %w = load %y: *<_ x f64>
    %v = load %s: *strided <_ x f64>                    %z = add %v: <_ x f64>, %w: <_ x f64>
    %w = load %y: *<_ x f64>                       =>
    %1 = equal %k: i64, %m: i64                         assumed: extent %x at 0 - 2 >= 0,
    %2 = equal %k: i64, 1: i64                                   extent %x at 0 - extent %y at 0 - 2 = 0
    %3 = or %1: bool, %2: bool
    check %3: bool else ValueError "..." (%k, %m)
    %j = select %m: i64, %k: i64 by %2: bool
    %b = broadcast %v: <_ x f64> to (%j: i64)
    %z = add %b: <_ x f64>, %w: <_ x f64>

The extents of NumPy's operands are rarely known to be equal when a function is compiled, and nearly always are when it
is called. Where they are one number, nothing stretches, sections lie as one, and the adjoint of a broadcast is no sum.
What is assumed are linear relations between extents and integers among the parameters (ir/relation.py), in
`meta[RELATIONS]`: who calls the function sees to it that they hold. Extents and places that are linear are then
written in one way, one value each, so that equal ones are the same value; comparisons of them are decided. Assumed is
what makes checks of equal extents pass (none stretches), and that the bounds of slices lie in their arrays; where such
a check asks for it, also that `x[:n - 1]` is counted from the beginning of %x and `x[:-n]` from its end. A bound
that a loop counter makes is not cut off where that of the last trip is not, as of `y[:k + 1]` in a loop over the rows
of %x: assumed is that %y is as long. Other bounds stay as they are; where two that are left of arrays are to be equal,
as those of `a[k:] @ b[k:]`, the arrays are assumed to be as long.

`apply` writes a function under assumptions made of it before, as after differentiation. Stage raw.
Cost: linear in the instructions, times the relations that are assumed, and the loops around minima.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dlvm_py.ir import BOOL, I64, Builder, Function, Instruction, Literal, TensorType, Value, is_scalar, literal
from dlvm_py.ir.analysis import LoopForest, predecessors
from dlvm_py.ir.analysis.counted_loops import CountedLoop, counted_loop
from dlvm_py.ir.analysis.extents import known_extent
from dlvm_py.ir.analysis.places import Linear, linear
from dlvm_py.ir.relation import INTEGERS, Relation, Symbol
from dlvm_py.transforms.extent_forms import Form, asked_pair, compares_extents, only_grows, solved
from dlvm_py.transforms.substitution import substitute

RELATIONS = "relations"  # of Function.meta: what is assumed, in the order in which they were made

_COMPARISONS = {"equal", "notEqual", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"}
_MANY = 100  # assumptions of one function


def run(function: Function) -> bool:
    """Make assumptions of `function` and write it under them; whether there were any."""
    facts = _Facts(function, assuming=True)
    facts.collect()
    if not facts.assumed:
        return False
    function.meta[RELATIONS] = tuple(facts.assumed)
    facts.rewrite()
    return True


def apply(function: Function, assumed: Iterable[Relation]) -> None:
    """Write `function` under assumptions of its parameters."""
    facts = _Facts(function, assuming=False)
    for a in assumed:
        facts.learn(a)
    facts.rewrite()


def assume(function: Function, conditions: Iterable[Value], ends: Mapping[Value, tuple[Value, Value]]) -> bool:
    """Assume what makes conditions true, comparisons of integers that are there at the entry; whether that can be said.

    ends: the first number of loop counters, and the one behind the last: in all trips the conditions are to be true.
    Where it cannot nothing is assumed. What is assumed already is made use of.
    """
    before: tuple[Relation, ...] = function.meta.get(RELATIONS, ())  # type: ignore[assignment]
    facts = _Facts(function, assuming=True)
    facts.ends = ends
    for a in before:
        facts.learn(a)
    if not all(map(facts.assume_true, conditions)):
        return False
    function.meta[RELATIONS] = (*before, *facts.assumed)
    return True


class _Facts:
    """What is known of the integers of one function."""

    def __init__(self, function: Function, assuming: bool) -> None:
        self.function, self.assuming = function, assuming
        self.assumed: list[Relation] = []
        self.params = {p: k for k, p in enumerate(function.params)}
        self.equal: dict[Symbol, Form] = {}  # what symbols stand for
        self.positive: list[Form] = []  # what is not negative
        self.integers: set[int] = set()  # parameters that are small
        self.forms: dict[Value, Form | None] = {}
        self.ends: Mapping[Value, tuple[Value, Value]] = {}  # of loop counters
        self.chosen: dict[Instruction, Value] = {}  # minima and maxima that are one of their operands in all trips
        self.is_asked = False  # whether a check asks for what is being looked at

    # -- what is assumed ---------------------------------------------------------------------------

    def collect(self) -> None:
        """Look at all that wants extents to be equal, and at all slices."""
        self._choose()
        for i in self.function.instructions():
            if i.op.name == "check":
                pair = asked_pair(i.operands[0])
                if pair is not None:
                    self._ask(*pair)
            elif i.op.name == "section":
                for v in i.operands[1:]:
                    self.form(v)
        self.assuming = False
        self.forms = {v: f for v, f in self.forms.items() if f is not None}

    def _ask(self, x: Value, y: Value) -> None:
        """Assume what makes two extents equal."""
        if any(self.form(v) is None for v in (x, y)):  # it was not known which way the bounds of slices are counted
            self.forms = {v: f for v, f in self.forms.items() if f is not None}
        self.is_asked = True
        pairs = self._differing(x, y)
        self.is_asked = False
        for a, b in pairs or ():
            self._assume_equal(a, b)

    def _differing(self, x: Value, y: Value, subtracted: bool = False) -> list[tuple[Form, Form]] | None:
        """The forms that must be equal in pairs, so that two numbers are made alike; None where they are not.

        Of `max(%n - min(%k, %n), 0)` and the same of %m, with a loop counter %k, these are %n and %m. `min(%k, %n)` and
        `min(%k, %m)` are equal mostly because both are %k.
        """
        if x is y:
            return []
        a, b = self.form(x), self.form(y)
        if a is not None and b is not None:
            return [(a, b)]
        if not (isinstance(x, Instruction) and isinstance(y, Instruction) and x.op is y.op and x.op.is_pure):
            return None
        if x.attrs != y.attrs or len(x.operands) != len(y.operands) or not all(is_scalar(o.type) for o in x.operands):
            return None
        if x.op.name == "min" and not subtracted:
            return None
        found: list[tuple[Form, Form]] = []
        for o, p in zip(x.operands, y.operands, strict=True):
            more = self._differing(o, p, subtracted or x.op.name == "subtract")
            if more is None:
                return None
            found += more
        return found

    def _assume(self, is_zero: bool, what: Form) -> bool:
        if len(self.assumed) > _MANY:
            return False
        made = Relation(is_zero, *what)
        self.assumed.append(made)
        self.learn(made)
        return True

    def _assume_equal(self, a: Form, b: Form) -> None:
        apart = a.plus(b, -1)
        # an axis whose extent is 1 has that in its type
        if solved(apart) is not None and not any(f == Form(1) for f in (a, b)):
            self._assume(True, apart)

    def assume_true(self, v: Value) -> bool:
        """Assume that a condition holds, if it is not known; whether that can be said by relations."""
        if isinstance(v, Literal):
            return v.value is True
        if not isinstance(v, Instruction) or v.op.name not in (
            "and",
            "lessThan",
            "lessThanOrEqual",
            "greaterThanOrEqual",
        ):
            return False
        a, b = v.operands
        match v.op.name:
            case "and":
                return self.assume_true(a) and self.assume_true(b)
            case "greaterThanOrEqual":
                return self._assume_below(b, a, 0)
        return self._assume_below(a, b, int(v.op.name == "lessThan"))

    def _assume_below(self, a: Value, b: Value, by: int) -> bool:
        """Assume a + by <= b."""
        if a in self.ends:
            return self._assume_below(self.ends[a][1], b, by - 1)
        if b in self.ends:
            return self._assume_below(a, self.ends[b][0], by)
        for v, which, sign in ((a, "max", 1), (b, "min", -1)):
            if not isinstance(v, Instruction) or v.type != TensorType((), I64):
                continue
            ways = [(x, b) if sign > 0 else (a, x) for x in v.operands]
            if v.op.name == which:
                return all(self._assume_below(x, y, by) for x, y in ways)
            if v.op.name in ("max", "min"):
                # of which one is enough: one that is known
                assuming, forms, self.assuming = self.assuming, dict(self.forms), False
                is_known = any(self._assume_below(x, y, by) for x, y in ways)
                self.assuming, self.forms = assuming, forms
                if is_known:
                    return True
            if v.op.name in ("add", "subtract") and isinstance(n := v.operands[1], Literal):
                x, more = v.operands[0], int(n.value) * (1 if v.op.name == "add" else -1) * sign  # type: ignore[call-overload]
                return self._assume_below(x, b, by + more) if sign > 0 else self._assume_below(a, x, by + more)
        f, g = (Form(v.value) if type(getattr(v, "value", None)) is int else self.form(v) for v in (a, b))
        found = self._of_linear(linear(b).plus(linear(a), -1)) if f is None or g is None else g.plus(f, -1)
        if found is None:
            return False
        apart = found.plus(Form(-by))
        if self.is_positive(apart):
            return True
        return self.assuming and bool(apart.terms) and self._assume(False, apart)

    def _of_linear(self, form: Linear, depth: int = 4) -> Form | None:
        """What it is at least, in symbols: counters are exchanged for the ends that make it so."""
        counter = next((v for v in form.terms if v in self.ends), None)
        if counter is not None and depth:
            first, last = self.ends[counter]
            n = form.terms[counter]
            end = linear(first) if n > 0 else linear(last).plus(Linear(-1))
            return self._of_linear(form.plus(Linear(0, {counter: 1}), -n).plus(end, n), depth - 1)
        found = Form(form.constant)
        for v, n in form.terms.items():
            one = self.form(v)
            if one is None:
                return None
            found = found.plus(one, n)
        return found

    def learn(self, a: Relation) -> None:
        """Take a relation for true."""
        form = self.normal(Form(a.constant, a.terms))
        self.integers.update(leaf for (leaf, axis), _ in a.terms if axis < 0)
        if not a.is_zero:
            self.positive.append(form)
            return
        symbol = solved(form)
        if symbol is None:
            return
        c = dict(form.terms)[symbol]
        rest = Form(0).plus(form.plus(Form(0, ((symbol, c),)), -1), -c)
        self.equal[symbol] = rest
        self.equal = {s: self.normal(f) for s, f in self.equal.items()}
        self.positive = [self.normal(f) for f in self.positive]

    # -- what is known -----------------------------------------------------------------------------

    def normal(self, f: Form) -> Form:
        """The form in symbols that are not known by others."""
        if not any(s in self.equal for s, _ in f.terms):
            return f
        found = Form(f.constant)
        for s, c in f.terms:
            found = found.plus(self.equal.get(s, Form(0, ((s, 1),))), c)
        return found

    def form(self, v: Value) -> Form | None:
        """An i64 scalar as a linear form, if it is one."""
        if isinstance(v, Literal):
            return Form(v.value) if type(v.value) is int and abs(v.value) < INTEGERS else None
        if v not in self.forms:
            self.forms[v] = None
            self.forms[v] = self._form(v)
        found = self.forms[v]
        return None if found is None else self.normal(found)

    def _form(self, v: Value) -> Form | None:
        if not is_scalar(v.type) or v.type.dtype.name != "i64":  # type: ignore[attr-defined]
            return None
        if v in self.params:
            return self._integer(self.params[v])
        if not isinstance(v, Instruction):
            return None
        if v.op.name == "extent":
            return self.extent(v.operands[0], v.attrs["at"])
        if v.op.name not in ("add", "subtract", "multiply", "negate", "min", "max", "select"):
            return None
        forms = [self.form(o) for o in v.operands[:2]]
        if v.op.name == "select":
            return self._selected(v.operands[2], *forms)
        if any(f is None for f in forms):
            return None
        a, b = (*forms, None)[:2]
        assert a is not None
        if b is None:
            return Form(0).plus(a, -1)
        match v.op.name:
            case "add":
                return a.plus(b)
            case "subtract":
                return a.plus(b, -1)
            case "multiply":
                if a.terms and b.terms:
                    return None
                one, times = (a, b.constant) if a.terms else (b, a.constant)
                return Form(0).plus(one, times) if abs(times) < 1 << 10 else None
            case "min":
                return self._smaller(a, b)
        return self._larger(a, b)

    def _integer(self, leaf: int) -> Form | None:
        if self.assuming and leaf not in self.integers:
            symbol = (leaf, -1)
            if not all(self._assume(False, Form(INTEGERS, ((symbol, c),))) for c in (1, -1)):
                return None
        return Form(0, (((leaf, -1), 1),)) if leaf in self.integers else None

    def extent(self, of: Value, axis: int) -> Form | None:
        """The extent of an array."""
        found = known_extent(of, axis)
        if isinstance(found, Value):
            return self.form(found)
        value, at = found
        return self.normal(Form(0, (((self.params[value], at), 1),))) if value in self.params else None

    def is_positive(self, f: Form) -> bool:
        """Whether a form is known not to be negative."""
        return only_grows(f) or any(only_grows(f.plus(p, -1)) for p in self.positive)

    def _smaller(self, a: Form, b: Form) -> Form | None:
        if self.is_positive(a.plus(b, -1)):
            return b
        if self.is_positive(b.plus(a, -1)):
            return a
        # the end of a slice, and where its array ends
        is_extent, is_other = (f.is_extent if self.is_asked else f.is_symbol for f in (a, b))
        if not self.assuming or is_extent == is_other:
            return None
        end, extent = (b, a) if is_extent else (a, b)
        return end if self._assume(False, extent.plus(end, -1)) else None

    def _larger(self, a: Form, b: Form) -> Form | None:
        if self.is_positive(a.plus(b, -1)):
            return a
        if self.is_positive(b.plus(a, -1)):
            return b
        if not self.assuming or (a.terms and b.terms):
            return None
        count, least = (a, b) if a.terms else (b, a)
        return count if self._assume(False, count.plus(least, -1)) else None

    def _selected(self, condition: Value, a: Form | None, b: Form | None) -> Form | None:
        known = self.decided(condition)
        if known is None and a is not None and b is not None and a != b:
            known = self._counted_from(condition, a, b)
        if known is not None:
            return a if known else b
        return a if a == b else None

    def _counted_from(self, condition: Value, a: Form, b: Form) -> bool | None:
        """Whether a place is counted from the end of its array, which is then assumed.

        Of `x[:n - 1]`, `select (%n - 1 + extent %x at 0), (%n - 1) by (%n - 1 < 0)`, it is not, of `x[:-n]` it is.
        """
        is_place = isinstance(condition, Instruction) and condition.op.name == "lessThan" and a.plus(b, -1).is_extent
        if not (self.assuming and self.is_asked and is_place) or any(axis >= 0 for (_, axis), _ in b.terms):
            return None
        place, zero = condition.operands  # type: ignore[union-attr]
        signs = {c > 0 for _, c in b.terms}
        if self.form(place) != b or self.form(zero) != Form(0) or len(signs) != 1:
            return None
        (is_forward,) = signs
        is_assumed = self._assume(False, b if is_forward else Form(-1).plus(b, -1))
        return not is_forward if is_assumed else None

    def decided(self, v: Value) -> bool | None:
        """What a comparison of two forms always gives, if it does."""
        if isinstance(v, Literal) and isinstance(v.value, bool):
            return v.value
        if not isinstance(v, Instruction) or v.op.name not in _COMPARISONS:
            return None
        a, b = map(self.form, v.operands)
        if a is None or b is None:
            return None
        apart, back = a.plus(b, -1), b.plus(a, -1)
        one = Form(1)
        if not apart.terms or self.is_positive(apart.plus(one, -1)) or self.is_positive(back.plus(one, -1)):
            # equal, or known which is larger
            sign = apart.constant if not apart.terms else 1 if self.is_positive(apart.plus(one, -1)) else -1
            return {
                "equal": sign == 0, "notEqual": sign != 0, "lessThan": sign < 0, "lessThanOrEqual": sign <= 0,
                "greaterThan": sign > 0, "greaterThanOrEqual": sign >= 0,
            }[v.op.name]  # fmt: skip
        if v.op.name in ("greaterThanOrEqual", "lessThan") and self.is_positive(apart):
            return v.op.name == "greaterThanOrEqual"
        if v.op.name in ("lessThanOrEqual", "greaterThan") and self.is_positive(back):
            return v.op.name == "lessThanOrEqual"
        return None

    # -- what depends on the counters of loops -------------------------------------------------------

    def _choose(self) -> None:
        """Find the minima and maxima that are one of their operands in all trips of the loops around them.

        Of `min(%k + 1, extent %y at 0)` in a loop for %k up to an extent of %x it is assumed, as of the ends of slices.
        """
        assuming, self.assuming = self.assuming, False  # that it is asked for is no reason to assume anything
        wanted = [i for i in self.function.instructions() if i.op.name in ("min", "max") and self.form(i) is None]
        self.assuming = assuming
        self.forms = {v: f for v, f in self.forms.items() if f is not None}
        if not wanted:
            return
        edges = predecessors(self.function)
        forest = LoopForest(self.function)
        counted = {loop: counted_loop(loop, edges) for loop in forest.loops}
        for i in wanted:
            around: dict[Value, CountedLoop] = {}
            loop = forest.loop_of(i.block) if i.block is not None else None
            while loop is not None:
                found = counted[loop]
                if found is not None and i.block is not loop.header:
                    around[found.counter] = found
                loop = loop.parent
            for x, other in (i.operands, i.operands[::-1]) if around else ():
                end, limit = self._end(x, i.op.name == "min", around), self.form(other)
                if end is None or limit is None:
                    continue
                apart = limit.plus(end, -1) if i.op.name == "min" else end.plus(limit, -1)
                is_wanted = self.assuming and i.op.name == "min" and compares_extents(apart)
                if self.is_positive(apart) or (is_wanted and self._assume(False, apart)):
                    self.chosen[i] = x
                    break

    def _end(self, v: Value, top: bool, around: Mapping[Value, CountedLoop]) -> Form | None:
        """A form that a number never exceeds in the trips of some loops; or (not top) that it never is below."""
        form = self.form(v)
        if form is not None:
            return form
        if v in around:
            c = around[v]
            at_last = top is (c.step == 1)
            end = self._end(c.last if at_last else c.first, top, around)
            return None if end is None else end.plus(Form(-c.step if at_last else 0))
        if not isinstance(v, Instruction):
            return None
        if v in self.chosen:
            return self._end(self.chosen[v], top, around)
        if v.op.name not in ("add", "subtract"):
            return None
        a, b = v.operands
        one, two = self._end(a, top, around), self._end(b, top is (v.op.name == "add"), around)
        return None if one is None or two is None else one.plus(two, 1 if v.op.name == "add" else -1)

    # -- what becomes of it ------------------------------------------------------------------------

    def rewrite(self) -> None:
        """Write linear numbers in one way; what is decided is a literal, what stretches nothing is its operand."""
        entry = self.function.entry
        found: dict[Value, Value] = {}
        made: dict[Form, Value] = {}
        b = Builder(self.function, entry)
        b.position = 0

        self._choose()
        instructions = list(self.function.instructions())
        for p in self.function.params:
            form = self.form(p) if is_scalar(p.type) else None
            if form is not None and form.terms != (((self.params[p], -1), 1),):
                found[p] = self._made(b, form, made)
        for i in instructions:
            if i.op.name in ("broadcast", "unbroadcast"):
                if i.type == i.operands[0].type and self._stretches_nothing(i):
                    found[i] = i.operands[0]
            elif i.op.name in _COMPARISONS and i.type == TensorType((), BOOL):
                known = self.decided(i)
                if known is not None:
                    found[i] = literal(known)
            elif i in self.chosen:
                found[i] = self.chosen[i]
            elif is_scalar(i.type) and (form := self.form(i)) is not None:
                found[i] = self._made(b, form, made)
        substitute(self.function.blocks, found)

    def _stretches_nothing(self, i: Instruction) -> bool:
        x = i.operands[0]
        for k, n in enumerate(i.operands[1:]):
            known, have = known_extent(x, k), self.extent(x, k)
            is_same = isinstance(known, Value) and self._number(known) is self._number(n)
            if not is_same and (have is None or have != self.form(n)):
                return False
        return True

    def _number(self, v: Value) -> Value:
        while v in self.chosen:
            v = self.chosen[v]
        return v

    def _made(self, b: Builder, form: Form, made: dict[Form, Value]) -> Value:
        """The value of a form, computed at the entry."""
        if not form.terms:
            return literal(form.constant)
        if form in made:
            return made[form]
        value: Value
        if form.constant:
            value = b.emit("add", self._made(b, form._replace(constant=0), made), literal(form.constant))
        elif len(form.terms) > 1:
            *front, (symbol, c) = form.terms
            rest = self._made(b, Form(0, tuple(front)), made)
            part = self._made(b, Form(0, ((symbol, abs(c)),)), made)
            value = b.emit("add" if c > 0 else "subtract", rest, part)
        else:
            (((leaf, axis), c),) = form.terms
            if c != 1:
                value = b.emit("multiply", self._made(b, Form(0, (((leaf, axis), 1),)), made), literal(c))
            else:
                p = self.function.params[leaf]
                value = p if axis < 0 else b.emit("extent", p, at=axis)
        made[form] = value
        return value
