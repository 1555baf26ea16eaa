; What the host driver of a GPU program calls: memory of the device, launches, and copies to the host.
;
; Linked into the modules that name it (backend/cpu/compile.py). The functions of the driver API are imports, real
; (libcuda) or emulated (emulator.ll). The context has the stream at 72. A status that is not 0 goes to the error record:
; site -3, the status as operand. Sizes are counted and rounded as those of support.ll are.
;
; While trips of a loop are recorded (backend/gpu/replays.py) the context has, at 80, the graph, and behind it { its last
; node, how many there are, the header that owns it }: launches are done, and added to it. Memory that is given back
; meanwhile is kept until the call is over, as the graph works on it. What a graph cannot have, copies, and any refusal of
; the driver end the recording; the loop goes on without.
;
; At 112 the context has two Python objects, if memory is not the driver's: take(slot, nbytes) puts the address of so many
; bytes into the slot, null where there is no room; give(address) takes them back, and runs no code of Python's: it cannot
; be interrupted.

@dlvm.imports = external global [0 x ptr]

declare i1 @dlvm.count(ptr, i64)
declare ptr @dlvm.adopt(ptr, ptr, i64, ptr)
declare void @dlvm.drop(ptr, ptr)
declare i32 @dlvm.ask(ptr, ptr, i64, i64)
declare i1 @dlvm.python(ptr)
declare void @dlvm.no_python(ptr, i1)

@dlvm.gpu.address = private constant [2 x i8] c"L\00"

; A new allocation of the device: its header; or null, with the error record filled: site -2 where the device has no
; room, -3 where the driver refuses for another reason, as it does from then on when a kernel has failed.
define ptr @dlvm.gpu.allocate(ptr %ctx, i64 %wanted) noinline nounwind {
  %slot = alloca ptr, align 8
  %fits = icmp ule i64 %wanted, 9223372036854775744
  br i1 %fits, label %sized, label %failed
sized:
  %is_empty = icmp eq i64 %wanted, 0
  %some = select i1 %is_empty, i64 1, i64 %wanted
  %up = add nuw i64 %some, 63
  %nbytes = and i64 %up, -64
  %is_free = call i1 @dlvm.count(ptr %ctx, i64 %nbytes)
  br i1 %is_free, label %counted, label %failed
counted:
  %pool_at = getelementptr i8, ptr %ctx, i64 112
  %pool = load ptr, ptr %pool_at
  %has_pool = icmp ne ptr %pool, null
  br i1 %has_pool, label %ask, label %driver
ask:
  store ptr null, ptr %slot
  %slot_number = ptrtoint ptr %slot to i64
  %is_raised = call i32 @dlvm.ask(ptr %ctx, ptr %pool, i64 %slot_number, i64 %nbytes)
  %is_taken = icmp eq i32 %is_raised, 0
  br i1 %is_taken, label %asked, label %raised
asked:
  %place = load ptr, ptr %slot
  %no_place = icmp eq ptr %place, null
  br i1 %no_place, label %uncount, label %adopt
driver:
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %allocate_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuMemAllocAsync}
  %allocate = load ptr, ptr %allocate_at
  %status = call i32 %allocate(ptr %slot, i64 %nbytes, ptr %stream)
  switch i32 %status, label %refused [
    i32 0, label %adopt
    i32 2, label %uncount
  ]
adopt:
  %data = load ptr, ptr %slot
  %header = call ptr @dlvm.adopt(ptr %ctx, ptr %data, i64 %nbytes, ptr @dlvm.gpu.give)
  %no_header = icmp eq ptr %header, null
  br i1 %no_header, label %drop, label %done
drop:
  call void @dlvm.gpu.give(ptr %ctx, ptr %data, i64 %nbytes)
  br label %uncount
uncount:
  %less = sub i64 0, %nbytes
  %uncounted = call i1 @dlvm.count(ptr %ctx, i64 %less)
  br label %failed
refused:
  %less.refused = sub i64 0, %nbytes
  %uncounted.refused = call i1 @dlvm.count(ptr %ctx, i64 %less.refused)
  %said = call i32 @dlvm.gpu.status(ptr %ctx, i32 %status)
  ret ptr null
raised:
  %less.raised = sub i64 0, %nbytes
  %uncounted.raised = call i1 @dlvm.count(ptr %ctx, i64 %less.raised)
  ret ptr null
done:
  ret ptr %header
failed:
  %site_at = getelementptr i8, ptr %ctx, i64 24
  store i32 -2, ptr %site_at
  ret ptr null
}

; Give memory of the device back, behind everything that the stream still does with it. Nothing for null.
define void @dlvm.gpu.give(ptr %ctx, ptr %data, i64 %nbytes) noinline nounwind {
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %done, label %free
free:
  ; a recording may have it: it is kept until the call is over
  %graph_at = getelementptr i8, ptr %ctx, i64 80
  %graph = load ptr, ptr %graph_at
  %is_recording = icmp ne ptr %graph, null
  br i1 %is_recording, label %keep, label %now
keep:
  %is_free = call i1 @dlvm.count(ptr %ctx, i64 %nbytes)
  br i1 %is_free, label %counted, label %stop
counted:
  %header = call ptr @dlvm.adopt(ptr %ctx, ptr %data, i64 %nbytes, ptr @dlvm.gpu.give)
  %is_kept = icmp ne ptr %header, null
  br i1 %is_kept, label %done, label %uncount
uncount:
  %less = sub i64 0, %nbytes
  %uncounted = call i1 @dlvm.count(ptr %ctx, i64 %less)
  br label %stop
stop:
  call void @dlvm.gpu.forget(ptr %ctx)
  br label %now
now:
  %pool_at = getelementptr i8, ptr %ctx, i64 120
  %pool = load ptr, ptr %pool_at
  %has_pool = icmp ne ptr %pool, null
  br i1 %has_pool, label %back, label %driver
back:
  %was_given = call i1 @dlvm.python(ptr %ctx)
  %call = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:PyObject_CallFunction})
  %drop = load ptr, ptr getelementptr (ptr, ptr @dlvm.imports, i64 {import:py:Py_DecRef})
  %address = ptrtoint ptr %data to i64
  %none = call ptr (ptr, ptr, ...) %call(ptr %pool, ptr @dlvm.gpu.address, i64 %address)
  call void %drop(ptr %none)
  call void @dlvm.no_python(ptr %ctx, i1 %was_given)
  br label %done
driver:
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %free_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuMemFreeAsync}
  %give = load ptr, ptr %free_at
  ; an error of an earlier launch shows again at the next launch or fetch, which looks
  %status = call i32 %give(ptr %data, ptr %stream)
  br label %done
done:
  ret void
}

; As allocate, for an array whose memory takes turns: what was kept in the slot, { ptr header, i64 its bytes }, if anything.
define ptr @dlvm.gpu.next(ptr %ctx, ptr %slot, i64 %wanted) noinline nounwind {
  %is_empty = icmp eq i64 %wanted, 0
  %some = select i1 %is_empty, i64 1, i64 %wanted
  %up = add i64 %some, 63
  %nbytes = and i64 %up, -64
  %nbytes_at = getelementptr i8, ptr %slot, i64 8
  store i64 %nbytes, ptr %nbytes_at
  %kept = load ptr, ptr %slot
  %nothing = icmp eq ptr %kept, null
  br i1 %nothing, label %fresh, label %again
again:
  store ptr null, ptr %slot
  ret ptr %kept
fresh:
  %header = call ptr @dlvm.gpu.allocate(ptr %ctx, i64 %wanted)
  ret ptr %header
}

; As release: the last reference to memory of the device of the slot's size stays with the slot, if that has none.
define void @dlvm.gpu.keep(ptr %ctx, ptr %header, ptr %slot) noinline nounwind {
  %nothing = icmp eq ptr %header, null
  br i1 %nothing, label %done, label %look
look:
  %references = load i64, ptr %header
  %is_last = icmp eq i64 %references, 1
  %nbytes_at = getelementptr i8, ptr %header, i64 16
  %nbytes = load i64, ptr %nbytes_at
  %wanted_at = getelementptr i8, ptr %slot, i64 8
  %wanted = load i64, ptr %wanted_at
  %fits = icmp eq i64 %nbytes, %wanted
  %give_at = getelementptr i8, ptr %header, i64 48
  %give = load ptr, ptr %give_at
  %is_ours = icmp eq ptr %give, @dlvm.gpu.give
  %kept = load ptr, ptr %slot
  %is_free = icmp eq ptr %kept, null
  %suits = and i1 %fits, %is_ours
  %can = and i1 %suits, %is_free
  %stays = and i1 %can, %is_last
  br i1 %stays, label %keep, label %drop
keep:
  store ptr %header, ptr %slot
  br label %done
drop:
  call void @dlvm.drop(ptr %ctx, ptr %header)
  br label %done
done:
  ret void
}

; Launch a kernel: blocks of threads along x, the addresses of its parameters. 1: the error record is filled.
define i32 @dlvm.gpu.launch(ptr %ctx, ptr %kernel, i64 %grid, i32 %block, ptr %parameters) noinline nounwind {
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %launch_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuLaunchKernel}
  %launch = load ptr, ptr %launch_at
  %blocks = trunc i64 %grid to i32
  %status = call i32 %launch(ptr %kernel, i32 %blocks, i32 1, i32 1, i32 %block, i32 1, i32 1, i32 0, ptr %stream,
                             ptr %parameters, ptr null)
  %is_good = icmp eq i32 %status, 0
  %graph_at = getelementptr i8, ptr %ctx, i64 80
  %graph = load ptr, ptr %graph_at
  %is_recording = icmp ne ptr %graph, null
  %records = and i1 %is_good, %is_recording
  br i1 %records, label %record, label %done
record:
  call void @dlvm.gpu.note(ptr %ctx, ptr %kernel, i32 %blocks, i32 %block, ptr %parameters)
  br label %done
done:
  %result = call i32 @dlvm.gpu.status(ptr %ctx, i32 %status)
  ret i32 %result
}

; Begin to record launches: whether that is so. One recording is made at a time.
define i1 @dlvm.gpu.record(ptr %ctx) noinline nounwind {
  %slot = alloca ptr, align 8
  %graph_at = getelementptr i8, ptr %ctx, i64 80
  %now = load ptr, ptr %graph_at
  %is_busy = icmp ne ptr %now, null
  br i1 %is_busy, label %no, label %create
create:
  %create_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuGraphCreate}
  %new = load ptr, ptr %create_at
  %status = call i32 %new(ptr %slot, i32 0)
  %is_there = icmp eq i32 %status, 0
  br i1 %is_there, label %adopt, label %no
adopt:
  %graph = load ptr, ptr %slot
  %header = call ptr @dlvm.adopt(ptr %ctx, ptr %graph, i64 0, ptr @dlvm.gpu.drop_graph)
  %no_header = icmp eq ptr %header, null
  br i1 %no_header, label %drop, label %begin
drop:
  call void @dlvm.gpu.drop_graph(ptr %ctx, ptr %graph, i64 0)
  br label %no
begin:
  %last_at = getelementptr i8, ptr %ctx, i64 88
  %count_at = getelementptr i8, ptr %ctx, i64 96
  %header_at = getelementptr i8, ptr %ctx, i64 104
  store ptr %graph, ptr %graph_at
  store ptr null, ptr %last_at
  store i64 0, ptr %count_at
  store ptr %header, ptr %header_at
  ret i1 true
no:
  ret i1 false
}

; A launch as the next node of the graph: { kernel, grid x y z, block x y z, shared bytes, parameters, extra } after the
; last one. Graphs of more than 4096 are not worth their memory.
define void @dlvm.gpu.note(ptr %ctx, ptr %kernel, i32 %blocks, i32 %block, ptr %parameters) noinline nounwind {
  %launch = alloca { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr }, align 8
  %slot = alloca ptr, align 8
  %node = alloca ptr, align 8
  %graph_at = getelementptr i8, ptr %ctx, i64 80
  %last_at = getelementptr i8, ptr %ctx, i64 88
  %count_at = getelementptr i8, ptr %ctx, i64 96
  %graph = load ptr, ptr %graph_at
  %last = load ptr, ptr %last_at
  %count = load i64, ptr %count_at
  %fits = icmp ult i64 %count, 4096
  br i1 %fits, label %add, label %forget
add:
  %launch0 = insertvalue { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr } zeroinitializer, ptr %kernel, 0
  %launch1 = insertvalue { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr } %launch0, i32 %blocks, 1
  %launch2 = insertvalue { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr } %launch1, i32 1, 2
  %launch3 = insertvalue { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr } %launch2, i32 1, 3
  %launch4 = insertvalue { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr } %launch3, i32 %block, 4
  %launch5 = insertvalue { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr } %launch4, i32 1, 5
  %launch6 = insertvalue { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr } %launch5, i32 1, 6
  %launch7 = insertvalue { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr } %launch6, ptr %parameters, 8
  store { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr } %launch7, ptr %launch
  %is_first = icmp eq i64 %count, 0
  %edges = select i1 %is_first, i64 0, i64 1
  store ptr %last, ptr %slot
  %add_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuGraphAddKernelNode}
  %add_node = load ptr, ptr %add_at
  %status = call i32 %add_node(ptr %node, ptr %graph, ptr %slot, i64 %edges, ptr %launch)
  %is_there = icmp eq i32 %status, 0
  br i1 %is_there, label %added, label %forget
added:
  %new = load ptr, ptr %node
  store ptr %new, ptr %last_at
  %more = add i64 %count, 1
  store i64 %more, ptr %count_at
  ret void
forget:
  call void @dlvm.gpu.forget(ptr %ctx)
  ret void
}

; End a recording, whatever it has.
define void @dlvm.gpu.forget(ptr %ctx) noinline nounwind {
  %graph_at = getelementptr i8, ptr %ctx, i64 80
  %graph = load ptr, ptr %graph_at
  %nothing = icmp eq ptr %graph, null
  br i1 %nothing, label %done, label %drop
drop:
  store ptr null, ptr %graph_at
  %header_at = getelementptr i8, ptr %ctx, i64 104
  %header = load ptr, ptr %header_at
  call void @dlvm.drop(ptr %ctx, ptr %header)
  br label %done
done:
  ret void
}

; End the recording: the header of what replays it, null where there is nothing to replay.
define ptr @dlvm.gpu.recorded(ptr %ctx) noinline nounwind {
  %slot = alloca ptr, align 8
  %graph_at = getelementptr i8, ptr %ctx, i64 80
  %count_at = getelementptr i8, ptr %ctx, i64 96
  %graph = load ptr, ptr %graph_at
  %nothing = icmp eq ptr %graph, null
  br i1 %nothing, label %no, label %look
look:
  %count = load i64, ptr %count_at
  %is_empty = icmp eq i64 %count, 0
  br i1 %is_empty, label %end, label %make
make:
  %make_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuGraphInstantiateWithFlags}
  %instantiate = load ptr, ptr %make_at
  %status = call i32 %instantiate(ptr %slot, ptr %graph, i64 0)
  %is_there = icmp eq i32 %status, 0
  br i1 %is_there, label %made, label %end
made:
  %ready = load ptr, ptr %slot
  %header = call ptr @dlvm.adopt(ptr %ctx, ptr %ready, i64 0, ptr @dlvm.gpu.drop_ready)
  %no_header = icmp eq ptr %header, null
  br i1 %no_header, label %drop, label %end
drop:
  call void @dlvm.gpu.drop_ready(ptr %ctx, ptr %ready, i64 0)
  br label %end
end:
  %found = phi ptr [ null, %look ], [ null, %make ], [ %header, %made ], [ null, %drop ]
  call void @dlvm.gpu.forget(ptr %ctx)
  ret ptr %found
no:
  ret ptr null
}

; Launch what has been recorded. 1: the error record is filled.
define i32 @dlvm.gpu.replay(ptr %ctx, ptr %header) noinline nounwind {
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %ready_at = getelementptr i8, ptr %header, i64 8
  %ready = load ptr, ptr %ready_at
  %launch_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuGraphLaunch}
  %launch = load ptr, ptr %launch_at
  %status = call i32 %launch(ptr %ready, ptr %stream)
  %result = call i32 @dlvm.gpu.status(ptr %ctx, i32 %status)
  ret i32 %result
}

; What headers of graphs call, as memory is given back. The driver keeps what still runs until it is done.
define void @dlvm.gpu.drop_graph(ptr %ctx, ptr %graph, i64 %nbytes) noinline nounwind {
  %graph_at = getelementptr i8, ptr %ctx, i64 80
  %now = load ptr, ptr %graph_at
  %is_now = icmp eq ptr %now, %graph
  %then = select i1 %is_now, ptr null, ptr %now
  store ptr %then, ptr %graph_at
  %destroy_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuGraphDestroy}
  %destroy = load ptr, ptr %destroy_at
  %status = call i32 %destroy(ptr %graph)
  ret void
}

define void @dlvm.gpu.drop_ready(ptr %ctx, ptr %ready, i64 %nbytes) noinline nounwind {
  %destroy_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuGraphExecDestroy}
  %destroy = load ptr, ptr %destroy_at
  %status = call i32 %destroy(ptr %ready)
  ret void
}

; Copy from the device to the host, behind what the stream does, and wait for it. 1: the error record is filled.
define i32 @dlvm.gpu.fetch(ptr %ctx, ptr %to, ptr %from, i64 %nbytes) noinline nounwind {
  call void @dlvm.gpu.forget(ptr %ctx)
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %copy_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuMemcpyDtoHAsync_v2}
  %copy = load ptr, ptr %copy_at
  %status = call i32 %copy(ptr %to, ptr %from, i64 %nbytes, ptr %stream)
  %is_good = icmp eq i32 %status, 0
  br i1 %is_good, label %wait, label %failed
wait:
  %wait_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuStreamSynchronize}
  %synchronize = load ptr, ptr %wait_at
  %waited = call i32 %synchronize(ptr %stream)
  br label %failed
failed:
  %last = phi i32 [ %status, %0 ], [ %waited, %wait ]
  %result = call i32 @dlvm.gpu.status(ptr %ctx, i32 %last)
  ret i32 %result
}

; Copy memory of the device, behind what the stream does; nothing for no bytes. 1: the error record is filled.
define i32 @dlvm.gpu.copy(ptr %ctx, ptr %to, ptr %from, i64 %nbytes) noinline nounwind {
  call void @dlvm.gpu.forget(ptr %ctx)
  %nothing = icmp eq i64 %nbytes, 0
  br i1 %nothing, label %done, label %copy
copy:
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %copy_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuMemcpyDtoDAsync_v2}
  %move = load ptr, ptr %copy_at
  %status = call i32 %move(ptr %to, ptr %from, i64 %nbytes, ptr %stream)
  %result = call i32 @dlvm.gpu.status(ptr %ctx, i32 %status)
  ret i32 %result
done:
  ret i32 0
}

; Copy memory of the host to the device, and wait until it may change. 1: the error record is filled.
define i32 @dlvm.gpu.send(ptr %ctx, ptr %to, ptr %from, i64 %nbytes) noinline nounwind {
  call void @dlvm.gpu.forget(ptr %ctx)
  %stream_at = getelementptr i8, ptr %ctx, i64 72
  %stream = load ptr, ptr %stream_at
  %copy_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuMemcpyHtoDAsync_v2}
  %copy = load ptr, ptr %copy_at
  %status = call i32 %copy(ptr %to, ptr %from, i64 %nbytes, ptr %stream)
  %is_good = icmp eq i32 %status, 0
  br i1 %is_good, label %wait, label %failed
wait:
  %wait_at = getelementptr ptr, ptr @dlvm.imports, i64 {import:cuda:cuStreamSynchronize}
  %synchronize = load ptr, ptr %wait_at
  %waited = call i32 %synchronize(ptr %stream)
  br label %failed
failed:
  %last = phi i32 [ %status, %0 ], [ %waited, %wait ]
  %result = call i32 @dlvm.gpu.status(ptr %ctx, i32 %last)
  ret i32 %result
}

; 0 for success, else 1 with the error record filled.
define i32 @dlvm.gpu.status(ptr %ctx, i32 %status) alwaysinline nounwind {
  %is_good = icmp eq i32 %status, 0
  br i1 %is_good, label %good, label %bad
good:
  ret i32 0
bad:
  %site_at = getelementptr i8, ptr %ctx, i64 24
  store i32 -3, ptr %site_at
  %operand_at = getelementptr i8, ptr %ctx, i64 32
  %wide = sext i32 %status to i64
  store i64 %wide, ptr %operand_at
  ret i32 1
}
