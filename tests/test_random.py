"""numpy.random.Generator in compiled code: NumPy's streams bit for bit, the state behind a call, derivatives."""

import sys
import threading

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.errors import (
    ArgumentError,
    CompileError,
    NotDifferentiable,
    TypeMismatch,
    UnknownFunction,
    UnsupportedSyntax,
)
from dlvm_py.frontend.table import random_methods
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.parser import parse_module
from dlvm_py.tools.aot import Exporter

I64 = np.iinfo(np.int64)


def shuffled(r):
    x, y = np.arange(7), np.arange(12.0).reshape(3, 4)
    r.shuffle(x)
    r.shuffle(y)
    r.shuffle(y, axis=1)
    return x, y


def written(r):
    x, y = np.zeros(4), np.zeros((2, 3), np.float32)
    return r.random(out=x), r.standard_normal(out=y, dtype=np.float32), x, y


# each row is compared as it stands: values by their bits, classes, dtypes, and the state of the generator afterwards
STREAMS = {
    "random": lambda r: (r.random(), r.random(3), r.random((2, 2), np.float32), r.random(dtype="float32")),
    "standard": lambda r: (
        r.standard_normal(), r.standard_normal(2000), r.standard_normal(99, np.float32),
        r.standard_exponential(2000), r.standard_exponential(99, np.float32),
        r.standard_exponential(9, method="inv"), r.standard_exponential(9, np.float32, method="inv"),
    ),
    "normal": lambda r: (
        r.normal(), r.normal(1, 2, 5), r.normal([0.0, 1.0]), r.normal(np.ones((2, 1)), np.array([1, 2], np.float32)),
        r.normal(np.ones(3), 2.0, size=(2, 3)), r.uniform(), r.uniform(-1, 3, 4), r.uniform(np.arange(3), 5),
    ),
    "moved": lambda r: (
        r.laplace(1.5, 0.7, 99), r.gumbel(1.5, 0.7, 99), r.logistic(1.5, 0.7, 99), r.rayleigh(0.7, 99),
        r.exponential(0.7, 99), r.exponential(),
    ),
    "gamma": lambda r: (
        r.gamma(0.3, 2.0, 50), r.gamma(3.3), r.standard_gamma(2.5), r.standard_gamma(0.5, 5, np.float32),
        r.gamma(np.array([0.5, 1.0]), 3.0), r.beta(0.5, 0.5, 30), r.beta(2.0, 3.0), r.beta(np.ones(3), 2.0),
    ),
    "others": lambda r: (
        r.chisquare(3, 9), r.standard_t(4.0, 9), r.f(3.0, 4.0, 9), r.standard_cauchy(9), r.pareto(2.0, 9),
        r.power(2.0, 9), r.weibull(1.5, 9), r.wald(1.0, 2.0, 9), r.vonmises(0.1, 2.0, 9), r.triangular(0, 1, 4, 9),
    ),
    "discrete": lambda r: (
        r.poisson(3.0, 20), r.poisson(30.0, 20), r.poisson(), r.poisson(np.array([1.0, 20.0])), r.binomial(10, 0.3, 20),
        r.binomial(100, 0.6, 20), r.binomial(5, 0.5), r.binomial(np.array([3, 50]), 0.4), r.geometric(0.1, 9),
        r.geometric(0.5, 9), r.negative_binomial(3, 0.4, 9), r.logseries(0.6, 9), r.zipf(2.0, 9),
    ),
    "integers": lambda r: (
        r.integers(10), r.integers(3, 10, 20), r.integers(2**40, size=9),
        r.integers(I64.min, I64.max, 4, endpoint=True),
        r.integers(5, 5, endpoint=True), r.integers(2**32, size=4), r.integers(5, dtype=int),
        r.integers(7, size=(2, 3), dtype="int64"), r.integers(3, 10, 20, dtype=np.uint32),
        r.integers(-(2**31), 2**31, 9, dtype=np.int32), r.integers(0, 2**62, 4, dtype=np.uint64), r.integers(5, 5, 0),
    ),
    "small": lambda r: (
        r.integers(10, dtype=np.int8), r.integers(3, 10, 21, dtype=np.uint8), r.integers(-128, 128, 9, dtype=np.int8),
        r.integers(200, size=50, dtype=np.uint8), r.integers(5, 5, endpoint=True, dtype=np.int8), r.random(),
        r.integers(10, dtype=np.int16), r.integers(-(2**15), 2**15, 9, dtype=np.int16),
        r.integers(0, 40000, 99, dtype=np.uint16), r.random(), r.integers(2, dtype=bool), r.integers(0, 2, 40, bool),
        r.integers(0, 1, 5, np.bool_), r.integers(2, dtype=np.bool_), r.random(),
    ),
    "permutation": lambda r: (
        r.permutation(6), r.permutation(np.arange(5.0)), r.permutation(np.arange(12).reshape(3, 4)),
        r.permutation(np.arange(12).reshape(3, 4), axis=1), r.permutation([3, 1, 2]), r.permutation(0),
    ),
    "shuffle": shuffled,
    "out": written,
    "choice": lambda r: (
        r.choice(5), r.choice(np.arange(3.0)), r.choice(5, 4), r.choice(np.arange(3.0), (2, 2)),
        r.choice(np.arange(6).reshape(2, 3), axis=1), r.choice(np.arange(6).reshape(2, 3), 2, axis=1),
        r.choice(3, p=[0.1, 0.2, 0.7]), r.choice(3, 5, p=np.array([0.1, 0.2, 0.7])),
        r.choice(np.arange(4.0), 3, False, [0.1, 0.2, 0.3, 0.4]),
    ),
    "without replacement": lambda r: (
        r.choice(10, 10, False), r.choice(1000, 30, False), r.choice(1000, 30, False, shuffle=False),
        r.choice(5, replace=False), r.choice(20000, 2000, replace=False), r.choice(20000, 50, replace=False),
        r.choice(20000, 2000, replace=False, shuffle=False),
    ),
    "noncentral": lambda r: (
        r.noncentral_chisquare(3.0, 1.5), r.noncentral_chisquare(3.0, np.array([0.5, 2.0]), (3, 2)),
        r.noncentral_f(3.0, 4.0, 0.5, 5), r.hypergeometric(10, 5, 7), r.hypergeometric([3, 40], 5, 2),
    ),
    "vectors": lambda r: (
        r.multinomial(20, [0.2, 0.3, 0.5]), r.multinomial(3, [0.5, 0.5], (2, 2)), r.multinomial(0, [1.0]),
        r.dirichlet([1.0, 2.0, 3.0]), r.dirichlet(np.array([0.01, 0.02, 0.05]), 3), r.dirichlet([0.5, 0.5], (2, 1)),
    ),
    "permuted": lambda r: (
        r.permuted(np.arange(6)), r.permuted(np.arange(12).reshape(3, 4)), r.permuted([3, 1, 2]),
        r.permuted(np.arange(12.0).reshape(3, 4), axis=0), r.permuted(np.arange(12).reshape(3, 4), axis=1),
    ),
    "seeded": lambda r: (np.random.default_rng(3).normal(size=3), np.random.default_rng(r).random()),
}  # fmt: skip


def assert_same(got, want):
    """One class, and one value bit for bit."""
    assert type(got) is type(want)
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w)
    else:
        assert np.shape(got) == np.shape(want) and getattr(got, "dtype", None) == getattr(want, "dtype", None)
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes(), (got, want)


SLOW = {  # to compile
    "moved", "gamma", "others", "discrete", "permutation", "without replacement", "out", "choice", "noncentral",
    "permuted",
}  # fmt: skip


def rows(table, slow):
    """The parameters of a test, of which these are left to the long runs."""
    return [pytest.param(*row, id=name, marks=[pytest.mark.slow] if name in slow else []) for name, *row in table]


@pytest.mark.parametrize("draw", rows(STREAMS.items(), SLOW))
def test_streams_are_numpys(draw):
    """What is drawn is what NumPy draws, and the next number of the stream is the same."""
    ours, theirs = np.random.default_rng(11), np.random.default_rng(11)
    assert_same(dlvm.jit(draw)(ours), draw(theirs))
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_lognormal_rounds_as_exp():
    """The draw is NumPy's; exp is the compiler's own, so that it differs by a unit in the last place at most."""
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    got = dlvm.jit(lambda r: r.lognormal(0.1, 0.3, 50))(ours)
    np.testing.assert_allclose(got, theirs.lognormal(0.1, 0.3, 50), rtol=4e-16)
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("method", ["cholesky", pytest.param("svd", marks=pytest.mark.slow)])
def test_multivariate_normal(method):
    """The normals are NumPy's, what moves them is rounded as products are, and derivatives flow through it."""
    cov = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.5]])

    def draw(r, mean, cov):
        return r.multivariate_normal(mean, cov, 4, method=method)

    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    mean = np.arange(3.0)
    np.testing.assert_allclose(dlvm.jit(draw)(ours, mean, cov), draw(theirs, mean, cov), rtol=1e-13, atol=1e-14)
    assert ours.bit_generator.state == theirs.bit_generator.state
    assert dlvm.grad(draw, wrt="mean")(ours, mean, cov) == pytest.approx([4.0, 4.0, 4.0])


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM])
def test_every_bit_generator(kind):
    """Any bit generator of NumPy is driven by its own functions, behind numbers that NumPy drew before."""

    def draw(r):
        return r.standard_normal(5), r.integers(10, size=3, dtype=np.int8), r.random(3, np.float32), r.integers(9)

    ours, theirs = np.random.Generator(kind(5)), np.random.Generator(kind(5))
    for r in (ours, theirs):
        r.integers(10, dtype=np.int32)  # leaves half of a word behind
    assert_same(dlvm.jit(draw)(ours), draw(theirs))
    assert_same(ours.random(3), theirs.random(3))


BAD = [
    (lambda r: r.normal(0, -1.0), ValueError), (lambda r: r.uniform(2, 1), ValueError),
    (lambda r: r.uniform(0, np.inf), OverflowError), (lambda r: r.integers(5, 5), ValueError),
    (lambda r: r.integers(0), ValueError), (lambda r: r.integers(0, 300, dtype=np.int8), ValueError),
    (lambda r: r.integers(-1, 3, dtype=np.uint8), ValueError), (lambda r: r.integers(6, 5, endpoint=True), ValueError),
    (lambda r: r.choice(0), ValueError), (lambda r: r.choice(3, 5, replace=False), ValueError),
    (lambda r: r.choice(3, p=[0.1, 0.2, 0.3]), ValueError), (lambda r: r.choice(3, p=[0.5, 0.5]), ValueError),
    (lambda r: r.choice(3, p=[-0.1, 0.2, 0.9]), ValueError), (lambda r: r.choice(3, p=[np.nan, 0.2, 0.9]), ValueError),
    (lambda r: r.choice(3, 2, False, p=[0, 0, 1.0]), ValueError), (lambda r: r.poisson(-1), ValueError),
    (lambda r: r.poisson(1e30), ValueError), (lambda r: r.binomial(-1, 0.3), ValueError),
    (lambda r: r.binomial(10, 1.3), ValueError), (lambda r: r.beta(0, 1), ValueError),
    (lambda r: r.gamma(1.0, -1.0), ValueError), (lambda r: r.zipf(1.0), ValueError),
    (lambda r: np.random.default_rng(-1).random(), ValueError), (lambda r: r.dirichlet([1.0, -1.0]), ValueError),
    (lambda r: r.multinomial(3, [0.9, 0.8, 0.1]), ValueError), (lambda r: r.hypergeometric(3, 4, 9), ValueError),
]  # fmt: skip


@pytest.mark.parametrize(
    ("draw", "kind"), rows(((str(k), *row) for k, row in enumerate(BAD)), {str(k) for k in range(4, 26)} - {"22"})
)
def test_errors_are_numpys(draw, kind):
    """Parameters that are wrong raise NumPy's exceptions, and nothing has been drawn."""
    ours, theirs = np.random.default_rng(11), np.random.default_rng(11)
    with pytest.raises(kind) as wanted:
        draw(theirs)
    with pytest.raises(kind) as found:
        dlvm.jit(draw)(ours)
    assert str(found.value) == str(wanted.value)
    assert ours.bit_generator.state == theirs.bit_generator.state


# -- derivatives and executors -------------------------------------------------------------------------------


def loss(w, b, rng, n):
    s = 0.5
    for _ in range(n):
        z = rng.standard_normal()
        s = s + np.sin(w * z) * s + b * z * z
        if rng.random() < 0.5:
            s = s * w
    return s + np.sum(rng.normal(w, b * b, size=4) ** 3)


def test_gradients_draw_once():
    """Numbers that are drawn are constants of the derivative; a gradient leaves the state that the function leaves."""
    w, b, h = 0.7, 1.3, 1e-6
    after = np.random.default_rng(3)
    value = loss(w, b, after, 5)

    def at(w, b):
        return loss(w, b, np.random.default_rng(3), 5)

    want = [(at(w + h, b) - at(w - h, b)) / (2 * h), (at(w, b + h) - at(w, b - h)) / (2 * h)]
    for derivative, found in (
        (dlvm.grad(loss, wrt=(0, 1)), lambda g: g),
        (dlvm.value_and_grad(loss, wrt=(0, 1)), lambda g: (assert_same(float(g[0]), float(value)), g[1])[1]),
    ):
        rng = np.random.default_rng(3)
        np.testing.assert_allclose(found(derivative(w, b, rng, 5)), want, rtol=1e-7)
        assert rng.bit_generator.state == after.bit_generator.state
    rng = np.random.default_rng(3)
    _, tangent = dlvm.jvp(lambda w: loss(w, b, rng, 5), (w,), (1.0,))
    np.testing.assert_allclose(tangent, want[0], rtol=1e-7)
    assert rng.bit_generator.state == after.bit_generator.state
    f = dlvm.jit(loss)
    for stage in ("optimizable", "scheduled"):
        rng = np.random.default_rng(3)
        module = f.program(w, b, rng, 5, stage=stage).module
        assert run(module, "loss", [np.float64(w), np.float64(b), rng, np.int64(5)]) == value
        assert rng.bit_generator.state == after.bit_generator.state


def walk(x, rng, n):
    if n == 0:
        return x
    z = rng.random()
    return walk(x * z, rng, n - 1) * x + z


def test_recursion_draws_once():
    """A generator is handed from call to call; the reverse sweep of a recursion takes what the forward sweep drew."""
    after = np.random.default_rng(3)
    value, h = walk(1.1, after, 4), 1e-6
    ends = [walk(1.1 + d, np.random.default_rng(3), 4) for d in (h, -h)]
    rng = np.random.default_rng(3)
    assert dlvm.jit(walk)(1.1, rng, 4) == value
    rng = np.random.default_rng(3)
    np.testing.assert_allclose(dlvm.grad(walk)(1.1, rng, 4), (ends[0] - ends[1]) / (2 * h), rtol=1e-7)
    assert rng.bit_generator.state == after.bit_generator.state


GLOBAL = np.random.default_rng(0)


def from_outside(n):
    return GLOBAL.random(n)


def test_captured_generators_are_read_at_every_call():
    """A generator of the module is no constant: each call goes on with the stream, of the one that is there then."""
    global GLOBAL
    f = dlvm.jit(from_outside)
    GLOBAL, theirs = np.random.default_rng(8), np.random.default_rng(8)
    for _ in range(2):
        assert_same(f(3), theirs.random(3))
    GLOBAL, theirs = np.random.default_rng(9), np.random.default_rng(9)
    assert_same(f(3), theirs.random(3))
    assert f.stats()["compiled"] + f.stats()["loaded"] == 1


def test_order_with_print_and_sharing(capsys):
    """Draws of one generator under two names come in the order of the program, between what is printed."""

    def two(r, s):
        a = r.random()
        print(a)
        return a, s.random(), r.random()

    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    want = two(theirs, theirs)
    printed = capsys.readouterr().out
    assert_same(dlvm.jit(two)(ours, ours), want)
    assert capsys.readouterr().out == printed


def test_the_lock_of_the_bit_generator_is_held():
    """A call waits while someone else has the bit generator, and gives it back, also where it raises."""

    @dlvm.jit
    def f(r, n):
        if n < 0:
            raise ValueError("negative")
        return r.random()

    rng = np.random.default_rng(1)
    f(rng, 1)
    found = []
    thread = threading.Thread(target=lambda: found.append(f(rng, 1)))
    with rng.bit_generator.lock:
        thread.start()
        thread.join(0.2)
        assert not found
    thread.join()
    assert len(found) == 1
    with pytest.raises(ValueError, match="negative"):
        f(rng, -1)
    other = threading.Thread(target=lambda: found.append(rng.random()))
    other.start()
    other.join()
    assert len(found) == 2


def test_threads_share_a_stream():
    """Compiled calls and NumPy's own, of one generator in several threads, take whole blocks of one stream."""
    f = dlvm.jit(from_outside_of)
    rng, drawn = np.random.default_rng(5), []
    f(np.random.default_rng(1), 3)
    works = (lambda: drawn.append(f(rng, 50)), lambda: drawn.append(rng.random(50)))
    threads = [threading.Thread(target=lambda w=w: [w() for _ in range(50)]) for w in (*works, works[0])]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    blocks = np.random.default_rng(5).random((150, 50))
    assert {block.tobytes() for block in drawn} == {block.tobytes() for block in blocks}


def from_outside_of(rng, n):
    return rng.random(n)


def test_a_call_keeps_no_references():
    """What the entry takes out of a generator is given back, by calls that match, that do not, and that raise."""

    @dlvm.jit
    def f(r, n):
        if n < 0:
            raise ValueError("negative")
        return r.random()

    rng = np.random.default_rng(1)
    bits = rng.bit_generator

    def counts():
        return [sys.getrefcount(o) for o in (rng, bits, bits.capsule, bits.lock)]

    def calls():
        f(rng, 1)
        f(rng, np.int32(1))
        with pytest.raises(ValueError):
            f(rng, -1)

    calls()
    before = counts()
    for _ in range(5):
        calls()
    assert counts() == before


def test_pullbacks_and_checkpoints_do_not_draw_again():
    """A pullback that is called twice, and loops that would be run again in segments, leave the stream alone."""

    def f(w, rng, n):
        s = w * 1.0
        for _ in range(n):
            s = s * np.sin(s) + rng.standard_normal() * w
        return s

    after = np.random.default_rng(3)
    value = f(0.7, after, 20)
    rng = np.random.default_rng(3)
    want = dlvm.grad(f)(0.7, rng, 20)
    rng = np.random.default_rng(3)
    assert dlvm.grad(dlvm.jit(checkpoint=1)(f))(0.7, rng, 20) == want
    assert rng.bit_generator.state == after.bit_generator.state
    rng = np.random.default_rng(3)
    found, pullback = dlvm.vjp(f, 0.7, rng, 20)
    assert found == value and pullback(1.0) == (want, None, None) and pullback(2.0)[0] == 2 * want
    assert rng.bit_generator.state == after.bit_generator.state


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda r: dlvm.grad(lambda k, r: r.gamma(k))(1.5, r), NotDifferentiable, "standard_gamma has no derivative"),
        (lambda r: dlvm.jvp(lambda k: r.gamma(k), (1.5,), (1.0,)), NotDifferentiable, "standard_gamma has no"),
        (lambda r: dlvm.jacobian(lambda x: x * r.random())(np.ones(2)), NotDifferentiable, "'draw' would happen once"),
        (lambda r: dlvm.grad(lambda r: r.random())(r), ArgumentError, "generator of random numbers"),
        (lambda r: dlvm.jit(lambda: np.random.rand(3))(), UnknownFunction, "rng = np.random.default_rng"),
        (lambda r: dlvm.jit(lambda: np.random.seed(3))(), UnknownFunction, "hidden stream"),
        (lambda r: dlvm.jit(lambda r: r.bytes(3))(r), UnknownFunction, "no supported method `bytes`"),
        (lambda r: dlvm.jit(lambda r: r.normal(0, 1, dtype="f4"))(r), CompileError, "`dtype`"),
        (lambda r: dlvm.jit(lambda r: r.random(3, np.float16))(r), UnsupportedSyntax, "float32 or float64"),
        (lambda r: dlvm.jit(lambda r: r.integers([3, 4]))(r), CompileError, "integers"),
        (lambda r: dlvm.jit(lambda r: r)(r), UnsupportedSyntax, "returns a random Generator"),
        (lambda r: dlvm.jit(lambda: np.random.default_rng())(), UnsupportedSyntax, "needs an int"),
        (lambda r: dlvm.jit(lambda r: r.rand())(np.random.RandomState(3)), ArgumentError, "default_rng"),
    ],
)
def test_what_is_refused(call, kind, words):
    """Derivatives of parameters inside of a draw, the legacy functions, and methods that are not there."""
    with pytest.raises(kind, match=words) as caught:
        call(np.random.default_rng(1))
    assert "random_numbers.py" not in str(caught.value)


def test_libraries_refuse_generators():
    """A library has no NumPy to draw by."""
    module = parse_module(
        'module "m"\nstage raw\nfunc @f: (u64) -> f64 {\n\'e(%g: u64):\n'
        "    %x = draw uniform from %g: u64 ()\n    return %x: f64\n}\n"
    )
    with pytest.raises(TypeMismatch, match="generators"):
        Exporter("m").add_function(module, "f")


def test_methods_are_numpys():
    """Every supported method is one of the Generator's, with its parameters."""
    rng = np.random.default_rng()
    assert all(callable(getattr(rng, name)) for name in random_methods())
