"""A sparse matrix times a vector, rows compressed: gathers in loops whose lengths the data give."""

import numpy as np

SIZES = {"S": {"rows": 5_000, "each": 10}, "M": {"rows": 200_000, "each": 20}}
WRT = ("values", "x")
PYTHRAN = "int64[], int64[], float64[], float64[]"


def arguments(rows, each):
    """starts: (rows + 1,), columns and values: (entries,), x: (rows,); `each` entries a row on average."""
    rng = np.random.default_rng(8)
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 2 * each + 1, rows))])
    columns = rng.integers(0, rows, starts[-1])
    return {"starts": starts, "columns": columns, "values": rng.random(starts[-1]), "x": rng.random(rows)}


def kernel(starts, columns, values, x):
    """(rows,): the product."""
    out = np.empty(len(starts) - 1)
    for i in range(len(out)):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        out[i] = total
    return out


def jax(starts, columns, values, x):
    """A sum over segments."""
    import jax.numpy as jnp
    from jax import ops

    rows = len(starts) - 1
    owner = jnp.repeat(jnp.arange(rows), jnp.diff(starts), total_repeat_length=len(values))
    return ops.segment_sum(values * x[columns], owner, num_segments=rows)
