"""kmeans: the sum of squared distances to the nearest centroid, and Newton's step with the diagonal of its Hessian."""

import numpy as np

import dlvm_py as dlvm
from evals.entry import Entry, listed


@dlvm.jit
def cost(centroids, points):
    """Σ_i min_j |points_i - centroids_j|². Shapes: centroids (k, d), points (n, d)."""
    total = 0.0
    for i in range(len(points)):
        nearest = np.inf
        for j in range(len(centroids)):
            distance = 0.0
            for e in range(points.shape[1]):
                difference = points[i, e] - centroids[j, e]
                distance += difference * difference
            if distance < nearest:
                nearest = distance
        total += nearest
    return total


gradient = dlvm.grad(cost)


def step(centroids, points):
    """The gradient over the diagonal of the Hessian, (k, d).

    No two components are coupled, so the Hessian times ones is its diagonal; jvp gives it with the gradient.
    """
    along, curvature = dlvm.jvp(gradient, (centroids, points), (np.ones_like(centroids), None))
    return along / curvature


def _prepare(given):
    return np.array(given["centroids"]), np.array(given["points"])


FUNCTIONS = {"cost": Entry(_prepare, cost), "dir": Entry(_prepare, step, listed)}
