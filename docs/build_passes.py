"""Writes docs/passes.md from the table of passes and their docstrings: python docs/build_passes.py."""

from pathlib import Path

from dlvm_py.tools.explain import passes_page

if __name__ == "__main__":
    Path(__file__).with_name("passes.md").write_text(passes_page(), encoding="utf-8")
