"""The Op row: everything that is true of an operation on every target, declared once.

A row is a frozen dataclass with no defaults where a gap would be silent: the type rule, the effects,
the NumPy semantics (`evaluate`, which the reference interpreter runs) and exactly one derivative form:

* `partials=`       partials(y, *x) -> one local partial an operand (None: no flow). Both modes follow.
* `adjoint=`        adjoint(seed, y, *x) -> one adjoint an operand; and beside it `tangent=`: LINEAR (the op itself, on
                    the tangents of its inexact operands), MULTILINEAR (a sum: the op with one operand replaced by its
                    tangent), or tangent(t, y, *x) -> the tangent of y, t the tangents (None: zero) of the operands.
* `no_derivative=`  the reason, in words that a user can read.

Rules are written on `Expr` operands (see builder.py), with Python operators and with ops called as
functions; the same lambda therefore runs on NumPy arrays, and tests use that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from dlvm_py.frozen import Frozen, field


class Kind(Enum):
    """What an op is, which decides the skeleton that lowers it and what fusion may join."""

    ELEMENTWISE = "elementwise"  # one result element from the operands' elements at the same place
    INDEX = "index"  # moves elements without computing; a view when applied to a pointer
    GENERATE = "generate"  # elements from their index (iota) or from a smaller operand (broadcast)
    REDUCTION = "reduction"
    CONTRACTION = "contraction"
    MEMORY = "memory"
    STACK = "stack"
    AGGREGATE = "aggregate"
    CALL = "call"
    HIGHER_ORDER = "higher order"  # takes a function value
    CHECK = "check"
    CONTROL = "control"  # terminators


LINEAR, MULTILINEAR = "linear", "multilinear"
READ, WRITE, ALLOCATE, TRAP = "read", "write", "allocate", "trap"
# something that everybody can see happens, each time it runs: it is never left out, moved, merged or run again. What
# has it may raise too, so that it has TRAP beside it
IO = "io"


class Op(Frozen):
    """One operation. See the module docstring for the derivative forms."""

    name: str
    kind: Kind
    result_type: Callable[..., Any]  # (operands: Sequence[Value], attrs) -> Type; raises TypeError
    evaluate: Callable[..., Any] | None  # NumPy semantics: (*operands, **attrs) -> result
    attrs: tuple[str, ...] = ()
    effects: frozenset[str] = frozenset()
    partials: Callable[..., Any] | None = None
    adjoint: Callable[..., Any] | None = None
    tangent: Callable[..., Any] | str | None = None
    no_derivative: str | None = None
    singular: bool = False  # partials can be inf or nan at finite operands: the seed is guarded
    commutative: bool = False
    numpy_name: str | None = None  # its NumPy spelling, for tables and messages
    doc: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    is_terminator: bool = False  # ends a block, as its kind says

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_terminator", self.kind is Kind.CONTROL)
        forms = [f for f in (self.partials, self.adjoint, self.no_derivative) if f is not None]
        if len(forms) != 1:
            raise TypeError(f"op {self.name}: give exactly one derivative form, not {len(forms)}")
        if self.tangent is not None and self.adjoint is None:
            raise TypeError(f"op {self.name}: a tangent rule stands beside an adjoint rule")

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Apply to Expr operands (emits an instruction) or to NumPy values (evaluates)."""
        for a in args:
            emit = getattr(a, "emit_op", None)
            if emit is not None:
                return emit(self, args, attrs)
        if self.evaluate is None:
            raise TypeError(f"op {self.name} has no value semantics")
        return self.evaluate(*args, **attrs)

    def __repr__(self) -> str:
        return f"Op({self.name})"

    __hash__ = object.__hash__  # each row is itself alone
    __eq__ = object.__eq__

    @property
    def is_pure(self) -> bool:
        """No effects at all: may be duplicated, moved, removed."""
        return not self.effects and self.kind not in (Kind.CONTROL, Kind.STACK, Kind.CALL, Kind.CHECK)


def table(*families: Sequence[Op]) -> dict[str, Op]:
    """One dictionary of all rows by name; a name declared twice is an error."""
    ops: dict[str, Op] = {}
    for family in families:
        for op in family:
            if op.name in ops:
                raise TypeError(f"op {op.name} is declared twice")
            ops[op.name] = op
    return ops
