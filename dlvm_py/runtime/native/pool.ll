; Memory for arrays, and what is kept of it for the next ones. The part of the runtime that a process shares.
;
;   state    { 0 lock, 8 limit, 16 kept, 24 refused, 32 first[256] }       runtime/buffers.py makes it, bytes
;   block    { 0 next block of its class }                                 while it is kept
;
; A block is as large as its size class: every 64 bytes up to 1024, from there eight an octave, so that it takes at most
; an eighth more than was wanted. The class follows from the size alone: nothing has to be written down beside a block.
; Blocks of more than 1024 bytes are aligned to 64, from 4 MiB on to pages: large arrays of NumPy begin 16 bytes into one,
; behind a header of the system. A store past the caches waits for memory, and a load from the same place of a page, a
; little later, for that store: what is written should not lie a few lines further in its page than what is read.
; What is given back is kept, up to the limit, and handed out again, youngest first: its pages are there, which is most of
; the price of memory for large arrays, and for the many small ones of a tape, whose end malloc gives back to the system.
; What would go over the limit is freed; when that has come to more than the limit, not counting what was found, the sizes
; have changed, and all that is kept is freed.
;
; Who finds the lock taken does without: nobody waits, and a child that is forked meanwhile only keeps nothing.

@dlvm.imports = external global [0 x ptr]

; The capacity of a block for some bytes, and the number of its class: -1 where blocks are not kept.
define { i64, i64 } @pool.class(ptr %state, i64 %nbytes) alwaysinline nounwind {
  %limit_at = getelementptr i8, ptr %state, i64 8
  %limit = load i64, ptr %limit_at
  %last = sub i64 %nbytes, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 false)
  %shift = sub i64 60, %zeros                     ; an eighth of the power of two below
  %is_small = icmp ule i64 %nbytes, 1024
  %safe_shift = select i1 %is_small, i64 0, i64 %shift
  %eighths = lshr i64 %last, %safe_shift          ; 8 to 15
  %up = add i64 %eighths, 1
  %capacity = shl i64 %up, %safe_shift
  %octave = sub i64 %safe_shift, 6                ; 1 from 1024 bytes on
  %of_octave = shl i64 %octave, 3
  %within = add i64 %of_octave, %eighths          ; 16 and more
  %sixty_fourths = lshr i64 %last, 6              ; 0 to 15
  %number = select i1 %is_small, i64 %sixty_fourths, i64 %within
  %size_of_class = select i1 %is_small, i64 %nbytes, i64 %capacity
  %is_large = icmp ugt i64 %size_of_class, %limit
  %size = select i1 %is_large, i64 %nbytes, i64 %size_of_class
  %class = select i1 %is_large, i64 -1, i64 %number
  %part = insertvalue { i64, i64 } poison, i64 %size, 0
  %both = insertvalue { i64, i64 } %part, i64 %class, 1
  ret { i64, i64 } %both
}

; Memory for `nbytes`, a positive multiple of 64, or null. `@dlvm.give` takes it back.
define ptr @dlvm.take(i64 %nbytes) noinline nounwind {
  %state = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:pool:state}), !invariant.load !0
  %both = call { i64, i64 } @pool.class(ptr %state, i64 %nbytes)
  %size = extractvalue { i64, i64 } %both, 0
  %class = extractvalue { i64, i64 } %both, 1
  %first_at = getelementptr i8, ptr %state, i64 32
  %head_at = getelementptr ptr, ptr %first_at, i64 %class
  %is_kept = icmp sge i64 %class, 0
  br i1 %is_kept, label %look, label %new
look:
  %hint = load atomic ptr, ptr %head_at monotonic, align 8
  %is_empty = icmp eq ptr %hint, null
  br i1 %is_empty, label %new, label %lock
lock:
  %taken = cmpxchg ptr %state, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %taken, 1
  br i1 %mine, label %locked, label %new
locked:
  %block = load ptr, ptr %head_at
  %is_gone = icmp eq ptr %block, null
  br i1 %is_gone, label %unlock, label %remove
remove:
  %next = load ptr, ptr %block
  store atomic ptr %next, ptr %head_at monotonic, align 8
  call void @pool.add(ptr %state, i64 16, i64 %size, i1 true)
  call void @pool.add(ptr %state, i64 24, i64 %size, i1 true)
  br label %unlock
unlock:
  store atomic i32 0, ptr %state release, align 4
  br i1 %is_gone, label %new, label %found
found:
  ret ptr %block
new:
  %fresh = call ptr @pool.fresh(i64 %size)
  %failed = icmp eq ptr %fresh, null
  br i1 %failed, label %retry, label %made
retry:
  %freed = call i64 @dlvm.free_kept()
  %again = call ptr @pool.fresh(i64 %size)
  ret ptr %again
made:
  ret ptr %fresh
}

; A number of the state, plus or minus some bytes, and never below 0.
define void @pool.add(ptr %state, i64 %offset, i64 %nbytes, i1 %is_less) alwaysinline nounwind {
  %at = getelementptr i8, ptr %state, i64 %offset
  %old = load i64, ptr %at
  %less = call i64 @llvm.usub.sat.i64(i64 %old, i64 %nbytes)
  %more = add i64 %old, %nbytes
  %new = select i1 %is_less, i64 %less, i64 %more
  store i64 %new, ptr %at
  ret void
}

; Memory of the system, with huge pages (MADV_HUGEPAGE, 14) from 4 MiB on, as NumPy asks for them. Such are whole pages.
define ptr @pool.fresh(i64 %size) noinline nounwind {
  %is_small = icmp ule i64 %size, 1024
  br i1 %is_small, label %small, label %large
small:
  %malloc = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:malloc}), !invariant.load !0
  %small_data = call ptr %malloc(i64 %size)
  ret ptr %small_data
large:
  %aligned_alloc = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:aligned_alloc}), !invariant.load !0
  %is_huge = icmp uge i64 %size, 4194304
  %alignment = select i1 %is_huge, i64 4096, i64 64
  %beyond = sub i64 %alignment, 1
  %size_up = add i64 %size, %beyond
  %below = sub i64 0, %alignment
  %whole = and i64 %size_up, %below
  %data = call ptr %aligned_alloc(i64 %alignment, i64 %whole)
  %failed = icmp eq ptr %data, null
  %advises = icmp ult i1 %failed, %is_huge
  br i1 %advises, label %advise, label %done
advise:
  %madvise = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:madvise}), !invariant.load !0
  %start = ptrtoint ptr %data to i64
  %start_up = add i64 %start, 4095
  %first = and i64 %start_up, -4096
  %end = add i64 %start, %size
  %end_down = and i64 %end, -4096
  %length = sub i64 %end_down, %first
  %pages = inttoptr i64 %first to ptr
  %ignored = call i32 %madvise(ptr %pages, i64 %length, i32 14)
  br label %done
done:
  ret ptr %data
}

; Take back memory of `wanted` bytes that came from @dlvm.take or @dlvm.resize. Nothing for null.
define void @dlvm.give(ptr %data, i64 %wanted) noinline nounwind {
  %state = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:pool:state}), !invariant.load !0
  %free = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:free}), !invariant.load !0
  %least = call i64 @llvm.umax.i64(i64 %wanted, i64 1)
  %some = add i64 %least, 63
  %nbytes = and i64 %some, -64
  %is_small = icmp ule i64 %nbytes, 1024
  %both = call { i64, i64 } @pool.class(ptr %state, i64 %nbytes)
  %size = extractvalue { i64, i64 } %both, 0
  %class = extractvalue { i64, i64 } %both, 1
  %has_class = icmp sge i64 %class, 0
  %address = ptrtoint ptr %data to i64
  %beside = and i64 %address, 63                  ; resizing does not keep the alignment
  %on_line = icmp eq i64 %beside, 0
  %is_aligned = or i1 %on_line, %is_small
  %is_some = icmp ne ptr %data, null
  %fits_class = and i1 %has_class, %is_aligned
  %is_kept = and i1 %fits_class, %is_some
  br i1 %is_kept, label %lock, label %drop
lock:
  %taken = cmpxchg ptr %state, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %taken, 1
  br i1 %mine, label %locked, label %drop
locked:
  %limit_at = getelementptr i8, ptr %state, i64 8
  %kept_at = getelementptr i8, ptr %state, i64 16
  %refused_at = getelementptr i8, ptr %state, i64 24
  %limit = load i64, ptr %limit_at
  %kept = load i64, ptr %kept_at
  %after = add i64 %kept, %size
  %fits = icmp ule i64 %after, %limit
  br i1 %fits, label %keep, label %refuse
refuse:
  call void @pool.add(ptr %state, i64 24, i64 %size, i1 false)
  %refused = load i64, ptr %refused_at
  %is_stale = icmp ugt i64 %refused, %limit
  br i1 %is_stale, label %renew, label %unlock
renew:
  %freed = call i64 @pool.free_kept_locked(ptr %state)
  store i64 0, ptr %refused_at
  br label %keep
keep:
  %first_at = getelementptr i8, ptr %state, i64 32
  %head_at = getelementptr ptr, ptr %first_at, i64 %class
  %next = load ptr, ptr %head_at
  store ptr %next, ptr %data
  store atomic ptr %data, ptr %head_at monotonic, align 8
  call void @pool.add(ptr %state, i64 16, i64 %size, i1 false)
  br label %unlock
unlock:
  %stays = phi i1 [ false, %refuse ], [ true, %keep ]
  store atomic i32 0, ptr %state release, align 4
  br i1 %stays, label %done, label %drop
drop:
  call void %free(ptr %data)
  br label %done
done:
  ret void
}

; The same memory with room for `nbytes`, elsewhere perhaps, or null: it is as it was then.
define ptr @dlvm.resize(ptr %data, i64 %wanted) noinline cold nounwind {
  %state = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:pool:state}), !invariant.load !0
  %least = call i64 @llvm.umax.i64(i64 %wanted, i64 1)
  %some = add i64 %least, 63
  %nbytes = and i64 %some, -64
  %both = call { i64, i64 } @pool.class(ptr %state, i64 %nbytes)
  %size = extractvalue { i64, i64 } %both, 0
  %realloc = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:realloc}), !invariant.load !0
  %moved = call ptr %realloc(ptr %data, i64 %size)
  ret ptr %moved
}

; Free all that is kept; how many bytes.
define i64 @dlvm.free_kept() noinline cold nounwind {
  %state = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:pool:state}), !invariant.load !0
  %taken = cmpxchg ptr %state, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %taken, 1
  br i1 %mine, label %locked, label %busy
locked:
  %freed = call i64 @pool.free_kept_locked(ptr %state)
  store atomic i32 0, ptr %state release, align 4
  ret i64 %freed
busy:
  ret i64 0
}

define i64 @pool.free_kept_locked(ptr %state) noinline cold nounwind {
start:
  %free = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:c:free}), !invariant.load !0
  %kept_at = getelementptr i8, ptr %state, i64 16
  %kept = load i64, ptr %kept_at
  %first_at = getelementptr i8, ptr %state, i64 32
  br label %class
class:
  %k = phi i64 [ 0, %start ], [ %k_next, %empty ]
  %head_at = getelementptr ptr, ptr %first_at, i64 %k
  %head = load ptr, ptr %head_at
  store atomic ptr null, ptr %head_at monotonic, align 8
  br label %block
block:
  %at = phi ptr [ %head, %class ], [ %next, %some ]
  %is_end = icmp eq ptr %at, null
  br i1 %is_end, label %empty, label %some
some:
  %next = load ptr, ptr %at
  call void %free(ptr %at)
  br label %block
empty:
  %k_next = add i64 %k, 1
  %more = icmp ult i64 %k_next, 256
  br i1 %more, label %class, label %done
done:
  store i64 0, ptr %kept_at
  ret i64 %kept
}

declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.usub.sat.i64(i64, i64)

!0 = !{}
