"""The code of one LLVM function that may call what is external: imports are loaded once, in its prologue."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from dlvm_py.backend.cpu.text import FunctionText, ModuleText
from dlvm_py.backend.cpu.values import V, i64
from dlvm_py.backend.imports import Imports
from dlvm_py.grain import GRAIN

# libm sets errno, which nobody reads: its functions count as pure, so that LLVM moves and merges calls
PURE = "nounwind willreturn memory(none)"


class Code(FunctionText):
    """A FunctionText with imports, and a hook for operations that raise.

    Calls of imports go through pointers of `@dlvm.imports`; the table does not change once code runs, so
    that its loads are invariant.
    """

    def __init__(
        self, module: ModuleText, imports: Imports, name: str, result: str, params: Sequence[str], attributes: str = ""
    ) -> None:
        super().__init__(module, name, result, params, attributes)
        self.imports = imports
        self._loaded: dict[str, V] = {}

    def import_pointer(self, name: str) -> V:
        """The address of an import, loaded in the prologue."""
        if name not in self._loaded:
            here, self.here = self.here, self.prologue
            slot = self.gep("ptr", V("ptr", "@dlvm.imports"), i64(self.imports.index(name)))
            self._loaded[name] = self.load("ptr", slot, f", !invariant.load {self.module.metadata.node('')}")
            self.here = here
        return self._loaded[name]

    def call_import(self, name: str, result: str, args: Sequence[V], attributes: str = "") -> V:
        """Call an import by its name."""
        return self.call(self.import_pointer(name).ref, result, args, attributes)

    def raise_unless(self, flag: V, exception: str, message: str) -> None:
        """Leave by the error path unless `flag` holds (only functions of the program can)."""
        raise NotImplementedError(f"{self.name} cannot raise {exception}: {message}")


def helper(
    e: Code, name: str, result: str, types: Sequence[str], write: Callable[[Code], None], shares: bool = False
) -> str:
    """The name of a function that is the same wherever it is called: its name says all about it.

    Where modules share (those of the just-in-time compiler), it is compiled once and for all: matrix products were
    half of what LLVM had to do for the code around them. `write` writes its body. shares: it has ranges that threads
    share, and another name than without them.
    """
    module = e.module
    if module.shares:
        module.declare(name, result, types, "nounwind")
        has = shares, module.masks, module.permutes
        module.helpers[name] = functools.partial(_helper_text, name, result, types, write, has)
    elif name not in module.functions:
        write(Code(module, e.imports, name, result, types, "internal |noinline nounwind"))
    return name


def _helper_text(
    name: str,
    result: str,
    types: Sequence[str],
    write: Callable[[Code], None],
    has: tuple[bool, bool, bool],
    imports: Imports,
) -> str:
    """The LLVM IR of a module with nothing but one such function; has: ranges that threads share, masks, permutes."""
    shares, masks, permutes = has
    module = ModuleText(masks=masks, permutes=permutes)
    c = Code(module, imports, name, result, types, "|noinline nounwind")
    c.grain = GRAIN if shares else None
    write(c)
    return str(module)
