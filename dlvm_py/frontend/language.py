"""The language as a table: what is compiled, what is refused, each with an example. docs/language.md is made of it.

tests/language_programs.py has a program for every supported row; the examples of the refused ones are tested too.
"""

from __future__ import annotations

from dlvm_py.frozen import Frozen


class Construct(Frozen):
    """A row: `note` says how far support goes, or for a refused one what to write instead."""

    name: str
    example: str
    note: str
    is_supported: bool = True


def _no(name: str, example: str, instead: str) -> Construct:
    return Construct(name, example, instead, is_supported=False)


CONSTRUCTS: tuple[Construct, ...] = (
    Construct("for: range", "for i in range(n, -1, -2): ...", "any step, also one that is computed"),
    Construct("for: array", "for row in a: ...", "rows are views, elements NumPy scalars"),
    Construct("for: tuple", "for w in (w1, w2): ...", "unrolled, so that the items may have different types"),
    Construct("for: enumerate, zip, reversed", "for i, (a, b) in enumerate(zip(x, y)): ...", "nested as you like"),
    Construct(
        "for: itertools",
        "for i, j in itertools.product(range(n), range(m)): ...",
        "product of any lengths; permutations and combinations of constant ones; accumulate, chain, compress, count, "
        "cycle, dropwhile, filterfalse, islice, pairwise, repeat, starmap, takewhile of anything",
    ),
    Construct(
        "loops over lists that they change",
        "for k in queue: queue.append(2 * k)",
        "also through enumerate, zip, map",
    ),
    Construct("for: zip of different lengths", "for a, b in zip(x, y[:2]): ...", "the shortest ends it"),
    Construct("while", "while err > tol: ...", ""),
    Construct("break, continue, else", "for i in range(n):\n    if x[i] > 1: break\nelse: ...", "on all loops"),
    Construct("early return", "if n == 0: return x", "anywhere, also inside loops"),
    Construct("if, elif, else", "if c > 0: ...", "constant conditions are decided when compiling"),
    Construct("conditional expressions", "a if c else b", ""),
    Construct("chained comparisons", "0 <= i < n", ""),
    Construct("and, or, not", "i < n and x[i] > 0", "with short circuit"),
    Construct("None or a value", "k = None\nif x > 0: k = 1\nif k is None: return x", "as results too, of helpers too"),
    Construct(
        "values of several kinds",
        "total = 0\nfor row in a: total = total + row",
        "a number or an array, arrays of two dtypes, one of two lists or functions: decided when it runs",
    ),
    Construct("match on constants", 'match mode:\n    case "a" | "b": ...', "constants, `|`, names, `_`, guards"),
    Construct(
        "match on structure",
        "match p:\n    case Point(x, y=0.0): ...\n    case (a, *rest): ...",
        "items of tuples and lists of constant length, classes and their attributes",
    ),
    Construct("walrus", "while (y := step(y)) > tol: ...", ""),
    Construct("pass, docstrings, annotations", "y: float = x * 2", "annotations are ignored"),
    Construct(
        "membership",
        "n in (1, 2, 3)",
        "in tuples, lists, ranges, arrays, keys of dicts, displayed sets, frozensets of outside",
    ),
    Construct(
        "sets",
        "seen = set()\nif n not in seen: seen.add(n)",
        "of real numbers and tuples of these; what shows Python's order (loops, list, pop) only where the items are "
        "constants; as results too",
    ),
    Construct("augmented assignment", "a[1:] += b", "to names, elements, slices, attributes, items"),
    Construct("tuples and lists stored in arrays", "a[i] = x, y", "cast one by one; rows of rows, into selections"),
    Construct("unpacking", "a, *rest = values", "of tuples, lists and arrays, nested, starred"),
    Construct("del", "del y", "names, items of dicts and lists"),
    Construct("global constants", "global STEPS", "read as constants that a call compares; arrays as arguments"),
    Construct("import in a function", "from math import pi", "modules and what they hold, as constants"),
    Construct("default, keyword and variadic arguments", "f(x, *args, scale=2, **options)", "in calls and definitions"),
    Construct(
        "arguments from arrays",
        "f(*x[:n])",
        "of arrays, lists, generators of computed length, where f is a plain function without `*args`",
    ),
    Construct("variadic parameters", "def f(*xs): ...", "also of the function that is compiled"),
    Construct("nested functions, closures", "def g(y): return y * c", "compiled where they are called"),
    Construct(
        "decorators on nested functions",
        "@twice\ndef step(v): return v * c",
        "plain functions, functools.wraps, our own",
    ),
    Construct(
        "nonlocal", "def step(v):\n    nonlocal total\n    total += v", "in functions that compiled code defines"
    ),
    Construct("closures that are returned", "p = make(a, b)", "inside of compiled code"),
    Construct("functions passed as arguments", "f(np.sin, x)", "each is a constant of the version"),
    Construct("partial functions", "square = functools.partial(power, n=2)", "made in the function or outside of it"),
    Construct("recursion", "return n * f(n - 1)", "of numbers, arrays, and the caller's lists and dicts"),
    Construct(
        "recursion of nested functions",
        "def g(k): return c if k < 1 else g(k - 1)\ny = g(n)",
        "direct and mutual; what they read around them are numbers and arrays",
    ),
    Construct(
        "recursion of functions that take functions",
        "def halve(f, k): return f(k) if k < 1 else halve(f, k - 1)\ny = halve(lambda k: n * k, n)",
        "a version for each of them: the same one at each call of itself, or one that reads only numbers and arrays",
    ),
    Construct(
        "recursion that changes lists and dicts",
        "def visit(k, seen):\n    seen[k] = True\n    if 2 * k not in seen: visit(2 * k, seen)",
        "lists, dicts, sets and instances that compiled code has made: as arguments, around it, and as results",
    ),
    Construct("mutual recursion", "return odd(n - 1)", ""),
    Construct("raise", 'raise ValueError(f"n is {n:3d}")', "built-in exceptions, and yours from the top of a module"),
    Construct("assert", 'assert n > 0, f"got {n}"', "the message is made where it fails"),
    Construct(
        "try, except, else",
        "try:\n    y = 1 / n\nexcept (ZeroDivisionError, IndexError) as e:\n    print(e)",
        "what Python's own checks, NumPy's shapes, `raise` and `assert` raise, also in functions that are called; "
        "`str(e)`, `repr(e)`, `e.args` of one argument",
    ),
    Construct(
        "try around linear algebra",
        "try:\n    y = np.linalg.inv(x)\nexcept np.linalg.LinAlgError:\n    y = 0.0",
        "solve, inv, cholesky; of a matrix that has no result",
    ),
    Construct("finally", "try: ...\nfinally: x[0] = 0.0", "also on the way of return, break and continue"),
    Construct(
        "raise again",
        "except IndexError:\n    count[0] += 1\n    raise",
        "with `raise` or `raise e`; of `raise X from e` X is what comes",
    ),
    Construct("f-strings", 'name = f"{x:.3f} {n!r}"', "of anything; str, repr, %, .format; for print, raise, assert"),
    Construct("print", 'print("x", x, f"{n:5d}", sep=", ")', "of anything, to sys.stdout or sys.stderr of that moment"),
    Construct(
        "warnings",
        'warnings.warn(f"residual {r}", RuntimeWarning)',
        "the filters of that moment decide; raised, it leaves the compiled function",
    ),
    Construct("list comprehensions", "[v * v for v in x if v > 0]", "and of dicts, with constant keys"),
    Construct("generator expressions", "sum(v * v for v in x)", "wherever a generator can stand; with a name too"),
    Construct(
        "generator functions",
        "def g(n):\n    for k in range(n): yield k * k\nfor v in g(5): ...",
        "nested or at the top of a module, `yield` and `yield from`; read once, from the beginning: by for, sum, any, "
        "max, list, zip, enumerate, map, itertools, next, unpacking, other generators; finally as in Python",
    ),
    Construct("lists that grow", "out.append(x[i])", "numbers, or tuples of them; a buffer that doubles"),
    Construct("lists that grow: rows", "history.append(u.copy())", "arrays of one shape, kept as copies"),
    Construct(
        "lists of lists that grow",
        "t = [[0] * n for _ in range(m)]; t[i][j] = x",
        "shared by reference, ragged, also in tuples; numbers of one type",
    ),
    Construct(
        "list methods",
        "items.extend(x); items.pop()",
        "append, extend, insert, pop, clear, reverse, copy, index, count, remove, sort, +, *, slices, item assignment",
    ),
    Construct("lists: run-time index", "values[i]", "of lists and tuples; a choice between the items"),
    Construct("lists of arrays", "for w, b in zip(weights, biases): ...", "of any shapes where the length is constant"),
    Construct(
        "list arguments",
        "f([w1, w2], [1.0, 2.0])",
        "a version a length; of more than 256 numbers of one Python type, one for all lengths",
    ),
    Construct(
        "lists of the caller that change",
        "def f(xs): xs.append(1.0)",
        "its own list changes, also where an exception leaves; the items keep their types",
    ),
    Construct(
        "lists of lists of the caller that change",
        "def f(a, i): a[i][0] = 1.0; a.append([])",
        "each stays the very list, in or out of the other; at computed places all numbers in them have one type",
    ),
    Construct("dicts of the caller that change", 'def f(d): d["y"] = d["x"] ** 2', "as lists"),
    Construct("instances of the caller that change", "def step(s): s.t += s.dt", "as lists; dataclasses"),
    Construct("list results", "return [x, y]", "also of computed length"),
    Construct("dicts", 'd["x"] = d["y"] * 2', "with constant string keys; every name for a dict sees its changes"),
    Construct("dicts in loops", 'state["t"] += dt', ""),
    Construct(
        "dicts with computed keys",
        "counts = {}\nfor k in x: counts[k] = counts.get(k, 0) + 1",
        "numbers or tuples of numbers, in the order in which they came; values of one type: numbers, arrays of one "
        "shape, tuples of these; all methods, del, in, loops; as results too",
    ),
    Construct(
        "dicts with computed keys as arguments",
        "def f(d, k): d[k] = d[k] * d[k + 1]",
        "one version for all sets of keys, which are of one type, as are the values, all numbers; changes are the "
        "caller's; the derivative is a dict with the same keys",
    ),
    Construct("named tuples", "Particle(x, mass=1.0)", "both kinds, with defaults, `_replace`, `_asdict`"),
    Construct("dataclasses", "state.u += dt * f(state)", "with methods, properties, __post_init__, frozen"),
    Construct(
        "operators of classes",
        "p = -p * 0.5 + v(t)",
        "as their methods say: __add__, __rmul__, __iadd__, __lt__, __call__, __getitem__, __len__, __bool__ ...",
    ),
    Construct("dataclasses in loops", "s = replace(s, t=s.t + dt)", "bound anew or changed"),
    Construct("dataclasses in branches", "s = State(x) if c else s", "where no other name stands for one of the two"),
    Construct("math", "math.hypot(x, y)", "all of it and of cmath, with Python's errors"),
    Construct("sorted", "sorted(items, key=lambda t: t[1], reverse=True)", "of tuples too; also list.sort"),
    Construct("min, max", "max(items, key=abs, default=0.0)", "of tuples too; the first of equal ones"),
    Construct("round", "round(x, 2)", "the nearest decimal, as Python's; of NumPy's numbers as NumPy's"),
    Construct("builtins", "divmod(n, 3)", "abs bool complex divmod enumerate float int isinstance len list map ..."),
    Construct("functools.reduce", "reduce(lambda a, b: a * 2 + b, x)", ""),
    Construct("heapq, bisect", "d, k = heapq.heappop(heap)", "of numbers, and of tuples of them"),
    Construct("operator", "functools.reduce(operator.mul, x)", "the functions for operators, itemgetter"),
    Construct("map", "for v in map(f, x): ...", ""),
    Construct("filter", "sum(filter(f, x))", "a generator"),
    Construct("ranges as sequences", "range(n, 0, -1)[k]", "an index, len, in; no slices"),
    Construct("comparison of tuples and lists", "(x, 1) < (y, 2)", "item by item; the first that differ decide"),
    Construct("random generators", "x = rng.normal(0, 1, size=n)", "NumPy's streams, bit for bit; docs/numpy.md"),
    Construct("with contextlib.suppress", "with suppress(KeyError): x += d[k]", "as `try` with `except ...: pass`"),
    Construct("with np.errstate", 'with np.errstate(divide="ignore"): ...', "compiled code gives no warnings anyway"),
    Construct(
        "strings",
        'if method == "euler": ...',
        "constants, for modes and messages: their methods, loops over them, parts of them",
    ),
    _no(
        "recursion in a try",
        "def f(k): return 1.0 if k < 1 else f(k - 1)\ntry:\n    y = f(n)\nexcept ValueError:\n    y = 0.0",
        "catch inside of the function, or write a loop",
    ),
    _no(
        "try around eigenvalues and singular values",
        "try:\n    y = np.linalg.eigvalsh(x)\nexcept np.linalg.LinAlgError:\n    y = 0.0",
        "catch what does not converge outside",
    ),
    _no("with", "with open('f') as f: pass", "do it outside"),
    _no("class", "class A: pass", "define it at the top of the module"),
    _no("assignment to globals", "global Q\nQ = 1", "return the value"),
    _no("a generator that is compiled itself", "yield n", "compile the function that loops over it"),
    _no("yield inside of an expression", "def g(): y = 1 + (yield n)\nfor v in g(): x = x + v", "y = yield n"),
    _no("a generator that is read twice", "it = (v for v in x)\ny = sum(it) + sum(it)", "make a list of it"),
    _no(
        "generators that loop over themselves",
        "def g(k):\n    yield k\n    yield from g(k - 1)\nfor v in g(n): x = x + v",
        "append to a list",
    ),
    _no("async", "async def g(): pass", "await outside, and pass the values in"),
    _no("the order of a set", "s = set()\ns.add(n)\nfor v in s: x = x + v", "loop over sorted(s)"),
    _no("dicts with keys of two kinds", 'd = {"a": 2.0}\nd[n] = 1.0', "two dicts"),
    _no("decorators that are no plain functions", "@np.vectorize\ndef g(v): return v", "leave it out"),
    _no(
        "recursion that rebinds names around it",
        "c = 0\ndef g(k):\n    nonlocal c\n    c += k\n    if k > 0: g(k - 1)\ng(n)",
        "append to a list, or return the value",
    ),
    _no("patterns with keys", 'match x:\n    case {"a": b}: pass', "if/elif"),
    _no("names of a comprehension in functions", "fs = [lambda v: v * k for k in range(3)]\ny = fs[0](n)", "v, k=k"),
    _no("functools.cache", "from functools import cache\n@cache\ndef g(k): return k\ny = g(n)", "a dict as the memo"),
    _no(
        "collections.deque",
        "from collections import deque\nq = deque()\nq.append(n)",
        "a list, and the index of its first item",
    ),
    _no(
        "collections.defaultdict, Counter",
        "from collections import defaultdict\nd = defaultdict(int)\nd[n] += 1",
        "d[n] = d.get(n, 0) + 1",
    ),
    _no("eval, exec", "y = eval('n')", "write the code"),
)
