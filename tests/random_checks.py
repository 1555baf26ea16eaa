"""What is checked of a random program, at a fraction of the time that LLVM's optimiser would take.

    check(seed, "quick")

Every program's gradient, by the reference interpreter, is compared with differences of plain Python and with forward
mode, its value and exceptions with plain Python's. A share of the programs, drawn with the seed, goes on: through the
passes to stage scheduled, through the text of `source()`, to native code (which LLVM only translates: what is tested
is what we emit), second derivatives, pullbacks, arguments in a structure. `SHARES` says how often; "shipped" is native
code as users have it. From the shell: `python tests/random_checks.py FIRST LAST LOG [shares]` goes through seeds.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import json
import os
import random
import sys
import time
import traceback
from typing import Any
from unittest.mock import patch

import numpy as np
from plain_code import translated_only
from random_python import make_args, random_program
from random_wide import Parameters, wide_program
from source_executor import function_of

import dlvm_py as dlvm
from dlvm_py import driver
from dlvm_py.dispatch import compiled_function
from dlvm_py.driver import STAGES
from dlvm_py.errors import ArgumentError, CompileError, NotDifferentiable, UnsupportedSyntax
from dlvm_py.ir import interpreter
from dlvm_py.options import Options
from dlvm_py.recipe import Primal, gradient, tangent
from dlvm_py.request import Unrelated

WRT = (0, 1, 2, 3, 4)  # x, y, m, a, b
RAISED = (ArithmeticError, LookupError, ValueError, AssertionError)
# how many of the programs go through what; and the number of statements, at most
SHARES = {
    "quick": {"native": 0.1, "scheduled": 0.3, "source": 0.1, "primal": 0.1, "second": 0.03, "vjp": 0.03,
              "packed": 0.03, "overlap": 0.02, "verify": 0.1, "size": 3},
    "sweep": {"native": 0.26, "scheduled": 0.26, "source": 0.2, "primal": 0.2, "second": 0.06, "vjp": 0.06,
              "packed": 0.05, "overlap": 0.05, "verify": 0.1, "size": 5},
    "shipped": {"native": 1.0, "scheduled": 0.2, "source": 0.2, "primal": 0.3, "second": 0.1, "vjp": 0.1,
                "packed": 0.1, "overlap": 0.1, "verify": 0.0, "size": 8},
}  # fmt: skip


def lowered_once():
    """A request that is asked for at a later stage goes on from the program that was made for an earlier one."""
    lower_to, made = driver.lower_to, {}
    steps = (("compute", driver.TO_COMPUTE), ("scheduled", driver.TO_SCHEDULED))

    def continued(request, stage, holds=None, decisions=None):
        request = request._replace(is_joined=True)  # what runs is what is interpreted
        key = (request.recipe, request.args, request.options, request.noalias, request.general)
        program = made.get(key)
        if program is not None and program.relations and holds is not None and not holds(program.relations):
            raise Unrelated(program.relations)
        if program is None or STAGES.index(program.module.stage) > STAGES.index(stage):
            made[key] = program = lower_to(request, "optimizable", holds)
        for wanted, passes in steps:
            if STAGES.index(program.module.stage) < STAGES.index(wanted) <= STAGES.index(stage):
                driver._run(program, passes, request, program.module.stage, decisions)
                program.module.stage = wanted
        return program

    return patch.object(driver, "lower_to", continued)


def outcome(fn, *args):
    """The result, or the class of the exception."""
    try:
        with np.errstate(all="ignore"):
            return fn(*args)
    except CompileError:
        raise
    except RAISED as error:
        return type(error)


def flatten(value: Any) -> np.ndarray:
    """All numbers of a result, as one vector: an int may have become a float where types meet."""
    if not isinstance(value, tuple | list):
        return np.ravel(np.asarray(value))
    return np.concatenate([np.zeros(0), *map(flatten, value)])


def same(what, got, want, tolerance=1e-7):
    """Equal float leaves, or one class of exception."""
    if isinstance(want, type) or isinstance(got, type):
        assert got is want, f"{what}: {got} instead of {want}"
        return
    got, want = flatten(got), flatten(want)
    assert got.shape == want.shape, f"{what}: {got.shape} instead of {want.shape}"
    scale = tolerance * (1.0 + np.max(np.abs(want[np.isfinite(want)]), initial=0.0))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=scale, err_msg=what)


def first(result):
    """The first output: what is differentiated."""
    return result[0] if isinstance(result, tuple) else result


class Checks:
    """The checks of one program at one point."""

    def __init__(self, seed: int, shares: dict[str, float]) -> None:
        self.r = random.Random(seed)
        self.goes_on = {what: self.r.random() < share for what, share in shares.items() if what != "size"}
        size = self.r.randint(2, int(shares["size"]))
        self.program = (wide_program if seed % 4 else random_program)(seed, size)
        self.fn = self.program.fn
        self.n, self.k = self.r.choice((5, 5, 5, 4, 3, 2, 1, 0)), self.r.choice((2, 2, 3, 1, 0))
        self.seed = seed
        self.want = outcome(self.fn, *self.args())
        self.done: list[str] = []

    def args(self) -> tuple[Any, ...]:
        """Fresh arguments."""
        return make_args(self.n, self.k, self.seed)

    def interpreted(self, compiled: Any, args: tuple[Any, ...], stage: str = "optimizable") -> Any:
        """What the reference interpreter gives for a derivative."""
        program = compiled.program(*args, stage=stage)
        scheduled = stage == "scheduled"
        return outcome(
            lambda: interpreter.run(
                program.module, program.name, list(args), check_ownership=scheduled, trees_at_root=scheduled
            )
        )

    # -- one check each ------------------------------------------------------------------------------

    def gradient(self) -> None:
        """Value and gradient, by the executors; arguments stay as they are."""
        checkpoint = self.r.choice(("auto", "auto", "store", "recompute", 200))
        compiled = dlvm.value_and_grad(dlvm.jit(self.fn, cache=False), wrt=WRT, checkpoint=checkpoint)
        args = self.args()
        self.found = self.interpreted(compiled, args)
        if not isinstance(self.found, type):
            same("value", self.found[: -len(WRT)], self.want)
        else:
            same("exception", self.found, self.want)
        executors = {
            "native": lambda *a: outcome(compiled, *a),
            "scheduled": lambda *a: self.interpreted(compiled, a, "scheduled"),
            # the last one: it tidies the program up
            "source": lambda *a: outcome(function_of(compiled, a), *a),
        }
        for name, run in executors.items():
            if not self.goes_on[name]:
                continue
            args = self.args()
            same(f"{name} (checkpoint={checkpoint})", run(*args), self.found)
            same(f"arguments after {name}", args, self.args(), 0.0)
            self.done.append(name)

    @property
    def derivatives(self) -> list[Any]:
        """The gradient that the interpreter found."""
        return list(self.found[-len(WRT) :])

    def regular(self) -> bool:
        """Whether there is a gradient of finite numbers."""
        return not isinstance(self.found, type) and bool(np.all(np.isfinite(flatten(self.found))))

    def primal(self) -> None:
        """The function's own value, and what it writes."""
        compiled = dlvm.jit(self.fn, cache=False)
        plain, args = self.args(), self.args()
        outcome(self.fn, *plain)
        got = outcome(compiled, *args) if self.goes_on["native"] else self.interpreted(compiled, args, "scheduled")
        same("primal", got, self.want)
        same("written arguments", args, plain)
        self.done.append("primal")

    def directions(self) -> list[tuple[Any, ...]]:
        """Two directions in all float arguments."""
        rng = np.random.default_rng(self.seed + 1)
        args = self.args()
        return [tuple(np.asarray(rng.choice([-1.0, 0.5, 1.0], np.shape(args[k]))) for k in WRT) for _ in range(2)]

    def along(self, direction: tuple[Any, ...], derivatives: list[Any]) -> float:
        return sum(float(np.sum(g * d)) for g, d in zip(derivatives, direction, strict=True))

    def moved(self, direction: tuple[Any, ...], h: float) -> tuple[Any, ...]:
        args = self.args()
        ends = [np.asarray(v) + h * d for v, d in zip(args, direction, strict=False)]
        return (*(v if v.ndim else float(v) for v in ends), *args[len(WRT) :])

    def differences(self, total: Any, derivatives: list[Any], what: str, h: float = 1e-5) -> None:
        """Along random directions, where two steps agree: there is no kink, and no chaos."""
        for direction in self.directions():
            slopes = []
            for step in (h, h / 3):
                ends = [total(*self.moved(direction, sign * step)) for sign in (1, -1)]
                if any(isinstance(e, type) for e in ends):
                    return
                slopes.append((ends[0] - ends[1]) / (2 * step))
            scale, along = 1.0 + abs(slopes[1]), self.along(direction, derivatives)
            if abs(slopes[0] - slopes[1]) < 2e-5 * scale:
                assert abs(along - slopes[1]) < 2e-4 * scale, f"{what}: {along}, differences {slopes[1]}"
                self.done.append(what)

    def against_differences(self) -> None:
        def total(*args):
            found = outcome(self.fn, *args)
            return found if isinstance(found, type) else float(np.sum(first(found)))

        self.differences(total, self.derivatives, "differences")

    def forward(self) -> None:
        """The tangent of the first output along a direction is the gradient times it."""
        compiled = compiled_function(tangent(Primal(self.fn), WRT, with_value=False), Options(cache=False))
        direction = self.directions()[0]
        args = (*self.args(), *(d if d.ndim else float(d) for d in direction))
        before = copy.deepcopy(args)
        found = first(self.interpreted(compiled, args))
        same("arguments after forward mode", args, before, 0.0)
        terms = [g * d for g, d in zip(self.derivatives, direction, strict=True)]
        size = 1.0 + sum(float(np.sum(np.abs(t))) for t in terms)
        along = self.along(direction, self.derivatives)
        got = float(np.sum(found))
        assert abs(got - along) <= 1e-8 * size, f"forward {got}, reverse {along}"
        self.done.append("forward")

    def second(self) -> None:
        """The gradient of the gradient of x, forward over reverse, and differences of the gradient."""
        of = gradient(Primal(self.fn), (0,), None, False, 0)
        one = compiled_function(of, Options(cache=False))
        direction = self.directions()[0]
        over = compiled_function(tangent(of, WRT, with_value=False), Options(cache=False))
        args = (*self.args(), *(d if d.ndim else float(d) for d in direction))
        forward = self.interpreted(over, args)
        reverse = self.interpreted(
            compiled_function(gradient(of, WRT, None, False, 0), Options(cache=False)), self.args()
        )
        if isinstance(forward, type) or isinstance(reverse, type):
            assert forward is reverse, f"second derivative: {forward} and {reverse}"
            return
        if not np.all(np.isfinite(flatten(reverse))):
            return
        program = one.program(*self.args())

        def total(*args):
            found = outcome(lambda: interpreter.run(program.module, program.name, list(args)))
            return found if isinstance(found, type) else float(np.sum(flatten(found)))

        size = 1.0 + float(np.max(np.abs(flatten(reverse)), initial=0.0))
        got, along = float(np.sum(flatten(forward))), self.along(direction, list(reverse))
        assert abs(got - along) <= 1e-7 * size, f"forward over reverse {got}, reverse over reverse {along}"
        self.differences(total, list(reverse), "second order", 1e-4)

    def pullback(self) -> None:
        """vjp: one tape, two reverse sweeps."""
        value, pull = dlvm.vjp(dlvm.jit(self.fn, cache=False), *self.args(), wrt=WRT)
        same("value of vjp", value, self.want)
        seeds = [
            np.full_like(v, float(not k)) if isinstance(v, np.ndarray) else float(not k)
            for k, v in enumerate(value if isinstance(value, tuple) else (value,))
        ]
        for _ in range(2):
            same("vjp", pull(tuple(seeds) if isinstance(value, tuple) else seeds[0]), self.derivatives)
        self.done.append("vjp")

    def packed(self) -> None:
        """The same parameters as one dataclass instance: derivatives in its structure."""
        fn = self.fn.__globals__["packed"]
        x, y, m, a, b, k = self.args()
        got = dlvm.grad(dlvm.jit(fn, cache=False))(Parameters(x, {"y": y, "m": m}, (a, b)), k)
        assert isinstance(got, Parameters) and list(got.rest) == ["y", "m"]
        same("structure", (got.x, got.rest["y"], got.rest["m"], *got.ab), self.derivatives)
        self.done.append("packed")

    def overlap(self) -> None:
        """x and y are parts of one array: forward mode, reverse mode and differences along a direction in it.

        Where the function writes one of them, both derivatives are parts of one by the memory; else each counts.
        """
        _, _, m, a, b, k = self.args()
        memory = np.random.default_rng(self.seed).uniform(-1, 1, self.n + 1)

        def total(t):
            moved = memory + t * d
            found = outcome(self.fn, moved[:-1], moved[1:], m.copy(), a, b, k)
            return found if isinstance(found, type) else float(np.sum(first(found)))

        d = np.random.default_rng(self.seed + 2).choice([-1.0, 0.5, 1.0], self.n + 1)
        points = [total(t) for t in (0.0, 1e-5, -1e-5, 3e-6, -3e-6)]
        if any(isinstance(p, type) or not np.isfinite(p) for p in points):
            return
        fine, coarse = (points[3] - points[4]) / 6e-6, (points[1] - points[2]) / 2e-5
        args, tangents = (memory[:-1], memory[1:], m, a, b, k), (d[:-1], d[1:], None, None, None, None)
        before = memory.copy()
        with np.errstate(all="ignore"):
            _, tangent_ = dlvm.jvp(dlvm.jit(self.fn, cache=False), args, tangents)
            one, two = dlvm.grad(dlvm.jit(self.fn, cache=False), (0, 1))(*args)
        same("overlapping arguments", memory, before, 0.0)
        slope = float(np.sum(first(tangent_)))
        apart = float(np.sum(one * d[:-1]) + np.sum(two * d[1:]))
        together = float(np.sum(one * d[:-1]) + np.sum(two[-1:] * d[-1:]))
        size = 1e-8 * (1.0 + float(np.max(np.abs(one), initial=0.0) + np.max(np.abs(two), initial=0.0)))
        is_one = np.allclose(one[1:], two[:-1], rtol=1e-9, atol=size)
        right = min(abs(apart - slope), abs(together - slope) if is_one else np.inf) <= 10 * size
        assert right, f"overlap: forward {slope}, reverse {apart} or {together} ({is_one}), differences {fine}"
        if abs(fine - coarse) < 2e-5 * (1.0 + abs(fine)):
            assert abs(slope - fine) < 2e-4 * (1.0 + abs(fine)), f"overlap: forward {slope}, differences {fine}"
        self.done.append("overlap")


def check(seed: int, shares: str) -> list[str]:
    """All checks of the program of a seed, at one of SHARES: what was done. AssertionError says what is wrong."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(lowered_once())
        if shares != "shipped":
            stack.enter_context(translated_only())
        checks = Checks(seed, SHARES[shares])
        goes_on = checks.goes_on
        # what is made here never meets the disk cache
        stack.enter_context(patch.dict(os.environ, DLVM_CACHE="0", DLVM_VERIFY=str(int(goes_on["verify"]))))
        try:
            checks.gradient()
            if goes_on["primal"]:
                checks.primal()
            if checks.regular():
                checks.against_differences()
                checks.forward()
                if goes_on["second"]:
                    checks.second()
                if goes_on["vjp"]:
                    checks.pullback()
                if goes_on["overlap"]:
                    checks.overlap()
                if goes_on["packed"] and "packed" in checks.fn.__globals__:
                    checks.packed()
        except (NotDifferentiable, ArgumentError, UnsupportedSyntax) as error:
            return [*checks.done, f"refused {error.code}"]
        return ["program", *checks.done]


def main(begin: int, end: int, log: str, shares: str = "sweep") -> None:
    """Go through seeds; the log gets a line of JSON for each failure, and one for each hundred programs."""
    counts, start, begun = collections.Counter[str](), time.process_time(), begin

    def tell(line: dict[str, Any]) -> None:
        with open(log, "a") as fh:
            fh.write(json.dumps(line) + "\n")

    for seed in range(begin, end):
        try:
            counts.update(check(seed, shares))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{os.path.basename(where.filename)}:{where.lineno}"
            tell({"seed": seed, "error": type(error).__name__, "what": str(error)[:400], "at": place, "shares": shares})
        if (seed + 1) % 100 == 0 or seed + 1 == end:
            spent = round(time.process_time() - start, 1)
            tell({"seeds": [begun, seed + 1], "shares": shares, "s": spent, "done": counts})
            counts, start, begun = collections.Counter(), time.process_time(), seed + 1


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
