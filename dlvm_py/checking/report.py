"""What dlvm.check found."""

from __future__ import annotations

from dlvm_py.errors import Loc, caret_excerpt
from dlvm_py.frozen import Frozen

ERROR, NOTE = "error", "note"


class Finding(Frozen):
    """One thing that was found.

    kind: "compile", "value", "effect", "exception", "forward", "reverse", "modes" (the two disagree) for errors;
        "kink", "inconclusive", "stop", "branch", "independent" for notes. argument, element: which entry of which
        argument (`x`, `x[3]`), "" if it is about none. loc: the first line that departs, or where a gradient stops.
    got, expected, error: the numbers, and how exactly the expected one is known.
    """

    severity: str
    kind: str
    message: str
    argument: str = ""
    element: str = ""
    loc: Loc | None = None
    got: float | None = None
    expected: float | None = None
    error: float | None = None

    def __str__(self) -> str:
        where = f"{self.loc}: " if self.loc is not None else ""
        lines = [f"{self.severity}: {where}{self.message}"]
        excerpt = caret_excerpt(self.loc) if self.loc is not None else ""
        return "\n".join([*lines, excerpt] if excerpt else lines)


class CheckReport:
    """The result of dlvm.check: `ok`, and `findings`, errors first. `str()` is for reading."""

    __slots__ = ("function", "findings", "compared")

    def __init__(self, function: str) -> None:
        self.function = function
        self.findings: list[Finding] = []
        self.compared: list[str] = []

    @property
    def errors(self) -> list[Finding]:
        """What is wrong."""
        return [f for f in self.findings if f.severity == ERROR]

    @property
    def notes(self) -> list[Finding]:
        """What is worth knowing: kinks, lines where gradients stop, what could not be judged."""
        return [f for f in self.findings if f.severity == NOTE]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.errors

    def assert_ok(self) -> CheckReport:
        """The report itself; AssertionError with its text if something is wrong."""
        if not self.ok:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        verdict = "ok" if self.ok else f"{len(self.errors)} error{'s' * (len(self.errors) != 1)}"
        head = f"check of {self.function}: {verdict}"
        done = [f"  compared: {line}" for line in self.compared]
        found = ["  " + str(f).replace("\n", "\n  ") for f in (*self.errors, *self.notes)]
        return "\n".join([head, *done, *found])
