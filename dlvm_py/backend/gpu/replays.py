"""Loops whose trips launch the same (transforms/replay_loops.py) as CUDA graphs: recorded once, launched as one.

    replay %n after %a period %p      head:    (the loop as it was; its head looks where the counter is)
    branch 'loop(...)                 trip a       record: launches are done, and added to a graph
                                      trip a + p   recorded: what can be launched, once for each p trips that are
                                                   left; then the counter is behind those, and the loop goes on

Where each trip makes an array anew (ir/analysis/turns.py), the memory of an old one is kept in a slot of the frame and
is the next one's. What is recorded is replayed if the memory is where it was when the recording began.

Nothing rests on the recording: the trips that make it run as all others do, and where the driver refuses, or a launch
cannot be in a graph, the loop goes on as if nothing had been tried (runtime/native/gpu.ll).
"""

from __future__ import annotations

from dlvm_py.backend.cpu.memory import release
from dlvm_py.backend.cpu.values import NULL, ZERO, V, i64
from dlvm_py.backend.gpu.host import LAUNCH_FUEL, HostEmitter
from dlvm_py.ir import Instruction
from dlvm_py.ir.analysis.counted_loops import CountedLoop
from dlvm_py.ir.analysis.turns import carried

# as often a recording must be launched to be worth its making: by what the driver's documentation says of graphs, some
# microseconds a node, beside two or three that each launch takes
LEAST = 8
# what a loop waits for
_NOTHING, _TO_RECORD, _TO_REPLAY = 0, 1, 2


class Replay:
    """One loop, whose `replay` has come up. `go_on`: where its head goes on."""

    def __init__(self, h: HostEmitter, mark: Instruction, counted: CountedLoop) -> None:
        self.h, self.counted = h, counted
        self.after, self.period = mark.attrs["after"], mark.attrs["period"]
        self.go_on = h.label("go")
        self.trips = h.scalar(mark.operands[0])
        self.waits, self.at = h.alloca("i64"), h.alloca("i64")
        enough = h.icmp("sge", self.trips, i64(self.after + self.period * (1 + LEAST)))
        h.store(h.select(enough, i64(_TO_RECORD), i64(_NOTHING)), self.waits)
        h.store(self._behind(h.scalar(counted.first), i64(self.after)), self.at)
        self.memory = carried(h.function, counted)
        self.slots = {i: h.alloca("{ ptr, i64 }") for i in dict.fromkeys(self.memory.made.values())}
        for slot in self.slots.values():
            h.line(f"store {{ ptr, i64 }} zeroinitializer, ptr {slot.ref}")
        h.slots |= self.slots | {i: self.slots[of] for i, of in self.memory.releases.items()}
        self.places = [h.alloca("ptr") for _ in range(len(self.slots) + len(self.memory.made))]

    def leave(self) -> None:
        """Give back, behind the loop, what the slots have."""
        for slot in self.slots.values():
            release(self.h, self.h.load("ptr", slot))

    def _memory(self) -> list[V]:
        """Where arrays that trips make are, at the head."""
        arrays = [self.h.pointer(a).data for a in self.memory.made]
        return [*arrays, *(self.h.load("ptr", slot) for slot in self.slots.values())]

    def _behind(self, counter: V, trips: V) -> V:
        """The counter some trips later."""
        return self.h.op("add" if self.counted.step > 0 else "sub", counter, trips)

    def write(self) -> V:
        """Write what the head does first, up to where trips have been replayed: the counter behind them."""
        h = self.h
        counter, waits = h.scalar(self.counted.counter), h.load("i64", self.waits)
        due, record, end, ready = (h.label(name) for name in ("due", "record", "end", "ready"))
        is_due = h.both(h.icmp("ne", waits, ZERO), h.icmp("eq", counter, h.load("i64", self.at)))
        h.likely(is_due, due, self.go_on)
        h.place(due)
        h.store(ZERO, self.waits)
        h.cond_br(h.icmp("eq", waits, i64(_TO_RECORD)), record, end)
        h.place(record)
        h.module.declare("dlvm.gpu.record", "i1", ["ptr"])
        is_recording = h.call("@dlvm.gpu.record", "i1", [h.ctx])
        h.store(h.select(is_recording, i64(_TO_REPLAY), i64(_NOTHING)), self.waits)
        h.store(self._behind(counter, i64(self.period)), self.at)
        for v, place in zip(self._memory(), self.places, strict=True):
            h.store(v, place)
        h.br(self.go_on)
        h.place(end)
        is_there = [h.icmp("eq", v, h.load("ptr", place)) for v, place in zip(self._memory(), self.places, strict=True)]
        if is_there:
            moved, made = h.label("moved"), h.label("made")
            h.likely(h.both(*is_there), made, moved)
            h.place(moved)
            h.stop_recording()
            h.br(self.go_on)
            h.place(made)
        h.module.declare("dlvm.gpu.recorded", "ptr", ["ptr"])
        header = h.call("@dlvm.gpu.recorded", "ptr", [h.ctx])
        h.cond_br(h.icmp("ne", header, NULL), ready, self.go_on)
        h.place(ready)
        left = h.op("sub", self.trips, i64(self.after + self.period))
        times = h.op("udiv", left, i64(self.period))
        h.module.declare("dlvm.gpu.replay", "i32", ["ptr", "ptr"])
        with h.loop(times):
            h.go_on_if_done(h.call("@dlvm.gpu.replay", "i32", [h.ctx, header]))
            h.spend(i64(LAUNCH_FUEL))
        release(h, header)
        return self._behind(counter, h.mul(times, i64(self.period)))
