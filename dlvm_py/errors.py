"""The exceptions of dlvm-py, source locations, and the caret rendering of messages.

The tree::

    DLError
    ├── CompileError            what the user wrote cannot be compiled; carries code, location, help
    │   ├── UnsupportedSyntax   DL1xx  a construct outside the language
    │   ├── ParseError          DL11x  text of the IR that cannot be read
    │   ├── UnknownName         DL2xx  a name without a value
    │   ├── UnknownFunction     DL3xx  a NumPy or Python function without a rule
    │   ├── TypeMismatch        DL4xx  types that do not fit together (also a TypeError)
    │   ├── ShapeMismatch       DL5xx  shapes that cannot fit, known at compile time (also a ValueError)
    │   └── NotDifferentiable   DL6xx  a derivative that does not exist or is not supported
    ├── ArgumentError           DL7xx  arguments of a call or of an API function (also a TypeError)
    ├── DeviceError             DL8xx  a device or driver that is missing
    ├── LinkError               DL81x  no linker, or one that fails
    └── InternalError           DL9xx  a bug of ours
        ├── VerifierError       the IR broke one of its rules
        └── PassError           a pass met a program that it should not have

What goes wrong while compiled code runs is raised as NumPy or Python would raise it (IndexError,
ValueError, ZeroDivisionError, ...), with the location of the line in a note.
A leaf of the import graph: imports nothing of ours.
"""

from __future__ import annotations

import linecache

from dlvm_py.frozen import Frozen


class Loc(Frozen):
    """A place in a source file: 1-based `line` and `end_line`, 0-based `col` and `end_col` (exclusive)."""

    file: str
    line: int
    col: int = 0
    end_line: int = 0
    end_col: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col + 1}"


def caret_excerpt(loc: Loc, source_line: str | None = None) -> str:
    """The source line of `loc` with carets under its columns, or "" where the source is gone."""
    text = source_line if source_line is not None else linecache.getline(loc.file, loc.line)
    text = text.rstrip("\n")
    if not text.strip():
        return ""
    shown = text.lstrip()
    indent = len(text) - len(shown)
    # ast columns count UTF-8 bytes; the excerpt counts characters
    start = len(text.encode()[: loc.col].decode(errors="ignore"))
    if loc.end_line in (0, loc.line) and loc.end_col > loc.col:
        width = len(text.encode()[loc.col : loc.end_col].decode(errors="ignore"))
    else:
        width = len(text) - start
    return f"    {shown}\n    {' ' * max(start - indent, 0)}{'^' * max(width, 1)}"


class DLError(Exception):
    """The root of every exception that dlvm-py defines."""


class CompileError(DLError):
    """A program that cannot be compiled.

    `reason` is one sentence in the user's words, `loc` where it is, `help` what to write instead,
    `code` the entry of docs/errors.md. `str()` shows all of them with the source line and a caret.
    """

    code = "DL100"

    def __init__(
        self,
        reason: str,
        loc: Loc | None = None,
        *,
        help: str | None = None,  # noqa: A002 - the word that the user reads
        code: str | None = None,
        source_line: str | None = None,
    ) -> None:
        self.reason = reason
        self.loc = loc
        self.help = help
        self.code = code or type(self).code
        self.source_line = source_line
        super().__init__(reason)

    def __str__(self) -> str:
        where = f"{self.loc}: " if self.loc else ""
        lines = [f"{where}error {self.code}: {self.reason}"]
        if self.loc:
            excerpt = caret_excerpt(self.loc, self.source_line)
            if excerpt:
                lines.append(excerpt)
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.reason, self.loc, self.help, self.code, self.source_line))


def _rebuild(cls, reason, loc, help_, code, source_line):  # type: ignore[no-untyped-def]
    return cls(reason, loc, help=help_, code=code, source_line=source_line)


class UnsupportedSyntax(CompileError):
    """A Python construct outside the language that dlvm-py compiles."""

    code = "DL100"


class ParseError(CompileError):
    """Text of the IR that breaks its grammar, names, or types; the codes are listed in docs/ir.md."""

    code = "DL110"


class UnknownName(CompileError, NameError):
    """A name that has no value where it is read."""

    code = "DL200"


class UnknownFunction(CompileError):
    """A function, method or attribute without a compilation rule."""

    code = "DL300"


class TypeMismatch(CompileError, TypeError):
    """Types that do not fit the operation or that cannot be joined."""

    code = "DL400"


class ShapeMismatch(CompileError, ValueError):
    """Shapes that cannot fit, known at compile time."""

    code = "DL500"


class NotDifferentiable(CompileError):
    """A derivative that does not exist or is not supported."""

    code = "DL600"


class ArgumentError(CompileError, TypeError):
    """Arguments of a call, or of dlvm.grad and its kin, that cannot be used."""

    code = "DL700"


class DeviceError(DLError):
    """A device, driver or package for a device that is missing."""

    code = "DL800"


class LinkError(DLError):
    """A shared library that cannot be linked: there is no linker, or it fails."""

    code = "DL810"


class InternalError(DLError):
    """A bug of dlvm-py: please report it with the message."""

    code = "DL900"


class VerifierError(InternalError):
    """The IR breaks its rules. `errors` lists every (message, place) that was found."""

    def __init__(self, message: str, errors: list[str] | None = None) -> None:
        self.errors = errors or [message]
        super().__init__(message)


class PassError(InternalError):
    """A pass met a program that its precondition excludes."""
