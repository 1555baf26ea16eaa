"""Writes docs/ops.md from the op rows and docs/ir.md: python docs/build_ops.py."""

from pathlib import Path

from dlvm_py.tools.ops_page import ops_page

if __name__ == "__main__":
    here = Path(__file__).parent
    page = ops_page((here / "ir.md").read_text(encoding="utf-8"))
    (here / "ops.md").write_text(page, encoding="utf-8")
