"""Reverse mode automatic differentiation on the IR: see adjoint.py for the map of this package."""

from dlvm_py.transforms.differentiate.adjoint import adjoint
from dlvm_py.transforms.differentiate.config import AdjointConfig, Output

__all__ = ["AdjointConfig", "Output", "adjoint"]
