; The part of the CUDA driver API that gpu.ll and runtime/gpu call, on this machine: host memory, kernels that are
; functions (backend/gpu/emulate.py). Same signatures, same order of what happens: everything is done when a call returns.
;
; Addresses of the "device" are those of the host plus 2^62. No CPU accepts such an address: code that reads memory of the
; device without a copy is found by the first test that runs it.

declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; how many allocations there are, for tests of leaks
@dlvm.emulator.count = internal global i64 0

define ptr @dlvm.emulator.host(ptr %address) alwaysinline nounwind {
  %host = getelementptr i8, ptr %address, i64 -4611686018427387904
  ret ptr %host
}

define i32 @dlvm.emulator.cuMemAllocAsync(ptr %slot, i64 %nbytes, ptr %stream) nounwind {
  %data = call ptr @malloc(i64 %nbytes)
  %none = icmp eq ptr %data, null
  br i1 %none, label %failed, label %made
made:
  %address = getelementptr i8, ptr %data, i64 4611686018427387904
  store ptr %address, ptr %slot
  %old = atomicrmw add ptr @dlvm.emulator.count, i64 1 seq_cst
  ret i32 0
failed:
  ; CUDA_ERROR_OUT_OF_MEMORY
  ret i32 2
}

define i32 @dlvm.emulator.cuMemFreeAsync(ptr %address, ptr %stream) nounwind {
  %data = call ptr @dlvm.emulator.host(ptr %address)
  call void @free(ptr %data)
  %old = atomicrmw sub ptr @dlvm.emulator.count, i64 1 seq_cst
  ret i32 0
}

define i32 @dlvm.emulator.cuMemcpyHtoDAsync_v2(ptr %to, ptr %from, i64 %nbytes, ptr %stream) nounwind {
  %data = call ptr @dlvm.emulator.host(ptr %to)
  call void @llvm.memcpy.p0.p0.i64(ptr %data, ptr %from, i64 %nbytes, i1 false)
  ret i32 0
}

define i32 @dlvm.emulator.cuMemcpyDtoHAsync_v2(ptr %to, ptr %from, i64 %nbytes, ptr %stream) nounwind {
  %data = call ptr @dlvm.emulator.host(ptr %from)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %data, i64 %nbytes, i1 false)
  ret i32 0
}

define i32 @dlvm.emulator.cuMemcpyDtoDAsync_v2(ptr %to, ptr %from, i64 %nbytes, ptr %stream) nounwind {
  %there = call ptr @dlvm.emulator.host(ptr %to)
  %data = call ptr @dlvm.emulator.host(ptr %from)
  call void @llvm.memcpy.p0.p0.i64(ptr %there, ptr %data, i64 %nbytes, i1 false)
  ret i32 0
}

define i32 @dlvm.emulator.cuStreamSynchronize(ptr %stream) nounwind {
  ret i32 0
}

; A kernel is a function (parameters, blocks, threads a block) -> status; asked for 0 blocks, -> number of parameters.
define i32 @dlvm.emulator.cuLaunchKernel(ptr %kernel, i32 %grid_x, i32 %grid_y, i32 %grid_z, i32 %block_x, i32 %block_y,
                                i32 %block_z, i32 %shared, ptr %stream, ptr %parameters, ptr %extra) nounwind {
  ; what a real device refuses: an empty grid, a block that is empty or too large
  %no_grid = icmp slt i32 %grid_x, 1
  %no_block = icmp slt i32 %block_x, 1
  %large = icmp sgt i32 %block_x, 1024
  %wrong_block = or i1 %no_block, %large
  %wrong = or i1 %no_grid, %wrong_block
  br i1 %wrong, label %invalid, label %run
run:
  %status = call i32 %kernel(ptr %parameters, i32 %grid_x, i32 %block_x)
  ret i32 %status
invalid:
  ; CUDA_ERROR_INVALID_VALUE
  ret i32 1
}

; A graph: { references, first node, last node }. A node: { next, kernel, blocks, threads, number of parameters, the table
; of their addresses, and behind it the parameters }. What can be launched is { the graph }, which no node is added to.
%Graph = type { i64, ptr, ptr }
%Node = type { ptr, ptr, i32, i32, i64 }

define i32 @dlvm.emulator.cuGraphCreate(ptr %slot, i32 %flags) nounwind {
  %graph = call ptr @malloc(i64 24)
  store %Graph { i64 1, ptr null, ptr null }, ptr %graph
  store ptr %graph, ptr %slot
  %old = atomicrmw add ptr @dlvm.emulator.count, i64 1 seq_cst
  ret i32 0
}

define i32 @dlvm.emulator.cuGraphAddKernelNode(ptr %slot, ptr %graph, ptr %edges, i64 %count, ptr %launch) nounwind {
  %references = load i64, ptr %graph
  %first_at = getelementptr %Graph, ptr %graph, i64 0, i32 1
  %last_at = getelementptr %Graph, ptr %graph, i64 0, i32 2
  %last = load ptr, ptr %last_at
  %is_first = icmp eq ptr %last, null
  ; launches come one after the other: a node has an edge from the one before it
  %wanted = select i1 %is_first, i64 0, i64 1
  %as_many = icmp eq i64 %count, %wanted
  %is_open = icmp eq i64 %references, 1
  %can = and i1 %as_many, %is_open
  br i1 %can, label %look, label %invalid
look:
  br i1 %is_first, label %read, label %compare
compare:
  %before = load ptr, ptr %edges
  %follows = icmp eq ptr %before, %last
  br i1 %follows, label %read, label %invalid
read:
  %kernel = load ptr, ptr %launch
  %blocks_at = getelementptr i8, ptr %launch, i64 8
  %threads_at = getelementptr i8, ptr %launch, i64 20
  %given_at = getelementptr i8, ptr %launch, i64 40
  %blocks = load i32, ptr %blocks_at
  %threads = load i32, ptr %threads_at
  %given = load ptr, ptr %given_at
  %parameters = call i32 %kernel(ptr null, i32 0, i32 0)
  %wide = zext i32 %parameters to i64
  %table_size = shl i64 %wide, 4
  %size = add i64 %table_size, 32
  %node = call ptr @malloc(i64 %size)
  %with_kernel = insertvalue %Node zeroinitializer, ptr %kernel, 1
  %with_blocks = insertvalue %Node %with_kernel, i32 %blocks, 2
  %with_threads = insertvalue %Node %with_blocks, i32 %threads, 3
  %whole = insertvalue %Node %with_threads, i64 %wide, 4
  store %Node %whole, ptr %node
  %table = getelementptr i8, ptr %node, i64 32
  %values = getelementptr ptr, ptr %table, i64 %wide
  %none = icmp eq i64 %wide, 0
  br i1 %none, label %link, label %copy
copy:
  %k = phi i64 [ 0, %read ], [ %k.next, %copy ]
  %from_at = getelementptr ptr, ptr %given, i64 %k
  %from = load ptr, ptr %from_at
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %values, i64 %k
  store i64 %value, ptr %to
  %to_at = getelementptr ptr, ptr %table, i64 %k
  store ptr %to, ptr %to_at
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, %wide
  br i1 %more, label %copy, label %link
link:
  %link_at = select i1 %is_first, ptr %first_at, ptr %last
  store ptr %node, ptr %link_at
  store ptr %node, ptr %last_at
  store ptr %node, ptr %slot
  ret i32 0
invalid:
  ret i32 1
}

define i32 @dlvm.emulator.cuGraphInstantiateWithFlags(ptr %slot, ptr %graph, i64 %flags) nounwind {
  %references = load i64, ptr %graph
  %more = add i64 %references, 1
  store i64 %more, ptr %graph
  %ready = call ptr @malloc(i64 8)
  store ptr %graph, ptr %ready
  store ptr %ready, ptr %slot
  %old = atomicrmw add ptr @dlvm.emulator.count, i64 1 seq_cst
  ret i32 0
}

define i32 @dlvm.emulator.cuGraphLaunch(ptr %ready, ptr %stream) nounwind {
  %graph = load ptr, ptr %ready
  %first_at = getelementptr %Graph, ptr %graph, i64 0, i32 1
  br label %next
next:
  %at = phi ptr [ %first_at, %0 ], [ %node, %run ]
  %node = load ptr, ptr %at
  %is_end = icmp eq ptr %node, null
  br i1 %is_end, label %done, label %run
run:
  %kernel_at = getelementptr %Node, ptr %node, i64 0, i32 1
  %blocks_at = getelementptr %Node, ptr %node, i64 0, i32 2
  %threads_at = getelementptr %Node, ptr %node, i64 0, i32 3
  %kernel = load ptr, ptr %kernel_at
  %blocks = load i32, ptr %blocks_at
  %threads = load i32, ptr %threads_at
  %table = getelementptr i8, ptr %node, i64 32
  %status = call i32 @dlvm.emulator.cuLaunchKernel(ptr %kernel, i32 %blocks, i32 1, i32 1, i32 %threads, i32 1, i32 1,
                                                   i32 0, ptr %stream, ptr %table, ptr null)
  %is_good = icmp eq i32 %status, 0
  br i1 %is_good, label %next, label %failed
done:
  ret i32 0
failed:
  ret i32 %status
}

define i32 @dlvm.emulator.cuGraphExecDestroy(ptr %ready) nounwind {
  %graph = load ptr, ptr %ready
  call void @free(ptr %ready)
  %status = call i32 @dlvm.emulator.cuGraphDestroy(ptr %graph)
  ret i32 %status
}

define i32 @dlvm.emulator.cuGraphDestroy(ptr %graph) nounwind {
  %old = atomicrmw sub ptr @dlvm.emulator.count, i64 1 seq_cst
  %references = load i64, ptr %graph
  %less = sub i64 %references, 1
  store i64 %less, ptr %graph
  %unused = icmp eq i64 %less, 0
  br i1 %unused, label %first, label %done
first:
  %first_at = getelementptr %Graph, ptr %graph, i64 0, i32 1
  %first_node = load ptr, ptr %first_at
  br label %walk
walk:
  %node = phi ptr [ %first_node, %first ], [ %following, %drop ]
  %is_end = icmp eq ptr %node, null
  br i1 %is_end, label %last, label %drop
drop:
  %following = load ptr, ptr %node
  call void @free(ptr %node)
  br label %walk
last:
  call void @free(ptr %graph)
  br label %done
done:
  ret i32 0
}

define i64 @dlvm.emulator.live() nounwind {
  %count = load atomic i64, ptr @dlvm.emulator.count seq_cst, align 8
  ret i64 %count
}
