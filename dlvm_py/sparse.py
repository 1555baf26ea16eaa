"""Sparse Jacobians: columns (or rows) that share no row (no column) are computed in one pass.

    pattern          colours     three tangents                 compressed      J[i, j] = compressed[i, colour of j]
    1 1 0 0 0        0 1 2 0 1   1 0 0 1 0 | 0 1 0 0 1 | 0 0 1 0 0
    1 1 1 0 0
    0 1 1 1 0        a tridiagonal matrix of any size takes three passes
    0 0 1 1 1

Columns are coloured greedily, those with the most entries first. Source: Curtis, Powell, Reid, "On the Estimation of
Sparse Jacobian Matrices" (1974); Gebremedhin, Manne, Pothen, "What Color Is Your Jacobian?" (2005), sections 3 and 4.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.errors import ArgumentError

_AUTO = "auto"
_WANTED = "a scipy.sparse matrix, a boolean array of two axes, or 'auto'"
_PROBE = {"f": 1e-2, "d": 1e-5}  # how far the probe may be off, by the letter of the dtype


class SparseJacobian:
    """(arguments of `f`) → the Jacobian as a scipy.sparse.csr_array: rows the elements of the output, columns of `wrt`.

    passes: how many passes the last call took, the probe aside. pattern: the places of the entries, as it is known now.
    """

    def __init__(
        self,
        name: str,
        signature: inspect.Signature,
        position: int,
        mode: str,
        sparsity: Any,
        push: Callable[..., Any],
        pull: Callable[..., Any],
    ) -> None:
        """push: (arguments, tangent) -> (value, its tangent); pull: arguments -> (value, pullback to `wrt`)."""
        self.__name__ = name
        self.__signature__ = signature
        self._position = position
        self._mode = mode
        self._push = push
        self._pull = pull
        self._finds = isinstance(sparsity, str)
        if self._finds and sparsity != _AUTO:
            raise ArgumentError(f"sparsity={sparsity!r}: give {_WANTED}", code="DL701")
        self._plans: dict[tuple[int, ...], _Plan] = {}
        self._given = None if self._finds else _Plan(_as_pattern(sparsity), mode)
        self.passes = 0

    @property
    def pattern(self) -> Any:
        """A boolean csr_array, or None before the pattern is known."""
        plan = self._given or next(reversed(self._plans.values()), None)
        return None if plan is None else plan.pattern.astype(bool)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The Jacobian at these arguments.

        Raises: ArgumentError DL701 where the pattern has another shape than the Jacobian, or misses entries of it.
        """
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        values = list(bound.arguments.values())
        x = values[self._position]
        if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
            name = list(self.__signature__.parameters)[self._position]
            raise ArgumentError(
                f"'{name}' is no array of floats: a sparse Jacobian needs one",
                code="DL702",
                help="np.asarray(x, float)",
            )
        if self._given is not None:
            return self._at(values, x, self._given, may_grow=False)
        plan = self._plans.get(x.shape)
        if plan is None:
            plan = self._plans[x.shape] = _Plan(self._find(values, x), self._mode)
        return self._at(values, x, plan, may_grow=True)

    def _at(self, values: list[Any], x: np.ndarray[Any, Any], plan: _Plan, may_grow: bool) -> Any:
        found, misses = self._forward(values, x, plan) if plan.mode == "forward" else self._reverse(values, x, plan)
        if misses is None:
            return found
        if not may_grow:
            raise ArgumentError(
                f"the sparsity pattern of {self.__name__} lacks entries: {misses}",
                code="DL701",
                help="sparsity='auto' finds the pattern",
            )
        # other branches are taken here: the pattern gets what they add
        grown = self._plans[x.shape] = _Plan(plan.pattern + self._find(values, x), self._mode)
        return self._at(values, x, grown, may_grow=False)

    def _forward(self, values: list[Any], x: np.ndarray[Any, Any], plan: _Plan) -> tuple[Any, str | None]:
        plan.check_columns(x)
        tangents = [(plan.colours == c).astype(x.dtype).reshape(x.shape) for c in range(plan.count)]
        rows = [np.ravel(self._push(values, t)[1]) for t in tangents]
        probe = _probe(x.size, x.dtype)
        moved = np.ravel(self._push(values, probe.reshape(x.shape))[1])
        plan.check_rows(moved)
        self.passes = plan.count
        table = np.stack(rows) if rows else np.zeros((1, moved.size), moved.dtype)
        found = plan.assembled(table[plan.colours[plan.pattern.indices], plan.rows])
        return found, _difference("row", moved, found @ probe, abs(found) @ abs(probe))

    def _reverse(self, values: list[Any], x: np.ndarray[Any, Any], plan: _Plan) -> tuple[Any, str | None]:
        plan.check_columns(x)
        value, pullback = self._pull(values)
        plan.check_rows(value)
        shape, dtype = np.shape(value), np.asarray(value).dtype

        def back(seed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            seed = seed.astype(dtype).reshape(shape)
            return np.ravel(pullback(seed if shape else type(value)(seed)))

        rows = [back(plan.colours == c) for c in range(plan.count)]
        self.passes = plan.count
        table = np.stack(rows) if rows else np.zeros((1, x.size), x.dtype)
        found = plan.assembled(table[plan.colours[plan.rows], plan.pattern.indices])
        probe = _probe(plan.pattern.shape[0], dtype)
        return found, _difference("column", back(probe), probe @ found, abs(probe) @ abs(found))

    def _find(self, values: list[Any], x: np.ndarray[Any, Any]) -> Any:
        """The pattern at a point, by a pass for each element: its tangent is NaN, and so is all that depends on it."""
        places: list[np.ndarray[Any, Any]] = []
        size = 0
        for k in range(x.size):
            tangent = np.zeros(x.size, x.dtype)
            tangent[k] = np.nan
            moved = np.ravel(self._push(values, tangent.reshape(x.shape))[1])
            size = moved.size
            places.append(np.flatnonzero(np.isnan(moved)))
        counts = [p.size for p in places]
        rows = np.concatenate([np.empty(0, int), *places])
        columns = np.repeat(np.arange(x.size), counts)
        return _scipy_sparse().csr_array((np.ones(rows.size, np.int8), (rows, columns)), shape=(size, x.size))


class _Plan:
    """A pattern, its colours, and the mode that takes fewer passes."""

    def __init__(self, pattern: Any, mode: str) -> None:
        pattern.sum_duplicates()
        pattern.sort_indices()
        self.pattern = pattern
        self.rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        columns = _colours(pattern.tocsc()) if mode != "reverse" else None
        rows = _colours(pattern) if mode != "forward" else None
        if rows is None or (columns is not None and columns.max(initial=-1) <= rows.max(initial=-1)):
            assert columns is not None
            self.mode, self.colours = "forward", columns
        else:
            self.mode, self.colours = "reverse", rows
        self.count = int(self.colours.max(initial=-1)) + 1

    def assembled(self, data: np.ndarray[Any, Any]) -> Any:
        """The matrix with these entries, row by row."""
        pattern = self.pattern
        return _scipy_sparse().csr_array((data, pattern.indices.copy(), pattern.indptr.copy()), shape=pattern.shape)

    def check_columns(self, x: np.ndarray[Any, Any]) -> None:
        """DL701 unless there is a column for each element."""
        self._check(x.size, 1, "argument")

    def check_rows(self, value: Any) -> None:
        """DL701 unless there is a row for each element."""
        self._check(np.size(value), 0, "output")

    def _check(self, size: int, axis: int, what: str) -> None:
        if size != self.pattern.shape[axis]:
            raise ArgumentError(
                f"the sparsity pattern has {self.pattern.shape[axis]} {('rows', 'columns')[axis]}, "
                f"and the {what} {size} elements",
                code="DL701",
            )


def _colours(pattern: Any) -> np.ndarray[Any, Any]:
    """A colour for each column of a csc_array (row of a csr_array), -1 for empty ones: no two of one colour meet."""
    starts, indices = pattern.indptr.tolist(), pattern.indices.tolist()
    lengths = np.diff(pattern.indptr)
    found = np.full(lengths.size, -1)
    across = pattern.shape[0] if pattern.format == "csc" else pattern.shape[1]
    taken = [0] * across  # of each line across: the colours that meet it, as bits
    for j in np.argsort(-lengths, kind="stable").tolist():
        places = indices[starts[j] : starts[j + 1]]
        if not places:
            continue
        here = 0
        for i in places:
            here |= taken[i]
        free = ~here & (here + 1)
        for i in places:
            taken[i] |= free
        found[j] = free.bit_length() - 1
    return found


def _probe(size: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A direction in which no two entries cancel but by chance."""
    return np.random.default_rng(0).uniform(0.5, 1.5, size).astype(dtype)


def _difference(line: str, wanted: np.ndarray[Any, Any], got: np.ndarray[Any, Any], scale: Any) -> str | None:
    """Where the derivative along the probe is not that of the matrix."""
    with np.errstate(invalid="ignore"):
        bound = _PROBE.get(wanted.dtype.char, 1e-2) * scale
        off = np.flatnonzero((np.abs(wanted - got) > bound) & np.isfinite(wanted) & np.isfinite(got))
    return f"{line} {off[0]} depends on more than it says" if off.size else None


def _as_pattern(given: Any) -> Any:
    sparse = _scipy_sparse()
    if sparse.issparse(given) and given.ndim == 2:
        found = sparse.csr_array(given)
        return sparse.csr_array((np.ones(found.nnz, np.int8), found.indices, found.indptr), shape=found.shape)
    if isinstance(given, np.ndarray) and given.ndim == 2 and given.dtype.kind == "b":
        return sparse.csr_array(given.astype(np.int8))
    raise ArgumentError(
        f"sparsity is a {type(given).__name__}: give {_WANTED}",
        code="DL701",
    )


def _scipy_sparse() -> Any:
    """SciPy's module, imported when it is first needed."""
    import scipy.sparse

    return scipy.sparse
