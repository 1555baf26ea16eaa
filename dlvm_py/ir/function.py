"""Blocks, functions and modules."""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.errors import Loc
from dlvm_py.frozen import Frozen
from dlvm_py.ir.types import Alias, FunctionType, NominalType, Type
from dlvm_py.ir.value import BlockArg, Instruction, Target, Value, Variable

FREE_LAYOUT = "freelayout"  # the attribute of a function whose array results may have any layout


class AdjointRequest(Frozen):
    """`[adjoint @primal from i wrt a, b keeping k seedable]`: the function is the derivative of another one.

    `source` is the element of a tuple result; `wrt` None stands for all parameters; `keeping` are elements of the
    result that are returned behind the derivatives; `seedable`: one more parameter, the seed, at the end.
    """

    primal: str
    source: int | None = None
    wrt: tuple[int, ...] | None = None
    keeping: tuple[int, ...] = ()
    seedable: bool = False


class Extern(Frozen):
    """`[extern]`: the body is elsewhere."""


Declaration = AdjointRequest | Extern


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
        # only terminators have targets
        return self.instructions[-1].targets if self.instructions else []

    def successors(self) -> list[Block]:
        """Successor blocks in order, one entry an edge (a block can occur twice)."""
        return [t.block for t in self.targets]

    def __repr__(self) -> str:
        return f"'{self.name or '?'}"


class Function:
    """A function: a name, blocks (the first is the entry), the result type.

    `attributes` holds words such as "inline"; `rules` the names of the functions that give its derivatives, by
    "adjoint", "tangent" and "forward" (see ir/derivative_rules.py); `meta` holds facts for other stages that are not
    part of the program text (written parameters, source names), keyed by the stage's own constant. A function
    that is only declared has a `declaration` and a `signature` in the place of blocks.
    """

    def __init__(self, name: str, result: Type) -> None:
        self.name = name
        self.result = result
        self.blocks: list[Block] = []
        self.attributes: set[str] = set()
        self.rules: dict[str, str] = {}
        self.meta: dict[str, object] = {}
        self.declaration: Declaration | None = None
        self.signature: FunctionType | None = None
        self.loc: Loc | None = None

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
        if self.signature is not None and not self.blocks:
            return self.signature
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
        resolved = resolve_chains(mapping)
        for instruction in self.instructions():
            instruction.substitute(resolved)


def resolve_chains(mapping: dict[Value, Value]) -> dict[Value, Value]:
    """A mapping of replacements with the chains in it followed to their ends."""
    resolved = {}
    for key, value in mapping.items():
        while value in mapping:
            value = mapping[value]
        resolved[key] = value
    return resolved


class Module:
    """A module: a name, a stage, then types, variables and functions by name in definition order."""

    def __init__(self, name: str, stage: str = "raw") -> None:
        self.name = name
        self.stage = stage
        self.types: dict[str, NominalType | Alias] = {}
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}

    def add(self, function: Function) -> Function:
        """Add a function under a name that is made unique."""
        base, n = function.name, 0
        while function.name in self.functions:
            function.name, n = f"{base}_{n}", n + 1
        self.functions[function.name] = function
        return function
