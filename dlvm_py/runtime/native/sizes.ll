; How large arrays are: inlined into what makes them, support.ll and tapes.ll.

; The bytes of an array of up to four extents: -1 if one is negative, more than any memory if that is no number.
define i64 @dlvm.size(i64 %itemsize, i64 %a, i64 %b, i64 %c, i64 %d) alwaysinline nounwind {
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

declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
