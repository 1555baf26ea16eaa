; What native entries with arrays share: their dtypes, byte ranges, and boxing. Compiled as entry.ll is.

%header = type { i64, ptr, i64, ptr, ptr, ptr }
;                0 references, 1 data, 2 nbytes, 3 the ndarray that owns the data, 4 previous, 5 next

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
