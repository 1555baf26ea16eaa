"""Graphs in arrays."""

import numpy as np

from user_programs.registry import numbers, program


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


def random_graph(s, degree=4):
    """Rows, columns and weights of a sparse graph with 10 s nodes."""
    n = 10 * s
    degrees = numbers(3).integers(1, 2 * degree, n)
    start = np.concatenate([[0], np.cumsum(degrees)])
    return start, numbers(4).integers(0, n, start[-1]), numbers(5).random(start[-1])


@program(lambda s: (*random_graph(s), 0))
def dijkstra(start, to, weight, source):
    """Shortest paths, with a heap in arrays."""
    n = start.size - 1
    dist = np.full(n, np.inf)
    key = np.empty(to.size + 1)
    node = np.empty(to.size + 1, np.int64)
    dist[source] = 0.0
    key[0] = 0.0
    node[0] = source
    size = 1
    while size > 0:
        d = key[0]
        u = node[0]
        size -= 1
        last = key[size]
        last_node = node[size]
        i = 0
        while True:
            c = 2 * i + 1
            if c >= size:
                break
            if c + 1 < size and key[c + 1] < key[c]:
                c += 1
            if key[c] >= last:
                break
            key[i] = key[c]
            node[i] = node[c]
            i = c
        key[i] = last
        node[i] = last_node
        if d > dist[u]:
            continue
        for e in range(start[u], start[u + 1]):
            v = to[e]
            nd = d + weight[e]
            if nd < dist[v]:
                dist[v] = nd
                i = size
                size += 1
                while i > 0:
                    p = (i - 1) // 2
                    if key[p] <= nd:
                        break
                    key[i] = key[p]
                    node[i] = node[p]
                    i = p
                key[i] = nd
                node[i] = v
    return dist


@program(lambda s: (numbers().random((s // 2 + 1, s // 2 + 1)),))
def floyd_warshall(d):
    """Shortest paths between all."""
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


@program(lambda s: (numbers().integers(0, s, (6 * s, 2)), numbers(1).random(6 * s), s))
def bellman_ford(edges, weight, n):
    """Shortest paths by edges, until nothing changes."""
    dist = np.full(n, np.inf)
    dist[0] = 0.0
    for _ in range(n):
        changed = False
        for e in range(edges.shape[0]):
            u = edges[e, 0]
            v = edges[e, 1]
            if dist[u] + weight[e] < dist[v]:
                dist[v] = dist[u] + weight[e]
                changed = True
        if not changed:
            break
    return dist


@program(lambda s: (*random_graph(s)[:2], 10))
def page_rank(start, to, rounds):
    """PageRank by pushing along edges."""
    n = start.size - 1
    rank = np.full(n, 1.0 / n)
    for _ in range(rounds):
        new = np.full(n, 0.15 / n)
        for u in range(n):
            share = 0.85 * rank[u] / (start[u + 1] - start[u])
            for e in range(start[u], start[u + 1]):
                new[to[e]] += share
        rank = new
    return rank


@program(lambda s: (np.sort(numbers().integers(0, 10 * s, (40 * s, 2)), axis=1), 10 * s))
def topological(edges, n):
    """An order in which all edges go forward."""
    count = np.zeros(n + 1, np.int64)
    degree = np.zeros(n, np.int64)
    for a, b in edges:
        if a != b:
            count[a + 1] += 1
            degree[b] += 1
    for i in range(n):
        count[i + 1] += count[i]
    fill = count.copy()
    to = np.empty(count[n], np.int64)
    for e in range(edges.shape[0]):
        a, b = edges[e]
        if a != b:
            to[fill[a]] = b
            fill[a] += 1
    order = np.empty(n, np.int64)
    head = tail = 0
    for i in range(n):
        if degree[i] == 0:
            order[tail] = i
            tail += 1
    while head < tail:
        u = order[head]
        head += 1
        for e in range(count[u], count[u + 1]):
            degree[to[e]] -= 1
            if degree[to[e]] == 0:
                order[tail] = to[e]
                tail += 1
    return order[:tail].copy()


@program(lambda s: (numbers().random((s, s)),))
def prim(w):
    """The weight of a least spanning tree."""
    n = w.shape[0]
    done = np.zeros(n, np.bool_)
    near = np.full(n, np.inf)
    near[0] = 0.0
    total = 0.0
    for _ in range(n):
        u = -1
        for v in range(n):
            if not done[v] and (u < 0 or near[v] < near[u]):
                u = v
        done[u] = True
        total += near[u]
        for v in range(n):
            if not done[v] and w[u, v] < near[v]:
                near[v] = w[u, v]
    return total


@program(lambda s: (numbers().integers(0, 3, (2 * s, 2 * s)).astype(np.uint8), 7))
def flood_fill(img, colour):
    """An area in another colour, with a list as stack."""
    h, w = img.shape
    old = img[h // 2, w // 2]
    stack = [(h // 2, w // 2)]
    n = 0
    while len(stack) > 0:
        i, j = stack.pop()
        if i < 0 or j < 0 or i >= h or j >= w or img[i, j] != old:
            continue
        img[i, j] = colour
        n += 1
        stack.append((i + 1, j))
        stack.append((i - 1, j))
        stack.append((i, j + 1))
        stack.append((i, j - 1))
    return n


@program(lambda s: random_graph(s)[:2])
def depth_first(start, to):
    """The order in which a search goes into the depth."""
    n = start.size - 1
    seen = np.zeros(n, np.bool_)
    order = np.full(n, -1)
    stack = np.empty(n, np.int64)
    edge = start[:-1].copy()
    clock = 0
    for root in range(n):
        if seen[root]:
            continue
        top = 0
        stack[0] = root
        seen[root] = True
        order[root] = clock
        clock += 1
        while top >= 0:
            u = stack[top]
            if edge[u] == start[u + 1]:
                top -= 1
                continue
            v = to[edge[u]]
            edge[u] += 1
            if not seen[v]:
                seen[v] = True
                order[v] = clock
                clock += 1
                top += 1
                stack[top] = v
    return order


@program(lambda s: (numbers().random((s // 2 + 1, s // 2 + 1)) < 0.2,))
def triangles(adjacent):
    """Triples of neighbours."""
    n = adjacent.shape[0]
    count = 0
    for i in range(n):
        for j in range(i + 1, n):
            if adjacent[i, j]:
                for k in range(j + 1, n):
                    if adjacent[i, k] and adjacent[j, k]:
                        count += 1
    return count
