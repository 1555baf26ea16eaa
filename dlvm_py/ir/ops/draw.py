"""Numbers drawn from NumPy's bit generators: their own streams, bit for bit.

A generator is the address of a `bitgen_t` of NumPy's C interface, a u64: five words, the state and the functions
next_uint64, next_uint32, next_double and next_raw of it. `draw` gives the next number of a distribution, by NumPy's own
compiled code (`libnpyrandom`, which every NumPy has for those who link to it), or by the functions of the `bitgen_t`
itself. The interpreter draws by the methods of the `Generator`.

Drawing changes the state, which everybody sees: it happens as often as the program says, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm_py.ir.op import IO, TRAP, Kind, Op
from dlvm_py.ir.types import DTYPES, I64, U64, Type, scalar
from dlvm_py.ir.value import Value

WHY = "a number that is drawn does not change with what it is drawn by"


@dataclass(frozen=True, slots=True)
class Distribution:
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


def _draw_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    generator, *parameters = operands
    row = DISTRIBUTIONS.get(attrs["distribution"])
    if row is None:
        raise TypeError(f"there is no distribution {attrs['distribution']}")
    wanted = [scalar(DTYPES[name]) for name in row.parameters]
    if generator.type != scalar(U64) or [v.type for v in parameters] != wanted:
        given = ", ".join(str(v.type) for v in operands)
        raise TypeError(f"{attrs['distribution']} is drawn by a u64 and {len(wanted)} parameters, not by ({given})")
    return scalar(DTYPES[row.result])


def _seed_type(operands: Sequence[Value], attrs: dict[str, Any]) -> Type:
    (seed,) = operands
    if seed.type != scalar(I64):
        raise TypeError(f"a generator is seeded by an i64, not by {seed.type}")
    return scalar(U64)


# draw d from %g (parameters): the next number of a distribution
draw = Op(
    "draw", Kind.CHECK, _draw_type, None, attrs=("distribution",), effects=frozenset({TRAP, IO}), no_derivative=WHY
)  # fmt: skip
# seedGenerator s: a new PCG64, as np.random.default_rng(s); it lives until the call from outside is over
seedGenerator = Op(
    "seedGenerator", Kind.CHECK, _seed_type, None, effects=frozenset({TRAP, IO}), no_derivative=WHY
)  # fmt: skip

DRAWS = (draw, seedGenerator)


def address_of(generator: np.random.Generator) -> np.uint64:
    """What a generator is in compiled code."""
    return np.uint64(generator.bit_generator.ctypes.bit_generator.value)
