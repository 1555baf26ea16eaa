; What the host driver of a GPU program calls: memory of the device, launches, and copies to the host.
;
; Linked into the modules that name it (backend/cpu/compile.py). The functions of the driver API are imports, real
; (libcuda) or emulated (emulator.ll). The context has the stream at 72. A status that is not 0 goes to the error record:
; site -3, the status as operand. Sizes are counted and rounded as those of support.ll are.

@dlvm.imports = external global [0 x ptr]

declare i1 @dlvm.count(ptr, i64)
declare ptr @dlvm.adopt(ptr, ptr, i64, ptr)

; A new allocation of the device: its header, or null where the device has no room.
define ptr @dlvm.gpu.allocate(ptr %ctx, i64 %wanted) noinline nounwind {
  %slot = alloca ptr, align 8
  %fits = icmp ule i64 %wanted, 9223372036854775744
  br i1 %fits, label %sized, label %failed
sized:
  %is_empty = icmp eq i64 %wanted, 0
  %some = select i1 %is_empty, i64 1, i64 %wanted
  %up = add nuw i64 %some, 63
  %nbytes = and i64 %up, -64
  %is_free = call i1 @dlvm.count(ptr %ctx, i64 %nbytes)
  br i1 %is_free, label %counted, label %failed
counted:
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %allocate_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuMemAllocAsync}
  %allocate = load ptr, ptr %allocate_at
  %status = call i32 %allocate(ptr %slot, i64 %nbytes, ptr %stream)
  %is_there = icmp eq i32 %status, 0
  br i1 %is_there, label %adopt, label %uncount
adopt:
  %data = load ptr, ptr %slot
  %header = call ptr @dlvm.adopt(ptr %ctx, ptr %data, i64 %nbytes, ptr @dlvm.gpu.give)
  %no_header = icmp eq ptr %header, null
  br i1 %no_header, label %drop, label %done
drop:
  call void @dlvm.gpu.give(ptr %ctx, ptr %data, i64 %nbytes)
  br label %uncount
uncount:
  %less = sub i64 0, %nbytes
  %uncounted = call i1 @dlvm.count(ptr %ctx, i64 %less)
  br label %failed
done:
  ret ptr %header
failed:
  ret ptr null
}

; Give memory of the device back, behind everything that the stream still does with it. Nothing for null.
define void @dlvm.gpu.give(ptr %ctx, ptr %data, i64 %nbytes) noinline nounwind {
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %done, label %free
free:
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %free_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuMemFreeAsync}
  %give = load ptr, ptr %free_at
  ; an error of an earlier launch shows again at the next launch or fetch, which looks
  %status = call i32 %give(ptr %data, ptr %stream)
  br label %done
done:
  ret void
}

; Launch a kernel: blocks of threads along x, the addresses of its parameters. 1: the error record is filled.
define i32 @dlvm.gpu.launch(ptr %ctx, ptr %kernel, i64 %grid, i32 %block, ptr %parameters) noinline nounwind {
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %launch_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuLaunchKernel}
  %launch = load ptr, ptr %launch_at
  %blocks = trunc i64 %grid to i32
  %status = call i32 %launch(ptr %kernel, i32 %blocks, i32 1, i32 1, i32 %block, i32 1, i32 1, i32 0, ptr %stream,
                             ptr %parameters, ptr null)
  %result = call i32 @dlvm.gpu.status(ptr %ctx, i32 %status)
  ret i32 %result
}

; Copy from the device to the host, behind what the stream does, and wait for it. 1: the error record is filled.
define i32 @dlvm.gpu.fetch(ptr %ctx, ptr %to, ptr %from, i64 %nbytes) noinline nounwind {
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %copy_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuMemcpyDtoHAsync_v2}
  %copy = load ptr, ptr %copy_at
  %status = call i32 %copy(ptr %to, ptr %from, i64 %nbytes, ptr %stream)
  %is_good = icmp eq i32 %status, 0
  br i1 %is_good, label %wait, label %failed
wait:
  %wait_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuStreamSynchronize}
  %synchronize = load ptr, ptr %wait_at
  %waited = call i32 %synchronize(ptr %stream)
  br label %failed
failed:
  %last = phi i32 [ %status, %0 ], [ %waited, %wait ]
  %result = call i32 @dlvm.gpu.status(ptr %ctx, i32 %last)
  ret i32 %result
}

; 0 for success, else 1 with the error record filled.
define i32 @dlvm.gpu.status(ptr %ctx, i32 %status) alwaysinline nounwind {
  %is_good = icmp eq i32 %status, 0
  br i1 %is_good, label %good, label %bad
good:
  ret i32 0
bad:
  %site_at = getelementptr i8, ptr %ctx, i64 24
  store i32 -3, ptr %site_at
  %operand_at = getelementptr i8, ptr %ctx, i64 32
  %wide = sext i32 %status to i64
  store i64 %wide, ptr %operand_at
  ret i32 1
}
