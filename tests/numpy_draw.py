"""Random arrays, axes and words for calls of NumPy functions, all from one seed."""

from __future__ import annotations

from typing import Any

import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
OF_KIND = {"b": ("bool",), "i": INTEGERS, "f": ("float16", "float32", "float64"), "c": ("complex64", "complex128")}
ANY, REAL, NUMBERS, FLOATS, LAPACK = "bific", "bif", "ific", "ff", "FFC"


class Text(str):
    """What stands in the source of a call: a constant."""


class Draw:
    """Random arrays and words, all from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.first: Any = None  # the first array of the call: axes are drawn for it
        self.buffer: Any = None  # what a later array may overlap

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def int(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def dtype(self, kinds: str = ANY) -> np.dtype:
        """Of kinds of OF_KIND; F, C: the dtypes that LAPACK has."""
        kind = self.pick(kinds)
        return np.dtype(
            self.pick({"F": ("float32", "float64"), "C": OF_KIND["c"], "D": ("float64",)}.get(kind) or OF_KIND[kind])
        )

    def shape(self, ndim: int | None = None) -> tuple[int, ...]:
        if ndim is None:
            ndim = self.pick((0, 1, 1, 1, 2, 2, 2, 3))
        return tuple(self.pick((0, 1, 2, 2, 3, 3, 4, 5)) for _ in range(ndim))

    def array(self, kinds: str = ANY, ndim: int | None = None, shape: Any = None, **how: Any) -> Any:
        """An array of a random dtype, layout and (unless given) shape; now and then a number."""
        shape = self.shape(ndim) if shape is None else shape
        dtype = self.dtype(kinds)
        values = self.values(dtype, shape, **how)
        found = self.laid_out(values)
        if not shape and self.chance(0.6):
            found = found[()] if self.chance(0.5) or dtype.itemsize < 8 and dtype.kind != "b" else values.item()
        if isinstance(found, int) and found > 2**63 - 1:
            found = values[()]  # a Python int of compiled code has 64 bits
        if self.buffer is None:
            self.buffer = found
        elif self.chance(0.15) and isinstance(self.buffer, np.ndarray) and self.buffer.shape == np.shape(found):
            found = self.buffer[::-1] if self.buffer.ndim and self.chance(0.5) else self.buffer
            if np.dtype(found.dtype).kind not in "".join(kinds).lower().replace("i", "iu").replace("d", "f"):
                found = values
        if self.first is None:
            self.first = found
        return found

    def values(self, dtype: Any, shape: Any, special: bool = True, low: Any = None, high: Any = None) -> np.ndarray:
        rng, dtype = self.rng, np.dtype(dtype)
        if dtype.kind == "b":
            return rng.random(shape) < 0.5
        if dtype.kind in "iu":
            low = low if low is not None else 0 if dtype.kind == "u" else -4
            found = np.asarray(rng.integers(low, (high if high is not None else 5) + 1, shape)).astype(dtype)
            if special and found.size and self.chance(0.1):
                found.flat[rng.integers(found.size)] = self.pick((np.iinfo(dtype).max, np.iinfo(dtype).min))
            return found
        if low is not None:
            found = rng.uniform(low, high if high is not None else low + 2, shape)
        else:
            found = np.asarray(rng.standard_normal(shape) * 2)
            if self.chance(0.3):
                found = np.round(found * 2) / 2
        if dtype.kind == "c":
            found = found + 1j * np.round(rng.standard_normal(shape) * 4) / 4
        found = np.asarray(found).astype(dtype)
        if special and found.size and self.chance(0.2):
            found.flat[rng.integers(found.size)] = self.pick((np.nan, np.inf, -np.inf, -0.0, 0.0))
        return found

    def laid_out(self, values: np.ndarray) -> np.ndarray:
        """The same values in C or Fortran order, reversed, sliced, transposed, or with stride 0."""
        kind = self.pick(("C", "C", "F", "reversed", "sliced", "inner", "repeated"))
        if values.ndim == 0 or kind == "C":
            return values
        if kind == "F":
            return np.asfortranarray(values)
        if kind == "reversed":
            return np.ascontiguousarray(values[::-1])[::-1]
        if kind == "sliced":
            wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1] + 1), values.dtype)
            wide[..., 1::2] = values
            return wide[..., 1::2]
        if kind == "inner":
            wide = np.zeros([n + 2 for n in values.shape], values.dtype)
            part = wide[tuple(slice(1, n + 1) for n in values.shape)]
            part[...] = values
            return part
        if values.shape[0] > 1 and self.chance(0.5):
            return np.broadcast_to(values[:1].copy(), values.shape)
        return values

    def like(self, other: Any, kinds: str = ANY, **how: Any) -> Any:
        """An array that broadcasts with another one; now and then it does not."""
        shape = list(np.shape(other))
        if self.chance(0.3):
            shape = shape[self.int(0, len(shape)) :]
        shape = [1 if self.chance(0.15) else n for n in shape]
        if shape and self.chance(0.03):
            shape[-1] += 1
        return self.array(kinds, shape=tuple(shape), **how)

    @property
    def ndim(self) -> int:
        return np.ndim(self.first)

    def axis(self) -> Text:
        """An axis of the first array, also a negative one; now and then there is no such axis."""
        n = self.ndim
        return Text(self.int(-n, n - 1) if n and not self.chance(0.03) else self.pick((0, -1, n)))

    def axes(self) -> Text:
        """None, an axis, or a tuple of them."""
        how = self.rng.random()
        if how < 0.2:
            return Text("None")
        if how < 0.6:
            return self.axis()
        n = self.ndim
        found = [int(k) for k in self.rng.permutation(n)[: self.int(0, n)]]
        return Text(tuple(k - n if self.chance(0.3) else k for k in found))

    def of(self, *words: Any) -> Text:
        """One of several constants."""
        return Text(repr(self.pick(words)))

    def number(self, *choices: Any) -> Any:
        """One of several numbers: in the source, or as an argument."""
        found = self.pick(choices)
        return found if self.chance(0.4) else Text(repr(found))

    def square(self, kinds: str = LAPACK, batch: bool = True) -> Any:
        """A matrix that is well conditioned, or a batch of them."""
        n, dtype = self.pick((1, 2, 3, 3, 4)), self.dtype(kinds)
        shape = (*((self.pick((0, 1, 2)),) if batch and self.chance(0.25) else ()), n, n)
        found = self.laid_out((self.values(dtype, shape, special=False) + 4 * np.eye(n)).astype(dtype))
        self.first = found if self.first is None else self.first
        return found

    def hermitian(self) -> Any:
        a = self.square()
        return self.laid_out(
            ((a + np.conj(np.swapaxes(a, -1, -2))) / 2 + np.diag(np.arange(a.shape[-1]))).astype(a.dtype)
        )

    def matrix(self, kinds: str = LAPACK, m: int | None = None) -> Any:
        """A matrix of any extents but 0, with different singular values."""
        m = m or self.int(1, 4)
        return self.array(kinds, shape=(m, self.int(1, 4)), special=False)

    def vector(self, kinds: str = ANY, **how: Any) -> Any:
        return self.array(kinds, ndim=1, **how)

    def filled(self, kinds: str = ANY, ndim: int | None = None, **how: Any) -> Any:
        """An array that is not empty."""
        shape = tuple(max(n, 1) for n in self.shape(self.int(1, 3) if ndim is None else ndim))
        return self.array(kinds, shape=shape, **how)

    def ascending(self, n: int | None = None, kinds: str = "F") -> Any:
        n = self.int(1, 6) if n is None else n
        return self.laid_out(np.sort(self.values(self.dtype(kinds), (n,), special=False)))

    def places(self, extent: int, shape: Any) -> np.ndarray:
        """Indices of an axis, now and then one that is out of bounds."""
        found = self.rng.integers(-extent, max(extent, 1 - extent), shape)
        if found.size and self.chance(0.06):
            found.flat[0] = extent
        return found.astype(self.pick(("int64", "int64", "int32", "int8")))


def situated(value: Any, how: str, memory: list[np.ndarray]) -> Any:
    """An argument whose arrays are empty, without axes, reversed, of stride 0, or in the memory of another one.

    Or which has an element in the place of each: one of NumPy's or of Python's numbers.
    """
    if isinstance(value, list):
        return [situated(item, how, memory) for item in value]
    if not isinstance(value, np.ndarray) or not value.ndim or not value.size:
        return value
    if how == "empty":
        return value[:0]
    if how == "0-d":
        return np.array(value[(0,) * value.ndim])
    if how in ("scalar", "number"):
        return value[(0,) * value.ndim] if how == "scalar" else value[(0,) * value.ndim].item()
    if how == "reversed":
        turned = (slice(None, None, -1),) * value.ndim
        return np.ascontiguousarray(value[turned])[turned]
    if how == "repeated":
        return np.broadcast_to(value[:1].copy(), value.shape)
    for held in memory:  # its elements but the first, from the last
        if held.dtype == value.dtype and held.size > value.size:
            return held.reshape(-1)[: -value.size - 1 : -1].reshape(value.shape)
    memory.append(np.concatenate((np.ravel(value), np.ravel(value)[-1:])))
    return memory[-1][:-1].reshape(value.shape)


SITUATIONS = ("empty", "0-d", "scalar", "number", "reversed", "repeated", "overlapping")


class Smooth(Draw):
    """What a function can be differentiated at: f64, no two elements equal, nothing at the kinks, nothing overlaps."""

    def chance(self, p: float) -> bool:
        return p >= 0.2 and super().chance(p)  # nothing that is there to be an error

    def dtype(self, kinds: str = ANY) -> np.dtype:
        return super().dtype(kinds) if set(kinds) <= set("bi") else np.dtype("float64")

    def values(self, dtype: Any, shape: Any, special: bool = True, low: Any = None, high: Any = None) -> np.ndarray:
        if np.dtype(dtype).kind in "biu":
            return super().values(dtype, shape, False, low, high)
        return self.rng.uniform(0.31, 1.7, shape)

    def shape(self, ndim: int | None = None) -> tuple[int, ...]:
        return tuple(max(n, 1) for n in super().shape(ndim))

    def laid_out(self, values: np.ndarray) -> np.ndarray:
        found = super().laid_out(values)
        return values if 0 in found.strides else found

    def axes(self) -> Text:
        found = super().axes()
        return Text("None") if found == "()" else found  # a deviation of one element is at its kink
