"""LLVM IR texts → one optimised object file for this machine.

The texts (kernels, entry) are linked with what of the runtime (`runtime/native`) is inlined, and the definition of the
imports table; everything but the exported symbols becomes internal; LLVM's O3 pipeline runs for the host's CPU.
The object is position independent. It leaves undefined what LLVM itself calls for an instruction or a recognised loop
(memcpy, memmove, memset, which every process has), and functions that are the same for all modules, `Compiled.shared`:
they are compiled once and linked at load (`runtime/native/standing.py`). `backend/aot` makes its libraries of the same
steps, with everything inside.
"""

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections.abc import Collection, Sequence
from importlib import resources
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

from dlvm_py.backend.cpu import elementary, unlocked
from dlvm_py.backend.cpu.contract import VARIABLE
from dlvm_py.backend.cpu.outline import BRIEFLY
from dlvm_py.backend.cpu.parts import Part
from dlvm_py.backend.cpu.text import KEPT
from dlvm_py.backend.imports import Imports
from dlvm_py.deferred import deferred
from dlvm_py.errors import InternalError
from dlvm_py.frozen import Frozen
from dlvm_py.options import Schedule

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = deferred("concurrent.futures")

IMPORTS_SYMBOL = "dlvm.imports"
USUAL = Schedule()
# the CPU that this process runs on
NATIVE = "native"
# parts of the runtime that only modules which call them carry
RECURSION = "@dlvm.enter"
OPTIONAL = {
    RECURSION: ("recursion.ll",),
    "@dlvm.cut": ("cut.ll",),
    "@dlvm.tell": ("tell.ll", "ask.ll"),
    "@dlvm.gpu.": ("gpu.ll", "ask.ll"),
}
# work between two polls, in elements and iterations: about a millisecond or two
POLL_FUEL = 1 << 21
# Blocks of a module from which on O2 optimises it. O3 takes a third longer: it unswitches loops and unrolls more, which
# of NPBench's kernels a few short ones gain from.
LONG = 200

# how the names of functions begin that modules share
SHARED = ("dlvm.", "entry.")

_SLOT = re.compile(r"\{import:([^}]+)\}")
_INTERNAL = re.compile(r"^define internal\b", re.MULTILINE)  # not what a string constant says


class Compiled(Frozen):
    """Object files, the optimised LLVM IR that they were made of, and the CPU that they are for.

    texts: none, where nobody asked for them. shared: the functions of ours that they call and do not have.
    """

    objects: tuple[bytes, ...]
    texts: tuple[str, ...]
    cpu: str = NATIVE
    shared: tuple[str, ...] = ()

    @property
    def object(self) -> bytes:
        """The object, where it is one."""
        (found,) = self.objects
        return found

    @property
    def llvm(self) -> str:
        """The optimised LLVM IR, all parts as one module."""
        first, *others = self.texts
        if not others:
            return first
        whole = parse(first)
        for text in others:
            whole.link_in(parse(text))
        return str(whole)

    def asm(self) -> str:
        """The assembly (made anew: only people read it)."""
        machine = target_machine(self.cpu)
        return "".join(machine.emit_assembly(parse(text)) for text in self.texts)


def compile_module(
    texts: Sequence[str],
    imports: Imports,
    exports: Sequence[str] | None = None,
    schedule: Schedule = USUAL,
    table: str = IMPORTS_SYMBOL,
    plain: bool = False,
    readable: bool = True,
) -> Compiled:
    """Link, optimise and assemble `texts`.

    exports: the symbols that stay visible beside the imports table; None: what the texts define as external and is no
    kernel (kernels are `dl.NAME`), or the kernels where there is nothing else. table: the symbol of the imports table,
    for an object that is linked with another one that has a table. plain: LLVM does not optimise the texts, it only
    generates good code for them as they are, which for straight code without loops takes half the time.
    readable: whether what LLVM makes of the texts is wanted as a text, too.
    InternalError if a text is no valid LLVM IR.
    """
    linked = _linked(texts, imports, exports)
    linked.get_global_variable(IMPORTS_SYMBOL).name = table
    if plain:
        return Compiled((assemble_plainly(linked, opt=1),), (str(linked),) if readable else (), shared=_shared(linked))
    return assemble(linked, schedule=schedule, readable=readable)


def compile_plainly(texts: Sequence[str], imports: Imports, exports: Sequence[str]) -> Compiled:
    """As `compile_module`, for texts that are good code as they stand: two objects (`assemble_by_heat`)."""
    linked = _linked(texts, imports, exports, llvm.Linkage.linkonce_odr)
    shared = _shared(linked)
    return Compiled(assemble_by_heat(linked), (), shared=shared)


def _linked(
    texts: Sequence[str],
    imports: Imports,
    exports: Sequence[str] | None,
    inner: llvm.Linkage = llvm.Linkage.internal,
) -> llvm.ModuleRef:
    """One module of the texts, what of the runtime they inline, and the table of imports.

    inner: the linkage of functions that are not exported.
    """
    count, texts = len(texts), [*texts, *_runtime(texts, imports)]
    if inner != llvm.Linkage.internal:  # LLVM does not forget that a function was internal: that it is near
        texts = [_INTERNAL.sub(f"define {inner.name}", text) for text in texts]
    modules = [parse(text) for text in texts]
    if exports is None:
        exports = _entries(modules[:count])
    return link([parse(_memory(imports)), *modules], exports, inner)


def compile_parts(
    parts: Sequence[Part],
    imports: Imports,
    exports: Sequence[str],
    schedule: Schedule,
    threads: int,
    readable: bool = True,
) -> Compiled:
    """The parts of one module (parts.py), each an object, of which the first exports `exports`.

    They are compiled at the same time by so many threads. readable: as of `compile_module`.
    """
    if len(parts) == 1:
        return compile_module([parts[0].text], imports, exports, schedule, readable=readable)
    runtimes = [_runtime([part.text], imports) for part in parts]  # before all: which names further imports
    heads = [[_memory(imports)], *([] for _ in parts[1:])]
    visible = [{*exports, *parts[0].exports}, *(part.exports for part in parts[1:])]

    def compiled(k: int) -> Compiled:
        context = llvm.create_context()
        texts = [*heads[k], parts[k].text, *runtimes[k]]
        linked = link([parse(text, context=context) for text in texts], visible[k])
        return assemble(linked, schedule=schedule, context=context, readable=readable)

    if threads == 1 or not threading.main_thread().is_alive():  # no thread starts while the interpreter ends
        found = [compiled(k) for k in range(len(parts))]
    else:
        with futures.ThreadPoolExecutor(min(threads, len(parts))) as pool:
            found = list(pool.map(compiled, range(len(parts))))
    shared = dict.fromkeys(name for one in found for name in one.shared)
    texts = tuple(text for c in found for text in c.texts)
    return Compiled(tuple(c.object for c in found), texts, shared=tuple(shared))


def _runtime(texts: Sequence[str], imports: Imports) -> list[str]:
    """What of the runtime the functions of these texts inline."""
    optional = [name for what, names in OPTIONAL.items() if any(what in text for text in texts) for name in names]
    return [support_text(imports, name) for name in dict.fromkeys(("inline.ll", *optional))]


def _memory(imports: Imports) -> str:
    """The definition of the table of imports."""
    return f"@{IMPORTS_SYMBOL} = global [{max(len(imports.names), 1)} x ptr] zeroinitializer, align 8\n"


def _entries(modules: Sequence[llvm.ModuleRef]) -> list[str]:
    visible = [
        f.name for m in modules for f in m.functions if not f.is_declaration and f.linkage == llvm.Linkage.external
    ]
    return [name for name in visible if not name.startswith("dl.")] or visible


def link(
    modules: Sequence[llvm.ModuleRef], exports: Collection[str], inner: llvm.Linkage = llvm.Linkage.internal
) -> llvm.ModuleRef:
    """One module of all (which are used up), in which only the functions `exports` can be seen from outside.

    inner: the linkage of the others.
    """
    linked, *others = modules
    for module in others:
        linked.link_in(module)
    for f in linked.functions:
        if not f.is_declaration and f.name not in exports:
            f.linkage = inner
    return linked


def assemble(
    module: llvm.ModuleRef,
    cpu: str = NATIVE,
    schedule: Schedule = USUAL,
    context: llvm.ContextRef | None = None,
    readable: bool = True,
) -> Compiled:
    """Optimise a whole module and make its object. InternalError if it is no valid LLVM IR.

    context: that of the module, where it has one of its own, so that other threads may compile at the same time.
    readable: as of `compile_module`.
    """
    machine = target_machine(cpu, schedule.vector_bits, gathers=schedule.gathers)
    is_here = cpu == NATIVE
    optimise(module, machine, schedule, context, is_here and has_masks(), is_here and has_permutes())
    texts = (str(module),) if readable else ()  # before code generation, which rewrites the module for itself
    shared = _shared(module)
    return Compiled((_emit_object(machine, module, context is not None),), texts, cpu, shared)


def _emit_object(machine: llvm.TargetMachine, module: llvm.ModuleRef, is_apart: bool = False) -> bytes:
    made: bytes = unlocked.emit_object(machine, module) if is_apart else machine.emit_object(module)
    return made


def _shared(module: llvm.ModuleRef) -> tuple[str, ...]:
    return tuple(f.name for f in module.functions if f.is_declaration and f.name.startswith(SHARED))


def assemble_plainly(module: llvm.ModuleRef, opt: int = 0) -> bytes:
    """The object of a module as it is, for this machine.

    opt: the level of code generation; 0 takes an eighth of the time of all, for code whose speed is nothing.
    """
    machine = target_machine(opt=opt)
    _make_ready(module, machine)
    return _emit_object(machine, module)


def assemble_by_heat(module: llvm.ModuleRef) -> tuple[bytes, bytes]:
    """Two objects of a module as it is: good code, and what is marked `cold`, for which any code will do.

    Code generation takes a quarter of the time for the latter. Each calls what the other has by its name, and takes its
    address from a table, as the two may lie anywhere: no function of the module is, or was, internal.
    """
    quick, good = target_machine(opt=0), target_machine(opt=1)
    _make_ready(module, good)
    for f in module.functions:
        if not f.is_declaration:
            f.linkage = llvm.Linkage.external
    hot, cold = module, module.clone()
    for part, kept in ((hot, False), (cold, True)):
        for f in part.functions:
            if not f.is_declaration and _is_cold(f) != kept:
                f.linkage = llvm.Linkage.available_externally
    cold.get_global_variable(IMPORTS_SYMBOL).linkage = llvm.Linkage.available_externally
    return _emit_object(good, hot), _emit_object(quick, cold)


def _is_cold(function: llvm.ValueRef) -> bool:
    return _has(function, b"cold")


def _has(function: llvm.ValueRef, attribute: bytes) -> bool:
    return any(attribute in attributes.split() for attributes in function.attributes)


def _make_ready(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """What must be done at any level: functions are defined, coroutines are cut, some calls inlined."""
    _define(module)
    _verify(module)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    builder.getModulePassManager().run(module, builder)


def support_text(imports: Imports, name: str) -> str:
    """A text of the runtime with the slots of its imports filled in."""
    text = _runtime_text(name).replace("{fuel}", str(POLL_FUEL))
    return _SLOT.sub(lambda found: str(imports.index(found[1])), text)


@functools.cache
def _runtime_text(name: str) -> str:
    # by its path from the package's root: the back end imports nothing of the runtime
    return resources.files("dlvm_py").joinpath(f"runtime/native/{name}").read_text(encoding="utf-8")


def parse(text: str, head: str | None = None, context: llvm.ContextRef | None = None) -> llvm.ModuleRef:
    """The module of an LLVM IR text; InternalError if it is none.

    head: `target_lines` of another target. context: where LLVM keeps its types and constants, if not that of all.
    """
    try:
        # the layout is known from the start: without it LLVM would align i64 to 4 bytes
        return llvm.parse_assembly(text if "target datalayout" in text else (head or _host_lines()) + text, context)
    except RuntimeError as error:
        raise InternalError(f"the generated LLVM IR is wrong: {error}") from None


def _verify(module: llvm.ModuleRef) -> None:
    try:
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"the generated LLVM IR is wrong: {error}") from None


def target_machine(cpu: str = NATIVE, vector_bits: int = 0, opt: int = 3, gathers: bool = True) -> llvm.TargetMachine:
    """LLVM's code generator for this machine's CPU, or for another model of its architecture ("x86-64-v3").

    vector_bits: how wide vectors are where this CPU has those of 512 bits; 0: as LLVM thinks best.
    gathers: as of Schedule; where they are slow, which LLVM takes them not to be.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    native = cpu == NATIVE
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name() if native else cpu,
        features=_features(vector_bits, gathers) if native else "",
        opt=opt,
        reloc="pic",
        codemodel="small",
    )


def schedules() -> list[Schedule]:
    """The schedules that are worth a measurement on this CPU."""
    found = [Schedule(level=2), Schedule(level=3), Schedule(interleave=False), Schedule(unroll=False)]
    if llvm.get_host_cpu_features().get("avx512f"):
        found += [Schedule(vector_bits=256), Schedule(vector_bits=512)]
    return found


def _features(vector_bits: int, gathers: bool = True) -> str:
    """The features of this CPU, as LLVM names them, that are worth it.

    SSE4A's are not: `insertq` is of the encoding before AVX, which took 100 ns behind a vector of 256 bits.
    """
    found = llvm.get_host_cpu_features()
    said = f"{found.flatten()},-sse4a"
    if not gathers and _has_slow_gathers():
        said += ",+prefer-no-gather"
    if not vector_bits or not found.get("avx512f"):
        return said
    return f"{said},{'+' if vector_bits == 256 else '-'}prefer-256-bit"


def _has_slow_gathers() -> bool:
    """Whether a vector is gathered slower than its elements are loaded one by one: 3 cycles an element on a Zen 5.

    Without AVX-512 loops that would not be vectors otherwise gain by them.
    """
    return llvm.get_host_cpu_name().startswith("znver") and has_masks()


@functools.cache
def _host_lines() -> str:
    return target_lines(target_machine())


def target_lines(machine: llvm.TargetMachine) -> str:
    """The layout and the triple of a target, as the first lines of a module."""
    return f'target datalayout = "{machine.target_data}"\ntarget triple = "{machine.triple}"\n'


def has_masks() -> bool:
    """Whether this CPU loads and stores vectors under masks as fast as without: AVX-512's, which AVX's are not."""
    return bool(llvm.get_host_cpu_features().get("avx512vl"))


def has_permutes() -> bool:
    """Whether this CPU has AVX2."""
    return bool(llvm.get_host_cpu_features().get("avx2"))


def host() -> str:
    """The CPU and its features that objects are made for: part of a cache key."""
    return f"{llvm.get_default_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def optimise(
    module: llvm.ModuleRef,
    machine: llvm.TargetMachine,
    schedule: Schedule = USUAL,
    context: llvm.ContextRef | None = None,
    masks: bool = False,
    permutes: bool = False,
) -> None:
    """LLVM's O3 pipeline over a whole module, O2 over a long one, if the schedule says nothing else.

    Elementary functions are defined when the vectoriser has chosen among their versions; for a target without vectors
    at once. context: as of `assemble`. masks, permutes: as of `ModuleText`. InternalError if it is no valid LLVM IR.
    """
    has_vectors = not machine.triple.startswith("nvptx")
    if not has_vectors:
        _define(module)
    for g in module.global_variables:
        # up to here one memory for all the texts that name a variable
        if g.name.startswith(VARIABLE):
            g.linkage = llvm.Linkage.internal
    _verify(module)
    _go_briefly(module, machine)
    blocks = (block for f in module.functions for block in f.blocks)
    is_long = next(itertools.islice(blocks, LONG, None), None) is not None
    options = llvm.create_pipeline_tuning_options(speed_level=schedule.level or (2 if is_long else 3))
    options.loop_vectorization = True
    options.slp_vectorization = schedule.slp
    options.loop_interleaving = schedule.interleave
    options.loop_unrolling = schedule.unroll
    builder = llvm.create_pass_builder(machine, options)
    manager = builder.getModulePassManager()
    if context is not None:
        unlocked.run_passes(manager, module, builder)
    else:
        manager.run(module, builder)
    if not has_vectors or not _names_elementary(module):
        return
    alike = _alike(module)
    _define(module, context, masks, permutes, waits_less=not alike)
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, builder)
    # in the single block of a loop over vectors code generation finds equal values by itself
    if any(alike.values()):
        _simplify(module, machine, [name for name, has_none in alike.items() if has_none])


def _go_briefly(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Quick work of what is left of long functions between their kernels; no other pass looks at it.

    There LLVM's pipeline takes ten times as long, and longer than for the kernels.
    """
    brief = [f for f in module.functions if not f.is_declaration and _has(f, BRIEFLY.encode())]
    if not brief:
        return
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    manager = llvm.create_new_function_pass_manager()
    manager.add_sroa_pass()
    manager.add_simplify_cfg_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    for f in brief:
        manager.run(f, builder)
        f.add_function_attribute("noinline")
        f.add_function_attribute("optnone")


def _alike(module: llvm.ModuleRef) -> dict[str, bool]:
    """The functions in which elementary ones of one number compute something alike: whether none is of vectors."""
    called = [f.name for f in module.functions if elementary.has_terms(f.name)]
    if len(called) < 2:
        return {}
    texts = {f.name: str(f) for f in module.functions if not f.is_declaration}
    return {
        name: not any(elementary.has_terms(n) and elementary.is_of_vectors(n) for n in elementary.names_in(text))
        for name, text in texts.items()
        if elementary.have_terms_in_common(text)
    }


def _simplify(module: llvm.ModuleRef, machine: llvm.TargetMachine, names: list[str]) -> None:
    """Find equal values in these functions once more."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    manager = builder.getFunctionPassManager()
    for f in module.functions:
        if f.name in names and not f.is_declaration:
            manager.run(f, builder)


def _names_elementary(module: llvm.ModuleRef) -> bool:
    """Whether a module has elementary functions, or declarations of them."""
    return any(f.name.startswith(elementary.PREFIX) for f in module.functions)


def _define(
    module: llvm.ModuleRef,
    context: llvm.ContextRef | None = None,
    masks: bool = False,
    permutes: bool = False,
    waits_less: bool = False,
) -> None:
    """Link the definitions of the elementary functions that a module calls, made as `elementary.definitions` says."""
    if not _names_elementary(module):
        return
    for g in module.global_variables:
        if g.name == KEPT[1:]:  # what the vectoriser has not called may go
            g.name = "dlvm.kept"
            g.linkage = llvm.Linkage.internal
    names = elementary.names_in(str(module))
    head = f'target datalayout = "{module.data_layout}"\ntarget triple = "{module.triple}"\n'
    module.link_in(parse(elementary.definitions(names, masks, permutes, waits_less), head, context))
    for f in module.functions:
        if f.name.startswith(elementary.PREFIX) and not f.is_declaration:
            f.linkage = llvm.Linkage.internal
