; What compiled code tells Python: linked into the modules that print, or raise with more than few plain numbers.

@dlvm.imports = external global [0 x ptr]

; Call the version's object `tell` with the site and the memory where the operands lie, with the GIL if it was given up
; (thread_state is set). What it returns, unless it is None, is an exception to raise. 1: an exception is set; the site
; says so.
define i32 @dlvm.tell(ptr %ctx, i32 %site, ptr %values) noinline nounwind {
  %state_at = getelementptr i8, ptr %ctx, i64 8
  %state = load ptr, ptr %state_at
  %holds = icmp eq ptr %state, null
  br i1 %holds, label %inside, label %outside
outside:
  %restore = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyEval_RestoreThread}), !invariant.load !0
  call void %restore(ptr %state)
  br label %inside
inside:
  %call = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyObject_CallFunction}), !invariant.load !0
  %tell = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:obj:tell}), !invariant.load !0
  %none = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:obj:None}), !invariant.load !0
  %drop = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:Py_DecRef}), !invariant.load !0
  %address = ptrtoint ptr %values to i64
  %found = call ptr (ptr, ptr, ...) %call(ptr %tell, ptr @dlvm.tell.format, i32 %site, i64 %address)
  %is_error = icmp eq ptr %found, null
  br i1 %is_error, label %end, label %returned
returned:
  %is_none = icmp eq ptr %found, %none
  br i1 %is_none, label %clear, label %raise
raise:
  %type_of = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyObject_Type}), !invariant.load !0
  %set = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyErr_SetObject}), !invariant.load !0
  %type = call ptr %type_of(ptr %found)
  call void %set(ptr %type, ptr %found)
  call void %drop(ptr %type)
  br label %clear
clear:
  %status_found = phi i32 [ 0, %returned ], [ 1, %raise ]
  call void %drop(ptr %found)
  br label %end
end:
  %status = phi i32 [ 1, %inside ], [ %status_found, %clear ]
  br i1 %holds, label %judge, label %give_up
give_up:
  %save = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyEval_SaveThread}), !invariant.load !0
  %saved = call ptr %save()
  store ptr %saved, ptr %state_at
  br label %judge
judge:
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %leave, label %go_on
leave:
  %site_at = getelementptr i8, ptr %ctx, i64 24
  store i32 -1, ptr %site_at
  ret i32 1
go_on:
  ret i32 0
}

@dlvm.tell.format = private constant [3 x i8] c"iL\00"

!0 = !{}
