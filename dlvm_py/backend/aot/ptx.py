"""Exports → PTX text: one entry a function, of one GPU thread.

    kernel text + wrapper text, link with runtime/native/device.ll, optimise, --NVPTX--> .visible .entry model_f(...)

The code is that of the CPU's back end: loops in order, and memory where the program wants some, from an arena that
the caller gives. Nothing is spread over threads. What calls a library (libm, BLAS) or itself is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlvm_py.backend.aot.abi import Export
from dlvm_py.backend.aot.wrapper import Wrapper, place_text
from dlvm_py.backend.cpu.compile import link, optimise, parse, support_text, target_lines
from dlvm_py.backend.cpu.contract import OPERANDS, SITE, THREAD_STATE
from dlvm_py.backend.cpu.emit import emit
from dlvm_py.backend.cpu.text import ModuleText, without_kept
from dlvm_py.backend.cpu.values import V, i64
from dlvm_py.backend.gpu.ptx import machine
from dlvm_py.backend.imports import Imports
from dlvm_py.errors import InternalError, UnknownFunction
from dlvm_py.ir import VOID, Builder, Function, Instruction, Kind, Literal, Op, TensorType, scalar
from dlvm_py.options import Options

ARCHITECTURES = ("sm_60", "sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
DEFAULT = "sm_75"
_ARENA = "{ i64, i64 }"
_THREAD = [f"llvm.nvvm.read.ptx.sreg.{what}.{axis}" for what in ("tid", "ctaid") for axis in "xyz"]


def ptx_text(exports: Sequence[Export], source: str, architecture: str = DEFAULT) -> str:
    """The PTX of `exports`, whose kernels need no imports (`refuse_imports`)."""
    to = machine(architecture)
    head = target_lines(to)
    modules, comments = [], [f"// Made by dlc from {source} for {architecture}: each entry is for one thread.\n"]
    for export in exports:
        writer = Entry(ModuleText(), export)
        text = writer.text()
        comments.append(_comment(writer))
        modules.append(link([parse(without_kept(export.text), head), parse(text, head)], [export.name]))
    imports = Imports()
    whole = link([*modules, parse(support_text(imports, "device.ll"), head)], [e.name for e in exports])
    if imports.names:
        raise InternalError(f"the runtime of a GPU thread imports {imports.names}")
    optimise(whole, to)
    return "".join(comments) + to.emit_assembly(whole)


class Entry(Wrapper):
    """A kernel entry: the parameters of the C function, then arena, arena_bytes, status; no result.

    status: int64_t[5]: 0, -1 where the arena is too small, else the number of the error; behind it its operands.
    """

    convention = "ptx_kernel "

    def __init__(self, module: ModuleText, export: Export) -> None:
        super().__init__(module, export, "void", self.convention, ["ptr", "i64", "ptr"])

    def text(self) -> str:
        """The LLVM IR module of the entry."""
        self.write()
        return f"{self.f.module}\n{''.join(self.constants)}"

    def one_thread(self) -> None:
        """The other threads of a launch leave."""
        f = self.f
        places = [f.intrinsic(name, "i32") for name in _THREAD]
        other, mine = f.label("other"), f.label("mine")
        f.cond_br(f.any(*(f.icmp("ne", p, V("i32", "0")) for p in places)), other, mine)
        f.place(other)
        f.line("ret void")
        f.place(mine)

    def begin(self) -> None:
        """The arena goes into the context."""
        self.one_thread()
        f = self.f
        arena, nbytes, _ = self.more
        state = f.alloca(_ARENA, 8)
        start = f.cast("ptrtoint", arena, "i64")
        f.store(start, state)
        f.store(f.add(start, nbytes), f.gep("i64", state, i64(1)))
        f.store(state, f.gep("i8", self.context, i64(THREAD_STATE)))

    def fail(self) -> None:
        """Hand the site and the operands over."""
        f, status = self.f, self.more[2]
        site = f.cast("sext", f.load("i32", f.gep("i8", self.context, i64(SITE))), "i64")
        number = f.select(f.icmp("slt", site, i64(0)), i64(-1), f.add(site, i64(1)))
        f.store(number, status)
        for k in range(4):
            bits = f.load("i64", f.gep("i8", self.context, i64(OPERANDS + 8 * k)))
            f.store(bits, f.gep("i64", status, i64(k + 1)))
        f.line("ret void")

    def succeed(self) -> None:
        """No error."""
        self.f.store(i64(0), self.more[2])
        self.f.line("ret void")


def _comment(writer: Entry) -> str:
    """What an entry takes, and its errors by number."""
    declared = [p.declared for p in (*writer.given, *writer.outs)]
    declared += ["void *arena", "int64_t arena_bytes", "int64_t status[5]"]
    lines = ["", writer.export.title, f"{writer.export.name}({', '.join(declared)})"]
    lines += [f"status {k + 1}: {s.exception}: {s.message}{place_text(s)}" for k, s in enumerate(writer.sites)]
    return "".join(f"// {line}".rstrip() + "\n" for text in lines for line in text.splitlines() or [""])


def refuse_imports(function: Function, imports: Imports) -> None:
    """UnknownFunction at the first instruction of `function` that calls what a GPU thread does not have.

    imports: what the code of the function needs.
    """
    for i in function.instructions():
        if i.op.kind is Kind.CALL:
            raise _refusal(i, f"calls of functions (@{i.attrs.get('callee', '?')} is recursive)")
    if not imports.names:
        return
    for i in function.instructions():
        if i.op.kind is Kind.ELEMENTWISE:
            names = _needed(i)
        else:
            names = [n for n in imports.names if n.startswith("blas:")] if i.op.name == "dot" else []
        if names:
            raise _refusal(i, f"{i.op.name}, which calls {_symbol(names[0])}")
    raise _refusal(None, _symbol(imports.names[0]))


def _needed(i: Instruction) -> list[str]:
    operands: list[TensorType | Literal] = []
    for o in i.operands:
        if isinstance(o, Instruction) and o.op.name == "broadcast":
            o = o.operands[0]
        assert isinstance(o.type, TensorType)
        operands.append(o if isinstance(o, Literal) and not o.type.shape else scalar(o.type.dtype))
    return imports_of(i.op, operands, i.attrs)


def imports_of(op: Op, operands: Sequence[TensorType | Literal], attrs: Mapping[str, Any]) -> list[str]:
    """What an elementwise op calls for scalars of these types, found by writing its code.

    A constant can make a difference: x to the power of 2 is a product.
    """
    function = Function("alone", VOID)
    b = Builder(function, function.new_block("entry"))
    values = [o if isinstance(o, Literal) else function.entry.add_arg(o, f"x{k}") for k, o in enumerate(operands)]
    result = b.emit(op, *values, **attrs)
    b.ret(result)
    function.result = result.type
    imports = Imports()
    emit(function, imports, Options())
    return imports.names


def _symbol(name: str) -> str:
    kind, _, symbol = name.partition(":")
    return f"{symbol} of {'BLAS' if kind == 'blas' else 'libm'}"


def _refusal(i: Instruction | None, what: str) -> UnknownFunction:
    return UnknownFunction(
        f"there is no GPU code for {what}",
        i.loc if i is not None else None,
        help="code for a GPU thread is arithmetic, control flow and loops over arrays",
        code="DL301",
    )
