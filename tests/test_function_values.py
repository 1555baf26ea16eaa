"""Functions as values and combiners, against Python's own folds; extern functions; what is refused."""

from functools import reduce
from itertools import accumulate

import numpy as np
import pytest

from dlvm_py.errors import NotDifferentiable, ParseError, PassError, VerifierError
from dlvm_py.ir import FunctionType, Literal, print_module, scalar
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.types import F32
from dlvm_py.ir.value import FunctionName
from dlvm_py.ir.verifier import verify
from dlvm_py.tools.native import callable_of
from dlvm_py.transforms import differentiate_module, lower_functions

pytestmark = pytest.mark.usefixtures("plain_code")

HEAD = 'module "m"\nstage raw\n\n'
STEP = """func @step: (f64, f64) -> f64 {
'entry(%r: f64, %x: f64):
    %s = sin %x: f64
    %y = multiply %r: f64, %s: f64
    %z = add %y: f64, %x: f64
    return %z: f64
}

"""


def step(r, x):
    return r * np.sin(x) + x


def program(instruction, params="%x: <_ x _ x f64>", result="<_ x f64>"):
    types = ", ".join(p.split(": ", 1)[1] for p in params.split(", %"))
    return parse_module(
        f"{HEAD}{STEP}func @f: ({types}) -> {result} {{\n'entry({params}):\n    %y = {instruction}\n"
        f"    return %y: {result}\n}}\n"
    )


def everywhere(module, *args):
    """The result of @f by the interpreter, as it is and lowered, and natively."""
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    found = [run(module, "f", args)]
    native = callable_of(module, "f")
    lower_functions.run(module)
    verify(module)
    found.append(run(module, "f", args))
    found.append(native(*args))
    return found


X = np.random.default_rng(3).normal(size=(3, 4))


@pytest.mark.parametrize(("axes", "rows"), [((0,), X.T), ((1,), X), ((0, 1), [X.ravel()]), ((1, 0), [X.ravel()])])
def test_reduce(axes, rows):
    """A fold from init over the elements in C order."""
    shape = "f64" if len(axes) == 2 else "<_ x f64>"
    text = f"reduce %x: <_ x _ x f64> by @step: (f64, f64) -> f64 init 0.5: f64 along {', '.join(map(str, axes))}"
    wanted = [reduce(step, row, 0.5) for row in rows]
    for found in everywhere(program(text, result=shape), X):
        np.testing.assert_allclose(np.ravel(found), wanted, rtol=1e-13)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_reduce_of_nothing(shape):
    """An empty axis gives init; an empty result is empty."""
    text = "reduce %x: <_ x _ x f64> by @step: (f64, f64) -> f64 init 0.5: f64 along 1"
    wanted = [reduce(step, row, 0.5) for row in np.ones(shape)]
    for found in everywhere(program(text), np.ones(shape)):
        np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (1, 0)])
def test_scan(axes):
    """Prefixes along one axis after the other."""
    wanted = X
    for axis in axes:
        wanted = np.apply_along_axis(lambda row: np.array(list(accumulate(row, step))), axis, wanted)
    text = f"scan %x: <_ x _ x f64> by @step: (f64, f64) -> f64 along {', '.join(map(str, axes))}"
    for found in everywhere(program(text, result="<_ x _ x f64>"), X):
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.parametrize("word", ["subtract", "divide", "modulo", "power", "hypot"])
def test_ops_that_are_not_associative(word):
    """They fold from the first element to the last."""
    python = {
        "subtract": np.subtract,
        "divide": np.divide,
        "modulo": np.mod,
        "power": np.power,
        "hypot": np.hypot,
    }[word]
    x = np.abs(X) + 0.5
    text = f"reduce %x: <_ x _ x f64> by {word} init 1.25: f64 along 1"
    for found in everywhere(program(text), x):
        np.testing.assert_allclose(found, [reduce(python, row, 1.25) for row in x], rtol=1e-13)


def test_derivative_against_differences():
    """The derivative of a fold by a function."""
    module = parse_module(
        HEAD
        + STEP
        + """func @f: (<4 x f64>, f64) -> f64 {
'entry(%x: <4 x f64>, %r: f64):
    %s = scan %x: <4 x f64> by @step: (f64, f64) -> f64 along 0
    %y = reduce %s: <4 x f64> by @step: (f64, f64) -> f64 init %r: f64 along 0
    return %y: f64
}

[adjoint @f keeping 0]
func @g: (<4 x f64>, f64) -> (<4 x f64>, f64, f64)
"""
    )
    differentiate_module.run(module)
    verify(module)
    x, r, h = X[0], 0.3, 1e-6

    def f(x, r):
        return reduce(step, accumulate(x, step), r)

    dx = [(f(x + h * e, r) - f(x - h * e, r)) / (2 * h) for e in np.eye(4)]
    dr = (f(x, r + h) - f(x, r - h)) / (2 * h)
    for found in (run(module, "g", [x, r]), callable_of(module, "g")(x, r)):
        np.testing.assert_allclose(found[0], dx, rtol=1e-6)
        np.testing.assert_allclose(found[1:], [dr, f(x, r)], rtol=1e-6)


# -- extern ------------------------------------------------------------------------------------------------

FOREIGN = """[extern]
func @half: (f64) -> f64

func @f: (f64) -> f64 {
'entry(%x: f64):
    %y = apply @half(%x: f64) -> f64
    %z = square %y: f64
    return %z: f64
}

[adjoint @f]
func @f_grad: (f64) -> (f64)
"""
GRADIENT = """
func @half_grad: (f64, f64) -> (f64) {
'entry(%x: f64, %seed: f64):
    %d = multiply %seed: f64, 0.5: f64
    %r = literal (%d: f64): (f64)
    return %r: (f64)
}
"""


def test_extern_from_python():
    """The interpreter takes extern functions; their derivative is a function of the program."""
    module = parse_module(HEAD + FOREIGN + GRADIENT)
    differentiate_module.run(module)
    verify(module)
    assert run(module, "f_grad", [3.0], externs={"half": lambda x: x / 2}) == (1.5,)
    with pytest.raises(PassError, match="@half is only declared"):
        run(module, "f", [3.0])


def test_extern_without_a_derivative():
    """The message says what is missing."""
    with pytest.raises(NotDifferentiable, match="DL613") as caught:
        differentiate_module.run(parse_module(HEAD + FOREIGN))
    assert "@half_grad: (f64, f64) -> (f64)" in str(caught.value)


# -- refused -----------------------------------------------------------------------------------------------

CALL = HEAD + STEP + "func @f: (f64) -> f64 {\n'entry(%x: f64):\n    %y = {}\n    return %y: f64\n}}\n"
REFUSED = [
    ("apply @nothing(%x: f64) -> f64", "DL112", "there is no function '@nothing'"),
    ("scan %x: f64 by @steb: (f64, f64) -> f64 along", "DL112", "did you mean step"),
    ("reduce %x: f64 by @step: (f64) -> f64 init 0: f64 along 0", "DL116", "is combined by a (f64, f64) -> f64"),
    ("reduce %x: f64 by @step: (f64, f64) -> f64 init 0: f64 along 0", "DL116", "axes (0,) do not fit rank 0"),
    ("apply %x(%x: f64) -> f64", "DL115", "'%x' is f64, not (f64) -> f64"),
    ("scan %x: f64 by bitAnd along 0", "DL116", "bitAnd"),
]


@pytest.mark.parametrize(("text", "code", "said"), REFUSED, ids=[r[0][:30] for r in REFUSED])
def test_refused_by_the_parser(text, code, said):
    """Located, with the code of its kind."""
    with pytest.raises(ParseError) as caught:
        parse_module(CALL.replace("{}", text).replace("}}", "}"))
    assert code in str(caught.value) and said in str(caught.value)


def test_stated_type_of_a_function():
    """The type at a use must be that of the definition."""
    text = (
        HEAD
        + """func @one: (f64) -> f64 {
'entry(%x: f64):
    return %x: f64
}

func @f: (<2 x f64>) -> f64 {
'entry(%v: <2 x f64>):
    %y = reduce %v: <2 x f64> by @one: (f64, f64) -> f64 init 0: f64 along 0
    return %y: f64
}
"""
    )
    with pytest.raises(ParseError, match="'@one' is \\(f64\\) -> f64, not \\(f64, f64\\) -> f64"):
        parse_module(text)


def test_refused_by_the_verifier():
    """A function that is named must be there, and a name is of a function type."""
    module = program("reduce %x: <_ x _ x f64> by @step: (f64, f64) -> f64 init 0.5: f64 along 1")
    (i, _) = module.functions["f"].instructions()
    i.operands[1] = Literal(i.operands[1].type, FunctionName("gone"))
    with pytest.raises(VerifierError, match="there is no function @gone"):
        verify(module)
    i.operands[1] = Literal(scalar(F32), FunctionName("step"))
    with pytest.raises(VerifierError, match="the function @step is no f32"):
        verify(module)
    i.operands[1] = Literal(FunctionType((), scalar(F32)), FunctionName("step"))
    with pytest.raises(VerifierError, match="@step is \\(f64, f64\\) -> f64, not \\(\\) -> f32"):
        verify(module)


def test_functions_from_outside():
    """The interpreter takes functions by their names; native code says what it needs."""
    text = "apply %g(%x: f64, %x: f64) -> f64"
    module = program(text, params="%x: f64, %g: (f64, f64) -> f64", result="f64")
    assert run(module, "f", [2.0, "@step"]) == pytest.approx(step(2.0, 2.0))
    with pytest.raises(PassError, match="the name of a"):
        run(module, "f", [2.0, "@f"])
    with pytest.raises(PassError, match="known from the text"):
        callable_of(module, "f")


def test_products_of_many_matrices():
    """dot of rank 3 is NumPy's matmul, natively too; its derivative by differences; what does not fit is refused."""
    text = """func @f: (<_ x _ x _ x f64>, <_ x _ x _ x f64>) -> f64 {
'entry(%x: <_ x _ x _ x f64>, %y: <_ x _ x _ x f64>):
    %z = dot %x: <_ x _ x _ x f64>, %y: <_ x _ x _ x f64>
    %s = square %z: <_ x _ x _ x f64>
    %r = reduce %s: <_ x _ x _ x f64> by add init 0: f64 along 0, 1, 2
    return %r: f64
}

[adjoint @f]
func @g: (<_ x _ x _ x f64>, <_ x _ x _ x f64>) -> (<_ x _ x _ x f64>, <_ x _ x _ x f64>)
"""
    module = parse_module(HEAD + text)
    differentiate_module.run(module)
    verify(module)
    r = np.random.default_rng(1)
    x, y, dx, dy = (r.normal(size=s) for s in ((4, 2, 3), (4, 3, 5)) * 2)

    def f(x, y):
        return np.sum(np.matmul(x, y) ** 2)

    h = 1e-6
    wanted = (f(x + h * dx, y + h * dy) - f(x - h * dx, y - h * dy)) / (2 * h)
    for call in (lambda n, *a: run(module, n, a), lambda n, *a: callable_of(module, n)(*a)):
        assert call("f", x, y) == pytest.approx(f(x, y), rel=1e-12)
        gx, gy = call("g", x, y)
        assert np.sum(gx * dx) + np.sum(gy * dy) == pytest.approx(wanted, rel=1e-7)
    for shapes, said in (("<2 x 1 x 3 x f64>, <4 x 3 x 1 x f64>", "the extents of batches differ, 2 and 4"),
                         ("<2 x 1 x 3 x f64>, <2 x 4 x 1 x f64>", "inner extents differ, 3 and 4"),
                         ("<2 x 1 x 3 x f64>, <3 x 4 x f64>", "dot of ranks 3 and 2")):  # fmt: skip
        a, b = shapes.split(", ")
        with pytest.raises(ParseError, match=said):
            params = f"%x: {a}, %y: {b}"
            parse_module(f"{HEAD}func @f: ({shapes}) -> () {{\n'entry({params}):\n    dot {params}\n    return\n}}\n")
