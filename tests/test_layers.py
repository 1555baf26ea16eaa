"""The dependency rule of the house, read off the import statements by `ast`; nothing is imported.

    tools, api, __init__ → driver → runtime → frontend | transforms | backend → ir → errors | options

Imports go down. Siblings (the three, and the two leaves) never import each other. No cycles, no `import *`,
and no import inside a function, except of the optional packages, which are imported nowhere else.
"""

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "dlvm_py"
ROOT = Path(__file__).resolve().parent.parent / PACKAGE

TOP, DRIVER = 5, 4  # what stands in one of these two layers may import its neighbours there
LAYERS = {
    **dict.fromkeys(
        ("__init__", "__main__", "api", "checking", "rules", "implicit", "krylov", "tools", "nn", "tel"), TOP
    ),
    # parts of one layer
    **dict.fromkeys(
        ("dispatch", "driver", "derivative", "program", "request", "recipe", "pullback", "report", "sparse", "tuning"),
        DRIVER,
    ),
    "runtime": 3,
    **dict.fromkeys(("frontend", "transforms", "backend"), 2),
    "ir": 1,
    **dict.fromkeys(("errors", "options"), 0),
    **dict.fromkeys(("decisions", "deferred", "frozen", "grain", "parameters"), -1),
}
# scipy: imported at the first BLAS need; cupyx is in the package cupy
OPTIONAL = {"cupy", "cupyx", "ml_dtypes", "dask", "matplotlib", "scipy"}
REQUIRED = {"numpy", "gast", "astor", "llvmlite", "platformdirs"}
ONLY_IN = {"llvmlite": {"backend", "runtime"}, "ctypes": {"backend", "runtime"}}
IR_MAY_IMPORT = {"numpy", "ml_dtypes"}  # besides the standard library and the two leaves; the second for bf16


def dotted(path: str) -> str:
    """Module name of a file path relative to the package: "ir/__init__.py" is "dlvm_py.ir"."""
    parts = [PACKAGE, *path.removesuffix(".py").split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit(module: str) -> str:
    """The entry of LAYERS that a module of ours belongs to."""
    return module.split(".")[1] if "." in module else "__init__"


def imports(path: str, tree: ast.Module, modules: set[str]):
    """Yields (module, line, in_function, at_run_time) for each import statement of a file."""
    here = dotted(path).split(".")
    package = here if path.endswith("__init__.py") else here[:-1]

    def targets(node):
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
        base = ".".join(filter(None, [base, node.module]))
        # `from package import name`: the submodule of that name if there is one, else the package itself.
        # The layers count as there, so that a house half built is judged like a finished one.
        known = modules | {f"{PACKAGE}.{name}" for name in LAYERS}
        return [m if (m := f"{base}.{alias.name}") in known else base for alias in node.names]

    def walk(node, in_function, at_run_time):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                for target in targets(child):
                    yield target, child.lineno, in_function, at_run_time
                if isinstance(child, ast.ImportFrom) and child.names[0].name == "*":
                    yield "*", child.lineno, in_function, at_run_time
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for part in child.body:
                    yield from walk(ast.Module([part], []), in_function, False)
                yield from walk(ast.Module(child.orelse, []), in_function, at_run_time)
            else:
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from walk(child, in_function or function, at_run_time)

    return walk(tree, False, True)


def judge_ours(user: str, target: str) -> str | None:
    """Why unit `user` may not import unit `target`, or None."""
    for name in (user, target):
        if name not in LAYERS:
            return f"{PACKAGE}.{name} has no layer: name it in LAYERS"
    if user == target or LAYERS[target] < LAYERS[user]:
        return None
    if LAYERS[user] == LAYERS[target] and LAYERS[user] in (TOP, DRIVER):
        return None
    relation = "its sibling" if LAYERS[target] == LAYERS[user] else "the layer above"
    return f"{user} imports {target}, {relation}"


def judge_other(user: str, package: str, in_function: bool, at_run_time: bool) -> str | None:
    """Why unit `user` may not import a package that is not ours in that place, or None."""
    if package in ONLY_IN and user not in ONLY_IN[package]:
        return f"{user} imports {package}, which belongs to {' and '.join(sorted(ONLY_IN[package]))}"
    standard = package in sys.stdlib_module_names
    if not standard and package not in REQUIRED | OPTIONAL:
        return f"{package} is not a declared dependency"
    if user == "ir" and not standard and package not in IR_MAY_IMPORT:
        return f"ir imports {package}"
    if user in ("errors", "options") and not standard:
        return f"{user} is a leaf and imports {package}"
    if package in OPTIONAL and not in_function and at_run_time:
        return f"{package} is optional: import it inside the function that needs it"
    if in_function and package not in OPTIONAL:
        return f"import of {package} inside a function"
    return None


def violations(sources: dict[str, str]) -> list[str]:
    """All breaches of the rule in a package given as {path relative to the package: source}."""
    modules = {dotted(path) for path in sources}
    found, graph = [], {module: set() for module in modules}
    for path, source in sorted(sources.items()):
        me = dotted(path)
        for target, line, in_function, at_run_time in imports(path, ast.parse(source, path), modules):
            if target == "*":
                problem = "import *"
            elif target.split(".")[0] != PACKAGE:
                problem = judge_other(unit(me), target.split(".")[0], in_function, at_run_time)
            else:
                problem = judge_ours(unit(me), unit(target))
                if in_function:
                    problem = f"import of {target} inside a function"
                # An import for annotations only cannot hide a cycle at run time; its direction still counts.
                if at_run_time and target != me:
                    graph[me].add(target)  # a module that is not there yet has no imports, so no cycle
            # Several names of one statement make one report.
            if problem and (report := f"{PACKAGE}/{path}:{line}: {problem}") not in found:
                found.append(report)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append("import cycle: " + " → ".join(reversed(error.args[1])))
    return found


def test_house():
    """Every module of dlvm_py keeps the dependency rule."""
    sources = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in ROOT.rglob("*.py")}
    assert not (found := violations(sources)), "\n" + "\n".join(found)


HOUSE = {
    "__init__.py": "from dlvm_py.api import jit\n",
    "api.py": "from dlvm_py import driver\n",
    "driver.py": "from dlvm_py.runtime import cache\nfrom dlvm_py.frontend import capture\n",
    "tools/dlopt.py": "import dlvm_py\nfrom dlvm_py import api\n",
    "runtime/__init__.py": "",
    "runtime/cache.py": "import ctypes, llvmlite.binding\nfrom dlvm_py.backend import emit\n",
    "frontend/__init__.py": "",
    "frontend/capture.py": "import gast\nfrom ..ir import types\nfrom ..errors import CompileError\n",
    "transforms/dce.py": "from dlvm_py.ir.types import Type\n",
    "backend/__init__.py": "",
    "backend/emit.py": "import dlvm_py.ir.types as t\n\ndef blas():\n    import scipy.linalg.cython_blas\n",
    "ir/__init__.py": "from .types import Type\nfrom .value import Value\n",
    "ir/types.py": "import numpy as np\nfrom dataclasses import dataclass\nfrom dlvm_py import errors\n",
    "ir/value.py": (
        "from typing import TYPE_CHECKING\nfrom .types import Type\nif TYPE_CHECKING:\n    from .block import Block\n"
    ),
    "ir/block.py": "from .value import Value\n",
    "errors.py": "import enum\n",
    "options.py": "import os\n",
}


def test_checker_accepts_the_picture():
    """A package that keeps the rule has no violation, whatever spelling its imports use."""
    assert violations(HOUSE) == []


@pytest.mark.parametrize("path", HOUSE)
def test_checker_accepts_a_part(path):
    """Each file alone keeps the rule too: modules that are not written yet are judged by their names."""
    assert violations({path: HOUSE[path]}) == []


@pytest.mark.parametrize(
    ("path", "source", "message"),
    [
        ("ir/types.py", "from dlvm_py import driver", "ir imports driver, the layer above"),
        ("ir/types.py", "from dlvm_py.backend.emit import f", "ir imports backend, the layer above"),
        ("ir/types.py", "from ..frontend import capture", "ir imports frontend, the layer above"),
        ("runtime/cache.py", "import dlvm_py.driver", "runtime imports driver, the layer above"),
        ("runtime/cache.py", "from dlvm_py.recipe import R", "runtime imports recipe, the layer above"),
        ("driver.py", "import dlvm_py", "driver imports __init__, the layer above"),
        ("driver.py", "from dlvm_py import jit", "driver imports __init__, the layer above"),
        ("transforms/dce.py", "from dlvm_py import frontend", "transforms imports frontend, its sibling"),
        ("frontend/capture.py", "from ..backend.emit import f", "frontend imports backend, its sibling"),
        ("options.py", "from dlvm_py.errors import E", "options imports errors, its sibling"),
        ("errors.py", "import numpy", "errors is a leaf and imports numpy"),
        ("ir/types.py", "import gast", "ir imports gast"),
        ("ir/types.py", "import ctypes", "ir imports ctypes"),
        ("ir/types.py", "def f():\n    import scipy", "ir imports scipy"),
        ("frontend/capture.py", "import llvmlite.ir", "frontend imports llvmlite"),
        ("transforms/dce.py", "from ctypes import c_int", "transforms imports ctypes"),
        ("transforms/dce.py", "import pandas", "pandas is not a declared dependency"),
        ("transforms/dce.py", "from numpy import *", "import *"),
        ("transforms/dce.py", "def f():\n    import json", "import of json inside a function"),
        ("api.py", "class C:\n    def f(self):\n        from . import driver", "inside a function"),
        ("backend/emit.py", "import scipy", "scipy is optional"),
        ("backend/emit.py", "try:\n    import cupy\nexcept ImportError:\n    pass", "cupy is optional"),
        ("helpers.py", "import os\nfrom . import errors", "dlvm_py.helpers has no layer"),
        ("ir/types.py", "if TYPE_CHECKING:\n    from dlvm_py import api", "ir imports api, the layer above"),
        ("ir/types.py", "from .block import Block", "import cycle: "),
        ("ir/types.py", "from dlvm_py.ir import Value", "import cycle: "),
    ],
)
def test_checker_catches(path, source, message):
    """One bad import added to a good package is reported, with its file where it has one."""
    found = violations(HOUSE | {path: source})
    assert any(message in line for line in found), found
    if "cycle" not in message:
        assert any(line.startswith(f"dlvm_py/{path}:") for line in found), found
