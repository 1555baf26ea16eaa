"""The example of the DLVM poster: a layer, its gradient, and the gradient of that gradient.

The poster's layer is y = tanh(x w + b). `dlvm.grad` gives its derivatives in w and b as one compiled function
that also keeps the layer's result; that function is then differentiated again. Each derivative is checked
against central differences.  Shapes: x (n, p), w (p, h), b (h,) -> y (n, h).
"""

import numpy as np

import dlvm_py as dlvm

g = dlvm.jit(lambda x, w, b: np.tanh(np.dot(x, w) + b))
dg = dlvm.grad(g, wrt=(1, 2), keeping=0)  # -> (dg_dw, dg_db, result)
d2g = dlvm.grad(dg, from_=0, wrt=1)  # differentiates dg_dw, the result number 0, in w


def central_differences(f, at, step=1e-5):
    """The gradient of the scalar function f at the array `at`, from f at at ± step; error O(step²)."""
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        shift = np.zeros_like(at)
        shift[index] = step
        gradient[index] = (f(at + shift) - f(at - shift)) / (2.0 * step)
    return gradient


def main():
    """Prints each derivative's largest distance from central differences; exit status 1 if one is far."""
    rng = np.random.default_rng(0)
    x, w, b = rng.standard_normal((4, 3)), rng.standard_normal((3, 2)), rng.standard_normal(2)

    dg_dw, dg_db, result = dg(x, w, b)
    d2g_dw = d2g(x, w, b)

    # An array result is seeded with ones: what is differentiated is the sum of its elements.
    distances = {
        "result": result - np.tanh(np.dot(x, w) + b),
        "dg/dw": dg_dw - central_differences(lambda w: np.sum(np.tanh(np.dot(x, w) + b)), w),
        "dg/db": dg_db - central_differences(lambda b: np.sum(np.tanh(np.dot(x, w) + b)), b),
        "d(dg/dw)/dw": d2g_dw - central_differences(lambda w: np.sum(dg(x, w, b)[0]), w),
    }
    for name, distance in distances.items():
        print(f"{name:12}  largest distance from the check {np.max(np.abs(distance)):.1e}")
    return 0 if all(np.max(np.abs(d)) < 1e-8 for d in distances.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
