"""Python functions to raw IR: what they capture, their syntax trees, and their translation."""

from dlvm_py.frontend.capture import Captured, Captures, capture, fingerprint, plain_function
from dlvm_py.frontend.table import METHODS, numpy_names
from dlvm_py.frontend.translate import ParamInfo, Translation, translate

__all__ = [
    "METHODS", "Captured", "Captures", "ParamInfo", "Translation", "capture", "fingerprint", "numpy_names",
    "plain_function", "translate",
]  # fmt: skip
