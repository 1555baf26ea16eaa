"""Points, lines, distances."""

import math

import numpy as np

from user_programs.registry import numbers, program


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


@program(lambda s: (numbers().random((20 * s, 2)),))
def convex_hull(points):
    """The corners of the hull, from the left to the right and back."""
    n = points.shape[0]
    order = np.argsort(points[:, 0])
    hull = np.empty(2 * n, np.int64)
    k = 0
    for step in range(2):
        base = k
        for t in range(n):
            p = order[t] if step == 0 else order[n - 1 - t]
            while k - base >= 2:
                a = hull[k - 2]
                b = hull[k - 1]
                cross = (points[b, 0] - points[a, 0]) * (points[p, 1] - points[a, 1]) - (
                    points[b, 1] - points[a, 1]
                ) * (points[p, 0] - points[a, 0])
                if cross > 0:
                    break
                k -= 1
            hull[k] = p
            k += 1
        k -= 1
    return hull[:k].copy()


@program(lambda s: (numbers().random((40 * s, 2)),))
def polygon_area(p):
    """The area of a polygon."""
    n = len(p)
    area = 0.0
    for i in range(n):
        j = (i + 1) % n
        area += p[i, 0] * p[j, 1] - p[j, 0] * p[i, 1]
    return abs(area) / 2


@program(lambda s: tuple(numbers(k).random(10 * s) for k in range(4)), rounds=True)
def haversine(lat1, lon1, lat2, lon2):
    """Distances on the globe."""
    out = np.empty(lat1.size)
    for i in range(lat1.size):
        a = math.sin((lat2[i] - lat1[i]) / 2) ** 2
        b = math.cos(lat1[i]) * math.cos(lat2[i]) * math.sin((lon2[i] - lon1[i]) / 2) ** 2
        out[i] = 2 * 6371.0 * math.asin(math.sqrt(a + b))
    return out


@program(lambda s: (numbers().random((s // 2, 2)),), rounds=True)
def great_circles(places):
    """A table of all distances on the globe."""
    n = places.shape[0]
    d = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            c = math.sin(places[i, 0]) * math.sin(places[j, 0]) + math.cos(places[i, 0]) * math.cos(
                places[j, 0]
            ) * math.cos(places[i, 1] - places[j, 1])
            d[i, j] = math.acos(min(1.0, c))
            d[j, i] = d[i, j]
    return d


@program(lambda s: (numbers().random((s, 3)), numbers(1).random((s, 3))))
def pairwise(a, b):
    """Distances of all points."""
    out = np.empty((a.shape[0], b.shape[0]))
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            d = 0.0
            for k in range(a.shape[1]):
                t = a[i, k] - b[j, k]
                d += t * t
            out[i, j] = np.sqrt(d)
    return out


@program(lambda s: (numbers().random((2 * s, 2)),))
def closest_pair(p):
    """The two points that are nearest."""
    best = np.inf
    pair = (0, 0)
    for i in range(len(p)):
        for j in range(i + 1, len(p)):
            dx = p[i, 0] - p[j, 0]
            dy = p[i, 1] - p[j, 1]
            d = dx * dx + dy * dy
            if d < best:
                best = d
                pair = (i, j)
    return pair, math.sqrt(best)


@program(lambda s: (numbers().random((8 * s, 2)), 5, 4))
def k_means(x, k, rounds):
    """Clusters and their centres."""
    n, dims = x.shape
    centres = x[:k].copy()
    label = np.zeros(n, np.int64)
    for _ in range(rounds):
        for i in range(n):
            best = np.inf
            for c in range(k):
                d = 0.0
                for j in range(dims):
                    d += (x[i, j] - centres[c, j]) ** 2
                if d < best:
                    best = d
                    label[i] = c
        sums = np.zeros((k, dims))
        counts = np.zeros(k, np.int64)
        for i in range(n):
            counts[label[i]] += 1
            for j in range(dims):
                sums[label[i], j] += x[i, j]
        for c in range(k):
            if counts[c] > 0:
                for j in range(dims):
                    centres[c, j] = sums[c, j] / counts[c]
    return centres, label


@program(lambda s: (numbers().random((2 * s, 3)), numbers(1).integers(0, 3, 2 * s), numbers(2).random((s // 2, 3))))
def k_nearest(train, label, query):
    """The class that most of five neighbours have."""
    k = 5
    out = np.empty(query.shape[0], np.int64)
    for q in range(query.shape[0]):
        dist = np.full(k, np.inf)
        near = np.zeros(k, np.int64)
        for i in range(train.shape[0]):
            d = 0.0
            for j in range(train.shape[1]):
                d += (train[i, j] - query[q, j]) ** 2
            if d < dist[k - 1]:
                m = k - 1
                while m > 0 and dist[m - 1] > d:
                    dist[m] = dist[m - 1]
                    near[m] = near[m - 1]
                    m -= 1
                dist[m] = d
                near[m] = label[i]
        votes = np.zeros(3, np.int64)
        for m in range(k):
            votes[near[m]] += 1
        out[q] = np.argmax(votes)
    return out


@program(lambda s: (numbers().integers(0, 2 * s, (s, 4)), 2 * s))
def bresenham(lines, n):
    """Lines of pixels."""
    img = np.zeros((n, n), np.uint8)
    for t in range(lines.shape[0]):
        x0, y0, x1, y1 = lines[t, 0], lines[t, 1], lines[t, 2], lines[t, 3]
        dx = abs(x1 - x0)
        dy = -abs(y1 - y0)
        sx = 1 if x0 < x1 else -1
        sy = 1 if y0 < y1 else -1
        err = dx + dy
        while True:
            img[y0, x0] = 255
            if x0 == x1 and y0 == y1:
                break
            e2 = 2 * err
            if e2 >= dy:
                err += dy
                x0 += sx
            if e2 <= dx:
                err += dx
                y0 += sy
    return img


@program(lambda s: (numbers().random((40 * s, 2)), 0.5, 0.5, 0.3))
def circle_hits(p, cx, cy, r):
    """Points in a circle."""
    count = 0
    for i in range(p.shape[0]):
        dx = p[i, 0] - cx
        dy = p[i, 1] - cy
        if dx * dx + dy * dy < r * r:
            count += 1
    return count


@program(lambda s: (numbers().random((s, 4)),))
def crossings(seg):
    """Pairs of segments that cross."""
    n = seg.shape[0]
    count = 0
    for i in range(n):
        ax, ay, bx, by = seg[i, 0], seg[i, 1], seg[i, 2], seg[i, 3]
        for j in range(i + 1, n):
            cx, cy, dx, dy = seg[j, 0], seg[j, 1], seg[j, 2], seg[j, 3]
            d1 = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
            d2 = (bx - ax) * (dy - ay) - (by - ay) * (dx - ax)
            d3 = (dx - cx) * (ay - cy) - (dy - cy) * (ax - cx)
            d4 = (dx - cx) * (by - cy) - (dy - cy) * (bx - cx)
            if d1 * d2 < 0 and d3 * d4 < 0:
                count += 1
    return count


@program(lambda s: (numbers().random((30 * s, 3)), np.array([0.5, 0.5, 0.5, 0.5])))
def quaternion_rotate(points, q):
    """Points turned by a quaternion."""
    out = np.empty_like(points)
    w, x, y, z = q
    for i in range(points.shape[0]):
        px, py, pz = points[i]
        tx = 2 * (y * pz - z * py)
        ty = 2 * (z * px - x * pz)
        tz = 2 * (x * py - y * px)
        out[i, 0] = px + w * tx + (y * tz - z * ty)
        out[i, 1] = py + w * ty + (z * tx - x * tz)
        out[i, 2] = pz + w * tz + (x * ty - y * tx)
    return out


@program(lambda s: (numbers().random((10, 6)) * s, s))
def rasterize(triangles, n):
    """Triangles, filled, by the signs of three edges."""
    depth = np.zeros((n, n), np.int32)
    for t in range(triangles.shape[0]):
        x0, y0, x1, y1, x2, y2 = triangles[t]
        top = max(int(min(y0, y1, y2)), 0)
        bottom = min(int(max(y0, y1, y2)) + 1, n)
        left = max(int(min(x0, x1, x2)), 0)
        right = min(int(max(x0, x1, x2)) + 1, n)
        for i in range(top, bottom):
            for j in range(left, right):
                a = (x1 - x0) * (i - y0) - (y1 - y0) * (j - x0)
                b = (x2 - x1) * (i - y1) - (y2 - y1) * (j - x1)
                c = (x0 - x2) * (i - y2) - (y0 - y2) * (j - x2)
                if (a >= 0 and b >= 0 and c >= 0) or (a <= 0 and b <= 0 and c <= 0):
                    depth[i, j] = t + 1
    return depth


@program(lambda s: (numbers().random((40 * s, 3)),))
def bounding_box(p):
    """The least and the largest of each coordinate."""
    lo = np.full(3, np.inf)
    hi = np.full(3, -np.inf)
    for i in range(p.shape[0]):
        for k in range(3):
            if p[i, k] < lo[k]:
                lo[k] = p[i, k]
            if p[i, k] > hi[k]:
                hi[k] = p[i, k]
    return lo, hi
