"""A tool of GradBench whose evals are programs built outside: FOLDER/EVAL FILE FUNCTION, as its C++ tools are.

    python benchmarks/gradbench/binaries.py FOLDER

The first line that such a program prints is its output, the others are its times. GradBench's own cpp.py builds them
anew, with its own options, each time an eval begins.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from protocol import serve


def main(folder):
    """Answers for the programs of a folder."""

    def define(module):
        return {"success": (folder / module).is_file()}

    def evaluate(module, function, given):
        with tempfile.NamedTemporaryFile("w") as file:
            json.dump(given, file)
            file.flush()
            done = subprocess.run([folder / module, file.name, function], text=True, capture_output=True)
        if done.returncode:
            return {"success": False, "error": f"{module} ended with code {done.returncode}: {done.stderr}"}
        output, *timings = map(json.loads, done.stdout.splitlines())
        return {"success": True, "output": output, "timings": timings}

    serve(folder.name, define, evaluate)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
