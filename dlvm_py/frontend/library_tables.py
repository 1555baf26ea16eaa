"""What is written in the language that we compile (library/), by the Python object that it is, or the method's name.

`table` imports this when a function or a method is asked for that no rule of the compiler's own is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm_py.frontend.library import (
    arrange,
    bessel,
    bits,
    calculus,
    create,
    decompositions,
    elementwise,
    floating,
    histograms,
    joining,
    linear_algebra,
    mathematics,
    norms,
    order,
    padding,
    places,
    polynomial,
    products,
    quantiles,
    random_numbers,
    random_vectors,
    reshaping,
    scimath,
    sets,
    statistics,
    tensors,
    ufuncs,
)
from dlvm_py.frontend.library_calls import library_table
from dlvm_py.frontend.numpy_ufunc import methods, written

Handler = Callable[..., Any]

_LIBRARY = (
    arrange, bessel, bits, calculus, create, decompositions, elementwise, histograms, joining, linear_algebra,
    mathematics, norms, order, padding, places, polynomial, products, quantiles, reshaping, scimath, sets,
    statistics, tensors, ufuncs,
)  # fmt: skip
_OF_UFUNCS: dict[Any, Handler] = {
    ufunc: written(ufunc, function) for module in (ufuncs, floating) for ufunc, function in module.UFUNCS.items()
}
FUNCTIONS: dict[Any, Handler] = {
    **methods(_OF_UFUNCS), **_OF_UFUNCS,
    **{f: rule for module in _LIBRARY for f, rule in library_table(module.FUNCTIONS).items()},
}  # fmt: skip
METHODS: dict[str, Handler] = {
    name: rule for module in _LIBRARY for name, rule in library_table(module.METHODS).items()
}
RANDOM_METHODS: dict[str, Handler] = library_table({**random_numbers.RANDOM, **random_vectors.RANDOM})
SUBSCRIPTED: dict[Any, Handler] = library_table(create.SUBSCRIPTED)  # np.mgrid[...]
