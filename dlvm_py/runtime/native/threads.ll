; The threads of a process, and @dlvm.parallel, which shares a range among them. runtime/threads.py makes the state.
;
;   state    { 0 range                                       first chunk that is left | end of them << 32
;              64 done                                       chunks that have run
;              128 body, captures, n, size, 160 chunks       what a chunk is
;              192 lock, 200 threads, 208 made, 216 process, 224 parked, 232 waiting, 240 pause, 248 factor
;              256 mutex, 384 work, 512 end                  POSIX's, up to 128, 128 and 120 bytes
;              632 penalty
;              640 cores that workers may have, 768 how many workers, 784 the first 15 of them (apart.ll)
;              912 credit
;              920 to 5568: brief.ll }
;
; A region is a range of chunks. The caller takes chunks from its lower end, workers from its upper one, each by one
; compare-and-swap, so that a thread comes back to the memory it had in the region before, and nobody waits for a worker
; that has not begun: the caller alone can do all of it. Who has taken a chunk may read what a chunk is: it stays until all
; have run. Workers look for chunks for some microseconds after their last one, then they park.
;
; One region at a time: whoever finds the lock taken, be it another thread of Python or a chunk, runs its chunks alone.
; Where the borders of chunks lie does not depend on who runs them.
;
; Threads must not cost time. A region that took longer than its caller alone would have taken, by the processor time of
; its own share of the chunks (another process has the other core, a worker came too late or took the caller's core), makes
; the next ones run alone, for `factor` times what it lost: `penalty`, 32, so that at most 3 % are lost in the long run, and
; twice as many after each loss that follows on a loss, up to a second. A loss that regions before have won, up to 10 ms,
; costs nothing (`credit`, which begins with 5 ms): a worker that has to be woken is late once. What takes longer than is left
; of the time alone is shared: a loss of microseconds must not cost a region of milliseconds its threads.
;
; A child that is forked has none of the threads: `process` differs there, and the first region makes the state anew.

@dlvm.imports = external global [0 x ptr]

; Run body(captures, 0, n), an array kernel with so much work: where that is at least `grain`, in at most 256 chunks
; with at least `chunk` of it each, whose sizes are multiples of a power of 2; where it is less, as brief.ll says. One
; thread runs it as a whole: kernels go through large arrays in an order of their own.
define void @dlvm.share(ptr %body, ptr %captures, i64 %n, i64 %work, i64 %grain, i64 %chunk, i64 %multiple)
    noinline nounwind {
  %is_small = icmp ult i64 %work, %grain
  br i1 %is_small, label %small, label %many
small:
  %brief = lshr i64 %grain, {brief}
  %is_tiny = icmp ult i64 %work, %brief
  br i1 %is_tiny, label %alone, label %try
try:
  tail call void @threads.share_brief(ptr %body, ptr %captures, i64 %n, i64 %work, i64 %grain, i64 %multiple)
  ret void
alone:
  tail call void %body(ptr %captures, i64 0, i64 %n)
  ret void
many:
  %state = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:threads:state}), !invariant.load !0
  %threads_at = getelementptr i8, ptr %state, i64 200
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %one_thread = icmp sle i64 %threads, 1
  br i1 %one_thread, label %alone, label %cut
cut:
  %all = udiv i64 %work, %chunk
  %are_few = icmp ult i64 %all, 256
  %pieces = select i1 %are_few, i64 %all, i64 256
  %more = sub i64 %pieces, 1
  %over = add i64 %n, %more
  %least = udiv i64 %over, %pieces
  %is_none = icmp eq i64 %least, 0
  %some = select i1 %is_none, i64 1, i64 %least
  %border = sub i64 %multiple, 1
  %up = add i64 %some, %border
  %mask = sub i64 0, %multiple
  %size = and i64 %up, %mask
  %whole_time = mul i64 %all, {chunk}
  tail call void @dlvm.share_pieces(ptr %body, ptr %captures, i64 %n, i64 %size, i64 %whole_time)
  ret void
}

; As share_pieces, where a chunk takes as long as one of an array kernel.
define void @dlvm.parallel(ptr %body, ptr %captures, i64 %n, i64 %size) noinline nounwind {
  %pieces = udiv i64 %n, %size
  %whole_time = mul i64 %pieces, {chunk}
  tail call void @dlvm.share_pieces(ptr %body, ptr %captures, i64 %n, i64 %size, i64 %whole_time)
  ret void
}

; Run body(captures, first, last) for chunks of `size` that cover 0 to n; one thread would take about `whole_time` ns.
define void @dlvm.share_pieces(ptr %body, ptr %captures, i64 %n, i64 %size, i64 %whole_time) noinline nounwind {
start:
  %state = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:threads:state}), !invariant.load !0
  %over = add i64 %n, %size
  %up = sub i64 %over, 1
  %chunks = udiv i64 %up, %size
  %threads_at = getelementptr i8, ptr %state, i64 200
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %one_thread = icmp sle i64 %threads, 1
  %one_chunk = icmp ule i64 %chunks, 1
  %too_many = icmp ugt i64 %chunks, 2147483647
  %alone_a = or i1 %one_thread, %one_chunk
  %alone_b = or i1 %alone_a, %too_many
  br i1 %alone_b, label %alone, label %look
look:
  %is_ours = call i1 @threads.is_ours(ptr %state)
  br i1 %is_ours, label %lock, label %alone
lock:
  %lock_at = getelementptr i8, ptr %state, i64 192
  %taken = cmpxchg ptr %lock_at, i64 0, i64 1 acquire monotonic
  %mine = extractvalue { i64, i1 } %taken, 1
  br i1 %mine, label %locked, label %alone
locked:
  %pause_at = getelementptr i8, ptr %state, i64 240
  %pause = load i64, ptr %pause_at
  %now = call i64 @threads.now(i32 {monotonic})
  %left = sub i64 %pause, %now
  %is_paused = icmp sgt i64 %left, %whole_time
  br i1 %is_paused, label %unlock, label %hire
hire:
  %made = call i64 @threads.hire(ptr %state)
  %nobody = icmp eq i64 %made, 0
  br i1 %nobody, label %unlock, label %share
unlock:
  store atomic i64 0, ptr %lock_at release, align 8
  br label %alone
share:
  %begin = call i64 @threads.now(i32 {monotonic})
  %parked_at = getelementptr i8, ptr %state, i64 224
  call void @threads.publish(ptr %state, ptr %body, ptr %captures, i64 %n, i64 %size, i64 %chunks)
  %parked = load atomic i64, ptr %parked_at seq_cst, align 8
  %are_parked = icmp ne i64 %parked, 0
  br i1 %are_parked, label %wake, label %work
wake:
  %others = sub i64 %chunks, 1
  call void @threads.wake(ptr %state, i64 %others)
  br label %work
work:
  %first = call i64 @threads.now(i32 {processor})
  %own = call i64 @threads.run_own(ptr %state, ptr %body, ptr %captures, i64 %n, i64 %size)
  %last = call i64 @threads.now(i32 {processor})
  call void @threads.settle(ptr %state, i64 %own, i64 %chunks)
  ; who got no chunk had no core: then all of it is a loss
  %stop = call i64 @threads.now(i32 {monotonic})
  %none_own = icmp eq i64 %own, 0
  %some_own = select i1 %none_own, i64 1, i64 %own
  %time = sub i64 %last, %first
  %busy = select i1 %none_own, i64 0, i64 %time
  %busy_f = uitofp i64 %busy to double
  %chunks_f = uitofp i64 %chunks to double
  %own_f = uitofp i64 %some_own to double
  %whole = fmul double %busy_f, %chunks_f
  %alone_f = fdiv double %whole, %own_f
  %took = sub i64 %stop, %begin
  %took_f = uitofp i64 %took to double
  %lost_f = fsub double %took_f, %alone_f
  %wins = fcmp ole double %lost_f, 0.0
  %factor_at = getelementptr i8, ptr %state, i64 248
  %base_at = getelementptr i8, ptr %state, i64 632
  %base = load i64, ptr %base_at
  %credit_at = getelementptr i8, ptr %state, i64 912
  %credit = load i64, ptr %credit_at
  br i1 %wins, label %win, label %lose
win:
  store i64 %base, ptr %factor_at
  %won_f = fneg double %lost_f
  %won = fptoui double %won_f to i64
  %more_credit = add i64 %credit, %won
  %next_credit = call i64 @llvm.umin.i64(i64 %more_credit, i64 10000000)
  store i64 %next_credit, ptr %credit_at
  br label %leave
lose:
  %lost_whole = fptoui double %lost_f to i64
  %lost = call i64 @llvm.usub.sat.i64(i64 %lost_whole, i64 %credit)
  %less_credit = call i64 @llvm.usub.sat.i64(i64 %credit, i64 %lost_whole)
  store i64 %less_credit, ptr %credit_at
  %is_covered = icmp eq i64 %lost, 0
  br i1 %is_covered, label %leave, label %pay
pay:
  %factor = load i64, ptr %factor_at
  %more_penalty = mul i64 %lost, %factor
  %least = mul i64 %lost, %base
  %bound = call i64 @llvm.umax.i64(i64 %least, i64 1000000000)
  %penalty = call i64 @llvm.umin.i64(i64 %more_penalty, i64 %bound)
  %twice = shl i64 %factor, 1
  %most = shl i64 %base, 6
  %is_most = icmp ugt i64 %twice, %most
  %next_factor = select i1 %is_most, i64 %most, i64 %twice
  store i64 %next_factor, ptr %factor_at
  %until = add i64 %stop, %penalty
  store i64 %until, ptr %pause_at
  br label %leave
leave:
  store atomic i64 0, ptr %lock_at release, align 8
  ret void
alone:
  %any = icmp ne i64 %chunks, 0
  br i1 %any, label %each, label %end
each:
  %at = phi i64 [ 0, %alone ], [ %at_next, %each ]
  call void @threads.run(ptr %body, ptr %captures, i64 %n, i64 %size, i64 %at)
  %at_next = add i64 %at, 1
  %more = icmp ult i64 %at_next, %chunks
  br i1 %more, label %each, label %end
end:
  ret void
}

; Tell the workers that look for chunks of a region.
define void @threads.publish(ptr %state, ptr %body, ptr %captures, i64 %n, i64 %size, i64 %chunks) alwaysinline nounwind {
  %done_at = getelementptr i8, ptr %state, i64 64
  %body_at = getelementptr i8, ptr %state, i64 128
  %captures_at = getelementptr i8, ptr %state, i64 136
  %n_at = getelementptr i8, ptr %state, i64 144
  %size_at = getelementptr i8, ptr %state, i64 152
  %chunks_at = getelementptr i8, ptr %state, i64 160
  store atomic i64 0, ptr %done_at monotonic, align 8
  store ptr %body, ptr %body_at
  store ptr %captures, ptr %captures_at
  store i64 %n, ptr %n_at
  store i64 %size, ptr %size_at
  store i64 %chunks, ptr %chunks_at
  %range = shl i64 %chunks, 32
  store atomic i64 %range, ptr %state seq_cst, align 8
  ret void
}

; Run chunks from the lower end until none is left; how many these were.
define i64 @threads.run_own(ptr %state, ptr %body, ptr %captures, i64 %n, i64 %size) alwaysinline nounwind {
start:
  br label %take
take:
  %own = phi i64 [ 0, %start ], [ %own_more, %run ]
  %k = call i64 @threads.take(ptr %state, i1 true)
  %is_none = icmp slt i64 %k, 0
  br i1 %is_none, label %done, label %run
run:
  call void @threads.run(ptr %body, ptr %captures, i64 %n, i64 %size, i64 %k)
  %own_more = add i64 %own, 1
  br label %take
done:
  ret i64 %own
}

; The caller has run so many of the chunks: wait for the others.
define void @threads.settle(ptr %state, i64 %own, i64 %chunks) alwaysinline nounwind {
  %done_at = getelementptr i8, ptr %state, i64 64
  %before = atomicrmw add ptr %done_at, i64 %own acq_rel
  %all = add i64 %before, %own
  %is_done = icmp eq i64 %all, %chunks
  br i1 %is_done, label %done, label %wait
wait:
  call void @threads.wait(ptr %state, i64 %chunks)
  br label %done
done:
  ret void
}

; Chunk k.
define void @threads.run(ptr %body, ptr %captures, i64 %n, i64 %size, i64 %k) alwaysinline nounwind {
  %first = mul i64 %k, %size
  %left = sub i64 %n, %first
  %is_short = icmp slt i64 %left, %size
  %length = select i1 %is_short, i64 %left, i64 %size
  %last = add i64 %first, %length
  call void %body(ptr %captures, i64 %first, i64 %last)
  ret void
}

; Take the number of a chunk off the lower or the upper end of the range, or -1.
define i64 @threads.take(ptr %state, i1 %is_lower) alwaysinline nounwind {
start:
  %seen = load atomic i64, ptr %state seq_cst, align 8
  br label %look
look:
  %range = phi i64 [ %seen, %start ], [ %other, %try ]
  %first = and i64 %range, 4294967295
  %end = lshr i64 %range, 32
  %is_some = icmp ult i64 %first, %end
  br i1 %is_some, label %try, label %none
try:
  %without_first = add i64 %range, 1
  %without_last = sub i64 %range, 4294967296
  %rest = select i1 %is_lower, i64 %without_first, i64 %without_last
  %swapped = cmpxchg ptr %state, i64 %range, i64 %rest acq_rel acquire
  %other = extractvalue { i64, i1 } %swapped, 0
  %mine = extractvalue { i64, i1 } %swapped, 1
  br i1 %mine, label %taken, label %look
taken:
  %upper = sub i64 %end, 1
  %k = select i1 %is_lower, i64 %first, i64 %upper
  ret i64 %k
none:
  ret i64 -1
}

; A worker, number 1 and up; of those beyond the threads that are wanted now none takes chunks.
define ptr @threads.worker(ptr %argument) noinline nounwind {
start:
  %state = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:threads:state}), !invariant.load !0
  %number = ptrtoint ptr %argument to i64
  %done_at = getelementptr i8, ptr %state, i64 64
  %body_at = getelementptr i8, ptr %state, i64 128
  %captures_at = getelementptr i8, ptr %state, i64 136
  %n_at = getelementptr i8, ptr %state, i64 144
  %size_at = getelementptr i8, ptr %state, i64 152
  %chunks_at = getelementptr i8, ptr %state, i64 160
  %threads_at = getelementptr i8, ptr %state, i64 200
  %waiting_at = getelementptr i8, ptr %state, i64 232
  %own_box = alloca i64, align 8
  %has_box = icmp ule i64 %number, 7
  %before_own = sub i64 %number, 1
  %shared_box = call ptr @threads.box(ptr %state, i64 %before_own)
  %box = select i1 %has_box, ptr %shared_box, ptr %own_box
  store atomic i64 1, ptr %box release, align 8
  br label %look
look:
  %turn = phi i64 [ 0, %start ], [ %turn_next, %spin ], [ 0, %ran ], [ 0, %parked ], [ 0, %serve ]
  %said = load atomic i64, ptr %box monotonic, align 8
  %is_offered = icmp eq i64 %said, 2
  br i1 %is_offered, label %serve, label %choose
serve:
  call void @threads.serve(ptr %state, ptr %box)
  br label %look
choose:
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %is_wanted = icmp slt i64 %number, %threads
  br i1 %is_wanted, label %take, label %park
take:
  %k = call i64 @threads.take(ptr %state, i1 false)
  %is_none = icmp slt i64 %k, 0
  br i1 %is_none, label %idle, label %run
idle:
  %turn_next = add i64 %turn, 1
  %is_patient = icmp ult i64 %turn_next, {spins}
  br i1 %is_patient, label %spin, label %park
spin:
  {relax}
  br label %look
park:
  %swapped = cmpxchg ptr %box, i64 1, i64 0 monotonic monotonic
  %is_free = extractvalue { i64, i1 } %swapped, 1
  br i1 %is_free, label %sleep, label %parked
sleep:
  call void @threads.park(ptr %state, i64 %number)
  store atomic i64 1, ptr %box release, align 8
  br label %parked
parked:
  br label %look
run:
  %body = load ptr, ptr %body_at
  %captures = load ptr, ptr %captures_at
  %n = load i64, ptr %n_at
  %size = load i64, ptr %size_at
  %chunks = load i64, ptr %chunks_at
  call void @threads.run(ptr %body, ptr %captures, i64 %n, i64 %size, i64 %k)
  %before = atomicrmw add ptr %done_at, i64 1 seq_cst
  %after = add i64 %before, 1
  %is_last = icmp eq i64 %after, %chunks
  br i1 %is_last, label %tell, label %ran
tell:
  %waiting = load atomic i64, ptr %waiting_at seq_cst, align 8
  %is_awaited = icmp ne i64 %waiting, 0
  br i1 %is_awaited, label %call, label %ran
call:
  call void @threads.end(ptr %state)
  br label %ran
ran:
  br label %look
}

; Sleep until there are chunks for worker `number`, or it is called to look for some.
define void @threads.park(ptr %state, i64 %number) noinline cold nounwind {
start:
  %lock = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_mutex_lock}), !invariant.load !0
  %unlock = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_mutex_unlock}), !invariant.load !0
  %wait = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_cond_wait}), !invariant.load !0
  %threads_at = getelementptr i8, ptr %state, i64 200
  %parked_at = getelementptr i8, ptr %state, i64 224
  %mutex = getelementptr i8, ptr %state, i64 256
  %work = getelementptr i8, ptr %state, i64 384
  %called_at = getelementptr i8, ptr %state, i64 936
  %a = call i32 %lock(ptr %mutex)
  ; either the caller of a region sees that somebody is parked, or here its chunks are seen
  %b = atomicrmw add ptr %parked_at, i64 1 seq_cst
  br label %look
look:
  %range = load atomic i64, ptr %state seq_cst, align 8
  %first = and i64 %range, 4294967295
  %end = lshr i64 %range, 32
  %is_some = icmp ult i64 %first, %end
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %is_wanted = icmp slt i64 %number, %threads
  %called = load atomic i64, ptr %called_at monotonic, align 8
  %is_called = icmp sgt i64 %called, 0
  %is_for = or i1 %is_some, %is_called
  %wakes = and i1 %is_for, %is_wanted
  br i1 %wakes, label %leave, label %sleep
sleep:
  %c = call i32 %wait(ptr %work, ptr %mutex)
  br label %look
leave:
  %left = sub i64 %called, 1
  %still = call i64 @llvm.smax.i64(i64 %left, i64 0)
  store atomic i64 %still, ptr %called_at monotonic, align 8
  %d = atomicrmw sub ptr %parked_at, i64 1 seq_cst
  %e = call i32 %unlock(ptr %mutex)
  ret void
}

; Wake as many parked workers as there is work for, or all where some must not take it.
define void @threads.wake(ptr %state, i64 %wanted) noinline cold nounwind {
start:
  %lock = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_mutex_lock}), !invariant.load !0
  %unlock = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_mutex_unlock}), !invariant.load !0
  %signal = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_cond_signal}), !invariant.load !0
  %broadcast = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_cond_broadcast}), !invariant.load !0
  %threads_at = getelementptr i8, ptr %state, i64 200
  %made_at = getelementptr i8, ptr %state, i64 208
  %parked_at = getelementptr i8, ptr %state, i64 224
  %mutex = getelementptr i8, ptr %state, i64 256
  %work = getelementptr i8, ptr %state, i64 384
  {apart}
  %a = call i32 %lock(ptr %mutex)
  %b = call i32 %unlock(ptr %mutex)
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %made = load i64, ptr %made_at
  %parked = load atomic i64, ptr %parked_at monotonic, align 8
  %are_surplus = icmp sge i64 %made, %threads
  %are_few = icmp sle i64 %parked, %wanted
  %all = or i1 %are_surplus, %are_few
  br i1 %all, label %everybody, label %each
everybody:
  %c = call i32 %broadcast(ptr %work)
  ret void
each:
  %k = phi i64 [ 0, %start ], [ %k_next, %each ]
  %d = call i32 %signal(ptr %work)
  %k_next = add i64 %k, 1
  %more = icmp ult i64 %k_next, %wanted
  br i1 %more, label %each, label %done
done:
  ret void
}

; Wait until all chunks have run: for some microseconds awake, then asleep, so that a worker can have this core.
define void @threads.wait(ptr %state, i64 %chunks) noinline nounwind {
start:
  %done_at = getelementptr i8, ptr %state, i64 64
  %waiting_at = getelementptr i8, ptr %state, i64 232
  %mutex = getelementptr i8, ptr %state, i64 256
  %end = getelementptr i8, ptr %state, i64 512
  br label %look
look:
  %turn = phi i64 [ 0, %start ], [ %turn_next, %spin ]
  %done = load atomic i64, ptr %done_at acquire, align 8
  %is_done = icmp eq i64 %done, %chunks
  br i1 %is_done, label %leave, label %idle
idle:
  %turn_next = add i64 %turn, 1
  %is_patient = icmp ult i64 %turn_next, {spins}
  br i1 %is_patient, label %spin, label %sleep
spin:
  {relax}
  br label %look
sleep:
  %lock = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_mutex_lock}), !invariant.load !0
  %unlock = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_mutex_unlock}), !invariant.load !0
  %wait = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_cond_wait}), !invariant.load !0
  %a = call i32 %lock(ptr %mutex)
  store atomic i64 1, ptr %waiting_at seq_cst, align 8
  br label %check
check:
  %now = load atomic i64, ptr %done_at seq_cst, align 8
  %is_now = icmp eq i64 %now, %chunks
  br i1 %is_now, label %woken, label %more
more:
  %b = call i32 %wait(ptr %end, ptr %mutex)
  br label %check
woken:
  store atomic i64 0, ptr %waiting_at seq_cst, align 8
  %c = call i32 %unlock(ptr %mutex)
  br label %leave
leave:
  ret void
}

; Wake the caller of a region, which waits for its last chunk.
define void @threads.end(ptr %state) noinline cold nounwind {
  %lock = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_mutex_lock}), !invariant.load !0
  %unlock = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_mutex_unlock}), !invariant.load !0
  %signal = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_cond_signal}), !invariant.load !0
  %mutex = getelementptr i8, ptr %state, i64 256
  %end = getelementptr i8, ptr %state, i64 512
  %a = call i32 %lock(ptr %mutex)
  %b = call i32 %signal(ptr %end)
  %c = call i32 %unlock(ptr %mutex)
  ret void
}

; Whether the state is that of this process; one that another process has left is made anew. False: somebody else does it.
define i1 @threads.is_ours(ptr %state) noinline nounwind {
start:
  %getpid = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:getpid}), !invariant.load !0
  %process_at = getelementptr i8, ptr %state, i64 216
  %known = load atomic i64, ptr %process_at acquire, align 8
  %pid = call i32 %getpid()
  %process = sext i32 %pid to i64
  %is_ours = icmp eq i64 %known, %process
  br i1 %is_ours, label %yes, label %claim
claim:
  ; what is made anew belongs to -process meanwhile
  %claimed = sub i64 0, %process
  %is_claimed = icmp eq i64 %known, %claimed
  br i1 %is_claimed, label %no, label %try
try:
  %swapped = cmpxchg ptr %process_at, i64 %known, i64 %claimed acq_rel acquire
  %mine = extractvalue { i64, i1 } %swapped, 1
  br i1 %mine, label %renew, label %no
renew:
  %init_mutex = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_mutex_init}), !invariant.load !0
  %init_cond = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_cond_init}), !invariant.load !0
  %lock_at = getelementptr i8, ptr %state, i64 192
  %made_at = getelementptr i8, ptr %state, i64 208
  %parked_at = getelementptr i8, ptr %state, i64 224
  %waiting_at = getelementptr i8, ptr %state, i64 232
  %pause_at = getelementptr i8, ptr %state, i64 240
  %mutex = getelementptr i8, ptr %state, i64 256
  %work = getelementptr i8, ptr %state, i64 384
  %end = getelementptr i8, ptr %state, i64 512
  store i64 0, ptr %state
  store i64 0, ptr %made_at
  store i64 0, ptr %parked_at
  store i64 0, ptr %waiting_at
  store i64 0, ptr %pause_at
  %brief_at = getelementptr i8, ptr %state, i64 920
  call void @llvm.memset.p0.i64(ptr %brief_at, i8 0, i64 4648, i1 false)
  call void @llvm.memset.p0.i64(ptr %mutex, i8 0, i64 376, i1 false)
  %cores_at = getelementptr i8, ptr %state, i64 640
  call void @llvm.memset.p0.i64(ptr %cores_at, i8 0, i64 272, i1 false)
  %a = call i32 %init_mutex(ptr %mutex, ptr null)
  %b = call i32 %init_cond(ptr %work, ptr null)
  %c = call i32 %init_cond(ptr %end, ptr null)
  store i64 0, ptr %lock_at
  store atomic i64 %process, ptr %process_at release, align 8
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; Start the workers that are wanted and not there; how many there are. Where the system gives no more, no more are wanted.
define i64 @threads.hire(ptr %state) noinline cold nounwind {
start:
  %threads_at = getelementptr i8, ptr %state, i64 200
  %made_at = getelementptr i8, ptr %state, i64 208
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %made = load i64, ptr %made_at
  %next = add i64 %made, 1
  %is_less = icmp slt i64 %next, %threads
  br i1 %is_less, label %hire, label %there
there:
  ret i64 %made
hire:
  %fill = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:sigfillset}), !invariant.load !0
  %mask = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_sigmask}), !invariant.load !0
  %create = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_create}), !invariant.load !0
  %detach = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_detach}), !invariant.load !0
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
  %thread = alloca i64, align 8
  ; signals are for the threads of Python: a worker inherits that it gets none
  %a = call i32 %fill(ptr %all)
  %b = call i32 %mask(i32 {sigsetmask}, ptr %all, ptr %old)
  br label %one
one:
  %number = phi i64 [ %next, %hire ], [ %number_next, %created ]
  %argument = inttoptr i64 %number to ptr
  %failed = call i32 %create(ptr %thread, ptr null, ptr @threads.worker, ptr %argument)
  %is_there = icmp eq i32 %failed, 0
  br i1 %is_there, label %created, label %enough
enough:
  store atomic i64 %number, ptr %threads_at monotonic, align 8
  br label %over
created:
  store i64 %number, ptr %made_at
  %id = load i64, ptr %thread
  %place = call i64 @llvm.umin.i64(i64 %number, i64 16)
  %ids = getelementptr i8, ptr %state, i64 776
  %id_at = getelementptr i64, ptr %ids, i64 %place
  store i64 %id, ptr %id_at
  %c = call i32 %detach(i64 %id)
  %number_next = add i64 %number, 1
  %more = icmp slt i64 %number_next, %threads
  br i1 %more, label %one, label %over
over:
  %d = call i32 %mask(i32 {sigsetmask}, ptr %old, ptr null)
  %now_made = load i64, ptr %made_at
  ret i64 %now_made
}

; Nanoseconds of a clock: the one that only goes forward, or the time that this thread has had a core.
define i64 @threads.now(i32 %which) alwaysinline nounwind {
  %clock = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:clock_gettime}), !invariant.load !0
  %time = alloca { i64, i64 }, align 8
  %a = call i32 %clock(i32 %which, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

declare void @threads.apart(ptr)
declare ptr @threads.box(ptr, i64)
declare void @threads.serve(ptr, ptr)
declare void @threads.share_brief(ptr, ptr, i64, i64, i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.usub.sat.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

!0 = !{}
