"""Differentiation on the IR: reverse mode (adjoint.py has the map of this package) and forward mode (tangent.py)."""

from dlvm_py.transforms.differentiate.adjoint import adjoint, recorded
from dlvm_py.transforms.differentiate.config import AdjointConfig, Output
from dlvm_py.transforms.differentiate.jacobian import MODES, jacobian
from dlvm_py.transforms.differentiate.tangent import TangentConfig, tangent

__all__ = ["MODES", "AdjointConfig", "Output", "TangentConfig", "adjoint", "jacobian", "recorded", "tangent"]
