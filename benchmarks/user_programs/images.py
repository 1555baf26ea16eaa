"""Images: pixels, windows, histograms."""

import math

import numpy as np

from user_programs.registry import numbers, program


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


@program(lambda s: (numbers().integers(0, 256, (s, 2 * s, 3)).astype(np.uint8),))
def grey_values(img):
    """Grey values of three colours."""
    h, w, _ = img.shape
    out = np.empty((h, w), np.float64)
    for i in range(h):
        for j in range(w):
            out[i, j] = 0.299 * img[i, j, 0] + 0.587 * img[i, j, 1] + 0.114 * img[i, j, 2]
    return out


@program(lambda s: (numbers().integers(0, 256, (s, 2 * s)).astype(np.uint8),))
def equalize(img):
    """A histogram made flat."""
    h, w = img.shape
    hist = np.zeros(256, np.int64)
    for i in range(h):
        for j in range(w):
            hist[img[i, j]] += 1
    table = np.zeros(256, np.uint8)
    total = 0
    for k in range(256):
        total += hist[k]
        table[k] = total * 255 // (h * w)
    out = np.empty_like(img)
    for i in range(h):
        for j in range(w):
            out[i, j] = table[img[i, j]]
    return out


@program(lambda s: (numbers().random((2 * s, 2 * s)),))
def sobel(img):
    """The size of slopes."""
    h, w = img.shape
    out = np.zeros((h, w))
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            gx = (
                img[i - 1, j + 1] + 2 * img[i, j + 1] + img[i + 1, j + 1]
                - img[i - 1, j - 1] - 2 * img[i, j - 1] - img[i + 1, j - 1]
            )  # fmt: skip
            gy = (
                img[i + 1, j - 1] + 2 * img[i + 1, j] + img[i + 1, j + 1]
                - img[i - 1, j - 1] - 2 * img[i - 1, j] - img[i - 1, j + 1]
            )  # fmt: skip
            out[i, j] = math.sqrt(gx * gx + gy * gy)
    return out


@program(lambda s: (numbers().random((s, s)), numbers(1).random((5, 5))))
def convolve2d(img, kernel):
    """A filter of any size, within the image."""
    h, w = img.shape
    kh, kw = kernel.shape
    out = np.zeros((h - kh + 1, w - kw + 1))
    for i in range(h - kh + 1):
        for j in range(w - kw + 1):
            acc = 0.0
            for a in range(kh):
                for b in range(kw):
                    acc += img[i + a, j + b] * kernel[a, b]
            out[i, j] = acc
    return out


@program(lambda s: (numbers().random((s, s)), 3))
def box_blur(img, r):
    """Means of windows that end at the border."""
    h, w = img.shape
    out = np.empty_like(img)
    for i in range(h):
        for j in range(w):
            acc = 0.0
            n = 0
            for a in range(max(0, i - r), min(h, i + r + 1)):
                for b in range(max(0, j - r), min(w, j + r + 1)):
                    acc += img[a, b]
                    n += 1
            out[i, j] = acc / n
    return out


@program(lambda s: (numbers().random((2 * s, 2 * s)) < 0.7,))
def erode(bits):
    """What is set with all its neighbours."""
    h, w = bits.shape
    out = np.zeros((h, w), np.bool_)
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            all_set = True
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if not bits[i + di, j + dj]:
                        all_set = False
            out[i, j] = all_set
    return out


@program(lambda s: (numbers().random((s, s)), 3 * s // 2, 5 * s // 4))
def bilinear_resize(img, height, width):
    """An image of another size."""
    h, w = img.shape
    out = np.empty((height, width))
    for i in range(height):
        y = i * (h - 1) / (height - 1)
        y0 = int(y)
        y1 = min(y0 + 1, h - 1)
        fy = y - y0
        for j in range(width):
            x = j * (w - 1) / (width - 1)
            x0 = int(x)
            x1 = min(x0 + 1, w - 1)
            fx = x - x0
            top = img[y0, x0] * (1 - fx) + img[y0, x1] * fx
            bottom = img[y1, x0] * (1 - fx) + img[y1, x1] * fx
            out[i, j] = top * (1 - fy) + bottom * fy
    return out


@program(lambda s: (numbers().integers(0, 256, (2 * s, 2 * s)).astype(np.uint8), 4))
def adaptive_threshold(img, r):
    """What is brighter than its surroundings, by sums of rectangles."""
    h, w = img.shape
    sums = np.zeros((h + 1, w + 1), np.int64)
    for i in range(h):
        for j in range(w):
            sums[i + 1, j + 1] = sums[i, j + 1] + sums[i + 1, j] - sums[i, j] + img[i, j]
    out = np.zeros((h, w), np.uint8)
    for i in range(h):
        for j in range(w):
            a = max(0, i - r)
            b = max(0, j - r)
            c = min(h, i + r + 1)
            d = min(w, j + r + 1)
            total = sums[c, d] - sums[a, d] - sums[c, b] + sums[a, b]
            if int(img[i, j]) * (c - a) * (d - b) > total:
                out[i, j] = 255
    return out


@program(lambda s: (numbers().random((s, s)) < 0.05, 60), rounds=True)
def hough(bits, angles):
    """Votes for lines."""
    h, w = bits.shape
    r = int(math.sqrt(h * h + w * w)) + 1
    votes = np.zeros((2 * r, angles), np.int64)
    for i in range(h):
        for j in range(w):
            if bits[i, j]:
                for t in range(angles):
                    a = math.pi * t / angles
                    votes[int(round(j * math.cos(a) + i * math.sin(a))) + r, t] += 1
    return votes


@program(lambda s: (numbers().integers(0, 256, (s, s, 3)).astype(np.uint8),))
def hue(img):
    """Hue, saturation and value of colours."""
    h, w = img.shape[0], img.shape[1]
    out = np.zeros((h, w, 3))
    for i in range(h):
        for j in range(w):
            r = img[i, j, 0] / 255.0
            g = img[i, j, 1] / 255.0
            b = img[i, j, 2] / 255.0
            most = max(r, g, b)
            d = most - min(r, g, b)
            if d == 0:
                hue = 0.0
            elif most == r:
                hue = ((g - b) / d) % 6.0
            elif most == g:
                hue = (b - r) / d + 2.0
            else:
                hue = (r - g) / d + 4.0
            out[i, j, 0] = hue * 60.0
            out[i, j, 1] = d / most if most > 0 else 0.0
            out[i, j, 2] = most
    return out


@program(
    lambda s: (
        numbers().integers(0, 256, (s, s)).astype(np.uint8),
        numbers(1).integers(0, 256, (s, s)).astype(np.uint8),
    )
)
def block_motion(a, b):
    """Where blocks of 8 by 8 have gone, by the least sum of differences."""
    h, w = a.shape
    out = np.zeros((h // 8, w // 8, 2), np.int32)
    for bi in range(h // 8):
        for bj in range(w // 8):
            best = 1 << 30
            for di in range(-2, 3):
                for dj in range(-2, 3):
                    y = bi * 8 + di
                    x = bj * 8 + dj
                    if y < 0 or x < 0 or y + 8 > h or x + 8 > w:
                        continue
                    sad = 0
                    for i in range(8):
                        for j in range(8):
                            sad += abs(int(a[bi * 8 + i, bj * 8 + j]) - int(b[y + i, x + j]))
                    if sad < best:
                        best = sad
                        out[bi, bj, 0] = di
                        out[bi, bj, 1] = dj
    return out


@program(lambda s: (numbers().random((2 * s, 2 * s)) < 0.01,))
def distance_transform(bits):
    """Distances in blocks to what is set, by two sweeps."""
    h, w = bits.shape
    d = np.empty((h, w), np.int64)
    for i in range(h):
        for j in range(w):
            if bits[i, j]:
                d[i, j] = 0
            else:
                v = h + w
                if i > 0 and d[i - 1, j] + 1 < v:
                    v = d[i - 1, j] + 1
                if j > 0 and d[i, j - 1] + 1 < v:
                    v = d[i, j - 1] + 1
                d[i, j] = v
    for i in range(h - 1, -1, -1):
        for j in range(w - 1, -1, -1):
            if i + 1 < h and d[i + 1, j] + 1 < d[i, j]:
                d[i, j] = d[i + 1, j] + 1
            if j + 1 < w and d[i, j + 1] + 1 < d[i, j]:
                d[i, j] = d[i, j + 1] + 1
    return d
