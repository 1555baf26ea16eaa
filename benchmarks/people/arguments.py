"""Arguments for functions of which only the parameters' names are known.

`search` tries the kinds of values that people mean by such names, then others, until plain Python takes them.
"""

import contextlib
import copy
import inspect
import itertools
import signal
import warnings

import numpy as np

VECTOR = np.array([0.3, -1.2, 2.5, 0.9, 1.7])
KINDS = {
    "scalar": 0.7,
    "second": 1.3,
    "count": 3,
    "zero": 0,
    "vector": VECTOR,
    "matrix": np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.6], [-0.2, 0.8, 3.0]]),
    "triple": np.array([0.4, -0.7, 1.1]),
    "image": np.abs(np.outer(VECTOR, [0.2, 0.9, 0.5, 0.7])) / 2.5,
    "ints": np.array([3, 1, 4, 1, 5]),
    "mask": np.array([True, False, True, True, False]),
    "complex": np.array([1 + 2j, -0.5j, 2.0 + 0j]),
    "cube": np.arange(24.0).reshape(2, 3, 4) % 7 - 2.5,
    "pair": (2, 3),
    "type": np.float32,
    "flag": True,
    "function": lambda x: x * x - 0.5 * x,
}
REST = ("vector", "scalar", "matrix", "count", "triple", "ints", "mask", "complex", "cube", "pair", "flag", "function")
MEANT = {
    "axis zero": "axis ax",
    "count": "n m N M i j k num size order deg degree order ddof window_length nb_iter iterations niter maxiter p",
    "matrix": "A B C D X Y Q R data matrix mat m1 m2",
    "vector": "a b x y z arr u v w values vals array xs ys s e signal obs sample points weights",
    "image": "image img im rgb hsv lab",
    "triple": "r r1 r2 v0 r0 v1 rr vv state",
    "mask": "mask cond condition where",
    "ints": "idx indices ind index repeats labels",
    "scalar": "ecc nu inc raan argp t dt h eps tol alpha beta gamma sigma theta phi tof rtol atol lam scale q",
    "pair": "shape dims newshape reps",
    "type": "dtype newtype",
    "function": "f func fun function g",
}
WANTED = {name: kind.split()[-1] for kind, names in MEANT.items() for name in names.split()}


class TooLong(Exception):
    """The plain function did not come to an end."""


@contextlib.contextmanager
def limit(seconds):
    """Raises TooLong in the main thread after some seconds."""

    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _choices(name):
    first = WANTED.get(name)
    return [first, *(k for k in REST if k != first)] if first else list(REST)


def _combinations(names):
    """Kinds for all parameters, the likely ones first."""
    choices = [_choices(name) for name in names]
    for total in range(10 * len(names)):
        for places in itertools.product(*(range(min(len(c), total + 1)) for c in choices)):
            if sum(places) == total:
                yield [c[k] for c, k in zip(choices, places, strict=True)]


def search(function, wanted=2, attempts=400):
    """Up to `wanted` argument tuples that plain Python takes, the second of other kinds than the first."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty and p.kind in (0, 1)]
    found, used = [], []
    if not names:
        return [()]
    with contextlib.suppress(TooLong), limit(6), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kinds in itertools.islice(_combinations(names), attempts):
            if any(sum(a == b for a, b in zip(kinds, u, strict=True)) > len(kinds) // 2 for u in used):
                continue
            args = tuple(copy.deepcopy(KINDS[k]) if k != "function" else KINDS[k] for k in kinds)
            try:
                with np.errstate(all="ignore"):
                    result = function(*copy.deepcopy(args))
            except TooLong:
                raise
            except Exception:
                continue
            if result is NotImplemented:
                continue
            found.append(args)
            used.append(kinds)
            if len(found) == wanted:
                break
    return found
