"""print and texts: what is written, when, and how often; in each executor, under each derivative."""

import sys
import threading

import numpy as np
import pytest

import dlvm_py as dlvm
from dlvm_py.errors import NotDifferentiable, TypeMismatch, UnsupportedSyntax
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.parser import parse_module
from dlvm_py.tools.aot import Exporter


def step(x, n):
    u = x * 1
    print("begin", n)
    for i in range(n):
        u[i] = u[i] * np.sin(u[0])
        print(f"{i}: {u}")
    return u.sum()


def printed(capsys, action):
    """What an action writes, stdout only."""
    capsys.readouterr()
    action()
    return capsys.readouterr().out


def test_program_order_in_every_executor(capsys):
    """Plain Python, native code and the interpreter write one text, in the order of the program."""
    x = np.array([1.0, 2.0])
    want = printed(capsys, lambda: step(x, 2))
    f = dlvm.jit(step)
    assert printed(capsys, lambda: f(x, 2)) == want
    scope = {}
    exec(dlvm.grad(step).source(x, 2), scope)
    assert printed(capsys, lambda: scope["step_grad"](x, 2)) == want
    for stage in ("optimizable", "scheduled"):
        module = f.program(x, 2, stage=stage).module
        assert printed(capsys, lambda module=module: run(module, "step", [x, np.int64(2)])) == want


def test_derivatives_print_once(capsys):
    """A gradient, alone or with the value, and a tangent write what the primal writes."""
    x = np.array([1.0, 2.0])
    want = printed(capsys, lambda: step(x, 2))
    assert printed(capsys, lambda: dlvm.grad(step)(x, 2)) == want
    assert printed(capsys, lambda: dlvm.value_and_grad(step)(x, 2)) == want
    assert printed(capsys, lambda: dlvm.jvp(lambda x: step(x, 2), (x,), (x,))) == want
    with pytest.raises(NotDifferentiable, match="'print' would happen once a row or column"):
        dlvm.jacobian(lambda x: x * step(x, 2))(x)


def fall(x, n):
    if n == 0:
        return x
    print("down", n, x)
    y = x * fall(x, n - 1)
    print("up", n, y)
    return y


def test_recursion_prints_once(capsys):
    """A call that is left as a call prints in its forward sweep only."""
    want = printed(capsys, lambda: fall(1.5, 3))
    assert printed(capsys, lambda: dlvm.jit(fall)(1.5, 3)) == want
    assert printed(capsys, lambda: dlvm.grad(fall)(1.5, 3)) == want


def test_stream_of_the_moment(monkeypatch):
    """The stream is looked up when something is printed; what it raises comes out, and the call ends there."""
    calls = []

    class Stream:
        def write(self, text):
            calls.append(text)
            if len(calls) > 2:
                raise OSError("full")

        def flush(self):
            calls.append("flush")

    @dlvm.jit
    def f(x):
        for v in x:
            print(v, flush=True)
        return x

    f(np.zeros(0))
    monkeypatch.setattr(sys, "stdout", Stream())
    with pytest.raises(OSError, match="full") as caught:
        f(np.array([1.0, 2.0, 3.0]))
    assert calls == ["1.0\n", "flush", "2.0\n"]
    assert "test_print.py" in caught.value.__notes__[0]


def test_formats_fail_as_in_python():
    """A format that does not fit raises Python's exception, when it runs."""

    @dlvm.jit
    def f(x):
        print(f"{x:.2f}")

    with pytest.raises(TypeError, match="unsupported format string passed to numpy.ndarray.__format__"):
        f(np.ones(2))


def test_other_threads_run_while_one_prints(capsys):
    """The lock that print takes is given back: a thread that computes goes on, and both see their results."""

    @dlvm.jit
    def f(n):
        s = 0.0
        for i in range(n):
            s += i
            if i % 50 == 0:
                print(i)
        return s

    f(1)
    results = []
    threads = [threading.Thread(target=lambda: results.append(f(200))) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [19900.0] * 3
    assert sorted(capsys.readouterr().out.split()) == sorted(["0"] + ["0", "50", "100", "150"] * 3)


def test_errors_show_anything():
    """An exception shows arrays, NumPy scalars by their repr, and more than four numbers."""

    @dlvm.jit
    def f(x, n):
        if n > 2:
            raise ValueError(f"{x} {x[0]!r} {n} {n} {n} {n} {n:>3}")
        assert n < 2, f"{x!r}"
        return n

    x = np.array([1, 2], np.float32)
    with pytest.raises(ValueError) as caught:
        f(x, 3)
    assert str(caught.value) == "[1. 2.] np.float32(1.0) 3 3 3 3   3"
    with pytest.raises(AssertionError) as caught:
        f(x, 2)
    assert str(caught.value) == "array([1., 2.], dtype=float32)"
    assert caught.traceback[-1].lineno is not None and f(x, 1) == 1


def to_file(x):
    print(x, file=open)


def computed_separator(x, s):
    print(x, sep=s[0])


def functions(x):
    print(np.sin)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (to_file, "`file` of print must be sys.stdout or sys.stderr"),
        (computed_separator, "`sep` of print must be a constant string"),
        (functions, "cannot be shown"),
    ],
)
def test_what_is_refused(fn, words):
    """Streams other than Python's two, texts for `sep`, and objects without a text of their own."""
    args = (np.ones(2),) * fn.__code__.co_argcount
    with pytest.raises(UnsupportedSyntax, match=words):
        dlvm.jit(fn)(*args)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('print "{}" to stdout (%x: f64)', "no Python to print"),
        ('check false: bool else ValueError "{:.3f}" (%x: f64)', "needs Python"),
    ],
)
def test_libraries_refuse_what_needs_python(line, words):
    """A library has no Python: what it would have to print, or to format, is refused."""
    module = parse_module(
        f'module "m"\nstage raw\nfunc @f: (f64) -> f64 {{\n\'e(%x: f64):\n    {line}\n    return %x: f64\n}}\n'
    )
    with pytest.raises(TypeMismatch, match=words):
        Exporter("m").add_function(module, "f")


def accumulated(x, rng, n):
    for i in range(n):
        print("next", end=" ")
        x[0] += i
    for _ in range(n):
        print(n)
        x[1] += x[0]
    for _ in range(n):
        x[2] += rng.random()
    return x


def test_what_happens_in_each_trip_happens_so_often(capsys):
    """Where an element that all trips change is kept in a register, prints and draws stay in the loop."""

    def run(f):
        return lambda: print(f(np.zeros(3), np.random.default_rng(1), 4))

    assert printed(capsys, run(dlvm.jit(accumulated))) == printed(capsys, run(accumulated))


def shown_in_a_loop(x, n):
    u = np.zeros(3)
    for i in range(5):
        u[0] += x[i]
        assert i < n, f"{u}"
    return u


def shown_before_more_is_made(x, n):
    u = x * 2
    assert n > 5, f"{u}"
    return x + 1


def shown_between_products(x, n):
    u = x @ np.outer(x, x)
    w = u * 2
    assert n > 5, f"{w} {u}"
    return u + w


@pytest.mark.parametrize("f", [shown_in_a_loop, shown_before_more_is_made, shown_between_products])
def test_a_message_shows_arrays_as_they_are_then(f):
    """What a message may show is written before the condition is tested, and not kept in registers."""
    x = np.arange(1.0, 6.0) / 4
    texts = []
    for g in (f, dlvm.jit(f)):
        with pytest.raises(AssertionError) as caught:
            g(x, 3)
        texts.append(str(caught.value).splitlines()[0])  # pytest adds more to plain ones
    assert texts[1] == texts[0]
