"""Differentiation on the IR: reverse mode (adjoint.py has the map of this package) and forward mode (tangent.py)."""
