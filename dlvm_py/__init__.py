"""dlvm-py: a compiler for numeric Python, with derivatives of the same code.

import dlvm_py as dlvm

@dlvm.jit
def f(x): ...
dlvm.grad(f)(x)
"""

from dlvm_py.api import (
    check,
    free_buffers,
    get_num_threads,
    grad,
    hessian,
    hvp,
    jacobian,
    jit,
    jvp,
    set_num_threads,
    value_and_grad,
    vjp,
)
from dlvm_py.checking.report import CheckReport
from dlvm_py.errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    DLError,
    InternalError,
    NotDifferentiable,
    ShapeMismatch,
    TypeMismatch,
    UnknownFunction,
    UnknownName,
    UnsupportedSyntax,
)
from dlvm_py.implicit import implicit
from dlvm_py.rules import custom_adjoint, custom_tangent, stop_gradient

__version__ = "0.1.0"

__all__ = [
    "ArgumentError", "CheckReport", "CompileError", "DLError", "DeviceError", "InternalError", "NotDifferentiable",
    "ShapeMismatch", "TypeMismatch", "UnknownFunction", "UnknownName", "UnsupportedSyntax", "check", "custom_adjoint",
    "custom_tangent", "free_buffers", "get_num_threads", "grad", "hessian", "hvp", "implicit", "jacobian", "jit", "jvp",
    "set_num_threads", "stop_gradient", "value_and_grad", "vjp",
]  # fmt: skip
