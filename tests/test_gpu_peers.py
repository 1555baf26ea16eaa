"""The peers of `make gpu-check` compute what its rows are: by JAX and PyTorch on the CPU, where they are installed."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import gpu_peers
from gpu_rows import RATE, rows

ROWS = rows(quick=True)


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, tuple | list) else [np.asarray(value)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jax", "torch"])
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_peer_computes_the_row(row, name, monkeypatch):
    """Values are NumPy's; gradients, and steps by them, those of central differences in one direction."""
    module = pytest.importorskip(name)
    if name == "torch":
        monkeypatch.setattr(module, "compile", lambda f: f)
    peer = {"jax": gpu_peers.Jax, "torch": gpu_peers.Torch}[name](anywhere=True)
    host = [a.copy() if isinstance(a, np.ndarray) else a for a in row.arguments]
    given = [peer.array(a.copy()) if isinstance(a, np.ndarray) else a for a in host]
    got = peer.function(row)(*given)
    peer.wait(got)
    if row.kind == "value":
        expected = row.function(*host)
        if expected is None:  # in place
            expected, got = host[0], got if name == "jax" else given[0]
        np.testing.assert_allclose(np.asarray(got), expected, 1e-10, 1e-12)
        return
    rng = np.random.default_rng(1)
    way = {k: rng.standard_normal(host[k].shape) for k in row.wrt}
    ends = []
    for h in (1e-6, -1e-6):
        ends.append(np.sum(row.function(*(a + h * way[k] if k in way else a for k, a in enumerate(host)))))
    found = flat(got)
    if row.kind == "step":
        found = [(host[k] - new) / RATE for k, new in zip(row.wrt, found, strict=True)]
    along = sum(np.sum(g * way[k]) for g, k in zip(found, row.wrt, strict=True))
    assert along == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)
