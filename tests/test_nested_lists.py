"""Lists in lists whose lengths are computed: values, types, identity, exceptions and derivatives as plain Python's."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm_py as dlvm

pytestmark = pytest.mark.usefixtures("plain_code")

TABLE = [[1, 2, 3], [4, 5, 6]]


def moves_lists(rows, k):
    rows[k][0] = 9.0
    first = rows.pop(k)
    rows.append(rows[0])
    first.append(rows[-1][0])
    if k > 1:
        raise ValueError(f"{len(rows)}")
    rows[-1].clear()
    rows.insert(k, [first[0]])
    return rows[k], first, [rows[k + 1]]


def test_lists_of_the_caller_stay_the_very_objects():
    """In the list, twice in it, and out of it; also where an exception leaves. New numbers in old lists."""
    compiled = dlvm.jit(moves_lists)
    for k in (0, 2):
        found = []
        for f in (compiled, moves_lists):
            rows = [[1.0], [2.0, 3.0], [4.0]]
            own = list(rows)
            try:
                a, b, (c,) = f(rows, k)
                own += [a, b, c]
            except ValueError as error:
                assert str(error) == "3" and k == 2
            found.append((rows, own, [[a is b for a in (*rows, *own)] for b in own]))
        assert found[0] == found[1]


def test_long_rows_of_the_caller():
    """Lists that come as arrays move into lists of lists, and are written back, as short ones."""

    def f(rows, k):
        rows[k][0] += 1.0
        rows[1 - k].append(rows[k].pop(k))
        return rows[k]

    rows, own = ([[0.5 + i % 5 for i in range(n)] for n in (257, 300)] for _ in range(2))
    first = dlvm.jit(f)(rows, 1)
    assert first is rows[1] and f(own, 1) is own[1]
    assert rows == own


def test_long_lists_have_gradients():
    def f(xs, a):
        for i in range(len(xs)):
            xs[i] = xs[i] * a
        return sum(xs)

    for n in (257, 300):
        xs = [float(k) for k in range(n)]
        g, a = dlvm.grad(f, wrt=(0, 1))(xs, 3.0)
        assert g == [3.0] * n and a == sum(xs) and xs[1] == 1.0
    assert dlvm.jvp(f, (xs, 2.0), ([1.0] * n, 0.0)) == (2.0 * sum(xs), 2.0 * n)
    assert dlvm.jit(lambda xs: sum(xs) * 2.0).source(xs).count("np.array(xs, np.float64)") == 1


def test_numbers_of_lists_of_the_caller_keep_their_type():
    def f(rows, k):
        rows[k][0] = 0.5

    with pytest.raises(dlvm.UnsupportedSyntax, match="it holds an int from the call"):
        dlvm.jit(f)([[1], [2]], 0)


def written(m, n):
    d = [[0.0] * n for _ in range(m)]
    for i in range(m):
        for j in range(n):
            d[i][j] = i * 10.0 + j
    return d


def nested(m, n):
    square = [[i * j for j in range(n)] for i in range(m)]
    return square, [[row[i] for row in square] for i in range(n)], [r[:] for r in square], [sum(r) for r in square]


def pascal(n):
    t = []
    for i in range(n):
        row = [1] * (i + 1)
        for j in range(1, i):
            row[j] = t[i - 1][j - 1] + t[i - 1][j]
        t.append(row)
    return t, t[-1][n // 2], t[n - 1]


def common(a, b):
    m, n = len(a), len(b)
    table = [[0] * (n + 1) for _ in range(m + 1)]
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            if a[i - 1] == b[j - 1]:
                table[i][j] = table[i - 1][j - 1] + 1
            else:
                table[i][j] = max(table[i - 1][j], table[i][j - 1])
    return table[m][n]


def one_row(m, n):
    g = [[0] * n] * m
    g[0][1] = 5
    h = [[0] * 2] * 2
    h[0][0] = 1
    return g, h


def aliases(m):
    g = [[0] * 2 for _ in range(m)]
    b = g[1]
    b[0] = 7
    g[1].append(3)
    g[0] = b
    b.append(9)
    return g, len(b), sum(b)


def neighbours(n):
    a = [[] for _ in range(n)]
    for i in range(n):
        for j in range(n):
            if (i * j) % 3 == 1:
                a[i].append(j)
                a[j].append(i)
    order, seen, k = [1], [False] * n, 0
    while k < len(order):
        u = order[k]
        k += 1
        for v in a[u]:
            if not seen[v]:
                seen[v] = True
                order.append(v)
    return a, order


def life(n, steps):
    g = [[(i * 7 + j * 3) % 4 == 0 for j in range(n)] for i in range(n)]
    for _ in range(steps):
        new = [[False] * n for _ in range(n)]
        for i in range(n):
            for j in range(n):
                c = 0
                for di in range(-1, 2):
                    for dj in range(-1, 2):
                        if (di != 0 or dj != 0) and g[(i + di) % n][(j + dj) % n]:
                            c += 1
                new[i][j] = c == 3 or (g[i][j] and c == 2)
        g = new
    return g


def table_of(x):
    rows = []
    for v in x:
        rows.append([v, v * v])
    return np.array(rows)


def cube(n):
    d = [[[0] * n for _ in range(n)] for _ in range(n)]
    d[1][0][1] = 3
    d[0].append([5])
    return d


def constants(i, j):
    t = [[1, 2], [3, 4]]
    t[i][j] += 10
    return t, t[j][i], TABLE[i][j]


def merged(n):
    spans = [[i, i + (i % 3)] for i in range(n)]
    out = [spans[0]]
    for cur in spans[1:]:
        if out[-1][1] >= cur[0]:
            out[-1][1] = max(out[-1][1], cur[1])
        else:
            out.append(cur)
    return out, spans


def popped(n):
    s = [[i, i + 1] for i in range(n)]
    t = 0
    while s:
        a = s.pop()
        t += a[0] * a[1]
    return t


def in_tuples(n):
    r = []
    for i in range(n):
        r.append((i, [i] * i))
    _, items = r[n - 1]
    items.append(4)
    return r


def shortest(graph, n):
    dist = [row[:] for row in graph]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                dist[i][j] = min(dist[i][j], dist[i][k] + dist[k][j])
    return dist


def product(a, b):
    c = [[0] * len(b[0]) for _ in range(len(a))]
    for i in range(len(a)):
        for j in range(len(b[0])):
            for k in range(len(b)):
                c[i][j] += a[i][k] * b[k][j]
    return c


def methods(n):
    g = [[3 - i, i] for i in range(n)]
    g[1].insert(0, 8)
    g[0].extend(g[1])
    g[2].reverse()
    g[1].sort()
    last = g[n - 1]
    last.pop(0)
    return g, sorted(g, key=lambda r: r[0]), g[1].index(2), 8 in g[0], g[0][1:]


def chosen(n, flag):
    rows = []
    if flag:
        rows.append([n, 1])
    rows.append([2, 3])
    best = rows[0]
    for i in range(n):
        row = [i] * 2
        rows.append(row)
        if i == 1:
            best = row
    best.append(5)
    return rows


def out_of_range(i):
    g = [[0] * i for _ in range(3)]
    return g[2][i]


def from_empty(i):
    g = [[] for _ in range(i)]
    return g[0].pop()


CASES = [
    (written, (2, 3)), (nested, (2, 3)), (pascal, (6,)), (common, (np.array([1, 2, 3, 4, 5]), np.array([2, 4, 5, 1]))),
    (one_row, (3, 2)), (aliases, (3,)), (neighbours, (6,)), (life, (5, 3)), (table_of, (np.arange(4.0),)), (cube, (2,)),
    (constants, (0, 1)), (merged, (7,)), (popped, (4,)), (in_tuples, (3,)), (methods, (4,)), (chosen, (3, True)),
    (shortest, ([[0.0, 3.0, 9.0], [4.0, 0.0, 2.5], [1.0, 7.0, 0.0]], 3)), (product, ([[1, 2], [3, 4]], [[5], [6]])),
    (out_of_range, (2,)), (from_empty, (2,)),
]  # fmt: skip


def _shown(call, args):
    try:
        return repr(call(*args))
    except IndexError as error:
        return str(error).split("\n")[0]


LONG = {neighbours, cube, methods, pascal, merged}  # to compile


@pytest.mark.parametrize(
    ("f", "args"),
    [pytest.param(f, args, marks=pytest.mark.slow) if f in LONG else (f, args) for f, args in CASES],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_as_python(f, args):
    assert _shown(dlvm.jit(f), args) == _shown(f, args)


def test_shared_lists_are_shared_in_the_result():
    rows, _ = dlvm.jit(one_row)(3, 2)
    assert rows[0] is rows[2]


def aligned(x, y, gap):
    cost = [[0.0] * (len(y) + 1) for _ in range(len(x) + 1)]
    for i in range(1, len(x) + 1):
        cost[i][0] = cost[i - 1][0] + gap
        for j in range(1, len(y) + 1):
            cost[0][j] = cost[0][j - 1] + gap
            step = cost[i - 1][j - 1] + (x[i - 1] - y[j - 1]) ** 2
            cost[i][j] = min(step, cost[i - 1][j] + gap, cost[i][j - 1] + gap)
    rows = []
    for i in range(len(x)):
        rows.append([])
        for j in range(i + 1):
            rows[i].append(x[j] * x[i])
    return cost[len(x)][len(y)] + sum(sum(row) for row in rows)


def test_gradient_against_differences():
    x, y, gap, h = np.array([0.3, 1.2, -0.4]), np.array([0.1, 1.5]), 0.9, 1e-6
    dx, dgap = dlvm.grad(aligned, wrt=("x", "gap"))(x, y, gap)
    steps = np.eye(3) * h
    wanted = [(aligned(x + s, y, gap) - aligned(x - s, y, gap)) / (2 * h) for s in steps]
    np.testing.assert_allclose(dx, wanted, rtol=1e-7)
    np.testing.assert_allclose(dgap, (aligned(x, y, gap + h) - aligned(x, y, gap - h)) / (2 * h), rtol=1e-7)


def ragged(n):
    return np.array([[1.0] * i for i in range(1, n)])


def test_ragged_lists_are_no_array():
    with pytest.raises(ValueError, match="inhomogeneous shape after 1 dimensions"):
        dlvm.jit(ragged)(4)


def grows_what_it_runs_over(n):
    rows = [[1] for _ in range(n)]
    for v in rows[0]:
        if v < n:
            rows[0].append(v + 1)
    return rows


def test_refused():
    with pytest.raises(dlvm.UnsupportedSyntax, match="copy"):
        dlvm.jit(grows_what_it_runs_over)(3)
