"""Loop programs of the kinds that people compile: the values of plain Python, bit for bit, and what is written."""

import math

import numpy as np
import pytest

import dlvm_py as dlvm

PROGRAMS = []


def numbers(seed=0):
    """Random numbers, the same at every call."""
    return np.random.default_rng(seed)


def program(make):
    """Add the function to PROGRAMS; make gives its arguments for a size."""

    def add(fn):
        PROGRAMS.append((fn, make))
        return fn

    return add


@program(lambda s: (numbers().integers(0, 2**40, 20 * s),))
def popcount_loop(x):
    """Bits that are set, by clearing the lowest."""
    total = 0
    for i in range(x.shape[0]):
        v = x[i]
        while v != 0:
            v &= v - 1
            total += 1
    return total


@program(lambda s: (numbers().integers(0, 256, (s, 2 * s, 3)).astype(np.uint8),))
def rgb_hist(img):
    """Three histograms in one pass."""
    h = np.zeros((3, 256), np.int64)
    for i in range(img.shape[0]):
        for j in range(img.shape[1]):
            h[0, img[i, j, 0]] += 1
            h[1, img[i, j, 1]] += 1
            h[2, img[i, j, 2]] += 1
    return h


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


@program(lambda s: (numbers().random((2 * s, 2 * s)), 0.3))
def rotate(img, angle):
    """An image, turned, by the nearest pixel."""
    h, w = img.shape
    out = np.zeros((h, w))
    c = math.cos(angle)
    s = math.sin(angle)
    cy = h / 2
    cx = w / 2
    for i in range(h):
        for j in range(w):
            y = (i - cy) * c - (j - cx) * s + cy
            x = (i - cy) * s + (j - cx) * c + cx
            yi = int(y)
            xi = int(x)
            if 0 <= yi < h and 0 <= xi < w:
                out[i, j] = img[yi, xi]
    return out


@program(lambda s: (np.sort(numbers().random(20 * s)), numbers(1).random(10 * s)))
def binary_search(a, q):
    """Where numbers belong in a sorted array."""
    out = np.empty(q.shape[0], np.int64)
    for k in range(q.shape[0]):
        lo = 0
        hi = a.shape[0]
        v = q[k]
        while lo < hi:
            mid = (lo + hi) // 2
            if a[mid] < v:
                lo = mid + 1
            else:
                hi = mid
        out[k] = lo
    return out


@program(lambda s: (numbers().random(30 * s),))
def quick_sort(a):
    """Quicksort with a stack of its own."""
    n = len(a)
    stack = np.empty(64 * 2, np.int64)
    top = 0
    stack[0] = 0
    stack[1] = n - 1
    top = 2
    while top > 0:
        hi = stack[top - 1]
        lo = stack[top - 2]
        top -= 2
        while lo < hi:
            p = a[(lo + hi) // 2]
            i = lo
            j = hi
            while i <= j:
                while a[i] < p:
                    i += 1
                while a[j] > p:
                    j -= 1
                if i <= j:
                    t = a[i]
                    a[i] = a[j]
                    a[j] = t
                    i += 1
                    j -= 1
            if j - lo < hi - i:
                if i < hi:
                    stack[top] = i
                    stack[top + 1] = hi
                    top += 2
                hi = j
            else:
                if lo < j:
                    stack[top] = lo
                    stack[top + 1] = j
                    top += 2
                lo = i
    return a


@program(lambda s: (numbers().random(30 * s),))
def heap_sort(a):
    """Heapsort."""
    n = a.shape[0]
    for start in range(n // 2 - 1, -1, -1):
        root = start
        while True:
            child = 2 * root + 1
            if child >= n:
                break
            if child + 1 < n and a[child] < a[child + 1]:
                child += 1
            if a[root] >= a[child]:
                break
            a[root], a[child] = a[child], a[root]
            root = child
    for end in range(n - 1, 0, -1):
        a[0], a[end] = a[end], a[0]
        root = 0
        while True:
            child = 2 * root + 1
            if child >= end:
                break
            if child + 1 < end and a[child] < a[child + 1]:
                child += 1
            if a[root] >= a[child]:
                break
            a[root], a[child] = a[child], a[root]
            root = child
    return a


@program(lambda s: (numbers().random(30 * s),))
def shell_sort(a):
    """Shellsort."""
    n = len(a)
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            t = a[i]
            j = i
            while j >= gap and a[j - gap] > t:
                a[j] = a[j - gap]
                j -= gap
            a[j] = t
        gap //= 2
    return a


@program(lambda s: (numbers().integers(0, 2**31, 30 * s),))
def radix_sort(a):
    """Sort by bytes, from the lowest."""
    n = a.size
    src = a.copy()
    dst = np.empty_like(a)
    for shift in range(0, 32, 8):
        count = np.zeros(257, np.int64)
        for i in range(n):
            count[((src[i] >> shift) & 255) + 1] += 1
        for i in range(256):
            count[i + 1] += count[i]
        for i in range(n):
            k = (src[i] >> shift) & 255
            dst[count[k]] = src[i]
            count[k] += 1
        src, dst = dst, src
    return src


@program(lambda s: (numbers().random(20 * s),))
def merge_sort(a):
    """Mergesort from the bottom up."""
    n = len(a)
    src = a.copy()
    dst = np.empty(n)
    width = 1
    while width < n:
        for lo in range(0, n, 2 * width):
            mid = min(lo + width, n)
            hi = min(lo + 2 * width, n)
            i = lo
            j = mid
            for k in range(lo, hi):
                if i < mid and (j >= hi or src[i] <= src[j]):
                    dst[k] = src[i]
                    i += 1
                else:
                    dst[k] = src[j]
                    j += 1
        src, dst = dst, src
        width *= 2
    return src


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


@program(lambda s: ((numbers().random((2 * s, 2 * s)) < 0.3).astype(np.uint8),))
def life_u8(g):
    """A step of the game of life, on a torus of bytes."""
    h, w = g.shape
    out = np.zeros_like(g)
    for i in range(h):
        for j in range(w):
            n = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if di == 0 and dj == 0:
                        continue
                    ii = (i + di) % h
                    jj = (j + dj) % w
                    n += g[ii, jj]
            if g[i, j] == 1 and (n == 2 or n == 3):
                out[i, j] = 1
            elif g[i, j] == 0 and n == 3:
                out[i, j] = 1
    return out


@program(lambda s: (7 if s < 60 else 8,))
def n_queens(n):
    """Ways to place queens, by going back."""
    cols = np.zeros(n, np.bool_)
    d1 = np.zeros(2 * n, np.bool_)
    d2 = np.zeros(2 * n, np.bool_)
    pos = np.full(n, -1)
    row = 0
    count = 0
    while row >= 0:
        c = pos[row]
        if c >= 0:
            cols[c] = False
            d1[row + c] = False
            d2[row - c + n] = False
        c += 1
        while c < n and (cols[c] or d1[row + c] or d2[row - c + n]):
            c += 1
        if c < n:
            pos[row] = c
            cols[c] = True
            d1[row + c] = True
            d2[row - c + n] = True
            if row == n - 1:
                count += 1
            else:
                row += 1
                pos[row] = -1
        else:
            pos[row] = -1
            row -= 1
    return count


@program(lambda s: (20 * s, numbers().integers(0, 20 * s, (20 * s, 2))))
def union_find(n, edges):
    """Components of a graph."""
    parent = np.arange(n)
    for e in range(edges.shape[0]):
        a = edges[e, 0]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        b = edges[e, 1]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a != b:
            parent[b] = a
    c = 0
    for i in range(n):
        if parent[i] == i:
            c += 1
    return c


@program(lambda s: ((numbers().random((2 * s, 2 * s)) < 0.7).astype(np.uint8),))
def bfs_grid(grid):
    """Distances on a grid with walls."""
    h, w = grid.shape
    dist = np.full((h, w), -1)
    qi = np.empty(h * w, np.int64)
    qj = np.empty(h * w, np.int64)
    head = 0
    tail = 1
    qi[0] = 0
    qj[0] = 0
    dist[0, 0] = 0
    di = (-1, 1, 0, 0)
    dj = (0, 0, -1, 1)
    while head < tail:
        i = qi[head]
        j = qj[head]
        head += 1
        for k in range(4):
            ni = i + di[k]
            nj = j + dj[k]
            if 0 <= ni < h and 0 <= nj < w and grid[ni, nj] and dist[ni, nj] < 0:
                dist[ni, nj] = dist[i, j] + 1
                qi[tail] = ni
                qj[tail] = nj
                tail += 1
    return dist


@program(lambda s: (numbers().random((s, s)),))
def median3(img):
    """Medians of windows of 3 by 3."""
    h, w = img.shape
    out = np.zeros_like(img)
    win = np.empty(9)
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            k = 0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    win[k] = img[i + a, j + b]
                    k += 1
            for p in range(1, 9):
                key = win[p]
                q = p - 1
                while q >= 0 and win[q] > key:
                    win[q + 1] = win[q]
                    q -= 1
                win[q + 1] = key
            out[i, j] = win[4]
    return out


@program(lambda s: (100 * s, 88172645463325252))
def xorshift(n, seed):
    """Random numbers by shifts."""
    x = np.uint64(seed)
    acc = np.uint64(0)
    for _ in range(n):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        acc ^= x
    return acc


@program(lambda s: (numbers().random((s // 2, s // 2)) + 10 * np.eye(s // 2),))
def lu_inplace(a):
    """The factors of a matrix, in its place."""
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    return a


@program(lambda s: (numbers().integers(0, 2, 100 * s).astype(np.uint8),))
def rle(x):
    """Runs and their lengths."""
    n = x.size
    vals = np.empty(n, np.uint8)
    lens = np.empty(n, np.int64)
    k = 0
    i = 0
    while i < n:
        j = i + 1
        while j < n and x[j] == x[i]:
            j += 1
        vals[k] = x[i]
        lens[k] = j - i
        k += 1
        i = j
    return vals[:k], lens[:k]


@program(lambda s: (numbers().integers(0, 256, (2 * s, 2 * s)).astype(np.uint8),))
def integral_image(img):
    """Sums of all rectangles from a corner."""
    h, w = img.shape
    out = np.zeros((h + 1, w + 1), np.int64)
    for i in range(h):
        row = 0
        for j in range(w):
            row += int(img[i, j])
            out[i + 1, j + 1] = out[i, j + 1] + row
    return out


@program(lambda s: (numbers().random((s, s)) * 255,))
def floyd_steinberg(img):
    """Dithering that hands errors on."""
    h, w = img.shape
    for i in range(h):
        for j in range(w):
            old = img[i, j]
            new = 255.0 if old > 127.0 else 0.0
            img[i, j] = new
            e = old - new
            if j + 1 < w:
                img[i, j + 1] += e * 7 / 16
            if i + 1 < h:
                if j > 0:
                    img[i + 1, j - 1] += e * 3 / 16
                img[i + 1, j] += e * 5 / 16
                if j + 1 < w:
                    img[i + 1, j + 1] += e * 1 / 16
    return img


@program(lambda s: ((numbers().random((s, s)) < 0.55),))
def components(mask):
    """Connected components, by a stack."""
    h, w = mask.shape
    label = np.zeros((h, w), np.int32)
    stack = np.empty((h * w, 2), np.int32)
    cur = 0
    for i in range(h):
        for j in range(w):
            if mask[i, j] and label[i, j] == 0:
                cur += 1
                label[i, j] = cur
                stack[0, 0] = i
                stack[0, 1] = j
                top = 1
                while top > 0:
                    top -= 1
                    a = stack[top, 0]
                    b = stack[top, 1]
                    for k in range(4):
                        if k == 0:
                            c = a - 1
                            d = b
                        elif k == 1:
                            c = a + 1
                            d = b
                        elif k == 2:
                            c = a
                            d = b - 1
                        else:
                            c = a
                            d = b + 1
                        if c >= 0 and c < h and d >= 0 and d < w:
                            if mask[c, d] and label[c, d] == 0:
                                label[c, d] = cur
                                stack[top, 0] = c
                                stack[top, 1] = d
                                top += 1
    return label, cur


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


@program(lambda s: (numbers().integers(1, 10**6, 10 * s), numbers(1).integers(1, 10**6, 10 * s)))
def gcds(a, b):
    """Greatest common divisors."""
    out = np.empty_like(a)
    for i in range(len(a)):
        x = a[i]
        y = b[i]
        while y:
            x, y = y, x % y
        out[i] = x
    return out


@program(lambda s: (numbers().integers(0, 4, 50 * s).astype(np.uint8), 3))
def kmer_counts(seq, k):
    """Counts of words of letters."""
    counts = np.zeros(4**k, np.int64)
    code = 0
    mask = 4**k - 1
    for i in range(seq.size):
        code = ((code << 2) | seq[i]) & mask
        if i >= k - 1:
            counts[code] += 1
    return counts


@program(lambda s: (numbers().integers(0, 256, (2 * s, 2 * s)).astype(np.uint8),))
def otsu(img):
    """The threshold that splits a histogram best."""
    hist = np.zeros(256, np.int64)
    for i in range(img.shape[0]):
        for j in range(img.shape[1]):
            hist[img[i, j]] += 1
    total = img.size
    s = 0.0
    for t in range(256):
        s += t * hist[t]
    sb = 0.0
    wb = 0
    best = 0.0
    thr = 0
    for t in range(256):
        wb += hist[t]
        if wb == 0:
            continue
        wf = total - wb
        if wf == 0:
            break
        sb += t * hist[t]
        mb = sb / wb
        mf = (s - sb) / wf
        v = wb * wf * (mb - mf) ** 2
        if v > best:
            best = v
            thr = t
    return thr


@program(lambda s: (numbers().integers(0, 2, (s, s)) * 2 - 1, numbers().random((s, s))))
def ising(sp, r):
    """A sweep over spins."""
    h, w = sp.shape
    for i in range(h):
        for j in range(w):
            nb = sp[(i - 1) % h, j] + sp[(i + 1) % h, j] + sp[i, (j - 1) % w] + sp[i, (j + 1) % w]
            de = 2 * sp[i, j] * nb
            if de <= 0 or r[i, j] < math.exp(-de * 0.4):
                sp[i, j] = -sp[i, j]
    return sp


@program(lambda s: (numbers().random((20, 2)), numbers(1).random((20 * s, 2))))
def points_in_polygon(poly, pts):
    """Points inside of a polygon."""
    out = np.zeros(pts.shape[0], np.bool_)
    n = poly.shape[0]
    for k in range(pts.shape[0]):
        x = pts[k, 0]
        y = pts[k, 1]
        inside = False
        j = n - 1
        for i in range(n):
            if (poly[i, 1] > y) != (poly[j, 1] > y):
                if x < (poly[j, 0] - poly[i, 0]) * (y - poly[i, 1]) / (poly[j, 1] - poly[i, 1]) + poly[i, 0]:
                    inside = not inside
            j = i
        out[k] = inside
    return out


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


@program(lambda s: (numbers().integers(0, 4, 100 * s).astype(np.uint8),))
def run_vm(code):
    """Byte code, run by a loop."""
    acc = 0
    pc = 0
    n = code.size
    reg = np.zeros(4, np.int64)
    while pc < n:
        op = code[pc]
        if op == 0:
            acc += 1
        elif op == 1:
            acc ^= 5
        elif op == 2:
            reg[acc & 3] += acc
        else:
            acc = reg[acc & 3] & 1023
        pc += 1
    return acc, reg


@program(lambda s: (numbers().integers(-50, 50, 2 * s).astype(np.int64),))
def three_sum(x):
    """Triples with the sum 0, by two fingers."""
    a = np.sort(x)
    n = len(a)
    c = 0
    for i in range(n - 2):
        lo = i + 1
        hi = n - 1
        while lo < hi:
            s = a[i] + a[lo] + a[hi]
            if s < 0:
                lo += 1
            elif s > 0:
                hi -= 1
            else:
                c += 1
                lo += 1
                hi -= 1
    return c


@program(lambda s: (numbers().integers(0, 256, (2 * s, 2 * s)).astype(np.uint8),))
def lbp(img):
    """Local binary patterns."""
    h, w = img.shape
    out = np.zeros_like(img)
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            c = img[i, j]
            code = 0
            if img[i - 1, j - 1] >= c:
                code |= 1
            if img[i - 1, j] >= c:
                code |= 2
            if img[i - 1, j + 1] >= c:
                code |= 4
            if img[i, j + 1] >= c:
                code |= 8
            if img[i + 1, j + 1] >= c:
                code |= 16
            if img[i + 1, j] >= c:
                code |= 32
            if img[i + 1, j - 1] >= c:
                code |= 64
            if img[i, j - 1] >= c:
                code |= 128
            out[i, j] = code
    return out


@program(lambda s: (numbers().integers(0, 256, (2 * s, 2 * s)).astype(np.uint8),))
def dilate(img):
    """The largest byte of a window."""
    h, w = img.shape
    out = np.zeros_like(img)
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            m = img[i, j]
            for a in range(-1, 2):
                for b in range(-1, 2):
                    if img[i + a, j + b] > m:
                        m = img[i + a, j + b]
            out[i, j] = m
    return out


def leaves(value):
    """The parts of a result or of arguments."""
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("size", [5, 12])
@pytest.mark.parametrize(("fn", "make"), PROGRAMS, ids=[fn.__name__ for fn, _ in PROGRAMS])
def test_as_python(fn, make, size):
    """Values, classes, dtypes and bits of the result, and of the arguments behind the call."""
    ours, theirs = make(size), make(size)
    got, want = dlvm.jit(fn)(*ours), fn(*theirs)
    for g, w in zip([*leaves(got), *ours], [*leaves(want), *theirs], strict=True):
        assert type(g) is type(w)
        g, w = np.asarray(g), np.asarray(w)
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        assert g.tobytes() == w.tobytes()
