"""Filters and windows over a signal."""

import math

import numpy as np

from user_programs.registry import numbers, program


@program(lambda s: (numbers().random(14 * s), numbers(1).random(31)))
def fir(x, taps):
    """A filter of finite length."""
    out = np.zeros(x.size - taps.size + 1)
    for i in range(out.size):
        acc = 0.0
        for k in range(taps.size):
            acc += x[i + k] * taps[k]
        out[i] = acc
    return out


@program(lambda s: (numbers().random(60 * s), np.array([0.2, 0.4, 0.2]), np.array([1.0, -0.3, 0.1])))
def biquad(x, b, a):
    """A recursive filter of the second order."""
    out = np.empty_like(x)
    z1 = 0.0
    z2 = 0.0
    for i in range(len(x)):
        y = b[0] * x[i] + z1
        z1 = b[1] * x[i] - a[1] * y + z2
        z2 = b[2] * x[i] - a[2] * y
        out[i] = y
    return out


@program(lambda s: (numbers().random(60 * s), 9))
def moving_average(x, n):
    """Means of the last numbers, by a running sum."""
    out = np.empty(x.size - n + 1)
    acc = 0.0
    for i in range(x.size):
        acc += x[i]
        if i >= n:
            acc -= x[i - n]
        if i >= n - 1:
            out[i - n + 1] = acc / n
    return out


@program(lambda s: (numbers().random(20 * s), 7))
def moving_median(x, n):
    """Medians of the last numbers, kept in order."""
    window = np.empty(n)
    out = np.empty(x.size - n + 1)
    for i in range(n):
        v = x[i]
        j = i
        while j > 0 and window[j - 1] > v:
            window[j] = window[j - 1]
            j -= 1
        window[j] = v
    out[0] = window[n // 2]
    for i in range(n, x.size):
        old = x[i - n]
        k = 0
        while window[k] != old:
            k += 1
        v = x[i]
        while k > 0 and window[k - 1] > v:
            window[k] = window[k - 1]
            k -= 1
        while k < n - 1 and window[k + 1] < v:
            window[k] = window[k + 1]
            k += 1
        window[k] = v
        out[i - n + 1] = window[n // 2]
    return out


@program(lambda s: (numbers().random(60 * s), 0.1))
def smoothed(x, alpha):
    """An exponential average."""
    out = np.empty_like(x)
    out[0] = x[0]
    for i in range(1, x.size):
        out[i] = alpha * x[i] + (1 - alpha) * out[i - 1]
    return out


@program(lambda s: (numbers().random(60 * s), 0.7, 5))
def peaks(x, height, gap):
    """Places of maxima that are high and not near to the last one."""
    out = []
    last = -gap
    for i in range(1, len(x) - 1):
        if x[i] > x[i - 1] and x[i] >= x[i + 1] and x[i] > height and i - last >= gap:
            out.append(i)
            last = i
    return np.array(out)


@program(lambda s: (np.sort(numbers().random(5 * s)), numbers(1).random(5 * s), numbers(2).random(200 * s)))
def interpolate(xs, ys, at):
    """A line through points, at others."""
    out = np.empty(at.size)
    for k in range(at.size):
        x = at[k]
        if x <= xs[0]:
            out[k] = ys[0]
            continue
        if x >= xs[-1]:
            out[k] = ys[-1]
            continue
        lo = 0
        hi = xs.size - 1
        while hi - lo > 1:
            mid = (lo + hi) // 2
            if xs[mid] <= x:
                lo = mid
            else:
                hi = mid
        w = (x - xs[lo]) / (xs[hi] - xs[lo])
        out[k] = ys[lo] + w * (ys[hi] - ys[lo])
    return out


@program(lambda s: (numbers().random(5 * s), 40))
def autocorrelation(x, lags):
    """Products of a signal and itself, later."""
    n = len(x)
    mean = 0.0
    for v in x:
        mean += v
    mean /= n
    out = np.zeros(lags)
    for lag in range(min(lags, n)):
        acc = 0.0
        for i in range(n - lag):
            acc += (x[i] - mean) * (x[i + lag] - mean)
        out[lag] = acc
    return out


@program(lambda s: (numbers().random(100 * s) - 0.5,))
def zero_crossings(x):
    """How often a signal changes its sign."""
    count = 0
    for i in range(1, x.shape[0]):
        if (x[i - 1] >= 0.0) != (x[i] >= 0.0):
            count += 1
    return count


@program(lambda s: (numbers().random(2 ** int(math.log2(20 * s))),))
def haar(x):
    """Haar's wavelets, level by level."""
    a = x.copy()
    t = np.empty_like(a)
    n = a.size
    while n > 1:
        half = n // 2
        for i in range(half):
            t[i] = (a[2 * i] + a[2 * i + 1]) * 0.5
            t[half + i] = (a[2 * i] - a[2 * i + 1]) * 0.5
        for i in range(n):
            a[i] = t[i]
        n = half
    return a


@program(lambda s: (numbers().random(2 ** int(math.log2(10 * s))) + 0j,), rounds=True)
def fft_radix2(x):
    """A Fourier transform in place."""
    n = x.size
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            x[i], x[j] = x[j], x[i]
    length = 2
    while length <= n:
        angle = -2 * math.pi / length
        step = complex(math.cos(angle), math.sin(angle))
        for i in range(0, n, length):
            w = 1 + 0j
            for k in range(length // 2):
                u = x[i + k]
                v = x[i + k + length // 2] * w
                x[i + k] = u + v
                x[i + k + length // 2] = u - v
                w *= step
        length <<= 1
    return x


@program(lambda s: (numbers().random(60 * s), 8))
def rolling_std(x, n):
    """Deviations in a window, by two running sums."""
    out = np.full(x.size, np.nan)
    total = 0.0
    squares = 0.0
    for i in range(x.size):
        total += x[i]
        squares += x[i] * x[i]
        if i >= n:
            total -= x[i - n]
            squares -= x[i - n] * x[i - n]
        if i >= n - 1:
            mean = total / n
            out[i] = math.sqrt(max(squares / n - mean * mean, 0.0))
    return out


@program(lambda s: (numbers().random(40 * s), 12))
def rolling_max(x, n):
    """Maxima in a window, by places that can still become one."""
    out = np.empty(x.size)
    queue = np.empty(x.size, np.int64)
    head = 0
    tail = 0
    for i in range(x.size):
        while tail > head and x[queue[tail - 1]] <= x[i]:
            tail -= 1
        queue[tail] = i
        tail += 1
        if queue[head] <= i - n:
            head += 1
        out[i] = x[queue[head]]
    return out


@program(lambda s: (numbers().random((3 * s, 20)),))
def window_max(x):
    """The largest of each row, and its place."""
    best = np.empty(x.shape[0])
    place = np.empty(x.shape[0], np.int64)
    for i in range(x.shape[0]):
        m = x[i, 0]
        k = 0
        for j in range(1, x.shape[1]):
            if x[i, j] > m:
                m = x[i, j]
                k = j
        best[i] = m
        place[i] = k
    return best, place
