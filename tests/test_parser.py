"""The text of the IR, read and written.

Laws: print(parse(print(m))) == print(m), and the parsed module verifies and runs as the printed one; what is
no module raises ParseError, which names the file, the line, the column, and what was expected.
"""

import random
import re
import struct
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from array_programs import Generator, outcome
from irbuild import new_function, pointer
from random_ir import observe, random_program

from dlvm_py.errors import CompileError, Loc, ParseError
from dlvm_py.ir import (
    BOOL,
    C64,
    C128,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I64,
    NULL,
    OPS,
    U64,
    UNDEFINED,
    VOID,
    ArrayType,
    Builder,
    EnumType,
    Extern,
    Function,
    FunctionName,
    FunctionType,
    Kind,
    Literal,
    Module,
    PointerType,
    StackType,
    StructType,
    TensorType,
    TupleType,
    literal,
    print_function,
    print_module,
    scalar,
)
from dlvm_py.ir.interpreter import run
from dlvm_py.ir.parser import parse_function, parse_module
from dlvm_py.ir.syntax import FORMS, form_text, mnemonics, op_of_mnemonic, quote, unquote
from dlvm_py.ir.value import OpName
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import bufferize, ownership
from dlvm_py.transforms.pass_manager import PASSES

HEAD = 'module "m"\nstage raw\n\n'
DOCS = Path(__file__).resolve().parent.parent / "docs" / "ir.md"
CLEAN_UPS = ("simplify_cfg", "constant_fold", "cse", "dce", "licm", "value_promotion", "redundant_load")


def again(module, **options):
    """The module after a round trip, whose law is checked on the way."""
    text = print_module(module, **options)
    parsed = parse_module(text, "again.dl")
    assert print_module(parsed, **options) == text
    verify(parsed)
    return parsed


def body(text, params="%x: f64, %k: i64, %c: bool", result="()"):
    """A module with one function of these instructions."""
    types = ", ".join(p.split(": ", 1)[1] for p in re.split(r", (?=%)", params)) if params else ""
    return f"{HEAD}func @f: ({types}) -> {result} {{\n'entry({params}):\n{text}\n}}\n"


def failure(text, filename="test.dl"):
    """The ParseError that a text raises."""
    with pytest.raises(ParseError) as caught:
        parse_module(text, filename)
    return caught.value


def returning(value):
    """A function that returns a literal."""
    module, _, b, _ = new_function(result=value.type)
    b.ret(value)
    return module


# -- the round trip -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", range(0, 40, 10))
def test_random_programs_raw(base):
    """Random programs of stage raw keep their text and what they do."""
    for seed in range(base, base + 10):
        program = random_program(seed)
        parsed = again(program.module)
        assert observe(program.module, "main", program.arguments()) == observe(parsed, "main", program.arguments())


@pytest.mark.parametrize("base", range(0, 20, 10))
def test_random_programs_optimizable(base):
    """So do they after each of the clean-up passes."""
    for seed in range(base, base + 10):
        program = random_program(seed)
        program.module.stage = "optimizable"
        PASSES["inline"].run(program.module, "main")
        for name in CLEAN_UPS:
            PASSES[name].run(program.module.functions["main"])
            parsed = again(program.module)
        assert observe(program.module, "main", program.arguments()) == observe(parsed, "main", program.arguments())


@pytest.mark.parametrize("base", range(0, 40, 10))
def test_random_programs_compute_and_scheduled(base):
    """Random programs with array values everywhere keep text and results at the later stages."""
    for seed in range(base, base + 10):
        module = Generator(seed).module
        again(module)
        for stage, lower in (("compute", bufferize.run), ("scheduled", ownership.run)):
            for f in module.functions.values():
                lower(f, **({"noalias_params": f.name == "f"} if stage == "compute" else {}))
            module.stage = stage
            parsed = again(module)
            # each program is checked against itself: the passes have tests of their own
            options = {"trees_at_root": True, "check_ownership": stage == "scheduled"}
            for x, y in zip(outcome(module, seed, **options), outcome(parsed, seed, **options), strict=True):
                np.testing.assert_array_equal(x, y)


def test_every_op():
    """Each op that the table of forms knows is read back with operands, attributes and type."""
    module, f, b, (v, m, x, k, c) = new_function(
        pointer(F64, None), pointer(F64, 2, 3), scalar(F64), scalar(I64), scalar(BOOL), result=scalar(F64)
    )
    two, three, one, zero = (literal(n) for n in (2, 3, 1, 0))
    b.emit("check", c, k, x, c, exception="ValueError", message='{} {} {}\n"quoted" \\ done')
    b.emit("print", c, k, message="{} {!r}\n", to="stdout", flush=True, flavours="pn")
    b.emit("parallel", k, x, c, v, m)
    b.emit("replay", k, after=1, period=2)
    b.emit("unsteady", k, most=4)
    vector, matrix = b.emit("load", v), b.emit("load", m)
    b.emit("keepCopy", v)
    b.emit("keepView", v, v)
    b.emit("select", vector, x, c)
    b.emit("dataTypeCast", vector, to="f32")
    b.emit("transpose", m)
    b.emit("transpose", matrix, axes=(1, 0))
    padded = b.emit("padShape", v, at=1)
    b.emit("squeezeShape", padded, at=1)
    b.emit("shapeCast", m, three, two)
    b.emit("shapeCast", matrix, literal(6))
    b.emit("section", m, zero, one, two, literal(-1), one, two)
    b.emit("pointerCast", m, to=pointer(F64, None, 3, layout="S"))
    n = b.emit("extent", v, at=0)
    b.emit("iota", n)
    part = b.emit("section", vector, zero, two, literal(-1))
    b.emit("embed", part, literal(0.0), n, one, two)
    b.emit("slice", matrix, lo=0, hi=1)
    b.emit("reverse", matrix, axes=(0, 1))
    b.emit("concatenate", vector, vector, part, at=0)
    b.emit("concatenate", matrix, at=1)
    for name in ("rank", "shape", "unitCount"):
        b.emit(name, matrix)
    b.emit("random", literal(0.0), literal(1.0))
    b.emit("random", two, n, one, k)
    b.emit("polygamma", x, order=3)
    b.emit("randomSeed", b.emit("randomCounter", n))
    b.emit("draw", b.emit("seedGenerator", n), x, distribution="standard_gamma")
    b.emit("overlapAdd", b.emit("windows", vector, two, n, one, one), n, one, one)
    b.emit("reduceWindow", matrix, x, by="add", dims=(1, 2), strides=(1, 1), padding="half")
    images = b.emit("shapeCast", matrix, one, two, three)
    kernel = b.emit("shapeCast", matrix, two, one, three)
    b.emit("convolve", images, b.emit("shapeCast", matrix, one, two, three))
    b.emit("convolve", images, kernel, strides=(2,), padding=((1, 2),), leftDilation=(2,), rightDilation=(1,), groups=2)
    b.emit("convolve", images, kernel, padding=((1, 2),), groups=2)
    places = b.emit("iota", n)
    b.emit("scatterAdd", b.emit("gather", matrix, b.emit("iota", two), one), b.emit("iota", two), n)
    b.emit("gather", vector, places)
    b.emit("scatter", vector, v, places)
    b.emit("scatter", vector, v, places, by="max")
    b.emit("nonzero", b.emit("isNan", matrix), n)
    b.emit("searchSorted", b.emit("sort", vector, axis=0), matrix, side="right")
    b.emit("argsort", matrix, axis=1)
    square = b.emit("dot", matrix, b.emit("transpose", matrix))
    b.emit("solve", b.emit("cholesky", square), matrix)
    b.emit("choleskyAdjoint", square, square)
    b.emit("determinant", square)
    b.emit("factorizes", square, by="cholesky")
    b.emit("eigvalsh", square, b.emit("add", n, zero), upper=True)
    b.emit("eigh", square, three, two)
    turned = b.emit("dataTypeCast", square, to="c128")
    b.emit("eig", turned, three, two)
    b.emit("eigvals", turned, two)
    b.emit("svd", matrix, literal(6), two)
    b.emit("svd", matrix, literal(6), three, full=True)
    b.emit("svdvals", matrix, two)
    b.emit("pinv", matrix, x)
    b.emit("qr", matrix, literal(5), two, mode="reduced")
    b.emit("lstsq", square, matrix, x, literal(12))
    b.emit("scan", matrix, by="max", axes=(1,))
    b.emit("recurrence", matrix, matrix, axis=1)
    b.emit("reduce", matrix, literal(0.0), by="add", axes=(0, 1))
    b.emit("reduce", matrix, literal(0.0), by="max", axes=())
    b.emit("unbroadcast", b.emit("broadcast", vector, n), n)
    b.emit("broadcast", x)
    b.emit("dot", matrix, b.emit("transpose", matrix))
    b.emit("allocateHeap", two, n, dtype="f32")
    complex_memory = b.emit("allocateHeap", dtype="c128")
    z = b.emit("load", complex_memory)
    waves = b.emit("broadcast", z, two)
    b.emit("fourier", waves, axis=0)
    b.emit("fourier", waves, axis=0, inverse=True)
    b.emit("diagonal", m, zero, one, two)
    b.emit("partView", complex_memory, at=0)
    b.emit("elementPointer", m, one, zero)
    b.emit("store", vector, v)
    stack = b.emit("createStack", element=TupleType((scalar(F64), pointer(F32, None, layout="S"))))
    b.emit("destroyStack", stack)
    tape = b.emit("createStack", element=scalar(F64))
    b.emit("push", x, tape)
    popped = b.emit("pop", tape)
    b.emit("drain", tape)
    b.emit("destroyStack", tape)
    b.emit("extract", b.emit("tuple", x, k), at=1)
    b.emit("tuple")
    b.emit("builtin", vector, intrinsic="softmax", result=vector.type)
    tree = EnumType("Tree", {"leaf": (scalar(F64),)})
    module.types["Tree"] = tree
    b.emit("constant", Literal(tree, UNDEFINED))
    b.emit("enumCase", x, case="leaf", type=tree)
    b.emit("extract", b.emit("insert", x, b.emit("aggregate", x, x, type=TensorType((2,), F64)), at=1), at=0)
    point = module.types["Point"] = StructType("Point", {"x": scalar(F64)})
    points = b.emit("allocateAggregate", n, type=point)
    b.emit("elementPointer", points, k, path=("", "x"))
    b.emit("deallocate", b.emit("allocateCounted", n, type=point))
    row = b.emit("allocateStack", type=ArrayType(2, point), count=3)
    b.emit("copy", row, row, two)
    b.emit("bitCast", row, type=PointerType(point))
    b.emit("projectBox", b.emit("allocateBox", type=tree))
    b.emit("trap")
    anything = b.emit("createStack")
    b.emit("push", x, anything)
    b.emit("pop", anything, type=scalar(F64))
    cell = b.emit("makeCell", x, v, tag=2)
    b.emit("cellTag", cell)
    b.emit("cellItem", cell, at=1, held=TupleType((scalar(F64), v.type)))
    b.emit("leaf", b.emit("wholeEnum", cell, type=tree), at=0)
    b.emit("bits", vector, to="i64")
    b.emit("add", k, one, checked=True)
    b.emit("negate", k, checked=True)
    b.emit("negate", k, checked=False)
    b.emit("apply", v, m, x, k, c, callee="f", result=scalar(F64))
    binary = FunctionType((scalar(F64), scalar(F64)), scalar(F64))
    combine = module.add(Function("combine", scalar(F64)))
    combine.declaration, combine.signature = Extern(), binary
    named = Literal(binary, FunctionName("combine"))
    b.emit("reduceBy", matrix, named, x, axes=(0,))
    b.emit("scanBy", matrix, Literal(binary, OpName("subtract")), axes=(0,))
    b.emit("reduceWindowBy", matrix, named, x, dims=(1, 2), strides=(1, 1), padding="half")
    pair = b.emit("tuple", named, x)
    b.emit("applyValue", b.emit("extract", pair, at=0), x, x, result=scalar(F64))
    for op in OPS.values():
        if op.name not in FORMS and op.name not in ("dot", "iota"):
            count = form_text(op).count("%")
            for value in (popped, k, c, z):
                try:
                    b.emit(op, *[value] * count)
                except TypeError:
                    continue
    fail, end = f.new_block("fail"), f.new_block()
    got = end.add_arg(scalar(F64))
    b.conditional(c, fail, [], end, [x])
    b.at_end(fail).emit("raise", exception="ZeroDivisionError", message="")
    b.at_end(end).ret(got)
    verify(module)
    parsed = again(module)
    assert {i.op.name for i in f.instructions()} >= OPS.keys() - {"retain", "release", "branch", "branchEnum"}
    pairs = list(zip(f.instructions(), parsed.functions["f"].instructions(), strict=True))
    for old, new in pairs:
        assert (old.op, old.type, new.name) == (new.op, new.type, old.name)
        # an attribute that says nothing is not written
        assert {a: v for a, v in old.attrs.items() if v is not None and v is not False} == new.attrs


def test_dtypes_and_types():
    """Every form of type prints and reads back to an equal type."""
    tensors = [TensorType(s, d) for s, d in product(((), (1,), (None, 3), (0, None, 7)), DTYPES.values())]
    pointers = [PointerType(t, lay) for t, lay in product(tensors, "CFS") if lay != "F" or t.rank > 1]
    types = [*tensors, *pointers, TupleType((scalar(F32),)), TupleType((VOID, TupleType((scalar(I8), pointers[3]))))]
    types += [StackType(StackType(TupleType((scalar(F64),)))), FunctionType((scalar(F64), VOID), TupleType(()))]
    types.append(FunctionType((), FunctionType((scalar(F16),), scalar(BOOL))))
    for t in types:
        module, f, b, _ = new_function(result=t)
        b.ret(Literal(t, UNDEFINED))
        parsed = again(module).functions["f"]
        assert parsed.result == parsed.entry.instructions[0].operands[0].type == t


FLOATS = [0.0, -0.0, 1.0, 1e22, -1.5e-300, 5e-324, 1.7976931348623157e308, 0.1, float("inf"), -float("inf")]
NANS = [struct.unpack("<d", struct.pack("<Q", b))[0] for b in (0x7FF8 << 48, 0xFFF8 << 48, 0x7FF0_0000_0000_0001)]


@pytest.mark.parametrize("value", FLOATS + NANS, ids=str)
@pytest.mark.parametrize("dtype", [F16, F32, F64], ids=str)
def test_float_literals(value, dtype):
    """Floats come back bit by bit: signed zeros, infinities, NaNs with sign and payload, all exponents."""
    module = returning(Literal(scalar(dtype), value))
    found = again(module).functions["f"].entry.instructions[0].operands[0].value
    assert type(found) is float and struct.pack("<d", found) == struct.pack("<d", value)


@pytest.mark.parametrize("real, imag", list(product((0.0, -0.0, NANS[1], -float("inf"), 1e-9), repeat=2)))
def test_complex_literals(real, imag):
    """Complex literals come back bit by bit, each part."""
    module = returning(Literal(scalar(C64), complex(real, imag)))
    value = again(module).functions["f"].entry.instructions[0].operands[0].value
    assert type(value) is complex
    assert struct.pack("<dd", value.real, value.imag) == struct.pack("<dd", real, imag)


@pytest.mark.parametrize(
    "value",
    [
        literal(True),
        literal(False),
        literal(-(2**63)),
        literal(2**63 - 1),
        literal(2**64 - 1, scalar(U64)),
        literal(-128, scalar(I8)),
        Literal(pointer(F64, None, 2), NULL),
        Literal(pointer(F64, None, 2, layout="F"), UNDEFINED),
        Literal(StackType(scalar(F64)), UNDEFINED),
        Literal(scalar(C128), UNDEFINED),
    ],
    ids=repr,
)
def test_other_literals(value):
    """Booleans, integers at their limits, null and undefined come back as they were."""
    found = again(returning(value)).functions["f"].entry.instructions[0].operands[0]
    assert (found.type, found.value, type(found.value)) == (value.type, value.value, type(value.value))


def test_numpy_payloads():
    """A NumPy scalar in a literal, against the rules, still prints as a number."""
    for value, shown in ((np.float64(0.5), "0.5: f64"), (np.bool_(True), "true: bool"), (np.int64(3), "3: i64")):
        t = scalar({"f": F64, "b": BOOL, "i": I64}[np.asarray(value).dtype.kind])
        assert f"return {shown}\n" in print_module(returning(Literal(t, value)))


ODD_NAMES = ("0", "0.1", "0^1", "naïve", "a b", "x'", 'say "hi"', "back\\slash", "new\nline", "\u2028", "\udc80", "nan")


def test_odd_names():
    """Any string can be a name of a value, a block, a function or a module, and comes back exactly."""
    module = Module('odd "name"\n')
    for name in ODD_NAMES:
        f = module.add(Function(name, scalar(F64)))
        b = Builder(f, f.new_block(name))
        arg = f.entry.add_arg(scalar(F64), name)
        # the same name again, twice, and one that looks like the second
        for hint in (name, name, f"{name}_0", ""):
            last = b.emit("exp", arg, name=hint)
        b.emit("apply", last, callee=name, result=scalar(F64))
        end = f.new_block(name)
        b.branch(end)
        b.at_end(end).ret(last)
    parsed = again(module)
    assert parsed.name == module.name and list(parsed.functions) == list(ODD_NAMES)
    for name, f in parsed.functions.items():
        assert (f.name, f.entry.name, f.params[0].name) == (name, name, name)
    # one instruction, one line, whatever the names hold: messages of the verifier count on it
    assert len(print_module(module).splitlines()) == 2 + 12 * len(ODD_NAMES)


def test_names_that_repeat():
    """Thousands of values with one hint print in linear time, each under a name of its own."""
    module, _, b, (x,) = new_function(scalar(F64))
    for _ in range(5000):
        x = b.emit("exp", x, name="x")
    b.ret()
    text = print_module(module)
    assert print_module(parse_module(text)) == text and "%x_4998 = exp %x_4997: f64" in text


def test_void_values_have_no_name():
    """A hint on an instruction without a result is not printed, so that the text can be read."""
    module, _, b, (x,) = new_function(scalar(BOOL))
    b.emit("check", x, exception="ValueError", message="", name="oops")
    b.emit("tuple", name="nothing")
    b.ret()
    assert "oops" not in print_module(again(module))


def test_strings():
    """Any text survives quoting, on one line."""
    rng = random.Random(1)
    for _ in range(300):
        special = (34, 92, 10, 13, 9, 0, 117, 123)
        text = "".join(chr(rng.choice((*special, rng.randrange(0x300), rng.randrange(0x110000)))) for _ in range(8))
        assert unquote(quote(text)) == text
        assert len(quote(text).splitlines()) == 1


def test_locations():
    """Locations are written on demand, and read back on every instruction that has one."""
    module, f, b, (x,) = new_function(scalar(F64), result=scalar(F64))
    b.loc = Loc('dir/a "b".py', 12, 4, 13, 9)
    y = b.emit("exp", x)
    b.loc = None
    y = b.emit("exp", y)
    b.loc = Loc("c.py", 1)
    b.ret(y)
    text = print_module(module, locations=True)
    assert '    %0.0 = exp %p0: f64 !loc("dir/a \\"b\\".py", 12, 4, 13, 9)\n    %0.1 = exp %0.0: f64\n' in text
    parsed = again(module, locations=True)
    assert [i.loc for i in parsed.functions["f"].instructions()] == [i.loc for i in f.instructions()]
    assert "!loc" not in print_module(parsed) and print_module(parsed) == print_module(module)


def test_locate():
    """A program that is its own source: each instruction without a location gets its place in the text."""
    text = 'module "m"\nstage raw\n\nfunc @f: (f64) -> f64 {\n\'entry(%x: f64):\n    %y = exp %x: f64\n'
    text += '    return %y: f64 !loc("c.py", 1, 0, 0, 0)\n}\n'
    located = parse_module(text, "m.dl", locate=True).functions["f"]
    assert [i.loc for i in located.instructions()] == [Loc("m.dl", 6, 9, 6, 12), Loc("c.py", 1)]
    assert [i.loc for i in parse_module(text, "m.dl").functions["f"].instructions()] == [None, Loc("c.py", 1)]


def test_attributes_and_functions():
    """Attributes of functions come back; one function can be read alone, its calls go where they will."""
    _, f, b, (x,) = new_function(scalar(F64), result=scalar(F64))
    f.attributes |= {"inline", "noinline"}
    b.ret(b.emit("apply", x, callee="elsewhere", result=scalar(F64)))
    parsed = parse_function(print_function(f))
    assert parsed.attributes == f.attributes and print_function(parsed) == print_function(f)


# -- what may be written in other ways -----------------------------------------------------------------------


def test_definitions_may_follow_their_uses():
    """A block, a value of a block, and a function may stand behind their uses."""
    text = HEAD + (
        "func @main: (f64) -> f64 {\n"
        "'entry(%x: f64):\n    branch 'first()\n"
        "'last():\n    %z = add %y: f64, %0.1: f64\n    return %z: f64\n"
        "'first():\n    %y = exp %x: f64\n    %2.1 = apply @g(%y: f64) -> f64\n    branch 'last()\n}\n\n"
        "func @g: (f64) -> f64 {\n'0(%0^0: f64):\n    return %0^0: f64\n}\n"
    ).replace("%0.1", "%2.1")
    module = parse_module(text)
    verify(module)
    assert print_module(module) == text
    assert run(module, "main", [0.0]) == 2.0


def test_layout_of_types_is_known_out_of_order():
    """A section that keeps the layout because of an extent defined further down is typed all the same."""
    text = body(
        "    branch 'b()\n'c():\n"
        "    %s = section %p: *<_ x _ x f64> at (1: i64, 0: i64) count (2: i64, %n: i64) step (1: i64, 1: i64)\n"
        "    %v = load %s: *<2 x _ x f64>\n    return\n"
        "'b():\n    %n = extent %p: *<_ x _ x f64> at 1\n    branch 'c()",
        "%p: *<_ x _ x f64>",
    )
    module = parse_module(text)
    verify(module)
    assert print_module(module) == text


LOOSE = """// a comment, then the module

module "m" // its name
stage raw\r
!inline

func @f :
    (f64,
     f64)
    -> f64
{
'entry
  (%x: f64,
   %y: f64
  )
  :

    %a =
       add %x : f64 ,
           %y:f64\t// sum

    // nothing
    %b
      = multiply %a: f64, 2: f64
    branch 'out(%b: f64,
                -1.5e+3: f64)
'out(%w: f64, %z: f64):
    return %z: f64 }"""


def test_layout_of_the_text_is_free_where_it_may():
    """Comments, blanks and newlines around commas, `=`, colons of types, arrows and block headers."""
    module = parse_module(LOOSE)
    verify(module)
    assert print_module(module) == HEAD + (
        "!inline\nfunc @f: (f64, f64) -> f64 {\n'entry(%x: f64, %y: f64):\n    %a = add %x: f64, %y: f64\n"
        "    %b = multiply %a: f64, 2: f64\n    branch 'out(%b: f64, -1500.0: f64)\n"
        "'out(%w: f64, %z: f64):\n    return %z: f64\n}\n"
    )


@pytest.mark.parametrize(
    "written, printed",
    [
        ("%a = matrixMultiply %v: <2 x f64>, %v: <2 x f64>", "%a = dot %v: <2 x f64>, %v: <2 x f64>"),
        ("%a = apply @f(%v: <2 x f64>): (<2 x f64>) -> ()", ""),
        ("apply @f(%v: <2 x f64>): (<2 x f64>) -> void", "apply @f(%v: <2 x f64>) -> ()"),
        ("%a = shapeCast %v: <2 x f64> to 1 x 2", "%a = shapeCast %v: <2 x f64> to 1 x 2"),
        ("%a = shapeCast 1: f64 to scalar", "%a = shapeCast 1: f64 to scalar"),
        ("%a = broadcast zero: f64 to (2: i64)", "%a = literal 0.0: <2 x f64>"),
        ("exp %v: <2 x f64>", "%0.0 = exp %v: <2 x f64>"),
        ('%"a" = exp %"v": <2 x f64>', "%a = exp %v: <2 x f64>"),
        ("%a = transpose %v: <2 x f64> axes 0", "%a = transpose %v: <2 x f64> axes 0"),
        ("%a = exp -0: f64", "%a = exp -0.0: f64"),
    ],
)
def test_older_and_other_spellings(written, printed):
    """The original's spellings are read, the newest is printed."""
    text = body(f"    {written}\n    return", "%v: <2 x f64>")
    if not printed:
        with pytest.raises(ParseError):
            parse_module(text)
        return
    assert print_module(parse_module(text)) == body(f"    {printed}\n    return", "%v: <2 x f64>")


def test_element_pointer_with_bare_indices():
    """Indices of an elementPointer may be bare numbers."""
    params = "%p: *<2 x 3 x f64>"
    parsed = parse_module(body("    %a = elementPointer %p: *<2 x 3 x f64> at 1, 2\n    return", params))
    assert "at 1, 2\n" in print_module(parsed)


def test_old_stage():
    """The stage that was once called canonical is optimizable."""
    assert parse_module('module "m"\nstage canonical').stage == "optimizable"


def test_bytes():
    """UTF-8 bytes are read as text."""
    assert parse_module('module "é"\nstage raw'.encode()).name == "é"


# -- errors --------------------------------------------------------------------------------------------------

EXP = "    %y = exp %x: f64\n"
ERRORS = [
    ("", "DL111", "expected 'module', found the end of the text"),
    ('module "m"\nstage cooked\n', "DL111", "expected 'raw' or 'optimizable'"),
    ('module "m" stage raw', "DL111", "expected a new line, found 'stage'"),
    ('module "m', "DL110", "this string is not terminated"),
    ('module "\\q"', "DL110", "unknown escape '\\\\q'"),
    (b'module "\xff"', "DL110", "byte 0xff is not UTF-8"),
    ('module "m"\nstage raw\n~', "DL110", "illegal character '~'"),
    (HEAD + "struct $S {", "DL111", "expected a field such as #x, or '}', found the end of the text"),
    (HEAD + "struct $ {", "DL110", "expected the name of a type such as $Point"),
    (HEAD + "enum $E {\n ?a()\n ?a()\n}", "DL113", "'?a' is defined twice in '$E'"),
    (HEAD + "enum $E {\n ?a()\n}\ntype $E = f32", "DL113", "the type '$E' is defined twice"),
    (HEAD + "type $A = $B\ntype $B = *$A", "DL112", "the type '$B' is made of itself"),
    (HEAD + "var @x: void", "DL111", "a variable of type void"),
    (HEAD + "[adjoint @g]\nfunc @f: () -> f32", "DL112", "there is no function '@g'"),
    (HEAD + "[adjoint @g wrt]\nfunc @f: () -> f32", "DL111", "expected the number of a parameter"),
    (HEAD + "[extern]\nfunc @f: () -> f32 {", "DL111", "a declaration has no body"),
    (HEAD + "func @f: () -> f32", "DL111", "expected '{' and the body of the function"),
    (body("    %a = literal [1: i32]: <1 x i32>\n    return"), "DL117", "this is no literal of <1 x i32>"),
    (body("    %a = literal 1: <_ x i32>\n    return"), "DL117", "a number is no literal of <_ x i32>"),
    (body("    %a = literal <1: i32>: <2 x i32>\n    return"), "DL116", "the elements do not make a <2 x i32>"),
    (body("    %a = load @v: *f64\n    return"), "DL112", "there is no variable '@v'"),
    (
        HEAD + "!fast\nfunc",
        "DL111",
        "expected '!freelayout' or '!inline' or '!noinline' or '!adjoint' or '!forward' or '!tangent', found '!fast'",
    ),
    (HEAD + "func f: () -> ()", "DL111", "expected the name of a function, found 'f'"),
    (HEAD + "func @f: f64 {", "DL111", "expected the type of a function, found f64"),
    (HEAD + "func @f: () -> ()\n", "DL111", "expected '{' and the body of the function"),
    (HEAD + "func @f: () -> () {\n}", "DL111", "asks for an entry block with the arguments ()"),
    (HEAD + "func @f: (f64) -> () {\n'e(%x: f32):\n return\n}", "DL111", "entry block with the arguments (f64)"),
    (HEAD + 2 * "func @f: () -> () {\n'e():\n return\n}\n", "DL113", "function '@f' is defined twice"),
    (HEAD + "func @1: () -> () {\n'e():\n return\n}\n", "DL114", "this is function 0"),
    (body("    return\n'entry():\n    return"), "DL113", "''entry' is defined twice"),
    (body("    return\n'3():\n    return"), "DL114", "invalid index ''3': this is '1"),
    (body("    %0.1 = exp %x: f64\n    return"), "DL114", "invalid index '%0.1': this is %0.0"),
    (body("    return", "%0^1: f64"), "DL114", "invalid index '%0^1': this is %0^0"),
    (body(EXP + "    %z = exp %0.0: f64\n    return"), "DL112", "there is no value '%0.0'"),
    (body(EXP + EXP + "    return"), "DL113", "'%y' is defined twice"),
    (body("    branch 'nowhere()"), "DL112", "there is no block ''nowhere'"),
    (body("    apply @g() -> ()\n    return"), "DL112", "there is no function '@g'"),
    (body('    %"" = exp %x: f64\n    return'), "DL111", "a name cannot be empty"),
    (body("    %y = exq %x: f64\n    return"), "DL111", "there is no instruction 'exq'"),
    (body("    %y = exp %x\n    return"), "DL111", "expected ':' and a type, found the end of the line"),
    (body("    %y = exp x: f64\n    return"), "DL111", "expected an operand: a value or a literal, found 'x'"),
    (
        body("    %y = exp %x: f64, %x: f64\n    return"),
        "DL111",
        "expected a new line after the instruction, found ','",
    ),
    (body("    %y = add %x: f64\n    return"), "DL111", "expected ','"),
    (body("    %y = exp %x: f32\n    return"), "DL115", "'%x' is f64, not f32"),
    (body(EXP + "    %z = exp %y: f32\n    return"), "DL115", "'%y' is f64, not f32"),
    (body("    %y = add %x: f64, %k: i64\n    return"), "DL116", "add: dtypes differ: f64 and i64"),
    (body("    %y = exp %c: bool\n    return"), "DL116", "exp: not defined for dtype bool"),
    (body("    %y = reduce %x: f64 by xor init %x: f64 along 0\n    return"), "DL116", "no reduction by xor"),
    (body("    %y = dataTypeCast %x: f64 to f65\n    return"), "DL111", "expected a dtype, found 'f65'"),
    (body("    %y = transpose %x: f64 axes -1\n    return"), "DL117", "must be from 0"),
    (body("    %y = return\n"), "DL111", "return gives no value that could be named"),
    (body("    return 1: bool"), "DL117", "the literal '1' is no bool"),
    (body("    return 300: i8"), "DL117", "the literal '300' is no i8"),
    (body("    return -1: u8"), "DL117", "the literal '-1' is no u8"),
    (body("    return 1.0: i64"), "DL117", "the literal '1.0' is no i64"),
    (body("    return 1.0: <2 x f64>"), "DL117", "the literal '1.0' is no <2 x f64>"),
    (body("    return null: f64"), "DL117", "the literal 'null' is no f64"),
    (body("    return 1e999: f64"), "DL117", "too large for f64"),
    (body("    return 99999999999999999999999: f64"), "DL117", "must be from"),
    (body("    return " + "9" * 9999 + ": i64"), "DL117", "must be from"),
    (body("    return 1x: i64"), "DL110", "malformed number '1x'"),
    (body("    return 1.: f64"), "DL110", "malformed number '1.'"),
    (body("    return undefined: <2 x x f64>"), "DL111", "expected an extent, '_' or a dtype, found 'x'"),
    (body("    return undefined: <2 x784 x f64>"), "DL111", "expected 'x' between blanks, and an extent or a dtype"),
    (body("    return undefined: <f64>"), "DL111", "a scalar type is written without brackets"),
    (body("    return undefined: <-2 x f64>"), "DL117", "must be from 0"),
    (body("    return undefined: *stack{f64}"), "DL111", "a pointer must point to a tensor"),
    (body("    return undefined: *fortran <2 x f64>"), "DL111", "the layout fortran begins at rank 2"),
    (body("    return undefined: " + "(" * 9999), "DL118", "types are nested more than 64 deep"),
    (body("    return undefined: " + "stack{" * 9999), "DL118", "types are nested more than 64 deep"),
    (body("    return undefined: " + "() -> " * 9999), "DL118", "types are nested more than 64 deep"),
    (body('    return !loc("a", 1)'), "DL111", "expected ','"),
    (body("    return !inline"), "DL111", "expected '!loc' or a new line"),
    (body("    return 0: i64 {"), "DL111", "expected a new line after the instruction"),
    (
        body(
            "    %s = section %p: *<_ x f64> at (0: i64) count (1: i64, 1: i64) step ()\n    return",
            "%p: *<_ x f64>",
        ),
        "DL111",
        "section takes equally many operands in each bracket, not 1, 2, 0",
    ),
]


@pytest.mark.parametrize("text, code, reason", ERRORS, ids=[e[2][:50] for e in ERRORS])
def test_error_messages(text, code, reason):
    """Each mistake has its code, says what is wrong or expected, and lies in the text."""
    error = failure(text)
    assert error.code == code and reason in error.reason
    assert isinstance(error, CompileError)
    lines = re.split(r"\r\n|\n|\r", text.decode(errors="replace") if isinstance(text, bytes) else text)
    assert 1 <= error.loc.line <= len(lines)
    assert 0 <= error.loc.col <= len(lines[error.loc.line - 1].encode())
    assert str(error).startswith(f"test.dl:{error.loc.line}:{error.loc.col + 1}: error {code}: {error.reason}")


def test_error_shows_its_place():
    """The message has file, line and column, the line of the text, and carets under the guilty token."""
    assert str(failure(body("    %é = exp %x: f64\n    return"))) == (
        "test.dl:6:5: error DL110: expected a value name such as %x or %0.1\n"
        "    %é = exp %x: f64\n"
        "    ^\n"
        "  help: a name with other characters than letters, digits, '_' and '.' stands in quotes"
    )
    assert str(failure(body('    %"é" = exq %x: f64\n    return'))) == (
        "test.dl:6:13: error DL111: there is no instruction 'exq'\n"
        '    %"é" = exq %x: f64\n'
        "           ^^^\n"
        "  help: did you mean exp?"
    )


# -- robustness ----------------------------------------------------------------------------------------------


def corpus():
    """Texts to spoil: programs of all stages, and the texts of this file."""
    texts = [str(random_program(seed, 1)) for seed in range(8)]
    for seed in range(3):
        module = Generator(seed).module
        for f in module.functions.values():
            bufferize.run(f, noalias_params=False)
            ownership.run(f)
        texts.append(print_module(module, locations=True)[:4000])
    wrong = [t for t, *_ in ERRORS if isinstance(t, str) and len(t) < 4000]
    return texts * 4 + [LOOSE] * 10 + wrong


def spoiled(rng, texts):
    """A text of the corpus, changed in one to three places, seldom beyond recognition."""
    text = rng.choice(texts)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        near = min(b, a + rng.randrange(1, 12))
        other = rng.choice(texts)
        tokens = re.findall(r"\w+|[%@'!\"][\w.^]*|[^\w\s]|\s+", other)
        piece = rng.choice(tokens) if tokens else ""
        match rng.randrange(7):
            case 0:
                text = text[:a] + text[near:]
            case 1:
                text = text[:a] + piece + text[a:]
            case 2:
                text = text[:a] + piece + text[near:]
            case 3:
                odd = (0, 10, 13, 34, 37, 40, 92, 0xE9, 0xD800, 0x2028, rng.randrange(128))
                text = text[:a] + chr(rng.choice(odd)) + text[a:]
            case 4:
                lines = text.split("\n")
                k, n = rng.randrange(len(lines)), rng.randrange(len(lines))
                lines[k], lines[n] = lines[n], lines[k]
                text = "\n".join(lines)
            case 5:
                text = text[:near] + text[a:near] * rng.randrange(3) + text[near:]
            case 6:
                old, new = rng.sample(["f64", "i64", "_", "2", "<", "*"], 2)
                text = text[:a] if rng.random() < 0.1 else text.replace(old, new, 1)
    return text


def check_robust(seed, count):
    """Spoiled texts raise ParseError with a message, or are modules that round-trip."""
    rng, texts, read = random.Random(seed), corpus(), 0
    for _ in range(count):
        text = spoiled(rng, texts)
        data = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.1:
            at = rng.randrange(len(data) + 1)
            data = data[:at] + rng.randbytes(2) + data[at:]
        subject = text if rng.random() < 0.5 else data
        try:
            module = parse_module(subject, "fuzz.dl")
        except ParseError as error:
            assert str(error).startswith(f"fuzz.dl:{error.loc.line}:")
            continue
        read += 1
        shown = print_module(module, locations=True)
        assert print_module(parse_module(shown), locations=True) == shown
    return read


def test_spoiled_texts():
    """Nothing but ParseError comes out of a spoiled text, and what is still read round-trips."""
    assert check_robust(1, 500) > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_spoiled_texts_at_length(seed):
    """The same for 20,000 texts."""
    check_robust(100 + seed, 1000)


def test_random_bytes():
    """Bytes of no meaning raise ParseError."""
    rng = random.Random(2)
    for _ in range(300):
        with pytest.raises(ParseError):
            parse_module(rng.randbytes(rng.randrange(60)))


# -- the table and the manual --------------------------------------------------------------------------------


def test_every_op_has_a_form():
    """Each row has a syntax that writes all its attributes, under a word that leads back to it."""
    for op in OPS.values():
        form = form_text(op)
        found = op_of_mnemonic(form.split()[0])
        # of ops that share a word, the parser takes the other one where a function value follows, or a type
        assert found is op or op.kind is Kind.HIGHER_ORDER and found.name == form.split()[0] or "allocateHeap " in form
        assert op.name in FORMS or set(op.attrs) <= {"checked"} and "%," not in form, op.name
        for attr in op.attrs:
            if (op.name, attr) in (("elementPointer", "path"), ("pop", "type")):
                continue  # written among the operands, and as the type of the result
            assert f"<{attr}:" in form or f"[{attr}" in form, (op.name, attr)
    assert set(FORMS) <= set(OPS)
    assert len(mnemonics()) == len(set(mnemonics()))


def test_manual_shows_every_op():
    """docs/ir.md has the form of every op, as the table states it."""
    text = DOCS.read_text(encoding="utf-8")
    missing = [op.name for op in OPS.values() if f"`{form_text(op)}`" not in text]
    assert not missing


def test_manual_names_every_error_code():
    """docs/ir.md lists the codes that the parser uses."""
    text = DOCS.read_text(encoding="utf-8")
    assert not [code for code in {e[1] for e in ERRORS} if f"`{code}`" not in text]


def test_manual_example_is_canonical():
    """The example of docs/ir.md is printed as it stands there."""
    example = re.search(r"```dlvm\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)[1]
    module = parse_module(example)
    verify(module)
    assert print_module(module) == example
