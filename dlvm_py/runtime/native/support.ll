; The native runtime that all code shares: allocations. Tapes are in tapes.ll, counting references in inline.ll.
;
; Compiled once (runtime/native/standing.py), or linked into a library; backend/cpu/compile.py replaces `import:NAME` in
; braces by the slot of NAME in @dlvm.imports. No global state: all of it hangs on the context. Memory itself comes from
; pool.ll, in libraries from library.ll: @dlvm.take, @dlvm.give, @dlvm.resize.
;
;   context  { 0 allocations, 8 thread_state, 16 fuel, 24 site, 28 pad, 32 operands[4], 64 taken }
;   header   { 0 refcount, 8 data, 16 nbytes, 24 pyobject, 32 previous, 40 next, 48 give }
;
; `give` is the function that takes the data back, called with (context, data, nbytes); null: they are the pool's.
; The headers of one context form a doubly linked list that starts at `allocations`. `nbytes` is the usable size.
; `taken` counts the bytes of all of them, from 0; from more where a call has a limit, so that it overflows there.

@dlvm.imports = external global [0 x ptr]

declare ptr @dlvm.take(i64)
declare void @dlvm.give(ptr, i64)
declare i64 @dlvm.size(i64, i64, i64, i64, i64)

; Count `nbytes` more (or, negative, less) of the context. False: they are more than it may take, and not counted.
define i1 @dlvm.count(ptr %ctx, i64 %nbytes) alwaysinline nounwind {
  %taken_at = getelementptr i8, ptr %ctx, i64 64
  %old = load i64, ptr %taken_at
  %new = add i64 %old, %nbytes
  %fits = icmp sge i64 %new, 0
  %kept = select i1 %fits, i64 %new, i64 %old
  store i64 %kept, ptr %taken_at
  ret i1 %fits
}

; A new allocation with one reference, or null. More than 1024 bytes are aligned to 64.
; Its result is not `noalias`: the list of the context reaches the header as well.
define ptr @dlvm.allocate(ptr %ctx, i64 %wanted) noinline nounwind {
  %fits = icmp ule i64 %wanted, 9223372036854775744
  br i1 %fits, label %sized, label %failed
sized:
  %is_empty = icmp eq i64 %wanted, 0
  %some = select i1 %is_empty, i64 1, i64 %wanted
  %up = add nuw i64 %some, 63
  %nbytes = and i64 %up, -64
  %is_free = call i1 @dlvm.count(ptr %ctx, i64 %nbytes)
  br i1 %is_free, label %counted, label %failed
counted:
  %data = call ptr @dlvm.take(i64 %nbytes)
  %no_data = icmp eq ptr %data, null
  br i1 %no_data, label %uncount, label %with_data
with_data:
  %header = call ptr @dlvm.adopt(ptr %ctx, ptr %data, i64 %nbytes, ptr null)
  %no_header = icmp eq ptr %header, null
  br i1 %no_header, label %drop_data, label %done
drop_data:
  call void @dlvm.give(ptr %data, i64 %nbytes)
  br label %uncount
uncount:
  %less = sub i64 0, %nbytes
  %uncounted = call i1 @dlvm.count(ptr %ctx, i64 %less)
  br label %failed
done:
  ret ptr %header
failed:
  ret ptr null
}

; A header for memory that has been taken and counted, with one reference; null where there is no room for the header.
define ptr @dlvm.adopt(ptr %ctx, ptr %data, i64 %nbytes, ptr %give) alwaysinline nounwind {
  %header = call ptr @dlvm.take(i64 64)
  %no_header = icmp eq ptr %header, null
  br i1 %no_header, label %done, label %link
link:
  %first = load ptr, ptr %ctx
  %data_at = getelementptr i8, ptr %header, i64 8
  %nbytes_at = getelementptr i8, ptr %header, i64 16
  %object_at = getelementptr i8, ptr %header, i64 24
  %previous_at = getelementptr i8, ptr %header, i64 32
  %next_at = getelementptr i8, ptr %header, i64 40
  %give_at = getelementptr i8, ptr %header, i64 48
  store i64 1, ptr %header
  store ptr %data, ptr %data_at
  store i64 %nbytes, ptr %nbytes_at
  store ptr null, ptr %object_at
  store ptr null, ptr %previous_at
  store ptr %first, ptr %next_at
  store ptr %give, ptr %give_at
  store ptr %header, ptr %ctx
  %alone = icmp eq ptr %first, null
  br i1 %alone, label %done, label %chain
chain:
  %first_previous_at = getelementptr i8, ptr %first, i64 32
  store ptr %header, ptr %first_previous_at
  br label %done
done:
  ret ptr %header
}

; An array of up to four extents, for long functions and where it is made once.
; null: the context says what is wrong, `site` if an extent is negative.
define ptr @dlvm.new(ptr %ctx, i32 %site, i64 %itemsize, i64 %a, i64 %b, i64 %c, i64 %d) noinline nounwind {
start:
  %nbytes = call i64 @dlvm.size(i64 %itemsize, i64 %a, i64 %b, i64 %c, i64 %d)
  %is_negative = icmp slt i64 %nbytes, 0
  br i1 %is_negative, label %failed, label %allocate
allocate:
  %header = call ptr @dlvm.allocate(ptr %ctx, i64 %nbytes)
  %none = icmp eq ptr %header, null
  br i1 %none, label %failed, label %done
done:
  ret ptr %header
failed:
  %what = phi i32 [ %site, %start ], [ -2, %allocate ]
  %site_at = getelementptr i8, ptr %ctx, i64 24
  store i32 %what, ptr %site_at
  ret ptr null
}

; As @dlvm.retain and @dlvm.release, for long functions.
define void @dlvm.keep(ptr %header) noinline nounwind {
  %nothing = icmp eq ptr %header, null
  br i1 %nothing, label %done, label %count
count:
  %old = load i64, ptr %header
  %new = add i64 %old, 1
  store i64 %new, ptr %header
  br label %done
done:
  ret void
}

define void @dlvm.drop(ptr %ctx, ptr %header) noinline nounwind {
  %nothing = icmp eq ptr %header, null
  br i1 %nothing, label %done, label %count
count:
  %old = load i64, ptr %header
  %new = add i64 %old, -1
  store i64 %new, ptr %header
  %unused = icmp eq i64 %new, 0
  br i1 %unused, label %free, label %done
free:
  call void @dlvm.free_one(ptr %ctx, ptr %header)
  br label %done
done:
  ret void
}

; Unlink a header and free it with its data.
define void @dlvm.free_one(ptr %ctx, ptr %header) noinline nounwind {
  %previous_at = getelementptr i8, ptr %header, i64 32
  %next_at = getelementptr i8, ptr %header, i64 40
  %previous = load ptr, ptr %previous_at
  %next = load ptr, ptr %next_at
  %is_first = icmp eq ptr %previous, null
  %previous_next_at = getelementptr i8, ptr %previous, i64 40
  %link_at = select i1 %is_first, ptr %ctx, ptr %previous_next_at
  store ptr %next, ptr %link_at
  %is_last = icmp eq ptr %next, null
  br i1 %is_last, label %unlinked, label %relink
relink:
  %next_previous_at = getelementptr i8, ptr %next, i64 32
  store ptr %previous, ptr %next_previous_at
  br label %unlinked
unlinked:
  %data_at = getelementptr i8, ptr %header, i64 8
  %data = load ptr, ptr %data_at
  %nbytes_at = getelementptr i8, ptr %header, i64 16
  %nbytes = load i64, ptr %nbytes_at
  %less = sub i64 0, %nbytes
  %uncounted = call i1 @dlvm.count(ptr %ctx, i64 %less)
  %give_at = getelementptr i8, ptr %header, i64 48
  %give = load ptr, ptr %give_at
  %is_pools = icmp eq ptr %give, null
  br i1 %is_pools, label %pool, label %other
pool:
  call void @dlvm.give(ptr %data, i64 %nbytes)
  br label %given
other:
  call void %give(ptr %ctx, ptr %data, i64 %nbytes)
  br label %given
given:
  call void @dlvm.give(ptr %header, i64 64)
  ret void
}

; Free everything that the context still owns, whatever its reference count.
define void @dlvm.free_all(ptr %ctx) noinline nounwind {
  %first = load ptr, ptr %ctx
  %clean = icmp eq ptr %first, null
  br i1 %clean, label %done, label %drop
drop:
  %header = phi ptr [ %first, %0 ], [ %next, %drop ]
  call void @dlvm.free_one(ptr %ctx, ptr %header)
  %next = load ptr, ptr %ctx
  %last = icmp eq ptr %next, null
  br i1 %last, label %done, label %drop
done:
  ret void
}
