"""GradBench's tool for JAX, its results awaited: by itself it takes the time at which a call was handed over.

    python benchmarks/gradbench/jax_tool.py --multithreaded

Run in a clone of GradBench, on the PYTHONPATH of its Python packages. Without the option it moves to the first core,
whichever the race has given it.
"""

import runpy
import sys
from pathlib import Path

import gradbench
import jax
from gradbench import wrap


def awaiting(multiple_runs):
    """GradBench's decorator, of a function that gives its result when it is there."""

    def decorator(**options):
        decorate = multiple_runs(**options)
        return lambda function: decorate(lambda given: jax.block_until_ready(function(given)))

    return decorator


if __name__ == "__main__":
    wrap.multiple_runs = awaiting(wrap.multiple_runs)
    script = Path(gradbench.__file__).parent / "tools" / "jax" / "run.py"
    sys.path.insert(0, str(script.parent))
    runpy.run_path(str(script), run_name="__main__")
