"""The programs for GradBench: derivatives against closed forms and differences, and the protocol of the tool."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import run_python

pytestmark = pytest.mark.usefixtures("plain_code")

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "gradbench"
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

from evals import ba, det, gmm, ht, kmeans, llsq, lse, lstm, ode, particle, saddle  # noqa: E402
from harness.race import Setting  # noqa: E402
from session import session  # noqa: E402

rng = np.random.default_rng(5)


def call(program, function, given):
    """The output of a function of an eval."""
    entry = program.FUNCTIONS[function]
    return entry.output(entry.compute(*entry.prepare(given)))


def differences(f, args, at):
    """∂f/∂args[at] by central differences, the axes of f first."""
    base = args[at]
    columns = []
    for k in range(base.size):
        moved = []
        for step in (1e-6, -1e-6):
            x = base.copy()
            x.flat[k] += step
            moved.append(np.asarray(f(*args[:at], x, *args[at + 1 :])))
        columns.append((moved[0] - moved[1]) / 2e-6)
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *base.shape)


def test_log_sum_exp():
    """The gradient is the softmax."""
    x = rng.uniform(size=30)
    weights = np.exp(x) / np.exp(x).sum()
    assert call(lse, "primal", {"x": x.tolist()}) == pytest.approx(np.log(np.exp(x).sum()), rel=1e-14)
    np.testing.assert_allclose(call(lse, "gradient", {"x": x.tolist()}), weights, rtol=1e-13)


def test_least_squares():
    """A quadratic in the coefficients: its matrix gives value and gradient."""
    x, n = rng.uniform(size=5), 12
    t = np.linspace(-1, 1, n)
    left = np.sign(t) - np.vander(t, 5, increasing=True) @ x
    given = {"x": x.tolist(), "n": n}
    assert call(llsq, "primal", given) == pytest.approx(left @ left / 2)
    np.testing.assert_allclose(call(llsq, "gradient", given), -np.vander(t, 5, increasing=True).T @ left, rtol=1e-11)


def test_chain_of_equations():
    """Four components, for which the method is exact: y_3 = x_0 x_1 x_2 x_3 2⁴ / 4!."""
    x = rng.uniform(0.5, 1.5, 4)
    given = {"x": x.tolist(), "s": 3}
    assert call(ode, "primal", given)[-1] == pytest.approx(np.prod(x) * 16 / 24)
    np.testing.assert_allclose(call(ode, "gradient", given), np.prod(x) * 16 / 24 / x, rtol=1e-12)


def test_determinant():
    """The cofactors."""
    a = rng.uniform(size=(5, 5))
    given = {"A": a.ravel().tolist(), "ell": 5}
    assert call(det, "primal", given) == pytest.approx(np.linalg.det(a))
    np.testing.assert_allclose(
        np.reshape(call(det, "gradient", given), (5, 5)), np.linalg.det(a) * np.linalg.inv(a).T, rtol=1e-9
    )


def test_clusters():
    """Newton's step leads to the mean of the assigned points."""
    points = rng.uniform(size=(40, 3))
    centroids = points[-4:]
    of = np.argmin(((points[:, None] - centroids) ** 2).sum(-1), axis=1)
    means = np.stack([points[of == j].mean(axis=0) for j in range(4)])
    given = {"points": points.tolist(), "centroids": centroids.tolist()}
    assert call(kmeans, "cost", given) == pytest.approx(((points - centroids[of]) ** 2).sum())
    np.testing.assert_allclose(call(kmeans, "dir", given), centroids - means, atol=1e-13)


def test_mixture():
    """The value with densities spelled out, the gradient against differences."""
    n, d, k = 7, 3, 2
    x, alpha, mu, q = rng.normal(size=(n, d)), rng.normal(size=k), rng.uniform(size=(k, d)), rng.normal(size=(k, d))
    l = rng.normal(size=(k, d * (d - 1) // 2))  # noqa: E741
    args = (alpha, mu, q, l, x, 1, 1.5)
    density = np.zeros(n)
    for c in range(k):
        factor = np.diag(np.exp(q[c]))
        factor[[1, 2, 2], [0, 0, 1]] = l[c]
        v = (x - mu[c]) @ factor.T
        weight = np.exp(alpha[c]) / np.exp(alpha).sum()
        density += weight * np.exp(-0.5 * (v * v).sum(1)) * np.linalg.det(factor) / (2 * np.pi) ** (d / 2)
    # moving the means alone leaves the prior as it is
    other = np.log(density).sum() - gmm.log_posterior(*args)
    assert gmm.log_posterior(alpha, mu, q, l, x[:-1], 1, 1.5) == pytest.approx(np.log(density[:-1]).sum() - other)
    given = {"d": d, "k": k, "n": n, "m": 1, "gamma": 1.5}
    given |= {name: v.tolist() for name, v in zip(("alpha", "mu", "q", "l", "x"), args, strict=False)}
    got = call(gmm, "jacobian", given)
    for at, name in enumerate(("alpha", "mu", "q", "l")):
        np.testing.assert_allclose(
            got[name], differences(gmm.log_posterior.__wrapped__, args, at), rtol=1e-6, atol=1e-6
        )


def test_characters():
    """The gradient against differences."""
    b, layers = 3, 2
    args = (
        rng.uniform(size=(2 * layers, 4 * b)),
        rng.uniform(size=(3, b)),
        rng.uniform(size=(2 * layers, b)),
        rng.integers(0, 2, (6, b)).astype(float),
    )
    given = dict(zip(("main_params", "extra_params", "state", "sequence"), (a.tolist() for a in args), strict=True))
    assert call(lstm, "objective", given) == pytest.approx(lstm.loss.__wrapped__(*args))
    expected = np.concatenate([differences(lstm.loss.__wrapped__, args, at).ravel() for at in range(2)])
    np.testing.assert_allclose(call(lstm, "jacobian", given), expected, atol=1e-8)


@pytest.mark.parametrize("rotation", [0.3, 0.0])
def test_bundle_adjustment(rotation):
    """The sparse Jacobian against the dense one by differences."""
    camera = [rotation, rotation / 2, -rotation, 0.1, 0.2, 0.3, 1.5, 0.2, 0.1, 0.05, 0.01]
    given = {"n": 2, "m": 3, "p": 4, "cam": camera, "x": [0.4, 0.7, 2.0], "w": 0.8, "feat": [0.3, 0.9]}
    arrays = ba.FUNCTIONS["objective"].prepare(given)
    pointers, columns, values = ba.jacobian(*arrays)
    dense = np.zeros((12, 2 * 11 + 3 * 3 + 4))
    for row, (start, stop) in enumerate(itertools.pairwise(pointers)):
        dense[row, columns[start:stop]] = values[start:stop]

    def flat(*args):
        reprojection, weight = ba.errors.__wrapped__(*args)
        return np.concatenate((reprojection.ravel(), weight))

    expected = [differences(flat, arrays, at).reshape(12, -1) for at in range(3)]
    if rotation == 0:  # the branch for it is a kink of the program, whose derivative is that of the branch
        dense[:8, [0, 1, 2, 11, 12, 13]] = expected[0][:8, [0, 1, 2, 11, 12, 13]] = 0
    np.testing.assert_allclose(dense, np.concatenate(expected, axis=1), atol=1e-7)
    assert len(values) == 31 * 4
    assert call(ba, "jacobian", given)["cols"][:12] == [*range(11), 22]


@pytest.mark.parametrize("is_complicated", [pytest.param(False, marks=pytest.mark.slow), True])
def test_hand(is_complicated):
    """The Jacobian against differences; 17 bones are the fewest that five fingers need."""
    bones, vertices, c = 22, 6, 3
    model = {
        "parents": [-1, *rng.integers(0, 1, bones - 1).tolist()],
        "base_relatives": rng.normal(size=(bones, 4, 4)).tolist(),
        "inverse_base_absolutes": rng.normal(size=(bones, 4, 4)).tolist(),
        "base_positions": np.c_[rng.normal(size=(vertices, 3)), np.ones(vertices)].tolist(),
        "weights": rng.uniform(size=(vertices, bones)).tolist(),
        "triangles": rng.integers(0, vertices, (4, 3)).tolist(),
        "is_mirrored": True,
    }
    data = {"model": model, "correspondences": [2, 0, 3], "points": rng.normal(size=(c, 3)).tolist()}
    us = rng.uniform(size=(c, 2)).tolist() if is_complicated else []
    given = {"theta": rng.normal(size=26).tolist(), "us": us, "data": data}
    args = ht.FUNCTIONS["objective"].prepare(given)
    if is_complicated:
        f, args = ht.complicated.__wrapped__, args
        own = differences(f, args, 1)  # (3 c, c, 2): a distance depends on its own pair
        expected = np.c_[own[np.arange(3 * c), np.arange(3 * c) // 3], differences(f, args, 0)]
    else:
        f, args = ht.simple.__wrapped__, (args[0], args[2], args[3], *args[5:])
        expected = differences(f, args, 0)
    np.testing.assert_allclose(call(ht, "objective", given), f(*args), rtol=1e-12)
    np.testing.assert_allclose(call(ht, "jacobian", given), expected, atol=2e-7)


@pytest.mark.parametrize("name", ["rr", *(pytest.param(n, marks=pytest.mark.slow) for n in ("rf", "fr", "ff"))])
def test_nested_derivatives(name):
    """The published answers, by every combination of modes."""
    assert call(particle, name, {"w": 0.0}) == pytest.approx(0.2071918746486116, abs=1e-9)
    np.testing.assert_allclose(call(saddle, name, {"start": [1.0, 1.0]}), [8.246324826140356e-06] * 4, rtol=1e-6)


def test_protocol():
    """Messages are answered one by one, and what cannot be evaluated says why."""
    runs = {"min_runs": 3, "min_seconds": 0}
    messages = [
        {"id": 0, "kind": "start", "eval": "lse"},
        {"id": 1, "kind": "define", "module": "lse"},
        {"id": 2, "kind": "evaluate", "module": "lse", "function": "primal", "input": {"x": [0.0, 0.0], **runs}},
        {"id": 3, "kind": "analysis", "of": 2, "valid": True},
        {"id": 4, "kind": "evaluate", "module": "lse", "function": "primal", "input": {"x": None, **runs}},
        {"id": 5, "kind": "define", "module": "unknown"},
        {"id": 6, "kind": "evaluate", "module": "hello", "function": "double", "input": 3.0},
    ]
    text = "".join(json.dumps(m) + "\n" for m in messages)
    done = run_python(FOLDER / "tool.py", stdin=text)
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r["id"] for r in replies] == list(range(7))
    assert replies[0]["tool"] == "dlvm-py" and replies[1]["success"]
    assert replies[2]["output"] == pytest.approx(np.log(2))
    assert sum(t["name"] == "evaluate" for t in replies[2]["timings"]) == 3
    assert not replies[4]["success"] and "Traceback" in replies[4]["error"]
    assert not replies[5]["success"]
    assert replies[6]["output"] == 6.0


JUDGE = """
import json, sys

def ask(number, **message):
    print(json.dumps({"id": number, **message}), flush=True)
    return json.loads(sys.stdin.readline())

ask(0, kind="start", eval="hello")
assert ask(1, kind="define", module="hello")["success"]
for number, (size, function, expected) in enumerate([("a", "square", 9), ("b", "double", 6), ("c", "double", 0)]):
    message = {"module": "hello", "function": function, "input": 3.0, "description": size}
    reply = ask(2 + 2 * number, kind="evaluate", **message)
    if reply["success"]:
        ask(3 + 2 * number, kind="analysis", of=2 + 2 * number, valid=reply["output"] == expected)
"""

PROGRAM = """#!{python}
import json, sys
of = json.load(open(sys.argv[1]))
print({{"square": of * of, "double": {double} * of}}[sys.argv[2]])
for time in (5000, 1000, 2000, 3000):
    print(json.dumps({{"name": "evaluate", "nanoseconds": time}}))
"""


def test_tools_take_turns(tmp_path, monkeypatch):
    """A suite with one eval, a tool that is right, one whose derivative is wrong, and one without a program for it."""
    judge = tmp_path / "python" / "gradbench" / "gradbench" / "evals" / "hello" / "run.py"
    judge.parent.mkdir(parents=True)
    judge.write_text(JUDGE)
    for name, double in (("right", 2), ("wrong", 3)):
        program = tmp_path / name / "hello"
        program.parent.mkdir()
        program.write_text(PROGRAM.format(python=sys.executable, double=double))
        program.chmod(0o755)
    (tmp_path / "empty").mkdir()
    tools = {name: [str(tmp_path / name)] for name in ("right", "wrong", "empty")}
    tools["dead"] = [sys.executable, "-c", "raise SystemExit(3)"]
    setting = Setting(threads=1, seconds=0.01, turns=2, limit=60)
    square, double, unwanted = session(tmp_path, "hello", tools, [], setting)
    assert square["valid"] and double["valid"] and not unwanted["valid"]
    assert square["case"]["kernel"] == "hello a" and (square["mode"], double["mode"]) == ("function", "gradient")
    assert square["tools"]["dlvm-py"]["time_s"] > 0
    assert square["tools"]["right"]["time_s"] == square["tools"]["wrong"]["time_s"] == 2e-6
    assert double["tools"]["wrong"] == {"error": "its outputs differ from ours"}
    assert double["tools"]["empty"] == {} and "ended with code 3" in double["tools"]["dead"]["error"]
    monkeypatch.setattr("session.CLOSED_FORMS", {("right", "hello", "double")})
    first, second = session(tmp_path, "hello", {"right": tools["right"]}, [], setting, sizes=("a", "b"))
    assert second["case"]["kernel"] == "hello b" and second["valid"]
    assert "right" in first["tools"] and "right" not in second["tools"]
