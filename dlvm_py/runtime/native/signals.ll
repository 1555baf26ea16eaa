; The poll of code that runs in a Python process: pending signals. Linked by backend/cpu/compile.py, as support.ll is;
; a library of backend/aot has the poll of library.ll in its place.

@dlvm.imports = external global [0 x ptr]

; Re-arm the fuel and run pending signal handlers, with the GIL if it was given up (thread_state is set).
; 1: a handler raised; the site says so. A chunk of a loop that threads share has 1 for thread_state, and at 88 the poll of
; its own (trips.ll).
define i32 @dlvm.poll(ptr %ctx) noinline cold nounwind {
start:
  %fuel_at = getelementptr i8, ptr %ctx, i64 16
  store i64 {fuel}, ptr %fuel_at
  %state_at = getelementptr i8, ptr %ctx, i64 8
  %state = load ptr, ptr %state_at
  %is_chunk = icmp eq ptr %state, inttoptr (i64 1 to ptr)
  br i1 %is_chunk, label %chunk, label %look
chunk:
  %poll_at = getelementptr i8, ptr %ctx, i64 88
  %poll = load ptr, ptr %poll_at
  %status_chunk = call i32 %poll(ptr %ctx)
  ret i32 %status_chunk
look:
  %check = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyErr_CheckSignals}), !invariant.load !0
  %holds = icmp eq ptr %state, null
  br i1 %holds, label %inside, label %outside
inside:
  %status_inside = call i32 %check()
  br label %judge
outside:
  %restore = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyEval_RestoreThread}), !invariant.load !0
  %save = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyEval_SaveThread}), !invariant.load !0
  call void %restore(ptr %state)
  %status_outside = call i32 %check()
  %saved = call ptr %save()
  store ptr %saved, ptr %state_at
  br label %judge
judge:
  %status = phi i32 [ %status_inside, %inside ], [ %status_outside, %outside ]
  %raised = icmp ne i32 %status, 0
  br i1 %raised, label %leave, label %go_on
leave:
  %site_at = getelementptr i8, ptr %ctx, i64 24
  store i32 -1, ptr %site_at
  ret i32 1
go_on:
  ret i32 0
}

; What work leaves of some fuel; where it leaves nothing, what there is after a poll. 0: a handler raised.
define i64 @dlvm.burn(ptr %ctx, i64 %fuel, i64 %work) noinline nounwind {
  %left = sub i64 %fuel, %work
  %go_on = icmp sgt i64 %left, 0
  br i1 %go_on, label %done, label %empty
done:
  ret i64 %left
empty:
  %status = call i32 @dlvm.poll(ptr %ctx)
  %raised = icmp ne i32 %status, 0
  %fuel_at = getelementptr i8, ptr %ctx, i64 16
  %fresh = load i64, ptr %fuel_at
  %some = icmp sgt i64 %fresh, 0
  %least = select i1 %some, i64 %fresh, i64 1
  %after = select i1 %raised, i64 0, i64 %least
  ret i64 %after
}

; Take some work off the fuel of the context, and poll if that used it up. 1: a handler raised.
define i32 @dlvm.spend(ptr %ctx, i64 %work) noinline nounwind {
  %fuel_at = getelementptr i8, ptr %ctx, i64 16
  %fuel = load i64, ptr %fuel_at
  %left = call i64 @dlvm.burn(ptr %ctx, i64 %fuel, i64 %work)
  store i64 %left, ptr %fuel_at
  %raised = icmp eq i64 %left, 0
  %status = zext i1 %raised to i32
  ret i32 %status
}

!0 = !{}
