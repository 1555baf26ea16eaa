"""A builder of the text of one LLVM function: its lines in order, its stack memory, fresh names."""

from __future__ import annotations


class Body:
    """The body of a function that gives up by a branch to the block `nomatch`."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.lines: list[str] = []
        self.lock = ""  # that the call holds
        self.owned = 0  # how many references the call holds, in the stack slot %captured
        self._count = 0

    def name(self, hint: str) -> str:
        """A name not used yet."""
        self._count += 1
        return f"{hint}.{self._count}"

    def line(self, line: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {line}")

    def let(self, hint: str, expression: str) -> str:
        """An instruction with a value."""
        name = "%" + self.name(hint)
        self.line(f"{name} = {expression}")
        return name

    def block(self, label: str) -> None:
        """What follows is another basic block."""
        self.lines.append(f"{label}:")

    def slot(self, hint: str, type: str) -> str:
        """Stack memory of the call."""
        name = "%" + self.name(hint)
        self.stack.append(f"  {name} = alloca {type}, align 16")
        return name

    def load(self, hint: str, type: str, pointer: str) -> str:
        """A value in memory."""
        return self.let(hint, f"load {type}, ptr {pointer}")

    def store(self, type: str, value: str, pointer: str) -> None:
        """A value into memory."""
        self.line(f"store {type} {value}, ptr {pointer}")

    def element(self, type: str, pointer: str, index: int) -> str:
        """The address of an element of an array of `type`."""
        return self.let("at", f"getelementptr {type}, ptr {pointer}, i64 {index}")

    def member(self, struct: str, pointer: str, *index: int) -> str:
        """The address of a field."""
        path = "".join(f", i32 {i}" for i in index)
        return self.let("at", f"getelementptr {struct}, ptr {pointer}, i32 0{path}")

    def object(self, name: str) -> str:
        """One of the version's or the standing Python objects."""
        return self.let("object", f'call ptr @"obj.{name}"()')

    def require(self, flag: str) -> None:
        """Go on if `flag`, else this version does not match."""
        self.branch(flag, otherwise="nomatch")

    def branch(self, flag: str, otherwise: str) -> None:
        """Go on if `flag`, which is expected, else to the block `otherwise`."""
        label = self.name("ok")
        self.line(f"br i1 {flag}, label %{label}, label %{otherwise}, !prof !0")
        self.block(label)

    def function(self, head: str) -> str:
        """The function as text, with the weights of its branches."""
        weights = '!0 = !{!"branch_weights", i32 2000, i32 1}'
        return "\n".join([f"define {head} {{", "start:", *self.stack, *self.lines, "}", weights, ""])
