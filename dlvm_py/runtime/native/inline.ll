; Counting references: the part of the runtime that is inlined into every module. support.ll has the rest.

declare void @dlvm.free_one(ptr, ptr)

; One more reference; nothing for null.
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

; One reference less; the last one unlinks and frees. Nothing for null.
define void @dlvm.release(ptr %ctx, ptr %header) alwaysinline nounwind {
  %nothing = icmp eq ptr %header, null
  br i1 %nothing, label %done, label %count
count:
  %old = load i64, ptr %header
  %new = add i64 %old, -1
  store i64 %new, ptr %header
  %unused = icmp eq i64 %new, 0
  br i1 %unused, label %drop, label %done
drop:
  call void @dlvm.free_one(ptr %ctx, ptr %header)
  br label %done
done:
  ret void
}
