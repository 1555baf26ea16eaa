"""The middle of the parser: declarations of a module that have no body. The grammar is in docs/ir.md.

Types, variables, and what stands in brackets before `func`. Nominal types are entered by name before anything is
read, so that they may be used in any order and refer to each other.
"""

from __future__ import annotations

from dlvm_py.ir.function import AdjointRequest, Declaration, Extern, Module
from dlvm_py.ir.lexer import DUPLICATE, SYNTAX, TOO_DEEP, UNDEFINED_NAME, Token
from dlvm_py.ir.parser_types import Reader, is_too_large
from dlvm_py.ir.types import VOID, Alias, EnumType, NominalType, PointerType, StructType, Type
from dlvm_py.ir.value import Variable

TYPE_WORDS = ("type", "struct", "enum")


class ModuleReader(Reader):
    """Reads types, variables and declaration kinds."""

    def __init__(self, text: str | bytes, filename: str) -> None:
        super().__init__(text, filename)
        self.variables: dict[str, Variable] = {}
        self.primals: list[tuple[str, Token]] = []

    # -- types -----------------------------------------------------------------------------------

    def enter_types(self) -> None:
        """Give every nominal type of the text its name."""
        tokens = self.tokens
        for k, token in enumerate(tokens[:-1]):
            name = tokens[k + 1]
            if token.kind != "word" or token.text not in TYPE_WORDS or name.kind != "nominal":
                continue
            key = name.text[1:]
            if key in self.types:
                raise self.error(f"the type {name} is defined twice", name, DUPLICATE)
            if token.text == "struct":
                self.types[key] = StructType(key)
            elif token.text == "enum":
                self.types[key] = EnumType(key)
            else:
                rest = [t for t in tokens[k + 2 : k + 40] if t.kind != "newline"][:2]
                opaque = len(rest) == 2 and (rest[1].kind, rest[1].text) == ("word", "opaque")
                self.types[key] = NominalType(key) if opaque else self._behind_equals(k + 2)

    def _behind_equals(self, place: int) -> int:
        while self.tokens[place].kind in ("newline", "="):
            place += 1
        return place

    def type_declaration(self, module: Module) -> None:
        """type TYPEID = type | struct TYPEID { fields } | enum TYPEID { cases }."""
        word = self.expect_word(*TYPE_WORDS)
        name = self.expect("nominal", "the name of a type such as $Point")
        key = name.text[1:]
        declared: NominalType | Alias
        if word == "type":
            if not self.around_newlines("="):
                self.unexpected("'='")
            if self.at_word("opaque"):
                self.take()
                declared = NominalType(key)
            else:
                target = self.type()
                self.types[key] = target
                declared = Alias(key, target)
        else:
            found = self.types[key]
            assert isinstance(found, NominalType)
            declared = found
            self._members(declared, name)
            if is_too_large(declared, with_fields=True):
                help = "a struct cannot hold itself; behind a pointer, in a box or in an enum it can"  # noqa: A001
                raise self.error(f"{name} holds too much, or itself", name, TOO_DEEP, help)
        module.types[key] = declared
        self.end_line()

    def _members(self, declared: NominalType, name: Token) -> None:
        """The lines, or older: the members between commas, in braces."""
        if not self.around_newlines("{"):
            self.unexpected("'{'")
        seen: set[str] = set()
        while not self.at("}"):
            kind, shown = (
                ("key", "field such as #x") if isinstance(declared, StructType) else ("case", "case such as ?leaf")
            )
            token = self.expect(kind, f"a {shown}, or '}}'")
            key = token.text[1:]
            if key in seen:
                raise self.error(f"{token} is defined twice in {name}", token, DUPLICATE)
            seen.add(key)
            if isinstance(declared, StructType):
                at = self.next
                t = self.annotation()
                if t == declared:
                    raise self.error(f"a struct cannot hold itself, {name}", at, SYNTAX)
                declared.fields[key] = t
            elif isinstance(declared, EnumType):
                declared.cases[key] = self._payload_types()
            if not self.around_newlines(",") and not self.at("}"):
                self.end_line("a new line")
        self.expect("}")

    def _payload_types(self) -> tuple[Type, ...]:
        self.expect("(", "'(' and the types that the case holds")
        self.skip_newlines()
        found: list[Type] = []
        if not self.at(")"):
            found.append(self.type())
            while self.around_newlines(","):
                found.append(self.type())
        self.close(")", "',' or ')'")
        return tuple(found)

    # -- variables -------------------------------------------------------------------------------

    def variable(self, module: Module) -> None:
        """variable = "var" GLOBAL ":" type."""
        self.expect_word("var")
        token = self.expect("global", "the name of a variable")
        name = self.global_name(token, len(module.variables))
        at = self.next
        stored = self.annotation()
        if stored == VOID:
            raise self.error("a variable of type void", at, SYNTAX)
        if name in module.variables:
            raise self.error(f"the variable {token} is defined twice", token, DUPLICATE)
        pointer = PointerType(stored)  # type: ignore[arg-type]
        module.variables[name] = self.variables[name] = Variable(pointer, name)
        self.end_line()

    def global_name(self, token: Token, place: int) -> str:
        """The name of a variable or function that is defined at a position."""
        raise NotImplementedError

    # -- declarations of functions ---------------------------------------------------------------

    def declaration(self) -> Declaration:
        """ "[" ( "extern" | ("adjoint" | "gradient") GLOBAL clauses ) "]" NL."""
        self.expect("[")
        word = self.expect_word("adjoint", "gradient", "extern")
        found: Declaration = Extern() if word == "extern" else self._request()
        self.expect("]", "']'" if word == "extern" else "'from', 'wrt', 'keeping', 'seedable' or ']'")
        self.end_line()
        return found

    def _request(self) -> AdjointRequest:
        token = self.expect("global", "the name of the function to differentiate")
        primal = self.global_name(token, -1)
        self.primals.append((primal, token))
        source: int | None = None
        wrt: tuple[int, ...] | None = None
        keeping: tuple[int, ...] = ()
        if self.at_word("from"):
            self.take()
            source = self.count("the number of an element of the result")
        if self.at_word("wrt"):
            self.take()
            wrt = self._numbers("the number of a parameter")
        if self.at_word("keeping"):
            self.take()
            keeping = self._numbers("the number of an element of the result")
        seedable = self.at_word("seedable")
        if seedable:
            self.take()
        return AdjointRequest(primal, source, wrt, keeping, seedable)

    def _numbers(self, what: str) -> tuple[int, ...]:
        found = [self.count(what)]
        while self.at(","):
            self.take()
            found.append(self.count(what))
        return tuple(found)

    def check_primals(self, module: Module) -> None:
        """Adjoints are of functions that exist, and so are the rules of functions."""
        for name, token in self.primals:
            if name not in module.functions:
                raise self.error(f"there is no function {token}", token, UNDEFINED_NAME)
