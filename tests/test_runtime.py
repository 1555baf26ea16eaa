"""Calls of compiled code: matching, boxing, ownership, errors, the callable type, loading, the disk cache.

Kernels are LLVM IR written here, by the calling convention of docs/architecture.md. Every test of a call runs
with the native entry and with the one in Python.
"""

import contextlib
import functools
import gc
import inspect
import multiprocessing
import os
import pickle
import resource
import sys
import threading
import time
import timeit
import traceback
import types
import weakref

import numpy as np
import pytest
from signals import interrupted

from dlvm_py.backend.cpu.compile import compile_module
from dlvm_py.backend.cpu.contract import flat_types
from dlvm_py.backend.cpu.function import Site
from dlvm_py.backend.imports import Imports
from dlvm_py.errors import ArgumentError, Loc, TypeMismatch
from dlvm_py.ir.interface import ArraySpec, ConstantSpec, ScalarSpec, TupleSpec
from dlvm_py.ir.types import DTYPES
from dlvm_py.runtime import cache, loader, python_entry, signature
from dlvm_py.runtime.native import callable as native
from dlvm_py.runtime.native import offsets
from dlvm_py.runtime.native.entry import compiled_entry, exported
from dlvm_py.runtime.native.offsets import MISSING
from dlvm_py.runtime.version import (
    CallSpec,
    Captured,
    Guard,
    Source,
    Version,
    site_error,
    sites_from_json,
    sites_to_json,
)

VECTOR = ArraySpec("f64", (False,))
MATRIX = ArraySpec("f64", (False, False))
FLOAT, INT, FLAG = ScalarSpec("f64", True), ScalarSpec("i64", True), ScalarSpec("bool", True)


class NoVersion(Exception):
    """What the fallback of a test's callable raises."""


def fallback(*args, **kwargs):
    raise NoVersion


@pytest.fixture(params=["native", "python"])
def make(request):
    """A function that makes a callable with the entry that the test runs with."""
    if request.param == "native" and offsets.mismatch():
        pytest.skip(offsets.mismatch())
    new = native._native().create if request.param == "native" else native.PythonFunction

    def build(call, body, sites=(), **options):
        function = new(options.pop("fallback", fallback))
        native.add_version(function, compiled(call, body, sites, **options))
        return function

    build.is_native = request.param == "native"
    return build


def compiled(call, body, sites=(), name="f"):
    """The version of a kernel whose text after `start:` is `body`."""
    imports = Imports()
    types = [f"{t} %p{k}" for k, t in enumerate(t for leaf in call.leaves for t in flat_types(leaf.ir_type()))]
    text = KERNEL.format(parameters=", ".join(["ptr %ctx", *types, "ptr %results"]), body=body)
    done = image_of(text, imports)
    return Version.load(call, compiled_entry(call), done.object, imports.names, sites, name, done.shared)


def image_of(kernel, imports):
    """The object file; the two entries of a test share it."""
    if kernel not in _images:
        _images[kernel] = compile_module([exported(kernel, "dl.f")], imports, ("dl.f",)), list(imports.names)
    done, imports.names[:] = _images[kernel]
    return done


_images = {}


KERNEL = """
declare ptr @dlvm.allocate(ptr, i64)
declare i32 @dlvm.poll(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define internal void @put(ptr %results, i64 %at, i64 %value) {{
  %p = getelementptr i8, ptr %results, i64 %at
  store i64 %value, ptr %p
  ret void
}}
define internal void @put.ptr(ptr %results, i64 %at, ptr %value) {{
  %p = getelementptr i8, ptr %results, i64 %at
  store ptr %value, ptr %p
  ret void
}}
define i32 @"dl.f"({parameters}) {{
start:
{body}
}}
"""

# p0 p1 p2: data, header, extent of a; p3 p4 p5: of b
ADD = """
  %bytes = mul i64 %p2, 8
  %h = call ptr @dlvm.allocate(ptr %ctx, i64 %bytes)
  %dp = getelementptr i8, ptr %h, i64 8
  %d = load ptr, ptr %dp
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %i1, %body ]
  %e = icmp eq i64 %i, %p2
  br i1 %e, label %done, label %body
body:
  %pa = getelementptr double, ptr %p0, i64 %i
  %pb = getelementptr double, ptr %p3, i64 %i
  %pd = getelementptr double, ptr %d, i64 %i
  %x = load double, ptr %pa
  %y = load double, ptr %pb
  %z = fadd double %x, %y
  store double %z, ptr %pd
  %i1 = add i64 %i, 1
  br label %loop
done:
  call void @put.ptr(ptr %results, i64 0, ptr %d)
  call void @put.ptr(ptr %results, i64 8, ptr %h)
  call void @put(ptr %results, i64 16, i64 %p2)
  ret i32 0
"""
ADD_CALL = CallSpec((VECTOR, VECTOR), ("a", "b"), VECTOR)
ACCEPT = "  ret i32 0"  # for functions that give None


def takes(make, *specs, **options):
    """A callable that gives None for the arguments that match."""
    names = tuple("abcdefgh"[: len(specs)])
    return make(CallSpec(specs, names, ConstantSpec(None), **options), ACCEPT)


def accepts(function, *args, **kwargs):
    try:
        assert function(*args, **kwargs) is None
        return True
    except NoVersion:
        return False


# -- matching ------------------------------------------------------------------------------------------


def test_add(make):
    """Two arrays give a new one that owns its data and can be resized."""
    f = make(ADD_CALL, ADD)
    r = f(np.arange(4.0), np.ones(4))
    assert type(r) is np.ndarray and r.tolist() == [1, 2, 3, 4]
    assert r.flags.owndata and r.flags.writeable and r.flags.aligned and r.base is None
    r.resize(6, refcheck=False)
    assert r.tolist() == [1, 2, 3, 4, 0, 0]
    assert f(np.zeros(0), np.zeros(0)).shape == (0,)


def test_binding(make):
    """Keywords, defaults, positional-only and keyword-only parameters bind as in Python; the rest is left alone."""
    f = make(ADD_CALL, ADD)
    a, b = np.arange(4.0), np.ones(4)
    for good in (f(a, b=b), f(b=b, a=a), f(*[a], **{"b": b})):
        assert good.tolist() == [1, 2, 3, 4]
    for args, kwargs in [((a,), {}), ((a, b, a), {}), ((a, b), {"b": b}), ((a,), {"c": b}), ((), {}), ((a,), {"a": b})]:
        with pytest.raises(NoVersion):
            f(*args, **kwargs)
    g = takes(make, FLOAT, INT, FLAG, defaults={"b": 3}, positional_only=1, keyword_only=1)
    assert accepts(g, 1.0, c=True) and accepts(g, 1.0, 2, c=False) and accepts(g, 1.0, b=2, c=False)
    assert not any([accepts(g, 1.0, 2, True), accepts(g, a=1.0, c=True), accepts(g, 1.0)])
    assert not accepts(g, 1.0, c=1), "an int is no bool"
    assert accepts(takes(make))


def test_scalars_by_type(make):
    """Each scalar spec takes its exact type, and ints that fit in 64 bits."""
    f = takes(make, FLOAT)
    assert accepts(f, 1.5)
    assert not any(accepts(f, x) for x in (1, True, np.float32(1), np.float64(1), None, "x", [1.0], 1j))
    f = takes(make, INT)
    assert all(accepts(f, x) for x in (0, -1, 2**63 - 1, -(2**63), 10**18))
    assert not any(accepts(f, x) for x in (2**63, -(2**63) - 1, True, np.int64(1), 1.0))
    assert accepts(takes(make, FLAG), False) and not accepts(takes(make, FLAG), 0)
    f = takes(make, ScalarSpec("i64", False))
    assert accepts(f, np.int64(3)) and not any(accepts(f, x) for x in (3, np.int32(3), np.uint64(3)))


def test_scalars_round_trip(make):
    """Every scalar type goes in and comes out with the same value and class."""
    specs, values, body, at = [], [], [], 0
    for dtype in DTYPES.values():
        value = dtype.numpy.type(-1.5 + 0.5j if dtype.is_complex else -1.5 if dtype.is_float else 1)
        values.append(value)
        specs.append(ScalarSpec(dtype.name, False))
    specs += [FLOAT, INT, FLAG, ScalarSpec("c128", True)]
    values += [2.5, -7, True, 1 - 2j]
    for k, spec in enumerate(specs):
        (type_,) = flat_types(spec.ir_type())
        dtype = DTYPES[spec.dtype]
        at += -at % dtype.real.itemsize
        body += [f"  %at{k} = getelementptr i8, ptr %results, i64 {at}", f"  store {type_} %p{k}, ptr %at{k}, align 1"]
        at += dtype.itemsize
    names = tuple(f"p{k}" for k in range(len(specs)))
    f = make(CallSpec(tuple(specs), names, TupleSpec(tuple(specs))), "\n".join([*body, "  ret i32 0"]))
    found = f(*values)
    assert [type(x) for x in found] == [type(x) for x in values]
    assert all(a == b for a, b in zip(found, values, strict=True))


def test_arrays_by_type(make):
    """Exact ndarrays of the dtype and rank; the other name of an integer type and unpickled arrays count too."""
    f = takes(make, VECTOR)
    unpickled = pickle.loads(pickle.dumps(np.zeros(3)))
    assert accepts(f, np.zeros(3)) and accepts(f, unpickled) and accepts(f, np.zeros(0))
    wrong = [np.zeros(3, "f4"), np.zeros((3, 3)), np.zeros(()), np.zeros(3, ">f8"), np.ma.zeros(3), [1.0, 2.0], 1.0]
    assert not any(accepts(f, x) for x in wrong)
    assert not accepts(f, np.frombuffer(bytes(33), "f8", 3, 1)), "not aligned"
    f = takes(make, ArraySpec("i64", (False,)))
    assert accepts(f, np.zeros(2, "q")) and accepts(f, np.zeros(2, "l")) and not accepts(f, np.zeros(2, "Q"))
    assert accepts(takes(make, ArraySpec("f64", ())), np.zeros(()))


def test_layouts_and_ones(make):
    """Contiguity and which extents are 1 are part of the type; an array in both orders counts as C."""
    samples = {
        "C": np.zeros((3, 4)),
        "F": np.zeros((3, 4), order="F"),
        "S": np.zeros((6, 8))[::2, ::2],
    }
    for layout in samples:
        f = takes(make, ArraySpec("f64", (False, False), layout))
        assert [name for name, x in samples.items() if accepts(f, x)] == [layout]
    f = takes(make, ArraySpec("f64", (True, False)))
    assert accepts(f, np.zeros((1, 4))) and accepts(f, np.zeros((1, 4), order="F"))
    assert not accepts(f, np.zeros((4, 1))) and not accepts(f, np.zeros((1, 1))) and not accepts(f, np.zeros((4, 4)))
    assert accepts(takes(make, ArraySpec("f64", (False,), "S")), np.zeros(9)[::-2])


def test_tuples_and_constants(make):
    """Tuples match by shape; constants by identity, or by value if they are strings or numbers."""
    f = takes(make, TupleSpec((FLOAT, TupleSpec((VECTOR,)))), ConstantSpec(None), ConstantSpec("mode"))
    text = "".join(["mo", "de"])
    assert accepts(f, (1.0, (np.zeros(3),)), None, "mode") and accepts(f, (1.0, (np.zeros(3),)), None, text)
    pair = types.SimpleNamespace
    bad = [(1.0, (np.zeros(3), 1)), [1.0, (np.zeros(3),)], (1.0,), (1.0, np.zeros(3)), pair]
    assert not any(accepts(f, x, None, "mode") for x in bad)
    assert not accepts(f, (1.0, (np.zeros(3),)), 0, "mode") and not accepts(f, (1.0, (np.zeros(3),)), None, "other")


def test_written_arrays(make):
    """A written array is writeable and shares no byte with another one, unless compiled for that."""
    f = takes(make, VECTOR, VECTOR, written=(0,))
    a = np.zeros(10)
    assert accepts(f, a[:5], a[5:]) and accepts(f, a, np.zeros(3))
    assert not accepts(f, a, a) and not accepts(f, a[:6], a[5:])
    assert accepts(f, a[:0], a), "no element, no overlap"
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    assert accepts(f, a, frozen)
    with pytest.raises(NoVersion if make.is_native else ValueError):
        f(frozen, a)
    strided = ArraySpec("f64", (False,), "S")
    g = takes(make, strided, VECTOR, written=(1,))
    assert not accepts(g, a[8:2:-2], a[3:5]) and accepts(g, a[8:2:-2], a[:3])
    assert accepts(takes(make, VECTOR, VECTOR, written=(0,), may_alias=True), a, a)


# -- captured values -----------------------------------------------------------------------------------


def test_captured_arrays(make):
    """A captured array is read at each call, from a dict, a cell or an attribute."""
    scope, name = {"w": np.ones(3)}, "w"
    cell = types.CellType(np.full(3, 2.0))
    holder = types.SimpleNamespace(w=np.full(3, 3.0))
    for source, change in [
        (Source(scope, name), lambda x: scope.__setitem__("w", x)),
        (Source(cell, name), lambda x: setattr(cell, "cell_contents", x)),
        (Source(holder, name), lambda x: setattr(holder, "w", x)),
    ]:
        f = make(CallSpec((VECTOR,), ("a",), VECTOR, captured=(Captured(source, VECTOR),)), ADD)
        before = source.read()[0]
        assert f(np.arange(3.0)).tolist() == [before, before + 1, before + 2]
        source.read()[0] = 9.0
        assert f(np.zeros(3))[0] == 9.0
        change(np.full(4, 5.0))
        assert f(np.zeros(4)).tolist() == [5.0] * 4
        old = source.read()
        count = sys.getrefcount(old)
        for _ in range(100):
            f(np.zeros(4))
        assert sys.getrefcount(old) == count
        other = object()
        change(other)
        with pytest.raises(NoVersion):
            f(np.zeros(4))
        count = sys.getrefcount(other)
        for _ in range(100):
            with pytest.raises(NoVersion):
                f(np.zeros(4))
        assert sys.getrefcount(other) == count
    del scope["w"], holder.w, cell.cell_contents
    assert all(s.read() is MISSING for s in (Source(scope, "w"), Source(cell, "w"), Source(holder, "w")))


def test_guards(make):
    """A version holds while what it captured has its value: by identity, or by value and type for numbers."""
    scope = {"n": 3, "x": 0.0, "s": "text", "f": len}
    guards = tuple(Guard(Source(scope, name), value) for name, value in scope.items())
    f = takes(make, guards=(*guards, Guard(Source(scope, "len"), MISSING)))
    assert accepts(f)
    for name, equal, other in [
        ("n", int("3"), 4), ("n", 3, 3.0), ("n", 3, True), ("x", float("0"), -0.0), ("s", "".join("text"), "t"),
        ("f", len, max),
    ]:  # fmt: skip
        old = scope[name]
        scope[name] = equal
        assert accepts(f)
        scope[name] = other
        assert not accepts(f)
        scope[name] = old
    scope["len"] = len
    assert not accepts(f), "a global hides the builtin"
    del scope["len"], scope["n"]
    assert not accepts(f)


# -- results -------------------------------------------------------------------------------------------

# gives (a, a[1:], a), p2 being the extent
SAME_AND_VIEW = """
  %rest = getelementptr double, ptr %p0, i64 1
  %less = sub i64 %p2, 1
  call void @put.ptr(ptr %results, i64 0, ptr %p0)
  call void @put.ptr(ptr %results, i64 8, ptr %p1)
  call void @put(ptr %results, i64 16, i64 %p2)
  call void @put.ptr(ptr %results, i64 24, ptr %rest)
  call void @put.ptr(ptr %results, i64 32, ptr %p1)
  call void @put(ptr %results, i64 40, i64 %less)
  call void @put.ptr(ptr %results, i64 48, ptr %p0)
  call void @put.ptr(ptr %results, i64 56, ptr %p1)
  call void @put(ptr %results, i64 64, i64 %p2)
  ret i32 0
"""


def test_argument_returned(make):
    """An argument comes back as that very object, a part of it as a view that is as writeable as it is."""
    constant = object()
    result = TupleSpec((VECTOR, TupleSpec((VECTOR, ConstantSpec(constant))), VECTOR))
    f = make(CallSpec((VECTOR,), ("a",), result), SAME_AND_VIEW)
    a = np.arange(5.0)
    same, (view, captured), again = f(a)
    assert same is a and again is a and captured is constant
    assert view.base is a and view.tolist() == [1, 2, 3, 4] and view.flags.writeable and not view.flags.owndata
    view[0] = 10
    assert a[1] == 10
    a.flags.writeable = False
    assert not f(a)[1][0].flags.writeable
    before = sys.getrefcount(a), sys.getrefcount(constant)
    del same, view, again, captured
    for _ in range(1000):
        f(a)
    after = sys.getrefcount(a), sys.getrefcount(constant)
    assert (before[0] - after[0], before[1] - after[1]) == (3, 1)


# the allocation of n elements, twice, and its elements from the second on
FRESH_PARTS = """
  %bytes = mul i64 %p0, 8
  %h = call ptr @dlvm.allocate(ptr %ctx, i64 %bytes)
  %dp = getelementptr i8, ptr %h, i64 8
  %d = load ptr, ptr %dp
  store double 1.0, ptr %d
  %second = getelementptr double, ptr %d, i64 1
  store double 2.0, ptr %second
  %less = sub i64 %p0, 1
  %first = getelementptr i8, ptr %results, i64 {first}
  call void @put.ptr(ptr %first, i64 0, ptr %d)
  call void @put.ptr(ptr %first, i64 8, ptr %h)
  call void @put(ptr %first, i64 16, i64 %p0)
  call void @put.ptr(ptr %results, i64 24, ptr %d)
  call void @put.ptr(ptr %results, i64 32, ptr %h)
  call void @put(ptr %results, i64 40, i64 %p0)
  %part = getelementptr i8, ptr %results, i64 {part}
  call void @put.ptr(ptr %part, i64 0, ptr %second)
  call void @put.ptr(ptr %part, i64 8, ptr %h)
  call void @put(ptr %part, i64 16, i64 %less)
  ret i32 0
"""


@pytest.mark.parametrize("part_first", [False, True])
def test_fresh_returned_twice(make, part_first):
    """One allocation has one owner, however many results look into it, and lives as long as one of them."""
    first, part = (48, 0) if part_first else (0, 48)
    body = FRESH_PARTS.format(first=first, part=part)
    f = make(CallSpec((INT,), ("n",), TupleSpec((VECTOR, VECTOR, VECTOR))), body)
    results = f(20)
    whole, middle, tail = results[::-1] if part_first else results
    assert np.shares_memory(whole, middle) and np.shares_memory(whole, tail)
    assert whole.shape == (20,) and tail.shape == (19,) and whole[1] == tail[0] == 2.0
    if part_first:
        assert tail.base.dtype == np.uint8 and whole.base is tail.base
    else:
        assert middle is whole and tail.base is whole
    tail[0] = 5.0
    assert whole[1] == 5.0
    del results, whole, middle
    gc.collect()
    assert tail[0] == 5.0


TRANSPOSED = """
  %bytes = mul i64 %p0, 48
  %h = call ptr @dlvm.allocate(ptr %ctx, i64 %bytes)
  %dp = getelementptr i8, ptr %h, i64 8
  %d = load ptr, ptr %dp
  call void @put.ptr(ptr %results, i64 0, ptr %d)
  call void @put.ptr(ptr %results, i64 8, ptr %h)
  call void @put(ptr %results, i64 16, i64 6)
  call void @put(ptr %results, i64 24, i64 %p0)
  {strides}
  ret i32 0
"""
STRIDES = "call void @put(ptr %results, i64 32, i64 {})\n  call void @put(ptr %results, i64 40, i64 {})"


def test_result_layouts(make):
    """Results in Fortran order and with strides have the strides that the kernel says."""
    f = make(CallSpec((INT,), ("n",), ArraySpec("f64", (False, False), "F")), TRANSPOSED.format(strides=""))
    r = f(4)
    assert r.shape == (6, 4) and r.strides == (8, 48) and r.flags.f_contiguous and r.flags.owndata
    strided = ArraySpec("f64", (False, False), "S")
    f = make(CallSpec((INT,), ("n",), strided), TRANSPOSED.format(strides=STRIDES.format(32, 8)))
    r = f(4)
    assert r.strides == (32, 8) and r.flags.c_contiguous and r.flags.owndata
    f = make(CallSpec((INT,), ("n",), strided), TRANSPOSED.format(strides=STRIDES.format(0, 8)))
    r = f(4)
    assert r.strides == (0, 8) and not r.flags.owndata and r.base.nbytes == 192


def test_nothing_leaks(make):
    """Counts of references stay, and so does the size of the process, over many calls."""
    f = make(ADD_CALL, ADD)
    a, b, float64 = np.ones(50_000), np.ones(50_000), np.dtype(np.float64)
    f(a, b)
    before = [sys.getrefcount(x) for x in (a, b, f, float64, np.ndarray)]
    for _ in range(50):
        f(a, b)
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1000):
        f(a, b)
    assert before == [sys.getrefcount(x) for x in (a, b, f, float64, np.ndarray)]
    small = np.ones(3)
    for _ in range(10_000):
        f(small, small)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size < 20_000, "1000 arrays of 400 kB came and went"


# -- errors --------------------------------------------------------------------------------------------

HERE = Loc(__file__, 52, 4, 52, 9)
SITES = (
    Site("IndexError", "index {} is out of bounds for axis 0 with size {}", ("i64", "i64"), HERE),
    Site("ValueError", "{} is not good, nor {}", ("f64", "bool"), HERE),
    Site("LinAlgError", "singular {{matrix}}", (), None),
)
# leaves a megabyte behind and fails at the site that is asked for
FAIL = """
  %h = call ptr @dlvm.allocate(ptr %ctx, i64 1048576)
  %dp = getelementptr i8, ptr %h, i64 8
  %d = load ptr, ptr %dp
  call void @llvm.memset.p0.i64(ptr %d, i8 1, i64 1048576, i1 false)
  %site = trunc i64 %p0 to i32
  %at = getelementptr i8, ptr %ctx, i64 24
  store i32 %site, ptr %at
  call void @put(ptr %ctx, i64 32, i64 %p1)
  call void @put(ptr %ctx, i64 40, i64 1)
  ret i32 1
"""


def test_errors(make):
    """A failing kernel raises what its site says, at the line of the site, and leaves no memory behind."""
    f = make(CallSpec((INT, INT), ("site", "value"), FLOAT), FAIL, SITES, name="user_function")
    with pytest.raises(IndexError) as info:
        f(0, -5)
    assert str(info.value) == "index -5 is out of bounds for axis 0 with size 1"
    last = traceback.extract_tb(info.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.name) == (__file__, 52, "user_function")
    assert info.value.__notes__ == [f"in compiled code of user_function, {__file__}:52"]
    bits = int(np.float64(2.5).view(np.int64))
    with pytest.raises(ValueError, match="^2.5 is not good, nor True"):
        f(1, bits)
    with pytest.raises(np.linalg.LinAlgError):
        f(2, 0)
    with pytest.raises(MemoryError):
        f(-2, 0)
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(300):
        with pytest.raises(IndexError):
            f(0, 1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size < 50_000, "300 times a megabyte"


def test_error_is_no_cycle(make):
    """An exception is gone with its last reference, traceback and all."""
    f = make(CallSpec((INT, INT), ("site", "value"), FLOAT), FAIL, SITES)
    while gc.collect():  # what earlier tests left: finalisers make new garbage
        pass
    gc.disable()
    try:
        for _ in range(50):
            site_error(SITES, "f", 0, 1, 2)
            with contextlib.suppress(IndexError):
                f(0, 1)
        assert gc.collect() < 50, "nothing was left to the collector"
    finally:
        gc.enable()


def test_sites_as_json():
    """The site table survives JSON."""
    assert sites_from_json(sites_to_json(SITES)) == SITES


ENDLESS = """
  br label %loop
loop:
  %stop = call i32 @dlvm.poll(ptr %ctx)
  %go = icmp eq i32 %stop, 0
  br i1 %go, label %loop, label %leave
leave:
  ret i32 1
"""


def test_interrupt(make):
    """A signal handler's exception ends compiled code that runs in the main thread."""
    f = make(CallSpec((), (), ConstantSpec(None)), ENDLESS)
    with interrupted():
        f()


# -- the callable --------------------------------------------------------------------------------------


def test_fallback_gets_the_call(make):
    """What no version takes goes to the fallback as it was given, and its result and exceptions come back."""
    f = make(ADD_CALL, ADD, fallback=lambda *args, **kwargs: (args, kwargs))
    assert f(1, 2, x=3) == ((1, 2), {"x": 3})
    native.clear_versions(f)
    assert native.versions(f) == () and f(b=np.ones(1))[0] == ()
    native.add_version(f, compiled(CallSpec((INT,), ("n",), ConstantSpec(None)), ACCEPT))
    native.add_version(f, compiled(ADD_CALL, ADD))
    assert [len(v.call.args) for v in native.versions(f)] == [2, 1]
    assert f(5) is None and f(np.ones(2), np.ones(2)).tolist() == [2, 2]


def test_callable_as_python_function(make):
    """update_wrapper, methods, class methods, weak references, attributes."""

    def original(self, x: float = 1.0):
        """Doc."""

    f = make(CallSpec((ConstantSpec(None), INT), ("self", "n"), ConstantSpec(None)), ACCEPT, fallback=lambda *a: a)
    functools.update_wrapper(f, original)
    assert (f.__name__, f.__doc__, f.__wrapped__) == ("original", "Doc.", original)
    assert inspect.signature(f) == inspect.signature(original)
    A = type("A", (), {"m": f, "c": classmethod(f)})
    a = A()
    assert A.m is f and a.m(3) == (a, 3) and a.m.__self__ is a and A.c(3) == (A, 3) and A.m(a, 4) == (a, 4)
    assert weakref.ref(f)() is f and callable(f) and hash(f) == hash(f)
    f.extra = 1
    assert vars(f)["extra"] == 1
    assert isinstance(f, native._native().type if make.is_native else native.PythonFunction)
    assert type(f).__name__ == "Function" and type(f).__module__ == "dlvm_py"


def test_type_takes_members():
    """The layer above gives the type its methods; instances come from the factory only."""
    kind = native.function_type()
    kind.greet = lambda self: "hello"
    try:
        assert native.make(fallback).greet() == "hello"
        if kind is not native.PythonFunction:
            with pytest.raises(TypeError):
                kind()
            with pytest.raises(TypeError):
                native.add_version(len, None)
    finally:
        del kind.greet


def test_collected(make):
    """A callable in a cycle is collected, and its code with it; code lives while a call runs in it."""
    f = make(ADD_CALL, ADD)
    code = weakref.ref(native.versions(f)[0].code)
    f.itself = f
    alive = weakref.ref(f)
    del f
    gc.collect()
    assert alive() is None and code() is None


WAIT = """
  %sleep = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 0)
  %flag = inttoptr i64 %p0 to ptr
  %here = getelementptr i64, ptr %flag, i64 1
  store volatile i64 1, ptr %here
  br label %look
look:
  %turn = phi i64 [ 0, %start ], [ %next, %again ]
  %word = load volatile i64, ptr %flag
  %is.set = icmp ne i64 %word, 0
  %is.late = icmp eq i64 %turn, 20000
  %done = or i1 %is.set, %is.late
  br i1 %done, label %out, label %again
again:
  %r = call i32 %sleep(i32 1000)
  %next = add i64 %turn, 1
  br label %look
out:
  ret i32 0
"""


def waiter(make):
    """f(address): native code sets the second word there and waits, up to 20 seconds, until the first is set."""
    call = CallSpec((INT,), ("address",), ConstantSpec(None))
    imports = Imports()
    imports.index("c:usleep")
    text = "@dlvm.imports = external global [0 x ptr]\n" + KERNEL.format(
        parameters="ptr %ctx, i64 %p0, ptr %results", body=WAIT
    )
    f = make(call, ACCEPT)
    done = image_of(text, imports)
    native.add_version(f, Version.load(call, compiled_entry(call), done.object, imports.names, (), "f", done.shared))
    return f


def test_lock_is_released(make):
    """Other threads run while native code does, and the code outlives clear_versions."""
    f = waiter(make)
    code = weakref.ref(native.versions(f)[0].code)
    words = np.zeros(2, np.int64)
    finished = []
    thread = threading.Thread(target=lambda: finished.append(f(words.ctypes.data)))
    thread.start()
    while thread.is_alive() and not words[1]:
        time.sleep(0.001)
    native.clear_versions(f)
    gc.collect()
    assert not finished, "native code waits for what this thread does next"
    assert code() is not None
    words[0] = 1
    thread.join()
    assert finished == [None]
    gc.collect()
    assert code() is None


def test_threads(make):
    """Calls of many threads at once, while versions come and go."""
    version = compiled(ADD_CALL, ADD)
    f = make(ADD_CALL, ADD, fallback=lambda a, b: a + b)
    wrong = []

    def work(k):
        a = np.full(100, float(k))
        for _ in range(300):
            if f(a, a)[50] != 2 * k:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for _ in range(50):
        native.clear_versions(f)
        native.add_version(f, version)
    for t in threads:
        t.join()
    assert not wrong


def test_python_entry_takes_more():
    """Subclasses of numbers and equal constants, which the native entry leaves to the fallback, run in Python."""

    class Number(int):
        pass

    call = CallSpec((INT, ConstantSpec((1, 2.0))), ("n", "c"), ConstantSpec(None))
    version = compiled(call, ACCEPT)
    assert python_entry.call(version, (Number(3), (1, 2.0)), {}) == (True, None)
    assert python_entry.call(version, (3, (1, -2.0)), {}) == (False, None)
    assert python_entry.call(version, (3,), {}) == (False, None)
    assert python_entry.same_constant(float("nan"), float("nan")) and not python_entry.same_constant(0.0, -0.0)


def test_time_of_a_call(capsys):
    """Prints what a call costs beside NumPy and a C function."""
    if offsets.mismatch():
        pytest.skip(offsets.mismatch())
    f = native._native().create(fallback)
    native.add_version(f, compiled(ADD_CALL, ADD))
    a, b = np.ones(4), np.ones(4)
    scope = {"f": f, "a": a, "b": b, "add": np.add, "empty": np.empty, "len": len}

    def cost(code):
        return min(timeit.repeat(code, globals=scope, number=500, repeat=100)) / 500 * 1e9

    times = {code: cost(code) for code in ("f(a, b)", "f(a, b=b)", "add(a, b)", "empty(4)", "len(a)")}
    with capsys.disabled():
        print("\n  ns a call:", ", ".join(f"{code} {ns:.0f}" for code, ns in times.items()))
    assert times["f(a, b)"] < 5 * times["add(a, b)"]


# -- loading -------------------------------------------------------------------------------------------


def test_missing_imports():
    """What cannot be found is a LookupError, for every kind of name; what can be found is."""
    for name in ("c:no_such_function", "py:PyNothing", "blas:dnothing", "lapack:x", "obj:nothing", "strange:x", "x"):
        with pytest.raises(LookupError):
            loader.address_of(name, {})
    for name in ("c:malloc", "c:exp", "py:PyFloat_FromDouble", "np:94", "blas:dgemm", "lapack:dgesv", "obj:ndarray"):
        assert loader.address_of(name, {})
    with pytest.raises(LookupError):
        loader.load(b"not an object file", [], ["f"])


def test_offsets_hold():
    """On the platforms that are tested the layouts are as expected, so that the native entry is in use."""
    assert offsets.mismatch() is None
    assert native._python_only() == (os.environ.get("DLVM_ENTRY") == "python")


# -- the disk cache ------------------------------------------------------------------------------------


def test_cache_round_trip(tmp_path):
    """What is put is got, by another instance too."""
    store = cache.Cache(tmp_path / "new" / "folder")
    assert store.get("k") is None
    assert store.put("k", {"imports": ["c:exp"], "n": 1}, b"\x00object\n")
    assert cache.Cache(tmp_path / "new" / "folder").get("k") == ({"imports": ["c:exp"], "n": 1}, b"\x00object\n")
    assert [p.suffix for p in (tmp_path / "new" / "folder").iterdir()] == [".dlvm"]


def test_cache_damage(tmp_path):
    """Any byte changed, any end cut off, anything else in its place: a miss."""
    store = cache.Cache(tmp_path)
    store.put("k", {"a": [1]}, b"object file")
    path = tmp_path / "k.dlvm"
    good = path.read_bytes()
    for k in range(len(good)):
        path.write_bytes(good[:k] + bytes([good[k] ^ 1]) + good[k + 1 :])
        assert store.get("k") is None, k
        path.write_bytes(good[:k])
        assert store.get("k") is None, k
    path.write_bytes(good + b"x")
    assert store.get("k") is None
    path.write_bytes(good)
    assert store.get("k")
    path.chmod(0o666)
    assert store.get("k") is None, "others could have written it"
    path.chmod(0o600)
    path.rename(tmp_path / "other")
    path.symlink_to(tmp_path / "other")
    assert store.get("k") is None, "a link"
    path.unlink()
    path.mkdir()
    assert store.get("k") is None and store.put("k", {}, b"") is False
    os.mkfifo(tmp_path / "pipe.dlvm")
    assert store.get("pipe") is None
    (tmp_path / "file").write_text("")
    assert cache.Cache(tmp_path / "file").put("k", {}, b"") is False and cache.Cache(tmp_path / "file").get("k") is None


def test_cache_bound(tmp_path):
    """What was used longest ago goes first; forgotten temporaries go too."""
    store = cache.Cache(tmp_path, size_mib=1)
    (tmp_path / "old.tmp").write_bytes(b"x")
    os.utime(tmp_path / "old.tmp", (1, 1))
    for k in range(20):
        store.put(f"k{k}", {}, bytes(100_000))
        os.utime(tmp_path / f"k{k}.dlvm", (1000 + k, 1000 + k))
    store.get("k15")
    store.sweep()
    left = {p.name for p in tmp_path.iterdir()}
    assert "k15.dlvm" in left and "k0.dlvm" not in left and "old.tmp" not in left
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 2**20


def test_a_process_measures_the_folder_once_a_tenth_of_its_bound(tmp_path, monkeypatch):
    """Whichever of its caches puts: a folder of thousands of files is not read at each compilation."""
    swept = []
    monkeypatch.setattr(cache.Cache, "sweep", lambda self: swept.append(self.folder))
    for k in range(20):
        cache.Cache(tmp_path, size_mib=1).put(f"k{k}", {}, bytes(30_000))
    assert len(swept) == 5  # at the first of 20 puts, and at each fourth


def _put_and_get(folder, seed):
    store = cache.Cache(folder)
    for k in range(60):
        key = f"k{(k + seed) % 5}"
        store.put(key, {"key": key}, key.encode() * 5000)
        found = store.get(key)
        if found != ({"key": key}, key.encode() * 5000):
            os._exit(1)


def test_cache_of_many_processes(tmp_path):
    """Processes that write the same files at once see whole ones only."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_put_and_get, args=(str(tmp_path), k)) for k in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(60)
    assert [w.exitcode for w in workers] == [0] * 3
    assert len(list(tmp_path.iterdir())) == 5


def test_cache_keys(monkeypatch, tmp_path):
    """A key depends on every part and on where one ends; the folder comes from the environment."""
    keys = [cache.cache_key(*p) for p in [("a", "b"), ("ab",), ("a", b"b"), (1,), ("1",), (1.0,), ()]]
    assert len(set(keys)) == len(keys) and cache.cache_key("a", "b") == keys[0]
    assert len(cache.environment_key()) == 64
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path / "here"))
    monkeypatch.setenv("DLVM_CACHE_SIZE", "3")
    store = cache.Cache()
    assert store.folder == str(tmp_path / "here") and store.limit == 3 * 2**20


# -- signatures ----------------------------------------------------------------------------------------


def test_specs():
    """Each kind of value has its spec."""
    cases = [
        (True, FLAG), (3, INT), (2.5, FLOAT), (1j, ScalarSpec("c128", True)), (np.float32(1), ScalarSpec("f32", False)),
        (np.bool_(True), ScalarSpec("bool", False)), (np.longlong(1), ScalarSpec("i64", False)),
        (np.zeros((1, 3)), ArraySpec("f64", (True, False))), (np.zeros(()), ArraySpec("f64", ())),
        (np.zeros((2, 3), order="F"), ArraySpec("f64", (False, False), "F")),
        (np.zeros(6, "i2")[::2], ArraySpec("i16", (False,), "S")),
        ((1, (2.0,)), TupleSpec((INT, TupleSpec((FLOAT,))))), (None, ConstantSpec(None)), ("x", ConstantSpec("x")),
        (len, ConstantSpec(len)), (np.float32, ConstantSpec(np.float32)),
    ]  # fmt: skip
    for value, spec in cases:
        assert signature.spec_of(value) == spec, value


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (["a"], ArgumentError, "argument 'x' is a list of strings"),
        ([1.0, 1] * 150, ArgumentError, r"pass np.array\(...\)"),
        ({1: [1]}, ArgumentError, "is a dict whose values are no numbers"),
        (np.array([None]), TypeMismatch, "dtype object"),
        (np.zeros(3, ">f8"), TypeMismatch, "byte order"),
        (np.zeros(3, "U4"), TypeMismatch, "dtype <U4, which is not supported"),
        (np.zeros(3, "f8,i4"), TypeMismatch, "which is not supported"),
        (np.zeros(3, "g"), TypeMismatch, "which is not supported"),
        (np.datetime64("2020"), TypeMismatch, "which is not supported"),
        (np.frombuffer(bytes(33), "f8", 3, 1), TypeMismatch, "not aligned"),
        (np.ma.zeros(3), ArgumentError, "subclass of ndarray"),
        (2**70, OverflowError, "does not fit in 64 bits"),
        (types.SimpleNamespace(), ArgumentError, "types.SimpleNamespace"),
        ((1, [{2: "a"}]), ArgumentError, "item 0 of item 1 of argument 'x' is a dict"),
    ],
)
def test_refusals(value, error, text):
    """What cannot be passed is refused in words."""
    with pytest.raises(error, match=text):
        signature.spec_of(value, "argument 'x'")


@pytest.mark.parametrize(
    "function",
    [
        lambda: 0,
        lambda a, b=2: 0,
        lambda a, /, b, *, c=3, d: 0,
        lambda a, /: 0,
        lambda *args, k=1, **kw: 0,
        lambda a, *rest, z: 0,
        lambda a=1, /, *, b=2: 0,
    ],
)
def test_binder(function):
    """Binding gives Python's values, and Python's errors word for word."""
    bind = signature.binder(inspect.signature(function), "name")
    function.__qualname__ = function.__name__ = "name"
    for args in ((), (1,), (1, 2), (1, 2, 3)):
        for kwargs in ({}, {"b": 5}, {"d": 1}, {"a": 1}, {"z": 1}, {"b": 1, "d": 2}, {"nothing": 1}):
            try:
                function(*args, **kwargs)
            except TypeError as expected:
                with pytest.raises(TypeError) as found:
                    bind(*args, **kwargs)
                assert str(found.value) == str(expected)
            else:
                bound = inspect.signature(function).bind(*args, **kwargs)
                bound.apply_defaults()
                assert bind(*args, **kwargs) == tuple(bound.arguments.values())


def test_numpy_gives_back_what_it_took():
    """A fresh result has our memory handler, so that its memory comes back to the pool; Python's entry copies."""
    f = native.make(fallback)
    native.add_version(f, compiled(ADD_CALL, ADD))
    r = f(np.ones(4), np.ones(4))
    handler = "default_allocator" if native._python_only() else "dlvm_py"
    assert np._core.multiarray.get_handler_name(r) == handler
