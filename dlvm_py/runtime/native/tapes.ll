; The native runtime of tapes, which few functions need: a part of its own. What is inlined of it is in cut.ll.
;
; support.ll says what a context and a header are; memory itself comes from pool.ll, in libraries from library.ll.

declare i64 @dlvm.size(i64, i64, i64, i64, i64)
declare ptr @dlvm.allocate(ptr, i64)
declare void @dlvm.free_one(ptr, ptr)
declare void @dlvm.drop(ptr, ptr)
declare i1 @dlvm.count(ptr, i64)
declare ptr @dlvm.take(i64)
declare void @dlvm.give(ptr, i64)
declare ptr @dlvm.resize(ptr, i64)
declare ptr @dlvm.cut(ptr, ptr, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)

; An array of up to four extents that will be pushed: its data, cut from a chunk (cut.ll), which is its header.
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

; Tell the CPU that the array of an entry will be needed, `span` bytes below the one at `place`, which has been taken off.
; A tape is read from its end, each array of it forwards: the CPU, which sees streams that go on, would wait at the
; beginning of each. An array was cut right below the one that was pushed after it, so that the distance of the two is what
; there is to fetch. Where it is another one, they lie in two chunks, or are so large that waiting once is nothing.
define void @dlvm.fetch_below(ptr %place, i64 %left, i64 %span) noinline nounwind {
start:
  %is_some = icmp uge i64 %left, %span
  br i1 %is_some, label %entry, label %done
entry:
  %back = sub i64 0, %span
  %below_at = getelementptr i8, ptr %place, i64 %back
  %below = load ptr, ptr %below_at
  %data = load ptr, ptr %place
  %to = ptrtoint ptr %data to i64
  %from = ptrtoint ptr %below to i64
  %distance = sub i64 %to, %from
  %last = sub i64 %distance, 1
  %is_near = icmp ult i64 %last, 262144
  br i1 %is_near, label %line, label %done
line:
  %at = phi i64 [ 0, %entry ], [ %after, %line ]
  %next = getelementptr i8, ptr %below, i64 %at
  call void @llvm.prefetch.p0(ptr %next, i32 0, i32 3, i32 1)
  %after = add nuw nsw i64 %at, 64
  %is_more = icmp ult i64 %after, %distance
  br i1 %is_more, label %line, label %done
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
