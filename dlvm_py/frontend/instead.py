"""What to write instead of functions of Python's library that have no rule."""

from __future__ import annotations

import functools
from typing import Any

_MEMO = "a dict as the memo: `if n in memo: return memo[n]`, and `memo[n] = y` at the end"
_COUNTS = "a dict: `d[k] = d.get(k, 0) + 1`"
_TEXTS = "numbers, of which the caller makes strings"
# by module: these load others, which a program without them need not
_INSTEAD = {
    "functools": {"lru_cache": _MEMO, "cache": _MEMO},
    "collections": {
        "deque": "a list: `append` and `pop` at its end; for a queue a list and the index of its first item",
        "defaultdict": _COUNTS,
        "Counter": _COUNTS,
        "OrderedDict": "a dict, which keeps the order too",
    },
    "builtins": {"ord": _TEXTS, "chr": _TEXTS},
    "statistics": {
        "mean": "np.mean",
        "stdev": "np.std(x, ddof=1)",
        "pstdev": "np.std",
        "variance": "np.var(x, ddof=1)",
        "pvariance": "np.var",
    },
}


def advice(target: Any) -> str | None:
    """What to write instead of a function, None of one that nothing is known of."""
    if is_cached(target):
        return _MEMO
    return _INSTEAD.get(getattr(target, "__module__", None) or "", {}).get(getattr(target, "__name__", ""))


def is_cached(target: Any) -> bool:
    """Whether functools keeps what a function has given."""
    return isinstance(target, functools._lru_cache_wrapper)
