"""Sorting and searching by hand."""

import numpy as np

from user_programs.registry import numbers, program


@program(lambda s: (np.sort(numbers().random(20 * s)), numbers(1).random(200 * s)))
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


@program(lambda s: (numbers().random(3 * s),))
def insertion_sort(a):
    """Sort by putting in."""
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


@program(lambda s: (numbers().random(2 * s),))
def selection_sort(a):
    """Sort by the least of the rest."""
    n = len(a)
    for i in range(n - 1):
        least = i
        for j in range(i + 1, n):
            if a[j] < a[least]:
                least = j
        a[i], a[least] = a[least], a[i]
    return a


@program(lambda s: (numbers().integers(0, 1000, 2 * s),))
def bubble_sort(a):
    """Sort by changing neighbours, until nothing changes."""
    n = a.size
    changed = True
    while changed:
        changed = False
        for i in range(n - 1):
            if a[i] > a[i + 1]:
                a[i], a[i + 1] = a[i + 1], a[i]
                changed = True
        n -= 1
    return a


@program(lambda s: (numbers().integers(0, 200, 60 * s),))
def counting_sort(x):
    """Sort by counting."""
    count = np.zeros(200, np.int64)
    for v in x:
        count[v] += 1
    out = np.empty_like(x)
    k = 0
    for v in range(200):
        for _ in range(count[v]):
            out[k] = v
            k += 1
    return out


def partition(a, lo, hi):
    """Move what is less than the last before it."""
    pivot = a[hi]
    i = lo - 1
    for j in range(lo, hi):
        if a[j] <= pivot:
            i += 1
            a[i], a[j] = a[j], a[i]
    a[i + 1], a[hi] = a[hi], a[i + 1]
    return i + 1


@program(lambda s: (numbers().random(30 * s), 10 * s))
def quick_select(a, k):
    """The number at a place of the order."""
    lo = 0
    hi = len(a) - 1
    while lo < hi:
        p = partition(a, lo, hi)
        if p == k:
            return a[k]
        if p < k:
            lo = p + 1
        else:
            hi = p - 1
    return a[lo]


def sort_range(a, lo, hi):
    """Quicksort, which calls itself."""
    if lo < hi:
        p = partition(a, lo, hi)
        sort_range(a, lo, p - 1)
        sort_range(a, p + 1, hi)


@program(lambda s: (numbers().random(15 * s),))
def recursive_sort(a):
    """Quicksort by recursion."""
    sort_range(a, 0, len(a) - 1)
    return a


@program(lambda s: (numbers().integers(0, 10**6, 15 * s),))
def inversions(x):
    """Pairs in the wrong order, by a tree of sums (Fenwick) over ranks."""
    n = len(x)
    order = np.argsort(x, kind="stable")
    rank = np.empty(n, np.int64)
    for i in range(n):
        rank[order[i]] = i + 1
    tree = np.zeros(n + 1, np.int64)
    total = 0
    for i in range(n - 1, -1, -1):
        k = rank[i]
        while k > 0:
            total += tree[k]
            k -= k & -k
        k = rank[i]
        while k <= n:
            tree[k] += 1
            k += k & -k
    return total


@program(lambda s: (np.sort(numbers().integers(0, 20 * s, 60 * s)),))
def dedupe(x):
    """Numbers of a sorted list, once each, and how often."""
    values = np.empty_like(x)
    counts = np.zeros(x.size, np.int64)
    k = -1
    for i in range(x.size):
        if i == 0 or x[i] != x[i - 1]:
            k += 1
            values[k] = x[i]
        counts[k] += 1
    return values[: k + 1].copy(), counts[: k + 1].copy()


@program(lambda s: (np.sort(numbers().random(60 * s)), np.sort(numbers(1).random(60 * s))))
def merge_two(a, b):
    """Two sorted lists, as one."""
    out = np.empty(a.size + b.size)
    i = j = k = 0
    while i < a.size and j < b.size:
        if a[i] <= b[j]:
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1
        k += 1
    while i < a.size:
        out[k] = a[i]
        i += 1
        k += 1
    while j < b.size:
        out[k] = b[j]
        j += 1
        k += 1
    return out


@program(lambda s: (numbers().random(60 * s), 10))
def top_k(x, k):
    """The k largest numbers, kept in order."""
    best = np.full(k, -np.inf)
    for i in range(x.size):
        v = x[i]
        if v > best[k - 1]:
            j = k - 1
            while j > 0 and best[j - 1] < v:
                best[j] = best[j - 1]
                j -= 1
            best[j] = v
    return best
