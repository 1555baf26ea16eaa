"""Programs in processes of their own, for what a process has once: modules, settings, threads, a memory, an end."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import dlvm_py

ROOT = Path(dlvm_py.__file__).parent.parent


def run_python(*words, check=True, timeout=120, cwd=None, stdin=None, **environment):
    """The ended process of this Python with these words, these variables beside those of here, and this as its input.

    The package it finds is the one that is tested. If it does not end well, the test fails with what it wrote.
    """
    paths = [str(ROOT), environment.pop("PYTHONPATH", None), os.environ.get("PYTHONPATH")]
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
    )
    if check and done.returncode:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done


def run_program(text, folder, *words, **options):
    """As run_python, of a text that becomes a file in the folder: what is compiled needs its lines.

    Its path is part of the keys of the disk cache.
    """
    path = folder / "program.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return run_python(path, *words, **options)
