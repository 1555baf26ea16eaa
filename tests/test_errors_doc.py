"""docs/errors.md has an entry for every error code in the sources, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE = re.compile(r"\bDL\d{3}\b")


def test_every_code_has_an_entry():
    """The codes in the sources and in the documentation are the same."""
    used = {c for path in (ROOT / "dlvm_py").rglob("*.py") for c in CODE.findall(path.read_text(encoding="utf-8"))}
    described = set(re.findall(r"^\| (DL\d{3})", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), re.M))
    assert used == described
