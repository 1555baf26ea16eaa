"""The kernels of a GPU program as code for this machine: the same LLVM IR, its grids as loops.

    special registers      fields of a record of the thread: { tid, ctaid, ntid, nctaid, where, pad, shared, lanes }
    shared memory          memory of the block, filled with ones, so that reading what nobody wrote shows
    barrier                the thread, a coroutine, is suspended; LLVM cuts the kernel there
    shuffle                the value is written to the lanes; suspended; the other thread's is read; suspended
    pointer parameters     the address of the device less 2^62 (runtime/native/emulator.ll)

    i32 @emulated.N(ptr parameters, i32 blocks, i32 threads)     runs kernel N; 719 (CUDA_ERROR_LAUNCH_FAILED) where the
                                                                threads of a block are not all at the same barrier.
                                                                Asked for 0 blocks: the number of its parameters

Kernels without barriers are plain functions that the loops over blocks and threads call. Nothing is optimised: the
emulator is for numbers, and what tests wait for is the compiler. Source of the cut: LLVM's coroutines (llvm.coro.*),
switched-resume lowering.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlvm_py.backend.cpu.compile import assemble_plainly, link, parse
from dlvm_py.backend.cpu.text import without_kept
from dlvm_py.backend.gpu.kernel import BARRIER, NAME, SHUFFLE, SPECIAL, WARP, Kernel

OFFSET = 1 << 62
# the largest block of any device
BLOCK = 1024
_THREAD = "{ i32, i32, i32, i32, i32, i32, ptr, ptr }"
_FIELDS = {"tid": 0, "ctaid": 4, "ntid": 8, "nctaid": 12, "where": 16, "shared": 24, "lanes": 32}
_FINISHED = -1

_HEAD = re.compile(rf'define ptx_kernel void @"{NAME}"\(([^)]*)\) nounwind \{{')
_REGISTER = re.compile(rf"(%\w+) = call i32 @{re.escape(SPECIAL)}\.(\w+)\.x\(\)")
_SHUFFLED = re.compile(rf"(%\w+) = call i32 @{re.escape(SHUFFLE)}\(i32 -1, i32 (\S+), i32 (\d+), i32 {WARP - 1}\)")
_SHARED = re.compile(rf'(%\w+) = addrspacecast ptr addrspace\(3\) @"{NAME}\.shared" to ptr')
_DROPPED = re.compile(rf'^(declare .*@llvm\.nvvm\..*|@"{NAME}\.shared" = .*)\n', re.MULTILINE)

# LLVM IR that all emulated kernels stand on
_PRELUDE = """
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare ptr @llvm.coro.free(token, ptr)
declare void @llvm.coro.end(ptr, i1, token)
declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare ptr @malloc(i64)
declare void @free(ptr)
"""


def emulated(kernels: Sequence[Kernel]) -> bytes:
    """The object file of the kernels of a program: a symbol `emulated.N` each."""
    modules = [parse(_module(k, n)) for n, k in enumerate(kernels)]
    return assemble_plainly(link([parse(""), *modules], [symbol(n) for n in range(len(kernels))]))


def symbol(number: int) -> str:
    """The symbol of a kernel by its number."""
    return f"emulated.{number}"


def _module(kernel: Kernel, number: int) -> str:
    text = _DROPPED.sub("", without_kept(str(kernel.module)))
    head = _HEAD.search(text)
    assert head is not None
    begin, end = head.start(), text.index("\n}\n", head.end()) + 3
    suspends = BARRIER in text or SHUFFLE in text
    body = _body(text[head.end() : end], suspends)
    parameters = ", ".join(filter(None, [head[1], "ptr %thread"]))
    result, attributes = ("ptr", "presplitcoroutine ") if suspends else ("void", "")
    function = f'define internal {result} @"{NAME}"({parameters}) {attributes}nounwind {{{body}'
    run = _blocks(kernel, number, _together if suspends else _one_by_one)
    return text[:begin] + function + text[end:] + _PRELUDE + run


def _field(register: str, of: str, name: str) -> str:
    return f"{register} = getelementptr i8, ptr {of}, i64 {_FIELDS[name]}"


def _body(text: str, suspends: bool) -> str:
    """The body of a kernel, which knows its thread by the record."""
    text = _REGISTER.sub(r"\1.at = getelementptr i8, ptr %thread, i64 {\2}\n  \1 = load i32, ptr \1.at", text)
    for name, place in _FIELDS.items():
        text = text.replace(f"{{{name}}}", str(place))
    shared = rf"\1.at = {_field('', '%thread', 'shared')[3:]}\n  \1 = load ptr, ptr \1.at"
    text = _SHARED.sub(shared, text)
    return _coroutine(text) if suspends else text


def _coroutine(text: str) -> str:
    """The same as a coroutine, suspended at its barriers, twice at its shuffles, and at its end."""
    lines, count = [], 0
    pending = False  # the next line is the branch behind a barrier or shuffle

    def suspend(label: str) -> list[str]:
        nonlocal count
        count += 1
        return [
            f"  store i32 {count}, ptr %coro.where",
            f"  %coro.s{count} = call i8 @llvm.coro.suspend(token none, i1 false)",
            f"  switch i8 %coro.s{count}, label %coro.away [ i8 0, label %{label} i8 1, label %coro.clean ]",
        ]

    for line in text.splitlines():
        found = _SHUFFLED.search(line)
        if pending:
            lines += suspend(line.strip().removeprefix("br label %"))
            pending = False
        elif line.strip() == BARRIER:
            pending = True
        elif found:
            name, value, delta = found.groups()
            label = f"lanes{count}"
            lines += [f"  store i32 {value}, ptr %coro.lane", *suspend(label), f"{label}:"]
            lines += [
                f"  {name}.other = add i32 %coro.tid, {delta}",
                f"  {name}.in = and i32 %coro.tid, {WARP - 1}",
                f"  {name}.to = add i32 {name}.in, {delta}",
                f"  {name}.inside = icmp ult i32 {name}.to, {WARP}",
                f"  {name}.there = icmp ult i32 {name}.other, %coro.ntid",
                f"  {name}.both = and i1 {name}.inside, {name}.there",
                f"  {name}.lane = select i1 {name}.both, i32 {name}.other, i32 %coro.tid",
                f"  {name}.at = getelementptr i32, ptr %coro.lanes, i32 {name}.lane",
                f"  {name} = load i32, ptr {name}.at",
            ]
            pending = True
        elif line.strip() == "ret void":
            lines.append("  br label %coro.end")
        else:
            lines.append(line)
    first = lines.index("prologue:")
    lines[first + 1 : first + 1] = [
        "  %coro.id = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)",
        "  %coro.size = call i64 @llvm.coro.size.i64()",
        "  %coro.memory = call ptr @malloc(i64 %coro.size)",
        "  %coro.handle = call ptr @llvm.coro.begin(token %coro.id, ptr %coro.memory)",
        f"  {_field('%coro.where', '%thread', 'where')}",
        f"  {_field('%coro.lanes.at', '%thread', 'lanes')}",
        f"  {_field('%coro.ntid.at', '%thread', 'ntid')}",
        "  %coro.lanes = load ptr, ptr %coro.lanes.at",
        "  %coro.tid = load i32, ptr %thread",
        "  %coro.ntid = load i32, ptr %coro.ntid.at",
        "  %coro.lane = getelementptr i32, ptr %coro.lanes, i32 %coro.tid",
    ]
    end = [
        "coro.end:",
        f"  store i32 {_FINISHED}, ptr %coro.where",
        "  %coro.last = call i8 @llvm.coro.suspend(token none, i1 true)",
        "  switch i8 %coro.last, label %coro.away [ i8 0, label %coro.never i8 1, label %coro.clean ]",
        "coro.never:",
        "  unreachable",
        "coro.clean:",
        "  %coro.freed = call ptr @llvm.coro.free(token %coro.id, ptr %coro.handle)",
        "  call void @free(ptr %coro.freed)",
        "  br label %coro.away",
        "coro.away:",
        "  call void @llvm.coro.end(ptr %coro.handle, i1 false, token none)",
        "  ret ptr %coro.handle",
    ]
    closing = max(k for k, line in enumerate(lines) if line == "}")
    return "\n".join([*lines[:closing], *end, *lines[closing:]]) + "\n"


# -- the loops -------------------------------------------------------------------------------------------


def _blocks(kernel: Kernel, number: int, threads) -> str:  # type: ignore[no-untyped-def]
    """The function that runs a launch: its parameters are read, then block by block all threads run."""
    lines, arguments = [], []
    for k, p in enumerate(kernel.params):
        lines += [
            f"%at{k} = getelementptr ptr, ptr %parameters, i64 {k}",
            f"%place{k} = load ptr, ptr %at{k}",
            f"%given{k} = load {p.type}, ptr %place{k}",
        ]
        if p.type == "ptr":
            lines.append(f"%host{k} = getelementptr i8, ptr %given{k}, i64 -{OFFSET}")
        arguments.append(f"{p.type} %{'host' if p.type == 'ptr' else 'given'}{k}")
    nbytes = max(kernel.shared_bytes, 1)
    head = [
        f'define i32 @"{symbol(number)}"(ptr %parameters, i32 %blocks, i32 %threads) nounwind {{',
        "asked:",
        "  %is_asked = icmp eq i32 %blocks, 0",
        "  br i1 %is_asked, label %count, label %entry",
        "count:",
        f"  ret i32 {len(kernel.params)}",
        "entry:",
        f"  %shared = alloca [{nbytes} x i8], align 16",
        f"  %lanes = alloca [{BLOCK} x i32], align 16",
        f"  %records = alloca [{BLOCK} x {_THREAD}], align 16",
        f"  %handles = alloca [{BLOCK} x ptr], align 16",
        *(f"  {line}" for line in lines),
        "  br label %block",
        "block:",
        "  %b = phi i32 [ 0, %entry ], [ %b.next, %done ]",
        f"  call void @llvm.memset.p0.i64(ptr %shared, i8 -1, i64 {nbytes}, i1 false)",
    ]
    tail = [
        "done:",
        "  %b.next = add i32 %b, 1",
        "  %b.more = icmp ult i32 %b.next, %blocks",
        "  br i1 %b.more, label %block, label %end",
        "end:",
        "  ret i32 0",
        "}",
        "",
    ]
    return "\n".join([*head, *threads(arguments), *tail])


def _record(of: str) -> list[str]:
    """The fields of the record of thread %t of block %b."""
    values = {"tid": "i32 %t", "ctaid": "i32 %b", "ntid": "i32 %threads", "nctaid": "i32 %blocks", "where": "i32 0"}
    values |= {"shared": "ptr %shared", "lanes": "ptr %lanes"}
    return [
        line
        for name, value in values.items()
        for line in (f"  {_field(f'%{name}.at', of, name)}", f"  store {value}, ptr %{name}.at")
    ]


def _one_by_one(arguments: Sequence[str]) -> list[str]:
    """All threads, one after the other."""
    return [
        "  br label %thread",
        "thread:",
        "  %t = phi i32 [ 0, %block ], [ %t.next, %thread ]",
        *_record("%records"),
        f'  call void @"{NAME}"({", ".join([*arguments, "ptr %records"])})',
        "  %t.next = add i32 %t, 1",
        "  %t.more = icmp ult i32 %t.next, %threads",
        "  br i1 %t.more, label %thread, label %done",
    ]


def _together(arguments: Sequence[str]) -> list[str]:
    """All threads from barrier to barrier, until they are finished; 719 where they are not at the same one."""
    return [
        "  br label %thread",
        "thread:",
        "  %t = phi i32 [ 0, %block ], [ %t.next, %thread ]",
        f"  %record = getelementptr {_THREAD}, ptr %records, i32 %t",
        *_record("%record"),
        f'  %handle = call ptr @"{NAME}"({", ".join([*arguments, "ptr %record"])})',
        "  %handle.at = getelementptr ptr, ptr %handles, i32 %t",
        "  store ptr %handle, ptr %handle.at",
        "  %t.next = add i32 %t, 1",
        "  %t.more = icmp ult i32 %t.next, %threads",
        "  br i1 %t.more, label %thread, label %round",
        "round:",
        f"  {_field('%first.at', '%records', 'where')}",
        "  %first = load i32, ptr %first.at",
        "  br label %compare",
        "compare:",
        "  %c = phi i32 [ 0, %round ], [ %c.next, %compare ]",
        "  %same = phi i1 [ true, %round ], [ %same.next, %compare ]",
        f"  %compared = getelementptr {_THREAD}, ptr %records, i32 %c",
        f"  {_field('%other.at', '%compared', 'where')}",
        "  %other = load i32, ptr %other.at",
        "  %equal = icmp eq i32 %other, %first",
        "  %same.next = and i1 %same, %equal",
        "  %c.next = add i32 %c, 1",
        "  %c.more = icmp ult i32 %c.next, %threads",
        "  br i1 %c.more, label %compare, label %compared.all",
        "compared.all:",
        f"  %finished = icmp eq i32 %first, {_FINISHED}",
        "  %different = xor i1 %same.next, true",
        "  %stop = or i1 %finished, %different",
        "  br i1 %stop, label %destroy, label %resume",
        "resume:",
        "  %r = phi i32 [ 0, %compared.all ], [ %r.next, %resume ]",
        "  %resumed.at = getelementptr ptr, ptr %handles, i32 %r",
        "  %resumed = load ptr, ptr %resumed.at",
        "  call void @llvm.coro.resume(ptr %resumed)",
        "  %r.next = add i32 %r, 1",
        "  %r.more = icmp ult i32 %r.next, %threads",
        "  br i1 %r.more, label %resume, label %round",
        "destroy:",
        "  %d = phi i32 [ 0, %compared.all ], [ %d.next, %destroy ]",
        "  %destroyed.at = getelementptr ptr, ptr %handles, i32 %d",
        "  %destroyed = load ptr, ptr %destroyed.at",
        "  call void @llvm.coro.destroy(ptr %destroyed)",
        "  %d.next = add i32 %d, 1",
        "  %d.more = icmp ult i32 %d.next, %threads",
        "  br i1 %d.more, label %destroy, label %destroyed.all",
        "destroyed.all:",
        "  br i1 %different, label %diverged, label %done",
        "diverged:",
        "  ret i32 719",
    ]
