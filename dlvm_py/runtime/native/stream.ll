; Stores that go past the caches, for large arrays.

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
  store <16 x i32> %bytes, ptr %to_line, align 64, !nontemporal !0
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
  br i1 %more, label %word, label %bytes, !llvm.loop !1
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
  br i1 %again, label %byte, label %done, !llvm.loop !2
done:
  ret void
}

!0 = !{i32 1}
!1 = distinct !{!1, !3, !4}
!2 = distinct !{!2, !3, !4}
!3 = !{!"llvm.loop.unroll.disable"}
!4 = !{!"llvm.loop.vectorize.enable", i1 false}
