; The slots of the heap type dlvm_py.Function. `callable.py` makes the type of them.
;
; An instance has a fallback, a Python callable, and a table, an immutable tuple
;     (bytes: the addresses of entries, version, version ...)
; that is replaced as a whole. A running call owns a reference to the table, so the code that it runs in
; stays loaded, whatever is added or cleared meanwhile.

%function = type { i64, ptr, ptr, ptr, ptr, ptr, ptr }
;                            2 vectorcall, 3 dict, 4 weak references, 5 fallback, 6 table

define ptr @dlvm.vectorcall(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames) {
start:
  %out = alloca ptr
  %table.at = getelementptr %function, ptr %self, i32 0, i32 6
  %table = load ptr, ptr %table.at
  %empty = icmp eq ptr %table, null
  br i1 %empty, label %fallback, label %search

search:
  call void @py.Py_IncRef(ptr %table)
  %addresses.at = getelementptr %tuple, ptr %table, i32 0, i32 3
  %addresses = load ptr, ptr %addresses.at
  %nbytes.at = getelementptr %bytes, ptr %addresses, i32 0, i32 2
  %nbytes = load i64, ptr %nbytes.at
  %first = getelementptr %bytes, ptr %addresses, i32 0, i32 4
  %last = getelementptr i8, ptr %first, i64 %nbytes
  br label %try

try:                                              ; the latest version stands first
  %at = phi ptr [ %first, %search ], [ %next, %mismatch ]
  %undone = phi ptr [ null, %search ], [ %undone.now, %mismatch ]
  %done = icmp eq ptr %at, %last
  br i1 %done, label %none, label %call

call:
  %entry = load ptr, ptr %at
  %status = call i32 %entry(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames, ptr %out)
  %handled = icmp eq i32 %status, 0
  br i1 %handled, label %return, label %mismatch

mismatch:
  %undone.before = icmp ne ptr %undone, null
  %not.undone = icmp ne i32 %status, 2
  %as.before = or i1 %undone.before, %not.undone
  %undone.now = select i1 %as.before, ptr %undone, ptr %at
  %next = getelementptr ptr, ptr %at, i64 1
  br label %try

return:
  %in.order = icmp eq ptr %undone, null
  br i1 %in.order, label %leave, label %swap

swap:                          ; the version that had the call takes the place of the one whose call was undone: the
  %a = load ptr, ptr %undone   ; next call is likely to be like this one. Nobody else looks at the order of a table,
  %b = load ptr, ptr %at       ; and a search that another thread is in the middle of ends at the fallback at worst
  store ptr %b, ptr %undone
  store ptr %a, ptr %at
  %begin = ptrtoint ptr %first to i64
  %undone.address = ptrtoint ptr %undone to i64
  %at.address = ptrtoint ptr %at to i64
  %undone.offset = sub i64 %undone.address, %begin
  %at.offset = sub i64 %at.address, %begin
  %versions = getelementptr ptr, ptr %addresses.at, i64 1
  %undone.version = getelementptr i8, ptr %versions, i64 %undone.offset
  %at.version = getelementptr i8, ptr %versions, i64 %at.offset
  %c = load ptr, ptr %undone.version
  %d = load ptr, ptr %at.version
  store ptr %d, ptr %undone.version
  store ptr %c, ptr %at.version
  br label %leave

leave:
  call void @py.Py_DecRef(ptr %table)
  %result = load ptr, ptr %out
  ret ptr %result

none:
  call void @py.Py_DecRef(ptr %table)
  br label %fallback

fallback:
  %fallback.at = getelementptr %function, ptr %self, i32 0, i32 5
  %callable = load ptr, ptr %fallback.at
  %missing = icmp eq ptr %callable, null
  br i1 %missing, label %cleared, label %python

python:
  call void @py.Py_IncRef(ptr %callable)
  %answer = call ptr @py.PyObject_Vectorcall(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames)
  call void @py.Py_DecRef(ptr %callable)
  ret ptr %answer

cleared:                                          ; by the garbage collector, and called by a finalizer
  %error = call ptr @obj.SystemError()
  call void @py.PyErr_SetString(ptr %error, ptr @cleared.text)
  ret ptr null
}

@cleared.text = private constant [48 x i8] c"a dlvm function was called after its collection\00"

define i32 @dlvm.traverse(ptr %self, ptr %visit, ptr %arg) cold {
  %type.at = getelementptr %function, ptr %self, i32 0, i32 1
  %dict.at = getelementptr %function, ptr %self, i32 0, i32 3
  %fallback.at = getelementptr %function, ptr %self, i32 0, i32 5
  %table.at = getelementptr %function, ptr %self, i32 0, i32 6
  %a = call i32 @visit(ptr %type.at, ptr %visit, ptr %arg, i32 0)
  %b = call i32 @visit(ptr %dict.at, ptr %visit, ptr %arg, i32 %a)
  %c = call i32 @visit(ptr %fallback.at, ptr %visit, ptr %arg, i32 %b)
  %d = call i32 @visit(ptr %table.at, ptr %visit, ptr %arg, i32 %c)
  ret i32 %d
}

define internal i32 @visit(ptr %at, ptr %visit, ptr %arg, i32 %before) cold {
  %object = load ptr, ptr %at
  %null = icmp eq ptr %object, null
  %stopped = icmp ne i32 %before, 0
  %skip = or i1 %null, %stopped
  br i1 %skip, label %over, label %call
over:
  ret i32 %before
call:
  %r = call i32 %visit(ptr %object, ptr %arg)
  ret i32 %r
}

define i32 @dlvm.clear(ptr %self) cold {
  %dict.at = getelementptr %function, ptr %self, i32 0, i32 3
  %fallback.at = getelementptr %function, ptr %self, i32 0, i32 5
  %table.at = getelementptr %function, ptr %self, i32 0, i32 6
  call void @replace(ptr %dict.at, ptr null)
  call void @replace(ptr %fallback.at, ptr null)
  call void @replace(ptr %table.at, ptr null)
  ret i32 0
}

; The new value is in place before the old one is let go: a destructor may look.
define internal void @replace(ptr %at, ptr %new) cold {
  %old = load ptr, ptr %at
  call void @py.Py_IncRef(ptr %new)
  store ptr %new, ptr %at
  call void @py.Py_DecRef(ptr %old)
  ret void
}

define void @dlvm.dealloc(ptr %self) cold {
  call void @py.PyObject_GC_UnTrack(ptr %self)
  %weak.at = getelementptr %function, ptr %self, i32 0, i32 4
  %weak = load ptr, ptr %weak.at
  %none = icmp eq ptr %weak, null
  br i1 %none, label %free, label %weakly
weakly:
  call void @py.PyObject_ClearWeakRefs(ptr %self)
  br label %free
free:
  %ignored = call i32 @dlvm.clear(ptr %self)
  %type.at = getelementptr %function, ptr %self, i32 0, i32 1
  %type = load ptr, ptr %type.at
  call void @py.PyObject_GC_Del(ptr %self)
  call void @py.Py_DecRef(ptr %type)
  ret void
}

; As Python's functions: found on an instance it is a bound method, found on the class it is itself.
define ptr @dlvm.descr_get(ptr %self, ptr %instance, ptr %class) {
  %nothing = call ptr @obj.None()
  %is.null = icmp eq ptr %instance, null
  %is.none = icmp eq ptr %instance, %nothing
  %unbound = or i1 %is.null, %is.none
  br i1 %unbound, label %itself, label %bound
itself:
  call void @py.Py_IncRef(ptr %self)
  ret ptr %self
bound:
  %method = call ptr @py.PyMethod_New(ptr %self, ptr %instance)
  ret ptr %method
}

; A new instance, or null with an exception set.
define ptr @dlvm.create(ptr %type, ptr %fallback) cold {
  %self = call ptr @py.PyType_GenericAlloc(ptr %type, i64 0)
  %failed = icmp eq ptr %self, null
  br i1 %failed, label %end, label %fill
fill:
  %vectorcall.at = getelementptr %function, ptr %self, i32 0, i32 2
  store ptr @dlvm.vectorcall, ptr %vectorcall.at
  call void @py.Py_IncRef(ptr %fallback)
  %fallback.at = getelementptr %function, ptr %self, i32 0, i32 5
  store ptr %fallback, ptr %fallback.at
  br label %end
end:
  ret ptr %self
}

; Gives the instance another table.
define void @dlvm.install(ptr %self, ptr %table) cold {
  %table.at = getelementptr %function, ptr %self, i32 0, i32 6
  call void @replace(ptr %table.at, ptr %table)
  ret void
}
