"""Modules that are imported when something of them is first asked for.

    if TYPE_CHECKING:
        import llvmlite.binding as llvm
    else:
        llvm = deferred("llvmlite.binding")

A leaf of the import graph. It is for what `import dlvm_py` or a call of cached code does without: tests/test_layers.py
says what that is.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class deferred:
    """The module of this name: its attributes, as they are when they are asked for."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
