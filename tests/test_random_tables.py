"""Random loops over tables of any dtype (random_tables.py): native code against plain Python, to the bit.

Values, classes of exceptions and what is in the arguments afterwards, which overlap by times, or lie right beside a
page that may not be touched. Passes take small programs too, in every second one.
"""

import contextlib
import random

import numpy as np
import pytest
from plain_code import translated_only
from random_tables import LAYOUTS, SHAPES, table_args, table_program
from test_guard_pages import guarded
from test_random_nests import eager

import dlvm_py as dlvm
from dlvm_py.errors import CompileError

pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # plain NumPy code gives them
SIZES = ((5, 7), (7, 5), (6, 6), (17, 30), (30, 17), (3, 2), (2, 3), (1, 1), (1, 9), (9, 1), (0, 0), (0, 3), (3, 0))
RAISED = (ArithmeticError, LookupError, ValueError)


@pytest.fixture(autouse=True)
def two_threads(eager_threads):
    """Loops are shared, by two threads unless a check says otherwise."""
    dlvm.set_num_threads(2)


def outcome(fn, args):
    """The value, or the class of the exception."""
    try:
        with np.errstate(all="ignore"):
            return fn(*args)
    except CompileError:
        raise
    except RAISED as error:
        return type(error)


def assert_same(got, want, program, what):
    """The same bits, but for which NaN it is, and in which order sorted zeros stand; complex numbers to rounding."""
    assert got.dtype == want.dtype and got.shape == want.shape, what
    if program.kind == "c":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=what)
        return
    np.testing.assert_array_equal(got, want, err_msg=what)
    if program.kind == "f" and "sort" not in program.source:
        signs = [np.signbit(v) & ~np.isnan(v) for v in (got, want)]
        np.testing.assert_array_equal(*signs, err_msg=what)


def check(seed, calls, is_shipped=False):
    """The program of a seed, called with arrays of several lengths in two layouts; False where it is refused."""
    program, r = table_program(seed), random.Random(seed)
    layouts = ("C", r.choice(LAYOUTS))
    with contextlib.ExitStack() as stack:
        if not is_shipped:
            stack.enter_context(eager(seed) if seed % 2 else translated_only())
        compiled = dlvm.jit(program.fn, cache=False)
        for _ in range(calls):
            n, m = r.choice(SIZES)
            how = {"n": n, "m": m, "k": r.choice((1, 2, 0, -1, 3, n, m - 1)), "q": r.choice((1, 2, 0, 3, n, -2))}
            how |= {"layout": r.choice(layouts), "seed": r.randrange(1000)}
            ours, theirs = table_args(program, **how), table_args(program, **how)
            if how["layout"] in LAYOUTS[:5]:  # none overlaps another
                at_end = r.random() < 0.5
                ours = [guarded(v, at_end) if isinstance(v, np.ndarray) else v for v in ours]
            want, what = outcome(program.fn, theirs), f"seed {seed}: {how}\n{program.dtypes}\n{program.source}"
            try:
                got = outcome(compiled, ours)
            except CompileError:
                return False
            if got is OverflowError:
                continue  # a number between has more than 64 bits
            assert got == want, what
            for name, one, other in zip(SHAPES, ours, theirs, strict=False):
                assert_same(one, other, program, f"{name}, {what}")
    return True


@pytest.mark.parametrize("seed", (1, 2, 5, 6))
def test_random_tables(seed):
    """A few programs."""
    check(seed, 6)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(40))
def test_random_tables_slow(chunk):
    """Ten at a time; few are refused, where no dtype can be said."""
    assert sum(check(seed, 10) for seed in range(1000 + 10 * chunk, 1010 + 10 * chunk)) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(10))
def test_random_tables_as_shipped_slow(chunk):
    """As users have them."""
    for seed in range(5000 + 5 * chunk, 5005 + 5 * chunk):
        check(seed, 10, is_shipped=True)
