"""Stencils over wide rows, which compute several rows at a time."""

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.dispatch import dispatcher_of
from dlvm_py.frozen import replace
from dlvm_py.options import Options, Schedule
from dlvm_py.transforms import stream_stores
from dlvm_py.transforms.unroll_and_jam import ROWS, WIDE


def five_points(a, out):
    out[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])


def in_place(a, out):
    a[1:-1] += 0.5 * (a[2:] + a[:-2] - 2.0 * a[1:-1])
    out[...] = a


def fresh(a, out):
    out[2:] = a[2:] - a[1:-1] * a[:-2]


# rows that are a multiple, or not, none at all, wide enough or not
SHAPES = [(rows, WIDE + 2 + more) for rows in (2, 3, ROWS + 2, 2 * ROWS + 5) for more in (-1, 0, 5)]


@pytest.mark.parametrize("function", [five_points, in_place, fresh])
def test_rows_together_are_rows(function):
    compiled = dlvm.jit(function)
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        plain = rng.random(shape)
        for a in (plain, np.asfortranarray(plain), np.repeat(plain, 2, axis=1)[:, ::2]):
            ours, theirs = (a.copy(order="K"), np.zeros(shape)), (a.copy(order="K"), np.zeros(shape))
            compiled(*ours)
            function(*theirs)
            for found, expected in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(found, expected)


def seven_points(a, out):
    out[1:-1, 1:-1, 1:-1] = a[2:, 1:-1, 1:-1] - a[:-2, 1:-1, 1:-1] * a[1:-1, 2:, 1:-1] + a[1:-1, 1:-1, :-2]


def middle(a, out):
    out[:, 1:-1] = a[:, 2:] - a[:, :-2]


@pytest.mark.parametrize("function", [seven_points, middle])
def test_planes_together_are_planes(function):
    # too few planes, some that are left, rows that are short, planes that are small
    compiled = dlvm.jit(function)
    for shape in (5, 20, 70), (2 * ROWS + 5, 18, 71), (13, 60, 30), (13, 3, 80), (100, 7, 300):
        plain = np.random.default_rng(3).random(shape)
        for a in (plain, plain.transpose(2, 1, 0).copy().T, np.repeat(plain, 2, axis=1)[:, ::2]):
            ours, theirs = np.zeros(shape), np.zeros(shape)
            compiled(a, ours)
            function(a, theirs)
            np.testing.assert_array_equal(ours, theirs)


def test_threads_cut_where_they_like():
    a = np.random.default_rng(2).random((501, 1501))
    found = []
    before = dlvm.get_num_threads()
    try:
        for threads in (1, 2):
            dlvm.set_num_threads(threads)
            out = np.zeros_like(a)
            dlvm.jit(five_points)(a, out)
            found.append(out)
    finally:
        dlvm.set_num_threads(before)
    np.testing.assert_array_equal(*found)
    expected = np.zeros_like(a)
    five_points(a, expected)
    np.testing.assert_array_equal(found[0], expected)


def lines_together(function, *args):
    return dlvm.jit(function).llvm(*args).count("!nontemporal")


def test_only_rows_that_are_read_again():
    def rows(a, out):
        out[1:-1] = a[2:] + a[:-2]

    def columns(a, out):
        out[:, 1:-1] = a[:, 2:] + a[:, :-2]

    def functions(a, out):
        out[1:-1] = np.exp(a[2:]) + np.exp(a[:-2])

    a = np.ones((4, 4))
    # a line of groups, which all rows have in common, and of each row one of those that are left
    expected = 1 + stream_stores.ROWS
    assert [lines_together(f, a, a.copy()) for f in (rows, columns, functions)] == [expected, 0, 0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
def test_planes_past_the_caches_are_written_by_rows(dtype, threads):
    # long rows, of which some are left, begin anywhere in a line; short ones; few of them; planes that are cut
    compiled = dlvm.jit(seven_points)
    many = 2 if dtype is np.float32 else 1
    before = dlvm.get_num_threads()
    dlvm.set_num_threads(threads)
    try:
        for rows, shape in enumerate(
            [(20 * many, 421, 521), (3, 1500 * many, 993), (90, 400 * many, 131), (800, 7, 763 * many)]
        ):
            a = np.random.default_rng(rows).random(shape, dtype)
            memory = np.zeros(a.size + rows, dtype), np.zeros(a.size + rows, dtype)
            ours, theirs = (m[rows:].reshape(shape) for m in memory)
            compiled(a, ours)
            seven_points(a, theirs)
            np.testing.assert_array_equal(ours, theirs)
    finally:
        dlvm.set_num_threads(before)


@pytest.mark.parametrize("lines", [2, 4])
def test_rows_of_planes_together_past_the_caches(lines):
    # a plane has three rows and lines of four, or the last two of seven overlap those before
    decisions = (("streams.least", 1 << 22), ("streams.rows_in_space", lines))
    compiled = dlvm.jit(seven_points)
    dispatcher_of(compiled).options = replace(Options(), schedule=Schedule(decisions=decisions))
    for rows in (5, 9):
        a = np.random.default_rng(rows).random((4 << 20 >> 10, rows, 331))
        ours, theirs = np.zeros_like(a), np.zeros_like(a)
        compiled(a, ours)
        seven_points(a, theirs)
        np.testing.assert_array_equal(ours, theirs)


def far_apart(a, out):
    # two streams of a row, the elements of one of them as far apart as they may be; one row of an array beside
    out[1:, :, 9:-8] = (a[1:, :, 9:-8] + a[1:, :, 1:-16] - a[1:, :, :-17]) * a[:-1, :, 17:] / a[0, 0, 9:-8]


def with_functions(a, out):
    out[1:, :-1, 1:] = np.minimum(a[1:, :-1, 1:], a[:-1, 1:, :-1]) + abs(a[1:, :-1, :-1])


def wraps(a, out):
    out[:-1, 1:] = (a[1:, 1:] + a[:-1, :-1]) * 3


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("function", [seven_points, far_apart, with_functions, wraps])
def test_planes_past_the_caches_in_blocks(function, dtype, threads):
    # one block, several, of which the last is shorter; rows that begin anywhere in a line
    compiled = dlvm.jit(function)
    decisions = (("streams.least", 1 << 22),)
    dispatcher_of(compiled).options = replace(Options(), schedule=Schedule(decisions=decisions))
    before = dlvm.get_num_threads()
    dlvm.set_num_threads(threads)
    try:
        for skipped, shape in enumerate([(9, 271, 531), (12, 199, 601), (4, 512, 512), (3, 701, 1411), (18, 5, 12011)]):
            a = np.random.default_rng(skipped).random(shape, dtype)
            memory = np.ones(a.size + 2 * skipped, dtype), np.ones(a.size + 2 * skipped, dtype)
            ours, theirs = (m[skipped : skipped + a.size].reshape(shape) for m in memory)
            compiled(a, ours)
            function(a, theirs)
            np.testing.assert_array_equal(*memory)
    finally:
        dlvm.set_num_threads(before)


def test_what_is_written_by_rows_is_fetched_ahead():
    text = dlvm.jit(seven_points).llvm(np.zeros((3, 3, 3)), np.zeros((3, 3, 3)))
    # the beginning of the next row, to be written, and what is read in the plane behind, soon and for the next row;
    # the declaration
    assert text.count("@llvm.prefetch.p0(") == 3 + 1
