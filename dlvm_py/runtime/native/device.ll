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

define i32 @dlvm.poll(ptr %ctx) noinline nounwind {
  %fuel_at = getelementptr i8, ptr %ctx, i64 16
  store i64 9223372036854775807, ptr %fuel_at
  ret i32 0
}

declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
