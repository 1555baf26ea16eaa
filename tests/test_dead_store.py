"""Stores that no later trip reads (transforms/dead_store.py): they go, and nothing else changes."""

import random

import numpy as np
import pytest
from random_python import load

import dlvm_py as dlvm
from dlvm_py.ir.parser import parse_function
from dlvm_py.transforms.pass_manager import run_pipeline

ROWS = """
func @f: (*<_ x _ x f64>, i64) -> f64 {
'entry(%x: *<_ x _ x f64>, %n: i64):
    %m = allocateHeap f64 count (%n: i64, 4: i64)
    %v = load %x: *<_ x _ x f64>
    store %v: <_ x _ x f64> to %m: *<_ x 4 x f64>
    %last = max %n: i64, 0: i64
    branch 'loop(LAST: i64, 0.0: f64)
'loop(%k: i64, %sum: f64):
    %done = equal %k: i64, 0: i64
    conditional %done: bool then 'exit() else 'body()
'body():
    %j = add %k: i64, -1: i64
    %p = elementPointer %m: *<_ x 4 x f64> at %k: i64
    %q = elementPointer %m: *<_ x 4 x f64> at %j: i64
    %a = load %p: *<4 x f64>
    %b = load READ: *<4 x f64>
    %c = add %a: <4 x f64>, %b: <4 x f64>
    store %c: <4 x f64> to %q: *<4 x f64>
    %z = broadcast 0.0: f64 to (4: i64)
    store %z: <4 x f64> to %p: *<4 x f64>
    %r = reduce %c: <4 x f64> by add init 0.0: f64 along 0
    %s = add %sum: f64, %r: f64
    branch 'loop(%j: i64, %s: f64)
'exit():
    return %sum: f64
}
"""


def fills(text):
    """How many stores of zeros dead_store leaves in a loop down over rows."""
    f = parse_function(text)
    run_pipeline(f, ("dead_store",), verify=True)
    return sum(i.op.name == "store" and i.operands[0].op.name == "broadcast" for i in f.instructions())


def test_what_is_behind_a_loop_that_goes_down():
    """A row that a trip has taken is not read by those before it, where it is known which way the loop goes."""
    taken = ROWS.replace("LAST", "%last").replace("READ", "%q")
    assert fills(taken) == 0
    first = taken.replace("%b = load %q", "%o = elementPointer %m: *<_ x 4 x f64> at 0\n    %b = load %o")
    assert fills(first) == 0  # the loop ends at row 1
    ahead = first.replace("%o = ", "%i = add %k: i64, 1: i64\n    %o = ").replace("at 0", "at %i: i64")
    assert fills(ahead) == 1
    unknown = ROWS.replace("LAST", "%n").replace("READ", "%q")
    assert fills(unknown) == 1  # a negative count goes on for ever
    whole = "    %w = load %m: *<_ x 4 x f64>\n    %t = reduce %w: <_ x 4 x f64> by add init %sum: f64 along 0, 1\n"
    assert fills(taken.replace("    return %sum", whole + "    return %t")) == 1


def rows_program(seed):
    """The source of a function that stores and reads rows and columns of an array of its own, in loops up and down."""
    rng = random.Random(seed)
    lines = ["import numpy as np", "def main(x, s):", "    n = x.shape[0] - 4", "    a = x * 1.0", "    t = 0.0"]

    def place(j):
        row = f"{j} + {rng.randrange(5)}" if j and rng.random() < 0.8 else str(rng.randrange(-3, 4))
        return rng.choice((f"a[{row}]", f"a[{row}, 1:]", f"a[:-1, {row}]" if rng.random() < 0.3 else f"a[{row}]"))

    def statement(j):
        kind = rng.randrange(4)
        if kind == 0:
            return f"{place(j)} = {rng.choice(('0.0', '1.5', 's'))}"
        if kind == 1:
            return f"t += np.sum({place(j)}) * {rng.choice(('s', '0.5'))}"
        read = place(j)
        return f"{read} = 0.5 * {read} + s" if kind == 2 else f"t = 0.9 * t + {place(j)}[1] * {place(j)}[0]"

    for _ in range(rng.randrange(1, 4)):
        head = rng.choice(("range(n)", "range(n - 1, -1, -1)", "range(1, n)", "range(n // 2)"))
        lines.append(f"    for j in {head}:")
        inner = rng.random() < 0.3
        if inner:
            lines.append(f"        for i in {rng.choice(('range(j)', 'range(n - j)', 'range(2)'))}:")
        for _ in range(rng.randrange(2, 5)):
            lines.append("    " * (3 if inner else 2) + statement(rng.choice(("i", "j")) if inner else "j"))
        if rng.random() < 0.5:
            lines.append("        " + statement("j"))
    lines.append("    " + statement(""))
    lines.append(rng.choice(("    return t", "    return t + a[0, 0]", "    return t + np.sum(a)")))
    return "\n".join(lines) + "\n"


def check(seed, n):
    """Values and derivatives of a random program, beside NumPy and forward mode."""
    f = load(rows_program(seed), f"rows_{seed}")
    rng = np.random.default_rng(seed)
    x, s = rng.random((n + 4, n + 4)), 0.7
    try:
        expected = f(x, s)
    except (IndexError, ValueError):
        return
    np.testing.assert_allclose(dlvm.jit(f)(x, s), expected, rtol=1e-12, err_msg=rows_program(seed))
    dx, ds = dlvm.grad(f, wrt=("x", "s"))(x, s)
    tx, ts = rng.standard_normal(x.shape), 0.3
    _, tangent = dlvm.jvp(f, (x, s), (tx, ts))
    np.testing.assert_allclose(np.sum(dx * tx) + ds * ts, tangent, rtol=1e-9, atol=1e-9, err_msg=rows_program(seed))


@pytest.mark.parametrize("seed", range(5))
def test_random_rows(seed):
    """Rows and columns that loops up and down store and read."""
    check(seed, 1 + seed % 6)
