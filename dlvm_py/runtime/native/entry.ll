; What all native entries share: binding of keywords, slow comparisons, tuples of results, errors; arrays.ll has the rest.
; It is compiled once and for all (standing.py).

%context = type { ptr, ptr, i64, i32, i32, [4 x i64], i64 }
;                 0 allocations, 1 thread state, 2 fuel, 3 site, 5 operands, 6 bytes taken

; Fills `out` with one borrowed argument a parameter, as Python binds them. False: the caller has to say what
; is wrong, or names are not interned.
define internal i1 @entry.bind(ptr %args, i64 %nargs, ptr %kwnames, ptr %names, ptr %defaults,
                              i64 %positional.only, i64 %positional, ptr %out) noinline {
start:
  %n.at = getelementptr %tuple, ptr %names, i32 0, i32 2
  %n = load i64, ptr %n.at
  %names.first = getelementptr %tuple, ptr %names, i32 0, i32 3
  %defaults.first = getelementptr %tuple, ptr %defaults, i32 0, i32 3
  %missing = call ptr @obj.missing()
  %too.many = icmp ugt i64 %nargs, %positional
  br i1 %too.many, label %no, label %count
count:
  %no.keywords = icmp eq ptr %kwnames, null
  br i1 %no.keywords, label %begin, label %keywords
keywords:
  %nkw.at = getelementptr %tuple, ptr %kwnames, i32 0, i32 2
  %nkw.some = load i64, ptr %nkw.at
  br label %begin
begin:
  %nkw = phi i64 [ 0, %count ], [ %nkw.some, %keywords ]
  %kw.first = getelementptr %tuple, ptr %kwnames, i32 0, i32 3
  br label %parameter

parameter:
  %i = phi i64 [ 0, %begin ], [ %i.next, %found ]
  %used = phi i64 [ 0, %begin ], [ %used.next, %found ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %finish, label %source
source:
  %by.position = icmp ult i64 %i, %nargs
  br i1 %by.position, label %position, label %named
position:
  %arg.at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.at
  br label %found
named:
  %name.at = getelementptr ptr, ptr %names.first, i64 %i
  %name = load ptr, ptr %name.at
  %hidden = icmp ult i64 %i, %positional.only
  br i1 %hidden, label %default, label %search
search:
  %k = phi i64 [ 0, %named ], [ %k.next, %other ]
  %k.end = icmp eq i64 %k, %nkw
  br i1 %k.end, label %default, label %compare
compare:
  %kw.at = getelementptr ptr, ptr %kw.first, i64 %k
  %kw = load ptr, ptr %kw.at
  %equal = icmp eq ptr %kw, %name
  br i1 %equal, label %keyword, label %other
other:
  %k.next = add i64 %k, 1
  br label %search
keyword:
  %value.index = add i64 %nargs, %k
  %value.at = getelementptr ptr, ptr %args, i64 %value.index
  %value = load ptr, ptr %value.at
  %used.one = add i64 %used, 1
  br label %found
default:
  %default.at = getelementptr ptr, ptr %defaults.first, i64 %i
  %given = load ptr, ptr %default.at
  %none = icmp eq ptr %given, %missing
  br i1 %none, label %no, label %found
found:
  %bound = phi ptr [ %arg, %position ], [ %value, %keyword ], [ %given, %default ]
  %used.next = phi i64 [ %used, %position ], [ %used.one, %keyword ], [ %used, %default ]
  %out.at = getelementptr ptr, ptr %out, i64 %i
  store ptr %bound, ptr %out.at
  %i.next = add i64 %i, 1
  br label %parameter

finish:
  %all.used = icmp eq i64 %used, %nkw
  ret i1 %all.used
no:
  ret i1 false
}

; The value of a global name, as a new reference; null where it is not defined.
define internal ptr @entry.fetch.dict(ptr %dict, ptr %name) noinline {
  %value = call ptr @py.PyDict_GetItemWithError(ptr %dict, ptr %name)
  %absent = icmp eq ptr %value, null
  br i1 %absent, label %clear, label %keep
clear:
  call void @py.PyErr_Clear()
  ret ptr null
keep:
  call void @py.Py_IncRef(ptr %value)
  ret ptr %value
}

; The value of a closure's cell, as a new reference; null where it is empty.
define internal ptr @entry.fetch.cell(ptr %cell, ptr %name) noinline {
  %value = call ptr @py.PyCell_Get(ptr %cell)
  ret ptr %value
}

; The value of an attribute, as a new reference; null where there is none.
define internal ptr @entry.fetch.attribute(ptr %object, ptr %name) noinline {
  %value = call ptr @py.PyObject_GetAttr(ptr %object, ptr %name)
  %absent = icmp eq ptr %value, null
  br i1 %absent, label %clear, label %keep
clear:
  call void @py.PyErr_Clear()
  ret ptr null
keep:
  ret ptr %value
}

; Whether two objects are the same constant: identical, or equal as float (by bits: 0.0 is not -0.0), int or str.
define internal i1 @entry.same_constant(ptr %a, ptr %b) noinline {
  %same = icmp eq ptr %a, %b
  br i1 %same, label %yes, label %types
types:
  %null = icmp eq ptr %a, null
  br i1 %null, label %no, label %compare
compare:
  %a.type.at = getelementptr %object, ptr %a, i32 0, i32 1
  %b.type.at = getelementptr %object, ptr %b, i32 0, i32 1
  %type = load ptr, ptr %a.type.at
  %b.type = load ptr, ptr %b.type.at
  %alike = icmp eq ptr %type, %b.type
  br i1 %alike, label %kind, label %no
kind:
  %float = call ptr @obj.float()
  %int = call ptr @obj.int()
  %str = call ptr @obj.str()
  %is.float = icmp eq ptr %type, %float
  %is.int = icmp eq ptr %type, %int
  %is.str = icmp eq ptr %type, %str
  %plain = or i1 %is.int, %is.str
  br i1 %is.float, label %bits, label %other
bits:
  %a.at = getelementptr %boxed, ptr %a, i32 0, i32 2
  %b.at = getelementptr %boxed, ptr %b, i32 0, i32 2
  %a.bits = load i64, ptr %a.at
  %b.bits = load i64, ptr %b.at
  %equal = icmp eq i64 %a.bits, %b.bits
  ret i1 %equal
other:
  br i1 %plain, label %rich, label %no
rich:
  %answer = call i32 @py.PyObject_RichCompareBool(ptr %a, ptr %b, i32 2)
  %true = icmp eq i32 %answer, 1
  ret i1 %true
yes:
  ret i1 true
no:
  ret i1 false
}

; -- results ---------------------------------------------------------------------------------------------

; A tuple of n references, which it takes over; null if one of them is null.
define internal ptr @entry.tuple(ptr %items, i64 %n) noinline {
start:
  br label %check
check:
  %k = phi i64 [ 0, %start ], [ %k.next, %more ]
  %checked = icmp eq i64 %k, %n
  br i1 %checked, label %make, label %look
look:
  %k.at = getelementptr ptr, ptr %items, i64 %k
  %item = load ptr, ptr %k.at
  %null = icmp eq ptr %item, null
  br i1 %null, label %drop, label %more
more:
  %k.next = add i64 %k, 1
  br label %check
make:
  %tuple = call ptr @py.PyTuple_New(i64 %n)
  %failed = icmp eq ptr %tuple, null
  br i1 %failed, label %drop, label %fill
fill:
  %i = phi i64 [ 0, %make ], [ %i.next, %put ]
  %full = icmp eq i64 %i, %n
  br i1 %full, label %done, label %put
put:
  %i.at = getelementptr ptr, ptr %items, i64 %i
  %taken = load ptr, ptr %i.at
  %status = call i32 @py.PyTuple_SetItem(ptr %tuple, i64 %i, ptr %taken)
  %i.next = add i64 %i, 1
  br label %fill
done:
  ret ptr %tuple
drop:
  call void @entry.drop(ptr %items, i64 %n)
  ret ptr null
}

; A result that a Python callable makes of the tuple of its parts, which is used up; null, with an exception, where
; one of the two fails.
define internal ptr @entry.make(ptr %maker, ptr %parts) noinline {
  %failed = icmp eq ptr %parts, null
  br i1 %failed, label %no, label %call
call:
  %argument = alloca ptr
  store ptr %parts, ptr %argument
  %made = call ptr @py.PyObject_Vectorcall(ptr %maker, ptr %argument, i64 1, ptr null)
  call void @py.Py_DecRef(ptr %parts)
  ret ptr %made
no:
  ret ptr null
}

; Lets n references go; null ones too.
define internal void @entry.drop(ptr %items, i64 %n) noinline {
start:
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %k.next, %one ]
  %end = icmp eq i64 %k, %n
  br i1 %end, label %done, label %one
one:
  %at = getelementptr ptr, ptr %items, i64 %k
  %item = load ptr, ptr %at
  call void @py.Py_DecRef(ptr %item)
  %k.next = add i64 %k, 1
  br label %loop
done:
  ret void
}

; -- generators of random numbers --------------------------------------------------------------------------

; The C interface in the capsule of a bit generator, or null.
define internal ptr @entry.bitgen(ptr %capsule) cold noinline {
  %found = call ptr @py.PyCapsule_GetPointer(ptr %capsule, ptr @entry.bitgen.name)
  %none = icmp eq ptr %found, null
  br i1 %none, label %clear, label %done
clear:
  call void @py.PyErr_Clear()
  ret ptr null
done:
  ret ptr %found
}

@entry.bitgen.name = private constant [13 x i8] c"BitGenerator\00"

; Calls a method of a lock: acquire or release. False: an exception is set.
define internal i1 @entry.lock(ptr %lock, ptr %name) cold noinline {
  %method = call ptr @py.PyObject_GetAttr(ptr %lock, ptr %name)
  %absent = icmp eq ptr %method, null
  br i1 %absent, label %failed, label %call
call:
  %found = call ptr @py.PyObject_CallNoArgs(ptr %method)
  call void @py.Py_DecRef(ptr %method)
  %none = icmp eq ptr %found, null
  br i1 %none, label %failed, label %done
done:
  call void @py.Py_DecRef(ptr %found)
  ret i1 true
failed:
  ret i1 false
}

; Gives a lock back; an exception that is set stays.
define internal void @entry.unlock(ptr %lock, ptr %name) cold noinline {
start:
  %type.at = alloca ptr
  %value.at = alloca ptr
  %traceback.at = alloca ptr
  call void @py.PyErr_Fetch(ptr %type.at, ptr %value.at, ptr %traceback.at)
  %given = call i1 @entry.lock(ptr %lock, ptr %name)
  br i1 %given, label %restore, label %clear
clear:
  call void @py.PyErr_Clear()
  br label %restore
restore:
  %type = load ptr, ptr %type.at
  %value = load ptr, ptr %value.at
  %traceback = load ptr, ptr %traceback.at
  call void @py.PyErr_Restore(ptr %type, ptr %value, ptr %traceback)
  ret void
}

; -- errors ----------------------------------------------------------------------------------------------

; Sets the exception of the site that is recorded in the context.
define internal void @entry.raise(ptr %context, ptr %on_error) cold noinline {
start:
  %site.at = getelementptr %context, ptr %context, i32 0, i32 3
  %site = load i32, ptr %site.at
  switch i32 %site, label %table [ i32 -1, label %done
                                   i32 -2, label %memory ]
memory:
  %ignored = call ptr @py.PyErr_NoMemory()
  br label %done
table:
  %a.at = getelementptr %context, ptr %context, i32 0, i32 5, i32 0
  %b.at = getelementptr %context, ptr %context, i32 0, i32 5, i32 1
  %c.at = getelementptr %context, ptr %context, i32 0, i32 5, i32 2
  %d.at = getelementptr %context, ptr %context, i32 0, i32 5, i32 3
  %a = load i64, ptr %a.at
  %b = load i64, ptr %b.at
  %c = load i64, ptr %c.at
  %d = load i64, ptr %d.at
  %error = call ptr @py.PyObject_CallFunction(ptr %on_error, ptr @entry.raise.format, i32 %site, i64 %a, i64 %b,
                                              i64 %c, i64 %d)
  %none = icmp eq ptr %error, null
  br i1 %none, label %done, label %set
set:
  %type.at = getelementptr %object, ptr %error, i32 0, i32 1
  %type = load ptr, ptr %type.at
  call void @py.PyErr_SetObject(ptr %type, ptr %error)
  call void @py.Py_DecRef(ptr %error)
  br label %done
done:
  ret void
}

@entry.raise.format = private constant [6 x i8] c"iLLLL\00"
