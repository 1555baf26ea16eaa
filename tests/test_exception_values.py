"""What a handler reads of an exception: its text, its repr and its arguments, which are what it was raised with."""

import math

import numpy as np
import pytest

import dlvm_py as dlvm


def number_of(x):
    try:
        if x > 5:
            raise ValueError(x)
        return x * 10
    except ValueError as error:
        print(error, repr(error))
        return error.args[0] + len(error.args)


def text_of(x):
    try:
        if x == 4:
            raise KeyError(f"no {x}")
        print({1: 2.0}[x])
        if x < 2:
            raise ValueError("small")
    except KeyError as error:
        print(str(error), f"{error}", repr(error))
    except ValueError as error:
        print(error.args[0], len(error.args))


@pytest.mark.parametrize(("f", "arguments"), [(number_of, (2, 7)), (text_of, (1, 3, 4))])
def test_what_handlers_read(f, arguments, capsys):
    found = []
    for g in (f, dlvm.jit(f)):
        found.append(([repr(g(x)) for x in arguments], capsys.readouterr().out))
    assert found[0] == found[1]


def raises_number(x):
    raise ValueError(x)


def asserts(x):
    assert x < 0, x


@pytest.mark.parametrize("f", [raises_number, asserts])
@pytest.mark.parametrize("x", [3, 1.5, math.inf, np.float32(2.5)])
def test_exceptions_keep_numbers_as_their_arguments(f, x):
    with pytest.raises((ValueError, AssertionError)) as caught:
        dlvm.jit(f)(x)
    assert repr(caught.value.args) == repr((x,))
