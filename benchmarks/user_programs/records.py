"""Tables of data, prices, small statistics."""

import math

import numpy as np

from user_programs.registry import numbers, program


@program(lambda s: (numbers().integers(0, 20, 100 * s), numbers(1).random(100 * s)))
def group_sums(keys, values):
    """Sums, counts and maxima of groups."""
    sums = np.zeros(20)
    counts = np.zeros(20, np.int64)
    largest = np.full(20, -np.inf)
    for i in range(keys.size):
        k = keys[i]
        sums[k] += values[i]
        counts[k] += 1
        if values[i] > largest[k]:
            largest[k] = values[i]
    return sums, counts, largest


@program(lambda s: (np.sort(numbers().integers(0, 40 * s, 30 * s)), np.sort(numbers(1).integers(0, 40 * s, 30 * s))))
def join_sorted(a, b):
    """Pairs of places with equal keys."""
    left = []
    right = []
    i = 0
    j = 0
    while i < len(a) and j < len(b):
        if a[i] < b[j]:
            i += 1
        elif a[i] > b[j]:
            j += 1
        else:
            k = j
            while k < len(b) and b[k] == a[i]:
                left.append(i)
                right.append(k)
                k += 1
            i += 1
    return np.array(left), np.array(right)


@program(lambda s: (numbers().random(100 * s),))
def histogram(x):
    """Counts in bins of the same width."""
    bins = np.zeros(32, np.int64)
    for v in x:
        k = int(v * 32)
        if 0 <= k < 32:
            bins[k] += 1
    return bins


@program(lambda s: (numbers().random(100 * s) + 1,))
def drawdown(price):
    """The greatest loss from a maximum."""
    peak = price[0]
    worst = 0.0
    for p in price:
        if p > peak:
            peak = p
        d = (peak - p) / peak
        if d > worst:
            worst = d
    return worst


@program(lambda s: (100.0, 95.0, 0.05, 0.2, 1.0, 3 * s), rounds=True)
def american_put(spot, strike, rate, vol, years, steps):
    """An option by a binomial tree."""
    dt = years / steps
    up = math.exp(vol * math.sqrt(dt))
    disc = math.exp(-rate * dt)
    p = (math.exp(rate * dt) - 1 / up) / (up - 1 / up)
    value = np.empty(steps + 1)
    for i in range(steps + 1):
        value[i] = max(strike - spot * up ** (2 * i - steps), 0.0)
    for n in range(steps - 1, -1, -1):
        for i in range(n + 1):
            hold = disc * (p * value[i + 1] + (1 - p) * value[i])
            value[i] = max(hold, strike - spot * up ** (2 * i - n))
    return value[0]


@program(lambda s: (20 * s, 100.0, 105.0, 7), rounds=True)
def monte_carlo_call(paths, spot, strike, seed):
    """An option by random paths, with normal numbers of two uniform ones."""
    x = seed
    total = 0.0
    for _ in range(paths):
        x = (1103515245 * x + 12345) & 0x7FFFFFFF
        u = (x + 1) / 2147483649.0
        x = (1103515245 * x + 12345) & 0x7FFFFFFF
        v = x / 2147483648.0
        z = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
        end = spot * math.exp(0.03 + 0.2 * z)
        total += max(end - strike, 0.0)
    return total / paths


def normal_cdf(x):
    """The normal distribution."""
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


@program(lambda s: (numbers().random(10 * s) * 50 + 80, numbers(1).random(10 * s) + 0.1), rounds=True)
def black_scholes(spot, years):
    """Prices of options, by the formula."""
    out = np.empty(spot.size)
    for i in range(spot.size):
        sd = 0.2 * math.sqrt(years[i])
        d1 = (math.log(spot[i] / 100.0) + (0.05 + 0.02) * years[i]) / sd
        d2 = d1 - sd
        out[i] = spot[i] * normal_cdf(d1) - 100.0 * math.exp(-0.05 * years[i]) * normal_cdf(d2)
    return out


@program(lambda s: (numbers().random(60 * s) + 1, 5, 20))
def crossover(price, fast, slow):
    """Trades where a fast average crosses a slow one."""
    a = price[0]
    b = price[0]
    cash = 1000.0
    shares = 0.0
    trades = 0
    for i in range(1, price.size):
        was = a > b
        a += (price[i] - a) * 2 / (fast + 1)
        b += (price[i] - b) * 2 / (slow + 1)
        if a > b and not was and cash > 0:
            shares = cash / price[i]
            cash = 0.0
            trades += 1
        elif a < b and was and shares > 0:
            cash = shares * price[i]
            shares = 0.0
            trades += 1
    return cash + shares * price[-1], trades


@program(lambda s: (numbers().random(60 * s) + 1, 14))
def relative_strength(price, n):
    """The index of gains and losses."""
    out = np.zeros(price.size)
    gain = 0.0
    loss = 0.0
    for i in range(1, price.size):
        d = price[i] - price[i - 1]
        g = d if d > 0 else 0.0
        v = -d if d < 0 else 0.0
        if i <= n:
            gain += g / n
            loss += v / n
        else:
            gain = (gain * (n - 1) + g) / n
            loss = (loss * (n - 1) + v) / n
        if i >= n:
            out[i] = 100.0 if loss == 0 else 100.0 - 100.0 / (1.0 + gain / loss)
    return out


@program(lambda s: (numbers().random(100 * s),))
def running_moments(x):
    """Mean, variance and skewness in one pass (Welford)."""
    n = 0
    mean = 0.0
    m2 = 0.0
    m3 = 0.0
    for v in x:
        n += 1
        d = v - mean
        dn = d / n
        t = d * dn * (n - 1)
        mean += dn
        m3 += t * dn * (n - 2) - 3 * dn * m2
        m2 += t
    return mean, m2 / n, m3 / n


@program(lambda s: (numbers().integers(0, 50, 60 * s),))
def hash_unique(x):
    """Different numbers, by a table with open addresses."""
    size = 256
    table = np.full(size, -1)
    count = 0
    for v in x:
        h = (v * 2654435761) & (size - 1)
        while table[h] != -1 and table[h] != v:
            h = (h + 1) & (size - 1)
        if table[h] == -1:
            table[h] = v
            count += 1
    return count, table


@program(lambda s: (numbers().random((10 * s, 8)), numbers(1).integers(0, 2, 10 * s)))
def best_split(x, y):
    """The feature and threshold that part classes best, of four thresholds each."""
    n, m = x.shape
    best = 2.0
    feature = -1
    where = 0.0
    for j in range(m):
        for q in range(1, 5):
            t = q / 5.0
            left = right = left_ones = right_ones = 0
            for i in range(n):
                if x[i, j] < t:
                    left += 1
                    left_ones += y[i]
                else:
                    right += 1
                    right_ones += y[i]
            if left == 0 or right == 0:
                continue
            p = left_ones / left
            r = right_ones / right
            gini = (left * p * (1 - p) + right * r * (1 - r)) / n
            if gini < best:
                best = gini
                feature = j
                where = t
    return feature, where, best


@program(lambda s: (numbers().random((20 * s, 4)), numbers(1).integers(0, 2, 20 * s), 0.1), rounds=True)
def logistic_steps(x, y, rate):
    """One pass of stochastic steps for a logistic model."""
    n, m = x.shape
    w = np.zeros(m)
    for i in range(n):
        z = 0.0
        for j in range(m):
            z += w[j] * x[i, j]
        e = 1.0 / (1.0 + math.exp(-z)) - y[i]
        for j in range(m):
            w[j] -= rate * e * x[i, j]
    return w


@program(lambda s: (numbers().random(40 * s), 0.05))
def missing_filled(x, level):
    """Gaps (numbers below a level) filled from the left, with how long they were."""
    out = x.copy()
    longest = 0
    run = 0
    for i in range(x.size):
        if x[i] < level and i > 0:
            out[i] = out[i - 1]
            run += 1
            longest = max(longest, run)
        else:
            run = 0
    return out, longest
