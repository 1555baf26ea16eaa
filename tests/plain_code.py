"""Code that LLVM does not optimise, for tests of what is above it: the language, the IR, its passes, derivatives.

A file of such tests has the line

    pytestmark = pytest.mark.usefixtures("plain_code")

and takes less than half of the time. Of the compiler nothing is left out but LLVM's optimisations, and beside the long
tests (`make test-all`) these programs have them as all others. What depends on them has no such line: kernels and nests
of the back end, elementary functions, bits, orders, threads.
"""

import contextlib
import sys
from unittest.mock import patch

import pytest

import dlvm_py.tools.native
from dlvm_py import driver
from dlvm_py.backend.cpu import compile as native


def compile_plainly(texts, imports, exports, readable=True):
    """As compile_module, with the code generator at its quickest."""
    quick = native.assemble_plainly
    with patch.object(native, "assemble_plainly", lambda module, opt: quick(module)):
        return native.compile_module(texts, imports, exports, plain=True, readable=readable)


def compile_parts(parts, imports, exports, schedule, threads, readable=True):
    """As the compiler's, in one object."""
    return compile_plainly([part.text for part in parts], imports, exports, readable)


@contextlib.contextmanager
def translated_only():
    """Native code as it is emitted, under a key of its own in the disk cache."""
    key = driver.Request.key
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(driver.Request, "key", lambda self: f"{key(self)}-plain"))
        stack.enter_context(patch.object(driver, "compile_parts", compile_parts))
        for module in (dlvm_py.tools.native, sys.modules.get("native")):
            if module is not None:
                stack.enter_context(patch.object(module, "compile_module", compile_plainly))
        yield


@pytest.fixture
def plain_code(request):
    """What is compiled during a test is not optimised."""
    with translated_only() if request.config.option.markexpr == "not slow" else contextlib.nullcontext():
        yield
