"""The native entry of one compiled version, as LLVM IR text: arguments read, kernel called, results boxed.

`i32 @dlvm.entry(ptr self, ptr args, i64 nargsf, ptr kwnames, ptr out)` is called by `@dlvm.vectorcall` of
`callable.ll` with what a vectorcall gets. 1: the arguments are not those of this version, nothing happened.
2: they are, but something was assumed that does not hold; the call has been undone.
0: handled, `out` is the result (a new reference) or null with an exception set. `arguments` and `results` write
its two halves; what does not depend on the version stands in `entry.ll` and `arrays.ll`, which all share (`standing`).

An entry is an object of its own, which calls `KERNEL`, a second name that every kernel has (`exported`): it depends on
the types of arguments and results alone, and what many functions have in common is compiled once (`compiled_entry`).

`i32 @dlvm.invoke(ptr context, ptr slots, ptr results)` and `void @dlvm.finish(ptr context)` are for
`python_entry`: the kernel with each of its parameters in 16 bytes of memory, and the release of what it left.
"""

from __future__ import annotations

import functools
import re

from dlvm_py.backend.cpu.compile import compile_module
from dlvm_py.backend.cpu.contract import flat_types
from dlvm_py.backend.imports import Imports
from dlvm_py.ir.interface import ArraySpec
from dlvm_py.options import environment
from dlvm_py.runtime import cache
from dlvm_py.runtime.native import standing
from dlvm_py.runtime.native.arguments import (
    GENERATOR_PARTS,
    check_overlap,
    check_relations,
    owned_parts,
    read_arguments,
    read_captured,
)
from dlvm_py.runtime.native.body import Body
from dlvm_py.runtime.native.externals import IMPORTS_TABLE, complete
from dlvm_py.runtime.native.results import box_results, result_struct
from dlvm_py.runtime.version import (
    ARGUMENT_REFERENCES,
    ENTRY,
    ENTRY_IMPORTS,
    FINISH,
    FIRST_FUEL,
    INVOKE,
    KERNEL,
    NO_MEMORY,
    SLOT,
    TAKEN_BEFORE,
    UNDONE,
    CallSpec,
    Entry,
)

_ENTRY_USE = re.compile(r"@(entry\.[\w.]+)\(")


def exported(text: str, symbol: str) -> str:
    """The LLVM IR of a kernel with the name that entries call it by; compiled with `symbol` as what is exported."""
    return f'{text}\n@{KERNEL} = alias i8, ptr @"{symbol}"\n'


def compiled_entry(call: CallSpec) -> Entry:
    """The entries of a kernel that is called so: from this process, the disk cache, or compiled."""
    imports = Imports()
    text = entry_text(call, imports)
    return _compiled(text, tuple(imports.names))


@functools.lru_cache(maxsize=512)
def _compiled(text: str, names: tuple[str, ...]) -> Entry:
    """Of a text, for imports with these names at first."""
    kept = cache.Cache() if environment("DLVM_CACHE") != "0" else None
    key = cache.cache_key("entry", text, names)
    found = kept.get(key) if kept is not None else None
    if found is not None and {"imports", "shared"} <= found[0].keys():
        return Entry(found[1], found[0]["imports"], found[0]["shared"])
    imports = Imports()
    for name in names:
        imports.index(name)
    done = compile_module([text], imports, (ENTRY, INVOKE, FINISH), table=ENTRY_IMPORTS, plain=True, readable=False)
    made = Entry(done.object, imports.names, list(done.shared))
    if kept is not None:
        kept.put(key, {"imports": made.imports, "shared": made.shared}, made.image)
    return made


def entry_text(call: CallSpec, imports: Imports) -> str:
    """The module with the entries of `KERNEL`; extends `imports` by what it uses."""
    types = [t for leaf in call.leaves for t in flat_types(leaf.ir_type())]
    body = Body()
    if call.by_python:
        body.line("br label %nomatch")
    else:
        values = read_arguments(body, call) + read_captured(body, call)
        check_relations(body, call, values)
        check_overlap(body, call, values)
        _call(body, call, values, imports.index(TAKEN_BEFORE) if call.limited else 0)
    body.block("nomatch")
    _drop_captured(body, call)
    body.line("ret i32 1")
    if _owned(call):
        body.stack.append(f"  %captured = alloca {_captured(call)}")
        body.stack.append(f"  store {_captured(call)} zeroinitializer, ptr %captured")
    own = body.function(f"i32 @{ENTRY}(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames, ptr %out)")
    declarations = standing.declarations()
    parts = [
        standing.types(),
        *(declarations[name] for name in sorted(set(_ENTRY_USE.findall(own)))),
        f"declare i32 @{KERNEL}({', '.join(['ptr', *types, 'ptr'])})",
        "declare void @dlvm.free_all(ptr) nounwind",
        own,
        _invoke_text(types),
    ]
    return complete("\n".join(parts), imports)


def _call(body: Body, call: CallSpec, values: list[list[str]], limit: int) -> None:
    """From the values that were read to the end of the call. limit: the import that says where counting begins."""
    operands = []
    for leaf, value in zip(call.leaves, values, strict=True):
        if isinstance(leaf, ArraySpec):
            data, _, *extents, array = value
            value = [data, f"ptr {_argument_header(body, data, array)}", *extents]
        operands += value
    context, results = body.slot("context", "%context"), body.slot("results", result_struct(call.result))
    head = f"ptr null, ptr null, i64 {FIRST_FUEL}, i32 0, i32 0, [4 x i64] zeroinitializer, i64 0"
    body.store("%context", f"{{ {head} }}", context)
    if call.limited:
        before = body.let("before", f"load i64, ptr getelementptr (ptr, ptr {IMPORTS_TABLE}, i64 {limit})")
        body.store("i64", before, body.member("%context", context, 6))
    if body.lock:
        acquire = f"call i1 @entry.lock(ptr {body.lock}, ptr {body.object('generator.acquire')})"
        body.branch(body.let("held", acquire), otherwise="failed")
    state = body.let("state", "call ptr @py.PyEval_SaveThread()")
    body.store("ptr", state, body.member("%context", context, 1))
    arguments = ", ".join([f"ptr {context}", *operands, f"ptr {results}"])
    status = body.let("status", f"call i32 @{KERNEL}({arguments})")
    body.line(f"call void @py.PyEval_RestoreThread(ptr {state})")
    if body.lock:
        body.line(f"call void @entry.unlock(ptr {body.lock}, ptr {body.object('generator.release')})")
    body.branch(body.let("good", f"icmp eq i32 {status}, 0"), otherwise="raise")
    value = box_results(body, call.result, results, on_failure="failed")
    body.store("ptr", value, "%out")
    body.line("br label %finish")
    body.block("raise")
    if call.assumed:
        site = body.load("site", "i32", body.member("%context", context, 3))
        cases = " ".join(f"i32 {n}, label %undone" for n in sorted(call.assumed))
        body.line(f"switch i32 {site}, label %not.undone [ {cases} ]")
        body.block("not.undone")
    if call.limited:
        site = body.load("site", "i32", body.member("%context", context, 3))
        body.branch(body.let("is.other", f"icmp ne i32 {site}, {NO_MEMORY}"), otherwise="beyond")
    body.line(f"call void @entry.raise(ptr {context}, ptr {body.object('on_error')})")
    body.line("br label %failed")
    body.block("failed")
    body.store("ptr", "null", "%out")
    body.line("br label %finish")
    body.block("finish")
    body.line(f"call void @dlvm.free_all(ptr {context})")
    _drop_captured(body, call)
    body.line("ret i32 0")
    if call.assumed:
        # the version of another answer has the call
        body.block("undone")
        body.line(f"call void @dlvm.free_all(ptr {context})")
        _drop_captured(body, call)
        body.line(f"ret i32 {UNDONE}")
    if call.limited:
        # nothing has happened but that memory was taken: another version has the call
        body.block("beyond")
        body.line(f"call void @dlvm.free_all(ptr {context})")
        body.line("br label %nomatch")


def _captured(call: CallSpec) -> str:
    return f"[{_owned(call)} x ptr]"


def _owned(call: CallSpec) -> int:
    """How many references the entry holds: captured arrays, and what it took out of lists, dicts and instances."""
    if call.by_python:
        return 0
    return len(call.captured) + owned_parts(call.args) + GENERATOR_PARTS * call.generators


def _drop_captured(body: Body, call: CallSpec) -> None:
    if _owned(call):
        body.line(f"call void @entry.drop(ptr %captured, i64 {_owned(call)})")


def _argument_header(body: Body, data: str, array: str) -> str:
    header = body.slot("header", "%header")
    body.store("i64", str(ARGUMENT_REFERENCES), header)
    body.line(f"store {data}, ptr {body.member('%header', header, 1)}")
    body.store("i64", "0", body.member("%header", header, 2))
    body.store("ptr", array, body.member("%header", header, 3))
    body.store("ptr", "null", body.member("%header", header, 4))
    body.store("ptr", "null", body.member("%header", header, 5))
    return header


def _invoke_text(types: list[str]) -> str:
    loads = [
        f"  %at{k} = getelementptr i8, ptr %slots, i64 {SLOT * k}\n  %x{k} = load {t}, ptr %at{k}, align 8\n"
        for k, t in enumerate(types)
    ]
    operands = ", ".join(["ptr %context", *(f"{t} %x{k}" for k, t in enumerate(types)), "ptr %results"])
    return (
        f"define i32 @{INVOKE}(ptr %context, ptr %slots, ptr %results) cold noinline optnone {{\n{''.join(loads)}"
        "  %state = call ptr @py.PyEval_SaveThread()\n"
        "  %state.at = getelementptr %context, ptr %context, i32 0, i32 1\n  store ptr %state, ptr %state.at\n"
        f"  %status = call i32 @{KERNEL}({operands})\n"
        "  call void @py.PyEval_RestoreThread(ptr %state)\n  store ptr null, ptr %state.at\n  ret i32 %status\n}\n"
        f"define void @{FINISH}(ptr %context) {{\n  call void @dlvm.free_all(ptr %context)\n  ret void\n}}\n"
    )
