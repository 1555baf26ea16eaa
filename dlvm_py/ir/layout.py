"""What aggregates are made of: the one table that lowering, the interpreter and the tools share.

A value of any type is a sequence of *leaves*: tensors, pointers to tensors, cells, stacks.

    type                value                           in memory (what a pointer to it is made of)
    tensor              itself                          itself
    tuple, struct       the leaves of the elements      the same, in order
    [n x T]             an array of each leaf of T      the same: arrays of structs are structs of arrays
    enum                a cell                          a cell
    *T, box{T}          a pointer to each leaf of T     a cell that holds these pointers
    stack{T}            a stack of each leaf of T       none

A *cell* is a reference to an immutable record: a tag, the number of the case, and items, the leaves of what the case
holds, array values as pointers to memory that nothing writes any more. So types that hold themselves, by an enum or
by a pointer, have finitely many leaves, and every leaf in memory has a dtype.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm_py.ir.types import (
    CELL,
    VOID,
    ArrayType,
    BoxType,
    EnumType,
    FunctionType,
    NominalType,
    PointerType,
    StackType,
    StructType,
    TensorType,
    TupleType,
    Type,
    scalar,
)

REFERENCE = scalar(CELL)
# in `meta` of a lowered function: its last parameters are leaves of variables of the module, "NAME.LEAF" each
VARIABLES = "variables"


def members(t: Type) -> list[tuple[str, Type]]:
    """The elements of a struct or tuple, with the names that their values get."""
    if isinstance(t, StructType):
        return list(t.fields.items())
    assert isinstance(t, TupleType), t
    return [(str(k), e) for k, e in enumerate(t.elements)]


def leaves(t: Type) -> list[Type]:
    """The leaves of a value. TypeError for the untyped stack, whose leaves depend on the module."""
    match t:
        case TensorType() | FunctionType():
            return [t]
        case TupleType() | StructType():
            return [leaf for _, m in members(t) for leaf in leaves(m)]
        case ArrayType():
            return list(memory_leaves(t))
        case PointerType() | BoxType():
            pointee = t.pointee if isinstance(t, PointerType) else t.element
            layout = t.layout if isinstance(t, PointerType) else "C"
            return [PointerType(leaf, layout) for leaf in memory_leaves(pointee)]
        case EnumType() | NominalType():
            return [REFERENCE]
        case StackType() if t.element is not None:
            return [StackType(leaf) for leaf in leaves(t.element)]
    raise TypeError(f"values of type {t} have no leaves")


def memory_leaves(t: Type) -> list[TensorType]:
    """The leaves of memory that holds a `t`. TypeError for what memory cannot hold."""
    match t:
        case TensorType():
            return [t]
        case TupleType() | StructType():
            return [leaf for _, m in members(t) for leaf in memory_leaves(m)]
        case ArrayType():
            return [TensorType((t.count, *leaf.shape), leaf.dtype) for leaf in memory_leaves(t.element)]
        case PointerType() | BoxType() | NominalType():
            return [REFERENCE]
    raise TypeError(f"memory cannot hold a {t}")


def item_types(types: tuple[Type, ...]) -> TupleType:
    """The items of a cell that holds values of these types."""
    found = [leaf for t in types for leaf in leaves(t)]
    return TupleType(tuple(PointerType(t) if isinstance(t, TensorType) and t.shape else t for t in found))


def leaf_names(t: Type, in_memory: bool = False) -> list[str]:
    """A suffix for each leaf of a value, or of memory: `.x`, `.pair.0`; none where the one leaf is the value itself."""
    match t:
        case TupleType() | StructType():
            return [f".{name}{rest}" for name, m in members(t) for rest in leaf_names(m, in_memory)]
        case ArrayType():
            return leaf_names(t.element, True)
        case PointerType() | BoxType() if not in_memory:
            return leaf_names(t.pointee if isinstance(t, PointerType) else t.element, True)
        case StackType() if t.element is not None:
            return leaf_names(t.element)
    return [""]


def is_plain(t: Type) -> bool:
    """Whether values of this type are their only leaf: what passes and back ends know without lowering."""
    if isinstance(t, PointerType):
        return isinstance(t.pointee, TensorType)
    if isinstance(t, StackType):
        return t.element is not None and is_plain(t.element)
    return isinstance(t, TensorType | FunctionType) or t == VOID


def parts(t: Type) -> Iterator[Type]:
    """All types that `t` is made of, itself first, each nominal type once."""
    seen: set[Type] = set()
    work = [t]
    while work:
        at = work.pop()
        if isinstance(at, NominalType):
            if at in seen:
                continue
            seen.add(at)
        yield at
        match at:
            case StructType():
                work += at.fields.values()
            case EnumType():
                work += [p for held in at.cases.values() for p in held]
            case TupleType():
                work += at.elements
            case ArrayType() | BoxType():
                work.append(at.element)
            case StackType() if at.element is not None:
                work.append(at.element)
            case PointerType():
                work.append(at.pointee)
            case FunctionType():
                work += [*at.params, at.result]


def holds_itself(t: StructType) -> bool:
    """Whether a value of the struct would have a value of the struct inside: no such value is finite."""
    work: list[Type] = list(t.fields.values())
    seen: set[Type] = set()
    while work:
        at = work.pop()
        if at in seen:
            continue
        seen.add(at)
        if at == t:
            return True
        if isinstance(at, StructType | TupleType):
            work += [m for _, m in members(at)]
        elif isinstance(at, ArrayType):
            work.append(at.element)
    return False
