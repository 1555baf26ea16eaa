; Calls of Python objects by compiled code: linked into the modules that make any.

@dlvm.imports = external global [0 x ptr]

; Take the GIL if it was given up (thread_state is set): whether it was.
define i1 @dlvm.python(ptr %ctx) nounwind {
  %state_at = getelementptr i8, ptr %ctx, i64 8
  %state = load ptr, ptr %state_at
  %was_given = icmp ne ptr %state, null
  br i1 %was_given, label %take, label %done
take:
  %restore = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyEval_RestoreThread}), !invariant.load !0
  call void %restore(ptr %state)
  br label %done
done:
  ret i1 %was_given
}

; Give the GIL up again, if it was.
define void @dlvm.no_python(ptr %ctx, i1 %was_given) nounwind {
  br i1 %was_given, label %give, label %done
give:
  %save = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyEval_SaveThread}), !invariant.load !0
  %saved = call ptr %save()
  %state_at = getelementptr i8, ptr %ctx, i64 8
  store ptr %saved, ptr %state_at
  br label %done
done:
  ret void
}

; Call an object with two numbers. What it returns, unless it is None, is an exception to raise. 1: an exception is set;
; the site says so.
define i32 @dlvm.ask(ptr %ctx, ptr %object, i64 %what, i64 %more) noinline nounwind {
  %was_given = call i1 @dlvm.python(ptr %ctx)
  %call = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyObject_CallFunction}), !invariant.load !0
  %none = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:obj:None}), !invariant.load !0
  %drop = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:Py_DecRef}), !invariant.load !0
  %found = call ptr (ptr, ptr, ...) %call(ptr %object, ptr @dlvm.ask.format, i64 %what, i64 %more)
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
  %status = phi i32 [ 1, %0 ], [ %status_found, %clear ]
  call void @dlvm.no_python(ptr %ctx, i1 %was_given)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %leave, label %go_on
leave:
  %site_at = getelementptr i8, ptr %ctx, i64 24
  store i32 -1, ptr %site_at
  ret i32 1
go_on:
  ret i32 0
}

@dlvm.ask.format = private constant [3 x i8] c"LL\00"

!0 = !{}
