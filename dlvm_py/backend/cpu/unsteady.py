"""`unsteady n`: a guess whether the processor guesses wrong where loops of n trips end.

    turn -= 1
    if turn < 0:                                     32 of 160, or all while the answer is yes
        history = history << 1 | (n != last and n <= most);  last = n
        often = popcount(history) > 17
        turn = -1 if often, 127 if turn <= -32
        answer = often
    else:
        answer = no

A processor finds out itself how many trips the loops have that come one after the other, where there is a pattern, as
is the same number each time. So some of them are asked whether the number has changed: a step, and a jump that is never
guessed wrong, for the others.

The state lies in the frame, in registers once LLVM has seen it, and each thread has its own. It begins with whatever is
there, frozen: that is gone after 160 numbers, and both answers are right.
"""

from __future__ import annotations

from dlvm_py.backend.cpu.function import FunctionEmitter
from dlvm_py.backend.cpu.pointers import frozen
from dlvm_py.backend.cpu.values import FALSE, V, i64
from dlvm_py.ir import Instruction

MANY = V("i32", "17")  # of the 32 bits of the history
AGAIN, ASKED, PAUSE = V("i8", "-1"), V("i8", "-32"), V("i8", "127")  # turns
NONE = V("i8", "0")


def unsteady(e: FunctionEmitter, i: Instruction) -> V:
    """Whether the numbers have changed often of late."""
    n = e.scalar(i.operands[0])
    turns, last, history = e.alloca("i8"), e.alloca("i64"), e.alloca("i32")
    turn = e.op("sub", frozen(e, e.load("i8", turns)), V("i8", "1"))
    e.store(turn, turns)
    before = e.here
    ask, done = e.label("ask"), e.label("done")
    e.cond_br(e.icmp("slt", turn, NONE), ask, done)
    e.place(ask)
    changed = e.icmp("ne", n, frozen(e, e.load("i64", last)))
    counts = e.op("and", changed, e.icmp("ule", n, i64(i.attrs["most"])))
    shifted = e.op("shl", frozen(e, e.load("i32", history)), V("i32", "1"))
    now = e.op("or", shifted, e.cast("zext", counts, "i32"))
    often = e.icmp("ugt", e.intrinsic("llvm.ctpop.i32", "i32", now), MANY)
    e.store(n, last)
    e.store(now, history)
    rest = e.select(e.icmp("sle", turn, ASKED), PAUSE, turn)
    e.store(e.select(often, AGAIN, rest), turns)
    asked = e.here
    e.br(done)
    e.place(done)
    answer = e.phi("i1")
    answer.add(FALSE, before)
    answer.add(often, asked)
    return answer.value
