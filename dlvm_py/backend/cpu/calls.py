"""Calls between kernels of one module: recursion, and what was not inlined.

    %r = apply @g(%x: f64, %p: *<_ x f64>) -> (f64, *<_ x f64>)

    call i32 @"dl.g"(ctx, x, data, header, extent, ptr results)     results: memory in the caller's frame
    status 1: return 1                                              the error record is filled already
    load the leaves from results

The fuel is handed over through the context: stored before the call, read again behind it, and the callee stores
what it has left when it returns. A call takes one unit itself, so that a recursion without loops polls as well.
Before the call the guard of `runtime/native/recursion.ll` looks how much of the machine stack is left.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.contract import flat_types
from dlvm_py.backend.cpu.function import FunctionEmitter, Lowered
from dlvm_py.backend.cpu.pointers import Pointer, view
from dlvm_py.backend.cpu.text import ONE, V
from dlvm_py.errors import PassError
from dlvm_py.ir import VOID, Function, Instruction, Module, PointerType, StackType, TupleType, Type
from dlvm_py.ir.analysis.calls import callees, reachable


def kernels(function: Function, module: Module | None) -> list[Function]:
    """`function`, then every function that can be reached from it by calls."""
    known = module.functions if module is not None else {}
    found = reachable(module, function.name) if module is not None else [function]
    for name in (name for f in found for name in callees(f)):
        if name not in known:
            raise PassError(f"apply @{name} reached the back end without the function")
    return found


def apply(e: FunctionEmitter, i: Instruction) -> Lowered | None:
    """Call another kernel of the module; its results."""
    leaves = list(i.type.elements) if isinstance(i.type, TupleType) else [] if i.type == VOID else [i.type]
    types = [t for leaf in leaves for t in flat_types(leaf)]
    struct = "{ " + ", ".join(types) + " }"
    results = e.alloca(struct if types else "i64", 16)
    args = [v for o in i.operands for v in _native(e, e.lookup(o), o.type)]
    e.spend(ONE)
    e.module.declare("dlvm.enter", "i32", ["ptr"])
    room = e.call("@dlvm.enter", "i32", [e.ctx])
    full = e.site("RecursionError", "maximum recursion depth exceeded")
    e.require(e.icmp("eq", room, V("i32", "0")), full)
    e.give_fuel()
    status = e.call(f'@"dl.{i.attrs["callee"]}"', "i32", [e.ctx, *args, results])
    go_on, leave = e.label("returned"), e.label("leave")
    e.likely(e.icmp("eq", status, V("i32", "0")), go_on, leave)
    e.place(leave)
    e.line("ret i32 1")
    e.place(go_on)
    e.take_fuel()
    values = [
        e.load(t, e.value("ptr", f"getelementptr inbounds {struct}, ptr {results.ref}, i32 0, i32 {k}"))
        for k, t in enumerate(types)
    ]
    found: list[Lowered] = []
    for leaf in leaves:
        width = len(flat_types(leaf))
        found.append(e.from_memory_form(leaf, values[:width]))
        values = values[width:]
    if isinstance(i.type, TupleType):
        return found
    return found[0] if found else None


def _native(e: FunctionEmitter, value: Lowered, type: Type) -> list[V]:
    if isinstance(type, StackType):
        assert isinstance(value, V)
        return [value]
    if isinstance(value, Pointer) and isinstance(type, PointerType) and type.layout == "S" and value.strides is None:
        value = view(e, "pointerCast", {}, value, [], type)
    return e.to_memory_form(value)
