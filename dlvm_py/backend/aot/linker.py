"""Objects → a shared library, by a C compiler as the linker's driver: it knows where the C library is.

Looked for in this order: the command in $CC, cc, gcc, clang, then the compiler of the `ziglang` wheel.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dlvm_py.errors import LinkError

_COMMANDS = ("cc", "gcc", "clang")


def find_linker() -> list[str]:
    """The command that links, as words. LinkError if there is none."""
    chosen = shlex.split(os.environ.get("CC", ""))
    if chosen:
        if shutil.which(chosen[0]) is None:
            raise LinkError(f"$CC names {chosen[0]}, which is not found")
        return chosen
    for name in _COMMANDS:
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise LinkError(
        "a shared library needs a linker, and there is none (looked for $CC, cc, gcc, clang, ziglang)\n"
        "  help: install gcc or clang, or `pip install ziglang`; or write the object alone and link it elsewhere"
    )


def link_shared(image: bytes, output: Path, arguments: Sequence[str] = ()) -> None:
    """Link the object `image` to the shared library `output`.

    arguments: for the linker's driver, such as "-lopenblas". LinkError if no linker is found, or it fails.
    """
    command = find_linker()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{output.stem}.o"
        file.write_bytes(image)
        made = Path(folder) / output.name
        words = [*command, "-shared", "-o", str(made), str(file), f"-Wl,-soname,{output.name}"]
        words += [*arguments, "-lm", "-lpthread"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise LinkError(f"{command[0]} could not link {output.name}\n{said}")
        # a new file in the old one's place: a running program keeps the library that it has mapped
        staged = output.with_name(f".{output.name}.{os.getpid()}")
        try:
            shutil.copyfile(made, staged)
            staged.chmod(0o755)
            staged.replace(output)
        except OSError as e:
            staged.unlink(missing_ok=True)
            raise LinkError(f"cannot write {output}: {e.strerror}") from None
