"""What compiled code tells Python while it runs: `print`, and exceptions that show more than few plain numbers.

    print "x is {}" to stdout (%x: *<_ x f64>)

    store the native form of the operands to memory of the frame, one literal struct
    i32 @dlvm.tell(ctx, site, memory)         takes the GIL and calls the version's Python object `tell`
    status 1: return 1                        an exception is set

The Python side, which makes objects of the memory, is `runtime/told.py`. A library of `backend/aot` has no Python:
tools/aot.py refuses programs that tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm_py.backend.cpu import indices
from dlvm_py.backend.cpu.contract import MAX_OPERANDS
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.values import V
from dlvm_py.backend.site import Site
from dlvm_py.errors import PassError
from dlvm_py.ir import OPS, Instruction, Literal, PointerType, Value
from dlvm_py.ir.analysis.effects import is_pure
from dlvm_py.ir.text import flavours_of

_RECORDED = ("i64", "f64", "f32", "bool")


def fail(e: FunctionEmitter, i: Instruction, operands: Sequence[Value]) -> None:
    """End the current block: the exception of a check or raise, with its operands in the message."""
    exception, message = i.attrs["exception"], i.attrs["message"]
    names = tuple(v.type.dtype.name for v in operands)  # type: ignore[attr-defined]
    plain = not i.attrs.get("flavours") and not any(isinstance(v.type, PointerType) for v in operands)
    if plain and len(operands) <= MAX_OPERANDS and all(n in _RECORDED for n in names):
        site = e.site(exception, message, names, i.attrs.get("assuming", ""))
        e.fail(site, [e.scalar(v) for v in operands])
        return
    _call(e, Site(exception, message, _kinds(i, operands), e.loc), _memory(e, operands))
    e.line("ret i32 1")


def check(e: FunctionEmitter, i: Instruction) -> None:
    """Go on where the condition holds.

    A check behind which another one follows that implies it waits for that one: `int(x)` asks whether x is a number,
    whether it is finite, and whether it fits, of which the last is asked first, and the others where it fails.
    """
    if _is_implied_later(i):
        e.waiting.append(i)
        return
    ok, bad = e.label("ok"), e.label("fail")
    index = indices.index_of(i)
    if index is not None:
        found = indices.ask(e, index, ok, bad)
    elif _is_case(i.operands[0]):
        e.cond_br(e.scalar(i.operands[0]), ok, bad)
    else:
        e.likely(e.scalar(i.operands[0]), ok, bad)
    e.place(bad)
    for earlier in e.waiting:
        go_on, raises = e.label("ok"), e.label("fail")
        e.cond_br(e.scalar(earlier.operands[0]), go_on, raises)
        e.place(raises)
        _fail_at(e, earlier)
        e.place(go_on)
    e.waiting.clear()
    _fail_at(e, i)
    e.place(ok)
    if index is not None and index.is_wrapped:
        e.env[index.value] = found


def _fail_at(e: FunctionEmitter, i: Instruction) -> None:
    before, e.loc = e.loc, i.loc or e.loc
    fail(e, i, i.operands[1:])
    e.loc = before


def _is_implied_later(i: Instruction) -> bool:
    """Whether a check of a float is followed by one that it lies between two numbers, with no effect between them."""
    x = _is_number(i.operands[0])
    if x is None or i.block is None:
        return False
    behind = i.block.instructions[i.block.instructions.index(i) + 1 :]
    for other in behind:
        if other.op is OPS["check"] and _lies_between(other.operands[0]) is x:
            return True
        if not (is_pure(other) or other.op is OPS["check"] and _is_number(other.operands[0]) is x):
            return False
    return False


def _is_number(condition: Value) -> Value | None:
    """The float of which a condition asks that it is finite, or no NaN."""
    if not isinstance(condition, Instruction):
        return None
    if condition.op is OPS["isFinite"]:
        return condition.operands[0]
    (asked, *_) = condition.operands
    is_negated = condition.op is OPS["not"] and isinstance(asked, Instruction) and asked.op is OPS["isNan"]
    return asked.operands[0] if is_negated else None  # type: ignore[attr-defined]


def _lies_between(condition: Value) -> Value | None:
    """The value that is less than a literal and not less than another one."""
    if not isinstance(condition, Instruction) or condition.op is not OPS["and"]:
        return None
    sides = [c for c in condition.operands if isinstance(c, Instruction) and isinstance(c.operands[-1], Literal)]
    if [c.op.name for c in sides] != ["lessThan", "greaterThanOrEqual"]:
        return None
    below, above = sides
    return below.operands[0] if below.operands[0] is above.operands[0] else None


def _is_case(condition: Value) -> bool:
    """Whether an integer is compared with a constant for equality.

    LLVM makes a switch of several such branches. With weights it fails (an assertion in removeCase) where they cover
    all that the integer can be.
    """
    if not isinstance(condition, Instruction):
        return False
    if condition.op.name == "not":
        return _is_case(condition.operands[0])
    return condition.op.name in ("equal", "notEqual") and any(isinstance(v, Literal) for v in condition.operands)


def print_(e: FunctionEmitter, i: Instruction) -> None:
    """Write a text to a stream of Python, or warn with it."""
    flush = bool(i.attrs.get("flush"))
    kinds, above = _kinds(i, i.operands), bool(i.attrs.get("above"))
    site = Site("", i.attrs["message"], kinds, e.loc, i.attrs["to"], flush, above=above)
    ask(e, site, _memory(e, i.operands))


def ask(e: FunctionEmitter, site: Site, memory: V) -> None:
    """Call Python about a site, with memory that it may read and fill; leave where that raises."""
    status = _call(e, site, memory)
    go_on, leave = e.label("told"), e.label("leave")
    e.likely(e.icmp("eq", status, V("i32", "0")), go_on, leave)
    e.place(leave)
    e.line("ret i32 1")
    e.place(go_on)


def _memory(e: FunctionEmitter, operands: Sequence[Value]) -> V:
    """The native form of operands, in memory of the frame."""
    return packed(e, [part for v in operands for part in e.to_memory_form(e.lookup(v))])


def packed(e: FunctionEmitter, values: Sequence[V]) -> V:
    """Values one behind the other in memory of the frame, as in a C struct."""
    struct = "{ " + ", ".join(v.type for v in values) + " }"
    memory = e.scratch(struct if values else "i64", 16)
    for k, v in enumerate(values):
        e.store(v, e.value("ptr", f"getelementptr inbounds {struct}, ptr {memory.ref}, i32 0, i32 {k}"))
    return memory


def _call(e: FunctionEmitter, site: Site, memory: V) -> V:
    e.sites.append(site)
    e.module.declare("dlvm.tell", "i32", ["ptr", "i32", "ptr"])
    return e.call("@dlvm.tell", "i32", [e.ctx, V("i32", str(len(e.sites) - 1)), memory])


def _kinds(i: Instruction, operands: Sequence[Value]) -> tuple[str, ...]:
    return tuple(map(_kind, operands, flavours_of(operands, i.attrs)))


def _kind(value: Value, flavour: str) -> str:
    t = value.type
    if isinstance(t, PointerType):
        return f"{flavour} {t.dtype.name} {t.rank} {t.layout}"
    if not hasattr(t, "dtype"):
        raise PassError(f"a text with a value of type {t}")
    return f"{flavour} {t.dtype.name} 0 -"
