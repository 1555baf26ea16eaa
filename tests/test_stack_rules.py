"""The discipline of stacks: what the verifier finds on every path, and what it leaves alone."""

import pytest

from dlvm_py.errors import VerifierError
from dlvm_py.ir.parser import parse_module
from dlvm_py.ir.verifier import verify


def program(body):
    return parse_module(f'module "m"\nstage raw\n\nfunc @f: (f64, bool) -> () {{\n{body}}}\n')


S = "stack{f64}"
WRONG = {
    "pop from a stack that is empty here": f"""'entry(%x: f64, %c: bool):
    %s = createStack f64
    push %x: f64 to %s: {S}
    %a = pop f64 from %s: {S}
    %b = pop f64 from %s: {S}
    destroyStack %s: {S}
    return
""",
    "the stack holds 2 entries here": f"""'entry(%x: f64, %c: bool):
    %s = createStack f64
    push %x: f64 to %s: {S}
    conditional %c: bool then 'a() else 'b()
'a():
    push %x: f64 to %s: {S}
    branch 'end()
'b():
    push 1: f64 to %s: {S}
    branch 'end()
'end():
    destroyStack %s: {S}
    return
""",
    "the stack is destroyed already": f"""'entry(%x: f64, %c: bool):
    %s = createStack f64
    destroyStack %s: {S}
    push %x: f64 to %s: {S}
    return
""",
    "pop from a stack that is empty": f"""'entry(%x: f64, %c: bool):
    conditional %c: bool then 'round() else 'end()
'round():
    %s = createStack f64
    conditional %c: bool then 'a() else 'b()
'a():
    branch 'b()
'b():
    %y = pop f64 from %s: {S}
    destroyStack %s: {S}
    branch 'end()
'end():
    return
""",
}
RIGHT = {
    "never destroyed": f"""'entry(%x: f64, %c: bool):
    %s = createStack f64
    push %x: f64 to %s: {S}
    return
""",
    "a loop pushes, and nothing is known": f"""'entry(%x: f64, %c: bool):
    %s = createStack f64
    branch 'loop(0: i64)
'loop(%k: i64):
    push %x: f64 to %s: {S}
    %next = add %k: i64, 1: i64
    %more = lessThan %next: i64, 3: i64
    conditional %more: bool then 'loop(%next: i64) else 'back(%next: i64)
'back(%n: i64):
    %y = pop f64 from %s: {S}
    %left = subtract %n: i64, 1: i64
    %again = greaterThan %left: i64, 0: i64
    conditional %again: bool then 'back(%left: i64) else 'end()
'end():
    destroyStack %s: {S}
    return
""",
    "sides that differ": f"""'entry(%x: f64, %c: bool):
    %s = createStack f64
    conditional %c: bool then 'a() else 'b()
'a():
    push %x: f64 to %s: {S}
    branch 'b()
'b():
    conditional %c: bool then 'pop() else 'end()
'pop():
    %y = pop f64 from %s: {S}
    branch 'end()
'end():
    destroyStack %s: {S}
    return
""",
    "behind a condition that may never be": f"""'entry(%x: f64, %c: bool):
    %s = createStack f64
    conditional %c: bool then 'pop() else 'end()
'pop():
    %y = pop f64 from %s: {S}
    branch 'end()
'end():
    destroyStack %s: {S}
    return
""",
    "a stack for each round": f"""'entry(%x: f64, %c: bool):
    branch 'loop(0: i64)
'loop(%k: i64):
    %s = createStack f64
    push %x: f64 to %s: {S}
    %y = pop f64 from %s: {S}
    destroyStack %s: {S}
    %next = add %k: i64, 1: i64
    %more = lessThan %next: i64, 3: i64
    conditional %more: bool then 'loop(%next: i64) else 'end()
'end():
    return
""",
    "an end that raises": f"""'entry(%x: f64, %c: bool):
    %s = createStack f64
    conditional %c: bool then 'a() else 'b()
'a():
    raise ValueError "no" ()
'b():
    destroyStack %s: {S}
    return
""",
    "handed on": f"""'entry(%x: f64, %c: bool):
    %s = createStack f64
    branch 'end(%s: {S})
'end(%t: {S}):
    %y = pop f64 from %t: {S}
    return
""",
}


@pytest.mark.parametrize("said", WRONG)
def test_sure_breaches(said):
    """One error, at the instruction."""
    with pytest.raises(VerifierError) as caught:
        verify(program(WRONG[said]))
    assert len(caught.value.errors) == 1 and said in caught.value.errors[0]


@pytest.mark.parametrize("name", RIGHT)
def test_left_alone(name):
    """Nothing is said where it depends on the run, or where the stack is in other hands."""
    verify(program(RIGHT[name]))


def test_all_breaches_at_once():
    """Every error of a function is reported, each under its line."""
    twice = "    destroyStack %s: stack{f64}\n"
    text = WRONG["pop from a stack that is empty here"].replace(twice, 2 * twice)
    with pytest.raises(VerifierError) as caught:
        verify(program(text))
    assert len(caught.value.errors) == 2
    lines = str(caught.value).splitlines()
    at = next(k for k, line in enumerate(lines) if "%b = pop" in line)
    assert lines[at + 1].strip() == "^ error: pop from a stack that is empty here"
