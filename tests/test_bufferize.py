"""bufferize: what is fused, what gets memory, and that nothing else changes."""

import numpy as np
import pytest
from array_programs import Generator, outcome
from irbuild import new_function, pointer

from dlvm_py.ir import (
    F64,
    I64,
    UNDEFINED,
    Builder,
    Literal,
    StackType,
    TensorType,
    literal,
    print_function,
    scalar,
)
from dlvm_py.ir.analysis.extents import extents_of
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import bufferize

VECTOR = pointer(F64, None)
MATRIX = pointer(F64, None, None)
INT = scalar(I64)


class Program:
    """A function of pointers to `ranks`, written by `write(b, *pointers)`, before and after bufferize."""

    def __init__(self, ranks, write, *, noalias_params=True, result=None):
        params = [pointer(F64, *[None] * rank) for rank in ranks]
        self.module, self.f, b, values = new_function(*params, **({"result": result} if result else {}))
        returned = write(b, *values)
        b.ret(*([returned] if result else []))
        verify(self.module)
        before = self.outcome(False)
        bufferize.run(self.f, noalias_params)
        self.module.stage = "compute"
        verify(self.module)
        for x, y in zip(before, self.outcome(True), strict=True):
            np.testing.assert_array_equal(x, y)

    def outcome(self, trees_at_root):
        rng = np.random.default_rng(0)
        args = [rng.standard_normal((4,) * p.type.rank) for p in self.f.params]
        result = run(self.module, "f", args, trees_at_root=trees_at_root)
        return [*args, *([] if result is None else [result])]

    def count(self, op="allocateHeap"):
        """How many instructions of one op there are."""
        return sum(i.op.name == op for i in self.f.instructions())


def part(b, p, start, missing):
    """p[start : start - missing] of a vector."""
    n = b.emit("subtract", b.emit("extent", p, at=0), literal(missing))
    return b.emit("section", p, literal(start), n, literal(1))


# -- how many temporaries ---------------------------------------------------------------------------------


def test_chain_into_a_store():
    """An elementwise chain is one kernel with its store."""

    def write(b, a, c):
        x = b.emit("exp", b.emit("multiply", b.emit("load", a), literal(2.0)))
        b.emit("store", b.emit("add", x, b.emit("tanh", x)), c)

    program = Program((1, 1), write)
    assert program.count() == 0
    assert program.count("exp") == 1  # used twice in one tree, computed once


def test_in_place_update():
    """a += b stays one kernel."""

    def write(b, a, c):
        b.emit("store", b.emit("add", b.emit("load", a), b.emit("load", c)), a)

    program = Program((1, 1), write)
    assert (program.count(), program.count("store")) == (0, 1)


def test_stencil():
    """u[1:-1] += dt * (u[2:] - 2 u[1:-1] + u[:-2]) needs one temporary: the neighbours are read."""

    def write(b, u):
        middle, right, left = part(b, u, 1, 2), part(b, u, 2, 2), part(b, u, 0, 2)
        x = b.emit("multiply", literal(2.0), b.emit("load", middle))
        x = b.emit("add", b.emit("subtract", b.emit("load", right), x), b.emit("load", left))
        x = b.emit("multiply", literal(0.1), x)
        b.emit("store", b.emit("add", b.emit("load", middle), x), middle)

    program = Program((1,), write)
    assert (program.count(), program.count("store")) == (1, 2)


def test_overlapping_copy():
    """a[1:] = a[:-1] reads all before it writes."""
    program = Program((1,), lambda b, a: b.emit("store", b.emit("load", part(b, a, 0, 1)), part(b, a, 1, 1)))
    assert program.count() == 1


def test_same_elements_in_another_order():
    """a[...] = a.T: the same memory, but not element by element."""
    program = Program((2,), lambda b, a: b.emit("store", b.emit("transpose", b.emit("load", a)), a))
    assert program.count() == 1


@pytest.mark.parametrize("noalias", [True, False])
def test_parameters_that_may_overlap(noalias):
    """c = a + 1 is a kernel of its own only where c and a are known to be apart."""

    def write(b, a, c):
        b.emit("store", b.emit("add", b.emit("load", a), literal(1.0)), c)

    program = Program((1, 1), write, noalias_params=noalias)
    assert program.count() == (0 if noalias else 1)


def test_store_between_load_and_use():
    """A value is kept where its memory is overwritten before it is used: the largest value, not its loads."""

    def write(b, a, c):
        x = b.emit("add", b.emit("load", a), b.emit("load", c))
        b.emit("store", b.emit("broadcast", literal(0.0), literal(4)), a)
        b.emit("store", b.emit("negate", x), c)

    program = Program((1, 1), write)
    assert (program.count(), program.count("add")) == (1, 1)


def test_dot_into_a_store():
    """A product goes straight to where it is stored; transposes fold into its operands."""

    def write(b, x, w, y):
        b.emit("store", b.emit("dot", b.emit("transpose", b.emit("load", x)), b.emit("load", w)), y)

    program = Program((2, 2, 2), write)
    assert program.count() == 0
    (product,) = (i for i in program.f.instructions() if i.op.name == "dot")
    view = product.operands[0].operands[0]
    assert view.op.name == "transpose" and view.type.layout == "F"


def test_dot_onto_its_operand():
    """x[...] = x @ w needs a temporary."""
    program = Program((2, 2), lambda b, x, w: b.emit("store", b.emit("dot", b.emit("load", x), b.emit("load", w)), x))
    assert program.count() == 1


def test_dense_layer():
    """tanh(x @ w + b): the product has memory, the rest is one kernel."""

    def write(b, x, w, bias, y):
        z = b.emit("dot", b.emit("load", x), b.emit("load", w))
        z = b.emit("add", z, b.emit("padShape", b.emit("load", bias), at=0))
        b.emit("store", b.emit("tanh", z), y)

    program = Program((2, 2, 1, 2), write)
    assert (program.count(), program.count("store")) == (1, 2)


def test_softmax_of_rows():
    """Row maxima, exponentials and row sums have memory each; differences and quotients do not."""

    def write(b, x, y):
        v = b.emit("load", x)
        high = b.emit("reduce", v, literal(-np.inf), by="max", axes=(1,))
        e = b.emit("exp", b.emit("subtract", v, b.emit("padShape", high, at=1)))
        total = b.emit("reduce", e, literal(0.0), by="add", axes=(1,))
        b.emit("store", b.emit("divide", e, b.emit("padShape", total, at=1)), y)

    program = Program((2, 2), write)
    assert (program.count(), program.count("store"), program.count("exp")) == (3, 4, 1)


def test_scalar_reduction_takes_its_tree():
    """sum(u ** 2) has no temporary."""
    program = Program(
        (1,),
        lambda b, u: b.emit("reduce", b.emit("square", b.emit("load", u)), literal(0.0), by="add", axes=(0,)),
        result=scalar(F64),
    )
    assert program.count() == 0


def test_repeated_rows_are_computed_once():
    """exp(b) that is added to every row is not computed for every row; a cast or a view of it would be."""

    def write(b, x, bias, y):
        row = b.emit("padShape", b.emit("exp", b.emit("load", bias)), at=0)
        b.emit("store", b.emit("add", b.emit("load", x), row), y)

    assert Program((2, 1, 2), write).count() == 1


def test_value_lives_where_it_is_stored():
    """A value that is stored in a fresh array and used elsewhere needs no other memory."""

    def write(b, a, c):
        e = b.emit("exp", b.emit("load", a))
        p = b.emit("allocateHeap", b.emit("extent", a, at=0), dtype="f64")
        b.emit("store", e, p)
        b.emit("store", b.emit("multiply", e, e), c)
        return p

    program = Program((1, 1), write, result=VECTOR)
    assert (program.count(), program.count("exp"), program.count("store")) == (1, 1, 2)


def test_reshaped_value():
    """A reshaped expression is put in memory, and seen there in its new shape."""

    def write(b, x, y):
        n = b.emit("extent", y, at=0)
        flat = b.emit("shapeCast", b.emit("exp", b.emit("load", x)), b.emit("multiply", n, n))
        square = b.emit("shapeCast", b.emit("negate", flat), n, n)
        b.emit("store", b.emit("transpose", square), y)

    program = Program((2, 2), write)
    assert program.count() == 2
    assert {i.type for i in program.f.instructions() if i.op.name == "shapeCast"} == {VECTOR, MATRIX}


def test_reshape_of_what_lies_in_another_order():
    """It is copied once, to where it is wanted: a.T.ravel()."""

    def write(b, x):
        n = b.emit("multiply", b.emit("extent", x, at=0), b.emit("extent", x, at=1))
        flat = b.emit("shapeCast", b.emit("load", b.emit("transpose", x)), n)
        p = b.emit("allocateHeap", n, dtype="f64")
        b.emit("store", flat, p)
        return p

    program = Program((2,), write, result=VECTOR)
    assert (program.count(), program.count("store")) == (1, 1)


def test_deep_expression():
    """Thousands of ops in one expression are cut into kernels that may be walked by recursion."""

    def write(b, a, c):
        x = b.emit("load", a)
        for _ in range(3000):
            x = b.emit("negate", x)
        b.emit("store", x, c)

    assert Program((1, 1), write).count() == 29


def test_many_operands():
    """A sum of very many arrays is cut into kernels of bounded size."""

    def write(b, *arrays):
        x = b.emit("load", arrays[0])
        for p in arrays[1:]:
            x = b.emit("add", x, b.emit("load", p))
        b.emit("store", x, arrays[0])

    assert 1 <= Program((1,) * 100, write).count() <= 6


@pytest.mark.parametrize("one_array", [False, True])
def test_double_buffer(one_array):
    """`v[...] = u + u[::-1]; u, v = v, u` works in place, if u and v start as two arrays."""
    module, f, b, (a,) = new_function(VECTOR)
    n = b.emit("extent", a, at=0)
    u, v = (b.emit("allocateHeap", n, dtype="f64") for _ in range(2))
    b.emit("store", b.emit("load", a), u)
    loop, body, after = (f.new_block(name) for name in ("loop", "body", "after"))
    b.branch(loop, [literal(0), u, u if one_array else v])
    i, p, q = (loop.add_arg(t) for t in (INT, VECTOR, VECTOR))
    b.at_end(loop).conditional(b.emit("lessThan", i, literal(3)), body, [], after, [])
    b.at_end(body)
    mirrored = b.emit("section", p, b.emit("subtract", n, literal(1)), n, literal(-1))
    b.emit("store", b.emit("add", b.emit("load", p), b.emit("load", mirrored)), q)
    b.branch(loop, [b.emit("add", i, literal(1)), q, p])
    b.at_end(after)
    b.emit("store", b.emit("load", p), a)
    b.ret()
    args = np.arange(4.0), np.arange(4.0)
    run(module, "f", args[:1])
    bufferize.run(f)
    verify(module, "compute")
    run(module, "f", args[1:], trees_at_root=True)
    np.testing.assert_array_equal(*args)
    assert sum(i.op.name == "allocateHeap" for i in f.instructions()) == 2 + one_array


# -- borders ----------------------------------------------------------------------------------------------


def swapping_loop():
    """Array values and an undefined one go round a loop, and through a stack."""
    module, f, b, (a, c) = new_function(VECTOR, VECTOR, result=VECTOR)
    vector = TensorType((None,), F64)
    loop, body, after = (f.new_block(name) for name in ("loop", "body", "after"))
    stack = b.emit("createStack", element=vector)
    b.branch(loop, [literal(0), b.emit("load", a), b.emit("load", c), Literal(vector, UNDEFINED)])
    i, u, v, last = (loop.add_arg(t) for t in (INT, vector, vector, vector))
    b.at_end(loop).conditional(b.emit("lessThan", i, literal(3)), body, [], after, [])
    b.at_end(body)
    w = b.emit("add", u, b.emit("exp", v))
    b.emit("push", w, stack)
    b.emit("store", b.emit("broadcast", literal(0.0), b.emit("extent", w, at=0)), a)
    b.branch(loop, [b.emit("add", i, literal(1)), v, u, w])
    b.at_end(after)
    x = last
    for _ in range(3):
        x = b.emit("add", x, b.emit("pop", stack))
    b.emit("destroyStack", stack)
    b.emit("store", b.emit("multiply", x, u), c)
    b.ret(c)
    return module, f


def test_values_that_cross_blocks():
    """Block arguments and stack elements become pointers; passing a value on copies nothing."""
    module, f = swapping_loop()
    verify(module)
    args = [[np.arange(1.0, 4.0), np.ones(3)] for _ in range(2)]
    run(module, "f", args[0])
    bufferize.run(f)
    module.stage = "compute"
    verify(module)
    run(module, "f", args[1], trees_at_root=True)
    for x, y in zip(*args, strict=True):
        np.testing.assert_array_equal(x, y)
    types = {arg.type for block in f.blocks for arg in block.args}
    assert types == {VECTOR, INT}
    assert {i.type for i in f.instructions() if i.op.name == "createStack"} == {StackType(VECTOR)}
    # copies of a and c on entry (both may be written), and w, which is pushed and goes round
    assert sum(i.op.name == "allocateHeap" for i in f.instructions()) == 3


def test_runs_twice():
    """A function of stage compute has nothing left to fuse: its text stays the same."""
    _, f = swapping_loop()
    bufferize.run(f)
    text = print_function(f)
    bufferize.run(f)
    assert print_function(f) == text


def test_nothing_to_do():
    """A scalar function is not changed."""
    module, f, b, (x,) = new_function(scalar(F64), result=scalar(F64))
    b.ret(b.emit("exp", x))
    assert not bufferize.run(f)


def test_extents():
    """Extents come from literals, from operands that state them, and from pointers."""
    _, f, b, (a, m) = new_function(VECTOR, MATRIX)
    n = b.emit("multiply", b.emit("extent", a, at=0), literal(2))
    v = b.emit("load", a)
    row = b.emit("padShape", b.emit("exp", v), at=0)
    shown = []
    for value in (
        b.emit("broadcast", literal(0.0), n, literal(3)),
        b.emit("add", row, b.emit("transpose", b.emit("load", m))),
        b.emit("dot", v, b.emit("load", m)),
        b.emit("reduce", b.emit("load", m), literal(0.0), by="add", axes=(0,)),
        b.emit("section", a, literal(0), n, literal(1)),
    ):
        for k in extents_of(Builder(f, f.entry), value):
            at = getattr(k, "attrs", {}).get("at")
            shown.append("n" if k is n else k.value if isinstance(k, Literal) else (k.operands[0].name, at))
    assert shown == ["n", 3, ("p1", 1), ("p0", 0), ("p1", 1), ("p1", 1), "n"]


# -- everything at once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("base", range(0, 200, 20))
def test_random_programs(base):
    """bufferize keeps results and side effects of random programs, evaluated where the roots stand."""
    for seed in range(base, base + 20):
        module = Generator(seed).module
        verify(module)
        before = outcome(module, seed)
        for f in module.functions.values():
            bufferize.run(f, noalias_params=f.name == "f")  # @f may hand one array to @g twice
        verify(module, "compute")
        for x, y in zip(before, outcome(module, seed, trees_at_root=True), strict=True):
            np.testing.assert_array_equal(x, y)


def test_value_lives_in_its_row():
    """What is stored to a row of a tape is computed there, and read there as long as nobody writes to it."""

    def write(b, a, tape, c):
        row = b.emit("elementPointer", tape, literal(2))
        x = b.emit("exp", b.emit("load", a))
        b.emit("store", x, row)
        b.emit("store", b.emit("add", x, b.emit("load", c)), c)

    assert Program((1, 2, 1), write).count() == 0

    def overwritten(b, a, tape, c):
        row = b.emit("elementPointer", tape, literal(2))
        x = b.emit("exp", b.emit("load", a))
        b.emit("store", x, row)
        b.emit("store", b.emit("load", c), row)
        b.emit("store", x, c)

    assert Program((1, 2, 1), overwritten).count() == 1
