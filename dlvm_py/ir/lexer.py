"""Text of the IR → tokens. The lexical rules are in docs/ir.md.

Newlines are tokens, because they end instructions; `\\n` and `\\r` each give one. Blanks, tabs and `//` comments
separate tokens. Any text that is no sequence of tokens raises ParseError, whatever it holds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from dlvm_py.errors import Loc, ParseError

LEXICAL, SYNTAX, UNDEFINED_NAME, DUPLICATE, INDEX = "DL110", "DL111", "DL112", "DL113", "DL114"
REFERENCE_TYPE, OPERANDS, LITERAL, TOO_DEEP = "DL115", "DL116", "DL117", "DL118"

_NAME = r"[A-Za-z_][A-Za-z0-9_.]*"
# the last escape is a code point in hexadecimal, at most 10ffff
_ESCAPE = r'\\(?:["\\ntr]|u\{(?:10|0?[0-9a-fA-F])?[0-9a-fA-F]{1,4}\})'
_STRING = rf'"(?:[^"\\\n\r]|{_ESCAPE})*"'
_NUMBER = r"[0-9]{1,9}"  # positions; nine digits are more than any text can need
_TOKEN = re.compile(
    rf"""
      (?P<skip>    [ \t]+ | //[^\n\r]*)
    | (?P<newline> [\n\r])
    | (?P<local>   %(?: {_NUMBER}[.^]{_NUMBER} | {_NAME} | {_STRING} ))
    | (?P<global>  @(?: {_NUMBER} | {_NAME} | {_STRING} ))
    | (?P<block>   '(?: {_NUMBER} | {_NAME} | {_STRING} ))
    | (?P<attribute> !{_NAME})
    | (?P<nominal> \${_NAME})
    | (?P<key>     \#{_NAME})
    | (?P<case>    \?{_NAME})
    | (?P<float>   -?[0-9]+ (?: \.[0-9]+ (?:[eE][+-]?[0-9]+)? | [eE][+-]?[0-9]+ ) | -(?:inf|nan)\b )
    | (?P<int>     -?[0-9]+)
    | (?P<word>    {_NAME})
    | (?P<string>  {_STRING})
    | (?P<punctuation> -> | [()\[\]<>{{}}:=,*])
    """,
    re.VERBOSE,
)
_STRING_START = re.compile(rf'"(?:[^"\\\n\r]|{_ESCAPE})*')
# a token of these kinds ends only where none of these characters follows
_CONTINUES = re.compile(r"[A-Za-z0-9_.^]+")
_WORDLIKE = frozenset(("local", "global", "block", "attribute", "nominal", "key", "case", "float", "int", "word"))
_SAID = {
    "%": "a value name such as %x or %0.1",
    "@": "a function name such as @f",
    "'": "a block name such as 'b",
    "!": "an attribute such as !inline",
    "$": "the name of a type such as $Point",
    "#": "the name of a field such as #x",
    "?": "the name of a case such as ?leaf",
    "-": "a number or '->'",
}
_QUOTES = "a name with other characters than letters, digits, '_' and '.' stands in quotes"
_SHOWN = 40  # characters of a token in a message


class Token(NamedTuple):
    """A token: `kind` is a group of the pattern above, "end", or the punctuation itself."""

    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end of the text"
        if self.kind == "newline":
            return "the end of the line"
        return f"'{self.text}'" if len(self.text) <= _SHOWN else f"'{self.text[:_SHOWN]}...'"


class Source:
    """A text with its file name: places become lines and columns here."""

    def __init__(self, text: str | bytes, filename: str) -> None:
        self.filename = filename
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        self.text = raw.decode("utf-8", "replace")
        self._line_starts = [0, *(m.end() for m in re.finditer(r"\r\n|\n|\r", self.text))]
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            place = len(raw[: error.start].decode("utf-8"))
            raise self.error(f"byte {raw[error.start]:#04x} is not UTF-8", place, place + 1, LEXICAL) from None

    def error(self, reason: str, start: int, end: int, code: str, help: str | None = None) -> ParseError:  # noqa: A002
        """The error for text[start:end], with its line and a caret."""
        loc, text = self.place(start, end)
        return ParseError(reason, loc, help=help, code=code, source_line=text)

    def place(self, start: int, end: int) -> tuple[Loc, str]:
        """The location of text[start:end], and the line that it begins in."""
        line = bisect_right(self._line_starts, start)
        begin = self._line_starts[line - 1]
        stop = self._line_starts[line] if line < len(self._line_starts) else len(self.text)
        text = self.text[begin:stop].rstrip("\r\n")
        col = len(self.text[begin:start].encode())
        end_col = col + max(len(self.text[start : min(end, begin + len(text))].encode()), 1)
        return Loc(self.filename, line, col, line, end_col), text

    def tokens(self) -> list[Token]:
        """All tokens, "end" last; ParseError at the first thing that is none."""
        text, place, found = self.text, 0, []
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._no_token(place)
            kind, start, place = str(match.lastgroup), place, match.end()
            if kind in _WORDLIKE and (tail := _CONTINUES.match(text, place)):
                whole = Token(kind, text[start : tail.end()], start, tail.end())
                what = "number" if kind in ("int", "float") else "name"
                raise self.error(f"malformed {what} {whole}", start, whole.end, LEXICAL)
            if kind != "skip":
                found.append(Token(match[0] if kind == "punctuation" else kind, match[0], start, place))
        found.append(Token("end", "", len(text), len(text)))
        return found

    def _no_token(self, place: int) -> ParseError:
        character = self.text[place]
        string = self.text.find('"', place, place + 2)
        if character == '"' or string > place and character in "%@'":
            return self._bad_string(string)
        if character in _SAID:
            quotes = _QUOTES if character in "%@'" else None
            return self.error(f"expected {_SAID[character]}", place, place + 1, LEXICAL, quotes)
        return self.error(f"illegal character {character!r}", place, place + 1, LEXICAL)

    def _bad_string(self, start: int) -> ParseError:
        match = _STRING_START.match(self.text, start)
        assert match is not None
        at = match.end()
        if self.text[at : at + 1] == "\\":
            reason = f"unknown escape {self.text[at : at + 2]!r}"
            return self.error(reason, at, at + 2, LEXICAL, help=r"the escapes are \" \\ \n \t \r \u{hexadecimal}")
        return self.error("this string is not terminated", start, at, LEXICAL)
