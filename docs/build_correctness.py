"""Writes docs/correctness.md: the wrong-gradient corpus by dlvm-py and by the tools that are installed.

    python docs/build_correctness.py [--python INTERPRETER ...]

Other tools run in processes of their own, each by the first interpreter that has it: this one, then those that are
given. Prints the counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from corpus import CASES, Case  # noqa: E402
from corpus.case import float_leaves  # noqa: E402
from corpus.executors import EXECUTORS, moved, reverse  # noqa: E402
from corpus.peers import TOOLS, plain  # noqa: E402

from dlvm_py.checking.differences import difference  # noqa: E402

PAGE = ROOT / "docs" / "correctness.md"
RIGHT, CONVENTION, NAN, WRONG, REFUSED = "right", "convention", "NaN", "wrong", "refused"
KINDS = (RIGHT, CONVENTION, NAN, WRONG, REFUSED)

HEAD = """# Right gradients, and wrong ones

Made by `make corpus` (docs/build_correctness.py) from `tests/corpus`: minimal programs, one for each way in which tools
for automatic differentiation are known to fail, each with the gradient that it should have. That is a closed form, or
central differences of plain Python; tests/test_corpus.py checks dlvm-py on each in reverse mode, forward mode and
second order, by native code, by the reference interpreter and by the Python text of `source()`.

The other columns are what the same text gives with `np` replaced by the tool's own NumPy (`jax.numpy` without `jit`,
PyTorch's NumPy namespace, `autograd.numpy`), on one machine, from the entry values of the arguments. *right*: at all
points of the program. *wrong*: another number, in silence; the first one that differs is shown. Where a tool's arrays
are immutable, `row *= 3` there means another program: that is a wrong number for who wrote NumPy code. *convention*:
another finite value at a kink, where tools may choose (docs/derivatives.md says what dlvm-py chooses), or a complex
gradient conjugated. *NaN*: NaN or infinite where the derivative is finite. *refused*: an exception, which is no fault
in the sense of this page; such programs have to be written anew for that tool.

"""


def expected(case: Case, k: int) -> np.ndarray:
    """The gradient as one vector, complex numbers by their parts."""
    if case.gradient is not None:
        return np.array(plain(case.gradient(*case.args(k))))
    args = case.args(k)
    sizes = [np.size(leaf) for w in case.wrt for leaf in float_leaves(args[w])]
    found = []
    for at in range(sum(sizes)):
        unit = np.zeros(sum(sizes))
        unit[at] = 1.0
        along = _shaped(case, args, unit)
        found.append(
            difference(lambda t, along=along: np.array([float(case.fn(*moved(case, args, along, t)))])).value[0]
        )
    return np.array(found)


def _shaped(case: Case, args: tuple[Any, ...], entries: np.ndarray) -> tuple[Any, ...]:
    """A direction: for each of `wrt` its leaves in a tuple."""
    found, at = [], 0
    for w in case.wrt:
        leaves = []
        for leaf in float_leaves(args[w]):
            leaves.append(np.reshape(entries[at : at + np.size(leaf)], np.shape(leaf)))
            at += np.size(leaf)
        found.append(tuple(leaves))
    return tuple(found)


def judge(case: Case, got: list[float], want: np.ndarray) -> tuple[str, str]:
    """What a gradient is, and how to show it."""
    single = any(np.asarray(leaf).dtype == np.float32 for leaf in float_leaves(case.args(0)))
    limit = 1e-4 if single else 1e-7
    if len(got) != len(want):
        return WRONG, f"wrong: {len(got)} entries for {len(want)}"
    near = np.isclose(got, want, rtol=limit, atol=limit, equal_nan=True)
    if near.all():
        return RIGHT, "right"
    at = int(np.argmin(near))
    shown = f"{got[at]:.3g} for {want[at]:.3g}"
    if not np.isfinite(np.array(got)[~near]).all():
        return NAN, f"**NaN** for {want[at]:.3g}" if np.isnan(got[at]) else f"**{shown}**"
    is_complex = any(np.iscomplexobj(leaf) for leaf in float_leaves(case.args(0)))
    conjugated = is_complex and np.allclose(got[::2], want[::2]) and np.allclose(got[1::2], -want[1::2])
    if case.kink or conjugated:
        return CONVENTION, f"convention: {shown}"
    return WRONG, f"**wrong**: {shown}"


def by_tool(tool: str, interpreters: list[str]) -> tuple[str, dict[tuple[str, int], dict[str, Any]]]:
    """(title, what each program gave); a process that dies counts as a refusal of all that it left."""
    title = TOOLS[tool][0]
    for python in interpreters:
        paths = os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))
        done = subprocess.run(
            [python, "-m", "corpus.peers", tool], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if lines and lines[0]["installed"]:
            return lines[0]["tool"], {(line["case"], line["point"]): line for line in lines[1:]}
    return f"{title} (not installed)", {}


def main() -> None:
    """Run everything, print the counts, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], help="another interpreter that may have tools")
    interpreters = [sys.executable, *parser.parse_args().python]
    np.seterr(all="ignore")
    columns = [by_tool(tool, interpreters) for tool in TOOLS]
    titles = ["dlvm-py", *(title for title, _ in columns)]
    counts = {title: dict.fromkeys(KINDS, 0) for title in titles}
    rows = []
    for case in CASES.values():
        cells: list[tuple[str, str]] = [(RIGHT, "right")] * len(titles)
        for k in range(len(case.points)):
            want = expected(case, k)
            ours = [run(reverse(case), case.args(k))[1:] for run in EXECUTORS.values()]
            found = [max((judge(case, plain(g), want) for g in ours), key=_worse)]
            for _, results in columns:
                line = results.get((case.name, k), {"refused": "ended"} if results else {})
                if "gradient" in line:
                    found.append(judge(case, line["gradient"], want))
                else:
                    found.append((REFUSED, f"refused: {line['refused']}") if line else ("", ""))
            cells = [max(pair, key=_worse) for pair in zip(cells, found, strict=True)]
        for title, (kind, _) in zip(titles, cells, strict=True):
            if kind:
                counts[title][kind] += 1
        known = f" Known: {case.known}." if case.known else ""
        rows.append(f"| `{case.name}` | {case.about}.{known} | " + " | ".join(text for _, text in cells) + " |")
    table = ["| tool | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    table += [f"| {t} | " + " | ".join(str(counts[t][kind]) for kind in KINDS) + " |" for t in titles]
    print("\n".join(table))
    body = ["| program | what, and where it is known to fail | " + " | ".join(titles) + " |"]
    body += ["|---" * (len(titles) + 2) + "|", *rows]
    PAGE.write_text(HEAD + "\n".join([f"{len(CASES)} programs:\n", *table, "", *body]) + "\n", encoding="utf-8")
    if any(counts["dlvm-py"][kind] for kind in KINDS[1:]):
        raise SystemExit("dlvm-py is not right on all of them")


_ORDER = (RIGHT, REFUSED, CONVENTION, NAN, WRONG)


def _worse(cell: tuple[str, str]) -> int:
    return _ORDER.index(cell[0]) if cell[0] else len(_ORDER)


if __name__ == "__main__":
    main()
