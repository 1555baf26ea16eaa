"""Text of the IR → modules and functions: the inverse of `printer.py`. The grammar is in docs/ir.md.

    parse_module(text) -> Module          parse_function(text) -> Function

A function is read in two steps. Reading (this file) makes blocks and instructions whose operands are
`Reference`s: a name with the type that is annotated. When the function is complete, `resolve.py` puts the
definitions in their places and computes the result types from the op rows. So a value or a block may be
used before its definition in the text, as long as the definition dominates; that it does, and every other
rule about whole functions, is the verifier's matter.

Whatever the text holds, nothing but ParseError is raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from dlvm_py.errors import Loc
from dlvm_py.ir.function import Function, Module
from dlvm_py.ir.lexer import (
    DUPLICATE,
    INDEX,
    LITERAL,
    OPERANDS,
    REFERENCE_TYPE,
    SYNTAX,
    TOO_DEEP,
    UNDEFINED_NAME,
    Token,
)
from dlvm_py.ir.op import Op
from dlvm_py.ir.ops import OPS
from dlvm_py.ir.ops.functions import COMBINATIONS, FOLDS
from dlvm_py.ir.parser_module import TYPE_WORDS, ModuleReader
from dlvm_py.ir.parser_types import LITERAL_WORDS, MAX_NESTING
from dlvm_py.ir.resolve import Nested, Reference, Statement, name_of, resolve
from dlvm_py.ir.syntax import ATTRIBUTES, RULES, STAGES, Combiner, Item, form_items, mnemonics, op_of_mnemonic, unquote
from dlvm_py.ir.types import (
    DTYPES,
    ELEMENTS,
    I64,
    VOID,
    ArrayType,
    EnumType,
    FunctionType,
    StackType,
    StructType,
    TensorType,
    scalar,
)
from dlvm_py.ir.value import NULL, UNDEFINED, FunctionName, Literal, OpName, Value

_OLD_STAGES = {"canonical": "optimizable"}


def parse_module(text: str | bytes, filename: str = "<string>", *, locate: bool = False) -> Module:
    """The module that a text describes; ParseError if it describes none.

    locate: an instruction without `!loc` gets its place in this text, for errors; else it has none.
    """
    parser = _Parser(text, filename)
    parser.locates = locate
    return parser.module()


def parse_function(text: str | bytes, filename: str = "<string>") -> Function:
    """The function that a text describes; the callees of its calls are not looked for."""
    return _Parser(text, filename).lone_function()


class _Parser(ModuleReader):
    """Reads modules, functions, blocks and instructions."""

    def __init__(self, text: str | bytes, filename: str) -> None:
        super().__init__(text, filename)
        self.calls: list[tuple[str, Token]] = []
        self.nested: list[Statement] = []  # the literals in the literal that is being read
        self.named: list[tuple[Token, FunctionType]] = []  # functions as operands
        self.locates = False

    # -- modules ---------------------------------------------------------------------------------

    def module(self) -> Module:
        """module = "module" STRING NL "stage" STAGE NL { alias | struct | enum | variable | function }."""
        self.enter_types()
        self.skip_newlines()
        self.expect_word("module")
        module = Module(unquote(self.expect("string", "the name of the module in quotes").text))
        self.end_line()
        self.expect_word("stage")
        stage = self.expect_word(*STAGES, *_OLD_STAGES)
        module.stage = _OLD_STAGES.get(stage, stage)
        self.end_line()
        while not self.at("end"):
            if self.at_word(*TYPE_WORDS):
                self.type_declaration(module)
            elif self.at_word("var"):
                self.variable(module)
            else:
                self.module_function(module)
        for callee, token in self.calls:
            self.defined(module, callee, token)
        for token, type in self.named:
            found = self.defined(module, str(name_of(token)), token).type
            if found != type:
                raise self.error(f"{token} is {found}, not {type}", token, REFERENCE_TYPE)
        self.check_primals(module)
        return module

    def defined(self, module: Module, name: str, token: Token) -> Function:
        """The function of a name."""
        if name not in module.functions:
            raise self.error(f"there is no function {token}", token, UNDEFINED_NAME, _nearest(name, module.functions))
        return module.functions[name]

    def module_function(self, module: Module) -> None:
        """A function, its name not taken yet."""
        function, name = self.function(len(module.variables) + len(module.functions))
        if function.name in module.functions or function.name in module.variables:
            raise self.error(f"the function {name} is defined twice", name, DUPLICATE)
        module.functions[function.name] = function

    def lone_function(self) -> Function:
        """One function and nothing else."""
        self.skip_newlines()
        function, _ = self.function()
        if not self.at("end"):
            self.unexpected("the end of the text")
        return function

    # -- functions -------------------------------------------------------------------------------

    def function(self, place: int = -1) -> tuple[Function, Token]:
        """function = { ATTRIBUTE NL } [ declaration ] "func" GLOBAL ":" type [ body ]; also its name token."""
        attributes: set[str] = set()
        rules: dict[str, str] = {}
        while self.at("attribute"):
            word = self.next.text[1:]
            if word in RULES:
                self._rule(rules)
            elif word in ATTRIBUTES:
                attributes.add(self.take().text[1:])
            else:
                self.unexpected(" or ".join(f"'!{a}'" for a in (*ATTRIBUTES, *RULES)))
            self.end_line()
        declaration = self.declaration() if self.at("[") else None
        if not self.at_word("func"):
            self.unexpected("'func' or an attribute such as '!inline'")
        self.take()
        name = self.expect("global", "the name of a function")
        signature_token = self.next
        signature = self.annotation()
        if not isinstance(signature, FunctionType):
            raise self.error(f"expected the type of a function, found {signature}", signature_token, SYNTAX)
        function = Function(self.global_name(name, place), signature.result)
        function.attributes, function.rules = attributes, rules
        function.loc = self.place_of(name)
        if declaration is not None:
            function.declaration, function.signature = declaration, signature
            self.end_line("a new line: a declaration has no body")
            return function, name
        if not self.around_newlines("{"):
            self.unexpected("'{' and the body of the function")
        blocks = self.blocks(function)
        self.expect("}", "a block, an instruction or '}'")
        entry = [a.type for a in function.blocks[0].args] if function.blocks else None
        if entry != list(signature.params):
            wanted = ", ".join(map(str, signature.params))
            reason = f"the signature of {name} asks for an entry block with the arguments ({wanted})"
            raise self.error(reason, blocks[0][0] if blocks else name, SYNTAX)
        self.end_line()
        resolve(self, function, blocks, self.variables)
        return function, name

    def _rule(self, rules: dict[str, str]) -> None:
        """( "!adjoint" | "!tangent" | "!forward" ) GLOBAL, once each."""
        word = self.take()
        kind = word.text[1:]
        token = self.expect("global", f"the function that is the {kind} rule")
        if kind in rules:
            raise self.error(f"a second {word}", word, DUPLICATE)
        rules[kind] = self.global_name(token, -1)
        self.primals.append((rules[kind], token))

    def global_name(self, token: Token, place: int) -> str:
        """The name of a function or variable; a number must be its true position (-1: it is only referred to)."""
        if token.text[1:].isdigit() and 0 <= place != int(token.text[1:]):
            raise self.error(f"invalid index: this is function {place}", token, INDEX)
        return str(name_of(token))

    def blocks(self, function: Function) -> list[tuple[Token, list[Token], list[Statement]]]:
        """{ BLOCK "(" [ param { "," param } ] ")" ":" NL { instruction NL } }, each with its tokens."""
        found = []
        while self.at("block"):
            name = self.take()
            block = function.new_block(self.own_name(name, len(function.blocks)))
            self.skip_newlines()
            self.expect("(")
            self.skip_newlines()
            params: list[Token] = []
            while not self.at(")"):
                params.append(self.expect("local", "the name of a block argument or ')'"))
                hint = self.own_name(params[-1], len(function.blocks) - 1, "^", len(block.args))
                block.add_arg(self.annotation(), hint)
                if not self.around_newlines(","):
                    break
            self.close(")", "',' or ')'")
            self.skip_newlines()
            self.expect(":")
            self.end_line()
            found.append((name, params, self.statements(len(function.blocks) - 1)))
        return found

    def own_name(self, token: Token, *place: int | str) -> str:
        """The name that a definition gives itself; "" for a position, which must be its own."""
        name = name_of(token)
        if isinstance(name, str):
            if not name:
                raise self.error("a name cannot be empty", token, SYNTAX)
            return name
        if name != place:
            expected = token.text[0] + "".join(map(str, place))
            raise self.error(f"invalid index {token}: this is {expected}", token, INDEX)
        return ""

    # -- instructions ----------------------------------------------------------------------------

    def statements(self, block: int) -> list[Statement]:
        """The instructions up to the next block or the closing brace."""
        found: list[Statement] = []
        while not (self.at("block") or self.at("}")):
            found.append(self.statement(block, len(found)))
            self.end_line("a new line after the instruction")
        return found

    def statement(self, block: int, index: int) -> Statement:
        """instruction = [ LOCAL "=" ] MNEMONIC items [ location ]."""
        name, hint = None, ""
        if self.at("local"):
            name = self.take()
            hint = self.own_name(name, block, ".", index)
            if not self.around_newlines("="):
                self.unexpected("'='")
        mnemonic = self.expect("word", "an instruction, a block or '}'")
        op = op_of_mnemonic(mnemonic.text)
        if op is None:
            near = _nearest(mnemonic.text, mnemonics())
            raise self.error(f"there is no instruction {mnemonic}", mnemonic, SYNTAX, near)
        statement = Statement(op, mnemonic, name, hint)
        groups: list[int] = []
        if mnemonic.text == "allocateHeap":
            statement.op = op = self.allocation()
        if mnemonic.text == "literal":
            outside, self.nested = self.nested, statement.nested
            self.constant(statement)
            self.nested = outside
        else:
            for item in form_items(op):
                self.item(item, statement, groups)
        if len(set(groups)) > 1:
            reason = f"{op.name} takes equally many operands in each bracket, not {', '.join(map(str, groups))}"
            raise self.error(reason, mnemonic, SYNTAX)
        if statement.op is OPS["applyValue"]:
            called, *given = statement.operands
            called.type = FunctionType(tuple(v.type for v in given), statement.attrs["result"])
        if op is OPS["pop"] and statement.operands[0].type == StackType(None):
            statement.attrs["type"] = statement.stated  # the stack does not say
        if self.at("attribute"):
            statement.loc = self.location()
        elif self.locates:
            statement.loc = self.place_of(mnemonic)
        return statement

    def allocation(self) -> Op:
        """Which allocateHeap it is: of tensors, of other values, or the original's with a count that is an operand."""
        start = self.place
        plain = self.at_word(*ELEMENTS)
        self.type()
        self.expect_word("count")
        listed, self.place = self.at("("), start
        return OPS["allocateHeap" if listed and plain else "allocateAggregate" if listed else "allocateCounted"]

    def constant(self, statement: Statement) -> None:
        """The literal of an instruction, with its type: a number in every element, or elements in brackets."""
        start = self.next
        operands = statement.operands
        if self.at("("):
            self.bracketed("(", ")", lambda: operands.append(self.element()))
            statement.stated = self.annotation()
            return
        if self.at("<"):
            self.rows(operands)
        elif self.at("["):
            self.bracketed("[", "]", lambda: operands.append(self.element()))
        elif self.at("{"):
            self.bracketed("{", "}", lambda: self.field(statement))
        elif self.at("case"):
            statement.attrs["case"] = self.take().text[1:]
            self.bracketed("(", ")", lambda: operands.append(self.element()))
        else:
            self.splat(statement)
            return
        statement.op = OPS["enumCase" if "case" in statement.attrs else "aggregate"]
        statement.attrs["type"] = type = self.annotation()
        names = statement.attrs.pop("fields", None)
        wanted = {"<": TensorType, "[": ArrayType, "{": StructType}.get(start.kind, EnumType)
        if not isinstance(type, wanted) or names is not None and names != list(type.fields):
            raise self.error(f"this is no literal of {type}", start, LITERAL)

    def bracketed(self, opening: str, closing: str, element: Callable[[], None]) -> None:
        """[ element { "," element } ] in brackets."""
        self.expect(opening)
        self.skip_newlines()
        if not self.at(closing):
            element()
            while self.around_newlines(","):
                element()
        self.close(closing, f"',' or '{closing}'")

    def rows(self, found: list[Value]) -> None:
        """The elements of a tensor. Rows that are written in place, down to the numbers, are their numbers."""
        self.bracketed("<", ">", lambda: found.append(self.element()))
        inner = [v.statement for v in found if isinstance(v, Nested)]
        if inner and len(inner) == len(found) and all(map(_is_row_of_numbers, inner)):
            self.nested[:] = [s for s in self.nested if not any(s is i for i in inner)]
            found[:] = [v for s in inner for v in s.operands]

    def field(self, statement: Statement) -> None:
        """STRUCTKEY "=" use."""
        name = self.expect("key", "a field such as #x")
        statement.attrs.setdefault("fields", []).append(name.text[1:])
        if not self.around_newlines("="):
            self.unexpected("'='")
        statement.operands.append(self.element())

    def element(self) -> Value:
        """An operand of a literal: a use, or again a literal of elements, which becomes an instruction before it."""
        if not (self.at("<") or self.at("(") or self.at("[") or self.at("{") or self.at("case")):
            return self.use()
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.error(f"literals are nested more than {MAX_NESTING} deep", self.next, TOO_DEEP)
        inner = Statement(OPS["tuple"], self.next, None, "")
        self.constant(inner)
        self.nesting -= 1
        self.nested.append(inner)
        return Nested(inner)

    def splat(self, statement: Statement) -> None:
        """A number in every element of a tensor: a broadcast to extents that are all known."""
        token = self.next
        if not self.at_literal():
            self.unexpected("a literal", help=_nearest(token.text, LITERAL_WORDS))
        payload = self._payload()
        at = self.next
        type = self.annotation()
        if payload is NULL or payload is UNDEFINED:
            statement.op = OPS["constant"]
            statement.operands = [Literal(type, self._fitted(payload, type, token))]
            return
        if not isinstance(type, TensorType) or None in type.shape:
            raise self.error(f"a number is no literal of {type}", at, LITERAL)
        element = scalar(type.dtype)
        integral = token.kind == "int" and type.dtype.kind == "f"
        statement.op = OPS["broadcast"]
        statement.operands = [Literal(element, self._fitted(payload, element, token), integral)]
        statement.operands += [Literal(scalar(I64), n) for n in type.shape]

    def item(self, item: Item, statement: Statement, groups: list[int]) -> None:
        """Read one item of the form of an op into the statement."""
        op, operands = statement.op, statement.operands
        match item.kind:
            case "%":
                operands.append(self.use())
            case "%?":
                if not self.at("newline") and not self.at("attribute") and not self.at("}"):
                    operands.append(self.use())
            case "%,":
                operands.extend(self.listed(statement))
            case "(%*)":
                before = len(operands)
                operands.extend(
                    self.extents() if op.name in ("shapeCast", "random") and not self.at("(") else self.uses()
                )
                groups.append(len(operands) - before)
            case "'":
                block = self.expect("block", "a block and its arguments in parentheses")
                statement.targets.append((block, self.uses()))
            case "result":
                statement.stated = self.type()
            case "attribute" if item.text == "cases":
                self.cases(statement)
            case "attribute" if item.attr == "by" and (self.at("local") or self.at("global")):
                statement.op = COMBINATIONS[op.name]
                operands.append(self.use())
            case "attribute" if item.attr == "by" and self.at_word(*FOLDS):
                statement.op = COMBINATIONS[op.name]
                operands.append(self.fold(operands[0]))
            case "attribute" if item.text == "function" and self.at("local"):
                # its type is what follows: the operands and the result
                statement.op = OPS["applyValue"]
                operands.append(Reference(self.take(), VOID))
            case "attribute" if item.text == "type?":
                if not self.at("newline") and not self.at("attribute") and not self.at("}"):
                    statement.attrs[item.attr] = self.type()
            case "attribute":
                if item.attr not in statement.attrs:
                    statement.attrs[item.attr] = self.attribute(item)
            case "group":
                if self.at_word(item.text):
                    for inner in item.items:
                        self.item(inner, statement, groups)
                    statement.attrs.setdefault(item.attr, True)
            case _:
                self.keyword(item.text, statement)

    def fold(self, combined: Value) -> Literal:
        """An op of two operands as a combiner."""
        token = self.next
        name = OpName(self.take().text)
        t = combined.type
        element = scalar(t.dtype) if isinstance(t, TensorType) else t
        try:
            found = OPS[name].result_type([Value(element), Value(element)], {})
        except TypeError as error:
            raise self.error(f"{name}: {error}", token, OPERANDS) from None
        return Literal(FunctionType((element, element), found), name)

    def cases(self, statement: Statement) -> None:
        """{ "case" ENUMCASE BLOCK }: the blocks take what the cases hold."""
        (value,) = statement.operands
        found: list[str] = []
        while self.at_word("case"):
            self.take()
            case = self.expect("case", "a case such as ?leaf")
            held = value.type.cases.get(case.text[1:]) if isinstance(value.type, EnumType) else ()
            if held is None:
                raise self.error(f"there is no case {case} in {value.type}", case, OPERANDS)
            found.append(case.text[1:])
            block = self.expect("block", "the name of a block")
            statement.targets.append((block, [Literal(t, UNDEFINED) for t in held]))
        statement.attrs["cases"] = tuple(found)

    def keyword(self, text: str, statement: Statement) -> None:
        """Take a keyword or punctuation."""
        if text.isalpha():
            self.expect_word(text)
        elif text == "->" and self.at(":"):
            self.old_call_type(statement)
        elif not self.around_newlines(text):
            self.unexpected(f"'{text}'")

    def old_call_type(self, statement: Statement) -> None:
        """Read `: type`, the whole type of the callee, as calls ended before 2018, for its result type."""
        colon = self.next
        function = self.annotation()
        if not isinstance(function, FunctionType) or list(function.params) != [v.type for v in statement.operands]:
            raise self.error("expected the type of a function that takes these arguments", colon, SYNTAX)
        statement.attrs["result"] = function.result

    def attribute(self, item: Item) -> Any:
        """The value of an attribute."""
        match item.text:
            case "int":
                return self.count("a number")
            case "ints":
                return self.numbers()
            case "pairs":
                return self.pairs()
            case "keys":
                return self.keys()
            case "dtype":
                if not self.at_word(*ELEMENTS):
                    self.unexpected("a dtype", help=_nearest(self.next.text, DTYPES))
                return self.take().text
            case "type":
                return self.type()
            case "string":
                return unquote(self.expect("string", "a text in quotes").text)
            case "name" if self.at("string"):
                return unquote(self.take().text)
            case "word" if item.attr == "by" and self.at_word("builtin"):
                self.take()
                return Combiner(unquote(self.expect("string", "the name of a builtin in quotes").text))
            case "function":
                token = self.expect("global", "the name of a function")
                self.calls.append((str(name_of(token)), token))
                return self.calls[-1][0]
        return self.expect("word", "a name").text

    def keys(self) -> int | tuple[int | str, ...]:
        """key { "," key }; one number alone stands for itself."""
        found: list[int | str] = []
        while not found or self.around_newlines(","):
            found.append(self.take().text[1:] if self.at("key") else self.count("a number or a field such as #x"))
        return found[0] if len(found) == 1 and isinstance(found[0], int) else tuple(found)

    def numbers(self) -> tuple[int, ...]:
        """[ INT { "," INT } ]."""
        found: list[int] = []
        while self.at("int") or found:
            found.append(self.count("a number"))
            if not self.around_newlines(","):
                break
        return tuple(found)

    def pairs(self) -> tuple[tuple[int, ...], ...]:
        """ "(" INT "," INT ")" { "," "(" INT "," INT ")" }."""
        found: list[tuple[int, ...]] = []
        while not found or self.around_newlines(","):
            self.expect("(", "a pair of numbers in parentheses")
            first = self.count("a number")
            self.expect(",")
            found.append((first, self.count("a number")))
            self.expect(")")
        return tuple(found)

    def location(self) -> Loc:
        """location = "!loc" "(" STRING "," line "," col "," end_line "," end_col ")"."""
        if self.next.text != "!loc":
            self.unexpected("'!loc' or a new line")
        self.take()
        self.expect("(")
        file = unquote(self.expect("string", "the name of a file in quotes").text)
        numbers = []
        for what in ("the line", "the column", "the last line", "the last column"):
            self.expect(",")
            numbers.append(self.count(what))
        self.expect(")")
        return Loc(file, *numbers)

    # -- operands --------------------------------------------------------------------------------

    def use(self) -> Value:
        """use = ( LOCAL | literal ) ":" type."""
        if self.at("local") or self.at("global"):
            token = self.take()
            type = self.annotation()
            if token.kind == "global" and isinstance(type, FunctionType):
                self.named.append((token, type))
                return Literal(type, FunctionName(name_of(token)))
            return Reference(token, type)
        if not self.at_literal():
            alone = "a literal of elements is an instruction of its own: %y = literal <...>: <2 x f32>"
            is_literal = self.next.kind in ("<", "(", "[", "{", "case")
            help = alone if is_literal else _nearest(self.next.text, LITERAL_WORDS)  # noqa: A001
            self.unexpected("an operand: a value or a literal", help=help)
        return self.literal()

    def uses(self) -> list[Value]:
        """uses = "(" [ use { "," use } ] ")"."""
        self.expect("(", "'(' and operands")
        self.skip_newlines()
        found = []
        if not self.at(")"):
            found.append(self.use())
            while self.around_newlines(","):
                found.append(self.use())
        self.close(")", "',' or ')'")
        return found

    def listed(self, statement: Statement) -> list[Value]:
        """use { "," use }; the keys of an elementPointer may be bare numbers, as in the original, or #fields."""
        found: list[Value] = []
        path: list[str] = []
        is_path = statement.op.name == "elementPointer"
        while not (path or found) or self.around_newlines(","):
            if is_path and self.at("key"):
                path.append(self.take().text[1:])
                continue
            bare = is_path and self.at("int") and self.tokens[self.place + 1].kind != ":"
            found.append(self.number() if bare else self.use())
            path.append("")
        if is_path and any(path):
            statement.attrs["path"] = tuple(path)
        return found

    def extents(self) -> list[Value]:
        """shape = "scalar" | INT { "x" INT }: the original's spelling of static extents."""
        if self.at_word("scalar"):
            self.take()
            return []
        if not self.at("int"):
            self.unexpected("'(' and extents, or extents such as 2 x 3")
        found: list[Value] = [self.number()]
        while self.at_word("x"):
            self.take()
            found.append(self.number())
        return found

    def number(self) -> Literal:
        """A bare number as an i64 literal."""
        return Literal(scalar(I64), self.count("a number"))


def _is_row_of_numbers(s: Statement) -> bool:
    """Whether a literal gives all numbers of a tensor one by one."""
    t = s.attrs.get("type")
    if not isinstance(t, TensorType) or None in t.shape:
        return False
    numbers = math.prod(n or 0 for n in t.shape)
    return len(s.operands) == numbers and all(v.type == scalar(t.dtype) for v in s.operands)


def _nearest(word: str, words: Iterable[str]) -> str | None:
    near = get_close_matches(word[:40], list(words), 1)
    return f"did you mean {near[0]}?" if near else None
