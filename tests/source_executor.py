"""The third executor beside the interpreter and native code: the text of `source()`, run with NumPy and SciPy only.

run_source(callable_, args)     what the text of a compiled function or derivative gives for these arguments
"""

from __future__ import annotations

import numpy as np

from dlvm_py.dispatch import dispatcher_of
from dlvm_py.request import classes_of


def namespace_of(text, callable_, args):
    """What the text defines; captured arrays that are too large to be written are put in."""
    dispatcher = dispatcher_of(callable_)
    request = dispatcher.request(dispatcher.values(tuple(args), {}))
    captured, classes = request.captured, classes_of(request)
    namespace = {c.source.name: c.source.read() for c in captured} | {c.__name__: c for c in classes}
    exec(compile(text, f"<source of {callable_.__name__}>", "exec"), namespace)
    return namespace


def name_of(text):
    """The name of the function that is called: the last one of the text."""
    return [line[4:].split("(")[0] for line in text.split("\n") if line.startswith("def ")][-1]


def function_of(callable_, args):
    """The function that the text for these arguments defines."""
    text = callable_.source(*args)
    return namespace_of(text, callable_, args)[name_of(text)]


def run_source(callable_, args, kwargs=None):
    """The result of the text of `callable_.source(*args)`, called with these arguments, which it may write."""
    if not args and not kwargs:
        callable_()  # `source` without arguments shows the latest version
    text = callable_.source(*args, **(kwargs or {}))
    function = namespace_of(text, callable_, args)[name_of(text)]
    with np.errstate(all="ignore"):
        return function(*args, **(kwargs or {}))
