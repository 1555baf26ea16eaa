"""Stack promotion in the pipeline: what programs do stays, memory is accounted for, recursion keeps its depth."""

import numpy as np
import pytest
from array_programs import Generator, outcome

import dlvm_py as dlvm
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import bufferize, ownership, stack_promotion


@pytest.mark.parametrize("base", range(0, 40, 20))
def test_random_array_programs(base):
    """Promoted between the stages compute and scheduled, programs give the same and leave nothing behind."""
    for seed in range(base, base + 20):
        module = Generator(seed).module
        wanted = outcome(module, seed)
        for f in module.functions.values():
            bufferize.run(f, noalias_params=f.name == "f")
            stack_promotion.run(f)
        module.stage = "compute"
        verify(module)
        for f in module.functions.values():
            ownership.run(f)
        module.stage = "scheduled"
        verify(module)
        found = outcome(module, seed, trees_at_root=True, check_ownership=True)
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def small(x):
    a = np.zeros((2, 2))
    a[0, 0] = x
    a[1, 1] = 2 * x
    a[0, 1] = 1
    b = a @ a
    return np.sum(b @ b) + b[0, 0]


def swapped(x):
    u, v = np.array([1.0, 2, 3]), np.zeros(3)
    for _ in range(4):
        v[:] = u * x + v
        u, v = v, u
    return u[0] + v[2]


def of_two(x):
    u = np.array([1.0, 2, 3])
    if x > 1:
        u = np.array([4.0, 5, 6]) * x
    return u.sum() * u[1]


def raises(x):
    u = np.array([x, 2.0])
    if u.sum() > 3:
        raise ValueError("too much")
    return u[0]


@pytest.mark.parametrize("function", [small, swapped, of_two, raises], ids=lambda f: f.__name__)
def test_native(function):
    """Values and derivatives; nothing of a promoted array is on the heap."""
    compiled, gradient = dlvm.jit(function), dlvm.grad(function)
    for x in (0.5, 2.0):
        try:
            wanted = function(x)
        except ValueError:
            with pytest.raises(ValueError, match="too much"):
                compiled(x)
            continue
        assert compiled(x) == pytest.approx(wanted, rel=1e-13)
        h = 1e-6
        assert gradient(x) == pytest.approx((function(x + h) - function(x - h)) / (2 * h), rel=1e-6, abs=1e-8)
    text = compiled.ir(stage="scheduled")
    assert "allocateStack" in text and "allocateHeap" not in text


def test_returned_memory_is_the_callers():
    """A returned array is not in the frame, also where another one that is small was swapped with it."""

    @dlvm.jit
    def f(x, n):
        u, v = np.array([x, x]), np.zeros(2)
        for _ in range(n):
            u, v = v, u
        return u

    kept = [f(1.0 + k, k) for k in range(6)]
    assert [a.tolist() for a in kept] == [[1.0 + k] * 2 if k % 2 == 0 else [0.0, 0.0] for k in range(6)]


def test_recursion_keeps_its_depth():
    """Functions that call have their memory on the heap: frames stay small."""

    @dlvm.jit
    def depth(n, x):
        a = np.array([x, x, x])
        if n == 0:
            return a.sum()
        return depth(n - 1, a[0] + 1.0)

    assert depth(5000, 0.0) == 15000.0
    assert "allocateStack" not in depth.ir(stage="scheduled")
