"""Writes docs/numpy.md from the tables of the front end: python docs/build_numpy.py."""

from pathlib import Path

from dlvm_py.tools.numpy_page import numpy_page

if __name__ == "__main__":
    Path(__file__).with_name("numpy.md").write_text(numpy_page(), encoding="utf-8")
