"""Types of the IR: dtypes, tensors with unknown extents, strided pointers, tuples, stacks, functions.

The spelling is DLVM's: `f32`, `<1 x 784 x f32>`, `*<3 x f32>`, `(A, B) -> R`, `stack`. Ours are the
unknown extent `_` (`<_ x _ x f64>`), the layouts of strided pointers (`*fortran <_ x _ x f64>`,
`*strided <_ x f64>`; without a word: C-contiguous), and the element type of a stack, `stack{f64}`.

An unknown extent never broadcasts by itself: operands with `_` on an axis have equal extents there
at run time (who builds the IR checks that), only an extent that the type states to be 1 stretches.

Of DLVM's aggregates there are `[4 x T]` (`[_ x T]` in memory), `box{T}`, the untyped `stack`, and the nominal
`$name`: structs, enums, opaque types. Before native code and differentiation they are made of tensors and pointers to
tensors (layout.py says which); what refers to something, an enum or a pointer in memory, is then a `cell`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dlvm_py.frozen import Frozen, field, replace


class DType(Frozen):
    """An element type: `name` as printed, `kind` one of b i u f c (NumPy's letters), `bits` in total."""

    name: str
    kind: str
    bits: int
    numpy_name: str

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        # the name says it all, and types are hashed wherever equal instructions are looked for
        return hash(self.name)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype, native byte order. ImportError for bf16 where ml_dtypes is not installed."""
        return np.dtype(self.numpy_name) if self.is_own else _bfloat16()

    @property
    def is_own(self) -> bool:
        """Whether NumPy itself has the dtype; bf16 is of ml_dtypes, which is imported when it is asked for."""
        return self.name != "bf16"

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return max(self.bits // 8, 1)

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value of an integer dtype (bool: 0 and 1)."""
        if self.kind == "b":
            return 0, 1
        return (0, (1 << self.bits) - 1) if self.kind == "u" else (-(1 << self.bits - 1), (1 << self.bits - 1) - 1)

    @property
    def is_float(self) -> bool:
        """Real floating point."""
        return self.kind == "f"

    @property
    def is_narrow(self) -> bool:
        """f16 and bf16: computed in f32 and rounded, sums kept in f32."""
        return self.kind == "f" and self.bits == 16

    @property
    def is_complex(self) -> bool:
        """Complex floating point."""
        return self.kind == "c"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer (not bool)."""
        return self.kind in "iu"

    @property
    def is_inexact(self) -> bool:
        """Carries derivatives: real or complex floating point."""
        return self.kind in "fc"

    @property
    def real(self) -> DType:
        """The dtype of the real part: the dtype itself where it is not complex."""
        return {"c64": F32, "c128": F64}.get(self.name, self)

    @property
    def complex(self) -> DType | None:
        """The complex dtype with parts of this one, None if there is none."""
        return {"f32": C64, "f64": C128}.get(self.name)


BOOL = DType("bool", "b", 8, "bool")
I8, I16, I32, I64 = (DType(f"i{n}", "i", n, f"int{n}") for n in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"u{n}", "u", n, f"uint{n}") for n in (8, 16, 32, 64))
F16, F32, F64 = (DType(f"f{n}", "f", n, f"float{n}") for n in (16, 32, 64))
BF16 = DType("bf16", "f", 16, "bfloat16")
C64, C128 = (DType(f"c{n}", "c", n, f"complex{n}") for n in (64, 128))

DTYPES: dict[str, DType] = {
    d.name: d for d in (BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128)
}
OWN_DTYPES = [d for d in DTYPES.values() if d.is_own]  # those that NumPy itself has
# a reference to an immutable record {tag, items}: what an enum, or a pointer that lies in memory, is lowered to.
# In NumPy arrays of the interpreter an object; in native code an address, 0 for none
CELL = DType("cell", "r", 64, "object")
ELEMENTS: dict[str, DType] = {**DTYPES, CELL.name: CELL}  # of tensors in the IR
_FROM_NUMPY = {d.numpy: d for d in OWN_DTYPES}


@cache
def _bfloat16() -> np.dtype:
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def is_bfloat16(kind: object) -> bool:
    """Whether a class is that of ml_dtypes' bfloat16 numbers; asked without importing the package."""
    return isinstance(kind, type) and kind.__name__ == "bfloat16" and kind.__module__.partition(".")[0] == "ml_dtypes"


def dtype_of(numpy_dtype: object) -> DType | None:
    """The DType of a NumPy dtype (or anything np.dtype accepts), None for one that we do not have."""
    found = np.dtype(numpy_dtype)  # type: ignore[call-overload]
    if found.num >= np.dtype(np.void).num and is_bfloat16(found.type):
        return BF16
    return _FROM_NUMPY.get(found) if found.isnative else None


class Type(Frozen):
    """Base of all IR types. Types are immutable values: equal when they print alike, but for aliases.

    `alias` is the name under which the program wrote the type, "" for none; it is shown, and means nothing.
    """


class TensorType(Type):
    """A tensor of `dtype` with one extent an axis, None where unknown; rank 0 is a scalar."""

    shape: tuple[int | None, ...]
    dtype: DType
    alias: str = field(default="", compare=False, kw_only=True)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __str__(self) -> str:
        if self.alias:
            return f"${self.alias}"
        if not self.shape:
            return self.dtype.name
        return "<" + " x ".join("_" if n is None else str(n) for n in self.shape) + f" x {self.dtype}>"

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape with another element type."""
        return TensorType(self.shape, dtype)


def scalar(dtype: DType) -> TensorType:
    """The scalar (rank 0 tensor) type of `dtype`."""
    known = _SCALARS.get(dtype.name)  # asked for at every index of every instruction that is made or verified
    if known is None or known.dtype is not dtype:
        known = _SCALARS[dtype.name] = TensorType((), dtype)
    return known


_SCALARS: dict[str, TensorType] = {}


LAYOUTS = ("C", "F", "S")
_LAYOUT_WORD = {"C": "", "F": "fortran ", "S": "strided "}


class PointerType(Type):
    """A reference to a strided tensor in memory.

    `layout` is what is known of the strides: "C" (C-contiguous), "F" (Fortran-contiguous, rank 2 or
    more), "S" (any strides, also negative and 0). Rank 0 and rank 1 contiguous pointers are "C".
    """

    pointee: TensorType  # or an aggregate: what asks for the dtype or the extents has a tensor
    layout: str = "C"
    alias: str = field(default="", compare=False, kw_only=True)

    def __str__(self) -> str:
        return f"${self.alias}" if self.alias else f"*{_LAYOUT_WORD[self.layout]}{self.pointee}"

    @property
    def rank(self) -> int:
        """Rank of the tensor that is pointed to."""
        return self.pointee.rank

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.pointee.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Extents as far as known."""
        return self.pointee.shape


class TupleType(Type):
    """A tuple; `()` is void."""

    elements: tuple[Type, ...]
    alias: str = field(default="", compare=False, kw_only=True)

    def __str__(self) -> str:
        return f"${self.alias}" if self.alias else "(" + ", ".join(map(str, self.elements)) + ")"


VOID = TupleType(())


class StackType(Type):
    """A LIFO of values of one type: the tape of differentiation. DLVM's `stack`, without a type, takes any value."""

    element: Type | None
    alias: str = field(default="", compare=False, kw_only=True)

    def __str__(self) -> str:
        if self.alias:
            return f"${self.alias}"
        return "stack" if self.element is None else f"stack{{{self.element}}}"


class ArrayType(Type):
    """`count` values of one type in a row; None where that is unknown."""

    count: int | None
    element: Type
    alias: str = field(default="", compare=False, kw_only=True)

    def __str__(self) -> str:
        return f"${self.alias}" if self.alias else f"[{'_' if self.count is None else self.count} x {self.element}]"


class BoxType(Type):
    """A reference-counted cell."""

    element: Type
    alias: str = field(default="", compare=False, kw_only=True)

    def __str__(self) -> str:
        return f"${self.alias}" if self.alias else f"box{{{self.element}}}"


class NominalType(Type):
    """A type with a name, which alone makes it equal to another. Also an opaque one, `type $T = opaque`."""

    name: str
    alias: str = field(default="", compare=False, kw_only=True)

    def __str__(self) -> str:
        return f"${self.alias or self.name}"


class StructType(NominalType):
    """Named fields in order. They are filled in after the name is known, so that types may be mutual."""

    fields: dict[str, Type] = field(default_factory=dict, compare=False)


class EnumType(NominalType):
    """Cases, each with the types of what it holds; a case may hold the enum itself."""

    cases: dict[str, tuple[Type, ...]] = field(default_factory=dict, compare=False)


class Alias(Frozen):
    """A declaration `type $name = target`. An alias is no type of its own: what it names is the target, called so."""

    name: str
    target: Type


class FunctionType(Type):
    """Parameter types and result type."""

    params: tuple[Type, ...]
    result: Type
    alias: str = field(default="", compare=False, kw_only=True)

    def __str__(self) -> str:
        return f"${self.alias}" if self.alias else "(" + ", ".join(map(str, self.params)) + f") -> {self.result}"


def is_scalar(t: Type) -> bool:
    """Whether `t` is a rank 0 tensor."""
    return isinstance(t, TensorType) and not t.shape


def is_array(t: Type) -> bool:
    """Whether `t` is a tensor value of rank 1 or more."""
    return isinstance(t, TensorType) and bool(t.shape)


def called(t: Type, alias: str) -> Type:
    """The same type, printed under this name."""
    return replace(t, alias=alias)


def expanded(t: Type) -> Type:
    """The same type without the names of aliases, at any depth."""
    match t:
        case PointerType(pointee):
            # the pointee may be an aggregate
            return PointerType(expanded(pointee), t.layout)  # type: ignore[arg-type]
        case TupleType(elements):
            return TupleType(tuple(map(expanded, elements)))
        case FunctionType(params, result):
            return FunctionType(tuple(map(expanded, params)), expanded(result))
        case StackType(element):
            return StackType(element and expanded(element))
        case BoxType(element):
            return BoxType(expanded(element))
        case ArrayType(count, element):
            return ArrayType(count, expanded(element))
    return called(t, "")
