; NumPy's memory handler (NEP 49) of arrays whose memory compiled code allocated: what they free is kept by pool.ll.
; A handler is asked for new memory where such an array is resized, or where somebody makes it the current one.

declare ptr @dlvm.take(i64)
declare void @dlvm.give(ptr, i64)
declare ptr @dlvm.resize(ptr, i64)
declare i64 @dlvm.free_kept()

define ptr @dlvm.handler.malloc(ptr %context, i64 %wanted) cold nounwind {
  %some = call i64 @llvm.umax.i64(i64 %wanted, i64 1)
  %up = call { i64, i1 } @llvm.uadd.with.overflow.i64(i64 %some, i64 63)
  %sum = extractvalue { i64, i1 } %up, 0
  %is_lost = extractvalue { i64, i1 } %up, 1
  br i1 %is_lost, label %failed, label %sized
sized:
  %nbytes = and i64 %sum, -64
  %data = call ptr @dlvm.take(i64 %nbytes)
  ret ptr %data
failed:
  ret ptr null
}

define ptr @dlvm.handler.calloc(ptr %context, i64 %count, i64 %size) cold nounwind {
  %product = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %size)
  %nbytes = extractvalue { i64, i1 } %product, 0
  %is_lost = extractvalue { i64, i1 } %product, 1
  br i1 %is_lost, label %failed, label %sized
sized:
  %data = call ptr @dlvm.handler.malloc(ptr %context, i64 %nbytes)
  %none = icmp eq ptr %data, null
  br i1 %none, label %failed, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %nbytes, i1 false)
  ret ptr %data
failed:
  ret ptr null
}

define ptr @dlvm.handler.realloc(ptr %context, ptr %data, i64 %wanted) cold nounwind {
  %fits = icmp ule i64 %wanted, 9223372036854775744
  br i1 %fits, label %move, label %failed
move:
  %moved = call ptr @dlvm.resize(ptr %data, i64 %wanted)
  ret ptr %moved
failed:
  ret ptr null
}

define void @dlvm.handler.free(ptr %context, ptr %data, i64 %nbytes) nounwind {
  call void @dlvm.give(ptr %data, i64 %nbytes)
  ret void
}

define i64 @dlvm.handler.free_kept() cold nounwind {
  %nbytes = call i64 @dlvm.free_kept()
  ret i64 %nbytes
}

declare i64 @llvm.umax.i64(i64, i64)
declare { i64, i1 } @llvm.uadd.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
