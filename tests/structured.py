"""A small structured language on top of the IR builder, for tests that need loops and branches.

    p = Program(F64_TYPE, INDEX)                     parameters
    x, n = p.params
    s = p.var(1.0)                                   a mutable variable
    with p.loop(0, n) as i:                          for i in range(0, n)
        s.set(s * x)
        with p.when(s > 10.0):
            p.leave()                                break
    p.ret(s)

Values are Exprs with operators; mutable variables become block arguments through SSA repair.
"""

from __future__ import annotations

from contextlib import contextmanager

from irbuild import INDEX, new_function

from dlvm_py.ir import F64, OPS, VOID, Expr, Literal, PointerType, Value, literal, scalar
from dlvm_py.ir.verifier import verify
from dlvm_py.transforms import ssa_repair
from dlvm_py.transforms.ssa_repair import Variable, assignment


class Var(Expr):
    """A mutable variable."""

    __slots__ = ()

    def set(self, value):
        """Assign."""
        self.builder.insert(assignment(self.value, lift(value, self.type)))


def lift(x, like=None):
    """A Value of an Expr, a Value or a number."""
    if isinstance(x, Expr):
        return x.value
    if isinstance(x, Value):
        return x
    return literal(x, like)


class Program:
    """One function being built."""

    def __init__(self, *params, name="f"):
        self.module, self.f, self.b, values = new_function(*params, name=name)
        self.params = [self.b.expr(v) for v in values]
        self.loops = []

    def __getattr__(self, op):
        """`p.sin(x)`: any op by name."""
        row = OPS[op]

        def apply(*args, **attrs):
            fixed = [a if isinstance(a, (Expr, Value)) else literal(a) if isinstance(a, int) else a for a in args]
            return row(*fixed, **attrs) if any(isinstance(a, Expr) for a in fixed) else self.emit(op, *fixed, **attrs)

        return apply

    def emit(self, op, *args, **attrs):
        """Emit an op on Exprs and numbers (int: i64, float: f64)."""
        return self.b.expr(self.b.emit(op, *(lift(a) for a in args), **attrs))

    def var(self, value, type=None):
        """A new mutable variable."""
        value = lift(value, type)
        v = Var(self.b, Variable(type or value.type, f"v{id(value) % 97}"))
        v.set(value)
        return v

    # -- memory --------------------------------------------------------------------------------------

    def at(self, p, *keys):
        """A pointer to an element (or row)."""
        return self.emit("elementPointer", p, *keys)

    def get(self, p, *keys):
        """Load of an element, or of all."""
        return self.emit("load", self.at(p, *keys) if keys else p)

    def put(self, value, p, *keys):
        """Store to an element, or to all."""
        self.emit("store", lift(value, scalar(p.type.dtype)), self.at(p, *keys) if keys else p)

    def cut(self, p, *ranges):
        """p[start:start+count:step] of (start, count, step) an axis; None takes all of an axis."""
        whole = [r or (0, self.emit("extent", p, at=k), 1) for k, r in enumerate(ranges)]
        return self.emit("section", p, *(x for part in zip(*whole, strict=True) for x in part))

    def size(self, p, axis=0):
        """Extent."""
        return self.emit("extent", p, at=axis)

    def new(self, *extents, dtype="f64"):
        """Fresh memory."""
        return self.emit("allocateHeap", *extents, dtype=dtype)

    def array(self, value):
        """Fresh memory filled with a tensor."""
        shape = enumerate(value.type.shape)
        p = self.new(*(self.emit("extent", value, at=k) if n is None else n for k, n in shape))
        self.emit("store", value, p)
        return p

    def sum(self, tensor):
        """Sum of all elements."""
        axes = tuple(range(tensor.type.rank))
        return self.emit("reduce", tensor, Literal(scalar(tensor.type.dtype), 0.0), by="add", axes=axes)

    # -- control -------------------------------------------------------------------------------------

    def _block(self, name):
        return self.f.new_block(name)

    def _open(self):
        return self.b.block.terminator is None

    @contextmanager
    def loop(self, start, stop, step=1):
        """for i in range(start, stop, step), step a positive number."""
        i = self.var(start, INDEX)
        head, body, again, out = map(self._block, ("head", "body", "again", "out"))
        self.b.branch(head)
        self.b.at_end(head)
        self.b.conditional(lift(self.emit("lessThan", i, stop)), body, [], out)
        self.b.at_end(body)
        self.loops.append((again, out))
        yield i
        self.loops.pop()
        if self._open():
            self.b.branch(again)
        self.b.at_end(again)
        i.set(self.emit("add", i, step))
        self.b.branch(head)
        self.b.at_end(out)

    @contextmanager
    def while_(self, condition):
        """while condition(): condition builds a bool."""
        head, body, out = map(self._block, ("head", "body", "out"))
        self.b.branch(head)
        self.b.at_end(head)
        self.b.conditional(lift(condition()), body, [], out)
        self.b.at_end(body)
        self.loops.append((head, out))
        yield
        self.loops.pop()
        if self._open():
            self.b.branch(head)
        self.b.at_end(out)

    @contextmanager
    def when(self, condition):
        """if condition."""
        then, out = self._block("then"), self._block("endif")
        self.b.conditional(lift(condition), then, [], out)
        self.b.at_end(then)
        yield
        if self._open():
            self.b.branch(out)
        self.b.at_end(out)

    @contextmanager
    def choose(self, condition):
        """if/else: yields a function to call at the start of the else part."""
        then, other, out = map(self._block, ("then", "else", "endif"))
        self.b.conditional(lift(condition), then, [], other)
        self.b.at_end(then)

        def otherwise():
            if self._open():
                self.b.branch(out)
            self.b.at_end(other)

        yield otherwise
        if self._open():
            self.b.branch(out)
        self.b.at_end(out)

    def leave(self):
        """break."""
        self.b.branch(self.loops[-1][1])

    def again(self):
        """continue."""
        self.b.branch(self.loops[-1][0])

    def ret(self, *values):
        """Return: nothing, one value, or a tuple."""
        values = [lift(v) for v in values]
        if len(values) > 1:
            values = [self.b.emit("tuple", *values)]
        self.f.result = values[0].type if values else VOID
        self.b.ret(*values)

    def done(self):
        """The finished module: variables resolved, verified."""
        if self._open():
            self.ret()
        ssa_repair.run(self.f)
        verify(self.module)
        return self.module


F = scalar(F64)

__all__ = ["F", "INDEX", "PointerType", "Program", "Var", "lift"]
