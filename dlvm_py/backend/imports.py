"""The imports table of one object: names of everything external, filled with addresses at load."""

from __future__ import annotations


class Imports:
    """An ordered set of import names; `index` gives the slot in `@dlvm.imports`."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._slots: dict[str, int] = {}

    def index(self, name: str) -> int:
        """The slot of `name`, added at the end if it is new."""
        if name not in self._slots:
            self._slots[name] = len(self.names)
            self.names.append(name)
        return self._slots[name]
