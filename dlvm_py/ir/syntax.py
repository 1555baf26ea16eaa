"""How each op is written: one table that the printer writes from and the parser reads by.

A form is the mnemonic and then items, separated by blanks:

    %           one operand with its type            %?      one operand, or nothing
    %,          one or more operands, by commas      (%*)    operands in parentheses, perhaps none
    '           a target: block and its arguments    <=>     the type of the result
    <a:kind>    attribute `a`                        [w ...] only if the attribute is there (`[w]`: if it is true)
    other       a keyword or punctuation, as it stands      %&     a function value without its type

The kinds of attributes: int, ints, pairs, keys (numbers and #fields), cases (of an enum, with blocks), dtype, type
(`type?`: or nothing), word, name (a word or a string), string, function.
Operands stand in the text in their order. Several `(%*)` share what the single ones leave, in equal parts.
An op without an entry is written `name a, b`, with as many operands as its NumPy semantics take, and `checked`
if it has that attribute; so a new elementwise op needs nothing here.

Names that are no plain identifiers are quoted: `%"naïve"`, `@"outer.<locals>.f"`.
"""

from __future__ import annotations

import inspect
import re
from functools import cache

import numpy as np

from dlvm_py.frozen import Frozen
from dlvm_py.ir.op import Op
from dlvm_py.ir.ops import OPS

STAGES = ("raw", "optimizable", "compute", "scheduled")
ATTRIBUTES = ("freelayout", "inline", "noinline")
# attributes that name a function: derivatives of one's own (derivative_rules.py)
RULES = ("adjoint", "forward", "tangent")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")

FORMS: dict[str, str] = {
    # these share their mnemonics with what follows: the parser tells them apart by the combiner, or the callee
    "reduceBy": "reduce % by % init % along <axes:ints>",
    "scanBy": "scan % by % along <axes:ints>",
    "reduceWindowBy": "reduceWindow % by % init % dims <dims:ints> strides <strides:ints> padding <padding:word>",
    "applyValue": "apply %& (%*) -> <result:type>",
    "select": "select % , % by %",
    "dataTypeCast": "dataTypeCast % to <to:dtype>",
    "polygamma": "polygamma % order <order:int>",
    "transpose": "transpose % [axes <axes:ints>]",
    "padShape": "padShape % at <at:int>",
    "squeezeShape": "squeezeShape % at <at:int>",
    "shapeCast": "shapeCast % to (%*)",
    "section": "section % at (%*) count (%*) step (%*)",
    "embed": "embed % in % to (%*) at (%*) step (%*)",
    "slice": "slice % from <lo:int> upto <hi:int>",
    "reverse": "reverse % along <axes:ints>",
    "concatenate": "concatenate %, along <at:int>",
    "rank": "rank of %",
    "shape": "shape of %",
    "unitCount": "unitCount of %",
    "random": "random (%*) from % upto %",
    "randomCounter": "randomCounter %",
    "randomSeed": "randomSeed %",
    "draw": "draw <distribution:word> from % (%*)",
    "seedGenerator": "seedGenerator %",
    "windows": "windows % size (%*) count (%*) step (%*) spread (%*)",
    "overlapAdd": "overlapAdd % to (%*) step (%*) spread (%*)",
    "reduceWindow": "reduceWindow % by <by:word> init % dims <dims:ints> strides <strides:ints> padding <padding:word>",
    "convolve": "convolve % kernel % [strides <strides:ints>] [padding <padding:pairs>]"
    " [leftDilation <leftDilation:ints>] [rightDilation <rightDilation:ints>] [groups <groups:int>]",
    "scan": "scan % by <by:word> along <axes:ints>",
    "recurrence": "recurrence % , % along <axis:int>",
    "fourier": "fourier % along <axis:int> [inverse]",
    "factorizes": "factorizes % by <by:word>",
    "eigh": "eigh % to (%*) [upper]",
    "eigvalsh": "eigvalsh % to (%*) [upper]",
    "eig": "eig % to (%*)",
    "eigvals": "eigvals % to (%*)",
    "svd": "svd % to (%*) [full]",
    "svdvals": "svdvals % to (%*)",
    "qr": "qr % to (%*) mode <mode:word>",
    "lstsq": "lstsq % , % , % to (%*)",
    "gather": "gather % at (%*)",
    "scatterAdd": "scatterAdd % at (%*) to (%*)",
    "scatter": "scatter % to % at (%*) [by <by:word>]",
    "nonzero": "nonzero % count %",
    "sort": "sort % along <axis:int>",
    "argsort": "argsort % along <axis:int>",
    "searchSorted": "searchSorted % for % side <side:word>",
    "pointerCast": "pointerCast % to <to:type>",
    "diagonal": "diagonal % at % , % count %",
    "partView": "partView % at <at:int>",
    "extent": "extent % at <at:int>",
    "reduce": "reduce % by <by:word> init % along <axes:ints> [grain <grain:int>] [joined]",
    "broadcast": "broadcast % to (%*)",
    "unbroadcast": "unbroadcast % to (%*)",
    "allocateAggregate": "allocateHeap <type:type> count (%*)",
    "allocateCounted": "allocateHeap <type:type> count %",
    "allocateStack": "allocateStack <type:type> count <count:int>",
    "allocateBox": "allocateBox <type:type>",
    "projectBox": "projectBox %",
    "deallocate": "deallocate %",
    "copy": "copy from % to % count %",
    "trap": "trap",
    "bitCast": "bitCast % to <type:type>",
    "bits": "bits % to <to:dtype>",
    "makeCell": "makeCell <tag:int> (%*)",
    "cellTag": "cellTag %",
    "cellItem": "cellItem % at <at:int> of <held:type>",
    "leaf": "leaf <at:int> of %",
    "wholeEnum": "wholeEnum % : <type:type>",
    "allocateHeap": "allocateHeap <dtype:dtype> count (%*) [anyorder] [shadow]",
    "load": "load %",
    "store": "store % to % [jam <jam:int> along <along:int> from <least:int>]"
    " [tile <tile:int> along <along:int>] [shifts] [past <past:int>] [lines <lines:int>] [ahead <ahead:int>]"
    " [grain <grain:int>] [joined]",
    "elementPointer": "elementPointer % at %,",
    "keepCopy": "keepCopy %",
    "keepView": "keepView % in %",
    "retain": "retain %",
    "release": "release %",
    "createStack": "createStack <element:type?>",
    "push": "push % to %",
    "pop": "pop <=> from %",
    "drain": "drain %",
    "destroyStack": "destroyStack %",
    "tuple": "literal (%*) : <=>",
    "constant": "constant %",
    "aggregate": "aggregate (%*) : <type:type>",
    "enumCase": "enumCase <case:name> (%*) : <type:type>",
    "builtin": "builtin <intrinsic:string> (%*) -> <result:type>",
    "branchEnum": "branchEnum % <cases:cases>",
    "extract": "extract <at:keys> from %",
    "insert": "insert % to % at <at:keys>",
    "apply": "apply <callee:function> (%*) -> <result:type>",
    "check": "check % else <exception:name> <message:string> (%*) [assuming <assuming:string>] [as <flavours:word>]",
    "parallel": "parallel % cost % if % private (%*) [grain <grain:int>]",
    "replay": "replay % after <after:int> period <period:int>",
    "unsteady": "unsteady % most <most:int>",
    "print": "print <message:string> to <to:name> [flush] [above] (%*) [as <flavours:word>]",
    "branch": "branch '",
    "conditional": "conditional % then ' else ' [unordered] [likely] [bounded] [whole] [rest]",
    "return": "return %?",
    "raise": "raise <exception:name> <message:string> (%*) [as <flavours:word>]",
}
MNEMONICS = {form.split()[0]: name for name, form in FORMS.items()}
OLD_MNEMONICS = {"matrixMultiply": "dot"}  # read, never printed


class Combiner(str):
    """A combiner that is written `builtin "max"`: it means the op of its name."""

    __slots__ = ()


class Item(Frozen):
    """One item of a form: `kind` is keyword, attribute, group, result or one of `% %? %, (%*) '`.

    `text` is the keyword, or the kind of the attribute; `attr` the attribute (of a group: what decides).
    """

    kind: str
    text: str = ""
    attr: str = ""
    items: tuple[Item, ...] = ()


def form_text(op: Op) -> str:
    """The form of an op as text, mnemonic first."""
    return FORMS.get(op.name) or _default_form(op)


@cache
def form_items(op: Op) -> tuple[Item, ...]:
    """The items of an op's form, without the mnemonic."""
    return _items(form_text(op).split()[1:])


def op_of_mnemonic(word: str) -> Op | None:
    """The op that an instruction with this first word is, or None."""
    name = OLD_MNEMONICS.get(word) or MNEMONICS.get(word, word)
    op = OPS.get(name)
    return op if op is not None and (word in OLD_MNEMONICS or form_text(op).split()[0] == word) else None


def mnemonics() -> list[str]:
    """Every first word that an instruction can have."""
    return [*dict.fromkeys(form_text(op).split()[0] for op in OPS.values()), *OLD_MNEMONICS]


def _default_form(op: Op) -> str:
    operands = " , ".join("%" * _arity(op)) if op.evaluate is not None else "%,"
    return f"{op.name} {operands}" + (" [checked]" if "checked" in op.attrs else "")


def _arity(op: Op) -> int:
    assert op.evaluate is not None
    if isinstance(op.evaluate, np.ufunc):
        return op.evaluate.nin
    parameters = inspect.signature(op.evaluate).parameters.values()
    return sum(p.default is p.empty and p.name not in op.attrs for p in parameters)


def _items(words: list[str]) -> tuple[Item, ...]:
    items: list[Item] = []
    behind = 0  # the end of the last group
    for k, word in enumerate(words):
        if k < behind:
            continue
        if word.startswith("["):
            behind = next(n for n, w in enumerate(words) if n >= k and w.endswith("]")) + 1
            inner = _items(" ".join(words[k:behind]).strip("[]").split())
            attr = next((i.attr for i in inner if i.attr), inner[0].text)
            items.append(Item("group", inner[0].text, attr, inner))
        elif word in ("%", "%?", "%,", "%&", "(%*)", "'"):
            items.append(Item(word))
        elif word == "<=>":
            items.append(Item("result"))
        elif word.startswith("<"):
            attr, kind = word.strip("<>").split(":")
            items.append(Item("attribute", kind, attr))
        else:
            items.append(Item("keyword", word))
    return tuple(items)


# -- names and strings -------------------------------------------------------------------------------

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_UNESCAPES = {shown: raw for raw, shown in _ESCAPES.items()}


def quote(text: str) -> str:
    """`text` as a string token of one line: what cannot be printed becomes an escape such as `\\u{2028}`."""
    shown = (_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text)
    return '"' + "".join(shown) + '"'


def unquote(token: str) -> str:
    """The text of a well-formed string token."""

    def raw(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _UNESCAPES[match[0]]

    return re.sub(r"\\u\{([0-9a-fA-F]+)\}|\\.", raw, token[1:-1])


def spell(sigil: str, name: str) -> str:
    """A name behind its sigil, quoted unless it is a plain identifier (so never like `%0.1`)."""
    return sigil + (name if NAME.fullmatch(name) else quote(name))
