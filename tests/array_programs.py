"""Random valid programs of stage optimizable, with array values in every place that the IR allows.

Everything is i64, so that results are exact whatever the order of a sum. Rank 1 arrays have n elements ("v")
or n - 1 ("w"), rank 2 arrays n × n ("m"). Programs branch, loop, leave early, swap buffers, call, keep arrays
on stacks, overlap views, and pass undefined values on paths where nobody looks at them.

(`random_ir.py` makes programs for the passes before: array values stay in their blocks there.)
"""

from random import Random

import numpy as np

from dlvm_py.ir import (
    I64,
    UNDEFINED,
    Builder,
    Function,
    Literal,
    Module,
    PointerType,
    TensorType,
    TupleType,
    literal,
    scalar,
)
from dlvm_py.ir.interpreter import run

INT = scalar(I64)
VECTOR, MATRIX = TensorType((None,), I64), TensorType((None, None), I64)
TYPES = {
    "s": INT,
    "v": VECTOR,
    "w": VECTOR,
    "m": MATRIX,
    "v*": PointerType(VECTOR),
    "w*": PointerType(VECTOR),
    "m*": PointerType(MATRIX),
    "V*": PointerType(VECTOR, "S"),  # as v*, with any strides
}
PARAMS = ("v*", "v*", "m*", "V*", "s")
RESULTS = ("s", "v*", "m*")
SIMPLE = (
    "unary binary binary binary load load store store in_place shift view allocate element reduction product "
    "shape stretch select extent"
).split()
NESTED = "branch loop tape swap early_return".split()


class Generator:
    """Makes `module` with @f (v*, v*, m*, V*, s, n) -> (s, v*, m*), and @g of the same type that @f calls."""

    def __init__(self, seed, size=14, depth=3):
        self.rng = Random(seed)
        self.module = Module("random", "optimizable")
        self.result = TupleType(tuple(TYPES[s] for s in RESULTS))
        self.build("g", size // 3, 1)
        self.build("f", size, depth)

    def build(self, name, size, depth):
        self.f = self.module.add(Function(name, self.result))
        self.b = Builder(self.f, self.f.new_block("entry"))
        env = {sort: [] for sort in TYPES}
        for sort in PARAMS:
            env[sort].append(self.b.block.add_arg(TYPES[sort]))
        self.n = self.b.block.add_arg(INT)
        self.m = self.b.emit("subtract", self.n, literal(1))
        self.nn = self.b.emit("multiply", self.n, self.n)
        env["s"].append(literal(3))
        self.statements(env, size, depth)
        self.give(env)

    # -- values of a sort, in terms of what there is ----------------------------------------------

    def counts(self, sort):
        return {"v": [self.n], "w": [self.m], "m": [self.n, self.n]}[sort[0]]

    def pick(self, env, sort):
        """Some value of a sort, recent ones more often: that makes deeper expressions."""
        if env[sort] and self.rng.random() < 0.85:
            count = len(env[sort])
            return env[sort][max(self.rng.randrange(count), self.rng.randrange(count))]
        return self.make(env, sort)

    def make(self, env, sort):
        if sort == "s":
            return self.rng.choice(env["s"])
        if sort == "V*":
            return self.b.emit("pointerCast", self.pick(env, "v*"), to=TYPES["V*"])
        if sort in ("v*", "w*", "m*"):
            value = self.pick(env, sort[0])
            p = self.b.emit("allocateHeap", *self.counts(sort), dtype="i64")
            self.b.emit("store", value, p)
            return p
        if env[sort + "*"] and self.rng.random() < 0.4:
            return self.b.emit("load", self.rng.choice(env[sort + "*"]))
        return self.b.emit("broadcast", self.pick(env, "s"), *self.counts(sort))

    def tensor_sort(self):
        return self.rng.choice("vvwm")

    def pointer_sort(self):
        return self.rng.choice(["v*", "V*", "w*", "m*"])

    # -- statements ----------------------------------------------------------------------------------

    def statements(self, env, size, depth):
        for _ in range(self.rng.randrange(size // 2, size + 1)):
            if depth and self.rng.random() < 0.2:
                getattr(self, self.rng.choice(NESTED))(env, size // 2, depth - 1)
            elif self.f.name == "f" and self.rng.random() < 0.05:
                self.call(env)
            else:
                getattr(self, self.rng.choice(SIMPLE))(env)

    def unary(self, env):
        sort = self.tensor_sort()
        env[sort].append(self.b.emit(self.rng.choice(["negate", "abs", "square"]), self.pick(env, sort)))

    def binary(self, env):
        sort = self.rng.choice("svvwm")
        x, y = self.pick(env, sort), self.pick(env, self.rng.choice([sort, sort, "s"]))
        op = self.rng.choice(["add", "subtract", "multiply", "max"])
        env[sort].append(self.b.emit(op, *self.rng.sample([x, y], 2)))

    def select(self, env):
        sort = self.tensor_sort()
        x, y = self.pick(env, sort), self.pick(env, sort)
        flag = self.b.emit("lessThan", x, self.pick(env, sort))
        env[sort].append(self.b.emit("select", x, y, flag))

    def load(self, env):
        sort = self.pointer_sort()
        env[sort[0].lower()].append(self.b.emit("load", self.pick(env, sort)))

    def store(self, env):
        sort = self.pointer_sort()
        self.b.emit("store", self.pick(env, sort[0].lower()), self.pick(env, sort))

    def in_place(self, env):
        sort = self.pointer_sort()
        p = self.pick(env, sort)
        old = self.b.emit("load", p)
        self.b.emit("store", self.b.emit("add", old, self.pick(env, sort[0].lower())), p)

    def section(self, p, start, count, step):
        return self.b.emit("section", p, start, count, literal(step))

    def shift(self, env):
        """p[i:] = p[j:] op ..., with parts that overlap."""
        p = self.pick(env, self.rng.choice(["v*", "V*"]))
        to, source = (self.section(p, literal(self.rng.randrange(2)), self.m, 1) for _ in range(2))
        value = self.b.emit("add", self.b.emit("load", source), self.pick(env, self.rng.choice("sw")))
        if self.rng.random() < 0.5:
            value = self.b.emit("multiply", self.b.emit("load", to), value)
        self.b.emit("store", value, to)
        env["w"].append(value)

    def view(self, env):
        kind = self.rng.randrange(3)
        if kind == 0:
            env["w*"].append(self.section(self.pick(env, "v*"), literal(self.rng.randrange(2)), self.m, 1))
        elif kind == 1:
            env["V*"].append(self.section(self.pick(env, "v*"), self.m, self.n, -1))
        else:
            row = literal(self.rng.randrange(2))
            env["v*"].append(self.b.emit("elementPointer", self.pick(env, "m*"), row))

    def allocate(self, env):
        sort = self.rng.choice(["v*", "w*", "m*"])
        env[sort].append(self.make(env, sort))

    def element(self, env):
        p = self.b.emit("elementPointer", self.pick(env, "v*"), literal(self.rng.randrange(2)))
        if self.rng.random() < 0.5:
            self.b.emit("store", self.pick(env, "s"), p)
        env["s"].append(self.b.emit("load", p))

    def reduction(self, env):
        sort, by = self.tensor_sort(), self.rng.choice(["add", "max"])
        x = self.pick(env, sort)
        if sort != "m" or self.rng.random() < 0.3:
            axes = tuple(range(x.type.rank))
            env["s"].append(self.b.emit("reduce", x, literal(0), by=by, axes=axes))
        elif self.rng.random() < 0.3:
            row = self.b.emit("unbroadcast", x, literal(1), self.n)
            env["v"].append(self.b.emit("squeezeShape", row, at=0))
        else:
            env["v"].append(self.b.emit("reduce", x, literal(0), by=by, axes=(self.rng.randrange(2),)))

    def product(self, env):
        left, right = self.rng.choice(["mm", "mv", "vm", "vv"])
        y = self.b.emit("dot", self.pick(env, left), self.pick(env, right))
        env["svm"[y.type.rank]].append(y)

    def shape(self, env):
        x = self.pick(env, "m")
        kind = self.rng.randrange(3)
        if kind == 0:
            y = self.b.emit("transpose", x)
        elif kind == 1:
            flat = self.b.emit("negate", self.b.emit("shapeCast", x, self.nn))
            y = self.b.emit("shapeCast", flat, self.n, self.n)
        else:
            y = self.b.emit("squeezeShape", self.b.emit("padShape", x, at=1), at=1)
        env["m"].append(y)

    def stretch(self, env):
        x = self.b.emit("padShape", self.pick(env, "v"), at=self.rng.randrange(2))
        if self.rng.random() < 0.5:
            env["m"].append(self.b.emit("broadcast", x, self.n, self.n))
        else:
            env["m"].append(self.b.emit("subtract", self.pick(env, "m"), x))

    def extent(self, env):
        env["s"].append(self.b.emit("extent", self.pick(env, self.tensor_sort()), at=0))

    def call(self, env):
        """@g may write what it is given, and gives back fresh memory, views of it, or its arguments."""
        args = [*(self.pick(env, s) for s in PARAMS), self.n]
        y = self.b.emit("apply", *args, callee="g", result=self.result)
        for at, sort in self.rng.sample(list(enumerate(RESULTS)), self.rng.randrange(1, 4)):
            env[sort].append(self.b.emit("extract", y, at=at))

    # -- control flow --------------------------------------------------------------------------------

    def some_sorts(self, most):
        return [self.rng.choice(list(TYPES)) for _ in range(self.rng.randrange(most + 1))]

    def inner(self, env):
        return {sort: list(values) for sort, values in env.items()}

    def condition(self, env):
        return self.b.emit("lessThan", self.pick(env, "s"), self.pick(env, "s"))

    def branch(self, env, size, depth):
        sorts = self.some_sorts(3)
        then, join = self.f.new_block("then"), self.f.new_block("join")
        other = join if self.rng.random() < 0.3 else self.f.new_block("else")
        args = [self.pick(env, s) for s in sorts] if other is join else []
        self.b.conditional(self.condition(env), then, [], other, args)
        for block in (then, other):
            if block is not join:
                self.b.at_end(block)
                local = self.inner(env)
                self.statements(local, size, depth)
                self.b.branch(join, [self.pick(local, s) for s in sorts])
        self.b.at_end(join)
        for s in sorts:
            env[s].append(join.add_arg(TYPES[s]))

    def counted(self, sorts, start, body):
        """A loop of three rounds that carries values of `sorts`; what body(i, carried) returns goes round."""
        header, inside, after = (self.f.new_block(name) for name in ("loop", "body", "after"))
        self.b.branch(header, [literal(0), *start])
        i, *carried = (header.add_arg(t) for t in (INT, *(TYPES[s] for s in sorts)))
        self.b.at_end(header)
        self.b.conditional(self.b.emit("lessThan", i, literal(3)), inside, [], after, [])
        self.b.at_end(inside)
        passed = body(i, carried)
        self.b.branch(header, [self.b.emit("add", i, literal(1)), *passed])
        self.b.at_end(after)
        return carried

    def loop(self, env, size, depth):
        """Carries some values, and some that are undefined before the first round and set by each."""
        sorts, ghosts = self.some_sorts(3), self.some_sorts(2)

        def body(i, carried):
            local = self.inner(env)
            for s, v in zip(("s", *sorts), (i, *carried), strict=False):  # ghosts are not looked at
                local[s].append(v)
            self.statements(local, size, depth)
            return [self.pick(local, s) for s in (*sorts, *ghosts)]

        start = [self.pick(env, s) for s in sorts] + [Literal(TYPES[s], UNDEFINED) for s in ghosts]
        every = [*sorts, *ghosts]
        for s, v in zip(every, self.counted(every, start, body), strict=True):
            env[s].append(v)

    def swap(self, env, size, depth):
        """u, v = v, u with a store in each round."""

        def body(i, carried):
            u, v = carried
            self.b.emit("store", self.b.emit("add", self.b.emit("load", u), self.b.emit("load", v)), v)
            return [v, u]

        env["v*"].extend(self.counted(["v*", "v*"], [self.make(env, "v*"), self.pick(env, "v*")], body))

    def tape(self, env, size, depth):
        """Push in a forward loop, pop in a second one: array values or pointers."""
        sort = self.rng.choice(["v", "m", "w", "v*", "m*"])
        stack = self.b.emit("createStack", element=TYPES[sort])

        def forward(i, carried):
            local = self.inner(env)
            local["s"].append(i)
            local["v"].append(carried[0])
            self.statements(local, size // 2, 0)
            self.b.emit("push", self.pick(local, sort), stack)
            return [self.pick(local, "v")]

        def reverse(i, carried):
            local = self.inner(env)
            local[sort].append(self.b.emit("pop", stack))
            local["v"].append(carried[0])
            self.statements(local, size // 2, 0)
            return [self.pick(local, "v")]

        carried = self.counted(["v"], [self.pick(env, "v")], forward)
        env["v"].extend(self.counted(["v"], carried, reverse))
        self.b.emit("destroyStack", stack)

    def early_return(self, env, size, depth):
        leave, stay = self.f.new_block("leave"), self.f.new_block("stay")
        self.b.conditional(self.condition(env), leave, [], stay, [])
        self.b.at_end(leave)
        if self.rng.random() < 0.2:
            self.b.emit("raise", exception="ValueError", message="no")
        else:
            self.give(self.inner(env))
        self.b.at_end(stay)

    def give(self, env):
        self.b.ret(self.b.emit("tuple", *(self.pick(env, sort) for sort in RESULTS)))


def arguments(seed):
    """Arguments for @f: small integers; n = 4."""
    rng = np.random.default_rng(seed)
    a, b, c, d = (rng.integers(-2, 3, shape) for shape in ((4,), (4,), (4, 4), (8,)))
    return [a, b, c, d[::-2], np.int64(rng.integers(-2, 3)), np.int64(4)]


def outcome(module, seed, check_ownership=False, **options):
    """What @f gives and leaves behind: its results (or that it raised), and all arguments after the call."""
    args = arguments(seed)
    try:
        result = run(module, "f", args, check_ownership=check_ownership, **options)
    except ValueError as e:
        assert str(e) == "no"  # the program's own; what an error leaves is freed by the entry
        result = ("raised",)
    return [np.array(x) for x in (*result, *args)]
