; The native runtime that all code shares: allocations, tapes. Counting references is in inline.ll.
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
declare ptr @dlvm.resize(ptr, i64)

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

; The bytes of an array of up to four extents: -1 if one is negative, more than any memory if that is no number.
define internal i64 @dlvm.size(i64 %itemsize, i64 %a, i64 %b, i64 %c, i64 %d) alwaysinline nounwind {
  %ab_sign = or i64 %a, %b
  %cd_sign = or i64 %c, %d
  %sign = or i64 %ab_sign, %cd_sign
  %is_negative = icmp slt i64 %sign, 0
  %one = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %itemsize, i64 %a)
  %one_size = extractvalue { i64, i1 } %one, 0
  %one_lost = extractvalue { i64, i1 } %one, 1
  %two = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %one_size, i64 %b)
  %two_size = extractvalue { i64, i1 } %two, 0
  %two_lost = extractvalue { i64, i1 } %two, 1
  %three = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %two_size, i64 %c)
  %three_size = extractvalue { i64, i1 } %three, 0
  %three_lost = extractvalue { i64, i1 } %three, 1
  %four = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %three_size, i64 %d)
  %size = extractvalue { i64, i1 } %four, 0
  %four_lost = extractvalue { i64, i1 } %four, 1
  %lost_12 = or i1 %one_lost, %two_lost
  %lost_34 = or i1 %three_lost, %four_lost
  %lost = or i1 %lost_12, %lost_34
  %too_large = icmp slt i64 %size, 0
  %is_lost = or i1 %lost, %too_large
  %nbytes = select i1 %is_lost, i64 9223372036854775807, i64 %size
  %found = select i1 %is_negative, i64 -1, i64 %nbytes
  ret i64 %found
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

declare ptr @dlvm.cut(ptr, ptr, i64)

; The same for an array that will be pushed: its data, cut from a chunk (inline.ll), which is its header.
define ptr @dlvm.new_cut(ptr %ctx, ptr %chunk, i32 %site, i64 %itemsize, i64 %a, i64 %b, i64 %c, i64 %d)
    noinline nounwind {
start:
  %nbytes = call i64 @dlvm.size(i64 %itemsize, i64 %a, i64 %b, i64 %c, i64 %d)
  %is_negative = icmp slt i64 %nbytes, 0
  br i1 %is_negative, label %failed, label %cut
cut:
  %data = call ptr @dlvm.cut(ptr %ctx, ptr %chunk, i64 %nbytes)
  %none = icmp eq ptr %data, null
  br i1 %none, label %failed, label %done
done:
  ret ptr %data
failed:
  %what = phi i32 [ %site, %start ], [ -2, %cut ]
  %site_at = getelementptr i8, ptr %ctx, i64 24
  store i32 %what, ptr %site_at
  ret ptr null
}

; The place of one more entry of a tape, for long functions; null where there is no memory.
; The tape: { ptr header of the buffer, ptr data, i64 bytes used, i64 bytes there are }.
define ptr @dlvm.push_place(ptr %ctx, ptr %tape, i64 %size) noinline nounwind {
  %data_at = getelementptr i8, ptr %tape, i64 8
  %used_at = getelementptr i8, ptr %tape, i64 16
  %room_at = getelementptr i8, ptr %tape, i64 24
  %used = load i64, ptr %used_at
  %room = load i64, ptr %room_at
  %after = add nuw nsw i64 %used, %size
  %fits = icmp sle i64 %after, %room
  br i1 %fits, label %found, label %grow
grow:
  %header = load ptr, ptr %tape
  %grown = call ptr @dlvm.stack_grow(ptr %ctx, ptr %header)
  %none = icmp eq ptr %grown, null
  br i1 %none, label %failed, label %moved
moved:
  %new_data_at = getelementptr i8, ptr %grown, i64 8
  %new_room_at = getelementptr i8, ptr %grown, i64 16
  %new_data = load ptr, ptr %new_data_at
  %new_room = load i64, ptr %new_room_at
  store ptr %grown, ptr %tape
  store ptr %new_data, ptr %data_at
  store i64 %new_room, ptr %room_at
  br label %found
found:
  store i64 %after, ptr %used_at
  %data = load ptr, ptr %data_at
  %place = getelementptr i8, ptr %data, i64 %used
  ret ptr %place
failed:
  ret ptr null
}

; Release the arrays that are left on a tape, entries of so many bytes with the header at 8.
define void @dlvm.release_entries(ptr %ctx, ptr %tape, i64 %size) noinline nounwind {
start:
  %data_at = getelementptr i8, ptr %tape, i64 8
  %used_at = getelementptr i8, ptr %tape, i64 16
  %data = load ptr, ptr %data_at
  %used = load i64, ptr %used_at
  br label %next
next:
  %at = phi i64 [ 0, %start ], [ %after, %entry ]
  %is_left = icmp slt i64 %at, %used
  br i1 %is_left, label %entry, label %done
entry:
  %place = getelementptr i8, ptr %data, i64 %at
  %header_at = getelementptr i8, ptr %place, i64 8
  %header = load ptr, ptr %header_at
  call void @dlvm.drop(ptr %ctx, ptr %header)
  %after = add nuw nsw i64 %at, %size
  br label %next
done:
  ret void
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

declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

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

; The buffer of a full tape with twice the room (null: the first buffer), or null where there is no memory.
define ptr @dlvm.stack_grow(ptr %ctx, ptr %header) noinline cold nounwind {
  %is_new = icmp eq ptr %header, null
  br i1 %is_new, label %first, label %grow
first:
  %fresh = call ptr @dlvm.allocate(ptr %ctx, i64 4096)
  ret ptr %fresh
grow:
  %data_at = getelementptr i8, ptr %header, i64 8
  %nbytes_at = getelementptr i8, ptr %header, i64 16
  %data = load ptr, ptr %data_at
  %old = load i64, ptr %nbytes_at
  %new = shl i64 %old, 1
  %fits = icmp sgt i64 %new, %old
  br i1 %fits, label %sized, label %failed
sized:
  %is_free = call i1 @dlvm.count(ptr %ctx, i64 %old)
  br i1 %is_free, label %move, label %failed
move:
  %is_huge = icmp ugt i64 %new, 268435456
  br i1 %is_huge, label %remap, label %copy
remap:
  %remapped = call ptr @dlvm.resize(ptr %data, i64 %new)
  br label %made
copy:                                             ; what is taken is kept for the next tape, what is resized often not
  %taken = call ptr @dlvm.take(i64 %new)
  %none = icmp eq ptr %taken, null
  br i1 %none, label %failed, label %fill
fill:
  call void @llvm.memcpy.p0.p0.i64(ptr %taken, ptr %data, i64 %old, i1 false)
  call void @dlvm.give(ptr %data, i64 %old)
  br label %made
made:
  %moved = phi ptr [ %remapped, %remap ], [ %taken, %fill ]
  %no_memory = icmp eq ptr %moved, null
  br i1 %no_memory, label %failed, label %moved_to
moved_to:
  store ptr %moved, ptr %data_at
  store i64 %new, ptr %nbytes_at
  ret ptr %header
failed:
  ret ptr null
}

; The tape gives its chunk up, which its arrays own from now on, and gets one with room for the array and, if it had one
; already, more than before. A chunk that none of its arrays needs any more is filled again.
define i1 @dlvm.new_chunk(ptr %ctx, ptr %fields, i64 %wanted) noinline cold nounwind {
  %filled_at = getelementptr i8, ptr %fields, i64 8
  %room_at = getelementptr i8, ptr %fields, i64 16
  %room = load i64, ptr %room_at
  %chunk = load ptr, ptr %fields
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %new, label %look
look:
  %references = load i64, ptr %chunk
  %others = add i64 %references, -1
  %is_unused = icmp eq i64 %others, 0
  %is_enough = icmp sge i64 %room, %wanted
  %again = and i1 %is_unused, %is_enough
  br i1 %again, label %done, label %leave
leave:
  store i64 %others, ptr %chunk
  store ptr null, ptr %fields
  br i1 %is_unused, label %drop, label %new
drop:
  call void @dlvm.free_one(ptr %ctx, ptr %chunk)
  br label %new
new:
  %twice = shl i64 %room, 1
  %is_some = icmp ugt i64 %twice, 16384
  %grown = select i1 %is_some, i64 %twice, i64 16384
  %is_much = icmp ugt i64 %grown, 4194304
  %next = select i1 %is_much, i64 4194304, i64 %grown
  %is_less = icmp ult i64 %next, %wanted
  %size = select i1 %is_less, i64 %wanted, i64 %next
  %made = call ptr @dlvm.allocate(ptr %ctx, i64 %size)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %no_memory, label %keep
keep:
  store ptr %made, ptr %fields
  store i64 %size, ptr %room_at
  br label %done
done:
  store i64 0, ptr %filled_at
  ret i1 true
no_memory:
  store i64 0, ptr %room_at
  store i64 0, ptr %filled_at
  ret i1 false
}

; Copy `nbytes` to memory that nobody reads soon: whole lines of 64 bytes go past the caches, the ends beside them do not.
; Until a fence other threads may not see it.
define void @dlvm.stream(ptr %to, ptr %from, i64 %nbytes) noinline nounwind {
  %address = ptrtoint ptr %to to i64
  %below = sub i64 0, %address
  %beside = and i64 %below, 63
  %is_short = icmp ult i64 %nbytes, %beside
  %head = select i1 %is_short, i64 %nbytes, i64 %beside
  call void @dlvm.copy_few(ptr %to, ptr %from, i64 %head)
  %left = sub i64 %nbytes, %head
  %lines = lshr i64 %left, 6
  %some = icmp ne i64 %lines, 0
  %to_lines = getelementptr i8, ptr %to, i64 %head
  %from_lines = getelementptr i8, ptr %from, i64 %head
  br i1 %some, label %line, label %rest
line:
  %k = phi i64 [ 0, %0 ], [ %next, %line ]
  %from_line = getelementptr [64 x i8], ptr %from_lines, i64 %k
  %to_line = getelementptr [64 x i8], ptr %to_lines, i64 %k
  %bytes = load <16 x i32>, ptr %from_line, align 1
  store <16 x i32> %bytes, ptr %to_line, align 64, !nontemporal !1
  %next = add nuw i64 %k, 1
  %more = icmp ult i64 %next, %lines
  br i1 %more, label %line, label %rest
rest:
  %tail = and i64 %left, 63
  %done = sub i64 %left, %tail
  %to_tail = getelementptr i8, ptr %to_lines, i64 %done
  %from_tail = getelementptr i8, ptr %from_lines, i64 %done
  call void @dlvm.copy_few(ptr %to_tail, ptr %from_tail, i64 %tail)
  ret void
}

; Copy less than 64 bytes: eight at a time, then one.
define internal void @dlvm.copy_few(ptr %to, ptr %from, i64 %nbytes) alwaysinline nounwind {
start:
  %words = lshr i64 %nbytes, 3
  %has_words = icmp ne i64 %words, 0
  br i1 %has_words, label %word, label %bytes
word:
  %k = phi i64 [ 0, %start ], [ %next, %word ]
  %from_word = getelementptr i64, ptr %from, i64 %k
  %to_word = getelementptr i64, ptr %to, i64 %k
  %x = load i64, ptr %from_word, align 1
  store i64 %x, ptr %to_word, align 1
  %next = add nuw i64 %k, 1
  %more = icmp ult i64 %next, %words
  br i1 %more, label %word, label %bytes, !llvm.loop !2
bytes:
  %first = and i64 %nbytes, -8
  %has_bytes = icmp ult i64 %first, %nbytes
  br i1 %has_bytes, label %byte, label %done
byte:
  %j = phi i64 [ %first, %bytes ], [ %following, %byte ]
  %from_byte = getelementptr i8, ptr %from, i64 %j
  %to_byte = getelementptr i8, ptr %to, i64 %j
  %y = load i8, ptr %from_byte
  store i8 %y, ptr %to_byte
  %following = add nuw i64 %j, 1
  %again = icmp ult i64 %following, %nbytes
  br i1 %again, label %byte, label %done, !llvm.loop !3
done:
  ret void
}

!0 = !{}
!1 = !{i32 1}
!2 = distinct !{!2, !4, !5}
!3 = distinct !{!3, !4, !5}
!4 = !{!"llvm.loop.unroll.disable"}
!5 = !{!"llvm.loop.vectorize.enable", i1 false}
