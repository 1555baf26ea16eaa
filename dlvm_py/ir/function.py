"""Blocks, functions and modules."""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.ir.types import FunctionType, Type
from dlvm_py.ir.value import BlockArg, Instruction, Target, Value


class Block:
    """A basic block: formal arguments and instructions, the last one a terminator."""

    __slots__ = ("args", "instructions", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.args: list[BlockArg] = []
        self.instructions: list[Instruction] = []

    def add_arg(self, type: Type, name: str = "") -> BlockArg:
        """Append a formal argument; the branches to this block must pass one more value."""
        arg = BlockArg(type, self, name)
        self.args.append(arg)
        return arg

    def append(self, instruction: Instruction) -> Instruction:
        """Append an instruction."""
        instruction.block = self
        self.instructions.append(instruction)
        return instruction

    @property
    def terminator(self) -> Instruction | None:
        """The last instruction if it is a terminator, else None."""
        last = self.instructions[-1] if self.instructions else None
        return last if last is not None and last.op.is_terminator else None

    @property
    def targets(self) -> list[Target]:
        """The edges that leave this block."""
        t = self.terminator
        return t.targets if t is not None else []

    def successors(self) -> list[Block]:
        """Successor blocks in order, one entry an edge (a block can occur twice)."""
        return [t.block for t in self.targets]

    def __repr__(self) -> str:
        return f"'{self.name or '?'}"


class Function:
    """A function: a name, blocks (the first is the entry), the result type.

    `attributes` holds words such as "inline"; `meta` holds facts for other stages that are not part
    of the program text (written parameters, source names), keyed by the stage's own constant.
    """

    def __init__(self, name: str, result: Type) -> None:
        self.name = name
        self.result = result
        self.blocks: list[Block] = []
        self.attributes: set[str] = set()
        self.meta: dict[str, object] = {}

    @property
    def entry(self) -> Block:
        """The entry block."""
        return self.blocks[0]

    @property
    def params(self) -> list[BlockArg]:
        """The parameters: arguments of the entry block."""
        return self.blocks[0].args

    @property
    def type(self) -> FunctionType:
        """Its signature."""
        return FunctionType(tuple(p.type for p in self.params), self.result)

    def new_block(self, name: str = "", after: Block | None = None) -> Block:
        """Create a block at the end, or right after another one."""
        block = Block(name)
        if after is None:
            self.blocks.append(block)
        else:
            self.blocks.insert(self.blocks.index(after) + 1, block)
        return block

    def instructions(self) -> Iterator[Instruction]:
        """Every instruction in layout order."""
        for block in self.blocks:
            yield from block.instructions

    def substitute(self, mapping: dict[Value, Value]) -> None:
        """Replace every use of the keys of `mapping`; chains in the mapping are followed."""
        if not mapping:
            return
        resolved = {}
        for key in mapping:
            value = mapping[key]
            while value in mapping:
                value = mapping[value]
            resolved[key] = value
        for instruction in self.instructions():
            instruction.substitute(resolved)


class Module:
    """A module: a name, a stage, and functions by name in definition order."""

    def __init__(self, name: str, stage: str = "raw") -> None:
        self.name = name
        self.stage = stage
        self.functions: dict[str, Function] = {}

    def add(self, function: Function) -> Function:
        """Add a function under a name that is made unique."""
        base, n = function.name, 0
        while function.name in self.functions:
            function.name, n = f"{base}_{n}", n + 1
        self.functions[function.name] = function
        return function
