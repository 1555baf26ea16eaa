"""Every function and method that compiled code may call, by the Python object that it is.

The families' tables are collected here; a ufunc with an op row needs no entry at all. Functions of the parts that NumPy
imports when they are asked for (np.fft, np.polynomial, np.random) have theirs from then on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm_py.deferred import deferred
from dlvm_py.frontend.closest import suggestion
from dlvm_py.frontend.elementwise import UFUNCS
from dlvm_py.frontend.emit import Emitter
from dlvm_py.frontend.iterate import ndenumerate, ndindex
from dlvm_py.frontend.library_calls import INTRINSICS, default_rng, library_table
from dlvm_py.frontend.numpy_complex import COMPLEX, COMPLEX_METHODS
from dlvm_py.frontend.numpy_create import CREATE, CREATE_METHODS, scalar_of
from dlvm_py.frontend.numpy_einsum import EINSUM
from dlvm_py.frontend.numpy_elementwise import ELEMENTWISE, ELEMENTWISE_METHODS
from dlvm_py.frontend.numpy_index import INDEX, INDEX_METHODS, index_of, indices_of
from dlvm_py.frontend.numpy_order import ORDER, ORDER_METHODS
from dlvm_py.frontend.numpy_reduce import REDUCE, REDUCE_METHODS
from dlvm_py.frontend.numpy_shape import SHAPE, SHAPE_METHODS
from dlvm_py.frontend.numpy_types import TYPES
from dlvm_py.frontend.numpy_ufunc import dot_into, forms, matmul_into, methods
from dlvm_py.frontend.numpy_view import VIEW, VIEW_METHODS
from dlvm_py.frontend.python_builtins import BUILTINS, MATH
from dlvm_py.frontend.python_complex import CMATH
from dlvm_py.frontend.texts import TEXTS
from dlvm_py.frontend.values import Static
from dlvm_py.ir import BF16, OWN_DTYPES, DType, is_bfloat16

if TYPE_CHECKING:
    from dlvm_py.frontend import library_tables
    from dlvm_py.frontend.library import fourier, series
else:
    library_tables = deferred("dlvm_py.frontend.library_tables")
    fourier, series = (deferred(f"dlvm_py.frontend.library.{name}") for name in ("fourier", "series"))

Handler = Callable[..., Any]


def _scalar(dtype: DType) -> Handler:
    def make(e: Emitter, x: Any = None) -> Any:
        return scalar_of(e, dtype, x)

    return make


_OF_UFUNCS: dict[Any, Handler] = {
    **{ufunc: forms(ufunc) for ufunc in UFUNCS},
    **ELEMENTWISE,
}
_FUNCTIONS: dict[Any, Handler] = {
    **methods(_OF_UFUNCS), **_OF_UFUNCS,
    **{d.numpy.type: _scalar(d) for d in OWN_DTYPES},
    **CREATE, **REDUCE, **SHAPE, **INDEX, **ORDER, **COMPLEX, **BUILTINS, **MATH, **CMATH,
    **TYPES, **TEXTS, **EINSUM, **VIEW, np.dot: dot_into, np.matmul: matmul_into,
    **INTRINSICS,
    np.ndindex: ndindex, np.ndenumerate: ndenumerate,
}  # fmt: skip
# the rules that are added to these when a part of NumPy's is there, or a function of the library's is asked for
_LIBRARY = "dlvm_py.frontend.library_tables"
_OF_PARTS: dict[str, Callable[[], dict[Any, Handler]]] = {
    _LIBRARY: lambda: library_tables.FUNCTIONS,
    "numpy.fft": lambda: library_table(fourier.FUNCTIONS),
    "numpy.polynomial": lambda: library_table(series.FUNCTIONS),
    "numpy.random": lambda: {np.random.default_rng: default_rng},
}
_BFLOAT16 = _scalar(BF16)  # by its name, so that ml_dtypes need not be there
_METHODS: dict[str, Handler] = {
    **CREATE_METHODS, **ELEMENTWISE_METHODS, **REDUCE_METHODS, **SHAPE_METHODS, **COMPLEX_METHODS, "dot": dot_into,
    **ORDER_METHODS, **INDEX_METHODS, **VIEW_METHODS,
}  # fmt: skip
_INDICES = {np.s_: index_of, np.index_exp: indices_of}
# functions of NumPy's that have the name of a method, and do not call it
_NOT_BY_METHOD = frozenset(("copy", "astype", "dot", "sort", "trace", "conj", "conjugate"))
# results are integers, bools or types, or do not change with the operands: no derivative flows through
WITHOUT_DERIVATIVE = frozenset(
    "all allclose any arange argmax argmin argsort argwhere array_equal array_equiv bartlett bincount bitwise_count "
    "blackman broadcast_shapes can_cast common_type count_nonzero digitize empty empty_like eye fix flatnonzero gcd "
    "hamming hanning histogram histogram2d histogram_bin_edges histogramdd identity indices isclose iscomplex "
    "iscomplexobj isdtype isin isinf isneginf isposinf isreal isrealobj isscalar issubdtype iterable lcm lexsort "
    "logical_xor mask_indices min_scalar_type ndim ndindex nonzero ones ones_like packbits promote_types "
    "result_type searchsorted shape signbit size spacing tri tril_indices triu_indices unpackbits unravel_index "
    "zeros zeros_like".split()
)
# parameters that mean an array where NumPy's functions have them: lists and tuples of numbers are made one
ARRAY_LIKE = frozenset(
    "A a a1 a2 a_max a_min append ar arr array ary aweights b bins condition element f fill_value fp fweights "
    "ind indices m max min obj p prepend q repeats src start stop test_elements to_begin to_end v val values weights "
    "x x1 x2 xp y z ar1 ar2".split()
)
# functions that write into what they are given, ask what it is, or make arrays themselves
_AS_GIVEN = frozenset((
    np.put, np.put_along_axis, np.place, np.putmask, np.fill_diagonal, np.isscalar, np.result_type, np.asarray,
    np.asanyarray, np.insert, np.delete, np.histogram2d, np.histogramdd, np.einsum,
))  # fmt: skip
STATIC_CALLS = (np.finfo, np.iinfo, np.dtype)  # evaluated at compile time on constants


def lookup(function: Any) -> Handler | None:
    """The rule of a callable, None if it has none."""
    try:
        if is_bfloat16(function):
            return _BFLOAT16
        if function not in _FUNCTIONS:
            _add([n for n in list(_OF_PARTS) if n in sys.modules or (n == _LIBRARY and _may_be_librarys(function))])
        return _FUNCTIONS.get(function)
    except TypeError:  # not hashable
        return None


def _may_be_librarys(function: Any) -> bool:
    """Whether a callable is of a module whose functions the library has."""
    module = getattr(function, "__module__", None)
    return module in ("math", "cmath") or is_numpy(function) or isinstance(_owner(function), np.ufunc)


def functions() -> dict[Any, Handler]:
    """The rules of all functions."""
    _add([name for name in list(_OF_PARTS) if import_module(name)])
    return _FUNCTIONS


def array_method(name: str) -> Handler | None:
    """The rule of a method of arrays, None if it has none."""
    return _METHODS.get(name) or library_tables.METHODS.get(name)


def array_methods() -> dict[str, Handler]:
    """The rules of all methods of arrays."""
    return {**_METHODS, **library_tables.METHODS}


def random_methods() -> dict[str, Handler]:
    """The rules of the methods of generators of random numbers."""
    return library_tables.RANDOM_METHODS


def calls_method(function: Any) -> bool:
    """Whether a function of NumPy's calls the method of its name."""
    name = getattr(function, "__name__", None)
    if name is None or name in _NOT_BY_METHOD or not hasattr(np.ndarray, name):
        return function in (np.amax, np.amin, np.around)
    return function is getattr(np, name, None) and array_method(name) is not None


def _add(parts: Iterable[str]) -> None:
    for name in parts:
        if name in _OF_PARTS:  # another thread may have been here
            _FUNCTIONS.update(_OF_PARTS[name]())
            _OF_PARTS.pop(name, None)


def subscripted(value: Any) -> Handler | None:
    """The rule of value[...] for NumPy's objects that make arrays so, else None."""
    if not isinstance(value, Static) or not is_numpy(type(value.value)):
        return None
    return next((rule for known, rule in subscripted_objects().items() if known is value.value), None)


def subscripted_objects() -> dict[Any, Handler]:
    """The rules of NumPy's objects that make arrays where they are subscripted."""
    return {**library_tables.SUBSCRIPTED, **_INDICES}


def is_numpy(function: Any) -> bool:
    """Whether a callable belongs to NumPy (its Python functions are not compiled)."""
    module = getattr(function, "__module__", None) or ("numpy" if isinstance(function, np.ufunc) else "")
    return module.partition(".")[0] == "numpy"


def numpys(function: Any) -> Any:
    """A function of NumPy's, or a method of a ufunc; None for what is a type, or another module's."""
    if isinstance(function, type) or not (is_numpy(function) or isinstance(_owner(function), np.ufunc)):
        return None
    return function


def _owner(function: Any) -> Any:
    return getattr(function, "__self__", None)


def takes_arrays(function: Any) -> bool:
    """Whether lists and tuples in the place of a function's arrays are made arrays."""
    return (is_numpy(function) or _is_ufunc_method(function)) and function not in _AS_GIVEN


def _is_ufunc_method(function: Any) -> bool:
    return isinstance(_owner(function), np.ufunc) and function.__name__ != "at"


def name_of(function: Any) -> str:
    """A callable as the user writes it: np.sin, math.sin, f."""
    name = getattr(function, "__name__", None) or repr(function)
    module = getattr(function, "__module__", None) or ""
    owner = _owner(function)
    if isinstance(owner, np.ufunc):
        return f"np.{owner.__name__}.{name}"
    if is_numpy(function):
        return ".".join(["np", *module.split(".")[1:], name]) if not module.startswith("numpy._") else f"np.{name}"
    return f"{module}.{name}" if module in ("math", "cmath") else name


def numpy_names() -> list[str]:
    """Names of all NumPy functions with a rule."""
    return sorted(f.__name__ for f in functions() if is_numpy(f))


# what to write instead of functions of NumPy's that have no close relative here
_INSTEAD = {
    "nditer": "loop over np.ndindex(x.shape), np.ndenumerate(x) or x.flat",
    "frompyfunc": "call the function in a loop over the elements, or on whole arrays",
    "as_strided": "np.lib.stride_tricks.sliding_window_view, or slices, cannot leave the array",
    "matrix": "use arrays with two axes, and @",
    "einsum_path": "np.einsum finds the path itself",
    "shares_memory": "ask outside of compiled code, or for the same array with `is`",
    "may_share_memory": "ask outside of compiled code, or for the same array with `is`",
    "require": "np.asarray(x, dtype, order) and np.ascontiguousarray(x) copy where they have to",
    "unique_values": "np.unique(x, equal_nan=False) gives them in order",
}


def numpy_help(target: Any) -> str:
    """What to write instead of a function of NumPy's that has no rule: the closest ones that have."""
    name = getattr(target, "__name__", "")
    hint: str | None = _INSTEAD.get(name)
    if hint is None:
        spelled: dict[str, str] = {}
        for f in functions():
            if is_numpy(f) and not isinstance(f, type):
                spelled.setdefault(f.__name__, name_of(f))
        hint = suggestion(name, spelled)
    return f"{hint or 'call it outside of compiled code'}; docs/numpy.md lists what is supported"


def ufunc_method_help(ufunc: np.ufunc) -> str:
    """Which methods a ufunc has here."""
    names = [m for m in ("reduce", "accumulate", "reduceat", "outer", "at") if lookup(getattr(ufunc, m))]
    if not names:
        return f"np.{ufunc.__name__} has no method here: call it on arrays"
    return f"np.{ufunc.__name__} has {', '.join(f'`{m}`' for m in names)} here"
