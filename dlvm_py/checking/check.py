"""dlvm.check: a compiled function against the same one in plain Python, its derivatives against differences."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.checking import leaves as tree
from dlvm_py.checking.differences import Difference, difference
from dlvm_py.checking.locate import first_departure
from dlvm_py.checking.report import ERROR, NOTE, CheckReport, Finding
from dlvm_py.checking.stops import stops
from dlvm_py.dispatch import compiled_function
from dlvm_py.errors import ArgumentError, CompileError, DLError
from dlvm_py.frozen import replace
from dlvm_py.ir.interface import RecordSpec, TupleSpec, dtype_of_leaf
from dlvm_py.ir.interface import leaves as spec_leaves
from dlvm_py.options import Options
from dlvm_py.recipe import Primal, gradient, tangent

MOST_ELEMENTS = 200  # that are compared one by one; of more, as many are drawn at random, and random directions too
DIRECTIONS = 3
MOST_FINDINGS = 5  # of one kind
ROUNDING = {4: 2e-4, 8: 1e-9}  # by the bytes of the narrowest float: what two ways to round may differ by


def check(
    recipe: Primal,
    options: Options,
    args: tuple[Any, ...],
    wrt: tuple[int, ...] | None,
    tolerance: float,
    seed: int,
) -> CheckReport:
    """The report on a function at arguments, one a parameter."""
    return _Check(recipe, options, args, wrt, tolerance, seed).run()


class _Check:
    """One run of dlvm.check."""

    def __init__(
        self,
        recipe: Primal,
        options: Options,
        args: tuple[Any, ...],
        wrt: tuple[int, ...] | None,
        tolerance: float,
        seed: int,
    ) -> None:
        self.recipe, self.options, self.args = recipe, options, args
        self.function: Any = recipe.function
        self.names = list(recipe.signature().parameters)
        self.wrt = tuple(k for k, a in enumerate(args) if tree.float_leaves(a)) if wrt is None else wrt
        for k in self.wrt:
            if not tree.float_leaves(args[k]):
                raise ArgumentError(
                    f"cannot differentiate with respect to '{self.names[k]}': it holds no floats", code="DL702"
                )
        self.tolerance = tolerance
        self.rng = np.random.default_rng(seed)
        self.report = CheckReport(self.function.__name__)
        widths = [np.asarray(leaf).real.dtype.itemsize for a in args for _, leaf in tree.float_leaves(a)]
        self.rounding = ROUNDING[4 if min(widths, default=8) < 8 else 8]
        # where the entries of each wrt lie in the vector of all
        sizes = [len(tree.vector(args[k])) for k in self.wrt]
        ends = np.cumsum([0, *sizes])
        self.ranges = [slice(int(a), int(b)) for a, b in zip(ends, ends[1:], strict=False)]
        self.size = int(ends[-1])

    def run(self) -> CheckReport:
        """All parts, until one leaves nothing to compare."""
        if self._forward() and self.wrt:
            self._stops()
            self._derivatives()
        return self.report

    def _add(self, severity: str, kind: str, message: str, **more: Any) -> None:
        self.report.findings.append(Finding(severity, kind, message, **more))

    # -- plain Python ----------------------------------------------------------------------------------

    def _moved(self, by: np.ndarray) -> tuple[Any, ...]:
        """Fresh arguments, moved; floats are float64 then."""
        made = list(copy.deepcopy(self.args))
        for k, place in zip(self.wrt, self.ranges, strict=True):
            made[k] = tree.moved(self.args[k], by[place])
        return tuple(made)

    def _outputs(self, result: Any, args: tuple[Any, ...]) -> np.ndarray:
        """The outputs that are differentiated, as one vector."""
        return tree.vector(self._chosen(result, args))

    def _chosen(self, result: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(args[self.names.index(s)] if isinstance(s, str) else self.part(result, s) for s in self.sources)

    def _plain(self, by: np.ndarray) -> np.ndarray:
        """The outputs of plain Python at moved arguments; NaN where they have another number, or an exception comes."""
        args = self._moved(by)
        result = _outcome(self.function, args)
        found = np.zeros(0) if isinstance(result, Exception) else self._outputs(result, args)
        return found if len(found) == len(self.weights) else np.full(len(self.weights), np.nan)

    # -- value, effects, exceptions --------------------------------------------------------------------

    def _forward(self) -> bool:
        """Whether there is something to differentiate."""
        compiled = compiled_function(self.recipe, self.options)
        ours, theirs = copy.deepcopy(self.args), copy.deepcopy(self.args)
        try:
            got = _outcome(compiled, ours)
        except CompileError as error:
            self._add(ERROR, "compile", error.reason, loc=error.loc)
            return False
        want = _outcome(self.function, theirs)
        if isinstance(want, Exception) or isinstance(got, Exception):
            if type(want) is not type(got):
                self._add(ERROR, "exception", f"compiled code {_ended(got)}, plain Python {_ended(want)}")
            else:
                self.report.compared.append(f"exception: both raise {type(want).__name__}; no derivatives are compared")
            return False
        before = len(self.report.findings)
        self._compare(got, want, "value", "the result")
        for name, a, b in zip(self.names, ours, theirs, strict=True):
            self._compare(a, b, "effect", f"'{name}' after the call")
        if len(self.report.findings) > before:
            self._blame(before, lambda t: copy.deepcopy(self.args), None)
            return False
        self.report.compared.append("value, dtype, shape and written arguments with plain Python")
        self.program = compiled.program(*self.args)
        effects, shape = self.program.effects, self.program.result
        if effects is not None:
            assert isinstance(shape, TupleSpec)
            shape = shape.items[0]
        indexed = isinstance(shape, TupleSpec) or (isinstance(shape, RecordSpec) and isinstance(want, tuple | list))
        self.part: Callable[[Any, int], Any] = operator.getitem if indexed else lambda result, k: result
        results = [k for k, part in enumerate(want if indexed else (want,)) if tree.float_leaves(part)]
        pairs = zip(self.names, self.args, theirs, strict=True)
        written = [n for n, a, b in pairs if tree.float_leaves(a) and not _same(tree.vector(a), tree.vector(b))]
        self.sources: tuple[int | str, ...] = (*results, *written)
        if not self.sources:
            self._add(NOTE, "independent", "no output is a float: there is nothing to differentiate")
        return bool(self.sources)

    def _compare(self, got: Any, want: Any, kind: str, what: str) -> None:
        ours, theirs = list(tree.leaves(got, what)), list(tree.leaves(want, what))
        if [n for n, _ in ours] != [n for n, _ in theirs]:
            self._add(ERROR, kind, f"{what} has another structure: {got!r}, plain Python gives {want!r}")
            return
        for (name, a), (_, b) in zip(ours, theirs, strict=True):
            if not isinstance(b, np.ndarray | np.generic | int | float | complex):
                continue  # None, strings, functions: constants
            x, y = np.asarray(a), np.asarray(b)
            if type(a) is not type(b) or x.dtype != y.dtype or x.shape != y.shape:
                self._add(ERROR, kind, f"{name} is {_described(a)}, in plain Python {_described(b)}")
                continue
            limit = self.rounding if y.dtype.kind in "fc" else 0.0
            with np.errstate(all="ignore"):
                near = np.isclose(x, y, rtol=limit, atol=limit * _size(y), equal_nan=y.dtype.kind in "fc")
            for index in map(tuple, np.argwhere(~near)[:1]):
                at = f"{name}[{', '.join(map(str, index))}]" if index else name
                self._add(ERROR, kind, f"{at} is {x[index]!r}, in plain Python {y[index]!r}")

    def _blame(self, first: int, args: Callable[[float], tuple[Any, ...]], v: np.ndarray | None) -> None:
        """Put the line that departs first into the errors from `first` on. v: the direction; None: values only."""
        direction = None if v is None else tuple(v[p] for p in self.ranges)
        scale = 1.0 if v is None else self._scale(v)
        limit = self.rounding if v is None else max(self.tolerance, self.rounding)
        found = first_departure(self.function, args, direction, self.wrt, self.options, limit, scale)
        for k, f in enumerate(self.report.findings):
            if found is not None and k >= first and f.severity == ERROR:
                how = "value" if found.how == "value" else f"derivative by {found.how} mode"
                text = f"{f.message}; the {how} of {found.name} departs first on this line"
                self.report.findings[k] = replace(f, message=text, loc=found.loc)

    # -- where gradients stop --------------------------------------------------------------------------

    def _stops(self) -> None:
        program = self.program
        starts = np.cumsum([0, *(len(spec_leaves(spec)) for spec in program.args)])
        inputs = [
            int(starts[k]) + j
            for k in self.wrt
            for j, leaf in enumerate(spec_leaves(program.args[k]))
            if dtype_of_leaf(leaf).is_inexact
        ]
        for stop in stops(program.module, program.name, inputs):
            self._add(NOTE, "branch" if stop.decides else "stop", stop.what, loc=stop.loc)

    # -- derivatives -----------------------------------------------------------------------------------

    def _derivatives(self) -> None:
        forward = compiled_function(tangent(self.recipe, self.wrt, self.sources), self.options)
        reverse = compiled_function(gradient(self.recipe, self.wrt, None, True, self.sources), self.options)
        args = copy.deepcopy(self.args)
        outputs = self._chosen(_outcome(self.function, args), args)
        count = len(tree.vector(outputs))
        self.weights = self.rng.choice([-1.0, 1.0], count) * self.rng.uniform(0.5, 1.0, count)
        seed = tree.like(outputs if len(outputs) > 1 else outputs[0], self.weights)
        try:
            pulled = reverse(*copy.deepcopy(self.args), seed)
            self.gradient = np.concatenate([np.zeros(0), *map(tree.vector, pulled)])
            self.forward = forward
            self._push(np.zeros(self.size))
        except (CompileError, ArgumentError) as error:
            self._add(ERROR, "compile", getattr(error, "reason", str(error)), loc=getattr(error, "loc", None))
            return
        self._modes()
        self._elements()

    def _push(self, direction: np.ndarray) -> np.ndarray:
        """The tangent of the outputs along a direction, by compiled forward mode."""
        tangents = (tree.like(self.args[k], direction[p]) for k, p in zip(self.wrt, self.ranges, strict=True))
        return tree.vector(self.forward(*copy.deepcopy(self.args), *tangents)[1])

    def _modes(self) -> None:
        """The dot-product identity: ⟨w, J v⟩ = ⟨Jᵀ w, v⟩."""
        for _ in range(DIRECTIONS):
            v = self.rng.uniform(0.5, 1.0, self.size) * self.rng.choice([-1.0, 1.0], self.size)
            with np.errstate(all="ignore"):
                pushed, pulled = self.weights * self._push(v), self.gradient * v
                one, two = float(np.sum(pushed)), float(np.sum(pulled))
                size = 1.0 + float(np.sum(np.abs(pushed))) + float(np.sum(np.abs(pulled)))
            if not (abs(one - two) <= self.rounding * size or (np.isnan(one) and np.isnan(two)) or one == two):
                self._add(
                    ERROR, "modes", f"forward and reverse mode disagree: <w, J v> is {one:.10g}, "
                    f"<J^T w, v> is {two:.10g}", got=two, expected=one,
                )  # fmt: skip
                return
        self.report.compared.append(
            f"forward with reverse mode by the dot-product identity, in {DIRECTIONS} directions"
        )

    def _elements(self) -> None:
        """Each derivative, or a sample, against differences of plain Python."""
        names = [n for k in self.wrt for n in tree.element_names(self.args[k], self.names[k])]
        owners = [self.names[k] for k, p in zip(self.wrt, self.ranges, strict=True) for _ in range(p.stop - p.start)]
        chosen = np.arange(self.size)
        if self.size > MOST_ELEMENTS:
            chosen = np.sort(self.rng.choice(self.size, MOST_ELEMENTS, replace=False))
        first = len(self.report.findings)
        blamed: np.ndarray | None = None
        for k in chosen:
            unit = np.zeros(self.size)
            unit[k] = 1.0
            wrong = self._along(unit, owners[k], names[k], f"the derivative in {names[k]}")
            if wrong and blamed is None:
                blamed = unit
            if sum(f.severity == ERROR for f in self.report.findings[first:]) >= MOST_FINDINGS:
                break
        else:
            count = f"{len(chosen)} of {self.size}" if len(chosen) < self.size else f"all {self.size}"
            self.report.compared.append(f"{count} derivatives with differences")
        if self.size > MOST_ELEMENTS and blamed is None:
            blamed = self._directions(owners, names)
        if blamed is not None:
            unmoved = copy.deepcopy(self.args)
            self._blame(first, lambda t: self._moved(t * blamed) if t else copy.deepcopy(unmoved), blamed)

    def _directions(self, owners: list[str], names: list[str]) -> np.ndarray | None:
        """Along random directions; where one departs, halves of it are tried until one element is left."""
        for _ in range(DIRECTIONS):
            v = self.rng.choice([-1.0, 1.0], self.size)
            if self._judge(v)[0] == "":
                continue
            low, high = 0, self.size
            while high - low > 1:
                middle = (low + high) // 2
                half = np.zeros(self.size)
                half[low:middle] = v[low:middle]
                low, high = (low, middle) if self._judge(half)[0] else (middle, high)
            unit = np.zeros(self.size)
            unit[low] = 1.0
            if not self._along(unit, owners[low], names[low], f"the derivative in {names[low]}"):
                self._along(v, "", "", "the derivative along a random direction")
                return v
            return unit
        self.report.compared.append(f"{DIRECTIONS} random directions with differences")
        return None

    def _judge(self, v: np.ndarray) -> tuple[str, Difference, np.ndarray]:
        """Along a direction: what is wrong ("", "forward", "reverse"), the differences, and what was got.

        The outputs stand one by one, then their weighted sum; reverse mode knows the sum only.
        """
        with_sum = lambda y: np.append(y, self.weights @ y)  # noqa: E731
        want = difference(lambda t: with_sum(self._plain(t * v)), self._scale(v))
        with np.errstate(all="ignore"):
            got = with_sum(self._push(v))
            through = float(np.sum(np.where(v == 0.0, 0.0, self.gradient * v)))
        limit = max(self.tolerance, self.rounding)
        judged = want.conclusive(limit) & ~want.kink
        good = want.agrees(got, limit) | ~judged
        scaled = limit * max(1.0, float(np.sum(np.abs(want.value[:-1] * judged[:-1]))))
        if not good.all():
            return "forward", want, got
        if judged[-1] and not abs(through - want.value[-1]) <= scaled + 20.0 * want.error[-1]:
            got[-1] = through
            return "reverse", want, got
        return "", want, got

    def _along(self, v: np.ndarray, owner: str, element: str, what: str) -> bool:
        """Compare one direction, and add what was found; whether it is wrong."""
        how, want, got = self._judge(v)
        about = {"argument": owner, "element": element}
        if how:
            limit = max(self.tolerance, self.rounding)
            wrong = ~(want.agrees(got, limit) | want.kink | ~want.conclusive(limit))
            at = int(np.argmax(wrong)) if wrong.any() else len(got) - 1
            where = (
                ""
                if len(got) == 2
                else " of the weighted sum of the outputs"
                if at == len(got) - 1
                else f" of output {at}"
            )
            self._add(
                ERROR, how, f"{what}{where} is {got[at]:.10g} by {how} mode, {want.value[at]:.10g} by differences"
                f" (their error: {want.error[at]:.1g})",
                got=float(got[at]), expected=float(want.value[at]), error=float(want.error[at]), **about,
            )  # fmt: skip
            return True
        if want.kink.any():
            at = int(np.argmax(want.kink))
            self._add(
                NOTE, "kink", f"{what} is {got[at]:.6g} at a kink: {want.left[at]:.6g} from below, {want.right[at]:.6g}"
                " from above", got=float(got[at]), **about,
            )  # fmt: skip
        elif not want.conclusive(max(self.tolerance, self.rounding)).all():
            self._add(NOTE, "inconclusive", f"{what} cannot be judged: differences do not converge", **about)
        return False

    def _scale(self, v: np.ndarray) -> float:
        """The size over which a function may be taken to change along a direction: that of the number that moves."""
        if np.count_nonzero(v) != 1:
            return 0.3
        here = np.concatenate([tree.vector(self.args[k]) for k in self.wrt])
        return max(0.1, float(np.abs(here @ np.abs(v))))


def _outcome(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The result of a call, or the exception that it raises; errors of the compiler are raised."""
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    except DLError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the user's function raises is its outcome
        return error


def _ended(outcome: Any) -> str:
    if isinstance(outcome, Exception):
        return f"raises {type(outcome).__name__}: {outcome}"
    return "returns"


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, np.generic):
        return f"a np.{value.dtype}"
    return f"a {type(value).__name__}"


def _size(y: np.ndarray) -> float:
    """Of the finite entries: what rounding in sums is relative to."""
    finite = np.abs(y[np.isfinite(y)])
    return float(np.max(finite, initial=0.0))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=True))
