"""The C header of a library: a declaration for each function, with its DLVM type and what must be freed."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dlvm_py.backend.aot.abi import Export, Parameter, identifier, pieces, result_is_static
from dlvm_py.ir import PointerType, TensorType

_ORDER = {"C": "C order", "F": "Fortran order", "S": "by its strides, in bytes"}

_HEAD = """/* {file}: made by dlc from {source}.
 *
 * Every function returns 0, or 1 after an error, and then nothing has been written to its results. A pointer for a
 * result may be NULL: the result is dropped. Arrays that are results of unknown extents are new memory, to be freed
 * by {prefix}_free. All functions may be called from several threads at once. docs/aot.md of dlvm-py says more.
 */
#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* The last error of this thread, as "ValueError: what is wrong (model.py:3:5)"; "" if there was none. Valid until the
 * next error of the thread. */
const char *{prefix}_last_error(void);

/* The kind of the last error of this thread, as "ValueError"; "" if there was none. */
const char *{prefix}_last_exception(void);

/* Free an array that is a result. NULL: nothing. */
void {prefix}_free(void *array);
"""

_TAIL = """
#ifdef __cplusplus
}}
#endif

#endif /* {guard} */
"""


def header_text(exports: Sequence[Export], prefix: str, file: str, source: str) -> str:
    """The header `file` of a library whose functions are `exports`."""
    names = {"file": file, "source": _plain(source), "prefix": prefix, "guard": identifier(f"{prefix}_H").upper()}
    return _HEAD.format(**names) + "".join(map(_function, exports)) + _TAIL.format(**names)


def _function(export: Export) -> str:
    given, results = pieces(export)
    leaves = [(k, p) for k, p in enumerate(export.parameters) if p.constant is None]
    parts = ("value", "data", "real", "imag")
    names = [", ".join(_name(p.declared) for p in given if p.leaf == k and p.role in parts) for k, _ in leaves]
    alone = sum(isinstance(p.type, PointerType) for _, p in leaves) == 1
    lines = [f"{name}: {_described(p, alone)}" for name, (_, p) in zip(names, leaves, strict=True)]
    outs = [piece for piece in results if piece.role == "out"]
    lines += [f"{_name(o.declared)}: {_result(t)}" for o, t in zip(outs, export.results, strict=True)]
    wrapped = [textwrap.fill(_plain(export.title), 112, subsequent_indent="    ")]
    wrapped += [textwrap.fill(line, 112, initial_indent="  ", subsequent_indent="    ") for line in lines]
    comment = "\n".join(wrapped).replace("\n", "\n * ")
    declared = _filled(f"int {export.name}(", [piece.declared for piece in (*given, *results)] or ["void"])
    return f"\n/* {comment}\n */\n{declared}\n"


def _filled(head: str, parameters: Sequence[str]) -> str:
    """A declaration in lines that end behind a parameter."""
    lines, indent = [head], " " * min(len(head), 24)
    for k, parameter in enumerate(parameters):
        word = parameter + (");" if k == len(parameters) - 1 else ",")
        if len(lines[-1]) + len(word) > 116 and lines[-1].strip():
            lines.append(indent + word)
        else:
            lines[-1] += ("" if lines[-1][-1] in "( " else " ") + word
    return "\n".join(lines)


def _name(declared: str) -> str:
    return declared.split("[")[0].split("*")[-1].split()[-1]


def _plain(text: str) -> str:
    """Text for a comment, which it must not end."""
    return text.replace("*/", "* /").replace("/*", "/ *")


def _described(p: Parameter, alone: bool) -> str:
    if not isinstance(p.type, PointerType):
        return p.shown() + _half(p.type)
    order = _ORDER[p.type.layout] if p.type.rank > 1 or p.type.layout == "S" else ""
    parts = [p.shown() + _half(p.type), order, "written" if p.written else ""]
    if p.unshared and not alone:
        parts.append("shares no memory with other arrays")
    return ", ".join(filter(None, parts))


def _half(t: TensorType | PointerType) -> str:
    if t.dtype.is_complex:
        return ", real and imaginary part"
    return {"f16": ", IEEE binary16 bits", "bf16": ", bfloat16 bits"}.get(t.dtype.name, "")


def _result(t: TensorType | PointerType) -> str:
    if isinstance(t, TensorType):
        return str(t) + _half(t)
    where = "C order" if result_is_static(t) else "C order, new memory"
    return f"{t.pointee}{_half(t)}, {where}"
