; What compiled code tells Python: linked into the modules that print, or raise with more than few plain numbers.

@dlvm.imports = external global [0 x ptr]

declare i32 @dlvm.ask(ptr, ptr, i64, i64)

; Call the version's object `tell` with the site and the memory where the operands lie. 1: an exception is set.
define i32 @dlvm.tell(ptr %ctx, i32 %site, ptr %values) noinline nounwind {
  %tell = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:obj:tell}), !invariant.load !0
  %number = sext i32 %site to i64
  %address = ptrtoint ptr %values to i64
  %status = call i32 @dlvm.ask(ptr %ctx, ptr %tell, i64 %number, i64 %address)
  ret i32 %status
}

!0 = !{}
