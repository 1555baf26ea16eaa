"""Modules in the place of ones that other people's files import, so that the files load unmodified.

`numba` becomes a module whose decorators hand the function back: what runs is the plain function. A package whose
`__init__` wants more than NumPy becomes one without it, in which the submodules are found as usual.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path


class Anything:
    """An object that can be called, indexed, subclassed and asked for any attribute; as a decorator it does nothing."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            return args[0]
        return Anything()

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Anything()

    def __getitem__(self, key):
        return Anything()

    def __iter__(self):
        return iter(())

    def __or__(self, other):
        return Anything()

    def _same(self, *_):
        return Anything()

    __add__ = __sub__ = __mul__ = __truediv__ = __radd__ = __rsub__ = __rmul__ = _same

    def _false(self, *_):
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _false

    def __mro_entries__(self, bases):
        return ()


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return range if name == "prange" else Anything()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes up every module below the given top names."""

    def __init__(self, tops):
        self.tops = tops

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.tops:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


def install(*tops):
    """Modules of these top names, and everything below them, are made up from now on."""
    sys.meta_path.insert(0, _Finder(frozenset(tops)))


def bare_package(name, folder):
    """A package without its `__init__`: only its submodules can be imported."""
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


def load_file(path, package=None):
    """The module that a file holds; `package` is the dotted name of the package that it is imported in."""
    path = Path(path)
    name = f"{package}.{path.stem}" if package else f"people_{path.parent.name}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
