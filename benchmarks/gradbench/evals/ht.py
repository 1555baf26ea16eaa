"""ht: tracking a hand, the distances of a posed model from the measured points, and their Jacobian."""

import numpy as np

import dlvm_py as dlvm
from evals.entry import Entry, listed

FINGERS, JOINTS = 5, 3


def rotation(x, z, y):
    """Rz Ry Rx, (3, 3)."""
    cx, sx, cy, sy, cz, sz = np.cos(x), np.sin(x), np.cos(y), np.sin(y), np.cos(z), np.sin(z)
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, cx, -sx], [0.0, sx, cx]])
    about_y = np.array([[cy, 0.0, sy], [0.0, 1.0, 0.0], [-sy, 0.0, cy]])
    about_z = np.array([[cz, -sz, 0.0], [sz, cz, 0.0], [0.0, 0.0, 1.0]])
    return about_z @ about_y @ about_x


def angle_axis(a):
    """The rotation (3, 3) about the vector a by its length."""
    size = np.sqrt(np.sum(a * a))
    if size < 1e-4:
        return np.eye(3)
    x, y, z = a[0] / size, a[1] / size, a[2] / size
    s, c = np.sin(size), np.cos(size)
    return np.array(
        [
            [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
            [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
            [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
        ]
    )


def bone_angles(theta, bones):
    """The angles (bones, 3) about x, z and y: three joints a finger bend, the first also sideways."""
    angles = np.zeros((bones, 3))
    given, bone = 6, 2
    for _ in range(FINGERS):
        for joint in range(JOINTS):
            angles[bone, 0] = theta[given]
            given += 1
            if joint == 0:
                angles[bone, 1] = theta[given]
                given += 1
            bone += 1
        bone += 1
    return angles


def posed(theta, parents, base_relatives, inverse_base_absolutes, base_positions, weights, mirrored):
    """The vertices (V, 3) of the model in the pose theta (26,), by linear blend skinning."""
    bones = len(parents)
    angles = bone_angles(theta, bones)
    absolutes = np.empty((bones, 4, 4))
    transforms = np.empty((bones, 3, 4))
    for b in range(bones):
        local = np.eye(4)
        local[:3, :3] = rotation(angles[b, 0], angles[b, 1], angles[b, 2])
        relative = base_relatives[b] @ local
        if parents[b] == -1:
            absolutes[b] = relative
        else:
            absolutes[b] = absolutes[parents[b]] @ relative
        transforms[b] = (absolutes[b] @ inverse_base_absolutes[b])[:3]
    blended = np.tensordot(weights, transforms, 1)
    positions = np.einsum("vij,vj->vi", blended, base_positions)
    if mirrored:
        positions[:, 0] *= -1
    return positions @ angle_axis(theta[:3]).T + theta[3:6]


@dlvm.jit
def simple(theta, correspondences, points, parents, relatives, inverses, positions, weights, mirrored):
    """The distances (3 c,) of points (c, 3) from their vertices."""
    vertices = posed(theta, parents, relatives, inverses, positions, weights, mirrored)
    return (points - vertices[correspondences]).ravel()


@dlvm.jit
def complicated(
    theta, us, correspondences, points, triangles, parents, relatives, inverses, positions, weights, mirrored
):
    """The distances (3 c,) of points from places in their triangles, with coordinates us (c, 2)."""
    vertices = posed(theta, parents, relatives, inverses, positions, weights, mirrored)
    return from_places(us, vertices, correspondences, points, triangles)


def from_places(us, vertices, correspondences, points, triangles):
    """The distances (3 c,) of points (c, 3) from places in their triangles of vertices (V, 3)."""
    corners = triangles[correspondences]
    u, v = us[:, :1], us[:, 1:]
    place = u * vertices[corners[:, 0]] + v * vertices[corners[:, 1]] + (1 - u - v) * vertices[corners[:, 2]]
    return (points - place).ravel()


simple_jacobian = dlvm.jacobian(simple, mode="forward")
theta_jacobian = dlvm.jacobian(complicated, mode="forward")
compiled_posed, compiled_from_places = dlvm.jit(posed), dlvm.jit(from_places)


@dlvm.jit
def side_by_side(first, second, others):
    """A matrix (3 c, 28) of columns (3 c,), (3 c,) and (3 c, 26)."""
    return np.concatenate((np.stack((first, second), axis=1), others), axis=1)


def complicated_jacobian(theta, us, correspondences, points, triangles, *model):
    """The derivatives (3 c, 28): for the coordinates of the own triangle, then for theta.

    A distance depends on its own coordinates only, so one tangent for each of the two columns gives all of them.
    """
    given = us, compiled_posed(theta, *model), correspondences, points, triangles
    columns = []
    for k in range(2):
        along = np.zeros_like(us)
        along[:, k] = 1
        columns.append(dlvm.jvp(compiled_from_places, given, (along, None, None, None, None))[1])
    return side_by_side(*columns, theta_jacobian(theta, us, correspondences, points, triangles, *model))


def objective(theta, us, correspondences, points, triangles, *model):
    """The distances, of the variant that the input asks for."""
    if len(us):
        return complicated(theta, us, correspondences, points, triangles, *model)
    return simple(theta, correspondences, points, *model)


def jacobian(theta, us, correspondences, points, triangles, *model):
    """Their derivatives."""
    if len(us):
        return complicated_jacobian(theta, us, correspondences, points, triangles, *model)
    return simple_jacobian(theta, correspondences, points, *model)


def _prepare(given):
    data = given["data"]
    model = data["model"]
    return (
        np.array(given["theta"]),
        np.array(given["us"], float),
        np.array(data["correspondences"]),
        np.array(data["points"]),
        np.array(model["triangles"]),
        np.array(model["parents"]),
        np.array(model["base_relatives"]),
        np.array(model["inverse_base_absolutes"]),
        np.array(model["base_positions"]),
        np.array(model["weights"]),
        bool(model["is_mirrored"]),
    )


FUNCTIONS = {"objective": Entry(_prepare, objective, listed), "jacobian": Entry(_prepare, jacobian, listed)}
