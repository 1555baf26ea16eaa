; The guard of calls that can recurse: linked into the modules that have such calls.
;
; The field `pad` of the context (offset 28) is the lowest place that the machine stack may reach, in units of 32 KiB;
; 0 stands for not known. The first call puts down a bound near at hand, without asking: it costs a comparison. Only a
; recursion that gets below it asks the thread library, once a call from Python, for the real one.

@dlvm.imports = external global [0 x ptr]

; 0: there is stack for one more call, 1: there is not.
define i32 @dlvm.enter(ptr %ctx) alwaysinline nounwind {
  %frame = call ptr @llvm.frameaddress.p0(i32 0)
  %address = ptrtoint ptr %frame to i64
  %unit = lshr i64 %address, 15
  %here = trunc i64 %unit to i32
  %limit_at = getelementptr i8, ptr %ctx, i64 28
  %limit = load i32, ptr %limit_at
  ; an unknown limit becomes the largest number
  %below = add i32 %limit, -1
  %fits = icmp ult i32 %below, %here
  br i1 %fits, label %done, label %ask, !prof !1
ask:
  %status = call i32 @dlvm.stack_limit(ptr %ctx, i64 %address)
  br label %done
done:
  %result = phi i32 [ 0, %0 ], [ %status, %ask ]
  ret i32 %result
}

define i32 @dlvm.stack_limit(ptr %ctx, i64 %address) noinline cold nounwind {
  %attributes = alloca [128 x i8], align 16
  %low_at = alloca i64
  %size_at = alloca i64
  %unit = lshr i64 %address, 15
  %here = trunc i64 %unit to i32
  %limit_at = getelementptr i8, ptr %ctx, i64 28
  %limit = load i32, ptr %limit_at
  %is_first = icmp eq i32 %limit, 0
  br i1 %is_first, label %near, label %ask
near:
  %bound = add i32 %here, -1
  store i32 %bound, ptr %limit_at
  ret i32 0
ask:
  %self = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_self}), !invariant.load !0
  %getattr = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_getattr_np}), !invariant.load !0
  %getstack = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_attr_getstack}), !invariant.load !0
  %destroy = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_attr_destroy}), !invariant.load !0
  %thread = call i64 %self()
  %no_attributes = call i32 %getattr(i64 %thread, ptr %attributes)
  %failed = icmp ne i32 %no_attributes, 0
  br i1 %failed, label %full, label %read
read:
  %no_stack = call i32 %getstack(ptr %attributes, ptr %low_at, ptr %size_at)
  %destroyed = call i32 %destroy(ptr %attributes)
  %unknown = icmp ne i32 %no_stack, 0
  br i1 %unknown, label %full, label %judge
judge:
  ; what is kept free serves libraries, and Python where a signal handler runs
  %low = load i64, ptr %low_at
  %size = load i64, ptr %size_at
  %quarter = lshr i64 %size, 2
  %reserve = call i64 @llvm.umin.i64(i64 %quarter, i64 196608)
  %floor = add i64 %low, %reserve
  %up = add i64 %floor, 32767
  %lowest_unit = lshr i64 %up, 15
  %lowest = trunc i64 %lowest_unit to i32
  store i32 %lowest, ptr %limit_at
  ; another stack than the thread's own (a coroutine library made it): nothing is known about it
  %distance = sub i64 %address, %low
  %is_ours = icmp ult i64 %distance, %size
  %is_enough = icmp uge i32 %here, %lowest
  %go_on = and i1 %is_ours, %is_enough
  br i1 %go_on, label %ok, label %full
ok:
  ret i32 0
full:
  ret i32 1
}

declare ptr @llvm.frameaddress.p0(i32 immarg)
declare i64 @llvm.umin.i64(i64, i64)

!0 = !{}
!1 = !{!"branch_weights", i32 1048575, i32 1}
