; The trips of a loop that threads share (backend/cpu/loops.py): contexts of chunks, and which exception counts.
;
;   record   { 0 lowest      the first trip of the first chunk that has failed, -1 for a signal handler that raised,
;                            2^63 - 1 as long as there is none
;              8 context     of the call, which gets the site and the operands of that
;              16 owner      the thread of the call
;              24 lock }     of all this
;   context  of a chunk: as all contexts (support.ll), { ..., 72 record, 80 first trip, 88 poll }, with 1 for thread_state
;
; Chunks behind one that has failed did not happen in the program, and need not: they are left out, or end at their next
; poll. Chunks before it run on, one of them may fail as well. Only the owner looks at signals.

declare void @dlvm.parallel(ptr, ptr, i64, i64)
declare void @dlvm.free_all(ptr)
declare i32 @dlvm.poll(ptr)
declare i32 @dlvm.spend(ptr, i64)

@dlvm.imports = external global [0 x ptr]

; Run body(captures, first, last) for chunks of `size` that cover 0 to n; the first field of captures is the record.
; 1: one of them failed, and the context says how. `has_kernels`: the trips have kernels that threads could share; where
; there are fewer than two trips a thread, these are what the threads are for, and the trips follow each other.
define i32 @dlvm.share_trips(ptr %body, ptr %captures, ptr %record, ptr %ctx, i64 %n, i64 %size, i1 %has_kernels)
    noinline nounwind {
start:
  %self = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_self}), !invariant.load !0
  %owner = call i64 %self()
  %context_at = getelementptr i8, ptr %record, i64 8
  %owner_at = getelementptr i8, ptr %record, i64 16
  %lock_at = getelementptr i8, ptr %record, i64 24
  store i64 9223372036854775807, ptr %record
  store ptr %ctx, ptr %context_at
  store i64 %owner, ptr %owner_at
  store i64 0, ptr %lock_at
  br i1 %has_kernels, label %count, label %share
count:
  %state = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:threads:state}), !invariant.load !0
  %threads_at = getelementptr i8, ptr %state, i64 200
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %enough = shl i64 %threads, 1
  %is_few = icmp slt i64 %n, %enough
  br i1 %is_few, label %alone, label %share
alone:
  call void %body(ptr %captures, i64 0, i64 %n)
  br label %judge
share:
  call void @dlvm.parallel(ptr %body, ptr %captures, i64 %n, i64 %size)
  br label %judge
judge:
  %lowest = load atomic i64, ptr %record acquire, align 8
  %is_well = icmp eq i64 %lowest, 9223372036854775807
  br i1 %is_well, label %spend, label %failed
spend:
  ; a chunk is a hundredth of the time between two polls, or more
  %chunks = udiv i64 %n, %size
  %work = shl i64 %chunks, 13
  %status = call i32 @dlvm.spend(ptr %ctx, i64 %work)
  ret i32 %status
failed:
  ret i32 1
}

; Make the context of a chunk. 1: the chunk is not to run.
define i32 @dlvm.begin_trips(ptr %ctx, ptr %record, i64 %first) noinline nounwind {
  %lowest = load atomic i64, ptr %record acquire, align 8
  %is_behind = icmp slt i64 %lowest, %first
  br i1 %is_behind, label %leave, label %make
make:
  %of_at = getelementptr i8, ptr %record, i64 8
  %of = load ptr, ptr %of_at
  %of_taken_at = getelementptr i8, ptr %of, i64 64
  %taken = load i64, ptr %of_taken_at
  %state_at = getelementptr i8, ptr %ctx, i64 8
  %fuel_at = getelementptr i8, ptr %ctx, i64 16
  %site_at = getelementptr i8, ptr %ctx, i64 24
  %taken_at = getelementptr i8, ptr %ctx, i64 64
  %record_at = getelementptr i8, ptr %ctx, i64 72
  %first_at = getelementptr i8, ptr %ctx, i64 80
  store ptr null, ptr %ctx
  store i64 1, ptr %state_at
  store i64 {fuel}, ptr %fuel_at
  store i64 0, ptr %site_at
  store i64 %taken, ptr %taken_at
  store ptr %record, ptr %record_at
  store i64 %first, ptr %first_at
  %poll_at = getelementptr i8, ptr %ctx, i64 88
  store ptr @dlvm.poll_trips, ptr %poll_at
  ret i32 0
leave:
  ret i32 1
}

; Free what a chunk still has; if it failed (status 1) and is the first that did, tell the call.
define void @dlvm.end_trips(ptr %ctx, i32 %status) noinline nounwind {
start:
  call void @dlvm.free_all(ptr %ctx)
  %is_well = icmp eq i32 %status, 0
  br i1 %is_well, label %leave, label %failed
failed:
  %record_at = getelementptr i8, ptr %ctx, i64 72
  %record = load ptr, ptr %record_at
  %first_at = getelementptr i8, ptr %ctx, i64 80
  %first = load i64, ptr %first_at
  call void @trips.lock(ptr %record)
  %lowest = load atomic i64, ptr %record monotonic, align 8
  %is_lower = icmp slt i64 %first, %lowest
  br i1 %is_lower, label %tell, label %told
tell:
  %of_at = getelementptr i8, ptr %record, i64 8
  %of = load ptr, ptr %of_at
  %site_at = getelementptr i8, ptr %ctx, i64 24
  %site = load i32, ptr %site_at
  %of_site_at = getelementptr i8, ptr %of, i64 24
  store i32 %site, ptr %of_site_at
  %operands_at = getelementptr i8, ptr %ctx, i64 32
  %operands = load [4 x i64], ptr %operands_at
  %of_operands_at = getelementptr i8, ptr %of, i64 32
  store [4 x i64] %operands, ptr %of_operands_at
  store atomic i64 %first, ptr %record release, align 8
  br label %told
told:
  call void @trips.unlock(ptr %record)
  br label %leave
leave:
  ret void
}

; The poll of a chunk. 1: it is to end, because one before it has failed, or a signal handler has raised.
define i32 @dlvm.poll_trips(ptr %ctx) noinline cold nounwind {
start:
  %fuel_at = getelementptr i8, ptr %ctx, i64 16
  store i64 {fuel}, ptr %fuel_at
  %record_at = getelementptr i8, ptr %ctx, i64 72
  %record = load ptr, ptr %record_at
  %first_at = getelementptr i8, ptr %ctx, i64 80
  %first = load i64, ptr %first_at
  %lowest = load atomic i64, ptr %record acquire, align 8
  %is_behind = icmp slt i64 %lowest, %first
  br i1 %is_behind, label %end, label %look
look:
  %self = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:pthread_self}), !invariant.load !0
  %thread = call i64 %self()
  %owner_at = getelementptr i8, ptr %record, i64 16
  %owner = load i64, ptr %owner_at
  %is_owner = icmp eq i64 %thread, %owner
  br i1 %is_owner, label %ask, label %go_on
ask:
  %of_at = getelementptr i8, ptr %record, i64 8
  %of = load ptr, ptr %of_at
  ; nobody else writes the site meanwhile
  call void @trips.lock(ptr %record)
  %status = call i32 @dlvm.poll(ptr %of)
  %raised = icmp ne i32 %status, 0
  br i1 %raised, label %stop, label %unlock
stop:
  store atomic i64 -1, ptr %record release, align 8
  br label %unlock
unlock:
  call void @trips.unlock(ptr %record)
  ret i32 %status
go_on:
  ret i32 0
end:
  ret i32 1
}

define internal void @trips.lock(ptr %record) alwaysinline nounwind {
start:
  %at = getelementptr i8, ptr %record, i64 24
  br label %try
try:
  %taken = cmpxchg ptr %at, i64 0, i64 1 acquire monotonic
  %mine = extractvalue { i64, i1 } %taken, 1
  br i1 %mine, label %locked, label %try
locked:
  ret void
}

define internal void @trips.unlock(ptr %record) alwaysinline nounwind {
  %at = getelementptr i8, ptr %record, i64 24
  store atomic i64 0, ptr %at release, align 8
  ret void
}

!0 = !{}
