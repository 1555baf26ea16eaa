"""The text of the IR: one line of golden text for every form, and names. (Reading it back: test_parser.py.)"""

import pytest
from irbuild import INDEX, new_function, pointer

from dlvm_py.ir import (
    BOOL,
    C64,
    C128,
    CELL,
    F32,
    F64,
    I64,
    NULL,
    OPS,
    U64,
    UNDEFINED,
    VOID,
    ArrayType,
    BoxType,
    EnumType,
    FunctionName,
    FunctionType,
    Instruction,
    Literal,
    PointerType,
    StackType,
    StructType,
    Target,
    TensorType,
    TupleType,
    literal,
    print_function,
    print_module,
    scalar,
)
from dlvm_py.ir.value import OpName

VECTOR, MATRIX = pointer(F64, None), pointer(F64, None, None)
ROW, TABLE, DOUBLE = TensorType((None,), F64), TensorType((None, 3), F64), scalar(F64)
POINT, TREE = StructType("Point", {"x": DOUBLE}), EnumType("Tree", {"leaf": (DOUBLE,)})
PARAMS = {
    "p": VECTOR, "m": MATRIX, "v": ROW, "t": TABLE, "x": DOUBLE, "n": INDEX, "c": scalar(BOOL),
    "s": StackType(DOUBLE), "w": TensorType((1, None), F64), "u": TupleType((DOUBLE, INDEX)),
    "i": TensorType((2, 1, 8), F64), "k": TensorType((1, 1, 3), F64),
    "z": pointer(C128, None), "q": TensorType((None,), C128),
    "a": TensorType((None,), I64), "f": TensorType((None, 3), BOOL),
    "o": PointerType(ArrayType(2, POINT)), "b": BoxType(POINT), "r": scalar(CELL), "l": StackType(None), "e": TREE,
    "d": TensorType((None, 3), C128),
}  # fmt: skip
P = {name: f"%{name}: {type}" for name, type in PARAMS.items()}


def text(build):
    """The line that an instruction prints as, in a function whose parameters have the names of PARAMS."""
    _, f, b, values = new_function(*PARAMS.values())
    for value, name in zip(values, PARAMS, strict=True):
        value.name = name
    build(b, dict(zip(PARAMS, values, strict=True)))
    return print_function(f).splitlines()[2].strip()


def emitted(name, operands, **attrs):
    """The line of an op applied to parameters (by name) and literals."""
    return text(lambda b, v: b.emit(name, *(v[o] if isinstance(o, str) else o for o in operands), **attrs))


ZERO, ONE, TWO = (literal(k) for k in (0, 1, 2))

BINARY = FunctionType((DOUBLE, DOUBLE), DOUBLE)
COMBINE = Literal(BINARY, FunctionName("g"))

GOLDEN = [
    ("add", ["x", literal(1.0)], {}, f"%0.0 = add {P['x']}, 1.0: f64"),
    ("add", ["n", ONE], {"checked": True}, f"%0.0 = add {P['n']}, 1: i64 checked"),
    ("sin", ["t"], {}, "%0.0 = sin %t: <_ x 3 x f64>"),
    ("not", [literal(True)], {}, "%0.0 = not true: bool"),
    ("select", ["v", "x", "c"], {}, f"%0.0 = select {P['v']}, {P['x']} by {P['c']}"),
    ("dataTypeCast", ["v"], {"to": "f32"}, f"%0.0 = dataTypeCast {P['v']} to f32"),
    ("transpose", ["t"], {}, f"%0.0 = transpose {P['t']}"),
    ("transpose", ["t"], {"axes": (0, 1)}, f"%0.0 = transpose {P['t']} axes 0, 1"),
    ("padShape", ["v"], {"at": 1}, f"%0.0 = padShape {P['v']} at 1"),
    ("squeezeShape", ["w"], {"at": 0}, f"%0.0 = squeezeShape {P['w']} at 0"),
    ("shapeCast", ["t", "n", TWO], {}, f"%0.0 = shapeCast {P['t']} to (%n: i64, 2: i64)"),
    ("section", ["p", ZERO, "n", TWO], {}, f"%0.0 = section {P['p']} at (0: i64) count (%n: i64) step (2: i64)"),
    ("pointerCast", ["p"], {"to": pointer(F64, None, layout="S")},
     f"%0.0 = pointerCast {P['p']} to *strided <_ x f64>"),
    ("diagonal", ["m", ZERO, ONE, "n"], {}, f"%0.0 = diagonal {P['m']} at 0: i64, 1: i64 count %n: i64"),
    ("partView", ["z"], {"at": 1}, "%0.0 = partView %z: *<_ x c128> at 1"),
    ("extent", ["m"], {"at": 1}, f"%0.0 = extent {P['m']} at 1"),
    ("iota", ["n"], {}, f"%0.0 = iota {P['n']}"),
    ("reduce", ["t", "x"], {"by": "add", "axes": (0, 1)}, f"%0.0 = reduce {P['t']} by add init {P['x']} along 0, 1"),
    ("broadcast", ["v", "n"], {}, f"%0.0 = broadcast {P['v']} to (%n: i64)"),
    ("unbroadcast", ["v", ONE], {}, f"%0.0 = unbroadcast {P['v']} to (1: i64)"),
    ("dot", ["v", "t"], {}, f"%0.0 = dot {P['v']}, {P['t']}"),
    ("allocateHeap", ["n", TWO], {"dtype": "f32"}, "%0.0 = allocateHeap f32 count (%n: i64, 2: i64)"),
    ("allocateHeap", [], {"dtype": "f32"}, "%0.0 = allocateHeap f32 count ()"),
    ("load", ["m"], {}, "%0.0 = load %m: *<_ x _ x f64>"),
    ("store", ["v", "p"], {}, f"store {P['v']} to {P['p']}"),
    ("elementPointer", ["m", "n", ONE], {}, f"%0.0 = elementPointer {P['m']} at %n: i64, 1"),
    ("elementPointer", ["o", "n"], {"path": ("", "x")}, "%0.0 = elementPointer %o: *[2 x $Point] at %n: i64, #x"),
    ("allocateAggregate", ["n"], {"type": POINT}, "%0.0 = allocateHeap $Point count (%n: i64)"),
    ("allocateCounted", ["n"], {"type": POINT}, "%0.0 = allocateHeap $Point count %n: i64"),
    ("allocateStack", [], {"type": POINT, "count": 2}, "%0.0 = allocateStack $Point count 2"),
    ("allocateBox", [], {"type": POINT}, "%0.0 = allocateBox $Point"),
    ("projectBox", ["b"], {}, "%0.0 = projectBox %b: box{$Point}"),
    ("deallocate", ["b"], {}, "deallocate %b: box{$Point}"),
    ("copy", ["o", "o", ONE], {}, "copy from %o: *[2 x $Point] to %o: *[2 x $Point] count 1: i64"),
    ("trap", [], {}, "trap"),
    ("bitCast", ["x"], {"type": INDEX}, "%0.0 = bitCast %x: f64 to i64"),
    ("bits", ["v"], {"to": "i64"}, "%0.0 = bits %v: <_ x f64> to i64"),
    ("makeCell", ["x"], {"tag": 1}, "%0.0 = makeCell 1 (%x: f64)"),
    ("cellTag", ["r"], {}, "%0.0 = cellTag %r: cell"),
    ("cellItem", ["r"], {"at": 0, "held": TupleType((DOUBLE,))}, "%0.0 = cellItem %r: cell at 0 of (f64)"),
    ("leaf", ["e"], {"at": 0}, "%0.0 = leaf 0 of %e: $Tree"),
    ("wholeEnum", ["r"], {"type": TREE}, "%0.0 = wholeEnum %r: cell: $Tree"),
    ("keepCopy", ["p"], {}, f"keepCopy {P['p']}"),
    ("keepView", ["p", "p"], {}, f"keepView {P['p']} in {P['p']}"),
    ("retain", ["p"], {}, f"retain {P['p']}"),
    ("release", ["p"], {}, f"release {P['p']}"),
    ("parallel", ["n", "x", "c", "p"], {}, f"parallel {P['n']} cost {P['x']} if {P['c']} private ({P['p']})"),
    ("replay", ["n"], {"after": 1, "period": 2}, f"replay {P['n']} after 1 period 2"),
    ("unsteady", ["n"], {"most": 4}, f"%0.0 = unsteady {P['n']} most 4"),
    ("createStack", [], {"element": ROW}, "%0.0 = createStack <_ x f64>"),
    ("createStack", [], {}, "%0.0 = createStack"),
    ("pop", ["l"], {"type": DOUBLE}, "%0.0 = pop f64 from %l: stack"),
    ("push", ["x", "s"], {}, "push %x: f64 to %s: stack{f64}"),
    ("pop", ["s"], {}, "%0.0 = pop f64 from %s: stack{f64}"),
    ("drain", ["s"], {}, "%0.0 = drain %s: stack{f64}"),
    ("destroyStack", ["s"], {}, f"destroyStack {P['s']}"),
    ("tuple", ["x", "n"], {}, "%0.0 = literal (%x: f64, %n: i64): (f64, i64)"),
    ("aggregate", ["x", "x"], {"type": TensorType((2,), F64)}, "%0.0 = literal <%x: f64, %x: f64>: <2 x f64>"),
    ("aggregate", ["n"], {"type": ArrayType(1, INDEX)}, "%0.0 = literal [%n: i64]: [1 x i64]"),
    ("aggregate", ["x"], {"type": POINT}, "%0.0 = literal {#x = %x: f64}: $Point"),
    ("enumCase", ["x"], {"case": "leaf", "type": TREE}, "%0.0 = literal ?leaf(%x: f64): $Tree"),
    ("broadcast", [Literal(DOUBLE, 1.0, integral=True), TWO], {}, "%0.0 = literal 1: <2 x f64>"),
    ("builtin", ["v"], {"intrinsic": "mean", "result": DOUBLE}, '%0.0 = builtin "mean"(%v: <_ x f64>) -> f64'),
    ("slice", ["i"], {"lo": 0, "hi": 1}, f"%0.0 = slice {P['i']} from 0 upto 1"),
    ("reverse", ["t"], {"axes": (0, 1)}, f"%0.0 = reverse {P['t']} along 0, 1"),
    ("concatenate", ["t", "t"], {"at": 0}, f"%0.0 = concatenate {P['t']}, {P['t']} along 0"),
    ("rank", ["t"], {}, f"%0.0 = rank of {P['t']}"),
    ("shape", ["t"], {}, f"%0.0 = shape of {P['t']}"),
    ("unitCount", ["t"], {}, f"%0.0 = unitCount of {P['t']}"),
    ("randomSeed", ["n"], {}, "randomSeed %n: i64"),
    ("seedGenerator", ["n"], {}, "%0.0 = seedGenerator %n: i64"),
    ("draw", [Literal(scalar(U64), 8), "x"], {"distribution": "standard_gamma"},
     "%0.0 = draw standard_gamma from 8: u64 (%x: f64)"),
    ("randomCounter", ["n"], {}, "%0.0 = randomCounter %n: i64"),
    ("polygamma", ["x"], {"order": 2}, f"%0.0 = polygamma {P['x']} order 2"),
    ("random", ["n", "x", "x"], {}, f"%0.0 = random (%n: i64) from {P['x']} upto {P['x']}"),
    ("fourier", ["q"], {"axis": 0, "inverse": True}, "%0.0 = fourier %q: <_ x c128> along 0 inverse"),
    ("fourier", ["q"], {"axis": 0}, "%0.0 = fourier %q: <_ x c128> along 0"),
    ("scan", ["t"], {"by": "add", "axes": (0,)}, f"%0.0 = scan {P['t']} by add along 0"),
    ("recurrence", ["t", "t"], {"axis": 0}, f"%0.0 = recurrence {P['t']}, {P['t']} along 0"),
    ("windows", ["v", TWO, "n", ONE, ONE], {},
     f"%0.0 = windows {P['v']} size (2: i64) count (%n: i64) step (1: i64) spread (1: i64)"),
    ("overlapAdd", ["t", "n", ONE, TWO], {}, f"%0.0 = overlapAdd {P['t']} to (%n: i64) step (1: i64) spread (2: i64)"),
    ("gather", ["t", "a"], {}, f"%0.0 = gather {P['t']} at ({P['a']})"),
    ("scatterAdd", ["t", "a", "n"], {}, f"%0.0 = scatterAdd {P['t']} at ({P['a']}) to (%n: i64)"),
    ("scatter", ["v", "p", "a"], {}, f"scatter {P['v']} to {P['p']} at ({P['a']})"),
    ("scatter", ["v", "p", "a"], {"by": "add"}, f"scatter {P['v']} to {P['p']} at ({P['a']}) by add"),
    ("sort", ["t"], {"axis": 1}, f"%0.0 = sort {P['t']} along 1"),
    ("argsort", ["t"], {"axis": 0}, f"%0.0 = argsort {P['t']} along 0"),
    ("solve", ["t", "t"], {}, f"%0.0 = solve {P['t']}, {P['t']}"),
    ("cholesky", ["t"], {}, f"%0.0 = cholesky {P['t']}"),
    ("choleskyAdjoint", ["t", "t"], {}, f"%0.0 = choleskyAdjoint {P['t']}, {P['t']}"),
    ("determinant", ["t"], {}, f"%0.0 = determinant {P['t']}"),
    ("factorizes", ["t"], {"by": "lu"}, f"%0.0 = factorizes {P['t']} by lu"),
    ("eigh", ["t", "n", ONE], {"upper": True}, f"%0.0 = eigh {P['t']} to (%n: i64, 1: i64) upper"),
    ("eigvalsh", ["t", "n"], {}, f"%0.0 = eigvalsh {P['t']} to (%n: i64)"),
    ("eig", ["d", "n", TWO], {}, f"%0.0 = eig {P['d']} to (%n: i64, 2: i64)"),
    ("eigvals", ["d", "n"], {}, f"%0.0 = eigvals {P['d']} to (%n: i64)"),
    ("svd", ["t", "n", "n"], {"full": True}, f"%0.0 = svd {P['t']} to (%n: i64, %n: i64) full"),
    ("svdvals", ["t", "n"], {}, f"%0.0 = svdvals {P['t']} to (%n: i64)"),
    ("pinv", ["t", "x"], {}, f"%0.0 = pinv {P['t']}, %x: f64"),
    ("qr", ["t", "n", "n"], {"mode": "r"}, f"%0.0 = qr {P['t']} to (%n: i64, %n: i64) mode r"),
    ("lstsq", ["t", "t", "x", "n"], {}, f"%0.0 = lstsq {P['t']}, {P['t']}, %x: f64 to (%n: i64)"),
    ("searchSorted", ["v", "t"], {"side": "left"}, f"%0.0 = searchSorted {P['v']} for {P['t']} side left"),
    ("nonzero", ["f", "n"], {}, f"%0.0 = nonzero {P['f']} count %n: i64"),
    ("embed", ["v", "x", "n", ONE, TWO], {},
     f"%0.0 = embed {P['v']} in {P['x']} to (%n: i64) at (1: i64) step (2: i64)"),
    ("reduceWindow", ["t", "x"], {"by": "max", "dims": (2, 1), "strides": (1, 1), "padding": "half"},
     f"%0.0 = reduceWindow {P['t']} by max init {P['x']} dims 2, 1 strides 1, 1 padding half"),
    ("convolve", ["i", "k"], {"strides": (2,), "padding": ((1, 1),)},
     f"%0.0 = convolve {P['i']} kernel {P['k']} strides 2 padding (1, 1)"),
    ("insert", ["x", "u"], {"at": 0}, "%0.0 = insert %x: f64 to %u: (f64, i64) at 0"),
    ("extract", ["u"], {"at": 1}, "%0.0 = extract 1 from %u: (f64, i64)"),
    ("apply", ["x", "n"], {"callee": "g", "result": DOUBLE}, "%0.0 = apply @g(%x: f64, %n: i64) -> f64"),
    ("apply", [], {"callee": "g", "result": VOID}, "apply @g() -> ()"),
    ("check", ["c", "n"], {"exception": "IndexError", "message": 'a "{}"\n'},
     f'check {P["c"]} else IndexError "a \\"{{}}\\"\\n" (%n: i64)'),
    ("check", ["c", "n", "n"], {"exception": "ValueError", "message": "{} {!r}", "flavours": "pn"},
     f'check {P["c"]} else ValueError "{{}} {{!r}}" (%n: i64, %n: i64) as pn'),
    ("print", ["x", "p"], {"message": "{:.3f} {}\n", "to": "stderr", "flush": True},
     f'print "{{:.3f}} {{}}\\n" to stderr flush (%x: f64, {P["p"]})'),
    ("applyValue", [COMBINE, "x", "x"], {"result": DOUBLE}, "%0.0 = apply @g(%x: f64, %x: f64) -> f64"),
    ("reduceBy", ["t", COMBINE, "x"], {"axes": (0,)},
     f"%0.0 = reduce {P['t']} by @g: (f64, f64) -> f64 init {P['x']} along 0"),
    ("scanBy", ["t", Literal(BINARY, OpName("power"))], {"axes": (1, 0)}, f"%0.0 = scan {P['t']} by power along 1, 0"),
    ("reduceWindowBy", ["t", COMBINE, "x"], {"dims": (1, 2), "strides": (1, 1), "padding": "none"},
     f"%0.0 = reduceWindow {P['t']} by @g: (f64, f64) -> f64 init {P['x']} dims 1, 2 strides 1, 1 padding none"),
    ("constant", [Literal(TREE, UNDEFINED)], {}, "%0.0 = literal undefined: $Tree"),
    ("constant", [Literal(VECTOR, NULL)], {}, "%0.0 = literal null: *<_ x f64>"),
    ("raise", [], {"exception": "ValueError", "message": "no"}, 'raise ValueError "no" ()'),
    ("return", [], {}, "return"),
    ("return", ["x"], {}, "return %x: f64"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "operands", "attrs", "line"), GOLDEN)
def test_every_form(name, operands, attrs, line):
    """An instruction prints as `%name = op operands`, each operand with its type."""
    assert emitted(name, operands, **attrs) == line


def test_every_op_has_a_golden_line():
    """Each row that is not elementwise, branches aside, has a line above."""
    forms = {name for name, op in OPS.items() if op.kind.name != "ELEMENTWISE"}
    assert forms - {"branch", "branchEnum", "conditional"} <= {g[0] for g in GOLDEN}


@pytest.mark.parametrize(
    ("value", "type", "shown"),
    [
        (0.1, DOUBLE, "0.1: f64"),
        (-0.0, DOUBLE, "-0.0: f64"),
        (float("inf"), DOUBLE, "inf: f64"),
        (2.0, scalar(F32), "2.0: f32"),
        (1j, scalar(C64), "complex(0.0, 1.0): c64"),
        (False, scalar(BOOL), "false: bool"),
        (UNDEFINED, VECTOR, "undefined: *<_ x f64>"),
        (NULL, VECTOR, "null: *<_ x f64>"),
    ],
)
def test_literals(value, type, shown):
    """Literals stand in place, with their type."""
    assert text(lambda b, v: b.ret(Literal(type, value))) == f"return {shown}"


def test_module_and_edges():
    """Module head, signature, blocks with arguments, and edges with what they pass."""
    module, f, b, (x,) = new_function(DOUBLE, result=DOUBLE)
    loop, end = f.new_block("loop"), f.new_block()
    k = loop.add_arg(INDEX)
    b.branch(loop, [literal(0)])
    b.at_end(loop).conditional(b.emit("lessThan", k, literal(9), name="go"), loop, [k], end)
    b.at_end(end).ret(x)
    module.stage = "optimizable"
    f.attributes.add("inline")
    assert print_module(module) == (
        'module "test"\nstage optimizable\n\n!inline\nfunc @f: (f64) -> f64 {\n'
        "'entry(%p0: f64):\n    branch 'loop(0: i64)\n"
        "'loop(%1^0: i64):\n    %go = lessThan %1^0: i64, 9: i64\n"
        "    conditional %go: bool then 'loop(%1^0: i64) else '2()\n"
        "'2():\n    return %p0: f64\n}\n"
    )


def test_names_are_unique():
    """A name that occurs twice gets a suffix, so that the text says which value is meant."""
    _, f, b, (x,) = new_function(DOUBLE)
    b.emit("cos", b.emit("sin", x, name="y"), name="y")
    lines = print_function(f).splitlines()
    assert lines[2:4] == ["    %y = sin %p0: f64", "    %y_0 = cos %y: f64"]


def test_broken_ir_is_printed():
    """What breaks the rules is printed with a ? for what is missing: the verifier shows it."""
    _, f, b, (x,) = new_function(DOUBLE)
    y = b.emit("sin", x)
    b.emit("add", y, x).operands.pop()
    f.entry.instructions.remove(y)
    f.entry.append(Instruction(OPS["branch"], [], targets=[Target(new_function()[1].entry)]))
    f.entry.append(Instruction(OPS["branch"], []))
    shown = print_function(f)
    assert "%?" in shown and "branch '?()" in shown and "branch ?" in shown
