"""Loop programs of the kinds that people compile: the values of plain Python, bit for bit, and what is written."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import dlvm_py as dlvm

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
PROGRAMS = importlib.import_module("user_programs").PROGRAMS
users = importlib.import_module("users")

# a choice from all fields, whose control flow and stores differ; the rest is for `make test-all`
QUICK = """
    popcount_loop rle run_vm kmer_counts lz_compress parse_integers crc32_table murmur_mix
    rgb_hist rotate median3 floyd_steinberg components otsu bilinear_resize
    viterbi lcs2 lev2 three_ways damerau min_path
    binary_search quick_sort heap_sort radix_sort merge_sort recursive_sort
    union_find bfs_grid flood_fill dijkstra life_u8 ising sandpile lorenz_rk4
    n_queens gcds sudoku miller_rabin bit_queens gauss_solve points_in_polygon rasterize peaks join_sorted
""".split()


@pytest.mark.usefixtures("plain_code")
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PROGRAMS]
)
def test_as_python(name):
    """Values, classes, dtypes and bits of the result, and of the arguments behind the call."""
    program = PROGRAMS[name]
    compiled = dlvm.jit(program.function)
    for size in (5, 12):
        got = users.outcome(compiled, program.make(size))
        want = users.outcome(program.function, program.make(size))
        assert [type(g) for g in got] == [type(w) for w in want]
        assert users.difference(program, got, want) == ""
        if not program.rounds:
            assert [np.asarray(g).tobytes() for g in got] == [np.asarray(w).tobytes() for w in want]


def test_a_race(monkeypatch):
    monkeypatch.setattr(users, "with_numba", lambda function: function)
    (found,) = users.main(["--only", "insertion_sort", "--size", "4", "--seconds", "0.01"])
    assert all(record["time_s"] > 0 for record in found["tools"].values())


def test_a_wrong_number_is_found():
    program = PROGRAMS["kadane"]
    right = users.outcome(program.function, program.make(5))
    assert users.difference(program, [*right[:-2], right[-2] + 1, right[-1]], right) == "its outputs differ"
    assert "not int64" in users.difference(program, [*right[:-1], right[-1].astype(np.int32)], right)
    assert users.difference(program, right[1:], right)


def test_what_is_behind_is_said_first():
    def tools(ours, theirs):
        return {"dlvm-py": {"time_s": ours}, "Numba": {"time_s": theirs} if theirs else {"error": "TypingError: no"}}

    cases = {"rle": tools(2e-6, 1e-6), "gcds": tools(1e-6, 4e-6), "otsu": tools(1e-6, None)}
    lines = users.report([{"case": {"kernel": name}, "tools": t} for name, t in cases.items()])
    assert "geometric mean 1.41; 1 of 2" in lines[0] and "`otsu` (TypingError: no)" in lines[1]
    assert [line for line in lines if "**" in line] == ["| `rle` | Runs and their lengths | 2.0 | **0.50** |"]
    assert lines[-1] == "At 1.5 or more: `gcds` 4.0."


def test_bytes_side_by_side():
    """No instructions of SSE4A, whose encoding is slow behind wide vectors (on processors that have them)."""
    program = PROGRAMS["erode"]
    compiled = dlvm.jit(program.function, parallel=False)
    compiled(*program.make(12))
    assert not {"insertq", "extrq"} & set(compiled.asm().split())


def test_elements_that_may_stay_are_stored_without_masks():
    """A rectifier in place, by arrays and by a loop: all elements are written, and those that are NaN stay so."""

    def clamp(a, b):
        np.maximum(a, 0.0, out=a)
        b[b > 1.0] = 1.0
        for i in range(a.shape[0]):
            a[i] = min(a[i], 2.0)

    a, b = np.random.default_rng(2).standard_normal((2, 37)) * 3
    a[5] = b[6] = np.nan
    ours, theirs = (a.copy(), b.copy()), (a.copy(), b.copy())
    compiled = dlvm.jit(clamp)
    compiled(*ours)
    clamp(*theirs)
    np.testing.assert_array_equal(ours, theirs)
    assert "vmaskmov" not in compiled.asm()


def test_complex_numbers_that_may_stay_are_vectors():
    """Points that leave a disc stay where they were: both parts are chosen in vectors, with any instructions."""

    def steps(z, c, n):
        for _ in range(n):
            inside = abs(z) < 2.0
            z[inside] = z[inside] ** 2 + c[inside]

    z, c = (np.random.default_rng(k).standard_normal((41, 2)) @ [1, 1j] for k in (3, 4))
    z[5] = complex(np.nan, 0.5)
    ours, theirs = z.copy(), z.copy()
    compiled = dlvm.jit(steps, parallel=False)
    compiled(ours, c, 6)
    with np.errstate(all="ignore"):
        steps(theirs, c, 6)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert "sqrtpd" in compiled.asm()
