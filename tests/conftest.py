"""The suite compiles into a cache folder of its own, so that no earlier run can hide a miscompilation."""

import os
import tempfile

os.environ.setdefault("DLVM_CACHE_DIR", tempfile.mkdtemp(prefix="dlvm-tests-"))
