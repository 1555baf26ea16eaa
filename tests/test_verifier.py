"""The verifier: each rule has a program that breaks it, and is named in the message; sound programs pass."""

import numpy as np
import pytest
from irbuild import INDEX, new_function, pointer

from dlvm_py.errors import Loc, VerifierError
from dlvm_py.ir import (
    BOOL,
    F32,
    F64,
    I8,
    I64,
    NULL,
    OPS,
    U8,
    UNDEFINED,
    VOID,
    Block,
    Function,
    Instruction,
    Literal,
    StackType,
    Target,
    TensorType,
    TupleType,
    literal,
    scalar,
)
from dlvm_py.ir.verifier import verify

VECTOR, MATRIX = pointer(F64, None), pointer(F64, None, None)
DOUBLE = scalar(F64)


def sound():
    """A module with a loop, memory, a call, a tape and a check: it keeps every rule up to "optimizable"."""
    module, f, b, (p, n) = new_function(VECTOR, INDEX, result=TupleType((DOUBLE, VECTOR)))
    loop, body, end = (f.new_block(name) for name in ("loop", "body", "end"))
    k, s = loop.add_arg(INDEX, "k"), loop.add_arg(DOUBLE, "s")
    b.emit("check", b.emit("lessThan", n, literal(9)), n, exception="IndexError", message="{} is too many")
    tape = b.emit("createStack", element=DOUBLE)
    b.branch(loop, [literal(0), literal(0.0)])
    b.at_end(loop).conditional(b.emit("lessThan", k, n), body, None, end)
    x = b.at_end(body).emit("load", b.emit("elementPointer", p, k))
    b.emit("push", x, tape)
    y = b.emit("apply", x, callee="g", result=DOUBLE)
    b.branch(loop, [b.emit("add", k, literal(1), checked=True), b.emit("add", s, y)])
    b.at_end(end).emit("store", b.emit("multiply", b.emit("load", p), s), p)
    b.ret(b.emit("tuple", s, p))
    _, _, b, (x,) = new_function(DOUBLE, result=DOUBLE, name="g", module=module)
    b.ret(b.emit("sin", x))
    return module, f


def find(f, name):
    """The first instruction of an op."""
    return next(i for i in f.instructions() if i.op.name == name)


def rejected(subject, message, stage=None):
    """The error of `subject`, which must have one line with `message`."""
    with pytest.raises(VerifierError) as info:
        verify(subject, stage)
    assert any(message in line for line in info.value.errors), info.value.errors
    return info.value


def test_a_sound_program_passes():
    """No error where no rule is broken: a module, and a function alone."""
    module, f = sound()
    verify(module)
    verify(module, "optimizable")
    verify(f)


# -- what one edit breaks --------------------------------------------------------------------------------


def _break_type(f):
    find(f, "add").type = scalar(F32)


def _break_operand_type(f):
    find(f, "multiply").operands[1] = literal(True)


def _swap_operands(f):
    find(f, "store").operands.reverse()


def _drop_operand(f):
    find(f, "add").operands.pop()


def _add_operand(f):
    find(f, "load").operands.append(literal(1))


def _drop_terminator(f):
    f.blocks[-1].instructions.pop()


def _empty_block(f):
    f.blocks[-1].instructions.clear()


def _terminator_in_the_middle(f):
    jump = Instruction(OPS["branch"], [], targets=[Target(f.blocks[-1])])
    jump.block = f.entry
    f.entry.instructions.insert(0, jump)


def _branch_to_entry(f):
    f.blocks[2].terminator.targets[0] = Target(f.entry, [f.params[0], f.params[1]])


def _edge_count(f):
    f.entry.terminator.targets[0].args.pop()


def _edge_type(f):
    f.entry.terminator.targets[0].args.reverse()


def _foreign_target(f):
    f.blocks[1].terminator.targets[1] = Target(Block("foreign"))


def _third_target(f):
    f.entry.terminator.targets.append(Target(f.blocks[-1]))


def _return_nothing(f):
    find(f, "return").operands.clear()


def _return_other(f):
    find(f, "return").operands[0] = literal(1.0)


def _use_before(f):
    block = f.blocks[2]
    block.instructions[0], block.instructions[1] = block.instructions[1], block.instructions[0]


def _use_of_another_branch(f):
    find(f, "return").operands[0] = Literal(TupleType((DOUBLE, VECTOR)), UNDEFINED)
    find(f, "multiply").operands[1] = find(f, "apply")


def _foreign_value(f):
    find(f, "multiply").operands[1] = new_function(DOUBLE)[3][0]


def _removed_value(f):
    f.blocks[2].instructions.remove(find(f, "elementPointer"))


def _void_operand(f):
    find(f, "multiply").operands[1] = find(f, "push")


def _void_operand_of_the_same_block(f):
    find(f, "apply").operands[0] = find(f, "push")


def _twice(f):
    f.blocks[-1].instructions.insert(0, find(f, "check"))


def _block_twice(f):
    f.blocks.append(f.blocks[-1])


def _parent(f):
    find(f, "multiply").block = f.entry


def _argument_parent(f):
    f.blocks[1].args[0].block = f.entry


def _argument_twice(f):
    f.blocks[1].args.append(f.blocks[1].args[0])


def _void_argument(f):
    f.blocks[1].args[0].type = VOID


def _callee(f):
    find(f, "apply").attrs["callee"] = "nobody"


def _call_type(f):
    find(f, "apply").operands.append(literal(1.0))


def _missing_attr(f):
    del find(f, "apply").attrs["callee"]


def _unknown_attr(f):
    find(f, "apply").attrs["colour"] = "red"


def _checked_float(f):
    next(i for i in f.instructions() if i.op.name == "add" and i.type == DOUBLE).attrs["checked"] = True


def _exception(f):
    find(f, "check").attrs["exception"] = "KeyboardInterrupt"


def _message_count(f):
    find(f, "check").attrs["message"] = "no operand is shown"


def _message_field(f):
    find(f, "check").attrs["message"] = "{0.real}"


def _message_format(f):
    find(f, "check").attrs["message"] = "{"


def _message_operand(f):
    find(f, "check").operands[1] = find(f, "createStack")


def _message_flavour(f):
    find(f, "check").attrs["flavours"] = "a"


def _push_type(f):
    find(f, "push").operands[0] = literal(1)


def _stack_of_nothing(f):
    find(f, "createStack").attrs["element"] = VOID


def _release(f):
    release = Instruction(OPS["release"], [f.params[0]])
    release.block = f.entry
    f.entry.instructions.insert(0, release)


def _renamed(f):
    f.name = "other"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_break_type, "the type is i64, not f32"),
        (_break_operand_type, "no type: dtypes differ: f64 and bool"),
        (_swap_operands, "no type: destination must be a pointer"),
        (_drop_operand, "add takes 2 operands, not 1"),
        (_add_operand, "load takes 1 operands, not 2"),
        (_drop_terminator, "does not end in a terminator"),
        (_empty_block, "does not end in a terminator"),
        (_terminator_in_the_middle, "a terminator in the middle of a block"),
        (_edge_count, "'loop takes (i64, f64) and is passed (i64)"),
        (_edge_type, "'loop takes (i64, f64) and is passed (f64, i64)"),
        (_foreign_target, "the target 'foreign is no block of this function"),
        (_third_target, "branch: 2 targets"),
        (_return_nothing, "() is returned where the function gives (f64, *<_ x f64>)"),
        (_return_other, "(f64) is returned where the function gives (f64, *<_ x f64>)"),
        (_use_before, "does not dominate this use"),
        (_use_of_another_branch, "<apply f64> does not dominate this use"),
        (_foreign_value, "is no value of this function"),
        (_removed_value, "is no value of this function"),
        (_void_operand, "has no value"),
        (_void_operand_of_the_same_block, "has no value"),
        (_twice, "the instruction occurs twice"),
        (_block_twice, "the block occurs twice"),
        (_parent, "the instruction stands in 'end and says 'entry"),
        (_argument_parent, "belongs to block 'entry"),
        (_argument_twice, "occurs twice"),
        (_void_argument, "is void"),
        (_callee, "there is no function @nobody"),
        (_call_type, "@g is (f64) -> f64 and is called as (f64, f64) -> f64"),
        (_missing_attr, "the attribute callee is missing"),
        (_unknown_attr, "apply has no attribute colour"),
        (_checked_float, "only i64 arithmetic can be checked"),
        (_exception, "KeyboardInterrupt is no exception of Python or NumPy"),
        (_message_count, "does not show 1 operands"),
        (_message_field, "does not show 1 operands"),
        (_message_format, "is no format"),
        (_message_operand, "a text shows numbers and arrays in memory, not stack{f64}"),
        (_message_flavour, "i64 cannot be shown as 'a'"),
        (_push_type, "no type: i64 pushed to a stack{f64}"),
        (_stack_of_nothing, "a stack of ()"),
        (_release, "retain and release belong to the stage scheduled"),
        (_renamed, "filed under the name @f"),
    ],
)
def test_one_edit_breaks_one_rule(edit, message):
    """Each edit of the sound program is reported with a message of its own."""
    module, f = sound()
    edit(f)
    rejected(module, message)


def test_a_branch_to_the_entry_is_for_the_early_stages():
    """DLVM's programs may have one; lowered code has not."""
    module, f = sound()
    _branch_to_entry(f)
    rejected(f, "the entry block has a predecessor", stage="compute")


def test_a_function_without_blocks():
    """A function has an entry block."""
    rejected(Function("f", VOID), "it has no blocks")


def test_an_unknown_stage():
    """The stage is one of four."""
    rejected(sound()[1], "there is no stage 'late'", "late")


def test_unreachable_code_is_spared_dominance():
    """In a block that cannot be reached, an operand need not dominate its use, but must be of the function."""
    _, f, b, (x,) = new_function(DOUBLE, result=DOUBLE)
    b.ret(x)
    dead = f.new_block()
    late = b.at_end(dead).emit("sin", x)
    early = b.before(late).emit("cos", late)
    b.at_end(dead).ret(early)
    verify(f)
    late.operands[0] = new_function(DOUBLE)[3][0]
    rejected(f, "is no value of this function")


@pytest.mark.parametrize(
    ("payload", "type", "message"),
    [
        (True, INDEX, "the literal True is no i64"),
        (1, DOUBLE, "the literal 1 is no f64"),
        (np.float64(1), DOUBLE, "is no f64"),
        (1.0, scalar(BOOL), "the literal 1.0 is no bool"),
        (128, scalar(I8), "the literal 128 does not fit i8"),
        (-1, scalar(U8), "the literal -1 does not fit u8"),
        (1.0, TensorType((2,), F64), "a literal of type <2 x f64>"),
        (NULL, DOUBLE, "null is no f64"),
        (UNDEFINED, VOID, "an undefined void literal"),
    ],
)
def test_literals_fit_their_types(payload, type, message):
    """A literal is a Python scalar of the class and the range of its dtype, or null of a pointer, or undefined."""
    _, f, b, _ = new_function(result=type)
    b.ret(Literal(type, payload))
    rejected(f, message)


@pytest.mark.parametrize(
    ("payload", "type"),
    [(255, scalar(U8)), (float("nan"), DOUBLE), (NULL, VECTOR), (UNDEFINED, VECTOR), (UNDEFINED, DOUBLE)],
)
def test_sound_literals(payload, type):
    """Literals at the edge of their dtype, null and undefined are accepted."""
    _, f, b, _ = new_function(result=type)
    b.ret(Literal(type, payload))
    verify(f)


# -- the message ---------------------------------------------------------------------------------------


def test_all_errors_are_shown_in_place():
    """Every error is reported at once, in the function's text, below the guilty instruction."""
    module, f = sound()
    find(f, "add").type = scalar(F32)
    find(f, "check").attrs["exception"] = "Nothing"
    find(f, "check").loc = Loc("user.py", 7, 4)
    error = rejected(module, "check user.py:7:5: Nothing is no exception of Python or NumPy")
    lines = str(error).splitlines()
    assert lines[0] == f"@f breaks {len(error.errors)} rules of the IR"
    for word in ("check", "checked"):
        at = next(k for k, line in enumerate(lines) if word in line)
        assert "^ error:" in lines[at + 1]


# -- the tree rules ------------------------------------------------------------------------------------


def compute(*params, result=VOID):
    """A function for the stage compute."""
    _, f, b, values = new_function(*params, result=result)
    return f, b, values


def test_trees_pass():
    """Elementwise trees with broadcasts, reductions and products under stores, scalar reductions, in-place updates."""
    f, b, (p, q, a, n) = compute(VECTOR, VECTOR, MATRIX, INDEX)
    x, y = b.emit("load", p), b.emit("load", q)
    s = b.emit("reduce", b.emit("multiply", x, y), literal(0.0), by="add", axes=(0,))
    b.emit("store", b.emit("add", b.emit("multiply", x, s), y), p)  # p is read and written at one place
    m = b.emit("transpose", b.emit("load", a))
    total = b.emit("reduce", b.emit("broadcast", m, n, n), literal(0.0), by="add", axes=(0,))
    b.emit("store", total, q)
    b.emit("store", b.emit("dot", b.emit("load", a), b.emit("load", p)), q)
    b.emit("store", b.emit("shapeCast", b.emit("load", a), n), p)
    b.emit("dot", b.emit("load", p), b.emit("load", q))
    b.emit("store", b.emit("dataTypeCast", b.emit("iota", n), to="f64"), p)
    b.ret()
    verify(f, "compute")


def test_array_values_stay_in_their_block():
    """An array value is used in the block that makes it, and is no block argument or parameter."""
    f, b, (p,) = compute(VECTOR)
    x = b.emit("load", p)
    end = f.new_block()
    b.branch(end)
    b.at_end(end).emit("store", x, p)
    b.ret()
    rejected(f, "an array value of another block is used", "compute")
    f, b, (x,) = compute(TensorType((None,), F64))
    b.ret()
    rejected(f, "array values do not cross blocks", "compute")


@pytest.mark.parametrize("how", ["push", "tuple", "apply", "return", "extent"])
def test_array_values_have_no_other_users(how):
    """Push, tuple, apply, return and extent take scalars and pointers only."""
    vector = TensorType((None,), F64)
    f, b, (p,) = compute(VECTOR, result=vector if how == "return" else VOID)
    x = b.emit("load", p)
    if how == "push":
        b.emit("push", x, b.emit("createStack", element=vector))
    elif how == "tuple":
        b.emit("tuple", x)
    elif how == "apply":
        b.emit("apply", x, callee="g", result=VOID)
    elif how == "extent":
        b.emit("extent", x, at=0)
    b.ret(*([x] if how == "return" else []))
    rejected(f, f"an array value is an operand of {how}", "compute")


@pytest.mark.parametrize("name", ["reduce", "dot", "shapeCast", "unbroadcast"])
def test_some_ops_stand_only_under_a_store(name):
    """An array result of reduce, dot, shapeCast or unbroadcast goes straight to a store."""
    f, b, (p, a, n) = compute(VECTOR, MATRIX, INDEX)
    x = b.emit("load", a)
    made = {
        "reduce": lambda: b.emit("reduce", x, literal(0.0), by="add", axes=(0,)),
        "dot": lambda: b.emit("dot", x, b.emit("load", p)),
        "shapeCast": lambda: b.emit("shapeCast", x, n),
        "unbroadcast": lambda: b.emit("unbroadcast", b.emit("load", p), n),
    }[name]()
    b.emit("store", b.emit("sin", made), b.emit("allocateHeap", n, dtype="f64"))
    b.ret()
    rejected(f, f"{name} stands only directly under a store", "compute")


def test_operands_of_dot_are_loads():
    """A product reads its operands from memory."""
    f, b, (p,) = compute(VECTOR)
    x = b.emit("load", p)
    b.emit("dot", b.emit("sin", x), x)
    b.ret()
    rejected(f, "an operand of dot is not a load", "compute")


def test_arrays_come_from_trees():
    """A pop or a call gives pointers in this stage, not array values."""
    vector = TensorType((None,), F64)
    f, b, (stack,) = compute(StackType(vector))
    b.emit("pop", stack)
    b.ret()
    rejected(f, "pop does not give array values", "compute")
    f, b, _ = compute()
    b.emit("apply", callee="g", result=TupleType((vector, DOUBLE)))
    b.ret()
    rejected(f, "holds an array value", "compute")


@pytest.mark.parametrize("write", ["store", "apply"])
def test_nothing_between_load_and_root_writes(write):
    """A store or call between a load and its root that may write what was loaded breaks the tree."""
    for overlap in (False, True):
        f, b, (p, q, r) = compute(VECTOR, VECTOR, VECTOR)
        x = b.emit("load", p)
        touched = p if overlap else q
        if write == "store":
            b.emit("store", b.emit("load", r), touched)
        else:
            b.emit("apply", touched, callee="g", result=VOID)
        b.emit("store", x, r)
        b.ret()
        if overlap:
            rejected(f, f"{write} in between may write what the tree loads", "compute")
        else:
            verify(f, "compute")


def test_a_destination_overlaps_only_in_place():
    """What the tree loads of the destination's memory is the very element that is written."""
    f, b, (p, n) = compute(VECTOR, INDEX)
    shifted = b.emit("section", p, literal(1), n, literal(1))
    first = b.emit("section", p, literal(0), n, literal(1))
    b.emit("store", b.emit("sin", b.emit("load", shifted)), first)
    b.ret()
    rejected(f, "the destination may overlap what the tree loads", "compute")
    f, b, (a,) = compute(pointer(F64, 3, 3))
    b.emit("store", b.emit("transpose", b.emit("load", a)), a)
    b.ret()
    rejected(f, "the destination may overlap what the tree loads", "compute")


def test_shared_subtrees_are_walked_once():
    """A tree in which every level uses the one below twice has 2^60 paths and is checked at once."""
    f, b, (p, q) = compute(VECTOR, VECTOR)
    x = b.emit("load", p)
    for _ in range(60):
        x = b.emit("add", x, x)
    b.emit("store", x, q)
    b.ret()
    verify(f, "compute")


def test_retain_and_release_are_scheduled():
    """The stage scheduled has retain and release, and keeps the tree rules."""
    f, b, (p, n) = compute(VECTOR, INDEX)
    fresh = b.emit("allocateHeap", n, dtype="f64")
    b.emit("store", b.emit("load", p), fresh)
    b.emit("release", fresh)
    b.ret()
    verify(f, "scheduled")
    rejected(f, "retain and release belong to the stage scheduled", "compute")


def test_the_i64_dtype_of_indices():
    """Indices and extents are i64, whatever other integer dtypes there are."""
    _, f, b, (p, k) = new_function(VECTOR, scalar(I8))
    made = b.emit("elementPointer", p, literal(0))
    made.operands[1] = k
    b.ret()
    rejected(f, f"an index or extent must be {I64}, not i8")
