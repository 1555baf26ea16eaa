; What a library of backend/aot carries in the place of Python: polls that do nothing, and the last error of a thread.
;
;   site   { exception, place, pieces, count of pieces }      texts end in NUL; place is "" or " (file:line:column)"
;   piece  { text, index of the operand behind it, its kind }  kinds: 0 none, 1 i64, 2 f64, 3 bool
;
; The C library formats; numbers look as Python's repr shows them. A message that is too long is cut.

@dlvm.imports = external global [0 x ptr]

@library.text = internal thread_local global [1024 x i8] zeroinitializer
@library.exception = internal thread_local global ptr @library.empty

@library.empty = private unnamed_addr constant [1 x i8] c"\00"
@library.memory = private unnamed_addr constant [12 x i8] c"MemoryError\00"
@library.no_memory = private unnamed_addr constant [27 x i8] c"there is not enough memory\00"
@library.colon = private unnamed_addr constant [3 x i8] c": \00"
@library.true = private unnamed_addr constant [5 x i8] c"True\00"
@library.false = private unnamed_addr constant [6 x i8] c"False\00"
@library.nan = private unnamed_addr constant [4 x i8] c"nan\00"
@library.as_text = private unnamed_addr constant [3 x i8] c"%s\00"
@library.as_integer = private unnamed_addr constant [5 x i8] c"%lld\00"
@library.as_fixed = private unnamed_addr constant [5 x i8] c"%.*f\00"
@library.as_scientific = private unnamed_addr constant [5 x i8] c"%.*e\00"

; Memory is malloc's, which callers free; more than 1024 bytes are aligned to 64.
define ptr @dlvm.take(i64 %nbytes) nounwind {
  %is_small = icmp ule i64 %nbytes, 1024
  br i1 %is_small, label %small, label %large
small:
  %malloc = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:malloc})
  %small_data = call ptr %malloc(i64 %nbytes)
  ret ptr %small_data
large:
  %aligned_alloc = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:aligned_alloc})
  %large_data = call ptr %aligned_alloc(i64 64, i64 %nbytes)
  ret ptr %large_data
}

define void @dlvm.give(ptr %data, i64 %nbytes) nounwind {
  %free = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:free})
  call void %free(ptr %data)
  ret void
}

define ptr @dlvm.resize(ptr %data, i64 %nbytes) nounwind {
  %realloc = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:realloc})
  %moved = call ptr %realloc(ptr %data, i64 %nbytes)
  ret ptr %moved
}

; Nothing is pending: as much fuel as there can be.
define i32 @dlvm.poll(ptr %ctx) noinline cold nounwind {
  %fuel_at = getelementptr i8, ptr %ctx, i64 16
  store i64 9223372036854775807, ptr %fuel_at
  ret i32 0
}

; The message of the error in the context becomes that of the thread.
define void @library.fail(ptr %ctx, ptr %sites) noinline cold nounwind {
  %site_at = getelementptr i8, ptr %ctx, i64 24
  %site = load i32, ptr %site_at
  %is_memory = icmp slt i32 %site, 0
  br i1 %is_memory, label %memory, label %raised
memory:
  store ptr @library.memory, ptr @library.exception
  %start = call i64 @library.put(i64 0, ptr @library.memory)
  %with_colon = call i64 @library.put(i64 %start, ptr @library.colon)
  %all = call i64 @library.put(i64 %with_colon, ptr @library.no_memory)
  ret void
raised:
  %row = getelementptr { ptr, ptr, ptr, i64 }, ptr %sites, i32 %site
  %place_at = getelementptr i8, ptr %row, i64 8
  %pieces_at = getelementptr i8, ptr %row, i64 16
  %count_at = getelementptr i8, ptr %row, i64 24
  %exception = load ptr, ptr %row
  %place = load ptr, ptr %place_at
  %pieces = load ptr, ptr %pieces_at
  %count = load i64, ptr %count_at
  store ptr %exception, ptr @library.exception
  %named = call i64 @library.put(i64 0, ptr %exception)
  %first_text = load ptr, ptr %pieces
  %first = load i8, ptr %first_text
  %has_no_text = icmp eq i8 %first, 0
  %is_single = icmp eq i64 %count, 1
  %is_bare = and i1 %has_no_text, %is_single
  br i1 %is_bare, label %end, label %colon
colon:
  %begun = call i64 @library.put(i64 %named, ptr @library.colon)
  br label %piece
piece:
  %k = phi i64 [ 0, %colon ], [ %next, %put ]
  %at = phi i64 [ %begun, %colon ], [ %after, %put ]
  %piece_at = getelementptr { ptr, i32, i32 }, ptr %pieces, i64 %k
  %operand_at = getelementptr i8, ptr %piece_at, i64 8
  %kind_at = getelementptr i8, ptr %piece_at, i64 12
  %text = load ptr, ptr %piece_at
  %operand = load i32, ptr %operand_at
  %kind = load i32, ptr %kind_at
  %behind_text = call i64 @library.put(i64 %at, ptr %text)
  %operands = getelementptr i8, ptr %ctx, i64 32
  %bits_at = getelementptr i64, ptr %operands, i32 %operand
  %bits = load i64, ptr %bits_at
  switch i32 %kind, label %put [ i32 1, label %integer
                                 i32 2, label %float
                                 i32 3, label %flag ]
integer:
  %behind_integer = call i64 @library.put_integer(i64 %behind_text, i64 %bits)
  br label %put
float:
  %number = bitcast i64 %bits to double
  %behind_float = call i64 @library.put_float(i64 %behind_text, double %number)
  br label %put
flag:
  %is_true = icmp ne i64 %bits, 0
  %word = select i1 %is_true, ptr @library.true, ptr @library.false
  %behind_flag = call i64 @library.put(i64 %behind_text, ptr %word)
  br label %put
put:
  %after = phi i64 [ %behind_text, %piece ], [ %behind_integer, %integer ], [ %behind_float, %float ],
                   [ %behind_flag, %flag ]
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %piece, label %end
end:
  %full = phi i64 [ %named, %raised ], [ %after, %put ]
  %placed = call i64 @library.put(i64 %full, ptr %place)
  ret void
}

; Each put writes at this place of the message, and gives the place behind, at most the last one.
define internal i64 @library.put(i64 %at, ptr %text) cold nounwind {
  %to = getelementptr i8, ptr @library.text, i64 %at
  %room = sub i64 1024, %at
  %snprintf = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:snprintf})
  %n = call i32 (ptr, i64, ptr, ...) %snprintf(ptr %to, i64 %room, ptr @library.as_text, ptr %text)
  %end = call i64 @library.behind(i64 %at, i32 %n)
  ret i64 %end
}

define internal i64 @library.behind(i64 %at, i32 %n) cold nounwind {
  %positive = call i32 @llvm.smax.i32(i32 %n, i32 0)
  %wide = zext i32 %positive to i64
  %end = add i64 %at, %wide
  %inside = call i64 @llvm.umin.i64(i64 %end, i64 1023)
  ret i64 %inside
}

define internal i64 @library.put_integer(i64 %at, i64 %number) cold nounwind {
  %to = getelementptr i8, ptr @library.text, i64 %at
  %room = sub i64 1024, %at
  %snprintf = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:snprintf})
  %n = call i32 (ptr, i64, ptr, ...) %snprintf(ptr %to, i64 %room, ptr @library.as_integer, i64 %number)
  %end = call i64 @library.behind(i64 %at, i32 %n)
  ret i64 %end
}

; The shortest digits that read back as the number; 1e16 and more, and less than 1e-4, with an exponent.
define internal i64 @library.put_float(i64 %at, double %x) cold nounwind {
  %digits = alloca [40 x i8], align 16
  %is_nan = fcmp uno double %x, %x
  br i1 %is_nan, label %nan, label %number
nan:
  %behind_nan = call i64 @library.put(i64 %at, ptr @library.nan)
  ret i64 %behind_nan
number:
  %snprintf = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:snprintf})
  %strtod = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:strtod})
  %strtol = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:strtol})
  %strchr = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:strchr})
  br label %try
try:
  %precision = phi i32 [ 0, %number ], [ %more, %again ]
  %n = call i32 (ptr, i64, ptr, ...) %snprintf(ptr %digits, i64 40, ptr @library.as_scientific, i32 %precision,
                                               double %x)
  %back = call double %strtod(ptr %digits, ptr null)
  %same = fcmp oeq double %back, %x
  %longest = icmp uge i32 %precision, 16
  %enough = or i1 %same, %longest
  br i1 %enough, label %found, label %again
again:
  %more = add i32 %precision, 1
  br label %try
found:
  %e = call ptr %strchr(ptr %digits, i32 101)
  %is_infinite = icmp eq ptr %e, null
  br i1 %is_infinite, label %as_it_is, label %finite
finite:
  %exponent_at = getelementptr i8, ptr %e, i64 1
  %exponent = call i64 %strtol(ptr %exponent_at, ptr null, i32 10)
  %is_large = icmp sge i64 %exponent, 16
  %is_small = icmp slt i64 %exponent, -4
  %is_scientific = or i1 %is_large, %is_small
  br i1 %is_scientific, label %as_it_is, label %fixed
as_it_is:
  %behind_digits = call i64 @library.put(i64 %at, ptr %digits)
  ret i64 %behind_digits
fixed:
  %short = trunc i64 %exponent to i32
  %left = sub i32 %precision, %short
  %decimals = call i32 @llvm.smax.i32(i32 %left, i32 1)
  %to = getelementptr i8, ptr @library.text, i64 %at
  %room = sub i64 1024, %at
  %written = call i32 (ptr, i64, ptr, ...) %snprintf(ptr %to, i64 %room, ptr @library.as_fixed, i32 %decimals,
                                                     double %x)
  %end = call i64 @library.behind(i64 %at, i32 %written)
  ret i64 %end
}

define ptr @library.last_error() nounwind {
  ret ptr @library.text
}

define ptr @library.last_exception() nounwind {
  %exception = load ptr, ptr @library.exception
  ret ptr %exception
}

define void @library.free(ptr %array) nounwind {
  %free = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:free})
  call void %free(ptr %array)
  ret void
}

declare i32 @llvm.smax.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
