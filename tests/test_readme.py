"""The README's tour runs as it is written."""

import linecache
import re
from pathlib import Path

import numpy as np
import pytest

import dlvm_py as dlvm

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```\n(?:\n((?:    [^\n]*\n)+))?", README.read_text(encoding="utf-8"), re.S)


def _run(code, scope, folder, name):
    # compiled functions need their source in a file
    path = folder / name
    path.write_text(code, encoding="utf-8")
    linecache.checkcache(str(path))
    exec(compile(code, str(path), "exec"), scope)


def test_python_blocks_run_in_order(tmp_path):
    """Every Python block of the README runs after the ones before it, in one namespace."""
    rng = np.random.default_rng(0)
    scope = {"__name__": "readme", "np": np, "dlvm": dlvm, "x": rng.random((5, 3)), "y": rng.random((5, 2))}
    scope |= {"w": rng.random((3, 2)), "b": rng.random(2)}
    assert len(BLOCKS) >= 6
    for k, (code, _) in enumerate(BLOCKS):
        _run(code, scope, tmp_path, f"block_{k}.py")
    assert scope["du"].shape == (1000,) and isinstance(scope["ddt"], float)
    assert scope["clipped_sum"](np.array([1.0, 5.0]), 2.0) == 3.0
    assert scope["dw"].shape == (3, 2) and scope["db"].shape == (2,) and scope["value"] > 0
    assert scope["result"].shape == (5, 2) and scope["dg_dw"].shape == (3, 2)
    assert scope["d2g"](scope["x"], scope["w"], scope["b"]).shape == (3, 2)
    assert (
        scope["j"].shape == (5, 2, 2)
        and scope["h"].shape == (1000, 1000)
        and scope["tangent"] == pytest.approx(np.sum(scope["dw"] ** 2))
    )
    assert (
        scope["x_adj"].shape == (5, 3) and scope["band"].shape == (999, 1000) and scope["slope"] == pytest.approx(0.25)
    )
    np.testing.assert_allclose(scope["h"] @ scope["du"], scope["hv"])
    step = [scope["descend"](*(scope[n] for n in "xywb"), 0.01 + h) for h in (1e-6, -1e-6)]
    assert scope["drate"] == pytest.approx((step[0] - step[1]) / 2e-6, rel=1e-6)
    assert set(scope["diffuse"].stats()) == {"versions", "compiled", "loaded", "compile_s", "load_s"}


def test_shown_error_is_the_error(tmp_path, monkeypatch):
    """The error text in the README is what the block above it raises."""
    monkeypatch.chdir(tmp_path)
    code, shown = next((code, text) for code, text in BLOCKS if "error DL" in text)
    scope = {"dlvm": dlvm}
    Path("example.py").write_text(code, encoding="utf-8")
    exec(compile(code, "example.py", "exec"), scope)
    with pytest.raises(dlvm.CompileError) as caught:
        scope["read"]("data.txt")
    assert str(caught.value) == "\n".join(line[4:] for line in shown.rstrip().split("\n"))
