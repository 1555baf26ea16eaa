"""What the tool needs to know of a function of an eval."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A function of an eval: `prepare` and `output` are not timed, `compute` is.

    prepare: the eval's input (decoded JSON) -> arguments of `compute`.
    output: what `compute` gives -> the eval's output (to be encoded as JSON).
    """

    prepare: Callable[[Any], tuple[Any, ...]]
    compute: Callable[..., Any]
    output: Callable[[Any], Any] = float


def listed(result: Any) -> Any:
    """An array as nested lists."""
    return result.tolist()
