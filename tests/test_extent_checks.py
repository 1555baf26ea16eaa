"""Native code of hand-written programs: what types leave open is checked, with the interpreter's class of error."""

import numpy as np
import pytest

from dlvm_py.ir.parser import parse_module
from dlvm_py.tools.native import callable_of

HEAD = 'module "m"\nstage raw\n\n'
A, B, M = np.arange(3.0), np.arange(2.0), np.arange(6.0).reshape(2, 3)
CASES = {
    "elementwise": ("(<_ x f64>, <_ x f64>) -> <_ x f64>", "multiply %a: <_ x f64>, %b: <_ x f64>", (A, A), (A, B)),
    "static": ("(<_ x f64>, <3 x f64>) -> <3 x f64>", "add %a: <_ x f64>, %b: <3 x f64>", (A, A), (B, A)),
    "dot": ("(<_ x _ x f64>, <_ x f64>) -> <_ x f64>", "dot %a: <_ x _ x f64>, %b: <_ x f64>", (M, A), (M, B)),
    "concatenate": (
        "(<_ x _ x f64>, <_ x _ x f64>) -> <_ x _ x f64>",
        "concatenate %a: <_ x _ x f64>, %b: <_ x _ x f64> along 0",
        (M, M),
        (M, M[:, :2].copy()),
    ),
    "gather": ("(<_ x f64>, <_ x i64>) -> <_ x f64>", "gather %a: <_ x f64> at (%b: <_ x i64>)",
               (A, np.array([2, 0])), (A, np.array([0, 3]))),
    "before": ("(<_ x f64>, <_ x i64>) -> <_ x f64>", "gather %a: <_ x f64> at (%b: <_ x i64>)",
               (A, np.array([1])), (A, np.array([-1, 1]))),
    "solve": ("(<_ x _ x f64>, <_ x _ x f64>) -> <_ x _ x f64>", "solve %a: <_ x _ x f64>, %b: <_ x _ x f64>",
              (np.eye(2), M), (np.eye(3), M)),
    "eigvalsh": ("(<_ x _ x f64>, i64) -> <_ x f64>", "eigvalsh %a: <_ x _ x f64> to (%b: i64)",
                 (np.eye(2), 2), (np.eye(2), 3)),
    "section": (
        "(<_ x f64>, i64) -> <2 x f64>",
        "section %a: <_ x f64> at (%b: i64) count (2: i64) step (1: i64)",
        (A, 1),
        (A, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_raises(name):
    signature, body, good, bad = CASES[name]
    params, result = signature.split(" -> ")
    kinds = [t.strip() for t in params[1:-1].split(", ")]
    text = f"{HEAD}func @f: {signature} {{\n'entry(%a: {kinds[0]}, %b: {kinds[1]}):\n"
    f = callable_of(parse_module(f"{text}    %y = {body}\n    return %y: {result}\n}}\n"), "f")
    f(*good)
    with pytest.raises((ValueError, IndexError), match=body.split()[0]):
        f(*bad)
