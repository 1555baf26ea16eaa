"""The suite compiles into a cache folder of its own, so that no earlier run can hide a miscompilation."""

import atexit
import os
import shutil
import tempfile

if "DLVM_CACHE_DIR" not in os.environ:
    os.environ["DLVM_CACHE_DIR"] = tempfile.mkdtemp(prefix="dlvm-tests-")
    atexit.register(shutil.rmtree, os.environ["DLVM_CACHE_DIR"], ignore_errors=True)
