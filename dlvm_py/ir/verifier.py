"""The verifier: whether a function or a module keeps the rules of the IR.

It recomputes every result type from the op's row, so it knows no op but those with a structure of their own
(terminators, calls, stacks, checks). All errors are collected, and shown in the function's text under the
instruction that is guilty. Use it after every pass while developing, and in tests always.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import numpy as np

from dlvm_py.errors import VerifierError
from dlvm_py.ir import derivative_rules, text
from dlvm_py.ir.analysis import DominatorTree, predecessors
from dlvm_py.ir.analysis.cache import of_graph
from dlvm_py.ir.declarations import adjoint_signature
from dlvm_py.ir.exceptions import exception_class
from dlvm_py.ir.function import AdjointRequest, Function, Module
from dlvm_py.ir.layout import REFERENCE, holds_itself, memory_leaves, parts
from dlvm_py.ir.op import Op
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.ops.aggregates import AGGREGATES
from dlvm_py.ir.ops.objects import OBJECTS
from dlvm_py.ir.printer import print_function
from dlvm_py.ir.stack_rules import check_stacks
from dlvm_py.ir.tree_rules import JOINED, MARKS, check_trees
from dlvm_py.ir.types import (
    I64,
    VOID,
    BoxType,
    EnumType,
    FunctionType,
    PointerType,
    StackType,
    StructType,
    TensorType,
    TupleType,
    Type,
)
from dlvm_py.ir.value import NULL, UNDEFINED, FunctionName, Instruction, Literal, OpName, Value, Variable

STAGES = ("raw", "optimizable", "compute", "scheduled")
_TARGET_COUNT = {"branch": 1, "conditional": 2}
# operands of ops without NumPy semantics; the type rules of the others that are missing here count them
_OPERAND_COUNT = {
    **dict.fromkeys(("branchEnum", "load", "keepCopy", "retain", "release", "pop", "drain", "conditional"), 1),
    "destroyStack": 1,
    **dict.fromkeys(("randomCounter", "randomSeed"), 1),
    **dict.fromkeys(("createStack", "branch"), 0),
    **dict.fromkeys(("store", "push", "insert", "scanBy", "keepView"), 2),
    **dict.fromkeys(("reduceBy", "reduceWindowBy"), 3),
}
_OPTIONAL_ATTRS = {
    "check": ("assuming", "flavours"), "raise": ("flavours",), "print": ("flavours", "flush", "above"),
    "transpose": {"axes"}, "elementPointer": {"path"}, "pop": {"type"}, "createStack": {"element"},
    "allocateHeap": ("anyorder", "shadow"), "store": (*MARKS, "along", "least"),
    "reduce": ("grain",), "parallel": ("grain",), "conditional": ("unordered", "likely", "bounded", "whole", "rest"),
    "convolve": set(OPS["convolve"].attrs), "scatter": {"by"}, "fourier": {"inverse"},
    "eigh": {"upper"}, "eigvalsh": {"upper"}, "svd": {"full"},
}  # fmt: skip
_STRUCTURED = frozenset(("return", "apply", "check", "raise", "print", "createStack"))
# the class of a literal's payload, by the kind of its dtype
_PAYLOADS: dict[str, Any] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_MODULE_NAME = re.compile(r"[^\W\d]")
# of stage raw and optimizable: lower_aggregates.py makes them simpler ones
LOWERED = {*OBJECTS, *AGGREGATES, *(OPS[name] for name in ("leaf", "wholeEnum"))} - {OPS["bits"]}


def verify(subject: Function | Module, stage: str | None = None) -> None:
    """Raise VerifierError with everything that is wrong; the stage is the module's unless given.

    For a function alone, calls are not compared with their callees.
    """
    reports: list[_Report] = []
    if isinstance(subject, Module):
        stage = stage or subject.stage
        for name, function in subject.functions.items():
            report = _check_function(function, subject, stage)
            if name != function.name:
                report.add(None, f"it is filed under the name @{name}")
            reports.append(report)
    else:
        reports.append(_check_function(subject, None, stage or "raw"))
    guilty = [r for r in reports if r.found]
    if isinstance(subject, Module) and not _MODULE_NAME.match(subject.name):
        message = f"{subject.name!r} is no name of a module: it begins with a letter or '_'"
        raise VerifierError("\n\n".join([message, *(r.text() for r in guilty)]), [message])
    wrong = _type_errors(subject) if isinstance(subject, Module) else []
    if wrong:
        raise VerifierError("\n\n".join([*wrong, *(r.text() for r in guilty)]), wrong)
    if guilty:
        errors = [f"@{r.function.name}: {line}" for r in guilty for line in r.lines()]
        raise VerifierError("\n\n".join(r.text() for r in guilty), errors)


def _type_errors(module: Module) -> list[str]:
    """What is wrong with the types that a module declares, and with those of its variables."""
    found = [
        f"the struct {t} holds itself: hold a pointer, a box or an enum"
        for t in module.types.values()
        if isinstance(t, StructType) and holds_itself(t)
    ]
    if found:
        return found  # such a type has no end
    for t in module.types.values():
        for case, held in t.cases.items() if isinstance(t, EnumType) else ():
            for p in held:
                if any(isinstance(part, StackType | FunctionType) for part in parts(p)):
                    found.append(f"?{case} of {t} holds a {p}: an enum holds no stacks and no functions")
    for v in module.variables.values():
        assert isinstance(v.type, PointerType)
        try:
            memory_leaves(v.type.pointee)
        except TypeError as e:
            found.append(f"the variable @{v.name}: {e}")
    return found


class _Report:
    """The errors of one function, each at an instruction, a block, or (None) the function itself."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.found: list[tuple[object, str]] = []

    def add(self, place: object, message: str) -> None:
        """Note an error, once."""
        if (place, message) not in self.found:
            self.found.append((place, message))

    def lines(self) -> list[str]:
        """One line an error, for lists."""
        return [m if place is None else f"{_name(place)}: {m}" for place, m in self.found]

    def text(self) -> str:
        """The function with its errors in place; the errors alone where it cannot be printed."""
        head = f"@{self.function.name} breaks {len(self.found)} rule{'s' * (len(self.found) > 1)} of the IR"
        try:
            printed = print_function(self.function).splitlines()
        except (KeyError, IndexError, AttributeError, TypeError) as e:
            return "\n".join([f"{head} (and cannot be printed: {e!r})", *self.lines()])
        lines = [head, *(f"  error: {m}" for place, m in self.found if place is None)]
        marks = len(self.function.attributes) + len(self.function.rules) + (self.function.declaration is not None)
        places: list[object] = [None] * (marks + 1)
        for block in self.function.blocks:
            places += [block, *block.instructions]
        if self.function.blocks:
            places.append(None)
        for place, line in zip(places, printed, strict=True):
            lines.append(line)
            if place is not None:
                lines += [f"      ^ error: {m}" for at, m in self.found if at is place]
        return "\n".join(lines)


def _name(place: object) -> str:
    if isinstance(place, Instruction):
        return f"{place.op.name} {place.loc}" if place.loc else place.op.name
    return repr(place)


# -- a function ---------------------------------------------------------------------------------------


def _check_function(function: Function, module: Module | None, stage: str) -> _Report:
    report = _Report(function)
    if stage not in STAGES:
        report.add(None, f"there is no stage {stage!r}")
    if module is not None and function.rules:
        for message in derivative_rules.problems(function, module):
            report.add(None, message)
    if function.declaration is not None:
        _check_declaration(function, module, stage, report)
        if not function.blocks:
            return report
        report.add(None, "a declaration has no body")
    if not function.blocks:
        report.add(None, "it has no blocks")
        return report
    owned = _check_membership(function, report)
    if not _check_terminators(function, owned, report):
        return report  # the graph cannot be walked
    if stage in ("compute", "scheduled") and predecessors(function)[function.entry]:
        report.add(function.entry, "the entry block has a predecessor")
    for block in function.blocks:
        for i in block.instructions:
            _check_instruction(i, stage, report)
            _check_structure(i, function, module, report)
    _check_uses(function, owned, module, report)
    check_stacks(function, report.add)
    if stage in ("compute", "scheduled") and not report.found:
        check_trees(function, report.add)
    return report


def _check_declaration(function: Function, module: Module | None, stage: str, report: _Report) -> None:
    """A declared derivative is one of a function that is there, and has the type that the rule gives."""
    request = function.declaration
    if function.signature is None:
        report.add(None, "a declaration has a signature")
    if not isinstance(request, AdjointRequest) or module is None:
        return
    if stage != "raw":
        report.add(None, f"derivatives are declared in the stage raw, not in {stage}")
    primal = module.functions.get(request.primal)
    if primal is None:
        report.add(None, f"it is the derivative of @{request.primal}, which is not there")
        return
    try:
        wanted = adjoint_signature(primal, request)
    except TypeError as e:
        report.add(None, str(e))
        return
    if function.signature is not None and wanted != function.signature:
        report.add(None, f"this derivative has the type {wanted}, not {function.signature}")


def _check_membership(function: Function, report: _Report) -> set[object]:
    """Each block, argument and instruction stands in one place and knows it; returns all of them."""
    owned: set[object] = set()
    for block in function.blocks:
        if block in owned:
            report.add(block, "the block occurs twice")
        owned.add(block)
        for arg in block.args:
            if arg in owned:
                report.add(block, f"argument {arg!r} occurs twice")
            if arg.block is not block:
                report.add(block, f"argument {arg!r} belongs to block {arg.block!r}")
            if _is_void(arg.type):
                report.add(block, f"argument {arg!r} is void")
            owned.add(arg)
        for i in block.instructions:
            if i in owned:
                report.add(i, "the instruction occurs twice")
            if i.block is not block:
                report.add(i, f"the instruction stands in {block!r} and says {i.block!r}")
            owned.add(i)
    return owned


def _check_terminators(function: Function, owned: set[object], report: _Report) -> bool:
    """Every block ends in its only terminator, whose targets are blocks of the function."""
    sound = True
    for block in function.blocks:
        if block.terminator is None:
            report.add(block, "the block does not end in a terminator")
            sound = False
        for i in block.instructions:
            if not i.op.is_terminator and not i.targets:
                continue
            if i.op.is_terminator and i is not block.instructions[-1]:
                report.add(i, "a terminator in the middle of a block")
            if len(i.targets) != len(i.attrs.get("cases", ())) + _TARGET_COUNT.get(i.op.name, 0):
                report.add(i, f"{len(i.targets)} targets")
                sound = False
            for t in i.targets:
                if t.block not in owned:
                    report.add(i, f"the target {t.block!r} is no block of this function")
                    sound = False
    return sound


def _check_uses(function: Function, owned: set[object], module: Module | None, report: _Report) -> None:
    """Operands are sound literals, or values of this function that dominate their use."""
    dominators = of_graph(DominatorTree, function)
    for block in function.blocks:
        # what this block has defined up to here: most operands
        near: set[object] = {a for a in block.args if not _is_void(a.type)}
        for i in block.instructions:
            for v in i.all_operands():
                if v in near:
                    continue
                if isinstance(v, Literal):
                    problem = _literal_problem(v) or _function_problem(v, module)
                    if problem:
                        report.add(i, problem)
                elif isinstance(v, Variable):
                    if module is not None and module.variables.get(v.name) is not v:
                        report.add(i, f"the operand {v!r} is no variable of this module")
                elif v not in owned:
                    report.add(i, f"the operand {v!r} is no value of this function")
                elif _is_void(v.type):
                    report.add(i, f"the operand {v!r} has no value")
                elif block in dominators.idom and not dominators.instruction_dominates(v, i):
                    report.add(i, f"the operand {_value_name(v)} does not dominate this use")
            if not _is_void(i.type):
                near.add(i)


def _function_problem(literal: Literal, module: Module | None) -> str | None:
    """Why a function that is named as a value is not there, or None."""
    if not isinstance(literal.value, FunctionName) or module is None:
        return None
    found = module.functions.get(literal.value)
    if found is None:
        return f"there is no function @{literal.value}"
    if (found.blocks or found.signature is not None) and found.type != literal.type:
        return f"@{found.name} is {found.type}, not {literal.type}"
    return None


def _is_void(type: Type) -> bool:
    return isinstance(type, TupleType) and not type.elements


def _value_name(v: Value) -> str:
    return f"%{v.name}" if v.name else repr(v)


# -- an instruction -----------------------------------------------------------------------------------


def _is_in_frame(i: Instruction) -> bool:
    """Whether it is memory of a tensor in the frame: what stack promotion makes, at every stage."""
    return i.op.name == "allocateStack" and isinstance(i.attrs.get("type"), TensorType) and i.attrs.get("count") == 1


def _check_instruction(i: Instruction, stage: str, report: _Report) -> None:
    """Arity, attributes and the result type, all from the row."""
    required, count, is_counting, is_lowered = _row(i.op)
    if is_counting and stage != "scheduled" and not any(isinstance(v.type, BoxType) for v in i.operands):
        report.add(i, "retain and release belong to the stage scheduled")
    if is_lowered and stage in ("compute", "scheduled") and not _is_in_frame(i):
        report.add(i, f"{i.op.name} does not exist in the stage {stage}")
    for attr in i.attrs:
        if attr not in i.op.attrs:
            report.add(i, f"{i.op.name} has no attribute {attr}")
    missing = [a for a in required if a not in i.attrs] if required else []
    if missing:
        report.add(i, f"the attribute {', '.join(missing)} is missing")
        return
    if count is not None and len(i.operands) != count:
        report.add(i, f"{i.op.name} takes {count} operands, not {len(i.operands)}")
        return
    try:
        expected = i.op.result_type(i.operands, i.attrs)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as e:
        report.add(i, f"no type: {e}")
        return
    if expected != i.type:
        report.add(i, f"the type is {expected}, not {i.type}")
    if i.attrs.get("checked") and not (isinstance(i.type, TensorType) and i.type.dtype is I64):
        report.add(i, "only i64 arithmetic can be checked")


@functools.cache
def _row(op: Op) -> tuple[tuple[str, ...], int | None, bool, bool]:
    """What is asked of each instruction of a row: attributes, the count of operands; a reference count, LOWERED."""
    return _required_attrs(op), _operand_count(op), op.name in ("retain", "release"), op in LOWERED


def _required_attrs(op: Op) -> tuple[str, ...]:
    """The attributes that each instruction of a row has."""
    optional = {"checked", JOINED, *_OPTIONAL_ATTRS.get(op.name, ())}
    return tuple(a for a in op.attrs if a not in optional)


def _operand_count(op: Op) -> int | None:
    """How many operands a row takes; None where it varies."""
    if op.name in _OPERAND_COUNT:
        return _OPERAND_COUNT[op.name]
    if isinstance(op.evaluate, np.ufunc):
        return op.evaluate.nin
    if op.evaluate is None:
        return None
    names = inspect.signature(op.evaluate).parameters
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in names.values()):
        return None
    return len([n for n, p in names.items() if n not in op.attrs and p.kind is not p.VAR_KEYWORD])


def _check_structure(i: Instruction, function: Function, module: Module | None, report: _Report) -> None:
    """What a type rule cannot see: edges, the function's result, callees, exceptions."""
    for t in i.targets:
        passed, wanted = [v.type for v in t.args], [a.type for a in t.block.args]
        if passed != wanted:
            report.add(i, f"{t.block!r} takes {_listed(wanted)} and is passed {_listed(passed)}")
    if i.op.name not in _STRUCTURED:
        return
    if i.op.name == "return":
        returned = [v.type for v in i.operands]
        if returned != ([] if function.result == VOID else [function.result]):
            report.add(i, f"{_listed(returned)} is returned where the function gives {function.result}")
    elif i.op.name == "apply" and module is not None:
        _check_call(i, module, report)
    elif i.op.name in ("check", "raise"):
        _check_exception(i, report)
    elif i.op.name == "print":
        _check_message(i, i.operands, report)
    elif i.op.name == "createStack":
        element = i.attrs.get("element")
        if element == VOID or isinstance(element, FunctionType | StackType):
            report.add(i, f"a stack of {element}")


def _listed(types: list[Type]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


def _check_call(i: Instruction, module: Module, report: _Report) -> None:
    callee = module.functions.get(i.attrs.get("callee", ""))
    if callee is None:
        report.add(i, f"there is no function @{i.attrs.get('callee')}")
    elif callee.blocks or callee.signature is not None:
        passed = FunctionType(tuple(v.type for v in i.operands), i.type)
        if passed != callee.type:
            report.add(i, f"@{callee.name} is {callee.type} and is called as {passed}")


def _check_exception(i: Instruction, report: _Report) -> None:
    name = str(i.attrs.get("exception"))
    if "." not in name and exception_class(name) is None:  # module.Class: found when the code is loaded
        report.add(i, f"{name} is no exception of Python or NumPy")
    _check_message(i, i.operands[1:] if i.op.name == "check" else i.operands, report)


def _check_message(i: Instruction, operands: list[Value], report: _Report) -> None:
    message = str(i.attrs.get("message"))
    try:
        found = text.fields(message)
    except ValueError as e:
        report.add(i, f"the message {message!r} is no format: {e}")
        return
    if found != [""] * len(operands):
        report.add(i, f"the message {message!r} does not show {len(operands)} operands by {{}}")


def _literal_problem(literal: Literal) -> str | None:
    """Why the payload of a literal does not fit its type, or None."""
    value, type = literal.value, literal.type
    if value is UNDEFINED:
        return "an undefined void literal" if type == VOID else None
    if value is NULL:
        return None if isinstance(type, PointerType) or type == REFERENCE else f"null is no {type}"
    if isinstance(value, FunctionName | OpName):
        return None if isinstance(type, FunctionType) else f"the function @{value} is no {type}"
    if not isinstance(type, TensorType) or type.shape:
        return f"a literal of type {type}"
    wanted = _PAYLOADS.get(type.dtype.kind)
    # NumPy scalars are subclasses of float and complex; they do not print as the language's literals
    if value.__class__ is not wanted:
        return f"the literal {value!r} is no {type}"
    if wanted is int:
        low, high = type.dtype.limits
        if not low <= value <= high:
            return f"the literal {value} does not fit {type}"
    return None
