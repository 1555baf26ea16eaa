"""Products by tiles of our own, where those of BLAS are narrower than the CPU's vectors (backend/cpu/packed.py)."""

import ctypes

import pytest
from processes import run_program

from dlvm_py.backend.cpu.compile import has_masks
from dlvm_py.runtime import loader

# Which BLAS it is is asked when code is loaded, once a process: so both answers are given in processes of their own.
SCRIPT = """
import sys
import numpy as np
import dlvm_py as dlvm
from dlvm_py.runtime import loader

loader._LIMITS["narrow_blas"] = lambda: int(sys.argv[1])
# whole tiles and not, in rows, columns and terms; several spans of terms; few of one kind
EXTENTS = [(48, 48, 48), (97, 131, 515), (17, 500, 30), (401, 33, 70), (65, 1200, 130), (200, 190, 3000), (24, 24, 600)]


@dlvm.jit
def forms(a, b, c, d):
    d += a @ b
    c[:, : b.shape[1]] -= a @ b  # its rows are longer than the product's
    return a @ b, (b.T @ a.T).T


rng = np.random.default_rng(3)
for dtype in (np.float32, np.float64):
    for m, n, k in EXTENTS:
        for turned in range(4):
            a = rng.standard_normal((k, m) if turned & 1 else (m, k)).astype(dtype)
            b = rng.standard_normal((n, k) if turned & 2 else (k, n)).astype(dtype)
            a, b = a.T if turned & 1 else a, b.T if turned & 2 else b
            c, d = rng.standard_normal((m, n + 3)).astype(dtype), rng.standard_normal((m, n)).astype(dtype)
            exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
            found = []
            for threads in (1, 2, 3):
                dlvm.set_num_threads(threads)
                mine, other = c.copy(), d.copy()
                found.append((*forms(a, b, mine, other), mine, other))
            bound = 2 * k * np.finfo(dtype).eps
            for x, wanted in zip(found[0], (exact, exact, c[:, :n] - exact, d + exact), strict=True):
                assert x.dtype == dtype and np.abs(x[:, :n] - wanted).max() < bound, (dtype, m, n, k, turned)
            assert np.array_equal(found[0][2][:, n:], c[:, n:])
            assert all(np.array_equal(x, y) for other in found[1:] for x, y in zip(found[0], other, strict=True))
# what is not a number stays in its row and column, and tiles at the edge compute nothing that is seen
a, b = np.ones((50, 60)), np.ones((60, 70))
a[49, 59], b[3, 69] = np.nan, np.inf
product = np.zeros((50, 70))
forms(a, b, np.zeros((50, 73)), product)
expected = np.full((50, 70), 60.0)
expected[:, 69], expected[49] = np.inf, np.nan
np.testing.assert_array_equal(product, expected)
print("done")
"""

WITHOUT_BLAS = """
import numpy as np
import dlvm_py as dlvm
from dlvm_py.runtime import loader

loader._LIMITS["narrow_blas"] = lambda: 1
found = loader.address_of
loader.address_of = lambda name, objects: 0xBAD if "gemm" in name else found(name, objects)  # a call would crash
a = np.ones((300, 300))
assert (dlvm.jit(lambda a: a @ (a + 1.0))(a) == 600.0).all()
print("done")
"""


@pytest.mark.parametrize("narrow", ["0", "1"])
def test_products_are_those_of_all_layouts(narrow, tmp_path):
    assert run_program(SCRIPT, tmp_path, narrow).stdout == "done\n"


@pytest.mark.parametrize(
    ("core", "narrow"), [(b"Haswell", 1), (b"Zen", 1), (b"SkylakeX", 0), (b"SapphireRapids", 0), (b"", 0), (None, 0)]
)
def test_what_blas_says_of_its_kernels(core, narrow, monkeypatch):
    name = ctypes.create_string_buffer(core) if core is not None else None
    asked = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: name and ctypes.addressof(name))
    address = ctypes.cast(asked, ctypes.c_void_p).value
    monkeypatch.setattr(loader, "_numpy_blas", {"openblas_get_corename": address}.get)
    assert loader._narrow_blas.__wrapped__() == narrow
    monkeypatch.setattr(loader, "_numpy_blas", lambda name: None)  # another BLAS, or one that hides it
    assert loader._narrow_blas.__wrapped__() == 0


@pytest.mark.skipif(not has_masks(), reason="tiles of our own are as wide as those of BLAS")
def test_long_products_are_not_asked_of_a_narrow_blas(tmp_path):
    assert run_program(WITHOUT_BLAS, tmp_path).stdout == "done\n"
