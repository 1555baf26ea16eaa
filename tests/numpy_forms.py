"""For every NumPy function that compiled code may call: random calls of it.

A form makes the positional arguments of one call; the options that its rule takes beyond these are drawn by name from
OPTIONS. Everything is drawn from one seed, so that a call can be made again with fresh arrays. An array, a NumPy scalar
or a Python number that is drawn becomes a parameter of the compiled function; a `Text` stands in its source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy_draw import ANY, LAPACK, NUMBERS, REAL, Draw, Text

from dlvm_py.frontend.library.quantiles import BETWEEN, DISCRETE
from dlvm_py.frontend.table import functions

# -- options -----------------------------------------------------------------------------------------------


def _dtype_option(d: Draw) -> Text:
    return Text(f"np.{d.dtype().name}" if d.chance(0.9) else d.pick(("float", "int", "complex", "'f4'")))


def _mask(d: Draw) -> Any:
    return d.like(d.first, "b")


def _boolean(d: Draw) -> Text:
    return d.of(True, False)


NEVER = lambda d: None  # noqa: E731 - an option that the form has given otherwise
OUT = Text("<out>")  # an array that fits the result; the driver makes it
# what an option is drawn from, by its name; a function's own come before these
OPTIONS: dict[str, Callable[[Draw], Any]] = {
    "axis": Draw.axis,
    "axes": lambda d: d.axes(),
    "keepdims": _boolean,
    "dtype": _dtype_option,
    "out": lambda d: OUT,
    "where": _mask,
    "order": lambda d: d.of("C", "C", "F"),
    "initial": lambda d: d.number(0, 2, -1.5, True, -1, 300),
    "ddof": lambda d: d.number(0, 1, 1, 2),
    "copy": _boolean,
    "offset": lambda d: d.number(0, 1, -1, 2),
    "k": lambda d: d.number(0, 1, -1, 3),
    "rtol": lambda d: d.number(1e-5, 0.5),
    "atol": lambda d: d.number(1e-8, 0.5),
    "equal_nan": _boolean,
    "norm": lambda d: d.of(None, "ortho", "forward", "backward"),
    "endpoint": _boolean,
    "method": lambda d: d.of("linear", *BETWEEN, *DISCRETE),
    "mode": lambda d: d.of("raise", "clip", "wrap"),
    "assume_unique": lambda d: Text("False"),
    "upper": _boolean,
    "hermitian": lambda d: Text("False"),
    "UPLO": lambda d: d.of("L", "U"),
    "include_initial": _boolean,
    "shape": lambda d: Text("(2, 3)"),
    "casting": lambda d: d.of("same_kind", "unsafe", "safe"),
    "overwrite_input": lambda d: Text("False"),
    "stable": lambda d: d.of(None, True),
    "min": lambda d: d.number(-1, 0.5, None),
    "max": lambda d: d.number(2, 1.5, None),
    "subok": lambda d: Text("False"),
    "ndmin": lambda d: d.of(0, 1, 2, 3),
    "bitorder": lambda d: d.of("big", "little"),
}
NONE_OR_AXIS = {"axis": lambda d: Text("None") if d.chance(0.3) else d.axis()}
AXES = {"axis": lambda d: d.axes()}

# -- forms -------------------------------------------------------------------------------------------------

Form = Callable[[Draw], Any]
FORMS: dict[str, list[Form]] = {}
OWN: dict[str, dict[str, Callable[[Draw], Any]]] = {}


def form(names: str, make: Form, **options: Callable[[Draw], Any]) -> None:
    """One way to call each of some functions, and how options of theirs are drawn."""
    for name in names.split():
        FORMS.setdefault(name, []).append(make)
        OWN.setdefault(name, {}).update(options)


def _prefixed(prefix: str, names: str) -> str:
    return " ".join(f"{prefix}.{n}" for n in names.split())


def _np(names: str) -> str:
    return _prefixed("np", names)


def _linalg(names: str) -> str:
    return _prefixed("np.linalg", names)


def _fft(names: str) -> str:
    return _prefixed("np.fft", names)


def one(kinds: str = ANY, ndim: int | None = None, **how: Any) -> Form:
    return lambda d: [d.array(kinds, ndim, **how)]


def two(kinds: str = ANY, **how: Any) -> Form:
    def make(d: Draw) -> Any:
        a = d.array(kinds, **how)
        return [a, d.like(a, kinds, **how)]

    return make


def ints(d: Draw, low: int = 0, high: int = 4) -> Any:
    """A number of elements: a constant or an argument."""
    return d.number(*range(low, high + 1))


# reductions and what goes along an axis
form(_np("sum prod mean max min amax amin any all var std ptp count_nonzero"), one(), **AXES)
form(_np("var std nanvar nanstd"), one(), mean=NEVER, correction=NEVER)
form(_np("var std mean ptp max min"), one(REAL, 2), **AXES)
form(_np("nansum nanprod nanmax nanmin nanmean nanvar nanstd"), one(), **AXES)
form(_np("median nanmedian"), one(REAL), **AXES)
form(_np("cumsum cumprod nancumsum nancumprod cumulative_sum cumulative_prod"), one(), **NONE_OR_AXIS)
form(_np("argmax argmin nanargmax nanargmin"), one(), **NONE_OR_AXIS)
form(
    _np("sort"),
    one(),
    kind=lambda d: d.of("stable", "quicksort", "mergesort", None),
    order=lambda d: Text("None"),
    **NONE_OR_AXIS,
)
form(_np("argsort"), lambda d: [d.array(), Text("kind='stable'")], kind=NEVER, order=NEVER, **NONE_OR_AXIS)
form(
    _np("average"),
    one(NUMBERS),
    returned=_boolean,
    weights=lambda d: d.array(REAL, shape=np.shape(d.first), special=False),
    **NONE_OR_AXIS,
)


def _fraction(d: Draw) -> Any:
    """q of a quantile: an argument between the elements, where there is a slope; constants at elements, too."""
    return d.pick((0.23, Text("0.25"), Text("0.5"), np.array([0.13, 0.71]), 1.0, 0))


form(
    _np("quantile percentile"),
    lambda d: [d.array(REAL, special=False), _fraction(d)],
    **AXES,
)
form(
    _np("nanquantile nanpercentile"),
    lambda d: [d.filled("if"), _fraction(d)],
    **AXES,
)
form(
    _np("diff"),
    one(),
    n=lambda d: d.of(0, 1, 1, 2, 3),
    prepend=lambda d: d.number(1, 0.5),
    append=lambda d: d.number(2, 1.5),
)
form(_np("trapezoid"), one(NUMBERS), dx=lambda d: d.number(1.0, 0.5, 2), x=NEVER)
form(_np("trapezoid"), lambda d: [v := d.vector(NUMBERS), d.array(REAL, shape=v.shape)])
form(_np("unwrap"), one("if"), discont=lambda d: d.number(4.0, None), period=lambda d: d.number(6.5, 4, 2.0))
form(_np("partition"), lambda d: [d.array(shape=(*d.shape(1), 2)), d.of(0, 1)], axis=lambda d: Text(-1))
form(_np("lexsort"), lambda d: [d.filled(ndim=2)], axis=lambda d: Text(-1))
form(_np("lexsort"), lambda d: [[k := d.vector(), d.array(shape=k.shape)]], axis=lambda d: Text(-1))
form(_np("gradient"), one("fF"), edge_order=lambda d: d.of(1, 2), axis=Draw.axis)
form(_np("gradient"), lambda d: [d.array(NUMBERS, 1), d.number(2.0, 3, 0.5)], edge_order=lambda d: d.of(1, 2))
form(_np("ediff1d"), one(NUMBERS), to_end=lambda d: d.number(1, 5), to_begin=lambda d: d.number(0, 7))
form(
    _np("cov corrcoef"),
    lambda d: [d.array(NUMBERS, d.int(1, 2))],
    y=lambda d: d.array(NUMBERS, shape=np.shape(d.first)),
    rowvar=_boolean,
    bias=_boolean,
    ddof=lambda d: d.of(0, 1, None),
    fweights=lambda d: Text("None"),
    aweights=lambda d: Text("None"),
)
form(
    _np("apply_along_axis"), lambda d: [Text(d.pick(("np.sum", "lambda v: np.sum(v * v)"))), Text(0), d.filled(NUMBERS)]
)

form(_np("apply_over_axes"), lambda d: [Text(d.pick(("np.sum", "np.cumsum"))), d.filled(NUMBERS), d.axes()])
form(_np("sort_complex"), one())
form(_np("asarray_chkfinite"), one())

# shapes
form(
    "np.lib.stride_tricks.sliding_window_view",
    lambda d: [
        a := d.array(ndim=d.int(1, 3)),
        Text(tuple(d.int(0 if n == 0 else 1, n + d.chance(0.05)) for n in a.shape)),
    ],
    axis=NEVER,
)
form(
    "np.lib.stride_tricks.sliding_window_view",
    lambda d: [d.array(ndim=2), d.number(1, 2)],
    axis=lambda d: d.of(0, 1, -1),
)
form(
    "np.lib.stride_tricks.sliding_window_view",
    lambda d: [d.array(ndim=2), Text("(2, 1)"), Text("(1, 0)")],
    axis=NEVER,
)
form(_np("transpose"), one(), axes=lambda d: Text(tuple(int(k) for k in d.rng.permutation(d.ndim))))
form(_np("swapaxes"), lambda d: [d.array(), d.axis(), d.axis()])
form(_np("moveaxis"), lambda d: [d.array(), d.axis(), d.axis()])
form(_np("rollaxis"), lambda d: [d.filled(), d.axis()], start=lambda d: Text(d.int(0, d.ndim)))
form(_np("expand_dims"), lambda d: [d.array(), Text(d.pick((0, -1, 1, (0, -1), (1, 0), 4)))])
form(_np("squeeze"), lambda d: [d.array(shape=(1, 3, 1))], axis=lambda d: Text(d.pick((0, 2, -1, (0, 2), 1))))
form(_np("ravel"), one())
form(
    _np("reshape"),
    lambda d: [a := d.array(), Text(d.pick((-1, (-1,), np.shape(a), np.shape(a)[::-1], (1, -1), (-1, 1), (2, -1))))],
)
form(
    _np("broadcast_to"),
    lambda d: [a := d.array(), Text(d.pick(((2, *np.shape(a)), np.shape(a), (3, 1, *np.shape(a)), (4,))))],
)
form(_np("broadcast_arrays"), two())
form(_np("broadcast_shapes"), lambda d: [Text("(3, 1)"), Text("(1, 4)"), Text("4")])
form(_np("shape size ndim copy iscomplexobj isrealobj isscalar"), one())
form(_np("atleast_1d atleast_2d atleast_3d"), one())
form(_np("atleast_1d atleast_2d atleast_3d"), two())
form(_np("flip"), one(), **AXES)
form(_np("fliplr flipud matrix_transpose"), one())
form(
    _np("rot90"),
    lambda d: [d.filled()],
    k=lambda d: d.of(-1, 0, 1, 2, 3, 5) if d.chance(0.5) else d.number(-1, 0, 1, 2),
    axes=lambda d: d.of((0, 1), (1, 0), (-1, 0)),
)
form(_np("roll"), lambda d: [d.array(), ints(d, -6, 6)], **NONE_OR_AXIS)
form(_np("roll"), lambda d: [d.array(ndim=2), Text("(1, -2)"), Text("(0, 1)")], axis=lambda d: Text("(0, 1)"))
form(_np("resize"), lambda d: [d.array(), Text(d.pick((5, (2, 3), (0,), (3, 0), 1, ())))])
form(
    _np("diagonal"),
    lambda d: [d.array(ndim=d.int(2, 3))],
    axis1=lambda d: Text(0),
    axis2=lambda d: d.of(1, -1),
    offset=lambda d: d.number(0, 1, -1, 9),
)
form(
    _np("quantile percentile nanquantile nanpercentile"),
    lambda d: [d.filled("if", special=False), _fraction(d), Text("method='inverted_cdf'")],
    weights=lambda d: d.array("if", shape=np.shape(d.first), low=0, high=3),
    method=NEVER,
    **AXES,
)
form(_np("trace"), lambda d: [d.array(ndim=d.int(2, 3))], axis1=lambda d: Text(0), axis2=lambda d: d.of(1, -1))
form(_np("diag diagflat"), lambda d: [d.array(ndim=d.int(1, 2))])
form(_np("tril triu"), lambda d: [d.array(ndim=d.int(1, 3))])
form(_np("unstack"), lambda d: [d.array(shape=(1, 1))], axis=lambda d: d.of(0, 1))

# creation
SHAPES = (0, 3, (), (2,), (2, 3), (0, 2), (3, 1, 2), [2, 2])
form(_np("zeros ones"), lambda d: [Text(d.pick(SHAPES))])
form(_np("empty"), lambda d: [Text(d.pick((0, (0, 3), (2, 0))))])
form(_np("full"), lambda d: [Text(d.pick(SHAPES)), d.array(ndim=0)])
form(_np("zeros_like ones_like"), one())
form(_np("empty_like"), lambda d: [d.array(shape=(0, 2))], shape=lambda d: Text("(3, 0)"))
form(_np("full_like"), lambda d: [d.array(), d.array(REAL, ndim=0)])
form(_np("arange"), lambda d: [d.number(0, 3, 2.5, -1, True)], start=NEVER, stop=NEVER, step=NEVER)
form(
    _np("arange"),
    lambda d: [d.number(0, 1, -0.5), d.number(4, 2.5, -3)],
    dtype=lambda d: d.pick((Text("np.float32"), Text("np.int64"), Text("np.float64"))),
)
form(_np("arange"), lambda d: [d.number(0, 1, 5), d.number(4, 2.5, -3), d.number(1, 2, -1, 0.5, -0.75)])
form(_np("arange"), lambda d: [d.dtype("if").type(1), d.dtype("if").type(5)])
form(_np("eye"), lambda d: [ints(d)], M=lambda d: ints(d))
form(_np("identity hanning hamming blackman bartlett"), lambda d: [ints(d)])
form(_np("kaiser"), lambda d: [ints(d, 0, 5), d.number(0.0, 5.0, 14)])
form(_np("tri"), lambda d: [ints(d)], M=lambda d: ints(d))
form(_np("vander"), lambda d: [d.vector()], N=lambda d: ints(d), increasing=_boolean)
form(_np("indices"), lambda d: [Text(d.pick(((2, 2), (0, 2), (1,), (1, 2, 2))))], sparse=_boolean)
form(_np("fromfunction"), lambda d: [Text("lambda i, j: i * 10 + j"), Text(d.pick(((2, 3), (0, 2))))])
NUM = (0, 1, 2, 5)
form(
    _np("linspace"),
    lambda d: [d.number(0, -1.5, 2, 1j), d.number(1, 2.5, -3), d.number(2, 5)],
    num=NEVER,
    retstep=_boolean,
    axis=lambda d: Text(0),
)
form(
    _np("linspace"),
    lambda d: [a := d.vector(special=False), d.array(shape=np.shape(a), special=False), d.number(2, 3)],
    retstep=_boolean,
    axis=lambda d: d.of(0, 1, -1),
)
form(
    _np("logspace"),
    lambda d: [d.number(0, -1.5, 2), d.number(1, 2.5, -3), d.number(*NUM)],
    num=NEVER,
    base=lambda d: d.number(2, 10.0, 2.5),
    axis=lambda d: Text(0),
)
form(
    _np("geomspace"),
    lambda d: [d.number(1, 1.5, 2), d.number(1, 250.5, 32), d.number(*NUM)],
    num=NEVER,
    axis=lambda d: Text(0),
)
form(_np("array asarray asanyarray ascontiguousarray asfortranarray"), one())
form(_np("array asarray asanyarray"), lambda d: [[d.array(ndim=0), d.array(ndim=0)]], copy=lambda d: Text("True"))
form(_np("array"), lambda d: [[a := d.array(ndim=1), d.array(shape=np.shape(a))]], copy=lambda d: Text("True"))
form(
    _np("astype"),
    lambda d: [
        d.laid_out(d.values(t := d.dtype(), d.shape(2), low=0 if t.kind in "fc" else None, special=False)),
        _dtype_option(d),
    ],
)
form(
    _np("meshgrid"),
    lambda d: [d.vector() for _ in range(d.int(1, 3))],
    sparse=_boolean,
    indexing=lambda d: d.of("ij", "xy"),
)
form(_np("ix_"), lambda d: [d.vector("i"), d.vector("bi")])
form(_np("diag_indices"), lambda d: [ints(d)], ndim=lambda d: d.of(1, 2, 3))
form(_np("diag_indices_from"), lambda d: [d.array(shape=(n := d.int(0, 3), n))])
form(_np("tril_indices triu_indices"), lambda d: [ints(d)], m=lambda d: ints(d))
form(_np("tril_indices_from triu_indices_from"), one(ndim=2))


# joining and taking apart
def _joined(d: Draw, ndim: int | None = None, axis: int = 0) -> list[Any]:
    a = d.array(ndim=ndim if ndim is not None else d.int(1, 3))
    shape = list(np.shape(a))
    if axis < len(shape):
        shape[axis] = d.pick((0, 1, 2))
    return [a, d.array(shape=tuple(shape)), *([d.array(shape=np.shape(a))] if d.chance(0.3) else [])]


form(_np("concatenate"), lambda d: [_joined(d)], axis=lambda d: d.of(0, 0, 0, None, -1))
form(_np("concatenate"), lambda d: [_joined(d, 2, 1), Text(1)])
form(_np("concatenate"), one(ndim=3), axis=lambda d: d.of(0, 1, None))
form(_np("stack"), one(ndim=2), axis=lambda d: d.of(0, 1))
form(_np("stack"), lambda d: [[a := d.array(), d.array(shape=np.shape(a))]], axis=lambda d: d.of(0, -1, 1))
form(_np("vstack hstack dstack column_stack"), lambda d: [[a := d.array(ndim=d.int(0, 2)), d.array(shape=np.shape(a))]])
form(
    _np("block"),
    lambda d: [[[a := d.array(ndim=2), d.array(shape=a.shape)], [d.array(shape=a.shape), d.array(shape=a.shape)]]],
)
form(_np("block"), lambda d: [[d.array(ndim=1), d.array(ndim=1)]])
form(_np("append"), lambda d: [d.array(), d.array()], axis=lambda d: Text("None"))
form(_np("append"), lambda d: _joined(d, 2)[:2], axis=lambda d: Text(0))
form(_np("insert"), lambda d: [d.filled(ndim=1), ints(d, -1, 1), d.array(ndim=0)], axis=lambda d: d.of(0, None))
form(_np("insert"), lambda d: [d.filled(ndim=2), ints(d, -1, 1), d.array(REAL, ndim=0), d.of(0, 1)])
form(_np("delete"), lambda d: [d.filled(), ints(d, -1, 0)], **NONE_OR_AXIS)
form(
    _np("delete"),
    lambda d: [d.filled(), Text(d.pick(("slice(1, 3)", "slice(None, None, 2)", "slice(5, 2)")))],
    **NONE_OR_AXIS,
)
form(
    _np("insert"),
    lambda d: [
        a := d.filled(ndim=d.int(1, 2)),
        d.values("int64", (m := d.int(0, 3),), special=False, low=-a.shape[0], high=a.shape[0]),
        d.array(REAL, shape=d.pick(((), (m,), (1,))) if a.ndim == 1 else d.pick(((), (1, 1), a.shape[1:]))),
        Text("0"),
    ],
)
form(_np("insert"), lambda d: [d.filled(ndim=2), d.of([1, 0], [0], (1, 1), []), d.number(1, 2.5), d.of(0, 1, None)])
form(_np("insert"), lambda d: [d.filled(ndim=1), Text("slice(None, None, 2)"), d.number(1, 2.5)])
form(_np("insert"), lambda d: [a := d.filled(ndim=2), Text("1"), d.array(REAL, shape=(a.shape[0],)), Text("1")])
form(
    _np("delete"),
    lambda d: [a := d.filled(ndim=d.int(1, 2)), d.places(a.shape[0], (d.int(0, 3),)), Text("0")],
)
form(_np("delete"), lambda d: [a := d.filled(), d.values("bool", (np.size(a) + d.chance(0.1),))])
form(_np("delete"), lambda d: [d.filled(), d.of([0, 0], [-1], [])], **NONE_OR_AXIS)
form(_np("split"), lambda d: [d.array(shape=(4, 2)), d.of(1, 2, 4, [1, 3], (0, 2, 9))], axis=lambda d: Text(0))
form(_np("array_split"), lambda d: [d.filled(), d.of(1, 2, 3, [1, 3], (0, 2, 9))])
form(_np("hsplit vsplit dsplit"), lambda d: [d.array(shape=(2, 2, 2)), d.of(1, 2, [1])])
form(_np("hsplit"), lambda d: [d.array(shape=(4,)), d.of(1, 2, [1])])
form(_np("tile"), lambda d: [d.array(), d.pick((Text("2"), Text("(2, 1)"), Text("(0,)"), Text("(1, 2, 2)"), 3))])
form(_np("repeat"), lambda d: [d.array(), ints(d, 0, 3)], **NONE_OR_AXIS)
form(
    _np("repeat"),
    lambda d: [v := d.vector(), d.values("int64", v.shape, special=False, low=0)],
    axis=lambda d: d.of(0, None),
)
form(
    _np("pad"),
    lambda d: [d.filled(ndim=d.int(1, 2)), d.pick((Text("1"), Text("(1, 2)"), Text("0"), 2))],
    mode=lambda d: d.of(
        "constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "median", "linear_ramp"
    ),
    stat_length=NEVER,
    constant_values=NEVER,
    end_values=NEVER,
    reflect_type=NEVER,
)
form(
    _np("pad"),
    lambda d: [
        d.filled(ndim=d.int(1, 2)),
        Text("2"),
        Text("'constant'"),
        Text("constant_values=" + d.pick(("3", "(1, 2)", "0.5"))),
    ],
)
form(_np("pad"), lambda d: [d.filled(ndim=2), Text("((1, 0), (2, 3))")])
form(_np("trim_zeros"), one(special=False), trim=lambda d: d.of("f", "b", "fb"), **AXES)

# elements
form(
    _np("clip"),
    lambda d: [d.array(REAL), d.number(-1, 0.5), d.number(1, 1.5)],
    a_min=NEVER,
    a_max=NEVER,
    min=NEVER,
    max=NEVER,
)
form(_np("clip"), lambda d: [a := d.array(NUMBERS), d.like(a, "if"), d.like(a, "if")])
form(_np("clip"), lambda d: [d.array("if"), d.number(-1, 0.5, None), d.number(2, 1.5)])
form(_np("round around"), one(), decimals=lambda d: d.number(0, 1, 2, -1))
form(_np("fix isneginf isposinf sinc i0"), one(REAL))
form(
    _np("nan_to_num"),
    one(),
    nan=lambda d: d.number(1.5, 0),
    posinf=lambda d: d.number(9.0, None),
    neginf=lambda d: d.number(-9, None),
    copy=lambda d: Text("True"),
)
form(_np("real imag angle iscomplex isreal"), one(), deg=_boolean)
form(_np("isclose allclose"), two())
form(_np("array_equal array_equiv"), two())
form(_np("where"), lambda d: [c := d.array(), d.like(c), d.like(c)])
form(
    _np("where nonzero argwhere flatnonzero"),
    lambda d: [d.array(ndim=d.int(1, 3))],
    x=lambda d: Text("None"),
    y=lambda d: Text("None"),
)
form(
    _np("select"),
    lambda d: [
        [c := d.array("b", d.int(1, 2)), d.array("b", shape=c.shape)],
        [d.array(shape=c.shape), d.array(shape=c.shape)],
    ],
    default=lambda d: d.number(0, 1.5, 2),
)
form(
    _np("choose"),
    lambda d: [
        a := d.array("i", d.int(1, 2), low=0, high=1, special=False),
        [d.array(shape=a.shape), d.array(shape=a.shape)],
    ],
)
form(_np("choose"), lambda d: [d.array("i", low=0, high=1, special=False), d.array(shape=(2, 3))])
form(
    _np("piecewise"),
    lambda d: [
        d.array("if", 1),
        [Text("x0 < 0"), Text("x0 >= 0")],
        [Text("lambda v: -v"), Text("lambda v: v * 2")],
    ],
)
form(_np("copyto"), lambda d: [np.array(a := d.array()), d.like(a)])
form(
    _np("putmask"),
    lambda d: [np.array(a := d.array(ndim=d.int(1, 2))), d.array("b", shape=np.shape(a)), d.filled("bi", 1)],
)
form(
    _np("place"),
    lambda d: [np.array(a := d.array(ndim=d.int(1, 2))), d.array("b", shape=np.shape(a)), d.filled("bi", 1)],
)
form(_np("fill_diagonal"), lambda d: [np.array(d.array(ndim=2)), d.number(2, 1.0)], wrap=_boolean)
form(_np("put"), lambda d: [np.array(a := d.filled()), d.places(np.size(a), d.shape(1)), d.array("bi", ndim=0)])
form(
    _np("put_along_axis"),
    lambda d: [np.array(a := d.filled(ndim=2)), d.places(a.shape[1], (a.shape[0], 2)), d.number(1, 2), Text(1)],
)

# order, search, sets
form(
    _np("searchsorted"),
    lambda d: [d.ascending(), d.array("if")],
    side=lambda d: d.of("left", "right"),
    sorter=lambda d: Text("None"),
)
form(
    _np("searchsorted"),
    lambda d: [d.vector("if", special=False), d.array("if"), Text("sorter=np.argsort(x0, kind='stable')")],
    sorter=NEVER,
)
form(_np("digitize"), lambda d: [d.array("if"), d.ascending()], right=_boolean)
form(
    _np("interp"),
    lambda d: [d.array("if"), x := d.ascending(), d.array("if", shape=x.shape)],
    left=lambda d: d.number(1.5, None),
    right=lambda d: d.number(2, None),
    period=NEVER,
)
form(  # points that come to lie on one another are in an order that NumPy does not promise
    _np("interp"),
    lambda d: [
        d.array("ff"),
        d.laid_out(np.sort(d.values("float64", (4,), special=False, low=-3.0, high=5.0))),
        d.array("if", shape=(4,)),
        Text("period=2.0"),
    ],
)
form(
    _np("bincount"),
    lambda d: [d.filled("i", 1, low=0, special=False)],
    minlength=lambda d: d.number(0, 2, 9),
    weights=lambda d: d.array(REAL, shape=np.shape(d.first)),
)
form(
    _np("histogram"),
    lambda d: [d.array("if", special=False)],
    bins=lambda d: d.number(1, 4, 10),
    range=lambda d: Text("(-2.0, 3.0)"),
    density=_boolean,
    weights=lambda d: d.array("if", shape=np.shape(d.first)),
)
form(
    _np("histogram"),
    lambda d: [d.array("if", special=False), np.array([-2.0, -0.5, 0.0, 3.0])],
    range=lambda d: Text("None"),
    density=_boolean,
    weights=lambda d: Text("None"),
)
form(
    _np("histogram_bin_edges"),
    lambda d: [d.array("if", special=False)],
    bins=lambda d: d.number(1, 4, 10),
    range=lambda d: Text("(-2.0, 3.0)"),
    weights=lambda d: Text("None"),
)
form(
    _np("histogram2d"),
    lambda d: [x := d.array("D", 1, special=False), d.array("if", shape=x.shape, special=False)],
    bins=lambda d: d.pick((3, Text("(2, 3)"), np.array([-1.0, 0.0, 2.0]))),
    range=lambda d: d.of(((-1.0, 2.0), (-2.0, 1.0)), None),
    density=_boolean,
    weights=lambda d: d.array("if", shape=np.shape(d.first), special=False),
)
form(
    _np("histogramdd"),
    lambda d: [[x := d.array("D", 1, special=False), d.array("D", shape=x.shape, special=False)]],
    bins=lambda d: d.of(3, (2, 3)),
    range=lambda d: d.of(((-1.0, 2.0), (-2.0, 1.0)), None),
    density=_boolean,
    weights=lambda d: d.array("if", shape=np.shape(d.first), special=False),
)
form(_np("mask_indices"), lambda d: [ints(d), Text(d.pick(("np.triu", "np.tril")))])
form(_np("packbits"), lambda d: [d.array("bi", d.int(1, 2))], **NONE_OR_AXIS)
form(
    _np("unpackbits"),
    lambda d: [d.values("uint8", (d.int(1, 3), 2)[d.int(0, 1) :])],
    count=lambda d: d.number(3, 9, 20, -2),
    axis=lambda d: d.of(None, 0, -1),
)
form(
    _np("unique"),
    one(),
    return_index=_boolean,
    return_inverse=_boolean,
    return_counts=_boolean,
    axis=lambda d: Text("None"),
)
form(
    _np("unique"),
    lambda d: [d.array(ndim=d.int(1, 3), special=False), *(d.of(True, False) for _ in range(3)), d.axis()],
)
form(_np("union1d intersect1d setdiff1d setxor1d"), lambda d: [d.array(), d.array()])
form(_np("unique_counts unique_inverse unique_all"), one())
form(_np("intersect1d"), lambda d: [d.array("bif"), d.array("bif")], return_indices=_boolean)
form(_np("isin"), lambda d: [d.array(), d.array()], invert=_boolean)
form(_np("take"), lambda d: [a := d.filled(), d.places(np.size(a), d.shape())], axis=lambda d: Text("None"))
form(_np("take"), lambda d: [a := d.filled(), d.places(np.shape(a)[0], d.shape(d.int(0, 2))), Text(0)])
form(_np("take_along_axis"), lambda d: [a := d.filled(ndim=2), d.places(a.shape[1], (a.shape[0], 2)), Text(1)])
form(_np("compress"), lambda d: [d.vector("b"), d.filled()], **NONE_OR_AXIS)
form(_np("extract"), lambda d: [a := d.array("b"), d.array(shape=np.shape(a))])
form(_np("unravel_index"), lambda d: [d.places(12, d.shape(1)), Text("(3, 4)")])
form(
    _np("ravel_multi_index"),
    lambda d: [
        [
            i := d.values("int64", d.shape(1), special=False, low=0, high=2),
            d.values("int64", i.shape, special=False, low=0, high=3),
        ],
        Text("(3, 4)"),
    ],
)
form(_np("argpartition"), lambda d: [d.array("FD", shape=(3, 2), special=False), d.of(0, 1)], axis=lambda d: Text(-1))


# products
def _product(d: Draw, batched: bool = True) -> list[Any]:
    n, m, k = (d.pick((0, 1, 2, 3)) for _ in range(3))
    lead = (d.pick((1, 2)),) if batched and d.chance(0.3) else ()
    a = d.array(shape=(n,) if d.chance(0.3) else (*lead, m, n))
    n += d.chance(0.05)
    return [a, d.array(shape=(n,) if d.chance(0.3) else (*(lead if d.chance(0.7) else ()), n, k))]


form(_np("matmul dot"), _product)
form(_np("dot"), lambda d: [d.array(ndim=0), d.array()])
form(_np("inner"), lambda d: [a := d.array(), d.array(shape=np.shape(a))])
form(_np("outer"), lambda d: [d.array(), d.array()])
form(_np("kron"), lambda d: [d.array(ndim=d.int(0, 2)), d.array(ndim=d.int(0, 2))])
form(_np("vdot"), lambda d: [a := d.array(), d.array(shape=np.shape(a))])
form(_np("vecdot"), two())
form(_np("matvec"), lambda d: [a := d.array(ndim=2), d.array(shape=a.shape[1:])])
form(_np("vecmat"), lambda d: [a := d.array(ndim=1), d.array(shape=(np.shape(a)[0], 2))])
form(
    _np("tensordot"),
    lambda d: [d.array(shape=(2, 3)), d.array(shape=(3, 2))],
    axes=lambda d: d.of(0, 1, ([0], [1]), ([1, 0], [0, 1]), (1, 0)),
)
form(
    _np("cross"),
    lambda d: [a := d.array(shape=(*d.shape(d.int(0, 1)), 3)), d.array(shape=a.shape if d.chance(0.5) else (3,))],
    axisa=lambda d: Text(-1),
    axisb=lambda d: Text(-1),
    axisc=lambda d: Text(-1),
    axis=lambda d: Text(-1),
)
form(
    _np("einsum"),
    lambda d: [
        Text(d.pick(("'ij,jk->ik'", "'ij,jk'", "'ij,jk->'", "'ij,jk->ki'"))),
        a := d.array(ndim=2),
        d.array(shape=(a.shape[1], 2)),
    ],
    optimize=_boolean,
)
form(
    _np("einsum"),
    lambda d: [
        Text(d.pick(("'ii'", "'ii->i'", "'ij->ji'", "'ij->'", "'...j->...'"))),
        d.array(shape=(n := d.int(0, 3), n)),
    ],
    optimize=_boolean,
)
form(
    _np("convolve correlate"),
    lambda d: [d.vector(special=False), d.vector(special=False)],
    mode=lambda d: d.of("full", "same", "valid"),
)
form(_np("polyval"), lambda d: [d.filled(NUMBERS, 1), d.array(NUMBERS)])
form(_np("polyadd polysub"), lambda d: [d.filled(NUMBERS, 1), d.filled(NUMBERS, 1)])
form(_np("polyder polyint"), lambda d: [d.filled(NUMBERS, 1)], m=lambda d: d.of(0, 1, 2), k=lambda d: d.number(0, 1.5))
form(
    _np("polyfit"),
    lambda d: [d.array("D", shape=(6,), special=False), d.array("D", shape=(6,), special=False), d.of(0, 1, 2)],
    rcond=lambda d: Text("None"),
    full=lambda d: Text("False"),
    cov=lambda d: Text("False"),
    w=lambda d: d.values("float64", (6,), low=0.5),
)
form(_np("polymul"), lambda d: [d.filled(NUMBERS, 1, special=False), d.filled(NUMBERS, 1, special=False)])


def _divided(d: Draw, leading: int) -> list[Any]:
    """Series that are divided without rounding: what rounding leaves in the place of no remainder, nobody promises."""
    a, b = (np.array(d.filled(NUMBERS, 1, special=False)) for _ in range(2))
    a, b = (np.round(x * 2) / 2 if x.dtype.kind in "fc" else x for x in (a, b))
    b[leading] = 2
    return [d.laid_out(a), d.laid_out(b)]


form(_np("polydiv"), lambda d: _divided(d, 0))


def _series(d: Draw) -> Any:
    return d.filled(NUMBERS, 1, special=False)


_POWER = "np.polynomial.polynomial"
_VALUES = " ".join(
    ["polynomial.polyval", "chebyshev.chebval", "legendre.legval", "hermite.hermval", "hermite_e.hermeval"]
    + ["laguerre.lagval"]
)
form(_prefixed("np.polynomial", _VALUES), lambda d: [d.array(NUMBERS, special=False), _series(d)], tensor=_boolean)
form(_prefixed("np.polynomial", _VALUES), lambda d: [d.array(NUMBERS, d.int(0, 1)), d.filled(NUMBERS, 2)])
form(
    _prefixed("np.polynomial", _VALUES.replace("val", "vander")),
    lambda d: [d.array(NUMBERS, special=False), d.number(0, 1, 2, 4, -1)],
)
form(_prefixed(_POWER, "polyadd polysub polymul"), lambda d: [_series(d), _series(d)])
form(_prefixed(_POWER, "polydiv"), lambda d: _divided(d, -1))
form("np.polynomial.chebyshev.chebadd np.polynomial.chebyshev.chebsub", lambda d: [_series(d), _series(d)])
form("np.polynomial.legendre.legadd np.polynomial.legendre.legsub", lambda d: [_series(d), _series(d)])
form(_prefixed(_POWER, "polymulx polycompanion"), lambda d: [_series(d)])
form(_prefixed(_POWER, "polyfromroots"), lambda d: [d.filled("iFC", 1, special=False)])
form(_prefixed(_POWER, "polypow"), lambda d: [_series(d), d.of(0, 1, 2, 3)], maxpower=lambda d: d.of(None, 3))
form(_prefixed(_POWER, "polyline"), lambda d: [d.number(1, 2.5), d.of(0, 2, 0.5)])
form(
    _prefixed(_POWER, "polyder polyint"),
    lambda d: [d.filled(NUMBERS, special=False)],
    m=lambda d: d.of(0, 1, 2),
    k=lambda d: d.of(0, [1.5], 2),
    scl=lambda d: d.number(1, 0.5),
    lbnd=lambda d: d.number(0, 1.5),
    axis=Draw.axis,
)
form(_prefixed(_POWER, "polyvalfromroots"), lambda d: [d.array(NUMBERS), _series(d)], tensor=_boolean)


def _several(count: int, same: bool) -> Form:
    def make(d: Draw) -> Any:
        shape = d.shape(d.int(0, 2 if same else 1))
        return [*(d.array(NUMBERS, shape=shape) for _ in range(count)), d.filled(NUMBERS, count)]

    return make


form(f"{_POWER}.polyval2d np.polynomial.chebyshev.chebval2d np.polynomial.legendre.legval2d", _several(2, True))
form(f"{_POWER}.polyval3d", _several(3, True))
form(f"{_POWER}.polygrid2d", _several(2, False))
form(f"{_POWER}.polygrid3d", _several(3, False))
form(_prefixed("np.polynomial.chebyshev", "chebpts1 chebpts2"), lambda d: [ints(d, 0, 5)])
form(_np("roots poly"), lambda d: [d.array("iFC", shape=(4,), special=False)])
form(_np("poly"), lambda d: [d.filled(NUMBERS, 1, special=False)])
form(f"{_POWER}.polyroots", lambda d: [_series(d)])
form(_np("real_if_close"), lambda d: [d.array(NUMBERS, 1)], tol=lambda d: d.of(10, 0.5))
form(_prefixed("np.emath", "sqrt log log2 log10 arccos arcsin arctanh"), one(NUMBERS))
form("np.emath.power", lambda d: [d.array("iFC", special=False), d.number(2, 0.5, -1)])
form("np.emath.logn", lambda d: [d.number(2, 3.0), d.array("iFC")])

# linear algebra
form(_linalg("inv det slogdet"), lambda d: [d.square("bi" + LAPACK)])
form(_linalg("matrix_power"), lambda d: [d.square("i" + LAPACK), d.of(0, 1, 2, 3, 5, -1, -2)])
form(
    _linalg("solve"),
    lambda d: [
        a := d.square("i" + LAPACK),
        d.array("i" + LAPACK, shape=(a.shape[-1],) if d.chance(0.5) else (a.shape[-1], 2), special=False),
    ],
)
form(_linalg("cholesky"), lambda d: [(a := d.square(LAPACK)) @ np.conj(np.swapaxes(a, -1, -2))])
form(_linalg("eigh eigvalsh"), lambda d: [d.hermitian()])
form(_linalg("eig eigvals"), lambda d: [d.square(LAPACK)])
form(_linalg("svd"), lambda d: [d.matrix()], full_matrices=_boolean, compute_uv=_boolean)
form(
    _linalg("svdvals matrix_rank pinv"),
    lambda d: [d.matrix()],
    tol=lambda d: Text("None"),
    rtol=lambda d: Text("1e-3"),
    rcond=lambda d: Text("1e-3"),
)
form(_linalg("qr"), lambda d: [d.matrix()], mode=lambda d: d.of("reduced", "complete", "r"))
form(
    _linalg("lstsq"),
    lambda d: [
        a := d.matrix(),
        d.array(LAPACK, shape=(a.shape[0],) if d.chance(0.5) else (a.shape[0], 2), special=False),
    ],
    rcond=lambda d: Text("None"),
)
ORDERS = (None, 1, 2, np.inf, -np.inf, -1, 0, 3, 0.5)
form(_linalg("norm"), lambda d: [d.array(NUMBERS)], axis=lambda d: d.axes(), ord=lambda d: Text("None"))
form(
    _linalg("norm"),
    lambda d: [d.vector(NUMBERS)],
    ord=lambda d: Text(repr(d.pick(ORDERS)).replace("inf", "np.inf")),
    axis=lambda d: Text("None"),
)
form(
    _linalg("norm"),
    lambda d: [d.matrix(), Text(d.pick(("'fro'", "1", "-1", "2", "-2", "np.inf", "-np.inf", "'nuc'")))],
    axis=lambda d: Text("None"),
)
form(_linalg("matrix_norm"), lambda d: [d.matrix()], ord=lambda d: Text(d.pick(("'fro'", "1", "2", "np.inf", "'nuc'"))))
form(
    _linalg("vector_norm"),
    lambda d: [d.array(NUMBERS)],
    axis=lambda d: d.axes(),
    ord=lambda d: Text(d.pick(("1", "2", "np.inf", "0", "3"))),
)
form(_linalg("cond"), lambda d: [d.square()], p=lambda d: Text(d.pick(("None", "1", "2", "-2", "np.inf", "'fro'"))))
form(
    _linalg("multi_dot"),
    lambda d: [[d.array(LAPACK, shape=(2, 3)), d.array(LAPACK, shape=(3, 1)), d.array(LAPACK, shape=(1, 4))]],
)
form(
    _linalg("tensorsolve"),
    lambda d: [d.array("F", shape=(2, 3, 6), special=False), d.array("F", shape=(2, 3), special=False)],
    axes=lambda d: Text("None"),
)
form(_linalg("tensorinv"), lambda d: [d.array("F", shape=(2, 3, 6), special=False)], ind=lambda d: Text(2))
form(
    _linalg("cross"),
    lambda d: [a := d.array(shape=(*d.shape(d.int(0, 1)), 3)), d.array(shape=a.shape)],
    axis=lambda d: Text(-1),
)
form(_linalg("outer"), lambda d: [d.vector(), d.vector()])
form(_linalg("trace diagonal matrix_transpose"), lambda d: [d.array(ndim=d.int(2, 3))])
form(_linalg("vecdot"), two())
form(_linalg("matmul"), _product)
form(
    _linalg("tensordot"),
    lambda d: [d.array(shape=(2, 3)), d.array(shape=(3, 2))],
    axes=lambda d: d.of(0, 1, ([0], [1]), (1, 0)),
)

# Fourier transforms
form(_fft("fft ifft rfft irfft hfft ihfft"), lambda d: [d.filled(special=False)], n=lambda d: d.of(1, 2, 5, 8))
form(
    _fft("fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn"),
    lambda d: [d.filled(ndim=d.int(2, 3), special=False)],
    s=lambda d: d.of(None, (2, 3)),
    axes=lambda d: d.of((0, 1), (-2, -1), (1, 0)),
)
form(_fft("fftfreq rfftfreq"), lambda d: [ints(d, 1, 6)], d=lambda d: d.number(1.0, 0.5))
form(_fft("fftshift ifftshift"), lambda d: [d.filled()], axes=lambda d: d.axes())

# dtypes
form(_np("result_type"), lambda d: [d.array(), d.array()])
RETURNS_DTYPE = ("np.result_type", "np.promote_types", "np.min_scalar_type", "np.common_type")
form(_np("min_scalar_type"), lambda d: [d.array(ndim=1) if d.chance(0.5) else d.of(3, 300, -2, 2.5, 70000)])
form(_np("common_type"), lambda d: [d.array(NUMBERS), d.array("if")])
form(_np("iterable"), lambda d: [d.pick((d.array(), [1, 2], Text("'ab'"), Text("None")))])
form(_np("promote_types can_cast"), lambda d: [_dtype_option(d), _dtype_option(d)])
form(
    _np("issubdtype"),
    lambda d: [_dtype_option(d), Text(d.pick(("np.floating", "np.integer", "np.complexfloating", "np.inexact")))],
)
form(
    _np("isdtype"),
    lambda d: [
        Text(f"np.dtype(np.{d.dtype().name})"),
        Text(d.pick(("'integral'", "'real floating'", "'numeric'", "'bool'"))),
    ],
)

# -- ufuncs ------------------------------------------------------------------------------------------------

_INTEGER_ONLY = ("gcd", "lcm", "left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor", "invert")


def _ufunc_kinds(ufunc: np.ufunc) -> str:
    """Kinds of operands that make sense for a ufunc, all of them now and then."""
    return "bi" if ufunc.__name__ in _INTEGER_ONLY else ANY


def _at(d: Draw, ufunc: np.ufunc, kinds: str) -> list[Any]:
    a = np.array(d.filled(kinds))
    index = d.pick((d.places(a.shape[0], (3,)), d.places(a.shape[0], (2, 2)), np.array(d.chance(0.5)), 0))
    if np.ndim(index) == 0 and np.asarray(index).dtype == bool:
        index = d.values("bool", a.shape)
    if ufunc.nin == 1:
        return [a, index]
    return [a, index, d.array(kinds, ndim=0) if d.chance(0.5) else a.dtype.type(2)]


def _reduceat(d: Draw, kinds: str) -> list[Any]:
    a = d.filled(kinds)
    places = d.values("int64", (d.int(0, 4),), special=False, low=-1 if d.chance(0.1) else 0, high=a.shape[0] - 1)
    return [a, places, Text("0")]


def _of_ufuncs() -> None:
    for f in functions():
        if isinstance(f, np.ufunc) and f.signature is None:
            kinds = _ufunc_kinds(f)
            form(f"np.{f.__name__}", one(kinds) if f.nin == 1 else two(kinds))
        owner = getattr(f, "__self__", None)
        if isinstance(owner, np.ufunc):
            name, kinds = f"np.{owner.__name__}.{f.__name__}", _ufunc_kinds(owner)
            if f.__name__ == "at":
                # in the dtype of the array: NumPy computes uint64 with a Python int in f64 here
                form(name, lambda d, owner=owner, kinds=kinds: _at(d, owner, kinds))
            elif f.__name__ == "reduceat":
                form(name, lambda d, kinds=kinds: _reduceat(d, kinds))
            elif f.__name__ == "outer":
                form(name, lambda d, kinds=kinds: [d.array(kinds), d.array(kinds)])
            else:
                form(name, lambda d, kinds=kinds: [d.filled(kinds)], **(AXES if f.__name__ == "reduce" else {}))


_of_ufuncs()

# -- methods of arrays that are no functions -----------------------------------------------------------------

form("ndarray.fill", lambda d: [np.array(d.array(ndim=d.int(1, 2))), d.number(2, 1)])
form("ndarray.tolist", lambda d: [d.array(ndim=d.int(0, 1))])
form("ndarray.flatten", one())
form("ndarray.item", lambda d: [d.array(shape=d.pick(((), (1,), (1, 1), (2,))))])
form("ndarray.item", lambda d: [d.filled(ndim=2), d.number(0, -1, 3, 30)])
form("ndarray.item", lambda d: [d.filled(ndim=2), d.number(0, -1), d.number(0, 1)])
form("ndarray.conj", one())
form("ndarray.view", lambda d: [d.array(), _dtype_option(d)], type=NEVER)
form(
    "np.frombuffer",
    lambda d: [np.array(d.array(ndim=d.int(1, 2)))],
    count=lambda d: d.number(-1, 2),
    offset=lambda d: d.number(0, 8, 3),
)
form(  # along two elements: of more the order is not promised
    "ndarray.partition",
    lambda d: [np.array(d.array(REAL, shape=(*d.shape(1), 2))), d.of(0, 1)],
    axis=lambda d: Text(-1),
)
form("ndarray.compress", lambda d: [d.filled(), d.vector("b")], **NONE_OR_AXIS)
