"""The suite verifies after every pass, and compiles into a cache folder of its own: no earlier run hides a fault."""

import atexit
import gc
import os
import shutil
import sys
import tempfile

# the verifier runs after every pass
os.environ.setdefault("DLVM_VERIFY", "1")

if "DLVM_CACHE_DIR" not in os.environ:
    os.environ["DLVM_CACHE_DIR"] = tempfile.mkdtemp(prefix="dlvm-tests-")
    atexit.register(shutil.rmtree, os.environ["DLVM_CACHE_DIR"], ignore_errors=True)

import pytest  # noqa: E402
from assembler import Kernels, assembler  # noqa: E402
from plain_code import plain_code  # noqa: E402, F401 (a fixture)

import dlvm_py as dlvm  # noqa: E402
import dlvm_py.driver  # noqa: E402, F401 (the compiler)
from dlvm_py.runtime import threads  # noqa: E402


@pytest.fixture
def eager_threads():
    """Threads are used again after what lost by them; their number is as it was afterwards."""
    before = dlvm.get_num_threads()
    threads.set_penalty(0)
    yield
    threads.set_penalty(threads.PENALTY)
    dlvm.set_num_threads(before)


def pytest_configure(config):
    """What is compiled for a GPU is kept; by its own PTX for each architecture it is assembled where slow tests run."""
    config.kernels = Kernels(own_ptx=config.option.markexpr != "not slow")
    config.add_cleanup(config.kernels.collect())


def pytest_collection_finish():
    """What is imported and collected stays: the cycle collector need not look at it again with each compilation."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # a compilation makes objects by the hundred thousand


def pytest_sessionfinish(session):
    """Assemble the kernels: each worker what others do not; at last the process that started them."""
    if assembler() is None:
        return
    wrong = session.config.kernels.assemble()
    for path, words in wrong.items():
        print(f"\n{path}: {words}", file=sys.stderr)
    if wrong and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
