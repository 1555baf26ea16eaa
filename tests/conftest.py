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
