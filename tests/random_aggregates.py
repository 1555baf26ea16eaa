"""Random programs of the IR on structs, tuples, arrays, enums and memory of them, as text."""

import random

HEAD = """module "random"
stage raw

struct $S {
    #a: f64
    #k: i64
    #v: <2 x f64>
}

enum $E {
    ?none()
    ?some(f64, $S)
    ?many([2 x $S], (f64, bool))
    ?pair($E, $E)
}

var @held: $S
var @last: $E
"""
S, E, ROW, PAIR, VECTOR = "$S", "$E", "[2 x $S]", "(f64, bool)", "<2 x f64>"
# what an element of each type is, by key
PARTS = {
    S: {"#a": "f64", "#k": "i64", "#v": VECTOR},
    ROW: {"0": S, "1": S, "1, #a": "f64", "0, #v": VECTOR, "0, #k": "i64"},
    PAIR: {"0": "f64", "1": "bool"},
    VECTOR: {"0": "f64", "1": "f64"},
}
CASES = {"none": (), "some": ("f64", S), "many": (ROW, PAIR), "pair": (E, E)}
TYPES = ("f64", "i64", "bool", VECTOR, S, ROW, PAIR, E)
RESULT = f"({S}, {E}, {ROW}, f64)"
LITERALS = {"f64": ("0.5", "-2.0", "3.25"), "i64": ("0", "1", "-7"), "bool": ("true", "false")}


class Writer:
    """Writes one function, `@f: ($S, $E, f64, i64) -> ...`; `pools` are the values that are in scope, by type."""

    def __init__(self, rng, name, callee=None):
        self.rng = rng
        self.name = name
        self.callee = callee
        self.lines = []
        self.count = 0
        self.pools = {t: [] for t in TYPES}
        self.memory = [("@held", S)]

    def text(self, size):
        self.pools[S], self.pools[E], self.pools["f64"], self.pools["i64"] = ["%s"], ["%e"], ["%x"], ["%k"]
        self.lines = [
            f"func @{self.name}: ({S}, {E}, f64, i64) -> {RESULT} {{",
            f"'entry(%s: {S}, %e: {E}, %x: f64, %k: i64):",
        ]
        self.statements(size, 0)
        values = ", ".join(f"{self.value(t)}: {t}" for t in (S, E, ROW, "f64"))
        self.add(f"%result = literal ({values}): {RESULT}")
        self.add(f"return %result: {RESULT}")
        return "\n".join([*self.lines, "}"]) + "\n"

    # -- pieces ------------------------------------------------------------------------------------

    def add(self, line):
        self.lines.append("    " + line)

    def new(self, t, line):
        self.count += 1
        name = f"%t{self.count}"
        self.add(f"{name} = {line}")
        self.pools[t].append(name)
        return name

    def value(self, t):
        """An operand of a type, made if there is none."""
        if t in LITERALS and self.rng.random() < 0.3:
            return self.rng.choice(LITERALS[t])
        if self.pools[t] and self.rng.random() < 0.85:
            return self.rng.choice(self.pools[t])
        return self.rng.choice(LITERALS[t]) if t in LITERALS else self.made(t)

    def use(self, t):
        return f"{self.value(t)}: {t}"

    def made(self, t):
        match t:
            case "$S":
                parts = ", ".join(f"{key} = {self.use(p)}" for key, p in PARTS[S].items())
                return self.new(t, f"literal {{{parts}}}: {S}")
            case "[2 x $S]":
                return self.new(t, f"literal [{self.use(S)}, {self.use(S)}]: {ROW}")
            case "(f64, bool)":
                return self.new(t, f"literal ({self.use('f64')}, {self.use('bool')}): {PAIR}")
            case "<2 x f64>":
                return self.new(t, f"literal <{self.use('f64')}, {self.use('f64')}>: {VECTOR}")
        case = self.rng.choice(("none", "some", "many", "pair") if len(self.pools[E]) > 1 else ("none", "some"))
        held = ", ".join(self.use(p) for p in CASES[case])
        return self.new(E, f"literal ?{case}({held}): {E}")

    # -- statements --------------------------------------------------------------------------------

    def statements(self, count, depth):
        kinds = [
            self.arithmetic,
            self.extract,
            self.insert,
            self.build,
            self.allocate,
            self.store,
            self.load,
            self.keep,
        ]
        if self.callee:
            kinds.append(self.call)
        for _ in range(count):
            if depth < 2 and self.rng.random() < 0.15:
                self.rng.choice((self.branch, self.loop))(depth)
            else:
                self.rng.choice(kinds)()

    def arithmetic(self):
        t = self.rng.choice(("f64", "i64", VECTOR))
        a, b = self.value(t), self.value(t)
        if t == VECTOR or self.rng.random() < 0.6:
            self.new(t, f"{self.rng.choice(('add', 'subtract', 'max'))} {a}: {t}, {b}: {t}")
        else:
            self.new("bool", f"lessThan {a}: {t}, {b}: {t}")

    def extract(self):
        t = self.rng.choice(list(PARTS))
        key, part = self.rng.choice(list(PARTS[t].items()))
        self.new(part, f"extract {key} from {self.use(t)}")

    def insert(self):
        t = self.rng.choice(list(PARTS))
        key, part = self.rng.choice(list(PARTS[t].items()))
        self.new(t, f"insert {self.use(part)} to {self.use(t)} at {key}")

    def build(self):
        self.made(self.rng.choice((S, ROW, PAIR, VECTOR, E, E)))

    def allocate(self):
        t = self.rng.choice((S, ROW, PAIR, E))
        how = self.rng.choice((f"allocateHeap {t} count ()", f"allocateStack {t} count 1"))
        self.count += 1
        name = f"%m{self.count}"
        self.add(f"{name} = {how}")
        self.add(f"store {self.use(t)} to {name}: *{t}")
        self.memory.append((name, t))

    def place(self):
        """A pointer to an element of memory."""
        pointer, t = self.rng.choice(self.memory)
        while t in (S, ROW, PAIR) and self.rng.random() < 0.6:
            key, part = self.rng.choice([(k, p) for k, p in PARTS[t].items() if "," not in k])
            self.count += 1
            self.add(f"%p{self.count} = elementPointer {pointer}: *{t} at {key}")
            pointer, t = f"%p{self.count}", part
        return pointer, t

    def store(self):
        pointer, t = self.place()
        self.add(f"store {self.use(t)} to {pointer}: *{t}")

    def load(self):
        pointer, t = self.place()
        self.new(t, f"load {pointer}: *{t}")

    def keep(self):
        """An enum goes through a variable, which outlives the call."""
        self.add(f"store {self.use(E)} to @last: *{E}")
        self.new(E, f"load @last: *{E}")

    def call(self):
        operands = ", ".join(map(self.use, (S, E, "f64", "i64")))
        self.count += 1
        call = f"%c{self.count}"
        self.add(f"{call} = apply @{self.callee}({operands}) -> {RESULT}")
        for k, t in enumerate((S, E, ROW, "f64")):
            self.new(t, f"extract {k} from {call}: {RESULT}")

    # -- control -----------------------------------------------------------------------------------

    def scoped(self, write):
        outer, memory = {t: list(v) for t, v in self.pools.items()}, list(self.memory)
        write()
        self.pools, self.memory = outer, memory

    def block(self):
        self.count += 1
        return f"'b{self.count}"

    def branch(self, depth):
        """On the case of an enum, or on a flag; the arms meet with a struct, an enum and a number."""
        join = self.block()
        joined = (S, E, "f64")

        def arm(label, params):
            def write():
                self.lines.append(f"{label}({', '.join(f'{v}: {t}' for v, t in params)}):")
                for v, t in params:
                    self.pools[t].append(v)
                self.statements(self.rng.randint(0, 3), depth + 1)
                self.add(f"branch {join}({', '.join(map(self.use, joined))})")

            self.scoped(write)

        if self.rng.random() < 0.7:
            value, arms = self.value(E), []
            for case, held in CASES.items():
                self.count += 1
                arms.append((case, self.block(), [(f"%h{self.count}_{k}", t) for k, t in enumerate(held)]))
            self.add(f"branchEnum {value}: {E} " + " ".join(f"case ?{c} {b}" for c, b, _ in arms))
            for _, label, params in arms:
                arm(label, params)
        else:
            then, other = self.block(), self.block()
            self.add(f"conditional {self.value('bool')}: bool then {then}() else {other}()")
            arm(then, [])
            arm(other, [])
        self.arguments(join, joined)

    def arguments(self, label, types):
        names = []
        for t in types:
            self.count += 1
            names.append(f"%a{self.count}")
            self.pools[t].append(names[-1])
        params = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
        self.lines.append(f"{label}({params}):")
        return names

    def loop(self, depth):
        """A few rounds that carry a struct and an enum."""
        head, body, after = self.block(), self.block(), self.block()
        self.add(f"branch {head}(0: i64, {self.use(S)}, {self.use(E)})")
        outer = {t: list(v) for t, v in self.pools.items()}
        i, s, e = self.arguments(head, ("i64", S, E))
        self.count += 1
        self.add(f"%more{self.count} = lessThan {i}: i64, {self.rng.randint(0, 3)}: i64")
        self.add(f"conditional %more{self.count}: bool then {body}() else {after}()")

        def write():
            self.lines.append(f"{body}():")
            self.statements(self.rng.randint(1, 4), depth + 1)
            self.count += 1
            self.add(f"%next{self.count} = add {i}: i64, 1: i64")
            step = f"%next{self.count}"
            self.add(f"branch {head}({step}: i64, {self.use(S)}, {self.use(E)})")

        self.scoped(write)
        self.pools = outer
        self.pools[S].append(s)
        self.pools[E].append(e)
        self.lines.append(f"{after}():")


def program(seed):
    """The text of a module with the function `@f`."""
    rng = random.Random(seed)
    helper = Writer(rng, "g").text(rng.randint(2, 10))
    return "\n".join([HEAD, helper, Writer(rng, "f", "g").text(rng.randint(5, 25))])
