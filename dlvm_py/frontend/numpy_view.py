"""The memory of an array under another dtype, and how it lies: x.view(dtype), np.frombuffer, x.flags.

Pointers keep their dtype, so what NumPy has as a view is a copy here; writing to either where the other would show it
is refused, as after a reshape of memory that may not be contiguous (`keepView`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm_py.errors import TypeMismatch, UnknownFunction, UnsupportedSyntax
from dlvm_py.frontend.arrays import arrayed, materialise, require_array
from dlvm_py.frontend.elementwise import operand
from dlvm_py.frontend.emit import Emitter, i64
from dlvm_py.frontend.indexing import as_index
from dlvm_py.frontend.library import memory
from dlvm_py.frontend.numpy_create import as_dtype
from dlvm_py.frontend.numpy_shape import ravel
from dlvm_py.frontend.orders import Order, lies_in_columns, order_of
from dlvm_py.frontend.values import Array, Flags, Scalar, Static, Temp, is_none
from dlvm_py.ir import BOOL, Value, literal
from dlvm_py.ir.value import integer

_OTHER = "this array is a copy where NumPy shows the same memory under another dtype: writing to it is not supported"


def view(e: Emitter, a: Any, dtype: Any = None, type: Any = None) -> Any:  # noqa: A002 - NumPy's name
    """x.view(dtype): the same bits; between complex numbers and their parts derivatives flow."""
    if not is_none(type) and getattr(type, "value", None) is not np.ndarray:
        e.error(UnsupportedSyntax, "x.view gives arrays of no other class", help="x.view(dtype)")
    a = a if isinstance(a, (Array, Temp)) else operand(e, a, "view")
    if is_none(dtype) or getattr(dtype, "value", None) is np.ndarray or as_dtype(e, dtype) is a.dtype:
        return a.whole() if isinstance(a, Array) else a
    wanted = as_dtype(e, dtype)
    if wanted is BOOL:
        e.error(UnsupportedSyntax, "x.view of bools is not supported: other bytes than 0 and 1 are none", help="x != 0")
    resized = wanted.itemsize != a.dtype.itemsize
    if isinstance(a, Scalar) or not a.extents:
        if resized or a.dtype.is_complex or wanted.is_complex:
            e.error(
                TypeMismatch,
                "Changing the dtype of a 0d array is only supported if the itemsize is unchanged, and not to or from "
                "complex numbers",
                help="view an array of one element",
            )
    elif resized and isinstance(a, Array) and (a.type.layout != "C" or order_of(e, a) is not Order.ROWS):
        e.error(
            UnsupportedSyntax,
            "To change to a dtype of a different size, the last axis must be contiguous: of this one it is not known",
            help="view a copy: x.copy().view(dtype)",
        )
    found = e.session.library(e, memory.viewed, [a, Static(wanted.numpy)], {})
    return _marked(e, a, found if isinstance(a, Scalar) else arrayed(e, found))


def _marked(e: Emitter, a: Any, found: Any) -> Any:
    """Other elements that lie in the memory of `a`: writes that would show in the other one are refused."""
    if not isinstance(a, Array) or isinstance(found, Scalar):
        return found
    found = materialise(e, found)
    e.emit("keepView", a.pointer, found.pointer)
    return Array(found.pointer, found.extents, _OTHER)


def frombuffer(e: Emitter, buffer: Any, dtype: Any = None, count: Any = None, offset: Any = None) -> Any:
    """np.frombuffer of an array: its memory as one row of numbers of another dtype."""
    if not isinstance(buffer, (Array, Temp)):
        e.error(
            UnsupportedSyntax, "np.frombuffer needs an array here",
            help="make the array outside, and pass it as an argument",
        )  # fmt: skip
    a = require_array(e, buffer, "np.frombuffer")
    if isinstance(a, Array) and (a.type.layout != "C" or order_of(e, a) is not Order.ROWS):
        e.error(UnsupportedSyntax, "ndarray is not C-contiguous, or not known to be", help="np.frombuffer(x.copy())")
    wanted = as_dtype(e, Static(float) if is_none(dtype) else dtype)
    if wanted is BOOL and a.dtype is not BOOL:
        e.error(UnsupportedSyntax, "np.frombuffer of bools is not supported", help="x.view(np.uint8) != 0")
    flat = ravel(e, a)
    many = i64(-1) if count is None else as_index(e, count, "`count` of np.frombuffer")
    first = i64(0) if offset is None else as_index(e, offset, "`offset` of np.frombuffer")
    given = [flat, Static(wanted.numpy), Scalar(many, weak=True), Scalar(first, weak=True)]
    found = e.session.library(e, memory.from_buffer, given, {})
    known = integer(first)  # an array that may begin within an element is no view
    is_view = wanted is a.dtype and known is not None and known % wanted.itemsize == 0
    return found if is_view and isinstance(found, Array) else _marked(e, flat, found)


def flag(e: Emitter, flags: Flags, name: str) -> Scalar:
    """x.flags.name: how the array lies in memory."""
    c, f = (_lies(e, flags.array, order) for order in "CF")
    known = {
        "c_contiguous": c, "contiguous": c, "f_contiguous": f,
        "fnc": e.both(f, e.pure("not", c)), "forc": e.either(f, c), "farray": f, "carray": c,
    }  # fmt: skip
    if name not in known:
        e.error(
            UnknownFunction,
            f"the flag `{name}` of an array is not supported",
            help=f"there are {', '.join(known)}; read others outside, and set them there",
        )
    return Scalar(known[name], weak=True)


def _lies(e: Emitter, a: Any, order: str) -> Value:
    """Whether memory is contiguous in an order; where one extent at most is not 1, both are one order."""
    layout = a.type.layout if isinstance(a, Array) else "C"
    lies = order_of(e, a)
    if lies is Order.COLUMNS and isinstance(a, Array) and lies_in_columns(a, lies):
        layout = "F"
    elif lies is not (Order.COLUMNS if layout == "F" else Order.ROWS):
        layout = "S"
    if layout == "S":
        e.error(
            UnsupportedSyntax,
            "whether this array is contiguous is not known when it is compiled",
            help="np.ascontiguousarray(x) is, and copies nothing where x is known to be",
        )
    if layout == order or isinstance(a, Scalar) or a.rank < 2:
        return literal(True)
    longer: Value = i64(0)
    empty: Value = literal(False)
    for n in a.extents:
        longer = e.add(longer, e.choose(e.compare("equal", n, i64(1)), i64(0), i64(1)))
        empty = e.either(empty, e.compare("equal", n, i64(0)))
    return e.either(empty, e.compare("lessThan", longer, i64(2)))


VIEW: dict[Any, Any] = {np.frombuffer: frombuffer}
VIEW_METHODS: dict[str, Any] = {"view": view}
