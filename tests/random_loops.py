"""Loops that are kernels written out: windows, poolings, dots and products of a triangle's rows, updates of columns.

What raise_loops, gather_windows, hoist_products, widen_loops, plane_layouts and row_strips look for, and what looks
like it: sources and targets are drawn from the same names, so that they are the same array by times. For random
programs.
"""

from __future__ import annotations

from random_python import Scope, Writer

# each a loop nest: u, v, w of n; h of 3; g of (n, n); c, d of any shape; f a number; i, j, q, t fresh names
WINDOWS = (
    ("for {i} in range(len({u}) - 2):", "    {w}[{i}] {op} 0.3 * np.sum({u}[{i}:{i} + 3] * {h})"),
    ("for {i} in range(len({u}) - 3, -1, -1):", "    {w}[{i} + 1] {op} 0.5 * np.max({u}[{i}:{i} + 2])"),
    ("for {i} in range(len({u}) // 2):", "    {w}[{i}] {op} np.{fold}({u}[2 * {i}:2 * {i} + 2])"),
    ("for {i} in range(1, len({u}) - 1):", "    {w}[{i}] = 0.4 * np.{fold}({u}[{i} - 1:{i} + 2] * {v}[{i}])"),
    (
        "for {i} in range(len({u}) - 2):",
        "    {t} = {f}",
        "    for {q} in range(3):",
        "        {t} += 0.3 * {u}[{i} + {q}] * {h}[{q}]",
        "    {w}[{i}] {op} {t}",
    ),
    (
        "for {i} in range(len({u}) - 2):",
        "    for {q} in range(3):",
        "        {w}[{i} + {q}] {op} 0.3 * {u}[{i}] * {h}[{q}]",
    ),
    (
        "for {i} in range({c}.shape[0] - 1):",
        "    for {j} in range({c}.shape[1] - 1):",
        "        {d}[{i}, {j}] {op} 0.25 * np.{fold}({c}[{i}:{i} + 2, {j}:{j} + 2])",
    ),
    (
        "for {i} in range({c}.shape[0] // 2):",
        "    for {j} in range({c}.shape[1] // 2):",
        "        {d}[{i}, {j}] {op} np.{fold}({c}[2 * {i}:2 * {i} + 2, 2 * {j}:2 * {j} + 2])",
    ),
    (
        "for {i} in range({c}.shape[0] - 1):",
        "    {d}[{i}, :] {op} 0.3 * np.{fold}({c}[{i}:{i} + 2, :], axis=0)",
    ),
)
PRODUCTS = (
    ("for {i} in range(len({u})):", "    {w}[{i}] {op} 0.3 * ({g}[{i}, :] @ {u})"),
    ("for {i} in range(len({u})):", "    {w}[{i}] = 0.3 * ({u}[{i}] - {g}[{i}, :{i}] @ {w}[:{i}])"),
    ("for {i} in range(len({u})):", "    {w}[:{i}] {op} 0.2 * ({u}[{i}:] @ {g}[{i}:, :{i}])"),
    ("for {i} in range(len({u})):", "    {g}[{i}, {i}:] {op} 0.2 * ({c}[{i}] @ {c}[{i}:].T)"),
    (
        "for {i} in range({c}.shape[1]):",
        "    {k}[{i}, {i}:] = 0.3 * ({c}[:, {i}] @ {c}[:, {i}:])",
        "    {k}[{i}:, {i}] = {k}[{i}, {i}:]",
    ),
    (
        "for {i} in range(len({u})):",
        "    for {j} in range({i}):",
        "        {g}[{i}, {j}] -= 0.1 * ({g}[{i}, :{j}] @ {g}[{j}, :{j}])",
        "    {g}[{i}, {i}] = np.tanh({g}[{i}, {i}] - {g}[{i}, :{i}] @ {g}[{i}, :{i}])",
    ),
    (
        "for {i} in range({c}.shape[0]):",
        "    for {j} in range({c}.shape[1]):",
        "        {c}[{i}, {j}] += 0.1 * np.dot({g}[{i} + 1:, {i}], {c}[{i} + 1:, {j}])",
    ),
    (
        "for {i} in range(len({u})):",
        "    {g}[{i}, :{i} + 1] *= 0.5",
        "    for {j} in range({c}.shape[1]):",
        "        {g}[{i}, :{i} + 1] += 0.2 * {f} * {c}[{i}, {j}] * {c}[:{i} + 1, {j}]",
    ),
    (
        "for {i} in range(len({u})):",
        "    {t} = {f}",
        "    for {j} in range({i}):",
        "        {t} -= 0.2 * {g}[{i}, {j}] * {w}[{j}]",
        "    {w}[{i}] = np.sin({t})",
    ),
    (
        "for {i} in range(len({u})):",
        "    for {j} in range({i} + 1, len({u})):",
        "        {w}[{j}] -= 0.2 * {g}[{i}, {j}] * {v}[{i}]",
    ),
)
# updates a column or a plane a trip; rows of a product, and stencils, that are used further
COLUMNS = (
    ("for {j} in range({c}.shape[1]):", "    {c}[:, {j}] {op} 0.4 * {d}[:, {j}] * {d}[0, {j}]"),
    ("for {j} in range(1, {c}.shape[1]):", "    {c}[1:, {j}] {op} np.sin({d}[1:, {j} - 1] - {c}[:-1, {j}])"),
    ("for {j} in range({c}.shape[1] - 1, -1, -1):", "    {c}[::-1, {j}] {op} 0.3 * ({d}[:, {j}] + {f})"),
    (
        "for {j} in range({c}.shape[1]):",
        "    {c}[:, {j}] = np.where({d}[:, {j}] > 0.2, {c}[:, {j}], 0.5 * {f})",
        "    {d}[:, {j}] -= 0.1 * {c}[:, -1 - {j}]",
    ),
    (
        "{k} = np.zeros((*{c}.shape, 3))",
        "for {j} in range(2):",
        "    {k}[:, :, {j} + 1] = 0.5 * {k}[:, :, {j}] + np.sin({d}) * np.sum({k}[:, :, {j}]) + {c}",
        "{c} {op} 0.2 * {k}[:, :, -1] + np.sum({k}, axis=2)",
    ),
    (
        "{k} = np.tanh({c} @ {d}.T + {f})",
        "{k} = np.exp({k} - np.max({k}, axis=1, keepdims=True))",
        "{c} {op} 0.3 * (({k} / np.sum({k}, axis=1)[:, None]) @ {d})",
    ),
    (
        "{k} = {c}.copy()",
        "{k}[1:-1, 1:-1] {op} 0.2 * ({d}[2:, 1:-1] + {c}[:-2, 1:-1] - {c}[1:-1, 2:] * {d}[1:-1, :-2])",
        "{c} += 0.3 * {k}",
    ),
)


class LoopWriter(Writer):
    """Writes kernels as loops."""

    def written_out(self, s: Scope, i: int) -> None:
        """One of the kernels, over arrays in scope."""
        r = self.r
        square = [n for n, c in s.matrices.items() if c == ("n", "n")]
        if not square:
            square = [self.fresh("w")]
            self.line(i, f"{square[0]} = {self.bounded(self.matrix(s, ('n', 'n'), 1))}")
            s.matrices[square[0]] = ("n", "n")
        c, shape = r.choice(list(s.matrices.items()))
        lines = r.choice(r.choice((WINDOWS, PRODUCTS, COLUMNS)))
        names = {name: r.choice([n for n, d in s.arrays.items() if d == "n"]) for name in "uvw"}
        names |= {"g": r.choice(square), "c": c, "f": r.choice(s.floats), "h": self.leaf(s, "p")}
        names["d"] = r.choice([n for n, d in s.matrices.items() if d == shape])
        names |= {"op": r.choice(("=", "+=", "-=")), "fold": r.choice(("sum", "max", "mean", "min"))}
        names |= {name: self.fresh("i") for name in "ijq"} | {"t": self.fresh("t"), "k": self.fresh("w")}
        if shape[0] != "n":  # rows or columns of a square matrix go with n rows
            names["c"] = names["d"] = names["g"]
        if lines in PRODUCTS and "{k}" in lines[1]:
            self.line(i, f"{names['k']} = np.zeros(({names['c']}.shape[1], {names['c']}.shape[1]))")
            s.matrices[names["k"]] = (s.matrices[names["c"]][1],) * 2
        for line in lines:
            self.line(i, line.format(**names))
