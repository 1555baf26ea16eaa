; Regions that are over before a sleeping worker has woken: array kernels of some microseconds, which threads gain by if
; they are awake. A time loop of such kernels keeps them so.
;
;   kernels, one right after the other   1 1 1 1 1 1 1 1 1 1 1 ...  2 2 2 2 2 2 ...
;                                        `needed` ns of them: call  a worker is awake
;
; state (threads.ll)  920 streak    ns of such kernels, one right after the other, that ran alone since workers were called
;                     928 last      when the last one ended
;                     936 called    how many workers are to wake up and look for work, though there is none yet
;                     944 level     the streak that is needed by all that run in the pause
;                     952 pause     until then all run alone
;                     968 credit    ns that may be lost
;                     976 alone     how many such kernels have run alone in a row
;                     1024 boxes    of the first 7 workers, a cache line each:
;                                   { 0 said, 8 body, 16 captures, 24 first, 32 last }
;                     1472 known    128 x { 0 body, 8 time, 16 needed, 24 work }: kernels, each at a place that its address says
;
; A part of the kernel goes to a worker by its box: a line that one core writes and another one reads, where a range that all take
; chunks from is several lines that go to and fro (0.2 microseconds each time). What a box says:
;
;   0 asleep  1 awake       by the worker, at the end of a part too
;   2 offered               by the caller
;   3 taken                 by the worker; the caller takes back (1) what it finds offered still when its own part is done
;   4 taken, and awaited    by the caller, which sleeps
;
; Of a child that is forked all boxes may say 1, and nobody is there: the caller runs all, and is told that it has lost.
;
; Whether it pays is measured from the end of the brief kernel before to the end of this one: behind a region half of what is read
; next, by whatever code, lies in another core's cache, and that must not be left out. The time alone is known from when {settled} or
; more such kernels had run alone in a row. What is lost beyond the credit ends it: a pause, in which the workers fall asleep, and a
; streak 8 times as long that all kernels need which run in the pause, those of the same loop. Credit is given with each call, and won.

@dlvm.imports = external global [0 x ptr]

; Run body(captures, 0, n), an array kernel with work below `grain`, with the workers that are awake.
define void @threads.share_brief(ptr %body, ptr %captures, i64 %n, i64 %work, i64 %grain, i64 %multiple)
    noinline nounwind {
start:
  %state = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:threads:state}), !invariant.load !0
  %threads_at = getelementptr i8, ptr %state, i64 200
  %made_at = getelementptr i8, ptr %state, i64 208
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %is_alone = icmp sle i64 %threads, 1
  ; while the threads are at a region, as this kernel may be itself, nobody is to be had, and what is measured is for others
  %lock_at = getelementptr i8, ptr %state, i64 192
  %busy = load atomic i64, ptr %lock_at monotonic, align 8
  %is_busy = icmp ne i64 %busy, 0
  %is_plain = or i1 %is_alone, %is_busy
  br i1 %is_plain, label %plain, label %look
plain:
  tail call void %body(ptr %captures, i64 0, i64 %n)
  ret void
look:
  %made = load atomic i64, ptr %made_at monotonic, align 8
  %others = sub i64 %threads, 1
  %fewer = call i64 @llvm.umin.i64(i64 %made, i64 %others)
  %boxes = call i64 @llvm.umin.i64(i64 %fewer, i64 7)
  br label %ask
ask:
  %a = phi i64 [ 0, %look ], [ %a_next, %asked ]
  %awake = phi i64 [ 0, %look ], [ %awake_next, %asked ]
  %are_asked = icmp eq i64 %a, %boxes
  br i1 %are_asked, label %choose, label %asked
asked:
  %a_box = call ptr @threads.box(ptr %state, i64 %a)
  %said = load atomic i64, ptr %a_box monotonic, align 8
  %is_awake = icmp eq i64 %said, 1
  %one = zext i1 %is_awake to i64
  %awake_next = add i64 %awake, %one
  %a_next = add i64 %a, 1
  br label %ask
choose:
  %is_nobody = icmp eq i64 %awake, 0
  br i1 %is_nobody, label %no, label %know
know:
  ; the end of the kernel before is as good as the time now, which costs more
  %pause_at = getelementptr i8, ptr %state, i64 952
  %ended_at = getelementptr i8, ptr %state, i64 928
  %pause = load atomic i64, ptr %pause_at monotonic, align 8
  %ended = load atomic i64, ptr %ended_at monotonic, align 8
  %is_paused = icmp slt i64 %ended, %pause
  %known_at = call ptr @threads.known(ptr %state, ptr %body)
  %known = load atomic ptr, ptr %known_at monotonic, align 8
  %is_other = icmp ne ptr %known, %body
  %not_now = or i1 %is_paused, %is_other
  br i1 %not_now, label %no, label %parts
parts:
  %whole_time = call i64 @threads.brief_time(i64 %work, i64 %grain)
  %most = add i64 %awake, 1
  %by_time = udiv i64 %whole_time, {part}
  %some = call i64 @llvm.umin.i64(i64 %by_time, i64 %most)
  %pieces = call i64 @llvm.umax.i64(i64 %some, i64 2)
  %more = sub i64 %pieces, 1
  %over = add i64 %n, %more
  %least = udiv i64 %over, %pieces
  %border = sub i64 %multiple, 1
  %up = add i64 %least, %border
  %mask = sub i64 0, %multiple
  %size = and i64 %up, %mask
  %is_whole = icmp uge i64 %size, %n
  br i1 %is_whole, label %no, label %lock
lock:
  %taken = cmpxchg ptr %lock_at, i64 0, i64 1 acquire monotonic
  %mine = extractvalue { i64, i1 } %taken, 1
  br i1 %mine, label %offer, label %no
offer:
  %b = phi i64 [ 0, %lock ], [ %b_next, %offered ]
  %first = phi i64 [ %size, %lock ], [ %first_next, %offered ]
  %offers = phi i64 [ 0, %lock ], [ %offers_next, %offered ]
  %are_offered = icmp eq i64 %b, %boxes
  %is_end = icmp uge i64 %first, %n
  %is_enough = or i1 %are_offered, %is_end
  br i1 %is_enough, label %run, label %try
try:
  %b_box = call ptr @threads.box(ptr %state, i64 %b)
  %now_said = load atomic i64, ptr %b_box monotonic, align 8
  %is_free = icmp eq i64 %now_said, 1
  br i1 %is_free, label %fill, label %offered
fill:
  %next = add i64 %first, %size
  %last = call i64 @llvm.umin.i64(i64 %next, i64 %n)
  %body_at = getelementptr i8, ptr %b_box, i64 8
  %captures_at = getelementptr i8, ptr %b_box, i64 16
  %first_at = getelementptr i8, ptr %b_box, i64 24
  %last_at = getelementptr i8, ptr %b_box, i64 32
  store ptr %body, ptr %body_at
  store ptr %captures, ptr %captures_at
  store i64 %first, ptr %first_at
  store i64 %last, ptr %last_at
  %swapped = cmpxchg ptr %b_box, i64 1, i64 2 release monotonic
  %is_told = extractvalue { i64, i1 } %swapped, 1
  br i1 %is_told, label %told, label %offered
told:
  %bit = shl i64 1, %b
  %with_bit = or i64 %offers, %bit
  br label %offered
offered:
  %first_next = phi i64 [ %first, %try ], [ %first, %fill ], [ %last, %told ]
  %offers_next = phi i64 [ %offers, %try ], [ %offers, %fill ], [ %with_bit, %told ]
  %b_next = add i64 %b, 1
  br label %offer
run:
  ; where somebody fell asleep meanwhile there is something left behind the parts that are offered
  call void %body(ptr %captures, i64 0, i64 %size)
  %is_rest = icmp ult i64 %first, %n
  br i1 %is_rest, label %left, label %ran
left:
  call void %body(ptr %captures, i64 %first, i64 %n)
  br label %ran
ran:
  br label %collect
collect:
  %c = phi i64 [ 0, %ran ], [ %c_next, %collected ]
  %are_collected = icmp eq i64 %c, %boxes
  br i1 %are_collected, label %judge, label %which
which:
  %c_mask = shl i64 1, %c
  %c_of = and i64 %offers, %c_mask
  %is_of = icmp ne i64 %c_of, 0
  br i1 %is_of, label %back, label %collected
back:
  %c_box = call ptr @threads.box(ptr %state, i64 %c)
  %returned = cmpxchg ptr %c_box, i64 2, i64 1 acquire acquire
  %is_back = extractvalue { i64, i1 } %returned, 1
  br i1 %is_back, label %instead, label %wait
instead:
  %c_first_at = getelementptr i8, ptr %c_box, i64 24
  %c_last_at = getelementptr i8, ptr %c_box, i64 32
  %c_first = load i64, ptr %c_first_at
  %c_last = load i64, ptr %c_last_at
  call void %body(ptr %captures, i64 %c_first, i64 %c_last)
  br label %collected
wait:
  call void @threads.await(ptr %state, ptr %c_box)
  br label %collected
collected:
  %c_next = add i64 %c, 1
  br label %collect
judge:
  %stop = call i64 @threads.now(i32 {monotonic})
  call void @threads.judge_brief(ptr %state, ptr %known_at, i64 %work, i64 %stop)
  store atomic i64 0, ptr %lock_at release, align 8
  ret void
no:
  call void @threads.run_alone(ptr %state, ptr %body, ptr %captures, i64 %n, i64 %work, i64 %grain)
  ret void
}

; The time of a kernel, in ns, by the model.
define i64 @threads.brief_time(i64 %work, i64 %grain) alwaysinline nounwind {
  %scaled = mul i64 %work, {grain}
  %time = udiv i64 %scaled, %grain
  ret i64 %time
}

define ptr @threads.box(ptr %state, i64 %k) alwaysinline nounwind {
  %lines = shl i64 %k, 6
  %at = add i64 %lines, 1024
  %box = getelementptr i8, ptr %state, i64 %at
  ret ptr %box
}

; Where it stands what is known of a kernel, if it is of this one.
define ptr @threads.known(ptr %state, ptr %body) alwaysinline nounwind {
  %address = ptrtoint ptr %body to i64
  %high = lshr i64 %address, 4
  %higher = lshr i64 %address, 11
  %mixed = xor i64 %high, %higher
  %place = and i64 %mixed, 127
  %offset = shl i64 %place, 5
  %at = add i64 %offset, 1472
  %known = getelementptr i8, ptr %state, i64 %at
  ret ptr %known
}

; Wait until a worker is done with its part: for some microseconds awake, then asleep.
define void @threads.await(ptr %state, ptr %box) noinline nounwind {
start:
  br label %look
look:
  %turn = phi i64 [ 0, %start ], [ %turn_next, %spin ]
  %said = load atomic i64, ptr %box acquire, align 8
  %is_taken = icmp eq i64 %said, 3
  br i1 %is_taken, label %idle, label %done
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
  %mutex = getelementptr i8, ptr %state, i64 256
  %end = getelementptr i8, ptr %state, i64 512
  %a = call i32 %lock(ptr %mutex)
  %swapped = cmpxchg ptr %box, i64 3, i64 4 acq_rel acquire
  br label %check
check:
  %now_said = load atomic i64, ptr %box acquire, align 8
  %is_awaited = icmp eq i64 %now_said, 4
  br i1 %is_awaited, label %more, label %woken
more:
  %b = call i32 %wait(ptr %end, ptr %mutex)
  br label %check
woken:
  %c = call i32 %unlock(ptr %mutex)
  br label %done
done:
  ret void
}

; A worker's own box says that there is a part for it: run that, if the caller has not taken it back.
define void @threads.serve(ptr %state, ptr %box) noinline nounwind {
start:
  %swapped = cmpxchg ptr %box, i64 2, i64 3 acq_rel monotonic
  %mine = extractvalue { i64, i1 } %swapped, 1
  br i1 %mine, label %run, label %done
run:
  %body_at = getelementptr i8, ptr %box, i64 8
  %captures_at = getelementptr i8, ptr %box, i64 16
  %first_at = getelementptr i8, ptr %box, i64 24
  %last_at = getelementptr i8, ptr %box, i64 32
  %body = load ptr, ptr %body_at
  %captures = load ptr, ptr %captures_at
  %first = load i64, ptr %first_at
  %last = load i64, ptr %last_at
  call void %body(ptr %captures, i64 %first, i64 %last)
  %said = atomicrmw xchg ptr %box, i64 1 acq_rel
  %is_awaited = icmp eq i64 %said, 4
  br i1 %is_awaited, label %tell, label %done
tell:
  call void @threads.end(ptr %state)
  br label %done
done:
  ret void
}

; Run a kernel alone, learn from it how long it takes so, and call workers where enough of them have followed each other.
define void @threads.run_alone(ptr %state, ptr %body, ptr %captures, i64 %n, i64 %work, i64 %grain) noinline nounwind {
start:
  call void %body(ptr %captures, i64 0, i64 %n)
  %stop = call i64 @threads.now(i32 {monotonic})
  %last_at = getelementptr i8, ptr %state, i64 928
  %last = load atomic i64, ptr %last_at monotonic, align 8
  store atomic i64 %stop, ptr %last_at monotonic, align 8
  %time = sub i64 %stop, %last
  %follows = icmp ult i64 %time, {near}
  br i1 %follows, label %count, label %done
count:
  %known_at = call ptr @threads.known(ptr %state, ptr %body)
  %time_at = getelementptr i8, ptr %known_at, i64 8
  %needed_at = getelementptr i8, ptr %known_at, i64 16
  %work_at = getelementptr i8, ptr %known_at, i64 24
  %alone_at = getelementptr i8, ptr %state, i64 976
  %pause_at = getelementptr i8, ptr %state, i64 952
  %before = load atomic i64, ptr %alone_at monotonic, align 8
  %alone = add i64 %before, 1
  store atomic i64 %alone, ptr %alone_at monotonic, align 8
  %pause = load atomic i64, ptr %pause_at monotonic, align 8
  %is_pause = icmp slt i64 %stop, %pause
  %is_settled = icmp uge i64 %alone, {settled}
  %known = load atomic ptr, ptr %known_at monotonic, align 8
  %is_known = icmp eq ptr %known, %body
  br i1 %is_settled, label %learn, label %taint
learn:
  br i1 %is_known, label %again, label %first
first:
  store atomic i64 %time, ptr %time_at monotonic, align 8
  store atomic i64 {streak}, ptr %needed_at monotonic, align 8
  store atomic i64 %work, ptr %work_at monotonic, align 8
  store atomic ptr %body, ptr %known_at monotonic, align 8
  br label %follow
again:
  ; who lost its core for a while looks slow: twice the mean counts at most
  %mean = call i64 @threads.time_alone(ptr %known_at, i64 %work)
  %twice = shl i64 %mean, 1
  %bounded = call i64 @llvm.umin.i64(i64 %time, i64 %twice)
  %off = sub i64 %bounded, %mean
  %eighth = ashr i64 %off, 3
  %next = add i64 %mean, %eighth
  store atomic i64 %next, ptr %time_at monotonic, align 8
  store atomic i64 %work, ptr %work_at monotonic, align 8
  br label %taint
taint:
  %is_tainted = and i1 %is_pause, %is_known
  br i1 %is_tainted, label %raise, label %follow
raise:
  %level_at = getelementptr i8, ptr %state, i64 944
  %level = load atomic i64, ptr %level_at monotonic, align 8
  %so_far = load atomic i64, ptr %needed_at monotonic, align 8
  %raised = call i64 @llvm.umax.i64(i64 %so_far, i64 %level)
  store atomic i64 %raised, ptr %needed_at monotonic, align 8
  br label %done
follow:
  br i1 %is_pause, label %done, label %add
add:
  %streak_at = getelementptr i8, ptr %state, i64 920
  %streak = load atomic i64, ptr %streak_at monotonic, align 8
  %whole_time = call i64 @threads.brief_time(i64 %work, i64 %grain)
  %part = call i64 @llvm.umin.i64(i64 %time, i64 %whole_time)
  %sum = add i64 %streak, %part
  %needed = load atomic i64, ptr %needed_at monotonic, align 8
  %is_long = icmp ugt i64 %sum, %needed
  %is_enough = and i1 %is_long, %is_settled
  %kept = select i1 %is_enough, i64 0, i64 %sum
  store atomic i64 %kept, ptr %streak_at monotonic, align 8
  br i1 %is_enough, label %call, label %done
call:
  call void @threads.call(ptr %state, i64 %stop)
  br label %done
done:
  ret void
}

; What a kernel takes alone, from what is known of it.
define i64 @threads.time_alone(ptr %known_at, i64 %work) alwaysinline nounwind {
start:
  %time_at = getelementptr i8, ptr %known_at, i64 8
  %work_at = getelementptr i8, ptr %known_at, i64 24
  %time = load atomic i64, ptr %time_at monotonic, align 8
  %then = load atomic i64, ptr %work_at monotonic, align 8
  %is_same = icmp eq i64 %then, %work
  br i1 %is_same, label %same, label %scaled
same:
  ret i64 %time
scaled:
  %product = mul i64 %time, %work
  %some = call i64 @llvm.umax.i64(i64 %then, i64 1)
  %part = udiv i64 %product, %some
  ret i64 %part
}

; A region has ended: what it took is compared with what it takes alone. Who calls has the lock.
define void @threads.judge_brief(ptr %state, ptr %known_at, i64 %work, i64 %stop) alwaysinline nounwind {
start:
  %last_at = getelementptr i8, ptr %state, i64 928
  %pause_at = getelementptr i8, ptr %state, i64 952
  %level_at = getelementptr i8, ptr %state, i64 944
  %credit_at = getelementptr i8, ptr %state, i64 968
  %alone_at = getelementptr i8, ptr %state, i64 976
  %needed_at = getelementptr i8, ptr %known_at, i64 16
  store atomic i64 0, ptr %alone_at monotonic, align 8
  %last = load atomic i64, ptr %last_at monotonic, align 8
  store atomic i64 %stop, ptr %last_at monotonic, align 8
  %took = sub i64 %stop, %last
  %alone = call i64 @threads.time_alone(ptr %known_at, i64 %work)
  ; what did not follow is not compared; what took longer than all that does was away, for which no more is charged
  %follows = icmp ult i64 %took, {away}
  br i1 %follows, label %weigh, label %done
weigh:
  %credit = load i64, ptr %credit_at
  %gain = sub i64 %alone, %took
  %sum = add i64 %credit, %gain
  %next = call i64 @llvm.smin.i64(i64 %sum, i64 {credit})
  store i64 %next, ptr %credit_at
  %is_full = icmp sge i64 %sum, {credit}
  br i1 %is_full, label %full, label %more
full:
  store atomic i64 {streak}, ptr %needed_at monotonic, align 8
  ret void
more:
  %is_spent = icmp slt i64 %sum, 0
  br i1 %is_spent, label %end, label %done
end:
  %needed = load atomic i64, ptr %needed_at monotonic, align 8
  %longer = shl i64 %needed, 3
  %level = call i64 @llvm.umin.i64(i64 %longer, i64 10000000000)
  %until = add i64 %stop, {pause}
  store atomic i64 %level, ptr %level_at monotonic, align 8
  store atomic i64 %level, ptr %needed_at monotonic, align 8
  store atomic i64 %until, ptr %pause_at monotonic, align 8
  ; a child of fork makes the state anew
  %is_ours = call i1 @threads.is_ours(ptr %state)
  br label %done
done:
  ret void
}

; Wake workers, or make them, for brief regions to come.
define void @threads.call(ptr %state, i64 %now) noinline cold nounwind {
start:
  %is_ours = call i1 @threads.is_ours(ptr %state)
  br i1 %is_ours, label %lock, label %done
lock:
  %lock_at = getelementptr i8, ptr %state, i64 192
  %taken = cmpxchg ptr %lock_at, i64 0, i64 1 acquire monotonic
  %mine = extractvalue { i64, i1 } %taken, 1
  br i1 %mine, label %locked, label %done
locked:
  ; where larger regions have found no second processor there is none
  %pause_at = getelementptr i8, ptr %state, i64 240
  %pause = load i64, ptr %pause_at
  %is_paused = icmp slt i64 %now, %pause
  br i1 %is_paused, label %unlock, label %hire
hire:
  ; what a worker reads is in the caller's cache at first
  %credit_at = getelementptr i8, ptr %state, i64 968
  store i64 {first_credit}, ptr %credit_at
  %made_at = getelementptr i8, ptr %state, i64 208
  %there = load i64, ptr %made_at
  %made = call i64 @threads.hire(ptr %state)
  ; who is new looks for chunks at once
  %is_new = icmp ne i64 %made, %there
  %is_nobody = icmp eq i64 %made, 0
  %no_call = or i1 %is_new, %is_nobody
  br i1 %no_call, label %unlock, label %wake
wake:
  %called_at = getelementptr i8, ptr %state, i64 936
  %count = call i64 @llvm.umin.i64(i64 %made, i64 7)
  store atomic i64 %count, ptr %called_at seq_cst, align 8
  call void @threads.wake(ptr %state, i64 %count)
  br label %unlock
unlock:
  store atomic i64 0, ptr %lock_at release, align 8
  br label %done
done:
  ret void
}

declare i1 @threads.is_ours(ptr)
declare i64 @threads.hire(ptr)
declare i64 @threads.now(i32)
declare void @threads.end(ptr)
declare void @threads.wake(ptr, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

!0 = !{}
