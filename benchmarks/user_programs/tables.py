"""Tables of dynamic programming."""

import math

import numpy as np

from user_programs.registry import numbers, program


@program(
    lambda s: (
        numbers().integers(0, 6, 5 * s),
        np.log(numbers().random((8, 8))),
        np.log(numbers(1).random((8, 6))),
        np.log(numbers(2).random(8)),
    )
)
def viterbi(obs, tr, em, init):
    """The likeliest path of states."""
    T = obs.shape[0]
    n = init.shape[0]
    v = np.empty((T, n))
    back = np.zeros((T, n), np.int64)
    for j in range(n):
        v[0, j] = init[j] + em[j, obs[0]]
    for t in range(1, T):
        for j in range(n):
            best = -np.inf
            arg = 0
            for i in range(n):
                s = v[t - 1, i] + tr[i, j]
                if s > best:
                    best = s
                    arg = i
            v[t, j] = best + em[j, obs[t]]
            back[t, j] = arg
    path = np.zeros(T, np.int64)
    b = 0
    for j in range(n):
        if v[T - 1, j] > v[T - 1, b]:
            b = j
    path[T - 1] = b
    for t in range(T - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path


@program(lambda s: (numbers().integers(0, 4, 3 * s), numbers(1).integers(0, 4, 3 * s)))
def lcs2(a, b):
    """The longest common subsequence, by two rows."""
    n = len(a)
    m = len(b)
    prev = np.zeros(m + 1, np.int64)
    cur = np.zeros(m + 1, np.int64)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if a[i - 1] == b[j - 1]:
                cur[j] = prev[j - 1] + 1
            elif prev[j] >= cur[j - 1]:
                cur[j] = prev[j]
            else:
                cur[j] = cur[j - 1]
        for j in range(m + 1):
            prev[j] = cur[j]
    return prev[m]


@program(
    lambda s: (numbers().integers(0, 4, 3 * s).astype(np.uint8), numbers(1).integers(0, 4, 3 * s).astype(np.uint8))
)
def lev2(a, b):
    """Levenshtein's distance of bytes, by two rows in turn."""
    n = a.size
    m = b.size
    prev = np.arange(m + 1)
    cur = np.zeros(m + 1, np.int64)
    for i in range(n):
        cur[0] = i + 1
        for j in range(m):
            cost = 0 if a[i] == b[j] else 1
            cur[j + 1] = min(prev[j + 1] + 1, cur[j] + 1, prev[j] + cost)
        prev, cur = cur, prev
    return prev[m]


@program(lambda s: (numbers().random((2 * s, 3 * s)),))
def min_path(g):
    """The cheapest way down, by two rows in turn."""
    n, m = g.shape
    prev = g[0].copy()
    cur = np.empty(m)
    for i in range(1, n):
        for j in range(m):
            best = prev[j]
            if j > 0 and prev[j - 1] < best:
                best = prev[j - 1]
            if j < m - 1 and prev[j + 1] < best:
                best = prev[j + 1]
            cur[j] = best + g[i, j]
        prev, cur = cur, prev
    return prev.min()


@program(lambda s: (numbers().integers(1, 50, s), numbers(1).integers(1, 100, s), 10 * s))
def knapsack(w, v, cap):
    """The best load, by weights."""
    dp = np.zeros(cap + 1, np.int64)
    for i in range(len(w)):
        for c in range(cap, w[i] - 1, -1):
            cand = dp[c - w[i]] + v[i]
            if cand > dp[c]:
                dp[c] = cand
    return dp[cap]


@program(lambda s: (numbers().integers(-100, 100, 100 * s),))
def kadane(x):
    """The largest sum of a run, and where."""
    best = x[0]
    cur = x[0]
    start = 0
    bs = 0
    be = 0
    for i in range(1, len(x)):
        if cur < 0:
            cur = x[i]
            start = i
        else:
            cur += x[i]
        if cur > best:
            best = cur
            bs = start
            be = i
    return best, bs, be


@program(lambda s: (numbers().integers(0, 5, 4 * s), numbers(1).integers(0, 5, 4 * s)))
def needleman(a, b):
    """The score of an alignment."""
    n = len(a)
    m = len(b)
    f = np.zeros((n + 1, m + 1), np.int32)
    for i in range(n + 1):
        f[i, 0] = -2 * i
    for j in range(m + 1):
        f[0, j] = -2 * j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            s = 1 if a[i - 1] == b[j - 1] else -1
            f[i, j] = max(f[i - 1, j - 1] + s, f[i - 1, j] - 2, f[i, j - 1] - 2)
    return f[n, m]


@program(lambda s: (numbers().integers(0, 4, 3 * s), numbers(1).integers(0, 4, 3 * s)))
def lcs_table(a, b):
    """The longest common subsequence, by a table."""
    t = np.zeros((len(a) + 1, len(b) + 1), np.int64)
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                t[i + 1, j + 1] = t[i, j] + 1
            else:
                t[i + 1, j + 1] = max(t[i, j + 1], t[i + 1, j])
    return t[len(a), len(b)]


@program(lambda s: (numbers().integers(0, 4, 2 * s), numbers(1).integers(0, 4, 2 * s)))
def damerau(a, b):
    """Levenshtein's distance with letters that change places."""
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1), np.int64)
    for i in range(n + 1):
        d[i, 0] = i
    for j in range(m + 1):
        d[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                d[i, j] = min(d[i, j], d[i - 2, j - 2] + 1)
    return d[n, m]


@program(lambda s: (numbers().integers(0, 4, 2 * s), numbers(1).integers(0, 4, 2 * s)))
def three_ways(a, b):
    """A table whose three ways store: what was done, as a number."""
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1), np.int64)
    way = np.zeros((n + 1, m + 1), np.int8)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if a[i - 1] == b[j - 1]:
                d[i, j] = d[i - 1, j - 1] + 1
                way[i, j] = 0
            elif d[i - 1, j] >= d[i, j - 1]:
                d[i, j] = d[i - 1, j]
                way[i, j] = 1
            else:
                d[i, j] = d[i, j - 1]
                way[i, j] = 2
    i = n
    j = m
    path = []
    while i > 0 and j > 0:
        if way[i, j] == 0:
            path.append(i - 1)
            i -= 1
            j -= 1
        elif way[i, j] == 1:
            i -= 1
        else:
            j -= 1
    total = 0
    for p in path:
        total += p
    return len(path), total


@program(lambda s: (numbers().integers(0, 4, 2 * s), numbers(1).integers(0, 4, 2 * s)))
def smith_waterman(a, b):
    """The best local alignment."""
    n, m = len(a), len(b)
    h = np.zeros((n + 1, m + 1), np.int64)
    best = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            s = 2 if a[i - 1] == b[j - 1] else -1
            v = max(0, h[i - 1, j - 1] + s, h[i - 1, j] - 1, h[i, j - 1] - 1)
            h[i, j] = v
            if v > best:
                best = v
    return best


@program(lambda s: (numbers().random(2 * s), numbers(1).random(2 * s)))
def time_warp(x, y):
    """Dynamic time warping."""
    n, m = len(x), len(y)
    d = np.full((n + 1, m + 1), np.inf)
    d[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = abs(x[i - 1] - y[j - 1])
            d[i, j] = cost + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[n, m]


@program(lambda s: (np.array([1, 2, 5, 10, 20, 50]), 40 * s))
def coin_ways(coins, amount):
    """Ways to pay an amount."""
    ways = np.zeros(amount + 1, np.int64)
    ways[0] = 1
    for c in coins:
        for v in range(c, amount + 1):
            ways[v] = (ways[v] + ways[v - c]) % 1_000_000_007
    return ways[amount]


@program(lambda s: (np.array([1, 7, 10, 22]), 20 * s))
def fewest_coins(coins, amount):
    """The fewest coins that pay an amount."""
    best = np.full(amount + 1, 1 << 30)
    best[0] = 0
    for v in range(1, amount + 1):
        for k in range(coins.shape[0]):
            if coins[k] <= v and best[v - coins[k]] + 1 < best[v]:
                best[v] = best[v - coins[k]] + 1
    return best[amount]


@program(lambda s: (numbers().integers(0, 1000, 3 * s),))
def longest_rising(x):
    """The longest subsequence that rises, by comparing all."""
    n = len(x)
    best = np.ones(n, np.int64)
    top = 0
    for i in range(n):
        for j in range(i):
            if x[j] < x[i] and best[j] + 1 > best[i]:
                best[i] = best[j] + 1
        if best[i] > top:
            top = best[i]
    return top


@program(lambda s: (numbers().integers(1, 30, s // 2 + 2),))
def matrix_chain(p):
    """The cheapest order of products."""
    n = len(p) - 1
    m = np.zeros((n, n), np.int64)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            m[i, j] = 1 << 60
            for k in range(i, j):
                q = m[i, k] + m[k + 1, j] + p[i] * p[k + 1] * p[j + 1]
                if q < m[i, j]:
                    m[i, j] = q
    return m[0, n - 1]


@program(lambda s: ((numbers().random((2 * s, 2 * s)) < 0.8).astype(np.int64),))
def largest_square(g):
    """The largest square of ones."""
    h, w = g.shape
    d = np.zeros((h + 1, w + 1), np.int64)
    best = 0
    for i in range(h):
        for j in range(w):
            if g[i, j] == 1:
                d[i + 1, j + 1] = min(d[i, j], min(d[i, j + 1], d[i + 1, j])) + 1
                best = max(best, d[i + 1, j + 1])
    return best * best


@program(
    lambda s: (numbers().random((4, 4)), numbers(1).random((4, 6)), numbers(2).integers(0, 6, 10 * s)), rounds=True
)
def hmm_forward(tr, em, obs):
    """The likelihood of observations, scaled in each step."""
    n = tr.shape[0]
    alpha = np.full(n, 1.0 / n)
    new = np.empty(n)
    loglik = 0.0
    for t in range(obs.size):
        total = 0.0
        for j in range(n):
            acc = 0.0
            for i in range(n):
                acc += alpha[i] * tr[i, j]
            new[j] = acc * em[j, obs[t]]
            total += new[j]
        for j in range(n):
            alpha[j] = new[j] / total
        loglik += math.log(total)
    return loglik


@program(lambda s: (numbers().integers(1, 100, s),))
def rod_cutting(price):
    """The best way to cut a rod, and its pieces."""
    n = len(price)
    best = np.zeros(n + 1, np.int64)
    first = np.zeros(n + 1, np.int64)
    for length in range(1, n + 1):
        for cut in range(1, length + 1):
            v = price[cut - 1] + best[length - cut]
            if v > best[length]:
                best[length] = v
                first[length] = cut
    pieces = 0
    left = n
    while left > 0:
        left -= first[left]
        pieces += 1
    return best[n], pieces
