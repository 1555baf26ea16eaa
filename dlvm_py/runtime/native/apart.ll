; Linux: a worker that is woken does not get the core of the thread that wakes it.
;
; The system likes to place it there, where it waits for the end of what it was to share: after 0.1 s of rest a kernel of 2 ms
; with a second thread took as long as alone, in the median. So before parked workers are woken, the calling thread's own
; core is taken out of their affinity, which otherwise is that of the calling thread. With many workers it does not matter.

@dlvm.imports = external global [0 x ptr]

define void @threads.apart(ptr %state) noinline cold nounwind {
start:
  %mask = alloca [128 x i8], align 64
  %made_at = getelementptr i8, ptr %state, i64 208
  %made = load i64, ptr %made_at
  %are_few = icmp ule i64 %made, 15
  br i1 %are_few, label %look, label %done
look:
  %core_of = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:sched_getcpu}), !invariant.load !0
  %read = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:sched_getaffinity}), !invariant.load !0
  store <16 x i64> zeroinitializer, ptr %mask, align 64
  %core = call i32 %core_of()
  %failed = call i32 %read(i32 0, i64 128, ptr %mask)
  %is_read = icmp eq i32 %failed, 0
  %is_near = icmp ult i32 %core, 1024
  %is_known = and i1 %is_read, %is_near
  br i1 %is_known, label %clear, label %done
clear:
  %number = zext i32 %core to i64
  %word = lshr i64 %number, 6
  %place = getelementptr i64, ptr %mask, i64 %word
  %old = load i64, ptr %place
  %at = and i64 %number, 63
  %bit = shl i64 1, %at
  %not = xor i64 %bit, -1
  %new = and i64 %old, %not
  store i64 %new, ptr %place
  %cores = load <16 x i64>, ptr %mask, align 64
  %any = call i64 @llvm.vector.reduce.or.v16i64(<16 x i64> %cores)
  %is_some = icmp ne i64 %any, 0
  %last_at = getelementptr i8, ptr %state, i64 640
  %last_made_at = getelementptr i8, ptr %state, i64 768
  %last = load <16 x i64>, ptr %last_at, align 64
  %last_made = load i64, ptr %last_made_at
  %differ = xor <16 x i64> %cores, %last
  %difference = call i64 @llvm.vector.reduce.or.v16i64(<16 x i64> %differ)
  %are_other = icmp ne i64 %difference, 0
  %are_more = icmp ne i64 %made, %last_made
  %is_new = or i1 %are_other, %are_more
  %is_wanted = and i1 %is_some, %is_new
  br i1 %is_wanted, label %set, label %done
set:
  %write = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_setaffinity_np}), !invariant.load !0
  store <16 x i64> %cores, ptr %last_at, align 64
  store i64 %made, ptr %last_made_at
  br label %each
each:
  %k = phi i64 [ 0, %set ], [ %k_next, %each ]
  %ids = getelementptr i8, ptr %state, i64 784
  %id_at = getelementptr i64, ptr %ids, i64 %k
  %id = load i64, ptr %id_at
  %ignored = call i32 %write(i64 %id, i64 128, ptr %mask)
  %k_next = add i64 %k, 1
  %more = icmp ult i64 %k_next, %made
  br i1 %more, label %each, label %done
done:
  ret void
}

declare i64 @llvm.vector.reduce.or.v16i64(<16 x i64>)

!0 = !{}
