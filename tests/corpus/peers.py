"""The programs of the corpus by other tools, as they are written: `np` is the tool's own NumPy.

    python -m corpus.peers TOOL     (in tests/)  one JSON line a program and point: its gradient, or why there is none

Each tool is run as its documentation says for code with Python control flow: JAX without jit, PyTorch by its NumPy
namespace, autograd by its own. What they refuse is counted as refused, not as wrong. Imports nothing of dlvm-py.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
import warnings
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from corpus import CASES, Case
from corpus.case import float_leaves

SECONDS = 60  # for one program
Gradient = Callable[[Callable[..., Any], Case, tuple[Any, ...]], Any]


def with_numpy(function: FunctionType, namespace: ModuleType) -> Callable[..., Any]:
    """The function, and what it calls in its module, with another `np`."""
    there = dict(function.__globals__, np=namespace)
    for name, value in list(there.items()):
        if isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
            there[name] = FunctionType(value.__code__, there, name, value.__defaults__, value.__closure__)
    return there[function.__name__]


def by_jax() -> tuple[str, ModuleType, Gradient]:
    """jax.grad, in double precision on the CPU."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")

    def run(f: Callable[..., Any], case: Case, args: tuple[Any, ...]) -> Any:
        arrays = tuple(jax.numpy.asarray(a) if isinstance(a, np.ndarray) else a for a in args)
        return jax.grad(f, argnums=case.wrt)(*arrays)

    return f"JAX {jax.__version__}", jax.numpy, run


def by_torch() -> tuple[str, ModuleType, Gradient]:
    """torch.autograd.grad through torch._numpy, PyTorch's NumPy on tensors."""
    import torch
    import torch._numpy as tnp

    torch.set_default_dtype(torch.float64)

    def run(f: Callable[..., Any], case: Case, args: tuple[Any, ...]) -> Any:
        leaves = []
        values: list[Any] = list(args)
        for k, a in enumerate(args):
            if isinstance(a, np.ndarray | float) and k in case.wrt:
                leaf = torch.tensor(a, requires_grad=True)
                leaves.append(leaf)
                values[k] = tnp.asarray(leaf * 1)  # a leaf itself refuses stores
            elif isinstance(a, np.ndarray):
                values[k] = tnp.asarray(torch.tensor(a))
            elif float_leaves(a):
                raise TypeError(f"a {type(a).__name__} as an argument")
        y = f(*values)
        found = torch.autograd.grad(getattr(y, "tensor", y), leaves, allow_unused=True)
        return [np.zeros(v.shape) if g is None else g.numpy() for g, v in zip(found, leaves, strict=True)]

    return f"PyTorch {torch.__version__}", tnp, run


def by_autograd() -> tuple[str, ModuleType, Gradient]:
    """autograd.grad (HIPS)."""
    from importlib.metadata import version

    import autograd
    import autograd.numpy as anp

    def run(f: Callable[..., Any], case: Case, args: tuple[Any, ...]) -> Any:
        return autograd.grad(f, argnum=case.wrt)(*args)

    return f"autograd {version('autograd')}", anp, run


TOOLS: dict[str, tuple[str, Callable[[], tuple[str, ModuleType, Gradient]]]] = {
    "jax": ("JAX", by_jax), "torch": ("PyTorch", by_torch), "autograd": ("autograd", by_autograd),
}  # fmt: skip


def plain(value: Any) -> list[float]:
    """The float leaves of a gradient, real and imaginary parts in turn for complex ones, as JSON takes them."""
    found: list[float] = []
    for leaf in float_leaves(_numpy(value)):
        a = np.ravel(np.asarray(leaf))
        found += (a.astype(complex).view(float) if a.dtype.kind == "c" else a.astype(float)).tolist()
    return found


def _numpy(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_numpy(v) for v in value)
    if isinstance(value, dict):
        return {k: _numpy(v) for k, v in value.items()}
    return np.asarray(value) if hasattr(value, "__array__") else value


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def main(tool: str) -> None:
    """Run all programs from the one on whose number is given behind the tool's name."""
    name, make = TOOLS[tool]
    if importlib.util.find_spec(tool) is None:
        print(json.dumps({"tool": name, "installed": False}))
        return
    title, namespace, run = make()
    print(json.dumps({"tool": title, "installed": True}))
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _too_long)
    for case in CASES.values():
        f = with_numpy(case.fn, namespace)
        for k in range(len(case.points)):
            line: dict[str, Any] = {"case": case.name, "point": k}
            signal.alarm(SECONDS)
            try:
                with np.errstate(all="ignore"):
                    line["gradient"] = plain(run(f, case, case.args(k)))
            except Exception as error:  # noqa: BLE001 - whatever a tool raises is its refusal
                line["refused"] = type(error).__name__
            finally:
                signal.alarm(0)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
