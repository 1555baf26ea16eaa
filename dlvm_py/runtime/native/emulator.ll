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

define i32 @dlvm.emulator.cuStreamSynchronize(ptr %stream) nounwind {
  ret i32 0
}

; A kernel is a function (parameters, blocks, threads a block) -> status.
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

define i64 @dlvm.emulator.live() nounwind {
  %count = load atomic i64, ptr @dlvm.emulator.count seq_cst, align 8
  ret i64 %count
}
