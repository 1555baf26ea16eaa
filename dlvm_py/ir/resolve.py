"""The second step of parsing a function: names become values, and op rows give the result types.

In: blocks with their arguments, and a `Statement` for each instruction, in which operands are `Reference`s.
Every reference states its type, so all values that are used have one before the first row is asked, in
whatever order the definitions stand. What a row then computes must be what the references stated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dlvm_py.errors import Loc
from dlvm_py.frozen import Mutable, field
from dlvm_py.ir.function import Block, Function
from dlvm_py.ir.lexer import DUPLICATE, OPERANDS, REFERENCE_TYPE, SYNTAX, UNDEFINED_NAME, Token
from dlvm_py.ir.op import Op
from dlvm_py.ir.parser_types import Reader
from dlvm_py.ir.syntax import unquote
from dlvm_py.ir.types import VOID, Type
from dlvm_py.ir.value import BlockArg, Instruction, Target, Value, Variable

Name = str | tuple[int | str, ...]  # a name, or the parts of a position: 1 for '1, (0, ".", 3) for %0.3


class Reference(Value):
    """A use of a name, with the type that the text states."""

    __slots__ = ("token",)

    def __init__(self, token: Token, type: Type) -> None:
        super().__init__(type)
        self.token = token


class Statement(Mutable):
    """An instruction as it was read. `stated`: the type of the result, where the syntax has a place for it."""

    op: Op
    mnemonic: Token
    name: Token | None
    hint: str
    operands: list[Value] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    targets: list[tuple[Token, list[Value]]] = field(default_factory=list)
    stated: Type | None = None
    loc: Loc | None = None
    nested: list[Statement] = field(default_factory=list)  # literals of elements among the operands


class Nested(Value):
    """A literal of elements as an element of another one: an instruction that has no place in the text."""

    __slots__ = ("statement",)

    def __init__(self, statement: Statement) -> None:
        stated = statement.stated if statement.stated is not None else statement.attrs["type"]
        super().__init__(stated)
        self.statement = statement


ReadBlock = tuple[Token, list[Token], list[Statement]]


def name_of(token: Token) -> Name:
    """What a name token means: `%x` and `%"x"` the name x, `%0.1` and `'0` a position; `@0` the name 0."""
    text = token.text[1:]
    if text.startswith('"'):
        return unquote(text)
    if token.kind != "global" and text[0].isdigit():
        return tuple(int(part) if part.isdigit() else part for part in re.split(r"([.^])", text))
    return text


def resolve(
    reader: Reader, function: Function, blocks: list[ReadBlock], variables: Mapping[str, Variable] | None = None
) -> None:
    """Fill the blocks of `function`, which have their arguments, with instructions."""
    _Resolver(reader, function, blocks, variables or {}).run()


class _Resolver:
    def __init__(
        self, reader: Reader, function: Function, blocks: list[ReadBlock], variables: Mapping[str, Variable]
    ) -> None:
        self.reader = reader
        self.function = function
        self.read = blocks
        self.variables = variables
        self.blocks: dict[Name, Block] = {}
        self.values: dict[Name, Value] = {}
        self.nested: dict[int, Instruction] = {}  # by the identity of their statements
        self.stated: dict[Value, Token] = {}  # the first place that states the type of an instruction's result

    def run(self) -> None:
        """Define, link, compute types."""
        statements = self.define()
        for instruction, statement in statements:
            instruction.operands = [self.value(v) for v in statement.operands]
            instruction.targets = [
                Target(self.block(token), [self.value(v) for v in args]) for token, args in statement.targets
            ]
        for instruction, statement in statements:
            self.compute_type(instruction, statement)

    def define(self) -> list[tuple[Instruction, Statement]]:
        """Enter every name; the instructions are made, without operands and types."""
        statements: list[tuple[Instruction, Statement]] = []
        for block, (token, params, body) in zip(self.function.blocks, self.read, strict=True):
            self.enter(self.blocks, token, block)
            for param, arg in zip(params, block.args, strict=True):
                self.enter(self.values, param, arg)
            for at, s in enumerate(body):
                for inner in s.nested:
                    self.nested[id(inner)] = self.instruction(block, inner, statements)
                i = self.instruction(block, s, statements)
                if s.name is not None:
                    self.enter(self.values, s.name, i)
                else:
                    # the position in the text: nested literals do not count
                    self.values[len(self.blocks) - 1, ".", at] = i
        return statements

    def instruction(self, block: Block, s: Statement, statements: list[tuple[Instruction, Statement]]) -> Instruction:
        """The instruction of a statement, without operands."""
        i = block.append(Instruction(s.op, [], s.attrs, type=VOID, name=s.hint, loc=s.loc))
        if s.stated is not None:
            i.type, self.stated[i] = s.stated, s.mnemonic
        statements.append((i, s))
        return i

    def enter(self, names: dict[Name, Any], token: Token, thing: Any) -> None:
        """Give a thing its name, which must be new in the function."""
        if names.setdefault(name_of(token), thing) is not thing:
            raise self.reader.error(f"{token} is defined twice", token, DUPLICATE)

    def block(self, token: Token) -> Block:
        """The block of a name."""
        found = self.blocks.get(name_of(token))
        if found is None:
            raise self.reader.error(f"there is no block {token}", token, UNDEFINED_NAME)
        return found

    def value(self, operand: Value) -> Value:
        """The definition of a reference, whose types must agree; literals stand for themselves."""
        if isinstance(operand, Nested):
            return self.nested[id(operand.statement)]
        if not isinstance(operand, Reference):
            return operand
        token = operand.token
        names: Mapping[Any, Value] = self.variables if token.kind == "global" else self.values
        found = names.get(name_of(token))
        if found is None:
            what = "variable" if token.kind == "global" else "value"
            raise self.reader.error(f"there is no {what} {token}", token, UNDEFINED_NAME)
        if isinstance(found, BlockArg | Variable) or found in self.stated:
            if found.type != operand.type:
                raise self.reader.error(f"{token} is {found.type}, not {operand.type}", token, REFERENCE_TYPE)
        else:
            found.type, self.stated[found] = operand.type, token
        return found

    def compute_type(self, i: Instruction, s: Statement) -> None:
        """The result type by the op's row, which must be what the references have stated."""
        try:
            computed = s.op.result_type(i.operands, i.attrs)
        # rows raise TypeError; the others are for what the author of a row did not foresee
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            word = s.mnemonic.text if s.mnemonic.kind == "word" else "literal"
            raise self.reader.error(f"{word}: {error}", s.mnemonic, OPERANDS) from None
        if i in self.stated and computed != i.type:
            token = self.stated[i]
            what = "the result" if token is s.mnemonic else str(token)
            raise self.reader.error(f"{what} is {computed}, not {i.type}", token, REFERENCE_TYPE)
        if computed == VOID and s.name is not None:
            raise self.reader.error(f"{s.mnemonic.text} gives no value that could be named", s.name, SYNTAX)
        if i not in self.stated:  # what the text states may be called by an alias
            i.type = computed
