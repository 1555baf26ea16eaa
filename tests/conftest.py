"""The suite verifies after every pass, and compiles into a cache folder of its own: no earlier run hides a fault."""

import atexit
import os
import shutil
import tempfile

# the verifier runs after every pass
os.environ.setdefault("DLVM_VERIFY", "1")

if "DLVM_CACHE_DIR" not in os.environ:
    os.environ["DLVM_CACHE_DIR"] = tempfile.mkdtemp(prefix="dlvm-tests-")
    atexit.register(shutil.rmtree, os.environ["DLVM_CACHE_DIR"], ignore_errors=True)

import pytest  # noqa: E402

import dlvm_py as dlvm  # noqa: E402
from dlvm_py.runtime import threads  # noqa: E402


@pytest.fixture
def eager_threads():
    """Threads are used again after what lost by them; their number is as it was afterwards."""
    before = dlvm.get_num_threads()
    threads.set_penalty(0)
    yield
    threads.set_penalty(threads.PENALTY)
    dlvm.set_num_threads(before)
