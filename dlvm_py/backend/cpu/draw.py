"""Numbers drawn from NumPy's bit generators: calls of what is in a `bitgen_t`, or of NumPy's own compiled code.

    %x = draw standard_normal from %g ()      double npyrandom:random_standard_normal(bitgen_t *)
    %y = draw uniform from %g ()              the third function of the bitgen_t, on its state
    %g = seedGenerator %s                     memory of the context, which Python fills (runtime/told.py)

The lock of a generator is held by the entry (runtime/python_entry.py) for the whole call.
"""

from __future__ import annotations

from dlvm_py.backend.cpu import tell
from dlvm_py.backend.cpu.contract import DATA, scalar_type
from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.values import ONE, V, i64
from dlvm_py.backend.site import Site
from dlvm_py.ir import DTYPES, Instruction
from dlvm_py.ir.distributions import DISTRIBUTIONS, Distribution

# of NumPy's `binomial_t`, and more
_CACHE = 256
# room for a bitgen_t, the state of a PCG64 and its numbers, as `told.seed` lays them out
SEEDED = 128


def draw(e: FunctionEmitter, i: Instruction) -> V:
    """The next number of a distribution."""
    row = DISTRIBUTIONS[i.attrs["distribution"]]
    address, *parameters = (e.scalar(v) for v in i.operands)
    generator = e.cast("inttoptr", address, "ptr")
    result = scalar_type(DTYPES[row.result])
    e.spend(ONE)
    if isinstance(row.function, int):
        function = e.load("ptr", e.gep("ptr", generator, i64(row.function)))
        return e.call(function.ref, result, [e.load("ptr", generator)])
    return _by_library(e, row, row.function, generator, parameters, result)


def _by_library(
    e: FunctionEmitter, row: Distribution, function: str, generator: V, parameters: list[V], result: str
) -> V:
    name = f"npyrandom:{function}"
    if row.form == "fill":
        place = e.scratch(result, 8)
        e.call_import(name, "void", [generator, ONE, place])
        return e.load(result, place)
    if row.form == "cached":
        cache = e.scratch(f"[{_CACHE} x i8]", 8)
        e.store(V(f"[{_CACHE} x i8]", "zeroinitializer"), cache)
        parameters = [*parameters, cache]
    elif row.form == "bounded":  # from 0, without rejection by a mask
        parameters = [V("i64", "0"), *parameters, V("i64", "0"), V("i8 zeroext", "0")]
    return e.call_import(name, result, [generator, *parameters])


def seed(e: FunctionEmitter, i: Instruction) -> V:
    """A new generator in memory of the context."""
    e.module.declare("dlvm.allocate", "ptr", ["ptr", "i64"])
    header = e.call("@dlvm.allocate", "ptr", [e.ctx, i64(SEEDED)])
    e.require_memory(header)
    data = e.load("ptr", e.gep("i8", header, i64(DATA)))
    e.store(e.scalar(i.operands[0]), data)
    tell.ask(e, Site("", "", (), e.loc, "seed"), data)
    return e.cast("ptrtoint", data, "i64")
