; What all native entries share: binding of keywords, slow comparisons, byte ranges, boxing of arrays, errors.
; It is compiled once and for all (standing.py).

%context = type { ptr, ptr, i64, i32, i32, [4 x i64], i64 }
;                 0 allocations, 1 thread state, 2 fuel, 3 site, 5 operands, 6 bytes taken
%header = type { i64, ptr, i64, ptr, ptr, ptr }
;                0 references, 1 data, 2 nbytes, 3 the ndarray that owns the data, 4 previous, 5 next

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

; Whether a dtype object that is not NumPy's own one (that of an unpickled array) means the same.
; NumPy has two type numbers for one integer type: `long` and `long long`.
define internal i1 @entry.same_dtype(ptr %descr, i32 %number, i32 %alias) cold noinline {
  %number.at = getelementptr %descr, ptr %descr, i32 0, i32 7
  %order.at = getelementptr %descr, ptr %descr, i32 0, i32 5
  %found = load i32, ptr %number.at
  %order = load i8, ptr %order.at
  %is.number = icmp eq i32 %found, %number
  %is.alias = icmp eq i32 %found, %alias
  %fits = or i1 %is.number, %is.alias
  %native = icmp eq i8 %order, 61                  ; "=" as against "<" or ">"
  %bytes = icmp eq i8 %order, 124                  ; "|": has no byte order
  %ordered = or i1 %native, %bytes
  %same = and i1 %fits, %ordered
  ret i1 %same
}

; The bytes [low, high) that the elements of an array lie in; low = high for an array without elements.
define internal void @entry.range(ptr %array, i64 %itemsize, ptr %out) noinline {
start:
  %data.at = getelementptr %ndarray, ptr %array, i32 0, i32 2
  %nd.at = getelementptr %ndarray, ptr %array, i32 0, i32 3
  %shape.at = getelementptr %ndarray, ptr %array, i32 0, i32 4
  %strides.at = getelementptr %ndarray, ptr %array, i32 0, i32 5
  %data = load i64, ptr %data.at
  %nd = load i32, ptr %nd.at
  %shape = load ptr, ptr %shape.at
  %strides = load ptr, ptr %strides.at
  %first.high = add i64 %data, %itemsize
  br label %loop
loop:
  %axis = phi i32 [ 0, %start ], [ %axis.next, %some ]
  %low = phi i64 [ %data, %start ], [ %low.next, %some ]
  %high = phi i64 [ %first.high, %start ], [ %high.next, %some ]
  %end = icmp eq i32 %axis, %nd
  br i1 %end, label %done, label %step
step:
  %index = zext i32 %axis to i64
  %extent.at = getelementptr i64, ptr %shape, i64 %index
  %extent = load i64, ptr %extent.at
  %none = icmp eq i64 %extent, 0
  br i1 %none, label %empty, label %some
some:
  %stride.at = getelementptr i64, ptr %strides, i64 %index
  %stride = load i64, ptr %stride.at
  %count = sub i64 %extent, 1
  %reach = mul i64 %count, %stride
  %down = call i64 @llvm.smin.i64(i64 %reach, i64 0)
  %up = call i64 @llvm.smax.i64(i64 %reach, i64 0)
  %low.next = add i64 %low, %down
  %high.next = add i64 %high, %up
  %axis.next = add i32 %axis, 1
  br label %loop
empty:
  store i64 %data, ptr %out
  br label %close
done:
  store i64 %low, ptr %out
  br label %close
close:
  %top = phi i64 [ %data, %empty ], [ %high, %done ]
  %high.at = getelementptr i64, ptr %out, i64 1
  store i64 %top, ptr %high.at
  ret void
}

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

define internal i1 @entry.overlap(ptr %a, ptr %b) noinline {
  %a.low = load i64, ptr %a
  %b.low = load i64, ptr %b
  %a.high.at = getelementptr i64, ptr %a, i64 1
  %b.high.at = getelementptr i64, ptr %b, i64 1
  %a.high = load i64, ptr %a.high.at
  %b.high = load i64, ptr %b.high.at
  %below = icmp ult i64 %a.low, %b.high
  %above = icmp ult i64 %b.low, %a.high
  %meet = and i1 %below, %above
  %a.some = icmp ne i64 %a.low, %a.high
  %b.some = icmp ne i64 %b.low, %b.high
  %both = and i1 %a.some, %b.some
  %overlap = and i1 %meet, %both
  ret i1 %overlap
}

; -- results ---------------------------------------------------------------------------------------------

; An array result as an ndarray (new reference), or null with an exception set.
; `order`: 1 C-contiguous, 2 F-contiguous (strides is null), 0 strides are given.
define internal ptr @entry.box_array(ptr %data, ptr %header, ptr %descr, i32 %type.number, i32 %nd, ptr %shape,
                                    ptr %strides, i32 %order, i64 %itemsize) noinline {
start:
  %object.at = getelementptr %header, ptr %header, i32 0, i32 3
  %object = load ptr, ptr %object.at
  %fresh = icmp eq ptr %object, null
  br i1 %fresh, label %allocation, label %known

allocation:
  %data.at = getelementptr %header, ptr %header, i32 0, i32 1
  %nbytes.at = getelementptr %header, ptr %header, i32 0, i32 2
  %start.of.data = load ptr, ptr %data.at
  %nbytes = load i64, ptr %nbytes.at
  %size = call i64 @entry.dense_size(i32 %nd, ptr %shape, ptr %strides, i64 %itemsize)
  %from.start = icmp eq ptr %data, %start.of.data
  %at.least = call i64 @llvm.smax.i64(i64 %size, i64 1)
  %up = add i64 %at.least, 63                      ; as @dlvm.allocate rounds
  %rounded = and i64 %up, -64
  %to.end = icmp eq i64 %rounded, %nbytes
  %no.gaps = icmp sge i64 %size, 0
  %filled = and i1 %no.gaps, %to.end
  %whole = and i1 %from.start, %filled
  br i1 %whole, label %own, label %part

own:
  %dense.order = call i32 @llvm.umax.i32(i32 %order, i32 1)
  %owned = call ptr @entry.owner(ptr %header, ptr %descr, i32 %nd, ptr %shape, i32 %dense.order)
  ret ptr %owned

part:                                             ; its base is an array of all the bytes
  %bytes.shape = alloca i64
  store i64 %nbytes, ptr %bytes.shape
  %u8 = call ptr @obj.descr.uint8()
  %owner = call ptr @entry.owner(ptr %header, ptr %u8, i32 1, ptr %bytes.shape, i32 1)
  %no.owner = icmp eq ptr %owner, null
  br i1 %no.owner, label %failed, label %part.view
part.view:
  %piece = call ptr @entry.view(ptr %data, ptr %owner, ptr %descr, i32 %nd, ptr %shape, ptr %strides, i32 %order)
  call void @py.Py_DecRef(ptr %owner)
  ret ptr %piece
failed:
  ret ptr null

known:
  %itself = call i1 @entry.is_itself(ptr %data, ptr %object, ptr %descr, i32 %type.number, i32 %nd, ptr %shape,
                                    ptr %strides, i32 %order)
  br i1 %itself, label %same, label %view
same:
  call void @py.Py_IncRef(ptr %object)
  ret ptr %object
view:
  %viewed = call ptr @entry.view(ptr %data, ptr %object, ptr %descr, i32 %nd, ptr %shape, ptr %strides, i32 %order)
  ret ptr %viewed
}

declare i32 @llvm.umax.i32(i32, i32)

; Bytes of an array without gaps in C or F order; -1 if the strides given are not those of C order.
define internal i64 @entry.dense_size(i32 %nd, ptr %shape, ptr %strides, i64 %itemsize) noinline {
start:
  %strided = icmp ne ptr %strides, null
  br label %loop
loop:
  %left = phi i32 [ %nd, %start ], [ %axis, %fits ]
  %size = phi i64 [ %itemsize, %start ], [ %size.next, %fits ]
  %end = icmp eq i32 %left, 0
  br i1 %end, label %done, label %step
step:
  %axis = sub i32 %left, 1
  %index = zext i32 %axis to i64
  %extent.at = getelementptr i64, ptr %shape, i64 %index
  %extent = load i64, ptr %extent.at
  %size.next = mul i64 %size, %extent
  %single = icmp eq i64 %extent, 1
  %free = xor i1 %strided, true
  %any = or i1 %single, %free
  br i1 %any, label %fits, label %check
check:
  %stride.at = getelementptr i64, ptr %strides, i64 %index
  %stride = load i64, ptr %stride.at
  %dense = icmp eq i64 %stride, %size
  br i1 %dense, label %fits, label %gaps
fits:
  br label %loop
gaps:
  ret i64 -1
done:
  ret i64 %size
}

; A new array that takes the data of a header over; the header then names it.
; Its memory handler is that of handler.ll, by which the memory comes back.
define internal ptr @entry.owner(ptr %header, ptr %descr, i32 %nd, ptr %shape, i32 %order) noinline {
  %data.at = getelementptr %header, ptr %header, i32 0, i32 1
  %data = load ptr, ptr %data.at
  %class = call ptr @obj.ndarray()
  %flags = or i32 %order, 1280                     ; aligned, writeable
  call void @py.Py_IncRef(ptr %descr)
  %array = call ptr @np.PyArray_NewFromDescr(ptr %class, ptr %descr, i32 %nd, ptr %shape, ptr null, ptr %data,
                                             i32 %flags, ptr null)
  %none = icmp eq ptr %array, null
  br i1 %none, label %failed, label %take
take:
  %flags.at = getelementptr %ndarray, ptr %array, i32 0, i32 8
  %found = load i32, ptr %flags.at
  %owning = or i32 %found, 4
  store i32 %owning, ptr %flags.at
  %handler = call ptr @obj.mem_handler()
  call void @py.Py_IncRef(ptr %handler)
  %handler.at = getelementptr %ndarray, ptr %array, i32 0, i32 11
  store ptr %handler, ptr %handler.at
  %object.at = getelementptr %header, ptr %header, i32 0, i32 3
  store ptr %array, ptr %object.at
  store ptr null, ptr %data.at
  ret ptr %array
failed:
  ret ptr null
}

; A new view of `base`, writeable if that is.
define internal ptr @entry.view(ptr %data, ptr %base, ptr %descr, i32 %nd, ptr %shape, ptr %strides, i32 %order) cold noinline {
  %base.flags.at = getelementptr %ndarray, ptr %base, i32 0, i32 8
  %base.flags = load i32, ptr %base.flags.at
  %writeable = and i32 %base.flags, 1024
  %flags = or i32 %writeable, %order
  %class = call ptr @obj.ndarray()
  call void @py.Py_IncRef(ptr %descr)
  %view = call ptr @np.PyArray_NewFromDescr(ptr %class, ptr %descr, i32 %nd, ptr %shape, ptr %strides, ptr %data,
                                            i32 %flags, ptr null)
  %none = icmp eq ptr %view, null
  br i1 %none, label %failed, label %hold
hold:
  call void @py.Py_IncRef(ptr %base)
  %status = call i32 @np.PyArray_SetBaseObject(ptr %view, ptr %base)
  %refused = icmp slt i32 %status, 0
  br i1 %refused, label %drop, label %done
drop:
  call void @py.Py_DecRef(ptr %view)
  ret ptr null
done:
  ret ptr %view
failed:
  ret ptr null
}

; Whether a result is `object` as a whole: same dtype, data, shape and strides.
define internal i1 @entry.is_itself(ptr %data, ptr %object, ptr %descr, i32 %type.number, i32 %nd, ptr %shape,
                                   ptr %strides, i32 %order) noinline {
start:
  %data.at = getelementptr %ndarray, ptr %object, i32 0, i32 2
  %nd.at = getelementptr %ndarray, ptr %object, i32 0, i32 3
  %shape.at = getelementptr %ndarray, ptr %object, i32 0, i32 4
  %strides.at = getelementptr %ndarray, ptr %object, i32 0, i32 5
  %descr.at = getelementptr %ndarray, ptr %object, i32 0, i32 7
  %flags.at = getelementptr %ndarray, ptr %object, i32 0, i32 8
  %its.data = load ptr, ptr %data.at
  %its.nd = load i32, ptr %nd.at
  %its.shape = load ptr, ptr %shape.at
  %its.strides = load ptr, ptr %strides.at
  %its.descr = load ptr, ptr %descr.at
  %its.flags = load i32, ptr %flags.at
  %same.data = icmp eq ptr %its.data, %data
  %same.nd = icmp eq i32 %its.nd, %nd
  %ordered = and i32 %its.flags, %order
  %same.order = icmp eq i32 %ordered, %order
  %both = and i1 %same.data, %same.nd
  %all = and i1 %both, %same.order
  br i1 %all, label %dtype, label %no
dtype:
  %same.descr = icmp eq ptr %its.descr, %descr
  br i1 %same.descr, label %loop, label %slow
slow:
  %equal.descr = call i1 @entry.same_dtype(ptr %its.descr, i32 %type.number, i32 %type.number)
  br i1 %equal.descr, label %loop, label %no
loop:
  %axis = phi i32 [ 0, %dtype ], [ 0, %slow ], [ %axis.next, %next ]
  %end = icmp eq i32 %axis, %nd
  br i1 %end, label %yes, label %compare
compare:
  %index = zext i32 %axis to i64
  %a.at = getelementptr i64, ptr %shape, i64 %index
  %b.at = getelementptr i64, ptr %its.shape, i64 %index
  %a = load i64, ptr %a.at
  %b = load i64, ptr %b.at
  %same.extent = icmp eq i64 %a, %b
  br i1 %same.extent, label %stride, label %no
stride:
  %axis.next = add i32 %axis, 1
  %strided = icmp ne ptr %strides, null
  br i1 %strided, label %steps, label %next
steps:
  %s.at = getelementptr i64, ptr %strides, i64 %index
  %t.at = getelementptr i64, ptr %its.strides, i64 %index
  %s = load i64, ptr %s.at
  %t = load i64, ptr %t.at
  %same.stride = icmp eq i64 %s, %t
  %single = icmp eq i64 %a, 1
  %fits = or i1 %same.stride, %single
  br i1 %fits, label %next, label %no
next:
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

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
