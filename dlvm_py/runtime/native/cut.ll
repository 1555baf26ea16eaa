; Cutting chunks of tapes: inlined into modules that have such tapes. tapes.ll has the rest.

declare i1 @dlvm.new_chunk(ptr, ptr, i64)

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
