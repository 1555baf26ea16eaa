"""Writes the texts of docs/source.md: python docs/build_source.py."""

import importlib.util
import re
import tempfile
from pathlib import Path

PAGE = Path(__file__).with_name("source.md")
EXAMPLE = re.compile(r"```python\n(def .*?\n)(?:(\w+ = .*?)\n)?(dlvm\..*?)\n```\n\n```python\n(.*?)```\n", re.S)
HEAD = "import numpy as np\nimport dlvm_py as dlvm\n\n"


def text_of(functions: str, setup: str, call: str, folder: str) -> str:
    """What an example gives: its functions are read from a file, as those of a user."""
    path = Path(folder, "example.py")
    path.write_text(f"{HEAD}{functions}\n\n{setup}\nTEXT = {call}\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TEXT


def written(page: str) -> str:
    """The page with the texts as they are now."""

    def replaced(match: re.Match) -> str:
        functions, setup, call, _ = match.groups()
        with tempfile.TemporaryDirectory() as folder:
            text = text_of(functions, setup or "", call, folder)
        asked = match.group(0).split("```\n\n```python\n")[0]
        return f"{asked}```\n\n```python\n{text}```\n"

    return EXAMPLE.sub(replaced, page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
