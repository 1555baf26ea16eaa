"""The distributions that NumPy's generators draw from: who draws a number of each, in C and in Python.

Part of no op row: the loader, which links the functions, needs the names and nothing of the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm_py.frozen import Frozen


class Distribution(Frozen):
    """A row: the C function, the dtypes of its parameters and of its result, and the same by a Generator.

    function: of libnpyrandom; or the place of a function in `bitgen_t`, in words.
    form: "value" is f(bitgen, parameters); "fill" f(bitgen, 1, pointer to the result); "cached" f(bitgen, parameters,
        memory that keeps what depends on the parameters only, zero at first); "bounded" is of uniform integers from 0
        up to and with the parameter.
    """

    function: str | int
    parameters: tuple[str, ...]
    result: str
    numpy: Callable[..., Any]
    form: str = "value"


def _by_method(name: str, **options: Any) -> Callable[..., Any]:
    return lambda g, *parameters: getattr(g, name)(*parameters, **options)


def _raw(name: str) -> Callable[..., Any]:
    def draw(g: np.random.Generator) -> Any:
        interface: Any = g.bit_generator.ctypes
        return getattr(interface, name)(interface.state)

    return draw


def _bounded(g: np.random.Generator, last: Any) -> Any:
    return g.integers(0, last, dtype=np.uint64, endpoint=True)


def _interval(g: np.random.Generator, last: Any) -> Any:
    """Uniform from 0 up to and with `last`: the bits that `last` has, until they are not above it."""
    last = int(last)
    if not last:
        return 0
    source = DISTRIBUTIONS["next_uint32" if last < 2**32 else "next_uint64"].numpy
    while (found := source(g) & (1 << last.bit_length()) - 1) > last:
        pass
    return found


def _plain(name: str, count: int, result: str = "f64", parameter: str = "f64") -> Distribution:
    return Distribution(f"random_{name}", (parameter,) * count, result, _by_method(name))


_F32 = {"dtype": np.float32}
DISTRIBUTIONS: dict[str, Distribution] = {
    "next_uint64": Distribution(1, (), "u64", _raw("next_uint64")),
    "next_uint32": Distribution(2, (), "u32", _raw("next_uint32")),
    "uniform": Distribution(3, (), "f64", _by_method("random")),
    "uniform_f": Distribution("random_standard_uniform_f", (), "f32", _by_method("random", **_F32)),
    "bounded": Distribution("random_bounded_uint64", ("u64",), "u64", _bounded, "bounded"),
    "interval": Distribution("random_interval", ("u64",), "u64", _interval),
    "standard_normal": _plain("standard_normal", 0),
    "standard_normal_f": Distribution("random_standard_normal_f", (), "f32", _by_method("standard_normal", **_F32)),
    "standard_exponential": _plain("standard_exponential", 0),
    "standard_exponential_f": Distribution(
        "random_standard_exponential_f", (), "f32", _by_method("standard_exponential", **_F32)
    ),
    "inverse_exponential": Distribution(
        "random_standard_exponential_inv_fill", (), "f64", _by_method("standard_exponential", method="inv"), "fill"
    ),
    "inverse_exponential_f": Distribution(
        "random_standard_exponential_inv_fill_f", (), "f32",
        _by_method("standard_exponential", method="inv", **_F32), "fill",
    ),
    "standard_gamma": _plain("standard_gamma", 1),
    "standard_gamma_f": Distribution("random_standard_gamma_f", ("f32",), "f32", _by_method("standard_gamma", **_F32)),
    "binomial": Distribution(
        "random_binomial", ("f64", "i64"), "i64", lambda g, p, n: g.binomial(n, p), "cached"
    ),
    **{name: _plain(name, 1) for name in ("chisquare", "standard_t", "pareto", "weibull", "power", "rayleigh")},
    **{name: _plain(name, 2) for name in (
        "beta", "f", "laplace", "gumbel", "logistic", "wald", "vonmises", "noncentral_chisquare",
    )},
    **{name: _plain(name, 3) for name in ("triangular", "noncentral_f")},
    **{name: _plain(name, 1, "i64") for name in ("poisson", "geometric", "zipf", "logseries")},
    "negative_binomial": _plain("negative_binomial", 2, "i64"),
    "hypergeometric": _plain("hypergeometric", 3, "i64", "i64"),
    "standard_cauchy": _plain("standard_cauchy", 0),
}  # fmt: skip
