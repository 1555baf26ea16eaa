"""Writes docs/language.md from the table of the front end: python docs/build_language.py"""

from __future__ import annotations

from pathlib import Path

from dlvm_py.frontend.language import CONSTRUCTS

HEAD = """# The language

What compiled functions may be written in, made from `dlvm_py/frontend/language.py` by `docs/build_language.py`. Each
supported row has programs in `tests/language_programs.py` that are compared with plain Python: values, classes,
effects, exceptions and their messages; and, where floats flow, gradients with differences.

"""

RULES = """
## Where types meet

Names may change their type along straight-line code. Where branches or iterations meet, numbers join by promotion,
arrays of one dtype and rank forget what differs, tuples and records join item by item. What has no common type (None
and a number, an int and an array, two lists) stays what it is on each path, and what reads it is translated for each
kind; a gradient is that of the path taken, and a TypeError where None is returned. With more than four kinds, or where
they cannot be kept apart (texts that are made when it runs, iterators), it is an error where it is read, with both
places.

A number whose type depends on the path (`s = 0`, then `s += x[i]` in a loop that may not run) is computed as one of
the joined type, a float here, and is what Python has where that shows: in what is returned, printed and raised, and
in what operators and functions of numbers do with it outside of loops (`s / n`, `s // 2`, `isinstance`, `max(s, 1)`).
The joined type stands for all of them inside of loops, beside arrays, in lists whose length is computed, in texts that
get a name, in methods, in results of derivatives and of libraries, and where an iteration may have left a number as it
was before the loop (`if v > m: m = v` gives the int `m = 0` back where no iteration has been, and a float elsewhere).

## Exceptions

`try` catches what Python's and NumPy's own checks raise, and `raise` and `assert`, in the body and in all that it
calls: control goes to the handler, nothing is unwound, and a gradient follows it like any branch. Functions that the
body calls are compiled in place. `print(e)`, `f"{e}"`, `repr(e)`, `raise` and `raise e` know the text, `type(e)` and
`isinstance` the class; nothing else of `e` can be used, and `raise X from e` keeps no cause. Not caught is what Python
does not have: an int of more than 64 bits (OverflowError), and what is no error of the program: memory that is used up,
an interrupt. They pass by all handlers, and by `finally`.

## Lists, dicts and instances

A list, a dict with constant string keys or an instance of a dataclass is its contents and an identity: `b = a` is
another name for it, and changes through one are seen through the other, also in functions that it is handed to. Its
structure (length, keys, fields) is known when compiling and costs nothing at run time.

A list whose length is not known then, because a loop appends to it, holds items of one type: numbers, arrays of one
shape, or tuples and named tuples of these. They stand in memory that doubles when it is full. Arrays in it are copies,
where Python has references; what would tell the difference is refused: writing into an array that was read from such
a list, and writing into an array after it was appended (append `a.copy()`). `np.array(items)` gives the array.

Lists in such a list are shared by reference, as in Python: `b = rows[i]` is the very list, and `[[0] * n] * m` is one
list m times. All lists at one place have items of one type (an int becomes a float where floats come in). A list of
lists whose length is known becomes such a list where it is read or written at a computed index; one of outside is read
so, but not changed: change a copy, `[row[:] for row in rows]`. A loop over one of these lists may
not make lists beside it longer or shorter: loop over a copy.

A dict whose keys are numbers, or tuples of numbers, is a table: keys and values have one type each, and stand in two
lists of computed length in the order in which they came. What holds for the items of such a list holds for its values.
A function that calls itself may change such lists, dicts and sets, and give new ones: they cross its calls.

Two objects that meet in one name (`d = {...}` on both sides of an `if`) become one, if no other name stands for either.

## At the call

Arguments may be numbers, arrays, strings, None, functions, and tuples, lists, dicts with string keys, named tuples and
dataclass instances of these. A version of the compiled function is for one structure (classes, lengths, keys in
order, fields); the entry takes it apart in native code. Gradients come back in the structure of the argument, with
None for what carries no derivative. A list of more than 256 of Python's numbers of one type is made an array at the
call, and a list again at its end: one version is for all lengths.

A list, dict or instance of the caller that the function changes is changed when the call ends, also where it ends with
an exception: the very object then holds what Python would have put there; what the function left alone in it stays the
very object too. Returned, it is that object (one that is not changed comes back as an equal one). A derivative changes
nothing for the caller; `from_="xs"` differentiates what `xs` holds at the end. Refused are: an int that would become a
float because a loop or one of two paths brings floats, recursion after a change, one list given in two places (DL710).
When memory is used up, an int has more than 64 bits, or the user interrupts, the lists are left as they were at the
call.

Lists, dicts, named tuples and instances that a function finds in globals or closures are constants: each call
compares them. Arrays in captured dicts and instances are read at each call.
"""


def cell(text: str) -> str:
    """A text in a table: code lines joined by a mark, bars escaped."""
    return text.replace("|", "\\|")


def build() -> str:
    """The text of docs/language.md."""
    lines = [HEAD, "| supported | for example | |", "|---|---|---|"]
    for c in CONSTRUCTS:
        if c.is_supported:
            lines.append(f"| {c.name} | {_code(c.example)} | {cell(c.note)} |")
    lines += ["", "| refused (DL100) | for example | instead |", "|---|---|---|"]
    lines += [f"| {c.name} | {_code(c.example)} | {cell(c.note)} |" for c in CONSTRUCTS if not c.is_supported]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n" + RULES


def _code(example: str) -> str:
    return " ⏎ ".join(f"`{cell(line.strip())}`" for line in example.splitlines())


if __name__ == "__main__":
    (Path(__file__).parent / "language.md").write_text(build(), encoding="utf-8")
