; The runtime of an entry for one GPU thread (backend/aot/ptx.py): memory from an arena, nothing to poll.
;
; The context of docs/architecture.md, whose thread_state points to the arena: { address of the next free byte, of
; the end }. Headers stand in front of their data. What was allocated last is given back when it is released, so that
; the scratch memory of a loop is used again; the rest stays until the arena is.

; As in support.ll; null where the arena has no room.
define ptr @dlvm.allocate(ptr %ctx, i64 %wanted) noinline nounwind {
  %fits = icmp ule i64 %wanted, 4611686018427387904
  br i1 %fits, label %sized, label %failed
sized:
  %some = call i64 @llvm.umax.i64(i64 %wanted, i64 1)
  %up = add i64 %some, 63
  %nbytes = and i64 %up, -64
  %arena_at = getelementptr i8, ptr %ctx, i64 8
  %arena = load ptr, ptr %arena_at
  %end_at = getelementptr i8, ptr %arena, i64 8
  %next = load i64, ptr %arena
  %end = load i64, ptr %end_at
  %next_up = add i64 %next, 63
  %start = and i64 %next_up, -64
  %need = add i64 %nbytes, 64
  %behind = add i64 %start, %need
  %has_room = icmp ule i64 %behind, %end
  br i1 %has_room, label %take, label %failed
take:
  store i64 %behind, ptr %arena
  %header = inttoptr i64 %start to ptr
  %data = getelementptr i8, ptr %header, i64 64
  %data_at = getelementptr i8, ptr %header, i64 8
  %nbytes_at = getelementptr i8, ptr %header, i64 16
  %object_at = getelementptr i8, ptr %header, i64 24
  store i64 1, ptr %header
  store ptr %data, ptr %data_at
  store i64 %nbytes, ptr %nbytes_at
  store ptr null, ptr %object_at
  ret ptr %header
failed:
  ret ptr null
}

define void @dlvm.retain(ptr %header) alwaysinline nounwind {
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

define void @dlvm.release(ptr %ctx, ptr %header) noinline nounwind {
  %nothing = icmp eq ptr %header, null
  br i1 %nothing, label %done, label %count
count:
  %old = load i64, ptr %header
  %new = add i64 %old, -1
  store i64 %new, ptr %header
  %unused = icmp eq i64 %new, 0
  br i1 %unused, label %look, label %done
look:
  ; its memory ends where the free part begins, and no growth has moved its data away
  %data_at = getelementptr i8, ptr %header, i64 8
  %nbytes_at = getelementptr i8, ptr %header, i64 16
  %data = load ptr, ptr %data_at
  %nbytes = load i64, ptr %nbytes_at
  %own = getelementptr i8, ptr %header, i64 64
  %stayed = icmp eq ptr %data, %own
  %behind = getelementptr i8, ptr %own, i64 %nbytes
  %behind_address = ptrtoint ptr %behind to i64
  %arena_at = getelementptr i8, ptr %ctx, i64 8
  %arena = load ptr, ptr %arena_at
  %next = load i64, ptr %arena
  %last = icmp eq i64 %behind_address, %next
  %back = and i1 %stayed, %last
  br i1 %back, label %give, label %done
give:
  %address = ptrtoint ptr %header to i64
  store i64 %address, ptr %arena
  br label %done
done:
  ret void
}

; The buffer of a full tape with twice the room (null: the first buffer), or null where the arena has none.
define ptr @dlvm.stack_grow(ptr %ctx, ptr %header) noinline nounwind {
  %is_new = icmp eq ptr %header, null
  br i1 %is_new, label %first, label %grow
first:
  %fresh = call ptr @dlvm.allocate(ptr %ctx, i64 1024)
  ret ptr %fresh
grow:
  %data_at = getelementptr i8, ptr %header, i64 8
  %nbytes_at = getelementptr i8, ptr %header, i64 16
  %old = load i64, ptr %nbytes_at
  %data = load ptr, ptr %data_at
  %new = shl i64 %old, 1
  %larger = call ptr @dlvm.allocate(ptr %ctx, i64 %new)
  %no_room = icmp eq ptr %larger, null
  br i1 %no_room, label %failed, label %move
move:
  %to = getelementptr i8, ptr %larger, i64 64
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %data, i64 %old, i1 false)
  store ptr %to, ptr %data_at
  store i64 %new, ptr %nbytes_at
  ret ptr %header
failed:
  ret ptr null
}

; Memory for an array that will be pushed to a tape, or null where there is none: cut from the chunk of the tape, which
; gets one reference more. The fields: { ptr header of the chunk, i64 bytes given away, i64 bytes that it has }.
define ptr @dlvm.cut(ptr %ctx, ptr %fields, i64 %size) alwaysinline nounwind {
  ; no chunk has room for nothing: there may be none
  %is_empty = icmp eq i64 %size, 0
  %wanted = select i1 %is_empty, i64 1, i64 %size
  %filled_at = getelementptr i8, ptr %fields, i64 8
  %room_at = getelementptr i8, ptr %fields, i64 16
  %filled = load i64, ptr %filled_at
  %room = load i64, ptr %room_at
  ; aligned as allocations are
  %is_large = icmp ugt i64 %wanted, 1024
  %edge = select i1 %is_large, i64 63, i64 15
  %over = add i64 %filled, %edge
  %mask = xor i64 %edge, -1
  %start = and i64 %over, %mask
  %left = sub i64 %room, %start
  %is_there = icmp sge i64 %left, %wanted
  br i1 %is_there, label %fits, label %full
full:
  %fresh = call i1 @dlvm.new_chunk(ptr %ctx, ptr %fields, i64 %wanted)
  br i1 %fresh, label %fits, label %failed
fits:
  %at = phi i64 [ %start, %0 ], [ 0, %full ]
  %chunk = load ptr, ptr %fields
  %data_at = getelementptr i8, ptr %chunk, i64 8
  %data = load ptr, ptr %data_at
  %found = getelementptr i8, ptr %data, i64 %at
  %end = add i64 %at, %wanted
  store i64 %end, ptr %filled_at
  %references = load i64, ptr %chunk
  %more = add i64 %references, 1
  store i64 %more, ptr %chunk
  ret ptr %found
failed:
  ret ptr null
}

; The tape gives its chunk up, which its arrays own from now on, and gets one with room for the array and, if it had one
; already, more than before. A chunk that none of its arrays needs any more is filled again.
define i1 @dlvm.new_chunk(ptr %ctx, ptr %fields, i64 %wanted) noinline nounwind {
  %filled_at = getelementptr i8, ptr %fields, i64 8
  %room_at = getelementptr i8, ptr %fields, i64 16
  %room = load i64, ptr %room_at
  %chunk = load ptr, ptr %fields
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %new, label %look
look:
  %references = load i64, ptr %chunk
  %is_unused = icmp eq i64 %references, 1
  %is_enough = icmp sge i64 %room, %wanted
  %again = and i1 %is_unused, %is_enough
  br i1 %again, label %done, label %leave
leave:
  call void @dlvm.release(ptr %ctx, ptr %chunk)
  store ptr null, ptr %fields
  br label %new
new:
  %twice = shl i64 %room, 1
  %is_some = icmp ugt i64 %twice, 1024
  %grown = select i1 %is_some, i64 %twice, i64 1024
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

define i32 @dlvm.poll(ptr %ctx) noinline nounwind {
  %fuel_at = getelementptr i8, ptr %ctx, i64 16
  store i64 9223372036854775807, ptr %fuel_at
  ret i32 0
}

declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
