"""Bytes, letters and bits."""

import numpy as np

from user_programs.registry import numbers, program


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


@program(lambda s: (numbers().integers(0, 256, 30 * s).astype(np.uint8),))
def crc32_bits(data):
    """The check sum of Ethernet, a bit at a time."""
    crc = 0xFFFFFFFF
    for i in range(data.size):
        crc ^= int(data[i])
        for _ in range(8):
            if crc & 1:
                crc = (crc >> 1) ^ 0xEDB88320
            else:
                crc >>= 1
    return crc ^ 0xFFFFFFFF


@program(lambda s: (numbers().integers(0, 256, 100 * s).astype(np.uint8),))
def crc32_table(data):
    """The check sum of Ethernet, a byte at a time."""
    table = np.empty(256, np.uint32)
    for n in range(256):
        c = np.uint32(n)
        for _ in range(8):
            if c & np.uint32(1):
                c = (c >> np.uint32(1)) ^ np.uint32(0xEDB88320)
            else:
                c = c >> np.uint32(1)
        table[n] = c
    crc = np.uint32(0xFFFFFFFF)
    for byte in data:
        crc = table[(crc ^ byte) & np.uint32(255)] ^ (crc >> np.uint32(8))
    return crc ^ np.uint32(0xFFFFFFFF)


@program(lambda s: (numbers().integers(0, 256, 100 * s).astype(np.uint8),))
def fnv1a(data):
    """A hash of 32 bits."""
    h = 2166136261
    for i in range(len(data)):
        h = ((h ^ int(data[i])) * 16777619) & 0xFFFFFFFF
    return h


@program(lambda s: (numbers().integers(0, 256, 100 * s).astype(np.uint8),))
def adler32(data):
    """The check sum of zlib."""
    a = 1
    b = 0
    for x in data:
        a = (a + int(x)) % 65521
        b = (b + a) % 65521
    return (b << 16) | a


@program(lambda s: (numbers().integers(0, 256, 60 * s).astype(np.uint8),))
def base64_encode(data):
    """Three bytes as four letters."""
    letters = np.empty(64, np.uint8)
    for i in range(26):
        letters[i] = 65 + i
        letters[26 + i] = 97 + i
    for i in range(10):
        letters[52 + i] = 48 + i
    letters[62] = 43
    letters[63] = 47
    n = data.size // 3
    out = np.empty(4 * n, np.uint8)
    for i in range(n):
        w = (int(data[3 * i]) << 16) | (int(data[3 * i + 1]) << 8) | int(data[3 * i + 2])
        out[4 * i] = letters[(w >> 18) & 63]
        out[4 * i + 1] = letters[(w >> 12) & 63]
        out[4 * i + 2] = letters[(w >> 6) & 63]
        out[4 * i + 3] = letters[w & 63]
    return out


@program(lambda s: (numbers().integers(0, 2**32, 40 * s).astype(np.uint32), numbers(1).integers(0, 2**32, 40 * s)))
def hamming(a, b):
    """Bits in which two lists of words differ."""
    total = 0
    for i in range(a.shape[0]):
        v = int(a[i]) ^ b[i]
        c = 0
        while v:
            c += v & 1
            v >>= 1
        total += c
    return total


@program(lambda s: (numbers().integers(0, 2**16, 60 * s),))
def bit_reverse(x):
    """Words of 16 bits, read from behind."""
    out = np.empty_like(x)
    for i in range(x.size):
        v = x[i]
        r = 0
        for _ in range(16):
            r = (r << 1) | (v & 1)
            v >>= 1
        out[i] = r
    return out


@program(lambda s: (100 * s,))
def gray_codes(n):
    """Gray's codes and back: the greatest number of bits that change."""
    most = 0
    for i in range(n):
        g = i ^ (i >> 1)
        h = (i + 1) ^ ((i + 1) >> 1)
        d = g ^ h
        c = 0
        while d != 0:
            d &= d - 1
            c += 1
        if c > most:
            most = c
        back = g
        shift = 1
        while (g >> shift) != 0:
            back ^= g >> shift
            shift += 1
        if back != i:
            return -1
    return most


@program(lambda s: (numbers().integers(0, 2, 100 * s).astype(np.uint8), np.array([0, 1, 0, 0, 1, 0, 1], np.uint8)))
def kmp_search(text, word):
    """How often a word stands in a text (Knuth, Morris, Pratt)."""
    m = word.size
    fail = np.zeros(m, np.int64)
    k = 0
    for i in range(1, m):
        while k > 0 and word[k] != word[i]:
            k = fail[k - 1]
        if word[k] == word[i]:
            k += 1
        fail[i] = k
    found = 0
    k = 0
    for i in range(text.size):
        while k > 0 and word[k] != text[i]:
            k = fail[k - 1]
        if word[k] == text[i]:
            k += 1
        if k == m:
            found += 1
            k = fail[k - 1]
    return found


@program(lambda s: (numbers().choice(np.frombuffer(b"0123456789  ,\n-", np.uint8), 100 * s),))
def parse_integers(text):
    """The numbers of a text."""
    out = []
    value = 0
    sign = 1
    inside = False
    for c in text:
        if 48 <= c <= 57:
            value = (value * 10 + (int(c) - 48)) % 1000003
            inside = True
        else:
            if inside:
                out.append(sign * value)
            sign = -1 if c == 45 else 1
            value = 0
            inside = False
    if inside:
        out.append(sign * value)
    total = 0
    for v in out:
        total += v
    return len(out), total


@program(lambda s: (numbers().choice(np.frombuffer(b"abcdefgh  \n.", np.uint8), 100 * s),))
def word_count(text):
    """Letters, words and lines, and the longest word."""
    words = 0
    lines = 0
    longest = 0
    run = 0
    for i in range(text.size):
        c = text[i]
        if c == 10:
            lines += 1
        if c == 32 or c == 10 or c == 46:
            if run > 0:
                words += 1
                longest = max(longest, run)
            run = 0
        else:
            run += 1
    return words, lines, longest


@program(lambda s: (numbers().integers(0, 4, 3 * s).astype(np.uint8),))
def palindromes(text):
    """The longest palindrome, from each middle on."""
    n = text.size
    best = 0
    start = 0
    for mid in range(n):
        for odd in range(2):
            lo = mid - odd
            hi = mid + 1 - odd if odd else mid
            if odd:
                hi = mid
            while lo >= 0 and hi < n and text[lo] == text[hi]:
                lo -= 1
                hi += 1
            if hi - lo - 1 > best:
                best = hi - lo - 1
                start = lo + 1
    return start, best


@program(lambda s: (numbers().integers(0, 3, 40 * s).astype(np.uint8),))
def lz_compress(data):
    """Pairs of distance and length, looked for in a window."""
    n = data.size
    out = np.empty((n, 3), np.int32)
    k = 0
    i = 0
    while i < n:
        best = 0
        dist = 0
        for j in range(max(0, i - 16), i):
            m = 0
            while m < 15 and i + m < n and data[j + m] == data[i + m]:
                m += 1
            if m > best:
                best = m
                dist = i - j
        out[k, 0] = dist
        out[k, 1] = best
        if i + best < n:
            out[k, 2] = data[i + best]
        else:
            out[k, 2] = -1
        k += 1
        i += best + 1
    return out[:k].copy()


@program(lambda s: (numbers().integers(0, 2**62, 40 * s),))
def varints(x):
    """Numbers as bytes of seven bits, and how many."""
    out = np.zeros(10 * x.size, np.uint8)
    k = 0
    for i in range(x.size):
        v = x[i]
        while v >= 128:
            out[k] = (v & 127) | 128
            v >>= 7
            k += 1
        out[k] = v
        k += 1
    return out, k


@program(lambda s: (numbers().integers(0, 2**32, 50 * s).astype(np.uint32),))
def murmur_mix(keys):
    """The last steps of Murmur's hash, into buckets."""
    buckets = np.zeros(64, np.int64)
    for i in range(len(keys)):
        h = keys[i]
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
        buckets[h & np.uint32(63)] += 1
    return buckets
