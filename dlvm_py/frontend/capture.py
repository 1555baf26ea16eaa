"""What a function reads besides its arguments: globals, closure cells, and those of what it calls.

Only code objects are walked, no source is parsed: this runs at every first call of a signature and
for every key of the disk cache. Arrays become hidden parameters, everything else is guarded: compiled
code holds while each captured name still has its value.
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
import functools
import importlib
import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm_py.deferred import deferred
from dlvm_py.frozen import Frozen, replace
from dlvm_py.ir.exceptions import exception_class
from dlvm_py.ir.interface import is_generator

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = deferred("hashlib")

_GLOBAL_READS = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTE_READS = ("LOAD_ATTR", "LOAD_METHOD")
_MISSING = object()
RULES = ("adjoint", "tangent", "forward")  # the kinds of a function's own derivative rules
ABSENT = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()  # the value of a name that is not there


class Captured(Frozen, eq=False):
    """One name that is read. `holder` is a globals dict, a closure cell, or an object with the attribute.

    `value` is ABSENT for a name of the globals that would hide a built-in.
    """

    holder: Any
    name: str
    value: Any
    owner: FunctionType

    def read(self) -> Any:
        """The value that the name has now; a fresh object if it has none any more."""
        if isinstance(self.holder, dict):
            return self.holder.get(self.name, _MISSING)
        if isinstance(self.holder, CellType):
            return self.holder.cell_contents
        return getattr(self.holder, self.name, _MISSING)


class Captures:
    """Everything captured by a function and by the plain Python functions that it reaches."""

    __slots__ = ("arrays", "guards", "functions", "classes", "_values")

    def __init__(self) -> None:
        self.arrays: list[Captured] = []
        self.guards: list[Captured] = []
        self.functions: list[FunctionType] = []
        self.classes: list[type] = []
        self._values: dict[tuple[int, str], Any] | None = None

    def value_of(self, holder: Any, name: str, now: Any) -> Any:
        """The value that a name had when it was captured: what is compiled must be what is guarded.

        `now`, which another thread may have changed since, is for names that were not captured.
        """
        if self._values is None:
            self._values = {(id(c.holder), c.name): c.value for c in (*self.guards, *self.arrays)}
        return self._values.get((id(holder), name), now)

    def index_of(self, array: Any) -> int | None:
        """Position of a captured array or generator among the hidden parameters."""
        for k, c in enumerate(self.arrays):
            if c.value is array:
                return k
        return None


def is_hidden_argument(value: Any) -> bool:
    """Whether a captured value is an argument of each call, no constant: its contents change in place."""
    return isinstance(value, np.ndarray) or is_generator(value)


def plain_function(value: Any) -> FunctionType | None:
    """The Python function to compile for a callable: itself, or what a jitted callable wraps."""
    if isinstance(value, FunctionType):
        return value
    if isinstance(value, (type, ModuleType, BuiltinFunctionType, np.ufunc)):
        return None
    wrapped = getattr(value, "__wrapped__", None)
    return wrapped if isinstance(wrapped, FunctionType) and callable(value) and is_ours(value) else None


def recipe_of(value: Any) -> Any:
    """What a compiled callable computes (a recipe), None for anything else."""
    dispatcher = getattr(value, "__dict__", {}).get("__dlvm__") if is_ours(value) and callable(value) else None
    return getattr(dispatcher, "recipe", None)


def rules_of(value: Any) -> dict[str, FunctionType] | None:
    """The rules of a function that has derivatives of its own, by kind; None for anything else."""
    return getattr(value, "__dict__", {}).get("__dlvm_rules__") if is_ours(value) and callable(value) else None


def root_function(value: Any) -> FunctionType | None:
    """The Python function that a callable runs: its own (plain_function), or the one at the root of a derivative."""
    found = plain_function(value)
    return found if found is not None else getattr(recipe_of(value), "primal", None)


def is_ours(value: Any) -> bool:
    """Whether a callable is one that dlvm_py made (not another library's decorator)."""
    return type(value).__module__.partition(".")[0] == "dlvm_py"


def capture(fn: FunctionType, also: Iterable[Any] = ()) -> Captures:
    """The captures of `fn`, in an order that depends on the code only.

    `also`: values of arguments; the functions among them are walked too.
    """
    result = Captures()
    seen: set[int] = set()
    also = tuple(also)
    for captured in (c for value in also for c in _rules(value, fn)):
        result.guards.append(captured)
    also += tuple(rule for value in also for rule in (rules_of(value) or {}).values())
    pending = [fn, *(f for f in map(root_function, also) if f is not None)]
    for kind in also:
        if isinstance(kind, type):
            _add_class(result, kind, pending)
    while pending:
        function = pending.pop(0)
        if id(function) in seen:
            continue
        seen.add(id(function))
        result.functions.append(function)
        for captured in _reads(function):
            if is_hidden_argument(captured.value):
                if result.index_of(captured.value) is None:
                    result.arrays.append(captured)
                else:
                    result.guards.append(captured)  # a second name of the array: it must stay one
                continue
            result.guards.append(replace(captured, value=_snapshot(captured.value)))
            values = _members(captured.value)
            pending.extend(f for f in map(root_function, values) if f is not None and not _is_library(f))
            for value in values:
                _add_class(result, value if isinstance(value, type) else type(value), pending)
    return result


def _members(value: Any) -> tuple[Any, ...]:
    """What may be called of a captured value: itself, its items, what it is a `partial` of."""
    if isinstance(value, tuple | list):
        return tuple(m for v in value for m in (_members(v) if isinstance(v, functools.partial) else (v,)))
    if isinstance(value, functools.partial):
        return (*_members(value.func), *value.args, *value.keywords.values())
    return (value,)


def _add_class(result: Captures, kind: type, pending: list[FunctionType]) -> None:
    """Note a class of the user, and the methods that compiled code may call."""
    if kind in result.classes or kind.__module__.partition(".")[0] in _LIBRARIES:
        return
    if not (is_record_class(kind) or issubclass(kind, BaseException)):
        return
    result.classes.append(kind)
    if not is_record_class(kind):
        return
    for name, value in _methods(kind):
        result.guards.append(Captured(kind, name, getattr(kind, name), pending[0] if pending else value))
        pending.append(value)
    for f in getattr(kind, "__dataclass_fields__", {}).values():
        factory = plain_function(f.default_factory) if callable(f.default_factory) else None
        if factory is not None:
            pending.append(factory)


def _methods(kind: type) -> Iterator[tuple[str, FunctionType]]:
    """The user's own methods and properties of a class, with those of its bases."""
    found: dict[str, FunctionType] = {}
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] in _LIBRARIES:
            continue
        for name, value in vars(base).items():
            function = value.fget if isinstance(value, property) else value
            if isinstance(function, FunctionType) and is_written_by_user(function):
                found.setdefault(name, function)
    yield from found.items()


def is_written_by_user(method: FunctionType) -> bool:
    """Whether a method of a class of the user stands in a file: `dataclass` and `NamedTuple` make theirs."""
    return method.__code__.co_filename != "<string>" and (method.__module__ or "").partition(".")[0] not in _LIBRARIES


def is_named_tuple(kind: Any) -> bool:
    """Whether a class was made by collections.namedtuple or typing.NamedTuple."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_record_class(kind: Any) -> bool:
    """Whether instances of a class are records: named tuples and dataclasses."""
    return is_named_tuple(kind) or (isinstance(kind, type) and dataclasses.is_dataclass(kind))


def field_names(kind: Any) -> tuple[str, ...]:
    """The fields of a named tuple or dataclass, in order."""
    return tuple(kind._fields) if is_named_tuple(kind) else tuple(f.name for f in dataclasses.fields(kind))


def class_name(kind: type) -> str:
    """The name of a class in IR."""
    if kind.__module__ == "builtins" or exception_class(kind.__name__) is kind:
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


def class_text(kind: type) -> str:
    """A text of a record class that is another one when its fields, defaults or flags are."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if not is_record_class(kind):
        return f"{name}({', '.join(b.__qualname__ for b in kind.__mro__)})"
    if is_named_tuple(kind):
        return f"{name}{kind._fields} {_stable_text(kind._field_defaults)}"  # type: ignore[attr-defined]
    fields = dataclasses.fields(kind)
    shown = [(f.name, str(f.type), f.init, _stable_text(f.default), _stable_text(f.default_factory)) for f in fields]
    return f"{name} {shown} frozen={kind.__dataclass_params__.frozen}"  # type: ignore[attr-defined]


def _snapshot(value: Any) -> Any:
    """The value for a guard: lists can change in place, so that being the same object says nothing of them."""
    if isinstance(value, list):
        return [_snapshot(v) for v in value]
    if type(value) is dict:
        return {k: _snapshot(v) for k, v in value.items()}
    if type(value) is tuple and _holds_list(value):
        return tuple(map(_snapshot, value))
    return value


def _holds_list(value: Any) -> bool:
    return isinstance(value, list | dict) or (type(value) is tuple and any(map(_holds_list, value)))


def _is_library(fn: FunctionType) -> bool:
    """NumPy's own Python functions, and ours: they have rules of their own and are not compiled."""
    return fn.__module__ != "dlvm_py.implicit" and (fn.__module__ or "").partition(".")[0] in (
        "numpy",
        "scipy",
        "dlvm_py",
    )


def _reads(function: FunctionType) -> Iterator[Captured]:
    names, attributes = _names_read(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # an empty cell: assigned after the definition, or never
            continue
        yield Captured(cell, name, value, function)
        yield from _module_reads(value, attributes, function)
        yield from _parts(value, function)
        yield from _rules(value, function)
    for name in names:
        holder: Any = function.__globals__
        if name not in holder:
            if name in builtins.__dict__:
                yield Captured(holder, name, ABSENT, function)
            continue
        value = holder[name]
        yield Captured(holder, name, value, function)
        yield from _module_reads(value, attributes, function)
        yield from _parts(value, function)
        yield from _rules(value, function)
    for name, level, wanted in _imports(function.__code__):
        yield from _import_reads(name, level, wanted, attributes, function)
    for name in ("__defaults__", "__kwdefaults__"):
        value = getattr(function, name)
        if value:
            yield Captured(function, name, value, function)


def imported_module(function: FunctionType, name: str, level: int) -> ModuleType:
    """The module that `import name` (level 0) or `from .name import` in a function names; ImportError as in Python."""
    space = function.__globals__
    package = space.get("__package__") or space.get("__name__", "").rpartition(".")[0]
    return importlib.import_module("." * level + name, package or None)


def imported_name(module: ModuleType, name: str) -> Any:
    """What `from module import name` gives: an attribute or a submodule; ImportError as in Python."""
    if not hasattr(module, name):
        try:
            return importlib.import_module(f"{module.__name__}.{name}")
        except ModuleNotFoundError:
            place = getattr(module, "__file__", None) or "unknown location"
            raise ImportError(f"cannot import name {name!r} from {module.__name__!r} ({place})") from None
    return getattr(module, name)


def _import_reads(
    name: str, level: int, wanted: tuple[str, ...], attributes: tuple[str, ...], function: FunctionType
) -> Iterator[Captured]:
    """What an `import` inside a function reads: as good as globals."""
    if not level and name.partition(".")[0] in _STABLE:
        return
    try:
        module = imported_module(function, name, level)
        values = {n: imported_name(module, n) for n in wanted}
    except ImportError:
        return  # raised where the statement runs
    if not wanted:
        yield from _module_reads(sys.modules[module.__name__.partition(".")[0]], attributes, function)
        yield from _module_reads(module, attributes, function)
    for part, value in values.items():
        yield Captured(module.__dict__, part, value, function)
        yield from _module_reads(value, attributes, function)
        yield from _parts(value, function)
        yield from _rules(value, function)


def _rules(value: Any, owner: FunctionType) -> Iterator[Captured]:
    """The derivative rules of a function, there or not: they may be given, or replaced, later."""
    rules = rules_of(value)
    if rules is not None:
        for kind in RULES:
            yield Captured(rules, kind, rules.get(kind, ABSENT), owner)


def _parts(value: Any, owner: FunctionType) -> Iterator[Captured]:
    """What captured dicts and instances hold: the arrays in them are arguments, the rest is compared."""
    if type(value) is dict:
        for name, part in value.items():
            if isinstance(name, str):
                if is_hidden_argument(part):
                    yield Captured(value, name, part, owner)
                yield from _parts(part, owner)
    elif is_record_class(type(value)):
        for name in field_names(type(value)):
            part = getattr(value, name, _MISSING)
            yield Captured(value, name, part, owner)
            yield from _parts(part, owner)
    elif type(value) in (tuple, list):
        for part in value:
            yield from _parts(part, owner)
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _parts(part, owner)
            yield from _rules(part, owner)


def _module_reads(value: Any, attributes: tuple[str, ...], owner: FunctionType) -> Iterator[Captured]:
    """Attributes of a user's modules, `settings.steps` and `package.settings.steps`: as good as globals."""
    pending, seen = [value], {id(value)}
    while pending:
        module = pending.pop()
        if not isinstance(module, ModuleType) or module.__name__.partition(".")[0] in _STABLE:
            continue
        for name in attributes:
            if name in module.__dict__:
                found = module.__dict__[name]
                yield Captured(module.__dict__, name, found, owner)
                yield from _rules(found, owner)
                if id(found) not in seen:
                    seen.add(id(found))
                    pending.append(found)


_LIBRARIES = frozenset(("numpy", "scipy", "dlvm_py", "builtins", "typing", "collections"))
_STABLE = sys.stdlib_module_names | {"numpy", "scipy", "dlvm_py"}


@functools.lru_cache(maxsize=4096)
def _names_read(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of globals and of attributes that a code object and its nested ones read, in order."""
    names: dict[str, None] = {}
    attributes: dict[str, None] = {}
    for part in _nested(code):
        for instruction in dis.get_instructions(part):
            if instruction.opname in _GLOBAL_READS:
                names[instruction.argval] = None
            elif instruction.opname in _ATTRIBUTE_READS:
                attributes[instruction.argval] = None
    return tuple(names), tuple(attributes)


@functools.lru_cache(maxsize=4096)
def _imports(code: CodeType) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    """(module, level, names) of the `import` statements in a code object and its nested ones."""
    found = []
    for part in _nested(code):
        instructions = list(dis.get_instructions(part))
        for k, instruction in enumerate(instructions):
            if instruction.opname == "IMPORT_NAME":
                level, wanted = (instructions[k - n].argval for n in (2, 1))
                found.append((instruction.argval, level, tuple(wanted or ())))
    return tuple(found)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def fingerprint(fn: FunctionType, captures: Captures | None = None) -> bytes:
    """Bytes that differ when the code or a captured constant differs: input of the cache key."""
    captures = captures or capture(fn)
    digest = hashlib.sha256()
    for function in captures.functions:
        for code in _nested(function.__code__):
            _add(digest, _code_facts(code))
    for captured in captures.guards:
        _add(digest, (captured.name, _stable_text(captured.value)))
    for captured in captures.arrays:
        _add(digest, (captured.name, "array"))
    return digest.digest()


def _add(digest: Any, facts: tuple[Any, ...]) -> None:
    for fact in facts:
        data = fact if isinstance(fact, bytes) else repr(fact).encode()
        digest.update(len(data).to_bytes(8, "little") + data)


def _code_facts(code: CodeType) -> tuple[Any, ...]:
    # a frozenset of strings has another order in every process
    constants = tuple(c.co_name if isinstance(c, CodeType) else _ordered(c) for c in code.co_consts)
    return (
        code.co_code, code.co_linetable, repr([(type(c).__name__, c) for c in constants]), code.co_names,
        code.co_varnames, code.co_freevars, code.co_cellvars, code.co_name, code.co_filename,
        code.co_firstlineno, code.co_argcount, code.co_kwonlyargcount, code.co_flags,
    )  # fmt: skip


def _ordered(constant: Any) -> Any:
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def _stable_text(value: Any) -> str:
    """A text of a captured value that is the same in every process."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, np.dtype)):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(_stable_text, value))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_stable_text(v)}" for k, v in value.items()) + "}"
    if is_record_class(value):
        return class_text(value)
    if is_record_class(type(value)):
        held = ", ".join(f"{n}={_stable_text(getattr(value, n, None))}" for n in field_names(type(value)))
        return f"{type(value).__qualname__}({held})"
    if is_hidden_argument(value):
        return "argument"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        # np.add.at and np.subtract.at are methods of one name
        owner = getattr(value, "__self__", None)
        of = "" if owner is None or isinstance(owner, ModuleType) else f" of {_stable_text(owner)}"
        return f"{type(value).__name__} {value.__module__}.{value.__qualname__}{of}"
    if rules_of(value) is not None:
        return f"with rules {value.__module__}.{value.__qualname__}"
    recipe = recipe_of(value)
    if recipe is not None:
        primal = recipe.primal
        return f"compiled {recipe.key()} {primal.__module__}.{primal.__qualname__}"
    if isinstance(value, functools.partial):
        return f"partial {_stable_text((value.func, value.args, value.keywords))}"
    # slices, ranges, enums, finfo say all; what shows an address is never found again, which is safe
    return f"{type(value).__name__} {value!r}"
