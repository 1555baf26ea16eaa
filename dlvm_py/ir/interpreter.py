"""The reference interpreter: runs any stage of the IR on NumPy, slowly and literally.

It is the oracle of the tests: what it gives is what every pass must keep and native code must give. It
assumes nothing that the IR does not promise, and raises PassError where a promise is broken: an unknown
extent that differs from its partner, a pointer that is not as contiguous as its type says, a value that is
undefined, memory used after it was freed. What the *program* raises are plain Python exceptions, with the
location in a note.

Values: scalars are NumPy scalars; tensors are ndarrays that nothing writes to; pointers are `Pointer`, an
ndarray view and the allocation that owns it; a stack is a list. Fresh memory is filled with a pattern
(NaN, or a large integer), so that reading what was never written shows in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dlvm_py.errors import PassError
from dlvm_py.ir.activation import Frame
from dlvm_py.ir.evaluate import (
    Allocation,
    Pointer,
    checked_pointer,
    conform,
)
from dlvm_py.ir.externs import known, why_unknown
from dlvm_py.ir.function import Function, Module
from dlvm_py.ir.objects import Reference, fresh, given, read, unwrap
from dlvm_py.ir.ops.draw import address_of
from dlvm_py.ir.ops.random import seeded
from dlvm_py.ir.types import FunctionType, PointerType, TensorType, Type
from dlvm_py.ir.value import FunctionName, Variable


def run(
    module: Module,
    name: str,
    args: Sequence[Any],
    *,
    check_ownership: bool = False,
    max_steps: int | None = None,
    trees_at_root: bool = False,
    seed: int = 0,
    externs: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """Run function `name` of `module`; arrays are given as ndarrays and written in place.

    Returns None, a NumPy scalar, an ndarray (an argument that is returned is that very object), or a tuple.

    check_ownership: when it returns, every allocation must have been freed, unless it is returned, and every
        reference must have been given back. For the stage "scheduled".
    max_steps: PassError after so many instructions.
    trees_at_root: array expressions are evaluated where their root stands, not where their parts stand, and
        must be fit for that (stages "compute" and "scheduled").
    seed: of the random numbers, as `randomSeed` would set it.
    externs: Python functions for `[extern]` ones, by name; those of C's math library are known.
    """
    machine = Machine(module, max_steps, trees_at_root, seed, externs)
    with np.errstate(all="ignore"):
        return machine.call_from_outside(name, args, check_ownership)


class Machine:
    """The state of one run: the allocations and stacks made so far, and the count of steps."""

    def __init__(
        self,
        module: Module,
        max_steps: int | None,
        trees_at_root: bool,
        seed: int = 0,
        externs: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.module = module
        self.externs = externs or {}
        self.counter = seeded(seed)  # of random numbers
        self.generators: dict[int, np.random.Generator] = {}  # by their addresses
        self.steps_left = -1 if max_steps is None else max_steps
        self.trees_at_root = trees_at_root
        self.allocations: list[Allocation] = []
        self.in_cells: list[Allocation] = []  # once a reference that a cell holds
        self.open_stacks = 0
        self.variables = {v: self._variable(v) for v in module.variables.values()}

    def call_from_outside(self, name: str, args: Sequence[Any], check_ownership: bool) -> Any:
        """Check and wrap the arguments, run, unwrap the result."""
        function = self.module.functions[name]
        if len(args) != len(function.params):
            raise PassError(f"@{name} takes {len(function.params)} arguments, not {len(args)}")
        pairs = zip(args, function.params, strict=True)
        wrapped = [self._argument(a, p.type, f"argument {k}") for k, (a, p) in enumerate(pairs)]
        result = self.call(function, wrapped)
        if check_ownership:
            self._check_ownership(result)
        for a, pointer, p in zip(args, wrapped, function.params, strict=True):
            if isinstance(a, Reference):
                t = p.type.pointee if isinstance(p.type, PointerType) else p.type.element  # type: ignore[attr-defined]
                a.value = unwrap(read(pointer.view, t))
        return unwrap(result)

    def generator(self, generator: np.random.Generator) -> np.uint64:
        """What a generator of random numbers is in the program."""
        address = address_of(generator)
        self.generators[int(address)] = generator
        return address

    def _argument(self, value: Any, type: Type, what: str) -> Any:
        if isinstance(value, np.random.Generator):
            value = self.generator(value)
        if isinstance(type, PointerType) and isinstance(type.pointee, TensorType):
            if not isinstance(value, np.ndarray) or value.dtype != type.dtype.numpy:
                raise PassError(f"{what}: {type} expected, got {getattr(value, 'dtype', value)!r}")
            pointer = Pointer(value, Allocation(value, True, what))
            assert pointer.owner is not None
            self.allocations.append(pointer.owner)
            return checked_pointer(pointer, type)
        if isinstance(type, FunctionType):
            function = self.module.functions.get(str(value).removeprefix("@"))
            if function is None or function.type != type:
                raise PassError(f"{what}: the name of a {type} expected, got {value!r}")
            return FunctionName(function.name)
        return given(value, type, what)

    def _variable(self, variable: Variable) -> Pointer:
        """Memory of a variable of the module, 0 at first."""
        assert isinstance(variable.type, PointerType)
        memory = fresh(variable.type.pointee, zero=True)
        return Pointer(memory, Allocation(memory, True, repr(variable)))

    def _check_ownership(self, result: Any) -> None:
        returned = [p.owner for p in _pointers(result)]
        problems = []
        for a in self.allocations:
            held = a.count - a.borrowed - returned.count(a) - self.in_cells.count(a)
            if held and not a.freed:
                problems.append(f"{a.origin}: {held} references are not given back")
            if a.freed and a in returned:
                problems.append(f"{a.origin} is returned after it was freed")
        if self.open_stacks:
            problems.append(f"{self.open_stacks} stacks are not destroyed")
        if problems:
            raise PassError("; ".join(problems))

    # -- running -------------------------------------------------------------------------------------

    def call_by_name(self, name: str, args: Sequence[Any]) -> Any:
        """Run the function of a name on wrapped values; an extern one too, if it is known."""
        function = self.module.functions.get(name)
        if function is None:
            raise PassError(f"there is no function @{name}")
        if function.blocks:
            return self.call(function, args)
        if name in self.externs:
            result = self.externs[name](*map(unwrap, args))
            return conform(result, function.type.result) if isinstance(function.type.result, TensorType) else result
        op = known(function)
        if op is None:
            raise PassError(why_unknown(function))
        assert op.evaluate is not None and isinstance(function.type.result, TensorType)
        return conform(op.evaluate(*args), function.type.result)

    def call(self, function: Function, args: Sequence[Any]) -> Any:
        """Run one function on wrapped values."""
        frame = Frame(self, function)
        block = function.entry
        values = list(args)
        while True:
            for arg, value in zip(block.args, values, strict=True):
                frame.values[arg] = value
            target = frame.run_block(block.instructions)
            if target is None:
                return frame.result
            payload, frame.payload = frame.payload, None
            values = [frame.get(v) for v in target.args] if payload is None else list(payload)
            block = target.block

    def take(self, n: int) -> np.int64:
        """The counter of random numbers, which goes on by n."""
        before = self.counter.astype(np.int64)
        self.counter = np.add(self.counter, np.int64(n).astype(np.uint64))
        return before

    def step(self) -> None:
        """Count one instruction."""
        if self.steps_left == 0:
            raise PassError("the step limit is reached")
        self.steps_left -= 1


def _pointers(value: Any) -> list[Pointer]:
    if isinstance(value, tuple):
        return [p for item in value for p in _pointers(item)]
    return [value] if isinstance(value, Pointer) else []
