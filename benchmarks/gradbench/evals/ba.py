"""ba: bundle adjustment, the errors of all observations and their Jacobian in compressed rows."""

import numpy as np

import dlvm_py as dlvm
from evals.entry import Entry

CAMERA, POINT = 11, 3  # parameters of each
ENTRIES = CAMERA + POINT + 1  # of a row of the Jacobian


def project(camera, point):
    """The picture (2 numbers) of a point (3,) by a camera.

    camera (11,): rotation, centre, focal length, principal point, distortion.
    """
    o0, o1, o2 = point[0] - camera[3], point[1] - camera[4], point[2] - camera[5]
    r0, r1, r2 = camera[0], camera[1], camera[2]
    square = r0 * r0 + r1 * r1 + r2 * r2
    if square != 0:
        angle = np.sqrt(square)
        c, s = np.cos(angle), np.sin(angle)
        r0, r1, r2 = r0 / angle, r1 / angle, r2 / angle
        along = (r0 * o0 + r1 * o1 + r2 * o2) * (1 - c)
        y0 = o0 * c + (r1 * o2 - r2 * o1) * s + r0 * along
        y1 = o1 * c + (r2 * o0 - r0 * o2) * s + r1 * along
        y2 = o2 * c + (r0 * o1 - r1 * o0) * s + r2 * along
    else:
        y0 = o0 + r1 * o2 - r2 * o1
        y1 = o1 + r2 * o0 - r0 * o2
        y2 = o2 + r0 * o1 - r1 * o0
    a, b = y0 / y2, y1 / y2
    rr = a * a + b * b
    scale = (1 + camera[9] * rr + camera[10] * rr * rr) * camera[6]
    return a * scale + camera[7], b * scale + camera[8]


def residual(camera, point, weight, feature):
    """The two errors of an observation of `feature` (2,)."""
    u, v = project(camera, point)
    return weight * (u - feature[0]), weight * (v - feature[1])


def weight_error(weight):
    """How far a weight is from 1."""
    return 1 - weight * weight


@dlvm.jit
def errors(cameras, points, weights, features, observations):
    """Shapes: cameras (n, 11), points (m, 3), weights (p,), features (p, 2), observations (p, 2): camera and point.

    Returns the errors of the projections (p, 2), and of the weights (p,).
    """
    p = len(weights)
    reprojection = np.empty((p, 2))
    for i in range(p):
        camera, point = observations[i]
        reprojection[i] = residual(cameras[camera], points[point], weights[i], features[i])
    return reprojection, weight_error(weights)


first_row = dlvm.grad(residual, wrt=(0, 1, 2), from_=0)
second_row = dlvm.grad(residual, wrt=(0, 1, 2), from_=1)
weight_row = dlvm.grad(weight_error)


@dlvm.jit
def jacobian(cameras, points, weights, features, observations):
    """The Jacobian of all errors, those of the weights last, for (cameras, points, weights), in compressed rows.

    Returns row pointers (3 p + 1,), column indices (31 p,) and values (31 p,).
    """
    n, m, p = len(cameras), len(points), len(weights)
    pointers = np.empty(3 * p + 1, np.int64)
    columns = np.empty(31 * p, np.int64)
    values = np.empty(31 * p)
    pointers[0] = 0
    at = 0
    for i in range(p):
        camera, point = observations[i]
        for k in range(2):
            if k == 0:
                of_camera, of_point, of_weight = first_row(cameras[camera], points[point], weights[i], features[i])
            else:
                of_camera, of_point, of_weight = second_row(cameras[camera], points[point], weights[i], features[i])
            values[at : at + CAMERA] = of_camera
            values[at + CAMERA : at + CAMERA + POINT] = of_point
            values[at + CAMERA + POINT] = of_weight
            columns[at : at + CAMERA] = np.arange(CAMERA) + CAMERA * camera
            columns[at + CAMERA : at + CAMERA + POINT] = np.arange(POINT) + CAMERA * n + POINT * point
            columns[at + CAMERA + POINT] = CAMERA * n + POINT * m + i
            at += ENTRIES
            pointers[2 * i + k + 1] = at
    for i in range(p):
        values[at] = weight_row(weights[i])
        columns[at] = CAMERA * n + POINT * m + i
        at += 1
        pointers[2 * p + i + 1] = at
    return pointers, columns, values


def _prepare(given):
    n, m, p = given["n"], given["m"], given["p"]
    observation = np.arange(p)
    return (
        np.tile(np.array(given["cam"]), (n, 1)),
        np.tile(np.array(given["x"]), (m, 1)),
        np.full(p, float(given["w"])),
        np.tile(np.array(given["feat"]), (p, 1)),
        np.stack((observation % n, observation % m), axis=1),
    )


def _errors(result):
    reprojection, weight = result
    return {
        "reproj_error": {"elements": reprojection[0].tolist(), "repeated": len(reprojection)},
        "w_err": {"element": float(weight[0]), "repeated": len(weight)},
    }


def _sparse(result):
    names = ("rows", "cols", "vals")
    return {name: [*part[:30].tolist(), part[-1].item()] for name, part in zip(names, result, strict=True)}


FUNCTIONS = {"objective": Entry(_prepare, errors, _errors), "jacobian": Entry(_prepare, jacobian, _sparse)}
